"""Proofs of periodic orbits over ranges of parameters, by bisection of boxes.

At the middle of a box the map is run until it repeats, and the orbit is proven for all parameters in the box
(`ecc.cycles.orbit_proofs`). A box without a proof is halved, the largest boxes first. Orbits change their number of
rounds at some parameters, for example if a whole number of rounds has to fill a buffer; boxes around these stay
undecided, and their share falls as boxes become smaller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import log
from typing import Any

from ecc._support.display import Displayed, Rows, number_text, value_text
from ecc.contract.forms import RoundMap
from ecc.cycles.orbit_proofs import OrbitProof, prove_rounds
from ecc.errors import ConvergenceError, LinearizationError
from ecc.linear.box_cover import Axis

__all__ = ["OrbitCover", "cover_orbits"]

Box = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, repr=False)
class OrbitCover(Displayed):
    """The share of a range of parameters for which a periodic orbit is proven.

    Attributes
    ----------
    stable, unstable : float
        Share of the range, by the volume in logarithms of the parameters, on which an orbit is proven to exist with all
        multipliers inside the unit circle, and with one outside.
    proofs : tuple of (mapping, OrbitProof)
        Boxes, each with its proof.
    undecided : tuple of mapping
        Boxes without a proof.
    max_multiplier : float
        Proven upper bound of |multiplier| over all boxes with a stable orbit; 0 without such boxes.
    reasons : mapping
        Why boxes were halved: reason -> number of boxes, without the numbers in it.
    """

    stable: float
    unstable: float
    proofs: tuple[tuple[Box, OrbitProof], ...]
    undecided: tuple[Box, ...]
    max_multiplier: float
    reasons: Mapping[str, int]

    def _title(self) -> str:
        return "Proofs of periodic orbits over a range of parameters"

    def _rows(self) -> Rows:
        return [
            ("proven stable", f"{100.0 * self.stable:.1f} %"),
            ("proven unstable", f"{100.0 * self.unstable:.1f} %"),
            ("boxes with a proof", number_text(len(self.proofs))),
            ("boxes without a proof", number_text(len(self.undecided))),
            ("maximum |multiplier|", value_text(self.max_multiplier)),
        ]

    def at(self, **point: float) -> OrbitProof | None:
        """Return the proof of a box that contains a point, or None without such a box.

        Parameters
        ----------
        **point : float
            Values of the parameters.
        """
        for box, proof in self.proofs:
            if all(low <= point[name] <= high for name, (low, high) in box.items()):
                return proof
        return None


def cover_orbits(form_at: Callable[..., RoundMap], axes: Sequence[Axis], max_boxes: int = 1000) -> OrbitCover:
    """Return the share of a range of parameters on which a map per round has a proven periodic orbit.

    Parameters
    ----------
    form_at : callable
        Function of the parameters, by name, that returns the map with a state of its orbit. The parameters are
        attributes of its `p` with the same names, and the law takes them from there only.
    axes : sequence of Axis
        Parameters and their ranges, > 0.
    max_boxes : int, optional
        Number of boxes that are examined.

    Raises
    ------
    ValueError
        A parameter of the axes that `p` lacks.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from ecc.contract.forms import RoundMap
    >>> def form(r):
    ...     return RoundMap(lambda x, p: [p.r * x[0] * (1.0 - x[0])], (1.0 - 1.0 / r,), SimpleNamespace(r=r), 1.0)
    >>> cover = cover_orbits(form, [Axis("r", 1.5, 2.5)])
    >>> cover.stable, 0.5 < cover.max_multiplier < 0.6
    (1.0, True)
    """
    sizes = [log(axis.high / axis.low) for axis in axes]
    names = [axis.name for axis in axes]
    waiting: list[tuple[float, int, tuple[Axis, ...]]] = [(-1.0, 0, tuple(axes))]
    proofs: list[tuple[Box, OrbitProof]] = []
    reasons: Counter[str] = Counter()
    undecided: list[Box] = []
    shares = {True: 0.0, False: 0.0}
    examined = 0
    bound = 0.0
    while waiting:
        volume, _, box = heappop(waiting)
        limits = {axis.name: (axis.low, axis.high) for axis in box}
        if examined >= max_boxes:
            undecided.append(limits)
            continue
        examined += 1
        proof, reason = _examined(form_at, box, names)
        if proof is not None and proof.multipliers_inside is not None:
            proofs.append((limits, proof))
            shares[proof.multipliers_inside] -= volume
            if proof.multipliers_inside:
                bound = max([bound, *(abs(proof.multipliers) + proof.errors).tolist()])
            continue
        reasons[reason] += 1
        widths = [log(a.high / a.low) / size if size > 0.0 else 0.0 for a, size in zip(box, sizes, strict=True)]
        if not any(widths):
            undecided.append(limits)
            continue
        at = widths.index(max(widths))
        middle = box[at].middle()
        for k, (low, high) in enumerate(((box[at].low, middle), (middle, box[at].high))):
            half = (*box[:at], Axis(box[at].name, low, high), *box[at + 1 :])
            heappush(waiting, (0.5 * volume, 2 * examined + k, half))
    return OrbitCover(shares[True], shares[False], tuple(proofs), tuple(undecided), bound, dict(reasons))


def _examined(
    form_at: Callable[..., RoundMap], box: Sequence[Axis], names: Sequence[str]
) -> tuple[OrbitProof | None, str]:
    """Return the proof over a box, if there is one, and otherwise the reason in short."""
    try:
        form = form_at(**{axis.name: axis.middle() for axis in box})
    except (ConvergenceError, LinearizationError) as error:
        return None, _short(str(error))
    if missing := [name for name in names if not hasattr(form.p, name)]:
        raise ValueError(f"axes must be attributes of the parameters p, got {', '.join(missing)}")
    proof = prove_rounds(form, box={axis.name: (axis.low, axis.high) for axis in box}, max_bits=96)
    return proof, _short(proof.reason)


def _short(reason: Any) -> str:
    """Return a reason without its numbers."""
    return str(reason).split(":")[0] if "comparison" not in reason else reason[: reason.index(")") + 1]
