"""Check a store of any kind after a crash.

No acknowledged write is lost, no write is partial, and repeating the writes that were in flight adds no duplicate.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.crash_writer import MODEL, SESSION, USER, WriterJob, make_crash_settings, make_item, say_once
from benchmarks.engines import open_engine
from everhold import Everhold
from everhold.adapters.chroma import ChromaVectors
from everhold.adapters.sqlite.dialect import list_space_words
from everhold.adapters.sqlite.words import UNINDEXED
from everhold.errors import EverholdError
from everhold.model import AccessLog, Chunk, Memory, Tag
from everhold.model.change_feed import Outbox
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.ports.search_space import SearchSpace
from everhold.schema.operations import Op, Where
from everhold.text.terms import extract_terms

CHROMA_SECONDS: Final = 300.0


@dataclass
class CrashLedger:
    """The writes that a store has acknowledged so far, and the problems that were found."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    """The memory id for each idempotency key."""
    lost: set[str] = field(default_factory=set)
    orphans: set[str] = field(default_factory=set)
    duplicates: set[str] = field(default_factory=set)
    damage: list[str] = field(default_factory=list)
    in_flight: int = 0
    committed_in_flight: int = 0

    @property
    def is_sound(self) -> bool:
        return not (self.lost or self.orphans or self.duplicates or self.damage)


@dataclass(frozen=True)
class StoreContents:
    """Everything that is stored, read without an image. Dictionaries are by memory id, except `keys`."""

    texts: dict[str, str]
    spans: dict[str, list[tuple[int, int, int]]]
    """The number, the start and the end of each chunk."""
    tags: dict[str, set[str]]
    logged: set[str | None]
    """The memories whose creation is in the access log."""
    keys: dict[str, str]
    """The memory id for each idempotency key."""

    def is_whole(self, memory_id: str) -> bool:
        """Return whether the chunks of a memory are numbered without a gap and cover its whole text."""
        text, spans = self.texts[memory_id], sorted(self.spans.get(memory_id, []))
        return (
            [number for number, _, _ in spans] == list(range(len(spans)))
            and bool(spans)
            and spans[0][1] == 0
            and spans[-1][2] == len(text)
        )


def read_contents(engine: Everhold) -> StoreContents:
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
    created_lines = [Where("operation", Op.EQ, "create")]
    keyed_lines = [Where("idempotency_key", Op.NE, None)]
    return StoreContents(
        texts=dict(records.columns(Memory, DEFAULT_ORGANIZATION, ("id", "text"), deleted=True)),
        spans=dict(spans),
        tags=dict(tags),
        logged={name for (name,) in records.columns(AccessLog, DEFAULT_ORGANIZATION, ("memory_id",), created_lines)},
        keys=dict(records.columns(Outbox, DEFAULT_ORGANIZATION, ("idempotency_key", "entity_id"), keyed_lines)),
    )


def check(
    job: WriterJob, path: Path | None, ledger: CrashLedger, acknowledged_now: dict[str, str], in_flight: Iterable[str]
) -> None:
    """Open the store as after a crash and add its problems to the ledger."""
    ledger.acknowledged |= acknowledged_now
    try:
        with open_engine(make_crash_settings(job.storage, job.settings), MODEL, MODEL) as engine:
            if not wait_until_serving(engine):
                ledger.damage.append(f"Chroma does not serve: {engine.doctor().problems}")
            contents = read_contents(engine)
            if any(find_partial_writes(contents)):
                # PostgreSQL may finish a commit of the killed writer between two of these reads. A real partial
                # write is still partial when everything is read again.
                contents = read_contents(engine)
            ledger.orphans.update(find_partial_writes(contents))
            ledger.lost.update(find_missing(contents, ledger.acknowledged))
            ledger.lost.update(find_unrecallable(engine, contents, acknowledged_now))
            ledger.lost.update(find_lost_messages(engine, ledger.acknowledged))
            repeat_writes(engine, contents, ledger, in_flight)
            ledger.duplicates.update(find_duplicates(read_contents(engine)))
    except EverholdError as error:
        ledger.damage.append(f"{type(error).__name__}: {error}")
    if path is not None:
        ledger.damage += find_file_damage(path)


def wait_until_serving(engine: Everhold) -> bool:
    """Wait for Chroma, if it is used; False if it does not serve in time."""
    vectors = engine._parts.recall_deps.candidates.vectors
    return not isinstance(vectors, ChromaVectors) or vectors.wait(CHROMA_SECONDS)


def find_partial_writes(contents: StoreContents) -> Iterator[str]:
    """Yield chunks and tags without their memory, and memories without all their chunks or their log line."""
    for owner in contents.spans.keys() | contents.tags.keys() | set(contents.keys.values()):
        if owner not in contents.texts:
            yield f"rows of {owner} without the memory"
    for memory_id in contents.texts:
        if not contents.is_whole(memory_id):
            yield f"{memory_id} without all its chunks"
        if memory_id not in contents.logged:
            yield f"{memory_id} without its line in the access log"


def find_missing(contents: StoreContents, acknowledged: dict[str, str]) -> Iterator[str]:
    for key, memory_id in acknowledged.items():
        expected = make_item(key)
        if (
            contents.texts.get(memory_id) != expected["text"]
            or not contents.is_whole(memory_id)
            or contents.tags.get(memory_id, set()) != set(expected["tags"])
            or contents.keys.get(key) != memory_id
        ):
            yield key


def find_unrecallable(engine: Everhold, contents: StoreContents, acknowledged_now: dict[str, str]) -> Iterator[str]:
    """Yield each key whose memory is missing in a recall of its first chunk or in a search for the key as a word."""
    view = engine.scope(user=USER)
    words = engine._parts.recall_deps.candidates.words
    for key, memory_id in acknowledged_now.items():
        _, start, end = min(contents.spans.get(memory_id, [(0, 0, 1)]))
        hits = view.recall(make_item(key)["text"][start:end], k=3, minimum=0)
        space = SearchSpace(DEFAULT_ORGANIZATION, (USER,), MODEL.model)
        proposed = words.find_by_words(space, words.count_terms(space, extract_terms(key)), 3)
        if memory_id not in [hit.memory.id for hit in hits] or memory_id not in proposed:
            yield key


def find_lost_messages(engine: Everhold, acknowledged: dict[str, str]) -> Iterator[str]:
    """Yield a problem for each missing message, and one if the cache and the records differ in the latest messages."""
    if not acknowledged:
        return
    talk = engine.scope(user=USER, session=SESSION)
    texts, newest = set(), talk.session().history
    cursor = None
    while True:
        page = talk.messages(limit=1000, cursor=cursor)
        texts |= {message.text for message in page.messages}
        if (cursor := page.cursor) is None:
            break
    if [message.id for message in newest] != [
        message.id for message in talk.messages(limit=max(1, len(newest))).messages
    ]:
        yield "the cache and the records differ about the latest messages"
    yield from (f"the message about {key}" for key in acknowledged if f"kept {key}" not in texts)


def repeat_writes(engine: Everhold, contents: StoreContents, ledger: CrashLedger, in_flight: Iterable[str]) -> None:
    """Repeat twice each write that was in flight, and once the acknowledged write before it."""
    view = engine.scope(user=USER)
    for key in in_flight:
        ledger.in_flight += 1
        ledger.committed_in_flight += key in contents.keys
        first, second = view.remember(**make_item(key)), view.remember(**make_item(key))
        if first.id != second.id or contents.keys.get(key, first.id) != first.id:
            ledger.duplicates.add(key)
        say_once(engine.scope(user=USER, session=SESSION), key)
        ledger.acknowledged[key] = first.id
        prefix, _, number = key.rpartition("n")
        previous_key = f"{prefix}n{int(number) - 1}"
        if (
            previous_key in ledger.acknowledged
            and view.remember(**make_item(previous_key)).id != ledger.acknowledged[previous_key]
        ):
            ledger.duplicates.add(previous_key)


def find_duplicates(contents: StoreContents) -> Iterator[str]:
    for text, count in Counter(contents.texts.values()).items():
        if count > 1:
            yield text


def find_file_damage(path: Path) -> Iterator[str]:
    """Yield problems that SQLite's own checks find in the file and its full-text index."""
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
            yield f"of {len(chunks)} chunks, {len(indexed)} are in the full-text index and {len(waiting)} wait for it"
