"""The panels of a view: figures, the block diagram and verdicts, each computed by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # noqa: F401  # before threads draw figures: Plotly uses a pandas that another thread imports
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.display import frequency_text, quantity_text
from ecc.contract.kinds import sets_windows
from ecc.errors import ConvergenceError, EccError, LinearizationError, UndecidedError
from ecc.explorer.diagram import block_diagram
from ecc.explorer.view import Slider, View
from ecc.fluid import simulate as simulate_fluid
from ecc.linear import DelaySystem, FrequencyResponse, SampledSystem
from ecc.loops.marked_equilibrium import equilibria_of_a_family
from ecc.packet import simulate as simulate_packets
from ecc.plot import bode_figure, nyquist_figure, root_figure, stability_map_figure
from ecc.plot.look import PALETTE, RATE, SIZE, axis, buckets_for, figure, thinned, unit_for
from ecc.results.metrics import jain_index
from ecc.stability import critical_gain, stability_map

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ecc.results.trajectory import Trajectory

__all__ = ["PANELS", "WORK", "Cancelled", "axes_of", "panel", "with_present_values"]

Real = NDArray[np.float64]
Cancel = Callable[[], bool]
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

_SAMPLES = 400  # samples of a run
_SHOWN_FLOWS = 4  # flows of the panel that compares packets and fluid
_ROOTS = 12
_GRID = 15  # values of each parameter of a map
_PRESENT = "present values"  # name of the cross in a map
_BISECTIONS = 8  # for the end of the values that have a linear model
_NOTES = 4  # notes of a model that are shown
_KEPT_RUNS = 32  # runs and models that several panels share


class Cancelled(Exception):
    """A newer view has replaced this one, or its time is over."""


def panel(name: str, view: View, cancel: Cancel, axes: Sequence[str] = ()) -> Answer:
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
        return _map(view, axes, cancel)
    if name == "limit":
        return _limit(view, cancel)
    return _DRAWN[name](view) if name in _DRAWN else _RUNS[name](view, *_both_runs(view, cancel))


# ---- linear models -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=_KEPT_RUNS)
def _model(key: _Key) -> DelaySystem | SampledSystem:
    with equilibria_of_a_family(_equilibria(key.view.protocol, key.view.second, key.view.discipline)):
        return key.view.linear()


@lru_cache(maxsize=_KEPT_RUNS)
def _equilibria(*names: str) -> dict[Any, Real]:
    """Return the last equilibria of a loop, at which the search for the next one starts."""
    return {}


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
        notes, state = notes[::-1], ""  # the note on the queue is the last one
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
    """Return the notes of the model itself, without those that take a run."""
    return list(system._own_notes)[:_NOTES]


def _limit(view: View, cancel: Cancel) -> Answer:
    name = view.main_parameter
    if not name:
        raise ValueError("this view has no numeric parameter, and so no stability limit")

    def stop_if_cancelled(progress: object) -> None:
        if cancel():
            raise Cancelled

    _linear(view)  # its refusal comes first
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
    return with_present_values(
        "limit", {"words": words, "rows": rows, "limit": limit.value if isfinite(limit.value) else None}, view
    )


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
        found = [row for row in answer["rows"] if row[0] not in (f"present {main}", "limit / present")]
        return {**answer, "rows": [*present, *found]}
    if name == "map" and "figure" in answer:
        at = dict(zip("xy", ([values[axis]] for axis in answer["axes"]), strict=True))
        traces = [{**trace, **at} if trace.get("name") == _PRESENT else trace for trace in answer["figure"]["data"]]
        return {**answer, "figure": {**answer["figure"], "data": traces}}
    return answer


def _nyquist(view: View) -> Answer:
    response = _linear(view).nyquist()
    drawn = nyquist_figure({"open loop": response}, marks=response._margins(), inset=0.0)
    return {"figure": drawn, "notes": _margin_notes(response)}


def _bode(view: View) -> Answer:
    response = _linear(view).nyquist()
    drawn = bode_figure({"open loop": response}, marks=response._margins())
    return {"figure": drawn, "notes": _margin_notes(response)}


def _margin_notes(response: FrequencyResponse) -> list[str]:
    return [response._without_margins] if response._without_margins else []


def _roots(view: View) -> Answer:
    system = _linear(view)
    roots = system.roots(_ROOTS)
    return {"figure": root_figure({"roots": roots}, sampled=isinstance(system, SampledSystem))}


def _diagram(view: View) -> Answer:
    return {"svg": block_diagram(view)}


def _map(view: View, axes: Sequence[str], cancel: Cancel) -> Answer:
    sliders = {slider.name: slider for slider in view.sliders}
    names = list(axes) or axes_of(view)
    if len(names) != 2 or names[0] == names[1] or not set(names) <= set(sliders):
        raise ValueError(f"axes must be two of {', '.join(sliders)}, got {shown(list(axes))}")

    def stop_if_cancelled(progress: object) -> None:
        if cancel():
            raise Cancelled

    _linear(view)
    grid = {name: np.geomspace(*_modelled(view, sliders[name]), _GRID) for name in names}
    x, y = names
    sampled = isinstance(_linear(view), SampledSystem)
    try:
        growth = stability_map(view.loop, view.network, grid, view.model_time, 1, progress=stop_if_cancelled)
        values = growth.transpose(y, x).to_numpy()
    except (ValueError, LinearizationError):  # points whose values the protocol refuses, or without a linear model
        values = _points(view, grid, cancel)
    drawn = stability_map_figure(
        grid[x],
        grid[y],
        values,
        threshold=1.0 if sampled else 0.0,
        x_title=x,
        y_title=y,
        log_x=True,
        log_y=True,
    )
    drawn.add_scatter(
        x=[sliders[x].value],
        y=[sliders[y].value],
        name=_PRESENT,
        mode="markers",
        marker={"symbol": "x", "size": 12, "color": "#000000"},
        hovertemplate=f"{x}: %{{x:.4g}}<br>{y}: %{{y:.4g}}<extra>{_PRESENT}</extra>",
    )
    return {"figure": drawn, "axes": names}


def _points(view: View, grid: Mapping[str, Real], cancel: Cancel) -> Real:
    """Return the spectral radius or abscissa point by point; NaN for points without a linear model."""
    (x, columns), (y, rows) = grid.items()
    values = np.full((len(rows), len(columns)), np.nan)
    for place in np.ndindex(values.shape):
        if cancel():
            raise Cancelled
        at = {x: float(columns[place[1]]), y: float(rows[place[0]])}
        try:
            system = _linear(replace(view, parameters={**view.parameters, **at}))
            sampled = isinstance(system, SampledSystem)
            values[place] = system.spectral_radius if sampled else system.spectral_abscissa
        except (ValueError, EccError):
            continue
    return values


def _modelled(view: View, slider: Slider) -> tuple[float, float]:
    """Return the part of a slider around its value for which the view has linear models, by bisection."""

    def has_model(value: float) -> bool:
        try:
            _linear(replace(view, parameters={**view.parameters, slider.name: value}))
        except (ValueError, EccError):
            return False
        return True

    def last(end: float) -> float:
        if has_model(end):
            return end
        inside, outside = slider.value, end
        for _ in range(_BISECTIONS):
            middle = (inside * outside) ** 0.5
            inside, outside = (middle, outside) if has_model(middle) else (inside, middle)
        return inside

    return last(slider.minimum), last(slider.maximum)


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


def _both_runs(view: View, cancel: Cancel) -> tuple[Trajectory, Trajectory | None, list[str]]:
    """Return the packet run, the fluid run or None, and the reason why there is no fluid run."""
    packets = _run(view, "packet", cancel)
    try:
        return packets, _run(view, "fluid", cancel), []
    except (ValueError, EccError) as error:
        return packets, None, [f"no fluid run: {error}"]


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


def _add_line(fig: go.Figure, time: Any, values: Real, name: str, color: str, dash: str, lines: int) -> None:
    x, y = thinned(time, values, buckets_for(lines))
    fig.add_scatter(
        x=x,
        y=y,
        name=name,
        mode="lines",
        line={"color": color, "width": 1.8, "dash": dash},
        hovertemplate=f"{name}: %{{y:.4g}}<extra></extra>",
    )


def _time_axes(fig: go.Figure, view: View, title: str, top: float) -> None:
    fig.update_xaxes(title_text="time [s]", hoverformat=".4g", range=[0.0, view.run.duration])
    fig.update_yaxes(**axis(title), range=[0.0, 1.05 * (top if top > 0.0 else 1.0)])
    fig.update_layout(hovermode="x unified")


def _rates(view: View, packets: Trajectory, fluid: Trajectory | None, notes: list[str]) -> Answer:
    flows = _chosen_flows(view)
    factor, unit = unit_for(packets.rate.to_numpy(), RATE)
    fig, top = figure(), 0.0
    names = _names(packets, view.network.n_flows)
    runs = [(packets, "packets", "solid"), *([(fluid, "fluid", "dash")] if fluid is not None else [])]
    for flow, color in zip(flows, PALETTE, strict=False):
        for run, kind, dash in runs:
            values = run.rate.to_numpy()[:, flow] / factor
            top = max(top, float(np.nanmax(values, initial=0.0)))
            time = run.data["time"].to_numpy()
            _add_line(fig, time, values, f"{names[flow]}, {kind}", color, dash, len(flows) * len(runs))
    _time_axes(fig, view, f"rate [{unit}]", top)
    return {"figure": fig, "notes": notes}


def _queue(view: View, packets: Trajectory, fluid: Trajectory | None, notes: list[str]) -> Answer:
    series = "queue_mean" if "queue_mean" in packets.data else "queue"
    factor, unit = unit_for(packets.data[series].to_numpy(), SIZE)
    fig, top = figure(), 0.0
    runs = [(packets, "packets", "solid", series), *([(fluid, "fluid", "dash", "queue")] if fluid is not None else [])]
    links = list(range(view.network.n_links))[:_SHOWN_FLOWS]
    for link, color in zip(links, PALETTE, strict=False):
        for run, kind, dash, name in runs:
            values = run.data[name].to_numpy()[:, link] / factor
            top = max(top, float(np.nanmax(values, initial=0.0)))
            title = kind if len(links) == 1 else f"link {link}, {kind}"
            _add_line(fig, run.data["time"].to_numpy(), values, title, color, dash, len(links) * len(runs))
    buffer = view.network.links[0].buffer
    if buffer is not None and len(links) == 1:
        fig.add_hline(y=buffer / factor, line={"color": "#767676", "dash": "dot"}, annotation_text="buffer")
        top = max(top, buffer / factor)
    _time_axes(fig, view, f"queue [{unit}]", top)
    return {"figure": fig, "notes": notes}


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
    fig = figure()
    for run, kind, dash in ((packets, "packets", "solid"), (fluid, "fluid", "dash")):
        if run is None:
            continue
        index = jain_index(np.nan_to_num(run.rate.to_numpy()))
        _add_line(fig, run.data["time"].to_numpy(), index, kind, PALETTE[0], dash, 2)
    _time_axes(fig, view, "Jain's fairness index", 1.0)
    last = packets.rate.to_numpy()[packets.data.sizes["time"] // 2 :].mean(axis=0)
    share = float(last.min() / last.max()) if last.max() > 0.0 else 0.0
    smallest, largest = (quantity_text(float(rate), "bit/s") for rate in (last.min(), last.max()))
    text = f"packets, second half: lowest mean rate {smallest}, highest {largest}, ratio {share:.3g}"
    return {"figure": fig, "notes": [text, *notes]}


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
