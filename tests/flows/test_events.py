"""Programs receive each change of a scope as an event, once and in order, and only events that the scope may see."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from time import monotonic, sleep

import pytest

from everhold import AsyncEverhold, ChangeEvent, Everhold, InvalidInput, View, clock
from everhold.maintenance import outbox
from everhold.maintenance.pipeline import JobRun, MaintenanceJob, run_jobs
from everhold.model import OutboxMark
from everhold.parts import Parts
from everhold.schema.operations import Put
from tests.engines import Store

ENOUGH_SECONDS = 150.0


def list_changes(view: View, after: int = 0) -> list[tuple[str, str | None, str | None]]:
    """Return the operation, the entity and the id of each event."""
    return [(event.operation, event.entity, event.id) for event in view.events(after=after)]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + ENOUGH_SECONDS
    while not condition():
        assert monotonic() < deadline, "the condition did not become true in time"
        sleep(0.01)


def test_every_change_of_a_scope_is_an_event(any_store: Store) -> None:
    engine = any_store.open()
    alice = engine.scope(user="alice")
    chat = engine.scope(user="alice", session="chat")
    memory = alice.remember("Likes tea")
    alice.revise(memory.id, text="Likes green tea")
    message = chat.say("Hello there", conversation="greetings")
    chat.update_session(topic="tea")
    chat.delete_message(message.id)
    chat.restore_message(message.id)
    alice.forget(memory.id)
    alice.undo(memory.id)
    engine.delete_session("chat")
    engine.restore("session", "chat")
    assert list_changes(alice) == [
        ("put", "user", "alice"),
        ("put", "memory", memory.id),
        ("put", "memory", memory.id),
        ("put", "session", "chat"),
        ("put", "conversation", "greetings"),
        ("put", "message", message.id),
        ("put", "session", "chat"),
        ("delete", "message", message.id),
        ("restore", "message", message.id),
        ("delete", "memory", memory.id),
        ("put", "memory", memory.id),
        ("delete", "session", "chat"),
        ("restore", "session", "chat"),
    ]
    numbers = [event.number for event in alice.events()]
    assert numbers == sorted(set(numbers))
    assert list_changes(alice, after=numbers[-3]) == [("delete", "session", "chat"), ("restore", "session", "chat")]


def test_a_purge_is_an_event_of_those_who_could_see_the_record(any_store: Store) -> None:
    engine = any_store.open()
    alice, bob = engine.scope(user="alice"), engine.scope(user="bob")
    memory = alice.remember("The code is 1234")
    bob.remember("Likes coffee")
    alice.forget(memory.id, hard=True)
    assert list_changes(alice)[-1] == ("delete", "memory", memory.id)
    assert not {event.id for event in bob.events()} & {memory.id, "alice"}
    assert list_changes(engine.scope())[-1] == ("delete", "memory", memory.id)
    assert list_changes(engine.scope(organization="another")) == []


def test_notes_of_a_session_are_events_of_that_session_only(engine: Everhold) -> None:
    here, elsewhere = (engine.scope(user="alice", session=name) for name in ("here", "elsewhere"))
    elsewhere.say("Hello")
    note = here.remember("Waits for the parcel", namespace="short-term")
    assert note.id in {event.id for event in here.events()}
    assert note.id not in {event.id for event in elsewhere.events()}


def test_events_that_are_no_longer_kept_are_a_gap(any_store: Store) -> None:
    engine = any_store.open()
    alice = engine.scope(user="alice")
    first = alice.remember("Likes tea")
    [*_, last_seen] = alice.events()
    alice.remember("Likes coffee")
    records = engine._parts.records
    month_ago = clock.now() - timedelta(days=30)
    records.commit([Put(OutboxMark(day=month_ago.date().isoformat(), last_sequence=last_seen.number + 1))])
    alice.remember("Likes water")
    outbox.trim(records, records.commit, now=clock.now(), batch=10, progress=lambda _: None)
    [gap, *kept_events] = alice.events()
    assert (gap.operation, gap.entity, gap.id) == ("gap", None, None)
    assert kept_events[0].number > gap.number >= last_seen.number
    assert first.id not in {event.id for event in kept_events}
    assert list(alice.events(after=gap.number)) == kept_events
    of_another_store = alice.events(after=kept_events[-1].number + 1000)
    assert next(of_another_store).operation == "gap"


def test_a_run_of_maintenance_is_an_event_of_the_organizations_that_it_changed(any_store: Store) -> None:
    engine = any_store.open()
    engine.scope(organization="idle").remember("Stays as it is")
    alice = engine.scope(user="alice")
    memory = alice.remember("Likes tea")

    def forget(parts: Parts, run: JobRun) -> None:
        View(parts.journal_under(run.run_id), alice.scope).forget(memory.id)

    job: MaintenanceJob[Parts] = MaintenanceJob("forget tea", "", lambda _: {}, forget)
    report = run_jobs(engine._parts.records, [job], engine._parts)
    assert list_changes(engine.scope())[-2:] == [
        ("delete", "memory", memory.id),
        ("put", "maintenance_run", report.run_id),
    ]
    assert "maintenance_run" not in {event.entity for event in alice.events()}
    assert "maintenance_run" not in {event.entity for event in engine.scope(organization="idle").events()}


def test_a_subscription_passes_each_event_once_in_order(any_store: Store) -> None:
    engine = any_store.open()
    alice = engine.scope(user="alice")
    alice.remember("Before")
    received: list[ChangeEvent] = []
    with alice.subscribe(received.append) as subscription:
        texts = [f"Fact {number}" for number in range(12)]
        threads = [threading.Thread(target=alice.remember, args=(text,)) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_for(lambda: len(received) == len(texts))
        assert subscription.number == received[-1].number
    assert {event.id for event in received} == {memory.id for memory in alice.list() if memory.text != "Before"}
    numbers = [event.number for event in received]
    assert numbers == sorted(set(numbers))
    assert not subscription.is_running
    alice.remember("Afterwards")
    assert len(received) == len(texts)


def test_a_callback_that_raises_gets_the_event_again(sqlite_store: Store) -> None:
    alice = sqlite_store.open().scope(user="alice")
    received: list[str | None] = []

    def refuse_once(event: ChangeEvent) -> None:
        received.append(event.id)
        if len(received) == 1:
            raise RuntimeError("not now")

    with alice.subscribe(refuse_once, after=0):
        memory = alice.remember("Likes tea")
        wait_for(lambda: len(received) == 3)
    assert received == ["alice", "alice", memory.id]


def test_closing_the_engine_ends_its_subscriptions(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    subscription = engine.scope(user="alice").subscribe(lambda event: None)
    assert subscription.is_running
    engine.close()
    assert not subscription.is_running


def test_a_callback_may_close_its_subscription(sqlite_store: Store) -> None:
    alice = sqlite_store.open().scope(user="alice")
    received: list[ChangeEvent] = []

    def close_at_first(event: ChangeEvent) -> None:
        received.append(event)
        subscription.close()

    subscription = alice.subscribe(close_at_first)
    alice.remember_many(["One fact", "Another fact"])
    wait_for(lambda: not subscription.is_running)
    assert len(received) == 1


def test_an_iterator_that_follows_waits_for_the_next_event(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    alice.remember("Before")
    events = alice.events(after=None, follow=True)
    later = threading.Timer(0.3, alice.remember, ["Likes tea"])
    later.start()
    event = next(events)
    later.join()
    assert (event.operation, event.entity) == ("put", "memory")


def test_async_programs_iterate_over_events(sqlite_store: Store) -> None:
    async def read() -> list[ChangeEvent]:
        async with AsyncEverhold(sqlite_store.open(), 2) as engine:
            alice = engine.scope(user="alice")
            await alice.remember("Likes tea")
            return [event async for event in alice.events()]

    assert [event.entity for event in asyncio.run(read())] == ["user", "memory"]


@pytest.mark.parametrize("after", [-1, "1", 1.5, True])
def test_a_number_that_no_event_can_have_is_refused(sqlite_store: Store, after: object) -> None:
    alice = sqlite_store.open().scope(user="alice")
    with pytest.raises(InvalidInput, match="after is"):
        alice.events(after=after)  # type: ignore[arg-type]
