"""Measurement of the time that a call of a compiled hook takes: the cost of a packet at a router."""

from __future__ import annotations

import ctypes
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.packet_hooks import link_hooks_of
from ecc.contract.protocol import Protocol
from ecc.jit import compile_hooks
from ecc.native import LINK_ENV
from ecc.network.network import Network
from ecc.packet.prepare import prepare
from ecc.packet.twin import build_twin
from ecc.scenario import Scenario

__all__ = ["nanoseconds"]

CALLS = 2_000_000
HOOK = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 4)  # pointers as numbers
HOOKS = ("on_arrival", "on_departure", "on_interval")


def _loop(call: Any, called: bool, n: int, now: Any, before: Any, pointers: Any) -> int:
    """Restore the records and call the hook, n times."""
    failed = 0
    for _ in range(n):
        now[:] = before
        if called:
            failed += call(pointers[0], pointers[1], pointers[2], pointers[3])
    return failed


def _seen(protocol: Protocol) -> dict[str, list[NDArray[np.void]]]:
    """Return the records (state, header, params, env) of the last call of each hook of a link in a run."""
    scenario = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05, 0.08], packet_size=1500), protocol, 4.0)
    setup = prepare(scenario)
    (part,) = setup.parts
    last: dict[str, list[NDArray[np.void]]] = {}
    kinds = (part.link_states.dtype, part.header, part.link_params.dtype, LINK_ENV)

    def watch(name: str, hook: Any) -> Any:
        def watched(*records: Any) -> None:
            last[name] = [np.array([record.values()], kind) for record, kind in zip(records, kinds, strict=True)]
            hook(*records)

        return watched

    parts = [replace(part, link_hooks={name: watch(name, hook) for name, hook in part.link_hooks.items()})]
    build_twin(replace(setup, parts=parts), seed=1).advance(scenario.duration)
    return last


def nanoseconds(protocol: Protocol, repeat: int = 5, calls: int = CALLS) -> dict[str, float]:
    """Return the duration of a call of each hook of a link [ns]; 0 if the protocol does not have the hook.

    Compiled hooks are called in a loop, on the records of a packet and a router taken from a run of the twin
    (two flows on 10 Mb/s), which are restored before every call; the same loop without calls is subtracted. On a busy
    machine the result for a short hook can therefore be below 0.

    Parameters
    ----------
    protocol : Protocol
    repeat : int, optional
        Number of loops; the fastest one counts.
    calls : int, optional
        Calls per loop, for example 100_000.
    """
    import numba

    loop = numba.njit(_loop)
    records = _seen(protocol)
    state, header, params, env = (array.dtype for array in next(iter(records.values())))
    compiled = compile_hooks(link_hooks_of(protocol), state, header, params, env)
    durations = dict.fromkeys(HOOKS, 0.0)
    for name in set(HOOKS) & set(compiled):
        before = np.concatenate([array.view(np.int64) for array in records[name]])
        now = before.copy()
        sizes = [array.nbytes for array in records[name]]
        pointers = now.ctypes.data + np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        call = HOOK(compiled[name])
        spans: dict[bool, list[int]] = {True: [], False: []}
        for count in (1, *[calls] * repeat):  # the first compiles; alternate, so that noise affects both
            for called, times in spans.items():
                start = time.process_time_ns()
                assert loop(call, called, count, now, before, pointers) == 0
                times.append(time.process_time_ns() - start)
        durations[name] = (min(spans[True][1:]) - min(spans[False][1:])) / calls
    return durations
