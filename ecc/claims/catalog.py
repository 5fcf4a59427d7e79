"""All checks there are, and the choice among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# These register their checks.
from ecc.claims.checks import errata  # noqa: F401
from ecc.claims.checks.open import (  # noqa: F401
    empty_queue,
    gain_design,
    hopf_bifurcation,
    networks,
    replays,
    rtt_distributions,
    rtt_estimates,
    theorem_registry,
    varying_delays,
)
from ecc.claims.checks.theorems import (  # noqa: F401
    convergence,
    delays_and_bottlenecks,
    integral_loops,
    queues_and_rates,
    router_work,
    stationary_rates,
)
from ecc.claims.ledger import CHECKS, Check, Claim, claims

__all__ = ["checks", "of_crosscheck", "select"]


def checks() -> Mapping[str, Check]:
    """Return the functions that check claims, by claim id, in the order of the ledger."""
    return {key: CHECKS[key] for key in claims() if key in CHECKS}


def of_crosscheck() -> list[Claim]:
    """Return the claims of the main job: those that the three engines can judge in minutes."""
    return [claims()[key] for key, function in checks().items() if getattr(function, "main", True)]


def select(names: Sequence[str] = (), among: Sequence[Claim] | None = None) -> list[Claim]:
    """Return the claims that `names` ask for, all if there are none.

    Parameters
    ----------
    names : sequence of str, optional
        Protocol names (any spelling), claim ids, or sections of the ledger.
    among : sequence of Claim, optional
        The claims to choose from; those of the main job if None.

    Raises
    ------
    ValueError
        A name that is none of these.
    """

    def plain(name: str) -> str:
        return name.lower().replace("-", "").replace("_", "")

    available = of_crosscheck() if among is None else list(among)
    if not names:
        return available
    known = {plain(protocol): protocol for claim in available for protocol in claim.protocols}
    ids, sections = {claim.id for claim in available}, {claim.section for claim in available}
    wanted = set()
    for name in names:
        if name not in ids | sections and plain(name) not in known:
            options = ", ".join(sorted(set(known.values())))
            kind = "crosscheck" if among is None else "the ledger"
            raise ValueError(f"{kind} covers the protocols {options} and claims such as {min(ids)}, got {name!r}")
        wanted.add(name if name in ids | sections else plain(name))
    return [
        claim
        for claim in available
        if wanted & {claim.id, claim.section, *(plain(protocol) for protocol in claim.protocols)}
    ]
