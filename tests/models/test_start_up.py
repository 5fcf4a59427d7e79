"""All parts of the start-up together: checkpoints, starts from an equilibrium, real frames, and combinations."""

import pytest

import ecc
from ecc.models import CUBIC, NewReno
from ecc.models.shared import careful_resume, start_up, windows
from ecc.queues import PI2

PARTS = {
    "search": {"slow_start": "search", "search_drain": True},
    "linux": {"application_limited": "linux"},
    "ratelimited": {"application_limited": "ratelimited"},
    "rfc7661": {"application_limited": "rfc7661", "restart": "rfc7661"},
    "resume": {"saved_window": "250 kB", "saved_rtt": "50 ms"},
}
ALL = {**PARTS["search"], **PARTS["rfc7661"], **PARTS["resume"]}
parts = pytest.mark.parametrize("options", [*PARTS.values(), ALL], ids=[*PARTS, "all"])


@pytest.mark.slow
@parts
def test_a_checkpoint_keeps_their_state(options, tmp_path):
    net = ecc.Network.dumbbell("20 Mb/s", rtts=["50 ms"], buffer="60 kB", packet_size=1500)
    scenario = ecc.Scenario(net, NewReno(transport="rack", **options), 1.2)
    whole = ecc.packet.simulate(scenario)
    run = ecc.packet.Run(scenario)
    run.advance(0.27)
    run.save(tmp_path / "run.ckpt")
    run.close()
    assert ecc.packet.resume(tmp_path / "run.ckpt").advance().trajectory().stats["digest"] == whole.stats["digest"]


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["sack", "rack", "quic"])
def test_all_parts_at_once_have_the_same_events_in_the_twin(transport):
    net = ecc.Network.dumbbell("20 Mb/s", rtts=["50 ms"], buffer="60 kB", packet_size=1500)
    scenario = ecc.Scenario(net, CUBIC(ecn=True, transport=transport, **ALL), 1.0)
    c, twin = (ecc.packet.simulate(scenario, engine=engine).stats["digest"] for engine in ("c", "python"))
    assert c == twin


def test_a_flow_at_an_equilibrium_does_not_jump():
    ten = ecc.Network.dumbbell("100 Mb/s", rtts=["50 ms"] * 10, packet_size=1500)
    halves = {"flows": CUBIC(ecn=True, **ALL), "links": PI2(mark=True)}
    run = ecc.packet.simulate(ecc.Scenario(ten, halves, 1.0), start="equilibrium", record=["flow.resume_phase"])
    assert run.is_complete
    assert set(run["flow.resume_phase"].values.ravel()) <= {careful_resume.RECONNAISSANCE, careful_resume.NORMAL}
    assert (run["flow.resume_phase"][-1] == careful_resume.NORMAL).all()


class Own(start_up.StartUpProtocol):
    """A user's window protocol: three packets an RTT, and three quarters after a loss."""

    transport = "rack"

    def flow_hooks(self):
        return {**windows.STARTS, "on_ack": grow, "on_loss": reduce}


def grow(flow, header, p, env):
    if windows.opens(flow, env):
        if windows.in_slow_start(flow, env):
            windows.slow_start(flow, p, env)
        else:
            env.window += 3.0 * env.packet_size * env.acked / env.window


def reduce(flow, header, p, env):
    window = 0.75 * windows.on_the_way(env)
    if env.kind == 0:
        windows.cut(flow, window, env)
    else:
        windows.time_out(flow, window, env)


@pytest.mark.slow
def test_a_class_of_a_users_takes_all_parts():
    """Its application sends ten packets and four: the window ends at the draft's limit. The twin agrees."""
    path = ecc.Network([ecc.Link("100 Mb/s", "25 ms")], [ecc.Flow([0], size=14_000, writes=(10_000, "0.3 s"))])
    final = {}
    for rule in ("none", "ratelimited"):
        protocol = Own(initial=10, application_limited=rule, slow_start="search")
        run = ecc.packet.simulate(ecc.Scenario(path, protocol, 0.6), record=["env.window"])
        final[rule] = float(run["env.window"][-1, 0]) / 1000.0
    assert final == {"none": 24.0, "ratelimited": 20.0}
    net = ecc.Network.dumbbell("20 Mb/s", rtts=["50 ms"], buffer="60 kB", packet_size=1500)
    scenario = ecc.Scenario(net, Own(**ALL), 0.7)
    c, twin = (ecc.packet.simulate(scenario, engine=engine).stats["digest"] for engine in ("c", "python"))
    assert c == twin != ecc.packet.simulate(ecc.Scenario(net, Own(), 0.7)).stats["digest"]


@pytest.mark.slow
def test_real_frames_follow_them():
    """The jump, SEARCH and the rules for windows with real frames and simulated ones."""
    net = ecc.Network.dumbbell("5 Mb/s", rtts=["50 ms"], buffer="60 kB", packet_size=1000)
    options = {**ALL, "saved_window": "31 kB"}
    scenario = ecc.Scenario(net, NewReno(transport="rack", **options), 2.0)
    runs = [
        engine(scenario, record=["flow.resume_phase"], **more)
        for engine, more in ((ecc.packet.simulate, {}), (ecc.live.simulate, {"lateness": "1 s"}))
    ]
    packets, frames = (float(run.goodput[10:].mean()) for run in runs)
    assert frames == pytest.approx(packets, rel=0.05)
    assert {int(run["flow.resume_phase"].max()) for run in runs} == {careful_resume.NORMAL}
