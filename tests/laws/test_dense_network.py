"""Networks of dense layers: values against arithmetic by hand and ONNX Runtime, Jacobians against differences."""

import sys

import numpy as np
import pytest

from ecc.errors import EccError
from ecc.laws.dense_network import DenseNetwork, Layer, folded
from ecc.models.shared.actors import DATA, orca_actor

RNG = np.random.default_rng(1)
STATE = np.tile([1.0, 1.0, 0.0, 1.0, 0.02, 0.9, 1.0], 10)  # a full link without a queue
INPUTS = np.concatenate((STATE + 0.05 * RNG.standard_normal((20, 70)), RNG.uniform(0.0, 1.5, (20, 70))))


def small(activation="leaky_relu"):
    sizes = (6, 9, 5, 2)
    return DenseNetwork(
        Layer(RNG.standard_normal((n, m)), RNG.standard_normal(n), kind, 0.2)
        for m, n, kind in zip(sizes, sizes[1:], (activation, activation, "tanh"), strict=False)
    )


def published(x):
    """The documented layers of Orca's actor, without folding, in float64."""
    arrays = {
        name.removeprefix("actor."): value.astype(float) for name, value in np.load(DATA / "orca_actor.npz").items()
    }
    for dense, norm in (("fc1", "batch_normalization"), ("fc2", "batch_normalization_1")):
        x = x @ arrays[f"{dense}.kernel"] + arrays[f"{dense}.bias"]
        scale = np.sqrt(arrays[f"{norm}.moving_variance"] + 1e-3)
        x = (x - arrays[f"{norm}.moving_mean"]) / scale + arrays[f"{norm}.beta"]
        x = np.maximum(x, 0.2 * x)
    return np.tanh(x @ arrays["dense.kernel"] + arrays["dense.bias"])


def test_the_published_actor_equals_its_layers_one_by_one():
    assert np.abs(orca_actor()(INPUTS) - published(INPUTS)).max() < 1e-12
    assert orca_actor()(STATE).shape == (1,) and orca_actor()(INPUTS[None]).shape == (1, 40, 1)


def test_values_by_hand():
    network = DenseNetwork(
        [Layer([[1.0, 2.0], [-1.0, 0.0]], [0.5, 0.0], "leaky_relu", 0.1), Layer([[1.0, 3.0]], [-0.2])]
    )
    assert network([1.0, -2.0])[0] == pytest.approx(-0.25 + 3.0 * -0.1 - 0.2, rel=1e-15)
    assert network.pattern([1.0, 2.0])[0].tolist() == [True, False]


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "tanh", "linear"])
def test_the_jacobian_equals_differences(activation):
    network, x, h = small(activation), RNG.standard_normal((4, 6)), 1e-6
    exact = network.jacobian(x)
    for k in range(6):
        step = h * np.eye(6)[k]
        differences = (network(x + step) - network(x - step)) / (2.0 * h)
        assert exact[..., k] == pytest.approx(differences, rel=1e-6, abs=1e-8)


def test_a_network_is_affine_within_a_pattern():
    network = DenseNetwork([*small().layers[:2], Layer(RNG.standard_normal((2, 5)), [0.0, 1.0])])
    x = RNG.standard_normal(6)
    y = x + 1e-4 * RNG.standard_normal(6)
    assert all((a == b).all() for a, b in zip(network.pattern(x), network.pattern(y), strict=True))
    assert network(y) - network(x) == pytest.approx(network.jacobian(x) @ (y - x), rel=1e-9)


def test_files_keep_a_network(tmp_path):
    network, x = small(), RNG.standard_normal((3, 6))
    network.save(tmp_path / "actor.npz")
    read = DenseNetwork.load(tmp_path / "actor.npz")
    assert np.array_equal(read(x), network(x)) and repr(read) == repr(network)


def onnx_file(path, steps, n_in, dtype=np.float32):
    """Write steps (operator, arrays, attributes) as a model of one chain."""
    onnx = pytest.importorskip("onnx")
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes, constants, current = [], [], "x"
    for k, (operator, arrays, attributes) in enumerate(steps):
        names = [f"c{k}_{j}" for j in range(len(arrays))]
        constants += [onnx.numpy_helper.from_array(np.asarray(a, dtype), n) for n, a in zip(names, arrays, strict=True)]
        nodes.append(onnx.helper.make_node(operator, [current, *names], [f"h{k}"], **attributes))
        current = f"h{k}"
    ends = [onnx.helper.make_tensor_value_info(name, kind, [None, n]) for name, n in (("x", n_in), (current, None))]
    graph = onnx.helper.make_graph(nodes, "actor", ends[:1], ends[1:], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def orca_steps():
    arrays = {name.removeprefix("actor."): value for name, value in np.load(DATA / "orca_actor.npz").items()}
    for dense, norm in (("fc1", "batch_normalization"), ("fc2", "batch_normalization_1")):
        yield "Gemm", [arrays[f"{dense}.kernel"], arrays[f"{dense}.bias"]], {}
        beta, mean, variance = (arrays[f"{norm}.{name}"] for name in ("beta", "moving_mean", "moving_variance"))
        yield "BatchNormalization", [np.ones(256), beta, mean, variance], {"epsilon": 1e-3}
        yield "LeakyRelu", [], {"alpha": 0.2}
    yield "MatMul", [arrays["dense.kernel"]], {}
    yield "Add", [arrays["dense.bias"]], {}
    yield "Tanh", [], {}


def mixed_steps():
    """Normalization before and after dense layers, a transposed weight, and a scale."""
    yield "BatchNormalization", list(np.abs(RNG.standard_normal((4, 6))) + 0.5), {}
    yield "Gemm", [RNG.standard_normal((9, 6)), RNG.standard_normal(9)], {"transB": 1, "alpha": 0.5, "beta": 2.0}
    yield "Relu", [], {}
    yield "BatchNormalization", list(np.abs(RNG.standard_normal((4, 9))) + 0.5), {}
    yield "MatMul", [RNG.standard_normal((9, 2))], {}
    yield "Tanh", [], {}
    yield "Add", [RNG.standard_normal(2)], {}


@pytest.mark.parametrize(("dtype", "bound"), [(np.float64, 1e-10), (np.float32, 1e-5)])  # theirs rounds in float32
@pytest.mark.parametrize("steps", [orca_steps, mixed_steps])
def test_onnx_models_equal_onnx_runtime(steps, dtype, bound, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    x = (INPUTS if steps is orca_steps else RNG.standard_normal((40, 6))).astype(dtype)
    path = onnx_file(tmp_path / "actor.onnx", list(steps()), x.shape[1], dtype)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {"x": x})[0]
    assert np.abs(DenseNetwork.load(path)(x) - theirs).max() < bound
    if steps is orca_steps:
        assert np.abs(orca_actor()(x) - theirs).max() < max(bound, 1e-6)  # attributes of ONNX are float32


def test_bad_layers_and_files(tmp_path, monkeypatch):
    layer = Layer([[1.0, 2.0]], [0.0])
    bad = {
        "weight must be finite, got nan": lambda: Layer([[np.nan]], [0.0]),
        "weight must be an array of numbers, got str": lambda: Layer("w", [0.0]),
        r"weight must be an array of 2 axes, not empty, got shape \(1,\)": lambda: Layer([1.0], [0.0]),
        "bias must have 1 entries, one per row of weight, got 2": lambda: Layer([[1.0]], [0.0, 1.0]),
        "activation must be one of linear, relu, leaky_relu, tanh, got 'sin'": lambda: Layer([[1.0]], [0.0], "sin"),
        "slope must be between 0 and 1, got 2": lambda: Layer([[1.0]], [0.0], "leaky_relu", 2.0),
        "slope must be a number, got str": lambda: Layer([[1.0]], [0.0], "leaky_relu", "2"),
        "layers must have at least one layer, got none": lambda: DenseNetwork([]),
        r"layers must be of type Layer, got int \(layer 0\)": lambda: DenseNetwork([1]),
        "layer 1 must take 1 inputs, the outputs of the layer before, got 2": lambda: DenseNetwork([layer, layer]),
        r"x must have 2 entries on its last axis, got shape \(3,\)": lambda: DenseNetwork([layer])([1.0, 2.0, 3.0]),
        "path must end with .npz or .onnx, got 'a.pt'": lambda: DenseNetwork.load("a.pt"),
        "path must end with .npz, got 'a.onnx'": lambda: DenseNetwork([layer]).save("a.onnx"),
        "must begin with a dense layer or a normalization": lambda: folded([("tanh",)]),
        "steps must be dense, affine, normalize or an activation, got 'conv'": lambda: folded([("conv",)]),
        "orca_actor.npz must hold layer0.weight, .* got other arrays: actor": lambda: DenseNetwork.load(
            DATA / "orca_actor.npz"
        ),
    }
    for text, call in bad.items():
        with pytest.raises((ValueError, TypeError), match=f"{text}[^\n]*$"):
            call()
    path = onnx_file(tmp_path / "actor.onnx", [("Gemm", [np.ones((2, 2))], {}), ("Softmax", [], {})], 2)
    with pytest.raises(
        ValueError, match="actor.onnx has the operator Softmax, which is not supported; allowed: Gemm, "
    ):
        DenseNetwork.load(path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(EccError, match=r"actor.onnx needs onnx, which is not installed: pip install '.*\[onnx\]'$"):
        DenseNetwork.load(path)
