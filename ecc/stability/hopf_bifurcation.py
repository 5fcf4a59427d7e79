"""Where stability is lost by an oscillation: does a small cycle take over, or does nothing small stop the growth?

One link, flows by their RTTs D_g: the laws are equations of router (R, what it announces, q), rates x_g and arrivals y

    lead z(t) = f(z(t - tau_1), z(t - tau_2), ...),   lead = s: a derivative; lead = 1: a value

with the delays of `ecc.loops.closed_loop`, in seconds or in steps. With their exact first three derivatives A_k, B, C
at the equilibrium, Delta(s) = diag(lead) - sum A_k exp(-s tau_k), Delta(jw) q = 0 = p Delta(jw), p Delta'(jw) q = 1 and

    Delta(2jw) h = B(q, q),   Delta(0) g = B(q, q*),   c = p [C(q, q, q*) + B(q*, h) + 2 B(q, g)]/2

motions near the boundary are z = 2 Re(u q exp(jwt)), u' = (sigma + c |u|^2) u: the projection of Hassard, Kazarinoff
and Wan (1981, ch. 4), which holds for maps as it does for delay equations, as all that is asked of a history is that it
is exponential. q is scaled: the amplitude of arrivals is |u| times what they are at equilibrium.
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
from ecc.contract.protocol import Protocol
from ecc.contract.values import equilibrium_of
from ecc.errors import LinearizationError
from ecc.laws.jets import gradient, taylor
from ecc.linear import StabilityLimit
from ecc.loops.closed_loop import law_arguments, linearize, steps_of
from ecc.network.network import Network
from ecc.stability.gains import critical_gain

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Hopf", "hopf", "hopf_at"]

Complex = NDArray[np.complex128]
Real = NDArray[np.float64]
Place = tuple[int, float]  # which variable, how long ago
Mode = tuple[Complex, complex]  # a motion v exp(s t): v, s

_STEP = 1e-5  # relative, of the difference by which roots are differentiated


@check_arguments
@dataclass(frozen=True, repr=False)
class Hopf(Displayed):
    """How an oscillation begins at a critical gain.

    Attributes
    ----------
    value : float
        Critical gain.
    frequency : float, rad/s or rad/step
    speed : float
        By which the growth rate rises with the gain there [1/s, or 1/step, per unit of the gain].
    lyapunov : float
        Growth rate that an amplitude a of the arrivals, as a share of them, adds, over a^2 [1/s, 1/step]. Negative:
        supercritical, a small stable cycle above `value`. Positive: subcritical, a small unstable cycle below it,
        beyond which motions grow although the equilibrium is stable.
    turn, detuning : float
        What the gain and the amplitude do to the frequency, likewise.
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
        """Whether a small stable cycle takes over."""
        return self.lyapunov < 0.0

    def amplitude(self, gain: float) -> float:
        """Return the amplitude of arrivals on the cycle at a gain, as a share of them; nan where there is none.

        Parameters
        ----------
        gain : float
            Near `value`.
        """
        square = -self.speed * (gain - self.value) / self.lyapunov
        return sqrt(square) if square >= 0.0 else nan

    def period(self, gain: float) -> float:
        """Return the period of that cycle [s, or steps].

        Parameters
        ----------
        gain : float
            Near `value`.
        """
        return 2.0 * pi / (self.frequency + self.turn * (gain - self.value) + self.detuning * self.amplitude(gain) ** 2)

    def plot(self, span: float = 0.1) -> go.Figure:
        """Return a Plotly figure of the cycle's amplitude over the gain beside the critical one.

        Parameters
        ----------
        span : float, > 0, optional
            How far from the critical gain, as a share of it. The amplitude is of first order: it holds near that gain.
        """
        from ecc.plot import boundary_figure

        if not 0.0 < span < inf:
            raise ValueError(f"span must be > 0, got {shown(span)}")
        side = 1.0 if (self.lyapunov < 0.0) is (self.speed > 0.0) else -1.0
        gains = self.value * (1.0 + side * span * np.linspace(0.0, 1.0, 101) ** 2)
        amplitude = np.array([self.amplitude(gain) for gain in gains.tolist()])
        kind = "stable cycle" if self.is_supercritical else "unstable cycle"
        return boundary_figure(
            gains, {kind: amplitude} if self.is_supercritical else {},
            published=None if self.is_supercritical else {kind: amplitude},
            points={f"critical {self.parameter}": ([self.value], [0.0], None)}, log_x=False, title=self._title(),
            x_title=self.parameter, y_title="amplitude of arrivals, share of their mean",
        )  # fmt: skip


@check_arguments
def hopf(
    protocol: Protocol, network: Network, parameter: str = "", time: str = "continuous", maximum: float = inf
) -> Hopf:
    """Return how the oscillation begins with which a protocol loses stability on one link.

    Parameters
    ----------
    protocol : Protocol
    network : Network
        Network of one link.
    parameter : str, optional
        Name of the gain; "": the protocol's `main_parameter`.
    time : str, optional
        "continuous" or "discrete", as in linearize.
    maximum : float, optional
        For critical_gain.

    Returns
    -------
    Hopf

    Raises
    ------
    ValueError
        Several links, another time, a gain that loses no stability, or loses it without an oscillation (at frequency 0
        or pi), or by several roots at once.
    LinearizationError
        No equilibrium there, or a law that switches, or bends, at it.

    Notes
    -----
    RCP with its queue term has an unconstrained queue, as in linearize. Flows of one RTT move as one. A mean RTT weighs
    those of flows by the rates of the moment, as runs do. The derivatives are exact, by jets; the speed is a central
    difference.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> found = hopf(QIRCP(), Network.dumbbell("1 Gb/s", [0.1]))
    >>> found.is_supercritical, round(found.amplitude(1.6), 4)  # sqrt(40 (alpha - pi/2)/(3 pi - 2))
    (True, 0.3966)
    """
    if time not in ("continuous", "discrete"):
        raise ValueError(f"time must be 'continuous' or 'discrete', got {shown(time)}")
    _check_loop(protocol, network)
    name = type(protocol).__name__
    parameter = parameter or protocol.main_parameter
    if not parameter:
        linearize(protocol, network, time)  # which says why there is nothing to ask, where there is not
        raise ValueError(f"parameter must be named: {name} declares no main_parameter")
    loss = critical_gain(protocol, network, parameter, time, maximum=maximum)
    if not 0.0 < loss.value < maximum:
        raise ValueError(f"{parameter} of {name} must lose stability somewhere, got a critical value of {loss.value:g}")
    return hopf_at(protocol, network, parameter, loss)


def hopf_at(protocol: Protocol, network: Network, parameter: str, loss: StabilityLimit) -> Hopf:
    """Return how the oscillation begins at a stability limit that is known.

    Parameters
    ----------
    protocol : Protocol
    network : Network
        Network of one link.
    parameter : str
        Name of the gain.
    loss : StabilityLimit
        As `critical_gain` returns it, with a value > 0.

    Raises
    ------
    ValueError, LinearizationError
        As `hopf`.
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
    left, sizes, right = np.linalg.svd(at.characteristic(1j * w))
    q, p = right[-1].conj(), left[:, -1].conj()
    slope = complex(p @ at.characteristic(1j * w, slope=True) @ q)
    together = linearize(replace(protocol, **{parameter: loss.value}), network, time).roots(4)
    growth, turn = (
        (np.log(np.abs(together)), np.angle(together)) if time == "discrete" else (together.real, together.imag)
    )
    others = np.sum((growth > -1e-6 * w) & (np.abs(np.abs(turn) - w) > 1e-3 * w))
    if others or sizes[-1] > 1e-6 * sizes[0] or abs(slope) < 1e-6 * sizes[0]:
        raise LinearizationError(f"the loop of {name} has no simple root at its boundary, {parameter} = {loss.value:g}")
    q = _complex(q / (2.0 * q[at.y]))
    p = p / complex(p @ at.characteristic(1j * w, slope=True) @ q)
    turning, back = (q, 1j * w), (_complex(q.conj()), -1j * w)
    twice = _complex(np.linalg.solve(at.characteristic(2j * w), at.second(turning, turning)))
    mean = _complex(np.linalg.solve(at.characteristic(0.0), at.second(turning, back)))
    force = at.third(turning) + at.second(back, (twice, 2j * w)) + 2.0 * at.second(turning, (mean, 0j))
    c = complex(p @ force) / 2.0
    step = _STEP * loss.value
    change = loop(loss.value + step).characteristic(1j * w) - loop(loss.value - step).characteristic(1j * w)
    speed = -complex(p @ change @ q) / (2.0 * step)
    return Hopf(loss.value, w, speed.real, c.real, speed.imag, c.imag, parameter, loss.sampled, loss.dt)


def _check_loop(protocol: Protocol, network: Network) -> None:
    """Refuse networks and laws without a coefficient."""
    if network.n_links != 1:
        raise ValueError(f"network must have one link, got {network.n_links}")
    if protocol.has_affine_laws:
        kind = type(protocol).__name__
        raise ValueError(f"laws must be curved, those of {kind} are affine: only its limits stop what grows")


class _Loop:
    """The laws of a protocol on one link, around their equilibrium.

    Each row of `terms` is a variable's own equation, lead z = law(arguments); each argument is a variable so long ago.
    Sources receive what is announced at once, and their fluid arrives an RTT later: only the sum counts on one link.
    """

    def __init__(self, protocol: Protocol, network: Network, time: str) -> None:
        sampled = time == "discrete"
        T = float(protocol.params()["interval"])
        around = [steps_of(float(r), T) if sampled else float(r) for r in network.rtts]
        rtts = np.array(around) * (T if sampled else 1.0)
        point = equilibrium_of(protocol, network)
        p = protocol.namespace()
        y = float(point.rates.sum())
        C, R = float(network.capacities[0]), float(point.fair_rate[0])
        limit = protocol.scaling_rtt_limit
        d = float(np.minimum(rtts, limit).max() if protocol.scaling_rtt == "max" else np.minimum(rtts, limit).mean())
        many = float(network.n_flows)
        supply: dict[str, Any] = {
            "R": R, "y": C if abs(y - C) < 1e-12 * C else y, "u": 0.0, "N": many, "N_all": many, "q": 0.0, "d": d,
            "T": T, "C": C, "p": p,
        }  # fmt: skip
        supply["y_prev"] = supply["y"]
        if "x" in law_arguments(protocol.router_law):
            raise ValueError(f"the router of {type(protocol).__name__} takes the rate of each flow")
        groups = sorted(set(zip(around, point.rates.tolist(), strict=True)))
        remembers = "R" in law_arguments(protocol.router_law)
        step = 1.0 if sampled else T  # of the time in which delays are
        self.y, state, announced = 0, 1, 1 if protocol.announce_law is None else 2
        first = announced + 1
        self.queue = first + len(groups) if self._feels_queue(protocol.router_law, supply) else 0
        self.size = first + len(groups) + bool(self.queue)
        moves = "d" in law_arguments(protocol.router_law) and protocol.scaling_rtt == "mean" and len(set(around)) > 1
        if moves:  # d is weighted by the rates of the moment: RTT times rate, added up, over y
            carried, mean_rtt = self.size, self.size + 1
            self.size += 2
        self.leads: list[Callable[[complex], tuple[complex, complex]]] = [_value] * self.size
        self.terms: list[tuple[Callable[..., Any], dict[str, Any], dict[str, Place]] | None] = [None] * self.size
        # prices beside bit/s: variables are shares of what they are at equilibrium
        self.scale = np.full(self.size, y / many)
        self.scale[self.y] = y
        counts = [float(sum(k == at for k in zip(around, point.rates.tolist(), strict=True))) for at in groups]
        self.linear = [(self.y, first + g, counts[g], float(at[0])) for g, at in enumerate(groups)]
        if self.queue:
            self.leads[self.queue] = _difference if sampled else _derivative
            self.linear.append((self.queue, self.y, T if sampled else 1.0, 0.0))
            self.scale[self.queue] = y * d
        self.scale[state] = abs(R) or 1.0
        received = {"y": (self.y, 0.0), "y_prev": (self.y, step), "q": (self.queue, 0.0)}
        if moves:
            unit = T if sampled else 1.0
            self.linear += [
                (carried, first + g, counts[g] * min(at[0] * unit, limit), float(at[0])) for g, at in enumerate(groups)
            ]
            self.terms[mean_rtt] = (_quotient, {"a": y * d, "b": y}, {"a": (carried, 0.0), "b": (self.y, 0.0)})
            self.scale[carried], self.scale[mean_rtt] = y * d, d
            received["d"] = (mean_rtt, 0.0)
        own = (state, step if sampled else 0.0)
        self.terms[state] = (protocol.router_law, supply, {"R": own, **received})
        if remembers and not sampled:
            self.leads[state] = _relaxation(T)
        R = protocol.router_law(**{name: supply[name] for name in law_arguments(protocol.router_law)})
        if protocol.announce_law is not None:
            self.terms[announced] = (protocol.announce_law, supply | {"R": R}, {"R": (state, 0.0), **received})
            R = protocol.announce_law(
                **{name: (supply | {"R": R})[name] for name in law_arguments(protocol.announce_law)}
            )
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
            if not sampled and "x" in law_arguments(protocol.source_law):
                self.leads[first + g] = _lagged(T)
        self._slopes: dict[int, dict[str, float]] = {}

    @staticmethod
    def _feels_queue(law: Callable[..., Any], supply: dict[str, Any]) -> bool:
        wanted = law_arguments(law)
        return "q" in wanted and gradient(law, {name: supply[name] for name in wanted}, ["q"])["q"] != 0.0

    def _equations(self) -> Iterator[tuple[int, Callable[..., Any], dict[str, Any], dict[str, Place]]]:
        """Row, law, its arguments at equilibrium, and where those that move come from."""
        for row, term in enumerate(self.terms):
            if term is not None:
                law, at, places = term
                wanted = law_arguments(law)
                yield row, law, {name: at[name] for name in wanted}, {k: v for k, v in places.items() if k in wanted}

    def characteristic(self, s: complex, slope: bool = False) -> Complex:
        """Delta(s), or its derivative."""
        found = np.diag(np.array([lead(s)[int(slope)] for lead in self.leads], dtype=complex))
        for row, column, weight, delay in self.linear:
            found[row, column] -= weight * np.exp(-s * delay) * (-delay if slope else 1.0)
        for row, law, at, places in self._equations():
            if row not in self._slopes:
                self._slopes[row] = gradient(law, at, places)
            for name, (column, delay) in places.items():
                found[row, column] -= self._slopes[row][name] * np.exp(-s * delay) * (-delay if slope else 1.0)
        return _complex(found * self.scale / self.scale[:, None])

    def second(self, one: Mode, two: Mode) -> Complex:
        """B of two motions v exp(s t)."""
        found = np.zeros(self.size, dtype=complex)
        for row, law, at, places in self._equations():
            u, v = (self._seen(mode, places) for mode in (one, two))

            def form(a: Real, b: Real, law: Any = law, at: Any = at, places: Any = places) -> float:
                return (_along(law, at, places, a + b)[2] - _along(law, at, places, a - b)[2]) / 2.0

            found[row] = (
                form(u.real, v.real) - form(u.imag, v.imag) + 1j * (form(u.real, v.imag) + form(u.imag, v.real))
            )
        return _complex(found / self.scale)

    def third(self, mode: Mode) -> Complex:
        """C of a motion v exp(s t), itself and its conjugate."""
        found = np.zeros(self.size, dtype=complex)
        for row, law, at, places in self._equations():
            u = self._seen(mode, places)
            a, b = u.real, u.imag
            cubes = [6.0 * _along(law, at, places, line)[3] for line in (a, b, a + b, a - b)]
            mixed_b = (cubes[2] + cubes[3] - 2.0 * cubes[0]) / 6.0  # C(a, b, b)
            mixed_a = (cubes[2] - cubes[3] - 2.0 * cubes[1]) / 6.0  # C(a, a, b)
            found[row] = cubes[0] + mixed_b + 1j * (mixed_a + cubes[1])
        return _complex(found / self.scale)

    def _seen(self, mode: Mode, places: dict[str, Place]) -> Complex:
        """How the arguments of a law move."""
        vector, s = self.scale * mode[0], mode[1]
        return _complex([vector[column] * np.exp(-s * delay) for column, delay in places.values()])


def _complex(values: Any) -> Complex:
    return np.asarray(values, dtype=np.complex128)


def _along(law: Callable[..., Any], at: dict[str, Any], places: dict[str, Place], line: Real) -> tuple[float, ...]:
    """Taylor coefficients of a law along a line, which it must have."""
    moving = {name: step for name, step in zip(places, line.tolist(), strict=True) if step != 0.0}
    if not moving:
        return 0.0, 0.0, 0.0, 0.0
    found = taylor(law, at, moving)
    if any(isnan(c) for c in found):
        raise LinearizationError(f"the law bends at the equilibrium: in {', '.join(moving)} it has no third derivative")
    return found


def _quotient(a: Any, b: Any) -> Any:
    return a / b


def _value(s: complex) -> tuple[complex, complex]:
    return 1.0 + 0j, 0j


def _derivative(s: complex) -> tuple[complex, complex]:
    return s, 1.0 + 0j


def _difference(s: complex) -> tuple[complex, complex]:
    return 1.0 - np.exp(-s), np.exp(-s)


def _relaxation(T: float) -> Callable[[complex], tuple[complex, complex]]:
    """T z' + z."""
    return lambda s: (1.0 + T * s, T + 0j)


def _lagged(T: float) -> Callable[[complex], tuple[complex, complex]]:
    """T z' + z(t - T)."""
    return lambda s: (T * s + np.exp(-s * T), T - T * np.exp(-s * T))
