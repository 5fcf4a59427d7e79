"""Time from the move of a slider to the drawn picture, in a real browser, and the pictures of docs/explore.md.

    python benchmarks/explore.py                # a table: median and maximum in ms
    python benchmarks/explore.py --pictures docs

Each loop is drawn with its Nyquist curve, verdict and roots; the slider of its main parameter moves 20 times. The time
ends after the browser has drawn the frame that follows Plotly's update. Chromium must be installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import Browser, Page

from ecc.explorer.presets import PRESETS
from ecc.explorer.view import View, reference_view

QUIET = "document.querySelectorAll('.panel').length && !document.querySelector('.panel[aria-busy]')"
LOOPS = {
    "PIQI-RCP, 100 and 300 ms": (PRESETS["Lecture 2: delay and stability"].views()[0], "alpha"),
    "CUBIC over PI2, 4 flows, 100 ms": (reference_view("CUBIC"), "links.beta"),
    "DCTCP over a ramp, 10 flows, 100 us": (reference_view("DCTCP"), "flows.g"),
}
MOVES = 20
MEASURE = """
(async () => {
  const box = [...document.querySelectorAll('.controls .check')].filter(each => ["Stability limit", "Queue",
    "Rates: packets and fluid"].includes(each.textContent)).map(each => each.querySelector('input'));
  box.forEach(each => each.checked === RUNS || each.click());
  const roots = [...document.querySelectorAll('.controls .check')].find(each => each.textContent
    === "Characteristic roots").querySelector('input');
  if (!roots.checked) roots.click();
  const range = [...document.querySelectorAll('input[type=range]')].find(each => each.labels[0].textContent === NAME);
  const root = document.querySelector('.ecc-explore'), times = [];
  const wait = name => new Promise(resolve => root.addEventListener('ecc-drawn', function drawn(event) {
    if (event.detail.name !== name) return;
    root.removeEventListener('ecc-drawn', drawn);
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
  }));
  await new Promise(resolve => setTimeout(resolve, 3000));
  for (let k = 0; k <= MOVES; k += 1) {
    const begin = performance.now(), drawn = wait(PANEL);
    range.value = 400 + 10 * k;
    range.dispatchEvent(new Event('input'));
    times.push(await drawn - begin);
    await new Promise(resolve => setTimeout(resolve, 500));
  }
  return times.slice(1);
})()
"""


@contextmanager
def served() -> Iterator[str]:
    """Start `ecc explore` and yield its address."""
    command = [sys.executable, "-P", "-m", "ecc", "explore", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def opened(browser: Browser, address: str, view: View, width: int = 1400, dark: bool = False) -> Page:
    """Open the page of a view, and wait until all panels are drawn."""
    page = browser.page(f"{address}#{quote(json.dumps(view.to_dict()))}", width, 1000, dark)
    page.wait(QUIET, 300.0)
    return page


def measure(browser: Browser, address: str) -> None:
    """Print the times of each loop, of a model's panel and of a run's panel."""
    print(f"{'loop':40s} {'panel':8s} {'median':>8s} {'maximum':>8s}  ms")
    for name, (view, parameter) in LOOPS.items():
        for panel, with_runs in (("nyquist", False), ("rates", True)):
            page = opened(browser, address, view)
            script = MEASURE.replace("NAME", json.dumps(parameter)).replace("MOVES", str(MOVES))
            script = script.replace("RUNS", json.dumps(with_runs)).replace("PANEL", json.dumps(panel))
            times = page.value(script)
            print(f"{name:40s} {panel:8s} {median(times):8.0f} {max(times):8.0f}")


def take_pictures(browser: Browser, address: str, folder: Path) -> None:
    """Write the pictures of docs/explore.md."""
    view = LOOPS["PIQI-RCP, 100 and 300 ms"][0]
    opened(browser, address, view).picture(folder / "explore_page.png")
    opened(browser, address, view, 390, dark=True).picture(folder / "explore_phone.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="write the pictures to this folder instead")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        served() as address,
        Browser(Path(folder)) as browser,
    ):
        if options.pictures is None:
            measure(browser, address)
        else:
            take_pictures(browser, address, options.pictures)


if __name__ == "__main__":
    main()
