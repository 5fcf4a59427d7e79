"""Writes the page of verdicts, docs/models.md, and the columns that tables of protocols take from the same verdicts.

`python docs/models_page.py` computes the verdicts of all protocols (about a minute) and writes docs/models.md, the
column "engines" of the tables in README.md and docs/protocols.md. A test compares the verdicts with the page. The
section on disagreements shows docs/models_disagreements.json, written by `python benchmarks/verdicts_against_runs.py`,
and the section on cycles docs/models_cycles.json, written by `python benchmarks/cycles_against_packets.py`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ecc._support.display import quantity_text
from ecc.models import TIMELY, all_protocols
from ecc.stability import all_verdicts, verdicts
from ecc.stability.verdict_text import HEADINGS, cells

HERE = Path(__file__).parent
PAGE, MEASURED, CYCLES_MEASURED = (
    HERE / name for name in ("models.md", "models_disagreements.json", "models_cycles.json")
)
TIMES = ("continuous", "discrete", "hybrid")
CYCLES = ("cycle", "random cycle")
VERDICT_COLUMNS = ("protocol", "model", "time", "object", "stable", "proven")
"""Columns of the page that a test compares; roots and margins have rounding errors."""


def table_rows(table: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return the rows of a table of verdicts as cells of the page.

    Parameters
    ----------
    table : pandas.DataFrame
        Table from `ecc.stability.all_verdicts`.
    """
    return [
        (str(row["protocol"]), *cells(row), str(row["omits"]).replace("|", "\\|")) for row in table.to_dict("records")
    ]


def verdicts_of_rows(rows: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the columns of rows that a test compares: those of `VERDICT_COLUMNS`.

    Parameters
    ----------
    rows : iterable of sequences of str
        Rows from `table_rows`, or read from the page.
    """
    names = ("protocol", *(heading.replace("dominant root", "dominant") for heading in HEADINGS))
    kept = [names.index(name) for name in VERDICT_COLUMNS]
    return [tuple(row[index] for index in kept) for row in rows]


def rows_of_page(text: str) -> list[list[str]]:
    """Return the rows of the table of verdicts on the page.

    Parameters
    ----------
    text : str
        Content of docs/models.md.
    """
    section = text.split("## Verdicts\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in rows]


def lines_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table in Markdown."""
    rule = "|" + "---|" * len(head)
    return [f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]


def page(table: pd.DataFrame, measured: Any, cycles: Any) -> str:
    """Return docs/models.md.

    Parameters
    ----------
    table : pandas.DataFrame
        Table from `ecc.stability.all_verdicts`.
    measured : mapping or None
        Content of docs/models_disagreements.json.
    cycles : list or None
        Content of docs/models_cycles.json.
    """
    head = ("protocol", *HEADINGS, "omitted")
    rows = [(f"`{name}`", *rest) for name, *rest in table_rows(table)]
    sources = [
        (f"`{name}`", table.attrs["network"][name], table.attrs["cycle_network"][name], source)
        for name, source in table.attrs["source"].items()
        if source
    ]
    return "\n".join(
        [
            *_opening(table),
            "## Verdicts",
            "",
            "An empty cell is a value that does not exist: an unstable loop and a cycle have no "
            "[gain margin](glossary.md#gain-phase-and-delay-margin).",
            "",
            *lines_of(head, rows),
            "",
            *_disagreeing_models(table),
            *_sets(table),
            *_against_runs(measured),
            *_cycles_against_packets(cycles),
            "## Reference networks",
            "",
            "Each network is one link with flows that last. The source names the text that gives its numbers, by "
            'its short name in `ecc.claims.ledger.PAPERS`. "ours" means that no text that was read gives them.',
            "",
            *lines_of(("protocol", "network", "network of the cycle, if it differs", "source"), sources),
            "",
        ]
    )


def _opening(table: pd.DataFrame) -> list[str]:
    is_cycle = table.object.isin(CYCLES)
    linear = table[~is_cycle & table.stable.notna()]
    cycles = table[is_cycle & table.stable.notna()]
    by_object = {name: table[table.object == name].protocol.nunique() for name in ("equilibrium", "set")}
    alone = int(is_cycle.groupby(table.protocol).all().sum())
    unstable = linear[~linear.stable.astype(bool)].protocol.unique().tolist()
    without = table[is_cycle & table.stable.isna()].protocol.unique().tolist()
    return [
        "# Verdicts on all protocols: stable or not, in continuous, discrete and hybrid models",
        "",
        "**Is each protocol stable on its reference network, by each of its linear models or by the multipliers of its "
        "cycle, and do fluid and packet runs "
        f"agree?** Of {table.protocol.nunique()} protocols, {by_object['equilibrium']} have an "
        f"[equilibrium](glossary.md#equilibrium), {by_object['set']} a set of equilibria, and {alone} "
        "neither of the two: their runs oscillate. "
        f"Of {len(linear)} [linear models](glossary.md#linear-models), {int(linear.stable.sum())} are stable, and "
        f"{int(linear.proven.sum())} verdicts are [proven](glossary.md#certified) by ball arithmetic. Unstable "
        "in some "
        f"model: {', '.join(f'`{name}`' for name in unstable) or 'none'}. "
        f"Of {len(cycles)} [cycles](glossary.md#limit-cycle-and-floquet-multipliers) with a verdict, "
        f"{int(cycles.stable.sum())} are stable, and {int(cycles.proven.sum())} verdicts are proven by interval "
        f"arithmetic. Cycles without a verdict in some time: {', '.join(f'`{name}`' for name in without) or 'none'}.",
        "",
        "`python docs/models_page.py` writes this page from `ecc.stability.all_verdicts`. `ecc stability "
        "PROTOCOL` prints "
        "the rows of one protocol. In Python:",
        "",
        "```python",
        "import ecc",
        "",
        'table = ecc.stability.verdicts("PIQI-RCP")',
        'assert table.time.tolist() == ["continuous", "discrete", "hybrid"]',
        "assert table.stable.all() and table.proven.all()",
        "```",
        "",
        "| column | meaning |",
        "|---|---|",
        "| model | kind of the closed loop; for windows, whether ACKs clock them or they are "
        "[paced](glossary.md#ack-clocked-and-paced); the queue discipline that hosts respond to |",
        "| time | continuous: delay differential equations, in which hosts and routers act at every moment. "
        "discrete: a "
        "recurrence, in which they act in steps. [hybrid](glossary.md#sampled-data-hybrid): everything with a clock in "
        "seconds acts at its ticks, on a continuous path |",
        "| object | equilibrium, set of equilibria, cycle, or random cycle if hosts or routers draw random numbers |",
        "| dominant root | of an equilibrium in continuous time, the rightmost root [1/s]; otherwise the largest "
        "multiplier z, per step or per period of a cycle; z = 0: deviations are gone after a few periods (dead beat). "
        "Of a random cycle it is that of the mean map; it is unstable if two runs with the same draws part (positive "
        "Lyapunov exponent). Random cycles without multipliers have the mean growth per period, and z = 1 means that "
        "all directions are along further cycles |",
        "| proven | the number of unstable roots is proven by ball arithmetic; a cycle with its multipliers, by "
        "interval arithmetic |",
        "| gain margin | factor on the loop gain at which a stable model becomes unstable |",
        "| omitted | effects that the model leaves out; of a cycle, mean ± amplitude of the queue, and the method; or "
        "the reason why no cycle was found |",
        "",
    ]


def _disagreeing_models(table: pd.DataFrame) -> list[str]:
    """Return the section on protocols whose linear models have different verdicts."""
    rows = []
    for name, group in table[table.stable.notna()].groupby("protocol", sort=False):
        if group.stable.nunique() > 1:
            split = {verdict: group[group.stable == verdict] for verdict in (True, False)}
            texts = ["; ".join(f"{row.model}, {row.time}" for row in part.itertuples()) for part in split.values()]
            rows.append((f"`{name}`", *texts))
    lines = ["## Linear models that disagree with each other", ""]
    if not rows:
        return [*lines, "No protocol has linear models with different verdicts on its reference network.", ""]
    return [
        *lines,
        "The linear models of these protocols have different verdicts on the reference network:",
        "",
        *lines_of(("protocol", "stable", "unstable"), rows),
        "",
    ]


def _sets(table: pd.DataFrame) -> list[str]:
    """Return the section on sets of equilibria."""
    variant = verdicts(TIMELY(increases_at_zero=False))
    sets = {name: text for name, text in table.attrs["set"].items() if text}
    sets["TIMELY(increases_at_zero=False)"] = variant.attrs["set"]
    rows = []
    for name, text in sets.items():
        members, _, outside = text.partition("; outside, ")
        rows.append((f"`{name}`", members, outside))
    roots = ", ".join(f"{cells(row)[3]} ({row['time']})" for row in variant.to_dict("records"))
    return [
        "## Sets of equilibria",
        "",
        "Some protocols keep any state of a set, for example any windows that leave 1 to 3 packets of each flow in the "
        "queue. A linear model at a point of such a set has a root at 0 (z = 1) for each direction along the "
        "set, since "
        "a perturbation along the set stays. The table of verdicts shows the dominant root among the other ones, which "
        "are transverse to the set. If they are stable, a run that starts near the set ends at one of its points. If "
        "every direction is along the set, the row shows the root at 0.",
        "",
        *lines_of(("protocol", "members of the set", "effect of the laws outside"), rows),
        "",
        "TIMELY has a set only if rates increase for negative gradients alone (`increases_at_zero=False`), and "
        "not at 0 "
        "as in its Algorithm 1. The set is unstable because the law jumps at it: a negative gradient, however small, "
        "increases rates until the increase is seen a delay later. The equations for positive gradients alone have the "
        f"dominant roots {roots}.",
        "",
    ]


def _against_runs(measured: Any) -> list[str]:
    """Return the section on fluid and packet runs that contradict a linear model."""
    lines = ["## Where models, fluids and packets disagree", ""]
    if measured is None:
        return [
            *lines,
            "This copy of the page was made without the measurements of `python benchmarks/verdicts_against_runs.py`.",
            "",
        ]
    counts = measured["comparisons"]
    lines += [
        "Fluid and packet runs start next to the equilibrium, on both sides of the stability limit of a parameter. Of "
        f"{sum(counts.values())} comparisons of a linear model with an engine, {counts.get('agree', 0)} agree with the "
        f"model, {counts.get('disagree', 0)} disagree, {counts.get('undecided', 0)} are undecided, and "
        f"{counts.get('not run', 0)} were not run. `python benchmarks/verdicts_against_runs.py` measures them, "
        "and looks "
        "for the cause of a disagreement by experiments that change one condition each.",
        "",
    ]
    rows = [
        (
            f"`{row['protocol']}`",
            f"{row['time']}{', ' + row['clocking'] if row['clocking'] else ''}",
            row["engine"],
            f"`{row['parameter']}`" if row["parameter"] else "",
            _number(row["limit"]),
            _number(row["measured"]),
            row["runs"].replace("|", "\\|"),
            row["cause"].replace("|", "\\|"),
        )
        for row in measured["disagreements"]
    ]
    head = ("protocol", "model", "engine", "parameter", "limit of the model", "measured", "runs", "measured cause")
    lines += lines_of(head, rows) if rows else ["No comparison disagrees."]
    undecided = [
        (
            f"`{row['protocol']}`",
            f"{row['time']}{', ' + row['clocking'] if row['clocking'] else ''}",
            row["engine"],
            row["reason"].replace("|", "\\|"),
        )
        for row in measured.get("undecided", ())
    ]
    if undecided:
        lines += ["", "Undecided comparisons:", "", *lines_of(("protocol", "model", "engine", "reason"), undecided)]
    return [*lines, ""]


def _cycles_against_packets(measured: Any) -> list[str]:
    """Return the section that compares computed cycles with packet runs."""
    lines = ["## Cycles against packets", ""]
    if measured is None:
        return [*lines, "This copy of the page was made without `python benchmarks/cycles_against_packets.py`.", ""]
    agreeing = sum(bool(row["agrees"]) and all(value is True for value in row["agrees"]) for row in measured)
    unknown = sum("not found" in row["cause"] for row in measured)
    lines += [
        "The cycle of each row of the table of verdicts, and the cycle of packet runs on the same network, which "
        "`ecc.stability.measured_cycle` finds with the decay of disturbances. The amplitude is half of the "
        "peak-to-peak range of the queue, and the multiplier the largest modulus, which in packets has a standard "
        "error. The agreement has three answers: period within 3 %, amplitude within 3 %, and modulus within 0.1; "
        f'"-" means that one of the two values does not exist. Of {len(measured)} rows, {agreeing} agree in all three. '
        "`python benchmarks/cycles_against_packets.py` measures them. Experiments look for the cause of a difference. "
        "Each changes one condition of the computed cycle, of the packet runs, or of both (for example packets four "
        "times smaller). The changed condition is the cause if the quantity agrees there within the same limits. "
        f"{unknown} rows have a difference without a cause.",
        "",
    ]
    rows = []
    for row in measured:
        start = (f"`{row['protocol']}`", row["time"])
        if row["reason"]:
            causes = "; ".join(filter(None, (row["reason"], row["cause"], *_experiments(row))))
            rows.append((*start, "", "", "", "", "", "", causes.replace("|", "\\|")))
            continue
        period, amplitude, deviation = row["period"], row["amplitude"], row["deviation"]
        computed, packets, error = row["multiplier"]
        spread = "" if error is None or packets is None else f" ± {error:.2g}"
        rows.append(
            (
                *start,
                f"{_number(period[0])} s / {_number(period[1])} s",
                "" if deviation[0] is None else f"{deviation[0]:+.1f} %",
                f"{_size(amplitude[0])} / {_size(amplitude[1])}",
                "" if deviation[1] is None else f"{deviation[1]:+.1f} %",
                f"{_number(computed) or '-'} / {_number(packets) or '-'}{spread}",
                ", ".join({True: "yes", False: "no", None: "-"}[value] for value in row["agrees"]),
                "; ".join(filter(None, (row["cause"], *_experiments(row), row["note"]))).replace("|", "\\|"),
            )
        )
    pair = "computed / packets"
    head = (
        *("protocol", "time", f"period, {pair}", "deviation", f"amplitude, {pair}", "deviation", f"multiplier, {pair}"),
        *("agree", "cause of the difference, and note of the computed cycle; or reason without one"),
    )
    return [*lines, *lines_of(head, rows), ""]


def _experiments(row: Any) -> list[str]:
    """Return the deviations in the experiments on a row."""
    texts = []
    for name, found in ((each["change"], each["deviation"]) for each in row["experiments"]):
        if isinstance(found, list) and any(value is not None for value in found):
            units = ("{:+.1f} %", "{:+.1f} %", "{:+.2f}")
            values = ["-" if value is None else unit.format(value) for unit, value in zip(units, found, strict=True)]
            texts.append(f"deviations {name} are {', '.join(values)}")
    return texts


def _size(value: Any) -> str:
    return "-" if value is None else quantity_text(value, "bytes")


def _number(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.4g}"


# ---- tables of protocols ----------------------------------------------------------------------------------


def engines(name: str, table: pd.DataFrame) -> str:
    """Return the models and engines of a protocol in words, for example "linear (continuous), fluid, packets".

    Parameters
    ----------
    name : str
        Name of a protocol class.
    table : pandas.DataFrame
        Table from `ecc.stability.all_verdicts`.
    """
    kind = all_protocols(unresponsive=True)[name]
    decided = table[(table.protocol == name) & table.stable.isin(["yes", "no", True, False])]
    rows, cycles = decided[~decided.object.isin(CYCLES)], decided[decided.object.isin(CYCLES)]
    parts = []
    if len(rows):
        times = [time for time in TIMES if time in set(rows.time)]
        over = sorted({model.partition(" over ")[2] for model in rows.model} - {""})
        text = f"linear ({', '.join(times)})"
        text += " at its set of equilibria" if set(rows.object) == {"set"} else ""
        parts.append(text + "".join(f" over `{discipline}`" for discipline in over))
    if len(cycles):
        parts.append(f"cycle ({', '.join(time for time in TIMES if time in set(cycles.time))})")
    if kind.has_relay():
        parts.append("describing function")
    protocol = None if name == "ConstantRate" else kind()
    if protocol is not None and protocol.loop.fluid is None:
        parts.append("fluid")
    parts.append("packets")
    text = ", ".join(parts)
    return "all" if text == "linear (continuous, discrete, hybrid), fluid, packets" else text


def with_engines(text: str, table: pd.DataFrame) -> str:
    """Return a page whose tables of protocols have the present engines in their last column.

    Parameters
    ----------
    text : str
        Content of README.md or docs/protocols.md.
    table : pandas.DataFrame
        Table from `ecc.stability.all_verdicts`.
    """
    known = all_protocols(unresponsive=True)
    lines, is_inside = [], False
    for line in text.splitlines():
        is_inside = line.startswith("| class | protocol ") or (is_inside and line.startswith("|"))
        match = re.match(r"\| `(\w+)` \|", line)
        if is_inside and match and match[1] in known:
            line = f"{line.rstrip('| ').rpartition(' | ')[0]} | {engines(match[1], table)} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def write() -> None:
    """Write the page and the columns."""
    table = all_verdicts(progress=lambda step: print(f"{step.share:4.0%} {step}", file=sys.stderr))
    measured, cycles = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else None for path in (MEASURED, CYCLES_MEASURED)
    )
    PAGE.write_text(page(table, measured, cycles), encoding="utf-8")
    for path in (HERE.parent / "README.md", HERE / "protocols.md"):
        path.write_text(with_engines(path.read_text(encoding="utf-8"), table), encoding="utf-8")


if __name__ == "__main__":
    write()
