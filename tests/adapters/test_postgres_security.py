"""PostgreSQL: the database itself keeps organizations apart, even if the engine's statements do not."""

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from benchmarks.tenancy_fuzz import WEIGHTS, run
from everhold import Everhold, clock, parts, settings
from everhold.adapters.postgres import PostgresCandidates, PostgresOptions, PostgresRecords
from everhold.adapters.postgres.privileges import PRIVILEGES
from everhold.adapters.postgres.reading import PostgresReading
from everhold.errors import AlreadyExists, StaleVersion, StoreError
from everhold.model import AccessLog, Chunk, Lease, Memory, Organization, Outbox, ProjectionState, Secret, Tag
from everhold.model.base import Row
from everhold.ports.search_indexes import SearchIndexes
from everhold.schema.catalog import TABLES, get_table
from everhold.schema.operations import Delete, Hide, Increment, Op, Patch, Put, Unhide, Where
from everhold.schema.sql import quote
from everhold.schema.statements import CompiledConditions, Compiler, SqlStatement
from everhold.schema.table import Table
from everhold.sessions.secret import load_secret
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import CALM
from tests.exhaustive import choose_size
from tests.servers.postgres import PostgresServer
from tests.servers.shared_database import SharedDatabase

# All tests run in one process, because they share a database that takes seconds to prepare.
pytestmark = pytest.mark.xdist_group("row security")

NOW = clock.now()
ATTEMPTS = choose_size(500, 2000)
SAME_HASH = bytes(16)


@pytest.fixture(scope="session")
def secured_database(postgres_server: PostgresServer) -> SharedDatabase:
    """A database under row security."""
    postgres_server.create_role("application")
    return SharedDatabase(postgres_server, make_secured_options)


def make_secured_options(url: str) -> PostgresOptions:
    return PostgresOptions(url.replace("postgres@", "application@"), row_security=True, owner_url=url)


@pytest.fixture
def options(secured_database: SharedDatabase) -> PostgresOptions:
    return make_secured_options(secured_database.provide())


@pytest.fixture
def empty_options(postgres_server: PostgresServer, empty_postgres_url: str) -> PostgresOptions:
    """Options for a database without any table."""
    postgres_server.create_role("application")
    return make_secured_options(empty_postgres_url)


def make_organization(name: str) -> Organization:
    return Organization(id=name, name=name, created_at=NOW, updated_at=NOW)


def make_memory(name: str, owner: str = "acme", **fields: Any) -> Memory:
    return Memory(id=name, organization_id=owner, text=f"{name} of {owner}", created_at=NOW, updated_at=NOW, **fields)


def make_tag(memory_id: str, owner: str) -> Tag:
    return Tag(organization_id=owner, memory_id=memory_id, tag=owner, created_at=NOW, updated_at=NOW)


def make_chunk(owner: str) -> Chunk:
    terms = f"word{owner} common"
    return Chunk(organization_id="acme", owner_id=owner, span_start=0, span_end=1, terms=terms, known_from=NOW)


class CarelessCompiler(Compiler):
    """Reads that leave the organization out of every condition."""

    def _match_key(self, table: Table) -> str:
        placeholder = self.dialect.placeholder
        names = [
            f"{placeholder}::text IS NOT NULL" if name == table.tenant else f"{quote(name)} = {placeholder}"
            for name in table.key
        ]
        return " AND ".join(names)

    def compile_get(
        self, entity: type[Row], organization_id: str, ids: Sequence[str], *, deleted: bool
    ) -> SqlStatement:
        sql, values, *_ = super().compile_get(entity, organization_id, ids, deleted=deleted)
        tenant = f"{quote(get_table(entity).tenant or '')} = %s AND "
        assert tenant in sql
        return SqlStatement(sql.replace(tenant, ""), values[1:])

    def compile_conditions(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Where], *, deleted: bool = False
    ) -> CompiledConditions:
        return super().compile_conditions(entity, None, where, deleted=deleted)


class CarelessRecords(PostgresRecords):
    """A store whose own filter is switched off."""

    def __init__(self, options: PostgresOptions) -> None:
        super().__init__(options)
        self.compiler = CarelessCompiler(self.dialect)


@pytest.fixture
def records(options: PostgresOptions) -> Iterator[PostgresRecords]:
    records = CarelessRecords(options)
    records.commit([Put(make_organization(name)) for name in ("acme", "bolt")])
    records.commit([Put(make_memory("m", name, hash=SAME_HASH)) for name in ("acme", "bolt")])
    yield records
    records.close()


class TestWithoutTheEnginesOwnFilter:
    def test_reads_show_only_the_own_organization(self, records: PostgresRecords) -> None:
        records.commit([Put(make_memory("theirs", "bolt"))])
        assert records.get(Memory, "acme", ["m", "theirs"]).keys() == {"m"}
        assert [row.organization_id for row in records.scan(Memory, "acme")] == ["acme"]
        assert list(records.columns(Memory, "acme", ["organization_id", "id"])) == [("acme", "m")]
        assert records.count(Memory, "bolt", deleted=True) == 2
        assert [row.id for row in records.scan(Organization, "acme")] == ["acme"]

    def test_the_engines_filter_is_really_off(self, empty_postgres_url: str) -> None:
        records = CarelessRecords(PostgresOptions(empty_postgres_url))
        records.commit([Put(make_organization(name)) for name in ("acme", "bolt")])
        records.commit([Put(make_memory("theirs", "bolt"))])
        assert records.get(Memory, "acme", ["theirs"])
        assert records.count(Memory, "acme") == 1
        records.commit([Patch(Memory, ("acme", "theirs"), {"text": "mine"})])
        assert records.scan(Memory, "bolt")[0].text == "mine"
        records.close()

    def test_writes_change_only_the_own_organization(self, records: PostgresRecords) -> None:
        records.commit([Put(make_memory("theirs", "bolt"))])
        own_key = ("acme", "m")
        records.commit([Patch(Memory, own_key, {"text": "mine"}), Increment(Memory, own_key, {"revision": 1})])
        records.commit([Hide(Memory, ("acme", "theirs"), "del_1", NOW), Delete(Memory, ("acme", "theirs"))])
        with pytest.raises(StaleVersion):
            records.commit([Patch(Memory, ("acme", "theirs"), {"text": "mine"})])
        memories = {(row.organization_id, row.id): row for row in records.scan(Memory, None, deleted=True)}
        assert memories.keys() == {("acme", "m"), ("bolt", "m"), ("bolt", "theirs")}
        assert memories["acme", "m"].text == "mine"
        assert [memories["bolt", name].text for name in ("m", "theirs")] == ["m of bolt", "theirs of bolt"]
        assert not memories["bolt", "theirs"].is_deleted

    def test_a_commit_may_write_to_several_organizations(self, records: PostgresRecords) -> None:
        patches = [Patch(Memory, (name, "m"), {"text": name}) for name in ("acme", "bolt")]
        records.commit(
            [
                *patches,
                Put(ProjectionState(projection="p", generation=1, status="serving")),
                Hide(Memory, ("bolt", "m"), "del_1", NOW),
            ]
        )
        assert records.get(Memory, "acme", ["m"])["m"].text == "acme"
        assert records.get(Memory, "bolt", ["m"]) == {}
        records.commit([Unhide("acme", "del_1"), Patch(ProjectionState, ("p", 1), {"status": "retired"})])
        assert records.get(Memory, "bolt", ["m"]) == {}
        records.commit([Unhide("bolt", "del_1")])
        assert records.get(Memory, "bolt", ["m"])["m"].text == "bolt"

    def test_random_attempts_neither_read_nor_change_another_organization(self, options: PostgresOptions) -> None:
        loaded_settings = settings.load(
            options.url, postgres={"row_security": True, "owner_url": options.owner_url}, **CALM
        )
        records = CarelessRecords(options)
        candidates = PostgresCandidates(records)
        embedder = FakeEmbedder()
        engine_parts = parts.assemble(
            loaded_settings, records, SearchIndexes(candidates, candidates), embedder, embedder
        )
        with Everhold(engine_parts) as engine:
            outcome = run(engine, ATTEMPTS)
            assert outcome.findings == []
            common = {attempt.__name__ for attempt, weight in WEIGHTS.items() if weight >= 0.5}
            assert common <= outcome.tried.keys(), "a common kind of attempt was never tried"
            assert outcome.own_rows_read > ATTEMPTS, "the attempts did not find rows of their own organization"
            assert engine.doctor().problems == []
            assert engine.doctor().parts["row security"] == "in force for role application"
            engine.maintain()


class TestFailingClosed:
    def test_a_transaction_without_an_organization_sees_and_writes_nothing(
        self, records: PostgresRecords, options: PostgresOptions
    ) -> None:
        records.commit([Put(Outbox(organization_id="acme", entity="memories", entity_id="m", operation="put"))])
        with psycopg.connect(options.url, autocommit=True) as session:
            for table in TABLES.values():
                if table.tenant:
                    assert session.execute(f"SELECT count(*) FROM {quote(table.name)}".encode()).fetchone() == (0,)
            assert session.execute("UPDATE memories SET text = 'x'").rowcount == 0
            assert session.execute("DELETE FROM organizations").rowcount == 0
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                session.execute(
                    "INSERT INTO outbox (organization_id, user_id, entity, entity_id, operation, generation)"
                    " VALUES ('acme', '', 'memories', 'm', 'put', 0)"
                )
        assert records._fetch("SELECT count(*) FROM memories", ()) == [(0,)]

    def test_a_transaction_for_everything_reads_all_rows_and_writes_none(
        self, records: PostgresRecords, options: PostgresOptions
    ) -> None:
        with psycopg.connect(options.url) as session:
            session.execute("SELECT set_config('everhold.everything', 'on', true)")
            assert session.execute("SELECT count(*) FROM memories").fetchone() == (2,)
            assert session.execute("UPDATE memories SET text = 'x'").rowcount == 0
            assert session.execute("DELETE FROM memories").rowcount == 0
            session.commit()
            # The setting ended with the transaction.
            assert session.execute("SELECT count(*) FROM memories").fetchone() == (0,)

    def test_a_row_cannot_move_to_another_organization(
        self, records: PostgresRecords, options: PostgresOptions
    ) -> None:
        with psycopg.connect(options.url) as session:
            session.execute("SELECT set_config('everhold.organization', 'acme', true)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                session.execute("UPDATE memories SET organization_id = 'bolt', id = 'moved'")

    @pytest.mark.parametrize(
        "attempt",
        [
            "ALTER TABLE memories DISABLE ROW LEVEL SECURITY",
            "ALTER TABLE memories NO FORCE ROW LEVEL SECURITY",
            "DROP POLICY own ON memories",
            "CREATE POLICY all_of_it ON memories USING (true)",
            "ALTER TABLE memories OWNER TO application",
            "SET ROLE postgres",
            "SET SESSION AUTHORIZATION postgres",
            "TRUNCATE memories",
            "SET row_security = off; SELECT * FROM memories",
        ],
    )
    def test_the_role_cannot_switch_row_security_off(
        self, records: PostgresRecords, options: PostgresOptions, attempt: str
    ) -> None:
        with psycopg.connect(options.url) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(attempt.encode())

    def test_row_security_applies_to_the_owner_too(
        self, postgres_server: PostgresServer, empty_options: PostgresOptions
    ) -> None:
        postgres_server.create_role("keeper")
        with psycopg.connect(empty_options.owner.url, autocommit=True) as session:
            session.execute("CREATE EXTENSION vector")
            session.execute("GRANT ALL ON SCHEMA public TO keeper")
        owner_url = empty_options.owner.url.replace("postgres@", "keeper@")
        records = PostgresRecords(replace(empty_options, owner_url=owner_url))
        records.commit([Put(make_organization("acme")), Put(make_memory("m"))])
        with psycopg.connect(owner_url) as session:
            assert session.execute("SELECT count(*) FROM memories").fetchone() == (0,)
        records.maintain()
        assert records.find_problems() == []
        records.close()


class TestNoMoreThanItNeeds:
    def test_the_role_has_exactly_its_rights_on_every_table(
        self, records: PostgresRecords, options: PostgresOptions
    ) -> None:
        with psycopg.connect(options.url, autocommit=True) as session:
            for name in TABLES:
                attempts = {
                    "SELECT": f"SELECT 1 FROM {quote(name)} LIMIT 1",
                    "INSERT": f"INSERT INTO {quote(name)} SELECT * FROM {quote(name)} WHERE false",
                    "UPDATE": f"UPDATE {quote(name)} SET {quote(TABLES[name].names[-1])} = NULL WHERE false",
                    "DELETE": f"DELETE FROM {quote(name)} WHERE false",
                    "TRUNCATE": f"TRUNCATE {quote(name)}",
                    "TRIGGER": f"CREATE TRIGGER t BEFORE INSERT ON {quote(name)}"
                    " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
                    "ALTER": f"ALTER TABLE {quote(name)} ADD COLUMN x int",
                    "DROP": f"DROP TABLE {quote(name)}",
                    "RULE": f"CREATE RULE r AS ON INSERT TO {quote(name)} DO INSTEAD NOTHING",
                    "INDEX": f"CREATE INDEX ON {quote(name)} ({quote(TABLES[name].names[0])})",
                }
                allowed = {verb for verb, statement in attempts.items() if is_permitted(session, statement)}
                assert allowed == set(PRIVILEGES[name]), name

    def test_the_role_creates_nothing_and_reaches_no_sequence(
        self, records: PostgresRecords, options: PostgresOptions
    ) -> None:
        statements = (
            "CREATE TABLE t (x int)",
            "CREATE VIEW v AS SELECT 1",
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "CREATE SEQUENCE s",
            "CREATE TYPE t AS ENUM ('a')",
            "CREATE SCHEMA s",
            "COPY memories TO PROGRAM 'cat'",
            "ALTER DEFAULT PRIVILEGES FOR ROLE postgres GRANT SELECT ON TABLES TO application",
        )
        sequences = """SELECT oid::regclass::text FROM pg_class WHERE relkind = 'S' AND CASE relkind
          WHEN 'S' THEN has_sequence_privilege(oid, 'USAGE, SELECT, UPDATE') END"""
        with psycopg.connect(options.url, autocommit=True) as session:
            assert [statement for statement in statements if is_permitted(session, statement)] == []
            assert session.execute(sequences.encode()).fetchall() == []

    def test_the_engines_own_state_is_reached_by_the_engine_alone(
        self, records: PostgresRecords, options: PostgresOptions
    ) -> None:
        secret = load_secret(records)
        records.commit([Put(Lease(name="work", until=NOW))])
        with psycopg.connect(options.url, autocommit=True) as session:
            for setting, value in (("organization", "acme"), ("everything", "on")):
                session.execute("SELECT set_config(%s, %s, false)", [f"everhold.{setting}", value])
                assert session.execute("SELECT * FROM leases").fetchall() == []
                assert session.execute("SELECT * FROM secrets").fetchall() == []
                assert session.execute("UPDATE leases SET holder = 'x'").rowcount == 0
                assert not is_permitted(session, "INSERT INTO leases VALUES ('x', NULL, now(), 1)")
            session.execute("SELECT set_config('everhold.engine', 'on', false)")
            assert session.execute("UPDATE leases SET holder = 'x'").rowcount == 1
            for statement in ("DELETE FROM leases", "UPDATE secrets SET value = ''", "DELETE FROM secrets"):
                assert not is_permitted(session, statement)
        assert [secret.name for secret in records.scan(Secret, None)] == ["session-cache"]
        assert load_secret(records) == secret
        assert records.find_problems() == []

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            ("GRANT ALL ON schema_versions TO application", "the right DELETE on table schema_versions, which"),
            ("GRANT TRUNCATE ON memories TO PUBLIC", "the right TRUNCATE on table memories, which"),
            ("REVOKE UPDATE ON jobs FROM application", "lacks the right UPDATE on table jobs"),
            ("GRANT CREATE ON SCHEMA public TO application", "can create objects in schema public; revoke CREATE"),
            (
                "ALTER TABLE leases DISABLE ROW LEVEL SECURITY",
                "table leases lacks its row-level",
            ),
        ],
    )
    def test_the_doctor_reports_wrong_rights_and_the_owner_corrects_them(
        self, options: PostgresOptions, statement: str, message: str
    ) -> None:
        records = PostgresRecords(options)
        with psycopg.connect(options.owner.url) as session:
            session.execute(statement.encode())
        assert message in records.find_problems()[0]
        records.close()
        with pytest.raises(StoreError, match=re.escape(message)):
            PostgresRecords(replace(options, owner_url=None))
        records = PostgresRecords(options)
        assert records.find_problems() == []
        records.close()

    def test_default_privileges_of_the_database_give_nothing_more(self, empty_options: PostgresOptions) -> None:
        with psycopg.connect(empty_options.owner.url) as session:
            session.execute("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO application")
        records = PostgresRecords(empty_options)
        assert records.find_problems() == []
        records.close()


def is_permitted(session: psycopg.Connection[Any], statement: str) -> bool:
    """Return whether the role has the right to run a statement; what it does is rolled back."""
    try:
        with session.transaction(force_rollback=True):
            session.execute(statement.encode())
    except psycopg.errors.InsufficientPrivilege:
        return False
    except psycopg.Error:
        return True
    return True


# The statements of docs/postgresql.md.
LEAKPROOF = (
    "ALTER FUNCTION pg_catalog.arraycontains(anyarray, anyarray) LEAKPROOF",
    "ALTER FUNCTION chunk_words(text, text, text, text) LEAKPROOF",
)


def test_the_index_over_words_is_used_once_an_administrator_allows_it(
    records: PostgresRecords, options: PostgresOptions
) -> None:
    for start in range(0, 2000, 500):
        names = [f"n{number}" for number in range(start, start + 500)]
        records.commit([Put(make_memory(name)) for name in names])
        records.commit([Put(make_chunk(name)) for name in names])
    records.maintain()
    page = (Path(__file__).parents[2] / "docs" / "postgresql.md").read_text("utf-8")
    query = """EXPLAIN SELECT FROM chunks WHERE known_to IS NULL AND owner_kind = 'memory' AND namespace = 'long-term'
    AND chunk_words(organization_id, owner_kind, namespace, terms)
      @> chunk_words('acme', 'memory', 'long-term', 'wordn7')"""

    def plan() -> str:
        with psycopg.connect(options.url) as session:
            session.execute("SELECT set_config('everhold.organization', 'acme', true)")
            return "\n".join(text for (text,) in session.execute(query).fetchall())

    assert "in_chunks_terms" not in plan()
    with psycopg.connect(options.owner.url, autocommit=True) as session:
        for statement in LEAKPROOF:
            assert statement in page
            session.execute(statement.encode())
    assert "in_chunks_terms" in plan()


class TestOpening:
    def test_the_owner_prepares_and_is_not_needed_afterwards(self, empty_options: PostgresOptions) -> None:
        without_owner = replace(empty_options, owner_url=None)
        with pytest.raises(StoreError, match=r"must not own them; open the store once with postgres\.owner_url"):
            PostgresRecords(without_owner)
        PostgresRecords(empty_options).close()
        records = PostgresRecords(without_owner)
        records.commit([Put(make_organization("acme")), Put(make_memory("m"))])
        records.maintain()
        assert records.find_problems() == []
        records.close()

    def test_an_existing_store_can_be_put_under_row_security(self, empty_options: PostgresOptions) -> None:
        before = PostgresRecords(PostgresOptions(empty_options.owner.url))
        before.commit([Put(make_organization("acme")), Put(make_memory("m"))])
        before.close()
        records = PostgresRecords(empty_options)
        assert records.get(Memory, "acme", ["m"])
        assert records.get(Memory, "bolt", ["m"]) == {}
        records.close()

    def test_a_role_that_bypasses_row_security_is_refused(
        self, postgres_server: PostgresServer, options: PostgresOptions
    ) -> None:
        PostgresRecords(options).close()
        with pytest.raises(StoreError, match="'postgres' is above row-level security"):
            PostgresRecords(replace(options, url=options.owner.url))
        postgres_server.create_role("elevated", "BYPASSRLS")
        with pytest.raises(StoreError, match="'elevated' is above row-level security"):
            PostgresRecords(replace(options, url=options.url.replace("application@", "elevated@")))

    def test_a_role_that_owns_the_tables_is_refused(
        self, postgres_server: PostgresServer, options: PostgresOptions
    ) -> None:
        PostgresRecords(options).close()
        with psycopg.connect(options.owner.url) as session:
            session.execute("ALTER TABLE users OWNER TO application")
        with pytest.raises(StoreError, match="'application' owns users and could switch"):
            PostgresRecords(options)

    def test_a_store_under_row_security_is_not_opened_without_it(self, options: PostgresOptions) -> None:
        PostgresRecords(options).close()
        with pytest.raises(StoreError, match=r"set postgres\.row_security to true"):
            PostgresRecords(replace(options, row_security=False, owner_url=None))

    def test_the_doctor_reports_a_gap_and_the_owner_closes_it(self, options: PostgresOptions) -> None:
        records = PostgresRecords(options)
        with psycopg.connect(options.owner.url) as session:
            session.execute("ALTER TABLE users NO FORCE ROW LEVEL SECURITY")
            session.execute("CREATE POLICY too_much ON memories USING (true)")
        expected = ["table memories lacks its row-level security", "table users lacks its row-level security"]
        assert [
            problem[: len(text)] for problem, text in zip(records.find_problems(), expected, strict=True)
        ] == expected
        records.close()
        with pytest.raises(StoreError, match="table memories lacks its"):
            PostgresRecords(replace(options, owner_url=None))
        records = PostgresRecords(options)
        assert records.find_problems() == []
        records.close()


class TestManyAtOnce:
    @pytest.mark.parametrize("pooler", [False, True])
    def test_one_connection_serves_organizations_in_turn(self, options: PostgresOptions, pooler: bool) -> None:
        records = CarelessRecords(replace(options, pool_size=1, transaction_pooler=pooler))
        names = [f"o{number}" for number in range(4)]
        records.commit([Put(make_organization(name)) for name in names])
        names_read: dict[str, set[str]] = {name: set() for name in names}

        def work(name: str) -> None:
            for number in range(25):
                records.commit([Put(make_memory(f"m{number}", name)), Put(make_tag(f"m{number}", name))])
                names_read[name] |= {row.organization_id for row in records.scan(Memory, name)}
                names_read[name] |= {tag for (tag,) in records.columns(Tag, name, ["tag"])}

        threads = [threading.Thread(target=work, args=[name]) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert names_read == {name: {name} for name in names}
        with records._pool.connection() as connection:
            assert connection.execute("SHOW everhold.organization").fetchall() == [("",)]
        records.close()

    def test_lines_of_all_organizations_are_followed_and_sealed(self, records: PostgresReading) -> None:
        assert isinstance(records, PostgresRecords)
        position = records.head()
        records.commit(
            [
                Put(Outbox(organization_id=name, entity="memories", entity_id="m", operation="put"))
                for name in ("acme", "bolt")
            ]
        )
        lines = records.feed(position).lines
        assert [line.organization_id for line in lines] == ["acme", "bolt"]
        records.commit([Delete(Outbox, (line.sequence,)) for line in lines])
        assert records.feed(position).lines == []
        with pytest.raises(AlreadyExists):
            records.commit([Put(make_memory("again", hash=SAME_HASH))])
        assert records.scan(AccessLog, None, [Where("sequence", Op.GT, 0)]) == []
