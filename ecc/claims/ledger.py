"""The ledger: claims of the papers and the findings on them.

Claims are data (`entries/`, one file or folder per section). A claim on runs names the runs and the metrics to compute
(see `experiments`); any other claim is checked by one function registered under its id, which returns a `Finding`.
A verdict is always computed from measurements, never stored.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

from ecc.claims.provenance import KEYS, Provenance, read_provenance
from ecc.claims.schema import Experiment, read

__all__ = [
    "ANSWERS",
    "CHECKS",
    "EDITIONS",
    "ON_REQUEST",
    "PAPERS",
    "SECTIONS",
    "Claim",
    "Finding",
    "Measurement",
    "Picture",
    "Verdict",
    "check",
    "claims",
]


class Verdict(StrEnum):
    """Verdict on a claim, computed from measurements; a question, which states no claim of a source, is answered."""

    CONFIRMED = "confirmed"
    IN_MODEL = "confirmed in its model"
    REFUTED = "refuted"
    CONDITIONAL = "conditional"
    NOT_COMPARABLE = "not comparable"
    ANSWERED = "answered"


ANSWERS: Mapping[Verdict, str] = {
    Verdict.CONFIRMED: "yes",
    Verdict.IN_MODEL: "in its model",
    Verdict.REFUTED: "no",
    Verdict.CONDITIONAL: "under conditions",
    Verdict.NOT_COMPARABLE: "open",
}
"""Verdict of a check on a question -> the answer."""


@dataclass(frozen=True)
class Claim:
    """One claim of a paper: its `source` (paper and place), its `statement`, and the paper's results (`reported`).

    `section` is the name of the claim's file in `entries/`, for example "theorems"; `experiment` (None if a function
    checks the claim) holds the runs and the expected values; `provenance` names the texts that the claim is taken from.
    """

    id: str
    source: str
    protocols: tuple[str, ...]
    statement: str
    reported: str
    section: str = "theorems"
    experiment: Experiment | None = field(default=None, hash=False, compare=False)
    provenance: Provenance = field(default_factory=Provenance, compare=False)

    @property
    def is_question(self) -> bool:
        """True for a question asked by ecc, on which no verdict is given."""
        return self.provenance.is_question

    @property
    def papers(self) -> list[str]:
        """Short names of the papers that the source names, in the order of `PAPERS`."""
        return [key for key in PAPERS if re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", self.source)]

    @property
    def editions(self) -> list[str]:
        """The text of each of its papers that was read, with its year."""
        return [f"{key}: {EDITIONS[key]}" for key in self.papers if key in EDITIONS]

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as plain data, without its experiment."""
        plain = {key: value for key, value in vars(self).items() if key not in ("experiment", "provenance")}
        return plain | {"protocols": list(self.protocols)} | vars(self.provenance) | {"editions": self.editions}


@dataclass(frozen=True)
class Measurement:
    """One computed number or short text, with the value that the paper reports, if any.

    If `value` is from packet runs, `fluid` is the value of the fluid run and `live` that of the run on real frames.
    `half` is half of the 95 % interval of a mean over seeds. `met` is true if the value is as expected, and None if no
    value was expected.
    """

    name: str
    value: float | str
    unit: str = ""
    reported: float | str | None = None
    note: str = ""
    fluid: float | str | None = None
    half: float | None = None
    met: bool | None = None
    live: float | str | None = None


@dataclass(frozen=True)
class Picture:
    """A figure of the report in Plotly's JSON form, with a title and a caption."""

    title: str
    caption: str
    figure: Mapping[str, Any]

    @classmethod
    def of(cls, figure: Any, title: str, caption: str) -> Picture:
        """Return a picture of a Plotly figure.

        Parameters
        ----------
        figure : object
            Plotly Figure.
        title, caption : str
        """
        import json

        return cls(title, caption, json.loads(figure.to_json()))


@dataclass(frozen=True)
class Finding:
    """The verdict on a claim, its reason in one sentence, and the evidence.

    A question gets no verdict: the result of its check becomes its `answer`, for example "yes" instead of "confirmed".
    `environments` are the environments that computed the finding.
    """

    claim: Claim
    verdict: Verdict
    reason: str
    measurements: Sequence[Measurement] = ()
    pictures: Sequence[Picture] = ()
    assumptions: Sequence[str] = ()
    seconds: float = field(default=0.0, compare=False)
    environments: Sequence[Mapping[str, str]] = field(default=(), compare=False)
    answer: str = ""

    def __post_init__(self) -> None:
        if self.claim.is_question and self.verdict is not Verdict.ANSWERED:
            object.__setattr__(self, "answer", ANSWERS[self.verdict])
            object.__setattr__(self, "verdict", Verdict.ANSWERED)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain data for JSON."""
        return {
            "claim": self.claim.to_dict(),
            "verdict": str(self.verdict),
            "answer": self.answer,
            "reason": self.reason,
            "measurements": [vars(measurement) for measurement in self.measurements],
            "pictures": [vars(picture) for picture in self.pictures],
            "assumptions": list(self.assumptions),
            "seconds": self.seconds,
            "environments": [dict(environment) for environment in self.environments],
        }

    @classmethod
    def from_dict(cls, claim: Claim, data: Mapping[str, Any]) -> Finding:
        """Return the finding that `to_dict` described.

        Parameters
        ----------
        claim : Claim
            Claim that the finding is about.
        data : mapping
            Plain data.
        """
        return cls(
            claim,
            Verdict(data["verdict"]),
            data["reason"],
            [Measurement(**measurement) for measurement in data["measurements"]],
            [Picture(**picture) for picture in data["pictures"]],
            data["assumptions"],
            data["seconds"],
            data.get("environments", ()),
            data.get("answer", ""),
        )


SECTIONS: Mapping[str, str] = {
    "theorems": "Theorems and closed forms",
    "disciplines": "Queue disciplines",
    "data_centers": "Data centers",
    "internet": "The Internet",
    "simulations": "Simulations and measurements",
    "errata": "Errata of the papers",
    "open": "Open questions of the papers",
    "questions": "Questions on texts that were not read in full, and on programs",
    "conformance": "Conformance to specifications",
    "live": "On real frames",
}
"""Sections of the ledger, in the order of the page: name of the file -> title."""

QUESTIONS = ("open", "questions")
"""Sections of questions, on which no verdict is given."""

ON_REQUEST = ("live",)
"""Sections with claims that take minutes each; they are checked only if the claim or its section is requested."""


PAPERS: Mapping[str, str] = {
    "THESIS": "S. Jain, Evaluation of explicit congestion control for high-speed networks, MSc thesis, Texas A&M "
    "University, 2007",
    "JETMAX": "Y. Zhang, D. Leonard, D. Loguinov, JetMax: scalable max-min congestion control for high-speed "
    "heterogeneous networks, Computer Networks 52, 2008",
    "EVAL": "Y. Zhang, S. Jain, D. Loguinov, Towards experimental evaluation of explicit congestion control, Computer "
    "Networks 53, 2009",
    "MAXNET": "M. Suchara, R. Witt, B. Wydrowski, TCP MaxNet: implementation and experiments on the WAN in Lab, ICON "
    "2005",
    "EDN": "R. Kumar, J. Kaur, Towards a queue sensitive transport protocol",
    "DCTCP": "M. Alizadeh et al., Data center TCP (DCTCP), SIGCOMM 2010",
    "DCTCP-ANALYSIS": "M. Alizadeh, A. Javanmard, B. Prabhakar, Analysis of DCTCP: stability, convergence, and "
    "fairness, SIGMETRICS 2011",
    "ECN-DELAY": "Y. Zhu, M. Ghobadi, V. Misra, J. Padhye, ECN or delay: lessons learnt from analysis of DCQCN and "
    "TIMELY, CoNEXT 2016",
    "HPCC": "Y. Li et al., HPCC: high precision congestion control, SIGCOMM 2019",
    "POWERTCP": "V. Addanki, O. Michel, S. Schmid, PowerTCP: pushing the performance limits of datacenter networks, "
    "NSDI 2022",
    "SWIFT": "G. Kumar et al., Swift: delay is simple and effective for congestion control in the datacenter, SIGCOMM "
    "2020",
    "SPERC": "L. Jose, S. Ibanez, M. Alizadeh, N. McKeown, A distributed algorithm to calculate max-min fair rates "
    "without per-flow state, SIGMETRICS 2019, and its programs, lavanyaj/numerical-simulations and ns2-simulations",
    "UEC": "Ultra Ethernet Consortium, Ultra Ethernet specification 1.0, 2025, by its simulator "
    "ultraethernet/uet-htsim, htsim/sim/uec.cpp",
    "SPRAYING": "Gerstein, M. Silberstein, I. Keslassy, arXiv:2509.07907, 2025",
    "HTSIM": "Broadcom/csg-htsim, a packet simulator, 2024",
    "RFC8033": "R. Pan, P. Natarajan, F. Baker, G. White, Proportional integral controller enhanced (PIE), RFC 8033, "
    "2017",
    "RFC8257": "S. Bensley, D. Thaler, P. Balasubramanian, L. Eggert, G. Judd, Data center TCP (DCTCP), RFC 8257, 2017",
    "RFC8289": "K. Nichols, V. Jacobson, A. McGregor, J. Iyengar, Controlled delay active queue management, RFC 8289, "
    "2018",
    "RFC8290": "T. Hoeiland-Joergensen, P. McKenney, D. Taht, J. Gettys, E. Dumazet, The Flow Queue CoDel packet "
    "scheduler and active queue management algorithm, RFC 8290, 2018",
    "PI2": "K. De Schepper, O. Bondarenko, I.-J. Tsang, B. Briscoe, PI2: a linearized AQM for both classic and "
    "scalable TCP, CoNEXT 2016",
    "HOLLOT": "C. V. Hollot, V. Misra, D. Towsley, W. Gong, Analysis and design of controllers for AQM routers "
    "supporting TCP flows, IEEE Transactions on Automatic Control 47, 2002, and INFOCOM 2001",
    "RANJAN": "P. Ranjan, E. H. Abed, R. J. La, Nonlinear instabilities in TCP-RED, IEEE/ACM Transactions on "
    "Networking 12, 2004, and INFOCOM 2002",
    "REM": "S. Athuraliya, S. H. Low, V. H. Li, Q. Yin, REM: active queue management, IEEE Network 15, 2001",
    "AVQ": "S. Kunniyur, R. Srikant, Analysis and design of an adaptive virtual queue (AVQ) algorithm for active queue "
    "management, SIGCOMM 2001",
    "ABC": "P. Goyal, A. Agarwal, R. Netravali, M. Alizadeh, H. Balakrishnan, ABC: a simple explicit congestion "
    "controller for wireless networks, NSDI 2020, arXiv:1905.03429, and its program, prateshg/ABC-NSDI2020",
    "COPA": "V. Arun, H. Balakrishnan, Copa: practical delay-based congestion control for the Internet, NSDI 2018",
    "VIVACE": "M. Dong, T. Meng, D. Zarchy, E. Arslan, Y. Gilad, B. Godfrey, M. Schapira, PCC Vivace: online-learning "
    "congestion control, NSDI 2018, and its program, PCCproject/PCC-Uspace",
    "SCHERRER": "S. Scherrer, M. Legner, A. Perrig, S. Schmid, Model-based insights on the performance, fairness, and "
    "stability of BBR, IMC 2022, and its program, divyashk/mininet_tcp",
    "BBR-CUBIC": "S. Scherrer, A. Perrig, S. Schmid, A control-theoretic perspective on BBR/CUBIC congestion-control "
    "competition, arXiv:2510.22773, 2025",
    "WARE": "R. Ware, M. K. Mukerjee, S. Seshan, J. Sherry, Modeling BBR's interactions with loss-based congestion "
    "control, IMC 2019",
    "STARVATION": "V. Arun, M. Alizadeh, H. Balakrishnan, Starvation in end-to-end congestion control, SIGCOMM 2022",
    "VARDOYAN": "G. Vardoyan, C. V. Hollot, D. Towsley, Towards stability analysis of data transport mechanisms: a "
    "fluid model and an application, arXiv:1801.02741, 2018",
    "POOJARY": "S. Poojary, V. Sharma, Asymptotic approximations for TCP Compound, arXiv:1511.01344, 2015, and "
    "Queueing Systems 85, 2017",
    "CTCP-TUBE": "CTCP: improving TCP-friendliness over low-buffered network links, Microsoft Research, 2006",
    "GHOSH": "D. Ghosh, K. Jagannathan, G. Raina, Local stability and Hopf bifurcation analysis for Compound TCP, "
    "arXiv:1604.05549, 2016, and IEEE Transactions on Control of Network Systems",
    "RAINA": "G. Raina, O. Heckmann, TCP: local stability and Hopf bifurcation, Performance Evaluation, 2006, "
    "doi:10.1016/j.peva.2006.05.005",
    "MATHIS": "M. Mathis, J. Semke, J. Mahdavi, T. Ott, The macroscopic behavior of the TCP congestion avoidance "
    "algorithm, Computer Communication Review 27, 1997",
    "PRAGUE": "L4STeam/udp_prague, prague_cc.cpp, 2026; K. De Schepper, O. Tilmans, B. Briscoe, V. Goel, Prague "
    "congestion control, draft-briscoe-iccrg-prague-congestion-control-04, 2024",
    "SCREAM": "EricssonResearch/scream, README.md and ScreamV2Tx.cpp, 2026",
    "SCREAM-DRAFT": "I. Johansson, M. Westerlund, M. Kuehlewind, Self-clocked rate adaptation for multimedia, "
    "draft-ietf-ccwg-rfc8298bis-screamv2, IETF, 2026",
    "GCC-DRAFT": "S. Holmer, H. Lundin, G. Carlucci, L. De Cicco, S. Mascolo, A Google congestion control algorithm "
    "for real-time communication, draft-ietf-rmcat-gcc-02, IETF, 2016",
    "RFC9331": "K. De Schepper, B. Briscoe, The explicit congestion notification (ECN) protocol for low latency, low "
    "loss, and scalable throughput (L4S), RFC 9331, 2023",
    "RFC9332": "K. De Schepper, B. Briscoe, G. White, Dual-queue coupled active queue management (AQM) for low "
    "latency, low loss, and scalable throughput (L4S), RFC 9332, 2023",
    "TCP-HYBRID": "S. Bohacek, J. P. Hespanha, J. Lee, K. Obraczka, Analysis of a TCP hybrid model, 2001",
    "PHASE": "S. Floyd, V. Jacobson, Traffic phase effects in packet-switched gateways, ACM SIGCOMM Computer "
    "Communication Review, 1991",
    "RFC3465": "M. Allman, TCP congestion control with appropriate byte counting (ABC), RFC 3465, 2003",
    "RFC4015": "R. Ludwig, A. Gurtov, The Eifel response algorithm for TCP, RFC 4015, 2005",
    "RFC5681": "M. Allman, V. Paxson, E. Blanton, TCP congestion control, RFC 5681, 2009",
    "RFC6298": "V. Paxson, M. Allman, J. Chu, M. Sargent, Computing TCP's retransmission timer, RFC 6298, 2011",
    "RFC6675": "E. Blanton, M. Allman, L. Wang, I. Jarvinen, M. Kojo, Y. Nishida, A conservative loss recovery "
    "algorithm based on selective acknowledgment (SACK) for TCP, RFC 6675, 2012",
    "RFC6928": "J. Chu, N. Dukkipati, Y. Cheng, M. Mathis, Increasing TCP's initial window, RFC 6928, 2013",
    "RFC8867": "Z. Sarker, V. Singh, X. Zhu, M. Ramalho, Test cases for evaluating congestion control for interactive "
    "real-time media, RFC 8867, 2021",
    "RFC8985": "Y. Cheng, N. Cardwell, N. Dukkipati, P. Jha, The RACK-TLP loss detection algorithm for TCP, RFC 8985, "
    "2021",
    "RFC9002": "J. Iyengar, I. Swett, QUIC loss detection and congestion control, RFC 9002, 2021",
    "RFC9406": "P. Balasubramanian, Y. Huang, M. Olson, HyStart++: Modified slow start for TCP, RFC 9406, 2023",
    "RATE-LIMITED-DRAFT": "M. Welzl, T. Henderson, G. Fairhurst, M. P. Tahiliani, Increase of the congestion window "
    "when the sender is rate-limited, draft-ietf-ccwg-ratelimited-increase, IETF, 2026",
    "RFC9959": "N. Kuhn, E. Stephan, G. Fairhurst, R. Secchi, C. Huitema, Convergence of congestion control from "
    "retained state, RFC 9959, 2026",
    "SEARCH-DRAFT": "J. Chung, M. Kachooei, F. Li, M. Claypool, SEARCH: a new slow start algorithm for TCP and QUIC, "
    "draft-chung-ccwg-search, IETF, 2026",
    "RFC9438": "L. Xu, S. Ha, I. Rhee, V. Goel, L. Eggert, CUBIC for fast and long-distance networks, RFC 9438, 2023",
    "RFC9743": "M. Duke, G. Fairhurst, Specifying new congestion control algorithms, RFC 9743, 2025",
    "BBR-DRAFT": "N. Cardwell et al., BBR congestion control, draft-ietf-ccwg-bbr, IETF, 2026; its section BBR Example "
    "Test Cases",
    "LINUX": "net/sched/sch_dualpi2.c of Linux, and tc-dualpi2(8) of iproute2, 2024",
}
"""Short names in `Claim.source` -> the papers."""


EDITIONS: Mapping[str, str] = {
    "THESIS": "full text of the thesis, 2007",
    "JETMAX": "full text of the published paper, Computer Networks 52, 2008",
    "EVAL": "full text of the published paper, Computer Networks 53, 2009",
    "MAXNET": "full text of the published paper, ICON 2005",
    "EDN": "full text of the authors' copy, undated",
    "DCTCP": "secs. 3.2 to 4.1 of the published paper, SIGCOMM 2010",
    "DCTCP-ANALYSIS": "the abstract of the published paper, SIGMETRICS 2011",
    "ECN-DELAY": "LaTeX source of the paper, with tables and sections that the published version leaves out, 2016",
    "HPCC": "the authors' simulator alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc at 9f4be2a, 2021",
    "POWERTCP": "secs. 3 and appendices A to C of the published paper, NSDI 2022; the authors' kernel module, "
    "inet-tub/powertcp-linux, bpf/powertcp.bpf.c at 009dca9, 2022, and powertcp.c at edd8386, 2022, and c96ea9d, 2024",
    "SWIFT": "secs. 3 and 4.2 of the published paper, SIGCOMM 2020",
    "SPERC": "the abstract, SIGMETRICS 2019, and the authors' programs",
    "UEC": "ultraethernet/uet-htsim, htsim/sim/uec.cpp at 40ccb05, 2025",
    "SPRAYING": "the abstract of version 1, 2025, and notes of a third party on version 2, 2026",
    "HTSIM": "Broadcom/csg-htsim, sim/swift.cpp and sim/hpcc.cpp at 841d9e7, 2026",
    "RFC8033": "the RFC, 2017",
    "RFC8257": "the RFC, 2017",
    "RFC8289": "the RFC, 2018",
    "RFC8290": "the RFC, 2018",
    "PI2": "the abstract, CoNEXT 2016",
    "HOLLOT": "the abstract, 2002, and the constants of ns-2's RED and PI that cite it",
    "RANJAN": "the abstract of the conference paper, 2002",
    "REM": "the abstract, 2001",
    "AVQ": "the abstract, 2001",
    "ABC": "abstract, introduction and parts of the LaTeX source, arXiv:1905.03429v4, and the authors' program",
    "COPA": "the abstract, and notes of a third party on secs. 1 to 3 of the published paper, NSDI 2018",
    "VIVACE": "the abstract, NSDI 2018, and the authors' program, PCCproject/PCC-Uspace",
    "SCHERRER": "the authors' program, fluid_model/ at 061f228 and 521f44a, 2022, by its copy divyashk/mininet_tcp; "
    "notes of a third party on the paper",
    "BBR-CUBIC": "the abstract, arXiv:2510.22773v1, 2025",
    "WARE": "the first author's article on the model, 2020 and 2024, and a public program of its equations",
    "STARVATION": "the abstract, SIGCOMM 2022, and notes of a third party on the whole paper",
    "VARDOYAN": "full text, arXiv:1801.02741, 2018",
    "POOJARY": "the abstract, arXiv:1511.01344, 2015",
    "CTCP-TUBE": "the abstract, 2006",
    "GHOSH": "the abstract, arXiv:1604.05549, 2016",
    "RAINA": "the abstract, 2006",
    "MATHIS": "quotations of its equation (3) in later papers",
    "PRAGUE": "prague_cc.cpp at e8e3435, 2026, and the draft, version 04, 2024",
    "SCREAM": "README.md and code/ScreamV2Tx.cpp at c8f84c3, 2026",
    "SCREAM-DRAFT": "draft-ietf-ccwg-rfc8298bis-screamv2, the editors' copy at d30e8b8, 2026",
    "GCC-DRAFT": "secs. 5.2 to 6 of version 02, 2016, a copy in Markdown",
    "RFC9331": "the RFC, 2023",
    "RFC9332": "the RFC, 2023",
    "TCP-HYBRID": "the abstract of the authors' manuscript",
    "PHASE": "the abstract, in the journal's listing",
    "RFC3465": "sec. 2 of the RFC, 2003, copy in tex2e/rfc-translater at 0295ab0",
    "RFC4015": "sec. 3 of the RFC, 2005, copy in tex2e/rfc-translater at 010b213",
    "RFC5681": "secs. 2 to 4 of the RFC, 2009, copy in tex2e/rfc-translater at 0295ab0",
    "RFC6298": "secs. 2 and 5 of the RFC, 2011, copy in tex2e/rfc-translater at 010b213",
    "RFC6675": "secs. 4 and 5 of the RFC, 2012, copy in tex2e/rfc-translater at 03bf8e4",
    "RFC6928": "sec. 2 of the RFC, 2013, copy in tex2e/rfc-translater at 010b213",
    "RFC8867": "secs. 3 to 5 of the RFC, 2021, and secs. 3 to 5 of RFC 8868, 2021, copies of Debian's doc-rfc",
    "RFC8985": "sec. 6 of the RFC, 2021, copy in tex2e/rfc-translater at 010b213",
    "RFC9002": "secs. 6.2 and 7 and appendices A.8 and B.8 of the RFC, 2021, quicwg/base-drafts, rfc9002.md at 0921ecf",
    "RFC9406": "secs. 4.2 and 4.3 of the RFC, 2023, copy in tex2e/rfc-translater at 0295ab0",
    "RATE-LIMITED-DRAFT": "draft-ietf-ccwg-ratelimited-increase, the editors' copy at 235b6eb, 2026",
    "RFC9959": "secs. 3 to 4.4 of the RFC, 2026, copy in tex2e/rfc-translater at 010b213",
    "SEARCH-DRAFT": "an editors' copy of 4 June 2024 with the name draft-search-slowstart (SEARCH 3.0)",
    "RFC9438": "the RFC, 2023",
    "RFC9743": "the draft that became the RFC, draft-ietf-ccwg-rfc5033bis-08, editors' copy at edbe64b, 2024",
    "BBR-DRAFT": "draft-ietf-ccwg-bbr, the editors' copy at 4ce5e87, 2026",
    "LINUX": "sch_dualpi2.c and tcp_dctcp.c of Linux at 320d031a, and tc-dualpi2(8) of iproute2",
}
"""Short names in `Claim.source` -> the text that was read."""


@cache
def claims() -> Mapping[str, Claim]:
    """Return all claims of the ledger by id, in its order."""
    ledger: dict[str, Claim] = {}
    for section in SECTIONS:
        for file in _files(section):
            for key, entry in tomllib.loads(file.read_text(encoding="utf-8")).items():
                if key in ledger:
                    raise ValueError(f"claim {key!r} must be in the ledger once")
                ledger[key] = (
                    _repeated(key, section, entry, ledger) if "repeats" in entry else _claim(key, section, entry)
                )
    return ledger


def _files(section: str) -> Sequence[Any]:
    """Return the files of a section: for example `theorems.toml`, or all files of the folder `simulations`."""
    place = resources.files("ecc.claims").joinpath("entries")
    folder = place.joinpath(section)
    if folder.is_dir():
        return sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    file = place.joinpath(f"{section}.toml")
    return [file] if file.is_file() else []


def _claim(key: str, section: str, entry: Mapping[str, Any]) -> Claim:
    common_keys = {"source", "protocols", "statement", "reported", *KEYS}
    more = {name: value for name, value in entry.items() if name not in common_keys}
    experiment = read(key, more) if more else None
    texts = (entry["source"], tuple(entry["protocols"]), entry["statement"], entry["reported"])
    provenance = read_provenance(key, entry)
    if section in QUESTIONS and not provenance.is_question:
        raise ValueError(f"claim {key} must be a question in the section {section}, got read = {provenance.read!r}")
    if section not in (*QUESTIONS, *ON_REQUEST) and provenance.is_question:
        raise ValueError(f"claim {key} must be in one of the sections {', '.join(QUESTIONS)}, got {section}")
    return Claim(key, *texts, section, experiment, provenance)


def _repeated(key: str, section: str, entry: Mapping[str, Any], before: Mapping[str, Claim]) -> Claim:
    """Return the claim that runs on real frames agree with the packet runs of another claim."""
    of = before.get(entry["repeats"])
    if of is None or of.experiment is None or len(entry) > 1:
        raise ValueError(f"repeats must be the one key of claim {key!r}, a claim on runs before it, got {dict(entry)}")
    statement = f"On real frames as in packets ({of.id}): {of.statement}"
    return replace(of, id=key, section=section, statement=statement, experiment=of.experiment.on_real_frames())


Check = Callable[[Claim], Finding]
CHECKS: dict[str, Check] = {}
"""Registered checks by claim id; `ecc.claims.catalog` imports the modules that fill it."""


def check(claim_id: str, cost: float = 1.0, main: bool = True, group: str = "") -> Callable[[Check], Check]:
    """Register the function that checks a claim.

    Parameters
    ----------
    claim_id : str
        Id in the ledger.
    cost : float, optional
        Approximate duration, s; the slowest checks are started first.
    group : str, optional
        Name shared by claims that use the same runs and boundaries, so that one process checks them all; "" for none.
    main : bool, optional
        True for checks of the main job, `ecc crosscheck`. Open questions and checks with many packet runs are left to
        `ecc reproduce`.
    """

    def register(function: Check) -> Check:
        if claim_id not in claims():
            raise ValueError(f"claim must be in the ledger, got {claim_id!r}")
        function.cost, function.main, function.group = cost, main, group  # type: ignore[attr-defined]
        CHECKS[claim_id] = function
        return function

    return register
