"""What all tests stand on."""

import os
import signal

# A shell starts its jobs in the background with Ctrl-C ignored, which Python then leaves so.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Matrices are small, and the tests share the cores already; NumPy reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
