"""CAKE: Common Applications Kept Enhanced (Høiland-Jørgensen, Täht, Morton 2018), as in Linux 6.18 (`sch_cake.c`).

    shaper      next <- next + 8 L / rate per packet; no packet leaves before `next`, and idle time gives no burst
    L           size + overhead, at least mpu; ATM: whole cells of 53 bytes for 48; PTM: 65 bytes for 64
    tins        by DSCP, each with its share of the rate as a threshold: the highest tin below its threshold is served
                first; without a rate, deficit round robin by these shares
    queues      1,024 for each tin; a flow takes a free one of the 8 in its set, and shares one if none is free
    turns       deficit round robin with sparse flows first (RFC 8290); a turn has quantum / load bytes, where `load` is
                the number of bulk flows of the busier one of its two hosts
    signals     COBALT in each queue
    full        the first packet of the longest queue is dropped
    ACK filter  an ACK of TCP that a later one supersedes is dropped

A flow is sparse until it has sent a quantum in one go, and then bulk until its queue is found empty. Its queue is kept
while COBALT returns to rest. The state and the hooks are in `cake_hooks`. Differences from Linux: turns are exact, not
rounded at random; hashes are other ones; the buffer counts bytes of packets, not of kernel memory; hosts are
parameters. Not here: automatic rates, which change the tins' rates in a run, and flow modes with one queue per host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ecc._support.arguments import shown
from ecc._support.display import quantity_text
from ecc._support.quantity import RATE, SIZE, TIME, Quantity, as_rate
from ecc.contract.env import Hook
from ecc.contract.forms import Queues
from ecc.contract.parameters import check_choice
from ecc.network.network import Network
from ecc.queues.cake_hooks import HOOKS, CakeState, cake_state
from ecc.queues.cobalt import check_target, interval_at, target_at
from ecc.queues.discipline import QueueDiscipline
from ecc.queues.schedulers import number_tuple, relabeled_classes

MAX_QUEUES, WAYS = 16384, 8
QUANTUM, MIN_QUANTUM = 1514, 300  # bytes; a quantum is a 4096th of a second at the rate, within these limits
ALL = 65535
EIGHTHS = tuple((7.0 / 8.0) ** tin for tin in range(8))
SHARES = {  # share of the rate of each tin, and bytes of its turns without a rate
    "besteffort": ((1.0,), (ALL,)),
    "diffserv3": ((1.0, 1.0 / 16.0, 1.0 / 4.0), (1024, 64, 256)),
    "diffserv4": ((1.0, 1.0 / 16.0, 1.0 / 2.0, 1.0 / 4.0), (1024, 64, 512, 256)),
    "diffserv8": (EIGHTHS, (256, 224, 196, 171, 149, 130, 113, 98)),
    "precedence": (EIGHTHS, (256, 224, 196, 171, 149, 130, 113, 98)),
}
"""Tins: best effort, bulk, then others with increasing priority; those of eight tins with increasing priority."""
BEST_EFFORT = {"diffserv8": 2}
"""Index of the best-effort tin, if it is not 0."""
CODEPOINTS: dict[str, dict[int, int]] = {  # DSCP -> tin; all others are best effort
    "besteffort": {},
    "diffserv3": {1: 1, 8: 1, **dict.fromkeys((4, 44, 46, 48, 56), 2)},
    "diffserv4": {
        **dict.fromkeys((1, 8), 1),
        **dict.fromkeys((4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38), 2),
        **dict.fromkeys((32, 40, 44, 46, 48, 56), 3),
    },
    "diffserv8": {
        1: 0,
        **dict.fromkeys((2, 8, 10, 12, 14), 1),
        **dict.fromkeys((24, 26, 28, 30, 34, 36, 38), 3),
        **dict.fromkeys((4, 18, 20, 22), 4),
        16: 5,
        **dict.fromkeys((32, 40, 44, 46), 6),
        **dict.fromkeys((48, 56), 7),
    },
    "precedence": {value: value // 8 for value in range(64)},
}
ISOLATION = {"triple": (1, 1), "dual-srchost": (1, 0), "dual-dsthost": (0, 1), "flows": (0, 0)}
FRAMING = ("none", "ptm", "atm")
ACK_FILTERS = ("off", "conservative", "aggressive")


@dataclass(frozen=True)
class CAKE(QueueDiscipline):
    """Shaper, tins, a queue for each flow with fairness among hosts, and COBALT, with the defaults of Linux.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`; the default is to mark. `packet_size` is the size of the largest packets, from
        which the minimum of each tin's target follows: 1000 bytes by default, whereas Linux takes the MTU of the
        interface with its link header, 1514 bytes on Ethernet.
    rate : float, bit/s, > 0, or None
        Rate of the shaper, for example "48 Mb/s" on a link of 50 Mb/s. None: the link is not shaped.
    target : float, s, > 0
        Acceptable sojourn time. A tin's target is max(target, 1.5 m), with m the transmission time of a packet at the
        tin's threshold.
    interval : float, s, > target
        Time from the first sojourn time above the target to the first signal: a typical RTT of the flows, for example
        0.1 s. A tin's interval is longer by as much as its target is, and at least twice its target.
    tins : str
        "diffserv3", "diffserv4", "diffserv8", "precedence" (by the first three bits of the codepoint), or "besteffort",
        which is one tin.
    dscp : tuple of int, from 0 to 63
        Codepoint of each flow, repeated cyclically if there are more flows, for example 46 for a call (EF) and 8 for a
        backup (CS1).
    isolation : str
        "triple": a flow's turns are shared by the flows of its source host or of its destination host, of which there
        are more; "dual-srchost", "dual-dsthost": of this host; "flows": each flow has its own.
    sources, destinations : tuple of int, >= 0
        Host of each flow's sender and receiver, repeated cyclically; empty: each flow has hosts of its own.
    n_queues : int, from 8 to 16384
        Number of queues of each tin, a multiple of 8.
    overhead, mpu : int, bytes
        Bytes that the shaper adds to the size of a packet (-64 to 256), and the minimum of the sum (0 to 256).
    framing : str
        "none", "atm" or "ptm".
    ack_filter : str
        "off", "conservative" or "aggressive".
    ingress : bool
        Whether CAKE is behind the bottleneck, as for downloads at a home router. Dropped packets then count as sent, as
        they have used the bottleneck, and COBALT signals only above two packets of each bulk flow.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.

    Examples
    --------
    >>> cake = CAKE(rate="48 Mb/s", dscp=(46, 0), packet_size=1514)
    >>> cake.params()["tin_rate"]
    (48000000.0, 3000000.0, 12000000.0)
    >>> [round(1e3 * target, 2) for target in cake.params()["tin_target"]]
    [5.0, 6.06, 5.0]
    """

    mark: bool = field(default=True, kw_only=True)
    rate: Quantity | None = None
    target: Quantity = 0.005
    interval: Quantity = 0.1
    tins: str = "diffserv3"
    dscp: tuple[int, ...] = (0,)
    isolation: str = "triple"
    sources: tuple[int, ...] = ()
    destinations: tuple[int, ...] = ()
    n_queues: int = 1024
    overhead: int = 0
    mpu: int = 0
    framing: str = "none"
    ack_filter: str = "off"
    ingress: bool = False

    dimensions = {"rate": RATE, "target": TIME, "interval": TIME, "overhead": SIZE, "mpu": SIZE}

    fluid_refusal = "CAKE has no fluid model: its shaper, turns and ACK filter act on single packets"

    LinkState = CakeState
    required_env = frozenset({"random"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate is not None:
            object.__setattr__(self, "rate", as_rate(self.rate, "rate"))
        check_target(self)
        for name, choices in (
            ("tins", tuple(SHARES)),
            ("isolation", tuple(ISOLATION)),
            ("framing", FRAMING),
            ("ack_filter", ACK_FILTERS),
            ("ingress", (False, True)),
        ):
            check_choice(self, name, choices)
        for name, low, high in (("dscp", 0, 63), ("sources", 0, 2**31 - 1), ("destinations", 0, 2**31 - 1)):
            object.__setattr__(self, name, whole_numbers(getattr(self, name), name, low, high, name != "dscp"))
        for name, low, high in (("n_queues", WAYS, MAX_QUEUES), ("overhead", -64, 256), ("mpu", 0, 256)):
            object.__setattr__(self, name, whole_numbers((getattr(self, name),), name, low, high)[0])
        if self.n_queues % WAYS:
            raise ValueError(f"n_queues must be a multiple of {WAYS}, got {self.n_queues}")

    def network_notes(self, network: Network) -> tuple[str, ...]:
        """Note a shaper that is faster than the link."""
        capacity = float(network.capacities[0])
        if self.rate is None or float(self.rate) <= capacity:
            return ()
        rates = (quantity_text(float(rate), "bit/s") for rate in (self.rate, capacity))
        return ("the rate of the shaper, {}, exceeds the capacity, {}: it has no effect".format(*rates),)

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"ecn"} if self.mark else ())

    @property
    def queues(self) -> Queues:
        n_tins = len(SHARES[self.tins][0])
        return Queues("select", (QUANTUM,) * (self.n_queues * n_tins), drops_longest=True)

    def params(self) -> dict[str, Any]:
        shares, quanta = SHARES[self.tins]
        rate = float(self.rate or 0.0)
        rates = [share * rate for share in shares]
        times = [8.0 * self.packet_size / tin if tin > 0.0 else 0.0 for tin in rates]
        target, interval = float(self.target), float(self.interval)
        by_source, by_destination = ISOLATION[self.isolation]
        tin_of, best_effort = CODEPOINTS[self.tins], BEST_EFFORT.get(self.tins, 0)
        return {
            "mark": float(self.mark),
            "packet_size": float(self.packet_size),
            "rate": rate,
            "n_tins": float(len(shares)),
            "n_queues": float(self.n_queues),
            "tin_rate": tuple(rates),
            "tin_quantum": tuple(map(float, quanta)),
            "quantum": tuple(max(min(tin // 32768.0, QUANTUM), MIN_QUANTUM) if rate else QUANTUM for tin in rates),
            "tin_target": tuple(target_at(time, target) for time in times),
            "tin_interval": tuple(interval_at(time, target, interval) for time in times),
            "mtu_time": tuple(times),
            "tin_of": tuple(float(tin_of.get(value, best_effort)) for value in self.dscp),
            "sources": tuple(map(float, self.sources)) or (-1.0,),
            "destinations": tuple(map(float, self.destinations)) or (-1.0,),
            "by_source": float(by_source),
            "by_destination": float(by_destination),
            "overhead": float(self.overhead),
            "mpu": float(self.mpu),
            "framing": float(FRAMING.index(self.framing)),
            "ingress": float(self.ingress),
            "filter": float(ACK_FILTERS.index(self.ack_filter)),
        }

    def relabeled(self, flows: Sequence[int]) -> CAKE:
        dscp, sources, destinations = (
            relabeled_classes(values, flows) if values else ()
            for values in (self.dscp, self.sources, self.destinations)
        )
        return replace(self, dscp=dscp, sources=sources, destinations=destinations)

    def link_record(self) -> Any:
        return cake_state(self.n_queues, len(SHARES[self.tins][0]))

    def link_hooks(self) -> dict[str, Hook]:
        return HOOKS


def whole_numbers(values: object, name: str, low: int, high: int, allow_empty: bool = False) -> tuple[int, ...]:
    """Return whole numbers after a check of their range."""
    if allow_empty and isinstance(values, tuple | list) and not values:
        return ()
    numbers = number_tuple(values, name)
    for value in numbers:
        if value != int(value) or not low <= value <= high:
            raise ValueError(f"{name} must be whole numbers from {low} to {high}, got {shown(value)}")
    return tuple(map(int, numbers))
