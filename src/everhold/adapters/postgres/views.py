"""SQL views in a PostgreSQL database, each preset in its own schema.

A view reads with the rights of the role that queries it (`security_invoker`), so row-level security applies to this
role as it does when it queries the tables.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from everhold.adapters.postgres.connection import connect, translate_errors
from everhold.adapters.postgres.dialect import POSTGRES
from everhold.adapters.postgres.records import PostgresRecords
from everhold.adapters.postgres.schema import lock_schema
from everhold.errors import StoreError, StoreReadOnly
from everhold.ports.sql_views import NOTE_START, DatabaseView, ViewDefinition
from everhold.schema.legacy_views.compiler import ViewDialect, quote_text
from everhold.schema.sql import quote
from everhold.schema.table import Kind

# The roles that may read each view, except its owner.
_READERS = """SELECT n.nspname::text, c.relname::text,
  CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass AND d.objsubid = 0,
  aclexplode(c.relacl) AS a
WHERE c.relkind = 'v' AND starts_with(d.description, %s)
  AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner"""
# The comment on a schema that was created for views, and may be dropped when it is empty.
_SCHEMA_NOTE = "everhold views"

DIALECT = ViewDialect(
    types={**POSTGRES.types, Kind.TEXT: "text", Kind.VECTOR: "vector"},
    values={Kind.VECTOR: "{value}::vector"},
    local_time="({value} AT TIME ZONE INTERVAL '{hours} hours')",
    zoned_time="{value}",
    hex_digest="encode({value}, 'hex')",
    now="now()",
    # PostgreSQL has no stable row number. A hash of the key is stable; the mask makes it positive.
    row_number="(hashtextextended(concat_ws(chr(31), {key}), 0) & 9223372036854775807)",
    words={
        "integer": "bigint",
        "as_json": "to_jsonb",
        "json_object": "jsonb_build_object",
        "json_list": "jsonb_agg",
        "json_merge": "jsonb_concat",
        "empty_list": "'[]'::jsonb",
    },
    # Without a join, PostgreSQL would accept writes to a view of one table. The planner removes this one.
    join=" CROSS JOIN (SELECT 1) AS read_only",
)


class PostgresViews:
    """Views in a PostgreSQL database."""

    dialect = DIALECT
    has_schemas = True

    def __init__(self, records: PostgresRecords) -> None:
        self._records = records
        self._options = records.options

    @property
    def separates_organizations(self) -> bool:
        return self._options.row_security

    @property
    def can_change(self) -> bool:
        is_owner = self._options.owner_url is not None or not self._options.row_security
        return is_owner and not self._options.read_only

    def read_table_schema(self) -> str:
        [[(schema,)]] = self._records.ask([("SELECT current_schema()::text", ())])
        return str(schema)

    def list_views(self) -> list[DatabaseView]:
        sql = """SELECT n.nspname::text, c.relname::text, d.description FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass AND d.objsubid = 0
        WHERE c.relkind = 'v' AND starts_with(d.description, %s) ORDER BY 1, 2"""
        [rows] = self._records.ask([(sql, (NOTE_START,))])
        return [DatabaseView(*row) for row in rows]

    def list_names(self, schema: str) -> set[str]:
        sql = "SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(%s))"
        [rows] = self._records.ask([(sql, (schema,))])
        return {name for (name,) in rows}

    def replace_views(self, dropped: Sequence[DatabaseView], created: Sequence[ViewDefinition]) -> None:
        self._require_owner()
        statements = [*_drop_views(dropped), *self._create_views(created)]
        possibly_empty = {view.schema for view in dropped} - {view.schema for view in created}
        with translate_errors(self._options), connect(self._options.owner) as connection, connection.transaction():
            lock_schema(connection)
            grants = connection.execute(_READERS, [NOTE_START]).fetchall()
            for statement in [*statements, *_restore_grants(grants, created)]:
                connection.execute(statement.encode())
            for schema in sorted(possibly_empty):
                is_unused = """SELECT obj_description(oid, 'pg_namespace') = %s
                AND NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = pg_namespace.oid)
                FROM pg_namespace WHERE nspname = %s"""
                if connection.execute(is_unused, [_SCHEMA_NOTE, schema]).fetchall() == [(True,)]:
                    connection.execute(f"DROP SCHEMA {quote(schema)}".encode())

    def _require_owner(self) -> None:
        if self._options.read_only:
            raise StoreReadOnly(
                f"{self._options.place} was opened read-only", remedy="open it without read_only to change views"
            )
        if not self.can_change:
            raise StoreError(
                f"{self._options.place} has row-level security, so the engine's role may not create or drop views",
                remedy="set postgres.owner_url",
            )

    def _create_views(self, created: Sequence[ViewDefinition]) -> Iterator[str]:
        """Yield the statements that create views, and schemas for them if necessary, and let the engine's role read
        them.
        """
        role = quote(self._records.role)
        for schema in sorted({view.schema for view in created}):
            # A schema that exists already does not get the note, so it is never dropped.
            yield f"""DO $do$ BEGIN
  IF to_regnamespace({quote_text(quote(schema))}) IS NULL THEN
    CREATE SCHEMA {quote(schema)};
    COMMENT ON SCHEMA {quote(schema)} IS {quote_text(_SCHEMA_NOTE)};
  END IF;
END $do$"""
            if self._options.owner_url is not None:
                yield f"GRANT USAGE ON SCHEMA {quote(schema)} TO {role}"
        for view in created:
            name = f"{quote(view.schema)}.{quote(view.name)}"
            yield f"DROP VIEW IF EXISTS {name}"
            yield f"CREATE VIEW {name} WITH (security_invoker = true) AS {view.select}"
            yield f"COMMENT ON VIEW {name} IS {quote_text(view.note)}"
            if self._options.owner_url is not None:
                yield f"GRANT SELECT ON {name} TO {role}"

    def write_script(self, definitions: Sequence[ViewDefinition]) -> str:
        schemas = dict.fromkeys((definitions[0].schema, self.read_table_schema(), "public"))
        return f"SET search_path TO {', '.join(map(quote, schemas))};\n"


def _restore_grants(grants: Sequence[tuple[Any, ...]], created: Sequence[ViewDefinition]) -> Iterator[str]:
    """Yield statements that restore the right to read a view after it was replaced by another of the same name."""
    names = {(view.schema, view.name) for view in created}
    for schema, name, role in grants:
        if (schema, name) in names:
            yield f"GRANT SELECT ON {quote(schema)}.{quote(name)} TO {role}"


def _drop_views(dropped: Sequence[DatabaseView]) -> Iterator[str]:
    for view in dropped:
        yield f"DROP VIEW IF EXISTS {quote(view.schema)}.{quote(view.name)}"
