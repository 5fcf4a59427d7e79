"""The report: self-contained, escaped, complete, and the same findings as JSON."""

from __future__ import annotations

import json
import math
import queue
import re
import shutil
import subprocess
from base64 import b64decode
from gzip import decompress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote

import numpy as np
import pytest
from waiting import HANG

from ecc._support.display import number_text
from ecc.claims.ledger import Finding, Measurement, Picture, Verdict, claims
from ecc.claims.report import page as page_module
from ecc.claims.report.output import Report, as_json, as_markdown, write_report
from ecc.claims.report.text import evidence, typeset
from ecc.plot import boundary_figure, trajectory_figure


def finding(claim_id="qi-7", verdict=Verdict.REFUTED, **parts):
    return Finding(claims()[claim_id], verdict, parts.pop("reason", "1.651587, with pi as pi"), **parts)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("1.2e-16 and 3e+08, -2e5", "1.2 × 10<sup>−16</sup> and 3 × 10<sup>8</sup>, −2 × 10<sup>5</sup>"),
        ("editors' copy at 4ce5e87", "editors' copy at 4ce5e87"),
        ("commit 12e5f77, case 3e", "commit 12e5f77, case 3e"),
    ],
)
def test_powers_of_ten_are_numbers_and_not_parts_of_names(text, html):
    assert typeset(text) == html


def test_names_in_backticks_are_code_and_not_typeset():
    assert typeset("pi of `ecc conform x_1 & pi`, a_1") == "π of <code>ecc conform x_1 &amp; pi</code>, a<sub>1</sub>"
    assert typeset("a single ` stays") == "a single ` stays"


def test_measurements_of_cases_have_four_digits_and_those_of_claims_seven():
    given = [finding(measurements=[Measurement("delay", 5.93968123, "ms"), Measurement("packets", 123456.7)])]
    claim, case = Report(given), Report(given, noun="case")
    for text in (page_module.page(claim), as_markdown(claim)):
        assert "5.939681" in text
    for text in (page_module.page(case), as_markdown(case)):
        assert "5.94" in text and "5.9397" not in text and "123457" in text


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    picture = Picture.of(
        boundary_figure([0.1, 1.0], {"</script><b>": [1.0, 2.0]}, title="inside"), "Boundaries", "alpha1 <= 2 < pi/2"
    )
    found = finding(
        measurements=[
            Measurement("critical <gain>", 1.651587, "", 1.6523, "z^-D_i"),
            Measurement("peak queue", 80868.0, "packets", 80868),
            Measurement("growth", 3.2e-5, "1/s", half=1.5e-6, met=False),
            Measurement("never lost", math.inf),
        ],
        pictures=[picture],
        assumptions=[
            "T & d known",
            "omega T << tau1: -2 +- 1.2e-16, figs. 4-8, qi-3, -alpha2",
            "C^0.999, Delta^-0.96. 10^100 within 0.0e+00, sqrt(2) mu C",
        ],
        seconds=1.25,
    )
    report = Report(
        [found, finding("piqi-9", Verdict.NOT_COMPARABLE)],
        command="ecc crosscheck 'a<b'",
        partial=True,
        failures={"qi-3": "ValueError: a < b"},
    )
    path, data = write_report(report, tmp_path_factory.mktemp("report") / "new" / "folder")
    return path.read_text(encoding="utf-8"), json.loads(data.read_text(encoding="utf-8"))


def figures(text):
    """The figures of a page, unpacked."""
    packed = re.findall(r'<script type="text/plain">(.*?)</script>', text, re.DOTALL)
    return [json.loads(decompress(b64decode(figure))) for figure in packed]


def body(text):
    """The page without its scripts."""
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def test_page_is_self_contained(page):
    text = body(page[0])
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)
    assert "@import" not in text and "url(" not in text
    assert "default-src 'none'" in text
    assert page[0].count("plotly.js v") == 1
    assert len(page[0].encode()) < 15_000_000


def test_text_is_escaped(page):
    text = body(page[0])
    assert "ecc crosscheck &#x27;a&lt;b&#x27;" in text
    assert "critical &lt;gain&gt;" in text
    assert "T &amp; d known" in text
    assert "ValueError: a &lt; b" in text
    assert figures(page[0])[0]["data"][0]["name"] == "</script><b>"


def test_every_claim_has_a_row_a_section_and_the_command_that_reruns_it(page):
    text = body(page[0])
    for key in ("qi-7", "piqi-9"):
        assert f'href="#{key}"' in text
        assert f'<article id="{key}"' in text
        assert f"<code>ecc reproduce {key}</code>" in text
    assert '<span class="verdict refuted">refuted</span>' in text
    assert '<span class="verdict not-comparable">not comparable</span>' in text
    assert "2 claims: 1 refuted, 1 not comparable." in text
    assert "took 1.2 s" in text


def test_counts_by_section_and_protocol_select_their_claims(page):
    text = body(page[0])
    chosen = 'data-section="theorems" data-protocol="" data-verdict="refuted"'
    assert f'<button type="button" {chosen}>1</button>' in text
    assert 'data-section="" data-protocol="QI-RCP" data-verdict="">QI-RCP</button>' in text
    assert "<dt>THESIS</dt><dd>S. Jain" in text and "<dt>JETMAX</dt>" not in text


def test_what_misses_comes_first_with_its_interval(page):
    text = body(page[0])
    assert text.index(">growth<") < text.index(">critical &lt;gain&gt;<")
    assert '<td class="value half" data-label="±">1.5 × 10<sup>−6</sup></td>' in text
    assert '<b class="no">no</b>' in text


def test_partial_runs_and_failed_checks_are_said(page):
    text = body(page[0])
    assert "Partial report" in text
    assert "<b>qi-3</b>: ValueError" in text
    assert "Quick report" not in text


def test_a_quick_run_says_so_everywhere(tmp_path):
    path, data = write_report(Report([finding()], quick=True), tmp_path)
    assert "Quick report: fewer seeds" in path.read_text(encoding="utf-8")
    assert json.loads(data.read_text(encoding="utf-8"))["quick"]
    assert "\nQuick: fewer seeds" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_numbers_and_symbols_are_set(page):
    text = body(page[0])
    assert "1.651587, with π as π" in text
    assert "80,868 <span" in text
    assert "3.2 × 10<sup>−5</sup>" in text
    assert "∞" in text
    assert "α<sub>1</sub> ≤ 2 &lt; π/2" in text
    assert "z<sup>−D<sub>i</sub></sup>" in text
    assert "C<sup>0.999</sup>, Δ<sup>−0.96</sup>. 10<sup>100</sup> within 0, √(2) μ C" in text
    assert "ω T ≪ τ<sub>1</sub>: −2 ± 1.2 × 10<sup>−16</sup>, figs.&nbsp;4-8, qi-3, -α<sub>2</sub>" in text


def test_figures_have_numbers_and_captions_and_no_title_of_their_own(page):
    assert "<b>Figure 1. Boundaries.</b>" in page[0]
    assert "title" not in figures(page[0])[0]["layout"]
    with pytest.raises(ValueError, match="caption must not be empty, got ' ' .*of qi-7"):
        write_report(Report([finding(pictures=[Picture("A", " ", {"data": [], "layout": {}})])]), "unused")


def test_no_figure_of_a_page_offers_to_upload_it(page):
    for figure in figures(page[0]):
        assert "sendChartToCloud" in figure["layout"]["template"]["layout"]["modebar"]["remove"]


def test_figures_say_in_words_what_they_show(page):
    assert 'role="img" aria-label="Figure 1. Boundaries. alpha1 &lt;= 2 &lt; pi/2"' in page[0]


def test_what_a_confirmed_theorem_does_not_say_of_packets_stands_beside_its_verdict(tmp_path):
    unstable = Measurement("packet run 2 % below Theorem 3", "unstable", met=False)
    right = finding("qi-3", Verdict.CONFIRMED, measurements=[Measurement("boundary", 1.57, met=True), unstable])
    wrong = finding("qi-7", Verdict.REFUTED, measurements=[unstable])
    assert [m.name for m in evidence(right)] == ["boundary", "packet run 2 % below Theorem 3"]
    path, _ = write_report(Report([right, wrong]), tmp_path)
    rows = re.findall(
        r'<a href="#(qi-.)">.*?<td class="beside">(.*?)</td>', path.read_text(encoding="utf-8"), re.DOTALL
    )
    marks = re.findall(r'<td class="mark"[^>]*><b class="(\w+)">(.*?)</b>', path.read_text(encoding="utf-8"))
    assert marks == [("yes", "yes"), ("beyond", "beyond the claim"), ("no", "no")]
    assert rows == [("qi-3", "packet run 2 % below Theorem 3: unstable"), ("qi-7", "")]
    assert "| packet run 2 % below Theorem 3: unstable |\n" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_no_color_of_the_page_stands_outside_its_two_palettes(page):
    style = body(page[0]).split("<style>")[1].split("</style>")[0]
    palettes = re.findall(r":root \{.*?\}", style, re.DOTALL)
    assert "prefers-color-scheme: dark" in style and len(palettes) == 2
    light, dark = (set(re.findall(r"--[\w-]+(?=:)", palette)) for palette in palettes)
    assert light - dark == {"--sans", "--mono"} and dark <= light
    for palette in palettes:
        style = style.replace(palette, "")
    assert not re.findall(r"#[0-9a-f]{3,6}\b|\b(?:white|black)\b(?!-)", re.sub(r"/\*.*?\*/", "", style))


def test_json_has_the_findings_and_only_standard_numbers(page):
    data = page[1]
    assert (data["partial"], data["command"]) == (True, "ecc crosscheck 'a<b'")
    assert data["failures"] == {"qi-3": "ValueError: a < b"}
    first = data["findings"][0]
    assert (first["claim"]["id"], first["verdict"]) == ("qi-7", "refuted")
    assert first["measurements"][3]["value"] == "inf"
    assert first["pictures"] == [{"title": "Boundaries", "caption": "alpha1 <= 2 < pi/2"}]


def test_json_takes_numpy_scalars():
    text = as_json(Report([finding(measurements=[Measurement("n", np.int64(3)), Measurement("x", np.float64("nan"))])]))
    assert [measure["value"] for measure in json.loads(text)["findings"][0]["measurements"]] == [3, None]


def test_a_report_of_nothing_is_a_page(tmp_path):
    path, _ = write_report(Report([]), tmp_path)
    assert "No claim was checked." in path.read_text(encoding="utf-8")


def test_markdown_has_every_claim_and_what_misses_first():
    measurements = [
        Measurement("a|b", 1.0, "s", 2.0),
        Measurement("queue", 3.0, "packets", 4, "10 seeds", 3.5, 0.25, False),
    ]
    text = as_markdown(Report([finding(measurements=measurements, assumptions=["x_i * y"], reason="no *")]))
    assert "1 claim: 1 refuted." in text
    assert "| [qi-7](#qi-7) | THESIS Theorem 7, fig. 14 | thesis | refuted |" in text
    assert "- Verdict: **refuted**. no \\*" in text and "- Assumed: x\\_i \\* y" in text
    assert "- Repeat: `ecc reproduce qi-7`" in text
    assert "\n- THESIS: S. Jain" in text and "\n- JETMAX: " not in text  # papers that are cited
    rows = text.split("| quantity |")[1].splitlines()[2:]
    assert rows == [
        "| queue | 4 packets | 3 packets | 0.25 | 3.5 packets | no | 10 seeds |",
        "| a\\|b | 2 s | 1 s |  |  |  |  |",
    ]


def long_run(noise):
    time = np.linspace(0.0, 60.0, 60_001)
    rates = 1e6 * (1.0 + noise * np.random.default_rng(0).random((len(time), 10)))
    return Picture.of(trajectory_figure(time, rates, rates[:, :3]), "Rates", "Of ten flows.")


@pytest.mark.slow
def test_a_full_report_stays_below_fifteen_megabytes(tmp_path):
    keys = list(claims())
    pictures = [long_run(1.0)]  # as noisy as can be, for every claim
    path, _ = write_report(Report([finding(key, pictures=pictures) for key in keys]), tmp_path)
    assert path.read_text(encoding="utf-8").count('<div class="plot"') == len(keys) > 300
    assert path.stat().st_size < 15_000_000


def test_figures_are_thinned_for_want_of_room_and_only_then(tmp_path, monkeypatch):
    picture = long_run(1.0)
    path, _ = write_report(Report([finding(pictures=[picture])]), tmp_path)
    assert figures(path.read_text(encoding="utf-8"))[0]["data"] == list(picture.figure["data"])
    bare = path.stat().st_size - len(picture.figure["data"])
    monkeypatch.setattr(page_module, "FIGURES", 75_000)
    path, _ = write_report(Report([finding(pictures=[picture] * 3)]), tmp_path)
    small = figures(path.read_text(encoding="utf-8"))
    assert len(small) == 3 and path.stat().st_size < bare
    for new, old in zip(small[0]["data"], picture.figure["data"], strict=True):
        kept, whole = (np.frombuffer(b64decode(trace["y"]["bdata"]), "f4") for trace in (new, old))
        assert 20 < len(kept) < len(whole) and (kept.min(), kept.max()) == (whole.min(), whole.max())


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.6515869, "1.651587"),
        (80868, "80,868"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
        (math.nan, "–"),
        (None, ""),
        ("stable", "stable"),
        (2.0, "2"),
        (1e-9, "1e-09"),
        (12345.678, "12345.68"),
    ],
)
def test_numbers_are_shown_to_seven_digits(value, shown):
    assert number_text(value) == shown


# ---- in a browser ----------------------------------------------------------------------------------------

PROBE = """
<script>
"use strict";
const troubles = [];
addEventListener("error", event => troubles.push(String(event.message)), true);
addEventListener("unhandledrejection", event => troubles.push(String(event.reason)));
console.error = console.warn = (...words) => troubles.push(words.join(" "));
addEventListener("load", async () => {
  const pause = time => new Promise(done => setTimeout(done, time));
  const left = () => document.querySelectorAll(".claims tr[data-verdict]:not([hidden])").length;
  const drawnAtFirst = document.querySelectorAll(".main-svg").length;
  for (const plot of document.querySelectorAll(".plot")) {
    plot.scrollIntoView({ behavior: "instant" });
    for (let k = 0; k < 5000 && !plot.querySelector(".scatterlayer path"); k++) await pause(50);
  }
  document.querySelector('.counts button[data-verdict="refuted"]').click();
  const refuted = left(), address = location.search;
  document.querySelector(".filter").reset();
  document.querySelector(".filter").dispatchEvent(new Event("input"));
  const links = Array.from(document.querySelectorAll('a[href^="#"]'));
  location.href = "/done?" + encodeURIComponent(JSON.stringify({
    troubles, refuted, address, drawnAtFirst, all: left(),
    drawn: Array.from(document.querySelectorAll(".plot")).filter(plot => plot.querySelector(".scatterlayer path")).length,
    broken: links.filter(link => !document.getElementById(link.getAttribute("href").slice(1))).length, links: links.length,
    wide: document.documentElement.scrollWidth - innerWidth,
    buttons: document.querySelectorAll(".modebar-btn").length,
    uploads: document.querySelectorAll('.modebar-btn[data-title^="Share"], .modebar-btn[data-title^="Edit"]').length,
  }));
});
</script>
"""  # noqa: E501

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def probed(page, folder, width):
    """What the probe says of a page that a browser has opened from a server of its own."""
    answers = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            if self.path.startswith("/done?"):
                answers.put(json.loads(unquote(self.path.removeprefix("/done?"))))
            elif self.path == "/":
                self.wfile.write(page.replace("</head>", PROBE + "</head>").encode())

        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            f"--user-data-dir={folder}/user",
            f"--window-size={width},900",
            "--remote-debugging-port=0",
        ]
        address = f"http://127.0.0.1:{server.server_port}/"
        browser = subprocess.Popen([str(CHROMIUM), *options, address], stderr=subprocess.DEVNULL)
        try:
            return answers.get(timeout=HANG)
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [1200, 500])
def test_figures_are_drawn_links_work_and_the_console_is_silent(tmp_path, width):
    picture = long_run(0.01)
    findings = [
        finding(key, Verdict.REFUTED if k % 3 else Verdict.CONFIRMED, pictures=[picture] * (k < 12))
        for k, key in enumerate(claims())
    ]
    path, _ = write_report(Report(findings), tmp_path)
    found = probed(path.read_text(encoding="utf-8"), tmp_path, width)
    assert found["troubles"] == []
    assert found["drawn"] == 12 > found["drawnAtFirst"]
    assert found["broken"] == 0 and found["links"] >= 2 * len(findings)
    assert found["refuted"] == sum(f.verdict is Verdict.REFUTED for f in findings) < found["all"] == len(findings)
    assert found["address"] == "?verdict=refuted"
    assert found["wide"] <= 0
    assert found["buttons"] > 0 and found["uploads"] == 0
