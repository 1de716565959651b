"""What must hold after a crash, whatever the store: nothing acknowledged is lost, nothing is half there, and trying
again what was in flight makes no duplicate."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.crash_writer import MODEL, SESSION, USER, Job, crash_settings, item, say_once
from benchmarks.engines import open_engine
from everhold import Everhold
from everhold.adapters.chroma import ChromaVectors
from everhold.adapters.sqlite.dialect import list_space_words
from everhold.adapters.sqlite.words import UNINDEXED
from everhold.errors import EverholdError
from everhold.model import AccessLog, Chunk, Memory, Tag
from everhold.model.housekeeping import Outbox
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.ports.search_space import SearchSpace
from everhold.schema.operations import Op, Where
from everhold.text.terms import extract_terms

CHROMA_SECONDS: Final = 60.0


@dataclass
class Ledger:
    """What a store has acknowledged so far, by key, and all that was found wrong with it."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    orphans: set[str] = field(default_factory=set)
    duplicates: set[str] = field(default_factory=set)
    damage: list[str] = field(default_factory=list)
    in_flight: int = 0
    committed_in_flight: int = 0

    @property
    def sound(self) -> bool:
        return not (self.lost or self.orphans or self.duplicates or self.damage)


@dataclass(frozen=True)
class Contents:
    """All that is stored, read without any image."""

    texts: dict[str, str]
    spans: dict[str, list[tuple[int, int, int]]]
    tags: dict[str, set[str]]
    logged: set[str | None]
    keys: dict[str, str]

    def is_whole(self, memory_id: str) -> bool:
        """Whether the memory has all its chunks: numbered without a gap, from the text's beginning to its end."""
        text, spans = self.texts[memory_id], sorted(self.spans.get(memory_id, []))
        return (
            [number for number, _, _ in spans] == list(range(len(spans)))
            and bool(spans)
            and spans[0][1] == 0
            and spans[-1][2] == len(text)
        )


def read(engine: Everhold) -> Contents:
    records = engine._parts.records
    spans: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    tags: dict[str, set[str]] = defaultdict(set)
    for owner, *span in records.columns(
        Chunk,
        DEFAULT_ORGANIZATION,
        ("owner_id", "chunk_index", "span_start", "span_end"),
        [Where("owner_kind", Op.EQ, "memory")],
    ):
        spans[owner].append((span[0], span[1], span[2]))
    for owner, tag in records.columns(Tag, DEFAULT_ORGANIZATION, ("memory_id", "tag")):
        tags[owner].add(tag)
    created = [Where("operation", Op.EQ, "create")]
    keyed = [Where("idempotency_key", Op.NE, None)]
    return Contents(
        texts=dict(records.columns(Memory, DEFAULT_ORGANIZATION, ("id", "text"), deleted=True)),
        spans=dict(spans),
        tags=dict(tags),
        logged={name for (name,) in records.columns(AccessLog, DEFAULT_ORGANIZATION, ("memory_id",), created)},
        keys=dict(records.columns(Outbox, DEFAULT_ORGANIZATION, ("idempotency_key", "entity_id"), keyed)),
    )


def check(job: Job, path: Path | None, ledger: Ledger, kept: dict[str, str], in_flight: Iterable[str]) -> None:
    """Opens the store as anybody would after a crash and writes what is wrong into the ledger."""
    ledger.acknowledged |= kept
    try:
        with open_engine(crash_settings(job.storage, job.given), MODEL, MODEL) as engine:
            if not serves(engine):
                ledger.damage.append(f"Chroma does not serve: {engine.doctor().problems}")
            found = read(engine)
            if any(half_there(found)):
                # PostgreSQL may finish a commit of the killed writer between two of these reads. What is really half
                # there is still so when everything is read again.
                found = read(engine)
            ledger.orphans.update(half_there(found))
            ledger.lost.update(missing(found, ledger.acknowledged))
            ledger.lost.update(unfindable(engine, found, kept))
            ledger.lost.update(unsaid(engine, ledger.acknowledged))
            try_again(engine, found, ledger, in_flight)
            ledger.duplicates.update(doubled(read(engine)))
    except EverholdError as error:
        ledger.damage.append(f"{type(error).__name__}: {error}")
    if path is not None:
        ledger.damage += damaged(path)


def serves(engine: Everhold) -> bool:
    """Waits for Chroma, if there is one."""
    vectors = engine._parts.recall_deps.candidates.vectors
    return not isinstance(vectors, ChromaVectors) or vectors.wait(CHROMA_SECONDS)


def half_there(found: Contents) -> Iterator[str]:
    """Chunks and tags without their memory, memories without theirs, lines about memories that are not there."""
    for owner in found.spans.keys() | found.tags.keys() | set(found.keys.values()):
        if owner not in found.texts:
            yield f"something of {owner} but not the memory"
    for memory_id in found.texts:
        if not found.is_whole(memory_id):
            yield f"{memory_id} without all its chunks"
        if memory_id not in found.logged:
            yield f"{memory_id} without its line in the access log"


def missing(found: Contents, acknowledged: dict[str, str]) -> Iterator[str]:
    for key, memory_id in acknowledged.items():
        wanted = item(key)
        if (
            found.texts.get(memory_id) != wanted["text"]
            or not found.is_whole(memory_id)
            or found.tags.get(memory_id, set()) != set(wanted["tags"])
            or found.keys.get(key) != memory_id
        ):
            yield key


def unfindable(engine: Everhold, found: Contents, kept: dict[str, str]) -> Iterator[str]:
    """What its own first chunk does not find as a question, or the store's index of words by the key."""
    view = engine.scope(user=USER)
    words = engine._parts.recall_deps.candidates.words
    for key, memory_id in kept.items():
        _, start, end = min(found.spans.get(memory_id, [(0, 0, 1)]))
        hits = view.recall(item(key)["text"][start:end], k=3, minimum=0)
        space = SearchSpace(DEFAULT_ORGANIZATION, (USER,), MODEL.model)
        proposed = words.find_by_words(space, words.count_terms(space, extract_terms(key)), 3)
        if memory_id not in [hit.memory.id for hit in hits] or memory_id not in proposed:
            yield key


def unsaid(engine: Everhold, acknowledged: dict[str, str]) -> Iterator[str]:
    """What was said and is not told any more: by the cache, which tells the last of it, or by the records."""
    if not acknowledged:
        return
    talk = engine.scope(user=USER, session=SESSION)
    told, newest = set(), talk.session().history
    cursor = None
    while True:
        page = talk.messages(limit=1000, cursor=cursor)
        told |= {one.text for one in page.messages}
        if (cursor := page.cursor) is None:
            break
    if [one.id for one in newest] != [one.id for one in talk.messages(limit=max(1, len(newest))).messages]:
        yield "the cache tells another end of the session than the records"
    yield from (f"what was said of {key}" for key in acknowledged if f"kept {key}" not in told)


def try_again(engine: Everhold, found: Contents, ledger: Ledger, in_flight: Iterable[str]) -> None:
    """Writes again what was in flight, twice, and what was acknowledged last, once."""
    view = engine.scope(user=USER)
    for key in in_flight:
        ledger.in_flight += 1
        ledger.committed_in_flight += key in found.keys
        first, second = view.remember(**item(key)), view.remember(**item(key))
        if first.id != second.id or found.keys.get(key, first.id) != first.id:
            ledger.duplicates.add(key)
        say_once(engine.scope(user=USER, session=SESSION), key)
        ledger.acknowledged[key] = first.id
        before = f"{key.rpartition('n')[0]}n{int(key.rpartition('n')[2]) - 1}"
        if before in ledger.acknowledged and view.remember(**item(before)).id != ledger.acknowledged[before]:
            ledger.duplicates.add(before)


def doubled(found: Contents) -> Iterator[str]:
    for text, count in Counter(found.texts.values()).items():
        if count > 1:
            yield text


def damaged(path: Path) -> Iterator[str]:
    """What SQLite itself finds wrong with a file and with the full-text index in it."""
    spaces = [SearchSpace(DEFAULT_ORGANIZATION, None, MODEL.model, kind) for kind in ("memory", "message")]
    words = " OR ".join(f'"{word}"' for space in spaces for word in list_space_words(space))
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        for pragma in ("integrity_check", "foreign_key_check"):
            for row in connection.execute(f"PRAGMA {pragma}"):
                if row != ("ok",):
                    yield f"{pragma}: {row}"
        try:
            connection.execute("INSERT INTO chunk_words(chunk_words) VALUES ('integrity-check')")
        except sqlite3.DatabaseError as error:
            yield f"full-text index: {error}"
        match = "SELECT rowid FROM chunk_words WHERE chunk_words MATCH ?"
        indexed = sorted(connection.execute(match, (words,)))
        waiting = sorted(connection.execute(f'SELECT c."row" {UNINDEXED}'))
        owners = "SELECT id FROM memories UNION SELECT id FROM messages"
        chunks = sorted(connection.execute(f'SELECT "row" FROM chunks WHERE owner_id IN ({owners})'))
        if sorted(indexed + waiting) != chunks:
            yield f"{len(indexed)} chunks are in the full-text index and {len(waiting)} wait for it, of {len(chunks)}"
