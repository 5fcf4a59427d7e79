"""Which clock the windows of each protocol have: in its linear model, in its fluid and in packets."""

import numpy as np
import pytest

import ecc
from ecc import models
from ecc.contract.forms import StateMachine
from ecc.errors import LinearizationError
from ecc.loops.closed_loop import has_clockings, has_granted_windows, linearize
from ecc.models import XCP
from ecc.network.network import Network
from ecc.scenario import Scenario

SHORT = Network.dumbbell("10 Gb/s", [12e-6] * 2, buffer="1 MB")
LONG = Network.dumbbell("10 Mb/s", [0.02] * 2, buffer="1 MB")
UNLIKE = Network.dumbbell("100 Mb/s", rtts=[0.01] * 9 + [0.4])

CLOCKS = {
    **dict.fromkeys("BIC CUBIC Compound DCTCP EDN NewReno PEDN UTIL VCP Vegas".split(), ("none", "ack", 0.0)),
    **dict.fromkeys(("ABC", "FAST"), ("ack", "ack", 0.0)),
    **dict.fromkeys(("HPCC", "PowerTCP"), ("paced", "paced", 1.0)),
    "ThetaPowerTCP": ("paced", "paced", 13.0),
    "Copa": ("none", "ack", 2.0),
    "NSCC": ("none", "ack", 17.0),
    "Prague": ("none", "ack", 1.0),
    "Swift": ("none", "ack", 0.0),
    "XCP": ("rate, with a note", "ack", 0.0),
}
"""Protocol -> clock of its linear model without a discipline, of its fluid, and in packets the rate over window/RTT.

A rate of 0 is that of packets that ACKs alone clock; one far above 1 limits bursts, and ACKs still clock the windows.
"""


def window_protocols():
    for name in models.__all__:
        kind = getattr(models, name)
        if isinstance(kind, type) and issubclass(kind, models.Protocol) and name not in ("Protocol", "Controller"):
            try:
                protocol = kind()
            except TypeError:
                continue
            if has_clockings(protocol) or protocol.windowed:
                yield name, protocol


def test_the_table_has_every_window_protocol():
    assert {name for name, _ in window_protocols()} == set(CLOCKS)
    machines = [name for name in ("BBR", "BBRv1", "BBRv2") if hasattr(models, name)]
    assert all(isinstance(getattr(models, name)().fluid_form, StateMachine) for name in machines)


@pytest.mark.parametrize("name", CLOCKS)
def test_linear_model_fluid_and_packets_have_the_clock_of_the_table(name):
    protocol, network = getattr(models, name)(), LONG
    linear, fluid, pace = CLOCKS[name]
    assert ("paced" if protocol.paced_over > 0.0 else "ack") == fluid
    if name in ("HPCC", "NSCC", "PowerTCP", "Swift", "ThetaPowerTCP"):
        network = SHORT
    if linear == "none":
        assert protocol.linear_refusal is not None
    elif linear != "rate, with a note":
        default, named = linearize(protocol, network), linearize(protocol, network, clocking="ack")
        assert np.array_equal(default.matrices, named.matrices) and np.array_equal(default.delays, named.delays)
    duration = 2e-3 if network is SHORT else 2.0
    record = ["env.rate", "env.window", "env.srtt"]
    run = ecc.packet.simulate(Scenario(network, protocol, duration), sample=duration / 200.0, record=record)
    rate, window, rtt = (run.data[one].to_numpy()[-50:, 0] for one in record)
    assert float(np.median(rate * rtt / (8.0 * window))) == pytest.approx(pace, rel=0.15, abs=0.01)


def test_the_linear_model_of_xcp_is_that_of_paced_windows_and_says_so():
    default, paced = linearize(XCP(), UNLIKE), linearize(XCP(), UNLIKE, clocking="rate")
    assert np.array_equal(default.matrices, paced.matrices) and has_granted_windows(XCP())
    (note,) = set(default.notes) - set(paced.notes)
    assert note == "this is the model of paced windows (clocking='rate'); hosts of XCP are clocked by ACKs"
    assert linearize(XCP(paced=True), UNLIKE).notes == linearize(XCP(paced=True), UNLIKE, clocking="rate").notes
    with pytest.raises(LinearizationError, match="XCP has no ACK-clocked linear model: .*; use clocking='rate'"):
        linearize(XCP(), UNLIKE, clocking="ack")


def test_the_paced_model_of_xcp_has_its_characteristic_function():
    s, D = np.array([0.3 + 2.0j, -1.0 + 9.0j]), np.array([0.05, 0.1, 0.3])
    d, xcp = D.mean(), XCP(gamma=0.0)
    system = linearize(xcp, Network.dumbbell("100 Mb/s", rtts=D.tolist()), clocking="rate")
    mean = np.exp(-s[:, None] * D).mean(axis=1)
    expected = s**2 + (xcp.alpha * s / d + xcp.beta / d**2) * mean
    assert system.characteristic(s) == pytest.approx(expected, rel=1e-12)


def _arrivals(clocking):
    scenario = Scenario(UNLIKE, XCP(), 24.0)
    run = ecc.fluid.simulate(scenario, sample=0.01, start="equilibrium", perturbation=1e-3, clocking=clocking)
    deviation = run.arrival.to_numpy()[:, 0] / 1e8 - 1.0
    return np.array([part.std() for part in deviation.reshape(6, -1)])


@pytest.mark.slow
def test_clocked_by_acks_xcp_grows_where_its_paced_model_is_certified_stable():
    """The largest RTT is 8.2 times the mean: arrivals grow by 0.070 in each of the longest RTTs."""
    assert linearize(XCP(), UNLIKE, clocking="rate").certify().stable
    acks = _arrivals("ack")
    assert np.log(acks[5] / acks[2]) / 30.0 == pytest.approx(0.070, abs=0.005)
    assert _arrivals("rate")[5] < 1e-6
    (note,) = [note for note in ecc.linearize(XCP(), UNLIKE).notes if "fluid" in note]
    assert note.startswith("in the ACK-clocked fluid, no perturbation tried dies out: 0.000949 does not")
