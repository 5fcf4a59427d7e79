"""The command line: `ecc crosscheck`, `reproduce`, `check`, `conform`, `simulate`, `sweep`, `stability`, `claims`.

Exit codes: 0 the work was done (a refuted claim is a result), 1 a check or a run ended in an error, 2 bad input, 3 a
file could not be written, 4 a protocol does not conform or violates a property, 130 Ctrl-C or SIGTERM. Results go to
standard output, progress and errors to standard error.
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ecc import __version__
from ecc._support.files import WriteError, making, replacing
from ecc.errors import EccError, LinearizationError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ecc._support.store import Store
    from ecc.claims.crosscheck import Outcome
    from ecc.claims.ledger import Claim, Finding
    from ecc.claims.report.output import Report
    from ecc.conform import Divergence
    from ecc.models import Protocol
    from ecc.network.network import Network
    from ecc.packet import Run
    from ecc.results.trajectory import Trajectory
    from ecc.scenario import Scenario

__all__ = ["main"]

FAILED, BAD_INPUT, UNWRITTEN, REFUTED, INTERRUPTED = 1, 2, 3, 4, 130
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


class _Commands(TyperGroup):
    """Ctrl-C is `typer.Abort` to `main`: Typer makes an exit code of it, without a message."""

    def invoke(self, context: Any) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            raise typer.Abort() from None


app = typer.Typer(
    cls=_Commands,
    help="Congestion control, analyzed exactly, run as fluid and run as packets.",
    add_completion=False,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]


_POINTS = 1_000_000
"""Most runs of a sweep."""
_MOST_KEPT = 5000
"""Most results in the user's cache."""
_LONG_RTT = 5.0
"""Seconds: an RTT from here on that has no unit may have been meant in milliseconds."""
_SECONDS, _SHARE = 10.0, 0.05
"""Where there is no terminal, a line on the progress comes after so many seconds and such a share of the work."""
_SAVE_EVERY = "5 min"
"""Real time between two checkpoints of a run."""
_METRICS = ("utilization", "fairness", "mean_queue", "peak_queue", "loss")


class Engine(StrEnum):
    packet = "packet"
    fluid = "fluid"


class Simulator(StrEnum):
    packet = "packet"
    fluid = "fluid"
    live = "live"


class MeanRtt(StrEnum):
    flows = "flows"
    packets = "packets"


class Time(StrEnum):
    continuous = "continuous"
    discrete = "discrete"
    hybrid = "hybrid"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; bad input is one line on standard error.

    Parameters
    ----------
    arguments : sequence of str, or None
        Those of the process.
    """
    with _handlers_kept(), _faults_located():
        try:
            code = app(None if arguments is None else list(arguments), prog_name="ecc", standalone_mode=False)
            sys.stdout.flush()
            return int(code or 0)
        except (typer.Abort, KeyboardInterrupt):
            _complain("interrupted")
            return INTERRUPTED
        except BrokenPipeError:  # the reader has seen enough
            _discard_output()
            return 0
        except (Exception, SystemExit) as error:
            message, code = _explained(error)
            _complain(message)
            return code


def _explained(error: BaseException) -> tuple[str, int]:
    """One line on what went wrong, and the exit code; an error that is not foreseen is raised again."""
    usage = getattr(error, "format_message", None)  # of an option or argument that Typer refuses
    location = _in_module_of_user(error)
    if usage:
        return str(usage()).replace("Value error, ", "", 1), BAD_INPUT  # pydantic's, after "Invalid value"
    if isinstance(error, OSError) and error.errno in _FULL and error.filename is None and not location:
        _discard_output()
        return f"standard output cannot be written: {error.strerror}", UNWRITTEN
    if isinstance(error, WriteError) or (isinstance(error, OSError) and error.errno in _FULL):
        return str(error), UNWRITTEN
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        from ecc._support.arguments import shown

        return f"{shown(error.filename)} cannot be opened: {error.strerror}", BAD_INPUT
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {error or 'a smaller scenario, or a longer sample, may fit'}", FAILED
    if isinstance(error, ValueError | TypeError | EccError | OSError):
        return str(error), BAD_INPUT
    if location:
        return f"{type(error).__name__} in {location}: {error}", FAILED
    if isinstance(error, OverflowError | RecursionError):
        return f"a number or table is too large or too deep: {error}", BAD_INPUT
    raise error


def _in_module_of_user(error: BaseException) -> str:
    """File and line of an error in a module with a protocol that is not ours; empty if it is from elsewhere."""
    if "ecc.contract.protocol" not in sys.modules:
        return ""
    from traceback import walk_tb

    from ecc.models import Protocol

    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        name = frame.f_globals.get("__name__", "")
        kinds = [value for value in frame.f_globals.values() if isinstance(value, type) and issubclass(value, Protocol)]
        if not name.startswith("ecc.") and any(kind.__module__ == name for kind in kinds):
            return f"{frame.f_code.co_filename}, line {line}"
    return ""


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Leave the handlers of signals as they were, whoever calls the command line."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _faults_located() -> Iterator[None]:
    """Have a fault in compiled code, such as a controller in C, print where Python was before it ends the process."""
    import faulthandler

    enabled = False
    if not faulthandler.is_enabled():
        with suppress(Exception):  # a standard error that is no file
            faulthandler.enable(all_threads=False)
            enabled = True
    try:
        yield
    finally:
        if enabled:
            faulthandler.disable()


def _work_begins() -> None:
    """From here on Ctrl-C ends the work and not the process, which keeps what is done; and SIGTERM does the same.

    It does so too where Ctrl-C is ignored, as after a shell's `&`.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))


def _work_ends() -> None:
    """From here on one Ctrl-C, or SIGTERM, is too late: what was computed is written and printed first.

    Another one ends that too.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda number, frame: signal.signal(number, signal.default_int_handler))


def _discard_output() -> None:
    """Let what standard output still holds go nowhere when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str) -> None:
    print(f"ecc: {' '.join(message.split())}", file=sys.stderr)


def _beside_whole(path: Path) -> Path:
    """Where a result goes that is not whole: table.nc, or, if something is there, beside it to table.partial.nc."""
    return path.with_suffix(f".partial{path.suffix}") if path.exists() else path


def _unwritten(write: Callable[..., object], *arguments: Any) -> WriteError | None:
    """Write something, and return the error rather than raise it: what was computed is to be printed first."""
    try:
        write(*arguments)
    except WriteError as error:
        return error
    return None


# ---- commands --------------------------------------------------------------------------------------------


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=lambda wanted: _version(wanted), help="Print the version."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ecc {__version__}")
        raise typer.Exit()


Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PROTOCOL, CLAIM or SECTION]...", help="Which claims. Default: all."),
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for report.html, report.md and results.json.")]
Dataset = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder for the findings as a data set: CSV tables and their Frictionless datapackage.json."
    ),
]
Kept = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="SQLite file (of a folder: its results.sqlite) that keeps results. Default: in the user's cache.",
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Ignore stored results and replace them.")]
Jobs = Annotated[int, typer.Option(metavar="N", min=0, max=10_000, help="Worker processes; 0: one a core.")]
OnCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Scheduler of a Dask cluster, as tcp://host:8786, whose workers do the work.",
    ),
]


@app.command()
def crosscheck(
    names: Names = None,
    out: Out = Path("ecc-report"),
    dataset: Dataset = None,
    jobs: Jobs = 0,
    cluster: OnCluster = None,
    json: AsJson = False,
) -> int:
    """Check the theorems of the papers; write a report with verdicts, measurements and figures."""
    from ecc.claims.catalog import select

    chosen = select(names or ())
    return _examine_claims("crosscheck", names or (), chosen, out, (jobs, cluster), json, dataset=dataset)


@app.command()
def reproduce(
    names: Names = None,
    out: Out = Path("ecc-reproduction"),
    dataset: Dataset = None,
    jobs: Jobs = 0,
    cluster: OnCluster = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and shorter runs; the report notes it.")] = False,
    store: Kept = None,
    fresh: Fresh = False,
    json: AsJson = False,
) -> int:
    """Check the claims of the ledger, simulations included; only what changed since the last call is computed again.

    Live runs take minutes each and are made only for claims that are named, or for "live", which has all of them.
    """
    from ecc.claims.catalog import to_reproduce

    selected = to_reproduce(names or ())
    kept = _kept(store, fresh)
    return _examine_claims("reproduce", names or (), selected, out, (jobs, cluster), json, kept, quick, dataset)


def _kept(store: Path | None, fresh: bool) -> Store:
    from ecc._support.store import Store

    return Store(store, fresh) if store else Store(Store.of_user(), fresh, most=_MOST_KEPT)


def _show_resumed(done: int, count: int, what: str, store: Path) -> None:
    rest = f"{count - done} to run" if done < count else "nothing left to do"
    print(f"{done} of {count} {what}s are in {store}, {rest}", file=sys.stderr)


def _examine_claims(
    command: str,
    names: Sequence[str],
    selected: Sequence[Claim],
    out: Path,
    where: tuple[int, str | None],
    json: bool,
    store: Store | None = None,
    quick: bool = False,
    dataset: Path | None = None,
) -> int:
    """Check claims of the ledger."""
    from ecc.claims.crosscheck import examine
    from ecc.claims.report.output import Report

    line = shlex.join(["ecc", command, *(["--quick"] if quick else []), *names])

    def work(workers: Executor | int, progress: Any, steps: Any) -> Outcome:
        return examine(selected, workers, progress, store, quick, steps)

    def report(result: Outcome) -> Report:
        return Report(result.findings, line, result.interrupted, quick, result.failures)

    return _examine(work, report, len(selected), out, where, json, store, dataset=dataset)


def _examine(
    work: Callable[[Executor | int, Any, Any], Outcome],
    report_of: Callable[[Outcome], Report],
    many: int,
    out: Path,
    where: tuple[int, str | None],
    json: bool,
    store: Store | None = None,
    what: str = "claim",
    dataset: Path | None = None,
    not_applying: Callable[[], list[str]] = list,
) -> int:
    """Check claims or cases with progress, write the report, print the verdicts, and return the exit code.

    Of cases, those that do not apply are no rows: `not_applying` has a line or more for all of them.
    """
    from time import monotonic

    from ecc._support.workers import worker_count
    from ecc.claims.crosscheck import Costs, Pace
    from ecc.claims.ledger import Verdict
    from ecc.claims.report.dataset import write_dataset
    from ecc.claims.report.output import as_json, report_folder, write_report
    from ecc.claims.report.text import judged

    for wanted in (out, *([dataset] if dataset else [])):
        making(wanted)  # refused now rather than after the work
    _work_begins()
    with _workers(*where) as workers, _progress() as bar:
        pace = Pace(worker_count(workers))
        task = bar.add_task(f"{what}s", total=1.0)
        bar.moving = lambda: bar.update(task, completed=pace.share(monotonic()))

        def report_progress(claim: Claim, finding: Finding | None) -> None:
            if what == "case" and finding is not None and finding.verdict is Verdict.NOT_COMPARABLE:
                return
            verdict = "failed" if finding is None else f"{judged(finding)} [dim]({finding.seconds:.1f} s)[/]"
            bar.console.print(f"{claim.id:<10} {verdict}", highlight=False)

        first = True

        def step(done: int, count: int, costs: Costs) -> None:
            nonlocal first
            if first and done and store is not None:
                _show_resumed(done, count, "case" if what == "case" else "job", store.path)
            first = False
            if done == count:
                _work_ends()
            pace.step(costs, monotonic())
            bar.update(task, description=f"jobs {done}/{count}")

        result = work(workers, report_progress, step)
        _work_ends()
    if result.interrupted:
        resumes = store is not None and store.trouble is None
        _complain(
            f"{'ended' if result.lost else 'interrupted'} after {len(result.findings)} of {many} {what}s"
            + (f": {result.lost}" if result.lost else "")
            + ("; the same command resumes there" if resumes else "")
            + ("; results up to then:" if result.findings else "")
        )
    report = report_of(result)
    folder = report_folder(report, out)
    unwritten = _unwritten(write_report, report, folder)
    if dataset is not None and not report.partial:  # one that is whole may be there
        unwritten = unwritten or _unwritten(write_dataset, report, dataset)
    if json:
        print(as_json(report))
    elif result.findings or result.failures:
        shown = [one for one in result.findings if what != "case" or one.verdict is not Verdict.NOT_COMPARABLE]
        if shown or result.failures:
            _print(_verdicts(shown, what, result.failures))
        for line in not_applying():
            print(line)
    for trouble in (unwritten, None if store is None else store.trouble):
        if trouble:
            _complain(str(trouble))
    if unwritten is None:
        written = f"report: {folder / 'report.html'}\nresults: {folder / 'results.json'}"
        if dataset is not None and not report.partial:
            written += f"\ndata set: {dataset / 'datapackage.json'}"
        print(written, file=sys.stderr if json else sys.stdout)
    for key, error in result.failures.items():
        _complain(f"{what} {key} failed: {error}")
    if result.interrupted:
        return FAILED if result.lost else INTERRUPTED
    return UNWRITTEN if unwritten else FAILED if result.failures else 0


@contextmanager
def _workers(jobs: int, cluster: str | None) -> Iterator[Executor | int]:
    """Worker processes here, by their number, or those of a cluster."""
    if cluster is None:
        yield jobs or os.cpu_count() or 1
        return
    if jobs:
        raise ValueError(f"--jobs must not be given with --cluster, whose workers do the work, got {jobs}")
    from ecc.batch.cluster import Cluster

    with Cluster(cluster, notice=_complain) as workers:
        yield workers


@app.command(name="check")
def check_properties(
    protocol: Annotated[
        str,
        typer.Argument(metavar="PROTOCOL", help="Name of a protocol, or module:Class or file.py:Class of your own."),
    ],
    links: Annotated[
        str | None,
        typer.Option(metavar="DISCIPLINE", help="Queue discipline of the links. Default: the protocol's own routers."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Value of a parameter; with --links, flows.NAME or links.NAME. May be given again.",
        ),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME", help="Property to check. Default: all. May be given again."),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=100_000, help="Scenarios for each property. Default: 8."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two scenarios for each property, and less shrinking.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Test a protocol: check its properties on drawn scenarios; exit code 4 if one of them is violated.

    Each property is checked on scenarios within the operating range of the protocol. The smallest scenario that
    violates a property is printed as Python code.
    """
    from ecc.testing import check_protocol

    subject: Any
    if links is None:
        subject = _protocol(protocol, settings or ())
        if not subject.has_hosts():
            raise ValueError(f"PROTOCOL must have hosts, got {protocol}, a queue discipline: give it with --links")
    else:
        subject = _pair(protocol, links, settings or ())
    with _progress(not json) as bar:
        task = bar.add_task("properties", total=1.0)

        def show(name: str, done: int, count: int) -> None:
            bar.update(task, description=name, completed=done / count)

        report = check_protocol(subject, properties or (), examples=examples, quick=quick, progress=show)
    if json:
        _print_json(report.to_dict())
    else:
        rows = [(one.name, one.status, one.examples, one.text) for one in report.findings]
        _print(_table(f"Properties of {report.protocol}", ("property", "status", "examples", "detail"), rows))
        for finding in report.violated:
            if finding.example:
                print(f"{finding.name}: {finding.example}")
    return 0 if report.passed else REFUTED


def _pair(host: str, discipline: str, settings: Sequence[str]) -> dict[str, Protocol]:
    """Hosts over a queue discipline, with flows.NAME=VALUE and links.NAME=VALUE set."""
    halves: dict[str, list[str]] = {"flows": [], "links": []}
    for setting in settings:
        half, dot, rest = setting.partition(".")
        if not dot or half not in halves:
            raise ValueError(f"--set must be flows.NAME=VALUE or links.NAME=VALUE with --links, got {setting!r}")
        halves[half].append(rest)
    return {half: _protocol(name, halves[half]) for half, name in (("flows", host), ("links", discipline))}


@app.command()
def conform(
    protocol: Annotated[
        str,
        typer.Argument(
            metavar="PROTOCOL", help="Name of a protocol; module:Class, file.py:Class or file.so of your own."
        ),
    ],
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="CASE", help="Id of a case, or what it begins with (bbr, cubic); may be given again."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Value of a parameter; may be given again."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="REFERENCE",
            help="In place of cases: where its variables leave those of this protocol, which sees the same ACKs.",
        ),
    ] = None,
    of_reference: Annotated[
        list[str] | None,
        typer.Option(
            "--against-set",
            metavar="NAME=VALUE",
            help="With --against: value of a parameter of the reference; may be given again.",
        ),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="SCENARIO.toml", help="With --against: the run, whose flow 0 is the protocol's."),
    ] = None,
    qlog: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="In place of cases: where a stack's trace leaves the protocol, which sees the same ACKs.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="With --qlog: relative difference up to which values are the same. Default: 0.01."
        ),
    ] = None,
    trace: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="With --qlog: index of the trace in a file of several. Default: the first without an error.",
        ),
    ] = None,
    path: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="With --qlog: identifier of the path of a multipath connection. Default: the lowest.",
        ),
    ] = None,
    out: Out = Path("ecc-conformance"),
    jobs: Jobs = 0,
    cluster: OnCluster = None,
    store: Kept = None,
    fresh: Fresh = False,
    json: AsJson = False,
) -> int:
    """Run the conformance cases that apply to a protocol; exit code 4 if one of them is refuted, 2 if none applies.

    Each case is a scenario on packets with numbers and bands from a specification; the report has the figures. Cases
    are run again only if the protocol or the case has changed since the last call.
    """
    from ecc.conform.runs import Conformance, cases, conformance_report, examined

    chosen = _protocol(protocol, settings or ())
    if qlog is not None and (against is not None or case or scenario is not None):
        raise ValueError("qlog takes no --against, --case or --scenario: the trace has packets and ACKs")
    if against is not None and case:
        raise ValueError("case needs no --against, which runs no case")
    if scenario is not None and against is None:
        raise ValueError("scenario needs --against: cases have scenarios of their own")
    if of_reference and against is None:
        raise ValueError("against-set needs --against, whose parameters it sets")
    if tolerance is not None and qlog is None:
        raise ValueError("tolerance needs --qlog: other values are compared to the last bits")
    if trace is not None and qlog is None:
        raise ValueError("trace needs --qlog, whose file may have several")
    if path is not None and qlog is None:
        raise ValueError("path needs --qlog, whose connection may have several")
    if (qlog is not None or against is not None) and (jobs or cluster or store or fresh):
        raise ValueError("jobs, cluster, store and fresh are for cases, which --against and --qlog do not run")
    if qlog is not None:
        return _replay(chosen, qlog, (trace, path), 0.01 if tolerance is None else tolerance, out, json)
    if against is not None:
        return _compare(chosen, _protocol(against, of_reference or (), "--against-set"), scenario, out, json)
    selected = cases(case or ())
    kept = _kept(store, fresh)
    given = ["ecc", "conform", protocol, *(word for one in settings or () for word in ("--set", one))]
    line = shlex.join([*given, *(word for one in case or () for word in ("--case", one))])
    found: list[Conformance] = []

    def report(result: Outcome) -> Report:
        found.append(Conformance(chosen, result.findings, result.failures, result.interrupted))
        return conformance_report(found[0], line, shlex.join([*given, "--case"]))

    def work(workers: Executor | int, progress: Any, steps: Any) -> Outcome:
        return examined(chosen, selected, workers, progress, steps, kept)

    code = _examine(
        work, report, len(selected), out, (jobs, cluster), json, kept, "case",
        not_applying=lambda: found[0].not_applying,
    )  # fmt: skip
    if not code and not found[0].applying:
        many = f"{len(selected)} case{'s' if selected[1:] else ''}"
        _complain(f"none of {many} applies to {type(chosen).__name__}, which lacks what the findings name")
        return BAD_INPUT
    return code or (0 if found[0].conforms else REFUTED)


def _compare(protocol: Protocol, reference: Protocol, scenario: Path | None, out: Path, json: bool) -> int:
    """Print where a protocol leaves a reference, and write the figure."""
    from ecc.conform import compare
    from ecc.contract.parameters import label
    from ecc.scenario import Scenario

    case = None if scenario is None else Scenario.from_toml(scenario)
    with _progress() as bar:
        task = bar.add_task("comparison", total=1.0)
        found = compare(protocol, reference, case, progress=lambda share: bar.update(task, completed=share))
    return _show_divergence(found, label(protocol), label(reference), out, json)


def _replay(
    reference: Protocol, path: Path, which: tuple[int | None, int | None], tolerance: float, out: Path, json: bool
) -> int:
    """Print where a trace leaves a reference, and write the figure; `which`: trace and path of the file."""
    import warnings

    from ecc.conform import replay
    from ecc.contract.parameters import label
    from ecc.formats.qlog import read

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # notes say the same
        log = read(path, *which)
    for note in log.notes:
        print(f"note: {note}", file=sys.stderr if json else sys.stdout)
    return _show_divergence(replay(reference, log, tolerance), "trace", label(reference), out, json)


def _show_divergence(found: Divergence, name: str, reference: str, out: Path, json: bool) -> int:
    from dataclasses import asdict

    from ecc.plot.look import as_html

    making(out)
    with replacing(out / "deviation.html") as part:
        part.write_text(as_html(found.figure()), encoding="utf-8")
    if json:
        _print_json({"deviations": [asdict(one) for one in found.deviations], "compared": list(found.compared),
                     "lacking": list(found.lacking), "notes": list(found.notes)})  # fmt: skip
    else:
        rows = [(one.variable, f"{one.time:.6f}", one.hook, f"{one.value:.6g}", f"{one.reference:.6g}")
                for one in found.deviations]  # fmt: skip
        heads = ("variable", "first at [s]", "hook", name, f"{reference}, same ACKs")
        _print(*([_table("", heads, rows)] if rows else []))
        print(found)
        for note in found.notes:
            print(f"note: {note}")
        if found.lacking:
            print(f"not compared, of the reference alone: {', '.join(found.lacking)}")
        print(f"figure: {out / 'deviation.html'}")
    return 0 if found.first is None else REFUTED


@app.command()
def simulate(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.toml", help="Network, protocol, workload, duration.")],
    engine: Annotated[Simulator, typer.Option(help="Simulation engine; live: on real frames.")] = Simulator.packet,
    sample: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Sampling period. Default: 0.1 s, at most a tenth of the duration."),
    ] = None,
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
        Path | None, typer.Option(metavar="FILE", help="Live runs: .pcapng file that gets the frames on all links.")
    ] = None,
    qlog: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --python: .sqlog file that gets the log of a flow.")
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

    if out is not None and out.suffix not in _WRITERS:
        raise ValueError(f"out must end in {', '.join(_WRITERS)}, got {str(out)!r}")
    if engine != Simulator.packet and (flows_to or checkpoint):
        raise ValueError(f"flows-to and checkpoint need --engine packet, got {engine}")
    if python and (engine != Simulator.packet or checkpoint):
        raise ValueError("python needs --engine packet, and no checkpoint")
    if qlog is not None and not python:
        raise ValueError("qlog needs --python")
    if flow is not None and qlog is None:
        raise ValueError("flow needs --qlog FILE, which gets its log")
    if engine != Simulator.packet and threads is not None:
        raise ValueError(f"threads needs --engine packet, got {engine}")
    if checkpoint_every is not None and checkpoint is None:
        raise ValueError("checkpoint-every needs --checkpoint FILE, to which the run is saved")
    every = as_time(_value(checkpoint_every or _SAVE_EVERY), "checkpoint-every", positive=True)
    if engine != Simulator.live and (slow != 1.0 or capture):
        raise ValueError(f"slow and capture need --engine live, got {engine}")
    files = (("out", out), ("flows-to", flows_to), ("checkpoint", checkpoint), ("capture", capture), ("qlog", qlog))
    for name, path in files:
        if path is not None and not path.parent.is_dir():  # refused now rather than after the work
            raise ValueError(f"{name} must be in a directory that exists, got {str(path)!r}")
    case = Scenario.from_toml(scenario)
    logs = {} if qlog is None else _logs(qlog, flow or "0", case.network.n_flows)
    shown = not python  # a bar would hide a debugger
    with _progress(shown) as bar, warnings.catch_warnings(), ending_stuck_hooks(INTERRUPTED):
        warnings.simplefilter("ignore")  # `stopped` reports the same
        task = bar.add_task(f"{engine} run", total=1.0)
        options: dict[str, Any] = {"sample": _quantity(sample), "record": tuple(record or ())}
        options |= {"flows_to": flows_to} if flows_to else {}
        options |= {"engine": "python"} if python else {}
        options |= {"qlog": logs} if logs else {}
        options |= {"threads": threads} if threads is not None else {}
        options |= {"slow": slow, "capture": capture} if engine == Simulator.live else {}

        def show(share: float) -> None:
            bar.update(task, completed=share)

        unwritten = None
        if engine == Simulator.packet:
            run, unwritten = _packets(case, checkpoint, every, show, options)
        else:
            simulate = import_module(f"ecc.{engine}").simulate
            _work_begins()
            run = simulate(case, progress=show, **options)
            _work_ends()
    summary = _summary(run, case)
    if not run.is_complete:
        _complain(f"the run ended at {summary['simulated']:g} of {case.duration:g} s: {run.stopped}")
    if out is not None:
        out = out if run.is_complete else _beside_whole(out)
        unwritten = _unwritten(_WRITERS[out.suffix], run, out) or unwritten
    if json:
        _print_json(summary)
    else:
        if run.data.sizes["time"]:
            _print(*_summary_tables(summary))
        for note in run.notes:
            print(f"note: {note}")
        if out is not None and unwritten is None:
            print(f"run: {out}")
        if logs:
            print(f"qlog: {', '.join(map(str, logs.values()))}")
    if unwritten:
        _complain(str(unwritten))
        return UNWRITTEN
    if checkpoint is not None and run.is_complete and checkpoint.exists():
        checkpoint.unlink()
        print(f"removed: {checkpoint}, as the run is complete", file=sys.stderr)
    return 0 if run.is_complete else INTERRUPTED if run.stopped == "interrupted" else FAILED


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
            help=f"Metric of each run; may be given again. Default: {', '.join(_METRICS)}. An unknown name lists all.",
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

    if out is not None and out.suffix not in _TABLES:
        raise ValueError(f"out must end in {', '.join(_TABLES)}, got {str(out)!r}")
    for name, path in (("out", out), ("store", store), ("snakefile", snakefile)):
        if path is not None and not path.parent.is_dir():  # refused now rather than after the work
            raise ValueError(f"{name} must be in a directory that exists, got {str(path)!r}")
    axes = dict(_axis(text) for text in vary)
    given: dict[str, Any] = {"flow": flow} | ({} if link is None else {"link": link})
    given |= {} if flows is None else {"flows": _indices(flows)}
    given |= {} if between is None else {"between": _span(between)}
    runs = ScenarioRuns(
        Scenario.from_toml(scenario).to_dict(), metric or _METRICS, str(engine), _quantity(sample), given
    )
    for name in runs.metrics:
        if lacks := lacking(get(name), OF_SWEEPS):
            raise ValueError(
                f"metric must be one without arguments of its own, got {name!r}, which takes {', '.join(lacks)} "
                f"(in Python: ecc.metrics.{name}, in a function for ecc.sweep)"
            )
    count = prod(map(len, axes.values()))
    if count > _POINTS:
        raise ValueError(f"--vary must ask for at most {_POINTS:,} runs, got {count:,}")
    chosen = None if part is None else _part(part, count)
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
        given_words |= {name: [one] for name, one in (("--sample", sample), ("--between", between)) if one is not None}
        words = ["ecc", "sweep", str(scenario), *(str(word) for name, some in given_words.items() for one in some
                                                  for word in (name, one))]  # fmt: skip
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
        whole = Store(store)
        for other in merge:
            whole.merge(other)
    ended: SweepError | SweepInterrupted | None = None

    def report_progress(done: int, count: int) -> None:
        _show_resumed(done, count, "point", Path(store or ""))

    _work_begins()
    with _workers(jobs, cluster) as workers, _progress() as bar:
        task = bar.add_task(f"{engine} runs", total=1.0)

        def show(share: float) -> None:
            if share == 1.0:
                _work_ends()
            bar.update(task, completed=share)

        try:
            found = over(runs, axes, workers, store, show, report_progress, chosen)
        except (SweepError, SweepInterrupted) as error:
            ended, found = error, error.dataset
        _work_ends()
    if ended is not None:
        if isinstance(ended, SweepInterrupted):
            kept = "the same command resumes there" if store else "without --store FILE a later call begins anew"
            _complain(f"{ended}; {kept}")
        else:
            _complain(f"{ended}; the other results:")
    if unused_seed(found) and not isinstance(ended, SweepInterrupted):
        _complain(
            "note: runs with different seeds have the same metrics: nothing in this scenario draws random numbers, or"
            " it does not change these metrics"
        )
    rows = found.to_dataframe().reset_index()[[*axes, *found]]
    if chosen is not None:
        rows = rows.iloc[chosen[0] - 1 :: chosen[1]]
    if ended is not None:  # its line has how many were not run
        rows = rows[rows["error"] != "not run"]
        rows = rows if rows["error"].any() else rows.drop(columns="error")
    partial = None if out is None else out.with_suffix(f".partial{out.suffix}")
    if out is not None and ended is not None:
        out = partial if isinstance(ended, SweepInterrupted) else _beside_whole(out)
    unwritten = None if out is None else _unwritten(_TABLES[out.suffix], found, out)
    replaced = partial is not None and ended is None and chosen is None and unwritten is None and partial.exists()
    if replaced and partial is not None:  # what an interrupted call has left
        partial.unlink()
    if json:
        _print_json(rows.to_dict("records"))
    else:
        metrics = {name: get(name) for name in runs.metrics}
        titles = [f"{m.title} [{m.kind}]" if m.kind else m.title for name, m in metrics.items() if name in found]
        cells = [[v if isinstance(v, str) else f"{v:.6g}" for v in row] for row in rows.itertuples(index=False)]
        columns = (*axes, *titles, *(["error"] if "error" in rows else []))
        if cells:
            _print(_table(f"{scenario.name}, {engine} runs", columns, cells))
    if unwritten:
        _complain(str(unwritten))
        return UNWRITTEN
    if out is not None:
        print(f"table: {out}", file=sys.stderr if json else sys.stdout)
        if replaced:
            print(f"removed: {partial}, which was part of it", file=sys.stderr if json else sys.stdout)
    return 0 if ended is None else INTERRUPTED if isinstance(ended, SweepInterrupted) else FAILED


@app.command()
def stability(
    protocol: Annotated[
        str,
        typer.Argument(
            metavar="PROTOCOL or SCENARIO.toml",
            help="Name of a protocol; module:Class or file.py:Class of your own; or a scenario file with protocol and"
            " network.",
        ),
    ],
    rtt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TIME",
            help="Propagation RTT of a flow; once for each flow, or once for all flows of a chain of links.",
        ),
    ] = None,
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RATE",
            help="Capacity of the bottleneck. Default: 100 Mb/s. Several times: a chain of links; flow 0"
            " crosses all, each other flow one.",
        ),
    ] = None,
    network: Annotated[
        Path | None, typer.Option(metavar="SCENARIO.toml", help="Scenario file that gives links and flows.")
    ] = None,
    parameter: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Parameter whose stable interval is computed. Default: the main gain of the protocol."
        ),
    ] = "",
    time: Annotated[list[Time] | None, typer.Option(help="Linear model; may be given again. Default: all.")] = None,
    mean_rtt: Annotated[MeanRtt | None, typer.Option(help="What a router's mean RTT is over. Default: flows.")] = None,
    clocking: Annotated[
        str | None,
        typer.Option(
            metavar="<ack|rate>",
            help="Of windows: 'ack' (clocked by ACKs) or 'rate' (paced: queues integrate rates). Default: 'ack', with"
            " the verdict of the other.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Value of a parameter; may be given again."),
    ] = None,
    json: AsJson = False,
) -> int:
    """Print the stable interval of a parameter, the verdicts and the margins of a protocol's linear models."""
    from dataclasses import replace

    from ecc.models import Protocol
    from ecc.scenario import Scenario
    from ecc.stability import analyze

    if network is not None and protocol.endswith(".toml"):
        raise ValueError(f"network must not be given beside a scenario, which has its own, got {network}")
    scenario = network or (Path(protocol) if protocol.endswith(".toml") else None)
    if scenario is None and not rtt:
        raise ValueError("rtt must be given for each flow (--rtt 100ms), or a network (--network SCENARIO.toml)")
    if scenario is not None and (rtt or capacity):
        raise ValueError(f"rtt and capacity must not be given beside a scenario, which has its own, got {scenario}")
    case = None if scenario is None else Scenario.from_toml(scenario)
    if case is not None and protocol.endswith(".toml"):
        chosen: Any = case.protocol
        if isinstance(chosen, Protocol):
            chosen = replace(chosen, **_settings(type(chosen), settings or ()))
        else:
            chosen = _halves(chosen, settings or ())
    else:
        chosen = _linear(protocol, settings or ())
    over = _dumbbell_or_chain(rtt or (), capacity or ("100 Mb/s",)) if case is None else case.network
    for text in rtt or ():
        if isinstance(_value(text), float) and float(text) >= _LONG_RTT:
            _complain(f"note: an RTT of {text} is {text} s; for milliseconds: --rtt {text}ms")
    times = None if time is None else [str(one) for one in time]
    with _progress() as bar:
        task = bar.add_task("", total=None)
        assigned: dict[str, Any] = {"assignment": case.assigned} if case and case.assignment is not None else {}
        assigned |= {"mean_rtt": mean_rtt.value} if mean_rtt else {}
        assigned |= {"clocking": clocking} if clocking else {}
        try:
            found = analyze(
                chosen, over, parameter, times, progress=lambda what: bar.update(task, description=what), **assigned
            )
        except LinearizationError as error:
            raise LinearizationError(str(error).replace("clocking='rate'", "--clocking rate")) from None
    if json:
        _print_json(found.to_dict())
    else:
        print(found)
    return 0


@app.command(name="claims")
def list_claims(names: Names = None, json: AsJson = False) -> int:
    """List the ledger: claims and questions, their sources, and what was read of these."""
    from ecc.claims.catalog import select
    from ecc.claims.ledger import claims

    found = select(names or (), list(claims().values()))
    if json:
        _print_json([claim.to_dict() for claim in found])
        return 0
    rows = [(c.id, c.source, c.provenance.read, ", ".join(c.protocols), c.statement) for c in found]
    _print(_table("", ("claim", "source", "read", "protocols", "statement"), rows))
    return 0


@app.command(name="node")
def run_node(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.toml", help="The same on all machines.")],
    machine: Annotated[int, typer.Argument(metavar="MACHINE", help="Number of this machine.")],
    link: Annotated[
        list[str],
        typer.Option(
            metavar="MACHINE=INTERFACE,ADDRESS",
            help="Another machine, the interface here, and the MAC address there: 1=eth1,52:54:00:12:34:56."
            " Once for each that packets go to or come from.",
        ),
    ],
    token_file: Annotated[
        Path,
        typer.Option(metavar="FILE", help="A secret of at least 16 characters, new for each run; on all machines."),
    ],
    machines: Annotated[
        str,
        typer.Option(metavar="NODES", help="Live nodes of each machine, as in 0,1/2 (0, 1: hosts; 2, ...: routers)."),
    ] = "hosts/routers",
    slow: Annotated[float, typer.Option(metavar="K", help="Seconds of real time for one of the scenario.")] = 1.0,
    exact: Annotated[bool, typer.Option("--exact", help="Frames carry headers in full precision, too.")] = False,
    wait: Annotated[
        str, typer.Option(metavar="TIME", help="How long a machine without senders waits for the first frame.")
    ] = "60 s",
    json: AsJson = False,
) -> int:
    """Run what one machine has of a scenario, over a real interface to others; machines without senders start first."""
    from ecc.live import node
    from ecc.scenario import Scenario

    links: dict[int, tuple[str, str]] = {}
    for one in link:
        number, _, rest = one.partition("=")
        interface, _, address = rest.rpartition(",")
        if not number.isdecimal() or not interface:
            raise ValueError(f"link must be as in 1=eth1,52:54:00:12:34:56, got {one!r}")
        links[int(number)] = (interface, address)
    case, token = Scenario.from_toml(scenario), token_file.read_text(encoding="utf-8").strip()
    _work_begins()
    found = node(
        case, machine, links, token, machines=machines, slow=slow, exact=exact, wait=_quantity(wait) or 0.0,
        ready=lambda: print("ready", file=sys.stderr, flush=True),
    )  # fmt: skip
    _work_ends()
    if json:
        _print_json(found.to_dict())
    else:
        print(found)
    if found.stopped != "completed":
        _complain(f"the run ended at {found.simulated:g} of {case.duration:g} s: {found.stopped}")
    return 0 if found.stopped == "completed" else INTERRUPTED if found.stopped == "interrupted" else FAILED


@app.command(name="dissector")
def print_dissector() -> int:
    """Print a Wireshark dissector (Lua) for the congestion headers in captures."""
    from ecc.packet.dissector import dissector

    typer.echo(dissector(), nl=False)
    return 0


# ---- input -----------------------------------------------------------------------------------------------


def _value(text: str) -> float | str:
    """A number where the text is one; otherwise the text, which may have a unit."""
    try:
        return float(text)
    except ValueError:
        return text


def _quantity(text: str | None) -> float | str | None:
    return None if text is None else _value(text)


def _axis(text: str) -> tuple[str, list[Any]]:
    """PATH=VALUES as path and values: separated by commas, or first:last:count."""
    path, sign, values = text.partition("=")
    if not sign or not path or not values:
        raise ValueError(f"--vary must be PATH=VALUES, got {text!r}")
    ends = [_value(part) for part in values.split(":")]
    if len(ends) > 1 and isinstance(ends[0], float):
        if len(ends) != 3 or not all(isinstance(end, float) for end in ends):
            raise ValueError(f"--vary must have ranges as first:last:count, three numbers, got {text!r}")
        first, last, count = (float(end) for end in ends)
        if not (isfinite(first) and isfinite(last)):
            raise ValueError(f"--vary must have finite ends in first:last:count, got {text!r}")
        if not (2 <= count <= _POINTS and count.is_integer()):
            raise ValueError(
                f"--vary must have a whole count >= 2, and <= {_POINTS:,}, in first:last:count, got {text!r}"
            )
        spaced = [first + (last - first) * k / (count - 1) for k in range(int(count))]
    else:
        spaced = [_value(part.strip()) for part in values.split(",")]  # type: ignore[misc]
    return path, [int(v) if isinstance(v, float) and v.is_integer() else v for v in spaced]


def _part(text: str, count: int) -> tuple[int, int]:
    """K/N as two numbers."""
    first, _, of = text.partition("/")
    if not (first.isdecimal() and of.isdecimal() and 1 <= int(first) <= int(of) <= count):
        raise ValueError(f"--part must be K/N, 1 <= K <= N <= {count} (points of the grid), got {text!r}")
    return int(first), int(of)


def _logs(path: Path, flow: str, n_flows: int) -> dict[int, Path]:
    """Index of each flow that has a log, with its file."""
    if flow == "all":
        return {k: path.with_suffix(f".{k}{path.suffix}") for k in range(n_flows)}
    if not (flow.isdecimal() and int(flow) < n_flows):
        raise ValueError(f"flow must be from 0 to {n_flows - 1}, or all, got {flow!r}")
    return {int(flow): path}


def _span(text: str) -> tuple[float, float]:
    """BEGIN:END as two times in s."""
    from ecc._support.quantity import as_time

    parts = text.split(":")
    if len(parts) != 2:
        raise ValueError(f"between must be BEGIN:END, as 10:30 (seconds) or 5ms:20ms, got {text!r}")
    begin, end = (as_time(_value(part.strip()), "between") for part in parts)
    if not begin < end:
        raise ValueError(f"between must have BEGIN < END, got {text!r}")
    return begin, end


def _indices(text: str) -> list[int]:
    """Indices and ranges of them, separated by commas."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash) and int(first) <= int(last or first) < _POINTS):
            raise ValueError(f"flows must be indices, as 0,2,5-9, got {text!r}")
        found += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(found))


def _linear(name: str, settings: Sequence[str]) -> Protocol:
    """A protocol that has linear models."""
    from ecc.scenario import protocol_class
    from ecc.stability.analysis import refusal

    kind = protocol_class(name)
    if isinstance(kind.linear_refusal, str):  # for any parameters
        raise ValueError(refusal(kind))
    return _protocol(name, settings)


def _protocol(name: str, settings: Sequence[str], option: str = "--set") -> Protocol:
    """A protocol by its name, and NAME=VALUE of an option."""
    from ecc.network.network import from_table
    from ecc.scenario import protocol_class

    kind = protocol_class(name)
    made: Protocol = from_table(kind, _settings(kind, settings, option), option)
    return made


def _halves(protocol: Any, settings: Sequence[str]) -> Any:
    """Hosts and queue disciplines with flows.NAME=VALUE, links.NAME=VALUE set."""
    from ecc.contract.assignment import parameter_names, with_parameter

    for setting in settings:
        key, sign, text = setting.partition("=")
        if not sign or not key:
            raise ValueError(f"--set must be NAME=VALUE, got {setting!r}")
        if key not in parameter_names(protocol):
            raise ValueError(f"--set has no key {key!r}; allowed are {', '.join(parameter_names(protocol))}")
        protocol = with_parameter(protocol, key, _value(text))
    return protocol


def _settings(kind: type[Protocol], settings: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """NAME=VALUE of an option as constructor arguments."""
    from dataclasses import fields

    words: dict[str, Any] = {"true": True, "false": False, "none": None}
    names = [field.name for field in fields(kind) if field.init]
    values: dict[str, Any] = {}
    for setting in settings:
        key, sign, text = setting.partition("=")
        if not sign or not key:
            raise ValueError(f"{option} must be NAME=VALUE, got {setting!r}")
        if key not in names:
            raise ValueError(f"{option} has no key {key!r}; allowed are {', '.join(names)}")
        values[key] = words[text.lower()] if text.lower() in words else _value(text)
    return values


def _dumbbell_or_chain(rtts: Sequence[str], capacities: Sequence[str]) -> Network:
    from ecc.network.network import Network

    times, rates = [_value(rtt) for rtt in rtts], [_value(capacity) for capacity in capacities]
    if len(rates) == 1:
        return Network.dumbbell(rates[0], rtts=times)
    return Network.parking_lot(rates, rtts=times * (len(rates) + 1) if len(times) == 1 else times)


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
                _complain(f"{unwritten}; the run continues")
        due = monotonic() + every

    def show(share: float) -> None:
        progress(share)
        if checkpoint is not None and monotonic() >= due:
            save()

    _work_begins()
    run.advance(progress=show)
    _work_ends()
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


# ---- output ----------------------------------------------------------------------------------------------


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


_WRITERS: dict[str, Callable[[Any, Path], None]] = {
    ".nc": _write_netcdf, ".csv": _write_csv, ".html": _write_figure,
}  # fmt: skip


def _write_rows(found: Any, path: Path) -> None:
    with replacing(path) as part:
        found.to_dataframe().to_csv(part)


def _write_grid(found: Any, path: Path) -> None:
    with replacing(path) as part:
        found.to_netcdf(part)


_TABLES: dict[str, Callable[[Any, Path], None]] = {".nc": _write_grid, ".csv": _write_rows}


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:  # what reads a pipe or a file wraps lines itself, or wants them whole
        console = Console(highlight=False, width=_WIDE)
    return console


_WIDE = 100_000  # columns: no table is folded or cut


def _print(*items: Any) -> None:
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


def _print_json(value: Any) -> None:
    from ecc._support.display import json_text

    print(json_text(value))


def _progress(shown: bool = True) -> Any:
    """A bar with the time that has passed and an estimate of what is left; lines with both where there is no terminal.

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
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip

    class Moving(Progress):
        moving: Callable[[], None] | None = None
        began = said = monotonic()
        share = 0.0

        def update(self, task_id: Any, **changes: Any) -> None:
            super().update(task_id, **changes)
            task, now = self.tasks[task_id], monotonic()
            if console.is_terminal or not shown or task.total is None or task.finished:
                return
            share = task.completed / task.total
            if now >= self.said + _SECONDS and share >= self.share + _SHARE:
                self.said, self.share, passed = now, share, now - self.began
                left = passed * (1.0 - share) / share
                _complain(f"{task.description}: {share:.0%} in {passed:.0f} s, about {left:.0f} s left")

        def get_renderables(self) -> Iterable[Any]:
            if self.moving is not None:
                self.moving()
            return super().get_renderables()

    console = Console(stderr=True, highlight=False)
    return Moving(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Cells are shown as they are: no markup, or "[s]" would vanish."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    def cell(content: Any) -> Text:
        return content if isinstance(content, Text) else Text(str(content))

    heading = Text(title, "bold", no_wrap=True, overflow="ignore") if title else None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=heading, title_justify="left")
    for column in columns:
        table.add_column(cell(column), overflow="fold")
    for row in rows:
        table.add_row(*map(cell, row))
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


def _verdicts(findings: Sequence[Finding], what: str = "claim", failures: Mapping[str, str] | None = None) -> Table:
    from rich.text import Text

    from ecc._support.display import number_text
    from ecc.claims.report.text import judged, unexpected

    rows = []
    for finding in findings:
        paired = [measurement for measurement in finding.measurements if measurement.reported is not None]
        pair = next((m for m in paired if not isinstance(m.reported, str)), paired[0] if paired else None)
        shown = ""
        if pair is not None:
            shown = f"{pair.name}: {number_text(pair.reported)} → {number_text(pair.value)} {pair.unit}".strip()
        verdict = Text(judged(finding), style=_STYLES[finding.verdict])
        rows.append((Text(finding.claim.id, no_wrap=True), verdict, shown, finding.reason, unexpected(finding)))
    failed = Text("failed", style=_STYLES["failed"])
    rows += [(Text(key, no_wrap=True), failed, "", error, "") for key, error in (failures or {}).items()]
    if what == "case":
        return _table("", ("case", "verdict", "reason"), [(*row[:2], row[3]) for row in rows])
    heads = ("claim", "verdict", "published → found", "reason", "yet")
    return _table("", *((heads, rows) if any(row[-1] for row in rows) else (heads[:-1], [row[:-1] for row in rows])))


def _summary(run: Trajectory, case: Scenario) -> dict[str, Any]:
    """What a run came to: means over its samples, and over the last tenth of them; without samples there are none."""
    from ecc.results.metrics import utilization

    data = run.data
    n_flows, n_links = (data.sizes.get(name, 0) if data.sizes["time"] else 0 for name in ("flow", "link"))
    tail = data.isel(time=slice(-max(1, data.sizes["time"] // 10), None))
    protocols = _protocol_names(case)
    flows = [
        {
            "flow": k,
            "protocol": protocols[k],
            "mean_rate": float(data["rate"][:, k].mean()),
            "last_rate": float(tail["rate"][:, k].mean()),
        }
        for k in range(n_flows)
    ]
    links = [
        {
            "link": k,
            "capacity": case.network.links[k].capacity,
            "utilization": utilization(run, case, k),
            "mean_queue": float(data["queue_mean" if "queue_mean" in data else "queue"][:, k].mean()),
            "peak_queue": float(data["queue_max" if "queue_max" in data else "queue"][:, k].max()),
            **{what: float(data[what][:, k].sum()) if what in data else 0.0 for what in ("drops", "marks")},
        }
        for k in range(n_links)
    ]
    rows = run.transfers["completion_time"]
    transfers = {
        "rows": len(rows), "completed": int(rows.notna().sum()),
        "mean_completion_time": float(rows.mean()) if rows.notna().any() else None,
    }  # fmt: skip
    simulated = float(data["time"][-1]) if data.sizes["time"] else 0.0
    return {
        "engine": data.attrs.get("engine", ""), "protocol": data.attrs.get("protocol", ""), "stopped": run.stopped,
        "simulated": simulated, "flows": flows, "links": links, "transfers": transfers, "stats": dict(run.stats),
    }  # fmt: skip


def _protocol_names(case: Scenario) -> list[str]:
    """The protocol of each flow, with its parameters where one class has several."""
    from ecc.contract.parameters import label

    flows = case.deployment.flows
    labels = {id(one): label(one) for one in flows}
    names = {key: name.partition("(")[0] for key, name in labels.items()}
    chosen = labels if len(set(labels.values())) > len(set(names.values())) else names
    return [chosen[id(one)] for one in flows]


def _summary_tables(summary: dict[str, Any]) -> list[Table]:
    def mbps(*rates: float) -> list[str]:
        return [f"{rate / 1e6:.4f}" for rate in rates]

    def share(part: float | None) -> str:
        return "" if part is None else f"{part:.1%}"

    flows = summary["flows"]
    shown = flows if len(flows) <= _SHOWN else flows[: _SHOWN - 1]
    several = len({row["protocol"] for row in flows}) > 1
    rows = [
        [row["flow"], *([row["protocol"]] if several else []), *mbps(row["mean_rate"], row["last_rate"])]
        for row in shown
    ]
    rest = flows[len(shown) :]
    if rest:
        means = [sum(row[key] for row in rest) / len(rest) for key in ("mean_rate", "last_rate")]
        rows.append([f"mean of {len(rest)} others", *([""] if several else []), *mbps(*means)])
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
        for row in summary["links"]
    ]
    title = f"{summary['protocol']}, {summary['engine']} run of {summary['simulated']:g} s"
    heads = ("flow", *(["protocol"] if several else []), "mean rate [Mb/s]", "in the last tenth [Mb/s]")
    of_links = (
        "link", "capacity [Mb/s]", "utilization", "mean queue [bytes]", "peak queue [bytes]", "drops [packets]",
        *(["marks [packets]"] if has_marks else []),
    )  # fmt: skip
    tables = [_table(title, heads, rows), _table("", of_links, queues)]
    transfers = summary["transfers"]
    if transfers["rows"]:
        mean = transfers["mean_completion_time"]
        row = [transfers["rows"], transfers["completed"], "" if mean is None else f"{mean:.4g}"]
        tables.append(_table("", ("transfers", "completed", "mean completion time [s]"), [row]))
    return tables


_SHOWN = 20  # rows of flows


if __name__ == "__main__":
    sys.exit(main())
