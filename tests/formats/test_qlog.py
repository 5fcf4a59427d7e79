"""Logs in qlog: what is read of them, in which dialects, and what is refused."""

import gzip
import json
import os
import re
from dataclasses import replace

import pytest

from ecc.formats import qlog

HEAD = {
    "file_schema": "urn:ietf:params:qlog:file:sequential",
    "serialization_format": "application/qlog+json-seq",
    "trace": {"event_schemas": ["urn:ietf:params:qlog:events:quic-13"], "vantage_point": {"type": "server"}},
}


def sent(number, time=0.0, size=1200, **data):
    header = {"packet_type": "1RTT", "packet_number": number}
    return {"time": time, "name": "quic:packet_sent", "data": {"header": header, "raw": {"length": size}, **data}}


def acked(*ranges, time=1.0, **frame):
    frames = [{"frame_type": "ack", "acked_ranges": list(ranges), **frame}]
    return {"time": time, "name": "quic:packet_received", "data": {"header": {"packet_type": "1RTT"}, "frames": frames}}


def metrics(time=1.0, **values):
    return {"time": time, "name": "quic:recovery_metrics_updated", "data": values}


def sequence(*records, end="\n"):
    return "".join(f"\x1e{json.dumps(one)}\n" for one in records)[:-1] + end


def read(tmp_path, text, name="trace.sqlog", **options):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return qlog.read(path, **options)


def test_records_of_the_current_draft(tmp_path):
    trace = read(
        tmp_path,
        sequence(
            HEAD,
            sent(0),
            sent(1, 0.25),
            acked([1], [0], time=40.5, ce=2),
            metrics(
                40.5, congestion_window=14400, latest_rtt=40.25, bytes_in_flight=0, max_bw=1e6, name="text", flag=True
            ),
            {"time": 41, "name": "quic:packet_lost", "data": {"header": {"packet_number": 1, "packet_type": "1RTT"}}},
            {"time": 41, "name": "quic:congestion_state_updated", "data": {"new": "Recovery"}},
            {"time": 42, "name": "quic:stream_state_updated", "data": {"new": "open"}},
        ),
    )
    assert [one.name for one in trace.events] == [
        "packet_sent",
        "packet_sent",
        "packet_received",
        "metrics_updated",
        "packet_lost",
        "congestion_state_updated",
    ]
    first, second, ack, metric, lost, state = trace.events
    assert (first.time, second.time, ack.time) == (0, 250_000_000, 40_500_000_000)
    assert second.data == {"space": "application", "number": 1, "size": 1200, "counts": True, "is_again": False}
    assert ack.data == {"space": "application", "ranges": [(1, 1), (0, 0)], "ce": 2}
    assert metric.data == {"congestion_window": 14400, "latest_rtt": 0.04025, "bytes_in_flight": 0, "max_bw": 1e6}
    assert lost.data["number"] == 1 and state.data["new"] == "recovery" and metric.record == 4
    assert (trace.packet_size, trace.vantage_point, trace.n_records) == (1200, "server", 7)
    assert trace.initial_window == 2400  # sent by the first ACK


def test_lists_of_early_drafts_in_microseconds(tmp_path):
    """As picoquic and mvfst write them."""
    ack = {"frame_type": "ACK", "acked_ranges": [["7", "7"]]}
    trace = {
        "vantage_point": {"type": "SERVER"},
        "configuration": {"time_units": "us"},
        "event_fields": ["relative_time", "category", "event", "data"],
        "events": [
            ["100", "transport", "packet_sent", {"header": {"packet_number": "7", "packet_size": 1440}}],
            [26100, "TRANSPORT", "PACKET_RECEIVED", {"packet_type": "1RTT", "frames": [ack]}],
            [26100, "recovery", "metrics_updated", {"cwnd": 15360, "smoothed_rtt": 26000}],
            [26200, "metric_update", "congestion_metric_update", {"current_cwnd": 15000, "state": "Steady"}],
            [26300, "loss", "packet_lost", {"largest_lost_packet_num": 9, "lost_bytes": 2880, "lost_packets": 2}],
            [26400, "app_limited_update", "app_limited_update", {"app_limited": "app_limited"}],
            [],
        ],
    }
    found = read(
        tmp_path, json.dumps({"qlog_version": "draft-00", "traces": [{"events": []}, trace]}), "a.qlog", trace=1
    )
    one, ack, metric, other, lost, limited = found.events
    assert one.time == 100_000_000 and one.data["number"] == 7 and one.data["size"] == 1440
    assert ack.data["ranges"] == [(7, 7)] and ack.time == 26_100_000_000
    assert metric.data == {"congestion_window": 15360, "smoothed_rtt": pytest.approx(0.026)}
    assert other.data == {"congestion_window": 15000}
    assert lost.data == {"largest": 9, "count": 2} and limited.data["limited"]
    assert found.vantage_point == "server"


def test_lines_of_json_and_times_relative_to_the_event_before(tmp_path):
    """As quic-go wrote them."""
    about = {"qlog_format": "NDJSON", "qlog_version": "0.3", "trace": {"common_fields": {"time_format": "delta"}}}
    header = {"packet_type": "initial", "packet_number": 3}
    lost = {"time": 2.5, "name": "recovery:packet_lost", "data": {"header": header, "trigger": "time_threshold"}}
    records = [about, {**sent(3, 1.0), "name": "transport:packet_sent"}, acked([3], time=2.0), lost]
    trace = read(tmp_path, "\n".join(map(json.dumps, records)))
    assert [one.time for one in trace.events] == [10**9, 3 * 10**9, 5_500_000_000]
    assert trace.events[2].data == {"space": "initial", "number": 3, "trigger": "time_threshold"}


def test_dates_count_from_the_first_event(tmp_path):
    trace = read(tmp_path, sequence(HEAD, sent(0, 1.7e12), acked([0], time=1.7e12 + 50)))
    assert [one.time for one in trace.events] == [0, 50 * 10**9]


def test_packets_that_hold_acks_alone_and_those_sent_again(tmp_path):
    stream = {"frame_type": "stream", "stream_id": 0, "offset": 0, "raw": {"length": 1000}}
    trace = read(
        tmp_path,
        sequence(
            HEAD,
            sent(0, frames=[stream]),
            sent(1, frames=[{"frame_type": "ack", "acked_ranges": [[0]]}]),
            sent(2, frames=[stream]),
            sent(3, trigger="retransmit_timeout"),
        ),
    )
    assert [one.data["counts"] for one in trace.events] == [True, False, True, True]
    assert [one.data["is_again"] for one in trace.events] == [False, False, True, True]


def test_a_last_record_that_is_incomplete_is_left_out(tmp_path):
    text = sequence(HEAD, sent(0), acked([0])) + '\x1e{"time":2,"name":"quic:pack'
    with pytest.warns(RuntimeWarning, match="^record 3, the last, is incomplete and was left out$"):
        trace = read(tmp_path, text)
    assert len(trace.events) == 2 and trace.notes == ("record 3, the last, is incomplete and was left out",)


def test_files_may_be_compressed_and_cut_off(tmp_path):
    plain = sequence(HEAD, *(sent(k, k) for k in range(200)))
    path, packed = tmp_path / "a.sqlog.gz", gzip.compress(plain.encode())
    path.write_bytes(packed)
    whole = qlog.read(path)
    assert whole.events == read(tmp_path, plain).events and whole.notes == ()
    path.write_bytes(gzip.compress(plain[:500].encode()) + gzip.compress(plain[500:].encode()))
    assert qlog.read(path).events == whole.events
    path.write_bytes(packed[:-12])
    with pytest.warns(RuntimeWarning):
        cut = qlog.read(path)
    assert cut.notes[0] == "the gzip file is incomplete and was read up to its end"
    assert 0 < len(cut.events) <= 200 and list(cut.events) == list(whole.events)[: len(cut.events)]
    path.write_bytes(packed[:10] + b"\xff" + packed[11:])
    with pytest.raises(
        ValueError, match=r"^file must be qlog, or qlog compressed by gzip, got a damaged one: .* \(.*a\.sqlog\.gz'\)$"
    ):
        qlog.read(path)


def test_events_out_of_order_are_put_in_order(tmp_path):
    trace = read(tmp_path, sequence(HEAD, sent(0, 5.0), sent(1, 3.0), acked([0], time=9.0)))
    assert [one.data.get("number") for one in trace.events] == [1, 0, None]
    assert trace.notes == ("events were sorted by time (1 out of order)",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"^file must be qlog, got an empty one \('.*'\)$"),
        ("[1]", r"^file must be a JSON object, or records, got \[1\]"),
        ("no json", r"^file must be JSON: Expecting value \(line 1, column 1\)"),
        ("[" * 100_000, r"^file must be JSON: too deep"),
        (sequence(HEAD), "^file must have packet_sent events, got none in 0 records"),
        (
            '\x1e{"trace":{}}\n\x1e{"ti\n' + sequence(sent(0)),
            r"^record 1 must be JSON: Invalid control character \(line 2, column 6\)",
        ),
        (sequence(HEAD, sent(-1)), "^record 1: packet_number must be a whole number >= 0, got -1"),
        (sequence(HEAD, sent(0), sent("x")), "^record 2: packet_number must be a finite number, at most 1e18, got 'x'"),
        (sequence(HEAD, sent(0.5)), "^record 1: packet_number must be a whole number, got 0.5"),
        (sequence(HEAD, sent(0, size=None)), "^record 1: raw.length must be the size of a packet, got None"),
        (sequence(HEAD, sent(0, "soon")), "^record 1: time must be a finite number, at most 1e18, got 'soon'"),
        (sequence(HEAD, sent(0), sent(1)).replace("0.0", "NaN"), "^record 1 must be JSON: NaN is not JSON"),
        (
            sequence(HEAD, sent(0), acked([5, 3])),
            r"^record 2: acked_ranges must be ranges from the lower to the higher number, got \[5, 3\]",
        ),
        (sequence(HEAD, sent(0), acked([1, 2, 3])), "^record 2: acked_ranges must be lists of one or two numbers, got"),
        (sequence(HEAD, sent(0), acked({})), "^record 2: acked_ranges must be lists of one or two numbers, got {}"),
        (sequence(HEAD, sent(0), metrics(congestion_window=-1)), "^record 2: congestion_window must be >= 0, got -1"),
        (
            sequence(HEAD, sent(0), {"time": 1, "name": "quic:congestion_state_updated", "data": {}}),
            "^record 2: new must be a string, got None",
        ),
        (
            sequence(HEAD, sent(0), {"time": 1, "name": "quic:packet_lost", "data": {}}),
            "^record 2: packet_number must be a whole number >= 0, got None",
        ),
        (sequence(HEAD, sent(0), 7), "^record 2: record must be a JSON object, got 7"),
        (sequence(HEAD, sent(0), [1, 2]), r"^record 2: record must be a list of 0 \(event_fields\), got \[1, 2\]"),
        (
            sequence({"trace": {"configuration": {"time_units": "h"}}}, sent(0)),
            "^record 0: time_units must be ms, us, s, got 'h'",
        ),
        (
            sequence(HEAD, sent(0), {"time": 1, "name": "quic:packet_sent", "data": {"raw": {"length": 1200}}}),
            "^record 2: packet_number must be a whole number >= 0 in a packet of type unknown, got None",
        ),
        (
            sequence(
                HEAD, sent(0), {"time": 1, "name": "quic:packet_sent", "data": {"header": {"packet_type": "1RTT"}}}
            ),
            "^record 2: packet_number must be a whole number >= 0 in a packet of type 1rtt, got None",
        ),
        (
            '{"traces": [{"error_description": "no key"}]}',
            "^record 0: traces must be one at least, got error_description 'no key' alone",
        ),
        ('{"traces": []}', r"^record 0: traces must be a list of objects, got \[\]"),
        ('{"traces": [{"events": 1}]}', "^record 0: events must be a list, got 1"),
    ],
)
def test_bad_records_are_one_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["retry", "Version_Negotiation", "VersionNegotiation", "stateless_reset"])
def test_packets_without_numbers_are_left_out(tmp_path, kind):
    other = {"time": 0.5, "name": "quic:packet_sent", "data": {"header": {"packet_type": kind}, "raw": {"length": 80}}}
    assert read(tmp_path, sequence(HEAD, sent(0), other, sent(1, 1.0))).events[1].data["number"] == 1


def test_of_several_traces_the_first_is_read_that_is_no_error(tmp_path):
    error, one, two = {"error_description": "no key", "uri": "a"}, {"events": [sent(0)]}, {"events": [sent(7)]}

    def found(*traces, **options):
        trace = read(tmp_path, json.dumps({"traces": traces}), "a.qlog", **options)
        return trace.events[0].data["number"], trace.notes

    assert found(one) == (0, ())
    assert found(one, two) == (0, ("the file has 2 traces; number 0 was read",))
    assert found(error, two) == (7, ("the file has 2 traces, 1 without events (error_description); number 1 was read",))
    assert found(error, one, two, trace=2) == (7, ())
    with pytest.raises(ValueError, match="^trace must be one with events, got 0: error_description 'no key'"):
        found(error, one, trace=0)


def test_files_that_are_no_text_and_traces_that_are_not_there(tmp_path):
    (tmp_path / "a.qlog").write_bytes(b"\x1e\xff")
    with pytest.raises(ValueError, match="^file must be UTF-8, got a byte 0xff at 1"):
        qlog.read(tmp_path / "a.qlog")
    with pytest.raises(ValueError, match="^trace must be from 0 to 0, got 1"):
        read(tmp_path, sequence(HEAD, sent(0)), trace=1)
    with pytest.raises(FileNotFoundError):
        qlog.read(tmp_path / "none.qlog")


# ---- as stacks write them ------------------------------------------------------------------------------------------


def test_a_metric_of_all_ones_has_no_value_yet(tmp_path):
    """quiche and others begin with the largest number of 64 bits in ssthresh, as a number or in a string."""
    most = 2**64 - 1
    records = [sent(0), metrics(ssthresh=most, congestion_window=12000), metrics(2.0, ssthresh=str(most))]
    trace = read(tmp_path, sequence(HEAD, *records, metrics(3.0, ssthresh=6000, pacing_rate=2**63 - 1)))
    assert [one.data for one in trace.events[1:]] == [{"congestion_window": 12000.0}, {}, {"ssthresh": 6000.0}]
    parameters = {"time": 0, "name": "recovery:parameters_set", "data": {"maximum": most, "max_datagram_size": 1350}}
    assert read(tmp_path, sequence(HEAD, parameters, sent(0))).packet_size == 1350


def initial(number, time, **header):
    header = {"packet_type": "initial", "packet_number": number, **header}
    return {"time": time, "name": "transport:packet_sent", "data": {"header": header, "raw": {"length": 1200}}}


@pytest.mark.parametrize("kind", ["retry", "version_negotiation"])
def test_numbers_that_begin_again_after_a_retry_are_read(tmp_path, kind):
    parameters = {"time": 0.0, "name": "recovery:parameters_set", "data": {"max_datagram_size": 1200}}
    other = {"time": 5.0, "name": "transport:packet_received", "data": {"header": {"packet_type": kind}}}
    frames = [{"frame_type": "ack", "acked_ranges": [[0, 0]]}]
    ack = {
        "time": 9.0,
        "name": "transport:packet_received",
        "data": {"header": {"packet_type": "initial", "packet_number": 0}, "frames": frames},
    }
    first = [parameters, initial(0, 1.0), initial(1, 2.0)]
    trace = read(tmp_path, sequence(HEAD, *first, other, initial(0, 6.0), ack))
    assert [one.name for one in trace.events] == ["recovery_parameters_set", "packet_sent", "packet_received"]
    assert trace.events[1].time == 6 * qlog.PS_IN_MS
    cause = "a Retry" if kind == "retry" else "a Version Negotiation"
    assert trace.notes == (
        f"the connection begins again in record 4 ({cause}): packets before it are left out, as congestion control is "
        "reset there (RFC 9002 sec. 6.3)",
    )
    silent = read(tmp_path, sequence(HEAD, *first, initial(0, 6.0), ack))  # a log that does not have the Retry
    assert silent.events == tuple(replace(one, record=one.record - (one.record > 4)) for one in trace.events)
    assert "(packet number 0 was sent again)" in silent.notes[0]
    late = read(tmp_path, sequence(HEAD, initial(0, 1.0), ack, other | {"time": 10.0}, initial(1, 11.0)))
    assert len(late.events) == 3 and late.notes == ()


def multipath():
    """A log of picoquic with two paths, each with its own numbers; ACK frames name the path that they acknowledge."""

    def row(time, path, name, **data):
        return [time, path, "recovery" if "metrics" in name else "transport", name, data]

    def packet(time, path, number):
        return row(time, path, "packet_sent", packet_type="1RTT", header={"packet_size": 1200, "packet_number": number})

    frames = [
        {"frame_type": "path_ack", "path_id": 1, "acked_ranges": [[0, 1]]},
        {"frame_type": "ack", "acked_ranges": [[0, 0]]},
    ]
    events = [
        packet(0, 0, 0),
        packet(10, 1, 0),
        packet(20, 0, 1),
        packet(30, 1, 1),
        row(40, 1, "packet_received", packet_type="1RTT", header={}, frames=frames),
        row(50, 0, "metrics_updated", cwnd=15000),
        row(60, 1, "metrics_updated", cwnd=30000),
    ]
    return {
        "qlog_version": "draft-00",
        "traces": [
            {
                "event_fields": ["relative_time", "path_id", "category", "event", "data"],
                "configuration": {"time_units": "us"},
                "events": events,
            }
        ],
    }


def test_a_path_of_a_multipath_connection_is_read(tmp_path):
    text = json.dumps(multipath())
    trace = read(tmp_path, text)
    assert trace.notes == ("the log has the paths 0, 1, each with a controller; path 0 was read",)
    assert [one.data.get("number", one.data.get("congestion_window")) for one in trace.events] == [0, 1, None, 15000.0]
    assert trace.events[2].data["ranges"] == [(0, 0)]
    other = read(tmp_path, text, path_id=1)
    assert other.events[2].data["ranges"] == [(0, 1)] and other.events[3].data == {"congestion_window": 30000.0}
    with pytest.raises(ValueError, match="^path_id must be one of 0, 1, got 2"):
        read(tmp_path, text, path_id=2)


def test_a_lost_packet_has_its_type_where_aioquic_writes_it(tmp_path):
    lost = {"time": 1, "name": "recovery:packet_lost", "data": {"type": "initial", "packet_number": 0}}
    assert read(tmp_path, sequence(HEAD, sent(0), lost)).events[1].data["space"] == "initial"


@pytest.mark.parametrize("indent", [None, 1])
def test_all_complete_events_of_a_file_that_was_cut_off_are_read(tmp_path, indent):
    events = [sent(k, k) for k in range(50)]
    text = json.dumps(
        {"title": "]}", "traces": [{"vantage_point": {"type": "client"}, "events": events}]}, indent=indent
    )
    whole = read(tmp_path, text, "a.qlog")
    ends = [match.end() for match in re.finditer(r"1200\s*}\s*}\s*}", text)]
    for cut in (*range(ends[3], ends[4], 7), ends[-1], len(text) - 1):
        with pytest.warns(RuntimeWarning, match="^the file is incomplete and was read up to its last complete event$"):
            trace = read(tmp_path, text[:cut], "a.qlog")
        assert trace.events == whole.events[: sum(end <= cut for end in ends)] and trace.vantage_point == "client"
        assert trace.notes == ("the file is incomplete and was read up to its last complete event",)
    with pytest.raises(ValueError, match=r"^file must be JSON: .* \(line \d+, column \d+\)"):
        read(tmp_path, text[: ends[0] - 2], "a.qlog")


def test_a_flaw_in_an_event_has_its_line_and_column(tmp_path):
    text = json.dumps({"traces": [{"events": [sent(k, k) for k in range(9)]}]}, indent=1)
    flawed = text.replace('"time": 5,', '"time": 5;')
    line, column = next((n, row.index(";") + 1) for n, row in enumerate(flawed.splitlines(), 1) if ";" in row)
    with pytest.raises(
        ValueError, match=rf"^file must be JSON: Expecting ',' delimiter \(line {line}, column {column}\)"
    ):
        read(tmp_path, flawed, "a.qlog")
    records = sequence(HEAD, sent(0), sent(1), sent(2)).replace('"packet_number": 1', '"packet_number": 1;')
    with pytest.raises(ValueError, match=r"^record 2 must be JSON: Expecting ',' delimiter \(line 3, column \d+\)"):
        read(tmp_path, records)


def test_a_file_that_has_no_end_or_grows_without_bound_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(qlog, "MAX_SIZE", 2**20)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(2**21)) * 3)
    with pytest.raises(ValueError, match="^file must have <= 1 MiB when it is decompressed, got more"):
        qlog.read(tmp_path / "bomb.gz")
    (tmp_path / "large.qlog").write_bytes(bytes(2**20 + 1))
    with pytest.raises(ValueError, match="^file must have <= 1 MiB, got 1 MiB"):
        qlog.read(tmp_path / "large.qlog")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ValueError, match="^file must be a regular file, got '.*', a device or pipe"):
            qlog.read(path)
