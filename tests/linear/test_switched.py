"""Loops that switch at an empty queue: found beside the linear model, with a verdict of their own."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import ecc
from ecc.cli import main
from ecc.linear import DelaySystem, Switched, SwitchedLoop, empty_queue
from ecc.loops.closed_loop import linearize
from ecc.models import QIRCP, RCP, XCP
from ecc.stability import critical_gain, isolated_links, mean_rtts

ONE = ecc.Network.dumbbell("100 Mb/s", [0.1])
SIGNED = "the queue is unconstrained (signed) in this model: its verdict is not that on RCP"


@pytest.mark.parametrize("time", ["continuous", "discrete", "hybrid"])
def test_rcp_at_its_defaults_is_stable_where_its_queue_cannot_be_negative(time):
    """The model with a signed queue says unstable; fluid and packets settle."""
    system = linearize(RCP(), ONE, time)
    assert not system.is_stable
    assert any(note.startswith(SIGNED) for note in system.notes) and SIGNED in repr(system)
    assert system.switched.is_stable is True and system.switched.loops[0].proven
    loop = system.switched.loops[0]
    assert (loop.link, loop.rtts) == (0, (0.1,))
    assert (loop.alpha, loop.beta) == pytest.approx((0.4, 1.0), rel=1e-12)
    assert loop.bound == empty_queue.empty_queue_bound(0.4)
    assert any(note.startswith(SIGNED) for note in critical_gain(RCP(), ONE, "alpha", time).notes)


def test_verdicts_on_the_switched_loop_agree_with_the_fluid():
    two = ecc.Network.dumbbell("100 Mb/s", [0.1, 0.1])
    for gains, stable in (((0.4, 1.0), True), ((1.0, 0.7), True), ((1.3, 1.5), False)):
        protocol = RCP(alpha=gains[0], beta=gains[1], interval=0.001)
        assert linearize(protocol, two).switched.is_stable is stable
        run = ecc.fluid.simulate(ecc.Scenario(two, protocol, 25.0), sample=0.02, start="equilibrium", perturbation=0.01)
        off = np.abs(run.rate.to_numpy()[:, 0] / 50e6 - 1.0)
        assert off[:50].max() > 0.005
        assert off[-200:].max() < 1e-4 if stable else off[-200:].max() > 0.05


def test_bottlenecks_of_a_network_switch_each_alone():
    net = ecc.Network.T_u()
    d = mean_rtts(RCP(), net)
    found = linearize(RCP(), net, mean_rtt=np.nan_to_num(d, nan=1.0)).switched
    alone = isolated_links(RCP(), net)
    assert [loop.link for loop in found.loops] == [link.link for link in alone]
    for loop, link in zip(found.loops, alone, strict=True):
        assert {"alpha": loop.alpha, "beta": loop.beta} == pytest.approx(link.gains, rel=1e-9)
        assert loop.rtts == pytest.approx(link.network.rtts)


def test_xcp_switches_alike_where_rtts_are_equal():
    loop = linearize(XCP(), ecc.Network.dumbbell("100 Mb/s", [0.1] * 3)).switched.loops[0]
    assert (loop.alpha, loop.beta) == pytest.approx((0.4, 0.226), rel=1e-9)
    assert linearize(XCP(), ecc.Network.dumbbell("100 Mb/s", [0.1, 0.2])).switched is None, "shuffling does not cancel"


def test_models_without_a_signed_queue_have_none():
    for protocol in (QIRCP(), RCP(queue_term=False), RCP(beta=0.0)):
        system = linearize(protocol, ONE)
        assert system.switched is None and not any("signed" in note for note in system.notes)
    assert DelaySystem([-1.0], [0.5]).switched is None


def test_it_is_found_when_asked_for_and_goes_with_the_system(monkeypatch):
    asked = []
    found = Switched((SwitchedLoop(3, 0.36, 5.0, (0.1, 0.1)),))
    system = DelaySystem([-1.0], [0.5]).with_switched(lambda: asked.append(1) or found)
    assert system.with_notes("x").switched is found and asked == [1]
    assert (
        str(found) == "link 3: alpha 0.36, beta 5 (per 100 ms, its flows' mean RTT): stable, proven for every beta > 0"
    )
    again = pickle.loads(pickle.dumps(linearize(RCP(), ONE)))
    assert again.switched.loops == linearize(RCP(), ONE).switched.loops


@pytest.mark.parametrize(
    ("alpha", "beta", "rtts", "stable", "said"),
    [
        (1.0, 1.2, (0.1,), False, "unstable, numerically: motions grow by 0.0354 per RTT"),
        (1.0, 0.8, (0.1,), True, "stable, numerically: motions grow by -0."),
        (1.0, 5.0, (0.1, 0.3), None, "undecided (proven stable below beta = "),
    ],
)
def test_what_is_not_proven_is_said_to_be_numerical_or_open(alpha, beta, rtts, stable, said):
    loop = SwitchedLoop(0, alpha, beta, rtts)
    assert not loop.proven and loop.is_stable is stable and said in str(loop)
    proven = SwitchedLoop(1, 0.3, 1.0, (0.1,))
    assert Switched((loop, proven)).is_stable is stable
    assert Switched((proven, proven)).is_stable is True


@pytest.mark.slow
def test_the_command_line_prints_both_verdicts(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["stability", "RCP", "--rtt", "0.1", "--time", "continuous"]) == 0
    out = capsys.readouterr().out
    assert "at alpha = 0.4 *    unstable\n" in out and SIGNED in out
    assert (
        "RTT 100 ms\n"
        "with the queue kept >= 0 (control interval -> 0): stable\n"
        "  link 0: alpha 0.4, beta 1 (per 100 ms, its flows' mean RTT): stable, proven below beta = 225.2\n"
    ) in out
    assert main(["stability", "RCP", "--rtt", "0.1", "--time", "continuous", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["models"][0]
    assert row["stable"] is False and row["switched_stable"] is True


def test_where_routers_average_over_packets_is_said():
    notes = linearize(QIRCP(), ecc.Network.T_u()).notes
    assert len(notes) == 1 and "over packets, as routers measure it" in notes[0]
    assert linearize(QIRCP(), ecc.Network.T_u(), mean_rtt=[0.05] * 3).notes == ()
    assert linearize(QIRCP(), ecc.Network.dumbbell("1 Gb/s", [0.1, 0.3])).notes == ()


def test_the_mean_rtt_of_routers_is_asked_for_in_words(capsys):
    net = ecc.Network.T_u()
    words = linearize(RCP(), net, mean_rtt="packets")
    numbers = linearize(RCP(), net, mean_rtt=np.nan_to_num(mean_rtts(RCP(), net), nan=1.0))
    for one, other in zip(words.switched.loops, numbers.switched.loops, strict=True):
        assert (one.alpha, one.beta, one.rtts) == (
            pytest.approx(other.alpha, rel=1e-12),
            pytest.approx(other.beta, rel=1e-12),
            other.rtts,
        )
    assert linearize(RCP(), net, mean_rtt="flows").switched.loops == linearize(RCP(), net).switched.loops
    with pytest.raises(ValueError, match="^mean_rtt must be 'flows', 'packets' or RTTs of links .s., got 'bytes'$"):
        linearize(RCP(), net, mean_rtt="bytes")
    two = ["stability", "QI-RCP", "--rtt", "100ms", "--rtt", "300ms", "--time", "continuous"]
    assert main(two) == 0
    assert "\nd of routers: the mean RTT over the flows of a link; --mean-rtt packets " in capsys.readouterr().out
    assert main([*two, "--mean-rtt", "packets"]) == 0
    assert "\nd of routers: the mean RTT over the packets of a link; --mean-rtt flows " in capsys.readouterr().out
    assert main(["stability", "QI-RCP", "--rtt", "100ms", "--time", "continuous"]) == 0
    assert "\nd of routers" not in capsys.readouterr().out


def test_an_isolated_link_says_what_its_gains_are_in():
    shown = repr(isolated_links(RCP(), ecc.Network.T_u())[0])
    assert "protocol, its gains times the share" in shown and "d of the router" in shown
    assert "gains per mean RTT of its flows      alpha 0.3861, beta 2.626" in shown
