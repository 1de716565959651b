"""Find columns that have values of the same kind. Such columns form a domain; the slots of patterns have domains."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import combinations

from everhold.ask.schema import AskSchema, ColumnRef
from everhold.ask.values import ValueIndex

# Two columns belong to one domain if they have this many values in common, and this part of the values of the column
# that has fewer.
_MIN_COMMON_VALUES = 2
_MIN_COMMON_PART = 0.4
_MAX_COLUMNS = 12  # a value that more columns have, such as "yes", does not connect columns


class ValueDomains:
    """The domains of a schema's columns. Columns that share values or are connected by a foreign key form a domain."""

    def __init__(self, schema: AskSchema, values: ValueIndex) -> None:
        self._parents: dict[ColumnRef, ColumnRef] = {}
        for key in schema.foreign_keys:
            self._join(key.ref, key.to_ref)
        for first, second in _list_overlapping(values):
            self._join(first, second)
        members: dict[ColumnRef, list[ColumnRef]] = defaultdict(list)
        for column in schema.columns():
            members[self._find_root(column.ref)].append(column.ref)
        self._labels = {root: _choose_label(refs) for root, refs in members.items()}

    def find(self, ref: ColumnRef) -> str:
        """Return the name of a column's domain, which is the most frequent name of its columns."""
        root = self._find_root(ref)
        return self._labels.get(root, ref.column.lower())

    def _find_root(self, ref: ColumnRef) -> ColumnRef:
        while ref in self._parents:
            ref = self._parents[ref]
        return ref

    def _join(self, first: ColumnRef, second: ColumnRef) -> None:
        roots = sorted({self._find_root(first), self._find_root(second)})
        if len(roots) > 1:
            self._parents[roots[1]] = roots[0]


def _list_overlapping(values: ValueIndex) -> Iterable[tuple[ColumnRef, ColumnRef]]:
    value_counts: Counter[ColumnRef] = Counter()
    common_counts: Counter[tuple[ColumnRef, ColumnRef]] = Counter()
    for refs in values.group_columns_by_value():
        value_counts.update(refs)
        if len(refs) <= _MAX_COLUMNS:
            common_counts.update(combinations(sorted(refs), 2))
    for (first, second), count in sorted(common_counts.items()):
        if count >= max(_MIN_COMMON_VALUES, _MIN_COMMON_PART * min(value_counts[first], value_counts[second])):
            yield first, second


def _choose_label(refs: list[ColumnRef]) -> str:
    names = Counter(ref.column.lower() for ref in refs)
    return min(names, key=lambda name: (-names[name], name))
