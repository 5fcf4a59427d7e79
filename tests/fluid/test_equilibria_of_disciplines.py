"""Fluid runs over queue disciplines that begin at the equilibrium: they stay there, or move as linear models do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

import ecc
from ecc.contract.assignment import read_protocol
from ecc.errors import LinearizationError
from ecc.loops.closed_loop import linearize
from ecc.loops.marked_hosts import equilibrium_of_marks
from ecc.models import DCTCP, NewReno
from ecc.network.impairments import RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.queues import AVQ, PI, PI2, PIE, RED, REM
from ecc.scenario import Scenario

S = 8000.0  # bit, a packet
SIXTY = Network.dumbbell("30 Mb/s", rtts=[0.2] * 60, packet_size=1000)
LOT = Network(
    links=[Link("10 Mb/s", "5 ms"), Link("8 Mb/s", "5 ms")],
    flows=[Flow([0, 1], access_delay=0.01)] * 4
    + [Flow([0], access_delay=0.03)] * 4
    + [Flow([1], access_delay=0.02)] * 4,
)
GENTLE = {
    PI: {"a": 1.822e-5, "b": 1.816e-5, "reference": 30.0},
    RED: {"min_threshold": 10.0, "max_threshold": 100.0, "p_max": 0.05, "weight": 1e-5},
    PI2: {"alpha": 0.03, "beta": 0.3},
    PIE: {},
    REM: {},
    AVQ: {},
}


def settled(host, discipline, network):
    return equilibrium_of_marks(read_protocol({"flows": host, "links": discipline}).deploy(network), network)


def run(host, discipline, network, end, **options):
    scenario = Scenario(network, {"flows": host, "links": discipline}, end)
    return ecc.fluid.simulate(scenario, start="equilibrium", **options)


# ---- they stay there ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [SIXTY, pytest.param(LOT, marks=pytest.mark.slow)], ids=["sixty", "lot"])
@pytest.mark.parametrize("host", [NewReno(ecn=True), NewReno(), DCTCP()], ids=["marked", "dropped", "DCTCP"])
@pytest.mark.parametrize("kind", GENTLE)
def test_a_run_that_begins_at_the_equilibrium_stays(kind, host, network):
    """Windows, queues, states of queues and hosts; a second is five to thirty RTTs."""
    discipline = kind(mark=host != NewReno(), **GENTLE[kind])
    point = settled(host, discipline, network)
    states = [f"link.{name}" for name in discipline.states] + [f"flow.{name}" for name in host.states]
    found = run(host, discipline, network, 1.0, sample=0.1, clocking="rate", record=["env.window", *states])
    assert found["env.window"].to_numpy() == pytest.approx(np.tile(point.windows / 8.0, (10, 1)), rel=1e-6)
    assert found.rate.to_numpy() == pytest.approx(np.tile(point.rates, (10, 1)), rel=1e-6)
    assert found.queue.to_numpy() == pytest.approx(np.tile(point.queues / 8.0, (10, 1)), rel=1e-5, abs=1.0)
    for name in discipline.states:
        expected = [its[name] for its in point.states]
        assert found[f"link.{name}"].to_numpy() == pytest.approx(np.tile(expected, (10, 1)), rel=1e-5)
    for name in host.states:
        expected = [its[name] for its in point.host_states]
        assert found[f"flow.{name}"].to_numpy() == pytest.approx(np.tile(expected, (10, 1)), rel=1e-5)
    lost = found.drops.sum("time").to_numpy() * S
    chosen = np.zeros(network.n_links)
    for flow, x in zip(network.flows, point.rates, strict=True):
        for link in flow.route:
            chosen[link] += x * point.probabilities[link]
            x *= 1.0 - (0.0 if discipline.mark else point.probabilities[link])
    assert (found.marks.sum("time").to_numpy() * S if discipline.mark else lost) == pytest.approx(chosen, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"impairments": [RandomLoss(0.01, link=0)]},
            ValueError,
            "start must be 'empty' for a fluid run over queue disciplines with random losses, got 'equilibrium'",
        ),
        (
            {"host": NewReno(ecn=True, receiver_window=8000)},
            LinearizationError,
            "windows of NewReno would be 13333.3 bytes, more than its receiver_window of 8000 bytes",
        ),
    ],
)
def test_there_is_none_beside_random_losses_and_receiver_windows(options, error, message):
    pair = {"flows": options.pop("host", NewReno(ecn=True)), "links": PI(mark=True)}
    with pytest.raises(error, match=message):
        ecc.fluid.simulate(Scenario(SIXTY, pair, 1.0, **options), start="equilibrium")


# ---- or move as linear models do ---------------------------------------------------------------------------

GAINS = np.array([0.9, 0.97, 1.03, 1.1])
LOOPS = {
    "PI": (NewReno(ecn=True), lambda k: PI(mark=True, a=1.822e-5 * k, b=1.816e-5 * k, reference=200.0), 3.5454),
    "RED": (
        NewReno(ecn=True),
        lambda k: RED(mark=True, min_threshold=50.0, max_threshold=400.0, p_max=0.05, weight=2e-5 * k),
        8.6185,
    ),
    "PI2": (NewReno(ecn=True), lambda k: PI2(mark=True, alpha=0.3125 * k, beta=3.125 * k, interval=0.032), 0.40175),
    "DCTCP": (DCTCP(), lambda k: PI2(mark=True, alpha=0.3125 * k, beta=3.125 * k, interval=0.032), 1.21294),
}
"""Host, discipline with all gains times k, and its boundary for sixty flows that pace."""
BY_ACKS = {"PI": 11.268, "RED": 15.818, "PI2": 0.91699, "DCTCP": 2.5789}
"""The boundaries where ACKs clock windows."""


def dominant(time, signal):
    """The mode of a signal that has one, by the recurrence of its samples."""
    steps = np.column_stack([signal[1:-1], signal[:-2]])
    (a, b), *_ = np.linalg.lstsq(steps, signal[2:], rcond=None)
    z = np.roots([1.0, -a, -b]).astype(complex)
    return np.log(z[np.argmax(z.imag)]) / (time[1] - time[0])


@pytest.mark.slow
@pytest.mark.parametrize("clocking", ["rate", "ack"])
@pytest.mark.parametrize("name", LOOPS)
def test_growth_and_frequency_are_those_of_the_linear_model_on_both_sides_of_its_boundary(name, clocking):
    """Paced, within 1 % of the growth, 3 % from where it is 0; clocked by ACKs, within 0.1 % of the frequency."""
    host, make, about = LOOPS[name]
    about = about if clocking == "rate" else BY_ACKS[name]

    def root(k):
        return linearize({"flows": host, "links": make(k)}, SIXTY, clocking=clocking).roots(2)[0]

    boundary = brentq(lambda k: root(k).real, 0.95 * about, 1.05 * about, rtol=1e-9)
    assert boundary == pytest.approx(about, rel=1e-3)
    growth = []
    for gain in GAINS:
        discipline, expected = make(gain * boundary), root(gain * boundary)
        period = 2.0 * np.pi / expected.imag
        moving = run(
            host,
            discipline,
            SIXTY,
            20.0 * period,
            sample=period / 25.0,
            clocking=clocking,
            perturbation=1e-6 if gain < 1.0 else 1e-9,
        )
        late = moving.queue[200:, 0]
        found = dominant(late["time"].to_numpy(), late.to_numpy() - settled(host, discipline, SIXTY).queues[0] / 8.0)
        near = 0.01 * abs(expected.real) if clocking == "rate" else 1e-3 * expected.imag
        assert found.real == pytest.approx(expected.real, abs=near)
        assert found.imag == pytest.approx(expected.imag, rel=1e-3 if clocking == "rate" else 2e-3)
        growth.append(found.real)
    zero = brentq(np.polynomial.Polynomial.fit(GAINS, growth, 3), 0.95, 1.05)
    assert zero == pytest.approx(1.0, abs=2e-3)
