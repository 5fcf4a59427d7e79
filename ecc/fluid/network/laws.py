"""The laws of a protocol as C functions, made by the compiler of hooks and its cache.

The feedback that a header carries to a flow is a *signal* of a router. A router has one signal for all of its flows,
or one for each flow if the feedback depends on the rate in the header. The signal is the router's state, or the result
of the announce law for it; if a router has no state, the signal is the result of the router law.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from ecc.contract.kinds import steps_from_rate
from ecc.contract.records import param_record, param_values
from ecc.contract.values import simultaneous_states
from ecc.jit import CompiledHooks, compile_hooks
from ecc.jit.reach import where
from ecc.laws.arguments import arguments_text, takes

if TYPE_CHECKING:
    from ecc.contract.protocol import Protocol

__all__ = [
    "ARGUMENTS",
    "BEFORE",
    "BLOCK",
    "LANED",
    "LANES",
    "CompiledLaws",
    "compile_lines",
    "finite",
    "generated_hook",
    "hook_arguments",
]

ARGUMENTS = ("R", "y", "y_prev", "u", "N", "N_all", "q", "C", "d", "T", "x", "x_rtt", "R_prev", "D", "s", "result")
"""Fields of the record that a compiled law reads, and the one it writes."""

LANES = 8
"""Number of flows that one call of a law in a block serves, because a call costs more than the law itself."""

LANED = ("R", "R_prev", "x", "x_rtt", "D", "result")
"""Fields that a block holds for each of its flows, after the arguments that are the same for all of them."""

BLOCK = len(ARGUMENTS) + len(LANED) * LANES

BEFORE = "before_"
"""Prefix of the fields of the record with the values of simultaneous states before a step."""

_ATTRIBUTES = {"loss": "loss_response_law", "mark": "mark_response_law", "states": "the law of a state"}
"""Attributes of a protocol for laws with a name in this module that is not the attribute's name without `_law`."""

_NOTHING = np.dtype([])
_BLOCK = np.dtype([(name, "f8") for name in ARGUMENTS] + [(f"{n}{i}", "f8") for n in LANED for i in range(LANES)])


class CompiledLaws:
    """The laws of a protocol: addresses of C functions (record, -, params, -) -> status, and their arguments.

    `router`, `source`, `announce`, `priority`, `refusal`, `loss`, `mark`, `memory`, `slow_start`, `decrease`,
    `interval`, `queue_interval`, `states`: addresses, 0 if there is no such law (`mark` defaults to `loss`). `code`:
    the compiled functions. `by_name`: the laws under these names. `remembers`: whether routers have a state. `by_flow`:
    whether they have a signal for each flow. `source_remembers`: whether sources have a state.

    Parameters
    ----------
    protocol : Protocol
        Protocol with laws that the fluid calls.
    arguments : tuple of str, optional
        Fields of the record of the laws, "result" last.
    shared : dict, optional
        Cache of code, for protocols with the same laws; it is valid while no law changes.
    checked : bool, optional
        Whether a result that is not finite raises an exception. If not, the caller must check: the solver of
        differential equations tries a shorter step, and the recurrence checks results itself.

    Raises
    ------
    TypeError
        If a law cannot be compiled.
    """

    def __init__(
        self,
        protocol: Protocol,
        arguments: tuple[str, ...] = ARGUMENTS,
        shared: dict[Any, Any] | None = None,
        *,
        checked: bool = True,
    ) -> None:
        from ecc.contract.entries import form_laws

        laws_or_none: dict[str, Callable[..., Any] | None] = {
            "router": getattr(protocol, "router_law", None),
            "source": getattr(protocol, "source_law", None),
            "announce": protocol.announce_law,
            "priority": protocol.priority_law,
            "loss": protocol.loss_response_law,
            "mark": protocol.mark_response_law,
            "memory": protocol.memory_law,
            "slow_start": protocol.slow_start_law,
            "decrease": protocol.decrease_law,
            **{name.removesuffix("_law"): law for name, law in form_laws(protocol).items()},
        }
        laws = {name: law for name, law in laws_or_none.items() if law is not None}
        self.by_name = laws
        params = param_record(protocol)
        self.params, self._kinds = param_values(params), params.dtype
        self._shared = {} if shared is None else shared
        of_states = tuple((name, state.clock, state.law, state.simultaneous) for name, state in protocol.states.items())
        self._key = (arguments, checked, self._kinds, tuple(laws.items()), of_states)
        if self._key not in self._shared:
            before = {name: BEFORE + name for name in simultaneous_states(protocol)}
            hooks = {name: _hook(name, law, checked, before if name == "source" else {}) for name, law in laws.items()}
            if arguments is ARGUMENTS and (updated := _updated(protocol)):
                arguments = (*arguments, *protocol.states, *(f"next_{name}" for name in protocol.states))
                hooks["states"] = updated
            layout = np.dtype([(name, "f8") for name in arguments])
            self._shared[self._key] = _compiled(type(protocol).__name__, hooks, layout, self._kinds) if hooks else {}
        self.code: Mapping[str, int] = self._shared[self._key]

        self.router, self.source, self.announce, self.priority, self.refusal, self.loss, self.memory = (
            self.code[name] if name in laws else 0
            for name in ("router", "source", "announce", "priority", "refusal", "loss", "memory")
        )
        self.mark = self.code["mark"] if "mark" in laws else self.loss
        self.slow_start, self.decrease, self.interval, self.queue_interval = (
            self.code[name] if name in laws else 0 for name in ("slow_start", "decrease", "interval", "queue_interval")
        )
        self.signal_law = "announce" if "announce" in laws else "router"
        self.remembers = self.takes("router", "R")
        self.by_flow = self.takes(self.signal_law, "x")
        self.source_remembers = steps_from_rate(protocol)
        self.states = self.code.get("states", 0)

    def takes(self, name: str, argument: str) -> bool:
        """Return whether the law of a name, for example "router", takes an argument; False without this law."""
        return takes(self.by_name.get(name), argument)

    def blocks(self) -> tuple[int, int]:
        """Return the addresses of two laws over blocks: the sources', and, if `by_flow`, that of signals (else 0)."""
        key = ("blocks", *self._key)
        if key not in self._shared:
            self._shared[key] = self._compiled_blocks()
        self._blocks: CompiledHooks = self._shared[key]
        return self._blocks["sources"], self._blocks["signals"] if self.by_flow else 0

    def _compiled_blocks(self) -> CompiledHooks:
        blocks = {"sources": _block("sources", self.by_name["source"], LANED)}
        if self.by_flow:
            blocks["signals"] = _block("signals", self.by_name[self.signal_law], ("x",))
        return compile_hooks(blocks, _BLOCK, _NOTHING, self._kinds, _NOTHING)


def finite(value: float) -> float:
    """Return the result of a law, or raise if it is not finite, which a limit applied later would hide.

    Parameters
    ----------
    value : float
    """
    if not abs(value) < inf:
        raise FloatingPointError("its result is not finite")
    return value


def _compiled(owner: str, hooks: dict[str, Any], layout: np.dtype[Any], params: np.dtype[Any]) -> CompiledHooks:
    """Compile laws; the error for a law that cannot be compiled names its attribute of the protocol."""
    try:
        return compile_hooks(hooks, layout, _NOTHING, params, _NOTHING)
    except TypeError as error:
        for name, hook in hooks.items():
            prefix = f"hook {name}, {where(hook)}: "
            if str(error).startswith(prefix):
                cause = str(error).removeprefix(prefix)
                kind = re.match(r"a number must be there, not an? (\w+)", cause)
                outcome = f"cannot be compiled: {cause}" if kind is None else f"must return a number, got {kind[1]}"
                law = _ATTRIBUTES.get(name, f"{name}_law")
                raise TypeError(f"{law} of {owner} {outcome.replace('got none', 'got None')}") from None
        raise


def compile_lines(
    owner: str,
    lines: Mapping[str, list[str]],
    scope: dict[str, Any],
    laws: Mapping[str, str],
    layout: np.dtype[Any],
    params: np.dtype[Any],
) -> CompiledHooks:
    """Return the addresses of functions of a record and parameters, made of statements that call laws.

    Parameters
    ----------
    owner : str
        Class of the protocol, for messages.
    lines : mapping
        Function -> its statements; a function without statements is left out.
    scope : dict
        Objects that the statements refer to, by name.
    laws : mapping
        Name in the statements -> name of the law in messages.
    layout, params : dtype

    Raises
    ------
    TypeError
        If a law cannot be compiled; the message names it.
    """
    hooks = {name: generated_hook(name, statements, scope) for name, statements in lines.items() if statements}
    try:
        return compile_hooks(hooks, layout, _NOTHING, params, _NOTHING)
    except TypeError:
        for name, text in laws.items():
            calls = [line for statements in lines.values() for line in statements if f"{name}(" in line]
            if calls:
                _compiled_law(owner, text, generated_hook("law", calls[:1], scope), layout, params)
        raise


def _compiled_law(owner: str, text: str, hook: Callable[..., None], layout: np.dtype[Any], params: Any) -> None:
    """Raise the error of a law that cannot be compiled."""
    try:
        compile_hooks({"law": hook}, layout, _NOTHING, params, _NOTHING)
    except TypeError as error:
        cause = str(error).removeprefix(f"hook law, {where(hook)}: ")
        raise TypeError(f"{text} of {owner} cannot be compiled: {cause}") from None


def _hook(name: str, law: Callable[..., Any], checked: bool, renamed: Mapping[str, str]) -> Callable[..., None]:
    lines = [f"record.result = law({hook_arguments(law, renamed)})", *(["finite(record.result)"] if checked else [])]
    return generated_hook(name, lines, {"law": law, "finite": finite})


def _updated(protocol: Protocol) -> Callable[..., None] | None:
    """Return the hook that writes the next values of the states of a host, or their derivatives; None without any."""
    moved = {
        name: state.law
        for name, state in protocol.states.items()
        if state.clock in ("update", "continuous") and state.law
    }
    lines = [f"record.next_{name} = law_{name}({hook_arguments(law)})" for name, law in moved.items()]
    return generated_hook("states", lines, {f"law_{name}": law for name, law in moved.items()}) if moved else None


def _block(name: str, law: Callable[..., Any], by_lane: tuple[str, ...]) -> Callable[..., None]:
    lines = []
    for i in range(LANES):
        fields = {argument: f"{argument}{i}" for argument in by_lane}
        lines.append(f"record.result{i} = law({hook_arguments(law, fields)})")
    return generated_hook(name, lines, {"law": law})


def hook_arguments(law: Callable[..., Any], fields: Mapping[str, str] | None = None) -> str:
    """Return the arguments in a call of a law by a generated hook, for example "record.x, record.R, params".

    Parameters
    ----------
    law : callable
    fields : mapping, optional
        Field of the record for an argument whose field has another name.
    """
    renamed = {} if fields is None else fields
    return arguments_text(
        law, lambda argument: "params" if argument == "p" else f"record.{renamed.get(argument, argument)}"
    )


def generated_hook(name: str, lines: list[str], scope: dict[str, Any]) -> Callable[..., None]:
    """Return a hook of `record` and `params`.

    Parameters
    ----------
    name : str
    lines : list of str
        Statements of its body.
    scope : dict
        Objects that the statements refer to, by name.
    """
    namespace: dict[str, Any] = {**scope, "__name__": __name__}
    exec("\n    ".join([f"def {name}(record, nothing, params, also_nothing):", *lines, ""]), namespace)
    function: Callable[..., None] = namespace[name]
    return function
