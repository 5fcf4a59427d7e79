"""Hosts that keep more than a window, as fluid: CUBIC and DCTCP against packets, and one of a user's own."""

from dataclasses import dataclass

import numpy as np
import pytest

import ecc
from ecc.contract.states import State
from ecc.models import CUBIC, DCTCP, NewReno
from ecc.queues import StepMarking
from ecc.scenario import Scenario


@pytest.mark.parametrize("fast", [False, True])
def test_cubic_fills_a_buffer_like_packets(fast):
    """One flow, one bandwidth-delay product of buffer: with fast convergence every other plateau is lower."""
    network = ecc.Network.dumbbell("100 Mb/s", [0.1], packet_size=1500, buffer=1_250_000)
    runs = [
        simulate(Scenario(network, CUBIC(fast_convergence=fast), 200.0), sample=0.1)
        for simulate in (ecc.fluid.simulate, ecc.packet.simulate)
    ]
    late = slice(60.0, None)
    queues = [run.queue.sel(time=late).to_numpy()[:, 0] for run in runs]
    assert queues[0].mean() == pytest.approx(queues[1].mean(), rel=0.01)
    assert queues[0].min() == pytest.approx(queues[1].min(), rel=0.02)
    full = [np.flatnonzero(queue > 1.245e6) for queue in queues]
    episodes = [0.1 * found[np.diff(found, prepend=-100) > 20] for found in full]
    assert min(len(found) for found in episodes) > 8
    for statistic in (np.min, np.max):
        periods = [statistic(np.diff(found)) for found in episodes]
        assert periods[0] == pytest.approx(periods[1], abs=0.3)


@pytest.mark.parametrize("flows", [1, 10])
def test_dctcp_over_step_marking_like_packets(flows):
    network = ecc.Network.dumbbell("10 Gb/s", [1e-4] * flows, packet_size=1500, starts=list(np.arange(flows) * 1e-4))
    protocol = {"flows": {"default": DCTCP()}, "links": {0: StepMarking(threshold=40, packet_size=1500)}}
    fluid, packets = (
        simulate(Scenario(network, protocol, 0.06), sample=1e-5, record=["flow.alpha"])
        for simulate in (ecc.fluid.simulate, ecc.packet.simulate)
    )
    for run in (fluid, packets):
        assert run.goodput[3000:].sum("flow").mean() == pytest.approx(1e10, rel=1e-3)
    queues = [run.queue[3000:, 0].to_numpy() / 1500 for run in (fluid, packets)]
    assert abs(queues[0].max() - queues[1].max()) < 2.0 and abs(queues[0].mean() - queues[1].mean()) < 2.0  # packets
    alpha = [float(run.data["flow.alpha"][3000:].mean()) for run in (fluid, packets)]
    assert alpha[0] == pytest.approx(alpha[1], rel=0.07)
    marks = [float(run.marks[3000:].sum()) for run in (fluid, packets)]
    assert marks[0] == pytest.approx(marks[1], rel=0.1)


def since_loss(age):
    return 1.0


def at_loss(age):
    return 0.0


def one_more(losses, age):
    return losses + 1.0 if age > 0.0 else losses  # by the age right before the loss, not by the new one


@dataclass(frozen=True)
class Counting(NewReno):
    """NewReno that knows how many losses it has met, and for how long it has met none."""

    clock: str = "rtt"

    @property
    def states(self):
        return {
            "age": State(since_loss, "continuous", jumps={"loss": at_loss}, unit="s"),
            "losses": State(None, self.clock, jumps={"loss": one_more}),
        }


def test_states_of_a_users_own_move_and_jump():
    network = ecc.Network.dumbbell("10 Mb/s", [0.1], buffer=60_000)
    run = ecc.fluid.simulate(Scenario(network, Counting(), 40.0), sample=0.05, record=["flow.age", "flow.losses"])
    age, losses = (run.data[f"flow.{name}"][:, 0].to_numpy() for name in ("age", "losses"))
    resets = np.flatnonzero(np.diff(age) < 0.0)
    assert len(resets) > 3 and losses[-1] == len(resets)
    assert np.all(np.diff(losses)[resets] == 1.0)
    between = np.diff(age)[10 : resets[0]]
    assert between == pytest.approx(0.05, abs=1e-9)
    same = ecc.fluid.simulate(Scenario(network, NewReno(), 40.0), sample=0.05)
    assert np.array_equal(run.queue, same.queue)  # a state that no law asks for moves nothing


def test_a_clock_of_queues_is_refused():
    scenario = Scenario(ecc.Network.dumbbell("10 Mb/s", [0.1]), Counting(clock="arrival"), 1.0)
    with pytest.raises(ValueError, match="Counting has no fluid model: its state losses has the clock 'arrival'"):
        ecc.fluid.simulate(scenario)


def rises(age, nonsense):
    return age


@dataclass(frozen=True)
class Wrong(NewReno):
    @property
    def states(self):
        return {"age": State(rises, "rtt")}


def test_a_law_of_a_state_that_asks_for_what_is_not_there_is_refused():
    scenario = Scenario(ecc.Network.dumbbell("10 Mb/s", [0.1]), Wrong(), 1.0)
    with pytest.raises(
        ValueError, match="its age law takes nonsense; available arguments for a fluid of windows: w, w_rtt, m"
    ):
        ecc.fluid.simulate(scenario)
