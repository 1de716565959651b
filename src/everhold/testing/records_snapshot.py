"""The contract of a store of record: snapshots, and what changed between two of them."""

from collections.abc import Iterable
from typing import Any

from everhold.model import Memory, Outbox, Tag
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.ports.store_snapshot import StoreSnapshot
from everhold.schema.catalog import get_table
from everhold.schema.operations import Delete, Increment, Op, Patch, Put, Where
from everhold.schema.plain_values import PlainRow, make_plain_decoder
from everhold.schema.snapshots import list_snapshot_entities, select_keys
from everhold.testing.records_following import make_feed_line
from everhold.testing.records_rows import NOON, is_same_row, make_family


def read_snapshot_rows(entity: type[Row], snapshot: StoreSnapshot) -> list[Row]:
    """Return all rows of a table in a snapshot as their entity."""
    return _decode_rows(entity, _read_plain(entity, snapshot))


def _decode_rows(entity: type[Row], rows: Iterable[PlainRow]) -> list[Row]:
    names, decode = get_table(entity).names, make_plain_decoder(entity)
    return [entity.build_complete(dict(zip(names, decode(*row), strict=True))) for row in rows]


def _read_plain(entity: type[Row], snapshot: StoreSnapshot) -> list[PlainRow]:
    rows: list[PlainRow] = []
    assert sum(batch.size for batch in snapshot.read(entity, rows.append)) == len(rows)
    return rows


def _read_ids(entity: type[Row], snapshot: StoreSnapshot) -> set[str]:
    return {row.__dict__["id"] for row in read_snapshot_rows(entity, snapshot)}


class SnapshotContract:
    """A snapshot is the whole store at one moment."""

    def test_a_snapshot_has_every_row_of_every_table(self, records: Records) -> None:
        family = make_family("org")
        records.commit([*map(Put, family.values()), Put(make_feed_line("first"))])
        with records.read_snapshot() as snapshot:
            half_read = snapshot.read(Memory, print)
            next(half_read)
        with records.read_snapshot() as snapshot:
            for entity in list_snapshot_entities():
                stored = records.scan(entity, None, deleted=True)
                rows = read_snapshot_rows(entity, snapshot)
                assert snapshot.count(entity) == len(rows) == len(stored)
                by_key = {tuple(row.__dict__[name] for name in get_table(entity).key): row for row in stored}
                for row in rows:
                    key = tuple(row.__dict__[name] for name in get_table(entity).key)
                    assert is_same_row(row, by_key[key])
                keys = [tuple(key) for batch in snapshot.read_keys(entity) for key in batch]
                assert sorted(keys, key=repr) == sorted(_list_keys(entity, snapshot), key=repr)
            assert snapshot.sequence == max(line.sequence for line in records.scan(Outbox, None))

    def test_a_snapshot_does_not_see_later_commits(self, records: Records) -> None:
        family = make_family("org")
        records.commit([Put(row) for row in family.values()])
        memory_id = family["memories"].__dict__["id"]
        with records.read_snapshot() as snapshot:
            ids_before, sequence = _read_ids(Memory, snapshot), snapshot.sequence
            other = family["memories"].model_copy(update={"id": "later", "hash": None, "key": None})
            records.commit([Put(other), Delete(Memory, ("org", memory_id)), Put(make_feed_line("later"))])
            assert _read_ids(Memory, snapshot) == ids_before == {memory_id}
            assert snapshot.count(Tag) == 1
            assert snapshot.sequence == sequence

    def test_no_change_between_two_snapshots_is_missed(self, records: Records) -> None:
        family = make_family("org")
        row = family["memories"]
        copies = [row.model_copy(update={"id": f"m{number}", "hash": None, "key": None}) for number in range(6)]
        records.commit([*map(Put, family.values()), *map(Put, copies)])
        with records.read_snapshot() as earlier:
            mark = earlier.mark
        records.commit([Patch(Memory, ("org", "m1"), {"text": "changed"})])
        records.commit([Increment(Memory, ("org", "m2"), {"access_count": 1})])
        records.commit([Delete(Memory, ("org", "m3"))])
        records.commit([Put(row.model_copy(update={"id": "m9", "hash": None, "key": None, "created_at": NOON}))])
        with records.read_snapshot() as snapshot:
            rows: list[PlainRow] = []
            changes = snapshot.read_changes(Memory, mark, rows.append)
            if changes is None:  # the store does not track changes, so all rows are compared
                assert not mark
                return
            assert sum(batch.size for batch in changes.batches) == len(rows)
            changed_ids = {row.__dict__["id"] for row in _decode_rows(Memory, rows)}
            assert {"m1", "m2", "m9"} <= changed_ids
            assert "m3" not in changed_ids
            if changes.touched is not None:
                assert len(changes.touched) == len(changed_ids) + 1  # the deleted row too
            assert snapshot.count(Memory) == len(records.scan(Memory, None, [Where("id", Op.NE, "")], deleted=True))

    def test_a_mark_of_another_store_is_ignored(self, records: Records) -> None:
        with records.read_snapshot() as snapshot:
            assert snapshot.read_changes(Memory, "another/1", print) is None
            assert snapshot.read_changes(Memory, "", print) is None


def _list_keys(entity: type[Row], snapshot: StoreSnapshot) -> list[tuple[Any, ...]]:
    return [tuple(key) for key in select_keys(entity, _read_plain(entity, snapshot))]
