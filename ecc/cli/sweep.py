"""`ecc sweep`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from ecc._support.files import replacing
from ecc.cli.app import FAILED, INTERRUPTED, UNWRITTEN, app
from ecc.cli.arguments import MAX_POINTS, indices_of, number_or_text, quantity_or_none, span_of
from ecc.cli.options import AsJson, Engine, Jobs, OnCluster
from ecc.cli.output import (
    TABLE_WRITERS,
    complain,
    error_of_writing,
    partial_path,
    print_items,
    print_json,
    progress_bar,
    table_of,
)
from ecc.cli.work import begin_work, end_work, show_resumed, started_workers

__all__ = ["DEFAULT_METRICS", "axis_of", "part_of_sweep", "sweep"]


DEFAULT_METRICS = ("utilization", "fairness", "mean_queue", "peak_queue", "loss")


@app.command()
def sweep(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.toml", help="Network, protocol, workload, duration.")],
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="PATH=VALUES",
            help="An axis: protocol.alpha=0.1,0.4 or links.0.capacity='10 Mb/s,1 Gb/s' or seed=1:10:10"
            " (first:last:count); flows.*.packet_size is that of every flow. Once for each axis.",
        ),
    ],
    engine: Annotated[Engine, typer.Option(help="Simulation engine.")] = Engine.packet,
    sample: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Sampling period. Default: 0.1 s, at most a tenth of the duration."),
    ] = None,
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
    from itertools import product
    from math import prod

    from ecc._support.store import Store
    from ecc.batch.sweeps import ScenarioRuns, SweepError, SweepInterrupted, unused_seed
    from ecc.batch.sweeps import sweep as over
    from ecc.results.metrics import OF_SWEEPS, get, lacking
    from ecc.scenario import Scenario

    if out is not None and out.suffix not in TABLE_WRITERS:
        raise ValueError(f"out must end in {', '.join(TABLE_WRITERS)}, got {str(out)!r}")
    for name, path in (("out", out), ("store", store), ("snakefile", snakefile)):
        if path is not None and not path.parent.is_dir():  # refused now rather than after the work
            raise ValueError(f"{name} must be in a directory that exists, got {str(path)!r}")
    axes = dict(axis_of(text) for text in vary)
    metric_options: dict[str, Any] = {"flow": flow} | ({} if link is None else {"link": link})
    metric_options |= {} if flows is None else {"flows": indices_of(flows)}
    metric_options |= {} if between is None else {"between": span_of(between)}
    runs = ScenarioRuns(
        Scenario.from_toml(scenario).to_dict(),
        metric or DEFAULT_METRICS,
        str(engine),
        quantity_or_none(sample),
        metric_options,
    )
    for name in runs.metrics:
        if lacks := lacking(get(name), OF_SWEEPS):
            raise ValueError(
                f"metric must be one without arguments of its own, got {name!r}, which takes {', '.join(lacks)} "
                f"(in Python: ecc.metrics.{name}, in a function for ecc.sweep)"
            )
    count = prod(map(len, axes.values()))
    if count > MAX_POINTS:
        raise ValueError(f"--vary must ask for at most {MAX_POINTS:,} runs, got {count:,}")
    chosen = None if part is None else part_of_sweep(part, count)
    for point in product(*axes.values()):
        runs.at(**dict(zip(axes, point, strict=True)))
    if snakefile is not None:
        import tomllib

        from ecc.batch.snakefile import files_of
        from ecc.batch.snakefile import snakefile as text_of

        given_words: dict[str, Iterable[Any]] = {
            "--vary": vary,
            "--metric": metric or (),
            "--link": () if link is None else [link],
            "--flows": () if flows is None else [flows],
        }
        given_words |= {"--flow": [flow] if flow else (), "--engine": [engine] if engine != Engine.packet else ()}
        given_words |= {
            name: [value] for name, value in (("--sample", sample), ("--between", between)) if value is not None
        }
        options = [(name, value) for name, values in given_words.items() for value in values]
        words = ["ecc", "sweep", str(scenario), *(str(word) for option in options for word in option)]
        table = out or snakefile.with_suffix(".csv")
        inputs = list(dict.fromkeys([str(scenario), *files_of(tomllib.loads(scenario.read_text("utf-8")), axes)]))
        with replacing(snakefile) as part_of_file:
            part_of_file.write_text(
                text_of(snakefile, words, inputs, str(table), count, min(parts, count)), encoding="utf-8"
            )
        print(f"Snakefile: {snakefile}, {count} runs in {min(parts, count)} parts; table: {table}")
        return 0
    if merge:
        if store is None:
            raise ValueError("merge needs --store FILE, which gets the results")
        joined_store = Store(store)
        for other in merge:
            joined_store.merge(other)
    ended: SweepError | SweepInterrupted | None = None

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
            dataset = over(runs, axes, workers, store, show, report_progress, chosen)
        except (SweepError, SweepInterrupted) as error:
            ended, dataset = error, error.dataset
        end_work()
    if ended is not None:
        if isinstance(ended, SweepInterrupted):
            hint = "the same command resumes there" if store else "without --store FILE a later call begins anew"
            complain(f"{ended}; {hint}")
        else:
            complain(f"{ended}; the other results:")
    if unused_seed(dataset) and not isinstance(ended, SweepInterrupted):
        complain(
            "note: runs with different seeds have the same metrics: nothing in this scenario draws random numbers, or"
            " it does not change these metrics"
        )
    rows = dataset.to_dataframe().reset_index()[[*axes, *dataset]]
    if chosen is not None:
        rows = rows.iloc[chosen[0] - 1 :: chosen[1]]
    if ended is not None:  # its line has how many were not run
        rows = rows[rows["error"] != "not run"]
        rows = rows if rows["error"].any() else rows.drop(columns="error")
    partial = None if out is None else out.with_suffix(f".partial{out.suffix}")
    if out is not None and ended is not None:
        out = partial if isinstance(ended, SweepInterrupted) else partial_path(out)
    unwritten = None if out is None else error_of_writing(TABLE_WRITERS[out.suffix], dataset, out)
    replaced = partial is not None and ended is None and chosen is None and unwritten is None and partial.exists()
    if replaced and partial is not None:  # what an interrupted call has left
        partial.unlink()
    if json:
        print_json(rows.to_dict("records"))
    else:
        metrics = {name: get(name) for name in runs.metrics}
        titles = [f"{m.title} [{m.kind}]" if m.kind else m.title for name, m in metrics.items() if name in dataset]
        cells = [[v if isinstance(v, str) else f"{v:.6g}" for v in row] for row in rows.itertuples(index=False)]
        columns = (*axes, *titles, *(["error"] if "error" in rows else []))
        if cells:
            print_items(table_of(f"{scenario.name}, {engine} runs", columns, cells))
    if unwritten:
        complain(str(unwritten))
        return UNWRITTEN
    if out is not None:
        print(f"table: {out}", file=sys.stderr if json else sys.stdout)
        if replaced:
            print(f"removed: {partial}, which was part of it", file=sys.stderr if json else sys.stdout)
    return 0 if ended is None else INTERRUPTED if isinstance(ended, SweepInterrupted) else FAILED


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
