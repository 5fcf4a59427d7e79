"""Functions that check claims: each is registered under the id of its claim, and `ecc.claims.catalog` imports them all.

- `theorems/`: theorems and closed forms of the papers, by subject.
- `open/`: open questions of the papers, one module for each page of the documentation on them.
- `errata`: errata of the papers.
- `common/`: code shared by the checks.
"""
