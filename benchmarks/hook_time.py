"""What a packet costs a router: `python benchmarks/hook_time.py [PROTOCOL ...] [--repeat N]`.

The compiled hooks of a link are called in a loop, on the records of a packet and a router that are under way (from a
run of the twin: two flows on 10 Mb/s), and restored before every call; the same loop without calls is taken off. The
best of N loops counts. `load` is the share of one core that the hooks take at 1 Gb/s with packets of 1500 bytes, ticks
included: what EVAL sec. 4.4 measured, where most of the 30 % were interrupts.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np

import ecc
from ecc.models import Protocol, all_protocols
from ecc.native import LINK_ENV
from ecc.native.compile import compile_hooks
from ecc.packet.prepare import prepare
from ecc.packet.twin import build_twin

CALLS = 2_000_000
PACKETS_PER_SECOND = 1e9 / (8 * 1500)
HOOK = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 4)  # pointers as numbers
HOOKS = ("on_arrival", "on_departure", "on_interval")


@numba.njit
def loop(call: Any, calls: bool, n: int, now: Any, before: Any, places: Any) -> int:
    """Restore the records, and call."""
    failed = 0
    for _ in range(n):
        now[:] = before
        if calls:
            failed += call(places[0], places[1], places[2], places[3])
    return failed


def seen(protocol: Protocol) -> dict[str, list[np.ndarray]]:
    """Return the records (state, header, params, env) that each hook of a link saw last in a run.

    Parameters
        protocol : Protocol.
    """
    scenario = ecc.Scenario(ecc.Network.dumbbell("10 Mb/s", rtts=[0.05, 0.08], packet_size=1500), protocol, 4.0)
    setup = prepare(scenario)
    (part,) = setup.parts
    last: dict[str, list[np.ndarray]] = {}
    kinds = (part.link_states.dtype, part.header, part.link_params.dtype, LINK_ENV)

    def watch(name: str, hook: Any) -> Any:
        def watched(*records: Any) -> None:
            last[name] = [np.array([record.values()], kind) for record, kind in zip(records, kinds, strict=True)]
            hook(*records)

        return watched

    hooks = {name: watch(name, hook) for name, hook in protocol.link_hooks().items()}
    watching: Any = SimpleNamespace(link_hooks=lambda: hooks, flow_hooks=protocol.flow_hooks)
    parts = [replace(part, protocol=watching)]
    build_twin(replace(setup, parts=parts), seed=1).advance(scenario.duration)
    return last


def nanoseconds(protocol: Protocol, repeat: int) -> dict[str, float]:
    """Return what a call of each hook of a link takes [ns]; 0 for those that a protocol has not.

    Parameters
        protocol : Protocol. repeat : int, loops of which the best counts.
    """
    records = seen(protocol)
    layouts = [array.dtype for array in next(iter(records.values()))]
    compiled = compile_hooks(protocol.link_hooks(), *layouts)
    taken = dict.fromkeys(HOOKS, 0.0)
    for name in set(HOOKS) & set(compiled):
        before = np.concatenate([array.view(np.int64) for array in records[name]])
        now = before.copy()
        sizes = [array.nbytes for array in records[name]]
        places = now.ctypes.data + np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        call = HOOK(compiled[name])
        best = []
        for calls in (True, False):
            loop(call, calls, 1, now, before, places)
            spans = []
            for _ in range(repeat):
                start = time.process_time_ns()
                assert loop(call, calls, CALLS, now, before, places) == 0
                spans.append(time.process_time_ns() - start)
            best.append(min(spans))
        taken[name] = (best[0] - best[1]) / CALLS
    return taken


def main() -> None:
    """Print one row a protocol."""
    known = {name: cls for name, cls in all_protocols().items() if cls.rests}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("protocols", nargs="*", metavar="PROTOCOL", help=f"{', '.join(known)}; all by default")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    if unknown := set(arguments.protocols) - set(known):
        parser.error(f"PROTOCOL must be one of {', '.join(known)}, got {', '.join(sorted(unknown))}")
    reference = sum(list(nanoseconds(known["RCP"](), arguments.repeat).values())[:2])
    print("protocol  ns/arrival  ns/departure  ns/packet  of RCP's  ns/tick  load at 1 Gb/s")
    for name in arguments.protocols or known:
        protocol = known[name]()
        arrival, departure, tick = nanoseconds(protocol, arguments.repeat).values()
        packet = arrival + departure
        load = 1e-9 * (packet * PACKETS_PER_SECOND + tick / protocol.params()["interval"])
        print(
            f"{name:8}  {arrival:10.2f}  {departure:12.2f}  {packet:9.2f}  {packet / reference:8.2f}  {tick:7.1f}  "
            f"{100 * load:.4f} %"
        )


if __name__ == "__main__":
    main()
