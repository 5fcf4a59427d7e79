"""Designs for ranges of networks: what is proven holds on networks drawn at random, and what is not is refused."""

from __future__ import annotations

import numpy as np
import pytest

from ecc.errors import ConvergenceError, LinearizationError
from ecc.loops.closed_loop import linearize
from ecc.models import QIRCP, NewReno
from ecc.queues import PI, PI2, REM, StepMarking
from ecc.stability import NetworkRange, cover_range, decay_rate, design

HOST = NewReno(ecn=True)
REFERENCE, C, R = 200.0, 3750.0, 0.246  # packets, packets/s, s: the example of Hollot, Misra, Towsley, Gong 2001
EXAMPLE = NetworkRange("30 Mb/s", (60, 120), ("100 ms", R - REFERENCE / C))


def published(**others):
    return {"flows": HOST, "links": PI.of_controller(9.64e-6, 0.53, mark=True, reference=REFERENCE, **others)}


def drawn(networks, count=6):
    rng = np.random.default_rng(3)
    for _ in range(count):
        capacity, rtt = (low * (high / low) ** rng.random() for low, high in (networks.capacity, networks.rtt))
        yield networks.at(capacity, rng.integers(networks.flows[0], networks.flows[1] + 1), rtt)


def test_limits_are_read_with_their_units():
    found = NetworkRange(("10 Mb/s", 3e7), 5, "80 ms", packet_size=1500)
    assert (found.capacity, found.flows, found.rtt) == ((1e7, 3e7), (5, 5), (0.08, 0.08))
    assert [network.capacities[0] for network in found.corners()] == [1e7, 3e7]
    assert found.corners()[0].n_flows == 5 and found.corners()[0].flows[0].mean_packet == 1500
    assert len(NetworkRange((1e6, 2e6), (2, 3), (0.1, 0.2)).grid(4)) == 4 * 2 * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("30 Mb/s", (9, 3), 0.1), r"flows must be > 0, or a pair \(lowest, highest\) of such, got \(9, 3\)"),
        (("30 Mb/s", 3, (0.0, 0.1)), r"rtt must be > 0, or a pair \(lowest, highest\) of such, got \(0.0, 0.1\)"),
        (((1e6, 2e6, 3e6), 3, 0.1), r"capacity must be > 0, or a pair .*, got \(1000000.0, 2000000.0, 3000000.0\)"),
    ],
)
def test_limits_that_are_none(arguments, message):
    with pytest.raises(ValueError, match=message):
        NetworkRange(*arguments)


def test_a_grid_has_two_values_at_least():
    with pytest.raises(ValueError, match="flows must be a whole number from 1 to 1000000, got 2.5"):
        EXAMPLE.at(1e7, 2.5, 0.1)
    with pytest.raises(ValueError, match="flows must be <= 1000000, got 2000000"):
        NetworkRange(1e7, 2_000_000, 0.1)
    with pytest.raises(ValueError, match="count must be from 2 to 100, got 1"):
        EXAMPLE.grid(1)


def test_gains_of_a_controller_are_those_that_hollot_et_al_print():
    pi = published()["links"]
    assert (pi.a, pi.b) == pytest.approx((1.822e-5, 1.816e-5), rel=1e-4) and pi.interval == 1.0 / 160.0
    with pytest.raises(ValueError, match="gain must be > 0, got -1"):
        PI.of_controller(-1.0, 0.5)
    with pytest.raises(ValueError, match=r"zero must be < 2/interval, 320 rad/s, or b is not positive, got 400"):
        PI.of_controller(1e-5, 400.0)


@pytest.mark.parametrize("clocking", ["ack", pytest.param("rate", marks=pytest.mark.slow)])
def test_the_published_gains_have_margins_on_every_network_of_their_range(clocking):
    """Clocked at a rate the term of 2 R cancels but for its rounding on some networks."""
    found = cover_range(published(), EXAMPLE, gain_margin=3.0, phase_margin=1.0, clocking=clocking)
    assert found.boxes < 200
    for network in drawn(EXAMPLE):
        margins = linearize(published(), network, clocking=clocking).margins()
        assert margins.stable and margins.gain_margin > 3.0 and margins.phase_margin > 1.0


@pytest.mark.slow
def test_a_range_with_an_unstable_network_is_not_covered():
    """Alone at 246 ms the published gains are unstable below some number of flows."""
    few = next(n for n in range(60, 1, -1) if not linearize(published(), EXAMPLE.at(3e7, n, EXAMPLE.rtt[1])).is_stable)
    assert 1 < few < 40
    with pytest.raises(ConvergenceError, match=f"undecided at capacity = .*, flows = {few}.0 to .*, rtt = "):
        cover_range(published(), NetworkRange("30 Mb/s", (few, 60), EXAMPLE.rtt))


@pytest.mark.slow
def test_a_design_for_a_range_holds_on_all_of_it():
    """One gain: the decay of the search, by a scan over gains, and the margins and the decay proven, on draws."""
    pair = {"flows": HOST, "links": REM(mark=True)}
    networks = NetworkRange("5 Mb/s", (10, 14), ("100 ms", "150 ms"))
    found = design(pair, networks, {"links.gamma": (1e-4, 1e-1)}, gain_margin=2.0, phase_margin=0.5)
    assert found.gains == {"links.gamma": found.protocol.links["default"][0].gamma}
    assert [cover.gain_margin for cover in found.covers] == [2.0, 1.0] and found.covers[1].line == -found.decay
    assert len(found.margins) == len(found.proofs) == 4 and all(proof.stable for proof in found.proofs)
    assert "deviate from interpolation" in repr(found)
    least = np.inf
    for network in [*networks.corners(), *drawn(networks)]:
        system = linearize(found.protocol, network)
        margins, decay = system.margins(), decay_rate(system)
        assert margins.gain_margin > 2.0 and margins.phase_margin > 0.5 and decay > found.decay
        least = min(least, decay)
    assert found.decay > 0.9 * least
    for gamma in np.geomspace(1e-4, 1e-1, 25):
        systems = [linearize(pair | {"links": REM(mark=True, gamma=gamma)}, one) for one in networks.corners()]
        if all(one.is_stable for one in systems):
            seen = [one.margins() for one in systems]
            if min(m.gain_margin for m in seen) > 2.1 and min(m.phase_margin for m in seen) > 0.53:
                assert min(map(decay_rate, systems)) < 1.01 * least


@pytest.mark.slow
def test_two_gains_of_a_callable_for_a_range():
    def pi(gain, zero):
        return {"flows": HOST, "links": PI.of_controller(gain, zero, mark=True, reference=REFERENCE)}

    limits = {"gain": (1e-6, 1e-3), "zero": (0.1, 10.0)}
    found = design(pi, EXAMPLE, limits, gain_margin=2.0, phase_margin=0.7)
    assert np.isnan(found.before) and found.protocol.links["default"][0] == pi(**found.gains)["links"]
    theirs = min(decay_rate(linearize(published(), network)) for network in EXAMPLE.corners())
    assert found.decay > theirs
    for network in drawn(EXAMPLE):
        system = linearize(found.protocol, network)
        margins = system.margins()
        assert margins.gain_margin > 2.0 and margins.phase_margin > 0.7 and decay_rate(system) > found.decay


@pytest.mark.parametrize(
    ("protocol", "parameters", "options", "message"),
    [
        pytest.param(
            {"flows": HOST, "links": StepMarking()},
            {"links.threshold": (1.0, 9.0)},
            {},
            "no equilibrium was found",
            marks=pytest.mark.slow,
        ),
        ({"flows": HOST, "links": PI2()}, {"links.gain": (1.0, 9.0)}, {}, "parameter must be one of .*'links.gain'"),
        (lambda k: PI2(beta=k), {"gain": (1.0, 9.0)}, {}, "parameter must be one of k, got 'gain'"),
        (QIRCP(), {"alpha": (0.1, 1.0)}, {"time": "discrete"}, "time must be 'continuous' for a range of networks"),
        (QIRCP(), {"alpha": (0.1, 1.0)}, {"delay_margin": 0.1}, "delay_margin must be 0 s for a range of networks"),
    ],
)
def test_what_cannot_be_designed(protocol, parameters, options, message):
    with pytest.raises(Exception, match=message) as refused:
        design(protocol, NetworkRange("30 Mb/s", (10, 20), 0.1), parameters, **options)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_margins_that_no_gain_has():
    pair = {"flows": HOST, "links": PI2(mark=True)}
    with pytest.raises(ConvergenceError, match="no gains found that are stable and have the margins"):
        design(pair, NetworkRange("30 Mb/s", 60, 0.1), {"links.beta": (5.0, 10.0)}, gain_margin=5.0)
    with pytest.raises(ValueError, match="gain_margin must be >= 1, got 0.5"):
        cover_range(pair, NetworkRange("30 Mb/s", 60, 0.1), gain_margin=0.5)
    with pytest.raises(ValueError, match="phase_margin must be from 0 to 3 rad, got 4"):
        cover_range(pair, NetworkRange("30 Mb/s", 60, 0.1), phase_margin=4.0)


@pytest.mark.slow
def test_a_range_of_explicit_control():
    """1/(e RTT) is the fastest of QI-RCP for its RTT, and decays as fast with all shorter ones."""
    networks = NetworkRange("1 Gb/s", 2, (0.05, 0.1))
    found = design(QIRCP(), networks, {"alpha": (0.05, 1.0)})
    assert found.gains["alpha"] == pytest.approx(np.exp(-1.0), rel=2e-3)
    assert 0.9 * 10.0 < found.decay < 10.0 and found.before == pytest.approx(7.940236, rel=1e-6)


@pytest.mark.slow
def test_a_network_without_equilibrium_is_named():
    """Windows that a mark leaves two packets cannot be less than 1 + sqrt(2): 1 = p w (w - 2), and p <= 1."""
    pair, limits = {"flows": HOST, "links": PI2(mark=True)}, NetworkRange("10 Mb/s", (10, 80), ("20 ms", "120 ms"))
    named = r"limit 1, with windows of [\d.]+ packets \(on 10 Mb/s with \d+ flows and RTTs of \d+ ms\)"
    with pytest.raises(LinearizationError, match=named):
        cover_range(pair, limits)
    with pytest.raises(LinearizationError, match=named):
        design(pair, limits, {"links.alpha": (0.01, 1.0)})


def test_covers_report_the_network(monkeypatch):
    monkeypatch.setattr("ecc._support.reports._INTERVAL", 0.0)
    texts = []
    pair = {"flows": NewReno(ecn=True), "links": PI(mark=True, reference=200.0)}
    cover_range(pair, NetworkRange("30 Mb/s", (60, 64), 0.1), progress=texts.append)
    assert texts and all(", flows = 6" in text for text in texts)
