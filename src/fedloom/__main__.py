"""`python -m fedloom` is `fedloom`."""

import sys

from fedloom.cli.main import main

sys.exit(main())
