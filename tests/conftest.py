"""What all tests stand on."""

import signal

# A shell starts its jobs in the background with Ctrl-C ignored, which Python then leaves so.
signal.signal(signal.SIGINT, signal.default_int_handler)
