"""Proofs of the cycles of protocols in rounds: on one network, and the share of a range of networks.

The map per round of a loop is written by the first form of `FORMS` that models it. Its orbit is proven by
`ecc.cycles.orbit_proofs`, and over ranges of networks by `ecc.cycles.orbit_ranges`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ecc._support.arguments import check_arguments
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.forms import RoundMap
from ecc.contract.kinds import Kind, kind_of_laws
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.marking_rounds import marking_rounds
from ecc.cycles.orbit_proofs import OrbitProof, prove_rounds, with_proof
from ecc.cycles.reference_cases import cycle_case, host_of, named_protocol
from ecc.errors import ConvergenceError, LinearizationError
from ecc.network.network import Network

__all__ = ["FORMS", "prove_cycle", "proven_cycle", "rounds_of"]

Loop = Protocol | ProtocolAssignment


def declared_rounds(loop: Loop, network: Network) -> RoundMap:
    """Return the map per round that a protocol declares.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
    network : Network

    Raises
    ------
    LinearizationError
        It declares none, or not on this network.
    """
    if not isinstance(loop, Protocol) or kind_of_laws(loop) is not Kind.ROUND_MAP:
        raise LinearizationError("it declares no map per round")
    return loop.round_map(network)


FORMS: tuple[Callable[[Loop, Network], RoundMap], ...] = (declared_rounds, marking_rounds)
"""Functions that return the map per round of a loop on a network, in the order in which they are tried."""


def rounds_of(loop: Loop, network: Network) -> RoundMap:
    """Return the map per round of a loop.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
    network : Network

    Raises
    ------
    LinearizationError
        No form models the loop; the message has all reasons.
    ConvergenceError
        The map reaches no cycle.
    """
    reasons = []
    for form in FORMS:
        try:
            return form(loop, network)
        except LinearizationError as error:
            reasons.append(str(error))
    raise LinearizationError(f"{type(host_of(loop)).__name__} has no map per round here: {'; '.join(reasons)}")


@check_arguments
def prove_cycle(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any] | type | str, network: Network | None = None
) -> OrbitProof:
    """Return the proof, by interval arithmetic, that a protocol has a cycle in rounds, and whether it is stable.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment, mapping, class or str
        As for `limit_cycle`.
    network : Network, optional
        None: the network of `limit_cycle`.

    Returns
    -------
    OrbitProof
        Proof for the map from round to round, in which hosts act once per RTT; `reason` if nothing is proven. A fixed
        point is a cycle of one round.

    Raises
    ------
    LinearizationError
        No map per round is known for the loop on this network.
    ConvergenceError
        The map reaches no cycle.

    Examples
    --------
    >>> proof = prove_cycle("DCTCP")
    >>> proof.multipliers_inside, round(abs(proof.multipliers[0]), 4)
    (True, 0.3972)
    >>> prove_cycle("SPERC").dead_beat
    True
    """
    loop = named_protocol(protocol)
    if network is None:
        loop, network = cycle_case(loop)
    return prove_rounds(rounds_of(loop, network))


def proven_cycle(cycle: LimitCycle, loop: Loop, network: Network) -> LimitCycle:
    """Return a cycle in rounds with the verdict of its proof; without a proof, with the reason as a note.

    Parameters
    ----------
    cycle : LimitCycle
        Cycle in discrete time.
    loop : Protocol or ProtocolAssignment
    network : Network
    """
    try:
        return with_proof(cycle, prove_rounds(rounds_of(loop, network)))
    except (ConvergenceError, LinearizationError) as error:
        return replace(cycle, notes=(*cycle.notes, f"not proven: {error}"))
