"""Aurora: a network of 30-32-16-1 units changes the pacing rate every half RTT (Jay et al., ICML 2019).

    x <- x (1 + 0.025 a) if a >= 0, otherwise x/(1 - 0.025 a)     a = network(last 10 frames)
    frame: (D_2 - D_1)/t, D/min D, x_s/x_d                         x >= 40 packets of 1500 bytes per second

    x  pacing rate   a  action   D  mean RTT of an interval; D_1, D_2: of its halves   t  length of the interval, half
    the last D   x_s, x_d  rates of sent and delivered data in the interval

The host, and its behavior in the fluid, are those of `ecc.models.policy`. The paper's weights were never published. The
default network was trained in this project on the paths of the original environment: one flow, 1.2 to 6 Mb/s, an RTT of
0.1 to 1 s, random losses up to 5 % (docs/train_a_controller.md). Constants are from the original environment
(PCCproject/PCC-RL, network_sim.py). Differences: halves of an interval are halves of its time, not of its samples, and
an interval begins with an action, not with the next event.

The rate has no maximum. The simulator of the training has one of 1000 packets/s (12 Mb/s), twice its largest capacity;
it is part of the environment (`ecc.rl.aurora`) and would waste faster paths. The programs for real paths have others:
300 Mb/s in loaded_client.py, 1000 Mb/s in shim_env.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ecc.contract.reference import ReferenceLoop
from ecc.models.policy import Policy


@dataclass(frozen=True, kw_only=True)
class Aurora(Policy):
    """Aurora.

    Parameters
    ----------
    network : str, path or DenseNetwork
        "aurora", the network trained in this project, or another one with frames of three features, see `Policy`.
    initial_rate, min_rate, interval, observe, act
        See `Policy`; the defaults are those of the original environment.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `Policy`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    FileNotFoundError
        The file of the network does not exist.
    EccError
        The package `onnx` is needed and missing.
    """

    network: Any = field(default="aurora", kw_only=False)

    linear_refusal = "Aurora has no linear model: its hosts act at the ends of intervals, on whole histories"
    reference_loop = ReferenceLoop(3.6e6, (0.2,) * 2, "ours; the middle of the range of its training")
