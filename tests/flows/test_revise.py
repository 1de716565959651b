"""Changes keep the earlier state of memories: revise, history, supersede, undo, and questions about the past."""

from datetime import UTC, datetime, timedelta

import pytest

from everhold import Everhold, View
from everhold.errors import AlreadyExists, InvalidInput, NotFound, StaleVersion, UnknownField
from everhold.model import Change, Chunk, Revision
from tests.engines import Store, find_tables_with, get_records, read_all_rows, texts


def get_time() -> datetime:
    return datetime.now(UTC)


def test_a_revision_keeps_the_earlier_text(engine: Everhold, alice: View) -> None:
    memory = alice.remember("Lives in Paris", kind="fact", tags=["home"], key="home")
    revised = alice.revise("home", text="Lives in Rome", priority=9, metadata={"n": 1}, reason="moved")
    assert (revised.id, revised.text, revised.revision, revised.priority) == (memory.id, "Lives in Rome", 1, 9)
    assert alice.get(memory.id) == revised
    assert texts(alice.recall("where does she live", minimum=0)) == ["Lives in Rome"]
    assert alice.recall("rome", minimum=0)[0].tags == ("home",)
    alice.revise(memory.id, text="Lives in Oslo")
    history = alice.history("home")
    assert [revision.value["text"] for revision in history] == ["Lives in Paris", "Lives in Rome"]
    assert [revision.revision for revision in history] == [0, 1]
    assert [revision.reason for revision in history] == ["moved", None]
    assert history[0].known_from == memory.created_at
    assert history[0].known_to == history[1].known_from == revised.updated_at
    assert history[1].known_to == alice.get(memory.id).updated_at
    current = [chunk for chunk in get_records(engine).scan(Chunk, "default") if chunk.known_to is None]
    assert [chunk.terms for chunk in current] == ["live oslo"]


def test_every_revisable_field_can_be_revised(alice: View) -> None:
    now = get_time()
    changes = {
        "text": "New text", "content": {"a": [1]}, "kind": "plan", "importance": 0.125, "confidence": 0.25,
        "expires_at": now + timedelta(days=1), "occurred_at": now, "valid_from": now - timedelta(days=1),
        "valid_to": now + timedelta(days=1), "pinned": True, "aliases": ["also"], "trust": 0.5,
        "provenance": {"from": "test"}, "metadata": {"m": None}, "speaker": "Bob", "source_agent": "x", "level": "high",
        "score": 0.5, "key": "k",
    }  # fmt: skip
    memory = alice.remember("Old text")
    alice.revise(memory.id, **changes)
    stored = alice.get(memory.id)
    assert {name: getattr(stored, name) for name in changes} == changes
    alice.undo(memory.id)
    restored = alice.get(memory.id)
    assert {name: getattr(restored, name) for name in changes} == {name: getattr(memory, name) for name in changes}
    assert restored.hash == memory.hash


def test_revising_nothing_changes_nothing(engine: Everhold, alice: View) -> None:
    memory = alice.remember("Same", metadata={"a": 1})
    before = read_all_rows(engine)
    assert alice.revise(memory.id, text="Same", metadata={"a": 1}) == memory
    assert read_all_rows(engine) == before


def test_a_revised_memory_is_searched_by_its_new_words_only(alice: View) -> None:
    memory = alice.remember("Zebra crossing")
    alice.remember("Something else entirely")
    alice.recall("zebra", minimum=0)
    alice.revise(memory.id, text="Pelican crossing")
    assert alice.recall("zebra", recipe="words")[0].score == 0
    assert alice.recall("pelican", recipe="words")[0].memory.id == memory.id
    alice.revise(memory.id, aliases=["toucan"])
    assert set(alice.recall("toucan", minimum=0)[0].why.matched) == {"toucan"}


def test_revising_into_a_duplicate_is_refused(engine: Everhold, alice: View) -> None:
    alice.remember("First words")
    second = alice.remember("Second words")
    before = read_all_rows(engine)["memories"]
    with pytest.raises(AlreadyExists):
        alice.revise(second.id, text="first words.")
    assert read_all_rows(engine)["memories"] == before
    alice.revise(second.id, text="Third words")
    assert alice.remember("Second words").id != second.id
    assert alice.remember("Third words").id == second.id


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"txt": "x"}, UnknownField, "revise takes no argument 'txt'; did you mean 'text'"),
        ({"user_id": "bob"}, UnknownField, "revise takes no argument 'user_id'"),
        ({"organization_id": "x"}, UnknownField, "revise takes no argument 'organization_id'"),
        ({"id": "x"}, UnknownField, "'id' cannot be revised"),
        ({"text": "  "}, InvalidInput, "nothing to remember"),
        ({"text": "a\x00"}, InvalidInput, "NUL"),
        ({"confidence": 1.5}, InvalidInput, "confidence"),
        ({"priority": 0}, InvalidInput, "priority 0 is out of range"),
        ({"valid_from": datetime(2020, 1, 2, tzinfo=UTC), "valid_to": datetime(2020, 1, 1, tzinfo=UTC)},
         InvalidInput, "is before valid_from"),
        ({"expires_at": datetime(2020, 1, 2)}, InvalidInput, "has no zone"),  # noqa: DTZ001
    ],
)  # fmt: skip
def test_invalid_revisions_are_refused(
    sqlite_store: Store, changes: dict[str, object], error: type[Exception], words: str
) -> None:
    engine = sqlite_store.open()
    alice = engine.scope(user="alice")
    memory = alice.remember("As it was")
    before = read_all_rows(engine)["memories"]
    with pytest.raises(error, match=words):
        alice.revise(memory.id, **changes)
    assert read_all_rows(engine)["memories"] == before


def test_the_slower_of_two_concurrent_revisions_is_refused(engine: Everhold, alice: View) -> None:
    """The slower revision is refused with StaleVersion, and nothing of it is written."""
    memory = alice.remember("Start")
    write_deps = engine._parts.write_deps
    embed = write_deps.chunking.embedder.embed
    calls_left = iter([True])

    def revise_once(texts: list[str]) -> list[object]:
        if next(calls_left, False):
            alice.revise(memory.id, text="Quicker")
        return embed(texts)  # type: ignore[return-value]

    write_deps.chunking.embedder.embed = revise_once  # type: ignore[method-assign]
    with pytest.raises(StaleVersion, match="read it again and retry"):
        alice.revise(memory.id, text="Slower")
    assert alice.get(memory.id).text == "Quicker"
    assert len(alice.history(memory.id)) == 1


# superseding


def test_a_successor_replaces_the_old_memory(engine: Everhold, alice: View) -> None:
    old = alice.remember("Works at Initech", kind="fact", tags=["job"])
    successor = alice.supersede(old.id, "Works at Initrode", tags=["job"], priority=9)
    assert (successor.kind, successor.user_id, successor.priority) == ("fact", "alice", 9)
    assert texts(alice.recall("where does she work", minimum=0)) == ["Works at Initrode"]
    memory = alice.get(old.id)
    assert memory.superseded_by == successor.id
    assert memory.superseded_at == memory.valid_to == successor.created_at
    [related] = alice.relations(successor.id, relationship_type="supersedes")
    assert related.memory.id == old.id
    assert related.relationship.source_memory_id == successor.id
    assert len(alice.list()) == 2


def test_a_successor_belongs_to_the_owner_of_the_old_memory(engine: Everhold, alice: View) -> None:
    old = alice.remember("Hers")
    successor = engine.scope().supersede(old.id, "Still hers")
    assert successor.user_id == "alice"
    assert texts(alice.recall("hers", minimum=0)) == ["Still hers"]
    assert alice.remember("Still hers").id == successor.id


def test_repeating_a_supersession_changes_nothing(engine: Everhold, alice: View) -> None:
    old = alice.remember("Old")
    successor = alice.supersede(old.id, "New", idempotency_key="k")
    before = read_all_rows(engine)
    assert alice.supersede(old.id, "New", idempotency_key="k") == successor
    assert alice.supersede(old.id, "New").id == successor.id
    assert read_all_rows(engine) == before
    with pytest.raises(InvalidInput, match="already says that; revise it"):
        alice.supersede(successor.id, "new.")


def test_a_known_memory_can_supersede_another(alice: View) -> None:
    old, known = alice.remember("Old"), alice.remember("Known")
    assert alice.supersede(old.id, "Known").id == known.id
    assert texts(alice.recall("old known", minimum=0)) == ["Known"]


def test_a_superseded_text_can_become_current_again(alice: View) -> None:
    paris = alice.remember("Lives in Paris")
    rome = alice.supersede(paris.id, "Lives in Rome")
    alice.supersede(rome.id, "Lives in Paris")
    assert texts(alice.recall("lives in", minimum=0)) == ["Lives in Paris"]


def test_a_memory_that_is_not_yet_valid_can_be_superseded(alice: View) -> None:
    later = get_time() + timedelta(days=9)
    old = alice.remember("Will move to Rome", valid_from=later)
    successor = alice.supersede(old.id, "Will move to Oslo", valid_from=later)
    assert alice.get(old.id).superseded_by == successor.id
    alice.revise(old.id, metadata={"still": "writable"})


def test_a_bad_successor_changes_nothing(engine: Everhold, alice: View) -> None:
    old = alice.remember("Old")
    before = read_all_rows(engine)["memories"]
    for fields in ({"text": ""}, {"text": "x", "confidence": 3}, {"text": "x", "user_id": "bob"}, {"text": "x\x00"}):
        with pytest.raises(InvalidInput):
            alice.supersede(old.id, **fields)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        alice.supersede("nothing", "x")
    assert read_all_rows(engine)["memories"] == before


# undoing


def test_undo_goes_back_one_step_at_a_time(engine: Everhold, alice: View) -> None:
    memory = alice.remember("A", kind="fact")
    alice.revise(memory.id, text="B")
    alice.revise(memory.id, text="C", kind="conversation")
    successor = alice.supersede(memory.id, "D", kind="fact")
    alice.forget(successor.id)
    assert texts(alice.recall("d", minimum=0)) == []
    assert alice.undo().kind == "forget"
    assert texts(alice.recall("d", minimum=0)) == ["D"]
    assert alice.undo(successor.id).kind == "supersede"
    assert texts(alice.recall("c d", minimum=0)) == ["C"]
    assert alice.get(memory.id).superseded_by is None
    assert alice.get(memory.id).valid_to is None
    assert alice.relations(memory.id) == []
    with pytest.raises(NotFound):
        alice.get(successor.id)
    assert alice.undo(memory.id).kind == "revise"
    assert (alice.get(memory.id).text, alice.get(memory.id).kind) == ("B", "fact")
    assert texts(alice.recall("b", minimum=0)) == ["B"]
    alice.undo()
    assert alice.get(memory.id).text == "A"
    assert alice.remember("A", kind="fact").id == memory.id
    with pytest.raises(NotFound, match=f"nothing to undo for memory '{memory.id}'; only revise, supersede and forget"):
        alice.undo(memory.id)
    with pytest.raises(NotFound, match="nothing to undo for scope"):
        alice.undo()


def test_undoing_a_change_of_kind_frees_the_text_for_another_memory(alice: View) -> None:
    turn = alice.remember("Said", kind="conversation")
    alice.revise(turn.id, kind="fact")
    alice.undo(turn.id)
    assert alice.get(turn.id).hash is None
    assert alice.remember("Said", kind="fact").id != turn.id


def test_undo_accepts_a_key(alice: View) -> None:
    alice.remember("A", key="mine")
    alice.revise("mine", text="B")
    alice.undo("mine")
    assert alice.get("mine").text == "A"


def test_undo_never_skips_a_later_change(engine: Everhold, alice: View) -> None:
    memory = alice.remember("A")
    alice.revise(memory.id, text="B")
    engine.scope().revise(memory.id, text="C")
    alice.undo(memory.id)
    assert alice.get(memory.id).text == "B"


def test_undo_finds_the_scopes_change_among_many(engine: Everhold) -> None:
    mine, others = engine.scope(project="mine"), engine.scope(project="others")
    memory, other = mine.remember("A"), others.remember("x")
    mine.revise(memory.id, text="B")
    for number in range(60):
        others.revise(other.id, text=f"x{number}")
    mine.undo()
    assert mine.get(memory.id).text == "A"
    assert others.get(other.id).text == "x59"


def test_undo_skips_what_was_hidden_with_its_session(engine: Everhold, alice: View) -> None:
    outside = alice.remember("Outside")
    alice.revise(outside.id, text="Still outside")
    monday = engine.scope(user="alice", session="monday")
    revised = monday.remember("Revised")
    superseded = monday.remember("Superseded")
    monday.revise(revised.id, text="Revised again")
    monday.supersede(superseded.id, "Superseded by this")
    engine.delete_session("monday")
    for memory_id in (revised.id, superseded.id):
        with pytest.raises(NotFound, match="nothing to undo"):
            alice.undo(memory_id)
    assert alice.undo().memory_ids == [outside.id]
    engine.restore("session", "monday")
    assert [alice.undo(revised.id).kind, alice.undo(superseded.id).kind] == ["revise", "supersede"]
    assert {memory.text for memory in monday.list(only="session")} == {"Revised", "Superseded"}


def test_undoing_after_the_old_one_was_purged_keeps_the_successor(alice: View) -> None:
    old = alice.remember("Old")
    successor = alice.supersede(old.id, "New")
    alice.forget(old.id, hard=True)
    with pytest.raises(NotFound, match="nothing to undo"):
        alice.undo(successor.id)
    assert alice.get(successor.id).text == "New"


def test_undoing_a_forget_is_refused_if_the_text_was_remembered_again(alice: View) -> None:
    memory = alice.remember("Twice")
    alice.forget(memory.id)
    alice.remember("Twice")
    with pytest.raises(AlreadyExists):
        alice.undo(memory.id)
    assert len(alice.list()) == 1


def test_a_purge_leaves_no_word_behind(engine: Everhold, alice: View) -> None:
    """The text of a purged memory is also gone from revisions, the journal and the log."""
    memory = alice.remember("Canary one", aliases=["canaryalias"])
    alice.revise(memory.id, text="Canary two", reason="moved")
    successor = alice.supersede(memory.id, "Canary three")
    alice.undo()
    for memory_id in (memory.id, successor.id):
        alice.forget(memory_id, hard=True)
    rows = read_all_rows(engine)
    assert find_tables_with(engine, "canary") == []
    assert rows["memories"] == rows["chunks"] == rows["revisions"] == rows["memory_tags"] == {}
    assert get_records(engine).count(Revision, None, deleted=True) == 0
    assert get_records(engine).count(Change, None, deleted=True) == 0


# the past


def test_recall_as_of_returns_earlier_knowledge(alice: View) -> None:
    before_paris = get_time()
    memory = alice.remember("Lives in Paris")
    after_paris = get_time()
    alice.revise(memory.id, text="Lives in Rome")
    after_rome = get_time()
    successor = alice.supersede(memory.id, "Lives in Oslo")
    after_oslo = get_time()
    alice.revise(successor.id, text="Lives in Bergen")
    after_bergen = get_time()
    answers = [
        texts(alice.recall("lives in", as_of=moment, minimum=0))
        for moment in (before_paris, after_paris, after_rome, after_oslo, after_bergen)
    ]
    assert answers == [[], ["Lives in Paris"], ["Lives in Rome"], ["Lives in Oslo"], ["Lives in Bergen"]]
    assert alice.recall("paris", as_of=after_paris, minimum=0)[0].why.matched == ("pari",)
    assert alice.recall("lives", as_of=after_paris, minimum=0)[0].memory.revision == 0
    assert texts(alice.recall("lives in", minimum=0)) == ["Lives in Bergen"]


def test_reinforcement_does_not_change_the_past(alice: View) -> None:
    """Storing a text again reinforces the memory without revising it, so its past does not change."""
    memory = alice.remember("First text", priority=2)
    after_first = get_time()
    alice.remember("First text", priority=9)
    after_reinforcement = get_time()
    alice.revise(memory.id, text="Second text")
    alice.remember("Second text", priority=10)
    after_second = get_time()
    alice.revise(memory.id, text="Third text")
    answers = [
        texts(alice.recall("text", as_of=moment, minimum=0))
        for moment in (after_first, after_reinforcement, after_second)
    ]
    assert answers == [["First text"], ["First text"], ["Second text"]]


def test_recall_respects_validity_and_expiry(alice: View) -> None:
    now = get_time()
    day = timedelta(days=1)
    alice.remember("Was true", valid_from=now - 9 * day, valid_to=now - day)
    alice.remember("Is true", valid_from=now - day, valid_to=now + day)
    alice.remember("Will be true", valid_from=now + day)
    alice.remember("Has expired", expires_at=now - timedelta(seconds=1))
    alice.remember("Will expire", expires_at=now + 3 * day)
    after_writes = get_time()
    assert sorted(texts(alice.recall("true expire", minimum=0))) == ["Is true", "Will expire"]
    assert sorted(texts(alice.recall("true expire", as_of=after_writes + 2 * day, minimum=0))) == [
        "Will be true",
        "Will expire",
    ]
    assert sorted(texts(alice.recall("true expire", as_of=after_writes + 4 * day, minimum=0))) == ["Will be true"]
    assert texts(alice.recall("true expire", as_of=now - 2 * day, minimum=0)) == []  # not known yet
    assert len(alice.list()) == 5


def test_at_the_moment_of_a_supersession_the_successor_is_current(alice: View) -> None:
    old = alice.remember("Old")
    successor = alice.supersede(old.id, "New")
    assert texts(alice.recall("old new", as_of=successor.created_at, minimum=0)) == ["New"]
    assert texts(alice.recall("old new", as_of=successor.created_at - timedelta(microseconds=1), minimum=0)) == ["Old"]
    assert texts(alice.recall("old new", as_of=old.created_at, minimum=0)) == ["Old"]
