"""The comparison of disciplines on an access link: its measurements against traces, its command, and its refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ecc
from ecc.cli import main
from ecc.comparison.access_link import (
    COLUMNS,
    RTT_FIELDS,
    SAMPLE,
    AccessLink,
    default_disciplines,
    measure,
    summary,
    waits_of_packets,
)
from ecc.plot.access_link import access_link_figure
from ecc.queues import CAKE, DropTail, FQCoDel, Policer

SHORT = ["access-link", "--rate", "10 Mb/s", "--rtt", "20ms:40ms", "--mix", "cubic:2,web,call", "--duration", "2s"]


def test_delays_are_those_of_each_packet_of_the_call():
    """A trace has the times at which each packet of the call was sent and acknowledged."""
    link = AccessLink("10 Mb/s", (0.02, 0.04), "cubic:2,call", duration=4.0)
    scenario = link.scenario(DropTail(), 1)
    run = ecc.packet.simulate(scenario, sample=SAMPLE, record=RTT_FIELDS, trace=10**6)
    call, events = link.timed[0], run.trace
    own = events[(events["entity"] == call) & (events["time"] <= 4.0)]
    sent = own[own["event"] == "send"].drop_duplicates("value").set_index("value")["time"]
    acked = own[own["event"] == "ack"].set_index("value")["time"]
    late = acked[acked >= 1.0]
    expected = (late - sent[late.index]).to_numpy() - scenario.network.rtts[call]
    waits = waits_of_packets(run, call, scenario.network.rtts[call])
    assert len(waits) > 250 and waits == pytest.approx(expected, abs=1e-9)


def test_a_call_waits_in_a_full_buffer_but_not_behind_fair_queues():
    link = AccessLink("10 Mb/s", (0.02, 0.04), "cubic:2,web,call", duration=6.0)
    plain, fair = (measure(link, discipline, 0)["call"] for discipline in (DropTail(), FQCoDel(mark=True)))
    assert plain["delay_99"] > 100.0 > 5.0 > fair["delay_99"] > 0.0
    assert fair["fairness"] > 0.9 and plain["utilization"] > 95.0
    assert 20.0 < fair["web_50"] < plain["web_50"] < plain["web_99"]


def test_frames_of_a_call_that_adapts_are_measured():
    link = AccessLink("10 Mb/s", (0.03, 0.03), "cubic,nada,game", duration=6.0)
    of = measure(link, CAKE(rate="9.5 Mb/s"), 0)
    assert list(of) == ["nada", "game"]
    for values in of.values():
        assert 0.0 < values["delay_50"] < values["delay_99"] < 100.0 and 0.0 <= values["lost"] < 5.0
        assert np.isnan(values["web_50"])
    assert of["game"]["delay_99"] < 5.0 < of["nada"]["delay_50"]  # A frame's packets are spread over time
    table = summary([("CAKE", 0, of)])
    assert table["application"].tolist() == ["nada", "game"] and list(table.index) == ["CAKE"] * 2
    assert [trace.x[0] for trace in access_link_figure(table).data] == [
        values[column] for values in of.values() for column in ("delay_50", "delay_95", "delay_99")
    ]


def test_frames_of_gcc_are_measured():
    link = AccessLink("10 Mb/s", (0.03, 0.03), "cubic,gcc", duration=4.0)
    values = measure(link, FQCoDel(mark=True), 0)["gcc"]
    # Frames of one packet at 300 kb/s wait for nothing; those of two leave within a frame time
    assert -1e-6 < values["delay_50"] < values["delay_99"] < 34.0 and values["lost"] == 0.0


def test_frames_of_a_rendered_game_are_bursts():
    """17 packets of 1200 bytes at 20 Mb/s take 8.2 ms, of which the last packet's 0.48 ms is not added delay."""
    link = AccessLink("20 Mb/s", (0.03, 0.03), "cubic,cloud", duration=4.0)
    values = measure(link, FQCoDel(mark=True), 0)["cloud"]
    assert 16 * 0.48 - 0.1 < values["delay_50"] < 2.5 * 16 * 0.48 and values["lost"] < 1.0
    notes = AccessLink("15 Mb/s", (0.03, 0.03), "cubic,cloud:2").notes({})
    assert "need 20 Mb/s" in notes[0]


def test_bbr_gets_half_of_a_link_that_a_stream_fills_from_fair_queues_only():
    link = AccessLink("20 Mb/s", (0.04, 0.04), "bbr,stream:0.95,call", duration=8.0)
    rates = {}
    for discipline in (DropTail(), FQCoDel(mark=True)):
        run = ecc.packet.simulate(link.scenario(discipline, 0))
        rates[type(discipline).__name__] = float(run.goodput[40:, 0].mean()) / 20e6
    assert rates["DropTail"] < 0.15 < 0.4 < rates["FQCoDel"] < 0.55


def test_uploads_share_the_uplink_with_acks():
    link = AccessLink(
        "10 Mb/s", (0.02, 0.04), "cubic:2,web,call", up="cubic:2,stream:0.2,call", up_rate="6 Mb/s", duration=4.0
    )
    assert link.flows == ["cubic", "cubic", "call", "cubic up", "cubic up", "stream up", "call up"]
    assert link.applications == ["call", "call up"] and link.timed == [2, 6]
    scenario = link.scenario(CAKE(rate="9.5 Mb/s"), 0)
    network = scenario.network
    assert [flow.route for flow in network.flows] == [(0,)] * 3 + [(1,)] * 4
    assert [flow.reverse for flow in network.flows] == [(1,)] * 3 + [(0,)] * 4
    assert network.rtts == pytest.approx([0.02, 0.04, 0.03, 0.02, 0.04, 0.03, 0.03])
    assert [router.rate for (router,) in scenario.protocol.deploy(network).links] == [9.5e6, 5.7e6]
    plain, fair = (measure(link, discipline, 0) for discipline in (DropTail(), FQCoDel(mark=True)))
    assert plain["call up"]["delay_99"] > 100.0 > 20.0 > fair["call up"]["delay_99"] > 0.0
    assert plain["call"]["delay_99"] > 100.0 > 30.0 > fair["call"]["delay_99"]  # Its ACKs wait, too
    assert 85.0 < fair["call"]["utilization_up"] <= 100.0


def test_without_an_uplink_acks_do_not_queue():
    link = AccessLink("10 Mb/s", (0.02, 0.04), "cubic:2,call", duration=2.0)
    assert link.up_rate is None and link.scenario(DropTail(), 0).network.n_links == 1
    assert np.isnan(measure(link, DropTail(), 0)["call"]["utilization_up"])
    same = AccessLink("10 Mb/s", (0.02, 0.04), "cubic:2,call", up="cubic")
    assert same.up_rate == 1e7 and "up 10 Mb/s: cubic" in same.title("1 run")


def test_the_ack_filter_lets_a_slow_uplink_serve_a_fast_download():
    link = AccessLink("50 Mb/s", (0.02, 0.02), "cubic:2,call", up="cubic", up_rate="0.6 Mb/s", duration=6.0)
    without, filtered = (
        measure(link, CAKE(rate="47.5 Mb/s", ack_filter=mode), 0)["call"] for mode in ("off", "conservative")
    )
    assert filtered["utilization"] > without["utilization"] + 5.0


def test_the_transmission_time_of_a_packet_is_not_added_delay():
    link = AccessLink("10 Mb/s", (0.02, 0.02), "cubic,game", duration=4.0)
    scenario = link.scenario(FQCoDel(mark=True), 0)
    run = ecc.packet.simulate(scenario, sample=SAMPLE, record=RTT_FIELDS)
    waits = 1e3 * (waits_of_packets(run, 1, 0.02) - 8 * 200 / 10e6)
    values = measure(link, FQCoDel(mark=True), 0)["game"]
    assert values["delay_95"] == pytest.approx(np.percentile(waits, 95)) and waits.min() > -1e-6


def test_streams_and_aggregation_are_those_of_the_scenario():
    link = AccessLink("10 Mb/s", (0.02, 0.02), "bbr,stream:0.4,cubic,call", aggregation="10 ms", duration=4.0)
    scenario = link.scenario(FQCoDel(mark=True), 0)
    assert link.flows == ["bbr", "stream", "cubic", "call"] and link.timed == [3]
    assert scenario.impairments[0].acks_of == (0, 2) and scenario.impairments[0].wait == (0.0, 0.01)
    run = ecc.packet.simulate(scenario)
    assert float(run.goodput[10:, 1].mean()) == pytest.approx(10e6 / 3, rel=0.1)  # Less than 4 Mb/s: a fair share
    assert 0.0 < measure(link, FQCoDel(mark=True), 0)["call"]["delay_99"] < 10.0


def test_intervals_are_those_of_students_t():
    rows = [("A", k, {"call": dict.fromkeys(COLUMNS, value)}) for k, value in enumerate((1.0, 2.0, 6.0))]
    table = summary([*rows, ("B", 0, {"call": dict.fromkeys(COLUMNS, 1.0)})])
    assert table.loc["A", "delay_50"] == 3.0
    assert table.loc["A", "delay_50 ±"] == pytest.approx(4.3027 * np.sqrt(7.0 / 3.0), rel=1e-4)
    assert np.isnan(table.loc["B", "delay_50 ±"]) and table["runs"].tolist() == [3, 1]
    figure = access_link_figure(table, "50 Mb/s")
    assert figure.layout.title.text == "50 Mb/s"
    assert figure.layout.xaxis.tickformat == figure.layout.xaxis2.tickformat == "~g"
    assert all(min(np.subtract(trace.x, trace.error_x.arrayminus)) > 0.0 for trace in figure.data)
    assert [list(trace.x) for trace in figure.data] == [[3.0, 1.0]] * 5


def test_the_command_prints_a_table_and_writes_all_runs(tmp_path, capsys):
    names = ["DropTail", "FQCoDel:target=10ms"]
    command = [*SHORT, "--seeds", "2", *(word for name in names for word in ("--discipline", name))]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in names) and "Means of 2 runs" in printed
    runs = (tmp_path / "out" / "results.csv").read_text().splitlines()
    assert len(runs) == 5 and runs[0].startswith("discipline,seed,application,delay_50") and "cubic:2,web" in runs[1]
    scenario = "10 Mb/s; RTT 20 to 40 ms; cubic:2, web, call; buffer 200 ms; 2 runs of 2 s"
    assert printed.startswith(scenario)
    assert f"<title>{scenario}" in (tmp_path / "out" / "figure.html").read_text()
    assert main([*command, "--json", "--out", str(tmp_path / "out")]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [row["discipline"] for row in result["access_link"]] == names
    assert result["scenario"]["rate"] == 1e7 and result["scenario"]["seeds"] == 2 and result["notes"] == []


def test_the_command_compares_both_directions(capsys):
    command = [*SHORT, "--up", "cubic,call:3", "--up-rate", "2 Mb/s", "--seeds", "1", "--discipline", "FQCoDel"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "up 2 Mb/s: cubic, call:3;" in printed and "spreads its packets" not in printed
    assert "call up" in printed and "up [%]" in printed and "wait in both directions" in printed
    assert "pages of --up need 2.88 Mb/s, and the uplink has 2 Mb/s: the uploads get" in printed


def test_overloads_have_notes(capsys):
    command = ["access-link", "--rate", "1 Mb/s", "--rtt", "20ms", "--mix", "cubic,call:2", "--duration", "1s"]
    assert main([*command, "--seeds", "1", "--discipline", "CAKE:rate=2Mb/s:dscp=0,46,46"]) == 0
    printed = capsys.readouterr().out
    assert (
        "need 1.92 Mb/s, and the link has 1 Mb/s" in printed
        and "dscp=0,46,46: the rate of the shaper, 2 Mb/s, exceeds" in printed
    )
    assert "Values of one run" in printed


def test_disciplines_have_the_names_of_linux_too_and_lists_as_parameters():
    from ecc.cli.access_link import _named

    cake, plain = _named(["cake:dscp=0,46:sources=1,2:rate=9 Mb/s", "fq_codel"]).values()
    assert cake == CAKE(rate=9e6, dscp=(0, 46), sources=(1, 2)) and plain == FQCoDel(mark=True)


def test_times_of_a_second_or_more_are_in_seconds():
    from ecc.cli.access_link import _cell

    assert _cell("web_99", 2860.0, 1240.0) == "2.86 ± 1.2 s"
    assert _cell("web_50", 234.0, 2860.0) == "234 ± 2900"


def test_ctrl_c_prints_what_is_computed(capsys, monkeypatch):
    from ecc.comparison import access_link

    original = access_link.measured

    def measured(*arguments):
        yield next(original(*arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(access_link, "measured", measured)
    assert main([*SHORT, "--discipline", "DropTail", "--seeds", "3"]) == 130
    out = capsys.readouterr()
    assert "interrupted after 1 of 3 runs; results:" in out.err and "DropTail" in out.out
    assert "1 run of 2 s" in out.out and "1 runs" not in out.out


def test_the_footer_counts_the_runs_of_each_discipline():
    from ecc.cli.access_link import _text

    run = {"call": dict.fromkeys(COLUMNS, 1.0)}
    text = _text(summary([("PIE", 0, run), ("PIE", 1, run), ("CoDel", 0, run)]), ["PIE", "CoDel", "CAKE"])
    assert "spreads its packets" not in text
    assert "spreads its packets" in _text(summary([("PIE", 0, {"nada up": run["call"]})]), ["PIE"])
    assert "Means of 1 to 2 runs" in text and "Runs: PIE 2, CoDel 1. No run has ended of CAKE." in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rtt", "80ms:20ms"], "rtt must be MIN:MAX with MIN <= MAX, got 0.08 s and 0.02 s"),
        (["--mix", "web,call"], "mix must have a download (cubic, newreno, bbr, prague), got 'web,call'"),
        (
            ["--mix", "cubic,tv"],
            "mix must have names of cubic, newreno, bbr, prague, call, game, nada, gcc, cloud, web, stream, got 'tv'",
        ),
        (["--up", "cubic,tv"], "up must have names of cubic,"),
        (["--up", "web"], "up must have no pages (web), got 'web'"),
        (["--up-rate", "5"], "or one with a prefix such as Mb/s, got '5'"),
        (["--up-rate", "0 Mb/s"], "up_rate must be > 0"),
        (["--mix", "cubic:0"], "mix must have a number of flows >= 1 after 'cubic', got 'cubic:0'"),
        (["--mix", "cubic,web:2"], "mix must have a share between 0 and 1 after 'web', got 'web:2'"),
        (["--discipline", "FIFO"], "discipline must be one of DropTail,"),
        (["--discipline", "CoDel:goal=1"], "--discipline"),
        (["--rate", "0 Mb/s"], "rate must be > 0"),
        (["--rate", "50"], "or one with a prefix such as Mb/s, got '50'"),
        (["--rate", "50mbit"], "or one with a prefix such as Mb/s, got '50mbit'"),
        (["--rtt", "20-80ms"], "got '20-80ms'; a range is MIN:MAX, for example 20ms:80ms"),
        (["--duration", "1ms"], "duration must be >= 0.04 s, got 0.001 s"),
        (["--rtt", "20:80"], "or one with a prefix such as ms, got '20'"),
        (["--buffer", "200"], "or one with a prefix such as ms, got '200'"),
        (["--discipline", "CAKE:rate=50"], "rate of CAKE must have a unit such as Mb/s, got 50"),
        (["--discipline", "CAKE:dscp=77"], "dscp must be whole numbers from 0 to 63, got 77"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, message, capsys):
    assert main([*SHORT, *options]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_the_default_disciplines_are_those_that_operators_choose_from():
    disciplines = default_disciplines(1e7)
    assert list(disciplines) == ["DropTail", "CoDel", "PIE", "FQCoDel", "DualPI2", "CAKE"]
    assert disciplines["CAKE"].rate == 9.5e6


def test_rates_of_shapers_and_policers_are_in_proportion_at_the_uplink():
    link = AccessLink("50 Mb/s", up="cubic", up_rate="5 Mb/s")
    assert link.at_uplink(Policer(rate="40 Mb/s")) == Policer(rate="4 Mb/s")
    assert link.at_uplink(CAKE(rate="48 Mb/s")) == CAKE(rate="4.8 Mb/s")
    assert link.at_uplink(CAKE()) == CAKE()
