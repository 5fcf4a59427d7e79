"""Scenarios: network, protocol, workload and duration, the input of all engines, with reading and writing of TOML."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from ecc import models
from ecc._support.arguments import check_arguments, nearest, shown, unknown_key
from ecc._support.display import Displayed, Rows, others_text, quantity_text, value_text
from ecc._support.quantity import Quantity, QuantityField, as_count, as_number, as_time, required
from ecc._support.toml import loads
from ecc.contract.assignment import Deployment, ProtocolAssignment, read_protocol
from ecc.contract.class_entries import ClassEntries
from ecc.contract.parameters import label, settings
from ecc.contract.values import equilibrium_of
from ecc.errors import EccError
from ecc.models import Protocol, all_protocols
from ecc.models.controller import SUFFIXES, Controller, load
from ecc.models.shared.equilibria import check_assignment
from ecc.network.generated import generated_network
from ecc.network.impairments import Impairment, check_impairments, impairment_from_table, impairment_to_table
from ecc.network.network import Flow, Network, from_table, tables_in, to_table
from ecc.queues import QueueDiscipline, Trimming, all_disciplines
from ecc.traffic.workload import KINDS, Tmix, Workload

__all__ = [
    "MAX_SAMPLED_QUEUES",
    "Scenario",
    "notes_at_end",
    "notes_on_parameters",
    "notes_on_queues",
    "notes_on_unfinished",
    "tables_of",
]


@check_arguments
@dataclass(frozen=True, repr=False)
class Scenario(Displayed):
    """Everything that defines a run: network, protocol, workload, duration and seed.

    Parameters
    ----------
    network : Network
    protocol : object
        Protocol of all flows and links; or a mapping {"flows": {key: Protocol}, "links": {key: Protocol or several}},
        kept as a `ProtocolAssignment`, which documents the keys. Links without an entry run the routers of the
        protocols of all flows that cross them.
    duration : float, s, > 0
    workload : Workload or None
        Workload of transfers in addition to the network's flows, a single Tmix, or None.
    seed : int
        Seed of all random numbers, from 0 to 2^64 - 1.
    assignment : object, shape (n_flows,)
        Index of the link that each flow follows as its bottleneck. None: the link with the smallest feedback.
    phases : object
        Phases of the ticks of each link's routers: "random", "equal" (every first tick ends a whole interval), or
        shape (n_links,), in [0, 1), as a share of the interval. Used in packet runs, and for sources that step.
    intervals : object, shape (n_links,), s, > 0
        Control intervals of each link's routers, or None: those of their protocol. Used in packet runs.
    header_bytes : bool
        True: the header of the protocol adds to the length of packets and ACKs, on links and for pacers. Rates and
        goodputs of flows count data only. Used in packet runs.
    phase_jitter : bool or None
        Shift of sending times of hosts, and of busy links that lead to another link, by a random part of a packet time,
        drawn again every 16 packets (S-186 to S-189). True: for all flows; False: for no flow; None: for flows of
        protocols that declare `phase_jitter`, for example ConstantRate. Used in packet runs.
    impairments : sequence of Impairment
        Impairments of `ecc.impairments`: losses, delays, capacities that change. Used in packet runs.

    Raises
    ------
    ValueError, TypeError
        A bad value; the message is one line that names the field.

    Examples
    --------
    >>> net = Network.dumbbell("100 Mb/s", rtts=[0.12])
    >>> Scenario.from_toml(Scenario(net, all_protocols()["RCP"](), 10.0).to_toml()).duration
    10.0
    """

    network: Network
    protocol: Any
    duration: QuantityField = required()
    workload: Workload | None = None
    seed: int = 1
    assignment: Any = None
    phases: Any = "random"
    intervals: Any = None
    header_bytes: bool = False
    phase_jitter: bool | None = None
    impairments: Sequence[Impairment] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.network, Network):
            raise TypeError(f"network must be a Network, got {shown(self.network)}")
        self._check_workload()
        self._check_protocol()
        if not isinstance(self.header_bytes, bool):
            raise TypeError(f"header_bytes must be True or False, got {shown(self.header_bytes)}")
        if self.phase_jitter is not None and not isinstance(self.phase_jitter, bool):
            raise TypeError(f"phase_jitter must be True, False or None, got {shown(self.phase_jitter)}")
        object.__setattr__(self, "impairments", check_impairments(self.impairments, self.network))
        object.__setattr__(self, "duration", as_time(self.duration, "duration", positive=True))
        object.__setattr__(self, "seed", as_count(self.seed, "seed", bits=64))
        if self.assignment is not None:
            try:
                assignment = np.asarray(self.assignment)
            except ValueError:
                raise ValueError(f"assignment must be link indices, got {shown(self.assignment)}") from None
            links = check_assignment(self.network, assignment)
            object.__setattr__(self, "assignment", tuple(int(link) for link in links))
        self._check_clocks()

    @cached_property
    def deployment(self) -> Deployment:
        """Protocol of each flow, of each template of the workload's transfers and of each link."""
        templates = self.workload.templates if self.workload else []
        return ProtocolAssignment.of(self.protocol).deploy(self.network, templates)

    def _title(self) -> str:
        return f"Scenario: {_label_of(self.protocol)}, {quantity_text(self.duration, 's')}"

    def _rows(self) -> Rows:
        rows = [("network", self.network.summary())]
        if self.workload is not None:
            counts = [(name, len(getattr(self.workload, name))) for name in KINDS]
            rows.append(("workload", ", ".join(f"{count} {name}" for name, count in counts if count) or "none"))
        if self.impairments:
            rows.append(("impairments", value_text(tuple(map(str, self.impairments)))))
        if self.assignment is not None:
            rows.append(("assignment", f"links {value_text(self.assignment)}"))
        rows.append(("phases", value_text(self.phases)))
        if self.intervals is not None:
            rows.append(("intervals", value_text(self.intervals, "s")))
        if self.phase_jitter is not None:
            rows.append(("phase jitter", "of all flows" if self.phase_jitter else "none"))
        return [*rows, ("header bytes", "counted" if self.header_bytes else "not counted"), ("seed", str(self.seed))]

    def _check_workload(self) -> None:
        if self.workload is None:
            return
        if isinstance(self.workload, Tmix):
            object.__setattr__(self, "workload", Workload(tmix=[self.workload]))
        if not isinstance(self.workload, Workload):
            raise TypeError(f"workload must be a Workload or None, got {shown(self.workload)}")
        for name in KINDS:
            for index, item in enumerate(getattr(self.workload, name)):
                for flow in [item] if isinstance(item, Flow) else item.templates:
                    self.network.check_flow(flow, f"workload.{name}[{index}]")

    def _check_protocol(self) -> None:
        """Check the protocols for the network, unless they are those of the last scenario: loops make many alike."""
        object.__setattr__(self, "protocol", read_protocol(self.protocol))
        if _checked and (deployment := _checked[0].deployment_for(self)) is not None:
            self.__dict__["deployment"] = deployment
            return
        self._check_deployment()
        _checked[:] = [_Checked(self)]

    def _check_deployment(self) -> None:
        flows = [*self.network.flows, *(self.workload.templates if self.workload else [])]
        runs = [*self.deployment.flows, *self.deployment.templates]
        for index, (flow, protocol) in enumerate(zip(flows, runs, strict=True)):
            if 0 < protocol.receiver_window < flow.largest_packet:
                which = f"flow {index}" if index < self.network.n_flows else "the workload"
                allowed = f"0 or >= {flow.largest_packet} bytes, a packet"
                raise ValueError(f"receiver_window must be {allowed}, got {protocol.receiver_window} ({which})")
        self._check_trimming(flows, runs)

    def _check_trimming(self, flows: Sequence[Flow], runs: Sequence[Protocol]) -> None:
        """Raise an error if a link trims every packet of a flow, which would never deliver any data."""
        trimming = (
            (link, discipline.limit)
            for link, disciplines in enumerate(self.deployment.links)
            for discipline in disciplines
            if isinstance(discipline, Trimming)
        )
        limits = dict(trimming)
        if not limits:
            return
        for index, (flow, protocol) in enumerate(zip(flows, runs, strict=True)):
            header = protocol.header_bytes[0] if self.header_bytes and protocol.header_bytes else 0
            packet = flow.largest_packet + header
            if packet <= (flow.trimmed_size or 0):
                continue  # the link queues it with the trimmed headers
            for link in dict.fromkeys(link for route in flow.routes for link in route):
                if limits.get(link, packet) < packet:
                    which = f"flow {index}" if index < self.network.n_flows else "the workload"
                    raise ValueError(
                        f"limit of Trimming must be >= a packet of {which} ({packet} bytes), "
                        f"got {limits[link]:g} bytes (link {link})"
                    )

    def _check_clocks(self) -> None:
        n = self.network.n_links
        if not (isinstance(self.phases, str) and self.phases in ("random", "equal")):
            phases = _numbers(self.phases, "phases", "'random', 'equal' or", n)
            if not all(0.0 <= phase < 1.0 for phase in phases):
                raise ValueError(f"phases must be in [0, 1), got {list(phases)}")
            object.__setattr__(self, "phases", phases)
        if self.intervals is not None:
            items = _numbers(self.intervals, "intervals", "None or", n, as_time)
            if not all(interval > 0.0 for interval in items):
                raise ValueError(f"intervals must be > 0 s, got {list(items)}")
            object.__setattr__(self, "intervals", items)

    def first_ticks(self, links: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Return the times of the first ticks of links' routers, in control intervals, > 0 and <= 1.

        Parameters
        ----------
        links : ndarray of int, shape (n,)
        rng : random.Generator
            Generator of random phases.
        """
        if isinstance(self.phases, str):
            return 1.0 - rng.random(len(links)) if self.phases == "random" else np.ones(len(links))
        phases = np.array(self.phases, dtype=float)[links]
        return np.where(phases > 0.0, phases, 1.0)  # phase 0: the tick ends the first interval

    def sample_period(self, sample: Quantity | None = None) -> float:
        """Return the period of samples of a run [s].

        Parameters
        ----------
        sample : Quantity, s, optional
            Period, > 0 and <= duration. None: 0.1 s, or a tenth of the duration if that is shorter.
        """
        if sample is None:
            return min(_SAMPLE, float(self.duration) / 10.0)
        period = as_time(sample, "sample", positive=True)
        if period > self.duration:
            raise ValueError(f"sample must be <= the duration ({self.duration:g} s), got {period:g} s")
        if period * _MAX_SAMPLES < self.duration:
            raise ValueError(
                f"sample must be >= {self.duration / _MAX_SAMPLES:g} s for this duration, which makes "
                f"{_MAX_SAMPLES:.0e} samples, got {period:g} s"
            )
        return period

    def n_samples(self, period: float) -> int:
        """Return the number of whole periods in the duration, with a tolerance for rounding.

        Parameters
        ----------
        period : float, s, > 0

        Raises
        ------
        ValueError
            A period that is not a time > 0, or too short to count the samples.
        """
        count = self.duration / as_time(period, "period", positive=True)
        if not count < 2.0**62:
            raise ValueError(f"period must be > {self.duration / 2.0**62:.2g} s for this duration, got {shown(period)}")
        return int(count * (1.0 + 1e-15) + 1e-9)

    @property
    def assigned(self) -> NDArray[np.int64] | None:
        """The fixed bottleneck assignment as an array, or None."""
        return None if self.assignment is None else np.array(self.assignment, dtype=np.int64)

    def with_(self, **changes: Any) -> Scenario:
        """Return this scenario with some fields replaced.

        Parameters
        ----------
        **changes : object
            New values by field, for example seed=2.
        """
        return replace(self, **changes)

    def _with_seed(self, seed: int) -> Scenario:
        """Return this scenario with another valid seed, without checks; `_is_alike` then recognizes both."""
        self.__dict__.setdefault("_origin", object())
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__, seed=seed)
        out.__dict__.pop("_text", None)
        return out

    def _is_alike(self, other: Scenario) -> bool:
        """Return whether two scenarios differ in their seed only, as `_with_seed` made one of them, or both."""
        origin = self.__dict__.get("_origin")
        return origin is not None and origin is other.__dict__.get("_origin")

    # ---- TOML --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the tables of the scenario's TOML, which `from_dict` reads back."""
        first, last = self._tables()
        return first | self.network.to_dict() | last

    def _tables(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the tables before and after those of the network."""
        data: dict[str, Any] = {"duration": self.duration, "seed": self.seed}
        if self.assignment is not None:
            data["assignment"] = list(self.assignment)
        if self.phases != "random":
            data["phases"] = self.phases
        if self.intervals is not None:
            data["intervals"] = list(self.intervals)
        if self.header_bytes:
            data["header_bytes"] = True
        if self.phase_jitter is not None:
            data["phase_jitter"] = self.phase_jitter
        if self.impairments:
            data["impairments"] = [impairment_to_table(item) for item in self.impairments]
        data["protocol"] = _protocol_table(self.protocol)
        if self.workload is None:
            return data, {}
        workload = {
            "transfers": [to_table(transfer) for transfer in self.workload.transfers],
            "arrivals": [to_table(stream) for stream in self.workload.arrivals],
            "on_off": [to_table(sources) for sources in self.workload.on_off],
        } | ({"tmix": [item.to_table() for item in self.workload.tmix]} if self.workload.tmix else {})
        return data, {"workload": workload}

    def check_writable(self) -> None:
        """Raise an error if `to_toml` cannot write the scenario; faster than writing, as the network is skipped.

        Raises
        ------
        TypeError
            A value that TOML cannot represent, for example a function.
        """
        first, last = self._tables()
        _toml(first | last)

    def to_toml(self) -> str:
        """Return the scenario as TOML text that `from_toml` reads back.

        Raises
        ------
        TypeError
            A value that TOML cannot represent, for example a function.
        """
        return self._text

    @cached_property
    def _text(self) -> str:
        return _toml(self.to_dict())

    @classmethod
    def from_toml(cls, source: str | Path) -> Scenario:
        """Return the scenario in a TOML file or text.

        Parameters
        ----------
        source : str or Path
            Path of a file, or the TOML itself (anything with a newline or an equals sign).

        Raises
        ------
        ValueError
            Not TOML, unknown keys or bad values; the message is one line.
        OSError
            The file cannot be read.
        """
        return cls.from_dict(tables_of(source))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Scenario:
        """Return the scenario that tables, as in its TOML file, describe.

        Parameters
        ----------
        data : mapping
            Mapping with duration and protocol, links and flows (or fabric, which generates them), and optionally the
            other keys of a scenario.

        Raises
        ------
        ValueError
            Unknown keys or bad values; the message is one line.
        """
        allowed = (
            "duration",
            "seed",
            "assignment",
            "phases",
            "intervals",
            "header_bytes",
            "phase_jitter",
            "impairments",
            "protocol",
            "links",
            "flows",
            "rtts",
            "ends",
            "n_hosts",
            "workload",
            "fabric",
        )
        for key in data:
            if key not in allowed:
                raise ValueError(unknown_key("scenario", key, allowed))
        is_generated = "fabric" in data
        for key in ("duration", "protocol", *(() if is_generated else ("links", "flows"))):
            if key not in data:
                raise ValueError(f"scenario lacks the key {key!r}")
        for key in ("links", "flows", "ends", "n_hosts", "rtts") if is_generated else ():
            if key in data:
                raise ValueError(f"scenario must have {key!r} or 'fabric', which generates them, got both")
        seed = data.get("seed", 1)
        workload = data.get("workload")
        impairments = data.get("impairments", ())
        if not isinstance(impairments, Sequence) or isinstance(impairments, str):
            raise ValueError(f"impairments must be a list of tables, got {shown(impairments)}")
        return cls(
            network=generated_network(data["fabric"], seed) if is_generated else _network(data),
            protocol=_protocol_or_assignment(data["protocol"]),
            duration=data["duration"],
            workload=None if workload is None else _workload(workload),
            seed=seed,
            impairments=[impairment_from_table(table, f"impairments[{i}]") for i, table in enumerate(impairments)],
            **{key: data[key] for key in _PLAIN_KEYS if key in data},
        )


_networks: dict[str, Network] = {}
_MAX_TEXT = 100_000
_MAX_ITEMS = 10_000  # longer lists of links or flows have a longer text


def _network(tables: Mapping[str, Any]) -> Network:
    """Return the network of tables; that of the last call if the tables are the same and not large.

    The scenarios of a sweep then share a network, and packet runs on it share their preparation.
    """
    parts = [tables.get(key) for key in ("links", "flows", "rtts", "ends", "n_hosts")]
    if any(isinstance(part, Sequence) and len(part) > _MAX_ITEMS for part in parts):
        return Network.from_dict(tables)
    text = repr(parts)
    if (known := _networks.get(text)) is not None:
        return known
    network = Network.from_dict(tables)
    if len(text) <= _MAX_TEXT:
        _networks.clear()
        _networks[text] = network
    return network


def tables_of(source: str | Path) -> dict[str, Any]:
    """Return the tables of a scenario's TOML, which `Scenario.from_dict` reads.

    Parameters
    ----------
    source : str or Path
        Path of a file, or the TOML itself (anything with a newline or an equals sign).

    Raises
    ------
    ValueError
        Not TOML; the message is one line.
    OSError
        The file cannot be read.
    """
    is_text = isinstance(source, str) and ("\n" in source or ("=" in source and not Path(source).exists()))
    name = "scenario" if is_text else f"scenario {shown(str(source))}"
    try:
        return loads(str(source) if is_text else _content(Path(source)))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name} is not valid TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not valid TOML: byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply") from None


def _content(path: Path) -> str:
    """Return the text of a scenario file. It may be a pipe, so the size is limited as it is read."""
    with path.open("rb") as file:
        raw = file.read(_MAX_SIZE + 1)
    if len(raw) > _MAX_SIZE:
        raise ValueError(f"scenario must have <= {_MAX_SIZE // 2**20} MiB, got more ({str(path)!r})")
    return raw.decode("utf-8")


def _label_of(protocol: Any) -> str:
    """Return the label of a protocol, or the different labels of an assignment."""
    if not isinstance(protocol, ProtocolAssignment):
        return label(protocol)
    return " and ".join(dict.fromkeys(label(item) for item in protocol.flows.values()))


def _workload(table: Any) -> Workload:
    if not isinstance(table, Mapping) or set(table) - set(KINDS):
        raise ValueError(
            f"workload must be a table with 'transfers', 'arrivals', 'on_off' and 'tmix', got {shown(table)}"
        )
    return Workload(
        **{
            name: [
                from_table(kind, item, f"workload.{name}[{i}]")
                for i, item in enumerate(tables_in(table, name, "workload."))
            ]
            for name, kind in KINDS.items()
        }
    )


def _numbers(values: Any, name: str, otherwise: str, count: int, read: Any = as_number) -> tuple[float, ...]:
    """Return one number for each link."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be {otherwise} one number for each link, got {shown(values)}")
    numbers = tuple(read(item, name) for item in values)
    if len(numbers) != count:
        raise ValueError(f"{name} must be {otherwise} one number for each of {count} links, got {len(numbers)}")
    return numbers


def _toml(tables: Mapping[str, Any]) -> str:
    import tomli_w

    try:
        return tomli_w.dumps(tables)
    except (TypeError, ValueError):
        path, value = next(_unwritable(tables))
        raise TypeError(f"{path} must be a value that TOML can hold, got {shown(value)}") from None


def _unwritable(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield path and value of each entry that TOML cannot represent."""
    import tomli_w

    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _unwritable(value, f"{path}{name}.")
            continue
        try:
            tomli_w.dumps({str(name): value})
        except (TypeError, ValueError):
            yield path + str(name), value


def _protocol_table(protocol: Any) -> dict[str, Any]:
    if isinstance(protocol, ProtocolAssignment):
        flows = {which: _protocol_table(item) for which, item in protocol.flows.items()}
        links = {which: [_protocol_table(item) for item in routers] for which, routers in protocol.links.items()}
        return {"flows": flows, **({"links": links} if links else {})}
    return {
        "name": _class_path(type(protocol)),
        **{k: getattr(v, "toml", v) for k, v in settings(protocol).items() if v is not None},
    }


def _class_path(cls: type[Protocol]) -> str:
    """Return the name with which `protocol_class` finds a class."""
    if issubclass(cls, Controller):
        return cls.library
    return cls.__name__ if _listed(cls.__name__) is cls else f"{cls.__module__}:{cls.__qualname__}"


def _protocol_or_assignment(table: Any) -> Any:
    if not (isinstance(table, Mapping) and "flows" in table):
        return _protocol(table, "protocol")
    for key in table:
        if key not in ("flows", "links"):
            raise ValueError(unknown_key("protocol", key, ("flows", "links")))
    links = table.get("links", {})
    for which, tables in (("flows", table["flows"]), ("links", links)):
        if not isinstance(tables, Mapping):
            raise ValueError(f"protocol.{which} must be a table of protocols, got {shown(tables)}")
    link_protocols = {
        which: _protocol(routers, f"protocol.links.{which}")
        if isinstance(routers, Mapping)
        else [_protocol(item, f"protocol.links.{which}[{i}]") for i, item in enumerate(routers)]
        for which, routers in links.items()
    }
    flow_protocols = {which: _protocol(item, f"protocol.flows.{which}") for which, item in table["flows"].items()}
    return {"flows": flow_protocols, "links": link_protocols}


def _protocol(table: Any, where: str) -> Protocol:
    if not isinstance(table, Mapping) or "name" not in table:
        raise ValueError(f"{where} must be a table with a name, got {shown(table)}")
    values = {k: v for k, v in table.items() if k != "name"}
    kind = protocol_class(table["name"])
    result = from_table(kind, values, where)
    assert isinstance(result, Protocol)
    return result


def _listed(name: str) -> type[Protocol] | None:
    """Return the protocol or discipline with a name, or None; protocols with other names are not imported."""
    plain = name.lower().replace("-", "").replace("_", "")
    protocol = next((key for key in models.PROTOCOLS if key.lower() == plain), None)
    if protocol is not None:
        kind: type[Protocol] = getattr(models, protocol)
        return kind
    return next((kind for key, kind in all_disciplines().items() if key.lower() == plain), None)


def protocol_class(name: Any) -> type[Protocol]:
    """Return a protocol class by name, or a user-defined one.

    Parameters
    ----------
    name : str
        Name of a protocol, for example "XCP" or "pi-qi-rcp"; case, hyphens and underscores are ignored. User-defined:
        "module:Class" for an importable module or one in the current folder, "path/file.py:Class", or "path/file.so"
        for a shared object with a controller (`ecc.models.controller`).

    Raises
    ------
    ValueError
        Unknown name, or not a Protocol.
    """
    chosen: Any = _listed(str(name))
    if chosen is None and isinstance(name, str) and name.endswith(".py"):
        raise ValueError(f"protocol name must have a class of the file, as {name}:MyProtocol, got {shown(name)}")
    if chosen is None and isinstance(name, str) and name.endswith(SUFFIXES):
        chosen = load(name)
    elif chosen is None and isinstance(name, str) and ":" in name:
        module, _, attribute = name.rpartition(":")
        try:
            chosen = getattr(_module_of_user(module), attribute)
        except (Exception, SystemExit) as error:  # importing a user's module may raise anything
            kind = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
            raise ValueError(f"protocol name {name!r} cannot be imported: {kind}{error}") from None
        if not (isinstance(chosen, type) and issubclass(chosen, Protocol)):
            raise ValueError(f"protocol name must be a subclass of ecc.models.Protocol, got {shown(name)}")
    elif chosen is None and isinstance(name, str) and Path(name).suffix:
        raise ValueError(f"protocol name must be a name, path.py:Class or path{SUFFIXES[0]}, got {shown(name)}")
    if not (isinstance(chosen, type) and issubclass(chosen, Protocol)):
        protocols = {**all_protocols(unresponsive=True), **all_disciplines()}
        lines = {key: _summary(kind) for key, kind in protocols.items()}
        hint = nearest(name, lines)
        names = "a protocol or discipline of ecc" if hint else f"one of {', '.join(protocols)}"
        raise ValueError(f"protocol name must be {names}, or module:Class or path.so, got {shown(name)}{hint}")
    return chosen


def _summary(kind: type[Protocol]) -> str:
    """Return the first lines of the docstrings of a protocol's module and class."""
    documented = (sys.modules[kind.__module__].__doc__, kind.__doc__)
    return " ".join((text or "").partition("\n")[0] for text in documented)


def _module_of_user(name: str) -> ModuleType:
    """Import a module by name or file; its folder is appended to sys.path, so that worker processes find it too."""
    path = Path(name) if name.endswith(".py") else None
    if path is not None and not path.is_file():
        raise ImportError(f"there is no file {name!r}")
    folder = str(path.resolve().parent if path else Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    if path is not None:
        existing = find_spec(path.stem)  # Python prefers mine.so to mine.py
        origin = existing.origin if existing is not None and existing.origin is not None else "built in"
        if Path(origin).resolve() != path.resolve():
            raise ImportError(f"its name is that of another module, {origin}: rename the file")
    return import_module(path.stem if path else name)


class _Checked:
    """Protocols that were checked for a network, with all that the checks depend on."""

    def __init__(self, scenario: Scenario) -> None:
        self._network = ref(scenario.network)
        self._options = scenario.workload, scenario.header_bytes
        self._protocol, self._deployment = scenario.protocol, scenario.deployment
        self._entries = ClassEntries(scenario.deployment.protocols)

    def deployment_for(self, scenario: Scenario) -> Deployment | None:
        """Return the deployment of another scenario that passes the same checks, or None."""
        workload, header_bytes = self._options
        if self._network() is not scenario.network or workload is not scenario.workload:
            return None
        alike = header_bytes is scenario.header_bytes and self._protocol == scenario.protocol
        return self._deployment if alike and self._entries.are_current() else None


_checked: list[_Checked] = []
"""The protocols of the last scenario, or none."""
_PLAIN_KEYS = ("assignment", "phases", "intervals", "header_bytes", "phase_jitter")  # keys that are fields of Scenario
_SAMPLE = 0.1  # default sample period [s]
_MAX_SIZE = 2**29  # maximum size of a scenario file [bytes]: some five million flows
_MAX_SAMPLES = 1e9  # in a run: 8 GB for each flow
_END_SHARE = 0.2  # share of a run, at its end, that is compared with the equilibrium
_MIN_SAMPLES, _MIN_RTTS = 10, 10.0  # minimum length of this share
_STEADY = 0.05  # relative difference between the means of its halves up to which a rate is steady
_REPORTED = 0.25  # relative difference from the equilibrium beyond which a rate is reported
MAX_SAMPLED_QUEUES = 64
"""Maximum number of queues of a link with series in a result (`class_queue`, `class_drops`, `class_marks`)."""
_MAX_CROSSINGS = 1_000_000  # flows times links up to which the equilibrium is computed


def notes_at_end(scenario: Scenario, time: NDArray[np.float64], rate: NDArray[np.float64]) -> tuple[str, ...]:
    """Return a note if flows of a run were steady at its end at rates other than those of the equilibrium.

    Parameters
    ----------
    scenario : Scenario
        Scenario of the run.
    time : ndarray, shape (n_times,), s
        Ends of samples.
    rate : ndarray, shape (n_times, n_flows), bit/s
        Sending rates, averaged over each sample.

    Returns
    -------
    tuple of str
        Tuple of at most one line. It is empty if no comparison is possible: several protocols, transfers, impairments,
        flows that begin or end in the last fifth of the run, no static equilibrium, or a run that is too short. If the
        protocol's code for the equilibrium fails, the line reports it, as the run itself is complete.
    """
    try:
        return _ended_elsewhere(scenario, time, rate)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return (
            f"how the run ended could not be compared with the equilibrium of {_label_of(scenario.protocol)}: {cause}",
        )


def notes_on_unfinished(has_started: NDArray[np.bool_], has_completed: NDArray[np.bool_]) -> tuple[str, ...]:
    """Return a note if flows of finite size started but did not finish in a run.

    Parameters
    ----------
    has_started : ndarray of bool, shape (n,)
        Whether each flow or transfer has a finite size and started before the end of the run.
    has_completed : ndarray of bool, shape (n,)
        Whether all of its data arrived.
    """
    count = int((has_started & ~has_completed).sum())
    if not count:
        return ()
    return (
        f"{count:,} of {int(has_started.sum()):,} flows of finite size did not finish in the run; completion times and "
        "slowdowns leave them out",
    )


def notes_on_parameters(scenario: Scenario) -> tuple[str, ...]:
    """Return the notes of protocols on parameters that do not fit the network.

    Parameters
    ----------
    scenario : Scenario
        Scenario of the run.
    """
    network, deployment = scenario.network, scenario.deployment
    flows = [*network.flows, *(scenario.workload.templates if scenario.workload else [])]
    of_protocol: dict[Protocol, list[Flow]] = {}
    for flow, protocol in zip(flows, [*deployment.flows, *deployment.templates], strict=True):
        if type(protocol).network_notes is not Protocol.network_notes:
            of_protocol.setdefault(protocol, []).append(flow)
    of_flows = (
        f"{type(protocol).__name__}: {note}"
        for protocol, its in of_protocol.items()
        for note in protocol.network_notes(network if its == [*network.flows] else network.with_flows(its))
    )
    return (*of_flows, *_notes_on_links(scenario))


def _notes_on_links(scenario: Scenario) -> Iterator[str]:
    """Yield the notes of disciplines on parameters that do not fit their links, each once, with its first link."""
    noting = [
        (link, router)
        for link, routers in enumerate(scenario.deployment.links)
        for router in routers
        if isinstance(router, QueueDiscipline) and type(router).network_notes is not Protocol.network_notes
    ]
    if not noting:
        return
    flows = [*scenario.network.flows, *(scenario.workload.templates if scenario.workload else [])]
    crossing: dict[int, list[float]] = {}
    for flow, rtt in zip(flows, scenario.network.with_flows(flows).rtts, strict=True):
        for link in {link for route in flow.routes for link in route}:
            crossing.setdefault(link, []).append(float(rtt))
    links: dict[str, list[int]] = {}
    for link, router in noting:
        if link not in crossing:
            continue
        rtts = [min(crossing[link]), max(crossing[link])]
        for note in router.network_notes(Network.dumbbell(scenario.network.links[link].capacity, rtts=rtts)):
            links.setdefault(f"{type(router).__name__}: {note}", []).append(link)
    for note, places in links.items():
        more = f" and {others_text(len(places) - 1)}" if places[1:] else ""
        yield f"{note} (link {places[0]}{more})"


def notes_on_queues(scenario: Scenario) -> tuple[str, ...]:
    """Return a note if a result has series of queues (`class_queue`), but not of those of each link with several.

    Parameters
    ----------
    scenario : Scenario
        Scenario of the run.
    """
    queues = [[router.queues for router in routers] for routers in scenario.deployment.links]
    counts = [max([len(its.quanta) for its in of_link if its is not None], default=1) for of_link in queues]
    without = [link for link, count in enumerate(counts) if count > MAX_SAMPLED_QUEUES]
    if not without or not any(1 < count <= MAX_SAMPLED_QUEUES for count in counts):
        return ()
    more = f" and {others_text(len(without) - 1)}" if without[1:] else ""
    return (
        f"class_queue, class_drops and class_marks leave out link {without[0]} ({counts[without[0]]} queues){more}: "
        f"they have the queues of links with 2 to {MAX_SAMPLED_QUEUES}",
    )


def _ended_elsewhere(scenario: Scenario, time: NDArray[np.float64], rate: NDArray[np.float64]) -> tuple[str, ...]:
    """See `notes_at_end`."""
    network, protocol = scenario.network, scenario.protocol
    n = int(_END_SHARE * len(time))
    if n < _MIN_SAMPLES or not isinstance(protocol, Protocol) or not protocol.equilibrium_is_static:
        return ()
    if scenario.workload is not None or scenario.impairments or network.n_flows * network.n_links > _MAX_CROSSINGS:
        return ()
    begin, end = float(time[-n - 1]), float(time[-1])
    lives = all(f.start <= begin and (f.stop is None or f.stop >= end) and f.size is None for f in network.flows)
    if not lives or end - begin < _MIN_RTTS * float(network.rtts.max()):
        return ()
    try:
        point = equilibrium_of(protocol, network, scenario.assigned)
    except (ValueError, EccError):
        return ()
    expected = point.rates
    early, late = rate[-n : -n // 2].mean(axis=0), rate[-n // 2 :].mean(axis=0)
    mean = rate[-n:].mean(axis=0)
    steady = np.abs(early - late) <= _STEADY * np.maximum(early, late)
    away = np.flatnonzero(steady & (np.abs(mean - expected) > _REPORTED * expected))
    if not len(away):
        return ()
    worst = int(away[np.argmax(np.abs(np.log(np.maximum(mean[away], 1e-9) / expected[away])))])
    n_more = len(away) - 1
    further = f"; so {'is' if n_more == 1 else 'are'} {others_text(n_more)} by more than a quarter" if n_more else ""
    return (
        f"flow {worst} was steady at {mean[worst] / 1e6:.3g} Mb/s over the last {end - begin:.3g} s, away from its "
        f"equilibrium rate of {expected[worst] / 1e6:.3g} Mb/s{further}",
    )
