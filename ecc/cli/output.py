"""Output of commands: tables, progress, files."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise, zip_longest
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from ecc._support.files import WriteError, replacing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ecc.claims.ledger import Finding
    from ecc.results.trajectory import Trajectory
    from ecc.scenario import Scenario

__all__ = [
    "PROGRESS_PERIOD",
    "PROGRESS_SHARE",
    "RUN_WRITERS",
    "TABLE_WRITERS",
    "check_folders",
    "complain",
    "drawn_axes",
    "error_of_writing",
    "in_unit",
    "is_narrow",
    "partial_path",
    "print_blocks",
    "print_items",
    "print_json",
    "print_text",
    "print_verdicts",
    "progress_bar",
    "protocol_names",
    "summary_of",
    "summary_tables",
    "table_of",
    "titled",
    "value_text",
]


PROGRESS_PERIOD, PROGRESS_SHARE = 10.0, 0.05
"""Where there is no terminal, a line on the progress comes after so many seconds and such a share of the work."""


def complain(message: str) -> None:
    print(f"ecc: {' '.join(message.split())}", file=sys.stderr)


def check_folders(**files: Path | None) -> None:
    """Refuse a file in a missing folder before the work begins; each argument has the name of its option."""
    for name, path in files.items():
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"{name.replace('_', '-')} must be in a directory that exists, got {str(path)!r}")


def partial_path(path: Path) -> Path:
    """Path for a partial result: table.nc, or table.partial.nc if table.nc exists."""
    return path.with_suffix(f".partial{path.suffix}") if path.exists() else path


def error_of_writing(write: Callable[..., object], *arguments: Any) -> WriteError | None:
    """Write a result, and return the error instead of raising it, so that the result is printed first."""
    try:
        write(*arguments)
    except WriteError as error:
        return error
    return None


def _write_csv(run: Trajectory, path: Path) -> None:
    import pandas as pd

    columns = {f"{name} {k}": series[:, k] for name, series in run.data.items() for k in range(series.shape[1])}
    with replacing(path) as part:
        pd.DataFrame(columns, index=run.data.indexes["time"]).to_csv(part)


def _write_figure(run: Trajectory, path: Path) -> None:
    from ecc.plot.look import as_html

    with replacing(path) as part:
        part.write_text(as_html(run.plot()), encoding="utf-8")


def _write_netcdf(run: Trajectory, path: Path) -> None:
    run.save(path)


RUN_WRITERS: dict[str, Callable[[Any, Path], None]] = {
    ".nc": _write_netcdf,
    ".csv": _write_csv,
    ".html": _write_figure,
}


def _write_rows(found: Any, path: Path) -> None:
    with replacing(path) as part:
        found.to_dataframe().to_csv(part)


def _write_grid(found: Any, path: Path) -> None:
    with replacing(path) as part:
        found.to_netcdf(part)


def drawn_axes(axes: Iterable[str]) -> list[str]:
    """The axes of a sweep that its figure has: seeds are averaged, unless nothing else varies."""
    names = list(axes)
    return [name for name in names if name != "seed"] or names


def _write_sweep_figure(found: Any, path: Path) -> None:
    from ecc.batch.sweeps import sweep_means
    from ecc.plot import sweep_figure
    from ecc.plot.look import as_html

    titles = {name: titled(series.attrs) for name, series in found.data_vars.items() if "long_name" in series.attrs}
    if not titles:
        raise WriteError(f"{path} cannot be written: no metric could be computed")
    chosen = drawn_axes(map(str, found.dims))
    is_mean = len(chosen) < len(found.dims)
    means = sweep_means(found) if is_mean else found
    axes = dict(_drawn_axis(found, name) for name in chosen)
    panels = {title: means[name].values for name, title in titles.items()}
    intervals = {
        title: means[f"{name}_interval"].values for name, title in titles.items() if f"{name}_interval" in means
    }
    about = [_runs_of_means(found, list(titles))] if is_mean else []
    notes = [*about, *filter(None, [found.attrs.get("notes", "")])]
    drawn = sweep_figure(axes, panels, intervals, found.attrs.get("title", ""), "; ".join(notes))
    with replacing(path) as part:
        part.write_text(as_html(drawn), encoding="utf-8")


def _runs_of_means(found: Any, metrics: Sequence[str]) -> str:
    """Words for the number of seeds in the means of a figure."""
    counts = found[metrics].to_array().notnull().any("variable").sum("seed")
    low, high = int(counts.min()), int(counts.max())
    return f"mean over {high if low == high else f'{low} to {high}'} seeds, 95 % interval"


def _drawn_axis(found: Any, name: str) -> tuple[str, list[Any]]:
    """Title and values of an axis of a sweep; those of settings that vary together are texts with all of them."""
    together = [str(other) for other in found.coords if found[other].dims == (name,)]
    together = [other for other in together if len({*found[other].values.tolist()}) > 1] or together[:1]
    title = ", ".join(found[other].attrs.get("long_name", other) for other in together)
    columns = [found[other].values.tolist() for other in together]
    if len(columns) == 1:
        return title, [value_text(value) if isinstance(value, str) else value for value in columns[0]]
    return title, [", ".join(map(value_text, values)) for values in zip(*columns, strict=True)]


def value_text(value: Any) -> str:
    """The value of a setting in a table or figure; an inline table is shortened to the names in it.

    For example {name = "RED", limit = 50} becomes RED(limit = 50).
    """
    if not isinstance(value, str):
        return f"{value:.6g}"
    if not value.startswith("{"):
        return value
    import tomllib

    try:
        return _table_text(tomllib.loads(f"value = {value}")["value"])
    except tomllib.TOMLDecodeError:
        return value


def _table_text(table: Any) -> str:
    if not isinstance(table, dict):
        return table if isinstance(table, str) else f"{table}"
    if "name" in table:
        settings = ", ".join(f"{key} = {_table_text(value)}" for key, value in table.items() if key != "name")
        return f"{table['name']}({settings})" if settings else str(table["name"])
    if {*table} == {"flows", "links"}:
        return f"{_table_text(table['flows'])} over {_table_text(table['links'])}"
    if {*table} == {"default"}:
        return _table_text(table["default"])
    return ", ".join(f"{key}: {_table_text(value)}" for key, value in table.items())


def titled(attributes: Mapping[str, str], name: str = "") -> str:
    """The title of a metric with its unit, from the attributes of its variable; its name without them."""
    unit, title = attributes.get("units"), attributes.get("long_name", name)
    return f"{title} [{unit}]" if unit else title


def in_unit(attributes: Mapping[str, str], name: str, values: Any) -> tuple[float, str]:
    """The factor and the title of a column in the unit that suits its values, for example ms instead of s."""
    import numpy as np

    from ecc.results.metrics import UNITS

    unit = attributes.get("units", "")
    top = float(np.nanmax(np.abs(values), initial=0.0)) if unit else 0.0
    if unit not in UNITS or not 0.0 < top < np.inf:
        return 1.0, titled(attributes, name)
    factors = sorted((factor, text) for text, factor in UNITS[unit].items())
    factor, text = max((pair for pair in factors if pair[0] <= top), default=factors[0])
    return factor, titled({**attributes, "units": text}, name)


TABLE_WRITERS: dict[str, Callable[[Any, Path], None]] = {
    ".nc": _write_grid,
    ".csv": _write_rows,
    ".html": _write_sweep_figure,
}


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:  # what reads a pipe or a file wraps lines itself, or wants them whole
        console = Console(highlight=False, width=_WIDE)
    return console


_wrapped = partial(wrap, break_on_hyphens=False, break_long_words=False)  # an id is not cut
_WIDE = 100_000  # columns: no table is folded or cut
_TABLES = 140  # columns of a terminal with room for a table that has a column of sentences


def print_items(*items: Any) -> None:
    console = _console()
    with console.capture() as text:
        for item in items:
            console.print(item)
    lines = text.get().splitlines()
    if not console.is_terminal:
        lines = [line.rstrip() for line in lines]
        for k, line in enumerate(lines):  # a rule under a head is as long as the head, not as the longest cell
            if line and not line.strip(" ─"):
                lines[k] = line[: len(lines[k - 1])]
    print("\n".join(lines))


def print_text(text: str) -> None:
    """Print lines; those longer than the terminal are wrapped at words, and in tables within their column."""
    console = _console()
    if not console.is_terminal:
        print(text)
        return
    for is_table, lines in groupby(text.splitlines(), lambda line: re.match(r" {2,}\S.*\S {2,}\S", line) is not None):
        rows = list(lines)
        if max(map(len, rows)) <= console.width:
            print("\n".join(rows))
        elif is_table:
            print("\n".join(_folded(rows, console.width)))
        else:
            for line in rows:
                indent = " " * (len(line) - len(line.lstrip()) + 2)
                print("\n".join(_wrapped(line, console.width, subsequent_indent=indent)) or line)


def _folded(lines: Sequence[str], width: int) -> list[str]:
    """Return the lines of a table with cells that are wrapped, the widest columns first, so that rows fit a width."""
    longest = max(map(len, lines))
    is_blank = [all(line[k : k + 1].strip() == "" for line in lines) for k in range(longest)]
    starts = [k for k in range(2, longest) if not is_blank[k] and is_blank[k - 1] and is_blank[k - 2]]
    cells = [[line[a:b].rstrip() for a, b in pairwise([*starts, longest])] for line in lines]
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    minimum = [max(len(word) for cell in column for word in cell.split() or [""]) for column in columns]
    while starts[0] + sum(widths) + 2 * (len(widths) - 1) > width and widths != minimum:
        widest = max(range(len(widths)), key=lambda k: (widths[k] > minimum[k], widths[k]))
        widths[widest] -= 1
    folded = []
    for row in cells:
        parts = [_wrapped(cell, size) for cell, size in zip(row, widths, strict=True)]
        for words in zip_longest(*parts, fillvalue=""):
            line = "  ".join(f"{word:<{size}}" for word, size in zip(words, widths, strict=True))
            folded.append((" " * starts[0] + line).rstrip())
    return folded


def print_blocks(blocks: Iterable[tuple[str, str | Text, str]]) -> None:
    """Print a block for each (name, remark, lines of text), for terminals that are too narrow for a table."""
    from rich.text import Text

    console = _console()
    for name, remark, text in blocks:
        console.print(Text.assemble((name, "bold"), "  ", remark if isinstance(remark, Text) else (remark, "dim")))
        for line in text.splitlines():
            print("\n".join(_wrapped(line, console.width, initial_indent="    ", subsequent_indent="    ")))


def is_narrow() -> bool:
    """Whether the output is a terminal that has no room for a table with a column of sentences."""
    console = _console()
    return console.is_terminal and console.width < _TABLES


def print_json(value: Any) -> None:
    from ecc._support.display import json_text

    print(json_text(value))


def progress_bar(shown: bool = True) -> Any:
    """A bar with elapsed and estimated remaining time; lines with both if the output is not a terminal.

    `moving`, if it is set, is called before each time that the bar is drawn.
    """
    from time import monotonic

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )

    class Moving(Progress):
        moving: Callable[[], None] | None = None
        began = reported = monotonic()
        share = 0.0

        def update(self, task_id: Any, **changes: Any) -> None:
            super().update(task_id, **changes)
            task, now = self.tasks[task_id], monotonic()
            if console.is_terminal or not shown or task.total is None or task.finished:
                return
            share = task.completed / task.total
            if now >= self.reported + PROGRESS_PERIOD and share >= self.share + PROGRESS_SHARE:
                self.reported, self.share, passed = now, share, now - self.began
                remaining = passed * (1.0 - share) / share
                complain(f"{task.description}: {share:.0%} in {passed:.0f} s, about {remaining:.0f} s left")

        def get_renderables(self) -> Iterable[Any]:
            if self.moving is not None:
                self.moving()
            return super().get_renderables()

    console = Console(stderr=True, highlight=False)
    return Moving(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))


def table_of(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Cells are shown as they are: no markup, or "[s]" would vanish."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    def cell(content: Any) -> Text:
        return content if isinstance(content, Text) else Text(str(content))

    heading = Text(title, "bold", no_wrap=True, overflow="ignore") if title else None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=heading, title_justify="left")
    cells = [[cell(content) for content in row] for row in rows]
    for place, column in enumerate(columns):
        # Neither ids and numbers nor words of a heading can be read in two pieces; the path of a setting can.
        head = re.sub(r"\.(?=\w+$)", ".\n", str(column)) if is_narrow() else str(column)
        words = [row[place].plain for row in cells]
        unbroken = [*head.split(), *(words if all(" " not in word for word in words) else ())]
        table.add_column(cell(head), overflow="fold", min_width=max(map(len, unbroken), default=0))
    for row in cells:
        table.add_row(*row)
    return table


_STYLES = {
    "confirmed": "green",
    "confirmed in its model": "green",
    "refuted": "red",
    "conditional": "yellow",
    "not comparable": "dim",
    "answered": "cyan",
    "failed": "red",
}


def print_verdicts(findings: Sequence[Finding], what: str, failures: Mapping[str, str]) -> None:
    """Print a table of verdicts on claims or cases, or a block for each if the terminal has no room for a table."""
    rows = [
        *(_verdict_row(finding) for finding in findings),
        *((key, "failed", "", error, "") for key, error in failures.items()),
    ]
    if what == "case":
        rows = [(*row[:2], "", row[3], "") for row in rows]
    if is_narrow():
        for key, verdict, pair, reason, exceptions in rows:
            texts = (pair, reason, f"beyond the claim: {exceptions}" if exceptions else "")
            print_blocks([(key, _colored(verdict), "\n".join(filter(None, texts)))])
        return
    heads = (what, "verdict", "published → found", "reason", "beyond the claim")
    filled = [k for k, head in enumerate(heads) if any(row[k] for row in rows) or head == "reason"]
    cells = [(row[0], _colored(row[1]), *row[2:]) for row in rows]
    print_items(table_of("", [heads[k] for k in filled], [[row[k] for k in filled] for row in cells]))


def _colored(verdict: str) -> Text:
    """Return a verdict in its color; "answered: yes" has that of "answered"."""
    from rich.text import Text

    return Text(verdict, _STYLES[verdict.partition(":")[0]])


def _verdict_row(finding: Finding) -> tuple[str, str, str, str, str]:
    """Return id, verdict, published and found value, reason, and what else was found."""
    from ecc._support.display import number_text
    from ecc.claims.report.text import judged, unexpected

    paired = [measurement for measurement in finding.measurements if measurement.reported is not None]
    pair = next((m for m in paired if not isinstance(m.reported, str)), paired[0] if paired else None)
    shown = ""
    if pair is not None:
        shown = f"{pair.name}: {number_text(pair.reported)} → {number_text(pair.value)} {pair.unit}".strip()
    return finding.claim.id, judged(finding), shown, finding.reason, unexpected(finding)


def summary_of(run: Trajectory, case: Scenario) -> dict[str, Any]:
    """Results of a run: means over its samples, and over the last tenth of them; empty without samples."""
    import numpy as np

    from ecc.results.metrics import utilization

    time = run.values("time")
    n_flows, n_links = (run.values(name).shape[1] if len(time) else 0 for name in ("rate", "queue"))
    rates = run.values("rate")
    tail = rates[-max(1, len(time) // 10) :]
    queues, peaks = (run.values(name if run.has(name) else "queue") for name in ("queue_mean", "queue_max"))
    protocols = protocol_names(case)
    transfers, lost = run.column("transfer"), run.column("lost")
    lost_by = {} if transfers is None or lost is None else dict(zip(transfers.tolist(), lost.tolist(), strict=True))
    flows = [
        {
            "flow": k,
            "protocol": protocols[k],
            "mean_rate": float(np.nanmean(rates[:, k])),
            "last_rate": float(np.nanmean(tail[:, k])),
            "lost": float(lost_by.get(k, 0.0)),
        }
        for k in range(n_flows)
    ]
    links = [
        {
            "link": k,
            "capacity": case.network.links[k].capacity,
            "utilization": utilization(run, case, k),
            "mean_queue": float(np.nanmean(queues[:, k])),
            "peak_queue": float(np.nanmax(peaks[:, k])),
            **{what: float(run.values(what)[:, k].sum()) if run.has(what) else 0.0 for what in ("drops", "marks")},
        }
        for k in range(n_links)
    ]
    return {
        "engine": run._attribute("engine") or "",
        "protocol": run._attribute("protocol") or "",
        "stopped": run.stopped,
        "simulated": float(time[-1]) if len(time) else 0.0,
        "flows": flows,
        "links": links,
        "transfers": _summary_of_transfers(run),
        "stats": dict(run.stats),
    }


def _summary_of_transfers(run: Trajectory) -> dict[str, Any]:
    """Counts, completion times and slowdowns of the flows of a run that have a size."""
    import numpy as np

    def column(name: str) -> Any:
        values = run.column(name)
        return np.full(len(is_sized), np.nan) if values is None else values.astype(float)

    sizes = run.column("size")
    is_sized = np.zeros(0, bool) if sizes is None else ~np.isnan(sizes.astype(float))
    times = column("completion_time")[is_sized]
    slowdowns = times / column("ideal_time")[is_sized]
    times, slowdowns = (values[~np.isnan(values)] for values in (times, slowdowns))
    return {
        "rows": int(is_sized.sum()),
        "completed": len(times),
        "mean_completion_time": float(times.mean()) if len(times) else None,
        "median_completion_time": float(np.median(times)) if len(times) else None,
        "p99_completion_time": float(np.percentile(times, 99.0)) if len(times) else None,
        "p99_slowdown": float(np.percentile(slowdowns, 99.0)) if len(slowdowns) else None,
    }


def protocol_names(case: Scenario) -> list[str]:
    """The protocol of each flow, with its parameters where one class has several."""
    from ecc.contract.parameters import label

    flows = case.deployment.flows
    labels = {id(protocol): label(protocol) for protocol in flows}
    names = {key: name.partition("(")[0] for key, name in labels.items()}
    chosen = labels if len(set(labels.values())) > len(set(names.values())) else names
    return [chosen[id(protocol)] for protocol in flows]


def summary_tables(summary: dict[str, Any]) -> list[Table]:
    from ecc._support.display import quantity_text

    def mbps(*rates: float) -> list[str]:
        return [f"{rate / 1e6:.4f}" for rate in rates]

    def share(part: float | None) -> str:
        return "" if part is None else f"{part:.1%}"

    flows = summary["flows"]
    shown = flows if len(flows) <= _SHOWN else flows[: _SHOWN - 1]
    several = len({row["protocol"] for row in flows}) > 1
    has_lost = any(row["lost"] for row in flows)
    rows = [
        [
            row["flow"],
            *([row["protocol"]] if several else []),
            *mbps(row["mean_rate"], row["last_rate"]),
            *([f"{row['lost']:,.0f}"] if has_lost else []),
        ]
        for row in shown
    ]
    rest = flows[len(shown) :]
    if rest:
        *rates, lost = (sum(row[key] for row in rest) / len(rest) for key in ("mean_rate", "last_rate", "lost"))
        of_rest = [f"mean of {len(rest)} others", *([""] if several else []), *mbps(*rates)]
        rows.append([*of_rest, *([f"{lost:,.0f}"] if has_lost else [])])
    links = sorted(summary["links"], key=lambda row: -row["peak_queue"])
    remaining_links = links[_SHOWN - 1 :] if len(links) > _SHOWN else []
    links = sorted(links[: len(links) - len(remaining_links)], key=lambda row: row["link"])
    has_marks = any(row["marks"] for row in summary["links"])
    queues = [
        [
            row["link"],
            *mbps(row["capacity"]),
            share(row["utilization"]),
            f"{row['mean_queue']:,.0f}",
            f"{row['peak_queue']:,.0f}",
            f"{row['drops']:,.0f}",
            *([f"{row['marks']:,.0f}"] if has_marks else []),
        ]
        for row in links
    ]
    if remaining_links:
        drops, marks = (f"{sum(row[what] for row in remaining_links):,.0f}" for what in ("drops", "marks"))
        peak = f"up to {remaining_links[0]['peak_queue']:,.0f}"
        queues.append([f"{len(remaining_links)} others", "", "", "", peak, drops, *([marks] if has_marks else [])])
    title = f"{summary['protocol']}, {summary['engine']} run of {summary['simulated']:g} s"
    heads = ("flow", *(["protocol"] if several else []), "mean rate [Mb/s]", "in the last tenth [Mb/s]")
    heads += ("lost [bytes]",) if has_lost else ()
    of_links = (
        "link",
        "capacity [Mb/s]",
        "utilization",
        "mean queue [bytes]",
        "peak queue [bytes]",
        "drops [packets]",
        *(["marks [packets]"] if has_marks else []),
    )
    tables = [table_of(title, heads, rows), table_of("", of_links, queues)]
    transfers = summary["transfers"]
    if transfers["rows"]:
        named = ("mean", "median", "p99")
        times = [transfers[f"{name}_completion_time"] for name in named]
        row = [transfers["rows"], transfers["completed"], *("" if t is None else quantity_text(t, "s") for t in times)]
        row += [f"{transfers['p99_slowdown']:.4g}"] if transfers["p99_slowdown"] is not None else []
        heads = ("transfers", "completed", *(f"{name} completion time" for name in named), "p99 slowdown")
        tables.append(table_of("", heads[: len(row)], [row]))
    return tables


_SHOWN = 20  # rows of flows, and of links
