"""The floor for one cycle of an agent: hand-written transactions that do the same work as a run.

They use one SQLite file with the engine's pragmas. The first transaction adds a cycle and a proposal, updates the run,
and adds a line to a log and a line to a change feed. The second transaction adds a result, updates the cycle and adds
the same two lines. For each memory it adds a row, a vector, words and another two lines.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.floors import connect
from everhold import clock
from everhold.ports.embedder import Vector

_TABLES = """
CREATE TABLE runs (
  id TEXT PRIMARY KEY, organization TEXT NOT NULL, agent TEXT NOT NULL, task TEXT NOT NULL, status TEXT NOT NULL,
  started_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, version INTEGER NOT NULL
);
CREATE TABLE cycles (
  id TEXT PRIMARY KEY, organization TEXT NOT NULL, agent TEXT NOT NULL, run TEXT NOT NULL REFERENCES runs,
  cycle_index INTEGER NOT NULL, status TEXT NOT NULL, snapshot TEXT NOT NULL, created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL, version INTEGER NOT NULL, UNIQUE (agent, cycle_index)
);
CREATE INDEX cycles_of_run ON cycles (run, cycle_index);
CREATE TABLE proposals (
  id TEXT PRIMARY KEY, organization TEXT NOT NULL, cycle TEXT NOT NULL UNIQUE REFERENCES cycles, tool TEXT NOT NULL,
  arguments TEXT NOT NULL, thoughts TEXT, plan TEXT NOT NULL, key TEXT NOT NULL, created_at INTEGER NOT NULL
);
CREATE TABLE results (
  id TEXT PRIMARY KEY, organization TEXT NOT NULL, cycle TEXT NOT NULL UNIQUE REFERENCES cycles, status TEXT NOT NULL,
  summary TEXT, output TEXT NOT NULL, created_at INTEGER NOT NULL
);
CREATE TABLE memories (
  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, organization TEXT NOT NULL, agent TEXT NOT NULL,
  cycle TEXT NOT NULL REFERENCES cycles, kind TEXT NOT NULL, text TEXT NOT NULL, importance REAL NOT NULL,
  created_at INTEGER NOT NULL, metadata TEXT NOT NULL
);
CREATE INDEX memories_by_time ON memories (organization, agent, created_at);
CREATE INDEX memories_of_cycle ON memories (cycle);
CREATE TABLE vectors (row INTEGER PRIMARY KEY REFERENCES memories, vector BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(scope, text, content='');
CREATE TABLE log (
  row INTEGER PRIMARY KEY, organization TEXT NOT NULL, agent TEXT NOT NULL, operation TEXT NOT NULL,
  at INTEGER NOT NULL, request TEXT NOT NULL
);
CREATE TABLE feed (row INTEGER PRIMARY KEY, organization TEXT NOT NULL, entity TEXT NOT NULL, id TEXT NOT NULL);
"""


class CycleFloor:
    """A hand-written store of one agent's run in one file."""

    def __init__(self, path: Path, agent: str) -> None:
        self._connection = connect(path, "FULL", _TABLES)
        self._agent, self._run = agent, clock.make_id("run")
        now = clock.micros(clock.now())
        self._connection.execute(
            "INSERT INTO runs VALUES (?, 'default', ?, 'task', 'running', ?, ?, 1)", (self._run, agent, now, now)
        )

    def propose(self, tool: str, arguments: Mapping[str, Any], thoughts: str, plan: Sequence[str]) -> str:
        """Store a proposal with its cycle and return the cycle's id."""
        execute = self._connection.execute
        cycle, now = clock.make_id("cyc"), clock.micros(clock.now())
        execute("BEGIN IMMEDIATE")
        last = execute("SELECT max(cycle_index) FROM cycles WHERE agent = ?", (self._agent,)).fetchone()[0]
        index = 0 if last is None else last + 1
        execute("UPDATE runs SET updated_at = ?, version = version + 1 WHERE id = ?", (now, self._run))
        execute(
            "INSERT INTO cycles VALUES (?, 'default', ?, ?, ?, 'running', '{}', ?, ?, 1)",
            (cycle, self._agent, self._run, index, now, now),
        )
        proposal = (clock.make_id("act"), cycle, tool, json.dumps(arguments), thoughts, json.dumps(plan), cycle, now)
        execute("INSERT INTO proposals VALUES (?, 'default', ?, ?, ?, ?, ?, ?, ?)", proposal)
        self._add_lines("create", now, {"run": self._run, "cycle": index}, "runs", self._run)
        execute("COMMIT")
        return cycle

    def complete(self, cycle: str, output: Any, summary: str, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        """Store the result of a cycle, and memories."""
        execute = self._connection.execute
        now = clock.micros(clock.now())
        execute("BEGIN IMMEDIATE")
        result = (clock.make_id("res"), cycle, summary, json.dumps(output), now)
        execute("INSERT INTO results VALUES (?, 'default', ?, 'succeeded', ?, ?, ?)", result)
        update = "UPDATE cycles SET status = 'succeeded', updated_at = ?, version = version + 1 WHERE id = ?"
        execute(update, (now, cycle))
        self._add_lines("update", now, {"run": self._run, "cycle": cycle}, "runs", self._run)
        for text, vector in zip(texts, vectors, strict=True):
            self._remember(cycle, text, vector, now)
        execute("COMMIT")

    def _remember(self, cycle: str, text: str, vector: Vector, now: int) -> None:
        execute = self._connection.execute
        memory_id = clock.make_id("mem")
        memory = (memory_id, self._agent, cycle, "observation", text, 0.5, now, json.dumps({}))
        row = execute("INSERT INTO memories VALUES (NULL, ?, 'default', ?, ?, ?, ?, ?, ?, ?)", memory).lastrowid
        execute("INSERT INTO vectors VALUES (?, ?)", (row, vector.tobytes()))
        execute("INSERT INTO words (rowid, scope, text) VALUES (?, ?, ?)", (row, self._agent, text))
        self._add_lines("create", now, {"memory": memory_id}, "memories", memory_id)

    def _add_lines(self, operation: str, now: int, request: Mapping[str, Any], entity: str, row_id: str) -> None:
        execute = self._connection.execute
        line = (self._agent, operation, now, json.dumps(request))
        execute("INSERT INTO log VALUES (NULL, 'default', ?, ?, ?, ?)", line)
        execute("INSERT INTO feed VALUES (NULL, 'default', ?, ?)", (entity, row_id))

    def close(self) -> None:
        self._connection.close()
