"""Search spaces, the kinds that are registered, and following the change feed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from everhold import clock
from everhold.adapters.in_memory import InMemoryRecords
from everhold.adapters.portable.scanned_vectors import ScannedVectors
from everhold.adapters.portable.scanned_words import ScannedWords
from everhold.model import Organization, Outbox, Scope, TableMetadata
from everhold.model import searchable as registry
from everhold.model.announcement import make_announcement
from everhold.model.searchable import OWNER_COLUMNS, SEARCHABLE
from everhold.ports import feed_follower
from everhold.ports.feed_follower import FeedFollower
from everhold.ports.search_indexes import SearchIndexes
from everhold.ports.search_space import SearchSpace
from everhold.recall.images import ImageCache
from everhold.recall.pipeline import recall
from everhold.recall.request import RecallDeps, Request
from everhold.remember.chunks import Chunking, make_chunks
from everhold.schema.catalog import get_table
from everhold.schema.operations import Hide, Put
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.testing.records_rows import make_row


def test_every_kind_is_read_from_columns_of_its_own_table() -> None:
    for kind in SEARCHABLE.values():
        table = get_table(kind.entity)
        assert table.name == kind.table
        assert set(kind.columns) <= set(table.names)
        assert kind.columns[0] == "id"
        values = tuple(f"{name}'s value" for name in kind.columns)
        row = dict(zip(OWNER_COLUMNS, kind.arrange(values), strict=True))
        assert row["id"] == "id's value"
        for column, source in kind.sources.items():
            assert row[column] == f"{source}'s value"
    assert SEARCHABLE["memory"].arrange(OWNER_COLUMNS) == OWNER_COLUMNS


@pytest.mark.parametrize("has_vectors", [True, False])
def test_records_without_a_user_are_found_in_their_organization(
    has_vectors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = replace(SEARCHABLE["table"], has_vectors=has_vectors)
    monkeypatch.setitem(registry.SEARCHABLE, "table", kind)  # type: ignore[arg-type]
    monkeypatch.setitem(registry.SEARCHABLE_BY_CLASS_NAME, "TableMetadata", kind)  # type: ignore[arg-type]
    records, embedder = InMemoryRecords(), FakeEmbedder()
    records.commit([Put(make_row(Organization, "org", "org"))])
    for name, description in (("orders", "What customers bought"), ("staff", "Who works here"), ("gone", "bought")):
        table = make_row(
            TableMetadata, "org", name, table_name=name, description=description, source_id=None, connection_id=None
        )
        chunks = make_chunks([table], Chunking(embedder, embedder))[0]
        assert [(chunk.model, chunk.vector is not None) for chunk in chunks] == [
            (embedder.model if has_vectors else "", has_vectors)
        ]
        records.commit([Put(table), *map(Put, chunks), Put(make_announcement(table))])
    records.commit([Hide(TableMetadata, ("org", "gone"), "deletion", clock.now())])
    answers = []
    for max_memories in (1000, 0):
        images = ImageCache(records, embedder.model, embedder.dimensions, budget=10**9, max_memories=max_memories)
        candidates = SearchIndexes(ScannedWords(records), ScannedVectors(records))
        recall_deps = RecallDeps(records, embedder, images, candidates)
        request = Request("what was bought by customers", minimum=0, among=("table",))
        hits = recall(recall_deps, Scope(organization="org"), request)
        answers.append([(hit.kind, hit.id, hit.score, hit.text) for hit in hits])
    assert [(kind, owner_id) for kind, owner_id, *_ in answers[0]] == [("table", "orders"), ("table", "staff")]
    # Without vectors, candidates come only from words.
    assert answers[1] == (answers[0] if has_vectors else answers[0][:1])


def test_a_space_selects_the_chunks_of_its_users() -> None:
    fields = {condition.field: condition.value for condition in SearchSpace("o", ("alice", ""), "m").chunks()}
    assert fields == {
        "owner_kind": "memory", "namespace": "long-term", "model": "m", "user_id": ["alice", ""], "known_to": None
    }  # fmt: skip
    assert "known_to" not in {condition.field for condition in SearchSpace("o", None, "m").chunks(closed=True)}
    assert [condition.value for condition in SearchSpace("o", ("alice",), "m", "table").owners()] == [[]]
    assert SearchSpace("o", ("", "alice"), "m", "table").owners() == []


class TestFollowing:
    def make_put(self, number: int) -> Put:
        return Put(Outbox(organization_id="o", entity="memories", entity_id=f"m{number}", operation="put"))

    def test_every_line_is_applied_once_in_any_number_of_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(feed_follower.FeedFollower.read, "__defaults__", (3,))
        records = InMemoryRecords()
        follower, applied_ids = FeedFollower(records), list[str]()
        for number in range(10):
            records.commit([self.make_put(number)])
        follower.follow(lambda lines: applied_ids.extend(line.entity_id for line in lines))
        follower.follow(lambda lines: applied_ids.extend(line.entity_id for line in lines))
        assert applied_ids == [f"m{number}" for number in range(10)]

    def test_a_line_that_could_not_be_applied_is_read_again(self) -> None:
        records = InMemoryRecords()
        follower, applied_ids = FeedFollower(records), list[str]()
        records.commit([self.make_put(1)])

        def fail(lines: object) -> None:
            raise OSError("the disk is full")

        with pytest.raises(OSError, match="disk is full"):
            follower.follow(fail)
        follower.follow(lambda lines: applied_ids.extend(line.entity_id for line in lines))
        assert applied_ids == ["m1"]

    def test_a_follower_notices_that_lines_it_has_not_read_were_deleted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        follower = FeedFollower(InMemoryRecords())
        assert not follower.has_lost_place
        later = clock.now() + timedelta(days=7)
        monkeypatch.setattr(clock, "now", lambda: later)
        assert follower.has_lost_place
        follower.jump()
        assert not follower.has_lost_place
