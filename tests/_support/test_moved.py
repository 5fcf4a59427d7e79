"""Modules that have moved keep their former import paths."""

from importlib import import_module

import pytest

from ecc._support.moved import HOMES


@pytest.mark.parametrize("former", HOMES)
def test_a_former_path_leads_to_the_same_module(former):
    assert import_module(former) is import_module(HOMES[former])


def test_names_that_the_documentation_teaches_are_there():
    from ecc.flow_sizes import FlowSizes
    from ecc.network import Network, flow_sizes
    from ecc.quantity import TIME
    from ecc.transients import settling_time

    assert flow_sizes.FlowSizes is FlowSizes
    assert TIME and Network and settling_time
