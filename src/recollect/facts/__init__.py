"""What texts state about people: pure functions that know nothing of stores or models."""

from recollect.facts.reading import statements
from recollect.facts.statement import Statement

__all__ = ["Statement", "statements"]
