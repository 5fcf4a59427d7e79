"""Check of the theorem registry: every theorem is compared with the worst loops that a search finds."""

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


def _measurements(result: Search) -> list[Measurement]:
    theorem, out = result.theorem, []
    for name, case in (("minimum", result.least), ("maximum", result.largest)):
        assert case.proof is not None
        side = {True: "stable", False: "unstable", None: "undecided"}[case.proof[1]]
        out.append(
            Measurement(
                f"{theorem.id}: critical {theorem.parameter} / bound, {name} of {result.loops} loops",
                case.ratio,
                reported=1.0 if theorem.kind == EXACT else None,
                note=f"bound {case.bound:.6g}, exact {case.found.value:.6g}; proven {side} at {case.proof[0]:.6g}; "
                f"{_loop(case)}",
            )
        )
    return out


def _word(result: Search) -> str:
    if result.least.contradicts:
        return f"{result.theorem.id} ({result.theorem.source}) at {result.least.ratio:.4f} of its bound"
    return f"{result.theorem.id} (not necessary: {result.largest.ratio:.4f})"


@check("open-theorems", cost=600, main=False)
def open_theorems(claim: Claim) -> Finding:
    """Search the space of each theorem of the registry, and judge the worst loops by ball arithmetic."""
    results = [search(theorem) for theorem in THEOREMS.values()]
    published = [s for s in results if not s.theorem.source.startswith(("derived", "refuted"))]
    failed = [s for s in results if not s.holds]
    broken = [s for s in published if not s.holds]
    loops = sum(s.loops for s in results)
    order = [s.theorem.id for s in results]
    figure = plot.boundary_figure(
        list(range(1, len(results) + 1)),
        {},
        {"bound": [1.0] * len(results)},
        {
            "minimum found": (list(range(1, len(results) + 1)), [s.least.ratio for s in results], None),
            "maximum found": (list(range(1, len(results) + 1)), [min(s.largest.ratio, 10.0) for s in results], None),
        },
        x_title="theorem",
        y_title="critical gain / bound (drawn up to 10)",
        log_x=False,
        log_y=True,
        title="Critical gain over published bound",
    )
    figure.update_xaxes(tickvals=list(range(1, len(results) + 1)), ticktext=order, tickangle=-45)
    return Finding(
        claim,
        Verdict.CONDITIONAL if broken else Verdict.CONFIRMED,
        f"{len(results) - len(failed)} of {len(results)} theorems hold in {loops} loops. Loops that are provably "
        "unstable "
        f"below the bound contradict: {'; '.join(_word(s) for s in failed) or 'none'}.",
        [m for s in results for m in _measurements(s)],
        [
            Picture.of(
                figure,
                "Critical gain over bound",
                "For each theorem, the loops with the minimum and maximum critical gain relative to its bound. Values "
                "below 1 contradict the theorem; above 1 the bound is not sharp.",
            )
        ],
        [
            "T/D -> 0 is read as T <= D_min/100, tau1 + 2 tau2 < 2; the theorems on PIQI-RCP state no more than T/D.",
            "A counterexample found by the search is proven; a search without a counterexample proves nothing.",
        ],
    )
