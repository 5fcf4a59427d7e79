"""Careful Resume against the examples and rules of RFC 9959, and with packets: gain, losses, several resumers."""

from types import SimpleNamespace

import pytest

import ecc
from ecc.contract.packet_hooks import flow_hooks_of
from ecc.models import BIC, CUBIC, Compound, NewReno
from ecc.models.shared import careful_resume as resume
from ecc.models.shared import windows

S = 1000  # bytes
RTT = 0.1  # s
NO_END = 2**62


class Sender:
    """A sender with an initial window of 10 packets and saved values of 300 packets and 100 ms, ACK by ACK."""

    def __init__(self, kind=NewReno, **options):
        protocol = kind(**{"initial": 10, "saved_window": 300 * S, "saved_rtt": "100 ms", "ecn": True, **options})
        self.hooks, self.p = flow_hooks_of(protocol), protocol.namespace()
        self.flow = protocol.flow_record()
        values = dict.fromkeys(("rate", "delivered", "lost", "acked", "kind", "marked", "ece", "recovering"), 0)
        values |= {"now": 0.0, "packet_size": S, "rtt": RTT, "srtt": RTT, "min_rtt": RTT, "window": 10.0 * S}
        values |= {"unsent": NO_END, "in_flight": 10 * S, "limited_by": windows.BY_WINDOW, "recovered": 0, "undone": 0}
        values["transport"] = 0
        self.env = SimpleNamespace(**values)

    def ack(self, packets=1, in_flight=None, now=None, **values):
        env = self.env
        env.acked = packets * S
        env.delivered += env.acked
        env.in_flight = env.in_flight - env.acked if in_flight is None else in_flight * S
        env.now = env.now if now is None else now
        vars(env).update({"marked": 0, "ece": 0, "recovering": 0, **values})
        self.hooks["on_ack"](self.flow, None, self.p, env)

    def lose(self, kind=0, in_flight=None):
        env = self.env
        env.acked, env.kind, env.recovering = 0, kind, 1 - kind
        if in_flight is not None:
            env.in_flight = in_flight * S
        self.hooks["on_loss"](self.flow, None, self.p, env)
        env.kind = 0

    @property
    def window(self):
        return self.env.window / S

    @property
    def phase(self):
        return self.flow.resume_phase


def jumping(**options):
    """A sender that jumps with 29 packets in flight, as in the examples; 15 are acknowledged before."""
    sender = Sender(**options)
    sender.ack(10, in_flight=0, unsent=0)  # all of the initial window, without further data
    assert sender.phase == resume.RECONNAISSANCE
    sender.ack(5, in_flight=29, now=0.2, unsent=NO_END)
    assert sender.phase == resume.UNVALIDATED
    return sender


def test_the_jump_of_the_example():
    """29 packets in flight and a saved window of 300: 150, paced over an RTT."""
    sender = jumping()
    assert sender.flow.pipe_size == 29 * S and sender.window == 150.0
    assert sender.env.rate == pytest.approx(8.0 * 150 * S / RTT)


def test_without_a_loss_the_flow_continues_in_slow_start():
    sender = jumping()
    sender.ack(29, in_flight=110, now=0.29)  # of packets before the jump; the pacer is not done
    assert sender.phase == resume.UNVALIDATED and sender.window == 150.0 and sender.flow.pipe_size == 29 * S
    sender.ack(1, in_flight=149, now=0.299)  # the first packet of the jump
    assert sender.phase == resume.VALIDATING and sender.window == 149.0 and sender.flow.pipe_size == 30 * S
    assert sender.env.rate == 0.0
    sender.ack(2, in_flight=149, now=0.31)
    assert sender.window == 151.0  # normal growth
    sender.ack(146, in_flight=149, now=0.4)
    assert sender.phase == resume.VALIDATING
    sender.ack(1, in_flight=149, now=0.4)
    assert sender.phase == resume.NORMAL and sender.flow.ssthresh >= windows.NEVER_LEFT


def test_a_rate_limited_sender_validates_what_it_has_sent():
    """50 packets of the jump: the window becomes 50."""
    sender = jumping()
    sender.ack(29, in_flight=50, now=0.29, unsent=0, limited_by=windows.BY_DATA)
    assert sender.phase == resume.UNVALIDATED
    sender.ack(1, in_flight=49, now=0.3)
    assert sender.phase == resume.VALIDATING and sender.window == 49.0


def test_a_sender_with_little_data_returns_to_the_pipe_size():
    sender = jumping()
    sender.ack(20, in_flight=9, now=0.31, unsent=0, limited_by=windows.BY_DATA)  # an RTT has passed
    assert sender.phase == resume.NORMAL and sender.window == 29.0
    assert sender.env.rate == 0.0


def test_the_jump_ends_when_all_is_in_flight():
    sender = jumping()
    sender.ack(1, in_flight=149, now=0.25)
    assert sender.phase == resume.VALIDATING and sender.window == 149.0


def test_the_retreat_of_the_example():
    """34 packets of the jump are acknowledged: PipeSize is 63, and 31.5 packets remain; then ssthresh is half of it."""
    sender = jumping()
    sender.ack(29, in_flight=121, now=0.29)
    for _ in range(34):
        sender.ack(1, in_flight=120)
    assert sender.flow.pipe_size == 63 * S
    sender.lose(in_flight=120)
    assert sender.phase == resume.RETREAT and sender.window == 31.5
    for _ in range(5):
        sender.ack(0, in_flight=100, recovering=1)
        assert sender.window <= 31.5
    sender.env.lost += S  # one retransmission
    end = (sender.flow.resume_end - sender.env.delivered) // S
    sender.ack(end, in_flight=20, recovered=1)
    assert sender.phase == resume.NORMAL
    assert sender.flow.ssthresh == 0.5 * (63 + end - 1) * S
    assert sender.window <= 31.5 < sender.flow.ssthresh / S  # slow start follows


def test_a_mark_is_congestion():
    sender = jumping()
    sender.ack(1, in_flight=100, marked=S, ece=1)
    assert sender.phase == resume.RETREAT and sender.window == 14.5 and sender.env.rate == 0.0
    early = Sender()
    early.ack(1, in_flight=10, marked=S, ece=1)
    assert early.phase == resume.NORMAL


def test_losses_before_the_jump_and_timeouts_end_the_method():
    sender = Sender()
    sender.lose()
    assert sender.phase == resume.NORMAL and sender.window == 5.0
    sender = jumping()
    sender.lose(kind=1)
    assert sender.phase == resume.NORMAL and sender.window == 1.0 and sender.env.rate == 0.0
    sender = jumping()
    sender.lose()
    sender.lose(kind=1)
    assert sender.phase == resume.NORMAL


@pytest.mark.parametrize(
    ("rtt", "phase"),
    [(0.05, resume.NORMAL), (0.051, resume.UNVALIDATED), (1.0, resume.UNVALIDATED), (1.01, resume.NORMAL)],
)
def test_the_rtt_confirms_the_path(rtt, phase):
    sender = Sender()
    sender.env.rtt = sender.env.min_rtt = rtt
    sender.ack(9, in_flight=18)
    assert sender.phase == resume.RECONNAISSANCE
    sender.ack(1, in_flight=18)
    assert sender.phase == phase


def test_larger_windows_do_not_jump():
    sender = Sender(saved_window=40 * S)
    for _ in range(10):
        sender.ack(1, in_flight=19)
    assert sender.phase == resume.NORMAL and sender.window == 20.0


def test_a_paced_host_is_paced_as_before_after_the_jump():
    sender = Sender()
    sender.env.rate = 3e6
    sender.ack(10, in_flight=19)
    assert sender.env.rate == pytest.approx(12e6)
    sender.ack(20, in_flight=149, now=0.01)
    assert sender.env.rate == 3e6


# ---- with packets ----------------------------------------------------------------------------------------------------

BDP = 1_250_000  # bytes, of 100 Mb/s and 100 ms


def resumer(kind=CUBIC, saved=BDP, **options):
    return kind(initial=10, saved_window=saved, saved_rtt="100 ms", **options)


def transfers(protocols, sizes, buffer=BDP, duration=6.0, starts=None, **options):
    n = len(protocols)
    net = ecc.Network.dumbbell("100 Mb/s", ["100 ms"] * n, buffer=buffer, packet_size=1500, sizes=sizes, starts=starts)
    scenario = ecc.Scenario(net, {"flows": dict(enumerate(protocols))}, duration)
    return ecc.packet.simulate(scenario, **options)


@pytest.mark.parametrize(
    "kind", [NewReno, *(pytest.param(other, marks=pytest.mark.slow) for other in (CUBIC, BIC, Compound))]
)
def test_a_transfer_of_a_megabyte_takes_fewer_rtts(kind):
    times = [transfers([host], [1_000_000]).flows["completion_time"][0] for host in (kind(initial=10), resumer(kind))]
    assert times[1] < times[0] - 2.5 * RTT  # slow start of 10, 20, ... 417 packets takes 5.4 RTTs


@pytest.mark.parametrize("kind", [NewReno, pytest.param(CUBIC, marks=pytest.mark.slow)])
@pytest.mark.parametrize("saved", [BDP, 6 * BDP])
def test_the_twin_has_the_same_events(kind, saved):
    """A jump that the path holds, and one three times as large, which ends in a retreat."""
    runs = [
        transfers([resumer(kind, saved)], [2_000_000], buffer=100_000, duration=0.7, engine=engine)
        for engine in ("c", "python")
    ]
    assert runs[0].stats["digest"] == runs[1].stats["digest"]


def test_a_jump_into_a_narrower_path_retreats_once():
    """The saved window is six BDPs, since the capacity has decreased; the buffer holds a BDP."""
    run = transfers(
        [resumer(NewReno, 6 * BDP, transport="rack")],
        [None],
        sample=0.01,
        record=["flow.resume_phase", "env.window", "flow.pipe_size", "flow.ssthresh"],
    )
    phase, window = run["flow.resume_phase"][:, 0], run["env.window"][:, 0]
    assert set(phase.values) == {0, 1, 2, 3, 4} - ({2} if 2 not in phase.values else set())
    retreat = phase == resume.RETREAT
    assert window[retreat].max() <= 0.5 * run["flow.pipe_size"][:, 0][retreat].max()
    after = run["flow.ssthresh"][:, 0][phase == resume.NORMAL]
    assert 0.4 * BDP < float(after[0]) < 1.6 * BDP


def test_half_of_the_saved_window_leaves_room_for_a_newcomer():
    """A flow that began since fills half of the path; the jump to half a BDP then causes no loss."""
    lost = {}
    for saved in (BDP, 4 * BDP):
        host = resumer(NewReno, saved)
        newcomer = ecc.models.ConstantRate("45 Mb/s")
        run = transfers([newcomer, host], [None, 700_000], buffer=BDP // 10, starts=[0.0, 1.0], duration=3.0)
        lost[saved] = int(run.drops.sum())
    assert lost[BDP] == 0 < lost[4 * BDP]


def test_two_resumers_at_once_get_a_note_and_overload_the_path():
    """Each jumps to one BDP; a buffer of a fifth of a BDP holds one of them, and not two."""
    drops = []
    for n in (1, 2):
        run = transfers([resumer(NewReno, 2 * BDP)] * n, [BDP] * n, buffer=BDP // 5, duration=0.32)
        drops.append(int(run.drops.sum()))
    assert drops[0] == 0 < drops[1]
    net = ecc.Network.dumbbell("100 Mb/s", ["100 ms"] * 2)
    assert resumer().network_notes(net) == (
        "saved_window is for one flow at a time (RFC 9959), and 2 flows begin with it",
    )
    assert resumer().network_notes(ecc.Network.dumbbell("100 Mb/s", ["100 ms"])) == ()


@pytest.mark.parametrize(
    ("saved_rtt", "said"),
    [("1 s", "above 500 ms and at most 10 s"), ("9 ms", "above 4.5 ms and at most 90 ms")],
)
def test_a_saved_rtt_at_which_no_flow_jumps_gets_a_note(saved_rtt, said):
    host = NewReno(initial=10, saved_window="1.25 MB", saved_rtt=saved_rtt)
    network = ecc.Network.dumbbell("100 Mb/s", ["100 ms"], packet_size=1500, sizes=["1 MB"])
    run = ecc.packet.simulate(ecc.Scenario(network, host, 0.5), record=["flow.resume_phase"])
    assert resume.UNVALIDATED not in run["flow.resume_phase"]
    text = f"NewReno: saved_rtt ({saved_rtt}) does not fit an RTT of 100 ms: a flow jumps only if its minimum RTT is "
    assert text + said in run.notes


def test_both_values_are_needed():
    with pytest.raises(ValueError, match="saved_window and saved_rtt must both have a value, .* got '450 kB' and None"):
        NewReno(saved_window="450 kB")
    with pytest.raises(ValueError, match="saved_rtt must be > 0"):
        NewReno(saved_rtt=0.0, saved_window="450 kB")
    assert "saved_window" in str(resumer().fluid_refusal) and NewReno().fluid_refusal is None
    assert not hasattr(NewReno().flow_record(), "pipe_size")
