"""Runs beyond one call: one commit for a result and its memories, other processes, awaited verbs, exports."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks.agent_worker import load_example
from everhold import AsyncEverhold, Everhold, RunStep, View
from everhold.errors import Conflict, InvalidInput, ModelUnavailable, NotFound, StoreFull
from everhold.model import ActionResult, Cycle, Execution, Memory
from everhold.schema.operations import Operation, Put
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import KeptRecords, Store, get_records


class FailingEmbedder(FakeEmbedder):
    """An embedder that fails when a test says so."""

    is_down = False

    def embed(self, texts: Sequence[str]) -> list[Any]:
        if self.is_down:
            raise ModelUnavailable("the model does not answer")
        return super().embed(texts)


def test_a_result_is_stored_with_its_memories_or_not_at_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = store.open()
    run = engine.scope(agent="coder").run("Build")
    run.propose("build")
    records = get_records(engine)
    committed: list[Sequence[Operation]] = []
    commit = records.commit

    def count_or_fail(operations: Sequence[Operation]) -> None:
        committed.append(operations)
        if len(committed) == 1:
            raise StoreFull("the disk is full")
        commit(operations)

    monkeypatch.setattr(records, "commit", count_or_fail)
    with pytest.raises(StoreFull):
        run.complete("built", memories=["The build is slow", {"kind": "plan", "text": "Cache it"}])
    assert not records.scan(ActionResult, "default")
    assert not records.scan(Memory, "default")
    assert run.pending is not None
    run.complete("built", memories=["The build is slow", {"kind": "plan", "text": "Cache it"}])
    kinds = {type(operation.row) for operation in committed[1] if isinstance(operation, Put)}
    assert {ActionResult, Memory} <= kinds
    assert len(committed) == 2
    run.finish("done")
    row_types = [type(operation.row) for operation in committed[2] if isinstance(operation, Put)]
    assert Memory in row_types
    assert len(committed) == 3


class Crash(BaseException):
    """Stands for the end of the process."""


class CrashingRecords(KeptRecords):
    """A store whose process ends before or after one of its commits."""

    def __init__(self, crash_at: int | None, *, is_after: bool) -> None:
        super().__init__()
        self.crash_at, self.is_after, self.commits = crash_at, is_after, 0

    def commit(self, operations: Sequence[Operation]) -> None:
        self.commits += 1
        if self.commits == self.crash_at and not self.is_after:
            raise Crash
        super().commit(operations)
        if self.commits == self.crash_at:
            raise Crash


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_a_crash_at_every_commit_changes_nothing(tmp_path: Path, is_after: bool) -> None:
    """The example agent is ended before or after each commit and started again; the result is always the same."""
    example = load_example()

    def work(number: int | None) -> tuple[int, list[Any]]:
        records = CrashingRecords(number, is_after=is_after)
        folder, store = tmp_path / str(number), Store("in_memory", "memory://", records)
        folder.mkdir()
        with suppress(Crash):
            example.work(store.open().scope(agent="reporter"), folder)
        example.work(store.open().scope(agent="reporter"), folder)
        files = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
        mails = sorted(path.read_text() for path in (folder / "mailbox").iterdir())
        run = store.open().scope(agent="reporter").get_run("weekly-report")
        steps = [(step.cycle_index, step.tool, step.output, len(step.memories)) for step in run.steps()]
        memories = sorted(memory.text for memory in records.scan(Memory, "default"))
        return records.commits, [files, mails, steps, memories, run.status, run.execution.output]

    commits, expected = work(None)
    assert commits > 20
    for number in range(1, commits + 1):
        assert work(number)[1] == expected, number


def test_a_result_with_known_memories_is_stored(store: Store) -> None:
    coder = store.open().scope(agent="coder")
    coder.remember("The build is slow")
    run = coder.run("Build")
    for memories in (["The build is slow"], ["The build is slow", "The disk is full"]):
        run.propose("build")
        step = run.complete("built", memories=memories)
        assert [memory.text for memory in step.memories] == memories
    assert len(coder.list()) == 2
    run.propose("build")
    with pytest.raises(InvalidInput):
        run.complete("built", memories=["fine", {"knd": "plan", "text": "x"}])
    assert run.pending is not None


def test_one_of_several_results_is_stored(store: Store) -> None:
    """Two processes believe that they perform the same action."""
    views = [store.open().scope(agent="coder") for _ in range(2)]
    run = views[0].run("Build", id="r1")
    for number in range(8):
        run.propose("build", {"number": number})
        handles = [view.resume("r1") for view in views]
        start = threading.Barrier(2)
        outcomes: list[RunStep | Conflict] = []

        def complete(index: int, handles: Any = handles, start: Any = start, outcomes: Any = outcomes) -> None:
            start.wait()
            try:
                outcomes.append(handles[index].complete(f"by {index}", memories=[f"{index} did it"]))
            except Conflict as error:
                outcomes.append(error)

        threads = [threading.Thread(target=complete, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "RunStep"]
        run = views[0].resume("r1")
        assert run.pending is None
    records = get_records(store.opened[0])
    assert len(records.scan(ActionResult, "default")) == len(records.scan(Cycle, "default")) == 8


def test_a_result_is_never_stored_for_another_action(store: Store) -> None:
    coder = store.open().scope(agent="coder")
    late_run = coder.run("Build", id="r1")
    late_run.propose("build")
    other_run = coder.resume("r1")
    other_run.complete("built")
    other_run.propose("push")
    with pytest.raises(Conflict, match="waits for a result; cycle 0 has succeeded"):
        late_run.complete("not built")
    assert late_run.complete("built").tool == "build"
    with pytest.raises(Conflict, match="cycle 1 of run 'r1' was proposed by another process"):
        late_run.complete("pushed")
    assert coder.resume("r1").complete("pushed").tool == "push"


def test_changes_of_runs_are_events(store: Store) -> None:
    engine = store.open()
    coder = engine.scope(agent="coder", user="alice")
    run = coder.run("Build", id="r1")
    run.propose("build")
    run.complete("built")
    run.finish(remember=False)
    coder.delete_run("r1")
    run_events = [(event.operation, event.id) for event in coder.events() if event.entity == "run"]
    assert run_events == [*[("put", "r1")] * 4, ("delete", "r1")]
    assert not [event for event in engine.scope(user="bob").events() if event.entity == "run"]


def test_an_imported_cycle_may_lack_its_proposal_or_result(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    coder = engine.scope(agent="coder")
    run = coder.run("Build", id="r1")
    step = run.propose("build")
    run.complete("built")
    records = get_records(engine)
    finished_cycle = step.cycle.evolve(id="c1", cycle_index=1, status="succeeded", version=1)
    open_cycle = step.cycle.evolve(id="c2", cycle_index=2, status="running", version=1)
    records.commit([Put(finished_cycle), Put(open_cycle)])
    run = coder.resume("r1")
    assert [(step.tool, step.is_open) for step in run.steps()] == [("build", False), (None, False), (None, True)]
    assert "nothing()" in run.story()
    assert run.pending is not None
    run.complete("done")
    assert run.propose("push").cycle_index == 3


def test_one_of_several_proposals_is_open(store: Store) -> None:
    """Two processes continue one run and propose different actions."""
    views = [store.open().scope(agent="coder") for _ in range(2)]
    views[0].run("Build", id="r1")
    for number in range(8):
        handles = [view.resume("r1") for view in views]
        start = threading.Barrier(2)
        refused: list[Conflict] = []

        def propose(index: int, handles: Any = handles, start: Any = start, refused: Any = refused) -> None:
            start.wait()
            try:
                handles[index].propose(f"tool-{index}")
            except Conflict as error:
                refused.append(error)

        threads = [threading.Thread(target=propose, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 1
        assert views[0].resume("r1").complete(number).cycle_index == number


def test_recall_falls_back_to_stored_scores(store: Store) -> None:
    embedder = FailingEmbedder()
    coder = store.open(embedder).scope(agent="coder")
    run = coder.run("Build")
    run.propose("build")
    run.complete(
        "built",
        summary="Built",
        memories=[
            {"text": "The build is slow", "score": 0.2},
            {"text": "The cache is cold", "score": 0.9},
            {"text": "The log is long", "namespace": "short-term"},
        ],
    )
    embedder.is_down = True
    recalled = coder.recall_with_results("what is slow?", k=2)
    assert recalled.is_fallback
    assert [(item.text, item.score) for item in recalled] == [("The cache is cold", 0.9), ("The build is slow", 0.2)]
    assert recalled[0].step is not None


def test_the_verbs_of_a_run_can_be_awaited(sqlite_store: Store) -> None:
    async def use_engine() -> None:
        engine = sqlite_store.open()
        sqlite_store.opened.remove(engine)
        async with AsyncEverhold(engine) as everhold:
            coder = everhold.scope(agent="coder")
            run = await coder.run("Build", id="r1")
            await run.propose("build")
            assert (run.pending.tool, run.status) == ("build", "running")  # type: ignore[union-attr]
            assert run.idempotency_key == (await coder.resume()).idempotency_key
            assert (await run.complete("built")).output == "built"
            fork = await run.fork(0)
            assert (fork.execution.parent_id, fork.task) == ("r1", "Build")
            await run.finish()
            assert "succeeded" in await (await coder.get_run("r1")).story()
            assert await _record_calls(coder) == ["a 1", "b 2"]
            assert await _record_calls(coder) == []

    asyncio.run(use_engine())


async def _record_calls(coder: Any) -> list[str]:
    run = await coder.run("Loop", id="loop")
    calls: list[str] = []

    @run.step
    async def first(number: int, idempotency_key: str = "") -> int:
        assert idempotency_key == run.idempotency_key
        calls.append(f"a {number}")
        return number

    @run.step
    def second(number: int) -> int:
        calls.append(f"b {number}")
        return number

    assert await first(1) + await second(2) == 3
    await run.finish()
    return calls


def test_a_step_of_a_loop_takes_no_coroutine_function(sqlite_store: Store) -> None:
    run = sqlite_store.open().scope(agent="coder").run("Loop")

    async def work() -> None: ...

    with pytest.raises(InvalidInput, match="use a run of AsyncEverhold"):
        run.step(work)

    @run.step
    def make_set() -> set[int]:
        return {1}

    with pytest.raises(InvalidInput, match="JSON cannot hold a value of type set"):
        make_set()
    assert run.pending is not None


def test_runs_are_exported_and_moved(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    coder = engine.scope(agent="coder", user="alice")
    run = coder.run("Build", id="r1")
    run.propose("build", {"target": "web"})
    run.complete("built", memories=["The build is slow"])
    fork = run.fork(0, id="r2")
    fork.propose("push")
    run.finish("done")
    bundle = tmp_path / "bundle.jsonl"
    engine.export(bundle)
    for name in ("loaded", "moved"):
        target = f"sqlite:///{tmp_path / name}.db"
        if name == "moved":
            Everhold.move(sqlite_store.storage, target)
        copy = sqlite_store.open(storage=target)
        if name == "loaded":
            copy.load(bundle)
        check_copy(copy.scope(agent="coder", user="alice"), run.story(), fork.story())
        assert not copy.doctor().problems


def check_copy(view: View, story: str, fork_story: str) -> None:
    assert view.get_run("r1").story() == story
    resumed = view.resume("r2")
    assert resumed.story() == fork_story
    assert resumed.pending is not None
    assert resumed.pending.tool == "push"
    assert [step.tool for step in view.how_to("build")[0].steps] == ["build"]


def test_an_imported_run_that_is_its_own_ancestor_ends(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    coder = engine.scope(agent="coder")
    run = coder.run("Build", id="r1")
    run.propose("build")
    run.complete("built")
    row = run.execution
    hostile = row.evolve(id="r2", parent_id="r2", fork_index=5, version=1)
    get_records(engine).commit([Put(hostile)])
    assert coder.get_run("r2").steps() == []
    assert coder.get_run("r2").propose("push").cycle_index == 1
    assert get_records(engine).get(Execution, "default", ["r2"])["r2"].parent_id == "r2"


def test_a_run_shows_the_scope_of_a_session_only_what_the_session_has(engine: Everhold) -> None:
    alice = engine.scope(user="alice", agent="coder")
    other_run = alice.run("Pay the rent")
    alice.remember("The rent is 900 euros")
    engine.scope(user="alice", agent="coder", session="s1").run("Make tea", id="tea").propose("boil")
    run = engine.scope(session="s1").get_run("tea")
    assert len(run.known_at(0, "How much is the rent?")) == 0
    with pytest.raises(NotFound):
        run.compare(other_run.id)
    assert len(alice.get_run("tea").known_at(0, "How much is the rent?")) == 1
