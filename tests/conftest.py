"""What all tests stand on."""

import os
import signal

from hypothesis import HealthCheck, settings

# A shell starts its jobs in the background with Ctrl-C ignored, which Python then leaves so.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Matrices are small, and the tests share the cores already; NumPy reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Examples are the same in every run, and no time decides: `--hypothesis-profile=new` draws others.
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("new"), derandomize=True)
settings.load_profile("same")
