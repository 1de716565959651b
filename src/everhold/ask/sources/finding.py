"""Find the tables that a question is about: by the engine's search in their descriptions, and by values."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from everhold.ask.language.stems import stem
from everhold.ask.language.tokens import split_words
from everhold.ask.sources.content import read_table_values
from everhold.ask.sources.deps import DataDeps
from everhold.ask.sources.files import Values
from everhold.ask.sources.lookup import list_fields, list_sources, list_tables, require_source
from everhold.model import FieldMetadata, Scope, Source, TableMetadata
from everhold.model.base import Entity

# What the search of the engine returns: rows of one kind, each with a score from 0 to 1, best first.
Search = Callable[[str, Scope, str, int], Iterable[tuple[Entity, float]]]

_CANDIDATES = 60
# What a hit of each kind is worth to its table, from a look at the sample data.
_WEIGHTS = {"table": 1.0, "field": 0.8, "source": 0.4}
_PER_NAMED_WORD = 0.5
_PER_VALUE = 0.4
_MOST_VALUE_TABLES = 200
_ASKING = frozenset(map(stem, ("which", "table", "tables", "column", "columns", "field", "has", "have", "where", "data",
                               "contains", "contain", "holds", "file", "files", "about", "information")))  # fmt: skip


@dataclass(frozen=True)
class FoundTable:
    """A table that a question may be about, the columns of it that matched, and the values that it names."""

    table: TableMetadata
    source: Source
    score: float
    fields: tuple[FieldMetadata, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    """Column and value, for each value that the question names."""


@dataclass
class _Evidence:
    score: float = 0.0
    fields: dict[str, FieldMetadata] = field(default_factory=dict)
    values: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class TableFilter:
    """What `find_tables` is narrowed to, step by step."""

    source: str | None = None
    table: str | None = None
    field: str | None = None
    value: str | None = None


def find_tables(
    deps: DataDeps, scope: Scope, question: str, limit: int, narrow: TableFilter, search: Search
) -> list[FoundTable]:
    """Return the tables that a question is about, best first: project, then source, table, column and value."""
    tables, sources = _list_candidates(deps, scope, narrow)
    evidence: dict[str, _Evidence] = defaultdict(_Evidence)
    _search_descriptions(scope, question, search, tables, evidence)
    words = {stem(word) for word in split_words(question)} - _ASKING
    for table in tables.values():
        named = words & {stem(word) for word in split_words(table.table_name.replace("_", " "))}
        if named:
            evidence[table.id].score += _PER_NAMED_WORD * len(named)
    best = sorted(evidence, key=lambda table_id: (-evidence[table_id].score, tables[table_id].table_name))
    _match_values(deps, question, [tables[table_id] for table_id in best[:_MOST_VALUE_TABLES]], narrow, evidence)
    if narrow.value is not None or narrow.field is not None:
        evidence = _keep_matching(deps, tables, narrow, evidence)
    best = sorted(evidence, key=lambda table_id: (-evidence[table_id].score, tables[table_id].table_name))
    return [
        FoundTable(
            tables[table_id],
            sources[str(tables[table_id].source_id)],
            round(evidence[table_id].score, 4),
            tuple(evidence[table_id].fields.values()),
            tuple(dict.fromkeys(evidence[table_id].values)),
        )
        for table_id in best[:limit]
    ]


def _list_candidates(
    deps: DataDeps, scope: Scope, narrow: TableFilter
) -> tuple[dict[str, TableMetadata], dict[str, Source]]:
    source = require_source(deps.records, scope, narrow.source) if narrow.source is not None else None
    sources = {row.id: row for row in ([source] if source is not None else list_sources(deps.records, scope))}
    tables = list_tables(deps.records, scope, source)
    if narrow.table is not None:
        tables = [table for table in tables if narrow.table in (table.table_name, table.id)]
    return {table.id: table for table in tables}, sources


def _search_descriptions(
    scope: Scope,
    question: str,
    search: Search,
    tables: dict[str, TableMetadata],
    evidence: dict[str, _Evidence],
) -> None:
    of_source = defaultdict(list)
    for table in tables.values():
        of_source[table.source_id].append(table.id)
    for kind, weight in _WEIGHTS.items():
        for row, score in search(question, scope, kind, _CANDIDATES):
            if isinstance(row, TableMetadata) and row.id in tables:
                evidence[row.id].score += weight * score
            elif isinstance(row, FieldMetadata) and row.table_id in tables:
                own = evidence[row.table_id]
                # Many columns that match a little say less than one that matches well.
                own.score += weight * score / (1 + len(own.fields)) ** 2
                own.fields.setdefault(row.name, row)
            elif isinstance(row, Source):
                for table_id in of_source[row.id]:
                    evidence[table_id].score += weight * score


def _match_values(
    deps: DataDeps,
    question: str,
    tables: Sequence[TableMetadata],
    narrow: TableFilter,
    evidence: dict[str, _Evidence],
) -> None:
    """Add the values that a question names, by the frequent values of columns."""
    asked = _pad_words(narrow.value if narrow.value is not None else question)
    if not tables:
        return
    fields = list_fields(deps.records, tables[0].organization_id, [table.id for table in tables])
    for table in tables:
        own = evidence[table.id]
        for row in fields[table.id]:
            frequent = [pair[0] for pair in row.metadata.get("top_values", ())]
            for value in (*frequent, *row.sample_values):
                is_named = isinstance(value, str) and len(value) > 2 and _pad_words(value) in asked
                if is_named and (row.name, value) not in own.values:
                    own.score += _PER_VALUE
                    own.values.append((row.name, value))
                    own.fields.setdefault(row.name, row)


def _pad_words(text: str) -> str:
    return f" {' '.join(split_words(text))} "


def _keep_matching(
    deps: DataDeps, tables: dict[str, TableMetadata], narrow: TableFilter, evidence: dict[str, _Evidence]
) -> dict[str, _Evidence]:
    """Return what is known of the tables that have the column and the value asked for."""
    organization = next(iter(tables.values())).organization_id if tables else ""
    fields = list_fields(deps.records, organization, list(tables))
    values = read_table_values(deps, list(tables.values())) if narrow.value is not None else {}
    kept: dict[str, _Evidence] = {}
    for table_id in tables:
        rows = [row for row in fields[table_id] if narrow.field is None or row.name.lower() == narrow.field.lower()]
        if not rows:
            continue
        own = evidence[table_id]
        if narrow.value is not None:
            columns = _find_value(values[table_id], narrow.value, {row.name for row in rows})
            if not columns:
                continue
            own.values = [(column, narrow.value) for column in columns]
            rows = [row for row in rows if row.name in columns]
        own.fields = (
            {row.name: row for row in rows} if narrow.field is not None or narrow.value is not None else own.fields
        )
        kept[table_id] = own
    return kept


def _find_value(stored: Values, value: str, columns: set[str]) -> list[str]:
    """Return the columns of a table that hold a value, whatever its case."""
    asked = _pad_words(value)
    return [
        name
        for name, values in stored.items()
        if name in columns and any(_pad_words(str(each)) == asked for each in values)
    ]
