"""Time-varying delays: loops under the worst sequence of delays.

Flows that step from their own rate (MKC, EMKC, JetMax): x_i[n] = sum_j A_ij x_j[n - d_ij(n)], with A the Jacobian
without delays and d_ij(n) = b_i(n) + f_j(n - b_i(n)), delays back and forward. All sequences of bounded delays are
stable, for any bound, if the spectral radius of |A|, entry by entry, is below 1 (`absolute_radius`). The converse holds
on one link with flows of equal rate, A = a I - k 11' with k >= 0, if delays may reorder packets.
If: the largest |x_i|/v_i, v > 0 with |A| v < v, shrinks by a factor in every longest delay (Chazan, Miranker 1969).
Only if: for a <= k all entries are <= 0, and constant odd delays prove it. For a > k let d_ii be even and all other
d_ij odd: (-1)^n x[n] then obeys the positive system of |A|, which does not decay. `worst_delays` are such: every time
of the link is dedicated to a flow, with its packets at an odd delay from the others', and a flow uses the last
time that is dedicated to it and has the right parity.
A consistent assignment makes A block triangular, and |A| with it: the radius of a network is the largest of its links.
In order: with `batched_delays` flow i keeps X_i(m) for three steps, X_i(m) = a X_i(m - 2) - k sum_j X_j(m - 2 + r),
r = 1 for i in the third group of flows and j in the first, -1 for i in the first and j in the third, else 0. With
X_i(m) = +-(-c)^m v_g, minus in the second group, c^2 is the largest eigenvalue of a matrix with entries >= 0 off the
diagonal, which grow no faster than c. It is a + k mu at c = 1, with sum n_g/(mu + 2 n_g) = 1 for groups of n_g flows:
if that exceeds 1 there is a c > 1. Three equal groups have mu = N/3; for N = 3 a + k mu is the radius of |A|.

Routers that integrate (QI-RCP, PIQI-RCP, RCP): R is moved by y = source(h), h[n] = R[n - D(n)], the router's d fixed.
Flows with individual delays receive different h, and their arrivals are a mean of these: its steps are means of the
steps of one flow, so their joint spectral radius is that of one flow.
First order, R[n] = R[n - 1] - (a/d) h[n]: stable for any delays up to D if a D/d < 3/2. Joined by lines R solves
x' = -(a/d) x(t - tau(t)), tau <= D. Let x cross 0 at t0, |x| <= M before. As |x'| <= a M/d, the value received u after
t0 is bounded by M min(1, (a/d)(D - u)), and the next peak, which is before t0 + D, by M (a D/d - 1/2), or by M/2 if
a D < d. For x' = -(a/d) x(t - tau(t)) 3/2 is sharp (Myshkis, Yorke): delays that hold a peak for D and stay at D for
another 2 D/3 turn it into the opposite peak times 5 q/3 - 2 q^2/9 - 1, q = a D/d, which is 1 at q = 3/2 and more for
3/2 < q < 6 (`held_delays`, in steps); from q = pi/2 on a constant D does.
Any order: h = R[n - D0] + w. For delays from D0 - J- to D0 + J+ the norm of w in l2 is bounded by sqrt(J+^2 + J-^2)
times that of the steps of R (by Cauchy's inequality: a step is received no more than J times on either side, with
weight J; means of such w have no larger norm). The loop is stable under all of them if it is stable under the constant
delay D0 and that factor times the largest gain from w to the steps of R is below 1 (`is_stable_under_varying_delays`,
in ball arithmetic).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import Matrix, Positive, check_arguments, shown
from ecc._support.display import Displayed
from ecc.contract.protocol import Protocol
from ecc.errors import LinearizationError
from ecc.loops.closed_loop import linearize, linearize_laws, steps_of
from ecc.network.network import Network
from ecc.stability.assignment import BottleneckAssignment

__all__ = [
    "Growth",
    "absolute_radius",
    "batched_delays",
    "is_stable_under_varying_delays",
    "growth_of_rates",
    "growth_under_delays",
    "held_delays",
    "worst_delays",
    "worst_sequence",
]

_CAPACITY = 1e9  # bit/s; integral loops do not depend on it
_PRECISION = 256  # bits
_SQUARINGS = 24


@dataclass(frozen=True, repr=False)
class Growth(Displayed):
    """Mean growth of a deviation per step, over a period.

    Attributes
    ----------
    value : float
        Factor per step; deviations grow if it exceeds 1.
    proven : bool
        Whether the factor is proven to exceed 1, as `is_proven`.
    """

    value: float
    proven: bool

    @property
    def is_proven(self) -> bool:
        """True if the factor is proven to exceed 1."""
        return self.proven

    @property
    def lower(self) -> float:
        """Proven lower bound of the factor: 1 if it is proven to exceed 1, else 0."""
        return 1.0 if self.proven else 0.0

    @property
    def upper(self) -> float:
        """Upper bound of the factor: inf, since no bound is proven."""
        return inf


# ---- flows that step from their own rate -------------------------------------------------------------------


@check_arguments
def absolute_radius(protocol: Protocol, assignment: BottleneckAssignment) -> float:
    """Return the spectral radius of |A|: if it is below 1, the loop is stable under all bounded, varying delays.

    Implements the first part of the module. JETMAX sec. 2 and Theorem 2 claim the same for loops in which A itself has
    a radius below 1.

    Parameters
    ----------
    protocol : Protocol
        Protocol without memory in routers.
    assignment : BottleneckAssignment
        Assignment of a network.

    Returns
    -------
    float
        Radius. On one link, and so in a network with a consistent assignment, a value >= 1 shows that deviations do not
        die out under some delays, which may reorder packets.

    Raises
    ------
    ValueError, LinearizationError
        As for BottleneckAssignment.jacobian.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("100 Mb/s", [0.1] * 3)
    >>> round(absolute_radius(EMKC(), ecc.stability.bottleneck_assignment(net, [0] * 3)), 4)
    1.1588
    """
    return float(np.abs(np.linalg.eigvals(np.abs(assignment.jacobian(protocol)))).max())


@check_arguments
def worst_delays(flows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return delays under which a link with A = a I - k 11', a > k > 0, acts as |A|, up to alternating signs.

    Under these delays deviations do not die out if the spectral radius of |A| is 1 or more. Packets, and feedback,
    overtake others.

    Parameters
    ----------
    flows : int, >= 2
        Number of flows.

    Returns
    -------
    forward, backward : ndarray of int, shape (2 flows, flows), steps
        Delays over one period, 0 or 1 forward, and 1 to 2 flows backward.

    Raises
    ------
    ValueError
        There are fewer than 2 flows.

    Examples
    --------
    >>> forward, backward = worst_delays(2)
    >>> forward.shape
    (4, 2)
    """
    if flows < 2:
        raise ValueError(f"flows must be >= 2, got {shown(flows)}")
    period = 2 * flows
    time = np.arange(period)
    dedicated_delay = np.where(flows % 2, 0, time // flows % 2)  # forward delay of the flow that has this time
    dedicated = time % flows
    forward = np.tile(1 - dedicated_delay[:, None], (1, flows))
    forward[time, dedicated] = dedicated_delay
    backward = np.zeros((period, flows), dtype=np.int64)
    for back in range(period, 0, -1):
        then = (time - back) % period
        right = (back - dedicated_delay[then]) % 2 == 0
        backward[time[right], dedicated[then[right]]] = back
    return forward, backward


@check_arguments
def batched_delays(flows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return delays in order: 4 steps forward; feedback in batches of 3 steps, one third of the flows after another.

    Parameters
    ----------
    flows : int, >= 1
        Number of flows.

    Returns
    -------
    forward, backward : ndarray of int, shape (6, flows), steps
        Delays over one period, 4 forward, and 1 to 3 backward. With flows in three equal groups a deviation grows if 1
        - beta p + beta y p'(y)/3 > 1 (see the module): EMKC with 0 < beta < 2 is unstable while its loss is below 1/4;
        with groups that differ by a flow, below 0.236 (four flows) to 1/4 (many flows).

    Raises
    ------
    ValueError
        flows < 1.

    Examples
    --------
    >>> forward, backward = batched_delays(2)
    >>> forward.shape
    (6, 2)
    """
    if flows < 1:
        raise ValueError(f"flows must be >= 1, got {shown(flows)}")
    time, flow = np.arange(6)[:, None], np.arange(flows)
    return np.full((6, flows), 4), (time - flow - 1) % 3 + 1


@check_arguments(former={"prove": "certify"})
def growth_of_rates(jacobian: Matrix, forward: Matrix, backward: Matrix, certify: bool = False) -> Growth:
    """Return the growth of a deviation of rates on one link under delays that repeat.

    Parameters
    ----------
    jacobian : Matrix, shape (n, n)
        Jacobian without delays.
    forward, backward : Matrix, shape (period, n), steps
        >= 0 and >= 1.
    certify : bool, optional
        Prove by ball arithmetic that it exceeds 1, the Jacobian taken as the exact binary numbers that it is.

    Returns
    -------
    Growth

    Raises
    ------
    ImportError
        python-flint is not installed and a proof is requested.

    Examples
    --------
    >>> round(growth_of_rates([[-1.5]], [[0]], [[1]]).value, 6)  # the deviation changes its sign each step
    1.5
    """
    a, ahead, back = np.asarray(jacobian, dtype=float), np.asarray(forward), np.asarray(backward)
    period, flows = back.shape
    depth = int(ahead.max() + back.max())
    steps = []
    for n in range(period):
        step = np.zeros((flows * depth, flows * depth))
        step[flows:, :-flows] = np.eye(flows * (depth - 1))
        for i in range(flows):
            lag = back[n, i] + ahead[(n - back[n, i]) % period]
            step[i, (lag - 1) * flows + np.arange(flows)] += a[i]
        steps.append(step)
    return _growth(steps, certify)


def _growth(steps: Sequence[NDArray[np.float64]], certify: bool) -> Growth:
    """Return the growth of a product of matrices, the first one acting first."""
    product = reduce(lambda partial, step: step @ partial, steps)
    value = float(np.abs(np.linalg.eigvals(product)).max() ** (1.0 / len(steps)))
    return Growth(value, certify and value > 1.0 and _exceeds_one(steps))


def _exceeds_one(steps: Sequence[NDArray[np.float64]]) -> bool:
    """Return whether a power of the product has a trace larger than its size, which implies an eigenvalue above 1."""
    from flint import arb_mat, ctx

    before = ctx.prec
    ctx.prec = _PRECISION
    try:
        power = reduce(lambda done, step: step * done, [arb_mat(step.tolist()) for step in steps])
        for _ in range(_SQUARINGS):
            if abs(power.trace()) > power.nrows():
                return True
            power = power * power
        return False
    finally:
        ctx.prec = before


# ---- routers that integrate --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Loop:
    """R' = R + y Y + before Y_prev + q Q, Q = Q_prev + Y, with Y = x Y_prev + h H + old H_prev, H = R[n - D]."""

    y: float
    before: float
    q: float  # times T
    x: float
    h: float
    old: float
    d: int  # steps

    @property
    def first_order(self) -> bool:
        return self.before == self.q == self.x == self.old == 0.0

    def step(self, delay: int, longest: int) -> NDArray[np.float64]:
        """Return a step of the state: R of the last steps, h and y of the last one, and q if it matters."""
        R, h, y, q = 0, longest, longest + 1, longest + 2
        step = np.zeros((longest + (3 if self.q else 2),) * 2)
        step[1:longest, : longest - 1] = np.eye(longest - 1)
        step[h, delay - 1] = 1.0
        step[y] = self.h * step[h]
        step[y, [h, y]] += self.old, self.x
        step[R] = self.y * step[y]
        step[R, [R, y]] += 1.0, self.before
        if self.q:
            step[q] = step[y]
            step[q, q] += 1.0
            step[R] += self.q * step[q]
        return step

    def gains(self, z: Any, delay: int, unity: Any) -> tuple[Any, Any]:
        """Return numerator and denominator of the gain from w to the steps of R at 1/z, for numbers of any kind."""
        slope = unity - z
        controller, order = self.y + self.before * z, slope
        if self.q:
            controller, order = controller * slope + self.q, slope * slope
        controller = controller * (self.h + self.old * z)
        return slope * controller, order * (unity - self.x * z) - controller * z**delay


def _loop(protocol: Protocol, mean_rtt: float) -> _Loop:
    T = float(protocol.params()["interval"])
    laws = linearize_laws(protocol, Network.dumbbell(_CAPACITY, [mean_rtt]), T, discrete=True)
    if laws.by_flow or not laws.remembers or "discrete" not in protocol.times:
        raise ValueError(f"protocol must have routers that integrate one rate, got {type(protocol).__name__}")
    router = {name: float(slope[0]) for name, slope in laws.router.items()}
    source = {name: float(slope[0]) for name, slope in laws.source.items()}
    if router["R"] != 1.0:
        raise LinearizationError(f"the router must integrate, but keeps {router['R']:g} of its rate")
    return _Loop(
        router["y"],
        router["y_prev"],
        router["q"] * T,
        source["x"],
        source["R"],
        source["R_prev"],
        steps_of(mean_rtt, T),
    )


@check_arguments(former={"prove": "certify"})
def growth_under_delays(protocol: Protocol, mean_rtt: float, delays: Sequence[int], certify: bool = False) -> Growth:
    """Return the growth of a deviation on one link under RTTs that repeat, their backward part varying.

    Parameters
    ----------
    protocol : Protocol
        Protocol with a router that integrates.
    mean_rtt : float, s
        RTT that the router assumes.
    delays : sequence of int
        Steps, >= 1, of successive intervals.
    certify : bool, optional
        As in growth_of_rates.

    Returns
    -------
    Growth

    Raises
    ------
    ValueError
        The protocol is of another kind, or a delay is below 1.
    ImportError
        As for growth_of_rates.

    Examples
    --------
    >>> growth_under_delays(ecc.models.QIRCP(alpha=0.5), 0.1, [10]).value < 1.0  # constant delays
    True
    """
    if min(delays) < 1:
        raise ValueError(f"delays must be >= 1 step, got {shown(min(delays))}")
    loop, longest = _loop(protocol, mean_rtt), max(2, *delays)
    return _growth([loop.step(delay, longest) for delay in delays], certify)


@check_arguments
def held_delays(longest: int, least: int = 1) -> tuple[int, ...]:
    """Return delays that hold one step as long as possible, then stay at the longest for two thirds as long.

    Parameters
    ----------
    longest, least : ints, steps
        Range of the delays, for example 29 and 1.

    Returns
    -------
    tuple of int
        Delay in each step; the sequence repeats [steps].

    Examples
    --------
    >>> held_delays(3)
    (1, 2, 3, 3, 3)
    """
    width = longest - least + 1
    return tuple(range(least, longest + 1)) + (longest,) * round(2.0 * width / 3.0)


@check_arguments
def worst_sequence(
    protocol: Protocol, mean_rtt: float, least: int, longest: int, periods: Positive = 40
) -> tuple[float, tuple[int, ...]]:
    """Return the largest growth found over sequences of delays in a range, and the periodic sequence.

    Parameters
    ----------
    protocol, mean_rtt : Protocol, float
        As for growth_under_delays.
    least, longest : ints, steps
        1 <= least <= longest.
    periods : int, optional
        Number of lengths tried for each kind of sequence.

    Returns
    -------
    growth : float
        Growth per step, a lower bound of the joint spectral radius.
    delays : tuple of int
        Delays over one period.

    Raises
    ------
    ValueError
        As for growth_under_delays, or the range is empty.

    Notes
    -----
    The search tries constant delays, delays that rise by a step and fall at once (batches), the same kept at the
    longest for a while (`held_delays`), two alternating delays, and an adversary that selects the largest available R
    while R falls and the smallest while it rises, divided at the turning points of R.

    Examples
    --------
    >>> growth, delays = worst_sequence(ecc.models.QIRCP(alpha=0.5), 0.1, 1, 12)
    >>> growth < 1.0, len(delays)
    (True, 1)
    """
    if not 1 <= least <= longest:
        raise ValueError(f"delays must be >= 1 step and least <= longest, got {shown(least)} and {longest!r}")
    loop, memory = _loop(protocol, mean_rtt), max(2, longest)
    steps = {delay: loop.step(delay, memory) for delay in range(least, longest + 1)}
    rising = tuple(range(least, longest + 1))
    stays = sorted({round(share) for share in np.geomspace(1.0, 8.0 * longest, periods)})
    tried = [(delay,) for delay in rising] + [rising] + [rising + (longest,) * stay for stay in stays]
    tried += [(least,) * stay + (longest,) * stay for stay in stays]
    tried += _adversary(steps, memory, least, longest)
    growths = [(_growth([steps[delay] for delay in delays], False).value, delays) for delays in dict.fromkeys(tried)]
    return max(growths, key=lambda pair: pair[0])


def _adversary(steps: dict[int, NDArray[np.float64]], memory: int, least: int, longest: int) -> list[tuple[int, ...]]:
    """Return the sequences of the adversary between the last maxima of R."""
    state = np.zeros(len(steps[least]))
    state[:memory] = np.cos(np.arange(memory) / longest)
    played: list[int] = []
    turns: list[int] = []
    falls = True
    for n in range(60 * longest):
        window = state[least - 1 : longest]
        delay = least + int(np.argmax(window) if falls else np.argmin(window))
        played.append(delay)
        next_state = steps[delay] @ state
        if falls and next_state[0] > next_state[1]:
            turns.append(n)
        falls = bool(next_state[0] < next_state[1]) if next_state[0] != next_state[1] else falls
        state = next_state / max(1e-300, float(np.abs(next_state).max()))
    last = turns[-4:]
    return [tuple(played[a:b]) for k, a in enumerate(last) for b in last[k + 1 :]]


@check_arguments
def is_stable_under_varying_delays(protocol: Protocol, mean_rtt: float, least: int, longest: int) -> bool:
    """Return whether one link with any flows is proven stable under RTTs that vary arbitrarily within a range.

    Implements the second part of the module: the bound 3/2 for loops of first order, else small gain in ball
    arithmetic. The coefficients of the laws are used as exact binary numbers.

    Parameters
    ----------
    protocol : Protocol
        Protocol with a router that integrates.
    mean_rtt : float, s
        RTT that the router assumes.
    least, longest : ints, steps
        1 <= least <= longest. Range of every flow's RTT; its backward part varies.

    Returns
    -------
    bool
        False if it is unstable or not proven stable.

    Raises
    ------
    ValueError
        As for worst_sequence.
    ImportError
        python-flint is not installed.

    Examples
    --------
    >>> [is_stable_under_varying_delays(QIRCP(alpha=0.5), 0.1, 1, longest) for longest in (29, 40)]
    [True, False]
    """
    if not 1 <= least <= longest:
        raise ValueError(f"delays must be >= 1 step and least <= longest, got {shown(least)} and {longest!r}")
    loop = _loop(protocol, mean_rtt)
    if loop.first_order and 0 < -Fraction(loop.y) * Fraction(loop.h) * longest < Fraction(3, 2):
        return True
    omega = np.concatenate([np.geomspace(1e-4, 0.05, 400), np.linspace(0.05, np.pi, 4000)])
    z = np.exp(-1j * omega)

    def product(delay: int) -> float:
        numerator, denominator = loop.gains(z, delay, 1.0)
        return float(np.abs(numerator / denominator).max() * np.hypot(longest - delay, delay - least))

    center = min(range(least, longest + 1), key=product)
    if product(center) >= 1.0:
        return False
    T = float(protocol.params()["interval"])
    at_rest = linearize(protocol, Network.dumbbell(_CAPACITY, [center * T]), "discrete", mean_rtt=[loop.d * T])
    return bool(at_rest.certify().stable) and _small_gain(loop, center, (longest - center) ** 2 + (center - least) ** 2)


def _small_gain(loop: _Loop, delay: int, square: int) -> bool:
    """Return whether the squared gain from w to the steps of R is proven below 1/square on all arcs of the circle."""
    from flint import acb, arb

    unity = acb(1)
    todo = [(0.0, float(np.pi) + 1e-9)]
    while todo:
        low, high = todo.pop()
        angle = arb(low).union(arb(high))
        numerator, denominator = loop.gains(acb(angle.cos(), -angle.sin()), delay, unity)
        if abs(numerator) ** 2 * square < abs(denominator) ** 2:
            continue
        if high - low < 2.0**-30:
            return False
        middle = 0.5 * (low + high)
        todo += [(low, middle), (middle, high)]
    return True
