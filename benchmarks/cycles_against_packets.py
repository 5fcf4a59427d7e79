"""Cycles from `ecc.stability.limit_cycle` against packet runs: period, amplitude and dominant multiplier.

    python benchmarks/cycles_against_packets.py [PROTOCOL ...]

takes each protocol of `ecc.models` whose verdicts have a cycle, on the network of its cycle, in continuous and in
discrete time, and `ecc.stability.measured_cycle` of packet runs there. It looks for the motion whose period is nearest
to the computed one, and without one for the shortest motion that repeats. Rows of other protocols in the output are
kept. If a row disagrees or one of its cycles was not found, experiments look for the cause: those of the protocol
(`cycle_experiments.py`), and if these leave a difference without a cause, packets four times smaller, with the cycle
computed for them, too, and the fluid run of the same time. The output is docs/models_cycles.json, a list of objects

    protocol      class name
    time          "continuous" or "discrete": the time of the computed cycle
    period        [computed, packets], s
    amplitude     [computed, packets] of the queue, half of peak to peak, bytes
    multiplier    [computed, packets, standard error], the largest moduli, and the error of that of packets; null:
                  without one
    deviation     [of the period, of the amplitude], %
    agrees        [period within 3 %, amplitude within 3 %, multiplier within 0.1]; null: not comparable
    reason        reason why one of the cycles was not found; "" otherwise
    note          note of the computed cycle on packets; "" without one, or if all agree
    experiments   objects with "change", the changed condition, and "deviation", the deviations [of the period %, of the
                  amplitude %, of the modulus] with it, or the reason why they are not known
    cause         cause of each difference; "" if all agree
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from math import isfinite, nan
from pathlib import Path
from typing import Any

import cycle_experiments_internet as internet
import cycle_experiments_media as media
import cycle_experiments_probing as probing
import numpy as np
from cycle_experiments import EXPERIMENTS, GRANULARITY, TIMES, measured

from ecc.cycles.probing import staggered
from ecc.cycles.reference_cases import cycle_case, host_of, named_protocol
from ecc.errors import ConvergenceError, EccError
from ecc.models import all_protocols
from ecc.network.network import Network
from ecc.stability import LimitCycle, limit_cycle

EXPERIMENTS_OF = {**EXPERIMENTS, **internet.EXPERIMENTS, **media.EXPERIMENTS, **probing.EXPERIMENTS}
OUTPUT = Path(__file__).parents[1] / "docs" / "models_cycles.json"
MAX_SHARE, MAX_MULTIPLIER = 3.0, 0.1  # %; modulus
QUANTITIES = ("period", "amplitude", "multiplier")
UNKNOWN = "not found"


def has_cycle(name: str) -> bool:
    """Return whether the cycle of a protocol is an object of its verdicts."""
    protocol = all_protocols()[name]()
    has_refusal = bool(protocol.no_equilibrium or protocol.linear_refusal or not protocol.times)
    return protocol.cycle_loop is not None or (has_refusal and not protocol.reference_loop.discipline)


def modulus(cycle: LimitCycle) -> float | None:
    """Return the modulus of the dominant multiplier; None without one.

    Other shares of flows that probe are further cycles: their multiplier 1 is that of the slowest deviations of packet
    runs, which drift along these cycles.
    """
    if cycle.along and "in its memory" in cycle.method:
        return 1.0
    value = abs(cycle.dominant)
    return float(value) if isfinite(value) else None


def standard_error(cycle: LimitCycle) -> float | None:
    """Return the standard error of the dominant multiplier of a measured cycle, from its notes."""
    texts = [note.split("of flows: ")[1] for note in cycle.notes if "standard error " in note and "of flows: " in note]
    size = modulus(cycle) or 0.0
    dominant = [text for text in texts if text.split(",")[0].lstrip("-").startswith(f"{size:.3f}")]
    errors = [float(text.split("standard error ")[1].split(" from")[0]) for text in dominant or texts]
    finite = [error for error in errors if isfinite(error)]
    return max(finite) if finite else None


def deviations(computed: LimitCycle, runs: LimitCycle) -> list[float | None]:
    """Return the deviations of period and amplitude [%] and of the modulus of the multiplier.

    The deviation of the amplitude of a point of rest is a share of the mean queue. A model without a queue has no
    amplitude to compare: packets in service are a queue of packets.
    """
    scale = runs.mean if computed.amplitude == 0.0 else runs.amplitude
    pairs = [(computed.period - runs.period, runs.period), (computed.amplitude - runs.amplitude, scale)]
    if computed.mean == 0.0:
        pairs[1] = (nan, 0.0)
    found = [100.0 * float(each / size) if isfinite(each) and size > 0.0 else None for each, size in pairs]
    sizes = [modulus(computed), modulus(runs)]
    return [*found, sizes[0] - sizes[1] if sizes[0] is not None and sizes[1] is not None else None]


def is_small(quantity: str, deviation: float | None) -> bool | None:
    """Return whether a deviation is within its limit; None without one."""
    limit = MAX_MULTIPLIER if quantity == "multiplier" else MAX_SHARE
    return None if deviation is None else bool(abs(deviation) <= limit)


def experiment(run: Callable[[], tuple[LimitCycle, LimitCycle]]) -> list[float | None] | str:
    """Return the deviations of a computed cycle from that of runs, or the reason why they are not known."""
    try:
        return deviations(*run())
    except EccError as error:
        return str(error).split(":")[-1].strip()


def causes(
    name: str, loop: Any, network: Network, time: str, computed: LimitCycle | None, unexplained: list[str]
) -> dict[str, Any]:
    """Return the experiments on a row, and the cause of each of the named differences."""

    def fluid() -> tuple[LimitCycle, LimitCycle]:
        if computed is None:
            raise ConvergenceError("no cycle was computed")
        return computed, measured(loop, network, computed, engine="fluid", time=time)

    named = [each for each in (*EXPERIMENTS_OF.get(name, ()), GRANULARITY) if time in each.times]
    trials = [(each.change, each.cause, partial(each.run, loop, network, time)) for each in named]
    trials.append(("from the fluid run", "an effect that the model leaves out, as its fluid run agrees", fluid))
    results, found = list[dict[str, Any]](), dict[str, list[str]]()
    for change, cause, run in trials:
        if not unexplained:
            break
        deviation = experiment(run)
        results.append({"change": change, "deviation": deviation})
        values = dict(zip(QUANTITIES, deviation, strict=True)) if isinstance(deviation, list) else {}
        explained = [quantity for quantity in unexplained if is_small(quantity, values.get(quantity))]
        unexplained = [quantity for quantity in unexplained if quantity not in explained]
        if explained:
            found.setdefault(cause, []).extend(explained)
    if unexplained:
        found[UNKNOWN] = unexplained
    texts = [f"{', '.join(names)}: {cause}" for cause, names in found.items()]
    return {"experiments": results, "cause": "; ".join(texts)}


def row_of(name: str, time: str) -> dict[str, Any]:
    """Return the row of a protocol in one time."""
    row: dict[str, Any] = dict.fromkeys(("period", "amplitude", "multiplier", "deviation", "agrees"))
    row = {"protocol": name, "time": time, **row, "reason": "", "note": "", "experiments": [], "cause": ""}
    loop, network = cycle_case(named_protocol(name))
    if host_of(loop).probing_cycle is not None:
        network = staggered(network)  # as in the computed cycle: the shares of flows depend on their starts
    computed = None
    try:
        computed = limit_cycle(loop, network, time)
        packets = measured(loop, network, computed)
    except EccError as error:
        if computed is None:  # the protocol has no model in this time
            first, *_, last = str(error).split(": ")
            return row | {"reason": f"{first}: {last}"}
        row["reason"] = f"packets: {error}"
        values = (computed.period, computed.amplitude, modulus(computed))
        known = [each for each, value in zip(QUANTITIES, values, strict=True) if value is not None and isfinite(value)]
        return row | causes(name, loop, network, time, computed, known)
    found = deviations(computed, packets)
    agrees = [is_small(*pair) for pair in zip(QUANTITIES, found, strict=True)]
    row |= {
        "period": [computed.period, packets.period],
        "amplitude": [value if isfinite(value) else None for value in (computed.amplitude, packets.amplitude)],
        "multiplier": [modulus(computed), modulus(packets), standard_error(packets)],
        "deviation": found[:2],
        "agrees": agrees,
    }
    unexplained = [quantity for quantity, good in zip(QUANTITIES, agrees, strict=True) if good is False]
    if unexplained:
        row["note"] = "; ".join(note for note in computed.notes if "packet" in note.split(" ", 1)[-1])
        row |= causes(name, loop, network, time, computed, unexplained)
    return row


def rounded(value: Any) -> Any:
    """Return a value with five digits, in lists too."""
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else bool(value) if isinstance(value, np.bool_) else value


def main(names: list[str]) -> None:
    """Measure the named protocols, or all, and write the output after each."""
    table = json.loads(OUTPUT.read_text(encoding="utf-8")) if OUTPUT.exists() else []
    order = [name for name in all_protocols() if has_cycle(name)]
    for name in names or order:
        table = [row for row in table if row["protocol"] != name] + [rounded(row_of(name, time)) for time in TIMES]
        table.sort(key=lambda row: order.index(row["protocol"]))
        OUTPUT.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        for row in table:
            if row["protocol"] == name:
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
