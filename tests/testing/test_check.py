"""`ecc.testing` finds faulty protocols by the property that they violate, and all protocols of the package pass."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import faulty_protocols as faulty
import pytest

import ecc
from ecc import cli, models, queues, testing
from ecc.contract.forms import OperatingRange
from ecc.models import all_protocols
from ecc.queues import PI2

HERE = Path(__file__).parent
FILE = str(HERE.parent / "faulty_protocols.py")
OVER_PI2 = {"flows": faulty.IgnoringMarks(ecn=True), "links": PI2(mark=True)}

FAULTS = {
    "F1": (faulty.ForgottenWindow(), "agreement", r"link 0 of 1e\+07 bit/s delivers .* as fluid and .* in packets"),
    "F2": (faulty.DeafToMarks(), "packet-run", "refused: DeafToMarks must have a packet hook that reads env.marked"),
    "F2, not refused": (OVER_PI2, "agreement", "bit/s as fluid and .* bit/s in packets|mean queue of link 0 is"),
    "F3": (faulty.Negative(), "fluid-run", "fluid run stopped: the source law of flow 0 .*: its window is not > 0"),
    "F4": (faulty.WithoutEquilibrium(), "fixed-point", r"no equilibrium is found .*, and the fluid rests at 4.75e"),
    "F5": (faulty.EmptyQueue(), "fixed-point", "a run from there leaves it for .* as fluid|has a queue of"),
    "F6": (faulty.Clamped(), "stability-limit", r"alpha has the limit 0.04\d*; at 0.05\d* the model is unstable"),
    "F7": (faulty.BooleanState(), "fluid-run", r"refused: the law of state busy of BooleanState .*float\(\) of a"),
    "B4": (faulty.FasterGrowth(), "packet-run", "refused: FasterGrowth changes source_law, which the packet hooks of"),
    "twin": (faulty.PowerOfThree(), "twin", "digest of the C engine and of the engine in Python: "),
    "checkpoint": (faulty.Counting(), "checkpoint", "of a run and of the same run again: "),
    "conservation": (faulty.Dropping(), "conservation", "packets were dropped by links without a buffer limit"),
    "relabeling": (faulty.ByLabel(), "relabeling", "flow 0 has .* in packets and .* in packets with flows in another"),
    "idle-parts": (faulty.ByLabel(), "idle-parts", "in packets with an additional flow that never sends"),
    "scaling": (faulty.FixedThreshold(), "scaling", "in packets with half of all sizes and rates"),
    "fixed-point": (faulty.Unbalanced(), "fixed-point", r"the equilibrium of flow 0 is 3.8e\+06 bit/s, and a run"),
    "linearization": (faulty.Clamped(), "linearization", r"move as exp\(st\) with s = .* and the nearest"),
    "slopes": (faulty.Rounding(), "linearization", r"Rounding.source_law .* cannot be differentiated"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_the_property_that_it_violates(fault):
    protocol, name, message = FAULTS[fault]
    report = testing.check_protocol(protocol, [name], examples=1, quick=True)
    (finding,) = report.findings
    assert not report.passed and report.violated == (finding,)
    assert (finding.name, finding.status) == (name, "violated")
    assert re.search(message, finding.detail), finding.detail
    assert "\n" not in finding.detail and finding.example.startswith("ecc.Scenario(ecc.Network([ecc.Link(")


def test_each_property_is_violated_by_a_faulty_protocol():
    assert {name for _, name, _ in FAULTS.values()} == set(testing.PROPERTIES)


@pytest.mark.parametrize(
    "protocol, properties",
    [
        (faulty.Aimd(), ["packet-run", "agreement"]),
        (faulty.FromScratch(), ["packet-run", "fluid-run"]),
        ({"flows": faulty.FromScratch(ecn=True), "links": PI2(mark=True)}, ["packet-run", "fluid-run", "agreement"]),
    ],
)
def test_protocols_next_to_the_faulty_ones_pass(protocol, properties):
    report = testing.check_protocol(protocol, properties, examples=1)
    assert report.passed and [finding.status for finding in report.findings] == ["holds"] * len(properties)


@pytest.mark.slow
def test_the_smallest_example_is_code_that_violates_the_property_again():
    class Late(models.QIRCP):
        """Drops packets of all flows but the first."""

        required_env = frozenset({"random"})

        def link_hooks(self):
            return super().link_hooks() | {"on_arrival": drop_later_flows}

    (finding,) = testing.check_protocol(Late(), ["conservation"], examples=20).findings
    scenario = eval(finding.example, {"ecc": ecc, "Late": Late})
    assert scenario.network.n_flows == 2 and scenario.network.n_links == 1  # two flows are needed, and one link
    assert scenario.protocol == Late()  # its parameters play no part
    with pytest.raises(testing.PropertyError, match=re.escape(finding.detail)):
        testing.checks.conservation(scenario)


def drop_later_flows(link, header, p, env):
    if env.flow > 0 and env.random < 0.2:
        env.drop = 1


def test_a_declared_exception_is_reported_with_its_reason():
    class Declared(faulty.Dropping):
        property_exceptions = {"conservation": "it drops a tenth of all packets"}

    report = testing.check_protocol(Declared(), ["conservation"], examples=1)
    (finding,) = report.findings
    assert report.passed and finding.status == "exception" and finding.reason == "it drops a tenth of all packets"
    assert "exception: it drops a tenth of all packets" in repr(report)


def test_a_property_that_does_not_apply_says_why():
    report = testing.check_protocol(models.NewReno(), ["fixed-point", "stability-limit"], examples=1)
    assert report.passed
    for finding in report.findings:
        assert finding.status == "not applicable" and finding.detail and not finding.example
    assert report.findings[0].detail.startswith("no equilibrium: its windows grow until a queue overflows")


def test_properties_that_need_a_violated_one_are_not_checked():
    report = testing.check_protocol(faulty.DeafToMarks(), ["packet-run", "twin"], examples=1)
    assert [finding.status for finding in report.findings] == ["violated", "not applicable"]
    assert report.findings[1].detail == "needs packet-run, which is violated"


def test_a_fault_in_a_function_of_the_protocol_is_a_violation():
    class Failing(models.QIRCP):
        def equilibrium(self, network, assignment=None):
            return 1.0 / 0.0

    (finding,) = testing.check_protocol(Failing(), ["fixed-point"], examples=1).findings
    assert finding.status == "violated" and finding.detail == "ZeroDivisionError: float division by zero"


def test_unknown_properties_and_counts_are_refused_in_one_line():
    with pytest.raises(ValueError, match=r"property must be one of 'packet-run', .*, got 'speed'"):
        testing.check_protocol(models.QIRCP(), ["speed"])
    with pytest.raises(ValueError, match="examples must be >= 1, got 0"):
        testing.check_protocol(models.QIRCP(), examples=0)


def test_without_hypothesis_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(
        ecc.EccError, match=r"ecc.testing needs hypothesis: pip install 'congestion-control\[testing\]'"
    ):
        testing.check_protocol(models.QIRCP(), ["fluid-run"])
    testing.checks.fluid_run(models.QIRCP())  # the checks themselves do not need it


def test_networks_are_within_the_operating_range():
    from hypothesis import given, settings

    class Fast(models.QIRCP):
        operating_range = OperatingRange((1e9, 2e9), (0.01, 0.02), packet_size=500)

    @settings(max_examples=30, database=None, derandomize=True)
    @given(testing.scenarios(Fast(), 10.0, flows=(2, 3)))
    def check(scenario):
        network = scenario.network
        assert 2 <= network.n_flows <= 3 and network.n_links <= 2
        assert ((network.capacities >= 1e9) & (network.capacities <= 2e9)).all()
        assert network.rtts.max() <= 0.0201 and scenario.duration == pytest.approx(10.0 * network.rtts.max(), rel=0.01)
        assert {flow.packet_size for flow in network.flows} == {500}

    check()


def test_parameters_are_what_the_constructor_accepts():
    from hypothesis import given, settings

    @settings(max_examples=30, database=None, derandomize=True)
    @given(testing.parameters(models.FAST(gamma=1.0)))
    def check(protocol):
        assert 0.8 <= protocol.gamma <= 1.0  # its class refuses more

    check()


def test_the_command_prints_a_line_for_each_property_and_the_example(capsys):
    assert (
        cli.main(
            ["check", f"{FILE}:Dropping", "--property", "packet-run", "--property", "conservation", "--examples", "1"]
        )
        == 4
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Properties of Dropping()"
    assert re.match(r" packet-run +holds +1 +packet hooks use the declared laws", lines[4])
    assert re.match(r" conservation +violated +\d+ +packet run: \d+ packets were dropped by links without", lines[5])
    assert lines[-1].startswith("conservation: ecc.Scenario(ecc.Network([ecc.Link(1e+07, 0.02)], [ecc.Flow([0])])")


def test_the_command_prints_json(capsys):
    assert (
        cli.main(
            [
                "check",
                "NewReno",
                "--links",
                "PI2",
                "--set",
                "links.mark=true",
                "--set",
                "flows.ecn=true",
                "--property",
                "packet-run",
                "--examples",
                "1",
                "--json",
            ]
        )
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["protocol"] == "NewReno(ecn=True) over PI2(mark=True)" and report["passed"] is True
    assert report["findings"][0]["name"] == "packet-run" and report["findings"][0]["status"] == "holds"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["RED"], "PROTOCOL must have hosts, got RED, a queue discipline: give it with --links"),
        (["NewReno", "--property", "speed"], "property must be one of 'packet-run'"),
        (["NewReno", "--links", "PI2", "--set", "ecn=true"], "--set must be flows.NAME=VALUE or links.NAME=VALUE with"),
        (["NewRenno"], "got 'NewRenno': did you mean NewReno?"),
    ],
)
def test_the_command_refuses_bad_input_in_one_line(arguments, message, capsys):
    assert cli.main(["check", *arguments]) == 2
    assert message in capsys.readouterr().err


# ---- the protocols of the package --------------------------------------------------------------------------------

OURS = {
    **{name: kind() for name, kind in all_protocols().items()},
    "ConstantRate": models.ConstantRate("1 Mb/s"),
    **{
        f"{type(host).__name__} over {type(discipline).__name__}": {"flows": host, "links": discipline}
        for host in (models.NewReno(ecn=True), models.DCTCP(), models.Prague())
        for discipline in (PI2(mark=True), queues.StepMarking(threshold=20))
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_all_properties_hold_for_our_protocols(name):
    report = testing.check_protocol(OURS[name], examples=1, quick=True)
    assert report.passed, report


def test_declared_exceptions_name_properties_and_are_documented():
    page = (HERE.parents[1] / "docs" / "test_your_protocol.md").read_text(encoding="utf-8")
    for name, kind in (all_protocols() | queues.all_disciplines()).items():
        for exception, reason in kind.property_exceptions.items():
            assert exception in testing.PROPERTIES and f"| `{exception}` | {reason} |" in page, name
    assert all(f"| `{name}` |" in page for name in testing.PROPERTIES)


def test_a_report_of_several_findings_can_be_replaced_and_shown():
    report = testing.check_protocol(models.QIRCP(), ["packet-run"], examples=1)
    assert report.passed and replace(report.findings[0], status="violated").status == "violated"
    from rich.console import Console

    console = Console(width=200)
    with console.capture() as text:
        console.print(report)
    assert "packet-run" in text.get() and "holds" in text.get()
