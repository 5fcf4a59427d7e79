"""Construction of the C engine of a prepared run, with compiled hooks."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc.contract.env import Hook
from ecc.contract.protocol import Protocol
from ecc.jit import CompiledHooks, compile_hooks
from ecc.native import FLOW_ENV, FLOW_HOOKS, LINK_ENV, LINK_HOOKS, Engine, Partition, Team, addresses
from ecc.native.engine import copied
from ecc.packet.partition import Joints, joints, partition
from ecc.packet.recorded_fields import Word, table
from ecc.packet.setup import Part, Setup
from ecc.scenario import Scenario

__all__ = ["build_engine", "build_parts", "build_team", "hook_digests", "joints_of"]

_CACHE_LINE = 64  # bytes
_OF_PACKETS: dict[str, tuple[str, ...]] = {
    "on_classify": ("queue_index",),
    "on_arrival": ("drop", "mark", "trim", "filter"),
    "on_select": ("queue_index", "wait"),
    "on_dequeue": ("drop", "mark"),
    "on_departure": ("mark",),
}

_HAVE_SOJOURN = ("on_dequeue", "on_drop", "on_interval")
_WANTED = {"links": ("random", "flow_queue"), "flows": ("random",)}
"""Fields of env that the engine fills only if `required_env` names them."""
_SIDES: dict[str, tuple[tuple[str, ...], np.dtype[np.void]]] = {
    "links": (LINK_HOOKS, LINK_ENV),
    "flows": (FLOW_HOOKS, FLOW_ENV),
}
"""Hooks of links and of flows, and the dtype of their env."""


def build_engine(setup: Setup, scenario: Scenario, words: Sequence[Word] = (), **options: Any) -> Engine:
    """Return the C engine of a prepared run, with compiled hooks.

    Parameters
    ----------
    setup : Setup
        The engine writes to its records and leaves its tables unchanged.
    scenario : Scenario
    words : sequence of Word, optional
        Fields that samples record.
    **options : object
        Further arguments of ecc.native.Engine: sample, n_samples, trace and so on.
    """
    return _engine(setup, scenario, _compiled_tables(setup), words, **options)


def build_team(
    setup: Setup, scenario: Scenario, threads: int, words: Sequence[Word] = (), **options: Any
) -> Team | Engine:
    """Return a team of engines, one for each part of a prepared run, or one engine if parts would be slower.

    Parameters
    ----------
    setup, scenario, words, options
        As for `build_engine`.
    threads : int, >= 2
        Maximum number of parts.

    Raises
    ------
    ValueError
        If no delay separates parts, links can be paused, or packets are in the network at time 0.
    """
    if (paused := np.flatnonzero(setup.links["xoff"])).size:
        raise ValueError(f"threads must be 1 if links have pause, got {threads} (link {paused[0]})")
    if len(setup.under_way):
        raise ValueError(f"threads must be 1 for a run that begins with queues at an equilibrium, got {threads}")
    graph = joints_of(setup, scenario.workload.chains if scenario.workload else ())
    parts, _ = partition(graph, threads, setup.links[: setup.n_links], setup.flows)
    n_parts = int(parts.max(initial=0)) + 1
    if graph.groups(1).max(initial=0) == 0:
        raise ValueError(
            f"threads must be 1 if no delay of a link or access line separates parts of the network, got {threads}"
        )
    if n_parts == 1:
        return build_engine(setup, scenario, words, **options)
    setups = [replace(setup, parts=[_with_separate_records(part) for part in setup.parts]) for _ in range(n_parts)]
    engines, division, owners = build_parts(setups, scenario, graph, parts, words, **options)
    return Team(engines, division, owners, _records(setup, setups, division))


def _with_separate_records(part: Part) -> Part:
    """Return a copy of a part with separate records and parameters, in cache lines that no other data shares."""

    def copy(records: NDArray[np.void]) -> NDArray[np.void]:
        room = np.zeros(records.nbytes + 2 * _CACHE_LINE, np.uint8)
        begin = -room.ctypes.data % _CACHE_LINE
        out: NDArray[np.void] = np.ndarray(records.shape, records.dtype, room, begin)
        out[:] = records
        return out

    return replace(
        part,
        link_states=copy(part.link_states),
        flow_states=copy(part.flow_states),
        link_params=copy(part.link_params),
        flow_params=copy(part.flow_params),
    )


def _records(
    setup: Setup, setups: Sequence[Setup], division: Partition
) -> list[tuple[NDArray[np.void], NDArray[np.void], NDArray[np.int64]]]:
    """Return the records of a run, the copies that the engine of each part uses, and the rows that it updates."""
    at, out = setup.links["at"], []
    for k, copies in enumerate(setups):
        for copy, part in zip(copies.parts, setup.parts, strict=True):
            flows = np.flatnonzero(part.flows < setup.n_flows)  # the engine holds the records of transfers
            out.append((part.link_states, copy.link_states, np.flatnonzero(division.links[at[part.routers]] == k)))
            out.append((part.flow_states, copy.flow_states, flows[division.senders[part.flows[flows]] == k]))
    return out


def joints_of(setup: Setup, chains: Sequence[tuple[int, int]] = ()) -> Joints:
    """Return the joints of the network of a prepared run.

    Parameters
    ----------
    setup : Setup
    chains : sequence of (int, int), optional
        Chains of its workload: pairs of templates.
    """
    receives = np.zeros(len(setup.flows), np.bool_)
    for part in setup.parts:
        for side, numbers, _, _, hooks in part.sides():
            if side == "flows" and "on_receive" in hooks:
                receives[numbers] = True
    links, n_templates = setup.links[: setup.n_links], len(setup.flows) - setup.n_flows
    return joints(links, setup.flows, setup.routes, setup.impairments, receives, n_templates, chains)


def build_parts(
    setups: Sequence[Setup],
    scenario: Scenario,
    graph: Joints,
    parts: NDArray[np.int64],
    words: Sequence[Word] = (),
    **options: Any,
) -> tuple[list[Engine], Partition, list[NDArray[np.int64]]]:
    """Return the engines of the parts of a network, which share their samples, and further arguments of `Team`.

    Parameters
    ----------
    setups : sequence of Setup
        Setup of each part; parts may share a setup or have separate records.
    scenario, words, options
        As for `build_engine`.
    graph : Joints
    parts : ndarray of int, shape (n_nodes,)
        Part of each node.
    """
    owners = _owners(setups[0], words, graph.of_parts(0, parts))
    compiled: dict[int, _Tables] = {}
    engines: list[Engine] = []
    for part, setup in enumerate(setups):
        part_words = [word for word, owner in zip(words, owners, strict=True) if owner == part]
        if id(setup) not in compiled:
            compiled[id(setup)] = _compiled_tables(setup)
        engines.append(
            _engine(
                setup,
                scenario,
                compiled[id(setup)],
                part_words,
                partition=graph.of_parts(part, parts),
                shares_with=engines[0] if engines else None,
                **options,
            )
        )
    return engines, graph.of_parts(0, parts), [np.flatnonzero(owners == part) for part in range(len(setups))]


def _owners(setup: Setup, words: Sequence[Word], parts: Partition) -> NDArray[np.int64]:
    """Return the part that holds the record of each word."""
    at = setup.links["at"]
    return np.array(
        [parts.links[at[word.number]] if word.side == "links" else parts.senders[word.number] for word in words],
        np.int64,
    )


_Tables = tuple[NDArray[np.void], NDArray[np.void], list[object], dict[int, str]]


def _engine(setup: Setup, scenario: Scenario, compiled: _Tables, words: Sequence[Word], **options: Any) -> Engine:
    links, flows, keep, reasons = compiled
    return Engine(
        links,
        flows[: setup.n_flows],
        setup.routes,
        n_additional=setup.n_additional,
        templates=flows[setup.n_flows :],
        record_size=setup.record_size,
        header_size=setup.header_size,
        seed=scenario.seed,
        n_sampled=scenario.network.n_flows,
        changes=setup.changes,
        impairments=setup.impairments,
        delay_changes=setup.delay_changes,
        writes=setup.writes,
        servers=setup.servers,
        opportunities=setup.opportunities,
        quanta=setup.quanta,
        begun=_begun(setup),
        under_way=setup.under_way,
        recorded=table(setup, words),
        keep=keep,
        reasons=reasons,
        **options,
    )


def _begun(setup: Setup) -> NDArray[np.void]:
    """Return the state of flows that begin before time 0, with the addresses of records for `on_start`."""
    begun = copied(setup.begun)
    for part in setup.parts:
        if part.begun_flows is not None:
            which = part.flows < len(begun)
            begun["state"][part.flows[which]] = addresses(part.begun_flows)[which]
    return begun


def _compiled_tables(setup: Setup) -> _Tables:
    """Return the tables of links and flows with addresses, the objects to keep alive, and the codes of errors."""
    shared = {} if setup.compiled is None else setup.compiled
    if "tables" not in shared:
        shared["tables"] = _tables_with_hooks(setup)
    links, flows, keep, reasons = shared["tables"]
    tables = {"links": copied(links), "flows": copied(flows)}
    tables["links"]["first_interval"] = setup.links["first_interval"]
    for part in setup.parts:
        for side, numbers, states, _, hooks in part.sides():
            if hooks:
                tables[side]["state"][numbers] = addresses(states)
        if part.begun_links is not None:
            tables["links"]["begun_state"][part.routers] = addresses(part.begun_links)
    return tables["links"], tables["flows"], [setup, *keep], reasons


def _tables_with_hooks(setup: Setup) -> _Tables:
    """Return the tables of links and flows with the addresses of hooks and parameters, but not of records."""
    keep: list[object] = []
    reasons: dict[int, str] = {}
    tables = {"links": copied(setup.links), "flows": copied(setup.flows)}
    for part in setup.parts:
        for side, numbers, states, params, hooks in part.sides():
            names = _SIDES[side][0]
            for name in hooks:
                if name not in names:
                    raise ValueError(f"hooks must be among {', '.join(names)}, got {shown(name)}")
            if not hooks:
                continue
            compiled = _compiled(side, states, part, params, hooks)
            keep += [compiled, params]
            reasons |= compiled.reasons
            rows = tables[side]
            rows["params"][numbers] = addresses(params)
            for name, address in compiled.items():
                rows[name][numbers] = address
    return tables["links"], tables["flows"], keep, reasons


def hook_digests(setup: Setup) -> list[str]:
    """Return a digest of the hooks of each protocol's links and flows, including all functions that they use.

    Parameters
    ----------
    setup : Setup
    """
    return [
        _compiled(side, states, part, params, hooks).source
        for part in setup.parts
        for side, _, states, params, hooks in part.sides()
        if hooks
    ]


def _compiled(
    side: str, states: NDArray[np.void], part: Part, params: NDArray[np.void], hooks: Mapping[str, Hook]
) -> CompiledHooks:
    names, env = _SIDES[side]
    writable = {name: _writable(side, name, part.protocol, hooks) for name in names}
    unreadable = {name: _unreadable(side, name, part.protocol) for name in names}
    try:
        return compile_hooks(
            hooks, states.dtype, part.header, params.dtype, env, writable=writable, unreadable=unreadable
        )
    except TypeError as error:
        if hint := _hint(part.protocol, str(error)):
            raise TypeError(f"{error}; {hint}") from None
        raise


def _hint(protocol: Protocol, refusal: str) -> str:
    """Return a hint if a hook uses a name that is an attribute of the class but not a parameter."""
    field = re.search(r"no such field (?:p|params)\.(\w+) ", refusal)
    if field is None or not hasattr(protocol, name := field[1]):
        return ""
    kind = type(protocol).__name__
    if name in getattr(protocol, "__dataclass_fields__", {}):
        return f"{name} of {kind} is a parameter: it must be a number, or a tuple[float, ...], that params() returns"
    return f"{name} of {kind} is not a parameter: annotate it, and decorate the class with @dataclass(frozen=True)"


def _writable(side: str, name: str, protocol: Protocol, hooks: Collection[str]) -> tuple[str, ...]:
    """Return the fields of env that the engine reads after a hook, one of these hooks."""
    if side == "links":
        return (*_OF_PACKETS.get(name, ()), "next_interval")
    if name == "on_stop":
        return ()
    if name in ("on_receive", "on_report"):
        return ("control_size", "control_kind", *(["timer"] if "on_report" in hooks else []))
    return ("rate", "window", "timer", *(f"timer_{k}" for k in range(1, protocol.n_timers)), "counter")


def _unreadable(side: str, name: str, protocol: Protocol) -> dict[str, str]:
    """Return the fields of env that would be 0 in every call of a hook, with the reasons."""
    refused = {
        field: "which is 0 unless required_env names it"
        for field in _WANTED[side]
        if field not in protocol.required_env
    }
    if side == "links" and name not in _HAVE_SOJOURN:
        refused["sojourn"] = f"which is 0 there: only {', '.join(_HAVE_SOJOURN)} have it"
    return refused
