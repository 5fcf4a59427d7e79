"""All checks of a protocol, on scenarios that Hypothesis draws, with the smallest scenario that violates a property.

The command `ecc check` runs `check_protocol`. A property is checked on the simplest scenario first, then on drawn ones;
a scenario that violates it is made as simple as possible ("shrunk") before it is reported.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ecc._support.arguments import check_arguments
from ecc._support.display import Displayed, Rows
from ecc._support.quantity import as_choice, as_count
from ecc._support.reports import ProgressCallback, Step, takes
from ecc.contract.assignment import ProtocolAssignment, read_protocol
from ecc.contract.parameters import settings
from ecc.contract.protocol import Protocol
from ecc.errors import EccError
from ecc.network.network import Network
from ecc.scenario import Scenario
from ecc.testing import checks
from ecc.testing.checks import NotApplicable, Refused
from ecc.testing.strategies import hypothesis, operating_range, scenarios

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["PROPERTIES", "Finding", "ProtocolReport", "check_protocol", "constructor_call"]

EXAMPLES, QUICK_EXAMPLES = 8, 2
"""Number of scenarios on which each property is checked, by default and with `quick`."""
SECONDS, QUICK_SECONDS = 12.0, 3.0
"""Time after which no further scenario is drawn for a property, and the time for which a violation is shrunk [s]."""


@dataclass(frozen=True)
class Property:
    """A property, and the scenarios that it is checked on.

    Attributes
    ----------
    check : callable
        Function of `ecc.testing.checks`.
    question : str
        Short statement of the property.
    options : mapping
        Options of `ecc.testing.scenarios`.
    needs : tuple of str
        Names of properties that must hold before this one can be checked.
    share : float
        Share of the examples: expensive checks have fewer.
    """

    check: Callable[[Scenario], None]
    question: str
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    share: float = 1.0


_LOSSES = {"buffers": (1.0, 0.5, None)}
_ONE_LINK = {"links": (1, 1), "equal_rtts": True, "vary": False, "buffers": (None,)}

PROPERTIES: Mapping[str, Property] = {
    "packet-run": Property(checks.packet_run, "packet hooks use the declared laws, and run", _LOSSES),
    "fluid-run": Property(
        checks.fluid_run, "fluid runs end at their horizon, with rates >= 0", {**_LOSSES, "rtts": 200.0}
    ),
    "twin": Property(checks.twin, "compiled hooks equal hooks in Python", _LOSSES, ("packet-run",)),
    "checkpoint": Property(checks.checkpoint, "runs repeat, and continue from a checkpoint", _LOSSES, ("packet-run",)),
    "conservation": Property(checks.conservation, "bytes sent = received + dropped + queued + on the way"),
    "relabeling": Property(
        checks.relabeling,
        "the labels of flows and links have no effect",
        {"flows": (2, 4), "vary": False, "apart": True},
    ),
    "idle-parts": Property(
        checks.idle_parts, "flows that never send and unused links have no effect", {"vary": False, "apart": True}
    ),
    "scaling": Property(checks.scaling, "the units of size and time have no effect", {"vary": False, "apart": True}),
    "agreement": Property(
        checks.agreement,
        "fluid and packets have the same loads and queues",
        {"links": (1, 1), "equal_rtts": True, "vary": False, "buffers": (1.0, 2.0), "flows": (2, 4), "apart": True},
        ("packet-run", "fluid-run"),
    ),
    "fixed-point": Property(
        checks.fixed_point, "runs stay at the declared equilibrium", {**_ONE_LINK, "flows": (2, 4)}, ("fluid-run",)
    ),
    "linearization": Property(
        checks.linearization,
        "linear models have the modes of small deviations of the fluid",
        {**_ONE_LINK, "flows": (2, 4)},
        ("fluid-run",),
        share=0.5,
    ),
    "stability-limit": Property(
        checks.stability_limit,
        "the fluid is stable on one side of the stability limit only",
        _ONE_LINK,
        ("fluid-run",),
        share=0.25,
    ),
}
"""Name of a property -> how it is checked, in the order of `ecc check`."""


@dataclass(frozen=True)
class Finding:
    """Result of checking one property.

    Attributes
    ----------
    name : str
        Name of the property.
    status : str
        "holds", "violated", "not applicable", or "exception": it is violated, and the protocol declares why.
    detail : str
        Numbers of the violation, or the reason why the property is not applicable; empty if it holds.
    reason : str
        Declared reason why the protocol is an exception; empty if it declares no exception.
    example : str
        The smallest scenario that violates the property, as a call of the constructor.
    scenario : dict
        The example as the tables of a scenario file; empty if it cannot be written.
    examples : int
        Number of scenarios on which it was checked.
    seconds : float
    """

    name: str
    status: str
    detail: str = ""
    reason: str = ""
    example: str = ""
    scenario: Mapping[str, Any] = field(default_factory=dict)
    examples: int = 0
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """The finding in one line, without the example."""
        parts = [self.detail, f"exception: {self.reason}" if self.status == "exception" else ""]
        return "; ".join(part for part in parts if part) or PROPERTIES[self.name].question


@dataclass(frozen=True, repr=False)
class ProtocolReport(Displayed):
    """The findings on a protocol, one for each property.

    Attributes
    ----------
    protocol : str
    findings : tuple of Finding

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> check_protocol(QIRCP(), ["fluid-run"], examples=1).passed
    True
    """

    protocol: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """True if no property is violated, except those that the protocol declares as exceptions."""
        return not self.violated

    @property
    def violated(self) -> tuple[Finding, ...]:
        """The findings on violated properties."""
        return tuple(finding for finding in self.findings if finding.status == "violated")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain tables, for JSON."""
        rows = [{f.name: getattr(finding, f.name) for f in fields(finding)} for finding in self.findings]
        return {"protocol": self.protocol, "passed": self.passed, "findings": rows}

    def _title(self) -> str:
        return f"Properties of {self.protocol}: {'passed' if self.passed else 'violated'}"

    def _rows(self) -> Rows:
        return [(finding.name, _line(finding)) for finding in self.findings]

    def __rich__(self) -> Table:
        """Return the report as a table of rich."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        styles = {"holds": "green", "violated": "red", "exception": "yellow", "not applicable": "dim"}
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=self._title(), title_justify="left")
        for column in ("property", "status", "examples", "detail"):
            table.add_column(column, overflow="fold")
        for finding in self.findings:
            status = Text(finding.status, styles[finding.status])
            table.add_row(finding.name, status, str(finding.examples), Text(finding.text))
        return table


def _line(finding: Finding) -> str:
    count = f" ({finding.examples} example{'s' if finding.examples != 1 else ''})" if finding.examples else ""
    example = f"; {finding.example}" if finding.example else ""
    return f"{finding.status}{count}: {finding.text}{example}"


@check_arguments
def check_protocol(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    properties: Sequence[str] = (),
    *,
    examples: int | None = None,
    quick: bool = False,
    progress: ProgressCallback | None = None,
) -> ProtocolReport:
    """Return the properties that hold for a protocol, and the smallest example of each violation.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment or mapping
        Protocol, or a pair {"flows": hosts, "links": queue discipline}.
    properties : sequence of str, optional
        Names from `PROPERTIES`, for example ["twin"]; if empty, all.
    examples : int, >= 1, optional
        Number of scenarios on which each property is checked. Default: 8, with `quick` 2.
    quick : bool, optional
        Whether to check fewer examples, and to spend less time on simplifying a violating one.
    progress : callable, optional
        Called before each property with a `Progress`: its name as `text`, and the share of the properties that are
        checked. A function of three arguments gets the name, the number of checked properties, and the number of all.

    Returns
    -------
    ProtocolReport

    Raises
    ------
    ValueError
        If a property is unknown, or if examples < 1.
    EccError
        If Hypothesis is not installed.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> check_protocol(QIRCP(), ["fluid-run"], examples=1).findings[0].status
    'holds'
    """
    subject = read_protocol(protocol)
    names = [as_choice(name, "property", tuple(PROPERTIES)) for name in properties] or list(PROPERTIES)
    count = QUICK_EXAMPLES if quick else EXAMPLES
    if examples is not None:
        count = as_count(examples, "examples", minimum=1)
    seconds = QUICK_SECONDS if quick else SECONDS
    report = _reported(progress, len(names))
    hypothesis()
    findings: dict[str, Finding] = {}
    for done, name in enumerate(names):
        report(name, done)
        missing = [need for need in PROPERTIES[name].needs if need in findings and findings[need].status == "violated"]
        if missing:
            findings[name] = Finding(name, "not applicable", f"needs {missing[0]}, which is violated")
            continue
        findings[name] = _search(subject, name, max(1, round(count * PROPERTIES[name].share)), seconds)
    return ProtocolReport(_name(subject), tuple(findings.values()))


def _reported(progress: ProgressCallback | None, count: int) -> Callable[[str, int], None]:
    """The function that reports the next property and the number of those that are checked."""

    def report(name: str, done: int) -> None:
        if progress is not None:
            progress(Step(name, done / count))

    former: Any = progress
    return (lambda name, done: former(name, done, count)) if progress is not None and takes(progress, 3) else report


class _Violation(Exception):
    """A violated property, inside a search."""


def _search(subject: Protocol | ProtocolAssignment, name: str, examples: int, seconds: float) -> Finding:
    """Search for a scenario that violates a property, and simplify it."""
    tested = hypothesis()
    rule = PROPERTIES[name]
    options = dict(rule.options)
    if name == "agreement":
        options["rtts"] = 3.0 * operating_range(subject).convergence
    outcomes: dict[str, str | None] = {}
    reasons: list[NotApplicable] = []
    refused: list[tuple[Scenario, str]] = []
    violations: list[tuple[Scenario, str]] = []
    begin = time.perf_counter()
    limit = [seconds]

    def check(scenario: Scenario) -> None:
        key = constructor_call(scenario)
        if key not in outcomes:
            if time.perf_counter() - begin > limit[0] and (violations or outcomes):
                return  # no time for a further example, or for a simpler one
            outcomes[key] = _outcome(rule.check, scenario, reasons)
            if reasons and isinstance(reasons[-1], Refused) and outcomes[key] is None and not refused:
                refused.append((scenario, str(reasons[-1])))
            if outcomes[key] is not None and not violations:
                limit[0] = time.perf_counter() - begin + seconds
        message = outcomes[key]
        if message is not None:
            violations.append((scenario, message))
            raise _Violation(message)

    drawn = tested.given(scenarios(subject, **options))
    quiet = tested.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        report_multiple_bugs=False,
        suppress_health_check=list(tested.HealthCheck),
        verbosity=tested.Verbosity.quiet,
        phases=[tested.Phase.generate, tested.Phase.shrink],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            quiet(drawn(check))()
        except _Violation:
            pass
        except Exception as error:
            if not violations and not isinstance(error, EccError):
                return Finding(name, "violated", _in_short(error), examples=len(outcomes))
            if not violations:
                raise
    spent = time.perf_counter() - begin
    reason = _exceptions(subject).get(name, "")
    if len(reasons) == len(outcomes) and all(isinstance(error, Refused) for error in reasons):
        violations += refused
    if violations:
        scenario, message = violations[-1]
        return Finding(
            name,
            "exception" if reason else "violated",
            message,
            reason,
            constructor_call(scenario),
            _tables(scenario),
            len(outcomes),
            spent,
        )
    if len(reasons) == len(outcomes):
        return Finding(name, "not applicable", str(reasons[0]) if reasons else "no scenario was drawn", seconds=spent)
    return Finding(name, "holds", reason=reason, examples=len(outcomes) - len(reasons), seconds=spent)


def _outcome(check: Callable[[Scenario], None], scenario: Scenario, reasons: list[NotApplicable]) -> str | None:
    """Return the message of a violation, or None; if a property is not applicable, `reasons` gets the reason."""
    try:
        check(scenario)
    except NotApplicable as error:
        reasons.append(error)
    except checks.PropertyError as error:
        return str(error)
    except (ValueError, TypeError, EccError) as error:
        return f"refused: {_in_short(error)}"
    except Exception as error:  # a fault in the functions of the protocol
        return f"{type(error).__name__}: {_in_short(error)}"
    return None


def _in_short(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0]


def _exceptions(subject: Protocol | ProtocolAssignment) -> dict[str, str]:
    """Return the declared exceptions of a protocol, or of both halves of a pair."""
    members = [subject] if isinstance(subject, Protocol) else subject.protocols
    return {name: reason for member in members for name, reason in member.property_exceptions.items()}


def _tables(scenario: Scenario) -> Mapping[str, Any]:
    try:
        return scenario.to_dict()
    except (TypeError, ValueError):  # for example a class that cannot be imported by name
        return {}


# ---- examples as text ----------------------------------------------------------------------------------------


def _name(subject: Protocol | ProtocolAssignment) -> str:
    if isinstance(subject, Protocol):
        return _call(type(subject).__name__, settings(subject))
    hosts, links = (
        _each(half)
        for half in (subject.flows.values(), [router for routers in subject.links.values() for router in routers])
    )
    return f"{hosts} over {links}"


def _each(protocols: Any) -> str:
    return ", ".join(dict.fromkeys(_name(protocol) for protocol in protocols))


@check_arguments
def constructor_call(scenario: Scenario) -> str:
    """Return the call of the constructor that makes a scenario, which can be pasted after `import ecc`.

    Parameters
    ----------
    scenario : Scenario

    Returns
    -------
    str
        Python code that makes the scenario.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> constructor_call(Scenario(Network.dumbbell("10 Mb/s", rtts=[0.04]), QIRCP(), 2.0))
    'ecc.Scenario(ecc.Network([ecc.Link(1e+07, 0.02)], [ecc.Flow([0])]), QIRCP(), 2)'
    """
    protocol = scenario.protocol
    if isinstance(protocol, Protocol):
        named = _name(protocol)
    else:
        halves = {"flows": protocol.flows, "links": {key: list(routers) for key, routers in protocol.links.items()}}
        named = "{" + ", ".join(f'"{half}": {_half(table)}' for half, table in halves.items() if table) + "}"
    options = {"seed": scenario.seed} if scenario.seed != 1 else {}
    if scenario.phases != "random":
        options["phases"] = scenario.phases
    arguments = [network_call(scenario.network), named, f"{float(scenario.duration):g}", *_keywords(options)]
    return f"ecc.Scenario({', '.join(arguments)})"


def _half(table: Mapping[Any, Any]) -> str:
    def shown(value: Any) -> str:
        return _name(value) if isinstance(value, Protocol) else _each(value)

    if list(table) == ["default"]:
        return shown(table["default"])
    return "{" + ", ".join(f"{key!r}: {shown(value)}" for key, value in table.items()) + "}"


def network_call(network: Network) -> str:
    """Return the call of the constructor that makes a network.

    Parameters
    ----------
    network : Network
    """
    links = [
        _call("ecc.Link", _changed(link, "capacity", "delay"), link.capacity, link.delay) for link in network.links
    ]
    flows = [_call("ecc.Flow", _changed(flow, "route"), list(flow.route)) for flow in network.flows]
    repeated = f"[{flows[0]}] * {len(flows)}" if len(set(flows)) == 1 < len(flows) else f"[{', '.join(flows)}]"
    return f"ecc.Network([{', '.join(links)}], {repeated})"


def _changed(item: Any, *positional: str) -> dict[str, Any]:
    """Return the fields of a link or flow that differ from their defaults."""
    values = {f.name: (getattr(item, f.name), f.default) for f in fields(item) if f.name not in positional}
    return {name: value for name, (value, default) in values.items() if value != default and value is not None}


def _call(name: str, keywords: Mapping[str, Any], *positional: Any) -> str:
    return f"{name}({', '.join([*map(_value, positional), *_keywords(keywords)])})"


def _keywords(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        yield f"{name}={_value(value)}"


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else repr(value)
