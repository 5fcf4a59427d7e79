"""The ledger: what the papers claim, and what was found.

Claims are data (`ledger.toml`); each is checked by one function registered under its id, which returns a `Finding`.
A verdict is computed from measures, never written down.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["Claim", "Finding", "Measure", "Picture", "Verdict", "check", "checks", "claims", "select"]


class Verdict(StrEnum):
    """What measuring says of a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    CONDITIONAL = "conditional"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Claim:
    """One claim of a paper: `source` says where, `statement` what, `reported` the numbers it gives."""

    id: str
    source: str
    protocols: tuple[str, ...]
    statement: str
    reported: str


@dataclass(frozen=True)
class Measure:
    """One number or short text that was computed, beside what the paper reports for it, if anything."""

    name: str
    value: float | str
    unit: str = ""
    reported: float | str | None = None
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure of the report: Plotly's own JSON form, with a title and a caption."""

    title: str
    caption: str
    figure: Mapping[str, Any]

    @classmethod
    def of(cls, figure: Any, title: str, caption: str) -> Picture:
        """Return a picture of a Plotly figure.

        Parameters
            figure : plotly Figure. title, caption : str.
        """
        import json

        return cls(title, caption, json.loads(figure.to_json()))


@dataclass(frozen=True)
class Finding:
    """The verdict on a claim, its reason in one sentence, and the evidence."""

    claim: Claim
    verdict: Verdict
    reason: str
    measures: Sequence[Measure] = ()
    pictures: Sequence[Picture] = ()
    assumptions: Sequence[str] = ()
    seconds: float = field(default=0.0, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain data for JSON."""
        return {
            "claim": vars(self.claim) | {"protocols": list(self.claim.protocols)},
            "verdict": str(self.verdict),
            "reason": self.reason,
            "measures": [vars(measure) for measure in self.measures],
            "pictures": [vars(picture) for picture in self.pictures],
            "assumptions": list(self.assumptions),
            "seconds": self.seconds,
        }


@cache
def claims() -> Mapping[str, Claim]:
    """Return all claims of the ledger by id, in its order."""
    text = resources.files("ecc.claims").joinpath("ledger.toml").read_text(encoding="utf-8")
    return {
        key: Claim(key, entry["source"], tuple(entry["protocols"]), entry["statement"], entry["reported"])
        for key, entry in tomllib.loads(text).items()
    }


Check = Callable[[Claim], Finding]
_CHECKS: dict[str, Check] = {}


def check(claim_id: str, cost: float = 1.0) -> Callable[[Check], Check]:
    """Register the function that checks a claim.

    Parameters
        claim_id : id in the ledger. cost : about how many seconds it takes; the slowest are started first.
    """

    def register(function: Check) -> Check:
        if claim_id not in claims():
            raise ValueError(f"claim must be in the ledger, got {claim_id!r}")
        function.cost = cost  # type: ignore[attr-defined]
        _CHECKS[claim_id] = function
        return function

    return register


def checks() -> Mapping[str, Check]:
    """Return the checks by claim id, in the order of the ledger."""
    from ecc.claims import integral_loops, queues_and_rates  # noqa: F401  (they register their checks)

    return {key: _CHECKS[key] for key in claims() if key in _CHECKS}


def select(names: Sequence[str] = ()) -> list[Claim]:
    """Return the claims that have checks and that `names` ask for, all if there are none.

    Parameters
        names : protocol names (any spelling) or claim ids.
    Raises
        ValueError: a name that is neither.
    """

    def plain(name: str) -> str:
        return name.lower().replace("-", "").replace("_", "")

    available = [claims()[key] for key in checks()]
    if not names:
        return available
    known = {plain(protocol): protocol for claim in available for protocol in claim.protocols}
    ids = {claim.id for claim in available}
    wanted = set()
    for name in names:
        if name not in ids and plain(name) not in known:
            options = ", ".join(sorted(set(known.values())))
            raise ValueError(f"crosscheck covers the protocols {options} and claims such as {min(ids)}, got {name!r}")
        wanted.add(name if name in ids else plain(name))
    return [c for c in available if c.id in wanted or any(plain(protocol) in wanted for protocol in c.protocols)]
