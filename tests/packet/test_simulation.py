"""The face of the packet engine: scenarios in, labeled trajectories out."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import ecc
from ecc.models import PIQIRCP, QIRCP, RCP, ConstantRate, JetMax, all_protocols
from ecc.network.allocation import max_min
from ecc.network.network import Flow, Link, Network
from ecc.packet import Run, simulate
from ecc.results.trajectory import SERIES
from ecc.scenario import Scenario
from ecc.traffic.workload import Arrivals, Workload

RUNNABLE = [QIRCP(), PIQIRCP(), RCP(), PIQIRCP(update="ack"), JetMax()]
NETWORKS = {
    "dumbbell": Network.dumbbell("50 Mb/s", rtts=[0.05, 0.12, 0.08]),
    "parking_lot": Network.parking_lot(["97 Mb/s", "80 Mb/s"], delay="10 ms"),
}


@pytest.mark.parametrize("protocol", RUNNABLE, ids=lambda p: f"{type(p).__name__}-{getattr(p, 'update', '')}")
@pytest.mark.parametrize("name", NETWORKS)
def test_stationary_rates_are_max_min_fair(protocol, name):
    network = NETWORKS[name]
    run = simulate(Scenario(network, protocol, 40.0), sample=0.5)
    gamma = getattr(protocol, "gamma", 1.0)
    rates = run.rate.sel(time=slice(30.0, None)).mean("time").to_numpy()
    assert rates == pytest.approx(max_min(network, gamma * network.capacities), rel=0.02)


@pytest.mark.parametrize("protocol", [QIRCP(), PIQIRCP(), JetMax()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_equilibrium_is_a_fixed_point_of_packet_runs(protocol, name):
    network = NETWORKS[name]
    protocol = replace(protocol, gamma=0.9)
    run = simulate(Scenario(network, protocol, 12.0), sample=0.5, start="equilibrium")
    expected = protocol.equilibrium(network).rates
    late = run.rate.sel(time=slice(1.0, None)).to_numpy()
    assert np.abs(late / expected - 1.0).max() < 0.02


def test_labels_units_and_averages():
    network = Network.dumbbell("10 Mb/s", rtts=[0.02], stops=[3.0])
    run = simulate(Scenario(network, QIRCP(), 4.0), sample="250 ms")
    missing = {"class_queue", "class_drops", "class_marks", "paused", "pauses"}  # one queue, no pause
    assert set(run.data.data_vars) == set(SERIES) - missing
    assert run.rate.dims == ("time", "flow") and run.queue.dims == ("time", "link")
    assert run.data["time"].to_numpy() == pytest.approx(np.arange(1, 17) * 0.25)
    assert run.rate.attrs["units"] == "bit/s" and run.data.attrs["engine"] == "packet"
    sent = run.rate.sum().item() * 0.25 / 8
    assert run.goodput.sum().item() * 0.25 / 8 == run.flows["delivered"][0] == pytest.approx(sent)
    assert run.bottleneck[0, 0] in (-1, 0) and run.bottleneck[-1, 0] == 0
    assert run.flows["finish"][0] == pytest.approx(3.0)
    assert np.isnan(run.flows["completion_time"][0])
    assert run.is_complete and run.stats["data_packets"] > 1000
    assert Scenario.from_toml(run.data.attrs["scenario"]).network.flows == network.flows
    assert run.to_dataframe("rate").shape == (16, 1)
    assert run.plot().data
    html = run._repr_html_()
    assert html.startswith("<p><b>Trajectory ") and " Run: engine packet, seed " in html.partition("</p>")[0]
    assert "xarray" in html


def test_sized_flows_complete_and_transfers_have_rows_only():
    network = Network.dumbbell("20 Mb/s", rtts=[0.04, 0.04], sizes=["1 MB", "2 MB"], starts=[0.0, 0.5])
    load = Workload([Flow([0], start=1.0, size=30_000)], [Arrivals([0], 0.5, 20_000, start=2.0, stop=18.0)])
    run = simulate(Scenario(network, RCP(), 20.0, workload=load, seed=3), sample=1.0)
    assert run.rate.sizes["flow"] == 2
    table = run.flows
    assert len(table) > 10
    assert table["completion_time"].notna().all()
    assert (table["delivered"] == table["size"]).all()
    assert (table["finish"] - table["start"]).to_numpy() == pytest.approx(table["completion_time"].to_numpy())
    assert table["idle_rtt"].to_numpy()[0] == pytest.approx(network.rtts[0])
    assert (table["min_rtt"] > table["idle_rtt"]).all()
    ideal = table["size"] * 8 / 20e6
    assert (table["completion_time"] > ideal).all()


def test_a_finite_buffer_drops_and_lost_bytes_are_sent_again():
    starts, sizes = [0.0] + [2.0] * 20, ["5 MB"] + ["200 kB"] * 20
    network = Network.dumbbell("10 Mb/s", rtts=[0.1] * 21, buffer="50 kB", starts=starts, sizes=sizes)
    run = simulate(Scenario(network, RCP(), 60.0), sample=0.5)
    assert run.queue_max.max() <= 50_000
    assert run.drops.sum() > 0
    assert run.flows["lost"].sum() > 0 and run.flows["retransmitted"].sum() > 0
    assert (run.flows["delivered"] == run.flows["size"]).all()


def test_a_fixed_assignment_is_listened_to():
    network = Network.parking_lot(["97 Mb/s", "80 Mb/s"], delay="10 ms")
    run = simulate(Scenario(network, QIRCP(gamma=0.9), 30.0, assignment=[0, 0, 1]), sample=0.5)
    assert (run.bottleneck[-1].to_numpy() == [0, 0, 1]).all()
    expected = QIRCP(gamma=0.9).equilibrium(network, np.array([0, 0, 1])).rates
    assert run.rate[-10:].mean("time").to_numpy() == pytest.approx(expected, rel=0.02)


def test_sampling_and_slices_do_not_change_the_run(monkeypatch):
    scenario = Scenario(Network.T_u(join_at=1.0), RCP(), 4.0, seed=5)
    fine, coarse = simulate(scenario, sample=0.01), simulate(scenario, sample=1.0)
    monkeypatch.setattr("ecc.packet.simulation.SLICE", 777)
    seen = []
    sliced = simulate(scenario, sample=1.0, progress=seen.append)
    assert fine.stats["digest"] == coarse.stats["digest"] == sliced.stats["digest"]
    assert len(seen) > 10 and seen == sorted(seen) and 0.0 < seen[0] <= seen[-1] <= 1.0
    assert simulate(scenario.with_(seed=6), sample=1.0).stats["digest"] != coarse.stats["digest"]


def test_ctrl_c_keeps_what_there_is(monkeypatch):
    monkeypatch.setattr("ecc.packet.simulation.SLICE", 5_000)

    def interrupt(share):
        if share > 0.3:
            signal.raise_signal(signal.SIGINT)

    run = simulate(Scenario(Network.dumbbell("50 Mb/s", rtts=[0.05]), QIRCP(), 20.0), progress=interrupt)
    assert run.stopped == "interrupted" and not run.is_complete
    assert 0 < len(run.data["time"]) < 200
    assert run.rate[-1, 0] > 0


@dataclass(frozen=True)
class Failing(QIRCP):
    """QI-RCP whose router divides by zero once the rate is high."""

    def link_hooks(self):
        return {**super().link_hooks(), "on_interval": fail_at_high_rates}


def fail_at_high_rates(link, header, p, env):
    link.arrived = 0.0
    link.R = link.R + 1e6 / (3.0 - env.now // 1.0)
    env.next_interval = p.interval


def test_a_failing_hook_ends_the_run_and_says_where():
    with pytest.warns(
        RuntimeWarning,
        match=r"the run ended at 3\.\d* s: a hook failed: ZeroDivisionError: division by zero \(link 0, on_int",
    ):
        run = simulate(Scenario(Network.dumbbell("50 Mb/s", rtts=[0.05]), Failing(), 10.0))
    assert "ZeroDivisionError: division by zero (link 0, on_interval, t = 3.0" in run.stopped
    assert len(run.data["time"]) == pytest.approx(30, abs=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample": 0.0}, "sample must be > 0 s, got 0.0"),
        ({"sample": 99.0}, r"sample must be <= the duration \(5 s\), got 99 s"),
        ({"start": "warm"}, "start must be one of 'empty', 'equilibrium', got 'warm'"),
        ({"perturbation": 0.1}, "perturbation must be > -1, and 0 unless start='equilibrium', got 0.1"),
        ({"start": "equilibrium", "perturbation": float("nan")}, "perturbation must be a finite number, got nan"),
    ],
)
def test_bad_input_gets_one_line(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulate(Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05]), QIRCP(), 5.0), **arguments)


def test_every_protocol_declares_plain_records():
    from ecc.contract.records import record_dtype

    @dataclass
    class Wrong:
        name: str = ""

    for cls in all_protocols().values():
        for record in ("Header", "LinkState", "FlowState"):
            if hasattr(cls, record):
                assert record_dtype(getattr(cls, record)).itemsize % 8 == 0
    with pytest.raises(TypeError, match="Wrong.name must be float or int, or a tuple of either"):
        record_dtype(Wrong)


def test_links_without_flows_are_fine():
    network = Network([Link("10 Mb/s", 0.01), Link("5 Mb/s", 0.01)], [Flow([0])])
    run = simulate(Scenario(network, QIRCP(), 5.0), sample=0.5)
    assert run.arrival[:, 1].sum() == 0.0
    assert simulate(Scenario(network, QIRCP(), 5.0), start="equilibrium").rate[-1, 0] == pytest.approx(9.5e6, rel=0.02)


def writes_rate_at_the_receiver(flow, header, p, env):
    header.rate = 1.0
    env.rate = 2.0


def drops_on_departure(link, header, p, env):
    env.drop = 1


def rate_below_zero(flow, header, p, env):
    env.rate = -5.0


def looks_only(flow, header, p, env):
    seen = env.rtt + flow.x
    seen += 1.0


@dataclass(frozen=True)
class Changed(QIRCP):
    """QI-RCP with one hook that is wrong."""

    wrong: str = "looks_only"

    def link_hooks(self):
        return super().link_hooks() | ({"on_departure": drops_on_departure} if self.wrong == "drops" else {})

    def flow_hooks(self):
        changed = {
            "looks": {"on_timer": looks_only},
            "receiver": {"on_receive": writes_rate_at_the_receiver},
            "negative": {"on_ack": rate_below_zero},
        }
        return super().flow_hooks() | changed.get(self.wrong, {})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            "looks",
            r"hook on_timer, looks_only \(test_simulation.py:\d+\): writes no field of any record, and so does",
        ),
        (
            "receiver",
            r"hook on_receive, .* line \d+ writes env.rate: of env, this hook may write control_size, control_kind",
        ),
        ("drops", r"hook on_departure, .* writes env.drop: of env, this hook may write mark, next_interval"),
    ],
)
def test_hooks_that_write_nothing_or_what_they_may_not_are_refused(wrong, message):
    with pytest.raises(TypeError, match=message):
        simulate(Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05]), Changed(wrong=wrong), 5.0))


def reads_random(link, header, p, env):
    env.drop = int(draws_below(env, 0.5))


def draws_below(here, share):
    return here.random < share


def reads_sojourn(link, header, p, env):
    env.drop = int(env.sojourn > 0.1)


def reads_flow_queue(link, header, p, env):
    env.drop = int(env.flow_queue > 10_000)


def sends_at_random(flow, header, p, env):
    env.rate = 1e6 * env.random


@pytest.mark.parametrize(
    ("side", "name", "hook", "wanted", "message"),
    [
        (
            "link",
            "on_arrival",
            reads_random,
            "random",
            r"hook on_arrival, reads_random .*: draws_below .* line \d+ reads env.random, which is 0 unless "
            r"required_env",
        ),
        ("link", "on_arrival", reads_flow_queue, "flow_queue", r"reads env.flow_queue, which is 0 unless required_env"),
        ("flow", "on_ack", sends_at_random, "random", r"sends_at_random .* reads env.random, which is 0 unless"),
        (
            "link",
            "on_arrival",
            reads_sojourn,
            None,
            r"reads env.sojourn, which is 0 there: only on_dequeue, on_drop, on_interval have it",
        ),
        ("link", "on_dequeue", reads_sojourn, "", ""),
    ],
)
def test_hooks_that_read_what_would_always_be_zero_are_refused(side, name, hook, wanted, message):
    class Reading(QIRCP):
        def link_hooks(self):
            return super().link_hooks() | ({name: hook} if side == "link" else {})

        def flow_hooks(self):
            return super().flow_hooks() | ({name: hook} if side == "flow" else {})

    scenario = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05]), Reading(), 0.2)
    if message:
        with pytest.raises(TypeError, match=message) as caught:
            simulate(scenario)
        assert "\n" not in str(caught.value)
    if wanted is not None:
        Reading.required_env = frozenset({wanted})
        assert simulate(scenario).is_complete


class Plain:
    """A state that is no dataclass."""

    x = 1.0


class WithPlain(QIRCP):
    FlowState = Plain


class NotDecorated(QIRCP):
    """A parameter that is annotated, in a class that is not decorated."""

    target: float = 2.0

    def flow_hooks(self):
        return super().flow_hooks() | {"on_ack": reads_target}


@dataclass(frozen=True)
class NotReturned(QIRCP):
    """A parameter that params() leaves out."""

    target: float = 2.0

    def params(self):
        return {name: value for name, value in super().params().items() if name != "target"}

    def flow_hooks(self):
        return super().flow_hooks() | {"on_ack": reads_target}


def reads_target(flow, header, p, env):
    env.rate = p.target * header.rate


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (WithPlain(), "^FlowState of WithPlain must be a dataclass, decorated with @dataclass, got Plain$"),
        (
            NotDecorated(),
            r"no such field p.target .*; target of NotDecorated is not a parameter: annotate it, and decorate",
        ),
        (NotReturned(), r"no such field p.target .*; target of NotReturned is a parameter: it must be a number,"),
    ],
    ids=["state", "class", "params"],
)
def test_declarations_that_lack_a_decorator_are_refused_with_what_to_do(protocol, message):
    with pytest.raises(TypeError, match=message) as caught:
        simulate(Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05]), protocol, 0.2))
    assert "\n" not in str(caught.value)


def test_samples_are_apart_by_a_picosecond():
    scenario = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05]), QIRCP(), 1e-12)
    with pytest.raises(
        ValueError, match="^duration must be >= 1e-11 s, as samples are at least 1 ps apart, got 1e-12 s$"
    ):
        simulate(scenario)
    with pytest.raises(ValueError, match="^sample must be >= 1e-12 s, got 1e-13 s$"):
        simulate(scenario, sample=1e-13)
    assert simulate(scenario, sample=1e-12).is_complete and simulate(scenario.with_(duration=1e-11)).is_complete


@dataclass
class Counted:
    """The state of a flow with whole numbers."""

    ticks: int = 0
    table: tuple[int, ...] = (0, 0)


class Counting(ConstantRate):
    """Hooks that count beyond 64 bits."""

    FlowState = Counted
    hook: Any = None

    def flow_hooks(self):
        return super().flow_hooks() | {"on_ack": self.hook}


def adds_too_much(flow, header, p, env):
    flow.ticks = flow.ticks + 2**62 + 2**62


def adds_too_much_in_a_table(flow, header, p, env):
    flow.table[1] = flow.ticks + 2**62 + 2**62


def holds_too_much(flow, header, p, env):
    flow.ticks = 2**63


@pytest.mark.parametrize(
    ("hook", "what"),
    [
        (adds_too_much, "field ticks is an int of 64 bits"),
        (adds_too_much_in_a_table, "an int array must have whole .*"),
    ],
)
def test_whole_numbers_beyond_64_bits_wrap_compiled_and_end_a_run_of_the_twin(hook, what, monkeypatch):
    monkeypatch.setattr(Counting, "hook", staticmethod(hook))
    scenario = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05]), Counting("1 Mb/s"), 0.2)
    wrapped = simulate(scenario, record=["flow.ticks"], sample=0.1)
    assert wrapped.is_complete and float(wrapped["flow.ticks"][-1, 0]) in (0.0, -(2.0**63))
    with pytest.warns(
        RuntimeWarning, match=f"a hook failed: OverflowError: {what}, got 9223372036854775808 .flow 0, on_a"
    ):
        run = simulate(scenario, record=["flow.ticks"], sample=0.1, engine="python")
    assert run.stopped.endswith(f"(flow 0, on_ack, t = {run.stats['now']:.12g} s)")


def test_constants_beyond_64_bits_are_refused(monkeypatch):
    monkeypatch.setattr(Counting, "hook", staticmethod(holds_too_much))
    scenario = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05]), Counting("1 Mb/s"), 0.2)
    with pytest.raises(
        TypeError, match=r"line \d+ has 9223372036854775808: whole numbers are from -2\^63 to 2\^63 - 1"
    ):
        simulate(scenario)


def test_a_bad_rate_ends_the_run_and_says_which():
    expected = r"rate must be finite and >= 0 bit/s, got -5 \(flow 0, on_ack, t = 0.05"
    with pytest.warns(RuntimeWarning, match=expected) as caught:
        simulate(Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05]), Changed(wrong="negative"), 5.0))
    assert [one.filename for one in caught] == [__file__]
    run = Run(Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05]), Changed(wrong="negative"), 5.0))
    with pytest.warns(RuntimeWarning, match=expected) as caught:
        run.advance()
    assert [one.filename for one in caught] == [__file__]


def test_packets_that_take_less_than_the_clock_can_count_are_refused():
    def run(capacity, packet_size=1, **flow):
        network = ecc.Network([ecc.Link(capacity, "1 ms")], [ecc.Flow([0], packet_size=packet_size, **flow)])
        hosts = {"flows": ecc.models.ConstantRate("1 Mb/s"), "links": ecc.queues.DropTail()}
        return ecc.packet.simulate(ecc.Scenario(network, hosts, 1e-3), sample=1e-4)

    message = (
        r"capacity must let a packet take at least 1 ps, 8e\+12 bit/s for 1 bytes, got 1e\+18 bit/s \(link 0, flow 0\)"
    )
    with pytest.raises(ValueError, match=message):
        run(1e18)
    with pytest.raises(ValueError, match=r"3.2e\+14 bit/s for 40 bytes, got 4e\+14 bit/s"):
        run(4e14, 1500, reverse=[0])
    assert run(8e12).is_complete and run(4e14, 1500).is_complete


def test_parameters_of_protocols_are_numbers_or_arrays():
    class Weighted(ecc.models.RCP):
        def params(self):
            return {**super().params(), "weights": np.array([[0.1, 0.2]])}

    class Named(ecc.models.RCP):
        def params(self):
            return {**super().params(), "mode": "fast"}

    network = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
    for engine in (ecc.packet, ecc.fluid):
        with pytest.raises(TypeError, match=r"^weights in params\(\) of Weighted must be an array of numbers, got .*"):
            engine.simulate(ecc.Scenario(network, Weighted(), 1.0))
        with pytest.raises(TypeError, match=r"^params\(\) of Named must have a number or an array of numbers for mode"):
            engine.simulate(ecc.Scenario(network, Named(), 1.0))


def test_a_table_of_times_is_refused_in_one_line():
    scenario = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05]), QIRCP(), 1.0)
    with pytest.raises(TypeError, match="histogram_from must be a number or a string with a unit, got array"):
        simulate(scenario, histogram_from=np.zeros((2, 2)))
