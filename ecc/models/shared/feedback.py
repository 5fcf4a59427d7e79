"""Reports of arrival time, loss and ECN of each packet (RFC 8888), for hosts of real-time media.

The receiver reports every `report_interval`, and earlier if a report is full. A report covers the packets from
`begin` to `begin + count - 1`. Each has a block of 16 bits as in RFC 8888, sec. 3.1:

    R    1 bit     the packet has been received
    ECN  2 bits    its codepoint: 11 if it is marked, otherwise 00, 10 (ECT(0)) or 01 (ECT(1)) for `ecn` = 0, 1 or 2
    ATO  13 bits   time from its arrival to that of the report, in 1/1024 s

The report has its own time in 1/65536 s, so that arrivals are known to half a millisecond. Its size is that of IPv4,
UDP, and the packet of RTCP with one report block, padded to 4 bytes. The RFC lets a block count run to
`begin + num_reports` inclusive and also be 0 for no blocks; here `count` is the number of blocks.

Reports have no number. A report that is lost leaves a gap: packets that no report covers. With `report_repeat` each
report repeats the blocks of that many earlier packets; this covers the packets of a lost report, and those that
arrived after later ones. Sec. 5 of the RFC assumes unchanged congestion if one report is lost, and asks for a rapid
decrease of the rate if several are: `missed_reports` counts the intervals without a report.

A protocol with these parts needs parameters `report_interval` [s], `report_repeat` [packets] and `ecn`, and calls

    on_send      packet_sent, after `header.number` is set, by the encoder or by a count from 1
    on_receive   packet_received
    on_report    write_report
    on_control   read_report; then `received`, `lost`, `unreported` and the arrays of the flow have the contents

Numbers: RFC 8888, secs. 3.1 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

from ecc.contract.env import FlowEnv, Params

__all__ = [
    "BLOCKS",
    "REPORT_HEADER",
    "FeedbackHeader",
    "FeedbackState",
    "missed_reports",
    "packet_received",
    "packet_sent",
    "read_report",
    "write_report",
]

BLOCKS = 64  # maximum number of packets of a report
SENT = 4096  # packets whose sending times the sender keeps
REPORT_HEADER = 48  # bytes of a report without blocks: IPv4 20, UDP 8, RTCP 8, SSRC 4, range 4, time 4
RECEIVED = 1 << 15  # R
CE = 3  # codepoint of marked packets
ECT_1 = 1
ECT_0 = 2
ATO_UNITS = 1024.0  # per second
STAMP_UNITS = 65536.0  # per second
MAX_ATO = 0x1FFD
OVER_RANGE = 0x1FFE


@dataclass
class FeedbackHeader:
    """Header fields of data, and of reports."""

    number: int = 0  # packet number, from 1
    begin: int = 0  # report: number of the first packet
    count: int = 0  # report: number of packets
    stamp: int = 0  # report: its time [1/65536 s]
    blocks: tuple[int, ...] = (0,) * BLOCKS  # report: R, ECN and ATO of each packet


@dataclass
class FeedbackState:
    """State of a receiver that reports each packet, and of a sender that reads the reports."""

    last_sent: int = 0  # number of the last packet sent
    sent_at: tuple[float, ...] = (0.0,) * SENT  # its sending time, and those before [s]; < 0: reported as received
    reports_read: int = 0  # reports that have arrived
    report_time: float = 0.0  # arrival of the last report, before the first: start of the flow [s]
    reported_to: int = 0  # highest number that a report has covered
    received: int = 0  # last report: packets that it is the first to report as received
    lost: int = 0  # last report: packets that it is the first to cover, and that have not arrived
    late: int = 0  # last report: packets in `received` that an earlier report had not received
    marked: int = 0  # last report: packets in `received` that are marked
    unreported: int = 0  # last report: packets before it that no report has covered
    received_number: tuple[int, ...] = (0,) * BLOCKS  # number of each packet in `received`
    received_sent: tuple[float, ...] = (0.0,) * BLOCKS  # its sending time [s]
    received_arrival: tuple[float, ...] = (0.0,) * BLOCKS  # its arrival [s]; < 0: more than 8 s before the report
    received_marked: tuple[int, ...] = (0,) * BLOCKS  # 1 if it is marked
    unreported_from: int = 0  # receiver: number of the first packet after the last report; 0: no packet has arrived
    highest_arrived: int = 0  # receiver: highest number
    arrived_number: tuple[int, ...] = (0,) * BLOCKS  # receiver: number of each of the last packets
    arrived_at: tuple[float, ...] = (0.0,) * BLOCKS  # receiver: its arrival [s]
    arrived_marked: tuple[int, ...] = (0,) * BLOCKS  # receiver: 1 if it is marked


# ---- the receiver ------------------------------------------------------------------------------------------


def packet_received(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Keep arrival and mark of a packet; start the reports with the first one, and send one that is full."""
    if header.number <= 0:  # packets that were in flight at the start of a run have no number
        return
    if flow.unreported_from == 0:
        flow.unreported_from = header.number
        env.timer = p.report_interval
    place = header.number % BLOCKS
    if header.number > flow.arrived_number[place]:
        flow.arrived_number[place] = header.number
        flow.arrived_at[place] = env.now
        flow.arrived_marked[place] = 1 if env.marked > 0 else 0
    flow.highest_arrived = max(flow.highest_arrived, header.number)
    if flow.highest_arrived - flow.unreported_from + 1 >= BLOCKS:
        write_report(flow, header, p, env)


def write_report(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Send a report on the packets since the last one, and on `report_repeat` packets before these."""
    highest = flow.highest_arrived
    begin = max(flow.unreported_from - int(p.report_repeat), highest - BLOCKS + 1, 1)
    header.begin = begin
    header.count = highest - begin + 1
    header.stamp = report_stamp(env.now)
    for k in range(header.count):
        place = (begin + k) % BLOCKS
        header.blocks[k] = 0
        if flow.arrived_number[place] == begin + k:
            offset = arrival_offset(header.stamp, flow.arrived_at[place])
            sent_as = ECT_1 if p.ecn == 2.0 else ECT_0 if p.ecn else 0
            codepoint = CE if flow.arrived_marked[place] > 0 else sent_as
            header.blocks[k] = RECEIVED + (codepoint << 13) + (offset if offset <= MAX_ATO else OVER_RANGE)
    flow.unreported_from = highest + 1
    env.control_size = REPORT_HEADER + 4 * ((header.count + 1) // 2)
    env.timer = p.report_interval


def report_stamp(now: float) -> int:
    """The time of a report in its units, rounded up: no arrival is later."""
    return int(ceil(now * STAMP_UNITS))


def arrival_offset(stamp: int, arrival: float) -> int:
    """ATO: the time from an arrival to its report, in its units."""
    return int((stamp / STAMP_UNITS - arrival) * ATO_UNITS + 0.5)


# ---- the sender --------------------------------------------------------------------------------------------


def packet_sent(flow: Any, header: Any, env: FlowEnv) -> None:
    """Keep the sending time of a packet."""
    if flow.last_sent == 0:
        flow.report_time = env.now
    flow.last_sent = header.number
    flow.sent_at[header.number % SENT] = env.now


def read_report(flow: Any, header: Any, env: FlowEnv) -> None:
    """Read a report into `received`, `lost`, `late`, `marked`, `unreported` and the arrays of the flow."""
    flow.received, flow.lost, flow.late, flow.marked = 0, 0, 0, 0
    flow.unreported = max(header.begin - flow.reported_to - 1, 0)
    for k in range(header.count):
        number = header.begin + k
        block = header.blocks[k]
        if block < RECEIVED:
            flow.lost += 1 if number > flow.reported_to else 0
        elif number > flow.last_sent - SENT and flow.sent_at[number % SENT] >= 0.0:
            place = flow.received
            offset = block & 0x1FFF
            is_marked = (block >> 13) & 3 == CE
            flow.received_number[place] = number
            flow.received_sent[place] = flow.sent_at[number % SENT]
            flow.received_arrival[place] = reported_arrival(header.stamp, offset) if offset <= MAX_ATO else -1.0
            flow.received_marked[place] = 1 if is_marked else 0
            flow.marked += 1 if is_marked else 0
            flow.late += 1 if number <= flow.reported_to else 0
            flow.received += 1
            flow.sent_at[number % SENT] = -1.0
    flow.reported_to = max(flow.reported_to, header.begin + header.count - 1)
    flow.reports_read += 1
    flow.report_time = env.now


def reported_arrival(stamp: int, offset: int) -> float:
    """The arrival of a packet as its report has it [s]."""
    return stamp / STAMP_UNITS - offset / ATO_UNITS


def missed_reports(flow: Any, p: Params, env: FlowEnv) -> float:
    """Return the number of report intervals since the last report arrived."""
    missed: float = (env.now - flow.report_time) / p.report_interval
    return missed
