"""Paced windows with averaged reports: the linear model against closed forms, the fluid, and packets."""

import numpy as np
import pytest

import ecc
from ecc.errors import LinearizationError
from ecc.models import HPCC, PowerTCP, ThetaPowerTCP
from ecc.models.shared.telemetry import REPORTS
from ecc.network.network import Network
from ecc.scenario import Scenario

C, T = 100e9, 10e-6
h = T / REPORTS
"""Over which a report averages."""


def link(flows, rtt=T):
    return Network.dumbbell(C, [rtt] * flows, packet_size=1000)


def residual(f, s):
    """|f| over the sum of its terms."""
    terms = f(s)
    return abs(sum(terms)) / sum(map(abs, terms))


@pytest.mark.parametrize(("flows", "w_ai"), [(2, 80), (16, 80), (8, 500)])
def test_hpcc_without_a_queue_is_one_delay(flows, w_ai):
    """At RTT T: s T + eps + (1 - eps) e^(-s T)/(1 + s h) = 0, eps = W_AI/W, beside -1/T (of U, which it cancels)."""
    protocol = HPCC(base_rtt=T, line_rate=C, w_ai=w_ai)
    point = protocol.equilibrium(link(flows))
    assert point.queue[0] == 0
    eps = 8.0 * w_ai / (point.rates[0] * T)
    system = ecc.linearize(protocol, link(flows))
    roots = [s for s in system.roots(8) if abs(s + 1.0 / T) > 1e-3 / T]
    slow = -eps / T  # of differences
    found = [s for s in roots if abs(s - slow) > 1e-6 * abs(slow)]
    assert len(found) < len(roots) and len(found) >= 2
    for s in found:
        assert residual(lambda s: [s * T, eps, (1.0 - eps) * np.exp(-s * T) / (1.0 + s * h)], s) < 1e-8
    assert system.certify().stable is True


@pytest.mark.parametrize(
    ("flows", "beta", "gamma"), [(2, 2500, 0.9), (8, 2500, 0.9), (2, 10_000, 0.9), (2, 10_000, 0.1)]
)
def test_powertcp_clocked_by_acks(flows, beta, gamma):
    """The sum of windows is what the queue and the path hold; its change is what comes beyond C."""
    protocol = PowerTCP(base_rtt=T, line_rate=C, beta=beta, gamma=gamma)
    D = T + 8.0 * flows * beta / C
    k, gamma_r = T / D, gamma * C / flows / 8000.0

    def total(s):
        power = k * np.exp(-s * T) * (1.0 + s * D / (1.0 + s * h)) / (1.0 + s * T)
        return [s, gamma_r, -gamma_r * k * np.exp(-s * D), gamma_r * power]

    def differences(s):
        return [s, gamma_r, -gamma_r * k * np.exp(-s * D)]

    for s in ecc.linearize(protocol, link(flows)).roots(6):
        assert min(residual(total, s), residual(differences, s), abs(s * T + 1.0)) < 1e-8


@pytest.mark.parametrize("rtt", [0.2 * T, 0.8 * T])
def test_powertcp_paced_integrates_its_queue(rtt):
    """With a path shorter than T windows are rates W/T: q' = sum of W/T - C."""
    flows, beta = 2, 2500
    protocol = PowerTCP(base_rtt=T, line_rate=C, beta=beta)
    point = protocol.equilibrium(link(flows, rtt))
    assert point.rates.sum() == pytest.approx(C)
    P = 1.0 + point.queue[0] / (C * T)
    assert 1.0 / P == pytest.approx(1.0 - 8.0 * flows * beta / (C * T))
    D, gamma_r = rtt + point.queue[0] / C, 0.9 * C / flows / 8000.0

    def total(s):
        power = (P / (1.0 + s * h) + 1.0 / (s * T)) / (1.0 + s * T) / P**2
        return [s, gamma_r, -gamma_r / P * np.exp(-s * D), gamma_r * power * np.exp(-s * rtt)]

    def differences(s):
        return [s, gamma_r, -gamma_r / P * np.exp(-s * D)]

    roots = ecc.linearize(protocol, link(flows, rtt)).roots(6)
    assert len({complex(s) for s in roots}) == 6
    for s in roots:
        assert min(residual(total, s), residual(differences, s), abs(s * T + 1.0)) < 1e-8


@pytest.mark.parametrize(
    ("protocol", "flows", "rtt", "stable"),
    [
        (HPCC(base_rtt=T, line_rate=C, w_ai=80), 4, T, True),
        (HPCC(base_rtt=T, line_rate=C, w_ai=2000), 4, 0.5 * T, False),  # beyond the rule: with a queue
        (PowerTCP(base_rtt=T, line_rate=4 * C, beta=2500), 8, T, True),
        (PowerTCP(base_rtt=T, line_rate=4 * C, beta=2500), 1, 0.5 * T, False),
        (PowerTCP(base_rtt=T, line_rate=4 * C, beta=2500), 4, 0.1 * T, True),
        (ThetaPowerTCP(base_rtt=T, line_rate=4 * C, beta=2500), 4, T, True),
        (ThetaPowerTCP(base_rtt=T, line_rate=4 * C, beta=2500), 4, 0.5 * T, True),
        (PowerTCP.ns3(C, T), 4, T, True),
        (ThetaPowerTCP.ns3(C, T), 4, T, True),
    ],
)
def test_the_fluid_comes_back_where_the_linear_model_is_stable_and_leaves_where_not(protocol, flows, rtt, stable):
    network = link(flows, rtt)
    system = ecc.linearize(protocol, network)
    assert system.is_stable is stable and system.certify().stable is stable
    point = protocol.equilibrium(network)
    options = {"sample": 1e-6, "start": "equilibrium", "perturbation": 1e-3}
    run = ecc.fluid.simulate(Scenario(network, protocol, 4e-4), **options)
    off = np.abs(run.queue[:, 0].to_numpy() - point.queue[0] / 8.0)
    off += np.abs(run.rate.sum("flow").to_numpy() - point.rates.sum()) * T / 8.0
    early, late = off[10:60].max(), off[-50:].max()
    assert (late > early) is not stable
    if stable:
        assert late < 3e-3 * C * T / 8.0


def test_the_fluid_swings_with_the_frequency_of_the_root_and_so_do_packets():
    """PowerTCP of one flow, over half of T: found as in packets, with less than the capacity used."""
    protocol, network = PowerTCP(base_rtt="40 us", line_rate="40 Gb/s"), Network.dumbbell("10 Gb/s", ["20 us"])
    root = ecc.linearize(protocol, network).roots(1)[0]
    assert root.real > 0
    for engine in (ecc.fluid, ecc.packet):
        run = engine.simulate(Scenario(network, protocol, "4 ms"), sample="1 us")
        queue = run.queue[-2048:, 0].to_numpy()
        turned = np.abs(np.fft.rfft(queue - queue.mean()))
        assert 2.0 * np.pi * turned.argmax() / 2048e-6 == pytest.approx(root.imag, rel=0.5)
        assert np.ptp(queue) > 8e3 and run.goodput[-2048:].mean().item() < 0.97 * 10e9


@pytest.mark.parametrize(
    ("protocol", "queue"),
    [
        (HPCC(base_rtt="40 us", line_rate="10 Gb/s", w_ai=300), 0.0),
        (PowerTCP(base_rtt="40 us", line_rate="10 Gb/s"), 3.2e-6),
        (ThetaPowerTCP(base_rtt="40 us", line_rate="10 Gb/s", least_current=0.5), 3.2e-6),
    ],
)
def test_fluid_beside_packets_from_the_largest_windows(protocol, queue):
    """Rates to 5 %, RTTs to 5 %, in the second half."""
    starts = [0.0, 31.7e-6, 57.41e-6, 101.93e-6]
    network = Network.dumbbell("10 Gb/s", ["40 us"] * 4, packet_size=1000, buffer="1 MB", starts=starts)
    found = []
    for engine in (ecc.fluid, ecc.packet):
        run = engine.simulate(Scenario(network, protocol, "8 ms"), sample="10 us")
        late = slice(len(run.rate) // 2, None)
        found.append((run.rate[late].mean("time").sum().item(), run.queue[late].mean().item() * 8.0 / 10e9))
    (rate, wait), (other, waited) = found
    assert rate == pytest.approx(other, rel=0.05)
    assert 40e-6 + wait == pytest.approx(40e-6 + waited, rel=0.05)
    assert wait == pytest.approx(queue, abs=0.1e-6)


def test_what_has_no_model_is_refused_in_one_line():
    lot = Network.parking_lot([C, C], delay="2 us", packet_size=1000)
    with pytest.raises(LinearizationError, match="HPCC has no linear model if two links of a path report the same"):
        ecc.linearize(HPCC(base_rtt=T), lot)
    with pytest.raises(LinearizationError, match="PowerTCP has no linear model if a path has several queues"):
        ecc.linearize(PowerTCP(base_rtt=T), lot)
    long = link(2, 2 * T)
    with pytest.raises(LinearizationError, match="HPCC has no ACK-clocked linear model if a window that is not pa"):
        ecc.linearize(HPCC(base_rtt=T, line_rate=C), long)
    assert ecc.linearize(HPCC(base_rtt=T, line_rate=C), long, clocking="rate").is_stable
    mixed = Network.dumbbell(C, [T, 0.5 * T], packet_size=1000)
    with pytest.raises(LinearizationError, match="PowerTCP has no linear model if some flows of a queue are paced"):
        ecc.linearize(PowerTCP(base_rtt=T), mixed)
    mixed = Network.dumbbell(C, [1.1 * T, T], packet_size=1000)
    with pytest.raises(LinearizationError, match="PowerTCP has no ACK-clocked linear model with heterogeneous RTTs"):
        ecc.linearize(PowerTCP(base_rtt=T), mixed)
