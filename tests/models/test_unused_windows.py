"""Windows that do not limit their flow stop growing, and restart after idle periods, for every window protocol."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

import ecc
from ecc.models import CUBIC, DCTCP, Copa, NewReno, Prague, Swift, all_protocols
from ecc.models.shared import windows
from ecc.network.impairments import RandomLoss

S = 1500
BY_LINE_RATE = ("HPCC", "PowerTCP", "ThetaPowerTCP")  # their windows are bounded by the line rate of the host
BY_MODEL = ("BBR", "BBRv1", "BBRv2", "C4", "Vivace")  # a model of the path bounds the window
BY_POLICY = ("Aurora", "Orca")  # a network sets rate or window: tests/models/test_policies.py
HOSTS = [
    name
    for name, kind in all_protocols().items()
    if issubclass(kind, windows.WindowProtocol) and name not in (*BY_LINE_RATE, *BY_POLICY)
]
PLAIN = [name for name in HOSTS if name not in BY_MODEL]
QUICK = ("NewReno", "CUBIC", "BBR", "Copa", "Prague")


def each(names):
    """A case for each name; those of the default run are QUICK."""
    marked = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]
    return pytest.mark.parametrize("name", marked)


def host(name, **options):
    """A protocol by name; Swift's target delay must exceed the RTT here."""
    if name == "Swift":
        options = {"base_target": "60 ms", **options}
    return all_protocols()[name](**options)


def simulated(protocol, duration, record=("env.window", "env.in_flight"), sample=0.01, **flow):
    """One flow over 100 Mb/s, RTT 50 ms."""
    path = ecc.Network([ecc.Link("100 Mb/s", "25 ms")], [ecc.Flow([0], packet_size=S, **flow)])
    return ecc.packet.simulate(ecc.Scenario(path, protocol, duration), sample=sample, record=record, engine="python")


def packets(run, name):
    return run.data[name][:, 0] / S


def factor(name):
    """How many times the bytes that it uses a window may be.

    A grant of XCP for the first write, as it waits for the window, is large; Startup of BBR has a gain of nearly 3;
    Vivace doubles its rate as long as its utility grows, and its window is twice its rate times the RTT.
    """
    return {"XCP": 3.0, "Vivace": 5.0}.get(name, 4.0 if name in BY_MODEL else 2.0)


@each([*HOSTS, "XCP"])
def test_application_limited_windows_stay_at_twice_what_is_used(name):
    run = simulated(host(name), 4.0, writes=("12.5 kB", "100 ms"))
    used = float(packets(run, "env.in_flight").max())
    assert run.goodput[-100:].mean() == pytest.approx(1e6, rel=0.1)
    assert packets(run, "env.window").max() <= factor(name) * used + 4.0


@pytest.mark.slow
@each(HOSTS)
def test_receiver_limited_windows_stay_at_twice_the_receivers(name):
    run = simulated(host(name, receiver_window=20 * S), 3.0)
    used = float(packets(run, "env.in_flight").max())
    assert used == (pytest.approx(8.0, abs=2.0) if name == "VCP" else 20.0)  # VCP opens by 6 % an RTT
    assert packets(run, "env.window")[-1] <= factor(name) * used + 4.0


class _Paced:
    """A rate that the host does not know of."""

    def flow_hooks(self):
        hooks = super().flow_hooks()

        def paced(flow, header, p, env):
            windows.flow_on_start(flow, header, p, env)
            env.rate = 2e6

        return {**hooks, "on_start": paced}


@each(["NewReno", "CUBIC", "BIC", "DCTCP", "FAST"])
def test_pacing_limited_windows_stay_at_twice_what_is_used(name):
    kind = type(f"Paced{name}", (_Paced, all_protocols()[name]), {})
    run = simulated(kind(), 3.0)
    used = float(packets(run, "env.in_flight").max())
    assert 7.0 < used < 11.0  # 2 Mb/s for 50 ms
    assert packets(run, "env.window").max() <= 2.0 * used + 4.0


@pytest.mark.parametrize("name", ["Prague", "Copa"])
def test_hosts_that_pace_their_window_grow_as_far_as_others(name):
    """1 Mb/s, a packet at a time: about four in flight, or six with an RTT of 75 ms."""
    run = simulated(host(name), 4.0, writes=(S, "12 ms"))
    used = float(packets(run, "env.in_flight").max())
    assert used <= 6.0
    assert packets(run, "env.window").max() <= 2.0 * used + 3.5


def test_the_cubic_stays_at_a_receivers_window_in_congestion_avoidance():
    """Behind a loss there is no slow start left: one packet more than what is used (RFC 9438 sec. 5.8)."""
    for protocol in (CUBIC(receiver_window=20 * S), NewReno(receiver_window=20 * S)):
        path = ecc.Network([ecc.Link("100 Mb/s", "25 ms")], [ecc.Flow([0], packet_size=S)])
        scenario = ecc.Scenario(path, protocol, 6.0, impairments=[RandomLoss(0.005, link=0)], seed=3)
        run = ecc.packet.simulate(scenario, sample=0.1, record=["env.window"], engine="python")
        assert run.flows["retransmitted"][0] > 0
        assert 15.0 < (run.data["env.window"][-50:] / S).max() <= 22.0


# ---- idle periods ----------------------------------------------------------------------------------------------------


def window_after_idle(protocol, idle=10.0):
    """The window [packets] just after a transfer that follows an idle period, and that before it."""
    run = simulated(protocol, idle + 0.04, writes=("600 kB", idle))
    window = packets(run, "env.window")
    return float(window[-3]), float(window.sel(time=idle - 0.1, method="nearest"))


@pytest.mark.slow
@each([name for name in PLAIN if name != "Swift"])
def test_a_flow_restarts_with_its_first_window(name):
    """RFC 5681 sec. 4.1: 3 packets of 1500 bytes; Prague's window for the engine is a packet and 3 % larger."""
    after, before = window_after_idle(host(name))
    assert before > 8.0
    assert after == pytest.approx(3.0 * 1.03 + 1.0 if name == "Prague" else 3.0)
    kept, before = window_after_idle(host(name, restart="none"))
    assert kept == pytest.approx(before)


@each(BY_MODEL)
def test_models_of_a_path_stay_after_an_idle_period(name):
    with pytest.raises(ValueError, match=r"restart must be one of 'none', got 'linux'"):
        host(name, restart="linux")
    after, _ = window_after_idle(host(name))
    assert after > 3.0


def test_linux_halves_a_window_once_for_each_timeout():
    """tcp_cwnd_restart: down to 10 packets, and the threshold is 3/4 of the window before."""
    for idle, left in ((0.9, 100.0), (1.5, 50.0), (2.5, 25.0), (3.5, 12.5), (60.0, 10.0)):
        flow, env = NewReno.FlowState(ssthresh=20.0 * S), SimpleNamespace(packet_size=S, idle=idle, rto=1.0)
        p = NewReno(restart="linux").namespace()
        assert windows.restart_window(100.0 * S, flow, p, env) == left * S
        assert flow.ssthresh == (75.0 if idle > 1.0 else 20.0) * S
        assert windows.restart_window(4.0 * S, flow, p, env) == 4.0 * S
    p = NewReno(restart="linux", initial=2).namespace()
    assert windows.restart_window(100.0 * S, NewReno.FlowState(), p, env) == 2.0 * S
    assert window_after_idle(CUBIC(restart="linux"))[0] == 10.0


def test_a_flow_that_pauses_for_less_than_a_timeout_keeps_its_window():
    after, before = window_after_idle(NewReno(), idle=0.95)
    assert after >= before > 10.0


def test_the_time_of_the_cubic_excludes_idle_periods():
    """CUBIC's epoch moves by the idle time, also by one that is shorter than the timeout (bictcp_cwnd_event)."""
    hook, p = CUBIC().flow_hooks()["on_restart"], CUBIC().namespace()
    for limited, began in ((-1.0, 5.5), (8.0, 7.0)):
        flow = CUBIC.FlowState(began=5.0, limited=limited)
        env = SimpleNamespace(now=10.0, idle=0.5, rto=1.0, packet_size=S, window=50.0 * S)
        hook(flow, None, p, env)
        assert (flow.began, flow.limited, env.window) == (began, -1.0, 50.0 * S)
    env.idle = 2.0
    hook(flow, None, p, env)
    assert env.window == 3.0 * S


def test_copa_opens_in_slow_start_after_an_idle_period():
    flow, env = (
        Copa.FlowState(slow_start=0, velocity=8.0),
        SimpleNamespace(now=9.0, idle=5.0, rto=1.0, packet_size=S, window=50.0 * S),
    )
    Copa().flow_hooks()["on_restart"](flow, None, Copa().namespace(), env)
    assert (env.window, flow.slow_start, flow.velocity) == (3.0 * S, 1, 1.0)


@pytest.mark.slow
def test_both_engines_agree_on_what_limits_a_flow():
    path = [ecc.Link("10 Mb/s", "10 ms", buffer_packets=20)]
    flows = [
        ecc.Flow([0], packet_size=S, writes=("30 kB", "1.7 s")),
        ecc.Flow([0], packet_size=S, start=0.1, writes=("4 kB", "31 ms"), access_delay="3 ms"),
        ecc.Flow([0], packet_size=S, start=0.2, size="1 MB"),
    ]
    for protocol in (
        CUBIC(receiver_window=15 * S),
        NewReno(restart="linux"),
        Prague(),
        Copa(),
        DCTCP(transport="rack"),
    ):
        scenario = ecc.Scenario(ecc.Network(path, flows), protocol, 5.0)
        record = ["env.window", "env.rate", "env.limited_by"]
        runs = [ecc.packet.simulate(scenario, sample=0.05, record=record, engine=engine) for engine in ("c", "python")]
        assert runs[0].stats["digest"] == runs[1].stats["digest"]
        for name in record:
            assert (runs[0].data[name] == runs[1].data[name]).all()
        assert set(runs[0].data["env.limited_by"].to_numpy().ravel().tolist()) >= {0, 1}


def test_restart_is_one_of_four_words():
    with pytest.raises(ValueError, match=r"restart must be one of 'none', 'rfc5681', 'linux', 'rfc7661', got 'cwv'"):
        NewReno(restart="cwv")
    assert replace(Swift(), restart="rfc5681").restart == "rfc5681" and Swift().restart == "none"
