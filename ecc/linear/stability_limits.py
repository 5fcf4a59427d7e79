"""Crossings of the stability boundary by an increasing gain, and the gain at which stability is first lost.

A family is a function from a gain g > 0 to a system. Two forms of families are solved along the frequency axis. In the
first, matrices and det P(s; g) are affine in g: det P = F0(s) + g F1(s). A root lies on the boundary s = j w at a
positive gain only if the real function Im(F0 conj F1) of w vanishes (`ecc.linear.affine_family`). In the second, the
gain is a delay: the frequencies of roots on the boundary do not depend on it (`ecc.linear.delay_family`).

Zeros along the axis are isolated piece by piece on (0, w_max], w_max a bound on the roots of every member up to the
gain searched. Other families are followed by the proven count of unstable roots, and covered by intervals of gains.

The form of a family is inferred from a few members and compared with many more over the whole range, and the result is
compared with the proven count of the family's own members. If they disagree, the family is counted instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, inf, isfinite, isinf, isnan, nan
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed, Rows, frequency_text, quantity_text, value_text
from ecc._support.reports import ProgressCallback, Reporter
from ecc.errors import ConvergenceError, UndecidedError
from ecc.linear.affine_family import NEGATIVE, SAMPLES, Affine, follow, lost_at, runs_negative
from ecc.linear.black_box_family import Family, Found, Scan, checked, nearest_taken, unstable_of
from ecc.linear.bordered_family import BorderedAffine
from ecc.linear.characteristic import Terms
from ecc.linear.delay_family import SHARES, DelayForm
from ecc.linear.exact_pair import MAX_STATES
from ecc.linear.gain_intervals import REFUSED
from ecc.linear.imaginary_axis import Crossing
from ecc.linear.systems import LinearSystem, components, reachable

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Crossing", "StabilityLimit", "crossings", "stability_limit"]

_DISTANCE = 1e-6  # relative to the gain: distance from a crossing at which a member is counted
_RANGE = 1e6  # gains from 1/_RANGE to _RANGE are searched, if there is no maximum
_FOURTHS = 10  # number of steps of a factor 4 in the search for the first members
_FINEST = 1e-6  # minimum resolution
_PROOF_OFFSET = 4.5e-10  # relative to the gain: distance from the value at which either side is proven
_NEAR = 1e-4  # maximum of it, if several roots cross together and covers end earlier
_NEAR_ESSENTIAL = 1e-2  # maximum of it, if the neutral part loses strong stability
_HALF_OCTAVE = 2.0**0.5
_INSIDE = 16  # gains checked inside a range that is reported stable
_ALL_INSIDE = 160  # gains checked inside all these ranges together, in addition to one in each
_COUNTED = 4  # ranges at each end of the list, next to whose ends members are counted


@dataclass(frozen=True, repr=False)
class StabilityLimit(Displayed):
    """The stability limit: the smallest gain, from 0 on, at which stability is lost.

    Attributes
    ----------
    value : float
        Gain; 0 if unstable already as the gain tends to 0, inf if stability is not lost.
    frequency : float
        Frequency of the root that crosses, rad/s or rad/step; nan if value is 0 or inf. inf if the neutral part loses
        strong stability at the value: the essential spectrum reaches the boundary, with roots of any frequency.
    certified : tuple of two float or None
        (lo, hi) around value, proven stable at lo and unstable at hi in ball arithmetic. Stability at all gains below
        lo is shown with error bounds: by the search along the axis, or by covers from the lowest gain tried, under the
        hypothesis that a note names. None if not requested, if that is not shown (then a note has the start of the
        uncovered range), or if value is 0 or inf.
    crossings : tuple of Crossing
        All crossings that were found up to searched_to, by increasing gain. A change of 0: roots only touch the
        boundary, to rounding.
    start : int
        Number of unstable roots as the gain tends to 0.
    complete_to : float
        The list of crossings is proven complete up to this gain, `begins` if nothing is proven. `stability_limit` has
        the hypothesis.
    notes : tuple of str
        Limitations of the models, in addition to the verdict, one line each (`LinearSystem.notes`).
    sampled, dt : bool, float or None
        Whether frequencies are in rad/step, and the length of a step of the system at `value` [s], or None.
    searched_to : float
        Gain up to which the family was searched; always finite. Above complete_to crossings were counted on a mesh of
        gains, and narrow windows between them may be missed.
    begins : float
        Gain below which the family has no members, if it refuses the smallest ones; ranges begin there. Otherwise 0.
    parameter : str
        Name of the gain, for example "alpha".
    resolution : float
        Maximum distance of neighboring gains at which the family was evaluated, relative to the gain. A peak of a
        coefficient that is narrower, and constant on both sides, may be missed: all other statements assume that there
        is none. nan if not known.
    """

    value: float
    frequency: float
    certified: tuple[float, float] | None
    crossings: tuple[Crossing, ...]
    start: int
    complete_to: float
    notes: tuple[str, ...] = ()
    sampled: bool = False
    dt: float | None = None
    begins: float = 0.0
    searched_to: float = 0.0
    parameter: str = "the gain"
    resolution: float = nan

    @property
    def lower(self) -> float:
        """Lower bound of the limit, at which the system is proven stable; `value` if `is_proven` is False."""
        return self.value if self.certified is None else self.certified[0]

    @property
    def upper(self) -> float:
        """Upper bound of the limit, at which the system is proven unstable; `value` if `is_proven` is False."""
        return self.value if self.certified is None else self.certified[1]

    @property
    def is_proven(self) -> bool:
        """True if the limit is proven to lie between `lower` and `upper`."""
        return self.certified is not None

    @property
    def _cause(self) -> tuple[str, str]:
        """Name and text of the frequency, or of the cause if it is unbounded."""
        if isinf(self.frequency):
            return "cause", "essential spectrum: the neutral part loses strong stability"
        return "frequency", frequency_text(self.frequency, self.sampled, self.dt)

    def _title(self) -> str:
        return f"Stability limit of {self.parameter}"

    def _rows(self) -> Rows:
        lowest = f"{self.parameter} tends to {self.begins if self.begins > 0.0 else 0.0:.6g}"
        special = {0.0: f"0: unstable as {lowest}", inf: f"none up to {self.searched_to:.6g}"}
        rows = [("value", special.get(self.value, f"{self.value:.12g}"))]
        if 0.0 < self.value < inf:
            rows += [
                self._cause,
                (
                    "certified",
                    "no"
                    if self.certified is None
                    else "stable at {:.12g}, unstable at {:.12g}".format(*self.certified),
                ),
            ]
        ranges = [f"{low:.6g} to {high:.6g}" for low, high in self.stable_ranges]
        proven = "" if self.complete_to == self.searched_to else f", proven complete up to {self.complete_to:.4g}"
        if self.complete_to <= self.begins:
            proven = ", not proven complete"
        seen = f"features of the family wider than {100.0 * self.resolution:.2g} % of {self.parameter}"
        return [
            *rows,
            *([] if isnan(self.resolution) else [("resolved", seen)]),
            ("stable for", value_text(ranges) if ranges else f"no value up to {self.searched_to:.6g}"),
            ("crossings", f"{len(self.crossings)}, searched up to {quantity_text(self.searched_to, '')}{proven}"),
            (f"unstable roots as {lowest}", str(self.start)),
        ]

    def plot(self) -> go.Figure:
        """Return a Plotly figure: the number of unstable roots over the gain, stable ranges shaded, the limit labelled.

        The axis ends at 2.5 times the last end of a stable range; it is logarithmic if there are several ranges. Zoom
        out to see all crossings up to `searched_to`.
        """
        from ecc.plot.boundary import limit_figure

        gains = np.array([crossing.gain for crossing in self.crossings])
        numbers = self.start + np.r_[0, np.cumsum([crossing.change for crossing in self.crossings], dtype=int)]
        end = min(self.searched_to, 1.25 * gains[-1] if len(gains) else inf)
        label = ""
        if 0.0 < self.value < inf:
            label = f"{self.parameter} = {self.value:.6g}<br>{self._cause[1]}"
            if self.certified is not None:
                label += "<br>proven"
        return limit_figure(
            np.r_[self.begins, np.repeat(gains, 2), end],
            np.repeat(numbers, 2),
            self.stable_ranges,
            (self.value, label),
            x_title=self.parameter.removeprefix("the "),
            title=self._title(),
        )

    @property
    def stable_ranges(self) -> tuple[tuple[float, float], ...]:
        """Open intervals of the gain, up to searched_to, in which the system is stable.

        Single gains at which roots touch the boundary (crossings of change 0) do not divide them.
        """
        return _stable_ranges(self.start, self.crossings, self.searched_to, self.begins)


def _stable_ranges(
    start: int, crossings: Sequence[Crossing], end: float, begin: float = 0.0
) -> tuple[tuple[float, float], ...]:
    out, unstable = [], start
    for crossing in crossings:
        after = unstable + crossing.change
        if unstable == 0 and after > 0 and crossing.gain > begin:
            out.append((begin, crossing.gain))
        if after == 0 and unstable > 0:
            begin = crossing.gain
        unstable = after
    return (*out, (begin, end)) if unstable == 0 and end > begin else tuple(out)


def _first_members(family: Family, maximum: float, near: float) -> tuple[float, list[LinearSystem]]:
    """Return a gain and the members at `SAMPLES` of it: `near` or the maximum, else the first allowed gain."""
    top = min(near, maximum)
    steps = [0.25**k for k in range(_FOURTHS)] + [4.0**k for k in range(1, _FOURTHS) if 4.0**k * top <= maximum]
    refusal: Exception | None = None
    for step in steps:
        try:
            return step * top, [checked(family(step * top * share)) for share in SAMPLES]
        except REFUSED as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


class _Recoupled(Exception):
    """A member has other couplings between states than those by which the family was divided."""


class _Group:
    """States of a family that affect each other, and the claim of a form for them, if they have one."""

    def __init__(
        self, states: NDArray[np.int64], family: Family, members: Sequence[LinearSystem], gain: float, maximum: float
    ) -> None:
        self.states, self.gain = states, gain
        self.claim: Found | None = None
        self.form: Affine | DelayForm | None = None
        terms = [self.terms(member) for member in members]
        self.first = terms[-1]
        self.has_artificial = any(member._removable for member in members)
        self.zeros = members[0]._part(states)._removable.count(0.0) if self.has_artificial else 0
        self.form = self._affine(family, terms, gain)
        try:
            if self.form is not None:
                self.claim = follow(self.form, maximum)
            elif not (self.first.sampled or self.has_artificial) and len({t.delays.tobytes() for t in terms}) > 1:
                self._delay_form(family, maximum)
        except (ConvergenceError, UndecidedError):
            # The axis is too long at any gain, as one delay is much longer than all time constants; or a member of the
            # form is not decided
            self.form = None

    def _affine(self, family: Family, terms: Sequence[Terms], gain: float) -> Affine | None:
        form = Affine.detect(terms, gain)
        if form is not None and self.has_artificial:
            form.counter, form.zeros = partial(self._count, family), self.zeros
        return form

    def _count(self, family: Family, gain: float) -> int:
        """Return the number of unstable roots of the family's own member, which knows its artificial roots."""
        number, is_exact = unstable_of(family(gain)._part(self.states))
        if not is_exact:
            raise UndecidedError(f"the number of unstable roots is not decided at gain {gain:.6g}")
        return number

    def _delay_form(self, family: Family, maximum: float) -> None:
        gains = [self.gain * share for share in SHARES]
        try:
            self.form = DelayForm.detect([self.terms(family(gain)) for gain in gains], gains)
        except (*REFUSED, IndexError):
            return
        if self.form is not None:
            self.claim = self.form.follow(maximum)

    def terms(self, member: LinearSystem) -> Terms:
        terms, rows = member.terms(), self.states[:, None]
        return terms._replace(constant=terms.constant[:, rows, self.states], slope=terms.slope[:, rows, self.states])

    def has_member(self, member: LinearSystem, gain: float) -> bool:
        """Return whether a member agrees with the inferred form, if there is one."""
        return self.form is None or self.form.agrees(self.terms(member), gain)

    def again(self, family: Family, maximum: float) -> None:
        """Infer the form again from members near its boundary, at which entries small against 1 are more accurate."""
        gain = _far_boundary(self.claim)
        if gain is None or not isinstance(self.form, Affine):
            return
        try:
            affine = self._affine(family, [self.terms(family(gain * share)) for share in SAMPLES], gain)
        except (*REFUSED, IndexError):  # too far, or with other states: members are compared later
            return
        if affine is not None and affine.agrees(self.first, self.gain):
            self.form, self.claim = affine, follow(affine, maximum)


class _Bordered:
    """All states of a family with a border, and the claim of its affine form."""

    def __init__(self, form: BorderedAffine, maximum: float) -> None:
        self.form = form
        self.claim: Found | None = follow(form, maximum)

    @staticmethod
    def of(members: Sequence[LinearSystem], gain: float, maximum: float) -> _Bordered | None:
        """Return the group of all states if the members have a border and more states than exact determinants."""
        entries = [member._entries for member in members if member.size > MAX_STATES]
        known = [e for e in entries if e is not None]
        if len(known) < len(members):
            return None
        form = BorderedAffine.detect(known, gain)
        try:
            return None if form is None else _Bordered(form, maximum)
        except (ConvergenceError, UndecidedError):  # blocks with roots on the boundary, or too long an axis
            return None

    def has_member(self, member: LinearSystem, gain: float) -> bool:
        """Return whether a member agrees with the inferred form."""
        return member._entries is not None and self.form.agrees(member._entries, gain)

    def again(self, family: Family, maximum: float) -> None:
        """Infer the form again from members near its boundary, at which entries small against 1 are more accurate."""
        gain = _far_boundary(self.claim)
        if gain is None:
            return
        try:
            nearer = _Bordered.of([family(gain * share) for share in SAMPLES], gain, maximum)
        except REFUSED:
            return
        if nearer is not None:
            self.form, self.claim = nearer.form, nearer.claim


def _far_boundary(claim: Found | None) -> float | None:
    """Return the gain at which stability is first lost if it is not near 1."""
    at = None if claim is None or claim[0] > 0 else lost_at(0, claim[1])
    if claim is None or at is None or 0.1 < claim[1][at].gain < 10.0:
        return None
    return claim[1][at].gain


class _Search:
    """Unstable roots as the gain tends to 0, crossings, the gain up to which the family was searched, and the scans.

    `scans` are the parts of the family without a solved form: between the gains tried their claims hold only as far as
    their covers reach. `complete` is the gain up to which the list of crossings is proven complete. `begins` is as in
    `StabilityLimit`.
    """

    def __init__(self, family: Family, maximum: float, also: Sequence[float], near: float, resolution: float) -> None:
        self.family, self.also, self.near, self.scans = family, also, near, list[Scan]()
        self.resolution = resolution
        self.begins, self.complete, self.far = 0.0, 0.0, near * _RANGE
        self.claim = self._search(maximum)

    def _scanned(self, family: Family, gains: Sequence[float]) -> Found:
        self.scans.append(Scan(family, gains, self.also, self.resolution))
        return self.scans[-1].follow()

    def _alone(self, gains: Sequence[float]) -> Found:
        self.scans.clear()
        claim = self._scanned(self.family, gains)
        self.begins, self.complete = self.scans[0].begins, self.scans[0].complete
        return claim

    def _search(self, maximum: float) -> Found:
        family = self.family
        gain, members = _first_members(family, maximum, self.near)
        self.gain = gain
        if len({member.size for member in members}) > 1:
            return self._alone(self._mesh((0, [], inf), maximum))
        bordered, reach = _Bordered.of(members, gain, maximum), None
        groups: list[_Group] | list[_Bordered]
        if bordered is not None:
            groups = [bordered]
        else:
            reach = reachable(np.any([member._pattern for member in members], axis=0))
            groups = [_Group(states, family, members, gain, maximum) for states in components(reach)]
        for group in groups:
            group.again(family, maximum)
        claim = _together([group.claim for group in groups if group.claim is not None])
        if claim[2] == 0.0:  # the axis is too long to search at any gain
            return self._alone(self._mesh((0, [], inf), maximum))
        gains = self._mesh(claim, maximum)
        end, has_form, self.begins = _agreement(family, reach, groups, gains)
        claim = _from(self.begins, claim)
        try:
            for group in groups:
                if group.claim is None and isinstance(group, _Group) and reach is not None:
                    part = partial(_part, family, reach, group.states)
                    claim = _together([claim, self._scanned(part, [g for g in gains if g <= end])])
        except _Recoupled:
            return self._alone(gains)
        self.begins = max([self.begins, *(scan.begins for scan in self.scans)])
        start, crossings, complete = _from(self.begins, claim)
        exact = all(group.form is None or group.form.is_exact for group in groups)
        crossings, complete = [c for c in crossings if c.gain <= end], min(complete, end)
        if (
            end == 0.0
            or runs_negative(start, crossings)
            or _contradicted(family, (start, crossings, complete), gains[0], self.begins, exact and not self.scans)
        ):
            return self._alone(gains)
        self.complete = min([complete if exact else self.begins, *(scan.complete for scan in self.scans)])
        ranges = _stable_ranges(start, crossings, complete, self.begins) if start > 0 else ()
        if lost_at(start, crossings) is not None or ranges:
            return start, crossings, complete
        if not has_form:
            more = [g for g in gains if g >= end]
        elif complete < min(maximum, self.far) and end == gains[-1] and complete == gains[-1]:
            if any(isinstance(group.form, DelayForm) for group in groups):
                return start, crossings, complete
            # the axis is too long to search at larger gains, for example because of a very long delay
            more = [complete * _HALF_OCTAVE**k for k in range(120)]
            more = [g for g in more if g < min(maximum, self.far)] + [min(maximum, self.far)]
        else:
            return start, crossings, complete
        proven = self.complete >= complete
        _, later, complete = self._scanned(family, more)
        if proven:
            self.complete = self.scans[-1].complete
        return start, crossings + later, complete

    def _mesh(self, claim: Found, maximum: float) -> list[float]:
        """Return gains at which a family is evaluated: half an octave apart, and closer in ranges reported stable."""
        start, crossings, complete = claim
        edges = [gain for both in _stable_ranges(start, crossings, inf) for gain in both if 0.0 < gain < inf]
        high = min(complete, maximum) or min(self.near, maximum)
        if not isfinite(high):
            high = max([self.near * _RANGE, *(4.0 * gain for gain in edges)])
        low = min([self.near, high, *edges]) / _RANGE
        ratio = min(_HALF_OCTAVE, 1.0 + self.resolution)
        gains = set(np.geomspace(low, high, 2 + ceil(np.log(high / low) / np.log(ratio))).tolist()) | {high}
        ranges = _stable_ranges(start, crossings, high)
        for a, b in ranges:
            inside = np.linspace(a, b, 2 + max(1, min(_INSIDE, _ALL_INSIDE // len(ranges))))[1:-1]
            gains |= {gain for gain in inside.tolist() if gain <= high}
        return sorted(gains | {gain for gain in self.also if gain <= high})

    def first(self, certify: bool) -> tuple[int, list[Crossing], float, tuple[float, float]]:
        """Return the claim, corrected by covers, and the range of gains over which it is proven without gaps."""
        start, crossings, complete = self.claim
        since, proven = 0.0, inf
        for scan in self.scans if start == 0 else ():
            cover = scan.cover
            while certify and cover is not None:
                at = lost_at(start, crossings)
                if at is not None and isinf(crossings[at].frequency):
                    break  # covers end before it, as frequencies grow without bound
                if cover.reaches(min(complete, self.far) if at is None else crossings[at].gain * (1.0 - _PROOF_OFFSET)):
                    break
                if cover.beyond is None:
                    break
                try:
                    later = scan.between(cover.to, cover.beyond)
                except REFUSED:
                    break
                crossings, complete = [c for c in crossings if c.gain <= cover.to] + later, cover.beyond
            since, proven = (max(since, cover.low), min(proven, cover.to)) if cover is not None else (since, 0.0)
            self.complete = max(self.complete, min(proven, complete)) if len(self.scans) == 1 else self.complete
        return start, crossings, complete, (since, proven)


def _part(family: Family, reach: NDArray[np.bool_], states: NDArray[np.int64], gain: float) -> LinearSystem:
    system = family(gain)
    if system.size != len(reach) or np.any(system._pattern & ~reach):
        raise _Recoupled
    return system if len(states) == system.size else system._part(states)  # the whole system may have a border


def _together(claims: Sequence[Found]) -> Found:
    """Return the combined claim of several groups."""
    complete = min((claim[2] for claim in claims), default=inf)
    crossings = _joined([c for claim in claims for c in claim[1] if c.gain <= complete])
    return sum(claim[0] for claim in claims), crossings, complete


def _from(begins: float, claim: Found) -> Found:
    """Return a claim restricted to gains above a value."""
    start, crossings, complete = claim
    before = sum(c.change for c in crossings if c.gain <= begins)
    return start + before, [c for c in crossings if c.gain > begins], complete


def _agreement(
    family: Family, reach: NDArray[np.bool_] | None, groups: Sequence[_Group | _Bordered], gains: Sequence[float]
) -> tuple[float, bool, float]:
    """Return the gain up to which members have the inferred forms, whether that is all allowed gains, and the first
    allowed gain."""
    solved = [group for group in groups if group.form is not None]
    if not solved:
        return gains[-1], True, 0.0
    end = refused = begins = 0.0
    for gain in gains:
        try:
            system = checked(family(gain))
        except REFUSED:
            if end == 0.0:
                refused = gain
                continue
            return nearest_taken(family, end, gain), True, begins
        if end == 0.0 < refused:
            begins = nearest_taken(family, gain, refused)
        if reach is not None and (system.size != len(reach) or np.any(system._pattern & ~reach)):
            return end, False, begins
        if not all(group.has_member(system, gain) for group in solved):
            return end, False, begins
        end = gain
    return end, True, begins


def _contradicted(family: Family, claim: Found, lowest: float, begins: float, proven: bool) -> bool:
    """Return whether counts of members near the ends of the stable ranges, or inside these, contradict the claim.

    Inside a range one count suffices if no crossing of the form is missing, by proof. Without a stable range three
    members are counted. A claim for which no count is decided, or a member is refused, counts as contradicted, too.
    """
    start, crossings, end = claim
    ranges = _stable_ranges(*claim, begins)
    top = min(end, _RANGE * lowest)
    tests = [] if ranges or end < lowest else [(gain, False) for gain in (lowest, float(np.sqrt(lowest * top)), top)]
    gains = [begins, *(c.gain for c in crossings), end]
    for a, b in ranges if len(ranges) <= 2 * _COUNTED else (*ranges[:_COUNTED], *ranges[-_COUNTED:]):
        tests += [(a + share * (b - a), True) for share in ((0.5,) if proven else (0.1, 0.5, 0.9))]
        for edge, sign in ((a if a > begins else 0.0, 1.0), (b, -1.0)):
            near = [_DISTANCE * edge, *(0.25 * abs(g - edge) for g in gains if g != edge)]
            if edge > 0.0:
                tests.append((edge + sign * min(near), True))
            if 0.0 < edge < end:
                tests.append((edge - sign * min(near), False))
    is_decided = not tests
    for gain, stable in tests:
        try:
            if (unstable_of(family(gain))[0] == 0) is not stable:
                return True
            is_decided = True
        except REFUSED:
            return True
        except UndecidedError:
            continue
    return not is_decided


def _joined(crossings: list[Crossing]) -> list[Crossing]:
    """Return crossings by increasing gain; those of several groups at the same gain and frequency are added."""
    out: list[Crossing] = []
    for c in sorted(crossings):
        for i in range(len(out) - 1, -1, -1):
            if c.gain - out[i].gain > 1e-12 * c.gain:
                out.append(c)
                break
            if abs(c.frequency - out[i].frequency) <= 1e-9 * c.frequency:
                out[i] = out[i]._replace(change=out[i].change + c.change)
                break
        else:
            out.append(c)
    return out


@check_arguments
@np.errstate(over="ignore")  # gains and frequencies of 1e-300 have reciprocals, too
def stability_limit(
    family: Family,
    *,
    maximum: float = inf,
    certify: bool = False,
    also: Sequence[float] = (),
    near: float = 1.0,
    resolution: float = inf,
    name: str = "the gain",
    progress: ProgressCallback | None = None,
) -> StabilityLimit:
    """Return the gain at which a family of systems first loses stability as the gain grows from 0.

    Parameters
    ----------
    family : Family
        Function from a gain > 0 to a DelaySystem or SampledSystem.
    maximum : float, > 0, optional
        Largest gain to be searched.
    certify : bool, optional
        Prove stability just below and instability just above the value (`StabilityLimit.certified`).
    also : sequence of float, optional
        Additional gains to be tried if the family is not affine: one in each range between known jumps.
    near : float, > 0, optional
        Order of magnitude of gains: the search extends from 1e-6 to 1e6 of it.
    resolution : float, > 0, optional
        Maximum distance of neighboring gains tried, relative to the gain. By default half an octave (0.41), and 0.125
        or less for families without a solved form. Cost: the number of gains grows with its reciprocal.
    name : str, optional
        Name of the gain in notes.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the gain that is analyzed, as `text`.

    Returns
    -------
    StabilityLimit

    Raises
    ------
    ValueError
        maximum or near is not > 0.   TypeError: the family returns something else.
    ConvergenceError
        A crossing cannot be isolated or, if requested, proven.

    Notes
    -----
    Guarantee: no crossing with a gain up to `complete_to` is missing, however narrow a window is, under one
    hypothesis: between the gains tried the family keeps the form that it has there. The result states their distance
    (`StabilityLimit.resolution`). Of a peak narrower than that, only sides that reach neighboring gains are seen.

    If the family is affine in the gain (matrices and determinant), or the gain is a delay (all delays fixed or
    integer multiples of it), all zeros of one function of the frequency are isolated with proven errors, in balls
    if rounding leaves a piece undecided. The hypothesis is that form: it is compared with members at every gain
    tried, to 1e-13 of their entries. Windows in the delay are complete from 0 on, to the delay above which roots stay
    unstable, or to 4096 crossings. Families with two or more multiples of the delay next to fixed delays are counted.
    Of sampled systems, delays of up to about 40,000 steps allow the crossings of all gains, longer ones those up to a
    gain; a family whose states affect each other through few states or signals has proven errors for any number of
    states, otherwise up to eight.

    Other families are counted at the gains tried until four times the limit, and covered by intervals of gains
    over which no root reaches the boundary (`ecc.linear.gain_intervals`), from the lowest gain tried. A cover
    uses five members of each interval: in between, no coefficient and no delay is assumed to deviate from their
    polygon by more than half of its second differences. A window that counts missed ends a cover and is found, as
    is a gain at which roots touch the boundary. `complete_to` ends at the first gap that cannot be closed: at a
    touch, at a jump, or after 2000 members. Above it only the counts on the mesh are known, and a note says so.

    If the neutral part loses strong stability at a gain, that gain is a crossing of frequency inf, in most cases to
    1e-15. Roots are counted up to about 0.1 % below it, as their frequencies grow without bound, and `certified` begins
    there. Crossings between are not excluded.

    A family that is counted and starts with dozens of unstable roots has one entry, of frequency nan, for all crossings
    in a range that leaves more than eight of the fewest possible roots unstable, and complete_to ends before it.

    Crossings within 1e-7 of each other (1e-14 for the two solved forms) may be listed as one, or as a touch, with
    change 0. A note has every touch.

    A list of crossings that would leave a negative number of unstable roots raises ConvergenceError.

    The gains tried are half an octave apart, from 1e-6 (less, if the maximum or the first boundary is below 1) to the
    maximum or, without one, to 1e6 (four times the last boundary, if that is more) or to the end of the search along
    the axis, and up to 16 more inside each range reported stable; with `near`, in its units. A gain that the family
    refuses with ValueError or LinearizationError ends the range; if it refuses the smallest ones, the range begins at
    the first allowed gain, to 1e-9, or to 1e-6 next to a LinearizationError (`StabilityLimit.begins`, and a note).
    Members just inside and outside the ends of stable ranges (1e-6, closer if crossings are dense) and at three gains
    inside have the counts of the result (for the first and last four ranges, if there are many). A result that members
    contradict is counted instead.

    Crossings of the solved forms are accurate to about 1e-14, those of counted families to 1e-12 (Newton's method, or
    bisection if several roots cross together). certify proves both sides of the value in balls.

    Examples
    --------
    >>> from math import pi
    >>> stability_limit(lambda k: DelaySystem([-k], [1.0])).value / (pi / 2)
    1.0
    """
    if not maximum > 0.0:
        raise ValueError(f"maximum must be > 0, got {shown(maximum)}")
    if not near > 0.0:
        raise ValueError(f"near must be > 0, got {shown(near)}")
    if not resolution >= _FINEST:
        raise ValueError(f"resolution must be >= {_FINEST:g}, got {shown(resolution)}")
    tried = set[float]()
    family = _reported(family, name, progress, tried)
    search = _Search(family, maximum, also, near, resolution)
    start, crossing_list, complete, (low_end, proven) = search.first(certify)
    crossing_list, complete = [c for c in crossing_list if c.gain <= maximum], min(complete, maximum)
    at = 0 if start > 0 else lost_at(start, crossing_list)
    value, frequency, certified = inf, nan, None
    notes: tuple[str, ...] = ()
    if search.begins > 0.0:
        notes = (f"there is no linear model for {name} below {search.begins:.6g}",)
    if start > 0:
        value = 0.0
    elif at is None and complete < maximum < inf:
        notes += (f"values of {name} above {complete:.6g} were not searched, up to the maximum of {maximum:.6g}",)
    elif at is not None:
        value, frequency = crossing_list[at].gain, crossing_list[at].frequency
        if certify:
            certified = _bracket(family, value, frequency, min(proven, value * (1.0 - _PROOF_OFFSET)))
            if certified is None:
                notes += (
                    f"not certified: stability for {name} from {proven:.6g} to {value:.6g} is counted, not proven",
                )
            elif low_end > 0.0:
                notes += (
                    f"certified for {name} from {low_end:.6g} on, provided that between sampled values no coefficient "
                    "or delay curves more than its second differences there",
                )
    if runs_negative(start, crossing_list):
        raise ConvergenceError(NEGATIVE, crossing_list)
    proven = max(search.begins, min(search.complete, complete))
    notes += _search_notes(name, crossing_list, proven, complete)
    sampled, dt = family(value if 0.0 < value < inf else search.gain).sampling
    return StabilityLimit(
        value,
        frequency,
        certified,
        tuple(crossing_list),
        start,
        proven,
        notes,
        sampled,
        dt,
        search.begins,
        complete,
        name,
        _distance(tried, complete),
    )


def _reported(family: Family, name: str, progress: ProgressCallback | None, tried: set[float]) -> Family:
    """Return the family, which also collects the gains that are tried, and reports them."""
    report = None if progress is None else Reporter(progress)

    def member(gain: float) -> LinearSystem:
        tried.add(gain)
        if report is not None:
            report(lambda: f"{name} = {gain:.6g}")
        return family(gain)

    return member


def _distance(tried: set[float], end: float) -> float:
    """Return the maximum distance of neighboring gains tried up to an end, relative to the lower one."""
    gains = np.array(sorted({gain for gain in tried if gain < end} | {end}))
    return float((np.diff(gains) / gains[:-1]).max(initial=0.0))


def _search_notes(name: str, crossings: Sequence[Crossing], proven: float, searched: float) -> tuple[str, ...]:
    """Return notes on touches of the boundary, and on the range in which the crossings are not proven complete."""
    notes: tuple[str, ...] = ()
    touches = [c.gain for c in crossings if c.change == 0]
    if touches:
        first = ", ".join(f"{gain:.9g}" for gain in touches[:3])
        more = f" and {len(touches) - 3} more" if len(touches) > 3 else ""
        notes += (
            f"roots touch the stability boundary at {name} = {first}{more} without crossing it, to rounding: windows "
            "of a relative width below 1e-7 cannot be excluded there",
        )
    if proven < searched:
        notes += (
            f"crossings for {name} from {proven:.6g} to {searched:.6g} were counted on a mesh: narrow windows may be "
            "missed there",
        )
    return notes


@check_arguments
def crossings(family: Family, *, maximum: float = inf) -> tuple[Crossing, ...]:
    """Return the crossings of the stability boundary as the gain grows.

    The list is complete up to the gain `complete_to` of `stability_limit`.

    Parameters
    ----------
    family : Family
        Function from a gain > 0 to a DelaySystem or SampledSystem.
    maximum : float, > 0, optional
        Largest gain to be searched.

    Returns
    -------
    tuple of Crossing
        Empty if no root reaches the boundary.

    Raises
    ------
    ValueError
        maximum is not > 0.   TypeError: the family returns something else.
    ConvergenceError
        A crossing cannot be isolated.

    Examples
    --------
    >>> [round(c.frequency, 3) for c in crossings(lambda k: DelaySystem([-k], [1.0]), maximum=10.0)]
    [1.571, 7.854]
    """
    return stability_limit(family, maximum=maximum).crossings


def _bracket(family: Family, value: float, frequency: float, low: float) -> tuple[float, float] | None:
    """Return proofs on both sides of a value; None if the range proven without gaps ends too far below it."""
    is_essential = isinf(frequency)
    if low < value * (1.0 - (_NEAR_ESSENTIAL if is_essential else _NEAR)):
        return None
    high = value * (1.0 + _PROOF_OFFSET)
    try:
        below, above = family(low), family(high)
    except REFUSED:
        return None
    is_unstable = above._is_essentially_unstable if is_essential else above.certify().stable is False
    if below.certify().stable is not True or not is_unstable:
        verdicts = f"stable below: {below.certify().stable}, unstable above: {is_unstable}"
        raise ConvergenceError(f"its end near {value:g} could not be proven ({verdicts})", (low, high))
    return low, high
