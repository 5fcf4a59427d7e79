"""Cycles of windows that grow until a queue overflows: known multipliers, the fluid and packets."""

from dataclasses import dataclass

import numpy as np
import pytest

import ecc
from ecc.contract.assignment import ProtocolAssignment
from ecc.cycles.losses import loss_cycle
from ecc.cycles.spaced_losses import spaced_loss_cycle
from ecc.errors import ConvergenceError, LinearizationError
from ecc.models import BIC, CUBIC, DCTCP, BBRv1, Compound, NewReno
from ecc.models.base import Protocol
from ecc.queues import PI2, StepMarking
from ecc.stability import limit_cycle


def dumbbell(n, buffer=100_300, rtt=0.1, **options):
    return ecc.Network.dumbbell("10 Mb/s", [rtt] * n, buffer=buffer, **options)


def multipliers(cycle):
    return np.sort(np.abs(cycle.multipliers))[::-1].tolist()


@dataclass(frozen=True)
class Additive(Protocol):
    """Windows that gain `gain` packets per RTT and keep `kept` of their size after a loss."""

    gain: float = 2.0
    kept: float = 0.8

    combine = "sum"

    @staticmethod
    def router_law(loss):
        return loss

    @staticmethod
    def source_law(w, s, p):
        return w + p.gain * s

    @staticmethod
    def loss_response_law(w, p):
        return p.kept * w


@dataclass(frozen=True)
class Remembering(Additive):
    """The same with a window that starts again from a mean of the last two windows at losses."""

    @staticmethod
    def loss_response_law(w, m, p):
        return p.kept * (0.5 * w + 0.5 * (m if m > 0.0 else w))

    @staticmethod
    def memory_law(w):
        return w


# ---- known answers -------------------------------------------------------------------------------------------


def test_one_flow_of_constant_gain_forgets_a_deviation_at_once():
    cycle = limit_cycle(NewReno(), dumbbell(1))
    assert cycle.is_dead_beat
    assert cycle.stable
    # from w/2 + s to the window at the overflow plus 3/2 packets, a packet per RTT
    assert cycle.orbit["windows"].max() == pytest.approx(125_000 + 100_300 + 1500, abs=200.0)


@pytest.mark.parametrize("kept", [0.5, 0.8])
@pytest.mark.parametrize("n", [2, 10])
def test_differences_shrink_by_the_decrease_factor_of_flows_that_all_lose(kept, n):
    cycle = loss_cycle(Additive(gain=1.0, kept=kept), dumbbell(n), "continuous", losers="growth")
    assert multipliers(cycle)[0] == pytest.approx(kept, abs=1e-6)
    assert set(multipliers(cycle)[1:]) == {0.0}


def test_the_number_of_rounds_keeps_the_sum_from_being_forgotten_in_discrete_time():
    cycle = loss_cycle(NewReno(), dumbbell(2), "discrete")
    assert multipliers(cycle)[:2] == pytest.approx([0.5, 0.5], abs=1e-6)


def test_a_remembered_window_is_part_of_the_state():
    cycle = loss_cycle(Remembering(), dumbbell(2), "continuous", losers="growth")
    # w' = k (w + m)/2, m' = w: z^2 = k (z + 1)/2 for differences
    assert multipliers(cycle)[0] == pytest.approx(0.5 * (0.4 + np.sqrt(0.16 + 1.6)), abs=1e-3)


@pytest.mark.slow
def test_flows_that_lose_in_turn_stay_out_of_phase():
    # (3/4 x, T - 3/4 x) follows windows (x, T - x) of which the larger one loses: -3/4 per overflow, if growth in the
    # RTT between the loss and the response is left out, which is 1 % of a window here
    cycle = loss_cycle(NewReno(), dumbbell(2), "continuous", losers="largest")
    assert cycle.orbit["losses"].tolist() == [1.0, 1.0]
    assert multipliers(cycle)[0] == pytest.approx(0.75**2, abs=0.01)
    in_phase = loss_cycle(NewReno(), dumbbell(2), "continuous")
    assert cycle.amplitude < 0.7 * in_phase.amplitude


def test_a_step_of_marks_reduces_all_flows_once():
    loop = ProtocolAssignment(NewReno(ecn=True), StepMarking(threshold=80.3))
    cycle = loss_cycle(loop, dumbbell(2, buffer=None), "continuous")
    assert cycle.orbit["losses"].tolist() == [1.0]
    assert multipliers(cycle)[0] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.slow
def test_flows_of_unequal_rtts_lose_together_up_to_a_ratio_of_about_three():
    def losses(ratio):
        net = ecc.Network.dumbbell("10 Mb/s", [0.05, 0.05 * ratio], buffer=60_000)
        return loss_cycle(NewReno(), net, "continuous").orbit["losses"]

    assert losses(2.0).tolist() == [1.0, 1.0]
    assert losses(4.0).tolist() == [2.0, 1.0]


# ---- orbits of two overflows ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_fast_convergence_makes_every_other_cycle_of_cubic_shorter():
    with_it, without = (
        loss_cycle(CUBIC(fast_convergence=choice), dumbbell(1, 60_000), "continuous") for choice in (True, False)
    )
    assert "2 overflows" in with_it.method
    assert "1 overflow," in without.method
    assert with_it.period == pytest.approx(12.04, abs=0.02)
    assert with_it.is_dead_beat or abs(with_it.dominant) < 0.02


# ---- the fluid and packets -----------------------------------------------------------------------------------


def overflows(run, apart):
    """Return the times of the first drops of each overflow."""
    time, drops = run.queue["time"].values, run.drops.values[:, 0]
    at = time[drops > 0]
    return at[np.concatenate([[True], np.diff(at) > apart])]


CASES = [
    (NewReno(transport="sack"), 1),
    (NewReno(transport="sack"), 2),
    (CUBIC(), 1),
    (BIC(), 1),
    (BIC(), 2),
    (Compound(), 1),
    (Compound(), 2),
]


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "n"), CASES, ids=lambda value: getattr(type(value), "__name__", str(value)))
def test_period_and_amplitude_are_those_of_packets(protocol, n):
    net = ecc.Network.dumbbell("40 Mb/s", [0.05] * n, buffer=250_000, packet_size=1500)
    cycle = limit_cycle(protocol, net)
    run = ecc.packet.simulate(ecc.Scenario(net, protocol, duration=300.0), sample=0.01)
    at = overflows(run, 0.2)
    at = at[at > 100.0]
    per_period = int(cycle.method.split(" overflow")[0].split()[-1])
    assert np.diff(at).mean() * per_period == pytest.approx(cycle.period, rel=0.03)
    late = run.queue["time"].values > 100.0
    queue, highest = run.queue.values[late, 0], run.queue_max.values[late, 0]
    # proportional rate reduction keeps BIC's queue from falling as far as that of the map: losses are a large part of a
    # reduction by an eighth
    tolerance = 0.13 if isinstance(protocol, BIC) else 0.03
    assert 0.5 * (highest.max() - queue.min()) == pytest.approx(cycle.amplitude, rel=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [NewReno(transport="sack"), Compound()], ids=lambda p: type(p).__name__)
def test_differences_of_packets_shrink_by_the_multiplier(protocol):
    cycle = limit_cycle(protocol, dumbbell(2, 100_000))
    net = dumbbell(2, 100_000, starts=[0.0, 45.0])
    run = ecc.packet.simulate(ecc.Scenario(net, protocol, duration=120.0), sample=0.005, record=["env.window"])
    at = np.searchsorted(run.queue["time"].values, overflows(run, 0.4))
    windows = run["env.window"].values[at[run.queue["time"].values[at] > 46.0]] / 1000.0
    difference = windows[:, 0] - windows[:, 1]
    assert difference[0] > 60.0
    ratios = difference[1:4] / difference[:3]
    assert ratios.mean() == pytest.approx(abs(cycle.dominant), abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "n"), [*CASES, (CUBIC(), 2)], ids=lambda value: getattr(type(value), "__name__", str(value))
)
def test_period_is_that_of_the_fluid(protocol, n):
    net = ecc.Network.dumbbell("40 Mb/s", [0.05] * n, buffer=250_000, packet_size=1500)
    cycle = limit_cycle(protocol, net)
    run = ecc.fluid.simulate(ecc.Scenario(net, protocol, duration=300.0), sample=0.01)
    at = overflows(run, 0.2)
    at = at[at > 100.0]
    per_period = int(cycle.method.split(" overflow")[0].split()[-1])
    count = (len(at) - 1) // per_period * per_period
    assert (at[count] - at[0]) / count * per_period == pytest.approx(cycle.period, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "n"), [(NewReno(), 1), (NewReno(), 2), (Compound(), 1), (Compound(), 2)])
def test_discrete_period_is_that_of_the_fluid_in_rounds(protocol, n):
    net = ecc.Network.dumbbell("40 Mb/s", [0.05] * n, buffer=250_000, packet_size=1500)
    cycle = limit_cycle(protocol, net, "discrete")
    run = ecc.fluid.simulate(ecc.Scenario(net, protocol, duration=300.0), sample=0.01, time="discrete")
    at = overflows(run, 0.5)
    per_period = int(cycle.method.split(" overflow")[0].split()[-1])
    assert np.diff(at[at > 100.0]).mean() * per_period == pytest.approx(cycle.period, rel=0.02)


def test_both_parts_of_compounds_window_move_at_once_in_rounds():
    """The period of packet runs on this network is 6.58 s. Flows are those of Reno when their queue is full."""
    cycle = limit_cycle("Compound", time="discrete")
    assert cycle.period == pytest.approx(6.58, rel=0.01)
    assert cycle.amplitude == pytest.approx(122_180, rel=0.03)
    assert multipliers(cycle)[:2] == pytest.approx([0.5, 0.5], abs=1e-6)


@pytest.mark.slow
def test_a_motion_that_does_not_repeat_has_the_period_of_its_near_returns():
    """CUBIC in rounds: two overflows, as in continuous time; deviations of packets decay, and smaller ones grow."""
    net = ecc.Network.dumbbell("40 Mb/s", [0.05] * 2, buffer=250_000, packet_size=1500)
    continuous, discrete = (loss_cycle(CUBIC(), net, time) for time in ("continuous", "discrete"))
    assert "2 overflows, after which it nearly returns" in discrete.notes[0]
    assert discrete.period == pytest.approx(continuous.period, rel=0.01)
    assert discrete.amplitude == pytest.approx(continuous.amplitude, rel=0.01)
    assert discrete.orbit["losses"] == pytest.approx(2.0)
    assert abs(discrete.dominant) > 1.0
    finite = loss_cycle(CUBIC(), net, "discrete", deviation=10.0)
    assert abs(finite.dominant) == pytest.approx(abs(continuous.dominant), abs=0.1)
    with pytest.raises(ValueError, match="deviation must be > 0 packets, got 0.0"):
        loss_cycle(CUBIC(), net, "discrete", deviation=0.0)


# ---- loops that it declines ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loop", "network", "time", "message"),
    [
        (NewReno(), dumbbell(1, None), "continuous", "the buffer is unlimited"),
        (NewReno(), ecc.Network.dumbbell("10 Mb/s", [0.1, 0.2], buffer=60_000), "discrete", "hosts with unequal RTTs"),
        (NewReno(), ecc.Network.parking_lot(["10 Mb/s"] * 2, buffer=60_000), "continuous", "has one link, not 2"),
        (BBRv1(), dumbbell(1), "continuous", "its hosts have no ACK-clocked windows that respond to losses"),
        (DCTCP(), dumbbell(1), "continuous", "a law takes marked"),
        (ProtocolAssignment(NewReno(), PI2()), dumbbell(1), "continuous", "over drop-tail or StepMarking, not PI2"),
    ],
)
def test_other_loops_are_declined_with_the_reason(loop, network, time, message):
    with pytest.raises(LinearizationError, match=message):
        loss_cycle(loop, network, time)


def test_an_unknown_choice_of_losers_is_refused():
    with pytest.raises(ValueError, match="losers must be one of arrivals, growth, largest, got 'all'"):
        loss_cycle(NewReno(), dumbbell(1), "continuous", losers="all")


# ---- evenly spaced losses ------------------------------------------------------------------------------------


def mean_window(cycle):
    time, window = cycle.orbit["time"], cycle.orbit["windows"][0]
    return float(np.trapezoid(window, time) / (time[-1] - time[0])) / 1000.0


@pytest.mark.slow
def test_evenly_spaced_losses_multiply_deviations_by_the_square_of_the_decrease_factor():
    cycle = spaced_loss_cycle(NewReno(), 0.1, 1e-4)
    assert multipliers(cycle)[0] == pytest.approx(0.25, abs=0.01)
    assert mean_window(cycle) == pytest.approx(np.sqrt(1.5e4), rel=0.01)


@pytest.mark.slow
def test_evenly_spaced_losses_have_the_response_function_of_compound():
    protocol = Compound()
    cycle = spaced_loss_cycle(protocol, 0.1, 1e-5)
    assert mean_window(cycle) == pytest.approx(protocol.mean_window(1e-5), rel=0.03)
    # M^(5/4) at a loss is 2^(-5/4) times the last one, plus a constant
    assert abs(cycle.multipliers[1]) == pytest.approx(0.5**1.25, abs=0.03)
    assert multipliers(cycle)[0] == pytest.approx(0.5, abs=1e-3)  # of the delay part alone


def test_losses_within_recoveries_have_no_cycle():
    with pytest.raises(ConvergenceError, match="they fall into recoveries"):
        spaced_loss_cycle(NewReno(), 0.1, 0.5)
    with pytest.raises(ValueError, match=r"loss must be in \(0, 1\), got 1.5"):
        spaced_loss_cycle(NewReno(), 0.1, 1.5)
