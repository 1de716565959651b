"""How DuckDB spells things.

Times are kept in UTC without a zone: DuckDB's type with a zone needs an extension to be compared. JSON is kept as the
text that was written, since DuckDB's own type does not tell 1 from 1.0.
"""

from datetime import UTC, datetime

from everhold.schema.codec import decode_json, encode_json
from everhold.schema.sql import Dialect
from everhold.schema.table import Kind


def _without_zone(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)


def _in_utc(moment: datetime) -> datetime:
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
    encoders={Kind.TIME: _without_zone, Kind.JSON: encode_json},
    decoders={Kind.TIME: _in_utc, Kind.JSON: decode_json},
    differs="IS DISTINCT FROM",
    generated="BIGINT",
    among="IN (SELECT unnest(?))",
    bare=True,
)
