"""Runs the checks of claims in worker processes and loses nothing that any of them found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from ecc.claims import catalog, experiments
from ecc.claims.experiments import Job
from ecc.claims.ledger import Check, Claim, Finding
from ecc.claims.provenance import environment
from ecc.digests import code_digest, digest
from ecc.errors import EccError
from ecc.quantity import as_count
from ecc.store import Store
from ecc.workers import Call, WorkerDied, WorkersLost, in_workers, worker_count

__all__ = ["CrosscheckError", "Outcome", "crosscheck", "examine"]

Progress = Callable[[Claim, Finding | None], None]
"""Called with each claim as its check ends; with None for a check that failed."""


@dataclass(frozen=True)
class Costs:
    """Declared seconds of jobs: of those that are `done`, of those that may be `running`, and of all."""

    done: float
    running: float
    total: float


Steps = Callable[[int, int, Costs], None]
"""Called with the number of jobs that are done, how many there are, and what they cost."""


class Pace:
    """How much of the work is done, job by job as they are declared to cost, and between two ends by the pace so far.

    Parameters
    ----------
    workers : int
        Processes, each of which does a second of its job in a second until the pace is known.
    """

    def __init__(self, workers: int) -> None:
        self._costs, self._pace = Costs(0.0, 0.0, 1.0), float(workers)
        self._began: float | None = None
        self._last = self._before = 0.0

    def step(self, costs: Costs, now: float) -> None:
        """Take note that jobs have begun or ended.

        Parameters
        ----------
        costs : Costs
        now : float, s
        """
        if self._began is None:  # what was in the store took no time
            self._began, self._before = now, costs.done
        elif costs.done > self._before and now > self._began:
            self._pace = (costs.done - self._before) / (now - self._began)
        self._costs, self._last = costs, now

    def share(self, now: float) -> float:
        """Return the share of the work that is done, from 0 to 1.

        Parameters
        ----------
        now : float, s
        """
        costs = self._costs
        under_way = min(self._pace * (now - self._last), _AT_MOST * costs.running) if self._began is not None else 0.0
        return (costs.done + under_way) / costs.total if costs.total else 1.0


_AT_MOST = 0.95  # of jobs that run: how far the bar goes before they have ended


@dataclass(frozen=True)
class Outcome:
    """What a crosscheck came to.

    `findings` are in the requested order; `failures` (claim id -> error in one line) are the checks that raised;
    `interrupted`: Ctrl-C, or the loss of a cluster, ended it before all were done; `lost`: how the cluster was lost.
    """

    findings: list[Finding]
    failures: dict[str, str]
    interrupted: bool = False
    lost: str = ""


class CrosscheckError(EccError):
    """Some checks raised, or the crosscheck was interrupted; `outcome` holds what was found."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


def crosscheck(names: Sequence[str] = (), jobs: Executor | int = 2, progress: Progress | None = None) -> list[Finding]:
    """Return the findings on the claims that `names` ask for, in the order of the ledger.

    Parameters
    ----------
    names : sequence of str, optional
        Protocol names or claim ids; all if none.
    jobs : Executor or int, >= 1, optional
        Worker processes; or what has some, such as `ecc.cluster.Cluster`.
    progress : Progress, optional
        Called as progress(claim, finding) when each check ends (finding None: it failed), or None.

    Raises
    ------
    ValueError
        A name that is neither a protocol nor a claim.
    CrosscheckError
        A check raised, Ctrl-C was pressed, or a cluster was lost; its `outcome` holds everything that was finished.
    """
    outcome = examine(catalog.select(names), jobs, progress)
    if outcome.failures:
        raise CrosscheckError(describe(outcome.failures), outcome)
    if outcome.lost:
        raise CrosscheckError(f"{outcome.lost}; {len(outcome.findings)} claims were checked before", outcome)
    if outcome.interrupted:
        raise CrosscheckError(f"crosscheck was interrupted after {len(outcome.findings)} claims", outcome)
    return outcome.findings


def describe(failures: dict[str, str]) -> str:
    """Return one line that names the claims whose checks failed, and why.

    Parameters
    ----------
    failures : dict
        Claim id -> error in one line.
    """
    return "; ".join(f"check of claim {key} failed: {error}" for key, error in failures.items())


def examine(
    claims: Sequence[Claim],
    jobs: Executor | int = 2,
    progress: Progress | None = None,
    store: Store | None = None,
    quick: bool = False,
    steps: Steps | None = None,
    checks: Mapping[str, Check] | None = None,
) -> Outcome:
    """Check claims in parallel; neither a check that raises nor Ctrl-C loses what the others found.

    A claim is one job, its check, or, if it is about runs, a job for each run; the most expensive begin first.

    Parameters
    ----------
    claims : sequence of Claim
        Each with a registered check or an experiment.
    jobs : Executor or int, >= 1, optional
        Worker processes; or what has some, such as `ecc.cluster.Cluster`.
    progress : Progress, optional
        Called as progress(claim, finding) when each claim is judged (finding None: it failed), or None.
    store : Store, optional
        Store of results: what is in it is not done again, what is done is put there; None: no store.
    quick : bool, optional
        Experiments are made with fewer seeds and in their short form.
    steps : Steps, optional
        Called as steps(done, of, costs) before the first and after each job that is run.
    checks : mapping, optional
        Id of a claim -> function that checks it, in place of those of the ledger. Its result is kept by the code of its
        module, and, if it has `identity`, by the text that identity(claim) is.

    Returns
    -------
    Outcome

    Raises
    ------
    ValueError
        Jobs < 1; an experiment that names what there is not.
    """
    if not isinstance(jobs, Executor):
        as_count(jobs, "jobs", minimum=1)
    table = catalog.checks() if checks is None else checks
    plans = {claim.id: _plan(claim, table, quick, store is not None) for claim in claims}
    by_id = {claim.id: claim for claim in claims}
    results: dict[str, list[Any]] = {key: [None] * len(plan) for key, plan in plans.items()}
    left = {key: len(plan) for key, plan in plans.items()}
    findings: dict[str, Finding] = {}
    failures: dict[str, str] = {}
    done, count = 0, sum(left.values())

    def take(key: str, index: int, result: Any, error: BaseException | None = None) -> None:
        nonlocal done
        done += 1
        left[key] -= 1
        results[key][index] = result
        if error is not None and key not in failures:
            failures[key] = _one_line(error)
        if left[key]:
            return
        if key not in failures:
            try:
                findings[key] = _judge(by_id[key], plans[key], results[key], quick)
            except Exception as trouble:
                failures[key] = _one_line(trouble)
        if progress is not None:
            progress(by_id[key], findings.get(key))

    todo: dict[str, list[tuple[str, int]]] = {}  # one job may serve several claims
    work: dict[str, Job] = {}
    for key, plan in plans.items():
        for index, job in enumerate(plan):
            todo.setdefault(job.key, []).append((key, index))
            work[job.key] = job
    total = sum(job.cost for job in work.values())

    def report(unfinished: Sequence[str]) -> None:
        if steps is not None:
            costs = [work[name].cost for name in unfinished]
            steps(done, count, Costs(total - sum(costs), sum(costs[: worker_count(jobs)]), total))

    interrupted, lost = False, ""
    try:
        for name in list(todo):
            result = store.get(name) if store is not None else None
            if result is not None:
                for key, index in todo.pop(name):
                    take(key, index, result)
        queue = sorted(todo, key=lambda name: -work[name].cost)
        calls: list[Call] = [(_with_environment, (work[name].work, *work[name].arguments), {}) for name in queue]
        groups = [work[name].group for name in queue]
        unfinished = dict.fromkeys(queue)
        report(list(unfinished))
        workers = jobs if isinstance(jobs, Executor) else min(jobs, len(queue))
        with closing(in_workers(calls, workers, groups)) if queue else nullcontext(()) as ended:
            for k, result, error in ended:
                try:
                    if error is None and store is not None and "void" not in result:  # a live run may be made again
                        store.put(queue[k], result)
                finally:
                    for key, index in todo[queue[k]]:
                        take(key, index, result, error)
                    del unfinished[queue[k]]
                    report(list(unfinished))
    except KeyboardInterrupt:
        interrupted = len(findings.keys() | failures.keys()) < len(by_id)
    except WorkersLost as error:
        interrupted, lost = True, str(error)
    return Outcome([findings[claim.id] for claim in claims if claim.id in findings], failures, interrupted, lost)


def _plan(claim: Claim, table: Mapping[str, Check], quick: bool, kept: bool) -> list[Job]:
    if claim.experiment:
        return experiments.plan(claim, quick)
    check = table[claim.id]
    code = code_digest(check.__module__) if kept else ""
    identity = check.identity(claim) if kept and hasattr(check, "identity") else ""
    cost, group = float(getattr(check, "cost", 0.0)), str(getattr(check, "group", ""))
    key = digest(code, claim.id, claim.statement, claim.reported, *([identity] if identity else []))
    return [Job(key, _run, (check, claim), cost, group=group)]


def _judge(claim: Claim, plan: Sequence[Job], results: Sequence[Any], quick: bool) -> Finding:
    if claim.experiment:
        finding = experiments.judge(claim, plan, results, quick)
    else:
        finding = Finding.from_dict(claim, results[0])
    environments: list[Mapping[str, str]] = []
    for result in results:
        if result["environment"] not in environments:
            environments.append(result["environment"])
    return replace(finding, environments=environments)


def _with_environment(work: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Do a job in a worker, and note there what produced its result: a stored result keeps the note."""
    result: dict[str, Any] = work(*arguments)
    return result | {"environment": dict(environment())}


def _one_line(error: BaseException) -> str:
    """Kind, message and location: the worker sends its traceback as the cause. Of a process that died: how."""
    if isinstance(error, WorkerDied):
        return " ".join(str(error).split())
    frames = re.findall(r'File "([^"]+)", line (\d+)', str(error.__cause__))
    where = f" ({Path(frames[-1][0]).name}, line {frames[-1][1]})" if frames else ""
    return " ".join(f"{type(error).__name__}: {error}{where}".split())


def _run(check: Check, claim: Claim) -> dict[str, Any]:
    begin = perf_counter()
    finding = check(claim)
    return replace(finding, seconds=perf_counter() - begin).to_dict()
