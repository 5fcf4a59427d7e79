"""Records that hooks work on: NumPy arrays with the fields that a protocol declares; checks of parameters as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, is_dataclass, make_dataclass
from functools import cache
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown

__all__ = [
    "as_floats",
    "check_params",
    "check_records",
    "named_variables",
    "param_record",
    "param_values",
    "per_hop",
    "record_dtype",
    "records",
    "state_units",
    "variable_value",
    "with_fields",
]


def per_hop() -> Any:
    """Return a field of a header or of a flow's state that is an array with an entry for each link of a path.

    Declared as, for example, `queue: tuple[float, ...] = per_hop()`. It is zero at first and has as many entries as the
    longest route of the run has links: the hook of a link that counts links in the header always finds an entry.
    """
    return field(default=(), metadata={"per_hop": True})


def with_fields(record: Any, part: type) -> Any:
    """Return a record with the fields of another dataclass in addition.

    Parts of a protocol that a parameter selects, such as a slow start, so add their state only to flows that use it.

    Parameters
    ----------
    record : object
        Dataclass instance. Its values are kept.
    part : type
        Dataclass whose fields have defaults.

    Examples
    --------
    >>> from ecc.models.shared import search, windows
    >>> with_fields(windows.FlowState(ssthresh=3e4), search.FlowState).search_index
    0
    """
    kind: Any = type(record)
    if issubclass(kind, part):
        return record
    return _joined(kind, part)(**{f.name: getattr(record, f.name) for f in fields(record)})


@cache
def _joined(kind: type, part: type) -> type:
    """Return a dataclass with the fields of both."""
    bases = (part,) if issubclass(part, kind) else (kind, part)
    return make_dataclass(kind.__name__, [], bases=bases)


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


def as_floats(value: Any, name: str) -> tuple[float, ...]:
    """Return an array parameter as a tuple of floats.

    Parameters
    ----------
    value : object
        Tuple, list or array of one dimension, for example the weights of a trained policy.
    name : str
        Name of the parameter in messages.

    Raises
    ------
    TypeError
        If it is not an array, or an entry is not a number.
    ValueError
        If it is empty, or an entry is NaN.
    """
    entries = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise TypeError(f"{name} must be an array of numbers, got {shown(value)}")
    if len(entries) == 0:
        raise ValueError(f"{name} must be an array of at least one number, got {shown(value)}")
    for place, entry in enumerate(entries):
        if not isinstance(entry, Real) or isinstance(entry, bool):
            raise TypeError(f"{name} must be an array of numbers, got {shown(entry)} (entry {place})")
        if entry != entry:
            raise ValueError(f"{name} must be an array of numbers, got {shown(entry)} (entry {place})")
    return tuple(map(float, entries))


def check_params(protocol: Any) -> None:
    """Refuse parameters that are neither numbers nor arrays of numbers.

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    TypeError
        An entry of `params()` of another type.
    ValueError
        An array that is empty, or with an entry that is NaN.
    """
    place = f"params() of {type(protocol).__name__}"
    for name, value in protocol.params().items():
        if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
            as_floats(value, f"{name} in {place}")
        elif not isinstance(value, Real):
            raise TypeError(f"{place} must have a number or an array of numbers for {name}, got {shown(value)}")


def param_record(protocol: Any) -> NDArray[np.void]:
    """Return the parameters as compiled laws and hooks see them: one record of float64 fields, shape (1,).

    Parameters
    ----------
    protocol : Protocol
        Its `params()` are numbers, or arrays of numbers, which become fields of their length.
    """
    values = protocol.params()
    out = np.zeros(1, [(name, "f8", np.shape(value)) for name, value in values.items()])
    for name, value in values.items():
        out[name] = value
    return out


def param_values(record: NDArray[np.void]) -> NDArray[np.float64]:
    """Return the numbers of a record of parameters in one array, entries of array parameters in order.

    Parameters
    ----------
    record : ndarray, shape (1,)
        Record of `param_record`, whose memory the result shares.
    """
    return record.view(np.float64) if record.itemsize else np.zeros(0)


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
