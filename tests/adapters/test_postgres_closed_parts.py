"""PostgreSQL: the engine's role cannot reach partitions and rule tables directly under row-level security.

Here the database grants the role everything on all that its owner creates.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from everhold import clock
from everhold.adapters.postgres import PostgresOptions, PostgresRecords, partitions
from everhold.adapters.postgres.partitions import list_partitions
from everhold.errors import StoreError
from everhold.model import Memory, Organization
from everhold.schema.operations import Put
from tests.adapters.test_postgres_partitions import (
    NOW,
    SAME_HASH,
    drop_partition,
    make_chunk,
    make_memory,
    name_partition,
)
from tests.servers.postgres import PostgresServer
from tests.servers.shared_database import SharedDatabase

# All tests run in one process, because they share a database that takes seconds to prepare.
pytestmark = pytest.mark.xdist_group("partitions")


@pytest.fixture(scope="session")
def closed_database(postgres_server: PostgresServer) -> SharedDatabase:
    """A database with partitions whose owner gives another role all rights by default."""
    for role in ("application", "keeper"):
        postgres_server.create_role(role)
    return SharedDatabase(postgres_server, grant_and_make_options)


def grant_and_make_options(url: str) -> PostgresOptions:
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("CREATE EXTENSION vector")
        session.execute("GRANT ALL ON SCHEMA public TO keeper")
        for kind in ("TABLES", "FUNCTIONS"):
            grant = f"ALTER DEFAULT PRIVILEGES FOR ROLE keeper GRANT ALL ON {kind} TO application"
            session.execute(grant.encode())
    return make_options(url)


def make_options(url: str) -> PostgresOptions:
    role_url, owner_url = (url.replace("postgres@", f"{role}@") for role in ("application", "keeper"))
    return PostgresOptions(role_url, partitions="month", row_security=True, owner_url=owner_url)


@pytest.fixture
def options(closed_database: SharedDatabase) -> PostgresOptions:
    return make_options(closed_database.provide())


@pytest.fixture
def records(options: PostgresOptions) -> Iterator[PostgresRecords]:
    records = PostgresRecords(options)
    records.commit([Put(Organization(id="o", name="o", created_at=NOW, updated_at=NOW))])
    records.commit(
        [Put(make_memory("m", hash=SAME_HASH)), Put(make_memory(clock.make_id("mem"))), Put(make_chunk("m"))]
    )
    yield records
    records.close()


def list_tables_of_parts(options: PostgresOptions) -> list[str]:
    with psycopg.connect(options.owner.url) as session:
        parts = [name for table in partitions.PARTITION_COLUMNS for name in list_partitions(session, table)]
    return [*parts, *partitions.RULE_TABLES]


def test_no_partition_or_rule_table_can_be_reached_by_name(records: PostgresRecords, options: PostgresOptions) -> None:
    with psycopg.connect(options.owner.url, autocommit=True) as session:
        drop_partition(session, "memories", name_partition("memories", 2, 3))
    records.maintain()
    names = list_tables_of_parts(options)
    assert name_partition("memories", 2, 3) in names  # a partition that maintenance has made
    for name in names:
        for attempt in ("SELECT * FROM", "DELETE FROM", "TRUNCATE"):
            with psycopg.connect(options.url) as session:
                session.execute("SELECT set_config('everhold.everything', 'on', true)")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    session.execute(f'{attempt} "{name}"'.encode())
    assert records.find_problems() == []
    assert records.count(Memory, "o") == 2


def test_rows_stay_hidden_even_if_select_is_granted(records: PostgresRecords, options: PostgresOptions) -> None:
    names = list_tables_of_parts(options)
    with psycopg.connect(options.owner.url) as session:
        for name in names:
            session.execute(f'GRANT SELECT ON "{name}" TO application'.encode())
    with psycopg.connect(options.url) as session:
        for name in names:
            assert session.execute(f'SELECT count(*) FROM "{name}"'.encode()).fetchone() == (0,)


@pytest.mark.parametrize(
    ("opening_statement", "message"),
    [
        ('GRANT SELECT ON "memories@default" TO application', r'table "memories@default" is open to role'),
        ("GRANT SELECT ON taken_memories_hash TO PUBLIC", "table taken_memories_hash is open to role"),
        ('ALTER TABLE "chunks@3" DISABLE ROW LEVEL SECURITY', 'table "chunks@3" is open to role'),
        ("CREATE POLICY p ON taken_memories_hash USING (true)", "table taken_memories_hash is open to role"),
        ("ALTER FUNCTION keep_memories_hash() RESET search_path", r"function keep_memories_hash\(\) runs as"),
        ("GRANT EXECUTE ON FUNCTION keep_memories_hash() TO PUBLIC", r"function keep_memories_hash\(\) runs as"),
    ],
)
def test_the_doctor_reports_open_objects_and_the_owner_closes_them(
    records: PostgresRecords, options: PostgresOptions, opening_statement: str, message: str
) -> None:
    with psycopg.connect(options.owner.url) as session:
        session.execute(opening_statement.encode())
    [problem] = records.find_problems()
    assert re.match(message, problem)
    with pytest.raises(StoreError, match=message):
        PostgresRecords(replace(options, owner_url=None))
    PostgresRecords(options).close()
    assert records.find_problems() == []


def test_a_temporary_table_does_not_replace_a_rule_table(records: PostgresRecords, options: PostgresOptions) -> None:
    with psycopg.connect(options.url) as session:
        session.execute("CREATE TEMPORARY TABLE taken_memories_hash (LIKE memories)")
        session.execute("GRANT ALL ON taken_memories_hash TO PUBLIC")
        session.execute("SELECT set_config('everhold.organization', 'o', true)")
        session.execute("UPDATE memories SET hash = %s WHERE id <> 'm'", [bytes(15) + b"x"])
        assert session.execute("SELECT count(*) FROM pg_temp.taken_memories_hash").fetchone() == (0,)
    with psycopg.connect(options.owner.url) as session:
        assert session.execute("SELECT count(*) FROM taken_memories_hash").fetchone() == (2,)


def test_the_owners_functions_cannot_be_made_triggers_of_other_tables(
    records: PostgresRecords, options: PostgresOptions
) -> None:
    with psycopg.connect(options.url) as session:
        session.execute("CREATE TEMPORARY TABLE mine (organization_id text, hash bytea, id text)")
        for function in partitions.RULE_TABLES.values():
            with pytest.raises(psycopg.errors.InsufficientPrivilege), session.transaction():
                session.execute(
                    f"CREATE TRIGGER t AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION {function}()".encode()
                )
