"""The hooks that packet runs call: those of the class, with the laws of the class.

Hooks are functions of a module and call the laws of the class that defines them by name. A subclass that replaces a law
therefore gets copies of the inherited hooks which call the new law. A law that the inherited hooks do not call as a
whole cannot be replaced in this way: the class is refused in one line until it defines its own hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

from ecc.contract.entries import ENTRIES, LAWS
from ecc.contract.env import Hook
from ecc.contract.protocol import Protocol
from ecc.contract.states import State
from ecc.jit.reach import reached_functions, replace_functions, text_of, uses_field
from ecc.laws.arguments import arguments_beyond, arguments_text, call_law, takes, with_arguments_of

__all__ = ["check_hooks", "flow_hooks_of", "link_hooks_of"]

_SIDES = ("link_hooks", "flow_hooks")
_USED_BY_PACKETS = ("queues", "receiver_window")  # entries that the packet engines read themselves
_SCALED = ("w", "w_rtt", "m", "s", "a")  # sizes of a window protocol: hooks have them in bytes, fluid in bits
_ORDINARY = {"w": 3.1e5, "w_rtt": 2.7e5, "m": 3.3e5, "s": 12e3, "a": 12e3, "D": 0.05, "T": 0.02, "R": 0.01}

Laws = dict[str, Any]
"""Name in messages -> law."""


def link_hooks_of(protocol: Protocol) -> dict[str, Hook]:
    """Return the hooks of a protocol that packet runs call at links: name -> hook.

    Parameters
    ----------
    protocol : Protocol
    """
    return _bound(protocol, "link_hooks")[0]


def flow_hooks_of(protocol: Protocol) -> dict[str, Hook]:
    """Return the hooks of a protocol that packet runs call for flows: name -> hook.

    Parameters
    ----------
    protocol : Protocol
    """
    return protocol._completed_flow_hooks(_bound(protocol, "flow_hooks")[0])


def check_hooks(protocol: Protocol) -> None:
    """Refuse a class with declarations that its packet hooks do not use.

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    ValueError
        It replaces a law or another entry of a class whose hooks do not depend on it; it declares ECN, and no hook of
        its flows reads marks; its receivers report, and no hook starts the reports or receives them.
    """
    kind = type(protocol)
    author = next((cls for cls in kind.__mro__ if _writes_hooks(protocol, cls)), Protocol)
    has_model = any(_as_of(protocol, author, name) for name in ("source_law", "probability_law", "fluid_form"))
    if author is not kind and has_model and any(_redefined(kind, author)):
        replaced: set[str] = set()
        called: list[FunctionType] = []
        for side in _SIDES:
            if getattr(kind, side) is not getattr(Protocol, side):
                hooks, names = _bound(protocol, side)
                replaced |= names
                called += [function for hook in hooks.values() for function in reached_functions(hook)]
        old, new = _declared(protocol, author), _declared(protocol, kind)
        begins_otherwise = getattr(kind, "FlowState", None) is not getattr(
            author, "FlowState", None
        )  # for example, beyond slow start
        for name in dict.fromkeys([*old, *new]):
            if name in replaced or any(new.get(name) is function for function in called):
                continue
            if name == "slow_start_law" and new[name] is None and begins_otherwise:
                continue
            if not _is_same(old.get(name), new.get(name)):
                raise ValueError(_refusal(protocol, author, name, old.get(name), new.get(name)))
    if kind.has_hosts() and kind.flow_hooks is not Protocol.flow_hooks:
        hooks = flow_hooks_of(protocol)
        if missing := [name for name in ("on_receive", "on_control") if "on_report" in hooks and name not in hooks]:
            raise ValueError(
                f"{kind.__name__} must have the packet hook {missing[0]}: it has on_report, whose timer on_receive "
                "starts and whose packets on_control receives"
            )
        must_respond = protocol.is_responsive and protocol.ecn_echo is not None
        if must_respond and not any(uses_field(hook, "marked") for hook in hooks.values()):
            raise ValueError(
                f"{kind.__name__} must have a packet hook that reads env.marked: its packets can be marked (ecn_echo = "
                f"{protocol.ecn_echo!r}), and none of {', '.join(hooks)} does"
            )


def _writes_hooks(protocol: Protocol, cls: type[Protocol]) -> bool:
    """Return True if a class defines hooks; returning the hooks of `super()` does not count."""
    for side in _SIDES:
        if side not in vars(cls) or cls is Protocol:
            continue
        if "__class__" not in vars(cls)[side].__code__.co_freevars:  # it does not call super()
            return True
        inherited = getattr(super(cls, protocol), side)().values()
        hooks = vars(cls)[side](protocol).values()
        if not hooks or not all(any(hook is other for other in inherited) for hook in hooks):
            return True
    return False


def _refusal(protocol: Protocol, author: type[Protocol], name: str, old: Any, new: Any) -> str:
    """The line for a declaration that inherited hooks do not use."""
    kind = type(protocol)
    what = f"{kind.__name__} changes {name}"
    defined = [side for side in _SIDES if getattr(kind, side) is not getattr(Protocol, side)]
    sides = " and ".join(side for side in defined if getattr(protocol, side)())
    if isinstance(old, FunctionType) and isinstance(new, FunctionType):
        if unknown := arguments_beyond(new, old):
            return (
                f"{what} to a law of {', '.join(unknown)}, and the packet hooks of {author.__name__} call it with "
                f"{arguments_text(old) or 'no argument'}: define {sides}, too"
            )
        if _scales(old, protocol.states) and not _scales(new, protocol.states):
            return (
                f"{what} to a law that does not scale with w and s: the packet hooks of {author.__name__} call it with "
                f"bytes, and the fluid with bits; write sizes as multiples of s, or define {sides}, too"
            )
    return f"{what}, which the packet hooks of {author.__name__} do not use: define {sides}, too"


# ---- laws in hooks -------------------------------------------------------------------------------------------------


def _bound(protocol: Protocol, side: str) -> tuple[dict[str, Hook], set[str]]:
    """The hooks of a side with the laws of the class, and the names of the laws that were replaced in them."""
    kind = type(protocol)
    hooks: dict[str, Hook] = dict(getattr(protocol, side)())
    authors = [cls for cls in kind.__mro__ if side in vars(cls) and cls is not Protocol]
    if not authors or not any(_redefined(kind, authors[-1])):
        return hooks, set()
    replaced: set[str] = set()
    bound: list[tuple[Any, Any]] = []  # hook as a class wrote it, and with the laws of this one
    for cls in reversed(authors):
        laws = _replacements(protocol, cls)
        for hook in vars(cls)[side](protocol).values():
            if not isinstance(hook, FunctionType) or any(_is_same(hook, written) for written, _ in bound):
                continue
            used: set[int] = set()
            calls = {old: new for old, (new, _) in laws.items()}
            calls |= {written: copy for written, copy in bound if copy is not written}  # subclasses call originals
            bound.append((hook, replace_functions(hook, calls, used)))
            replaced |= {name for old, (_, names) in laws.items() if id(old) in used for name in names}
    return {
        name: next((copy for written, copy in bound if _is_same(written, hook)), hook) for name, hook in hooks.items()
    }, replaced


def _replacements(protocol: Protocol, author: type[Protocol]) -> dict[FunctionType, tuple[FunctionType, list[str]]]:
    """Law that hooks of a class call -> the one to call instead, and its names; laws that are ambiguous are left out.

    A function that is the law of several entries is ambiguous unless all of them are replaced by one law.
    """
    old, new = _laws(protocol, author), _laws(protocol, type(protocol))
    names: dict[FunctionType, list[str]] = {}
    for name, law in old.items():
        if isinstance(law, FunctionType):
            names.setdefault(law, []).append(name)
    replacements = {}
    for law, its in names.items():
        new_laws = [new.get(name) for name in its]
        other = new_laws[0]
        if not isinstance(other, FunctionType) or not all(_is_same(new_law, other) for new_law in new_laws):
            continue
        if _is_same(law, other) or arguments_beyond(other, law):
            continue
        if _scales(law, protocol.states) and not _scales(other, protocol.states):
            continue
        replacements[law] = (with_arguments_of(other, law), its)
    return replacements


def _scales(law: FunctionType, states: Mapping[str, State]) -> bool:
    """Return True if the result of a law of a window scales with the unit of sizes.

    True for laws without `w`, and for those that cannot be evaluated at an ordinary point.
    """
    if not takes(law, "w") or takes(law, "x"):
        return True
    sizes = frozenset((*_SCALED, *(name for name, state in states.items() if state.unit in ("bit", "bytes"))))
    try:
        first, second = (float(call_law(law, _Point(sizes, unit))) / unit for unit in (1.0, 0.125))
    except Exception:  # at this point; packet runs report it where it occurs
        return True
    return abs(first - second) <= 1e-9 * max(abs(first), abs(second))


class _Point(dict[str, Any]):
    """Values of all arguments of a law at an ordinary point, with sizes in a unit."""

    def __init__(self, sizes: frozenset[str], unit: float) -> None:
        super().__init__(p=_Ones())
        self._sizes, self._unit = sizes, unit

    def __missing__(self, argument: str) -> float:
        return _ORDINARY.get(argument, 0.3) * (self._unit if argument in self._sizes else 1.0)


class _Ones:
    """Parameters that are all 1."""

    def __getattr__(self, name: str) -> _One:
        return _One(1.0)


class _One(float):
    """The number 1, and an array of one entry 1."""

    def __getitem__(self, place: int) -> float:
        return 1.0

    def __len__(self) -> int:
        return 1


# ---- what classes declare ------------------------------------------------------------------------------------------


def _redefined(kind: type[Protocol], author: type[Protocol]) -> Iterator[str]:
    """Entries that subclasses of a class define anew."""
    for cls in kind.__mro__[: kind.__mro__.index(author)]:
        yield from (name for name in ENTRIES if name in vars(cls))


def _as_of(protocol: Protocol, cls: type[Protocol], name: str) -> Any:
    """The value that an entry has in a class, which subclasses may have changed."""
    if name in vars(protocol):
        return vars(protocol)[name]  # a parameter
    for owner in cls.__mro__:
        if name in vars(owner):
            value = vars(owner)[name]
            return value.__get__(protocol, cls) if hasattr(type(value), "__get__") else value
    return None


def _laws(protocol: Protocol, cls: type[Protocol]) -> Laws:
    """The laws of a class, by their names in messages."""
    laws: Laws = {name: _as_of(protocol, cls, name) for name in LAWS}
    form = _as_of(protocol, cls, "fluid_form")
    for name, value in {} if form is None else form._asdict().items():
        laws[f"{name} of fluid_form"] = value
    for name, state in _as_of(protocol, cls, "states").items():
        laws[f"the law of state {name}"] = state.law
        laws |= {f"the value of state {name} after a {signal}": jump for signal, jump in state.jumps.items()}
    return laws


def _declared(protocol: Protocol, cls: type[Protocol]) -> Laws:
    """All entries of a class that hooks have to agree with."""
    entries = _laws(protocol, cls)
    for name in ENTRIES:
        if name not in (*LAWS, *_USED_BY_PACKETS, "fluid_form", "states"):
            value = _as_of(protocol, cls, name)
            entries[name] = getattr(value, "__func__", value)
    for name, state in _as_of(protocol, cls, "states").items():
        entries |= {
            f"{entry} of state {name}": getattr(state, entry) for entry in ("clock", "initial", "lowest", "highest")
        }
    return entries


def _is_same(one: Any, other: Any) -> bool:
    """Return True if two values are equal; functions are equal if they and all that they call are the same."""
    if one is other:
        return True
    if isinstance(one, FunctionType) and isinstance(other, FunctionType):
        try:
            return text_of(one, {}) == text_of(other, {})
        except TypeError:
            return False
    if isinstance(one, Callable) or isinstance(other, Callable):  # type: ignore[arg-type]
        return False
    return bool(one == other)
