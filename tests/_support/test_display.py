"""What objects show of themselves: a few lines with units in a terminal, a table in a notebook."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ecc
from ecc._support.display import Displayed, first_notes
from ecc.comparison.agreement import Phase
from ecc.comparison.comparison import Comparison
from ecc.contract.parameters import label
from ecc.stability import bottleneck_assignment, classify_stability, hopf, relay_cycle

NET = ecc.Network(
    [ecc.Link("10 Mb/s", "10 ms", buffer="25 kB"), ecc.Link("1 Gb/s", 0.0, buffer_packets=100)],
    [ecc.Flow([0, 1], access_delay="5 ms"), ecc.Flow([1], start="2 s", stop="5 s", size="1 MB")],
)


def text_and_html(thing):
    """The lines of its repr; the table says the same."""
    lines, html = repr(thing).splitlines(), thing._repr_html_().partition("<svg")[0]
    assert html.startswith("<table") and html.endswith("</table>") and f">{lines[0]}</caption>" in html
    for line in lines[1:]:
        name, value = line.strip().split("  ", 1)
        assert f"<th>{name}</th><td>{value.strip()}</td>" in html
    return lines


def test_networks():
    assert text_and_html(NET) == [
        "Network: 2 links of 10 Mb/s to 1 Gb/s, 2 flows, RTTs 0 s to 30 ms",
        "  link 0  10 Mb/s, 10 ms, buffer 25 kB",
        "  link 1  1 Gb/s, 0 s, buffer 100 packets",
        "  flow 0  links 0, 1, RTT 30 ms",
        "  flow 1  links 1, RTT 0 s, from 2 s, to 5 s, 1 MB",
    ]
    many = ecc.Network.dumbbell("10 Mb/s", [0.1] * 1000)
    assert repr(many).count("\n") == 8 and repr(many).endswith("1000 flows in all")
    drawn = NET._repr_html_()
    assert drawn.count("<rect") == 2 and drawn.count("<circle") == 3 and ">10 Mb/s</text>" in drawn
    assert many._repr_html_().count("<path") == 10 and ">990 more flows</text>" in many._repr_html_()
    assert "<svg" not in ecc.Network.parking_lot(["10 Mb/s"] * 13)._repr_html_()


def test_links_and_flows_show_what_was_set():
    assert repr(NET.links[0]) == "Link(capacity='10 Mb/s', delay='10 ms', buffer='25 kB')"
    assert repr(NET.flows[1]) == "Flow(route=(1,), start='2 s', stop='5 s', size='1 MB')"
    third = ecc.Link(1e6 / 3.0, 1 / 3)  # no text with 12 digits has this value
    assert repr(third) == f"Link(capacity={1e6 / 3.0!r}, delay={1 / 3!r})"
    assert eval(repr(NET.flows[1]), vars(ecc)) == NET.flows[1]


def test_scenarios():
    scenario = ecc.Scenario(NET, ecc.models.RCP(alpha=0.5), 60.0, seed=7, assignment=[0, 1])
    assert text_and_html(scenario) == [
        "Scenario: RCP(alpha = 0.5), 60 s",
        "  network       2 links of 10 Mb/s to 1 Gb/s, 2 flows, RTTs 0 s to 30 ms",
        "  assignment    links 0, 1",
        "  phases        random",
        "  header bytes  not counted",
        "  seed          7",
    ]
    flows = {0: ecc.models.ConstantRate("1 Mb/s"), "default": ecc.models.RCP()}
    work = ecc.Workload(transfers=[ecc.Flow([0], size="1 MB")])
    mix = repr(ecc.Scenario(NET, {"flows": flows}, 1.0, workload=work))
    assert mix.startswith("Scenario: ConstantRate(rate = 1e+06) and RCP, 1 s\n") and "workload      1 transfers" in mix


def test_equilibria():
    lines = text_and_html(ecc.models.FAST(alpha=50.0).equilibrium(ecc.Network.dumbbell("10 Mb/s", [0.1, 0.1])))
    assert lines[:2] == ["Equilibrium", "  rate of each flow                              5 Mb/s, 5 Mb/s"]
    assert lines[3:] == [
        "  bottleneck of each flow                        feedback is summed over the path",
        "  queue of each link                             100 kB",
    ]
    calm = text_and_html(ecc.models.QIRCP().equilibrium(ecc.Network.dumbbell("10 Mb/s", [0.1, 0.1])))
    assert calm[2:] == [
        "  announced by each link (unit of its protocol)  4750000",
        "  bottleneck of each flow                        0, 0",
        "  queue of each link                             empty",
    ]


def test_bifurcations():
    lines = text_and_html(hopf(ecc.models.QIRCP(), ecc.Network.dumbbell("1 Gb/s", [0.1])))
    assert lines[0] == "Supercritical Hopf bifurcation: a small stable cycle above the limit"
    assert lines[1].split() == ["critical", "alpha", "1.57079633"]
    assert lines[2].split("  ")[1] == "frequency" and lines[2].endswith("  15.71 rad/s (period 400 ms)")
    discrete = repr(hopf(ecc.models.QIRCP(), ecc.Network.dumbbell("1 Gb/s", [0.1]), time="discrete"))
    assert "16.53 rad/s (0.1653 rad/step)" in discrete and "1/step" in discrete


def test_results_on_stability_have_units():
    lines = text_and_html(relay_cycle(ecc.models.EDN(), ecc.Network.dumbbell("100 Mb/s", [0.1])))
    assert lines[0] == "Limit cycle of a queue, by describing function"
    assert [line.split()[-1] for line in lines[1:]] == ["kB", "bytes", "ms"]
    t = np.arange(0.01, 20.0, 0.01)
    lines = text_and_html(classify_stability(t, np.exp(-0.3 * t) * np.cos(9.0 * t), period=0.7))
    assert (
        lines[0] == "Stability of a run: stable"
        and lines[2].startswith("  growth rate  -0.30")
        and lines[2].endswith(" 1/s")
    )
    ring = text_and_html(bottleneck_assignment(ecc.Network.parking_lot(["10 Mb/s", "8 Mb/s"]), [1, 0, 1]))
    assert ring[0] == "Bottleneck assignment" and ring[2] == "  link of each flow  1, 0, 1"
    cycle = ecc.transients.LimitCycle(0.4, 1.0, 0.0, 5, 0.01, float("nan"))
    assert text_and_html(cycle)[1] == "  period      400 ms"


def test_no_result_of_the_library_shows_itself_without_units():
    """Dataclasses that carry arrays or seconds have a view of their own."""
    for module in (ecc.stability, ecc.linear):
        for name in module.__all__:
            kind = getattr(module, name)
            if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__") and name != "Theorem":
                assert hasattr(kind, "_repr_html_"), name
                assert issubclass(kind, Displayed) or name in (
                    "DelayModel",
                    "DelaySystem",
                    "SampledSystem",
                    "LinearSystem",
                ), name


@pytest.mark.parametrize("count", [0, 7, 8, 2050])
def test_many_notes_are_not_all_printed(count):
    notes = [f"note {k}" for k in range(count)]
    shown = first_notes(notes)
    assert len(shown) == (count if count <= 7 else 7)
    assert count <= 7 or shown[-1] == f"{count - 6} more notes are in .notes"


def test_comparisons_are_short_however_much_disagrees(monkeypatch):
    found = object.__new__(Comparison)
    run = type("Run", (), {"data": type("Data", (), {"attrs": {"protocol": "RCP"}})(), "is_complete": True})()
    values = {
        "packet": run,
        "fluid": run,
        "table": pd.DataFrame({"first_discrepancy": [1.0] * 2050, "fluid": [1e6] * 2050}),
    }
    found.__dict__.update(values, notes=tuple(f"{k} s, it differs" for k in range(2050)), disagreements=[0] * 2050)
    assert repr(found).count("\n") == 7 and repr(found).endswith("note: 2044 more notes are in .notes")
    assert found._repr_html_().count("<tr") < 30 and "rates in bit/s" in found._repr_html_()


def test_solutions_of_delay_equations():
    found = ecc.fluid.solve_dde(lambda t, y, past: -past[0], (0.0, 2.0), 1.0, [1.0], dense_output=True, jit=False)
    lines = text_and_html(found)
    assert lines[0] == "Solution of a delay differential equation"
    assert lines[1].startswith("  t             0 to 2 s, ") and lines[2] == "  y             1 components"


def test_phases_of_a_comparison():
    net = ecc.Network.dumbbell("10 Mb/s", [0.1, 0.1])
    point = ecc.models.QIRCP().equilibrium(net)
    rate, queue = {"fluid": np.array([4e6, 5e6])}, {"fluid": np.array([1500.0])}
    phase = Phase(0.0, 30.0, np.array([0, 2]), net, point, "", rate, queue, {}, {})
    assert text_and_html(phase) == [
        "Phase from 0 to 30 s",
        "  flows               0, 2",
        "  rates, equilibrium  4.75 Mb/s, 4.75 Mb/s",
        "  rates, fluid        4 Mb/s, 5 Mb/s",
        "  queues, fluid       1.5 kB",
    ]


def test_a_protocol_shows_its_changed_parameters_only_as_code():
    changed = ecc.models.RCP(beta=0.5, alpha=0.4)
    assert repr(ecc.models.RCP()) == "RCP()" and repr(changed) == "RCP(beta=0.5)"
    assert eval(repr(changed), vars(ecc.models)) == changed
    assert repr(ecc.queues.StepMarking(threshold=40)).startswith("StepMarking(threshold=40")
    assert repr(ecc.models.ConstantRate("1 Mb/s")) == "ConstantRate(rate=1000000.0)"


def test_labels_name_what_differs():
    assert (
        label(ecc.models.RCP()) == "RCP" and label(ecc.models.RCP(beta=0.5), "alpha") == "RCP(alpha = 0.4, beta = 0.5)"
    )
