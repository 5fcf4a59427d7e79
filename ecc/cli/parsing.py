"""Conversion of the texts of options to values: numbers, spans, protocols, networks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ecc.models import Protocol
    from ecc.network.network import Network

__all__ = [
    "MAX_POINTS",
    "dumbbell_or_chain",
    "indices_of",
    "metric_of",
    "number_or_text",
    "pair_of",
    "pair_with_settings",
    "protocol_of",
    "quantity_or_none",
    "settings_of",
    "span_of",
    "split_values",
]

MAX_POINTS = 1_000_000
"""Maximum number of runs of a sweep, and of the values of an axis."""


def pair_of(host: str, discipline: str, settings: Sequence[str]) -> dict[str, Protocol]:
    """Hosts over a queue discipline, with flows.NAME=VALUE and links.NAME=VALUE set."""
    halves: dict[str, list[str]] = {"flows": [], "links": []}
    for setting in settings:
        half, dot, rest = setting.partition(".")
        if not dot or half not in halves:
            raise ValueError(f"--set must be flows.NAME=VALUE or links.NAME=VALUE with --links, got {setting!r}")
        halves[half].append(rest)
    return {half: protocol_of(name, halves[half]) for half, name in (("flows", host), ("links", discipline))}


def split_values(text: str) -> list[str]:
    """The parts of a text that commas separate, except commas in braces, brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "{[") - (character in "}]")
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def number_or_text(text: str) -> float | str:
    """A number where the text is one; otherwise the text, which may have a unit."""
    try:
        return float(text)
    except ValueError:
        return text


def quantity_or_none(text: str | None) -> float | str | None:
    return None if text is None else number_or_text(text)


def metric_of(text: str) -> tuple[str, dict[str, Any]]:
    """A metric and its own arguments from NAME[:INDICES][:ARGUMENT=VALUE]..., for example fairness:1-10.

    INDICES are those of flows, or of the flow or link of a metric that takes one. Another example is
    p99_slowdown:sizes=0:100kB.
    """
    from ecc.results.metrics import OF_SWEEPS, get, lacking, parameters_of

    start, *settings = re.split(r":(?=[a-z_]+=)", text)
    name, _, indices = start.partition(":")
    metric = get(name)
    parameters = parameters_of(metric)
    if indices:
        place = next((key for key in ("flows", "flow", "link") if key in parameters), None)
        if place is None:
            raise ValueError(f"metric {name} takes no flow or link, got {text!r}")
        settings.insert(0, f"{place}={indices}")
    arguments: dict[str, Any] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in parameters or key in arguments:
            allowed = f"takes each of {', '.join(parameters)} once" if parameters else "takes no arguments"
            raise ValueError(f"metric {name} {allowed}, got {key} in {text!r}")
        arguments[key] = _READERS.get(key, _number)(value.strip(), key)
    if lacks := lacking(metric, {*OF_SWEEPS, *arguments}):
        example = ":".join([name, *(f"{key}=VALUE" for key in lacks)])
        raise ValueError(f"metric must have its arguments, as {example}, got {text!r}, which takes {', '.join(lacks)}")
    return name, arguments


def _index(text: str, field: str) -> int:
    if not text.isdecimal() or int(text) >= MAX_POINTS:
        raise ValueError(f"{field} must be a whole number from 0 to {MAX_POINTS - 1:,}, got {text!r}")
    return int(text)


def _samples(text: str, field: str) -> int:
    number = _index(text, field)
    if number < 1:
        raise ValueError(f"{field} must be a number of samples >= 1, got {text!r}")
    return number


def _size(text: str, field: str) -> float:
    from ecc._support.quantity import as_size

    value = number_or_text(text)
    return 0 if value == 0.0 else as_size(value, field)


def _sizes(text: str, field: str) -> tuple[float, float]:
    smallest, colon, above = text.partition(":")
    if not colon:
        raise ValueError(f"{field} must be SMALLEST:ABOVE, as 0:100kB, got {text!r}")
    ends = _size(smallest.strip(), field), _size(above.strip(), field)
    if not ends[0] < ends[1]:
        raise ValueError(f"{field} must have SMALLEST < ABOVE, got {text!r}")
    return ends


def _time(text: str, field: str) -> float:
    from ecc._support.quantity import as_time

    return as_time(number_or_text(text), field)


def _rate(text: str, field: str) -> float:
    from ecc._support.quantity import as_rate

    return as_rate(number_or_text(text), field)


def _number(text: str, field: str) -> float:
    number = number_or_text(text)
    if not isinstance(number, float) or not 0.0 <= number < inf:
        raise ValueError(f"{field} must be a finite number >= 0, got {text!r}")
    return number


def _share(text: str, field: str) -> float:
    share = _number(text, field)
    if share > 1.0:
        raise ValueError(f"{field} must be from 0 to 1, got {text!r}")
    return share


_READERS: dict[str, Callable[[str, str], Any]] = {
    **dict.fromkeys(("flow", "link", "of"), _index),
    "flows": lambda text, _: indices_of(text),
    "between": lambda text, _: span_of(text),
    "sizes": _sizes,
    "over": _samples,
    **dict.fromkeys(("after", "until"), _time),
    **dict.fromkeys(("below", "larger"), _size),
    "target": _rate,
    "quantile": _share,
}
"""Arguments of metrics -> the function that reads their texts; others are numbers >= 0."""


def span_of(text: str) -> tuple[float, float]:
    """BEGIN:END as two times in s."""
    from ecc._support.quantity import as_time

    parts = text.split(":")
    if len(parts) != 2:
        raise ValueError(f"between must be BEGIN:END, as 10:30 (seconds) or 5ms:20ms, got {text!r}")
    begin, end = (as_time(number_or_text(part.strip()), "between") for part in parts)
    if not begin < end:
        raise ValueError(f"between must have BEGIN < END, got {text!r}")
    return begin, end


def indices_of(text: str) -> list[int]:
    """Indices and ranges of them, separated by commas."""
    indices: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash) and int(first) <= int(last or first) < MAX_POINTS):
            raise ValueError(f"flows must be indices, as 0,2,5-9, got {text!r}")
        indices += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(indices))


def protocol_of(name: str, settings: Sequence[str], option: str = "--set") -> Protocol:
    """A protocol by its name, and NAME=VALUE of an option."""
    from ecc.network.network import from_table
    from ecc.scenario import protocol_class

    kind = protocol_class(name)
    made: Protocol = from_table(kind, settings_of(kind, settings, option), option)
    return made


def pair_with_settings(protocol: Any, settings: Sequence[str]) -> Any:
    """Hosts and queue disciplines with flows.NAME=VALUE, links.NAME=VALUE set."""
    from ecc._support.arguments import unknown_key
    from ecc.contract.assignment import parameter_names, with_parameter

    for setting in settings:
        key, sign, text = setting.partition("=")
        if not sign or not key:
            raise ValueError(f"--set must be NAME=VALUE, got {setting!r}")
        if key not in parameter_names(protocol):
            raise ValueError(unknown_key("--set", key, parameter_names(protocol)))
        protocol = with_parameter(protocol, key, number_or_text(text))
    return protocol


def settings_of(kind: type[Protocol], settings: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """NAME=VALUE of an option as constructor arguments."""
    from dataclasses import fields

    from ecc._support.arguments import unknown_key

    words: dict[str, Any] = {"true": True, "false": False, "none": None}
    types = {field.name: field.type for field in fields(kind) if field.init}
    values: dict[str, Any] = {}
    for setting in settings:
        key, sign, text = setting.partition("=")
        if not sign or not key:
            raise ValueError(f"{option} must be NAME=VALUE, got {setting!r}")
        if key not in types:
            raise ValueError(unknown_key(option, key, list(types)))
        if str(types[key]).startswith("tuple[int"):
            values[key] = tuple(number_or_text(part) for part in split_values(text))
            continue
        is_word = text.lower() in words and not _is_text(types[key], text)
        values[key] = words[text.lower()] if is_word else number_or_text(text)
    return values


def _is_text(kind: Any, text: str) -> bool:
    """Whether a parameter with this annotation takes the text itself, such as `restart`, whose choices have "none"."""
    return kind in (str, "str") or repr(text) in str(kind).replace('"', "'")


def dumbbell_or_chain(rtts: Sequence[str], capacities: Sequence[str], buffer: str | None = None) -> Network:
    from ecc.network.network import Network

    times, rates = [number_or_text(rtt) for rtt in rtts], [number_or_text(capacity) for capacity in capacities]
    size = None if buffer is None else number_or_text(buffer)
    if len(rates) == 1:
        return Network.dumbbell(rates[0], rtts=times, buffer=size)
    return Network.parking_lot(rates, rtts=times * (len(rates) + 1) if len(times) == 1 else times, buffer=size)
