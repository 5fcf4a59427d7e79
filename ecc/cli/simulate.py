"""`ecc simulate`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecc._support.files import WriteError
from ecc.cli.app import FAILED, INTERRUPTED, UNWRITTEN, app, examples
from ecc.cli.options import AsJson, ClockingOfFluid, Sample, ScenarioFile, Simulator, TimeOfFluid, fluid_options
from ecc.cli.output import (
    RUN_WRITERS,
    check_folders,
    complain,
    error_of_writing,
    partial_path,
    print_items,
    print_json,
    progress_bar,
    summary_of,
    summary_tables,
)
from ecc.cli.parsing import number_or_text, quantity_or_none
from ecc.cli.work import begin_work, end_work

if TYPE_CHECKING:
    from ecc.packet import Run
    from ecc.results.trajectory import Trajectory
    from ecc.scenario import Scenario

__all__ = ["simulate"]


_SAVE_EVERY = "5 min"
"""Real time between two checkpoints of a run."""


@app.command(
    short_help="Run a scenario; print rates, queues and drops.",
    epilog=examples("ecc simulate scenario.toml --out run.html", "ecc simulate scenario.toml --engine fluid"),
)
def simulate(
    scenario: ScenarioFile,
    engine: Annotated[Simulator, typer.Option(help="Simulation engine; live: on real frames.")] = Simulator.packet,
    sample: Sample = None,
    time: TimeOfFluid = None,
    clocking: ClockingOfFluid = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the run to a .nc, .csv or .html (figure) file.")
    ] = None,
    record: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD",
            help="State to record: flow.FIELD (or what a controller in C calls a variable), link.FIELD or env.FIELD;"
            " may be given again.",
        ),
    ] = None,
    python: Annotated[
        bool,
        typer.Option("--python", help="Packet engine in plain Python: print and breakpoint work in hooks; slow."),
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Maximum number of parts that packet runs cut the network into; each has a thread. Default: 1.",
        ),
    ] = None,
    slow: Annotated[
        float, typer.Option(metavar="K", help="Live runs: seconds of real time for one of the scenario.")
    ] = 1.0,
    capture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File that gets the packets that leave a link: .pcapng or, in packet runs, .parquet. Live runs: the"
            " frames on all links.",
        ),
    ] = None,
    link: Annotated[
        int | None,
        typer.Option(metavar="K", min=0, help="With --capture of a packet run: index of the link, default 0."),
    ] = None,
    qlog: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=".sqlog file that gets the log of a flow; the run is slow, as with --python.",
        ),
    ] = None,
    flow: Annotated[
        str | None,
        typer.Option(
            metavar="K",
            help="With --qlog: index of the flow, default 0; or all, each with a file of its own, as log.0.sqlog.",
        ),
    ] = None,
    flows_to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Parquet file to which transfers are written as they end.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File that the run is saved to now and then, and on Ctrl-C. If it exists, the run resumes from it,"
            " with the same options. The end of the run removes it.",
        ),
    ] = None,
    checkpoint_every: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --checkpoint: real time between two saves. Default: 5 min."),
    ] = None,
    json: AsJson = False,
) -> int:
    """Run a scenario and print mean rates, queues and drops."""
    import warnings
    from importlib import import_module

    from ecc._support.quantity import as_time
    from ecc.native.stuck import ending_stuck_hooks
    from ecc.scenario import Scenario

    if out is not None and out.suffix not in RUN_WRITERS:
        raise ValueError(f"out must end in {', '.join(RUN_WRITERS)}, got {str(out)!r}")
    if engine != Simulator.packet and (flows_to or checkpoint):
        raise ValueError(f"flows-to and checkpoint need --engine packet, got {engine}")
    if (python or qlog) and (engine != Simulator.packet or checkpoint):
        raise ValueError(f"{'python' if python else 'qlog'} needs --engine packet, and no checkpoint")
    if flow is not None and qlog is None:
        raise ValueError("flow needs --qlog FILE, which gets its log")
    if engine != Simulator.packet and threads is not None:
        raise ValueError(f"threads needs --engine packet, got {engine}")
    if checkpoint_every is not None and checkpoint is None:
        raise ValueError("checkpoint-every needs --checkpoint FILE, to which the run is saved")
    every = as_time(number_or_text(checkpoint_every or _SAVE_EVERY), "checkpoint-every", positive=True)
    if engine != Simulator.live and slow != 1.0:
        raise ValueError(f"slow needs --engine live, got {engine}")
    if capture is not None and (engine == Simulator.fluid or python or qlog or checkpoint):
        raise ValueError("capture needs --engine packet or live, without --python, --qlog and --checkpoint")
    if link is not None and (capture is None or engine != Simulator.packet):
        raise ValueError("link needs --engine packet and --capture FILE, which gets its packets")
    of_fluid = fluid_options(engine, time, clocking)
    check_folders(out=out, flows_to=flows_to, checkpoint=checkpoint, capture=capture, qlog=qlog)
    case = Scenario.from_toml(scenario)
    logs = {} if qlog is None else _logs(qlog, flow or "0", case.network.n_flows)
    shown = not python  # a bar would hide a debugger
    with progress_bar(shown) as bar, warnings.catch_warnings(), ending_stuck_hooks(INTERRUPTED):
        warnings.simplefilter("ignore")  # `stopped` reports the same
        task = bar.add_task(f"{engine} run", total=1.0)
        options: dict[str, Any] = {"sample": quantity_or_none(sample), "record": tuple(record or ())}
        options |= of_fluid
        options |= {"flows_to": flows_to} if flows_to else {}
        options |= {"engine": "python"} if python or qlog else {}  # the C engine writes no logs
        options |= {"qlog": logs} if logs else {}
        options |= {"threads": threads} if threads is not None else {}
        options |= {"capture": {link or 0: capture}} if capture and engine == Simulator.packet else {}
        options |= {"slow": slow, "capture": capture} if engine == Simulator.live else {}

        def show(share: float) -> None:
            bar.update(task, completed=share)

        unwritten = None
        if engine == Simulator.packet:
            run, unwritten = _packets(case, checkpoint, every, show, options)
        else:
            simulate = import_module(f"ecc.{engine}").simulate
            begin_work()
            run = simulate(case, progress=show, **options)
            end_work()
    summary = summary_of(run, case)
    if not run.is_complete:
        complain(f"the run ended at {summary['simulated']:g} of {case.duration:g} s: {run.stopped}")
    if out is not None:
        out = out if run.is_complete else partial_path(out)
        unwritten = error_of_writing(RUN_WRITERS[out.suffix], run, out) or unwritten
    if json:
        print_json(summary)
    else:
        files = {"run": [out] if out and unwritten is None else [], "capture": [capture] if capture else []}
        _print_summary(run, summary, files | {"qlog": [*logs.values()]})
    if unwritten:
        complain(str(unwritten))
        return UNWRITTEN
    if checkpoint is not None and run.is_complete and checkpoint.exists():
        checkpoint.unlink()
        print(f"removed: {checkpoint}, as the run is complete", file=sys.stderr)
    return 0 if run.is_complete else INTERRUPTED if run.stopped == "interrupted" else FAILED


def _print_summary(run: Trajectory, summary: dict[str, Any], files: dict[str, list[Path]]) -> None:
    """Print the tables and notes of a run, and the files that were written."""
    if len(run.values("time")):
        print_items(*summary_tables(summary))
    for note in run.notes:
        print(f"note: {note}")
    for name, paths in files.items():
        if paths:
            print(f"{name}: {', '.join(map(str, paths))}")


def _logs(path: Path, flow: str, n_flows: int) -> dict[int, Path]:
    """Index of each flow that has a log, with its file."""
    if flow == "all":
        return {k: path.with_suffix(f".{k}{path.suffix}") for k in range(n_flows)}
    if not (flow.isdecimal() and int(flow) < n_flows):
        raise ValueError(f"flow must be from 0 to {n_flows - 1}, or all, got {flow!r}")
    return {int(flow): path}


def _packets(
    case: Scenario,
    checkpoint: Path | None,
    every: float,
    progress: Callable[[float], None],
    options: dict[str, Any],
) -> tuple[Trajectory, WriteError | None]:
    """Run to the end, from a checkpoint if there is one; checkpoints are written now and then, and on Ctrl-C.

    `every`: seconds of real time between two of them. The error of the last one, if there was one, is returned.
    """
    from time import monotonic

    from ecc.packet import Run

    run = (
        _resumed(checkpoint, case, options) if checkpoint is not None and checkpoint.exists() else Run(case, **options)
    )
    due, unwritten = monotonic() + every, None

    def save() -> None:
        nonlocal unwritten, due
        before, unwritten = unwritten, None
        try:
            run.save(checkpoint or "")
        except OSError as error:
            unwritten = WriteError(f"{checkpoint} cannot be written: {error.strerror or error}")
            if before is None and run.stopped == "paused":
                complain(f"{unwritten}; the run continues")
        due = monotonic() + every

    def show(share: float) -> None:
        progress(share)
        if checkpoint is not None and monotonic() >= due:
            save()

    begin_work()
    run.advance(progress=show)
    end_work()
    if checkpoint is not None and run.stopped == "interrupted":
        save()
    elif run.stopped == "completed":
        unwritten = None  # what failed is not needed any more
    run.close()
    return run.trajectory(), unwritten


def _resumed(checkpoint: Path, case: Scenario, options: dict[str, Any]) -> Run:
    """The run of a checkpoint; options that are not those of the run are refused."""
    from ecc.packet import resume

    run = resume(checkpoint, case, flows_to=options.get("flows_to"))
    wanted = {
        "sample": None if options["sample"] is None else case.sample_period(options["sample"]),
        "record": list(options["record"]) or None,
        "threads": options.get("threads"),
    }
    for name, value in wanted.items():
        if value is not None and value != run.options[name]:
            raise ValueError(
                f"{name} must be {run.options[name]}, as in the checkpoint, or left out, got {value} "
                f"({str(checkpoint)!r}; without that file the run begins anew)"
            )
    if run.flows_to is not None and "flows_to" not in options:
        raise ValueError(f"flows-to must be given, as the run of the checkpoint writes rows ({str(checkpoint)!r})")
    return run
