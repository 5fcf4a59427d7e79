"""The table of verdicts: its rows for equilibria, sets of equilibria and cycles, on any network, of any protocol."""

from dataclasses import dataclass, replace
from math import exp, nan

import numpy as np
import pytest
from scipy.special import lambertw

import ecc
from ecc.contract.equilibrium import Equilibrium, EquilibriumSet
from ecc.errors import EccError
from ecc.models import FAST, RCP, TIMELY, UTIL, NewReno, PatchedTIMELY, Protocol, Vegas, all_protocols
from ecc.network.network import Network
from ecc.queues import PI, PI2
from ecc.stability import LimitCycle, all_verdicts, limit_cycle, reference_case, verdicts
from ecc.stability import verdicts as _function
from ecc.stability.verdict_text import cells, records, table_text

assert _function is verdicts
COLUMNS = ["model", "time", "object", "dominant", "step", "stable", "proven", "margin", "omits"]
NET = Network.dumbbell("100 Mb/s", ["100 ms"] * 2)


# ---- equilibria ------------------------------------------------------------------------------------------


def test_a_row_has_the_root_verdict_proof_and_margin_of_each_linear_model():
    table = verdicts(RCP(alpha=0.4, queue_term=False), NET)
    assert table.columns.tolist() == COLUMNS
    assert table.time.tolist() == ["continuous", "discrete", "hybrid"]
    assert set(table.model) == {"explicit feedback"} and set(table.object) == {"equilibrium"}
    for row in table.itertuples():
        system = ecc.linearize(RCP(alpha=0.4, queue_term=False), NET, row.time)
        assert row.dominant == pytest.approx(system.roots(1)[0])
        assert row.stable and row.proven
        assert row.margin == pytest.approx(system.margins().gain_margin)
        assert row.step == (
            pytest.approx(system.sampling[1]) if row.time != "continuous" else pytest.approx(nan, nan_ok=True)
        )


def test_the_verdict_of_an_unstable_loop_is_proven_and_has_no_margin():
    table = verdicts(RCP(alpha=3.0, queue_term=False), NET)
    assert not table.stable.any() and table.proven.all()
    assert table.margin.isna().all()


@pytest.mark.slow
def test_windows_have_a_row_for_each_clocking():
    table = verdicts(FAST(), Network.dumbbell("200 Mb/s", ["100 ms"] * 2))
    continuous = table[table.time == "continuous"]
    assert continuous.model.tolist() == ["ACK-clocked windows", "paced windows"]
    assert continuous.dominant.iloc[0] != continuous.dominant.iloc[1]


@pytest.mark.slow
def test_equal_models_of_both_clockings_are_one_row():
    assert verdicts("HPCC").query("time == 'continuous'").model.tolist() == ["paced windows"]


def test_hosts_over_a_queue_discipline_are_named_with_it():
    table = verdicts({"flows": NewReno(), "links": PI2()}, Network.dumbbell("100 Mb/s", ["100 ms"] * 10))
    assert {"ACK-clocked windows over PI2", "paced windows over PI2"} <= set(table.model)
    assert table.attrs["protocol"] == "NewReno over PI2"
    assert table.omits.str.contains("random choice of packets").all()


@pytest.mark.parametrize(
    "name", ["PIQIRCP", *(pytest.param(n, marks=pytest.mark.slow) for n in ("NewReno", "Compound"))]
)
def test_the_dominant_multiplier_of_a_hybrid_model_is_near_that_of_the_continuous_one(name):
    table = verdicts(name)
    for _, rows in table[(table.time != "discrete") & (table.object == "equilibrium")].groupby("model"):
        continuous, hybrid = (rows[rows.time == time].iloc[0] for time in ("continuous", "hybrid"))
        rate = np.log(hybrid.dominant) / hybrid.step
        assert rate.real == pytest.approx(continuous.dominant.real, rel=0.2)
        assert abs(rate.imag) == pytest.approx(abs(continuous.dominant.imag), rel=0.2, abs=0.1)


def test_refused_models_have_their_reason():
    uneven = Network.dumbbell("200 Mb/s", ["100 ms", "199.123457 ms"])
    table = verdicts(FAST(), uneven)
    assert "paced windows" in set(table.model)
    assert any("heterogeneous RTTs" in reason for reason in table.attrs["refused"].values())


def test_what_a_model_omits_depends_on_its_time_and_loop():
    omits = verdicts("QIRCP").set_index("time").omits
    assert omits["continuous"] == "steps of hosts and routers, packets"
    assert omits["discrete"] == "fractions of a step in delays, packets"
    assert omits["hybrid"] == "packets"
    assert "the limit of queues at 0" in verdicts("RCP").omits.iloc[0]


# ---- sets of equilibria ----------------------------------------------------------------------------------


def test_paced_windows_of_vegas_have_the_root_of_their_queue_across_the_set():
    """By hand: windows are constant in the set, and C b' = -C b(t - D)/D, so that s D = W(-1)."""
    network = Network.dumbbell("100 Mb/s", ["100 ms"] * 4, packet_size=1500)
    table = verdicts(Vegas(), network)
    row = table[(table.model == "paced windows") & (table.time == "continuous")].iloc[0]
    D = 0.1 + 4 * 2 * 1500 * 8 / 100e6
    assert row.object == "set"
    by_hand = complex(lambertw(-1.0)) / D
    assert row.dominant.real == pytest.approx(by_hand.real, rel=1e-9)
    assert abs(row.dominant.imag) == pytest.approx(abs(by_hand.imag), rel=1e-9)
    assert row.stable and row.proven


def test_acks_leave_no_direction_across_the_set_of_vegas():
    table = verdicts(Vegas(), Network.dumbbell("100 Mb/s", ["100 ms"] * 4, packet_size=1500))
    row = table[(table.model == "ACK-clocked windows") & (table.time == "continuous")].iloc[0]
    assert (row.object, row.dominant, bool(row.stable), bool(row.proven)) == ("set", 0.0, True, True)
    assert "every direction is along the set" in row.omits
    assert (
        table.attrs["set"].startswith("any windows with 1 to 3 packets of each flow queued")
        or "1 to 3" in table.attrs["set"]
    )


@pytest.mark.parametrize("alpha, beta", [(1.0, 3.0), (2.0, 4.0), (0.5, 6.0)])
def test_inside_the_set_of_vegas_laws_keep_windows_and_outside_they_return(alpha, beta):
    vegas = Vegas(alpha=alpha, beta=beta)
    network = Network.dumbbell("100 Mb/s", ["100 ms"] * 3, packet_size=1500)
    members = vegas.equilibrium_set(network)
    assert isinstance(members, EquilibriumSet) and members.dimension == 3
    s, p = 8 * 1500, vegas.namespace()
    wait = members.point.queue[0] / network.capacities[0]
    for packets, moved in ((alpha - 0.1, s), (0.5 * (alpha + beta), 0.0), (beta + 0.1, -s)):
        R = packets * wait / (0.5 * (alpha + beta))
        w = packets * s * (0.1 + R) / R  # its share of the queue is `packets`
        assert vegas.source_law(w, R, 0.1 + R, s, p) - w == pytest.approx(moved)
    assert Vegas(alpha=2.0, beta=2.0).equilibrium_set(network) is None


def rounds_of_vegas(alpha, beta, start):
    """Return the packets of each of three equal flows in the queue after each of 60 RTTs, by the law of sec. 3.2."""
    vegas, n, s, base, C = Vegas(alpha=alpha, beta=beta), 3, 12e3, 0.1, 100e6
    window, queued, p = (C * base / n + start * s), [start], Vegas(alpha=alpha, beta=beta).namespace()
    for _ in range(60):
        wait = (n * window / C) - base
        window = vegas.source_law(window, wait, base + wait, s, p)
        queued.append((n * window - C * base) / n / s)
    return np.array(queued)


@pytest.mark.parametrize("start", [6.3, 9.75, 12.5])
def test_rounds_of_vegas_stop_inside_the_set_if_it_is_a_packet_wide(start):
    wide = rounds_of_vegas(2.0, 3.2, start)
    assert np.ptp(wide[-10:]) < 1e-9 and 2.0 - 1e-9 <= wide[-1] <= 3.2 + 1e-9
    assert np.ptp(rounds_of_vegas(2.2, 2.6, start)[-10:]) in (pytest.approx(1.0), pytest.approx(0.0, abs=1e-9))
    network = Network.dumbbell("100 Mb/s", ["100 ms"] * 3, packet_size=1500)
    assert "may pass the set" in Vegas(alpha=2.2, beta=2.6).equilibrium_set(network).outside
    assert "may pass" not in Vegas(alpha=2.0, beta=3.2).equilibrium_set(network).outside


def test_rounds_of_vegas_pass_a_narrow_set_for_ever():
    assert np.ptp(rounds_of_vegas(2.2, 2.6, 6.9)[-10:]) == pytest.approx(1.0)


def test_routers_of_util_forget_their_queue_while_windows_stay():
    """By hand: the persistent queue moves by a quarter of the mean queue of each interval of 200 ms."""
    table = verdicts(UTIL(), Network.dumbbell("100 Mb/s", ["100 ms", "200 ms"])).set_index("time")
    assert table.object.tolist() == ["set"] * 3
    assert table.dominant["continuous"] == pytest.approx(-0.25 / 0.2)
    assert table.dominant["hybrid"] == pytest.approx(0.75)
    assert table.step["hybrid"] == pytest.approx(0.2)
    assert table.step["discrete"] == pytest.approx(0.2)  # the least common multiple of the RTTs
    assert table.dominant["discrete"] == pytest.approx(exp(-0.25))
    assert table.stable.all() and table.proven.all()


def test_a_run_of_util_ends_inside_the_set_and_stays():
    network = Network.dumbbell("5 Mb/s", ["100 ms"] * 2, packet_size=1500)
    run = ecc.fluid.simulate(ecc.Scenario(network, UTIL(), 80.0), sample=0.5)
    load = run.rate[-20:].sum("flow").to_numpy() / (0.98 * 5e6)
    assert 0.8 <= load.min() and load.max() <= 1.0
    assert np.ptp(load) < 1e-6


def test_the_set_of_timely_is_unstable_because_its_law_jumps():
    network = Network.dumbbell("10 Gb/s", ["1 us"] * 2, packet_size=16_000)
    timely = TIMELY(increases_at_zero=False)
    table = verdicts(timely, network)
    row = table[table.time == "continuous"].iloc[0]
    assert (row.object, bool(row.stable), bool(row.proven)) == ("set", False, False)
    assert np.isfinite(row.dominant)
    point = timely.equilibrium_set(network).point
    p, D = timely.namespace(), 275e-6
    x = float(point.rates[0])
    assert timely.source_law(x, D, 0.0, 0.0, p) == x  # at the set
    assert timely.source_law(x, D, -1e-9, 0.0, p) == x + 10e6  # next to it
    assert TIMELY().source_law(x, D, 0.0, 0.0, TIMELY().namespace()) == x + 10e6  # Algorithm 1


def test_the_side_of_rising_delays_next_to_the_set_of_timely_by_hand():
    """x' = -beta x g/h, h g' = alpha [(q(t - D) - q(t - D - h))/(C T) - g], q' = n x, and n x = C at the set."""
    network = Network.dumbbell("10 Gb/s", ["1 us"] * 2, packet_size=16_000)
    table = verdicts(TIMELY(increases_at_zero=False), network).set_index("time")
    s, h, D, T = table.dominant["continuous"], 128e3 / 5e9, 275e-6, 20e-6
    loop = 0.8 * 0.875 * np.exp(-s * D) * (1.0 - np.exp(-s * h)) / (h * T)
    assert abs(s**2 * (h * s + 0.875) + loop) < 1e-9 * abs(loop)
    for time in ("discrete", "hybrid"):
        assert np.log(table.dominant[time]) / table.step[time] == pytest.approx(s, rel=0.25)


def departure(epsilon: float) -> float:
    """Return the largest excess of rates over C, as a share, after rates were `epsilon` C below it, by Euler steps."""
    C, n, delta, beta, alpha, T, seg, wait = 10e9, 2, 10e6, 0.8, 0.875, 20e-6, 128e3, 274e-6
    h = 2e-7
    tau, update = round((wait + 1e-6) / h), round(seg / (C / n) / h)
    steps = 12_000
    y, q, g = -epsilon * C, np.zeros(steps + 1), 0.0
    largest = 0.0
    for k in range(steps):
        q[k + 1] = q[k] + h * y
        seen, before = q[max(k - tau, 0)], q[max(k - tau - update, 0)]
        g += alpha / update * ((seen - before) / (C * T) - g)
        y += 1.0 / update * (n * delta if g < 0.0 else -beta * g * (C + y))
        largest = max(largest, y / C)
    return largest


def test_runs_leave_the_set_of_timely_by_a_distance_that_does_not_depend_on_their_start():
    """An increase lasts for a delay or more: N delta per update of 25.6 us, for 275 us, is 2 % of C."""
    near, nearer = departure(1e-5), departure(1e-8)
    assert near == pytest.approx(nearer, rel=0.05)
    assert nearer > 2 * 10e6 / 10e9 * 275e-6 / 25.6e-6 * 0.9


def test_patched_timely_has_one_equilibrium_and_no_set():
    network = Network.dumbbell("10 Gb/s", ["1 us"] * 2, packet_size=16_000)
    assert PatchedTIMELY().equilibrium_set(network) is None
    assert set(verdicts(PatchedTIMELY(), network).object) == {"equilibrium"}
    assert TIMELY().equilibrium_set(network) is None


def test_sets_are_refused_where_they_are_not_known(monkeypatch):
    monkeypatch.setattr("ecc.cycles.closed_loop.METHODS", ())  # rows of cycles are not the object of this test
    timely = TIMELY(increases_at_zero=False)
    table = verdicts(timely, Network.dumbbell("10 Gb/s", ["1 us", "2 us"]))
    assert "equal RTTs only" in table.attrs["refused"]["set of equilibria"]
    table = verdicts(timely, Network.dumbbell("10 Gb/s", ["1 ms"] * 2))
    assert "has no set of equilibria here: the RTT must be < 0.000275 s" in table.attrs["refused"]["set of equilibria"]
    assert table.object.tolist() == ["cycle", "cycle"]


@dataclass(frozen=True)
class Held(Vegas):
    """Vegas with a wider range, as a custom protocol with a set."""

    beta: float = 10.0


def test_a_custom_protocol_with_a_set_has_its_rows():
    table = verdicts(Held(), Network.dumbbell("100 Mb/s", ["100 ms"] * 2))
    assert "set" in set(table.object) and "1 to 10 packets" in table.attrs["set"]


# ---- cycles, custom protocols, networks -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["EDN", "PEDN"])
def test_protocols_without_equilibrium_have_their_cycle_in_both_times(name):
    table = verdicts(name)
    assert table.time.tolist() == ["continuous", "discrete"]
    assert set(table.object) == {"cycle"}
    assert table.attrs["cycle_network"] == ""
    for row in table.itertuples():
        cycle = limit_cycle(name, time=row.time)
        assert (row.step, row.stable) == (cycle.period, cycle.stable)
        assert cycle.method in row.omits
        # A cycle without multipliers other than those along further cycles has one of 1.
        assert row.dominant == (cycle.dominant if len(cycle.multipliers) else 1.0)


@pytest.mark.slow
def test_hosts_with_a_loop_for_cycles_have_them_next_to_their_equilibria():
    table = verdicts("DCTCP")
    cycles = table[table.object == "cycle"]
    assert cycles.time.tolist() == ["continuous", "discrete"]
    assert cycles.model.str.endswith("over StepMarking").all()
    assert set(table.object) == {"equilibrium", "cycle"}
    assert table.attrs["cycle_network"] == "10 flows, 10 Gb/s, RTT of 100 us"


@pytest.mark.parametrize("protocol", [PatchedTIMELY(), TIMELY(increases_at_zero=False)])
def test_variants_with_equilibria_have_no_cycle(protocol):
    assert not set(verdicts(protocol).object) & {"cycle", "random cycle"}


def test_a_cycle_that_is_not_found_has_a_row_with_the_reason(monkeypatch):
    monkeypatch.setattr("ecc.cycles.closed_loop.METHODS", ())
    table = verdicts("Swift")
    assert table.time.tolist() == ["continuous", "discrete"]
    assert table.stable.isna().all()
    for time, reason in zip(table.time, table.omits, strict=True):
        assert reason.startswith(f"Swift has no computed cycle in {time} time: no method models its kind of loop; ")
        assert reason.endswith(all_protocols()["Swift"]().linear_refusal)
    assert cells(table.iloc[0])[1:] == ("continuous", "cycle", "", "", "", "")


def test_a_cycle_has_its_period_and_its_queue_in_the_row(monkeypatch):
    values, interval = np.array([0.9, 1e-3], complex), (-0.2, -0.05)
    cycle = LimitCycle("random cycle", "continuous", 0.4, 2e4, 5e3, values, 1, -0.1, interval, True, False, "a map")
    monkeypatch.setattr("ecc.cycles.closed_loop.METHODS", (lambda *case: cycle,))
    row = verdicts("Swift").iloc[0]
    assert cells(row)[1:5] == ("continuous", "random cycle", "z = 0.9 per 400 ms", "yes")
    exponent = "Lyapunov exponent -0.1 per period (-0.2 to -0.05)"
    monkeypatch.setattr("ecc.cycles.closed_loop.METHODS", (lambda *case: replace(cycle, multipliers=values[:0]),))
    assert verdicts("Swift").dominant[0] == pytest.approx(exp(-0.1))
    assert row.omits == f"queue of 20 kB ± 5 kB; {exponent}; 1 multiplier 1 along further cycles; a map"


@dataclass(frozen=True)
class Integrator(Protocol):
    """R' = gain (C - y)/N, which all flows send: a root from s = -gain e^(-s D)."""

    gain: float = 2.0
    interval: float = 0.01

    @staticmethod
    def router_law(R, y, C, N, T, p):
        return R + p.gain * T * (C - y) / N

    @staticmethod
    def source_law(R):
        return R

    def equilibrium(self, network, assignment=None):
        n = network.n_flows
        rates = np.full(n, float(network.capacities[0]) / n)
        return Equilibrium(rates, rates[:1], np.zeros(n, dtype=np.int64))


def test_a_custom_protocol_has_all_its_models_on_a_network_of_its_operating_range():
    table = verdicts(Integrator())
    assert table.time.tolist() == ["continuous", "discrete", "hybrid"]
    _, network = reference_case(Integrator())
    D = float(network.rtts[0])
    assert table.dominant[0].real == pytest.approx((complex(lambertw(-2.0 * D)) / D).real)
    assert table.attrs["source"] == "ours"
    assert verdicts(Integrator).dominant.tolist() == table.dominant.tolist()


def test_the_reference_case_has_the_discipline_of_the_reference_loop(monkeypatch):
    monkeypatch.setattr("ecc.cycles.closed_loop.METHODS", ())
    loop, network = reference_case(NewReno())
    assert str(loop) == "NewReno over PI" and network.n_flows == 60
    assert verdicts(NewReno(), NET).attrs["protocol"] == "NewReno"
    pair = {"flows": NewReno(), "links": PI(reference=100.0)}
    kept, _ = reference_case(pair)
    assert kept.protocols[1].reference == 100.0


def test_parameters_of_an_instance_are_kept():
    stable, unstable = (verdicts(replace(RCP(queue_term=False), alpha=alpha)) for alpha in (0.4, 3.0))
    assert stable.stable.all() and not unstable.stable.any()


# ---- the whole table -------------------------------------------------------------------------------------


def test_a_protocol_that_fails_does_not_lose_the_rows_of_the_others(monkeypatch):
    def fails(self, network, assignment=None):
        raise ZeroDivisionError("of this protocol")

    monkeypatch.setattr(FAST, "equilibrium", fails)
    steps = []
    table = all_verdicts(["FAST", "QIRCP"], progress=steps.append)
    assert table.protocol.tolist() == ["FAST", "QIRCP", "QIRCP", "QIRCP"]
    assert table.omits[0] == "ZeroDivisionError: of this protocol"
    assert [(step.text, step.share) for step in steps] == [("FAST", 0.0), ("QIRCP", 0.5)]
    assert table.attrs["network"]["QIRCP"] == "3 flows, 1 Gb/s, RTT of 50 ms"


NUMBERLESS = {
    "Aurora": {"discrete"},  # policies act on intervals of a clock, and have no map per round
    "GCC": {"discrete"},  # its cycle is that of groups of packets
    "Orca": {"continuous", "discrete"},  # its deviations drown in noise
    "SCReAM": {"discrete"},  # its cycle is that of a fluid with the clock of reports
}
LONG = ("BBR", "BBRv1", "BBRv2", "C4")
"""Hosts that probe: cycles of tens of seconds. CI computes others of theirs (tests/cycles/test_probing.py)."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.extensive if name in LONG else ()) for name in all_protocols()]
)
def test_a_protocol_with_an_equilibrium_or_a_set_has_finite_proven_rows(name):
    table = all_verdicts([name])
    assert set(table.protocol) == {name}
    rows = table[table.time != ""]
    numberless = rows[~np.isfinite(rows.dominant.to_numpy())]
    assert set(numberless.time) == NUMBERLESS.get(name, set())
    assert numberless.stable.isna().all() and (numberless.omits != "").all()
    decided = rows[(rows.object == "equilibrium")]
    assert decided.stable.notna().all() and decided.proven.all()


# ---- text, wrong input -----------------------------------------------------------------------------------


def test_a_table_is_text_and_plain_data():
    table = verdicts(Vegas(), Network.dumbbell("100 Mb/s", ["100 ms"] * 4, packet_size=1500))
    text = table_text(table)
    assert "4 flows, 100 Mb/s, RTT of 100 ms" in text and "set: any windows with 1 to 3 packets" in text
    plain = records(table)
    assert plain["models"][0]["dominant"] == [0.0, 0.0] and plain["models"][0]["step"] != 0.0
    assert cells(verdicts("PIQIRCP").iloc[1])[3] == "z = 0.9878 ± 0.04496j per 10 ms"


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (("none",), ValueError, "protocol name must be one of"),
        ((3,), TypeError, "protocol must be"),
        ((int,), TypeError, "protocol must be a Protocol or a class of protocols, got <class 'int'>"),
        (({"links": PI2()},), ValueError, "protocol must be a mapping with 'flows'"),
        (("RCP", 3), TypeError, "network must be"),
    ],
)
def test_wrong_input(arguments, error, message):
    with pytest.raises(error, match=message):
        verdicts(*arguments)


def test_wrong_input_of_the_whole_table():
    with pytest.raises(ValueError, match="protocols must name at least one protocol"):
        all_verdicts([])
    with pytest.raises(ValueError, match="protocol name must be one of"):
        all_verdicts(["none"])
    with pytest.raises((TypeError, EccError)):
        all_verdicts([3])
