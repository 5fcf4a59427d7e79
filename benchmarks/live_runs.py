"""Live runs beside simulations: goodput at 100 Mb/s, 1 Gb/s through one router, and boundaries of stability.

    python benchmarks/live_runs.py goodput XCP RCP QIRCP     dumbbell of 100 Mb/s, RTTs of 40 and 60 ms, 8 s
    python benchmarks/live_runs.py gigabit XCP RCP           the same at 1 Gb/s, 2 s, five times slow and at full speed
    python benchmarks/live_runs.py boundary QIRCP 0.04 0.1   growth on both sides of the hybrid critical gain, by RTT

Void runs are marked by their reason. Lateness is in microseconds of the scenario: half, 99 % and 99.9 % of the packets.
"""

import sys

import numpy as np
from scipy.optimize import least_squares

import ecc

PERTURBATION, BEGIN, WINDOW, LARGEST, LEAST = 0.04, 0.25, 2.5, 0.15, 0.002
"""Of an oscillation: how large it begins; from when on and for how long it is fitted [s]; between which sizes."""
INTERVAL, SIDES = 0.01, (0.97, 1.03)


def quality(run):
    """What a reader must know of a live run."""
    stats = run.stats
    late = "/".join(f"{stats[f'lateness_{name}'] * 1e6:.1f}" for name in ("p50", "p99", "p999"))
    return (
        f"late {late} us, {stats['elapsed']:.1f} s, frozen {stats['frozen']:.1f}, CPU {stats['cpu_seconds']:.1f}, "
        f"frames {stats['frames_sent']}, steal {stats['steal']:.1%}, load {stats['load']:.1f}, "
        f"attempt {stats['attempts']}{', VOID: ' + stats['void'] if stats['void'] else ''}"
    )


def goodput(names, capacity="100 Mb/s", buffer="1.25 MB", duration=8.0, slows=(1.0,), settled=0.4):
    """Print the mean goodput after a share of the run, live and simulated."""
    network = ecc.Network.dumbbell(capacity, rtts=[0.04, 0.06], buffer=buffer, packet_size=1500)
    for name in names:
        scenario = ecc.Scenario(network, getattr(ecc.models, name)(), duration=duration, seed=1)
        packets = ecc.packet.simulate(scenario)
        for slow in slows:
            live = ecc.live.simulate(scenario, slow=slow)
            first = round(settled * live.data.sizes["time"])
            a, b = (run.goodput[first:].mean("time").to_numpy() / 1e6 for run in (live, packets))
            print(
                f"{name:8} {slow:g} times slow: live {a.round(3)}, simulated {b.round(3)} Mb/s, "
                f"sum {a.sum() / b.sum() - 1:+.2%}; {quality(live)}",
                flush=True,
            )


def growth(run, fair, guess):
    """Growth [1/s] and frequency [Hz] of the rate that a router announces, about its mean."""
    time, deviation = run.data.time.to_numpy(), run["link.R"].to_numpy()[:, 0] / fair - 1.0
    large = time[(np.abs(deviation) > LARGEST) & (time > BEGIN)]
    small = np.log(LEAST / PERTURBATION) / guess[0] if guess[0] < 0.0 else np.inf
    kept = (time > BEGIN) & (time < min([*large[:1], BEGIN + small, BEGIN + WINDOW]))
    t, x = time[kept] - BEGIN, deviation[kept]

    def error(p):
        turns = 2.0 * np.pi * p[1] * t
        return np.exp(np.clip(p[0] * t, -50.0, 50.0)) * (p[2] * np.cos(turns) + p[3] * np.sin(turns)) + p[4] - x

    fits = [least_squares(error, [first, guess[1], 0.03, 0.03, 0.0]) for first in (guess[0], 0.0, 2.0 * guess[0])]
    return min(fits, key=lambda fit: fit.cost).x[:2]


def boundary(name, rtts, slow=1.0):
    """Print growth on both sides of the hybrid critical gain, and the gain at which it is 0 between them."""
    kind = getattr(ecc.models, name)
    for rtt in rtts:
        links = [ecc.Link("100 Mb/s", rtt / 2), ecc.Link("10 Gb/s", rtt / 2)]
        network = ecc.Network(links, [ecc.Flow([0], reverse=[1], packet_size=1440) for _ in range(2)])
        critical = ecc.stability.critical_gain(kind(interval=INTERVAL), network, "alpha", time="hybrid").value
        found = {"linear": [], "simulated": [], "live": []}
        for side in SIDES:
            protocol = kind(alpha=side * critical, interval=INTERVAL)
            roots = ecc.linearize(protocol, network, time="hybrid").roots(4)
            root = np.log(roots[np.argmax(np.abs(roots))]) / INTERVAL
            guess = root.real, abs(root.imag) / (2.0 * np.pi)
            scenario = ecc.Scenario(network, protocol, duration=BEGIN + WINDOW + 0.25, seed=1)
            given = {
                "sample": INTERVAL / 2, "start": "equilibrium", "perturbation": PERTURBATION, "record": ["link.R"],
            }  # fmt: skip
            packets = ecc.packet.simulate(scenario, **given)
            live = ecc.live.simulate(scenario, slow=slow, exact=True, **given)
            fair = protocol.gamma * 1e8 / 2
            values = {"linear": guess, "simulated": growth(packets, fair, guess), "live": growth(live, fair, guess)}
            for way, value in values.items():
                found[way].append(value[0])
            shown = ", ".join(f"{way} {value[0]:+.3f} 1/s {value[1]:.3f} Hz" for way, value in values.items())
            print(f"{name} RTT {rtt:g} s alpha {side:.2f} x {critical:.4f}: {shown}; {quality(live)}", flush=True)
        zeros = {way: critical * np.interp(0.0, pair, SIDES) for way, pair in found.items() if pair[0] < 0.0 < pair[1]}
        shown = ", ".join(f"{way} {zero:.4f} ({zero / critical - 1:+.2%})" for way, zero in zeros.items())
        print(f"{name} RTT {rtt:g} s: growth is 0 at alpha = {shown}", flush=True)


def main(what, *names):
    if what == "goodput":
        goodput(names)
    elif what == "gigabit":
        goodput(names, "1 Gb/s", "12.5 MB", 2.0, (5.0, 1.0))
    else:
        boundary(names[0], [float(rtt) for rtt in names[1:]])


if __name__ == "__main__":
    main(*sys.argv[1:])
