"""The recurrence of one structure of network and laws as generated source, compiled by Numba: a kernel for ensembles.

The engine of single runs (`recurrence`) reads flows, links and routes from tables and calls laws by their addresses,
which costs more than their arithmetic. Here a step is written out: a variable for each quantity of each flow and link,
and the laws inlined. What members of an ensemble may vary stays a variable, so that one kernel serves all of them. The
operations and their order are those of the engine, without contraction or reordering, so that results have the same
bits. A law that raises ends the call; `counter` then names the member, which the caller gives to the engine.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, nan
from time import perf_counter
from typing import Any, NamedTuple

import numba
import numpy as np

from ecc._support.cache import kept
from ecc.fluid.compiled import entry, unpacker
from ecc.fluid.network.recurrence import NO_LINK, NOT_STARTED, STOPPED
from ecc.jit.reach import jitable, lock
from ecc.laws.arguments import arguments_text, takes

__all__ = ["MAX_CROSSINGS", "POINTERS", "Kernel", "Layout", "Structure", "kernel_of"]

MAX_CROSSINGS = 12
"""Maximum number of pairs of a flow and a link; the time to compile grows with it."""

POINTERS = (
    "floats",  # (n_members, layout.n_floats): parameters and initial conditions
    "samples",  # ends of samples, in steps
    "scratch",  # histories of one member
    "out_links",  # (n_members, n_samples, 4, n_links), as in `recurrence.Fields`
    "out_groups",  # (n_members, n_samples, 4, n_groups)
    "finals",  # (n_members, 4, n_groups): total, delivered, lost, finished
    "rates",  # (n_members, n_samples, n_groups), if states are recorded
    "states",  # (n_members, n_samples, n_links), if states are recorded
    "integers",  # (n_members, layout.n_integers)
    "int_scratch",
    "outcome",  # (n_members, 2): status and number of steps
    "counter",  # (1,): member that runs
)
_unpack = unpacker("f" * POINTERS.index("integers") + "i" * (len(POINTERS) - POINTERS.index("integers")))
_OF_SOURCE = {"x": "x{g}", "x_rtt": "past{g}", "R": "R{g}", "R_prev": "R_prev{g}", "D": "rtt_now{g}", "T": "T"}
_OF_ROUTER = {
    "R": "state{l}",
    "y": "y{l}",
    "y_prev": "y_prev{l}",
    "u": "(other{l} if bottlenecked{l} > 0.0 else 0.0)",
    "N": "max(1.0, bottlenecked{l})",
    "N_all": "max(1.0, crossing{l})",
    "q": "queue{l}",
    "C": "C{l}",
    "d": "mean{l}",
    "T": "T",
}


class Structure(NamedTuple):
    """All of a network and of its laws that is fixed in the source of a kernel.

    `router`, `source`, `announce`, `priority`: laws, or None. `parameters`: names in `params()`.
    """

    routes: tuple[tuple[int, ...], ...]
    responds: tuple[tuple[bool, ...], ...]
    n_links: int
    combine: str
    longest: bool
    router: Callable[..., Any] | None
    source: Callable[..., Any]
    announce: Callable[..., Any] | None
    priority: Callable[..., Any] | None
    parameters: tuple[str, ...]
    records: bool

    @property
    def n_groups(self) -> int:
        """Number of groups of flows."""
        return len(self.routes)

    @property
    def crossings(self) -> list[tuple[int, int]]:
        """Group and link of each crossing."""
        return [(g, link) for g, route in enumerate(self.routes) for link in route]

    @property
    def remembers(self) -> bool:
        """Whether routers have a state."""
        return takes(self.router, "R")

    @property
    def by_flow(self) -> bool:
        """Whether each flow has a separate signal at a link."""
        return takes(self.announce or self.router, "x")

    @property
    def looks_back(self) -> bool:
        """Whether the source law takes the rate of one RTT ago."""
        return takes(self.source, "x_rtt")

    @property
    def n_signals(self) -> int:
        """Number of signals."""
        return len(self.crossings) if self.by_flow else self.n_links


@dataclass(frozen=True)
class Layout:
    """Names of the columns that each member has, of numbers and of integers."""

    floats: tuple[str, ...]
    integers: tuple[str, ...]

    @classmethod
    def of(cls, structure: Structure) -> Layout:
        """Return the columns of a structure.

        Parameters
        ----------
        structure : Structure
        """
        links, groups = range(structure.n_links), range(structure.n_groups)
        crossings, signals = range(len(structure.crossings)), range(structure.n_signals)
        floats = ["T", *(f"p_{name}" for name in structure.parameters)]
        for name in ("C", "buffer", "low", "high", "state", "queue", "remaining", "wait_at_start", "y"):
            floats += [f"{name}{link}" for link in links]
        floats += [f"urgency_at_start{link}" for link in links if structure.priority]
        floats += [f"advertised_at_start{s}" for s in signals]
        for name in ("rtt", "members", "floor", "floor_rate", "size", "x", "sent_at_start", "carried_at_start"):
            floats += [f"{name}{g}" for g in groups]
        integers = ["last", "n_samples", "mask", "memory", "waited"]
        for name in ("head", "advertises_from"):
            integers += [f"{name}{link}" for link in links]
        for name in ("opens", "stops", "responds_after", "bottleneck_at_start"):
            integers += [f"{name}{g}" for g in groups]
        for name in ("ahead", "back"):
            integers += [f"{name}{p}" for p in crossings]
        return cls(tuple(floats), tuple(integers))

    def scratch(self, structure: Structure, size: int, memory: int) -> tuple[int, int]:
        """Return the lengths of the scratch arrays of numbers and of integers.

        Parameters
        ----------
        structure : Structure
        size : int
            Number of steps in a history, a power of two.
        memory : int
            Number of steps with arrivals that a queue keeps.
        """
        L, G = structure.n_links, structure.n_groups
        return size * (structure.n_signals + 2 * L + 3 * G) + L * memory, size * G


@dataclass(frozen=True)
class Kernel:
    """Compiled members of a structure: `run(table, first, end)` runs members from `first` to `end` - 1.

    `seconds`: time that compiling or loading took [s].
    """

    run: Callable[..., None]
    layout: Layout
    seconds: float


_NO_WAIT = "no_wait = n - waited > 2 * mask + 2"  # evaluated again after each queue, as in the engine
_SIGNATURE = (numba.types.int64[::1], numba.types.int64, numba.types.int64)
_kernels: dict[Structure, Kernel] = {}


def kernel_of(structure: Structure, seconds: float) -> Kernel | None:
    """Return the kernel of a structure, or None if compiling or loading it would take longer than it can save.

    Parameters
    ----------
    structure : Structure
    seconds : float, s
        CPU time of the runs without a kernel.

    Raises
    ------
    TypeError
        If a law cannot be inlined.
    """
    with lock:
        if structure in _kernels:
            return _kernels[structure]
        if seconds < _SECONDS_TO_LOAD:
            return None
        began = perf_counter()
        made = entry(_function_of(structure))
        is_kept = kept(made._cache.name(_SIGNATURE, made.targetctx.codegen())) is not None
        if not is_kept and seconds < _SECONDS_TO_COMPILE * (1.0 + len(structure.crossings)):
            return None
        from numba.core.errors import NumbaError

        try:
            made.compile(_SIGNATURE)
        except NumbaError as error:
            raise TypeError(f"a law cannot be inlined: {error!s:.200}") from None
        _kernels[structure] = Kernel(made, Layout.of(structure), perf_counter() - began)
        return _kernels[structure]


_SECONDS_TO_LOAD, _SECONDS_TO_COMPILE = 0.5, 1.0  # the latter for each crossing, and once


@lru_cache(256)
def _record_of(names: tuple[str, ...]) -> Any:
    return namedtuple("Parameters", names)


def _function_of(structure: Structure) -> Callable[..., None]:
    laws = {
        name: jitable(law, from_python=False, allocates=False)
        for name in ("router", "source", "announce", "priority")
        if (law := getattr(structure, name)) is not None
    }
    scope: dict[str, Any] = {
        **{f"{name}_law": law for name, law in laws.items()},
        "unpack": _unpack,
        "Parameters": _record_of(structure.parameters),
        "isfinite": np.isfinite,
        "ceil": ceil,
        "nan": nan,
        "inf": inf,
        "__name__": __name__,
    }
    exec(source_of(structure), scope)
    function: Callable[..., None] = scope["members"]
    return function


# The source of a kernel ---------------------------------------------------------------------------------------------


def source_of(structure: Structure) -> str:
    """Return the source of the kernel of a structure, the function `members(table, first, end)`.

    Parameters
    ----------
    structure : Structure
    """
    return _Source(structure).text()


class _Source:
    """The statements of a kernel, in the order in which they run. Comments and names are those of `recurrence`."""

    def __init__(self, structure: Structure) -> None:
        self.s = structure
        self.layout = Layout.of(structure)
        self.links, self.groups = range(structure.n_links), range(structure.n_groups)
        self.through = {link: [p for p, (_, at) in enumerate(structure.crossings) if at == link] for link in self.links}
        self.of_group = {g: [p for p, (owner, _) in enumerate(structure.crossings) if owner == g] for g in self.groups}
        self.adds_up = structure.combine == "sum"
        self.may_be_steady = structure.priority is None and all(len(route) == 1 for route in structure.routes)

    def text(self) -> str:
        """Return the source."""
        body = [
            f"{', '.join(POINTERS)} = unpack(table)",
            "for m in range(first, end):",
            *_indented(
                [
                    "counter[0] = m",
                    *self.load(),
                    *self.histories(),
                    "n = row = sample = status = 0",
                    "before = (n - 1) & mask",
                    *self.receive(),
                    "while n < last:",
                    *_indented([*self.steady_steps(), *self.step(), *self.samples()]),
                    *self.store(),
                ]
            ),
        ]
        return "\n".join(["def members(table, first, end):", *_indented(body)]) + "\n"

    def load(self) -> list[str]:
        """Read the columns of a member, and set the sums to zero."""
        floats, integers = self.layout.floats, self.layout.integers
        lines = [f"at_floats, at_integers = m * {len(floats)}, m * {len(integers)}"]
        lines += [f"{name} = floats[at_floats + {k}]" for k, name in enumerate(floats)]
        lines += [f"{name} = integers[at_integers + {k}]" for k, name in enumerate(integers)]
        lines += [f"p = Parameters({', '.join(f'p_{name}' for name in self.s.parameters)})"]
        lines += [
            f"y_prev{link} = mean{link} = bottlenecked{link} = crossing{link} = other{link} = loss{link} = 0.0"
            for link in self.links
        ]
        lines += [f"arrived{link} = dropped{link} = 0.0" for link in self.links]
        lines += [f"peak{link} = queue{link}" for link in self.links]
        lines += [f"total{g} = delivered{g} = lost{g} = R{g} = R_prev{g} = past{g} = 0.0" for g in self.groups]
        lines += [f"finished{g}, selected{g}, rtt_now{g} = nan, {NO_LINK}, rtt{g}" for g in self.groups]
        lines += [f"reaching{p} = 0.0" for p in range(len(self.s.crossings))]
        lines += ["loses, uneven, next_stop = False, 0, last"]
        return lines

    def histories(self) -> list[str]:
        """Fill the histories of the time before the first step."""
        L, G, S = self.s.n_links, self.s.n_groups, self.s.n_signals
        lines = [
            "advertised = 0",
            f"wait = advertised + (mask + 1) * {S}",
            f"urgency = wait + (mask + 1) * {L}",
            f"sent = urgency + (mask + 1) * {L}",
            f"carried = sent + (mask + 1) * {G}",
            f"x_of_step = carried + (mask + 1) * {G}",
            f"volume = x_of_step + (mask + 1) * {G}",
            "for k in range(mask + 1):",
        ]
        fill = [f"scratch[advertised + k * {S} + {s}] = advertised_at_start{s}" for s in range(S)]
        fill += [f"scratch[wait + k * {L} + {link}] = wait_at_start{link}" for link in self.links]
        if self.s.priority:
            fill += [f"scratch[urgency + k * {L} + {link}] = urgency_at_start{link}" for link in self.links]
        for g in self.groups:
            fill += [f"scratch[{name} + k * {G} + {g}] = {name}_at_start{g}" for name in ("sent", "carried")]
            fill += [f"scratch[x_of_step + k * {G} + {g}] = x{g}"] * self.s.looks_back
            fill += [f"int_scratch[k * {G} + {g}] = bottleneck_at_start{g}"]
        lines += _indented(fill)
        for link in self.links:  # the arrivals that wait in the queue at the start came at capacity
            lines += [
                f"for k in range(head{link}, 1):",
                f"    scratch[volume + {link} * memory + k % memory] = C{link} * T",
            ]
        return lines

    # steps

    def step(self) -> list[str]:
        """Advance by one step, whatever the state."""
        lines = ["n += 1", *self.rows(), *self.receive(), "loses, next_stop = False, last"]
        for g in self.groups:
            lines += self.send(g)
        for link in self.links:
            lines += [*self.arrive(link), *self.queue_router_and_signals(link)]
        return [*lines, *self.deliver()]

    def steady_steps(self) -> list[str]:
        """Advance by all steps up to a sample, or to a queue, while every flow has feedback of its link."""
        if not self.may_be_steady:
            return []
        lines = ["n += 1", *self.rows(), "loses = False", "check = 0.0"]
        S, G = self.s.n_signals, self.s.n_groups
        for g, (_, link) in zip(self.groups, self.s.crossings, strict=True):
            signal = g if self.s.by_flow else link
            lines += [
                f"R_prev{g} = R{g}",
                f"R{g} = scratch[advertised + ((n - back{g}) & mask) * {S} + {signal}]",
            ]
            if self.s.looks_back:
                lines += [f"past{g} = scratch[x_of_step + ((n - back{g} - ahead{g}) & mask) * {G} + {g}]"]
            lines += [
                f"x{g} = max({self.call('source', _OF_SOURCE, g=g)}, floor_rate{g})",
                f"check += x{g} * 0.0",
                f"scratch[sent + row * {G} + {g}] = x{g}",
                f"total{g} += x{g} * T",
            ]
            lines += [f"scratch[x_of_step + row * {G} + {g}] = x{g}"] * self.s.looks_back
        lines += ["if not check == 0.0:", "    status = 1", "    break"]
        for link in self.links:
            lines += [*self.arrive_steadily(link), *self.queue_router_and_signals(link, steadily=True)]
        lines += self.deliver()
        stop = ["if waited == n:", "    break"]
        return [
            "if n - uneven > mask and n < next_stop and n - waited > 2 * mask + 1:",
            *_indented(
                [
                    "due = min(last, next_stop, int(ceil(samples[sample])))",
                    "while n < due:",
                    *_indented([*lines, *stop]),
                    "if status == 0:",
                    *_indented([*self.samples(), "continue"]),
                ]
            ),
            "if status != 0:",
            "    break",
        ]

    def rows(self) -> list[str]:
        """Set the rows of this step and of the one before in the histories."""
        return ["row, before = n & mask, (n - 1) & mask"]

    def receive(self) -> list[str]:
        """Set the feedback that each group receives, its link, the RTT, and the rate an RTT ago if a law needs it."""
        S, L, G = self.s.n_signals, self.s.n_links, self.s.n_groups
        lines = [_NO_WAIT]
        better = "<" if self.s.combine == "min" else ">"
        for g in self.groups:
            lines += [f"best, which, rank, past_rate, rtt = 0.0, {NO_LINK}, 0.0, 0.0, rtt{g}"]
            for p, responds in zip(self.of_group[g], self.s.responds[g], strict=True):
                link = self.s.crossings[p][1]
                lines += [f"stamped = n - back{p}"]
                lines += [f"if not no_wait:\n    rtt += scratch[wait + (stamped & mask) * {L} + {link}]"]
                if not responds:
                    continue
                choose = [f"best, which = value, {link}"]
                if self.s.priority:
                    choose += ["rank = urgency_now"]
                if self.s.looks_back:
                    choose += [f"past_rate = scratch[x_of_step + ((stamped - ahead{p}) & mask) * {G} + {g}]"]
                look = [
                    f"value = scratch[advertised + (stamped & mask) * {S} + {p if self.s.by_flow else link}]",
                ]
                closer = f"value {better} best"
                if self.s.priority:
                    look += [f"urgency_now = scratch[urgency + (stamped & mask) * {L} + {link}]"]
                    closer = f"urgency_now > rank or (urgency_now == rank and {closer})"
                look += [f"if which < 0{'' if self.adds_up else f' or ({closer})'}:", *_indented(choose)]
                if self.adds_up:
                    look += ["else:", "    best += value"]
                lines += [
                    f"if stamped >= advertises_from{link} and stamped - ahead{p} > responds_after{g}:",
                    *_indented(look),
                ]
            lines += [
                f"R_prev{g} = R{g} if selected{g} >= 0 else best",
                f"R{g}, rtt_now{g}, past{g}, selected{g} = best, rtt, past_rate, which",
            ]
        return lines

    def send(self, g: int) -> list[str]:
        """Set the rate of a group in this step."""
        G = self.s.n_groups
        return [
            f"which, rate, x = selected{g}, 0.0, x{g}",
            f"if n <= opens{g}:",
            f"    which = {NOT_STARTED}",
            f"elif n > stops{g}:",
            f"    which = {STOPPED}",
            "else:",
            "    if which >= 0:",
            f"        floor_now = floor{g} / rtt_now{g} if floor{g} > 0.0 else 0.0",
            f"        x = max({self.call('source', _OF_SOURCE, g=g)}, floor_now)",
            "    rate = x",
            f"    if rate * T >= size{g} - total{g}:",
            f"        rate = (size{g} - total{g}) / T",
            f"        stops{g} = n",
            f"        finished{g} = float(n)",
            "    if not isfinite(rate):",
            "        status = 1",
            "        break",
            f"x{g} = x",
            f"scratch[sent + row * {G} + {g}] = rate",
            f"int_scratch[row * {G} + {g}] = which",
            f"total{g} += rate * T",
            f"if which < 0 or size{g} < inf:",
            "    uneven = n",
            f"next_stop = min(next_stop, stops{g})",
            "if not no_wait:",
            f"    scratch[carried + row * {G} + {g}] = rtt_now{g}",
            *[f"scratch[x_of_step + row * {G} + {g}] = x"] * self.s.looks_back,
        ]

    def arrive(self, link: int) -> list[str]:
        """Add up the arrivals at a link in this step."""
        G = self.s.n_groups
        lines = [_NO_WAIT, "arrival = weighted = idle = bottlenecked = crossing = other = 0.0"]
        for p in self.through[link]:
            g = self.s.crossings[p][0]
            mine = "True" if self.adds_up else f"bottleneck == {link}"
            lines += [
                f"at = ((n - ahead{p}) & mask) * {G} + {g}",
                "rate, bottleneck = scratch[sent + at], int_scratch[at]",
                f"rtt = rtt{g} if no_wait else scratch[carried + at]",
                f"flow = rate * members{g}",
                f"reaching{p} = rate",
                "arrival += flow",
                *self.weigh(),
                f"if bottleneck > {NOT_STARTED}:",
                "    idle = max(idle, rtt)",
                f"    if bottleneck > {STOPPED}:",
                f"        crossing += members{g}",
                f"        if {mine}:",
                f"            bottlenecked += members{g}",
                "        else:",
                "            other += flow",
            ]
        return [
            *lines,
            f"y_prev{link}, y{link} = y{link}, arrival",
            f"bottlenecked{link}, crossing{link}, other{link} = bottlenecked, crossing, other",
        ]

    def arrive_steadily(self, link: int) -> list[str]:
        """Do the work of `arrive` if all is steady, so that the bottlenecks are known."""
        G = self.s.n_groups
        lines = [*([_NO_WAIT] if link else []), "arrival = weighted = idle = 0.0"]
        for g in self.through[link]:
            lines += [
                f"at = ((n - ahead{g}) & mask) * {G} + {g}",
                "rate = scratch[sent + at]",
                f"rtt = rtt{g}" if link == 0 else f"rtt = rtt{g} if no_wait else scratch[carried + at]",
                f"flow = rate * members{g}",
                f"reaching{g} = rate",
                "arrival += flow",
                "idle = max(idle, rtt)",
                *self.weigh(),
            ]
        return [*lines, f"y_prev{link}, y{link} = y{link}, arrival"]

    def weigh(self) -> list[str]:
        """Weight the RTT of an arrival by its rate."""
        return ["if rate > 0.0:\n    weighted = max(weighted, rtt)"] if self.s.longest else ["weighted += flow * rtt"]

    def queue_router_and_signals(self, link: int, steadily: bool = False) -> list[str]:
        """Add the arrivals to the queue of a link, update its router, and advertise.

        In steady steps without waits the histories of waits are 0 already, and every router has advertised.
        """
        L, S, C, at = self.s.n_links, self.s.n_signals, f"C{link}", f"volume + {link} * memory"
        failed = ["status = 1", "break"]
        empty = [f"queue{link} = loss{link} = remaining{link} = 0.0", f"head{link} = n"]
        lines = [
            f"arrived{link} += y{link} * T",
            f"queued = queue{link}",
            f"level = max(0.0, queued + T * (y{link} - {C}))",
            "if level <= 0.0:",
            *_indented([*empty, *([] if steadily else [f"scratch[wait + row * {L} + {link}] = 0.0"])]),
            "else:",
            f"    excess, loss{link} = max(0.0, level - buffer{link}), 0.0",
            "    if excess > 0.0:",
            f"        dropped{link} += excess",
            f"        loss{link} = min(1.0, excess / (y{link} * T))",
            f"        level = buffer{link}",
            "        loses = True",
            f"    queue{link} = level",
            f"    scratch[{at} + n % memory] = y{link} * T - excess",
            "    steps = 0.0",
            "    if level <= 0.0:  # there is no buffer",
            *_indented(_indented(empty[1:])),
            f"        remaining{link} = 0.0",
            "    else:",
            f"        served = queued + y{link} * T - excess - level",
            f"        while served > remaining{link} and head{link} < n:",
            f"            served -= remaining{link}",
            f"            head{link} += 1",
            f"            remaining{link} = scratch[{at} + head{link} % memory]",
            f"        remaining{link} = max(0.0, remaining{link} - served)",
            f"        if n - head{link} >= memory - 1:",
            *_indented(_indented(_indented(failed))),
            f"        accepted = scratch[{at} + head{link} % memory]",
            f"        steps = n - head{link} + (remaining{link} / accepted if accepted > 0.0 else 0.0)",
            f"    scratch[wait + row * {L} + {link}] = steps * T",
            "    if steps > 0.0:",
            "        waited = n",
            f"    peak{link} = max(peak{link}, queue{link})",
            f"mean{link} = idle",
            f"if y{link} > 0.0:",
            *([] if steadily else [f"    advertises_from{link} = min(advertises_from{link}, n)"]),
            f"    mean{link} = weighted{'' if self.s.longest else f' / y{link}'}",
        ]
        finite = ["if not isfinite(result):", *_indented(failed)]
        if self.s.priority:
            lines += [
                f"urgency_now = scratch[urgency + before * {L} + {link}]",
                f"if y{link} > 0.0:",
                *_indented(
                    [f"result = {self.call('priority', _OF_ROUTER, link=link)}", *finite, "urgency_now = result"]
                ),
                f"scratch[urgency + row * {L} + {link}] = urgency_now",
            ]
        if self.s.remembers:
            limited = f"state{link} = min(max(result, low{link}), high{link})"
            lines += [
                f"if mean{link} > 0.0:",
                *_indented([f"result = {self.call('router', _OF_ROUTER, link=link)}", *finite, limited]),
            ]
        name = "announce" if self.s.announce else "router"
        if self.s.remembers and not self.s.announce and not self.s.by_flow:
            return [*lines, f"scratch[advertised + row * {S} + {link}] = state{link}"]
        law, keep = [], []
        for signal, arrives in [(p, f"reaching{p}") for p in self.through[link]] if self.s.by_flow else [(link, "")]:
            law += [f"result = {self.call(name, {**_OF_ROUTER, 'x': arrives}, link=link)}", *finite]
            law += [f"scratch[advertised + row * {S} + {signal}] = result"]
            keep += [f"scratch[advertised + row * {S} + {signal}] = scratch[advertised + before * {S} + {signal}]"]
        return [*lines, f"if y{link} > 0.0:", *_indented(law), "else:", *_indented(keep)] if law else lines

    def deliver(self) -> list[str]:
        """Add up what reaches the receivers, and the losses."""
        lines = []
        for g in self.groups:
            arriving = f"reaching{self.of_group[g][-1]}"
            lines += [
                "if loses:",
                f"    lost_rate = {self.lost_rate(g)}",
                f"    delivered{g} += max(0.0, {arriving} - lost_rate) * T",
                f"    lost{g} += lost_rate * T",
                "else:",
                f"    delivered{g} += max(0.0, {arriving}) * T",
            ]
        return lines

    def lost_rate(self, g: int) -> str:
        """Return the rate that a flow loses at all links of its route."""
        return " + ".join(["0.0", *(f"reaching{p} * loss{self.s.crossings[p][1]}" for p in self.of_group[g])])

    # results

    def samples(self) -> list[str]:
        """Write the samples that end in this step."""
        L, G = self.s.n_links, self.s.n_groups
        lines = ["later = (1.0 - (samples[sample] - n + 1.0)) * T", f"at = (m * n_samples + sample) * {4 * L}"]
        for link in self.links:
            lines += [
                f"out_links[at + {link}] = arrived{link} - later * y{link}",
                f"out_links[at + {L + link}] = dropped{link} - later * y{link} * loss{link}",
                f"out_links[at + {2 * L + link}] = queue{link}",
                f"out_links[at + {3 * L + link}] = peak{link}",
                f"peak{link} = queue{link}",
            ]
        lines += [f"at = (m * n_samples + sample) * {4 * G}"]
        for g in self.groups:
            arriving = f"reaching{self.of_group[g][-1]}"
            bottleneck = f"{NO_LINK}" if self.adds_up else f"selected{g} if n > opens{g} else {NO_LINK}"
            lines += [
                f"lost_rate = {self.lost_rate(g)}",
                f"out_groups[at + {g}] = total{g} - later * scratch[sent + (n & mask) * {G} + {g}]",
                f"out_groups[at + {G + g}] = delivered{g} - later * max(0.0, {arriving} - lost_rate)",
                f"out_groups[at + {2 * G + g}] = lost{g} - later * lost_rate",
                f"out_groups[at + {3 * G + g}] = {bottleneck}",
            ]
        if self.s.records:
            lines += [f"rates[(m * n_samples + sample) * {G} + {g}] = x{g}" for g in self.groups]
            lines += [f"states[(m * n_samples + sample) * {L} + {link}] = state{link}" for link in self.links]
        lines += ["sample += 1"]
        return ["while sample < n_samples and samples[sample] <= n:", *_indented(lines)]

    def store(self) -> list[str]:
        """Write the sums of a member, and how it ended."""
        G = self.s.n_groups
        lines = []
        for k, name in enumerate(("total", "delivered", "lost", "finished")):
            lines += [f"finals[m * {4 * G} + {k * G + g}] = {name}{g}" for g in self.groups]
        return [*lines, "outcome[2 * m], outcome[2 * m + 1] = status, n"]

    def call(self, name: str, supply: dict[str, str], **indices: int) -> str:
        """Return the call of a law, with its arguments from variables of a group `g` or of a `link`."""
        g, link = indices.get("g", 0), indices.get("link", 0)
        names = {argument: text.format(g=g, l=link) for argument, text in supply.items()}
        return f"{name}_law({arguments_text(getattr(self.s, name), lambda a: 'p' if a == 'p' else names[a])})"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for text in lines for line in text.split("\n")]
