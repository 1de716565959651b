"""Memories are hidden, purged, and forgotten by a filter, in a job that can be stopped and continued."""

import pytest

from everhold import Everhold, View
from everhold.errors import InvalidInput, NotFound
from everhold.model import Chunk, Job, Memory
from everhold.remember import forget
from tests.engines import Store, get_records, read_all_rows, texts


def test_a_forgotten_memory_is_hidden_everywhere_and_restored(engine: Everhold, alice: View) -> None:
    memory = alice.remember("Hide me", tags=["t"], key="k")
    other_memory = alice.remember("Hide nothing")
    alice.relate(memory.id, other_memory.id)
    alice.recall("hide")
    before = read_all_rows(engine)
    assert alice.forget("k").id == memory.id
    for call in (lambda: alice.get(memory.id), lambda: alice.get("k"), lambda: alice.history(memory.id),
                   lambda: alice.forget(memory.id), lambda: alice.tag(memory.id, "x"),
                   lambda: alice.revise(memory.id, text="x"), lambda: alice.relations(memory.id)):  # fmt: skip
        with pytest.raises(NotFound):
            call()
    assert texts(alice.recall("hide", minimum=0)) == ["Hide nothing"]
    assert [memory.id for memory in alice.list()] == [other_memory.id]
    assert alice.tags() == {}
    assert alice.relations(other_memory.id) == []
    alice.undo(memory.id)
    assert alice.tags() == {"t": 1}
    assert alice.get("k").text == "Hide me"
    assert len(alice.relations(other_memory.id)) == 1
    assert sorted(texts(alice.recall("hide", minimum=0))) == ["Hide me", "Hide nothing"]
    assert read_all_rows(engine)["chunks"] == before["chunks"]


def test_a_purged_memory_leaves_no_rows(engine: Everhold, alice: View) -> None:
    memory = alice.remember("Purge me", tags=["t"])
    other_memory = alice.remember("Keep me")
    alice.relate(memory.id, other_memory.id)
    alice.revise(memory.id, text="Purge me now")
    alice.forget(memory.id, hard=True)
    rows = read_all_rows(engine)
    assert [row.id for row in rows["memories"].values()] == [other_memory.id]
    assert {row.owner_id for row in rows["chunks"].values()} == {other_memory.id}
    assert rows["memory_tags"] == rows["memory_relationships"] == rows["revisions"] == {}
    assert texts(alice.recall("purge me", minimum=0)) == ["Keep me"]
    lines = [line for line in alice.log() if line.request.get("memory") == memory.id]
    assert {line.operation for line in lines} >= {"create", "update", "delete"}
    assert {line.memory_id for line in lines} == {memory.id}
    with pytest.raises(NotFound):
        alice.undo(memory.id)


def test_a_hidden_memory_can_be_purged(alice: View) -> None:
    memory = alice.remember("Hidden first")
    alice.forget(memory.id)
    alice.forget(memory.id, hard=True)
    with pytest.raises(NotFound):
        alice.undo(memory.id)
    with pytest.raises(NotFound):
        alice.forget(memory.id, hard=True)


@pytest.mark.parametrize("hard", [False, True])
def test_memories_are_forgotten_by_a_filter_after_a_preview(engine: Everhold, alice: View, hard: bool) -> None:
    alice.remember_many({"text": f"Plan {n}", "kind": "plan", "tags": [f"t{n % 2}"]} for n in range(6))
    alice.remember("Fact", kind="fact", tags=["t0"])
    engine.scope(user="bob").remember("Plan of Bob", kind="plan", tags=["t0"])
    before = read_all_rows(engine)["memories"]
    preview = alice.forget_where(kind="plan", tags="t0", hard=hard, preview=True)
    assert (preview.count, preview.preview) == (3, True)
    assert sorted(memory.text for memory in preview.memories) == ["Plan 0", "Plan 2", "Plan 4"]
    assert read_all_rows(engine)["memories"] == before
    counts: list[int] = []
    forgotten = alice.forget_where(kind="plan", tags="t0", hard=hard, progress=counts.append)
    assert (forgotten.count, forgotten.preview, sum(counts)) == (3, False, 3)
    assert forgotten.memories == preview.memories
    assert sorted(memory.text for memory in alice.list()) == ["Fact", "Plan 1", "Plan 3", "Plan 5"]
    assert len(engine.scope(user="bob").list()) == 1
    assert get_records(engine).count(Memory, "default", deleted=True) == (5 if hard else 8)
    if not hard:
        alice.undo()
        assert len(alice.list()) == 7
    assert alice.forget_where(kind="nothing").count == 0


def test_forgetting_everything_needs_an_explicit_argument(engine: Everhold, alice: View) -> None:
    alice.remember_many(["a", "b"])
    engine.scope(user="bob").remember("c")
    for arguments in ({}, {"everything": False}, {"everything": True, "kind": "fact"}):
        with pytest.raises(InvalidInput, match="either a filter or everything=True"):
            alice.forget_where(**arguments)
    preview = alice.forget_where(everything=True, preview=True)
    assert (preview.count, alice.count(), engine.scope().count()) == (2, 2, 3)
    assert alice.forget_where(everything=True).count == 2
    assert (alice.list().memories, alice.count(), engine.scope().count()) == ((), 0, 1)
    alice.undo()
    assert (alice.count(), alice.count(kind="fact"), alice.count(where={"text": "a"})) == (2, 0, 1)


class Stopped(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("hard", [False, True])
def test_a_stopped_job_continues(store: Store, monkeypatch: pytest.MonkeyPatch, hard: bool) -> None:
    monkeypatch.setattr(forget, "_BATCH", 10)
    engine = store.open()
    alice = engine.scope(user="alice")
    alice.remember_many({"text": f"Plan {n}", "kind": "plan"} for n in range(35))
    alice.remember_many(f"Other {n}" for n in range(5))
    counts: list[int] = []

    def stop(count: int) -> None:
        counts.append(count)
        if len(counts) == 2:
            raise Stopped

    with pytest.raises(Stopped):
        alice.forget_where(kind="plan", hard=hard, progress=stop)
    assert len(alice.list()) == 20
    restarted = store.open()  # as after a restart
    late = restarted.scope(user="alice").remember("Plan late", kind="plan")
    [job] = [row for row in get_records(restarted).scan(Job, "default") if row.kind == "forget"]
    assert (job.status, job.progress, job.total) == ("running", 20, 35)
    assert forget.resume(restarted._parts.write_deps, job) == 15
    memories = restarted.scope(user="alice").list().memories
    assert {memory.text for memory in memories} == {f"Other {n}" for n in range(5)} | {"Plan late"}
    assert late.id in {memory.id for memory in memories}, "the list was frozen when the job began"
    [job] = [row for row in get_records(restarted).scan(Job, "default") if row.kind == "forget"]
    assert (job.status, job.progress, job.state) == ("done", 35, {})
    assert len(restarted.scope(user="alice").recall("plan", k=50, minimum=0)) == 6
    assert get_records(restarted).count(Chunk, "default") == (6 if hard else 41)


def test_a_job_never_leaves_its_scope(engine: Everhold, alice: View) -> None:
    mine, theirs = alice.remember("Mine"), engine.scope(user="bob").remember("Theirs")
    forgotten = forget.forget_all(engine._parts.write_deps, alice.scope, [mine.id, theirs.id, "nothing"], hard=True)
    assert forgotten == 1
    assert engine.scope(user="bob").get(theirs.id).text == "Theirs"
