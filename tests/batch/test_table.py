"""Results of a sweep as plain arrays."""

import numpy as np
import pytest
import xarray as xr

from ecc.batch.sweeps import sweep_means, swept


def test_rows_and_means_are_those_of_the_dataset():
    table, end = swept(
        lambda a, b, c, seed: {"sum": a + b * seed + (seed > 2) * c, "negative": -a if b else float("nan")},
        {"a": [1.0, 2.0], "seed": [1, 2, 3, 4]},
        zipped={"b": [0, 1, 2], "c": [0.1, 0.2, 0.4]},
    )
    assert end is None
    dataset = table.dataset()
    assert dict(dataset.sizes) == {"a": 2, "seed": 4, "b": 3} and dataset["c"].dims == ("b",)
    rows = dataset.to_dataframe().reset_index()[["a", "seed", "b", "c", "sum", "negative"]].to_dict("records")
    assert [list(row) for row in table.rows()] == [list(row) for row in rows]
    np.testing.assert_equal(list(table.rows()), rows)
    for axis in ("seed", "b", "a"):
        xr.testing.assert_identical(table.means(axis).dataset(), sweep_means(dataset, axis))


def test_a_failing_point_has_an_error_in_its_row():
    table, end = swept(lambda a: 1.0 / a, {"a": [0.0, 2.0]})
    assert "ZeroDivisionError" in end.message
    first, second = table.rows()
    assert first["error"].startswith("ZeroDivisionError") and np.isnan(first["value"])
    assert second == {"a": 2.0, "value": 0.5, "error": ""}
    assert list(table.without(["error", "value"]).rows())[1] == {"a": 2.0}
    with pytest.raises(ValueError, match="seed"):
        table.axis("seed")
