"""SQL views in a SQLite file. SQLite has no schemas, so they are in the schema of the tables."""

import re
from collections.abc import Sequence

from everhold.adapters.sqlite.dialect import SQLITE
from everhold.adapters.sqlite.records import SqliteRecords
from everhold.ports.sql_views import NOTE_START, DatabaseView, ViewDefinition
from everhold.schema.legacy_views.compiler import ViewDialect
from everhold.schema.sql import quote
from everhold.schema.statements import SqlStatement
from everhold.schema.table import Kind

_MAIN = "main"
# SQLite has no COMMENT ON VIEW, but stores a view's SQL as written, so the note is a comment in the SQL.
_NOTE = re.compile(rf"/\* ({NOTE_START}.*?) \*/", re.DOTALL)
_MICROS = 1_000_000

DIALECT = ViewDialect(
    types={**SQLITE.types, Kind.VECTOR: "BLOB"},
    values={},
    # Text in the format of CURRENT_TIMESTAMP, with microseconds. The sum inside rounds times before 1970 down:
    # SQLite's % is negative for a negative number.
    local_time=(
        f"strftime('%Y-%m-%d %H:%M:%S', ({{value}} - (({{value}} % {_MICROS} + {_MICROS}) % {_MICROS})) / {_MICROS}, "
        f"'unixepoch', '{{hours}} hours') || printf('.%06d', ({{value}} % {_MICROS} + {_MICROS}) % {_MICROS})"
    ),
    hex_digest="lower(hex({value}))",
    # 2440587.5 is the Julian day of 1970-01-01; julianday() is exact to the millisecond.
    now="CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000",
    row_number='t."row"',
    words={
        "integer": "INTEGER",
        "as_json": "json",
        "json_object": "json_object",
        "json_list": "json_group_array",
        "json_merge": "json_patch",
        "empty_list": "'[]'",
    },
    true=SQLITE.true,
    false=SQLITE.false,
)


class SqliteViews:
    """Views in a SQLite file."""

    dialect = DIALECT
    has_schemas = False
    separates_organizations = False

    def __init__(self, records: SqliteRecords) -> None:
        self._records = records

    @property
    def can_change(self) -> bool:
        return not self._records.options.read_only

    def read_table_schema(self) -> str:
        return _MAIN

    def list_views(self) -> list[DatabaseView]:
        rows = self._records.query("SELECT name, sql FROM sqlite_master WHERE type = 'view' ORDER BY name", ())
        notes = [(name, _NOTE.search(sql)) for name, sql in rows]
        return [DatabaseView(_MAIN, name, match[1]) for name, match in notes if match]

    def list_names(self, schema: str) -> set[str]:
        return {name for (name,) in self._records.query("SELECT name FROM sqlite_master", ())}

    def replace_views(self, dropped: Sequence[DatabaseView], created: Sequence[ViewDefinition]) -> None:
        names = dict.fromkeys([*(view.name for view in dropped), *(view.name for view in created)])
        statements = [f"DROP VIEW IF EXISTS {quote(name)}" for name in names]
        statements += [f"CREATE VIEW {quote(view.name)} AS /* {view.note} */\n{view.select}" for view in created]
        self._records.run_schema_statements([SqlStatement(sql, ()) for sql in statements])

    def write_script(self, definitions: Sequence[ViewDefinition]) -> str:
        # Temporary views hide tables of the same name from the connection that creates them.
        return "".join(f"CREATE TEMP VIEW {quote(view.original_name)} AS\n{view.select};\n" for view in definitions)
