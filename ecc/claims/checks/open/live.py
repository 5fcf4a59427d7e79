"""Check that holds live runs against linear models, fluid and packets: stability boundaries, and a flash crowd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import pi
from typing import Any

from ecc import plot
from ecc.claims import experiments
from ecc.claims.checks.common.evidence import ROOM
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check, claims
from ecc.errors import ConvergenceError, EccError
from ecc.models import PIQIRCP, QIRCP, Protocol
from ecc.network import Network
from ecc.stability import MeasuredBoundary, PerturbedRun, critical_gain, measured_boundary, perturbed_run

LOOPS: tuple[tuple[str, Protocol, float], ...] = (
    ("QI-RCP", QIRCP(gamma=ROOM["gamma"]), 0.04),
    ("QI-RCP", QIRCP(gamma=ROOM["gamma"]), 0.1),
    ("PIQI-RCP", PIQIRCP(gamma=ROOM["gamma"]), 0.05),
)
"""Protocols, and the RTT of both flows [s]."""
CAPACITY, BESIDE, WIDTH = "100 Mb/s", (0.97, 1.03), 0.04
"""Of the link; shares of the hybrid boundary that runs begin from; relative width at which bisection ends."""
SEEN: Mapping[str, Any] = {"periods": 24.0, "perturbation": 0.04, "floor": 6e-3, "ceiling": 0.1}
CLOSE = 0.03
"""Relative distance of boundaries on real frames from the hybrid ones."""
NOT_RUN = "not run live"
REPEATED: tuple[tuple[str, tuple[str, ...]], ...] = (("ev-f8", ("RCP", "PIQI-RCP")),)
"""Claims that run on real frames, and which of their runs."""


@check("open-live", cost=900, main=False)
def open_live(claim: Claim) -> Finding:
    """Run loops beside their boundaries, and EVAL's flash crowd, in packets and on real frames."""
    found = [_boundaries(*loop) for loop in LOOPS]
    rows = [row for one, _ in found for row in one]
    curves = {name: points for _, one in found for name, points in one.items()}
    for name, runs in REPEATED:
        rows += repeated(experiments.of_one_seed(claims()[name], runs))
    whole = [row for row in rows if row.met is not None]
    refused = sorted({row.note for row in rows if row.value == NOT_RUN})
    off = [row.name for row in whole if not row.met]
    reason = f"{len(whole) - len(off)} of {len(whole)} figures are where they should be"
    reason += f"; not: {', '.join(off)}." if off else "."
    if refused:
        reason += f" Not run live: {'; '.join(refused)}."
    figure = plot.boundary_figure(
        [BESIDE[0], BESIDE[1]], {"neither": [0.0, 0.0]}, {}, curves, log_x=False,
        x_title="gain, as a share of the hybrid boundary", y_title="growth rate [1/s]",
        title="Growth rates beside hybrid boundaries",
    )  # fmt: skip
    return Finding(
        claim,
        Verdict.REFUTED if off else Verdict.CONDITIONAL if refused else Verdict.CONFIRMED,
        reason,
        rows,
        [Picture.of(figure, "Growth rates beside hybrid boundaries", "Fits to packet runs and to live runs.")],
        [
            "Live runs are between network namespaces of one machine, on a clock that stands while the process is "
            "stalled; runs with late or lost frames are void and made again. Notes have the load of the machine as "
            "they began.",
            "Of ev-f8 one seed, without variations: a live run should meet what the packet run of that seed meets.",
        ],
    )


def _boundaries(
    name: str, protocol: Protocol, rtt: float
) -> tuple[list[Measurement], dict[str, tuple[list[float], list[float], list[float]]]]:
    """Rows of a loop, and its growth rates by engine as points."""
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
        ends = [share * hybrid.value for share in BESIDE]
        return measured_boundary(protocol, network, "alpha", ends[0], ends[1], period, WIDTH, run=run)

    for engine, word in (("fluid", "fluid"), ("packet", "packets"), ("live", "live")):
        try:
            found = boundary(engine)
        except EccError as error:
            if engine != "live" or isinstance(error, ConvergenceError):
                raise
            rows.append(Measurement(f"{loop}: live", NOT_RUN, note=str(error)))
            continue
        note = f"+- {found.error:.1e}, hybrid model {found.value / hybrid.value - 1.0:+.2%}"
        if engine == "live":
            note += f"; {_machine([run.trajectory.stats for run in made])}"
        near = None if engine == "fluid" else abs(found.value / hybrid.value - 1.0) <= CLOSE
        rows.append(Measurement(f"{loop}: critical alpha, {word}", found.value, note=note, met=near))
        if engine == "fluid":  # which has the boundary of the continuous model
            continue
        points[f"{loop}, {word}"] = (
            (found.gains / hybrid.value).tolist(), found.growth_rates.tolist(), found.errors.tolist()
        )  # fmt: skip
    return rows, points


def repeated(claim: Claim) -> list[Measurement]:
    """Return what packets, the fluid and live runs give for each expectation of a claim.

    Parameters
    ----------
    claim : Claim
        Of one seed, as `experiments.of_one_seed` gives it.
    """
    jobs = experiments.plan(claim)
    packets = experiments.judge(claim, jobs, [experiments.perform(*job.arguments) for job in jobs]).measurements
    try:
        chosen, results = experiments.on_real_frames(jobs)
    except EccError as error:
        return [
            *(
                Measurement(f"{claim.id}: {row.name}", row.value, row.unit, row.reported, "packets", row.fluid)
                for row in packets
            ),
            Measurement(f"{claim.id}: live", NOT_RUN, note=str(error)),
        ]
    machine = _machine([result["machine"] for result in results])
    live = experiments.judge(claim, chosen, results).measurements
    return [
        Measurement(
            f"{claim.id}: {row.name}", row.value, row.unit, row.reported,
            f"live; packets {beside.value}; {machine}", beside.fluid, met=row.met == beside.met,
        )
        for row, beside in zip(live, packets, strict=True)
    ]  # fmt: skip


def _machine(runs: Sequence[Mapping[str, Any]]) -> str:
    """What a reader must know of live runs."""
    void = sum(int(run["attempts"]) - 1 for run in runs)
    slow, load, late = (max(run[name] for run in runs) for name in ("slow", "load", "lateness_p999"))
    return f"{slow:g} s of real time a second, load {load:.1f}, 99.9 % less than {1e6 * late:.0f} us late, {void} void"
