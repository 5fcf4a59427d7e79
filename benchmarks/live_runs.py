"""Live runs beside simulations: goodput at 100 Mb/s, and 1 Gb/s through one router.

    python benchmarks/live_runs.py goodput [PROTOCOL ...]    dumbbell of 100 Mb/s, RTTs of 40 and 60 ms, 8 s
    python benchmarks/live_runs.py spread [PROTOCOL ...]     the same: 10 live runs, and 64 simulations with jitter
    python benchmarks/live_runs.py gigabit [PROTOCOL ...]    the same at 1 Gb/s, 2 s, five times slow and at full speed

Void runs are made again and counted. Lateness is in microseconds of the scenario: half, 99 % and 99.9 % of the packets.
Where it decides all that follows which of two packets is first at a queue, no two runs are alike: beside each live run
is the range of eight simulations whose packets are up to 20 us late, as those of live runs are. Stability boundaries:
live_boundaries.py. What lateness alone does: live_lateness.py.
"""

import sys

import numpy as np

import ecc
from ecc.models import all_protocols
from ecc.network.impairments import Jitter

LATE = (0.0, 20e-6)
"""s. Jitter of simulations, forth and back."""
SEEDS = range(1, 9)


def quality(run):
    """What a reader must know of a live run."""
    stats = run.stats
    late = "/".join(f"{stats[f'lateness_{name}'] * 1e6:.1f}" for name in ("p50", "p99", "p999"))
    return (
        f"late {late} us, {stats['elapsed']:.1f} s, frozen {stats['frozen']:.1f}, CPU {stats['cpu_seconds']:.1f}, "
        f"frames {stats['frames_sent']}, steal {stats['steal']:.1%}, load {stats['load']:.1f}, "
        f"attempt {stats['attempts']}{', VOID: ' + stats['void'] if stats['void'] else ''}"
    )


def rates(run, settled=0.4):
    """Mean goodput of each flow after a share of the run [Mb/s]."""
    return run.goodput[round(settled * run.data.sizes["time"]) :].mean("time").to_numpy() / 1e6


def case(name, capacity="100 Mb/s", buffer="1.25 MB", duration=8.0):
    """Two flows of a protocol through one link."""
    network = ecc.Network.dumbbell(capacity, rtts=[0.04, 0.06], buffer=buffer, packet_size=1500)
    return ecc.Scenario(network, all_protocols()[name](), duration=duration, seed=1)


def sums_with_jitter(scenario, seeds):
    """Goodputs of all flows of simulations with late packets [Mb/s]."""
    jitter = (Jitter(LATE, link=0), Jitter(LATE, acks_of="all"))
    return np.array([rates(ecc.packet.simulate(scenario.with_(impairments=jitter, seed=seed))).sum() for seed in seeds])


def spread(names):
    """Print the sums of goodputs of many runs: mean, standard deviation, least and most."""
    for name in names:
        scenario = case(name)
        found = {
            "simulated": sums_with_jitter(scenario, range(1, 65)),
            "live": np.array([rates(ecc.live.simulate(scenario, attempts=4)).sum() for _ in range(10)]),
        }
        for kind, sums in found.items():
            print(
                f"{name:8} {kind}: {len(sums)} runs, {sums.mean():.2f} +- {sums.std(ddof=1):.2f}, "
                f"{sums.min():.2f} to {sums.max():.2f} Mb/s",
                flush=True,
            )


def goodput(names, slows=(1.0,), **options):
    """Print the mean goodput after a share of the run, live and simulated."""
    for name in names:
        scenario = case(name, **options)
        b = rates(ecc.packet.simulate(scenario))
        late = sums_with_jitter(scenario, SEEDS) / b.sum() - 1.0
        for slow in slows:
            live = ecc.live.simulate(scenario, slow=slow, attempts=4)
            a = rates(live)
            print(
                f"{name:8} {slow:g} times slow: live {a.round(3)}, simulated {b.round(3)} Mb/s, "
                f"sum {a.sum() / b.sum() - 1:+.2%} ({min(late):+.2%} to {max(late):+.2%} with jitter); {quality(live)}",
                flush=True,
            )


def main(what, *names):
    if what == "goodput":
        goodput(names or all_protocols())
    elif what == "spread":
        spread(names or ("BIC", "PEDN"))
    else:
        goodput(names or ("RCP", "XCP", "PIQIRCP"), (5.0, 1.0), capacity="1 Gb/s", buffer="12.5 MB", duration=2.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
