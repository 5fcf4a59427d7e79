"""Conversion to objects of python-control, without any approximation of delays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ecc._support.arguments import check_arguments
from ecc.linear.frequency_response import nyquist
from ecc.linear.systems import LinearSystem

__all__ = ["to_control"]

_MAX_STATES = 5000


@check_arguments
def to_control(system: LinearSystem) -> Any:
    """Return the python-control object of a system.

    Parameters
    ----------
    system : LinearSystem
        SampledSystem, or DelaySystem built with `opened`.

    Returns
    -------
    object
        StateSpace (SampledSystem): the companion form with dt (True if the step length is unknown), from a disturbance
        added to x[n+1] to x[n]; its poles are all roots, and zeros due to the delay line. FrequencyResponseData
        (DelaySystem): exact samples of the open loop on the mesh of `nyquist`.

    Raises
    ------
    ValueError
        The DelaySystem has no `opened`, or the companion form has more than 5000 states.
    ImportError
        python-control is not installed.

    Examples
    --------
    >>> system = ecc.linearize(ecc.models.QIRCP(), ecc.Network.dumbbell("1 Gb/s", [0.1]), time="discrete")
    >>> to_control(system).dt
    0.01
    """
    import control

    sampled, dt = system.sampling
    if not sampled:
        curve = nyquist(system)
        finite = np.isfinite(curve.response)
        return control.frd(curve.response[finite], curve.omega[finite])
    n, longest = system.size, int(system.delays[-1]) + 1
    if n * longest > _MAX_STATES:
        raise ValueError(f"the companion form must have <= {_MAX_STATES} states, this system needs {n * longest}")
    a = np.eye(n * longest, k=-n)
    for matrix, delay in zip(system.matrices, system.delays.astype(int), strict=True):
        a[:n, delay * n : (delay + 1) * n] += matrix
    unit = np.eye(n * longest, n)
    return control.ss(a, unit, unit.T, np.zeros((n, n)), True if dt is None else dt)
