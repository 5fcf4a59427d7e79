"""Limits and cycles of policy loops: closed forms of a delayed integrator and of a relay, and packets on both sides."""

import numpy as np
import pytest

import ecc
from ecc.errors import LinearizationError
from ecc.laws.dense_network import DenseNetwork, Layer
from ecc.models.shared.actors import orca_actor
from ecc.stability import PolicyPath, paced_policy, policy_cycle, policy_limit, policy_loop, policy_run

LOG_4 = np.log(4.0)


def delayed(gain, size=None, at=0.9):
    """a = tanh(gain (at - r)), or that times a size: r is the delivery rate of the newest frame."""
    weight = np.zeros((1, 7))
    weight[0, 0] = -gain
    scale = [] if size is None else [Layer([[size]], [0.0], "linear")]
    return DenseNetwork([Layer(weight, [gain * at], "tanh"), *scale])


def test_the_limit_of_a_delayed_integrator_is_that_of_jurys_test():
    """z^3 - z^2 + k ((1 - f) z + f) has a root on the circle at k f = sqrt(1 - k)."""
    k = 0.8
    limit = policy_limit(delayed(k / (LOG_4 * 0.9)), PolicyPath(0.021), maximum=0.039, step=0.004)
    assert limit.value == pytest.approx(0.02 * (1.0 + np.sqrt(1.0 - k) / k), rel=1e-9)
    assert limit.is_proven and limit.lower < limit.upper < limit.lower * (1.0 + 2e-10)
    assert limit.radii == pytest.approx((1.0, 1.0), abs=1e-8) and 20.0 < limit.frequency < 80.0
    none = policy_limit(delayed(0.1), PolicyPath(0.021), maximum=0.03, step=0.004)
    assert none.upper == none.value == np.inf and none.lower == 0.03 and np.isnan(none.frequency)


@pytest.mark.parametrize("n_intervals", [2, 5])
def test_a_policy_that_is_almost_a_relay_cycles_as_a_relay(n_intervals):
    """log w moves by d per interval: the orbit is a triangle over 4 k + 2 intervals."""
    d, n_steps = 0.01 * LOG_4, 4 * n_intervals + 2
    cycle = policy_cycle(delayed(1000.0, 0.01), PolicyPath(0.02 * n_intervals), steps=600)
    assert cycle.orbit_period == pytest.approx(0.02 * n_steps, rel=1e-3)
    assert cycle.orbit_amplitude == pytest.approx(0.25 * n_steps * d, rel=0.03)
    assert cycle.period == pytest.approx(0.02 * n_steps, rel=0.01)
    assert cycle.amplitude == pytest.approx(4.0 * d / np.pi / (2.0 * np.sin(np.pi / n_steps)), rel=0.01)
    assert cycle.mean == pytest.approx(0.9, rel=2e-3)


def test_bad_input_is_refused_in_one_line():
    path = PolicyPath(0.03)
    for call, error, message in [
        (
            lambda: policy_limit(delayed(0.1), path, "capacity", maximum=1.0, step=0.1),
            ValueError,
            "parameter must be one",
        ),
        (lambda: policy_limit(delayed(0.1), path, maximum=0.02, step=0.1), ValueError, "maximum must be > 0.03, in"),
        (lambda: policy_limit(delayed(0.1), path, maximum=0.1, step=1e-9), ValueError, "maximum must be > 0.03, in"),
        (lambda: policy_limit(delayed(3.0), path, maximum=0.1, step=0.01), ValueError, "path must have a stable loop"),
        (
            lambda: policy_cycle(delayed(0.1), path),
            LinearizationError,
            "no limit cycle: the run from w/.D M. = 0.8 is at",
        ),
    ]:
        with pytest.raises(error, match=f"^{message}"):
            call()


@pytest.mark.parametrize("parameter", [None, "rtt", "interval"])
@pytest.mark.parametrize("protocol", [ecc.models.Orca(), ecc.models.Aurora()])
def test_protocols_with_policies_have_no_critical_gain_and_say_why(protocol, parameter):
    network = ecc.Network.dumbbell("10 Mb/s", [0.05])
    with pytest.raises(
        ValueError, match=f"^{type(protocol).__name__} has no linear model: its hosts act at the ends of"
    ):
        ecc.stability.critical_gain(protocol, network, parameter)


@pytest.mark.slow
def test_packets_rest_below_the_limit_of_orcas_actor_and_cycle_above():
    """At the limit a neuron switches: the spectral radius jumps, and no root passes the circle."""
    actor = orca_actor()
    limit = policy_limit(actor, PolicyPath(0.078), maximum=0.081, step=2.5e-4)
    assert limit.value == pytest.approx(0.0797349, rel=1e-6)
    assert limit.radii[0] < 0.99 and limit.radii[1] > 1.003
    ranges = {}
    for rtt in (0.0797, 0.0798):
        network = ecc.Network.dumbbell("200 Mb/s", [rtt], buffer=None, packet_size=1000)
        run = ecc.packet.simulate(ecc.Scenario(network, paced_policy(actor, "200 Mb/s"), duration=60.0), sample=0.02)
        ranges[rtt] = 0.5 * np.ptp(np.log(run.rate.to_numpy()[-200:, 0]))
        model = np.log(policy_run(actor, PolicyPath(rtt), [0.8], 3000)[-200:])
        assert policy_loop(actor, PolicyPath(rtt)).is_stable is bool(np.ptp(model) < 1e-3) is (rtt < limit.value)
    cycle = policy_cycle(actor, PolicyPath(0.0798))
    assert ranges[0.0797] < 0.003 and ranges[0.0798] == pytest.approx(cycle.orbit_amplitude, abs=0.003)
    assert cycle.amplitude == pytest.approx(cycle.orbit_amplitude, rel=0.05)
    assert cycle.period == pytest.approx(cycle.orbit_period, rel=0.01)
