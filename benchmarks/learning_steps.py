"""Steps per second of learning environments: `python benchmarks/learning_steps.py [--original FOLDER]`.

Three rows run the same packets, 323 in each step of half an RTT: the bare packet engine, one environment with action,
observation and reward, and a vector environment in one thread. Next, the default task of Aurora with random actions,
beginnings of episodes included. With a checkout of PCC-RL (github.com/PCCproject/PCC-RL) as FOLDER, its environment
runs too, over a stub for gym. Figures are steps per CPU second; the best of several rounds, which alternate.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ecc
from ecc.rl import aurora

PACKETS = 323
CAPACITY = 500.0
STEP = PACKETS / CAPACITY


def fixed(steps: int) -> Any:
    """The task of Aurora on one path, at a rate with 323 packets per step."""
    delay = STEP - 0.5 / CAPACITY
    paths = aurora.Paths((CAPACITY, CAPACITY), (delay, delay), (7.0, 7.0), (0.01, 0.01), (1.0, 1.0))
    scenario = paths(np.random.default_rng(1))
    return aurora.task(scenario=scenario, interval=STEP, steps=steps)


def bare(steps: int) -> tuple[float, int, float]:
    """Run the packets of the fixed path in slices, without actions and observations."""
    scenario = fixed(steps).scenario.with_(duration=(steps + 10) * STEP)
    engine = ecc.packet.Run(scenario, sample=scenario.duration)._engine
    engine.advance(3.0 * STEP, 10**9)
    begin = time.process_time()
    for k in range(steps):
        engine.advance((4.0 + k) * STEP, 10**9)
    return time.process_time() - begin, steps, PACKETS


def single(task: Any, steps: int, spread: float) -> tuple[float, int, float]:
    """Run an environment with random actions."""
    environment = ecc.rl.Environment(task)
    actions = np.clip(np.random.default_rng(1).normal(0.0, spread, (steps, 1)), -40.0, 40.0)
    environment.reset(seed=1)
    is_over, sent, begin = False, 0.0, time.process_time()
    for action in actions:
        if is_over:
            environment.reset()
        _, _, _, is_over, _ = environment.step(action)
        sent += environment.interval.sent
    return time.process_time() - begin, steps, sent / aurora.PACKET / steps


def vector(task: Any, steps: int, spread: float, n: int = 32) -> tuple[float, int, float]:
    """Run a vector environment with random actions."""
    environments = ecc.rl.VectorEnvironment(task, n, threads=1)
    actions = np.clip(np.random.default_rng(1).normal(0.0, spread, (steps // n, n, 1)), -40.0, 40.0)
    environments.reset(seed=1)
    sent, begin = 0.0, time.process_time()
    for action in actions:
        environments.step(action)
        sent += environments.interval.sent.sum()
    return time.process_time() - begin, len(actions) * n, sent / aurora.PACKET / len(actions) / n


def stub_of_gym() -> None:
    """Put modules in place of gym, of which the original environment uses a base class, a space and a registry."""

    class Box:
        def __init__(self, low: Any, high: Any, dtype: Any = None) -> None:
            self.low, self.high = low, high

    modules = {name: types.ModuleType(name) for name in ("gym", "gym.utils", "gym.envs", "gym.envs.registration")}
    modules["gym"].Env = object  # type: ignore[attr-defined]
    modules["gym"].spaces = types.SimpleNamespace(Box=Box)  # type: ignore[attr-defined]
    modules["gym.utils"].seeding = None  # type: ignore[attr-defined]
    modules["gym.envs.registration"].register = lambda **options: None  # type: ignore[attr-defined]
    sys.modules |= modules


def original(folder: Path, episodes: int, spread: float) -> tuple[float, int, float]:
    """Run the environment of PCC-RL with random actions."""
    stub_of_gym()
    sys.path[:0] = [str(folder / "src" / "gym"), str(folder / "src")]
    sys.argv[1:] = []
    import network_sim

    random.seed(1)
    rng, sent, steps, begin = np.random.default_rng(1), 0, 0, time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        environment = network_sim.SimulatedNetworkEnv()
        for _ in range(episodes):
            environment.reset()
            is_over = False
            while not is_over:
                _, _, is_over, _ = environment.step(rng.normal(0.0, spread, 1))
                sent += environment.senders[0].sent
                steps += 1
    return time.process_time() - begin, steps, sent / steps


def main() -> None:
    """Measure all rows in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--original", type=Path, help="checkout of PCC-RL")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20_000)
    options = parser.parse_args()
    steps, episodes = options.steps, 12
    rows: dict[str, Callable[[], tuple[float, int, float]]] = {
        "engine, fixed path": lambda: bare(steps),
        "environment, fixed path": lambda: single(fixed(steps), steps, 0.0),
        "vector environment, fixed path": lambda: vector(fixed(steps), steps, 0.0),
        "environment, Aurora": lambda: single(aurora.task(), steps, 1.0),
        "vector environment, Aurora": lambda: vector(aurora.task(), steps, 1.0),
    }
    if options.original:
        rows["PCC-RL"] = lambda: original(options.original, episodes, 1.0)
    best: dict[str, tuple[float, float]] = {}
    for _ in range(options.rounds):
        for name, row in rows.items():
            seconds, count, packets = row()
            best[name] = max(best.get(name, (0.0, 0.0)), (count / seconds, packets))
    print(f"load {os.getloadavg()[0]:.1f}, {options.rounds} rounds")
    base = best["engine, fixed path"][0]
    for name, (rate, packets) in best.items():
        shown = f"{name:32} {rate:9,.0f} steps/s {packets:6.0f} packets/step {rate * packets / 1e6:7.2f} M packets/s"
        print(shown + (f"  {rate / base:5.1%} of the engine" if "fixed" in name else ""))
    if options.original:
        rate, packets = best["PCC-RL"]
        for name in ("environment, Aurora", "vector environment, Aurora"):
            print(
                f"{name} / PCC-RL: {best[name][0] / rate:.0f} times the steps, "
                f"{best[name][0] * best[name][1] / rate / packets:.0f} times the packets per second"
            )


if __name__ == "__main__":
    main()
