"""Near the equilibrium a smooth protocol's run decays as its linear model says, in both fluid engines.

Whoever adds a protocol with a linear model finds it missing here and says where its run can
be compared, or why it cannot.
"""

import numpy as np
import pytest

from ecc.fluid import simulate
from ecc.loops.closed_loop import linearize
from ecc.models import EMKC, EMKCAVQ, MKC, PIQIRCP, QIRCP, RCP, JetMax, Kelly, MaxNet, all_protocols
from ecc.network.network import Link, Network
from ecc.results.transients import decay
from ecc.scenario import Scenario


def dumbbell(*rtts, buffer=10**6):
    """100 Mb/s and a megabyte of buffer: some of these protocols overload links for good, and fill it."""
    network = Network.dumbbell("100 Mb/s", list(rtts))
    return Network([Link(link.capacity, link.delay, buffer) for link in network.links], network.flows)


# (protocol, network, window in s); flows are equal where differences between them are no part of the linear model
SMOOTH = {
    "QIRCP": (QIRCP(alpha=1.5), dumbbell(0.1), (1.0, 9.0)),
    "QIRCP, three RTTs": (QIRCP(alpha=1.0), dumbbell(0.1, 0.3, 0.05), (1.0, 5.0)),
    "PIQIRCP": (PIQIRCP(alpha=0.9), dumbbell(0.12, 0.12), (2.0, 10.0)),
    "RCP, no queue term": (RCP(alpha=1.2, queue_term=False), dumbbell(0.12, 0.3), (0.6, 5.0)),
    "JetMax": (JetMax(tau=0.1), dumbbell(0.3, 0.3, 0.3), (2.0, 20.0)),
    "MKC": (MKC(alpha="5 Mb/s", beta=0.1), dumbbell(0.2, 0.2), (2.0, 10.0)),
    "EMKC": (EMKC(beta=0.1), dumbbell(0.2, 0.2, buffer=1000), (2.0, 10.0)),
    "EMKCAVQ": (EMKCAVQ(tau=0.02), dumbbell(0.2, 0.2), (5.0, 30.0)),
    "Kelly": (Kelly(kappa=0.01), dumbbell(0.1, 0.1), (2.0, 8.0)),
    "MaxNet": (MaxNet(price_scale=0.01), dumbbell(0.1, 0.1), (1.0, 8.0)),
}
NOT_SMOOTH = {"XCP": "its queue, which its law asks for, is at the end of its range at equilibrium"}
CASES = [(name, time) for name, (protocol, *_) in SMOOTH.items() for time in protocol.times if time != "hybrid"]


@pytest.mark.parametrize(("name", "time"), CASES)
def test_decay_is_that_of_the_linear_model(name, time):
    protocol, network, (begin, end) = SMOOTH[name]
    T = protocol.params()["interval"]
    linear = linearize(protocol, network, time=time)
    expected = np.log(linear.spectral_radius) / T if time == "discrete" else linear.spectral_abscissa
    scenario = Scenario(network, protocol, end)
    run = simulate(
        scenario,
        sample=max(T, 0.02) if time == "continuous" else T,
        time="averaged" if time == "continuous" else time,
        start="equilibrium",
        perturbation=1e-5,
        rtol=1e-11,
    )
    at = run.data["time"].to_numpy()
    deviation = run.rate.to_numpy()[:, 0] / protocol.equilibrium(network).rates[0] - 1.0
    found = decay(at[at > begin], deviation[at > begin])
    assert found.rate == pytest.approx(expected, rel=1e-2)


def test_every_protocol_is_here():
    resting = {name for name, cls in all_protocols().items() if cls.equilibrium_is_static}
    assert {name.partition(",")[0] for name in SMOOTH} | set(NOT_SMOOTH) == resting
