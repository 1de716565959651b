"""Make the rows that describe the tables of an uploaded file or a connected database, and their columns."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from everhold import clock
from everhold.ask.profile.keys import find_foreign_keys, find_primary_key
from everhold.ask.profile.kinds import detect_kind
from everhold.ask.profile.names import split_name
from everhold.ask.profile.semantics import detect_semantic_type, find_unit
from everhold.ask.schema import ForeignKey
from everhold.errors import InvalidInput, UnreadableFile
from everhold.model import Connection, FieldMetadata, Source, TableMetadata
from everhold.model.base import Entity
from everhold.model.validation import validate_row
from everhold.ports.data_files import ColumnStatistics
from everhold.ports.databases import ProfiledTable
from everhold.ports.table_content import Cell, ColumnContent, TableContent

E = TypeVar("E", bound=Entity)

# How much of a table the descriptions and the samples in its rows may have.
_MAX_SAMPLES = 8
_MAX_SHOWN_COLUMNS = 40
_MAX_SHOWN_VALUES = 5
_MAX_SHOWN_CHARACTERS = 40
# The author of a description. A user's description is kept when a new version of the file is uploaded.
BY_PROFILE, BY_USER = "profile", "user"


@dataclass(frozen=True)
class DescribedTable:
    """A table and its columns, in their order."""

    table: TableMetadata
    fields: tuple[FieldMetadata, ...]


def make_content(table: ProfiledTable, name: str) -> TableContent:
    """Return the content of a table for the detection of keys and kinds. Its primary key is detected here."""
    content = TableContent(
        name,
        table.row_count,
        tuple(
            ColumnContent(column.name, column.data_type, column.values, column.distinct_count, column.null_count)
            for column in table.columns
        ),
        table.primary_key,
        table.foreign_keys,
    )
    return replace(content, primary_key=find_primary_key(content))


def infer_keys(new: Sequence[TableContent], others: Sequence[TableContent]) -> dict[str, list[dict[str, Any]]]:
    """Return the foreign keys of new tables, and of other tables to new ones, by table, in the form for rows."""
    names = {table.name for table in new}
    keys: dict[str, list[dict[str, Any]]] = {}
    for key in find_foreign_keys([*new, *others]):
        if key.table in names or key.to_table in names:
            keys.setdefault(key.table, []).append(_encode_key(key))
    return keys


def _encode_key(key: ForeignKey) -> dict[str, Any]:
    values = {"column": key.column, "to_table": key.to_table, "to_column": key.to_column}
    return {**values, "confidence": key.confidence, "declared": key.confidence == 1.0}


def make_table_rows(
    owner: Source | Connection,
    table: ProfiledTable,
    content: TableContent,
    keys: Sequence[Mapping[str, Any]],
    files: Mapping[str, Any],
) -> DescribedTable:
    """Return the rows of one table. `files` has the addresses of its content and its values."""
    owner_values = _make_owner_values(owner, owner.updated_at)
    row = _validate(
        TableMetadata,
        id=clock.make_id("tbl"),
        source_id=owner.id if isinstance(owner, Source) else None,
        connection_id=owner.id if isinstance(owner, Connection) else None,
        table_name=content.name,
        description=_describe_table(table),
        row_count=table.row_count,
        primary_key=list(content.primary_key),
        foreign_keys=[dict(key) for key in keys],
        fingerprint=_make_fingerprint(table),
        metadata={**files, "notes": list(table.notes), "described_by": BY_PROFILE},
        **owner_values,
    )
    fields = tuple(
        _make_field(row, number, statistics, column, table.row_count, owner_values)
        for number, (statistics, column) in enumerate(zip(table.columns, content.columns, strict=True))
    )
    return DescribedTable(row, fields)


def _make_owner_values(owner: Source | Connection, now: datetime) -> dict[str, Any]:
    return {
        "organization_id": owner.organization_id,
        "project_id": owner.project_id,
        "created_at": now,
        "updated_at": now,
        "created_by_id": owner.last_updated_by_id,
        "last_updated_by_id": owner.last_updated_by_id,
    }


def _make_field(
    table: TableMetadata,
    position: int,
    statistics: ColumnStatistics,
    column: ColumnContent,
    row_count: int,
    owner_values: Mapping[str, Any],
) -> FieldMetadata:
    """Return the row that describes a column: its kind, unit and statistics.

    `owner_values` are the values that all rows of the data source share, such as the organization.
    """
    words = split_name(column.name)
    kind = detect_kind(column, words, row_count)
    unit = statistics.unit or find_unit(column.name, words)
    details: dict[str, Any] = {"position": position, "described_by": BY_PROFILE, "kind": kind.value}
    if statistics.original_name is not None and statistics.original_name != statistics.name:
        details["original_name"] = _clean(statistics.original_name)
    if unit is not None:
        details["unit"] = unit
    if statistics.quantiles:
        details["quantiles"] = list(statistics.quantiles)
    if statistics.top_values:
        details["top_values"] = [[_clean(value), count] for value, count in statistics.top_values]
    return _validate(
        FieldMetadata,
        id=clock.make_id("fld"),
        table_id=table.id,
        name=column.name,
        data_type=statistics.data_type,
        semantic_type=detect_semantic_type(column, words, kind, unit),
        description=_describe_field(table.table_name, statistics, words, unit),
        nullable=statistics.null_count > 0,
        distinct_count=statistics.distinct_count,
        null_share=statistics.null_count / row_count if row_count else None,
        minimum=_clean(statistics.minimum),
        maximum=_clean(statistics.maximum),
        sample_values=[_clean(value) for value in statistics.values[:_MAX_SAMPLES]],
        metadata=details,
        **owner_values,
    )


def _validate(entity: type[E], **values: Any) -> E:
    """Return a validated row; raise UnreadableFile if the data has names or values that cannot be stored."""
    try:
        return validate_row(entity, values)
    except InvalidInput as error:
        fact = f"the data has a name or a value that cannot be stored: {error.fact}"
        raise UnreadableFile(fact, remedy="change it there") from error


def _clean(value: Cell) -> Any:
    """Return a value that every store can store: without NUL and lone surrogates, and integers within 64 bits."""
    if isinstance(value, str):
        return value.replace("\x00", "").encode("utf-8", "replace").decode()
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def _describe_table(table: ProfiledTable) -> str:
    names = [" ".join(split_name(column.name)) for column in table.columns[:_MAX_SHOWN_COLUMNS]]
    omitted = len(table.columns) - len(names)
    columns = ", ".join(names) + (f" and {omitted} more" if omitted > 0 else "")
    return f"{' '.join(split_name(table.name))}: {table.row_count:,} rows of {columns}"


def _describe_field(table: str, column: ColumnStatistics, words: Sequence[str], unit: str | None) -> str:
    texts = [str(_clean(value))[:_MAX_SHOWN_CHARACTERS] for value in column.values if isinstance(value, str)]
    examples = f", such as {', '.join(texts[:_MAX_SHOWN_VALUES])}" if texts else ""
    in_unit = f" in {unit}" if unit else ""
    return f"{' '.join(words)}{in_unit} of {' '.join(split_name(table))}{examples}"


def _make_fingerprint(table: ProfiledTable) -> str:
    """Return a hash of the names and types of the columns.

    Knowledge of a table is used while this fingerprint is the same.
    """
    columns = "\n".join(f"{column.name}\t{column.data_type}" for column in table.columns)
    return hashlib.sha256(columns.encode("utf-8", "replace")).hexdigest()
