"""Queues and response times of EDN figs. 3, 5-7, table 1: `python benchmarks/edn_queues.py [--seeds 1] [--loads 90]`.

Connections of the synthetic vectors of `ecc.tmix.Synthetic.edn`, since the paper's traces are not public, over 100
Mb/s each way with a buffer of 1.3 MB; the load of responses is given, that of requests is 19/80 of it. Queues are those
that packets find as they arrive, ACKs and data, from a third of the run on. VCP* opens with slow start.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import ecc
from ecc.models import EDN, PEDN, UTIL, VCP, NewReno, Protocol, Vegas
from ecc.traffic.tmix import Synthetic, response_times
from ecc.traffic.workload import Tmix, Workload

PROTOCOLS: dict[str, Protocol] = {
    "NewReno": NewReno(),
    "Vegas": Vegas(),
    "VCP": VCP(),
    "VCP*": VCP(opening="slow_start"),
    "UTIL": UTIL(),
    "EDN": EDN(),
    "PEDN": PEDN(),
}
LARGE = 100_000
"""Bytes of connections whose response times are distinguished."""


@dataclass(frozen=True)
class Seen:
    """Of a run: queue that packets find, mean and quantiles [kB]; use and drops of the link; response times [s]."""

    mean: float
    median: float
    p90: float
    p99: float
    use: float
    drops: int
    median_time: float
    large_time: float

    def __str__(self) -> str:
        queues = " ".join(f"{value:8.1f}" for value in (self.mean, self.median, self.p90, self.p99))
        times = f"{1e3 * self.median_time:8.1f} {1e3 * self.large_time:8.1f}"
        return f"{queues}  {100 * self.use:6.2f} {self.drops:7d}  {times}"


TITLE = "    mean   median      p90      p99     use   drops    median    large"


def look(protocol: Protocol, load: float, seed: int, duration: float) -> Seen:
    """Return what one run shows.

    Parameters
    ----------
    protocol : Protocol
    load : float, bit/s
        Of responses.
    seed : int
    duration : float, s, >= 3
    """
    begin = duration / 3.0
    links = [ecc.Link("100 Mb/s", 0.0, buffer="1.3 MB")] * 2
    vectors = Tmix(Synthetic.edn(load), route=[0], reverse=[1], packet_size=1500)
    network = ecc.Network(links, [ecc.Flow([0], size=1, reverse=[1])])  # there must be one
    scenario = ecc.Scenario(network, protocol, duration, workload=Workload(tmix=[vectors]), seed=seed)
    run = ecc.packet.simulate(scenario, sample=1.0, histogram_from=begin)
    queues = run.queues.isel(link=1)
    found, middle = queues["arrivals"].to_numpy(), (queues["lowest"] + queues["above"] - 1).to_numpy() / 2.0
    steady = {"time": slice(begin, None)}
    times = response_times(run.flows)
    times = times[(times["start"] > begin) & times["response_time"].notna()]
    drops = run.drops.isel(link=1).sel(steady)
    arrived = float(run.arrival.isel(link=1).sel(steady).mean())
    return Seen(
        float(found @ middle / found.sum()) / 1e3,
        *(run.queue_quantiles([0.5, 0.9, 0.99], by="arrivals").isel(link=1).to_numpy() / 1e3).tolist(),
        use=(arrived - 8.0 * 1500.0 * float(drops.mean())) / 100e6,
        drops=int(drops.sum()),
        median_time=float(times["response_time"].median()),
        large_time=float(times.loc[times["size"] > LARGE, "response_time"].mean()),
    )


def main() -> None:
    """Print one row for each protocol, load and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--loads", type=float, nargs="+", default=[90.0], help="Mb/s of responses")
    parser.add_argument("--duration", type=float, default=90.0, help="s; the first third is not looked at")
    parser.add_argument("--protocols", nargs="+", default=list(PROTOCOLS), choices=list(PROTOCOLS))
    given = parser.parse_args()
    print(f"{'':8} {'Mb/s':>5} {'seed':>4} {'queue found [kB]':^35} {'[%]':>7} {'':>7} {'response [ms]':>19}")
    print(f"{'':19}{TITLE}")
    for load in given.loads:
        for name in given.protocols:
            for seed in range(1, given.seeds + 1):
                print(
                    f"{name:8} {load:5.0f} {seed:4d} {look(PROTOCOLS[name], load * 1e6, seed, given.duration)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
