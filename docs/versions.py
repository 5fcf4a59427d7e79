"""Joins sites of several versions, each in a folder such as v0.1.0: a list of them for each page, and `latest`.

python docs/versions.py build/site
"""

from __future__ import annotations

import argparse
import json
import re
from html import escape
from pathlib import Path

VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
LEADS = """<!doctype html>
<meta charset="utf-8">
<title>ecc {version}</title>
<meta http-equiv="refresh" content="0; url={to}">
<a href="{to}">ecc {version}</a>
"""


def join(site: Path) -> list[str]:
    """Write versions.js, and pages that lead from `latest` and from the start to the newest version.

    `versions.js` is a script, which pages that are opened as files may read, unlike JSON.

    Parameters
    ----------
    site : Path
        Folder with a folder for each version.

    Returns
    -------
    list of str
        Versions, the newest first.
    """
    folders = [folder for folder in site.iterdir() if VERSION.fullmatch(folder.name)]
    folders.sort(key=lambda folder: tuple(map(int, VERSION.fullmatch(folder.name).groups())), reverse=True)
    if not folders:
        raise SystemExit(f"{site} must have a folder such as v0.1.0")
    pages = {
        folder.name: sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
        for folder in folders
    }
    (site / "versions.js").write_text(f"window.VERSIONS = {json.dumps(pages)};\n", encoding="utf-8")
    newest = folders[0].name
    for page in pages[newest]:
        _lead(site / "latest" / page, f"{'../' * (page.count('/') + 1)}{newest}/{page}", newest)
    _lead(site / "index.html", f"{newest}/index.html", newest)
    return list(pages)


def _lead(path: Path, to: str, version: str) -> None:
    """Write a page that leads to another one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(LEADS.format(version=version[1:], to=escape(to, quote=True)), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, help="folder with a folder for each version")
    print("versions:", *join(parser.parse_args().site))
