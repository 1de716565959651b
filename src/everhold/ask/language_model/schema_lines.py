"""The part of a schema that a question is about, as lines of a prompt."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from everhold.ask.frame_parts import list_tables
from everhold.ask.language.tokens import tokenize
from everhold.ask.language_model.quoting import quote_line, shorten
from everhold.ask.reading import QuestionReading
from everhold.ask.schema import AskColumn, AskSchema, ColumnRef
from everhold.ask.sources.rows import BY_USER
from everhold.model import FieldMetadata, TableMetadata

_MAX_TABLES: Final = 12
_MAX_SAMPLES: Final = 4
_MAX_NAME: Final = 120  # as uploaded columns have; a longer name cannot be shortened, so the column is left out
_MAX_DESCRIPTION: Final = 160
_MAX_SAMPLE: Final = 40
# A type may list values, as ENUM('a', 'b') does; only its first words are shown.
_TYPE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z_ ]{0,30}")


@dataclass(frozen=True)
class ColumnNote:
    """The part of the prompt about a column, without its name. `samples` are values of cells."""

    data_type: str = ""
    description: str = ""
    samples: tuple[object, ...] = ()


@dataclass(frozen=True)
class SchemaNotes:
    """The parts of the prompt about tables and columns, without their names."""

    tables: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[ColumnRef, ColumnNote] = field(default_factory=dict)


class PromptLine(NamedTuple):
    """A line of the prompt. Lines with a lower rank are chosen first if not all fit."""

    rank: int
    text: str


def make_notes(
    tables: Sequence[TableMetadata], fields: Mapping[str, Sequence[FieldMetadata]], *, sends_values: bool
) -> SchemaNotes:
    """Return the notes of some tables.

    Unless values may be sent, samples are left out, and also the descriptions that the profile wrote, because they
    quote values. Descriptions by users are always sent.
    """
    descriptions = {
        table.table_name: _read_description(table, sends_values=sends_values) for table in tables if table.description
    }
    columns = {
        ColumnRef(table.table_name, field.name): ColumnNote(
            _read_type(field.data_type),
            _read_description(field, sends_values=sends_values),
            tuple(field.sample_values[:_MAX_SAMPLES]) if sends_values else (),
        )
        for table in tables
        for field in fields.get(table.id, ())
    }
    return SchemaNotes(descriptions, columns)


def _read_type(data_type: str) -> str:
    name = _TYPE_NAME.match(data_type)
    return name[0].strip() if name else ""


def _read_description(row: TableMetadata | FieldMetadata, *, sends_values: bool) -> str:
    is_allowed = sends_values or row.metadata.get("described_by") == BY_USER
    return shorten(row.description or "", _MAX_DESCRIPTION) if is_allowed else ""


def choose_tables(schema: AskSchema, question: str, readings: Iterable[QuestionReading]) -> list[str]:
    """Return the tables that a question is about, best first, and after them those that keys connect with these."""
    named = list(dict.fromkeys([*_list_read_tables(schema, readings), *_list_named_tables(schema, question)]))
    tables = (named or [table.name for table in schema.tables])[:_MAX_TABLES]
    connected = {name for table in tables for name, keys in schema.measure_distances(table).items() if keys == 1}
    return [*tables, *sorted(connected - set(tables))][:_MAX_TABLES]


def _list_read_tables(schema: AskSchema, readings: Iterable[QuestionReading]) -> Iterator[str]:
    """Yield the tables of the frames and of the words' meanings."""
    names = {table.name for table in schema.tables}
    owners = {f"{column.table}.{column.name}": column.table for column in schema.columns()}
    for reading in readings:
        if reading.frame is not None:
            yield from (name for name in list_tables(reading.frame) if name in names)
        for meaning in reading.bindings.values():
            yield from (owner for name, owner in owners.items() if meaning == name or meaning.endswith(f" of {name}"))
            if meaning in names:
                yield meaning


def _list_named_tables(schema: AskSchema, question: str) -> Iterator[str]:
    """Yield the tables of which the name, or the name of a column, has a word of the question."""
    stems = {token.stem for token in tokenize(question) if token.kind == "word"}
    yield from (table.name for table in schema.tables if stems.intersection(table.core))
    yield from (column.table for column in schema.columns() if stems.intersection(column.core))


def list_schema_lines(
    schema: AskSchema, tables: Sequence[str], question: str, readings: Sequence[QuestionReading], notes: SchemaNotes
) -> list[PromptLine]:
    """Return a line for each table and each column. Keys and columns that the question names rank before others."""
    stems = {token.stem for token in tokenize(question) if token.kind == "word"}
    meanings = [meaning for reading in readings for meaning in reading.bindings.values()]
    lines = []
    for index, name in enumerate(tables):
        table = schema.table(name)
        if len(name) > _MAX_NAME:
            continue
        if description := notes.tables.get(name):
            lines.append(PromptLine(index, quote_line({"table": name, "description": description})))
        keys = {ref.column for key in schema.keys_at(name) for ref in (key.ref, key.to_ref) if ref.table == name}
        for column in table.columns:
            is_meant = any(meaning.endswith(f"{name}.{column.name}") for meaning in meanings)
            is_named = is_meant or bool(stems.intersection(column.core))
            is_first = is_named or column.name in keys or column.name in (table.key, table.display)
            if len(column.name) <= _MAX_NAME:
                rank = index if is_first else index + len(tables)
                lines.append(PromptLine(rank, _write_column(schema, column, notes.columns.get(column.ref))))
    return lines


def _write_column(schema: AskSchema, column: AskColumn, note: ColumnNote | None) -> str:
    key = schema.foreign_key(column.ref)
    note = note or ColumnNote()
    samples = [shorten(str(value), _MAX_SAMPLE) for value in note.samples if value is not None]
    return quote_line(
        {
            "table": column.table,
            "column": column.name,
            "type": note.data_type or ("number" if column.is_numeric else "text"),
            "kind": column.kind.value,
            "description": note.description or column.label,
            "refers_to": [key.to_table, key.to_column] if key is not None else None,
            "samples": samples,
        }
    )
