"""Arithmetic operations of a router per packet, counted by running its hooks on numbers that count."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ecc.contract.env import Hook
from ecc.packet.prepare import prepare
from ecc.packet.twin import build_twin
from ecc.scenario import Scenario

__all__ = ["Operations", "count_operations"]


@dataclass(frozen=True)
class Operations:
    """Numbers of additions (including subtractions), multiplications and divisions."""

    additions: int = 0
    multiplications: int = 0
    divisions: int = 0


def count_operations(scenario: Scenario, link: int = 0, since: float = 0.0) -> Counter[Operations]:
    """Return the operations of a link's router per data packet, in its arrival hook and departure hook.

    Comparisons, assignments and the work once per interval are not counted.

    Parameters
    ----------
    scenario : Scenario
        Scenario to run with the engine in plain Python; a few seconds of a slow link are enough.
    link : int, optional
        Index of the link.
    since : float, s, optional
        Packets that arrive earlier are not counted, for example 3.0.

    Returns
    -------
    packets : Counter
        Operations -> number of packets with these operations.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("2 Mb/s", rtts=[0.05])
    >>> count_operations(ecc.Scenario(net, JetMax(), 4.0), since=3.0).most_common(1)[0][0]
    Operations(additions=3, multiplications=0, divisions=0)
    """
    setup = prepare(scenario)
    packets: dict[int, Counter[str]] = {}  # packets between the two hooks
    done: Counter[Operations] = Counter()

    def counting(hooks: Mapping[str, Hook]) -> dict[str, Hook]:
        seen = [name for name in ("on_arrival", "on_departure") if name in hooks]

        def count(name: str, state: Any, header: Any, params: Any, env: Any) -> None:
            if env.link != link or env.kind != 0:
                hooks[name](state, header, params, env)
                return
            spent = Counter() if name == seen[0] else packets[id(header)]
            packets[id(header)] = spent
            hooks[name](*(_Record(record, spent) for record in (state, header, params, env)))
            if name == seen[-1] and env.now >= since:
                done[Operations(**spent)] += 1

        return {**hooks, **{name: partial(count, name) for name in seen}}

    parts = [replace(part, link_hooks=counting(part.link_hooks)) for part in setup.parts]
    build_twin(replace(setup, parts=parts), seed=scenario.seed).advance(scenario.duration)
    return done


class _Record:
    """A record with numbers that count operations."""

    def __init__(self, record: Any, spent: Counter[str]) -> None:
        self.__dict__.update(_record=record, _spent=spent)

    def __getattr__(self, name: str) -> Any:
        return _Number(getattr(self._record, name), self._spent)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._record, name, _plain(value))


class _Number:
    """A number, or an array of numbers, that counts the operations on it."""

    def __init__(self, value: Any, spent: Counter[str]) -> None:
        self.value, self.spent = value, spent

    def __getitem__(self, index: Any) -> _Number:
        return _Number(self.value[_plain(index)], self.spent)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.value[_plain(index)] = _plain(value)

    def __neg__(self) -> _Number:
        return _Number(-self.value, self.spent)

    def __abs__(self) -> _Number:
        return _Number(abs(self.value), self.spent)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, _Number) else value


def _counted(operation: Callable[[Any, Any], Any], name: str, swapped: bool = False) -> Callable[[_Number, Any], Any]:
    def method(self: _Number, other: Any) -> _Number:
        self.spent[name] += 1
        operands = (_plain(other), self.value) if swapped else (self.value, _plain(other))
        return _Number(operation(*operands), self.spent)

    return method


def _compared(operation: Callable[[Any, Any], bool]) -> Callable[[_Number, Any], bool]:
    return lambda self, other: operation(self.value, _plain(other))


for _operation, _kind in (
    (operator.add, "additions"),
    (operator.sub, "additions"),
    (operator.mul, "multiplications"),
    (operator.truediv, "divisions"),
    (operator.floordiv, "divisions"),
    (operator.mod, "divisions"),
):
    setattr(_Number, f"__{_operation.__name__}__", _counted(_operation, _kind))
    setattr(_Number, f"__r{_operation.__name__}__", _counted(_operation, _kind, swapped=True))
for _comparison in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
    setattr(_Number, f"__{_comparison.__name__}__", _compared(_comparison))
