"""The widget in JupyterLab, in a real browser: it draws, and its state moves between the page and Python."""

import json
import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest
from browser import CHROMIUM, Browser
from waiting import HANG

NEEDED = ("jupyterlab", "anywidget", "ipykernel")  # looked for, as their import takes seconds
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium"),
    pytest.mark.skipif(any(find_spec(name) is None for name in NEEDED), reason=f"needs {', '.join(NEEDED)}"),
]

CELL = """import ecc
widget = ecc.explore(ecc.models.QIRCP(alpha=0.7), ecc.Network.dumbbell("100 Mb/s", rtts=["100 ms"]))
widget"""
READ = "import pathlib; pathlib.Path('state.txt').write_text(str(widget.view.parameters['alpha']))"
KERNEL = (
    "jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute({ code: CODE }).done.then(() => {})"
)
QUIET = "document.querySelector('.ecc-explore .panel') && !document.querySelector('.ecc-explore .panel[aria-busy]')"
MOVE = """
(() => {
  const range = [...document.querySelectorAll('.ecc-explore input[type=range]')].find(
    each => each.labels[0].textContent === 'alpha');
  range.value = 900;
  range.dispatchEvent(new Event('input'));
  range.dispatchEvent(new Event('change'));
})()
"""


@pytest.fixture
def notebook(tmp_path):
    """Yield the address of a notebook with one cell, served by JupyterLab on the loopback address."""
    cell = {"cell_type": "code", "id": "first", "metadata": {}, "source": CELL, "outputs": [], "execution_count": None}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": [cell]}
    (tmp_path / "widget.ipynb").write_text(json.dumps(book))
    command = [sys.executable, "-P", "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"]
    command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", f"--ServerApp.root_dir={tmp_path}"]
    places = {f"JUPYTER_{name}_DIR": str(tmp_path / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    log = tmp_path / "jupyter.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            cwd=tmp_path,
            env={**os.environ, **places, "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "settings")},
        ) as process,
    ):
        end = time.monotonic() + HANG
        while not (found := re.search(r"(http://127\.0\.0\.1:\d+)/lab\?token=(\w+)", log.read_text())):
            assert time.monotonic() < end and process.poll() is None, log.read_text()
            time.sleep(0.1)
        yield f"{found[1]}/lab/tree/widget.ipynb?token={found[2]}"
        process.terminate()
        process.wait(HANG)


def test_the_widget_in_jupyterlab(notebook, tmp_path):
    with Browser(tmp_path / "browser") as browser:
        page = browser.page(notebook)
        page.wait("globalThis.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel", HANG)
        page.value("jupyterapp.commands.execute('notebook:run-all-cells').then(() => {})")
        page.wait(QUIET, HANG)
        words = "document.querySelector('.ecc-explore .verdict .words').textContent"
        assert page.value(words) == "stable, proven"
        assert page.value("document.querySelectorAll('.ecc-explore .plot .main-svg').length") > 2
        page.value(MOVE)
        page.wait(f"{words} === 'unstable, proven' && {QUIET}", HANG)
        page.value(KERNEL.replace("CODE", json.dumps(READ)))
        from_page = float((tmp_path / "state.txt").read_text())
        assert 1.7 < from_page < 7.0
        back = "from dataclasses import replace; widget.view = replace(widget.view, parameters={'alpha': 0.3})"
        page.value(KERNEL.replace("CODE", json.dumps(back)))
        page.wait(f"{words} === 'stable, proven' && {QUIET}", HANG)
        if folder := os.environ.get("ECC_PICTURES"):
            from pathlib import Path

            page.picture(Path(folder) / "jupyter.png")
