"""Blocks beyond one store: bundles, moves, erasure, other models, and scopes too large for memory."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bundles import Rows, tamper
from everhold import Block, Everhold, View
from everhold.blocks.pipeline import BlockEdit, change_block
from everhold.errors import EverholdError, InvalidInput, NotFound, StaleVersion
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import Store, find_tables_with, get_records, make_store

CODER = {"user": "alice", "agent": "coder"}


def fill(engine: Everhold) -> View:
    coder = engine.scope(**CODER)
    coder.create_block("human", "Alice grows roses", id="b1", metadata={"n": [1]})
    coder.write_block("human", "Alice grows tulips", reason="said so")
    coder.undo_block("human")
    engine.scope(user="alice").attach_block("human", agent="tester")
    engine.scope().create_block("persona", "A kind gardener", is_template=True, template_name="kind", id="t1")
    coder.create_block("plan", "Buy a spade")
    coder.delete_block("plan")
    return coder


def describe_blocks(view: View) -> list[Any]:
    history = view.block_history("b1")
    return [
        view.blocks(),
        view.blocks(templates=True),
        view.block_agents("b1"),
        [(revision.revision, revision.value, revision.metadata, revision.known_to) for revision in history],
        view.block("b1", as_of=history[0].known_to + timedelta(microseconds=1)).value,
        view.diff_block("b1"),
        [hit.id for hit in view.recall("roses", among="block", minimum=0)],
        view.render_blocks(),
    ]


def test_a_bundle_keeps_every_detail_of_blocks(
    request: pytest.FixtureRequest, engine: Everhold, store: Store, tmp_path: Path
) -> None:
    coder = fill(engine)
    engine.export(tmp_path / "out.jsonl")
    folder = tmp_path / "target"
    folder.mkdir()
    target = make_store("in_memory" if store.name == "sqlite" else "sqlite", request, folder)
    target_engine = target.open()
    target_engine.load(tmp_path / "out.jsonl")
    assert describe_blocks(target_engine.scope(**CODER)) == describe_blocks(coder)
    assert target_engine.scope(**CODER).restore_block("plan").value == "Buy a spade"
    with pytest.raises(NotFound, match="no change to undo"):
        target_engine.scope(**CODER).undo_block("b1")
    assert target_engine.doctor().problems == []
    target.close()


def test_a_move_keeps_every_detail_of_blocks(tmp_path: Path) -> None:
    with Everhold.open(tmp_path / "a.db", embedder=FakeEmbedder()) as engine:
        expected = describe_blocks(fill(engine))
    Everhold.move(tmp_path / "a.db", f"duckdb:///{tmp_path / 'b.duckdb'}")
    with Everhold.open(f"duckdb:///{tmp_path / 'b.duckdb'}", embedder=FakeEmbedder()) as engine:
        assert describe_blocks(engine.scope(**CODER)) == expected


@pytest.mark.parametrize("store", ["in_memory"], indirect=True)
def test_hostile_rows_of_a_bundle_are_refused(engine: Everhold, tmp_path: Path) -> None:
    coder = fill(engine)
    coder.write_block("b1", "Alice grows beans")
    engine.export(tmp_path / "out.jsonl")

    def load(table: str, change: dict[str, Any], name: str) -> View:
        def change_last(rows: Rows) -> Rows:
            last = [row for row in rows if row["table"] == table][-1]["row"]
            last.update(change)
            return rows

        bundle = tamper(tmp_path / "out.jsonl", tmp_path / f"{name}.jsonl", "default", change_last)
        engine.load(bundle, organization=name)
        return engine.scope(organization=name, **CODER)

    for number, restores in enumerate((2, 3, 4, 99, -1, "1", [1], {"a": 1}, True, 1.0)):
        view = load("revisions", {"metadata": {"restores": restores}}, f"org{number}")
        undone = 0
        while undone < 9:
            try:
                view.undo_block("b1")
            except NotFound:
                break
            undone += 1
        assert undone < 9
    value = {"value": "x", "limit": 5, "description": None, "template_name": None, "metadata": {}}
    for number, revision_value in enumerate(
        ({}, {**value, "value": 5}, {**value, "label": "y"}, {**value, "limit": -1})
    ):
        with pytest.raises(EverholdError, match="line"):
            load("revisions", {"value": revision_value}, f"revision{number}")
    view = load("revisions", {"value": {**value, "value": "longer than five"}}, "over")
    with pytest.raises(InvalidInput, match="would hold 16 characters, 11 over its limit of 5"):
        view.undo_block("b1")
    for number, change in enumerate(({"value": "x" * 2001}, {"limit": 3}, {"label": ""}, {"user_id": "nobody"})):
        with pytest.raises(EverholdError, match="line"):
            load("blocks", change, f"block{number}")
    with pytest.raises(EverholdError):
        load("blocks_agents", {"block_label": "other"}, "link")
    with pytest.raises(EverholdError):
        load("chunks", {"user_id": "bob"}, "chunk")


def test_blocks_of_a_scope_too_large_for_memory_are_found(store: Store) -> None:
    engine = store.open(images={"max_memories": 0})
    coder = fill(engine)
    for user in ("alice", "bob"):
        for number in range(20):
            engine.scope(user=user, agent="coder").create_block(f"n{number}", f"{user} has {number} roses")
    engine.scope(agent="coder").create_block("shared", "Everybody has roses")
    expected = {
        "alice": {"alice has 3 roses", "Everybody has roses", "Alice grows roses"},
        "bob": {"bob has 3 roses", "Everybody has roses"},
    }
    for user, texts in expected.items():
        hits = engine.scope(user=user, agent="coder").recall("3 roses", among="block", minimum=0, k=100)
        hit_texts = {hit.text for hit in hits}
        assert texts <= hit_texts
        other_user = "bob" if user == "alice" else "alice"
        assert not [text for text in hit_texts if text.lower().startswith(other_user)]
    assert {hit.text for hit in engine.scope(agent="tester").recall("roses", among="block", minimum=0)} == {
        "Alice grows roses"
    }
    assert not engine.scope(agent="nobody").recall("roses", among="block", minimum=0)
    assert not engine.scope(project="p").recall("roses", among="block", minimum=0)
    assert coder.recall("spade", among="block", recipe="words", minimum=1e-6).hits == ()
    assert len(engine.scope().recall("roses", among="block", minimum=0, k=100)) == 42


def test_a_purged_user_leaves_no_block(store: Store) -> None:
    engine = store.open()
    coder = fill(engine)
    engine.scope(user="bob", agent="coder").create_block("human", "Bob sails")
    engine.delete_user("alice", hard=True)
    assert [block.value for block in engine.scope(agent="coder").blocks()] == ["Bob sails"]
    assert find_tables_with(engine, "tulips") == find_tables_with(engine, "grows roses") == []
    assert not coder.recall("roses", among="block", minimum=0)


def test_a_purged_text_leaves_the_chunks(store: Store) -> None:
    engine = store.open()
    coder = engine.scope(**CODER)
    coder.create_block("human", "Xylophone " * 30)
    coder.write_block("human", "Marimba")
    assert find_tables_with(engine, "xylophone") == ["revisions"]
    coder.delete_block("human", hard=True)
    assert find_tables_with(engine, "xylophone") == find_tables_with(engine, "marimba") == []


def test_blocks_are_embedded_again_by_another_model(store: Store) -> None:
    first = store.open()
    coder = fill(first)
    changed = coder.write_block("human", "Alice grows roses and peas " * 20)
    first.close()
    second = store.open(embedder=FakeEmbedder("other"))
    reembedding = second._parts.reembedding
    assert reembedding is not None
    reembedding.wait()
    reembedded = second.scope(**CODER)
    [hit] = reembedded.recall("roses", among="block", minimum=0)
    assert (hit.record, hit.why.similarity != 0) == (changed, True)
    moment = changed.updated_at
    assert reembedded.recall("peas", among="block", minimum=0, as_of=moment)
    assert not reembedded.recall("peas", among="block", minimum=0, as_of=moment - timedelta(microseconds=1))
    reembedded.write_block("human", "Alice rests")
    assert "peas" not in repr(get_records(second).scan(type(changed), "default"))
    with pytest.raises(InvalidInput):
        reembedded.append_block("human", "x" * 3000)


def test_an_edit_is_repeated_after_a_concurrent_edit(store: Store) -> None:
    coder = store.open().scope(**CODER)
    coder.create_block("human", "a")
    values: list[str] = []

    def edit(block: Block) -> BlockEdit:
        values.append(block.value)
        if len(values) == 1:
            coder.append_block("human", "other")
        return BlockEdit({"value": f"{block.value} mine"})

    with pytest.raises(StaleVersion, match="has changed since it was read and is at version 2 now") as caught:
        change_block(coder._block_deps, coder.scope, "human", edit)
    assert (caught.value.current_version, coder.block("human").value) == (2, "a\nother")
    values.clear()
    changed = change_block(coder._block_deps, coder.scope, "human", edit, is_relative=True)
    assert values == ["a\nother", "a\nother\nother"]
    assert changed.value == coder.block("human").value == "a\nother\nother mine"
    assert [revision.revision for revision in coder.block_history("human")] == [1, 2, 3]
