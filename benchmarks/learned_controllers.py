"""Aurora and Orca against CUBIC and BBR: on the paths of their training, over ten times that range, and in company.

    python benchmarks/learned_controllers.py [--short | --write] [--store FILE]

prints the tables of docs/learned_controllers.md. `--write` also writes all results to docs/learned_controllers.json,
the tables to the page, and its figures. `--store` keeps the runs over drawn paths, so that a second call continues
after the first. `--short` makes a small part of each table, in some seconds.

All results are from packet runs, except for the stability limits: these are from the linear model of `policy_loop`.
Each learned controller runs on the paths of its own training, with CUBIC and BBR on the same paths with the same seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ecc
from ecc import metrics
from ecc.errors import LinearizationError
from ecc.impairments import CapacitySchedule, RandomLoss
from ecc.laws.dense_network import DenseNetwork
from ecc.models import BBR, CUBIC, Aurora, Orca
from ecc.models.shared.actors import orca_actor
from ecc.rl import aurora, orca
from ecc.stability import PolicyPath, paced_policy, policy_loop, policy_run

PAGE = Path(__file__).parents[1] / "docs" / "learned_controllers.md"
RESULTS = PAGE.with_suffix(".json")
PACKET = 1500
ROUND_TRIPS, MIN_DURATION = 200, 20.0
"""Duration of a run on a drawn path [RTTs], [s]; the second half is measured. Aurora was trained for 200 RTTs."""
WINDOW_LIMIT = 8.0
"""Receiver window of Orca, in units of the content of path and buffer: its slow start has no other limit."""
MEMORY = "1500 MB"
LEARNED = ("Aurora", "Orca")
OTHERS = ("CUBIC", "BBR")
LOSSES = (0.0, 0.001, 0.01, 0.02, 0.05, 0.07, 0.1, 0.2, 0.5)

CELLS: dict[str, dict[str, tuple[Any, tuple[float, float]]]] = {
    "Aurora": {
        "training: 100 to 500 packets/s, delay 50 to 500 ms": (aurora.Paths(), (0.0, 0.0)),
        "10 to 100 packets/s": (aurora.Paths(capacity=(10.0, 100.0)), (0.0, 0.0)),
        "500 to 5,000 packets/s": (aurora.Paths(capacity=(500.0, 5000.0)), (0.0, 0.0)),
        "delay 5 to 50 ms": (aurora.Paths(delay=(0.005, 0.05)), (0.0, 0.0)),
        "delay 0.5 to 5 s": (aurora.Paths(delay=(0.5, 5.0)), (0.0, 0.0)),
        "buffer 2,981 to 29,810 packets": (aurora.Paths(queue=(8.0, 8.0 + math.log(10.0))), (0.0, 0.0)),
        "random loss 5 to 50 %": (aurora.Paths(loss=(0.05, 0.5)), (0.0, 0.0)),
    },
    "Orca": {
        "base: 5 to 100 Mb/s, RTT 10 to 200 ms": (orca.Paths(), (0.0, 0.0)),
        "0.5 to 5 Mb/s": (orca.Paths(capacity=(0.5e6, 5e6)), (0.0, 0.0)),
        "100 to 1,000 Mb/s": (orca.Paths(capacity=(100e6, 1e9)), (0.0, 0.0)),
        "RTT 1 to 10 ms": (orca.Paths(rtt=(0.001, 0.01)), (0.0, 0.0)),
        "RTT 0.2 to 2 s": (orca.Paths(rtt=(0.2, 2.0)), (0.0, 0.0)),
        "buffer 0.05 to 0.5 BDP": (orca.Paths(buffer=(0.05, 0.5)), (0.0, 0.0)),
        "buffer 4 to 40 BDP": (orca.Paths(buffer=(4.0, 40.0)), (0.0, 0.0)),
        "random loss 0.1 to 1 %": (orca.Paths(), (0.001, 0.01)),
        "random loss 1 to 10 %": (orca.Paths(), (0.01, 0.1)),
    },
}
"""Distributions of paths, and a range of random losses to add, for each learned controller."""


class Middle(NamedTuple):
    """A path within the range of a training."""

    capacity: float  # bit/s, of each flow
    rtt: float  # s
    buffer: float  # bandwidth-delay products
    duration: float  # s, of the runs of several flows


MIDDLES = {"Aurora": Middle(3.6e6, 0.2, 1.0, 200.0), "Orca": Middle(24e6, 0.02, 2.0, 60.0)}


def host(name: str, limit: float, network: DenseNetwork | None = None) -> Any:
    """Return a protocol; `limit` is the content of path and buffer [bytes]."""
    if name == "Orca":
        return Orca(network=network, receiver_window=int(WINDOW_LIMIT * limit) + 10 * PACKET)
    return {"Aurora": Aurora(), "CUBIC": CUBIC(), "BBR": BBR()}[name]


def dumbbell(capacity: float, rtts: Sequence[float], products: float, starts: Sequence[float] | None = None) -> Any:
    """Return a network with one link, and a buffer in products of its capacity and the smallest RTT."""
    size = max(PACKET, int(products * capacity * min(rtts) / 8.0))
    return ecc.Network.dumbbell(capacity, list(rtts), packet_size=PACKET, buffer=size, starts=starts)


def content(network: Any) -> float:
    """Return the bytes in the paths and the buffer of a dumbbell."""
    return float(network.capacities[0] * max(network.rtts) / 8.0 + network.links[0].buffer)


def simulate(scenario: Any, sample: float, **options: Any) -> Any:
    """Return a packet run that must complete."""
    run = ecc.packet.simulate(scenario, sample=sample, memory_limit=MEMORY, **options)
    if run.stats["stopped"] != "completed":
        raise ecc.EccError(f"a run must complete, got {run.stats['stopped']}")
    return run


# ---- paths of the training, and ten times their range ----------------------------------------------------------------


def drawn(family: str, cell: str, path: int) -> Any:
    """Return the scenario of a drawn path, without the protocol to measure."""
    paths, losses = CELLS[family][cell]
    rng = np.random.default_rng(path)
    scenario = paths(rng)
    changes: dict[str, Any] = {"duration": max(ROUND_TRIPS * float(scenario.network.rtts[0]), MIN_DURATION)}
    if losses[1] > 0.0:
        changes["impairments"] = [RandomLoss(rng.uniform(*losses), link=0)]
    return scenario.with_(**changes)


def measured(scenario: Any) -> dict[str, float]:
    """Return the metrics of one flow on one drawn path, over the second half of the run."""
    capacity, rtt = float(scenario.network.capacities[0]), float(scenario.network.rtts[0])
    run = simulate(scenario, scenario.duration / 1000.0)
    between = (0.5 * scenario.duration, scenario.duration)
    delay = metrics.p95_round_trip(run, scenario, between=between) - rtt - 8.0 * PACKET / capacity
    return {
        "utilization": metrics.utilization(run, scenario, between=between),
        "delay": max(0.0, delay) / rtt,
        "loss": metrics.loss(run, scenario, between=between),
    }


def path_metrics(family: str, cell: str, protocol: str, path: int) -> dict[str, float]:
    """Return the metrics of a protocol on one drawn path."""
    scenario = drawn(family, cell, path)
    return measured(scenario.with_(protocol=host(protocol, content(scenario.network))))


def over_paths(n_paths: int, cells: Mapping[str, Sequence[str]], store: str | None) -> list[dict[str, Any]]:
    """Return the metrics of all paths: one object per family, cell and protocol, with lists over paths."""
    rows = []
    for family in LEARNED:
        names = (family, *OTHERS)
        grid = {"family": [family], "cell": list(cells[family]), "protocol": names, "path": range(n_paths)}
        steps = Progress(f"drawn paths of {family}")
        found = ecc.sweep(path_metrics, grid, store=store, progress=lambda state, say=steps: say(state.share))
        for cell in cells[family]:
            for name in names:
                chosen = found.sel(family=family, cell=cell, protocol=name)
                values = {metric: rounded(chosen[metric].values) for metric in ("utilization", "delay", "loss")}
                rows.append({"family": family, "cell": cell, "protocol": name} | values)
    return rows


def over_losses(losses: Sequence[float]) -> list[dict[str, Any]]:
    """Return the utilization on the middle paths over the probability of random losses."""
    rows = []
    for family in LEARNED:
        middle = MIDDLES[family]
        network = dumbbell(middle.capacity, [middle.rtt], middle.buffer)
        duration = max(ROUND_TRIPS * middle.rtt, MIN_DURATION)
        for name in (family, *OTHERS):
            values = []
            for loss in losses:
                impairments = [RandomLoss(loss, link=0)] if loss > 0.0 else []
                scenario = ecc.Scenario(network, host(name, content(network)), duration, impairments=impairments)
                run = simulate(scenario, middle.rtt)
                values.append(metrics.utilization(run, scenario, between=(0.5 * duration, duration)))
            rows.append({"family": family, "protocol": name, "losses": list(losses), "utilization": rounded(values)})
        say(f"random losses, {family}: done")
    return rows


# ---- several flows ---------------------------------------------------------------------------------------------------


def together(family: str, hosts: Sequence[str], rtts: Sequence[float], products: float, seed: int) -> dict[str, float]:
    """Return Jain's index, the share of the first flow and the utilization of flows that start one by one."""
    middle, n = MIDDLES[family], len(hosts)
    starts = [(30 * k + 0.37 * seed) * middle.rtt for k in range(n)]
    network = dumbbell(n * middle.capacity, rtts, products, starts)
    flows = {k: host(name, content(network)) for k, name in enumerate(hosts)}
    scenario = ecc.Scenario(network, {"flows": flows}, middle.duration, seed=seed)
    run = simulate(scenario, middle.rtt)
    between = (0.5 * middle.duration, middle.duration)
    first = metrics.goodput(run, scenario, 0, between=between)
    return {
        "jain": metrics.fairness(run, scenario, between=between),
        "share": first / metrics.total_goodput(run, scenario, between=between),
        "utilization": metrics.utilization(run, scenario, between=between),
    }


def companies(family: str) -> dict[str, tuple[Callable[[str], list[str]], list[float], float]]:
    """Return the cases of several flows: the hosts for a protocol, their RTTs, and the buffer."""
    middle = MIDDLES[family]
    cases: dict[str, tuple[Callable[[str], list[str]], list[float], float]] = {}
    for n in (2, 5, 10):
        cases[f"{n} flows"] = (lambda name, n=n: [name] * n, [middle.rtt] * n, middle.buffer)
    cases["2 flows, RTTs 1 : 4"] = (lambda name: [name] * 2, [middle.rtt, 4.0 * middle.rtt], middle.buffer)
    for products in (0.25, 0.5, 1.0, 4.0):
        case = f"next to CUBIC, buffer {products:g} BDP"
        cases[case] = (lambda name: [name, "CUBIC"], [middle.rtt] * 2, products)
    return cases


def fairness(seeds: int, n_cases: int) -> list[dict[str, Any]]:
    """Return the results of several flows: one object per family, case and protocol, with lists over seeds."""
    rows = []
    for family in LEARNED:
        for case, (hosts, rtts, products) in [*companies(family).items()][:n_cases]:
            for name in (family, *OTHERS):
                found = [together(family, hosts(name), rtts, products, seed) for seed in range(seeds)]
                values = {key: rounded([result[key] for result in found]) for key in found[0]}
                rows.append({"family": family, "case": case, "protocol": name} | values)
            say(f"several flows, {family}, {case}: done")
    return rows


# ---- responsiveness --------------------------------------------------------------------------------------------------


def response(family: str, protocol: str, seed: int) -> dict[str, float | None]:
    """Return times after the start and after steps of the capacity [RTTs], None if the run is too short for them."""
    middle = MIDDLES[family]
    rtt, capacity, round_trips = middle.rtt, middle.capacity, 500
    up, down, end = ((round_trips * k + 0.37 * seed) * rtt for k in (1, 2, 3))
    network = dumbbell(capacity, [rtt], 2.0 * middle.buffer)
    steps = CapacitySchedule(0, [up, down], [2.0 * capacity, capacity])
    scenario = ecc.Scenario(network, host(protocol, 2.0 * content(network)), end, impairments=[steps], seed=seed)
    run = simulate(scenario, 0.5 * rtt)
    times = run.goodput["time"].to_numpy()
    rates, waits = run.goodput.to_numpy()[:, 0], run.queue_max.to_numpy()[:, 0] * 8.0 / capacity

    def first(is_reached: Any, after: float, before: float) -> float | None:
        reached = times[is_reached & (times > after) & (times <= before)]
        return float((reached[0] - after) / rtt) if len(reached) else None

    low = run.queue.to_numpy()[:, 0] * 8.0 / capacity <= 0.1 * rtt
    peak = float(waits[times > down].max() / rtt)
    filled = times[(times > down) & (waits >= waits[times > down].max())][0]
    drained = first(low & (times > filled), down, end)
    late = {key: times[(times > at - 100.0 * rtt) & (times <= at)] for key, at in (("before", up), ("after", end))}
    queues = {key: metrics.link_delay(run, scenario, between=(span[0], span[-1])) / rtt for key, span in late.items()}
    return {
        "start": first(rates >= 0.9 * capacity, 0.0, up),
        "up": first((rates >= 1.8 * capacity) & (times > up + rtt), up, down),
        "drain": drained,
        "peak": peak,
    } | queues


def responses(seeds: int) -> list[dict[str, Any]]:
    """Return the times of responses: one object per family and protocol, with lists over seeds."""
    rows = []
    for family in LEARNED:
        for name in (family, *OTHERS):
            found = [response(family, name, seed) for seed in range(seeds)]
            values = {key: [limited(result[key]) for result in found] for key in found[0]}
            rows.append({"family": family, "protocol": name} | values)
        say(f"responses, {family}: done")
    return rows


# ---- stability -------------------------------------------------------------------------------------------------------


@cache
def is_stable(rtt: float) -> bool | None:
    """Return the certified verdict on Orca's policy without CUBIC; None without a fixed point."""
    try:
        return policy_loop(orca_actor(), PolicyPath(rtt)).is_stable
    except LinearizationError:
        return None


def swing(rtt: float) -> dict[str, Any]:
    """Return the swing of the rate, peak to peak [share of the capacity], in the model and in packets at an RTT.

    The model starts 0.1 % above its fixed point ("near") and with a full path ("model"), as the packets do.
    """
    capacity = 200e6
    network = ecc.Network.dumbbell(capacity, [rtt], buffer=None, packet_size=1000)
    scenario = ecc.Scenario(network, paced_policy(orca_actor(), capacity), 16.0)
    rates = simulate(scenario, 0.02).rate.to_numpy()[-150:, 0] / capacity
    loop = policy_loop(orca_actor(), PolicyPath(rtt))
    starts = {"near": 1.001 * loop.ratio, "model": 1.0}
    ends = {key: policy_run(orca_actor(), loop.path, [start], 800)[-150:] for key, start in starts.items()}
    swings = {key: limited(np.ptp(end)) for key, end in ends.items()}
    return {"rtt": rtt, "stable": loop.is_stable} | swings | {"packets": limited(np.ptp(rates))}


def boundaries(step: float, last: float) -> list[dict[str, Any]]:
    """Return the pairs of RTTs, 1 us apart, between which the certified verdict changes, and the verdicts."""
    rtts = [round(0.01 + step * k, 6) for k in range(round((last - 0.01) / step) + 1)]
    pairs = []
    for low, high in zip(rtts[:-1], rtts[1:], strict=True):
        if is_stable(low) == is_stable(high):
            continue
        below = is_stable(low)
        while high - low > 1e-6:
            middle = round(0.5 * (low + high), 9)
            low, high = (middle, high) if is_stable(middle) == below else (low, middle)
        pairs.append({"rtts": [round(low, 6), round(high, 6)], "verdicts": [below, is_stable(high)]})
    return pairs


def stability(is_short: bool) -> dict[str, Any]:
    """Return the boundaries of Orca's policy, runs on both sides of them, and the variation of Aurora's rate."""
    changes = boundaries(0.005, 0.08) if is_short else boundaries(0.0005, 0.11)
    rtts = (0.06, 0.08) if is_short else (0.03, 0.05, 0.07, 0.078, 0.08, 0.083, 0.09, 0.1)
    swings = [swing(rtt) for rtt in rtts]
    say("stability of Orca's policy: done")
    rows = []
    for rtt in (0.2,) if is_short else (0.02, 0.2, 1.0, 5.0):
        scenario = ecc.Scenario(dumbbell(3.6e6, [rtt], 1.0), Aurora(), 200.0 * rtt)
        between = (100.0 * rtt, 200.0 * rtt)
        row: dict[str, Any] = {"rtt": rtt}
        for engine, run in (("packets", simulate(scenario, rtt)), ("fluid", ecc.fluid.simulate(scenario, sample=rtt))):
            queue = metrics.mean_queue(run, scenario, between=between) * 8.0 / 3.6e6 / rtt
            variation = metrics.rate_variation(run, scenario, 0, between=between)
            row[engine] = {"variation": limited(variation), "queue": limited(queue)}
        rows.append(row)
    say("variation of Aurora's rate: done")
    return {"boundaries": changes, "orca": swings, "aurora": rows}


# ---- causes ----------------------------------------------------------------------------------------------------------


def kept_ratio(rates: Sequence[float]) -> dict[str, Any]:
    """Return the share of the first of two flows of Aurora that start together, 10 and 190 s after the start."""
    middle = MIDDLES["Aurora"]
    network = dumbbell(2.0 * middle.capacity, [middle.rtt] * 2, middle.buffer)
    hosts = {"flows": {k: Aurora(initial_rate=rate) for k, rate in enumerate(rates)}}
    scenario = ecc.Scenario(network, hosts, 200.0)
    run = simulate(scenario, middle.rtt)
    shares = []
    for begin in (10.0, 180.0):
        first, second = (metrics.goodput(run, scenario, k, between=(begin, begin + 10.0)) for k in (0, 1))
        shares.append(first / (first + second))
    return {"rates": list(rates), "initial": limited(rates[0] / sum(rates)), "shares": rounded(shares)}


def scaled_actor(factor: float) -> DenseNetwork:
    """Return Orca's network with a last layer multiplied by a factor, which reduces its actions."""
    *hidden, last = orca_actor().layers
    return DenseNetwork([*hidden, replace(last, weight=last.weight * factor, bias=last.bias * factor)])


def small_buffer(products: float, factor: float) -> dict[str, Any]:
    """Return utilization, losses and actions of Orca in a small buffer; factor 0 is CUBIC."""
    rtt, capacity, duration = 0.02, 48e6, 40.0
    network = dumbbell(capacity, [rtt], products)
    name, actor = ("Orca", scaled_actor(factor)) if factor > 0.0 else ("CUBIC", None)
    scenario = ecc.Scenario(network, host(name, content(network), actor), duration)
    run = simulate(scenario, rtt, record=["flow.action"] if actor else [])
    between = (0.5 * duration, duration)
    return {
        "buffer": products,
        "factor": factor,
        "utilization": limited(metrics.utilization(run, scenario, between=between)),
        "loss": limited(metrics.loss(run, scenario, between=between)),
        "actions": limited(run.data["flow.action"].to_numpy()[1000:].std()) if actor else 0.0,
    }


def start_loss(rtt: float, interval: float) -> dict[str, Any]:
    """Return the losses of Orca in its first 20 RTTs, for an interval between actions."""
    network = dumbbell(48e6, [rtt], 2.0)
    protocol = replace(host("Orca", content(network)), interval=interval)
    scenario = ecc.Scenario(network, protocol, 20.0 * rtt)
    run = simulate(scenario, rtt)
    return {"rtt": rtt, "interval": interval, "loss": limited(metrics.loss(run, scenario, between=(0.0, 20.0 * rtt)))}


def own_thresholds(n: int, gap: float) -> dict[str, Any]:
    """Return Jain's index, slow-start thresholds and actions of n flows of Orca that start some RTTs apart."""
    middle = MIDDLES["Orca"]
    capacity = n * middle.capacity
    network = dumbbell(capacity, [middle.rtt] * n, middle.buffer, [gap * k * middle.rtt for k in range(n)])
    scenario = ecc.Scenario(network, host("Orca", content(network)), middle.duration)
    run = simulate(scenario, middle.rtt, record=["flow.ssthresh", "flow.action"])
    between = (0.5 * middle.duration, middle.duration)
    rates = np.array([metrics.goodput(run, scenario, k, between=between) for k in range(n)])
    late = slice(len(run.goodput) // 2, None)
    thresholds, actions = (run.data[name].to_numpy()[late].mean(axis=0) for name in ("flow.ssthresh", "flow.action"))
    shares = thresholds * 8.0 / (capacity * middle.rtt)
    return {
        "n": n,
        "gap": gap,
        "jain": limited(metrics.fairness(run, scenario, between=between)),
        "thresholds": rounded((min(shares), max(shares))),
        "correlation": limited(np.corrcoef(rates, thresholds)[0, 1]),
        "actions": rounded((min(actions), max(actions))),
    }


def late_bbr(rtt: float) -> dict[str, Any]:
    """Return Jain's index of two flows of BBR on Aurora's middle path with another RTT."""
    middle = MIDDLES["Aurora"]
    network = dumbbell(2.0 * middle.capacity, [rtt] * 2, middle.buffer, [0.0, 30.0 * rtt])
    scenario = ecc.Scenario(network, BBR(), 1000.0 * rtt)
    run = simulate(scenario, rtt)
    return {"rtt": rtt, "jain": limited(metrics.fairness(run, scenario, between=(500.0 * rtt, 1000.0 * rtt)))}


def deep_buffer(path: int) -> dict[str, Any]:
    """Return the losses of Orca in a deep buffer, in the second half of a run, and of one four times as long."""
    scenario = drawn("Orca", "buffer 4 to 40 BDP", path)
    network = scenario.network
    scenario = scenario.with_(protocol=host("Orca", content(network)))
    runs = [measured(scenario.with_(duration=factor * scenario.duration)) for factor in (1.0, 4.0)]
    products = network.links[0].buffer * 8.0 / float(network.capacities[0] * network.rtts[0])
    return {
        "rtt": limited(network.rtts[0]),
        "buffer": limited(products),
        "loss": [limited(run["loss"]) for run in runs],
    }


def long_bbr(path: int) -> dict[str, Any]:
    """Return loss and utilization of BBR at a long RTT, and with the times of its probes in proportion to the RTT."""
    scenario = drawn("Aurora", "delay 0.5 to 5 s", path)
    rtt = float(scenario.network.rtts[0])
    scaled = BBR(probe_rtt_interval=100.0 * rtt, min_rtt_window=200.0 * rtt)
    runs = [measured(scenario.with_(protocol=protocol)) for protocol in (BBR(), scaled)]
    return {"rtt": limited(rtt)} | {key: rounded([run[key] for run in runs]) for key in ("loss", "utilization")}


def causes(is_short: bool) -> dict[str, Any]:
    """Return runs that change one condition of a surprising result."""
    rates = ((3e6, 3e6), (4e6, 2e6), (5e6, 1e6), (2e6, 4e6))
    buffers, factors = ((0.05,), (1.0, 0.5)) if is_short else ((0.05, 0.2, 0.5), (1.0, 0.5, 0.0))
    found = {
        "ratios": [kept_ratio(pair) for pair in rates[: 2 if is_short else 4]],
        "buffers": [small_buffer(products, factor) for products in buffers for factor in factors],
        "starts": [] if is_short else [start_loss(rtt, step) for rtt in (0.2, 1.0) for step in (0.02, rtt)],
        "thresholds": [] if is_short else [own_thresholds(n, gap) for n in (2, 5, 10) for gap in (0.0, 30.0)],
        "bbr": [] if is_short else [late_bbr(rtt) for rtt in (0.04, 0.2)],
        "deep": [] if is_short else [deep_buffer(path) for path in (4, 5, 7)],
        "long": [] if is_short else [long_bbr(path) for path in (2, 4, 5)],
    }
    say("causes: done")
    return found


# ---- tables and figures ----------------------------------------------------------------------------------------------


class Progress:
    """Prints a line for each tenth of the work."""

    def __init__(self, name: str) -> None:
        self.name, self.printed = name, 0

    def __call__(self, share: float) -> None:
        if math.isfinite(share) and int(10.0 * share) > self.printed:
            self.printed = int(10.0 * share)
            say(f"{self.name}: {10 * self.printed} %")


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)


def limited(value: Any) -> float | None:
    """Return a number with four significant digits."""
    return None if value is None else float(f"{value:.4g}")


def rounded(values: Any) -> list[Any]:
    """Return numbers with four significant digits."""
    return [limited(value) for value in values]


def spread(values: Sequence[float], scale: float = 1.0, digits: int = 2) -> str:
    """Return the median, and the quartiles in parentheses."""
    low, middle, high = (scale * value for value in np.percentile(values, [25, 50, 75]))
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def extent(values: Sequence[float | None], digits: int = 0) -> str:
    """Return the median and, if they differ from it, minimum and maximum; "never" without all values."""
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values):
        return "never" if not numbers else f"never in {len(values) - len(numbers)} of {len(values)}"
    low, middle, high = (f"{value:.{digits}f}" for value in (min(numbers), np.median(numbers), max(numbers)))
    return middle if low == high else f"{middle} ({low} to {high})"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines).replace("| --- ", "|---")


def grouped(rows: Sequence[Mapping[str, Any]], family: str, key: str) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the rows of a family by a key, then by protocol."""
    groups: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["family"] == family:
            groups.setdefault(row[key], {})[row["protocol"]] = row
    return groups


def path_tables(results: Mapping[str, Any], family: str) -> dict[str, str]:
    """Return the tables of one family over drawn paths."""
    names = (family, *OTHERS)
    kinds = {"utilization": (1.0, 2), "delay": (1.0, 2), "loss": (100.0, 1)}
    cells = grouped(results["paths"], family, "cell")
    return {
        f"{family} {metric}": table(
            ["paths", *names],
            [[cell, *(spread(found[name][metric], *kinds[metric]) for name in names)] for cell, found in cells.items()],
        )
        for metric in kinds
    }


def company_table(results: Mapping[str, Any], family: str) -> str:
    """Return the table of several flows: Jain's index, or the share of the first flow next to CUBIC."""
    names = (family, *OTHERS)
    lines = []
    for case, found in grouped(results["fairness"], family, "case").items():
        key = "share" if case.startswith("next to") else "jain"
        label = "share" if key == "share" else "Jain's index"
        lines.append([case, label, *(extent(found[name][key], 2) for name in names)])
    return table(["flows", "quantity", *names], lines)


def response_table(results: Mapping[str, Any]) -> str:
    """Return the table of responses."""
    lines = []
    for row in results["responses"]:
        cells = [extent(row[key]) for key in ("start", "up", "drain")] + [extent(row["peak"], 1)]
        lines.append([row["family"], row["protocol"], *cells, *(extent(row[key], 2) for key in ("before", "after"))])
    times = ["90 % after the start", "90 % after the step up", "drained"]
    header = ["path of", "protocol", *times, "peak queue", "queue before", "queue after"]
    return table(header, lines)


def tables(results: Mapping[str, Any]) -> dict[str, str]:
    """Return all tables of the page by name."""
    found: dict[str, str] = {}
    for family in LEARNED:
        found |= path_tables(results, family)
        rows = [row for row in results["losses"] if row["family"] == family]
        header = ["random loss", *(f"{100.0 * loss:g} %" for loss in rows[0]["losses"])]
        lines = [[row["protocol"], *(f"{value:.2f}" for value in row["utilization"])] for row in rows]
        found[f"{family} random loss"] = table(header, lines)
        found[f"{family} flows"] = company_table(results, family)
    found["responses"] = response_table(results)
    linear = results["stability"]
    lines = []
    for row in linear["orca"]:
        cells = [f"{row[key]:.4f}" for key in ("near", "model", "packets")]
        lines.append([f"{1e3 * row['rtt']:g}", "stable" if row["stable"] else "unstable", *cells])
    header = ["RTT [ms]", "certified verdict", "model, from its fixed point", "model, from a full path", "packets"]
    found["stability"] = table(header, lines)
    words = {True: "stable", False: "unstable", None: "no fixed point"}
    lines = []
    for row in linear["boundaries"]:
        low, high = (f"{1e3 * rtt:.3f}" for rtt in row["rtts"])
        lines.append([f"{low} to {high}", *(words[verdict] for verdict in row["verdicts"])])
    found["boundaries"] = table(["RTT [ms]", "below", "above"], lines)
    lines = [
        [row["rtt"], *(f"{row[engine][key]:.3f}" for key in ("variation", "queue") for engine in ("packets", "fluid"))]
        for row in linear["aurora"]
    ]
    header = [
        "RTT [s]",
        *(f"{what}, {engine}" for what in ("variation", "queue/RTT") for engine in ("packets", "fluid")),
    ]
    found["Aurora's cycle"] = table(header, lines)
    return found | cause_tables(results["causes"])


def cause_tables(found: Mapping[str, Any]) -> dict[str, str]:
    """Return the tables of causes."""
    ratios = [
        [" : ".join(f"{rate / 1e6:g}" for rate in row["rates"]), f"{row['initial']:.2f}"]
        + [f"{share:.2f}" for share in row["shares"]]
        for row in found["ratios"]
    ]
    buffers = [
        [row["buffer"], {0.0: "CUBIC alone", 1.0: "Orca"}.get(row["factor"], "Orca, last layer halved")]
        + [f"{row['utilization']:.2f}", f"{100.0 * row['loss']:.1f}", f"{row['actions']:.2f}" if row["factor"] else ""]
        for row in found["buffers"]
    ]
    starts = [[f"{row['rtt']:g}", f"{row['interval']:g}", f"{100.0 * row['loss']:.1f}"] for row in found["starts"]]
    thresholds = []
    for row in found["thresholds"]:
        low, high = (f"{value:.3f}" for value in row["thresholds"])
        correlation = f"{row['correlation']:.2f}" if row["n"] > 2 else ""
        mean = " to ".join(f"{value:.2f}" for value in row["actions"])
        thresholds.append([row["n"], f"{row['gap']:g}", f"{row['jain']:.2f}", f"{low} to {high}", correlation, mean])
    bbr = [[f"{row['rtt']:g}", f"{row['jain']:.2f}"] for row in found["bbr"]]
    deep = [
        [f"{1e3 * row['rtt']:.0f}", f"{row['buffer']:.0f}", *(f"{100.0 * loss:.1f}" for loss in row["loss"])]
        for row in found["deep"]
    ]
    long = []
    for row in found["long"]:
        cells = [f"{100.0 * loss:.1f}" for loss in row["loss"]] + [f"{used:.2f}" for used in row["utilization"]]
        long.append([f"{row['rtt']:.1f}", *cells])
    return {
        "kept ratios": table(["initial rates [Mb/s]", "initial share", "after 10 s", "after 180 s"], ratios),
        "small buffers": table(["buffer [BDP]", "host", "utilization", "loss [%]", "deviation of actions"], buffers),
        "starts of Orca": table(["RTT [s]", "interval [s]", "loss [%]"], starts),
        "flows of Orca": table(
            ["flows", "RTTs between starts", "Jain's index", "threshold/BDP", "correlation", "mean action"], thresholds
        ),
        "two flows of BBR": table(["RTT [s]", "Jain's index"], bbr),
        "deep buffers": table(["RTT [ms]", "buffer [BDP]", "loss [%], 200 RTTs", "loss [%], 800 RTTs"], deep),
        "long RTTs": table(["RTT [s]", "loss [%]", "loss [%], scaled", "utilization", "utilization, scaled"], long),
    }


COLORS = {"Aurora": "#d55e00", "Orca": "#d55e00", "CUBIC": "#0072b2", "BBR": "#009e73"}
SYMBOLS = {"Aurora": "diamond", "Orca": "diamond", "CUBIC": "circle", "BBR": "square"}


def draw(results: Mapping[str, Any], folder: Path) -> None:
    """Draw utilization and delay over the ranges of paths, and utilization over random losses."""
    from plotly.subplots import make_subplots

    layout = {"template": "simple_white", "margin": {"l": 70, "r": 20, "t": 50, "b": 60}}
    titles = ("Aurora's paths: utilization", "queueing delay", "Orca's paths: utilization", "queueing delay")
    figure = make_subplots(
        2, 2, shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.03, vertical_spacing=0.17
    )
    for k, family in enumerate(LEARNED, start=1):
        cells = grouped(results["paths"], family, "cell")
        for j, (metric, floor) in enumerate((("utilization", 0.0), ("delay", 0.01)), start=1):
            for at, name in enumerate((family, *OTHERS)):
                values = [np.percentile(found[name][metric], [25, 50, 75]) for found in cells.values()]
                low, middle, high = np.maximum(np.transpose(values), floor)
                error = {"array": high - middle, "arrayminus": middle - low, "width": 0, "color": COLORS[name]}
                heights = np.arange(len(cells)) + 0.22 * (at - 1)
                marker = {"color": COLORS[name], "symbol": SYMBOLS[name], "size": 8}
                label = "learned controller" if name == family else name
                shown = k == 1 and j == 1
                figure.add_scatter(
                    x=middle,
                    y=heights,
                    error_x=error,
                    mode="markers",
                    marker=marker,
                    name=label,
                    showlegend=shown,
                    row=k,
                    col=j,
                )
        ticks = {"tickvals": list(range(len(cells))), "ticktext": list(cells), "autorange": "reversed"}
        figure.update_yaxes(**ticks, row=k, col=1)
        figure.update_yaxes(autorange="reversed", row=k, col=2)
        figure.update_xaxes(title="share of the capacity", range=[0.0, 1.03], row=k, col=1)
        figure.update_xaxes(title="95th percentile of the delay [RTTs], log scale", type="log", row=k, col=2)
    figure.update_layout(**layout, legend={"orientation": "h", "y": 1.1})
    figure.write_image(folder / "learned_controllers_paths.png", width=1100, height=760, scale=2)

    panels = ("Aurora's path: 3.6 Mb/s, RTT 200 ms", "Orca's path: 24 Mb/s, RTT 20 ms")
    figure = make_subplots(1, 2, shared_yaxes=True, subplot_titles=panels, horizontal_spacing=0.05)
    for row in results["losses"]:
        name, column = row["protocol"], 1 + LEARNED.index(row["family"])
        style = {"color": COLORS[name]}
        points = [(100.0 * p, used) for p, used in zip(row["losses"], row["utilization"], strict=True) if p > 0.0]
        figure.add_scatter(
            x=[p for p, _ in points],
            y=[used for _, used in points],
            mode="lines+markers",
            line=style,
            marker={"symbol": SYMBOLS[name], "size": 9},
            name=name,
            showlegend=column == 1 or name == "Orca",
            row=1,
            col=column,
        )
    figure.update_traces(line_dash="dash", selector={"name": "Orca"})
    figure.update_xaxes(type="log", title="probability of random loss [%], log scale", tickvals=[0.1, 1, 10, 50])
    figure.update_yaxes(title="utilization", range=[0.0, 1.05], row=1, col=1)
    figure.update_layout(**layout)
    figure.write_image(folder / "learned_controllers_loss.png", width=1000, height=420, scale=2)


def study(is_short: bool, store: str | None = None) -> dict[str, Any]:
    """Return all results."""
    n_cells = 2 if is_short else None
    cells = {family: [*CELLS[family]][:n_cells] for family in LEARNED}
    return {
        "paths": over_paths(2 if is_short else 12, cells, store),
        "losses": over_losses((0.0, 0.01, 0.1) if is_short else LOSSES),
        "fairness": fairness(*((1, 1) if is_short else (3, 8))),
        "responses": responses(1 if is_short else 5),
        "stability": stability(is_short),
        "causes": causes(is_short),
    }


def with_tables(page: str, found: Mapping[str, str]) -> str:
    """Return a page with new tables below their markers, which are comments with the names of tables."""

    def new(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n\n{found[match[1]]}\n\n"

    return re.sub(r"<!-- ([^\n]+) -->\n\n(?:(?:\|[^\n]*\n)+\n?)?", new, page)


def write(results: Mapping[str, Any]) -> None:
    """Write the results, the tables of the page, and its figures."""
    text = re.sub(r"\[[^\[\]{}]+\]", lambda match: " ".join(match[0].split()), json.dumps(results, indent=1))
    RESULTS.write_text(f"{text}\n", encoding="utf-8")
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), tables(results)), encoding="utf-8")
    draw(results, PAGE.parent)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study, print its tables and write its files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--short", action="store_true", help="a small part of each table")
    size.add_argument("--write", action="store_true", help="write results, tables and figures to docs")
    parser.add_argument("--store", help="file that keeps the runs over drawn paths")
    options = parser.parse_args(arguments)
    results = study(options.short, options.store)
    for name, text in tables(results).items():
        print(f"\n{name}\n\n{text}")
    if options.write:
        write(results)


if __name__ == "__main__":
    main()
