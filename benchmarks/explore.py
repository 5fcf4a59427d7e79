"""Time from the move of a slider to the drawn picture, in a real browser, and the pictures of docs/explore.md.

    python benchmarks/explore.py                # a table: fastest, median and slowest move in ms
    python benchmarks/explore.py --pictures docs

The slider of a loop's main parameter moves 20 times. Two times are measured from the event of each move: until the
first figure with new values is painted, and until all open panels are. A panel is painted once the browser has drawn
the frame that follows Plotly's update. The open panels are those of the linear model alone (verdict, Nyquist curve,
roots), then the default panels (verdict, stability limit, Nyquist curve, rates and queue), which have a packet run and
a fluid run. Chromium must be installed. Other programs make the times longer: the load of the machine is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
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
    "CUBIC over PI2, 4 flows, 100 ms": (reference_view("CUBIC"), "links.alpha"),
    "DCTCP over a ramp, 10 flows, 100 us": (reference_view("DCTCP"), "flows.g"),
}
MOVES = 20
MODEL = ("verdict", "nyquist", "roots")
DEFAULT = ("verdict", "limit", "nyquist", "rates", "queue")
MEASURE = """
(async () => {
  const range = [...document.querySelectorAll('input[type=range]')].find(each => each.labels[0].textContent === NAME);
  const root = document.querySelector('.ecc-explore');
  const painted = () => new Promise(resolve => requestAnimationFrame(() => setTimeout(() =>
    resolve(performance.now()))));
  const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
  const first = [], all = [];
  await pause(2000);
  for (let k = 0; k <= MOVES; k += 1) {
    const left = new Set(PANELS);
    const begin = performance.now();
    const times = await new Promise(resolve => {
      let figure = null;
      root.addEventListener('ecc-drawn', function drawn({ detail: { name } }) {
        if (figure === null && root.querySelector(`.panel.${name} .plot`)) figure = painted();
        left.delete(name);
        if (left.size) return;
        root.removeEventListener('ecc-drawn', drawn);
        resolve(Promise.all([figure, painted()]));
      });
      range.value = 400 + 10 * k;
      range.dispatchEvent(new Event('input'));
    });
    first.push(times[0] - begin);
    all.push(times[1] - begin);
    await pause(300);
  }
  return [first.slice(1), all.slice(1)];
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


def opened(
    browser: Browser, address: str, view: View, panels: Sequence[str] = DEFAULT, width: int = 1400, dark: bool = False
) -> Page:
    """Open the page of a view, and wait until all panels are drawn."""
    state = {"views": [view.to_dict()], "panels": list(panels)}
    page = browser.page(f"{address}#{quote(json.dumps(state))}", width, 1000, dark)
    page.wait(QUIET, 300.0)
    return page


def measure(browser: Browser, address: str) -> None:
    """Print the times of each loop, with the panels of its linear model and with the default panels."""
    columns = ("fastest", "median", "slowest") * 2
    print(f"{'':52s}{'first figure':>27s}{'all panels':>27s}")
    print(f"{'loop':36s}{'panels':16s}{''.join(f'{column:>9s}' for column in columns)}  ms")
    for name, (view, parameter) in LOOPS.items():
        for label, panels in (("linear model", MODEL), ("default, runs", DEFAULT)):
            page = opened(browser, address, view, panels)
            script = MEASURE.replace("NAME", json.dumps(parameter)).replace("MOVES", str(MOVES))
            times = page.value(script.replace("PANELS", json.dumps(panels)))
            numbers = "".join(f"{min(each):9.0f}{median(each):9.0f}{max(each):9.0f}" for each in times)
            print(f"{name:36s}{label:16s}{numbers}", flush=True)
    print(f"load of the machine, mean of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def take_pictures(browser: Browser, address: str, folder: Path) -> None:
    """Write the pictures of docs/explore.md."""
    view = LOOPS["PIQI-RCP, 100 and 300 ms"][0]
    opened(browser, address, view).picture(folder / "explore_page.png")
    opened(browser, address, view, width=390, dark=True).picture(folder / "explore_phone.png")


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
