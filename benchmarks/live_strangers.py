"""What is left of a run between machines when a stranger floods the link: goodput, and what is counted.

    python benchmarks/live_strangers.py [FRAMES_PER_SECOND ...]    default: 0 1e4 1e5 inf

Two flows of XCP through 20 Mb/s for 4 s, hosts and router in two namespaces that are joined by virtual Ethernet, on the
real clock, with a stranger on the wire of the hosts (tests/live/two_machines.py).
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import ecc

SCRIPT = Path(__file__).parents[1] / "tests" / "live" / "two_machines.py"
DURATION = 4.0
COUNTS = ("taken", "foreign", "truncated", "forged", "replayed", "wrong", "refused", "lost", "reordered", "overrun")


def main(*rates):
    network = ecc.Network.dumbbell("20 Mb/s", rtts=["40 ms", "60 ms"])
    scenario = ecc.Scenario(network, ecc.models.XCP(), DURATION)
    simulated = 1e-6 * float(ecc.packet.simulate(scenario).goodput.mean("time").sum())
    print(f"simulated: {simulated:.2f} Mb/s")
    with TemporaryDirectory() as folder:
        token, file = Path(folder) / "token", Path(folder) / "scenario.toml"
        token.write_text("a secret of these runs")
        file.write_text(scenario.to_toml())
        for rate in rates or ("0", "1e4", "1e5", "inf"):
            load = os.getloadavg()[0]
            done = subprocess.run(
                [sys.executable, "-P", SCRIPT, file, token, "1", rate], capture_output=True, text=True, check=True
            )
            hosts, _, router, _, sent = json.loads(done.stdout)
            hosts, router = json.loads(hosts), json.loads(router)
            goodput = 8e-6 * sum(flow["received"] for flow in hosts["flows"].values()) / DURATION
            print(
                f"{rate} frames/s asked, {sent['frames'] / max(sent['seconds'], 1e-9):.0f} sent: "
                f"goodput {goodput:.2f} Mb/s, {hosts['stopped']}; router: "
                + ", ".join(f"{name} {router['frames'][name]}" for name in COUNTS)
                + f"; hosts: lost {hosts['frames']['lost']}, overrun {hosts['frames']['overrun']}; load {load:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
