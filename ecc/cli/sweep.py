"""`ecc sweep`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import product
from math import isfinite, prod
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
    error_of_writing,
    partial_path,
    print_items,
    print_json,
    progress_bar,
    table_of,
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
    epilog=examples("ecc sweep scenario.toml --vary protocol.alpha=0.1:0.7:7 --metric mean_queue"),
)
def sweep(
    scenario: ScenarioFile,
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="PATH=VALUES",
            help="An axis: protocol.alpha=0.1,0.4 or links.0.capacity='10 Mb/s,1 Gb/s' or seed=1:10:10"
            " (first:last:count); flows.*.packet_size is that of every flow. Once for each axis.",
        ),
    ],
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
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the table as .nc or .csv.")] = None,
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
    axes = dict(axis_of(text) for text in vary)
    metric_options: dict[str, Any] = {"flow": flow} | ({} if link is None else {"link": link})
    metric_options |= {} if flows is None else {"flows": indices_of(flows)}
    metric_options |= {} if between is None else {"between": span_of(between)}
    of_fluid = fluid_options(engine, time, clocking)
    runs = _scenario_runs(scenario, metric or DEFAULT_METRICS, engine, sample, metric_options, of_fluid)
    grid = _checked_grid(runs, axes, part)
    if snakefile is not None:
        # each option that changes results must be here: the parts of the Snakefile get no others
        options = {"--vary": vary, "--metric": metric, "--link": link, "--flows": flows, "--flow": flow or None}
        options |= {"--engine": None if engine == Engine.packet else engine, "--sample": sample, "--between": between}
        options |= {"--time": time, "--clocking": clocking}
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
    written = None if out is None else _write_table(out, grid, dataset, end)
    rows = _rows_to_print(grid, dataset, end)
    if json:
        print_json(rows.to_dict("records"))
    else:
        _print_rows(f"{scenario.name}, {engine} runs", grid, dataset, rows)
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
    from ecc.scenario import Scenario

    tables = Scenario.from_toml(scenario).to_dict()
    runs = ScenarioRuns(tables, metrics, str(engine), quantity_or_none(sample), metric_options, of_fluid or None)
    for name in runs.metrics:
        if lacks := lacking(get(name), OF_SWEEPS):
            raise ValueError(
                f"metric must be one without arguments of its own, got {name!r}, which takes {', '.join(lacks)} "
                f"(in Python: ecc.metrics.{name}, in a function for ecc.sweep)"
            )
    return runs


def _checked_grid(runs: ScenarioRuns, axes: dict[str, list[Any]], part: str | None) -> _Grid:
    """Return the grid of these axes after a check of its size, its part and the scenario of every point."""
    n_runs = prod(map(len, axes.values()))
    if n_runs > MAX_POINTS:
        raise ValueError(f"--vary must ask for at most {MAX_POINTS:,} runs, got {n_runs:,}")
    grid = _Grid(runs, axes, n_runs, None if part is None else part_of_sweep(part, n_runs))
    for point in product(*axes.values()):
        runs.at(**dict(zip(axes, point, strict=True)))
    return grid


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
    inputs = list(dict.fromkeys([str(scenario), *files_of(tomllib.loads(scenario.read_text("utf-8")), grid.axes)]))
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
            dataset = over(grid.runs, grid.axes, workers, store, show, report_progress, grid.part)
        except (SweepError, SweepInterrupted) as error:
            end, dataset = error, error.dataset
        end_work()
    return dataset, end


def _rows_to_print(grid: _Grid, dataset: xr.Dataset, end: BaseException | None) -> pd.DataFrame:
    """Return one row for each run of this call's part that was made, with a column `error` if one failed."""
    rows = dataset.to_dataframe().reset_index()[[*grid.axes, *dataset]]
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


def _print_rows(title: str, grid: _Grid, dataset: xr.Dataset, rows: pd.DataFrame) -> None:
    """Print rows under the settings and the titles of metrics; print nothing without rows."""
    from ecc.results.metrics import get

    metrics = {name: get(name) for name in grid.runs.metrics}
    titles = [f"{m.title} [{m.kind}]" if m.kind else m.title for name, m in metrics.items() if name in dataset]
    cells = [[v if isinstance(v, str) else f"{v:.6g}" for v in row] for row in rows.itertuples(index=False)]
    columns = (*grid.axes, *titles, *(["error"] if "error" in rows else []))
    if cells:
        print_items(table_of(title, columns, cells))


def axis_of(text: str) -> tuple[str, list[Any]]:
    """PATH=VALUES as path and values: separated by commas, or first:last:count."""
    path, sign, values = text.partition("=")
    if not sign or not path or not values:
        raise ValueError(f"--vary must be PATH=VALUES, got {text!r}")
    ends = [number_or_text(part) for part in values.split(":")]
    if len(ends) > 1 and isinstance(ends[0], float):
        if len(ends) != 3 or not all(isinstance(end, float) for end in ends):
            raise ValueError(f"--vary must have ranges as first:last:count, three numbers, got {text!r}")
        first, last, count = (float(end) for end in ends)
        if not (isfinite(first) and isfinite(last)):
            raise ValueError(f"--vary must have finite ends in first:last:count, got {text!r}")
        if not (2 <= count <= MAX_POINTS and count.is_integer()):
            raise ValueError(
                f"--vary must have a whole count >= 2, and <= {MAX_POINTS:,}, in first:last:count, got {text!r}"
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
