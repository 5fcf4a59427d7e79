"""Hooks compiled once for all tests that draw networks."""

import pytest
from drawn_networks import compiled_hooks

from ecc.jit import CompiledHooks


@pytest.fixture(scope="session")
def compiled() -> tuple[CompiledHooks, CompiledHooks]:
    return compiled_hooks()
