"""The ledger as a data set: tables that are what their description says, and all of the findings."""

import csv
import json
import math

import pytest

from ecc.claims.ledger import PAPERS, Finding, Measurement, Verdict, claims
from ecc.claims.report.dataset import TABLES, write_dataset
from ecc.claims.report.output import Report

TYPES = {"string": str, "integer": int, "number": float, "boolean": {"true": True, "false": False}.__getitem__}


@pytest.fixture(scope="module")
def whole():
    """Every claim of the ledger, some with measurements of all kinds."""
    measurements = [
        Measurement('gain, "best"', 0.1 + 0.2, "1/s", 1.6523, "T & d\nknown", fluid=math.inf, half=1e-300, met=False),
        Measurement("verdict", "unstable", reported="stable", live=math.nan, met=True),
    ]
    found = [Finding(claim, Verdict.CONFIRMED, "it is") for claim in claims().values()]
    found[3] = Finding(found[3].claim, Verdict.REFUTED, "Größe", measurements, assumptions=["a, b", "c"], seconds=2.0)
    return Report(found, "ecc reproduce", failures={"qi-3": "ValueError: a"})


@pytest.fixture(scope="module")
def folder(whole, tmp_path_factory):
    return write_dataset(whole, tmp_path_factory.mktemp("dataset") / "new").parent


@pytest.fixture(scope="module")
def tables(folder):
    """Read as datapackage.json says, and as strictly."""
    out = {}
    for resource in json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))["resources"]:
        schema = resource["schema"]
        with (folder / resource["path"]).open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file, strict=True)
        assert head == [field["name"] for field in schema["fields"]]
        out[resource["name"]] = read = []
        for row in rows:
            read.append({})
            for field, cell in zip(schema["fields"], row, strict=True):
                rules = field.get("constraints", {})
                assert cell or not rules.get("required"), (resource["name"], row)
                assert cell in rules.get("enum", [cell])
                read[-1][field["name"]] = TYPES[field["type"]](cell) if cell else None
        keys = [tuple(row[name] for name in schema["primaryKey"]) for row in read]
        assert len(set(keys)) == len(keys)
    return out


def test_the_tables_have_all_that_was_found(whole, tables):
    assert set(tables) == set(TABLES)
    assert [row["claim"] for row in tables["claims"]] == list(claims())
    third = tables["claims"][3]
    assert (third["verdict"], third["reason"]) == ("refuted", "Größe")
    assert third["statement"] == whole.findings[3].claim.statement
    first, second = tables["measurements"]
    assert (first["claim"], first["number"], second["number"]) == (third["claim"], 1, 2)
    assert (first["value"], first["value_text"], first["fluid"], first["half"]) == (0.1 + 0.2, None, math.inf, 1e-300)
    assert (first["name"], first["note"], first["met"], first["live"]) == (
        'gain, "best"',
        "T & d\nknown",
        False,
        None,
    )
    assert (second["value"], second["value_text"], second["reported_text"]) == (None, "unstable", "stable")
    assert math.isnan(second["live"]) and second["met"] is True and second["unit"] is None
    assert [row["text"] for row in tables["assumptions"]] == ["a, b", "c"]


def test_every_claim_has_a_source_among_the_papers(tables):
    papers = {row["paper"]: row["reference"] for row in tables["papers"]}
    assert papers.items() <= PAPERS.items()
    assert {row["paper"] for row in tables["sources"]} == set(papers)
    assert {row["claim"] for row in tables["sources"]} == set(claims())
    sources = {row["claim"]: set() for row in tables["sources"]}
    for row in tables["sources"]:
        sources[row["claim"]].add(row["paper"])
    longer = next(key for key, claim in claims().items() if "DCTCP-ANALYSIS" in claim.source)
    assert ("DCTCP" in sources[longer]) == ("DCTCP" in claims()[longer].source.replace("DCTCP-ANALYSIS", ""))


def test_the_readme_names_every_column_and_what_is_missing(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{column}` |" in text for columns in TABLES.values() for column in columns)
    assert "BSD-3-Clause" in text and "because of errors: qi-3" in text and f"{len(claims())} claims" in text


def test_equal_findings_give_equal_files(whole, folder, tmp_path):
    write_dataset(whole, tmp_path)
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == {f.name: f.read_bytes() for f in folder.iterdir()}
