"""Networks as fluid: each model turns a protocol's laws into curves of rates and queues.

One file per kind of loop: `continuous.py` (explicit feedback and host rates), `sampled_prices.py`, `stepped_rates.py`,
`granted_windows.py`, `windows.py` (with `machines.py` for state machines), and `recurrence.py` for discrete time.
`supported_entries.py` lists the declarations that each supports, and `kernels.py` chooses the file.
"""
