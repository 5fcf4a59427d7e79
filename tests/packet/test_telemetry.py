"""What a packet collects link by link on its way, in arrays of its header: the same in all engines and files."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ecc.contract.protocol import Protocol
from ecc.contract.records import per_hop, record_dtype, records
from ecc.formats.headers import WireFields
from ecc.models.rcp import RCPHeader
from ecc.network.network import Flow, Link, Network
from ecc.packet import Run, resume, simulate
from ecc.packet.c_engine import build_engine
from ecc.packet.frames import formats
from ecc.packet.prepare import prepare
from ecc.packet.twin import build_twin
from ecc.scenario import Scenario

LINKS = [Link("8 Mb/s", "5 ms"), Link("4 Mb/s", "7 ms"), Link("2 Mb/s", "3 ms"), Link("8 Mb/s", "5 ms")]
NETWORK = Network(LINKS, [Flow([0, 1, 2], reverse=[3]), Flow([1])])


@dataclass
class Header:
    hops: int = 0
    link: tuple[int, ...] = per_hop()
    time: tuple[float, ...] = per_hop()
    ends: tuple[float, ...] = (0.0, 0.0)  # first and last queue


@dataclass
class LinkState:
    sent: int = 0


@dataclass
class FlowState:
    seen: tuple[int, ...] = per_hop()  # links of the last ACK, from 1
    time: tuple[float, ...] = per_hop()
    hops: int = 0


@dataclass(frozen=True)
class Collecting(Protocol):
    """Flows at 3 Mb/s whose packets note each link that they leave, and when."""

    Header = Header
    LinkState = LinkState
    FlowState = FlowState

    def link_hooks(self) -> Any:
        return {"on_departure": note}

    def flow_hooks(self) -> Any:
        return {"on_start": start, "on_ack": remember}


def note(link: Any, header: Any, p: Any, env: Any) -> None:
    link.sent += env.packet_size
    if env.kind == 0:
        header.link[header.hops] = env.link + 1
        header.time[header.hops] = env.now
        header.ends[1 if header.hops > 0 else 0] = env.queue
        header.hops += 1


def start(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.rate = 3e6


def remember(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.hops = header.hops
    for k in range(header.hops):
        flow.seen[k] = header.link[k]
        flow.time[k] = header.time[k]


def test_there_is_an_entry_for_each_link_of_the_longest_route() -> None:
    assert record_dtype(Header, 3).itemsize == 8 * (1 + 3 + 3 + 2)
    made = records(FlowState(), 2, 4)
    assert made["seen"].shape == (2, 4) and not made["seen"].any()
    for network, hops in ((NETWORK, 3), (Network.dumbbell("1 Mb/s", [0.1]), 1)):
        (part,) = prepare(Scenario(network, Collecting(), 1.0)).parts
        assert part.header["time"].shape == part.flow_states["time"].shape[1:] == (hops,)


def test_both_engines_collect_the_same() -> None:
    scenario = Scenario(NETWORK, Collecting(), 1.0)
    setup = prepare(scenario)
    engine, twin = build_engine(setup, scenario), build_twin(setup)
    for one in (engine, twin):
        one.advance(1.0)
    (part,) = setup.parts
    for written, its in zip((part.link_states, part.flow_states), twin.states, strict=True):
        assert all(c.tobytes() == np.array(p, c.dtype).tobytes() for c, p in zip(written, its, strict=True))
    assert engine.stats.digest == twin.digest
    first, second = part.flow_states
    assert first["seen"].tolist() == [1, 2, 3] and second["seen"].tolist() == [2, 0, 0]
    # a packet of 1000 bytes takes the wire and its transmission from link to link, and what the queues add
    waits = np.diff(first["time"]) - [0.005 + 0.002, 0.007 + 0.004]
    assert (waits > -1e-9).all() and waits[0] > 0.05


def test_a_hook_that_writes_beyond_the_array_ends_the_run_in_one_line() -> None:
    def beyond(link: Any, header: Any, p: Any, env: Any) -> None:
        header.link[header.hops + 3] = 1

    class Wrong(Collecting):
        def link_hooks(self) -> Any:
            return {"on_departure": beyond}

    for engine in ("c", "python"):
        with pytest.warns(RuntimeWarning, match=r"IndexError.*link 0, on_departure"):
            assert not simulate(Scenario(NETWORK, Wrong(), 1.0), engine=engine).is_complete


def test_threads_and_checkpoints_change_nothing(tmp_path: Any) -> None:
    scenario = Scenario(NETWORK, Collecting(), 2.0, seed=3)
    whole = simulate(scenario, record=("flow.time[2]", "flow.seen[1]"))
    assert np.nanmax(whole.data["flow.time[2]"]) > 1.9
    assert simulate(scenario, threads=3).stats["digest"] == whole.stats["digest"]
    run = Run(scenario, record=("flow.time[2]", "flow.seen[1]"))
    run.advance(0.7)
    run.save(tmp_path / "half")
    resumed = resume(tmp_path / "half").advance().trajectory()
    assert resumed.stats["digest"] == whole.stats["digest"]
    np.testing.assert_array_equal(resumed.data["flow.time[2]"], whole.data["flow.time[2]"])


def test_captures_have_all_entries(tmp_path: Any) -> None:
    files = {2: tmp_path / "last.parquet"}
    simulate(Scenario(NETWORK, Collecting(), 0.5), capture=files)
    table = pd.read_parquet(files[2])
    assert {tuple(row) for row in table["header_link"]} == {(1, 2, 3)}
    times = np.stack(table["header_time"].tolist())
    assert times[:, 2] == pytest.approx(table["time"].to_numpy()) and (np.diff(times) > 0.007).all()
    packed = Collecting.wire_header({"hops": 2, "link": [4, 5, 0], "time": [0.5, 0.25, 0.0], "ends": (1.0, 2.0)}, False)
    assert packed.above == struct.pack("!4q5d", 2, 4, 5, 0, 0.5, 0.25, 0.0, 1.0, 2.0)
    simulate(Scenario(NETWORK, Collecting(), 0.5), capture={2: tmp_path / "last.pcapng"})
    assert (tmp_path / "last.pcapng").stat().st_size > 100 * len(table)


def test_frames_have_all_words_and_layouts_must_name_numbers() -> None:
    class Named(Collecting):
        @staticmethod
        def wire_fields(is_ack: bool) -> WireFields:
            return WireFields(RCPHeader, {"rate": "time"})

    found = formats(prepare(Scenario(NETWORK, Collecting(), 1.0)))
    assert found.formats["n_data"].tolist() == [1 + 3 + 3 + 2] == found.formats["n_ack"].tolist()
    with pytest.raises(TypeError, match="wire_fields of Named must name numbers, got the array time: without"):
        formats(prepare(Scenario(NETWORK, Named(), 1.0)))
