"""Queue disciplines of an access link under one mix of traffic: delays of calls, page loads, fairness, utilization.

A mix is a text such as "cubic:2,bbr,web,call": names with numbers of flows; web and stream have shares of the rate.
Downloads (`cubic`, `newreno`, `bbr`, `prague`) last for the whole run. Their RTTs are evenly spread over the range;
calls have the middle of the range. Delays are measured at the packets or video frames of each application: call,
game and nada.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.quantity import as_delay, as_rate, as_time
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.protocol import Protocol
from ecc.models.bbr import BBR
from ecc.models.constant_rate import ConstantRate
from ecc.models.cubic import CUBIC
from ecc.models.nada import NADA
from ecc.models.newreno import NewReno
from ecc.models.prague import Prague
from ecc.network.impairments import Aggregation
from ecc.network.network import Network
from ecc.packet.simulation import simulate
from ecc.queues import CAKE, PIE, CoDel, DropTail, DualPI2, FQCoDel
from ecc.results.frames import FRAME_FIELDS, frames
from ecc.results.metrics import evaluated, jain_index
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario
from ecc.traffic.workload import Arrivals, Workload

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AccessLink", "default_disciplines", "measure", "summary", "waits_of_packets"]

RING = 64  # RTTs that the sender of a call keeps
SAMPLE = 0.04  # s, in which at most RING packets of a call, and 16 frames, are acknowledged
RTT_FIELDS = ("flow.n", *(f"flow.rtts[{place}]" for place in range(RING)))


@dataclass(frozen=True)
class TimedRate(ConstantRate):
    """A constant rate whose sender keeps the RTTs of its last packets."""

    @dataclass
    class FlowState:
        n: int = 0  # RTTs so far
        rtts: tuple[float, ...] = (0.0,) * RING  # the last RTTs [s]

    def flow_hooks(self) -> dict[str, Hook]:
        return {**super().flow_hooks(), "on_ack": keep_rtt}


def keep_rtt(flow: TimedRate.FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Keep the RTT of the packet."""
    flow.rtts[flow.n % RING] = env.rtt  # type: ignore[index]
    flow.n += 1


RATES = {"call": 960e3, "game": 100e3}
"""Constant rates of applications [bit/s]."""
HOSTS: Mapping[str, tuple[Callable[[], Protocol], int]] = {  # host of each name of a mix, and its packet size [bytes]
    "cubic": (lambda: CUBIC(transport="sack"), 1500),
    "newreno": (lambda: NewReno(transport="sack"), 1500),
    "bbr": (BBR, 1500),
    "prague": (Prague, 1500),
    "call": (lambda: TimedRate(RATES["call"]), 1200),
    "game": (lambda: TimedRate(RATES["game"]), 200),
    "nada": (lambda: NADA(frames=30.0), 1200),
}
STREAM_SIZE = 1200  # bytes
SHARES = {"web": 0.1, "stream": 0.5}
"""Parts of a mix that have a share of the rate, with its default: pages, and a stream that responds to nothing."""
BULK = ("cubic", "newreno", "bbr", "prague")
WEB_SIZE, WEB_SHAPE = 100_000, 1.5  # bytes, and standard deviation of the logarithm of the size
WARM_UP = 0.25  # share of a run that is not measured
COLUMNS = {
    "delay_50": "added delay of the application, median [ms]",
    "delay_95": "added delay of the application, 95th percentile [ms]",
    "delay_99": "added delay of the application, 99th percentile [ms]",
    "lost": "lost packets or frames of the application [%]",
    "web_50": "page load, median [ms]",
    "web_99": "page load, 99th percentile [ms]",
    "fairness": "fairness of the downloads",
    "utilization": "utilization [%]",
}
"""Measured quantities and their titles."""
OF_APPLICATION = ("delay_50", "delay_95", "delay_99", "lost")
"""Quantities of each application (call, game, nada); the others are those of the whole run."""


@dataclass(frozen=True)
class AccessLink:
    """An access link and the traffic on it.

    Parameters
    ----------
    rate : float, bit/s, > 0
        Rate of the link, for example "50 Mb/s".
    rtts : tuple of two float, s
        Minimum and maximum RTT without queues.
    mix : str
        Traffic, for example "cubic:2,bbr,web,call".
    buffer : float, s, > 0
        Time in which the link sends a full buffer.
    duration : float, s, > 0
        Duration of a run; its first quarter is not measured.
    aggregation : float, s, >= 0
        Maximum time for which ACKs of downloads wait for others, uniformly drawn, as in Wi-Fi; 0: ACKs do not wait.
    """

    rate: Any
    rtts: Any = (0.02, 0.08)
    mix: str = "cubic:2,bbr,web,call"
    buffer: Any = 0.2
    duration: Any = 20.0
    aggregation: Any = 0.0

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "rate", as_rate(self.rate, "rate"))
        low, high = (as_delay(value, "rtt", positive=True) for value in self.rtts)
        if low > high:
            raise ValueError(f"rtt must be MIN:MAX with MIN <= MAX, got {low:g} s and {high:g} s")
        put(self, "rtts", (low, high))
        put(self, "buffer", as_time(self.buffer, "buffer", positive=True))
        put(self, "duration", as_time(self.duration, "duration", positive=True))
        put(self, "aggregation", as_delay(self.aggregation, "aggregation"))
        if not any(name in BULK for name, _ in self.parts):
            raise ValueError(f"mix must have a download ({', '.join(BULK)}), got {shown(self.mix)}")

    @property
    def parts(self) -> list[tuple[str, float]]:
        """Names of the mix, with the number of flows or the load."""
        parts = []
        for item in self.mix.split(","):
            name, sign, text = item.strip().partition(":")
            try:
                value = float(text) if sign else SHARES.get(name, 1.0)
            except ValueError:
                value = -1.0
            if name not in (*HOSTS, *SHARES):
                raise ValueError(f"mix must have names of {', '.join((*HOSTS, *SHARES))}, got {shown(item)}")
            if not (0.0 < value < 1.0 if name in SHARES else value >= 1.0 and value.is_integer()):
                allowed = "a share between 0 and 1" if name in SHARES else "a number of flows >= 1"
                raise ValueError(f"mix must have {allowed} after {name!r}, got {shown(item)}")
            parts.append((name, value))
        return parts

    @property
    def flows(self) -> list[str]:
        """Name of each flow, in the order of the flows."""
        return [name for name, value in self.parts if name != "web" for _ in range(max(int(value), 1))]

    @property
    def applications(self) -> list[str]:
        """Names of the applications whose delays are measured, each once; "none" if the mix has none."""
        return list(dict.fromkeys(self.flows[k] for k in self.timed)) or ["none"]

    @property
    def settings(self) -> dict[str, Any]:
        """Rate [bit/s], RTTs, buffer and times [s], and the mix, by name."""
        low, high = self.rtts
        names = ("rate", "mix", "buffer", "duration", "aggregation")
        return {"rtt_min": low, "rtt_max": high} | {name: getattr(self, name) for name in names}

    def title(self, runs: str) -> str:
        """Return one line with the scenario; `runs` is the number of runs, for example "5 runs"."""
        low, high = (f"{1e3 * rtt:g}" for rtt in self.rtts)
        parts = [
            f"{float(self.rate) / 1e6:g} Mb/s",
            f"RTT {low} ms" if low == high else f"RTT {low} to {high} ms",
            self.mix.replace(" ", "").replace(",", ", "),
            f"buffer {1e3 * float(self.buffer):g} ms",
            *([f"ACKs wait up to {1e3 * float(self.aggregation):g} ms"] if self.aggregation else []),
            f"{runs} of {float(self.duration):g} s",
        ]
        return "; ".join(parts)

    def notes(self, disciplines: Mapping[str, Protocol]) -> list[str]:
        """Return a sentence for each overload: constant rates above the link's, and shapers above the link's rate."""
        rate = float(self.rate)
        load = sum(value * rate if name in SHARES else value * RATES.get(name, 0.0) for name, value in self.parts)
        notes = []
        if load >= rate:
            notes.append(
                f"The calls, games, streams and pages of the mix need {load / 1e6:.3g} Mb/s, and the link has"
                f" {rate / 1e6:.3g} Mb/s: the downloads get what an overload leaves."
            )
        for name, discipline in disciplines.items():
            shaped = getattr(discipline, "rate", None)
            if isinstance(discipline, CAKE) and shaped is not None and float(shaped) > rate:
                notes.append(
                    f"The rate of {name}, {float(shaped) / 1e6:.4g} Mb/s, exceeds the link's {rate / 1e6:.4g} Mb/s:"
                    " the shaper has no effect."
                )
        return notes

    @property
    def timed(self) -> list[int]:
        """Flows whose delays are measured."""
        return [k for k, name in enumerate(self.flows) if name not in (*BULK, "stream")]

    def scenario(self, discipline: Protocol, seed: int) -> Scenario:
        """Return the scenario with a discipline at the link."""
        low, high = self.rtts
        names = self.flows
        bulk = [k for k, name in enumerate(names) if name in BULK]
        middle = 0.5 * (low + high)
        spread = dict(zip(bulk, np.linspace(low, high, len(bulk)) if len(bulk) > 1 else [middle], strict=True))
        rtts = [float(spread.get(k, middle)) for k in range(len(names))]
        buffer = max(int(float(self.rate) * float(self.buffer) / 8.0), 15_000)
        network = Network.dumbbell(self.rate, rtts=rtts, packet_size=1500, buffer=buffer)
        sizes = [HOSTS[name][1] if name in HOSTS else STREAM_SIZE for name in names]
        sized = [replace(flow, packet_size=size) for flow, size in zip(network.flows, sizes, strict=True)]
        shares = iter([share for name, share in self.parts if name == "stream"])
        hosts: dict[Any, Any] = {
            k: HOSTS[name][0]() if name in HOSTS else ConstantRate(next(shares) * self.rate)
            for k, name in enumerate(names)
        }
        web = [
            Arrivals(
                [0],
                8.0 * WEB_SIZE / (load * float(self.rate)),
                WEB_SIZE,
                WEB_SHAPE,
                distribution="lognormal",
                packet_size=1500,
                access_delay=(0.25 * low, 0.25 * high),
            )
            for name, load in self.parts
            if name == "web"
        ]
        return Scenario(
            network.with_flows(sized),
            {"flows": hosts | {"default": CUBIC(transport="sack")}, "links": {0: discipline}},
            self.duration,
            seed=seed,
            workload=Workload(arrivals=web) if web else None,
            impairments=[Aggregation((0.0, self.aggregation), acks_of=bulk)] if self.aggregation else (),
        )


def default_disciplines(rate: float) -> dict[str, Protocol]:
    """Return the disciplines that operators choose from, for a link of a rate [bit/s]."""
    return {
        "DropTail": DropTail(),
        "CoDel": CoDel(mark=True),
        "PIE": PIE(mark=True),
        "FQCoDel": FQCoDel(mark=True),
        "DualPI2": DualPI2(),
        "CAKE": CAKE(rate=0.95 * rate),
    }


def waits_of_packets(run: Trajectory, flow: int, rtt: float) -> NDArray[np.float64]:
    """Return the times by which the RTTs of a call's packets exceed an RTT [s], after the warm-up."""
    counts = np.nan_to_num(run.data["flow.n"].to_numpy()[:, flow]).astype(int)
    rings = np.stack([run.data[name].to_numpy()[:, flow] for name in RTT_FIELDS[1:]], axis=1)
    late = np.flatnonzero(run.data["time"].to_numpy() > WARM_UP * float(run.data["time"][-1]) + 1e-9)
    waits = [np.zeros(0)]
    for sample in late:
        before = counts[sample - 1] if sample else 0
        if counts[sample] - before > RING:
            raise ValueError(f"duration must have at most {RING} packets of the call in {SAMPLE:g} s")
        waits.append(rings[sample, np.arange(before, counts[sample]) % RING] - rtt)
    return np.concatenate(waits)


def measure(
    link: AccessLink, discipline: Protocol, seed: int, cancel: Callable[[], bool] | None = None
) -> dict[str, dict[str, float]]:
    """Return the quantities of a run for each application, by the names of `COLUMNS`; {} if the run was canceled."""
    scenario = link.scenario(discipline, seed)
    names = link.flows
    has_rates = any(name in ("call", "game") for name in names)
    record = [*(RTT_FIELDS if has_rates else ()), *(FRAME_FIELDS if "nada" in names else ())]
    run = simulate(scenario, sample=SAMPLE, record=record, cancel=cancel)
    if run.stopped != "completed":
        return {}
    begin, end = WARM_UP * float(link.duration), float(link.duration)
    pages = run.flows.iloc[len(names) :]
    loads = pages["completion_time"][pages["start"] >= begin].dropna()
    rates = run.goodput.sel(time=slice(begin, end)).mean("time").values[: len(names)]
    bulk = np.array([rates[k] for k, name in enumerate(names) if name in BULK])
    values, _ = evaluated(run, scenario, {"utilization": ("utilization", {})}, {"between": (begin, end)})
    of_run = {
        "web_50": 1e3 * float(loads.quantile(0.5)) if len(loads) else np.nan,
        "web_99": 1e3 * float(loads.quantile(0.99)) if len(loads) else np.nan,
        "fairness": float(jain_index(bulk)),
        "utilization": 100.0 * values["utilization"],
    }
    return {name: delays_of(link, run, scenario, name) | of_run for name in link.applications}


def delays_of(link: AccessLink, run: Trajectory, scenario: Scenario, application: str) -> dict[str, float]:
    """Return percentiles of an application's added delays [ms], and its lost packets or frames [%].

    The transmission time of one packet at the rate of the link is not part of the added delay.
    """
    begin, end = WARM_UP * float(link.duration), float(link.duration)
    rtts = scenario.network.rtts
    delays, lost, sent = [np.zeros(0)], 0.0, 0.0
    for k in link.timed:
        if link.flows[k] != application:
            continue
        empty = rtts[k] + 8.0 * HOSTS[application][1] / float(link.rate)
        if application == "nada":
            media = frames(run, k).between(begin, 0.95 * end)  # Later ones may be in flight at the end
            delays.append(media.delay - (empty - scenario.network.ack_delays[k]))
            lost, sent = lost + media.lost, sent + media.last - media.first + 1
        else:
            delays.append(waits_of_packets(run, k, empty))
            row = run.flows.iloc[k]
            lost, sent = lost + row["lost"], sent + row["lost"] + row["delivered"]
    waits = 1e3 * np.concatenate(delays)
    percentiles = np.percentile(waits, [50, 95, 99]) if len(waits) else np.full(3, np.nan)
    return {
        **dict(zip(OF_APPLICATION, map(float, percentiles), strict=False)),
        "lost": 100.0 * lost / sent if sent else np.nan,
    }


def measured(
    link: AccessLink, disciplines: Mapping[str, Protocol], seeds: Sequence[int], threads: int
) -> Generator[tuple[str, int, dict[str, dict[str, float]]], None, None]:
    """Yield (discipline, seed, quantities) of each run as it ends; the generator's end cancels the runs that remain."""
    canceled = threading.Event()
    pool = ThreadPoolExecutor(threads)
    try:
        tasks = {
            pool.submit(measure, link, discipline, seed, canceled.is_set): (name, seed)
            for seed in seeds
            for name, discipline in disciplines.items()
        }
        waiting = set(tasks)
        while waiting:
            ended, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            for task in ended:
                yield (*tasks[task], task.result())
    finally:
        canceled.set()
        pool.shutdown(wait=True, cancel_futures=True)


def summary(rows: Sequence[tuple[str, int, Mapping[str, Mapping[str, float]]]]) -> pd.DataFrame:
    """Return means over seeds and half-widths of 95 % confidence intervals (Student's t).

    There is one row for each discipline and application, with the discipline as its index. The columns are
    "application", the names of `COLUMNS`, each followed by "±" for the half-width (nan for one seed), and "runs".
    """
    import pandas as pd
    from scipy.stats import t

    table = pd.DataFrame(
        [
            {"discipline": name, "application": application, **values}
            for name, _, applications in rows
            for application, values in applications.items()
        ]
    )
    out = []
    for (name, application), group in table.groupby(["discipline", "application"], sort=False):
        entry: dict[str, Any] = {"discipline": name, "application": application}
        for column in COLUMNS:
            values = group[column].dropna().to_numpy()
            n = len(values)
            entry[column] = values.mean() if n else np.nan
            entry[f"{column} ±"] = t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
        out.append(entry | {"runs": len(group)})
    order = [*dict.fromkeys(table["discipline"])]
    out.sort(key=lambda entry: order.index(entry["discipline"]))
    return pd.DataFrame(out).set_index("discipline")
