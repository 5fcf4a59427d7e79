"""`python -m ecc.cli`."""

import sys

from ecc.cli import main

if __name__ == "__main__":
    sys.exit(main())
