"""`python -m everhold.interfaces.cli`."""

import sys

from everhold.interfaces.cli import main

sys.exit(main())
