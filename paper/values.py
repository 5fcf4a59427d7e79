"""Every number of paper.md: `python paper/values.py` prints them, and exits with 1 if the paper has others.

The capitals below are the inputs of its example; the rest is computed from them, or counted in the package.
"""

from __future__ import annotations

import re
from pathlib import Path

PAPER = Path(__file__).with_name("paper.md")
CAPACITY, RTTS, ALPHA, DURATION = 100, (100, 300), 0.5, 20  # Mb/s, ms, -, s
DELAY = 10  # steps, of QI-RCP's Theorem 7
NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?![\w])")


def numbers() -> dict[str, str]:
    """Return each number as the paper prints it, by what it is."""
    import ecc
    from ecc.claims.ledger import claims
    from ecc.models import PIQIRCP, QIRCP
    from ecc.stability import critical_gain

    network = ecc.Network.dumbbell(f"{CAPACITY} Mb/s", rtts=[f"{rtt} ms" for rtt in RTTS])
    limit = critical_gain(PIQIRCP(alpha=ALPHA), network, "alpha", time="hybrid", certify=True)
    assert limit.certified is not None
    stable, unstable = limit.certified
    comparison = ecc.compare(ecc.Scenario(network, PIQIRCP(alpha=ALPHA), duration=float(DURATION)))
    rates = [run.rate[-10:].mean("time").to_numpy() / 1e6 for run in (comparison.fluid, comparison.packet)]
    queues = [float(run.queue_max.max()) / 1e6 for run in (comparison.fluid, comparison.packet)]
    assert len({f"{rate:.1f}" for engine in rates for rate in engine}) == len({f"{queue:.1f}" for queue in queues}) == 1
    equal = ecc.Network.dumbbell(f"{CAPACITY} Mb/s", rtts=[DELAY * QIRCP().interval])
    exact = critical_gain(QIRCP(), equal, "alpha", time="discrete").value
    claim = claims()["qi-7"]
    (reported,) = re.findall(r"alpha < ([\d.]+) \(with pi as 22/7\)", claim.reported)
    return {
        "capacity of the example [Mb/s]": str(CAPACITY),
        **{f"RTT of flow {k} [ms]": str(rtt) for k, rtt in enumerate(RTTS)},
        "its gain": str(ALPHA),
        "its duration [s]": str(DURATION),
        "largest gain proven stable": f"{stable:.9f}",
        "least gain proven unstable": f"{unstable:.9f}",
        "rates at its end, both engines [Mb/s]": f"{rates[0][0]:.1f}",
        "largest queue, both engines [MB]": f"{queues[0]:.1f}",
        "delay in the theorem [steps]": str(DELAY),
        "its bound, as reported": reported,
        "the exact limit": f"{exact:.4f}",
        **counts(),
    }


def counts() -> dict[str, str]:
    """Return those numbers that count what the package has: they change when it grows."""
    from ecc.claims.ledger import PAPERS, claims
    from ecc.models import all_protocols
    from ecc.queues import all_disciplines

    return {
        "protocols, more than": str(_fewer(len(all_protocols()), 10)),
        "queue disciplines, more than": str(_fewer(len(all_disciplines()), 10)),
        "claims, more than": str(_fewer(len(claims()), 50)),
        "papers and standards, more than": str(_fewer(len(PAPERS), 10)),
    }


def _fewer(count: int, step: int) -> int:
    """The multiple of a step below a count."""
    return (count - 1) // step * step


def stated(text: str) -> set[str]:
    """Return the numbers in the text of a paper: not those of its header, of citations, of names such as ns-3.

    Parameters
    ----------
    text : str
    """
    _, _, body = text.split("---\n", 2)
    return set(NUMBER.findall(re.sub(r"@[\w-]+|\(https?:[^)]*\)", "", body)))


def main() -> None:
    computed = numbers()
    for name, value in computed.items():
        print(f"{name}: {value}")
    in_paper = stated(PAPER.read_text(encoding="utf-8"))
    if in_paper != set(computed.values()):
        raise SystemExit(
            f"paper.md has {sorted(in_paper - set(computed.values()))} besides, "
            f"and lacks {sorted(set(computed.values()) - in_paper)}"
        )


if __name__ == "__main__":
    main()
