"""What a packet costs a router: `python benchmarks/hook_time.py [PROTOCOL ...] [--repeat N]`.

The best of N loops of `ecc.packet.hook_time` counts. `load` is the share of one core that the hooks take at 1 Gb/s with
packets of 1500 bytes, ticks included: what EVAL sec. 4.4 measured, where most of the 30 % were interrupts.
"""

from __future__ import annotations

import argparse

from ecc.models import all_protocols
from ecc.packet.hook_time import nanoseconds

PACKETS_PER_SECOND = 1e9 / (8 * 1500)


def main() -> None:
    """Print one row a protocol."""
    known = {name: cls for name, cls in all_protocols().items() if cls.equilibrium_is_static}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("protocols", nargs="*", metavar="PROTOCOL", help=f"{', '.join(known)}; all by default")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    if unknown := set(arguments.protocols) - set(known):
        parser.error(f"PROTOCOL must be one of {', '.join(known)}, got {', '.join(sorted(unknown))}")
    reference = sum(list(nanoseconds(known["RCP"](), arguments.repeat).values())[:2])
    print("protocol  ns/arrival  ns/departure  ns/packet  of RCP's  ns/tick  load at 1 Gb/s")
    for name in arguments.protocols or known:
        protocol = known[name]()
        arrival, departure, tick = nanoseconds(protocol, arguments.repeat).values()
        packet = arrival + departure
        load = 1e-9 * (packet * PACKETS_PER_SECOND + tick / protocol.params()["interval"])
        print(
            f"{name:8}  {arrival:10.2f}  {departure:12.2f}  {packet:9.2f}  {packet / reference:8.2f}  {tick:7.1f}  "
            f"{100 * load:.4f} %"
        )


if __name__ == "__main__":
    main()
