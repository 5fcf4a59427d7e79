"""Linear models of protocols whose hosts and routers act once per round (`ecc.contract.forms.RoundMap`).

    discrete     z[n+1] = J z[n]                      z: deviations of the states; a step is a round
    a cycle      z[n+1] = J_N ... J_2 J_1 z[n]        a step is a cycle of N rounds
    continuous   D_i x_i' = F_i(x(t - D_i)) - x_i     each state moves to its next value over the length D_i of a round

F is the map and J its derivative, computed exactly by jets of its law. The continuous model spreads all actions evenly
over a round; if a law jumps at its orbit, F is the average of its sides that stays there (`RoundMap.averaged`). The
linear form is D_i z_i' = sum_j J_ij z_j(t - D_i) - z_i. If states can be ordered such that each depends on earlier ones
only, J is nilpotent, the characteristic function is prod (1 + s D_i), and the model is stable for all delays.

Discrete states (flags, counts) have no deviations: the model holds for deviations that change no decision. A cycle has
no continuous model, because the averaged form moves to a fixed point of F, and F has none there.

The open loop has no feedback: each state is 0 after a round, or decays as exp(-t/D_i). So a gain margin is the factor
of J at which the loop becomes unstable.
"""

from __future__ import annotations

import numbers
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc.contract.forms import RoundMap
from ecc.contract.protocol import Protocol
from ecc.errors import LinearizationError
from ecc.laws.jets import jacobian
from ecc.linear import DelaySystem, SampledSystem
from ecc.loops.options import ModelChoice
from ecc.network.network import Network

__all__ = ["linearize_rounds"]

_RETURNS = 1e-9  # relative difference of a state after the rounds of an orbit
_ROUNDING = 1e-12  # distance of the dominant root from the limit, which rounding of the derivatives can explain
_AT_THE_LIMIT = (
    "a root is on the stability limit up to the rounding of the derivatives, which decides the verdict: for example, "
    "flows keep any split of their rates"
)
_NO_GAIN = "feedback acts once in each round of a cycle, and one gain multiplies all of them"


def linearize_rounds(protocol: Protocol, network: Network, choice: ModelChoice) -> DelaySystem | SampledSystem:
    """Return the linear model of a map per round, at its fixed point or over its cycle.

    Parameters
    ----------
    protocol : Protocol
        Protocol with a `round_map`.
    network : Network
    choice : ModelChoice
        Time, "discrete" or "continuous"; all other options must be None.

    Returns
    -------
    SampledSystem or DelaySystem
        States are the continuous states of the map, in its order.

    Raises
    ------
    LinearizationError
        The network has no such map; the law has a kink at the orbit, or the state is not on an orbit of the map; in
        continuous time, the orbit is a cycle.
    ValueError
        Time is "hybrid", or another option is not None.
    TypeError
        `round_map` does not return a RoundMap of numbers, or its law is not in the language of laws.
    """
    name = type(protocol).__name__
    if choice.time == "hybrid":
        raise ValueError(f"{name} has no hybrid model: time must be 'discrete' or 'continuous' for a map per round")
    for option in ("assignment", "mean_rtt"):
        if getattr(choice, option) is not None:
            raise ValueError(f"{option} must be None for a map per round, got {shown(getattr(choice, option))}")
    form = protocol.round_map(network)
    _check_form(name, form)
    if choice.time == "continuous" and form.averaged is not None:
        form = form.averaged
        _check_form(name, form)
    if choice.time == "continuous" and form.rounds > 1:
        raise LinearizationError(
            f"{name} has no continuous model: its map has a cycle of {form.rounds} rounds and no fixed point there; "
            "use time='discrete'"
        )
    product, kinks = _derivative(name, form)
    if kinks and not form.one_sided:
        raise LinearizationError(
            f"{name} has no linear model: its map per round has a kink at the orbit, in state {kinks[0]}"
        )
    notes = [*form.notes, *([form.one_sided] if kinks else [])]
    if choice.time == "continuous":
        return _continuous(form, product, notes)
    if form.rounds > 1:
        notes.insert(0, f"cycle of {form.rounds} rounds")
    step = form.rounds * float(form.duration)
    opened = SampledSystem([0.0 * product], [0], dt=step, notes=[_NO_GAIN] if form.rounds > 1 else [])
    system = SampledSystem([product], [0], dt=step, opened=opened)
    steps = system.deadbeat_steps
    if steps is not None:
        notes.append(f"small deviations are 0 after {steps} {'cycle' if form.rounds > 1 else 'round'}s")
    if abs(system.spectral_radius - 1.0) < _ROUNDING:
        notes.append(_AT_THE_LIMIT)
    return system.with_notes(*notes)


def _check_form(name: str, form: Any) -> None:
    """Refuse a declaration that is not a map of numbers."""
    if not isinstance(form, RoundMap):
        raise TypeError(f"round_map of {name} must return a RoundMap, got {shown(form)}")
    numeric = all(isinstance(value, numbers.Real) for value in form.state)
    if not (numeric and all(isfinite(value) for value in form.state)):
        raise TypeError(f"state of the round_map of {name} must have finite numbers, got {shown(form.state)}")
    if not any(_is_continuous(value) for value in form.state):
        raise ValueError(f"state of the round_map of {name} must have a float, got {shown(form.state)}")
    if not isinstance(form.rounds, int) or form.rounds < 1:
        raise ValueError(f"rounds of the round_map of {name} must be an int >= 1, got {shown(form.rounds)}")
    if not (isinstance(form.duration, numbers.Real) and 0.0 < form.duration < float("inf")):
        raise ValueError(f"duration of the round_map of {name} must be > 0 s, got {shown(form.duration)}")
    if form.delays and len(form.delays) != len(form.state):
        raise ValueError(
            f"delays of the round_map of {name} must have {len(form.state)} entries, got {len(form.delays)}"
        )


def _is_continuous(value: object) -> bool:
    return not isinstance(value, int)


def _derivative(name: str, form: RoundMap) -> tuple[NDArray[np.float64], list[int]]:
    """Return the product of derivatives over the rounds of the orbit, and the states with a kink."""
    varied = [k for k, value in enumerate(form.state) if _is_continuous(value)]
    product = np.eye(len(varied))
    kinks: list[int] = []
    for state in _orbit(name, form):
        rows = jacobian(form.law, state, form.p, varied)
        product = np.array([rows.slopes[k] for k in varied]) @ product
        kinks += rows.kinks
    return product, kinks


def _orbit(name: str, form: RoundMap) -> list[list[Any]]:
    """Return the state before each round, and refuse an orbit that does not return."""
    state: list[Any] = list(form.state)
    orbit = []
    for _ in range(form.rounds):
        orbit.append(state)
        values = jacobian(form.law, state, form.p, []).values
        if len(values) != len(state):
            raise ValueError(f"the law of the round_map of {name} must return {len(state)} states, got {len(values)}")
        state = [value if _is_continuous(old) else int(value) for old, value in zip(state, values, strict=True)]
    for k, (before, after) in enumerate(zip(form.state, state, strict=True)):
        allowed = _RETURNS * max(abs(before), abs(after)) + 1e-12 if _is_continuous(before) else 0.0
        if abs(after - before) > allowed:
            model = "linear" if form.averaged is None else "discrete"
            raise LinearizationError(
                f"{name} has no {model} model here: its map per round does not return after {form.rounds} "
                f"round{'' if form.rounds == 1 else 's'}, state {k} is {after:g} instead of {before:g}"
            )
    return orbit


def _continuous(form: RoundMap, slopes: NDArray[np.float64], notes: list[str]) -> DelaySystem:
    """Return the averaged model: each state moves to its next value over a round, which takes as long to be known."""
    all_delays = form.delays or (form.duration,) * len(form.state)
    delays = np.array([d for d, value in zip(all_delays, form.state, strict=True) if _is_continuous(value)])
    matrices = [-np.diag(1.0 / delays)]
    distinct = np.unique(delays)
    for delay in distinct:
        matrices.append(np.where((delays == delay)[:, None], slopes / delays[:, None], 0.0))
    opened = DelaySystem([matrices[0]], [0.0])
    system = DelaySystem(matrices, [0.0, *distinct], opened=opened)
    if abs(system.spectral_abscissa) * float(distinct.max()) < _ROUNDING:
        notes = [*notes, _AT_THE_LIMIT]
    return system.with_notes(*notes)
