"""Experiments of `cycle_experiments.py` on windows that grow until they lose packets, and on rates of credits."""

from __future__ import annotations

from functools import partial
from typing import Any

from cycle_experiments import GRANULARITY, SMALLER, Case, Experiment, with_packets

from ecc.cycles.losses import loss_cycle
from ecc.models import BIC, ExpressPass
from ecc.network.network import Network

_without_prr = BIC(prr=False, transport="sack")


def _one_bic_without_prr(_: Any, network: Network) -> Case:
    return _without_prr, network.with_flows(network.flows[:1])


def _bic_without_prr(_: Any, network: Network) -> Case:
    return _without_prr, network


def _many_credits(_: Any, network: Network) -> Case:
    """Return hosts that send 500 times as many credits per RTT; a timeout is longer than the RTT."""
    rtts = (500.0 * network.rtts).tolist()
    hosts = ExpressPass(min_rto=0.2)
    buffer = network.links[0].buffer
    return hosts, Network.dumbbell(hosts.max_rate, rtts, buffer=buffer, packet_size=network.flows[0].packet_size)


_small = with_packets(lambda size: size // SMALLER)

EXPERIMENTS: dict[str, tuple[Experiment, ...]] = {
    "ExpressPass": (
        Experiment(
            "with an RTT of 20 ms, 500 times as many credits in an RTT",
            "a flow has 15 credits per RTT and measures its loss in steps of 1/15, while the cycle turns at "
            "differences of 1/100",
            _many_credits,
            times=("discrete",),
        ),
    ),
    "CUBIC": (
        Experiment(
            "for deviations of ten packets, with packets four times smaller",
            "the map per round amplifies deviations below a tenth of a packet, and those of packets decay; with large "
            "packets one of two flows may lose alone",
            _small,
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
