"""Episodes on every store: they are built as messages are added, read by time, and lose erased messages."""

from datetime import UTC, datetime, timedelta

import pytest

from everhold import Everhold, InvalidInput, NotFound, View
from everhold.model import Chunk, Episode
from tests.engines import Store, get_records

START = datetime(2024, 3, 4, 9, tzinfo=UTC)  # a Monday
# When each session starts, and its messages, one per minute.
SESSIONS = {
    "s1": (START, ["We adopted a greyhound called Juniper.", "Her vaccination is in Leeds on Friday.", "Great news!"]),
    "s2": (START + timedelta(days=1), ["The marathon in Lisbon was exhausting.", "I ran it in four hours."]),
    "s3": (START + timedelta(days=40), ["My sister opened a bakery in Porto.", "She sells rye bread."]),
}


def fill_sessions(engine: Everhold, user: str = "alice") -> View:
    """Store the messages of all sessions, and return the user's view."""
    for session, (start, texts) in SESSIONS.items():
        view = engine.scope(user=user, session=session)
        for number, text in enumerate(texts):
            view.say(text, id=f"{session}-{number}", name="Ann", created_at=start + timedelta(minutes=number))
    return engine.scope(user=user)


def test_episodes_roll_up_and_are_read_by_time(any_store: Store) -> None:
    engine = any_store.open()
    alice = fill_sessions(engine)
    assert [episode.session_id for episode in alice.episodes()] == ["s3", "s2", "s1"]
    names = {level: [row.name for row in alice.episodes(level=level)] for level in ("day", "week", "month", "year")}
    assert names == {
        "day": ["2024-04-13", "2024-03-05", "2024-03-04"],
        "week": ["2024-W15", "2024-W10"],
        "month": ["2024-04", "2024-03"],
        "year": ["2024"],
    }
    [year] = alice.episodes(level="year")
    assert (year.message_count, year.participants) == (7, ["Ann"])
    assert {quote["session"] for quote in year.quotes} == {"s1", "s2", "s3"}
    march_summary = alice.summary(START, START + timedelta(days=27), budget=60)
    assert "Porto" not in march_summary.text
    assert march_summary.tokens <= 60
    assert {quote["message"].partition("-")[0] for quote in march_summary.quotes} == {"s1", "s2"}
    assert len(alice.summary().quotes) > len(march_summary.quotes)
    [hit] = alice.recall("Who opened a bakery in Porto?", among="episode", where={"level": 1}, k=1, minimum=0)
    assert hit.record.session_id == "s3"
    alice.delete_message("s3-0", hard=True)
    assert "Porto" not in alice.episodes(level="year").episodes[0].summary


def test_an_episode_leads_to_its_messages(store: Store) -> None:
    engine = store.open()
    alice = fill_sessions(engine)
    year = alice.episode(alice.episodes(level="year").episodes[0].id)
    day = alice.episode(alice.episode(year.parts[0].id).parts[0].id)
    episode = alice.episode(day.parts[0].id)
    assert [message.id for message in episode.messages] == ["s1-0", "s1-1", "s1-2"]
    assert {quote["message"] for quote in episode.episode.quotes} <= {"s1-0", "s1-1", "s1-2"}
    engine.scope(user="alice", session="s1").archive_session()
    assert engine.maintain(["archive"])["archive"].counts["messages"] == 3
    assert [message.id for message in alice.episode(day.parts[0].id).messages] == ["s1-0", "s1-1", "s1-2"]
    with pytest.raises(NotFound):
        engine.scope(user="bob").episode(year.episode.id)
    with pytest.raises(InvalidInput, match="level"):
        alice.episodes(level="decade")


def test_deleted_messages_are_quoted_nowhere(store: Store) -> None:
    engine = store.open()
    alice = fill_sessions(engine)
    alice.episodes()
    alice.delete_message("s1-1", hard=True)
    alice.delete_message("s2-0")
    rows = get_records(engine).scan(Episode, "default")
    text = " ".join(f"{row.summary} {row.quotes} {row.key_facts} {row.topics}" for row in rows)
    assert [name for name in ("Leeds", "Lisbon", "Juniper") if name in text] == ["Juniper"]
    terms = " ".join(terms for (terms,) in get_records(engine).columns(Chunk, "default", ("terms",)))
    assert "leed" not in terms.split()
    assert alice.episodes(level="year").episodes[0].message_count == 5
    alice.restore_message("s2-0")
    assert "Lisbon" in alice.episodes(level="year").episodes[0].summary
    engine.delete_session("s2")
    assert "Lisbon" not in alice.summary().text
    assert alice.episodes(level="week").episodes[-1].message_count == 2
    engine.restore("session", "s2")
    assert "Lisbon" in alice.summary().text
    engine.delete_user("alice", hard=True)
    assert get_records(engine).count(Episode, "default", deleted=True) == 0


def test_deleting_a_participant_removes_their_quotes(store: Store) -> None:
    engine = store.open()
    group = engine.scope(session="group")
    group.say("Welcome!", role="assistant")
    engine.scope(user="alice", session="group").say("Alice paints lighthouses in Brittany.", name="Alice")
    engine.scope(user="bob", session="group").say("Bob collects antique barometers.", name="Bob")
    assert "barometers" in group.episodes(level="session").episodes[0].summary
    assert engine.scope(user="alice").episodes().episodes == ()
    engine.delete_user("bob")
    assert [word for word in ("barometers", "lighthouses") if word in group.summary().text] == ["lighthouses"]
    engine.restore("user", "bob")
    assert "barometers" in group.summary().text
