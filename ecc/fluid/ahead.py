"""Compile the kernels of the fluid engine when the package is built: `python -m ecc.fluid.ahead FILE`.

They are the same for all protocols and equations, and take Numba some fifteen seconds. FILE is what `compiled.SHIPPED`
names in an installed package. Of what is not standard only Numba is needed. Code that is in the cache of the user who
builds is taken from there.
"""

from __future__ import annotations

import sys
import zipfile

from numba import types

from ecc.fluid import rates, stepping
from ecc.fluid.compiled import code_of

__all__ = ["main"]


def main(path: str) -> None:
    """Write the code of the kernels to a file.

    Parameters
        path : str.
    """
    stepping.advance.compile((types.int64[::1], types.int64))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for kernel in (stepping.advance, rates.network_rates):
            archive.writestr(*code_of(kernel))


if __name__ == "__main__":
    main(sys.argv[1])
