"""Unresponsive traffic: a constant rate, regardless of feedback and losses.

Routers of other protocols count its packets as arrivals only (the u of JETMAX (3), (8)): they request no feedback.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.quantity import RATE, QuantityField, as_rate, default
from ecc.contract.env import FlowEnv, Hook, NoRecord, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.parameters import check_choice
from ecc.contract.protocol import Protocol
from ecc.network.network import Network


@dataclass(frozen=True)
class ConstantRate(Protocol):
    """Flows that send evenly spaced packets at a constant rate; their links only queue and drop.

    In packet runs the phase of the packets is drawn anew every 16 packets, so that flows do not stay synchronized,
    unless the scenario has `phase_jitter=False` (S-186).

    Parameters
    ----------
    rate : float, bit/s, > 0
        Sending rate, for example "10 Mb/s".
    ecn : bool or "scalable"
        Whether routers can mark packets instead of dropping them, with ECT(0); "scalable": with ECT(1), which selects
        the low-latency queue of DualPI2. The flows respond to no mark.

    Raises
    ------
    ValueError, TypeError
        A missing rate, or a value out of range.

    Examples
    --------
    >>> ConstantRate("10 Mb/s").rate
    10000000.0
    """

    rate: QuantityField = default(None)  # required: None is refused like any other invalid rate
    ecn: bool | str = False

    dimensions = {"rate": RATE}

    times = ()
    linear_refusal = "ConstantRate responds to no feedback: it has no linear model"
    header_bytes = (0, 0)
    phase_jitter = "always"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", as_rate(self.rate, "rate"))
        check_choice(self, "ecn", (False, True, "scalable"))

    @property
    def ecn_echo(self) -> str | None:
        return "scalable" if self.ecn == "scalable" else "classic" if self.ecn else None

    def params(self) -> dict[str, float]:
        return {"rate": self.rate}

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        """The constant rate."""
        return self.rate

    # ---- hooks -------------------------------------------------------------------------------------------

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": on_start}

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float) -> Any:
        return NoRecord()

    def flow_at(self, x: float, R: float, link: int) -> Any:
        return NoRecord()

    # ---- equilibrium -------------------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return self.rate, self.rate

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return each flow at its rate, bottlenecked at no link."""
        no_link = np.full(network.n_flows, -1, dtype=np.int64)
        return Equilibrium(np.full(network.n_flows, self.rate), np.full(network.n_links, np.inf), no_link)


def on_start(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Send at the constant rate."""
    env.rate = p.rate
