"""`ecc sweep`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import floor, isfinite, log10, prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ecc._support.files import WriteError, replacing
from ecc.cli.app import FAILED, INTERRUPTED, UNWRITTEN, app, examples
from ecc.cli.options import (
    AsJson,
    ClockingOfFluid,
    Engine,
    Jobs,
    OnCluster,
    Sample,
    ScenarioFile,
    TimeOfFluid,
    fluid_options,
)
from ecc.cli.output import (
    TABLE_WRITERS,
    check_folders,
    complain,
    drawn_axes,
    error_of_writing,
    in_unit,
    partial_path,
    print_items,
    print_json,
    progress_bar,
    table_of,
    value_text,
)
from ecc.cli.parsing import (
    MAX_POINTS,
    indices_of,
    metric_of,
    number_or_text,
    quantity_or_none,
    span_of,
    split_values,
)
from ecc.cli.work import begin_work, end_work, show_resumed, started_workers

if TYPE_CHECKING:
    import xarray as xr

    from ecc.batch.sweeps import EarlyEnd, ScenarioRuns
    from ecc.batch.table import SweepTable

__all__ = ["DEFAULT_METRICS", "axis_of", "part_of_sweep", "sweep"]


DEFAULT_METRICS = ("utilization", "fairness", "mean_queue", "peak_queue", "loss")


def _list_metrics(names: list[str] | None) -> list[str] | None:
    """Print all metrics and end the command if "list" is among the names."""
    if "list" not in (names or ()):
        return names
    from ecc.results.metrics import METRICS, OF_SWEEPS, lacking, parameters_of

    rows = []
    for name, metric in METRICS.items():
        required = lacking(metric, OF_SWEEPS)
        arguments = [f"{key} (required)" if key in required else key for key in parameters_of(metric)]
        rows.append((name, metric.title, metric.kind, ", ".join(arguments)))
    print_items(table_of("", ("metric", "meaning", "unit", "arguments"), rows))
    raise typer.Exit


@app.command(
    short_help="Run a scenario over a grid; print metrics of each run.",
    epilog=examples(
        "ecc sweep scenario.toml --vary protocol.alpha=0.1:0.7:7 --out sweep.html",
        "ecc sweep scenario.toml --vary seed=1:10:10 --average seed",
    ),
)
def sweep(
    scenario: ScenarioFile,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=VALUES",
            help="An axis: protocol.alpha=0.1,0.4 or links.0.capacity='10 Mb/s,1 Gb/s' or seed=1:10:10"
            ' (first:last:count) or protocol=\'{name="HPCC"},{name="Swift"}\'; flows.*.packet_size is that of every'
            " flow. Once for each axis.",
        ),
    ] = None,
    zipped: Annotated[
        list[str] | None,
        typer.Option(
            "--zip",
            metavar="PATH=VALUES",
            help="Values that vary together with those of the other --zip options: a run has the k-th value of each."
            " Together they are one axis. For example a buffer for each capacity. A single value holds for all runs.",
        ),
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Simulation engine.")] = Engine.packet,
    sample: Sample = None,
    time: TimeOfFluid = None,
    clocking: ClockingOfFluid = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:ARGUMENTS]",
            help=f"Metric of each run; may be given again. Default: {', '.join(DEFAULT_METRICS)}. `list` prints all."
            " It may have its own flows, flow or link, as fairness:1-10, and other arguments, as"
            " p99_slowdown:sizes=0:100kB.",
            callback=_list_metrics,
            is_eager=True,
        ),
    ] = None,
    link: Annotated[
        int | None,
        typer.Option(metavar="K", help="Index of the link for metrics of a link. Default: 0; of RTTs: the route."),
    ] = None,
    flow: Annotated[
        int | None, typer.Option(metavar="K", help="Index of the flow for metrics of a flow. Default: 0.")
    ] = None,
    flows: Annotated[
        str | None,
        typer.Option(
            metavar="K,L,...",
            help="Indices of the flows for metrics of several flows, such as fairness and percentiles, as 0,2,5-9."
            " Default: all.",
        ),
    ] = None,
    between: Annotated[
        str | None,
        typer.Option(
            metavar="BEGIN:END",
            help="Time that metrics are computed over, as 10:30 (seconds) or 5ms:20ms. Default: the last half; for"
            " completion times and slowdowns, which it selects by start, all.",
        ),
    ] = None,
    average: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Print means over this axis, as seed, with 95 % confidence intervals. Files of --out have all runs.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the table as .nc or .csv, or as a figure: .html, for one or two axes. A figure shows means over"
            " seeds with 95 % confidence intervals.",
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Title of the table and figure. Default: file and engine.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TEXT",
            help="Label of an axis or metric in the table and figure, as links.0.buffer=buffer or loss='loss rate'."
            " May be given again.",
        ),
    ] = None,
    jobs: Jobs = 0,
    cluster: OnCluster = None,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="SQLite file (of a folder: its results.sqlite) that keeps the metrics of finished runs; a later"
            " call resumes. Series are not kept: another metric or another --between makes the runs again.",
        ),
    ] = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Store whose results are put into --store first; may be given again."),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(metavar="K/N", help="Only the K-th of N parts of the grid: every N-th point, from the K-th on."),
    ] = None,
    snakefile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Run nothing: write a Snakefile that makes the parts, each with a store of its own, and merges them.",
        ),
    ] = None,
    parts: Annotated[int, typer.Option(metavar="N", min=1, help="Parts of a Snakefile, at most one a point.")] = 16,
    json: AsJson = False,
) -> int:
    """Run a scenario over a grid of its settings and print metrics of each run."""
    from ecc.batch.sweeps import SweepInterrupted, unused_seed

    if out is not None and out.suffix not in TABLE_WRITERS:
        raise ValueError(f"out must end in {', '.join(TABLE_WRITERS)}, got {str(out)!r}")
    check_folders(out=out, store=store, snakefile=snakefile)
    axes, together = (_axes_of(option, texts) for option, texts in (("--vary", vary), ("--zip", zipped)))
    chosen = {text: metric_of(text) for text in metric or DEFAULT_METRICS}
    metric_options: dict[str, Any] = {} if link is None else {"link": link}
    metric_options |= {"flow": flow or 0} if flow is not None or "flow" in _taken(chosen) else {}
    metric_options |= {} if flows is None else {"flows": indices_of(flows)}
    metric_options |= {} if between is None else {"between": span_of(between)}
    of_fluid = fluid_options(engine, time, clocking)
    runs = _scenario_runs(scenario, chosen, engine, sample, metric_options, of_fluid)
    grid = _checked_grid(runs, axes, together, part)
    labels = _labels(label, {*grid.axes, *grid.zipped, *chosen})
    _check_averages(grid, average, out)
    _note_unused(chosen, flow=flow, flows=flows, link=link)
    if snakefile is not None:
        # each option that changes results must be here: the parts of the Snakefile get no others
        options = {"--vary": vary, "--metric": metric, "--link": link, "--flows": flows, "--flow": flow}
        options |= {"--engine": None if engine == Engine.packet else engine, "--sample": sample, "--between": between}
        options |= {"--time": time, "--clocking": clocking, "--zip": zipped, "--average": average}
        options |= {"--title": title, "--label": label}
        table = out or snakefile.with_suffix(".csv")
        _write_snakefile(snakefile, scenario, grid, _option_words(options), table, min(parts, grid.n_runs))
        return 0
    if merge:
        _merge_stores(store, merge)
    results, end = _run_grid(grid, engine, jobs, cluster, store)
    is_interrupted = end is not None and end.kind is SweepInterrupted
    if end is not None and is_interrupted:
        hint = "the same command resumes there" if store else "without --store FILE a later call begins anew"
        complain(f"{end.message}; {hint}")
    elif end is not None:
        complain(f"{end.message}; the other results:")
    if unused_seed(results) and not is_interrupted:
        complain(
            "note: runs with different seeds have the same metrics: nothing in this scenario draws random numbers, or"
            " it does not change these metrics"
        )
    results, notes = _without_checks(results, chosen)
    for note in notes:
        complain(f"note: {note}")
    results = _titled(results, title or f"{scenario.name}, {engine} runs", labels, notes)
    written = None if out is None else _write_table(out, grid, results.dataset(), end is not None, is_interrupted)
    rows = _rows_to_print(grid, results, end is not None) if average is None else _means_to_print(results, average)
    if json:
        print_json(rows)
    elif average is None:
        _print_rows(results, rows)
    else:
        _print_means(results, rows, average)
    if written is not None:
        if written.error:
            complain(str(written.error))
            return UNWRITTEN
        print(f"table: {written.path}", file=sys.stderr if json else sys.stdout)
        if written.removed:
            print(f"removed: {written.removed}, which was part of it", file=sys.stderr if json else sys.stdout)
    return 0 if end is None else INTERRUPTED if is_interrupted else FAILED


_Metrics = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Text of --metric -> name of the metric and its own arguments."""

_MAX_DECIMALS = 6  # decimals of a mean; with a shorter interval, both have their own digits

RUNS = "runs"
"""Column of tables of means: the number of runs in a row."""


class _Grid(NamedTuple):
    """The runs of a sweep."""

    runs: ScenarioRuns
    axes: dict[str, list[Any]]
    zipped: dict[str, list[Any]]
    """Lists that vary together."""
    n_runs: int
    part: tuple[int, int] | None
    """K and N of a call that makes every N-th run from the K-th on; None: all runs."""


class _Column(NamedTuple):
    """The unit of a column, in bit/s, bytes or s, and its title."""

    unit: float
    title: str


class _WrittenTable(NamedTuple):
    """The outcome of writing a table."""

    path: Path
    error: WriteError | None
    removed: Path | None
    """The table of an interrupted call before, which this one replaces."""


def _taken(chosen: _Metrics) -> set[str]:
    """Return the arguments that metrics take from the options of all metrics."""
    from ecc.results.metrics import get, parameters_of

    return {option for name, overrides in chosen.values() for option in {*parameters_of(get(name))} - {*overrides}}


def _note_unused(chosen: _Metrics, **options: Any) -> None:
    """Print a note on each option that no metric takes, or that each such metric has as an argument of its own."""
    for option, value in options.items():
        if value is not None and option not in _taken(chosen):
            complain(f"note: --{option} has no effect, as no metric takes it from there ({', '.join(chosen)})")


def _labels(texts: Sequence[str] | None, names: Collection[str]) -> dict[str, str]:
    """Return the labels of axes and metrics by their names."""
    labels = {}
    for text in texts or ():
        name = max((name for name in names if text.startswith(f"{name}=")), key=len, default="")
        if not name:
            raise ValueError(f"label must be NAME=TEXT with one of the names {', '.join(sorted(names))}, got {text!r}")
        labels[name] = text.removeprefix(f"{name}=")
    return labels


def _scenario_runs(
    scenario: Path,
    chosen: _Metrics,
    engine: Engine,
    sample: str | None,
    metric_options: dict[str, Any],
    of_fluid: dict[str, str],
) -> ScenarioRuns:
    """Return the function from settings to metrics, with those that the notes need."""
    from ecc.batch.sweeps import ScenarioRuns
    from ecc.results.metrics import get, parameters_of
    from ecc.scenario import Scenario, tables_of

    tables = tables_of(scenario)
    built = Scenario.from_dict(tables)
    if "fabric" not in tables:  # a generator remains one, so that each seed draws its traffic
        tables = built.to_dict()
    metrics = dict(chosen)
    kinds = [get(name) for name, _ in chosen.values()]
    if any(kind.selects_starts for kind in kinds):
        metrics.setdefault("unfinished", ("unfinished", {}))
    may_be_idle = all(flow.size is not None or flow.stop is not None for flow in built.network.flows)
    if may_be_idle and any("between" in parameters_of(kind) and not kind.selects_starts for kind in kinds):
        metrics.setdefault("active_share", ("active_share", {}))
    names = list(metrics) if not any(overrides for _, overrides in metrics.values()) else metrics
    runs = ScenarioRuns(tables, names, str(engine), quantity_or_none(sample), metric_options, of_fluid or None)
    return runs


def _axes_of(option: str, texts: Sequence[str] | None) -> dict[str, list[Any]]:
    """Return the values by path of all uses of an option."""
    pairs = [axis_of(text, option) for text in texts or ()]
    paths = [path for path, _ in pairs]
    if repeated := [path for path in paths if paths.count(path) > 1]:
        raise ValueError(f"{option} must name each path once, got {repeated[0]} {paths.count(repeated[0])} times")
    return dict(pairs)


def _checked_grid(
    runs: ScenarioRuns, axes: dict[str, list[Any]], zipped: dict[str, list[Any]], part: str | None
) -> _Grid:
    """Return the grid of these axes after a check of its size, its part and the scenario of every point."""
    if not axes and not zipped:
        raise ValueError("--vary must be given for at least one axis, as --vary protocol.alpha=0.1,0.4")
    lengths = {path: len(values) for path, values in zipped.items()}
    if len({*lengths.values()} - {1}) > 1:
        counts = ", ".join(f"{count} of {path}" for path, count in lengths.items())
        raise ValueError(f"--zip must have as many values for each path, or a single one, got {counts}")
    zipped = {path: values * max(lengths.values()) if len(values) == 1 else values for path, values in zipped.items()}
    if both := axes.keys() & zipped.keys():
        raise ValueError(f"--zip must not repeat a path of --vary, got {', '.join(sorted(both))}")
    n_runs = prod(map(len, axes.values())) * max([1, *map(len, zipped.values())])
    if n_runs > MAX_POINTS:
        raise ValueError(f"--vary must ask for at most {MAX_POINTS:,} runs, got {n_runs:,}")
    grid = _Grid(runs, axes, zipped, n_runs, None if part is None else part_of_sweep(part, n_runs))
    of_points = runs.caller()
    for point in product(*axes.values()):
        for values in zip(*zipped.values(), strict=True) if zipped else [()]:
            of_points.at(**dict(zip(axes, point, strict=True)), **dict(zip(zipped, values, strict=True)))
    return grid


def _check_averages(grid: _Grid, average: str | None, out: Path | None) -> None:
    """Refuse an average over a missing axis, and a figure of too many axes, before the runs."""
    dims = [*grid.axes, *list(grid.zipped)[:1]]
    if average is not None and average not in dims:
        raise ValueError(f"average must be one of the axes {', '.join(dims)}, got {average!r}")
    if out is not None and out.suffix == ".html" and len(drawn := drawn_axes(dims)) > 2:
        raise ValueError(f"out must end in .nc or .csv for more than two axes, got {out.name!r} and {', '.join(drawn)}")


def _option_words(options: Mapping[str, Any]) -> list[str]:
    """Return options as words of a command line: once for each value of a list; None is left out."""
    words = []
    for name, values in options.items():
        for value in values or () if isinstance(values, list) else [] if values is None else [values]:
            words += [name, str(value)]
    return words


def _write_snakefile(
    snakefile: Path, scenario: Path, grid: _Grid, options: Sequence[str], table: Path, n_parts: int
) -> None:
    """Write a Snakefile that makes the parts of a grid by this command with these options, and merges them."""
    import tomllib

    from ecc.batch.snakefile import files_of
    from ecc.batch.snakefile import snakefile as text_of

    words = ["ecc", "sweep", str(scenario), *options]
    paths = grid.axes | grid.zipped
    inputs = list(dict.fromkeys([str(scenario), *files_of(tomllib.loads(scenario.read_text("utf-8")), paths)]))
    with replacing(snakefile) as part_of_file:
        part_of_file.write_text(text_of(snakefile, words, inputs, str(table), grid.n_runs, n_parts), encoding="utf-8")
    print(f"Snakefile: {snakefile}, {grid.n_runs} runs in {n_parts} parts; table: {table}")


def _merge_stores(store: Path | None, others: Sequence[Path]) -> None:
    """Put the results of other stores into the store of this call."""
    from ecc._support.store import Store

    if store is None:
        raise ValueError("merge needs --store FILE, which gets the results")
    joined_store = Store(store)
    for other in others:
        joined_store.merge(other)


def _run_grid(
    grid: _Grid, engine: Engine, jobs: int, cluster: str | None, store: Path | None
) -> tuple[SweepTable, EarlyEnd | None]:
    """Return the metrics of the runs, and the error or interruption that ended the sweep early."""
    from ecc.batch.sweeps import swept

    def report_progress(done: int, count: int) -> None:
        show_resumed(done, count, "point", Path(store or ""))

    begin_work()
    with started_workers(jobs, cluster) as workers, progress_bar() as bar:
        task = bar.add_task(f"{engine} runs", total=1.0)

        def show(share: float) -> None:
            if share == 1.0:
                end_work()
            bar.update(task, completed=share)

        outcome = swept(grid.runs, grid.axes, workers, store, show, report_progress, grid.part, grid.zipped)
        end_work()
    return outcome


def _rows_to_print(grid: _Grid, results: SweepTable, is_partial: bool) -> list[dict[str, Any]]:
    """Return one row for each run of this call's part that was made, with a column `error` if one failed."""
    rows = list(results.rows())
    if grid.part is not None:
        rows = rows[grid.part[0] - 1 :: grid.part[1]]
    if is_partial:  # a message reports the number of runs that were not made
        rows = [row for row in rows if row["error"] != "not run"]
        if not any(row["error"] for row in rows):
            rows = [{name: value for name, value in row.items() if name != "error"} for row in rows]
    return rows


def _write_table(out: Path, grid: _Grid, dataset: xr.Dataset, is_partial: bool, is_interrupted: bool) -> _WrittenTable:
    """Write the table, of a sweep that ended early under another name; a complete one replaces a partial one."""
    partial = out.with_suffix(f".partial{out.suffix}")
    path = partial if is_interrupted else partial_path(out) if is_partial else out
    error = error_of_writing(TABLE_WRITERS[path.suffix], dataset, path)
    is_replaced = not is_partial and grid.part is None and error is None and partial.exists()
    if is_replaced:
        partial.unlink()
    return _WrittenTable(path, error, partial if is_replaced else None)


def _without_checks(results: SweepTable, chosen: Container[str]) -> tuple[SweepTable, list[str]]:
    """Return the table without the metrics that only notes need, and the notes.

    The number of unfinished flows remains if there are any.
    """
    import numpy as np

    notes, numbers = [], results.numbers()
    counts = numbers.get("unfinished")
    if counts is not None and "unfinished" not in chosen and (counts > 0).any():
        affected, known = int((counts > 0).sum()), int(np.isfinite(counts).sum())
        notes.append(
            f"flows of finite size did not finish in {affected} of {known} runs (up to {np.nanmax(counts):.0f} of "
            "them); completion times and slowdowns leave them out"
        )
    elif counts is not None and "unfinished" not in chosen:
        results = results.without(["unfinished"])
    shares = numbers.get("active_share")
    if shares is not None and (idle := int((shares == 0.0).sum())):
        notes.append(
            "no flow is active in the time of the metrics, by default the last half, in "
            f"{idle} of {int(np.isfinite(shares).sum())} runs; --between BEGIN:END selects another"
        )
    return results.without([name for name in ["active_share"] if name not in chosen]), notes


def _titled(results: SweepTable, title: str, labels: Mapping[str, str], notes: Sequence[str]) -> SweepTable:
    """Return the table with its title and notes, and with the titles and units of metrics and axes as attributes."""
    from ecc.results.metrics import METRICS

    attributes = {"": {"title": title, **({"notes": "; ".join(notes)} if notes else {})}}
    for name in results.variables:
        metric, _, arguments = name.partition(":")
        if metric in METRICS:
            kind = METRICS[metric].kind
            long_name = METRICS[metric].title + (f" ({arguments})" if arguments else "")
            attributes[name] = {"long_name": long_name, **({"units": kind} if kind else {})}
    for name, text in labels.items():
        if name in results.variables or name in results.coordinates:
            attributes[name] = {**attributes.get(name, {}), "long_name": text}
    return replace(results, attributes=attributes)


def _columns(results: SweepTable, rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, _Column]:
    """Return the title of each column, and its unit in bit/s, bytes or s: the one that suits its values."""
    return {
        name: _Column(*in_unit(results.attributes.get(name, {}), name, [row[name] for row in rows])) for name in names
    }


def _print_rows(results: SweepTable, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows under the settings and the titles of metrics; print nothing without rows."""
    if not rows:
        return
    columns = _columns(results, rows, rows[0])
    cells = [[_cell(row[name], column.unit) for name, column in columns.items()] for row in rows]
    print_items(table_of(results.attributes[""]["title"], [column.title for column in columns.values()], cells))


def _cell(value: Any, unit: float) -> str:
    return value_text(value) if isinstance(value, str) else f"{value / unit:.6g}"


def _means_to_print(results: SweepTable, average: str) -> list[dict[str, Any]]:
    """Return one row for each point without the averaged axis: means, half-widths of intervals, and number of runs."""
    import numpy as np

    means = results.means(average)
    known = [~np.isnan(values) for values in results.numbers().values()]
    counts = np.any(known, axis=0).sum(results.axis(average)) if known else np.zeros([*means.shape.values()], int)
    variables = {RUNS: counts, **means.variables} if means.shape else {**means.variables, RUNS: counts}
    return [row for row in replace(means, variables=variables).rows() if row[RUNS] > 0 or not means.shape]


def _print_means(results: SweepTable, rows: Sequence[Mapping[str, Any]], average: str) -> None:
    """Print means with the half-widths of their 95 % confidence intervals."""
    if not rows:
        return
    n_values = results.shape[average]
    columns = _columns(results, rows, [name for name in rows[0] if not name.endswith("_interval")])
    cells = [[_mean_text(row, name, column.unit) for name, column in columns.items()] for row in rows]
    up_to = "" if all(row[RUNS] == n_values for row in rows) else "up to "
    title = f"{results.attributes['']['title']}: mean over {up_to}{n_values} values of {average}, 95 % interval"
    print_items(table_of(title, [column.title for column in columns.values()], cells))


def _mean_text(row: Mapping[str, Any], name: str, unit: float) -> str:
    """A setting, or the mean of a metric with its interval in a unit."""
    if f"{name}_interval" in row:
        return _with_interval(row[name] / unit, row[f"{name}_interval"] / unit)
    return value_text(row[name])


def _with_interval(mean: float, half_width: float) -> str:
    """A mean and the half-width of its interval, with two digits of the half-width."""
    if not (isfinite(mean) and isfinite(half_width)):
        return f"{mean:.6g}"
    if half_width < 1e-9 * abs(mean) or half_width == 0.0:
        return f"{mean:.6g} ± 0"
    decimals = max(0, 1 - floor(log10(half_width)))
    if decimals > _MAX_DECIMALS:
        return f"{mean:.6g} ± {half_width:.2g}"
    return f"{mean:.{decimals}f} ± {half_width:.{decimals}f}"


def axis_of(text: str, option: str = "--vary") -> tuple[str, list[Any]]:
    """PATH=VALUES as path and values: separated by commas, or first:last:count."""
    path, sign, values = text.partition("=")
    if not sign or not path or not values:
        raise ValueError(f"{option} must be PATH=VALUES, got {text!r}")
    ends = [number_or_text(part) for part in values.split(":")]
    if len(ends) > 1 and isinstance(ends[0], float):
        if len(ends) != 3 or not all(isinstance(end, float) for end in ends):
            raise ValueError(f"{option} must have ranges as first:last:count, three numbers, got {text!r}")
        first, last, count = (float(end) for end in ends)
        if not (isfinite(first) and isfinite(last)):
            raise ValueError(f"{option} must have finite ends in first:last:count, got {text!r}")
        if not (1 <= count <= MAX_POINTS and count.is_integer()):
            raise ValueError(
                f"{option} must have a whole count >= 1, and <= {MAX_POINTS:,}, in first:last:count, got {text!r}"
            )
        if count == 1 and first != last:
            raise ValueError(f"{option} must have a count >= 2 from {first:g} to {last:g}, got {text!r}")
        spaced = [first + (last - first) * k / max(count - 1, 1) for k in range(int(count))]
    else:
        spaced = [number_or_text(part) for part in split_values(values)]  # type: ignore[misc]
    return path, [int(v) if isinstance(v, float) and v.is_integer() else v for v in spaced]


def part_of_sweep(text: str, count: int) -> tuple[int, int]:
    """K/N as two numbers."""
    first, _, of = text.partition("/")
    if not (first.isdecimal() and of.isdecimal() and 1 <= int(first) <= int(of) <= count):
        raise ValueError(f"--part must be K/N, 1 <= K <= N <= {count} (points of the grid), got {text!r}")
    return int(first), int(of)
