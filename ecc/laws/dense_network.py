"""Networks of dense layers, such as trained policies: values, exact Jacobians, and files in NumPy's and ONNX's formats.

    h_0 = x,   z_k = W_k h_{k-1} + b_k,   h_k = f_k(z_k),   y = h_K

    x  input   W_k, b_k  weight and bias of layer k   f_k  its activation: the identity, max(z, 0), max(z, 0) + slope
    min(z, 0), or tanh, for each entry   y  output

Within an activation pattern (the signs of z_k in the layers with a kink) a network without tanh is affine. Batch
normalization is affine at inference and is folded into a neighboring layer when a file is read:
gamma (z - mean)/sqrt(variance + epsilon) + beta.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ecc.errors import EccError, install_command

__all__ = ["ACTIVATIONS", "TEXT", "DenseNetwork", "Layer", "folded"]

ACTIVATIONS = ("linear", "relu", "leaky_relu", "tanh")
_KINKED = ("relu", "leaky_relu")
TEXT = "base64:"
"""How the text of a network begins."""
_FIELDS = ("weight", "bias", "activation", "slope")
_ONNX_ACTIVATIONS = {"Relu": "relu", "LeakyRelu": "leaky_relu", "Tanh": "tanh"}
_ONNX_OPERATORS = ("Gemm", "MatMul", "Add", "BatchNormalization", *_ONNX_ACTIVATIONS)


def _finite(value: Any, name: str, n_axes: int) -> np.ndarray:
    """Return a read-only copy of an array as float64, after a check of its axes and values."""
    try:
        array = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of numbers, got {type(value).__name__}") from None
    if array.ndim != n_axes or array.size == 0:
        raise ValueError(f"{name} must be an array of {n_axes} axes, not empty, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]:g}")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Layer:
    """One dense layer: activation(weight @ x + bias).

    Parameters
    ----------
    weight : array_like, shape (n_out, n_in)
        Weights, finite.
    bias : array_like, shape (n_out,)
        Biases, finite.
    activation : str
        "linear", "relu", "leaky_relu" or "tanh".
    slope : float, in [0, 1]
        Slope of "leaky_relu" for negative arguments, for example 0.2. Other activations ignore it.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    weight: np.ndarray
    bias: np.ndarray
    activation: str = "linear"
    slope: float = 0.0

    def __post_init__(self) -> None:
        weight, bias = _finite(self.weight, "weight", 2), _finite(self.bias, "bias", 1)
        if len(bias) != len(weight):
            raise ValueError(f"bias must have {len(weight)} entries, one per row of weight, got {len(bias)}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {self.activation!r}")
        if isinstance(self.slope, bool) or not isinstance(self.slope, int | float | np.number):
            raise TypeError(f"slope must be a number, got {type(self.slope).__name__}")
        slope = float(self.slope)
        if not 0.0 <= slope <= 1.0:
            raise ValueError(f"slope must be between 0 and 1, got {slope:g}")
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", bias)
        object.__setattr__(self, "slope", slope if self.activation == "leaky_relu" else 0.0)

    def activate(self, z: np.ndarray) -> np.ndarray:
        """Return the activation of each entry of `z`."""
        if self.activation == "tanh":
            return np.asarray(np.tanh(z))
        return np.where(z > 0.0, z, self.slope * z) if self.activation in _KINKED else z

    def derivative(self, z: np.ndarray) -> np.ndarray:
        """Return the derivative of the activation at each entry of `z`; at a kink, the derivative from below."""
        if self.activation == "tanh":
            return np.asarray(1.0 - np.tanh(z) ** 2)
        return np.where(z > 0.0, 1.0, self.slope) if self.activation in _KINKED else np.ones_like(z)


@dataclass(frozen=True, eq=False)
class DenseNetwork:
    """A network of dense layers.

    Parameters
    ----------
    layers : sequence of Layer
        At least one layer. Each has as many inputs as the layer before it has outputs.

    Raises
    ------
    ValueError, TypeError
        No layers, or layers whose sizes differ.

    Examples
    --------
    >>> network = DenseNetwork([Layer([[1.0, -1.0]], [0.5], "relu"), Layer([[2.0]], [0.0])])
    >>> float(network([3.0, 1.0])[0]), network.jacobian([3.0, 1.0]).tolist()
    (5.0, [[2.0, -2.0]])
    """

    layers: tuple[Layer, ...] = field(default=())

    def __init__(self, layers: Iterable[Layer]) -> None:
        stacked = tuple(layers)
        if not stacked:
            raise ValueError("layers must have at least one layer, got none")
        for k, layer in enumerate(stacked):
            if not isinstance(layer, Layer):
                raise TypeError(f"layers must be of type Layer, got {type(layer).__name__} (layer {k})")
            if k and layer.weight.shape[1] != len(stacked[k - 1].bias):
                before, n_in = len(stacked[k - 1].bias), layer.weight.shape[1]
                raise ValueError(f"layer {k} must take {before} inputs, the outputs of the layer before, got {n_in}")
        object.__setattr__(self, "layers", stacked)

    @cached_property
    def _content(self) -> bytes:
        """All that defines the values of the network."""
        parts = [part for layer in self.layers for part in (layer.weight.tobytes(), layer.bias.tobytes())]
        kinds = [(layer.weight.shape, layer.activation, layer.slope) for layer in self.layers]
        return repr(kinds).encode() + b"".join(parts)

    def __eq__(self, other: object) -> bool:
        return self._content == other._content if isinstance(other, DenseNetwork) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._content)

    def __getstate__(self) -> tuple[Layer, ...]:
        return self.layers

    def __setstate__(self, layers: tuple[Layer, ...]) -> None:
        object.__setattr__(self, "layers", layers)

    def __repr__(self) -> str:
        sizes = [self.n_in, *(len(layer.bias) for layer in self.layers)]
        return f"DenseNetwork({'-'.join(map(str, sizes))}, {', '.join(layer.activation for layer in self.layers)})"

    @property
    def n_in(self) -> int:
        """Number of inputs."""
        return int(self.layers[0].weight.shape[1])

    @property
    def n_out(self) -> int:
        """Number of outputs."""
        return len(self.layers[-1].bias)

    def _inputs(self, x: Any) -> np.ndarray:
        """Return the inputs as an array, after a check of the last axis."""
        array = np.asarray(x, dtype=np.float64)
        if array.ndim < 1 or array.shape[-1] != self.n_in:
            raise ValueError(f"x must have {self.n_in} entries on its last axis, got shape {array.shape}")
        return array

    def __call__(self, x: Any) -> np.ndarray:
        """Return the outputs.

        Parameters
        ----------
        x : array_like, shape (..., n_in)
            Inputs.

        Returns
        -------
        ndarray, shape (..., n_out)

        Raises
        ------
        ValueError
            Another number of inputs.
        """
        h = self._inputs(x)
        for layer in self.layers:
            h = layer.activate(h @ layer.weight.T + layer.bias)
        return h

    def jacobian(self, x: Any) -> np.ndarray:
        """Return the derivatives of the outputs by the inputs, exact where no unit is at its kink.

        Parameters
        ----------
        x : array_like, shape (..., n_in)
            Inputs. At the kink of a unit, its derivative from below is used.

        Returns
        -------
        ndarray, shape (..., n_out, n_in)

        Raises
        ------
        ValueError
            Another number of inputs.
        """
        h = self._inputs(x)
        slopes = np.broadcast_to(np.eye(self.n_in), (*h.shape[:-1], self.n_in, self.n_in))
        for layer in self.layers:
            z = h @ layer.weight.T + layer.bias
            slopes = layer.derivative(z)[..., None] * (layer.weight @ slopes)
            h = layer.activate(z)
        return slopes

    def pattern(self, x: Any) -> tuple[np.ndarray, ...]:
        """Return the activation pattern: which units of the layers with a kink have a positive argument.

        Parameters
        ----------
        x : array_like, shape (..., n_in)
            Inputs.

        Returns
        -------
        tuple of ndarray of bool, shape (..., n_out of the layer)
            One array per layer with activation "relu" or "leaky_relu", in order.

        Raises
        ------
        ValueError
            Another number of inputs.
        """
        h, signs = self._inputs(x), []
        for layer in self.layers:
            z = h @ layer.weight.T + layer.bias
            if layer.activation in _KINKED:
                signs.append(z > 0.0)
            h = layer.activate(z)
        return tuple(signs)

    @property
    def toml(self) -> str:
        """The network as text, for scenario files: "base64:" and the bytes of the file that `save` writes."""
        file = BytesIO()
        np.savez_compressed(file, **self._arrays())
        return TEXT + b64encode(file.getvalue()).decode()

    @classmethod
    def from_text(cls, text: str) -> DenseNetwork:
        """Return the network that `toml` describes.

        Parameters
        ----------
        text : str

        Raises
        ------
        ValueError
            Another text.
        """
        try:
            data = b64decode(text.removeprefix(TEXT), validate=True)
            return _from_npz(BytesIO(data), "the text")
        except (ValueError, OSError, BadZipFile):
            raise ValueError(f"a network as text must be that of DenseNetwork.toml, got {text[:20]!r}...") from None

    def _arrays(self) -> dict[str, Any]:
        return {f"layer{k}.{name}": getattr(layer, name) for k, layer in enumerate(self.layers) for name in _FIELDS}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DenseNetwork:
        """Read a network from a file.

        Parameters
        ----------
        path : str or path
            A file that `save` wrote (.npz), or an ONNX model (.onnx), which needs the package `onnx`. The model must be
            one chain of Gemm, MatMul, Add, BatchNormalization, Relu, LeakyRelu and Tanh with constant weights.

        Raises
        ------
        ValueError
            Another kind of file, or an operator outside this list.
        FileNotFoundError
            The file does not exist.
        EccError
            `onnx` is needed and missing.
        """
        file = Path(path)
        if file.suffix == ".npz":
            return _from_npz(file, file.name)
        if file.suffix == ".onnx":
            return _from_onnx(file)
        raise ValueError(f"path must end with .npz or .onnx, got {str(file)!r}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to a file of NumPy's format, which `load` reads.

        Arrays are named by layer: layer0.weight, layer0.bias, layer0.activation, layer0.slope, layer1.weight ...

        Parameters
        ----------
        path : str or path
            File to write, ending with .npz.

        Raises
        ------
        ValueError
            Another ending.
        """
        file = Path(path)
        if file.suffix != ".npz":
            raise ValueError(f"path must end with .npz, got {str(file)!r}")
        np.savez(file, **self._arrays())


def _from_npz(file: Path | BytesIO, name: str) -> DenseNetwork:
    """Read what `DenseNetwork.save` wrote."""
    with np.load(file, allow_pickle=False) as arrays:
        n_layers = len(arrays.files) // len(_FIELDS)
        expected = {f"layer{k}.{name}" for k in range(n_layers) for name in _FIELDS}
        if not n_layers or set(arrays.files) != expected:
            unknown = ", ".join(sorted(set(arrays.files) - expected)[:3]) or "none"
            names = ", ".join(f"layer0.{field}" for field in _FIELDS)
            raise ValueError(f"{name} must hold {names} and so on for each layer, got other arrays: {unknown}")
        return DenseNetwork(
            Layer(
                arrays[f"layer{k}.weight"],
                arrays[f"layer{k}.bias"],
                str(arrays[f"layer{k}.activation"]),
                float(arrays[f"layer{k}.slope"]),
            )
            for k in range(n_layers)
        )


class _Stack:
    """Layers in the making; `scale` and `offset` are a normalization that the next layer takes in."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.scale: np.ndarray | None = None
        self.offset: np.ndarray | None = None

    def _open(self) -> Layer | None:
        """Return the last layer if it has no activation yet."""
        return self.layers[-1] if self.layers and self.layers[-1].activation == "linear" else None

    def dense(self, weight: np.ndarray, bias: np.ndarray) -> None:
        """Append a dense layer."""
        if self.scale is not None:
            bias, weight, self.scale = bias + weight @ self.offset, weight * self.scale, None
        self.layers.append(Layer(weight, bias))

    def affine(self, scale: np.ndarray, offset: np.ndarray) -> None:
        """Append scale x + offset, entry by entry."""
        last = self._open()
        if self.scale is not None and self.offset is not None:
            self.scale, self.offset = scale * self.scale, scale * self.offset + offset
        elif last is not None:
            self.layers[-1] = Layer(scale[:, None] * last.weight, scale * last.bias + offset)
        else:
            self.scale, self.offset = scale, offset

    def close(self) -> None:
        """Append a normalization that no dense layer follows as a layer of its own."""
        if self.scale is not None:
            self.dense(np.eye(len(self.scale)), np.zeros(len(self.scale)))

    def activation(self, name: str, slope: float) -> None:
        """Append an activation."""
        self.close()
        if not self.layers:
            raise ValueError("the model must begin with a dense layer or a normalization, got an activation")
        last = self._open()
        if last is None:
            n = len(self.layers[-1].bias)
            self.layers.append(Layer(np.eye(n), np.zeros(n), name, slope))
        else:
            self.layers[-1] = Layer(last.weight, last.bias, name, slope)

    @property
    def width(self) -> int | None:
        """Number of outputs so far, if known."""
        if self.scale is not None:
            return len(self.scale)
        return len(self.layers[-1].bias) if self.layers else None


def folded(steps: Iterable[Sequence[Any]]) -> DenseNetwork:
    """Return the network of a chain of steps, with normalizations folded into dense layers.

    Parameters
    ----------
    steps : iterable of tuple
        ("dense", weight, bias), ("affine", scale, offset), ("normalize", mean, variance, epsilon, gamma, beta), or one
        of ("relu",), ("leaky_relu", slope) and ("tanh",).

    Raises
    ------
    ValueError
        An unknown step, or an activation at the beginning.

    Examples
    --------
    >>> network = folded([("dense", [[2.0]], [0.0]), ("normalize", [1.0], [4.0], 0.0, [1.0], [0.0]), ("tanh",)])
    >>> network.layers[0].weight.tolist(), network.layers[0].bias.tolist()
    ([[1.0]], [-0.5])
    """
    stack = _Stack()
    for kind, *values in steps:
        if kind == "dense":
            stack.dense(*(np.asarray(value, dtype=np.float64) for value in values))
        elif kind == "affine":
            stack.affine(*(np.asarray(value, dtype=np.float64) for value in values))
        elif kind == "normalize":
            mean, variance, epsilon, gamma, beta = (np.asarray(value, dtype=np.float64) for value in values)
            scale = gamma / np.sqrt(variance + epsilon)
            stack.affine(scale, beta - scale * mean)
        elif kind in ACTIVATIONS[1:]:
            stack.activation(kind, float(values[0]) if values else 0.0)
        else:
            raise ValueError(f"steps must be dense, affine, normalize or an activation, got {kind!r}")
    stack.close()
    return DenseNetwork(stack.layers)


def _from_onnx(file: Path) -> DenseNetwork:
    """Read an ONNX model that is one chain of supported operators."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        raise EccError(f"{file.name} needs onnx, which is not installed: {install_command('onnx')}") from None
    graph = onnx.load(str(file)).graph
    constants = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in graph.initializer}
    inputs = [value.name for value in graph.input if value.name not in constants]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise ValueError(f"{file.name} must have one input and one output, got {len(inputs)} and {len(graph.output)}")
    current, steps, width = inputs[0], [], None
    for node in graph.node:
        options = {part.name: onnx.helper.get_attribute_value(part) for part in node.attribute}
        if node.op_type == "Constant" and "value" in options:
            constants[node.output[0]] = numpy_helper.to_array(options["value"]).astype(np.float64)
            continue
        if node.op_type not in _ONNX_OPERATORS:
            allowed = ", ".join(_ONNX_OPERATORS)
            raise ValueError(f"{file.name} has the operator {node.op_type}, which is not supported; allowed: {allowed}")
        operands = [constants.get(name) for name in node.input if name and name != current]
        if current not in node.input or any(value is None for value in operands):
            raise ValueError(f"{file.name} must be one chain of layers with constant weights, not so at {node.op_type}")
        step, width = _onnx_step(node.op_type, node.input[0] == current, operands, options, width)
        steps.append(step)
        current = node.output[0]
    if current != graph.output[0].name:
        raise ValueError(f"{file.name} must be one chain of layers that ends at its output {graph.output[0].name}")
    return folded(steps)


def _onnx_step(
    operator: str, comes_first: bool, operands: list[Any], options: dict[str, Any], width: int | None
) -> tuple[tuple[Any, ...], int | None]:
    """Return one operator as a step of `folded`, and the number of entries after it."""
    if operator in ("Gemm", "MatMul"):
        if not comes_first or options.get("transA", 0):
            raise ValueError(f"{operator} must have the data as its first operand, not transposed")
        kernel = operands[0] if options.get("transB", 0) else operands[0].T
        bias = operands[1].ravel() if len(operands) > 1 else np.zeros(1)
        weight = options.get("alpha", 1.0) * kernel
        return ("dense", weight, np.zeros(len(weight)) + options.get("beta", 1.0) * bias), len(weight)
    if operator == "Add":
        offset = operands[0].ravel() + np.zeros(width or operands[0].size)
        return ("affine", np.ones(offset.size), offset), offset.size
    if operator == "BatchNormalization":
        gamma, beta, mean, variance = operands
        return ("normalize", mean, variance, options.get("epsilon", 1e-5), gamma, beta), mean.size
    return (_ONNX_ACTIVATIONS[operator], options.get("alpha", 0.01)), width
