"""Ensembles: one model with many parameters and initial states, run on all cores, labelled by the varied quantities.

Members run in threads, because the compiled engines release the interpreter's lock. Each member equals the run that
`simulate` or `solve_dde` makes of it alone, bit by bit. A thread takes several members at once, and sets up similar
members together: for short runs this is the larger part of the work. Large ensembles of recurrences that vary
parameters and starts have a separate kernel (`ecc.fluid.network.generated_steps`). The varied quantities are a
mapping from names to values as in xarray: a list of values is a separate dimension, and DataArrays that share a
dimension vary together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments
from ecc._support.quantity import Quantity
from ecc._support.reports import ProgressCallback
from ecc.fluid.dde.solver import DdeResult, solve_dde
from ecc.fluid.member_runs import GeneratedMembers, MemberRun, batches
from ecc.fluid.network.simulation import prepare, run_together, simulate
from ecc.results.members import Interrupt, Members, Varied, collected, or_error
from ecc.scenario import Scenario

if TYPE_CHECKING:
    import xarray as xr

    from ecc.results.trajectory import Trajectory

__all__ = ["ensemble", "solve_ensemble"]

_MAX_BATCH = 16
"""Maximum number of members that a thread takes at once."""
_MAX_GENERATED_BATCH = 256
"""This number if a generated kernel may run them."""
_OPTIONS = tuple(name for name in signature(simulate).parameters if name not in ("scenario", "progress", "sample"))


@check_arguments(former={"workers": "executor"})
def ensemble(
    scenario: Scenario,
    over: Mapping[str, Any],
    *,
    executor: Executor | int | None = None,
    progress: ProgressCallback | None = None,
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
    updates_per_rtt: int | None = None,
) -> xr.Dataset:
    """Return the fluid runs of a scenario for many parameters, starts or fields, as one labelled Dataset.

    Parameters
    ----------
    scenario : Scenario
    over : mapping
        Name -> values, for example {"alpha": [0.5, 1.0]}. A name is a parameter of the protocol ("alpha"; if there are
        several protocols, "flows.alpha" or "links.target"), a field of the scenario ("network", "seed"), or an option
        of `simulate` ("perturbation", "rtol"). A sequence makes a dimension of this name. An xarray DataArray keeps its
        dimensions; DataArrays that share a dimension vary together.
    executor : ThreadPoolExecutor or int, >= 1, optional
        Threads, or their number. None: the number of cores available to this process.
    progress : callable, optional
        Called after members end with a `Progress`: the completed `share` of members.
    sample, start, perturbation, record, cancel, time, rtol, delays, clocking, signals, updates_per_rtt
        As in `simulate`, the same for all members unless `over` names them.

    Returns
    -------
    Dataset
        Dataset with the series of a trajectory over (*varied dimensions, time, flow or link), and for each member
        `stopped` ("completed", the reason for an early end, or the exception) and `steps`. Samples that a member did
        not reach are nan (-1 in `bottleneck`). If Ctrl-C ends the ensemble, running members keep the samples that they
        reached, and are "interrupted", as are members that did not start. Values that are neither numbers nor strings
        are labelled by their position. The attribute `kernel` is "generated" or "single runs" (see Notes), and
        `compile_seconds` the time that it took to compile or load a generated kernel [s].

    Raises
    ------
    ValueError
        If a name is unknown or has no values, if members differ in size, or, if all members raise, the exception of the
        first.
    KeyboardInterrupt
        Ctrl-C before any member had a result.

    Notes
    -----
    In discrete time, an ensemble that varies parameters of one protocol, starts and perturbations only can have a
    kernel in which the step of its network and laws is written out. Numba compiles it once per structure, in seconds,
    and it is kept for later processes. It is used if it saves more time than it takes: from about 4,000 members of
    6,000 steps on with two flows, and from 500 on once it is kept. Networks with more than 12 pairs of a group of equal
    flows and a link, array parameters, and `delays` with several rows have the engine of single runs. Results have the
    same bits.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("100 Mb/s", [0.1])
    >>> scenario = ecc.Scenario(net, ecc.models.QIRCP(), 30.0)
    >>> runs = ensemble(scenario, {"alpha": [0.5, 1.0, 1.5]}, time="discrete")
    >>> runs.rate.dims, bool((runs.stopped == "completed").all())
    (('alpha', 'time', 'flow'), True)
    """
    import xarray as xr

    varied = Varied(scenario, _OPTIONS)
    varied.check("over", over)
    members = Members.of(over)
    interrupt = Interrupt()
    options: dict[str, Any] = {
        "sample": sample,
        "start": start,
        "perturbation": perturbation,
        "record": record,
        "cancel": cancel,
        "progress": interrupt,
        "time": time,
        "rtol": rtol,
        "delays": delays,
        "clocking": clocking,
        "signals": signals,
        "updates_per_rtt": updates_per_rtt,
    }

    text = scenario.to_toml()  # refuses, before any run, a scenario that cannot be stored with the result
    shared: dict[Any, Any] = {}

    def prepare_member(values: dict[str, Any]) -> Any:
        scenario_of_member, own_options = varied.member(values)
        return prepare(scenario_of_member, shared=shared, **{**options, **own_options})

    def run_alone(which: Sequence[int]) -> list[Any]:
        ready = [or_error(prepare_member, members.values[k]) for k in which]
        fit = [prepared for prepared in ready if not isinstance(prepared, Exception)]
        results = iter(run_together(fit))
        return [
            prepared
            if isinstance(prepared, Exception)
            else result
            if isinstance(result := next(results), Exception)
            else MemberRun(prepared, result)
            for prepared in ready
        ]

    generated = GeneratedMembers(varied, options, members.values, prepare_member)

    def several(which: Sequence[int]) -> list[Any]:
        runs = generated.run(which)
        rest = [k for k in which if k not in runs]
        for first in range(0, len(rest), _MAX_BATCH):
            part = rest[first : first + _MAX_BATCH]
            runs.update(zip(part, run_alone(part), strict=True))
        return [runs[k] for k in which]

    together = _MAX_GENERATED_BATCH if generated.is_possible else _MAX_BATCH
    runs, stopped = collected(len(members.values), lambda: several, together, executor, progress, interrupt)
    longest_run = max((run for run in runs if run is not None), key=lambda run: run.rows)
    longest = longest_run.prepared.trajectory(longest_run.alone(), text)
    variables: dict[str, Any] = {}
    for name, values in _of_members(longest, runs).items():
        array = longest.data[name]
        variables[name] = ((*members.dims, *array.dims), values.reshape(*members.shape, *array.shape), array.attrs)
    reasons = [run.result.stopped if run is not None else why for run, why in zip(runs, stopped, strict=True)]
    counts = [run.result.stats["steps"] if run is not None else 0 for run in runs]
    variables["stopped"] = (members.dims, np.array(reasons, dtype=object).reshape(members.shape))
    variables["steps"] = (members.dims, np.array(counts).reshape(members.shape))
    labels = {str(name): longest.data[name] for name in ("time", "flow", "link")}
    attributes = {name: longest.data.attrs[name] for name in ("engine", "time", "version")} | generated.attributes()
    return xr.Dataset(variables, coords={**labels, **members.coordinates}, attrs={**attributes, "scenario": text})


def _of_members(longest: Trajectory, runs: Sequence[MemberRun | None]) -> dict[str, NDArray[Any]]:
    """Return each series of all members, shape (members, *shape of the longest); missing samples are nan, or -1."""
    n_rows = len(longest.data.time)
    short = {k: 0 if run is None else run.rows for k, run in enumerate(runs) if run is None or run.rows < n_rows}
    filled: dict[str, NDArray[Any]] = {}
    for name, array in longest.data.data_vars.items():
        filled[str(name)] = values = np.empty((len(runs), *array.shape), dtype=array.dtype)
        for k, rows in short.items():
            values[k, rows:] = -1 if name == "bottleneck" else np.nan
    for batch, places in batches(runs):
        series_of_batch = batch[0].series()
        for name, values in filled.items():
            series = series_of_batch[name]
            if series.shape[-1] != values.shape[-1]:
                number = f"{values.shape[-1]} and {series.shape[-1]}"
                raise ValueError(f"members must have one number of flows and links, got {number}")
            if batch[0].place is None:
                values[places[0], : len(series)] = series
            else:
                values[places] = series[[run.place for run in batch]]
    return filled


@check_arguments(former={"workers": "executor"})
def solve_ensemble(
    f: Callable[..., Any],
    t_span: Sequence[float],
    history: Any,
    delays: Any,
    *,
    args: Mapping[str, Any],
    t_eval: ArrayLike,
    executor: Executor | int | None = None,
    progress: ProgressCallback | None = None,
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
        Name -> numbers: a sequence makes a dimension of this name, a DataArray keeps its dimensions. Empty if only the
        history or the delays vary.
    t_eval : array_like, shape (n_times,), increasing
        Times of the results, within t_span.
    executor : ThreadPoolExecutor or int, >= 1, optional
        Threads, or their number. None: the number of cores available to this process.
    progress : callable, optional
        Called after members end with a `Progress`: the completed `share` of members.
    events, rtol, atol, max_step, first_step, y0, breaks, jit, method, neutral, history_slope
        As in `solve_dde`, the same for all members.

    Returns
    -------
    Dataset
        Dataset with `y` (*varied dimensions, component, t), nan at times that a solution did not reach, and for each
        member `success`, `message` (of `solve_dde`, or of the exception), `steps` and `nfev`.

    Raises
    ------
    ValueError
        If no argument varies or, if all members raise, the exception of the first.
    KeyboardInterrupt
        Ctrl-C before there was any solution; if it comes later, members that had not started have the message
        "interrupted".

    Notes
    -----
    f is compiled once. If Numba cannot compile it, it runs under the interpreter's lock, on one core.

    Examples
    --------
    >>> def f(t, y, ylag, gain):
    ...     return -gain * ylag[0]
    >>> runs = solve_ensemble(f, (0, 40), [1.0], [1.0], args={"gain": [1.5, 1.65]}, t_eval=np.arange(30, 41))
    >>> abs(runs.y).max("t").values.round(1).ravel()  # on both sides of pi/2
    array([0.4, 4.2])
    """
    import xarray as xr

    array_arguments = {"history": (history, "component"), "delays": (delays, "delay")}
    over: dict[str, Any] = dict(args)
    for name, (argument, last) in array_arguments.items():
        if isinstance(argument, xr.DataArray):
            if last not in argument.dims:
                raise ValueError(f"{name} must have a dimension {last!r}, got {argument.dims}")
            varying = argument.isel({last: 0}, drop=True)
            over[f" {name}"] = varying.copy(data=np.arange(varying.size).reshape(varying.shape))
    members = Members.of(over)
    rows = {
        name: argument.transpose(..., last).to_numpy().reshape(-1, argument.sizes[last])
        for name, (argument, last) in array_arguments.items()
        if isinstance(argument, xr.DataArray)
    }

    def solve_member(varied: dict[str, Any]) -> DdeResult:
        past = rows["history"][varied[" history"]] if "history" in rows else history
        lags = rows["delays"][varied[" delays"]] if "delays" in rows else delays
        numbers = tuple(float(varied[name]) for name in args)
        return solve_dde(
            f,
            t_span,
            past,
            lags,
            t_eval=t_eval,
            args=numbers,
            events=events,
            rtol=rtol,
            atol=atol,
            max_step=max_step,
            first_step=first_step,
            y0=y0,
            breaks=breaks,
            jit=jit,
            method=method,
            neutral=neutral,
            history_slope=history_slope,
        )

    def several(which: Sequence[int]) -> list[Any]:
        return [or_error(solve_member, members.values[k]) for k in which]

    results, why = collected(len(members.values), lambda: several, 1, executor, progress, Interrupt())
    times = np.asarray(t_eval, dtype=float)
    size = next(result.y.shape[0] for result in results if result is not None)
    y = np.full((len(results), size, len(times)), np.nan)
    for k, result in enumerate(results):
        if result is not None:
            y[k, :, : len(result.t)] = result.y

    def each(read: Callable[[DdeResult], Any], otherwise: Any) -> tuple[tuple[str, ...], NDArray[Any]]:
        values = np.array([otherwise if r is None else read(r) for r in results])
        return members.dims, values.reshape(members.shape)

    messages = np.array([why[k] if r is None else r.message for k, r in enumerate(results)], dtype=object)
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
