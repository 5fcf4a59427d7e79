"""Lower bounds of what the package needs are those that are tested."""

import json
import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_dependency_has_the_lower_bound_that_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    needed = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    bounds = {}
    for line in (*needed, *extras["parquet"], *extras["cluster"], *extras["rl"], *extras["test"]):
        name, bound = re.fullmatch(r"([\w-]+)>=([\d.]+)", line).groups()
        assert bounds.setdefault(name, bound) == bound, f"{name} has two lower bounds"
    lines = [line for line in (ROOT / ".ci" / "oldest.txt").read_text().splitlines() if not line.startswith("#")]
    assert dict(line.split("==") for line in lines) == bounds


def test_the_wheel_has_its_license_authors_and_classifiers():
    wheel = distribution("congestion-control")
    assert wheel.metadata["License-Expression"] == "BSD-3-Clause" and wheel.metadata["Author"]
    assert {"Programming Language :: Python :: 3", "Typing :: Typed"} <= set(wheel.metadata.get_all("Classifier"))
    (license_file,) = (file for file in wheel.files if file.name == "LICENSE")
    assert license_file.read_text() == (ROOT / "LICENSE").read_text()


def test_the_wheel_has_no_sources_of_the_engine_but_the_header_for_controllers():
    installed = [str(file) for file in distribution("congestion-control").files]
    assert [name for name in installed if name.endswith((".c", ".h"))] == ["ecc/include/ecc_controller.h"]
    assert not [name for name in installed if name.endswith("meson.build")]


def test_no_page_or_message_installs_the_other_project_named_ecc():
    """`ecc` on the public index is another project: installing it would run code of strangers."""
    install = r"(?:pip|uv|pipx|conda|mamba)\S* (?:install|download|add)(?: -\S+)* ['\"]?ecc\b"
    command = re.compile(install + r"|\becc\[[a-z]+[\],]")
    texts = [
        path
        for folder in ("ecc", "docs", "examples", "notebooks", "recipe", "paper", ".ci", ".github", "benchmarks")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".ipynb", ".toml", ".yaml", ".yml", ".c", ".h"} or path.name == "run"
        if path.is_file()
    ]
    texts += [*ROOT.glob("*.md"), *ROOT.glob("*.toml")]
    lines = [line for path in texts for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 50_000
    assert not [line for line in lines if command.search(line)]


def test_citation_and_archive_say_what_the_package_says():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    archive = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = dict(re.findall(r"^(\w[\w-]*): \"?(.+?)\"?$", citation, re.MULTILINE))
    assert said["version"] == archive["version"] == distribution("congestion-control").version
    assert said["license"] == archive["license"] == project["license"]
    assert said["title"] == archive["title"]
    authors = re.findall(r"^  - name: (.+)$", citation, re.MULTILINE)
    assert authors == [one["name"] for one in archive["creators"]] == [one["name"] for one in project["authors"]]
    assert archive["keywords"] == re.findall(r"^  - (?!name: )(.+)$", citation, re.MULTILINE)


def test_the_conda_recipe_needs_what_the_package_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    host, run = re.findall(r"^  (?:host|run):\n((?:    - .+\n)+)", recipe, re.MULTILINE)
    needed = {"host": project["build-system"]["requires"], "run": project["project"]["dependencies"]}
    for section, lines in (("host", host), ("run", run)):
        listed = set(re.findall(r"- ([\w-]+ >=[\d.]+)", lines)) - {f"python {project['project']['requires-python']}"}
        assert listed == {line.replace(">=", " >=") for line in needed[section]}
    assert f'version: "{distribution("congestion-control").version}"' in recipe
    assert f"- python {project['project']['requires-python']}\n" in run
    assert f"summary: {project['project']['description']}" in recipe
    ((name, target),) = project["project"]["scripts"].items()
    assert f"- {name} = {target}" in recipe
    assert f"license: {project['project']['license']}" in recipe
