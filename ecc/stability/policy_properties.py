"""Properties of a trained policy alone: no cut without congestion, monotone in an input, bounded change under noise.

Related work is whiRL (SIGCOMM 2021) and Canopy (arXiv:2412.10915). Here each property is a bound over a set of inputs,
by the linear bounds of `ecc.linear.network_bounds`, with the set divided:

    range       low <= f(x) <= high on the set          "no cut": 4^a >= 1, that is a >= 0
    monotone    df/dx along a direction has one sign    over all activation patterns that the set reaches
    noise       |f(x + e) - f(x)| <= bound, |e_j| <= noise_j, for one x

The verdict is proven, refuted with an input that violates the property, or undecided with the distance between the
bound and the attained value. None of them decides the stability of the loop: see `ecc.stability.policies`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import Matrix, Positive, Vector, check_arguments, shown
from ecc._support.display import Displayed
from ecc.laws.dense_network import DenseNetwork
from ecc.linear.network_bounds import bound_derivatives, bound_outputs

__all__ = ["PolicyProperty", "check_monotone", "check_noise", "check_range"]

Real = NDArray[np.float64]

_SAMPLES = 64  # inputs at which a monotone policy is tried
_MIN_WIDTH = 2.0**-30  # minimum width of a part, relative to the set


@dataclass(frozen=True, repr=False)
class PolicyProperty(Displayed):
    """Verdict on a property of a policy over a set of inputs.

    Attributes
    ----------
    holds : bool or None
        True: proven; False: refuted by `counterexample`; None: undecided.
    bound : float
        Proven bound of the quantity that the property limits.
    attained : float
        Worst value of it that was found.
    gap : float
        Distance between `bound` and `attained`.
    counterexample : ndarray, shape (n_inputs,), or None
        Input that violates the property, if it is refuted.
    """

    holds: bool | None
    bound: float
    attained: float
    gap: float
    counterexample: Real | None

    def _title(self) -> str:
        return "Property of a policy"


def _verdict(bound: float, attained: float, limit: float, sign: float, point: Real) -> PolicyProperty:
    """Return the verdict on sign * quantity <= sign * limit."""
    holds = True if sign * bound <= sign * limit else (False if sign * attained > sign * limit else None)
    return PolicyProperty(holds, bound, attained, abs(bound - attained), point if holds is False else None)


@check_arguments
def check_range(
    network: DenseNetwork,
    center: Vector,
    directions: Matrix,
    *,
    low: float = -inf,
    high: float = inf,
    max_sets: Positive = 64,
) -> PolicyProperty:
    """Prove or refute that a policy's output stays within limits on a set of inputs.

    Parameters
    ----------
    network : DenseNetwork
        Network with one output.
    center, directions : array_like
        Inputs are center + directions @ t, |t_j| <= 1: shapes (n_inputs,) and (n_inputs, n_directions).
    low, high : float, optional
        Limits of the output, exactly one of them: for example low=0 for "no cut" of a window that changes by 4^a.
    max_sets : Positive, optional
        Maximum number of sets into which the inputs are divided.

    Returns
    -------
    PolicyProperty

    Raises
    ------
    ValueError
        Both limits or none, a network with several outputs, or inputs of another shape.

    Examples
    --------
    >>> from ecc.laws.dense_network import DenseNetwork, Layer
    >>> network = DenseNetwork([Layer([[1.0, -1.0]], [0.5], "tanh")])
    >>> check_range(network, [0.2, 0.1], [[0.1, 0.0], [0.0, 0.1]], low=0.0).holds
    True
    """
    if (low == -inf) == (high == inf):
        raise ValueError(f"exactly one of low and high must be finite, got {shown(low)} and {shown(high)}")
    _check_output(network)
    bounds = bound_outputs(network, center, directions, steps=0, max_sets=max_sets)
    if low > -inf:
        return _verdict(float(bounds.low[0]), float(bounds.attained_low[0]), low, -1.0, bounds.lowest[0])
    return _verdict(float(bounds.high[0]), float(bounds.attained_high[0]), high, 1.0, bounds.highest[0])


def _check_output(network: DenseNetwork) -> None:
    if network.n_out != 1:
        raise ValueError(f"network must have one output, got {network.n_out}")


@check_arguments
def check_noise(
    network: DenseNetwork, center: Vector, noise: Vector, bound: float, *, max_sets: Positive = 64
) -> PolicyProperty:
    """Prove or refute that a policy's output changes by at most a bound under noise on its inputs.

    Parameters
    ----------
    network : DenseNetwork
        Network with one output.
    center : array_like
        Input without noise.
    noise : array_like
        Largest absolute noise of each input, >= 0; the noise of different inputs is independent.
    bound : float
        Allowed change of the output, >= 0.
    max_sets : Positive, optional
        Maximum number of sets into which the inputs are divided.

    Returns
    -------
    PolicyProperty
        The quantity is the largest absolute change.

    Raises
    ------
    ValueError
        A number out of range, a network with several outputs, or inputs of another shape.

    Examples
    --------
    >>> from ecc.laws.dense_network import DenseNetwork, Layer
    >>> network = DenseNetwork([Layer([[1.0, -1.0]], [0.5], "tanh")])
    >>> check_noise(network, [0.2, 0.1], [0.01, 0.01], 0.01).holds
    False
    """
    _check_output(network)
    sizes = np.asarray(noise, dtype=np.float64)
    if np.any(sizes < 0.0) or not bound >= 0.0:
        raise ValueError(f"noise and bound must be >= 0, got {shown(noise)} and {shown(bound)}")
    middle = np.asarray(center, dtype=np.float64)
    if sizes.shape != middle.shape:
        raise ValueError(f"noise must have one entry per input, got shapes {sizes.shape} and {middle.shape}")
    directions = np.diag(sizes)[:, sizes > 0.0] if np.any(sizes > 0.0) else np.zeros((len(sizes), 1))
    bounds = bound_outputs(network, middle, directions, steps=0, max_sets=max_sets)
    output = float(network(middle)[0])
    rounding = 1e-12 * (1.0 + abs(output))
    up, down = float(bounds.high[0]) - output, output - float(bounds.low[0])
    found_up, found_down = float(bounds.attained_high[0]) - output, output - float(bounds.attained_low[0])
    point = bounds.highest[0] if found_up >= found_down else bounds.lowest[0]
    return _verdict(max(up, down) + rounding, max(found_up, found_down), bound, 1.0, point)


@check_arguments
def check_monotone(
    network: DenseNetwork,
    center: Vector,
    directions: Matrix,
    along: Vector,
    *,
    increasing: bool,
    max_sets: Positive = 64,
    seed: int = 0,
) -> PolicyProperty:
    """Prove or refute that a policy's output does not fall, or does not rise, along a direction of its inputs.

    Parameters
    ----------
    network : DenseNetwork
        Network with one output.
    center, directions : array_like
        Inputs are center + directions @ t, |t_j| <= 1: shapes (n_inputs,) and (n_inputs, n_directions).
    along : array_like
        Direction in the space of inputs, for example 1 at minRTT/sRTT in every frame.
    increasing : bool
        True: the derivative must be >= 0; False: <= 0.
    max_sets : Positive, optional
        Maximum number of sets into which the inputs are divided.
    seed : int, optional
        Seed of the inputs at which the derivative is tried.

    Returns
    -------
    PolicyProperty
        The quantity is the derivative along the direction.

    Raises
    ------
    ValueError
        A network with several outputs, or inputs of another shape.

    Examples
    --------
    >>> from ecc.laws.dense_network import DenseNetwork, Layer
    >>> network = DenseNetwork([Layer([[1.0, -1.0]], [0.5], "tanh")])
    >>> check_monotone(network, [0.2, 0.1], [[0.1], [0.1]], [0.0, 1.0], increasing=False).holds
    True
    """
    _check_output(network)
    middle, columns = np.asarray(center, dtype=np.float64), np.asarray(directions, dtype=np.float64)
    direction = np.asarray(along, dtype=np.float64)
    if direction.shape != (network.n_in,):
        raise ValueError(f"along must have {network.n_in} entries, got shape {direction.shape}")
    sign = -1.0 if increasing else 1.0
    pending = [(middle, columns, *_steepest(network, middle, columns, direction, sign))]
    t = np.random.default_rng(seed).uniform(-1.0, 1.0, (_SAMPLES, columns.shape[1]))
    points = np.vstack([middle, middle + t @ columns.T])
    slopes = sign * (network.jacobian(points)[:, 0] @ direction)
    attained, point = float(slopes.max()), points[int(slopes.argmax())]
    while len(pending) < max_sets and attained <= 0.0:
        worst = max(range(len(pending)), key=lambda k: pending[k][2])
        part, spread, bound = pending[worst]
        size = np.abs(spread).sum(axis=0)
        if bound <= 0.0 or size.max() <= _MIN_WIDTH * np.abs(columns).sum(axis=0).max():
            break
        pending.pop(worst)
        at = int(np.argmax(_influence(network, part, spread)))
        half = spread.copy()
        half[:, at] *= 0.5 * (1.0 + 1e-12)
        for side in (-0.5, 0.5):
            shifted = part + side * spread[:, at]
            pending.append((shifted, half, *_steepest(network, shifted, half, direction, sign)))
            slope = sign * float(network.jacobian(shifted)[0] @ direction)
            if slope > attained:
                attained, point = slope, shifted
    return _verdict(sign * max(item[2] for item in pending), sign * attained, 0.0, sign, point)


def _steepest(network: DenseNetwork, center: Real, directions: Real, along: Real, sign: float) -> tuple[float]:
    """Return the largest derivative times the sign, for the whole set."""
    low, high = bound_derivatives(network, center, directions, along[:, None], steps=0)
    return (float(high[0, 0]) if sign > 0.0 else -float(low[0, 0]),)


def _influence(network: DenseNetwork, center: Real, directions: Real) -> Real:
    """Return how much each direction moves the arguments of the first layer, weighted by the layers behind."""
    first = network.layers[0]
    weight = np.ones(len(first.bias))
    if len(network.layers) > 1:
        weight = np.abs(network.layers[1].weight).sum(axis=0)
    return np.asarray(weight @ np.abs(first.weight @ directions))
