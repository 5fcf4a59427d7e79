"""The configurations of Linux against what its kernel does on the same paths (docs/real_tcp.md)."""

import numpy as np
import pytest

import ecc
from ecc.models import CUBIC, NewReno
from ecc.scenario import Scenario

CONFIGURATIONS = [NewReno.linux, CUBIC.linux]


def path(capacity, rtt, buffer):
    """One flow over one link whose buffer is in bandwidth-delay products; it starts when Linux's handshake is over."""
    link = ecc.Link(capacity, rtt / 4, buffer=int(buffer * capacity * rtt / 8))
    flow = ecc.Flow([0], access_delay=rtt / 4, packet_size=1500, delayed_acks=(2, 0.04), start=rtt)
    return ecc.Network([link], [flow])


@pytest.mark.parametrize("make", CONFIGURATIONS)
def test_configurations_take_other_parameters(make):
    given = make()
    assert (given.transport, given.initial, given.min_rto, given.restart, given.prr) == ("rack", 10, 0.2, "linux", True)
    assert given.lost_retransmission == "linux" and make(initial=4.0).initial == 4.0
    assert CUBIC.linux().slow_start == "hystart" and NewReno.linux().slow_start == "standard"


@pytest.mark.slow
@pytest.mark.parametrize("make", CONFIGURATIONS)
def test_the_engines_agree_on_the_configurations(make):
    given = Scenario(path(10e6, 0.02, 0.5), make(), 0.6)
    found, twin = (ecc.packet.simulate(given, engine=engine) for engine in ("c", "python"))
    assert found.stats["digest"] == twin.stats["digest"] and found.drops.sum() > 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "capacity", "rtt", "buffer", "first", "between", "drops"),
    [
        (CUBIC.linux, 100e6, 0.1, 1.0, 2.4, [5.65, 17.65], 110.5),
        (CUBIC.linux, 100e6, 0.02, 1.0, 0.35, [2.95, 6.5, 5.0, 5.03, 5.02], 24),
        (NewReno.linux, 100e6, 0.1, 0.5, 0.9, [27.4], 861.5),
        (NewReno.linux, 20e6, 0.1, 0.5, 0.7, [1.8, 15.0], 237),
    ],
)
def test_losses_are_those_of_the_kernel(make, capacity, rtt, buffer, first, between, drops):
    """Measured with Linux 6.18: the first loss event, the times between loss events [s], and all drops."""
    run = ecc.packet.simulate(Scenario(path(capacity, rtt, buffer), make(), 30.0), 0.05)
    lost = run.drops.to_numpy()[:, 0]
    at = run.data["time"].to_numpy()[lost > 0]
    starts = at[np.diff(at, prepend=-1.0) > 0.5 * (1.0 + buffer)]
    assert starts[0] == pytest.approx(first, abs=0.2)
    assert np.diff(starts)[: len(between)] == pytest.approx(between, rel=0.05, abs=0.15)
    assert lost.sum() == pytest.approx(drops, rel=0.1)
