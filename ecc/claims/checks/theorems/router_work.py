"""Checks of what routers do for a packet: operations, time, bytes of the header."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any

from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.models import PIQIRCP, RCP, XCP, JetMax
from ecc.models.jetmax import JetMaxHeader, JetMaxTransportHeader
from ecc.models.maxnet import MaxNetOption
from ecc.models.piqi_rcp import PIQIRCPHeader
from ecc.models.rcp import RCPHeader
from ecc.models.xcp import XCPHeader
from ecc.network.network import Network
from ecc.packet.hook_time import nanoseconds
from ecc.packet.operations import Operations, count_operations
from ecc.scenario import Scenario

PACKETS_PER_SECOND = 1e9 / (8.0 * 1500.0)
REPORTED = {"XCP": (XCP(), 6, 3), "JetMax": (JetMax(), 3, 0), "RCP": (RCP(), 2, 2), "PIQI-RCP": (PIQIRCP(), 2, 2)}
"""EVAL sec. 4.8: additions and multiplications of a packet."""


@check("ops", cost=6, main=False)
def ops(claim: Claim) -> Finding:
    """Count what the hooks of a link compute for a data packet."""
    network = Network.dumbbell("4 Mb/s", rtts=[0.05, 0.08])
    measurements, off = [], []
    for name, (protocol, additions, multiplications) in REPORTED.items():
        spent = count_operations(Scenario(network, protocol, 4.0), since=2.0)
        measurements.append(_spent(name, spent, f"{additions} and {multiplications}"))
        if set(spent) != {Operations(additions, multiplications)}:
            off.append(name)
    lot = Network.parking_lot(["15 Mb/s", "10 Mb/s"], delay="10 ms")
    both = count_operations(Scenario(lot, JetMax(), 5.0), since=4.0)
    fewest = Counter({operations: n for operations, n in both.items() if operations.additions < 3})
    measurements.append(_spent("JetMax, packets that follow another link", fewest, "2 and 0"))
    if set(fewest) != {Operations(2, 0)}:
        off.append("JetMax's unresponsive packets")
    verdict, reason = Verdict.CONFIRMED, "Every data packet costs what is reported, in each protocol."
    if off:
        verdict, reason = Verdict.REFUTED, f"Other numbers for {', '.join(off)}."
    return Finding(claim, verdict, reason, measurements, (), [
        "Counted while the hooks run; comparisons, assignments and what happens once an interval are not counted.",
    ])  # fmt: skip


def _spent(name: str, spent: Counter[Operations], reported: str) -> Measurement:
    kinds = sorted(spent, key=lambda o: (o.additions, o.multiplications, o.divisions))
    value = "; ".join(
        f"{o.additions} and {o.multiplications}" + (f" and {o.divisions} divisions" if o.divisions else "")
        for o in kinds
    )
    return Measurement(f"{name}: additions and multiplications", value, "", reported, f"{spent.total()} packets")


@check("cpu", cost=30, main=False)
def cpu(claim: Claim) -> Finding:
    """Time the compiled hooks of a link side by side."""
    measurements, loads = [], {}
    for name, (protocol, _, _) in REPORTED.items():
        arrival, departure, tick = nanoseconds(protocol).values()
        spent = arrival + departure
        loads[name] = 1e-9 * (spent * PACKETS_PER_SECOND + tick / protocol.params()["interval"])
        note = f"arrival {arrival:.1f}, departure {departure:.1f}; {tick:.0f} ns a tick"
        measurements.append(Measurement(f"{name}: hooks of a packet", float(f"{spent:.3g}"), "ns", note=note))
        measurements.append(
            Measurement(f"{name}: load of a core at 1 Gb/s", float(f"{100.0 * loads[name]:.3g}"), "%", 30.0)
        )
    least, most = min(loads, key=loads.__getitem__), max(loads, key=loads.__getitem__)
    return Finding(
        claim,
        Verdict.NOT_COMPARABLE if loads[most] < 0.15 else Verdict.REFUTED,
        f"The 30 % are mostly interrupts of a Linux router, which has no place here; the protocols' own share is "
        f"{100.0 * loads[least]:.2g} % ({least}) to {100.0 * loads[most]:.2g} % ({most}) of a core at 1 Gb/s with "
        "packets of 1500 bytes, so that differences among them cannot be seen in the total, as reported.",
        measurements,
        (),
        ["Hooks compiled to machine code, on records in the cache; the best of five loops on this computer."],
    )


KINDS: dict[str, tuple[Any, int, int | None]] = {
    "XCP": (XCPHeader, 20, 12),
    "JetMax": (JetMaxHeader, 32, 20),
    "RCP": (RCPHeader, 16, 8),
    "PIQI-RCP": (PIQIRCPHeader, 24, 13),
    "JetMax, own transport": (JetMaxTransportHeader, 28, None),
    "MaxNet's option": (MaxNetOption, 8, None),
}
"""Header, bytes reported, and bytes where data flow one way."""


@check("hdr", cost=0.1, main=False)
def hdr(claim: Claim) -> Finding:
    """Encode and decode the headers, and count their bytes."""
    measurements, off = [], []
    for name, (kind, size, one_way) in KINDS.items():
        encoded = kind().encode()
        whole = len(encoded) == size and kind.decode(encoded).encode() == encoded
        measurements.append(Measurement(f"{name}: bytes", len(encoded), "bytes", size,
                                ", ".join(field.name for field in fields(kind))))  # fmt: skip
        if one_way is not None:
            measurements.append(Measurement(f"{name}: bytes one way", kind.size(one_way=True), "bytes", one_way))
            whole = whole and kind.size(one_way=True) == one_way
        if not whole:
            off.append(name)
    return Finding(
        claim,
        Verdict.REFUTED if off else Verdict.CONFIRMED,
        f"Other sizes, or other bytes after decoding: {', '.join(off)}." if off else
        "Encoders of the stated fields give the stated sizes, and decoders give the same bytes again; one way only "
        "what a router or receiver must read is left.",
        measurements,
        (),
        ["JETMAX 6.6 counts 28 bytes for a transport of its own, EVAL 32 for a layer between IP and TCP: both hold."],
    )  # fmt: skip
