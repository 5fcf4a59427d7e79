"""Records that hooks work on: NumPy arrays with the fields that a protocol declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown

__all__ = [
    "check_params",
    "check_records",
    "named_variables",
    "per_hop",
    "record_dtype",
    "records",
    "state_units",
    "variable_value",
]


def per_hop() -> Any:
    """Return a field of a header or of a flow's state that is an array with an entry for each link of a path.

    Declared as, for example, `queue: tuple[float, ...] = per_hop()`. It is zero at first and has as many entries as the
    longest route of the run has links: the hook of a link that counts links in the header always finds an entry.
    """
    return field(default=(), metadata={"per_hop": True})


def check_records(protocol: Any) -> None:
    """Refuse records of a protocol's hooks that are not dataclasses.

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    TypeError
        A header or state that is not a dataclass.
    """
    for name in ("Header", "LinkState", "FlowState"):
        if not is_dataclass(kind := getattr(protocol, name)):
            got = getattr(kind, "__name__", shown(kind))
            raise TypeError(
                f"{name} of {type(protocol).__name__} must be a dataclass, decorated with @dataclass, got {got}"
            )


def check_params(protocol: Any) -> None:
    """Refuse parameters that are not numbers, such as arrays: laws and hooks see one float for each name.

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    TypeError
        An entry of `params()` that is not a real number.
    """
    for name, value in protocol.params().items():
        if not isinstance(value, Real):
            kind, hint = type(protocol).__name__, ""
            if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
                hint = f": give each entry of an array a name, such as {name}_0"
            raise TypeError(f"params() of {kind} must have one number for {name}, got {shown(value)}{hint}")


def record_dtype(record: Any, hops: int = 0) -> np.dtype[np.void]:
    """Return the dtype of a record that a protocol declares: float fields are float64, int fields int64.

    Parameters
    ----------
    record : object
        Dataclass, or an instance of one. Its fields are float, int, or tuples of either, which become arrays of the
        tuple's length.
    hops : int, optional
        Length of the fields declared with `per_hop`, for example 5.

    Raises
    ------
    TypeError
        A field of another type.
    """
    kinds = {"float": "f8", "int": "i8", "tuple[float, ...]": "f8", "tuple[int, ...]": "i8"}
    kinds |= {float: "f8", int: "i8", tuple[float, ...]: "f8", tuple[int, ...]: "i8"}  # type: ignore[dict-item]
    for f in fields(record):
        if f.type not in kinds:
            name = getattr(record, "__name__", type(record).__name__)
            raise TypeError(f"{name}.{f.name} must be float or int, or a tuple of either, got {shown(f.type)}")

    def shape(f: Any) -> tuple[int, ...]:
        return (hops,) if "per_hop" in f.metadata else np.shape(getattr(record, f.name))

    return np.dtype([(f.name, kinds[f.type], shape(f)) for f in fields(record)])  # type: ignore[index]


def records(first: Any, count: int, hops: int = 0) -> NDArray[np.void]:
    """Return an array of `count` records, each a copy of `first`.

    Parameters
    ----------
    first : object
        Instance of a dataclass, see `record_dtype`.
    count : int
    hops : int, optional
        Length of the fields declared with `per_hop`.
    """
    out = np.zeros(count, record_dtype(first, hops))
    for f in fields(first):
        if "per_hop" not in f.metadata:
            out[f.name] = getattr(first, f.name)
    return out


def named_variables(protocol: Any) -> dict[str, str]:
    """Return the variables of a protocol's flows: their names, and the field of the state for each.

    Parameters
    ----------
    protocol : Protocol
        Scalar fields of its `FlowState` have their own names or those in `conformance_names`, which may also name
        elements of arrays ("field[0]").
    """
    names = {field: name for name, field in getattr(protocol, "conformance_names", {}).items()}
    kind = getattr(protocol, "FlowState", None)
    scalars = [entry.name for entry in fields(kind) if entry.type in ("int", "float", int, float)] if kind else []
    elements = {name: field for field, name in names.items() if field.endswith("]")}
    return {names.get(field, field): field for field in scalars} | elements


def variable_value(state: Any, field: str) -> Any:
    """Return the value of a field of a state, or of an element of an array field, "field[0]".

    Parameters
    ----------
    state : object
    field : str
    """
    name, _, index = field.rstrip("]").partition("[")
    value = getattr(state, name)
    return value[int(index)] if index else value


def state_units(names: Iterable[str], protocols: Sequence[Any]) -> Mapping[str, str]:
    """Return the units of recorded states, as the protocols declare them in `Protocol.states`.

    Parameters
    ----------
    names : iterable of str
        Series, such as "flow.alpha" or "link.p".
    protocols : sequence of Protocol
        Protocols of a run. If several declare a state of the same name, it has a unit only if they agree.
    """
    units_by_name = {}
    for name in names:
        side, _, state = name.partition(".")
        units = {
            protocol.states[state].unit
            for protocol in protocols
            if side in ("flow", "link") and state in protocol.states
        }
        if len(units) == 1:
            units_by_name[name] = units.pop()
    return units_by_name
