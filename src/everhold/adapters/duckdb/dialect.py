"""The SQL dialect of DuckDB.

Times are stored in UTC without a zone: DuckDB needs an extension to compare times with a zone. JSON is stored as text,
because DuckDB's JSON type does not distinguish 1 from 1.0.
"""

from datetime import UTC, datetime

from everhold.schema.codec import decode_json, encode_json
from everhold.schema.sql import Dialect
from everhold.schema.table import Kind


def _remove_zone(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)


def _add_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)


DUCKDB = Dialect(
    name="duckdb",
    placeholder="?",
    types={
        Kind.TEXT: "VARCHAR",
        Kind.INTEGER: "BIGINT",
        Kind.REAL: "DOUBLE",
        Kind.BOOLEAN: "BOOLEAN",
        Kind.TIME: "TIMESTAMP",
        Kind.JSON: "VARCHAR",
        Kind.BYTES: "BLOB",
        Kind.VECTOR: "BLOB",
    },
    unbounded_text="VARCHAR",
    encoders={Kind.TIME: _remove_zone, Kind.JSON: encode_json},
    decoders={Kind.TIME: _add_utc, Kind.JSON: decode_json},
    differs="IS DISTINCT FROM",
    generated="BIGINT",
    among="IN (SELECT unnest(?))",
    has_constraints=False,
)
