"""The dispatch of limit cycles to the methods that compute them."""

import numpy as np
import pytest

import ecc
from ecc.cycles import closed_loop
from ecc.cycles.reference_cases import cycle_case
from ecc.cycles.round_maps import round_map_cycle
from ecc.errors import ConvergenceError, LinearizationError
from ecc.stability import LimitCycle, limit_cycle


def a_cycle(period):
    return LimitCycle("cycle", "discrete", period, 1e4, 1e3, np.array([0.5 + 0j]))


def test_the_first_method_that_finds_a_cycle_answers(monkeypatch):
    asked = []

    def declines(loop, network, time):
        asked.append((type(loop).__name__, network.n_flows, time))
        raise LinearizationError("the first method models routers only")

    def fails(loop, network, time):
        raise ConvergenceError("the second method found no cycle")

    monkeypatch.setattr(
        closed_loop, "METHODS", (declines, fails, lambda *case: a_cycle(2.0), lambda *case: a_cycle(3.0))
    )
    assert limit_cycle("NewReno", time="discrete").period == 2.0
    assert asked == [("NewReno", 2, "discrete")]
    monkeypatch.setattr(closed_loop, "METHODS", (declines, fails))
    with pytest.raises(LinearizationError, match="has no computed cycle in continuous time: the second method found"):
        limit_cycle(ecc.models.NewReno, time="continuous")
    monkeypatch.setattr(closed_loop, "METHODS", (declines,))
    with pytest.raises(LinearizationError, match="time: the first method models routers only"):
        limit_cycle(ecc.models.NewReno, time="continuous")


def test_an_unknown_time_is_refused():
    with pytest.raises(ValueError, match="time must be one of continuous, discrete, got 'hybrid'"):
        limit_cycle("NewReno", time="hybrid")


def test_the_case_of_a_cycle_has_a_finite_buffer_or_a_step():
    loop, network = cycle_case(ecc.models.CUBIC())
    assert isinstance(loop, ecc.models.CUBIC)
    assert network.links[0].buffer == 250_000
    loop, network = cycle_case(ecc.models.DCTCP())
    assert str(loop) == "DCTCP over StepMarking"
    assert network.links[0].buffer is None
    loop, network = cycle_case(ecc.models.EDN())
    assert isinstance(loop, ecc.models.EDN)
    assert network.capacities.tolist() == [ecc.models.EDN().reference_loop.capacity]


def test_a_cycle_of_a_map_per_round_has_the_multipliers_of_its_linear_model():
    protocol = ecc.models.Vivace()
    cycle = limit_cycle(protocol, time="discrete")
    system = ecc.linearize(protocol, protocol.reference_loop.network(), time="discrete")
    assert cycle.dominant == pytest.approx(system.dominant_root, rel=1e-9)
    assert cycle.period == system.sampling[1]
    assert cycle.stable
    assert cycle.proven
    with pytest.raises(LinearizationError, match="it declares no map per round"):
        round_map_cycle(ecc.models.EDN(), protocol.reference_loop.network(), "discrete")
