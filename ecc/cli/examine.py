"""Checks of claims or cases with progress, a report and a table of verdicts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecc._support.files import make_folder
from ecc.cli.app import FAILED, INTERRUPTED, UNWRITTEN
from ecc.cli.output import complain, error_of_writing, print_verdicts, progress_bar
from ecc.cli.work import begin_work, end_work, show_resumed, started_workers

if TYPE_CHECKING:
    from ecc._support.store import Store
    from ecc.claims.crosscheck import Outcome
    from ecc.claims.ledger import Claim, Finding
    from ecc.claims.report.output import Report

__all__ = ["examine_and_report"]


def examine_and_report(
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

    Of cases, those that do not apply get no row: `not_applying` has a line or more for all of them.
    """
    from time import monotonic

    from ecc._support.workers import worker_count
    from ecc.claims.crosscheck import Costs, Pace
    from ecc.claims.ledger import Verdict
    from ecc.claims.report.dataset import write_dataset
    from ecc.claims.report.output import as_json, report_folder, write_report
    from ecc.claims.report.text import judged

    for wanted in (out, *([dataset] if dataset else [])):
        make_folder(wanted)  # refused now rather than after the work
    begin_work()
    with started_workers(*where) as workers, progress_bar() as bar:
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
                show_resumed(done, count, "case" if what == "case" else "job", store.path)
            first = False
            if done == count:
                end_work()
            pace.step(costs, monotonic())
            bar.update(task, description=f"jobs {done}/{count}")

        result = work(workers, report_progress, step)
        end_work()
    if result.interrupted:
        resumes = store is not None and store.trouble is None
        complain(
            f"{'ended' if result.lost else 'interrupted'} after {len(result.findings)} of {many} {what}s"
            + (f": {result.lost}" if result.lost else "")
            + ("; the same command resumes there" if resumes else "")
            + ("; results up to then:" if result.findings else "")
        )
    report = report_of(result)
    folder = report_folder(report, out)
    unwritten = error_of_writing(write_report, report, folder)
    if dataset is not None and not report.partial:  # one that is whole may be there
        unwritten = unwritten or error_of_writing(write_dataset, report, dataset)
    if json:
        print(as_json(report))
    elif result.findings or result.failures:
        shown = [item for item in result.findings if what != "case" or item.verdict is not Verdict.NOT_COMPARABLE]
        if shown or result.failures:
            print_verdicts(shown, what, result.failures)
        for line in not_applying():
            print(line)
    for trouble in (unwritten, None if store is None else store.trouble):
        if trouble:
            complain(str(trouble))
    if unwritten is None:
        written = f"report: {folder / 'report.html'}\nresults: {folder / 'results.json'}"
        if dataset is not None and not report.partial:
            written += f"\ndata set: {dataset / 'datapackage.json'}"
        print(written, file=sys.stderr if json else sys.stdout)
    for key, error in result.failures.items():
        complain(f"{what} {key} failed: {error}")
    if result.interrupted:
        return FAILED if result.lost else INTERRUPTED
    return UNWRITTEN if unwritten else FAILED if result.failures else 0
