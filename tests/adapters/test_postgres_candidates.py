"""PostgreSQL: what its indexes propose for scopes that are too large to be kept in memory."""

import threading
import time
from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from everhold import clock
from everhold.adapters.postgres import PostgresCandidates, PostgresOptions, PostgresRecords
from everhold.adapters.postgres.connection import connect
from everhold.adapters.postgres.nearest import FIND_VALID_INDEX, build_missing_indexes, name_vector_index
from everhold.model import Chunk, Memory, Organization
from everhold.ports.search_indexes import Statistics
from everhold.ports.search_space import SearchSpace
from everhold.schema.operations import Hide, Operation, Patch, Put

NOW = clock.now()
MODEL = "model"
ALICE_SPACE = SearchSpace("o", ("alice",), MODEL)
DIMENSIONS = 8
INDEX = name_vector_index("memory", DIMENSIONS)
Numbers = NDArray[np.float32]


@pytest.fixture
def records(postgres_url: str) -> Iterator[PostgresRecords]:
    records = PostgresRecords(PostgresOptions(postgres_url))
    records.commit([Put(Organization(id=name, name=name, created_at=NOW, updated_at=NOW)) for name in ("o", "other")])
    yield records
    records.close()


@pytest.fixture
def candidates(records: PostgresRecords) -> PostgresCandidates:
    return PostgresCandidates(records)


def make_operations(
    name: str, terms: str, vector: Numbers | None = None, *, user: str = "alice", organization: str = "o"
) -> list[Operation]:
    memory = Memory(id=name, organization_id=organization, text=terms, created_at=NOW, updated_at=NOW)
    chunk = Chunk(
        organization_id=organization,
        user_id=user,
        owner_id=name,
        model=MODEL,
        span_start=0,
        span_end=1,
        terms=terms,
        dimensions=0 if vector is None else vector.size,
        vector=None if vector is None else vector.astype("<f2").tobytes(),
        known_from=NOW,
    )
    return [Put(memory), Put(chunk)]


def find_by_words(
    candidates: PostgresCandidates, users: tuple[str, ...] | None, model: str, terms: list[str], limit: int
) -> list[str]:
    space = SearchSpace("o", users, model)
    return candidates.find_by_words(space, candidates.count_terms(space, terms), limit)


def make_unit_vector(*numbers: float) -> Numbers:
    vector = np.zeros(DIMENSIONS, np.float32)
    vector[: len(numbers)] = numbers
    return vector / np.linalg.norm(vector)


def test_rarer_terms_come_first(records: PostgresRecords, candidates: PostgresCandidates) -> None:
    for number in range(9):
        records.commit(make_operations(f"common{number}", "coffee milk"))
    records.commit(make_operations("rare", "กาแฟ coffee"))
    assert find_by_words(candidates, ("alice",), MODEL, ["coffee", "กาแฟ"], 3)[0] == "rare"
    assert len(find_by_words(candidates, ("alice",), MODEL, ["coffee", "กาแฟ"], 3)) == 3
    assert set(find_by_words(candidates, None, MODEL, ["coffee"], 100)) == {"rare", *(f"common{n}" for n in range(9))}
    assert find_by_words(candidates, ("alice",), MODEL, ["tea"], 3) == []
    assert find_by_words(candidates, ("alice",), MODEL, [], 3) == []


def test_more_terms_come_before_fewer(records: PostgresRecords, candidates: PostgresCandidates) -> None:
    for name, terms in (("one", "coffee cake"), ("two", "coffee milk"), ("both", "milk coffee tea"), ("none", "water")):
        records.commit(make_operations(name, terms))
    assert find_by_words(candidates, ("alice",), MODEL, ["coffee", "milk"], 3) == ["both", "two", "one"]


def test_only_current_live_rows_of_the_scope_are_proposed(
    records: PostgresRecords, candidates: PostgresCandidates
) -> None:
    near = make_unit_vector(1)
    for name in ("here", "hidden", "closed"):
        records.commit(make_operations(name, "coffee", near))
    records.commit(make_operations("bob's", "coffee", near, user="bob"))
    records.commit(make_operations("theirs", "coffee", near, organization="other"))
    key = ("o", "closed", "memory", "long-term", MODEL, 0, 0)
    records.commit([Hide(Memory, ("o", "hidden"), "deletion", NOW), Patch(Chunk, key, {"known_to": NOW})])

    assert find_by_words(candidates, ("alice",), MODEL, ["coffee"], 10) == ["here"]
    assert candidates.find_by_vector(ALICE_SPACE, near, 10) == ["here"]
    assert candidates.count_terms(ALICE_SPACE, ["coffee", "tea"]) == Statistics(1, {"coffee": 1, "tea": 0})
    for users in (None, ("alice", "bob")):
        assert set(find_by_words(candidates, users, MODEL, ["coffee"], 10)) == {"here", "bob's"}
        assert set(candidates.find_by_vector(SearchSpace("o", users, MODEL), near, 10)) == {"here", "bob's"}
        assert candidates.count_terms(SearchSpace("o", users, MODEL), ["coffee"]) == Statistics(2, {"coffee": 2})
    assert find_by_words(candidates, (), MODEL, ["coffee"], 10) == []
    assert find_by_words(candidates, None, "another model", ["coffee"], 10) == []


def test_the_nearest_rows_come_first(records: PostgresRecords, candidates: PostgresCandidates) -> None:
    for degrees in (0, 20, 40, 80):
        angle = np.radians(degrees)
        records.commit(make_operations(str(degrees), "a", make_unit_vector(np.cos(angle), np.sin(angle))))
    records.commit(make_operations("vectorless", "a"))
    records.commit(make_operations("long", "a", np.ones(1536, np.float32) / np.sqrt(1536).astype(np.float32)))
    assert candidates.find_by_vector(ALICE_SPACE, make_unit_vector(1), 3) == ["0", "20", "40"]
    assert candidates.find_by_vector(SearchSpace("o", ("alice",), "another model"), make_unit_vector(1), 3) == []


def test_many_near_chunks_of_one_memory_do_not_crowd_out_others(
    records: PostgresRecords, candidates: PostgresCandidates
) -> None:
    put_memory, chunk, *_ = make_operations("long", "a", make_unit_vector(1))
    assert isinstance(chunk, Put)
    further_chunks = [Put(chunk.row.model_copy(update={"chunk_index": number})) for number in range(1, 20)]
    records.commit([put_memory, chunk, *further_chunks, *make_operations("short", "a", make_unit_vector(1, 1))])
    assert candidates.find_by_vector(ALICE_SPACE, make_unit_vector(1), 2) == ["long", "short"]


def make_unit_vectors(count: int) -> Numbers:
    rng = np.random.default_rng(7)
    vectors = rng.standard_normal((count, DIMENSIONS)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# The options of each kind of index, and the method and options with which PostgreSQL lists it.
INDEXES = {
    "hnsw": ({}, ("hnsw", [])),
    "finer hnsw": ({"hnsw_m": 8, "hnsw_ef_construction": 100}, ("hnsw", ["m=8", "ef_construction=100"])),
    "ivfflat": ({"vector_index": "ivfflat", "lists": 10}, ("ivfflat", ["lists=10"])),
}


@pytest.mark.parametrize("index_kind", INDEXES)
def test_above_the_size_of_exact_search_the_index_is_used(
    records: PostgresRecords, postgres_url: str, index_kind: str
) -> None:
    index_options, expected_index = INDEXES[index_kind]
    options = PostgresOptions(postgres_url, **index_options)
    vectors = make_unit_vectors(600)
    records.commit(
        [operation for index, vector in enumerate(vectors) for operation in make_operations(f"m{index}", "a", vector)]
    )
    exact, indexed = PostgresCandidates(records), PostgresCandidates(records, exact_up_to=500)
    expected = exact.find_by_vector(ALICE_SPACE, vectors[0], 10)
    assert (
        indexed.find_by_vector(ALICE_SPACE, vectors[0], 10) == expected
    )  # the search is exact while there is no index

    with connect(options) as connection:
        assert build_missing_indexes(connection, options, exact_up_to=1000) == []
        assert build_missing_indexes(connection, options, exact_up_to=500) == [("memory", DIMENSIONS)]
        assert connection.execute(FIND_VALID_INDEX, [INDEX]).fetchall() == [expected_index]
        assert build_missing_indexes(connection, options, exact_up_to=500) == []
    assert indexed._choose_index_settings(ALICE_SPACE, DIMENSIONS)
    candidates = indexed.find_by_vector(ALICE_SPACE, vectors[0], 10)
    assert candidates[0] == "m0"
    assert len(set(candidates) & set(expected)) >= (10 if expected_index[0] == "hnsw" else 4)
    # The search continues until there are enough rows.
    assert len(indexed.find_by_vector(ALICE_SPACE, vectors[0], 600)) > 550
    index = name_vector_index("memory", DIMENSIONS)
    was_used = f"SELECT idx_scan > 0 FROM pg_stat_user_indexes WHERE indexrelname = '{index}'"
    records.close()
    deadline = time.monotonic() + 150  # a server updates its counters a moment after a session has ended
    while time.monotonic() < deadline:
        with connect(PostgresOptions(postgres_url)) as connection:
            if connection.execute(was_used.encode()).fetchall() == [(True,)]:
                return
        time.sleep(0.1)
    pytest.fail("the index was not used")


def test_an_index_built_with_other_options_is_rebuilt(records: PostgresRecords, postgres_url: str) -> None:
    records.commit(
        [
            operation
            for index, vector in enumerate(make_unit_vectors(60))
            for operation in make_operations(f"m{index}", "a", vector)
        ]
    )
    with connect(PostgresOptions(postgres_url)) as connection:
        for index_options, expected_index in (*INDEXES.values(), INDEXES["hnsw"]):
            options = PostgresOptions(postgres_url, **index_options)
            assert build_missing_indexes(connection, options, exact_up_to=50) == [("memory", DIMENSIONS)]
            assert build_missing_indexes(connection, options, exact_up_to=50) == []
            assert connection.execute(FIND_VALID_INDEX, [INDEX]).fetchall() == [expected_index]


def test_readers_do_not_wait_while_an_index_rebuild_waits_for_a_long_query(
    records: PostgresRecords, postgres_url: str
) -> None:
    records.commit(
        [
            operation
            for index, vector in enumerate(make_unit_vectors(60))
            for operation in make_operations(f"m{index}", "a", vector)
        ]
    )
    built: list[list[int]] = []

    def build(index_kind: str) -> None:
        options = PostgresOptions(postgres_url, **INDEXES[index_kind][0])
        with connect(options) as connection:
            built.append(build_missing_indexes(connection, options, exact_up_to=50))

    build("hnsw")
    with psycopg.connect(postgres_url) as reader:
        reader.execute("SELECT count(*) FROM chunks")
        builder = threading.Thread(target=build, args=["ivfflat"])
        builder.start()
        wait_for_lock(postgres_url)
        with psycopg.connect(postgres_url) as session:
            session.execute("SET lock_timeout = '1s'")
            assert session.execute("SELECT count(*) FROM chunks").fetchone() == (60,)
    builder.join()
    assert built == [[("memory", DIMENSIONS)]] * 2


def test_the_rebuild_of_a_partitioned_index_is_postponed_if_a_query_blocks_it(empty_postgres_url: str) -> None:
    records = PostgresRecords(PostgresOptions(empty_postgres_url, partitions="month"))
    records.commit([Put(Organization(id="o", name="o", created_at=NOW, updated_at=NOW))])
    records.commit(
        [
            operation
            for index, vector in enumerate(make_unit_vectors(60))
            for operation in make_operations(f"m{index}", "a", vector)
        ]
    )
    options = PostgresOptions(empty_postgres_url, vector_index="ivfflat", lists=10)
    with connect(records.options) as connection:
        assert build_missing_indexes(connection, records.options, exact_up_to=50) == [("memory", DIMENSIONS)]
        with psycopg.connect(empty_postgres_url) as reader:
            reader.execute("SELECT count(*) FROM chunks")
            assert build_missing_indexes(connection, options, exact_up_to=50) == []
            assert connection.execute(FIND_VALID_INDEX, [INDEX]).fetchall() == [INDEXES["hnsw"][1]]
        assert build_missing_indexes(connection, options, exact_up_to=50) == [("memory", DIMENSIONS)]
        assert connection.execute(FIND_VALID_INDEX, [INDEX]).fetchall() == [INDEXES["ivfflat"][1]]
    assert records.find_problems() == []
    records.close()


def wait_for_lock(url: str) -> None:
    """Wait until a session of this database waits for a lock."""
    waiting_sessions = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    deadline = time.monotonic() + 150
    with psycopg.connect(url, autocommit=True) as session:
        while not session.execute(waiting_sessions).fetchall():
            assert time.monotonic() < deadline, "no session waits for a lock"
            time.sleep(0.05)


def test_maintenance_leaves_a_small_store_without_the_index(records: PostgresRecords) -> None:
    records.commit(make_operations("m", "a", make_unit_vector(1)))
    records.maintain()
    assert records.find_problems() == []
    assert records._fetch("SELECT to_regclass(%s)::text", (INDEX,)) == [(None,)]
