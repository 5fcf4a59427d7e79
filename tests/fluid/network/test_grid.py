"""Runs on a grid end where a law fails, or returns what is not finite: which law, of what, when and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import repeat
from math import nan, sqrt
from typing import Any

import pytest

import ecc
from ecc.contract.forms import StateMachine
from ecc.contract.states import State
from ecc.models import EDN, EMKC, XCP, JetMax, NewReno, Protocol
from ecc.models.shared.windows import WindowProtocol
from ecc.queues import RED
from ecc.scenario import Scenario

NOT_FINITE = "FloatingPointError: its result is not finite"


class Windows(EDN):
    """Windows that answer the wait in the queue, begun without slow start."""

    slow_start_law = loss_response_law = None

    @staticmethod
    def router_law(q: float, C: float) -> float:
        return q / C

    @staticmethod
    def source_law(w: float, R: float) -> float:
        return w + 0.0 * R


class NaNWindows(Windows):
    @staticmethod
    def source_law(w: float) -> float:
        return nan * w


class RootsOfNegatives(Windows):
    @staticmethod
    def source_law(w: float, R: float) -> float:
        return w + sqrt(-1.0 - R)


class Overflows(Windows):
    @staticmethod
    def source_law(w: float) -> float:
        return w * 1e300 * 1e300


class Huge(Windows):
    @staticmethod
    def source_law(w: float) -> float:
        return 1e30 * w


class DividesByZero(Windows):
    @staticmethod
    def source_law(w: float, R: float) -> float:
        return w / (R - R)


class NaNRouter(Windows):
    @staticmethod
    def router_law(q: float, C: float) -> float:
        return nan * q


class NaNAverage(Windows):
    @staticmethod
    def router_law(q_mean: float, y: float, C: float) -> float:
        return q_mean / C if y <= 0.0 else nan


class NaNMemory(NewReno):
    @staticmethod
    def memory_law(m: float) -> float:
        return nan * m


class NaNAtLosses(NewReno):
    @staticmethod
    def loss_response_law(w: float) -> float:
        return nan * w


class NaNInSlowStart(NewReno):
    @staticmethod
    def slow_start_law(w: float) -> float:
        return nan * w


class NaNDecrease(NewReno):
    @staticmethod
    def decrease_law(w: float) -> float:
        return nan * w


def no_number(age: float) -> float:
    return nan * age


class NaNState(NewReno):
    @property
    def states(self) -> dict[str, State]:
        return {"age": State(no_number, "continuous", 1.0, lowest=0.0)}


class NaNJump(NewReno):
    @property
    def states(self) -> dict[str, State]:
        return {"age": State(None, "rtt", 1.0, jumps={"loss": no_number})}


class NaNRED(RED):
    @staticmethod
    def probability_law(q: float) -> float:
        return nan * q


@dataclass
class Kept:
    count: float = 0.0


def no_rate(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.count += 1.0
    env.rate = nan * env.now


class NaNMachine(WindowProtocol):
    fluid_form = StateMachine(no_rate, Kept)
    slow_start_law = loss_response_law = None


class NaNRates(EMKC):
    @staticmethod
    def source_law(x: float) -> float:
        return nan * x


class NaNPrices(EMKC):
    @staticmethod
    def router_law(y: float) -> float:
        return nan * y


class NaNGrants(XCP):
    @staticmethod
    def router_law(x: float) -> float:
        return nan * x


class NaNWindowsOfXCP(XCP):
    @staticmethod
    def source_law(x: float) -> float:
        return nan * x


class NaNOffers(JetMax):
    @staticmethod
    def router_law(u: float) -> float:
        return nan * u


class NaNSteps(JetMax):
    @staticmethod
    def source_law(x: float) -> float:
        return nan * x


def stopped(protocol: Protocol, discipline: Protocol | None = None) -> str:
    network = ecc.Network.dumbbell("10 Mb/s", rtts=[0.02, 0.04], buffer=30_000, packet_size=1000)
    stack: Any = protocol
    if discipline is not None:
        stack = {"flows": {"default": protocol}, "links": {"default": discipline}}
    run = ecc.fluid.simulate(Scenario(network, stack, 3.0), sample=0.1)
    assert not run.is_complete
    return run.stopped


@pytest.mark.parametrize("kind", [NewReno, NaNAverage, NaNWindowsOfXCP, NaNSteps])
def test_a_run_that_ends_early_keeps_the_same_samples_for_any_length_of_a_turn(kind: Any, monkeypatch: Any) -> None:
    """Turns take a tenth of a second, so that their lengths depend on the machine and on compilation."""
    network = ecc.Network.dumbbell("10 Mb/s", rtts=["50 ms", "100 ms"], buffer=60_000)
    protocol = NewReno(receiver_window=20_000) if kind is NewReno else kind()
    found = []
    for steps in (1, 7, 20_000):
        monkeypatch.setattr("ecc.fluid.network.grid.turns", lambda _, steps=steps: repeat(steps))
        found.append(
            ecc.fluid.simulate(
                Scenario(network, protocol, 3.0), sample=0.01, clocking="rate" if kind is NewReno else "ack"
            )
        )
    assert not found[0].is_complete
    for run in found[1:]:
        assert run.data.identical(found[0].data) and run.stopped == found[0].stopped
        assert run.stats["steps"] == found[0].stats["steps"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "what", "why"),
    [
        (NaNWindows(), "source law of flow 0", NOT_FINITE),
        (RootsOfNegatives(), "source law of flow 0", NOT_FINITE),
        (Overflows(), "source law of flow 0", NOT_FINITE),
        (Huge(), "source law of flow 0", "its window is more than 2^63 bytes"),
        (DividesByZero(), "source law of flow 0", "ZeroDivisionError: division by zero"),
        (NaNRouter(), "router law of link 0", NOT_FINITE),
        (NaNAverage(), "router law of link 0", NOT_FINITE),
        (NaNMemory(), "memory law of flow [01]", NOT_FINITE),
        (NaNAtLosses(), "loss response law of flow [01]", NOT_FINITE),
        (NaNInSlowStart(), "slow start law of flow 0", NOT_FINITE),
        (NaNDecrease(), "decrease law of flow [01]", NOT_FINITE),
        (NaNState(), "law of a state of flow 0", NOT_FINITE),
        (NaNJump(), "law of a state of flow [01]", NOT_FINITE),
        (NaNMachine(), "machine of states of flow 0", "its rate or its window is not a number >= 0"),
        (NaNRates(), "source law of flow 0", NOT_FINITE),
        (NaNPrices(), "router law of link 0", NOT_FINITE),
        (NaNGrants(), "router law of link 0", NOT_FINITE),
        (NaNWindowsOfXCP(), "source law of flow 0", NOT_FINITE),
        (NaNOffers(), "router law of link 0", NOT_FINITE),
        (NaNSteps(), "source law of flow 0", NOT_FINITE),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Protocol) else "",
)
def test_what_is_no_number_ends_a_run(protocol: Protocol, what: str, why: str) -> None:
    assert re.fullmatch(rf"the {what} failed at t = [0-9.e-]+ s: {re.escape(why)}", stopped(protocol))


def test_a_probability_that_is_no_number_ends_a_run() -> None:
    found = stopped(NewReno(), NaNRED())
    assert re.fullmatch(rf"the queue discipline of link 0 failed at t = [0-9.e-]+ s: {NOT_FINITE}", found)


class NoNumber(Windows):
    @staticmethod
    def source_law(w: float) -> float:
        w + 1.0


class NoSuchName(Windows):
    @staticmethod
    def source_law(w: float) -> float:
        return w + unknown  # noqa: F821


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (NoNumber(), "^source_law of NoNumber must return a number, got None$"),
        (NoSuchName(), "^source_law of NoSuchName cannot be compiled: NameError: name 'unknown' is not defined"),
    ],
)
def test_a_law_that_cannot_be_compiled_is_named(protocol: Protocol, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        stopped(protocol)
