"""Copa by hand; its equilibrium and cycle in packets and fluid; beside flows that fill buffers."""

from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.models import CUBIC, Copa
from ecc.network.network import Network
from ecc.scenario import Scenario

S = 1000.0  # bytes
P = Copa().namespace()
HOOKS = Copa().flow_hooks()


def env(**fields):
    defaults = {
        "window": 20 * S,
        "rate": 0.0,
        "packet_size": 1000,
        "acked": 1000,
        "in_flight": 10_000,
        "kind": 0,
        "srtt": 0.1,
        "rtt": 0.1,
        "now": 1.0,
        "limited_by": 1,
    }
    return SimpleNamespace(**{"transport": 0, **defaults, **fields})


def flow(**fields):
    """A flow that has seen an RTT of 0.1 s, in arrays."""
    state = Copa.FlowState(**{"slow_start": 0, "inverse": 2.0, **fields})
    for name in ("base", "standing", "largest"):
        for part, value in (("value", -0.1 if name != "largest" else 0.1), ("time", 0.9)):
            setattr(state, f"{name}_{part}", np.full(3, value))
    return state


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Copa(delta=0.0), "delta must be > 0, got 0"),
        (lambda: Copa(mode="tcp"), "mode must be one of 'default', 'auto', 'competitive', got 'tcp'"),
        (lambda: Copa(min_rtt_window=0.0), "min_rtt_window must be > 0 s, got 0"),
        (
            lambda: Copa().equilibrium(Network.dumbbell("1 Mb/s", [0.1]), np.array([0])),
            "assignment must be None: flows of Copa",
        ),
        (
            lambda: ecc.fluid.simulate(Scenario(Network.dumbbell("1 Mb/s", [0.1]), Copa(mode="auto"), 1.0)),
            r"Copa\(mode='auto'\) has no fluid model: its laws need a constant delta",
        ),
        (lambda: ecc.linearize(Copa(), Network.dumbbell("1 Mb/s", [0.1])), "Copa's source law is a relay"),
    ],
)
def test_bad_parameters_get_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(("queued", "sign"), [(1.9, 1.0), (2.1, -1.0)])
def test_windows_move_towards_two_packets_of_their_own(queued, sign):
    """W d/D = 20 d/(0.1 + d), for a packet that an ACK acknowledges 2/20 more or less."""
    wait = 0.1 * queued / (20.0 - queued)
    at, state = env(rtt=0.1 + wait), flow(rtt_began=1.0)
    state.standing_value[:] = -(0.1 + wait)
    HOOKS["on_ack"](state, None, P, at)
    assert at.window == pytest.approx(20 * S + sign * S * 2.0 / 20.0)
    assert at.rate == pytest.approx(16.0 * at.window / (0.1 + wait))


def test_velocity_doubles_after_three_rtts_in_one_direction():
    """An ACK each RTT; at a turn it is 1 again at once, and is at most delta W."""
    state, at, seen = flow(rtt_began=0.9, window_then=20 * S), env(), []
    for _ in range(7):
        at.now += 0.1001
        HOOKS["on_ack"](state, None, P, at)
        seen.append(state.velocity)
    assert seen[:7] == [1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 8.0]
    at.rtt = 0.2
    state.standing_value[:] = -0.2
    HOOKS["on_ack"](state, None, P, at)
    assert state.velocity == 1.0 and state.direction == -1
    high = flow(velocity=64.0, direction=1, rtt_began=1.0)
    HOOKS["on_ack"](high, None, P, env())
    assert high.velocity == 10.0


def test_slow_start_doubles_until_the_window_is_to_fall():
    state, at = flow(slow_start=1), env()
    HOOKS["on_ack"](state, None, P, at)
    assert at.window == 21 * S and state.slow_start == 1
    state.standing_value[:] = -0.2
    at.rtt = 0.2
    HOOKS["on_ack"](state, None, P, at)
    assert at.window < 21 * S and state.slow_start == 0


def test_losses_move_nothing_but_delta_in_competition_and_a_timeout_leaves_a_packet():
    for mode, inverse in (("default", 8.0), ("auto", 4.0)):
        state, at = flow(inverse=8.0), env()
        HOOKS["on_loss"](state, None, Copa(mode=mode).namespace(), at)
        HOOKS["on_loss"](state, None, Copa(mode=mode).namespace(), at)  # once in an RTT
        assert at.window == 20 * S and state.inverse == inverse
    state, at = flow(), env(kind=1)
    HOOKS["on_loss"](state, None, P, at)
    assert at.window == S and state.slow_start == 1


def test_a_queue_that_is_not_nearly_empty_for_five_rtts_makes_a_flow_compete():
    p = Copa(mode="auto").namespace()
    state, at = flow(emptied=1.0), env(rtt=0.15)
    state.standing_value[:] = -0.15
    for _ in range(12):
        at.now += 0.1001
        HOOKS["on_ack"](state, None, p, at)
        state.largest_value[0], state.largest_time[0] = 0.2, at.now
    assert state.inverse == pytest.approx(2.0 + 8.0)  # from the fifth RTT on
    state.standing_value[:] = -0.101
    at.rtt = 0.101
    HOOKS["on_ack"](state, None, p, at)
    assert state.inverse == 2.0


@pytest.mark.parametrize(("n", "rtt", "delta"), [(1, 0.02, 0.5), (2, 0.1, 0.1), (5, 0.1, 0.5), (10, 0.02, 0.5)])
def test_the_queue_swings_between_nothing_and_two_and_a_half_packets_over_delta(n, rtt, delta):
    network = Network.dumbbell("48 Mb/s", [rtt] * n, packet_size=1500)
    run = ecc.packet.simulate(Scenario(network, Copa(delta=delta), 40.0), sample=rtt / 20)
    half = len(run.queue) // 2
    queue = run.queue[half:, 0].to_numpy() / 1500 * delta / n
    assert queue.min() <= 0.5 and queue.max() == pytest.approx(2.5, abs=0.45)
    rates = run.goodput[half:].mean("time").to_numpy()
    assert rates == pytest.approx(48e6 / n, rel=0.03)


def test_the_cycle_of_the_fluid_is_that_of_the_relay():
    """A step of 1/delta packets an RTT, known an RTT later."""
    network = Network.dumbbell("48 Mb/s", [0.1] * 2, packet_size=1500)
    run = ecc.fluid.simulate(Scenario(network, Copa(), 30.0), sample=0.01)
    queue = run.queue[1500:, 0].to_numpy() / 1500
    assert queue.min() == pytest.approx(0.0, abs=0.3) and queue.max() == pytest.approx(8.0, abs=0.3)
    assert queue.mean() == pytest.approx(4.0, abs=0.2)
    point = Copa().equilibrium(network)
    assert point.rates == pytest.approx(24e6) and point.queue[0] / 12_000 == pytest.approx(4.0)
    loop, packet = Copa().relay_loop(network)
    assert abs(loop(1j)) == pytest.approx(2.0 / (0.1 + 4 * 12_000 / 48e6)) and packet == pytest.approx(24_000.0)


def test_competition_takes_a_share_from_cubic():
    """By default flows get a tenth or less."""
    network = Network.dumbbell("48 Mb/s", [0.05] * 4, packet_size=1500, buffer=300_000, starts=[0.0, 0.1, 0.2, 0.3])
    shares = {}
    for mode in ("default", "auto"):
        hosts = {"0-1": Copa(mode=mode), "default": CUBIC()}
        run = ecc.packet.simulate(Scenario(network, {"flows": hosts}, 60.0), sample=1.0)
        shares[mode] = float(run.goodput[20:, :2].sum("flow").mean()) / 48e6
    assert shares["default"] < 0.1 and 0.35 < shares["auto"] < 0.65
