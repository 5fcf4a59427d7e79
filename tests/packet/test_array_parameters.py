"""Parameters that are arrays: hooks and laws read their entries, and results equal those of scalar parameters."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, make_dataclass

import numpy as np
import pytest

import ecc
import ecc.fluid
import ecc.packet
from ecc.contract.parameters import label
from ecc.models import Protocol

NETWORK = ecc.Network.parking_lot(["20 Mb/s", "15 Mb/s"], buffer="60 kB")
DUMBBELL = ecc.Network.dumbbell("10 Mb/s", rtts=["20 ms", "40 ms"])
WEIGHTS = (-0.3, 0.02, 0.15, -0.4, 0.7, 0.25)
"""Two hidden units of two features each, and the weights of the units in the output."""

Memory = make_dataclass("Memory", [("window", float, 0.0), ("next", float, 0.0)])


def begin(flow, header, p, env):
    flow.window = 10.0 * env.packet_size
    env.window = flow.window


def act(flow, first, second, env):
    """Change the window by the output of the policy, once per RTT."""
    flow.window = min(max(flow.window * (1.0 + 0.1 * (first + second)), 2.0 * env.packet_size), 4e6)
    flow.next = env.now + env.rtt
    env.window = flow.window


def halve(flow, header, p, env):
    flow.window = max(0.5 * flow.window, 2.0 * env.packet_size)
    env.window = flow.window


def weigh_entries(flow, header, p, env):
    if env.now >= flow.next:
        delay, room = env.rtt / env.min_rtt - 1.0, 1.0 / (1.0 + flow.window / 1e5)
        hidden_1 = p.weights[0] * delay + p.weights[1] * room
        hidden_2 = p.weights[2] * delay + p.weights[3] * room
        act(flow, p.weights[4] * hidden_1, p.weights[len(p.weights) - 1] * hidden_2 + room, env)


def weigh_scalars(flow, header, p, env):
    if env.now >= flow.next:
        delay, room = env.rtt / env.min_rtt - 1.0, 1.0 / (1.0 + flow.window / 1e5)
        hidden_1 = p.w_0 * delay + p.w_1 * room
        hidden_2 = p.w_2 * delay + p.w_3 * room
        act(flow, p.w_4 * hidden_1, p.w_5 * hidden_2 + room, env)


@dataclass(frozen=True)
class Policy(Protocol):
    """A linear policy of two layers with its weights in an array."""

    weights: tuple[float, ...] = WEIGHTS
    scale: float = 1.0
    FlowState = Memory
    transport = "sack"

    def link_hooks(self):
        return {}

    def flow_hooks(self):
        return {"on_start": begin, "on_ack": weigh_entries, "on_loss": halve}


Scalars = make_dataclass(
    "Scalars",
    [(f"w_{k}", float, w) for k, w in enumerate(WEIGHTS)],
    bases=(Protocol,),
    frozen=True,
    namespace={
        "FlowState": Memory,
        "transport": "sack",
        "link_hooks": lambda self: {},
        "flow_hooks": lambda self: {"on_start": begin, "on_ack": weigh_scalars, "on_loss": halve},
    },
)


class Returned(Policy):
    """A policy with weights that `params` returns as an array of NumPy."""

    def params(self):
        return {"weights": np.array(WEIGHTS), "scale": 1.0}


def assert_equal(one, other):
    for name in one.data.data_vars:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    assert one.stats["events"] == other.stats["events"]


@pytest.mark.parametrize("kind", [Policy, Returned])
@pytest.mark.parametrize("options", [{}, {"engine": "python"}, {"threads": 2}], ids=["c", "python", "threads"])
def test_a_policy_equals_the_same_policy_with_scalar_weights(kind, options):
    runs = [ecc.packet.simulate(ecc.Scenario(NETWORK, hosts, 3.0), **options) for hosts in (kind(), Scalars())]
    assert float(runs[0].goodput.mean("time").min()) > 1e5 and len(np.unique(runs[0].rate)) > 20
    assert_equal(*runs)


def test_routers_read_arrays_too():
    def mark_above(link, header, p, env):
        env.mark = 1 if env.queue > p.steps[1] else 0

    @dataclass(frozen=True)
    class Steps(Protocol):
        steps: tuple[float, ...] = (0.0, 20_000.0)
        gives = frozenset({"ecn"})

        def link_hooks(self):
            return {"on_arrival": mark_above}

    halves = {"flows": ecc.models.DCTCP(), "links": Steps()}
    runs = [ecc.packet.simulate(ecc.Scenario(DUMBBELL, halves, 2.0), engine=engine) for engine in ("c", "python")]
    assert_equal(*runs)
    assert 10_000.0 < float(runs[0].queue[-20:].mean()) < 40_000.0


def test_a_checkpoint_keeps_arrays(tmp_path):
    scenario = ecc.Scenario(NETWORK, Policy(weights=(*WEIGHTS[:5], 0.5)), 3.0)
    whole = ecc.packet.simulate(scenario)
    ecc.packet.Run(scenario).advance(1.234).save(tmp_path / "run.ckpt")
    resumed = ecc.packet.resume(tmp_path / "run.ckpt").advance()
    assert resumed.scenario == scenario
    assert_equal(whole, resumed.trajectory())


def test_scenario_files_and_labels_have_arrays():
    scenario = ecc.Scenario(NETWORK, Policy(weights=np.array([1, 2], np.int32)), 3.0)
    assert scenario.protocol == Policy(weights=[1.0, 2.0]) and hash(scenario.protocol) == hash(Policy((1.0, 2.0)))
    assert "weights = [\n    1.0,\n    2.0,\n]" in scenario.to_toml()
    assert ecc.Scenario.from_toml(scenario.to_toml()) == scenario
    assert repr(scenario.protocol) == "Policy(weights=(1.0, 2.0))"
    assert label(scenario.protocol) == "Policy(weights = (1, 2))"
    assert label(Policy(tuple(range(100)))) == "Policy(weights = (0, 1, 2, 3, ... 100 entries))"


def test_other_parameters_are_swept_and_named():
    from ecc.contract.assignment import parameter_names

    assert parameter_names(Policy()) == ["scale"]
    runs = ecc.sweep(
        lambda scale: float(ecc.packet.simulate(ecc.Scenario(DUMBBELL, Policy(scale=scale), 0.5)).rate[-1, 0]),
        {"scale": [1.0, 2.0]},
    )
    assert runs["value"][0] == runs["value"][1]


@pytest.mark.parametrize(
    ("weights", "kind", "message"),
    [
        ((0.1, float("nan")), ValueError, r"weights must be an array of numbers, got nan (entry 1)"),
        (np.array([np.nan]), ValueError, r"weights must be an array of numbers, got nan (entry 0)"),
        ((), ValueError, r"weights must be an array of at least one number, got ()"),
        (0.5, TypeError, r"weights must be an array of numbers, got 0.5"),
        (None, TypeError, r"weights must be an array of numbers, got None"),
        ("0.5", TypeError, r"weights must be an array of numbers, got '0.5'"),
        ((0.1, "0.5"), TypeError, r"weights must be an array of numbers, got '0.5' (entry 1)"),
        ((0.1, True), TypeError, r"weights must be an array of numbers, got True (entry 1)"),
        ([[0.1], [0.2]], TypeError, r"weights must be an array of numbers, got [0.1] (entry 0)"),
    ],
)
def test_bad_arrays_are_refused_in_one_line(weights, kind, message):
    with pytest.raises(kind) as caught:
        Policy(weights=weights)
    assert str(caught.value) == message

    class Bad(Policy):
        def params(self):
            return {"weights": weights}

    if not isinstance(weights, float):
        with pytest.raises(kind, match=r"^(weights in )?params\(\) of Bad must (be|have) ") as caught:
            ecc.packet.simulate(ecc.Scenario(DUMBBELL, Bad(), 0.1))
        assert "\n" not in str(caught.value)


def overwrite(flow, header, p, env):
    p.weights[0] = 1.0


def overwrite_in_function(flow, header, p, env):
    clear(p.weights)


def clear(values):
    for k in range(len(values)):
        values[k] = 0.0


@pytest.mark.parametrize("hook", [overwrite, overwrite_in_function])
def test_hooks_cannot_write_arrays_of_parameters(hook):
    class Writes(Policy):
        def flow_hooks(self):
            return {"on_start": begin, "on_ack": hook}

    scenario = ecc.Scenario(DUMBBELL, Writes(), 0.5)
    with pytest.raises(TypeError, match="writes an entry of an array of p: parameters are read-only") as caught:
        ecc.packet.simulate(scenario)
    assert "\n" not in str(caught.value)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        run = ecc.packet.simulate(scenario, engine="python")
    assert not run.is_complete and "does not support item assignment" in str(caught_warnings[0].message)


def beyond(flow, header, p, env):
    env.window = p.weights[6]


def test_an_index_outside_an_array_ends_the_run():
    class Beyond(Policy):
        def flow_hooks(self):
            return {"on_start": begin, "on_ack": beyond}

    for engine in ("c", "python"):
        with pytest.warns(RuntimeWarning, match=r"IndexError"):
            run = ecc.packet.simulate(ecc.Scenario(DUMBBELL, Beyond(), 0.5), engine=engine)
        assert not run.is_complete


# ---- laws ------------------------------------------------------------------------------------------------------------


def router_law_of_entries(R, y, C, d, T, p):
    return min(max(R * (1.0 + p.gains[0] * T * (p.gains[1] * C - y) / (C * d)), 1e-4 * C), C)


def router_law_of_scalars(R, y, C, d, T, p):
    return min(max(R * (1.0 + p.alpha * T * (p.gamma * C - y) / (C * d)), 1e-4 * C), C)


def equilibrium(self, network, assignment=None):
    from ecc.models.shared.equilibria import shared_fair_rate

    return shared_fair_rate(network, 0.95 * network.capacities, assignment)


@dataclass(frozen=True)
class FairEntries(Protocol):
    gains: tuple[float, ...] = (0.4, 0.95)
    interval: float = 0.01
    router_law = staticmethod(router_law_of_entries)
    source_law = staticmethod(lambda R: R)
    equilibrium = equilibrium


@dataclass(frozen=True)
class FairScalars(Protocol):
    alpha: float = 0.4
    gamma: float = 0.95
    interval: float = 0.01
    router_law = staticmethod(router_law_of_scalars)
    source_law = staticmethod(lambda R: R)
    equilibrium = equilibrium


@pytest.mark.parametrize("start", ["empty", "equilibrium"])
def test_laws_read_arrays_in_fluid_models(start):
    options = {"start": start, **({"perturbation": 0.01} if start == "equilibrium" else {})}
    runs = [ecc.fluid.simulate(ecc.Scenario(DUMBBELL, kind(), 2.0), **options) for kind in (FairEntries, FairScalars)]
    for name in runs[0].data.data_vars:
        np.testing.assert_array_equal(runs[0][name], runs[1][name], err_msg=name)


def test_laws_read_arrays_in_linear_models_and_equations():
    from ecc.laws.equations import router_equation

    loops = [ecc.linearize(kind(), DUMBBELL) for kind in (FairEntries, FairScalars)]
    radii = [loop.spectral_radius if hasattr(loop, "spectral_radius") else loop for loop in loops]
    assert repr(radii[0]) == repr(radii[1])
    assert FairEntries().has_affine_laws == FairScalars().has_affine_laws
    texts = [str(router_equation(kind())) for kind in (FairEntries, FairScalars)]
    assert texts[0].replace("gains_0", "alpha").replace("gains_1", "gamma") == texts[1]


def test_arrays_of_different_lengths_do_not_share_code():
    shared = {}
    from ecc.fluid.network.laws import CompiledLaws

    lengths = [CompiledLaws(FairEntries(gains), shared=shared).params for gains in ((0.4, 0.95), (0.4, 0.95, 1.0))]
    assert [len(values) for values in lengths] == [3, 4] and len(shared) == 2
