"""What several protocols share: the state of routers and hosts, the hooks that keep it, and stationary points.

`rate_feedback`: routers that announce a fair rate. `price_feedback`: routers that announce a price. `windows`: hosts
with windows, whose routers only queue and drop. `equilibria`: stationary points under a bottleneck assignment.
"""
