"""Safe knobs of CoDel, COBALT, FQ-CoDel and DualPI2: computed and in packet runs (docs/access_link.md).

    python benchmarks/access_link_knobs.py codel
    python benchmarks/access_link_knobs.py dualpi2
    python benchmarks/access_link_knobs.py gsp
    python benchmarks/access_link_knobs.py gaps
    python benchmarks/access_link_knobs.py rem

`codel`, with four CUBIC downloads, prints "computed / packets" for each setting and RTT: the 99th percentile of the
delay, and the used share of the link. FQ-CoDel: computed for the queue of one download, and the sum of all queues in
packets.

`dualpi2` prints gain margins of the linear model for NewReno, delays and utilization of packet runs, and the share of
two Prague downloads next to two of CUBIC.

`gsp` prints the used share of the link, median and 99th percentile of the delay, and the share of lost packets for 5,
20 and 100 CUBIC downloads with an RTT of 100 ms and start times within 2 s (docs/queue_disciplines.md).

`gaps` prints, for four CUBIC downloads over CoDel with a target of 1 ms and RTTs of 200 ms, the used share of the link
and the signals before which less than 90 % of the link were used for an RTT: for hosts that reduce their windows at
once, over an RTT (PRR), and with pacing.

`rem` prints the used share of the link and the median delay over REM with its defaults (docs/queue_disciplines.md).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

import ecc
from ecc.models import CUBIC, ConstantRate, NewReno, Prague
from ecc.queues import COBALT, GSP, PIE, REM, CoDel, DropTail, DualPI2, FQCoDel

RATE, DOWNLOADS = 50e6, 4
SETTINGS = (  # discipline, target and interval [s], share of a stream that does not respond
    (CoDel, 0.005, 0.1, 0.0),
    (CoDel, 0.005, 0.1, 0.5),
    (CoDel, 0.005, 0.3, 0.0),
    (CoDel, 0.005, 0.3, 0.5),
    (CoDel, 0.015, 0.3, 0.0),
    (CoDel, 0.015, 0.3, 0.5),
    (CoDel, 0.001, 0.1, 0.0),
    (CoDel, 0.001, 0.02, 0.0),
    (COBALT, 0.005, 0.1, 0.0),
    (COBALT, 0.015, 0.3, 0.0),
    (FQCoDel, 0.005, 0.1, 0.0),
    (FQCoDel, 0.06, 0.3, 0.0),
)


def row(kind: Any, target: float, interval: float, stream: float, rtt: float) -> str:
    """Return the delays [ms] and the utilization [%] of a setting."""
    discipline = kind(target=target, interval=interval, packet_size=1500)
    flows = {"default": CUBIC(transport="sack")} | ({DOWNLOADS: ConstantRate(stream * RATE)} if stream else {})
    rtts = [rtt] * (DOWNLOADS + (stream > 0.0))
    network = ecc.Network.dumbbell(RATE, rtts=rtts, packet_size=1500, buffer="5 MB")
    loop = {"flows": flows, "links": discipline}
    cycle = ecc.stability.limit_cycle(loop, network)
    drained = RATE / DOWNLOADS if kind is FQCoDel else RATE
    duration = 80.0 if rtt < 0.1 else 400.0
    run = ecc.packet.simulate(ecc.Scenario(network, loop, duration), sample=0.005)
    late = run.queue["time"].values > duration / 3.0
    delays = 8e3 * run.queue.values[late, 0] / RATE
    used = 100.0 * float(run.goodput.values[late].sum(axis=1).mean()) / RATE
    return (
        f"{8e3 * cycle.queue_percentile(99) / drained:.1f} / {np.percentile(delays, 99):.1f} ms, "
        f"{100.0 * cycle.utilization:.1f} / {used:.1f} %"
    )


def margin(gains: DualPI2, rtt: float, downloads: int) -> str:
    """Return the gain margin of the linear model of NewReno [dB]."""
    network = ecc.Network.dumbbell(RATE, rtts=[rtt] * downloads, packet_size=1500)
    system = ecc.linearize({"flows": NewReno(ecn=True), "links": gains.classic_queue}, network)
    return f"{20.0 * np.log10(system.margins().gain_margin):.1f} dB" if system.is_stable else "unstable"


def packets(gains: DualPI2, host: Any, rate: float, downloads: int, rtt: float) -> str:
    """Return mean and standard deviation of the delay [ms], and the utilization [%], over the second half of a run."""
    network = ecc.Network.dumbbell(rate, rtts=[rtt] * downloads, packet_size=1500)
    run = ecc.packet.simulate(ecc.Scenario(network, {"flows": host, "links": gains}, 500.0 * rtt + 40.0), sample=0.005)
    late = slice(len(run.queue) // 2, None)
    delays = 8e3 * run.queue.values[late, 0] / rate
    used = 100.0 * float(run.goodput.values[late].sum(axis=1).mean()) / rate
    low, high = np.percentile(delays, [1, 99])
    return f"{delays.mean():.1f} ± {delays.std():.1f} ms, {low:.1f} to {high:.1f} ms, {used:.1f} %"


def codel() -> None:
    """Print the rows of CoDel, COBALT and FQ-CoDel."""
    for kind, target, interval, stream in SETTINGS:
        for rtt in (0.02, 0.2):
            name = f"{kind.__name__}, {1e3 * target:g}, {1e3 * interval:g} ms, stream {stream:g}, RTT {1e3 * rtt:g} ms"
            print(f"{name}: {row(kind, target, interval, stream, rtt)}", flush=True)


def dualpi2() -> None:
    """Print the margins and packet runs of DualPI2."""
    default = DualPI2(packet_size=1500)
    slower = replace(default, alpha=default.alpha / 4.0, beta=default.beta / 2.0)
    settings = {
        "default": default,
        "alpha/4, beta/2": slower,
        "4 alpha, 2 beta": replace(default, alpha=4.0 * default.alpha, beta=2.0 * default.beta),
        "beta/2": replace(default, beta=default.beta / 2.0),
        "32 ms": replace(default, interval=0.032),
        "64 ms": replace(default, interval=0.064),
    }
    for name, gains in settings.items():
        margins = [margin(gains, rtt, n) for rtt in (0.02, 0.1, 0.2) for n in (4, 16)]
        print(f"{name}, RTT 20, 20, 100, 100, 200, 200 ms, 4 and 16 downloads: {', '.join(margins)}", flush=True)
    for name, gains in (("default", default), ("alpha/4, beta/2", slower)):
        print(f"{name}, 160 NewReno: {packets(gains, NewReno(ecn=True, transport='sack'), 4e8, 160, 0.2)}", flush=True)
        for n in (4, 16):
            print(f"{name}, {n} CUBIC: {packets(gains, CUBIC(ecn=True, transport='sack'), RATE, n, 0.2)}", flush=True)
    for rtt in (0.02, 0.2):
        for coupling in (1.0, 2.0, 4.0):
            network = ecc.Network.dumbbell(RATE, rtts=[rtt] * 4, packet_size=1500)
            hosts = {"0-1": Prague(), "default": CUBIC(ecn=True, transport="sack")}
            loop = {"flows": hosts, "links": replace(default, coupling=coupling)}
            run = ecc.packet.simulate(ecc.Scenario(network, loop, 90.0), sample=0.02)
            rates = run.goodput.values[run.goodput["time"].values > 30.0].mean(axis=0)
            share = 100.0 * rates[:2].sum() / rates.sum()
            print(f"coupling {coupling:g}, RTT {1e3 * rtt:g} ms: Prague {share:.0f} %", flush=True)


def gsp() -> None:
    """Print the rows of GSP and, for comparison, of drop-tail, CoDel and PIE."""
    settings = (
        ("DropTail, buffer 20 ms", DropTail(), 0.02),
        ("DropTail, buffer 200 ms", DropTail(), 0.2),
        ("GSP, basic", GSP(adaptive=False), 0.2),
        ("GSP", GSP(), 0.2),
        ("CoDel", CoDel(packet_size=1500), 0.2),
        ("PIE", PIE(packet_size=1500), 0.2),
    )
    for n in (5, 20, 100):
        starts = [2.0 * k / n for k in range(n)]
        for name, discipline, buffer in settings:
            size = int(RATE / 8.0 * buffer)
            network = ecc.Network.dumbbell(RATE, rtts=[0.1] * n, packet_size=1500, buffer=size, starts=starts)
            loop = {"flows": CUBIC(transport="sack"), "links": discipline}
            run = ecc.packet.simulate(ecc.Scenario(network, loop, 60.0), sample=0.02)
            late = run.queue["time"].values > 20.0
            median, high = np.percentile(8e3 * run.queue.values[late, 0] / RATE, [50, 99])
            used = 100.0 * float(run.goodput.values[late].sum(axis=1).mean()) / RATE
            lost = 100.0 * float(run.drops.values[late].sum()) / (RATE / 12e3 * 40.0)
            print(f"{n} downloads, {name}: {used:.1f} %, {median:.1f} / {high:.1f} ms, {lost:.2f} %", flush=True)


def gaps() -> None:
    """Print the rows of CoDel with a target of 1 ms for three hosts and three intervals."""
    hosts = {"at once": {}, "PRR": {"prr": True}, "PRR, paced": {"prr": True, "pacing": 1.25}}
    rtt, step, begin, end = 0.2, 0.002, 100.0, 300.0
    network = ecc.Network.dumbbell(RATE, rtts=[rtt] * DOWNLOADS, packet_size=1500, buffer="5 MB")
    for interval in (0.02, 0.1, 0.3):
        for name, options in hosts.items():
            codel = CoDel(target=0.001, interval=interval, packet_size=1500)
            loop = {"flows": CUBIC(transport="sack", **options), "links": codel}
            run = ecc.packet.simulate(ecc.Scenario(network, loop, end), sample=step)
            drops = run.drops.values[:, 0]
            arrived = run.arrival.values[:, 0] * step / 8.0
            sent = arrived - np.diff(run.queue.values[:, 0], prepend=0.0) - 1500.0 * drops
            of_rtt = np.convolve(sent, np.ones(round(rtt / step)))[: len(sent)] / (RATE * rtt / 8.0)
            late = run.drops["time"].values > begin
            early = drops[late & (of_rtt < 0.9)].sum() / drops[late].sum()
            used = sent[late].sum() / (RATE / 8.0 * (end - begin))
            print(f"{1e3 * interval:g} ms, {name}: {100 * used:.1f} %, {100 * early:.0f} % of signals", flush=True)


def rem() -> None:
    """Print a row for each link and RTT over REM."""
    discipline = REM(packet_size=1500)
    for rate in (1e6, 5e6, 20e6, 50e6, 200e6):
        for rtt in (0.02, 0.1):
            cells = []
            for n in (4, 20):
                size = max(int(0.3 * rate / 8.0), 60_000)
                network = ecc.Network.dumbbell(rate, rtts=[rtt] * n, packet_size=1500, buffer=size)
                loop = {"flows": CUBIC(transport="sack"), "links": discipline}
                run = ecc.packet.simulate(ecc.Scenario(network, loop, 40.0, seed=1), sample=0.02)
                late = run.queue["time"].values > 20.0
                used = 100.0 * float(run.goodput.values[late].sum(axis=1).mean()) / rate
                cells.append(f"{used:.0f} %, {8e3 * np.median(run.queue.values[late, 0]) / rate:.1f} ms")
            ratio = 8.0 * discipline.reference * discipline.packet_size / (rate * rtt)
            print(f"{rate / 1e6:g} Mb/s, {1e3 * rtt:g} ms | {ratio:.2g} | {' | '.join(cells)}", flush=True)


if __name__ == "__main__":
    {"codel": codel, "dualpi2": dualpi2, "gsp": gsp, "gaps": gaps, "rem": rem}[sys.argv[1]]()
