"""The linear model of hosts whose routers report one of several regions, at a point inside a region.

A report that is constant near the point, such as a code of the load, opens the loop: no perturbation passes from links
to hosts. Perturbations of windows reach the memories of routers, but do not return. So the roots are those of each
window and of each memory alone, with derivatives g of the source law and r of the router law:

    D_i w_i' = (g_w - 1) w_i(t) + g_{w_rtt} w_i(t - D_i)          window of flow i [bit], RTT D_i
    T R_l'   = (r_R - 1) R_l(t)                                   memory of the router of link l, interval T

In discrete time each host acts once per RTT, and a step is the least common multiple of the RTTs. Routers are spread
evenly. In hybrid time routers act once per interval, which is a step, and hosts are spread evenly.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, lcm
from typing import Any

import numpy as np

from ecc.contract.equilibrium import Equilibrium
from ecc.contract.kinds import router_takes, sets_windows
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.errors import LinearizationError
from ecc.laws.arguments import arguments_from, value_of
from ecc.laws.jets import gradient
from ecc.linear import DelaySystem, SampledSystem
from ecc.linear.sample_and_hold import common_unit
from ecc.network.network import Network

__all__ = ["linearize_constant_reports"]

_MOVING = ("R", "y", "q", "q_mean")


def linearize_constant_reports(
    protocol: Protocol, network: Network, time: str, point: Equilibrium
) -> DelaySystem | SampledSystem | None:
    """Return the linear model at a point; None if the report of some link changes with its load, queue or memory.

    Parameters
    ----------
    protocol : Protocol
        Protocol of hosts that set windows, over routers with an announce law.
    network : Network
    time : str
        "continuous", "discrete" or "hybrid".
    point : Equilibrium
        Equilibrium without queues; its `fair_rate` has the memory R of each router.

    Returns
    -------
    DelaySystem, SampledSystem or None
        States: a window of each flow, then the memory of each router, if routers have one.

    Raises
    ------
    LinearizationError
        The laws do not stay at the point; RTTs without a common multiple, in discrete time.
    """
    if not sets_windows(protocol) or protocol.announce_law is None or not router_takes(protocol, "R"):
        return None
    loads = network.incidence.T.astype(float) @ point.rates
    T, reports, memories = interval_of(protocol), list[float](), list[float]()
    for link in range(network.n_links):
        known = {
            "R": float(point.fair_rate[link]),
            "y": float(loads[link]),
            "q": 0.0,
            "q_mean": 0.0,
            "C": float(network.capacities[link]),
            "T": T,
            "p": protocol.namespace(),
        }
        if any(_slopes(protocol.announce_law, known).values()):
            return None
        at = arguments_from(protocol.router_law, known)
        if value_of(protocol.router_law, at, type(protocol).__name__, "router_law") != known["R"]:
            raise LinearizationError(f"no equilibrium: the router law of {type(protocol).__name__} moves at it")
        at = arguments_from(protocol.announce_law, known)
        reports.append(float(value_of(protocol.announce_law, at, type(protocol).__name__, "announce_law")))
        memories.append(_slopes(protocol.router_law, known).get("R", 0.0))
    windows = _windows(protocol, network, point, reports)
    if time == "continuous":
        return _continuous(windows, network, memories, T)
    if time == "discrete":
        step, updates = _common_multiple(network.rtts.tolist())
        factors = [(g + late) ** n for (g, late), n in zip(windows, updates, strict=True)]
        factors += [exp((memory - 1.0) * step / T) for memory in memories]
        return SampledSystem([np.diag(factors)], [0], dt=step)
    if any(late for _, late in windows):
        raise LinearizationError(f"{type(protocol).__name__} has no hybrid model: its source law takes w_rtt")
    factors = [exp((g - 1.0) * T / D) for (g, _), D in zip(windows, network.rtts.tolist(), strict=True)]
    return SampledSystem([np.diag([*factors, *memories])], [0], dt=T)


def _slopes(law: Any, known: dict[str, Any]) -> dict[str, float]:
    at = arguments_from(law, known)
    return gradient(law, at, [name for name in _MOVING if name in at])


def _windows(
    protocol: Protocol, network: Network, point: Equilibrium, reports: list[float]
) -> list[tuple[float, float]]:
    """Return the derivatives of each flow's source law by its window, now and an RTT ago."""
    combined: Callable[[list[float]], float] = {"min": min, "max": max, "sum": sum}[protocol.combine]  # type: ignore[assignment]
    slopes = []
    for i, flow in enumerate(network.flows):
        D, s = float(network.rtts[i]), 8.0 * flow.mean_packet
        w = float(point.rates[i]) * D
        R = combined([reports[link] for link in flow.route])
        known = {"w": w, "w_rtt": w, "R": R, "D": D, "s": s, "a": 8.0 * flow.mean_acknowledged}
        at = arguments_from(protocol.source_law, known | {"T": interval_of(protocol), "p": protocol.namespace()})
        if value_of(protocol.source_law, at, type(protocol).__name__, "source_law") != w:
            raise LinearizationError(f"no equilibrium: the source law of {type(protocol).__name__} moves at it")
        g = gradient(protocol.source_law, at, [name for name in ("w", "w_rtt") if name in at])
        slopes.append((g.get("w", 0.0), g.get("w_rtt", 0.0)))
    return slopes


def _continuous(windows: list[tuple[float, float]], network: Network, memories: list[float], T: float) -> DelaySystem:
    paces = [(g - 1.0) / D for (g, _), D in zip(windows, network.rtts.tolist(), strict=True)]
    matrices, delays = [np.diag([*paces, *((memory - 1.0) / T for memory in memories)])], [0.0]
    for i, (_, late) in enumerate(windows):
        if late:
            matrices.append(np.zeros_like(matrices[0]))
            matrices[-1][i, i] = late / float(network.rtts[i])
            delays.append(float(network.rtts[i]))
    return DelaySystem(matrices, delays)


def _common_multiple(rtts: list[float]) -> tuple[float, list[int]]:
    """Return the least common multiple of the RTTs [s], and the number of updates of each flow in it."""
    try:
        unit, lengths = common_unit(np.array(rtts))
    except ValueError:
        raise LinearizationError(
            f"RTTs must be commensurate in discrete time, got {min(rtts):g} and {max(rtts):g} s"
        ) from None
    total = lcm(*lengths)
    return unit * total, [total // length for length in lengths]
