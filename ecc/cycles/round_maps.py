"""Cycles of protocols that declare their dynamics as a map per round (`ecc.contract.forms.RoundMap`)."""

from __future__ import annotations

from math import nan

import numpy as np

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.kinds import Kind, kind_of_laws
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.orbit_proofs import prove_rounds, with_proof
from ecc.errors import LinearizationError
from ecc.linear import SampledSystem
from ecc.loops.closed_loop import linearize
from ecc.network.network import Network

__all__ = ["round_map_cycle"]


def round_map_cycle(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    """Return the cycle of a map per round that returns after several rounds, with the multipliers of its derivative.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
        Protocol with a `round_map`.
    network : Network
    time : str
        "discrete": the map is not defined in continuous time.

    Raises
    ------
    LinearizationError
        The loop has no map per round, the map has a fixed point, or time is "continuous".
    """
    if not isinstance(loop, Protocol) or kind_of_laws(loop) is not Kind.ROUND_MAP:
        raise LinearizationError("it declares no map per round")
    if time != "discrete":
        raise LinearizationError("its map per round is in discrete time")
    form = loop.round_map(network)
    system = linearize(loop, network, "discrete")
    if form.rounds == 1 or not isinstance(system, SampledSystem):
        raise LinearizationError("its map per round has a fixed point")
    multipliers = np.linalg.eigvals(system.matrices[0]).astype(complex)
    multipliers = multipliers[np.argsort(-np.abs(multipliers))]
    step = system.sampling[1]
    cycle = LimitCycle(
        "cycle",
        "discrete",
        nan if step is None else step,
        nan,
        nan,
        multipliers,
        stable=bool(np.abs(multipliers[0]) < 1.0),
        method=f"derivative of the map over its cycle of {form.rounds} rounds, by jets",
        notes=(*system.notes, "the queue of the cycle is not in the declaration of a map per round"),
    )
    return with_proof(cycle, prove_rounds(form))
