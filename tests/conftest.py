"""What all tests stand on."""

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# A shell starts its jobs in the background with Ctrl-C ignored, which Python then leaves so.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Matrices are small, and the tests share the cores already; NumPy reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Examples are the same in every run, and no time decides: `--hypothesis-profile=new` draws others, with or without
# `--hypothesis-seed`, which has no effect on examples that are the same in every run.
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("new"), derandomize=True)
settings.load_profile("same")


def pytest_collection_finish():
    gc.freeze()  # what modules and tests made stays to the end: no collection goes through it again


@pytest.fixture(scope="session")
def namespaces():
    """Network namespaces, where this system has them and allows them; elsewhere what needs them is skipped."""
    from ecc.errors import EccError
    from ecc.live.namespaces import ends_of_links

    try:
        ends = ends_of_links([(0, 1)], 1500)[0]
    except EccError as error:
        pytest.skip(str(error))
    for end in ends:
        end.close()
