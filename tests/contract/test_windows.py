"""The window of a session through the public verb, on every store."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from everhold import Everhold, View, Window
from everhold.errors import InvalidInput, NotFound
from everhold.views.view import AsyncView
from tests.engines import Store
from tests.prompt_rules import check_anthropic, check_openai

SPRING = datetime(2026, 5, 3, 12, tzinfo=UTC)


@pytest.fixture
def engine(any_store: Store) -> Everhold:
    return any_store.open()


@pytest.fixture
def chat(engine: Everhold) -> View:
    return engine.scope(user="alice", session="s1")


def talk(view: View, turns: int) -> None:
    for turn in range(turns):
        view.say(f"What is the capital of country {turn}, and how many people live there nowadays?")
        view.say(f"The capital of country {turn} is city {turn}, where {turn} million people live.", role="assistant")


def list_texts(window: Window) -> list[str]:
    check_openai(window.as_openai())
    check_anthropic(window.as_anthropic())
    return [message["content"] for message in window.as_openai()]


def test_a_long_conversation_is_shortened(engine: Everhold, chat: View) -> None:
    chat.say("You are kind.", role="system")
    chat.say("My sister Rosalind breeds llamas in Peru.", name="Alice")
    talk(chat, 16)
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"place": "Peru"}'}}
    chat.say("Which animals does Rosalind breed in Peru?")
    chat.say(role="assistant", tool_calls=[call])
    chat.say("nothing known", role="tool", tool_call_id="c1")
    engine.scope(user="alice").remember("Rosalind breeds llamas and alpacas", occurred_at=SPRING)
    engine.scope(user="alice").remember("Is allergic to nuts", pinned=True, occurred_at=SPRING)
    window = chat.window(budget=600, system="Be brief.", timezone="Europe/Berlin", minimum=0)
    texts = list_texts(window)
    assert texts[0] == "Be brief.\n\nYou are kind."
    assert "- [3 May 2026] Is allergic to nuts" in texts[1]
    assert "Earlier in this session:" in texts[1]
    assert texts[-2] == "nothing known"
    assert "[message 1 of this session, said by Alice on " in texts[-1]
    assert "- [3 May 2026] Rosalind breeds llamas and alpacas" in texts[-1]
    assert window.tokens <= 600
    older = chat.messages(cursor=window.cursor, limit=100)
    assert len(older) + len(window.messages) == len(chat.messages(limit=100))
    repeated = chat.window(budget=600, system="Be brief.", timezone="Europe/Berlin", minimum=0)
    assert json.dumps(repeated.as_openai()) == json.dumps(window.as_openai())


def test_a_window_has_the_messages_of_its_conversation_that_are_not_deleted(chat: View) -> None:
    chat.say("About tea", conversation="tea")
    chat.say("About coffee", conversation="coffee")
    wrong_answer = chat.say("Tea is blue", role="assistant", conversation="tea")
    chat.say("No, it is green", conversation="tea")
    chat.delete_message(wrong_answer.id)
    assert list_texts(chat.window(conversation="tea", strategy="truncate")) == ["About tea", "No, it is green"]
    assert len(chat.window(strategy="truncate").messages) == 3
    assert "blue" not in str(chat.window("Is tea blue?").as_openai())


def test_the_summary_is_of_one_conversation(chat: View) -> None:
    # 44 such messages make enough episodes to complete a section, which quotes both conversations.
    for number in range(44):
        topic = ("tea", "coffee")[number % 2]
        place = f"on a hillside of {number + 30} acres near river {number}, which we visited in week {number + 3}"
        chat.say(f"Farm number {number} grows {topic} {place} of that year.", conversation=topic)
    for topic, other_topic in (("tea", "coffee"), ("coffee", "tea")):
        window = chat.window(budget=500, strategy="summarise", conversation=topic)
        assert f"grows {topic}" in window.background.text
        assert f"grows {other_topic}" not in str(window.as_openai())


def test_the_summary_is_of_the_turns_before_the_window(engine: Everhold, chat: View) -> None:
    """The summary stays the same while the window begins with the same message. It quotes no deleted message."""
    talk(chat, 18)
    before = chat.window(budget=600, strategy="summarise")
    chat.say("Thanks")
    after = chat.window(budget=600, strategy="summarise")
    assert after.messages[0] == before.messages[0]
    assert after.background.text == before.background.text
    window = after
    for hard in (False, True):
        older = chat.messages(limit=100, cursor=window.cursor)
        quoted = next(message for message in older if str(message.text) in window.background.text)
        chat.delete_message(quoted.id, hard=hard)
        window = chat.window(budget=600, strategy="summarise")
        assert window.messages[0] == before.messages[0]
        assert str(quoted.text) not in window.background.text
    assert "Earlier in this session" in window.background.text


def test_a_scope_sees_its_own_messages_and_memories(engine: Everhold, chat: View) -> None:
    chat.say("I grow tulips")
    engine.scope(user="bob", session="s2").say("I grow tulips in secret")
    engine.scope(user="bob").remember("Bob grows tulips", pinned=True)
    alice = engine.scope(user="alice", session="s3")
    alice.say("Who grows tulips?")
    texts = list_texts(alice.window())
    assert "message 0 of session s1, said by user" in texts[0]
    assert "secret" not in str(texts)
    assert "Bob" not in str(texts)
    assert list_texts(alice.window(only="session")) == ["Who grows tulips?"]
    with pytest.raises(NotFound, match="no session 's2' in this scope"):
        engine.scope(user="alice", session="s2").window()
    group = engine.scope(session="group")
    group.open_session()
    for user in ("alice", "bob"):
        engine.scope(user=user, session="group").say(f"{user} is here")
    assert [message.get("name") for message in group.window(strategy="truncate").as_openai()] == ["alice", "bob"]
    assert list_texts(engine.scope(user="bob", session="group").window(strategy="truncate")) == ["bob is here"]


def test_invalid_arguments_are_refused(engine: Everhold, chat: View) -> None:
    with pytest.raises(NotFound, match="no session 's1'"):
        chat.window()
    chat.say("Hello")
    with pytest.raises(InvalidInput, match="strategy is 'shrink'; pass 'adaptive' or 'truncate' or 'summarise'"):
        chat.window(strategy="shrink")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="budget is 0"):
        chat.window(budget=0)
    with pytest.raises(InvalidInput, match="the scope names no session"):
        engine.scope(user="alice").window()


def test_the_verb_can_be_awaited(engine: Everhold, chat: View) -> None:
    from concurrent.futures import ThreadPoolExecutor

    chat.say("Hello")
    with ThreadPoolExecutor(1) as pool:
        window = asyncio.run(AsyncView(chat, pool).window(strategy="summarise"))
    assert list_texts(window) == ["Hello"]
