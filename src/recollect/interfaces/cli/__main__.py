"""`python -m recollect.interfaces.cli`."""

import sys

from recollect.interfaces.cli import main

sys.exit(main())
