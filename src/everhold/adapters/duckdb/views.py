"""SQL views in a DuckDB file, each preset in its own schema."""

from collections.abc import Iterator, Sequence

from everhold.adapters.duckdb.dialect import DUCKDB
from everhold.adapters.duckdb.records import DuckdbRecords
from everhold.ports.sql_views import NOTE_START, DatabaseView, ViewDefinition
from everhold.schema.legacy_views.compiler import ViewDialect, quote_text
from everhold.schema.sql import quote
from everhold.schema.statements import SqlStatement
from everhold.schema.table import Kind

_MAIN = "main"
# A vector is stored as little-endian half-precision numbers, which DuckDB has no type for. So each number is computed
# from its bits: sign, five bits of exponent, ten bits of fraction.
_BITS = "('0x' || substr(hex({value}), 4 * i + 3, 2) || substr(hex({value}), 4 * i + 1, 2))::INTEGER"
_NUMBER = """CAST((CASE WHEN b >= 32768 THEN -1 ELSE 1 END) * (CASE WHEN ((b >> 10) & 31) = 0
    THEN (b & 1023) * pow(2, -24) ELSE (1024 + (b & 1023)) * pow(2, ((b >> 10) & 31) - 25) END) AS FLOAT)"""
_VECTOR = f"list_transform(list_transform(range(octet_length({{value}}) // 2), lambda i: {_BITS}), lambda b: {_NUMBER})"

DIALECT = ViewDialect(
    types={**DUCKDB.types, Kind.JSON: "JSON", Kind.VECTOR: "FLOAT[]"},
    values={Kind.JSON: "CAST({value} AS JSON)", Kind.VECTOR: _VECTOR},
    local_time="{value} + INTERVAL '{hours} hours'",
    hex_digest="lower(hex({value}))",
    # Times are stored in UTC without a zone. Converting now(), which has a zone, needs an extension and depends on
    # settings.
    now="make_timestamp(epoch_us(now()))",
    row_number="t.rowid",
    words={
        "integer": "BIGINT",
        "as_json": "json",
        "json_object": "json_object",
        "json_list": "json_group_array",
        "json_merge": "json_merge_patch",
        "empty_list": "'[]'",
    },
)


class DuckdbViews:
    """Views in a DuckDB file."""

    dialect = DIALECT
    has_schemas = True
    separates_organizations = False

    def __init__(self, records: DuckdbRecords) -> None:
        self._records = records

    @property
    def can_change(self) -> bool:
        return not self._records.options.read_only

    def read_table_schema(self) -> str:
        return _MAIN

    def list_views(self) -> list[DatabaseView]:
        sql = """SELECT schema_name, view_name, comment FROM duckdb_views()
        WHERE database_name = current_database() AND starts_with(comment, ?) ORDER BY ALL"""
        return [DatabaseView(*row) for row in self._records.query(sql, (NOTE_START,))]

    def list_names(self, schema: str) -> set[str]:
        sql = """SELECT table_name FROM information_schema.tables
        WHERE table_catalog = current_database() AND lower(table_schema) = lower(?)"""
        return {name for (name,) in self._records.query(sql, (schema,))}

    def replace_views(self, dropped: Sequence[DatabaseView], created: Sequence[ViewDefinition]) -> None:
        [(catalog,)] = self._records.query("SELECT current_database()", ())
        self._records.run_schema_statements(
            [SqlStatement(sql, ()) for sql in self._list_statements(catalog, dropped, created)]
        )

    def _list_statements(
        self, catalog: str, dropped: Sequence[DatabaseView], created: Sequence[ViewDefinition]
    ) -> Iterator[str]:
        """Yield the statements that drop views, create others, and drop the schemas that are then empty."""
        # Each name includes the catalog: a file named like a schema would make shorter names ambiguous.
        prefix = quote(catalog.replace('"', '""'))
        for view in dropped:
            yield f"DROP VIEW IF EXISTS {prefix}.{quote(view.schema)}.{quote(view.name)}"
        for schema in sorted({view.schema for view in created}):
            yield f"CREATE SCHEMA IF NOT EXISTS {prefix}.{quote(schema)}"
        for definition in created:
            name = f"{prefix}.{quote(definition.schema)}.{quote(definition.name)}"
            yield f"CREATE OR REPLACE VIEW {name} AS {definition.select}"
            yield f"COMMENT ON VIEW {name} IS {quote_text(definition.note)}"
        dropped_names = {(view.schema, view.name) for view in dropped}
        for schema in sorted({view.schema for view in dropped} - {view.schema for view in created} - {_MAIN}):
            if self.list_names(schema) <= {name for dropped_schema, name in dropped_names if dropped_schema == schema}:
                yield f"DROP SCHEMA {prefix}.{quote(schema)}"

    def write_script(self, definitions: Sequence[ViewDefinition]) -> str:
        return f"USE {quote(definitions[0].schema)};\n"
