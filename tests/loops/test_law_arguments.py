"""Laws get every argument that they take, or are refused; failures of a run have their cause; notes on models."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from faulty_protocols import BooleanState, FromScratch, Negative, Occupied, SinceALoss, Westwood, WithoutClock

import ecc
from ecc.contract.states import State
from ecc.models import FAST, HPCC, QIRCP, NewReno, PatchedTIMELY
from ecc.models.shared.windows import EndToEndProtocol
from ecc.queues import PI2, QueueDiscipline

PATH = ecc.Network.dumbbell("10 Mb/s", rtts=["50 ms"], buffer="62.5 kB", packet_size=1250)
FIVE = ecc.Network.dumbbell("50 Mb/s", rtts=["50 ms"] * 5)
ARGUMENTS = ("R", "R_prev", "x", "x_rtt", "y", "y_prev", "u", "N", "N_all", "q", "q_mean", "q_flow", "C", "d", "D", "T",
             "w", "w_rtt", "m", "since", "s", "a", "loss", "marked")  # fmt: skip


def asking(argument, where):
    """A host whose response to losses has a factor that depends on one more argument, directly or by a state."""
    scope = {}
    exec(
        f"def factor({argument}):\n    return 0.5 + 0.2 * {argument} / (1.0 + abs({argument}))\n",
        scope | {"__name__": __name__},
        scope,
    )
    factor = scope["factor"]

    class Asking(EndToEndProtocol):
        router_law = staticmethod(lambda q, C: q / C)
        source_law = staticmethod(lambda w, s: w + s)

        @property
        def states(self):
            law = factor if where == "law" else None
            jumps = {"loss": factor, "mark": factor} if where == "jump" else {}
            return {"b": State(law, "rtt", 0.5, jumps=jumps)}

    if where == "response":
        taken = ", ".join(dict.fromkeys(["w", argument]))
        exec(f"def response({taken}):\n    return w * factor({argument})\n", scope | {"__name__": __name__}, scope)
        response = scope["response"]
    else:
        response = lambda w, b: w * b  # noqa: E731
    Asking.loss_response_law = staticmethod(response)
    return Asking()


def is_refused(call):
    try:
        call()
    except (ValueError, ecc.errors.LinearizationError) as error:
        assert "\n" not in str(error)
        return True
    return False


@pytest.mark.parametrize("where", ["law", "jump", "response"])
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_argument_of_a_response_is_supplied_or_refused_in_linear_models(argument, where):
    """An argument that is silently 0 would give the queue and the window of a factor of 0.5."""
    halves = {"flows": asking(argument, where), "links": PI2()}
    if not is_refused(lambda: ecc.linearize(halves, FIVE)):
        assert argument in ("R", "D", "w", "w_rtt", "s", "a", "marked")


def test_the_feedback_in_a_response_is_that_of_the_equilibrium():
    """It was 0 where only responses took it: w falls to (D - R)/D of it, that is by nothing without R."""

    class Draining(EndToEndProtocol):
        router_law = staticmethod(lambda q, C: q / C)
        source_law = staticmethod(lambda w, s: w + s)
        loss_response_law = staticmethod(lambda w, D, R, s: max(w * (D - R) / D, 2.0 * s))

    halves = {"flows": Draining(), "links": PI2()}
    fluid = ecc.fluid.simulate(ecc.Scenario(FIVE, halves, 8.0), sample=1.0)
    started = ecc.fluid.simulate(ecc.Scenario(FIVE, halves, 0.5), sample=0.1, start="equilibrium")
    assert ecc.linearize(halves, FIVE).is_stable
    assert (
        float(started.queue[-1, 0])
        == pytest.approx(float(fluid.queue[-1, 0]), rel=1e-3)
        == pytest.approx(125e3, rel=0.01)
    )


def test_a_state_has_the_window_that_was_in_force_when_the_data_was_sent():
    """It was 0 in a state: the estimate of the bandwidth was 0, and losses left two packets (6.85 Mb/s)."""
    run = ecc.fluid.simulate(ecc.Scenario(PATH, Westwood(), 20.0), sample=0.5, record=["flow.delivered"])
    assert float(run.goodput[20:].mean()) > 9.9e6
    assert float(run["flow.delivered"][-1, 0]) == pytest.approx(10e6, rel=0.05)


def test_linear_models_have_the_window_that_was_in_force_when_the_data_was_sent():
    halves = {"flows": Westwood(), "links": PI2()}
    system = ecc.linearize(halves, FIVE)
    run = ecc.fluid.simulate(ecc.Scenario(FIVE, halves, 20.0), sample=0.5)
    assert system.is_stable and float(run.queue[-10:].std()) < 100.0


def test_laws_that_take_the_interval_or_the_memory_need_one():
    with pytest.raises(ValueError, match="interval must be among the params"):
        ecc.fluid.simulate(ecc.Scenario(PATH, WithoutClock(), 1.0))

    class Forgetful(FromScratch):
        source_law = staticmethod(lambda w, m, s: w + s + 0.0 * m)

    with pytest.raises(ValueError, match="its source law takes m, and it has no memory_law"):
        ecc.fluid.simulate(ecc.Scenario(PATH, Forgetful(), 1.0))


def test_disciplines_that_take_the_queue_before_need_a_clock():
    class Rising(QueueDiscipline):
        probability_law = staticmethod(lambda q, q_prev: min(0.01 * max(q - q_prev, 0.0), 1.0))

    halves = {"flows": NewReno(), "links": Rising()}
    with pytest.raises(ValueError, match="takes q_prev, and no state of it has the clock 'interval'"):
        ecc.fluid.simulate(ecc.Scenario(PATH, halves, 1.0))
    with pytest.raises(ValueError, match="takes q_prev"):
        ecc.linearize(halves, PATH)


def test_a_window_that_falls_to_zero_ends_the_run_with_its_cause():
    run = ecc.fluid.simulate(ecc.Scenario(PATH, Negative(), 20.0), sample=0.5)
    assert run.stopped.startswith("the source law of flow 0 failed at t = ")
    assert run.stopped.endswith(": its window is not > 0") and not run.is_complete

    class Gone(FromScratch):
        loss_response_law = staticmethod(lambda w, s: w - 1000.0 * s)

    run = ecc.fluid.simulate(ecc.Scenario(PATH, Gone(), 20.0), sample=0.5)
    assert run.stopped.startswith("the loss response law of flow 0 failed")


def test_a_discipline_with_a_law_and_no_hooks_has_fluid_and_linear_models():
    halves = {"flows": FromScratch(), "links": Occupied()}
    run = ecc.fluid.simulate(ecc.Scenario(PATH, halves, 20.0), sample=0.5)
    assert run.is_complete and float(run.queue[-10:].mean()) > 0.0
    assert ecc.linearize(halves, PATH).size == 1
    with pytest.raises(ValueError, match="Occupied has no packet runs: it does not define link_hooks$"):
        ecc.packet.simulate(ecc.Scenario(PATH, halves, 1.0))


def test_a_law_of_a_state_that_cannot_be_compiled_is_named():
    with pytest.raises(
        TypeError, match=r"the law of state busy of BooleanState cannot be compiled: float\(\) of a comp"
    ):
        ecc.fluid.simulate(ecc.Scenario(PATH, BooleanState(), 1.0))


def test_different_round_trip_times_at_a_full_queue_are_noted():
    unequal = ecc.Network.dumbbell("10 Mb/s", rtts=["20 ms", "80 ms"], buffer="50 kB")
    (note,) = [note for note in ecc.fluid.simulate(ecc.Scenario(unequal, NewReno(), 5.0)).notes if "RTTs" in note]
    assert note.startswith("RTTs of flows through the full queue of link 0 are from 20 to 80 ms:")
    equal = ecc.Network.dumbbell("10 Mb/s", rtts=["20 ms", "20 ms"], buffer="50 kB")
    assert not [note for note in ecc.fluid.simulate(ecc.Scenario(equal, NewReno(), 5.0)).notes if "RTTs" in note]


def test_responses_that_empty_the_queue_are_noted_in_linear_models():
    one = ecc.Network.dumbbell("50 Mb/s", rtts=["50 ms"])
    many = ecc.Network.dumbbell("100 Mb/s", rtts=["50 ms"] * 50)
    halves = {"flows": NewReno(), "links": PI2()}
    assert "takes 219 packets from a window of NewReno, and the queue at the equilibrium holds 125" in "".join(
        ecc.linearize(halves, one).notes
    )
    assert not [note for note in ecc.linearize(halves, many).notes if "from a window" in note]
    assert np.isfinite(ecc.linearize(halves, many).spectral_abscissa)


def test_the_time_since_a_loss_is_a_state_and_not_an_argument():
    with pytest.raises(ValueError, match="source_law of SinceALoss must not take since.*is a State that jumps at it"):
        ecc.fluid.simulate(ecc.Scenario(PATH, SinceALoss(), 1.0))


REMARK = "the queue of this equilibrium is an estimate"


def remarking(kind, **parameters):
    """A protocol whose equilibrium has a note."""

    class Remarking(kind):
        def equilibrium(self, network, assignment=None):
            return replace(super().equilibrium(network, assignment), notes=(REMARK,))

    return Remarking(**parameters)


@pytest.mark.parametrize(
    ("kind", "parameters", "rtt"),
    [(QIRCP, {}, 0.1), (FAST, {}, 0.1), (HPCC, {"base_rtt": 1e-5}, 1e-5), (PatchedTIMELY, {}, 2e-5)],
)
def test_linear_models_show_the_notes_of_the_equilibrium(kind, parameters, rtt):
    network = ecc.Network.dumbbell("10 Gb/s", rtts=[rtt] * 2)
    plain, system = (ecc.linearize(make(**parameters), network) for make in (kind, partial(remarking, kind)))
    assert set(system.notes) == {*plain.notes, REMARK}
    assert f"note: {REMARK}" in repr(system)
