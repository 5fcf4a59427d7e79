"""Members of ensembles that a generated kernel runs are single runs to the last bit, in any order and any threads."""

import signal
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecc.fluid import ensemble, simulate
from ecc.fluid.network import generated_runs, generated_steps
from ecc.fluid.network.simulation import prepare
from ecc.models import EMKC, EMKCAVQ, MKC, PIQIRCP, QIRCP, RCP, XCP, JetMax, Kelly, MaxNet
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario
from tests.fluid.test_ensembles import assert_that_member_is, check_members

PROTOCOLS = (PIQIRCP(), XCP(), JetMax(), QIRCP(), RCP(), EMKC(), EMKCAVQ(), MKC(), Kelly(), MaxNet())
DUMBBELL = Network.dumbbell("100 Mb/s", [0.1, 0.2], buffer="200 kB")


def parking_lot(rng):
    """Two links with small or large buffers, crossed by flows that come, stop, or send a limited amount."""
    links = [Link(float(rng.uniform(5e6, 5e7)), float(rng.uniform(0.0, 0.03)), buffer=b) for b in (2e4, 1e9)]
    return Network(
        links,
        [
            Flow([0, 1], access_delay=float(rng.uniform(0.005, 0.05))),
            Flow([0], access_delay=0.02, start=0.7, stop=2.5),
            Flow([1], access_delay=float(rng.uniform(0.005, 0.05)), size=2e5),
        ],
    )


def single_link(rng):
    """One link with a small or a large buffer, crossed by flows that start and stop, and sometimes by a short one."""
    buffer, delay = float(rng.choice([1.5e3, 2e4, 1e9])), float(rng.uniform(0.0, 0.03))
    size = [2e5, None, None, None][rng.integers(4)]
    flows = [
        Flow([0], access_delay=float(rng.uniform(0.005, 0.05))),
        Flow([0], access_delay=float(rng.uniform(0.005, 0.05)), start=0.7, stop=[None, 2.5][rng.integers(2)]),
        Flow([0], access_delay=0.02, start=float(rng.choice([0.0, 0.3])), size=size),
    ]
    return Network([Link(float(rng.uniform(5e6, 5e7)), delay, buffer=buffer)], flows)


@pytest.fixture
def always(monkeypatch):
    """Generate kernels for small ensembles, too."""
    monkeypatch.setattr(generated_steps, "_SECONDS_TO_COMPILE", 0.0)
    monkeypatch.setattr(generated_steps, "_SECONDS_TO_LOAD", 0.0)


@pytest.mark.slow
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: type(protocol).__name__)
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 1000),
    threads=st.integers(1, 3),
    start=st.sampled_from(["empty", "rates"]),
    make=st.sampled_from([single_link, parking_lot]),
    data=st.data(),
)
def test_members_are_single_runs(protocol, seed, threads, start, make, data):
    rng = np.random.default_rng(seed)
    name, usual = protocol.main_parameter, getattr(protocol, protocol.main_parameter)
    values = [float(factor * usual) for factor in rng.uniform(0.5, 2.5, 10)]
    values = data.draw(st.permutations([*values, *[-1.0, 1e9 * usual][: data.draw(st.integers(0, 2))]]))
    network = make(rng)
    options = {"time": "discrete", "sample": float(rng.choice([0.03, 0.5])), "record": ["flow.x"]}
    options["start"] = "empty" if start == "empty" else rng.uniform(1e5, 1e6, network.n_flows)
    scenario = Scenario(network, protocol, 4.0)
    runs = ensemble(scenario, {name: values}, executor=threads, **options)
    assert runs.kernel == "generated"
    check_members(runs, scenario, name, values, options)


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_starts_and_perturbations_vary():
    scenario = Scenario(DUMBBELL, RCP(), 10.0)
    rates = [np.array([1e6, 9e7]), np.array([2e6, 5e5]), np.array([-1.0, 5e5])]
    runs = ensemble(scenario, {"start": rates, "alpha": [0.2, 0.5]}, time="discrete")
    assert runs.kernel == "generated" and runs.stopped[2, 0].item().startswith("ValueError: start must be")
    for i, alpha in ((0, 0.2), (1, 0.5)):
        alone = simulate(replace(scenario, protocol=RCP(alpha=alpha)), start=rates[i], time="discrete")
        assert_that_member_is(runs.sel(alpha=alpha).isel(start=i), alone)
    options = {"start": "equilibrium", "time": "discrete", "record": ["link.R"]}
    runs = ensemble(scenario, {"perturbation": [-0.5, 0.1, 3.0], "alpha": [0.2, 0.5]}, **options)
    assert runs.kernel == "generated"
    for perturbation, alpha in ((-0.5, 0.2), (0.1, 0.5), (3.0, 0.5)):
        alone = simulate(replace(scenario, protocol=RCP(alpha=alpha)), perturbation=perturbation, **options)
        assert_that_member_is(runs.sel(perturbation=perturbation, alpha=alpha), alone)


class Failing(JetMax):
    """JetMax whose source divides by zero once its rate is right, if tau is large."""

    @staticmethod
    def source_law(x_rtt, R, p):
        return (1.0 - p.tau) * x_rtt + p.tau * R * (1.0 / ((x_rtt < 0.99 * R) | (p.tau < 0.5)))


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_a_law_that_fails_ends_the_run_of_its_member_only():
    scenario = Scenario(DUMBBELL, Failing(), 10.0)
    taus = [0.4, 0.45, 0.6, 0.3]
    runs = ensemble(scenario, {"tau": taus}, time="discrete", executor=1)
    assert runs.kernel == "generated"
    for k, tau in enumerate(taus):
        assert_that_member_is(runs.isel(tau=k), simulate(replace(scenario, protocol=Failing(tau=tau)), time="discrete"))
    assert [str(member)[:12] for member in runs.stopped.values] == [
        "completed",
        "completed",
        "a law failed",
        "completed",
    ]


class Branching(PIQIRCP):
    """PIQI-RCP with a limit that depends on rates, and with powers, so that laws are called lane by lane."""

    @staticmethod
    def router_law(R, y, y_prev, C, d, T, p):
        if y > 1.1 * p.gamma * C:
            return 0.9 * R
        return R * (1.0 + T * p.alpha1 * (2.0 * p.gamma * C - y - y_prev) / (p.gamma * C * d)) ** 1.5


class Dividing(PIQIRCP):
    """PIQI-RCP whose source divides by zero once its rate is near the feedback, if alpha is large."""

    @staticmethod
    def source_law(x, R, R_prev, p):
        return x - p.tau1 * (x - R) / max(0.0, p.alpha1 - 0.4 if p.alpha1 < 0.39 else x - 0.9 * R)


@pytest.mark.slow
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kind", [Branching, Dividing, PIQIRCP])
@pytest.mark.parametrize("start", ["empty", "equilibrium"])
def test_steps_of_several_members_are_those_of_one(kind, start):
    alphas = [
        *np.linspace(0.2, 0.38, 9),
        0.5,
        *np.linspace(0.21, 0.35, 8),
        *([0.6, 1.5] if kind is Dividing else [1.5]),
    ]
    scenario = Scenario(DUMBBELL, kind(), 20.0)
    options = {"time": "discrete", "sample": 0.25, "record": ["link.R"], "start": start}
    options |= {"perturbation": 0.2} if start == "equilibrium" else {}
    runs = ensemble(scenario, {"alpha": alphas}, executor=2, **options)
    assert runs.kernel == "generated"
    check_members(runs, scenario, "alpha", alphas, options)


def test_laws_are_called_with_vectors_if_they_can_be():
    network = Network.dumbbell("100 Mb/s", [0.1, 0.2])
    for protocol, with_vectors in ((PIQIRCP(), True), (PIQIRCP(capped=True), True), (Branching(), False)):
        sources = generated_steps.sources_of(structure_of(network, protocol))
        assert ("result = router_law(" in sources["together"]) == with_vectors
        assert "result = source_law(" in sources["together"]
    lot = Network([Link(1e7, 0.01), Link(1e7, 0.01)], [Flow([0, 1]), Flow([1])])
    assert "together" not in generated_steps.sources_of(structure_of(lot, PIQIRCP()))


class Declaring(PIQIRCP):
    """PIQI-RCP whose routers use the largest RTT if alpha is large."""

    @property
    def scaling_rtt(self):
        return "max" if self.alpha > 0.4 else "mean"


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_a_parameter_that_changes_declarations_has_the_engine_of_single_runs():
    scenario = Scenario(DUMBBELL, Declaring(alpha=0.3), 10.0)
    runs = ensemble(scenario, {"alpha": [0.3, 0.5]}, time="discrete")
    for alpha in (0.3, 0.5):
        alone = simulate(replace(scenario, protocol=Declaring(alpha=alpha)), time="discrete")
        assert_that_member_is(runs.sel(alpha=alpha), alone)


@pytest.mark.slow
@pytest.mark.usefixtures("always")
@pytest.mark.skipif(sys.platform == "win32", reason="signals of one thread")
@pytest.mark.parametrize("end", ["canceled", "interrupted"])
def test_an_ensemble_that_ends_early_keeps_its_members(end):
    alphas, scenario, calls = np.linspace(0.3, 0.6, 8).tolist(), Scenario(DUMBBELL, PIQIRCP(), 10.0), []

    def cancel():  # called before members 0, 1 and 2, 3 and 4, ...
        calls.append(None)
        if end == "interrupted" and len(calls) == 3:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.5)
        return end == "canceled" and len(calls) > 3

    runs = ensemble(scenario, {"alpha": alphas}, executor=1, cancel=cancel, time="discrete")
    stopped = runs.stopped.to_numpy()
    assert (stopped[:5] == "completed").all() and stopped[-1] == end
    for k in np.flatnonzero(stopped == "completed"):
        alone = simulate(replace(scenario, protocol=PIQIRCP(alpha=alphas[k])), time="discrete")
        assert_that_member_is(runs.isel(alpha=k), alone)


def test_small_ensembles_wait_for_no_compilation(monkeypatch):
    monkeypatch.setattr(generated_steps, "_kernels", {})
    runs = ensemble(Scenario(DUMBBELL, PIQIRCP(), 2.0), {"alpha": [0.3, 0.31]}, time="discrete")
    assert runs.kernel == "single runs" and "compile_seconds" not in runs.attrs


def structure_of(network, protocol, **options):
    usual = {"record": (), "progress": None, "cancel": None, "time": "discrete", "rtol": 1e-6, "delays": None}
    options = {**usual, "clocking": "ack", "signals": "rate", **options}
    problem = prepare(Scenario(network, protocol, 2.0), None, "empty", 0.0, {}, **options).problem
    return generated_runs.structure_of(problem)


def test_structures_that_are_left_to_single_runs():
    assert structure_of(DUMBBELL, PIQIRCP()).routes == ((0,), (0,))
    assert structure_of(DUMBBELL, PIQIRCP(), delays=(np.zeros((2, 2, 1), int), np.ones((2, 2, 1), int))) is None
    many = Network.dumbbell("100 Mb/s", np.linspace(0.1, 0.2, generated_steps.MAX_CROSSINGS + 1).tolist())
    assert structure_of(many, PIQIRCP()) is None
