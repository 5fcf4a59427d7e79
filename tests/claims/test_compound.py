"""The stability condition that the check of `compound-hopf` derives, against roots and the slope of its own fluid."""

from math import pi

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ecc.claims.checks.internet.compound_stability import (
    RENO_FACTOR,
    amplitude,
    critical_buffer,
    critical_factor,
    loop,
    lyapunov,
    slope,
)
from ecc.linear import DelaySystem

PARAMETERS = {"alpha": st.floats(0.02, 1.0), "beta": st.floats(0.1, 0.9), "k": st.floats(0.0, 0.95)}
COMPOUND = (0.125, 0.5, 0.75)


@settings(max_examples=20, deadline=None)
@given(w=st.floats(5.0, 2000.0), share=st.floats(0.2, 3.0), **PARAMETERS)
def test_the_condition_is_that_of_the_rightmost_root(w, share, alpha, beta, k):
    B = share * 0.5 * pi / (alpha * w ** (k - 1.0))
    at = loop(w, B, alpha, beta, k)
    assume(abs(at.excess) > 1e-3)
    assert DelaySystem([-at.a, -at.b], [0.0, 1.0]).is_stable is (at.excess < 0.0)
    assert share > 1.0 or at.excess < 0.0  # alpha B w^(k-1) < pi/2 suffices


@settings(max_examples=20, deadline=None)
@given(w=st.floats(5.0, 2000.0), B=st.floats(1.0, 100.0), **PARAMETERS)
def test_the_gains_are_the_slopes_of_the_fluid_at_its_equilibrium(w, B, alpha, beta, k):
    at, h = loop(w, B, alpha, beta, k), 1e-5 * w

    def rate(now, then):
        return slope(now, then, at.pipe, B, alpha, beta, k)

    size = (at.a + at.b) * w
    assert rate(w, w) == pytest.approx(0.0, abs=1e-9 * size)
    assert (rate(w + h, w) - rate(w - h, w)) / (2.0 * h) == pytest.approx(-at.a, rel=1e-4, abs=1e-6 * at.b)
    assert (rate(w, w + h) - rate(w, w - h)) / (2.0 * h) == pytest.approx(-at.b, rel=1e-4)


def test_without_a_buffer_reno_has_the_published_factor():
    assert critical_factor(1.0, 0.5, 0.0) == pytest.approx(RENO_FACTOR, abs=1e-4)


def test_the_predicted_cycle_grows_as_the_root_of_the_distance():
    critical = critical_buffer(100.0, *COMPOUND)
    assert loop(100.0, critical, *COMPOUND).excess == pytest.approx(0.0, abs=1e-10)
    assert lyapunov(100.0, critical, *COMPOUND) < 0.0
    near, far = (amplitude(100.0, share * critical, critical, *COMPOUND) for share in (1.01, 1.04))
    assert far == pytest.approx(2.0 * near)
