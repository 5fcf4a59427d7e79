"""The packet engine in C and its binding, which are independent of any protocol."""

from ecc.native.engine import (
    BEGUN,
    CHANGE,
    COUNTERS,
    EVENT,
    FLOW,
    FLOW_ENV,
    FLOW_HOOKS,
    FLOW_RESULT,
    IMPAIRMENT,
    LINK,
    LINK_ENV,
    LINK_HOOKS,
    LINK_RESULT,
    RECORDED,
    SERVER,
    TRANSFER,
    TRANSFER_RESULT,
    UNDER_WAY,
    Engine,
    Partition,
    Stats,
    addresses,
    bin_edges,
    inside,
    new_flows,
    new_links,
    new_transfers,
    picoseconds,
    sampled_queues,
)
from ecc.native.frames import FRAME_FIELD, FRAME_FORMAT, VERDICTS, Formats, Frames, Port
from ecc.native.team import Team

__all__ = [
    "BEGUN", "CHANGE", "COUNTERS", "EVENT", "FLOW", "FLOW_ENV", "FLOW_HOOKS", "FLOW_RESULT", "FRAME_FIELD",
    "FRAME_FORMAT", "IMPAIRMENT", "LINK", "LINK_ENV", "LINK_HOOKS", "LINK_RESULT", "RECORDED", "SERVER", "TRANSFER",
    "TRANSFER_RESULT", "UNDER_WAY", "VERDICTS", "Engine", "Formats", "Frames", "Partition", "Port", "Stats", "Team",
    "addresses", "bin_edges", "new_flows", "new_links", "new_transfers", "picoseconds", "inside",
    "sampled_queues",
]  # fmt: skip
