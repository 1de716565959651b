"""Build an AskSchema, with which questions are read, from the content of tables."""

from collections.abc import Collection, Sequence

from everhold.ask.language.stems import stem
from everhold.ask.profile.keys import find_foreign_keys
from everhold.ask.profile.kinds import detect_kind, find_true_value, is_numeric
from everhold.ask.profile.names import split_name, stem_name
from everhold.ask.schema import AskColumn, AskSchema, AskTable, ColumnKind, ColumnRef, ForeignKey
from everhold.ports.table_content import ColumnContent, TableContent

# Words in the name of a table that do not say what its rows are.
_GENERIC = frozenset(map(stem, ("data", "list", "information", "info", "table", "names", "record", "records", "details",
                                "detail", "ref", "reference", "tbl", "master", "all")))  # fmt: skip
# The words of column names whose values identify a row to a person, best first.
_DISPLAY_NAMES = (("name",), ("title",), ("full", "name"), ("first", "name"), ("last", "name"), ("description",))

_DATE_ENDINGS = frozenset(map(stem, ("on", "at")))
_FIRST_NAME = {stem("first"), stem("name")}
_LAST_NAMES = ({stem("last"), stem("name")}, {stem("surname")}, {stem("family"), stem("name")})


def build_schema(tables: Sequence[TableContent], foreign_keys: Sequence[ForeignKey] | None = None) -> AskSchema:
    """Return the schema of tables: the words of names, kinds of columns, display columns, and foreign keys.

    Without `foreign_keys`, the declared foreign keys are used and others are inferred from names and values.
    """
    vocabulary = {word for table in tables for word in split_name(table.name)}
    keys = find_foreign_keys(tables) if foreign_keys is None else tuple(foreign_keys)
    referring = {key.ref for key in keys}
    return AskSchema(tuple(_build_table(table, vocabulary, referring) for table in tables), keys)


def _build_table(table: TableContent, vocabulary: Collection[str], referring: Collection[ColumnRef]) -> AskTable:
    words = stem_name(table.name)
    core = tuple(word for word in words if word not in _GENERIC) or words
    # Only words that begin like a column can expand an abbreviation in a column's name.
    first_letters = {column.name[0].lower() for column in table.columns if column.name}
    expansions = {word for word in vocabulary if word[0] in first_letters}
    columns = tuple(_build_column(table, column, words, expansions, referring) for column in table.columns)
    key = table.primary_key[0] if len(table.primary_key) == 1 else None
    display = _choose_display(columns, words, core, key)
    return AskTable(
        name=table.name,
        words=words,
        core=core,
        columns=columns,
        key=key,
        display=display,
        row_count=table.row_count,
        second_display=_find_last_name(columns, display),
    )


def _find_last_name(columns: Sequence[AskColumn], display: str) -> str | None:
    """Return the name of the column of last names if the display column has first names; else None."""
    display_column = next(column for column in columns if column.name == display)
    if set(display_column.core) != _FIRST_NAME:
        return None
    return next((column.name for column in columns if set(column.core) in _LAST_NAMES), None)


def _build_column(
    table: TableContent,
    column: ColumnContent,
    table_words: Sequence[str],
    vocabulary: Collection[str],
    referring: Collection[ColumnRef],
) -> AskColumn:
    name_words = split_name(column.name, vocabulary)
    words = tuple(dict.fromkeys(map(stem, name_words)))
    core = tuple(word for word in words if word not in table_words) or words
    kind = detect_kind(column, name_words, table.row_count)
    if kind is ColumnKind.DATE and len(words) > 1 and words[-1] in _DATE_ENDINGS:
        words = (*words[:-1], stem("date"))  # "due_on" is the due date
        core = tuple(word for word in words if word not in table_words) or words
    is_key = (column.name,) == table.primary_key or ColumnRef(table.name, column.name) in referring
    if is_key and kind is ColumnKind.MEASURE:
        kind = ColumnKind.ID
    return AskColumn(
        table=table.name,
        name=column.name,
        kind=kind,
        words=words,
        core=core,
        is_numeric=is_numeric(column),
        is_unique=table.row_count > 0 and column.distinct_count == table.row_count,
        has_nulls=column.null_count > 0,
        true_value=find_true_value(column) if kind is ColumnKind.FLAG else None,
        label=column.label,
        unit=column.unit,
        is_indexed=len(column.values) >= column.distinct_count,
    )


def _choose_display(
    columns: Sequence[AskColumn], table_words: Sequence[str], table_core: Sequence[str], key: str | None
) -> str:
    """Return the name of the column whose values identify a row to a person.

    This is a column such as "name" or "title", else one named like the table, else one with "name" in its name, else
    the first text, else the key.
    """
    for display_name in _DISPLAY_NAMES:
        stems = {stem(word) for word in display_name}
        for column in columns:
            if set(column.words) in (stems, stems | set(table_words)) or set(column.core) == stems:
                return column.name
    named = [column for column in columns if stem("name") in column.words and not column.is_numeric]
    like_table = [
        column
        for column in columns
        if set(column.words) in (set(table_words), set(table_core)) and not column.is_numeric
    ]
    texts = [column for column in columns if column.kind is ColumnKind.TEXT]
    candidates = [*like_table, *named, *texts]
    return candidates[0].name if candidates else key or columns[0].name
