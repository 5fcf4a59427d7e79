"""Proofs of the cycles of protocols: the map of the proof is that of the cycle, and proofs agree with multipliers."""

import numpy as np
import pytest

import ecc
from ecc.cycles.marking_rounds import marking_rounds, round_over_threshold
from ecc.cycles.reference_cases import cycle_case
from ecc.cycles.step_marking import _round, loop_over_threshold, step_marking_cycle
from ecc.errors import LinearizationError
from ecc.stability import limit_cycle, prove_cycle


@pytest.mark.parametrize("name", ["DCTCP", "Prague"])
def test_cycles_over_a_threshold_are_proven(name):
    loop, network = cycle_case(getattr(ecc.models, name)())
    form = marking_rounds(loop, network)
    parts, state = loop_over_threshold(loop, network), list(form.state)
    for _ in range(form.rounds):
        expected = _round(parts, state)
        state = round_over_threshold(state, form.p)
        np.testing.assert_allclose(np.array(state, float), expected, rtol=1e-13)
    np.testing.assert_allclose(state, form.state, rtol=1e-9)
    proof = prove_cycle(loop, network)
    cycle = step_marking_cycle(loop, network, "discrete")
    assert proof.multipliers_inside is True and proof.errors.max() < 1e-12
    for value in cycle.multipliers:
        assert np.abs(proof.multipliers - value).min() < 1e-6


def test_limit_cycles_can_be_proven():
    cycle = limit_cycle("DCTCP", time="discrete", certify=True)
    assert cycle.proven and cycle.stable
    assert not limit_cycle("DCTCP", time="discrete").proven
    with pytest.raises(ValueError, match="certify must be False for time 'continuous'"):
        limit_cycle("DCTCP", certify=True)


def test_a_loop_without_a_map_per_round_is_refused():
    with pytest.raises(LinearizationError, match="XCP has no map per round here: it declares no map per round; "):
        prove_cycle("XCP")
