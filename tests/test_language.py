"""Plain English: rates of habits that make texts hard to read, in docstrings and on pages, and names that are riddles.

The limits are the rates of well-documented libraries of this field, with some room. A failure names the places.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from sources import parsed

ROOT = Path(__file__).parents[1]
AT_MOST = {
    "what": (r"\bwhat\b", 8.0),
    "where": (r"\bwhere\b", 20.0),
    "least, most": (r"\b(?:least|most)\b", 8.0),
    "whose": (r"\bwhose\b", 5.0),
    "beside": (r"\bbeside\b", 1.0),
    "come": (r"\bcomes?\b", 3.0),
    "of its own": (r"\bof (?:its|their|one's|his|your) own\b", 1.0),
    "is none": (r"\b(?:is|are|was|were) (?:none|no (?!longer|more|less|need|way|such|reason|guarantee))", 1.0),
}
"""Habit -> pattern, and occurrences per 10,000 words."""
AT_LEAST = {"if": (r"\bif\b", 60.0), "for example": (r"\bfor example\b|\be\.g\.", 3.0)}
FRAGMENTS = re.compile(r"(?:What|Where|When|How|Whether|Which|Who|Of|As of|As every|That)\b")
BROKEN = re.compile(r"(?:\.\.\.|of\b|that\b|which\b|whose\b|once\b|until\b)")
PRONOUNS = frozenset(
    "found most given whole left least own said one others many kept told here there beyond theirs ours none any_ "
    "nothing something".split()
)
MAX_FRAGMENTS, MAX_PRONOUNS = 20, 60


@cache
def sources() -> dict[Path, tuple[str, ast.Module]]:
    return {path: parsed(path) for path in sorted((ROOT / "ecc").rglob("*.py"))}


@cache
def docstrings() -> tuple[tuple[Path, int, str], ...]:
    return tuple(_docstrings())


def _docstrings() -> Iterator[tuple[Path, int, str]]:
    for path, (_, tree) in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield path, getattr(node, "lineno", 1), text


@cache
def prose() -> tuple[tuple[Path, int, str], ...]:
    """The pages without code and formulas."""
    return tuple(_prose())


def _prose() -> Iterator[tuple[Path, int, str]]:
    kept = sorted(set((ROOT / "docs").rglob("*.md")).difference(*map((ROOT / "docs").rglob, GENERATED)))
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *kept):
        text = re.sub(r"```.*?```", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        yield path, 1, re.sub(r"`[^`\n]*`|\$[^$\n]*\$", " ", text)


GENERATED = (
    "notebooks/*.md",
    "reference/ecc*.md",
    "reference/ledger.md",
    *(f"reference/{kind}{pages}.md" for kind in ("disciplines", "protocols") for pages in ("", "/*")),
)
"""Pages that building the site writes, as in .gitignore: their words are those of docstrings and of the ledger."""
TEXTS = {"docstrings": docstrings, "pages": prose}


def places(pattern: str, texts: tuple[tuple[Path, int, str], ...]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {text[max(0, match.start() - 30) : match.end() + 30]!r}"
        for path, line, text in texts
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("habit", AT_MOST)
def test_a_habit_is_rare(habit: str, kind: str) -> None:
    texts = TEXTS[kind]()
    pattern, limit = AT_MOST[habit]
    n_words = sum(len(re.findall(r"[A-Za-z']+", text)) for _, _, text in texts)
    matches = places(pattern, texts)
    assert 1e4 * len(matches) / n_words <= limit, "\n".join(matches)


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("word", AT_LEAST)
def test_conditions_and_examples_are_there(word: str, kind: str) -> None:
    texts = TEXTS[kind]()
    pattern, limit = AT_LEAST[word]
    n_words = sum(len(re.findall(r"[A-Za-z']+", text)) for _, _, text in texts)
    assert 1e4 * len(places(pattern, texts)) / n_words >= limit


def test_docstrings_stand_alone() -> None:
    fragments = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path, line, text in docstrings()
        if FRAGMENTS.match(text)
    ]
    assert len(fragments) <= MAX_FRAGMENTS, "\n".join(fragments)


def test_comments_stand_alone() -> None:
    fragments = []
    for path, (source, _) in sources().items():
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and BROKEN.match(token.string.lstrip("# ")):
                fragments.append(f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}")
    for path in (ROOT / "ecc").rglob("*.[ch]"):
        for comment in re.findall(r"/\*(.*?)\*/", path.read_text(encoding="utf-8"), re.DOTALL):
            if BROKEN.match(comment.lstrip(" *\n")):
                fragments.append(f"{path.relative_to(ROOT)}: {comment.strip()[:60]}")
    assert not fragments, "\n".join(fragments)


def test_names_are_nouns_for_their_content() -> None:
    pronouns, superlatives = [], []
    for path, (_, tree) in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                place = f"{path.relative_to(ROOT)}:{node.lineno}: {node.id}"
                if node.id.lstrip("_") in PRONOUNS:
                    pronouns.append(place)
                if re.match(r"_?(?:MOST|LEAST)(?:_|$)", node.id):
                    superlatives.append(place)
    assert len(pronouns) <= MAX_PRONOUNS, "\n".join(pronouns)
    assert not superlatives, "\n".join(superlatives)
