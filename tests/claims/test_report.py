"""The report: self-contained, escaped, complete, and the same findings as JSON."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

from ecc.claims.ledger import Finding, Measure, Picture, Verdict, claims
from ecc.claims.report import as_json, number, write_report
from ecc.plot import boundary_figure, trajectory_figure


def finding(claim_id="qi-7", verdict=Verdict.REFUTED, **parts):
    return Finding(claims()[claim_id], verdict, parts.pop("reason", "1.651587, with pi as pi"), **parts)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    picture = Picture.of(
        boundary_figure([0.1, 1.0], {"</script><b>": [1.0, 2.0]}, title="inside"), "Boundaries", "alpha1 <= 2 < pi/2"
    )
    found = finding(
        measures=[
            Measure("critical <gain>", 1.651587, "", 1.6523, "z^-D_i"),
            Measure("peak queue", 80868.0, "packets", 80868),
            Measure("growth", 3.2e-5, "1/s"),
            Measure("never lost", math.inf),
        ],
        pictures=[picture],
        assumptions=[
            "T & d known",
            "omega T << tau1: -2 +- 1.2e-16, figs. 4-8, qi-3, -alpha2",
            "C^0.999, Delta^-0.96. 10^100 within 0.0e+00, sqrt(2) mu C",
        ],
        seconds=1.25,
    )
    path, data = write_report(
        [found, finding("piqi-9", Verdict.NOT_COMPARABLE)],
        tmp_path_factory.mktemp("report") / "new" / "folder",
        command="ecc crosscheck 'a<b'",
        partial=True,
        failures={"qi-3": "ValueError: a < b"},
    )
    return path.read_text(encoding="utf-8"), json.loads(data.read_text(encoding="utf-8"))


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
    figure = re.search(r'<script type="application/json">(.*?)</script>', page[0], re.DOTALL)
    assert json.loads(figure[1])["data"][0]["name"] == "</script><b>"


def test_every_claim_has_a_row_a_section_and_the_command_that_reruns_it(page):
    text = body(page[0])
    for key in ("qi-7", "piqi-9"):
        assert f'href="#{key}"' in text
        assert f'<section id="{key}">' in text
        assert f"<code>ecc crosscheck {key}</code>" in text
    assert '<span class="verdict refuted">refuted</span>' in text
    assert '<span class="verdict not-comparable">not comparable</span>' in text
    assert "2 claims on PIQI-RCP, QI-RCP: 1 refuted, 1 not comparable." in text
    assert "took 1.2 s" in text


def test_partial_runs_and_failed_checks_are_said(page):
    text = body(page[0])
    assert "Partial report" in text
    assert "<b>qi-3</b>: ValueError" in text


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
    figure = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page[0], re.DOTALL)[1])
    assert "title" not in figure["layout"]
    with pytest.raises(ValueError, match="caption must not be empty, got ' ' .*of qi-7"):
        write_report([finding(pictures=[Picture("A", " ", {"data": [], "layout": {}})])], "unused")


def test_json_has_the_findings_and_only_standard_numbers(page):
    data = page[1]
    assert (data["partial"], data["command"]) == (True, "ecc crosscheck 'a<b'")
    assert data["failures"] == {"qi-3": "ValueError: a < b"}
    first = data["findings"][0]
    assert (first["claim"]["id"], first["verdict"]) == ("qi-7", "refuted")
    assert first["measures"][3]["value"] == "inf"
    assert first["pictures"] == [{"title": "Boundaries", "caption": "alpha1 <= 2 < pi/2"}]


def test_json_takes_numpy_scalars():
    text = as_json([finding(measures=[Measure("n", np.int64(3)), Measure("x", np.float64("nan"))])])
    assert [measure["value"] for measure in json.loads(text)["findings"][0]["measures"]] == [3, "nan"]


def test_a_report_of_nothing_is_a_page(tmp_path):
    path, _ = write_report([], tmp_path)
    assert "No claim was checked." in path.read_text(encoding="utf-8")


def test_a_full_report_stays_below_fifteen_megabytes(tmp_path):
    time = np.linspace(0.0, 60.0, 60_001)
    rates = 1e6 * np.random.default_rng(0).random((len(time), 10))
    picture = Picture.of(trajectory_figure(time, rates, rates[:, :3]), "Rates", "Of ten flows.")
    drawn = len(claims()) - 60 % len(claims())  # sixty figures, more than all checks draw, each of a long run
    findings = [
        finding(key, pictures=[picture] * (60 // len(claims()) + (k >= drawn))) for k, key in enumerate(claims())
    ]
    path, _ = write_report(findings, tmp_path)
    assert path.read_text(encoding="utf-8").count('<div class="plot"') == 60
    assert path.stat().st_size < 15_000_000


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.6515869, "1.651587"), (80868, "80,868"), (math.inf, "∞"), (-math.inf, "-∞"), (math.nan, "–"), (None, ""),
     ("stable", "stable"), (2.0, "2"), (1e-9, "1e-09"), (12345.678, "12345.68")],
)  # fmt: skip
def test_numbers_are_shown_to_seven_digits(value, shown):
    assert number(value) == shown
