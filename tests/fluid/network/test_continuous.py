"""The equations of a network: states that no law reads, an equilibrium with a queue, what stopped a run."""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ecc
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.protocol import Protocol
from ecc.contract.states import State

REST = 0.2  # s in the queue at equilibrium


@dataclass(frozen=True)
class Delayed(Protocol):
    """Sources that pay for the wait in a queue; the router has no memory, and nothing but the queue to look at."""

    interval: float = 0.01
    gain: float = 0.5

    combine = "max"
    times = ("continuous", "discrete")

    @staticmethod
    def router_law(q: Any, C: Any) -> Any:
        return q / C

    @staticmethod
    def source_law(x: Any, R: Any, T: Any, p: Any) -> Any:
        return x + T * p.gain * (p.pay - x * R)

    def params(self) -> dict[str, float]:
        return {"interval": self.interval, "gain": self.gain, "pay": 1.25e6}

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, np.inf

    def equilibrium(self, network: ecc.Network, assignment: Any = None) -> Equilibrium:
        C, n = network.capacities[0], network.n_flows
        return Equilibrium(np.full(n, C / n), np.array([REST]), np.zeros(n, dtype=np.int64), np.array([REST * C]))


class LooksAtArrivals(Delayed):
    @staticmethod
    def router_law(q: Any, C: Any, y: Any) -> Any:
        return q / C + 0.0 * y


class KnowsItsRTT(Delayed):
    """The wait is part of the RTT that the laws are given."""

    @staticmethod
    def router_law(q: Any, C: Any, d: Any) -> Any:
        return q / C * d / 0.25

    @staticmethod
    def source_law(x: Any, R: Any, D: Any, T: Any, p: Any) -> Any:
        return x + T * p.gain * (p.pay * D / 0.25 - x * R)


class Divides(Delayed):
    @staticmethod
    def router_law(q: Any, C: Any) -> Any:
        return q / C + 0.0 / max(0.0, 0.01 - q / C)


class DividesAtTheSource(Delayed):
    @staticmethod
    def source_law(x: Any, R: Any, T: Any, p: Any) -> Any:
        return x + T * p.gain * (p.pay - x * R) + 0.0 / max(0.0, 0.01 - R)


class NaNFeedback(Delayed):
    @staticmethod
    def router_law(q: Any, C: Any) -> Any:
        return math.nan * q / C


class NaNRate(Delayed):
    @staticmethod
    def source_law(x: Any, R: Any) -> Any:
        return math.nan * x


class NaNRateOfFeedback(Delayed):
    """Without memory: the least rate hid that there is none."""

    @staticmethod
    def source_law(R: Any) -> Any:
        return math.nan * R


def divided(age: Any, x: Any) -> Any:
    return age / (x - x)


class DividesInAState(Delayed):
    source_clock = "continuous"

    @staticmethod
    def source_law(x: Any, R: Any) -> Any:
        return -0.1 * x

    @property
    def states(self) -> dict[str, State]:
        return {"age": State(divided, "continuous", 1.0)}


class Explodes(Delayed):
    @staticmethod
    def source_law(x: Any, R: Any) -> Any:
        return x * (1.0 + 1e9 * x)


def run(protocol: Protocol, duration: float = 60.0, **how: Any) -> Any:
    network = ecc.Network.dumbbell("100 Mb/s", rtts=[0.05] * 16)  # 16 flows: Delayed keeps 0.2 s in the queue
    return ecc.fluid.simulate(ecc.Scenario(network, protocol, duration), sample=0.5, **how)


@pytest.mark.parametrize("how", [{}, {"start": "equilibrium", "perturbation": 0.01}], ids=["empty", "perturbed"])
def test_a_measurement_that_no_law_reads_changes_nothing(how: dict[str, Any]) -> None:
    # it was integrated without error control: steps outgrew its lag, and a router whose y swung to 0 fell silent
    plain, looking = run(Delayed(), **how), run(LooksAtArrivals(), **how)
    assert plain.stats["steps"] == looking.stats["steps"]
    for series in ("rate", "queue"):
        np.testing.assert_array_equal(getattr(plain, series), getattr(looking, series))


@pytest.mark.parametrize("time", ["continuous", "discrete"])
@pytest.mark.parametrize("protocol", [Delayed(), KnowsItsRTT()], ids=lambda p: type(p).__name__)
def test_a_rest_with_a_queue_is_one(protocol: Protocol, time: str) -> None:
    # queues began empty at the equilibrium
    r = run(protocol, 5.0, start="equilibrium", time=time)
    np.testing.assert_allclose(r.queue, REST * 100e6 / 8, rtol=1e-6)
    np.testing.assert_allclose(r.queue_max, REST * 100e6 / 8, rtol=1e-6)
    np.testing.assert_allclose(r.rate, 100e6 / 16, rtol=1e-6)


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (Divides(), r"the router law of link 0 failed at t = 11\.\d+ s: ZeroDivisionError: division by zero"),
        (DividesAtTheSource(), r"the source law of flow 0 failed at t = 11\.\d+ s: ZeroDivisionError: division.*"),
        (NaNFeedback(), r"the router law of link 0 failed at t = 0(\.\d+)? s: its result is not finite"),
        (NaNRate(), r"the source law of flow 0 failed at t = 0(\.\d+)? s: its result is not finite"),
        (NaNRateOfFeedback(), r"the source law of flow 0 failed at t = 0 s: its result is not finite"),
        (DividesInAState(), r"the law of a state of flow 0 failed at t = 0(\.\d+)? s: ZeroDivisionError: .*"),
        (Explodes(), r"components chatter at their bounds at t = 0\.12, in the queue of link 0"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Protocol) else "",
)
def test_what_stopped_a_run_is_one_line_with_the_state_and_the_time(protocol: Protocol, message: str) -> None:
    assert re.fullmatch(message, run(protocol).stats["stopped"])


def test_links_in_series_of_one_capacity_do_not_chatter() -> None:
    """What leaves a busy link comes to the next one at its capacity, but for rounding: no queue begins by that."""
    links = [ecc.Link("10 Gb/s", "3 us") for _ in range(6)]
    flows = [ecc.Flow([0, 1, 2], packet_size=1000), ecc.Flow([3, 4, 5], packet_size=1000)]
    timely = ecc.models.PatchedTIMELY(delta="500 Mb/s", floor=1.0)
    r = ecc.fluid.simulate(ecc.Scenario(ecc.Network(links, flows), timely, "3 ms"), sample="100 us")
    assert r.is_complete
    np.testing.assert_allclose(r.goodput[-1], 10e9, rtol=1e-3)
    assert (r.queue[-1, [0, 3]] > 1e3).all() and (r.queue_max[:, [1, 2, 4, 5]] < 1.0).all()


def of_different_rtts(n_flows: int, rtol: float = 1e-6) -> ecc.Trajectory:
    network = ecc.Network.dumbbell("100 Mb/s", rtts=np.linspace(0.1, 0.2, n_flows))
    return ecc.fluid.simulate(ecc.Scenario(network, ecc.models.PIQIRCP(), duration=6.0), rtol=rtol)


@pytest.mark.slow
def test_work_grows_less_than_linearly_with_flows_of_different_rtts() -> None:
    """Steps that end on the jumps that pass from each flow to each other one would be as many as pairs of flows."""
    few, many = of_different_rtts(20), of_different_rtts(80)
    assert many.stats["evaluations"] < 2.5 * few.stats["evaluations"]


@pytest.mark.slow
def test_jumps_that_steps_do_not_end_on_keep_the_tolerance() -> None:
    run, accurate = of_different_rtts(20), of_different_rtts(20, rtol=1e-9)
    for name in ("rate", "queue"):
        values, exact = (result.data[name].to_numpy() for result in (run, accurate))
        assert np.abs(values - exact).max() < 2e-5 * np.abs(exact).max()


def of_flows_that_end(protocol: Protocol) -> ecc.Trajectory:
    """Twelve RTTs over two links; some flows end at a time or with their size."""
    links = [ecc.Link(capacity, delay="5 ms", buffer="200 kB") for capacity in ("100 Mb/s", "80 Mb/s")]
    flows = [
        *[ecc.Flow([0, 1], start=0.02 * k, access_delay=0.002 * k) for k in range(4)],
        *[ecc.Flow([0], stop=0.5 + 0.1 * k, access_delay=0.003 * k) for k in range(4)],
        *[ecc.Flow([1], size="300 kB", access_delay=0.004 * k + 0.001) for k in range(4)],
    ]
    return ecc.fluid.simulate(ecc.Scenario(ecc.Network(links, flows), protocol, duration=1.0))


@pytest.mark.parametrize("update", ["interval", "rtt"])
def test_signals_known_ahead_change_results_by_a_few_tolerances(monkeypatch: pytest.MonkeyPatch, update: str) -> None:
    ahead = of_flows_that_end(ecc.models.PIQIRCP(update=update))
    monkeypatch.setattr("ecc.fluid.network.continuous._known_ahead", lambda parts: False)
    at_present = of_flows_that_end(ecc.models.PIQIRCP(update=update))
    for name in ("rate", "queue"):
        values, expected = (run.data[name].to_numpy() for run in (ahead, at_present))
        assert 0.0 < np.abs(values - expected).max() < 3e-5 * np.abs(expected).max(), name
    np.testing.assert_allclose(ahead.flows["finish"], at_present.flows["finish"], atol=1e-5)
