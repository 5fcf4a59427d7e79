"""Headers as bytes: sizes, layouts by hand, round trips, refusals."""

import math
import struct
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecc.formats.headers import CongestionHeader, number_field
from ecc.models import PIQIRCP, RCP, XCP, JetMax, MaxNet
from ecc.models.edn import EDNField
from ecc.models.jetmax import JetMaxHeader, JetMaxTransportHeader
from ecc.models.maxnet import MaxNetOption
from ecc.models.piqi_rcp import PIQIRCPHeader
from ecc.models.rcp import RCPHeader
from ecc.models.vcp import VCPField
from ecc.models.xcp import XCPHeader

HEADERS = [XCPHeader, JetMaxHeader, RCPHeader, PIQIRCPHeader, JetMaxTransportHeader, MaxNetOption, EDNField, VCPField]
every_header = pytest.mark.parametrize("kind", HEADERS, ids=lambda kind: kind.__name__)


@pytest.mark.claim
def test_hdr_sizes():
    """EVAL sec. 3.4: 20, 32, 16, 24 bytes, 12, 20, 8, 13 one way; JETMAX 6.6: 28; MAXNET fig. 3: 8."""
    kinds = (XCPHeader, JetMaxHeader, RCPHeader, PIQIRCPHeader)
    assert [kind.size() for kind in kinds] == [20, 32, 16, 24]
    assert [kind.size(one_way=True) for kind in kinds] == [12, 20, 8, 13]
    assert JetMaxTransportHeader.size() == 28
    assert MaxNetOption.size() == 8
    for protocol, kind in (
        (XCP, XCPHeader),
        (JetMax, JetMaxHeader),
        (RCP, RCPHeader),
        (PIQIRCP, PIQIRCPHeader),
        (MaxNet, MaxNetOption),
    ):
        assert protocol.header_bytes == (kind.size(), kind.size())


@every_header
def test_lengths_are_told(kind):
    told = [wire.constant for name, wire in kind.layout().items() if name == "length"]
    assert told == {JetMaxTransportHeader: [], MaxNetOption: [kind.size() - 2], EDNField: [], VCPField: []}.get(
        kind, [kind.size()]
    )


def test_layouts_by_hand():
    xcp = XCPHeader(rtt=0.12, spacing=0.0005, delta=8e6, reverse=-80_000.0)
    assert xcp.encode() == bytes([6, 20, 1, 0]) + struct.pack("!Ifff", 120, 0.5, 1000.0, -10.0)
    piqi = PIQIRCPHeader(rate=8e6, rtt=0.3, router=7, interval_number=258, reverse_interval_number=3)
    assert piqi.encode() == bytes([6, 24, 1, 7]) + struct.pack("!fIfII", 1000.0, 300, 0.0, 258, 3)
    jetmax = JetMaxHeader(bottleneck=1, hop=2, suggested=3, reverse_suggested=4, loss=0.25, proposed_size=1500.0)
    assert jetmax.encode()[:8] == bytes([6, 32, 1, 0, 1, 2, 3, 4])
    assert jetmax.encode()[8:] == struct.pack("!ffffff", 0.25, 0, 1500, 0, 0, 0)
    assert MaxNetOption(echo=0.001, price=65536e-6).encode() == bytes([42, 6, 0, 3, 232, 1, 0, 0])
    assert RCPHeader.decode(bytes([17, 16, 1, 0]) + struct.pack("!fIf", 1.0, 50, 2.0)) == RCPHeader(
        protocol=17, rate=8e3, rtt=0.05, reverse=16e3
    )


def test_fields_of_the_ip_header_by_hand():
    """Flags 010, then the offset: the flag for more fragments is the highest bit of D_r."""
    assert EDNField(forward=3, reverse=2).encode() == bytes([0b0100_0001, 0b0000_0011])
    assert EDNField(reverse=64).encode() == bytes([0b0110_0000, 0])
    assert EDNField.decode(bytes([0b0111_1111, 0b1111_1111])) == EDNField(forward=127, reverse=127)
    assert EDNField.size() == 2
    assert VCPField(service=46, load=3).encode() == bytes([0b1011_1011])
    assert VCPField.decode(bytes([0b10])) == VCPField(load=2)


def values(wire):
    low, high = wire.span
    if wire.constant is not None:
        return st.just(wire.constant)
    if not wire.single:
        return st.integers(0, 2**wire.width - 1).map(lambda n: n if wire.factor == 1.0 else n / wire.factor)
    return st.floats(max(low, -1e30), min(high, 1e30))


def headers(kind):
    drawn = {name: values(wire) for name, wire in kind.layout().items() if wire.constant is None}
    return st.builds(kind, **drawn)


@pytest.mark.property
@every_header
@given(data=st.data())
def test_headers_return_from_their_bytes(kind, data):
    header = data.draw(headers(kind))
    encoded = header.encode()
    assert len(encoded) == kind.size()
    back = kind.decode(encoded)
    assert back.encode() == encoded
    for name, wire in kind.layout().items():
        before, after = getattr(header, name), getattr(back, name)
        if wire.single:
            assert math.isclose(after, before, rel_tol=2.0**-24, abs_tol=2.0**-149 / wire.factor)
        else:
            assert after == before


@pytest.mark.property
@every_header
@given(data=st.data())
def test_any_bytes_are_a_header_or_refused_in_one_line(kind, data):
    start = bytes(wire.constant or 0 for wire in kind.layout().values())[:2]
    raw = data.draw(
        st.one_of(
            st.binary(max_size=40),
            st.binary(min_size=kind.size(), max_size=kind.size()),
            st.binary(min_size=max(0, kind.size() - 2), max_size=max(0, kind.size() - 2)).map(
                lambda rest: start + rest
            ),
            headers(kind).map(lambda header: header.encode()),
        )
    )
    try:
        assert kind.decode(raw).encode() == raw
    except ValueError as error:
        assert kind.title in str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: XCPHeader.decode(bytes(19)), "^an XCP header must have 20 bytes, got 19$"),
        (lambda: RCPHeader.decode(bytes([6, 20]) + bytes(14)), "^length of an RCP header must be 16, got 20$"),
        (lambda: JetMaxHeader.decode(bytes([6, 32, 1, 9]) + bytes(28)), "^unused of a JetMax header must be 0, got 9$"),
        (lambda: MaxNetOption.decode(bytes([41, 6]) + bytes(6)), "^option of a MaxNet option must be 42, got 41$"),
        (
            lambda: RCPHeader.decode(bytes([6, 16, 1, 0]) + struct.pack("!fIf", float("nan"), 0, 0)),
            r"^rate of an RCP header must be from 0 to 2\.72226e\+42, got nan$",
        ),
        (
            lambda: JetMaxHeader.decode(bytes([6, 32, 1, 0]) + bytes(4) + struct.pack("!f", 1.5) + bytes(20)),
            "^loss of a JetMax header must be from 0 to 1, got 1.5$",
        ),
        (lambda: MaxNetOption(price=17.0), r"^price of a MaxNet option must be from 0 to 16\.7772, got 17\.0$"),
        (lambda: PIQIRCPHeader(router=256), "^router of a PIQI-RCP header must be from 0 to 255, got 256$"),
        (lambda: EDNField(forward=128), "^forward of an EDN field must be from 0 to 127, got 128$"),
        (lambda: EDNField.decode(bytes(2)), "^unfragmented of an EDN field must be 1, got 0$"),
        (lambda: VCPField(load=4), "^load of a VCP field must be from 0 to 3, got 4$"),
        (lambda: XCPHeader(rtt=-0.1), "^rtt of an XCP header must be from 0 to"),
    ],
)
def test_bad_values_get_one_line(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("value", [1.5, "7", True])
def test_wrong_kinds_get_one_line(value):
    with pytest.raises(TypeError, match="^router of a PIQI-RCP header must be a whole number, got"):
        PIQIRCPHeader(router=value)
    if value != 1.5:
        with pytest.raises(TypeError, match="^rate of a PIQI-RCP header must be a number, got"):
            PIQIRCPHeader(rate=value)


@dataclass(frozen=True)
class Tenths(CongestionHeader):
    """A header whose limits are no singles."""

    title = "tenths"
    value: float = number_field(low=0.7, high=1.1)  # 0.69999999 and 1.10000002 as singles


@pytest.mark.parametrize("value", [0.7, 0.9, 1.1])
def test_limits_return_from_bytes_that_round_beyond_them(value):
    header = Tenths(value=value)
    assert Tenths.decode(header.encode()).value == pytest.approx(value, rel=1e-7)
    assert Tenths.decode(header.encode()).encode() == header.encode()


def test_what_is_beyond_limits_by_more_than_rounding_is_refused():
    with pytest.raises(ValueError, match=r"^value of tenths must be from 0\.7 to 1\.1, got 1\.1000"):
        Tenths.decode(struct.pack("!f", np.nextafter(np.float32(1.1), np.float32(2.0))))
