"""Runs of the cases for one protocol, in this process or in several."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ecc._support.arguments import check_arguments, nearest, shown
from ecc._support.quantity import as_count
from ecc._support.store import Store
from ecc._support.workers import WorkersLost
from ecc.claims.catalog import checks
from ecc.claims.checks.conformance.laboratory import CASES, examine, identity, missing
from ecc.claims.crosscheck import Outcome, Progress, Steps
from ecc.claims.crosscheck import examine as examine_claims
from ecc.claims.ledger import Claim, Finding, Verdict, claims
from ecc.claims.report.output import Report, write_report
from ecc.contract.parameters import label
from ecc.contract.protocol import Protocol
from ecc.errors import warn
from ecc.scenario import protocol_class

__all__ = ["Conformance", "cases", "conformance_report", "examined", "run"]

INTRODUCTION = (
    "Each case runs the controller on packets, in a scenario of its own, and compares what it does with what the "
    "specification says: numbers and bands are in the tables. Confirmed: all is in its band. Conditional: it is under "
    "a condition, which is named. Refuted: it is not. Not comparable: the case does not apply, as the controller lacks "
    "what it needs."
)
SECTION = "conformance"


@dataclass(frozen=True)
class Conformance:
    """What the cases found of a protocol.

    `findings` in the order of the ledger; `failures`: id of a case -> error in one line, of those that raised;
    `interrupted`: Ctrl-C ended it before all were done.
    """

    protocol: Protocol
    findings: Sequence[Finding]
    failures: Mapping[str, str] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def applying(self) -> list[Finding]:
        """Findings of the cases that apply."""
        return [one for one in self.findings if one.verdict is not Verdict.NOT_COMPARABLE]

    @property
    def not_applying(self) -> list[str]:
        """What the protocol lacks for cases that do not apply: a line for those whose ids begin alike."""
        groups: dict[str, list[str]] = {}
        for one in self.findings:
            if one.verdict is Verdict.NOT_COMPARABLE:
                groups.setdefault(one.claim.id.partition("-")[0], []).append(one.claim.id)
        lines = []
        for group, ids in groups.items():
            needs = dict.fromkeys(need for key in ids for need in CASES[key].needs)
            many = f"{group}-*: {len(ids)} cases do" if ids[1:] else f"{ids[0]}: does"
            lines.append(f"{many} not apply: {', '.join(missing(self.protocol, list(needs)))}")
        return lines

    @property
    def conforms(self) -> bool:
        """Whether cases apply, of which none is refuted and none has failed."""
        applying = self.applying
        return bool(applying) and not self.failures and all(one.verdict is not Verdict.REFUTED for one in applying)

    def __getitem__(self, case_id: str) -> Finding:
        for one in self.findings:
            if one.claim.id == case_id:
                return one
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
    """Return the cases that there are, as claims of the ledger.

    Parameters
    ----------
    names : sequence of str, optional
        Ids, or what they begin with: "bbr", "cubic-spur". None: all.

    Raises
    ------
    ValueError
        A name of no case.
    """
    checks()
    there = {key: claim for key, claim in claims().items() if key in CASES}
    chosen: set[str] = set()
    for name in names:
        begun = {key for key in there if name and key.startswith(name)}
        if not begun:
            groups = ", ".join(dict.fromkeys(key.split("-")[0] for key in there))
            raise ValueError(
                f"case must be one of {groups}, or an id such as {next(iter(there))}, got {shown(name)}"
                f"{nearest(name, dict.fromkeys(there, ''))}"
            )
        chosen |= {name} if name in there else begun
    return [claim for key, claim in there.items() if not names or key in chosen]


@check_arguments
def run(
    protocol: Protocol | str,
    cases: Sequence[str] = (),
    jobs: Executor | int = 1,
    progress: Callable[[Claim, Finding | None], None] | None = None,
    store: str | Path | None = None,
) -> Conformance:
    """Return what the cases find of a protocol.

    Parameters
    ----------
    protocol : Protocol or str
        Protocol; or the name of one, or "module:Class" or "file.py:Class" of your own, with its default parameters.
    cases : sequence of str, optional
        Ids of cases, or what they begin with ("bbr"). None: all.
    jobs : Executor or int, >= 1, optional
        Worker processes; 1: this process; or what has some, such as `ecc.batch.cluster.Cluster`.
    progress : callable, optional
        Called as progress(case, finding) when each case ends.
    store : str or Path, optional
        File (of a folder: its "results.sqlite") that keeps each finding, by the code of case and protocol, parameters:
        a later call makes only what is not there. With one, `jobs` = 1 is a worker process too.

    Returns
    -------
    Conformance

    Raises
    ------
    ValueError
        A name of no protocol, or of no case; a store that is another file.
    WorkersLost
        An executor cannot go on.

    Warns
    -----
    RuntimeWarning
        The store cannot be written, or the protocol reaches what cannot be compared; the result is whole.

    Examples
    --------
    >>> found = run("BBR", cases=["bbr-startup-plateau"])
    >>> found.conforms, str(found["bbr-startup-plateau"].verdict)
    (True, 'confirmed')
    """
    chosen: Protocol = protocol_class(protocol)() if isinstance(protocol, str) else protocol
    selected = _cases(cases)
    if store is not None or isinstance(jobs, Executor) or as_count(jobs, "jobs", minimum=1) > 1:
        kept = None if store is None else Store(store)
        found = examined(chosen, selected, jobs, progress, store=kept)
        if kept is not None and kept.trouble is not None:
            warn(kept.trouble)
        if found.lost:
            raise WorkersLost(found.lost)
        return Conformance(chosen, found.findings, found.failures, found.interrupted)
    findings = []
    for claim in selected:
        try:
            findings.append(examine(claim.id, claim, chosen))
        except KeyboardInterrupt:
            return Conformance(chosen, findings, interrupted=True)
        if progress is not None:
            progress(claim, findings[-1])
    return Conformance(chosen, findings)


_cases = cases


def examined(
    protocol: Protocol,
    selected: Sequence[Claim],
    jobs: Executor | int,
    progress: Progress | None = None,
    steps: Steps | None = None,
    store: Store | None = None,
) -> Outcome:
    """Return what cases find, in worker processes; neither one that raises nor Ctrl-C loses what others found.

    Parameters
    ----------
    protocol : Protocol
    selected : sequence of Claim
    jobs : Executor or int, >= 1
    progress, steps : callable, optional
        As of `ecc.claims.crosscheck.examine`.
    store : Store, optional
        Keeps what is found, by the case and by what the protocol is: its code, parameters and names of states. A
        protocol of which that cannot be said is the store's trouble.
    """
    of_protocol = ""
    if store is not None:
        try:
            of_protocol = identity(protocol)
        except TypeError as error:
            store.trouble, store = f"results are not kept: {error}", None
    own: dict[str, Any] = {}
    for claim in selected:
        own[claim.id] = partial(_examined, protocol)
        own[claim.id].__module__ = CASES[claim.id].function.__module__  # whose code a stored result is of
        own[claim.id].cost, own[claim.id].identity = CASES[claim.id].cost, partial(_known, of_protocol)
    about = [replace(claim, protocols=(type(protocol).__name__,)) for claim in selected]
    return examine_claims(about, jobs, progress, store, steps=steps, checks=own)


def _known(identity: str, claim: Claim) -> str:
    return identity


def _examined(protocol: Protocol, claim: Claim) -> Finding:
    checks()
    with warnings.catch_warnings():  # a finding says why its runs ended
        warnings.filterwarnings("ignore", "the run ended at", RuntimeWarning)
        return examine(claim.id, claim, protocol)


def conformance_report(found: Conformance, command: str = "", again: str = "") -> Report:
    """Return the report on what the cases found.

    Parameters
    ----------
    found : Conformance
    command, again : str, optional
        What was run, and what runs a case again, before its id.
    """
    name = type(found.protocol).__name__
    return Report(
        found.findings, command or f"ecc conform {name}", found.interrupted, failures=found.failures,
        title=f"Conformance of {label(found.protocol)}", introduction=INTRODUCTION,
        again=again or f"ecc conform {name} --case",
    )  # fmt: skip
