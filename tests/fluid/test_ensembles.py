"""Ensembles: the same as a plain loop, bit by bit, labeled; failures of members are marked."""

import signal
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from ecc.fluid import ensemble, simulate, solve_dde, solve_ensemble
from ecc.fluid.network import generated_steps
from ecc.models import EMKC, EMKCAVQ, MKC, PIQIRCP, QIRCP, RCP, XCP, JetMax, Kelly, MaxNet, NewReno
from ecc.network.network import Flow, Link, Network
from ecc.packet import ensemble as packet_ensemble
from ecc.queues import DualPI2
from ecc.results.metrics import METRICS as METRIC_FUNCTIONS
from ecc.scenario import Scenario

SCENARIO = Scenario(Network.dumbbell("100 Mb/s", [0.1, 0.2]), PIQIRCP(), 4.0)


PROTOCOLS = (PIQIRCP(), XCP(), JetMax(), QIRCP(), RCP(), EMKC(), EMKCAVQ(), MKC(), Kelly(), MaxNet())


def random_scenario(rng, protocol):
    """Routes, losses, flows that come and go, and those that have sent all, of a random network."""
    links = [
        Link(float(rng.uniform(5e6, 5e7)), float(rng.uniform(0.0, 0.03)), buffer=float(rng.choice([2e4, 1e9])))
        for _ in range(rng.integers(1, 4))
    ]
    flows = [
        Flow(
            rng.permutation(len(links))[: rng.integers(1, len(links) + 1)].tolist(),
            access_delay=float(rng.uniform(0.005, 0.05)),
            start=float(rng.choice([0.0, 0.7])),
            stop=[None, 2.5][rng.integers(2)],
            size=[None, 2e5][rng.integers(2)],
        )
        for _ in range(rng.integers(1, 11))
    ]
    return Scenario(Network(links, flows), protocol, 4.0)


def assert_that_member_is(member, alone):
    """All series to the last bit, and nothing beyond what was reached."""
    rows = alone.rate.sizes["time"]
    for name, array in alone.data.items():
        values = member[name].to_numpy()
        assert np.array_equal(values[:rows], array.to_numpy(), equal_nan=True), name
        assert (values[rows:] == -1).all() if name == "bottleneck" else np.isnan(values[rows:]).all(), name
    assert member.stopped == alone.stopped and member.steps == alone.stats["steps"]


def check_members(runs, scenario, name, values, options):
    """Each member equals the run with its value of a parameter alone, or fails with the same exception."""
    for k, value in enumerate(values):
        member = runs.isel({name: k})
        try:
            alone = simulate(replace(scenario, protocol=replace(scenario.protocol, **{name: value})), **options)
        except Exception as error:
            assert member.stopped == f"{type(error).__name__}: {error}" and member.rate.isnull().all()
        else:
            assert_that_member_is(member, alone)


def check_random_ensemble(seed, protocol):
    rng = np.random.default_rng(seed)
    scenario, name = random_scenario(rng, protocol), protocol.main_parameter
    usual = getattr(protocol, name)
    values = [-1.0, *(float(factor * usual) for factor in rng.uniform(0.5, 2.5, 5)), 1e9 * usual]
    options = {"time": "discrete", "sample": float(rng.choice([0.03, 0.5])), "record": ["flow.x"]}
    if rng.random() < 0.3:
        options["start"] = rng.uniform(1e5, 1e6, scenario.network.n_flows)
    check_members(ensemble(scenario, {name: values}, executor=1, **options), scenario, name, values, options)


@pytest.mark.parametrize("protocol", PROTOCOLS[:2], ids=lambda one: type(one).__name__)
def test_members_of_random_networks_are_single_runs(protocol):
    check_random_ensemble(1, protocol)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: type(one).__name__)
def test_members_of_many_random_networks_are_single_runs(protocol):
    for seed in range(2, 8):
        check_random_ensemble(seed, protocol)


class Failing(JetMax):
    """JetMax whose source divides by zero once its rate is right, where tau is large."""

    @staticmethod
    def source_law(x_rtt, R, p):
        return (1.0 - p.tau) * x_rtt + p.tau * R * (1.0 / ((x_rtt < 0.99 * R) | (p.tau < 0.5)))


def test_a_law_that_fails_ends_the_run_of_its_member_only():
    scenario = replace(SCENARIO, protocol=Failing(), duration=10.0)
    taus = [0.4, 0.45, 0.6, 0.3]
    runs = ensemble(scenario, {"tau": taus}, time="discrete", executor=1)
    for k, tau in enumerate(taus):
        assert_that_member_is(runs.isel(tau=k), simulate(replace(scenario, protocol=Failing(tau=tau)), time="discrete"))
    assert [str(one)[:12] for one in runs.stopped.to_numpy()] == ["completed", "completed", "a law failed", "completed"]


@pytest.mark.parametrize(
    ("time", "duration"), [pytest.param("continuous", 100.0, marks=pytest.mark.slow), ("discrete", 1500.0)]
)
def test_an_interrupt_keeps_what_is_computed(time, duration):
    scenario, alphas = replace(SCENARIO, duration=duration), np.linspace(0.3, 0.6, 8).tolist()

    def report(share):
        if share == 0.625:
            signal.raise_signal(signal.SIGINT)

    options = {"time": time, "sample": duration / 100.0}
    runs = ensemble(scenario, {"alpha": alphas}, executor=1, progress=report, **options)
    assert runs.stopped.to_numpy()[:5].tolist() == ["completed"] * 5 and runs.stopped[-1] == "interrupted"
    for k, alpha in enumerate(alphas):
        alone = simulate(replace(scenario, protocol=PIQIRCP(alpha=alpha)), **options)
        kept = runs.rate.isel(alpha=k).dropna("time")
        assert len(kept) == 100 or runs.stopped[k] == "interrupted"
        assert np.array_equal(kept, alone.rate[: len(kept)])


@pytest.mark.skipif(sys.platform == "win32", reason="signals of one thread")
def test_an_interrupt_ends_members_that_run():
    sent = []

    def interrupts():
        if not sent:
            sent.append(signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
        return False

    scenario = replace(SCENARIO, duration=1e6)
    runs = ensemble(scenario, {"alpha": [0.3, 0.4]}, time="discrete", sample=1.0, executor=1, cancel=interrupts)
    assert (runs.stopped == "interrupted").all() and 0 < runs.steps[0] < 1e8 and runs.steps[1] == 0


def wright(t, y, ylag, gain, level):
    return -gain * ylag[0] * (1.0 + y[0])


def quartered(R):
    return 0.25 * R


def begun(t, gain, level):
    return [level]


@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_members_are_those_of_a_plain_loop(time):
    alphas, tau1s = [0.3, 0.6, 0.9], [0.02, 0.05]
    reports = []
    runs = ensemble(SCENARIO, {"alpha": alphas, "tau1": tau1s}, time=time, executor=3, progress=reports.append)
    assert reports[-1] == 1.0 and reports == sorted(reports) and 2 <= len(reports) <= 6
    assert runs.rate.dims == ("alpha", "tau1", "time", "flow") and runs.queue.dims[-1] == "link"
    for alpha in alphas:
        for tau1 in tau1s:
            alone = simulate(replace(SCENARIO, protocol=PIQIRCP(alpha=alpha, tau1=tau1)), time=time)
            member = runs.sel(alpha=alpha, tau1=tau1)
            for name in alone.data:
                assert np.array_equal(member[name].to_numpy(), alone.data[name].to_numpy()), name
            assert member.steps == alone.stats["steps"] and member.stopped == "completed"
    assert runs.rate.attrs["units"] == "bit/s"


def test_arrays_with_one_dimension_vary_together():
    rng = np.random.default_rng(1)
    alpha = xr.DataArray(rng.uniform(0.2, 0.8, 4), dims="draw")
    gamma = xr.DataArray(rng.uniform(0.8, 1.0, 4), dims="draw")
    runs = ensemble(
        SCENARIO, {"alpha": alpha, "gamma": gamma, "perturbation": [0.0, 0.1]}, time="discrete", start="equilibrium"
    )
    assert runs.rate.dims == ("draw", "perturbation", "time", "flow")
    assert np.array_equal(runs.alpha, alpha) and runs.alpha.dims == ("draw",)
    calm = runs.arrival.sel(perturbation=0.0).isel(link=0)
    assert np.allclose(calm, 100e6 * gamma.to_numpy()[:, None], rtol=1e-9)
    assert (runs.rate.isel(time=0).sel(perturbation=0.1) > 1.05 * runs.rate.isel(time=0).sel(perturbation=0.0)).all()


def test_networks_and_protocols_are_labeled_by_position():
    networks = [Network.dumbbell(C, [0.1]) for C in ("10 Mb/s", "20 Mb/s")]
    runs = ensemble(
        replace(SCENARIO, network=networks[0]),
        {"network": networks, "protocol": [QIRCP(), PIQIRCP()]},
        time="discrete",
        start="equilibrium",
    )
    assert runs.network.to_numpy().tolist() == [0, 1]
    assert runs.arrival.isel(time=-1, link=0).to_numpy() == pytest.approx(0.95 * np.array([[10e6, 10e6], [20e6, 20e6]]))


@pytest.mark.parametrize(
    "varied",
    [
        {"network": [Network.dumbbell("10 Mb/s", rtts) for rtts in ([0.1, 0.1], [0.1, 0.2])], "alpha": [0.4]},
        {"protocol": [QIRCP(), RCP(), QIRCP(alpha=0.7)], "duration": [2.0]},
        {"assignment": [None, [0, 0]], "perturbation": [0.1], "start": ["equilibrium"]},
    ],
)
def test_members_share_what_is_the_same_and_nothing_else(varied):
    single = [name for name, values in varied.items() if len(values) == 1]
    runs = ensemble(SCENARIO, varied, time="discrete", executor=1).squeeze(single)
    name = next(name for name, values in varied.items() if len(values) > 1)
    options = {key: values[0] for key, values in varied.items() if key in ("perturbation", "start")}
    for k, value in enumerate(varied[name]):
        here = replace(SCENARIO, **{key: varied[key][0] for key in ("duration",) if key in varied}, **{name: value})
        if "alpha" in varied:
            here = replace(here, protocol=replace(here.protocol, alpha=varied["alpha"][0]))
        alone = simulate(here, time="discrete", **options)
        member = runs.isel({name: k})
        for series in alone.data:
            assert np.array_equal(member[series].to_numpy(), alone.data[series].to_numpy()), series


@pytest.mark.slow
def test_a_law_that_is_redefined_between_ensembles_counts():
    class Halved(QIRCP):
        @staticmethod
        def source_law(R):
            return 0.5 * R

    scenario = replace(SCENARIO, protocol=Halved())
    before = ensemble(scenario, {"alpha": [0.3, 0.6]}, time="discrete")
    Halved.source_law = staticmethod(quartered)
    after = ensemble(scenario, {"alpha": [0.3, 0.6]}, time="discrete")
    alone = simulate(replace(scenario, protocol=Halved(alpha=0.3)), time="discrete")
    assert np.array_equal(after.rate[0], alone.rate)
    assert not np.array_equal(after.rate, before.rate)


def test_a_member_that_fails_is_marked():
    runs = ensemble(SCENARIO, {"alpha": [0.5, -1.0]}, time="discrete")
    assert runs.stopped.to_numpy().tolist()[0] == "completed"
    assert runs.stopped.to_numpy().tolist()[1].startswith("ValueError: alpha must be > 0")
    assert runs.rate.isel(alpha=0).notnull().all() and runs.rate.isel(alpha=1).isnull().all()
    assert (runs.bottleneck.isel(alpha=1) == -1).all() and runs.steps.to_numpy().tolist()[1] == 0


@pytest.mark.parametrize(
    ("vary", "options", "message"),
    [
        ({"speed": [1.0]}, {}, "vary must name one of alpha, .*, got 'speed'"),
        ({}, {}, "vary must name the quantities to vary"),
        (None, {}, "vary must name the quantities to vary"),
        ({"alpha": []}, {}, "vary must have values for each name, got none for 'alpha'"),
        ({"alpha": [-1.0, -2.0]}, {}, "alpha must be > 0"),
        ({"network": [Network.dumbbell("1 Mb/s", [0.1] * n) for n in (1, 2)]}, {}, "one number of flows and links"),
        ({"seed": [1]}, {"seeds": 2}, "seeds must be None if vary names the seed"),
        ({}, {"seeds": 0}, "seeds must be >= 1, got 0"),
        ({}, {"seeds": []}, r"seeds must have at least one seed, got \[\]"),
        ({}, {"seeds": 2, "series": ["speed"]}, "series must be among rate, goodput, .*, got 'speed'"),
        ({}, {"seeds": 2, "metrics": ["speed"]}, "metric must be one of"),
    ],
)
def test_bad_ensembles(vary, options, message):
    with pytest.raises(ValueError, match=message):
        ensemble(SCENARIO, vary, time="discrete", **options)
    with pytest.raises(TypeError, match="scenario must be a Scenario, got Network"):
        ensemble(SCENARIO.network, vary)


def test_the_former_name_of_vary_is_accepted():
    values = {"alpha": [0.3, 0.4]}
    assert ensemble(SCENARIO, over=values, time="discrete").identical(ensemble(SCENARIO, values, time="discrete"))


METRICS = ("utilization", "fairness", "mean_queue", "mean_completion_time")


def check_metrics(runs, scenarios, **options):
    """Metrics of members equal those of the runs of the scenarios alone; one of them is not defined for any run."""
    for member, scenario in scenarios:
        alone = simulate(scenario, **options)
        assert member.error.item().startswith("mean_completion_time: ") and np.isnan(member.mean_completion_time)
        for name in METRICS[:-1]:
            assert float(member[name]) == METRIC_FUNCTIONS[name].function(alone, scenario, between=(1.0, 2.0)), name
    assert [runs[name].attrs["units"] for name in METRICS] == [METRIC_FUNCTIONS[name].kind for name in METRICS]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_metrics_and_seeds_have_the_form_of_packet_ensembles(threads):
    network = Network.dumbbell("10 Mb/s", rtts=[0.02, 0.05], buffer="60 kB")
    scenario = Scenario(network, {"flows": NewReno(ecn=True), "links": DualPI2()}, 2.0)
    vary, form = {"network": [network, Network.dumbbell("5 Mb/s", [0.02, 0.05])]}, {"seeds": [4, 2], "metrics": METRICS}
    options = {**form, "arguments": {"between": (1.0, 2.0)}, "executor": threads}
    runs = ensemble(scenario, vary, **options)
    of_packets = packet_ensemble(scenario, vary, **options)
    assert runs.utilization.dims == of_packets.utilization.dims == ("network", "seed")
    assert set(METRICS) | {"stopped", "error"} <= set(runs) & set(of_packets) and "time" not in runs.coords
    members = [
        (runs.isel(network=i).sel(seed=seed), replace(scenario, network=vary["network"][i], seed=seed))
        for i in (0, 1)
        for seed in (4, 2)
    ]
    check_metrics(runs, members)
    numbered = ensemble(scenario, seeds=2, series=["goodput"], executor=threads)
    assert numbered.seed.values.tolist() == [1, 2] and set(numbered) == {"goodput", "stopped", "error", "steps"}
    alone = simulate(scenario.with_(seed=2))
    assert np.array_equal(numbered.goodput.sel(seed=2), alone.goodput)


@pytest.mark.slow
def test_metrics_of_generated_members(monkeypatch):
    monkeypatch.setattr(generated_steps, "_SECONDS_TO_COMPILE", 0.0)
    monkeypatch.setattr(generated_steps, "_SECONDS_TO_LOAD", 0.0)
    scenario, alphas = replace(SCENARIO, duration=2.0), [0.3, 0.4, -1.0]
    options = {"time": "discrete", "sample": 0.1}
    arguments = {"between": (1.0, 2.0)}
    runs = ensemble(scenario, {"alpha": alphas}, metrics=METRICS, arguments=arguments, series=["rate"], **options)
    assert runs.kernel == "generated" and runs.rate.dims == ("alpha", "time", "flow") and "queue" not in runs
    assert "alpha must be > 0" in runs.stopped.values[2] and np.isnan(runs.utilization[2]) and runs.error[2] == ""
    members = [(runs.sel(alpha=a), replace(scenario, protocol=PIQIRCP(alpha=a))) for a in alphas[:2]]
    check_metrics(runs, members, **options)


@pytest.mark.slow
def test_solutions_are_those_of_a_plain_loop():
    t, gains, levels = np.linspace(1.0, 20.0, 9), [0.5, 1.0, 1.7], [0.1, 0.5]
    reports = []
    args = {"gain": gains, "level": levels}
    found = solve_ensemble(
        wright, (0.0, 20.0), begun, [1.0], args=args, t_eval=t, rtol=1e-7, executor=2, progress=reports.append
    )
    assert found.y.dims == ("gain", "level", "component", "t") and found.success.all() and reports[-1] == 1.0
    for gain in gains:
        for level in levels:

            def alone(t, y, ylag, gain=gain):
                return -gain * ylag[0] * (1.0 + y[0])

            plain = solve_dde(alone, (0.0, 20.0), [level], [1.0], t_eval=t, rtol=1e-7)
            member = found.sel(gain=gain, level=level)
            assert np.array_equal(member.y, plain.y)
            assert (member.steps, member.nfev, member.message) == (plain.steps, plain.nfev, plain.message)


def test_histories_and_delays_vary():
    delays = xr.DataArray([[1.0], [1.5]], dims=("longer", "delay"))
    history = xr.DataArray([[0.1, 0.0], [0.2, 1.0], [0.3, 2.0]], dims=("begin", "component"))

    def f(t, y, ylag):
        return [-ylag[0, 0], y[0]]

    found = solve_ensemble(f, (0.0, 5.0), history, delays, args={}, t_eval=[5.0], rtol=1e-8)
    assert found.y.sizes == {"begin": 3, "longer": 2, "component": 2, "t": 1}
    plain = solve_dde(f, (0.0, 5.0), [0.3, 2.0], [1.5], t_eval=[5.0], rtol=1e-8)
    assert np.array_equal(found.y.isel(begin=2, longer=1), plain.y)


def test_what_cannot_go_on_is_marked():
    found = solve_ensemble(
        lambda t, y, ylag, gain: gain * y * y, (0.0, 2.0), [1.0], [], args={"gain": [0.1, 1.0]}, t_eval=[0.5, 1.5]
    )
    assert found.success.to_numpy().tolist() == [True, False]
    assert found.y.isnull().to_numpy()[1, 0].tolist() == [False, True]
    assert "at t = 0.9999" in found.message.to_numpy()[1]


@pytest.mark.slow
def test_an_interrupt_keeps_solutions():
    def stop(share):
        raise KeyboardInterrupt

    gains = [0.5, 1.0, 1.5, 1.7]
    found = solve_ensemble(
        lambda t, y, ylag, gain: -gain * ylag[0],
        (0.0, 5.0),
        [1.0],
        [1.0],
        args={"gain": gains},
        t_eval=[5.0],
        executor=1,
        progress=stop,
    )
    assert found.success[0] and found.message[-1] == "interrupted" and found.y[-1].isnull().all()


def test_bad_solutions():
    with pytest.raises(ValueError, match="delays must be >= 0, got -1.0"):
        solve_ensemble(wright, (0.0, 1.0), begun, [-1.0], args={"gain": [1.0], "level": [1.0, 2.0]}, t_eval=[1.0])
    with pytest.raises(ValueError, match="history must have a dimension 'component'"):
        solve_ensemble(wright, (0.0, 1.0), xr.DataArray([1.0], dims="x"), [1.0], args={}, t_eval=[1.0])
    with pytest.raises(ValueError, match="over must name the quantities to vary"):
        solve_ensemble(wright, (0.0, 1.0), begun, [1.0], args={}, t_eval=[1.0])


@pytest.mark.slow
@pytest.mark.parametrize("jit", [True, False])
def test_arguments_follow_in_every_function(jit):
    def f(t, y, ylag, gain, lag):
        return -gain * ylag[0]

    def before(t, gain, lag):
        return [gain]

    def delay(t, y, gain, lag):
        return [lag]

    def low(t, y, gain, lag):
        return y[0] - 0.2 * gain

    low.terminal = True
    found = solve_dde(f, (0.0, 5.0), before, delay, args=(0.5, 1.0), events=low, rtol=1e-9, atol=1e-12, jit=jit)
    assert found.compiled == jit
    # y = 0.5 - 0.25 t to t = 1, then y' = -0.5 (0.5 - 0.25 (t - 1)): 0.1 where s - s^2/4 = 0.6, s = t - 1
    assert found.t_events[0][0] == pytest.approx(1.0 + 2.0 - np.sqrt(4.0 - 2.4), rel=1e-8)


def test_hosts_and_disciplines_vary_by_their_halves_and_seeds_draw():
    deployed = {"flows": NewReno(ecn=True), "links": DualPI2()}
    network = Network.dumbbell("10 Mb/s", [0.02, 0.05], buffer="60 kB")
    scenario = Scenario(network, deployed, 1.0)
    runs = ensemble(scenario, {"seed": [1, 2], "links.target": [0.005, 0.015]})
    assert (runs.stopped == "completed").all()
    own = simulate(scenario.with_(seed=2, protocol={**deployed, "links": DualPI2(target=0.005)}))
    np.testing.assert_array_equal(runs.rate.sel({"seed": 2, "links.target": 0.005}), own.rate)
    assert (runs.rate.sel(seed=1) != runs.rate.sel(seed=2)).any()
    with pytest.raises(ValueError, match=r"vary must name one of flows\..*, links\.target, .*got 'target'"):
        ensemble(scenario, {"target": [0.01]})
