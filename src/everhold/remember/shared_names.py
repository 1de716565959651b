"""Relate memories that name the same person or thing, if only a few memories do."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from everhold.model.memory import SHARED_NAME
from everhold.ports.records import Records
from everhold.remember.deps import WriteDeps
from everhold.remember.evidence import Evidence
from everhold.remember.owners import Owner, find_related_pairs, find_undone_pairs
from everhold.remember.relate import relate

# A name that more memories share says little about each of them.
_MAX_SHARING = 8
# The maximum number of relationships of one memory up to which maintenance adds another.
_MAX_RELATIONS = 5


class SharedName(NamedTuple):
    """The ids of two memories and the names that occur in both."""

    first: str
    second: str
    names: tuple[str, ...]


def find_shared_names(records: Records, owner: Owner, evidence: Sequence[Evidence]) -> list[SharedName]:
    """Return the pairs of memories that share a rare name and are not related yet."""
    shared_names = list(_pair_memories(evidence))
    excluded_pairs = find_related_pairs(
        records, owner.organization, {memory_id for pair in shared_names for memory_id in pair[:2]}
    )
    excluded_pairs |= find_undone_pairs(records, owner, "relate")
    counts: Counter[str] = Counter(memory_id for pair in excluded_pairs for memory_id in pair)
    chosen_pairs: list[SharedName] = []
    for pair in sorted(shared_names, key=lambda pair: (-len(pair.names), pair.first, pair.second)):
        is_excluded = frozenset((pair.first, pair.second)) in excluded_pairs
        if not is_excluded and max(counts[pair.first], counts[pair.second]) < _MAX_RELATIONS:
            counts.update(pair[:2])
            chosen_pairs.append(pair)
    return chosen_pairs


def _pair_memories(evidence: Sequence[Evidence]) -> Iterator[SharedName]:
    evidence_by_name: dict[tuple[object, str], list[Evidence]] = defaultdict(list)
    for item in evidence:
        for key in item.names if item.memory_id is not None else ():
            evidence_by_name[item.pattern_scope, key].append(item)
    names_by_pair: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (_, key), items in evidence_by_name.items():
        if 1 < len(items) <= _MAX_SHARING:
            for first, second in combinations(items, 2):
                names_by_pair[str(first.memory_id), str(second.memory_id)].append(first.names[key])
    for (first_id, second_id), names in names_by_pair.items():
        yield SharedName(first_id, second_id, tuple(names))


def relate_pair(deps: WriteDeps, owner: Owner, pair: SharedName) -> None:
    """Relate two memories and store why; raise NotFound if one has been forgotten since it was read."""
    reason = f"both name {' '.join(pair.names)}"
    relate(deps, owner.scope, pair.first, pair.second, SHARED_NAME, {"reason": reason, "names": list(pair.names)})
