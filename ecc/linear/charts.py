"""Stability charts: a rectangle of two parameters, divided into cells with a proven number of unstable roots.

On the line s = sigma + j w the determinant of a family is F(w; u) with parameters u (`ecc.linear.plane_form`). On a
piece of the frequency axis and a cell of parameters, F lies within a bound of second order of its linear part

    F_0 + F_w dw + F_1 du_1 + F_2 du_2,     |dw| <= h_w, |du_i| <= h_i,

a parallelogon of the complex plane. A straight line separates it from 0 if and only if one parallel to a side does. If
the distance exceeds the bound, no member of the cell has a root on the piece. Pieces that fail are halved, until the
cell fails at one frequency alone; such a cell is divided into four. Above a proven frequency the leading power exceeds
all others. In a cell that is clear on the whole line, all members have the same number of roots right of it. So have
connected clear cells, and the number is proven for one member in ball arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, inf, log2, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed, Rows, number_text
from ecc._support.reports import ProgressCallback, Reporter
from ecc.errors import ConvergenceError
from ecc.linear.characteristic import Complex, Real
from ecc.linear.continuous import DelaySystem
from ecc.linear.delay_model import DelayModel
from ecc.linear.plane_form import Local, PlaneForm, reach

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["StabilityChart", "stability_chart"]

_FIRST_LEVEL, _MAX_LEVEL = 2, 10  # cells have widths of 2^-level of the ranges
_MAX_DEPTH = 3  # the rectangle is divided into up to 4^3 blocks if the family is not smooth over the whole
_CHUNK = 64  # cells examined at once
_FIRST_PIECES, _MAX_PIECES = 32, 4096  # pieces of the frequency axis for each cell
_HALVINGS = 12  # a cell that needs shorter pieces is as good as at the boundary
_EPS = float(np.finfo(np.float64).eps)
_TRIED = 4  # members of a group of cells for which a proof is tried
_UNSTABLE_COLORS = ("#fdd9b4", "#fdae6b", "#f1812b", "#b3540b")


@dataclass(frozen=True, repr=False, eq=False)
class StabilityChart(Displayed):
    """Cells of a rectangle of two parameters, each proven stable, proven unstable, or undecided.

    Attributes
    ----------
    names : tuple of str
        Names of both parameters.
    ranges : tuple of tuple of float
        Lower and upper end of both.
    grid : ndarray, shape (m, m)
        Number of roots on or right of the line, proven for all members of a small cell: row i is the i-th of m equal
        ranges of the first parameter, column k the k-th of the second. nan: undecided; inf: infinitely many roots.
    line : float
        Line right of which roots are counted, 1/s.
    cells : int
        Cells that were examined.
    members : int
        Members of the family that were computed.
    status : str
        "complete"; or the reason why cells are undecided that could be divided further: "effort" or "interrupted".
    notes : tuple of str
        The hypothesis of the proof, and limitations.
    """

    names: tuple[str, str]
    ranges: tuple[tuple[float, float], tuple[float, float]]
    grid: Real
    line: float
    cells: int
    members: int
    status: str
    notes: tuple[str, ...] = ()

    @property
    def areas(self) -> dict[str, float]:
        """Area of each verdict, in the product of the units of both parameters."""
        (a, b), (c, d) = self.ranges
        cell = (b - a) * (d - c) / self.grid.size
        counts = {
            "stable": np.count_nonzero(self.grid == 0.0),
            "unstable": np.count_nonzero(self.grid > 0.0),
            "undecided": np.count_nonzero(np.isnan(self.grid)),
        }
        return {verdict: float(count * cell) for verdict, count in counts.items()}

    @check_arguments
    def unstable(self, x: float, y: float) -> float:
        """Return the number of roots on the line or right of it, nan if it is not decided, inf if it is infinite.

        Parameters
        ----------
        x, y : float
            Values of both parameters, within their ranges.
        """
        index = []
        for name, value, (low, high) in zip(self.names, (x, y), self.ranges, strict=True):
            if not low <= value <= high:
                raise ValueError(f"{name} must be in [{low:g}, {high:g}], got {shown(value)}")
            index.append(min(int((value - low) / (high - low) * len(self.grid)), len(self.grid) - 1))
        return float(self.grid[index[0], index[1]])

    def verdict(self, x: float, y: float) -> str:
        """Return "stable", "unstable" or "undecided".

        Parameters
        ----------
        x, y : float
            Values of both parameters, within their ranges.
        """
        number = self.unstable(x, y)
        return "undecided" if np.isnan(number) else "unstable" if number > 0.0 else "stable"

    def plot(self) -> go.Figure:
        """Return the chart as a figure: blue is stable, orange unstable (darker with more roots), gray undecided."""
        from ecc.plot.look import PALETTE, axis, figure

        colors = ["#9a9a9a", PALETTE[0], *_UNSTABLE_COLORS]
        n_colors = len(_UNSTABLE_COLORS)
        texts = ["undecided", "stable", *(str(k) for k in range(1, n_colors)), f"{n_colors} or more"]
        z = np.where(np.isnan(self.grid), -1.0, np.minimum(self.grid, float(n_colors)))
        shares = np.linspace(0.0, 1.0, len(colors) + 1)
        edges = [np.linspace(*ends, len(self.grid) + 1) for ends in self.ranges]
        fig = figure(height=460)
        fig.add_heatmap(
            x=edges[0],
            y=edges[1],
            z=z.T.astype(np.int8),
            zmin=-1.5,
            zmax=n_colors + 0.5,
            colorscale=[[share, color] for k, color in enumerate(colors) for share in shares[k : k + 2].tolist()],
            colorbar={
                "title": {"text": "unstable roots", "side": "top"},
                "tickvals": list(range(-1, n_colors + 1)),
                "ticktext": texts,
                "outlinewidth": 0,
                "thickness": 14,
            },
            hovertemplate="%{x:.4g}, %{y:.4g}<extra></extra>",
        )
        fig.update_layout(xaxis=axis(self.names[0]), yaxis=axis(self.names[1]))
        return fig

    def _title(self) -> str:
        return f"Stability chart over {self.names[0]} and {self.names[1]}"

    def _rows(self) -> Rows:
        areas = self.areas
        total = sum(areas.values())
        rows = [
            (name, f"{number_text(low)} to {number_text(high)}")
            for name, (low, high) in zip(self.names, self.ranges, strict=True)
        ]
        rows += [(verdict, f"{100.0 * area / total:.2f} % of the area") for verdict, area in areas.items()]
        line = [("right of", f"{self.line:.6g} 1/s")] if self.line else []
        return [*rows, *line, ("effort", f"{self.cells:,} cells, {self.members} members, {self.status}")]


@check_arguments
def stability_chart(
    family: Callable[..., Any],
    ranges: Mapping[str, Any],
    *,
    resolution: float = 1.0 / 128.0,
    line: float = 0.0,
    effort: int = 20_000,
    progress: ProgressCallback | None = None,
) -> StabilityChart:
    """Return proven verdicts over a rectangle of two parameters, by cells that are refined at the boundaries.

    Parameters
    ----------
    family : callable
        Function from both parameters, by name, to a DelaySystem or a DelayModel, whose poles are then meant.
    ranges : mapping
        Name of a parameter -> (lower end, upper end), for both parameters.
    resolution : float, optional
        Smallest width of a cell relative to the range, 2^-10 to 1/4; rounded down to a power of two.
    line : float, optional
        Line, 1/s: roots on it or to its right count as unstable, for example -0.5 for a decay rate of 0.5 1/s.
    effort : int, optional
        Maximum number of cells that are examined, >= 1.
    progress : callable, optional
        Called with a `Progress` at most twice a second.

    Returns
    -------
    StabilityChart
        If it is interrupted (Ctrl-C), with the cells that have been decided, and the status "interrupted".

    Raises
    ------
    ValueError
        Ranges are not two increasing pairs, a member has a known artificial root on the line, or the resolution is out
        of range.   TypeError: the family returns something else.
    ConvergenceError
        Delays are not affine in the parameters, coefficients are not smooth, or the determinant has too many terms.

    Notes
    -----
    The hypothesis, which is noted in the result: between the computed members, the coefficients are the polynomials and
    the delays the affine functions that they are at the computed ones. All else is proven: cells in floating point with
    bounds on its errors, numbers of roots in ball arithmetic.

    A neutral system counts as unstable with infinitely many roots if its neutral part, with one delay, has a gain
    above 1; if absolute values do not bound a neutral part with several delays, the cell is undecided.

    Cost: a few dozen members, then about a millisecond a cell for systems of few states and delays. A cell at the
    boundary stays undecided at any resolution.

    Examples
    --------
    >>> chart = stability_chart(  # x' = -a x - b x(t - 1), stable for a > |b| at least
    ...     lambda a, b: DelaySystem([-a, -b], [0.0, 1.0]), {"a": (-2.0, 4.0), "b": (-2.0, 6.0)}, resolution=1 / 32
    ... )
    >>> chart.verdict(2.0, 1.0), chart.verdict(0.0, 5.0), chart.unstable(0.0, 5.0)
    ('stable', 'unstable', 2.0)
    """
    names, ends = _read_ranges(ranges)
    if not 2.0**-_MAX_LEVEL <= resolution <= 0.25:
        raise ValueError(f"resolution must be in [2^-{_MAX_LEVEL}, 0.25], got {shown(resolution)}")
    if effort < 1:
        raise ValueError(f"effort must be >= 1, got {effort}")

    members = 0

    def system(first: float, second: float) -> DelaySystem:
        nonlocal members
        members += 1
        values = [low + 0.5 * (high - low) * (1.0 + u) for (low, high), u in zip(ends, (first, second), strict=True)]
        return _checked(family(**dict(zip(names, values, strict=True))), line)

    blocks = _blocks(system, ceil(log2(1.0 / resolution) - 1e-9))
    forms = [block.form for block in blocks if block.form is not None]
    search = _Search(blocks, line, ceil(log2(1.0 / resolution) - 1e-9), effort, Reporter(progress))
    status = search.run()
    grid, notes = _numbered(search, system)
    notes = (
        f"assumed between the computed members, not proven: coefficients are polynomials of degree "
        f"{max(form.degree for form in forms)} in each parameter, and delays affine, as they are at these members",
        *_gaps(blocks, names, ends),
        *notes,
    )
    return StabilityChart(names, ends, grid, line, search.cells, members, status, notes)


def _read_ranges(ranges: Mapping[str, Any]) -> tuple[tuple[str, str], tuple[tuple[float, float], tuple[float, float]]]:
    """Return names and ranges of the parameters."""
    if len(ranges) != 2:
        raise ValueError(f"ranges must have two parameters, got {len(ranges)}")
    out = []
    for name, pair in ranges.items():
        try:
            low, high = (float(end) for end in pair)
        except (TypeError, ValueError):
            raise ValueError(f"range of {name} must be (lower end, upper end), got {shown(pair)}") from None
        if not -inf < low < high < inf:
            raise ValueError(f"range of {name} must be finite and increasing, got {shown(pair)}")
        out.append((low, high))
    first, second = ranges
    return (first, second), (out[0], out[1])


def _checked(member: Any, line: float) -> DelaySystem:
    """Return the system of a member."""
    system = member.system if isinstance(member, DelayModel) else member
    if not isinstance(system, DelaySystem):
        raise TypeError(f"family must return a DelaySystem or a DelayModel, got {type(member).__name__}")
    near = [root for root in system._removable if abs(root - line) < 1e-6 * system.characteristic_matrix.resolution]
    if near:
        raise ValueError(
            f"line must differ from the artificial roots of distributed delays by more than 1e-6 of their distances, "
            f"got {line:g} 1/s and the root {near[0]:g} 1/s"
        )
    return system


class _Block(NamedTuple):
    """A square of width 2^(1 - depth) in normalized parameters with its form, or the reason why it has none."""

    row: int
    column: int
    depth: int
    form: PlaneForm | None
    reason: str = ""

    def described(self, names: Sequence[str], ends: Sequence[tuple[float, float]]) -> str:
        """Return the ranges of both parameters as text."""
        width = 0.5**self.depth
        return ", ".join(
            f"{name} = {low + k * width * (high - low):.6g} to {low + (k + 1) * width * (high - low):.6g}"
            for name, (low, high), k in zip(names, ends, (self.row, self.column), strict=True)
        )


def _gaps(blocks: Sequence[_Block], names: Sequence[str], ends: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    """Return a note on the blocks without a form."""
    gaps = [block for block in blocks if block.form is None]
    if not gaps:
        return ()
    share = sum(0.25**block.depth for block in gaps)
    return (f"{share:.1%} of the area is undecided, for example {gaps[0].described(names, ends)}: {gaps[0].reason}",)


def _blocks(system: Callable[[float, float], DelaySystem], levels: int) -> list[_Block]:
    """Return squares on which the family is smooth: the whole one, or parts of parts."""
    remaining, out = [(0, 0, 0)], list[_Block]()
    while remaining:
        i, k, depth = remaining.pop()
        half = 0.5**depth
        center = -1.0 + (2 * i + 1) * half, -1.0 + (2 * k + 1) * half
        try:
            form = PlaneForm.fit(lambda a, b, c=center, h=half: system(c[0] + h * a, c[1] + h * b))  # type: ignore[misc]
            out.append(_Block(i, k, depth, form))
        except ConvergenceError as error:
            if depth < min(_MAX_DEPTH, levels):
                remaining += [(2 * i + a, 2 * k + b, depth + 1) for a in (0, 1) for b in (0, 1)]
                continue
            out.append(_Block(i, k, depth, None, str(error)))
    if all(block.form is None for block in out):
        raise ConvergenceError(out[0].reason, None)
    return out


class _Search:
    """The cells that are clear, level by level; `clear` has the level of the clear cell that contains a small one."""

    def __init__(self, blocks: Sequence[_Block], line: float, levels: int, effort: int, report: Reporter) -> None:
        self.blocks = [block for block in blocks if block.form is not None]
        self.line, self.levels, self.effort, self.report = line, levels, effort, report
        self.cells = 0
        self.clear = np.full((1 << levels, 1 << levels), -1, np.int8)
        self.infinite = np.zeros(self.clear.shape, bool)

    def run(self) -> str:
        """Examine cells until none can be divided, and return the status."""
        waiting = [(block, max(block.depth, _FIRST_LEVEL), _first_cells(block)) for block in self.blocks]
        try:
            while waiting:
                waiting.sort(key=lambda item: -item[1])
                block, level, cells = waiting.pop()
                failed = []
                for k in range(0, len(cells), _CHUNK):
                    part = cells[k : k + _CHUNK]
                    if self.cells + len(part) > self.effort:
                        return "effort"
                    self.report(partial("cells of width 2^-{}: {} of {}".format, level, k, len(cells)))
                    failed.append(part[~self._examine(block, part, level)])
                    self.cells += len(part)
                remaining = np.concatenate(failed)
                if len(remaining) and level < self.levels:
                    waiting.append((block, level + 1, _quarters(remaining)))
        except KeyboardInterrupt:
            return "interrupted"
        return "complete"

    def _examine(self, block: _Block, cells: NDArray[np.int64], level: int) -> NDArray[np.bool_]:
        """Return which cells are decided, and enter them."""
        assert block.form is not None
        half = 2.0 ** (block.depth - level)  # in the parameters of the block
        origin = np.array([block.row, block.column]) << (level - block.depth)
        centers = -1.0 + (2.0 * (cells - origin) + 1.0) * half
        local = block.form.local(centers[:, 0], centers[:, 1], half)
        lead, top, infinite = _tops(local, self.line)
        good = lead.copy()
        index = np.flatnonzero(lead)
        good[index] = _clear(local, self.line, index, top[index])
        size = 1 << (self.levels - level)
        for (i, k), is_clear, is_infinite in zip(cells.tolist(), good.tolist(), infinite.tolist(), strict=True):
            place = np.s_[i * size : (i + 1) * size, k * size : (k + 1) * size]
            if is_clear:
                self.clear[place] = level
            self.infinite[place] |= is_infinite
        return np.asarray(good | infinite)


def _first_cells(block: _Block) -> NDArray[np.int64]:
    """Return the cells of the first level of a block."""
    cells = np.array([[block.row, block.column]])
    for _ in range(block.depth, _FIRST_LEVEL):
        cells = _quarters(cells)
    return cells


def _quarters(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray((2 * cells[:, None] + np.array([[0, 0], [0, 1], [1, 0], [1, 1]])).reshape(-1, 2))


def _tops(local: Local, line: float) -> tuple[NDArray[np.bool_], Real, NDArray[np.bool_]]:
    """Return whether the leading power bounds the roots of a cell, the bound, and whether they have infinitely many."""
    late, soon = local.delay + local.spread, np.maximum(local.delay - local.spread, 0.0)
    weight = np.exp(np.maximum(-line * late, -line * soon)) * (1.0 + 8.0 * _EPS)
    sizes = local.upper * weight[:, None]
    lead = local.lower[:, -1, 0] - sizes[:, -1, 1:].sum(axis=1)
    bounded = lead > 0.0
    top = reach(sizes[:, :-1].sum(axis=2), np.where(bounded, lead, 1.0)) * (1.0 + 1e-9)
    min_weight = np.exp(np.minimum(-line * late, -line * soon)) * (1.0 - 8.0 * _EPS)
    neutral = (local.lower[:, -1, 1:].clip(0.0) * min_weight[:, 1:]).sum(axis=1)
    # delays of one state are independent, and so is a single one
    independent = (local.value.shape[1] == 2) | ((sizes[:, -1, 1:] > 0.0).sum(axis=1) == 1)
    return bounded, np.maximum(top, 1e-300), independent & (neutral > local.upper[:, -1, 0])


def _clear(local: Local, line: float, index: NDArray[np.int64], top: Real) -> NDArray[np.bool_]:
    """Return which of some cells have no root on the line up to a frequency."""
    still = np.zeros(len(index))
    good = _excludes_zero(local, line, index, still, still)  # the point on the real axis
    index, top, where = index[good], top[good], np.flatnonzero(good)
    share = (np.arange(_FIRST_PIECES) + 0.5) / _FIRST_PIECES
    cell = np.repeat(np.arange(len(index)), _FIRST_PIECES)
    center, half = np.outer(top, share).ravel(), np.repeat(0.5 * top / _FIRST_PIECES, _FIRST_PIECES)
    spent = np.full(len(index), _FIRST_PIECES)
    for _ in range(_HALVINGS):
        fails = ~_excludes_zero(local, line, index[cell], center, half)
        cell, center, half = cell[fails], center[fails], half[fails]
        hopeless = ~_excludes_zero(local, line, index[cell], center, np.zeros(len(cell)))
        spent += 2 * np.bincount(cell, minlength=len(index))
        good[where[cell[hopeless]]] = False
        good[where[spent > _MAX_PIECES]] = False
        keep = good[where[cell]]
        cell, center, half = np.repeat(cell[keep], 2), np.repeat(center[keep], 2), 0.5 * np.repeat(half[keep], 2)
        center[::2] -= half[::2]
        center[1::2] += half[1::2]
    good[where[cell]] = False
    return good


def _excludes_zero(local: Local, line: float, cell: NDArray[np.int64], w: Real, half: Real) -> NDArray[np.bool_]:
    """Return whether no member of a cell has a root on the piece of a line around a frequency."""
    s, n = line + 1j * w, local.value.shape[1]
    j = np.arange(n)
    value, change, theta, turn = local.value[cell], local.change[:, cell], local.delay[cell], local.turn[:, cell]
    spread, size = local.spread[cell], np.abs(s)
    powers = s[:, None] ** j
    steep = np.zeros_like(powers)
    steep[:, 1:] = j[1:] * powers[:, :-1]
    late = np.exp(-s[:, None] * theta)
    fast = half[:, None] * theta > 1.0  # phases that turn within the piece: bounded by the modulus
    weight = np.abs(late)
    late[fast] = 0.0
    inner = np.einsum("pj,pjm->pm", powers, value)
    center = (inner * late).sum(axis=1)
    sides = np.empty((3, len(s)), complex)
    sides[:2] = ((np.einsum("pj,ipjm->ipm", powers, change) - s[:, None] * turn * inner) * late).sum(axis=2)
    sides[2] = 1j * half * ((np.einsum("pj,pjm->pm", steep, value) - theta * inner) * late).sum(axis=1)
    # the product of the bounds of all factors, less its constant and linear terms
    plain, linear = np.abs(value), np.abs(change).sum(axis=0)
    moduli, bent = np.abs(powers)[:, :, None], ((size + half)[:, None] ** j)[:, :, None]
    move = half[:, None] * np.abs(steep)
    phase = size[:, None] * spread + half[:, None] * theta
    both = half[:, None] * spread
    full = 1.0 + phase + both + 0.5 * (phase + both) ** 2 * np.exp(abs(line) * spread)
    total = (plain + linear + local.rest[cell]) * bent * full[:, None]
    low = plain * moduli * (1.0 + phase[:, None]) + linear * moduli + plain * move[:, :, None]
    modulus = ((plain + linear + local.rest[cell]) * bent).sum(axis=1) * np.exp(abs(line) * spread)
    remainder = (np.where(fast, modulus, (total - low).sum(axis=1)) * weight).sum(axis=1)
    rounding = _EPS * (
        (20.0 + 4.0 * n + theta.shape[1] + 4.0 * size[:, None] * theta)
        * weight
        * np.where(fast, modulus, total.sum(axis=1))
    )
    return np.asarray(_distance(center, sides) > remainder * (1.0 + 1e-12) + rounding.sum(axis=1))


def _distance(center: Complex, sides: Complex) -> Real:
    """Return the distance of 0 from parallelogons, up to their corners a lower bound; negative if they contain 0."""
    best = np.full(len(center), -inf)
    with np.errstate(all="ignore"):
        for toward in (center, *(1j * side for side in sides)):
            u = toward.conj() / np.abs(toward)
            gap = np.abs((u * center).real) - np.abs((u * sides).real).sum(axis=0)
            best = np.fmax(best, gap)
    return best


def _numbered(search: _Search, system: Callable[[float, float], DelaySystem]) -> tuple[Real, tuple[str, ...]]:
    """Return the grid with the number of roots of each group of clear cells, and notes.

    A second member of each group is counted: another number contradicts the hypothesis on the family.
    """
    from scipy.ndimage import label

    grid = np.where(search.infinite, inf, nan)
    groups, count = label(search.clear >= 0, np.ones((3, 3)))
    unit = 2.0 / len(grid)
    unknown = contradicted = 0
    for group in range(1, count + 1):
        inside = np.argwhere(groups == group)
        order = np.argsort(search.clear[groups == group], kind="stable")
        proofs = []
        for i, k in inside[order][np.unique(np.linspace(0, len(order) - 1, _TRIED).astype(int))].tolist():
            number = system(-1.0 + (i + 0.5) * unit, -1.0 + (k + 0.5) * unit).certify(search.line).unstable
            proofs += [] if number is None else [number]
            if len(proofs) == 2:
                break
        if len(set(proofs)) == 1:
            grid[groups == group] = proofs[0]
        unknown += not proofs
        contradicted += len(set(proofs)) > 1
    notes: tuple[str, ...] = ()
    if unknown:
        notes += (f"{unknown} groups of cells are undecided: no member of them could be counted by proof",)
    if contradicted:
        notes += (f"{contradicted} groups of cells are undecided: members contradict the hypothesis on the family",)
    grid.setflags(write=False)
    return grid, notes
