"""The papers' claims, and what was found.

The runner: `ledger` (claims and findings), `catalog` (all checks), `crosscheck` (which does the work), `experiments`
(claims on runs, with `schema` and `setups`).

- `entries/` holds the claims as data: theorems, simulations, errata, open questions.
- `checks/` holds the functions that check what runs alone do not decide.
- `report/` writes the findings as a page, as Markdown and as JSON.
"""
