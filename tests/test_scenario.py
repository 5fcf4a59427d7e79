from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecc.models import PIQIRCP, RCP, ConstantRate, all_protocols
from ecc.network.impairments import CapacitySchedule, DelaySpikes, DeliveryTrace, Jitter, RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario
from ecc.traffic.tmix import ConnectionVector, Synthetic, Unit
from ecc.traffic.workload import Arrivals, OnOff, Tmix, Workload


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


SECONDS = st.floats(1e-3, 10.0)
ROUTES = st.sampled_from([[0], [1], [0, 1]])
BACK = st.sampled_from([None, [1], [0, 1]])
DELAYS = st.one_of(SECONDS, st.tuples(st.just(0.0), SECONDS))
PACKETS = st.sampled_from([500, 1000, (100, 1500)])


@st.composite
def drawn_networks(draw):
    links = [
        Link(
            draw(st.floats(1e5, 1e10)),
            draw(SECONDS),
            draw(st.sampled_from([None, 20_000])),
            draw(st.sampled_from([None, 9])),
        )
        for _ in range(2)
    ]
    flow = st.builds(
        Flow,
        ROUTES,
        st.floats(0.0, 5.0),
        st.none() | st.floats(6.0, 9.0),
        st.none() | st.integers(1, 10**9),
        SECONDS,
        PACKETS,
        BACK,
        st.sampled_from([None, (2, 0.04)]),
    )
    return Network(links, draw(st.lists(flow, min_size=1, max_size=3)))


NETWORKS = st.one_of(
    drawn_networks(),
    st.builds(
        lambda c, rtts: Network.dumbbell(c, rtts), st.floats(1e5, 1e10), st.lists(SECONDS, min_size=1, max_size=4)
    ),
    st.sampled_from([Network.T1(), Network.T2(), Network.T3(), Network.T4(), Network.T5(3), Network.T_u()]),
    st.builds(Network.parking_lot, st.lists(st.floats(1e6, 1e9), min_size=1, max_size=3)),
    st.builds(Network.xcp_unfair, st.integers(2, 4)),
)
TOLD = {"access_delay": DELAYS, "packet_size": PACKETS, "reverse": BACK}
TRAFFIC = st.builds(
    Workload,
    st.lists(st.builds(Flow, ROUTES, SECONDS, size=st.integers(1, 10**9), reverse=BACK), max_size=2),
    st.lists(
        st.builds(
            Arrivals,
            ROUTES,
            SECONDS,
            st.integers(1, 10**6),
            st.none() | st.floats(1.1, 2.0),
            spacing=st.sampled_from(["poisson", "regular"]),
            batch=st.integers(1, 3),
            **TOLD,
        ),
        max_size=2,
    ),
    st.lists(st.builds(OnOff, ROUTES, SECONDS, SECONDS, st.integers(1, 3), **TOLD), max_size=1),
    st.lists(
        st.builds(
            Tmix,
            st.sampled_from(
                [
                    Synthetic(3.0, exact=True),
                    Synthetic.edn(),
                    (ConnectionVector(0.25, 0.1, [Unit(0, 500), Unit(1, 9000, 0.5)], windows=(65535, 32768)),),
                    (
                        ConnectionVector(
                            0.0, 0.1, [Unit(0, 500, 0.125), Unit(1, 70)], concurrent=True, close=(None, 0.25)
                        ),
                    ),
                ]
            ),
            st.just([0]),
            st.just([1]),
            st.sampled_from([1.0, 0.5]),
        ),
        max_size=1,
    ),
)
IMPAIRED = st.lists(
    st.one_of(
        st.builds(RandomLoss, st.floats(0.0, 1.0), link=st.just(0), kind=st.sampled_from(["data", "ack", "all"])),
        st.builds(Jitter, st.tuples(st.just(0.0), SECONDS), acks_of=st.sampled_from(["all", 0, [0]])),
        st.builds(DelaySpikes, link=st.just(0)),
        st.just(CapacitySchedule(0, [1.0, 2.0], [1e6, 0.0])),
    ),
    max_size=2,
    unique_by=type,
)


@pytest.mark.property
@settings(max_examples=50)
@given(st.data())
def test_a_scenario_comes_back_from_its_toml_as_it_was(data):
    network = data.draw(NETWORKS)
    kinds = st.sampled_from([*all_protocols().values()]).map(lambda kind: kind())
    one = st.one_of(kinds, st.builds(RCP, alpha=st.floats(0.1, 1.0), interval=SECONDS, queue_term=st.booleans()))
    mixed = st.builds(lambda a, b: {"flows": {0: a, "default": b}, "links": {0: [a]}}, one, st.just(ConstantRate(1e6)))
    protocol = data.draw(one | mixed)
    clocks = st.none() | st.lists(SECONDS, min_size=network.n_links, max_size=network.n_links)
    phases = st.lists(st.floats(0.0, 0.99), min_size=network.n_links, max_size=network.n_links)
    before = Scenario(
        network,
        protocol,
        data.draw(st.floats(1e-3, 1e5)),
        workload=data.draw(st.none() | TRAFFIC) if network.n_links == 2 else None,
        seed=data.draw(st.integers(0, 2**64 - 1)),
        assignment=data.draw(st.sampled_from([None, [flow.route[-1] for flow in network.flows]])),
        phases=data.draw(st.sampled_from(["random", "equal"]) | phases),
        intervals=data.draw(clocks),
        header_bytes=data.draw(st.booleans()),
        phase_jitter=data.draw(st.sampled_from([None, True, False])),
        impairments=data.draw(IMPAIRED),
    )
    assert Scenario.from_toml(before.to_toml()) == before
    assert Scenario.from_toml(before.to_toml()).network.rtts.tolist() == network.rtts.tolist()


def test_rtts_of_a_file_hold_only_where_its_delays_do():
    tables = Network.dumbbell("1 Mb/s", [0.12, 0.3]).to_dict()
    assert Network.from_dict(tables).rtts.tolist() == [0.12, 0.3]
    tables["flows"][1]["access_delay"] = 0.5
    assert Network.from_dict(tables).rtts.tolist() == [0.12, 1.12]
    with pytest.raises(ValueError, match="rtts must have one entry for each of 2 flows, got 1"):
        Network.from_dict(tables | {"rtts": [0.1]})


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


def test_assignments_name_the_place_of_a_bad_value():
    halves = '[protocol.flows]\ndefault = { name = "NewReno" }\n[protocol.links]\n0 = { name = "PIE", target = -1 }'
    text = TOML.replace('[protocol]\nname = "piqi-rcp"\nalpha = 0.4', halves)
    with pytest.raises(ValueError, match=r"^target must be > 0 s, got -1 \(in protocol\.links\.0\)$"):
        Scenario.from_toml(text)
    with pytest.raises(
        ValueError, match=r"^protocol has no key 'link' \(did you mean links\?\); allowed are flows, links$"
    ):
        Scenario.from_toml(text.replace("protocol.links", "protocol.link"))


def test_a_trace_of_mahimahi_is_named_by_its_file(tmp_path):
    (tmp_path / "walk.up").write_text("2\n3\n3\n10\n")
    file = (tmp_path / "walk.up").as_posix()
    text = f'{TOML}[[impairments]]\nname = "DeliveryTrace"\nlink = 0\nfile = "{file}"\n'
    read = Scenario.from_toml(text)
    assert read.impairments == (DeliveryTrace(0, [0.002, 0.003, 0.003, 0.01]),)
    assert Scenario.from_toml(read.to_toml()) == read
    with pytest.raises(ValueError, match=r"^file must be the path of a trace, in place of times, got .* \(in impairm"):
        Scenario.from_toml(text + "times = [1.0]\n")


def test_toml_takes_units_and_spellings():
    read = Scenario.from_toml(TOML)
    assert read.protocol == PIQIRCP(alpha=0.4)
    assert read.network.rtts.tolist() == [0.1]
    assert read.duration == 10.0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "alpha = 0.4",
            "aplha = 0.4",
            r"protocol has no key 'aplha' \(did you mean alpha, alpha2 or alpha1\?\); allowed are alpha, tau1",
        ),
        ("alpha = 0.4", "alpha = -1", r"alpha must be > 0, got -1 \(in protocol\)"),
        (
            'name = "piqi-rcp"',
            'name = "tcp"',
            "protocol name must be a protocol or discipline of ecc, or module:Class or path.so, got 'tcp': did you",
        ),
        ('name = "piqi-rcp"', 'name = "nowhere:Thing"', "protocol name 'nowhere:Thing' cannot be imported"),
        (
            'delay = "50 ms"',
            'dealy = "50 ms"',
            r"links\[0\] has no key 'dealy' \(did you mean delay\?\); allowed are capacity, delay, buffer",
        ),
        (
            'capacity = "100 Mb/s"',
            'capacity = "-1 Mb/s"',
            r"capacity must be > 0 bit/s, got '-1 Mb/s' \(in links\[0\]\)",
        ),
        ("route = [0]", "route = [3]", r"route must use links 0 to 0, got 3 \(flow 0\)"),
        ('duration = "10 s"', "", "scenario lacks the key 'duration'"),
        ('duration = "10 s"', "duration = 0", "duration must be > 0 s, got 0"),
        ('duration = "10 s"', "duration = inf", "duration must be > 0 s and finite, got inf"),
        ('capacity = "100 Mb/s"', "", r"links\[0\] lacks the key 'capacity'"),
        ('name = "piqi-rcp"', "name = 3", "protocol name must be one of .* or path.so, got 3$"),
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


@pytest.mark.slow
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


def test_a_line_of_toml_is_no_path():
    with pytest.raises(ValueError, match="^scenario lacks the key 'protocol'$"):
        Scenario.from_toml("duration = 3")


def test_more_samples_than_memory_holds_are_refused():
    scenario = Scenario(Network.dumbbell("1 Mb/s", [0.1]), RCP(), 2.0)
    with pytest.raises(ValueError, match="^sample must be >= 2e-09 s for this duration, .*, got 1e-12 s$"):
        scenario.sample_period(1e-12)


def test_a_scenario_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("ecc.scenario._MAX_SIZE", 2**20)
    with pytest.raises(ValueError, match=r"^scenario must have <= 1 MiB, got more \('/dev/zero'\)$"):
        Scenario.from_toml(Path("/dev/zero"))
