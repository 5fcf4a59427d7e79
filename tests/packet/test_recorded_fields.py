"""States that are recorded: the same in C and in Python, as protocols keep them, also from a checkpoint on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import ecc
from ecc.cli import main
from ecc.models import RCP, ConstantRate, JetMax, NewReno
from ecc.packet import Run, resume, simulate
from ecc.packet.prepare import prepare
from ecc.packet.recorded_fields import ENV_FIELDS

NETWORK = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05, 0.1], starts=[0.0, 1.0])


def fields(scenario):
    """All that can be recorded."""
    part = prepare(scenario).parts[0]
    names = [f"env.{name}" for name in ENV_FIELDS]
    for side, states in (("flow", part.flow_states), ("link", part.link_states)):
        names += [f"{side}.{name}" for name in states.dtype.names or ()]
    return names


@pytest.mark.parametrize("protocol", [RCP(), NewReno(), JetMax()], ids=lambda one: type(one).__name__)
def test_both_engines_record_the_same(protocol):
    scenario = ecc.Scenario(NETWORK, protocol, 1.5)
    names = fields(scenario)
    fast, slow = (simulate(scenario, record=names, engine=engine) for engine in ("c", "python"))
    plain = simulate(scenario)
    assert fast.stats["digest"] == slow.stats["digest"] == plain.stats["digest"]
    assert set(fast.data) == set(plain.data) | set(names)
    for name in fast.data:
        assert fast[name].dtype == slow[name].dtype
        np.testing.assert_array_equal(fast[name].to_numpy(), slow[name].to_numpy(), err_msg=name)
    for name in plain.data:
        np.testing.assert_array_equal(fast[name].to_numpy(), plain[name].to_numpy(), err_msg=name)
    assert fast.flows.equals(slow.flows)


def test_a_state_is_what_the_protocol_keeps():
    scenario = ecc.Scenario(NETWORK, RCP(), 5.0)
    run = Run(scenario, record=["flow.x", "flow.bottleneck", "link.R", "env.rate", "env.min_rtt"])
    found = run.advance().trajectory()
    assert found["flow.x"].dims == ("time", "flow") and found["link.R"].dims == ("time", "link")
    states = run._setup.parts[0]
    assert found["flow.x"][-1].to_numpy().tolist() == states.flow_states["x"].tolist()
    assert found["link.R"][-1].to_numpy().tolist() == states.link_states["R"].tolist()
    assert found["flow.bottleneck"].dtype == np.int64
    assert np.array_equal(found["flow.bottleneck"], found.bottleneck)
    assert found["env.rate"][5, 1] == 0.0 and found["env.rate"][-1, 1] > 1e6  # it starts at 1 s
    assert found["env.min_rtt"][-1, 0] == pytest.approx(0.05, abs=0.002)
    assert found.to_dataframe("link.R").shape == (50, 1)
    with pytest.raises(KeyError, match=r"no series 'flow.R'; it has rate, .*env.min_rtt"):
        found["flow.R"]


@dataclass
class Remembering:
    last: tuple[int, ...] = field(default_factory=lambda: (0, 0, 0))
    R: float = 0.0


def remember(link, header, p, env):
    link.last[env.flow] = link.last[env.flow] + 1
    link.R = env.queue


@dataclass(frozen=True)
class Counting(ConstantRate):
    LinkState = Remembering

    def link_hooks(self):
        return {"on_arrival": remember}


def test_elements_of_arrays_and_several_protocols():
    mix = {"flows": {0: RCP(), 1: ConstantRate("1 Mb/s")}}
    found = simulate(ecc.Scenario(NETWORK, mix, 2.0), record=["flow.x", "env.window"])
    assert np.isnan(found["flow.x"][:, 1]).all() and not np.isnan(found["flow.x"][:, 0]).any()
    scenario = ecc.Scenario(NETWORK, Counting("1 Mb/s"), 3.0)
    fast, slow = (simulate(scenario, record=["link.last[1]"], engine=engine) for engine in ("c", "python"))
    assert np.array_equal(fast["link.last[1]"], slow["link.last[1]"])
    counted = fast["link.last[1]"][:, 0].to_numpy()
    assert counted[9] == 0 and 245 <= counted[-1] <= 250  # packets, from 1 s on, some still on the access line
    for name, message in (
        ("link.last", r"must name an element of an array, link.last\[0\] to link.last\[2\]"),
        ("link.last[3]", r"must have an element below 3, got 'link.last\[3\]'"),
        ("link.R[0]", r"must have an element for arrays only, got 'link.R\[0\]'"),
    ):
        with pytest.raises(ValueError, match=message):
            simulate(scenario, record=[name])


@pytest.mark.parametrize(
    ("record", "error", "message"),
    [
        (["x"], ValueError, r"record must be link.FIELD, flow.FIELD or env.FIELD, got 'x'"),
        (["flow.y"], ValueError, r"record must name a field of a flow, which are x, R, bottleneck, .*got 'flow.y'"),
        (["env.random"], ValueError, r"record may have env. and rate, window, .*got 'env.random'"),
        (["flow.x", "flow.x"], ValueError, r"record must name each field once, got flow.x, flow.x"),
        ("flow.x", TypeError, r"record must be a sequence.*got 'flow.x'"),
    ],
)
def test_what_is_not_there_is_refused(record, error, message):
    with pytest.raises(error, match=message):
        simulate(ecc.Scenario(NETWORK, RCP(), 1.0), record=record)


@pytest.mark.slow
def test_a_checkpoint_goes_on_recording(tmp_path):
    scenario = ecc.Scenario(NETWORK, RCP(), 4.0)
    whole = simulate(scenario, record=["flow.x", "env.rate"])
    run = Run(scenario, record=["flow.x", "env.rate"]).advance(1.7)
    run.save(tmp_path / "run")
    found = resume(tmp_path / "run").advance().trajectory()
    for name in ("flow.x", "env.rate"):
        assert np.array_equal(found[name], whole[name])
    found.save(tmp_path / "run.nc")
    assert np.array_equal(ecc.Trajectory.load(tmp_path / "run.nc")["flow.x"], whole["flow.x"])


def test_the_command_line_records(tmp_path, capsys):
    path, out = tmp_path / "scenario.toml", tmp_path / "run.csv"
    path.write_text(ecc.Scenario(NETWORK, RCP(), 1.0).to_toml())
    for extra in ([], ["--python"]):
        assert main(["simulate", str(path), "--record", "flow.x", "--record", "link.R", "--out", str(out), *extra]) == 0
        header = out.read_text().splitlines()[0].split(",")
        assert header[-3:] == ["flow.x 0", "flow.x 1", "link.R 0"]
    assert main(["simulate", str(path), "--python", "--engine", "fluid"]) == 2
    assert "python needs --engine packet, and no checkpoint" in capsys.readouterr().err


def shout(flow, header, p, env):
    print("heard", flow.R)
    flow.R = header.rate


@dataclass(frozen=True)
class Loud(RCP):
    def flow_hooks(self):
        return super().flow_hooks() | {"on_ack": shout}


def test_hooks_print_in_python(capsys):
    scenario = ecc.Scenario(NETWORK, Loud(), 0.5)
    with pytest.raises(
        TypeError, match=r"print \(test_recorded_fields.py:\d+\) needs Python, .*engine='python'.*--python"
    ):
        simulate(scenario)
    assert simulate(scenario, engine="python").is_complete
    assert "heard 0.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "fortran"}, r"engine must be one of 'c', 'python', got 'fortran'"),
        ({"engine": "python", "histogram_from": 0.1}, r"histogram_from needs engine='c'"),
        ({"engine": "python", "memory_limit": 10**6}, r"memory_limit needs engine='c'"),
    ],
)
def test_what_python_has_not_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        simulate(ecc.Scenario(NETWORK, RCP(), 1.0), **options)


def test_a_run_in_python_is_not_saved(tmp_path):
    run = Run(ecc.Scenario(NETWORK, RCP(), 1.0), engine="python").advance(0.5)
    with pytest.raises(ValueError, match=r"save needs a run of engine='c', without capture"):
        run.save(tmp_path / "run")


def test_transfers_in_python():
    workload = ecc.Workload(arrivals=[ecc.Arrivals([0], 0.05, 20_000, access_delay=0.02)])
    scenario = ecc.Scenario(NETWORK, RCP(), 2.0, workload=workload)
    fast, slow = (simulate(scenario, engine=engine) for engine in ("c", "python"))
    assert len(fast.flows) > 20
    assert fast.flows.equals(slow.flows)
    assert fast.stats["digest"] == slow.stats["digest"] and fast.stats["transfers"] == slow.stats["transfers"]
