import numpy as np
import pytest

from ecc.models import PIQIRCP, RCP
from ecc.network import Flow, Link, Network
from ecc.scenario import Scenario
from ecc.workload import Arrivals, Workload


def scenario(**changes):
    return Scenario(Network.T_u(), PIQIRCP(alpha=0.3, alpha1=0.2), 60.0, seed=7).with_(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"network": Network.dumbbell("100 Mb/s", rtts=[0.12, 0.3], buffer="1.25 MB", stops=[10.0, 20.0])},
        {"network": Network.T4(), "protocol": RCP(rtt="max")},
        {"network": Network([Link("1 Mb/s", buffer_packets=5)], [Flow([0], packet_size=("0.8 kB", 1300))])},
        {"assignment": [0, 2, 2, 2, 2, 2, 2, 2, 2, 2]},
        {"workload": Workload([Flow([0], 1.0, size="1 MB")], [Arrivals([0, 1], 0.2, "100 kB", shape=1.4)])},
    ],
)
def test_toml_round_trip(changes, tmp_path):
    before = scenario(**changes)
    path = tmp_path / "scenario.toml"
    path.write_text(before.to_toml())
    after = Scenario.from_toml(path)
    assert after.network.links == before.network.links
    assert after.network.flows == before.network.flows
    assert after.network.rtts == pytest.approx(before.network.rtts, abs=1e-15)
    assert (after.protocol, after.duration, after.seed) == (before.protocol, before.duration, before.seed)
    assert (after.workload, after.assignment) == (before.workload, before.assignment)


TOML = """
duration = "10 s"
[protocol]
name = "piqi-rcp"
alpha = 0.4
[[links]]
capacity = "100 Mb/s"
delay = "50 ms"
[[flows]]
route = [0]
"""


def test_toml_takes_units_and_spellings():
    read = Scenario.from_toml(TOML)
    assert read.protocol == PIQIRCP(alpha=0.4)
    assert read.network.rtts.tolist() == [0.1]
    assert read.duration == 10.0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("alpha = 0.4", "aplha = 0.4", "protocol has no key 'aplha'; allowed are alpha, tau1"),
        ("alpha = 0.4", "alpha = -1", r"alpha must be > 0, got -1 \(in protocol\)"),
        (
            'name = "piqi-rcp"',
            'name = "tcp"',
            "protocol name must be one of XCP, RCP, QIRCP, .* or module:Class, got 'tcp'",
        ),
        ('name = "piqi-rcp"', 'name = "nowhere:Thing"', "protocol name 'nowhere:Thing' cannot be imported"),
        ('delay = "50 ms"', 'dealy = "50 ms"', r"links\[0\] has no key 'dealy'; allowed are capacity, delay, buffer"),
        (
            'capacity = "100 Mb/s"',
            'capacity = "-1 Mb/s"',
            r"capacity must be > 0 bit/s, got '-1 Mb/s' \(in links\[0\]\)",
        ),
        ("route = [0]", "route = [3]", r"route must use links 0 to 0, got 3 \(flow 0\)"),
        ('duration = "10 s"', "", "scenario lacks the key 'duration'"),
        ('duration = "10 s"', "duration = 0", "duration must be > 0 s, got 0"),
        ('duration = "10 s"', "duration = 1\nseed = 18446744073709551616", r"seed must be < 2\^64, got 184467"),
        ('duration = "10 s"', "duration = 5e6", r"duration must be < 4e\+06 s, which the clock holds, got 5000000\.0"),
        ('delay = "50 ms"', "delay = 1e6", r"delay must be < 1e\+06 s, which the clock holds, got 1000000\.0"),
        ('duration = "10 s"', "duration = 1\nspeed = 3", "scenario has no key 'speed'"),
        ('duration = "10 s"', "duration = ", "scenario is not valid TOML"),
    ],
)
def test_bad_toml_names_the_place(old, new, message):
    with pytest.raises(ValueError, match=message) as caught:
        Scenario.from_toml(TOML.replace(old, new))
    assert "\n" not in str(caught.value)


def test_assignment_must_be_on_the_route():
    with pytest.raises(ValueError, match=r"assignment must use links of the flow's route, got 1 \(flow 1\)"):
        scenario(assignment=[0, 1] + [2] * 8)


def test_arrivals_have_the_stated_means():
    stream = Arrivals([0], "10 ms", "100 kB", shape=2.5)
    flows = Workload([Flow([0], 3.0, size=5)], [stream]).draw(seed=1, duration=200.0)
    again = Workload([Flow([0], 3.0, size=5)], [stream]).draw(seed=1, duration=200.0)
    assert flows == again
    starts, sizes = np.array([f.start for f in flows]), np.array([f.size for f in flows])
    assert np.all(np.diff(starts) >= 0) and starts.max() < 200.0
    assert len(flows) == pytest.approx(20_000, rel=0.03)
    assert sizes.mean() == pytest.approx(100_000, rel=0.05)
    assert stream.offered_rate == pytest.approx(80e6)


def test_bad_arrivals():
    with pytest.raises(ValueError, match=r"shape must be > 1 \(or the mean is infinite\), got 1\.0"):
        Arrivals([0], 0.1, 1000, shape=1.0)
    with pytest.raises(TypeError, match="transfers must be a sequence of Flow"):
        Workload(transfers=[1])
