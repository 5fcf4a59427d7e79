"""Maps of stability: the spectral radius or abscissa over one or two parameters of a protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.reports import ProgressCallback, Reporter
from ecc._support.workers import thread_count
from ecc.contract.assignment import ProtocolAssignment, parameter_names, read_protocol, with_parameter
from ecc.contract.parameters import settings
from ecc.contract.protocol import Protocol
from ecc.errors import ConvergenceError
from ecc.linear import DelaySystem, SampledSystem
from ecc.linear.root_grid import Expansion, Field, dominant, expand
from ecc.loops.closed_loop import linearize
from ecc.loops.marked_equilibrium import equilibria_of_a_family
from ecc.loops.options import LinearKeywords, LinearOptions, read_options
from ecc.network.network import Network

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["stability_map"]

System = DelaySystem | SampledSystem
Real = NDArray[np.float64]
Index = NDArray[np.int64]

_MAX_FUNCTIONS = 24  # maximum number of functions of one parameter that the coefficients are composed of
_CHECKED = 48  # number of points at which the separated form is compared with the system itself
_AGREES = 1e-12  # maximum relative difference at these points


@check_arguments(former={"workers": "executor"})
def stability_map(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    network: Network,
    grid: Mapping[str, Any],
    time: str = "continuous",
    executor: Executor | int | None = None,
    *,
    options: LinearOptions | None = None,
    progress: ProgressCallback | None = None,
    **keywords: Unpack[LinearKeywords],
) -> xr.DataArray:
    """Return the spectral radius or abscissa of a protocol's linear model over one or two of its parameters.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment or mapping
    network : Network
    grid : mapping
        One or two names of numeric parameters (of hosts and queue disciplines "flows.NAME", "links.NAME") -> shape
        (n,), finite values, in any order.
    time : str, optional
        "continuous" (abscissa), "discrete" or "hybrid" (radius), as for linearize.
    executor : ThreadPoolExecutor or int, >= 1, optional
        Threads, or their number. None: the number of cores available to this process.
    options : LinearOptions, optional
        Options of the linear models.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the parameters that are analyzed, as `text`.
    **keywords : optional
        Fields of `LinearOptions`, instead of `options`.

    Returns
    -------
    DataArray
        DataArray named spectral_radius (stable below 1) or spectral_abscissa (stable below 0, 1/s), one dimension for
        each parameter; attrs: protocol and its parameters, time, network, options, notes of the models.

    Raises
    ------
    ValueError
        The protocol does not have a parameter, the grid has none or more than two, an axis is empty or not finite, or
        executor < 1.
    LinearizationError
        The protocol has no linear model on the network.

    Notes
    -----
    Guarantee: values hold at the points of the grid, and do not exclude windows of stability between them; for these,
    use `critical_gain` along one parameter.

    Values are exact up to rounding if the dominant root is simple (1e-9 relative; a double root has half the digits).
    That no root is larger is shown over tiles of the grid (`ecc.linear.root_grid`), in floating point with bounds on
    rounding. The coefficients there are composed from some rows and columns, and compared with those of the models at
    48 points, to 1e-12; tiles that fail are counted point by point. Cost: one linearization for each value of each
    parameter (0.5 ms), then microseconds a point for systems of a few delays; with delays of hundreds of steps tiles
    are small, about 1 ms a point. Neutral approximations, and networks with a cycle of links and many delays, are
    solved point by point (10 ms).

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> m = stability_map(QIRCP(), Network.dumbbell("1 Gb/s", [0.1]), {"alpha": [1.6, 1.7]}, time="discrete")
    >>> (m < 1).values.tolist()
    [True, False]
    """
    names = list(grid)
    if not 1 <= len(names) <= 2:
        raise ValueError(f"grid must have one or two parameters, got {len(names)}")
    protocol = read_protocol(protocol)
    known = parameter_names(protocol)
    axes = []
    for name in names:
        if name not in known:
            raise ValueError(f"parameter must be one of {', '.join(known)}, got {shown(name)}")
        values = np.asarray(grid[name])
        if values.dtype.kind not in "iuf" or values.ndim != 1 or not len(values):
            raise ValueError(f"grid of {name} must be a nonempty list of numbers, got {shown(grid[name])}")
        if not np.all(np.isfinite(values)):
            raise ValueError(f"grid of {name} must be finite, got {shown(float(values[~np.isfinite(values)][0]))}")
        axes.append(values.astype(float))
    thread_count(executor)
    first, second = axes[0], axes[1] if len(axes) > 1 else np.zeros(1)
    chosen = read_options(options, keywords).given()
    systems: dict[tuple[int, int], System] = {}
    report = Reporter(progress)

    def point_text(i: int, j: int) -> str:
        return ", ".join(f"{name} = {values[k]:.6g}" for name, values, k in zip(names, axes, (i, j), strict=False))

    def at_values(at: dict[str, float]) -> Any:
        changed: Any = protocol
        for name, value in at.items():
            changed = with_parameter(changed, name, value)
        return changed

    def system(i: int, j: int) -> System:
        if (i, j) not in systems:
            report(lambda: point_text(i, j))
            at = {name: float(values[k]) for name, values, k in zip(names, axes, (i, j), strict=False)}
            systems[i, j] = linearize(at_values(at), network, time, **chosen)
        return systems[i, j]

    shape = len(first), len(second)
    with equilibria_of_a_family():
        s = _map(system, shape, executor, lambda i, j: report(lambda: point_text(i, j)))
    sampled = time != "continuous"
    values = np.exp(s.real) if sampled else s.real
    import xarray as xr

    return xr.DataArray(
        values if len(axes) > 1 else values[:, 0],
        dims=names,
        coords=dict(zip(names, axes, strict=True)),
        name="spectral_radius" if sampled else "spectral_abscissa",
        attrs={
            "protocol": type(protocol).__name__ if isinstance(protocol, Protocol) else str(protocol),
            "parameters": {name: value for name, value in _settings(protocol).items() if name not in names},
            "time": time,
            "network": network.to_dict(),
            "options": chosen,
            "notes": tuple(dict.fromkeys(note for model in systems.values() for note in model.notes)),
            "units": "1" if sampled else "1/s",
        },
    )


def _settings(protocol: Protocol | ProtocolAssignment) -> dict[str, Any]:
    """Return the parameters that differ from defaults; for hosts and links together, with the name of the part."""
    if isinstance(protocol, Protocol):
        return settings(protocol)
    return {f"{half}.{name}": value for half, part in protocol.halves for name, value in settings(part).items()}


def _signature(system: System) -> tuple[int, bytes]:
    """Return a value that is equal for systems with the same delays in the same order and zeros at the same places."""
    terms = system.terms()
    return len(terms.delays), (terms.constant != 0.0).tobytes()


def _roots(system: System, k: int) -> NDArray[Any]:
    """Return the k dominant roots as s, or fewer if they cannot be counted that far to the left."""
    while True:
        try:
            roots = system.roots(k)
            break
        except ConvergenceError:
            if k == 1:
                raise
            k //= 2
    with np.errstate(divide="ignore"):
        return np.log(roots) if isinstance(system, SampledSystem) else roots


def _map(
    system: Callable[[int, int], System],
    shape: tuple[int, int],
    executor: Executor | int | None,
    report: Callable[[int, int], None],
) -> NDArray[Any]:
    """Return the dominant roots over the grid, put together from parts with the same structure."""
    rows, columns = shape
    out = np.full(shape, np.nan, complex)
    i0, j0 = rows // 2, columns // 2
    down = _groups([_signature(system(i, j0)) for i in range(rows)])
    across = _groups([_signature(system(i0, j)) for j in range(columns)])
    for i in down:
        for j in across:
            out[np.ix_(i, j)] = _part(system, i, j, executor, report)
    return out


def _groups(signatures: list[tuple[int, bytes]]) -> list[Index]:
    every = list(dict.fromkeys(signatures))
    return [np.array([k for k, signature in enumerate(signatures) if signature == this]) for this in every]


def _part(
    system: Callable[[int, int], System],
    rows: Index,
    columns: Index,
    executor: Executor | int | None,
    report: Callable[[int, int], None],
) -> NDArray[Any]:
    """Return the dominant roots for rows and columns of systems with the same structure."""
    shape = len(rows), len(columns)

    def at(i: int, j: int) -> System:
        return system(int(rows[i]), int(columns[j]))

    fields = _fields(at, shape)
    if fields is None:
        every = [at(i, j) for i in range(shape[0]) for j in range(shape[1])]
        return np.array([_slowest(each) for each in every], complex).reshape(shape)
    best = np.full(shape, -np.inf, complex)
    for field in fields:
        field.at = _with_report(field.at, rows, columns, report)
        s = dominant(field, executor)
        best = np.where(s.real > best.real, s, best)
    return best


def _with_report(
    at: Callable[[Index, Index], Expansion], rows: Index, columns: Index, report: Callable[[int, int], None]
) -> Callable[[Index, Index], Expansion]:
    """Return a function of points that also reports the first of them."""

    def reported(i: Index, j: Index) -> Expansion:
        if len(i):
            report(int(rows[i[0]]), int(columns[j[0]]))
        return at(i, j)

    return reported


def _slowest(system: System) -> complex:
    if isinstance(system, DelaySystem):
        return complex(system.spectral_abscissa)
    roots = _roots(system, 1)
    return complex(roots[0]) if len(roots) else complex(-np.inf)


def _fields(at: Callable[[int, int], System], shape: tuple[int, int]) -> list[Field] | None:
    """Return the blocks of the characteristic determinant over the grid; None if it cannot be expanded."""
    rows, columns = shape
    down = [(i, columns // 2) for i in range(rows)]
    across = [(rows // 2, j) for j in range(columns)]
    sampled = isinstance(at(*down[0]), SampledSystem)
    first = _expanded(at, down + across)
    if first is None:
        return None
    if rows * columns > 4 * (rows + columns):
        tables = [_table(block) for _, block in first]
        pivots = [(_pivots(t[:, :rows]), _pivots(t[:, rows:])) for t in tables]
        core = {(int(i), int(j)) for p, q in pivots for i in p for j in q}
        rng = np.random.default_rng(0)
        checks = list(zip(*(rng.integers(0, n, _CHECKED).tolist() for n in shape), strict=True))
        every = _expanded(at, [*down, *across, *sorted(core), *checks])
        if every is not None and len(every) == len(pivots):
            positions = {point: len(down) + len(across) + k for k, point in enumerate(sorted(core))}
            out = [
                _separated(at, states, block, p, q, positions, checks, shape, sampled)
                for (states, block), (p, q) in zip(every, pivots, strict=True)
            ]
            if all(field is not None for field in out):
                return [field for field in out if field is not None]
    expanded = _expanded(at, [(i, j) for i in range(rows) for j in range(columns)])
    if expanded is None:
        return None
    return [_tabulated(at, states, block, shape, sampled) for states, block in expanded]


def _expanded(at: Callable[[int, int], System], points: list[tuple[int, int]]) -> list[tuple[Index, Expansion]] | None:
    systems = [at(*point) for point in points]
    if len({_signature(each) for each in systems}) > 1:
        return None
    blocks = expand([each.terms() for each in systems])
    if blocks is None:
        return None
    seen: dict[bytes, tuple[Index, Expansion]] = {}  # equal links have equal blocks
    for states, block in blocks:
        seen.setdefault(block.theta.tobytes() + block.coefficients.tobytes(), (states, block))
    return list(seen.values())


def _table(block: Expansion) -> Real:
    """Return all varying quantities, shape (numbers, points), each scaled to a maximum of 1."""
    table = np.concatenate([block.theta, block.coefficients.reshape(-1, block.theta.shape[1])])
    scale = np.abs(table).max(axis=1, keepdims=True)
    return table / np.where(scale > 0.0, scale, 1.0)


def _pivots(table: Real) -> Index:
    """Return points with columns that span those of all points."""
    from scipy.linalg import qr

    r, order = qr(table, mode="r", pivoting=True)
    size = np.abs(np.diag(r))
    rank = min(int((size > 1e-13 * size[0]).sum()), _MAX_FUNCTIONS)
    return np.asarray(order[:rank])


def _separated(
    at: Callable[[int, int], System],
    states: Index,
    block: Expansion,
    down: Index,
    across: Index,
    positions: dict[tuple[int, int], int],
    checks: list[tuple[int, int]],
    shape: tuple[int, int],
    sampled: bool,
) -> Field | None:
    """Return coefficients as sums of products of functions of the row and of the column; None if that fails."""
    rows, columns = shape
    table = np.concatenate([block.theta, block.coefficients.reshape(-1, block.theta.shape[1])])
    scaled = _table(block)
    row_weights = _weights(scaled[:, :rows], down)
    column_weights = _weights(scaled[:, rows : rows + columns], across)
    core = table[:, [positions[int(i), int(j)] for i in down for j in across]]
    count, height = len(block.theta), block.coefficients.shape[0]
    fixed = np.ptp(table, axis=1) == 0.0
    constant, still = bool(fixed[:count].all()), fixed[count:]
    theta, constants = table[:count, :1], table[count:, :1]

    def expansion(i: Index, j: Index) -> Expansion:
        products = (row_weights[:, None, i] * column_weights[None, :, j]).reshape(core.shape[1], -1)
        coefficients = core[count:] @ products
        coefficients[still] = constants[still]
        coefficients = coefficients.reshape(height, count, -1)
        if constant:
            return Expansion(theta, coefficients)
        lags = core[:count] @ products
        return Expansion(np.round(lags) if sampled else np.maximum(lags, 0.0), coefficients)

    i, j = (np.array(index) for index in zip(*checks, strict=True))
    composed = expansion(i, j)
    truth = table[:, -len(checks) :]
    scale = np.abs(table).max(axis=1, keepdims=True)
    off = [composed.theta - truth[:count], composed.coefficients.reshape(-1, len(checks)) - truth[count:]]
    if any(np.any(np.abs(o) > _AGREES * s) for o, s in zip(off, np.split(scale, [count]), strict=True)):
        return None
    return Field(expansion, shape, sampled, _exact(at, states))


def _weights(table: Real, pivots: Index) -> Real:
    """Return every column of a table as a combination of the columns at the pivots, shape (pivots, points)."""
    from scipy.linalg import qr, solve_triangular

    q, r = qr(table[:, pivots], mode="economic")
    return np.asarray(solve_triangular(r, q.T @ table))


def _tabulated(
    at: Callable[[int, int], System], states: Index, block: Expansion, shape: tuple[int, int], sampled: bool
) -> Field:
    columns = shape[1]
    fixed = bool(np.all(np.ptp(block.theta, axis=1) == 0.0))

    def expansion(i: Index, j: Index) -> Expansion:
        k = i * columns + j
        return Expansion(block.theta[:, :1] if fixed else block.theta[:, k], block.coefficients[:, :, k])

    return Field(expansion, shape, sampled, _exact(at, states))


def _exact(at: Callable[[int, int], System], states: Index) -> Callable[[int, int, int], NDArray[Any]]:
    """Return a function for the roots of a block of states, by the search that accepts any system."""

    def exact(i: int, j: int, k: int) -> NDArray[Any]:
        system = at(i, j)
        matrices = system.matrices[:, states[:, None], states]
        if isinstance(system, DelaySystem):
            return _roots(DelaySystem(matrices, system.delays), k)
        return _roots(SampledSystem(matrices, system.delays), k)

    return exact
