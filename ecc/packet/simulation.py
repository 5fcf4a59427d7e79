"""The face of the packet engine: a scenario in, a trajectory out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ecc import __version__
from ecc.errors import NativeError
from ecc.models.mix import Mix
from ecc.native import FLOW_ENV, FLOW_HOOKS, LINK_ENV, LINK_HOOKS, Engine, addresses
from ecc.native.compile import compile_hooks
from ecc.packet.prepare import Setup, prepare
from ecc.quantity import Quantity, as_time
from ecc.scenario import Scenario
from ecc.trajectory import Trajectory

__all__ = ["build_engine", "simulate"]

_SIDES: dict[str, tuple[tuple[str, ...], np.dtype[np.void], dict[str, tuple[str, ...]]]] = {
    "links": (
        LINK_HOOKS,
        LINK_ENV,
        dict.fromkeys(LINK_HOOKS, ("next_interval",)) | {"on_arrival": ("drop", "next_interval")},
    ),
    "flows": (
        FLOW_HOOKS,
        FLOW_ENV,
        dict.fromkeys(FLOW_HOOKS, ("rate", "window", "timer")) | {"on_receive": (), "on_stop": ()},
    ),
}
"""Hooks of links and of flows, what they see, and the fields of it that the engine reads back."""
SLICE = 1_000_000
"""Events between looks at the clock and at Ctrl-C; slices never change the result."""


def simulate(
    scenario: Scenario,
    sample: Quantity = 0.1,
    start: str = "empty",
    perturb: float = 0.0,
    progress: Callable[[float], None] | None = None,
) -> Trajectory:
    """Return the packet-level run of a scenario.

    Parameters
        scenario : Scenario.
        sample : float, s, > 0. Period of the samples.
        start : "empty", or "equilibrium" to begin at the protocol's equilibrium, all rates times 1 + perturb.
        perturb : float. See start; control begins at `stats["held_until"]` [s], when the pipes are full.
        progress : called with the share of the horizon that is done, now and then.
    Returns
        Trajectory. A run that Ctrl-C or a failing hook ended early holds what it had; `stats["stopped"]` says why.
    Raises
        ValueError: a bad sample or start. NativeError: the engine refuses the network.
    Example
        >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
        >>> run = simulate(ecc.Scenario(net, ecc.models.QIRCP(), duration=5.0))
        >>> round(float(run.rate[-1, 0]) / 1e6, 1)
        9.5
    """
    period = as_time(sample, "sample", positive=True)
    if period > scenario.duration:
        raise ValueError(f"sample must be <= the duration ({scenario.duration:g} s), got {period:g} s")
    setup = prepare(scenario, start, perturb)
    samples = int(scenario.duration / period + 1e-9)
    engine = build_engine(setup, scenario, sample=period, n_samples=samples)
    stopped = "completed"
    try:
        while engine.advance(scenario.duration, SLICE) == "max_events":
            if progress is not None:
                progress(engine.stats.now / scenario.duration)
    except KeyboardInterrupt:
        stopped = "interrupted"
    except NativeError as error:
        stopped = str(error)
        warnings.warn(f"the run ended at {engine.stats.now:g} s: {error}", RuntimeWarning, stacklevel=2)
    return _trajectory(scenario, setup, engine, stopped)


def build_engine(setup: Setup, scenario: Scenario, **options: Any) -> Engine:
    """Return the C engine of a prepared run, hooks compiled.

    Parameters
        setup : Setup. scenario : Scenario. options : of ecc.native.Engine (sample, n_samples, trace).
    """
    keep: list[object] = [setup]
    reasons: dict[int, str] = {}
    for part in setup.parts:
        for side, numbers, states, params, hooks in part.sides():
            names, env, writable = _SIDES[side]
            for name in hooks:
                if name not in names:
                    raise ValueError(f"hooks must be among {', '.join(names)}, got {name!r}")
            if not hooks:
                continue
            compiled = compile_hooks(hooks, states.dtype, part.header, params.dtype, env, writable=writable)
            keep.append(compiled)
            reasons |= compiled.reasons
            rows = getattr(setup, side)
            rows["state"][numbers] = addresses(states)
            rows["params"][numbers] = addresses(params)
            for name, address in compiled.items():
                rows[name][numbers] = address
    return Engine(
        setup.links, setup.flows, setup.routes, n_further=setup.n_further, header_size=setup.header_size,
        seed=scenario.seed, n_sampled=scenario.network.n_flows, changes=setup.changes, impairments=setup.impairments,
        keep=keep, reasons=reasons, **options,
    )  # fmt: skip


def _trajectory(scenario: Scenario, setup: Setup, engine: Engine, stopped: str) -> Trajectory:
    seen, stats, rows = engine.samples, engine.stats, engine.flow_results
    per_second = 8.0 / (seen["time"][0] if len(seen["time"]) else 1.0)
    finish = np.where(rows["finish"] >= 0, rows["finish"] * 1e-12, np.nan)
    begin = setup.flows["start"] * 1e-12
    runs = np.empty(len(setup.transfers), dtype=object)
    for part in setup.parts:
        runs[part.flows] = type(part.protocol).__name__
    return Trajectory.build(
        seen["time"],
        {
            "rate": seen["sent"] * per_second,
            "goodput": seen["received"] * per_second,
            "bottleneck": seen["bottleneck"],
            "queue": seen["queue"],
            "queue_max": seen["queue_peak"],
            "arrival": seen["arrived"] * per_second,
            "drops": seen["dropped"],
        },
        {
            "start": begin,
            "finish": finish,
            "size": [np.nan if flow.size is None else float(flow.size) for flow in setup.transfers],
            "completion_time": np.where(rows["completed"] == 1, finish - begin, np.nan),
            "delivered": rows["delivered"],
            "lost": rows["lost"],
            "retransmitted": rows["retransmitted"],
            **({"protocol": runs} if isinstance(scenario.protocol, Mix) else {}),
        },
        {
            "stopped": stopped,
            "events": stats.events,
            "data_packets": stats.data_packets,
            "cpu_seconds": stats.cpu_seconds,
            "peak_bytes": stats.peak_bytes,
            "digest": stats.digest,
            "held_until": setup.held_until,
        },
        {
            "engine": "packet",
            "protocol": str(Mix.of(scenario.protocol)),
            "scenario": scenario.to_toml(),
            "seed": scenario.seed,
            "version": __version__,
        },
    )
