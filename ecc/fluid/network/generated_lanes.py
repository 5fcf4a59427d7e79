"""The source of kernels for ensembles of recurrences: steps of several members at once, one in each lane of vectors.

These steps are those of members of which every flow crosses one link, has feedback of it, and has long had some. What
differs between members is a vector; what the network and the protocol fix is a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ecc.fluid.network.generated_layout import Structure
from ecc.fluid.network.generated_source import NO_WAIT, OF_ROUTER, OF_SOURCE, Source, function_text, indented
from ecc.fluid.network.recurrence import NEVER, NO_LINK
from ecc.laws.arguments import arguments_text

__all__ = ["VECTOR_ARGUMENTS", "LanesSource"]

VECTOR_ARGUMENTS = frozenset(OF_SOURCE) | frozenset(OF_ROUTER) - {"T", "C"}
"""Arguments of laws that are vectors."""
_OF_SOURCE = {**OF_SOURCE, "R": "newR{g}", "R_prev": "R{g}", "x": "x{g}"}
_OF_ROUTER = {
    **OF_ROUTER,
    "u": "select_positive(bottlenecked{l}, other{l}, zero)",
    "x": "{x}",
}


class LanesSource(Source):
    """Functions that advance the members in all lanes, in addition to those of one member.

    Parameters
    ----------
    structure : Structure
    takes_vectors : mapping
        Name of a law, for example "router" -> whether it can be called with vectors; if not, it is called for each
        lane.
    """

    def __init__(self, structure: Structure, takes_vectors: Mapping[str, bool]) -> None:
        super().__init__(structure)
        self._takes_vectors = takes_vectors
        self._slots = {name: k * self.lanes for k, name in enumerate(self.layout.kept)}
        self._integer_slots = {name: k * self.lanes for k, name in enumerate(self.layout.kept_integers)}

    def functions(self) -> dict[str, str]:
        """Return the sources of all functions, in the order in which they call each other."""
        return {
            "queue_up": function_text("queue_up(table, m, link, n)", self.queue_up()),
            "together": function_text("together(table, m, end, begin)", self.together()),
            **super().functions(),
        }

    def together(self) -> list[str]:
        """Advance all members from a step in which they are steady; return the step that they reach.

        They end if one is no longer steady, or fails.
        """
        return [
            *self.open_arrays(),
            *self.read_columns(),
            *self.check_lanes(),
            *self.read_vectors(),
            "n, is_fine = begin, True",
            "while is_fine and n < last and n < next_stop:",
            *indented(
                [
                    "due = min(last, next_stop, int(ceil(samples[sample])))",
                    "while n < due:",
                    *indented(self.step_of_all()),
                    "while is_fine and sample < n_samples and samples[sample] <= n:",
                    *indented(self.samples_of_all()),
                ]
            ),
            *self.write_vectors(),
            "return n",
        ]

    # quantities

    def check_lanes(self) -> list[str]:
        """Return at once if a member is not steady."""
        at = self._integer_slots
        return [
            f"waited, next_stop, sample = {-NEVER}, last, int_scratch[{at['sample']}]",
            f"for lane in range({self.lanes}):",
            *indented(
                [
                    f"if int_scratch[{at['n']} + lane] != begin or int_scratch[{at['status']} + lane] != 0:",
                    "    return begin",
                    f"next_stop = min(next_stop, int_scratch[{at['next_stop']} + lane])",
                    f"if begin - int_scratch[{at['uneven']} + lane] <= mask or begin >= next_stop:",
                    "    return begin",
                    f"waited = max(waited, int_scratch[{at['waited']} + lane])",
                ]
            ),
        ]

    def _vectors(self) -> list[str]:
        """Return the names of the quantities that change and are vectors."""
        of_links = [f"{name}{link}" for link in self.links for name in ("y", "mean", "loss", "arrived", "queue")]
        of_links += [f"state{link}" for link in self.links]
        return of_links + [f"{name}{g}" for g in self.groups for name in ("total", "delivered", "lost", "R", "x")]

    def read_vectors(self) -> list[str]:
        """Read the quantities of all lanes."""
        names = self._vectors()
        names += [f"{name}{link}" for link in self.links for name in ("low", "high", "bottlenecked", "crossing")]
        names += [f"other{link}" for link in self.links]
        names += [f"{name}{g}" for g in self.groups for name in ("floor", "floor_rate", "rtt_now", "past", "reaching")]
        names += [f"y_prev{link}" for link in self.links]
        lines = [f"{name} = load(scratch, {self._slots[name]})" for name in names]
        parameters = [f"p_{name}" for name in self.s.parameters]
        lines += [f"{name} = load(scratch, {self._slots[name]})" for name in parameters]
        if not all(self._takes_vectors.values()):
            for k in range(self.lanes):
                lines += [f"p_of{k} = Parameters({', '.join(f'number_in({name}, {k})' for name in parameters)})"]
        lines += [f"p = Parameters({', '.join(f'as_parameter({name})' for name in parameters)})"]
        return [*lines, "zero = splat(0.0)"]

    def write_vectors(self) -> list[str]:
        """Write the quantities of all lanes."""
        names = self._vectors() + [f"y_prev{link}" for link in self.links]
        names += [f"{name}{g}" for g in self.groups for name in ("rtt_now", "past", "reaching")]
        at = self._integer_slots
        each = [
            f"int_scratch[{at['n']} + lane] = n",
            f"int_scratch[{at['sample']} + lane] = sample",
            f"int_scratch[{at['waited']} + lane] = waited",
        ]
        for link in self.links:
            each += [
                f"if scratch[{self._slots[f'queue{link}']} + lane] <= 0.0:",
                f"    int_scratch[{at[f'head{link}']} + lane] = n",
                f"    scratch[{self._slots[f'remaining{link}']} + lane] = 0.0",
            ]
        lines = [f"store(scratch, {self._slots[name]}, {name})" for name in names]
        return [*lines, f"for lane in range({self.lanes}):", *indented(each)]

    # steps

    def step_of_all(self) -> list[str]:
        """Advance all members by one step."""
        lines = ["n += 1", "row = n & mask", NO_WAIT, "loses, check = False, zero"]
        for g, (_, link) in zip(self.groups, self.s.crossings, strict=True):
            lines += self.send_all(g, link)
        for link in self.links:
            lines += self.arrive_at(link)
        silent = " and ".join(f"every_positive(newy{k}) and every_positive(mean{k})" for k in self.links)
        lines += [f"if not ({silent}):  # a router has no arrivals", "    n -= 1", "    is_fine = False", "    break"]
        lines += [f"R{g}, x{g}, total{g} = newR{g}, newx{g}, newtotal{g}" for g in self.groups]
        for link in self.links:
            lines += [f"y_prev{link}, y{link} = y{link}, newy{link}", *self.queue_and_router(link)]
        for g in self.groups:
            arriving = f"reaching{g}"
            lines += [
                "if loses:",
                f"    lost_rate = {self.lost_rate(g)}",
                f"    delivered{g} = delivered{g} + max(0.0, {arriving} - lost_rate) * T",
                f"    lost{g} = lost{g} + lost_rate * T",
                "else:",
                f"    delivered{g} = delivered{g} + max(0.0, {arriving}) * T",
            ]
        status = self._integer_slots["status"]
        return [
            *lines,
            "if not every(check, 0.0):  # a rate is no longer finite",
            f"    for lane_of_all in range({self.lanes}):",
            "        if not number_in(check, lane_of_all) == 0.0:",
            f"            int_scratch[{status} + lane_of_all] = 1",
            "    is_fine = False",
            "if not is_fine:",
            "    break",
        ]

    def send_all(self, g: int, link: int) -> list[str]:
        """Set the rate of a group in this step."""
        signal = g if self.s.by_flow else link
        now = {argument: text.format(g=g) for argument, text in _OF_SOURCE.items()}
        lines = [
            f"at = (n - back{g}) & mask",
            f"newR{g} = load(scratch, {self.place('advertised', 'at', signal)})",
            "if no_wait:",
            f"    rtt_now{g}, minimum = splat(rtt{g}), floor_rate{g}",
            "else:",
            f"    rtt_now{g} = rtt{g} + load(scratch, {self.place('wait', 'at', link)})",
            f"    minimum = quotient(floor{g}, rtt_now{g})",
            f"    store(scratch, {self.place('carried', 'row', g)}, rtt_now{g})",
        ]
        if self.s.looks_back:
            lines += [f"past{g} = load(scratch, {self.place('x_of_step', f'(n - back{g} - ahead{g}) & mask', g)})"]
        lines += [
            *self.law("source", now),
            f"newx{g} = max(result, minimum)",
            f"check = check + newx{g} * 0.0",
            f"store(scratch, {self.place('sent', 'row', g)}, newx{g})",
            f"newtotal{g} = total{g} + newx{g} * T",
        ]
        if self.s.looks_back:
            lines += [f"store(scratch, {self.place('x_of_step', 'row', g)}, newx{g})"]
        return lines

    def arrive_at(self, link: int) -> list[str]:
        """Add up the arrivals at a link in this step."""
        lines = ["arrival = weighted = idle = zero"]
        for g in self.through[link]:
            weigh = "select_positive(rate, max(weighted, rtt), weighted)" if self.s.longest else "weighted + flow * rtt"
            lines += [
                f"at = (n - ahead{g}) & mask",
                f"rate = load(scratch, {self.place('sent', 'at', g)})",
                "if no_wait:",
                f"    rtt = splat(rtt{g})",
                "else:",
                f"    rtt = load(scratch, {self.place('carried', 'at', g)})",
                f"flow = rate * members{g}",
                f"reaching{g} = rate",
                "arrival = arrival + flow",
                "idle = max(idle, rtt)",
                f"weighted = {weigh}",
            ]
        mean = "weighted" if self.s.longest else "quotient(weighted, arrival)"
        return [*lines, f"newy{link} = arrival", f"mean{link} = select_positive(arrival, {mean}, idle)"]

    def queue_and_router(self, link: int) -> list[str]:
        """Add the arrivals to the queue of a link, update its router, and advertise."""
        store_signal = f"store(scratch, {self.place('advertised', 'row', '{}')}, {{}})"
        at = self._slots
        lines = [
            f"arrived{link} = arrived{link} + y{link} * T",
            f"level = max(0.0, queue{link} + T * (y{link} - C{link}))",
            "if every(level, 0.0):",
            f"    queue{link} = level",
            f"    loss{link} = zero",
            "    if not no_wait:",
            f"        store(scratch, {self.place('wait', 'row', link)}, zero)",
            "else:",
            f"    store(scratch, {at[f'queue{link}']}, queue{link})",
            f"    store(scratch, {at[f'y{link}']}, y{link})",
            f"    findings = queue_up(table, m, {link}, n)",
            "    if findings & 1:",
            "        waited = n",
            "    if findings & 2:",
            "        loses = True",
            "    if findings & 4:",
            "        is_fine = False",
            f"    queue{link} = load(scratch, {at[f'queue{link}']})",
            f"    loss{link} = load(scratch, {at[f'loss{link}']})",
        ]
        if self.s.remembers:
            lines += [
                *self.law("router", self._of_router(link)),
                "check = check + result * 0.0",
                f"state{link} = min(max(result, low{link}), high{link})",
            ]
            if not self.s.announce and not self.s.by_flow:
                return [*lines, store_signal.format(link, f"state{link}")]
        name = "announce" if self.s.announce else "router"
        for signal, arrives in [(p, f"reaching{p}") for p in self.through[link]] if self.s.by_flow else [(link, "")]:
            lines += [*self.law(name, self._of_router(link, arrives)), "check = check + result * 0.0"]
            lines += [store_signal.format(signal, "result")]
        return lines

    def _of_router(self, link: int, arrives: str = "") -> dict[str, str]:
        return {argument: text.format(l=link, x=arrives) for argument, text in _OF_ROUTER.items()}

    def law(self, name: str, supply: Mapping[str, str]) -> list[str]:
        """Set `result` to that of a law, a vector."""
        law = getattr(self.s, name)
        if self._takes_vectors[name]:
            return [f"result = {name}_law({_supplied(law, supply, 'p')})"]
        lines, texts = [], dict[str, str]()
        for argument in arguments_text(law, lambda a: a).split(", "):
            if argument in VECTOR_ARGUMENTS:
                texts[argument] = f"argument_{argument}"
                lines += [f"argument_{argument} = {supply[argument]}"]
        lines += ["result = zero"]
        for k in range(self.lanes):
            in_lane = {**supply, **{argument: f"number_in({text}, {k})" for argument, text in texts.items()}}
            lines += [f"result = with_lane(result, {k}, float({name}_law({_supplied(law, in_lane, f'p_of{k}')})))"]
        return lines

    def queue_up(self) -> list[str]:
        """Add the arrivals to the queue of a link in each lane; return which of three cases there are, as bits.

        1: a packet waits, 2: packets are lost, 4: a member fails.
        """
        at, of_integers = self._slots, self._integer_slots
        floats, integers = self.layout.floats, self.layout.integers
        width = self._widths["wait"]

        def slot(name: str) -> str:
            return f"scratch[{at[f'{name}0']} + link * {self.lanes} + lane]"

        head = f"int_scratch[{of_integers['head0']} + link * {self.lanes} + lane]"
        volume = f"scratch[volume + (link * memory + ({{}} & (memory - 1))) * {self.lanes} + lane]"
        waiting = f"scratch[wait + ((n & mask) * {width} + link) * {self.lanes} + lane]"
        # the statements are those of `queue_router_and_signals`
        each = [
            f"queued, arrival = {slot('queue')}, {slot('y')}",
            "level = max(0.0, queued + T * (arrival - C))",
            "loss = steps = 0.0",
            "if level > 0.0:",
            *indented(
                [
                    "head, remaining = n - 1, 0.0",
                    "if queued > 0.0:",
                    f"    head, remaining = {head}, {slot('remaining')}",
                    "excess = max(0.0, level - buffer)",
                    "if excess > 0.0:",
                    f"    {slot('dropped')} += excess",
                    "    loss = min(1.0, excess / (arrival * T))",
                    "    level = buffer",
                    "    findings |= 2",
                    f"{volume.format('n')} = arrival * T - excess",
                    "if level > 0.0:",
                    *indented(
                        [
                            "served = queued + arrival * T - excess - level",
                            "while served > remaining and head < n:",
                            "    served -= remaining",
                            "    head += 1",
                            f"    remaining = {volume.format('head')}",
                            "remaining = max(0.0, remaining - served)",
                            "if n - head >= memory - 1:",
                            f"    int_scratch[{of_integers['status']} + lane] = 1",
                            "    findings |= 4",
                            f"accepted = {volume.format('head')}",
                            "steps = n - head + (remaining / accepted if accepted > 0.0 else 0.0)",
                        ]
                    ),
                    "if steps > 0.0:",
                    "    findings |= 1",
                    f"{head} = head",
                    f"{slot('remaining')} = remaining",
                    f"{slot('peak')} = max({slot('peak')}, level)",
                ]
            ),
            f"{waiting} = steps * T",
            f"{slot('queue')} = level",
            f"{slot('loss')} = loss",
        ]
        return [
            *self.open_arrays(),
            f"at_floats, at_integers = m * {len(floats)}, m * {len(integers)}",
            f"T, C = floats[at_floats + {floats.index('T')}], floats[at_floats + {floats.index('C0')} + link]",
            f"buffer = floats[at_floats + {floats.index('buffer0')} + link]",
            f"memory = integers[at_integers + {integers.index('memory')}]",
            "findings = 0",
            f"for lane in range({self.lanes}):",
            *indented(each),
            "return findings",
        ]

    # results

    def samples_of_all(self) -> list[str]:
        """Write the samples that end in this step."""
        L, G, W = self.s.n_links, self.s.n_groups, self.lanes
        lines = ["later = (1.0 - (samples[sample] - n + 1.0)) * T"]
        values: list[str] = []
        for link in self.links:
            peak = self._slots[f"peak{link}"]
            lines += [f"peak, dropped = load(scratch, {peak}), load(scratch, {self._slots[f'dropped{link}']})"]
            values = [
                f"arrived{link} - later * y{link}",
                f"dropped - later * y{link} * loss{link}",
                f"queue{link}",
                "peak",
            ]
            lines += [f"store(scratch, results + {(k * L + link) * W}, {value})" for k, value in enumerate(values)]
            lines += [f"store(scratch, {peak}, queue{link})"]
        for g in self.groups:
            values = [
                f"total{g} - later * load(scratch, {self.place('sent', 'n & mask', g)})",
                f"delivered{g} - later * max(0.0, reaching{g} - lost_rate)",
                f"lost{g} - later * lost_rate",
            ]
            lines += [f"lost_rate = {self.lost_rate(g)}"]
            lines += [f"store(scratch, results + {(4 * L + k * G + g) * W}, {value})" for k, value in enumerate(values)]
        each = ["at_sample = min(m + lane_of_all, end - 1) * n_samples + sample"]
        for k in range(4 * L):
            each += [f"out_links[at_sample * {4 * L} + {k}] = scratch[results + {k * W} + lane_of_all]"]
        for k in range(3 * G):
            each += [f"out_groups[at_sample * {4 * G} + {k}] = scratch[results + {(4 * L + k) * W} + lane_of_all]"]
        selected, columns = self._integer_slots["selected0"], len(self.layout.integers)
        opens = self.layout.integers.index("opens0")
        for g in self.groups:
            opened = f"n > integers[min(m + lane_of_all, end - 1) * {columns} + {opens + g}]"
            bottleneck = f"int_scratch[{selected + g * W} + lane_of_all] if {opened} else {NO_LINK}"
            each += [
                f"out_groups[at_sample * {4 * G} + {3 * G + g}] = {NO_LINK if self.adds_up else bottleneck}",
            ]
        if self.s.records:
            first = 4 * (L + G)
            lines += [f"store(scratch, results + {(first + g) * W}, x{g})" for g in self.groups]
            lines += [f"store(scratch, results + {(first + G + link) * W}, state{link})" for link in self.links]
            for g in self.groups:
                each += [f"rates[at_sample * {G} + {g}] = scratch[results + {(first + g) * W} + lane_of_all]"]
            for link in self.links:
                value = f"scratch[results + {(first + G + link) * W} + lane_of_all]"
                each += [f"states[at_sample * {L} + {link}] = {value}"]
        return [*lines, f"for lane_of_all in range({W}):", *indented(each), "sample += 1"]


def _supplied(law: Callable[..., Any], supply: Mapping[str, str], parameters: str) -> str:
    """Return the arguments in a call of a law."""
    return arguments_text(law, lambda argument: parameters if argument == "p" else supply[argument])
