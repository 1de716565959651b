"""Load the tables of a scope and the values of their columns, and build the readers of questions about them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

from everhold.ask.profile.build import build_schema
from everhold.ask.reading import QuestionReader
from everhold.ask.schema import ForeignKey
from everhold.ask.sources.cache import IndexedTable, ScopeTables, make_table_key
from everhold.ask.sources.deps import DataDeps
from everhold.ask.sources.files import Values
from everhold.ask.sources.lookup import (
    find_project,
    get_owner_id,
    list_connections,
    list_fields,
    list_sources,
    list_tables,
    read_versions,
)
from everhold.ask.sources.rows import BY_USER
from everhold.ask.values import ValueIndex
from everhold.errors import NotFound, Remedy, Verb
from everhold.model import FieldMetadata, Scope, TableMetadata
from everhold.ports.table_content import ColumnContent, TableContent

_MAX_LABEL_WORDS = 4  # the maximum number of words of a description that is used as a label


def load_scope(deps: DataDeps, scope: Scope) -> ScopeTables:
    """Return the tables that a scope may read, from the cache if their rows have not changed."""
    key = scope.organization, find_project(scope)
    # The versions are read before the rows: if a row changes in between, the next question reads the rows again.
    versions = read_versions(deps.records, scope)
    cached = deps.cache.scopes.get(key)
    if cached is not None and cached[0] == versions:
        return cached[1]
    sources = {source.id: source for source in list_sources(deps.records, scope)}
    connections = {connection.id: connection for connection in list_connections(deps.records, scope)}
    owners = sources.keys() | connections.keys()
    tables = [table for table in list_tables(deps.records, scope) if get_owner_id(table) in owners]
    fields = list_fields(deps.records, scope.organization, [table.id for table in tables])
    columns = {table_id: tuple(rows) for table_id, rows in fields.items()}
    loaded = ScopeTables(tuple(tables), sources, columns, connections)
    deps.cache.scopes.put(key, (versions, loaded), 1 + sum(map(len, fields.values())))
    return loaded


def load_reader(
    deps: DataDeps, scope_tables: ScopeTables, tables: Sequence[TableMetadata], dialect: str
) -> QuestionReader:
    """Return the reader of questions about some tables of a scope, from the cache if it was built before."""
    key = dialect, tuple(map(make_table_key, tables))
    reader = deps.cache.readers.get(key)
    if reader is None:
        indexed = _load_indexed(deps, scope_tables, tables)
        schema = build_schema([table.content for table in indexed], read_foreign_keys(tables))
        reader = QuestionReader(schema, ValueIndex.join(table.values for table in indexed), dialect, deps.synonyms)
        if not any(table.is_partial for table in indexed):
            deps.cache.readers.put(key, reader, 1 + sum(table.text_count for table in indexed))
    return reader


def _load_indexed(deps: DataDeps, scope_tables: ScopeTables, tables: Sequence[TableMetadata]) -> list[IndexedTable]:
    """Return tables with their values. Tables that are not in the cache are read and added to it."""
    indexed = {table.id: deps.cache.tables.get(make_table_key(table)) for table in tables}
    owners = {get_owner_id(table) for table in tables if indexed[table.id] is None}
    # One file has the values of all tables of a source, so all these tables are cached together. The requested tables
    # are added to the cache last, so that they are evicted last.
    missing = [table for table in scope_tables.tables if get_owner_id(table) in owners]
    missing.sort(key=lambda table: table.id in indexed)
    values = read_table_values(deps, missing)
    for table in missing:
        loaded = IndexedTable(
            _make_content(table, scope_tables.fields[table.id], values[table.id]), not values[table.id]
        )
        if not loaded.is_partial:
            deps.cache.tables.put(make_table_key(table), loaded, 1 + loaded.text_count)
        if table.id in indexed:
            indexed[table.id] = loaded
    return [table for table in indexed.values() if table is not None]


def read_foreign_keys(tables: Sequence[TableMetadata]) -> list[ForeignKey]:
    """Return the foreign keys between these tables, as they are recorded in the rows of the tables."""
    names = {table.table_name for table in tables}
    return [
        ForeignKey(table.table_name, key["column"], key["to_table"], key["to_column"], float(key["confidence"]))
        for table in tables
        for key in table.foreign_keys
        if key["to_table"] in names
    ]


def read_contents(deps: DataDeps, tables: Sequence[TableMetadata]) -> list[TableContent]:
    """Return tables with the values of their columns."""
    if not tables:
        return []
    fields = list_fields(deps.records, tables[0].organization_id, [table.id for table in tables])
    values = read_table_values(deps, tables)
    return [_make_content(table, fields[table.id], values[table.id]) for table in tables]


def read_table_values(deps: DataDeps, tables: Sequence[TableMetadata]) -> dict[str, Values]:
    """Return the values of the columns of each table, by the table's id; empty for tables whose file is missing."""
    read = cache(partial(_read_values, deps, tables[0].organization_id)) if tables else None
    values: dict[str, Values] = {}
    for table in tables:
        address, place = table.metadata.get("values"), table.metadata.get("place")
        values[table.id] = {}
        if read is not None and isinstance(address, str) and isinstance(place, int):
            stored = read(get_owner_id(table), address)
            values[table.id] = stored[place] if stored else {}
    return values


def _read_values(deps: DataDeps, organization: str, source_id: str, address: str) -> Sequence[Values]:
    try:
        return deps.files.read_values(organization, source_id, address)
    except NotFound:
        return ()  # the source was imported from a bundle, which has no files


def _make_content(table: TableMetadata, fields: Sequence[FieldMetadata], values: Values) -> TableContent:
    row_count = table.row_count or 0
    return TableContent(
        table.table_name,
        row_count,
        tuple(
            ColumnContent(
                field.name,
                field.data_type,
                tuple(values.get(field.name, field.sample_values)),
                field.distinct_count or 0,
                round((field.null_share or 0.0) * row_count),
                str(field.metadata.get("unit") or ""),
                _find_label(field),
            )
            for field in fields
        ),
        tuple(table.primary_key),
    )


def _find_label(field: FieldMetadata) -> str:
    """Return the description that a user gave a column if it is short enough to be used as its name; else empty."""
    text = (field.description or "").strip().rstrip(".")
    is_label = field.metadata.get("described_by") == BY_USER and len(text.split()) <= _MAX_LABEL_WORDS
    return text if is_label else ""


@contextmanager
def open_tables(deps: DataDeps, tables: Sequence[TableMetadata]) -> Iterator[dict[str, Path]]:
    """Yield the path of a local Parquet file for each table, by the table's name. The files must not be changed."""
    with deps.make_folder() as folder:
        paths = {}
        for number, table in enumerate(tables):
            if table.source_id is not None and isinstance(table.metadata.get("content"), str):
                address = table.metadata["content"]
                target = folder / f"{number}.parquet"
                try:
                    path = deps.files.fetch(table.organization_id, table.source_id, address, target)
                except NotFound as error:
                    raise _make_missing(table) from error
                paths[table.table_name] = path
        yield paths


def _make_missing(table: TableMetadata) -> NotFound:
    remedy = "store the file again with {}; a bundle has no files, but moving a store copies them"
    fact = f"the file with the rows of table {table.table_name!r} is missing"
    return NotFound(fact, value=table.table_name, remedy=Remedy(remedy, Verb("upload")))
