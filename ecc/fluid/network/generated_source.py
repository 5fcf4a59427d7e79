"""The source of kernels for ensembles of recurrences: functions of one member, in the order in which they run.

Comments and names are those of `recurrence`. `generated_lanes` has the steps of several members at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ecc.fluid.network.generated_layout import POINTERS, Layout, Structure
from ecc.fluid.network.recurrence import NO_LINK, NOT_STARTED, STOPPED
from ecc.laws.arguments import arguments_text

__all__ = ["Source", "function_text", "indented"]

OF_SOURCE = {"x": "x{g}", "x_rtt": "past{g}", "R": "R{g}", "R_prev": "R_prev{g}", "D": "rtt_now{g}", "T": "T"}
OF_ROUTER = {
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
_STEPS_APART = 64
"""Number of steps that members make one by one before they try again to make them together."""
NO_WAIT = "no_wait = n - waited > 2 * mask + 2"  # evaluated again after each queue, as in the engine


class Source:
    """Functions of one member, which lies in lane `lane` of the scratch arrays, and the kernel that calls them.

    Parameters
    ----------
    structure : Structure
    """

    def __init__(self, structure: Structure) -> None:
        self.s = structure
        self.layout = Layout.of(structure)
        self.lanes = structure.lanes
        self.links, self.groups = range(structure.n_links), range(structure.n_groups)
        self.through = {link: [p for p, (_, at) in enumerate(structure.crossings) if at == link] for link in self.links}
        self.of_group = {g: [p for p, (owner, _) in enumerate(structure.crossings) if owner == g] for g in self.groups}
        self.adds_up = structure.combine == "sum"
        L, G = structure.n_links, structure.n_groups
        self._widths = {"advertised": structure.n_signals, "wait": L, "urgency": L, "sent": G, "carried": G}
        self._widths["x_of_step"] = G

    def functions(self) -> dict[str, str]:
        """Return the sources of `begin`, `alone` and `finish`, and of the kernel, `members`."""
        return {
            "begin": function_text("begin(table, m, lane)", self.begin()),
            "alone": function_text("alone(table, m, lane, until, may_be_longer)", self.alone()),
            "finish": function_text("finish(table, m, lane)", self.finish()),
            "members": function_text("members(table, first, end)", self.members()),
        }

    # quantities and histories

    def open_arrays(self) -> list[str]:
        """Set the pointers, and the places of histories in the scratch arrays."""
        W, L, G = self.lanes, self.s.n_links, self.s.n_groups
        integers, mask = self.layout.integers, self.layout.integers.index("mask")
        lines = [
            f"{', '.join(POINTERS)} = unpack(table)",
            f"mask = integers[m * {len(integers)} + {mask}]",
            f"results = {W * len(self.layout.kept)}",
            f"advertised = results + {W * (4 + self.s.records) * (L + G)}",
        ]
        following = [*self._widths, "volume"]
        for (name, width), after in zip(self._widths.items(), following[1:], strict=True):
            lines += [f"{after} = {name} + (mask + 1) * {W * width}"]
        return lines

    def read_columns(self) -> list[str]:
        """Read the columns of a member."""
        floats, integers = self.layout.floats, self.layout.integers
        lines = [f"at_floats, at_integers = m * {len(floats)}, m * {len(integers)}"]
        lines += [f"{name} = floats[at_floats + {k}]" for k, name in enumerate(floats)]
        lines += [f"{name} = integers[at_integers + {k}]" for k, name in enumerate(integers)]
        return [*lines, f"p = Parameters({', '.join(f'p_{name}' for name in self.s.parameters)})"]

    def read(self) -> list[str]:
        """Read the quantities that are kept between steps."""
        W, layout = self.lanes, self.layout
        lines = [f"{name} = scratch[{k * W} + lane]" for k, name in enumerate(layout.kept)]
        return lines + [f"{name} = int_scratch[{k * W} + lane]" for k, name in enumerate(layout.kept_integers)]

    def write(self) -> list[str]:
        """Write the quantities that are kept between steps."""
        W, layout = self.lanes, self.layout
        lines = [f"scratch[{k * W} + lane] = {name}" for k, name in enumerate(layout.kept)]
        return lines + [f"int_scratch[{k * W} + lane] = {name}" for k, name in enumerate(layout.kept_integers)]

    def history(self, name: str, row: str, column: int) -> str:
        """Return the place in a history of this lane, in a row: an index."""
        return f"scratch[{self.place(name, row, column)} + lane]"

    def place(self, name: str, row: str, column: int | str) -> str:
        """Return the index of the first lane of a column in a row of a history."""
        return f"{name} + (({row}) * {self._widths[name]} + {column}) * {self.lanes}"

    def bottleneck(self, row: str, g: int) -> str:
        """Return the place of a bottleneck in its history."""
        first = len(self.layout.kept_integers)
        return f"int_scratch[(({row}) * {self.s.n_groups} + {g + first}) * {self.lanes} + lane]"

    def volume(self, step: str, link: int) -> str:
        """Return the place of the volume that a queue accepted in a step."""
        return f"scratch[volume + ({link} * memory + (({step}) & (memory - 1))) * {self.lanes} + lane]"

    # functions

    def begin(self) -> list[str]:
        """Set the state of a member before its first step."""
        lines = [*self.open_arrays(), *self.read_columns()]
        lines += [
            f"y_prev{link} = mean{link} = bottlenecked{link} = crossing{link} = other{link} = loss{link} = 0.0"
            for link in self.links
        ]
        lines += [f"arrived{link} = dropped{link} = 0.0" for link in self.links]
        lines += [f"peak{link} = queue{link}" for link in self.links]
        lines += [f"total{g} = delivered{g} = lost{g} = R{g} = R_prev{g} = past{g} = 0.0" for g in self.groups]
        lines += [f"finished{g}, selected{g}, rtt_now{g} = nan, {NO_LINK}, rtt{g}" for g in self.groups]
        lines += [f"reaching{p} = 0.0" for p in range(len(self.s.crossings))]
        lines += ["n, sample, status, uneven, next_stop = 0, 0, 0, 0, last"]
        return [*lines, *self.histories(), *self.receive(), *self.write()]

    def histories(self) -> list[str]:
        """Fill the histories of the time before the first step."""
        fill = [f"{self.history('advertised', 'k', s)} = advertised_at_start{s}" for s in range(self.s.n_signals)]
        fill += [f"{self.history('wait', 'k', link)} = wait_at_start{link}" for link in self.links]
        if self.s.priority:
            fill += [f"{self.history('urgency', 'k', link)} = urgency_at_start{link}" for link in self.links]
        for g in self.groups:
            fill += [f"{self.history(name, 'k', g)} = {name}_at_start{g}" for name in ("sent", "carried")]
            fill += [f"{self.history('x_of_step', 'k', g)} = x{g}"] * self.s.looks_back
            fill += [f"{self.bottleneck('k', g)} = bottleneck_at_start{g}"]
        lines = ["for k in range(mask + 1):", *indented(fill)]
        for link in self.links:  # the arrivals that wait in the queue at the start came at capacity
            lines += [f"for k in range(head{link}, 1):", f"    {self.volume('k', link)} = C{link} * T"]
        return lines

    def alone(self) -> list[str]:
        """Run a member up to a step, or to a later one in which it is steady; return the step, or -1 if it fails."""
        return [
            *self.open_arrays(),
            *self.read_columns(),
            *self.read(),
            "while n < last and status == 0:",
            *indented(
                [
                    "is_steady = n - uneven > mask and n < next_stop",
                    "if n >= until and (is_steady or not may_be_longer):",
                    "    break",
                    *self.step(),
                    *self.samples(),
                ]
            ),
            *self.write(),
            "return n if status == 0 else -1",
        ]

    def finish(self) -> list[str]:
        """Write the sums of a member, and how it ended."""
        G = self.s.n_groups
        lines = [*self.open_arrays(), *self.read()]
        for k, name in enumerate(("total", "delivered", "lost", "finished")):
            lines += [f"finals[m * {4 * G} + {k * G + g}] = {name}{g}" for g in self.groups]
        return [*lines, "outcome[2 * m], outcome[2 * m + 1] = status, n"]

    def members(self) -> list[str]:
        """Run members: each until it is steady, then together, and each again where that is not possible."""
        W, integers = self.lanes, self.layout.integers
        member = "min(m + lane, end - 1)"  # the last one has all lanes that are left
        together = [
            "if not is_apart and done < last:",
            "    done = together(table, m, end, done)",
            f"    reached = min(last, done + {_STEPS_APART})",
        ]
        run = [
            "counter[0] = m",
            f"for lane in range({W}):",
            f"    begin(table, {member}, lane)",
            f"last = integers[m * {len(integers)} + {integers.index('last')}]",
            f"done, reached, is_apart = 0, 0, {W == 1}",
            "while done < last:",
            *indented(
                [
                    "is_end = is_apart",
                    f"for k in range({2 * W if W > 1 else 1}):  # the second time: up to the step of the slowest one",
                    f"    lane = k % {W}",
                    f"    until, may_be_longer = last if is_end else reached, k < {W}",
                    f"    n = alone(table, {member}, lane, until, may_be_longer)",
                    "    if n < 0:",
                    "        is_apart = True",
                    "    reached = max(reached, n)",
                    "if is_end:",
                    "    break",
                    "done = reached",
                    *(together if W > 1 else []),
                ]
            ),
            f"for lane in range({W}):",
            f"    finish(table, {member}, lane)",
        ]
        unpacked = f"{', '.join(POINTERS)} = unpack(table)"
        return [unpacked, f"for m in range(first, end, {W}):", *indented(run)]

    # steps

    def step(self) -> list[str]:
        """Advance by one step, whatever the state."""
        lines = ["n += 1", "row, before = n & mask, (n - 1) & mask", *self.receive(), "loses, next_stop = False, last"]
        for g in self.groups:
            lines += self.send(g)
        for link in self.links:
            lines += [*self.arrive(link), *self.queue_router_and_signals(link)]
        return [*lines, *self.deliver()]

    def receive(self) -> list[str]:
        """Set the feedback that each group receives, its link, the RTT, and the rate an RTT ago if a law needs it."""
        lines = [NO_WAIT]
        better = "<" if self.s.combine == "min" else ">"
        for g in self.groups:
            lines += [f"best, which, rank, past_rate, rtt = 0.0, {NO_LINK}, 0.0, 0.0, rtt{g}"]
            for p, responds in zip(self.of_group[g], self.s.responds[g], strict=True):
                link = self.s.crossings[p][1]
                lines += [f"stamped = n - back{p}"]
                lines += [f"if not no_wait:\n    rtt += {self.history('wait', 'stamped & mask', link)}"]
                if not responds:
                    continue
                choose = [f"best, which = value, {link}"]
                if self.s.priority:
                    choose += ["rank = urgency_now"]
                if self.s.looks_back:
                    choose += [f"past_rate = {self.history('x_of_step', f'(stamped - ahead{p}) & mask', g)}"]
                signal = p if self.s.by_flow else link
                look = [f"value = {self.history('advertised', 'stamped & mask', signal)}"]
                closer = f"value {better} best"
                if self.s.priority:
                    look += [f"urgency_now = {self.history('urgency', 'stamped & mask', link)}"]
                    closer = f"urgency_now > rank or (urgency_now == rank and {closer})"
                look += [f"if which < 0{'' if self.adds_up else f' or ({closer})'}:", *indented(choose)]
                if self.adds_up:
                    look += ["else:", "    best += value"]
                lines += [
                    f"if stamped >= advertises_from{link} and stamped - ahead{p} > responds_after{g}:",
                    *indented(look),
                ]
            lines += [
                f"R_prev{g} = R{g} if selected{g} >= 0 else best",
                f"R{g}, rtt_now{g}, past{g}, selected{g} = best, rtt, past_rate, which",
            ]
        return lines

    def send(self, g: int) -> list[str]:
        """Set the rate of a group in this step."""
        return [
            f"which, rate, x = selected{g}, 0.0, x{g}",
            f"if n <= opens{g}:",
            f"    which = {NOT_STARTED}",
            f"elif n > stops{g}:",
            f"    which = {STOPPED}",
            "else:",
            "    if which >= 0:",
            f"        floor_now = floor{g} / rtt_now{g} if floor{g} > 0.0 else 0.0",
            f"        x = max({self.call('source', OF_SOURCE, g=g)}, floor_now)",
            "    rate = x",
            f"    if rate * T >= size{g} - total{g}:",
            f"        rate = (size{g} - total{g}) / T",
            f"        stops{g} = n",
            f"        finished{g} = float(n)",
            "    if not isfinite(rate):",
            "        status = 1",
            "        break",
            f"x{g} = x",
            f"{self.history('sent', 'row', g)} = rate",
            f"{self.bottleneck('row', g)} = which",
            f"total{g} += rate * T",
            f"if which < 0 or size{g} < inf:",
            "    uneven = n",
            f"next_stop = min(next_stop, stops{g})",
            "if not no_wait:",
            f"    {self.history('carried', 'row', g)} = rtt_now{g}",
            *[f"{self.history('x_of_step', 'row', g)} = x"] * self.s.looks_back,
        ]

    def arrive(self, link: int) -> list[str]:
        """Add up the arrivals at a link in this step."""
        lines = [NO_WAIT, "arrival = weighted = idle = bottlenecked = crossing = other = 0.0"]
        for p in self.through[link]:
            g = self.s.crossings[p][0]
            mine = "True" if self.adds_up else f"bottleneck == {link}"
            lines += [
                f"at = (n - ahead{p}) & mask",
                f"rate, bottleneck = {self.history('sent', 'at', g)}, {self.bottleneck('at', g)}",
                f"rtt = rtt{g} if no_wait else {self.history('carried', 'at', g)}",
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

    def weigh(self) -> list[str]:
        """Weight the RTT of an arrival by its rate."""
        return ["if rate > 0.0:\n    weighted = max(weighted, rtt)"] if self.s.longest else ["weighted += flow * rtt"]

    def queue_router_and_signals(self, link: int) -> list[str]:
        """Add the arrivals to the queue of a link, update its router, and advertise."""
        C, waiting = f"C{link}", self.history("wait", "row", link)
        failed = ["status = 1", "break"]
        empty = [f"queue{link} = loss{link} = remaining{link} = 0.0", f"head{link} = n"]
        lines = [
            f"arrived{link} += y{link} * T",
            f"queued = queue{link}",
            f"level = max(0.0, queued + T * (y{link} - {C}))",
            "if level <= 0.0:",
            *indented([*empty, f"{waiting} = 0.0"]),
            "else:",
            f"    excess, loss{link} = max(0.0, level - buffer{link}), 0.0",
            "    if excess > 0.0:",
            f"        dropped{link} += excess",
            f"        loss{link} = min(1.0, excess / (y{link} * T))",
            f"        level = buffer{link}",
            "        loses = True",
            f"    queue{link} = level",
            f"    {self.volume('n', link)} = y{link} * T - excess",
            "    steps = 0.0",
            "    if level <= 0.0:  # there is no buffer",
            *indented(indented(empty[1:])),
            f"        remaining{link} = 0.0",
            "    else:",
            f"        served = queued + y{link} * T - excess - level",
            f"        while served > remaining{link} and head{link} < n:",
            f"            served -= remaining{link}",
            f"            head{link} += 1",
            f"            remaining{link} = {self.volume(f'head{link}', link)}",
            f"        remaining{link} = max(0.0, remaining{link} - served)",
            f"        if n - head{link} >= memory - 1:",
            *indented(indented(indented(failed))),
            f"        accepted = {self.volume(f'head{link}', link)}",
            f"        steps = n - head{link} + (remaining{link} / accepted if accepted > 0.0 else 0.0)",
            f"    {waiting} = steps * T",
            "    if steps > 0.0:",
            "        waited = n",
            f"    peak{link} = max(peak{link}, queue{link})",
            f"mean{link} = idle",
            f"if y{link} > 0.0:",
            f"    advertises_from{link} = min(advertises_from{link}, n)",
            f"    mean{link} = weighted{'' if self.s.longest else f' / y{link}'}",
        ]
        finite = ["if not isfinite(result):", *indented(failed)]
        if self.s.priority:
            lines += [
                f"urgency_now = {self.history('urgency', 'before', link)}",
                f"if y{link} > 0.0:",
                *indented([f"result = {self.call('priority', OF_ROUTER, link=link)}", *finite, "urgency_now = result"]),
                f"{self.history('urgency', 'row', link)} = urgency_now",
            ]
        if self.s.remembers:
            limited = f"state{link} = min(max(result, low{link}), high{link})"
            lines += [
                f"if mean{link} > 0.0:",
                *indented([f"result = {self.call('router', OF_ROUTER, link=link)}", *finite, limited]),
            ]
        name = "announce" if self.s.announce else "router"
        if self.s.remembers and not self.s.announce and not self.s.by_flow:
            return [*lines, f"{self.history('advertised', 'row', link)} = state{link}"]
        law, keep = [], []
        for signal, arrives in [(p, f"reaching{p}") for p in self.through[link]] if self.s.by_flow else [(link, "")]:
            law += [f"result = {self.call(name, {**OF_ROUTER, 'x': arrives}, link=link)}", *finite]
            now, earlier = self.history("advertised", "row", signal), self.history("advertised", "before", signal)
            law += [f"{now} = result"]
            keep += [f"{now} = {earlier}"]
        return [*lines, f"if y{link} > 0.0:", *indented(law), "else:", *indented(keep)] if law else lines

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
                f"out_groups[at + {g}] = total{g} - later * {self.history('sent', 'n & mask', g)}",
                f"out_groups[at + {G + g}] = delivered{g} - later * max(0.0, {arriving} - lost_rate)",
                f"out_groups[at + {2 * G + g}] = lost{g} - later * lost_rate",
                f"out_groups[at + {3 * G + g}] = {bottleneck}",
            ]
        if self.s.records:
            lines += [f"rates[(m * n_samples + sample) * {G} + {g}] = x{g}" for g in self.groups]
            lines += [f"states[(m * n_samples + sample) * {L} + {link}] = state{link}" for link in self.links]
        lines += ["sample += 1"]
        return ["while sample < n_samples and samples[sample] <= n:", *indented(lines)]

    def call(self, name: str, supply: dict[str, str], **indices: int) -> str:
        """Return the call of a law, with its arguments from variables of a group `g` or of a `link`."""
        g, link = indices.get("g", 0), indices.get("link", 0)
        names = {argument: text.format(g=g, l=link) for argument, text in supply.items()}
        return f"{name}_law({arguments_text(getattr(self.s, name), lambda a: 'p' if a == 'p' else names[a])})"


def indented(lines: Sequence[str]) -> list[str]:
    """Return statements with one level of indentation more.

    Parameters
    ----------
    lines : sequence of str
    """
    return [f"    {line}" for text in lines for line in text.split("\n")]


def function_text(head: str, lines: Sequence[str]) -> str:
    """Return the source of a function.

    Parameters
    ----------
    head : str
        Its name and arguments, for example "f(x, y)".
    lines : sequence of str
        Statements of its body.
    """
    return "\n".join([f"def {head}:", *indented(lines)]) + "\n"
