"""Linear models of closed loops, with their equations in the docstring of each module.

`closed_loop.py` has `linearize`, which chooses the module by the kind of the loop (`ecc.contract.kinds`).
`explicit_feedback.py` has routers that compute a rate, price or feedback, with `explicit_derivatives.py` for the
derivatives of their laws. `ack_clocked_windows.py` has windows without states, `paced_windows.py` windows that are
paced, that have states, or with routers that measure arrivals. `host_rates.py` has hosts that set rates by states,
`marked_hosts.py` hosts over queue disciplines, with `marked_parts.py` for their flows and queues, `marked_signals.py`
for derivatives, `marked_equations.py`, `marked_equilibrium.py`, and `marked_rounds.py` for discrete time. `options.py`
has the options of all (`LinearOptions`).
"""
