"""Cycles of relays: by hand, against the fluid engine and against packets."""

from math import pi, sqrt

import numpy as np
import pytest

import ecc
from ecc.cycles.relays import relay_orbit
from ecc.errors import LinearizationError
from ecc.models import EDN, PEDN, Copa, NewReno, Vegas
from ecc.network.network import Network
from ecc.stability import limit_cycle, measured_cycle, relay_cycle

S = 1500


def network(n, capacity="100 Mb/s", rtt=0.1, **options):
    return Network.dumbbell(capacity, rtts=[rtt] * n, packet_size=S, **options)


def crossings(t, queue):
    """Return the times at which a queue rises through its middle, with hysteresis, and half its range in between."""
    low, high = np.percentile(queue, [2, 98])
    above, times = True, []
    for when, q in zip(t, queue, strict=True):
        if above and q < low + 0.3 * (high - low):
            above = False
        elif not above and q > low + 0.7 * (high - low):
            above = True
            times.append(when)
    ranges = [np.ptp(queue[(t >= a) & (t < b)]) / 2.0 for a, b in zip(times, times[1:], strict=False)]
    return np.diff(times), np.array(ranges)


def test_the_orbit_of_a_relay_by_hand():
    """W^2 is linear in time: up from W* for the RTT D* = W*/C, and down through W* again."""
    C, pipe, step = 100e6, 100e6 * 0.1, 10 * 8.0 * S
    level = pipe + 0.002 * C
    top, bottom = (sqrt(level**2 + sign * 2.0 * step * level) for sign in (1.0, -1.0))
    down = (top**2 - level**2) / (2.0 * step * C)
    up = (level**2 - bottom**2) / (2.0 * step * C)
    orbit = relay_orbit(EDN(quantized=False), network(10))
    assert orbit.amplitude == pytest.approx((top - bottom) / 16.0, rel=1e-9)
    assert orbit.period == pytest.approx(2.0 * level / C + down + up, rel=1e-9)
    assert orbit.queue.max() == pytest.approx((top - pipe) / 8.0, rel=1e-9)
    cubes = [(top**3 - bottom**3) / (3.0 * step * C)]  # the integral of W over a rise, and as much over a fall
    assert orbit.mean == pytest.approx((2.0 * cubes[0] / orbit.period - pipe) / 8.0, rel=1e-9)


CASES = [
    (EDN(), network(10)),
    (PEDN(), network(4)),
    (Vegas(alpha=3.0, beta=3.0), network(4)),
    (Vegas(alpha=3.0, beta=3.5), network(4)),
    (Copa(delta=0.05), network(2, "48 Mb/s")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "net"), CASES, ids=["EDN", "PEDN", "Vegas", "Vegas with a dead zone", "Copa"])
def test_the_orbit_is_that_of_the_fluid(protocol, net):
    cycle = limit_cycle(protocol, net)
    start = {} if protocol == CASES[3][0] else {"start": "equilibrium", "perturbation": 1e-4}
    sample = cycle.period / 200.0
    run = ecc.fluid.simulate(ecc.Scenario(net, protocol, 20.0 if start else 60.0), sample=sample, **start)
    queue = run.queue[-4000 * int(bool(start)) or -2000 :, 0].to_numpy()
    periods, ranges = crossings(sample * np.arange(len(queue)), queue)
    assert periods.mean() == pytest.approx(cycle.period, rel=0.01)
    assert ranges.mean() == pytest.approx(cycle.amplitude, rel=0.01)
    assert queue.mean() == pytest.approx(cycle.mean, rel=0.01)


def test_the_describing_function_has_the_period_and_eight_over_pi_squared_of_the_amplitude():
    for protocol, net in CASES[:2]:
        estimate, cycle = relay_cycle(protocol, net), limit_cycle(protocol, net)
        assert estimate.period == pytest.approx(cycle.period, rel=1e-3)
        assert estimate.amplitude == pytest.approx(8.0 / pi**2 * cycle.amplitude, rel=1e-3)


def test_the_window_now_and_the_delay_then_shorten_the_cycle_of_own_queues():
    """Copa and Vegas multiply a delay of the past by the present window: with long queues the cycle is smaller."""
    net = network(1, "48 Mb/s")
    estimate, cycle = relay_cycle(Copa(delta=0.02), net), limit_cycle(Copa(delta=0.02), net)
    assert cycle.amplitude / S == pytest.approx(44.58, abs=0.01)
    assert estimate.amplitude / cycle.amplitude == pytest.approx(0.909, abs=0.001)
    assert estimate.period / cycle.period == pytest.approx(1.126, abs=0.001)


@pytest.mark.parametrize("protocol", [PEDN(A=40.0, B=60.0, quantized=False), Vegas(alpha=40.0, beta=40.0)])
def test_differences_decay_by_the_share_of_the_queue(protocol):
    """At each switch a window that is larger by x turns earlier, and loses 2 x q/W."""
    net = network(2, "48 Mb/s")
    cycle = limit_cycle(protocol, net)
    share = 80.0 / 480.0
    assert cycle.dominant.real == pytest.approx((1.0 - 2.0 * share) ** 2, abs=0.003)
    assert (len(cycle.multipliers), cycle.along, cycle.stable) == (2, 0, True)
    assert cycle.multipliers[1] == 0.0


def test_differences_of_edn_are_neutral():
    cycle = limit_cycle(EDN(), network(4))
    assert cycle.is_dead_beat and cycle.stable
    assert (len(cycle.multipliers), cycle.along) == (1, 3)


def differences(run, n):
    """Return the difference of two rates as a share of their sum, as means of n samples each."""
    rates = run.rate.to_numpy()
    rates = rates[: len(rates) // n * n].reshape(-1, n, 2).mean(axis=1)
    return (rates[:, 0] - rates[:, 1]) / rates.sum(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "initial", "last"), [(0.1, 230.0, 8), (0.025, 280.0, 2)])
def test_differences_of_copa_decay_as_in_the_fluid(delta, initial, last):
    net = network(2, "48 Mb/s")
    cycle = limit_cycle(Copa(delta=delta), net)
    flows = {"0": Copa(delta=delta, initial=initial), "1": Copa(delta=delta, initial=200.0)}
    run = ecc.fluid.simulate(ecc.Scenario(net, {"flows": flows}, 5.0), sample=cycle.period / 40)
    share = differences(run, 40)
    assert (share[last] / share[0]) ** (1.0 / last) == pytest.approx(cycle.dominant.real, abs=0.1)


@pytest.mark.slow
def test_differences_of_vegas_decay_as_in_the_fluid():
    """Deviations of four packets, since larger ones shrink by a constant number of packets per period."""
    net = network(2, "48 Mb/s")
    cycle = limit_cycle(Vegas(alpha=20.0, beta=20.0), net)
    flows = {name: Vegas(alpha=20.0, beta=20.0, initial=initial) for name, initial in (("0", 252.0), ("1", 244.0))}
    run = ecc.fluid.simulate(ecc.Scenario(net, {"flows": flows}, 4.0), sample=cycle.period / 40)
    share = differences(run, 40)
    assert (share[6] / share[1]) ** 0.2 == pytest.approx(cycle.dominant.real, abs=0.05)


@pytest.mark.slow
def test_differences_of_copa_decay_as_in_packets():
    """Two flows, of which one joins late: mean decay per period from a third to 1/20, in the median of eight joins.

    A flow that joins a queue first overestimates the RTT without queues, so single runs scatter.
    """
    decays = []
    for capacity, delta in (("48 Mb/s", 0.1), ("96 Mb/s", 0.05)):
        for start in (2.0, 2.3, 2.6, 3.0):
            protocol, net = Copa(delta=delta, initial=20.0), network(2, capacity, starts=[0.0, start])
            orbit = relay_orbit(protocol, net, protocol.relay_delays)
            run = ecc.packet.simulate(ecc.Scenario(net, protocol, 14.0), sample=orbit.period / 40)
            share = np.abs(differences(run, 40))
            begins = int(np.flatnonzero(share > 0.3)[-1])
            ends = begins + int(np.flatnonzero(share[begins:] < 0.06)[0])
            decays.append((share[ends] / share[begins]) ** (1.0 / (ends - begins)))
    assert np.median(decays) == pytest.approx(orbit.difference, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "net", "granular"),
    [
        (EDN(quantized=False), network(4), 1.0),
        (Copa(delta=0.02), network(1, "480 Mb/s"), 0.0),
        (Copa(delta=0.02), network(2, "480 Mb/s"), 0.0),
        (Vegas(alpha=20.0, beta=20.0), network(4), 1.0),
        (PEDN(A=40.0, B=60.0, quantized=False), network(4), 0.0),
    ],
    ids=["EDN", "one Copa", "two Copa", "Vegas", "PEDN"],
)
def test_with_the_delays_of_hosts_the_orbit_is_that_of_packets(protocol, net, granular):
    """`granular`: packets by which the peak-to-peak range exceeds that of the fluid, since packets are whole."""
    orbit = relay_orbit(protocol, net, protocol.relay_delays)
    run = ecc.packet.simulate(ecc.Scenario(net, protocol, 60.0), sample=0.002)
    queue = run.queue[10_000:, 0].to_numpy()
    periods, ranges = crossings(0.002 * np.arange(len(queue)), queue)
    assert periods.mean() == pytest.approx(orbit.period, rel=0.03)
    assert ranges.mean() - 0.5 * granular * S == pytest.approx(orbit.amplitude, rel=0.03)


@pytest.mark.parametrize(("protocol", "net"), CASES, ids=["EDN", "PEDN", "Vegas", "Vegas with a dead zone", "Copa"])
def test_in_rounds_windows_alternate_between_two_values(protocol, net):
    cycle = limit_cycle(protocol, net, "discrete")
    step = protocol.params().get("delta", 1.0) ** -1.0 * S
    assert cycle.amplitude == pytest.approx(0.5 * net.n_flows * step, rel=1e-6)
    assert (len(cycle.multipliers), cycle.along, cycle.stable) == (0, net.n_flows, True)
    assert len(cycle.orbit["time"]) == 3


@pytest.mark.slow
def test_the_rounds_are_those_of_the_fluid_in_discrete_time():
    net = network(4)
    cycle = limit_cycle(EDN(), net, "discrete")
    options = {"start": "equilibrium", "perturbation": 1e-3, "time": "discrete"}
    run = ecc.fluid.simulate(ecc.Scenario(net, EDN(), 10.0), sample=0.01, **options)
    queue = run.queue[500:, 0].to_numpy()
    assert np.ptp(queue) / 2.0 == pytest.approx(cycle.amplitude, rel=1e-3)
    periods, _ = crossings(0.01 * np.arange(len(queue)), queue)
    assert periods.mean() == pytest.approx(cycle.period, rel=0.02)


def test_windows_between_the_levels_of_a_wide_dead_zone_come_to_rest():
    protocol = Vegas(alpha=1.0, beta=3.0)
    for time in ("continuous", "discrete"):
        with pytest.raises(LinearizationError, match="windows come to rest between the levels of its law$"):
            limit_cycle(protocol, network(4), time)


def test_refusals():
    with pytest.raises(LinearizationError, match="^it declares no relay$"):
        relay_orbit(NewReno(), network(1))
    with pytest.raises(LinearizationError, match="relays switch together on one link with equal RTTs only"):
        relay_orbit(EDN(), Network.dumbbell("100 Mb/s", rtts=[0.05, 0.1]))
    with pytest.raises(LinearizationError, match="windows of 1.42 packets are too small for their steps"):
        relay_orbit(PEDN(A=0.1, B=0.2), network(1, "100 kb/s", 0.05))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["fluid", "packet"])
def test_the_multipliers_of_copa_are_those_of_disturbed_runs(engine):
    cycle, run = limit_cycle("Copa"), measured_cycle("Copa", engine=engine)
    assert run.dominant.real == pytest.approx(cycle.dominant.real, abs=0.1)
    assert np.abs(run.multipliers[1:]).max() < 0.15  # those of the sum are 0
