"""Nothing that a protocol declares is ignored: in each engine it changes the run, is refused, or is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
import pytest

import ecc
from ecc.contract.entries import ENTRIES, LAWS, Taken
from ecc.contract.forms import GrantedWindows, Queues, SampledPrices, StateMachine, SteppedRates
from ecc.contract.protocol import Protocol
from ecc.contract.states import State
from ecc.errors import LinearizationError
from ecc.fluid.network import supported_entries
from ecc.laws.arguments import law_arguments
from ecc.loops import ack_clocked_windows as window_loop
from ecc.loops import explicit_feedback
from ecc.loops import host_rates as rate_loop
from ecc.models import BIC, EMKCAVQ, FAST, PIQIRCP, QIRCP, XCP, JetMax
from ecc.models.shared.windows import WindowProtocol

NETWORK = ecc.Network(
    links=[ecc.Link("2 Mb/s", "5 ms", buffer="10 kB"), ecc.Link("1.5 Mb/s", "10 ms", buffer="10 kB")],
    flows=[
        ecc.Flow([0, 1], access_delay=0.03),
        ecc.Flow([0], access_delay=0.01, start=0.5),
        ecc.Flow([1], access_delay=0.1, start=1.0),
    ],
)
ONE_QUEUE = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05, 0.05])


def announce_law(R: Any) -> Any:
    return 0.8 * R


def loss_response_law(w: Any) -> Any:
    return 0.3 * w


def memory_law(w: Any) -> Any:
    return w


def slow_start_law(w: Any) -> Any:
    return 1.5 * w


def decrease_law(w: Any) -> Any:
    return min(w, 20e3)


def priority_law(y: Any, C: Any) -> Any:
    return C - y


def refusal_law(y: Any, C: Any) -> Any:
    return y - 0.5 * C


def interval_law(d: Any) -> Any:
    return 0.5 * d


@dataclass
class Nothing:
    """What a machine without states keeps."""


def a_window(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.window = 10.0 * env.packet_size
    env.rate = env.window / 0.1


def half_a_window(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.window = 5.0 * env.packet_size
    env.rate = env.window / 0.1


def opening_rate(self: Protocol, rtt: Any, packet: Any) -> Any:
    return 7.0 * packet / rtt


def queue_interval_law(d: Any) -> Any:
    return 3.0 * d


def mark_response_law(w: Any) -> Any:
    return 0.4 * w


def probability_law(q: Any) -> Any:
    return 0.01 * q


def share_law(share: Any) -> Any:
    return 0.9 * share


DECLARATIONS: dict[str, list[Any]] = {
    "combine": ["min", "max", "sum"],
    "router_law": [],  # every engine needs them: their arguments are below
    "source_law": [],
    "announce_law": [staticmethod(announce_law)],
    "slow_start_law": [staticmethod(slow_start_law)],
    "decrease_law": [staticmethod(decrease_law)],
    "loss_response_law": [staticmethod(loss_response_law)],
    "memory_law": [staticmethod(memory_law)],
    "mark_response_law": [staticmethod(mark_response_law)],
    "probability_law": [staticmethod(probability_law)],
    "states": [{"share": State(share_law, "rtt")}],
    "queues": [Queues("drr", (1500, 1500))],
    "priority_law": [staticmethod(priority_law)],
    "scaling_rtt": ["max"],
    "scaling_rtt_limit": [0.02],
    "rtt_weights": ["flows", "rates"],
    "router_clock": ["rtt", "interval"],
    "source_clock": ["ack", "rtt", "always", "continuous"],
    "stamping": ["arrival", "departure"],
    "fluid_form": [
        SampledPrices(0.3),
        SteppedRates((3, 3), False, 0.3, refusal_law),
        GrantedWindows(interval_law, queue_interval_law),
        StateMachine(half_a_window, Nothing),
        None,
    ],
    "floor": [3.0],
    "initial": [0.7, 3.0],
    "windowed": [True, False],
    "paced_over": [0.2],
    "receiver_window": [3000],
    "opening_rate": [opening_rate],
    "opening_window": [9000.0],
}
"""Values of every entry that no protocol of `ENGINES` has, or that only some of them have."""


def curves(run: Any) -> list[Any]:
    return [run.rate.values, run.goodput.values, run.queue.values]


def fluid(**how: Any) -> Callable[[Protocol], tuple[list[Any], tuple[str, ...]]]:
    def run(protocol: Protocol) -> tuple[list[Any], tuple[str, ...]]:
        found = ecc.fluid.simulate(ecc.Scenario(NETWORK, protocol, 3.0), **how)
        return curves(found), found.notes

    return run


def linear(network: ecc.Network, time: str) -> Callable[[Protocol], tuple[list[Any], tuple[str, ...]]]:
    def run(protocol: Protocol) -> tuple[list[Any], tuple[str, ...]]:
        system = ecc.linearize(protocol, network, time=time)
        return [np.array(system.matrices), np.array(system.delays)], system.notes

    return run


@dataclass(frozen=True)
class Overloads(JetMax):
    """Links that are filled, so that there is a queue to ask for."""

    gamma: float = 1.1


class Waits(BIC):
    """Windows that respond to waits, losses, and what they remember of them."""

    @staticmethod
    def router_law(q: Any, C: Any) -> Any:
        return q / C

    @staticmethod
    def source_law(w: Any, m: Any, R: Any, s: Any) -> Any:
        return w + s - 10.0 * s * R + 0.01 * m


@dataclass(frozen=True)
class Paces(WindowProtocol):
    """A machine of states that sends at a window over the RTT."""

    fluid_form = StateMachine(a_window, Nothing)
    slow_start_law = None
    loss_response_law = None


class Priced(PIQIRCP):
    """Hosts that respond once to each rate of a router."""

    fluid_form = SampledPrices()


ENGINES: dict[str, tuple[type[Protocol], Callable[[Protocol], tuple[list[Any], tuple[str, ...]]]]] = {
    "equations": (PIQIRCP, fluid()),
    "recurrence": (PIQIRCP, fluid(time="discrete")),
    "stepped": (Overloads, fluid()),
    "sampled": (EMKCAVQ, fluid()),
    "averaged": (Priced, fluid(time="averaged")),
    "granted": (XCP, fluid()),
    "windows": (Waits, fluid()),
    "integrator": (Waits, fluid(clocking="rate")),
    "machines": (Paces, fluid()),
    "linear continuous": (QIRCP, linear(NETWORK, "continuous")),
    "linear discrete": (QIRCP, linear(NETWORK, "discrete")),
    "linear hybrid": (QIRCP, linear(NETWORK, "hybrid")),
    "linear windows": (FAST, linear(ONE_QUEUE, "continuous")),
}

SAME = {
    # waits delay nothing in the recurrence, and there are none where it is linear; who follows whom is given there, all
    # have long begun, and the mean RTT is that of the flows
    ("recurrence", "stamping"),
    *(
        (f"linear {time}", entry)
        for time in ("continuous", "discrete", "hybrid")
        for entry in ("stamping", "priority_law", "rtt_weights", "opening_rate", "floor", "initial")
    ),
    *(("machines", entry) for entry in ("combine", "initial")),  # losses are summed; hooks may read `initial`
    *(
        ("linear windows", entry)
        for entry in ("slow_start_law", "loss_response_law", "memory_law", "initial", "opening_window")
    ),
    *(
        (engine, entry) for engine in ("windows", "integrator") for entry in ("mark_response_law", "states")
    ),  # no link marks; no law asks for the states here
}


@cache
def plain(engine: str) -> Any:
    kind, run = ENGINES[engine]
    return run(kind())


def told(engine: str, protocol: Protocol) -> str:
    """What an engine makes of a protocol: "refused", "noted", "changed" or "ignored"."""
    try:
        found, notes = ENGINES[engine][1](protocol)
    except (ValueError, LinearizationError) as error:
        assert "\n" not in str(error)
        return "refused"
    before, usual = plain(engine)
    if set(notes) - set(usual):
        return "noted"
    same = all(a.shape == b.shape and np.array_equal(a, b) for a, b in zip(found, before, strict=True))
    return "ignored" if same else "changed"


def test_every_entry_of_protocol_is_in_the_table() -> None:
    assert set(DECLARATIONS) == set(ENTRIES)
    assert set(LAWS) == {entry for entry in ENTRIES if entry.endswith("_law")}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("entry", DECLARATIONS)
def test_what_a_class_declares_changes_the_run_or_is_refused_or_told(entry: str, engine: str) -> None:
    kind, _ = ENGINES[engine]
    usual = getattr(kind(), entry, None)
    answers = []
    for value in DECLARATIONS[entry]:
        if value == usual or (engine, entry) in SAME or (usual is None and value is False):
            continue
        if entry in {f.name for f in fields(kind)}:
            protocol = kind(**{entry: value})
        else:
            protocol = type("Declares", (kind,), {entry: value})()
        answers.append(told(engine, protocol))
    assert not answers or set(answers) != {"ignored"}, (engine, entry)
    if (engine, entry) in SAME:  # and these are so because they say so
        taken: Taken = {
            "recurrence": supported_entries.RECURRENCE,
            "windows": supported_entries.WINDOWS,
            "integrator": supported_entries.WINDOWS,
            "machines": supported_entries.MACHINES,
            "linear windows": window_loop._TAKEN,
            "linear rates": rate_loop._TAKEN,
        }.get(engine, explicit_feedback._TAKEN)
        assert taken.instead[entry] == ""


ARGUMENTS = ("R", "R_prev", "x", "x_rtt", "y", "y_prev", "u", "N", "N_all", "q", "C", "d", "D", "T", "w", "m", "s",
             "q_flow", "q_mean", "loss", "since")  # fmt: skip
"""All that laws may ask for, by the table of `ecc.contract.protocol`."""


def asking(kind: type[Protocol], entry: str, argument: str) -> type[Protocol]:
    """A protocol like another whose law takes one more argument."""
    law = getattr(kind(), entry)
    own = law_arguments(law)
    every = ", ".join(dict.fromkeys([*own, argument]))
    text = (
        f"def law({every}):\n    return base({', '.join(own)}) * (1.0 + 0.05 * {argument} / (1.0 + abs({argument})))\n"
    )
    scope: dict[str, Any] = {"base": law, "__name__": __name__}
    exec(text, scope)
    return type("Asks", (kind,), {entry: staticmethod(scope["law"])})


@pytest.mark.slow
@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("entry", ["router_law", "source_law"])
@pytest.mark.parametrize("engine", [one for one in ENGINES if not one.startswith("linear") and one != "machines"])
def test_what_a_law_asks_for_changes_the_run_or_is_refused(engine: str, entry: str, argument: str) -> None:
    assert told(engine, asking(ENGINES[engine][0], entry, argument)()) != "ignored"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            type("Scales", (FAST,), {"scaling_rtt": "max"}),
            "scaling_rtt must be 'mean' for a fluid of windows of Scales",
        ),
        (
            type("Rates", (XCP,), {"rtt_weights": "rates"}),
            "rtt_weights must be 'flows' for a fluid of granted windows of Rates",
        ),
        (
            type("Remembers", (QIRCP,), {"memory_law": staticmethod(memory_law)}),
            "Remembers has no fluid model: it declares memory_law, which a fluid run does not act on",
        ),
        (
            type("Clocked", (QIRCP,), {"source_clock": "rtt"}),
            "Clocked has no fluid model: it declares source_clock, which a fluid run does not act on",
        ),
        (
            type("Announces", (FAST,), {"announce_law": staticmethod(announce_law)}),
            "Announces declares announce_law, but its router_law keeps no R: what it returns is announced",
        ),
    ],
)
def test_refusals_name_the_entry(kind: type[Protocol], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ecc.fluid.simulate(ecc.Scenario(NETWORK, kind(), 1.0))
