"""The exponents of benchmarks/growth.py: work per unit that grows with the size is above the bound."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

_SPEC = spec_from_file_location("growth", Path(__file__).parents[1] / "benchmarks" / "growth.py")
growth = module_from_spec(_SPEC)
sys.modules["growth"] = growth  # its dataclass looks there for annotations
_SPEC.loader.exec_module(growth)


@pytest.mark.parametrize(
    ("work", "exponent"),
    [
        (lambda n: 500.0 * n, 0.0),
        (lambda n: 3.0 * n * n, 1.0),
        (lambda n: 7.0 * n**1.5, 0.5),
    ],
)
def test_the_exponent_is_that_of_the_cost_per_unit(work, exponent):
    sizes = (100, 1000, 10_000)
    assert growth.exponent(sizes, [work(n) / n for n in sizes]) == pytest.approx(exponent, abs=1e-12)


def test_a_scan_at_a_tenth_of_an_instruction_per_element_is_above_the_bound():
    sizes = (100, 1000, 10_000, 100_000)
    assert growth.exponent(sizes, [1000.0 + 0.1 * n for n in sizes]) > growth.FLAT


def test_every_axis_has_subjects_and_sizes_in_both_forms():
    for short in (False, True):
        rows = list(growth.rows([], short))
        assert {name for name, _, _ in rows} == set(growth.AXES)
        assert all(len(sizes) >= 2 and list(sizes) == sorted(set(sizes)) for _, _, sizes in rows)
    assert {subject for _, subject, _ in growth.rows(["window"], False)} == set(growth.PROTOCOLS)
    assert "CUBIC" in growth.PROTOCOLS


@pytest.mark.parametrize("name", ["window, transports", "window", "flows", "different delays", "links", "queue"])
def test_the_smallest_case_of_an_axis_sends_packets(name):
    axis = growth.AXES[name]
    assert axis.prepare(axis.short_subjects[0], min(axis.sizes))() > 0.0
