"""Cases of RFC 8867: metrics by hand on short traces, the testbed, and controllers that meet the cases or do not."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray

import ecc
from ecc.claims.checks.conformance import rfc8867
from ecc.claims.checks.conformance.laboratory import Laboratory
from ecc.claims.checks.conformance.rfc8867 import (
    AUDIO,
    Call,
    Downloads,
    Session,
    capacity_at,
    oscillations,
    session,
    source,
)
from ecc.models import GCC, NADA, ConstantRate, SCReAM

EXAMPLES = Path(__file__).parents[2] / "examples"


def traced(steps: Any = ((0.0, 1e6), (2.0, 5e5)), **series: Any) -> Session:
    """Four samples of 1 s of one call, with these series."""
    data = {name: xarray.DataArray(np.array(values, float)) for name, values in series.items()}
    trace = SimpleNamespace(time=np.arange(1.0, 5.0), run=SimpleNamespace(data=data), scenario=None)
    return Session(trace, [Call(4.0)], steps)  # type: ignore[arg-type]


def test_rates_and_delays_use_the_capacity_of_the_time() -> None:
    assert capacity_at(np.array([0.5, 2.0, 2.5]), [(0.0, 4.0), (2.0, 1.0)]).tolist() == [4.0, 4.0, 1.0]
    trace = traced(
        queue=[[5000.0], [10000.0], [5000.0], [0.0]], goodput=[[8e5, 1.0], [6e5, 1.0], [4e5, 1.0], [2e5, 1.0]]
    )
    assert trace.queueing_delay(0.0, 3.0).tolist() == pytest.approx([0.04, 0.08, 0.08])
    assert trace.goodput(1.0, 3.0)[0] == 5e5
    assert trace.room(1.0, 3.0) == 7.5e5 - AUDIO  # the mean of both capacities
    assert traced(steps=[(0.0, 4e6)]).room(0.0, 4.0, n_videos=2) == 3e6  # twice the maximum rate


def test_losses_and_bytes_of_reports() -> None:
    zeros = np.zeros((3, 2)).tolist()
    lossy = traced(**{"env.lost": [*zeros, [2000.0, 0.0]], "env.delivered": [*zeros, [38000.0, 0.0]]})
    assert lossy.lost_share(0) == 0.05 and lossy.lost_share(1) == 0.0
    # a second of 400 kb/s are 100 packets of 500 bytes, and 20 kb/s are 50 packets of 50: 150 ACKs of one byte
    media, link = [[400e3, 20e3]] * 4, [[0.0, 8.0 * (150.0 + 1000.0)]] * 4
    assert traced(goodput=media, arrival=link).overhead() == pytest.approx(1000.0 / 50_000.0)


def test_oscillations_pass_both_watermarks() -> None:
    assert oscillations(np.array([1.0, 3.0, 2.0, 3.0, 1.0, 2.0, 0.5]), low=1.0, high=3.0) == 2
    assert oscillations(np.array([2.0, 2.5, 1.5]), low=1.0, high=3.0) == 0


def test_convergence_and_swings_of_a_step() -> None:
    """0.2 Mb/s for 4 s and then 1 Mb/s: a mean of a second is within 25 % after 4.75 s."""
    count = 500
    rate = np.full((count, 2), 1e6)
    rate[:200, 0] = 2e5
    time = rfc8867.SAMPLE * np.arange(1.0, count + 1.0)
    values = {"time": time, "rate": rate}
    run = SimpleNamespace(data={"rate": xarray.DataArray(rate)}, _values=values.__getitem__)
    trace = Session(SimpleNamespace(time=time, run=run, scenario=None), [Call(10.0)], [(0.0, 2e6)])  # type: ignore[arg-type]
    assert trace.convergence(0, 0.0, 10.0) == pytest.approx(4.0 + 0.6875, abs=0.03)
    assert trace.convergence(1, 0.0, 10.0) == 0.0 and trace.swings(0, 0.0, 10.0) == 1
    rate[-1:, 0] = 1e9
    assert trace.convergence(0, 0.0, 10.0) == "not reached"


def test_downloads_have_the_sizes_and_idle_periods_of_the_rfc() -> None:
    times, sizes = Downloads().writes(3000.0, 1)
    assert sizes.min() >= 30_000 and sizes.max() <= 50_000 and sizes.mean() == pytest.approx(40_000, rel=0.03)
    assert np.diff(times).mean() == pytest.approx(10.0, rel=0.15) and times[0] > 0.0
    assert Downloads(is_on=True).writes(3000.0, 1)[0][0] == 0.0


def test_the_testbed_is_that_of_the_rfc() -> None:
    lab = Laboratory(NADA(max_rate="4 Mb/s"))
    run = session(lab, 2.0, 1e6, [Call(1.9), Call(1.9, delay=0.1, backward=True)], rfc8867.FORWARD[:2])
    scenario = run.trace.scenario
    network = scenario.network
    assert [link.capacity for link in network.links] == [2e6, 1e8]
    assert network.links[0].buffer == 37_500 and network.links[1].buffer is None  # 300 ms of 1 Mb/s
    assert network.rtts.tolist() == pytest.approx([0.1, 0.2, 0.1, 0.2])
    longer = session(lab, 1.0, 1e6, [Call(0.9)], longer=0.05).trace.scenario.network
    assert longer.rtts.tolist() == pytest.approx([0.15, 0.15])  # the forward path only
    kinds = [type(protocol).__name__ for protocol in scenario.deployment.flows]
    assert kinds == ["NADA", "NADA", "ConstantRate", "ConstantRate"]
    video = scenario.deployment.flows[0]
    assert (video.frames, video.min_rate, video.max_rate) == (30.0, 150e3, 1.5e6)
    assert source(ConstantRate(1e6), (1.0, 2.0)) == ConstantRate(1e6)


@dataclass(frozen=True)
class Stubborn(NADA):
    """NADA at a constant rate of 1.5 Mb/s."""

    def params(self) -> dict[str, Any]:
        return {**super().params(), "min_rate": 1.5e6}


def test_a_controller_that_does_not_adapt_is_refuted_and_others_do_not_apply() -> None:
    found = ecc.conform.run(Stubborn(), ["rfc8867-feedback", "rfc8867-fairness"])
    assert {str(one.verdict) for one in found.findings} == {"refuted"}
    assert "Share of video packets that are lost" in found.findings[0].reason
    other = ecc.conform.run(ConstantRate("1 Mb/s"), ["rfc8867-tcp"])
    assert other.not_applying == ["rfc8867-tcp: does not apply: no reports of receivers"]


@dataclass(frozen=True)
class Silent(NADA):
    """NADA that never starts."""

    def flow_hooks(self) -> dict[str, Any]:
        return {name: hook for name, hook in super().flow_hooks().items() if name != "on_start"}


@pytest.mark.slow
def test_a_controller_that_sends_nothing_is_refuted() -> None:
    (finding,) = ecc.conform.run(Silent(), ["rfc8867-two"]).findings
    assert finding.reason == "No frame of the first video is complete within 124 s."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "refuted"), [({}, {"two", "pause"}), ({"empty": 0.03}, set())], ids=["default", "ramp-up despite jitter"]
)
def test_nada(given: dict[str, Any], refuted: set[str]) -> None:
    """Jitter of up to 30 ms exceeds QEPS, so that NADA never ramps up in accelerated mode."""
    found = ecc.conform.run(replace(NADA(), **given), ["rfc8867"])
    assert {one.claim.id.removeprefix("rfc8867-") for one in found.findings if str(one.verdict) == "refuted"} == refuted
    assert len(found.findings) == 8 and not found.failures
    for finding in found.findings:
        assert str(finding.verdict) != "not comparable" and finding.pictures


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "refuted"), [("draft", {"capacity", "two", "rtt", "short"}), ("libwebrtc", {"two", "short"})]
)
def test_gcc(form: str, refuted: set[str]) -> None:
    """Without probes of capacity GCC grows by 8 % per second; in the draft's form a long queue stays after a drop."""
    found = ecc.conform.run(GCC(form), ["rfc8867"])
    assert {one.claim.id.removeprefix("rfc8867-") for one in found.findings if str(one.verdict) == "refuted"} == refuted
    assert len(found.findings) == 8 and not found.failures


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "refuted"),
    [({}, {"capacity", "two", "rtt", "tcp", "short", "pause"}), ({"min_calm": 1.0}, {"tcp"})],
    ids=["default", "growth despite jitter"],
)
def test_scream(given: dict[str, Any], refuted: set[str]) -> None:
    """Jitter counts as a variation of the queue, and slows growth; the minimum window is below the minimum rate."""
    found = ecc.conform.run(SCReAM(**given), ["rfc8867"])
    assert {one.claim.id.removeprefix("rfc8867-") for one in found.findings if str(one.verdict) == "refuted"} == refuted
    assert len(found.findings) == 8 and not found.failures


@pytest.mark.slow
def test_a_custom_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    kind = importlib.import_module("delay_target").DelayTarget
    found = ecc.conform.run(kind(), ["rfc8867"])
    sys.modules.pop("delay_target", None)
    refuted = [one for one in found.findings if str(one.verdict) == "refuted"]
    assert [one.claim.id for one in refuted] == ["rfc8867-rtt"]  # its rate depends on delays that others cause
    assert len(found.findings) == 8 and not found.failures
