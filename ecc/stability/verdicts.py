"""One table of verdicts: all linear models of a protocol, with dominant roots, stability and proofs.

A row is a linear model of a protocol on a network: its kind of loop with the clocking of windows and the queue
discipline, and its time. A protocol is examined at one of three objects:

- **equilibrium**: the dominant root of the linear model decides.
- **set**: the laws have a set of equilibria (`Protocol.equilibrium_set`). The linear model at a point inside it has a
  root at 0 (z = 1 in discrete time) for each direction along the set. The other roots are transverse to it: if all are
  stable, runs that start near the set end at one of its points, near the start. The number of roots along the set is
  the nullity of the characteristic matrix there. A certificate proves that no other root lies right of a line between 0
  and the dominant transverse root.
- **cycle**, or **random cycle** if hosts or routers draw random numbers: the laws have neither, and runs oscillate. The
  dominant multiplier per period decides (`ecc.stability.limit_cycle`). Hosts that declare a `cycle_loop` also have a
  cycle there, for example a sawtooth over drop-tail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from math import exp, inf, isnan, log, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ecc._support.arguments import check_arguments
from ecc._support.display import quantity_text, value_text
from ecc._support.reports import ProgressCallback, Step
from ecc.contract.assignment import ProtocolAssignment, read_protocol
from ecc.contract.equilibrium import Equilibrium, EquilibriumSet
from ecc.contract.kinds import Kind, kind_of, kind_of_laws, sets_windows
from ecc.contract.protocol import Protocol
from ecc.cycles.closed_loop import TIMES as CYCLE_TIMES
from ecc.cycles.closed_loop import limit_cycle
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.reference_cases import case_on, cycle_case, host_of, named_protocol
from ecc.errors import ConvergenceError, EccError, LinearizationError
from ecc.laws.arguments import takes
from ecc.linear import DelaySystem, SampledSystem
from ecc.loops.closed_loop import has_clockings, has_granted_windows, linearize
from ecc.loops.constant_reports import linearize_constant_reports
from ecc.models import all_protocols
from ecc.network.network import Network

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["all_verdicts", "reference_case", "verdicts"]

COLUMNS = ("model", "time", "object", "dominant", "step", "stable", "proven", "margin", "omits")
_TIMES = ("continuous", "discrete", "hybrid")
_CLOCKINGS = {"ack": "ACK-clocked", "rate": "paced"}
_ALONG = 1e-6  # distance from 0, as a share of the distance of other roots, of a computed root along a set
_ROOTS = 4  # roots that are computed in addition to those along a set
System = DelaySystem | SampledSystem


class _Row(NamedTuple):
    """A row of the table."""

    model: str
    time: str
    object: str
    dominant: complex = complex(nan, nan)
    step: float = nan
    stable: bool | None = None
    proven: bool = False
    margin: float = nan
    omits: str = ""


@check_arguments
def verdicts(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any] | type | str,
    network: Network | None = None,
    *,
    progress: ProgressCallback | None = None,
) -> pd.DataFrame:
    """Return the verdicts of all linear models of a protocol, one row per model.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment, mapping, class or str
        Protocol; hosts and queue disciplines, {"flows": ..., "links": ...}, as for `Scenario`; or a class or its name,
        for example "DCTCP", for its default parameters.
    network : Network, optional
        None: the reference loop of the protocol (`reference_case`), with its queue discipline.
    progress : callable, optional
        Called before each model with a `Progress`: the model, as `text`.

    Returns
    -------
    pandas.DataFrame
        Columns: `model`, the kind of loop, with the clocking of windows and the queue discipline; `time`, "continuous",
        "discrete" or "hybrid"; `object`, "equilibrium", "set" (of equilibria; roots are those transverse to it),
        "cycle" or "random cycle" (`dominant` is its multiplier per period; without one, `omits` has the reason);
        `dominant`, the dominant root [1/s], or multiplier per step, complex; `step`, the length of a step, or of a
        period of a cycle [s], nan for equilibria in continuous time; `stable`; `proven`, whether ball or interval
        arithmetic proves it; `margin`, the gain margin of the loop opened at the routers, nan if it is not defined;
        `omits`, the effects that the model leaves out, and the method of a cycle. `attrs["network"]` has the network as
        text, `attrs["cycle_network"]` that of the cycles, "" without a `cycle_loop`, `attrs["source"]` the source of a
        reference loop, `attrs["set"]` the members of a set of equilibria and the effect of the laws next to it, and
        `attrs["refused"]` the reason why a model does not exist, by model and time.

    Raises
    ------
    TypeError, ValueError
        Another kind of protocol, or an unknown name.

    Examples
    --------
    >>> table = verdicts("PIQI-RCP")
    >>> table[["time", "stable", "proven"]].values.tolist()
    [['continuous', True, True], ['discrete', True, True], ['hybrid', True, True]]
    """
    import pandas as pd

    loop, source = named_protocol(protocol), ""
    cycle = cycle_case(loop) if network is None and _has_own_cycle(loop) else None
    if network is None:
        loop, network = reference_case(loop)
        host = host_of(loop)
        source = "ours" if host.reference_loop is None else host.reference_loop.source
    refused: dict[str, str] = {}
    subject, members = _subject(loop, network, refused)
    rows = [*_rows(subject, network, members, refused, progress)]
    if cycle is not None:
        rows = [row for row in rows if row.time] + _cycle_rows(*cycle, "", progress)
    elif rows[0].object == "cycle" and not rows[0].time:
        rows = _cycle_rows(subject, network, rows[0].omits, progress)
    table = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"stable": "boolean"})
    table.attrs.update(protocol=_name(loop), network=_text_of(network), source=source, refused=refused)
    table.attrs["cycle_network"] = "" if cycle is None else _text_of(cycle[1])
    table.attrs["set"] = "" if members is None else f"{members.members}; outside, {members.outside}"
    return table


@check_arguments
def all_verdicts(protocols: Sequence[str] | None = None, *, progress: ProgressCallback | None = None) -> pd.DataFrame:
    """Return the verdicts of several protocols on their reference loops, in one table.

    Parameters
    ----------
    protocols : sequence of str, optional
        Names of protocols. None: all of `ecc.models`, about a minute.
    progress : callable, optional
        Called before each protocol with a `Progress`: its name, as `text`, and the completed share.

    Returns
    -------
    pandas.DataFrame
        Columns of `verdicts`, after `protocol`, the name of the class. A protocol whose verdicts fail has one row with
        the error in `omits`. `attrs` has `network`, `cycle_network`, `source`, `set` and `refused` of each protocol, by
        its name.

    Raises
    ------
    ValueError
        An unknown name.

    Examples
    --------
    >>> all_verdicts(["FAST", "RCP"]).protocol.unique().tolist()
    ['FAST', 'RCP']
    """
    import pandas as pd

    from ecc.scenario import protocol_class

    kinds = list(all_protocols().values()) if protocols is None else [protocol_class(name) for name in protocols]
    if not kinds:
        raise ValueError("protocols must name at least one protocol, got []")
    tables, attrs = [], {key: dict[str, Any]() for key in ("network", "cycle_network", "source", "set", "refused")}
    for index, kind in enumerate(kinds):
        name = kind.__name__
        if progress is not None:
            progress(Step(name, index / len(kinds)))
        try:
            table = verdicts(kind)
        except Exception as error:  # a protocol that fails does not lose the rows of the others
            row = _Row("", "", "", omits=f"{type(error).__name__}: {error}")
            table = pd.DataFrame([row], columns=list(COLUMNS)).astype({"stable": "boolean"})
        table.insert(0, "protocol", name)
        for key, values in attrs.items():
            values[name] = table.attrs.pop(key, "")
        table.attrs.clear()
        tables.append(table)
    every = pd.concat(tables, ignore_index=True)
    every.attrs.update(attrs)
    return every


@check_arguments
def reference_case(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
) -> tuple[Protocol | ProtocolAssignment, Network]:
    """Return the loop and the network on which the verdicts of a protocol are computed if no network is named.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment or mapping

    Returns
    -------
    protocol : Protocol or ProtocolAssignment
        The protocol; over the queue discipline of its `reference_loop`, if that has one and `protocol` names none.
    network : Network
        Network of its `reference_loop`; without one, two flows on a link in the middle of its `operating_range`.

    Examples
    --------
    >>> loop, network = reference_case(ecc.models.NewReno())
    >>> str(loop), network.n_flows
    ('NewReno over PI', 60)
    """
    loop = read_protocol(protocol)
    return case_on(loop, host_of(loop).reference_loop)


def _name(loop: Protocol | ProtocolAssignment) -> str:
    return type(loop).__name__ if isinstance(loop, Protocol) else str(loop)


def _text_of(network: Network) -> str:
    """Return the network in words: "3 flows, 1 Gb/s, RTTs of 50 ms"."""
    flows = f"{network.n_flows} flow{'s' * (network.n_flows > 1)}"
    capacities = value_text(np.unique(network.capacities), "bit/s")
    rtts = np.unique(np.round(network.rtts, 12))
    times = value_text(rtts, "s")
    return f"{flows}, {capacities}, RTT{'s' * (len(rtts) > 1)} of {times}"


# ---- rows ------------------------------------------------------------------------------------------------


def _rows(
    subject: Protocol | ProtocolAssignment,
    network: Network,
    members: EquilibriumSet | None,
    refused: dict[str, str],
    progress: ProgressCallback | None,
) -> Iterator[_Row]:
    """Yield the rows of a protocol; at least one."""
    models = 0
    times = _TIMES if members is not None else subject.times
    reason = subject.linear_refusal if isinstance(subject, Protocol) else None
    for time in () if reason is not None else times:
        for label, system in _systems(subject, network, time, members, refused, progress).items():
            try:
                row = _at_equilibrium(system) if members is None else _at_set(system, members)
            except EccError as error:
                refused[f"{label}, {time} time"] = str(error)
                continue
            models += 1
            signed = filter(None, [_limit_omitted(system)])
            omits = "; ".join(filter(None, (row.omits, ", ".join([*signed, _omits(subject, time)]))))
            yield row._replace(model=label, time=time, omits=omits)
    if not models:
        why = reason or "; ".join(dict.fromkeys(refused.values())) or "it declares no linear model"
        label = _label(subject, None) if isinstance(subject, ProtocolAssignment) else str(kind_of(subject))
        yield _Row(label, "", "cycle" if _has_no_equilibrium(subject) else "equilibrium", omits=why)


def _cycle_rows(
    loop: Protocol | ProtocolAssignment, network: Network, refusal: str, progress: ProgressCallback | None
) -> list[_Row]:
    """Return the rows of the cycle of a loop in continuous and in discrete time."""
    label = _label(loop, None) if isinstance(loop, ProtocolAssignment) else str(kind_of(loop))
    if isinstance(loop, Protocol) and any(link.buffer is not None for link in network.links):
        label += " over drop-tail"
    rows = []
    for time in CYCLE_TIMES:
        if progress is not None:
            progress(Step(f"cycle of {label}, {time} time"))
        try:
            rows.append(_of_cycle(label, limit_cycle(loop, network, time, certify=time == "discrete")))
        except (ValueError, TypeError, EccError) as error:
            rows.append(_Row(label, time, "cycle", omits="; ".join(filter(None, (str(error), refusal)))))
    return rows


def _of_cycle(label: str, cycle: LimitCycle) -> _Row:
    """Return the row of a cycle, with its queue and the method in `omits`."""
    size = f"queue of {quantity_text(cycle.mean, 'bytes')} ± {quantity_text(cycle.amplitude, 'bytes')}"
    exponent = ""
    if not isnan(cycle.exponent):
        low, high = cycle.interval
        exponent = f"Lyapunov exponent {cycle.exponent:.4g} per period ({low:.4g} to {high:.4g})"
    along = f"{cycle.along} multiplier{'s' * (cycle.along > 1)} 1 along further cycles" if cycle.along else ""
    omits = "; ".join(filter(None, ("" if isnan(cycle.mean) else size, exponent, along, cycle.method, *cycle.notes)))
    dominant = _multiplier(cycle)
    return _Row(label, cycle.time, cycle.object, dominant, cycle.period, cycle.stable, cycle.proven, nan, omits)


def _multiplier(cycle: LimitCycle) -> complex:
    """Return the dominant multiplier; without one, the mean growth of a random cycle, or 1 along further cycles."""
    if len(cycle.multipliers):
        return cycle.dominant
    if not isnan(cycle.exponent):
        return complex(exp(cycle.exponent))
    return complex(1.0) if cycle.along else complex(nan, nan)


def _systems(
    subject: Protocol | ProtocolAssignment,
    network: Network,
    time: str,
    members: EquilibriumSet | None,
    refused: dict[str, str],
    progress: ProgressCallback | None,
) -> dict[str, System]:
    """Return the linear models in one time, by label; a single one if both clockings of windows have the same."""
    systems: dict[str, System] = {}
    for clocking in _clockings(subject):
        label = _label(subject, clocking)
        if progress is not None:
            progress(Step(f"{label}, {time} time"))
        try:
            systems[label] = _linearized(subject, network, time, clocking, members)
        except (ValueError, TypeError, EccError) as error:
            if members is None or time == "continuous":  # a set has the models that its kind of loop has
                refused[f"{label}, {time} time"] = str(error)
    models = list(systems.values())
    if len(models) == 2 and _is_same(*models):
        return {_label(subject, None): models[0]}
    return systems


def _is_same(first: System, second: System) -> bool:
    """Return whether two systems have the same matrices and delays."""
    parts = [(system.matrices, system.delays, getattr(system, "neutral", None)) for system in (first, second)]
    return all(np.array_equal(part, same) for part, same in zip(*parts, strict=True) if part is not None)


def _linearized(
    subject: Protocol | ProtocolAssignment,
    network: Network,
    time: str,
    clocking: str | None,
    members: EquilibriumSet | None,
) -> System:
    """Return the linear model at the equilibrium, or at a point of a set of equilibria."""
    system: System | None = None
    if members is not None and isinstance(subject, Protocol):
        system = linearize_constant_reports(subject, network, time, members.point)
    if system is None:
        system = linearize(subject, network, time, clocking=clocking)
    if system.sampling[0] is (time == "continuous"):
        raise LinearizationError(f"{_name(subject)} has no {time} model: its kind of loop has none")
    return system


def _subject(
    loop: Protocol | ProtocolAssignment, network: Network, refused: dict[str, str]
) -> tuple[Protocol | ProtocolAssignment, EquilibriumSet | None]:
    """Return the protocol to linearize, and its set of equilibria; with a set, the protocol has its inner point."""
    if not isinstance(loop, Protocol):
        return (loop.protocols[0] if len(loop.protocols) == 1 else loop), None
    try:
        members = loop.equilibrium_set(network)
    except LinearizationError as error:
        refused["set of equilibria"] = str(error)
        return loop, None
    return (loop, None) if members is None else (_at_point(loop, members.point), members)


def _at_point(protocol: Protocol, point: Equilibrium) -> Protocol:
    """Return a protocol whose equilibrium is a given point, for linear models at it."""

    def equilibrium(self: Protocol, network: Network, assignment: Any = None) -> Equilibrium:
        return point

    kind = type(protocol)
    entries = {"equilibrium": equilibrium, "no_equilibrium": "", "linear_refusal": None, "times": _TIMES}
    moved = copy(protocol)
    object.__setattr__(moved, "__class__", type(kind.__name__, (kind,), {**entries, "__module__": kind.__module__}))
    return moved


def _clockings(subject: Protocol | ProtocolAssignment) -> tuple[str | None, ...]:
    if has_granted_windows(subject):
        return ("rate",)
    return tuple(_CLOCKINGS) if has_clockings(subject) else (None,)


def _label(subject: Protocol | ProtocolAssignment, clocking: str | None) -> str:
    """Return the kind of loop in words, with the clocking and the queue discipline."""
    host = host_of(subject)
    kind: Kind | str = kind_of_laws(host)
    if clocking is not None and sets_windows(host) and host.paced_over <= 0.0:
        states = " with states" if kind is Kind.WINDOWS_WITH_STATES else ""
        kind = f"{_CLOCKINGS[clocking]} windows{states}"
    elif clocking is not None and sets_windows(host):
        kind = f"{kind}, {_CLOCKINGS[clocking]} above {quantity_text(host.paced_over, 's')}"
    if isinstance(subject, Protocol):
        return str(kind)
    over = dict.fromkeys(type(queue).__name__ for queue in subject.protocols if not queue.has_hosts())
    return f"{kind} over {', '.join(over)}"


def _has_own_cycle(loop: Protocol | ProtocolAssignment) -> bool:
    """Return whether hosts declare the network of a cycle, and have neither an equilibrium nor a set of them alone.

    The cycle of a map per round is that of its discrete model.
    """
    if not isinstance(loop, Protocol) or loop.cycle_loop is None or not _has_no_equilibrium(loop):
        return False
    if kind_of_laws(loop) is Kind.ROUND_MAP:
        return False
    try:
        return loop.equilibrium_set(case_on(loop, loop.reference_loop)[1]) is None
    except LinearizationError:
        return True


def _has_no_equilibrium(subject: Protocol | ProtocolAssignment) -> bool:
    """Return whether laws have no equilibrium, or refuse every linear model."""
    host = host_of(subject)
    return bool(host.no_equilibrium or host.linear_refusal or not host.times)


def _at_equilibrium(system: System) -> _Row:
    """Return the row of a linear model at an equilibrium."""
    notes = []
    try:
        dominant = system.dominant_root
    except ConvergenceError as error:
        dominant = complex(nan, nan)
        notes.append(f"the dominant root was not found ({error})")
    verdict = {"stable": True, "unstable": False}.get(system.verdict)
    certificate = system.certify()
    is_proven = verdict is not None and certificate.stable is verdict
    cycle = next((note for note in system.notes if note.startswith("cycle of")), "") if _has_cycle(system) else ""
    return _Row(
        "",
        "",
        "cycle" if cycle else "equilibrium",
        dominant,
        _step(system),
        verdict,
        is_proven,
        _gain_margin(system, verdict),
        "; ".join([cycle, *notes] if cycle else notes),
    )


def _has_cycle(system: System) -> bool:
    """Return whether notes that are known at once name a cycle."""
    return any(note.startswith("cycle of") for note in system.model_notes)


def _gain_margin(system: System, verdict: bool | None) -> float:
    """Return the gain margin of the loop opened at the routers; nan if the loop is unstable or has none."""
    if not verdict or system.opened is None or system.opened.notes:
        return nan
    try:
        return float(system.margins().gain_margin)
    except (ConvergenceError, ValueError):
        return nan


def _step(system: System) -> float:
    step = system.sampling[1]
    return nan if step is None else step


def _rate(root: complex, sampled: bool) -> float:
    """Return the growth rate of a root, per s or per step."""
    if not sampled:
        return root.real
    return log(abs(root)) if root != 0.0 else -inf


def _at_set(system: System, members: EquilibriumSet) -> _Row:
    """Return the row of a linear model at a point of a set: its roots transverse to the set."""
    sampled = system.sampling[0]
    boundary = 1.0 if sampled else 0.0
    along = system.size - int(np.linalg.matrix_rank(_characteristic_matrix(system)))
    if not 0 < along <= members.dimension:
        raise LinearizationError(
            f"a set of dimension {members.dimension} must have 1 to {members.dimension} roots along it, got {along}"
        )
    roots = np.asarray(system.roots(along + _ROOTS))
    distance = np.abs(roots - boundary)
    scale = max(float(distance.max(initial=0.0)), 1e-300)
    nearest = np.argsort(distance)[:along]
    if float(distance[nearest].max(initial=0.0)) > _ALONG * scale and len(roots) > along:
        raise ConvergenceError(f"{along} roots along the set must be computed, got {roots[nearest]}")
    across = np.delete(roots, nearest)
    if not len(across):
        text = "every direction is along the set, so perturbations stay"
        stable = members.stable is not False
        return _Row("", "", "set", complex(boundary), _step(system), stable, stable and _stays(system), nan, text)
    dominant = complex(across[0])
    rate = _rate(dominant, sampled)
    line = 0.5 * max(rate, -1.0) if sampled else 0.5 * rate
    certificate = system.certify(line=line)
    stable = rate < 0.0
    is_counted = certificate.at_least == certificate.at_most == along if stable else certificate.at_least > along
    if members.stable is False:
        stable, is_counted = False, False
    return _Row("", "", "set", dominant, _step(system), stable, is_counted)


def _stays(system: System) -> bool:
    """Return whether a system keeps every state exactly: x' = 0, or x[n+1] = x[n]."""
    acting = [k for k, matrix in enumerate(system.matrices) if matrix.any()]
    if not system.sampling[0]:
        return not acting
    return acting == [0] and system.delays[0] == 0.0 and np.array_equal(system.matrices[0], np.eye(system.size))


def _characteristic_matrix(system: System) -> Any:
    """Return the characteristic matrix at s = 0, or z = 1, without signs."""
    total = system.matrices.sum(axis=0)
    return total - np.eye(system.size) if system.sampling[0] else total


def _omits(subject: Protocol | ProtocolAssignment, time: str) -> str:
    """Return the effects that a model leaves out, as a clause."""
    host, steps = host_of(subject), list[str]()
    if isinstance(subject, Protocol) and kind_of_laws(subject) is Kind.ROUND_MAP:
        return "steps of hosts and routers, packets" if time == "continuous" else "times within a round, packets"
    hosts_step = sets_windows(host) or host.source_clock in ("rtt", "ack") or bool(host.fluid_form)
    if time == "continuous" and (hosts_step or host.source_clock != "continuous"):
        steps.append("hosts")
    if time == "hybrid" and sets_windows(host):
        steps.append("hosts")
    if _has_router_clock(subject) and (time == "continuous" or (time == "discrete" and sets_windows(host))):
        steps.append("routers")
    effects = [f"steps of {' and '.join(steps)}"] if steps else []
    if time == "discrete" and not sets_windows(host):
        effects.append("fractions of a step in delays")
    if not isinstance(subject, Protocol) or ("ecn" in host.gives and "random" in host.required_env):
        effects.append("random choice of packets")
    return ", ".join([*effects, "packets"])


def _limit_omitted(system: System) -> str:
    """Return, for a model whose queues may be negative, the verdict of the loop with the limit at 0, if it is known."""
    if not system.has_signed_queue:
        return ""
    switched = system.switched
    known = switched is not None and not switched.caveat and switched.is_stable is not None
    verdict = f" (with it, {'stable' if switched.is_stable else 'unstable'})" if switched is not None and known else ""
    return f"the limit of queues at 0{verdict}"


def _has_router_clock(subject: Protocol | ProtocolAssignment) -> bool:
    """Return whether routers or queue disciplines act at the ticks of a clock."""
    if isinstance(subject, Protocol):
        return any(takes(getattr(subject, name, None), "y") for name in ("router_law", "announce_law"))
    disciplines = [protocol for half, protocol in subject.halves if half == "links"]
    return any(state.clock == "interval" for queue in disciplines for state in queue.states.values())
