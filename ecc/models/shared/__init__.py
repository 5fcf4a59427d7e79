"""Parts shared by several protocols: state of routers and hosts, hooks that maintain it, and stationary points.

`rate_feedback`: routers that announce a fair rate. `price_feedback`: routers that announce a price. `windows`: hosts
with windows on links that only queue and drop. `equilibria`: stationary points under a bottleneck assignment.
"""
