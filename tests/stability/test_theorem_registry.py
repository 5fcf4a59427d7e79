"""The theorem registry: its bounds on drawn loops, its refusals, and its searches."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import lambertw

from ecc.models import PIQIRCP, QIRCP
from ecc.network.network import Network
from ecc.stability import THEOREMS, search

CONTRADICTED = {"piqi-9", "piqi-10", "piqi-12", "piqi-13", "mean-3"}


def corners(theorem, most=32):
    """Corners of a theorem's cube: all of them up to `most`, else those of all 0 and all 1 and others drawn."""
    n = theorem.dimensions
    if 2**n <= most:
        return np.array(list(product((0.0, 1.0), repeat=n)))
    drawn = np.random.default_rng(1).integers(0, 2, (most - 2, n)).astype(float)
    return np.vstack([np.zeros(n), np.ones(n), drawn])


@pytest.mark.slow
@pytest.mark.parametrize("name", THEOREMS)
def test_hypotheses_hold_all_over_the_space(name):
    """Also on its edges: RTTs that are all equal, of one interval, a hundred of them; gains at the end of a range."""
    theorem = THEOREMS[name]
    for at in [*corners(theorem), *np.random.default_rng(0).random((2, theorem.dimensions))]:
        bound = theorem.bound(*theorem.draw(at))
        assert bound is not None and 0.0 < bound < np.inf


def test_theorems_on_any_rtts_cover_equal_ones():
    equal = Network.dumbbell("1 Gb/s", [1.0, 1.0])
    for protocol, names in (
        (QIRCP(), ("qi-4", "qi-3", "qi-8", "qi-7")),
        (PIQIRCP(), ("piqi-10", "piqi-9", "piqi-13", "piqi-12")),
    ):
        bounds = [THEOREMS[name].bound(protocol, equal) for name in names]
        assert bounds[0::2] == bounds[1::2]
    one_step = QIRCP(), Network.dumbbell("1 Gb/s", [0.01, 0.01])
    assert THEOREMS["qi-8"].bound(*one_step) == pytest.approx(THEOREMS["qi-5"].bound(*one_step), rel=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.extensive if name == "kelly-2" else ())
        for name in sorted(set(THEOREMS) - CONTRADICTED)
    ],
)
def test_no_corner_contradicts_what_stands(name):
    theorem = THEOREMS[name]
    for at in corners(theorem, 4):
        case = theorem.evaluate(*theorem.draw(at))
        assert not case.contradicts
        assert theorem.kind == "sufficient" or case.ratio <= 1.0 + 1e-7


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data())
def test_no_loop_contradicts_what_stands(data):
    theorem = THEOREMS[data.draw(st.sampled_from(sorted(set(THEOREMS) - CONTRADICTED)))]
    case = theorem.evaluate(*theorem.draw(data.draw(arrays(float, theorem.dimensions, elements=st.floats(0, 1)))))
    target(-min(case.ratio, 1e3), label=theorem.id)
    assert not case.contradicts
    assert theorem.kind == "sufficient" or case.ratio <= 1.0 + 1e-7


def test_contradiction_is_proven():
    """Theorem 10 of THESIS, with T a hundredth of the RTTs."""
    case = THEOREMS["piqi-10"].evaluate(PIQIRCP(), Network.dumbbell("1 Gb/s", [1.0, 1.1]), certify=True)
    assert case.contradicts and case.found.value < case.proof[0] < case.bound and case.proof[1] is False
    sound = THEOREMS["qi-4"].evaluate(QIRCP(), Network.dumbbell("1 Gb/s", [1.0, 1.1]), certify=True)
    assert not sound.contradicts and sound.proof[1] is True


@pytest.mark.slow
@settings(max_examples=25)
@given(st.floats(0.003, 0.36), st.floats(0.0, 0.99), st.floats(0.01, 0.5))
def test_first_order_of_the_critical_gain_in_the_interval(tau1, share, eta):
    """docs/short_intervals.md, Corollary: 0 <= critical alpha/(pi/4) - (1 - k T/D) <= 3 (T/(tau1 D))^2."""
    protocol = PIQIRCP(tau1=tau1, tau2=share * tau1 / (float(-lambertw(-tau1).real) / tau1 - 1.0))
    rtt = protocol.interval / (tau1 * eta)
    k = (1.0 - protocol.tau2) / tau1 - 0.5
    found = THEOREMS["piqi-9"].critical(protocol, Network.dumbbell("1 Gb/s", [rtt])).value / (np.pi / 4.0)
    assert -1e-9 <= found - (1.0 - k * protocol.interval / rtt) <= 3.0 * eta * eta


def test_proven_bounds_need_sources_that_average():
    net = Network.dumbbell("1 Gb/s", [0.1, 0.3])
    bound = THEOREMS["mean-5"].bound
    assert bound(PIQIRCP(), net) == pytest.approx(np.pi / 4.0 * 0.2 / (0.2 + 89.5 * 0.01), rel=1e-14)
    assert bound(PIQIRCP(tau1=0.37), net) is None and bound(PIQIRCP(tau1=0.3, tau2=0.5), net) is None
    assert THEOREMS["mean-6"].bound(PIQIRCP(tau1=0.5, tau2=0.6), net) is None


def test_hypotheses_are_asked_for():
    with pytest.raises(ValueError, match="hypotheses of piqi-9 must hold .*T <= D_min/100"):
        THEOREMS["piqi-9"].evaluate(PIQIRCP(), Network.dumbbell("1 Gb/s", [0.1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["piqi-10", "mean-3", "mean-2", "xcp-1"])
def test_search(name):
    found = search(THEOREMS[name], loops=40)
    assert found.holds == (name not in CONTRADICTED)
    assert found.least.ratio <= found.largest.ratio
    assert found.least.proof[1] is (name not in CONTRADICTED)


def test_short_intervals_are_a_hundredth_of_the_least_rtt():
    for rtt, holds in (1.0, True), (1.0 - 1e-6, False):
        bound = THEOREMS["piqi-9"].bound(PIQIRCP(interval=0.01), Network.dumbbell("1 Gb/s", [rtt, rtt]))
        assert (bound is not None) is holds


@pytest.mark.slow
def test_a_search_reports_its_loops(monkeypatch):
    monkeypatch.setattr("ecc._support.reports._INTERVAL", 0.0)
    texts = []
    finding = search(THEOREMS["qi-3"], loops=3, progress=texts.append)
    assert texts == [f"loop {number}" for number in range(1, len(texts) + 1)]
    assert finding.holds
