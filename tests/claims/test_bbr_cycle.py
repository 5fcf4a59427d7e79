"""The measurements of the check of `open-bbr-cycle`."""

import numpy as np
import pytest

from ecc.claims.checks.open.bbr_cycle import decay_per_cycle, differences
from ecc.models import BBRv2


def test_the_decay_of_a_geometric_sequence_is_its_ratio_per_cycle():
    per_window = 0.5
    values = 0.8 * per_window ** np.arange(6.0)
    assert decay_per_cycle(values, 20.0) == pytest.approx(per_window, rel=1e-12)
    assert decay_per_cycle(values, 5.0) == pytest.approx(per_window**0.25, rel=1e-12)


@pytest.mark.slow
def test_shares_of_version_2_stay_different_in_the_fluid():
    values = differences(BBRv2(), 1_000_000, "fluid")
    assert values[-1] > 0.4
