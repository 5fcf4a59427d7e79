"""Checks of claims on HPCC."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ecc import packet
from ecc.claims.checks.data_centers.margins import proven
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.records import per_hop
from ecc.loops.closed_loop import linearize
from ecc.models import HPCC
from ecc.models import hpcc as law
from ecc.models.shared import telemetry
from ecc.network.network import Network
from ecc.results.metrics import jain_index
from ecc.scenario import Scenario

C, T, ETA = 100e9, 10e-6, 0.95
PIPE = C * T / 8.0
"""Bandwidth-delay product C T [bytes]."""
SETUP = "One link of 100 Gb/s, RTT 10 us without queue, packets of 1000 bytes; eta = 0.95; 3 ms, the second half."


@lru_cache
def _run(flows: int, w_ai: float) -> tuple[float, float]:
    """Return arrivals over C, and the mean queue [bytes], in the second half of a packet run."""
    network = Network.dumbbell(C, [T] * flows, starts=[1e-6 * k for k in range(flows)])
    run = packet.simulate(Scenario(network, HPCC(base_rtt=T, line_rate=C, w_ai=w_ai), 3e-3), sample=1e-5)
    half = len(run.queue) // 2
    return float(run.rate[half:].sum("flow").mean()) / C, float(run.queue[half:, 0].mean())


def _load(flows: int, w_ai: float) -> float:
    """Return U at equilibrium."""
    return ETA + flows * w_ai / PIPE


@check("hpcc-utilization", cost=1)
def hpcc_utilization(claim: Claim) -> Finding:
    """Measure load and queue of packet runs with W_AI = 80 bytes for several numbers of flows."""
    measured, near = [], []
    for flows, w_ai in ((1, 80.0), (4, 80.0), (16, 80.0), (32, 80.0)):
        load, queue = _run(flows, w_ai)
        near.append(abs(load - _load(flows, w_ai)) < 0.02 and queue < 0.05 * PIPE)
        measured += [
            Measurement(
                f"load, {flows} flows",
                load,
                reported=ETA,
                note=f"equilibrium {_load(flows, w_ai):.3f}",
                met=abs(load - ETA) < 0.02,
            ),
            Measurement(f"mean queue, {flows} flows", queue / PIPE, "C T", reported=0.0, met=queue < 0.05 * PIPE),
        ]
    at_eta = [abs(_run(flows, 80.0)[0] - ETA) < 0.02 for flows in (1, 4, 16, 32)]
    verdict = (
        Verdict.CONFIRMED if all(at_eta) and all(near) else Verdict.CONDITIONAL if any(at_eta) else Verdict.REFUTED
    )
    return Finding(
        claim,
        verdict,
        "The load is eta + N W_AI/(C T), which is eta within 2 % if the last term is small. Queues are below 5 % of "
        "C T."
        if all(near)
        else "Load or queue of packet runs differs from eta + N W_AI/(C T) by more than 2 % or 5 % of C T.",
        measured,
        (),
        [SETUP, "W_AI = 80 bytes."],
    )


@check("hpcc-empty", cost=1)
def hpcc_empty(claim: Claim) -> Finding:
    """Measure mean queues of packet runs below and above the rule."""
    measured, below, above = [], True, True
    for flows in (4, 16):
        rule = PIPE * (1.0 - ETA) / flows
        for share in (0.5, 0.9, 2.0, 4.0):
            w_ai = float(round(share * rule))
            _, queue = _run(flows, w_ai)
            stands = max(_load(flows, w_ai) - 1.0, 0.0) * PIPE
            if share < 1.0:
                below &= queue < 0.05 * PIPE
            else:
                above &= queue > 0.5 * stands
            measured.append(
                Measurement(
                    f"mean queue, {flows} flows, W_AI {share:g} times the rule",
                    queue / PIPE,
                    "C T",
                    reported=0.0 if share < 1.0 else None,
                    note=f"equilibrium {stands / PIPE:.3f}",
                    met=queue < 0.05 * PIPE if share < 1.0 else queue > 0.5 * stands,
                )
            )
    return Finding(
        claim,
        Verdict.CONFIRMED if below and above else Verdict.CONDITIONAL if below or above else Verdict.REFUTED,
        "Within the rule mean queues are below 5 % of C T. Above it the standing queue is (eta + N W_AI/(C T) - 1) C T."
        if below and above
        else "Some queues of packet runs within the rule exceed 5 % of C T, or some above the rule are shorter "
        "than stated.",
        measured,
        (),
        [SETUP],
    )


# ---- a path of two links -----------------------------------------------------------------------------------


@dataclass
class _FlowState(law.FlowState):
    """A host's state, with an average for each link and sums for means over ACKs."""

    loads: tuple[float, ...] = per_hop()
    acks: float = 0.0
    sum_U: float = 0.0
    sum_load: float = 0.0  # sum of the first link's average


@dataclass(frozen=True)
class _Counted(HPCC):
    """HPCC that sums its measurements; if `late`, U is the maximum of averages instead of the average of maxima."""

    late: bool = False
    FlowState = _FlowState

    def params(self) -> dict[str, float]:
        return {"late": float(self.late), **super().params()}

    def flow_hooks(self) -> dict[str, Hook]:
        return super().flow_hooks() | {"on_ack": _on_ack}


def _on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    T, largest, loudest, weight = p.base_rtt, 0.0, 0.0, 0.0
    if flow.hops > 0:
        for k in range(header.hops):
            passed = header.time[k] - flow.time[k]
            if passed > 0.0:
                rate = 8.0 * (header.sent[k] - flow.sent[k]) / passed
                u = law.in_flight(8.0 * min(header.queue[k], flow.queue[k]), rate, header.capacity[k], T)
                flow.loads[k] += min(passed / T, 1.0) * (u - flow.loads[k])
                if u > loudest:
                    loudest, weight = u, min(passed / T, 1.0)
            largest = max(largest, flow.loads[k])
    if p.late > 0.0 and loudest > 0.0 and weight < 1.0:
        flow.U = (largest - weight * loudest) / (1.0 - weight)  # the law's average then equals the maximum
    law.flow_on_ack(flow, header, p, env)
    flow.acks += 1.0
    flow.sum_U += flow.U
    flow.sum_load += flow.loads[0]


class _Path(NamedTuple):
    """The flow over two links and one over a link: rates [Gb/s], mean windows, mean U, and mean report of link 0."""

    rates: tuple[float, float]
    windows: tuple[float, float]
    U: tuple[float, float]
    loads: tuple[float, float]


def _on_a_path(late: bool, size: int, w_ai: float) -> _Path:
    """Return results for a flow over two links of 10 Gb/s and one flow over each link; second half of 20 ms."""
    network = Network.parking_lot([10e9] * 2, delay=5e-6, starts=[0.0, 31.7e-6, 57.41e-6], packet_size=size)
    protocol = _Counted(base_rtt=20e-6, line_rate=10e9, w_ai=w_ai, late=late)
    names = ("acks", "sum_U", "sum_load", "reference")
    run = packet.simulate(Scenario(network, protocol, 20e-3), sample=1e-5, record=[f"flow.{name}" for name in names])
    half = len(run.queue) // 2
    acks, U, load, window = (run[f"flow.{name}"].to_numpy()[half:, :2] for name in names)
    passed, rates = acks[-1] - acks[0], run.rate[half:].mean("time").to_numpy() / 1e9
    means = [rates[:2], window.mean(axis=0), (U[-1] - U[0]) / passed, (load[-1] - load[0]) / passed]
    return _Path(*(tuple(float(value) for value in mean) for mean in means))  # type: ignore[arg-type]


@check("hpcc-path", cost=3, main=False)
def hpcc_path(claim: Claim) -> Finding:
    """Measure windows and U over one and two links; also with small packets, and with averages before the maximum."""
    w_ai = 300.0
    network = Network.parking_lot([10e9] * 2, delay=5e-6)
    rest = HPCC(base_rtt=20e-6, line_rate=10e9, w_ai=w_ai).equilibrium(network).rates[0] / 1e9
    published = _on_a_path(False, 1000, w_ai)
    predicted = [w_ai / (1.0 - ETA / U) for U in published.U]
    variants = {
        "packets of 100 bytes": _on_a_path(False, 100, w_ai),
        "averages of links before the maximum": _on_a_path(True, 1000, w_ai),
        "both": _on_a_path(True, 100, w_ai),
        "packets of 1000 bytes, W_AI = 1000 bytes": _on_a_path(False, 1000, 1000.0),
    }
    both = variants["both"].rates
    fair, limit = abs(published.rates[0] / rest - 1.0) < 0.1, abs(both[0] / rest - 1.0) < 0.1
    measured = [
        Measurement(
            "rate of the flow over two links",
            published.rates[0],
            "Gb/s",
            reported=float(rest),
            note=f"flow over one link {published.rates[1]:.2f}",
            met=fair,
        ),
        *(
            Measurement(
                f"window of a flow over {name}",
                published.windows[k],
                "bytes",
                note=f"W_AI/(1 - eta/U) for its mean U: {predicted[k]:.0f}",
            )
            for k, name in enumerate(("two links", "one link"))
        ),
        Measurement(
            "mean U of the flow over two links",
            published.U[0],
            note=f"report of a single link to it: {published.loads[0]:.4f}",
        ),
        Measurement("mean U of a flow over one link", published.U[1]),
        *(
            Measurement(
                f"rate of the flow over two links, {name}",
                variant.rates[0],
                "Gb/s",
                note=f"flow over one link {variant.rates[1]:.2f}; U {variant.U[0]:.4f} and {variant.U[1]:.4f}",
            )
            for name, variant in variants.items()
        ),
    ]
    return Finding(
        claim,
        Verdict.CONFIRMED if fair else Verdict.CONDITIONAL if limit else Verdict.REFUTED,
        f"The flow over two links has {published.rates[0]:.1f} Gb/s instead of {rest:.1f}. Windows are W_AI/(1 - "
        "eta/U) "
        f"for the U that each flow measures, but these differ: {published.U[0]:.3f} and {published.U[1]:.3f}. A single "
        f"link reports {published.loads[0]:.3f} to it, but the maximum of two noisy reports exceeds each of them. With "
        f"small packets and averages of links before the maximum it has {both[0]:.1f} Gb/s.",
        measured,
        (),
        [
            "Two links of 10 Gb/s, RTTs of 20 us over both and 10 us over one, T = 20 us, eta = 0.95, W_AI = 300 "
            "bytes, "
            "packets of 1000 bytes unless stated; 20 ms, the second half, one seed."
        ],
    )


@check("hpcc-stable", cost=1)
def hpcc_stable(claim: Claim) -> Finding:
    """Compute certificates for the loop within and above the rule for W_AI, and packet runs on both sides."""
    measured, within, above_rule = [], True, []
    for share, flows, part in (
        (0.5, 2, 1.0),
        (0.5, 16, 1.0),
        (0.5, 4, 0.5),
        (0.5, 16, 0.25),
        (2.0, 4, 1.0),
        (2.0, 4, 0.5),
        (2.0, 16, 0.25),
    ):
        protocol = HPCC(base_rtt=T, line_rate=C, w_ai=float(round(share * PIPE * (1.0 - ETA) / flows)))
        network = Network.dumbbell(C, [part * T] * flows, starts=[1.37e-7 * k for k in range(flows)])
        stable = proven(linearize(protocol, network))  # type: ignore[arg-type]
        run = packet.simulate(Scenario(network, protocol, 2e-3), sample=2e-7)
        queue = run.queue[len(run.queue) // 2 :, 0].to_numpy()
        steady = float(queue.std()) < 5000.0
        if share < 1.0:
            within &= stable is True and steady
        elif part < 1.0:
            above_rule.append(stable is False and not steady)
        measured.append(
            Measurement(
                f"{flows} flows, RTT = {part:g} T, W_AI {share:g} times the rule: loop",
                str(stable),
                note=f"certified stable or unstable; packet queue {queue.mean():.0f} bytes, standard "
                f"deviation {queue.std():.0f} bytes",
                met=stable,
            )
        )
    verdict = Verdict.REFUTED if not within else Verdict.CONDITIONAL if all(above_rule) else Verdict.CONFIRMED
    return Finding(
        claim,
        verdict,
        "Within the rule for W_AI the link is not full, and U depends only on rates: the loop is provably stable for "
        "paths up to length T, and packet runs do not oscillate. Above the rule there is a standing queue, which on "
        "paths shorter than T integrates rates W/T: the loop is provably unstable, and queues of packet runs swing."
        if verdict is Verdict.CONDITIONAL
        else "Within the rule a loop is not proven stable, or packet runs oscillate."
        if verdict is Verdict.REFUTED
        else "The loop is stable within the rule, and above it in all tested cases.",
        measured,
        (),
        [
            "One link of 100 Gb/s, T = 10 us, packets of 1000 bytes; eta = 0.95; 2 ms, the second half.",
            "The loop (ecc.loops.paced_windows): W = W_c eta/U + W_AI, W_c' = (W - W_c)/RTT, U an average over T.",
        ],
    )


# ---- forms in public simulators ----------------------------------------------------------------------------


FORMS = (
    SETUP.replace("3 ms", "10 ms")
    + " W_AI half of the rule; flows start 20 us apart. 'Reported' is Algorithm 1 with windows. With W_AI = 80 bytes "
    "the rates of two flows differ after 10 ms in all forms: Jain's index is 0.89, with rates 0.68, with htsim "
    "0.85."
)


@dataclass(frozen=True)
class _Htsim(HPCC):
    """HPCC of htsim: a report has weight 0 or 1 and is compared with that of the first ACK, and W itself is divided."""

    def flow_hooks(self) -> dict[str, Hook]:
        return super().flow_hooks() | {"on_ack": _on_ack_of_htsim}


def _on_ack_of_htsim(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    if flow.hops == 0:
        telemetry.keep(flow, header)
    else:
        if header.time[0] - flow.time[0] >= p.base_rtt:
            flow.U = law.measured(flow, header, p)
        divides = flow.U >= p.eta or flow.stage >= p.max_stage
        window = law.divided(env.window, flow.U, p.w_ai, p) if divides else env.window + p.w_ai
        if env.delivered > flow.update_end:
            flow.stage = 0 if divides else flow.stage + 1
        telemetry.send_with(min(max(window, 1.0 * env.packet_size), p.most), p, env)
    if env.delivered > flow.update_end:
        flow.update_end = 1.0 * (env.delivered + env.in_flight)


class _Shared(NamedTuple):
    """Second half of a run: arrivals over C, mean and maximum queue [C T], and Jain's index."""

    load: float
    queue: float
    largest: float
    fairness: float


def _share(host: HPCC, flows: int) -> _Shared:
    """Return the results of flows that start 20 us apart; 10 ms."""
    network = Network.dumbbell(C, [T] * flows, starts=[2e-5 * k for k in range(flows)])
    run = packet.simulate(Scenario(network, host, 10e-3), sample=1e-5)
    half = len(run.queue) // 2
    got, queue = run.goodput[half:].mean("time").to_numpy(), run.queue[half:, 0].to_numpy() / PIPE
    jain = float(jain_index(got))
    return _Shared(float(run.rate[half:].sum("flow").mean()) / C, float(queue.mean()), float(queue.max()), jain)


def _compared(other: type[HPCC], name: str, **form: Any) -> tuple[list[Measurement], list[bool]]:
    """Compare load, queue and fairness of another form with those of the paper."""
    measured, same = [], []
    for flows in (2, 8):
        w_ai = 0.5 * (1.0 - ETA) * PIPE / flows
        paper = _share(HPCC(base_rtt=T, line_rate=C, w_ai=w_ai), flows)
        variant = _share(other(base_rtt=T, line_rate=C, w_ai=w_ai, **form), flows)
        same += [
            abs(variant.load - paper.load) < 0.02,
            abs(variant.queue - paper.queue) < 0.05,
            abs(variant.fairness - paper.fairness) < 0.05,
        ]
        measured += [
            Measurement(f"load, {flows} flows, {name}", variant.load, reported=paper.load, met=same[-3]),
            Measurement(
                f"mean queue, {flows} flows, {name}",
                variant.queue,
                "C T",
                reported=paper.queue,
                met=same[-2],
                note=f"maximum {variant.largest:.2f}, in the paper's form {paper.largest:.2f}",
            ),
            Measurement(
                f"Jain's index, {flows} flows, {name}", variant.fairness, reported=paper.fairness, met=same[-1]
            ),
        ]
    return measured, same


@check("hpcc-forms", cost=1)
def hpcc_forms(claim: Claim) -> Finding:
    """Compare load, queue and shares of the rate form and the window form."""
    measured, same = _compared(HPCC, "rates", form="rate", max_stage=0)
    return Finding(
        claim,
        Verdict.CONFIRMED if all(same) else Verdict.CONDITIONAL if any(same) else Verdict.REFUTED,
        "Load, mean queue and shares agree within 2 %, 5 % of C T and 0.05."
        if all(same)
        else "Load, mean queue or shares of the two forms differ.",
        measured,
        (),
        [FORMS],
    )


@check("hpcc-htsim", cost=1)
def hpcc_htsim(claim: Claim) -> Finding:
    """Measure load, queue and shares with htsim's 0 or 1 weights, first report and compounding division."""
    measured, same = _compared(_Htsim, "htsim")
    fairness = measured[-1].value
    return Finding(
        claim,
        Verdict.CONFIRMED if all(same) else Verdict.CONDITIONAL if any(same) else Verdict.REFUTED,
        "In htsim a report has full weight, its rate is an average since the flow began, and each ACK divides the "
        f"window divided by the ACK before. Load and mean queue agree with Algorithm 1; Jain's index of 8 flows is "
        f"{fairness:.2f}."
        if not all(same)
        else "Load, mean queue and shares agree with Algorithm 1.",
        measured,
        (),
        [FORMS],
    )
