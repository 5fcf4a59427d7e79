"""The papers' claims and the findings on them.

The runner: `ledger` (claims and findings), `catalog` (all checks), `crosscheck` (runs the checks in worker processes),
`experiments` (claims on runs, with `schema` and `setups`).

- `entries/` holds the claims as data: theorems, simulations, errata, open questions.
- `checks/` holds the functions that check claims that runs alone cannot decide.
- `report/` writes the findings as a page, as Markdown and as JSON.
"""
