"""Claims as data: what they run, how their verdicts come about, and that nothing is done twice."""

from __future__ import annotations

import inspect
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from ecc._support.digests import code_digest, function_digest
from ecc._support.store import Store
from ecc.claims import crosscheck, experiments
from ecc.claims.ledger import Claim, Picture, Verdict, claims
from ecc.claims.report.pictures import side_by_side
from ecc.claims.schema import read
from ecc.claims.setups import SETUPS, build
from ecc.models import RCP, JetMax
from ecc.network.network import Network
from ecc.packet.hook_time import nanoseconds
from ecc.plot.look import decoded
from ecc.results import metrics
from ecc.scenario import Scenario

ENTRY = {
    "setup": "joins",
    "options": {
        "capacity": "10 Mb/s", "rtts": [0.04, 0.04], "starts": [0.0, 2.0], "duration": 6.0, "packet_size": 1000,
    },
    "seeds": 2,
    "runs": {"RCP": {"protocol": "RCP"}, "QI-RCP": {"protocol": "QIRCP"}},
    "expect": [
        {"metric": "rate", "run": "QI-RCP", "flow": 1, "between": [4.0, 6.0], "unit": "Mb/s", "reported": 4.75},
        {"metric": "peak_queue", "run": "QI-RCP", "unit": "packets", "below": "RCP"},
    ],
}  # fmt: skip


def claim(**changes):
    return Claim("some", "a paper", ("RCP",), "it holds", "numbers", "simulations", read("some", ENTRY | changes))


def judged(results, quick=False, **changes):
    """The finding on made-up results: one value for each role (version, run, seed) and metric."""
    about = claim(**changes)
    jobs = experiments.plan(about, quick)
    rows = []
    for job in jobs:
        version, label, _, _, seed = job.role
        values = [results(version, label, seed, item["metric"]) for item in job.arguments[0]["metrics"]]
        rows.append({"values": values, "series": None, "seconds": 0.5})
    return experiments.judge(about, jobs, rows, quick)


def made_run(time, rate, flows=None):
    """A run of these rates, as metrics see it."""
    values = {"time": np.asarray(time), "rate": np.asarray(rate)}
    labeled = {name: xr.DataArray(value) for name, value in values.items()}
    return SimpleNamespace(data=labeled, rate=labeled["rate"], _values=values.__getitem__, flows=flows, _spans={})


def holds(version, label, seed, metric):
    if metric == "rate":
        return 4.7
    return 10.0 + seed if label == "RCP" else 5.0 + 0.5 * seed


def test_confirmed_with_the_interval_over_seeds():
    found = judged(holds)
    assert found.verdict is Verdict.CONFIRMED
    assert found.measurements[0].value == 4.7 and found.measurements[0].reported == 4.75
    assert found.measurements[0].note == "2 seeds" and found.measurements[0].met
    queue = found.measurements[1]
    assert queue.half is not None and queue.half > 0.0


def test_refuted_names_the_miss():
    found = judged(lambda *role: 3.0 if role[3] == "rate" else holds(*role))
    assert found.verdict is Verdict.REFUTED
    assert found.reason.startswith("1 of 2 expectations are met; QI-RCP: sending rate of flow 1, 4 to 6 s is 3 Mb/s")


def test_refuted_says_whether_seeds_and_variations_change_it():
    shorter = {"name": "shorter RTTs", "options": {"rtts": [0.02, 0.02]}}

    def misses(version, label, seed, metric):
        return 3.0 if metric == "rate" else 20.0 if label == "QI-RCP" else 10.0

    found = judged(misses, vary=[shorter], cause="It cannot be.")
    assert found.reason.startswith("It cannot be. 0 of 2 expectations are met; QI-RCP: sending rate")
    assert found.reason.endswith(" The same holds for each of 2 seeds and each of 1 variation.")

    def partly(version, label, seed, metric):
        if metric == "rate":
            return 4.7 if version or seed == 1 else 1.0
        return misses(version, label, seed, metric)

    found = judged(partly, vary=[shorter])
    assert found.verdict is Verdict.REFUTED
    assert found.reason.endswith(" that their mean misses. Some expectations are met with shorter RTTs.")


def test_a_variation_makes_only_the_runs_again_that_it_changes():
    def values(version, label, seed, metric):
        if metric == "rate":
            return 4.7
        return 5.0 if version else 10.0 if label == "RCP" else 20.0

    faster = {"name": "QI-RCP at alpha = 1", "runs": {"QI-RCP": {"alpha": 1.0}}}
    jobs = experiments.plan(claim(vary=[faster], seeds=10))
    assert [sum(job.role[:2] == role for job in jobs) for role in (("", "RCP"), (faster["name"], "RCP"))] == [10, 0]
    assert sum(job.role[:2] == (faster["name"], "QI-RCP") for job in jobs) == 3
    found = judged(values, vary=[faster], seeds=10)
    assert found.verdict is Verdict.CONDITIONAL  # the queue of QI-RCP is compared with that of RCP as it is
    assert found.reason.startswith(
        "All expectations are met with QI-RCP at alpha = 1 (3 seeds); otherwise QI-RCP: peak queue"
    )


def test_a_quick_finding_says_how_few_seeds_are_behind_it():
    shorter = {"name": "shorter RTTs", "options": {"rtts": [0.02, 0.02]}}
    assert judged(holds, quick=True, vary=[shorter], seeds=10).reason.endswith(" Quick: 2 seeds, 1 for variations.")
    found = judged(holds, quick=True, seeds=10)
    assert found.reason == "2 of 2 expectations are met. Quick: 2 seeds."
    assert "the order of two runs may change" in found.assumptions[-1]


def test_an_ordering_must_be_beyond_chance():
    scatter = {1: 9.0, 2: 1.0}
    found = judged(
        lambda v, label, seed, m: scatter[seed] if (label, m) == ("RCP", "peak_queue") else holds(v, label, seed, m)
    )
    assert found.verdict is Verdict.REFUTED  # in one seed of two it is the other way round


def test_a_miss_that_an_assumption_mends_is_conditional():
    def mends(version, label, seed, metric):
        return 3.0 if metric == "rate" and not version else holds(version, label, seed, metric)

    found = judged(mends, vary=[{"name": "shorter RTTs", "options": {"rtts": [0.02, 0.02]}}])
    assert found.verdict is Verdict.CONDITIONAL
    assert found.reason.startswith("All expectations are met with shorter RTTs")


def test_an_assumption_that_breaks_it_makes_it_conditional():
    def breaks(version, label, seed, metric):
        return 3.0 if metric == "rate" and version else holds(version, label, seed, metric)

    found = judged(breaks, vary=[{"name": "shorter RTTs", "options": {"rtts": [0.02, 0.02]}}])
    assert found.verdict is Verdict.CONDITIONAL and "but not with shorter RTTs" in found.reason


def test_a_miss_for_want_of_a_fact_is_not_comparable():
    found = judged(lambda *role: 3.0 if role[3] == "rate" else holds(*role), missing="the traces")
    assert found.verdict is Verdict.NOT_COMPARABLE and found.reason.endswith("the paper leaves open the traces.")


def test_one_run_measures_what_was_asked():
    about = claim()
    job = next(j for j in experiments.plan(about) if j.role[1] == "QI-RCP")
    assert [item["metric"] for item in job.arguments[0]["metrics"]] == ["rate", "peak_queue"]
    result = experiments.perform(job.arguments[0])
    assert result["values"][0] == pytest.approx(4.75, rel=0.02)
    assert result["values"][1] > 0.0
    assert len(result["series"]["rates"]) == 2


def test_a_sweep_runs_each_value_and_draws_the_curve():
    about = claim(
        sweep={"duration": [5.0, 6.0]},
        expect=[{"metric": "utilization", "run": "RCP", "at": 6.0, "at_least": 0.5}],
        curve=[{"metric": "utilization", "reported": {"RCP": [[5.0, 1.0]]}}],
    )
    jobs = experiments.plan(about)
    assert {job.arguments[0]["options"]["duration"] for job in jobs} == {5.0, 6.0}
    n = [len(job.arguments[0]["metrics"]) for job in jobs]
    rows = [{"values": [0.8] * k, "series": None, "seconds": 0.1} for k in n]
    found = experiments.judge(about, jobs, rows)
    assert found.verdict is Verdict.CONFIRMED
    assert [trace["name"] for trace in found.pictures[-1].figure["data"]] == ["RCP", "QI-RCP", "RCP, reported"]


def test_a_variation_may_be_drawn():
    about = claim(
        seeds=1,
        sweep={"duration": [5.0, 6.0]},
        expect=[{"metric": "utilization", "run": "RCP", "at": 6.0, "at_least": 0.5}],
        vary=[{"name": "RCP at alpha = 1", "runs": {"RCP": {"alpha": 1.0}}, "figures": True}],
        curve=[{"metric": "utilization"}],
        figures=[6.0],
    )
    jobs = experiments.plan(about)
    series = {
        "time": [1.0],
        "rates": [[1.0]],
        "queues": [[1.0]],
        "flows": ["x1"],
        "links": ["l1"],
        "said": "So.",
        "packet_size": 1000,
    }
    rows = []
    for job in jobs:
        spec = job.arguments[0]
        value = 0.9 if job.role[0] else 0.8
        rows.append(
            {"values": [value] * len(spec["metrics"]), "series": series if spec["series"] else None, "seconds": 0.1}
        )
    found = experiments.judge(about, jobs, rows)
    runs, curve = found.pictures  # three runs and more stand side by side in one figure
    labels = [note["text"] for note in runs.figure["layout"]["annotations"]]
    assert labels == ["RCP, duration 6", "QI-RCP, duration 6", "RCP, duration 6, varied"]
    assert runs.caption == (
        "RCP, duration 6; QI-RCP, duration 6: Packet run, seed 1. So. "
        "RCP, duration 6, varied: Packet run with RCP at alpha = 1, seed 1. So."
    )
    assert [trace["name"] for trace in curve.figure["data"]] == ["RCP", "QI-RCP", "RCP, varied"]
    assert curve.caption.endswith(" Varied: RCP at alpha = 1.")


def test_a_ratio_to_another_value_of_the_sweep():
    about = claim(
        sweep={"duration": [5.0, 6.0]},
        expect=[{"metric": "utilization", "run": "RCP", "at": 6.0, "against": 5.0, "reported": 1.5, "within": 0.01}],
        figures=False,
    )
    jobs = experiments.plan(about)
    assert {job.role[1:3] for job in jobs} == {("RCP", 5.0), ("RCP", 6.0)}
    rows = [{"values": [0.9 if job.role[2] == 6.0 else 0.6], "series": None, "seconds": 0.1} for job in jobs]
    found = experiments.judge(about, jobs, rows)
    assert found.verdict is Verdict.CONFIRMED
    assert found.measurements[0].value == 1.5 and found.measurements[0].name.endswith("relative to the value at 5.0")


@pytest.mark.slow
def test_nothing_is_done_twice(tmp_path, monkeypatch):
    about = claim(seeds=1, runs={"QI-RCP": {"protocol": "QIRCP"}}, expect=ENTRY["expect"][:1])
    first = crosscheck.examine([about], jobs=1, store=Store(tmp_path))
    assert not first.failures and len(Store(tmp_path)) == 1

    def refuse(*arguments, **options):
        raise AssertionError("work was done again")

    monkeypatch.setattr(crosscheck, "in_workers", refuse)
    again = crosscheck.examine([about], jobs=1, store=Store(tmp_path))
    assert again.findings[0].to_dict() == first.findings[0].to_dict()
    with pytest.raises(AssertionError, match="done again"):
        crosscheck.examine([about], jobs=1, store=Store(tmp_path, fresh=True))


def test_keys_change_with_what_the_result_depends_on():
    def keys(about):
        return {job.key for job in experiments.plan(about)}

    assert keys(claim()) == keys(claim())
    assert not keys(claim()) & keys(claim(sample=0.05))
    assert len(keys(claim()) & keys(claim(runs=ENTRY["runs"] | {"RCP": {"protocol": "RCP", "alpha": 0.3}}))) == 2
    assert code_digest("ecc.models.rcp") != code_digest("ecc.models.xcp")
    assert function_digest(SETUPS["joins"]) != function_digest(SETUPS["flash_crowd"])


@pytest.mark.parametrize("about", [c for c in claims().values() if c.experiment], ids=lambda c: c.id)
def test_entries_name_what_there_is(about):
    """Setups build, metrics take the arguments, and spans lie within the runs."""
    for job in experiments.plan(about):
        if job.role[-1] > 1 or job.role[3] != "packet":
            continue
        spec = job.arguments[0]
        parts = build(spec["setup"], spec["options"], 1)
        scenario = Scenario(protocol=experiments.protocol_of(spec["protocol"]), **parts)
        for item in spec["metrics"]:
            metric = metrics.get(item["metric"])
            inspect.signature(metric.function).bind(None, None, **item["arguments"])
            metrics.scale(metric, item["unit"], scenario)
            assert max(item["arguments"].get("between", [0.0])) <= parts["duration"]


def test_joining_is_the_mean_time_of_those_who_join():
    """From each start to the next one: 1.5 and 0.5 s until a rate stays within a tenth of where it ends."""
    scenario = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.1] * 3, starts=[0.0, 2.0, 6.0]), RCP(), 10.0)
    time = np.arange(0.5, 10.1, 0.5)
    rates = np.full((len(time), 3), 5.0)
    rates[(time > 2.0) & (time <= 3.5), 1] = 1.0
    rates[(time > 6.0) & (time <= 6.5), 2] = 1.0
    run = made_run(time, rate=rates)
    assert metrics.get("mean_settling_time").function(run, scenario, until=10.0) == pytest.approx(1.0)


def test_the_highest_fair_share_is_that_of_the_fewest_flows():
    scenario = Scenario(Network.dumbbell("12 Mb/s", rtts=[0.1]), RCP(), 6.0)
    time = np.arange(1.0, 7.0)
    flows = pd.DataFrame({"start": [0.0, 0.0, 2.5], "finish": [np.nan, 4.0, 5.5]})  # 2, 2, 3, 3, 2, 1 of them
    run = made_run(time, rate=np.full((6, 1), 5e6), flows=flows)
    highest = metrics.get("highest_fair_share").function
    assert highest(run, scenario) == 12e6
    assert highest(run, scenario, between=[1.0, 5.0]) == 6e6
    assert highest(run, scenario, over=2) == 9e6
    share = metrics.get("share_of_active").function(run, scenario, flow=0)
    assert share == pytest.approx(5.0 / np.mean([6, 6, 4, 4, 6, 12]))


def test_jetmax_topologies_as_the_ledger_reads_them():
    parts = {name: build("jetmax_topology", {"name": name}, 1) for name in ("T1", "T2", "T3")}
    assert [float(part["network"].links[0].capacity) for part in parts.values()] == [10e6, 100e6, 10e6]
    assert [len(part["impairments"]) for part in parts.values()] == [0, 0, 1]
    assert len(build("jetmax_topology", {"name": "T2", "spikes": True}, 1)["impairments"]) == 1
    assert not build("jetmax_topology", {"name": "T3", "spikes": False}, 1)["impairments"]


LOSS = {"metric": "loss", "reported": 1.0}


@pytest.mark.parametrize(
    "changes, kind, message",
    [
        ({"setup": "nowhere"}, ValueError, "setup must be one of joins, .*, got 'nowhere'"),
        ({"sampel": 0.1}, ValueError, "key must be one of setup, .*, got 'sampel' in claim some"),
        ({"options": {"rtt": 0.1}}, ValueError, "option of joins must be one of .*, got 'rtt' in claim some"),
        ({"quick": {"durration": 1.0}}, ValueError, "option of joins must be one of .*, got 'durration'"),
        ({"sweep": {"duration": [1.0], "packet_size": [1.0]}}, ValueError, "sweep must have every value once, got"),
        (
            {"runs": {"RCP": {"protocol": "TCPX"}}, "expect": [LOSS]},
            ValueError,
            "protocol must be one of .*, got 'TCPX'",
        ),
        ({"seeds": 2.5}, TypeError, "seeds in claim some must be int, got 2.5"),
        ({"sample": "0.1 s"}, TypeError, "sample in claim some must be float, got '0.1 s'"),
        ({"fluid": ["TCP"]}, ValueError, "run must be one of RCP, QI-RCP, got 'TCP' in fluid of claim some"),
        ({"expect": [LOSS | {"metric": "joy"}]}, ValueError, r"metric must be one of .*, got 'joy' in expect\[0\]"),
        ({"expect": [LOSS, {"reported": 1.0}]}, ValueError, r"expect\[1\] of claim some must have the key 'metric'"),
        ({"expect": [LOSS | {"run": "TCP"}]}, ValueError, "run must be one of RCP, QI-RCP, got 'TCP'"),
        ({"expect": [LOSS | {"below": "TCP"}]}, ValueError, "run must be one of RCP, QI-RCP, got 'TCP'"),
        ({"expect": [LOSS | {"flow": 1}]}, ValueError, r"key must be one of .*, got 'flow' in expect\[0\]"),
        ({"expect": [LOSS | {"at": 3.0}]}, ValueError, r"value must be one of , got 3.0 in expect\[0\]"),
        ({"expect": [LOSS | {"band": "wide"}]}, TypeError, r"band in expect\[0\] of claim some must be float"),
        ({"expect": [{"metric": "loss"}]}, ValueError, "must have one of the keys reported, at_least, at_most, below"),
        ({"expect": [{"metric": "rate", "reported": 1.0}]}, ValueError, "the key 'flow', which the metric rate needs"),
        ({"expect": ["loss"]}, TypeError, r"expect\[0\] of claim some must be a table, got 'loss'"),
        ({"vary": [{"name": "a", "runs": {"TCP": {}}}]}, ValueError, r"got 'TCP' in vary\[0\] of claim some"),
        ({"vary": [{"runs": {}}]}, ValueError, r"vary\[0\] of claim some must have the key 'name'"),
        ({"vary": [{"name": "a", "optoins": {}}]}, ValueError, "key must be one of name, options, .*, got 'optoins'"),
        ({"curve": [{"metric": "loss"}]}, ValueError, r"over_option must be one of , got '' in curve\[0\]"),
        ({"curve": [{"metric": "loss", "argument": "between", "values": [[0.0, 1.0]]}]}, ValueError, "as many x as"),
    ],
)
def test_an_entry_is_refused_when_it_is_loaded(changes, kind, message):
    with pytest.raises(kind, match=message) as caught:
        claim(**changes)
    assert "\n" not in str(caught.value)


def test_a_claim_without_an_experiment_has_no_plan():
    with pytest.raises(ValueError, match="claim must have an experiment, got qi-3"):
        experiments.plan(claims()["qi-3"])


def test_a_curve_over_an_argument_is_measured_in_each_run():
    values = [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    curve = {"metric": "rate", "flow": 0, "argument": "between", "values": values, "x": [1.0, 2.0, 3.0]}
    about = claim(curve=[curve])
    jobs = experiments.plan(about)
    for job in jobs:
        asked = [item["arguments"]["between"] for item in job.arguments[0]["metrics"] if item["metric"] == "rate"]
        assert asked[-3:] == values
    found = judged(holds, curve=[curve])
    assert found.verdict is Verdict.CONFIRMED and found.pictures[-1].title == "Sending rate"
    assert [line["name"] for line in found.pictures[-1].figure["data"]] == ["RCP", "QI-RCP"]


@pytest.mark.slow
def test_hook_times_of_a_router_with_fewer_hooks():
    taken = nanoseconds(JetMax(), repeat=2, calls=100_000)
    assert taken["on_arrival"] != 0.0 and taken["on_departure"] == 0.0  # how long it takes is no matter of a test


SERIES = {
    "time": [3.0, 6.0], "rates": [[4e6, 4e6], [4e6, 4e6]], "queues": [[0.0, 9e3]], "flows": ["x1", "x2"],
    "links": ["l1"], "packet_size": 1000, "said": "So.",
}  # fmt: skip


def drawn(results, **changes):
    """The finding on made-up results of packet runs that are drawn."""
    about = claim(**changes)
    jobs = experiments.plan(about)
    rows = []
    for job in jobs:
        version, label, _, _, seed = job.role
        values = [results(version, label, seed, item["metric"]) for item in job.arguments[0]["metrics"]]
        rows.append({"values": values, "series": SERIES if job.arguments[0]["series"] else None, "seconds": 0.5})
    return experiments.judge(about, jobs, rows)


def test_runs_that_miss_what_is_expected_come_first_and_say_so():
    def misses(version, label, seed, metric):
        return 3.0 if metric == "rate" else holds(version, label, seed, metric)

    found = drawn(misses)
    assert [picture.title for picture in found.pictures] == ["QI-RCP", "RCP"]
    assert found.pictures[0].caption.startswith("Not as expected: QI-RCP: sending rate of flow 1, 4 to 6 s is 3 Mb/s")
    assert [picture.title for picture in drawn(holds).pictures] == ["RCP", "QI-RCP"]
    assert "Not as expected" not in "".join(picture.caption for picture in drawn(holds).pictures)


def test_what_is_reported_is_drawn_into_the_runs():
    expected = [*ENTRY["expect"], {"metric": "peak_queue", "run": "QI-RCP", "unit": "packets", "reported": 5.5}]
    figure = {picture.title: picture.figure["data"] for picture in drawn(holds, expect=expected).pictures}["QI-RCP"]
    rate, queue = ([t for t in figure if t["name"] == name][0] for name in ("x2, reported", "l1, reported"))
    assert (rate["x"], rate["y"]) == ([4.0, 6.0], [4.75, 4.75])
    assert (queue["x"], queue["y"]) == ([3.0, 6.0], [5.5, 5.5])


def test_intervals_of_a_curve_are_bars_not_a_share_of_a_mean_that_may_be_zero():
    def of_nothing(version, label, seed, metric):
        return holds(version, label, seed, metric) if metric == "rate" else seed - 1.5

    swept = {"sweep": {"delay": [0.01, 0.02]}, "figures": False, "expect": [{**ENTRY["expect"][0], "at": 0.01}]}
    curve = [{"metric": "peak_queue", "unit": "packets"}]
    found = drawn(of_nothing, seeds=3, curve=curve, **swept)
    assert found.pictures[0].caption == "Packet runs, mean over seeds; bars are its 95 % intervals."
    bars = found.pictures[0].figure["data"][0]["error_y"]
    assert decoded(bars["array"]) == pytest.approx([2.4841, 2.4841], rel=1e-4)
    few = drawn(of_nothing, seeds=2, curve=curve, **swept)  # an interval of two seeds is 12.7 times their error
    assert (
        few.pictures[0].caption == "Packet runs, mean over seeds."
        and "error_y" not in few.pictures[0].figure["data"][0]
    )


def test_a_value_that_is_met_by_chance_says_so():
    def scattered(version, label, seed, metric):
        return 4.7 + 4.0 * (seed - 1.5) if metric == "rate" else holds(version, label, seed, metric)

    assert "met on average only" in judged(scattered).measurements[0].note
    assert "met on average only" not in judged(holds).measurements[0].note


def test_a_quick_run_leaves_out_variations_that_take_longer():
    longer = {"name": "more traffic", "options": {"duration": 60.0}}
    wider = {"name": "wider", "options": {"rtts": [0.08, 0.08]}}
    for quick, versions in ((False, {"", "more traffic", "wider"}), (True, {"", "wider"})):
        assert {job.role[0] for job in experiments.plan(claim(vary=[longer, wider]), quick)} == versions
    names = [row.name for row in judged(holds, quick=True, vary=[longer, wider]).measurements]
    assert "with wider" in names and "with more traffic" not in names


def test_the_claim_on_the_queues_of_edn_shows_their_distributions():
    quantiles = {c.metric for c in claims()["ed-f3"].experiment.curve if c.argument == "quantile"}
    assert quantiles == {"queue_found"}


def test_pictures_of_one_title_all_stand_side_by_side():
    figure = {"data": [], "layout": {}}
    one, other = Picture("RCP, varied", "With a.", figure), Picture("RCP, varied", "With b.", figure)
    (made,) = side_by_side([one, other, Picture("alpha", "With c.", figure)], "Runs")
    assert [note["text"] for note in made.figure["layout"]["annotations"]] == ["RCP, varied", "RCP, varied #2", "α"]
    assert made.caption == "RCP, varied: With a. RCP, varied #2: With b. alpha: With c."
    assert side_by_side([one, other], "Runs") == [one, other]
    curve = {"name": "x1", "x": [0.0, 1.0], "y": [1.0, 2.0]}
    blue, red = (
        replace(one, figure={"data": [{**curve, "line": {"color": color}}], "layout": {}}) for color in ("blue", "red")
    )
    assert side_by_side([blue, blue, red], "Runs") == [blue, blue, red]  # one legend cannot say both
    assert len(side_by_side([blue, blue, blue], "Runs")) == 1
