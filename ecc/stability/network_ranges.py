"""Ranges of networks: one bottleneck with equal flows, with limits on their number, the capacity and the RTT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Unpack

from ecc._support.arguments import Positive, check_arguments, shown
from ecc._support.display import Displayed
from ecc._support.quantity import as_count, as_delay, as_rate
from ecc._support.reports import ProgressCallback, Reporter
from ecc.contract.assignment import ProtocolAssignment, read_protocol
from ecc.contract.protocol import Protocol
from ecc.errors import LinearizationError
from ecc.linear import DelaySystem
from ecc.linear.box_cover import Axis, BoxCover, cover_box
from ecc.loops.closed_loop import linearize
from ecc.loops.options import LinearKeywords, LinearOptions, read_options
from ecc.network.network import Network

__all__ = ["NetworkRange", "cover_range", "linearize_on"]

_MAX_FLOWS, _MAX_VALUES = 10**6, 100


@check_arguments
@dataclass(frozen=True, repr=False)
class NetworkRange(Displayed):
    """All dumbbells within limits; each of the first three parameters is one value, or a pair (lowest, highest).

    Parameters
    ----------
    capacity : float or pair, bit/s, > 0
        Capacity of the bottleneck.
    flows : int or pair, from 1 to 1e6
        Number of flows; a pair stands for every whole number between.
    rtt : float or pair, s, > 0
        RTT of all flows, without queues.
    packet_size : int, bytes, optional
        Size of packets.

    Raises
    ------
    TypeError, ValueError
        A value that is not valid, or limits in the wrong order.

    Examples
    --------
    >>> len(NetworkRange("30 Mb/s", flows=(60, 100), rtt=("50 ms", "200 ms")).corners())
    4
    """

    capacity: Any
    flows: Any
    rtt: Any
    packet_size: int = 1000
    _units = {"capacity": "bit/s", "rtt": "s", "packet_size": "bytes"}

    def _title(self) -> str:
        return "Networks with one bottleneck and equal flows"

    def __post_init__(self) -> None:
        reads: dict[str, Callable[[Any, str], float]] = {"capacity": as_rate, "flows": as_count, "rtt": as_delay}
        for name, read in reads.items():
            value = getattr(self, name)
            pair = value if isinstance(value, tuple | list) else (value, value)
            limits = tuple(read(limit, name) for limit in pair)
            if len(limits) != 2 or not 0 < limits[0] <= limits[1]:
                raise ValueError(f"{name} must be > 0, or a pair (lowest, highest) of such, got {shown(value)}")
            object.__setattr__(self, name, limits)
        if self.flows[1] > _MAX_FLOWS:
            raise ValueError(f"flows must be <= {_MAX_FLOWS}, got {shown(self.flows[1])}")

    def axes(self) -> tuple[Axis, ...]:
        """Return the limits as axes of a box."""
        return (
            Axis("capacity", *self.capacity),
            Axis("flows", float(self.flows[0]), float(self.flows[1]), whole=True),
            Axis("rtt", *self.rtt),
        )

    def at(self, capacity: float, flows: float, rtt: float) -> Network:
        """Return one network.

        Parameters
        ----------
        capacity, flows, rtt : float
            Capacity [bit/s], a whole number of flows, and RTT [s].
        """
        if not (1.0 <= flows <= _MAX_FLOWS and flows == int(flows)):
            raise ValueError(f"flows must be a whole number from 1 to {_MAX_FLOWS}, got {shown(flows)}")
        return Network.dumbbell(capacity, [rtt] * int(flows), packet_size=self.packet_size)

    def grid(self, count: Positive = 2) -> list[tuple[float, float, float]]:
        """Return the points of an even grid over the logarithms, with up to `count` values of each parameter.

        Parameters
        ----------
        count : int, from 2 to 100, optional
            Number of values; 2 gives the corners.

        Raises
        ------
        ValueError
            The count is out of range.
        """
        if not 2 <= count <= _MAX_VALUES:
            raise ValueError(f"count must be from 2 to {_MAX_VALUES}, got {count}")
        along = []
        for axis in self.axes():
            values = [axis.low * (axis.high / axis.low) ** (k / (count - 1)) for k in range(count)]
            values[-1] = axis.high
            along.append(sorted({float(round(value)) if axis.whole else value for value in values}))
        return [(capacity, flows, rtt) for capacity, flows, rtt in product(*along)]

    def corners(self) -> list[Network]:
        """Return the networks with extreme values."""
        return [self.at(*point) for point in self.grid()]


def linearize_on(protocol: Any, network: Network, clocking: str | None) -> DelaySystem:
    """Return the continuous linear model on a network of a range.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    network : Network
    clocking : str
        Clocking of windows, as for linearize.

    Raises
    ------
    LinearizationError
        The linear model does not exist; the message names the network.
    """
    try:
        system = linearize(protocol, network, clocking=clocking)
    except LinearizationError as error:
        capacity, rtt = network.capacities[0], network.rtts[0]
        place = f"{capacity / 1e6:g} Mb/s with {network.n_flows} flows and RTTs of {1e3 * rtt:g} ms"
        raise LinearizationError(f"{error} (on {place})") from None
    assert isinstance(system, DelaySystem)
    return system


@check_arguments
def cover_range(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    networks: NetworkRange,
    line: float = 0.0,
    gain_margin: float = 1.0,
    phase_margin: float = 0.0,
    *,
    options: LinearOptions | None = None,
    progress: ProgressCallback | None = None,
    **keywords: Unpack[LinearKeywords],
) -> BoxCover:
    """Return the proof that a linear model is stable, or decays, or has margins, on all networks of a range.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment or mapping
    networks : NetworkRange
    line : float, 1/s, optional
        Line without roots on it or to its right; it stands for a decay of -line or more.
    gain_margin, phase_margin : float, optional
        Factor >= 1; rad, >= 0, < pi. With a line other than 0, of the loop along that line.
    options : LinearOptions, optional
        Options of the linear models: `clocking`.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the network that is analyzed, as `text`.
    **keywords : optional
        Fields of `LinearOptions`, instead of `options`.

    Returns
    -------
    BoxCover

    Raises
    ------
    ConvergenceError
        The property is not proven; the message names the place.
    LinearizationError
        The linear model does not exist on a network of the range.

    Notes
    -----
    The networks between those that are computed are covered under one hypothesis, stated in `ecc.linear.box_cover`.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> from ecc.queues import PI
    >>> pair = {"flows": NewReno(ecn=True), "links": PI(mark=True, reference=200.0)}
    >>> cover_range(pair, NetworkRange("30 Mb/s", (60, 80), (0.1, 0.2)), gain_margin=2.0).gain_margin
    2.0
    """
    if not gain_margin >= 1.0:
        raise ValueError(f"gain_margin must be >= 1, got {shown(gain_margin)}")
    if not 0.0 <= phase_margin < 3.0:
        raise ValueError(f"phase_margin must be from 0 to 3 rad, got {shown(phase_margin)}")
    protocol = read_protocol(protocol)
    clocking = read_options(options, keywords, ("clocking",), "cover_range").clocking

    report = Reporter(progress)

    def family(**point: float) -> DelaySystem:
        report(lambda: ", ".join(f"{name} = {value:.4g}" for name, value in point.items()))
        return linearize_on(protocol, networks.at(**point), clocking)

    return cover_box(family, networks.axes(), line, gain_margin, phase_margin)
