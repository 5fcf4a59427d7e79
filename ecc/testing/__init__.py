"""Test your protocol: strategies for networks and scenarios, checks of properties, and the suite that runs them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecc._support.lazy import lazy

if TYPE_CHECKING:
    from ecc.testing import checks, strategies, suite, transforms
    from ecc.testing.checks import NotApplicable, PropertyError
    from ecc.testing.sensitivity import check_sensitivity
    from ecc.testing.strategies import example_network, networks, operating_range, parameters, scenarios
    from ecc.testing.suite import PROPERTIES, Finding, ProtocolReport, check_protocol, constructor_call
    from ecc.testing.transforms import (
        Transformed,
        add_idle_flow,
        add_unused_link,
        permute_links,
        relabel_flows,
        scale_sizes,
        scale_times,
        split_link,
        start_later,
    )

__all__ = [
    "PROPERTIES", "Finding", "NotApplicable", "PropertyError", "ProtocolReport", "Transformed", "add_idle_flow",
    "add_unused_link", "check_protocol", "check_sensitivity", "checks", "constructor_call", "example_network",
    "networks", "operating_range", "parameters", "permute_links", "relabel_flows", "scale_sizes", "scale_times",
    "scenarios", "split_link", "start_later", "strategies", "suite", "transforms",
]  # fmt: skip

_HOME: dict[str, str | None] = {
    **dict.fromkeys(("NotApplicable", "PropertyError"), "checks"),
    **dict.fromkeys(("example_network", "networks", "operating_range", "parameters", "scenarios"), "strategies"),
    **dict.fromkeys(("PROPERTIES", "Finding", "ProtocolReport", "check_protocol", "constructor_call"), "suite"),
    **dict.fromkeys(
        (
            "Transformed",
            "add_idle_flow",
            "add_unused_link",
            "permute_links",
            "relabel_flows",
            "scale_sizes",
            "scale_times",
            "split_link",
            "start_later",
        ),
        "transforms",
    ),
    "check_sensitivity": "sensitivity",
    **dict.fromkeys(("checks", "strategies", "suite", "transforms")),
}

__getattr__, __dir__ = lazy(__name__, _HOME)
