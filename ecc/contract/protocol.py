"""The contract of a protocol, and how to write one.

A protocol is a frozen dataclass of parameters, derived from `Protocol`, in a file of its own:

1. `router_law` and `source_law`: plain scalar functions. The names of their arguments select the quantities that
   every engine supplies, in bits, bit/s and seconds:

   ========  ==============================================================  ============  =====
   name      meaning                                                         law           unit
   ========  ==============================================================  ============  =====
   R         the router's state, often a fair rate: before this update       router        bit/s
   ..        the router's state after this update                            announce      bit/s
   ..        the feedback received now                                       source        bit/s
   R_prev    the feedback received one update before                         source        bit/s
   x         the flow's own rate before this update                          source        bit/s
   ..        the rate in the header of the packet that gets the feedback     router        bit/s
   x_rtt     the flow's own rate one RTT ago                                 source        bit/s
   y         arrival rate, averaged over the interval that just ended        router, ann.  bit/s
   y_prev    the same, one interval before                                   router, ann.  bit/s
   u         part of y from flows bottlenecked at another link               router, ann.  bit/s
   N         number of flows bottlenecked at the link                        router, ann.  --
   N_all     number of flows that cross the link                             router, ann.  --
   q         queue                                                           router, ann.  bit
   q_mean    queue, averaged over the interval that just ended, with windows router, ann.  bit
   C         capacity                                                        router, ann.  bit/s
   d         RTT by which the router scales its step (mean or maximum)       router, ann.  s
   D         the flow's own RTT                                              source        s
   T         control interval                                                all           s
   w         the flow's own window                                           source, loss  bit
   w_rtt     window in force when the data acknowledged now was sent         source        bit
   m         value remembered from the last loss (`memory_law`)              source, loss  bit
   since     time since its window last decreased by feedback; inf: never    source, decr. s
   s         size of the flow's packets; of routers with windows             router, src.  bit
   a         data that an ACK acknowledges: s, or more with delayed ACKs     source        bit
   q_flow    the flow's own data in the queue, with windows                  router        bit
   loss      share of arrivals lost in the queue and its wire, with windows  router        --
   p         the parameters, by attribute                                    all           --
   ========  ==============================================================  ============  =====

   `router_law` returns the router's next state, `source_law` the next rate. A router law without `R` has no memory:
   its result is announced at once. Otherwise the router announces its next state, or the result of an `announce_law`.
   A source law that takes `w` returns the window one RTT later; ACKs clock the flow (`ecc.fluid.network`). If windows
   are paced (`paced_over`), it returns the window after all of the present one is acknowledged.
   Flows begin in slow start if there is a `slow_start_law`, which has the same arguments and returns the window one
   RTT later. Slow start ends at a loss, or if the law returns no more than w, which is then the window. If feedback
   makes windows decrease at once, a `decrease_law` with the same arguments returns the reduced window, or w without a
   decrease. If losses make windows jump, a `loss_response_law` returns the window after a loss, and a `memory_law` the
   value to remember.
   A flow is bottlenecked at the link of its path with the minimum feedback (or the maximum; or feedback is summed:
   `combine`). With a `priority_law` it is the link with the largest priority, and `combine` decides ties. A law uses
   + - * /, comparisons, min, max, abs and `ecc.laws.elementary`; no power with a constant exponent, and no arrays other
   than parameters.

   Further states of hosts or routers (an averaged share of marks, an integrator, a price) are in `states`: name ->
   `State`, and each law can take one by its name. Two laws act by signals: a queue discipline has a `probability_law`,
   the probability that a packet is marked or dropped; hosts have a `loss_response_law`, the window right after a loss,
   and right after a mark unless there is a `mark_response_law`. Laws of a discipline have sizes in packets of its
   parameter `packet_size`, and all their arguments refer to its queue:

   ==========  ============================================================================  ================  =========
   q           queue, the packet in service included                                         all               packets
   q_prev      the queue `interval` before                                                   all               packets
   y           arrival rate; in a state with the clock "interval", averaged over the last    all               packets/s
   y_passed    rate of arrivals neither marked nor dropped in the last step, as fluid        all               packets/s
   C           capacity                                                                      all               packets/s
   T           `interval`; of a discipline without it, as fluid, the step                    all               s
   scalable    1.0 for packets of a host whose `ecn_echo` is "scalable" (ECT(1)), else 0.0   probability_law   --
   p           the parameters                                                                all               --
   ==========  ============================================================================  ================  =========

   Laws of hosts that have states can also take

   ==========  ============================================================================  ================  =========
   marked      share of marked data among the data acknowledged in the last RTT              source, states    --
   ==========  ============================================================================  ================  =========

   In the fluid, packets of a flow that sends at x are marked or dropped x P/s times a second. P is the probability at
   the time of their arrival at the queue, for several links 1 - prod(1 - P). The flow responds when their ACKs arrive:
   its window and its states move by jump(state) - state at that rate, w' = [source_law(w) - w]/D + x P/s (jump(w) - w).
   Hosts in packet runs respond once per RTT, which is the same if signals are rare.
2. `Header`, `LinkState`, `FlowState`: dataclasses of float and int fields, and the hooks that keep in them the state of
   a real router and host and call the laws (`ecc.models.shared` has hooks of several protocols). A hook must return:
   nothing can end a loop in it from outside, so loops have a bound. Fields may be arrays, for example
   `tuple[float, ...]` with the default `(0.0,) * 4`. In a header or a flow's state, `per_hop()` as the default makes
   an array with an entry for each link of a path (`ecc.contract.records`): telemetry that packets collect.
   A protocol whose hooks are not written yet leaves 2 out, and `link_hooks`, `flow_hooks`, `link_at` and `flow_at`
   with it: a packet run of it is refused.
3. `equilibrium` and `published_bounds`; `main_parameter`, the gain that `ecc stability` varies.

With only 2 there are packet runs; with 1, fluid runs; with `equilibrium`, linear models. A protocol without 1, whose
hosts and routers act once per round, has linear models by `round_map`. The laws and hooks see the
fields that are numbers, or arrays of numbers declared as `tuple[float, ...]`, for example the weights of a trained
policy, unless `params` is defined; `rate_range` is from 0 to the capacity.

Then add its class to `ecc.models.__init__`, its tests, and its row to docs/protocols.md. No other file names it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from functools import lru_cache, wraps
from inspect import Parameter, signature
from math import inf
from numbers import Real
from types import FunctionType, MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import changed_text
from ecc._support.quantity import Dimension
from ecc.contract.choices import ARRAY_TYPES, NUMBER_TYPES
from ecc.contract.env import Hook, NoRecord, Params
from ecc.contract.equilibrium import Bound, Equilibrium, EquilibriumSet, RelayLoop
from ecc.contract.forms import (
    CycleOrbit,
    FluidForm,
    OperatingRange,
    ProbingCycle,
    Queues,
    RelayDelays,
    RoundMap,
    StateMachine,
)
from ecc.contract.loop import Loop, loop_of
from ecc.contract.records import as_floats
from ecc.contract.reference import ReferenceLoop
from ecc.contract.states import State
from ecc.errors import LinearizationError
from ecc.formats.headers import WireFields, WireHeader
from ecc.laws.affine import is_affine
from ecc.network.network import Network

__all__ = ["Protocol"]


_MOVING = ("R", "R_prev", "x", "x_rtt", "y", "y_prev", "u", "q", "q_mean", "q_flow", "loss", "w", "w_rtt", "m")
"""Arguments of laws that move along a run."""
_CHECKED = (
    "equilibrium",
    "equilibrium_set",
    "cycle_orbit",
    "network_notes",
    "pacing_burst",
    "published_bounds",
    "relay_loop",
    "round_map",
)
"""Methods of subclasses whose arguments are checked."""


@dataclass(frozen=True)
class Protocol:
    """Base of all protocols; the docstring of this module explains how to write one."""

    def __repr__(self) -> str:
        return changed_text(self)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):  # the decorator `dataclass` would write one with all parameters
            setattr(cls, "__repr__", Protocol.__repr__)  # noqa: B010, mypy refuses an assignment to a method
        for name, value in vars(cls).items():
            if name.endswith("_law") and isinstance(value, FunctionType):
                raise TypeError(f"{name} of {cls.__name__} must be a static method: {name} = staticmethod(...)")
        for name in _CHECKED:
            if name in vars(cls):
                setattr(cls, name, check_arguments(vars(cls)[name]))
        if checks_of_class := vars(cls).get("__post_init__"):

            @wraps(checks_of_class)
            def read_and_checked(self: Protocol) -> None:
                checks_of_class(self)
                if type(self).__post_init__ is read_and_checked:  # not called by a subclass, which checks last
                    Protocol.__post_init__(self)

            cls.__post_init__ = read_and_checked  # type: ignore[method-assign]

    def __new__(cls, *arguments: Any, **named: Any) -> Protocol:
        """Refuse unknown arguments in one line that names the arguments of the class."""
        names, places, is_variadic = _parameters(cls)  # type: ignore[arg-type]  # about __hash__, that of instances
        if names is not None:
            for name in named:
                if name not in names:
                    raise TypeError(f"{cls.__name__} must have arguments among {', '.join(names)}, got {shown(name)}")
        if len(arguments) > len(places) and not is_variadic:
            listed = f" ({', '.join(places)})" if places else ""
            raise TypeError(
                f"{cls.__name__} must have at most {len(places)} argument{'' if len(places) == 1 else 's'} without a "
                f"name{listed}, got {len(arguments)}"
            )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Refuse fields that are declared as numbers or arrays and are not; a subclass may read units before."""
        for f in _fields_of_numbers(type(self)):  # type: ignore[arg-type]  # about __hash__, that of instances
            value = getattr(self, f.name)
            if type(value) is float and value == value and f.type in NUMBER_TYPES:
                continue
            if f.type in ARRAY_TYPES and not (value is None and f.default is None):
                object.__setattr__(self, f.name, as_floats(value, f.name))
            if f.type not in NUMBER_TYPES:
                continue
            fits = isinstance(value, Real) and not isinstance(value, bool)
            if not fits and value is not f.default:
                hint = ": a class reads units with check_number" if isinstance(value, str) else ""
                raise TypeError(f"{f.name} must be a number, got {shown(value)}{hint}")
            if fits and value != value:
                raise ValueError(f"{f.name} must be a number, got {shown(value)}")

    # ---- parameters --------------------------------------------------------------------------------------

    dimensions: ClassVar[Mapping[str, Dimension]] = MappingProxyType({})
    """Dimension of each parameter that has one: {"interval": TIME, "line_rate": RATE}. A parameter that is not named is
    a pure number, for example a gain, a share, or a number of packets. A class declares its own parameters only: those
    of its base classes are added (`dimensions_of`). A property, if a dimension depends on other parameters."""

    def params(self) -> dict[str, Any]:
        """Return the parameters as the laws and hooks see them (`p`): name -> float, or array of floats.

        By default all fields that are numbers, or arrays declared as `tuple[float, ...]`. An array has one dimension:
        `p.weights[i]`, `len(p.weights)`.
        """
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays = {f.name for f in fields(self) if f.type in ARRAY_TYPES and values[f.name] is not None}
        return {
            name: value if name in arrays else float(value)
            for name, value in values.items()
            if name in arrays or isinstance(value, Real)
        }

    def namespace(self) -> Params:
        """Return `params()` with attribute access, for calling a law by hand; arrays are tuples."""
        values = self.params().items()
        return Params(**{name: value if np.ndim(value) == 0 else as_floats(value, name) for name, value in values})

    def relabeled(self, flows: Sequence[int]) -> Protocol:
        """Return the protocol for a network with relabeled flows; itself, if no parameter names flows by index.

        Parameters
        ----------
        flows : sequence of int
            For each flow of the new network, the flow of the old one of which it is a copy.
        """
        return self

    # ---- laws --------------------------------------------------------------------------------------------

    router_law: ClassVar[Callable[..., float]]
    """The next state R of a router; without the argument `R`, the feedback that it announces."""
    announce_law: ClassVar[Callable[..., float] | None] = None
    """The feedback that a router announces, if it is not its state; None: its state."""
    source_law: ClassVar[Callable[..., float]]
    """The next rate of a flow; with the argument `w`, its window one RTT later."""
    slow_start_law: ClassVar[Callable[..., float] | None] = None
    """The window one RTT later while a flow is in slow start; None: flows begin without slow start."""
    decrease_law: ClassVar[Callable[..., float] | None] = None
    """The window right after feedback that reduces it, or w without a reduction; None: no such feedback."""
    loss_response_law: ClassVar[Callable[..., float] | None] = None
    """The window right after a loss; None: losses do not change windows."""
    mark_response_law: ClassVar[Callable[..., float] | None] = None
    """The window right after a mark; None: the same as after a loss."""
    marked_round_law: ClassVar[Callable[..., float] | None] = None
    """The window after a round in which all packets are marked; None: that of `mark_response_law`, at the first mark.

    Declared if `mark_response_law` is a mean over marks at random times.
    """
    is_paced: ClassVar[bool] = False
    """Whether hosts send their windows at the rate w/D, for models of cycles; other models have the option clocking."""
    memory_law: ClassVar[Callable[..., float] | None] = None
    """The value that a flow remembers from a loss, the argument `m` of other laws; None: no value."""

    @property
    def probability_law(self) -> Callable[..., float] | None:
        """The law for the probability that a queue discipline marks or drops a packet; None if it is not known."""
        return None

    @property
    def states(self) -> Mapping[str, State]:
        """States of a host or a queue discipline in addition to w, x, m and R: name -> `State`; empty by default."""
        return MappingProxyType({})

    @property
    def priority_law(self) -> Callable[..., float] | None:
        """A law with a router's arguments: flows are bottlenecked at the link where it is largest; None: no law."""
        return None

    def rate_range(self, capacity: float) -> tuple[float, float]:
        """Return minimum and maximum of a router's state R at a capacity [bit/s]; by default 0 and the capacity."""
        return 0.0, capacity

    @property
    def has_affine_laws(self) -> bool:
        """True if the laws are affine in rates, queues and feedback: their derivatives are constant."""
        if getattr(self, "router_law", None) is None or getattr(self, "source_law", None) is None:
            return False
        constants = {"p": self.namespace()}
        return all(is_affine(law, _MOVING, constants) for law in (self.router_law, self.announce_law, self.source_law))

    # ---- signals -----------------------------------------------------------------------------------------

    @property
    def gives(self) -> frozenset[str]:
        """The signals of its routers in addition to "loss" and "delay", which every link gives.

        "ecn", or the name of a header; by default the protocol's own, if its routers have hooks.
        """
        has_routers = type(self).has_packet_hooks() and self.link_hooks()
        return frozenset({type(self).__name__} if has_routers else ())

    @property
    def answers(self) -> frozenset[str]:
        """The signals that its hosts respond to; their links must give one of them, unless the set is empty."""
        return self.gives if type(self).has_hosts() else frozenset()

    # ---- feedback and router timing ----------------------------------------------------------------------

    @property
    def queues(self) -> Queues | None:
        """The queues of its links; None: one, first in, first out."""
        return None

    combine: ClassVar[str] = "min"
    """Combination of the feedback of the links of a path: "min" or "max" (a flow has one bottleneck), or "sum"."""

    @property
    def stamping(self) -> str:
        """Time at which a router writes its feedback into a packet: "departure", or "arrival" in the queue."""
        return "departure"

    @property
    def scaling_rtt(self) -> str:
        """RTT that the router law gets as `d`: "mean" or "max"."""
        return "mean"

    @property
    def scaling_rtt_limit(self) -> float:
        """RTTs above this count as this in `d` [s]; inf: all count in full."""
        return inf

    rtt_weights: ClassVar[str] = "rates"
    """Weights of a router's mean RTT: each packet counts ("rates"), or each flow ("flows")."""

    @property
    def router_clock(self) -> str:
        """Time over which routers measure: "interval", the parameter of that name, or "rtt", their mean RTT."""
        return "interval"

    # ---- source timing, and the form of the fluid --------------------------------------------------------

    @property
    def source_clock(self) -> str:
        """Times at which a source updates: "interval" (by ACKs, once an interval), "ack" (by each), "rtt".

        "always": once an interval however many ACKs there are: by a timer, or in shares that ACKs bring. "continuous":
        at every moment, and its law returns the derivative of the rate [bit/s^2].
        """
        return "interval"

    windowed: ClassVar[bool] = False
    """True if sources keep windows: the rate of the source law is then a window over the present RTT."""

    @property
    def window_clock(self) -> str:
        """Times at which hosts move their window: "rtt", "ack" (at each, by steps that depend on the steps before).

        Or the name of a continuous state: the window follows it at each ACK, and only a reference moves once per RTT.
        Discrete linear models use it (`ecc.loops.rounds_of_windows`).
        """
        return "rtt"

    @property
    def paced_over(self) -> float:
        """Minimum time in which a window of a law with `w` is sent [s]; 0: as ACKs arrive."""
        return 0.0

    @property
    def fluid_form(self) -> FluidForm | None:
        """Options of a fluid in which hosts or routers act in steps or states (a type of `ecc.contract.forms`).

        None: routers and sources act at every moment, by delay differential equations, and windows, for which the
        source law has an argument `w`, are clocked by ACKs. It may be a class attribute.
        """
        return None

    @property
    def floor(self) -> float:
        """Minimum that a flow sends in an RTT, or with `SteppedRates` in an interval [packets] (0: one); or a field."""
        return 0.0

    @property
    def initial(self) -> float | None:
        """The start of a run; an attribute or a field of this name.

        For windows the first window in packets, or None for that of RFC 5681. For rates the feedback that routers
        announce from the start, as a share of the capacity, or None if they announce nothing.
        """
        return None

    @property
    def opening_window(self) -> float | None:
        """First window [bytes], if it is not a number of packets; None: `initial` gives it."""
        return None

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        """Return the rate of a flow before any feedback [bit/s]: a packet, or its `floor`, per RTT.

        Parameters
        ----------
        rtt : float or array, s
        packet : float or array
            Bit.
        """
        return max(1.0, self.floor) * packet / rtt

    # ---- loss recovery -----------------------------------------------------------------------------------

    @property
    def transport(self) -> str | None:
        """Loss recovery: "newreno" (RFC 6582), "sack" (RFC 6675), "rack" (RFC 8985), "quic" (RFC 9002), or None.

        None: lost data is not resent.

        The engine keeps sequence numbers, duplicate ACKs, retransmissions, timeouts and the estimate of the pipe (a
        duplicate ACK shows that a packet has left the network: no hook inflates a window); hooks set `env.window` or
        `env.rate`. `on_ack` is called for every ACK, with `env.acked` (bytes newly acknowledged, 0 for a duplicate),
        `env.recovering` and `env.recovered` (this ACK has ended a recovery); `on_loss` once a recovery (`env.kind` 0,
        `env.in_flight` the flight size, which can exceed `env.window` in a recovery) and once a timeout (1).

        "rack" finds losses by time, those of retransmissions and of the end of a flow too: `on_loss` is called again in
        a recovery, no more than once per RTT, if packets are lost that were sent after the last call
        (`lost_retransmission`). It sets `env.undone` in the `on_ack` of an ACK which shows that the last `on_loss` was
        spurious: a protocol then reverts its response. A recovery with several `on_loss` is never undone.

        "quic" counts all acknowledged bytes in `env.acked`, in any order, and calls `on_loss` once a recovery, which
        ends when a packet that was sent in it is acknowledged. A probe timeout calls no hook; `env.kind` 1 reports
        persistent congestion, with `env.recovering` 1 if `on_loss` has been called for this recovery already.
        `env.undone` is 0.

        See docs/engine_specification.md, S-73 to S-92, S-144 to S-154, S-163 and S-211 to S-221. It may be a class
        attribute or a parameter.
        """
        return None

    @property
    def lost_retransmission(self) -> str:
        """Response of the transport "rack" to the loss of a packet that was sent in the recovery.

        "reduce": `on_loss` is called again, once per RTT, and the recovery ends later (RFC 5681 sec. 4.3, RFC 8985 sec.
        3.4). "linux": nothing happens until the recovery ends; then, if a loss is not repaired, the next recovery
        begins (`tcp_fastretrans_alert`). After a timeout both do the same. See docs/engine_specification.md, S-163. It
        may be a class attribute or a parameter.
        """
        return "reduce"

    @property
    def uses_prr(self) -> bool | str:
        """True if recoveries use proportional rate reduction (RFC 9937); needs the transport "sack" or "rack".

        Hooks set `env.window` to the window after the loss, as without it. The engine then sends no more in the
        recovery than keeps the flight size on its way to that window, instead of waiting for an RTT or sending a burst.
        For hosts that reduce their windows at losses. "marks": reductions at ACKs that report marks, too, as in Linux
        (`tcp_enter_cwr`). See docs/engine_specification.md, S-164, S-165 and S-166. It may be a class attribute.
        """
        return False

    @property
    def ecn_echo(self) -> str | None:
        """The report of ECN marks by receivers; None: links cannot mark packets of flows.

        "classic" (RFC 3168: `env.marked` of `on_ack` is set once a window, to the bytes that the first ACK with marks
        acknowledges), "accurate" (bytes that were marked, in each ACK), or "scalable" (as accurate, with ECT(1): RFC
        9331). See docs/engine_specification.md, S-105 to S-111. It may be a class attribute or a parameter.
        """
        return None

    @property
    def receiver_window(self) -> int:
        """Receiver window: maximum lead of new data over acknowledged data [bytes], with a transport; 0: no limit."""
        return 0

    @property
    def min_rto(self) -> float:
        """Minimum retransmission timeout [s]; RFC 6298: 1 s."""
        return 1.0

    @property
    def initial_rto(self) -> float:
        """Retransmission timeout before the first ACK, with a transport [s]; RFC 6298: 1 s."""
        return 1.0

    @property
    def rto_granularity(self) -> float:
        """Minimum excess of the timeout over the smoothed RTT, with a transport [s]: the G of RFC 6298."""
        return 0.0

    @property
    def pacing(self) -> float:
        """Pacing rate of a window, in windows per smoothed RTT, with a transport (RFC 9002 sec. 7.7: 1.25); 0: none.

        The engine paces flows whose hooks set `env.window` and leave `env.rate` at 0. Bursts of up to `pacing_burst`
        leave at once. See docs/engine_specification.md, S-222. It may be a class attribute or a parameter.
        """
        return 0.0

    @check_arguments
    def pacing_burst(self, packet_size: float) -> float:
        """Return the maximum burst of a paced window [bytes]: 10 packets, the initial window of RFC 9002 sec. 7.2.

        Parameters
        ----------
        packet_size : float, bytes
            Maximum size of a packet.
        """
        return 10.0 * packet_size

    # ---- packets: records, hooks and headers -------------------------------------------------------------

    Header: ClassVar[type] = NoRecord
    """Dataclass of the fields that packets carry."""
    LinkState: ClassVar[type] = NoRecord
    """Dataclass of the state of a router at a link."""
    FlowState: ClassVar[type] = NoRecord
    """Dataclass of the state of a flow at its sender."""
    required_env: ClassVar[frozenset[str]] = frozenset()
    """Optional fields of `env` that hooks read: "random" (uniform, each call), "flow_queue" (a flow's bytes queued)."""
    n_timers: ClassVar[int] = 1
    """Number of timers of a flow, up to 4: hooks set them by `env.timer`, `env.timer_1`, ..., and `on_timer` finds the
    expired one in `env.kind`, from 0. (Bytes sent are counted separately: `env.counter`, `on_count`. The receiver has a
    timer of its own for reports: `on_receive` or `on_report` sets it by `env.timer`, and it calls `on_report`.)"""
    opening_size: ClassVar[int] = 0
    """Size of the packets that a flow sends until its first ACK [bytes]; 0: the size of all others."""
    phase_jitter: ClassVar[str | None] = None
    """Random phases of a flow's packets, against phase effects (S-186): "always", for unresponsive
    senders; "line rate", while packets leave no slower than the slowest link of the route can send them, for senders
    that start at line rate; None, never. A scenario may override it."""
    header_bytes: ClassVar[tuple[int, int] | None] = None
    """Bytes that the protocol adds to a packet on the wire, for data and for an ACK; None: not known."""

    @staticmethod
    def wire_fields(is_ack: bool) -> WireFields | None:
        """Return the layout of the congestion header, with the fields of the header record that it carries.

        None: the papers define no layout, and packets carry the fields of the record, 8 bytes each, and all entries of
        arrays.

        Parameters
        ----------
        is_ack : bool
            True for an ACK, False for data.
        """
        return None

    @classmethod
    def wire_header(cls, header: Mapping[str, Any], is_ack: bool) -> WireHeader:
        """Return the bytes of a packet in captures, by `wire_fields`; values are rounded to those that fields can hold.

        Parameters
        ----------
        header : mapping
            Field of `Header` -> value, or all values of an array.
        is_ack : bool
            True for an ACK, False for data.
        """
        fields = cls.wire_fields(is_ack)
        if fields is None:
            words = [word for value in header.values() for word in np.atleast_1d(value).tolist()]
            return WireHeader(b"".join(struct.pack("!d" if isinstance(v, float) else "!q", v) for v in words))
        return fields.header(header).on_wire()

    @property
    def is_responsive(self) -> bool:
        """True if sources act on feedback: by a source law, or in a hook that an ACK, a loss or a timer calls.

        An unresponsive source sends at its `opening_rate` until it ends.
        """
        if isinstance(self.fluid_form, StateMachine):
            return True
        if getattr(self, "source_law", None) is not None or not (self.has_packet_hooks() and self.has_hosts()):
            return True
        return not {"on_ack", "on_loss", "on_timer", "on_control"}.isdisjoint(self.flow_hooks())

    @classmethod
    def has_hosts(cls) -> bool:
        """Return True if flows can run the protocol; otherwise it is a queue discipline, for links only."""
        has_law = getattr(cls, "source_law", None) is not None or cls.fluid_form is not Protocol.fluid_form
        has_queue = cls.link_hooks is not Protocol.link_hooks or cls.probability_law is not Protocol.probability_law
        return has_law or cls.flow_hooks is not Protocol.flow_hooks or not has_queue

    @classmethod
    def has_packet_hooks(cls) -> bool:
        """Return True if the packet engines can run the protocol."""
        return cls.link_hooks is not Protocol.link_hooks

    def link_hooks(self) -> dict[str, Hook]:
        """Return the hooks of a link, by name."""
        raise self._lacks("packet runs", "link_hooks", *(["flow_hooks"] if self.has_hosts() else []))

    def flow_hooks(self) -> dict[str, Hook]:
        """Return the hooks of a flow, by name."""
        raise self._lacks("packet runs", "link_hooks", "flow_hooks")

    def _completed_flow_hooks(self, hooks: Mapping[str, Hook]) -> dict[str, Hook]:
        """Return the hooks that packet runs call, given those of `flow_hooks`; by default the same.

        A base class adds hooks for its parameters here, which all subclasses get, for example a response to marks.

        Parameters
        ----------
        hooks : mapping
            Name -> hook, which call the laws of the class.
        """
        return dict(hooks)

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float) -> Any:
        """Return the `LinkState` of a router that has long announced R [bit/s], with arrivals y and these RTTs [s].

        If links have queues at the equilibrium, it may have more arguments, with default values, which it gets by name:
        `queue` [bytes], `capacity` [bit/s], `packet_size` [bytes], and each of the protocol's `states`. For a queue
        discipline, R is the probability that it signals congestion. Routers without a `LinkState` need no `link_at`.
        """
        if self.LinkState is NoRecord and type(self).has_packet_hooks():
            return NoRecord()
        raise self._lacks("packet runs from the equilibrium", "link_hooks", "flow_hooks", "link_at", "flow_at")

    def flow_at(self, x: float, R: float, link: int) -> Any:
        """Return the `FlowState` of a flow that has sent at x [bit/s] for long, receiving R from `link`.

        `link` is -1 if the feedback of all links is summed, and R is the sum. If links have queues at the equilibrium,
        it may have more arguments, with default values, which it gets by name: `rtt` with queues and `min_rtt` without
        [s], `window` and `packet_size` [bytes], and each of the protocol's `states`. States of the unit "bit" are
        passed in bytes.
        """
        raise self._lacks("packet runs from the equilibrium", "link_hooks", "flow_hooks", "link_at", "flow_at")

    def _lacks(self, what: str, *names: str) -> ValueError:
        """The error that names the methods which the class lacks, for example for packet runs."""
        return ValueError(f"{type(self).__name__} has no {what}: {self._undefined(*names)}")

    def _undefined(self, *names: str) -> str | None:
        """The clause that names those methods which the class does not define; None if it defines all."""
        missing = [name for name in names if getattr(type(self), name) is getattr(Protocol, name)]
        return f"it does not define {' and '.join(missing)}" if missing else None

    def link_record(self) -> Any:
        """Return the `LinkState` with which a router begins."""
        return self.LinkState()

    def flow_record(self) -> Any:
        """Return the `FlowState` with which a flow begins; a class derived from it if parameters need more fields."""
        return self.FlowState()

    def network_notes(self, network: Network) -> tuple[str, ...]:
        """Return notes on parameters that do not fit a network with the protocol's flows, one line each.

        A run prints them and continues: a wrong parameter may be the subject of the run.

        Parameters
        ----------
        network : Network
            Network with the flows that run the protocol. For a queue discipline: a link with the capacity of its link,
            and flows with the shortest and the longest RTT of those that cross it.
        """
        return ()

    # ---- equilibrium, linear models, and what is published -----------------------------------------------

    times: ClassVar[tuple[str, ...]] = ("continuous", "discrete", "hybrid")
    """The linear models that the protocol has."""
    main_parameter: ClassVar[str] = ""
    """The parameter that `ecc.stability.analyze` and `critical_gain` vary if none is named."""
    run_findings: ClassVar[str] = ""
    """Results of runs on its stability, if no linear model holds for it, in one line, for `ecc.stability.analyze`."""
    equilibrium_is_static: ClassVar[bool] = True
    """True if the equilibrium is static: runs that converge stay at it, with empty queues."""
    overloads_at_equilibrium: ClassVar[bool] = False
    """True if links are loaded beyond their capacity at the equilibrium, because loss or price is the feedback."""
    no_equilibrium: ClassVar[str] = ""
    """Reason why the laws have no equilibrium, as a clause; empty if they have one, or if it is not defined."""
    reductions: ClassVar[Mapping[str, str]] = {}
    """Published approximations of the continuous model: equation -> "taylor" (e^-sT = 1 - sT) or "static" (sT = 0)."""
    relay_delays: ClassVar[RelayDelays] = RelayDelays()
    """Delays of hosts with a relay in addition to the RTT, in packet runs; the laws, averaged over RTTs, omit them."""
    property_exceptions: ClassVar[Mapping[str, str]] = {}
    """Properties of `ecc check` that the protocol violates by its definition: name of the property -> reason, as a
    clause. `ecc check` still checks them, and prints the reason next to a violation."""

    @property
    def loop(self) -> Loop:
        """The kind of the closed loop, with the engines and linear models that the protocol has, and why not others.

        For example `JetMax().loop.kind` is "stepped rates".
        """
        return loop_of(self)

    @property
    def reference_loop(self) -> ReferenceLoop | None:
        """The network of `ecc.stability.verdicts` if none is named; None: two flows in the middle of `operating_range`.

        A class attribute of this name applies to all variants.
        """
        return None

    def response_interval(self, rtt: float) -> float:
        """Return the minimum time between two responses to marks [s]; by default the RTT.

        Parameters
        ----------
        rtt : float, s
            RTT with queues.
        """
        return rtt

    @property
    def cycle_loop(self) -> ReferenceLoop | None:
        """The network of `ecc.stability.limit_cycle` if none is named; None: that of `reference_loop`.

        Declared if the cycle needs another network, for example a finite buffer for a sawtooth driven by losses.
        """
        return None

    def cycle_orbit(self, network: Network) -> CycleOrbit | None:
        """Return the cycle of hosts that switch at events, computed by the protocol; None: it computes none.

        Parameters
        ----------
        network : Network

        Raises
        ------
        LinearizationError
            The network is not one for which the cycle is computed.
        ConvergenceError
            Hosts do not switch.
        """
        return None

    @property
    def probing_cycle(self) -> ProbingCycle | None:
        """The cycle of hosts that probe, by fields of `FlowState`; None: they do not, or it is not declared.

        A class attribute of this name applies to all variants. `StateMachine.probing_cycle` has the cycle of the fluid.
        """
        return None

    @property
    def operating_range(self) -> OperatingRange:
        """The networks that the protocol is made for; a class attribute of this name applies to all variants."""
        return OperatingRange()

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return the stationary point of the laws on a network, for a fixed bottleneck assignment if given.

        Raises
        ------
        LinearizationError
            If no equilibrium exists or is defined, as by default.
        """
        reason = self.no_equilibrium or "it does not define equilibrium"
        raise LinearizationError(f"{type(self).__name__} has no equilibrium: {reason}")

    def equilibrium_set(self, network: Network) -> EquilibriumSet | None:
        """Return the set of equilibria of the laws on a network; None, as by default, if they have none or one.

        Raises
        ------
        LinearizationError
            If the set is not known on this network.
        """
        return None

    def round_map(self, network: Network) -> RoundMap:
        """Return the dynamics on a network as a map per round, for protocols without a `source_law`.

        The linear models are the derivative of the map at its fixed point or over its cycle (`ecc.loops.round_maps`).

        Raises
        ------
        LinearizationError
            If the network has no such map, or the map no fixed point and no cycle.
        ValueError
            If it is not defined, as by default.
        """
        raise self._lacks("map per round", "round_map")

    @property
    def linear_refusal(self) -> str | None:
        """Reason why this variant has no linear model, in one line; None if it has one.

        A class attribute of this name applies to all variants.
        """
        return None

    @property
    def fluid_refusal(self) -> str | None:
        """Reason why this variant has no fluid model although its laws or hooks have one; None: it has one.

        A class attribute of this name applies to all variants, of hosts and of queue disciplines.
        """
        return None

    def published_bounds(self, network: Network) -> list[Bound]:
        """Return the stability bounds that the papers prove, evaluated on a network; by default an empty list."""
        return []

    @classmethod
    def has_relay(cls) -> bool:
        """Return True if sources switch like relays: describing functions give their limit cycle."""
        return cls.relay_loop is not Protocol.relay_loop

    def relay_loop(self, network: Network) -> tuple[RelayLoop, float]:
        """Return the loop from the relays to the feedback that they receive, and the queue [bit] for one unit of it.

        Raises
        ------
        ValueError
            If the protocol has no relay, as by default.
        """
        raise ValueError(f"{type(self).__name__} has no relay: it does not define relay_loop")


@lru_cache(256)
def _fields_of_numbers(cls: type[Protocol]) -> list[Field[Any]]:
    """Return the fields of a class that are declared as numbers or arrays of numbers."""
    return [f for f in fields(cls) if f.type in (*NUMBER_TYPES, *ARRAY_TYPES)]


@lru_cache(256)
def _parameters(cls: type[Protocol]) -> tuple[dict[str, None] | None, list[str], bool]:
    """Return the accepted names (None: any), those of positions, and whether there are any number of these.

    They are cached because every instance reads them.
    """
    parameters = list(signature(cls).parameters.values())
    accepted = [parameter for parameter in parameters if parameter.kind is not Parameter.VAR_KEYWORD]
    names = dict.fromkeys(parameter.name for parameter in accepted) if len(accepted) == len(parameters) else None
    places = [parameter.name for parameter in accepted if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD]
    return names, places, any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in accepted)
