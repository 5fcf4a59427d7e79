"""Congestion controllers in shared objects, written in C or in any language that exports C functions.

    Mine = ecc.models.controller.load("mine.so")     a protocol class, named after its file
    Mine(gain=0.5)                                   its parameters are those listed by ecc_controller_parameters

`ecc_controller.h`, in the folder that `include()` returns, declares the functions. The host is the packet engine's, as
for every other protocol. In a scenario file the protocol is `name = "path/to/mine.so"`.

Loaded code has all rights of this process, and an error in it can end the process: load only files that you trust.
"""

from __future__ import annotations

import ctypes
import hashlib
import keyword
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ecc._support.arguments import shown
from ecc._support.quantity import SIZE, TIME, QuantityField, as_count, as_delay, default
from ecc.contract.choices import TRANSPORTS
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.jit.c_function import CFunction
from ecc.models.shared import delivery_rate

__all__ = ["SUFFIXES", "Controller", "include", "load"]

VERSION = 1
LOADED = "controllers"
"""Value of `__module__` of the classes that `load` returns; there is no such module."""
SUFFIXES = (".so", ".dylib", ".dll")
"""File name suffixes of shared objects."""
MAX_STATE_SIZE = 2**30
"""Maximum size of a flow's state, in bytes."""
GUARD, GUARD_WORDS = 0x5ECC_C0DE_5ECC_C0DE, 4
"""Value and number of the guard words before and after memory that a controller writes; it must not change them."""
FREE = frozenset({"initial", "floor"})
"""Names that only fluid models use: parameters of a controller may have them."""

EVENT = (
    "now", "packet_size", "rtt", "srtt", "min_rtt", "in_flight", "acked", "delivered", "recovering", "recovered",
    "undone", "kind", "marked", "ece", "size", "random",
    "newly_acked", "newly_lost", "rate", "interval", "sample_delivered", "sample_lost", "tx_in_flight", "app_limited",
    "prior_delivered", "total_delivered", "total_lost", "round_count", "round_start",
)  # fmt: skip
"""Fields of `ecc_controller_event_t`, all of them double."""


def include() -> str:
    """Return the folder of `ecc_controller.h`, for a compiler's option `-I`."""
    return str(Path(__file__).resolve().parent.parent / "include")


# ---- the protocol ----------------------------------------------------------------------------------------------------


class Functions(NamedTuple):
    """Functions of a shared object, as `CFunction`; None if absent."""

    init: Any
    on_ack: Any
    on_loss: Any
    window: Any
    on_send: Any
    on_timer: Any
    pacing_rate: Any
    timer: Any
    read: Any


@dataclass(frozen=True, kw_only=True)
class Controller(Protocol):
    """Base class of the classes that `load` returns: the host of an external controller.

    Parameters
    ----------
    transport : str
        See `WindowProtocol`.
    receiver_window : int, bytes, >= 0
        Maximum of data sent but not yet acknowledged; 0: no limit.
    min_rto, initial_rto : float, s, > 0
        Minimum retransmission timeout, and the timeout before the first ACK.
    ecn_echo : str or None
        How marks are reported, for example "classic"; None: packets cannot be marked (`Protocol.ecn_echo`).

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    transport: str = "sack"
    receiver_window: int = 0
    min_rto: QuantityField = default(0.2)
    initial_rto: QuantityField = default(1.0)
    ecn_echo: str | None = None

    dimensions = {"receiver_window": SIZE, "min_rto": TIME, "initial_rto": TIME}

    library: ClassVar[str] = ""
    """Path of the file, as passed to `load`."""
    code: ClassVar[str] = ""
    """SHA-256 of the file."""
    variables: ClassVar[tuple[str, ...]] = ()
    """Names of the entries of the series "flow.variables"."""
    conformance_names: ClassVar[Mapping[str, str]] = {}
    """Fields of the variables by name, for conformance cases and comparisons with a reference."""
    parameter_names: ClassVar[tuple[str, ...]] = ()
    state_words: ClassVar[int] = 1
    functions: ClassVar[Functions]

    header_bytes = (0, 0)
    required_env = frozenset({"random"})
    Header = delivery_rate.Header

    def __post_init__(self) -> None:
        check_choice(self, "transport", TRANSPORTS[1:])
        for name in ("min_rto", "initial_rto"):
            object.__setattr__(self, name, as_delay(getattr(self, name), name, positive=True))
        object.__setattr__(self, "receiver_window", as_count(self.receiver_window, "receiver_window"))
        check_choice(self, "ecn_echo", (None, "classic", "accurate", "scalable"))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str, dict[str, Any], type[Controller] | None]]:
        derived = None if type(self).__module__ == LOADED else type(self)
        return _again, (self.library, self.code, {f.name: getattr(self, f.name) for f in fields(self)}, derived)

    @property
    def answers(self) -> frozenset[str]:
        """Loss; with `ecn_echo` also marks."""
        return frozenset({"loss", "ecn"} if self.ecn_echo else {"loss"})

    def params(self) -> dict[str, float]:
        return {}

    @property
    def FlowState(self) -> Any:  # type: ignore[override]
        values = tuple(float(getattr(self, name)) for name in self.parameter_names)
        return _flow_state(self.state_words, values, len(self.variables))

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_hooks(self) -> dict[str, Hook]:
        return _hooks(self.functions)


@cache
def _flow_state(state_words: int, parameters: tuple[float, ...], n_variables: int) -> type:
    """Return the record of a flow; each array has one entry or more."""
    return make_dataclass(
        "FlowState",
        [
            ("guard_before", tuple[int, ...], (GUARD,) * GUARD_WORDS),
            ("memory", tuple[int, ...], (0,) * state_words),
            ("guard_behind", tuple[int, ...], (GUARD,) * GUARD_WORDS),
            ("parameters", tuple[float, ...], parameters or (0.0,)),
            ("event", tuple[float, ...], (0.0,) * len(EVENT)),
            ("variables", tuple[float, ...], (0.0,) * max(n_variables, 1)),
            ("guard_of_variables", tuple[int, ...], (GUARD,) * GUARD_WORDS),
        ],
        bases=(delivery_rate.FlowState,),
    )


def write_event(flow: Any, env: FlowEnv) -> None:
    """Write the event that a controller reads, in the order of `EVENT`."""
    event = flow.event
    event[0], event[1] = env.now, 1.0 * env.packet_size
    event[2], event[3], event[4] = env.rtt, env.srtt, env.min_rtt
    event[5], event[6], event[7] = 1.0 * env.in_flight, 1.0 * env.acked, 1.0 * env.delivered
    event[8], event[9], event[10] = 1.0 * env.recovering, 1.0 * env.recovered, 1.0 * env.undone
    event[11], event[12], event[13] = 1.0 * env.kind, 1.0 * env.marked, 1.0 * env.ece
    event[14], event[15] = 1.0 * env.size, env.random
    event[16], event[17] = 1.0 * flow.newly_acked, 1.0 * flow.newly_lost
    event[18], event[19] = flow.rate, flow.interval
    event[20], event[21], event[22] = 1.0 * flow.sample_delivered, 1.0 * flow.sample_lost, 1.0 * flow.tx_in_flight
    event[23], event[24] = 1.0 * flow.sample_app_limited, 1.0 * flow.prior_delivered
    event[25], event[26] = 1.0 * flow.delivered, 1.0 * flow.lost
    event[27], event[28] = 1.0 * flow.round_count, 1.0 * flow.round_start


def check_guards(flow: Any) -> None:
    """Raise an error if a controller has written outside its state or its variables."""
    for k in range(GUARD_WORDS):
        if flow.guard_before[k] != GUARD or flow.guard_behind[k] != GUARD:
            raise RuntimeError("the controller has written outside its state of ecc_controller_size() bytes")
        if flow.guard_of_variables[k] != GUARD:
            raise RuntimeError("ecc_controller_read has written more values than ecc_controller_variables names")


@cache
def _hooks(c: Functions) -> dict[str, Hook]:
    """Return the hooks of a flow: each writes the event, calls the controller, and adopts its window and rate."""
    adopt = _adopt_results(c)

    def calling(call: Any, sample: Callable[..., None] | None = None) -> Hook:
        def before(flow: Any, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
            pass

        first = sample or before

        def hook(flow: Any, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
            first(flow, header, p, env)
            write_event(flow, env)
            call(flow.memory, flow.parameters, flow.event)
            adopt(flow, env)

        return hook

    hooks: dict[str, Hook] = {
        "on_start": calling(c.init),
        "on_ack": calling(c.on_ack, delivery_rate.on_ack),
        "on_loss": calling(c.on_loss),
        "on_send": calling(c.on_send, delivery_rate.on_send) if c.on_send else delivery_rate.on_send,
        "on_receive": delivery_rate.on_receive,
    }
    return hooks | ({"on_timer": calling(c.on_timer)} if c.on_timer else {})


def _adopt_results(c: Functions) -> Callable[[Any, FlowEnv], None]:
    """Return the function that reads window, rate, timer and variables after a call.

    A compiled hook must not refer to absent functions, so each of them is replaced by an empty function here.
    """
    window, rate, timer, read = c.window, c.pacing_rate, c.timer, c.read

    def skip(flow: Any, env: FlowEnv) -> None:
        pass

    def adopt_rate(flow: Any, env: FlowEnv) -> None:
        env.rate = rate(flow.memory, flow.parameters, flow.event)

    def adopt_timer(flow: Any, env: FlowEnv) -> None:
        env.timer = timer(flow.memory, flow.parameters, flow.event)

    def read_variables(flow: Any, env: FlowEnv) -> None:
        read(flow.memory, flow.variables)

    pace = adopt_rate if rate else skip
    wait = adopt_timer if timer else skip
    show = read_variables if read else skip

    def adopt(flow: Any, env: FlowEnv) -> None:
        env.window = window(flow.memory, flow.parameters, flow.event)
        pace(flow, env)
        wait(flow, env)
        show(flow, env)
        check_guards(flow)

    return adopt


# ---- shared objects --------------------------------------------------------------------------------------------------


def load(library: str | Path) -> type[Controller]:
    """Return the protocol class of a congestion controller in a shared object.

    Parameters
    ----------
    library : str or Path
        File with the functions that `ecc_controller.h` declares, for example "build/mine.so". Its code runs with all
        rights of this process.

    Returns
    -------
    controller : type
        Class derived from `Controller` and named after the file, with a parameter for each that the controller names.
        Repeated calls return the same class as long as the content of the file is the same.

    Raises
    ------
    ValueError
        The file does not exist, is not a shared object, lacks a function, was compiled for another version, names a
        parameter that no class can have, or names a parameter or variable twice.

    Examples
    --------
    `ecc.packet.simulate(ecc.Scenario(net, load("build/mine.so")(gain=0.5), duration=10.0))`
    """
    path = Path(library)
    try:
        code = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ValueError(f"library must be a shared object, got {shown(str(library))}: {error.strerror}") from None
    return _load(str(library), code)


def _again(library: str, code: str, values: dict[str, Any], derived: type[Controller] | None = None) -> Controller:
    """Return an unpickled instance in a worker process; `derived` is the user's own subclass, if there is one."""
    kind = load(library) if derived is None else derived
    if kind.code != code:
        raise ValueError(f"library {library!r} has changed since its controller was made")
    return kind(**values)


@cache
def _load(library: str, code: str) -> type[Controller]:
    dll = _opened(library, code)

    def function(name: str) -> Any:
        return getattr(dll, f"ecc_controller_{name}", None)

    missing = [name for name in ("version", "size", "init", "on_ack", "on_loss", "window") if function(name) is None]
    if missing:
        raise ValueError(f"library {library!r} must have the function ecc_controller_{missing[0]}")
    version, size = function("version"), function("size")
    version.restype, size.restype = ctypes.c_uint, ctypes.c_size_t
    if version() != VERSION:
        raise ValueError(f"library {library!r} must be of version {VERSION} of ecc_controller.h, got {version()}")
    if size() > MAX_STATE_SIZE:
        raise ValueError(f"library {library!r} must have a state of <= {MAX_STATE_SIZE} bytes, got {size()} bytes")
    pairs = {"timer": "on_timer", "on_timer": "timer", "read": "variables", "variables": "read"}
    for name, other in pairs.items():
        if function(name) is not None and function(other) is None:
            raise ValueError(f"library {library!r} has ecc_controller_{name}, and must have ecc_controller_{other} too")
    defaults, variables = list(_parameters(function("parameters"))), tuple(_variables(function("variables")))
    _check_names(library, [name for name, _ in defaults], variables)
    parameters = dict(defaults)
    functions = Functions(*(_function(code, name, function(name)) for name in Functions._fields))
    return make_dataclass(
        Path(library).stem,
        [(name, float, field(default=value)) for name, value in parameters.items()],
        bases=(Controller,),
        frozen=True,
        namespace={
            "__doc__": f"The congestion controller of {library}.",
            "__module__": LOADED,
            "library": library,
            "code": code,
            "parameter_names": tuple(parameters),
            "variables": variables,
            "conformance_names": {name: f"variables[{k}]" for k, name in enumerate(variables)},
            "state_words": max(-(-size() // 8), 1),
            "functions": functions,
            "__post_init__": _check_parameters,
        },
    )


def _function(code: str, name: str, function: Any) -> CFunction | None:
    if function is None:
        return None
    returns = name in ("window", "pacing_rate", "timer")
    return CFunction(f"ecc_{code}_{name}", function, 2 if name == "read" else 3, returns=returns)


def _check_parameters(self: Controller) -> None:
    check_number(self, **dict.fromkeys(self.parameter_names, float("-inf")))
    Controller.__post_init__(self)


def _opened(library: str, code: str) -> ctypes.CDLL:
    """Return the shared object, loaded from a copy: so the file can be rebuilt, and the new content loaded again."""
    folder = Path(tempfile.mkdtemp(prefix="ecc-controller-"))
    try:
        copy = folder / f"{code}{Path(library).suffix}"
        shutil.copyfile(library, copy)
        return ctypes.CDLL(str(copy), mode=os.RTLD_NOW if hasattr(os, "RTLD_NOW") else ctypes.DEFAULT_MODE)
    except OSError as error:
        raise ValueError(f"library {library!r} cannot be loaded: {str(error).replace(str(folder), '...')}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Parameter(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_double))


def _parameters(function: Any) -> Iterator[tuple[str, float]]:
    if function is not None:
        function.restype = ctypes.POINTER(_Parameter)
        for entry in function():
            if entry.name is None:
                return
            yield entry.name.decode(), entry.value


def _variables(function: Any) -> Iterator[str]:
    if function is not None:
        function.restype = ctypes.POINTER(ctypes.c_char_p)
        for name in function():
            if name is None:
                return
            yield name.decode()


def _check_names(library: str, parameters: Sequence[str], variables: Sequence[str]) -> None:
    for kind, names in (("parameter", parameters), ("variable", variables)):
        for name in names:
            if names.count(name) > 1:  # the controller reads it by index: one of the two values would be wrong
                times = f"{names.count(name)} times"
                raise ValueError(f"library {library!r} must name a {kind} once, got {shown(name)} {times}")
    taken = (set(dir(Controller)) | {f.name for f in fields(Controller)}) - FREE
    for name in parameters:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"library {library!r} must give parameters names that Python accepts, got {shown(name)}")
        if name in taken:
            raise ValueError(
                f"library {library!r} must not name a parameter {name!r}, which the host already defines: "
                f"use another name, such as {name}_value"
            )
