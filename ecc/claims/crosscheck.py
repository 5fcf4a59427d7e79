"""Runs the checks of claims in worker processes and loses nothing that any of them found."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context
from pathlib import Path
from time import perf_counter

from ecc.claims import catalog
from ecc.claims.ledger import Check, Claim, Finding
from ecc.errors import EccError
from ecc.quantity import as_count

__all__ = ["CrosscheckError", "Outcome", "crosscheck", "examine"]

Progress = Callable[[Claim, Finding | None], None]
"""Called with each claim as its check ends; with None for a check that failed."""


@dataclass(frozen=True)
class Outcome:
    """What a crosscheck came to.

    `findings` are in the order asked for; `failures` (claim id -> error in one line) are the checks that raised;
    `interrupted`: Ctrl-C ended it before all were done.
    """

    findings: list[Finding]
    failures: dict[str, str]
    interrupted: bool = False


class CrosscheckError(EccError):
    """Some checks raised, or the crosscheck was interrupted; `outcome` holds what was found."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


def crosscheck(names: Sequence[str] = (), jobs: int = 2, progress: Progress | None = None) -> list[Finding]:
    """Return the findings on the claims that `names` ask for, in the order of the ledger.

    Parameters
        names : protocol names or claim ids; all if none.
        jobs : int, >= 1. Worker processes.
        progress : called as progress(claim, finding) when each check ends (finding None: it failed), or None.
    Raises
        ValueError: a name that is neither a protocol nor a claim.
        CrosscheckError: a check raised, or Ctrl-C was pressed; its `outcome` holds everything that was finished.
    """
    outcome = examine(catalog.select(names), jobs, progress)
    if outcome.failures:
        raise CrosscheckError(describe(outcome.failures), outcome)
    if outcome.interrupted:
        raise CrosscheckError(f"crosscheck was interrupted after {len(outcome.findings)} claims", outcome)
    return outcome.findings


def describe(failures: dict[str, str]) -> str:
    """Return one line that names the claims whose checks failed, and why.

    Parameters
        failures : claim id -> error in one line.
    """
    return "; ".join(f"check of claim {key} failed: {error}" for key, error in failures.items())


def examine(claims: Sequence[Claim], jobs: int = 2, progress: Progress | None = None) -> Outcome:
    """Check claims in parallel; neither a check that raises nor Ctrl-C loses what the others found.

    A check may carry the attribute `cost`, about how many seconds it takes: the slowest begin first.

    Parameters
        claims : sequence of Claim, each with a registered check.
        jobs : int, >= 1. Worker processes.
        progress : called as progress(claim, finding) when each check ends (finding None: it failed), or None.
    Returns
        Outcome.
    Raises
        ValueError: jobs < 1.
    """
    as_count(jobs, "jobs", minimum=1)
    table = catalog.checks()
    queue = sorted(claims, key=lambda claim: -float(getattr(table[claim.id], "cost", 0.0)))
    if not queue:
        return Outcome([], {})
    findings: dict[str, Finding] = {}
    failures: dict[str, str] = {}
    interrupted = False
    others = set(active_children())
    pool = ProcessPoolExecutor(min(jobs, len(queue)), mp_context=get_context("spawn"), initializer=_prepare_worker)
    running: dict[Future[Finding], Claim] = {}
    try:
        running = {pool.submit(_run, table[claim.id], claim): claim for claim in queue}
        for future in as_completed(running):
            claim = running[future]
            error = future.exception()
            if error is None:
                findings[claim.id] = future.result()
            else:
                failures[claim.id] = _one_line(error)
            if progress is not None:
                progress(claim, findings.get(claim.id))
    except KeyboardInterrupt:
        interrupted = True
        for worker in set(active_children()) - others:
            worker.terminate()
    finally:
        pool.shutdown(cancel_futures=True)
    for future, claim in running.items():  # what ended while the interrupt was on its way
        if interrupted and not future.cancelled() and future.exception() is None:
            findings[claim.id] = future.result()
    return Outcome([findings[claim.id] for claim in claims if claim.id in findings], failures, interrupted)


def _prepare_worker() -> None:
    """Leave Ctrl-C to the parent, and the cores to the other workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def _one_line(error: BaseException) -> str:
    """Kind, message and place: the worker sends its traceback as the cause."""
    places = re.findall(r'File "([^"]+)", line (\d+)', str(error.__cause__))
    place = f" ({Path(places[-1][0]).name}, line {places[-1][1]})" if places else ""
    return " ".join(f"{type(error).__name__}: {error}{place}".split())


def _run(check: Check, claim: Claim) -> Finding:
    begin = perf_counter()
    finding = check(claim)
    return replace(finding, seconds=perf_counter() - begin)
