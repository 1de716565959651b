"""Find the tables that a question is about, by a search in their descriptions and by values."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from everhold.ask.connections.lookup import require_owner
from everhold.ask.connections.summary import ConnectionSummary, summarize_connection
from everhold.ask.language.stems import stem
from everhold.ask.language.tokens import split_words
from everhold.ask.sources.cache import ScopeTables, pad_words
from everhold.ask.sources.content import load_scope, read_table_values
from everhold.ask.sources.deps import DataDeps
from everhold.ask.sources.files import Values
from everhold.ask.sources.lookup import get_owner_id
from everhold.model import FieldMetadata, Scope, Source, TableMetadata
from everhold.model.base import Entity

# Returns rows of one kind that fit a question, each with a score from 0 to 1, best first.
Search = Callable[[str, Scope, str, int], Iterable[tuple[Entity, float]]]

_MAX_HITS = 60
# The weight of a hit of each kind for its table, chosen on sample data.
_WEIGHTS = {"table": 1.0, "field": 0.8, "source": 0.4}
# What a word of the table's name and a value of the table in the question add to its score.
_PER_NAMED_WORD = 0.5
_PER_VALUE = 0.4
_MAX_VALUE_TABLES = 200
_QUESTION_WORDS = frozenset(
    map(stem, ("which", "table", "tables", "column", "columns", "field", "has", "have", "where", "data", "contains",
               "contain", "holds", "file", "files", "about", "information"))
)  # fmt: skip


@dataclass(frozen=True)
class FoundTable:
    """A table that a question may be about, its matching columns, and the values that the question names.

    The table belongs to an uploaded file, `source`, or to a connected database, `connection`.
    """

    table: TableMetadata
    source: Source | None
    score: float
    fields: tuple[FieldMetadata, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    """Pairs of a column and a value that the question names."""
    connection: ConnectionSummary | None = None

    @property
    def origin(self) -> str:
        """The name of the file or of the connection."""
        owner = self.source or self.connection
        return "" if owner is None else owner.name


@dataclass
class _Evidence:
    """The reasons why a question may be about a table: a score, and the columns and values that it names."""

    score: float = 0.0
    fields: dict[str, FieldMetadata] = field(default_factory=dict)
    values: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class TableFilter:
    """Limits of `find_tables`: to a source, a table, tables with a field, and tables with a value."""

    source: str | None = None
    table: str | None = None
    field: str | None = None
    value: str | None = None


def find_tables(
    deps: DataDeps, scope: Scope, question: str, limit: int, table_filter: TableFilter, search: Search
) -> list[FoundTable]:
    """Return the tables of a scope that a question is about and that pass the filter `table_filter`, best first."""
    scope_tables = load_scope(deps, scope)
    tables = _list_candidates(deps, scope, scope_tables, table_filter)
    evidence: dict[str, _Evidence] = defaultdict(_Evidence)
    _search_descriptions(scope, question, search, tables, evidence)
    words = {stem(word) for word in split_words(question)} - _QUESTION_WORDS
    for table_id in tables:
        named = words & scope_tables.names[table_id]
        if named:
            evidence[table_id].score += _PER_NAMED_WORD * len(named)
    best = sorted(evidence, key=lambda table_id: (-evidence[table_id].score, tables[table_id].table_name))
    query_text = table_filter.value if table_filter.value is not None else question
    _match_values(scope_tables, query_text, best[:_MAX_VALUE_TABLES], evidence)
    if table_filter.value is not None or table_filter.field is not None:
        evidence = _keep_matching(deps, scope_tables, tables, table_filter, evidence)
    best = sorted(evidence, key=lambda table_id: (-evidence[table_id].score, tables[table_id].table_name))
    return [
        FoundTable(
            tables[table_id],
            scope_tables.sources.get(str(tables[table_id].source_id)),
            round(evidence[table_id].score, 4),
            tuple(evidence[table_id].fields.values()),
            tuple(dict.fromkeys(evidence[table_id].values)),
            _summarize(scope_tables, tables[table_id]),
        )
        for table_id in best[:limit]
    ]


def _summarize(scope_tables: ScopeTables, table: TableMetadata) -> ConnectionSummary | None:
    connection = scope_tables.connections.get(str(table.connection_id))
    return None if connection is None else summarize_connection(connection)


def _list_candidates(
    deps: DataDeps, scope: Scope, scope_tables: ScopeTables, table_filter: TableFilter
) -> dict[str, TableMetadata]:
    owner = require_owner(deps.records, scope, table_filter.source) if table_filter.source is not None else None
    return {
        table.id: table
        for table in scope_tables.tables
        if (owner is None or get_owner_id(table) == owner.id)
        and (table_filter.table is None or table_filter.table in (table.table_name, table.id))
    }


def _search_descriptions(
    scope: Scope,
    question: str,
    search: Search,
    tables: dict[str, TableMetadata],
    evidence: dict[str, _Evidence],
) -> None:
    """Add the scores of the descriptions that a search finds for the question to the evidence of their tables."""
    ids_by_source = defaultdict(list)
    for table in tables.values():
        ids_by_source[table.source_id].append(table.id)
    for kind, weight in _WEIGHTS.items():
        for row, score in search(question, scope, kind, _MAX_HITS):
            if isinstance(row, TableMetadata) and row.id in tables:
                evidence[row.id].score += weight * score
            elif isinstance(row, FieldMetadata) and row.table_id in tables:
                table_evidence = evidence[row.table_id]
                # Each further column counts less, because many weak matches mean less than one good match.
                table_evidence.score += weight * score / (1 + len(table_evidence.fields)) ** 2
                table_evidence.fields.setdefault(row.name, row)
            elif isinstance(row, Source):
                for table_id in ids_by_source[row.id]:
                    evidence[table_id].score += weight * score


def _match_values(
    scope_tables: ScopeTables, question_words: str, table_ids: Sequence[str], evidence: dict[str, _Evidence]
) -> None:
    """Add to the evidence the frequent values of columns that a question names."""
    words = pad_words(question_words)
    for table_id in table_ids:
        table_evidence = evidence[table_id]
        for frequent in scope_tables.frequent_values[table_id]:
            if frequent.words in words:
                table_evidence.score += _PER_VALUE
                table_evidence.values.append((frequent.field.name, frequent.value))
                table_evidence.fields.setdefault(frequent.field.name, frequent.field)


def _keep_matching(
    deps: DataDeps,
    scope_tables: ScopeTables,
    tables: dict[str, TableMetadata],
    table_filter: TableFilter,
    evidence: dict[str, _Evidence],
) -> dict[str, _Evidence]:
    """Return the evidence of the tables that have the column and the value of the filter, which has at least one."""
    fields = scope_tables.fields
    values = read_table_values(deps, list(tables.values())) if table_filter.value is not None else {}
    matching: dict[str, _Evidence] = {}
    for table_id in tables:
        rows = [
            row
            for row in fields[table_id]
            if table_filter.field is None or row.name.lower() == table_filter.field.lower()
        ]
        if not rows:
            continue
        table_evidence = evidence[table_id]
        if table_filter.value is not None:
            columns = _find_value(values[table_id], table_filter.value, {row.name for row in rows})
            if not columns:
                continue
            table_evidence.values = [(column, table_filter.value) for column in columns]
            rows = [row for row in rows if row.name in columns]
        table_evidence.fields = {row.name: row for row in rows}
        matching[table_id] = table_evidence
    return matching


def _find_value(stored: Values, value: str, columns: set[str]) -> list[str]:
    """Return the columns of a table that have a value, ignoring its case."""
    padded = pad_words(value)
    return [
        name
        for name, values in stored.items()
        if name in columns and any(pad_words(str(stored_value)) == padded for stored_value in values)
    ]
