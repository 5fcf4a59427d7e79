"""The TCPs here and in ns-2's own code: some of the cases of tcp_against_ns2.py, which has them all."""

from typing import Any

import ns2
import pytest
from tcp_against_ns2 import CASES, PACKET, compared, windows

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.slow,
    pytest.mark.skipif(not ns2.installed, reason="needs ns-2: its program `ns` is not installed (Debian: ns2)"),
]


def extensive(name: str) -> Any:
    """A case that CI leaves out."""
    return pytest.param(name, marks=pytest.mark.extensive)


@pytest.mark.parametrize(
    "name",
    [
        "NewReno 50",
        extensive("Sack 50"),
        extensive("BIC 50"),
        "CUBIC 50",
        extensive("Compound 50"),
        extensive("NewReno 2 delayed"),
        "Sack 2 delayed",
    ],
)
def test_on_a_drop_tail_link(name: str):
    theirs, ours = compared(name, seeds=2)
    assert ours.utilization == pytest.approx(theirs.utilization, rel=0.02)
    assert ours.queue == pytest.approx(theirs.queue, rel=0.15)
    assert ours.loss == pytest.approx(theirs.loss, rel=0.15)
    assert ours.goodput == pytest.approx(theirs.goodput, rel=0.02)


@pytest.mark.parametrize(
    "name",
    [
        extensive("NewReno 1 half"),
        extensive("NewReno 2 half"),
        extensive("Sack 1 half"),
        "Sack 2 half",
        "NewReno 1 RTO",
        extensive("NewReno 1 long"),
        "Sack 1 long",
    ],
)
def test_over_ten_minutes_where_timers_matter(name: str):
    theirs, ours = compared(name, seeds=1)
    assert ours.utilization == pytest.approx(theirs.utilization, rel=0.02)
    assert ours.queue == pytest.approx(theirs.queue, rel=0.15)
    assert ours.goodput == pytest.approx(theirs.goodput, rel=0.02)


def test_vegas_has_as_many_packets_of_a_flow_queued():
    theirs, ours = compared("Vegas 50", seeds=2)
    assert ours.goodput == pytest.approx(theirs.goodput, rel=0.02)
    assert ours.queue / PACKET / CASES["Vegas 50"].flows == pytest.approx(theirs.queue / PACKET / 50, abs=1.0)
    assert ours.loss == theirs.loss == 0.0


@pytest.mark.parametrize(
    "name",
    [
        "NewReno 1.0%",
        extensive("NewReno 5.0%"),
        extensive("Sack 1.0%"),
        "Sack 5.0%",
        extensive("BIC 1.0%"),
        extensive("CUBIC 1.0%"),
    ],
)
def test_with_random_loss(name: str):
    theirs, ours = compared(name, seeds=10)
    assert ours.goodput == pytest.approx(theirs.goodput, rel=0.1)


@pytest.mark.parametrize(
    "name", ["NewReno 4", "Sack 4", "CUBIC 1", "CUBIC 4", "CUBIC 0.1%", "Compound 1", "Compound 4", "Compound 0.1%"]
)
def test_goodput_and_windows_are_those_of_ns2(name: str):
    """Means over seeds of the goodput, of the window and of its quantiles over time, to 5 %."""
    theirs, ours = windows(name, seeds=5 if "%" in name else 3)
    assert ours == pytest.approx(theirs, rel=0.05)
