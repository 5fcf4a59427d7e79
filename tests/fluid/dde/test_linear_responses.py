"""Time responses of linear models with delays against closed forms, and linear systems of right-hand sides."""

from math import factorial

import numpy as np
import pytest

from ecc.errors import LinearizationError
from ecc.fluid import (
    forced_response,
    impulse_response,
    initial_response,
    linearize_dde,
    step_response,
)
from ecc.laws.elementary import exp, tanh
from ecc.linear import DelaySystem, block, delay, distributed_delay, stability_limit, transfer_function

T = np.linspace(0.0, 10.0, 201)
INTEGRATOR = transfer_function([1.0], [1.0, 0.0])


def steps(t, k, order=0):
    """Step response of k exp(-s)/s in unit feedback by the method of steps, or a derivative of it."""
    terms = range(max(1, order), 30)
    return sum(
        (-1) ** (j - 1) * k**j * np.where(t >= j, (t - j).clip(0.0) ** (j - order), 0.0) / factorial(j - order)
        for j in terms
    )


@pytest.mark.slow
def test_step_and_impulse_by_the_method_of_steps():
    loop = (INTEGRATOR * delay(1.0, 1.0) * 0.8).feedback()
    assert abs(step_response(loop, T) - steps(T, 0.8)).max() < 1e-9
    assert abs(impulse_response(loop, T) - steps(T, 0.8, 1)).max() < 1e-9


def test_a_delay_alone_and_a_loop_without_states():
    assert step_response(delay(1.0, 1.0), [0.5, 1.0, 2.0]).tolist() == [0.0, 1.0, 1.0]
    echo = delay(1.0, 0.5).feedback(0.5)
    assert step_response(echo, [0.25, 0.5, 1.0, 5.0]) == pytest.approx([0.0, 1.0, 0.5, (1 - 0.5**10) / 1.5])


@pytest.mark.slow
def test_several_inputs():
    model = block([[transfer_function([1.0], [1.0, 1.0], 0.5), 2.0], [0.0, transfer_function([3.0], [1.0, 2.0], 1.0)]])
    y = step_response(model, T)
    assert y.shape == (len(T), 2, 2)
    assert y[:, 0, 0] == pytest.approx(1 - np.exp(-(T - 0.5).clip(0.0)), abs=1e-9)
    assert (y[:, 0, 1] == 2.0).all() and not y[:, 1, 0].any()
    assert y[:, 1, 1] == pytest.approx(1.5 * (1 - np.exp(-2 * (T - 1.0).clip(0.0))), abs=1e-9)


@pytest.mark.slow
def test_forced_responses():
    lag = transfer_function([1.0], [1.0, 1.0], 1.0)
    pulse = forced_response(lag, T, lambda t: 1.0 if t < 2.0 else 0.0, breaks=[2.0])
    first, second = (1 - np.exp(-(T - at).clip(0.0)) for at in (1.0, 3.0))
    assert abs(pulse - (first - second)).max() < 1e-9
    sampled = forced_response(lag, T, T)
    assert sampled == pytest.approx((T - 1).clip(0.0) - (1 - np.exp(-(T - 1).clip(0.0))), abs=1e-9)


def test_a_moving_average_and_an_initial_response():
    assert step_response(distributed_delay(2.0, [0.5]), [0.0, 1.0, 3.0]) == pytest.approx([0.0, 0.5, 1.0])
    x = initial_response(DelaySystem([-1.0], [1.0]), [1.0, 2.0], [1.0])
    assert x[:, 0] == pytest.approx([0.0, -0.5], abs=1e-9)


def neuron(t, y, ylag, a21):
    """Two coupled neurons, as in a demo of DDE-BIFTOOL."""
    return [
        -0.5 * y[0] - tanh(ylag[2, 0]) + tanh(ylag[1, 1]),
        -0.5 * y[1] - tanh(ylag[2, 1]) + a21 * tanh(ylag[0, 0]),
    ]


def test_linear_systems_of_right_hand_sides():
    system = linearize_dde(neuron, [0.0, 0.0], [0.2, 0.2, 1.5], args=[0.5])
    assert system.delays.tolist() == [0.0, 0.2, 1.5]
    assert system.matrices[1].tolist() == [[0.0, 1.0], [0.5, 0.0]]
    neutral = linearize_dde(lambda t, y, z, dz: [-exp(z[0, 0]) + 1.0 + 0.3 * dz[0, 0]], [0.0], [1.0], neutral=True)
    assert neutral.neutral.tolist() == [[[-0.3]]] and neutral.matrices[-1].tolist() == [[-1.0]]


@pytest.mark.slow
def test_the_hopf_point_of_two_neurons():
    """The characteristic equation is (s + 0.5 + exp(-1.5 s))^2 = a21 exp(-0.4 s)."""
    limit = stability_limit(lambda a: linearize_dde(neuron, [0.0, 0.0], [0.2, 0.2, 1.5], args=[a]))
    s = 1j * limit.frequency
    assert (s + 0.5 + np.exp(-1.5 * s)) ** 2 == pytest.approx(limit.value * np.exp(-0.4 * s), abs=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: step_response(INTEGRATOR, [1.0, 0.5]), ValueError, "t must be increasing times >= 0 s"),
        (lambda: step_response(INTEGRATOR, [0.0]), ValueError, "t must be increasing times >= 0 s"),
        (lambda: forced_response(INTEGRATOR, [1.0, 2.0], [1.0]), ValueError, "u must have one sample of each input"),
        (lambda: forced_response(INTEGRATOR, [1.0], lambda t: [1.0, 2.0]), ValueError, "u must return 1 numbers"),
        (
            lambda: initial_response(DelaySystem([-1.0], [1.0], neutral=[0.5], neutral_delays=[1.0]), [1.0], [1.0]),
            ValueError,
            "system must be retarded",
        ),
        (
            lambda: initial_response(DelaySystem([-1.0], [1.0]), [1.0], [1.0, 2.0]),
            ValueError,
            "history must have 1 numbers",
        ),
        (
            lambda: linearize_dde(lambda t, y, z: [1.0 - y[0]], [0.5], [1.0]),
            ValueError,
            "must make f zero, got f = 0.5",
        ),
        (lambda: linearize_dde(lambda t, y, z: [abs(y[0])], [0.0], [1.0]), LinearizationError, "has a kink"),
        (lambda: linearize_dde(lambda t, y, z: [y[0], z[0, 0]], [0.0], [1.0]), ValueError, "f must return 1 numbers"),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()
