"""DCQCN: the fixed point of Zhu et al. (2016), and one law in the linear model and the fluid."""

import numpy as np
import pytest
from scipy.optimize import brentq

import ecc
from ecc.errors import LinearizationError
from ecc.models import DCQCN
from ecc.network.network import Network
from ecc.scenario import Scenario

S = 8000.0  # bit, a packet


def link(flows, rtt="4 us"):
    return Network.dumbbell("40 Gb/s", [rtt] * flows, packet_size=1000)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"g": 1.5}, "g must be <= 1, got 1.5"),
        ({"p_max": 2.0}, r"p_max must be <= 1, got 2"),
        ({"line_rate": "0 Gb/s"}, "line_rate must be > 0"),
        ({"interval": 0.0}, "interval must be > 0"),
        ({"byte_counter": 0}, "byte_counter must be >= 1"),
        ({"max_threshold": "5 kB"}, r"max_threshold must be > min_threshold \(5000 bytes\), got 5000"),
        ({"floor": 0.0}, "floor must be > 0"),
    ],
)
def test_bad_parameters_get_one_line(fields, message):
    with pytest.raises(ValueError, match=message):
        DCQCN(**fields)


def theirs(flows):
    """p* of Zhu et al. 2016, (11): a^2 alpha/((b + d)(c + e)) = tau^2 R_AI R_C, in packets; alpha* and R_T*/R_C*."""
    p = DCQCN()
    r, B, T, F = 40e9 / flows / S, p.byte_counter / 1000, p.increase_interval, p.fast_recovery

    def terms(x):
        a = 1 - (1 - x) ** (p.interval * r)
        alpha = 1 - (1 - x) ** (p.alpha_interval * r)
        b, d = x / ((1 - x) ** -B - 1), x / ((1 - x) ** (-T * r) - 1)
        c, e = (1 - x) ** (F * B) * b, (1 - x) ** (F * T * r) * d
        return a, alpha, b + d, c + e

    def excess(x):
        a, alpha, bd, ce = terms(x)
        return a**2 * alpha / (bd * ce) - p.interval**2 * p.rate_ai / S * r

    marks = brentq(excess, 1e-6, 0.02, xtol=1e-18)  # beyond it their powers of B overflow
    a, alpha, _, ce = terms(marks)
    return marks, alpha, 1 + ce * p.interval * p.rate_ai / S / a


@pytest.mark.parametrize("flows", [1, 2, 10, 12])
def test_the_fixed_point_of_zhu_et_al(flows):
    point = DCQCN().equilibrium(link(flows))
    assert point.rates == pytest.approx(40e9 / flows, rel=1e-9)
    marks, alpha, target = theirs(flows)
    assert point.fair_rate[0] == pytest.approx(marks, rel=1e-9)
    assert point.queue[0] / 8 == pytest.approx(5000 + 195_000 * point.fair_rate[0] / 0.01, rel=1e-9)
    assert point.states["alpha"] == pytest.approx(alpha, rel=1e-9)
    assert point.states["target"] / point.rates == pytest.approx(target, rel=1e-9)


def test_more_flows_than_p_max_can_hold_have_no_fixed_point():
    """Their marks would lie between p_max and 1, which no queue gives; a steeper or longer ramp has one."""
    with pytest.raises(LinearizationError, match=r"link 0 would mark 0.0591 of its packets, more than p_max = 0.01"):
        DCQCN().equilibrium(link(64))
    point = DCQCN(max_threshold="2 MB", p_max=0.1).equilibrium(link(64))
    assert 0.05 < point.fair_rate[0] < 0.06 and 1.1e6 < point.queue[0] / 8 < 1.2e6


@pytest.mark.slow
def test_paths_of_two_links_add_their_marks():
    network = Network.parking_lot(["40 Gb/s", "30 Gb/s"], delay="1 us", packet_size=1000)
    point = DCQCN().equilibrium(network)
    assert point.rates @ network.incidence == pytest.approx(network.capacities, rel=1e-9)
    path = network.incidence @ point.fair_rate
    assert point.rates == pytest.approx([DCQCN().resting_rate(marks, S) for marks in path])
    with pytest.raises(LinearizationError, match="DCQCN has no linear model if a path has several queues"):
        ecc.linearize(DCQCN(), network)
    with pytest.raises(ValueError, match="assignment must be None: flows of DCQCN respond to the marks of their whole"):
        DCQCN().equilibrium(network, np.zeros(3, dtype=int))


@pytest.mark.parametrize(("flows", "rtt"), [(2, "4 us"), (10, "4 us"), (10, "85 us")])
def test_the_fluid_moves_by_the_roots_of_the_linear_model(flows, rtt):
    network = link(flows, rtt)
    point = DCQCN().equilibrium(network)
    scenario = Scenario(network, DCQCN(), 0.01)
    run = ecc.fluid.simulate(scenario, sample=5e-5, start="equilibrium", perturbation=1e-6, rtol=1e-11)
    off = (run.queue[:, 0].to_numpy() - point.queue[0] / 8)[20:]
    roots = np.array(ecc.linearize(DCQCN(), network).roots(12))
    times = 5e-5 * np.arange(len(off))
    modes = roots[np.abs(roots) < 2e4]
    columns = np.hstack([np.exp(np.outer(times, modes)).real, np.exp(np.outer(times, modes)).imag])
    fitted = columns @ np.linalg.lstsq(columns, off, rcond=None)[0]
    assert np.abs(off - fitted).max() < 1e-3 * np.abs(off).max()


@pytest.mark.parametrize(("rtt", "grows"), [("30 us", False), ("85 us", True)])
def test_a_longer_rtt_loses_stability_in_the_linear_model_and_in_the_fluid(rtt, grows):
    network = link(10, rtt)
    assert ecc.linearize(DCQCN(), network).is_stable is not grows
    point = DCQCN().equilibrium(network)
    run = ecc.fluid.simulate(Scenario(network, DCQCN(), 0.06), sample=1e-4, start="equilibrium", perturbation=1e-4)
    off = np.abs(run.queue[:, 0].to_numpy() - point.queue[0] / 8)
    assert (off[-50:].max() > off[50:100].max()) == grows


def test_fluid_flows_come_from_the_line_rate_to_the_fixed_point():
    network = link(2)
    run = ecc.fluid.simulate(Scenario(network, DCQCN(), 0.08), sample=1e-3, record=["flow.alpha", "flow.target"])
    point = DCQCN().equilibrium(network)
    assert run.queue[-1, 0] * 8 == pytest.approx(point.queue[0], rel=0.02)
    assert run.rate[-1].to_numpy() == pytest.approx(point.rates, rel=1e-3)
    for name in ("alpha", "target"):
        assert run.data[f"flow.{name}"][-1].to_numpy() == pytest.approx(point.states[name], rel=0.02)


class Clocked(DCQCN):
    """Whose states have the clock of rates that step."""

    @property
    def states(self):
        return {name: state._replace(clock="update") for name, state in super().states.items()}


def test_states_of_continuous_rates_are_continuous():
    with pytest.raises(
        ValueError, match="Clocked has no fluid model: its state alpha must have a law, the clock 'cont"
    ):
        ecc.fluid.simulate(Scenario(link(2), Clocked(), 0.001))
    with pytest.raises(
        ValueError, match="Clocked has no linear model: its state alpha must have a law and the clock 'c"
    ):
        ecc.linearize(Clocked(), link(2))
