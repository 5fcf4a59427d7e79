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
from ecc.fluid.member_runs import Measures, MemberRun, MemberRunner, batches
from ecc.fluid.network.simulation import simulate
from ecc.results.members import Interrupt, Members, Varied, collected, or_error, seeds_of
from ecc.results.metrics import get
from ecc.scenario import Scenario

if TYPE_CHECKING:
    import xarray as xr

    from ecc.results.trajectory import Trajectory

__all__ = ["ensemble", "solve_ensemble"]

_OPTIONS = tuple(name for name in signature(simulate).parameters if name not in ("scenario", "progress", "sample"))


@check_arguments(former={"workers": "executor", "over": "vary"})
def ensemble(
    scenario: Scenario,
    vary: Mapping[str, Any] | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    metrics: Sequence[str] = (),
    arguments: Mapping[str, Any] | None = None,
    series: Sequence[str] | None = None,
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
    """Return metrics and series of the fluid runs of a scenario for many parameters, starts, seeds or fields.

    Parameters
    ----------
    scenario : Scenario
    vary : mapping, optional
        Name -> values, for example {"alpha": [0.5, 1.0]}. A name is a parameter of the protocol ("alpha"; if there are
        several protocols, "flows.alpha" or "links.target"), a field of the scenario ("network", "seed"), or an option
        of `simulate` ("perturbation", "rtol"). A sequence makes a dimension of this name. An xarray DataArray keeps its
        dimensions; DataArrays that share a dimension vary together.
    seeds : int, or sequence of int, optional
        Seeds, which make the last dimension "seed", or their number: from the seed of the scenario on. None: the seed
        of the scenario, without this dimension.
    metrics : sequence of str, optional
        Names in `ecc.metrics`, for example "utilization".
    arguments : mapping, optional
        Arguments of all metrics that accept them: `link`, `flow`, `flows`, `between` (s). `between` is by default the
        last half of each run.
    series : sequence of str, optional
        Series of trajectories to return, for example "goodput". None: all without `metrics`, and none with them.
    executor : ThreadPoolExecutor or int, >= 1, optional
        Threads, or their number. None: the number of cores available to this process.
    progress : callable, optional
        Called after members end with a `Progress`: the completed `share` of members.
    sample, start, perturbation, record, cancel, time, rtol, delays, clocking, signals, updates_per_rtt
        As in `simulate`, the same for all members unless `vary` names them.

    Returns
    -------
    Dataset
        Dataset over the varied dimensions with the metrics, the series over (*varied dimensions, time, flow or link),
        and for each member `stopped` ("completed", the reason for an early end, or the exception), `error` (the reasons
        for metrics that cannot be computed, or "") and `steps`. Metrics and samples that a member does not have are nan
        (-1 in `bottleneck`). If Ctrl-C ends the ensemble, running members keep the samples that they reached, and are
        "interrupted", as are members that did not start. Values that are neither numbers nor strings are labelled by
        their position. The attribute `kernel` is "generated" or "single runs" (see Notes), and `compile_seconds` the
        time that it took to compile or load a generated kernel [s].

    Raises
    ------
    ValueError
        If nothing varies, a name is unknown or has no values, if members differ in size, or, if all members raise (for
        example because a series does not exist), the exception of the first.
    KeyboardInterrupt
        Ctrl-C before any member had a result.

    Notes
    -----
    In discrete time, an ensemble that varies parameters of one protocol, starts and perturbations only can have a
    kernel in which the step of its network and laws is written out. If each route has one link, the kernel makes the
    steps of eight members at once. Numba compiles it once per structure, in seconds, and it is kept for later
    processes. It is used if it saves more time than it takes: from about 4,000 members of 6,000 steps on with two
    flows, and from 500 on once it is kept. Networks with more than 12 pairs of a group of equal flows and a link, array
    parameters, `delays` with several rows, and all runs in continuous time have the engine of single runs. Results have
    the same bits.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("100 Mb/s", [0.1])
    >>> scenario = ecc.Scenario(net, ecc.models.QIRCP(), 30.0)
    >>> runs = ensemble(scenario, {"alpha": [0.5, 1.0, 1.5]}, metrics=["utilization"], time="discrete")
    >>> runs.utilization.dims, runs.utilization.values.round(2)
    (('alpha',), array([0.95, 0.95, 0.95]))
    """
    import xarray as xr

    varied = Varied(scenario, _OPTIONS)
    varied.check("vary", vary or {})
    if seeds is not None and "seed" in (vary or {}):
        raise ValueError("seeds must be None if vary names the seed")
    text = scenario.to_toml()  # refuses, before any run, a scenario that cannot be stored with the result
    members = Members.of({**(vary or {}), **seeds_of(scenario, seeds)}, "vary")
    chosen: dict[str, tuple[str, Mapping[str, Any]]] = {name: (name, {}) for name in metrics}
    for name in metrics:
        get(name)  # refuses an unknown name
    names = () if series is None and metrics else series
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
    runner = MemberRunner(varied, options, members.values, Measures(chosen, arguments or {}, names or ()))
    runs, stopped = collected(len(members.values), runner.worker, runner.together, executor, progress, interrupt)
    longest_run = max((run for run in runs if run is not None), key=lambda run: run.rows)
    longest = longest_run.prepared.trajectory(longest_run.alone(), text)

    def each(values: list[Any], dtype: Any = None, **attributes: str) -> tuple[Any, ...]:
        return members.dims, np.array(values, dtype).reshape(members.shape), attributes

    variables: dict[str, Any] = {}
    for name in metrics:
        values_of_metric = [np.nan if run is None else run.metrics.get(name, np.nan) for run in runs]
        variables[name] = each(values_of_metric, float, units=get(name).kind, long_name=get(name).title)
    for name, values in _of_members(longest, runs, names).items():
        array = longest.data[name]
        variables[name] = ((*members.dims, *array.dims), values.reshape(*members.shape, *array.shape), array.attrs)
    reasons = [run.result.stopped if run is not None else why for run, why in zip(runs, stopped, strict=True)]
    variables["stopped"] = each(reasons, object)
    variables["error"] = each(["" if run is None else run.error for run in runs], object)
    variables["steps"] = each([run.result.stats["steps"] if run is not None else 0 for run in runs])
    has_series = names is None or len(names) > 0
    labels = {name: longest.data[name] for name in ("time", "flow", "link") if has_series or name != "time"}
    attributes = {name: longest.data.attrs[name] for name in ("engine", "time", "version")}
    attributes |= runner.generated.attributes() | {"scenario": text}
    return xr.Dataset(variables, coords={**labels, **members.coordinates}, attrs=attributes)


def _of_members(
    longest: Trajectory, runs: Sequence[MemberRun | None], names: Sequence[str] | None
) -> dict[str, NDArray[Any]]:
    """Return series of all members (None: all), shape (members, *shape of the longest); no sample is nan, or -1."""
    if names is not None and not len(names):
        return {}
    n_rows = len(longest.data.time)
    short = {k: 0 if run is None else run.rows for k, run in enumerate(runs) if run is None or run.rows < n_rows}
    filled: dict[str, NDArray[Any]] = {}
    for name, array in longest.data.data_vars.items():
        if names is not None and name not in names:
            continue
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
    initial_slope: ArrayLike | None = None,
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
    events, rtol, atol, max_step, first_step, y0, breaks, jit, method
        As in `solve_dde`, the same for all members.
    neutral, history_slope, initial_slope
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
            initial_slope=initial_slope,
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
