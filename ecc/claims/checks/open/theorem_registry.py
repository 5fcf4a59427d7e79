"""Check of the theorem registry: every theorem beside the worst loops that a search finds."""

from __future__ import annotations

from ecc import plot
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.stability.theorem_registry import EXACT, THEOREMS, Case, Search, search


def _loop(case: Case) -> str:
    rtts = ", ".join(f"{1e3 * rtt:.4g}" for rtt in sorted(case.network.rtts)[:5])
    named = ("alpha", "beta", "tau1", "tau2", "steepness")
    gains = ", ".join(f"{name} = {value:.4g}" for name, value in case.protocol.params().items() if name in named)
    links = "" if case.network.n_links == 1 else f" over {case.network.n_links} links"
    return f"RTTs {rtts} ms{links}" + (f"; {gains}" if gains else "")


def _measurements(found: Search) -> list[Measurement]:
    theorem, out = found.theorem, []
    for name, case in (("least", found.least), ("largest", found.largest)):
        assert case.proof is not None
        side = {True: "stable", False: "unstable", None: "undecided"}[case.proof[1]]
        out.append(
            Measurement(
                f"{theorem.id}: critical {theorem.parameter} / bound, {name} of {found.loops} loops",
                case.ratio,
                reported=1.0 if theorem.kind == EXACT else None,
                note=f"bound {case.bound:.6g}, exact {case.found.value:.6g}; proven {side} at {case.proof[0]:.6g}; "
                f"{_loop(case)}",
            )
        )
    return out


def _word(found: Search) -> str:
    if found.least.contradicts:
        return f"{found.theorem.id} ({found.theorem.source}) at {found.least.ratio:.4f} of its bound"
    return f"{found.theorem.id} (not necessary: {found.largest.ratio:.4f})"


@check("open-theorems", cost=600, main=False)
def open_theorems(claim: Claim) -> Finding:
    """Search the space of each theorem of the registry, and decide the worst loops by ball arithmetic."""
    found = [search(theorem) for theorem in THEOREMS.values()]
    published = [s for s in found if not s.theorem.source.startswith(("derived", "refuted"))]
    failed = [s for s in found if not s.holds]
    broken = [s for s in published if not s.holds]
    loops = sum(s.loops for s in found)
    order = [s.theorem.id for s in found]
    figure = plot.boundary_figure(
        list(range(1, len(found) + 1)),
        {},
        {"bound": [1.0] * len(found)},
        {
            "least found": (list(range(1, len(found) + 1)), [s.least.ratio for s in found], None),
            "largest found": (list(range(1, len(found) + 1)), [min(s.largest.ratio, 10.0) for s in found], None),
        },
        x_title="theorem",
        y_title="critical gain / bound (drawn up to 10)",
        log_x=False,
        log_y=True,
        title="Critical gain over published bound",
    )
    figure.update_xaxes(tickvals=list(range(1, len(found) + 1)), ticktext=order, tickangle=-45)
    return Finding(
        claim,
        Verdict.CONDITIONAL if broken else Verdict.CONFIRMED,
        f"{len(found) - len(failed)} of {len(found)} theorems hold in {loops} loops. Contradicted, by loops that "
        f"are proven unstable below the bound: {'; '.join(_word(s) for s in failed) or 'none'}.",
        [m for s in found for m in _measurements(s)],
        [
            Picture.of(
                figure,
                "Critical gain over bound",
                "Of each theorem, the loops with the least and the largest critical gain relative to its bound: "
                "below 1 the theorem is contradicted, above 1 the bound is not sharp there.",
            )
        ],
        [
            "T/D -> 0 is read as T <= D_min/100, tau1 + 2 tau2 < 2; the theorems on PIQI-RCP state no more than T/D.",
            "A search proves what it finds, and nothing of what it does not find.",
        ],
    )
