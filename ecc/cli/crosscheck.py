"""`ecc crosscheck` and `ecc reproduce`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecc.cli.app import app, examples
from ecc.cli.examine import examine_and_report
from ecc.cli.options import AsJson, Dataset, Fresh, Jobs, Kept, Names, OnCluster, Out
from ecc.cli.work import result_store

if TYPE_CHECKING:
    from ecc._support.store import Store
    from ecc.claims.crosscheck import Outcome
    from ecc.claims.ledger import Claim
    from ecc.claims.report.output import Report

__all__ = ["crosscheck", "reproduce"]


@app.command(
    short_help="Re-check the theorems of the papers; write a report.",
    epilog=examples("ecc crosscheck", "ecc crosscheck piqi-rcp"),
)
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


@app.command(
    short_help="Check all claims, simulations included.",
    epilog=examples("ecc reproduce bbr-share --quick", "ecc reproduce live"),
)
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
    results = result_store(store, fresh)
    return _examine_claims("reproduce", names or (), selected, out, (jobs, cluster), json, results, quick, dataset)


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

    return examine_and_report(work, report, len(selected), out, where, json, store, dataset=dataset)
