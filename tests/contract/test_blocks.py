"""Core-memory blocks through public verbs, on every store."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from everhold import Block, Everhold, View
from everhold.errors import AlreadyExists, Conflict, EverholdError, InvalidInput, NotFound, StaleVersion
from tests.engines import Store, find_tables_with


@pytest.fixture
def engine(any_store: Store) -> Everhold:
    return any_store.open()


@pytest.fixture
def coder(engine: Everhold) -> View:
    return engine.scope(user="alice", agent="coder")


def find_texts(view: View, question: str, **options: object) -> list[str]:
    return [hit.text for hit in view.recall(question, among="block", minimum=0, k=50, **options)]


def find_texts_by_words(view: View, question: str, **options: object) -> list[str]:
    """Return the texts of the blocks that have a word of the question."""
    hits = view.recall(question, among="block", minimum=1e-6, k=50, recipe="words", **options)
    return [hit.text for hit in hits]


def list_labels(view: View) -> list[str]:
    return [block.label for block in view.blocks()]


def test_every_column_of_a_block_is_written_and_read(engine: Everhold, coder: View) -> None:
    before = datetime.now(UTC)
    block = coder.create_block(
        "human",
        "Likes tea",
        id="b1",
        limit=500,
        description="About the user",
        template_name="people",
        metadata={"source": {"form": [1, None, "ü"]}},
    )
    assert isinstance(block, Block)
    assert (block.id, block.organization_id, block.user_id, block.label) == ("b1", "default", "alice", "human")
    assert (block.value, block.limit, block.description, block.template_name) == (
        "Likes tea", 500, "About the user", "people"
    )  # fmt: skip
    assert (block.is_template, block.is_deleted, block.version) == (False, False, 1)
    assert block.metadata == {"source": {"form": [1, None, "ü"]}}
    assert (block.created_by_id, block.last_updated_by_id) == ("alice", "alice")
    assert before <= block.created_at == block.updated_at
    assert coder.block("b1") == coder.block("human") == block == engine.scope().block("b1")
    changed = engine.scope(agent="coder").update_block(
        "b1", limit=9, description=None, template_name=None, metadata={"n": 1}, reason="tidy"
    )
    assert (changed.limit, changed.description, changed.template_name, changed.metadata) == (9, None, None, {"n": 1})
    assert (changed.version, changed.created_at, changed.created_by_id) == (2, block.created_at, "alice")
    assert changed.last_updated_by_id == "coder"
    assert changed.updated_at > block.updated_at
    assert coder.block("b1") == changed
    assert coder.update_block("b1", limit=9) == changed  # nothing to do
    assert repr(block) == "Block('Likes tea', label='human', user='alice', id='b1')"
    plain = engine.scope().create_block("system")
    assert (plain.value, plain.limit, plain.user_id, plain.created_by_id) == ("", 2000, None, None)
    assert plain.id.startswith("blk_")
    for fields in ({"label": "other"}, {"user_id": "bob"}, {"limit": -1}, {"limit": "9"}, {"version": 9}, {}):
        with pytest.raises(InvalidInput):
            coder.update_block("b1", **fields)
    for label in ("", "x" * 51, None, "a\x00b"):
        with pytest.raises(InvalidInput):
            coder.create_block(label, "v")
    assert coder.create_block("x" * 50, "v").label == "x" * 50


def test_every_column_of_a_link_is_written_and_read(engine: Everhold, coder: View) -> None:
    block = coder.create_block("human", "Likes tea", id="b1")
    alice, everybody = engine.scope(user="alice"), engine.scope()
    assert coder.block_agents("human") == ["coder"]
    assert alice.attach_block("human", agent="tester") == block
    assert alice.attach_block("human", agent="tester") == block
    assert everybody.block_agents("b1") == ["coder", "tester"]
    tester = engine.scope(user="alice", agent="tester")
    assert tester.append_block("human", "and cake").value == coder.block("human").value == "Likes tea\nand cake"
    assert tester.detach_block("human").id == "b1"
    assert everybody.block_agents("b1") == ["coder"]
    assert list_labels(engine.scope(agent="tester")) == []
    for call in (
        lambda: coder.attach_block("human", agent="tester"),
        lambda: alice.attach_block("human"),
        lambda: alice.detach_block("human", agent="tester"),
        lambda: engine.scope(user="bob").attach_block("b1", agent="tester"),
        lambda: engine.scope(organization="acme").attach_block("b1", agent="tester"),
    ):
        with pytest.raises((InvalidInput, NotFound)):
            call()
    assert everybody.block_agents("b1") == ["coder"]


def test_the_limit_is_checked_before_every_write(coder: View) -> None:
    block = coder.create_block("human", "x" * 10, limit=10)
    message = r"^block 'human' would hold 2,130 characters, 130 over its limit of 2,000; shorten it or raise the limit$"
    with pytest.raises(InvalidInput, match=message):
        coder.create_block("human", "x" * 2130)
    for call in (
        lambda: coder.write_block("human", "y" * 11),
        lambda: coder.append_block("human", ""),  # the line break
        lambda: coder.replace_in_block("human", "x", "yy", every=True),
        lambda: coder.rewrite_block_lines("human", 1, 1, "y" * 11),
        lambda: coder.update_block("human", limit=9),
    ):
        with pytest.raises(InvalidInput, match=r"would hold (10|11|20) characters, (1|10) over its limit of (9|10);"):
            call()
    assert coder.block("human") == block
    assert coder.block_history("human") == []
    assert coder.write_block("human", "😀" * 10).value == "😀" * 10  # characters, not bytes
    assert coder.update_block("human", limit=11).limit == 11
    assert len(coder.replace_in_block("human", "😀" * 10, "😀" * 11).value) == 11
    coder.create_block("long", "x" * 10_000, limit=10_000)
    with pytest.raises(InvalidInput, match="would hold 10,000,000,000 characters"):
        coder.replace_in_block("long", "x", "y" * 1_000_000, every=True)


def test_lines_are_appended_replaced_and_rewritten(coder: View) -> None:
    coder.create_block("notes")
    assert coder.append_block("notes", "one").value == "one"
    assert coder.append_block("notes", "two").value == "one\ntwo"
    assert coder.write_block("notes", "one\ntwo\n").value == "one\ntwo\n"
    assert coder.append_block("notes", "three").value == "one\ntwo\nthree"
    with pytest.raises(InvalidInput, match="block 'notes' does not contain 'four'; copy the text exactly"):
        coder.replace_in_block("notes", "four", "5")
    with pytest.raises(InvalidInput, match="contains 'o' 2 times; pass more of the text around it, or every=True"):
        coder.replace_in_block("notes", "o", "0")
    with pytest.raises(InvalidInput, match="old is empty"):
        coder.replace_in_block("notes", "", "0")
    assert coder.replace_in_block("notes", "o", "0", every=True).value == "0ne\ntw0\nthree"
    assert coder.replace_in_block("notes", "tw0", "2").value == "0ne\n2\nthree"
    assert coder.rewrite_block_lines("notes", 2, 3, "zwei\ndrei\nvier").value == "0ne\nzwei\ndrei\nvier"
    assert coder.rewrite_block_lines("notes", 1, 0, "title\n").value == "title\n0ne\nzwei\ndrei\nvier"
    assert coder.rewrite_block_lines("notes", 6, 5, "end").value == "title\n0ne\nzwei\ndrei\nvier\nend"
    assert coder.rewrite_block_lines("notes", 2, 5, "").value == "title\nend"
    assert coder.rewrite_block_lines("notes", 2, 2, "\n").value == "title\n"
    for first, last in ((0, 0), (3, 3), (2, 9), (2, 0), (5, 4)):
        with pytest.raises(InvalidInput, match="block 'notes' has 1 lines"):
            coder.rewrite_block_lines("notes", first, last, "x")
    assert coder.rewrite_block_lines("notes", 1, 1, "").value == ""
    assert coder.rewrite_block_lines("notes", 1, 0, "again").value == "again"


def test_unicode_line_separators_do_not_end_a_line(coder: View) -> None:
    lines = ["näive", "茶\u2028is one line", "carriage\r", "", "👩‍👩‍👧", "\x0bfeed"]
    coder.create_block("notes", "\n".join(lines))
    rewritten = coder.rewrite_block_lines("notes", 2, 3, "ชา\r\nüber").value
    assert rewritten == "näive\nชา\r\nüber\n\n👩‍👩‍👧\n\x0bfeed"
    assert coder.block("notes").value == rewritten
    assert coder.replace_in_block("notes", "👩‍👧", "👧").value.split("\n")[4] == "👩‍👧"
    numbered = coder.render_blocks(numbered=True)
    assert numbered.splitlines()[4:7] == ["  2: ชา", "  3: über", "  4:"]


def test_earlier_values_are_listed_compared_and_restored(engine: Everhold, coder: View) -> None:
    block = coder.create_block("human", "a", id="b1")
    for number, value in enumerate(("b", "c", "d"), 2):
        assert coder.write_block("human", value, reason=f"to {value}").version == number
    latest = coder.block("human")
    revisions = [
        (revision.revision, revision.value["value"], revision.reason) for revision in coder.block_history("b1")
    ]
    assert revisions == [
        (1, "a", "to b"), (2, "b", "to c"), (3, "c", "to d")
    ]  # fmt: skip
    history = coder.block_history("human")
    assert [revision.owner_kind for revision in history] == ["block"] * 3
    assert [revision.known_from for revision in history] == [block.created_at, *(r.known_to for r in history[:-1])]
    assert latest.updated_at == history[-1].known_to
    for revision in history:
        earlier = coder.block("human", as_of=revision.known_from)
        assert (earlier.value, earlier.version) == (revision.value["value"], revision.revision)
        assert coder.block("b1", as_of=revision.known_to - timedelta(microseconds=1)) == earlier
    assert coder.block("human", as_of=history[-1].known_to) == coder.block("human")
    with pytest.raises(NotFound, match="block 'human' did not exist at"):
        coder.block("human", as_of=block.created_at - timedelta(microseconds=1))
    assert coder.diff_block("human").splitlines() == [
        "--- human version 3", "+++ human version 4", "@@ -1 +1 @@", "-c", "+d"
    ]  # fmt: skip
    assert coder.diff_block("human", 1, 2).splitlines()[3:] == ["-a", "+b"]
    assert coder.diff_block("human", 4, 1).splitlines()[3:] == ["-d", "+a"]
    assert coder.diff_block("human", 2, 2) == ""
    with pytest.raises(NotFound, match=r"block 'human' has no version 9; block_history\(\) lists its versions"):
        coder.diff_block("human", 9)
    assert [coder.undo_block("human").value for _ in range(3)] == ["c", "b", "a"]
    with pytest.raises(NotFound, match="block 'human' has no change to undo"):
        coder.undo_block("human")
    assert coder.undo_block("human", to_version=4).value == "d"  # undoes the undo
    assert coder.undo_block("human").value == "c"
    assert coder.write_block("human", "e").value == "e"
    assert [coder.undo_block("human").value for _ in range(3)] == ["c", "b", "a"]
    assert [revision.revision for revision in coder.block_history("human")] == list(range(1, 13))
    with pytest.raises(NotFound, match="no block 'b1' in this scope"):
        engine.scope(user="bob").block_history("b1")


def test_undo_takes_back_all_fields(coder: View) -> None:
    block = coder.create_block("human", "a", limit=5, description="x", metadata={"k": [1]})
    coder.update_block("human", limit=1, description=None, metadata={})
    undone = coder.undo_block("human")
    assert (undone.value, undone.limit, undone.description, undone.metadata) == ("a", 5, "x", {"k": [1]})
    assert undone.version == block.version + 2


def test_an_expected_version_guards_an_edit(coder: View) -> None:
    coder.create_block("human", "a")
    assert coder.write_block("human", "b", expected_version=1).version == 2
    edits = (
        lambda: coder.write_block("human", "x", expected_version=1),
        lambda: coder.append_block("human", "x", expected_version=1),
        lambda: coder.replace_in_block("human", "b", "x", expected_version=1),
        lambda: coder.rewrite_block_lines("human", 1, 1, "x", expected_version=1),
        lambda: coder.update_block("human", limit=5, expected_version=1),
        lambda: coder.undo_block("human", expected_version=1),
    )
    for edit in edits:
        with pytest.raises(StaleVersion, match=r"is at version 2, not 1; .*expected_version=2") as caught:
            edit()
        assert caught.value.current_version == 2
    assert coder.block("human").value == "b"


def test_concurrent_edits_of_one_block_lose_nothing(engine: Everhold, coder: View) -> None:
    coder.create_block("log", limit=100_000)
    coder.create_block("state", "0")

    def edit(writer: int) -> tuple[int, int]:
        written = conflicts = 0
        rng = random.Random(writer)
        for number in range(6):
            coder.append_block("log", f"{writer}-{number}")
            try:
                coder.write_block("state", f"{writer} {number} {rng.random()}")
                written += 1
            except StaleVersion as error:
                conflicts += error.current_version is not None
        return written, conflicts

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(edit, range(2)))
    lines = coder.block("log").value.split("\n")
    assert sorted(lines) == sorted(f"{writer}-{number}" for writer in range(2) for number in range(6))
    assert [line for line in lines if line.startswith("0")] == [f"0-{number}" for number in range(6)]
    assert [revision.revision for revision in coder.block_history("log")] == list(range(1, 13))
    written = sum(count for count, _ in results)
    assert coder.block("state").version == 1 + written == len(coder.block_history("state")) + 1
    assert written + sum(conflicts for _, conflicts in results) == 12
    values = [revision.value["value"] for revision in coder.block_history("log")]
    assert all(later.startswith(earlier) for earlier, later in pairwise(values))
    assert find_texts_by_words(coder, "0-5 1-5")[:1] == [coder.block("log").value]


def test_each_scope_sees_its_own_blocks(engine: Everhold, coder: View) -> None:
    engine.scope(agent="coder").create_block("persona", "Careful persona", id="persona")
    coder.create_block("human", "Alice persona", id="alice-human")
    engine.scope(user="bob", agent="coder").create_block("human", "Bob persona", id="bob-human")
    engine.scope(user="alice").create_block("diary", "Diary persona", id="alice-diary")
    engine.scope().create_block("rules", "Common persona", id="rules")
    engine.scope(organization="acme").create_block("human", "Acme persona", id="acme")
    everything = {"persona", "alice-human", "bob-human", "alice-diary", "rules"}
    seen_by: list[tuple[dict[str, str], set[str]]] = [
        ({}, everything),
        ({"agent": "coder"}, {"persona", "alice-human", "bob-human"}),
        ({"user": "alice"}, {"alice-human", "alice-diary"}),
        ({"user": "alice", "agent": "coder"}, {"persona", "alice-human", "alice-diary"}),
        (
            {"user": "alice", "agent": "coder", "session": "s", "project": "p"},
            {"persona", "alice-human", "alice-diary"},
        ),
        ({"user": "bob", "agent": "coder"}, {"persona", "bob-human"}),
        ({"user": "bob", "agent": "tester"}, {"bob-human"}),
        ({"agent": "tester"}, set()),
        ({"user": "carol"}, set()),
        ({"project": "p"}, set()),
        ({"session": "s"}, set()),
        ({"organization": "acme"}, {"acme"}),
        ({"organization": "acme", "user": "alice", "agent": "coder"}, set()),
    ]
    for dimensions, expected in seen_by:
        view = engine.scope(**dimensions)
        assert {block.id for block in view.blocks()} == expected, dimensions
        assert {hit.id for hit in view.recall("persona", among="block", minimum=0, k=50)} == expected, dimensions
        for block_id in (everything | {"acme"}) - expected:
            for call in (view.block, view.block_history, view.delete_block, view.undo_block):
                with pytest.raises(NotFound, match=f"no block '{block_id}' in this scope"):
                    call(block_id)
        if "user" in dimensions or "agent" in dimensions:
            rendered = view.render_blocks()
            assert {block.id for block in engine.scope().blocks() if block.value in rendered} == expected - {"acme"}
            assert all((block.value in view.context("x", budget=5000).text) for block in view.blocks())
    with pytest.raises(InvalidInput, match=r"2 blocks of this scope have the label 'human': .*; name one by its id"):
        engine.scope(agent="coder").block("human")
    assert engine.scope(user="bob", agent="coder").block("human").id == "bob-human"
    with pytest.raises(InvalidInput, match="the scope names no agent and no user"):
        engine.scope().render_blocks()
    with pytest.raises(InvalidInput, match="the scope names neither"):
        engine.scope(project="p").create_block("human", "x")


def test_blocks_are_found_by_their_current_text(engine: Everhold, coder: View) -> None:
    block = coder.create_block("human", "Alice grows roses", id="b1")
    coder.create_block("plan", "Water the tulips on Monday")
    assert find_texts_by_words(coder, "roses") == ["Alice grows roses"]
    coder.write_block("human", "Alice sails boats\n" * 40)
    assert find_texts_by_words(coder, "roses") == []
    assert find_texts_by_words(coder, "sails") == [coder.block("human").value]
    coder.undo_block("human")
    assert find_texts_by_words(coder, "boats") == []
    [hit] = coder.recall("roses", among="block", recipe="words", minimum=1e-6)
    assert (hit.kind, hit.id, hit.record) == ("block", "b1", coder.block("b1"))
    assert find_texts_by_words(coder, "roses", as_of=block.created_at - timedelta(hours=1)) == []
    hits = coder.recall("tulips roses", among=["memory", "block"], minimum=0)
    assert {hit.kind for hit in hits} == {"block"}
    tester = engine.scope(agent="tester")
    assert find_texts(tester, "roses") == []
    engine.scope().attach_block("b1", agent="tester")
    assert find_texts(tester, "roses") == ["Alice grows roses"]
    engine.scope().detach_block("b1", agent="tester")
    assert find_texts(tester, "roses") == []
    labelled = coder.recall("roses tulips", among="block", minimum=0, where={"label": "plan"})
    assert [hit.text for hit in labelled] == ["Water the tulips on Monday"]


def test_blocks_are_copied_from_templates(engine: Everhold, coder: View) -> None:
    everybody = engine.scope()
    everybody.create_block(
        "persona", "You are kind", id="t1", is_template=True, template_name="kind", limit=50, description="d"
    )
    coder.create_block("human", "Name: unknown", is_template=True, template_name="people")
    assert list_labels(coder) == []
    assert [block.template_name for block in coder.blocks(templates=True)] == ["people", "kind"]
    assert [block.id for block in engine.scope(user="bob").blocks(templates=True)] == ["t1"]
    from_template = coder.create_block(template="kind")
    assert (from_template.label, from_template.value, from_template.limit, from_template.description) == (
        "persona",
        "You are kind",
        50,
        "d",
    )
    assert (from_template.template_name, from_template.is_template, from_template.user_id) == ("kind", False, "alice")
    limited_copy = coder.create_block("human", "Name: Alice", template="people", limit=100)
    assert (limited_copy.value, limited_copy.limit) == ("Name: Alice", 100)
    everybody.write_block("t1", "You are strict")
    assert coder.block("persona").value == "You are kind"
    assert coder.create_block("voice", template="t1").value == "You are strict"
    assert sorted(find_texts(everybody, "You are kind")) == ["Name: Alice", "You are kind", "You are strict"]
    template_texts = find_texts(everybody, "kind", where={"is_template": True})
    assert sorted(template_texts) == ["Name: unknown", "You are strict"]
    assert "unknown" not in coder.render_blocks() + coder.context("unknown", budget=2000).text
    for call in (
        lambda: everybody.attach_block("t1", agent="coder"),
        lambda: coder.write_block("t1", "mine"),
        lambda: coder.delete_block("t1"),
    ):
        with pytest.raises(Conflict):
            call()
    with pytest.raises(NotFound, match="no template 'people' in this scope"):
        engine.scope(user="bob").create_block(template="people")


def test_a_deleted_block_is_restored(engine: Everhold, coder: View) -> None:
    coder.create_block("human", "Alice likes secretum", id="b1")
    coder.write_block("human", "Alice likes tea")
    preview = coder.delete_block("human", preview=True)
    assert (preview.preview, preview.rows) == (True, {"blocks": 1, "blocks_agents": 1, "revisions": 1})
    assert coder.delete_block("human").rows == preview.rows
    for call in (coder.block, coder.delete_block, coder.undo_block):
        with pytest.raises(NotFound, match="no block 'human' in this scope"):
            call("human")
    assert (find_texts(coder, "tea"), coder.render_blocks()) == ([], "")
    with pytest.raises(NotFound):
        engine.scope(user="bob", agent="coder").restore_block("b1")
    restored = coder.restore_block("human")
    assert (restored.value, coder.block_agents("human"), find_texts(coder, "tea")) == (
        "Alice likes tea", ["coder"], ["Alice likes tea"]
    )  # fmt: skip
    with pytest.raises(NotFound, match="block 'b1' is not deleted; there is nothing to restore"):
        coder.restore_block("b1")
    assert coder.undo_block("human").value == "Alice likes secretum"
    engine.delete_user("alice")
    with pytest.raises(NotFound, match="block 'b1' was deleted with its user; restore the user"):
        engine.scope().restore_block("b1")
    engine.restore("user", "alice")
    coder.delete_block("human")
    coder.delete_block("b1", hard=True)
    engine.flush()
    assert find_tables_with(engine, "secretum") == []
    assert coder.create_block("human", "again", id="b1").version == 1
    assert coder.block_history("b1") == []


def test_deleting_a_shared_block_leaves_it_to_other_agents(engine: Everhold, coder: View) -> None:
    everybody = engine.scope()
    everybody.create_block("rules", "Be brief", id="rules")
    for agent in ("coder", "tester"):
        everybody.attach_block("rules", agent=agent)
    with pytest.raises(Conflict, match="block 'rules' belongs to no user, and others may need it"):
        coder.delete_block("rules")
    with pytest.raises(Conflict, match="block 'rules' belongs to no user"):
        coder.detach_block("rules")
    with pytest.raises(Conflict, match=r"block 'rules' is also attached to another agent; detach it with detach_block"):
        engine.scope(agent="coder").delete_block("rules")
    engine.scope(agent="coder").detach_block("rules")
    assert list_labels(engine.scope(agent="tester")) == ["rules"]
    assert engine.scope(agent="tester").delete_block("rules").rows["blocks"] == 1


def test_a_repeated_call_adds_nothing(engine: Everhold, coder: View) -> None:
    block = coder.create_block("human", "Likes tea", id="b1", metadata={"n": 1})
    assert coder.create_block("human", "Likes tea", id="b1", metadata={"n": 1}) == block
    for scope, value in ((coder, "Likes coffee"), (engine.scope(user="bob"), "Likes tea")):
        with pytest.raises(AlreadyExists, match="block id 'b1' is taken by another block; choose another"):
            scope.create_block("human", value, id="b1", metadata={"n": 1})
    assert coder.blocks() == [block]
    with pytest.raises(AlreadyExists, match="agent 'coder' has a block with the label 'human'; change that one"):
        coder.create_block("human", "Likes tea")
    engine.scope(user="alice", agent="tester").create_block("human", "For the tester", id="b2")
    with pytest.raises(AlreadyExists, match="agent 'coder' has a block with the label 'human'"):
        engine.scope(user="alice").attach_block("b2", agent="coder")
    assert engine.scope(user="bob", agent="coder").create_block("human", "Bob").user_id == "bob"


def test_changes_are_logged_and_announced(engine: Everhold, coder: View) -> None:
    block = coder.create_block("human", "Secretum")
    coder.append_block("human", "Secretum")
    with pytest.raises(EverholdError):
        coder.block("nothing")
    coder.delete_block("human")
    engine.flush()
    logged = sorted((line.operation, line.success) for line in coder.log())
    assert logged == [("create", True), ("delete", True), ("read", False), ("update", True)]
    assert all("Secretum" not in repr(line.request) for line in coder.log())
    changes = [(event.entity, event.operation) for event in engine.scope(user="alice").events() if event.id == block.id]
    assert changes == [("block", "put"), ("block", "put"), ("block", "delete")]
