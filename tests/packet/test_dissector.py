"""The Wireshark dissector: what tshark shows of each header in captures is what the header holds."""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import dataclass

import pytest
from waiting import HANG

from ecc import Flow, Link, Network, Scenario
from ecc.cli import main
from ecc.models import EDN, PEDN, PIQIRCP, RCP, UTIL, VCP, XCP, JetMax, MaxNet, NewReno
from ecc.models.edn import EDNField
from ecc.models.jetmax import JetMaxHeader
from ecc.models.maxnet import MaxNetOption
from ecc.models.piqi_rcp import PIQIRCPHeader
from ecc.models.rcp import RCPHeader
from ecc.models.vcp import VCPField
from ecc.models.xcp import XCPHeader
from ecc.packet import simulate
from ecc.packet.dissector import dissector, headers

HEADERS = {
    XCP: XCPHeader,
    RCP: RCPHeader,
    PIQIRCP: PIQIRCPHeader,
    JetMax: JetMaxHeader,
    MaxNet: MaxNetOption,
    EDN: EDNField,
    PEDN: EDNField,
    VCP: VCPField,
    UTIL: VCPField,
}
LINKS = [Link("5 Mb/s", "5 ms", buffer="30 kB"), Link("5 Mb/s", "5 ms")]
NETWORK = Network(LINKS, [Flow([0], reverse=[1]), Flow([0], reverse=[1], access_delay="3 ms")])
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark (Debian: tshark)")
every_protocol = pytest.mark.parametrize(
    "protocol",
    [pytest.param(p, marks=[] if p in (XCP, MaxNet, VCP) else pytest.mark.slow, id=p.__name__) for p in HEADERS],
)


@dataclass(frozen=True)
class ReliableRCP(RCP):
    transport: str = "sack"


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("lua") / "ecc.lua"
    path.write_text(dissector())
    return path


def captured(folder, protocol):
    """Files of data and of ACKs."""
    duration = 1.5 if isinstance(protocol, JetMax) else 0.3
    files = {k: folder / f"{k}.pcapng" for k in (0, 1)}
    simulate(Scenario(NETWORK, protocol, duration), sample=duration, capture=files)
    return list(files.values())


def tshark(script, path, *arguments):
    done = subprocess.run(
        ["tshark", "-X", f"lua_script:{script}", "-r", str(path), *arguments],
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0 and "Lua" not in done.stderr + done.stdout, done.stderr
    return done.stdout


def shown(script, path, fields, *arguments):
    """Rows of what tshark shows of these fields."""
    wanted = [part for name in fields for part in ("-e", name)]
    found = tshark(script, path, *arguments, "-T", "fields", "-E", "separator=;", *wanted)
    return [line.split(";") for line in found.splitlines()]


def blocks(data):
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        yield kind, data[at + 8 : at + size - 4]
        at += size


def block(kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def frames(path):
    for kind, body in blocks(path.read_bytes()):
        if kind == 6:
            yield body[20 : 20 + struct.unpack_from("<I", body, 12)[0]]


def rewritten(path, change):
    """The capture with other bytes of each packet, whose original length stays."""
    out, count = b"", 0
    for kind, body in blocks(path.read_bytes()):
        if kind == 6:
            interface, high, low, n, length = struct.unpack_from("<IIIII", body)
            frame = change(count, body[20 : 20 + n])
            body = struct.pack("<IIIII", interface, high, low, len(frame), length) + frame
            count += 1
        out += block(kind, body)
    path.write_bytes(out)


def bytes_of(kind, frame):
    """The header in a frame, by hand."""
    if kind is VCPField:
        return frame[1:2]
    if kind is EDNField:
        return frame[6:8]
    if kind is MaxNetOption:
        assert frame[9] == 6 and frame[40:42] == bytes([42, 8])
        return bytes([42, 6]) + frame[42:48]
    return frame[20:]


def test_the_record_has_every_header_of_a_capture():
    assert set(headers()) == set(HEADERS.values())


def test_the_command_line_prints_it(capsys):
    assert main(["dissector"]) == 0
    assert capsys.readouterr().out == dissector()


@pytest.mark.slow
@needs_tshark
@every_protocol
def test_every_field_has_its_name_and_its_value(tmp_path, script, protocol):
    kind = HEADERS[protocol]
    names = list(kind.layout())
    seen = set()
    for path in captured(tmp_path, protocol()):
        fields = [f"ecc.{kind.short_name()}.{name}" for name in names]
        rows = shown(script, path, [*fields, "ecc.truncated", "ecc.invalid"])
        whole = list(frames(path))
        assert len(rows) == len(whole) > 20
        for row, frame in zip(rows, whole, strict=True):
            header = kind.decode(bytes_of(kind, frame))
            assert row[-2:] == ["", ""]
            for name, text in zip(names, row[:-2], strict=True):
                value = 8 if (kind, name) == (MaxNetOption, "length") else getattr(header, name)
                assert float(text) == pytest.approx(value, rel=1e-9)
                seen |= {name} if value else set()
    assert seen & {"rtt", "rate", "price", "echo", "load", "forward", "loss", "delta"}


@needs_tshark
def test_values_have_units(tmp_path, script):
    data, _ = captured(tmp_path, XCP())
    text = tshark(script, data, "-V")
    header = XCPHeader.decode(list(frames(data))[-1][20:])
    rows = text[text.rindex("XCP header") :].splitlines()
    for name, value, unit in (("rtt", header.rtt, "s"), ("delta", header.delta, "bit/s"), ("length", 20, "")):
        line = next(row.strip() for row in rows if row.strip().startswith(f"{name}:"))
        found, *rest = line.split(": ")[1].split(" ")
        assert float(found) == pytest.approx(value, rel=1e-5) and "".join(rest) == unit


@needs_tshark
def test_a_capture_of_several_protocols_names_each(tmp_path, script):
    """Two bits of the IP header are VCP's or ECN, by the interface of a packet."""
    path = tmp_path / "0.pcapng"
    protocol = {"flows": {0: VCP(), 1: NewReno(ecn=True)}}
    simulate(Scenario(NETWORK, protocol, 0.3), sample=0.3, capture={0: path})
    rows = shown(script, path, ["ip.src", "ecc.vcp.load", "frame.interface_description"])
    assert {row[0] for row in rows} == {"10.0.0.0", "10.0.0.1"}
    for source, load, about in rows:
        assert (load != "") == (source == "10.0.0.0")
        assert about == ("VCP (ecc.vcp)" if load else "NewReno (ecc)")


@needs_tshark
def test_with_a_transport_a_header_is_the_data_of_tcp(tmp_path, script):
    data, _ = captured(tmp_path, ReliableRCP())
    rows = shown(script, data, ["ip.proto", "ecc.rcp.rate", "ecc.rcp.length"])
    assert {row[0] for row in rows} == {"6"} and {row[2] for row in rows} == {"16"}


@needs_tshark
@every_protocol
def test_truncated_packets_are_malformed(tmp_path, script, protocol):
    """Cut after any byte; where the IP header is whole and says what is above, nothing of it is too little."""
    data, _ = captured(tmp_path, protocol())
    kind = HEADERS[protocol]
    sizes = []

    def cut(number, frame):
        sizes.append(number % (len(frame) + 1))
        return frame[: sizes[-1]]

    rewritten(data, cut)
    start = {"option": 40, "above": 20}.get(kind.place)
    rows = shown(script, data, ["frame.number", "ecc.truncated", "ecc.invalid"])
    assert len(rows) == len(sizes) > 40
    for row, size in zip(rows, sizes, strict=True):
        is_cut = start is not None and start + (kind.place == "option") <= size < start + kind.size()
        assert (row[1] != "") == is_cut and not row[2]


@needs_tshark
def test_values_that_a_header_cannot_have_are_malformed(tmp_path, script):
    data, _ = captured(tmp_path, XCP())
    rewritten(data, lambda number, frame: frame[:21] + bytes([19 + number % 2]) + frame[22:])
    rows = shown(script, data, ["ecc.xcp.length", "ecc.invalid"])
    assert "[Expert Info (Error/Malformed): length of XCP header cannot be 19]" in tshark(script, data, "-V", "-c", "1")
    assert {row[0] for row in rows} == {"19", "20"}
    assert all((row[1] != "") == (row[0] == "19") for row in rows)


@pytest.mark.slow
@needs_tshark
@pytest.mark.parametrize(("protocol", "name"), [(VCP(), "vcp.load"), (EDN(), "edn.forward"), (XCP(), "xcp.length")])
def test_captures_that_name_no_protocol(tmp_path, script, protocol, name):
    """A header above IP is known by its length; a preference says what is in the fields of the IP header."""
    data, _ = captured(tmp_path, protocol)
    (_, section), *rest = blocks(data.read_bytes())
    kept = [block(0x0A0D0D0A, section), block(1, struct.pack("<HHI", 101, 0, 0))]
    data.write_bytes(b"".join([*kept, *(block(kind, body) for kind, body in rest if kind == 6)]))
    is_above = name == "xcp.length"
    assert {row[0] != "" for row in shown(script, data, [f"ecc.{name}"])} == {is_above}
    if not is_above:
        told = shown(script, data, [f"ecc.{name}"], "-o", f"ecc.ip:{name.split('.')[0]}")
        assert all(row[0] for row in told)
