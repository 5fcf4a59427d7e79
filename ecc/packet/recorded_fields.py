"""Fields of link states, flow states and `env` that a run records in addition to its standard series.

A name is "link.FIELD" or "flow.FIELD" for a field of the records that a protocol declares, with "[k]" for an element of
an array, or "env.FIELD" for a field of the `env` of flows that has a meaning when no hook runs. For example "flow.x".
A flow's FIELD can also be a name from the protocol's `conformance_names`, such as the names of variables of controllers
in C. The engines copy eight bytes for each link or flow into every sample, from addresses that this module computes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.contract.records import named_variables
from ecc.native import FLOW_ENV, RECORDED, addresses
from ecc.packet.setup import Setup

__all__ = ["ENV_FIELDS", "Series", "Word", "recorded", "series", "table"]

ENV_FIELDS = (
    "rate",
    "window",
    "rtt",
    "srtt",
    "min_rtt",
    "in_flight",
    "delivered",
    "lost",
    "recovering",
    "packet_size",
    "size",
    "header_bytes",
    "limited_by",
)
"""Fields of a flow's `env` that can be recorded."""

_NAME = re.compile(r"(link|flow|env)\.(\w+)(?:\[([0-9]{1,9})\])?")


class Word(NamedTuple):
    """Eight bytes of a record: the router or flow, and the field."""

    side: str  # "links" or "flows": its state; "env": the env of the flow
    number: int
    field: str
    element: int
    offset: int  # bytes
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Series:
    """A recorded series: `words` of the links or flows `members`, among a total of `count`."""

    name: str
    count: int
    members: list[int]
    words: list[Word]

    def values(self, words: NDArray[np.int64]) -> NDArray[Any]:
        """Return the series, shape (n_times, count), with NaN if a protocol has no such field.

        Parameters
        ----------
        words : ndarray of int
            Sampled words, shape (n_times, len(members)).
        """
        dtypes = {word.dtype for word in self.words}
        if len(self.members) == self.count and len(dtypes) == 1:
            return np.ascontiguousarray(words).view(dtypes.pop())
        out = np.full((len(words), self.count), np.nan)
        for member, word, column in zip(self.members, self.words, words.T, strict=True):
            out[:, member] = np.ascontiguousarray(column).view(word.dtype)
        return out


def series(setup: Setup, names: Sequence[str]) -> list[Series]:
    """Return the series to record, with the locations of their words.

    Parameters
    ----------
    setup : Setup
    names : sequence of str
        "link.FIELD", "flow.FIELD" or "env.FIELD", for example "link.R".

    Raises
    ------
    ValueError
        If a name is not of this form, or if no protocol of the run has the field.
    TypeError
        If `names` is not a sequence of str.
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"record must be a sequence of names, got {names!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"record must name each field once, got {', '.join(names)}")
    return [_series(setup, name) for name in names]


def _series(setup: Setup, name: str) -> Series:
    parsed = _NAME.fullmatch(name)
    if parsed is None:
        raise ValueError(f"record must be link.FIELD, flow.FIELD or env.FIELD, got {name!r}")
    side, field, element = parsed[1], parsed[2], parsed[3]
    if side == "env":
        if field not in ENV_FIELDS or element is not None:
            raise ValueError(f"record may have env. and {', '.join(ENV_FIELDS)}, got {name!r}")
        env_fields: Mapping[str, Any] = FLOW_ENV.fields or {}
        dtype, offset, *_ = env_fields[field]
        flows = range(setup.n_flows)
        return Series(name, setup.n_flows, list(flows), [Word("env", k, field, 0, offset, dtype) for k in flows])
    at, count = (setup.links["at"].tolist(), setup.n_links) if side == "link" else (None, setup.n_flows)
    words: dict[int, Word] = {}
    fields: dict[str, None] = {}
    for part in setup.parts:
        for part_side, numbers, states, _, _ in part.sides():
            if part_side != f"{side}s":
                continue
            layout: Mapping[str, Any] = states.dtype.fields or {}
            fields |= dict.fromkeys(layout)
            state_field, index = field, element
            if side == "flow" and field not in layout and element is None:
                named = {key: variable for key, variable in named_variables(part.protocol).items() if key not in layout}
                fields |= dict.fromkeys(named)
                state_field, _, index = named.get(field, field).rstrip("]").partition("[")
            if state_field not in layout:
                continue
            dtype, offset, *_ = layout[state_field]
            k = _element(name, dtype, index or None)
            for number in numbers.tolist():
                member = number if at is None else at[number]
                if member < count and (member not in words or number < words[member].number):  # the first such router
                    words[member] = Word(part_side, number, state_field, k, offset + 8 * k, dtype.base)
    if not words:
        have = ", ".join(fields) or "none"
        raise ValueError(f"record must name a field of a {side}, which are {have}, got {name!r}")
    members = sorted(words)
    return Series(name, count, members, [words[member] for member in members])


def _element(name: str, dtype: np.dtype[Any], element: str | None) -> int:
    """Return the index of the element of a field that a name selects."""
    size = int(np.prod(dtype.shape, dtype=int))
    if dtype.shape and element is None:
        raise ValueError(f"record must name an element of an array, {name}[0] to {name}[{size - 1}], got {name!r}")
    if element is not None and (not dtype.shape or int(element) >= size):
        allowed = f"below {size}" if dtype.shape else "for arrays only"
        raise ValueError(f"record must have an element {allowed}, got {name!r}")
    return int(element or 0)


def table(setup: Setup, words: Sequence[Word]) -> NDArray[np.void]:
    """Return words in the format of the C engine, dtype RECORDED.

    Parameters
    ----------
    setup : Setup
        Setup with the records of the engine.
    words : sequence of Word
    """
    address_of = {
        (side, number): address
        for part in setup.parts
        for side, numbers, states, _, _ in part.sides()
        for number, address in zip(numbers.tolist(), addresses(states).tolist(), strict=True)
    }
    rows = [(address_of.get((word.side, word.number), 0), word.offset, word.number) for word in words]
    return np.array(rows, RECORDED)


def recorded(recording: Sequence[Series], words: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the values of series by name.

    Parameters
    ----------
    recording : sequence of Series
    words : ndarray of int, shape (n_times, n_words)
        Words of all series, one series after the other.
    """
    ends = np.cumsum([0, *(len(item.words) for item in recording)])
    return {item.name: item.values(words[:, a:b]) for item, a, b in zip(recording, ends[:-1], ends[1:], strict=True)}
