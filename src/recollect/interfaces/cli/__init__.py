"""The command line: `recollect remember`, `recollect recall` and the rest."""

from recollect.interfaces.cli.edge import main

__all__ = ["main"]
