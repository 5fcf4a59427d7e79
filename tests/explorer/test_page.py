"""The page in a real browser: by keyboard, at two widths, light and dark, with a slow machine and a lost server."""

import re
import subprocess
import sys

import pytest
from browser import CHROMIUM, Browser
from waiting import HANG

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no chromium")]
pytest.importorskip("starlette")

QUIET = "document.querySelectorAll('.panel').length && !document.querySelector('.panel[aria-busy]')"


@pytest.fixture(scope="module")
def server():
    command = [sys.executable, "-P", "-m", "ecc", "explore", "QIRCP", "--rtt", "100ms", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", address)
        yield process, address
        process.terminate()
        assert process.wait(HANG) in (0, 130, -15)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (390, True)])
def test_the_page_by_keyboard(server, browser, width, dark):
    page = browser.page(server[1], width, 900, dark)
    page.wait(QUIET, HANG)
    words = "document.querySelector('.verdict .words').textContent"
    assert page.value(words) == "stable, proven"
    assert page.value("document.documentElement.scrollWidth") <= width
    alpha = "document.activeElement.labels?.[0]?.textContent"
    for _ in range(60):
        page.press("Tab")
        if page.value(f"{alpha} === 'alpha' && document.activeElement.type === 'range'"):
            break
    else:
        raise AssertionError("the slider of alpha cannot be reached by the keyboard")
    assert page.value("getComputedStyle(document.activeElement).outlineStyle") != "none"
    for _ in range(4):
        page.press("PageUp")
    page.wait(f"{words} === 'unstable, proven'", HANG)
    assert page.value("document.activeElement.type") == "range"
    page.wait(QUIET, HANG)
    assert page.value("document.querySelectorAll('.plot .main-svg').length") > 2
    assert not page.errors()


def test_each_panel_can_be_shown_and_hidden(server, browser):
    page = browser.page(server[1])
    page.wait(QUIET, HANG)
    boxes = "[...document.querySelectorAll('.controls .group:last-of-type .check input')]"
    assert page.value(f"{boxes}.length") == 11
    page.value(f"{boxes}.forEach(box => box.checked || box.click())")
    page.wait(f"document.querySelectorAll('.panel').length === 11 && {QUIET}", HANG)
    assert page.value("document.querySelectorAll('.panel.refused').length") == 0
    assert page.value("document.querySelectorAll('.panel .plot').length") == 8
    assert page.value("document.querySelectorAll('.diagram svg text').length") >= 6
    page.value(f"{boxes}.forEach(box => box.click())")
    assert page.value("document.querySelectorAll('.panel').length") == 0
    assert not page.errors()


def test_presets_comparison_and_code(server, browser):
    page = browser.page(server[1])
    page.wait(QUIET, HANG)
    page.value(
        "(() => { const select = document.querySelector('.bar select'); select.value = 'Lecture 4: queue management';"
        " select.dispatchEvent(new Event('change')); })()"
    )
    page.wait(f"document.querySelectorAll('.panel').length === 10 && {QUIET}", 2 * HANG)
    assert "CUBIC over PIE" in page.value("document.querySelector('[data-side=\"1\"] h2').textContent")
    page.value("[...document.querySelectorAll('.bar button')].find(button => /code/.test(button.textContent)).click()")
    page.wait("document.querySelector('dialog[open] pre')")
    assert "PIE(" in page.value("document.querySelector('dialog pre').textContent")
    assert page.value("document.querySelector('.bar select').value") == "Lecture 4: queue management"
    address = page.value("location.href")
    again = browser.page(address)
    again.wait(f"document.querySelectorAll('.panel').length === 10 && {QUIET}", 2 * HANG)
    assert "CUBIC over PIE" in again.value("document.querySelector('[data-side=\"1\"] h2').textContent")
    assert not page.errors() + again.errors()


def set_number(page, label, value):
    """Type a number next to the slider of a label."""
    page.value(
        f"(() => {{ const box = [...document.querySelectorAll('.slider')].find(each => each.querySelector('label')"
        f".textContent === {label!r}).querySelector('input[type=number]'); box.value = {value!r};"
        " box.dispatchEvent(new Event('change')); })()"
    )


def test_two_tabs_have_views_of_their_own(server, browser):
    first, second = browser.page(server[1]), browser.page(server[1])
    words = "document.querySelector('.verdict .words').textContent"
    for page in (first, second):
        page.wait(QUIET, HANG)
    set_number(first, "alpha", "3")
    first.wait(f"{words} === 'unstable, proven' && {QUIET}", HANG)
    assert second.value(words) == "stable, proven"
    set_number(second, "alpha", "0.25")
    second.wait(QUIET, HANG)
    assert (first.value(words), second.value(words)) == ("unstable, proven", "stable, proven")
    assert not first.errors() + second.errors()


def test_wrong_numbers_are_explained_and_do_no_harm(server, browser):
    page = browser.page(server[1])
    page.wait(QUIET, HANG)
    box = "document.querySelector('.slider input[type=number]')"
    before = page.value(f"{box}.value")
    for text in ("-3", "0", "much", ""):
        set_number(page, "Link rate", text)
        assert page.value(f"{box}.value") == before
    set_number(page, "Link rate", "1e9")
    error = "document.querySelector('.verdict .error')?.textContent"
    page.wait(f"{error}?.startsWith('capacity must be 10000 to 1e+12 bit/s') && {QUIET}", HANG)
    set_number(page, "Link rate", before)
    page.wait(f"document.querySelector('.verdict .words')?.textContent === 'stable, proven' && {QUIET}", HANG)
    assert not page.errors()


def test_figures_stay_in_their_panels_if_the_window_is_resized_after_a_move(server, browser):
    page = browser.page(server[1])
    page.wait(QUIET, HANG)
    set_number(page, "alpha", "0.6")
    page.wait(f"document.querySelector('.limit dd').textContent === '0.6' && {QUIET}", HANG)
    page.call("Emulation.setDeviceMetricsOverride", width=1000, height=900, deviceScaleFactor=1, mobile=False)
    figure = "plot.querySelector('.svg-container').clientWidth"
    fits = f"[...document.querySelectorAll('.plot')].every(plot => Math.abs({figure} - plot.clientWidth) < 2)"
    page.wait(fits, HANG)
    page.value("new Promise(resolve => setTimeout(resolve, 500))")  # Plotly resizes figures after 100 ms
    assert page.value("[...document.querySelectorAll('.plot')].every(plot => plot.clientHeight > 300)")
    cards = "[...document.querySelectorAll('.panel')]"
    assert page.value(f"{cards}.every(panel => panel.scrollHeight <= panel.clientHeight + 1)")
    page.call("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)
    page.wait(fits, HANG)
    before = page.value("document.querySelector('.queue .plot').clientWidth")
    page.value("[...document.querySelectorAll('.check')].find(each => each.textContent === 'Stability limit').click()")
    page.wait(f"document.querySelector('.queue .plot').clientWidth < 0.6 * {before} && {fits}", HANG)


def test_a_slow_machine_draws_the_last_position_of_a_slider(server, browser):
    page = browser.page(server[1], 390)
    page.wait(QUIET, HANG)
    page.call("Emulation.setCPUThrottlingRate", rate=6)
    moves = """
    (async () => {
      const range = [...document.querySelectorAll('input[type=range]')].find(
        each => each.labels[0].textContent === 'alpha');
      for (let k = 0; k <= 20; k += 1) {
        range.value = 400 + 25 * k;
        range.dispatchEvent(new Event('input'));
        await new Promise(resolve => setTimeout(resolve, 20));
      }
      range.dispatchEvent(new Event('change'));
    })()
    """
    page.value(moves)
    last = "[...document.querySelectorAll('.limit dd')][0]?.textContent"
    page.wait(f"{last} === '3.155' && {QUIET}", HANG)
    assert page.value("document.querySelector('.verdict .words').textContent") == "unstable, proven"
    assert not page.errors()


def test_an_address_with_a_refused_state_shows_the_first_view(server, browser):
    page = browser.page(f"{server[1]}#%7B%22views%22%3A%5B%7B%22protocol%22%3A%22nobody%22%7D%5D%7D")
    page.wait(QUIET, HANG)
    assert page.value("document.querySelector('.controls select').value") == "QIRCP"


WIDGET = """
(async () => {
  const { default: widget } = await import("./explore.js");
  const acts = new Map(), values = new Map();
  const model = {
    on: (name, act) => acts.set(name, act),
    get: name => values.get(name),
    set: (name, value) => values.set(name, value),
    save_changes: () => {},
    send: async ({ id, request }) => {
      const script = async () => ({ script: await (await fetch("plotly.js")).text() });
      const post = async () => (await fetch("ask", { method: "POST", body: JSON.stringify(request) })).json();
      acts.get("msg:custom")({ id, answer: await (request.ask === "plotly" ? script() : post()) });
    },
  };
  document.getElementById("explorer").remove();
  delete window.Plotly;
  const el = document.createElement("div");
  document.body.append(el);
  await widget.render({ model, el });
  model.set("state", [{ protocol: "RCP", capacity: 1e7, rtts: [0.05], flows: 2, duration: 20 }]);
  acts.get("change:state")();
})()
"""


def test_the_widget_draws_and_follows_python(server, browser):
    """A model in JavaScript stands for the kernel of a notebook."""
    page = browser.page(server[1])
    page.wait(QUIET, HANG)
    page.call("Page.setBypassCSP", enabled=True)
    page.call("Page.reload")
    page.wait(QUIET, HANG)
    page.value(WIDGET)
    page.wait(f"document.querySelector('.controls select').value === 'RCP' && {QUIET}", HANG)
    assert page.value("document.querySelectorAll('.plot .main-svg').length") > 2


def test_a_lost_server_is_reported_in_one_line(browser):
    command = [sys.executable, "-P", "-m", "ecc", "explore", "QIRCP", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        page = browser.page(process.stdout.readline().strip())
        page.wait(QUIET, HANG)
        process.kill()
        process.wait(HANG)
    page.value(
        "(() => { const range = document.querySelector('.controls input[type=range]'); range.value = 10;"
        " range.dispatchEvent(new Event('input')); range.dispatchEvent(new Event('change')); })()"
    )
    page.wait("document.querySelector('.status').textContent.startsWith('No answer from Python')", HANG)
    assert "the part of this address from # on" in page.value("document.querySelector('.status').textContent")


def test_a_saved_comparison_works_without_a_server(browser, tmp_path):
    from ecc.explorer.saved import saved_page
    from ecc.explorer.view import View

    network = {"capacity": 10e6, "rtts": (0.05,), "flows": 2, "duration": 20.0}
    views = [View("QIRCP", **network), View("PIQIRCP", **network)]
    path = tmp_path / "page.html"
    path.write_text(saved_page(views, ["verdict", "nyquist", "diagram"], "alpha", lambda: False), encoding="utf-8")
    page = browser.page(path.as_uri(), 390, dark=True)
    page.wait("document.querySelectorAll('.plot .main-svg').length > 1", HANG)
    words = "document.querySelector('.verdict .words').textContent"
    assert page.value("document.querySelectorAll('.panel').length") == 6
    assert page.value("document.documentElement.scrollWidth") <= 390
    assert page.value(words) == "stable, proven"
    page.value("document.getElementById('value').focus()")
    for _ in range(14):
        page.press("ArrowRight")
    page.wait(f"{words} === 'unstable, proven'", HANG)
    assert page.value("document.querySelectorAll('.panel h2')[1].textContent") == "Verdict: PIQIRCP"
    assert not page.errors()
