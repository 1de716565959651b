"""Episodes do not depend on the steps in which they are built, and stay stable while a session continues."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

import pytest

from everhold import Everhold, View
from everhold.episodes.reading import summarise_before
from everhold.episodes.updating import update_session
from everhold.model import Episode, Session
from everhold.ports.records import Records
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import get_records

START = datetime(2024, 3, 4, 9, tzinfo=UTC)
SUBJECTS = ("greyhound", "marathon", "bakery", "telescope", "saxophone", "vineyard", "glacier", "lighthouse")
COMPARED_FIELDS = (
    "id",
    "span_from",
    "span_to",
    "summary",
    "quotes",
    "topics",
    "message_count",
    "token_count",
    "is_active",
)


def _open() -> Everhold:
    return Everhold.open("memory://", embedder=FakeEmbedder())


@pytest.fixture
def engine() -> Everhold:
    return _open()


def _say(view: View, first: int, count: int) -> None:
    for number in range(first, first + count):
        subject = SUBJECTS[number // 3 % len(SUBJECTS)]
        pause = timedelta(hours=number // 9)
        text = f"Remark {number}: the {subject} of number {number} was painted in colour {number % 7}."
        view.say(text, id=f"m{number}", created_at=START + pause + number * timedelta(seconds=20))


def _update(engine: Everhold, session: str) -> None:
    for _ in update_session(engine._parts.episode_deps, _read_session(engine, session)):
        pass


def _read_session(engine: Everhold, session: str) -> Session:
    return get_records(engine).get(Session, "default", [session])[session]


def _list_episodes(engine: Everhold, level: int) -> list[dict[str, Any]]:
    rows = [row for row in get_records(engine).scan(Episode, "default", order="span_from") if row.level == level]
    return [{name: row.__dict__[name] for name in COMPARED_FIELDS} for row in rows]


def test_episodes_do_not_depend_on_how_many_messages_are_built_at_once(engine: Everhold) -> None:
    other = _open()
    _say(engine.scope(user="alice", session="s"), 0, 190)
    _update(engine, "s")
    for first in range(0, 190, 10):
        _say(other.scope(user="alice", session="s"), first, 10)
        _update(other, "s")
    for level in (1, 2, 3):
        assert _list_episodes(engine, level) == _list_episodes(other, level)
    assert len(_list_episodes(engine, 2)) == 1


def test_a_summary_of_the_past_does_not_change_while_the_session_continues(engine: Everhold) -> None:
    view = engine.scope(user="alice", session="s")
    _say(view, 0, 200)
    times = {
        number: view.messages(around=f"m{number}", limit=1).messages[0].created_at for number in (1, 17, 100, 144, 199)
    }

    def summarise() -> dict[int, str]:
        session, deps = _read_session(engine, "s"), engine._parts.episode_deps
        return {
            number: summarise_before(deps, view.scope, session, moment, 300).text for number, moment in times.items()
        }

    first_summaries = summarise()
    assert "Remark 0:" in first_summaries[1]
    _update(engine, "s")
    assert summarise() == first_summaries
    _say(view, 200, 60)
    assert summarise() == first_summaries
    _update(engine, "s")
    assert summarise() == first_summaries


def test_maintenance_builds_each_message_once(engine: Everhold) -> None:
    _say(engine.scope(user="alice", session="s"), 0, 30)
    assert engine.maintain(["episodes"], dry_run=True)["episodes"].counts == {"sessions": 1}
    assert engine.maintain(["episodes"])["episodes"].counts == {"messages": 30, "sessions": 1}
    assert engine.maintain(["episodes"])["episodes"].counts == {}


class ScriptedModel(NamedTuple):
    """A language model that always gives the same answer."""

    answer: str
    name: str = "scripted"

    def complete(self, prompt: str) -> str:
        assert "Remark 0" in prompt
        return self.answer


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        ("The greyhound was painted.", {"episodes": 1}),
        ("The greyhound was painted in Vienna.", {"episodes": 1, "refused": 1}),
        ("The greyhound was painted 77 times.", {"episodes": 1, "refused": 1}),
        ("The greyhound was painted. " * 40, {"episodes": 1, "refused": 1}),
        ("", {"episodes": 1, "refused": 1}),
    ],
)
def test_a_language_model_writes_only_what_the_messages_say(
    engine: Everhold, answer: str, counts: dict[str, int]
) -> None:
    view = engine.scope(user="alice", session="s")
    _say(view, 0, 10)  # the tenth message is said an hour later
    engine._parts.language_model = ScriptedModel(answer)
    engine.maintain(["episodes"])
    assert engine.maintain(["retell"], dry_run=True)["retell"].counts == {"episodes": 1}
    assert engine.maintain(["retell"])["retell"].counts == counts
    assert engine.maintain(["retell"])["retell"].counts == {}
    first = view.episodes().episodes[-1]
    assert first.summary.startswith("The greyhound was painted.\nAlso: ") == ("refused" not in counts)
    assert first.quotes
    view.delete_message("m0")
    assert "greyhound was painted." not in view.episodes().episodes[-1].summary


class InterruptedRecords:
    """Records that call a function right before each commit."""

    def __init__(self, records: Records, interrupt: Callable[[], object]) -> None:
        self._records = records
        self._interrupt = interrupt

    def __getattr__(self, name: str) -> Any:
        if name == "commit":
            self._interrupt()
        return getattr(self._records, name)


def test_an_episode_does_not_quote_a_message_deleted_while_it_was_built(engine: Everhold) -> None:
    view = engine.scope(user="alice", session="s")
    deleted = view.say("The marathon in Lisbon was exhausting.")
    view.say("Juniper is a greyhound.")
    ids_to_delete = [deleted.id]

    def interrupt() -> None:
        if ids_to_delete:
            view.delete_message(ids_to_delete.pop(), hard=True)

    deps = engine._parts.episode_deps
    interrupted = cast("Records", InterruptedRecords(deps.records, interrupt))
    for _ in update_session(replace(deps, records=interrupted), _read_session(engine, "s")):
        pass
    contents = [f"{row.summary} {row.quotes}" for row in get_records(engine).scan(Episode, "default")]
    # The episode and its five rollups: of the session, the day, the week, the month and the year.
    assert [("Juniper" in text, "Lisbon" in text) for text in contents] == 6 * [(True, False)]


def test_every_span_has_a_summary_of_fixed_size(engine: Everhold) -> None:
    view = engine.scope(user="alice", session="s")
    _say(view, 0, 240)  # 27 hours
    for hours in (1, 7, 24, 26, 24 * 400):
        summary = engine.scope(user="alice").summary(START, START + timedelta(hours=hours), budget=150)
        times = [datetime.fromisoformat(quote["at"]) for quote in summary.quotes]
        assert summary.quotes
        assert summary.tokens <= 150
        assert all(START <= time < START + timedelta(hours=hours) for time in times)
