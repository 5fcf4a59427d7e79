"""All registered checks and their selection by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module

from ecc._support.arguments import nearest, shown
from ecc.claims.ledger import CHECKS, ON_REQUEST, Check, Claim, claims

__all__ = ["checks", "of_crosscheck", "select", "to_reproduce"]

MODULES = (
    "conformance.bbr_application",
    "conformance.bbr_paths",
    "conformance.bbr_states",
    "conformance.congestion",
    "conformance.cubic",
    "conformance.rfc8867",
    "conformance.rfc9743",
    "conformance.rfc9743_paths",
    "conformance.senders",
    "data_centers.dcqcn",
    "data_centers.dcqcn_pi",
    "data_centers.dcqcn_tables",
    "data_centers.dctcp",
    "data_centers.hpcc",
    "data_centers.nscc",
    "data_centers.powertcp",
    "data_centers.sperc",
    "data_centers.swift",
    "data_centers.timely",
    "data_centers.timely_runs",
    "disciplines.designs",
    "disciplines.margins",
    "disciplines.packets",
    "disciplines.red_average",
    "errata",
    "internet.abc",
    "internet.bbr",
    "internet.bbr_equilibria",
    "internet.compound",
    "internet.compound_stability",
    "internet.copa",
    "internet.cubic_stability",
    "internet.loss_based",
    "internet.media",
    "internet.prague",
    "internet.starvation",
    "internet.starvation_examples",
    "internet.vivace",
    "live",
    "open.empty_queue",
    "open.gain_design",
    "open.hopf_bifurcation",
    "open.networks",
    "open.replays",
    "open.rtt_distributions",
    "open.rtt_estimates",
    "open.bbr_cycle",
    "open.tcp_sawtooth",
    "open.theorem_registry",
    "open.varying_delays",
    "theorems.convergence",
    "theorems.delays_and_bottlenecks",
    "theorems.integral_loops",
    "theorems.queues_and_rates",
    "theorems.router_work",
    "theorems.stationary_rates",
    "theorems.xcp_models",
)
"""Modules of `ecc.claims.checks` that register checks; a worker process imports only those of its jobs."""


@cache
def _register() -> None:
    for name in MODULES:
        import_module(f"ecc.claims.checks.{name}")


def checks() -> Mapping[str, Check]:
    """Return the functions that check claims, by claim id, in the order of the ledger."""
    _register()
    return {key: CHECKS[key] for key in claims() if key in CHECKS}


def of_crosscheck() -> list[Claim]:
    """Return the claims of the main job, which the three engines can check in minutes."""
    return [claims()[key] for key, function in checks().items() if getattr(function, "main", True)]


def select(names: Sequence[str] = (), among: Sequence[Claim] | None = None) -> list[Claim]:
    """Return the claims that `names` select; all if `names` is empty.

    Parameters
    ----------
    names : sequence of str, optional
        Protocol names (any spelling), claim ids, or sections of the ledger, for example "qi-rcp" or "internet".
    among : sequence of Claim, optional
        Claims to select from; those of the main job if None.

    Raises
    ------
    ValueError
        A name is not a protocol, claim or section.
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
            hint = nearest(name, dict.fromkeys([*known.values(), *sorted(sections), *sorted(ids)], ""))
            kind = "crosscheck" if among is None else "the ledger"
            options = "protocols" if hint else f"the protocols {', '.join(sorted(set(known.values())))}"
            raise ValueError(
                f"{kind} covers {options}, sections and claims such as {min(ids)}, got {shown(name)}{hint}"
            )
        wanted.add(name if name in ids | sections else plain(name))
    return [
        claim
        for claim in available
        if wanted & {claim.id, claim.section, *(plain(protocol) for protocol in claim.protocols)}
    ]


def to_reproduce(names: Sequence[str] = ()) -> list[Claim]:
    """Return the claims of the ledger that `names` select; sections in `ON_REQUEST` need their id or section name.

    Parameters
    ----------
    names : sequence of str, optional
        Names as in `select`.

    Raises
    ------
    ValueError
        A name is not a protocol, claim or section.
    """
    return [
        claim
        for claim in select(names, list(claims().values()))
        if claim.section not in ON_REQUEST or {claim.id, claim.section} & set(names)
    ]
