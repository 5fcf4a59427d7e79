"""C4's thresholds and cuts by hand; its cycle, its queue and its marks in packets."""

import numpy as np
import pytest

import ecc
from ecc.models import C4, c4
from ecc.network.network import Network
from ecc.scenario import Scenario

C, RTT = 50e6, 0.05
BDP = C * RTT / 8.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: C4(ecn="no"), "ecn must be one of False, True, got 'no'"),
        (lambda: C4(initial=0.0), "initial must be > 0, got 0.0"),
        (lambda: C4(beta=0.5), "C4 must have arguments among transport, .*, initial, .*, ecn, got 'beta'"),
        (lambda: C4(True), "C4 must have at most 0 arguments without a name, got 1"),
        (
            lambda: ecc.linearize(C4(), Network.dumbbell(C, [RTT])),
            "C4 has no linear model: its hosts are state machines",
        ),
        (
            lambda: ecc.fluid.simulate(Scenario(Network.dumbbell(C, [RTT]), C4(), 1.0)),
            "C4 has no fluid model: it uses",
        ),
        (lambda: C4().equilibrium(Network.dumbbell(C, [RTT])), "C4 has no equilibrium"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((ValueError, TypeError, ecc.errors.EccError), match=f"^{message}"):
        make()


def test_who_has_more_takes_signals_earlier():
    assert [c4.sensitivity(rate) for rate in (0.3e6, 4.2e6, 8e6, 44e6, 80e6, 1e9)] == pytest.approx(
        [0.0, 963 / 2048, 963 / 1024, (963 / 1024 + 1.0) / 2.0, 1.0, 1.0]
    )
    assert c4.delay_threshold(80e6, 0.1) == pytest.approx(0.1 / 16.0)
    assert c4.delay_threshold(0.3e6, 0.05) == pytest.approx(0.05 * 260 / 1024)
    assert c4.delay_threshold(0.3e6, 0.2) == 0.025
    assert (c4.loss_threshold(80e6), c4.loss_threshold(0.3e6)) == (0.02, 0.52)
    assert (c4.mark_threshold(80e6), c4.mark_threshold(0.3e6)) == (96 / 1024, 192 / 1024)


def a_flow(**fields):
    return c4.FlowState(**{"state": c4.CRUISING, "gain": 1.0, "nominal_rate": 100e6, "nominal_max_rtt": 0.1, **fields})


@pytest.mark.parametrize(
    ("kind", "fields", "left"),
    [
        (c4.LOSSES, {}, 0.75),
        (c4.LOSSES, {"nominal_rate": 0.3e6}, 0.875),
        (c4.DELAY, {"delay_excess": 0.1 / 160.0}, 0.9),
        (c4.DELAY, {"delay_excess": 1.0}, 0.75),
        (c4.MARKS, {"mark_share": 1.2 * 96 / 1024}, 0.8),
        (c4.LOSSES, {"state": c4.PROBING}, 1.0),
        (c4.DELAY, {"state": c4.PUSHING, "delay_excess": 1.0}, 1.0),
    ],
)
def test_congestion_cuts_the_rate_but_not_for_what_a_probe_has_met(kind, fields, left):
    flow = a_flow(**fields)
    before = flow.nominal_rate
    c4.meet_congestion(flow, kind)
    assert flow.nominal_rate == pytest.approx(left * before)
    assert flow.nominal_max_rtt == pytest.approx(0.1 * (left if kind == c4.LOSSES else 1.0))
    assert (flow.state, flow.gain) == (c4.RECOVERY, 0.9375)
    c4.meet_congestion(flow, c4.LOSSES)
    assert (flow.nominal_rate, flow.gain) == (pytest.approx(left * before), 0.875)  # once more in recovery: deeper


def test_the_largest_rtt_is_that_of_an_era_that_did_not_push_and_falls_slowly():
    for gain, largest, expected in ((1.0, 0.12, 0.12), (1.0, 0.08, 0.0975), (1.0625, 0.2, 0.1), (0.9375, 0.9, 0.30)):
        flow = a_flow(era_gain=gain, era_max_rtt=largest, era_min_rtt=0.05, running_min_rtt=0.05)
        c4.update_rtts(flow)
        assert flow.nominal_max_rtt == pytest.approx(expected)


def test_a_flow_probes_every_four_eras_and_fills_no_buffer():
    network = Network.dumbbell(C, [RTT], packet_size=1500, buffer=int(BDP))
    record = ["flow.state", "flow.nominal_rate", "flow.gain"]
    run = ecc.packet.simulate(Scenario(network, C4(), 20.0), sample=0.01, record=record)
    late = run.data.sel(time=slice(10.0, None))
    state = late["flow.state"].to_numpy()[:, 0]
    assert {c4.RECOVERY, c4.CRUISING, c4.PROBING} <= set(np.unique(state)) <= {*range(1, 5)}
    probes = np.count_nonzero((state[1:] == c4.PROBING) & (state[:-1] != c4.PROBING))
    assert 10.0 / (7.0 * RTT) < probes < 10.0 / (4.0 * RTT)  # two eras of cruising, one of each of the others
    assert float(late["flow.nominal_rate"].mean()) == pytest.approx(C, rel=0.05)
    assert float(run.goodput[1000:, 0].mean()) > 0.97 * C and float(run.queue[1000:, 0].mean()) < 0.5 * BDP


@pytest.mark.slow
def test_marks_keep_the_queue_short():
    network = Network.dumbbell(C, [RTT] * 2, packet_size=1500, buffer=int(4 * BDP))
    queues = {}
    for ecn in (True, False):
        hosts = {"flows": C4(ecn=ecn), "links": ecc.queues.StepMarking(threshold=20)}
        if not ecn:
            hosts = C4()
        run = ecc.packet.simulate(Scenario(network, hosts, 20.0), sample=0.05)
        queues[ecn] = float(run.queue[200:, 0].mean())
        assert float(run.goodput[200:].sum("flow").mean()) > 0.8 * C
    assert queues[True] < 0.2 * queues[False]
