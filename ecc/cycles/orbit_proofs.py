"""Proofs that a map per round has a periodic orbit, and of its multipliers, by interval arithmetic.

With F the map over the rounds of a period, c an approximate orbit, X a box around it, P a box of parameters with the
center p0, and Y near the inverse of F'(c) - 1, the operator of Krawczyk is

    K = c - Y [F(c, p0) - c + F_p (P - p0)] + [1 - Y (F'(X, P) - 1)] (X - c).

If K is inside the interior of X, the map has exactly one point with F(x) = x in X, for each parameter in P, and it is
in K. F and its derivatives are enclosed by balls of python-flint (`ecc.laws.balls`), from round to round intersected
with the mean value form F(c, p0) + F' (X - c) + F_p (P - p0), so that errors of rounds do not add up.

    a comparison     must have one answer in the whole box: the map is smooth there. Otherwise the box is made smaller;
                     an orbit on a jump stays undecided, with the line of the comparison as the reason
    min, max, abs    an orbit on their corner is proven with enclosures of the slopes of both sides. Its multipliers are
                     those of all one-sided derivatives; if they are not all inside the unit circle, it is undecided
    discrete states  ints (flags, counts) must return exactly
    constant states  if the map returns a state unchanged, it is a parameter of a family of orbits (`along`)

The multipliers are the eigenvalues of F' over a box that K shrinks to (`ecc.linear.ball_matrices`). Starting with 96
bits, the precision grows until the verdict is proven, or up to a limit.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite, nan, nextafter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.display import Displayed, Rows, number_text, value_text
from ecc.contract.forms import RoundMap
from ecc.cycles.limit_cycle import LimitCycle
from ecc.errors import UndecidedError
from ecc.laws.balls import LANGUAGE, Ball, as_arb, on_balls, with_balls
from ecc.linear.ball_matrices import Spectrum, contraction_factor, spectrum
from ecc.linear.exact_pair import bits as precision

__all__ = ["OrbitProof", "prove_orbit", "prove_rounds", "with_proof"]

BITS = (96, 256, 768)
"""Precisions that are tried, in this order."""
_WIDTHS = (6, 9, 12, 16, 20, 26, 34, 44, 56, 72, 88, 128, 200, 320, 512)  # boxes have radii of 2^-k, relative
_NEWTON_STEPS = 60
_CLOSE = 1e-8  # relative step of Newton's method, below which steps that grow are rounding errors
_SHRINKS = 40  # applications of the operator that make a box small
_AGREES = 1e-3  # difference of the multipliers of one orbit from two methods
_GROWTHS = 6  # boxes that are tried over a box of parameters
_NOT_INSIDE = "the operator does not map a box into itself: a multiplier is near 1, or the box is too large"
_METHOD = "Krawczyk's operator in balls of {} bits (python-flint)"


@dataclass(frozen=True, repr=False)
class OrbitProof(Displayed):
    """A proof that a map has a periodic orbit, and whether its multipliers are inside the unit circle, or the reason.

    Attributes
    ----------
    exists : bool
        Whether it is proven that exactly one orbit passes through the box, for each parameter of a box of parameters.
    multipliers_inside : bool or None
        True: all multipliers are proven inside the unit circle; False: one is proven outside; None: undecided.
    dead_beat : bool
        Whether all multipliers are proven to be exactly 0, as states do not act back on themselves.
    box : tuple of tuple of float
        (lowest, highest) of each state, in which the orbit is unique; discrete states have two equal values.
    orbit : tuple of tuple of float
        (lowest, highest) of each state on the orbit: a smaller box.
    multipliers : ndarray
        Multipliers per period, complex, the largest modulus first, without those of constant states.
    errors : ndarray
        Radii around `multipliers` in which the multipliers of the orbit are.
    contraction : float
        Upper bound of the factor per period by which the map contracts the distance of any two states in the box, in
        one norm. Below 1, all states near the orbit converge to it; inf: no bound was found, nan: no proof.
    along : int
        Number of constant states: directions in which further orbits lie.
    corners : tuple of str
        Places of min, max or abs on whose corner the orbit may be.
    bits : int
        Precision of the proof.
    reason : str
        Why the orbit, or its multipliers, are undecided; empty if all is proven.
    """

    exists: bool
    multipliers_inside: bool | None
    dead_beat: bool = False
    box: tuple[tuple[float, float], ...] = ()
    orbit: tuple[tuple[float, float], ...] = ()
    multipliers: NDArray[np.complex128] = field(default_factory=lambda: np.zeros(0, dtype=complex))
    errors: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    contraction: float = nan
    along: int = 0
    corners: tuple[str, ...] = ()
    bits: int = 0
    reason: str = ""

    @property
    def is_proven(self) -> bool:
        """Whether the orbit, and the verdict on its multipliers, are proven."""
        return self.exists and self.multipliers_inside is not None

    @property
    def lower(self) -> float:
        """Proven lower bound of the largest |multiplier|; 0 without a proof."""
        from scipy.sparse.csgraph import connected_components

        if not self.exists or not len(self.multipliers):
            return 0.0
        # discs that overlap contain as many multipliers as there are discs, but one of them may contain none
        overlap = np.abs(np.subtract.outer(self.multipliers, self.multipliers)) <= np.add.outer(
            self.errors, self.errors
        )
        group = connected_components(overlap)[1]
        sizes = np.maximum(np.abs(self.multipliers) - self.errors, 0.0)
        return max(float(sizes[group == k].min()) for k in set(group.tolist()))

    @property
    def upper(self) -> float:
        """Proven upper bound of the largest |multiplier|; inf without a proof."""
        return float((np.abs(self.multipliers) + self.errors).max(initial=0.0)) if self.exists else inf

    def _title(self) -> str:
        return "Proof of a periodic orbit" if self.is_proven else "No proof of a periodic orbit"

    def _rows(self) -> Rows:
        verdict = {True: "all", False: "not all", None: "undecided"}[self.multipliers_inside]
        rows = [("exists", "proven" if self.exists else "undecided"), ("multipliers inside the unit circle", verdict)]
        if self.exists:
            rows += [
                ("multipliers", "all 0 (dead beat)" if self.dead_beat else value_text(self.multipliers)),
                ("maximum error", number_text(float(self.errors.max(initial=0.0)))),
                ("contraction in the box", number_text(self.contraction)),
                ("method", _METHOD.format(self.bits)),
            ]
        return [*rows, ("reason", self.reason)] if self.reason else rows


def prove_orbit(
    law: Callable[[Sequence[Any], Any], Sequence[Any]],
    state: Sequence[float],
    p: Any = None,
    rounds: int = 1,
    *,
    box: Mapping[str, tuple[float, float]] | None = None,
    max_bits: int = BITS[-1],
) -> OrbitProof:
    """Return the proof that a map has a periodic orbit near a state, and whether it is stable.

    Parameters
    ----------
    law : callable
        `law(state, p)`: all states after a round. A plain function in the language of laws: + - * /, powers,
        comparisons, min, max, abs, and exp, log, sqrt and tanh of `ecc.laws.elementary`. Loops and `floor`, `int` are
        allowed if they have the same result in the whole box.
    state : sequence of float and int
        State near the orbit, before its first round. An int is a discrete state, which must return exactly.
    p : object, optional
        Parameters: a number, a sequence, a mapping, or an object with attributes.
    rounds : int, >= 1, optional
        Rounds after which the orbit returns.
    box : mapping, optional
        Attribute of p -> (lowest, highest): the orbit is proven for all parameters in this box. `state` should then be
        near the orbit for the parameters in its middle.
    max_bits : int, >= 96, optional
        Maximum precision.

    Returns
    -------
    OrbitProof

    Raises
    ------
    TypeError
        The law is not in the language of laws.
    ValueError
        `rounds` is < 1, or a pair of `box` is not in order.

    Examples
    --------
    >>> proof = prove_orbit(lambda x, r: [r * x[0] * (1.0 - x[0])], [0.6875], 3.2 / 1.0)
    >>> proof.exists, proof.multipliers_inside, proof.multipliers.real.round(3).tolist()
    (True, False, [-1.2])
    >>> prove_orbit(lambda x, r: [r * x[0] * (1.0 - x[0])], [0.5130], 3.2, rounds=2).multipliers_inside
    True
    """
    if not isinstance(rounds, int) or rounds < 1:
        raise ValueError(f"rounds must be an int >= 1, got {shown(rounds)}")
    for name, pair in (box or {}).items():
        if not (len(pair) == 2 and -inf < pair[0] <= pair[1] < inf):
            raise ValueError(f"box must have pairs (lowest, highest), got {shown(pair)} for {name}")
    proof = OrbitProof(False, None, reason="no precision was tried: max_bits is below 96")
    for number in BITS:
        if number > max_bits:
            break
        with precision(number):
            try:
                proof = _Return(law, state, p, rounds, dict(box or {})).proof(number)
            except UndecidedError as error:
                if not proof.exists:
                    proof = OrbitProof(False, None, bits=number, reason=str(error))
        if proof.is_proven or (box and proof.exists):
            break
    return proof


def prove_rounds(form: RoundMap, **keywords: Any) -> OrbitProof:
    """Return the proof for the orbit of a map per round, for example of `protocol.round_map(network)`.

    Parameters
    ----------
    form : RoundMap
    **keywords : optional
        Options of `prove_orbit`.

    Examples
    --------
    >>> import ecc
    >>> net = ecc.models.ExpressPass.on(ecc.Network.dumbbell("10 Gb/s", ["40 us"] * 2))
    >>> prove_rounds(ecc.models.ExpressPass("10 Gb/s").round_map(net)).multipliers_inside
    True
    """
    return prove_orbit(form.law, form.state, form.p, form.rounds, **keywords)


def with_proof(cycle: LimitCycle, proof: OrbitProof) -> LimitCycle:
    """Return a limit cycle with the verdict of a proof of its return map; an undecided proof adds its reason as a note.

    Parameters
    ----------
    cycle : LimitCycle
        Cycle whose multipliers are those of the same map over the same rounds.
    proof : OrbitProof
    """
    if not proof.is_proven:
        return replace(cycle, notes=(*cycle.notes, f"not proven: {proof.reason}"))
    known, proven = (float(np.abs(values[:1]).max(initial=0.0)) for values in (cycle.multipliers, proof.multipliers))
    if abs(known - proven) > _AGREES + float(proof.errors.max(initial=0.0)):
        note = f"not proven: the orbit of the proof has the multiplier {proven:.4g} instead of {known:.4g}"
        return replace(cycle, notes=(*cycle.notes, note))
    return replace(cycle, stable=proof.multipliers_inside, proven=True)


class _Return:
    """The map over the rounds of an orbit, on balls at the present precision.

    Variables are the continuous states that the map changes (`varied`), then the parameters of a box.
    """

    def __init__(
        self, law: Callable[..., Any], state: Sequence[Any], p: Any, rounds: int, box: dict[str, tuple[float, float]]
    ) -> None:
        for value in state:
            if not isinstance(value, numbers.Real) or not isfinite(value):
                raise TypeError(f"state must have finite numbers, got {shown(value)}")
        self.law, self.template, self.rounds = on_balls(law), list(state), rounds
        self.varied = [k for k, value in enumerate(state) if not isinstance(value, int)]
        self.constant: list[int] = []
        self.names, self.p = list(box), p
        self.ranges = [as_arb(low).union(as_arb(high)) for low, high in box.values()]
        self.centers = [as_arb(pair.mid()) for pair in self.ranges]
        self.at_center = self._parameters(self.centers)
        self.in_box = self._parameters(self.ranges) if box else self.at_center
        self.corner = ""

    def _parameters(self, values: list[Any]) -> Any:
        n = len(self.varied)
        return with_balls(
            self.p,
            {
                name: Ball(value, {n + j: as_arb(1)})
                for j, (name, value) in enumerate(zip(self.names, values, strict=True))
            },
        )

    def _round(self, state: list[Any], p: Any) -> list[Any]:
        try:
            after = list(self.law(state, p))
        except (AttributeError, TypeError) as error:
            raise TypeError(f"the law cannot be evaluated on balls: {error}; {LANGUAGE}") from None
        except (ArithmeticError, ValueError) as error:
            raise UndecidedError(f"the law fails on the orbit: {error}") from None
        if len(after) != len(state):
            raise ValueError(f"the law must return {len(state)} states, got {len(after)}")
        result: list[Any] = []
        for k, (value, old) in enumerate(zip(after, self.template, strict=True)):
            if isinstance(old, int):
                result.append(int(value))
                continue
            ball = value if isinstance(value, Ball) else Ball(as_arb(value))
            if not (ball.value.is_finite() and all(slope.is_finite() for slope in ball.slopes.values())):
                raise UndecidedError(f"state {k} is not bounded in the box, or a slope of it is not")
            result.append(ball)
        return result

    def _start(self, values: list[Any]) -> list[Any]:
        state: list[Any] = [value if isinstance(value, int) else Ball(as_arb(value)) for value in self.template]
        for j, (k, value) in enumerate(zip(self.varied, values, strict=True)):
            state[k] = Ball(value, {j: as_arb(1)})
        return state

    def _returned(self, state: list[Any]) -> list[Any]:
        """Return the continuous states at the end of the period, and refuse discrete states that differ."""
        for k, (value, old) in enumerate(zip(state, self.template, strict=True)):
            if isinstance(old, int) and value != old:
                raise UndecidedError(f"state {k} is {value} instead of {old} after {self.rounds} rounds")
        return [state[k] for k in self.varied]

    def at(self, point: list[Any]) -> list[list[Any]]:
        """Return all states after each round, from a point, for the parameters in the middle of their box."""
        states, path = self._start(point), []
        for _ in range(self.rounds):
            states = self._round(states, self.at_center)
            path.append(states)
        self._returned(states)
        return path

    def over(self, X: list[Any], point: list[Any], path: list[list[Any]]) -> list[Any]:
        """Return the states after the period for all states in X and all parameters in their box.

        `path`: the states after each round from `point`.
        """
        changes = [*(x - c for x, c in zip(X, point, strict=True))]
        changes += [value - c for value, c in zip(self.ranges, self.centers, strict=True)]
        states = self._start(X)
        for there in path:
            states = self._round(states, self.in_box)
            for k in self.varied:
                ball = states[k]
                form = sum((slope * changes[j] for j, slope in ball.slopes.items()), there[k].value)
                if form.rad() < ball.value.rad():
                    states[k] = Ball(form, ball.slopes, ball.corner)
        for k in self.constant:
            if not states[k].value == as_arb(self.template[k]):
                raise UndecidedError(f"state {k} is unchanged on the orbit, but not proven to be so in the box")
        return self._returned(states)

    # ---- the proof ---------------------------------------------------------------------------------------

    def proof(self, number: int) -> OrbitProof:
        """Return the proof with balls of `number` bits."""
        point, path = self._refined(number)
        n = len(self.varied)
        if n == 0:
            return replace(_certain(Spectrum(np.zeros(0, complex), np.zeros(0), True, False)), bits=number)
        inverse = self._inverse(_slopes(self._returned(path[-1]), n))
        residual = [ball.value - c for ball, c in zip(self._returned(path[-1]), point, strict=True)]
        sizes = self._sizes(point, path)
        reason = ""
        for k in _WIDTHS if not self.names else ():
            if k > number - 12:
                break
            try:
                X = [_ball(c, size * as_arb(2) ** -k) for c, size in zip(point, sizes, strict=True)]
                image, slopes, corner = self._image(X, point, path, inverse, residual)
            except UndecidedError as error:
                reason = str(error)
                continue
            if _is_inside(image, X):
                return self._conclusion(X, image, slopes, corner, number, (point, path, inverse, residual))
            reason = _NOT_INSIDE
        radii = [size * as_arb(2) ** (16 - number) for size in sizes]
        for _ in range(_GROWTHS if self.names else 0):  # parameters move the orbit: a box around its image
            X = [_ball(c, radius) for c, radius in zip(point, radii, strict=True)]
            image, slopes, corner = self._image(X, point, path, inverse, residual)
            if _is_inside(image, X):
                return self._conclusion(X, image, slopes, corner, number, (point, path, inverse, residual))
            reason = _NOT_INSIDE
            grown = [1.25 * (y - c).abs_upper() for c, y in zip(point, image, strict=True)]
            radii = [_larger(radius, r) for radius, r in zip(grown, radii, strict=True)]
        raise UndecidedError(reason or f"no box was tried with {number} bits")

    def _image(
        self, X: list[Any], point: list[Any], path: list[list[Any]], inverse: Any, residual: list[Any]
    ) -> tuple[list[Any], Any, str]:
        """Return the image of a box under Krawczyk's operator, the derivative over the box, and its corners."""
        from flint import arb_mat

        n, m = len(X), len(self.names)
        balls = self.over(X, point, path)
        slopes = _slopes(balls, n)
        shifts = arb_mat(n, 1, residual)
        if m:
            of_box = arb_mat(n, m, [ball.slopes.get(n + j, as_arb(0)) for ball in balls for j in range(m)])
            moved = [value - c for value, c in zip(self.ranges, self.centers, strict=True)]
            shifts = shifts + of_box * arb_mat(m, 1, moved)
        one = _identity(n)
        away = arb_mat(n, 1, [x - c for x, c in zip(X, point, strict=True)])
        image = arb_mat(n, 1, point) - inverse * shifts + (one - inverse * (slopes - one)) * away
        return [image[k, 0] for k in range(n)], slopes, "; ".join(sorted({ball.corner for ball in balls} - {""}))

    def _conclusion(
        self, X: list[Any], image: list[Any], slopes: Any, corner: str, number: int, start: tuple[Any, ...]
    ) -> OrbitProof:
        """Return the proof with the multipliers over a box that the operator makes as small as it can."""
        contraction = contraction_factor(slopes)
        small = X
        for _ in range(_SHRINKS):
            floors = [x.rad() * as_arb(2) ** -40 + abs(x.mid()) * as_arb(2) ** (8 - number) for x in small]
            # a box keeps an interior: an orbit on a corner must not be taken as beside it
            narrowed = [_ball(y, radius) for y, radius in zip(image, floors, strict=True)]
            pairs = list(zip(narrowed, small, strict=True))
            if not (all(x.contains(y) for y, x in pairs) and any(y.rad() < 0.95 * x.rad() for y, x in pairs)):
                break
            small = narrowed
            image, slopes, corner = self._image(small, *start)
        proof = _certain(spectrum(slopes))
        corners = tuple(corner.split("; ")) if corner else ()
        if corners and proof.multipliers_inside is not True:
            inside = True if contraction_factor(slopes) < 1.0 else None
            reason = "" if inside else f"the orbit may be on a corner of {corner}, where slopes differ"
            proof = replace(proof, multipliers_inside=inside, reason=reason)
        state_boxes = [self._full(boxes) for boxes in (X, small)]
        return replace(
            proof,
            box=state_boxes[0],
            orbit=state_boxes[1],
            contraction=contraction,
            along=len(self.constant),
            corners=corners,
            bits=number,
        )

    def _full(self, boxes: list[Any]) -> tuple[tuple[float, float], ...]:
        """Return the limits of all states as floats that are rounded outwards."""
        limits = [(float(value), float(value)) for value in self.template]
        for k, ball in zip(self.varied, boxes, strict=True):
            limits[k] = _limits(ball)
        return tuple(limits)

    def _refined(self, number: int) -> tuple[list[Any], list[list[Any]]]:
        """Return a point near the orbit by Newton's method, and its states after each round."""
        from flint import arb_mat

        point = [as_arb(self.template[k]) for k in self.varied]
        path = self.at(point)
        self._set_constant(point, path, number)
        point = [as_arb(self.template[k]) for k in self.varied]
        path = self.at(point)
        n = len(self.varied)
        if n == 0:
            return point, path
        last = inf
        for _ in range(_NEWTON_STEPS):
            balls = self._returned(path[-1])
            residual = [(ball.value - c).mid() for ball, c in zip(balls, point, strict=True)]
            step = self._inverse(_slopes(balls, n)) * arb_mat(n, 1, residual)
            sizes = [abs(c) for c in point]
            change = max(float((abs(step[k, 0]) / (sizes[k] if sizes[k] > 0 else as_arb(1))).mid()) for k in range(n))
            if not isfinite(change) or change == 0.0 or change >= last < _CLOSE or change > 1e3:
                break
            point = [as_arb((c - step[k, 0]).mid()) for k, c in enumerate(point)]
            path = self.at(point)
            last = change
        return point, path

    def _set_constant(self, point: list[Any], path: list[list[Any]], number: int) -> None:
        """Count states that the map returns unchanged as parameters.

        The slope of such a state is exactly 1 in a box, not only at the point, and the point returns exactly.
        """
        X = [_ball(c, (abs(c) if c != 0 else as_arb(1)) * as_arb(2) ** (16 - number)) for c in point]
        balls = self.over(X, point, path)
        constant = []
        for j, (k, ball, there, c) in enumerate(zip(self.varied, balls, self._returned(path[-1]), point, strict=True)):
            if there.value == c and set(ball.slopes) == {j} and ball.slopes[j] == 1:
                constant.append(k)
        if constant:
            self.constant = constant
            self.varied = [k for k in self.varied if k not in constant]
            self.at_center = self._parameters(self.centers)
            self.in_box = self._parameters(self.ranges) if self.names else self.at_center

    def _sizes(self, point: list[Any], path: list[list[Any]]) -> list[Any]:
        """Return the scale of each state: its maximum on the orbit, or 1."""
        sizes = []
        for k, c in zip(self.varied, point, strict=True):
            size = max([float(abs(c)), *(float(abs(states[k].value).mid()) for states in path)])
            sizes.append(as_arb(size if size > 0.0 else 1.0))
        return sizes

    def _inverse(self, slopes: Any) -> Any:
        """Return a matrix near the inverse of F' - 1."""
        n = slopes.nrows()
        try:
            return (slopes - _identity(n)).mid().inv().mid()
        except ZeroDivisionError:
            raise UndecidedError("a multiplier is 1, up to the precision: orbits may not be isolated") from None


def _certain(eigenvalues: Spectrum) -> OrbitProof:
    """Return a proof with these multipliers."""
    reason = "" if eigenvalues.inside is not None else "a multiplier is too near the unit circle for this precision"
    return OrbitProof(
        True,
        eigenvalues.inside,
        dead_beat=eigenvalues.nilpotent,
        multipliers=eigenvalues.values,
        errors=eigenvalues.errors,
        reason=reason,
    )


def _identity(n: int) -> Any:
    from flint import arb_mat

    return arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])


def _slopes(balls: list[Any], n: int) -> Any:
    """Return the derivatives of states with respect to the first n variables."""
    from flint import arb_mat

    return arb_mat(len(balls), n, [ball.slopes.get(j, as_arb(0)) for ball in balls for j in range(n)])


def _ball(center: Any, radius: Any) -> Any:
    from flint import arb

    return center + arb(0, radius)


def _larger(a: Any, b: Any) -> Any:
    return a if a.mid() > b.mid() else b


def _is_inside(image: list[Any], X: list[Any]) -> bool:
    return all(x.contains_interior(y) for x, y in zip(X, image, strict=True))


def _limits(ball: Any) -> tuple[float, float]:
    """Return limits of a ball as floats that are rounded outwards."""
    return nextafter(float(ball.lower()), -inf), nextafter(float(ball.upper()), inf)
