"""Options of one kind of loop each: fluid forms of hosts, maps per round, queues of a link, the range of networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CycleOrbit",
    "FluidForm",
    "GrantedWindows",
    "OperatingRange",
    "ProbingCycle",
    "Queues",
    "RelayDelays",
    "RoundMap",
    "SampledPrices",
    "StateMachine",
    "SteppedRates",
]


class RelayDelays(NamedTuple):
    """The delays of hosts with a relay in addition to the RTT, which the averaged law omits.

    Attributes
    ----------
    above : float, RTTs
        Time from the report of a value above the threshold until the window stops to grow, for example 0.5.
    below : float, RTTs
        The same for a report of a value below the threshold.
    hold : float, RTTs
        Time for which the window then is constant before it changes in the other direction.
    """

    above: float = 0.0
    below: float = 0.0
    hold: float = 0.0


class SampledPrices(NamedTuple):
    """The fluid form of sources that respond once to each price, which a router computes over an interval.

    Attributes
    ----------
    rtt_gain : float
        Weight of the RTT of an interval in the moving average that the router law gets as `d`.
    """

    rtt_gain: float = 1.0


class SteppedRates(NamedTuple):
    """The fluid form of sources that step after routers have reported on a complete interval since their last step.

    Attributes
    ----------
    waits : tuple of int
        Intervals of the router that pass before that, after a change of router and after one of the rate.
    needs_approval : bool
        True if a higher rate waits until no link refuses it.
    near : float
        Distance from the offer of its link, as a share of it, within which a source has reached the offer.
    refusal_law : callable or None
        Law with a router's arguments: if it is above 0, a link refuses the requested rate. None: it never refuses.
    opening_rate : float
        Rate with which flows begin [bit/s], if it is more than their `floor`.
    opening_bytes : float
        Data that a flow delivers before it responds to feedback [bytes].
    limits_requests : bool
        True if a flow of finite size requests no more than its size over its RTT.
    """

    waits: tuple[int, int]
    needs_approval: bool
    near: float
    refusal_law: Callable[..., float] | None = None
    opening_rate: float = 0.0
    opening_bytes: float = 0.0
    limits_requests: bool = False


class GrantedWindows(NamedTuple):
    """The fluid form of routers that count an interval and grant in the next one changes of windows.

    Attributes
    ----------
    interval_law : callable
        Law of d and p for the interval over which a router counts [s].
    queue_interval_law : callable
        Law of d, q, C and p for the interval over which a router seeks the minimum queue [s].
    paced : bool
        True if sources send at no more than w/D.
    handshake_time : float
        Time for which the packets of an interval are taken to be spaced, if none of them reports a spacing because all
        of them open connections [s].
    """

    interval_law: Callable[..., float]
    queue_interval_law: Callable[..., float]
    paced: bool = False
    handshake_time: float = 1.0


class ProbingCycle(NamedTuple):
    """The cycle of hosts that probe: what they remember from one probe to the next, and when a cycle begins.

    Attributes
    ----------
    memory : mapping
        Quantity -> fields of the record `flow` that hold it, the one in use first; a field may be an array. For
        example {"bandwidth": ("bw", "bw_value"), "minimum RTT": ("min_rtt",)}.
    begins : tuple of (str, float or None)
        Fields of `flow` and their values. A cycle begins as the first flow takes the value (None: as the field
        changes). The first pair belongs to the longest cycle, for example that of ProbeRTT. If that does not recur in a
        run, the next pair counts. In the fluid, the longest cycle begins as any flow takes the value while no other has
        it.
    after : bool
        True if the longest cycle begins as the first flow leaves the value, and in the fluid as no flow has it any
        more, because the memory changes before.
    spread : float, in [0, 1)
        Largest deviation of the distance of two ACKs from its mean, as a share of it, in the fluid of hooks. 0: ACKs
        are equally spaced. Hosts that keep any increase of a measured rate, however small, need irregular ACKs:
        otherwise they fall into step, and never measure an increase.
    """

    memory: Mapping[str, tuple[str, ...]]
    begins: tuple[tuple[str, float | None], ...]
    after: bool = False
    spread: float = 0.0


class StateMachine(NamedTuple):
    """The fluid form of hosts that are state machines, which probe in turns, jump, and keep measurements.

    Attributes
    ----------
    on_step : callable
        `on_step(flow, header, p, env)`, in the language of hooks: moves the fields of `flow` by a step of the fluid,
        and sets `env.rate` [bit/s] and `env.window` [bit] (`FluidEnv`). `header` has the fields of `memory`.
    state : type
        Dataclass of float fields: the fields of `flow`, with their initial values.
    probing_cycle : ProbingCycle or None
        Cycle of the machine, by fields of `state`, for its multipliers (`ecc.cycles.probing`). None: not declared.
    memory : object or None
        Instance of a dataclass whose fields are floats or arrays (`tuple[float, ...]`), with their initial values: each
        flow's further memory, for example the last observations of a policy. It cannot be recorded. None: no fields.
    """

    on_step: Callable[[Any, Any, Any, Any], None]
    state: type
    probing_cycle: ProbingCycle | None = None
    memory: Any = None


FluidForm = SampledPrices | SteppedRates | GrantedWindows | StateMachine


class RoundMap(NamedTuple):
    """The dynamics of a protocol on one network as a map per round, with the orbit to linearize at (`ecc.loops`).

    Attributes
    ----------
    law : callable
        `law(state, p)`: all states after a round, given those before it. A plain function of a module, in the language
        of laws: + - * /, comparisons, min, max, abs, exp, log, sqrt and tanh; it may call hooks.
    state : tuple of float and int
        A fixed point of the law, or a state of a cycle. An int is a discrete state, for example a flag: it has no
        deviations, and must return with the orbit.
    p : object
        Parameters of the protocol and data of the network, for example routes.
    duration : float
        Length of a round [s].
    rounds : int
        Rounds after which the orbit returns; 1: a fixed point.
    delays : tuple of float
        Length of a round for each state [s], in continuous time; empty: `duration` for all.
    notes : tuple of str
        Effects that the map omits, one line each.
    averaged : RoundMap or None
        Map of the continuous model, if the law jumps at the orbit: the convex combination of its sides that keeps the
        states where it jumps (Filippov). None: the same map.
    one_sided : str
        Result that holds for all one-sided derivatives, as a note, if the law has a kink at the orbit; empty: a kink is
        refused.
    random_law : callable or None
        `random_law(state, draws, p)`: the same map with the random choices of hosts, which `law` fixes; `draws` are
        independent and uniform on [0, 1). None: hosts make no random choices.
    draws : int
        Number of draws of a round.
    """

    law: Callable[[Sequence[Any], Any], Sequence[Any]]
    state: tuple[float, ...]
    p: Any
    duration: float
    rounds: int = 1
    delays: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    averaged: Any = None
    one_sided: str = ""
    random_law: Callable[[Sequence[Any], Sequence[float], Any], Sequence[Any]] | None = None
    draws: int = 0


class CycleOrbit(NamedTuple):
    """A cycle that a protocol computes itself: hosts that switch at events, and have no equilibrium.

    Attributes
    ----------
    period : float
        Period [s].
    mean, amplitude : float
        Mean of the queue, and half of its peak-to-peak range [bytes].
    multipliers : tuple of float
        Multipliers of deviations over a period, by modulus.
    time : ndarray, shape (n_times,)
        One period [s], from 0.
    queue : ndarray, shape (n_times,)
        Bytes.
    rates : ndarray, shape (n_flows, n_times)
        Bit/s.
    method : str
        Method of the computation, as a clause.
    notes : tuple of str
        Effects that are left out, one line each.
    """

    period: float
    mean: float
    amplitude: float
    multipliers: tuple[float, ...]
    time: NDArray[np.float64]
    queue: NDArray[np.float64]
    rates: NDArray[np.float64]
    method: str
    notes: tuple[str, ...] = ()


class Queues(NamedTuple):
    """The queues of a link, in `Protocol.queues`; `on_classify` writes the queue of a packet into `env.queue_index`.

    Attributes
    ----------
    scheduler : str
        Choice of the queue of the next packet: "priority": the first that is not empty; "drr": deficit round
        robin; "fq": the same, with queues first that were empty (RFC 8290); "select": the hook `on_select` writes it
        into `env.queue_index`, or the time for which the link waits into `env.wait` [s]. It is called without a packet.
    quanta : tuple of int, bytes
        Bytes that each queue may send in a turn, one entry per queue; unused with "priority" and "select".
    drops_longest : bool
        True if a full buffer drops the first packet of the longest queue instead of the arriving packet.
    """

    scheduler: str
    quanta: tuple[int, ...]
    drops_longest: bool = False


class OperatingRange(NamedTuple):
    """The networks that a protocol is made for: `ecc.testing` draws its networks from this range.

    Attributes
    ----------
    capacity : tuple of two float, bit/s
        Minimum and maximum capacity of a link.
    rtt : tuple of two float, s
        Minimum and maximum RTT of a flow, without queues.
    packet_size : int, bytes
    convergence : float
        Time, in RTTs, after which a run from empty queues no longer depends on its start.
    """

    capacity: tuple[float, float] = (10e6, 30e6)
    rtt: tuple[float, float] = (0.04, 0.12)
    packet_size: int = 1000
    convergence: float = 200.0
