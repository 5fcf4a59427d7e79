"""Conversion of the texts of options to values: numbers, spans, protocols, networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ecc.models import Protocol
    from ecc.network.network import Network

__all__ = [
    "MAX_POINTS",
    "dumbbell_or_chain",
    "indices_of",
    "linear_protocol",
    "number_or_text",
    "pair_of",
    "pair_with_settings",
    "protocol_of",
    "quantity_or_none",
    "settings_of",
    "span_of",
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


def number_or_text(text: str) -> float | str:
    """A number where the text is one; otherwise the text, which may have a unit."""
    try:
        return float(text)
    except ValueError:
        return text


def quantity_or_none(text: str | None) -> float | str | None:
    return None if text is None else number_or_text(text)


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


def linear_protocol(name: str, settings: Sequence[str]) -> Protocol:
    """A protocol that has linear models."""
    from ecc.scenario import protocol_class
    from ecc.stability.analysis import refusal

    kind = protocol_class(name)
    if isinstance(kind.linear_refusal, str):  # for any parameters
        raise ValueError(refusal(kind))
    return protocol_of(name, settings)


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
    names = [field.name for field in fields(kind) if field.init]
    values: dict[str, Any] = {}
    for setting in settings:
        key, sign, text = setting.partition("=")
        if not sign or not key:
            raise ValueError(f"{option} must be NAME=VALUE, got {setting!r}")
        if key not in names:
            raise ValueError(unknown_key(option, key, names))
        values[key] = words[text.lower()] if text.lower() in words else number_or_text(text)
    return values


def dumbbell_or_chain(rtts: Sequence[str], capacities: Sequence[str]) -> Network:
    from ecc.network.network import Network

    times, rates = [number_or_text(rtt) for rtt in rtts], [number_or_text(capacity) for capacity in capacities]
    if len(rates) == 1:
        return Network.dumbbell(rates[0], rtts=times)
    return Network.parking_lot(rates, rtts=times * (len(rates) + 1) if len(times) == 1 else times)
