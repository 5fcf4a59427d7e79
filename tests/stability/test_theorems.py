"""The theorem registry: its bounds on drawn loops, its refusals, and its searches."""

import numpy as np
import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ecc.models import PIQIRCP, QIRCP
from ecc.network import Network
from ecc.stability import THEOREMS, search

CONTRADICTED = {"piqi-9", "piqi-10", "piqi-12", "piqi-13", "mean-3"}


@pytest.mark.parametrize("name", THEOREMS)
def test_hypotheses_hold_all_over_the_space(name):
    theorem = THEOREMS[name]
    for seed in range(2):
        protocol, network = theorem.draw(np.random.default_rng(seed).random(theorem.dimensions))
        bound = theorem.bound(protocol, network)
        assert bound is not None and 0.0 < bound < np.inf


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_loop_contradicts_what_stands(data):
    theorem = THEOREMS[data.draw(st.sampled_from(sorted(set(THEOREMS) - CONTRADICTED)))]
    case = theorem.judge(*theorem.draw(data.draw(arrays(float, theorem.dimensions, elements=st.floats(0, 1)))))
    target(-min(case.ratio, 1e3), label=theorem.id)
    assert not case.contradicts
    assert theorem.kind == "sufficient" or case.ratio <= 1.0 + 1e-7


def test_contradiction_is_proven():
    """Theorem 10 of THESIS, with T a hundredth of the RTTs."""
    case = THEOREMS["piqi-10"].judge(PIQIRCP(), Network.dumbbell("1 Gb/s", [1.0, 1.1]), certify=True)
    assert case.contradicts and case.found.value < case.proof[0] < case.bound and case.proof[1] is False
    sound = THEOREMS["qi-4"].judge(QIRCP(), Network.dumbbell("1 Gb/s", [1.0, 1.1]), certify=True)
    assert not sound.contradicts and sound.proof[1] is True


def test_hypotheses_are_asked_for():
    with pytest.raises(ValueError, match="hypotheses of piqi-9 must hold .*T <= D_min/100"):
        THEOREMS["piqi-9"].judge(PIQIRCP(), Network.dumbbell("1 Gb/s", [0.1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["piqi-10", "mean-3", "mean-2", "xcp-1"])
def test_search(name):
    found = search(THEOREMS[name], loops=40)
    assert found.holds == (name not in CONTRADICTED)
    assert found.least.ratio <= found.largest.ratio
    assert found.least.proof[1] is (name not in CONTRADICTED)
