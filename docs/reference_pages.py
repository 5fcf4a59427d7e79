"""Pages of the reference that are tables of what the code declares, kept in the repository for who reads it there.

`python docs/reference_pages.py` writes them anew, as building the site does; a test holds them against the code.
"""

import ast
import re
from itertools import pairwise
from pathlib import Path

from ecc._support.display import number_text
from ecc.cli.sweep import DEFAULT_METRICS
from ecc.contract import protocol
from ecc.results.metrics import METRICS, OF_SWEEPS, lacking, parameters_of

HERE = Path(__file__).parent
TYPES = {"double": "float", "int64_t": "int"}


def metrics() -> str:
    """The page of what `ecc sweep --metric` knows, from the registry that the ledger shares with it."""
    lines = [
        "# Metrics of `ecc sweep`",
        "",
        "`--metric NAME`, as often as wanted; without it these: "
        f"{', '.join(f'`{name}`' for name in DEFAULT_METRICS)}. `ecc sweep --metric list` prints all names. "
        "Each metric is computed over the time `--between BEGIN:END`, "
        "such as `10:30` (seconds) or `5ms:20ms`; the default is the last half of the run. Completion times and "
        "slowdowns are those of the flows that start in this time, by default of all. `--flow K` and `--link K` choose "
        "the flow and the link (default 0), `--flows 0,2,5-9` the flows of metrics of several flows (default: all). A "
        "metric that cannot be computed for a run fails alone: the table has the others and the reason.",
        "",
        "A metric may have arguments of its own, which override these options:",
        "",
        "| notation | meaning |",
        "|---|---|",
        "| `--metric fairness:1-10` | indices of flows, or of the flow or link of a metric that takes one |",
        "| `--metric p99_slowdown:sizes=0:100kB` | sizes from the first to below the second, in bytes |",
        "| `--metric queue_found:link=1:quantile=0.99` | several arguments |",
        "",
        "An argument in **bold** is required. Numbers without a unit are in s, bytes and bit/s.",
        "",
        "| name | unit | arguments | meaning |",
        "|---|---|---|---|",
    ]
    for name, one in METRICS.items():
        required = lacking(one, OF_SWEEPS)
        taken = ", ".join(f"**`{key}`**" if key in required else f"`{key}`" for key in parameters_of(one))
        meaning = " ".join(str(one.function.__doc__).split())
        for key, value in parameters_of(one).items():
            if key not in OF_SWEEPS and isinstance(value.default, int | float):
                meaning += f" `{key}` is {number_text(value.default)}."
        lines.append(f"| `{name}` | {one.kind or '1'} | {taken} | {meaning} |")
    lines += [
        "",
        "Rates, queues, losses and RTTs are averages over samples (`--sample`); peaks of queues and of RTTs are "
        "exact in packet runs. Those of connections need a workload. Completion times and slowdowns leave out flows "
        "that do not finish in the run: the table then has a column `unfinished` and a note. In Python, "
        "`ecc.metrics.percentiles` returns percentiles of delays, completion times or slowdowns for each class of "
        "flows, and [`ecc.sweep`](ecc.md) takes any function as its metrics.",
    ]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> list[str]:
    """Paragraphs and simple tables of reStructuredText as Markdown; the header of the first table is that of all."""
    found: list[str] = []
    head: list[str] = []
    for block in re.split(r"\n\s*\n", text.rstrip()):
        rows = block.splitlines()
        if not rows[0].strip().startswith("==="):
            found += [" ".join(block.split()), ""]
            continue
        starts = [column.start() for column in re.finditer("=+", rows[0])]
        columns = [slice(*ends) for ends in zip(starts, [*starts[1:], None], strict=True)]
        cells = [[row[column].strip() for column in columns] for row in rows if "===" not in row]
        head = head or cells.pop(0)
        found += [f"| {' | '.join(head)} |", "|---" * len(columns) + "|"]
        for name, *others in cells:
            shown = [other.removeprefix("... ") for other in others]
            found.append(f"| {' | '.join(['' if name == '..' else f'`{name}`', *shown])} |")
        found.append("")
    return found


def _entries() -> list[str]:
    """All public entries of `Protocol` as tables, one for each section of its source, in the order of the source."""
    source = Path(protocol.__file__).read_text(encoding="utf-8")
    body = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)).body
    headings = [
        (number, match[1].strip())
        for number, line in enumerate(source.splitlines(), 1)
        if (match := re.match("    # ---- (.*?) -+$", line))
    ]
    lines: list[str] = []
    shown = ""
    for node, after in pairwise([*body, None]):
        if isinstance(node, ast.AnnAssign):
            name = ast.unparse(node.target)
            text = ast.literal_eval(after.value) if isinstance(after, ast.Expr) else ""
            default = "required" if node.value is None else f"`{ast.unparse(node.value)}`"
        elif isinstance(node, ast.FunctionDef):
            name, text, default = node.name, ast.get_docstring(node), "method"
            if any(ast.unparse(decorator) == "property" for decorator in node.decorator_list):
                result = node.body[-1]
                value = ast.unparse(result.value) if len(node.body) == 2 and isinstance(result, ast.Return) else "self"
                default = "derived" if "self" in value else f"`{value}`"
        else:
            continue
        if name.startswith("_"):
            continue
        heading = [title for number, title in headings if number < node.lineno]
        if heading and heading[-1] != shown:
            shown = heading[-1]
            lines += ["", f"### {shown[0].upper()}{shown[1:]}", "", "| entry | default | meaning |", "|---|---|---|"]
        default = default.replace("MappingProxyType({})", "{}")
        first = " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")
        lines.append(f"| `{name}` | {default} | {first} |")
    return lines


def contract() -> str:
    """The contract of a protocol: the table of what laws may ask for, and all that a class may declare."""
    text = str(protocol.__doc__)
    lines = [
        "# The contract of a protocol",
        "",
        "**What may a class derived from `ecc.models.Protocol` declare, and what does each engine use of it?** "
        "[Your own protocol](../your_own_protocol.md) builds two. The linear models and the fluid call the laws, "
        "the packet engine the hooks.",
        "",
        "## Arguments of laws",
        "",
        "A law is a function of numbers. The names of its arguments select what it receives.",
        "",
        *_markdown(text[text.index("   ====") : text.index("2. `Header`")]),
        "## What a class declares",
        "",
        "`ecc/contract/` has all of it: `protocol.py` the class, `forms.py` the options of each kind of loop, "
        "`states.py` the states.",
        *_entries(),
        "",
        "## Signatures and types",
        "",
        "```{eval-rst}",
    ]
    lines += [".. autoclass:: ecc.contract.protocol.Protocol", "   :members:", "   :no-index:", ""]
    lines += [
        f".. autoclass:: ecc.contract.{name}\n   :no-index:\n"
        for name in (
            "kinds.Kind",
            "loop.Loop",
            "equilibrium.Equilibrium",
            "equilibrium.EquilibriumSet",
            "equilibrium.Bound",
            "states.State",
            "forms.Queues",
            "forms.SampledPrices",
            "forms.SteppedRates",
            "forms.GrantedWindows",
            "forms.StateMachine",
            "forms.RoundMap",
            "forms.OperatingRange",
            "reference.ReferenceLoop",
        )
    ]
    return "\n".join([*lines, "```", ""])


def hook_env() -> str:
    """The page of what hooks see: the fields of both `env`, from the declarations of the C engine."""
    text = (HERE.parent / "ecc" / "native" / "core" / "env.h").read_text(encoding="utf-8")
    lines = [
        "# What hooks see: `env`",
        "",
        "[Hooks](../your_own_protocol.md#hooks) are explained there; the [specification](../engine_specification.md) "
        "states when each is called.",
    ]
    for name, of in (("ecc_link_env_t", "router"), ("ecc_flow_env_t", "flow")):
        fields = re.findall(
            r"^    (\w+) (\w+); +/\* (.*) \*/$", text[: text.index(f"}} {name};")].rpartition("{")[2], re.M
        )
        lines += [
            "",
            f"## `env` of the hooks of a {of}",
            "",
            "w: a hook may write it.",
            "",
            "| field | type | meaning |",
            "|---|---|---|",
        ]
        lines += [f"| `{field}` | {TYPES[kind]} | {meaning} |" for kind, field, meaning in fields]
    return "\n".join(lines) + "\n"


PAGES = {"contract": contract, "hook_env": hook_env, "metrics": metrics}


def write() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (HERE / "reference" / f"{name}.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
