"""The ledger's live runs: what is run again, how it is judged, and what is said where none can be made."""

from dataclasses import replace

import pytest

import ecc.live
from ecc._support.store import Store
from ecc.claims import crosscheck, experiments
from ecc.claims.catalog import checks, to_reproduce
from ecc.claims.checks import live
from ecc.claims.ledger import Claim, Verdict, claims
from ecc.claims.report.output import Report, as_markdown
from ecc.claims.schema import Expectation
from ecc.errors import EccError

MACHINE = {
    "slow": 4.0, "attempts": 3, "elapsed": 360.0, "frozen": 12.0, "load": 1.5, "lateness_p50": 2e-6,
    "lateness_p99": 5e-6, "lateness_p999": 7e-6, "frames_sent": 1_250_000, "frames_lost": 0, "frames_refused": 0,
    "fastest": 1e9,
}  # fmt: skip


@pytest.fixture
def short():
    """Of EVAL's flash crowd, one run at 2 Mb/s for 2 s."""
    claim = claims()["live-ev-f8"]
    expect = (Expectation("utilization", arguments={"between": [1.0, 2.0]}, run="PIQI-RCP", at_least=0.5),)
    options = {"joining": 1, "join_at": 0.5, "duration": 2.0, "capacity": "2 Mb/s"}
    runs = {"PIQI-RCP": claim.experiment.runs["PIQI-RCP"]}
    return replace(claim, experiment=replace(claim.experiment, options=options, expect=expect, runs=runs, fluid=False))


@pytest.fixture
def forbidden(monkeypatch):
    def refuse(*_, **__):
        raise EccError("live runs need network namespaces, as root or in user namespaces: forbidden")

    monkeypatch.setattr(ecc.live, "simulate", refuse, raising=False)


def judged(packets, on_frames, **changes):
    """The finding on made-up runs of RCP and XCP: values of one expectation by engine; a text is why a run is void."""
    expect = tuple(
        Expectation("peak_queue", "packets", run=run, **({"reported": 100.0} | changes)) for run in ("RCP", "XCP")
    )
    whole = replace(claims()["ev-f4"].experiment, expect=expect, fluid=False)
    runs = {label: whole.runs[label] for label in ("RCP", "XCP")}
    about = Claim("some", "EVAL", ("RCP",), "it holds", "numbers", "live", replace(whole, runs=runs).on_real_frames())
    jobs, results = experiments.plan(about), []
    for job in jobs:
        _, label, _, engine, _ = job.role
        value = (packets if engine == "packet" else on_frames)[label]
        done = {"void": value} if isinstance(value, str) else {"values": [value] * 2, "machine": MACHINE}
        results.append(done | {"series": None, "seconds": 1.0})
    return experiments.judge(about, jobs, results)


def test_a_repeated_claim_is_the_other_one_with_live_runs_of_one_seed():
    one, other = claims()["live-ev-f4"], claims()["ev-f4"]
    assert one.experiment == other.experiment.on_real_frames() and other.statement in one.statement
    roles = [job.role for job in experiments.plan(one)]
    assert {role[3] for role in roles} == {"packet", "fluid", "live"} and {role[4] for role in roles} == {1}
    assert {job.group for job in experiments.plan(one) if job.role[3] == "live"} == {"live"}
    assert {job.key for job in experiments.plan(one) if job.role[3] == "packet"} <= {
        job.key for job in experiments.plan(other)
    }


def test_claims_of_live_runs_are_checked_on_request_only():
    assert {c.section for c in to_reproduce()} == {c.section for c in claims().values()} - {"live"}
    sections = {"theorems", "simulations", "errata", "open", "questions"}
    assert {c.section for c in to_reproduce(["RCP"])} == sections
    assert [c.id for c in to_reproduce(["live-cpu"])] == ["live-cpu"]
    assert {c.id for c in to_reproduce(["live"])} == {c.id for c in claims().values() if c.section == "live"}


def test_live_figures_are_held_against_packets_not_against_the_paper():
    found = judged({"RCP": 100.0, "XCP": 300.0}, {"RCP": 95.0, "XCP": 600.0})
    assert found.verdict is Verdict.CONFIRMED
    assert found.reason == ("2 of 2 live values agree with packet runs. As reported: 1 live value, 1 packet value.")
    assert [(row.value, row.live, row.met) for row in found.measurements[:2]] == [(100, 95, True), (300, 600, True)]
    assert "as reported: neither" in found.measurements[1].note


def test_a_limit_between_two_close_values_decides_nothing():
    assert judged({"RCP": 109.0, "XCP": 1.0}, {"RCP": 111.0, "XCP": 1.0}).verdict is Verdict.CONFIRMED
    off = judged({"RCP": 100.0, "XCP": 1.0}, {"RCP": 120.0, "XCP": 1.0})
    assert off.verdict is Verdict.REFUTED and "is 120 packets live and 100 packets in packets" in off.reason


def test_the_report_says_at_which_rate_runs_were_driven():
    found = judged({"RCP": 1.0, "XCP": 1.0}, {"RCP": 1.0, "XCP": 1.0})
    row = found.measurements[2]
    assert (row.name, row.live, row.unit) == ("RCP: rate at which the fastest link was driven", 250.0, "Mb/s")
    assert row.note == (
        "slowed down 4 times: 360 s, with the clock stopped for 12 s; 1.25 million frames, 0 lost, 0 refused; "
        "50/99/99.9 % of the packets were less than 2/5/7 us late; 2 earlier void runs; load 1.5"
    )
    assert "| live |" in as_markdown(Report([found]))


def test_void_runs_are_named_and_say_nothing_of_the_protocol():
    some = judged({"RCP": 1.0, "XCP": 1.0}, {"RCP": "3 of 9 frames were lost by the kernel", "XCP": 1.0})
    assert some.verdict is Verdict.CONDITIONAL
    assert (
        some.reason.endswith("Void: RCP: 3 of 9 frames were lost by the kernel.") and some.measurements[0].met is None
    )
    every = judged({"RCP": 1.0, "XCP": 1.0}, {"RCP": "late", "XCP": "late"})
    assert every.verdict is Verdict.NOT_COMPARABLE and every.reason == "Void: RCP, XCP: late."
    beside = judged({"RCP": 2.0, "XCP": 1.0}, {"RCP": 2.0, "XCP": "late"}, reported=None, above="XCP")
    assert beside.measurements[0].met is None


@pytest.mark.slow
def test_each_expectation_is_measured_on_real_frames_beside_packets(short):
    jobs = experiments.plan(short)
    finding = experiments.judge(short, jobs, [experiments.perform(*job.arguments) for job in jobs])
    if finding.verdict is Verdict.NOT_COMPARABLE:
        pytest.skip(finding.reason)
    row, driven = finding.measurements
    assert finding.verdict is Verdict.CONFIRMED and row.met and row.live > 0.5 < row.value
    assert driven.live in (2.0, 0.5) and "load " in driven.note
    assert [picture.title for picture in finding.pictures] == ["PIQI-RCP, live", "PIQI-RCP"]
    assert finding.pictures[0].caption.startswith(f"Live run {driven.note.partition(':')[0]}, seed 1. ")


def test_mice_of_a_live_run_are_flows_that_are_drawn_before(monkeypatch):
    seen = []

    def simulate(scenario, **options):
        seen.append(scenario)
        return replace(ecc.packet.simulate(scenario, sample=options["sample"]), stats={"void": "", "attempts": 2})

    monkeypatch.setattr(ecc.live, "simulate", simulate)
    scenario = ecc.Scenario(
        ecc.Network.dumbbell("10 Mb/s", rtts=[0.05]),
        ecc.models.RCP(),
        duration=2.0,
        workload=ecc.Workload(arrivals=[ecc.Arrivals([0], 0.2, "20 kB", shape=1.4)]),
    )
    run, packets = experiments._live(scenario, 0.1), ecc.packet.simulate(scenario, sample=0.1)
    assert seen[0].workload is None and seen[0].network.n_flows > 5
    assert run.rate.shape == packets.rate.shape and (run.rate == packets.rate).all()
    assert (run.queue_max == packets.queue_max).all() and run.stats["attempts"] == 2


def test_a_void_run_is_made_slower_before_it_is_given_up(monkeypatch):
    tried = []

    def simulate(scenario, slow, attempts, **_):
        tried.append((slow, attempts))
        return replace(run, stats={"void": "late" if slow == 1.0 else "", "attempts": 2 if slow == 1.0 else 1})

    scenario = ecc.Scenario(ecc.Network.dumbbell("1 Mb/s", rtts=[0.05]), ecc.models.RCP(), duration=0.2)
    run = ecc.packet.simulate(scenario)
    monkeypatch.setattr(ecc.live, "simulate", simulate)
    assert experiments._live(scenario, 0.1).stats["attempts"] == 3
    assert tried == [(slow, experiments.ATTEMPTS) for slow in experiments.SLOW]


def test_a_void_run_is_not_kept(short, forbidden, tmp_path, monkeypatch):
    monkeypatch.setattr(crosscheck, "in_workers", lambda calls, *_: _here(calls))
    outcome = crosscheck.examine([short], 1, store=Store(tmp_path))
    (finding,) = outcome.findings
    assert finding.verdict is Verdict.NOT_COMPARABLE
    assert finding.reason.startswith("Void: PIQI-RCP: live runs need network namespaces")
    assert finding.measurements[0].value > 0.5 and finding.measurements[0].live is None
    assert len(Store(tmp_path)) == 1  # the packet run


def _here(calls):
    for k, (work, arguments, options) in enumerate(calls):
        yield k, work(*arguments, **options), None


def test_an_entry_that_repeats_says_nothing_else(monkeypatch):
    from ecc.claims import ledger

    for entry in ({"repeats": "qi-3"}, {"repeats": "nothing"}, {"repeats": "ev-f4", "seeds": 2}):
        with pytest.raises(ValueError, match="repeats must be the one key of claim 'some', a claim on runs before it"):
            ledger._repeated("some", "live", entry, claims())


@pytest.mark.slow
def test_the_finding_says_that_it_was_not_run_live(forbidden, monkeypatch):
    monkeypatch.setattr(live, "LOOPS", live.LOOPS[:1])
    finding = checks()["open-live"](claims()["open-live"])
    assert finding.answer == "under conditions"
    assert "Not run live: live runs need network namespaces" in finding.reason
    assert any(row.met for row in finding.measurements)


def test_the_load_is_void_where_no_live_run_can_be_made(forbidden):
    finding = checks()["live-cpu"](claims()["live-cpu"])
    assert finding.verdict is Verdict.NOT_COMPARABLE and finding.reason.startswith("Void: live runs need network")
