"""What a run records beside its series: fields of the states of links and flows, and of what hooks of flows see.

A name is "link.FIELD" or "flow.FIELD", of the records that a protocol declares, with "[k]" for an element of an array,
or "env.FIELD", of the `env` of flows, where the field has a meaning when no hook runs. A flow's FIELD may also be what
its protocol calls a variable (`conformance_names`), as controllers in C name theirs. The engines copy eight bytes
for each of a link or flow into every sample; they know where these are, and not what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.models.records import named_variables
from ecc.native import FLOW_ENV, RECORDED, addresses
from ecc.packet.setup import Setup

__all__ = ["LASTING", "Series", "Word", "recorded", "series", "table"]

LASTING = (
    "rate", "window", "rtt", "srtt", "min_rtt", "in_flight", "delivered", "lost", "recovering", "packet_size", "size",
    "header_bytes", "limited_by",
)  # fmt: skip
"""Fields of a flow's `env` that can be recorded."""

_NAME = re.compile(r"(link|flow|env)\.(\w+)(?:\[([0-9]{1,9})\])?")


class Word(NamedTuple):
    """Eight bytes: which router or flow has them, in which field."""

    side: str  # "links" or "flows": its record; "env": what hooks of the flow see
    number: int
    field: str
    element: int
    offset: int  # bytes
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Series:
    """A recorded series: `words` of the links or flows `members`, among the `count` that there are."""

    name: str
    count: int
    members: list[int]
    words: list[Word]

    def values(self, words: NDArray[np.int64]) -> NDArray[Any]:
        """Return the series, shape (n_times, count); NaN where a protocol has no such field.

        Parameters
        ----------
        words : ndarray of int
            Shape (n_times, len(members)), as engines sample them.
        """
        dtypes = {word.dtype for word in self.words}
        if len(self.members) == self.count and len(dtypes) == 1:
            return np.ascontiguousarray(words).view(dtypes.pop())
        out = np.full((len(words), self.count), np.nan)
        for member, word, column in zip(self.members, self.words, words.T, strict=True):
            out[:, member] = np.ascontiguousarray(column).view(word.dtype)
        return out


def series(setup: Setup, names: Sequence[str]) -> list[Series]:
    """Return where what is to be recorded lies.

    Parameters
    ----------
    setup : Setup
    names : sequence of str
        "link.FIELD", "flow.FIELD" or "env.FIELD".

    Raises
    ------
    ValueError
        No such name, or none of its protocols has the field.
    TypeError
        No sequence of str.
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"record must be a sequence of names, got {names!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"record must name each field once, got {', '.join(names)}")
    return [_series(setup, name) for name in names]


def _series(setup: Setup, name: str) -> Series:
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"record must be link.FIELD, flow.FIELD or env.FIELD, got {name!r}")
    side, field, element = found[1], found[2], found[3]
    if side == "env":
        if field not in LASTING or element is not None:
            raise ValueError(f"record may have env. and {', '.join(LASTING)}, got {name!r}")
        seen: Mapping[str, Any] = FLOW_ENV.fields or {}
        dtype, offset, *_ = seen[field]
        flows = range(setup.n_flows)
        return Series(name, setup.n_flows, list(flows), [Word("env", k, field, 0, offset, dtype) for k in flows])
    at, count = (setup.links["at"].tolist(), setup.n_links) if side == "link" else (None, setup.n_flows)
    words: dict[int, Word] = {}
    fields: dict[str, None] = {}
    for part in setup.parts:
        for whose, numbers, states, _, _ in part.sides():
            if whose != f"{side}s":
                continue
            layout: Mapping[str, Any] = states.dtype.fields or {}
            fields |= dict.fromkeys(layout)
            here, index = field, element
            if side == "flow" and field not in layout and element is None:
                named = {key: one for key, one in named_variables(part.protocol).items() if key not in layout}
                fields |= dict.fromkeys(named)
                here, _, index = named.get(field, field).rstrip("]").partition("[")
            if here not in layout:
                continue
            dtype, offset, *_ = layout[here]
            k = _element(name, dtype, index or None)
            for number in numbers.tolist():
                member = number if at is None else at[number]
                if member < count and (member not in words or number < words[member].number):  # its first such router
                    words[member] = Word(whose, number, here, k, offset + 8 * k, dtype.base)
    if not words:
        have = ", ".join(fields) or "none"
        raise ValueError(f"record must name a field of a {side}, which are {have}, got {name!r}")
    members = sorted(words)
    return Series(name, count, members, [words[member] for member in members])


def _element(name: str, dtype: np.dtype[Any], element: str | None) -> int:
    """Which element of a field is meant."""
    size = int(np.prod(dtype.shape, dtype=int))
    if dtype.shape and element is None:
        raise ValueError(f"record must name an element of an array, {name}[0] to {name}[{size - 1}], got {name!r}")
    if element is not None and (not dtype.shape or int(element) >= size):
        allowed = f"below {size}" if dtype.shape else "for arrays only"
        raise ValueError(f"record must have an element {allowed}, got {name!r}")
    return int(element or 0)


def table(setup: Setup, words: Sequence[Word]) -> NDArray[np.void]:
    """Return words as the C engine reads them, dtype RECORDED.

    Parameters
    ----------
    setup : Setup
        Whose records the engine works on.
    words : sequence of Word
    """
    where = {
        (side, number): address
        for part in setup.parts
        for side, numbers, states, _, _ in part.sides()
        for number, address in zip(numbers.tolist(), addresses(states).tolist(), strict=True)
    }
    rows = [(where.get((word.side, word.number), 0), word.offset, word.number) for word in words]
    return np.array(rows, RECORDED)


def recorded(found: Sequence[Series], words: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the values of series by name.

    Parameters
    ----------
    found : sequence of Series
    words : ndarray of int, shape (n_times, n_words)
        Of all of them, one after the other.
    """
    ends = np.cumsum([0, *(len(one.words) for one in found)])
    return {one.name: one.values(words[:, a:b]) for one, a, b in zip(found, ends[:-1], ends[1:], strict=True)}
