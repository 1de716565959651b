"""One PostgreSQL database for many tests, because copying a database takes longer than most tests."""

from collections.abc import Callable
from typing import Final

import psycopg

from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from tests.servers.postgres import PostgresServer

# Triggers and foreign keys are off, so that the tables can be emptied one by one. Sessions that a test left open are
# ended first, because they could hold locks. Tests add rows to `schema_versions` from version 1000 on.
EMPTY: Final = b"""
    SET session_replication_role = replica;
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
    DO $$
    DECLARE name text;
    BEGIN
        FOR name IN
            SELECT oid::regclass FROM pg_class
            WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'schema_versions'
        LOOP EXECUTE 'DELETE FROM ' || name; END LOOP;
    END $$;
    DELETE FROM schema_versions WHERE version >= 1000;
    SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S';
"""
CATALOGS: Final = (
    "pg_class", "pg_attribute", "pg_attrdef", "pg_constraint", "pg_index", "pg_trigger", "pg_policy", "pg_proc",
    "pg_type", "pg_namespace", "pg_extension", "pg_default_acl", "pg_db_role_setting",
    "schema_versions WHERE version < 1000",
)  # fmt: skip
# Any change of the schema adds a row with a later transaction to one of these catalogs, or removes a row.
FINGERPRINT: Final = " UNION ALL ".join(
    f"SELECT count(*), max(xmin::text::bigint) FROM {name}" for name in CATALOGS
).encode()


class SharedDatabase:
    """A database with the schema. `provide` empties it, or copies it again if a test has changed the schema.

    `make_options` returns the options for an address. It is called before the schema is created, so it may prepare the
    database.
    """

    def __init__(
        self, server: PostgresServer, make_options: Callable[[str], PostgresOptions] = PostgresOptions
    ) -> None:
        self._server = server
        self._template = server.create_database()
        PostgresRecords(make_options(self._template)).close()
        self._copy_template()

    def _copy_template(self) -> None:
        self._url = self._server.create_database(template=read_database_name(self._template))
        with psycopg.connect(self._url) as connection:
            self._schema = connection.execute(FINGERPRINT).fetchall()

    def provide(self) -> str:
        """Return the address of the database, which has the schema and no row."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            is_unchanged = connection.execute(FINGERPRINT).fetchall() == self._schema
            if is_unchanged:
                connection.execute(EMPTY)
        if not is_unchanged:
            self._server.drop_database(read_database_name(self._url))
            self._copy_template()
        return self._url


def read_database_name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]
