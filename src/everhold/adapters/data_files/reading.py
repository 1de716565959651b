"""Read one uploaded file: unpack it, read each table, and describe the tables."""

from pathlib import Path

import duckdb

from everhold.adapters.data_files.containers import UnpackingBudget, count_entries, unpack
from everhold.adapters.data_files.context import ReadContext, explain_error
from everhold.adapters.data_files.delimited import read_delimited
from everhold.adapters.data_files.encoding import read_text_file
from everhold.adapters.data_files.profiling import describe_table
from everhold.adapters.data_files.refusal import Refusal
from everhold.adapters.data_files.trimming import trim_texts
from everhold.ports.data_files import FileContent

_SKIPPED_SUFFIXES = ("txt", "md", "pdf", "html", "png", "jpg", "xml")
_FORMATS = {"text": "CSV", "json": "JSON", "xlsx": "Excel", "parquet": "Parquet", "sqlite": "SQLite"}


def read_file(context: ReadContext, source: Path, name: str) -> FileContent:
    """Write the tables of a file as Parquet and describe them."""
    context.check_tables(count_entries(source))
    budget = UnpackingBudget(source.stat().st_size, context.limits.max_bytes)
    skipped: list[str] = []
    formats: list[str] = []
    for path, inner_name, kind in unpack(source, name, context.folder, budget):
        context.report(f"reading {inner_name}", len(context.tables), None)
        is_single_file = not path.name.startswith("unpacked-")
        try:
            _read_unpacked(context, path, inner_name, kind)
            formats.append(_name_format(kind, inner_name))
        except Refusal as refusal:
            # A readme beside the tables of an archive must not prevent reading them.
            if is_single_file or inner_name.lower().rpartition(".")[2] not in _SKIPPED_SUFFIXES:
                raise
            skipped.append(f"{inner_name!r} was left out: {refusal.fact}")
    if not context.tables:
        raise Refusal("the file holds no table", "choose a file with rows and columns")
    context.details["format"] = ", ".join(dict.fromkeys(formats))
    tables = []
    with context.measure("profile"):
        for number, table in enumerate(context.tables):
            context.report("profiling", number, len(context.tables))
            try:
                tables.append(describe_table(context, trim_texts(context, table)))
            except duckdb.Error as error:
                raise explain_error(error) from None
    return FileContent(context.details, tuple(tables), (*context.notes, *skipped), context.seconds)


def _name_format(kind: str, name: str) -> str:
    if kind == "text" and name.lower().endswith((".tsv", ".tab")):
        return "TSV"
    return "JSONL" if kind == "json" and name.lower().endswith((".jsonl", ".ndjson")) else _FORMATS[kind]


def _read_unpacked(context: ReadContext, path: Path, name: str, kind: str) -> None:
    """Read one file that is not packed."""
    from everhold.adapters.data_files import json_files, sqlite_tables, workbooks

    if kind == "xlsx":
        workbooks.read_workbook(context, path, name)
    elif kind == "sqlite":
        sqlite_tables.read_database(context, path)
    elif kind == "parquet":
        json_files.read_parquet(context, path, name)
    elif kind == "json":
        json_files.read_json(context, path, name)
    else:
        with context.measure("read"):
            text = read_text_file(path, context.make_path(".txt"))
        context.details.setdefault("encoding", text.encoding)
        context.notes.extend(text.notes)
        separator = "\t" if name.lower().endswith((".tsv", ".tab")) else None
        read_delimited(context, text.path, name, separator)
