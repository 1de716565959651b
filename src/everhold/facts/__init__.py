"""What texts state about people: pure functions that know nothing of stores or models."""

from everhold.facts.reading import read_statements
from everhold.facts.statement import Statement

__all__ = ["Statement", "read_statements"]
