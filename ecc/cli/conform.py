"""`ecc conform`."""

from __future__ import annotations

import shlex
import sys
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecc._support.files import make_folder, replacing
from ecc.cli.app import BAD_INPUT, REFUTED, app, examples
from ecc.cli.examine import examine_and_report
from ecc.cli.options import AsJson, Fresh, Jobs, Kept, OnCluster, Out
from ecc.cli.output import complain, print_items, print_json, progress_bar, table_of
from ecc.cli.parsing import protocol_of
from ecc.cli.work import result_store

if TYPE_CHECKING:
    from ecc.claims.crosscheck import Outcome
    from ecc.claims.report.output import Report
    from ecc.conform import Divergence
    from ecc.models import Protocol

__all__ = ["conform"]


@app.command(
    short_help="Run the conformance cases that apply to a protocol.",
    epilog=examples("ecc conform CUBIC", "ecc conform ./mine.so --case cubic", "ecc conform mine.py:Mine --rfc9743"),
)
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
    rfc9743: Annotated[
        bool,
        typer.Option(
            "--rfc9743",
            help="Only the cases of RFC 9743 (BCP 133), with a report in the order of its criteria.",
        ),
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Value of a parameter; may be given again."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="REFERENCE",
            help="Instead of cases: when variables of the protocol and of a reference first differ, on the same ACKs.",
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
            help="Instead of cases: when the trace of a stack and the protocol first differ, on the same ACKs.",
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

    chosen = protocol_of(protocol, settings or ())
    if rfc9743 and case:
        raise ValueError("case needs no --rfc9743, which names the cases itself")
    case = ["rfc9743"] if rfc9743 else case
    if qlog is not None and (against is not None or case or scenario is not None):
        raise ValueError("qlog takes no --against, --case, --rfc9743 or --scenario: the trace has packets and ACKs")
    if against is not None and case:
        raise ValueError(f"{'rfc9743' if rfc9743 else 'case'} needs no --against, which runs no case")
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
        return _compare(chosen, protocol_of(against, of_reference or (), "--against-set"), scenario, out, json)
    selected = cases(case or ())
    results = result_store(store, fresh)
    command = ["ecc", "conform", protocol, *(word for setting in settings or () for word in ("--set", setting))]
    chosen_cases = ["--rfc9743"] if rfc9743 else [word for name in case or () for word in ("--case", name)]
    line = shlex.join([*command, *chosen_cases])
    outcomes: list[Conformance] = []

    def report(result: Outcome) -> Report:
        outcomes.append(Conformance(chosen, result.findings, result.failures, result.interrupted))
        return conformance_report(outcomes[0], line, shlex.join([*command, "--case"]))

    def work(workers: Executor | int, progress: Any, steps: Any) -> Outcome:
        return examined(chosen, selected, workers, progress, steps, results)

    code = examine_and_report(
        work,
        report,
        len(selected),
        out,
        (jobs, cluster),
        json,
        results,
        "case",
        not_applying=lambda: outcomes[0].not_applying,
    )
    if not code and not outcomes[0].applying:
        n_cases = f"{len(selected)} case{'s' if selected[1:] else ''}"
        complain(f"none of {n_cases} applies to {type(chosen).__name__}, which lacks what the findings name")
        return BAD_INPUT
    return code or (0 if outcomes[0].conforms else REFUTED)


def _compare(protocol: Protocol, reference: Protocol, scenario: Path | None, out: Path, json: bool) -> int:
    """Print where a protocol leaves a reference, and write the figure."""
    from ecc.conform import compare
    from ecc.contract.parameters import label
    from ecc.scenario import Scenario

    case = None if scenario is None else Scenario.from_toml(scenario)
    with progress_bar() as bar:
        task = bar.add_task("comparison", total=1.0)
        divergence = compare(protocol, reference, case, progress=lambda share: bar.update(task, completed=share))
    return _show_divergence(divergence, label(protocol), label(reference), out, json)


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


def _show_divergence(divergence: Divergence, name: str, reference: str, out: Path, json: bool) -> int:
    from dataclasses import asdict

    from ecc.plot.look import as_html

    make_folder(out)
    with replacing(out / "deviation.html") as part:
        part.write_text(as_html(divergence.figure()), encoding="utf-8")
    if json:
        deviations = [asdict(deviation) for deviation in divergence.deviations]
        lists = {name: list(getattr(divergence, name)) for name in ("compared", "lacking", "notes")}
        print_json({"deviations": deviations, **lists})
    else:
        rows = [
            (item.variable, f"{item.time:.6f}", item.hook, f"{item.value:.6g}", f"{item.reference:.6g}")
            for item in divergence.deviations
        ]
        heads = ("variable", "first at [s]", "hook", name, f"{reference}, same ACKs")
        print_items(*([table_of("", heads, rows)] if rows else []))
        print(divergence)
        for note in divergence.notes:
            print(f"note: {note}")
        if divergence.lacking:
            print(f"not compared, of the reference alone: {', '.join(divergence.lacking)}")
        print(f"figure: {out / 'deviation.html'}")
    return 0 if divergence.first is None else REFUTED
