"""The gains of DualPI2: which are stable at 20 and at 200 ms, by proof and in packet runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ecc
from ecc.errors import ConvergenceError
from ecc.models import NewReno
from ecc.queues import PI2, DualPI2
from ecc.stability import NetworkRange, cover_range

DEFAULT = DualPI2(packet_size=1500)
SLOWER = replace(DEFAULT, alpha=DEFAULT.alpha / 4.0, beta=DEFAULT.beta / 2.0)
HOST = NewReno(ecn=True, transport="sack")


def links(rtt):
    return NetworkRange(("25 Mb/s", "50 Mb/s"), (4, 16), rtt, packet_size=1500)


def test_the_classic_queue_has_the_parameters_of_the_discipline():
    queue = replace(DEFAULT, target=0.02, coupling=3.0, mark=False).classic_queue
    assert queue == PI2(
        mark=False,
        packet_size=1500,
        target=0.02,
        interval=0.016,
        alpha=DEFAULT.alpha,
        beta=DEFAULT.beta,
        coupling=3.0,
    )


@pytest.mark.parametrize(("rtt", "n"), [(0.02, 4), (0.1, 16)])
def test_default_gains_are_stable_up_to_100_ms_and_not_at_200_ms(rtt, n):
    pair = {"flows": HOST, "links": DEFAULT.classic_queue}
    near, far = (ecc.Network.dumbbell("50 Mb/s", rtts=[value] * n, packet_size=1500) for value in (rtt, 0.2))
    assert ecc.linearize(pair, near).margins().gain_margin > 2.0 and not ecc.linearize(pair, far).is_stable
    assert ecc.linearize({**pair, "links": SLOWER.classic_queue}, far).margins().gain_margin > 2.0


@pytest.mark.slow
def test_gains_are_proven_over_ranges_of_links():
    default, slower = ({"flows": HOST, "links": gains.classic_queue} for gains in (DEFAULT, SLOWER))
    assert cover_range(default, links(("20 ms", "100 ms")), gain_margin=2.0).gain_margin == 2.0
    assert cover_range(slower, links(("20 ms", "200 ms")), gain_margin=2.0).gain_margin == 2.0
    with pytest.raises(ConvergenceError, match="not proven"):
        cover_range(default, links("200 ms"))


@pytest.mark.slow
def test_packets_oscillate_where_the_model_is_unstable():
    """Deviations by noise fall with the number of flows; those of an oscillation do not."""

    def deviation(gains, rtt, n):
        net = ecc.Network.dumbbell(2.5e6 * n, rtts=[rtt] * n, packet_size=1500)
        run = ecc.packet.simulate(ecc.Scenario(net, {"flows": HOST, "links": gains}, 60.0, seed=1), sample=0.005)
        delays = 8.0 * run.queue.values[run.queue["time"].values > 30.0, 0] / (2.5e6 * n)
        return delays.std(), np.percentile(delays, 1)

    (unstable, lowest), (stable, low), (short, _) = (
        deviation(gains, rtt, 160) for gains, rtt in ((DEFAULT, 0.2), (SLOWER, 0.2), (DEFAULT, 0.02))
    )
    assert unstable > 0.006 > 1.5 * stable > 1.5 * short
    assert lowest < 0.0005 < 0.002 < low
