"""Runs with actions between steps, and the monitor intervals that they observe: by hand, and C against the twin.

`ECC_TWIN_CASES=1000 pytest -m slow tests/packet/test_steps.py` draws 1000 networks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from drawn_networks import scenarios
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ecc
from ecc.models import CUBIC, ConstantRate, NewReno
from ecc.packet import OBSERVATION, Run, resume

PACKET = 1000 * 8
"""bits"""


def one_link(duration: float = 2.0, **changes: Any) -> ecc.Scenario:
    """100 packets/s through a link of 200 packets/s, 20 ms and 5 ms of transmission; no random phase."""
    network = ecc.Network([ecc.Link(200 * PACKET, "10 ms", buffer="20 kB")], [ecc.Flow([0])])
    return ecc.Scenario(network, ConstantRate(100 * PACKET), duration, phase_jitter=False).with_(**changes)


@pytest.mark.parametrize("engine", ["c", "python"])
def test_an_interval_is_computed_by_hand(engine: str) -> None:
    """Packets leave at 0, 10, 20 ms ...; each takes 25 ms to its ACK, unless it waits in the queue."""
    run = Run(one_link(), observe=[0], engine=engine)
    assert run.step(0.0)["active"][0] == 1.0
    (first,) = run.step(0.0451)
    assert (first["sent"], first["delivered"], first["n_rtts"]) == (4000.0, 3000.0, 3.0)  # the first packet: at 0
    assert first["rtt"] == first["rtt_first"] == first["rtt_second"] == first["min_rtt"] == pytest.approx(0.025)
    # 400 packets/s: packets leave at 45.1 ms, 47.6 ms and so on, each waits 2.5 ms longer than the one before, and ACKs
    # arrive at 55, 65, 70.1, 75.1, 80.1 and 85.1 ms.
    (second,) = run.step(0.0852, {0: {"rate": 400 * PACKET}})
    assert (second["duration"], second["rate"]) == (pytest.approx(0.0401), 400.0 * PACKET)
    assert (second["sent"], second["delivered"], second["n_rtts"]) == (17_000.0, 6000.0, 6.0)
    assert (second["lost"], second["in_flight"]) == (0.0, 13_000.0)
    rtts = [second[name] for name in ("rtt", "rtt_first", "rtt_second", "min_rtt", "path_rtt")]
    assert rtts == pytest.approx([0.0275, 0.025, 0.03, 0.025, 0.025], abs=1e-15)


@pytest.mark.parametrize("engine", ["c", "python"])
def test_losses_and_windows_are_observed(engine: str) -> None:
    run = Run(one_link(), observe=[0], engine=engine)
    run.step(0.2)
    (observed,) = run.step(1.0, {0: {"rate": 400 * PACKET}})
    assert observed["lost"] > 100_000.0 and 0.119 < observed["srtt"] < 0.125  # 20 kB queue for 100 ms
    (observed,) = run.step(2.0, {0: {"window": "3 kB", "rate": 0.0}})
    assert (observed["window"], observed["rate"], observed["in_flight"]) == (3000.0, 0.0, 3000.0)
    assert observed["min_rtt"] == observed["path_rtt"] and run.stopped == "completed"


@dataclass
class FactorState:
    """State of `Factor`."""

    factor: float = 0.0


class Factor(ConstantRate):
    """A host whose rate is multiplied by a word of its state at the next ACK."""

    def flow_hooks(self) -> Any:
        return super().flow_hooks() | {"on_ack": multiply}

    FlowState = FactorState


def multiply(flow: Any, header: Any, p: Any, env: Any) -> None:
    """Apply the factor once."""
    if flow.factor > 0.0:
        env.rate = env.rate * flow.factor
        flow.factor = 0.0


@pytest.mark.parametrize("engine", ["c", "python"])
def test_hooks_read_a_word(engine: str) -> None:
    run = Run(one_link(protocol=Factor(100 * PACKET)), observe=[0], engine=engine)
    run.step(0.5)
    assert run.step(0.501, {0: {"factor": 0.5}})["rate"][0] == 100.0 * PACKET
    assert run.step(0.6)["rate"][0] == 50.0 * PACKET
    with pytest.raises(ValueError, match=r"^actions on flow 0 must be among rate, window, factor, got 'faktor'$"):
        run.step(0.7, {0: {"faktor": 0.5}})


CASES = int(os.environ.get("ECC_TWIN_CASES", "20"))
ACTIONS = st.lists(
    st.tuples(
        st.floats(0.0, 0.3),
        st.sampled_from(["rate", "window", "none"]),
        st.one_of(st.just(0.0), st.floats(1e3, 1e7)),
        st.integers(0, 10),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the run ended at")  # a window of 0 can end a hook that divides by it, in both
@settings(max_examples=CASES, suppress_health_check=list(HealthCheck), deadline=None)
@given(scenario=scenarios(), actions=ACTIONS)
def test_the_twin_acts_and_observes_the_same(
    scenario: ecc.Scenario, actions: list[tuple[float, str, float, int]]
) -> None:
    every = range(scenario.network.n_flows)
    run, twin = (Run(scenario, observe=every, engine=engine) for engine in ("c", "python"))
    now = 0.0
    for pause, name, value, flow in actions:
        now += pause
        flow %= len(every)
        seen = run.step(now)
        assert np.array_equal(seen, twin.step(now))
        if name != "none" and seen["active"][flow] == 1.0 and run.stopped == "paused":
            for one in (run, twin):
                one.step(now, {flow: {name: value}})
    assert run.step(now + 0.2).tolist() == twin.step(now + 0.2).tolist()
    assert run._engine.stats.digest == twin._engine.stats.digest


def stepped(run: Run, count: int, first: int = 0) -> list[Any]:
    """Observations of steps of 50 ms with an action in each."""
    return [run.step(0.05 * (k + 1), {0: {"rate": (50 + 30 * k) * PACKET}}).tolist() for k in range(first, count)]


def test_a_saved_run_continues_with_its_interval(tmp_path: Any) -> None:
    network = ecc.Network.dumbbell("2 Mb/s", rtts=[0.05, 0.06], buffer="30 kB")
    scenario = ecc.Scenario(network, {"flows": {0: ConstantRate("1 Mb/s"), 1: CUBIC()}}, 5.0)
    run = Run(scenario, observe=[0, 1])
    run.step(0.0)
    stepped(run, 10)
    run.advance(0.52)  # the interval is under way
    run.save(tmp_path / "run")
    again = resume(tmp_path / "run")
    assert stepped(run, 20, 10) == stepped(again, 20, 10)
    assert run._engine.stats.digest == again._engine.stats.digest


def test_bad_actions_change_nothing() -> None:
    scenario = ecc.Scenario(
        ecc.Network.dumbbell("2 Mb/s", rtts=[0.05, 0.06], starts=[0.0, 1.0]), ConstantRate("1 Mb/s"), 5.0
    )
    run, plain = Run(scenario, observe=[0]), Run(scenario, observe=[0])
    run.step(0.5)
    for actions, message in [
        ({0: {"rate": -1.0}}, r"rate of flow 0 must be >= 0 bit/s, got -1.0"),
        ({0: {"rate": float("nan")}}, r"rate of flow 0 must be"),
        ({0: {"window": "3 parsecs"}}, r"window of flow 0"),
        ({2: {"rate": 1.0}}, r"actions must name flows from 0 to 1, got 2"),
        ({0: {"rate": 1.0}, 1: {"rate": 1.0}}, r"an action must be for a flow that has started and not ended.*flow 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            run.step(0.6, actions)
    assert run.now == 0.5
    plain.step(0.5)
    assert run.step(2.0).tolist() == plain.step(2.0).tolist()
    run.advance()
    with pytest.raises(ValueError, match=r"^actions must be for a run that can continue, got .* ended: completed$"):
        run.step(5.0, {0: {"rate": 1.0}})
    with pytest.raises(ValueError, match=r"^observations must be a contiguous array of dtype OBSERVATION and length 1"):
        Run(scenario, observe=[0]).step(1.0, None, np.zeros(2, OBSERVATION))
    with pytest.raises(TypeError, match=r"^actions must be a mapping of flows to mappings, got \{0: 1.0\}$"):
        Run(scenario).step(1.0, {0: 1.0})  # type: ignore[dict-item]
    for observe, message in [
        ([2], "from 0 to 1, got"),
        ([1, 0], "in increasing order"),
        ([0, 0], "in increasing order"),
    ]:
        with pytest.raises(ValueError, match=f"^observe must name flows {message}"):
            Run(scenario, observe=observe)


def test_threads_are_refused() -> None:
    network = ecc.Network([ecc.Link("2 Mb/s", "10 ms"), ecc.Link("2 Mb/s", "10 ms")], [ecc.Flow([0]), ecc.Flow([1])])
    scenario = ecc.Scenario(network, NewReno(), 1.0)
    with pytest.raises(ValueError, match=r"^observe needs threads=1, got threads=2$"):
        Run(scenario, observe=[0], threads=2)
    with pytest.raises(ValueError, match=r"^step needs threads=1, got threads=2$"):
        Run(scenario, threads=2).step(0.5)


def test_a_failing_run_stops_in_a_step() -> None:
    network = ecc.Network([ecc.Link(200 * PACKET, "10 ms")], [ecc.Flow([0])])
    run = Run(one_link(network=network), observe=[0], memory_limit="300 kB")
    run.step(0.0)
    with pytest.warns(RuntimeWarning, match="out of memory"):
        run.step(2.0, {0: {"window": "1 GB", "rate": 0.0}})
    assert "out of memory" in run.stopped
