"""Replays of counterexamples: each theorem that a loop contradicts is there, and runs agree with linear models."""

from math import pi

import pytest

from ecc.claims.catalog import checks
from ecc.claims.checks.open.replays import CAPACITY, LOOPS, replay
from ecc.claims.ledger import claims
from ecc.models import PIQIRCP
from ecc.network.network import Network
from ecc.stability import THEOREMS


@pytest.mark.slow
def test_every_contradicted_theorem_on_piqi_rcp_is_replayed():
    assert {name for name, *_ in LOOPS} == {"piqi-9", "piqi-10", "piqi-12", "piqi-13"}
    for name, protocol, rtts in LOOPS:
        assert THEOREMS[name].evaluate(protocol, Network.dumbbell(CAPACITY, list(rtts))).ratio < 0.84


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "status"), [(0.55, "stable"), (0.7, "unstable")])
def test_runs_grow_as_their_linear_models_say(alpha, status):
    runs = replay(PIQIRCP(alpha=alpha), (1.0, 1.1), "continuous", 2 * pi / 0.8889)
    for engine, one in runs.items():
        assert one.run.stability.status == status
        assert one.agrees(engine)


@pytest.mark.slow
def test_all_replays():
    finding = checks()["open-replay"](claims()["open-replay"])
    assert finding.answer == "yes"
    assert all(row.met is not False for row in finding.measurements)
