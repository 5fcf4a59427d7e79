"""The packet engine in C and its binding, which are independent of any protocol."""

from ecc.native.crew import Crew
from ecc.native.engine import (
    ACTION,
    ACTIONS,
    BEGUN,
    CHANGE,
    COUNTERS,
    DELAY_CHANGE,
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
    OBSERVATION,
    RECORDED,
    SERVER,
    TRANSFER,
    TRANSFER_RESULT,
    UNDER_WAY,
    WRITE,
    Actions,
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
    "ACTION", "ACTIONS", "Actions", "BEGUN", "CHANGE", "COUNTERS", "Crew", "DELAY_CHANGE", "EVENT", "Engine", "FLOW",
    "FLOW_ENV", "FLOW_HOOKS", "FLOW_RESULT", "FRAME_FIELD", "FRAME_FORMAT", "Formats", "Frames", "IMPAIRMENT", "LINK",
    "LINK_ENV", "LINK_HOOKS", "LINK_RESULT", "OBSERVATION", "Partition", "Port", "RECORDED", "SERVER", "Stats",
    "TRANSFER", "TRANSFER_RESULT", "Team", "UNDER_WAY", "VERDICTS", "WRITE", "addresses", "bin_edges", "inside",
    "new_flows", "new_links", "new_transfers", "picoseconds", "sampled_queues",
]  # fmt: skip
