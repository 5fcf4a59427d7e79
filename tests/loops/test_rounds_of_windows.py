"""Discrete and hybrid models of windows: against maps and runs computed here, and against the continuous models."""

from math import exp

import numpy as np
import pytest

import ecc
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.states import State
from ecc.errors import LinearizationError
from ecc.loops import rounds_of_windows
from ecc.loops.closed_loop import linearize
from ecc.models import ABC, FAST, HPCC, PowerTCP, ThetaPowerTCP
from ecc.models.shared import windows
from ecc.network.network import Network

C, T = 100e9, 10e-6


def link(flows, rtt=T):
    return Network.dumbbell(C, [rtt] * flows, packet_size=1000)


def jacobian(step, x):
    """The derivatives of a map at a point, by central differences."""
    columns = []
    for k, value in enumerate(x):
        h = 1e-6 * abs(value)
        above, below = (np.array(x) + shift * np.eye(len(x))[k] for shift in (h, -h))
        columns.append((step(above) - step(below)) / (2.0 * h))
    return np.array(columns).T


def of_largest_size(values):
    return values[np.argsort(-np.abs(values))]


# FAST: the map of windows per round ----------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("flows", [1, 3])
@pytest.mark.parametrize("rtt", [0.01, 0.1, 3.0])
def test_fast_with_one_rtt_is_stable_for_any_delay(gamma, flows, rtt):
    """Wang, Wei, Choi and Low (2007), abstract: in discrete time FAST is locally stable if all delays are equal.

    On one link the sum of windows obeys W[n + 1] = (1 - gamma) W[n] + gamma (C d + N alpha s) exactly.
    """
    network, fast = Network.dumbbell("100 Mb/s", [rtt] * flows, packet_size=1000), FAST(alpha=50.0, gamma=gamma)
    system = linearize(fast, network, "discrete")
    assert system.is_stable and system.certify().stable
    assert system.spectral_radius == pytest.approx(1.0 - gamma, abs=1e-9)

    def round_of(w):
        q = max(w.sum() / 100e6 - rtt, 0.0)
        return (1.0 - gamma) * w + gamma * (rtt / (rtt + q) * w + 50.0 * 8000.0)

    w = fast.equilibrium(network).rates * (rtt + flows * 50.0 * 8000.0 / 100e6)
    assert round_of(w) == pytest.approx(w, rel=1e-9)
    multipliers = np.linalg.eigvals(jacobian(round_of, w))
    assert np.abs(multipliers - (1.0 - gamma)).min() < 1e-6
    assert np.abs(multipliers).max() < 1.0


def test_fast_with_two_rtts_decays_as_a_run_of_rounds_over_an_integrated_queue():
    """Each host acts at its own ticks and holds its window; the queue integrates w/D. RTTs with queues: 0.1, 0.15 s."""
    d, D = np.array([0.09, 0.14]), np.array([0.1, 0.15])
    alpha, gamma, rate = 62.5, 0.4, 100e6
    network = Network.dumbbell("100 Mb/s", d.tolist(), packet_size=1000)
    fast = FAST(alpha=alpha, gamma=gamma)
    system = linearize(fast, network, "discrete", clocking="rate")
    assert system.dt == pytest.approx(0.3)
    h = 0.0005
    late = np.round(network.forward_delays[:, 0] / h).astype(int)
    back = np.round(D / h).astype(int) - late
    target = fast.equilibrium(network).rates * D
    steps = round(9.0 / h)
    w, b = np.zeros((steps + 1, 2)), np.zeros(steps + 1)
    w[0], b[0] = target * np.array([1.02, 0.99]), 0.01

    def seen(k, i):
        return 0.01 if k - back[i] < 0 else b[k - back[i]]

    for k in range(steps):
        if k:
            w[k] = w[k - 1]
            for i in range(2):
                if k % round(D[i] / h) == 0:  # the queue as it was after the last tick reached it
                    R = seen(k, i)
                    w[k, i] = (1.0 - gamma) * w[k, i] + gamma * (d[i] / (d[i] + R) * w[k, i] + alpha * 8000.0)
        slopes = []
        for ahead in (0, 1):
            arrivals = [w[max(k - late[i], 0), i] / (d[i] + seen(k + ahead, i)) for i in range(2)]
            slopes.append(sum(arrivals) / rate - 1.0)
        b[k + 1] = b[k] + h * np.mean(slopes)
    frames = w[:: round(0.3 / h), 0] / target[0] - 1.0
    assert frames[-2] / frames[-3] == pytest.approx(system.spectral_radius, abs=0.003)
    assert system.spectral_radius == pytest.approx(0.92681, abs=1e-5)


def test_rtts_that_do_not_repeat_are_refused_by_name():
    network = Network.dumbbell("100 Mb/s", [0.1, 0.1 * np.sqrt(2.0)], packet_size=1000)
    with pytest.raises(
        LinearizationError, match=r"^ticks need RTTs, with queues, .* within 1000 ticks, got 0\.\d+, 0\.\d+ s"
    ):
        linearize(FAST(alpha=50.0), network, "discrete", clocking="rate")


# a window with states ------------------------------------------------------------------------------------------------


class Averaging(windows.EndToEndProtocol):
    """A window that steps by an average of queueing delays, and by the value that it had an RTT ago."""

    times = ("continuous", "discrete")
    slow_start_law = None
    combine = "sum"

    @staticmethod
    def router_law(q, C):
        return q / C

    @staticmethod
    def source_law(w, average, before):
        return w + 0.3 * (before - w) + 8.0 * w * (0.02 - average)

    @property
    def states(self):
        return {
            "average": State(lambda R, average: (R - average) / 0.05, "continuous", 0.0),
            "before": State(lambda w: w, "rtt", 1.0, unit="bit"),
        }

    def equilibrium(self, network, assignment=None):
        n = network.n_flows
        point = np.full(network.n_links, 0.02) * network.capacities
        rates = np.full(n, float(network.capacities[0]) / n)
        w = rates * (network.rtts + 0.02)
        return Equilibrium(
            rates,
            np.full(network.n_links, 0.02),
            np.full(n, -1),
            point,
            states={"average": np.full(n, 0.02), "before": w},
        )


@pytest.mark.parametrize("flows", [1, 2])
def test_a_window_with_states_against_its_map(flows):
    """The average moves between two ticks by the queue of the round before the last, as its packets come back."""
    network, D = Network.dumbbell("100 Mb/s", [0.08] * flows, packet_size=1000), 0.1
    system = linearize(Averaging(), network, "discrete")
    kept = exp(-D / 0.05)

    def round_of(x):
        w, earlier, average, before = x[:flows], x[flows : 2 * flows], x[-2 * flows : -flows], x[-flows:]
        average = kept * average + (1.0 - kept) * (earlier.sum() / 100e6 - 0.08)
        return np.concatenate([w + 0.3 * (before - w) + 8.0 * w * (0.02 - average), w, average, w])

    w = np.full(flows, 100e6 * D / flows)
    x = np.concatenate([w, w, np.full(flows, 0.02), w])
    assert round_of(x) == pytest.approx(x)
    multipliers = of_largest_size(np.linalg.eigvals(jacobian(round_of, x)))
    found = of_largest_size(system.roots(6))
    for z in multipliers[np.abs(multipliers) > 0.05]:
        assert np.abs(found - z).min() < 1e-5
    assert system.spectral_radius == pytest.approx(np.abs(multipliers).max(), rel=1e-5)
    assert system.certify().stable is system.is_stable


@pytest.mark.slow
def test_differences_of_equal_hpcc_flows_shrink_by_eta_over_u_per_round():
    """W_c <- W_c eta/U + W_AI once per RTT, and eta/U = 1 - W_AI/W."""
    protocol = HPCC(base_rtt=T, line_rate=C, w_ai=80)
    w = protocol.equilibrium(link(2)).rates[0] * T
    system = linearize(protocol, link(2), "discrete")
    assert np.abs(system.roots(1)[0] - (1.0 - 640.0 / w)) < 1e-9
    assert system.certify().stable is True


@pytest.mark.parametrize(
    ("protocol", "network"),
    [(HPCC(base_rtt=T, line_rate=C, w_ai=80), link(2)), (PowerTCP.ns3(C, T), link(2, 0.5 * T))],
)
def test_combinations_of_states_that_are_not_read_change_no_root(protocol, network, monkeypatch):
    small = linearize(protocol, network, "discrete")

    def complete(system, opened):
        return system

    monkeypatch.setattr(rounds_of_windows, "reduced", complete)
    large = linearize(protocol, network, "discrete")
    size, longest = large.size, int(large.delays.max()) + 1
    companion = np.eye(size * longest, k=-size)
    companion[:size] = 0.0
    for matrix, delay in zip(large.matrices, large.delays.astype(int), strict=True):
        companion[:size, delay * size : (delay + 1) * size] += matrix
    expected = of_largest_size(np.linalg.eigvals(companion))
    found = of_largest_size(np.linalg.eigvals(small.matrices.sum(axis=0)))
    assert small.size < large.size and set(small.delays) == {0.0}
    for z in expected[np.abs(expected) > 0.05]:
        assert np.abs(found - z).min() < 1e-8


# limits --------------------------------------------------------------------------------------------------------------


def dominant(system, near=None):
    """The root [1/s] nearest to a value, or the dominant one."""
    roots = np.asarray(system.roots(8 if near is not None else 1), complex)
    s = np.log(roots) / system.dt if isinstance(system, ecc.linear.SampledSystem) else roots
    s = np.concatenate([s, s.conj()])
    return s[np.abs(s - near).argmin()] if near is not None else s[0]


ONE = Network.dumbbell("100 Mb/s", [0.1] * 2, packet_size=1000)


@pytest.mark.parametrize(
    ("protocol", "network", "options", "finest"),
    [
        (FAST(alpha=50.0), ONE, {}, 64),
        (FAST(alpha=50.0), ONE, {"clocking": "rate"}, 64),
        (Averaging(), Network.dumbbell("100 Mb/s", [0.08], packet_size=1000), {}, 64),
        (ABC(), Network.dumbbell("12 Mb/s", [0.1] * 2), {"clocking": "rate"}, 32),
        (ThetaPowerTCP(base_rtt=T, line_rate=C, beta=2500), link(2), {}, 64),
    ],
    ids=["FAST", "FAST, paced", "with states", "ABC", "theta"],
)
def test_many_updates_per_rtt_tend_to_the_continuous_model_at_first_order(protocol, network, options, finest):
    limit = dominant(linearize(protocol, network, **options))
    gaps = [
        abs(dominant(linearize(protocol, network, "discrete", updates_per_rtt=m, **options), limit) - limit)
        for m in (finest // 2, finest)
    ]
    assert gaps[0] / gaps[1] == pytest.approx(2.0, abs=0.25)
    assert gaps[1] < 0.1 * abs(limit)


class OftenReporting(HPCC):
    """HPCC with routers that measure over a share of the usual interval."""

    share = 1.0

    def params(self):
        values = super().params()
        return values | {"interval": values["interval"] * self.share}


class OftenReportingFaster(OftenReporting):
    share = 0.5


def test_reports_of_arrivals_tend_to_the_continuous_model_at_second_order():
    gaps = []
    for kind in (OftenReporting, OftenReportingFaster):
        protocol = kind(base_rtt=T, line_rate=C, w_ai=80)
        swing = next(s for s in linearize(protocol, link(2)).roots(6) if s.imag > 0.0)
        gaps.append(abs(dominant(linearize(protocol, link(2), "hybrid"), swing) - swing))
    assert gaps[0] / gaps[1] == pytest.approx(4.0, rel=0.1)


def test_routers_with_a_memory_tend_to_the_continuous_model_at_first_order():
    network = Network.dumbbell("12 Mb/s", [0.1] * 2)
    gaps = []
    for measured_over in (0.01, 0.005):
        protocol = ABC(measured_over=measured_over)
        swing = next(s for s in linearize(protocol, network, clocking="rate").roots(6) if s.imag > 0.0)
        gaps.append(abs(dominant(linearize(protocol, network, "hybrid", clocking="rate"), swing) - swing))
    assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "network", "options"),
    [
        (HPCC(base_rtt=T, line_rate=C, w_ai=80), link(2), {}),
        (HPCC(base_rtt=T, line_rate=C, w_ai=80), link(2, 0.8 * T), {}),
        (PowerTCP(base_rtt=T, line_rate=C, beta=2500), link(2), {}),
        (PowerTCP(base_rtt=T, line_rate=C, beta=2500), link(2, 0.5 * T), {}),
        (PowerTCP(base_rtt=T, line_rate=C, beta=2500, old_window="rtt"), link(2, 0.5 * T), {}),
        (PowerTCP.ns3(C, T), link(2), {}),
        (ThetaPowerTCP(base_rtt=T, line_rate=C, beta=2500), link(2), {}),
        (ThetaPowerTCP.ns3(C, T), link(4), {}),
        (ABC(), Network.dumbbell("12 Mb/s", [0.1] * 2), {"clocking": "rate"}),
        (ABC(), Network.dumbbell("3 Mb/s", [0.1] * 2), {}),
    ],
)
def test_every_model_has_a_proven_verdict_and_an_open_loop(protocol, network, options):
    for time in protocol.times:
        system = linearize(protocol, network, time, **options)
        certificate = system.certify()
        assert certificate.stable is system.is_stable, time
        growth = system.spectral_abscissa if time == "continuous" else system.spectral_radius - 1.0
        assert bool(growth < 0.0) is system.is_stable
        at = 0.4 + 0.8j if time == "continuous" else 1.1 * np.exp(0.4j)
        assert np.isfinite(system.open_loop(at))
        assert system.with_gain(1.0).characteristic(at) == pytest.approx(system.characteristic(at))


def test_phases_shift_all_routers_without_effect_on_one_link():
    protocol = PowerTCP(base_rtt=T, line_rate=C, beta=2500)
    systems = [linearize(protocol, link(2), "hybrid", phases=[phase]) for phase in (0.0, 0.3)]
    assert systems[0].spectral_radius == pytest.approx(systems[1].spectral_radius, abs=1e-6)


def test_a_wrong_window_clock_and_a_missing_interval_are_named():
    class Wrong(HPCC):
        window_clock = "V"

    class Plain(ThetaPowerTCP):
        times = ("hybrid",)

    with pytest.raises(
        ValueError, match="^window_clock of Wrong must be 'rtt', 'ack' or the name of a state .* got 'V'"
    ):
        linearize(Wrong(base_rtt=T, line_rate=C), link(2), "discrete")
    with pytest.raises(ValueError, match="^Plain has no control interval: time must be 'continuous' or 'discrete'"):
        linearize(Plain(base_rtt=T, line_rate=C, beta=2500), link(2), "hybrid")
