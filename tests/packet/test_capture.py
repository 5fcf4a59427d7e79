"""What links send, in files that other tools read: every packet, its size and time, and its header as bytes."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from pcapng_blocks import blocks

from ecc import Arrivals, Flow, Link, Network, Scenario, Workload
from ecc.errors import EccError, NativeError
from ecc.models import EDN, PEDN, PIQIRCP, RCP, UTIL, VCP, XCP, ConstantRate, JetMax, Kelly, MaxNet
from ecc.models.edn import EDNField
from ecc.models.jetmax import JetMaxHeader
from ecc.models.maxnet import MaxNetOption
from ecc.models.piqi_rcp import PIQIRCPHeader
from ecc.models.rcp import RCPHeader
from ecc.models.vcp import VCPField
from ecc.models.xcp import XCPHeader
from ecc.network.impairments import RandomLoss
from ecc.packet import Run, simulate

LINKS = [Link("10 Mb/s", "5 ms", buffer="20 kB"), Link("10 Mb/s", "5 ms")]
NETWORK = Network(LINKS, [Flow([0], reverse=[1]), Flow([0], reverse=[1], packet_size=(300, 1500))])


def packets(path):
    """Time [s], original length and bytes of each packet of a pcapng file."""
    (first, _), *rest = blocks(path)
    interfaces = [body for kind, body in rest if kind == 1]
    assert first == 0x0A0D0D0A and interfaces and all(body[:2] == b"\x65\x00" for body in interfaces)
    for kind, body in rest[len(interfaces) :]:
        number, high, low, captured, length = struct.unpack_from("<IIIII", body)
        assert kind == 6 and number < len(interfaces)
        yield (high * 2**32 + low) * 1e-9, length, body[20 : 20 + captured]


def test_every_packet_with_its_header(tmp_path):
    files = {k: tmp_path / f"{k}.pcapng" for k in (0, 1)}
    scenario = Scenario(NETWORK, XCP(), 1.0, seed=4)
    run, plain = Run(scenario, capture=files), simulate(scenario)
    run.advance(0.5)
    assert len(blocks(files[0])) > 300  # written as the run continues
    seen = run.advance().trajectory()
    assert (seen.rate == plain.rate).all() and (seen.queue == plain.queue).all() and seen.flows.equals(plain.flows)
    simulate(scenario, capture={0: str(tmp_path / "0.parquet"), 1: str(tmp_path / "1.parquet")})
    sent = run._engine.link_results["departed"]
    for k, path in files.items():
        table, found = pd.read_parquet(path.with_suffix(".parquet")), list(packets(path))
        assert len(found) == len(table) and sum(length for _, length, _ in found) == table["size"].sum() == sent[k]
        assert [time for time, *_ in found] == pytest.approx(table["time"].tolist(), abs=1e-9)
        assert set(table["protocol"]) == {"XCP"} and (table["ack"] == (k == 1)).all()
        for (_, length, frame), row in zip(found, table.itertuples(), strict=True):
            first, _, total, _, fragment, _, protocol, _ = struct.unpack_from("!BBHHHBBH", frame)
            assert (first, total, fragment, protocol) == (0x45, length, 0x4000, 253)
            ends = [b"\x0a\x00\x00" + bytes([row.flow]), b"\x0a\x80\x00" + bytes([row.flow])]
            assert [frame[12:16], frame[16:20]] == (ends[::-1] if k else ends)
            header = XCPHeader.decode(frame[20:])
            assert header.rtt == pytest.approx(row.header_rtt, abs=5.1e-4)
            assert (header.reverse if k else header.delta) == pytest.approx(row.header_feedback, rel=1e-6)
    assert table["header_feedback"].abs().max() > 1e4 and table["header_rtt"].max() > 0.01


def test_what_is_dropped_is_not_there_but_what_the_wire_loses_is(tmp_path):
    files = {0: tmp_path / "some.parquet"}
    small = Network([Link("1 Mb/s", "5 ms", buffer=2000)], [Flow([0])])
    lossy = Scenario(small, ConstantRate("2 Mb/s"), 1.0, impairments=[RandomLoss(0.5, link=0)])
    run = simulate(lossy, capture=files)
    assert run.drops.sum() > 100
    table = pd.read_parquet(files[0])
    assert len(table) == pytest.approx(125, abs=2) and run.goodput.mean() < 0.6e6
    assert table.columns.tolist() == ["time", "flow", "ack", "size", "ecn", "protocol"]
    assert np.diff(table["time"]) == pytest.approx(0.008)


def test_transfers_and_several_protocols(tmp_path):
    mix = {"flows": {0: XCP(), "default": RCP()}}
    mice = Workload(arrivals=[Arrivals([0], 0.02, 3000)])
    files = {0: tmp_path / "some.parquet"}
    simulate(Scenario(NETWORK, mix, 1.0, workload=mice, header_bytes=True), capture=files)
    table = pd.read_parquet(files[0])
    assert set(table["protocol"][table["flow"] == 0]) == {"XCP"} and set(table["protocol"][table["flow"] > 0]) == {
        "RCP"
    }
    assert table["header_feedback"].notna().equals(table["flow"] == 0) and (table["flow"] > 1).sum() > 100
    assert set(table["size"][table["flow"] == 0]) == {60, 1020}  # with the header of XCP


@pytest.mark.parametrize(
    ("capture", "error", "message"),
    [
        ({2: "x.pcapng"}, ValueError, "capture must name links from 0 to 1, got 2"),
        (
            {True: "x.pcapng"},
            TypeError,
            "capture must be a mapping, each key a whole number, each value a path or None, got {True: ",
        ),
        (
            {0: 3},
            TypeError,
            "capture must be a mapping, each key a whole number, each value a path or None, got {0: 3}",
        ),
        ({0: "x.pcap"}, ValueError, r"capture must be files .pcapng or .parquet, got 'x.pcap' \(link 0\)"),
    ],
)
def test_what_is_refused(capture, error, message):
    with pytest.raises(error, match=message):
        Run(Scenario(NETWORK, XCP(), 1.0), capture=capture)


@pytest.mark.parametrize("suffix", [".pcapng", ".parquet"])
def test_no_file_is_touched_before_the_run_advances(tmp_path, suffix):
    path, scenario = tmp_path / f"x{suffix}", Scenario(NETWORK, XCP(), 0.2)
    path.write_bytes(b"finished data")
    for options in ({"engine": "python"}, {"engine": "none"}, {"memory_limit": 10}):
        with pytest.raises((ValueError, NativeError)):
            Run(scenario, capture={0: path}, **options)
    run = Run(scenario, capture={0: path})
    assert path.read_bytes() == b"finished data"
    run.advance()
    assert len(path.read_bytes()) > 200
    with pytest.raises(OSError, match="No such file"):
        Run(scenario, capture={0: tmp_path / "none" / path.name}).advance()


def test_every_output_has_a_file_of_its_own(tmp_path):
    path, scenario = tmp_path / "x.parquet", Scenario(NETWORK, XCP(), 0.2)
    text = r"capture must have a separate file for each link, got '.*x.parquet' \(links 0 and 1\)"
    with pytest.raises(ValueError, match=text):
        Run(scenario, capture={0: path, 1: tmp_path / "." / "x.parquet"})
    with pytest.raises(ValueError, match="flows_to must differ from the files of capture, got '.*x.parquet'"):
        Run(scenario, capture={0: path}, flows_to=path)
    run = Run(scenario, flows_to=path).advance(0.1)
    with pytest.raises(ValueError, match="path must differ from the file of flows_to, got '.*x.parquet'"):
        run.save(path)
    run.close()


def test_captures_end_with_the_run(tmp_path, monkeypatch):
    run = Run(Scenario(NETWORK, XCP(), 1.0), capture={0: tmp_path / "x.parquet"}).advance(0.2)
    with pytest.raises(ValueError, match="^save needs a run of engine='c', without capture$"):
        run.save(tmp_path / "run.ckpt")
    run.close()
    assert len(pd.read_parquet(tmp_path / "x.parquet")) > 30 and run.advance().now == pytest.approx(0.2)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        EccError,
        match=r"capture to .parquet needs pyarrow, which is not installed: pip install 'congestion-control\[parquet\]'",
    ):
        Run(Scenario(NETWORK, XCP(), 1.0), capture={0: tmp_path / "y.parquet"})


@dataclass(frozen=True)
class Streamed(ConstantRate):
    """Traffic at a constant rate that repairs its losses, so that it is TCP to others."""

    transport = "sack"


def tshark(path, *fields):
    """Fields of each packet as tshark sees them, and what it has against them."""
    names = [*fields, "_ws.expert.message"]
    wanted = [word for name in names for word in ("-e", name)]
    done = subprocess.run(
        [
            "tshark",
            "-r",
            path,
            "-T",
            "json",
            "-o",
            "ip.check_checksum:TRUE",
            "-o",
            "tcp.analyze_sequence_numbers:FALSE",
            *wanted,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return [{name: one["_source"]["layers"].get(name, [""])[0] for name in names} for one in json.loads(done.stdout)]


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("protocol", [XCP(), RCP(), PIQIRCP(update="rtt"), JetMax(), MaxNet(), Kelly(), Streamed(4e6)])
def test_tshark_reads_it(protocol, tmp_path):
    kinds = {"XCP": XCPHeader, "RCP": RCPHeader, "PIQIRCP": PIQIRCPHeader}
    kinds |= {"JetMax": JetMaxHeader}
    name = type(protocol).__name__
    for link in (0, 1):
        path, table = tmp_path / f"{link}.pcapng", tmp_path / f"{link}.parquet"
        scenario = Scenario(NETWORK, protocol, 1.0)
        simulate(scenario, capture={link: path})
        simulate(scenario, capture={link: table})
        rows = pd.read_parquet(table)
        fields = ("frame.time_epoch", "frame.len", "ip.src", "ip.len", "ip.proto", "ip.checksum.status", "data")
        found = tshark(path, *fields, "tcp.options")
        assert len(found) == len(rows) > 10
        assert {one["_ws.expert.message"] for one in found} <= {""}
        assert {one["ip.checksum.status"] for one in found} == {"1"}  # good
        least = 20 + ({"MaxNet": 28, "Streamed": 20, "Kelly": 24}.get(name) or kinds[name].size())
        assert [int(one["frame.len"]) for one in found] == [max(size, least) for size in rows["size"]]
        assert [float(one["frame.time_epoch"]) for one in found] == pytest.approx(rows["time"].tolist(), abs=2e-9)
        assert {one["ip.proto"] for one in found} == {"6" if name in ("MaxNet", "Streamed") else "253"}
        side = "10.128.0" if link else "10.0.0"
        assert [one["ip.src"] for one in found] == [f"{side}.{flow}" for flow in rows["flow"]]
        for one, row in zip(found, rows.itertuples(), strict=True):
            if name == "MaxNet":
                kind, size, *rest = bytes.fromhex(one["tcp.options"].replace(":", ""))
                assert (kind, size) == (42, 8)
                option = MaxNetOption.decode(bytes([kind, 6, *rest]))
                price = min(row.header_price, (2**24 - 1) * 1e-6)
                assert (option.echo if link else option.price) == pytest.approx(price, abs=5.1e-7)
            elif name in kinds:
                header = kinds[name].decode(bytes.fromhex(one["data"].replace(":", "")))
                if name in ("RCP", "PIQIRCP"):
                    assert (header.reverse if link else header.rate) == pytest.approx(row.header_rate, rel=1e-6)
            elif name == "Kelly":
                assert struct.unpack("!ddq", bytes.fromhex(one["data"].replace(":", "")))[0] == row.header_price


def test_fields_in_the_ip_header():
    edn = EDN.wire_header({"forward": 3.4, "reverse": 500.0}, False)
    field = EDNField.decode(edn.fragment.to_bytes(2, "big"))
    assert (field.forward, field.reverse) == (3, 127)  # 7 bits each
    assert PEDN.wire_fields is EDN.wire_fields and UTIL.wire_fields is VCP.wire_fields
    assert VCPField.decode(bytes([VCP.wire_header({"load": 2}, True).service])).load == 2
