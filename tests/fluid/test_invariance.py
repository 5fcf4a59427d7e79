"""A fluid run does not depend on its sampling period; idle flows have no results.

Labels, idle flows, unused links and units: tests/testing/test_metamorphic.py.
"""

from dataclasses import replace

import numpy as np
import pytest
from metamorphic_cases import DISCIPLINES, NO_FLUID, PROTOCOLS, scenario

from ecc import Flow, Scenario, fluid, models

QUICK = ("NewReno", "UTIL", "XCP", "RCP", "BBR", "PIQIRCP", "JetMax", "EMKC")


def goodput(original, n_samples):
    return fluid.simulate(original, sample=original.duration / n_samples).goodput.to_numpy()


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in (*PROTOCOLS, *DISCIPLINES)
        if name not in NO_FLUID
    ],
)
def test_a_run_does_not_depend_on_the_sampling_period(name):
    original = scenario(name)
    few, many = goodput(original, 20), goodput(original, 80)
    np.testing.assert_allclose(many.sum(axis=0) / 80.0, few.sum(axis=0) / 20.0, rtol=1e-12)


def test_samples_shorter_than_a_step_add_up_to_longer_ones():
    original = scenario("NewReno")
    few, many = goodput(original, 20), goodput(original, 100_000)
    np.testing.assert_allclose(many.sum(axis=0) / 100_000.0, few.sum(axis=0) / 20.0, rtol=1e-12)


def test_a_run_of_idle_flows_only_delivers_nothing():
    original = scenario("NewReno")
    idle = [replace(flow, start=2.0 * original.duration) for flow in original.network.flows]
    assert not goodput(original.with_(network=replace(original.network, flows=idle)), 20).any()


def test_idle_flows_have_a_row_and_no_rate():
    original = scenario("NewReno")
    network = replace(original.network, flows=[*original.network.flows, Flow([0], start=5.0, size=10_000)])
    run = fluid.simulate(Scenario(network, models.NewReno(), 3.0), sample=0.1, record=["env.window"])
    assert np.isnan(run.flows["finish"].iloc[3]) and run.flows["start"].iloc[3] == 5.0
    assert run.flows["size"].iloc[3] == 10_000 and run.flows["delivered"].iloc[3] == 0.0
    assert not run.rate[:, 3].any() and (run.bottleneck[:, 3] == -1).all()
    assert np.isnan(run.data["env.window"][:, 3]).all()
