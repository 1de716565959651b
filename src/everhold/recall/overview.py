"""Collect all memories about a person, a thing or a tag, without a question."""

from collections.abc import Iterable

from everhold.model import Memory
from everhold.recall.hit import Hits
from everhold.text.terms import extract_terms


def find_named(hits: Hits, about: str) -> list[Memory]:
    """Return the memories among these hits that have every term of the name `about`; none if the name has no terms.

    The hits must come from a recall by words.
    """
    name_terms = frozenset(extract_terms(about))
    return [hit.memory for hit in hits if name_terms and name_terms <= set(hit.why.matched)]


def order_by_weight(memories: Iterable[Memory]) -> list[Memory]:
    """Return each memory once, the most important first. Among equally important memories, the newest comes first."""
    by_id = {memory.id: memory for memory in memories}
    return sorted(by_id.values(), key=lambda memory: (memory.weight, _find_time(memory), memory.id), reverse=True)


def _find_time(memory: Memory) -> float:
    return (memory.occurred_at or memory.created_at).timestamp()
