"""Remove the spaces around texts, so that the keys of two tables match, and values match the words of questions."""

from dataclasses import replace

from everhold.adapters.data_files.context import ReadContext, StoredTable
from everhold.adapters.data_files.database import quote_name, quote_text
from everhold.adapters.data_files.names import list_names

_SPACES = quote_text(" \t\r\n\u00a0")
_SHOWN_NAMES = 3


def trim_texts(context: ReadContext, table: StoredTable) -> StoredTable:
    """Return a table whose texts have no spaces around them, with a note if some had."""
    source = f"read_parquet({quote_text(str(table.path))})"
    headings = context.connection.execute(f"SELECT * FROM {source} LIMIT 0").description or ()
    text_columns = [str(heading[0]) for heading in headings if str(heading[1]) == "VARCHAR"]
    if not text_columns:
        return table
    tests = ", ".join(f"bool_or({quote_name(name)} <> {_trim(name)})" for name in text_columns)
    results = context.connection.execute(f"SELECT {tests} FROM {source}").fetchall()[0]
    padded_columns = [name for name, is_padded in zip(text_columns, results, strict=True) if is_padded]
    if not padded_columns:
        return table
    replacements = ", ".join(f"{_trim(name)} AS {quote_name(name)}" for name in padded_columns)
    path = context.write_parquet(f"SELECT * REPLACE ({replacements}) FROM {source}")
    table.path.unlink()
    note = f"spaces around values of {list_names(padded_columns, _SHOWN_NAMES)} were removed"
    return replace(table, path=path, notes=(*table.notes, note))


def _trim(name: str) -> str:
    return f"trim({quote_name(name)}, {_SPACES})"
