"""PostgreSQL: many rows at once are written by COPY, with the same result as single inserts."""

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from everhold import clock
from everhold.adapters.postgres import PostgresOptions, PostgresRecords, bulk
from everhold.adapters.postgres.bulk import Bulk, collect_bulks
from everhold.errors import AlreadyExists, BrokenReference, EverholdError, InvalidInput, StaleVersion
from everhold.model import AccessLog, Chunk, Cycle, Memory, Organization, Outbox, Tag
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Operation, Patch, Put
from everhold.testing.records_machine import run_machine
from tests.contract.stores import get_empty_postgres_database, get_postgres_database
from tests.exhaustive import choose_size
from tests.servers.postgres import PostgresServer

NOW = clock.now()
MANY = 120


@pytest.fixture
def records(postgres_server: PostgresServer) -> Iterator[PostgresRecords]:
    records = PostgresRecords(PostgresOptions(get_empty_postgres_database(postgres_server)))
    records.commit([Put(Organization(id="o", name="o", created_at=NOW, updated_at=NOW))])
    yield records
    records.close()


def make_memory(name: str, **fields: Any) -> Memory:
    return Memory(id=name, organization_id="o", text=f"กาแฟ {name}\t\\N", created_at=NOW, updated_at=NOW, **fields)


def make_chunk(owner: str, **fields: Any) -> Chunk:
    fields = {"span_start": 0, "span_end": 1, "terms": "a", "known_from": NOW, **fields}
    return Chunk(organization_id="o", owner_id=owner, **fields)


def make_tag(owner: str) -> Tag:
    return Tag(organization_id="o", memory_id=owner, tag="tag", created_at=NOW, updated_at=NOW)


def make_line(name: str) -> Outbox:
    return Outbox(organization_id="o", entity="memories", entity_id=name, operation="put")


def make_operations(count: int) -> list[Operation]:
    """Return operations as `remember_many` writes them: each memory with its chunk, tag and lines."""
    vector = struct.pack("<4e", 0.5, -0.25, 1e-3, 0)
    operations: list[Operation] = []
    for number in range(count):
        name = f"m{number}"
        shared_fields = {
            "content": {"n": 1e23, "of": [number, None, "ö"]},
            "importance": number / 1000,
            "hash": struct.pack(">4q", *[number] * 4),
        }
        operations += [
            Put(make_memory(name, **shared_fields)),
            Put(make_chunk(name, dimensions=4, vector=vector)),
            Put(make_tag(name)),
            Put(make_line(name)),
        ]
    return operations


def commit_one_by_one(records: PostgresRecords, operations: list[Operation]) -> None:
    records._write([list(records.compile_statements(operations))], operations)


def test_rows_are_the_same_as_those_written_one_by_one(
    records: PostgresRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = make_operations(MANY)
    parts = collect_bulks(operations, records.compiler)
    assert parts is not None
    assert [part.table for part in parts if isinstance(part, Bulk)] == ["memories", "memory_tags", "chunks", "outbox"]
    records.commit(operations)
    entities = (Memory, Chunk, Tag)
    copied_rows = [records.scan(entity, "o") for entity in entities]
    assert len(copied_rows[0]) == MANY
    assert [line.entity_id for line in records.feed(0).lines] == [f"m{number}" for number in range(MANY)]
    assert [line.sequence for line in records.feed(0).lines] == sorted(line.sequence for line in records.feed(0).lines)
    records.commit([Delete(Memory, ("o", f"m{number}")) for number in range(MANY)])
    monkeypatch.setattr(bulk, "MIN_ROWS", 10**9)
    records.commit(operations)
    assert [records.scan(entity, "o") for entity in entities] == copied_rows


def test_a_few_rows_are_inserted_without_copy(records: PostgresRecords) -> None:
    assert collect_bulks(make_operations(bulk.MIN_ROWS - 1), records.compiler) is None
    parts = collect_bulks(
        [*make_operations(MANY), Patch(Memory, ("o", "m1"), {"text": "x"}), Put(make_tag("m1"))], records.compiler
    )
    assert parts is not None
    assert [isinstance(part, Bulk) for part in parts] == [True] * 4 + [False] * 2


@pytest.mark.parametrize(
    ("wrong_operation", "error", "table_and_rule"),
    [
        (Put(make_memory("m3")), AlreadyExists, ("memories", "key")),
        (Put(make_memory("another", hash=struct.pack(">4q", *[5] * 4))), AlreadyExists, ("memories", "hash")),
        (Put(make_tag("nobody")), BrokenReference, None),
        (Put(make_chunk("nobody")), BrokenReference, None),
        (Put(make_memory("m", user_id="nobody")), BrokenReference, None),
        (Put(make_memory("m").model_copy(update={"key": "x" * 10_000})), InvalidInput, None),
        (Put(make_memory("m").model_copy(update={"importance": 7.0})), InvalidInput, None),
        (Put(make_memory("m").model_copy(update={"revision": 2**70})), InvalidInput, None),
        (Put(make_memory("m").model_copy(update={"text": "\ud800"})), InvalidInput, None),
        (Put(make_memory("m").model_copy(update={"text": "a\x00b"})), InvalidInput, None),
        (Put(make_memory("m").model_copy(update={"created_at": None})), InvalidInput, None),
        (Put(make_chunk("m1", revision=3).model_copy(update={"vector": b"odd"})), InvalidInput, None),
        (Patch(Memory, ("o", "nobody"), {"text": "x"}), StaleVersion, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_first", [False, True])
def test_copy_and_insert_refuse_the_same_rows(
    records: PostgresRecords,
    wrong_operation: Operation,
    error: type[EverholdError],
    table_and_rule: tuple[str, str] | None,
    is_first: bool,
) -> None:
    operations = [wrong_operation, *make_operations(MANY)] if is_first else [*make_operations(MANY), wrong_operation]
    errors = []
    for write in (records.commit, lambda batch: commit_one_by_one(records, batch)):
        with pytest.raises(error) as caught:
            write(operations)
        assert type(caught.value) is error
        errors.append(str(caught.value))
        if isinstance(caught.value, AlreadyExists):
            assert (caught.value.table, caught.value.rule) == table_and_rule
        assert records.count(Memory, "o") == 0
        assert records.feed(0).lines == []
    assert errors[0] == errors[1]


def test_a_row_before_the_row_that_it_refers_to_is_refused(records: PostgresRecords) -> None:
    operations = make_operations(MANY)
    operations[0], operations[1] = operations[1], operations[0]
    assert collect_bulks(operations, records.compiler) is None
    with pytest.raises(BrokenReference):
        records.commit(operations)
    cycles = [
        Cycle(
            id=f"c{number}", organization_id="o", agent_id="a", execution_id="e", cycle_index=number,
            parent_id=f"c{number + 1}", created_at=NOW, updated_at=NOW,
        )
        for number in range(MANY)
    ]  # fmt: skip
    assert collect_bulks([Put(cycle) for cycle in cycles], records.compiler) is None
    assert collect_bulks([Put(cycle) for cycle in reversed(cycles)], records.compiler) is not None


def test_lines_of_the_log_are_numbered_in_their_order(records: PostgresRecords) -> None:
    lines = [
        AccessLog(organization_id="o", operation="read", timestamp=NOW, request={"n": number}, digest=bytes(32))
        for number in range(MANY)
    ]
    records.commit([Put(line) for line in lines])
    assert [line.request["n"] for line in records.scan(AccessLog, "o", order="sequence")] == list(range(MANY))


def test_random_operations_find_no_difference(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MIN_ROWS", 1)
    store = get_postgres_database(postgres_server)

    def make_records() -> Records:
        store.close()  # the state machine closes the records that it was given
        return store.empty().open()

    operations = choose_size(270, 500)
    assert run_machine(make_records, operations=operations) >= operations
    store.quit()
