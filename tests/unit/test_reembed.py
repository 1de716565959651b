"""Changing the embedding model while the store is in use."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from everhold import clock
from everhold.adapters.portable.scanned_vectors import ScannedVectors
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords, SqliteWords
from everhold.errors import InvalidSettings, ModelError, ModelUnavailable, StoreBusy
from everhold.maintenance.reembed import ReembedWork, Stopped, drop_retired, reembed
from everhold.maintenance.reembedding import Reembedding
from everhold.maintenance.serving import WordsOnlyEmbedder, ensure_serving_model, list_models
from everhold.model import Chunk, EmbeddingModel, Job, Lease, Memory, Scope
from everhold.ports.embedder import Embedder, Vector
from everhold.ports.search_indexes import SearchIndexes
from everhold.recall.images import ImageCache
from everhold.recall.pipeline import recall
from everhold.recall.request import RecallDeps, Request
from everhold.remember.chunks import Chunking, make_chunks_for_model
from everhold.remember.forget import forget
from everhold.remember.pipeline import WriteDeps, remember
from everhold.remember.revise import revise
from everhold.remember.scope_rows import ScopeRows
from everhold.remember.undo import undo
from everhold.schema.operations import Delete, Op, Where
from everhold.testing.fake_embedder import FakeEmbedder

SCOPE = Scope(organization="acme", user="alice")
OTHER = Scope(organization="bolt")
OLD = FakeEmbedder("small", 32)
BATCH = 8


@dataclass
class RecordingEmbedder(FakeEmbedder):
    """A fake embedder that records the texts that it embeds, and may call a function first."""

    name: str = "large"
    size: int = 96
    embedded_texts: list[str] = field(default_factory=list)
    before_embedding: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        super().__init__(self.name, self.size)

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        self.before_embedding()
        self.embedded_texts += texts
        return super().embed(texts)


class ModelChange:
    """A store whose memories were embedded by the old model, and a change to the new model."""

    def __init__(self, records: SqliteRecords) -> None:
        self.records = records
        self.new = RecordingEmbedder()
        self.serving = ensure_serving_model(records, OLD.model, OLD.dimensions)
        self.texts = [f"fact {number} about {word}" for number, word in enumerate(["tea", "rain", "piano"] * 12)]
        self.ids = [memory.id for memory in remember(self.make_write_deps(OLD), SCOPE, self.texts)]
        remember(self.make_write_deps(OLD), OTHER, ["bolt likes coffee", "bolt likes snow"])

    def make_write_deps(self, embedder: Embedder, also: Embedder | None = None) -> WriteDeps:
        second = (Chunking(also, FakeEmbedder()),) if also else ()
        scope_rows = ScopeRows(self.records, strict=False, timezone="UTC")
        return WriteDeps(self.records, Chunking(embedder, FakeEmbedder(), also=second), scope_rows, 1_000_000)

    @property
    def write_deps(self) -> WriteDeps:
        """The write deps of an engine during the change: it embeds by both models."""
        return self.make_write_deps(RecordingEmbedder(), also=OLD)

    def make_recall_deps(self, embedder: Embedder) -> RecallDeps:
        images = ImageCache(self.records, embedder.model, embedder.dimensions, budget=10**9, max_memories=10**6)
        return RecallDeps(
            self.records, embedder, images, SearchIndexes(SqliteWords(self.records), ScannedVectors(self.records))
        )

    def find_best(self, embedder: Embedder, text: str, scope: Scope = SCOPE, **options: object) -> str:
        return recall(self.make_recall_deps(embedder), scope, Request(text, 1, **options))[0].memory.id

    def make_chunks(self, memories: Sequence[Memory]) -> list[list[Chunk]]:
        return make_chunks_for_model(memories, Chunking(self.new, FakeEmbedder()))

    def make_work(self, watch: Callable[[int], None] = lambda _: None) -> ReembedWork:
        return ReembedWork(self.records, self.make_chunks, self.serving, self.target, watch, BATCH)

    @property
    def target(self) -> EmbeddingModel:
        return EmbeddingModel(name=self.new.model, dimensions=self.new.dimensions, status="building")

    def make_thread(self, on_switch: Callable[[], None] = lambda: None) -> Reembedding:
        serving = ensure_serving_model(self.records, self.new.model, self.new.dimensions)
        return Reembedding(
            self.records,
            self.make_chunks,
            old=serving,
            new=self.target,
            on_switch=on_switch,
            batch=BATCH,
            settle_seconds=0.01,
        )

    def list_chunks(self, model: str, *where: Where, organization: str = "acme") -> list[Chunk]:
        return self.records.scan(Chunk, organization, [Where("model", Op.EQ, model), *where])


def describe(model: EmbeddingModel) -> tuple[str, int, str, int]:
    return model.name, model.dimensions, model.status, model.generation


@pytest.fixture
def change(tmp_path: Path) -> Iterator[ModelChange]:
    records = SqliteRecords(SqliteOptions(tmp_path / "memory.db", synchronous="NORMAL"))
    yield ModelChange(records)
    records.close()


def stop_after(batches: int) -> Callable[[int], None]:
    """Return a function that stops the change after this number of batches."""
    batches_done: list[int] = []

    def watch(done: int) -> None:
        if done:
            batches_done.append(done)
        if len(batches_done) >= batches:
            raise Stopped

    return watch


class TestServing:
    def test_the_first_model_serves_and_is_remembered(self, change: ModelChange) -> None:
        assert describe(change.serving) == ("small", 32, "serving", 1)
        assert ensure_serving_model(change.records, "large", 96) == change.serving

    def test_a_store_without_a_row_is_served_by_the_model_of_its_chunks(self, change: ModelChange) -> None:
        change.records.commit([Delete(EmbeddingModel, ("small",))])
        assert describe(ensure_serving_model(change.records, "large", 96)) == ("small", 32, "serving", 1)

    def test_a_read_only_store_is_only_read(self, tmp_path: Path) -> None:
        path = tmp_path / "memory.db"
        SqliteRecords(SqliteOptions(path)).close()
        records = SqliteRecords(SqliteOptions(path, read_only=True))
        assert ensure_serving_model(records, "large", 96).name == "large"
        records.close()


class TestReembed:
    def test_the_change_is_complete_and_no_old_chunk_is_left(self, change: ModelChange) -> None:
        reembed(change.make_work())
        drop_retired(change.records, {"large"}, lambda _: None)
        drop_retired(change.records, {"large"}, lambda _: None)
        assert list(map(describe, list_models(change.records))) == [("large", 96, "serving", 2)]
        for organization in ("acme", "bolt"):
            assert change.list_chunks("small", organization=organization) == []
        assert {chunk.owner_id for chunk in change.list_chunks("large")} == set(change.ids)
        assert all(len(chunk.vector or b"") == 2 * 96 for chunk in change.list_chunks("large"))
        for memory_id, text in zip(change.ids, change.texts, strict=True):
            assert change.find_best(change.new, text) == memory_id

    def test_chunks_keep_their_terms_and_times(self, change: ModelChange) -> None:
        revise(
            change.make_write_deps(OLD),
            SCOPE,
            change.ids[0],
            {"text": "fact 0 is about coffee", "aliases": ["kopi"]},
            None,
        )
        reembed(change.make_work())
        column_names = ("owner_id", "user_id", "revision", "chunk_index", "terms", "known_from", "known_to")
        old, new = (
            [tuple(getattr(chunk, name) for name in column_names) for chunk in change.list_chunks(model)]
            for model in ("small", "large")
        )
        assert old == new

    def test_recall_works_at_all_times(self, change: ModelChange) -> None:
        answers: list[str] = []

        def watch(_: int) -> None:
            text = change.texts[len(answers) % len(change.texts)]
            answers.append(change.find_best(OLD, text))
            assert answers[-1] == change.ids[(len(answers) - 1) % len(change.texts)]

        reembed(change.make_work(watch))
        assert len(answers) > 5

    def test_a_stopped_change_continues_without_repeating_work(self, change: ModelChange) -> None:
        with pytest.raises(Stopped):
            reembed(change.make_work(stop_after(3)))
        first = list(change.new.embedded_texts)
        assert len(first) == 3 * BATCH
        change.new = RecordingEmbedder()
        reembed(change.make_work())
        assert not set(first) & set(change.new.embedded_texts)
        assert len(first) + len(change.new.embedded_texts) == len(change.texts) + 2
        assert {chunk.owner_id for chunk in change.list_chunks("large")} == set(change.ids)

    def test_the_progress_of_a_change_is_stored(self, change: ModelChange) -> None:
        with pytest.raises(Stopped):
            reembed(change.make_work(stop_after(2)))
        (job,) = change.records.scan(Job, "acme", [Where("kind", Op.EQ, "reembed")])
        assert (job.progress, job.total, job.status) == (2 * BATCH, len(change.texts), "running")
        assert change.records.scan(Lease, None)[0].holder is None

    def test_memories_written_during_reembedding_are_found_before_and_after(self, change: ModelChange) -> None:
        written: dict[str, str] = {}

        def watch(_: int) -> None:
            if len(written) == 6:
                return
            text = f"written during the change, number {len(written)}"
            (memory,) = remember(change.write_deps, SCOPE, [text])
            written[text] = memory.id
            assert change.find_best(OLD, text) == memory.id

        reembed(change.make_work(watch))
        drop_retired(change.records, {"large"}, lambda _: None)
        for text, memory_id in written.items():
            assert change.find_best(change.new, text) == memory_id

    def test_memories_written_by_the_old_model_during_the_change_are_embedded(self, change: ModelChange) -> None:
        memories = remember(
            change.make_write_deps(OLD), SCOPE, [{"id": "zzz", "text": "late"}, {"id": "aaa", "text": "early"}]
        )
        with pytest.raises(Stopped):
            reembed(change.make_work(stop_after(2)))
        remember(change.make_write_deps(OLD), SCOPE, [{"id": "aab", "text": "behind the cursor"}])
        reembed(change.make_work())
        assert change.find_best(change.new, "behind the cursor") == "aab"
        assert change.find_best(change.new, "late") == memories[0].id

    def test_recall_as_of_a_past_time_still_works(self, change: ModelChange) -> None:
        memory_id = change.ids[4]
        before = clock.now()
        revise(change.make_write_deps(OLD), SCOPE, memory_id, {"text": "the violin is out of tune"}, None)
        between = clock.now()
        revise(change.make_write_deps(OLD), SCOPE, memory_id, {"importance": 0.9}, None)
        revise(change.make_write_deps(OLD), SCOPE, memory_id, {"text": "the violin was repaired"}, None)
        reembed(change.make_work())
        drop_retired(change.records, {"large"}, lambda _: None)
        assert change.find_best(change.new, change.texts[4], as_of=before) == memory_id
        assert change.find_best(change.new, "the violin is out of tune", as_of=between) == memory_id
        assert change.find_best(change.new, "the violin was repaired") == memory_id
        (current,) = change.list_chunks("large", Where("owner_id", Op.EQ, memory_id), Where("known_to", Op.EQ, None))
        assert "repair" in current.terms

    def test_a_memory_revised_between_reading_and_writing_keeps_its_revision(self, change: ModelChange) -> None:
        memory_id = change.ids[0]

        def revise_once() -> None:
            change.new.before_embedding = lambda: None
            revise(change.write_deps, SCOPE, memory_id, {"text": "changed in the middle"}, None)

        change.new.before_embedding = revise_once
        reembed(change.make_work())
        is_owner = Where("owner_id", Op.EQ, memory_id)
        (current,) = change.list_chunks("large", is_owner, Where("known_to", Op.EQ, None))
        assert current.revision == 1
        assert len(change.list_chunks("large", is_owner)) == 2
        assert change.find_best(change.new, "changed in the middle") == memory_id

    def test_a_memory_purged_between_reading_and_writing_stays_purged(self, change: ModelChange) -> None:
        def purge_once() -> None:
            change.new.before_embedding = lambda: None
            forget(change.write_deps, SCOPE, change.ids[3], hard=True)

        change.new.before_embedding = purge_once
        reembed(change.make_work())
        assert {chunk.owner_id for chunk in change.list_chunks("large")} == set(change.ids) - {change.ids[3]}

    def test_a_deleted_memory_is_found_when_it_is_restored(self, change: ModelChange) -> None:
        forget(change.make_write_deps(OLD), SCOPE, change.ids[7], hard=False)
        reembed(change.make_work())
        drop_retired(change.records, {"large"}, lambda _: None)
        undo(change.make_write_deps(change.new), SCOPE, change.ids[7])
        assert change.find_best(change.new, change.texts[7]) == change.ids[7]

    def test_only_one_process_works_at_a_time(self, change: ModelChange) -> None:
        messages: list[str] = []

        def watch(done: int) -> None:
            if done == BATCH and not messages:
                with pytest.raises(StoreBusy) as caught:
                    reembed(change.make_work())
                messages.append(str(caught.value))

        reembed(change.make_work(watch))
        assert "another process is embedding organization 'acme' again" in messages[0]

    def test_a_model_can_be_changed_and_changed_back(self, change: ModelChange) -> None:
        reembed(change.make_work())
        change.serving, change.new = list_models(change.records)[0], RecordingEmbedder("small", 32)
        reembed(change.make_work())
        assert describe(list_models(change.records)[0]) == ("small", 32, "serving", 3)
        assert change.new.embedded_texts == [], "the chunks of the first model were still there"
        drop_retired(change.records, {"small"}, lambda _: None)
        assert change.list_chunks("large") == []

    def test_an_abandoned_change_leaves_no_chunks(self, change: ModelChange) -> None:
        with pytest.raises(Stopped):
            reembed(change.make_work(stop_after(1)))
        change.new = RecordingEmbedder("huge", 128)
        reembed(change.make_work())
        for _ in range(2):
            drop_retired(change.records, {"huge"}, lambda _: None)
        assert list(map(describe, list_models(change.records))) == [("huge", 128, "serving", 2)]
        assert change.list_chunks("large") == []
        assert change.list_chunks("small") == []


class TestWordsOnly:
    def test_without_the_old_model_recall_by_words_still_works(self, change: ModelChange) -> None:
        words_only = WordsOnlyEmbedder(change.serving)
        writer = change.make_write_deps(change.new, also=words_only)
        (memory,) = remember(writer, SCOPE, ["the kettle whistles"])
        assert change.find_best(words_only, "whistling kettles") == memory.id
        assert change.find_best(words_only, "35 about") == change.ids[35]
        reembed(change.make_work())
        assert change.find_best(change.new, "the kettle whistles") == memory.id


class TestThread:
    def test_the_thread_runs_until_the_change_is_complete(self, change: ModelChange) -> None:
        answers: list[bool] = []
        thread = change.make_thread(
            lambda: answers.append(change.find_best(change.new, change.texts[5]) == change.ids[5])
        )
        thread.start()
        assert thread.wait(150)
        assert answers == [True]
        assert thread.progress == (len(change.texts) + 2, len(change.texts) + 2, True)
        assert list(map(describe, list_models(change.records))) == [("large", 96, "serving", 2)]
        assert change.list_chunks("small") == []

    def test_a_thread_stopped_in_the_middle_is_started_again(self, change: ModelChange) -> None:
        reached, may_continue = threading.Event(), threading.Event()

        def hold() -> None:
            if len(change.new.embedded_texts) >= 2 * BATCH:
                reached.set()
                may_continue.wait(100)

        change.new.before_embedding = hold
        thread = change.make_thread()
        thread.start()
        assert reached.wait(100)
        stopper = threading.Thread(target=thread.stop)
        stopper.start()
        may_continue.set()
        stopper.join()
        assert not thread.wait(1)
        first, change.new = list(change.new.embedded_texts), RecordingEmbedder()
        second_thread = change.make_thread()
        second_thread.start()
        assert second_thread.wait(150)
        assert not set(first) & set(change.new.embedded_texts)
        assert change.list_chunks("small") == []

    def test_a_thread_that_was_killed_after_the_change_still_cleans_up(self, change: ModelChange) -> None:
        reembed(change.make_work())
        thread = change.make_thread(lambda: pytest.fail("nothing was switched"))
        thread.start()
        assert thread.wait(150)
        assert change.list_chunks("small") == []
        assert len(list_models(change.records)) == 1

    def test_two_processes_complete_one_change(self, change: ModelChange) -> None:
        counts: list[int] = []
        threads = [change.make_thread(partial(counts.append, number)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            assert thread.wait(300)
        assert sorted(counts) == [0, 1]
        assert change.list_chunks("small") == []
        assert {chunk.owner_id for chunk in change.list_chunks("large")} == set(change.ids)

    def test_a_temporary_failure_is_retried(self, change: ModelChange, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("everhold.maintenance.reembedding._CHECK_SECONDS", 0.01)
        failures = iter([ModelUnavailable("gone"), ModelUnavailable("still gone")])

        def fail() -> None:
            for error in failures:
                raise error

        change.new.before_embedding = fail
        thread = change.make_thread()
        thread.start()
        assert thread.wait(150)
        assert thread.failure is None

    def test_a_permanent_failure_is_reported(self, change: ModelChange) -> None:
        def fail() -> None:
            raise ModelError("the weights are not what they were")

        change.new.before_embedding = fail
        thread = change.make_thread()
        thread.start()
        assert not thread.wait(150)
        assert "weights" in str(thread.failure)
        assert change.find_best(OLD, change.texts[0]) == change.ids[0]

    def test_one_name_cannot_have_two_sizes(self, change: ModelChange) -> None:
        change.new = RecordingEmbedder("small", 64)
        with pytest.raises(InvalidSettings, match="32 dimensions in this store and 64"):
            change.make_thread()
