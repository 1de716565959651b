"""The command line: `everhold remember`, `everhold recall` and the rest."""

from everhold.interfaces.cli.edge import main

__all__ = ["main"]
