"""No root right of a line for a whole box of parameters: the characteristic over pieces of frequency and of the box.

A family of several parameters is sampled at nodes: along each parameter of a box at both ends and between them. The
frequency is in units of the member's longest delay, w = omega tau, and the determinant is that of the member times
tau^n > 0, so that members are alike. Between the nodes of a box, at every frequency, F(w) is taken to stray from the
multilinear interpolant of its corners by no more than twice what its nodes stray from it, parameter by parameter:
that is the one thing taken of a family here, true of smooth families where boxes are small, twice over. A parameter of
which every value in the box is a node (whole numbers) does not stray.

On a piece of the frequency axis F is its chord up to h^2/8 sup |F''|. If one half plane holds the values of all nodes
at both ends of the piece, with all these radii to spare, no member of the box has a root there; beyond the last piece
the leading power is more than twice all others. Boxes that fail are halved. Boxes that share faces and are clear have
as many roots right of the line, all of them, as one member has, which is proven in ball arithmetic.

Margins are roots, too: with L the open loop, F_0 its determinant and F the closed one, 1 + k L has the determinant
F_0 + k (F - F_0), affine in k. Clear for all k in [1, g] is a gain margin of at least g, clear for all k = exp(j psi),
|psi| <= phi, a phase margin of at least phi, over the whole box.
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

_BOXES, _PIECES = 4000, 4000  # at most; pieces for each box
_LEAST = 1e-3  # relative: no narrower box is tried
_GAIN, _ANGLE = 1.3, 0.35  # the widest pieces of factors and angles [rad] on the loop
_ROUNDING = 1e-9  # of the sum of moduli
_CANCELS = 1e-12  # of the largest coefficient
_TAKEN = (
    "taken of the models between those looked at, not proven: their determinants stray from interpolation by no more "
    "than twice what is seen (ecc.linear.box_cover)"
)


@dataclass(frozen=True)
class Axis:
    """A parameter of a family, from `low` to `high`, > 0; `whole`: whole numbers only."""

    name: str
    low: float
    high: float
    whole: bool = False

    def middle(self) -> float:
        """Where it is halved: evenly in the logarithm."""
        found = sqrt(self.low * self.high)
        return float(min(max(round(found), self.low + 1.0), self.high - 1.0)) if self.whole else found

    def nodes(self) -> tuple[float, ...]:
        """Both ends, and one value between them if there is one."""
        if self.low == self.high or (self.whole and self.high - self.low < 1.5):
            return tuple(dict.fromkeys((self.low, self.high)))
        return self.low, self.middle(), self.high

    def bend(self) -> float:
        """Twice how far a parabola is from its chord at most, over how far it is from it at the node between."""
        nodes = self.nodes()
        if len(nodes) < 3 or (self.whole and self.high - self.low < 2.5):
            return 0.0
        share = log(nodes[1] / nodes[0]) / log(nodes[2] / nodes[0])
        return 0.5 / (share * (1.0 - share))


@dataclass(frozen=True, repr=False)
class BoxCover(Displayed):
    """What is proven over a box: no root has Re s >= `line` [1/s], with these margins.

    `boxes`, `members`: into how many boxes it was cut, and how many members were looked at.
    """

    line: float
    gain_margin: float
    phase_margin: float
    boxes: int
    members: int
    notes: tuple[str, ...] = (_TAKEN,)
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

    def sizes(self, most: float) -> Real:
        """Moduli, with factors up to `most` on the loop."""
        weight = np.exp(-self.line * self.theta)
        return np.asarray((np.abs(self.base) + most * np.abs(self.rise)) * weight)

    def top(self, most: float) -> float:
        """Where the leading power is twice all others, and stays so."""
        sizes = self.sizes(most)
        lead = 2.0 * abs(self.base[-1, 0]) - sizes[-1].sum()
        if lead <= 0.0:
            return inf
        w = 1.0
        while 2.0 * float(np.hypot(self.line, w) ** np.arange(len(sizes) - 1) @ sizes[:-1].sum(axis=1)) > lead * w ** (
            len(sizes) - 1
        ):
            w *= 1.25
        return w

    def curvature(self, w: Real, most: float) -> Real:
        """A bound on |F''| up to w."""
        sizes, s = self.sizes(most), np.hypot(self.line, w)[:, None]
        found = np.zeros(len(w))
        for j, row in enumerate(sizes):
            found += (s**j * self.theta**2) @ row
            found += (2.0 * j * s ** max(j - 1, 0) * self.theta) @ row
            found += float(j * (j - 1)) * s[:, 0] ** max(j - 2, 0) * row.sum()
        return found


def _form(system: DelaySystem) -> dict[float, list[float]]:
    """The determinant: delay -> coefficients of the powers of s."""
    exact = QuasiPolynomial.of(align(system.terms())[0])
    if exact is None:
        raise ValueError("a cover of a box takes systems of up to twelve states")
    form = {int(t.p) / int(t.q): [int(x.p) / int(x.q) for x in p.coeffs()] for t, p in exact.terms.items()}
    unit = max(form) or 1.0
    sizes = {delay: max(abs(c) * unit**-j for j, c in enumerate(row)) for delay, row in form.items()}
    # what cancels but for its rounding would be a delay of some members only
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
    """Corners of polygons that hold all factors on the loop."""
    found: list[list[complex]] = []
    count = max(1, int(np.ceil(log(gain_margin) / log(_GAIN))))
    gains = np.geomspace(1.0, gain_margin, count + 1)
    found += [[complex(a), complex(b)] for a, b in zip(gains[:-1], gains[1:], strict=True)]
    count = int(np.ceil(phase_margin / _ANGLE))
    angles = np.linspace(0.0, phase_margin, count + 1)
    for a, b in zip(angles[:-1], angles[1:], strict=True):
        outer = np.exp(0.5j * (a + b)) / cos(0.5 * (b - a))
        piece = [complex(np.exp(1j * a)), complex(np.exp(1j * b)), complex(outer)]
        found += [piece, [one.conjugate() for one in piece]]
    return found


def cover_box(
    family: Callable[..., DelaySystem],
    axes: Sequence[Axis],
    line: float = 0.0,
    gain_margin: float = 1.0,
    phase_margin: float = 0.0,
) -> BoxCover:
    """Return the proof that no member of a family has a root right of a line, nor one with less than some margins.

    Parameters
    ----------
    family : callable
        From the parameters, by name, to a DelaySystem with `opened`, of one loop.
    axes : sequence of Axis
    line : float, 1/s, optional
    gain_margin, phase_margin : float, optional
        >= 1; rad, >= 0.

    Returns
    -------
    BoxCover

    Raises
    ------
    ConvergenceError
        Not proven: a member that has not what is to be proven, or is too near to that; `last` has its parameters.

    Notes
    -----
    What is taken of the family between its nodes, the module's text states; pieces are in floating point with bounds on
    their errors, one member in balls.

    Examples
    --------
    >>> def family(gain, delay):  # stable for gain delay < pi/2
    ...     return DelaySystem([-gain], [delay], opened=DelaySystem([0.0], [0.0]))
    >>> found = cover_box(family, [Axis("gain", 0.5, 1.4), Axis("delay", 0.5, 1.1)])
    >>> found.line
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
    left, clear = [tuple(axes)], 0
    while left:
        box = left.pop()
        nodes = [member(point) for point in product(*(axis.nodes() for axis in box))]
        same = len({one.base.shape[0] for one in nodes}) == 1  # else the number of states changes
        spread = _spread(nodes, box, factors) if same else np.ones(len(box))
        if spread is None:
            clear += 1
            continue
        wide = [axis.high - axis.low > (1.5 if axis.whole else _LEAST * axis.low) for axis in box]
        if not any(wide) or clear + len(left) >= _BOXES:
            raise ConvergenceError(
                f"not proven over the whole range: undecided at {shown_box(box)}", tuple(axis.low for axis in box)
            )
        at = int(np.argmax(np.where(wide, spread, -1.0)))
        axis, middle = box[at], box[at].middle()
        for low, high in ((axis.low, middle), (middle, axis.high)):
            left.append((*box[:at], Axis(axis.name, low, high, axis.whole), *box[at + 1 :]))
    return BoxCover(line, gain_margin, phase_margin, clear, len(known))


def _spread(nodes: Sequence[_Member], box: Sequence[Axis], factors: Sequence[Sequence[complex]]) -> Real | None:
    """None if no member of the box has a root on the line; else how far each parameter moves F where that fails."""
    most = max(abs(k) for piece in factors for k in piece)
    top = max(one.top(most) for one in nodes)
    if top == inf:
        raise ConvergenceError("not proven: neutral terms with delays are not covered")
    shape = [len(axis.nodes()) for axis in box]
    w = np.union1d(np.linspace(0.0, top, 33), np.geomspace(1e-4 * top, top, 65))
    low, high = w[:-1], w[1:]
    used = len(low)
    while len(low):
        ends = [[one.at(at) for one in nodes] for at in (low, high)]
        bound = np.max([one.curvature(high, most) for one in nodes], axis=0)
        noise = _ROUNDING * np.max([_modulus(one, high, most) for one in nodes], axis=0)
        remainder = (high - low) ** 2 / 8.0 * bound * (1.0 + sum(2.0 * axis.bend() for axis in box)) + noise
        base, rise = (np.array([[one[part] for one in end] for end in ends]) for part in (0, 1))
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
        if used > _PIECES:
            return _moves(base + rise, box, shape)
    return None


def _modulus(one: _Member, w: Real, most: float) -> Real:
    sizes, s = one.sizes(most), np.hypot(one.line, w)[:, None]
    return np.asarray((s ** np.arange(len(sizes))) @ sizes.sum(axis=1))


def _room(values: NDArray[Any]) -> Real:
    """How far 0 is from the half plane that holds values, over all axes but the last; < 0 where none does."""
    flat = values.reshape(-1, values.shape[-1])
    with np.errstate(all="ignore"):
        angles = np.angle(flat / flat.sum(axis=0))
        middle = 0.5 * (angles.max(axis=0) + angles.min(axis=0)) + np.angle(flat.sum(axis=0))
        found = (flat * np.exp(-1j * middle)).real.min(axis=0)
    return np.asarray(np.where(np.isfinite(found), found, -1.0))


def _bends(values: NDArray[Any], box: Sequence[Axis], shape: Sequence[int]) -> Real:
    """How far members between the nodes may be from their hull."""
    grid = values.reshape(*values.shape[:-2], *shape, values.shape[-1])
    found = np.zeros(values.shape[-1])
    for k, axis in enumerate(box):
        if (factor := axis.bend()) == 0.0:
            continue
        one, two, three = np.moveaxis(grid, len(values.shape) - 2 + k, 0)
        nodes = axis.nodes()
        share = log(nodes[1] / nodes[0]) / log(nodes[2] / nodes[0])
        off = np.abs(two - (1.0 - share) * one - share * three)
        found = found + factor * off.reshape(-1, off.shape[-1]).max(axis=0)
    return found


def _moves(values: NDArray[Any], box: Sequence[Axis], shape: Sequence[int]) -> Real:
    """How far F is at one end of each parameter from the other, in the mean."""
    rest = values.reshape(-1, *shape) if values.ndim == 3 else np.moveaxis(values, -1, 0).reshape(-1, *shape)
    size = np.abs(rest).reshape(len(rest), -1).mean(axis=1) + exp(-700.0)
    found = []
    for k in range(len(box)):
        ends = np.moveaxis(rest, k + 1, 0)
        found.append(float((np.abs(ends[-1] - ends[0]).reshape(len(rest), -1).mean(axis=1) / size).mean()))
    return np.array(found)
