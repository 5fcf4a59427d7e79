"""Bottlenecks alone: their spectra make up that of the network; averages of RTTs; where queues in order act back."""

from math import pi

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecc.loops.closed_loop import linearize
from ecc.models import PIQIRCP, QIRCP, RCP, JetMax, Kelly
from ecc.network.network import Flow, Link, Network
from ecc.stability import critical_gain, isolated_links, mean_rtts


def random_network(seed, links=4, flows=7):
    rng = np.random.default_rng(seed)
    routes = [rng.permutation(links)[: rng.integers(1, 4)].tolist() for _ in range(flows)]
    return Network(
        [
            Link(float(c), float(d))
            for c, d in zip(rng.uniform(1e7, 1e8, links), rng.uniform(0, 0.05, links), strict=True)
        ],
        [Flow(route, access_delay=float(rng.uniform(0.005, 0.1))) for route in routes],
    )


@pytest.mark.slow
@settings(max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from([QIRCP(alpha=1.3), PIQIRCP(alpha=0.9), RCP(alpha=0.4, beta=0.2)]))
def test_the_spectrum_of_a_network_is_that_of_its_links(seed, protocol):
    network = random_network(seed)
    d = np.nan_to_num(mean_rtts(protocol, network), nan=1.0)
    whole = linearize(protocol, network, "discrete", mean_rtt=d).spectral_radius
    parts = [alone.linearize("discrete").spectral_radius for alone in isolated_links(protocol, network)]
    assert whole == pytest.approx(max(parts), abs=1e-7)


@settings(max_examples=12)
@given(st.integers(0, 10**6))
def test_qi_rcp_bears_every_network_if_rtts_are_averaged_over_packets(seed):
    network = random_network(seed)
    for alone in isolated_links(QIRCP(alpha=pi / 2 * (1 - 1e-6)), network):
        assert alone.gains["alpha"] <= pi / 2 and alone.linearize().is_stable
    for by_flow in (False, True):
        for alone in isolated_links(RCP(beta=0.2), network, by_flow=by_flow):
            longer = alone.network.rtts.mean() / alone.mean_rtt
            assert alone.gains == pytest.approx(
                {"alpha": 0.4 * alone.share * longer, "beta": 0.2 * alone.share * longer**2}
            )


def test_t_u_by_hand():
    first, last = isolated_links(RCP(alpha=0.5), Network.T_u())
    d = (55 * 0.202 + 100 * 0.004) / 155
    assert (first.link, last.link) == (0, 2) and first.share == pytest.approx(55 / 155)
    assert first.mean_rtt == pytest.approx(d) and last.mean_rtt == pytest.approx(0.004)
    assert first.gains == pytest.approx({"alpha": 0.5 * 55 / 155 * 0.202 / d, "beta": 55 / 155 * (0.202 / d) ** 2})
    assert last.gains == pytest.approx({"alpha": 0.5, "beta": 1.0})
    longest = isolated_links(RCP(alpha=0.5, rtt="max"), Network.T_u())[0]
    assert longest.gains == pytest.approx({"alpha": 0.5 * 55 / 155, "beta": 55 / 155})
    assert isolated_links(PIQIRCP(alpha1=0.3, alpha2=0.2), Network.T_u())[1].gains == pytest.approx(
        {"alpha": 0.5, "alpha1": 0.3, "alpha2": 0.2}
    )


def test_an_assignment_may_be_given():
    network = Network.parking_lot(["97 Mb/s", "80 Mb/s"])
    assert [alone.link for alone in isolated_links(QIRCP(), network)] == [
        alone.link for alone in isolated_links(QIRCP(), network, QIRCP().equilibrium(network).bottleneck.tolist())
    ]


def test_refusals():
    for protocol in (JetMax(), Kelly()):
        with pytest.raises(ValueError, match=f"routers that integrate one rate, got {type(protocol).__name__}"):
            isolated_links(protocol, Network.T_u())


# ---- margins over several bottlenecks ------------------------------------------------------------------------


def test_margins_in_t_u_are_those_of_its_worst_bottleneck():
    protocol, net = QIRCP(alpha=0.5), Network.T_u()
    m = linearize(protocol, net).margins()
    assert m.gain_margin == pytest.approx(critical_gain(protocol, net, "alpha").value / 0.5, rel=1e-9)
    assert (m.gain_margin, np.degrees(m.phase_margin)) == pytest.approx((1.043, 3.72), abs=1e-2)
    alone = [link.linearize().margins() for link in isolated_links(protocol, net, by_flow=True)]
    for field in ("gain_margin", "phase_margin", "delay_margin", "modulus_margin"):
        worst = min(getattr(one, field) for one in alone)
        assert getattr(m, field) == pytest.approx(worst, rel=1e-9)
    assert [loop.gain_margin for loop in m.loops] == pytest.approx([one.gain_margin for one in alone], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_margins_of_links_in_a_cycle_are_of_one_factor_on_both(time):
    flows = [Flow([0, 1]), Flow([1, 0]), Flow([0]), Flow([1])]
    net, crossed = Network([Link("97 Mb/s", "13 ms"), Link("80 Mb/s", "13 ms")], flows), [0, 1, 0, 1]
    m = linearize(QIRCP(alpha=0.5), net, time, assignment=crossed).margins()
    assert (m.coupled, m.loops) == (2, ())
    lost = critical_gain(QIRCP(), net, "alpha", time, assignment=crossed).value
    assert m.gain_margin == pytest.approx(lost / 0.5, rel=1e-9)


@pytest.mark.parametrize("tau", [0.6, 1.0, 1.9])
def test_margins_of_jetmax_are_of_its_step(tau):
    """x = x(t - D) + k tau (g - x(t - D)) is stable for k tau < 2, whatever the delays (JETMAX Theorem 2)."""
    for net in (Network.dumbbell("100 Mb/s", [0.1, 0.25]), Network.T_u()):
        m = linearize(JetMax(tau=tau), net, "discrete").margins()
        assert m.gain_margin == pytest.approx(2.0 / tau, rel=1e-9)
        assert "the margins are those of the sources' own updates" in m.notes[0]
