"""What questions can be about in a scope: its tables with their values, built from the rows and files of sources."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

from everhold.ask.profile.build import build_schema
from everhold.ask.schema import AskSchema, ForeignKey
from everhold.ask.sources.deps import DataDeps
from everhold.ask.sources.files import Values
from everhold.ask.sources.lookup import list_fields, list_tables
from everhold.ask.sources.rows import BY_USER
from everhold.ask.values import ValueIndex
from everhold.model import FieldMetadata, Scope, TableMetadata
from everhold.ports.table_content import ColumnContent, TableContent

_LONGEST_LABEL = 4  # words


def load_schema(
    deps: DataDeps, scope: Scope, tables: Sequence[TableMetadata] | None = None
) -> tuple[AskSchema, ValueIndex]:
    """Return the schema and the values of the tables of a scope, or of those that are named."""
    chosen = list_tables(deps.records, scope) if tables is None else list(tables)
    contents = read_contents(deps, chosen)
    return build_schema(contents, read_foreign_keys(chosen)), ValueIndex(contents)


def read_foreign_keys(tables: Sequence[TableMetadata]) -> list[ForeignKey]:
    """Return the keys between tables as their rows state them."""
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
    """Return the values of the columns of each table, by the table's id; none for tables that have no file."""
    read = cache(partial(deps.files.read_values, tables[0].organization_id)) if tables else None
    values: dict[str, Values] = {}
    for table in tables:
        address, place = table.metadata.get("values"), table.metadata.get("place")
        values[table.id] = {}
        if read is not None and isinstance(address, str) and isinstance(place, int) and table.source_id is not None:
            values[table.id] = read(table.source_id, address)[place]
    return values


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
    """Return the description that a user gave a column if it is short enough to stand for its name."""
    text = (field.description or "").strip().rstrip(".")
    is_label = field.metadata.get("described_by") == BY_USER and len(text.split()) <= _LONGEST_LABEL
    return text if is_label else ""


@contextmanager
def open_tables(deps: DataDeps, tables: Sequence[TableMetadata]) -> Iterator[dict[str, Path]]:
    """Yield a local Parquet file for each table, by the table's name. The files must not be changed."""
    with deps.make_folder() as folder:
        paths = {}
        for number, table in enumerate(tables):
            if table.source_id is not None and isinstance(table.metadata.get("content"), str):
                address = table.metadata["content"]
                target = folder / f"{number}.parquet"
                paths[table.table_name] = deps.files.fetch(table.organization_id, table.source_id, address, target)
        yield paths
