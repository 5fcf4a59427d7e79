"""Searches that may take more than two seconds report what they do."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import ecc
from ecc.laws.dense_network import DenseNetwork, Layer
from ecc.models import QIRCP, XCP
from ecc.stability import (
    PolicyPath,
    cover_paths,
    critical_rtt_ratio,
    design,
    hopf,
    is_stable_up_to_ratio,
    limit_cycle,
    measured_boundary,
    measured_cycle,
    perturbed_run,
    policy_limit,
    rtt_margin,
    safe_perturbation,
)

ONE = ecc.Network.dumbbell("10 Mb/s", [0.1])
POLICY = DenseNetwork([Layer([[0.0, -0.3, 0.0, 0.0, 0.0, 0.0, 0.0]], [0.27], "tanh")])
SHORT = partial(perturbed_run, engine="fluid", periods=40.0, floor=2e-4)
SEARCHES: dict[str, tuple[Callable[..., Any], str]] = {
    "critical_rtt_ratio": (partial(critical_rtt_ratio, XCP(gamma=0.3)), r"ratio = [\d.]+, of up to 5\.236"),
    "is_stable_up_to_ratio": (
        partial(is_stable_up_to_ratio, XCP(), 3.0),
        r"frequencies from \S+, of 0 to \S+ rad per mean RTT",
    ),
    "hopf": (partial(hopf, QIRCP(), ONE), r"alpha = \S+"),
    "rtt_margin": (partial(rtt_margin, QIRCP(alpha=0.5), ONE), r"1/ratio = \S+"),
    "measured_boundary": (
        partial(measured_boundary, QIRCP(), ONE, None, 1.4, 1.7, 0.4, run=SHORT),
        r"alpha = \S+, run \d+",
    ),
    "measured_cycle": (
        partial(measured_cycle, "NewReno", ecc.Network.dumbbell("10 Mb/s", [0.05], 62_500), "fluid"),
        r"(the cycle|decay of the sum): a fluid run of \S+ s",
    ),
    "cover_paths": (
        partial(cover_paths, POLICY, (0.059, 0.061), pacing_gains=(1.0, 1.0)),
        r"RTTs from \S+ to \S+ s",
    ),
    "policy_limit": (
        partial(policy_limit, POLICY, PolicyPath(0.05, pacing_gain=1.0), maximum=0.06, step=0.005),
        r"rtt = \S+",
    ),
    "limit_cycle": (partial(limit_cycle, "DCTCP"), r"method \d+ of \d+, [a-z ]+"),
    "safe_perturbation": (
        partial(safe_perturbation, QIRCP(alpha=1.0), ONE),
        r"perturbation of [+-]\S+, a fluid run of \S+ s",
    ),
    "design": (partial(design, QIRCP(), ONE, {"alpha": (0.1, 1.0)}), r"alpha = \S+"),
}


LONG = ("measured_cycle", "measured_boundary", "design")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in SEARCHES])
def test_searches_report_each_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    search, pattern = SEARCHES[name]
    monkeypatch.setattr("ecc._support.reports._INTERVAL", 0.0)
    texts: list[str] = []
    search(progress=lambda step: texts.append(step.text))
    assert texts
    assert all(re.fullmatch(pattern, text) for text in texts), texts
    assert len(set(texts)) > 1
