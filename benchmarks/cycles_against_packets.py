"""Cycles from `ecc.stability.limit_cycle` against packet runs: period, amplitude and dominant multiplier.

    python benchmarks/cycles_against_packets.py [PROTOCOL ...]

takes each protocol of `ecc.models` whose verdicts have a cycle, on the network of its cycle, in continuous and in
discrete time, and `ecc.stability.measured_cycle` of packet runs there. Rows of other protocols in the output are kept.
If the computed cycle has k <= 10 periods of the packets' cycle, its period is divided by k, and the modulus of its
multiplier is taken to the power 1/k. The output is docs/models_cycles.json, a list of objects

    protocol      class name
    time          "continuous" or "discrete": the time of the computed cycle
    divided       number k of periods of the packets' cycle in the computed one
    period        [computed, packets], s
    amplitude     [computed, packets] of the queue, half of peak to peak, bytes
    multiplier    [computed, packets, standard error], the largest moduli, and the larger error of the modes of the
                  flows (sum and differences); null: without one
    deviation     [of the period, of the amplitude], %
    agrees        [period within 3 %, amplitude within 3 %, multiplier within 0.1]; null: not comparable
    reason        reason why one of the cycles was not found; "" otherwise
    note          note of the computed cycle on packets; "" without one, or if all agree
"""

from __future__ import annotations

import json
import sys
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from ecc.errors import EccError
from ecc.models import all_protocols
from ecc.stability import LimitCycle, limit_cycle, measured_cycle

OUTPUT = Path(__file__).parents[1] / "docs" / "models_cycles.json"
TIMES = ("continuous", "discrete")
MAX_SHARE, MAX_MULTIPLIER = 3.0, 0.1  # %; modulus
MAX_PERIODS = 10


def has_cycle(name: str) -> bool:
    """Return whether the cycle of a protocol is an object of its verdicts."""
    protocol = all_protocols()[name]()
    has_refusal = bool(protocol.no_equilibrium or protocol.linear_refusal or not protocol.times)
    return protocol.cycle_loop is not None or (has_refusal and not protocol.reference_loop.discipline)


def modulus(cycle: LimitCycle) -> float | None:
    """Return the modulus of the dominant multiplier; None without one."""
    value = abs(cycle.dominant)
    return float(value) if isfinite(value) else None


def standard_error(cycle: LimitCycle) -> float | None:
    """Return the larger standard error of the modes of a measured cycle, from its notes."""
    texts = [note for note in cycle.notes if "standard error" in note]
    errors = [float(note.split("standard error ")[1].split(" from")[0]) for note in texts]
    finite = [error for error in errors if isfinite(error)]
    return max(finite) if finite else None


def compared(name: str, time: str, computed: LimitCycle, packets: LimitCycle) -> dict[str, Any]:
    """Return the row of two cycles."""
    count = max(round(computed.period / packets.period), 1)
    count = count if count <= MAX_PERIODS else 1
    periods = [computed.period / count, packets.period]
    size = modulus(computed)
    sizes = [None if size is None else size ** (1.0 / count), modulus(packets)]
    amplitudes = [computed.amplitude, packets.amplitude]
    deviation = [
        100.0 * (mine / theirs - 1.0) if isfinite(mine) and theirs > 0.0 else None
        for mine, theirs in (periods, amplitudes)
    ]
    agrees = [None if value is None else abs(value) <= MAX_SHARE for value in deviation]
    known = [value for value in sizes if value is not None]
    agrees.append(abs(known[0] - known[1]) <= MAX_MULTIPLIER if len(known) == 2 else None)
    return {
        "protocol": name,
        "time": time,
        "divided": count,
        "period": periods,
        "amplitude": [value if isfinite(value) else None for value in amplitudes],
        "multiplier": [*sizes, standard_error(packets)],
        "deviation": deviation,
        "agrees": agrees,
        "reason": "",
        "note": "" if all(agrees) else "; ".join(note for note in computed.notes if "packet" in note.split(" ", 1)[-1]),
    }


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the rows of a protocol, one for each time."""
    nothing = {"divided": 1, "period": None, "amplitude": None, "multiplier": None, "deviation": None, "agrees": None}
    nothing["note"] = ""
    try:
        packets = measured_cycle(name)
    except EccError as error:
        return [{"protocol": name, "time": time, **nothing, "reason": f"packets: {error}"} for time in TIMES]
    rows = []
    for time in TIMES:
        try:
            rows.append(compared(name, time, limit_cycle(name, time=time), packets))
        except EccError as error:
            rows.append({"protocol": name, "time": time, **nothing, "reason": str(error)})
    return rows


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
        table = [row for row in table if row["protocol"] != name] + [rounded(row) for row in rows_of(name)]
        table.sort(key=lambda row: order.index(row["protocol"]))
        OUTPUT.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        for row in table:
            if row["protocol"] == name:
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
