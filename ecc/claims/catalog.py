"""All checks there are, and the choice among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ecc.claims import (  # noqa: F401  (they register their checks)
    convergence,
    delays_and_bottlenecks,
    integral_loops,
    queues_and_rates,
    stationary_rates,
)
from ecc.claims.ledger import CHECKS, Check, Claim, claims

__all__ = ["checks", "select"]


def checks() -> Mapping[str, Check]:
    """Return the checks by claim id, in the order of the ledger."""
    return {key: CHECKS[key] for key in claims() if key in CHECKS}


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
