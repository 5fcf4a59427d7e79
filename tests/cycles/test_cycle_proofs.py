"""Proofs of the cycles of protocols: the map of the proof is that of the cycle, and proofs agree with multipliers."""

import numpy as np
import pytest

import ecc
from ecc.cycles.loss_rounds import loss_rounds
from ecc.cycles.marking_rounds import marking_rounds, round_over_threshold
from ecc.cycles.orbit_proofs import prove_rounds
from ecc.cycles.reference_cases import cycle_case
from ecc.cycles.step_marking import step_marking_cycle
from ecc.errors import LinearizationError
from ecc.laws.arguments import call_law
from ecc.stability import cover_cycles, limit_cycle, prove_cycle


def written_out(host, network, threshold, state):
    """A round of the first flow and the others, of which states move first, and windows unless they are held."""
    n, capacity, rtt = network.n_flows, float(network.capacities[0]), float(network.rtts[0])
    packet, held = 8.0 * network.flows[0].mean_packet, state[-1]
    size = 1 + len(host.states)
    flows = [state[:size], state[size:-1]]
    bits = flows[0][0] + (n - 1) * flows[1][0]
    marked = bits > capacity * rtt + threshold
    D = max(rtt, bits / capacity)
    after = []
    for w, *values in flows:
        known = {"w": w, **dict(zip(host.states, values, strict=True)), "D": D, "marked": float(marked)}
        known |= {"s": packet, "a": packet, "p": host.namespace()}
        for name, each in host.states.items():
            known[name] = call_law(each.law, known)
        if marked and not held:
            known["w"] = call_law(host.marked_round_law or host.mark_response_law, known)
        elif not held:
            known["w"] = call_law(host.source_law, known)
        after += [known["w"], *(known[name] for name in host.states)]
    return [*after, 1 if marked and not held else 0]


@pytest.mark.parametrize("name", ["DCTCP", "Prague"])
def test_cycles_over_a_threshold_are_proven(name):
    loop, network = cycle_case(getattr(ecc.models, name)())
    form = marking_rounds(loop, network)
    (host,), state = loop.protocols[:1], list(form.state)
    for _ in range(form.rounds):
        expected = written_out(host, network, form.p.threshold, state)
        state = round_over_threshold(state, form.p)
        np.testing.assert_allclose(np.array(state, float), expected, rtol=1e-13)
    np.testing.assert_allclose(state, form.state, rtol=1e-9)
    proof = prove_cycle(loop, network)
    cycle = step_marking_cycle(loop, network, "discrete")
    assert proof.multipliers_inside is True and proof.errors.max() < 1e-12
    for value in cycle.multipliers:
        assert np.abs(proof.multipliers - value).min() < 1e-6


@pytest.mark.parametrize(("name", "flows"), [("NewReno", 1), ("NewReno", 2), ("CUBIC", 2), ("Compound", 1)])
def test_sawteeth_in_rounds_are_proven(name, flows):
    network = ecc.Network.dumbbell("1 Mb/s", rtts=["80 ms"] * flows, buffer="8 kB")
    form = loss_rounds(getattr(ecc.models, name)(), network)
    proof = prove_rounds(form)
    assert proof.multipliers_inside is True and proof.errors.max() < 1e-12
    cycle = limit_cycle(name, network, time="discrete")
    assert cycle.period == pytest.approx(sum(durations(form)), rel=1e-7)
    for value in cycle.multipliers:
        assert np.abs(proof.multipliers - value).min() < 0.01


def durations(form):
    """RTTs of the rounds of an orbit, from the windows in each round: without their growth at its end."""
    state, p = list(form.state), form.p
    size = len(state) // len(p.motions(p).groups)
    for _ in range(form.rounds):
        state = list(form.law(state, p))
        flows = [state[k : k + size] for k in range(0, len(state), size)]
        in_flight = sum(w - (0.0 if responds else growth) for w, *_, growth, responds in flows)
        yield p.rtt + min(max(0.0, in_flight / p.capacity - p.rtt), 8.0 * p.buffer / p.capacity)


def test_a_sawtooth_on_a_jump_of_its_law_is_undecided():
    """Both flows of BIC lose at the window that they remember, at which BIC's comparison of the two jumps."""
    network = ecc.Network.dumbbell("1 Mb/s", rtts=["80 ms"] * 2, buffer="8 kB")
    proof = prove_cycle("BIC", network)
    assert not proof.exists and "the comparison in next_maximum (bic.py" in proof.reason


@pytest.mark.slow
def test_ranges_of_networks_are_covered():
    cover = cover_cycles("NewReno", "1 Mb/s", ("40 ms", "44 ms"), "8 kB", flows=2, max_boxes=20)
    assert 0.5 < cover.stable < 1.0 and cover.unstable == 0.0 and cover.max_multiplier < 0.51
    box, proof = max(cover.proofs, key=lambda each: each[0]["rtt"][1] - each[0]["rtt"][0])
    for rtt in box["rtt"]:
        network = ecc.Network.dumbbell("1 Mb/s", rtts=[rtt * (1.0 + 1e-9 * (rtt == box["rtt"][0]))] * 2, buffer="8 kB")
        single = prove_cycle("NewReno", network)
        assert single.multipliers_inside is True
        assert abs(single.multipliers[0] - proof.multipliers[0]) <= proof.errors[0] + 1e-12


def test_ranges_that_are_refused():
    with pytest.raises(ValueError, match=r"rtt must be > 0, or a pair \(lowest, highest\)"):
        cover_cycles("NewReno", "1 Mb/s", ("44 ms", "40 ms"), "8 kB")
    with pytest.raises(ValueError, match="flows must be <= 16, got 17"):
        cover_cycles("NewReno", "1 Mb/s", "40 ms", "8 kB", flows=17)
    with pytest.raises(ValueError, match="max_boxes must be >= 1, got 0"):
        cover_cycles("NewReno", "1 Mb/s", "40 ms", "8 kB", max_boxes=0)
    with pytest.raises(LinearizationError, match="no ACK-clocked windows that respond to losses"):
        cover_cycles("XCP", "1 Mb/s", "40 ms", "8 kB")


def test_limit_cycles_can_be_proven():
    cycle = limit_cycle("DCTCP", time="discrete", certify=True)
    assert cycle.proven and cycle.stable
    assert not limit_cycle("DCTCP", time="discrete").proven
    with pytest.raises(ValueError, match="certify must be False for time 'continuous'"):
        limit_cycle("DCTCP", certify=True)


def test_a_loop_without_a_map_per_round_is_refused():
    with pytest.raises(LinearizationError, match="XCP has no map per round here: it declares no map per round; "):
        prove_cycle("XCP")


def test_covers_of_cycles_report_the_network(monkeypatch):
    monkeypatch.setattr("ecc._support.reports._INTERVAL", 0.0)
    texts = []
    cover_cycles("NewReno", "1 Mb/s", ("40 ms", "42 ms"), "8 kB", max_boxes=3, progress=texts.append)
    assert texts and all(text.startswith("rtt = 0.04") for text in texts)
