"""States that move together with the window: every model in rounds gives the window law their old values."""

from dataclasses import dataclass

import numpy as np
import pytest

import ecc
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.states import State
from ecc.contract.values import states_of
from ecc.cycles.delayed_windows import delayed_window_cycle
from ecc.cycles.losses import windows_in_rounds
from ecc.cycles.random_windows import random_step, random_windows
from ecc.cycles.step_marking import step_marking_cycle
from ecc.errors import LinearizationError
from ecc.models import NSCC, NewReno, PowerTCP
from ecc.models.base import Protocol
from ecc.queues import PI2, StepMarking
from ecc.scenario import Scenario


def part_after(w, part):
    return 0.5 * part + 0.1 * w


def half(w):
    return 0.5 * w


@dataclass(frozen=True)
class Together(Protocol):
    """A window that gains a packet per RTT, and the change of a part of it."""

    combine = "sum"
    is_simultaneous = True
    loss_response_law = staticmethod(half)
    router_law = staticmethod(NewReno.router_law)

    @staticmethod
    def source_law(w, part, s):
        return w + s + (part_after(w, part) - part)

    @property
    def states(self):
        return {"part": State(part_after, "rtt", unit="bit", simultaneous=self.is_simultaneous)}


@dataclass(frozen=True)
class Before(Together):
    """The same window in rounds, from the part after the round: the old one is 2 (part - w/10)."""

    is_simultaneous = False

    @staticmethod
    def source_law(w, part, s):
        return w + s + (part - 2.0 * (part - 0.1 * w))


HOSTS = (Together(), Before())
NETWORK = ecc.Network.dumbbell("10 Mb/s", [0.1] * 2, buffer=100_300)


def assert_the_rest_gains_a_packet_or_is_held(windows, parts, packet):
    """The window less its part gains a packet in each round, or both are constant, except at losses."""
    gains, moves = np.diff(windows - parts), np.diff(parts)
    moving = ~np.isclose(gains, 0.0, atol=1e-6 * packet)
    growing = np.isclose(gains, packet, rtol=1e-6)
    assert growing.sum() > 10
    assert np.all(growing | (gains < 0.0) | (~moving & np.isclose(moves, 0.0, atol=1e-6 * packet)))


def test_maps_from_loss_to_loss_take_old_values_and_hold_them():
    motions, now = windows_in_rounds(Together(), NETWORK)
    seen = []
    for _ in range(200):
        motions.advance(now)
        seen.append(now.y[0])
    windows, parts = np.array(seen).T
    assert_the_rest_gains_a_packet_or_is_held(windows, parts, 8000.0)


@pytest.mark.slow
def test_fluid_runs_in_rounds_take_old_values_and_hold_them():
    network = ecc.Network.dumbbell("10 Mb/s", [0.1], buffer=100_300)
    scenario = Scenario(network, Together(), 30.0)
    run = ecc.fluid.simulate(scenario, 0.01, time="discrete", record=["env.window", "flow.part"])
    windows, parts = 8.0 * run["env.window"].to_numpy().ravel(), run["flow.part"].to_numpy().ravel()
    changed = np.append(True, np.diff(windows) != 0.0)
    assert_the_rest_gains_a_packet_or_is_held(windows[changed], parts[changed], 8000.0)


def test_linear_models_over_disciplines_take_old_values_in_rounds():
    network = ecc.Network.dumbbell("10 Mb/s", [0.1] * 2)
    together, before = (
        ecc.linearize(ProtocolAssignment(host, PI2()), network, time="discrete").roots(4) for host in HOSTS
    )
    np.testing.assert_allclose(np.sort_complex(together), np.sort_complex(before), atol=1e-9)


def test_random_maps_take_old_values_and_hold_them():
    network = ecc.Network.dumbbell("10 Mb/s", [0.1] * 2)
    maps = random_windows(ProtocolAssignment(Together(), PI2()), network, "discrete")
    w, part, *rest = maps.state
    before = [1.1 * w, part, *rest]
    grown = random_step(before, [0.99, 0.99], maps.p)  # no draw is below the probability of a signal
    assert grown[1] == pytest.approx(part_after(before[0], part))
    assert grown[0] - grown[1] == pytest.approx(before[0] - part + 8000.0)
    before[2] = 1  # in a recovery
    assert random_step(before, [0.99, 0.99], maps.p)[:3] == [before[0], part, 0]


class MarkedTogether(Together):
    """Hosts that respond to marks."""

    ecn_echo = "scalable"
    mark_response_law = staticmethod(half)


class DelayedTogether(NSCC):
    """NSCC with an averaged delay that moves together with the window."""

    @property
    def states(self):
        return {name: state._replace(simultaneous=True) for name, state in super().states.items()}


class RememberedTogether(PowerTCP):
    """PowerTCP with a remembered window that moves together with the window."""

    @property
    def states(self):
        return {name: state._replace(simultaneous=state.clock == "rtt") for name, state in super().states.items()}


def test_models_that_update_states_before_windows_refuse_them():
    marks, message = StepMarking(threshold=40), "updates states before windows, and cannot move state {} of"
    with pytest.raises(LinearizationError, match=message.format("part")):
        step_marking_cycle(ProtocolAssignment(MarkedTogether(), marks), NETWORK, "discrete")
    network = ecc.Network.dumbbell("100 Gb/s", [10e-6] * 4, packet_size=4096)
    with pytest.raises(LinearizationError, match=message.format("average")):
        delayed_window_cycle(ProtocolAssignment(DelayedTogether(), marks), network, "discrete")
    with pytest.raises(LinearizationError, match=message.format("remembered")):
        ecc.linearize(RememberedTogether(old_window="rtt"), network, time="discrete")


@dataclass(frozen=True)
class WrongClock(Together):
    """A state that moves all the time cannot move together with a window per round."""

    @property
    def states(self):
        return {"part": State(lambda part: -part, "continuous", simultaneous=True)}


def test_other_clocks_than_the_rtt_are_refused():
    with pytest.raises(
        ValueError, match="simultaneous of state part of WrongClock must be False for the clock 'contin"
    ):
        states_of(WrongClock())
