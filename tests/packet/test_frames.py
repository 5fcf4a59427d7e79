"""Packets as frames: what is on the wire is what captures and layouts say, and what is read is what was written."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_networks import PROTOCOLS
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import HANG

import ecc
from ecc import Flow, Link, Network
from ecc.errors import NativeError
from ecc.formats.headers import WireHeader
from ecc.models import EDN, RCP, VCP, XCP, MaxNet, NewReno
from ecc.native import Engine, Frames, Port
from ecc.packet import pcapng
from ecc.packet.c_engine import build_parts, joints_of
from ecc.packet.capture import _frame, _Region, description
from ecc.packet.dissector import dissector
from ecc.packet.frames import formats
from ecc.packet.partition import Joints
from ecc.packet.prepare import prepare
from ecc.packet.setup import Setup
from ecc.scenario import Scenario

TOKEN = bytes(range(16))
A, B = b"\x02ecc\x00\x01", b"\x02ecc\x00\x02"
CROSSING = struct.Struct("<6q")  # time, sent, offset, size, flow, hop
SHIM = struct.Struct("!4sIiiIQqqq")
LINKS = [Link("10 Mb/s", "5 ms", buffer="20 kB"), Link("10 Mb/s", "5 ms"), Link("10 Mb/s", "5 ms")]
FLOWS = [Flow([0, 1], reverse=[2]), Flow([0], packet_size=(300, 2500), access_delay="2 ms", reverse=[2])]
NETWORK = Network(LINKS, FLOWS)


@dataclass(frozen=True)
class ByHand(RCP):
    """RCP that writes its header as it likes."""

    @classmethod
    def wire_header(cls, header: Any, is_ack: bool) -> WireHeader:
        return WireHeader(b"by hand")


ALL = {**PROTOCOLS, "by hand": ByHand}


def of(protocol: Any, **options: Any) -> tuple[Setup, Engine, Frames]:
    """A prepared run, an engine of its network without hooks, and its frames."""
    setup = prepare(Scenario(NETWORK, protocol, 1.0))
    engine = Engine(setup.links[:3], setup.flows, setup.routes, header_size=setup.header_size)
    return setup, engine, Frames(engine, formats(setup), TOKEN, **options)


def ends() -> tuple[Port, Port]:
    return Port(A, B), Port(B, A)


def shim_of(frame: bytes) -> tuple[Any, ...]:
    found: tuple[Any, ...] = SHIM.unpack_from(frame, frame.index(b"ecc\x01"))
    return found


SOME = ("DCTCP", "EDN", "JetMax", "MaxNet", "PIQIRCP", "VCP", "XCP", "by hand")


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[] if name in SOME else pytest.mark.slow) for name in sorted(ALL)]
)
def kind(request: Any) -> tuple[Any, ...]:
    return of(ALL[request.param]())


@st.composite
def words(draw: Any, dtype: np.dtype[np.void]) -> bytes:
    """A header record with any values, most of them some that fields can have."""
    record = np.zeros(1, dtype)
    for name in dtype.names or ():
        if dtype[name].kind == "f":
            record[name] = draw(st.one_of(st.floats(0.0, 1e9), st.integers(0, 130), st.floats()))
        else:
            record[name] = draw(st.one_of(st.integers(-1, 260), st.integers(-(2**53), 2**53)))
    return record.tobytes()


def crossing_of(draw: Any, setup: Setup, frames: Frames, hop: int, header: bytes) -> bytes:
    size = draw(st.sampled_from([1, 40, 1000, 1460, 1461, 9000, 2**30, *([-1, -64, -(2**30)] if hop == 2 else [])]))
    time, sent, offset = (draw(st.integers(0, 4 * 10**18)) for _ in range(3))
    offset = min(offset, (2**63 - 1) // 4)
    rest = frames.crossing_size - CROSSING.size - len(header)
    return (
        CROSSING.pack(time, sent, offset, size, draw(st.integers(0, 1)), hop)
        + header
        + draw(st.binary(min_size=rest, max_size=rest))
    )


@pytest.mark.property
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_frame_is_what_captures_show_and_comes_back(kind: Any, data: Any) -> None:
    setup, _, frames = kind
    (part,) = [part for part in setup.parts if len(part.flows)]
    hop = data.draw(st.integers(-1, 2))
    header = data.draw(words(part.header))
    crossing = crossing_of(data.draw, setup, frames, hop, header)
    time, sent, offset, size, flow, _ = CROSSING.unpack_from(crossing)
    is_ack = hop >= setup.flows["n_forward"][flow]
    one, other = ends()
    frame = frames.write(one, crossing)

    # Ethernet, and a capture's IP packet as long as this one
    record = np.frombuffer(header, part.header) if header else np.zeros(1, part.header)
    found = dict(zip(part.header.names or (), record[0].tolist(), strict=True)) if header else {}
    ecn = 0
    if (setup.flows["ecn"] > 0).any():
        ecn = frame[15] & 3
        assert ecn == struct.unpack_from("<q", crossing, CROSSING.size + len(header))[0] & 3
    wire = part.protocol.wire_header(found, is_ack)
    if wire.above == b"by hand":
        wire = RCP.wire_header.__func__(ecc.models.Protocol, found, is_ack)
    on_link = -size if size < 0 else int(setup.flows["ack_size"][flow]) if is_ack else size  # < 0: a control packet
    shim_at = frame.index(b"ecc\x01", 34)
    n_words = shim_of(frame)[4]
    head = shim_at + SHIM.size + 8 * n_words + 8
    length = max(min(on_link, 1500), head - 14)
    expected, _ = _frame(_Region(part), wire, flow, int(is_ack), length, ecn, 0 if is_ack else offset)
    assert frame[:14] == B + A + b"\x08\x00"
    assert len(frame) == 14 + length and frame[14:shim_at] == expected
    assert shim_of(frame) == (b"ecc\x01", flow, hop, size, n_words, 1, time, sent, offset)
    assert frame[head:] == bytes(len(frame) - head)

    verdict, back = frames.read(other, frame)
    assert verdict == "taken" and back[: CROSSING.size] == crossing[: CROSSING.size]
    assert frames.write(Port(A, B), back) == frame
    # what the papers' header does not have is as it was, bit for bit
    fields = part.protocol.wire_fields(is_ack) if type(part.protocol) is not ByHand else None
    shown = set(fields.of.values()) if fields else set()
    for name in set(part.header.names or ()) - shown:
        its = part.header.fields[name][1] + CROSSING.size  # type: ignore[index]
        assert back[its : its + 8] == crossing[its : its + 8], name
    after = CROSSING.size + len(header) + (8 if (setup.flows["ecn"] > 0).any() else 0)
    assert back[after:] == crossing[after:]


@pytest.mark.property
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_exact_frames_lose_no_bit(kind: Any, data: Any) -> None:
    setup, engine, _ = kind
    frames = Frames(engine, formats(setup), TOKEN, exact=True)
    (part,) = [part for part in setup.parts if len(part.flows)]
    crossing = crossing_of(data.draw, setup, frames, data.draw(st.integers(-1, 2)), data.draw(words(part.header)))
    one, other = ends()
    verdict, back = frames.read(other, frames.write(one, crossing))
    if (setup.flows["ecn"] > 0).any():
        at = CROSSING.size + part.header.itemsize
        crossing = crossing[:at] + struct.pack("<q", crossing[at] & 3) + crossing[at + 8 :]
    assert (verdict, back) == ("taken", crossing)


def packets(protocol: Any) -> Iterator[tuple[Setup, Frames, bytes]]:
    """Some frames of a run."""
    setup, _, frames = of(protocol)
    for number in range(3):
        crossing = CROSSING.pack(10**12, 10**11, 1000 * number, 1000, 0, 0).ljust(frames.crossing_size, b"\x00")
        yield setup, frames, crossing


@pytest.mark.parametrize("protocol", [XCP(), MaxNet(), VCP(), EDN(), NewReno()], ids=lambda p: type(p).__name__)
def test_nothing_but_our_own_frames_is_taken(protocol: Any) -> None:
    one, other = ends()
    written = [frames.write(one, crossing) for _, frames, crossing in packets(protocol)]
    setup, engine, frames = of(protocol)
    frame = written[0]
    head = frame.index(b"ecc\x01", 34) + SHIM.size + 8 * shim_of(frame)[4] + 8

    def verdict(data: bytes, port: Port = other) -> str:
        return frames.read(port, data)[0]

    for size in range(len(frame)):
        assert verdict(frame[:size]) in ("truncated", "foreign")
    assert verdict(frame[: len(frame) - 1]) == "truncated" and verdict(b"") == "foreign"
    for bit in range(8 * head):  # altered anywhere
        altered = bytearray(frame)
        altered[bit // 8] ^= 1 << bit % 8
        assert verdict(bytes(altered)) in ("foreign", "forged", "truncated"), bit
    rng = np.random.default_rng(1)
    for _ in range(300):
        noise = rng.bytes(len(frame))
        assert verdict(noise) == "foreign"
        assert verdict(frame[:34] + noise[34:]) == "foreign"
        assert verdict(frame[: head - 8] + noise[head - 8 : head] + frame[head:]) == "forged"
    assert frames.read(other, frame[:head] + rng.bytes(len(frame) - head))[0] == "taken"  # zeros are not looked at
    assert verdict(frame) == "replayed"
    assert verdict(written[2]) == "taken"
    assert other.reordered == 0
    assert verdict(written[1]) == "taken"  # frames may overtake each other
    assert other.reordered == 1
    assert verdict(written[1]) == "replayed" and verdict(written[2]) == "replayed"
    assert verdict(frame, Port(A, B)) == "foreign"  # comes back to who has sent it
    stranger = Frames(engine, formats(setup), TOKEN[::-1])
    assert stranger.read(Port(B, A), frame)[0] == "forged"
    counts = other.verdicts
    assert counts["taken"] == 3 and counts["replayed"] == 3 and counts["wrong"] == 0
    assert sum(counts.values()) == len(frame) + 2 + 8 * head + 900 + 6 - 1 + 1
    assert one.written == 3


def test_a_frame_so_old_that_nobody_knows_is_a_replay() -> None:
    one, other = ends()
    ((_, frames, crossing), *_) = packets(XCP())
    written = [frames.write(one, crossing) for _ in range(300)]
    assert [frames.read(other, frame)[0] for frame in written[100:230]] == ["taken"] * 130
    assert frames.read(other, written[165])[0] == "replayed" and frames.read(other, written[50])[0] == "replayed"
    assert frames.read(other, written[299])[0] == "taken"
    assert [frames.read(other, written[k])[0] for k in (235, 236, 298)] == ["replayed", "taken", "taken"]


def tagged(frames: Frames, frame: bytes) -> bytes:
    """The frame with a right tag: what somebody writes who knows the token."""
    head = frame.index(b"ecc\x01", 34) + SHIM.size + 8 * shim_of(frame)[4]
    return frame[:head] + siphash(TOKEN, frame[:head]) + frame[head + 8 :]


def siphash(key: bytes, data: bytes) -> bytes:
    """SipHash-2-4, from its paper."""
    k0, k1 = struct.unpack("<QQ", key)
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]
    mask = 2**64 - 1

    def rotate(x: int, n: int) -> int:
        return (x << n | x >> 64 - n) & mask

    def rounds(n: int) -> None:
        for _ in range(n):
            for a, b, c, d, x, y in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
                v[a] = v[a] + v[b] & mask
                v[b] = rotate(v[b], x) ^ v[a]
                v[a] = rotate(v[a], 32)
                v[c] = v[c] + v[d] & mask
                v[d] = rotate(v[d], y) ^ v[c]

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) % 256])
    for (block,) in struct.iter_unpack("<Q", padded):
        v[3] ^= block
        rounds(2)
        v[0] ^= block
    v[2] ^= 0xFF
    rounds(4)
    return struct.pack("!Q", v[0] ^ v[1] ^ v[2] ^ v[3])


def test_the_tag_is_siphash_2_4() -> None:
    # the example in the appendix of Aumasson and Bernstein (2012)
    assert siphash(bytes(range(16)), bytes(range(15))).hex() == "a129ca6149be45e5"
    ((_, frames, crossing), *_) = packets(XCP())
    frame = frames.write(ends()[0], crossing)
    assert tagged(frames, frame) == frame


@pytest.mark.parametrize(
    ("at", "value"),
    [
        pytest.param(14 + 1, b"\x04", id="service"),
        pytest.param(14 + 6, b"\x00", id="fragment"),
        pytest.param(14 + 8, b"\x3f", id="time to live"),
        pytest.param(14 + 10, b"\x00\x00", id="checksum"),
        pytest.param(14 + 3, b"\x8c", id="length"),
        pytest.param(14 + 16, b"\x0b", id="receiver's address"),
        pytest.param(34 + 1, b"\x15", id="a constant field"),
        pytest.param(34 + 8, b"\x7f\xc0\x00\x00", id="NaN"),
        pytest.param(34 + 8, b"\xbf\x80\x00\x00", id="a value out of range"),
        pytest.param(54 + 4, b"\x00\x00\x00\x01", id="flow"),
        pytest.param(54 + 4, b"\xff\xff\xff\xff", id="no flow"),
        pytest.param(54 + 8, b"\x00\x00\x00\x02", id="hop of an ACK"),
        pytest.param(54 + 8, b"\x00\x01\x00\x00", id="no hop"),
        pytest.param(54 + 12, b"\x00\x00\x00\x00", id="no data"),
        pytest.param(54 + 12, b"\x40\x00\x00\x01", id="too much data"),
        pytest.param(54 + 20, bytes(8), id="frame number 0"),
        pytest.param(54 + 28, b"\xff", id="time"),
        pytest.param(54 + 36, b"\x7f", id="sent"),
        pytest.param(54 + 44, b"\x7f", id="offset"),
    ],
)
def test_who_knows_the_token_cannot_say_what_no_frame_says(at: int, value: bytes) -> None:
    ((_, frames, crossing), *_) = packets(XCP())
    one, other = ends()
    frame = frames.write(one, crossing)
    altered = tagged(frames, frame[:at] + value + frame[at + len(value) :])
    assert altered != frame and frames.read(other, altered)[0] in ("wrong", "replayed")
    assert frames.read(other, frame)[0] == "taken"


def cut_in_two(setup: Setup, scenario: Scenario) -> tuple[list[Engine], Joints, np.ndarray]:
    """The engines of what is at the first link (a receiver with `on_receive` is at its sender), and of all else.

    With the joints of the network, and the parts of their nodes.
    """
    of_all = joints_of(setup)
    groups = of_all.groups(10**9)
    parts = np.where(groups == groups[0], 0, 1)
    return build_parts([setup, setup], scenario, of_all, parts)[0], of_all, parts


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        *(
            pytest.param(name, True, marks=[] if name in ("XCP", "NewReno", "DCQCN") else pytest.mark.slow)
            for name in sorted(PROTOCOLS)
        ),
        *((name, False) for name in ("EDN", "PEDN", "VCP")),  # their headers are whole numbers
    ],
)
def test_parts_joined_by_frames_are_the_whole(name: str, exact: bool) -> None:
    scenario = Scenario(NETWORK, PROTOCOLS[name](), 1.5, seed=3)
    whole = ecc.packet.simulate(scenario, trace=100_000)
    setup = prepare(scenario)
    engines, of_all, parts = cut_in_two(setup, scenario)
    frames = [Frames(engine, formats(setup), TOKEN, exact=exact) for engine in engines]
    ports = ends()
    step = min(engine.lookahead for engine in engines)
    count = 0
    for k in range(1, int(1.5 / step) + 2):
        for engine in engines:
            engine.advance(min(k * step - 1e-12, 1.5))
        for a in (0, 1):
            leaving = engines[a].take_leaving(1 - a)
            for at in range(0, len(leaving), frames[a].crossing_size):
                frame = frames[a].write(ports[a], leaving[at : at + frames[a].crossing_size])
                verdict, crossing = frames[1 - a].read(ports[1 - a], frame)
                assert verdict == "taken" and crossing == leaving[at : at + frames[a].crossing_size]
                engines[1 - a].enter(crossing)
                count += 1
    # What is acknowledged has gone, as a packet or as its ACK, over all joints of its flow that are cut.
    events = whole.trace
    acks, timers = (
        np.bincount(events["entity"][events["event"] == kind], minlength=len(FLOWS)) for kind in ("ack", "timer")
    )
    if (
        "on_report" in scenario.protocol.flow_hooks()
    ):  # their arrivals are events of ACKs, but they cross no data joints
        acks = acks - timers
    cuts = np.bincount(of_all.flows[parts[of_all.begins] != parts[of_all.ends]], minlength=len(FLOWS))
    assert len(events) < 100_000 and cuts[0] >= 2
    assert count >= acks @ cuts > 0
    assert (engines[0].stats.digest + engines[1].stats.digest) % 2**64 == whole.stats["digest"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda given, engine: Frames(engine, given, b"short"), "token must have 16 bytes, got 5"),
        (lambda given, engine: Port(b"short", A), "local must be an address of 6 bytes, got b'short'"),
        (
            lambda given, engine: Frames(engine, replace(given, format_of=np.zeros(1, np.int64)), TOKEN),
            "format_of must have 2 entries, got 1",
        ),
        (
            lambda given, engine: Frames(engine, given, TOKEN).write(Port(A, B), b"x"),
            "crossing must have .* bytes, got 1",
        ),
        (
            lambda given, engine: Frames(engine, given, TOKEN).write(
                Port(A, B), CROSSING.pack(0, 0, 0, 0, 0, 0).ljust(Frames(engine, given, TOKEN).crossing_size, b"\x00")
            ),
            "crossing must be one of this engine's packets",
        ),
    ],
)
def test_what_python_refuses(change: Any, message: str) -> None:
    setup, engine, _ = of(XCP())
    with pytest.raises(ValueError, match=message):
        change(formats(setup), engine)


@pytest.mark.parametrize(
    "change",
    [
        lambda given: given.format_of.fill(1),
        lambda given: given.format_of.fill(-1),
        lambda given: given.formats["place"].fill(9),
        lambda given: given.formats["place"].fill(2),
        lambda given: given.formats["place"].fill(1),
        lambda given: given.formats["n_data"].fill(99),
        lambda given: given.formats["n_ack"].fill(-1),
        lambda given: given.fields["width"].fill(7),
        lambda given: given.fields["width"].fill(0),
        lambda given: given.fields["kind"].fill(5),
        lambda given: given.fields["word"].fill(40),
        lambda given: given.fields["factor"].fill(float("nan")),
        lambda given: given.fields["high"].fill(float("inf")),
        lambda given: given.fields["low"].fill(-1e300),
        lambda given: given.fields["bits"].fill(2**40),
        lambda given: given.fields["shift"].fill(2),
        lambda given: given.fields["word"].fill(0),
    ],
)
def test_formats_that_do_not_fit_are_refused(change: Any) -> None:
    setup, engine, _ = of(XCP())
    given = formats(setup)
    change(given)
    with pytest.raises(
        NativeError,
        match="frames must have flows, at most 2.23, and no transfers, formats with different words of their",
    ):
        Frames(engine, given, TOKEN)


@pytest.mark.parametrize("mtu", [0, 100, 65536])
def test_an_mtu_that_no_frame_fits_is_refused(mtu: int) -> None:
    setup, engine, _ = of(XCP())
    with pytest.raises(NativeError, match="an MTU from 1 to 65535 bytes, at most 2048 bytes of headers"):
        Frames(engine, formats(setup), TOKEN, mtu=mtu)


def test_transfers_have_no_frames() -> None:
    setup, _, _ = of(XCP())
    engine = Engine(
        setup.links[:3], setup.flows[:1], setup.routes, header_size=setup.header_size, templates=setup.flows[1:]
    )
    given = replace(formats(setup), format_of=np.zeros(1, np.int64))
    with pytest.raises(NativeError, match="at most 2.23, and no transfers"):
        Frames(engine, given, TOKEN)


SHOWN = ["XCP", "RCP", "PIQIRCP", "JetMax", "MaxNet", "EDN", "PEDN", "VCP", "UTIL", "NewReno", "Kelly"]


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark (Debian: tshark)")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("XCP", "MaxNet", "EDN") else pytest.mark.slow) for name in SHOWN]
)
def test_tshark_shows_headers_and_what_the_engine_needs(tmp_path: Path, name: str) -> None:
    setup, _, frames = of(PROTOCOLS[name]())
    (part,) = setup.parts
    one, _ = ends()
    data = pcapng.section() + pcapng.interface(pcapng.ETHERNET, "node 0 to node 1", description(part), 1e9)
    rows: list[tuple[Any, ...]] = []
    for number in range(6):
        header = np.zeros(1, part.header)
        for k, field in enumerate(part.header.names or ()):
            header[field] = number + k
        flow, hop = number % 2, number % 3
        crossing = CROSSING.pack(3 * 10**12 + number, 2 * 10**12 + number, 2**40 + number, 100 + number, flow, hop)
        frame = frames.write(one, crossing + header.tobytes().ljust(frames.crossing_size - CROSSING.size, b"\x01"))
        data += pcapng.packet(0, number, frame, len(frame))
        is_ack = hop >= setup.flows["n_forward"][flow]
        record = dict(zip(part.header.names or (), header[0].tolist(), strict=True))
        rows.append((flow, hop, number, frame, part.protocol.wire_header(record, is_ack)))
    path, script = tmp_path / "x.pcapng", tmp_path / "ecc.lua"
    path.write_bytes(data)
    script.write_text(dissector())
    layout = rows[0][-1].layout
    of_header = [] if layout is None else [f"ecc.{layout.short_name()}.{field}" for field in layout.layout()]
    of_shim = ["flow", "hop", "size", "number", "time", "sent", "offset", "n_words", "words", "tag"]
    fields = [*(f"ecc.shim.{field}" for field in of_shim), "ecc.truncated", "ecc.invalid", *of_header]
    wanted = [part for field in fields for part in ("-e", field)]
    done = subprocess.run(
        ["tshark", "-X", f"lua_script:{script}", "-r", str(path), "-T", "fields", "-E", "separator=;", *wanted],
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0 and "Lua" not in done.stderr + done.stdout, done.stderr
    found = [line.split(";") for line in done.stdout.splitlines()]
    assert len(found) == len(rows)
    for values, (flow, hop, number, frame, wire) in zip(found, rows, strict=True):
        n_words = shim_of(frame)[4]
        at = frame.index(b"ecc\x01", 34) + SHIM.size
        numbers = [
            flow,
            hop,
            100 + number,
            number + 1,
            3 * 10**12 + number,
            2 * 10**12 + number,
            2**40 + number,
            n_words,
        ]
        assert [int(value) for value in values[:8]] == numbers
        assert bytes.fromhex(values[8]) == frame[at : at + 8 * n_words]
        assert bytes.fromhex(values[9]) == frame[at + 8 * n_words : at + 8 * n_words + 8]
        assert values[10:12] == ["", ""]
        if layout is None:
            continue
        place = {"above": wire.above, "option": wire.option, "service": bytes([wire.service])}
        raw = place.get(layout.place, wire.fragment.to_bytes(2, "big"))
        header = layout.decode(raw if layout.place != "option" else bytes([raw[0], raw[1] - 2, *raw[2:]]))
        for field, value in zip(layout.layout(), values[12:], strict=True):
            expected = 8 if (layout.place, field) == ("option", "length") else getattr(header, field)
            assert float(value) == pytest.approx(expected, rel=1e-9), field
