"""Rules that hold for all public functions: one name, one type and one default for one thing."""

import doctest
import inspect
import io
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import is_dataclass

import numpy as np
import pytest

import ecc
from ecc._support.reports import Progress
from ecc.loops.options import NAMES

NETWORK = ecc.Network.dumbbell("10 Mb/s", rtts=["100 ms"])
QIRCP = ecc.models.QIRCP()
SCENARIO = ecc.Scenario(NETWORK, QIRCP, duration=2.0)


def functions():
    """Name -> each public function, once."""
    found = {}
    named = [getattr(ecc, name) for name in (*ecc.__all__, *ecc._PARTS)]
    for module in (ecc, *(one for one in named if inspect.ismodule(one))):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) and value not in found.values():
                found[f"{module.__name__}.{name}"] = value
    return found


FUNCTIONS = functions()
TAKING = {
    parameter: [name for name, call in FUNCTIONS.items() if parameter in inspect.signature(call).parameters]
    for parameter in ("parameter", "certify", "executor", "progress", "cancel", "options", "time")
}


def parameters(name):
    return inspect.signature(FUNCTIONS[name]).parameters


def test_the_walk_finds_what_is_public():
    assert len(FUNCTIONS) > 90
    assert {"ecc.simulate", "ecc.critical_gain", "ecc.fluid.simulate", "ecc.linear.certify"} <= set(FUNCTIONS)
    assert all(len(names) > 4 for name, names in TAKING.items() if name != "parameter") and len(TAKING["parameter"]) > 4


# ---- parameter --------------------------------------------------------------------------------------------

OTHER_PARAMETERS = {
    "ecc.stability.measured_boundary": inspect.Parameter.empty,  # low and high follow it by position
}


@pytest.mark.parametrize("name", TAKING["parameter"])
def test_no_parameter_is_the_main_parameter(name):
    one = parameters(name)["parameter"]
    assert one.annotation == "str | None"
    assert one.default is OTHER_PARAMETERS.get(name)


@pytest.mark.slow
def test_the_main_parameter_is_the_one_that_the_protocol_declares():
    emkc = ecc.models.EMKC()
    assert emkc.main_parameter == "beta"
    assert ecc.critical_gain(emkc, NETWORK, time="discrete").value == pytest.approx(2.0)
    assert ecc.stability.stable_interval(emkc, NETWORK, time="discrete").parameter == "beta"
    assert ecc.stability.analyze(emkc, NETWORK).parameter == "beta"
    assert ecc.stability.worst_rtt_distribution(emkc, 0.1, time="discrete").value == pytest.approx(2.0)
    assert ecc.stability.hopf(QIRCP, NETWORK).parameter == "alpha"
    assert ecc.stability.local_margin(QIRCP, 0.1) == ecc.stability.local_margin(QIRCP, 0.1, "alpha")
    for former in ("", None):
        assert ecc.stability.stable_interval(QIRCP, NETWORK, former).parameter == "alpha"


def test_a_protocol_without_a_main_parameter_needs_a_name():
    class Unnamed(ecc.models.QIRCP):
        main_parameter = ""

    text = "^parameter must be one of alpha, .*: Unnamed declares no main_parameter$"
    for call in (ecc.critical_gain, ecc.stability.stable_interval, ecc.stability.hopf):
        with pytest.raises(ValueError, match=text):
            call(Unnamed(), NETWORK)
    with pytest.raises(ValueError, match=text):
        ecc.stability.measured_boundary(Unnamed(), NETWORK, None, 0.5, 1.0, 0.4)
    assert ecc.stability.analyze(Unnamed(), NETWORK).models[0].interval is None


# ---- certify, and what is proven --------------------------------------------------------------------------

CERTIFIED_BY_DEFAULT = ("ecc.stability.analyze", "ecc.stability.stable_interval")  # whose results show their proofs


@pytest.mark.parametrize("name", TAKING["certify"])
def test_proofs_are_asked_for_by_one_name(name):
    one = parameters(name)["certify"]
    assert one.annotation == "bool" and one.default is (name in CERTIFIED_BY_DEFAULT)


def test_no_function_asks_for_proofs_by_another_name():
    for name in FUNCTIONS:
        assert not set(parameters(name)) & {"prove", "proof", "proven", "certified", "verify"}, name


def test_results_that_are_proven_share_their_attributes():
    found = set()
    for room in (ecc.linear, ecc.stability):
        for name in room.__all__:
            kind = getattr(room, name)
            fields = set(kind.__dataclass_fields__) if is_dataclass(kind) else set()
            if "certified" in fields or hasattr(kind, "is_proven") or {"lower", "upper"} <= fields:
                assert all(hasattr(kind, one) or one in fields for one in ("lower", "upper", "is_proven")), name
                found.add(name)
    assert found == {
        "Certificate",
        "CriticalGain",
        "Growth",
        "JointSpectralRadius",
        "OrbitProof",
        "PolicyLimit",
        "RttMargin",
        "StabilityLimit",
        "StableInterval",
    }


def test_the_bounds_of_proven_results_hold_the_value():
    loose, proven = (ecc.critical_gain(QIRCP, NETWORK, certify=certify) for certify in (False, True))
    assert loose.lower == loose.upper == loose.value and not loose.is_proven
    assert (proven.lower, proven.upper) == proven.certified and proven.is_proven
    assert proven.lower < np.pi / 2.0 < proven.upper
    margin = ecc.stability.rtt_margin(ecc.models.QIRCP(alpha=0.5), NETWORK, certify=True)
    assert margin.lower < 1.0 / np.pi < margin.upper and margin.is_proven
    interval = ecc.stability.stable_interval(QIRCP, NETWORK)
    assert interval.is_proven and not ecc.stability.stable_interval(QIRCP, NETWORK, certify=False).is_proven
    certificate = ecc.linearize(ecc.models.QIRCP(alpha=2.0), NETWORK).certify()
    assert certificate.is_proven and certificate.lower == certificate.upper == certificate.unstable > 0
    growing = ecc.stability.growth_of_rates([[-1.5]], [[0]], [[1]], certify=True)
    assert growing.is_proven and growing.lower == 1.0 < growing.value < growing.upper


# ---- executor ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TAKING["executor"])
def test_parallel_work_is_asked_for_by_one_name(name):
    one = parameters(name)["executor"]
    assert one.annotation == "Executor | int | None" and one.default is None


def test_no_function_asks_for_parallel_work_by_another_name():
    for name in FUNCTIONS:
        other = set(parameters(name)) & {"workers", "jobs", "n_jobs", "processes", "pool", "threads"}
        in_threads = ("ecc.packet.simulate", "ecc.rl.make")  # of C: parts of one network, and runs that step together
        assert not other or (other == {"threads"} and name in in_threads), name


def varied(**options):
    return ecc.fluid.ensemble(SCENARIO, {"alpha": [0.3, 0.5, 0.7]}, **options).rate.to_numpy()


def mapped(**options):
    return ecc.stability.stability_map(QIRCP, NETWORK, {"alpha": np.linspace(0.1, 2.0, 20)}, **options).to_numpy()


def solved(**options):
    return ecc.fluid.solve_ensemble(
        lambda t, y, z, k: -k * z[0],
        (0.0, 2.0),
        [1.0],
        [0.5],
        args={"k": [0.5, 1.0]},
        t_eval=[1.0, 2.0],
        jit=False,
        **options,
    ).y.to_numpy()


@pytest.mark.parametrize("call", [varied, mapped, solved])
def test_threads_are_given_by_number_or_as_an_executor_and_change_no_result(call):
    expected = call()
    assert np.array_equal(call(executor=2), expected) and np.array_equal(call(workers=2), expected)
    with ThreadPoolExecutor(2) as pool:
        assert np.array_equal(call(executor=pool), expected) and np.array_equal(call(executor=pool), expected)
    with pytest.raises(TypeError, match="^executor must be a ThreadPoolExecutor or a number of threads here, got a P"):
        call(executor=ProcessPoolExecutor(1))
    with pytest.raises(ValueError, match="^executor must be >= 1, got 0$"):
        call(executor=0)
    with pytest.raises(TypeError, match="^workers is the former name of executor, and both are given$"):
        call(executor=1, workers=1)


def test_former_names_are_accepted():
    assert ecc.stability.growth_of_rates([[-1.5]], [[0]], [[1]], prove=True).proven
    with pytest.raises(ValueError, match="executor must be >= 1, got 0"):
        ecc.conform.run("BBR", ["bbr-drain-inflight"], jobs=0)


# ---- progress ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TAKING["progress"])
def test_progress_callbacks_have_one_type(name):
    one = parameters(name)["progress"]
    assert one.annotation == "ProgressCallback | None" and one.default is None


@pytest.mark.parametrize("name", TAKING["cancel"])
def test_cancel_callbacks_have_one_type(name):
    one = parameters(name)["cancel"]
    assert one.annotation in ("Callable[[], bool] | None", "Cancel | None") and one.default is None


REPORTING = {
    "packet": lambda seen: ecc.packet.simulate(SCENARIO, progress=seen),
    "fluid": lambda seen: ecc.fluid.simulate(SCENARIO, progress=seen),
    "compare": lambda seen: ecc.compare(SCENARIO, progress=seen),
    "sweep": lambda seen: ecc.sweep(lambda x: x, {"x": [1, 2]}, progress=seen),
    "ensemble": lambda seen: varied(progress=seen),
    "critical_gain": lambda seen: ecc.critical_gain(QIRCP, NETWORK, progress=seen),
    "stability_map": lambda seen: mapped(progress=seen),
    "analyze": lambda seen: ecc.stability.analyze(QIRCP, NETWORK, progress=seen),
    "check_protocol": lambda seen: ecc.testing.check_protocol(QIRCP, ["fluid-run"], examples=1, progress=seen),
    "conform": lambda seen: ecc.conform.run("NewReno", ["bbr-drain-inflight"], progress=seen),
}


@pytest.mark.parametrize("name", REPORTING)
def test_callbacks_receive_one_progress_with_share_and_text(name, monkeypatch):
    monkeypatch.setattr("ecc._support.reports._INTERVAL", 0.0)
    seen = []
    REPORTING[name](seen.append)
    assert seen and all(isinstance(one, Progress) for one in seen)
    for one in seen:
        assert isinstance(one.share, float) and (0.0 <= one.share <= 1.0 or one.text)
        assert isinstance(one.text, str) and (one == one.share if isinstance(one, float) else one == one.text)


def test_callbacks_of_two_and_three_arguments_receive_what_they_did():
    seen = []
    ecc.testing.check_protocol(
        QIRCP, ["fluid-run"], examples=1, progress=lambda name, done, count: seen.append((name, done, count))
    )
    ecc.conform.run("NewReno", ["bbr-drain-inflight"], progress=lambda case, found: seen.append((case.id, found.claim)))
    assert seen[0] == ("fluid-run", 0, 1) and seen[1][0] == "bbr-drain-inflight"


# ---- options and the number of parameters -----------------------------------------------------------------

OWN_OPTIONS = {
    "ecc.fluid.simulate": {"clocking", "updates_per_rtt"},  # of a run, not of a linear model
    "ecc.fluid.ensemble": {"clocking", "updates_per_rtt"},
    "ecc.compare": {"clocking"},  # of the fluid run
    "ecc.stability.safe_perturbation": {"clocking", "assignment"},  # of fluid runs
    "ecc.stability.marking_cycle": {"clocking"},  # of a cycle
    "ecc.stability.perturbed_run": {"assignment"},  # of a scenario
    "ecc.stability.isolated_links": {"assignment"},  # of flows to links, the only option
    "ecc.stability.mean_rtts": {"assignment"},
    "ecc.stability.bottleneck_assignment": {"assignment"},
    "ecc.stability.absolute_radius": {"assignment"},
    "ecc.fluid.periodic_orbit": {"intervals"},  # of collocation
}
OF_ONE_LINK = {
    f"ecc.stability.{name}"
    for name in (
        "is_stable_under_varying_delays",
        "growth_under_delays",
        "worst_sequence",
        "worst_rtt_distribution",
        "local_margin",
    )
}
"""Functions of one link, whose argument is its mean RTT."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_options_of_linear_models_come_as_one_object(name):
    own = set(parameters(name)) & set(NAMES)
    assert own == ({"mean_rtt"} if name in OF_ONE_LINK else OWN_OPTIONS.get(name, set()))


@pytest.mark.parametrize("name", TAKING["options"])
def test_options_are_taken_as_an_object_or_as_keywords(name):
    found = parameters(name)
    one, keywords = found["options"], found.get("keywords")
    if one.kind is one.VAR_KEYWORD:  # options of an engine, or of a run
        return
    assert one.default is None and one.annotation.startswith("LinearOptions | ") and one.annotation.endswith("None")
    assert keywords is not None and keywords.annotation == "Unpack[LinearKeywords]"


MANY_PARAMETERS = {
    "ecc.packet.simulate": "options of an engine",
    "ecc.fluid.simulate": "options of an engine",
    "ecc.live.simulate": "options of an engine",
    "ecc.live.node": "options of an engine",
    "ecc.fluid.ensemble": "options of an engine",
    "ecc.packet.ensemble": "options of an engine",
    "ecc.compare": "options of both engines",
    "ecc.stability.design": "a requirement for each kind of margin",
    "ecc.fluid.solve_dde": "those of scipy.integrate.solve_ivp",
    "ecc.fluid.solve_ensemble": "those of scipy.integrate.solve_ivp",
    "ecc.stability.perturbed_run": "older calls by position",
    "ecc.stability.measured_boundary": "older calls by position",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_has_more_than_eight_parameters_besides_its_options(name):
    found = parameters(name).values()
    count = sum(one.name != "options" and one.kind is not one.VAR_KEYWORD for one in found)
    assert count <= 8 or name in MANY_PARAMETERS or name.startswith("ecc.plot."), count


@pytest.mark.parametrize("name", TAKING["time"])
def test_the_linear_model_is_chosen_by_one_name(name):
    one = parameters(name)["time"]
    assert one.annotation != "str" or one.default == "continuous"


# ---- docstrings -------------------------------------------------------------------------------------------

LIBRARY = [name for name in FUNCTIONS if not name.startswith("ecc.native.")]  # what users call


@pytest.mark.parametrize("name", LIBRARY)
def test_docstrings_say_what_is_returned_and_give_an_example(name):
    text = inspect.getdoc(FUNCTIONS[name])
    assert "\nExamples\n--------\n>>> " in text
    nothing = inspect.signature(FUNCTIONS[name]).return_annotation in ("None", None)
    assert nothing or "\nReturns\n-------\n" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARY)
def test_examples_are_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = inspect.unwrap(FUNCTIONS[name])
    scope = {**vars(ecc.models), **vars(ecc.queues), **{key: getattr(ecc, key) for key in ecc.__all__}}
    scope |= {"ecc": ecc, "np": np, **call.__globals__}
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(FUNCTIONS[name]), scope, name, None, None)
    assert test.examples
    report = io.StringIO()
    doctest.DocTestRunner().run(test, out=report.write)
    assert not report.getvalue(), report.getvalue()
