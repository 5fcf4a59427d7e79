"""What was read for each entry of the ledger: stated in every entry, shown everywhere, and decisive for verdicts."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ecc.claims.ledger import EDITIONS, PAPERS, QUESTIONS, Claim, Finding, Measurement, Verdict, claims
from ecc.claims.provenance import FULL, READ, Provenance, environment, environment_id, read_provenance
from ecc.claims.report.dataset import write_dataset
from ecc.claims.report.output import Report, as_json, as_markdown
from ecc.claims.report.page import page
from ecc.cli import app

ROOT = Path(__file__).parents[2]
ENTRY = {
    "source": "THESIS Theorem 3",
    "protocols": ["QI-RCP"],
    "statement": "It is stable for alpha < 1.57.",
    "reported": "1.57",
    "read": "thesis",
    "place": "sec. IV.C.1",
    "printed": "Theorem 3",
}


@pytest.mark.parametrize("claim", claims().values(), ids=lambda claim: claim.id)
def test_every_entry_says_what_was_read_and_where(claim):
    said = claim.provenance
    assert said.read in READ and said.place
    assert claim.is_question is (claim.statement.endswith("?")) or claim.section == "live"
    assert claim.is_question or said.read in FULL
    assert claim.is_question is (claim.section in QUESTIONS) or claim.id == "open-live"
    if said.read != "none":
        assert said.printed or not re.search(r"\d", claim.reported)
        assert claim.editions, "the text that was read needs an edition"


def test_every_paper_has_an_edition_that_was_read():
    cited = {paper for claim in claims().values() for paper in claim.papers if claim.provenance.read != "none"}
    assert cited <= EDITIONS.keys() <= PAPERS.keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"read": None}, "claim some must have the key 'read', which says what was read"),
        ({"place": None}, "claim some must have the key 'place', which says what was read"),
        ({"read": "memory"}, f"read of claim some must be one of {', '.join(READ)}, got 'memory'"),
        ({"place": " "}, "place of claim some must name a section, a page or a line of code, got ''"),
        ({"printed": None}, "claim some must have the key 'printed', the place of the numbers '1.57'"),
        ({"read": "excerpt"}, "statement of claim some must be a question, as read is 'excerpt', got 'It is"),
        ({"question": True}, "statement of claim some must be a question, as read is 'thesis', got 'It is"),
        ({"statement": "Is it?"}, "statement of claim some must be a claim, as read is 'thesis', got 'Is it?'"),
    ],
)
def test_the_schema_refuses_an_entry_without_provenance(change, message):
    entry = {key: value for key, value in (ENTRY | change).items() if value is not None}
    with pytest.raises(ValueError, match=re.escape(message)):
        read_provenance("some", entry)


@pytest.mark.parametrize(("key", "value"), [("place", 3), ("question", "yes")])
def test_the_schema_refuses_values_of_another_type(key, value):
    with pytest.raises(TypeError, match=f"{key} of claim some must be"):
        read_provenance("some", ENTRY | {key: value})


@pytest.mark.parametrize(
    ("verdict", "answer"),
    [
        (Verdict.CONFIRMED, "yes"),
        (Verdict.REFUTED, "no"),
        (Verdict.CONDITIONAL, "under conditions"),
        (Verdict.NOT_COMPARABLE, "open"),
        (Verdict.IN_MODEL, "in its model"),
    ],
)
def test_no_verdict_is_given_on_a_question(verdict, answer):
    question = Claim(
        "some", "ABC", ("ABC",), "Is it?", "", "questions", None, Provenance("excerpt", "abstract", "", "", True)
    )
    found = Finding(question, verdict, "because")
    assert (found.verdict, found.answer) == (Verdict.ANSWERED, answer)
    again = Finding.from_dict(question, found.to_dict())
    assert (again.verdict, again.answer) == (found.verdict, found.answer)


def test_every_finding_on_a_text_that_was_not_read_in_full_is_an_answer():
    for claim in claims().values():
        found = Finding(claim, Verdict.REFUTED, "it is not")
        assert (found.verdict is Verdict.REFUTED) is (not claim.is_question)
        assert found.verdict is not Verdict.REFUTED or claim.provenance.read in FULL


@pytest.fixture(scope="module")
def report():
    made = [environment()]
    keys = ("power-stable", "abc-stable")
    measured = [Measurement("root", 1.0)]
    return Report([Finding(claims()[key], Verdict.IN_MODEL, "so", measured, environments=made) for key in keys])


def test_the_page_shows_what_was_read_and_links_to_command_commit_and_environment(report):
    text = re.sub(r"<script.*?</script>", "", page(report), flags=re.DOTALL)
    name, commit = environment_id(environment()), environment()["commit"]
    for key in ("power-stable", "abc-stable"):
        article = text.split(f'<article id="{key}"')[1].split("</article>")[0]
        said = claims()[key].provenance
        assert f"<dt>Read</dt><dd>{said.read}: " in article
        assert f"<code>ecc reproduce {key}</code>" in article
        assert f'commit {commit[:12]}, <a href="#{name}">environment</a>' in article
    assert f'<section id="{name}">' in text and f"<dd>{commit}</dd>" in text and "<dt>Python</dt>" in text
    assert "<dt>Difference</dt><dd>The proof sets power" in text
    assert "confirmed in its model</span>" in text and "answered: in its model</span>" in text
    assert "<dt>Judgment</dt><dd>No paper is judged: read is excerpt" in text


def test_markdown_json_and_tables_show_the_same(report, tmp_path):
    name, commit = environment_id(environment()), environment()["commit"]
    text = as_markdown(report)
    assert "- Read: paper: sec. 3.4, Theorem 1" in text and "- Question: Is the queue of ABC stable" in text
    assert f"- Repeat: `ecc reproduce abc-stable`, commit {commit[:12]}, {name}" in text
    data = json.loads(as_json(report))
    first, second = data["findings"]
    assert (first["claim"]["read"], second["claim"]["read"]) == ("paper", "excerpt")
    assert (second["verdict"], second["answer"]) == ("answered", "in its model")
    assert first["command"] == "ecc reproduce power-stable" and first["environments"] == [name]
    assert data["environments"][name]["commit"] == commit
    folder = write_dataset(report, tmp_path).parent
    assert f"ecc reproduce power-stable,{commit},{name}" in (folder / "claims.csv").read_text(encoding="utf-8")
    package = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
    assert package["environments"][name] == dict(environment())


def test_the_list_of_claims_shows_what_was_read():
    rows = json.loads(CliRunner().invoke(app, ["claims", "abc-stable", "--json"]).stdout)
    assert [(row["read"], row["is_question"]) for row in rows] == [("excerpt", True)]
    assert "abstract" in rows[0]["place"] and rows[0]["editions"]


def test_the_ledger_page_shows_what_was_read_and_links_to_what_produced_a_verdict(report, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    text = import_module("ledger_page").page(json.loads(as_json(report)))
    rows = dict(re.findall(r'<tr id="([\w-]+)"[^>]*>(.*?)</tr>', text))
    assert rows.keys() == claims().keys()
    for key, row in rows.items():
        assert f"Read: {claims()[key].provenance.read}" in row
    name = environment_id(environment())
    assert '<a href="../report.html#abc-stable">answered: in its model</a>' in rows["abc-stable"]
    assert "<code>ecc reproduce abc-stable</code>" in rows["abc-stable"]
    assert f'<a href="../report.html#{name}">commit {environment()["commit"][:12]}</a>' in rows["abc-stable"]
    assert "not in the report" in rows["qi-3"]


UNREAD = re.compile(r"from memory|text was not found|only the abstract", re.IGNORECASE)


def test_only_the_page_for_authors_speaks_of_texts_that_were_not_read():
    paths = [path for folder in ("ecc", "docs") for path in (ROOT / folder).rglob("*")]
    read = [path for path in paths if path.suffix in {".py", ".md", ".toml", ".html", ".c", ".h"} and path.is_file()]
    found = {path.relative_to(ROOT).as_posix() for path in read if UNREAD.search(path.read_text(encoding="utf-8"))}
    assert found <= {"docs/for_authors.md"}


def test_each_finding_has_its_answer_a_number_or_condition_and_evidence():
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    rows = [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 25
    for question, answer, evidence in rows:
        assert question.endswith("?") and re.search(r"\d", answer), question
        page_name = re.match(r"\[.*?\]\((\w+\.md)\)", evidence)
        assert page_name and (ROOT / "docs" / page_name[1]).is_file(), question
        named = re.findall(r"`([^`]+)`", evidence)
        assert named and all(name in claims() or name.startswith("python benchmarks/") for name in named), question


def test_reports_count_claims_and_questions_apart(report):
    assert "1 claim and 1 question: 1 confirmed in its model, 1 answered." in as_markdown(report)
    assert "1 claim and 1 question: 1 confirmed in its model, 1 answered.</p>" in page(report)
