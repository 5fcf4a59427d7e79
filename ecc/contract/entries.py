"""The declarations of a protocol that an engine uses: all others are refused in one line, or noted, never ignored.

An engine lists, in a `Taken`, the laws that it calls with their arguments, and the values of the other entries of
`Protocol` that it supports. Entries that only packets use (headers, records, retransmission), or that state facts about
a protocol without moving it (its linear models, its bounds), do not concern laws. Any other entry of `Protocol`,
including new ones, is refused if an engine does not list it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ecc._support.arguments import shown
from ecc.contract.kinds import router_takes, sets_windows
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.contract.values import states_of
from ecc.laws.arguments import arguments_except, takes

__all__ = ["ENTRIES", "LAWS", "Taken", "form_laws"]

_PACKETS = (
    "Header", "LinkState", "FlowState", "required_env", "opening_size", "header_bytes", "wire_fields", "wire_header",
    "transport", "lost_retransmission", "uses_prr", "min_rto", "initial_rto", "rto_granularity", "pacing",
    "pacing_burst", "has_packet_hooks",
    "ecn_echo", "n_timers", "phase_jitter", "gives", "answers", "has_hosts", "link_hooks", "flow_hooks",
    "link_at", "flow_at", "link_record", "flow_record",
)  # fmt: skip
_KNOWLEDGE = (
    "times", "main_parameter", "has_affine_laws", "equilibrium_is_static", "overloads_at_equilibrium", "no_equilibrium",
    "reductions", "linear_refusal", "fluid_refusal", "network_notes", "run_findings", "params", "namespace",
    "is_responsive", "loop",
    "rate_range", "equilibrium", "equilibrium_set", "published_bounds", "has_relay", "relay_loop",
    "relay_delays", "dimensions",
    "relabeled", "property_exceptions", "operating_range", "reference_loop", "cycle_loop", "round_map",
    "window_clock", "marked_round_law", "response_interval", "is_paced", "probing_cycle", "cycle_orbit",
)  # fmt: skip


def _public() -> Iterator[str]:
    for name in dict.fromkeys([*Protocol.__annotations__, *vars(Protocol)]):
        if not name.startswith("_") and name not in (*_PACKETS, *_KNOWLEDGE):
            yield name


ENTRIES = tuple(_public())
"""The entries of `Protocol` that define how rates, windows and queues move: an engine supports or refuses each."""

LAWS = tuple(name for name in ENTRIES if name.endswith("_law"))
"""The entries that are laws."""


def form_laws(protocol: Protocol) -> dict[str, Callable[..., float]]:
    """Return the laws that a protocol's `fluid_form` holds, by name.

    Parameters
    ----------
    protocol : Protocol
    """
    form = protocol.fluid_form
    entries = {} if form is None else form._asdict()
    return {name: law for name, law in entries.items() if name.endswith("_law") and law is not None}


@dataclass(frozen=True)
class Taken:
    """The laws and entries that an engine uses.

    `engine`, `model`: names of the engine and of its model in messages. `laws`: law, also of a `fluid_form` ->
    available arguments. `values`: other entry -> supported values, None for any; a missing entry supports the default
    of `Protocol` only. `instead`: entry -> note on the behavior of the engine in place of this declaration; "" if it is
    equivalent. `without_memory`: available arguments of a router law without R; None: the same except R. `acted_on`:
    entry -> function of the protocol that returns True if the entry has an effect.
    `of_states`: available arguments of the laws of hosts' states; all laws except those of routers also get the states.
    `needs`: the required laws.
    """

    engine: str
    laws: Mapping[str, tuple[str, ...]]
    values: Mapping[str, tuple[Any, ...] | None] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)
    without_memory: tuple[str, ...] | None = None
    model: str = "fluid model"
    acted_on: Mapping[str, Callable[[Protocol], bool]] = field(default_factory=dict)
    of_states: tuple[str, ...] = ()
    needs: tuple[str, ...] = ("router_law", "source_law")

    def check(self, protocol: Protocol) -> tuple[str, ...]:
        """Return the notes on declarations of a protocol that the engine replaces by its own behavior.

        Parameters
        ----------
        protocol : Protocol

        Raises
        ------
        ValueError
            If a declaration, or an argument of a law, is not supported by the engine.
        """
        name = type(protocol).__name__
        notes: list[str] = []
        self.check_laws(protocol)
        if protocol.announce_law is not None and not router_takes(protocol, "R"):
            raise ValueError(
                f"{name} declares announce_law, but its router_law keeps no R: what it returns is announced"
            )
        if self.needs and not sets_windows(protocol):
            interval_of(protocol)
        for entry, value, usual in _declarations(protocol):
            allowed = self.values.get(entry, (usual,))
            if entry in self.laws:
                if value is not None:
                    self._check_arguments(protocol, entry, value)
            elif value == usual and usual in (allowed or (usual,)):
                continue
            elif entry in self.instead:
                notes.append(self.instead[entry])
            elif not self.acted_on.get(entry, _always)(protocol) or (allowed == (usual,) and callable(value)):
                raise ValueError(
                    f"{name} has no {self.model}: it declares {entry}, which {self.engine} does not act on"
                )
            elif allowed is not None and value not in allowed:
                listed = " or ".join(map(repr, allowed))
                raise ValueError(f"{entry} must be {listed} for {self.engine} of {name}, got {shown(value)}")
        for entry, law in form_laws(protocol).items():
            if entry in self.laws:
                self._check_arguments(protocol, entry, law)
        if self.of_states:
            for state, its in states_of(protocol).items():
                for law in ([] if its.law is None else [its.law]) + list(its.jumps.values()):
                    self._check_arguments(protocol, state, law)
        return tuple(note for note in dict.fromkeys(notes) if note)

    def check_laws(self, protocol: Protocol) -> None:
        """Refuse a protocol without the laws that the engine needs.

        Parameters
        ----------
        protocol : Protocol

        Raises
        ------
        ValueError
            If a law is missing.
        """
        missing = [law for law in self.needs if getattr(protocol, law, None) is None]
        if missing:
            raise ValueError(f"{type(protocol).__name__} has no {self.model}: it has no {' and no '.join(missing)}")

    def _check_arguments(self, protocol: Protocol, entry: str, law: Any) -> None:
        available = self.laws.get(entry, self.of_states)
        if entry == "router_law" and not takes(law, "R"):
            available = self.without_memory or tuple(argument for argument in available if argument != "R")
        if self.of_states and entry != "router_law":
            available = (*available, *protocol.states)
        if unknown := arguments_except(law, available):
            raise ValueError(
                f"{type(protocol).__name__} has no {self.model}: its {entry.removesuffix('_law')} law takes "
                f"{', '.join(unknown)}; available arguments for {self.engine}: {', '.join(available)}"
            )
        if takes(law, "T"):
            interval_of(protocol)
        if takes(law, "m") and protocol.memory_law is None:
            raise ValueError(
                f"{type(protocol).__name__} has no {self.model}: its {entry.removesuffix('_law')} law takes m, and it "
                "has no memory_law"
            )


def _always(protocol: Protocol) -> bool:
    return True


def _declarations(protocol: Protocol) -> list[tuple[str, Any, Any]]:
    """Return each entry, its value in a protocol, and its default in `Protocol`; None as the default of methods."""
    declarations: list[tuple[str, Any, Any]] = []
    kind, entries_of_base = type(protocol), vars(Protocol)
    for entry in ENTRIES:
        base, value = entries_of_base.get(entry), getattr(protocol, entry, None)
        usual = base
        if isinstance(base, property):
            assert base.fget is not None
            usual = value if getattr(kind, entry) is base else base.fget(protocol)
        elif callable(base):
            value, usual = None if getattr(kind, entry) is base else value, None
        declarations.append((entry, value, usual))
    return declarations
