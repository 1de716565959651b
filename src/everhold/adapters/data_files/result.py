"""The description of the tables that were read, as the child writes it and the parent reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from everhold.errors import UnreadableFile
from everhold.ports.data_files import ColumnStatistics, FileContent, TableFile
from everhold.ports.table_content import Cell, DeclaredKey


def encode_content(content: FileContent) -> dict[str, Any]:
    """Return a description of a file's tables as JSON objects and lists."""
    document = asdict(content)
    for table in document["tables"]:
        table["path"] = Path(table["path"]).name
    return document


def decode_content(document: Any, folder: Path) -> FileContent:
    """Return the description that a child wrote; raise UnreadableFile if it is not one. The child is not trusted."""
    try:
        tables = tuple(_decode_table(table, folder) for table in document["tables"])
        details = {str(name): str(value) for name, value in document["details"].items()}
        seconds = {str(name): float(value) for name, value in document["seconds"].items()}
        return FileContent(details, tables, _decode_texts(document["notes"]), seconds)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableFile("the file corrupted the process that read it", remedy="save it again") from error


def _decode_table(table: Mapping[str, Any], folder: Path) -> TableFile:
    path = folder / Path(str(table["path"])).name
    if path.is_symlink() or not path.is_file():
        raise ValueError("a table without its file")
    keys = tuple(DeclaredKey(key["column"], key["to_table"], key["to_column"]) for key in table["foreign_keys"])
    return TableFile(
        str(table["name"]),
        path,
        int(table["row_count"]),
        tuple(map(_decode_column, table["columns"])),
        _decode_texts(table["primary_key"]),
        keys,
        _decode_texts(table["notes"]),
    )


def _decode_column(column: Mapping[str, Any]) -> ColumnStatistics:
    return ColumnStatistics(
        str(column["name"]),
        str(column["data_type"]),
        int(column["null_count"]),
        int(column["distinct_count"]),
        _decode_cell(column["minimum"]),
        _decode_cell(column["maximum"]),
        tuple(map(float, column["quantiles"])),
        tuple((_decode_cell(value), int(count)) for value, count in column["top_values"]),
        tuple(map(_decode_cell, column["values"])),
        column["original_name"] and str(column["original_name"]),
        column["unit"] and str(column["unit"]),
    )


def _decode_texts(texts: Sequence[Any]) -> tuple[str, ...]:
    return tuple(map(str, texts))


def _decode_cell(value: Any) -> Cell:
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError("a value that is not a cell")
