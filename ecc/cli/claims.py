"""`ecc claims`."""

from __future__ import annotations

from ecc.cli.app import app
from ecc.cli.options import AsJson, Names
from ecc.cli.output import print_items, print_json, table_of

__all__ = ["list_claims"]


@app.command(name="claims")
def list_claims(names: Names = None, json: AsJson = False) -> int:
    """List the ledger: claims and questions, their sources, and what was read of these."""
    from ecc.claims.catalog import select
    from ecc.claims.ledger import claims

    chosen_claims = select(names or (), list(claims().values()))
    if json:
        print_json([claim.to_dict() for claim in chosen_claims])
        return 0
    rows = [(c.id, c.source, c.provenance.read, ", ".join(c.protocols), c.statement) for c in chosen_claims]
    print_items(table_of("", ("claim", "source", "read", "protocols", "statement"), rows))
    return 0
