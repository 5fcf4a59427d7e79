"""A proof that a box of parameters has no root right of a line, by pieces of frequency and of the box.

A family of several parameters is sampled at nodes: for each parameter of a box at both ends and between them. The
frequency is in units of the member's longest delay, w = omega tau, and the determinant is that of the member times
tau^n > 0, so that members are comparable. The hypothesis on the family: between the nodes of a box, at every frequency,
F(w) deviates from the multilinear interpolant of its corners by no more than twice the deviation of its nodes,
parameter by parameter. It holds for smooth families, with a factor of two to spare, if boxes are small. A parameter
with every value in the box as a node (whole numbers) does not deviate.

On a piece of the frequency axis F is its chord up to h^2/8 sup |F''|. If one half plane contains the values of all
nodes at both ends of the piece, with a distance that exceeds all these deviations, no member of the box has a root
there; beyond the last piece the leading power is more than twice all others. Boxes that fail are halved. Connected
boxes that are clear have the same number of roots right of the line, which is proven for one member in ball arithmetic.

Margins are roots, too: with L the open loop, F_0 its determinant and F the closed one, 1 + k L has the determinant
F_0 + k (F - F_0), affine in k. If it is clear for all k in [1, g], the gain margin is g or more over the whole box; if
it is clear for all k = exp(j psi), |psi| <= phi, the phase margin is phi or more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import cos, exp, inf, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.display import Displayed
from ecc.errors import ConvergenceError
from ecc.linear.characteristic import Complex, Real, align
from ecc.linear.continuous import DelaySystem
from ecc.linear.quasipolynomial import QuasiPolynomial

__all__ = ["Axis", "BoxCover", "cover_box"]

_MAX_BOXES, _MAX_PIECES = 4000, 4000  # pieces for each box
_MIN_WIDTH = 1e-3  # relative: boxes that are narrower are not divided
_GAIN, _ANGLE = 1.3, 0.35  # the widest pieces of factors and angles [rad] on the loop
_ROUNDING = 1e-9  # relative to the sum of moduli
_CANCELS = 1e-12  # relative to the largest coefficient
_HYPOTHESIS = (
    "assumed for the models between those computed, not proven: their determinants deviate from interpolation by no "
    "more than twice the observed deviation (ecc.linear.box_cover)"
)


@dataclass(frozen=True)
class Axis:
    """A parameter of a family, from `low` to `high`, > 0; `whole`: whole numbers only."""

    name: str
    low: float
    high: float
    whole: bool = False

    def middle(self) -> float:
        """Return the value at which the range is halved: the middle of the logarithms."""
        mean = sqrt(self.low * self.high)
        return float(min(max(round(mean), self.low + 1.0), self.high - 1.0)) if self.whole else mean

    def nodes(self) -> tuple[float, ...]:
        """Return both ends, and one value between them if there is one."""
        if self.low == self.high or (self.whole and self.high - self.low < 1.5):
            return tuple(dict.fromkeys((self.low, self.high)))
        return self.low, self.middle(), self.high

    def bend(self) -> float:
        """Return twice the ratio of a parabola's maximum deviation from its chord to that at the middle node."""
        nodes = self.nodes()
        if len(nodes) < 3 or (self.whole and self.high - self.low < 2.5):
            return 0.0
        share = log(nodes[1] / nodes[0]) / log(nodes[2] / nodes[0])
        return 0.5 / (share * (1.0 - share))


@dataclass(frozen=True, repr=False)
class BoxCover(Displayed):
    """A proof for a box of parameters: no root has Re s >= `line` [1/s], with these margins.

    `boxes`: number of boxes into which it was divided; `members`: number of members computed.
    """

    line: float
    gain_margin: float
    phase_margin: float
    boxes: int
    members: int
    notes: tuple[str, ...] = (_HYPOTHESIS,)
    _units = {"line": "1/s", "phase_margin": "rad"}

    def _title(self) -> str:
        return "Cover of a box of parameters: no root on the line or right of it"


@dataclass(frozen=True)
class _Member:
    """Coefficients (powers of s, delays) of F_0 and of F - F_0 over their delays, in units of the longest delay."""

    base: Real
    rise: Real
    theta: Real
    line: float

    def at(self, w: Real) -> tuple[Complex, Complex]:
        s = self.line + 1j * w
        late = np.exp(-np.multiply.outer(s, self.theta))
        powers = s[:, None] ** np.arange(len(self.base))
        return np.einsum("wj,jm,wm->w", powers, self.base, late), np.einsum("wj,jm,wm->w", powers, self.rise, late)

    def sizes(self, max_factor: float) -> Real:
        """Return moduli of the coefficients, with factors up to `max_factor` on the loop."""
        weight = np.exp(-self.line * self.theta)
        return np.asarray((np.abs(self.base) + max_factor * np.abs(self.rise)) * weight)

    def top(self, max_factor: float) -> float:
        """Return a frequency above which the leading power is more than twice all others."""
        sizes = self.sizes(max_factor)
        lead = 2.0 * abs(self.base[-1, 0]) - sizes[-1].sum()
        if lead <= 0.0:
            return inf
        w = 1.0
        while 2.0 * float(np.hypot(self.line, w) ** np.arange(len(sizes) - 1) @ sizes[:-1].sum(axis=1)) > lead * w ** (
            len(sizes) - 1
        ):
            w *= 1.25
        return w

    def curvature(self, w: Real, max_factor: float) -> Real:
        """Return a bound on |F''| up to w."""
        sizes, s = self.sizes(max_factor), np.hypot(self.line, w)[:, None]
        bound = np.zeros(len(w))
        for j, row in enumerate(sizes):
            bound += (s**j * self.theta**2) @ row
            bound += (2.0 * j * s ** max(j - 1, 0) * self.theta) @ row
            bound += float(j * (j - 1)) * s[:, 0] ** max(j - 2, 0) * row.sum()
        return bound


def _form(system: DelaySystem) -> dict[float, list[float]]:
    """Return the determinant: delay -> coefficients of the powers of s."""
    exact = QuasiPolynomial.of(align(system.terms())[0])
    if exact is None:
        raise ValueError("a cover of a box needs systems of up to twelve states")
    form = {int(t.p) / int(t.q): [int(x.p) / int(x.q) for x in p.coeffs()] for t, p in exact.terms.items()}
    unit = max(form) or 1.0
    sizes = {delay: max(abs(c) * unit**-j for j, c in enumerate(row)) for delay, row in form.items()}
    # terms that cancel up to rounding would add delays to some members only
    return {delay: row for delay, row in form.items() if sizes[delay] > _CANCELS * max(sizes.values())}


def _member(system: DelaySystem, line: float) -> _Member:
    closed, opened = _form(system), _form(system._opened())
    theta = sorted({0.0, *closed, *opened})
    n = system.size
    tau = theta[-1] or 1.0
    tables = np.zeros((2, n + 1, len(theta)))
    for table, form in zip(tables, (opened, closed), strict=True):
        for m, delay in enumerate(theta):
            for j, c in enumerate(form.get(delay, ())):
                table[j, m] = c * tau ** (n - j)
    return _Member(tables[0], tables[1] - tables[0], np.array(theta) / tau, line * tau)


def _factors(gain_margin: float, phase_margin: float) -> list[list[complex]]:
    """Return corners of polygons that contain all factors on the loop."""
    pieces: list[list[complex]] = []
    count = max(1, int(np.ceil(log(gain_margin) / log(_GAIN))))
    gains = np.geomspace(1.0, gain_margin, count + 1)
    pieces += [[complex(a), complex(b)] for a, b in zip(gains[:-1], gains[1:], strict=True)]
    count = int(np.ceil(phase_margin / _ANGLE))
    angles = np.linspace(0.0, phase_margin, count + 1)
    for a, b in zip(angles[:-1], angles[1:], strict=True):
        outer = np.exp(0.5j * (a + b)) / cos(0.5 * (b - a))
        piece = [complex(np.exp(1j * a)), complex(np.exp(1j * b)), complex(outer)]
        pieces += [piece, [corner.conjugate() for corner in piece]]
    return pieces


def cover_box(
    family: Callable[..., DelaySystem],
    axes: Sequence[Axis],
    line: float = 0.0,
    gain_margin: float = 1.0,
    phase_margin: float = 0.0,
) -> BoxCover:
    """Return a proof that no member of a family has a root right of a line, or margins below the given ones.

    Parameters
    ----------
    family : callable
        Function from the parameters, by name, to a DelaySystem with `opened`, of one loop.
    axes : sequence of Axis
        Parameters and their ranges, for example Axis("delay", 0.5, 1.1).
    line : float, 1/s, optional
        Line that must have no root on it or to its right.
    gain_margin, phase_margin : float, optional
        Gain margin, >= 1; phase margin, rad, >= 0.

    Returns
    -------
    BoxCover

    Raises
    ------
    ConvergenceError
        The property is not proven: a member lacks it or is too close to lacking it; `last` has its parameters.

    Notes
    -----
    The hypothesis on the family between its nodes is stated in the module. Pieces are evaluated in floating point with
    bounds on their errors, one member in ball arithmetic.

    Examples
    --------
    >>> def family(gain, delay):  # stable for gain delay < pi/2
    ...     return DelaySystem([-gain], [delay], opened=DelaySystem([0.0], [0.0]))
    >>> cover = cover_box(family, [Axis("gain", 0.5, 1.4), Axis("delay", 0.5, 1.1)])
    >>> cover.line
    0.0
    """
    known: dict[tuple[float, ...], _Member] = {}

    def member(point: tuple[float, ...]) -> _Member:
        if point not in known:
            known[point] = _member(family(**dict(zip((axis.name for axis in axes), point, strict=True))), line)
        return known[point]

    def shown_box(box: Sequence[Axis]) -> str:
        return ", ".join(f"{axis.name} = {shown(axis.low)} to {shown(axis.high)}" for axis in box)

    factors = _factors(gain_margin, phase_margin)
    first = family(**{axis.name: axis.low for axis in axes})
    if first.certify(line).stable is not True:
        raise ConvergenceError(
            f"not proven: a root lies right of {line:g} 1/s at {', '.join(f'{a.name} = {shown(a.low)}' for a in axes)}",
            tuple(axis.low for axis in axes),
        )
    remaining, clear = [tuple(axes)], 0
    while remaining:
        box = remaining.pop()
        nodes = [member(point) for point in product(*(axis.nodes() for axis in box))]
        same = len({node.base.shape[0] for node in nodes}) == 1  # otherwise the number of states changes
        spread = _spread(nodes, box, factors) if same else np.ones(len(box))
        if spread is None:
            clear += 1
            continue
        wide = [axis.high - axis.low > (1.5 if axis.whole else _MIN_WIDTH * axis.low) for axis in box]
        if not any(wide) or clear + len(remaining) >= _MAX_BOXES:
            raise ConvergenceError(
                f"not proven over the whole range: undecided at {shown_box(box)}", tuple(axis.low for axis in box)
            )
        at = int(np.argmax(np.where(wide, spread, -1.0)))
        axis, middle = box[at], box[at].middle()
        for low, high in ((axis.low, middle), (middle, axis.high)):
            remaining.append((*box[:at], Axis(axis.name, low, high, axis.whole), *box[at + 1 :]))
    return BoxCover(line, gain_margin, phase_margin, clear, len(known))


def _spread(nodes: Sequence[_Member], box: Sequence[Axis], factors: Sequence[Sequence[complex]]) -> Real | None:
    """Return None if no member of the box has a root on the line; else the change of F by each parameter."""
    max_factor = max(abs(k) for piece in factors for k in piece)
    top = max(node.top(max_factor) for node in nodes)
    if top == inf:
        raise ConvergenceError("not proven: neutral terms with delays are not covered")
    shape = [len(axis.nodes()) for axis in box]
    w = np.union1d(np.linspace(0.0, top, 33), np.geomspace(1e-4 * top, top, 65))
    low, high = w[:-1], w[1:]
    used = len(low)
    while len(low):
        ends = [[node.at(at) for node in nodes] for at in (low, high)]
        bound = np.max([node.curvature(high, max_factor) for node in nodes], axis=0)
        noise = _ROUNDING * np.max([_modulus(node, high, max_factor) for node in nodes], axis=0)
        remainder = (high - low) ** 2 / 8.0 * bound * (1.0 + sum(2.0 * axis.bend() for axis in box)) + noise
        base, rise = (np.array([[pair[part] for pair in end] for end in ends]) for part in (0, 1))
        good, hopeless = np.ones(len(low), dtype=bool), np.zeros(len(low), dtype=bool)
        for piece in factors:
            values = np.stack([base + k * rise for k in piece])  # factors, ends, nodes, frequencies
            room = _room(values) - _bends(values, box, shape)
            good &= room > remainder
            hopeless |= room <= 0.0
        if hopeless.any():
            worst = int(np.flatnonzero(hopeless)[0])
            values = np.stack([base + k * rise for piece in factors for k in piece])[..., worst]
            return _moves(values, box, shape)
        low, high = low[~good], high[~good]
        middle = 0.5 * (low + high)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        used += len(low)
        if used > _MAX_PIECES:
            return _moves(base + rise, box, shape)
    return None


def _modulus(member: _Member, w: Real, max_factor: float) -> Real:
    sizes, s = member.sizes(max_factor), np.hypot(member.line, w)[:, None]
    return np.asarray((s ** np.arange(len(sizes))) @ sizes.sum(axis=1))


def _room(values: NDArray[Any]) -> Real:
    """Return the distance of 0 from a half plane that contains the values, over all axes but the last; < 0 if none."""
    flat = values.reshape(-1, values.shape[-1])
    with np.errstate(all="ignore"):
        angles = np.angle(flat / flat.sum(axis=0))
        middle = 0.5 * (angles.max(axis=0) + angles.min(axis=0)) + np.angle(flat.sum(axis=0))
        distance = (flat * np.exp(-1j * middle)).real.min(axis=0)
    return np.asarray(np.where(np.isfinite(distance), distance, -1.0))


def _bends(values: NDArray[Any], box: Sequence[Axis], shape: Sequence[int]) -> Real:
    """Return the maximum distance of members between the nodes from the hull of the nodes."""
    grid = values.reshape(*values.shape[:-2], *shape, values.shape[-1])
    distance = np.zeros(values.shape[-1])
    for k, axis in enumerate(box):
        if (factor := axis.bend()) == 0.0:
            continue
        low, middle, high = np.moveaxis(grid, len(values.shape) - 2 + k, 0)
        nodes = axis.nodes()
        share = log(nodes[1] / nodes[0]) / log(nodes[2] / nodes[0])
        off = np.abs(middle - (1.0 - share) * low - share * high)
        distance = distance + factor * off.reshape(-1, off.shape[-1]).max(axis=0)
    return distance


def _moves(values: NDArray[Any], box: Sequence[Axis], shape: Sequence[int]) -> Real:
    """Return the mean change of F from one end of each parameter to the other."""
    points = values.reshape(-1, *shape) if values.ndim == 3 else np.moveaxis(values, -1, 0).reshape(-1, *shape)
    size = np.abs(points).reshape(len(points), -1).mean(axis=1) + exp(-700.0)
    changes = []
    for k in range(len(box)):
        ends = np.moveaxis(points, k + 1, 0)
        changes.append(float((np.abs(ends[-1] - ends[0]).reshape(len(points), -1).mean(axis=1) / size).mean()))
    return np.array(changes)
