"""Lower bounds of what the package needs are those that are tested."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_dependency_has_the_lower_bound_that_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    needed = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    bounds = {}
    for line in (*needed, *extras["parquet"], *extras["test"]):
        name, bound = re.fullmatch(r"([\w-]+)>=([\d.]+)", line).groups()
        assert bounds.setdefault(name, bound) == bound, f"{name} has two lower bounds"
    lines = [line for line in (ROOT / ".ci" / "oldest.txt").read_text().splitlines() if not line.startswith("#")]
    assert dict(line.split("==") for line in lines) == bounds
