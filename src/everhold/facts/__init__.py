"""What texts state about people: pure functions that know nothing of stores or models."""

from everhold.facts.reading import statements
from everhold.facts.statement import Statement

__all__ = ["Statement", "statements"]
