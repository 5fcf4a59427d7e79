"""Trained policies as hosts: networks in hooks, observations, and runs in packets and in the fluid."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.laws.dense_network import DenseNetwork, Layer
from ecc.models import Aurora, Orca, Policy
from ecc.models.shared import policies

PATH = ecc.Network.dumbbell("4 Mb/s", rtts=[0.1], buffer="100 kB", packet_size=1500)


def drawn(*sizes, activation="leaky_relu", seed=1):
    rng = np.random.default_rng(seed)
    pairs = [*zip(sizes, sizes[1:], strict=False)]
    kinds = [activation] * (len(pairs) - 1) + ["tanh"]
    return DenseNetwork(
        Layer(rng.standard_normal((n, m)) / np.sqrt(m), 0.1 * rng.standard_normal(n), kind, 0.2)
        for (m, n), kind in zip(pairs, kinds, strict=True)
    )


def regulator(gain=2.0, target=1.2, damping=10.0, frames=10):
    """Aurora's features; the action raises the rate while the mean RTT is below `target` minimum RTTs."""
    weight = np.zeros((1, 3 * frames))
    weight[0, -3:-1] = -damping, -gain
    return DenseNetwork([Layer(weight, [gain * target])])


def congested(features=3):
    """A window law by users: grows by 1 %, and falls with losses."""
    weight = np.zeros((1, features))
    weight[0, 0] = -5.0
    return DenseNetwork([Layer(weight, [0.01])])


def loss_share(loss):
    return loss


def delay_share(rtt, min_rtt):
    return rtt / min_rtt - 1.0


def previous(a):
    return a


def scaled_window(a, w):
    return w * (1.0 + max(a, -0.5))


def long_interval(srtt):
    return 2.0 * srtt


def of_capacity(C):
    return C


LAWS = {"observe": (loss_share, delay_share, previous), "act": scaled_window, "interval": long_interval}
KINDS = {
    "rate": lambda: Policy(regulator()),
    "drawn": lambda: Policy(drawn(30, 8, 5, 1)),
    "window": lambda: Policy(congested(), **LAWS),
    "orca's laws": lambda: Policy(drawn(14, 6, 1), observe="orca", act="orca"),
    "Orca": lambda: Orca(network=drawn(14, 6, 1)),
    "Aurora": Aurora,
}


@pytest.mark.parametrize("activation", ["leaky_relu", "relu", "tanh", "linear"])
def test_hooks_evaluate_the_network(activation):
    network, rng = drawn(12, 9, 7, 1, activation=activation), np.random.default_rng(3)
    p = SimpleNamespace(**policies.network_params(network))
    for _ in range(20):
        memory = policies.memory_of(12, 12)()
        memory.frames, memory.units, memory.next_units = rng.standard_normal(12), [0.0] * 12, [0.0] * 12
        assert policies.evaluate(memory, p) == pytest.approx(network(memory.frames)[0], abs=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["drawn", "published"])
def test_compiled_actions_are_those_of_the_network(kind):
    """Samples of a run have the last frames of a flow, and the action that compiled hooks made of them."""
    protocol = Orca() if kind == "published" else KINDS[kind]()
    n_in = protocol.actor.n_in
    names = ["flow.action", "flow.decisions", *(f"flow.frames[{k}]" for k in range(n_in))]
    run = ecc.packet.simulate(ecc.Scenario(PATH, protocol, 5.0), sample=0.1, record=names)
    action, decisions, *frames = (run[name].to_numpy()[:, 0] for name in names)
    acted = decisions > 0
    assert acted.sum() > 30 and len(np.unique(action[acted])) > 20
    theirs = protocol.actor(np.stack(frames, axis=-1)[acted])[:, 0]
    assert np.abs(action[acted] - theirs).max() < 1e-12


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "Orca" else pytest.mark.slow) for kind in KINDS]
)
def test_both_packet_engines_agree(kind):
    scenario = ecc.Scenario(ecc.Network.dumbbell("4 Mb/s", rtts=[0.1, 0.05], buffer="30 kB"), KINDS[kind](), 1.5)
    compiled, plain = (ecc.packet.simulate(scenario, engine=engine) for engine in ("c", "python"))
    assert compiled.stats["digest"] == plain.stats["digest"]
    assert np.array_equal(compiled.rate, plain.rate) and len(np.unique(compiled.rate)) > 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_runs_continue_from_checkpoints_and_in_threads(kind, tmp_path):
    scenario = ecc.Scenario(ecc.Network.dumbbell("4 Mb/s", rtts=[0.1, 0.05], buffer="30 kB"), KINDS[kind](), 4.0)
    whole = ecc.packet.simulate(scenario)
    ecc.packet.Run(scenario).advance(2.0).save(tmp_path / "run.ckpt")
    again = ecc.packet.resume(tmp_path / "run.ckpt").advance().trajectory()
    threaded = ecc.packet.simulate(scenario, threads=2)
    for other in (again, threaded):
        assert np.array_equal(whole.rate, other.rate) and whole.stats["events"] == other.stats["events"]


@pytest.mark.slow
def test_a_regulator_reaches_its_delay_in_packets_and_fluid():
    """a = 2 (1.2 - D/min D) - 10 dD/dt: at rest the queue is a fifth of a bandwidth-delay product."""
    scenario = ecc.Scenario(PATH, Policy(regulator(), min_rate="0.1 Mb/s"), 60.0)
    for engine in (ecc.packet, ecc.fluid):
        run = engine.simulate(scenario)
        late = run.queue.to_numpy()[-len(run.queue) // 3 :, 0]
        assert late.mean() == pytest.approx(0.2 * 4e6 * 0.1 / 8.0, rel=0.25), engine.__name__
        assert run.goodput.to_numpy()[-len(late) :, 0].mean() == pytest.approx(4e6, rel=0.02)


@pytest.mark.slow
def test_the_published_policy_leaves_a_tenth_of_the_link():
    """Alone, Orca is a near-relay about 90 % of its maximum throughput, with no loss."""
    network = ecc.Network.dumbbell("100 Mb/s", rtts=[0.03], buffer="480 kB", packet_size=1500)
    run = ecc.packet.simulate(ecc.Scenario(network, Orca(), 10.0), sample=0.1)
    late = run.goodput.to_numpy()[40:, 0]
    assert 0.8e8 < late.min() and late.max() < 0.95e8
    assert run.drops.to_numpy()[40:].sum() == 0


@pytest.mark.slow
def test_aurora_fills_a_path_of_its_training():
    network = ecc.Network.dumbbell("3 Mb/s", rtts=[0.2], buffer="75 kB", packet_size=1500)
    for engine in (ecc.packet, ecc.fluid):
        run = engine.simulate(ecc.Scenario(network, Aurora(initial_rate="1.5 Mb/s"), 60.0))
        assert run.goodput.to_numpy()[-len(run.goodput) // 2 :].mean() > 2.4e6, engine.__name__


@pytest.mark.slow
def test_unused_windows_of_orca_do_not_grow_without_a_limit():
    scenario = ecc.Scenario(
        ecc.Network(
            [ecc.Link("48 Mb/s", "20 ms", buffer="240 kB")],
            [ecc.Flow([0], packet_size=1500, writes=("12.5 kB", "100 ms"))],
        ),
        Orca(),
        10.0,
    )
    run = ecc.packet.simulate(scenario, sample=0.1, record=["env.window"])
    assert run["env.window"].to_numpy().max() < 1e6 and run.goodput.to_numpy()[-20:].mean() == pytest.approx(
        1e6, rel=0.05
    )


def test_scenario_files_keep_networks_and_laws(tmp_path):
    regulator().save(tmp_path / "actor.npz")
    network, law = regulator(), "ecc.models.shared.policies:half_rtt"
    for protocol in (
        Policy(network),
        Policy(tmp_path / "actor.npz", interval=policies.half_rtt, initial_rate="1 Mb/s"),
        Policy(network, observe=(policies.latency_gradient, policies.latency_ratio, policies.send_ratio)),
        Orca(network=drawn(14, 6, 1)),
        Orca(),
        Aurora(initial_rate="1 Mb/s"),
    ):
        scenario = ecc.Scenario(PATH, protocol, 1.0)
        again = ecc.Scenario.from_toml(scenario.to_toml())
        assert again.protocol == protocol and hash(again.protocol) == hash(protocol)
    assert replace(Policy(network), interval=law).interval == law
    assert Policy(tmp_path / "actor.npz").actor == network != drawn(30, 1)


BAD = {
    r"network must be a DenseNetwork or a file, .npz or .onnx, got None": lambda: Policy(None),
    r"network must be one of aurora, orca, or a file, .npz or .onnx, got .*test_policies.py'": lambda: Policy(__file__),
    r"network must have a multiple of 3 inputs, the features, got 14": lambda: Policy(drawn(14, 1)),
    r"network must have a multiple of 7 inputs, the features, got 30": lambda: Orca(network=drawn(30, 1)),
    r"observe must be one of aurora, orca, a function, or 'module:function', got 'remy'": lambda: Policy(
        regulator(), observe="remy"
    ),
    r"observe must have at least one law, got none": lambda: Policy(regulator(), observe=()),
    r"act must be 'module:function', and 'nowhere:law' does not exist": lambda: Policy(regulator(), act="nowhere:law"),
    r"act must have arguments among a, send_rate, .*, p, got C \(.*of_capacity\)": lambda: Policy(
        regulator(), act=of_capacity
    ),
    r"act must be functions of a module, which scenario files can name, got <function": lambda: Policy(
        regulator(), act=lambda a: a
    ),
    r"interval must be a time or a law, as act is no choice, got None": lambda: Policy(regulator(), act=scaled_window),
    r"interval must be > 0 s, got 0": lambda: Policy(regulator(), interval=0.0),
    r"initial_rate must be > 0 bit/s, got -1": lambda: Policy(regulator(), initial_rate=-1.0),
    r"a network as text must be that of DenseNetwork.toml, got 'base64:xyz'": lambda: Policy("base64:xyz"),
    r"Policy has no linear model: its hosts act": lambda: ecc.linearize(Policy(regulator()), PATH),
    r"Orca has no linear model: its hosts act": lambda: ecc.linearize(Orca(), PATH),
    r"start must be 'empty' for packets of Orca": lambda: Orca().flow_at(1e6, 0.0, 0),
    r"Orca has no equilibrium: its policy multiplies windows": lambda: Orca().equilibrium(PATH),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    with pytest.raises((ValueError, TypeError, ecc.errors.EccError), match=message) as error:
        BAD[message]()
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rate", "published", "Aurora"])
def test_verdicts_have_rows(kind):
    table = ecc.stability.verdicts(Orca() if kind == "published" else KINDS[kind]())
    assert len(table) and table.omits.str.contains("has no linear model").any()
