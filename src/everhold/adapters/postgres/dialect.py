"""The SQL dialect of PostgreSQL, its conversions of values, triggers for references by kind, and extra indexes."""

import array
import struct
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8Dumper

from everhold.errors import InvalidInput
from everhold.schema.catalog import OWNER_TABLES
from everhold.schema.codec import decode_json, encode_json
from everhold.schema.sql import Dialect, quote
from everhold.schema.table import TENANT, Kind, Reference, Table

_MIN_INEXACT_FLOAT = 1e16  # Python writes floats from here on with an exponent
# PostgreSQL sends times as microseconds since this moment.
_MILLENNIUM = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECONDS = struct.Struct(">q")
_VECTOR_HEAD = struct.Struct(">HH")


class VectorBytes(bytes):
    """A vector as pgvector sends and receives it: dimensions, two unused bytes, big-endian half-precision numbers."""


def encode_vector(stored: bytes) -> VectorBytes:
    if len(stored) % 2:
        raise InvalidInput(
            f"a vector of {len(stored)} bytes is not made of half-precision numbers", remedy="pass two bytes each"
        )
    numbers = _swap_bytes(stored)
    return VectorBytes(_VECTOR_HEAD.pack(len(numbers), 0) + numbers.tobytes())


def decode_vector(sent: bytes) -> bytes:
    return _swap_bytes(sent[_VECTOR_HEAD.size :]).tobytes()


def _swap_bytes(numbers: bytes) -> "array.array[int]":
    halves = array.array("H", numbers)
    halves.byteswap()
    return halves


def encode_jsonb(value: Any) -> str:
    """Return JSON without exponents. jsonb turns 1e+23 into an integer, which would come back as another type."""
    text = encode_json(value)
    return _write_without_exponents(value) if "e+" in text else text


def _write_without_exponents(value: Any) -> str:
    match value:
        case dict():
            return (
                "{"
                + ",".join(f"{encode_json(key)}:{_write_without_exponents(item)}" for key, item in value.items())
                + "}"
            )
        case list() | tuple():
            return "[" + ",".join(map(_write_without_exponents, value)) + "]"
        case float() if abs(value) >= _MIN_INEXACT_FLOAT:
            return f"{value:.1f}"
        case _:
            return encode_json(value)


POSTGRES = Dialect(
    name="postgres",
    placeholder="%s",
    types={
        Kind.TEXT: 'varchar({width}) COLLATE "C"',
        Kind.INTEGER: "bigint",
        Kind.REAL: "double precision",
        Kind.BOOLEAN: "boolean",
        Kind.TIME: "timestamptz",
        Kind.JSON: "jsonb",
        Kind.BYTES: "bytea",
        Kind.VECTOR: "halfvec",
    },
    unbounded_text='text COLLATE "C"',
    encoders={Kind.JSON: encode_jsonb, Kind.VECTOR: encode_vector},
    decoders={Kind.VECTOR: decode_vector},
    differs="IS DISTINCT FROM",
    generated="bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    among="= ANY(%s)",
)


# conversions: every read uses the binary format


class _VectorDumper(Dumper):
    """Sends a vector without a type number. The server infers the type from the column."""

    format = Format.BINARY

    def dump(self, obj: VectorBytes) -> Buffer:
        return obj


class _TimeLoader(Loader):
    """Loads times in UTC in any time zone of the connection."""

    format = Format.BINARY

    def load(self, data: Buffer) -> datetime:
        return _MILLENNIUM + timedelta(microseconds=_MICROSECONDS.unpack(data)[0])


class _JsonLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        return decode_json(str(memoryview(data)[1:], "utf-8"))


class _Context:
    """Gives psycopg these conversions for the engine's connections only."""

    connection = None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        self.adapters.register_dumper(VectorBytes, _VectorDumper)
        # One type for all integers, so that one prepared statement serves all values.
        self.adapters.register_dumper(int, Int8Dumper)
        self.adapters.register_loader("timestamptz", _TimeLoader)
        self.adapters.register_loader("jsonb", _JsonLoader)


CONTEXT: AdaptContext = _Context()
assert sys.byteorder == "little", "vectors are stored little-endian; this machine is big-endian"


# triggers for references by kind, which a foreign key cannot express


def create_rule_triggers(table: Table) -> Iterator[str]:
    """Yield triggers for references by kind: one checks that the target exists, one deletes the row with its target."""
    for reference in table.references:
        if reference.kind:
            yield from _create_target_check(table, reference, reference.kind)
            yield from _create_cascade(table, reference, reference.kind)


def _create_target_check(table: Table, reference: Reference, kind: tuple[str, str]) -> Iterator[str]:
    name = quote(f"{table.name}_{reference.columns[-1]}_{reference.target}_there")
    target_condition = " AND ".join(f"{target} = NEW.{column}" for column, target in _pair_columns(reference))
    watched_columns = ", ".join(quote(column) for column in (*reference.columns, kind[0]))
    yield f"""CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM {quote(reference.target)} WHERE {target_condition} FOR KEY SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', TABLE = '{table.name}',
      MESSAGE = '{table.name} refers to a row of {reference.target} that is not there';
  END IF;
  RETURN NULL;
END $$"""
    yield f"""CREATE TRIGGER {name} AFTER INSERT OR UPDATE OF {watched_columns} ON {quote(table.name)}
FOR EACH ROW WHEN (NEW.{quote(kind[0])} = '{kind[1]}') EXECUTE FUNCTION {name}()"""


def _create_cascade(table: Table, reference: Reference, kind: tuple[str, str]) -> Iterator[str]:
    name = quote(f"{table.name}_{reference.columns[-1]}_{reference.target}_gone")
    reference_condition = " AND ".join(f"{child} = OLD.{parent}" for child, parent in _pair_columns(reference))
    yield f"""CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM {quote(table.name)} WHERE {reference_condition} AND {quote(kind[0])} = '{kind[1]}';
  RETURN NULL;
END $$"""
    yield f"""CREATE TRIGGER {name} AFTER DELETE ON {quote(reference.target)}
FOR EACH ROW EXECUTE FUNCTION {name}()"""


def _pair_columns(reference: Reference) -> list[tuple[str, str]]:
    pairs = zip((TENANT, *reference.columns), (TENANT, *reference.target_columns), strict=True)
    return [(quote(column), quote(target)) for column, target in pairs]


# extras of PostgreSQL

CURRENT_CHUNKS = '"known_to" IS NULL'

# A term is indexed as a hash of itself, its organization, kind and namespace: rows of other tenants and of other kinds
# are never read, and a term of any length fits.
_WORDS_FUNCTION = """CREATE OR REPLACE FUNCTION "chunk_words"(organization text, kind text, namespace text, terms text)
RETURNS bigint[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT ARRAY(
    SELECT hashtextextended(term, seed)
    FROM hashtextextended(namespace, hashtextextended(kind, hashtextextended(organization, 0))) AS seed,
      unnest(string_to_array(terms, ' ')) AS term
  )
$$"""
# The expression of the word index.
CHUNK_WORDS = '"chunk_words"("organization_id", "owner_kind", "namespace", "terms")'

_EXTRAS = {
    "users": ('CREATE INDEX "in_users_preferences" ON "users" USING gin ("preferences")',),
    "memories": (
        'CREATE INDEX "in_memories_content" ON "memories" USING gin ("content")',
        # a tsvector has at most 1 MB, so only the beginning of a longer text is indexed
        """CREATE INDEX "in_memories_text" ON "memories" USING gin (to_tsvector('english', left("text", 100000)))""",
    ),
    "chunks": (
        'CREATE INDEX "by_chunks_user_id" ON "chunks" ("organization_id", "user_id")',
        f"""CREATE INDEX "current_chunks" ON "chunks" ("organization_id", "owner_kind", "namespace", "user_id", "model")
WHERE {CURRENT_CHUNKS}""",
        _WORDS_FUNCTION,
        f"""CREATE INDEX "in_chunks_terms" ON "chunks" USING gin ({CHUNK_WORDS}) WHERE {CURRENT_CHUNKS}""",
    ),
    "outbox": (
        'ALTER TABLE "outbox" ADD COLUMN "xid" xid8 NOT NULL DEFAULT pg_current_xact_id()',
        'CREATE INDEX "by_outbox_xid" ON "outbox" ("xid", "sequence")',
    ),
}


def list_extras(table: Table) -> tuple[str, ...]:
    """Return the statements that follow the creation of a table."""
    extras = _EXTRAS.get(table.name, ())
    if table.name not in OWNER_TABLES.values():
        return extras
    hidden = f'CREATE INDEX "hidden_{table.name}" ON "{table.name}" ("organization_id", "id") WHERE "is_deleted"'
    return (*extras, hidden)
