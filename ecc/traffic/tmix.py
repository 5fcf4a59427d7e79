"""Tmix connection vectors: activity of the applications of a TCP connection, independent of the network.

Implements the formats of Weigle, Adurthi, Hernandez-Campos, Jeffay, Smith, *Tmix: a tool for generating realistic TCP
application workloads in ns-2* (CCR 36(3), 2006), in the form of the manual of ns-2. A vector is a start, an RTT and
units of data, each with the wait before it. In a sequential connection a unit waits for the previous one, from either
side (request, response, request, ...); in a concurrent one each side sends independently.

    original                         alternate
    SEQ 6851 1 21217 555382          S 6851 1 21217 555382    start [us], exchanges, two identifiers
    w 64800 6432                     w 64800 6432             windows of initiator and acceptor [bytes]
    r 1176194                        r 1176194                minimum RTT [us]
    l 0.000000 0.000000              l 0.000000 0.000000      losses of either direction
    > 245                            I 0 0 245                the initiator sends 245 bytes
    t 51257                          A 0 51257 510            51 ms after its arrival, the acceptor sends 510
    < 510
    t 6304943                        A 6304943 0 0            and closes after 6.3 s

    CONC 1429381 2 2 26876 793318    C ...                    start, units of initiator and acceptor, identifiers
    c> 222, t> 62436302, c> 16       I 0 0 222, I 62436302 0 16
    c< 726, t< 62400173, c< 84       A 0 0 726, A 62400173 0 84

A line of the alternate format is side, wait after sending, wait after receiving, bytes (0: the side closes). A line
`m` (maximum segment sizes) is optional. The count of exchanges of a sequential vector is not checked, as ns-2 does not
read it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ecc._support.arguments import check_arguments, shown
from ecc._support.files import check_regular
from ecc._support.quantity import (
    Quantity,
    QuantityField,
    SizeField,
    as_count,
    as_delay,
    as_number,
    as_rate,
    as_size,
    as_time,
    default,
    required,
)

__all__ = [
    "ACCEPTOR",
    "INITIATOR",
    "ConnectionVector",
    "Synthetic",
    "Unit",
    "iter_vectors",
    "offered_load",
    "read_vectors",
    "response_times",
    "thin",
    "thinned",
    "write_vectors",
]

INITIATOR, ACCEPTOR = 0, 1
SIDES = ("initiator", "acceptor")
US = 1e6
LONGEST_LINE = 100_000
MAX_DIGITS = 15
"""Maximum digits of a number in a file: 31 years in us, a petabyte."""


@check_arguments
@dataclass(frozen=True)
class Unit:
    """Data that an application sends at once.

    Parameters
    ----------
    sender : INITIATOR or ACCEPTOR
    size : int, bytes, > 0
    wait : float, s, >= 0
        Time before it is sent: from the arrival of the previous unit (sequential), from the side's own previous unit
        (concurrent), or from the start if it is the first.
    """

    sender: int
    size: SizeField = required()
    wait: QuantityField = default(0.0)

    def __post_init__(self) -> None:
        if not (isinstance(self.sender, int | np.integer) and self.sender in (INITIATOR, ACCEPTOR)):
            raise ValueError(f"sender must be 0 (initiator) or 1 (acceptor), got {shown(self.sender)}")
        if type(self.size) is int and self.size > 0 and type(self.wait) is float and 0.0 <= self.wait < float("inf"):
            return  # no conversion is needed: there may be millions of units
        object.__setattr__(self, "size", as_size(self.size, "size"))
        object.__setattr__(self, "wait", as_time(self.wait, "wait"))


@check_arguments(constructor=True)
@dataclass(frozen=True)
class ConnectionVector:
    """A connection: its start, RTT and units of data.

    Parameters
    ----------
    start : float, s
    rtt : float, s, >= 0
        Minimum RTT.
    units : sequence of Unit
        Units in the order in which they are sent; one or more.
    concurrent : bool
        True: the sides do not wait for each other.
    close : tuple of two Quantity
        Waits of initiator and acceptor before they close, s; None: not given.
    windows : tuple of two int or None
        Windows of initiator and acceptor, bytes, or None.
    losses : tuple of two float
        Loss rates of the two directions, from 0 to 1.
    identifiers : tuple of two int
        The two identifiers in the files.
    segments : tuple of two int or None
        Maximum segment sizes of initiator and acceptor, bytes, or None.

    Raises
    ------
    ValueError, TypeError
        A value out of range.
    """

    start: QuantityField = required()
    rtt: QuantityField = required()
    units: Sequence[Unit] = required()
    concurrent: bool = False
    close: tuple[Quantity | None, Quantity | None] = (None, None)
    windows: tuple[int, int] | None = None
    losses: tuple[float, float] = (0.0, 0.0)
    identifiers: tuple[int, int] = (0, 0)
    segments: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        put("start", as_time(self.start, "start"))
        put("rtt", as_delay(self.rtt, "rtt"))
        put("units", tuple(self.units))
        if not self.units or not all(isinstance(unit, Unit) for unit in self.units):
            raise ValueError(f"units must be one Unit or more, got {shown(self.units)}")
        if not self.concurrent and self.units[0].wait:
            raise ValueError(f"the first unit of a sequential connection must not wait, got {self.units[0].wait:g} s")
        put("close", tuple(None if wait is None else as_time(wait, "close") for wait in self.close))
        put("losses", tuple(as_number(loss, "losses", minimum=0.0) for loss in self.losses))
        if max(self.losses) > 1.0:
            raise ValueError(f"losses must be from 0 to 1, got {shown(self.losses)}")
        for name in ("windows", "identifiers", "segments"):
            values = getattr(self, name)
            put(name, None if values is None else tuple(as_count(number, name) for number in values))

    @property
    def chains(self) -> list[list[int]]:
        """Chains of units that wait for each other: lists of indices, one if sequential, one per side if concurrent."""
        if not self.concurrent:
            return [list(range(len(self.units)))]
        sides = [[k for k, unit in enumerate(self.units) if unit.sender == side] for side in (INITIATOR, ACCEPTOR)]
        return [side for side in sides if side]

    def sizes(self) -> tuple[int, int]:
        """Return the bytes that the initiator and the acceptor send."""
        sent = [0, 0]
        for unit in self.units:
            sent[unit.sender] += int(unit.size or 0)
        return sent[0], sent[1]


# ---- files -----------------------------------------------------------------------------------------------------------


@check_arguments
def read_vectors(source: str | Path) -> list[ConnectionVector]:
    """Return the connection vectors of a file, in either format, in its order.

    Parameters
    ----------
    source : str or Path
        Path of a file, or its text (anything with a newline).

    Returns
    -------
    list of ConnectionVector
        Connections in the order of the file.

    Raises
    ------
    ValueError
        An invalid line; the message has its number.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> read_vectors("SEQ 6851 1 1 2\\nr 100000\\n> 245\\nt 51257\\n< 510\\n")[0].units[1]
    Unit(sender=1, size=510, wait=0.051257)
    """
    return list(iter_vectors(source))


def iter_vectors(source: str | Path) -> Iterator[ConnectionVector]:
    """Yield the vectors of a file one at a time, as the file may be larger than the memory; see `read_vectors`.

    Parameters
    ----------
    source : str or Path
        See `read_vectors`.

    Returns
    -------
    iterator of ConnectionVector
        Connections in the order of the file.

    Raises
    ------
    ValueError, OSError
        See `read_vectors`; raised when the iteration reaches the line.

    Examples
    --------
    >>> vector = ecc.tmix.ConnectionVector(0.0, 0.1, [ecc.tmix.Unit(0, 500)])
    >>> text = ecc.tmix.write_vectors([vector])
    >>> next(iter_vectors(text)) == vector
    True
    """
    inline = isinstance(source, str) and "\n" in source
    if not inline:
        check_regular(source, "vectors")
    number = 0
    reading: _Reading | None = None
    with io.StringIO(str(source)) if inline else Path(source).open(encoding="utf-8") as file:
        try:
            for line in iter(partial(file.readline, LONGEST_LINE + 1), ""):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise ValueError(f"a line must have <= {LONGEST_LINE} characters")
                words = line.partition("#")[0].split()
                if not words:
                    continue
                if words[0] in _HEADS:
                    if reading:
                        yield reading.vector()
                    reading = _Reading(words)
                elif reading is None:
                    raise ValueError(f"a vector must begin with SEQ, CONC, S or C, got {_short(words[0])}")
                else:
                    reading.take(words)
            number += 1  # end of the file
            if reading:
                yield reading.vector()
        except UnicodeDecodeError:
            raise ValueError(f"vectors must be text, got bytes that are not ({str(source)!r})") from None
        except ValueError as error:
            of_file = "" if inline else f" of {str(source)!r}"
            raise ValueError(f"{error} (line {number}{of_file})") from None


_HEADS = {"SEQ": (False, False), "CONC": (True, False), "S": (False, True), "C": (True, True)}
"""First word of a vector -> whether it is concurrent, and in the alternate format."""


def _short(text: str) -> str:
    return repr(text if len(text) <= 20 else text[:20] + "...")


def _integer(word: str, name: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= MAX_DIGITS):
        raise ValueError(f"{name} must be a whole number of at most {MAX_DIGITS} digits, got {_short(word)}")
    return int(word)


class _Reading:
    """A vector that is being read, line by line."""

    def __init__(self, words: Sequence[str]) -> None:
        self.concurrent, self.alternate = _HEADS[words[0]]
        names = [
            "start",
            *(["initiator's units", "acceptor's units"] if self.concurrent else ["exchanges"]),
            "id",
            "id",
        ]
        start, *self.counts, first, second = self.numbers(words, names)
        self.fields: dict[str, Any] = {"start": start / US, "identifiers": (first, second)}
        self.units: list[Unit] = []
        self.close: list[float | None] = [None, None]
        self.waits: list[float | None] = [None, None]  # original format: waits read but not yet used, by side
        self.sent = [False, False]  # whether the next unit needs a wait before it, by side

    def numbers(self, words: Sequence[str], names: Sequence[str]) -> list[int]:
        if len(words) != len(names) + 1:
            wanted = f"{len(names)} number{'s' * (len(names) > 1)} ({', '.join(names)})"
            raise ValueError(f"{_short(words[0])} must be followed by {wanted}, got {len(words) - 1}")
        return [_integer(word, name) for word, name in zip(words[1:], names, strict=True)]

    def take(self, words: Sequence[str]) -> None:
        word = words[0]
        pairs = {"w": "windows", "m": "segments"}
        original = ("c>", "c<", "t>", "t<") if self.concurrent else (">", "<", "t")
        if word in ("w", "r", "l", "m"):
            name = pairs.get(word) or {"r": "rtt", "l": "losses"}[word]
            if name in self.fields or self.units:
                raise ValueError(f"{word!r} must come once, before the units")
            if word in pairs:
                self.fields[name] = tuple(self.numbers(words, SIDES))
            elif word == "r":
                self.fields[name] = self.numbers(words, ["RTT"])[0] / US
            else:
                self.fields[name] = self.losses(words)
        elif self.alternate and word in ("I", "A"):
            self.take_alternate("IA".index(word), *self.numbers(words, ["wait", "wait", "bytes"]))
        elif not self.alternate and word in original:
            self.take_original(word, self.numbers(words, ["us" if word[0] == "t" else "bytes"])[0])
        else:
            allowed = ", ".join(("w", "r", "l", "m", *(("I", "A") if self.alternate else original)))
            raise ValueError(f"a line must begin with one of {allowed}, got {_short(word)}")

    def losses(self, words: Sequence[str]) -> tuple[float, ...]:
        try:
            losses = tuple(float(word) for word in words[1:])
        except ValueError:
            losses = ()
        if len(losses) != 2 or not all(0.0 <= loss <= 1.0 for loss in losses):
            raise ValueError(f"'l' must be followed by 2 numbers from 0 to 1, got {_short(' '.join(words[1:]))}")
        return losses

    def take_original(self, word: str, number: int) -> None:
        side = SIDES.index("acceptor") if word.endswith("<") else INITIATOR
        which = side if self.concurrent else 0
        if word[0] == "t":
            if self.waits[which] is not None or not (self.concurrent or self.units):
                raise ValueError(f"{word!r} must come after data, once")
            self.waits[which], self.sent[which] = number / US, False
        else:
            if self.sent[which]:
                raise ValueError(f"{word!r} must come after a wait ('t')")
            self.add(side, number, self.waits[which] or 0.0)
            self.waits[which], self.sent[which] = None, True

    def take_alternate(self, side: int, sent: int, received: int, size: int) -> None:
        if self.close[side] is not None:
            raise ValueError(f"the {SIDES[side]} must not send after it has closed")
        if sent > 0 and received > 0:
            raise ValueError(f"one of the waits must be 0, got {sent} and {received}")
        if self.concurrent and received > 0:
            raise ValueError(f"the wait after receiving must be 0 in a concurrent vector, got {received}")
        if not (self.concurrent or self.units) and sent + received > 0:
            raise ValueError(f"the first unit of a sequential vector must not wait, got {sent + received}")
        same_sender = not self.units or self.units[-1].sender == side
        if not self.concurrent and size > 0 and self.units and (received if same_sender else sent) > 0:
            allowed, previous = ("sending", "the same side") if same_sender else ("receiving", "the other side")
            raise ValueError(f"a wait must be the one after {allowed} if {previous} sent last")
        if size > 0:
            self.add(side, size, (sent + received) / US)
        else:
            self.close[side] = (sent + received) / US

    def add(self, side: int, size: int, wait: float) -> None:
        if size == 0:
            raise ValueError("a unit must have > 0 bytes, got 0")
        self.units.append(Unit(side, size, wait))

    def vector(self) -> ConnectionVector:
        if "rtt" not in self.fields or not self.units:
            raise ValueError("the vector before must have an RTT ('r') and data")
        if self.concurrent:
            counts = [sum(unit.sender == side for unit in self.units) for side in (INITIATOR, ACCEPTOR)]
            if counts != self.counts:
                raise ValueError(f"the vector before must have {self.counts} units, as it declares, got {counts}")
            for side, wait in enumerate(self.waits):
                self.close[side] = wait if wait is not None else self.close[side]
        elif self.waits[0] is not None:
            self.close[self.units[-1].sender] = self.waits[0]
        return ConnectionVector(
            units=self.units, concurrent=self.concurrent, close=(self.close[0], self.close[1]), **self.fields
        )


@check_arguments
def write_vectors(vectors: Iterable[ConnectionVector], path: str | Path | None = None, alternate: bool = False) -> str:
    """Return connection vectors as text that `read_vectors` and ns-2 read, and optionally write it to a file.

    Parameters
    ----------
    vectors : iterable of ConnectionVector
    path : str or Path, optional
        File to write, or None.
    alternate : bool, optional
        True: the alternate format. False: the original one.

    Returns
    -------
    str
        The text, also if it is written to a file.

    Raises
    ------
    ValueError
        The side that did not send last closes, which the original format cannot express.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> vector = ecc.tmix.ConnectionVector(0.0, 0.1, [ecc.tmix.Unit(0, 500)])
    >>> print(write_vectors([vector]), end="")
    SEQ 0 1 0 0
    r 100000
    l 0.000000 0.000000
    > 500
    """
    text = "".join(line + "\n" for vector in vectors for line in _lines(vector, alternate))
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _us(seconds: Any) -> int:
    return int(round(seconds * US))


def _lines(vector: ConnectionVector, alternate: bool) -> Iterator[str]:
    senders = [unit.sender for unit in vector.units]
    if vector.concurrent:
        head, counts = "CONC", [senders.count(INITIATOR), senders.count(ACCEPTOR)]
    else:
        turns = sum(a == INITIATOR and b == ACCEPTOR for a, b in zip(senders, senders[1:], strict=False))
        head, counts = "SEQ", [max(1, turns)]
    yield " ".join(map(str, (head[0] if alternate else head, _us(vector.start), *counts, *vector.identifiers)))
    if vector.segments is not None:
        yield f"m {vector.segments[0]} {vector.segments[1]}"
    if vector.windows is not None:
        yield f"w {vector.windows[0]} {vector.windows[1]}"
    yield f"r {_us(vector.rtt)}"
    yield " ".join(["l", *(text if float(text := f"{loss:.6f}") == loss else repr(loss) for loss in vector.losses)])
    yield from (_alternate_units if alternate else _original_units)(vector)


def _alternate_units(vector: ConnectionVector) -> Iterator[str]:
    before: int | None = None
    for unit in vector.units:
        after_own = vector.concurrent or before in (None, unit.sender)
        waits = (_us(unit.wait), 0) if after_own else (0, _us(unit.wait))
        yield f"{'IA'[unit.sender]} {waits[0]} {waits[1]} {unit.size}"
        before = unit.sender
    for side, wait in enumerate(vector.close):
        if wait is not None:
            yield f"{'IA'[side]} {_us(wait)} 0 0"


def _original_units(vector: ConnectionVector) -> Iterator[str]:
    seen = [False, False]
    for unit in vector.units:
        arrow, which = "><"[unit.sender], unit.sender if vector.concurrent else 0
        if seen[which] or (unit.wait and vector.concurrent):
            yield f"t{arrow if vector.concurrent else ''} {_us(unit.wait)}"
        seen[which] = True
        yield f"{'c' if vector.concurrent else ''}{arrow} {unit.size}"
    for side, wait in enumerate(vector.close):
        if wait is not None and not vector.concurrent and side != vector.units[-1].sender:
            raise ValueError(f"close must be None for the side that did not send last, got {wait:g} s ({SIDES[side]})")
        if wait is not None:
            yield f"t{'><'[side] if vector.concurrent else ''} {_us(wait)}"


# ---- load ------------------------------------------------------------------------------------------------------------


@check_arguments
def offered_load(vectors: Iterable[ConnectionVector], duration: Quantity) -> tuple[float, float]:
    """Return the mean rates [bit/s] that initiators and acceptors offer on an uncongested network (EDN sec. 3).

    Parameters
    ----------
    vectors : iterable of ConnectionVector
    duration : float, s, > 0
        Time over which the connections start.

    Returns
    -------
    forward, backward : float, bit/s
        Mean load from initiators to acceptors, and in the other direction.

    Examples
    --------
    >>> vectors = [ecc.tmix.ConnectionVector(0.5 * k, 0.1, [ecc.tmix.Unit(0, 500)]) for k in range(4)]
    >>> offered_load(vectors, 2.0)
    (8000.0, 0.0)
    """
    over = as_time(duration, "duration", positive=True)
    sizes = [vector.sizes() for vector in vectors]
    return 8.0 * sum(a for a, _ in sizes) / over, 8.0 * sum(b for _, b in sizes) / over


@check_arguments
def thin(vectors: Iterable[ConnectionVector], share: float, seed: int = 1) -> list[ConnectionVector]:
    """Return a random sample of connections, without changing them: the same traffic at a share of the load.

    Implements the scaling of EDN sec. 3: sampling preserves the pattern of each connection and the pattern of arrivals.

    Parameters
    ----------
    vectors : iterable of ConnectionVector
    share : float, in (0, 1]
        Probability with which each connection is kept, for example 0.5 for half the load.
    seed : int, >= 0, optional

    Returns
    -------
    list of ConnectionVector
        The connections that are kept.

    Examples
    --------
    >>> vectors = [ecc.tmix.ConnectionVector(0.5 * k, 0.1, [ecc.tmix.Unit(0, 500)]) for k in range(4)]
    >>> len(thin(vectors, 0.5))
    1
    """
    return list(thinned(vectors, share, seed))


@check_arguments
def thinned(vectors: Iterable[ConnectionVector], share: float, seed: int = 1) -> Iterator[ConnectionVector]:
    """Yield a random sample of connections, one vector at a time; see `thin`.

    Parameters
    ----------
    vectors, share, seed
        See `thin`.

    Returns
    -------
    iterator of ConnectionVector
        The connections that are kept.

    Examples
    --------
    >>> vectors = [ecc.tmix.ConnectionVector(0.5 * k, 0.1, [ecc.tmix.Unit(0, 500)]) for k in range(4)]
    >>> len(list(thinned(vectors, 0.5)))
    1
    """
    chance, rng = _share(share), np.random.default_rng(as_count(seed, "seed"))
    return (vector for vector in vectors if rng.random() < chance)


def _share(share: float) -> float:
    chance = as_number(share, "share", positive=True)
    if chance > 1.0:
        raise ValueError(f"share must be <= 1 (begin with the largest load), got {shown(share)}")
    return chance


@check_arguments
@dataclass(frozen=True)
class Synthetic:
    """Sequential connections drawn from distributions, in place of traces that are not public.

    The traces of EDN fig. 2 are not public, and the paper gives no numbers of the figure. `edn` follows the statements
    of the paper: the majority of connections are small and a few long ones carry much of the load; the median RTT is
    about 100 ms; the loads are 80 Mb/s (then 85, 90, 95) in one direction and 19 Mb/s in the other. All other
    properties are assumptions of this class.

    Parameters
    ----------
    rate : float
        Connections per second, > 0, in a Poisson process.
    request_median, response_median : int, bytes
        Medians of the sizes of requests and responses.
    request_spread, response_spread : float, >= 0
        Standard deviation of the logarithm of the lognormal sizes.
    exchanges : float, >= 1
        Mean number of exchanges of a connection; the distribution is geometric.
    rtt_median : float, s
        Median of the lognormal RTTs.
    rtt_spread : float, >= 0
        Standard deviation of the logarithm of RTTs.
    server_time, think_time : float, s, >= 0
        Means of the exponential waits before responses, and before requests after the first.
    exact : bool
        True: starts are scaled so that the load of acceptors in the sample is exactly the expected one.

    Raises
    ------
    ValueError, TypeError
        A value out of range.

    Examples
    --------
    >>> [round(load / 1e6, 2) for load in Synthetic.edn("80 Mb/s").loads]
    [19.0, 80.0]
    """

    rate: float
    request_median: SizeField = default(500)
    request_spread: float = 1.5
    response_median: SizeField = default(2000)
    response_spread: float = 2.0
    exchanges: float = 3.0
    rtt_median: QuantityField = default(0.1)
    rtt_spread: float = 0.8
    server_time: QuantityField = default(0.01)
    think_time: QuantityField = default(1.0)
    exact: bool = False

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        put("rate", as_number(self.rate, "rate", positive=True))
        put("exchanges", as_number(self.exchanges, "exchanges", minimum=1.0))
        put("rtt_median", as_delay(self.rtt_median, "rtt_median", positive=True))
        for name in ("request_median", "response_median"):
            put(name, as_size(getattr(self, name), name))
        for name in ("request_spread", "response_spread", "rtt_spread"):
            put(name, as_number(getattr(self, name), name, minimum=0.0))
        for name in ("server_time", "think_time"):
            put(name, as_time(getattr(self, name), name))

    @classmethod
    def edn(cls, load: Quantity = "80 Mb/s", requests: Quantity | None = None) -> Synthetic:
        """Return connections with a given load of acceptors, and by default 19/80 of it from initiators (EDN sec. 3).

        Parameters
        ----------
        load : float, bit/s, optional
            Load of responses.
        requests : float, bit/s, or None
            Load of requests. None: load * 19 / 80.
        """
        plain = cls(1.0)
        responses = as_rate(load, "load")
        wanted = responses * 19.0 / 80.0 if requests is None else as_rate(requests, "requests")
        up, down = plain.loads
        rate = responses / down
        # same spreads; the median is scaled to the load of requests
        return cls(rate, request_median=max(1, round(float(plain.request_median or 0) * wanted / (up * rate))))

    @property
    def loads(self) -> tuple[float, float]:
        """Mean rates [bit/s] that initiators and acceptors offer."""
        pairs = ((self.request_median, self.request_spread), (self.response_median, self.response_spread))
        up, down = (
            8.0 * self.rate * self.exchanges * float(median or 0) * float(np.exp(spread**2 / 2.0))
            for median, spread in pairs
        )
        return up, down

    def vectors(self, seed: int | np.random.Generator, duration: Quantity) -> list[ConnectionVector]:
        """Return the connections that start before a time, in the order of their starts.

        Parameters
        ----------
        seed : int or random.Generator
            Seed, or a NumPy generator.
        duration : float, s
        """
        end = as_time(duration, "duration")
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(as_count(seed, "seed"))
        if self.exact:
            drawn = replace(self, exact=False).vectors(rng, 1.25 * end)
            share = offered_load(drawn, 1.25 * end)[1] / self.loads[1]
            moved = [replace(vector, start=share * float(vector.start or 0.0)) for vector in drawn]
            return [vector for vector in moved if float(vector.start or 0.0) < end]
        starts = np.sort(rng.uniform(0.0, end, rng.poisson(self.rate * end)))
        rtts = float(self.rtt_median or 0) * np.exp(self.rtt_spread * rng.standard_normal(len(starts)))
        counts = rng.geometric(1.0 / self.exchanges, len(starts))
        n = int(counts.sum())
        sizes = [
            np.maximum(1, np.rint(float(median or 0) * np.exp(spread * rng.standard_normal(n)))).astype(int).tolist()
            for median, spread in (
                (self.request_median, self.request_spread),
                (self.response_median, self.response_spread),
            )
        ]
        waits = [(float(mean or 0) * rng.exponential(size=n)).tolist() for mean in (self.think_time, self.server_time)]
        out, at = [], 0
        for k, (start, rtt, count) in enumerate(zip(starts.tolist(), rtts.tolist(), counts.tolist(), strict=True)):
            units = []
            for i in range(at, at + count):
                units.append(Unit(INITIATOR, sizes[0][i], waits[0][i] if i > at else 0.0))
                units.append(Unit(ACCEPTOR, sizes[1][i], waits[1][i]))
            at += count
            out.append(ConnectionVector(start, rtt, units, identifiers=(0, k)))
        return out


# ---- response times --------------------------------------------------------------------------------------------------


@check_arguments
def response_times(flows: Any, by: str = "connection") -> Any:
    """Return the time that each connection, or each exchange, took to transfer its data.

    Implements EDN sec. 3: the response time is the duration of a connection (from its first byte sent to its last one
    acknowledged) minus the waits of its applications; for a concurrent connection, that of the slower side. For an
    exchange it is the time from the start of a request to the end of its response.

    Parameters
    ----------
    flows : DataFrame
        `Trajectory.flows` of a run with connection vectors.
    by : str, optional
        "connection" or "exchange".

    Returns
    -------
    DataFrame
        Indexed by connection (and exchange, from 0): start, finish [s], size [bytes], response_time [s]; nan if it has
        not ended. Exchanges are those of sequential connections.

    Raises
    ------
    ValueError
        An unknown `by`, or rows without connections.

    Examples
    --------
    >>> vector = ecc.tmix.ConnectionVector(0.0, 0.1, [ecc.tmix.Unit(0, 500), ecc.tmix.Unit(1, 5000)])
    >>> work = ecc.Workload(tmix=[ecc.Tmix([vector], [0], [0])])
    >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=["50 ms"])
    >>> run = ecc.simulate(ecc.Scenario(net, ecc.models.NewReno(), 5.0, work))
    >>> len(response_times(run.flows))
    1
    """
    if by not in ("connection", "exchange"):
        raise ValueError(f"by must be 'connection' or 'exchange', got {shown(by)}")
    if "connection" not in getattr(flows, "columns", ()):
        raise ValueError("flows must be those of a run with connection vectors, got none with a connection")
    rows = flows[flows["connection"] >= 0].sort_values(["connection", "unit"], kind="stable").copy()
    begins = rows["wait"] < 0
    rows["ends"] = rows["finish"].where(rows["completion_time"].notna())
    if by == "exchange":
        rows = rows[begins.groupby(rows["connection"]).transform("sum") == 1]
        is_request = rows["sender"] == INITIATOR
        new = is_request & ~is_request.groupby(rows["connection"]).shift(1, fill_value=False)
        rows["exchange"] = new.groupby(rows["connection"]).cumsum().clip(lower=1) - 1
        rows["responded"] = rows["ends"].where(rows["sender"] == ACCEPTOR)
        table = rows.groupby(["connection", "exchange"]).agg(
            start=("start", "first"), finish=("responded", "last"), size=("size", "sum")
        )
        return table.assign(response_time=table["finish"] - table["start"])
    rows["side"] = rows["sender"].where(begins.groupby(rows["connection"]).transform("sum") > 1, INITIATOR)
    rows["thought"] = rows["wait"].clip(lower=0.0)
    rows["ended"] = rows["ends"].where(rows["last"] == 1)
    sides = rows.groupby(["connection", "side"]).agg(
        start=("start", "first"), finish=("ended", "max"), size=("size", "sum"), thought=("thought", "sum")
    )
    sides["response_time"] = sides["finish"] - sides["start"] - sides["thought"]
    connections = sides.groupby("connection")
    table = connections.agg({"start": "min", "finish": "max", "size": "sum", "response_time": "max"})
    unended = sides["finish"].isna().groupby("connection").any()
    table.loc[unended, ["finish", "response_time"]] = float("nan")
    return table
