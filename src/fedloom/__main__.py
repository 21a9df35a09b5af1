"""`python -m fedloom` is `fedloom`."""

import sys

from fedloom.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
