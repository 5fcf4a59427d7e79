"""Steps per CPU second of environments of one flow: `python benchmarks/steps_per_second.py [--seconds S]`.

Each step lasts a round-trip time of 0.1 s, in which a flow of a constant rate sends 323 packets over one link, the mean
of the environment of PCC-RL. The rows are

    engine          the C engine alone: `Engine.advance` to the next time
    run             `Run.step` with an action and an observation
    batch           `RunBatch.step` with 64 runs, an action and an observation each, in one thread
    batch, threads  the same, in a thread for each core

All times are CPU times of the process, with all its threads, so that "batch, threads" is per core. The rows alternate,
and the maximum over the rounds counts. The last line is the time in which two cores simulate the 3.94 million steps of
the default training of PCC-RL.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import ecc
from ecc.native import Engine
from ecc.packet import OBSERVATION, Run, RunBatch

STEP, PACKETS, PACKET = 0.1, 323, 1500
RATE = PACKETS * PACKET * 8 / STEP
N_RUNS, N_STEPS, TRAINING = 64, 1_920, 3.94e6


def scenario() -> ecc.Scenario:
    """One flow at the capacity of its link."""
    network = ecc.Network.dumbbell(RATE, rtts=[STEP], buffer="100 kB", packet_size=PACKET)
    return ecc.Scenario(network, ecc.models.ConstantRate(RATE), duration=1e5)


def engine() -> Callable[[], None]:
    """Return a function that makes steps of the engine alone."""
    engine = Run(scenario(), 1e4)._engine
    assert isinstance(engine, Engine)
    engine.advance(1.0)

    def steps() -> None:
        for _ in range(N_STEPS):
            engine.advance(engine.now + STEP)

    return steps


def single() -> Callable[[], None]:
    """Return a function that makes steps of one run."""
    run = Run(scenario(), 1e4, observe=[0])
    observation = run.step(1.0)

    def steps() -> None:
        now = run.now
        for k in range(N_STEPS):
            now += STEP
            run.step(now, {0: {"rate": RATE * (1.0 - 1e-9 * (k % 2))}}, observation)
        assert abs(observation["delivered"][0] - PACKETS * PACKET) <= 2 * PACKET

    assert observation.dtype == OBSERVATION
    return steps


def batch(threads: int | None) -> Callable[[], None]:
    """Return a function that makes steps of a batch."""
    runs = RunBatch([scenario()] * N_RUNS, threads=threads)
    runs.step(1.0)

    def steps() -> None:
        for k in range(N_STEPS // N_RUNS):
            runs.actions[:] = RATE * (1.0 - 1e-9 * (k % 2))
            runs.step(runs.now + STEP)
        assert (abs(runs.observations["delivered"] - PACKETS * PACKET) <= 2 * PACKET).all()

    return steps


def main() -> None:
    """Print the steps per CPU second of each row, and their ratio to the engine alone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0, help="duration, wall time")
    end = time.monotonic() + parser.parse_args().seconds
    rows = {"engine": engine(), "run": single(), "batch": batch(1), "batch, threads": batch(None)}
    best = dict.fromkeys(rows, 0.0)
    while time.monotonic() < end:
        for name, steps in rows.items():
            began = time.process_time()
            steps()
            best[name] = max(best[name], N_STEPS / (time.process_time() - began))
    for name, rate in best.items():
        print(f"{name:15} {rate:8,.0f} steps per CPU second   {rate / best['engine']:.2f} x engine")
    print(f"default training on two cores: {TRAINING / (2 * best['batch, threads']):.0f} s")


if __name__ == "__main__":
    main()
