"""Compile the kernels of the fluid engine when the package is built: `python -m ecc.fluid.ahead FILE`.

The kernels are the same for all protocols and equations, and take Numba half a minute. An installed package has FILE
at the path `compiled.SHIPPED`. Numba is the only third-party package needed. If the cache of the user who builds the
package already holds the code, it is taken from there.
"""

from __future__ import annotations

import os
import sys
import zipfile
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module

from ecc.fluid.compiled import code_of

__all__ = ["KERNELS", "main"]

KERNELS = (
    "dde.stepper.advance",
    "network.right_hand_side.network_rates",
    "network.granted_windows.advance",
    "network.sampled_prices.advance",
    "network.window_steps.advance",
    "network.rounds.advance",
    "network.rate_updates.advance",
    "network.stepped_rates.advance",
    "network.recurrence.advance",
)
"""Modules of `ecc.fluid` and names of kernels, the slowest to compile first."""


def main(path: str) -> None:
    """Write the code of the kernels to a file.

    Parameters
    ----------
    path : str
        Path of the zip file, for example "kernels.zip".
    """
    with ProcessPoolExecutor(os.cpu_count()) as processes, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for code in processes.map(_code, KERNELS):
            archive.writestr(*code)


def _code(kernel: str) -> tuple[str, bytes]:
    module, name = kernel.rsplit(".", 1)
    return code_of(getattr(import_module(f"ecc.fluid.{module}"), name))


if __name__ == "__main__":
    main(sys.argv[1])
