"""Queue disciplines of an access link under one mix of traffic: delays of calls, page loads, fairness, utilization.

A mix is a text such as "cubic:2,bbr,web,call": names with numbers of flows; web and stream have shares of the rate.
Downloads (`cubic`, `newreno`, `bbr`, `prague`) last for the whole run. Their RTTs are evenly spread over the range;
calls have the middle of the range. Delays are measured at the packets or video frames of each application: call,
game, nada, gcc, and cloud (a game rendered elsewhere, with frames as bursts of packets).

With an uplink, ACKs and reports of the mix cross it, next to uploads and calls in the other direction (`up`).
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
from ecc._support.intervals import mean_with_interval
from ecc._support.quantity import as_delay, as_rate, as_time
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.protocol import Protocol
from ecc.models.bbr import BBR
from ecc.models.constant_rate import ConstantRate
from ecc.models.cubic import CUBIC
from ecc.models.gcc import GCC
from ecc.models.nada import NADA
from ecc.models.newreno import NewReno
from ecc.models.prague import Prague
from ecc.network.demands import ACK_SIZE
from ecc.network.impairments import Aggregation
from ecc.network.network import Link, Network
from ecc.packet.simulation import simulate
from ecc.queues import CAKE, PIE, CoDel, DropTail, DualPI2, FQCoDel, Policer, QueueDiscipline
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
CLOUD_RATE = 10e6  # bit/s
HOSTS: Mapping[str, tuple[Callable[[], Protocol], int]] = {  # host of each name of a mix, and its packet size [bytes]
    "cubic": (lambda: CUBIC(transport="sack"), 1500),
    "newreno": (lambda: NewReno(transport="sack"), 1500),
    "bbr": (BBR, 1500),
    "prague": (Prague, 1500),
    "call": (lambda: TimedRate(RATES["call"]), 1200),
    "game": (lambda: TimedRate(RATES["game"]), 200),
    "nada": (lambda: NADA(frames=30.0), 1200),
    "gcc": (lambda: GCC(form="libwebrtc", frames=30.0, min_rate="300 kb/s"), 1200),
    # A controller with one rate: its encoder sends each frame as a burst at 50 times the rate
    "cloud": (lambda: NADA(frames=60.0, min_rate=CLOUD_RATE, max_rate=CLOUD_RATE, headroom=50.0), 1200),
}
MEDIA = ("nada", "gcc", "cloud")
"""Applications that send video frames. Delays are those of frames."""
UP = " up"
"""End of the names of flows that send over the uplink."""
DELAYED_ACKS = (2, "25 ms")  # RFC 9000 sec. 13.2, for flows with an uplink
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
    "utilization_up": "utilization of the uplink [%]",
}
"""Measured quantities and their titles."""
OF_APPLICATION = ("delay_50", "delay_95", "delay_99", "lost")
"""Quantities of each application (call, game, nada, gcc, cloud); the others are those of the whole run."""


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
    duration : float, s, >= 0.04
        Duration of a run; its first quarter is not measured.
    aggregation : float, s, >= 0
        Maximum time for which ACKs of downloads wait for others, uniformly drawn, as in Wi-Fi; 0: ACKs do not wait.
    up : str
        Traffic in the other direction, for example "cubic,call", without pages.
    up_rate : float, bit/s, > 0, or None
        Rate of the uplink, which data of `up` and all ACKs and reports of the mix cross. None: ACKs do not queue;
        with `up`, the rate of the link.
    """

    rate: Any
    rtts: Any = (0.02, 0.08)
    mix: str = "cubic:2,bbr,web,call"
    buffer: Any = 0.2
    duration: Any = 20.0
    aggregation: Any = 0.0
    up: str = ""
    up_rate: Any = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "rate", as_rate(self.rate, "rate"))
        low, high = (as_delay(value, "rtt", positive=True) for value in self.rtts)
        if low > high:
            raise ValueError(f"rtt must be MIN:MAX with MIN <= MAX, got {low:g} s and {high:g} s")
        put(self, "rtts", (low, high))
        put(self, "buffer", as_time(self.buffer, "buffer", positive=True))
        put(self, "duration", as_time(self.duration, "duration", positive=True))
        if self.duration < SAMPLE:
            raise ValueError(f"duration must be >= {SAMPLE:g} s, got {self.duration:g} s")
        put(self, "aggregation", as_delay(self.aggregation, "aggregation"))
        if self.up_rate is not None or self.up:
            put(self, "up_rate", self.rate if self.up_rate is None else as_rate(self.up_rate, "up_rate"))
        if any(name == "web" for name, _ in self.up_parts):
            raise ValueError(f"up must have no pages (web), got {shown(self.up)}")
        if not any(name in BULK for name, _ in self.parts):
            raise ValueError(f"mix must have a download ({', '.join(BULK)}), got {shown(self.mix)}")

    @property
    def parts(self) -> list[tuple[str, float]]:
        """Names of the mix, with the number of flows or the load."""
        return parts_of(self.mix, "mix")

    @property
    def up_parts(self) -> list[tuple[str, float]]:
        """Names of the traffic in the other direction, with the number of flows or the load."""
        return parts_of(self.up, "up") if self.up else []

    @property
    def flows(self) -> list[str]:
        """Name of each flow, in the order of the flows; names of flows over the uplink end with " up"."""
        both = [*self.parts, *((f"{name}{UP}", value) for name, value in self.up_parts)]
        return [name for name, value in both if name != "web" for _ in range(max(int(value), 1))]

    @property
    def applications(self) -> list[str]:
        """Names of the applications whose delays are measured, each once; "none" if the mix has none."""
        return list(dict.fromkeys(self.flows[k] for k in self.timed)) or ["none"]

    @property
    def settings(self) -> dict[str, Any]:
        """Rate [bit/s], RTTs, buffer and times [s], and the mix, by name."""
        low, high = self.rtts
        names = ("rate", "mix", "buffer", "duration", "aggregation", "up", "up_rate")
        return {"rtt_min": low, "rtt_max": high} | {name: getattr(self, name) for name in names}

    def title(self, runs: str) -> str:
        """Return one line with the scenario; `runs` is the number of runs, for example "5 runs"."""
        low, high = (f"{1e3 * rtt:g}" for rtt in self.rtts)
        parts = [
            f"{float(self.rate) / 1e6:g} Mb/s",
            f"RTT {low} ms" if low == high else f"RTT {low} to {high} ms",
            spaced(self.mix),
            *([f"up {float(self.up_rate) / 1e6:g} Mb/s: {spaced(self.up) or 'ACKs'}"] if self.up_rate else []),
            f"buffer {1e3 * float(self.buffer):g} ms",
            *([f"ACKs wait up to {1e3 * float(self.aggregation):g} ms"] if self.aggregation else []),
            f"{runs} of {float(self.duration):g} s",
        ]
        return "; ".join(parts)

    def notes(self, disciplines: Mapping[str, Protocol]) -> list[str]:
        """Return a sentence for each overload by constant rates, and notes on parameters that do not fit the link."""
        rate = float(self.rate)
        path = Network.dumbbell(rate, rtts=self.rtts)
        notes = []
        directions = [("the mix", self.parts, "link", rate, "downloads")]
        if self.up_rate:
            directions.append(("--up", self.up_parts, "uplink", float(self.up_rate), "uploads"))
        for source, parts, link, limit, transfers in directions:
            rates = RATES | {"cloud": CLOUD_RATE}
            load = sum(value * limit if name in SHARES else value * rates.get(name, 0.0) for name, value in parts)
            if load >= limit:
                notes.append(
                    f"The calls, games, streams and pages of {source} need {load / 1e6:.3g} Mb/s, and the {link} has"
                    f" {limit / 1e6:.3g} Mb/s: the {transfers} get what an overload leaves."
                )
        for name, discipline in disciplines.items():
            if isinstance(discipline, QueueDiscipline):
                notes += [f"{name}: {note}." for note in discipline.network_notes(path)]
        return notes

    @property
    def timed(self) -> list[int]:
        """Flows whose delays are measured."""
        return [k for k, name in enumerate(self.flows) if name.removesuffix(UP) not in (*BULK, "stream")]

    def scenario(self, discipline: Protocol, seed: int) -> Scenario:
        """Return the scenario with a discipline at the link."""
        low, high = self.rtts
        names = self.flows
        kinds = [name.removesuffix(UP) for name in names]
        downloads = [k for k, name in enumerate(names) if name in BULK]
        uploads = [k for k, name in enumerate(names) if name not in BULK and kinds[k] in BULK]
        middle = 0.5 * (low + high)
        spread = {
            k: rtt
            for bulk in (downloads, uploads)
            for k, rtt in zip(bulk, np.linspace(low, high, len(bulk)) if len(bulk) > 1 else [middle], strict=False)
        }
        rtts = [float(spread.get(k, middle)) for k in range(len(names))]
        network = Network.dumbbell(self.rate, rtts=rtts, packet_size=1500, buffer=self._buffer(self.rate))
        sizes = [HOSTS[kind][1] if kind in HOSTS else STREAM_SIZE for kind in kinds]
        sized = [replace(flow, packet_size=size) for flow, size in zip(network.flows, sizes, strict=True)]
        network = network.with_flows(sized)
        disciplines = {0: discipline}
        if self.up_rate:
            (down,) = network.links
            paths = [((1,), (0,)) if name.endswith(UP) else ((0,), (1,)) for name in names]
            flows = [
                replace(flow, route=route, reverse=reverse, delayed_acks=DELAYED_ACKS if kind in BULK else None)
                for flow, (route, reverse), kind in zip(network.flows, paths, kinds, strict=True)
            ]
            uplink = Link(self.up_rate, down.delay, self._buffer(self.up_rate))
            network = Network([down, uplink], flows)
            disciplines[1] = self.at_uplink(discipline)
        rates = [*[self.rate] * len(self.parts), *[self.up_rate] * len(self.up_parts)]
        both = zip([*self.parts, *self.up_parts], rates, strict=True)
        streams = iter([share * rate for (name, share), rate in both if name == "stream"])
        hosts: dict[Any, Any] = {
            k: HOSTS[kind][0]() if kind in HOSTS else ConstantRate(next(streams)) for k, kind in enumerate(kinds)
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
                reverse=[1] if self.up_rate else None,
            )
            for name, load in self.parts
            if name == "web"
        ]
        return Scenario(
            network,
            {"flows": hosts | {"default": CUBIC(transport="sack")}, "links": disciplines},
            self.duration,
            seed=seed,
            workload=Workload(arrivals=web) if web else None,
            impairments=[Aggregation((0.0, self.aggregation), acks_of=downloads)] if self.aggregation else (),
        )

    def at_uplink(self, discipline: Protocol) -> Protocol:
        """Return the discipline of the uplink: the same, with the rate of a shaper in proportion to the uplink's."""
        if not isinstance(discipline, (CAKE, Policer)) or discipline.rate is None:
            return discipline
        return replace(discipline, rate=float(discipline.rate) * float(self.up_rate) / float(self.rate))

    def _buffer(self, rate: Any) -> int:
        """Return the size of the buffer at a link of a rate [bytes]: ten packets or more."""
        return max(int(float(rate) * float(self.buffer) / 8.0), 15_000)


def spaced(mix: str) -> str:
    """Return a mix with one space after each comma."""
    return mix.replace(" ", "").replace(",", ", ")


def parts_of(mix: str, field: str) -> list[tuple[str, float]]:
    """Return the names of a mix, with the number of flows or the load; `field` names it in messages."""
    parts = []
    for item in mix.split(","):
        name, sign, text = item.strip().partition(":")
        try:
            value = float(text) if sign else SHARES.get(name, 1.0)
        except ValueError:
            value = -1.0
        if name not in (*HOSTS, *SHARES):
            raise ValueError(f"{field} must have names of {', '.join((*HOSTS, *SHARES))}, got {shown(item)}")
        if not (0.0 < value < 1.0 if name in SHARES else value >= 1.0 and value.is_integer()):
            allowed = "a share between 0 and 1" if name in SHARES else "a number of flows >= 1"
            raise ValueError(f"{field} must have {allowed} after {name!r}, got {shown(item)}")
        parts.append((name, value))
    return parts


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
    kinds = {name.removesuffix(UP) for name in names}
    record = [*(RTT_FIELDS if kinds & RATES.keys() else ()), *(FRAME_FIELDS if kinds & {*MEDIA} else ())]
    run = simulate(scenario, sample=SAMPLE, record=record, cancel=cancel)
    if run.stopped != "completed":
        return {}
    begin, end = WARM_UP * float(link.duration), float(link.duration)
    pages = run.flows.iloc[len(names) :]
    loads = pages["completion_time"][pages["start"] >= begin].dropna()
    rates = run.goodput.sel(time=slice(begin, end)).mean("time").values[: len(names)]
    bulk = np.array([rates[k] for k, name in enumerate(names) if name in BULK])
    places = range(scenario.network.n_links)
    wanted = {("utilization", "utilization_up")[place]: ("utilization", {"link": place}) for place in places}
    used, _ = evaluated(run, scenario, wanted, {"between": (begin, end)})
    of_run = {
        "web_50": 1e3 * float(loads.quantile(0.5)) if len(loads) else np.nan,
        "web_99": 1e3 * float(loads.quantile(0.99)) if len(loads) else np.nan,
        "fairness": float(jain_index(bulk)),
        "utilization_up": np.nan,
        **{name: 100.0 * share for name, share in used.items()},
    }
    return {name: delays_of(link, run, scenario, name) | of_run for name in link.applications}


def delays_of(link: AccessLink, run: Trajectory, scenario: Scenario, application: str) -> dict[str, float]:
    """Return percentiles of an application's added delays [ms], and its lost packets or frames [%].

    Transmission times of a packet at the rate of the link, and of its ACK at that of the uplink, are not part of the
    added delay.
    """
    begin, end = WARM_UP * float(link.duration), float(link.duration)
    rtts = scenario.network.rtts
    delays, lost, sent = [np.zeros(0)], 0.0, 0.0
    for k in link.timed:
        if link.flows[k] != application:
            continue
        kind = application.removesuffix(UP)
        there, back = (link.rate, link.up_rate) if kind == application else (link.up_rate, link.rate)
        transmission = 8.0 * HOSTS[kind][1] / float(there)
        if kind in MEDIA:
            media = frames(run, k).between(begin, 0.95 * end)  # Later ones may be in flight at the end
            flow = scenario.network.flows[k]
            one_way = flow.access_delay + scenario.network.links[flow.route[0]].delay
            delays.append(media.delay - one_way - transmission)
            lost, sent = lost + media.lost, sent + media.last - media.first + 1
        else:
            answered = 8.0 * ACK_SIZE / float(back) if back else 0.0
            delays.append(waits_of_packets(run, k, rtts[k] + transmission + answered))
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
            entry[column], entry[f"{column} ±"] = mean_with_interval(group[column].to_numpy(), 0, 0.95)
        out.append(entry | {"runs": len(group)})
    order = [*dict.fromkeys(table["discipline"])]
    out.sort(key=lambda entry: order.index(entry["discipline"]))
    return pd.DataFrame(out).set_index("discipline")
