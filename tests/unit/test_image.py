"""An image that was extended, changed and compacted has the same content as an image built at once."""

import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from everhold.model.searchable import OWNER_COLUMNS
from everhold.recall import image as module
from everhold.recall.image import CHUNK_COLUMNS, CODED, NEVER, Image, ImageEntry

T0 = datetime(2024, 1, 1, tzinfo=UTC)
DIMENSIONS = 8
WORDS = ["tea", "rain", "stone", "river", "bread"]
COLUMNS = ("importance", "dated", "created_at", "known_from", "known_to", "expires_at", "valid_from", "valid_to",
           "superseded_at", "occurred_at", "when", "blank", "length", "alive")  # fmt: skip


def make_entry(rng: random.Random, owner: str) -> ImageEntry:
    vector = np.asarray([rng.uniform(-1, 1) for _ in range(DIMENSIONS)], "<f2").tobytes()
    maybe: Any = lambda value: value if rng.random() < 0.3 else None  # noqa: E731
    memory = {
        "id": owner, "kind": rng.choice(["fact", "plan", "conversation"]), "reach": "user",
        "project_id": maybe("p"), "user_id": "alice", "agent_id": maybe("bot"), "session_id": maybe("s"),
        "importance": rng.random(), "strength": rng.random(), "created_at": T0,
        "expires_at": maybe(T0 + timedelta(days=1)),
        "valid_from": maybe(T0), "valid_to": maybe(T0 + timedelta(days=2)),
        "superseded_at": maybe(T0 + timedelta(hours=1)), "superseded_by": maybe(f"m{rng.randrange(25)}"),
        "occurred_at": maybe(T0 - timedelta(minutes=rng.randrange(60))), "speaker": maybe("Mia Moss"),
        "aliases": maybe([rng.choice(WORDS), "two words"]) or [],
        "provenance": maybe({"memory": f"m{rng.randrange(25)}"}) or {},
    }  # fmt: skip
    chunk = {
        "owner_id": owner, "terms": " ".join(rng.choices(WORDS, k=rng.randint(0, 6))),
        "vector": vector if rng.random() < 0.9 else None, "known_from": T0,
        "known_to": maybe(T0 + timedelta(hours=2)),
    }  # fmt: skip
    return ImageEntry(tuple(chunk[name] for name in CHUNK_COLUMNS), tuple(memory[name] for name in OWNER_COLUMNS))


def read_contents(image: Image) -> list[tuple[Any, ...]]:
    """Return the live rows as values, in an order that does not depend on the image."""
    rows = []
    postings: dict[int, list[tuple[str, int]]] = {}
    for word in WORDS:
        posting = image.postings.find(word)
        for row, count in zip(posting.rows.tolist(), posting.counts.tolist(), strict=True):
            postings.setdefault(row, []).append((word, count))
    names = {name: {code: value for value, code in image._codes[name].items()} for name in CODED}
    for row in np.flatnonzero(image.column("alive")).tolist():
        coded = tuple(str(names[name][int(image.column(name)[row])]) for name in CODED)
        plain = tuple(image.column(name)[row].item() for name in COLUMNS)
        vector = tuple(image.vectors[row].tolist())
        rows.append((image.owners[row], coded, plain, vector, tuple(sorted(postings.get(row, [])))))
    return sorted(rows)


def read_derived(image: Image) -> tuple[Any, ...]:
    """Return what is derived from all rows, by owner: aliases, successors, turns in order, speakers."""
    alive = image.column("alive")
    turns = [] if image.threads is None else image.threads.rows.tolist()
    owners = {image.owners[row] for row in np.flatnonzero(alive).tolist()}
    return (
        sorted((sorted(alias), image.owners[row]) for alias, row in image.aliases),
        {old: successor for old, successor in image.successors.items() if old in owners},
        {owner_id: source for owner_id, source in image.sources.items() if owner_id in owners},
        [image.owners[row] for row in turns],
        sorted(image.owners[row] for row in ([] if image.threads is None else image.threads.fact_rows.tolist())),
        all(alive[row] for row in turns),
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("squeeze_least", [3, 10_000])
def test_an_updated_image_equals_a_rebuilt_one(monkeypatch: pytest.MonkeyPatch, seed: int, squeeze_least: int) -> None:
    monkeypatch.setattr(module, "_SQUEEZE_LEAST", squeeze_least)
    rng = random.Random(seed)
    image, entries_by_owner = Image(DIMENSIONS), dict[str, list[ImageEntry]]()
    for step in range(60):
        owners = [f"m{rng.randrange(25)}" for _ in range(rng.randint(0, 4))]
        owners = list(dict.fromkeys(owners))
        new_entries = [
            make_entry(rng, owner) for owner in owners if rng.random() < 0.8 for _ in range(rng.randint(1, 3))
        ]
        if step % 3 == 0:
            new_entries = [new_entry for new_entry in new_entries if new_entry.owner[0] not in entries_by_owner]
            image.extend(new_entries)
        else:
            image.replace(owners, new_entries)
            for owner in owners:
                entries_by_owner.pop(owner, None)
        for new_entry in new_entries:
            entries_by_owner.setdefault(new_entry.owner[0], []).append(new_entry)
        rebuilt = Image(DIMENSIONS)
        rebuilt.extend(list(itertools.chain.from_iterable(entries_by_owner.values())))
        assert read_contents(image) == read_contents(rebuilt)
        assert read_derived(image) == read_derived(rebuilt)
        assert image.alive_rows == rebuilt.size == sum(len(entries) for entries in entries_by_owner.values())
        assert image.size == len(image.owners)
    dead = image.size - image.alive_rows
    assert dead <= max(3, 0.25 * image.size) or squeeze_least > 100


def test_loading_in_blocks_equals_extending() -> None:
    rng = random.Random(9)
    entries = [make_entry(rng, f"m{n}") for n in range(300)]
    extended, loaded = Image(DIMENSIONS), Image(DIMENSIONS)
    extended.extend(entries)
    loaded.load((entries[n : n + 70] for n in range(0, 300, 70)), 10)
    assert read_contents(extended) == read_contents(loaded)
    assert read_derived(extended) == read_derived(loaded)
    assert extended.speakers == loaded.speakers == {"mia": "Mia Moss", "mia moss": "Mia Moss"}
    assert loaded.owners == extended.owners


def test_absent_values_have_the_code_minus_1() -> None:
    image = Image(DIMENSIONS)
    assert (image.size, image.plain, image.code("kind", "fact")) == (0, True, -1)
    memory = dict.fromkeys(OWNER_COLUMNS) | {
        "id": "m",
        "kind": "fact",
        "importance": 0.5,
        "strength": 1.0,
        "created_at": T0,
    }
    chunk = dict.fromkeys(CHUNK_COLUMNS) | {"owner_id": "m", "terms": "", "known_from": T0}
    entry = ImageEntry(tuple(chunk.values()), tuple(memory.values()))
    image.extend([entry])
    assert image.plain
    assert image.code("kind", "fact") == image.column("kind")[0]
    assert image.code("kind", "plan") == -1
    assert image.code("user_id", None) == 0 == image.column("user_id")[0]
    assert image.column("known_to")[0] == image.column("expires_at")[0] == NEVER
    assert not image.vectors.any()
    image.kill(["m", "nobody"])
    assert (image.alive_rows, image.plain) == (0, False)
    image.kill(["m"])
    assert image.alive_rows == 0
    assert image.size_in_bytes > 0


def test_rare_fields_are_removed_with_their_memories() -> None:
    """An alias, a successor and a place in a conversation are removed with the memory, and change with it."""
    image = Image(DIMENSIONS)

    def replace_memory(owner: str, **fields: Any) -> None:
        memory = dict.fromkeys(OWNER_COLUMNS) | {
            "id": owner,
            "importance": 0.5,
            "strength": 1.0,
            "created_at": T0,
            **fields,
        }
        chunk = dict.fromkeys(CHUNK_COLUMNS) | {"owner_id": owner, "terms": "tea", "known_from": T0}
        image.replace([owner], [ImageEntry(tuple(chunk.values()), tuple(memory.values()))])

    def read_parts() -> tuple[object, ...]:
        return [sorted(alias) for alias, _ in image.aliases], image.successors, image.sources, image.threads is not None

    assert read_parts() == ([], {}, {}, False)
    assert image.speakers == {}
    turn = {"kind": "conversation", "session_id": "s", "speaker": "Mia"}
    replace_memory("a", aliases=["Big Tom"], superseded_by="b", provenance={"memory": "c", "file": 1}, **turn)
    assert read_parts() == ([["big", "tom"]], {"a": "b"}, {"a": "c"}, True)
    assert image.speakers == {"mia": "Mia"}
    replace_memory("a", aliases=[], provenance={"memory": 7}, kind="conversation", session_id=None)
    assert read_parts() == ([], {}, {}, False)
    replace_memory("a", kind="fact", session_id="s")
    assert read_parts() == ([], {}, {}, False), "a fact is not a turn"
    replace_memory("a", kind="interaction", session_id="s", aliases=["Tom"])
    assert read_parts() == ([["tom"]], {}, {}, True)
    image.kill(["a"])
    assert read_parts() == ([], {}, {}, False)


def test_a_fact_has_the_place_of_its_message_in_the_conversation() -> None:
    image = Image(DIMENSIONS)
    turn = {"kind": "conversation", "session_id": "s"}
    memories: list[dict[str, Any]] = [
        {"id": "turn", **turn}, {"id": "fact", "kind": "fact", "provenance": {"memory": "turn"}},
        {"id": "stray", "kind": "fact", "provenance": {"memory": "gone"}}, {"id": "other", **turn},
    ]  # fmt: skip
    for fields in memories:
        memory = dict.fromkeys(OWNER_COLUMNS) | {"importance": 0.5, "strength": 1.0, "created_at": T0, **fields}
        chunk = dict.fromkeys(CHUNK_COLUMNS) | {"owner_id": fields["id"], "terms": "", "known_from": T0}
        image.extend([ImageEntry(tuple(chunk.values()), tuple(memory.values()))])
    assert image.threads is not None
    assert [image.owners[row] for row in image.threads.fact_rows] == ["fact"]
    turns = np.array([{"turn": 5.0, "other": 7.0}[image.owners[row]] for row in image.threads.rows])
    assert image.threads.place_values(np.zeros(4), turns).tolist() == [5.0, 5.0, 0.0, 7.0]


def test_turns_are_ordered_by_when_they_happened() -> None:
    image = Image(DIMENSIONS)
    minutes = {"late": 9, "early": 1, "middle": 5, "same": 5}
    for owner, minute in minutes.items():
        memory = dict.fromkeys(OWNER_COLUMNS) | {
            "id": owner, "importance": 0.5, "strength": 1.0, "created_at": T0,
            "kind": "conversation", "session_id": "s",
            "occurred_at": T0 + timedelta(minutes=minute),
        }  # fmt: skip
        chunk = dict.fromkeys(CHUNK_COLUMNS) | {"owner_id": owner, "terms": "", "known_from": T0}
        image.extend([ImageEntry(tuple(chunk.values()), tuple(memory.values()))])
    assert image.threads is not None
    assert [image.owners[row] for row in image.threads.rows] == ["early", "middle", "same", "late"]
