"""Hypothesis strategies for networks, parameters and scenarios within the operating range of a protocol.

All of them shrink to the simplest value: one link, one flow, the lower ends of the operating range, no buffer limit,
and unchanged parameters of the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from ecc._support.arguments import check_arguments
from ecc._support.quantity import as_count, as_number
from ecc.contract.assignment import ProtocolAssignment, read_protocol
from ecc.contract.forms import OperatingRange
from ecc.contract.protocol import Protocol
from ecc.errors import EccError, install_command
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

__all__ = ["example_network", "networks", "operating_range", "parameters", "scenarios"]

STEPS = 8  # number of values drawn from a range; small, so that examples are short and shrink fast
FACTORS = (1.0, 0.8, 1.25, 0.9, 1.1)
"""Factors of the parameters; the first is the simplest."""


def hypothesis() -> Any:
    """Return the module hypothesis, which is an optional dependency.

    Raises
    ------
    EccError
        If it is not installed.
    """
    try:
        import hypothesis
        import hypothesis.strategies
    except ImportError:
        raise EccError(f"ecc.testing needs hypothesis: {install_command('testing')}") from None
    return hypothesis


@check_arguments
def operating_range(protocol: Protocol | ProtocolAssignment) -> OperatingRange:
    """Return the range of networks that a protocol, or the hosts of a pair, are designed for.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment

    Returns
    -------
    OperatingRange
        Ranges of rates, RTTs and buffers from which scenarios are drawn.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> operating_range(QIRCP()).capacity
    (10000000.0, 30000000.0)
    """
    host = protocol if isinstance(protocol, Protocol) else protocol.protocols[0]
    return host.operating_range


@check_arguments
def example_network(
    protocol: Protocol | ProtocolAssignment, n_flows: int = 2, buffer: float | None = None, *, apart: bool = False
) -> Network:
    """Return the simplest network in the operating range of a protocol: one link, and flows of equal RTT.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    n_flows : int, optional
    buffer : float, optional
        Buffer of the link, in products of capacity and RTT; None: unlimited.
    apart : bool, optional
        Whether flows act at different times, as in `networks`.

    Returns
    -------
    Network
        Network within the operating range of the protocol.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> example_network(QIRCP()).rtts
    array([0.04, 0.04])
    """
    n_flows = as_count(n_flows, "n_flows", minimum=1)
    products = None if buffer is None else as_number(buffer, "buffer", positive=True)
    limits = operating_range(protocol)
    capacity, rtt = limits.capacity[0], limits.rtt[0]
    return Network(
        [Link(capacity, rtt / 2.0, _buffer(products, capacity, rtt, limits.packet_size))],
        [Flow([0], packet_size=limits.packet_size, **_apart(index, rtt, apart)) for index in range(n_flows)],
    )


def _apart(index: int, rtt: float, apart: bool) -> dict[str, Any]:
    """Return start and additional delay of a flow, which are not simple multiples of a packet's transmission time."""
    if not apart:
        return {}
    start, delay = 0.3173741 * index * rtt, 0.01371373 * (index + 1) * rtt
    return {"start": float(f"{start:.6g}"), "access_delay": float(f"{delay:.6g}")}


@check_arguments
def networks(
    protocol: Protocol | ProtocolAssignment,
    *,
    flows: tuple[int, int] = (1, 4),
    links: tuple[int, int] = (1, 2),
    equal_rtts: bool = False,
    buffers: Sequence[float | None] = (None, 1.0, 2.0),
    apart: bool = False,
) -> SearchStrategy[Network]:
    """Return a strategy for networks in the operating range of a protocol: a chain of links, and flows on parts of it.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    flows : tuple of two int, optional
        Minimum and maximum number of flows.
    links : tuple of two int, optional
        Minimum and maximum number of links.
    equal_rtts : bool, optional
        Whether all flows have the same RTT and cross all links.
    buffers : sequence of float or None, optional
        Buffers of links, in products of capacity and RTT; None: unlimited.
    apart : bool, optional
        Whether flows start at different times and have different delays, so that no two of them act at the same
        instant.

    Returns
    -------
    SearchStrategy
        Strategy of Hypothesis that draws networks.

    Raises
    ------
    EccError
        If Hypothesis is not installed.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> networks(QIRCP(), links=(1, 1)).example().n_links  # doctest: +SKIP
    1
    """
    st = hypothesis().strategies
    limits = operating_range(protocol)
    step = st.integers(0, STEPS)

    @st.composite  # type: ignore[untyped-decorator]
    def drawn(draw: DrawFn) -> Network:
        n_links = draw(st.integers(*links))
        rtt = _between(limits.rtt, draw(step))
        buffer = draw(st.sampled_from(list(buffers)))
        chain = []
        for _ in range(n_links):
            capacity = _between(limits.capacity, draw(step))
            size = _buffer(buffer, capacity, rtt, limits.packet_size)
            chain.append(Link(capacity, _rounded(0.5 * rtt / n_links), size))
        parts: list[Flow] = []
        for _ in range(draw(st.integers(*flows))):
            first, last, access = 0, n_links - 1, 0.0
            other = _apart(len(parts), rtt, apart)
            if not equal_rtts:
                first = draw(st.integers(0, last))
                last = draw(st.integers(first, last))
                flow_rtt = max(rtt, _between(limits.rtt, draw(step)))  # not below the delays of the links
                access = _rounded(max(0.0, 0.5 * flow_rtt - sum(link.delay for link in chain[first : last + 1])))
            access = float(f"{access + other.pop('access_delay', 0.0):.9g}")
            parts.append(Flow(range(first, last + 1), access_delay=access, packet_size=limits.packet_size, **other))
        return Network(chain, parts)

    strategy: SearchStrategy[Network] = drawn()
    return strategy


@check_arguments
def parameters(protocol: Protocol) -> SearchStrategy[Protocol]:
    """Return a strategy for a protocol with other values of its numeric parameters, within the range of its class.

    Each parameter that is a positive number of type float is multiplied by a factor from 0.8 to 1.25. Values that the
    constructor of the class rejects are not drawn.

    Parameters
    ----------
    protocol : Protocol

    Returns
    -------
    SearchStrategy
        Strategy of Hypothesis that draws protocols of the same class.

    Raises
    ------
    EccError
        If Hypothesis is not installed.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> parameters(QIRCP(alpha=0.4)).example().alpha  # doctest: +SKIP
    0.32
    """
    st = hypothesis().strategies
    names = [f.name for f in fields(protocol) if f.init and _is_scalable(getattr(protocol, f.name))]

    @st.composite  # type: ignore[untyped-decorator]
    def drawn(draw: DrawFn) -> Protocol:
        changed = protocol
        for name in names:
            factor = draw(st.sampled_from(FACTORS))
            if factor != 1.0:
                try:
                    changed = replace(changed, **{name: _rounded(factor * getattr(protocol, name))})
                except (ValueError, TypeError):  # outside the range that the class declares
                    continue
        return changed

    strategy: SearchStrategy[Protocol] = drawn()
    return strategy


@check_arguments
def scenarios(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    rtts: float = 30.0,
    *,
    vary: bool = True,
    **options: Any,
) -> SearchStrategy[Scenario]:
    """Return a strategy for scenarios of a protocol.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment or mapping
    rtts : float, optional
        Duration, in RTTs of the network.
    vary : bool, optional
        Whether to vary the parameters of the protocol, too.
    **options
        Options of `networks`.

    Returns
    -------
    SearchStrategy
        Strategy of Hypothesis that draws scenarios.

    Raises
    ------
    EccError
        If Hypothesis is not installed.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> scenarios(QIRCP(), 10.0).example().duration  # doctest: +SKIP
    0.4
    """
    st = hypothesis().strategies
    subject = read_protocol(protocol)
    varied = parameters(subject) if vary and isinstance(subject, Protocol) else st.just(subject)

    @st.composite  # type: ignore[untyped-decorator]
    def drawn(draw: DrawFn) -> Scenario:
        network = draw(networks(subject, **options))
        duration = _rounded(rtts * float(network.rtts.max()))
        return Scenario(network, draw(varied), duration, seed=1 + draw(st.integers(0, 9)), phases="equal")

    strategy: SearchStrategy[Scenario] = drawn()
    return strategy


def _is_scalable(value: Any) -> bool:
    return type(value) is float and 0.0 < value and isfinite(value)


def _between(limits: tuple[float, float], step: int) -> float:
    """Return a value between two limits, on a logarithmic scale; step 0 is the lower limit."""
    low, high = limits
    return low if step == 0 else _rounded(low * (high / low) ** (step / STEPS))


def _rounded(value: float) -> float:
    """Return a value rounded to three digits, which is short to print."""
    return float(f"{value:.3g}")


def _buffer(products: float | None, capacity: float, rtt: float, packet: int) -> int | None:
    if products is None:
        return None
    return max(10, round(products * capacity * rtt / (8.0 * packet))) * packet
