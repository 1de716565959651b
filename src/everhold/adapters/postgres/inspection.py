"""Queries that check a store for problems that the server does not prevent."""

from collections.abc import Iterator

from everhold.schema.catalog import TABLES
from everhold.schema.sql import quote
from everhold.schema.table import TENANT

INVALID_OBJECTS = """SELECT 'index ' || indexrelid::regclass || ' is not valid; drop it or run REINDEX' FROM pg_index
  JOIN pg_class ON pg_class.oid = indrelid
  WHERE relnamespace = to_regnamespace(quote_ident(current_schema())) AND NOT indisvalid
UNION ALL
SELECT 'trigger ' || tgname || ' on ' || tgrelid::regclass || ' is disabled; enable it' FROM pg_trigger
  JOIN pg_class ON pg_class.oid = tgrelid
  WHERE relnamespace = to_regnamespace(quote_ident(current_schema())) AND tgenabled = 'D'"""


def make_orphan_queries() -> Iterator[str]:
    """Yield a query for each reference that triggers enforce; it returns one line if rows refer to missing rows."""
    for table in TABLES.values():
        for reference in table.references:
            if reference.kind:
                column, value = reference.kind
                pairs = zip((TENANT, *reference.columns), (TENANT, *reference.target_columns), strict=True)
                target_condition = " AND ".join(
                    f"t.{quote(target)} = r.{quote(column_name)}" for column_name, target in pairs
                )
                yield f"""SELECT count(*) || ' rows of {table.name} refer to missing rows of {reference.target}'
FROM {quote(table.name)} AS r WHERE r.{quote(column)} = '{value}'
  AND NOT EXISTS (SELECT 1 FROM {quote(reference.target)} AS t WHERE {target_condition}) HAVING count(*) > 0"""
