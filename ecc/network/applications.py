"""Applications that write data over time: what a flow has to send, drawn from a seed.

An application is a value of `Flow.writes`. It yields the times and sizes of writes, so that packet runs, live runs and
other programs get the same data. Requests that wait for responses are connection vectors (`ecc.tmix`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, nearest, shown
from ecc._support.quantity import (
    OptionalQuantityField,
    OptionalSizeField,
    QuantityField,
    SizeField,
    as_choice,
    as_count,
    as_number,
    as_rate,
    as_size,
    as_time,
    default,
    required,
)

__all__ = ["Application", "Bulk", "Bursts", "Media", "Responses"]

Writes: TypeAlias = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Times after the start of the flow [s], in order, and sizes [bytes]."""
NO_END = 2**62
"""Bytes of a write without end."""
MAX_WRITES = 10_000_000
DISTRIBUTIONS = ("exponential", "pareto", "fixed")


@dataclass(frozen=True)
class Application:
    """Base class of applications. It writes nothing; a subclass redefines `writes`."""

    def writes(self, duration: float, seed: Any) -> Writes:
        """Return times [s] and sizes [bytes] of the writes before `duration` [s].

        Parameters
        ----------
        duration : float, s
        seed : int or sequence of int
            Seed of the draws.
        """
        return np.zeros(0), np.zeros(0, np.int64)


@check_arguments
@dataclass(frozen=True)
class Bulk(Application):
    """A rate-limited phase, and then a bulk of data.

    Parameters
    ----------
    rate : float, bit/s, > 0
        Rate of the first phase.
    until : float, s, > 0
        End of the first phase, after the start of the flow.
    size : int, bytes, > 0, or None
        Size of the bulk. None: without end.
    period : float, s, > 0
        Time between two writes of the first phase, for example "10 ms".

    Raises
    ------
    ValueError, TypeError
        A value out of range.

    Examples
    --------
    >>> times, sizes = Bulk("1 Mb/s", until="20 ms", size="1 MB").writes(1.0, seed=0)
    >>> times.tolist(), sizes.tolist()
    ([0.0, 0.01, 0.02], [1250, 1250, 1000000])
    """

    rate: QuantityField = required()
    until: QuantityField = required()
    size: OptionalSizeField = default(None)
    period: QuantityField = default(0.01)

    def __post_init__(self) -> None:
        _put(self, rate=as_rate(self.rate, "rate"), until=as_time(self.until, "until", positive=True))
        _put(self, period=as_time(self.period, "period", positive=True))
        if self.size is not None:
            _put(self, size=as_size(self.size, "size"))

    def writes(self, duration: float, seed: Any) -> Writes:
        period, until = as_time(self.period, "period"), as_time(self.until, "until")
        times = _multiples(period, min(until, duration))
        sizes = _whole(times, as_rate(self.rate, "rate") * period / 8.0)
        if until < duration:
            bulk = NO_END if self.size is None else as_size(self.size, "size")
            times, sizes = np.append(times, until), np.append(sizes, bulk)
        return times, sizes


@check_arguments
@dataclass(frozen=True)
class Bursts(Application):
    """Bursts at a rate, with idle periods between them.

    Parameters
    ----------
    rate : float, bit/s, > 0
        Rate in a burst.
    mean_on, mean_off : float, s, > 0
        Mean lengths of bursts and of idle periods. The first burst begins at the start of the flow.
    distribution : str
        Distribution of both lengths: "exponential", "pareto" (shape 1.5) or "fixed".
    period : float, s, > 0
        Time between two writes of a burst.

    Raises
    ------
    ValueError, TypeError
        A value out of range.

    Examples
    --------
    >>> bursts = Bursts("8 Mb/s", mean_on="20 ms", mean_off="80 ms", distribution="fixed")
    >>> bursts.writes(0.15, seed=0)[0].round(2).tolist()
    [0.0, 0.01, 0.1, 0.11]
    """

    rate: QuantityField = required()
    mean_on: QuantityField = required()
    mean_off: QuantityField = required()
    distribution: str = "exponential"
    period: QuantityField = default(0.01)

    def __post_init__(self) -> None:
        as_choice(self.distribution, "distribution", DISTRIBUTIONS)
        _put(self, rate=as_rate(self.rate, "rate"))
        for name in ("mean_on", "mean_off", "period"):
            _put(self, **{name: as_time(getattr(self, name), name, positive=True)})

    def writes(self, duration: float, seed: Any) -> Writes:
        random = _generator(seed)
        period, bits = as_time(self.period, "period"), as_rate(self.rate, "rate")
        on, off = as_time(self.mean_on, "mean_on"), as_time(self.mean_off, "mean_off")
        times = [np.zeros(0)]
        sizes = [np.zeros(0, np.int64)]
        begin, count = 0.0, 0
        while begin < duration:
            length = float(_drawn(random, self.distribution, on, 1)[0])
            at = _multiples(period, length)
            volumes = np.minimum(period, length - at) * bits / 8.0
            times.append(begin + at)
            sizes.append(np.maximum(np.rint(volumes), 1.0).astype(np.int64))
            count += len(at)
            _check_count(count)
            begin += length + float(_drawn(random, self.distribution, off, 1)[0])
        return _before(duration, np.concatenate(times), np.concatenate(sizes))


@check_arguments
@dataclass(frozen=True)
class Responses(Application):
    """Responses of drawn sizes on one connection, to requests that arrive at drawn times.

    Parameters
    ----------
    mean_size : int, bytes, > 0
        Mean size of a response.
    mean_interval : float, s, > 0
        Mean time between two requests. The first arrives at the start of the flow.
    distribution : str
        Distribution of sizes: "exponential", "pareto" (shape 1.5) or "fixed".
    intervals : str
        Distribution of the times between requests: "exponential" (a Poisson process), "pareto" or "fixed".

    Raises
    ------
    ValueError, TypeError
        A value out of range.

    Notes
    -----
    A request does not wait for the response before it. Requests that do are connection vectors (`ecc.Tmix`).

    Examples
    --------
    >>> pages = Responses("30 kB", "1 s", distribution="fixed", intervals="fixed")
    >>> pages.writes(2.5, seed=0)[0].tolist()
    [0.0, 1.0, 2.0]
    """

    mean_size: SizeField = required()
    mean_interval: QuantityField = required()
    distribution: str = "exponential"
    intervals: str = "exponential"

    def __post_init__(self) -> None:
        as_choice(self.distribution, "distribution", DISTRIBUTIONS)
        as_choice(self.intervals, "intervals", DISTRIBUTIONS)
        _put(self, mean_size=as_size(self.mean_size, "mean_size"))
        _put(self, mean_interval=as_time(self.mean_interval, "mean_interval", positive=True))

    def writes(self, duration: float, seed: Any) -> Writes:
        random = _generator(seed)
        mean = as_time(self.mean_interval, "mean_interval")
        times = np.zeros(1)
        while times[-1] < duration:
            block = _drawn(random, self.intervals, mean, 1 + int((duration - times[-1]) / mean))
            times = np.concatenate([times, times[-1] + np.cumsum(block)])
            _check_count(len(times))
        sizes = _drawn(random, self.distribution, float(as_size(self.mean_size, "mean_size")), len(times))
        return _before(duration, times, np.maximum(np.rint(sizes), 1.0).astype(np.int64))


@check_arguments
@dataclass(frozen=True)
class Media(Application):
    """Frames of an encoder at a target rate, with key frames and noise.

    Parameters
    ----------
    rate : float, bit/s, > 0
        Target rate: the mean over a group of frames from one key frame to the next.
    frames : float, 1/s, > 0
        Frames per second.
    key_every : int, frames, >= 0
        Distance of key frames, for example 300; the first frame is one. 0: no key frames.
    key_factor : float, >= 1
        Size of a key frame over that of other frames.
    noise : float, >= 0, < 1
        Standard deviation of the size of a frame, relative to its mean; normal, but not below a byte.
    stop : float, s, > 0, or None
        End of the frames, after the start of the flow. None: none.

    Raises
    ------
    ValueError, TypeError
        A value out of range.

    Examples
    --------
    >>> Media("2.4 Mb/s", frames=30, key_every=3, key_factor=4).writes(0.1, seed=0)[1].tolist()
    [20000, 5000, 5000]
    """

    rate: QuantityField = required()
    frames: float = 30.0
    key_every: int = 0
    key_factor: float = 1.0
    noise: float = 0.0
    stop: OptionalQuantityField = default(None)

    def __post_init__(self) -> None:
        _put(self, rate=as_rate(self.rate, "rate"), frames=as_number(self.frames, "frames", positive=True))
        _put(self, key_every=as_count(self.key_every, "key_every"))
        _put(self, key_factor=as_number(self.key_factor, "key_factor", minimum=1.0))
        _put(self, noise=as_number(self.noise, "noise", minimum=0.0))
        if not self.noise < 1.0:
            raise ValueError(f"noise must be < 1, got {shown(self.noise)}")
        if self.stop is not None:
            _put(self, stop=as_time(self.stop, "stop", positive=True))

    def writes(self, duration: float, seed: Any) -> Writes:
        end = duration if self.stop is None else min(duration, as_time(self.stop, "stop"))
        times = _multiples(1.0 / self.frames, end)
        sizes = np.full(len(times), as_rate(self.rate, "rate") / (8.0 * self.frames))
        if self.key_every > 0:
            sizes *= frame_share(self.key_every, self.key_factor)
            sizes[:: self.key_every] *= self.key_factor
        if self.noise > 0.0:
            sizes *= 1.0 + self.noise * _generator(seed).standard_normal(len(times))
        return times, np.maximum(np.rint(sizes), 1.0).astype(np.int64)


def frame_share(key_every: float, key_factor: float) -> float:
    """Return the size of a frame that is not a key frame, relative to the mean of a group from one key frame on.

    Parameters
    ----------
    key_every : float, frames, > 0
    key_factor : float
        Size of a key frame over that of other frames.
    """
    return key_every / (key_every - 1.0 + key_factor)


KINDS: Mapping[str, type[Application]] = {kind.__name__: kind for kind in (Bulk, Bursts, Media, Responses)}


def application_from_table(table: Mapping[str, Any], name: str) -> Application:
    """Return the application that a table describes: its class under "name", and its parameters.

    Parameters
    ----------
    table : mapping
        For example {"name": "Media", "rate": "5 Mb/s"}.
    name : str
        Name of the field in a message.
    """
    values = dict(table)
    chosen = values.pop("name", None)
    if not isinstance(chosen, str) or chosen not in KINDS:
        raise ValueError(
            f"{name} must have a name, one of {', '.join(KINDS)}, got {shown(chosen)}"
            f"{nearest(chosen, dict.fromkeys(KINDS, ''))}"
        )
    return KINDS[chosen](**values)


def _put(application: Application, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(application, name, value)


def _multiples(period: float, end: float) -> NDArray[np.float64]:
    """Return 0, period, 2 period, ... below an end."""
    _check_count(end / period)
    times = np.arange(np.ceil(end / period) + 1.0, dtype=np.float64) * period
    below: NDArray[np.float64] = times[times < end * (1.0 - 1e-12)]
    return below


def _whole(times: NDArray[np.float64], size: float) -> NDArray[np.int64]:
    """Return whole sizes for equal writes: their sums are rounded, so that the rate is exact."""
    totals = np.rint(size * np.arange(len(times) + 1.0)).astype(np.int64)
    return np.maximum(np.diff(totals), 1)


def _generator(seed: Any) -> np.random.Generator:
    message = f"seed must be an integer >= 0 or a sequence of these, got {shown(seed)}"
    if seed is None:  # a seed that differs in each process
        raise TypeError(message)
    try:
        return np.random.default_rng(np.random.SeedSequence(seed))
    except (TypeError, ValueError) as error:
        raise type(error)(message) from None


def _drawn(random: np.random.Generator, distribution: str, mean: float, n: int) -> NDArray[np.float64]:
    if distribution == "fixed":
        return np.full(n, mean)
    if distribution == "exponential":
        return random.exponential(mean, n)
    return mean / 3.0 * (1.0 + random.pareto(1.5, n))  # the mean of Pareto's law with shape 1.5 is 3 minima


def _before(duration: float, times: NDArray[np.float64], sizes: NDArray[np.int64]) -> Writes:
    is_before = times < duration
    return times[is_before], sizes[is_before]


def _check_count(count: float) -> None:
    if count > MAX_WRITES:
        raise ValueError(f"writes must be at most {MAX_WRITES} in a run, got {count:.3g}")
