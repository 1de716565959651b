"""The floor for storing and finding memories: a minimal hand-written store with which the engine is compared.

It is one SQLite file with the engine's pragmas. Storing a memory adds a row, an entry in an FTS5 index with its words
and a word for its scope, and a float32 vector, in one transaction. A search compares all vectors of the scope, finds
the ten best memories by BM25, and reads the ten rows that come first when both rankings are combined. Storing a message
adds a row, its vector, its words, a line to a log and a line to a change feed, and updates the row of its session.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from everhold import clock
from everhold.ports.embedder import Vector
from everhold.settings_sections import Sqlite
from everhold.text.terms import STOP_WORDS

_TABLES = """
CREATE TABLE memories (
  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, organization TEXT NOT NULL, user TEXT NOT NULL, kind TEXT NOT NULL,
  text TEXT NOT NULL, importance REAL NOT NULL, created_at INTEGER NOT NULL, metadata TEXT NOT NULL
);
CREATE INDEX memories_by_time ON memories (organization, user, created_at);
CREATE TABLE vectors (row INTEGER PRIMARY KEY REFERENCES memories, vector BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(scope, text, content='');
"""
_SESSION_TABLES = """
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, organization TEXT NOT NULL, user TEXT NOT NULL, last_active INTEGER NOT NULL,
  version INTEGER NOT NULL
);
CREATE TABLE messages (
  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, organization TEXT NOT NULL, user TEXT NOT NULL,
  session TEXT NOT NULL REFERENCES sessions, position INTEGER NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL,
  content TEXT NOT NULL, created_at INTEGER NOT NULL, metadata TEXT NOT NULL, UNIQUE (session, position)
);
CREATE INDEX messages_by_time ON messages (organization, user, created_at);
CREATE TABLE vectors (row INTEGER PRIMARY KEY REFERENCES messages, vector BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(scope, text, content='');
CREATE TABLE log (
  row INTEGER PRIMARY KEY, organization TEXT NOT NULL, user TEXT NOT NULL, session TEXT NOT NULL,
  operation TEXT NOT NULL, at INTEGER NOT NULL, request TEXT NOT NULL
);
CREATE TABLE feed (row INTEGER PRIMARY KEY, organization TEXT NOT NULL, entity TEXT NOT NULL, id TEXT NOT NULL);
"""
_ADD = "INSERT INTO memories VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_VECTOR = "INSERT INTO vectors VALUES (?, ?)"
_ADD_WORDS = "INSERT INTO words (rowid, scope, text) VALUES (?, ?, ?)"
_BEGIN_SESSION = "INSERT OR IGNORE INTO sessions VALUES (?, ?, ?, ?, 0)"
_LAST_POSITION = "SELECT max(position) FROM messages WHERE session = ?"
_ADD_MESSAGE = "INSERT INTO messages VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_TOUCH_SESSION = "UPDATE sessions SET last_active = ?, version = version + 1 WHERE id = ?"
_ADD_LINE = "INSERT INTO log VALUES (NULL, ?, ?, ?, ?, ?, ?)"
_ADD_EVENT = "INSERT INTO feed VALUES (NULL, ?, ?, ?)"
_FIND_BY_WORDS = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT 10"
_FETCH = f"SELECT * FROM memories WHERE row IN ({', '.join('?' * 10)})"
_WORD = re.compile(r"\w+")
_K = 10
_RANK_OFFSET = 60  # the usual constant of reciprocal rank fusion


def connect(path: Path, synchronous: Literal["FULL", "NORMAL"], tables: str) -> sqlite3.Connection:
    """Create a file with these tables and the engine's pragmas."""
    settings = Sqlite()
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=512)
    for pragma in (
        "auto_vacuum = INCREMENTAL",
        "journal_mode = WAL",
        f"synchronous = {synchronous}",
        "foreign_keys = ON",
        f"cache_size = {-1000 * settings.cache_megabytes}",
        f"mmap_size = {settings.mmap_megabytes * 1024 * 1024}",
        "temp_store = MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}")
    connection.executescript(tables)
    return connection


class Floor:
    """A hand-written store of memories in one file."""

    def __init__(self, path: Path, synchronous: Literal["FULL", "NORMAL"] = "FULL") -> None:
        self._connection = connect(path, synchronous, _TABLES)

    def remember(self, user: str, text: str, vector: Vector) -> None:
        """Store one memory in one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._add(user, text, vector)
        self._connection.execute("COMMIT")

    def remember_many(self, user: str, texts: Iterable[str], vectors: Iterable[Vector]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for text, vector in zip(texts, vectors, strict=True):
            self._add(user, text, vector)
        self._connection.execute("COMMIT")

    def _add(self, user: str, text: str, vector: Vector) -> None:
        execute = self._connection.execute
        now = clock.micros(clock.now())
        memory = (clock.make_id("mem"), "default", user, "observation", text, 0.5, now, json.dumps({}))
        row = execute(_ADD, memory).lastrowid
        execute(_ADD_VECTOR, (row, vector.tobytes()))
        execute(_ADD_WORDS, (row, user, text))

    def scope(self, user: str) -> "FloorScope":
        """Return one user's memories with their vectors in memory, ready to be searched."""
        rows: list[int] = []
        vectors: list[bytes] = []
        select = "SELECT row, vector FROM vectors JOIN memories USING (row) WHERE organization = 'default' AND user = ?"
        for row, vector in self._connection.execute(select, (user,)):
            rows.append(row)
            vectors.append(vector)
        matrix = np.frombuffer(b"".join(vectors), np.float32).reshape(len(rows), -1)
        return FloorScope(self._connection, user, np.array(rows), matrix)

    def close(self) -> None:
        self._connection.close()


class MessageFloor:
    """A hand-written store of messages in one file, with one user's sessions."""

    def __init__(self, path: Path, synchronous: Literal["FULL", "NORMAL"] = "FULL") -> None:
        self._connection = connect(path, synchronous, _SESSION_TABLES)

    def say(self, user: str, session: str, text: str, vector: Vector) -> None:
        """Store one message as the last of its session, in one transaction."""
        execute = self._connection.execute
        message_id, now = clock.make_id("msg"), clock.micros(clock.now())
        execute("BEGIN IMMEDIATE")
        execute(_BEGIN_SESSION, (session, "default", user, now))
        last = execute(_LAST_POSITION, (session,)).fetchone()[0]
        position = 0 if last is None else last + 1
        message = (message_id, "default", user, session, position, "user", text, json.dumps([]), now, json.dumps({}))
        row = execute(_ADD_MESSAGE, message).lastrowid
        execute(_ADD_VECTOR, (row, vector.tobytes()))
        execute(_ADD_WORDS, (row, user, text))
        execute(_TOUCH_SESSION, (now, session))
        execute(_ADD_LINE, ("default", user, session, "create", now, json.dumps({"message": message_id})))
        execute(_ADD_EVENT, ("default", "messages", message_id))
        execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class FloorScope:
    """Searches one user's memories."""

    def __init__(
        self, connection: sqlite3.Connection, user: str, rows: NDArray[np.int64], matrix: NDArray[np.float32]
    ) -> None:
        self._connection = connection
        self._user = user
        self._rows = rows
        self._matrix = matrix

    def recall(self, question: str, vector: Vector) -> list[tuple[Any, ...]]:
        """Return the ten best rows by the combined rankings of words and of meaning."""
        by_meaning = self._rows[self.find_nearest(vector)].tolist()
        by_words = [row for (row,) in self._connection.execute(_FIND_BY_WORDS, (self._make_match(question),))]
        ranks: dict[int, float] = {}
        for ranking in (by_meaning, by_words):
            for rank, row in enumerate(ranking):
                ranks[row] = ranks.get(row, 0.0) + 1 / (_RANK_OFFSET + rank)
        best = sorted(ranks, key=lambda row: -ranks[row])[:_K]
        return self._connection.execute(_FETCH, best).fetchall()

    def find_nearest(self, vector: Vector) -> NDArray[np.int64]:
        """Return the positions of the ten vectors nearest to a vector, best first."""
        scores = self._matrix @ vector
        best = np.argpartition(scores, len(scores) - _K)[-_K:]
        return best[np.argsort(-scores[best])]

    def _make_match(self, question: str) -> str:
        words = [word for word in _WORD.findall(question.lower()) if word not in STOP_WORDS]
        return f'scope:"{self._user}" AND text:({" OR ".join(_quote(words))})'


def _quote(words: Sequence[str]) -> list[str]:
    return [f'"{word}"' for word in words]
