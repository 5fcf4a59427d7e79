"""Views: their checks, the code that reproduces them, and every panel of every kind of protocol."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest

import ecc
from ecc.errors import EccError
from ecc.explorer import panels
from ecc.explorer.panels import PANELS, WORK, Cancelled, panel
from ecc.explorer.presets import PRESETS
from ecc.explorer.view import MAX_FLOWS, View, reference_view, view_of
from ecc.models import all_protocols

SHORT = {"capacity": 10e6, "rtts": (0.05,), "duration": 20.0}
ONE_OF_EACH_KIND = "PIQIRCP JetMax ExpressPass Kelly PatchedTIMELY FAST CUBIC BBR SPERC UTIL Aurora NADA".split()


def never():
    return False


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"protocol": "Renoo"}, "protocol must be a name in ecc.models, got 'Renoo'"),
        ({"protocol": 3}, "protocol must be a string, got 3"),
        ({"discipline": "RCP"}, "discipline must be a name in ecc.queues, got 'RCP'"),
        ({"capacity": 1.0}, "capacity must be 10000 to 1e+12 bit/s, got 1"),
        ({"rtts": ()}, "rtts must be 1 to 8 times, got 0"),
        ({"rtts": "0.1"}, "rtts must be a sequence of times, got '0.1'"),
        ({"rtts": (1e-6, 1.0)}, "rtts must differ by a factor of at most 1000"),
        ({"flows": 65}, f"flows must be 1 to {MAX_FLOWS}, got 65"),
        ({"flows": True}, "flows must be"),
        ({"buffer": 1}, "buffer must be 100 to 1e+10 bytes, got 1"),
        ({"packet_size": 1}, "packet_size must be 40 to 64000 bytes, got 1"),
        ({"parameters": {"alhpa": 0.5}}, "parameters must be among alpha"),
        ({"parameters": {"alpha": -1.0}}, "alpha must be"),
        ({"parameters": {"alpha": "much"}}, "alpha must be"),
        ({"time": "weekly"}, "time must be"),
        ({"duration": 1e9}, "duration must be 1 to 2000 RTTs, got 1e+09"),
        ({"capacity": 1e12, "duration": 100.0}, "duration must be <= "),
    ],
)
def test_bad_fields_are_refused_in_one_line(values, message):
    with pytest.raises((ValueError, TypeError)) as error:
        View(**values)
    text = str(error.value)
    assert text.startswith(message) and "\n" not in text and len(text) < 1000


def test_a_view_survives_its_dictionary():
    view = View(
        "CUBIC", "", "PI2", True, {"links.beta": 2.0}, "40 Mb/s", ("20 ms", "80 ms"), 4, "100 kB", duration=50.0
    )
    again = View.from_dict(view.to_dict())
    assert again == view and again.network == view.network and again.loop == view.loop
    assert np.allclose(view.network.rtts, [0.02, 0.08, 0.02, 0.08])
    with pytest.raises(ValueError, match="^view must have fields among protocol, "):
        View.from_dict({"scenario": "x.toml"})


def test_sliders_stay_within_the_values_that_protocols_accept():
    count = 0
    for name in all_protocols():
        view = reference_view(name)
        for slider in view.sliders:
            assert 0.0 < slider.minimum < slider.maximum < math.inf
            assert slider.minimum <= slider.value <= slider.maximum
            for value in (slider.minimum, slider.maximum):
                View.from_dict(view.to_dict() | {"parameters": {**view.parameters, slider.name: value}})
                count += 1
    assert count > 500


@pytest.mark.parametrize("name", ["PIQIRCP", "CUBIC", "BBR"])
def test_code_reproduces_the_view(name):
    view = reference_view(name)
    slider = view.sliders[0]
    view = View.from_dict(view.to_dict() | SHORT | {"parameters": {slider.name: 0.9 * slider.value}, "flows": 2})
    space = {}
    exec(view.code(), space)
    assert space["network"] == view.network
    assert space["scenario"].duration == view.run.duration
    assert space["scenario"].protocol == view.run.protocol
    assert space["run"].is_complete
    if name == "BBR":
        assert "system" not in space
    else:
        assert space["system"].roots(2) == pytest.approx(view.linear().roots(2))


def test_code_of_two_protocols_reproduces_their_flows():
    view = View("BBR", "CUBIC", "PI2", flows=3, **SHORT)
    space = {}
    exec(view.code(), space)
    assert [type(each).__name__ for each in space["scenario"].deployment.flows] == ["BBR", "CUBIC", "BBR"]
    assert space["scenario"].protocol == view.run.protocol


def test_code_of_a_scenario_reproduces_it():
    network = ecc.Network.parking_lot(["10 Mb/s", "20 Mb/s"], rtts=["50 ms"] * 3)
    view = view_of(ecc.models.RCP(alpha=0.3), network, 1.0)
    assert view.scenario is not None
    space = {}
    exec(view.code(), space)
    assert space["network"] == network and space["protocol"] == ecc.models.RCP(alpha=0.3)


def test_objects_of_python_become_views():
    network = ecc.Network.dumbbell("100 Mb/s", rtts=["100 ms", "300 ms"])
    view = view_of(ecc.models.PIQIRCP(alpha=0.8), network)
    assert view.scenario is None and view.parameters == {"alpha": 0.8} and view.network == network
    pair = {"flows": ecc.models.CUBIC(ecn=True), "links": ecc.queues.PI2(mark=True, beta=4.0)}
    view = view_of(pair, network)
    assert view.marks and view.parameters == {"links.beta": 4.0} and view.scenario is None
    other = view_of({"flows": ecc.models.CUBIC(slow_start="search"), "links": ecc.queues.PI2()}, network)
    assert other.scenario is not None and other.loop.protocols[0].slow_start == "search"
    assert view_of("piqi-rcp", rtts=["100 ms"]).rtts == (0.1,)


def check_panel(name, view):
    """Return the panel, after checks of its content; None if it is refused in one line."""
    try:
        answer = panel(name, view, never)
    except (ValueError, EccError) as error:
        assert "\n" not in str(error) and str(error)
        return None
    assert any(key in answer for key in ("figure", "svg", "words"))
    if "svg" in answer:
        assert ElementTree.fromstring(answer["svg"]).tag == "{http://www.w3.org/2000/svg}svg"
    if "figure" in answer:
        assert len(answer["figure"].to_json()) < 400_000
    return answer


@pytest.mark.parametrize("name", ["PIQIRCP", "BBR"])
def test_panels_of_a_view(name):
    view = View.from_dict(reference_view(name).to_dict() | SHORT | {"flows": 2})
    drawn = {each for each in PANELS if each not in ("map", "limit") and check_panel(each, view)}
    runs = {each for each, work in WORK.items() if work == "run"} | {"diagram"}
    assert drawn == (runs if name == "BBR" else set(PANELS) - {"map", "limit"})


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_every_panel_of_every_kind_of_protocol(name):
    reference = reference_view(name).to_dict()
    view = View.from_dict(reference | {"duration": min(reference["duration"], 30.0), "flows": 2})
    drawn = [each for each in PANELS if each not in ("map", "limit") and check_panel(each, view)]
    assert {"diagram", "rates", "queue", "flows", "fairness"} <= set(drawn)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_presets_draw_their_panels(name):
    preset = PRESETS[name]
    for view in preset.views():
        for each in preset.panels:
            if each not in ("map", "limit"):
                answer = check_panel(each, view)
                assert answer is not None or each in ("verdict", "nyquist", "roots"), (name, each)


@pytest.mark.parametrize(
    ("protocol", "discipline", "text"),
    [("BBR", "", "drop-tail queue"), ("RCP", "", ">RCP<"), ("CUBIC", "PI2", ">PI2<"), ("XCP", "", "delay 50 ms")],
)
def test_the_diagram_names_routers_and_delays(protocol, discipline, text):
    svg = panel("diagram", View(protocol, "", discipline, **SHORT), never)["svg"]
    assert text in svg and f">{protocol}<" in svg


def test_the_verdict_names_its_proof():
    view = view_of(ecc.models.PIQIRCP(), ecc.Network.dumbbell("100 Mb/s", rtts=["100 ms", "300 ms"]))
    verdict = panel("verdict", view, never)
    assert verdict["words"] == "stable, proven" and dict(verdict["rows"])["unstable roots"] == "0"
    limit = panel("limit", view, never)
    exact = ecc.critical_gain(view.loop, view.network, "alpha").value
    assert limit["words"] == f"limit alpha = {exact:.4g}, proven"
    assert dict(limit["rows"])["limit / present"] == f"{exact / 0.5:.3g}"


def test_unstable_loops_and_several_loops_have_a_note_instead_of_margins():
    unstable = view_of(ecc.models.QIRCP(alpha=5.0), ecc.Network.dumbbell("100 Mb/s", rtts=["100 ms"]))
    several = view_of(ecc.models.PIQIRCP(), ecc.Network.parking_lot(["10 Mb/s", "20 Mb/s"], rtts=["50 ms"] * 3), 1.0)
    for view, reason in ((unstable, "'unstable'"), (several, r"det(I + L) - 1")):
        for name in ("nyquist", "bode"):
            answer = panel(name, view, never)
            assert not [trace.name for trace in answer["figure"].data if trace.name and "margin" in trace.name]
            (note,) = answer["notes"]
            assert note.startswith("no margins are marked: ") and reason in note


def test_a_verdict_on_a_signed_queue_is_not_that_on_the_protocol():
    verdict = panel("verdict", View("XCP", **SHORT), never)
    assert verdict["words"] == "stable, proven, but not a verdict on XCP" and not verdict["stable"]
    assert verdict["notes"][0].startswith("the queue is unconstrained (signed) in this model")


def test_the_map_has_the_present_values():
    view = view_of(ecc.models.QIRCP(alpha=0.7), ecc.Network.dumbbell("100 Mb/s", rtts=["100 ms"]))
    answer = panel("map", view, never, ["alpha", "gamma"])
    assert answer["axes"] == ["alpha", "gamma"]
    assert [trace.x[0] for trace in answer["figure"].data if trace.name == "present values"] == [0.7]
    with pytest.raises(ValueError, match="^axes must be two of "):
        panel("map", view, never, ["alpha", "alpha"])


@pytest.mark.slow
def test_maps_of_discipline_loops_are_exact_at_their_points(monkeypatch):
    monkeypatch.setattr(panels, "_GRID", 5)
    network = ecc.Network.dumbbell("100 Mb/s", rtts=["100 ms"] * 4, packet_size=1500)
    view = view_of({"flows": ecc.models.CUBIC(), "links": ecc.queues.PI2(packet_size=1500.0)}, network)
    axes = ["links.alpha", "flows.C"]
    rough = panel("map", view, never, axes, coarse=True)
    assert rough["coarse"] and np.shape(rough["figure"].data[0].z) == (3, 3)
    answer = panel("map", view, never, axes, coarse=True)
    assert answer["coarse"]
    fine = panel("map", view, never, axes)
    drawn = fine["figure"].data[0]
    assert "coarse" not in fine and np.shape(drawn.z) == (5, 5)
    values = np.asarray(drawn.z, dtype=float)
    for row, column in ((0, 0), (1, 3), (4, 4)):
        at = {"links.alpha": float(drawn.x[column]), "flows.C": float(drawn.y[row])}
        alone = View.from_dict(view.to_dict() | {"parameters": at})
        assert values[row, column] == pytest.approx(ecc.linearize(alone.loop, network).spectral_abscissa, rel=1e-6)


def test_limits_and_maps_are_computed_once_for_all_values_of_their_own_parameters(monkeypatch):
    network = ecc.Network.dumbbell("100 Mb/s", rtts=["90 ms"])
    first, second = (view_of(ecc.models.QIRCP(alpha=alpha), network) for alpha in (0.4, 0.9))
    before = panel("limit", first, never), panel("map", first, never, ["alpha", "gamma"])
    for search in ("critical_gain", "stability_map"):
        monkeypatch.setattr(panels, search, None)
    limit, drawn = panel("limit", second, never), panel("map", second, never, ["alpha", "gamma"])["figure"]
    assert limit["words"] == before[0]["words"]
    assert dict(limit["rows"])["present alpha"] == "0.9" and dict(before[0]["rows"])["present alpha"] == "0.4"
    assert [trace.x[0] for trace in drawn.data if trace.name == "present values"] == [0.9]


def test_a_limit_of_a_signed_queue_is_not_that_of_the_protocol():
    limit = panel("limit", View("XCP", **SHORT), never)
    assert limit["words"].endswith(", but not a limit of XCP")
    assert limit["notes"][0].startswith("the queue is unconstrained (signed) in this model")


def test_sliders_have_units_and_explanations():
    view = reference_view("CUBIC")
    sliders = {slider.name: slider for slider in view.sliders}
    assert (sliders["flows.C"].unit, sliders["links.target"].unit) == ("packets/s^3", "s")
    assert sliders["links.alpha"].explanation == "Gain of the delay's distance from the target."
    explained = [s for name in all_protocols() for s in reference_view(name).sliders if s.is_main and s.explanation]
    silent = [
        s.name for name in all_protocols() for s in reference_view(name).sliders if s.is_main and not s.explanation
    ]
    assert len(explained) > 100 and not silent
    cake = [slider for slider in View("CUBIC", discipline="CAKE").sliders if slider.name.startswith("links.")]
    assert {"links.target", "links.interval"} <= {s.name for s in cake} and all(s.explanation for s in cake)


def test_lines_of_both_runs_share_a_name_in_the_legend_and_axes_of_maps_have_units():
    view = View("QIRCP", **SHORT)
    rates = panel("rates", view, never)["figure"]
    shown = [(trace.name, trace.line.dash, trace.showlegend) for trace in rates.data]
    assert shown == [(f"flow {k}", dash, dash == "solid") for k in range(view.flows) for dash in ("solid", "dash")]
    queue = panel("queue", view, never)["figure"]
    assert [trace.name for trace in queue.data] == ["packets", "fluid"]
    assert len({trace.line.color for trace in queue.data}) == 2
    drawn = panel("map", view, never, ("alpha", "interval"))["figure"]
    assert (drawn.layout.xaxis.title.text, drawn.layout.yaxis.title.text) == ("alpha", "interval [s]")


def test_errors_name_the_half_of_a_parameter():
    with pytest.raises(ValueError, match=r"^links\.target must be > 0"):
        View("CUBIC", "", "PI2", parameters={"links.target": -1.0})


def test_maps_have_gaps_at_values_that_a_protocol_refuses(monkeypatch):
    """PI refuses a <= b, which is a corner of the map over both."""
    monkeypatch.setattr(panels, "_GRID", 3)
    values = np.asarray(panel("map", reference_view("NewReno"), never, ["links.a", "links.b"])["figure"].data[0].z)
    assert np.isnan(values[-1, 0].astype(float)) and np.isfinite(values[:-1, 1:].astype(float)).all()


def test_models_do_not_depend_on_the_views_before_them():
    """CUBIC's equilibrium is at a switch of its law: from different starts Newton's method ends at different points."""
    network = ecc.Network.dumbbell("100 Mb/s", rtts=["100 ms"] * 4)
    first = view_of({"flows": ecc.models.CUBIC(), "links": ecc.queues.PI2()}, network)
    panels._model.cache_clear()
    panels._equilibria.cache_clear()
    before = panels._linear(first).matrices
    for values in ({"capacity": 2e6}, {"capacity": 900e6}, {"parameters": {"links.alpha": 1.0}}):
        view = View.from_dict(first.to_dict() | {"duration": 10.0} | values)
        alone = ecc.linearize(view.loop, view.network)
        assert panels._linear(view).roots(4) == pytest.approx(alone.roots(4), rel=1e-8)
    panels._model.cache_clear()
    np.testing.assert_array_equal(panels._linear(first).matrices, before)


def test_cancelled_work_stores_no_run():
    view = View("RCP", **SHORT)
    with pytest.raises(Cancelled):
        panel("rates", view, lambda: True)
    with pytest.raises(ValueError, match="^panel must be one of verdict, "):
        panel("nyquiste", view, never)
    assert panel("rates", view, never)["figure"].data
