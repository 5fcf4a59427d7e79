"""Slices of a run that take too long are ended, and the result stays the same."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from ecc.models import ConstantRate
from ecc.network.network import Flow, Link, Network
from ecc.packet import Run, interrupts, simulation
from ecc.packet.interrupts import SliceLimit
from ecc.scenario import Scenario

RATES = {"c": "1 Gb/s", "threads": "1 Gb/s", "python": "8 Mb/s"}


def scenario(rate: str) -> Scenario:
    network = Network(links=[Link(rate, "10 ms"), Link(rate, "10 ms")], flows=[Flow(route=[0, 1])] * 2)
    return Scenario(
        network,
        ConstantRate("0.2 Gb/s" if rate != RATES["python"] else "3.6 Mb/s"),
        duration=1.0 if rate == RATES["python"] else 15.0,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", RATES)
def test_a_slice_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The adaptive size of slices would need less than ten slices."""
    options: dict[str, Any] = {"c": {}, "threads": {"threads": 2}, "python": {"engine": "python"}}[kind]
    monkeypatch.setattr(simulation, "TURN", 1e9)
    monkeypatch.setattr(simulation, "SLICE", 10**12)
    monkeypatch.setattr(simulation, "LONGEST_TURN", 1e9)
    seen: list[float] = []
    plain = Run(scenario(RATES[kind]), **options).advance(progress=seen.append).trajectory()
    assert len(seen) < 10
    monkeypatch.setattr(simulation, "LONGEST_TURN", 0.0)
    monkeypatch.setattr(interrupts, "LOOK_PERIOD", 1e-4)
    often: list[float] = []
    ended = Run(scenario(RATES[kind]), **options).advance(progress=often.append).trajectory()
    assert len(often) > len(seen) + 3
    assert ended.stats["digest"] == plain.stats["digest"]


def test_a_slice_within_its_limit_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that watches slices ends when none has run for a while; the next slice starts another one."""
    monkeypatch.setattr(interrupts, "LOOK_PERIOD", 1e-3)
    monkeypatch.setattr(interrupts, "IDLE_TIME", 2e-3)
    ended = threading.Event()
    short, long = SliceLimit(ended.set, 60.0), SliceLimit(ended.set, 0.0)
    for _ in range(3):
        ended.clear()
        with short:
            time.sleep(0.01)
        assert not ended.is_set()
        with long:
            assert ended.wait(10.0)
        end = time.monotonic() + 10.0
        while SliceLimit._thread is not None and time.monotonic() < end:
            time.sleep(1e-3)
        assert SliceLimit._thread is None
