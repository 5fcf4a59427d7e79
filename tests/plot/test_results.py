"""Results that hold a curve draw it: what is drawn is what they hold."""

import re

import numpy as np
import pytest

import ecc
from ecc.linear import DelaySystem, SampledSystem, characteristic_loci, stability_limit
from ecc.stability import MeasuredBoundary, PerturbedRun, StabilityClassification, hopf

LOOP = DelaySystem([-1.0], [1.0], opened=DelaySystem([0.0], [0.0]))


def named(made, name):
    return next(trace for trace in made.data if trace.name == name)


def test_frequency_responses():
    found = LOOP.nyquist()
    assert named(found.plot(), "open loop").mode == "lines"
    assert "rad/s" in str(found.plot("bode").to_dict())
    sampled = SampledSystem([1.0, -0.1], [0, 9], opened=SampledSystem([1.0], [0])).nyquist()
    assert "rad/step" in str(sampled.plot("bode").to_dict())
    with pytest.raises(ValueError, match="kind must be 'nyquist' or 'bode', got 'nichols'"):
        found.plot("nichols")


@pytest.mark.parametrize("kind", ["nyquist", "bode"])
def test_frequency_responses_mark_the_margins(kind):
    system = ecc.linearize(ecc.models.QIRCP(alpha=0.8), ecc.Network.dumbbell("1 Gb/s", [0.1]))
    exact, drawn = system.margins(), system.nyquist().plot(kind)
    marks = [trace.name for trace in drawn.data if trace.name and trace.name.partition(" ")[2].startswith("margin")]
    degrees, factor = (float(re.search(r"margin ([\d.]+)", name)[1]) for name in dict.fromkeys(marks))
    assert degrees == pytest.approx(np.degrees(exact.phase_margin), abs=0.5)
    assert factor == pytest.approx(exact.gain_margin, rel=0.01)


@pytest.mark.parametrize("kind", ["nyquist", "bode"])
@pytest.mark.parametrize("loop", ["several loops", "an unstable loop"])
def test_curves_without_margins_have_no_marks(kind, loop):
    """The crossings of det(I + L) - 1 are not margins, and an unstable loop has none."""
    if loop == "several loops":
        network = ecc.Network.parking_lot(["10 Mb/s", "20 Mb/s"], rtts=["50 ms"] * 3)
        system = ecc.linearize(ecc.models.PIQIRCP(), network)
        assert system.margins().stable and len(system.margins().loops) > 1 or system.margins().coupled > 1
    else:
        system = ecc.linearize(ecc.models.QIRCP(alpha=5.0), ecc.Network.dumbbell("1 Gb/s", [0.1]))
        assert not system.is_stable
    drawn = system.nyquist().plot(kind)
    assert not [trace.name for trace in drawn.data if trace.name and "margin" in trace.name]


def test_loci():
    found = characteristic_loci(LOOP)
    assert named(found.plot(), "locus 1") and not found.sampled


def test_stability_limits_are_drawn_as_numbers_of_unstable_roots():
    found = stability_limit(lambda k: DelaySystem([-k], [1.0]), maximum=20.0)
    drawn = named(found.plot(), "unstable roots")
    at, number = np.asarray(drawn.x, float), np.asarray(drawn.y, float)
    assert at[0] == 0.0 and found.crossings[-1].gain < at[-1] <= found.complete_to
    assert number[at < 1.57].max() == 0.0 and number[-1] == found.start + sum(c.change for c in found.crossings)
    figure = found.plot()
    assert figure.layout.xaxis.range == pytest.approx((0.0, 2.5 * found.value)) and figure.layout.xaxis.type != "log"
    (stable,) = (shape for shape in figure.layout.shapes if shape.name == "stable")
    assert (stable.x0, stable.x1) == pytest.approx((0.0, found.value))
    (label,) = figure.layout.annotations
    assert label.text.startswith("the gain = 1.5708<br>1.571 rad/s")
    never = stability_limit(lambda k: DelaySystem([-1.0 - k], [0.0]), maximum=3.0)
    assert np.asarray(named(never.plot(), "unstable roots").y, float).tolist() == [0.0, 0.0]


def test_a_limit_with_several_stable_ranges_has_a_logarithmic_axis():
    """Two delays of a lightly damped oscillator: stability is lost and regained."""
    family = lambda tau: DelaySystem([[[0.0, 1.0], [-1.0, -0.1]], [[0.0, 0.0], [0.3, 0.0]]], [0.0, tau])  # noqa: E731
    found = stability_limit(family, maximum=20.0)
    assert len(found.stable_ranges) > 1
    figure = found.plot()
    assert figure.layout.xaxis.type == "log"
    shaded = [(shape.x0, shape.x1) for shape in figure.layout.shapes if shape.name == "stable"]
    assert [pair[1] for pair in shaded] == pytest.approx([pair[1] for pair in found.stable_ranges])
    assert figure.layout.annotations[0].x == pytest.approx(np.log10(found.value))


@pytest.mark.parametrize("protocol", [ecc.models.QIRCP(), ecc.models.PIQIRCP()])
def test_hopf_bifurcations(protocol):
    found = hopf(protocol, ecc.Network.dumbbell("1 Gb/s", [0.1]))
    drawn = named(found.plot(), "stable cycle" if found.is_supercritical else "unstable cycle")
    at, amplitude = np.asarray(drawn.x, float), np.asarray(drawn.y, float)
    beside = at[1:] > found.value if found.is_supercritical else at[1:] < found.value  # loops that gain destabilizes
    assert beside[10:].all() and amplitude[0] == 0.0
    expected = [found.amplitude(gain) for gain in at[10:].tolist()]
    np.testing.assert_allclose(amplitude[10:], expected, rtol=1e-3)  # figures are drawn in single precision
    with pytest.raises(ValueError, match="span must be > 0, got 0"):
        found.plot(0.0)


def test_runs():
    time = np.linspace(0.0, 1.0, 50)
    verdict = StabilityClassification("stable", -1.0, 0.1, time[::10], np.exp(-time[::10]))
    assert np.allclose(np.asarray(named(verdict.plot(), "amplitude").y, float), np.exp(-time[::10]))
    run = PerturbedRun(verdict, time, np.cos(9.0 * time), 0, None)
    assert len(named(run.plot(), "deviation").x) == 50
    measured = MeasuredBoundary(0.5, 0.01, np.array([0.6, 0.4]), np.array([1.0, -1.0]), np.array([0.1, 0.2]))
    assert np.asarray(named(measured.plot(), "growth rate").x, float) == pytest.approx([0.4, 0.6])
