"""A trace in qlog beside a reference that sees the same ACKs."""

import json
from pathlib import Path

import numpy as np
import pytest

import ecc
from ecc import conform
from ecc.cli import main
from ecc.formats import qlog
from ecc.models import BBR, CUBIC, BBRv1, BBRv2, Copa, NewReno, Prague, Vegas

EXAMPLE = Path(__file__).parents[2] / "examples" / "cubic.sqlog"


def written(tmp_path, protocol, duration=1.0, **link):
    network = ecc.Network.dumbbell("2 Mb/s", rtts=["20 ms"], **{"buffer": "15 kB", "packet_size": 1500, **link})
    path = tmp_path / "flow.sqlog"
    run = ecc.packet.simulate(ecc.Scenario(network, protocol, duration), engine="python", qlog={0: path})
    return run, path


def records(path):
    return [json.loads(one) for one in path.read_text(encoding="utf-8").split("\x1e")[1:]]


def without_own_fields(path, to):
    """What a stack's log has: no field beside qlog's."""
    kept = [{key: value for key, value in one.items() if key != "ecc"} for one in records(path)]
    to.write_text("".join(map(qlog.record, kept)), encoding="utf-8")
    return to


def test_a_log_is_qlog(tmp_path):
    _, path = written(tmp_path, CUBIC())
    head, *rest = records(path)
    assert head["file_schema"] == "urn:ietf:params:qlog:file:sequential"
    assert head["serialization_format"] == "application/qlog+json-seq"
    assert head["trace"]["event_schemas"] == ["urn:ietf:params:qlog:events:quic-13"]
    text = path.read_text(encoding="utf-8")
    assert text.count("\x1e") == text.count("\n") == len(rest) + 1 and text.endswith("}\n")
    required = {
        "packet_sent": "header",
        "packet_received": "header",
        "congestion_state_updated": "new",
        "recovery_parameters_set": "timer_granularity",
        "packet_lost": "header",
    }
    kinds = {one["name"].removeprefix("quic:") for one in rest}
    assert kinds == {*required, "recovery_metrics_updated"}
    for one in rest:
        assert {"time", "name", "data"} <= set(one) <= {"time", "name", "data", "ecc"}
        field = required.get(one["name"].removeprefix("quic:"))
        assert field is None or field in one["data"]
        if field == "header":
            assert one["data"]["header"]["packet_type"] == "1RTT"
    numbers = [one["data"]["header"]["packet_number"] for one in rest if one["name"] == "quic:packet_sent"]
    assert numbers == list(range(len(numbers)))
    windows = [one["data"]["congestion_window"] for one in rest if "congestion_window" in one["data"]]
    assert all(isinstance(one, int) for one in windows) and max(windows) > 10 * 1500


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "duration"), [(CUBIC(), 1.0), (BBR(), 6.0)], ids=["CUBIC", "BBR into ProbeRTT"])
def test_our_own_log_does_not_leave_its_protocol(tmp_path, protocol, duration):
    _, path = written(tmp_path, protocol, duration)
    found = conform.replay(protocol, path, tolerance=1e-9)
    assert found.first is None and len(found.time) > 150
    assert "congestion_window" in found.compared and len(found.compared) > 5


@pytest.mark.slow
@pytest.mark.parametrize("transport", [pytest.param("newreno", marks=pytest.mark.extensive), "sack", "rack"])
@pytest.mark.parametrize("kind", [CUBIC, NewReno, Vegas, Copa, Prague, BBRv1, BBRv2, BBR], ids=lambda one: one.__name__)
def test_logs_of_all_do_not_leave_their_protocols(tmp_path, kind, transport):
    """Also with losses on the wire, timeouts, and packets and ACKs that overtake each other."""
    network = ecc.Network.dumbbell("4 Mb/s", rtts=["20 ms"], buffer="30 kB", packet_size=1500)
    hard = (ecc.impairments.RandomLoss(0.02, link=0), ecc.impairments.Jitter((0.0, "8 ms"), link=0, in_order=False))
    for impairments in ((), hard):
        duration = 11.0 if "BBR" in kind.__name__ else 3.0  # with a ProbeRTT
        scenario = ecc.Scenario(network, kind(transport=transport), duration, impairments=impairments)
        path = tmp_path / "flow.sqlog"
        ecc.packet.simulate(scenario, engine="python", qlog={0: path})
        found = conform.replay(scenario.protocol, path, tolerance=1e-9)
        assert found.first is None, (impairments, found)


def test_a_wrong_beta_is_found_at_the_first_loss(tmp_path):
    _, path = written(tmp_path, CUBIC(beta=0.8))
    first = conform.replay(CUBIC(), path).first
    assert (first.variable, first.hook) == ("congestion_window", "on_loss")
    assert first.value / first.reference == pytest.approx(0.8 / 0.7, rel=1e-3)
    lost = next(one["time"] for one in records(path)[1:] if one["name"] == "quic:packet_lost")
    assert first.time == pytest.approx(lost / 1e3)


def test_a_wrong_constant_is_found_in_the_variable_where_it_enters():
    trace = qlog.read(EXAMPLE)
    found = conform.replay(CUBIC(C=0.8), trace)
    assert found.first.variable == "K" and found.first.hook == "on_ack"
    assert found.first.value / found.first.reference == pytest.approx(2.0 ** (1 / 3), rel=1e-6)
    assert {"congestion_window", "K"} <= set(found.values)
    assert len(found.figure().data) >= 2
    assert conform.replay("CUBIC", EXAMPLE).first is None


def test_without_fields_of_its_own_a_log_of_tcp_shows_how_quic_counts(tmp_path):
    """Two duplicate ACKs before the first recovery: QUIC would open its window."""
    trace = qlog.read(without_own_fields(EXAMPLE, tmp_path / "plain.sqlog"))
    found = conform.replay("CUBIC", trace)
    first = found.first
    assert first.variable == "congestion_window" and first.reference - first.value == 1000.0
    states = [one.time * 1e-12 for one in trace.events if one.name == "congestion_state_updated"]
    assert states[0] - 3 * 0.017 < first.time < states[0]


# ---- a log by hand -------------------------------------------------------------------------------------------------


def by_hand(tmp_path, *more, size=1000, window=4000):
    """Four packets, whose ACKs come 100 ms later, 10 ms apart."""
    made = [{"trace": {"vantage_point": {"type": "client"}}}]
    made += [{"time": 0.0, "name": "recovery:metrics_updated", "data": {"congestion_window": window}}]
    made += [_sent(k, 0.0, size) for k in range(4)]
    path = tmp_path / "hand.sqlog"
    path.write_text("".join(map(qlog.record, [*made, *more])), encoding="utf-8")
    return path


def _sent(number, time, size=1000):
    header = {"packet_type": "1RTT", "packet_number": number}
    return {"time": time, "name": "transport:packet_sent", "data": {"header": header, "raw": {"length": size}}}


def _acked(time, ranges, window=None):
    frame = {"frame_type": "ack", "acked_ranges": ranges}
    yield {"time": time, "name": "transport:packet_received", "data": {"header": {}, "frames": [frame]}}
    if window is not None:
        yield {"time": time, "name": "recovery:metrics_updated", "data": {"congestion_window": window}}


def _lost(number, time, trigger="reordering_threshold"):
    header = {"packet_type": "1RTT", "packet_number": number}
    return {"time": time, "name": "recovery:packet_lost", "data": {"header": header, "trigger": trigger}}


def test_slow_start_by_the_bytes_of_acks(tmp_path):
    path = by_hand(tmp_path, *_acked(100.0, [[0]], 5000), *_acked(110.0, [[0, 2]], 7000), *_acked(120.0, [[3]], 8000))
    found = conform.replay(NewReno(application_limited="none"), path, tolerance=0.0)
    assert found.first is None and found.time.tolist() == pytest.approx([0.0, 0.1, 0.11, 0.12])
    assert found.reference_values["congestion_window"].tolist() == [4000.0, 5000.0, 7000.0, 8000.0]


def test_a_window_with_room_does_not_limit_its_flow(tmp_path):
    """RFC 9002 sec. 7.8: of four packets in a window of 4000 and then 5000 bytes, the last one leaves room."""
    path = by_hand(tmp_path, *_acked(100.0, [[0]], 5000), *_acked(110.0, [[0, 2]], 7000), *_acked(120.0, [[3]], 8000))
    first = conform.replay(NewReno(), path, tolerance=0.0).first
    assert (first.time, first.value, first.reference) == (pytest.approx(0.12), 8000.0, 7000.0)
    state = {"time": 119.0, "name": "recovery:congestion_state_updated", "data": {"new": "application_limited"}}
    end = [{**state, "time": 1.0, "data": {"new": "slow_start"}}, {**state, "time": 130.0}]
    reported = by_hand(tmp_path, end[0], *_acked(100.0, [[0]], 5000), *_acked(110.0, [[0, 2]], 7000), end[1])
    assert conform.replay(NewReno(), reported, tolerance=0.0).first is None


def test_acks_that_a_log_has_after_what_they_cause(tmp_path):
    """As quic-go writes them: the window before this ACK, its RTT, losses, and then the ACK."""

    def last(time, ranges, window, *losses):
        received = next(_acked(time + 0.01, ranges))
        data = {"congestion_window": window, "latest_rtt": 100.0, "bytes_in_flight": 0}
        metrics = {"time": time, "name": "recovery:metrics_updated", "data": data} if window else None
        return [*([metrics] if metrics else []), *losses, received]

    more = [
        *last(100.0, [[0]], 4000),
        *[_sent(k, 101.0) for k in (4, 5)],
        *last(110.0, [[0, 1]], 5000),
        *[_sent(k, 111.0) for k in (6, 7)],
        *last(112.0, [[0, 1]], None),  # nothing new: no metrics
        *last(120.0, [[0, 1], [3, 3]], 6000, _lost(2, 120.0)),
        *last(201.0, [[0, 1], [3, 4]], 3000),
        *last(202.0, [[0, 1], [3, 5]], 3000),
    ]
    found = conform.replay(NewReno(), by_hand(tmp_path, *more), tolerance=0.0)
    assert found.first is None
    logged = found.values["congestion_window"]
    assert logged[[0, 1, 3]].tolist() == [4000.0, 5000.0, 6000.0] and np.isnan(logged[2])
    assert logged[-3:-1].tolist() == [3000.0, 3000.0]
    wrong = by_hand(tmp_path, *more[:-2], *last(202.0, [[0, 1], [3, 5]], 3500))
    assert conform.replay(NewReno(), wrong, tolerance=0.0).first.time == pytest.approx(0.20101)


def test_losses_are_answered_once_a_window(tmp_path):
    """RFC 9002: a packet that was sent before the recovery began does not begin another one."""
    more = [
        *_acked(100.0, [[3]]),
        _lost(0, 100.0),
        *_acked(105.0, [[3]]),
        _lost(1, 105.0),
        _sent(4, 106.0),
        *_acked(206.0, [[4]]),
        _sent(5, 207.0),
        _sent(6, 207.0),
        *_acked(307.0, [[6]]),
        _lost(5, 307.0),
    ]
    windows = conform.replay(NewReno(), by_hand(tmp_path, *more, *_acked(400.0, [[6]], 1))).reference_values
    assert windows["congestion_window"].tolist()[:3] == [4000.0, 2000.0, 2000.0]
    assert np.isfinite(windows["congestion_window"]).all()


def test_a_timeout_leaves_a_packet(tmp_path):
    lost = [_lost(k, 900.0, "pto_expired") for k in range(4)]
    lost.append({"time": 900.0, "name": "recovery:metrics_updated", "data": {"congestion_window": 1000}})
    found = conform.replay(NewReno(), by_hand(tmp_path, *lost, _sent(4, 901.0), *_acked(1001.0, [[4]], 2000)))
    assert found.first is None
    assert found.reference_values["congestion_window"].tolist() == [4000.0, 1000.0, 2000.0]


def test_a_first_window_that_is_given_is_kept(tmp_path):
    path = by_hand(tmp_path, *_acked(100.0, [[0]], 13000), window=12000)
    reference = NewReno(application_limited="none")  # four packets leave room in the window
    assert conform.replay(reference, path).first is None
    first = conform.replay(NewReno(initial=2.0), path).first
    assert (first.hook, first.value, first.reference) == ("on_start", 12000.0, 2000.0)


def test_a_reference_over_quic_counts_all_bytes_of_an_ack(tmp_path):
    path = by_hand(tmp_path, *_acked(100.0, [[0, 3]], 16000), window=12000)
    assert conform.replay(NewReno(transport="quic", application_limited="none"), path).first is None
    first = conform.replay(NewReno(application_limited="none"), path).first  # two packets at most (RFC 3465)
    assert (first.value, first.reference) == (16000.0, 14000.0)


@pytest.mark.parametrize("reference", [NewReno(), CUBIC(L=1e6)])
def test_a_reference_without_a_pacing_rate_has_none_to_compare(tmp_path, reference, capsys):
    """RFC 9002 sec. 7.7: NewReno and CUBIC are paced by N window/srtt, which their references do not set."""
    paced = [
        {"time": time, "name": "recovery:metrics_updated", "data": {"pacing_rate": rate}}
        for time, rate in ((0.0, 5e5), (100.1, 6e5))
    ]
    path = by_hand(tmp_path, paced[0], *_acked(100.0, [[0]], 5000), paced[1])
    found = conform.replay(reference, path)
    assert found.first is None and "congestion_window" in found.compared
    note = f"pacing_rate of the trace is not compared, because {type(reference).__name__} sets none"
    assert found.notes == (note,) and "pacing_rate" not in (*found.compared, *found.lacking)
    settings = [word for name in ("L",) if hasattr(reference, name) for word in ("--set", f"{name}=1e6")]
    assert main(["conform", type(reference).__name__, "--qlog", str(path), "--out", str(tmp_path), *settings]) == 0
    assert f"note: {note}" in capsys.readouterr().out
    wrong = by_hand(tmp_path, paced[0], *_acked(100.0, [[0]], 9000), paced[1])
    assert conform.replay(reference, wrong).first.variable == "congestion_window"


def test_what_cannot_be_replayed_is_one_line(tmp_path):
    path = by_hand(tmp_path, *_acked(100.0, [[0]], 5000))
    for reference, message in (
        (ecc.models.XCP(), "^reference must act at ACKs and losses alone, got XCP"),
        (ecc.models.DCQCN(), "^reference must act at ACKs and losses alone, got DCQCN"),
    ):
        with pytest.raises(ValueError, match=message):
            conform.replay(reference, path)
    with pytest.raises(ValueError, match="^tolerance must be >= 0, got -1"):
        conform.replay(CUBIC(), path, tolerance=-1.0)
    with pytest.raises(ValueError, match="^trace must have packets that are sent and acknowledged"):
        conform.replay(CUBIC(), by_hand(tmp_path))
    with pytest.raises(ValueError, match="^record 7: packet_number must grow within a space, got 3 after 3"):
        conform.replay(CUBIC(), by_hand(tmp_path, *_acked(1.0, [[0]]), _sent(3, 2.0)))
    silent = tmp_path / "silent.sqlog"
    silent.write_text("".join(map(qlog.record, [{"trace": {}}, _sent(0, 0.0), *_acked(1.0, [[0]])])), encoding="utf-8")
    with pytest.raises(
        ValueError, match="^trace must have a variable of CUBIC in its metrics, such as congestion_window"
    ):
        conform.replay(CUBIC(), silent)


def test_which_logs_are_written(tmp_path):
    network = ecc.Network.dumbbell("2 Mb/s", rtts=["20 ms"] * 2, packet_size=1500)
    scenario = ecc.Scenario(network, CUBIC(), 0.2)

    def simulate(qlog, case=scenario, engine="python"):
        return ecc.packet.simulate(case, engine=engine, qlog=qlog)

    path = tmp_path / "a.sqlog"
    for given, error, message in (
        ({2: path}, ValueError, "^qlog must name flows from 0 to 1, got 2$"),
        ({0: tmp_path / "a.log"}, ValueError, r"^qlog must be files .sqlog, got '.*a.log' \(flow 0\)$"),
        ({0: path, 1: path}, ValueError, r"^qlog must have a separate file for each flow, got .* \(flows 0 and 1\)$"),
    ):
        with pytest.raises(error, match=message):
            simulate(given)
    with pytest.raises(ValueError, match="^qlog needs engine='python', got engine='c'$"):
        simulate({0: path}, engine="c")
    with pytest.raises(ValueError, match="^qlog needs a protocol with a transport; flow 1 has none$"):
        simulate({1: path}, scenario.with_(protocol=ecc.models.QIRCP()))
    simulate({1: path, 0: tmp_path / "b.sqlog"})
    assert not list(tmp_path.glob(".*")) and len(list(tmp_path.glob("*.sqlog"))) == 2


def test_a_log_changes_no_result(tmp_path):
    run, _ = written(tmp_path, CUBIC(), 0.5)
    other = ecc.packet.simulate(ecc.Scenario.from_toml(run.data.attrs["scenario"]), engine="python")
    assert run.stats["digest"] == other.stats["digest"]


@pytest.mark.slow
def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["conform", "CUBIC", "--qlog", str(EXAMPLE)]) == 0
    assert capsys.readouterr().out.startswith("\nno deviation in 248 calls: congestion_window, ssthresh")
    assert main(["conform", "CUBIC", "--set", "beta=0.8", "--qlog", str(EXAMPLE)]) == 4
    out = capsys.readouterr().out
    assert "congestion_window deviates first, at 0.296 s in on_loss: 11,900, of the reference 13,600" in out
    assert (tmp_path / "ecc-conformance" / "deviation.html").is_file()
    assert main(["conform", "CUBIC", "--set", "beta=0.8", "--qlog", str(EXAMPLE), "--tolerance", "0.9"]) == 0
    capsys.readouterr()
    assert main(["conform", "CUBIC", "--qlog", str(EXAMPLE), "--against", "BBR"]) == 2
    assert main(["conform", "CUBIC", "--qlog", "none.sqlog"]) == 2
    assert main(["conform", "CUBIC", "--qlog", str(EXAMPLE), "--trace", "1"]) == 2
    assert "trace must be from 0 to 0, got 1" in capsys.readouterr().err
    cut = tmp_path / "cut.sqlog"
    cut.write_bytes(EXAMPLE.read_bytes()[:-20])
    assert main(["conform", "CUBIC", "--qlog", str(cut)]) == 0
    assert "note: record" in capsys.readouterr().out


def test_the_example_is_what_its_command_writes(tmp_path, capsys):
    scenario = str(EXAMPLE.with_suffix(".toml"))
    assert main(["simulate", scenario, "--qlog", str(tmp_path / "again.sqlog")]) == 0
    kinds = ("quic:packet_sent", "quic:packet_received", "quic:packet_lost")
    old, new = (
        [(one["time"], one["data"]) for one in records(path)[1:] if one["name"] in kinds]
        for path in (EXAMPLE, tmp_path / "again.sqlog")
    )
    assert old == new and len(old) > 500
    assert EXAMPLE.stat().st_size < 200_000
    assert main(["simulate", scenario, "--engine", "fluid", "--qlog", str(tmp_path / "again.sqlog")]) == 2
    assert "qlog needs --engine packet, and no checkpoint" in capsys.readouterr().err


def test_the_command_writes_the_log_of_any_flow_or_of_all(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    network = ecc.Network.dumbbell("2 Mb/s", rtts=["20 ms", "40 ms"], packet_size=1500)
    Path("two.toml").write_text(ecc.Scenario(network, CUBIC(), 0.2).to_toml(), encoding="utf-8")
    line = ["simulate", "two.toml", "--python", "--qlog", "log.sqlog"]
    for flow, names in ((None, ["log.sqlog"]), ("1", ["log.sqlog"]), ("all", ["log.0.sqlog", "log.1.sqlog"])):
        assert main([*line, *(["--flow", flow] if flow else [])]) == 0
        assert capsys.readouterr().out.endswith(f"qlog: {', '.join(names)}\n")
        titles = [qlog.read(name).title for name in names]
        assert titles == [f"flow {k} of an ecc packet run" for k in {None: [0], "1": [1], "all": [0, 1]}[flow]]
    for given, said in (
        ([*line, "--flow", "2"], "flow must be from 0 to 1, or all, got '2'"),
        ([*line, "--flow", "-1"], "flow must be from 0 to 1, or all, got '-1'"),
        ([*line[:3], "--flow", "1"], "flow needs --qlog FILE, which gets its log"),
    ):
        assert main(given) == 2
        assert capsys.readouterr().err == f"ecc: {said}\n"
