"""Read JSON, JSON lines and Parquet with DuckDB. Objects inside rows become columns, lists become text."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from everhold.adapters.data_files.context import ReadContext, StoredTable, explain_error
from everhold.adapters.data_files.database import quote_name, quote_text
from everhold.adapters.data_files.encoding import read_text_file
from everhold.adapters.data_files.names import name_columns
from everhold.adapters.data_files.refusal import Refusal

_MAX_DOCUMENT = 64 * 1024 * 1024
_MAX_DEPTH = 32
_MAX_LEVELS = 3  # objects that are nested deeper are stored as text
_BLOCK = 1024 * 1024
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def read_json(context: ReadContext, path: Path, name: str) -> None:
    """Read a list of objects, a sequence of objects without a list, or an object whose values are lists of objects."""
    with context.measure("read"):
        text = read_text_file(path, context.make_path(".json"), has_lines=False)
        context.details.setdefault("encoding", text.encoding)
        context.notes.extend(text.notes)
        _refuse_deep_nesting(text.path)
        for table, source in _find_sources(context, text.path, name):
            _store_relation(context, table, source)


def read_parquet(context: ReadContext, path: Path, name: str) -> None:
    """Read a Parquet file as one table."""
    with context.measure("read"):
        _store_relation(context, name, f"read_parquet({quote_text(str(path))})")


def _refuse_deep_nesting(path: Path) -> None:
    """Refuse JSON that is nested too deeply, before a parser recurses over it."""
    depth = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            outline = _STRINGS.sub(b"", block)
            if outline.count(b"[") + outline.count(b"{") > _MAX_DEPTH:
                for byte in outline:
                    depth += (byte in b"[{") - (byte in b"]}")
                    if depth > _MAX_DEPTH:
                        raise Refusal(f"the JSON is nested deeper than {_MAX_DEPTH} levels", "write it flatter")
            else:
                depth += outline.count(b"[") + outline.count(b"{") - outline.count(b"]") - outline.count(b"}")
            depth = max(depth, 0)  # brackets in a text that two blocks share were counted too


def _find_sources(context: ReadContext, path: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the SQL source of each table in a JSON file."""
    with path.open("rb") as file:
        head = file.read(_BLOCK).lstrip()
    context.check_width(_count_first_keys(head))
    if head.startswith(b"[") or _is_lines(head):
        kind = "array" if head.startswith(b"[") else "newline_delimited"
        yield name, _make_source(path, kind)
        return
    if path.stat().st_size > _MAX_DOCUMENT:
        raise Refusal("the JSON is one large object", "write one object per line, or a list of objects")
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the file is not JSON ({error})", "save it again") from None
    tables = {key: value for key, value in document.items() if _is_list_of_objects(value)}
    context.check_tables(len(tables))
    if not tables:
        tables = {name: [document]}
    for key, rows in tables.items():
        target = context.make_path(".jsonl")
        with target.open("x") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        yield (name if len(tables) == 1 else key), _make_source(target, "newline_delimited")


def _count_first_keys(head: bytes) -> int:
    """Return how many keys the first object has, as far as it is in the first part of the file."""
    start = head.find(b"{")
    first_object = head[start:].partition(b"\n{")[0]
    outline = _STRINGS.sub(b"s", first_object[: first_object.find(b"}") + 1] or first_object)
    return outline.count(b"s:") + outline.count(b"s :")


def _is_lines(head: bytes) -> bool:
    """Return whether the first line of a file is an object that is a row, and not a document with lists of rows."""
    first_line, _, remaining = head.partition(b"\n")
    try:
        row = json.loads(first_line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(row, dict):
        return False
    if remaining.strip():
        return remaining.lstrip().startswith(b"{")
    return not any(map(_is_list_of_objects, row.values()))


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _make_source(path: Path, kind: str) -> str:
    size = min(_MAX_DOCUMENT, max(16 * _BLOCK, path.stat().st_size))
    return (
        f"read_json({quote_text(str(path))}, format={quote_text(kind)}, maximum_depth={_MAX_LEVELS + 1}, "
        f"maximum_object_size={size}, sample_size=20480, map_inference_threshold=-1)"
    )


def _store_relation(context: ReadContext, name: str, source: str) -> None:
    """Write the rows that DuckDB reads from a source as a table, with the nested values as plain columns."""
    try:
        relation = context.connection.sql(f"SELECT * FROM {source}")
        columns = list(_flatten(zip(relation.columns, relation.types, strict=True)))
        context.check_width(len(columns))
        names, notes = name_columns([title for title, _ in columns])
        expressions = ", ".join(
            f"{expression} AS {quote_name(column)}" for column, (_, expression) in zip(names, columns, strict=True)
        )
        path = context.write_parquet(f"SELECT {expressions} FROM {source}")
    except duckdb.Error as error:
        raise explain_error(error) from None
    if any("to_json" in expression for _, expression in columns):
        notes.append("lists inside rows are stored as JSON text")
    original_names = dict(zip(names, (title for title, _ in columns), strict=True))
    context.tables.append(StoredTable(context.name_table(name), path, original_names, notes=tuple(notes)))


def _flatten(columns: Any, prefix: str = "", path: str = "", level: int = 0) -> Iterator[tuple[str, str]]:
    """Yield a title and an expression for each plain column; the fields of an object become columns."""
    for name, kind in columns:
        title, expression = f"{prefix}{name}", f"{path}{quote_name(name)}"
        if kind.id == "struct" and level < _MAX_LEVELS:
            yield from _flatten(kind.children, f"{title}_", f"{expression}.", level + 1)
        elif kind.id in ("struct", "list", "map", "array", "union", "json") or str(kind) == "JSON":
            yield title, f"CAST(to_json({expression}) AS VARCHAR)"
        elif kind.id in ("blob", "bit", "interval", "uuid", "enum", "time", "timetz") or str(kind) == "TIME_NS":
            yield title, f"CAST({expression} AS VARCHAR)"
        elif kind.id in ("hugeint", "uhugeint", "ubigint"):
            yield title, f"CAST({expression} AS DOUBLE)"
        elif kind.id in ("timestamp with time zone", "timestamp_ns", "timestamp_ms", "timestamp_s"):
            yield title, f"CAST({expression} AS TIMESTAMP)"
        else:
            yield title, expression
