"""ABC by hand, at its equilibria, at its stability limit, and in packets beside the fluid."""

from math import exp, pi
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import lambertw

import ecc
from ecc.errors import LinearizationError
from ecc.models import ABC, accel_brake
from ecc.network.impairments import CapacitySchedule
from ecc.network.network import Network
from ecc.scenario import Scenario

C, S, TAU = 100e6, 1500, 0.1


def network(flows, tau=TAU, capacity=C, **options):
    starts = [0.0137 * k for k in range(flows)]
    return Network.dumbbell(capacity, [tau] * flows, packet_size=S, starts=starts, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ABC(eta=0.0), "eta must be > 0, got 0.0"),
        (lambda: ABC(eta=1.5), "eta must be <= 1, got 1.5"),
        (lambda: ABC(delta=0.0), "delta must be > 0 s, got 0.0"),
        (lambda: ABC(target_delay=-1.0), "target_delay must be >= 0 s, got -1.0"),
        (lambda: ABC(token_limit=0.5), "token_limit must be >= 1, got 0.5"),
        (lambda: ABC().equilibrium(network(1), np.array([0])), "assignment must be None: flows of ABC follow the link"),
    ],
)
def test_bad_parameters_get_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_laws_by_hand():
    p = ABC(delta=0.1, target_delay=0.05).namespace()
    assert accel_brake.target_rate(0.05 * C, C, p) == 0.98 * C  # up to d_t nothing is taken back
    assert accel_brake.target_rate(0.07 * C, C, p) == pytest.approx((0.98 - 0.2) * C)
    assert accel_brake.target_rate(1.0 * C, C, p) == 0.0
    assert accel_brake.accelerated(0.98 * C, C) == 0.49
    assert accel_brake.accelerated(0.98 * C, 0.4 * C) == 1.0
    assert ABC.announce_law(C, 0.07 * C, C, p) == pytest.approx(1.0 - 0.39)
    assert ABC.router_law(0.5 * C, 0.7 * C, 0.0, C, 0.002, p) == pytest.approx((0.5 + 0.2 * 0.2) * C)
    assert ABC.router_law(C, 0.7 * C, 0.01 * C, C, 0.002, p) == C  # a queue keeps it busy
    assert ABC.source_law(10.0, 0.5, 1.0) == 11.0
    assert ABC.source_law(10.0, 1.0, 1.0) == 1.0


def router(**fields):
    """As in a run, where records have arrays."""
    state = ABC.LinkState(**fields)
    state.sent_by, state.departed_by = list(state.sent_by), list(state.departed_by)
    return state


def leaving(link, now, p, mark=accel_brake.ACCELERATE, queue=0):
    header = SimpleNamespace(mark=mark)
    env = SimpleNamespace(now=now, packet_size=S, queue=queue, capacity=C, kind=0)
    accel_brake.link_on_departure(link, header, p, env)
    return header.mark


@pytest.mark.parametrize("gap", [0.12e-3, 0.7e-3, 3e-3, 15e-3])
def test_a_router_measures_what_leaves(gap):
    p, link = ABC().namespace(), router()
    rates = []
    for k in range(1, 400):
        env = SimpleNamespace(now=k * gap, packet_size=S)
        rates.append(accel_brake.counted(link, p, env))
    assert rates[-100:] == pytest.approx([8 * S / gap] * 100, rel=1e-9)
    late = accel_brake.counted(link, p, SimpleNamespace(now=400 * gap + 10.0, packet_size=S))
    assert late == pytest.approx(8 * S / 0.02)  # after an idle time, one packet in `measured_over`


@pytest.mark.parametrize(("wait", "share"), [(0.0, 0.49), (0.0833, 0.49 - 0.5 * 0.0333 / 0.133), (0.3, 0.0)])
def test_tokens_mark_the_share_of_packets(wait, share):
    """Of a link that sends all the time; without tokens all brake, and what brakes already takes no token."""
    p, link, gap = ABC().namespace(), router(tokens=0.0), 8 * S / C
    marks = [leaving(link, k * gap, p, queue=int(wait * C / 8)) for k in range(1, 2501)]
    assert np.mean(np.array(marks[500:]) == accel_brake.ACCELERATE) == pytest.approx(share, abs=1e-3)
    braked = [leaving(link, k * gap, p, mark=accel_brake.BRAKE) for k in range(2501, 2600)]
    assert set(braked) == {accel_brake.BRAKE} and link.tokens == p.token_limit
    assert leaving(link, 2600 * gap, p, mark=0) == 0  # of another protocol


def test_a_host_by_hand():
    p, flow = ABC().namespace(), ABC.FlowState()
    env = SimpleNamespace(
        transport=0,
        packet_size=S,
        window=10.0 * S,
        acked=S,
        recovering=0,
        recovered=0,
        ece=0,
        limited_by=1,
        in_flight=9 * S,
    )
    accel_brake.on_ack(flow, SimpleNamespace(mark=accel_brake.ACCELERATE), p, env)
    assert env.window == pytest.approx(11.1 * S)
    env.window = 10.0 * S
    accel_brake.on_ack(flow, SimpleNamespace(mark=accel_brake.BRAKE), p, env)
    assert env.window == pytest.approx(9.1 * S)
    env.window = 1.0 * S
    accel_brake.on_ack(flow, SimpleNamespace(mark=accel_brake.BRAKE), p, env)
    assert env.window == S
    env.recovering = 1
    accel_brake.on_ack(flow, SimpleNamespace(mark=accel_brake.ACCELERATE), p, env)
    assert env.window == S


def test_equilibria_without_queue_below_the_target_and_beyond_it():
    protocol = ABC()
    for flows in (1, 20, 150):
        point = protocol.equilibrium(network(flows))
        wait, rate = point.queue[0] / C, point.rates.sum()
        D = TAU + wait
        added = flows * 8 * S / (C * D)
        if flows == 1:
            assert wait == 0.0 and rate == pytest.approx(0.98 * C + 8 * S / TAU, rel=1e-9)
        elif flows == 20:
            assert 0.0 < wait < 0.05 and added == pytest.approx(0.02, rel=1e-9)
        else:
            assert wait == pytest.approx(0.05 + 0.133 * (added - 0.02), rel=1e-9)
        assert flows == 1 or rate == pytest.approx(C, rel=1e-9)
        assert point.fair_rate[0] == pytest.approx(min(rate, C), rel=1e-9)
    mixed = protocol.equilibrium(Network.dumbbell(C, [0.05, 0.2] * 60, packet_size=S))
    D = mixed.queue[0] / C + np.array([0.05, 0.2] * 60)
    assert mixed.rates * D == pytest.approx(mixed.rates[0] * D[0], rel=1e-9)  # equal windows


def closed_form(protocol, point):
    """The rightmost root of s + a + e^(-s tau)/delta."""
    D = TAU + point.queue[0] / C
    a = 8 * S / (point.rates[0] * D * D)
    return max((lambertw(-TAU / protocol.delta * exp(a * TAU), k) / TAU - a).real for k in (-1, 0)), a


def test_the_linear_model_is_that_of_the_paper_with_the_windows_own_damping():
    net = network(150)
    for delta in (0.133, 0.05):
        protocol = ABC(delta=delta)
        system = ecc.linearize(protocol, net)
        root, a = closed_form(protocol, protocol.equilibrium(net))
        assert np.abs(system.roots(8).real - root).min() < 1e-8 * abs(root)  # beside differences of flows, -a
        assert system.spectral_abscissa == pytest.approx(max(root, -a), rel=1e-8)
    (bound,) = ABC().published_bounds(net)
    assert bound.above and bound.value == pytest.approx(2.0 / 3.0 * TAU)
    assert ABC().published_bounds(Network.parking_lot([C, C])) == []
    # proven on both sides: 2 tau/3 is sufficient here, and not necessary
    assert ecc.linearize(ABC(delta=bound.value), net).certify().stable is True
    assert ecc.linearize(ABC(delta=2.0 / pi * TAU), net).certify().stable is True
    assert ecc.linearize(ABC(delta=0.95 * 2.0 / pi * TAU), net).certify().stable is False


def test_without_a_queue_only_paced_by_rates_is_there_a_linear_model():
    with pytest.raises(LinearizationError, match="ABC has no ACK-clocked linear model if a window that is not paced"):
        ecc.linearize(ABC(), network(1))
    assert ecc.linearize(ABC(), network(1), clocking="rate").is_stable


@pytest.mark.parametrize("flows", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (20, 150))])
def test_fluid_and_packets_come_to_the_equilibrium(flows):
    net, protocol = network(flows), ABC()
    point = protocol.equilibrium(net)
    for engine in (ecc.packet, ecc.fluid):
        run = engine.simulate(Scenario(net, protocol, 12.0), sample=0.1)
        goodput = run.goodput[-40:].sum("flow").mean().item()
        assert goodput == pytest.approx(point.rates.sum(), rel=0.002)
        wait = run.queue[-40:].mean().item() * 8.0 / C
        assert TAU + wait == pytest.approx(TAU + point.queue[0] / C, rel=0.03)


def swing(engine, delta):
    """Standard deviation of the queueing delay over the last 5 s [s]: a single burst of packets hardly moves it."""
    run = engine.simulate(Scenario(network(150), ABC(delta=delta), 15.0), sample=0.01)
    return float(run.queue[-500:, 0].std()) * 8.0 / C


@pytest.mark.slow
@pytest.mark.parametrize("engine", [ecc.fluid, ecc.packet], ids=["fluid", "packets"])
def test_the_queue_swings_on_one_side_of_the_limit_only(engine):
    assert swing(engine, 0.9 * TAU) < 0.001
    assert swing(engine, 0.45 * TAU) > 0.0036


def test_a_link_whose_capacity_falls_is_left_without_a_loss():
    """24 to 12 Mb/s: what waits is taken back within some RTTs."""
    fall = CapacitySchedule(0, [5.0], ["12 Mb/s"])
    net = network(5, capacity=24e6, buffer="375 kB")
    run = ecc.packet.simulate(Scenario(net, ABC(), 15.0, impairments=[fall]), sample=0.1)
    assert run.drops.sum() == 0
    assert run.goodput[-50:].sum("flow").mean() == pytest.approx(12e6, rel=0.02)
    assert run.queue[-50:, 0].max() * 8.0 / 12e6 < 0.06
