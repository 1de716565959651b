"""Purging rows that were deleted or expired long ago, and trimming the feed."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from everhold import clock
from everhold.adapters.in_memory import InMemoryRecords
from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords
from everhold.model import (
    AccessLog,
    Chunk,
    Job,
    Memory,
    Organization,
    Outbox,
    OutboxMark,
    ProjectionState,
    Scope,
    Session,
    Tag,
    User,
)
from everhold.model.access import compute_digest
from everhold.ports.records import Records
from everhold.progress import StepProgress
from everhold.remember.chunks import Chunking
from everhold.remember.forget import forget
from everhold.remember.pipeline import WriteDeps, remember
from everhold.remember.scope_rows import ScopeRows
from everhold.schema.operations import Delete, Hide, Put, Unhide
from everhold.testing.fake_embedder import FakeEmbedder
from tests.purging import run_purge

SCOPE = Scope(organization="acme", user="alice", session="monday")
OTHER = Scope(organization="bolt", user="bob")


@pytest.fixture(params=["sqlite", "in_memory"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    if request.param == "sqlite":
        records: Records = SqliteRecords(SqliteOptions(tmp_path / "memory.db", synchronous="NORMAL"))
    else:
        records = InMemoryRecords()
    yield records
    records.close()


def make_write_deps(records: Records) -> WriteDeps:
    embedder = FakeEmbedder("fake", 16)
    return WriteDeps(records, Chunking(embedder, embedder), ScopeRows(records, strict=False, timezone="UTC"), 1_000_000)


def add(records: Records, *items: Any, scope: Scope = SCOPE) -> list[str]:
    return [memory.id for memory in remember(make_write_deps(records), scope, items)]


def run(records: Records, days: float = 31, **options: Any) -> dict[str, dict[str, int]]:
    """Run each job as if this number of days had passed, and return what it did, by table."""
    report = run_purge(records, clock.now() + timedelta(days=days), **options)
    assert {job.outcome for job in report.jobs} <= {"done", "planned"}
    return {job.name: dict(job.counts) for job in report.jobs}


NOTHING: dict[str, dict[str, int]] = {"expire": {}, "purge": {}, "outbox": {}}


class TestMemories:
    def test_only_memories_deleted_longer_than_the_grace_period_are_purged(self, records: Records) -> None:
        kept_id, purged_id = add(records, {"text": "tea", "tags": ["drink"]}, {"text": "rain", "tags": ["weather"]})
        forget(make_write_deps(records), SCOPE, purged_id, hard=False)
        assert run(records, days=29) == NOTHING
        assert set(records.get(Memory, "acme", [kept_id, purged_id], deleted=True)) == {kept_id, purged_id}
        assert run(records, dry_run=True)["purge"] == {"memories": 1, "memory_tags": 1}
        assert run(records)["purge"] == {"memories": 1}
        assert set(records.get(Memory, "acme", [kept_id, purged_id], deleted=True)) == {kept_id}
        assert {chunk.owner_id for chunk in records.scan(Chunk, "acme")} == {kept_id}
        assert {tag.memory_id for tag in records.scan(Tag, "acme", deleted=True)} == {kept_id}

    def test_expired_memories_are_counted_separately(self, records: Records) -> None:
        soon = clock.now() + timedelta(days=1)
        kept_id, expired_id = add(records, "tea", {"text": "rain", "expires_at": soon})
        assert run(records, days=30) == NOTHING
        assert run(records, days=32) == {**NOTHING, "expire": {"memories": 1}}
        assert set(records.get(Memory, "acme", [kept_id, expired_id], deleted=True)) == {kept_id}

    def test_every_memory_leaves_a_line_in_the_log_and_in_the_feed(self, records: Records) -> None:
        ids = add(records, "tea", "rain", "snow")
        for erased_id in ids[:2]:
            forget(make_write_deps(records), SCOPE, erased_id, hard=False)
        head = records.head()
        run(records)
        lines = records.feed(head).lines
        assert [(line.entity, line.entity_id, line.operation, line.user_id) for line in lines] == [
            ("memories", memory_id, "reindex", "alice")
            for memory_id in sorted(ids[:2])  # "delete" was in the feed when they were hidden
        ]
        logged = [line for line in records.scan(AccessLog, "acme") if "purged" in line.request]
        assert [line.request["memory"] for line in logged] == sorted(ids[:2])
        assert all(
            line.digest == compute_digest(line.__dict__) and line.memory_id == line.request["memory"] for line in logged
        )

    def test_memories_of_every_organization_are_purged_in_batches(self, records: Records) -> None:
        for scope in (SCOPE, OTHER):
            ids = add(records, *[f"fact {number}" for number in range(25)], scope=scope)
            for memory_id in ids[:20]:
                forget(make_write_deps(records), scope, memory_id, hard=False)
        reports: list[StepProgress] = []
        assert run(records, batch=8, report=reports.append)["purge"] == {"memories": 40}
        purged = [progress for progress in reports if progress.step == "purge"]
        assert purged == [("purge", done, 40) for done in (0, 8, 16, 20, 28, 36, 40)]
        assert records.count(Memory, "acme", deleted=True) == records.count(Memory, "bolt", deleted=True) == 5
        assert run(records) == NOTHING


class TestAboveMemories:
    def test_a_user_is_purged_with_all_that_was_hidden_with_the_user(self, records: Records) -> None:
        add(records, "tea", "rain")
        records.commit([Hide(User, ("acme", "alice"), clock.make_id("del"), clock.now())])
        assert run(records)["purge"] == {"memories": 2, "sessions": 1, "users": 1}
        for entity in (User, Session, Memory):
            assert records.count(entity, "acme", deleted=True) == 0
        requests = [line.request for line in records.scan(AccessLog, "acme")]
        assert {"table": "users", "row": "alice", "hard": True, "purged": "deleted"} in requests

    def test_no_live_row_is_purged(self, records: Records) -> None:
        (memory_id,) = add(records, "tea")
        forget(make_write_deps(records), SCOPE, memory_id, hard=False)
        deletion = records.get(Memory, "acme", [memory_id], deleted=True)[memory_id].deletion_id
        assert deletion is not None
        records.commit([Hide(User, ("acme", "alice"), clock.make_id("del"), clock.now())])
        records.commit([Unhide("acme", deletion)])
        run(records)
        assert set(records.get(Memory, "acme", [memory_id])) == {memory_id}
        assert records.count(User, "acme", deleted=True) == records.count(Session, "acme", deleted=True) == 1

    def test_a_deleted_organization_is_purged(self, records: Records) -> None:
        add(records, "tea")
        add(records, "rain", scope=OTHER)
        now = clock.now()
        job = Job(id="job", organization_id="acme", created_at=now, updated_at=now, kind="reembed", status="done")
        records.commit([Hide(Organization, ("acme",), clock.make_id("del"), now), Put(job)])
        run(records)
        assert [organization.id for organization in records.scan(Organization, None, deleted=True)] == ["bolt"]
        assert records.count(Memory, "acme", deleted=True) == records.count(AccessLog, "acme") == 0
        assert records.count(Memory, "bolt") == 1


# The first memory of a scope announces the organization, the user and the session too.
SCOPE_LINES = 3


class TestOutbox:
    MONDAY = datetime(2031, 5, 5, 9, tzinfo=UTC)

    def trim(self, records: Records, days: float) -> int:
        now = self.MONDAY + timedelta(days=days)
        planned, report = run_purge(records, now, dry_run=True), run_purge(records, now)
        assert planned["outbox"].counts == report["outbox"].counts
        return report["outbox"].counts.get("outbox", 0)

    def test_lines_of_the_last_week_are_kept(self, records: Records) -> None:
        add(records, *[f"fact {number}" for number in range(10)])
        assert self.trim(records, 0) == 0
        add(records, "tea", {"text": "rain", "idempotency_key": "once"})
        assert self.trim(records, 1) == 0
        assert self.trim(records, 7) == 0, "the mark says only the day of the lines, so Monday's lines stay"
        assert self.trim(records, 8) == SCOPE_LINES + 10
        assert [line.idempotency_key for line in records.feed(0).lines] == [None, "once"]
        assert add(records, {"text": "rain", "idempotency_key": "once"}), "a retry is still recognised"

    def test_the_last_line_is_kept_and_numbers_continue(self, records: Records) -> None:
        add(records, "tea", "rain", "snow")
        head = records.head()
        for day in range(0, 40, 4):
            self.trim(records, day)
        assert [line.sequence for line in records.feed(0).lines] == [head]
        add(records, "piano")
        assert records.head() == head + 1

    def test_no_reader_keeps_the_feed_from_being_trimmed(self, records: Records) -> None:
        add(records, *[f"fact {number}" for number in range(10)])
        records.commit([Put(ProjectionState(projection="p", generation=1, status="serving", applied_sequence=4))])
        self.trim(records, 0)
        assert self.trim(records, 9) == SCOPE_LINES + 9

    def test_a_store_whose_feed_positions_are_not_line_numbers_is_trimmed(self, postgres_url: str) -> None:
        """Positions of PostgreSQL's feed are numbers of transactions, and there are more transactions than lines."""
        records = PostgresRecords(PostgresOptions(url=postgres_url))
        add(records, *[f"fact {number}" for number in range(3)])
        for number in range(40):
            records.commit([Put(OutboxMark(day=f"2031-06-{number}", last_sequence=0))])
            records.commit([Delete(OutboxMark, (f"2031-06-{number}",))])
        position = records.head()
        assert self.trim(records, 0) == 0
        add(records, "tea", {"text": "rain", "idempotency_key": "once"})
        assert self.trim(records, 9) == SCOPE_LINES + 3, "the two lines after the mark may be younger than a week"
        assert [line.idempotency_key for line in records.feed(position).lines] == [None, "once"]
        add(records, *[f"new {number}" for number in range(4)])
        assert self.trim(records, 18) == 2
        records.close()

    def test_old_marks_are_removed(self, records: Records) -> None:
        for day in range(30):
            add(records, f"fact of day {day}")
            self.trim(records, day)
        marks = records.scan(OutboxMark, None)
        assert len(marks) == 9
        assert marks[-1].day == "2031-06-03"
        assert records.count(Outbox, "acme") == 8
