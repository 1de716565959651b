"""The writer process of `benchmarks.crash`, which is killed: it reports each memory after `remember` has returned.

A fork server imports everything once and forks a writer for each job, so that hundreds can be killed in minutes.
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

from benchmarks.engines import build_settings, open_engine
from everhold import Everhold
from everhold.errors import AlreadyExists, EverholdError
from everhold.model import Chunk
from everhold.model.base import Row
from everhold.schema.catalog import get_table
from everhold.schema.operations import Delete, Operation, Put
from everhold.settings import Settings
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views.view import View

USER: Final = "writer"
SESSION: Final = "talk"
MODEL: Final = FakeEmbedder(dimensions=32)
# The words that begin the lines of a writer's report.
ACKNOWLEDGED, FAILED, FATAL = "acknowledged", "failed", "fatal"
VECTOR_FIRST: Final = "vector-first"
MAX_MEMORIES_PER_THREAD: Final = 5000
PATIENCE_SECONDS: Final = 60
PAUSE_SECONDS: Final = 0.05
PLANTED_SECONDS: Final = 0.3  # far longer than all other steps of a writer, so that most kills hit the planted bug
LONG_EVERY, TAGGED_EVERY = 5, 3  # every fifth memory has a long text, and every third has tags


@dataclass(frozen=True)
class WriterJob:
    """The work of a writer. A `patient` writer retries failed writes; `settings` are added to the defaults."""

    storage: str
    run: int
    threads: int
    fifo: str
    plant: str | None = None
    patient: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    def make_key(self, thread: int, number: int) -> str:
        return f"r{self.run}t{thread}n{number}"


def make_crash_settings(storage: str, settings: Mapping[str, Any]) -> Settings:
    """Return settings with small chunks, so that some memories have several."""
    return build_settings(
        storage,
        **settings,
        embedding={"chunk_tokens": 32, "chunk_overlap": 5},
        postgres={"pool_size": 4},
        dynamodb={"seconds": 60},
    )


def make_item(key: str) -> dict[str, Any]:
    """Return the fields of the memory for a key.

    Memories of its kind are never duplicates by their text, so only the idempotency key prevents a duplicate.
    """
    number = int(key.rpartition("n")[2])
    text = f"Note {key}: the meeting about harbour {number % 97} was moved to room {number % 13}."
    if number % LONG_EVERY == 0:
        text = " ".join(
            [text, *(f"Point {index} of it is to be settled by {number + index} people." for index in range(9))]
        )
    tags = ["harbour", f"room-{number % 13}"] if number % TAGGED_EVERY == 0 else []
    return {"text": text, "kind": "conversation", "tags": tags, "idempotency_key": key}


def run_fork_server() -> None:
    """Fork a writer for each job on standard input and print its process id."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it logs every connection that dies
    try:
        import everhold.adapters.duckdb
        import everhold.adapters.dynamodb
        import everhold.adapters.postgres  # noqa: F401 — imported once here, not by each writer
    except ImportError as error:
        print(f"a driver is not installed: {error}", file=sys.stderr)
    for line in sys.stdin:
        job = WriterJob(**json.loads(line))
        process = os.fork()
        if process == 0:
            _write_and_exit(job)
        print(process, flush=True)


def _write_and_exit(job: WriterJob) -> None:
    try:
        write(job)
    except BrokenPipeError:
        os._exit(0)  # the reader has closed the pipe
    finally:
        os._exit(1)


def write(job: WriterJob) -> None:
    """Store memories until killed. Opening the FIFO waits for its reader."""
    signal.alarm(PATIENCE_SECONDS)  # ends this process if no reader comes
    pipe = os.open(job.fifo, os.O_WRONLY)
    signal.alarm(0)

    def report(word: str, *details: str) -> None:
        os.write(pipe, (" ".join([word, *details]).replace("\n", " ")[:400] + "\n").encode())

    try:
        engine = _open(job)
    except EverholdError as error:
        return report(FATAL, "open", type(error).__name__, str(error))
    threads = [
        threading.Thread(target=_write_in_thread, args=(engine, job, number, report), daemon=True)
        for number in range(job.threads)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return None


def _open(job: WriterJob) -> Everhold:
    storage = job.storage
    if job.plant == VECTOR_FIRST and not _is_sqlite(storage):
        storage += "&options=" + quote("-c session_replication_role=replica")
    engine = open_engine(make_crash_settings(storage, job.settings), MODEL, MODEL)
    if job.plant == VECTOR_FIRST:
        plant_vector_first(engine, storage)
    return engine


def _write_in_thread(engine: Everhold, job: WriterJob, thread: int, report: Callable[..., None]) -> None:
    view, talk = engine.scope(user=USER), engine.scope(user=USER, session=SESSION)
    number = 0
    while number < MAX_MEMORIES_PER_THREAD:
        key = job.make_key(thread, number)
        try:
            memory = view.remember(**make_item(key))
            say_once(talk, key)
        except EverholdError as error:
            report(FAILED, key, type(error).__name__, str(error))
            if not job.patient:
                return
            time.sleep(PAUSE_SECONDS)
        except BaseException as error:
            report(FATAL, key, type(error).__name__, str(error))
            raise
        else:
            report(ACKNOWLEDGED, key, memory.id)
            number += 1


def say_once(talk: View, key: str) -> None:
    """Store a message that says that a memory is stored, unless an earlier attempt has stored the message."""
    with suppress(AlreadyExists):
        talk.say(f"kept {key}", id=f"msg-{key}")


# a planted bug, which the checks must find


def plant_vector_first(engine: Everhold, storage: str) -> None:
    """Commit chunks before their memory, in a separate commit; a crash in between leaves orphans."""
    records = engine._parts.records
    commit = records.commit
    if _is_sqlite(storage):
        with sqlite3.connect(find_sqlite_path(storage), timeout=30) as connection:
            connection.execute("DROP TRIGGER IF EXISTS chunks_put")

    def commit_chunks_first(operations: Sequence[Operation]) -> None:
        chunks = [put for put in operations if isinstance(put, Put) and _is_chunk_of_memory(put.row)]
        if chunks:
            commit(chunks)
            time.sleep(PLANTED_SECONDS)
        names = get_table(Chunk).key
        deletes = [Delete(Chunk, tuple(put.row.__dict__[name] for name in names)) for put in chunks]
        commit([*deletes, *operations])

    records.__dict__["commit"] = commit_chunks_first


def _is_chunk_of_memory(row: Row) -> bool:
    return isinstance(row, Chunk) and row.owner_kind == "memory"


def _is_sqlite(storage: str) -> bool:
    return urlsplit(storage).scheme == "sqlite"


def find_sqlite_path(storage: str) -> Path:
    return Path(urlsplit(storage).path[1:])


def encode_job(job: WriterJob) -> str:
    return json.dumps(asdict(job))
