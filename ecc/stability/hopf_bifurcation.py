"""The bifurcation at an oscillatory stability limit: a small stable cycle, or growth that no small cycle stops.

For one link and flows with RTTs D_g, the laws are equations of router (R and the announced value), rates x_g and
arrivals y

    lead z(t) = f(z(t - tau_1), z(t - tau_2), ...),   lead = s: a derivative; lead = 1: a value

with the delays of `ecc.loops.explicit_feedback`, in seconds or in steps. With their first three derivatives A_k, B, C
at the equilibrium, Delta(s) = diag(lead) - sum A_k exp(-s tau_k), Delta(jw) q = 0 = p Delta(jw), p Delta'(jw) q = 1 and

    Delta(2jw) h = B(q, q),   Delta(0) g = B(q, q*),   c = p [C(q, q, q*) + B(q*, h) + 2 B(q, g)]/2

motions near the boundary are z = 2 Re(u q exp(jwt)), u' = (sigma + c |u|^2) u. This is the projection of Hassard,
Kazarinoff and Wan (1981, ch. 4). It holds for maps as for delay equations, since it requires only that histories are
exponential. q is scaled: the amplitude of arrivals is |u| times their equilibrium value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf, isnan, nan, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed, Rows, frequency_text
from ecc._support.reports import ProgressCallback
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.kinds import Kind, kind_of_laws, router_takes, source_takes
from ecc.contract.protocol import Protocol
from ecc.contract.values import equilibrium_of
from ecc.errors import LinearizationError
from ecc.laws.arguments import arguments_from, call_law, takes
from ecc.laws.jets import gradient, taylor
from ecc.linear import StabilityLimit
from ecc.loops.closed_loop import linearize, steps_of
from ecc.network.network import Network
from ecc.stability.gains import critical_gain, parameter_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Hopf", "hopf", "hopf_at"]

Complex = NDArray[np.complex128]
Real = NDArray[np.float64]
Place = tuple[int, float]  # index of a variable, and its delay
Mode = tuple[Complex, complex]  # v and s of a motion v exp(s t)

_KINDS = (Kind.EXPLICIT_FEEDBACK, Kind.SAMPLED_PRICES, Kind.STEPPED_RATES, Kind.GRANTED_WINDOWS)
_STEP = 1e-5  # relative step of the finite difference of the characteristic matrix


@check_arguments
@dataclass(frozen=True, repr=False)
class Hopf(Displayed):
    """The start of an oscillation at a critical gain.

    Attributes
    ----------
    value : float
        Critical gain.
    frequency : float, rad/s or rad/step
        Frequency of the oscillation.
    speed : float
        Derivative of the growth rate with respect to the gain at the limit [1/s, or 1/step, per unit of the gain].
    lyapunov : float
        Change of the growth rate by an amplitude a of the arrivals, relative to their mean, divided by a^2 [1/s,
        1/step]. If negative, the bifurcation is supercritical, with a small stable cycle above `value`. If positive, it
        is subcritical: below `value` a small unstable cycle surrounds the stable equilibrium, and larger motions grow.
    turn, detuning : float
        Changes of the frequency with the gain and with the squared amplitude, in the same way.
    parameter : str
        Name of the gain.
    sampled, dt : bool, float or None
        Whether times are in steps, and the length of a step [s], or None.
    """

    value: float
    frequency: float
    speed: float
    lyapunov: float
    turn: float
    detuning: float
    parameter: str = "gain"
    sampled: bool = False
    dt: float | None = None

    def _title(self) -> str:
        kind = (
            "Supercritical Hopf bifurcation: a small stable cycle above the limit"
            if self.is_supercritical
            else "Subcritical Hopf bifurcation: a small unstable cycle below the limit"
        )
        return kind

    def _rows(self) -> Rows:
        unit = "1/step" if self.sampled else "1/s"
        return [
            (f"critical {self.parameter}", f"{self.value:.9g}"),
            ("frequency", frequency_text(self.frequency, self.sampled, self.dt)),
            (f"growth rate per unit of {self.parameter}", f"{self.speed:.4g} {unit}"),
            ("growth rate per squared amplitude (Lyapunov coefficient)", f"{self.lyapunov:.4g} {unit}"),
            (f"frequency per unit of {self.parameter}", f"{self.turn:.4g} rad{unit[1:]}"),
            ("frequency per squared amplitude", f"{self.detuning:.4g} rad{unit[1:]}"),
        ]

    @property
    def is_supercritical(self) -> bool:
        """True if a small stable cycle appears beyond the limit."""
        return self.lyapunov < 0.0

    def amplitude(self, gain: float) -> float:
        """Return the amplitude of arrivals on the cycle at a gain, relative to their mean; nan without a cycle.

        Parameters
        ----------
        gain : float
            Gain near `value`.
        """
        square = -self.speed * (gain - self.value) / self.lyapunov
        return sqrt(square) if square >= 0.0 else nan

    def period(self, gain: float) -> float:
        """Return the period of the cycle [s, or steps].

        Parameters
        ----------
        gain : float
            Gain near `value`.
        """
        return 2.0 * pi / (self.frequency + self.turn * (gain - self.value) + self.detuning * self.amplitude(gain) ** 2)

    def plot(self, span: float = 0.1) -> go.Figure:
        """Return a Plotly figure of the cycle's amplitude over the gain, near the critical gain.

        Parameters
        ----------
        span : float, > 0, optional
            Distance from the critical gain, relative to it. The amplitude is of first order: it holds near that gain.
        """
        from ecc.plot import boundary_figure

        if not 0.0 < span < inf:
            raise ValueError(f"span must be > 0, got {shown(span)}")
        side = 1.0 if (self.lyapunov < 0.0) is (self.speed > 0.0) else -1.0
        gains = self.value * (1.0 + side * span * np.linspace(0.0, 1.0, 101) ** 2)
        amplitude = np.array([self.amplitude(gain) for gain in gains.tolist()])
        kind = "stable cycle" if self.is_supercritical else "unstable cycle"
        return boundary_figure(
            gains,
            {kind: amplitude} if self.is_supercritical else {},
            published=None if self.is_supercritical else {kind: amplitude},
            points={f"critical {self.parameter}": ([self.value], [0.0], None)},
            log_x=False,
            title=self._title(),
            x_title=self.parameter,
            y_title="amplitude of arrivals, share of their mean",
        )


@check_arguments
def hopf(
    protocol: Protocol,
    network: Network,
    parameter: str | None = None,
    time: str = "continuous",
    maximum: float = inf,
    *,
    progress: ProgressCallback | None = None,
) -> Hopf:
    """Return the bifurcation by which a protocol loses stability to an oscillation on one link.

    Parameters
    ----------
    protocol : Protocol
    network : Network
        Network of one link.
    parameter : str, optional
        Name of the gain. None: the protocol's `main_parameter`.
    time : str, optional
        "continuous" or "discrete", as for linearize.
    maximum : float, optional
        Largest gain to be searched, as for critical_gain.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the value that is analyzed, as `text`.

    Returns
    -------
    Hopf

    Raises
    ------
    ValueError
        There are several links, or another time; or hosts set windows, or rates by states of their own; or the gain
        does not lose stability, or loses it without an oscillation (at frequency 0 or pi), or by several roots at once.
    LinearizationError
        The network has no equilibrium, or a law is not smooth there.

    Notes
    -----
    RCP with its queue term has an unconstrained queue, as for linearize. Flows with equal RTTs move together. A mean
    RTT is weighted by the current rates of flows, as in runs. The derivatives are exact, by jets; the speed is a
    central difference.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> bifurcation = hopf(QIRCP(), Network.dumbbell("1 Gb/s", [0.1]))
    >>> bifurcation.is_supercritical, round(bifurcation.amplitude(1.6), 4)  # sqrt(40 (alpha - pi/2)/(3 pi - 2))
    (True, 0.3966)
    """
    if time not in ("continuous", "discrete"):
        raise ValueError(f"time must be 'continuous' or 'discrete', got {shown(time)}")
    _check_loop(protocol, network)
    name = type(protocol).__name__
    kind = kind_of_laws(protocol)
    if kind not in _KINDS or not (parameter or protocol.main_parameter):
        linearize(protocol, network, time)  # a protocol without a linear model is refused with the reason
    if kind not in _KINDS:
        raise ValueError(f"the kind of loop of {name} must be one of {', '.join(_KINDS)}, got {kind}")
    parameter = parameter_of(protocol, parameter)
    loss = critical_gain(protocol, network, parameter, time, maximum=maximum, progress=progress)
    if not 0.0 < loss.value < maximum:
        raise ValueError(f"{parameter} of {name} must lose stability somewhere, got a critical value of {loss.value:g}")
    return hopf_at(protocol, network, parameter, loss)


def hopf_at(protocol: Protocol, network: Network, parameter: str, loss: StabilityLimit) -> Hopf:
    """Return the bifurcation at a known stability limit.

    Parameters
    ----------
    protocol : Protocol
    network : Network
        Network of one link.
    parameter : str
        Name of the gain.
    loss : StabilityLimit
        Result of `critical_gain` with a value > 0.

    Raises
    ------
    ValueError, LinearizationError
        As for `hopf`.
    """
    _check_loop(protocol, network)
    time = "discrete" if loss.sampled else "continuous"
    name = type(protocol).__name__
    w = loss.frequency
    if w < 1e-6 or (time == "discrete" and w > pi - 1e-6):
        raise ValueError(f"{name} must lose stability by an oscillation, got frequency {w:g} at {loss.value:g}")

    def loop(gain: float) -> _Loop:
        return _Loop(replace(protocol, **{parameter: gain}), network, time)

    at = loop(loss.value)
    left_vectors, sizes, right_vectors = np.linalg.svd(at.characteristic(1j * w))
    q, p = right_vectors[-1].conj(), left_vectors[:, -1].conj()
    slope = complex(p @ at.characteristic(1j * w, slope=True) @ q)
    roots = linearize(replace(protocol, **{parameter: loss.value}), network, time).roots(4)
    growth, turn = (np.log(np.abs(roots)), np.angle(roots)) if time == "discrete" else (roots.real, roots.imag)
    n_others = np.sum((growth > -1e-6 * w) & (np.abs(np.abs(turn) - w) > 1e-3 * w))
    if n_others or sizes[-1] > 1e-6 * sizes[0] or abs(slope) < 1e-6 * sizes[0]:
        raise LinearizationError(f"the loop of {name} has no simple root at its boundary, {parameter} = {loss.value:g}")
    q = _complex(q / (2.0 * q[at.y]))
    p = p / complex(p @ at.characteristic(1j * w, slope=True) @ q)
    forward, back = (q, 1j * w), (_complex(q.conj()), -1j * w)
    twice = _complex(np.linalg.solve(at.characteristic(2j * w), at.second(forward, forward)))
    mean = _complex(np.linalg.solve(at.characteristic(0.0), at.second(forward, back)))
    force = at.third(forward) + at.second(back, (twice, 2j * w)) + 2.0 * at.second(forward, (mean, 0j))
    c = complex(p @ force) / 2.0
    step = _STEP * loss.value
    change = loop(loss.value + step).characteristic(1j * w) - loop(loss.value - step).characteristic(1j * w)
    speed = -complex(p @ change @ q) / (2.0 * step)
    return Hopf(loss.value, w, speed.real, c.real, speed.imag, c.imag, parameter, loss.sampled, loss.dt)


def _check_loop(protocol: Protocol, network: Network) -> None:
    """Refuse networks and laws for which the coefficient is not defined."""
    if network.n_links != 1:
        raise ValueError(f"network must have one link, got {network.n_links}")
    if protocol.has_affine_laws:
        kind = type(protocol).__name__
        raise ValueError(
            f"laws must be nonlinear; those of {kind} are affine, and only limits of rates and queues stop oscillations"
        )


class _Loop:
    """The laws of a protocol on one link, around their equilibrium.

    Each row of `terms` is the equation of one variable, lead z = law(arguments); each argument is a delayed variable.
    Sources receive announced values at once, and their fluid arrives an RTT later: on one link only the sum matters.
    """

    def __init__(self, protocol: Protocol, network: Network, time: str) -> None:
        sampled = time == "discrete"
        T = float(protocol.params()["interval"])
        delays = [steps_of(float(r), T) if sampled else float(r) for r in network.rtts]
        rtts = np.array(delays) * (T if sampled else 1.0)
        point = equilibrium_of(protocol, network)
        y, n_flows, limit = float(point.rates.sum()), float(network.n_flows), protocol.scaling_rtt_limit
        supply = _router_arguments(protocol, network, point, rtts)
        R, d, p = supply["R"], supply["d"], supply["p"]
        if router_takes(protocol, "x"):
            raise ValueError(f"the router of {type(protocol).__name__} takes the rate of each flow")
        groups = sorted(set(zip(delays, point.rates.tolist(), strict=True)))
        has_memory = router_takes(protocol, "R")
        step = 1.0 if sampled else T  # control interval in the unit of the delays
        self.y, state, announced = 0, 1, 1 if protocol.announce_law is None else 2
        first = announced + 1
        self.queue = first + len(groups) if self._depends_on_queue(protocol.router_law, supply) else 0
        self.size = first + len(groups) + bool(self.queue)
        has_mean_rtt = router_takes(protocol, "d") and protocol.scaling_rtt == "mean" and len(set(delays)) > 1
        if has_mean_rtt:  # d is weighted by the current rates: the sum of RTT times rate, over y
            carried, mean_rtt = self.size, self.size + 1
            self.size += 2
        self.leads: list[Callable[[complex], tuple[complex, complex]]] = [_value] * self.size
        self.terms: list[tuple[Callable[..., Any], dict[str, Any], dict[str, Place]] | None] = [None] * self.size
        # Variables may be prices or bit/s: they are scaled by their equilibrium values.
        self.scale = np.full(self.size, y / n_flows)
        self.scale[self.y] = y
        counts = [float(sum(k == at for k in zip(delays, point.rates.tolist(), strict=True))) for at in groups]
        self.linear = [(self.y, first + g, counts[g], float(at[0])) for g, at in enumerate(groups)]
        if self.queue:
            self.leads[self.queue] = _difference if sampled else _derivative
            self.linear.append((self.queue, self.y, T if sampled else 1.0, 0.0))
            self.scale[self.queue] = y * d
        self.scale[state] = abs(R) or 1.0
        received = {"y": (self.y, 0.0), "y_prev": (self.y, step), "q": (self.queue, 0.0)}
        if has_mean_rtt:
            unit = T if sampled else 1.0
            self.linear += [
                (carried, first + g, counts[g] * min(at[0] * unit, limit), float(at[0])) for g, at in enumerate(groups)
            ]
            self.terms[mean_rtt] = (_quotient, {"a": y * d, "b": y}, {"a": (carried, 0.0), "b": (self.y, 0.0)})
            self.scale[carried], self.scale[mean_rtt] = y * d, d
            received["d"] = (mean_rtt, 0.0)
        feedback = (state, step if sampled else 0.0)
        self.terms[state] = (protocol.router_law, supply, {"R": feedback, **received})
        if has_memory and not sampled:
            self.leads[state] = _relaxation(T)
        R = call_law(protocol.router_law, supply)
        if protocol.announce_law is not None:
            self.terms[announced] = (protocol.announce_law, supply | {"R": R}, {"R": (state, 0.0), **received})
            R = call_law(protocol.announce_law, supply | {"R": R})
            self.scale[announced] = abs(R) or 1.0
        for g, (delay, x) in enumerate(groups):
            place = {
                "x": (first + g, step),
                "x_rtt": (first + g, delay),
                "R": (announced, 0.0),
                "R_prev": (announced, step),
            }
            own_rtt = delay * (T if sampled else 1.0)
            known = {"x": x, "x_rtt": x, "R": R, "R_prev": R, "D": own_rtt, "T": T, "p": p}
            self.terms[first + g] = (protocol.source_law, known, place)
            if not sampled and source_takes(protocol, "x"):
                self.leads[first + g] = _lagged(T)
        self._equations = tuple(self._filled_equations())
        self._slopes: dict[int, dict[str, float]] = {}

    @staticmethod
    def _depends_on_queue(law: Callable[..., Any], supply: dict[str, Any]) -> bool:
        return takes(law, "q") and gradient(law, arguments_from(law, supply), ["q"])["q"] != 0.0

    def _filled_equations(self) -> Iterator[tuple[int, Callable[..., Any], dict[str, Any], dict[str, Place]]]:
        """Yield each row, its law, the arguments at equilibrium, and the sources of those that vary."""
        for row, term in enumerate(self.terms):
            if term is not None:
                law, supply, places = term
                at = arguments_from(law, supply)
                yield row, law, at, {name: place for name, place in places.items() if name in at}

    def characteristic(self, s: complex, slope: bool = False) -> Complex:
        """Return Delta(s), or its derivative."""
        matrix = np.diag(np.array([lead(s)[int(slope)] for lead in self.leads], dtype=complex))
        for row, column, weight, delay in self.linear:
            matrix[row, column] -= weight * np.exp(-s * delay) * (-delay if slope else 1.0)
        for row, law, at, places in self._equations:
            if row not in self._slopes:
                self._slopes[row] = gradient(law, at, places)
            for name, (column, delay) in places.items():
                matrix[row, column] -= self._slopes[row][name] * np.exp(-s * delay) * (-delay if slope else 1.0)
        return _complex(matrix * self.scale / self.scale[:, None])

    def second(self, first: Mode, second: Mode) -> Complex:
        """Return B of two motions v exp(s t)."""
        vector = np.zeros(self.size, dtype=complex)
        for row, law, at, places in self._equations:
            u, v = (self._argument_modes(mode, places) for mode in (first, second))

            def form(a: Real, b: Real, law: Any = law, at: Any = at, places: Any = places) -> float:
                return (_along(law, at, places, a + b)[2] - _along(law, at, places, a - b)[2]) / 2.0

            vector[row] = (
                form(u.real, v.real) - form(u.imag, v.imag) + 1j * (form(u.real, v.imag) + form(u.imag, v.real))
            )
        return _complex(vector / self.scale)

    def third(self, mode: Mode) -> Complex:
        """Return C of a motion v exp(s t), itself and its conjugate."""
        vector = np.zeros(self.size, dtype=complex)
        for row, law, at, places in self._equations:
            u = self._argument_modes(mode, places)
            a, b = u.real, u.imag
            cubes = [6.0 * _along(law, at, places, line)[3] for line in (a, b, a + b, a - b)]
            mixed_b = (cubes[2] + cubes[3] - 2.0 * cubes[0]) / 6.0  # C(a, b, b)
            mixed_a = (cubes[2] - cubes[3] - 2.0 * cubes[1]) / 6.0  # C(a, a, b)
            vector[row] = cubes[0] + mixed_b + 1j * (mixed_a + cubes[1])
        return _complex(vector / self.scale)

    def _argument_modes(self, mode: Mode, places: dict[str, Place]) -> Complex:
        """Return the motion of the arguments of a law."""
        vector, s = self.scale * mode[0], mode[1]
        return _complex([vector[column] * np.exp(-s * delay) for column, delay in places.values()])


def _router_arguments(protocol: Protocol, network: Network, point: Equilibrium, rtts: Real) -> dict[str, Any]:
    """Return the arguments of the router's laws at the equilibrium of one link, without a queue."""
    y, C, n_flows = float(point.rates.sum()), float(network.capacities[0]), float(network.n_flows)
    limited = np.minimum(rtts, protocol.scaling_rtt_limit)
    arrivals = C if abs(y - C) < 1e-12 * C else y
    return {
        "R": float(point.fair_rate[0]),
        "y": arrivals,
        "y_prev": arrivals,
        "u": 0.0,
        "N": n_flows,
        "N_all": n_flows,
        "q": 0.0,
        "d": float(limited.max() if protocol.scaling_rtt == "max" else limited.mean()),
        "T": float(protocol.params()["interval"]),
        "C": C,
        "p": protocol.namespace(),
    }


def _complex(values: Any) -> Complex:
    return np.asarray(values, dtype=np.complex128)


def _along(law: Callable[..., Any], at: dict[str, Any], places: dict[str, Place], line: Real) -> tuple[float, ...]:
    """Return the Taylor coefficients of a law along a line; raise if they do not exist."""
    steps = {name: step for name, step in zip(places, line.tolist(), strict=True) if step != 0.0}
    if not steps:
        return 0.0, 0.0, 0.0, 0.0
    coefficients = taylor(law, at, steps)
    if any(isnan(c) for c in coefficients):
        names = ", ".join(steps)
        raise LinearizationError(f"the law is not smooth at the equilibrium: in {names} it has no third derivative")
    return coefficients


def _quotient(a: Any, b: Any) -> Any:
    return a / b


def _value(s: complex) -> tuple[complex, complex]:
    return 1.0 + 0j, 0j


def _derivative(s: complex) -> tuple[complex, complex]:
    return s, 1.0 + 0j


def _difference(s: complex) -> tuple[complex, complex]:
    return 1.0 - np.exp(-s), np.exp(-s)


def _relaxation(T: float) -> Callable[[complex], tuple[complex, complex]]:
    """Return the symbol of T z' + z."""
    return lambda s: (1.0 + T * s, T + 0j)


def _lagged(T: float) -> Callable[[complex], tuple[complex, complex]]:
    """Return the symbol of T z' + z(t - T)."""
    return lambda s: (T * s + np.exp(-s * T), T - T * np.exp(-s * T))
