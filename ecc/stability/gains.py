"""Critical gains: where a protocol first loses stability as one of its parameters grows."""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf
from typing import Any

from ecc.arguments import check_arguments, shown
from ecc.closed_loop import linearize
from ecc.linear import DelaySystem, Loss, SampledSystem, first_loss
from ecc.models.base import Protocol
from ecc.network import Network

__all__ = ["critical_gain", "gain_names"]


def gain_names(protocol: Protocol) -> list[str]:
    """Return the names of the numeric parameters of a protocol.

    Parameters
        protocol : Protocol.
    """
    return [f.name for f in fields(protocol) if "float" in str(f.type)]


@check_arguments
def critical_gain(
    protocol: Protocol,
    network: Network,
    parameter: str,
    time: str = "continuous",
    certify: bool = False,
    maximum: float = inf,
    **options: Any,
) -> Loss:
    """Return the first loss of stability as a parameter grows from 0, all others fixed.

    Parameters
        protocol : Protocol. network : Network.
        parameter : name of a numeric parameter; "alpha" of PIQI-RCP moves alpha1 and alpha2 where these are None.
        time : "continuous", "discrete" or "hybrid", as in linearize.
        certify : also prove stability up to just below the value, and instability just above it (`first_loss` has what
            that takes of a parameter in which the models are not affine).
        maximum : float. Look no further than this.
        options : for linearize (assignment, approximation, mean_rtt, phases).
    Returns
        Loss: value (0: unstable already as the gain -> 0; inf: never lost, frequency nan), frequency [rad/s, or
        rad/step of a sampled system], certified (lo, hi) or None, crossings, notes (of the model at the value, or at
        the first gain looked at where the value is 0 or inf).
    Raises
        ValueError: a parameter that the protocol has not. LinearizationError: no linear model there.
    Notes: a parameter is searched up to where the protocol takes it (complete_to). Models affine in it (gains of the
        integral and explicit-rate routers) are solved exactly, others (intervals, filters, exponential laws) counted;
        which one is read off the models and checked on about a hundred of them, as `ecc.linear.first_loss` states
        together with what that guarantees and what not. Cost: these linear models, 0.6 ms each, and counts.
    Example
        >>> from ecc.models import QIRCP
        >>> round(critical_gain(QIRCP(), Network.dumbbell("1 Gb/s", [0.1]), "alpha", time="discrete").value, 6)
        1.651587
    """
    names = gain_names(protocol)
    if parameter not in names:
        raise ValueError(f"parameter must be one of {', '.join(names)}, got {shown(parameter)}")

    notes: dict[float, tuple[str, ...]] = {}

    def family(gain: float) -> DelaySystem | SampledSystem:
        system = linearize(replace(protocol, **{parameter: gain}), network, time, **options)
        notes[gain] = system.notes
        return system

    loss = first_loss(family, maximum=maximum, certify=certify)
    first = next(iter(notes))
    model = family(loss.value).notes if 0.0 < loss.value < inf else notes[first]
    return replace(loss, notes=(*model, *loss.notes))
