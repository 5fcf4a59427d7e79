"""Priority flow control (PFC): exact times, no loss with headroom, victims, deadlocks."""

from __future__ import annotations

import numpy as np
import pytest

import ecc
from ecc import Flow, Link, Network, Pause, Scenario
from ecc.live.nodes import prepared_for_links
from ecc.models import DCQCN, ConstantRate
from ecc.packet import Run, resume, simulate
from ecc.packet.prepare import prepare
from ecc.queues import DRR, FQCoDel, StrictPriority

ENGINES = pytest.mark.parametrize("engine", ["c", "python"])


def two_links(pause: Pause, rate: str = "8 Mb/s", **given: object) -> Scenario:
    """Packets of 1 ms on the first link, of 2 ms on the second; 10 ms between them."""
    links = [Link("8 Mb/s", "10 ms", pause=pause), Link("4 Mb/s", "0 ms")]
    return Scenario(Network(links, [Flow([0, 1], **given)]), ConstantRate(rate), 0.2, phase_jitter=False)  # type: ignore[arg-type]


@ENGINES
def test_times_of_pause_and_resume(engine):
    """By hand: packet k = 1, 2, ... is at link 1 at 10 + k ms, and the j-th departs there at 11 + 2j ms.

    At 20 ms packet 10 comes, and 4 have left: 6 of 1000 bytes are held, more than the XOFF of 5000. The PAUSE frame is
    there at 30 ms, when packet 30 has just left, and no other is served. Of these 30, 28 have left at 11 + 56 = 67 ms,
    when XON is reached: the link resumes at 77 ms, and packet 31 leaves at 78 ms. Most are held when packet 30 comes,
    at 40 ms: 30 - 14.
    """
    run = simulate(two_links(Pause(5000, 2000)), sample=0.001, engine=engine, trace=10_000)
    frames = run.trace[run.trace["event"].isin(["pause", "resume"])]
    assert frames["event"].tolist()[:3] == ["pause", "resume", "pause"]
    assert np.allclose(frames["time"][:2], [0.020, 0.067], rtol=0, atol=1e-12)
    assert frames["entity"].tolist()[:2] == [0, 0]
    departures = run.trace[(run.trace["event"] == "departure") & (run.trace["entity"] == 0)]
    served = departures["time"][departures["value"] >= 0].to_numpy()
    assert served[29] == pytest.approx(0.030, abs=1e-12) and served[30] == pytest.approx(0.078, abs=1e-12)
    paused = run.paused.to_numpy()[:, 0, 0]
    assert (paused[30:77] == 1.0).all() and not paused[:30].any() and not paused[77:100].any()
    assert run.pauses.sum() == (frames["event"] == "pause").sum() and run.paused.sizes["priority"] == 1
    assert run.queue_max[:, 1].max() == 1000 * (30 - 14) and run.drops.sum() == 0


@ENGINES
@pytest.mark.parametrize("rate", ["8 Mb/s", "7.3 Mb/s"])
def test_no_loss_with_the_headroom_and_loss_with_less(engine, rate):
    """headroom = 8e6 * 20 ms / 8 + 2 * 1000 bytes = 22,000 bytes, of which the first pause needs some 11,000."""
    lossless = simulate(two_links(Pause(5000, 2000), rate), sample=0.01, engine=engine)
    assert lossless.drops.sum() == 0 and lossless.pauses.sum() > 1
    short = simulate(two_links(Pause(5000, 2000, headroom=9000), rate), sample=0.01, engine=engine)
    assert short.drops[:, 1].sum() > 0 == short.drops[:, 0].sum()
    assert short.queue_max[:, 1].max() <= 14_000 < lossless.queue_max[:, 1].max() <= 27_000


def test_the_formula_of_the_headroom_is_what_can_come():
    """Nothing leaves the second link: what comes beyond XOFF is 22,000 bytes less one of the packets, no more."""
    links = [Link("8 Mb/s", "10 ms", pause=Pause(5500, 0)), Link("8 kb/s", 0.0)]
    run = simulate(
        Scenario(Network(links, [Flow([0, 1])]), ConstantRate("80 Mb/s"), 0.2, phase_jitter=False), sample=0.01
    )
    assert run.drops.sum() == 0 and run.queue[-1, 1] == 6000 + 20_000
    for headroom, is_lossless in ((20_500, True), (20_499, False)):
        pause = Pause(5500, 0, headroom)
        network = Network([Link("8 Mb/s", "10 ms", pause=pause), links[1]], [Flow([0, 1])])
        short = simulate(Scenario(network, ConstantRate("80 Mb/s"), 0.2, phase_jitter=False), sample=0.01)
        assert (short.drops.sum() == 0) == is_lossless


def victims(pause: Pause | None) -> Network:
    """Flow 0 crosses links 0 and 1, which is slow; flow 1 crosses 0 and 2, which nobody else does."""
    return Network(
        [
            Link("8 Mb/s", "1 ms", pause=pause),
            Link("1 Mb/s", "1 ms", None if pause else 20_000),
            Link("8 Mb/s", "1 ms"),
        ],
        [Flow([0, 1]), Flow([0, 2])],
    )


def test_a_victim_is_blocked_by_the_packets_before_it():
    """With PFC the flow over a free link gets what the congested one lets pass: as many packets as flow 0."""
    free, blocked = (
        simulate(Scenario(victims(pause), ConstantRate("4 Mb/s"), 4.0), sample=0.5) for pause in (None, Pause(10_000))
    )
    assert free.goodput[4:, 1].mean() == pytest.approx(4e6, rel=0.01) and free.drops.sum() > 100
    assert blocked.goodput[4:, 1].mean() == pytest.approx(1e6, rel=0.05) and blocked.drops.sum() == 0
    assert blocked.goodput[4:, 0].mean() == pytest.approx(1e6, rel=0.01) == free.goodput[4:, 0].mean()
    assert blocked.paused[4:, 0].mean() > 0.7


def test_another_priority_in_another_queue_is_no_victim():
    network = victims(Pause(10_000))
    flows = [network.flows[0], Flow([0, 2], priority=3)]
    protocol = {"flows": {"default": ConstantRate("4 Mb/s")}, "links": {0: StrictPriority(classes=(0, 1))}}
    run = simulate(Scenario(Network(network.links, flows), protocol, 4.0), sample=0.5)
    assert run.goodput[4:, 1].mean() == pytest.approx(4e6, rel=0.01)
    assert run.paused.sizes["priority"] == 4 and run.paused[:, 0, 0].max() > 0.5 and run.pauses[:, :, 1:].sum() == 0


def incast(pause: Pause | None) -> Network:
    flows = [(host, 4, "200 kB") for host in range(4)]
    demands = [ecc.Demand(*one) for one in flows]
    return Network.leaf_spine(2, 2, 4, demands, "10 Gb/s", "1 us", ack_links=False, pause=pause)


def test_dcqcn_on_an_incast_is_paused_and_loses_nothing():
    run = simulate(Scenario(incast(Pause("30 kB")), DCQCN(), "2 ms"), sample="0.1 ms")
    assert run.drops.sum() == 0 < run.pauses.sum() and (run.flows["completion_time"] > 0).all()
    up = range(16, 20)  # from leaves to spines
    assert run.pauses.to_numpy()[:, list(range(4)), 0].sum() > 0 or run.pauses.to_numpy()[:, list(up), 0].sum() > 0


def ring(pause: Pause) -> Scenario:
    """Three switches in a ring, a host at each, which sends more than its share; every flow takes two of the links."""
    links = [Link("10 Mb/s", "0.1 ms", pause=pause)] * 3 + [Link("100 Mb/s", "0.1 ms", pause=pause)] * 3
    links += [Link("100 Mb/s", "0.1 ms")] * 3
    flows = [Flow([3 + k, k, (k + 1) % 3, 6 + (k + 2) % 3]) for k in range(3)]
    return Scenario(Network(links, flows), ConstantRate("50 Mb/s"), 1.0)


@ENGINES
def test_a_ring_ends_in_a_deadlock_which_is_said(engine):
    with pytest.warns(
        RuntimeWarning, match=r"the run ended at 0\.\d+ s: links must not be paused forever.*PFC deadlock"
    ):
        run = simulate(ring(Pause(5000, 2000)), sample=0.01, engine=engine)
    assert run.stopped.endswith("(PFC deadlock), got 6 (link 0)")
    assert run.drops.sum() == 0 and run.stats["now"] < 0.5
    line = Network(ring(Pause(5000, 2000)).network.links, ring(Pause(5000, 2000)).network.flows[:2])
    run = simulate(Scenario(line, ConstantRate("50 Mb/s"), 1.0), sample=0.1, engine=engine)
    assert run.stopped == "completed" and (run.goodput[1:] > 4e6).all() and run.drops.sum() == 0


@pytest.mark.filterwarnings("ignore:the run ended")
@pytest.mark.parametrize(
    "scenario",
    [
        two_links(Pause(5000, 2000)),
        two_links(Pause(5000, 5000, 3000), "7.3 Mb/s"),
        two_links(Pause(1, 0), packet_size=(40, 1500), reverse=[1, 0]),
        Scenario(victims(Pause(3000, 1)), ConstantRate("4 Mb/s"), 1.0),
        *(
            Scenario(
                Network(victims(Pause(3000)).links, [Flow([0, 1], priority=k % 3) for k in range(5)]),
                {"flows": {"default": ConstantRate("1 Mb/s")}, "links": {0: discipline, 1: discipline}},
                1.0,
            )
            for discipline in (StrictPriority((0, 1, 2)), DRR((1.0, 2.0)), FQCoDel())
        ),
        Scenario(incast(Pause("30 kB")), DCQCN(), "1 ms"),
        ring(Pause(5000, 2000)),
    ],
)
def test_engines_and_checkpoints_agree(scenario, tmp_path):
    sample = scenario.duration / 50
    plain = simulate(scenario, sample=sample, trace=20_000)
    twin = simulate(scenario, sample=sample, trace=20_000, engine="python")
    assert plain.pauses.sum() > 0 and plain.stopped == twin.stopped
    assert plain.trace.equals(twin.trace) and plain.stats["digest"] == twin.stats["digest"]
    assert all(np.array_equal(plain[name], twin[name]) for name in ("paused", "pauses", "queue", "drops"))
    first = Run(scenario, sample=sample)
    while first.advance(first.now + scenario.duration / 7.0).now < scenario.duration and first.stopped == "paused":
        first.save(tmp_path / "some")
        first = resume(tmp_path / "some")
    assert first.trajectory().stats["digest"] == plain.stats["digest"]
    assert np.array_equal(first.trajectory().paused, plain.paused)


def test_what_knows_no_pauses_refuses_them():
    scenario = two_links(Pause(5000))
    with pytest.raises(ValueError, match=r"threads must be 1 if links have pause, got 2 \(link 0\)"):
        simulate(scenario, threads=2)
    with pytest.raises(ValueError, match=r"pause must be None in live runs \(link 0\)"):
        prepared_for_links(prepare(scenario))
    with pytest.raises(ValueError, match=r"pause must be None except in packet runs, got Pause\(.*\(link 0\)"):
        ecc.fluid.simulate(Scenario(scenario.network, ecc.models.RCP(), 1.0))
    with pytest.raises(ValueError, match=r"pause must be None except in packet runs, got Pause\(.*\(link 0\)"):
        ecc.linearize(ecc.models.RCP(), scenario.network)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Pause(1000, 2000), r"xon must be <= xoff \(1000 bytes\), got 2000"),
        (lambda: Pause(0), "xoff"),
        (lambda: Pause(1000, headroom=-1), "headroom"),
        (lambda: Link(1e6, pause=3), "pause must be a Pause or None, got 3"),  # type: ignore[arg-type]
        (lambda: Flow([0], priority=8), "priority must be from 0 to 7, got 8"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_a_buffer_without_room_for_the_headroom_is_refused():
    links = [Link("8 Mb/s", "10 ms", pause=Pause(5000)), Link("4 Mb/s", buffer=26_999)]
    scenario = Scenario(Network(links, [Flow([0, 1])]), ConstantRate("8 Mb/s"), 0.1, phase_jitter=False)
    with pytest.raises(ValueError, match=r"buffer must be None or >= .* \(27000 bytes\), got 26999 bytes \(link 1\)"):
        simulate(scenario)


def test_files_have_pauses():
    scenario = two_links(Pause("5 kB", 0, "1 kB"), priority=2)
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    assert Scenario.from_toml(two_links(Pause(5000)).to_toml()) == two_links(Pause(5000))
