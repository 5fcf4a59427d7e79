"""Runs of the conformance cases for one protocol, in this process or in several."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ecc._support.arguments import check_arguments, nearest, shown
from ecc._support.display import Displayed, Rows
from ecc._support.quantity import as_count
from ecc._support.reports import ProgressCallback
from ecc._support.store import Store
from ecc._support.workers import WorkersLost
from ecc.claims.catalog import checks
from ecc.claims.checks.conformance.laboratory import CASES, examine, identity, missing
from ecc.claims.crosscheck import Outcome, Progress, Steps, error_line, judged
from ecc.claims.crosscheck import examine as examine_claims
from ecc.claims.ledger import Claim, Finding, Verdict, claims
from ecc.claims.report.output import Report, write_report
from ecc.conform import criteria
from ecc.contract.parameters import label
from ecc.contract.protocol import Protocol
from ecc.errors import warn
from ecc.scenario import protocol_class

__all__ = ["Conformance", "cases", "conformance_report", "examined", "run"]

INTRODUCTION = (
    "Each case runs the controller in the packet engine, in a separate scenario, and compares its behavior with the "
    "specification: numbers and bands are in the tables. Confirmed: all numbers are in their bands. Conditional: they "
    "are, under a condition that is named. Refuted: they are not. Cases that need a feature which the "
    "controller lacks do not apply; they are listed below the others."
)
SECTION = "conformance"


@dataclass(frozen=True, repr=False)
class Conformance(Displayed):
    """Findings of the cases on a protocol.

    `findings`: in the order of the ledger; `failures`: id of a case that raised -> its error in one line;
    `interrupted`: Ctrl-C ended the run before all cases were done.
    """

    protocol: Protocol
    findings: Sequence[Finding]
    failures: Mapping[str, str] = field(default_factory=dict)
    interrupted: bool = False

    def _title(self) -> str:
        return f"Conformance of {label(self.protocol)}: {'conforms' if self.conforms else 'does not conform'}"

    def _rows(self) -> Rows:
        rows = [(finding.claim.id, f"{finding.verdict}. {finding.reason}") for finding in self.applying]
        rows += [(key, f"failed. {error}") for key, error in self.failures.items()]
        rows += [("other cases", line) for line in self.not_applying]
        return [*rows, *([("interrupted", "results up to then")] if self.interrupted else [])]

    @property
    def applying(self) -> list[Finding]:
        """Findings of the cases that apply."""
        return [finding for finding in self.findings if finding.verdict is not Verdict.NOT_COMPARABLE]

    @property
    def not_applying(self) -> list[str]:
        """Features that the protocol lacks for cases that do not apply: a line for each group of ids."""
        groups: dict[str, list[str]] = {}
        for finding in self.findings:
            if finding.verdict is Verdict.NOT_COMPARABLE:
                groups.setdefault(finding.claim.id.partition("-")[0], []).append(finding.claim.id)
        lines = []
        for group, ids in groups.items():
            needs = dict.fromkeys(need for key in ids for need in CASES[key].needs)
            subject = f"{group}-*: {len(ids)} cases do" if ids[1:] else f"{ids[0]}: does"
            lines.append(f"{subject} not apply: {', '.join(missing(self.protocol, list(needs)))}")
        return lines

    @property
    def conforms(self) -> bool:
        """True if cases apply, and none of them is refuted or has failed."""
        applying = self.applying
        refuted = any(finding.verdict is Verdict.REFUTED for finding in applying)
        return bool(applying) and not self.failures and not refuted

    def __getitem__(self, case_id: str) -> Finding:
        for finding in self.findings:
            if finding.claim.id == case_id:
                return finding
        raise KeyError(case_id)

    @check_arguments
    def write(self, directory: str | Path) -> tuple[Path, Path]:
        """Write the report, with all figures, as a page, as Markdown and as JSON; return page and JSON.

        Parameters
        ----------
        directory : str or Path
        """
        return write_report(conformance_report(self), directory)


@check_arguments
def cases(names: Sequence[str] = ()) -> list[Claim]:
    """Return the available cases, as claims of the ledger.

    Parameters
    ----------
    names : sequence of str, optional
        Ids, or prefixes of ids, for example "bbr" or "cubic-spur". None: all.

    Returns
    -------
    list of Claim
        Cases in the order of the ledger; `id` names each.

    Raises
    ------
    ValueError
        If a name matches no case.

    Examples
    --------
    >>> [case.id for case in cases(["bbr-drain"])]
    ['bbr-drain-inflight', 'bbr-drain-time']
    """
    checks()
    available = {key: claim for key, claim in claims().items() if key in CASES}
    chosen: set[str] = set()
    for name in names:
        begun = {key for key in available if name and key.startswith(name)}
        if not begun:
            groups = ", ".join(dict.fromkeys(key.split("-")[0] for key in available))
            raise ValueError(
                f"case must be one of {groups}, or an id such as {next(iter(available))}, got {shown(name)}"
                f"{nearest(name, dict.fromkeys(available, ''))}"
            )
        chosen |= {name} if name in available else begun
    return [claim for key, claim in available.items() if not names or key in chosen]


@check_arguments(former={"jobs": "executor"})
def run(
    protocol: Protocol | str,
    cases: Sequence[str] = (),
    executor: Executor | int | None = None,
    progress: ProgressCallback | None = None,
    store: str | Path | None = None,
) -> Conformance:
    """Return the findings of the cases on a protocol.

    Parameters
    ----------
    protocol : Protocol or str
        Protocol; or the name of one, or "module:Class" or "file.py:Class" of a custom one, with its default parameters.
    cases : sequence of str, optional
        Ids of cases, or prefixes of ids, for example "bbr". None: all.
    executor : Executor or int, >= 1, optional
        Number of worker processes, or an executor such as `ecc.cluster.Cluster`. None or 1: this process.
    progress : callable, optional
        Called when each case ends with a `Progress`: "ID: verdict" as `text`, and the share of cases that ended. A
        function of two arguments gets the case and its finding.
    store : str or Path, optional
        File (or a folder, for its "results.sqlite") that stores each finding under the code of case and protocol, and
        its parameters; a later call runs only missing cases. With a store, cases always run in worker
        processes.

    Returns
    -------
    Conformance

    Raises
    ------
    ValueError
        If there is no such protocol or case, if executor < 1, or if the store is a file of another kind.
    WorkersLost
        If an executor cannot continue.

    Warns
    -----
    RuntimeWarning
        If the store cannot be written, or if the protocol depends on objects that cannot be compared; the result is
        complete.

    Examples
    --------
    >>> result = run("BBR", cases=["bbr-startup-plateau"])
    >>> result.conforms, str(result["bbr-startup-plateau"].verdict)
    (True, 'confirmed')
    """
    chosen: Protocol = protocol_class(protocol)() if isinstance(protocol, str) else protocol
    selected = _cases(cases)
    workers = 1 if executor is None else executor
    report = judged(progress, len(selected))
    if store is not None or isinstance(workers, Executor) or as_count(workers, "executor", minimum=1) > 1:
        open_store = None if store is None else Store(store)
        outcome = examined(chosen, selected, workers, report, store=open_store)
        if open_store is not None and open_store.trouble is not None:
            warn(open_store.trouble)
        if outcome.lost:
            raise WorkersLost(outcome.lost)
        return Conformance(chosen, outcome.findings, outcome.failures, outcome.interrupted)
    findings: list[Finding] = []
    failures: dict[str, str] = {}
    for claim in selected:
        finding = None
        try:
            finding = examine(claim.id, claim, chosen)
            findings.append(finding)
        except KeyboardInterrupt:
            return Conformance(chosen, findings, failures, interrupted=True)
        except Exception as error:  # the failure of one case must not end the others
            failures[claim.id] = error_line(error, traceback.format_exc())
        if report is not None:
            report(claim, finding)
    return Conformance(chosen, findings, failures)


_cases = cases


def examined(
    protocol: Protocol,
    selected: Sequence[Claim],
    jobs: Executor | int,
    progress: Progress | None = None,
    steps: Steps | None = None,
    store: Store | None = None,
) -> Outcome:
    """Return the findings of cases in worker processes; if a case raises, or at Ctrl-C, the other findings remain.

    Parameters
    ----------
    protocol : Protocol
    selected : sequence of Claim
    jobs : Executor or int, >= 1
    progress, steps : callable, optional
        As in `ecc.claims.crosscheck.examine`.
    store : Store, optional
        Store of findings, under the case and the protocol's identity: its code, parameters and names of states. If the
        identity cannot be computed, the findings are not stored, and `store.trouble` has the reason.
    """
    of_protocol = ""
    if store is not None:
        try:
            of_protocol = identity(protocol)
        except TypeError as error:
            store.trouble, store = f"results are not kept: {error}", None
    checks_of_cases: dict[str, Any] = {}
    for claim in selected:
        checks_of_cases[claim.id] = partial(_examined, protocol)
        checks_of_cases[claim.id].__module__ = CASES[
            claim.id
        ].function.__module__  # a stored result depends on the code of this module
        checks_of_cases[claim.id].cost, checks_of_cases[claim.id].identity = (
            CASES[claim.id].cost,
            partial(_identity_of_protocol, of_protocol),
        )
    about = [replace(claim, protocols=(type(protocol).__name__,)) for claim in selected]
    return examine_claims(about, jobs, progress, store, steps=steps, checks=checks_of_cases)


def _identity_of_protocol(identity: str, claim: Claim) -> str:
    return identity


def _examined(protocol: Protocol, claim: Claim) -> Finding:
    checks()
    with warnings.catch_warnings():  # a finding reports why its runs ended
        warnings.filterwarnings("ignore", "the run ended at", RuntimeWarning)
        return examine(claim.id, claim, protocol)


def conformance_report(result: Conformance, command: str = "", again: str = "") -> Report:
    """Return the report on the findings of the cases; if they are those of RFC 9743, by its criteria.

    Parameters
    ----------
    result : Conformance
    command, again : str, optional
        Command that made the report, and the command that runs a case again when followed by its id.
    """
    name, of = type(result.protocol).__name__, label(result.protocol)
    examined_ids = {finding.claim.id for finding in result.findings} | set(result.failures)
    evaluates = examined_ids == {key for criterion in criteria.RFC9743 for key in criterion.ids}
    return Report(
        result.findings,
        command or f"ecc conform {name}",
        result.interrupted,
        failures=result.failures,
        title=f"Evaluation of {of} by RFC 9743" if evaluates else f"Conformance of {of}",
        introduction=criteria.INTRODUCTION if evaluates else INTRODUCTION,
        again=again or f"ecc conform {name} --case",
        noun="case",
        not_applying=result.not_applying,
        criteria=criteria.RFC9743 if evaluates else (),
    )
