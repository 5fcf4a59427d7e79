"""Wrong RTT estimates: the critical ratio of a router's d to the true RTT, below which the loop is unstable."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Unpack

import numpy as np

from ecc._support.arguments import check_arguments
from ecc._support.display import Displayed
from ecc._support.reports import ProgressCallback
from ecc.contract.kinds import router_takes
from ecc.contract.protocol import Protocol
from ecc.linear import DelaySystem, SampledSystem, stability_limit
from ecc.loops.closed_loop import linearize
from ecc.loops.options import NAMES, LinearKeywords, LinearOptions, read_options
from ecc.network.network import Network

__all__ = ["RttMargin", "rtt_margin"]

_OPTIONS = [name for name in NAMES if name != "mean_rtt"]


@dataclass(frozen=True, repr=False)
class RttMargin(Displayed):
    """The critical ratio of a router's RTT estimate to the true one.

    Attributes
    ----------
    ratio : float
        Critical ratio: the loop is stable for larger ratios, and not just below it; 0: for all, inf: for none.
    frequency : float
        Frequency of the root that crosses [rad/s, or rad/step]; nan if the ratio is 0 or inf.
    certified : tuple of two float or None
        (lo, hi) around the ratio, proven unstable at lo and stable at hi. `ecc.linear.StabilityLimit.certified` states
        how stability at all larger ratios is shown (up to 1e6 for RCP and XCP, which are not affine in 1/d). None if
        not requested, not shown, or if the ratio is 0 or inf.
    """

    ratio: float
    frequency: float
    certified: tuple[float, float] | None

    @property
    def lower(self) -> float:
        """Lower bound of the ratio, at which the loop is proven unstable; `ratio` if `is_proven` is False."""
        return self.ratio if self.certified is None else self.certified[0]

    @property
    def upper(self) -> float:
        """Upper bound of the ratio, at which the loop is proven stable; `ratio` if `is_proven` is False."""
        return self.ratio if self.certified is None else self.certified[1]

    @property
    def is_proven(self) -> bool:
        """True if the ratio is proven to lie between `lower` and `upper`."""
        return self.certified is not None


@check_arguments
def rtt_margin(
    protocol: Protocol,
    network: Network,
    time: str = "continuous",
    certify: bool = False,
    *,
    options: LinearOptions | None = None,
    progress: ProgressCallback | None = None,
    **keywords: Unpack[LinearKeywords],
) -> RttMargin:
    """Return the factor by which routers may underestimate RTTs: the critical ratio of their d to the true RTT.

    Every router uses r times the mean (or largest) RTT of the flows that cross it; delays do not change. Integral
    routers have alpha/(r d) instead of alpha/d, so that r is 1 over their gain margin; with beta/(r d)^2 as well (RCP,
    XCP with an unconstrained queue) r = alpha/(w sin w) with cos w = (sqrt(1 + 4 k^2) - 1)/(2 k), k = beta/alpha^2.

    Parameters
    ----------
    protocol : Protocol
    network : Network
    time : str, optional
        As for linearize.
    certify : bool, optional
        Also prove both sides, by ball arithmetic.
    options : LinearOptions, optional
        Options of the linear models, without `mean_rtt`.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the inverse of the ratio that is analyzed, as `text`.
    **keywords : optional
        Fields of `LinearOptions`, instead of `options`.

    Returns
    -------
    RttMargin
        Margin, with ratio 0 if the router law does not use RTTs.

    Raises
    ------
    LinearizationError
        The protocol has no linear model on the network.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> round(rtt_margin(QIRCP(alpha=0.5), Network.dumbbell("1 Gb/s", [0.1])).ratio, 6)  # 1/pi
    0.31831
    """
    if not router_takes(protocol, "d"):
        return RttMargin(0.0, float("nan"), None)
    crosses, rtts = network.incidence, network.rtts
    average = np.max if protocol.scaling_rtt == "max" else np.mean
    counted = np.minimum(rtts, protocol.scaling_rtt_limit)
    true_rtts = np.array([average(counted[through]) if through.any() else 1.0 for through in crosses.T])
    chosen = read_options(options, keywords, _OPTIONS, "rtt_margin").given()

    def family(gain: float) -> DelaySystem | SampledSystem:
        return linearize(protocol, network, time, mean_rtt=true_rtts / gain, **chosen)

    lost = stability_limit(family, certify=certify, name="1/ratio", progress=progress)
    ratio = 1.0 / lost.value if lost.value > 0.0 else inf
    proven = (1.0 / lost.certified[1], 1.0 / lost.certified[0]) if lost.certified else None
    return RttMargin(ratio, lost.frequency, proven)
