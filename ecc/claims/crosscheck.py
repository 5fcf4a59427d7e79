"""Run the checks of claims in worker processes; completed findings survive failures and interruptions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from ecc._support.arguments import check_arguments
from ecc._support.digests import code_digest, digest
from ecc._support.quantity import as_count
from ecc._support.reports import ProgressCallback, Step, takes
from ecc._support.store import Store
from ecc._support.workers import Call, WorkerDied, WorkersLost, in_workers, worker_count
from ecc.claims import catalog, experiments
from ecc.claims.experiments import Job
from ecc.claims.ledger import Check, Claim, Finding
from ecc.claims.provenance import environment
from ecc.errors import EccError

__all__ = ["CrosscheckError", "Outcome", "crosscheck", "error_line", "examine"]

Progress = Callable[[Claim, Finding | None], None]
"""Called with each claim and its finding when its check ends; the finding is None if the check failed."""


@dataclass(frozen=True)
class Costs:
    """Declared durations of jobs, s: completed jobs, jobs that may be running, and all jobs."""

    done: float
    running: float
    total: float


Steps = Callable[[int, int, Costs], None]
"""Called with the number of completed jobs, the number of all jobs, and their costs."""


class Pace:
    """Progress of the work, by the declared costs of completed jobs; between completions it extrapolates the pace.

    Parameters
    ----------
    workers : int
        Number of processes; until a pace is measured, each is taken to do one second of declared cost per second.
    """

    def __init__(self, workers: int) -> None:
        self._costs, self._pace = Costs(0.0, 0.0, 1.0), float(workers)
        self._began: float | None = None
        self._last = self._before = 0.0

    def step(self, costs: Costs, now: float) -> None:
        """Record that jobs have begun or ended.

        Parameters
        ----------
        costs : Costs
        now : float, s
        """
        if self._began is None:  # stored results took no time
            self._began, self._before = now, costs.done
        elif costs.done > self._before and now > self._began:
            self._pace = (costs.done - self._before) / (now - self._began)
        self._costs, self._last = costs, now

    def share(self, now: float) -> float:
        """Return the completed share of the work, from 0 to 1.

        Parameters
        ----------
        now : float, s
        """
        costs = self._costs
        under_way = min(self._pace * (now - self._last), _MAX_SHARE * costs.running) if self._began is not None else 0.0
        return (costs.done + under_way) / costs.total if costs.total else 1.0


_JOBS = 2  # worker processes by default
_MAX_SHARE = 0.95  # maximum share of running jobs that the progress bar counts as done


@dataclass(frozen=True)
class Outcome:
    """Result of a crosscheck.

    `findings` are in the requested order; `failures` (claim id -> error in one line) are the checks that raised;
    `interrupted` is true if Ctrl-C or the loss of a cluster ended it early; `lost` tells how the cluster was lost.
    """

    findings: list[Finding]
    failures: dict[str, str]
    interrupted: bool = False
    lost: str = ""


class CrosscheckError(EccError):
    """Some checks raised, or the crosscheck was interrupted; `outcome` holds the completed findings."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


def judged(progress: ProgressCallback | None, count: int) -> Progress | None:
    """Return the function that reports judged claims to a `progress` callback.

    A callback of two arguments gets the claim and its finding, None if the check failed.

    Parameters
    ----------
    progress : callable or None
    count : int
        Number of all claims.
    """
    if progress is None or takes(progress, 2):
        former: Any = progress
        return former  # type: ignore[no-any-return]
    done = 0

    def report(claim: Claim, finding: Finding | None) -> None:
        nonlocal done
        done += 1
        progress(Step(f"{claim.id}: {'failed' if finding is None else finding.verdict}", done / count))

    return report


@check_arguments(former={"jobs": "executor"})
def crosscheck(
    names: Sequence[str] = (), executor: Executor | int | None = None, progress: ProgressCallback | None = None
) -> list[Finding]:
    """Return the findings on the claims that `names` select, in the order of the ledger.

    Parameters
    ----------
    names : sequence of str, optional
        Protocol names or claim ids, for example "QI-RCP" or "qi-7"; all claims if empty.
    executor : Executor or int, >= 1, optional
        Number of worker processes, or an executor such as `ecc.cluster.Cluster`. None: 2 processes.
    progress : callable, optional
        Called when each check ends with a `Progress`: "ID: verdict" as `text`, and the share of checks that ended.

    Raises
    ------
    ValueError
        A name is neither a protocol nor a claim, or executor < 1.
    CrosscheckError
        A check raised, Ctrl-C was pressed, or a cluster was lost; its `outcome` holds all completed findings.
    """
    workers = _JOBS if executor is None else executor
    if not isinstance(workers, Executor):
        as_count(workers, "executor", minimum=1)
    claims = catalog.select(names)
    outcome = examine(claims, workers, judged(progress, len(claims)))
    if outcome.failures:
        raise CrosscheckError(describe(outcome.failures), outcome)
    if outcome.lost:
        raise CrosscheckError(f"{outcome.lost}; {len(outcome.findings)} claims were checked before", outcome)
    if outcome.interrupted:
        raise CrosscheckError(f"crosscheck was interrupted after {len(outcome.findings)} claims", outcome)
    return outcome.findings


def describe(failures: dict[str, str]) -> str:
    """Return one line that lists the failed checks with their errors.

    Parameters
    ----------
    failures : dict
        Claim id -> error in one line.
    """
    return "; ".join(f"check of claim {key} failed: {error}" for key, error in failures.items())


def examine(
    claims: Sequence[Claim],
    jobs: Executor | int = _JOBS,
    progress: Progress | None = None,
    store: Store | None = None,
    quick: bool = False,
    steps: Steps | None = None,
    checks: Mapping[str, Check] | None = None,
) -> Outcome:
    """Check claims in parallel; if a check raises or Ctrl-C is pressed, completed findings are kept.

    A claim is one job (its check), or one job for each run if it has an experiment. Expensive jobs begin first.

    Parameters
    ----------
    claims : sequence of Claim
        Claims, each with a registered check or an experiment.
    jobs : Executor or int, >= 1, optional
        Number of worker processes, or an executor such as `ecc.batch.cluster.Cluster`.
    progress : Progress, optional
        Called as progress(claim, finding) when each claim is judged, with None as the finding if it failed.
    store : Store, optional
        Store of results: stored results are reused, new ones are added. If None, nothing is stored.
    quick : bool, optional
        Run experiments with fewer seeds and in their short form.
    steps : Steps, optional
        Called as steps(done, of, costs) before the first job and after each completed job.
    checks : mapping, optional
        Id of a claim -> function that checks it, instead of the checks of the ledger. A result is stored under the code
        of the function's module and, if it has `identity`, the text that identity(claim) returns.

    Returns
    -------
    Outcome

    Raises
    ------
    ValueError
        Jobs < 1, or an experiment has an unknown name.
    """
    if not isinstance(jobs, Executor):
        as_count(jobs, "jobs", minimum=1)
    table = catalog.checks() if checks is None else checks
    plans = {claim.id: _plan(claim, table, quick, store is not None) for claim in claims}
    by_id = {claim.id: claim for claim in claims}
    results: dict[str, list[Any]] = {key: [None] * len(plan) for key, plan in plans.items()}
    pending = {key: len(plan) for key, plan in plans.items()}
    findings: dict[str, Finding] = {}
    failures: dict[str, str] = {}
    done, count = 0, sum(pending.values())

    def take(key: str, index: int, result: Any, error: BaseException | None = None) -> None:
        nonlocal done
        done += 1
        pending[key] -= 1
        results[key][index] = result
        if error is not None and key not in failures:
            failures[key] = error_line(error, str(error.__cause__))
        if pending[key]:
            return
        if key not in failures:
            try:
                findings[key] = _judge(by_id[key], plans[key], results[key], quick)
            except Exception as trouble:
                failures[key] = error_line(trouble, str(trouble.__cause__))
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
    """Run a job in a worker and add the worker's environment, so that stored results keep it."""
    result: dict[str, Any] = work(*arguments)
    return result | {"environment": dict(environment())}


def error_line(error: BaseException, trace: str) -> str:
    """Return kind, message and location of an error; for a dead process, only how it died.

    Parameters
    ----------
    error : BaseException
    trace : str
        Traceback of the process that raised the error, from which the location is read.
    """
    if isinstance(error, WorkerDied):
        return " ".join(str(error).split())
    frames = re.findall(r'File "([^"]+)", line (\d+)', trace)
    where = f" ({Path(frames[-1][0]).name}, line {frames[-1][1]})" if frames else ""
    return " ".join(f"{type(error).__name__}: {error}{where}".split())


def _run(check: Check, claim: Claim) -> dict[str, Any]:
    begin = perf_counter()
    finding = check(claim)
    return replace(finding, seconds=perf_counter() - begin).to_dict()
