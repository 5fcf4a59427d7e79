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

__all__ = ["CHECKS", "Claim", "Finding", "Measure", "Picture", "Verdict", "check", "claims"]


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
CHECKS: dict[str, Check] = {}
"""Registered checks by claim id; `ecc.claims.catalog` imports the modules that fill it."""


def check(claim_id: str, cost: float = 1.0) -> Callable[[Check], Check]:
    """Register the function that checks a claim.

    Parameters
        claim_id : id in the ledger. cost : about how many seconds it takes; the slowest are started first.
    """

    def register(function: Check) -> Check:
        if claim_id not in claims():
            raise ValueError(f"claim must be in the ledger, got {claim_id!r}")
        function.cost = cost  # type: ignore[attr-defined]
        CHECKS[claim_id] = function
        return function

    return register
