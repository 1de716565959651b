"""Recall of messages: which scope finds which messages, filters, and messages that could not be embedded."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from everhold import Everhold, View
from everhold.errors import InvalidInput, ModelUnavailable, UnknownField
from everhold.model import Chunk
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import Store


def recall_texts(view: View, question: str, **options: object) -> list[str]:
    return [hit.text for hit in view.recall(question, among="message", minimum=0, **options)]  # type: ignore[arg-type]


def test_a_project_finds_the_messages_of_its_sessions_only(store: Store) -> None:
    engine = store.open()
    engine.scope(user="alice", project="garden", session="s1").say("The roses need water")
    engine.scope(user="alice", session="s1").say("The roses have water")  # a message gets the project of its session
    engine.scope(user="alice", project="kitchen", session="s2").say("The soup needs water")
    assert sorted(recall_texts(engine.scope(user="alice", project="garden"), "water")) == [
        "The roses have water", "The roses need water"
    ]  # fmt: skip
    assert recall_texts(engine.scope(user="alice", project="kitchen"), "water") == ["The soup needs water"]
    assert len(recall_texts(engine.scope(user="alice"), "water")) == 3
    for max_memories in (1000, 0):  # with and without images in memory
        reader = store.open(images={"max_memories": max_memories})
        assert recall_texts(reader.scope(user="alice", session="s2"), "water")[0] == "The soup needs water"
        assert recall_texts(reader.scope(user="alice", session="s2"), "water", only="session") == [
            "The soup needs water"
        ]
        assert recall_texts(reader.scope(session="s2"), "water") == ["The soup needs water"]
        assert recall_texts(reader.scope(user="bob"), "water") == []


def test_a_group_session_shows_each_user_their_own_messages(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    engine.scope(session="team").say("The meeting is about tea")
    for user in ("alice", "bob"):
        engine.scope(user=user, session="team").say(f"{user} brings the tea")
    assert recall_texts(engine.scope(user="alice"), "tea") == ["alice brings the tea"]
    assert len(recall_texts(engine.scope(session="team"), "tea")) == 3


def test_filters_may_name_only_fields_of_the_searched_kinds(sqlite_store: Store) -> None:
    chat = sqlite_store.open().scope(user="alice", session="s1")
    chat.say("Is the tea ready?")
    chat.say("The tea is ready", role="assistant")
    chat.remember("Likes tea")
    assert recall_texts(chat, "tea", where={"role": "assistant"}) == ["The tea is ready"]
    assert recall_texts(chat, "tea", where={"not": {"role": "assistant"}}) == ["Is the tea ready?"]
    assert recall_texts(chat, "tea", before=datetime(2000, 1, 1, tzinfo=UTC)) == []
    assert recall_texts(chat, "tea", as_of=datetime(2000, 1, 1, tzinfo=UTC)) == []
    both_kinds = {"among": ["memory", "message"], "minimum": 0}
    assert {hit.kind for hit in chat.recall("tea", **both_kinds)} == {"memory", "message"}  # type: ignore[arg-type]
    for arguments in ({"kind": "fact"}, {"tags": "x"}, {"where": {"priority": 3}}, {"where": {"tags": "x"}}):
        with pytest.raises(UnknownField, match="messages have no field"):
            recall_texts(chat, "tea", **arguments)
    with pytest.raises(UnknownField, match="memories have no field 'role'"):
        chat.recall("tea", where={"role": "user"}, **both_kinds)  # type: ignore[arg-type]
    for arguments in ({"namespace": "short-term"}, {"include": "organization"}):
        with pytest.raises(InvalidInput, match="is about memories"):
            recall_texts(chat, "tea", **arguments)
    for among in ("mesage", [], ["memory", "x"]):
        with pytest.raises(InvalidInput, match="among"):
            chat.recall("tea", among=among)


def test_pages_over_several_kinds_repeat_and_leave_out_nothing(sqlite_store: Store) -> None:
    chat = sqlite_store.open().scope(user="alice", session="s1")
    for number in range(6):
        chat.say(f"tea number {number}", id=f"same{number}")
        chat.remember(f"tea cup {number}", id=f"same{number}")
    returned, cursor = [], None
    while True:
        hits = chat.recall("tea", among=["message", "memory"], k=5, minimum=0, cursor=cursor)
        returned += [(hit.kind, hit.id) for hit in hits]
        cursor = hits.cursor
        if cursor is None:
            break
    assert len(returned) == len(set(returned)) == 12
    hit = next(hit for hit in chat.recall("tea", among=["message", "memory"], k=20, minimum=0) if hit.kind == "message")
    assert (hit.message.id, hit.tags) == (hit.id, ())
    with pytest.raises(InvalidInput, match="this hit is a message"):
        _ = hit.memory


class SwitchedEmbedder(FakeEmbedder):
    """An embedder that can be switched off."""

    is_off = False

    def embed(self, texts):  # type: ignore[no-untyped-def]
        if self.is_off:
            raise ModelUnavailable("the endpoint does not answer", remedy="try again")
        return super().embed(texts)


def test_a_message_that_could_not_be_embedded_is_found_by_its_words(tmp_path: Path) -> None:
    embedder = SwitchedEmbedder()
    with Everhold.open(tmp_path / "m.db", embedder=embedder, embedding={"cache_texts": 0}) as engine:
        chat = engine.scope(user="alice", session="s1")
        embedder.is_off = True
        chat.say("The lighthouse is for sale")
        embedder.is_off = False
        assert recall_texts(chat, "lighthouse") == ["The lighthouse is for sale"]
        assert engine.doctor().problems == []


def test_messages_can_be_left_out_of_the_index(sqlite_store: Store) -> None:
    engine = sqlite_store.open(index_messages=False)
    chat = engine.scope(user="alice", session="s1")
    chat.say("The lighthouse is for sale")
    assert recall_texts(chat, "lighthouse") == []
    assert engine._parts.records.count(Chunk, "default") == 0
    assert [message.text for message in chat.messages()] == ["The lighthouse is for sale"]
