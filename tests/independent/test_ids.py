"""Second methods name claims of the ledger, and use no code of ecc."""

import ast
from pathlib import Path

from ecc.claims.ledger import claims

HERE = Path(__file__).parent
METHODS = [HERE / "second_methods.py", *(HERE / f"test_{name}.py" for name in ("theorems", "data_centers", "internet"))]


def trees():
    return [ast.parse(path.read_text(encoding="utf-8")) for path in METHODS]


def test_second_methods_are_for_claims_of_the_ledger_and_there_are_twenty():
    named = {
        node.args[0].value
        for tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.second_method"
    }
    assert named <= set(claims()) and len(named) >= 20


def test_second_methods_import_nothing_of_ecc():
    for tree in trees():
        for node in ast.walk(tree):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            assert not [one for one in modules if one.split(".")[0] == "ecc"]
