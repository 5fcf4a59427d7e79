"""Queue disciplines here and in ns-2's own code, under Sack: disciplines_against_ns2.py says on which link."""

import ns2
import pytest
from disciplines_against_ns2 import CASES, compared

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.slow,
    pytest.mark.skipif(not ns2.installed, reason="needs ns-2: its program `ns` is not installed (Debian: ns2)"),
]


CHOSEN = [name for name in CASES if " of " not in name and (name.startswith("RED") or " 30 " in name)]


@pytest.mark.parametrize("name", CHOSEN)
def test_queues_and_utilization(name: str):
    (theirs, _), (ours, _) = compared(name, seeds=2)
    assert ours.queue == pytest.approx(theirs.queue, rel=0.1)
    assert ours.utilization == pytest.approx(theirs.utilization, rel=0.02)
    assert ours.share == pytest.approx(theirs.share, rel=0.15)


@pytest.mark.parametrize("name", ["RED of 1993 10 mark", "AVQ of 2001 30 drop"])
def test_what_the_papers_do_where_ns2_differs(name: str):
    """RED of 1993 chooses packets that find an empty queue; AVQ of 2001 counts what it drops: both send less."""
    (theirs, _), (ours, _) = compared(name, seeds=2)
    assert ours.queue < 0.95 * theirs.queue
    assert ours.utilization < 0.98 * theirs.utilization
