"""Hooks are annotated with the records of their protocol, whose fields mypy then checks."""

from __future__ import annotations

import pytest

import ecc.queues
from ecc.contract.env import NoRecord
from ecc.models import Protocol, all_protocols, cubic, newreno
from ecc.models.shared import reported_media, telemetry, windows

OF_ANY_RECORD = {*windows.STARTS.values(), newreno.flow_on_loss, telemetry.flow_on_loss}
OF_ANY_RECORD |= {cubic.flow_on_restart, cubic.flow_on_loss}
OF_ANY_RECORD |= {reported_media.flow_on_receive, reported_media.flow_on_report}
"""Hooks of protocols whose records or headers have no common class."""
PROTOCOLS = all_protocols() | ecc.queues.all_disciplines()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_hooks_take_the_records_of_their_protocol(name: str) -> None:
    protocol: Protocol = PROTOCOLS[name]()
    if not protocol.has_packet_hooks():
        return
    for side, record in (("link", "LinkState"), ("flow", "FlowState")):
        records = {side: getattr(protocol, record), "header": protocol.Header}
        if side == "flow" and not protocol.has_hosts():
            continue
        for hook in getattr(protocol, f"{side}_hooks")().values():
            for argument, kind in records.items():
                if kind is not NoRecord and hook not in OF_ANY_RECORD:
                    assert hook.__annotations__[argument] != "Any", (hook.__qualname__, argument)
