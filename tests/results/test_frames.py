"""Frames of media by hand, on a short trace, and in runs with losses and pauses."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.models import NADA
from ecc.models.shared.encoder import RING, frame_bytes
from ecc.results import metrics
from ecc.results.frames import FRAME_FIELDS, Frames, frames

FRAME = 0.1  # s between captures


def traced(delays: list[float], lost: tuple[int, ...] = (), pause: float = 0.0) -> Frames:
    """Frames with these delays, of which some are lost; the last one is captured after a pause."""
    numbers = np.array([k for k in range(1, len(delays) + 1) if k not in lost])
    captured = FRAME * (numbers - 1.0)
    captured[-1] += pause
    return Frames(numbers, captured, captured + np.array(delays)[numbers - 1], 1, len(delays))


def test_delays_losses_and_freezes_of_a_trace_are_those_computed_by_hand() -> None:
    trace = traced([0.05, 0.07, 0.05, 0.35, 0.30, 0.06, 0.05], lost=(6,))
    # completions: 0.05, 0.17, 0.25, 0.65, 0.70, 0.65 of the last: it overtakes
    assert trace.delay == pytest.approx([0.05, 0.07, 0.05, 0.35, 0.30, 0.05])
    assert trace.lost == 1 and trace.interval == pytest.approx(0.1)
    assert trace.gaps == pytest.approx([0.12, 0.08, 0.40, 0.05, -0.05])
    assert trace.freezes == pytest.approx([0.40])  # at least 0.3 s
    early = trace.between(0.0, 0.3)
    assert early.number.tolist() == [1, 2, 3] and len(early.freezes) == 0 and early.lost == 0
    late = trace.between(0.45, 0.55)
    assert len(late.number) == 0 and late.lost == 1


def test_a_pause_is_no_freeze_and_a_lost_frame_may_be_part_of_one() -> None:
    paused = traced([0.05] * 5, pause=2.0)
    assert paused.gaps == pytest.approx([0.1] * 4) and len(paused.freezes) == 0
    assert traced([0.05] * 7, lost=(3, 4, 5)).freezes == pytest.approx([0.4])
    empty = Frames(np.zeros(0, int), np.zeros(0), np.zeros(0), 1, 0)
    assert empty.lost == 0 and len(empty.gaps) == 0 and np.isnan(empty.interval)


def media(duration: float = 4.0, capacity: str = "2 Mb/s", **given: object) -> ecc.Scenario:
    network = ecc.Network.dumbbell(capacity, rtts=["40 ms"], packet_size=500, buffer="20 kB")
    return ecc.Scenario(network, NADA(frames=20.0, **given), duration)


def test_frames_of_a_run_are_those_that_the_encoder_captured() -> None:
    scenario = media(min_rate="400 kb/s", max_rate="400 kb/s", pauses=(1.02, 2.04))
    run = ecc.packet.simulate(scenario, sample=0.25, record=[*FRAME_FIELDS])
    read = frames(run)
    captured = [k / 20.0 for k in range(80) if not 1.02 <= k / 20.0 < 2.04]
    assert read.captured[:40] == pytest.approx(captured[:40], abs=1e-9)
    # 5 packets of 500 bytes: the last leaves 4 x 4000/600e3 s after the first; 2 ms in the link, 20 ms of propagation
    assert read.delay == pytest.approx(np.full(len(read.delay), 4 * 4000 / 600e3 + 0.002 + 0.02), abs=1e-6)
    assert read.lost == 0 and len(read.freezes) == 0

    def value(name: str, **arguments: object) -> float:
        return float(metrics.get(name).function(run, scenario, **arguments))

    assert [value("frame_delay"), value("p95_frame_delay")] == pytest.approx([read.delay[0]] * 2)
    assert value("frame_rate", between=(2.0, 3.0)) == 19.0
    assert value("freezes") == value("freeze_time") == value("lost_frames") == 0.0


def test_lost_packets_lose_frames() -> None:
    scenario = media(capacity="300 kb/s", min_rate="400 kb/s", max_rate="400 kb/s")
    run = ecc.packet.simulate(scenario, sample=0.25, record=[*FRAME_FIELDS])
    assert frames(run).lost > 5 and metrics.get("lost_frames").function(run, scenario) > 0.1


@pytest.mark.parametrize(
    ("sample", "record", "flow", "text"),
    [
        (
            0.25,
            ["flow.x"],
            0,
            "frames needs a run of media hosts with record=[*ecc.metrics.FRAME_FIELDS], got one without",
        ),
        (0.25, [*FRAME_FIELDS], 1, "flow must be from 0 to 0, got 1"),
        (
            1.0,
            [*FRAME_FIELDS],
            0,
            f"sample must be short enough for at most {RING} complete frames, got 20 in the one that",
        ),
    ],
)
def test_runs_without_all_frames_are_refused(sample: float, record: list[str], flow: int, text: str) -> None:
    run = ecc.packet.simulate(media(), sample=sample, record=record)
    with pytest.raises(ValueError, match="^" + re.escape(text)):
        frames(run, flow)


def test_metrics_of_no_frames_are_refused() -> None:
    scenario = media()
    run = ecc.packet.simulate(scenario, sample=0.25, record=[*FRAME_FIELDS])
    with pytest.raises(
        ValueError, match="^metrics of frames need a complete frame of flow 0 in the given time, got 0$"
    ):
        metrics.get("frame_delay").function(run, scenario, between=(7.0, 8.0))


def test_key_frames_keep_the_mean_size_and_noise_has_the_given_deviation() -> None:
    p = SimpleNamespace(frames=30.0, key_every=10.0, key_factor=5.0, noise=0.0)
    sizes = [frame_bytes(1.2e6, k, 0.5, p) for k in range(20)]
    assert np.mean(sizes) == pytest.approx(5000.0) and sizes[10] == pytest.approx(5.0 * sizes[11])
    p = SimpleNamespace(frames=30.0, key_every=0.0, key_factor=1.0, noise=0.2)
    drawn = np.array([frame_bytes(1.2e6, 0, (k + 0.5) / 1000.0, p) for k in range(1000)])
    assert drawn.mean() == pytest.approx(5000.0) and drawn.std() == pytest.approx(1000.0, rel=1e-3)
