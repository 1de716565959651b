"""PostgreSQL: creating, upgrading and refusing schemas."""

import threading

import psycopg
import pytest

from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from everhold.adapters.postgres import schema as postgres_schema
from everhold.adapters.postgres.connection import connect
from everhold.errors import SchemaTooNew, StoreDamaged, StoreError, StoreReadOnly
from everhold.schema.catalog import TABLES
from everhold.schema.changes import CURRENT, VERSIONS
from tests.servers.postgres import PostgresServer

DESCRIPTION = """
SELECT 'column', table_name, column_name, concat(udt_name, character_maximum_length, is_nullable, column_default,
  collation_name) FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
  WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger
  WHERE NOT tgisinternal
ORDER BY 1, 2, 3, 4"""


def describe_schema(url: str) -> list[tuple[str, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(DESCRIPTION).fetchall()


def open_records(url: str) -> PostgresRecords:
    return PostgresRecords(PostgresOptions(url))


def test_an_upgraded_schema_equals_a_new_one(empty_postgres_url: str, postgres_server: PostgresServer) -> None:
    open_records(empty_postgres_url).close()
    upgraded_url = postgres_server.create_database()
    with connect(PostgresOptions(upgraded_url)) as connection:
        connection.execute("CREATE EXTENSION vector")
        postgres_schema.upgrade(connection, 0, VERSIONS)
    assert describe_schema(upgraded_url) == describe_schema(empty_postgres_url)


def test_every_table_exists_with_the_columns_that_only_postgresql_has(empty_postgres_url: str) -> None:
    open_records(empty_postgres_url).close()
    schema = describe_schema(empty_postgres_url)
    assert {table for kind, table, *_ in schema if kind == "column"} == set(TABLES)
    names = {name for kind, _, name, _ in schema if kind == "index"}
    expected = (
        "in_memories_content",
        "in_memories_text",
        "in_users_preferences",
        "in_chunks_terms",
        "by_chunks_user_id",
    )
    assert set(expected) <= names
    text_columns = [row for row in schema if row[0] == "column" and row[3].startswith(("varchar", "text"))]
    assert text_columns
    assert all(row[3].endswith("C") for row in text_columns)


def test_many_engines_may_open_an_empty_database_at_once(empty_postgres_url: str) -> None:
    failures: list[BaseException] = []

    def open_store() -> None:
        try:
            open_records(empty_postgres_url).close()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=open_store) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_newer_schema_is_refused(empty_postgres_url: str) -> None:
    open_records(empty_postgres_url).close()
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("INSERT INTO schema_versions VALUES (%s, 'later', now())", [CURRENT + 1])
    with pytest.raises(SchemaTooNew, match=f"version {CURRENT + 1}, newer than {CURRENT}"):
        open_records(empty_postgres_url)


def test_other_programs_tables_are_left_alone_unless_names_clash(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("CREATE TABLE invoices (id int)")
    open_records(empty_postgres_url).close()
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute("CREATE TABLE users (id int)")
    with pytest.raises(StoreDamaged, match=r"another program with the same names \(users\)"):
        open_records(empty_postgres_url)


def test_a_version_table_of_another_program_is_refused(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("CREATE TABLE schema_versions (version text)")
    with pytest.raises(StoreDamaged, match="schema_versions"):
        open_records(empty_postgres_url)


def test_a_store_can_have_a_schema_of_its_own(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute("CREATE SCHEMA apart")
        connection.execute("CREATE TABLE users (id int)")
    records = open_records(f"{empty_postgres_url}&options=-csearch_path%3Dapart,public")
    assert records.find_problems() == []
    records.close()


def test_an_empty_database_cannot_be_opened_read_only(empty_postgres_url: str) -> None:
    with pytest.raises(StoreReadOnly, match="open it for writing once"):
        PostgresRecords(PostgresOptions(empty_postgres_url, read_only=True))


def test_an_old_pgvector_is_refused(empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_schema, "OLDEST_VECTOR", (99, 0))
    with pytest.raises(StoreError, match=r"install 99\.0 or later"):
        open_records(empty_postgres_url)


def test_an_old_server_is_refused(empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_schema, "OLDEST_SERVER", 990_000)
    with pytest.raises(StoreError, match="use 99 or later"):
        open_records(empty_postgres_url)


def test_problems_of_the_schema_are_reported(empty_postgres_url: str) -> None:
    records = open_records(empty_postgres_url)
    assert records.find_problems() == []
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            """INSERT INTO chunks (organization_id, user_id, owner_id, owner_kind, namespace, model, revision,
            chunk_index, span_start, span_end, terms, dimensions, known_from)
            VALUES ('o', '', 'gone', 'memory', 'long-term', '', 0, 0, 0, 0, '', 0, now())"""
        )
        connection.execute("ALTER TABLE chunks DISABLE TRIGGER chunks_owner_id_memories_there")
    assert records.find_problems() == [
        "1 rows of chunks refer to missing rows of memories",
        "trigger chunks_owner_id_memories_there on chunks is disabled; enable it",
    ]
    records.close()
