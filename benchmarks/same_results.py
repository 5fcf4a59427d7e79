"""Digests of results, to compare two states of the code: `python benchmarks/same_results.py {write,compare} FILE`.

Each protocol of `ecc.models` runs in packets and as fluid, and is linearized, on two networks: one of its own operating
range, and a parking lot of three links; each queue discipline of `ecc.queues` runs under NewReno. A result is the
SHA-256 of all series of a run, or of the matrices of a linear model; a refusal is a result, too.

write FILE     write the digests of the installed package to FILE (JSON)
compare FILE   compare them with FILE, print each difference, and exit with 1 if there is any

Texts of refusals are left out, so that they can be reworded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import ecc
import ecc.queues
from ecc.models import NewReno, Protocol, all_protocols
from ecc.queues.discipline import QueueDiscipline

RTTS_OF_RUN = 40.0


def networks(protocol: Protocol) -> Iterator[tuple[str, ecc.Network, float]]:
    """Networks for a protocol, with the duration of a run [s]."""
    capacity, rtt = (sum(limits) / 2.0 for limits in (protocol.operating_range.capacity, protocol.operating_range.rtt))
    buffer = max(20_000, int(capacity * rtt / 8.0))
    yield "dumbbell", ecc.Network.dumbbell(capacity, rtts=[rtt, 1.5 * rtt], buffer=buffer), RTTS_OF_RUN * rtt
    links = [ecc.Link(share * capacity, rtt / 8.0, buffer=buffer) for share in (1.0, 0.8, 0.9)]
    flows = [ecc.Flow([0, 1, 2]), ecc.Flow([0]), ecc.Flow([1]), ecc.Flow([2], start=3.0 * rtt)]
    yield "parking lot", ecc.Network(links, flows), RTTS_OF_RUN * rtt


def digest_of_arrays(arrays: dict[str, Any]) -> str:
    """The SHA-256 of arrays, by name."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        total.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return total.hexdigest()[:16]


def digest_of_run(simulate: Callable[[ecc.Scenario], ecc.Trajectory], case: ecc.Scenario) -> str:
    """The digest of all series of a run; "refused" if the engine refuses the scenario."""
    try:
        run = simulate(case)
    except (ValueError, TypeError, ecc.EccError):
        return "refused"
    series = {str(name): run.data[name].to_numpy() for name in run.data if run.data[name].dtype.kind in "fiu"}
    return digest_of_arrays(series)


def digest_of_model(protocol: Protocol, network: ecc.Network, time: str) -> str:
    """The digest of the matrices and delays of a linear model; "refused" without one."""
    try:
        system = ecc.linearize(protocol, network, time=time)
    except (ValueError, TypeError, ecc.EccError):
        return "refused"
    return digest_of_arrays({"matrices": np.array(system.matrices), "delays": np.array(system.delays, dtype=float)})


def results() -> Iterator[tuple[str, str]]:
    """Name and digest of each result."""
    for name, kind in all_protocols().items():
        protocol = kind()
        for place, network, duration in networks(protocol):
            case = ecc.Scenario(network, protocol, duration=duration)
            yield f"{name}, {place}, packets", digest_of_run(ecc.packet.simulate, case)
            yield f"{name}, {place}, fluid", digest_of_run(ecc.fluid.simulate, case)
            for time in protocol.times:
                yield f"{name}, {place}, {time}", digest_of_model(protocol, network, time)
    for name in ecc.queues.__all__:
        discipline = getattr(ecc.queues, name)
        if (
            isinstance(discipline, type)
            and issubclass(discipline, QueueDiscipline)
            and discipline is not QueueDiscipline
        ):
            try:
                links = discipline()
            except (TypeError, ValueError):
                continue  # it has required parameters
            for place, network, duration in networks(NewReno()):
                case = ecc.Scenario(network, {"flows": NewReno(), "links": links}, duration=duration)
                yield f"NewReno over {name}, {place}, packets", digest_of_run(ecc.packet.simulate, case)
                yield f"NewReno over {name}, {place}, fluid", digest_of_run(ecc.fluid.simulate, case)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    digests = dict(results())
    if chosen.action == "write":
        chosen.file.write_text(json.dumps(digests, indent=0) + "\n", encoding="utf-8")
        print(f"{len(digests)} results, {sum(value == 'refused' for value in digests.values())} of them refusals")
        return 0
    before = json.loads(chosen.file.read_text(encoding="utf-8"))
    different = [name for name in {**before, **digests} if before.get(name) != digests.get(name)]
    for name in different:
        print(f"{name}: {before.get(name)} before, {digests.get(name)} now")
    print(f"{len(digests)} results, {len(different)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
