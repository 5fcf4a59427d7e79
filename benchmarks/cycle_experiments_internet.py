"""Experiments of `cycle_experiments.py` on windows that grow until they lose packets, and on rates of credits."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from cycle_experiments import GRANULARITY, PARTS, Case, Change, Experiment, with_packets

from ecc import packet
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.cycles.losses import loss_cycle
from ecc.models import BIC, CUBIC, ExpressPass, expresspass
from ecc.network.network import Network
from ecc.scenario import Scenario
from ecc.stability import LimitCycle

_without_prr = BIC(prr=False, transport="sack")


def _one_bic_without_prr(_: Any, network: Network) -> Case:
    return _without_prr, network.with_flows(network.flows[:1])


def _bic_without_prr(_: Any, network: Network) -> Case:
    return _without_prr, network


def _cubic_in_small_packets(_: Any, network: Network) -> Case:
    """Return CUBIC with packets PARTS times smaller that windows gain PARTS times as many of: the same cycle."""
    hosts = CUBIC(C=0.4 * PARTS)
    return hosts, with_packets(lambda size: size // PARTS)(hosts, network)[1]


# ---- rates of credits ----------------------------------------------------------------------------------------

SEEDS, SETTLED, CYCLES = 8, 24, 6
"""Runs of `_decay_of_kicks`, RTTs before the deviation, and cycles after it."""
KICK, SAMPLES = 0.01, 8
"""Deviation of rates in `_decay_of_kicks`, over the maximum rate, and samples per RTT."""


def _with_credits(factor: float, **parameters: float) -> Change:
    """Return a change to RTTs longer by a factor, with as many times the credits; a timeout is longer than the RTT."""

    def changed(_: Any, network: Network) -> Case:
        rtts = (factor * network.rtts).tolist()
        hosts, buffer = ExpressPass(min_rto=10.0 * rtts[0], **parameters), network.links[0].buffer
        return hosts, Network.dumbbell(hosts.max_rate, rtts, buffer=buffer, packet_size=network.flows[0].packet_size)

    return changed


@dataclass
class _KickState(expresspass.FlowState):
    kicked: int = 0


@dataclass(frozen=True)
class _Kicked(ExpressPass):
    """ExpressPass with rates of the first two flows that deviate once, by the shares `kick` and `-kick` of X."""

    kick: float = 0.0
    kick_at: float = 0.0

    FlowState = _KickState

    def params(self) -> dict[str, float]:
        return {"kick": self.kick, "kick_at": self.kick_at, **super().params()}

    def flow_hooks(self) -> dict[str, Hook]:
        return {**super().flow_hooks(), "on_send": _send_and_kick}


def _send_and_kick(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Let the rate deviate after a second decrease, when a decrease no longer replaces it by the delivered rate."""
    updated, was_low = flow.updated, flow.was_low
    expresspass.flow_on_send(flow, header, p, env)
    second = flow.updated > updated and was_low == 0 and flow.was_low == 0
    if second and flow.kicked == 0 and env.now >= p.kick_at:
        flow.kicked = 1
        flow.x += (p.kick if env.flow == 0 else -p.kick) * p.max_rate


def _decay_of_kicks(loop: Any, network: Network, computed: LimitCycle) -> LimitCycle:
    """Return the cycle of runs; the multiplier is the mean decay per cycle of a deviation between two rates."""
    rtt = float(network.rtts[0])
    length = SAMPLES * round(computed.period / rtt)
    differences, peaks = [], list[int]()
    for seed in range(SEEDS):
        sign = 1.0 if seed % 2 else -1.0
        known = {field.name: getattr(loop, field.name) for field in fields(loop)}
        hosts = _Kicked(**known, kick=sign * KICK, kick_at=SETTLED * rtt)
        duration = SETTLED * rtt + (CYCLES + 3) * computed.period
        run = packet.simulate(Scenario(network, hosts, duration, seed=seed), rtt / SAMPLES, record=RECORDED)
        rates, kicked = (run.data[name].to_numpy() for name in RECORDED)
        begin = int(np.flatnonzero(kicked.min(axis=1))[0])
        after = rates[begin : begin + length * (CYCLES + 1)].reshape(CYCLES + 1, length, -1).mean(axis=1)
        differences.append(sign * (after[:, 0] - after[:, 1]))
        total = rates[SAMPLES * SETTLED // 2 :].sum(axis=1)
        rises = np.flatnonzero(np.diff((total > total.mean()).astype(int)) > 0)
        peaks += np.diff(rises).tolist()
    mean = np.mean(differences, axis=0)
    decay = abs(float(mean[CYCLES] / mean[0])) ** (1.0 / CYCLES)
    period = float(np.mean(peaks)) * rtt / SAMPLES
    return replace(computed, period=period, multipliers=np.array([decay], dtype=complex))


RECORDED = ["flow.x", "flow.kicked"]


EXPERIMENTS: dict[str, tuple[Experiment, ...]] = {
    "ExpressPass": (
        Experiment(
            "with an RTT of 20 ms, 500 times as many credits in an RTT",
            "a flow has 15 credits per RTT and measures its loss in steps of 1/15, while the cycle turns at "
            "differences of 1/100",
            _with_credits(500.0),
            times=("discrete",),
        ),
        Experiment(
            "with an RTT of 200 ms, 5,000 times as many credits in an RTT, and gaps between them from 0 to twice their "
            "mean",
            "with nearly regular gaps, credits of two flows reach the full buffer in an order that lasts, so that the "
            "link drops more or less of a flow than its share, which moves the turns of its rate",
            _with_credits(5000.0, jitter=0.99),
            measure=_decay_of_kicks,
            times=("discrete",),
        ),
    ),
    "CUBIC": (
        Experiment(
            "of the map for deviations of ten packets, with packets ten times smaller, of which windows gain ten times "
            "as many",
            "the map per round amplifies deviations below a tenth of a packet, and those of packets decay; with large "
            "packets one of two flows may lose alone",
            _cubic_in_small_packets,
            partial(loss_cycle, deviation=10.0),
            times=("discrete",),
        ),
    ),
    "BIC": (
        GRANULARITY,
        Experiment(
            "without proportional rate reduction",
            "hosts reduce their rate gradually in a recovery (proportional rate reduction), and at once in the model",
            _bic_without_prr,
            times=("discrete",),
        ),
        Experiment(
            "for one flow without proportional rate reduction",
            "hosts reduce their rate gradually in a recovery (proportional rate reduction), and two flows not at the "
            "same time; in the model both stop at once",
            _one_bic_without_prr,
            times=("continuous",),
        ),
    ),
}
