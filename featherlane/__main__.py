"""`python -m featherlane` is the command line."""

import sys

from featherlane.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
