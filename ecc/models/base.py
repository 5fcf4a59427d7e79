"""What a protocol is to `ecc`, and how to write one.

A protocol is a frozen dataclass of parameters, derived from `Protocol`, in a file of its own:

1. `router_law` and `source_law`: plain scalar functions. The names of their arguments are what they need; every
   engine supplies them by name, in bits, bit/s and seconds:

   ========  ==============================================================  ============  =====
   name      meaning                                                         law           unit
   ========  ==============================================================  ============  =====
   R         the router's state, a fair rate for most: before this update    router        bit/s
   ..        ... after it                                                    announce      bit/s
   ..        the feedback received now                                       source        bit/s
   R_prev    the feedback received one update before                         source        bit/s
   x         the flow's own rate before this update                          source        bit/s
   ..        the rate in the header of the flow that is answered             router        bit/s
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
   w_rtt     ... with which was sent what is acknowledged now                source        bit
   m         what it remembers of its last loss                              source, loss  bit
   since     time since its window last decreased by feedback; inf: never    source, decr. s
   s         size of the flow's packets; of routers with windows             router, src.  bit
   a         what an ACK acknowledges: s, or more with delayed ACKs          source        bit
   q_flow    what the flow itself has in the queue, with windows             router        bit
   loss      share lost of what came to the queue and its wire, with windows router        --
   p         the parameters, by attribute                                    all           --
   ========  ==============================================================  ============  =====

   `router_law` returns the router's next state, `source_law` the next rate. A router law without `R` has no memory:
   what it returns is announced at once. Otherwise the next state is announced itself, or what an `announce_law` makes
   of it. A source law that takes `w` returns the window one RTT later; ACKs clock the flow (`ecc.fluid.network`). Paced
   (`paced_over`), it is that once a window is acknowledged.
   A `slow_start_law` with its arguments returns that in slow start, with which flows begin; slow start ends where it
   returns no more than w, which is then the window, and at a loss. Where feedback makes windows decrease at once, a
   `decrease_law` with the same arguments returns the window after it, or w if there is none. Where losses make windows
   jump, a `loss_response_law` returns the window after one, and a `memory_law` what is remembered.
   A flow is bottlenecked at the link of its path with the least feedback (or the largest, or their sum: `combine`);
   where there is a `priority_law` the one of the largest priority, and `combine` decides between equal ones. A law uses
   + - * /, comparisons, min, max, abs and `ecc.laws.elementary`; no power with a constant exponent, no arrays.

   Whatever else hosts or routers keep (an averaged share of marks, an integrator, a price) is in `states`: name ->
   `State`, and each law may ask for it by that name. So do laws of signals: a queue discipline has a
   `probability_law`, the probability that a packet is chosen, to be marked or dropped; hosts have `loss_response_law`,
   the window right after a loss, and after a mark too unless there is a `mark_response_law`. Of a discipline, laws have
   sizes in packets of its parameter `packet_size`, and all arguments are of its own queue:

   ==========  ============================================================================  ================  =========
   q           queue, the packet in service included                                         all               packets
   q_prev      the queue `interval` before                                                   all               packets
   y           arrival rate; in a state with the clock "interval", averaged over the last    all               packets/s
   y_passed    arrival rate of what was not chosen in the last step, as fluid                all               packets/s
   C           capacity                                                                      all               packets/s
   T           `interval`; of a discipline without it, as fluid, the step                    all               s
   scalable    1.0 for packets of a host whose `ecn_echo` is "scalable" (ECT(1)), else 0.0   probability_law   --
   p           the parameters                                                                all               --
   ==========  ============================================================================  ================  =========

   Laws of hosts that have states may ask, beside the table above, for

   ==========  ============================================================================  ================  =========
   marked      share marked of what was acknowledged in the last RTT                         source, states    --
   ==========  ============================================================================  ================  =========

   As mean fluid, packets of a flow that sends at x are chosen x P/s times a second, P the probability where and when
   they came to the queue, of several links 1 - prod(1 - P); the flow knows when their ACKs come, and then its window
   and its states move by jump(state) - state at that rate: w' = [source_law(w) - w]/D + x P/s (jump(w) - w). Hosts
   answer at most one signal an RTT, which is the same where there are few.
2. `Header`, `LinkState`, `FlowState`: dataclasses of float and int fields, and the hooks that keep in them the state of
   a real router and host and call the laws (`ecc.models.shared` has what several protocols share). A hook must return:
   nothing can end a loop in it from outside, so loops have a bound. Fields may be arrays, `tuple[float, ...]` with the
   default `(0.0,) * 4`, say. In a header or a flow's state, `per_hop()` as the default makes an array with an entry for
   each link of a path (`ecc.models.records`): telemetry that packets collect.
   A protocol whose hooks are not written yet leaves 2 out, and `link_hooks`, `flow_hooks`, `link_at` and `flow_at`
   with it: a packet run of it is refused.
3. `equilibrium` and `published_bounds`; `main_parameter`, the gain that `ecc stability` varies.

With only 2 there are packet runs; with 1, fluid runs; with `equilibrium`, linear models. The laws
and hooks see the fields that are numbers, unless `params` is defined; `rate_range` is from 0 to the capacity.

Then: its class in `ecc.models.__init__`, its tests, its row in docs/protocols.md. Nothing else has to know it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache, wraps
from inspect import Parameter, signature
from math import inf
from numbers import Real
from types import FunctionType, MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed, Rows, value_text
from ecc._support.quantity import PER_TIME, RATE, SIZE, TIME, Dimension, as_choice, as_delay, as_number, as_size
from ecc.errors import LinearizationError
from ecc.formats.headers import WireFields, WireHeader
from ecc.laws.affine import is_affine
from ecc.network.network import Network

__all__ = [
    "ECN_ECHOES",
    "LOST_RETRANSMISSIONS",
    "N_TIMERS",
    "PER_TIME",
    "PHASE_JITTERS",
    "PRR_USES",
    "RATE",
    "RESERVED_NAMES",
    "SCHEDULERS",
    "SIZE",
    "SOURCE_CLOCKS",
    "STATE_CLOCKS",
    "TIME",
    "TRANSPORTS",
    "Bound",
    "Dimension",
    "Equilibrium",
    "OperatingRange",
    "Protocol",
    "Queues",
    "State",
    "StateMachine",
    "check_number",
    "clock_of_states",
    "dimensions_of",
    "equilibrium_of",
    "interval_of",
    "states_of",
]

SOURCE_CLOCKS = ("interval", "ack", "rtt", "always", "continuous")
TRANSPORTS = (None, "newreno", "sack", "rack")
LOST_RETRANSMISSIONS = ("reduce", "linux")
PRR_USES = (False, True, "marks")
SCHEDULERS = ("priority", "drr", "fq")
ECN_ECHOES = (None, "classic", "accurate", "scalable")
N_TIMERS = (1, 2, 3, 4)
PHASE_JITTERS = (None, "line rate", "always")
STATE_CLOCKS = ("interval", "rtt", "arrival", "continuous", "update")
JUMPS = ("loss", "mark")

RESERVED_NAMES = frozenset(
    (
        "R R_prev x x_rtt y y_prev y_passed u N N_all q q_prev q_mean q_flow C d D T w w_rtt m since s loss marked "
        "scalable p"
    ).split()
)
"""Names of arguments that no state can have."""

_NUMBERS = (float, int, "float", "int")  # types of fields, as they are or as text

_MOVING = ("R", "R_prev", "x", "x_rtt", "y", "y_prev", "u", "q", "q_mean", "q_flow", "loss", "w", "w_rtt", "m")
"""Arguments of laws that move along a run."""

Hook = Callable[[Any, Any, Any, Any], None]
RelayLoop = Callable[[Any], NDArray[np.complex128]]


@dataclass(frozen=True, repr=False)
class Equilibrium(Displayed):
    """A stationary point: `rates` (n_flows,) [bit/s], `fair_rate` (n_links,), `bottleneck` (n_flows,).

    `fair_rate` is the router's R at bottleneck links (a fair rate [bit/s] for most protocols), or what it
    announces if it has no memory (to a flow at equilibrium, if that differs from flow to flow); infinite at other
    links. `bottleneck` is the link at which each flow is bottlenecked, -1 where feedback is summed over the
    path. `queue` (n_links,) [bit]; None: all are empty. `notes`: what must be known of it, one line each. `states`:
    state of hosts -> (n_flows,); one that is not there rests at its `initial`.
    """

    rates: NDArray[np.float64]
    fair_rate: NDArray[np.float64]
    bottleneck: NDArray[np.int64]
    queue: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()
    states: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def _rows(self) -> Rows:
        paths = bool(np.all(self.bottleneck < 0))
        return [
            ("rate of each flow", value_text(self.rates, "bit/s")),
            (
                "announced by each link (unit of its protocol)",
                value_text(tuple(float(f"{R:.6g}") for R in self.fair_rate)),
            ),
            ("bottleneck of each flow", "feedback is summed over the path" if paths else value_text(self.bottleneck)),
            ("queue of each link", "empty" if self.queue is None else value_text(self.queue, "bit")),
        ]


@dataclass(frozen=True)
class Bound:
    """A published stability bound: stable for 0 < `parameter` < `value` under `hypotheses`, or `above` it.

    `kind` is "necessary and sufficient" or "sufficient"; `time` the model it was proven for; `verdict` what it is.
    """

    theorem: str
    parameter: str
    value: float
    kind: str
    time: str
    hypotheses: str
    verdict: str = "stable"
    above: bool = False


class SampledPrices(NamedTuple):
    """The fluid form of sources that answer each price, which a router computes of an interval, once.

    Attributes
    ----------
    rtt_gain : float
        Weight of the RTT of an interval in the moving average that the router law gets as `d`.
    """

    rtt_gain: float = 1.0


class SteppedRates(NamedTuple):
    """The fluid form of sources that step once routers have reported on a whole interval after their last step.

    Attributes
    ----------
    waits : tuple of int
        Intervals of the router that pass before that, after a change of router and after one of the rate.
    needs_approval : bool
        Whether a higher rate waits until no link refuses it.
    near : float
        Distance from what its link offers, as a share of it, within which a source has reached it.
    refusal_law : callable or None
        With a router's arguments: above 0 a link refuses what is requested; None: it never does.
    opening_rate : float
        Rate with which flows begin [bit/s], if it is more than their `floor`.
    opening_bytes : float
        What a flow has delivered before it responds to feedback [bytes].
    limits_requests : bool
        Whether a flow of finite size requests no more than its size over its RTT.
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
        How long a router counts [s], of d and p.
    queue_interval_law : callable
        How long a router seeks the lowest queue [s], of d, q, C and p.
    paced : bool
        Whether sources send at no more than w/D.
    handshake_time : float
        Time for which the packets of an interval are taken to be spaced, if none of them reports a spacing because all
        of them open connections [s].
    """

    interval_law: Callable[..., float]
    queue_interval_law: Callable[..., float]
    paced: bool = False
    handshake_time: float = 1.0


class StateMachine(NamedTuple):
    """The fluid form of hosts that are machines of states, which probe in turns, jump, and keep what they measure.

    Attributes
    ----------
    on_step : callable
        `on_step(flow, header, p, env)`, in the language of hooks: moves the fields of `flow` by a step of the fluid,
        and sets `env.rate` [bit/s] and `env.window` [bit] (`FluidEnv`). `header` has no fields.
    state : type
        Dataclass of float fields: what `flow` has, and with which values it begins.
    """

    on_step: Callable[[Any, Any, Any, Any], None]
    state: type


FluidForm = SampledPrices | SteppedRates | GrantedWindows | StateMachine


class Queues(NamedTuple):
    """The queues of a link, in `Protocol.queues`; `on_classify` says in `env.queue_index` which one a packet joins.

    Attributes
    ----------
    scheduler : str
        How the link chooses the queue of its next packet: "priority": the first that is not empty; "drr": deficit round
        robin; "fq": the same, with queues first that were empty (RFC 8290).
    quanta : tuple of int, bytes
        What each queue may send in a turn; as many as there are queues, and without meaning for "priority".
    drops_longest : bool
        Whether a full buffer drops the first packet of the longest queue, and not the one that arrives.
    """

    scheduler: str
    quanta: tuple[int, ...]
    drops_longest: bool = False


class State(NamedTuple):
    """A state of a host or a queue discipline beside window, rate and R, in `Protocol.states`.

    Attributes
    ----------
    law : callable
        The value after a period of the clock: a plain scalar function, whose argument names are what it needs (see the
        module's text), this and all other states by their names. Those that `states` names before it are new already.
        With the clock "continuous" it returns the derivative [1/s]. None: it moves at its jumps alone.
    clock : str
        "interval" (the parameter of that name), "rtt" (the flow's own RTT), "arrival" (each packet that comes to the
        queue), "continuous", or, of a host that sets rates, "update": each update of its rate (`source_clock`);
        "continuous" where its `source_clock` is that.
    initial : float or callable
        Value with which it begins, or a law that returns it: for a queue discipline a law of C, T and p, for a host
        that sets windows a law of w, its first window [bit], and p.
    jumps : mapping
        Of a host, "loss" or "mark" -> law with its value right after one, by the values of all states right before.
    unit : str
    lowest, highest : float
        Between which it stays.

    Notes
    -----
    As fluid, a state of period t moves by (law - state)/t: t is T, D, or 1/y.
    """

    law: Callable[..., float] | None
    clock: str
    initial: float | Callable[..., float] = 0.0
    jumps: Mapping[str, Callable[..., float]] = MappingProxyType({})
    unit: str = ""
    lowest: float = -inf
    highest: float = inf


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


@dataclass
class NoRecord:
    """The record of a protocol that keeps none."""


if TYPE_CHECKING:

    class Params:
        """The parameters as laws and hooks see them: numbers, by attribute."""

        def __init__(self, **values: float) -> None: ...
        def __getattr__(self, name: str) -> float: ...
        def __setattr__(self, name: str, value: float) -> None: ...

else:
    Params = SimpleNamespace


class LinkEnv:
    """What the hooks of a link see of the engine (`ecc/native/core/engine.h`).

    They may write `queue_index`, `drop`, `mark`, `trim`, `next_interval`.
    """

    now: float
    capacity: float
    buffer: int
    queue: int
    backlog: int
    queue_index: int
    queue_low: int
    packet_size: int
    kind: int
    flow: int
    link: int
    flow_queue: int
    sojourn: float
    random: float
    ecn: int
    drop: int
    mark: int
    trim: int
    next_interval: float


class FlowEnv:
    """What the hooks of a flow see of the engine (`ecc/native/core/engine.h`).

    They may write `rate`, `window`, `timer`, `counter`, and further timers where `n_timers` says so; `on_receive` may
    write `control_size` and `control_kind`, and nothing else.
    """

    now: float
    packet_size: int
    rtt: float
    srtt: float
    min_rtt: float
    in_flight: int
    delivered: int
    lost: int
    rate: float
    window: float
    timer: float
    kind: int
    flow: int
    random: float
    size: int
    unsent: int
    header_bytes: int
    acked: int
    recovering: int
    recovered: int
    undone: int
    marked: int
    ece: int
    timer_1: float
    timer_2: float
    timer_3: float
    counter: int
    control_size: int
    control_kind: int
    limited_by: int
    idle: float
    rto: float


class FluidEnv:
    """What `StateMachine.on_step` sees (`ecc.fluid.network.machines`): bits, bit/s, s; it may write the last two."""

    now: float
    step: float
    rtt: float
    """Of what is acknowledged now; 0 before the first ACK."""
    delivery_rate: float
    """Mean of what was acknowledged since that was sent."""
    acked: float
    """Acknowledged in this step."""
    lost: float
    """Found lost in this step."""
    loss: float
    """Share lost of both."""
    marked: float
    """Share marked of what is acknowledged now."""
    delivered: float
    in_flight: float
    packet_size: float
    flow: float
    """Index in the network."""
    flows: float
    """How many there are."""
    rate: float
    window: float


@dataclass(frozen=True)
class Protocol:
    """Base of all protocols; see the module's text for how to write one."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, own in vars(cls).items():
            if name.endswith("_law") and isinstance(own, FunctionType):
                raise TypeError(f"{name} of {cls.__name__} must be a static method: {name} = staticmethod(...)")
        for name in ("equilibrium", "published_bounds", "relay_loop"):  # what people call
            if name in vars(cls):
                setattr(cls, name, check_arguments(vars(cls)[name]))
        if own := vars(cls).get("__post_init__"):

            @wraps(own)
            def read_and_checked(self: Protocol) -> None:
                own(self)
                if type(self).__post_init__ is read_and_checked:  # and not that of a class above
                    Protocol.__post_init__(self)

            cls.__post_init__ = read_and_checked  # type: ignore[method-assign]

    def __new__(cls, *arguments: Any, **named: Any) -> Protocol:
        """Refuse arguments that the class does not have, in one line that names those which it has."""
        parameters = _parameters(cls)  # type: ignore[arg-type]  # of __hash__, that of instances is meant
        takes = [one for one in parameters if one.kind is not one.VAR_KEYWORD]
        if len(takes) == len(parameters):
            for name in named:
                if name not in [one.name for one in takes]:
                    listed = ", ".join(one.name for one in takes)
                    raise TypeError(f"{cls.__name__} must have arguments among {listed}, got {shown(name)}")
        places = [one.name for one in takes if one.kind is one.POSITIONAL_OR_KEYWORD]
        if len(arguments) > len(places) and not any(one.kind is one.VAR_POSITIONAL for one in takes):
            listed = f" ({', '.join(places)})" if places else ""
            raise TypeError(
                f"{cls.__name__} must have at most {len(places)} argument{'' if len(places) == 1 else 's'} without a "
                f"name{listed}, got {len(arguments)}"
            )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Refuse what is no number where a field is declared as one; one's own, which may read units, comes before."""
        for f in fields(self):
            value = getattr(self, f.name)
            if type(value) is float and value == value or f.type not in _NUMBERS:
                continue
            fits = isinstance(value, Real) and not isinstance(value, bool)
            if not fits and value is not f.default:
                hint = ": a class reads units with check_number" if isinstance(value, str) else ""
                raise TypeError(f"{f.name} must be a number, got {shown(value)}{hint}")
            if fits and value != value:
                raise ValueError(f"{f.name} must be a number, got {shown(value)}")

    dimensions: ClassVar[Mapping[str, Dimension]] = MappingProxyType({})
    """Dimension of each parameter that has one: {"interval": TIME, "line_rate": RATE}. A parameter that is not named is
    a pure number, for example a gain, a share, or a number of packets. A class declares its own parameters only: those
    of its base classes are added (`dimensions_of`). A property, if a dimension depends on other parameters."""

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
    announce_law: ClassVar[Callable[..., float] | None] = None
    source_law: ClassVar[Callable[..., float]]
    slow_start_law: ClassVar[Callable[..., float] | None] = None
    decrease_law: ClassVar[Callable[..., float] | None] = None
    loss_response_law: ClassVar[Callable[..., float] | None] = None
    mark_response_law: ClassVar[Callable[..., float] | None] = None
    memory_law: ClassVar[Callable[..., float] | None] = None

    @property
    def probability_law(self) -> Callable[..., float] | None:
        """Of a queue discipline, the probability that a packet is chosen, to be marked or dropped; None: not known."""
        return None

    @property
    def states(self) -> Mapping[str, State]:
        """What a host or a queue discipline keeps beside w, x, m and R: name -> `State`; none by default."""
        return MappingProxyType({})

    @property
    def priority_law(self) -> Callable[..., float] | None:
        """A law with a router's arguments: flows are bottlenecked at the link where it is largest; None: no law."""
        return None

    def params(self) -> dict[str, float]:
        """Return the parameters as the laws and hooks see them (`p`): name -> float; by default all numbers."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: float(value) for name, value in values.items() if isinstance(value, Real)}

    def namespace(self) -> Params:
        """Return `params()` with attribute access, for calling a law by hand."""
        return Params(**self.params())

    def rate_range(self, capacity: float) -> tuple[float, float]:
        """Return the least and the largest state R of a router of a capacity [bit/s]; by default 0 and the capacity."""
        return 0.0, capacity

    @property
    def has_affine_laws(self) -> bool:
        """Whether the laws are affine in rates, queues and feedback: their derivatives are the same everywhere."""
        if getattr(self, "router_law", None) is None or getattr(self, "source_law", None) is None:
            return False
        constants = {"p": self.namespace()}
        return all(is_affine(law, _MOVING, constants) for law in (self.router_law, self.announce_law, self.source_law))

    # ---- signals -----------------------------------------------------------------------------------------

    @property
    def gives(self) -> frozenset[str]:
        """The signals that its routers give beside "loss" and "delay", which every link gives.

        "ecn", or the name of a header; by default the protocol's own, if its routers have hooks.
        """
        has_routers = type(self).has_packet_hooks() and self.link_hooks()
        return frozenset({type(self).__name__} if has_routers else ())

    @property
    def answers(self) -> frozenset[str]:
        """The signals that its hosts answer, one of which their links must give; none: they need none."""
        return self.gives if type(self).has_hosts() else frozenset()

    # ---- feedback and router timing ----------------------------------------------------------------------

    @property
    def queues(self) -> Queues | None:
        """The queues of its links; None: one, first in, first out."""
        return None

    combine: ClassVar[str] = "min"
    """How the feedback of the links of a path is combined: "min" or "max" (a flow has one bottleneck), or "sum"."""

    @property
    def stamping(self) -> str:
        """When a router writes its feedback into a packet: at its "departure", or at its "arrival" in the queue."""
        return "departure"

    @property
    def scaling_rtt(self) -> str:
        """Which RTT the router law gets as `d`: "mean" or "max"."""
        return "mean"

    @property
    def scaling_rtt_limit(self) -> float:
        """RTTs above this count as this in `d` [s]; inf: all count in full."""
        return inf

    rtt_weights: ClassVar[str] = "rates"
    """Whether each packet counts in a router's mean RTT ("rates"), or each flow ("flows")."""

    @property
    def router_clock(self) -> str:
        """How long routers measure: "interval", the parameter of that name, or "rtt", as long as their mean RTT."""
        return "interval"

    # ---- source timing, and the form of the fluid --------------------------------------------------------

    @property
    def source_clock(self) -> str:
        """When a source updates: "interval" (by ACKs, at most once an interval), "ack" (by each), "rtt" (once an RTT).

        "always": once an interval however many ACKs there are: by a timer, or in shares that ACKs bring. "continuous":
        at every moment, and its law returns the derivative of the rate [bit/s^2].
        """
        return "interval"

    windowed: ClassVar[bool] = False
    """Whether sources keep windows: the rate of the source law is then a window over the RTT of the moment."""

    @property
    def paced_over(self) -> float:
        """The least time in which a window of a law with `w` is sent [s]; 0: at once, as ACKs come."""
        return 0.0

    @property
    def fluid_form(self) -> FluidForm | None:
        """What acts in steps, by intervals or in states in continuous fluid: one of the four records above.

        None: nothing does, routers and sources act at every moment, by delay differential equations. Windows clocked by
        ACKs need none: they are those of a source law with an argument `w`. A class attribute of this name will do.
        """
        return None

    @property
    def floor(self) -> float:
        """The least that a flow sends, in packets: in an RTT, of `SteppedRates` in an interval (0: one); or a field."""
        return 0.0

    @property
    def initial(self) -> float | None:
        """What a run begins with; an attribute or a field of this name.

        Of windows the first window in packets, None for that of RFC 5681; of rates what routers announce from the start
        as a share of the capacity, None for none.
        """
        return None

    @property
    def opening_window(self) -> float | None:
        """With which windows begin [bytes], where that is no number of packets (`initial`); None: it is."""
        return None

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        """Return what a flow sends before any feedback [bit/s]: a packet, or its `floor`, in an RTT.

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
        """How lost data is sent again: "newreno" (RFC 6582), "sack" (RFC 6675), "rack" (RFC 8985), or None: it is not.

        The engine keeps sequence numbers, duplicate ACKs, retransmissions, timeouts and the estimate of what is in
        flight (a duplicate ACK has let a packet out of the network: no hook inflates a window); hooks set `env.window`
        or `env.rate`. `on_ack` comes for every ACK, with `env.acked` (bytes newly acknowledged, 0 for a duplicate),
        `env.recovering` and `env.recovered` (this ACK has ended a recovery); `on_loss` once a recovery (`env.kind` 0,
        `env.in_flight` the flight size, which can exceed `env.window` in a recovery) and once a timeout (1).

        "rack" finds losses by time, those of retransmissions and of the end of a flow too: `on_loss` is called again in
        a recovery, at most once an RTT, if packets are lost that were sent after the last call (`lost_retransmission`).
        It sets `env.undone` in the `on_ack` of an ACK which shows that the last `on_loss` was for nothing: a protocol
        then takes back what it did. A recovery with more than one `on_loss` is never undone. Exactly:
        docs/engine_specification.md, S-73 to S-92, S-144 to S-154 and S-163. A class attribute or a parameter of this
        name says which.
        """
        return None

    @property
    def lost_retransmission(self) -> str:
        """With the transport "rack": what the loss of a packet that was sent in the recovery leads to.

        "reduce": `on_loss` is called again, at most once an RTT, and the recovery ends later (RFC 5681 sec. 4.3, RFC
        8985 sec. 3.4). "linux": nothing until the recovery ends; then, if a loss is not repaired, the next recovery
        begins (`tcp_fastretrans_alert`). After a timeout both do the same. Exactly: docs/engine_specification.md,
        S-163. A class attribute or a parameter of this name says which.
        """
        return "reduce"

    @property
    def uses_prr(self) -> bool | str:
        """With the transport "sack" or "rack": whether recoveries use proportional rate reduction (RFC 9937).

        Hooks set `env.window` to the window after the loss, as without it. The engine then sends no more in the
        recovery than keeps the bytes in flight on their way to that window, instead of waiting for an RTT or sending a
        burst. For hosts that reduce their windows at losses. "marks": reductions at ACKs that report marks, too, as
        Linux has it (`tcp_enter_cwr`). Exactly: docs/engine_specification.md, S-164, S-165 and S-166. A class attribute
        of this name says which.
        """
        return False

    @property
    def ecn_echo(self) -> str | None:
        """Whether links can mark packets of flows (ECN), and how receivers report marks; None: they cannot.

        "classic" (RFC 3168: `env.marked` of `on_ack` once a window, what the first ACK that reports marks
        acknowledges), "accurate" (bytes that were marked, in each ACK), or "scalable" (as accurate, with ECT(1): RFC
        9331). Exactly: docs/engine_specification.md, S-105 to S-111. A class attribute or a parameter of this name says
        which.
        """
        return None

    @property
    def receiver_window(self) -> int:
        """With a transport: how far new data may be ahead of what is acknowledged [bytes]; 0: no limit."""
        return 0

    @property
    def min_rto(self) -> float:
        """The least time without an ACK after which what is in flight counts as lost [s]; RFC 6298: 1 s."""
        return 1.0

    @property
    def initial_rto(self) -> float:
        """With a transport: the least retransmission timeout before the first ACK [s]; RFC 6298: 1 s."""
        return 1.0

    @property
    def rto_granularity(self) -> float:
        """With a transport: the least that the timeout is longer than the smoothed RTT [s], the G of RFC 6298."""
        return 0.0

    # ---- packets: records, hooks and headers -------------------------------------------------------------

    Header: ClassVar[type] = NoRecord
    LinkState: ClassVar[type] = NoRecord
    FlowState: ClassVar[type] = NoRecord
    required_env: ClassVar[frozenset[str]] = frozenset()
    """What hooks need in `env` beside the rest: "random" (uniform, each call), "flow_queue" (a flow's bytes queued)."""
    n_timers: ClassVar[int] = 1
    """How many timers a flow has, up to 4: hooks set them by `env.timer`, `env.timer_1`, ..., and `on_timer` finds in
    `env.kind` which one has expired, from 0. (Bytes that are sent are counted beside: `env.counter`, `on_count`.)"""
    opening_size: ClassVar[int] = 0
    """Size of the packets that a flow sends until its first ACK [bytes]; 0: that of all others."""
    phase_jitter: ClassVar[str | None] = None
    """When packet runs draw the phase at which a flow sends, against phase effects (S-186): "always", for unresponsive
    senders; "line rate", while packets leave no slower than the slowest link of the route can send them, for senders
    that start at line rate; None, never. A scenario may override it."""
    header_bytes: ClassVar[tuple[int, int] | None] = None
    """What the protocol adds to a packet on the wire, of data and of an ACK [bytes]; None: not known."""

    @staticmethod
    def wire_fields(is_ack: bool) -> WireFields | None:
        """Return the layout of the congestion header, and which of its fields are which of the header record.

        None: the papers do not lay it out, and packets have the fields of the record, 8 bytes each, and arrays those of
        each entry.

        Parameters
        ----------
        is_ack : bool
            In an ACK, not in data.
        """
        return None

    @classmethod
    def wire_header(cls, header: Mapping[str, Any], is_ack: bool) -> WireHeader:
        """Return the bytes that captures show for a packet: what `wire_fields` says, the nearest that fields can have.

        Parameters
        ----------
        header : mapping
            Field of `Header` -> value; of an array, all of them.
        is_ack : bool
            An ACK, not data.
        """
        fields = cls.wire_fields(is_ack)
        if fields is None:
            words = [word for value in header.values() for word in np.atleast_1d(value).tolist()]
            return WireHeader(b"".join(struct.pack("!d" if isinstance(v, float) else "!q", v) for v in words))
        return fields.header(header).on_wire()

    @property
    def is_responsive(self) -> bool:
        """Whether sources act on feedback: by a source law, or in a hook that an ACK, a loss or a timer calls.

        One that does not sends at its `opening_rate` for as long as it lives.
        """
        if isinstance(self.fluid_form, StateMachine):
            return True
        if getattr(self, "source_law", None) is not None or not (self.has_packet_hooks() and self.has_hosts()):
            return True
        return not {"on_ack", "on_loss", "on_timer", "on_control"}.isdisjoint(self.flow_hooks())

    @classmethod
    def has_hosts(cls) -> bool:
        """Return whether flows can run the protocol; else it is a queue discipline, for links only."""
        has_law = getattr(cls, "source_law", None) is not None or cls.fluid_form is not Protocol.fluid_form
        has_queue = cls.link_hooks is not Protocol.link_hooks or cls.probability_law is not Protocol.probability_law
        return has_law or cls.flow_hooks is not Protocol.flow_hooks or not has_queue

    @classmethod
    def has_packet_hooks(cls) -> bool:
        """Return whether the packet engines can run the protocol."""
        return cls.link_hooks is not Protocol.link_hooks

    def link_hooks(self) -> dict[str, Hook]:
        """Return the hooks of a link, by name."""
        raise self._lacks("packet runs", "link_hooks", *(["flow_hooks"] if self.has_hosts() else []))

    def flow_hooks(self) -> dict[str, Hook]:
        """Return the hooks of a flow, by name."""
        raise self._lacks("packet runs", "link_hooks", "flow_hooks")

    def _completed_flow_hooks(self, hooks: Mapping[str, Hook]) -> dict[str, Hook]:
        """Return the hooks that packet runs call, given those of `flow_hooks`; by default the same.

        A base class adds here what its parameters ask of all its subclasses, for example a response to marks.

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
        [s], `window` and `packet_size` [bytes], and each of the protocol's `states`. States of the unit "bit" come in
        bytes.
        """
        raise self._lacks("packet runs from the equilibrium", "link_hooks", "flow_hooks", "link_at", "flow_at")

    def _lacks(self, what: str, *names: str) -> ValueError:
        """What a protocol has to define for something, and does not."""
        missing = [name for name in names if getattr(type(self), name) is getattr(Protocol, name)]
        return ValueError(f"{type(self).__name__} has no {what}: it does not define {' and '.join(missing)}")

    def link_record(self) -> Any:
        """Return the `LinkState` with which a router begins."""
        return self.LinkState()

    # ---- equilibrium, linear models, and what is published -----------------------------------------------

    times: ClassVar[tuple[str, ...]] = ("continuous", "discrete", "hybrid")
    """The linear models that the protocol has."""
    main_parameter: ClassVar[str] = ""
    """The parameter whose stable interval is requested where no other is named (`ecc.stability.analyze`)."""
    run_findings: ClassVar[str] = ""
    """What runs show of its stability where no linear model holds for it, in one line, for `ecc.stability.analyze`."""
    equilibrium_is_static: ClassVar[bool] = True
    """Whether the equilibrium is static: runs that converge stay at it, with empty queues."""
    overloads_at_equilibrium: ClassVar[bool] = False
    """Whether links are loaded beyond their capacity at the equilibrium, loss or price being the feedback."""
    no_equilibrium: ClassVar[str] = ""
    """Why the laws have no equilibrium, as a clause; empty: they have one, or none is defined."""
    reductions: ClassVar[Mapping[str, str]] = {}
    """Published approximations of the continuous model: equation -> "taylor" (e^-sT = 1 - sT) or "static" (sT = 0)."""
    property_exceptions: ClassVar[Mapping[str, str]] = {}
    """Properties of `ecc check` that the protocol violates by its definition: name of the property -> reason, as a
    clause. `ecc check` still checks them, and prints the reason next to a violation."""

    @property
    def operating_range(self) -> OperatingRange:
        """The networks that the protocol is made for; a class attribute of this name applies to all variants."""
        return OperatingRange()

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return the stationary point of the laws on a network, for a fixed bottleneck assignment if given.

        Raises
        ------
        LinearizationError
            There is none, as by default.
        """
        reason = self.no_equilibrium or "it does not define equilibrium"
        raise LinearizationError(f"{type(self).__name__} has no equilibrium: {reason}")

    @property
    def linear_refusal(self) -> str | None:
        """Why this variant has no linear model, in one line; None if it has one.

        A class attribute of this name applies to all variants.
        """
        return None

    @property
    def fluid_refusal(self) -> str | None:
        """Why this variant has no fluid model though it has laws, in one line; None if they hold for it."""
        return None

    def published_bounds(self, network: Network) -> list[Bound]:
        """Return the stability bounds that the papers prove, evaluated on a network; none by default."""
        return []

    @classmethod
    def has_relay(cls) -> bool:
        """Return whether sources switch like relays: describing functions give their limit cycle."""
        return cls.relay_loop is not Protocol.relay_loop

    def relay_loop(self, network: Network) -> tuple[RelayLoop, float]:
        """Return the loop from the relays to the feedback that they receive, and the queue [bit] for one unit of it.

        Raises
        ------
        ValueError
            There is no relay, as by default.
        """
        raise ValueError(f"{type(self).__name__} has no relay: it does not define relay_loop")


@lru_cache(256)
def _parameters(cls: type[Protocol]) -> tuple[Parameter, ...]:
    """The parameters of a class, which are looked at for every instance."""
    return tuple(signature(cls).parameters.values())


def check_number(protocol: Any, **allowed: float | Callable[..., float] | None) -> None:
    """Check parameters on construction: a lower limit means >= it, None means > 0; floats are stored back.

    Parameters
    ----------
    protocol : object
        Frozen dataclass instance.
    **allowed : float or callable or None
        Parameter name -> minimum, or None for > 0; or `as_delay`, `as_rate`, `as_size` of `ecc.quantity` for one > 0
        that may have a unit.

    Raises
    ------
    ValueError, TypeError
        One line naming the parameter, the value and what is allowed.
    """
    for name, minimum in allowed.items():
        value = getattr(protocol, name)
        if callable(minimum):
            number = float(minimum(value, name) if minimum is as_size else minimum(value, name, positive=True))
        else:
            number = as_number(value, name, positive=minimum is None, minimum=minimum)
        object.__setattr__(protocol, name, number)


def dimensions_of(protocol: Protocol) -> dict[str, Dimension]:
    """Return the dimensions of a protocol's parameters; those that are pure numbers are missing.

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    TypeError, ValueError
        `dimensions` of its class names no parameter, or has something else than a `Dimension`.

    Examples
    --------
    >>> from ecc.models import EMKC
    >>> dimensions_of(EMKC())
    {'alpha': Dimension(size=1, time=-1), 'interval': Dimension(size=0, time=1)}
    """
    found: dict[str, Dimension] = {}
    for base in reversed(type(protocol).__mro__):
        declared = vars(base).get("dimensions", {})
        found.update(declared.__get__(protocol) if isinstance(declared, property) else declared)
    names = {f.name for f in fields(protocol)}
    for name, dimension in found.items():
        if name not in names:
            listed = ", ".join(f.name for f in fields(protocol)) or "none"
            raise ValueError(
                f"dimensions of {type(protocol).__name__} must name parameters ({listed}), got {shown(name)}"
            )
        if not isinstance(dimension, Dimension):
            raise TypeError(
                f"dimensions of {type(protocol).__name__} must be a Dimension, got {shown(dimension)} for {name}"
            )
    return found


def interval_of(protocol: Protocol) -> float:
    """Return the time between updates of a protocol's routers [s].

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    ValueError
        Its `params()` do not hold it.
    """
    params = protocol.params()
    if "interval" not in params:
        raise ValueError(
            f"interval must be among the params() of {type(protocol).__name__}: the time between updates [s], got "
            f"{', '.join(params) or 'none'}"
        )
    return as_delay(params["interval"], "interval", positive=True)


def equilibrium_of(protocol: Protocol, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
    """Return the equilibrium that a protocol states, which must be one.

    Parameters
    ----------
    protocol : Protocol
    network : Network
    assignment : ndarray of int, optional
        As of `Protocol.equilibrium`.

    Raises
    ------
    LinearizationError
        There is none.
    TypeError
        It returns something else.
    """
    point: Any = protocol.equilibrium(network, assignment)
    if not isinstance(point, Equilibrium):
        raise TypeError(f"equilibrium of {type(protocol).__name__} must return an Equilibrium, got {shown(point)}")
    return point


def clock_of_states(protocol: Protocol) -> str:
    """Return the clock that states of a host have which sets rates.

    Parameters
    ----------
    protocol : Protocol
    """
    return "continuous" if protocol.source_clock == "continuous" else "update"


def states_of(protocol: Protocol) -> Mapping[str, State]:
    """Return the states of a protocol, checked.

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    ValueError
        A name that laws have for something else, a clock or a signal that is not known, or limits that are crossed.
    """
    kind = type(protocol).__name__
    for name, state in protocol.states.items():
        if not name.isidentifier() or name in RESERVED_NAMES:
            raise ValueError(f"states of {kind} must have names that laws have for nothing else, got {shown(name)}")
        if not isinstance(state, State):
            raise TypeError(f"states of {kind} must be State, got {shown(state)} for {name}")
        if state.clock not in STATE_CLOCKS:
            listed = ", ".join(map(repr, STATE_CLOCKS))
            raise ValueError(f"clock of state {name} of {kind} must be one of {listed}, got {shown(state.clock)}")
        if unknown := [signal for signal in state.jumps if signal not in JUMPS]:
            raise ValueError(f"jumps of state {name} of {kind} must be at 'loss' or 'mark', got {shown(unknown[0])}")
        if not (callable(state.initial) or state.lowest <= state.initial <= state.highest):
            raise ValueError(
                f"initial of state {name} of {kind} must be from {state.lowest:g} to {state.highest:g}, got "
                f"{state.initial:g}"
            )
    return protocol.states


def record_at(record: Any, values: Mapping[str, float]) -> Any:
    """Write values to the fields of a record that have their names, and return the record.

    Parameters
    ----------
    record : object
        Dataclass instance.
    values : mapping
        Name -> value; names without a field are ignored.
    """
    for f in fields(record):
        if f.name in values:
            kind = type(getattr(record, f.name))
            setattr(record, f.name, kind(values[f.name]))
    return record


def state_at(point: Equilibrium, name: str, state: State, flow: int) -> Any:
    """Return what a state of a flow's host is at an equilibrium: its initial value where that says nothing of it.

    Parameters
    ----------
    point : Equilibrium
    name : str
    state : State
        Of that name.
    flow : int
        Index.
    """
    return float(point.states[name][flow]) if name in point.states else state.initial


def check_choice(protocol: Any, name: str, choices: tuple[object, ...]) -> None:
    """Check that a parameter is one of the named variants.

    Parameters
    ----------
    protocol : object
        Dataclass instance.
    name : str
        Parameter.
    choices : tuple of object
        Allowed values.
    """
    as_choice(getattr(protocol, name), name, choices)


def settings(protocol: Protocol) -> dict[str, Any]:
    """Return the constructor arguments that differ from their defaults (for TOML and labels).

    Parameters
    ----------
    protocol : Protocol
    """
    return {f.name: getattr(protocol, f.name) for f in fields(protocol) if getattr(protocol, f.name) != f.default}


def label(protocol: Protocol, *names: str) -> str:
    """Return a protocol in short: its name, some parameters, and all that differ from their defaults.

    Parameters
    ----------
    protocol : Protocol
    *names : str
        Parameters that are shown in any case.
    """
    shown = {name: getattr(protocol, name) for name in names} | settings(protocol)
    inside = ", ".join(
        f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}" for key, value in shown.items()
    )
    return f"{type(protocol).__name__}({inside})" if inside else type(protocol).__name__
