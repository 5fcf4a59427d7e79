"""Random phases of senders and links against phase effects (S-186 to S-189)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import ecc
from ecc.contract.protocol import Protocol
from ecc.live.nodes import prepared_for_links
from ecc.models import CUBIC, DCQCN, HPCC, NSCC, TIMELY, BBRv1, ConstantRate, NewReno, PowerTCP
from ecc.native import picoseconds
from ecc.network.demands import incast
from ecc.network.network import Network
from ecc.packet import simulate
from ecc.packet.prepare import prepare
from ecc.scenario import Scenario

GAP = picoseconds(1500 * 8 / 1e7)  # of a sender at 10 Mb/s


def at_one_link(
    n: int, protocol: Any, shift: float = 0.0, spread: float = 0.0, duration: float = 0.1, **fields: Any
) -> Scenario:
    """Equal senders at a link of 100 Gb/s with a buffer of 0.5 MB; starts or RTTs differ by a step."""
    network = Network.dumbbell(
        "100 Gb/s", rtts=[1e-5 + spread * k for k in range(n)], buffer="0.5 MB", starts=[shift * k for k in range(n)]
    )
    return Scenario(network, protocol, duration, **fields)


def losses(scenario: Scenario) -> np.ndarray:
    """Bytes that the network has not delivered, by flow."""
    run = simulate(scenario, sample=scenario.duration / 10)
    return (run.rate - run.goodput).sum("time").to_numpy() * scenario.duration / 10 / 8


def times_of(trace: pd.DataFrame, event: str, entity: int = 0) -> np.ndarray:
    """When events of a kind happened, in ps."""
    return picoseconds(trace[(trace["event"] == event) & (trace["entity"] == entity)]["time"].to_numpy())


def send_times(**fields: Any) -> np.ndarray:
    """When a flow of 10 Mb/s sends, in ps."""
    network = Network.dumbbell("100 Mb/s", rtts=[0.02], packet_size=1500)
    trace = simulate(Scenario(network, ConstantRate("10 Mb/s"), 1.0, **fields), trace=100_000).trace
    return times_of(trace, "send")


# ---- senders ---------------------------------------------------------------------------------------------------------


def test_a_periodic_sender_keeps_its_rate_and_draws_its_phase_every_16_packets():
    times = send_times()
    phases = times - GAP * np.arange(len(times))
    assert phases.min() >= 0 and phases.max() < GAP
    changes = np.flatnonzero(np.diff(phases)) + 1
    assert changes[0] <= 16 and set(np.diff(changes)) == {16}
    drawn = phases[[0, *changes]] / GAP
    assert len(drawn) > 50 and np.abs(np.mean(drawn) - 0.5) < 3 * np.sqrt(1 / 12 / len(drawn))


def test_without_phases_packets_are_evenly_spaced_from_the_start_on():
    assert np.array_equal(send_times(phase_jitter=False), GAP * np.arange(834))


def test_runs_with_one_seed_are_equal_and_with_another_are_not():
    first, again, other = (send_times(seed=seed) for seed in (7, 7, 8))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_a_window_leaves_in_one_burst_less_than_a_packet_time_after_the_ack_that_opens_it():
    network = Network.dumbbell("10 Mb/s", rtts=[0.02], packet_size=1500)
    trace = simulate(Scenario(network, NewReno(), 0.1, phase_jitter=True), trace=100_000).trace
    sends, acks = times_of(trace, "send"), times_of(trace, "ack")
    assert 0 < sends[0] < GAP  # one SEND, and the whole first window is in the network
    assert trace[trace["event"] == "send"]["value"].to_list()[:2] == [0, 3 * 1500]
    waits = [send - acks[acks <= send].max() for send in sends[1:]]
    assert max(waits) < GAP and len(set(waits)) > 3


def test_rtts_that_hosts_measure_have_no_phase_in_them():
    network = Network.dumbbell("100 Mb/s", rtts=[0.02], packet_size=1500)
    run = simulate(Scenario(network, ConstantRate("10 Mb/s"), 1.0), record=["env.rtt"])
    assert float(run.data["env.rtt"][-1, 0]) == pytest.approx(0.02 + 1500 * 8 / 1e8, rel=1e-9)


# ---- links -----------------------------------------------------------------------------------------------------------


def test_a_busy_link_that_leads_to_another_draws_the_phase_of_its_departures():
    """Two senders fill their hosts' links exactly; the port behind them departs evenly, and shares its losses."""
    flows = incast(2, destination=2, packet_size=1500)
    network = Network.leaf_spine(1, 1, 3, flows, "10 Mb/s", buffer="15 kB", ack_links=False)
    trace = simulate(Scenario(network, ConstantRate("10 Mb/s"), 3.0), trace=1_000_000).trace
    for link in (0, 1):
        gaps = np.diff(times_of(trace, "hop", link)[100:])
        assert set(np.diff(np.flatnonzero(gaps != GAP))) == {16}
        assert np.all(gaps > 0) and np.all(gaps < 2 * GAP)
    before = trace.shift(1)[trace["event"] == "drop"]
    shares = before["entity"].value_counts(normalize=True).reindex([0, 1], fill_value=0.0).to_numpy()
    assert set(before["event"]) == {"hop"} and shares == pytest.approx([0.5, 0.5], abs=0.15)


# ---- shares ----------------------------------------------------------------------------------------------------------

EQUAL, SHIFTED, NEARLY_EQUAL = {}, {"shift": 1.1e-7}, {"spread": 1e-10}
CASES = [
    (n, rate, how)
    for n, rate in ((2, "100 Gb/s"), (3, "100 Gb/s"), (8, "50 Gb/s"))
    for how in (EQUAL, SHIFTED, NEARLY_EQUAL)
]


@pytest.mark.parametrize(("n", "rate", "how"), [CASES[0], CASES[1], CASES[7]])
def test_equal_senders_share_losses(n, rate, how):
    found = losses(at_one_link(n, ConstantRate(rate), **how))
    assert found / found.mean() == pytest.approx(np.ones(n), abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "rate", "how"), [pytest.param(*case, marks=pytest.mark.extensive if case[0] == 3 else ()) for case in CASES]
)
def test_equal_senders_share_losses_in_each_of_ten_runs(n, rate, how):
    found = np.array([losses(at_one_link(n, ConstantRate(rate), seed=seed, **how)) for seed in range(1, 11)])
    shares = found / found.mean(axis=1, keepdims=True)
    error = shares.std(axis=0, ddof=1) / np.sqrt(len(shares))
    assert np.all(np.abs(shares.mean(axis=0) - 1.0) < 0.02 + 3 * error) and np.all(np.abs(shares - 1.0) < 0.05)


def test_without_phases_one_of_two_equal_senders_loses_nearly_all():
    found = losses(at_one_link(2, ConstantRate("100 Gb/s"), duration=0.02, phase_jitter=False))
    assert found.max() > 50 * found.min()


INCASTS = [(protocol, n) for protocol in (NSCC(), DCQCN("100 Gb/s"), HPCC()) for n in (2, 3, 8)]
INCASTS.remove((HPCC(), 2))  # two first windows of HPCC fit into the buffer


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 1.1e-7])
@pytest.mark.parametrize(("protocol", "n"), INCASTS)
def test_incasts_share_losses_over_a_hundred_seeds(protocol, n, shift):
    """One of the senders starts later than the others, or none does."""
    network = Network.dumbbell(
        "100 Gb/s",
        rtts=[1e-5] * n,
        buffer="200 kB",
        sizes=["2 MB"] * n,
        packet_size=4096,
        starts=[0.0] * (n - 1) + [shift],
    )
    runs = [simulate(Scenario(network, protocol, 2.0, seed=seed), sample=0.2).flows["lost"] for seed in range(1, 101)]
    found = np.array(runs, float)
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found)) / found.mean()
    assert np.all(np.abs(found.mean(axis=0) / found.mean() - 1.0) < 0.02 + 3 * error)


# ---- relabeling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [ConstantRate("6 Mb/s"), CUBIC(), BBRv1()], ids=["ConstantRate", "CUBIC", "BBRv1"])
def test_without_phases_and_ties_numbering_flows_otherwise_permutes_results(protocol):
    rtts, starts, order = [0.0311234567, 0.0473456781, 0.0597891233], [0.0, 0.01234567, 0.0234567], [2, 0, 1]
    if isinstance(protocol, BBRv1):
        rtts, starts, order = rtts[:1], starts[:1], [0]  # draws its phases in the cycle
    runs = [
        simulate(
            Scenario(
                Network.dumbbell(
                    "10 Mb/s", rtts=[rtts[k] for k in ks], buffer="20 kB", starts=[starts[k] for k in ks], delay=0.001
                ),
                protocol,
                3.0,
                phase_jitter=False,
            )
        )
        for ks in (range(len(rtts)), order)
    ]
    assert np.array_equal(runs[0].goodput.to_numpy()[:, order], runs[1].goodput.to_numpy())


def test_with_phases_the_number_of_a_flow_says_nothing_about_what_it_loses():
    """Of 60 incasts of three equal flows, simultaneous starts included, each number loses as much."""
    network = Network.dumbbell("1 Gb/s", rtts=[1e-4] * 3, buffer="20 kB", sizes=["150 kB"] * 3)
    found = np.array(
        [
            simulate(Scenario(network, NewReno(), 1.0, seed=seed, phase_jitter=True), sample=0.5).flows["lost"]
            for seed in range(1, 61)
        ],
        float,
    )
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - found.mean()) < 3 * error)


# ---- which flows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "protocol", [ConstantRate(1e6), DCQCN(), HPCC(), NSCC(), PowerTCP(), TIMELY()], ids=lambda p: type(p).__name__
)
def test_unresponsive_and_line_rate_senders_have_phases_unless_the_scenario_says_otherwise(protocol):
    assert Protocol.phase_jitter is None is NewReno().phase_jitter
    scenario = at_one_link(1, protocol)
    chosen = [prepare(scenario.with_(phase_jitter=one)).flows["phase_jitter"][0] for one in (None, False)]
    assert chosen == [2 if isinstance(protocol, (ConstantRate, NSCC)) else 1, 0]


def test_links_have_phases_if_a_flow_with_one_leaves_them_for_another_link():
    links = [ecc.Link("10 Mb/s", "1 ms") for _ in range(4)]
    flows = [ecc.Flow([0, 1]), ecc.Flow([2, 3, 1])]
    scenario = Scenario(Network(links, flows), {"flows": {0: ConstantRate(1e6), 1: CUBIC()}}, 1.0)
    setups = [prepare(scenario.with_(phase_jitter=one)) for one in (None, True, False)]
    assert [setup.links["phase_jitter"][:4].tolist() for setup in setups] == [[1, 0, 0, 0], [1, 0, 1, 1], [0] * 4]


def test_a_switch_that_is_no_switch_is_refused_and_live_runs_have_no_phases():
    with pytest.raises(TypeError, match="phase_jitter must be True, False or None, got 1"):
        at_one_link(1, ConstantRate(1e6), phase_jitter=1)
    setup = prepared_for_links(prepare(at_one_link(1, ConstantRate(1e6), phase_jitter=True)))
    assert not setup.flows["phase_jitter"].any() and not setup.links["phase_jitter"].any()


def test_a_protocol_with_an_unknown_word_is_refused():
    class Odd(ConstantRate):
        phase_jitter = "sometimes"

    with pytest.raises(ValueError, match="phase_jitter must be one of None, 'line rate', 'always', got 'sometimes'"):
        prepare(at_one_link(1, Odd(1e6)))
