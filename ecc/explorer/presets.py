"""Views with names: findings of the project and the subjects of the lectures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ecc.explorer.view import View

__all__ = ["PRESETS", "Preset"]


@dataclass(frozen=True)
class Preset:
    """One or two views next to each other, and their panels."""

    views: Callable[[], tuple[View, ...]]
    panels: tuple[str, ...]


def _long_rtt() -> tuple[View, ...]:
    return (View("XCP", capacity=100e6, rtts=(0.05, 0.05, 0.05, 0.5), flows=4, duration=100.0),)


def _bbr_and_cubic() -> tuple[View, ...]:
    return (View("BBR", "CUBIC", capacity=50e6, rtts=(0.04,), flows=2, buffer=500_000, duration=1000.0),)


def _dual_queue() -> tuple[View, ...]:
    network: dict[str, Any] = {"capacity": 40e6, "rtts": (0.1,), "flows": 4, "packet_size": 1500, "duration": 300.0}
    return (View("Prague", "CUBIC", "DualPI2", marks=True, **network),)


def _windows_and_buffers() -> tuple[View, ...]:
    network: dict[str, Any] = {"capacity": 10e6, "rtts": (0.1,), "flows": 1, "duration": 600.0}
    return View("NewReno", buffer=125_000, **network), View("NewReno", buffer=25_000, **network)


def _delay_and_stability() -> tuple[View, ...]:
    return (View("PIQIRCP", capacity=100e6, rtts=(0.1, 0.3), flows=2, time="hybrid", duration=60.0),)


def _different_rtts() -> tuple[View, ...]:
    network: dict[str, Any] = {"capacity": 50e6, "rtts": (0.02, 0.1), "flows": 2, "duration": 300.0}
    return View("NewReno", "", "PI2", **network), View("CUBIC", "", "PI2", **network)


def _queue_management() -> tuple[View, ...]:
    network: dict[str, Any] = {"capacity": 100e6, "rtts": (0.1,), "flows": 4, "packet_size": 1500, "duration": 200.0}
    return View("CUBIC", "", "PI2", **network), View("CUBIC", "", "PIE", **network)


def _fairness() -> tuple[View, ...]:
    return (View("XCP", capacity=100e6, rtts=(0.04, 0.04, 0.2), flows=3, duration=100.0),)


def _data_centers() -> tuple[View, ...]:
    network: dict[str, Any] = {"capacity": 10e9, "rtts": (1e-4,), "flows": 10, "packet_size": 1500, "duration": 200.0}
    marking = {"links.min_threshold": 40.0, "links.max_threshold": 80.0}
    return (
        View("DCTCP", "", "RampMarking", parameters=marking, **network),
        View("DCTCP", "", "StepMarking", parameters={"links.threshold": 40.0}, **network),
    )


_LINEAR = ("verdict", "limit", "nyquist", "rates", "queue")
PRESETS = MappingProxyType(
    {
        "XCP with one long RTT": Preset(_long_rtt, ("verdict", "limit", "nyquist", "roots", "rates", "queue")),
        "BBR beside CUBIC": Preset(_bbr_and_cubic, ("diagram", "flows", "queue", "fairness")),
        "DualPI2 at 100 ms": Preset(_dual_queue, ("diagram", "flows", "queue", "fairness")),
        "Lecture 1: windows and buffers": Preset(_windows_and_buffers, ("diagram", "rates", "queue")),
        "Lecture 2: delay and stability": Preset(_delay_and_stability, (*_LINEAR, "roots", "map")),
        "Lecture 3: different RTTs": Preset(_different_rtts, ("rates", "queue", "flows", "fairness")),
        "Lecture 4: queue management": Preset(_queue_management, _LINEAR),
        "Lecture 5: fairness": Preset(_fairness, ("flows", "fairness", "queue", "verdict")),
        "Lecture 6: data centers": Preset(_data_centers, _LINEAR),
    }
)
"""Name -> views and panels."""
