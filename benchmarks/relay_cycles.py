"""Cycles of relays: describing function, exact orbit, fluid and packets. `python benchmarks/relay_cycles.py`.

Flows of 1500 bytes and 100 ms on one link. `half`: half of the peak-to-peak range of the queue in packets, as the mean
over cycles; `period` in ms. Fluid runs begin at the equilibrium and last 20 s, packet runs 60 s; the first 10 s and
20 s are left out. The last two columns are of the orbit with the delays of hosts (`relay_delays`) and of packets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import ecc
from ecc.cycles.relays import relay_orbit
from ecc.models import EDN, PEDN, Copa, Vegas

SAMPLE, PACKET = 0.002, 1500.0

CASES = [
    ("EDN, 4 flows", EDN(quantized=False), "100 Mb/s", 4),
    ("EDN, 10 flows", EDN(quantized=False), "100 Mb/s", 10),
    ("EDN, A = 20 ms, 40 flows", EDN(A=0.02, B=0.03, quantized=False), "100 Mb/s", 40),
    ("PEDN, 4 flows", PEDN(quantized=False), "100 Mb/s", 4),
    ("PEDN, A = 40, 4 flows", PEDN(A=40.0, B=60.0, quantized=False), "100 Mb/s", 4),
    ("Vegas, alpha = beta = 20, 4 flows", Vegas(alpha=20.0, beta=20.0), "100 Mb/s", 4),
    ("Copa, delta = 0.5, 2 flows", Copa(), "48 Mb/s", 2),
    ("Copa, delta = 0.02, 1 flow", Copa(delta=0.02), "48 Mb/s", 1),
    ("Copa, delta = 0.02, 1 flow, 480 Mb/s", Copa(delta=0.02), "480 Mb/s", 1),
    ("Copa, delta = 0.02, 2 flows, 480 Mb/s", Copa(delta=0.02), "480 Mb/s", 2),
]


def measured(queue: NDArray[np.float64]) -> tuple[float, float]:
    """Return half of the range [packets] and the period [ms] of a queue, as means over its cycles.

    Parameters
    ----------
    queue : ndarray, shape (n,), bytes
        Every SAMPLE.
    """
    low, high = np.percentile(queue, [2, 98])
    above, rises = True, []
    for k, q in enumerate(queue):
        if above and q < low + 0.3 * (high - low):
            above = False
        elif not above and q > low + 0.7 * (high - low):
            above = True
            rises.append(k)
    halves = [np.ptp(queue[a:b]) / 2.0 for a, b in zip(rises, rises[1:], strict=False)]
    return float(np.mean(halves)) / PACKET, 1e3 * SAMPLE * float(np.mean(np.diff(rises)))


def main() -> None:
    """Print a row for each case."""
    print(f"{'':40} {'relay_cycle':>16} {'orbit':>16} {'fluid':>16} {'with delays':>16} {'packets':>16}  multiplier")
    for name, protocol, capacity, n in CASES:
        network = ecc.Network.dumbbell(capacity, rtts=[0.1] * n, packet_size=int(PACKET))
        estimate = ecc.stability.relay_cycle(protocol, network)
        orbit = relay_orbit(protocol, network)
        delayed = relay_orbit(protocol, network, protocol.relay_delays)
        start = {"start": "equilibrium", "perturbation": 1e-4}
        fluid = ecc.fluid.simulate(ecc.Scenario(network, protocol, 20.0), sample=SAMPLE, **start)
        packets = ecc.packet.simulate(ecc.Scenario(network, protocol, 60.0), sample=SAMPLE)
        columns = [(each.amplitude / PACKET, 1e3 * each.period) for each in (estimate, orbit)]
        columns.append(measured(fluid.queue[5000:, 0].to_numpy()))
        columns.append((delayed.amplitude / PACKET, 1e3 * delayed.period))
        columns.append(measured(packets.queue[10_000:, 0].to_numpy()))
        texts = " ".join(f"{half:8.2f} {period:7.1f}" for half, period in columns)
        print(f"{name:40} {texts}  {orbit.difference:.3f}", flush=True)


if __name__ == "__main__":
    main()
