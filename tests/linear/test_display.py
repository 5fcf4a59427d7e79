"""Results in notebooks."""

from __future__ import annotations

from math import pi

import pytest

from ecc.linear import DelaySystem, SampledSystem, certify, characteristic_loci, first_loss

LOOP = DelaySystem([-1.0], [1.0], opened=DelaySystem([0.0], [0.0]))


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (LOOP.margins(), ["Margins", "<th>gain margin</th><td>1.57079632679</td>", "<th>stable</th><td>yes</td>"]),
        (certify(LOOP), ["Certificate", "<th>at most</th><td>0</td>", "python-flint"]),
        (
            first_loss(lambda k: DelaySystem([-k], [1.0]), maximum=60.0),
            ["Loss", f"<th>value</th><td>{pi / 2:.12g}</td>", "(1.57079632679, 1.57079632679, 2)", "complete to"],
        ),
        (characteristic_loci(LOOP, [0.5, 1.0]), ["Loci", "array of shape (2, 1)", "<th>encirclements</th><td>0</td>"]),
    ],
)
def test_results_show_every_field_as_a_row(result, shown):
    html = result._repr_html_()
    for part in shown:
        assert part in html
    assert html.count("<tr>") == len(result.__dataclass_fields__)
    assert repr(result).startswith(type(result).__name__)


def test_long_lists_are_cut_and_say_so():
    loss = first_loss(lambda k: SampledSystem([1.0, -k], [0, 29]))
    assert f"... ({len(loss.crossings)} in all)" in loss._repr_html_()
    assert len(loss.crossings) > 6
