"""The contract of a protocol: laws, states, records, hooks, and the assignment of protocols to flows and links.

`protocol.py` has the base class, and explains how to write a protocol. `kinds.py` decides the kind of the closed loop,
`loop.py` which engines a protocol has and why not others (`protocol.loop`), and `forms.py` has the options of a kind.
`states.py` has states of hosts and queues, `env.py` the environment of hooks, `records.py` the layout of their records,
`equilibrium.py` equilibria and bounds, `values.py` their values at an operating point, `parameters.py` checks of
parameters. `entries.py` lists the declarations that an engine supports, `packet_hooks.py` binds laws to hooks, and
`assignment.py` deploys several protocols on one network.
"""
