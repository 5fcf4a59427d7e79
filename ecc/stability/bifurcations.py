"""Classification of a stability limit as supercritical or subcritical: by the first Lyapunov coefficient or fluid runs.

On one link, laws of explicit rates have the coefficient (`ecc.stability.hopf_bifurcation`). For windows it is measured:
if the limit g is subcritical, an unstable cycle surrounds the stable equilibrium below g. Its size shrinks as the
square root of the distance to g, so that the largest perturbation that dies out at 0.97 g is about 0.55 of that at
0.9 g.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, nan
from typing import Any

from ecc._support.display import Displayed, Rows
from ecc.contract.assignment import ProtocolAssignment, with_parameter
from ecc.contract.protocol import Protocol
from ecc.errors import EccError
from ecc.linear import StabilityLimit
from ecc.loops.closed_loop import has_clockings, linearize
from ecc.network.network import Network
from ecc.stability.hopf_bifurcation import hopf_at
from ecc.stability.safe_perturbations import SafePerturbation, safe_perturbation

__all__ = ["Bifurcation", "bifurcation_at"]

_SHARES = (0.9, 0.97)  # shares of the limit at which fluid runs measure which perturbations die out
_SHRINKS = 0.8  # maximum ratio of the unstable cycles at both: 0.55 in theory, measured in steps of a factor 1.33


@dataclass(frozen=True, repr=False)
class Bifurcation(Displayed):
    """The kind of bifurcation at a stability limit.

    Attributes
    ----------
    kind : str
        "supercritical"; "subcritical"; "not subcritical", if no perturbation tried below the limit grew;
        "undecided", for the reason in `source`.
    source : str
        Method by which the kind was determined.
    lyapunov : float
        First Lyapunov coefficient, as in `Hopf` [1/s, 1/step]; nan if the kind was determined by fluid runs.
    perturbations : tuple of (float, SafePerturbation)
        Gains below the limit and the perturbations that die out there in fluid runs.
    """

    kind: str
    source: str
    lyapunov: float = nan
    perturbations: tuple[tuple[float, SafePerturbation], ...] = ()

    def _title(self) -> str:
        return f"Bifurcation at the stability limit: {self.kind}"

    def _rows(self) -> Rows:
        tried = ((f"at {gain:.6g}", perturbation.text()) for gain, perturbation in self.perturbations)
        return [("known by", self.source), *tried]


def bifurcation_at(
    protocol: Protocol | ProtocolAssignment,
    network: Network,
    parameter: str,
    loss: StabilityLimit,
    time: str,
    options: Mapping[str, Any],
) -> Bifurcation | None:
    """Return the kind of bifurcation at a limit; None without a limit, or if no method applies.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    network : Network
    parameter : str
        Name of the gain.
    loss : StabilityLimit
        Result of `critical_gain` for the linear model of that time.
    time : str
        "continuous", "discrete" or "hybrid".
    options : mapping
        Other arguments of `linearize` with which the limit was computed.
    """
    if not 0.0 < loss.value < inf:
        return None
    if has_clockings(protocol):
        named = {name: value for name, value in options.items() if name in ("assignment", "clocking")}
        if time != "continuous" or len(named) < len(options):
            return None
        return _measured(protocol, network, parameter, loss.value, named)
    if time == "hybrid" or options.get("clocking", "ack") != "ack" or set(options) - {"clocking"}:
        return None
    if not isinstance(protocol, Protocol) or not _has_coefficient(protocol, network, parameter, loss, time):
        return None
    try:
        coefficient = hopf_at(protocol, network, parameter, loss)
    except (ValueError, EccError) as error:
        return Bifurcation("undecided", str(error))
    kind = "supercritical" if coefficient.is_supercritical else "subcritical"
    unit = "1/step" if coefficient.sampled else "1/s"
    source = f"first Lyapunov coefficient {coefficient.lyapunov:.4g} {unit} per squared amplitude of the arrivals"
    return Bifurcation(kind, source, coefficient.lyapunov)


def _has_coefficient(protocol: Protocol, network: Network, parameter: str, loss: StabilityLimit, time: str) -> bool:
    """Return whether the laws set explicit rates on one link, with a queue that cannot be negative in the model."""
    if network.n_links != 1 or protocol.has_affine_laws or protocol.states or protocol.source_clock == "continuous":
        return False
    return not linearize(with_parameter(protocol, parameter, loss.value), network, time).has_signed_queue


def _measured(
    protocol: Protocol | ProtocolAssignment, network: Network, parameter: str, limit: float, options: dict[str, Any]
) -> Bifurcation:
    perturbations = []
    for share in _SHARES:
        gain = share * limit
        try:
            changed = with_parameter(protocol, parameter, gain)
            perturbations.append((gain, safe_perturbation(changed, network, **options)))
        except (ValueError, EccError) as error:
            return Bifurcation("undecided", f"no fluid runs below the limit: {error}", nan, tuple(perturbations))
    (_, far), (_, near) = perturbations
    source = f"fluid runs at {_SHARES[0]:g} and {_SHARES[1]:g} of the limit"
    if not far.tried or not near.tried:
        kind = "undecided"
    elif far.unsafe == near.unsafe == inf:
        kind = "not subcritical"
    elif near.unsafe < inf and (far.unsafe == inf or near.unsafe < _SHRINKS * far.unsafe):
        kind = "subcritical"
    else:
        kind = "undecided"
    return Bifurcation(kind, source, nan, tuple(perturbations))
