"""Random cycles: the motion of loops in which hosts or routers draw random numbers.

Such a loop has no periodic orbit. Its random map has a mean motion, and a Lyapunov exponent (`ecc.cycles.lyapunov`),
the mean logarithm of the growth of a deviation between two runs with the same draws. If the exponent is negative, runs
forget small deviations although the motion remains random. `random_cycle` returns both for

- hosts with windows over a queue discipline that chooses packets at random (`ecc.cycles.random_windows`). The exponent
  is that of windows and the queue, in two runs with the same probabilities: the state of a discipline acts on windows
  through draws only, which the derivative of the random map does not see. The mean map has this loop. It is the linear
  model at the equilibrium (`ecc.loops.marked_hosts`); its multipliers are z^(T/step) or exp(s T) with the period T.
- maps per round with random choices of hosts (`RoundMap.random_law`).

The period of windows is the mean time between two signals to a flow, that of a map per round the mean time between two
maxima of its first state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.kinds import Kind, kind_of_laws
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.lyapunov import LyapunovExponents, lyapunov_exponents
from ecc.cycles.random_windows import RandomWindows, random_step, random_windows
from ecc.errors import EccError, LinearizationError
from ecc.linear import SampledSystem
from ecc.loops.closed_loop import linearize
from ecc.network.network import Network

__all__ = ["random_cycle"]

_FLOW_STEPS, _MIN_STEPS = 9_000, 400  # steps of single flows that a run evaluates; minimum number of steps
_LONGER, _SEED = 4, 1  # length and seed of the run without derivatives for period and queue, in runs with derivatives
_ROUNDS = 4_000  # rounds of a map per round
_ROOTS = 3  # dominant roots of the mean map


def random_cycle(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    """Return the random cycle of a loop, with the multipliers of its mean map and its Lyapunov exponent.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
        Hosts over a queue discipline, or a protocol with a map per round that draws.
    network : Network
    time : str
        "continuous" or "discrete".

    Raises
    ------
    LinearizationError
        The loop draws no random numbers, or its random map is not supported.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("20 Mb/s", rtts=["100 ms"] * 2)
    >>> loop = ecc.contract.assignment.ProtocolAssignment(ecc.models.NewReno(), ecc.queues.PI())
    >>> cycle = random_cycle(loop, net, "discrete")
    >>> cycle.object, cycle.stable
    ('random cycle', True)
    """
    if isinstance(loop, ProtocolAssignment):
        return _of_windows(loop, network, time)
    if kind_of_laws(loop) is not Kind.ROUND_MAP:
        raise LinearizationError("it declares neither a queue discipline nor a map per round that draws")
    if time != "discrete":
        raise LinearizationError("its random map per round is in discrete time")
    return _of_rounds(loop, network)


def _of_windows(loop: ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    windows = random_windows(loop, network, time)
    steps = max(_FLOW_STEPS // windows.draws, _MIN_STEPS)
    size, width = windows.draws, len(windows.p.flows[0].states) + 2
    motion = lyapunov_exponents(
        random_step,
        windows.state,
        windows.p,
        size,
        varied=[k for k in range(size * width + 1) if (k + 1) % width or k == size * width],
        steps=steps,
        settling=max(steps // 4, 1),
    )
    states = _later(windows, motion, _LONGER * steps)
    queue = states[:, size * width]
    jumps = float(states[-1, -1] - states[0, -1])
    if jumps < size:
        raise LinearizationError(f"its flows have {jumps:g} signals in {len(states)} steps, too few for a cycle")
    per_period = len(states) * size / jumps
    seconds = windows.rtt / windows.steps_per_rtt
    packet = windows.p.packet / 8.0
    length = max(round(per_period), 1)
    mean, swing = _swing(queue * packet, length)
    multipliers, notes = _of_mean_map(loop, network, time, per_period * seconds)
    shown = slice(-length - 1, None)
    return _result(
        motion,
        per_period,
        seconds,
        LimitCycle(
            "random cycle",
            time,
            per_period * seconds,
            mean,
            swing,
            multipliers,
            method="multipliers of the linear model at the equilibrium; exponent of all flows' random map, by jets",
            orbit={
                "time": seconds * np.arange(length + 1.0)[-len(queue[shown]) :],
                "queue": queue[shown] * packet,
                "windows": states[shown, : size * width : width].T / 8.0,
            },
            notes=(
                "period: mean time between two signals to a flow",
                "amplitude: mean over periods",
                "exponent of windows in two runs with the same draws and probabilities",
                *notes,
            ),
        ),
    )


def _later(windows: RandomWindows, motion: LyapunovExponents, steps: int) -> NDArray[np.float64]:
    """Return the states of a longer run without derivatives, from the last state of a run on."""
    rng = np.random.default_rng(_SEED)
    state = [
        int(value) if isinstance(old, int) else value
        for old, value in zip(windows.state, motion.states[-1].tolist(), strict=True)
    ]
    states = np.zeros((steps, len(state)))
    for step in range(steps):
        states[step] = state
        state = random_step(state, rng.random(windows.draws).tolist(), windows.p)
    return states


def _of_rounds(loop: Protocol, network: Network) -> LimitCycle:
    form = loop.round_map(network)
    if form.random_law is None:
        raise LinearizationError("its map per round makes no random choices")
    motion = lyapunov_exponents(form.random_law, form.state, form.p, form.draws, steps=_ROUNDS, settling=_ROUNDS // 4)
    first = motion.states[:, 0]
    maxima = int(np.count_nonzero((first[1:-1] > first[:-2]) & (first[1:-1] >= first[2:])))
    per_period = len(first) / max(maxima, 1)
    return _result(
        motion,
        per_period,
        form.duration,
        LimitCycle(
            "random cycle",
            "discrete",
            per_period * form.duration,
            float("nan"),
            float("nan"),
            np.zeros(0, dtype=complex),
            method="exponent of the map per round with the random choices of hosts, by jets",
            notes=(
                "period: mean time between two maxima of the first state",
                "two runs have the same draws in each round",
                *form.notes,
            ),
        ),
    )


def _result(motion: LyapunovExponents, per_period: float, seconds: float, cycle: LimitCycle) -> LimitCycle:
    """Return the cycle with the exponent per period, and the verdict that its interval and its mean map allow."""
    low, high = (float(bound) * per_period for bound in motion.intervals[0])
    decays = True if high < 0.0 else False if low > 0.0 else None
    if decays and len(cycle.multipliers) and np.abs(cycle.multipliers[0]) >= 1.0:
        decays = False
    values: dict[str, Any] = {name: getattr(cycle, name) for name in cycle.__dataclass_fields__}
    values |= {"exponent": float(motion.exponents[0]) * per_period, "interval": (low, high), "stable": decays}
    return LimitCycle(**values)


def _swing(queue: NDArray[np.float64], length: int) -> tuple[float, float]:
    """Return the mean of a series, and the mean over periods of half of its peak-to-peak range."""
    periods = max(len(queue) // length, 1)
    parts = np.array_split(queue[: periods * length], periods)
    return float(queue.mean()), float(np.mean([0.5 * np.ptp(part) for part in parts]))


def _of_mean_map(
    loop: ProtocolAssignment, network: Network, time: str, period: float
) -> tuple[NDArray[np.complex128], tuple[str, ...]]:
    """Return the multipliers per period of the linear model at the equilibrium, and its notes."""
    try:
        system = linearize(loop, network, time)
        roots = np.array(system.roots(_ROOTS), dtype=complex)
    except (EccError, ValueError) as error:
        return np.zeros(0, dtype=complex), (f"no mean map: {error}",)
    if isinstance(system, SampledSystem):
        step = system.sampling[1]
        multipliers = np.asarray(roots ** (period / step) if step else roots, dtype=complex)
    else:
        multipliers = np.asarray(np.exp(roots * period), dtype=complex)
    return multipliers[np.argsort(-np.abs(multipliers))], tuple(system.notes)
