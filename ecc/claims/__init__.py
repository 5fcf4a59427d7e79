"""The papers' claims, and what was found.

`entries/` holds the claims as data: theorems, simulations, slips, open questions.
What runs them: `ledger` (claims and findings), `catalog` (all checks), `crosscheck` (the runner), `experiments` (claims
on runs, with `setups` and `measures`), `store` and `content` (results that are kept), `report`, `page`, `wording`.
What checks theorems and closed forms: `integral_loops`, `delays_and_bottlenecks`, `stationary_rates`, `convergence`,
`queues_and_rates`, `router_work`, `slips`.
What checks open questions: `heterogeneous`, `theorem_search`, `replays`, `networks`, `varying_delays`, `rtt_estimates`,
`empty_queues`, `oscillations`, `gain_design`.
What checks share: `evidence`, `recurrences`, `bisection`.
"""
