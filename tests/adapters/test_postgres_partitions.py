"""PostgreSQL: partitions of large tables are made ahead and dropped by maintenance, and every rule still applies."""

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
import pytest

from everhold import clock
from everhold.adapters.postgres import PostgresCandidates, PostgresOptions, PostgresRecords, partitions
from everhold.adapters.postgres import schema as postgres_schema
from everhold.adapters.postgres.connection import connect
from everhold.adapters.postgres.nearest import FIND_VALID_INDEX, build_missing_indexes, name_vector_index
from everhold.adapters.postgres.partitions import list_partitions
from everhold.errors import AlreadyExists, StoreError
from everhold.model import AccessLog, Chunk, Memory, Organization
from everhold.ports.search_space import SearchSpace
from everhold.schema.changes import CURRENT, VERSIONS, AddUnique, Version
from everhold.schema.operations import Delete, Hide, Patch, Put
from everhold.schema.table import Unique
from tests.engines import Store, texts
from tests.servers.postgres import PostgresServer
from tests.servers.shared_database import SharedDatabase

# All tests run in one process, because they share a database that takes seconds to prepare.
pytestmark = pytest.mark.xdist_group("partitions")

NOW = clock.now()
THIS_MONTH = datetime(NOW.year, NOW.month, 1, tzinfo=UTC)
SAME_HASH = bytes(16)


@pytest.fixture(scope="session")
def monthly_database(postgres_server: PostgresServer) -> SharedDatabase:
    """A database whose large tables have a partition per month."""
    return SharedDatabase(postgres_server, lambda url: PostgresOptions(url, partitions="month"))


@pytest.fixture
def monthly_url(monthly_database: SharedDatabase) -> str:
    return monthly_database.provide()


@pytest.fixture
def records(monthly_url: str) -> Iterator[PostgresRecords]:
    records = PostgresRecords(PostgresOptions(monthly_url, partitions="month"))
    records.commit([Put(Organization(id="o", name="o", created_at=NOW, updated_at=NOW))])
    yield records
    records.close()


def make_memory(name: str, **fields: Any) -> Memory:
    return Memory(id=name, organization_id="o", text=name, created_at=NOW, updated_at=NOW, **fields)


def make_line(at: datetime) -> AccessLog:
    return AccessLog(organization_id="o", operation="read", timestamp=at, request={}, digest=bytes(32))


def get_month_start(offset: int) -> datetime:
    """Return the beginning of the month that is `offset` months after the present one."""
    year, month_index = divmod(THIS_MONTH.year * 12 + THIS_MONTH.month - 1 + offset, 12)
    return datetime(year, month_index + 1, 1, tzinfo=UTC)


def name_partition(table: str, start: int, end: int) -> str:
    """Return the name of a partition that begins `start` and ends `end` months after the present month."""
    return f"{table}@{get_month_start(start):%Y-%m}_{get_month_start(end):%Y-%m}"


def find_partitions(records: PostgresRecords, table: str, column: str) -> dict[Any, str]:
    """Return the partition in which each row is, by a column of the rows."""
    rows = records._fetch(f"""SELECT "{column}", trim('"' FROM tableoid::regclass::text) FROM {table}""", ())
    return dict(rows)


def list_table_partitions(url: str, table: str) -> list[str]:
    with psycopg.connect(url) as session:
        return list_partitions(session, table)


def drop_partition(session: psycopg.Connection[Any], table: str, name: str) -> None:
    session.execute(f'ALTER TABLE {table} DETACH PARTITION "{name}"'.encode())
    session.execute(f'DROP TABLE "{name}"'.encode())


class TestWhereRowsGo:
    def test_memories_go_to_the_partition_of_their_time_or_to_the_default(self, records: PostgresRecords) -> None:
        current_id, later_id = clock.make_id("mem"), clock.make_least_id("mem", get_month_start(2))
        earlier_id, far_id = (
            clock.make_least_id("mem", get_month_start(-5)),
            clock.make_least_id("mem", get_month_start(40)),
        )
        records.commit(
            [Put(make_memory(name)) for name in (current_id, later_id, earlier_id, far_id, "own-name", "zebra")]
        )
        default = "memories@default"
        expected = {current_id: name_partition("memories", 0, 1), later_id: name_partition("memories", 2, 3)}
        assert find_partitions(records, "memories", "id") == expected | dict.fromkeys(
            (earlier_id, far_id, "own-name", "zebra"), default
        )
        assert records.get(Memory, "o", [current_id, far_id]).keys() == {current_id, far_id}
        assert [row.id for row in records.scan(Memory, "o")] == sorted(
            [current_id, later_id, earlier_id, far_id, "own-name", "zebra"]
        )

    def test_lines_of_the_log_go_to_the_partition_of_their_time(self, records: PostgresRecords) -> None:
        records.commit(
            [Put(make_line(NOW)), Put(make_line(get_month_start(1))), Put(make_line(NOW - timedelta(days=400)))]
        )
        names = [
            name_partition("memory_access_logs", 0, 1),
            name_partition("memory_access_logs", 1, 2),
            "memory_access_logs@default",
        ]
        assert list(find_partitions(records, "memory_access_logs", "sequence").values()) == names
        lines = records.scan(AccessLog, "o", order="sequence")
        assert [line.sequence for line in lines] == [1, 2, 3]
        records.commit([Patch(AccessLog, (2,), {"sealed": 1, "hash": SAME_HASH})])
        assert records.scan(AccessLog, "o", order="sequence")[1].sealed == 1
        with pytest.raises(AlreadyExists) as caught:
            records.commit([Patch(AccessLog, (3,), {"sealed": 1})])
        assert (caught.value.table, caught.value.rule) == ("memory_access_logs", "sealed")

    def test_chunks_of_one_owner_are_together(self, records: PostgresRecords) -> None:
        records.commit([Put(make_memory(f"m{number}")) for number in range(40)])
        records.commit([Put(make_chunk(f"m{number}", chunk_index=index)) for number in range(40) for index in range(3)])
        rows = records._fetch("SELECT owner_id, count(DISTINCT tableoid) FROM chunks GROUP BY 1", ())
        assert {count for _, count in rows} == {1}
        assert len(set(find_partitions(records, "chunks", "owner_id").values())) > 4
        records.commit([Delete(Memory, ("o", "m1"))])
        assert records.count(Chunk, "o") == 39 * 3

    def test_the_least_id_of_a_moment_is_below_every_id_made_later(self) -> None:
        moment = clock.now()
        memory_id = clock.make_id("mem")
        assert clock.make_least_id("mem", moment) <= memory_id < clock.make_least_id("mem", moment + timedelta(days=1))
        assert clock.make_least_id("mem", moment - timedelta(milliseconds=5)) < clock.make_least_id("mem", moment)


def make_chunk(owner: str, **fields: Any) -> Chunk:
    fields = {"span_start": 0, "span_end": 1, "terms": "a", "known_from": NOW, **fields}
    return Chunk(organization_id="o", owner_id=owner, user_id="alice", model="model", **fields)


class TestUniqueRules:
    def test_unique_rules_apply_across_partitions(self, records: PostgresRecords) -> None:
        records.commit([Put(make_memory(clock.make_id("mem"), hash=SAME_HASH, key="mine"))])
        for fields, rule in (({"hash": SAME_HASH}, "hash"), ({"key": "mine"}, "own_key")):
            with pytest.raises(AlreadyExists) as caught:
                records.commit([Put(make_memory("in-the-default-part", **fields))])
            assert (caught.value.table, caught.value.rule) == ("memories", rule)
        with pytest.raises(AlreadyExists) as caught:
            records.commit([Put(make_memory("twice")), Put(make_memory("twice"))])
        assert (caught.value.table, caught.value.rule) == ("memories", "key")

    def test_only_one_of_many_concurrent_writers_wins(self, records: PostgresRecords) -> None:
        outcomes: Counter[str] = Counter()

        def take(number: int) -> None:
            for turn in range(20):
                try:
                    records.commit([Put(make_memory(f"m{number}-{turn}", hash=turn.to_bytes(16)))])
                    outcomes["kept"] += 1
                except AlreadyExists:
                    outcomes["refused"] += 1

        threads = [threading.Thread(target=take, args=[number]) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes == {"kept": 20, "refused": 80}
        assert records._fetch("SELECT count(*) FROM taken_memories_hash", ()) == [(20,)]

    def test_a_value_that_a_row_gives_up_is_free_again(self, records: PostgresRecords) -> None:
        records.commit([Put(make_memory("first", hash=SAME_HASH))])
        records.commit([Hide(Memory, ("o", "first"), "del_1", NOW), Put(make_memory("second", hash=SAME_HASH))])
        records.commit([Patch(Memory, ("o", "second"), {"hash": None}), Put(make_memory("third", hash=SAME_HASH))])
        records.commit([Delete(Memory, ("o", "third")), Put(make_memory("fourth", hash=SAME_HASH))])
        assert records._fetch("SELECT id FROM taken_memories_hash", ()) == [("fourth",)]
        records.commit([Delete(Organization, ("o",))])
        assert records._fetch("SELECT count(*) FROM taken_memories_hash", ()) == [(0,)]

    def test_a_unique_rule_that_a_later_version_adds_applies(self, records: PostgresRecords, monthly_url: str) -> None:
        records.commit([Put(make_memory("a", source_agent="x")), Put(make_memory("b"))])
        rule = AddUnique("memories", Unique("source", ("source_agent",), when="source_agent"))
        with connect(PostgresOptions(monthly_url)) as connection, connection.transaction():
            postgres_schema.upgrade(connection, CURRENT, (*VERSIONS, Version(CURRENT + 1, "later", (rule,))))
        with pytest.raises(AlreadyExists):
            records.commit([Put(make_memory("c", source_agent="x"))])
        records.commit([Put(make_memory("c", source_agent="y"))])

    def test_the_engines_role_cannot_read_which_values_are_taken(
        self, postgres_server: PostgresServer, empty_postgres_url: str
    ) -> None:
        postgres_server.create_role("application")
        url = empty_postgres_url.replace("postgres@", "application@")
        options = PostgresOptions(url, partitions="month", row_security=True, owner_url=empty_postgres_url)
        records = PostgresRecords(options)
        records.commit(
            [Put(Organization(id="o", name="o", created_at=NOW, updated_at=NOW)), Put(make_memory("m", hash=SAME_HASH))]
        )
        with pytest.raises(AlreadyExists):
            records.commit([Put(make_memory("n", hash=SAME_HASH))])
        for name in ("taken_memories_hash", '"memories@default"'):
            with psycopg.connect(url) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(f"SELECT * FROM {name}".encode())
        records.maintain()
        assert records.find_problems() == []
        assert records.traits.details["partitions"] != "none"
        records.close()


class TestMaintenance:
    def test_a_partition_that_could_not_be_made_is_made_the_next_time(
        self, records: PostgresRecords, monthly_url: str
    ) -> None:
        missing_partition = name_partition("memories", 1, 2)
        with psycopg.connect(monthly_url, autocommit=True) as session:
            for start in (1, 2):
                drop_partition(session, "memories", name_partition("memories", start, start + 1))
            session.execute(partitions._create_partition("memories", get_month_start(2), get_month_start(3)).encode())
        with psycopg.connect(monthly_url) as reader:
            # Like a long write, this lock keeps the partition from being created.
            reader.execute('LOCK TABLE "memories@default" IN ROW EXCLUSIVE MODE')
            with connect(PostgresOptions(monthly_url)) as connection:
                partitions.maintain_partitions(connection, records.options, "postgres")
            assert missing_partition not in list_table_partitions(monthly_url, "memories")
        records.maintain()
        assert missing_partition in list_table_partitions(monthly_url, "memories")
        assert len(list_table_partitions(monthly_url, "memories")) == 4

    def test_a_partition_with_another_name_is_ignored(self, records: PostgresRecords, monthly_url: str) -> None:
        late, early = clock.make_least_id("mem", get_month_start(30)), clock.make_least_id("mem", get_month_start(-30))
        with psycopg.connect(monthly_url) as session:
            for name, bound in (("memories_by_hand", late), ("memories@2026-13_x", early)):
                bounds = f"FOR VALUES FROM ('{bound}') TO ('{bound}z')"
                session.execute(f'CREATE TABLE "{name}" PARTITION OF memories {bounds}'.encode())
            drop_partition(session, "memories", name_partition("memories", 2, 3))
        records.maintain()
        parts = list_table_partitions(monthly_url, "memories")
        assert {name_partition("memories", 2, 3), "memories_by_hand", "memories@2026-13_x"} <= set(parts)

    def test_partitions_are_made_ahead(self, records: PostgresRecords, monthly_url: str) -> None:
        expected = ["memories@default", *(name_partition("memories", start, start + 1) for start in range(3))]
        assert sorted(list_table_partitions(monthly_url, "memories")) == sorted(expected)
        with psycopg.connect(monthly_url) as session:
            for table in ("memories", "memory_access_logs"):
                for start in (1, 2):
                    drop_partition(session, table, name_partition(table, start, start + 1))
        records.maintain()
        assert sorted(list_table_partitions(monthly_url, "memories")) == sorted(expected)
        assert len(list_table_partitions(monthly_url, "memory_access_logs")) == 4

    def test_old_partitions_are_dropped_when_they_are_empty(self, records: PostgresRecords, monthly_url: str) -> None:
        with psycopg.connect(monthly_url) as session:
            for start in (-3, -2):
                session.execute(
                    partitions._create_partition(
                        "memories", get_month_start(start), get_month_start(start + 1)
                    ).encode()
                )
        old_id = clock.make_least_id("mem", get_month_start(-2))
        records.commit([Put(make_memory(old_id)), Put(make_chunk(old_id))])
        records.maintain()
        parts = list_table_partitions(monthly_url, "memories")
        assert name_partition("memories", -3, -2) not in parts
        assert name_partition("memories", -2, -1) in parts
        records.commit([Delete(Memory, ("o", old_id))])
        records.maintain()
        assert name_partition("memories", -2, -1) not in list_table_partitions(monthly_url, "memories")
        records.commit([Put(make_memory(old_id))])  # a late row: its partition is gone
        assert find_partitions(records, "memories", "id") == {old_id: "memories@default"}

    def test_rows_of_a_missed_month_stay_in_the_default_partition(
        self, records: PostgresRecords, monthly_url: str
    ) -> None:
        with psycopg.connect(monthly_url) as session:
            for start in range(3):
                drop_partition(session, "memories", name_partition("memories", start, start + 1))
        memory_id = clock.make_id("mem")
        records.commit([Put(make_memory(memory_id))])
        records.maintain()
        parts = list_table_partitions(monthly_url, "memories")
        assert name_partition("memories", 0, 1) not in parts
        assert name_partition("memories", 1, 2) in parts
        assert name_partition("memories", 2, 3) in parts
        assert find_partitions(records, "memories", "id") == {memory_id: "memories@default"}

    def test_partitions_of_quarters_continue_where_those_of_months_end(
        self, records: PostgresRecords, monthly_url: str
    ) -> None:
        quarterly = PostgresRecords(PostgresOptions(monthly_url, partitions="quarter"))
        quarterly.maintain()
        quarterly.close()
        names = [name for name in list_table_partitions(monthly_url, "memories") if "default" not in name]
        spans = sorted(tuple(name.partition("@")[2].split("_")) for name in names)
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        assert ends[:-1] == starts[1:], "the partitions overlap or leave a gap"
        assert ends[-1].endswith(("-01", "-04", "-07", "-10")), "the last partition does not end with a quarter"
        assert records.find_problems() == []

    @pytest.mark.parametrize("kind", ["hnsw", "ivfflat"])
    def test_every_partition_has_the_index_of_vectors(
        self, records: PostgresRecords, monthly_url: str, kind: Any
    ) -> None:
        rng = np.random.default_rng(7)
        vectors = rng.standard_normal((300, 8)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        records.commit([Put(make_memory(f"m{index}")) for index in range(300)])
        chunks = [
            make_chunk(f"m{index}", dimensions=8, vector=vector.astype("<f2").tobytes())
            for index, vector in enumerate(vectors)
        ]
        records.commit([Put(chunk) for chunk in chunks])
        exact, indexed = PostgresCandidates(records), PostgresCandidates(records, exact_up_to=200)
        alices = SearchSpace("o", ("alice",), "model")
        expected = exact.find_by_vector(alices, vectors[0], 10)
        options = PostgresOptions(monthly_url, vector_index=kind, lists=4)
        with connect(options) as connection:
            assert build_missing_indexes(connection, options, exact_up_to=200) == [("memory", 8)]
            built = connection.execute(FIND_VALID_INDEX, [name_vector_index("memory", 8)]).fetchall()
            assert [name for name, _ in built] == [kind]
            assert build_missing_indexes(connection, options, exact_up_to=200) == []
        assert indexed._choose_index_settings(alices, 8)
        candidates = indexed.find_by_vector(alices, vectors[0], 10)
        assert candidates[0] == "m0"
        assert len(set(candidates) & set(expected)) >= 5, "the index is approximate, and finds at least half"
        assert records.find_problems() == []


class TestStores:
    def test_an_engine_works_on_a_partitioned_store(self, empty_postgres_url: str) -> None:
        store = Store("postgres", empty_postgres_url)
        engine = store.open(postgres={"partitions": "quarter"})
        alice = engine.scope(user="alice")
        memories = alice.remember_many([{"text": f"drinks tea number {number}"} for number in range(80)])
        duplicate = alice.remember("drinks tea number 3")
        assert duplicate.id in [row.id for row in memories]
        assert texts(alice.recall("tea number 3", k=1)) == ["drinks tea number 3"]
        alice.revise(duplicate.id, text="drinks coffee")
        alice.forget(memories[0].id, hard=True)
        assert len(alice.list(limit=100)) == 79
        engine.maintain()
        assert engine.verify_log("default").intact
        assert engine.doctor().problems == []
        assert engine.doctor().parts["partitions"] == "memories, chunks and the access log"
        store.close()

    def test_an_existing_store_is_not_partitioned(self, empty_postgres_url: str) -> None:
        PostgresRecords(PostgresOptions(empty_postgres_url)).close()
        records = PostgresRecords(PostgresOptions(empty_postgres_url, partitions="month"))
        assert records.traits.details["partitions"] == "none"
        records.maintain()
        assert list_table_partitions(empty_postgres_url, "memories") == []
        records.close()

    def test_an_old_server_is_refused(self, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(partitions, "OLDEST_SERVER", 990_000)
        with pytest.raises(StoreError, match="partitions need 99 or later"):
            PostgresRecords(PostgresOptions(empty_postgres_url, partitions="month"))
