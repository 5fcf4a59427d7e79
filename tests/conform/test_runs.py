"""The conformance laboratory: which cases apply, what they find of a controller with a fault, and what is written."""

import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest
from waiting import HANG, until

import ecc
from ecc import conform
from ecc._support.store import Store
from ecc.cli import main
from ecc.conform import runs
from ecc.conform.criteria import RFC9743
from ecc.models import BBR, CUBIC, BBRv1, NewReno

STARTUP = ["bbr-startup-plateau", "bbr-drain-inflight"]


@dataclass(frozen=True)
class SlowDrain(BBR):
    """Drain paces at 0.9 of the bandwidth."""

    def params(self):
        return super().params() | {"drain_gain": 0.9}


@dataclass(frozen=True)
class Divides(NewReno):
    """Its first ACK divides by zero."""

    def flow_hooks(self):
        return super().flow_hooks() | {"on_ack": divide}


def divide(flow, header, p, env):
    env.window = env.window / 0.0


def test_both_versions_leave_startup_and_drain_as_specified():
    for protocol in (BBR(), BBRv1()):
        found = conform.run(protocol, STARTUP)
        assert found.conforms, [one.reason for one in found.findings]
        assert [one.claim.id for one in found.findings] == STARTUP
        assert [one.claim.protocols for one in found.findings] == [(type(protocol).__name__,)] * 2
        assert all(one.pictures and one.measurements for one in found.findings)


def test_a_wrong_gain_is_found_and_named():
    found = conform.run(SlowDrain(), STARTUP)
    assert not found.conforms
    assert str(found["bbr-startup-plateau"].verdict) == "confirmed"
    assert str(found["bbr-drain-inflight"].verdict) == "refuted"
    assert "Pacing gain of Drain: 0.9, required: 0.49 to 0.51" in found["bbr-drain-inflight"].reason


def test_what_a_protocol_lacks_is_the_reason_why_a_case_does_not_apply():
    found = conform.run(NewReno(), ["bbr-startup-plateau"])
    assert found.applying == [] and not found.conforms  # nothing was examined
    assert str(found.findings[0].verdict) == "not comparable"
    assert "does not apply: it has no named states" in found.findings[0].reason
    assert found.findings[0].reason.endswith(" and no variables max_bw, full_bw, full_bw_reached, round_count")


@pytest.mark.slow
def test_the_report_folds_cases_that_do_not_apply(tmp_path):
    cases = [word for name in ("cubic-window", "cubic-timeout", *STARTUP) for word in ("--case", name)]
    assert main(["conform", "CUBIC", *cases, "--out", str(tmp_path), "--store", str(tmp_path / "store.sqlite")]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8").split("<script>")[0]
    assert "2 cases: 2 confirmed." in page and ">all cases</a>" in page and ">Claim" not in page
    assert re.findall(r'<article id="([\w-]+)"', page) == ["cubic-window", "cubic-timeout"]
    assert "<summary>2 cases do not apply</summary><ul><li>bbr-*: 2 cases do not apply: no named states" in page
    assert "<code>STATES</code>" in page
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "2 cases: 2 confirmed." in text and "- bbr-\\*: 2 cases do not apply" in text
    assert len(json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["findings"]) == 4


def test_the_cases_of_rfc_9743_run_in_the_order_of_its_sections():
    ids = [key for criterion in RFC9743 for key in criterion.ids]
    assert [case.id for case in conform.cases(["rfc9743"])] == ids


def test_the_criteria_of_rfc_9743_are_a_report_of_their_own(tmp_path):
    found = conform.run(ecc.models.ConstantRate("1 Mb/s"), ["rfc9743"])
    page, _ = found.write(tmp_path)
    rows = re.findall(
        r"<tr>.*?</tr>", page.read_text(encoding="utf-8").split('class="criteria"')[1].split("</table>")[0]
    )
    ids = [key for row in rows for key in re.findall(r'href="#([\w-]+)"', row)]
    assert sorted(ids) == sorted(case.id for case in conform.cases(["rfc9743"]))  # each case has its criterion
    sections = re.findall(r'<td class="id">([^<]+)</td>', "".join(rows))
    assert sections[0] == "5.1.1" and sections[-1] == "7.11" and len(set(sections)) == len(sections)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# Evaluation of ConstantRate(") and "| 7.6 | Misbehaving nodes |" in text
    conform.run(ecc.models.ConstantRate("1 Mb/s"), ["rfc9743-loss"]).write(tmp_path / "one")
    assert (tmp_path / "one" / "report.md").read_text(encoding="utf-8").startswith("# Conformance of ConstantRate")


@pytest.mark.slow
def test_the_command_evaluates_by_rfc_9743(tmp_path, capsys):
    places = ["--out", str(tmp_path), "--store", str(tmp_path / "store.sqlite")]
    assert main(["conform", "NewReno", "--rfc9743", *places]) == 4
    assert "rfc9743-loss" in capsys.readouterr().out
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| 5.1.3 | Protection against high packet loss | rfc9743-loss | confirmed |" in text
    assert main(["conform", "NewReno", "--rfc9743", "--case", "bbr", *places]) == 2
    assert "case needs no --rfc9743" in capsys.readouterr().err


def test_the_specified_window_is_drawn_behind_the_measured_one():
    (finding,) = conform.run(CUBIC(), ["cubic-window"]).findings
    behind, front = finding.pictures[0].figure["data"]
    assert (behind["name"], front["name"]) == ("specification", "window")
    assert behind["line"]["width"] > front["line"]["width"]


def test_a_controller_that_never_gets_there_is_refuted():
    found = conform.run(BBR(probe_rtt_interval=1000.0), ["bbr-probe-rtt"])
    assert found.findings[0].reason == "No stay in ProbeRTT ends within 13 s."
    assert not found.conforms


def test_names_of_cases_and_protocols():
    assert {claim.section for claim in conform.cases()} == {"conformance"}
    assert all(claim.id.startswith("bbr-") for claim in conform.cases(["bbr"]))
    assert [one.id for one in conform.cases(["rfc", "cubic-wi"])] == [
        "cubic-window",
        *(one.id for one in conform.cases(["rfc8867"])),
        *(one.id for one in conform.cases(["rfc9743"])),
    ]
    assert [one.id for one in conform.cases(["bbr-up-loss"])] == ["bbr-up-loss"]  # not bbr-up-loss-longterm
    with pytest.raises(ValueError, match="got 'cubic-windw': did you mean cubic-window"):
        conform.cases(["cubic-windw"])
    with pytest.raises(
        ValueError, match="case must be one of bbr, cubic, rfc8867, rfc9743, sender, or an id .*, got ''$"
    ):
        conform.cases([""])
    with pytest.raises(ValueError, match="case must be one of bbr.*got 'tahoe'"):
        conform.run(BBR(), ["tahoe"])
    with pytest.raises(ValueError, match="protocol name must be one of"):
        conform.run("Tahoe")
    with pytest.raises(ValueError, match="executor must be >= 1"):
        conform.run(BBR(), STARTUP, executor=0)
    with pytest.raises(KeyError):
        conform.run(BBR(), STARTUP)["bbr-policer"]


@pytest.mark.slow
def test_the_report_has_figures_and_says_how_to_run_a_case_again(tmp_path):
    page, results = conform.run("BBR", STARTUP[:1]).write(tmp_path)
    text = page.read_text(encoding="utf-8")
    assert "Conformance of BBR" in text and "ecc conform BBR --case bbr-startup-plateau" in text
    assert text.count('class="plot"') == 1
    assert json.loads(results.read_text(encoding="utf-8"))["findings"][0]["verdict"] == "confirmed"


@pytest.mark.slow
def test_the_command_runs_a_class_of_ones_own_and_its_exit_code_says_whether_it_conforms(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom ecc.models import BBR\n\n@dataclass(frozen=True)\nclass Mine(BBR):\n"
        '    def params(self):\n        return super().params() | {"drain_gain": 0.9}\n',
        encoding="utf-8",
    )

    def command(*words):
        line = [sys.executable, "-m", "ecc", "conform", *words, "--jobs", "1", "--json"]
        return subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)

    done = command("mine.py:Mine", "--case", STARTUP[0], "--case", STARTUP[1])
    assert done.returncode == 4, done.stderr
    assert [one["verdict"] for one in json.loads(done.stdout)["findings"]] == ["confirmed", "refuted"]
    assert (tmp_path / "ecc-conformance" / "report.html").is_file()
    done = command("BBR", "--case", STARTUP[0], "--set", "headroom=0.2")
    assert done.returncode == 0 and json.loads(done.stdout)["command"].endswith(
        "--set headroom=0.2 --case " + STARTUP[0]
    )
    done = command("BBR", "--case", "nothing")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_workers_find_the_same_as_this_process():
    alone, several = (conform.run("BBR", STARTUP, executor=jobs) for jobs in (1, 2))
    assert [one.measurements for one in alone.findings] == [one.measurements for one in several.findings]
    assert ecc.conform is conform


@pytest.mark.slow
def test_a_run_that_a_hook_ends_is_said_to_have_ended():
    with pytest.warns(RuntimeWarning, match="the run ended at") as caught:
        found = conform.run(Divides(), ["rfc9743-fairness"])
    assert {one.filename for one in caught} == {__file__}
    worker = runs._examined(
        Divides(), conform.cases(["rfc9743-fairness"])[0]
    )  # whose warnings would be among lines of progress
    assert worker == found.findings[0]
    assert str(found.findings[0].verdict) == "refuted"
    reason = r"A run of 60 s ended at 0\.05\d* s: a hook failed: ZeroDivisionError: division by zero \(flow 0, on_ack"
    assert re.match(reason, found.findings[0].reason)


def test_a_case_that_raises_is_the_failure_of_this_case(monkeypatch):
    case, reports = conform.cases(["rfc9743-fairness"])[0], []
    monkeypatch.setitem(runs.CASES, case.id, replace(runs.CASES[case.id], function=fails))
    found = conform.run(NewReno(), [case.id, *STARTUP], progress=lambda claim, finding: reports.append(finding))
    assert [one.claim.id for one in found.findings] == STARTUP and list(found.failures) == [case.id]
    assert not found.conforms
    assert re.fullmatch(r"ArithmeticError: no rate \(test_runs.py, line \d+\)", found.failures[case.id])
    assert len(reports) == 3 and reports.count(None) == 1


def fails(*arguments):
    raise ArithmeticError("no rate")


def test_an_interrupt_keeps_what_is_done(monkeypatch):
    done, examine = [], runs.examine

    def interrupted(case_id, claim, protocol):
        if done:
            raise KeyboardInterrupt
        done.append(examine(case_id, claim, protocol))
        return done[0]

    monkeypatch.setattr(runs, "examine", interrupted)
    found = conform.run(NewReno(), ["bbr"])
    assert found.interrupted and found.findings == done


def test_options_that_do_nothing_are_refused(capsys):
    for given, said in (
        (["--against", "BBR", "--case", "bbr"], "case needs no --against, which runs no case"),
        (["--scenario", "any.toml"], "scenario needs --against: cases have scenarios of their own"),
        (["--against-set", "C=1"], "against-set needs --against, whose parameters it sets"),
        (["--against", "BBR", "--against-set", "C=1"], "--against-set has no key 'C'; allowed are transport, "),
        (["--against", "BBR", "--against-set", "C"], "--against-set must be NAME=VALUE, got 'C'"),
        (["--against", "BBR", "--jobs", "2"], "jobs, cluster, store and fresh are for cases, which --against and"),
        (["--trace", "1"], "trace needs --qlog, whose file may have several"),
        (["--tolerance", "0.1"], "tolerance needs --qlog: other values are compared to the last bits"),
    ):
        assert main(["conform", "BBR", *given]) == 2
        assert capsys.readouterr().err.startswith(f"ecc: {said}")


@pytest.mark.slow
def test_that_no_case_applies_is_no_success(tmp_path, capsys):
    given = ["NewReno", "--case", "bbr-startup-plateau", "--jobs", "1", "--out", str(tmp_path)]
    assert main(["conform", *given, "--store", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.err == "ecc: none of 1 case applies to NewReno, which lacks what the findings name\n"
    assert said.out.startswith("bbr-startup-plateau: does not apply: no named states (a field `state` and a list")
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["findings"][0]["verdict"] == (
        "not comparable"
    )


def test_what_does_not_apply_is_a_line_for_each_group():
    found = conform.run(NewReno(), ["bbr-startup-plateau", "bbr-drain", "cubic-spurious"])
    assert found.not_applying == [
        "bbr-*: 3 cases do not apply: no named states (a field `state` and a list `STATES`), no variables max_bw, "
        "full_bw, full_bw_reached, round_count, min_rtt, drain_start_round",
        "cubic-*: 2 cases do not apply: no parameter C, no parameter beta",
    ]


def test_another_beta_is_found():
    found = conform.run(BBR(beta=0.5), ["bbr-cruise-losses"])
    assert "minimum bw_shortterm over its first value" in found.findings[0].reason.lower()


# ---- what is kept ----------------------------------------------------------------------------------------------------


class Nowhere(Executor):
    """Makes no call."""

    def submit(self, function, /, *arguments, **keywords):
        raise AssertionError("nothing is left to do")


def test_a_second_call_finds_what_the_first_has_found(tmp_path):
    store = tmp_path / "results.sqlite"
    with ThreadPoolExecutor(1) as here:
        first = conform.run(NewReno(), STARTUP, here, store=store)
    assert len(Store(store)) == len(first.findings) == 2
    assert conform.run(NewReno(), STARTUP, Nowhere(), store=store).findings == first.findings
    for another in (NewReno(initial=5), BBR()):
        with pytest.raises(AssertionError, match="nothing is left"):
            conform.run(another, STARTUP, Nowhere(), store=store)


@dataclass(frozen=True)
class Open(NewReno):
    """It has what cannot be compared."""

    steps = (k for k in range(3))


def test_a_protocol_that_cannot_be_compared_is_run_and_not_kept(tmp_path):
    with ThreadPoolExecutor(1) as here, pytest.warns(RuntimeWarning, match="^results are not kept: function must use"):
        found = conform.run(Open(), ["bbr-startup-plateau"], here, store=tmp_path / "results.sqlite")
    assert found.findings and not (tmp_path / "results.sqlite").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="signals")
def test_after_kill_minus_9_the_same_command_goes_on_where_it_was(tmp_path, capsys):
    store, ecc_of = tmp_path / "results.sqlite", [sys.executable, "-P", "-m", "ecc"]
    kept = ["conform", "CUBIC", "--case", "cubic", "--jobs", "1", "--out", str(tmp_path / "report"), "--json"]
    kept += ["--store", str(store)]
    process = subprocess.Popen([*ecc_of, *kept], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: store.exists() and len(Store(store)) >= 1)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=HANG)
    done, count = len(Store(store)), len(conform.cases(["cubic"]))
    assert process.returncode == -signal.SIGKILL and 1 <= done < count
    assert not list((tmp_path / "report").iterdir())
    again = subprocess.run([*ecc_of, *kept], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert f"{done} of {count} cases are in {store}, {count - done} to run\n" in again.stderr
    found = [(one["verdict"], one["measurements"]) for one in json.loads(again.stdout)["findings"]]
    alone = conform.run(CUBIC(), ["cubic"]).findings
    assert found == [(str(one.verdict), [vars(m) for m in one.measurements]) for one in alone]
    del kept[kept.index("cubic") - 1 : kept.index("cubic") + 1]
    kept += ["--case", "cubic-window"]
    for more, code, is_there in ((["--set", "beta=0.8"], 4, False), (["--fresh"], 0, False), ([], 0, True)):
        assert main([*kept, *more]) == code
        assert (f"1 of 1 cases are in {store}, nothing left to do\n" in capsys.readouterr().err) is is_there
