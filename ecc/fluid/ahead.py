"""Compile the kernels of the fluid engine when the package is built: `python -m ecc.fluid.ahead FILE`.

They are the same for all protocols and equations, and take Numba half a minute. FILE is what `compiled.SHIPPED` names
in an installed package. Of what is not standard only Numba is needed. Code that is in the cache of the user who builds
is taken from there.
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
    "dde.stepper.advance", "network.right_hand_side.network_rates", "network.granted_windows.advance",
    "network.sampled_prices.advance", "network.windows.advance", "network.stepped_rates.advance",
    "network.recurrence.advance",
)  # fmt: skip
"""Modules of `ecc.fluid` and names, those that take longest first."""


def main(path: str) -> None:
    """Write the code of the kernels to a file.

    Parameters
    ----------
    path : str
    """
    with ProcessPoolExecutor(os.cpu_count()) as processes, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for code in processes.map(_code, KERNELS):
            archive.writestr(*code)


def _code(kernel: str) -> tuple[str, bytes]:
    module, name = kernel.rsplit(".", 1)
    return code_of(getattr(import_module(f"ecc.fluid.{module}"), name))


if __name__ == "__main__":
    main(sys.argv[1])
