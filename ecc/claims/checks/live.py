"""Checks of live runs that do not repeat other claims: stability boundaries, and the load of hosts and routers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import pi
from typing import Any

from ecc import live, plot
from ecc.claims.checks.common.evidence import ROOM
from ecc.claims.checks.theorems.router_work import PACKETS_PER_SECOND, REPORTED
from ecc.claims.experiments import of_machine
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.errors import ConvergenceError, EccError
from ecc.models import PIQIRCP, QIRCP, NewReno, Protocol
from ecc.network.network import Network
from ecc.packet.hook_time import nanoseconds
from ecc.scenario import Scenario
from ecc.stability import MeasuredBoundary, PerturbedRun, critical_gain, measured_boundary, perturbed_run

LOOPS: tuple[tuple[str, Protocol, float], ...] = (
    ("QI-RCP", QIRCP(gamma=ROOM["gamma"]), 0.04),
    ("QI-RCP", QIRCP(gamma=ROOM["gamma"]), 0.1),
    ("PIQI-RCP", PIQIRCP(gamma=ROOM["gamma"]), 0.05),
)
"""Name, protocol, and RTT of both flows [s]."""
CAPACITY, SIDES, WIDTH = "100 Mb/s", (0.97, 1.03), 0.04
"""Capacity of the link; first gains relative to the hybrid boundary; relative width at which bisection ends."""
SEEN: Mapping[str, Any] = {"periods": 24.0, "perturbation": 0.04, "floor": 6e-3, "ceiling": 0.1}
CLOSE = 0.03
"""Relative distance of boundaries on real frames from the hybrid ones."""
NOT_RUN = "not run live"
PACED, TIMES = 0.25, 3
"""Slowdown factor of timed runs, so small that the thread never waits; number of runs of each protocol."""
FRAMES = 3
"""Frames per packet through one router: data to and from it, and the ACK."""
LITTLE = 0.05
"""Share of the load that counts as negligible."""


@check("open-live", cost=900, main=False)
def open_live(claim: Claim) -> Finding:
    """Find stability boundaries of loops in the fluid, in packet runs and on real frames."""
    results = [_boundaries(*loop) for loop in LOOPS]
    rows = [row for loop_rows, _ in results for row in loop_rows]
    curves = {name: points for _, loop_points in results for name, points in loop_points.items()}
    judged = [row for row in rows if row.met is not None]
    refused = sorted({row.note for row in rows if row.value == NOT_RUN})
    off = [row.name for row in judged if not row.met]
    reason = f"{len(judged) - len(off)} of {len(judged)} values are as expected"
    reason += f"; exceptions: {', '.join(off)}." if off else "."
    if refused:
        reason += f" Not run live: {'; '.join(refused)}."
    figure = plot.boundary_figure(
        [SIDES[0], SIDES[1]],
        {"stability limit": [0.0, 0.0]},
        {},
        curves,
        log_x=False,
        x_title="gain over the hybrid boundary",
        y_title="growth rate [1/s]",
        title="Growth rates near hybrid boundaries",
    )
    return Finding(
        claim,
        Verdict.REFUTED if off else Verdict.CONDITIONAL if refused else Verdict.CONFIRMED,
        reason,
        rows,
        [Picture.of(figure, "Growth rates near hybrid boundaries", "Fits to packet runs and live runs.")],
        [
            "Live runs use network namespaces of one machine and a clock that stops while the process is stalled; runs "
            "with late or lost frames are void and repeated. Notes give the load of the machine at their start.",
        ],
    )


def _boundaries(
    name: str, protocol: Protocol, rtt: float
) -> tuple[list[Measurement], dict[str, tuple[list[float], list[float], list[float]]]]:
    """Return the measurements of a loop, and its growth rates by engine as points."""
    network = Network.dumbbell(CAPACITY, rtts=[rtt, rtt])
    hybrid = critical_gain(protocol, network, "alpha", "hybrid")
    period = 2.0 * pi / hybrid.frequency * protocol.params()["interval"]
    loop = f"{name}, RTT {1e3 * rtt:g} ms"
    rows = [Measurement(f"{loop}: critical alpha, hybrid model", hybrid.value)]
    points: dict[str, tuple[list[float], list[float], list[float]]] = {}
    made: list[PerturbedRun] = []

    def boundary(engine: str) -> MeasuredBoundary:
        def run(at: Protocol, on: Network, its_period: float) -> PerturbedRun:
            made.append(perturbed_run(at, on, its_period, engine=engine, **SEEN))
            return made[-1]

        made.clear()
        ends = [share * hybrid.value for share in SIDES]
        return measured_boundary(protocol, network, "alpha", ends[0], ends[1], period, WIDTH, run=run)

    for engine, word in (("fluid", "fluid"), ("packet", "packets"), ("live", "live")):
        try:
            limit = boundary(engine)
        except EccError as error:
            if engine != "live" or isinstance(error, ConvergenceError):
                raise
            rows.append(Measurement(f"{loop}: live", NOT_RUN, note=str(error)))
            continue
        note = f"+- {limit.error:.1e}, hybrid model {limit.value / hybrid.value - 1.0:+.2%}"
        if engine == "live":
            note += f"; {of_machine([run.trajectory.stats for run in made])}"
        near = None if engine == "fluid" else abs(limit.value / hybrid.value - 1.0) <= CLOSE
        rows.append(Measurement(f"{loop}: critical alpha, {word}", limit.value, note=note, met=near))
        if engine == "fluid":  # the fluid has the boundary of the continuous model
            continue
        points[f"{loop}, {word}"] = (
            (limit.gains / hybrid.value).tolist(),
            limit.growth_rates.tolist(),
            limit.errors.tolist(),
        )
    return rows, points


# ---- load ------------------------------------------------------------------------------------------------


@check("live-cpu", cost=60, main=False)
def live_cpu(claim: Claim) -> Finding:
    """Compare the processing time of a frame in hosts, router and kernel with the time of a link's hooks."""
    network = Network.dumbbell("1 Gb/s", rtts=[0.05], packet_size=1500, buffer="6 MB")
    rows, spent, shares = [], {}, {}
    protocols: dict[str, Protocol] = {name: protocol for name, (protocol, *_) in REPORTED.items()}
    for name, protocol in (protocols | {"NewReno": NewReno()}).items():
        scenario = Scenario(network, protocol, duration=2.0)
        try:
            _timed(scenario.with_(duration=0.1))  # compiles the hooks
            frame, kernel = min(_timed(scenario) for _ in range(TIMES))
        except EccError as error:
            return Finding(claim, Verdict.NOT_COMPARABLE, f"Void: {error}.")
        spent[name] = frame
        load = 100.0 * frame * FRAMES * PACKETS_PER_SECOND
        note = (
            f"{_short(1e6 * frame)} us per frame, {kernel:.0%} of it in the kernel; the router has one third of the "
            "receptions and transmissions"
        )
        rows.append(Measurement(f"{name}: load of a core for all nodes at 1 Gb/s", _short(load), "%", note=note))
        if name in protocols:
            arrival, departure, _ = nanoseconds(protocol).values()
            shares[name] = 1e-9 * (arrival + departure) / (FRAMES * frame)
            note = f"{arrival + departure:.1f} ns per packet"
            share = Measurement(f"{name}: share of the hooks of a link", _short(100.0 * shares[name]), "%", note=note)
            rows.append(replace(share, met=shares[name] < LITTLE))
    heaviest = max(shares, key=shares.__getitem__)
    times = [_short(1e6 * frame) for frame in spent.values()]
    return Finding(
        claim,
        Verdict.CONFIRMED if shares[heaviest] < LITTLE else Verdict.REFUTED,
        f"A frame takes {min(times)} to {max(times)} us of a core with any protocol. The hooks of a link take at most "
        f"{_short(100.0 * shares[heaviest])} % of the time of a packet's {FRAMES} frames ({heaviest}).",
        rows,
        (),
        [
            f"One thread runs all hosts and the router; of the {FRAMES} frames of a packet the router receives one and "
            f"sends one. Runs have {1.0 / PACED:g} times normal speed, so that the thread never waits; the fastest of "
            f"{TIMES} counts.",
            "The verdict is on the share of the hooks; differences in time per frame of a few percent are random.",
        ],
    )


def _timed(scenario: Scenario) -> tuple[float, float]:
    """Return the processor time per frame [s], and the kernel's share of it."""
    from resource import RUSAGE_SELF, getrusage  # not available on all platforms

    before = getrusage(RUSAGE_SELF)
    run = live.simulate(scenario, slow=PACED, lateness="1 s")  # late frames take the same time
    after = getrusage(RUSAGE_SELF)
    if run.stats["void"]:
        raise EccError(run.stats["void"])
    user, kernel = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return run.stats["cpu_seconds"] / run.stats["frames_sent"], kernel / (user + kernel)


def _short(value: float) -> float:
    return float(f"{value:.3g}")
