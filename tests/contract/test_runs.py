"""Runs, their cycles, proposals and results, and the memories derived from them, on every store."""

import threading
from typing import Any

import pytest

from everhold import Everhold, View
from everhold.errors import Conflict, IdempotencyMismatch, InvalidInput, NotFound, StepFailed
from everhold.model import ActionProposal, ActionResult, Agent, Chunk, Cycle, Execution, Memory
from everhold.schema.operations import Op, Patch, Where
from tests.engines import Store, get_records

EVERYTHING: dict[str, Any] = {
    "thoughts": "The soil is dry",
    "reasoning": "Roses need water in June",
    "plan": ["water", {"then": "rest"}],
    "criticism": "It may rain",
    "workspace_cues": [{"path": "garden.md"}],
    "raw": {"model": "m", "tokens": [1, 2.5, None]},
}


@pytest.fixture
def engine(any_store: Store) -> Everhold:
    return any_store.open()


@pytest.fixture
def gardener(engine: Everhold) -> View:
    return engine.scope(project="garden", user="alice", agent="gardener", session="s1")


def set_agent_status(engine: Everhold, status: str) -> None:
    get_records(engine).commit([Patch(Agent, ("default", "gardener"), {"status": status})])


def test_an_execution_has_every_column(engine: Everhold, gardener: View) -> None:
    message = gardener.say("Please water the roses")
    run = gardener.run("Water the roses", message=message.id, id="run-1")
    [stored] = gardener.runs()
    assert stored == run.execution
    owner = (stored.project_id, stored.user_id, stored.agent_id, stored.session_id, stored.message_id)
    assert owner == ("garden", "alice", "gardener", "s1", message.id)
    assert (stored.id, stored.task, stored.status, stored.ended_at) == ("run-1", "Water the roses", "running", None)
    assert (stored.created_by_id, stored.started_at) == ("alice", stored.created_at)
    run.propose("water")
    run.complete()
    fork = run.fork(0, id="run-2")
    assert (fork.execution.parent_id, fork.execution.fork_index) == ("run-1", 0)
    assert fork.execution.evolve(id="run-1", parent_id=None, fork_index=None, **get_version_and_times(stored)) == stored
    ended = run.finish({"litres": 5})
    assert (ended.status, ended.output, ended.error) == ("succeeded", {"litres": 5}, None)
    assert ended.ended_at is not None
    assert ended.ended_at >= ended.started_at
    failed = fork.fail("The pump broke")
    assert (failed.status, failed.error, failed.output) == ("failed", "The pump broke", None)
    rows = get_records(engine).get(Execution, "default", ["run-1", "run-2"])
    assert rows == {"run-1": ended, "run-2": failed}
    assert [row.id for row in gardener.runs(status="failed")] == ["run-2"]
    with pytest.raises(NotFound, match="no message 'm9' in this scope"):
        gardener.run("Water the tulips", message="m9")


def get_version_and_times(execution: Execution) -> dict[str, Any]:
    return {name: execution.__dict__[name] for name in ("created_at", "updated_at", "started_at", "version")}


def test_a_run_without_an_agent_has_steps(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    runs = [alice.run(f"Report {number}") for number in range(2)]
    for number in range(3):
        for run in runs:
            assert run.propose("write", {"page": number}).cycle_index == number
            run.complete(f"page {number}")
    assert [step.output for step in runs[0].steps()] == ["page 0", "page 1", "page 2"]
    assert {step.cycle.agent_id for step in runs[0].steps()} == {None}
    fork = runs[0].fork(1)
    assert fork.propose("write", {"page": "other"}).cycle_index == 2
    assert [step.cycle_index for step in fork.steps()] == [0, 1, 2]


def test_cycle_proposal_result_and_memories_have_every_column(engine: Everhold, gardener: View) -> None:
    run = gardener.run("Water the roses")
    proposed = run.propose("water", {"litres": 5, "beds": ["a"]}, snapshot={"at": "bed a"}, **EVERYTHING)
    completed = run.complete(
        {"used": 4.5},
        summary="Watered",
        artifacts=["file-1"],
        duration=1.5,
        memories=[
            "The soil was dry",
            {"kind": "reflection", "text": "Mornings are better", "score": 0.75, "tags": ["roses"]},
            {"kind": "plan", "text": "Water again on Friday"},
            {"kind": "result", "text": "The roses have water", "namespace": "short-term"},
        ],
    )
    records = get_records(engine)
    [cycle] = records.scan(Cycle, "default")
    assert cycle == completed.cycle
    assert (cycle.agent_id, cycle.execution_id, cycle.cycle_index) == ("gardener", run.id, 0)
    assert (cycle.status, cycle.parent_id, cycle.snapshot) == ("succeeded", None, {"at": "bed a"})
    [proposal] = records.scan(ActionProposal, "default")
    assert proposal == completed.proposal == proposed.proposal
    assert {name: proposal.__dict__[name] for name in EVERYTHING} == EVERYTHING
    assert (proposal.cycle_id, proposal.tool, proposal.arguments) == (cycle.id, "water", {"litres": 5, "beds": ["a"]})
    assert (proposal.attempt, proposal.idempotency_key) == (1, proposed.idempotency_key)
    [result] = records.scan(ActionResult, "default")
    assert result == completed.result
    assert (result.cycle_id, result.status, result.summary, result.output) == (
        cycle.id, "succeeded", "Watered", {"used": 4.5}
    )  # fmt: skip
    assert (result.error, result.artifacts, result.duration) == (None, ["file-1"], 1.5)
    memories = records.scan(Memory, "default", [Where("cycle_id", Op.EQ, cycle.id)])
    assert sorted(memories, key=lambda memory: memory.id) == list(completed.memories) == list(run.steps()[0].memories)
    assert [memory.kind for memory in completed.memories] == ["observation", "reflection", "plan", "result"]
    assert completed.memories[1].score == 0.75
    chunks = records.scan(Chunk, "default", [Where("owner_id", Op.EQ, completed.memories[1].id)])
    assert [chunk.score for chunk in chunks] == [0.75]
    owners = {(memory.project_id, memory.user_id, memory.agent_id, memory.session_id) for memory in memories}
    assert owners == {("garden", "alice", "gardener", "s1")}


def test_a_failed_action_keeps_its_error(gardener: View) -> None:
    run = gardener.run("Water the roses")
    run.propose("water")
    failed = run.complete(error={"code": 7, "message": "no water"}, memories=["The tank is empty"])
    assert (failed.status, failed.error, failed.cycle.status) == (
        "failed",
        {"code": 7, "message": "no water"},
        "failed",
    )
    retried = run.retry()
    assert (retried.attempt, retried.tool, retried.idempotency_key) == (2, "water", failed.idempotency_key)
    assert (retried.cycle.parent_id, retried.cycle_index) == (failed.cycle.id, 1)
    assert run.retry() == retried
    run.complete("ok")
    with pytest.raises(Conflict, match="has not failed"):
        run.retry()
    run.fail("The gardener left")
    with pytest.raises(Conflict, match=r"has failed; call retry\(\)"):
        run.propose("rest")


def test_repeated_calls_have_no_second_effect(engine: Everhold, gardener: View) -> None:
    first = gardener.run("Water the roses", idempotency_key="today")
    assert gardener.run("Water the roses", idempotency_key="today").id == first.id
    with pytest.raises(IdempotencyMismatch):
        gardener.run("Cut the roses", idempotency_key="today")
    for dimensions in ({"user": "bob", "agent": "gardener"}, {"user": "alice", "agent": "cook"}):
        assert engine.scope(**dimensions).run("Water the roses", idempotency_key="today").id != first.id
    step = first.propose("water", {"beds": (1, 2)}, thoughts="dry")
    assert first.propose("water", {"beds": [1, 2]}, thoughts="dry").cycle == step.cycle
    with pytest.raises(Conflict, match=r"cycle 0 of run .* has a proposal without a result"):
        first.propose("water", {"beds": [1, 3]}, thoughts="dry")
    resumed = gardener.resume(first.id)
    assert resumed.pending.cycle == step.cycle  # type: ignore[union-attr]
    completed = first.complete({"ok": True}, memories=["Bed 1 is wet"])
    assert resumed.complete({"ok": True}, memories=["Bed 1 is wet"]) == completed
    with pytest.raises(Conflict, match="waits for a result"):
        resumed.complete({"ok": False})
    assert len(gardener.list(where={"cycle_id": step.cycle.id})) == 1
    assert first.propose("water", {"beds": [1, 2]}, thoughts="dry").cycle_index == 1  # the same action on purpose
    with pytest.raises(Conflict, match="has no result yet"):
        first.finish()
    first.complete()
    assert first.finish("wet") == first.finish("wet")
    with pytest.raises(Conflict):
        first.finish("dry")
    with pytest.raises(InvalidInput):
        gardener.run("Water", id="set").propose("water", {"beds": {1, 2}})


def test_resume_returns_the_next_step(any_store: Store) -> None:
    """A process ends after each commit, and the next process finds out what to do next."""

    def reopen() -> View:
        any_store.close()
        any_store.opened.clear()
        return any_store.open().scope(user="alice", agent="gardener")

    with pytest.raises(NotFound, match="no unfinished run"):
        reopen().resume()
    reopen().run("Water the roses", id="roses")
    assert reopen().resume().pending is None
    proposed = reopen().resume().propose("water", {"bed": 1})
    for _ in range(2):
        pending = reopen().resume().pending
        assert pending == proposed
    reopen().resume().complete("wet", memories=["Bed 1 is wet"])
    resumed = reopen().resume()
    assert (resumed.id, resumed.pending, resumed.status) == ("roses", None, "running")
    resumed.pause()
    with pytest.raises(Conflict, match=r"run 'roses' is paused; call resume\(\)"):
        resumed.propose("rest")
    assert reopen().resume().status == "running"
    reopen().get_run("roses").finish()
    with pytest.raises(NotFound):
        reopen().resume()
    with pytest.raises(Conflict, match="has the status 'succeeded'"):
        reopen().resume("roses")
    assert [step.output for step in reopen().get_run("roses").steps()] == ["wet"]


def test_a_cancelled_run_takes_no_result(gardener: View) -> None:
    run = gardener.run("Water the roses")
    run.propose("water")
    resumed = gardener.resume()
    assert resumed.cancel("It rains").status == "cancelled"
    [step] = resumed.steps()
    assert (step.status, step.error) == ("cancelled", {"message": "It rains"})
    with pytest.raises(Conflict):
        run.complete("wet")
    for call in (run.finish, run.pause, run.retry, lambda: run.propose("rest")):
        with pytest.raises(Conflict):
            call()
    paused = gardener.run("Cut the roses")
    paused.propose("cut")
    paused.pause()
    assert paused.complete("cut").status == "succeeded"


@pytest.mark.parametrize("status", ["paused", "terminated"])
def test_an_agent_that_is_not_active_takes_nothing_new(engine: Everhold, gardener: View, status: str) -> None:
    run = gardener.run("Water the roses", id="run-1")
    run.propose("water")
    set_agent_status(engine, status)
    run.complete("wet")
    for call in (
        lambda: gardener.run("Cut the roses"),
        lambda: run.propose("rest"),
        lambda: run.fork(0),
    ):
        with pytest.raises(Conflict, match=f"agent 'gardener' is {status}"):
            call()
    assert gardener.run("Water the roses", id="run-1").id == "run-1"
    set_agent_status(engine, "active")
    assert run.propose("rest").cycle_index == 1


def test_cycles_of_an_agent_are_numbered_without_gaps(any_store: Store) -> None:
    """Threads of two engines add cycles to runs of one agent at the same time."""
    first = any_store.open()
    engines = [first, first if any_store.name == "duckdb" else any_store.open()]  # it is opened once per process
    views = [engine.scope(user=user, agent="gardener") for engine in engines for user in ("alice", "bob")]
    runs = [view.run(f"Run {number}") for number, view in enumerate(views)]
    start = threading.Barrier(len(runs))
    numbers: list[int] = []
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            start.wait()
            for step in range(5):
                numbers.append(runs[number].propose("step", {"number": step}).cycle_index)
                runs[number].complete(step, memories=[f"Run {number} did step {step}"])
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sorted(numbers) == list(range(20))
    stored = get_records(engines[0]).scan(Cycle, "default", order="cycle_index")
    assert [cycle.cycle_index for cycle in stored] == list(range(20))
    for run in runs:
        assert [step.output for step in run.steps()] == list(range(5))


def test_a_restored_run_has_its_numbers_back(engine: Everhold) -> None:
    alice, bob = (engine.scope(user=name, agent="gardener") for name in ("alice", "bob"))
    run = alice.run("Water", id="water")
    run.propose("water")
    run.complete()
    engine.delete_user("alice")
    bobs_run = bob.run("Cut")
    assert bobs_run.propose("cut").cycle_index == 1
    with pytest.raises(NotFound):
        alice.get_run("water")
    engine.restore("user", "alice")
    assert [step.cycle_index for step in alice.get_run("water").steps()] == [0]
    engine.delete_user("alice", hard=True)
    records = get_records(engine)
    assert [row.id for row in records.scan(Execution, "default", deleted=True)] == [bobs_run.id]
    assert len(records.scan(ActionProposal, "default", deleted=True)) == 1


def test_a_run_is_deleted_and_restored(engine: Everhold, gardener: View) -> None:
    message = gardener.say("Please water")
    run = gardener.run("Water", id="r1", message=message.id)
    run.propose("water")
    run.complete("wet", memories=["Bed 1 is wet"])
    fork = run.fork(0)
    preview = gardener.delete_run("r1", preview=True)
    assert preview.rows == {"executions": 1, "cycles": 1, "action_proposals": 1, "action_results": 1}
    assert gardener.delete_run("r1").rows == preview.rows
    for call in (gardener.get_run, gardener.resume, gardener.delete_run):
        with pytest.raises(NotFound):
            call("r1")
    with pytest.raises(IdempotencyMismatch):
        gardener.run("Water", id="r1", message=message.id)
    assert [row.id for row in gardener.runs()] == [fork.id]
    assert fork.steps() == []
    assert [memory.text for memory in gardener.list()] == ["Bed 1 is wet"]
    with pytest.raises(NotFound):
        engine.scope(user="bob").restore_run("r1")
    assert gardener.restore_run("r1").story() == run.story()
    assert [step.output for step in fork.steps()] == ["wet"]
    with pytest.raises(NotFound, match="run 'r1' is not deleted"):
        gardener.restore_run("r1")
    gardener.delete_message(message.id)
    with pytest.raises(NotFound, match="run 'r1' was deleted with its message"):
        gardener.restore_run("r1")
    gardener.restore_message(message.id)
    gardener.delete_run("r1", hard=True)
    assert gardener.list()[0].cycle_id is None
    assert get_records(engine).get(Execution, "default", [fork.id])[fork.id].parent_id is None


def test_runs_are_visible_only_in_their_scope(engine: Everhold, gardener: View) -> None:
    run = gardener.run("Water the roses", id="run-1")
    run.propose("water")
    strangers = ({"user": "bob"}, {"agent": "cook"}, {"project": "kitchen"}, {"organization": "acme"})
    for dimensions in strangers:
        view = engine.scope(**dimensions)
        for call in (view.get_run, view.resume):
            with pytest.raises(NotFound, match="no run 'run-1' in this scope"):
                call("run-1")
        assert view.runs() == []
    with pytest.raises(IdempotencyMismatch, match="run id 'run-1' is taken"):
        engine.scope(user="bob").run("Water the roses", id="run-1")
    resumed = engine.scope(agent="gardener").resume("run-1")
    memory = resumed.complete("wet", memories=["Bed 1 is wet"]).memories[0]
    assert (memory.user_id, memory.session_id) == ("alice", "s1")
    bob = engine.scope(user="bob", agent="gardener").run("Spy")
    with pytest.raises(NotFound):
        bob.compare("run-1")


def test_runs_are_forked_and_compared(gardener: View) -> None:
    run = gardener.run("Water the roses")
    for bed in range(3):
        run.propose("water", {"bed": bed}, thoughts="It is dry")
        run.complete(bed, summary=f"Bed {bed} is wet", memories=[f"Bed {bed} drank {bed} litres"])
    fork = run.fork(1, task="Water the roses by hand")
    assert (fork.task, fork.pending, fork.status) == ("Water the roses by hand", None, "running")
    step = fork.propose("pour", {"bed": 2})
    assert (step.cycle_index, step.cycle.parent_id) == (3, run.steps()[1].cycle.id)
    fork.complete(2)
    second = fork.fork(0)
    assert [step.cycle_index for step in second.steps()] == [0]
    with pytest.raises(NotFound, match="has no cycle 3"):
        run.fork(3)
    comparison = fork.compare(run.id)
    assert (comparison.shared, len(comparison.steps)) == (2, 3)
    difference = comparison.first_difference
    assert difference is not None
    assert (difference.first.tool, difference.second.tool) == ("pour", "water")  # type: ignore[union-attr]
    assert not difference.has_same_action
    assert run.compare(run.id).first_difference is None
    run.finish("wet")
    story = run.story()
    for part in ("Run run_", "thought: It is dry", "did: water(bed=2)", "succeeded: Bed 2 is wet", "agent gardener"):
        assert part in story
    assert "remembered (observation): Bed 1 drank 1 litres" in story
    assert "before the fork" in fork.story()
    with pytest.raises(InvalidInput):
        run.story(timezone="Mars/Olympus")


def test_known_at_recalls_what_was_known_when_a_cycle_began(gardener: View) -> None:
    run = gardener.run("Water the roses")
    for bed in range(3):
        run.propose("water", {"bed": bed})
        run.complete(bed, memories=[f"Rose bed number {bed} is wet"])
    for cycle in range(3):
        hits = run.known_at(cycle, "which rose bed is wet?", k=20)
        assert sorted(hit.text for hit in hits) == [f"Rose bed number {bed} is wet" for bed in range(cycle)]


def test_recall_with_results_returns_memories_and_results(engine: Everhold, gardener: View) -> None:
    gardener.remember("The tap leaks", namespace="short-term")
    gardener.remember("Roses grow in bed 1")
    run = gardener.run("Water the roses")
    for bed in range(3):
        run.propose("water", {"bed": bed})
        run.complete({"bed": bed}, summary=f"Poured {bed}", memories=["The hose is torn"] if bed == 1 else [])
    recalled = gardener.recall_with_results("is the hose torn?", k=1, results=3)
    assert [(item.text, item.step and item.step.cycle_index) for item in recalled] == [
        ("The hose is torn", 1), ("Poured 2", 2), ("Poured 0", 0)
    ]  # fmt: skip
    assert recalled[0].score is not None
    assert (recalled[0].memory.cycle_id, recalled.is_fallback) == (recalled[0].step.cycle.id, False)  # type: ignore[union-attr]
    assert gardener.recall_with_results("the tap leaks", results=0)[0].text == "The tap leaks"
    assert not engine.scope(user="bob", agent="gardener").recall_with_results("hose")


def test_how_to_finds_the_procedure_of_a_similar_task(engine: Everhold, gardener: View) -> None:
    for number in range(2):
        run = gardener.run("Water the roses in the garden", id=f"run-{number}")
        run.propose("open", {"tap": 1})
        run.complete(error="stuck")
        run.retry()
        run.complete("open", summary="The tap is open")
        run.propose("pour", {"litres": 5, "text": "x" * 5000})
        run.complete("wet")
        run.finish(summary="All wet")
    gardener.run("Cut the roses in the garden").cancel()
    [procedure] = gardener.how_to("water the roses")
    assert (procedure.task, procedure.run_id, procedure.summary) == (
        "Water the roses in the garden", "run-0", "All wet"
    )  # fmt: skip
    assert [step.tool for step in procedure.steps] == ["open", "pour"]
    assert (procedure.steps[0].arguments, procedure.steps[0].summary) == ({"tap": 1}, "The tap is open")
    assert procedure.steps[1].arguments["litres"] == 5
    assert len(procedure.steps[1].arguments["text"]) < 1000
    assert procedure.memory.kind == "procedural"
    assert procedure.score > 0.25
    assert not engine.scope(user="bob").how_to("water the roses")


class Program:
    """A program whose functions are steps of a run. It stops after a given number of calls of these functions."""

    def __init__(self, view: View) -> None:
        self.view, self.calls = view, list[tuple[Any, ...]]()

    def run(self, stop_after: int, beds: int = 2) -> list[Any]:
        run = self.view.run("Water the beds", id="beds")
        calls_left = [stop_after]

        def count(*call: Any) -> None:
            self.calls.append(call)
            calls_left[0] -= 1
            if calls_left[0] < 0:
                raise KeyboardInterrupt  # like a crash: the step stays without a result

        @run.step
        def measure(bed: int, *, deep: bool = False) -> tuple[int, bool]:
            count("measure", bed)
            return bed, deep

        @run.step
        def water(bed: int, idempotency_key: str = "") -> str:
            count("water", bed, idempotency_key)
            if bed == 1 and self.calls.count(("water", 1, idempotency_key)) == 1:
                raise ValueError("the tap is stuck")
            return f"bed {bed} is wet"

        outputs: list[Any] = []
        for bed in range(beds):
            outputs += [measure(bed, deep=True), water(bed)]
        run.finish(outputs)
        return outputs


def test_a_program_of_steps_continues_where_it_stopped(gardener: View) -> None:
    program = Program(gardener)
    for stop_after in (0, 1, 1):
        with pytest.raises(KeyboardInterrupt):
            program.run(stop_after)
    with pytest.raises(ValueError, match="the tap is stuck"):
        program.run(10)
    expected = [[0, True], "bed 0 is wet", [1, True], "bed 1 is wet"]
    assert program.run(10) == expected
    assert program.run(0) == expected  # a finished run calls nothing
    keys = [call[2] for call in program.calls if call[0] == "water"]
    assert [call[:2] for call in program.calls] == [
        ("measure", 0), ("measure", 0), ("water", 0), ("water", 0), ("measure", 1),
        ("measure", 1), ("water", 1), ("water", 1),
    ]  # fmt: skip
    assert (keys[0], keys[2], len(set(keys))) == (keys[1], keys[3], 2)
    assert gardener.get_run("beds").execution.output == expected


def test_a_program_that_makes_other_calls_than_before_is_refused(gardener: View) -> None:
    with pytest.raises(KeyboardInterrupt):
        Program(gardener).run(1)
    run = gardener.run("Water the beds", id="beds")

    @run.step
    def measure(bed: int, *, deep: bool = False) -> int:
        return bed

    with pytest.raises(Conflict, match="step 0 of run 'beds' called 'measure' with other arguments than now"):
        measure(7)
    assert measure(0, deep=True) == [0, True]

    @run.step
    def rest() -> None: ...

    with pytest.raises(Conflict, match="step 1 of run 'beds' called 'water' and the program calls 'rest' now"):
        rest()


def test_a_failure_that_the_program_handled_is_raised_again(gardener: View) -> None:
    class TapError(Exception):
        pass

    def work(error: Exception) -> list[str]:
        run = gardener.run(f"Water with {type(error).__name__}", id=type(error).__name__)
        events: list[str] = []

        @run.step
        def water() -> None:
            events.append("called")
            raise error

        @run.step
        def rest() -> str:
            return "rested"

        try:
            water()
        except (ValueError, TapError, StepFailed) as failure:
            events.append(type(failure).__name__)
        return [*events, rest()]

    assert work(ValueError("dry")) == ["called", "ValueError", "rested"]
    assert work(ValueError("dry")) == ["ValueError", "rested"]
    assert work(TapError("dry")) == ["called", "TapError", "rested"]
    assert work(TapError("dry")) == ["StepFailed", "rested"]
