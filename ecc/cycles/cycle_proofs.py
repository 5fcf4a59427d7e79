"""Proofs of the cycles of protocols in rounds: on one network, and the share of a range of networks.

The map per round of a loop is written by the first form of `FORMS` that models it. Its orbit is proven by
`ecc.cycles.orbit_proofs`, and over ranges of networks by `ecc.cycles.orbit_ranges`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import as_count, as_delay, as_rate, as_size
from ecc._support.reports import ProgressCallback, Reporter
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.forms import RoundMap
from ecc.contract.kinds import Kind, kind_of_laws
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.loss_rounds import loss_rounds
from ecc.cycles.losses import windows_in_rounds
from ecc.cycles.marking_rounds import marking_rounds
from ecc.cycles.orbit_proofs import OrbitProof, prove_rounds, with_proof
from ecc.cycles.orbit_ranges import OrbitCover, cover_orbits
from ecc.cycles.reference_cases import cycle_case, host_of, named_protocol
from ecc.errors import ConvergenceError, LinearizationError
from ecc.linear.box_cover import Axis
from ecc.network.network import Network

__all__ = ["FORMS", "cover_cycles", "prove_cycle", "proven_cycle", "rounds_of"]

Loop = Protocol | ProtocolAssignment
_MAX_FLOWS = 16


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


FORMS: tuple[Callable[[Loop, Network], RoundMap], ...] = (declared_rounds, marking_rounds, loss_rounds)
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
    >>> proof.multipliers_inside, round(float(abs(proof.multipliers[0])), 4)
    (True, 0.3972)
    >>> prove_cycle("SPERC").dead_beat
    True
    """
    loop = named_protocol(protocol)
    if network is None:
        loop, network = cycle_case(loop)
    return prove_rounds(rounds_of(loop, network))


@check_arguments
def cover_cycles(
    protocol: Protocol | type | str,
    capacity: Any,
    rtt: Any,
    buffer: Any,
    flows: int = 1,
    packet_size: int = 1000,
    max_boxes: int = 1000,
    *,
    progress: ProgressCallback | None = None,
) -> OrbitCover:
    """Return the share of a range of networks on which the cycle of windows over a full buffer is proven.

    Parameters
    ----------
    protocol : Protocol, class or str
        Protocol with ACK-clocked windows that respond to losses, for example "NewReno".
    capacity : float or pair, bit/s, > 0
        Capacity of the bottleneck: one value, or (lowest, highest).
    rtt : float or pair, s, > 0
        RTT of all flows, without queues.
    buffer : float or pair, bytes, > 0
        Buffer of the bottleneck.
    flows : int, from 1 to 16, optional
        Number of flows.
    packet_size : int, bytes, optional
        Size of packets.
    max_boxes : int, >= 1, optional
        Number of boxes that are examined. A box takes about 0.1 s for windows of 20 packets.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the network that is examined, as `text`.

    Returns
    -------
    OrbitCover
        Shares of the range by volume, in logarithms of capacity, RTT and buffer.

    Raises
    ------
    ValueError
        A value out of range, or limits in the wrong order.
    LinearizationError
        The protocol has no windows that respond to losses.

    Examples
    --------
    >>> cover = cover_cycles("NewReno", "1 Mb/s", ("40 ms", "48 ms"), "8 kB", max_boxes=40)
    >>> cover.stable > 0.5, cover.max_multiplier < 0.51
    (True, True)
    """
    loop = named_protocol(protocol)
    n, size = as_count(flows, "flows", minimum=1), as_count(packet_size, "packet_size", minimum=1)
    if n > _MAX_FLOWS:
        raise ValueError(f"flows must be <= {_MAX_FLOWS}, got {shown(flows)}")
    if max_boxes < 1:
        raise ValueError(f"max_boxes must be >= 1, got {shown(max_boxes)}")
    ranges = {
        "capacity": _limits("capacity", capacity, as_rate),
        "rtt": _limits("rtt", rtt, as_delay),
        "buffer": _limits("buffer", buffer, as_size),
    }
    axes = [Axis(name, low, high) for name, (low, high) in ranges.items() if low < high]
    fixed = {name: low for name, (low, high) in ranges.items() if low == high}

    def network_at(capacity: float, rtt: float, buffer: float) -> Network:
        return Network.dumbbell(capacity, [rtt] * n, packet_size=size, buffer=buffer)

    report = Reporter(progress)

    def form_at(**point: float) -> RoundMap:
        report(lambda: ", ".join(f"{name} = {value:.4g}" for name, value in point.items()))
        values = fixed | point
        return loss_rounds(loop, network_at(**values), buffer=values["buffer"])

    windows_in_rounds(loop, network_at(**{name: low for name, (low, _) in ranges.items()}))  # refuses other loops
    return cover_orbits(form_at, axes, max_boxes)


def _limits(name: str, value: Any, read: Callable[[Any, str], float]) -> tuple[float, float]:
    """Return the limits of a parameter, which is one value or a pair."""
    pair = value if isinstance(value, tuple | list) else (value, value)
    limits = tuple(float(read(limit, name)) for limit in pair)
    if len(limits) != 2 or not 0.0 < limits[0] <= limits[1]:
        raise ValueError(f"{name} must be > 0, or a pair (lowest, highest) of such, got {shown(value)}")
    return limits[0], limits[1]


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
