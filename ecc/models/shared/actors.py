"""Trained networks that come with the package, as files in `ecc/models/data`.

`aurora_actor.npz`: trained in this project for Aurora (docs/train_a_controller.md), written by `DenseNetwork.save`.

`orca_actor.npz`: the actor of Orca's published policy (checkpoint 1283529 of github.com/Soheil-ab/Orca, MIT license in
`LICENSE-orca`), with arrays named as its variables. With s of 70 entries,

    h_1 = leaky(n_1(s fc1.kernel + fc1.bias))   h_2 = leaky(n_2(h_1 fc2.kernel + fc2.bias))
    a   = tanh(h_2 dense.kernel + dense.bias)

    leaky  leaky ReLU with slope 0.2   n_k  batch normalization at inference, (x - moving_mean)/sqrt(moving_variance +
    0.001) + beta, without a scale
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from ecc.laws.dense_network import DenseNetwork, folded

__all__ = ["ACTORS", "aurora_actor", "orca_actor"]

DATA = Path(__file__).parents[1] / "data"
LEAKY_SLOPE, EPSILON = 0.2, 1e-3


@cache
def orca_actor() -> DenseNetwork:
    """Return the actor of Orca's published policy, with its normalizations folded into the dense layers.

    Examples
    --------
    >>> orca_actor()
    DenseNetwork(70-256-256-1, leaky_relu, leaky_relu, tanh)
    """
    steps: list[tuple[object, ...]] = []
    with np.load(DATA / "orca_actor.npz", allow_pickle=False) as arrays:
        for dense, norm in (("fc1", "batch_normalization"), ("fc2", "batch_normalization_1")):
            mean, variance, beta = (arrays[f"actor.{norm}.{x}"] for x in ("moving_mean", "moving_variance", "beta"))
            steps.append(("dense", arrays[f"actor.{dense}.kernel"].T, arrays[f"actor.{dense}.bias"]))
            steps.append(("normalize", mean, variance, EPSILON, np.ones(len(mean)), beta))
            steps.append(("leaky_relu", LEAKY_SLOPE))
        steps += [("dense", arrays["actor.dense.kernel"].T, arrays["actor.dense.bias"]), ("tanh",)]
    return folded(steps)


@cache
def aurora_actor() -> DenseNetwork:
    """Return the network of Aurora that was trained in this project.

    Examples
    --------
    >>> aurora_actor()
    DenseNetwork(30-32-16-1, tanh, tanh, linear)
    """
    return DenseNetwork.load(DATA / "aurora_actor.npz")


ACTORS: dict[str, Callable[[], DenseNetwork]] = {"aurora": aurora_actor, "orca": orca_actor}
"""Name -> function that returns the network."""
