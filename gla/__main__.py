"""`python -m gla` is the command `gla`."""

import sys

from gla.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
