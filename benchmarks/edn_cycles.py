"""EDN's limit cycle three ways: describing function, fluid, packets. `python benchmarks/edn_cycles.py [EDN | PEDN]`.

N long flows on 100 Mb/s. Of the queue: mean, half of what lies between the 1st and the 99th percentile, amplitude and
period of the strongest line of its spectrum, over the last 80 s of 100 (fluid: 20 of 40). Flows of packets start
together; a fluid begins at its equilibrium.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

import ecc

SAMPLE = 0.005


def strongest(queue: NDArray[np.float64]) -> tuple[float, float]:
    """Return amplitude [bytes] and period [s] of the strongest line.

    Parameters
    ----------
    queue : ndarray, shape (n,)
        Every SAMPLE.
    """
    window = np.hanning(len(queue))
    lines = np.abs(np.fft.rfft((queue - queue.mean()) * window))
    k = int(np.argmax(lines))
    return 2.0 * float(lines[k]) / float(window.sum()), SAMPLE * len(queue) / max(k, 1)


def row(name: str, run: ecc.Trajectory, keep: float) -> str:
    """Return what the end of a run shows.

    Parameters
    ----------
    name : str
    run : Trajectory
    keep : float, s
    """
    queue = run.queue[-round(keep / SAMPLE) :, 0].to_numpy()
    low, high = np.percentile(queue, [1, 99])
    amplitude, period = strongest(queue)
    return f"{name:>8} {queue.mean():8.0f} {(high - low) / 2.0:8.0f} {amplitude:8.0f} {1e3 * period:7.0f}"


def main() -> None:
    """Print three rows for each number of flows and spread of RTTs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("protocol", nargs="?", default="EDN", choices=["EDN", "PEDN"])
    protocol = getattr(ecc.models, parser.parse_args().protocol)()
    print(f"{'N':>4} {'RTT [ms]':>10} {'':8} {'mean':>8} {'half':>8} {'line':>8} {'[ms]':>7}")
    for rtts in ([0.1], [0.1] * 4, [0.1] * 10, [0.1] * 20, [0.1] * 40, [0.05, 0.1, 0.2] * 4):
        network = ecc.Network.dumbbell("100 Mb/s", rtts=rtts, packet_size=1500)
        head = f"{len(rtts):4d} {1e3 * min(rtts):4.0f}-{1e3 * max(rtts):<5.0f}"
        try:
            said = ecc.stability.relay_cycle(protocol, network)
            print(f"{head} {'relay':>8} {said.mean:8.0f} {'':8} {said.amplitude:8.0f} {1e3 * said.period:7.0f}")
        except ecc.errors.LinearizationError as error:
            print(f"{head} {error}")
        fluid = ecc.fluid.simulate(ecc.Scenario(network, protocol, 40.0), sample=SAMPLE, start="equilibrium")
        print(f"{'':15} {row('fluid', fluid, 20.0)}")
        packets = ecc.packet.simulate(ecc.Scenario(network, protocol, 100.0), sample=SAMPLE)
        print(f"{'':15} {row('packets', packets, 80.0)}", flush=True)


if __name__ == "__main__":
    main()
