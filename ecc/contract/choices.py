"""The values that declarations of a protocol can have."""

from __future__ import annotations

__all__ = [
    "ARRAY_TYPES",
    "ECN_ECHOES",
    "JUMPS",
    "LOST_RETRANSMISSIONS",
    "NUMBER_TYPES",
    "N_TIMERS",
    "PHASE_JITTERS",
    "PRR_USES",
    "SCHEDULERS",
    "SOURCE_CLOCKS",
    "STATE_CLOCKS",
    "TRANSPORTS",
]


SOURCE_CLOCKS = ("interval", "ack", "rtt", "always", "continuous")
TRANSPORTS = (None, "newreno", "sack", "rack", "quic")
LOST_RETRANSMISSIONS = ("reduce", "linux")
PRR_USES = (False, True, "marks")
SCHEDULERS = ("priority", "drr", "fq", "select")
ECN_ECHOES = (None, "classic", "accurate", "scalable")
N_TIMERS = (1, 2, 3, 4)
PHASE_JITTERS = (None, "line rate", "always")
STATE_CLOCKS = ("interval", "rtt", "arrival", "continuous", "update")
JUMPS = ("loss", "mark")

NUMBER_TYPES = (float, int, "float", "int")
"""Types of fields that are numbers, as types or as text."""

ARRAY_TYPES = (tuple[float, ...], "tuple[float, ...]")
"""Types of fields that are arrays of numbers, as types or as text."""
