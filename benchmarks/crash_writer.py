"""The process that is killed: it keeps memories and says of each that it was kept, after `remember` returned.

A nursery imports everything once and forks a writer for each job, so that hundreds can be killed in minutes.
"""

import json
import logging
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from benchmarks.engines import chosen, open_engine
from everhold import Everhold
from everhold.errors import AlreadyExists, EverholdError
from everhold.model import Chunk
from everhold.model.base import Row
from everhold.schema.catalog import get_table
from everhold.schema.operations import Delete, Operation, Put
from everhold.settings import Settings
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views import View

USER: Final = "writer"
SESSION: Final = "talk"
MODEL: Final = FakeEmbedder(dimensions=32)
KEPT, FAILED, BROKE = "kept", "failed", "broke"
VECTOR_FIRST: Final = "vector-first"
MOST_EACH: Final = 5000
PATIENCE_SECONDS: Final = 60
PAUSE_SECONDS: Final = 0.05
PLANTED_SECONDS: Final = 0.3  # far longer than all else that a writer does, so that kills land in it
LONG_EVERY, TAGGED_EVERY = 5, 3


@dataclass(frozen=True)
class Job:
    """What a writer is to do. `patient` writers try again what a store in trouble refused; `given` are settings."""

    storage: str
    run: int
    threads: int
    fifo: str
    plant: str | None = None
    patient: bool = False
    given: dict[str, Any] = field(default_factory=dict)

    def key(self, thread: int, number: int) -> str:
        return f"r{self.run}t{thread}n{number}"


def crash_settings(storage: str, given: Mapping[str, Any]) -> Settings:
    """Small chunks, so that some memories have several."""
    return chosen(
        storage,
        **given,
        embedding={"chunk_tokens": 32, "chunk_overlap": 5},
        postgres={"pool_size": 4},
        dynamodb={"seconds": 60},
    )


def item(key: str) -> dict[str, Any]:
    """What is remembered under a key. Of a kind that may be said twice: nothing but the key prevents a duplicate."""
    number = int(key.rpartition("n")[2])
    text = f"Note {key}: the meeting about harbour {number % 97} was moved to room {number % 13}."
    if number % LONG_EVERY == 0:
        text = " ".join([text, *(f"Point {at} of it is to be settled by {number + at} people." for at in range(9))])
    tags = ["harbour", f"room-{number % 13}"] if number % TAGGED_EVERY == 0 else []
    return {"text": text, "kind": "conversation", "tags": tags, "idempotency_key": key}


def nursery() -> None:
    """Forks a writer for each job on standard input and answers with its process id."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it tells of every connection that dies
    try:
        import everhold.adapters.duckdb
        import everhold.adapters.dynamodb
        import everhold.adapters.postgres  # noqa: F401 — imported once here, not by each writer
    except ImportError as error:
        print(f"a driver is not installed: {error}", file=sys.stderr)
    for line in sys.stdin:
        job = Job(**json.loads(line))
        process = os.fork()
        if process == 0:
            _write_and_exit(job)
        print(process, flush=True)


def _write_and_exit(job: Job) -> None:
    try:
        write(job)
    except BrokenPipeError:
        os._exit(0)  # nobody listens any more
    finally:
        os._exit(1)


def write(job: Job) -> None:
    """Keeps memories until killed. Opening the FIFO waits for whoever is to read it."""
    signal.alarm(PATIENCE_SECONDS)  # which ends this process if nobody comes
    pipe = os.open(job.fifo, os.O_WRONLY)
    signal.alarm(0)

    def say(word: str, *details: str) -> None:
        os.write(pipe, (" ".join([word, *details]).replace("\n", " ")[:400] + "\n").encode())

    try:
        engine = _open(job)
    except EverholdError as error:
        return say(BROKE, "open", type(error).__name__, str(error))
    threads = [
        threading.Thread(target=_keep_on, args=(engine, job, number, say), daemon=True) for number in range(job.threads)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return None


def _open(job: Job) -> Everhold:
    storage = job.storage
    if job.plant == VECTOR_FIRST and not _is_sqlite(storage):
        storage += "&options=" + quote("-c session_replication_role=replica")
    engine = open_engine(crash_settings(storage, job.given), MODEL, MODEL)
    if job.plant == VECTOR_FIRST:
        plant_vector_first(engine, storage)
    return engine


def _keep_on(engine: Everhold, job: Job, thread: int, say: Callable[..., None]) -> None:
    view, talk = engine.scope(user=USER), engine.scope(user=USER, session=SESSION)
    number = 0
    while number < MOST_EACH:
        key = job.key(thread, number)
        try:
            memory = view.remember(**item(key))
            say_once(talk, key)
        except EverholdError as error:
            say(FAILED, key, type(error).__name__, str(error))
            if not job.patient:
                return
            time.sleep(PAUSE_SECONDS)
        except BaseException as error:
            say(BROKE, key, type(error).__name__, str(error))
            raise
        else:
            say(KEPT, key, memory.id)
            number += 1


def say_once(talk: View, key: str) -> None:
    """Says what has been remembered, unless an earlier try has."""
    with suppress(AlreadyExists):
        talk.say(f"kept {key}", id=f"msg-{key}")


# a bug to be caught


def plant_vector_first(engine: Everhold, storage: str) -> None:
    """Chunks are committed before their memory, in a commit of their own; a crash in between leaves them orphans."""
    records = engine._parts.records
    commit = records.commit
    if _is_sqlite(storage):
        with sqlite3.connect(sqlite_path(storage), timeout=30) as connection:
            connection.execute("DROP TRIGGER IF EXISTS chunks_put")

    def planted(operations: Sequence[Operation]) -> None:
        chunks = [one for one in operations if isinstance(one, Put) and _is_chunk_of_memory(one.row)]
        if chunks:
            commit(chunks)
            time.sleep(PLANTED_SECONDS)
        names = get_table(Chunk).key
        again = [Delete(Chunk, tuple(one.row.__dict__[name] for name in names)) for one in chunks]
        commit([*again, *operations])

    records.__dict__["commit"] = planted


def _is_chunk_of_memory(row: Row) -> bool:
    return isinstance(row, Chunk) and row.owner_kind == "memory"


def _is_sqlite(storage: str) -> bool:
    return urlsplit(storage).scheme == "sqlite"


def sqlite_path(storage: str) -> Path:
    return Path(urlsplit(storage).path[1:])


def described(job: Job) -> str:
    return json.dumps(asdict(job))
