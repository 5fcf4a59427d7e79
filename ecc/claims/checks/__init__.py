"""Functions that check claims: each is registered under the id of its claim, and `ecc.claims.catalog` imports them all.

- `theorems/`: theorems and closed forms of the papers, by subject.
- `open/`: what the papers leave open, a module for each page of the documentation on it.
- `errata`: errata of the papers.
- `common/`: what checks share.
"""
