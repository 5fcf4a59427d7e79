"""The panels of a view: figures, the block diagram and verdicts, each computed by itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # noqa: F401  # before threads draw figures: Plotly uses a pandas that another thread imports
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.display import frequency_text, quantity_text
from ecc.contract.assignment import parameter_value
from ecc.contract.kinds import sets_windows
from ecc.contract.protocol import Protocol
from ecc.errors import ConvergenceError, EccError, LinearizationError, UndecidedError
from ecc.explorer.diagram import block_diagram
from ecc.explorer.view import Slider, View
from ecc.fluid import simulate as simulate_fluid
from ecc.linear import DelaySystem, FrequencyResponse, SampledSystem
from ecc.loops.marked_equilibrium import equilibria_of_a_family
from ecc.packet import simulate as simulate_packets
from ecc.plot import bode_figure, nyquist_figure, root_figure, stability_map_figure
from ecc.plot.look import GREY, PALETTE, RATE, SIZE, TIME, axis, buckets_for, figure, thinned, unit_for
from ecc.results.metrics import jain_index
from ecc.stability import critical_gain, stability_map

if TYPE_CHECKING:
    from ecc.results.trajectory import Trajectory

__all__ = ["HELP", "PANELS", "WORK", "Cancelled", "axes_of", "panel", "with_present_values"]

Real = NDArray[np.float64]
Cancel = Callable[[], bool]
Wait = Callable[[], None]
Answer = dict[str, Any]

PANELS = {
    "verdict": "Verdict",
    "limit": "Stability limit",
    "diagram": "Block diagram",
    "nyquist": "Nyquist curve",
    "bode": "Bode curves",
    "roots": "Characteristic roots",
    "rates": "Rates: packets and fluid",
    "queue": "Queue",
    "flows": "Rates of flows",
    "fairness": "Fairness",
    "map": "Stability map",
}
"""Name of a panel -> title."""
HELP = {
    "verdict": "Do small disturbances die out? The answer of the linear model, its proof and its margins.",
    "limit": "The values of the main parameter for which small disturbances die out.",
    "diagram": "Hosts (left) send to the bottleneck (right), and its feedback returns. Delays exclude queues.",
    "nyquist": "Open-loop gain L over positive (solid) and negative (dotted) frequencies. The closer L passes to −1, "
    "the closer the loop is to instability.",
    "bode": "Size and phase of the open-loop gain L over the frequency; dashed lines show size 1 and phase −180°.",
    "roots": "Characteristic roots of the linear model: stable if all lie outside the shaded region.",
    "rates": "Sending rates after the start, in a packet simulation (solid) and a fluid simulation (dashed).",
    "queue": "Length of the bottleneck's queue, in a packet simulation (solid) and a fluid simulation (dashed).",
    "flows": "Sending rates of all flows in the packet simulation.",
    "fairness": "Jain's index of the sending rates: 1 if all are equal, 1/n if one of n flows has everything.",
    "map": "Stable (blue) and unstable (orange) values of two parameters; the cross is the present view.",
}
"""Name of a panel -> one sentence on what it shows."""

_SAMPLES = 400  # samples of a run
_SHOWN_FLOWS = 4  # flows of the panel that compares packets and fluid
_ROOTS = 12
_GRID = 15  # values of each parameter of a map
_PRESENT = "present values"  # name of the cross in a map
_BISECTIONS = 8  # for the end of the values that have a linear model
_MAX_TICKS = 4  # intervals between ticks on the vertical axes of Bode curves
_NOTES = 4  # notes of a model that are shown
_KEPT_RUNS = 32  # runs and models that several panels share


class Cancelled(Exception):
    """A newer view has replaced this one, or its time is over."""


def panel(
    name: str, view: View, cancel: Cancel, axes: Sequence[str] = (), coarse: bool = False, wait: Wait = lambda: None
) -> Answer:
    """Return a panel of a view: {"figure": go.Figure}, {"svg": text} or {"words": lines}; with notes under "notes".

    Parameters
    ----------
    name : str
        Name in `PANELS`.
    view : View
    cancel : callable
        Called during long work; if it returns True, `Cancelled` is raised.
    axes : sequence of two str, optional
        Parameters of the stability map. Default: the first two of the view.
    coarse : bool, optional
        Whether a map that takes seconds may have every second point only; its answer then has "coarse": True.
    wait : callable, optional
        Called before slow work that needs the interpreter: returns when the faster panels are finished.

    Raises
    ------
    ValueError, EccError
        The panel does not exist, or the view has no such panel, for example a protocol without a linear model.
    """
    if name not in PANELS:
        raise ValueError(f"panel must be one of {', '.join(PANELS)}, got {shown(name)}")
    if cancel():
        raise Cancelled
    if name == "map":
        return _map(view, axes, cancel, coarse, wait)
    if name == "limit":
        return _limit(view, cancel, wait)
    return _DRAWN[name](view) if name in _DRAWN else _RUNS[name](view, *_both_runs(view, cancel, wait))


# ---- linear models -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=_KEPT_RUNS)
def _model(key: _Key) -> DelaySystem | SampledSystem:
    with equilibria_of_a_family(dict(_equilibria(_Key(_without(key.view, key.view.parameters), duration=False)))):
        return key.view.linear()


@lru_cache(maxsize=_KEPT_RUNS)
def _equilibria(key: _Key) -> dict[Any, Real]:
    """Return the equilibrium of a view with default parameters, at which those of other parameters start.

    A start at the equilibrium of the last view would change results: Newton's method stops near a switch of a law.
    """
    known: dict[Any, Real] = {}
    with suppress(ValueError, TypeError, EccError), equilibria_of_a_family(known):
        key.view.linear()
    return known


class _Key:
    """A view with the hash of its values; views of the same scenario are equal if their values are."""

    def __init__(self, view: View, duration: bool = True) -> None:
        values = view.to_dict()
        if not duration:
            values.pop("duration")
        self.view, self.values = view, (repr(values), id(view.scenario))

    def __hash__(self) -> int:
        return hash(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.values == other.values


def _linear(view: View) -> DelaySystem | SampledSystem:
    return _model(_Key(view, duration=False))


def _verdict(view: View) -> Answer:
    system = _linear(view)
    try:
        certificate = system.certify()
        proof = certificate.is_proven
        stable = certificate.stable if proof else None
    except (UndecidedError, ConvergenceError):
        proof, stable = False, None
    words = {True: "stable, proven", False: "unstable, proven", None: f"{system.verdict}, not proven"}[stable]
    rows = [("linear model", f"{view.model_time} time, {system.size} state{'s' if system.size > 1 else ''}")]
    if proof:
        count = certificate.unstable
        bound = f"at least {certificate.at_least}" if count is None else f"{count}"
        rows += [("unstable roots", bound), ("proof", certificate.method)]
    rows += _margin_rows(system)
    notes, state = _notes(system), system.verdict
    if system.has_signed_queue:
        words += f", but not a verdict on {type(view.loop).__name__}"
        state = ""
    return {"words": words, "rows": rows, "stable": state, "notes": notes}


def _margin_rows(system: DelaySystem | SampledSystem) -> list[tuple[str, str]]:
    try:
        margins = system.margins()
    except (ValueError, EccError):
        return []
    rows = [
        ("gain margin", f"{margins.gain_margin:.4g}" if isfinite(margins.gain_margin) else "infinite"),
        ("phase margin", margins.phase_text()),
        ("delay margin", margins.delay_text()),
        ("modulus margin", f"{margins.modulus_margin:.4g}"),
    ]
    return rows if margins.stable else [("distances from -1", "no margins, since the loop is unstable")]


def _notes(system: DelaySystem | SampledSystem) -> list[str]:
    """Return notes of the model; the note on a signed queue, which is the last one, comes first."""
    notes = list(system.model_notes)
    return (notes[::-1] if system.has_signed_queue else notes)[:_NOTES]


def _limit(view: View, cancel: Cancel, wait: Wait) -> Answer:
    name = view.main_parameter
    if not name:
        raise ValueError("this view has no numeric parameter, and so no stability limit")
    _linear(view)  # its refusal comes first
    at_default = _without(view, (name,))
    place = _found_limit(_Key(at_default, duration=False), name)
    if not place:
        wait()
        place.append(_limit_of(at_default, name, cancel))
    return with_present_values("limit", place[0], view)


@lru_cache(maxsize=_KEPT_RUNS)
def _found_limit(key: _Key, name: str) -> list[Answer]:
    """Return an empty list, in which the limit is stored: it does not depend on the present value of its parameter."""
    return []


def _limit_of(view: View, name: str, cancel: Cancel) -> Answer:
    def stop_if_cancelled(progress: object) -> None:
        if cancel():
            raise Cancelled

    limit = critical_gain(
        view.loop,
        view.network,
        name,
        view.model_time,
        certify=not name.startswith("links."),
        progress=stop_if_cancelled,
    )
    ranges = [f"{low:.4g} to {high:.4g}" for low, high in limit.stable_ranges]
    if limit.value == inf:
        words = f"{name} is stable up to {limit.searched_to:.4g}, the end of the search"
    elif limit.value == 0.0:
        words = f"stable only for {name} = {' and '.join(ranges)}" if ranges else f"unstable for every {name} tried"
    else:
        words = f"limit {name} = {limit.value:.4g}" + (", proven" if limit.is_proven else "")
    rows = [("stable for", "; ".join(ranges) or "no value")]
    if isfinite(limit.frequency):
        rows.append(("oscillation at the limit", frequency_text(limit.frequency, limit.sampled, limit.dt)))
    rows.append(("linear model", f"{view.model_time} time"))
    system, notes = _linear(view), []
    if system.has_signed_queue:
        words += f", but not a limit of {type(view.loop).__name__}"
        notes = _notes(system)
    return {"words": words, "rows": rows, "limit": limit.value if isfinite(limit.value) else None, "notes": notes}


def _without(view: View, names: Collection[str]) -> View:
    """Return the view with the defaults of some parameters, so that results which do not depend on them are found."""
    remaining = {name: value for name, value in view.parameters.items() if name not in names}
    try:
        return replace(view, parameters=remaining)
    except (ValueError, TypeError):  # a default that does not go with the other values
        return view


def with_present_values(name: str, answer: Answer, view: View) -> Answer:
    """Return a stability limit, or a map as JSON, with the values of a view next to it.

    Parameters
    ----------
    name : str
        "limit" or "map".
    answer : dict
        Panel of a view that may have other values of the parameters that the panel varies.
    view : View
    """
    values = {slider.name: slider.value for slider in view.sliders}
    if name == "limit" and "limit" in answer:
        main, limit = view.main_parameter, answer["limit"]
        present = [(f"present {main}", f"{values[main]:.4g}")] if main in values else []
        if present and limit is not None and 0.0 < limit < inf:
            present.append(("limit / present", f"{limit / values[main]:.3g}"))
        rows = [row for row in answer["rows"] if row[0] not in (f"present {main}", "limit / present")]
        return {**answer, "rows": [*present, *rows]}
    if name == "map" and "figure" in answer:
        at = dict(zip("xy", ([values[axis]] for axis in answer["axes"]), strict=True))
        traces = [{**trace, **at} if trace.get("name") == _PRESENT else trace for trace in answer["figure"]["data"]]
        return {**answer, "figure": {**answer["figure"], "data": traces}}
    return answer


def _nyquist(view: View) -> Answer:
    response = _linear(view).nyquist()
    drawn = nyquist_figure({"open loop": response}, marks=response.margin_points(), inset=0.0)
    return {"figure": drawn, "notes": _margin_notes(response)}


def _bode(view: View) -> Answer:
    response = _linear(view).nyquist()
    drawn = bode_figure({"open loop": response}, marks=response.margin_points())
    for row, per_tick in ((1, 1.0), (2, 90.0)):  # panels are half as high as figures of their own
        axes = next(drawn.select_yaxes(row=row))
        if np.ptp(axes.range) > _MAX_TICKS * per_tick:
            axes.dtick = 2.0 * per_tick
    return {"figure": drawn, "notes": _margin_notes(response)}


def _margin_notes(response: FrequencyResponse) -> list[str]:
    return [response.without_margins] if response.without_margins else []


def _roots(view: View) -> Answer:
    return {"figure": root_figure({"roots": _linear(view).roots(_ROOTS)})}


def _diagram(view: View) -> Answer:
    return {"svg": block_diagram(view)}


@dataclass(eq=False)
class _Map:
    """Growth of the linear model over two parameters: values found so far, and equilibria at which others start."""

    axes: tuple[Real, Real]
    growth: Real
    equilibria: dict[tuple[int, int], dict[Any, Real]] = field(default_factory=dict)
    refused: set[tuple[int, int]] = field(default_factory=set)


def _map(view: View, axes: Sequence[str], cancel: Cancel, coarse: bool, wait: Wait) -> Answer:
    sliders = {slider.name: slider for slider in view.sliders}
    names = list(axes) or axes_of(view)
    if len(names) != 2 or names[0] == names[1] or not set(names) <= set(sliders):
        raise ValueError(f"axes must be two of {', '.join(sliders)}, got {shown(list(axes))}")
    sampled = isinstance(_linear(view), SampledSystem)  # its refusal comes first
    base, ends = _region(view, names)
    place = _found_map(_Key(base, duration=False), *names, ends)
    if not place:
        wait()
        grids = [np.geomspace(*_modelled(base, name, *pair), _GRID) for name, pair in zip(names, ends, strict=True)]
        place.append(_Map((grids[0], grids[1]), np.full((_GRID, _GRID), np.nan)))
        if isinstance(base.loop, Protocol):
            _fill_at_once(place[0], base, names, cancel)
    cells, step = place[0], 2 if coarse else 1
    for _ in _points_left(cells, base, names, step):
        wait()
        if cancel():
            raise Cancelled
    is_coarse = bool(coarse and any(_to_do(cells, 1)))
    every = slice(None, None, 2 if is_coarse else 1)
    drawn = stability_map_figure(
        cells.axes[0][every],
        cells.axes[1][every],
        cells.growth[every, every],
        threshold=1.0 if sampled else 0.0,
        x_title=_with_unit(sliders[names[0]]),
        y_title=_with_unit(sliders[names[1]]),
        log_x=True,
        log_y=True,
    )
    drawn.update_layout(margin_t=24)  # no buttons above the figure
    x, y = names
    drawn.add_scatter(
        x=[sliders[x].value],
        y=[sliders[y].value],
        name=_PRESENT,
        mode="markers",
        marker={"symbol": "x", "size": 12, "color": "#000000"},
        hovertemplate=f"{x}: %{{x:.4g}}<br>{y}: %{{y:.4g}}<extra>{_PRESENT}</extra>",
    )
    return {"figure": drawn, "axes": names} | ({"coarse": True} if is_coarse else {})


def _with_unit(slider: Slider) -> str:
    return f"{slider.name} [{slider.unit}]" if slider.unit else slider.name


@lru_cache(maxsize=_KEPT_RUNS)
def _found_map(key: _Key, x: str, y: str, ends: tuple[tuple[float, float], ...]) -> list[_Map]:
    """Return an empty list, in which the map is stored: it does not depend on the present values of its axes."""
    return []


def _region(view: View, names: Sequence[str]) -> tuple[View, tuple[tuple[float, float], ...]]:
    """Return the view with defaults on the axes, and their ranges; the view itself if its values lie outside."""
    base = _without(view, names)
    ranges = [{slider.name: (slider.minimum, slider.maximum) for slider in each.sliders} for each in (base, view)]
    values = {slider.name: slider.value for slider in view.sliders}
    if all(name in ranges[0] and ranges[0][name][0] <= values[name] <= ranges[0][name][1] for name in names):
        return base, tuple(ranges[0][name] for name in names)
    return view, tuple(ranges[1][name] for name in names)


def _fill_at_once(cells: _Map, view: View, names: Sequence[str], cancel: Cancel) -> None:
    """Compute all points with the expansion of `stability_map`; it ends at a point without a model."""

    def stop_if_cancelled(progress: object) -> None:
        if cancel():
            raise Cancelled

    grid = dict(zip(names, cells.axes, strict=True))
    try:
        growth = stability_map(view.loop, view.network, grid, view.model_time, 1, progress=stop_if_cancelled)
    except (ValueError, LinearizationError):  # points whose values the protocol refuses, or without a linear model
        return
    cells.growth[:] = growth.transpose(names[1], names[0]).to_numpy()


def _to_do(cells: _Map, step: int) -> Iterator[tuple[int, int]]:
    """Yield the points of every step-th row and column without a value, in rows of alternating direction."""
    count = len(cells.growth)
    for turn, row in enumerate(range(0, count, step)):
        columns = range(0, count, step)
        for column in reversed(columns) if turn % 2 else columns:
            if np.isnan(cells.growth[row, column]) and (row, column) not in cells.refused:
                yield row, column


def _points_left(cells: _Map, view: View, names: Sequence[str], step: int) -> Iterator[None]:
    """Compute the remaining points of a map one by one; those without a linear model stay NaN.

    Equilibria start at that of the nearest point: a search from the beginning takes ten times as long.
    """
    for row, column in _to_do(cells, step):
        yield
        at = dict(zip(names, (float(cells.axes[0][column]), float(cells.axes[1][row])), strict=True))
        computed = reversed(cells.equilibria)  # the last one first: it is in the same row
        nearest = min(computed, key=lambda each: abs(each[0] - row) + abs(each[1] - column), default=None)
        start = {} if nearest is None else dict(cells.equilibria[nearest])
        try:
            with equilibria_of_a_family(start):
                system = replace(view, parameters={**view.parameters, **at}).linear()
            sampled = isinstance(system, SampledSystem)
            cells.growth[row, column] = system.spectral_radius if sampled else system.spectral_abscissa
            cells.equilibria[row, column] = start
        except (ValueError, EccError):
            cells.refused.add((row, column))


def _modelled(view: View, name: str, low: float, high: float) -> tuple[float, float]:
    """Return the part of the range of a parameter around its value for which the view has models, by bisection."""
    present = float(parameter_value(view.loop, name))

    def has_model(value: float) -> bool:
        try:
            _linear(replace(view, parameters={**view.parameters, name: value}))
        except (ValueError, EccError):
            return False
        return True

    def last(end: float) -> float:
        if has_model(end):
            return end
        inside, outside = present, end
        for _ in range(_BISECTIONS):
            middle = (inside * outside) ** 0.5
            inside, outside = (middle, outside) if has_model(middle) else (inside, middle)
        return inside

    return last(low), last(high)


def axes_of(view: View, parameter: str = "") -> list[str]:
    """Return the main parameter and the next one; the main parameter and a chosen one, if there is one.

    Parameters
    ----------
    view : View
    parameter : str, optional
        Name of a slider that must be one of both.
    """
    names = [slider.name for slider in view.sliders if slider.is_main]
    first = view.main_parameter if view.main_parameter in names else next(iter(names), "")
    return list(dict.fromkeys(name for name in (first, parameter, *names) if name))[:2]


# ---- runs --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=_KEPT_RUNS)
def _cached_run(key: _Key, engine: str) -> list[Any]:
    """Return an empty list, in which the run of a view is stored: a run that was cancelled leaves nothing."""
    return []


def _run(view: View, engine: str, cancel: Cancel) -> Trajectory:
    place = _cached_run(_Key(view), engine)
    if not place:
        scenario = view.run
        simulate: Any = simulate_packets if engine == "packet" else simulate_fluid
        try:
            run = simulate(scenario, sample=scenario.duration / _n_samples(view), cancel=cancel)
        except (ValueError, EccError) as error:
            place.append(error)
        else:
            if not run.is_complete:
                raise Cancelled
            place.append(run)
    if isinstance(place[0], Exception):
        raise place[0]
    return place[0]  # type: ignore[no-any-return]


def _n_samples(view: View) -> int:
    """Return the number of samples: for windows one in an RTT, as they leave in bursts that are shorter."""
    bursts = any(sets_windows(protocol) for protocol in view.run.deployment.flows)
    return int(np.clip(view.duration, _SAMPLES // 4, _SAMPLES)) if bursts else _SAMPLES


_packet_runs = ThreadPoolExecutor(2, "explore-packets")
"""Threads of packet runs, which need no interpreter and leave it to the fluid run."""


def _both_runs(view: View, cancel: Cancel, wait: Wait) -> tuple[Trajectory, Trajectory | None, list[str]]:
    """Return the packet run, the fluid run or None, and the reason why it is missing."""
    packets = _packet_runs.submit(_run, view, "packet", cancel)
    wait()
    fluid, notes = None, list[str]()
    try:
        fluid = _run(view, "fluid", cancel)
    except (ValueError, EccError) as error:
        notes.append(f"no fluid run: {error}")
    return packets.result(), fluid, notes


def _names(run: Trajectory, count: int) -> list[str]:
    protocols = [str(name) for name in run.flows["protocol"][:count]] if "protocol" in run.flows else []
    several = len(set(protocols)) > 1
    return [f"flow {k}, {protocols[k]}" if several else f"flow {k}" for k in range(count)]


def _chosen_flows(view: View) -> list[int]:
    """Return the first flow of each pair of protocol and RTT, then the following ones, up to a few."""
    network = view.network
    kinds: dict[Any, int] = {}
    protocols = view.run.deployment.flows
    for flow in range(network.n_flows):
        kinds.setdefault((type(protocols[flow]).__name__, float(network.rtts[flow])), flow)
    remaining = [flow for flow in range(network.n_flows) if flow not in kinds.values()]
    return sorted([*kinds.values(), *remaining][:_SHOWN_FLOWS])


_Line = tuple[Any, Real, str, str, str, str]
"""Time [s], values, name in the legend, name of the run, color and dash of a line."""


def _over_time(view: View, title: str, lines: Sequence[_Line], top: float = 0.0, level: float | None = None) -> Answer:
    """Return lines over time in one figure, made at once: several times as fast as adding each line and setting."""
    import plotly.graph_objects as go

    factor, unit = unit_for(view.run.duration, TIME)
    traces: list[dict[str, Any]] = []
    for time, values, name, kind, color, dash in lines:
        x, y = thinned(time / factor, values, buckets_for(len(lines)))
        top = max(top, float(np.nanmax(values, initial=0.0)))
        traces.append(
            {"type": "scatter", "mode": "lines", "x": x, "y": y, "name": name}
            | {"line": {"color": color, "width": 1.8, "dash": dash}}
            | {"showlegend": all(name != each["name"] for each in traces), "legendgroup": name}
            | {"hovertemplate": f"{name}{kind}: %{{y:.4g}}<extra></extra>"}
        )
    time_axis = axis(f"time [{unit}]") | {"hoverformat": ".4g", "range": [0.0, view.run.duration / factor]}
    layout: dict[str, Any] = {"xaxis": time_axis, "hovermode": "x unified"}
    if level is not None:
        top = max(top, level)
        dotted = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level}
        layout["shapes"] = [dotted | {"line": {"color": GREY, "dash": "dot"}}]
        text = {"text": "buffer", "xref": "paper", "x": 1, "xanchor": "right", "y": level, "yanchor": "bottom"}
        layout["annotations"] = [text | {"showarrow": False}]
    layout["yaxis"] = axis(title) | {"range": [0.0, 1.08 * (top if top > 0.0 else 1.0)]}
    return {"figure": figure(go.Figure(traces, layout))}


def _rates(view: View, packets: Trajectory, fluid: Trajectory | None, notes: list[str]) -> Answer:
    flows = _chosen_flows(view)
    names = _names(packets, view.network.n_flows)
    runs = [(packets, "packets", "solid"), *([(fluid, "fluid", "dash")] if fluid is not None else [])]
    series = [(run.data["time"].to_numpy(), run.rate.to_numpy(), kind, dash) for run, kind, dash in runs]
    factor, unit = unit_for(series[0][1], RATE)
    lines: list[_Line] = [
        (time, rates[:, flow] / factor, names[flow], f", {kind}", color, dash)
        for flow, color in zip(flows, PALETTE, strict=False)
        for time, rates, kind, dash in series
    ]
    remaining = view.network.n_flows - len(flows)
    count = [f"{len(flows)} of {view.network.n_flows} flows are shown"] if remaining else []
    return _over_time(view, f"rate [{unit}]", lines) | {"notes": [*count, *notes]}


def _queue(view: View, packets: Trajectory, fluid: Trajectory | None, notes: list[str]) -> Answer:
    mean = "queue_mean" if "queue_mean" in packets.data else "queue"
    runs = [(packets, "packets", "solid", mean), *([(fluid, "fluid", "dash", "queue")] if fluid is not None else [])]
    series = [(run.data["time"].to_numpy(), run.data[name].to_numpy(), kind, dash) for run, kind, dash, name in runs]
    factor, unit = unit_for(series[0][1], SIZE)
    links = list(range(view.network.n_links))[:_SHOWN_FLOWS]
    lines: list[_Line] = [
        (time, queues[:, link] / factor, f"link {link}", f", {kind}", color, dash)
        for link, color in zip(links, PALETTE, strict=False)
        for time, queues, kind, dash in series
    ]
    if len(links) == 1:
        lines = [
            (time, queues[:, 0] / factor, kind, "", color, dash)
            for (time, queues, kind, dash), color in zip(series, PALETTE, strict=False)
        ]
    buffer = view.network.links[0].buffer
    level = buffer / factor if buffer is not None and len(links) == 1 else None
    return _over_time(view, f"queue [{unit}]", lines, level=level) | {"notes": notes}


def _flows(view: View, packets: Trajectory, fluid: Trajectory | None, notes: list[str]) -> Answer:
    from ecc.plot import trajectory_figure

    rtts = packets.flows["idle_rtt"][: packets.data.sizes["flow"]] if "idle_rtt" in packets.flows else None
    protocols = [str(name) for name in packets.flows["protocol"]] if "protocol" in packets.flows else None
    drawn = trajectory_figure(
        packets.data["time"].to_numpy(),
        packets.rate.to_numpy(),
        flows=_names(packets, view.network.n_flows),
        rtts=None if rtts is None or not np.all(np.isfinite(rtts)) else rtts.to_numpy(),
        groups=protocols,
    )
    return {"figure": drawn, "notes": []}


def _fairness(view: View, packets: Trajectory, fluid: Trajectory | None, notes: list[str]) -> Answer:
    if view.network.n_flows < 2:
        raise ValueError("fairness is defined for two flows or more")
    runs = [(packets, "packets", "solid"), *([(fluid, "fluid", "dash")] if fluid is not None else [])]
    lines: list[_Line] = [
        (run.data["time"].to_numpy(), jain_index(np.nan_to_num(run.rate.to_numpy())), kind, "", color, dash)
        for (run, kind, dash), color in zip(runs, PALETTE, strict=False)
    ]
    last = packets.rate.to_numpy()[packets.data.sizes["time"] // 2 :].mean(axis=0)
    share = float(last.min() / last.max()) if last.max() > 0.0 else 0.0
    smallest, largest = (quantity_text(float(rate), "bit/s") for rate in (last.min(), last.max()))
    text = f"packets, second half: lowest mean rate {smallest}, highest {largest}, ratio {share:.3g}"
    return _over_time(view, "Jain's fairness index", lines, top=1.0) | {"notes": [text, *notes]}


_DRAWN: dict[str, Callable[[View], Answer]] = {
    "verdict": _verdict,
    "diagram": _diagram,
    "nyquist": _nyquist,
    "bode": _bode,
    "roots": _roots,
}
_RUNS: dict[str, Callable[..., Answer]] = {"rates": _rates, "queue": _queue, "flows": _flows, "fairness": _fairness}
WORK = {
    **dict.fromkeys(_DRAWN, "model"),
    **dict.fromkeys(_RUNS, "run"),
    **dict.fromkeys(("limit", "map"), "search"),
}
"""Name of a panel -> kind of its work: "model" takes milliseconds, a "run" up to a second, a "search" seconds."""
