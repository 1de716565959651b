"""Several engines use one store, and each sees the changes of the others at once."""

import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from everhold import Everhold
from everhold.errors import NotFound
from everhold.recall.recipe import HYBRID
from tests.engines import Store, ranking, read_all_rows, texts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def engines(store: Store) -> tuple[Everhold, Everhold]:
    return store.open(), store.open()


def test_each_engine_recalls_the_writes_of_the_other_at_once(engines: tuple[Everhold, Everhold]) -> None:
    first, second = (engine.scope(user="alice") for engine in engines)
    assert texts(second.recall("tea", minimum=0)) == []
    for number in range(10):
        first.remember(f"Tea {number}")
        assert f"Tea {number}" in texts(second.recall("tea", k=50, minimum=0))
        second.remember(f"Rain {number}")
        assert f"Rain {number}" in texts(first.recall("rain", k=50, minimum=0))
        assert len(first.recall("rain", k=50, minimum=0)) == 2 * number + 2


def test_images_follow_every_change(engines: tuple[Everhold, Everhold]) -> None:
    first, second = (engine.scope(user="alice") for engine in engines)
    organization_view = engines[1].scope()
    tea, rain = first.remember("Tea"), first.remember("Rain", tags=["t"])
    assert (
        sorted(texts(second.recall("tea rain", minimum=0)))
        == sorted(texts(organization_view.recall("tea rain", minimum=0)))
        == ["Rain", "Tea"]
    )

    def recall_all() -> list[str]:
        recalled_texts = sorted(texts(second.recall("tea rain coffee snow", minimum=0)))
        assert sorted(texts(organization_view.recall("tea rain coffee snow", minimum=0))) == recalled_texts
        return recalled_texts

    first.revise(tea.id, text="Coffee")
    assert recall_all() == ["Coffee", "Rain"]
    first.undo(tea.id)
    assert recall_all() == ["Rain", "Tea"]
    first.forget(tea.id)
    assert recall_all() == ["Rain"]
    first.undo(tea.id)
    assert recall_all() == ["Rain", "Tea"]
    successor = first.supersede(rain.id, "Snow")
    assert recall_all() == ["Snow", "Tea"]
    first.undo(rain.id)
    assert recall_all() == ["Rain", "Tea"]
    first.forget(rain.id, hard=True)
    assert recall_all() == ["Tea"]
    first.forget_where(where={"id": tea.id})
    assert recall_all() == []
    first.undo()
    assert recall_all() == ["Tea"]
    with pytest.raises(NotFound):
        second.get(successor.id)
    first.revise(tea.id, priority=10)
    assert second.recall("tea", minimum=0)[0].why.contributions["importance"] == pytest.approx(
        HYBRID.weights["importance"]
    )
    first.tag(tea.id, "later")
    assert texts(second.recall("tea", tags="later", minimum=0)) == ["Tea"]


@pytest.mark.parametrize("kind", ["user", "project", "organization"])
def test_images_follow_deleted_and_restored_owners(store: Store, kind: str) -> None:
    first, second = store.open(), store.open()
    scope = {"organization": "acme", "user": "alice", "project": "p"}
    scopes = [scope, {"organization": "acme"}, {"organization": "acme", "project": "p"}]
    first.scope(**scope).remember_many(["Tea", "Tea now", "Tea then"])
    first.scope(organization="acme", user="bob").remember_many(["Tea of Bob", "Rain of Bob"])
    views = [second.scope(**scope) for scope in scopes]

    def recall_all() -> list[int]:
        """Return how many memories each engine finds, and check hits and scores against a new engine."""
        new_engine = store.open()
        for view, dimensions in zip(views, scopes, strict=True):
            hits = view.recall("tea rain of", minimum=0)
            assert ranking(hits) == ranking(new_engine.scope(**dimensions).recall("tea rain of", minimum=0))
            assert len(hits) == len(view.list())
        return [len(view.recall("tea rain of", minimum=0)) for view in views]

    assert recall_all() == [3, 5, 3]
    name = {"user": "alice", "project": "p", "organization": "acme"}[kind]
    arguments = {} if kind == "organization" else {"organization": "acme"}
    delete = getattr(first, f"delete_{kind}")
    remaining = 0 if kind == "organization" else 2
    delete(name, **arguments)
    assert recall_all() == [0, remaining, 0]
    first.restore(kind, name, organization="acme")
    assert recall_all() == [3, 5, 3]
    delete(name, hard=True, **arguments)
    assert recall_all() == [0, remaining, 0]
    first.scope(**scope).remember("Tea again")
    assert [texts(view.recall("again", k=1, minimum=0)) for view in views] == [["Tea again"]] * 3
    assert recall_all() == [1, remaining + 1, 1]


def test_writing_for_a_deleted_user_is_refused(engines: tuple[Everhold, Everhold]) -> None:
    first, second = engines
    first.scope(user="alice").remember("Tea")
    first.delete_user("alice")
    before = read_all_rows(first)["memories"]
    with pytest.raises(NotFound, match="user 'alice' has been deleted; restore it or use another id"):
        first.scope(user="alice").remember("No")
    with pytest.raises(NotFound, match="has been deleted"):
        second.scope(user="alice").remember("No")
    assert read_all_rows(first)["memories"] == before
    first.restore("user", "alice")
    first.scope(user="alice").remember("Yes")


def test_random_changes_by_two_engines_are_seen_by_both(engines: tuple[Everhold, Everhold], store: Store) -> None:
    """After random changes by two engines, both give the same answers as a new engine."""
    rng = random.Random(11)
    views = [engine.scope(user="alice") for engine in engines]
    views[0].remember_many(f"Note {n} of tea" for n in range(10))
    for step in range(60):
        view = rng.choice(views)
        memories = view.list(limit=100).memories
        memory_id = rng.choice(memories).id
        match rng.randrange(6):
            case 0 | 1:
                view.remember(f"Note {step} of rain")
            case 2:
                view.revise(memory_id, text=f"Revised {step} of stone")
            case 3:
                if len(memories) > 4:
                    view.forget(memory_id, hard=rng.random() < 0.5)
            case 4:
                view.supersede(memory_id, f"Heir {step} of river")
            case _:
                view.recall("tea")
        if step % 10 == 9:
            new_view = store.open().scope(user="alice")
            expected = ranking(new_view.recall("tea rain stone river", k=100, minimum=0))
            assert [ranking(view.recall("tea rain stone river", k=100, minimum=0)) for view in views] == [expected] * 2


def test_threads_can_share_an_engine(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    failures: list[BaseException] = []

    def work(thread_number: int) -> None:
        try:
            for number in range(10):
                memory = alice.remember(f"Thread {thread_number} note {number}")
                assert memory.id in {
                    hit.memory.id for hit in alice.recall(f"thread {thread_number} note {number}", k=5, minimum=0)
                }
                if number % 3 == 0:
                    alice.forget(memory.id)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(alice.list(limit=100)) == 6 * 6
    assert len(alice.recall("thread note", k=100, minimum=0)) == 36


CHILD = """
import json, sys
from tests.engines import Store
alice = Store({name!r}, {storage!r}).open().scope(user="alice")
for line in sys.stdin:
    call = json.loads(line)
    if "recall" in call:
        result = [(hit.memory.id, hit.memory.text, hit.score) for hit in alice.recall(call["recall"], k=50, minimum=0)]
    elif "remember" in call:
        result = alice.remember(call["remember"]).id
    elif "revise" in call:
        result = alice.revise(call["revise"], text=call["text"]).id
    else:
        result = alice.forget(call["forget"]).id
    print(json.dumps(result), flush=True)
"""


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
def test_two_processes_see_each_others_writes(store: Store) -> None:
    alice = store.open().scope(user="alice")
    alice.remember("Tea from here")
    script = CHILD.format(name=store.name, storage=store.storage)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as child:

        def call_child(**call: str) -> object:
            assert child.stdin
            assert child.stdout
            print(json.dumps(call), file=child.stdin, flush=True)
            return json.loads(child.stdout.readline())

        def compare_recalls() -> list[str]:
            expected = [
                [hit.memory.id, hit.memory.text, hit.score] for hit in alice.recall("tea coffee", k=50, minimum=0)
            ]
            assert call_child(recall="tea coffee") == expected
            return sorted(text for _, text, _ in expected)

        assert compare_recalls() == ["Tea from here"]
        name = str(call_child(remember="Tea from there"))
        assert compare_recalls() == ["Tea from here", "Tea from there"]
        alice.revise(name, text="Coffee from here")
        assert compare_recalls() == ["Coffee from here", "Tea from here"]
        call_child(revise=name, text="Coffee from there")
        assert compare_recalls() == ["Coffee from there", "Tea from here"]
        call_child(forget=name)
        assert compare_recalls() == ["Tea from here"]
        alice.undo(name)
        assert compare_recalls() == ["Coffee from there", "Tea from here"]
        assert child.stdin
        child.stdin.close()
        assert child.wait(150) == 0


WRITER = """
import sys
from tests.engines import Store
engine = Store({name!r}, {storage!r}).open(log={{"flush_seconds": 0.05}})
alice = engine.scope(user="alice")
for n in range(40):
    alice.remember(f"Process {number} note {{n}}", tags=["t"])
    alice.remember(f"Common note {{n}}")
    alice.recall(f"note {{n}}", k=3)
engine.close()
"""


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
def test_four_writing_processes_lose_no_write(store: Store) -> None:
    """No write is lost or stored twice, and the log has a single chain."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER.format(name=store.name, storage=store.storage, number=number)],
            env=environment, stderr=subprocess.PIPE, text=True,
        )
        for number in range(4)
    ]  # fmt: skip
    for process in processes:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    engine = store.open()
    report = engine.verify_log()
    assert (report.intact, report.lines) == (True, 4 * 40 * 3)
    alice = engine.scope(user="alice")
    memories = alice.list(limit=1000).memories
    assert len(memories) == len({memory.text for memory in memories}) == 4 * 40 + 40
    assert alice.tags() == {"t": 160}
    assert len(alice.recall("note", k=500, minimum=0)) == 200
    assert engine.doctor().problems == []


def test_a_workspace_of_a_project_that_another_engine_deleted_is_created(engines: tuple[Everhold, Everhold]) -> None:
    first, second = engines
    view = first.scope(project="p", user="alice")
    view.remember("Tea")  # from now on, the first engine takes the project for granted
    second.delete_project("p", hard=True)
    assert view.workspace("notes").name == "notes"


def test_concurrent_updates_of_a_conversation_are_all_applied(engines: tuple[Everhold, Everhold]) -> None:
    chats = [engine.scope(user="alice", session="s") for engine in engines]
    chats[0].say("Hello", conversation="c")
    threads = [
        threading.Thread(target=chats[number % 2].update_conversation, args=("c",), kwargs={"name": f"Name {number}"})
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert chats[0].conversations()[0].version == 9
