"""`ecc sweep`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
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
    partial_path,
    print_items,
    print_json,
    progress_bar,
    table_of,
    titled,
)
from ecc.cli.parsing import MAX_POINTS, indices_of, number_or_text, quantity_or_none, span_of
from ecc.cli.work import begin_work, end_work, show_resumed, started_workers

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from ecc.batch.sweeps import ScenarioRuns, SweepError, SweepInterrupted

__all__ = ["DEFAULT_METRICS", "axis_of", "part_of_sweep", "sweep"]


DEFAULT_METRICS = ("utilization", "fairness", "mean_queue", "peak_queue", "loss")


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
            " (first:last:count); flows.*.packet_size is that of every flow. Once for each axis.",
        ),
    ] = None,
    zipped: Annotated[
        list[str] | None,
        typer.Option(
            "--zip",
            metavar="PATH=VALUES",
            help="Values that vary together with those of the other --zip options: a run has the k-th value of each."
            " Together they are one axis. For example a buffer for each capacity.",
        ),
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Simulation engine.")] = Engine.packet,
    sample: Sample = None,
    time: TimeOfFluid = None,
    clocking: ClockingOfFluid = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"Metric of each run; may be given again. Default: {', '.join(DEFAULT_METRICS)}. An unknown name "
            "lists all.",
        ),
    ] = None,
    link: Annotated[
        int | None,
        typer.Option(metavar="K", help="Index of the link for metrics of a link. Default: 0; of RTTs: the route."),
    ] = None,
    flow: Annotated[int, typer.Option(metavar="K", help="Index of the flow for metrics of a flow.")] = 0,
    flows: Annotated[
        str | None,
        typer.Option(
            metavar="K,L,...",
            help="Indices of the flows for fairness and percentiles, as 0,2,5-9. Default: all.",
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
    metric_options: dict[str, Any] = {"flow": flow} | ({} if link is None else {"link": link})
    metric_options |= {} if flows is None else {"flows": indices_of(flows)}
    metric_options |= {} if between is None else {"between": span_of(between)}
    of_fluid = fluid_options(engine, time, clocking)
    runs = _scenario_runs(scenario, metric or DEFAULT_METRICS, engine, sample, metric_options, of_fluid)
    grid = _checked_grid(runs, axes, together, part)
    _check_averages(grid, average, out)
    if snakefile is not None:
        # each option that changes results must be here: the parts of the Snakefile get no others
        options = {"--vary": vary, "--metric": metric, "--link": link, "--flows": flows, "--flow": flow or None}
        options |= {"--engine": None if engine == Engine.packet else engine, "--sample": sample, "--between": between}
        options |= {"--time": time, "--clocking": clocking, "--zip": zipped, "--average": average}
        table = out or snakefile.with_suffix(".csv")
        _write_snakefile(snakefile, scenario, grid, _option_words(options), table, min(parts, grid.n_runs))
        return 0
    if merge:
        _merge_stores(store, merge)
    dataset, end = _run_grid(grid, engine, jobs, cluster, store)
    is_interrupted = isinstance(end, SweepInterrupted)
    if is_interrupted:
        hint = "the same command resumes there" if store else "without --store FILE a later call begins anew"
        complain(f"{end}; {hint}")
    elif end is not None:
        complain(f"{end}; the other results:")
    if unused_seed(dataset) and not is_interrupted:
        complain(
            "note: runs with different seeds have the same metrics: nothing in this scenario draws random numbers, or"
            " it does not change these metrics"
        )
    dataset = _titled_dataset(grid, dataset, f"{scenario.name}, {engine} runs")
    written = None if out is None else _write_table(out, grid, dataset, end)
    rows = _rows_to_print(grid, dataset, end) if average is None else _means_to_print(dataset, average)
    if json:
        print_json(rows.to_dict("records"))
    elif average is None:
        _print_rows(dataset, rows)
    else:
        _print_means(dataset, rows, average)
    if written is not None:
        if written.error:
            complain(str(written.error))
            return UNWRITTEN
        print(f"table: {written.path}", file=sys.stderr if json else sys.stdout)
        if written.removed:
            print(f"removed: {written.removed}, which was part of it", file=sys.stderr if json else sys.stdout)
    return 0 if end is None else INTERRUPTED if is_interrupted else FAILED


class _Grid(NamedTuple):
    """The runs of a sweep."""

    runs: ScenarioRuns
    axes: dict[str, list[Any]]
    zipped: dict[str, list[Any]]
    """Lists that vary together."""
    n_runs: int
    part: tuple[int, int] | None
    """K and N of a call that makes every N-th run from the K-th on; None: all runs."""


class _WrittenTable(NamedTuple):
    """The outcome of writing a table."""

    path: Path
    error: WriteError | None
    removed: Path | None
    """The table of an interrupted call before, which this one replaces."""


def _scenario_runs(
    scenario: Path,
    metrics: Sequence[str],
    engine: Engine,
    sample: str | None,
    metric_options: dict[str, Any],
    of_fluid: dict[str, str],
) -> ScenarioRuns:
    """Return the function from settings to metrics; refuse metrics that need arguments."""
    from ecc.batch.sweeps import ScenarioRuns
    from ecc.results.metrics import OF_SWEEPS, get, lacking
    from ecc.scenario import Scenario, tables_of

    tables = tables_of(scenario)
    built = Scenario.from_dict(tables)
    if "fabric" not in tables:  # a generator remains one, so that each seed draws its traffic
        tables = built.to_dict()
    runs = ScenarioRuns(tables, metrics, str(engine), quantity_or_none(sample), metric_options, of_fluid or None)
    for name in runs.metrics:
        if lacks := lacking(get(name), OF_SWEEPS):
            raise ValueError(
                f"metric must be one without arguments of its own, got {name!r}, which takes {', '.join(lacks)} "
                f"(in Python: ecc.metrics.{name}, in a function for ecc.sweep)"
            )
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
    if len(lengths := {path: len(values) for path, values in zipped.items()}) and len(set(lengths.values())) > 1:
        counts = ", ".join(f"{count} of {path}" for path, count in lengths.items())
        raise ValueError(f"--zip must have as many values for each path, got {counts}")
    if both := axes.keys() & zipped.keys():
        raise ValueError(f"--zip must not repeat a path of --vary, got {', '.join(sorted(both))}")
    n_runs = prod(map(len, axes.values())) * max([1, *map(len, zipped.values())])
    if n_runs > MAX_POINTS:
        raise ValueError(f"--vary must ask for at most {MAX_POINTS:,} runs, got {n_runs:,}")
    grid = _Grid(runs, axes, zipped, n_runs, None if part is None else part_of_sweep(part, n_runs))
    for point in product(*axes.values()):
        for values in zip(*zipped.values(), strict=True) if zipped else [()]:
            runs.at(**dict(zip(axes, point, strict=True)), **dict(zip(zipped, values, strict=True)))
    return grid


def _check_averages(grid: _Grid, average: str | None, out: Path | None) -> None:
    """Refuse an average over a missing axis, and a figure of too many axes, before the runs."""
    dims = [*grid.axes, *list(grid.zipped)[:1]]
    if average is not None and average not in dims:
        raise ValueError(f"average must be one of the axes {', '.join(dims)}, got {average!r}")
    if average is not None and len(dims) < 2:
        raise ValueError(f"average must leave an axis, got --average {average} and no other axis")
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
) -> tuple[xr.Dataset, SweepError | SweepInterrupted | None]:
    """Return the metrics of the runs, and the error or interruption that ended the sweep early."""
    from ecc.batch.sweeps import SweepError, SweepInterrupted
    from ecc.batch.sweeps import sweep as over

    end: SweepError | SweepInterrupted | None = None

    def report_progress(done: int, count: int) -> None:
        show_resumed(done, count, "point", Path(store or ""))

    begin_work()
    with started_workers(jobs, cluster) as workers, progress_bar() as bar:
        task = bar.add_task(f"{engine} runs", total=1.0)

        def show(share: float) -> None:
            if share == 1.0:
                end_work()
            bar.update(task, completed=share)

        try:
            dataset = over(grid.runs, grid.axes, workers, store, show, report_progress, grid.part, grid.zipped)
        except (SweepError, SweepInterrupted) as error:
            end, dataset = error, error.dataset
        end_work()
    return dataset, end


def _rows_to_print(grid: _Grid, dataset: xr.Dataset, end: BaseException | None) -> pd.DataFrame:
    """Return one row for each run of this call's part that was made, with a column `error` if one failed."""
    rows = dataset.to_dataframe().reset_index()[[*grid.axes, *grid.zipped, *dataset]]
    if grid.part is not None:
        rows = rows.iloc[grid.part[0] - 1 :: grid.part[1]]
    if end is not None:  # its message reports the number of runs that were not made
        rows = rows[rows["error"] != "not run"]
        rows = rows if rows["error"].any() else rows.drop(columns="error")
    return rows


def _write_table(out: Path, grid: _Grid, dataset: xr.Dataset, end: BaseException | None) -> _WrittenTable:
    """Write the table, of a sweep that ended early under another name; a complete one replaces a partial one."""
    from ecc.batch.sweeps import SweepInterrupted

    partial = out.with_suffix(f".partial{out.suffix}")
    path = out if end is None else partial if isinstance(end, SweepInterrupted) else partial_path(out)
    error = error_of_writing(TABLE_WRITERS[path.suffix], dataset, path)
    is_replaced = end is None and grid.part is None and error is None and partial.exists()
    if is_replaced:
        partial.unlink()
    return _WrittenTable(path, error, partial if is_replaced else None)


def _titled_dataset(grid: _Grid, dataset: xr.Dataset, title: str) -> xr.Dataset:
    """Return the dataset with its title, and with the titles and units of its metrics as attributes."""
    from ecc.results.metrics import get

    named = dataset.assign_attrs(title=title)
    for name in grid.runs.metrics:
        if name in named:
            kind = get(name).kind
            named[name] = named[name].assign_attrs(long_name=get(name).title, **({"units": kind} if kind else {}))
    return named


def _print_rows(dataset: xr.Dataset, rows: pd.DataFrame) -> None:
    """Print rows under the settings and the titles of metrics; print nothing without rows."""
    titles = [titled(dataset[name].attrs) if "long_name" in dataset[name].attrs else name for name in rows]
    cells = [[v if isinstance(v, str) else f"{v:.6g}" for v in row] for row in rows.itertuples(index=False)]
    if cells:
        print_items(table_of(dataset.attrs["title"], titles, cells))


def _means_to_print(dataset: xr.Dataset, average: str) -> pd.DataFrame:
    """Return one row for each point without the averaged axis: means, and half-widths of their intervals."""
    from ecc.batch.sweeps import sweep_means

    means = sweep_means(dataset, average)
    rows = means.to_dataframe().reset_index()[[*means.coords, *means]]
    return rows[rows[list(means.data_vars)].notna().any(axis=1)]


def _print_means(dataset: xr.Dataset, rows: pd.DataFrame, average: str) -> None:
    """Print means with the half-widths of their 95 % confidence intervals."""
    metrics = [name for name in dataset.data_vars if f"{name}_interval" in rows]
    settings = [name for name in rows if name not in dataset.data_vars and not str(name).endswith("_interval")]
    titles = [*settings, *(titled(dataset[name].attrs) for name in metrics)]
    cells = []
    for _, row in rows.iterrows():
        pairs = [_with_interval(row[name], row[f"{name}_interval"]) for name in metrics]
        cells.append([v if isinstance(v := row[name], str) else f"{v:.6g}" for name in settings] + pairs)
    if cells:
        title = f"{dataset.attrs['title']}: mean over {dataset.sizes[average]} values of {average}, 95 % interval"
        print_items(table_of(title, titles, cells))


def _with_interval(mean: float, half_width: float) -> str:
    """A mean and the half-width of its interval, with two digits of the half-width."""
    if not (isfinite(mean) and isfinite(half_width)):
        return f"{mean:.6g}"
    if half_width < 1e-9 * abs(mean) or half_width == 0.0:
        return f"{mean:.6g} ± 0"
    decimals = max(0, 1 - floor(log10(half_width)))
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
        if not (2 <= count <= MAX_POINTS and count.is_integer()):
            raise ValueError(
                f"{option} must have a whole count >= 2, and <= {MAX_POINTS:,}, in first:last:count, got {text!r}"
            )
        spaced = [first + (last - first) * k / (count - 1) for k in range(int(count))]
    else:
        spaced = [number_or_text(part.strip()) for part in values.split(",")]  # type: ignore[misc]
    return path, [int(v) if isinstance(v, float) and v.is_integer() else v for v in spaced]


def part_of_sweep(text: str, count: int) -> tuple[int, int]:
    """K/N as two numbers."""
    first, _, of = text.partition("/")
    if not (first.isdecimal() and of.isdecimal() and 1 <= int(first) <= int(of) <= count):
        raise ValueError(f"--part must be K/N, 1 <= K <= N <= {count} (points of the grid), got {text!r}")
    return int(first), int(of)
