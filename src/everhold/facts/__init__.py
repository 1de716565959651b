"""Extract statements about people from texts, with pure functions that use neither stores nor models."""

from everhold.facts.reading import read_statements
from everhold.facts.statement import Statement

__all__ = ["Statement", "read_statements"]
