"""Networks that a table of a scenario file generates: a fabric, and traffic drawn from the seed of the scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from inspect import Parameter, signature
from typing import Any

from ecc._support.arguments import check_arguments, nearest, shown, unknown_key
from ecc._support.quantity import as_count
from ecc.network import demands
from ecc.network.demands import Demand
from ecc.network.network import Network, Pause, from_table

__all__ = ["generated_network"]

_TOPOLOGIES: dict[str, Callable[..., Network]] = {"fat_tree": Network.fat_tree, "leaf_spine": Network.leaf_spine}
_PATTERNS: dict[str, Callable[..., Any]] = {
    "poisson": demands.poisson,
    "incast": demands.incast,
    "permutation": demands.permutation,
    "shift": demands.shift,
    "all_to_all": demands.all_to_all,
    "single": Demand,
}
_DERIVED = ("n_hosts", "seed", "fields")
"""Arguments of a pattern that follow from the fabric and from the seed of the scenario."""

_STRIDE = 1_000_003
"""Difference of the seeds of two patterns of a file, which keeps them apart from those of the next scenarios."""


@check_arguments
def generated_network(table: Mapping[str, Any], seed: int = 1) -> Network:
    """Return the network that a table `fabric` of a scenario file describes.

    Parameters
    ----------
    table : mapping
        `topology` ("fat_tree" or "leaf_spine") and the arguments of the function of `Network` with this name, except
        `flows` and `seed`. `demands` is a list of tables, each with `pattern` (a function of `ecc.demands`, or "single"
        for one `Demand`) and its arguments. The capacity of a Poisson pattern is by default that of the fabric.
    seed : int, optional
        Seed of the scenario: that of ECMP and of the first pattern. Further patterns have seeds of their own.

    Returns
    -------
    Network

    Raises
    ------
    ValueError, TypeError
        Unknown topologies, patterns or keys, missing keys, or bad values; the message is one line.

    Examples
    --------
    >>> table = {"topology": "fat_tree", "k": 4, "demands": [{"pattern": "permutation", "size": "1 MB"}]}
    >>> generated_network(table, seed=2).summary()
    '96 links of 100 Gb/s, 16 flows, RTTs 4 us to 12 us'
    """
    number = as_count(seed, "seed", bits=63)
    build, options = _chosen(table, "topology", _TOPOLOGIES, "fabric", omitted=("flows", "seed"), added=("demands",))
    rows = options.pop("demands", None)
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise ValueError(f"fabric.demands must be a list of tables, at least one, got {shown(rows)}")
    if isinstance(options.get("pause"), Mapping):
        options["pause"] = from_table(Pause, options["pause"], "fabric.pause")
    n_hosts = _n_hosts(options)
    flows: list[Demand] = []
    for index, row in enumerate(rows):
        defaults = {"n_hosts": n_hosts, "seed": number + _STRIDE * index}
        flows += _demands(row, defaults, options, f"fabric.demands[{index}]")
    network: Network = _called(build, options | {"flows": flows, "seed": number}, "fabric")
    return network


def _n_hosts(options: Mapping[str, Any]) -> int:
    """Return the number of hosts of a fabric."""
    if "k" in options:
        return as_count(options["k"], "k", minimum=2, bits=7) ** 3 // 4
    counts = [as_count(options[name], name, minimum=1, bits=20) for name in ("leaves", "hosts_per_leaf")]
    return counts[0] * counts[1]


def _demands(row: Any, defaults: Mapping[str, Any], fabric: Mapping[str, Any], where: str) -> list[Demand]:
    """Return the flows of a pattern."""
    names = tuple(field.name for field in fields(Demand))
    pattern, options = _chosen(row, "pattern", _PATTERNS, where, omitted=_DERIVED, added=names)
    accepted = signature(pattern).parameters
    if "capacity" in accepted:
        options.setdefault(
            "capacity", fabric.get("capacity", signature(Network.fat_tree).parameters["capacity"].default)
        )
    options |= {name: value for name, value in defaults.items() if name in accepted}
    made = _called(pattern, options, where)
    return [made] if isinstance(made, Demand) else list(made)


def _chosen(
    table: Any,
    key: str,
    choices: Mapping[str, Callable[..., Any]],
    where: str,
    omitted: Sequence[str],
    added: Sequence[str],
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the function that a key of a table names, and its arguments, after a check of their names."""
    if not isinstance(table, Mapping):
        raise TypeError(f"{where} must be a table, got {shown(table)}")
    name = str(table.get(key))
    if name not in choices:
        hint = nearest(name, dict.fromkeys(choices, ""))
        raise ValueError(f"{where}.{key} must be one of {', '.join(choices)}, got {shown(name)}{hint}")
    options = {other: value for other, value in table.items() if other != key}
    parameters = {p.name: p for p in signature(choices[name]).parameters.values() if p.name not in omitted}
    allowed = dict.fromkeys([*parameters, *added])
    for other in options:
        if other not in allowed:
            raise ValueError(unknown_key(where, other, [key, *allowed]))
    for parameter in parameters.values():
        if parameter.default is Parameter.empty and parameter.name not in options and parameter.name != "capacity":
            raise ValueError(f"{where} lacks the key {parameter.name!r}")
    return choices[name], options


def _called(function: Callable[..., Any], options: Mapping[str, Any], where: str) -> Any:
    """Return the result of a call, of which an error names the table."""
    try:
        return function(**options)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} (in {where})") from None
