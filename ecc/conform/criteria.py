"""The criteria of RFC 9743 (BCP 133) in its order, each with the cases that examine it."""

from __future__ import annotations

from ecc.claims.report.output import Criterion

__all__ = ["INTRODUCTION", "RFC9743"]

INTRODUCTION = (
    "RFC 9743 (BCP 133) lists the criteria by which the IETF evaluates a new congestion controller. It has no numbers; "
    "the limits are ours, and each measurement names its limit. The table follows the sections of the RFC. Criteria "
    "without a case need an answer by the authors. Confirmed: all numbers are in their bands. Refuted: they are not. "
    "The RFC does not exclude a controller because of one criterion; it asks for the reasons."
)
RFC9743 = (
    Criterion("5.1.1", "Protection against congestion collapse", ("rfc9743-collapse",)),
    Criterion("5.1.2", "Protection against bufferbloat", ("rfc9743-bufferbloat",)),
    Criterion("5.1.3", "Protection against high packet loss", ("rfc9743-loss",)),
    Criterion("5.1.4", "Fairness within the controller", ("rfc9743-fairness", "rfc9743-rtt")),
    Criterion("5.1.5", "Short flows", ("rfc9743-short",)),
    Criterion(
        "5.2.1",
        "Existing general-purpose congestion control",
        ("rfc9743-cubic", "rfc9743-reno", "rfc9743-bbr"),
    ),
    Criterion("5.2.2", "Real-time congestion control", ("rfc9743-realtime",)),
    Criterion("5.2.3", "Short and long flows", ("rfc9743-short-cubic",)),
    Criterion("5.3.1", "Differences with congestion control principles", text="Explain deviations from RFC 2914."),
    Criterion("5.3.2", "Incremental deployment", text="State where it may be used, and how this is enforced."),
    Criterion("6, 6.1, 6.3", "Tail-drop queues and wired paths", ("rfc9743-range",)),
    Criterion("6.2", "Tunnel behavior", text="To answer if it relies on signals of the path."),
    Criterion("6.4", "Wireless paths", ("rfc9743-wireless",)),
    Criterion("7.1", "Active queue management", ("rfc9743-aqm",)),
    Criterion("7.2", "Circuit breakers", text="Operators set their limits; see the losses of 5.1.1 and 5.1.3."),
    Criterion("7.3", "Varying delay", ("rfc9743-delay",)),
    Criterion("7.4", "Internet of Things and constrained nodes", ("rfc9743-slow",)),
    Criterion("7.5", "High delay", ("rfc9743-high-delay",)),
    Criterion("7.6", "Misbehaving nodes", text="To answer; receivers and routers of the cases comply."),
    Criterion("7.7", "Extreme packet reordering", ("rfc9743-reordering",)),
    Criterion("7.8", "Transient events", ("rfc9743-outage",)),
    Criterion("7.9", "Sudden changes in the path", ("rfc9743-change",)),
    Criterion("7.10", "Multipath transport", text="No case has more than one path."),
    Criterion("7.11", "Data centers", text="To answer if it is meant for data centers."),
)
"""Sections 5 to 7 of the RFC."""
