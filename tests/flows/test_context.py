"""A context from a real store: pinned, core, session and recalled memories, and nothing of other users."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from everhold import AsyncEverhold, Everhold, View, clock
from everhold.context.counting import count
from everhold.errors import EmptyQuery, InvalidInput
from everhold.model import Block, BlockAgent, Session
from everhold.schema.operations import Patch, Put
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import Store, get_records


@pytest.fixture
def chat(engine: Everhold) -> View:
    """A view of a session of alice with an agent."""
    return engine.scope(user="alice", agent="guide", session="s1")


def add_block(engine: Everhold, label: str, value: str, **fields: object) -> Block:
    now = clock.now()
    agent = fields.pop("agent", None)
    common = {"organization_id": "default", "created_at": now, "updated_at": now}
    block = Block.model_validate({"id": clock.make_id("blk"), "label": label, "value": value, **common, **fields})
    link = {"block_id": block.id, "block_label": label, "agent_id": agent, **common}
    get_records(engine).commit([Put(block), *([Put(BlockAgent.model_validate(link))] if agent else [])])
    return block


def summarise(engine: Everhold, session: str, summary: str) -> None:
    get_records(engine).commit([Patch(Session, ("default", session), {"summary": summary})])


def list_lines(view: View, question: str = "tea", **options: object) -> list[str]:
    arguments = {"budget": 1000, "minimum": 0.0, **options}
    return view.context(question, **arguments).text.splitlines()[1:-1]  # type: ignore[arg-type]


def format_today() -> str:
    now = clock.now()
    return f"{now.day} {now:%B} {now.year}"


def test_all_sections_are_shown_in_their_order(engine: Everhold, chat: View) -> None:
    alice = engine.scope(user="alice")
    spring = datetime(2026, 5, 3, 12, tzinfo=UTC)
    alice.remember("Is allergic to nuts", pinned=True, occurred_at=spring)
    alice.remember("Drinks green tea", speaker="Mia", occurred_at=spring)
    alice.remember("Tea is at five", provenance={"file": "house.md"}, occurred_at=spring)
    for text in ("Which tea do you like?", "Something without milk"):
        chat.remember(text, kind="conversation", speaker="Alice", occurred_at=spring)
    add_block(engine, "persona", "Speaks kindly", agent="guide")
    summarise(engine, "s1", "They talk about drinks")
    found_lines = list_lines(chat, "who drinks tea?", include="user")
    source = "[said by Alice on 3 May 2026]"
    assert found_lines[:-2] == [
        "Pinned:",
        "- [3 May 2026] Is allergic to nuts",
        "Core memory:",
        "- [persona] Speaks kindly",
        "Summary of this session:",
        f"- [{format_today()}] They talk about drinks",
        "Recent turns of this session:",
        f"- {source} Which tea do you like?",
        f"- {source} Something without milk",
        "Recalled for the question:",
    ]
    assert set(found_lines[-2:]) == {
        "- [said by Mia on 3 May 2026] Drinks green tea",
        "- [from file house.md on 3 May 2026] Tea is at five",
    }


def test_turns_of_the_session_are_shown_in_order_and_only_to_its_user(engine: Everhold) -> None:
    mine = engine.scope(user="alice", project="p1", session="s1")
    mine.say("Which tea do you like?")
    mine.remember("Something without milk", kind="conversation", speaker="Alice")
    mine.say("Then take green tea", role="assistant")
    mine.say("tool result", role="tool", name="kettle")
    assert list_lines(mine)[:5] == [
        "Recent turns of this session:",
        f"- [said by user on {format_today()}] Which tea do you like?",
        f"- [said by Alice on {format_today()}] Something without milk",
        f"- [said by assistant on {format_today()}] Then take green tea",
        f"- [said by kettle on {format_today()}] tool result",
    ]
    for view in (
        engine.scope(user="alice", project="p2", session="s1"),
        engine.scope(user="bob", session="s1"),
        engine.scope(organization="other", user="alice", session="s1"),
    ):
        assert list_lines(view) == [], view.scope
    elsewhere = engine.scope(user="alice", session="s2")
    assert list_lines(elsewhere, only="session") == []
    assert list_lines(elsewhere) == [
        "Recalled for the question:", f"- [said by Alice on {format_today()}] Something without milk"
    ]  # fmt: skip


def test_only_pinned_memories_that_are_valid_now_are_shown(engine: Everhold) -> None:
    alice, now = engine.scope(user="alice"), clock.now()
    soon, past = now + timedelta(hours=1), now - timedelta(hours=1)
    alice.remember("Holds", pinned=True, valid_from=past, valid_to=soon, expires_at=soon)
    alice.remember("Expired", pinned=True, expires_at=past)
    alice.remember("Not yet", pinned=True, valid_from=soon)
    alice.remember("No longer", pinned=True, valid_to=past)
    alice.forget(alice.remember("Forgotten", pinned=True).id)
    alice.supersede(alice.remember("Lives in Rome", pinned=True).id, "Lives in Oslo", pinned=True, priority=9)
    engine.scope(user="bob").remember("Of bob", pinned=True)
    engine.scope(organization="other", user="alice").remember("Of another alice", pinned=True)
    pinned = [line.partition("] ")[2] for line in list_lines(alice) if line.startswith("- ")]
    assert pinned == ["Lives in Oslo", "Holds"]


def test_pinned_memories_of_a_wider_reach_are_shown_with_include(engine: Everhold, chat: View) -> None:
    engine.scope(user="alice").remember("Of alice", pinned=True)
    engine.scope(user="bob").remember("Of bob", pinned=True)
    engine.scope().remember("Of all", pinned=True)
    engine.scope(user="alice", session="s2").remember("Of another session", pinned=True)
    chat.remember("Of this session", pinned=True)

    def read_items(*include: str) -> set[str]:
        return {line.partition("] ")[2] for line in list_lines(chat, include=include) if line.startswith("- ")}

    assert read_items() == {"Of this session"}
    of_alice = {"Of this session", "Of alice", "Of another session"}
    assert read_items("user") == of_alice
    assert read_items("user", "organization") == {*of_alice, "Of all"}
    assert read_items("session") == {"Of this session"}


def test_core_memory_belongs_to_one_agent_and_one_user(engine: Everhold, chat: View) -> None:
    chat.remember("Hello")
    for dimensions in ({"user": "bob"}, {"agent": "critic"}):
        engine.scope(**dimensions).remember("Hello")
    add_block(engine, "persona", "Speaks kindly", agent="guide")
    add_block(engine, "human", "Is called Alice", user_id="alice")
    add_block(engine, "human", "Is called Bob", user_id="bob", agent="guide")
    add_block(engine, "persona", "Speaks sharply", agent="critic")
    add_block(engine, "draft", "A template", user_id="alice", is_template=True)
    add_block(engine, "rules", "Be brief", user_id="alice", agent="guide")
    core = [line for line in list_lines(chat, "hello", kind="plan") if line.startswith("- ")]
    assert core == ["- [persona] Speaks kindly", "- [rules] Be brief", "- [human] Is called Alice"]
    assert not any("Is called" in line for line in list_lines(engine.scope(user="carol")))


def test_a_session_of_another_user_adds_nothing(engine: Everhold, chat: View) -> None:
    chat.remember("Hello", kind="conversation")
    summarise(engine, "s1", "A secret of alice's")
    assert "A secret of alice's" in chat.context("hello").text
    for dimensions in ({"user": "bob", "session": "s1"}, {"user": "alice", "agent": "critic", "session": "s1"}):
        assert engine.scope(**dimensions).context("hello", minimum=0.0).text == ""


def test_the_newest_turns_are_kept(engine: Everhold, chat: View) -> None:
    chat.remember_many({"text": f"Turn {n} about tea", "kind": "conversation"} for n in range(100))
    chat.remember("Not a turn", kind="fact")
    context = chat.context("nothing", budget=200, kind="plan")
    shown = [memory.text for memory in context.memories]
    assert shown == [f"Turn {n} about tea" for n in range(100 - len(shown), 100)]
    assert 8 < len(shown) < 20
    assert context.sections[0].left_out == 100 - len(shown)


def test_dates_are_in_the_time_zone_of_the_user(engine: Everhold) -> None:
    engine.create_user("yuki", timezone="Asia/Tokyo")
    evening = datetime(2026, 5, 3, 20, tzinfo=UTC)
    yuki = engine.scope(user="yuki")
    yuki.remember("Went home", occurred_at=evening, pinned=True)
    assert "[4 May 2026] Went home" in yuki.context("home").text
    assert "[3 May 2026] Went home" in yuki.context("home", timezone="UTC").text
    with pytest.raises(InvalidInput, match="timezone: no time zone 'Mars/Base'"):
        yuki.context("home", timezone="Mars/Base")
    yuki.remember("The end", occurred_at=datetime(9999, 12, 31, 23, tzinfo=UTC), pinned=True)
    assert "[31 December 9999] The end" in yuki.context("home").text


@pytest.mark.parametrize("budget", [1, 3, 44, 60, 100, 333, 2000])
def test_a_context_keeps_to_its_budget(engine: Everhold, budget: int) -> None:
    alice = engine.scope(user="alice")
    alice.remember_many({"text": f"Note {n} about tea. It is long." * 3, "pinned": n % 3 == 0} for n in range(60))
    context = alice.context("tea", budget=budget, k=60, minimum=0.0)
    assert context.tokens == count(FakeEmbedder(), context.text) <= budget
    if budget >= 100:
        assert context.tokens > budget * 0.6
    else:
        assert context.tokens in range(budget + 1)


def test_filters_narrow_what_is_recalled(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    alice.remember("Tea is a plan", kind="plan", tags=["x"])
    alice.remember("Tea is a fact", kind="fact")
    for narrowed in ({"kind": "plan"}, {"tags": "x"}, {"where": {"kind": "plan"}}):
        assert [memory.text for memory in alice.context("tea", minimum=0.0, **narrowed).memories] == ["Tea is a plan"]


def test_a_memory_without_text_tells_its_content(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    alice.remember(content={"cup": "blue"}, pinned=True)
    assert '{"cup":"blue"}' in alice.context("cup").text


def test_bad_questions_and_budgets_are_refused_and_noted(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    alice.remember("Likes tea")
    with pytest.raises(EmptyQuery):
        alice.context("  ")
    with pytest.raises(InvalidInput, match="budget is 0; pass 1 to 10000000 tokens"):
        alice.context("tea", budget=0)
    with pytest.raises(InvalidInput, match="k is 0"):
        alice.context("tea", k=0)
    assert [(line.operation, line.success) for line in alice.log(operation="search")] == [("search", False)] * 3


def test_only_shown_memories_count_as_read(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    memories = alice.remember_many(f"Note {n} about tea and more" for n in range(40))
    context = alice.context("tea", budget=120, k=40, minimum=0.0)
    (line,) = alice.log(operation="search")
    assert line.request == {"k": 40, "budget": 120, "hits": len(context.memories), "length": 3}
    memory_ids = {memory.id for memory in context.memories}
    assert 0 < len(memory_ids) < 40
    assert {memory.id for memory in memories if alice.get(memory.id).access_count} == memory_ids


def test_the_verb_can_be_awaited(sqlite_store: Store) -> None:
    async def use_engine() -> None:
        engine = sqlite_store.open()
        sqlite_store.opened.remove(engine)
        async with AsyncEverhold(engine) as everhold:
            alice = everhold.scope(user="alice")
            await alice.remember("Likes tea", pinned=True)
            assert "Likes tea" in str(await alice.context("tea", budget=200))

    asyncio.run(use_engine())
