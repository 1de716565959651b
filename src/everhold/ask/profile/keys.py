"""Find foreign keys: declared keys, and keys that names and values suggest."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from everhold.ask.profile.names import split_name
from everhold.ask.schema import ForeignKey
from everhold.ports.table_content import ColumnContent, TableContent

# The confidence of a key that names and values suggest. A declared key has a confidence of 1.
_NAME_AND_VALUES = 0.8
_VALUES_ONLY = 0.6  # for a key that only values suggest, such as an "origin" with codes of airports
_MIN_TEXTS = 4  # the minimum number of different texts of a column that is a key by its values only
_MIN_INCLUSION = 0.9  # the minimum share of the column's values that must be values of the key
_MIN_VALUES = 2
_KEY_WORDS = frozenset({"id", "code", "key", "uid", "number", "no", "name"})


def find_foreign_keys(tables: Sequence[TableContent]) -> tuple[ForeignKey, ...]:
    """Return the declared keys, then the inferred ones, at most one for each column."""
    keys = list(_read_declared(tables))
    declared_columns = {(key.table, key.column) for key in keys}
    linked = {frozenset((key.table, key.to_table)) for key in keys}
    targets = [
        _Target(target, key, _split_singular(target.name), _split_singular(key.name))
        for target in tables
        for key in target.columns
        if _is_unique(target, key)
    ]
    numbers_by_word: dict[str, list[int]] = defaultdict(list)
    for number, target in enumerate(targets):
        for word in target.table_words | (target.words - _KEY_WORDS):
            numbers_by_word[word].append(number)
    for table in tables:
        for column in table.columns:
            if (table.name, column.name) not in declared_columns:
                inferred = _infer_key(table, column, targets, numbers_by_word) or _infer_by_values(
                    table, column, targets
                )
                # An inferred key between tables that a declared key connects would only make joins ambiguous.
                if inferred and frozenset((inferred.table, inferred.to_table)) not in linked:
                    keys.append(inferred)
    return tuple(keys)


def _read_declared(tables: Sequence[TableContent]) -> Iterator[ForeignKey]:
    """Yield the declared keys, with names in the case of the tables. Keys to unknown tables or columns are left out."""
    by_name = {table.name.lower(): table for table in tables}
    seen = set()
    for table in tables:
        columns = _map_column_names(table)
        positions = {column.name.lower(): index for index, column in enumerate(table.columns)}
        # Keys are in the order of the columns: if two keys refer to the same table, the first is usually meant.
        for key in sorted(table.foreign_keys, key=lambda key: positions.get(key.column.lower(), len(positions))):
            target = by_name.get(key.to_table.lower())
            column, to_column = key.column.lower(), key.to_column.lower()
            target_columns = _map_column_names(target) if target else {}
            is_known = column in columns and to_column in target_columns
            if target and is_known and (table.name, column) not in seen:
                seen.add((table.name, column))
                yield ForeignKey(table.name, columns[column], target.name, target_columns[to_column])


def _map_column_names(table: TableContent) -> dict[str, str]:
    """Return the names of a table's columns by the names in lower case."""
    return {column.name.lower(): column.name for column in table.columns}


@dataclass(frozen=True)
class _Target:
    """A column that other columns may refer to, with the words of its table's name and its own name."""

    table: TableContent
    column: ColumnContent
    table_words: frozenset[str]
    words: frozenset[str]

    @cached_property
    def values(self) -> frozenset[str]:
        return frozenset(map(_normalise, self.column.values))


def _infer_key(
    table: TableContent,
    column: ColumnContent,
    targets: Sequence[_Target],
    numbers_by_word: Mapping[str, Sequence[int]],
) -> ForeignKey | None:
    """Return the foreign key of a column to the key of another table that fits best by names and values; else None."""
    words = _split_singular(column.name)
    numbers = sorted({number for word in words for number in numbers_by_word.get(word, ())})
    named = [
        (score, target)
        for target in (targets[number] for number in numbers)
        if target.table is not table and (score := _compare_names(table, column, words, target)) > 0
    ]
    # Names are compared first, because there are fewer names than values.
    fitting = [(score, target) for score, target in named if _includes(target, column)]
    if not fitting:
        return None
    _, best = max(fitting, key=lambda candidate: candidate[0])
    return ForeignKey(table.name, column.name, best.table.name, best.column.name, _NAME_AND_VALUES)


def _infer_by_values(table: TableContent, column: ColumnContent, targets: Sequence[_Target]) -> ForeignKey | None:
    """Return the foreign key of a text column whose values are all codes of another table, regardless of its name.

    Columns of numbers are not considered, because the rows of every table may be numbered from 1.
    """
    texts = [value for value in column.values if isinstance(value, str) and not value.strip().isdigit()]
    if len(set(texts)) < _MIN_TEXTS or len(texts) < len(column.values) or _is_unique(table, column):
        return None
    values = {_normalise(text) for text in texts}
    fitting = [
        target for target in targets if target.table is not table and _is_code(target) and values <= target.values
    ]
    if len({target.table.name for target in fitting}) != 1:
        return None  # none, or several that fit equally well
    target = fitting[0]
    return ForeignKey(table.name, column.name, target.table.name, target.column.name, _VALUES_ONLY)


def _is_code(target: _Target) -> bool:
    """Return whether a key consists of codes that other tables use instead of names."""
    return bool(target.words & _KEY_WORDS - {"name"}) and all(isinstance(value, str) for value in target.column.values)


def find_primary_key(table: TableContent) -> tuple[str, ...]:
    """Return the declared key, or the first column that identifies every row and is named like a key."""
    if table.primary_key or table.row_count < 1:
        return table.primary_key
    table_words = _split_singular(table.name)
    for number, column in enumerate(table.columns):
        words = _split_singular(column.name)
        is_called_key = bool(words & _KEY_WORDS) and (words <= table_words | _KEY_WORDS or number == 0)
        if is_called_key and not column.null_count and column.distinct_count == table.row_count:
            return (column.name,)
    return ()


def _split_singular(name: str) -> frozenset[str]:
    return frozenset(word.rstrip("s") for word in split_name(name))


def _is_unique(table: TableContent, column: ColumnContent) -> bool:
    """Return whether a column can be referred to: it is the primary key, or has a different value in every row."""
    return (column.name,) == table.primary_key or (table.row_count > 1 and column.distinct_count == table.row_count)


def _includes(target: _Target, column: ColumnContent) -> bool:
    values = {_normalise(value) for value in column.values}
    if len(values) < _MIN_VALUES:
        return False
    # Only some values of a long column are known, so fewer values of the other column are among them.
    known_share = min(1.0, len(target.values) / max(target.column.distinct_count, 1))
    is_same_name = column.name.lower() == target.column.name.lower()
    has_all_values = known_share == 1.0 or not is_same_name
    min_inclusion = _MIN_INCLUSION if has_all_values else _MIN_INCLUSION * known_share / 2
    return len(values & target.values) >= min_inclusion * len(values)


def _normalise(value: object) -> str:
    return str(value).strip().lower()


def _compare_names(table: TableContent, column: ColumnContent, column_words: frozenset[str], target: _Target) -> float:
    """Return a score for how well the names of a column and a key agree; 0 if they share no meaningful word."""
    target_words = column_words & target.table_words
    shared_words = column_words & target.words - _KEY_WORDS
    is_primary = table.primary_key == (column.name,)
    if is_primary and (not target_words or column_words - _KEY_WORDS == _split_singular(table.name)):
        return 0.0  # two tables that both number their rows from 1, or a key that is named after its own table
    if not target_words and not shared_words:
        return 0.0
    key_word_bonus = 0.5 * bool(column_words & target.words & _KEY_WORDS)
    primary_bonus = 0.25 * ((target.column.name,) == target.table.primary_key)
    return len(target_words) + len(shared_words) + key_word_bonus + primary_bonus
