"""`ecc claims`."""

from __future__ import annotations

from ecc.cli.app import app, examples
from ecc.cli.options import AsJson, Names
from ecc.cli.output import is_narrow, print_blocks, print_items, print_json, table_of

__all__ = ["list_claims"]


@app.command(
    name="claims",
    short_help="List the ledger of claims and questions.",
    epilog=examples("ecc claims CUBIC", "ecc claims theorems"),
)
def list_claims(names: Names = None, json: AsJson = False) -> int:
    """List the ledger: claims and questions, their sources, and what was read of these."""
    from ecc.claims.catalog import select
    from ecc.claims.ledger import claims

    chosen_claims = select(names or (), list(claims().values()))
    if json:
        print_json([claim.to_dict() for claim in chosen_claims])
        return 0
    if is_narrow():
        print_blocks((c.id, f"{c.source}; read: {c.provenance.read}", c.statement) for c in chosen_claims)
        return 0
    rows = [(c.id, c.source, c.provenance.read, ", ".join(c.protocols), c.statement) for c in chosen_claims]
    print_items(table_of("", ("claim", "source", "read", "protocols", "statement"), rows))
    return 0
