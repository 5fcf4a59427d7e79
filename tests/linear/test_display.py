"""Results in notebooks."""

from __future__ import annotations

from dataclasses import replace
from math import asin, pi

import pytest

from ecc._support.display import quantity_text, value_text
from ecc.linear import DelaySystem, SampledSystem, certify, characteristic_loci, stability_limit

LOOP = DelaySystem([-1.0], [1.0], opened=DelaySystem([0.0], [0.0]))


SAMPLED = SampledSystem([1.0, -0.1], [0, 9], dt=0.01, opened=SampledSystem([1.0], [0], dt=0.01))


def rows_of(result):
    return dict(result._rows())


def test_margins_have_units():
    rows = rows_of(LOOP.margins())
    assert rows["gain margin"] == "1.571 at 1.571 rad/s (period 4 s)"
    assert rows["phase margin"] == "32.7 deg at 1 rad/s (period 6.283 s)"
    assert rows["delay margin"] == "570.8 ms at 1 rad/s (period 6.283 s)"
    w = 2.0 * asin(0.05)  # |L| = 0.1/|z - 1| = 1, with a phase of -9.5 w - pi/2
    steps = (pi / 2 - 9.5 * w) / w
    assert (
        rows_of(SAMPLED.margins())["delay margin"]
        == f"{steps:.4g} steps ({10 * steps:.4g} ms) at 10 rad/s (0.1 rad/step)"
    )
    unknown = SampledSystem([1.0, -0.1], [0, 9], opened=SampledSystem([1.0], [0])).margins()
    assert rows_of(unknown)["delay margin"] == f"{steps:.4g} steps at 0.1 rad/step"
    assert repr(LOOP.margins()).startswith("Margins of a stable loop\n  gain margin     1.571 at")
    unstable = DelaySystem([-2.0], [1.0], opened=DelaySystem([0.0], [0.0])).margins()
    assert repr(unstable).startswith("Distances of an unstable loop from the critical point -1\n")


def test_a_stability_limit_says_what_it_is_in_a_few_lines():
    limit = stability_limit(lambda k: DelaySystem([-k], [1.0]), maximum=60.0, certify=True)
    rows = rows_of(limit)
    assert rows["value"] == f"{pi / 2:.12g}" and rows["frequency"] == "1.571 rad/s (period 4 s)"
    assert rows["certified"].startswith("stable at 1.5707963") and ", unstable at 1.5707963" in rows["certified"]
    assert rows["crossings"] == f"{len(limit.crossings)}, searched up to {limit.complete_to:.4g}"
    assert repr(limit).startswith("Stability limit of the gain\n") and repr(limit).count("\n") < 8
    assert ">Stability limit of the gain</caption>" in limit._repr_html_()
    never = stability_limit(lambda k: DelaySystem([-k], [0.0]), maximum=9.0)
    assert rows_of(never)["value"] == "none up to 9"
    sampled = stability_limit(lambda k: SampledSystem([1.0, -k], [0, 9], dt=0.01))
    assert rows_of(sampled)["frequency"] == "16.53 rad/s (0.1653 rad/step)"


def test_a_frequency_response_is_in_rad_per_second_where_the_step_is_known():
    found = SAMPLED.nyquist([0.1, 0.2])
    assert (found.unit, found.frequency.tolist()) == ("rad/s", pytest.approx([10.0, 20.0]))
    assert repr(found).splitlines()[:3] == [
        "Frequency response of an open loop",
        "  samples   2",
        "  from, to  10 rad/s (0.1 rad/step), 20 rad/s (0.2 rad/step)",
    ]
    assert SampledSystem([1.0], [0], opened=SampledSystem([0.5], [0])).nyquist([0.1]).unit == "rad/step"
    assert LOOP.nyquist([0.1]).frequency.tolist() == [0.1]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (
            characteristic_loci(LOOP, [0.5, 1.0]),
            [">Loci</caption>", "array of shape (2, 1)", "<th>encirclements</th><td>0</td>"],
        ),
    ],
)
def test_results_show_every_field_as_a_row(result, shown):
    html = result._repr_html_()
    for part in shown:
        assert part in html
    assert html.count("<tr>") == len(result.__dataclass_fields__) == repr(result).count("\n")


def test_certificates_show_the_number_of_unstable_roots():
    proof = certify(LOOP)
    assert repr(proof).startswith(
        "Certificate: stable\n  unstable roots  0 (proven)\n  proof           argument principle"
    )
    assert ">Certificate: stable</caption>" in proof._repr_html_()
    bounds = replace(proof, stable=None, at_most=3, line=-0.5, reason="a root lies on the line")
    assert repr(bounds).startswith("Certificate: undecided\n  unstable roots  at least 0, at most 3 (undecided)\n")
    assert "\n  right of        -0.5\n" in repr(bounds) and repr(bounds).endswith("  a root lies on the line")
    assert "at least 0, no upper bound" in repr(replace(bounds, at_most=None))


def test_long_lists_are_cut_and_say_so():
    assert value_text(tuple(range(15)), "s") == "0 s, 1 s, 2 s, 3 s, 4 s, 5 s, ... (15 in all)"
    assert value_text((0.02, 0.1), "s") == "20 ms, 100 ms"
    assert value_text(()) == "none"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.2142, "s", "214.2 ms"),
        (0.0, "s", "0 s"),
        (1e8, "bit/s", "100 Mb/s"),
        (8e6, "bit", "1 MB"),
        (999.0, "bytes", "999 bytes"),
        (2e-5, "s", "20 us"),
        (float("inf"), "s", "infinite"),
        (3.5, "", "3.5"),
    ],
)
def test_quantities_have_prefixes_that_are_read_back(value, unit, shown):
    assert quantity_text(value, unit) == shown
