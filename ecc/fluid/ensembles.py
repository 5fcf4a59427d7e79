"""Ensembles: one model with many parameters and initial states, run on all cores, labelled by what was varied.

Members run in threads, because the compiled engines hold no lock of the interpreter, and each of them is the run that
`simulate` or `solve_dde` makes of it alone, bit by bit. A thread takes several members at once, and sets up together
those that are alike: for short runs that is most of the work. What varies is a mapping from names to values as in
xarray: a list of values is a dimension of its own, and DataArrays that share a dimension vary together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import Positive, check_arguments, shown
from ecc._support.quantity import Quantity
from ecc.contract.assignment import parameter_names, with_parameters
from ecc.contract.protocol import Protocol
from ecc.fluid.dde.solver import DdeResult, solve_dde
from ecc.fluid.network.simulation import prepare, run_together, simulate
from ecc.scenario import Scenario

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ensemble", "solve_ensemble"]

_OPTIONS = tuple(name for name in signature(simulate).parameters if name not in ("scenario", "progress", "sample"))


@dataclass(frozen=True)
class _Members:
    """The members of an ensemble: `shape` over `dims`, and for each, in order, what varies."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    coordinates: dict[str, Any]
    values: list[dict[str, Any]]

    @classmethod
    def of(cls, over: Mapping[str, Any]) -> _Members:
        import xarray as xr

        if not over:
            raise ValueError("over must name what varies, got {}")
        indices, choices = [], {}
        coordinates: dict[str, Any] = {}
        for name, given in over.items():
            if isinstance(given, xr.DataArray):
                choices[name] = list(given.to_numpy().ravel())
                indices.append(given.copy(data=np.arange(given.size).reshape(given.shape)))
                coordinates[name] = given.variable
            else:
                if isinstance(given, str | bytes) or not isinstance(given, Iterable):
                    raise TypeError(f"{name} must be a sequence of values, or a DataArray, got {shown(given)}")
                choices[name] = list(given)
                indices.append(xr.DataArray(np.arange(len(choices[name])), dims=[name]))
                scalar = all(np.ndim(v) == 0 and isinstance(v, int | float | str | np.generic) for v in choices[name])
                coordinates[name] = (name, choices[name] if scalar else np.arange(len(choices[name])))
            if not choices[name]:
                raise ValueError(f"over must have values for each name, got none for {name!r}")
        broadcast = xr.broadcast(*indices)
        flat = [index.to_numpy().ravel() for index in broadcast]
        count = broadcast[0].size
        values = [
            {name: choices[name][int(index[k])] for name, index in zip(over, flat, strict=True)} for k in range(count)
        ]
        coordinates = {**{str(k): v for k, v in broadcast[0].coords.items()}, **coordinates}
        return cls(tuple(map(str, broadcast[0].dims)), broadcast[0].shape, coordinates, values)


_TOGETHER = 16
"""The most members that a thread takes at once."""


class _Interrupt:
    """What Ctrl-C has set, and members in threads look at: it reaches the main thread only."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self, share: float) -> None:
        if self.came:
            raise KeyboardInterrupt


def _or_error(make: Callable[[dict[str, Any]], Any], varied: dict[str, Any]) -> Any:
    """What a function makes of one member, or what it raises: the member's failure, not the ensemble's."""
    try:
        return make(varied)
    except Exception as error:
        return error


def _collected(
    count: int,
    several: Callable[[range], list[Any]],
    together: int,
    workers: int | None,
    progress: Callable[[float], None] | None,
    interrupt: _Interrupt,
) -> tuple[list[Any], list[str]]:
    """What each member returned (None for those that raised) and, for those that raised, why.

    `several` returns the result or the exception of each of at most `together` members. The first is run before all
    others: it compiles what they need. Ctrl-C ends what runs, and keeps what is there.
    """
    threads = workers or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) or 1
    size = min(together, -(-count // (4 * threads)))  # shares of work that end at about the same time
    batches = [range(first, min(first + size, count)) for first in range(1, count, size)]
    found: list[Any] = [None] * count
    why = ["interrupted"] * count
    errors: list[Exception] = []
    done = 0

    def keep(future: Any) -> None:
        for k, result in zip(running.pop(future), future.result(), strict=True):
            if isinstance(result, Exception):
                why[k] = f"{type(result).__name__}: {result}"
                errors.append(result)
            else:
                found[k] = result

    pool = ThreadPoolExecutor(threads)
    running: dict[Any, range] = {}
    try:
        for these in ([range(1)], batches):
            running = {pool.submit(several, members): members for members in these}
            for future in as_completed(list(running)):
                done += len(running[future])
                keep(future)
                if progress is not None:
                    progress(done / count)
    except KeyboardInterrupt:
        interrupt.came = True
        pool.shutdown(cancel_futures=True)
        for future in [future for future in running if not future.cancelled()]:
            keep(future)
    finally:
        pool.shutdown(cancel_futures=True)
    if all(result is None for result in found):
        raise errors[0] if errors else KeyboardInterrupt
    return found, why


@check_arguments
def ensemble(
    scenario: Scenario,
    over: Mapping[str, Any],
    *,
    workers: Positive | None = None,
    progress: Callable[[float], None] | None = None,
    sample: Quantity | None = None,
    start: str | ArrayLike = "empty",
    perturbation: float = 0.0,
    record: Sequence[str] = (),
    cancel: Callable[[], bool] | None = None,
    time: str = "continuous",
    rtol: float = 1e-6,
    delays: tuple[ArrayLike, ArrayLike] | None = None,
    clocking: str = "ack",
    signals: str = "rate",
) -> xr.Dataset:
    """Return the fluid runs of a scenario with other parameters, starts or fields, as one labelled Dataset.

    Parameters
    ----------
    scenario : Scenario
    over : mapping
        Name -> values. A name is a parameter of the protocol ("alpha"; of several protocols "flows.alpha" or
        "links.target"), a field of the scenario ("network", "seed"), or an option of `simulate` ("perturbation",
        "rtol"). A sequence makes a dimension of this name; an
        xarray DataArray brings its own dimensions; those with one in common vary together.
    workers : int, > 0, optional
        Threads; None: as many as there are cores for this process.
    progress : callable, optional
        Called with the share of the members that are done.
    sample, start, perturbation, record, cancel, time, rtol, delays, clocking, signals
        As in `simulate`, the same for all that do not vary them.

    Returns
    -------
    Dataset
        Dataset with the series of a trajectory over (*what varies, time, flow or link), and for each member `stopped`
        ("completed", or why it ended before, or what it raised) and `steps`. What a member did not reach is nan (-1 for
        `bottleneck`). Ctrl-C ends it: members that ran then have what they had reached, and they and those that did not
        run are "interrupted". Values that are neither numbers nor strings are labelled by their position.

    Raises
    ------
    ValueError
        A name that is none of these, no values; members of different size; what the first member raised, if all of them
        raise.
    KeyboardInterrupt
        Ctrl-C before any member had a result.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("100 Mb/s", [0.1])
    >>> scenario = ecc.Scenario(net, ecc.models.QIRCP(), 30.0)
    >>> runs = ensemble(scenario, {"alpha": [0.5, 1.0, 1.5]}, time="discrete")
    >>> runs.rate.dims, bool((runs.stopped == "completed").all())
    (('alpha', 'time', 'flow'), True)
    """
    import xarray as xr

    if not isinstance(scenario, Scenario):
        raise TypeError(f"scenario must be a Scenario, got {shown(scenario)}")
    single = isinstance(scenario.protocol, Protocol)
    parameters = [field.name for field in fields(scenario.protocol)] if single else parameter_names(scenario.protocol)
    parts = [field.name for field in fields(scenario)]
    for name in over:
        if name not in (*parameters, *parts, *_OPTIONS):
            raise ValueError(f"over must name one of {', '.join((*parameters, *parts, *_OPTIONS))}, got {shown(name)}")
    members = _Members.of(over)
    interrupt = _Interrupt()
    options: dict[str, Any] = {
        "sample": sample, "start": start, "perturbation": perturbation, "record": record, "cancel": cancel,
        "progress": interrupt, "time": time, "rtol": rtol, "delays": delays, "clocking": clocking, "signals": signals,
    }  # fmt: skip

    text = scenario.to_toml()  # what cannot be stored with the result is refused before the runs
    shared: dict[Any, Any] = {}

    def one(varied: dict[str, Any]) -> Any:
        changed = {name: value for name, value in varied.items() if name in parts}
        tuned = {name: value for name, value in varied.items() if name in parameters and name not in parts}
        if tuned:
            changed["protocol"] = with_parameters(changed.get("protocol", scenario.protocol), tuned)
        here = replace(scenario, **changed) if changed else scenario
        own = {name: value for name, value in varied.items() if name not in parts and name not in parameters}
        return prepare(here, shared=shared, **{**options, **own})

    def several(which: range) -> list[Any]:
        ready = [_or_error(one, members.values[k]) for k in which]
        fit = [prepared for prepared in ready if not isinstance(prepared, Exception)]
        results = iter(run_together(fit))
        return [
            prepared if isinstance(prepared, Exception)
            else result if isinstance(result := next(results), Exception)
            else (prepared, result)
            for prepared in ready
        ]  # fmt: skip

    found, stopped = _collected(len(members.values), several, _TOGETHER, workers, progress, interrupt)
    prepared, result = max((run for run in found if run is not None), key=lambda run: len(run[1].time))
    longest = prepared.trajectory(result, text)
    series = [None if run is None else run[0].series(run[1]) for run in found]
    variables: dict[str, Any] = {}
    for name, array in longest.data.data_vars.items():
        shape = array.shape
        whole = np.full((len(found), *shape), -1 if name == "bottleneck" else np.nan, dtype=array.dtype)
        for k, values_of in enumerate(series):
            if values_of is not None:
                values = values_of[str(name)]
                if values.shape[1:] != shape[1:]:
                    raise ValueError(
                        f"members must have one number of flows and links, got {shape[1]} and {values.shape[1]}"
                    )
                whole[k, : len(values)] = values
        variables[str(name)] = ((*members.dims, *array.dims), whole.reshape(*members.shape, *shape), array.attrs)
    reasons = [run[1].stopped if run is not None else why for run, why in zip(found, stopped, strict=True)]
    counts = [run[1].stats["steps"] if run is not None else 0 for run in found]
    variables["stopped"] = (members.dims, np.array(reasons, dtype=object).reshape(members.shape))
    variables["steps"] = (members.dims, np.array(counts).reshape(members.shape))
    labels = {str(name): longest.data[name] for name in ("time", "flow", "link")}
    kept = {name: longest.data.attrs[name] for name in ("engine", "time", "version")}
    return xr.Dataset(variables, coords={**labels, **members.coordinates}, attrs={**kept, "scenario": text})


@check_arguments
def solve_ensemble(
    f: Callable[..., Any],
    t_span: Sequence[float],
    history: Any,
    delays: Any,
    *,
    args: Mapping[str, Any],
    t_eval: ArrayLike,
    workers: Positive | None = None,
    progress: Callable[[float], None] | None = None,
    events: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
    rtol: float = 1e-3,
    atol: ArrayLike = 1e-6,
    max_step: float = np.inf,
    first_step: float | None = None,
    y0: ArrayLike | None = None,
    breaks: ArrayLike = (),
    jit: bool = True,
    method: str = "RK45",
    neutral: bool = False,
    history_slope: Callable[..., Any] | None = None,
) -> xr.Dataset:
    """Return the solutions of a delay differential equation for many values of its arguments, as one Dataset.

    Parameters
    ----------
    f, t_span, history, delays
        As for `solve_dde`. Functions take the values of `args`, in their order, after their other arguments. `history`
        may be a DataArray with a dimension "component", `delays` one with a dimension "delay"; their other dimensions
        vary.
    args : mapping
        Name -> values, numbers: a sequence makes a dimension of this name; a DataArray brings its dimensions. Empty
        where only the history or the delays vary.
    t_eval : array_like, shape (n_times,), increasing
        Within t_span.
    workers : int, > 0, optional
        Threads; None: as many as there are cores for this process.
    progress : callable, optional
        Called with the share of the members that are done.
    events, rtol, atol, max_step, first_step, y0, breaks, jit, method, neutral, history_slope
        As in `solve_dde`, the same for all.

    Returns
    -------
    Dataset
        `y` (*what varies, component, t), nan where a solution could not be reached; for each member `success`,
        `message` (of `solve_dde`, or what the member raised), `steps` and `nfev`.

    Raises
    ------
    ValueError
        Nothing varies; what the first member raised, if all of them raise.
    KeyboardInterrupt
        Ctrl-C before there was any solution; after that, those that were not begun have the message "interrupted".

    Notes
    -----
    f is compiled once. One that Numba cannot compile runs under the interpreter's lock, on one core.

    Examples
    --------
    >>> def f(t, y, ylag, gain):
    ...     return -gain * ylag[0]
    >>> found = solve_ensemble(f, (0, 40), [1.0], [1.0], args={"gain": [1.5, 1.65]}, t_eval=np.arange(30, 41))
    >>> abs(found.y).max("t").values.round(1).ravel()  # on both sides of pi/2
    array([0.4, 4.2])
    """
    import xarray as xr

    own = {"history": (history, "component"), "delays": (delays, "delay")}
    over: dict[str, Any] = dict(args)
    for name, (given, last) in own.items():
        if isinstance(given, xr.DataArray):
            if last not in given.dims:
                raise ValueError(f"{name} must have a dimension {last!r}, got {given.dims}")
            others = given.isel({last: 0}, drop=True)
            over[f" {name}"] = others.copy(data=np.arange(others.size).reshape(others.shape))
    members = _Members.of(over)
    rows = {
        name: given.transpose(..., last).to_numpy().reshape(-1, given.sizes[last])
        for name, (given, last) in own.items()
        if isinstance(given, xr.DataArray)
    }

    def one(varied: dict[str, Any]) -> DdeResult:
        past = rows["history"][varied[" history"]] if "history" in rows else history
        lags = rows["delays"][varied[" delays"]] if "delays" in rows else delays
        numbers = tuple(float(varied[name]) for name in args)
        return solve_dde(
            f, t_span, past, lags, t_eval=t_eval, args=numbers, events=events, rtol=rtol, atol=atol, max_step=max_step,
            first_step=first_step, y0=y0, breaks=breaks, jit=jit, method=method, neutral=neutral,
            history_slope=history_slope,
        )  # fmt: skip

    def several(which: range) -> list[Any]:
        return [_or_error(one, members.values[k]) for k in which]

    found, why = _collected(len(members.values), several, 1, workers, progress, _Interrupt())
    times = np.asarray(t_eval, dtype=float)
    size = next(result.y.shape[0] for result in found if result is not None)
    y = np.full((len(found), size, len(times)), np.nan)
    for k, result in enumerate(found):
        if result is not None:
            y[k, :, : len(result.t)] = result.y

    def each(read: Callable[[DdeResult], Any], otherwise: Any) -> tuple[tuple[str, ...], NDArray[Any]]:
        values = np.array([otherwise if r is None else read(r) for r in found])
        return members.dims, values.reshape(members.shape)

    messages = np.array([why[k] if r is None else r.message for k, r in enumerate(found)], dtype=object)
    return xr.Dataset(
        {
            "y": ((*members.dims, "component", "t"), y.reshape(*members.shape, size, len(times))),
            "success": each(lambda r: r.success, False),
            "message": (members.dims, messages.reshape(members.shape)),
            "steps": each(lambda r: r.steps, 0),
            "nfev": each(lambda r: r.nfev, 0),
        },
        coords={"t": times, **{name: c for name, c in members.coordinates.items() if not name.startswith(" ")}},
    )
