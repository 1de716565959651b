"""Does an import that is killed and then repeated end with the same rows as an undisturbed import?

    python -m benchmarks.import_crash                # 30 kills on SQLite
    python -m benchmarks.import_crash --kills 5

Each kill uses a new store. A process imports two files of other systems: one with sessions and messages, and one with
memories, tags, relationships, users and states. It is killed by SIGKILL at a random moment. Then the import is
repeated, and every row must equal that of an undisturbed import, except for values that are generated at each write.
"""

import argparse
import json
import random
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.engines import build_settings, open_engine
from benchmarks.report import Report
from benchmarks.store_copies import kill_worker, make_template
from everhold import Everhold
from everhold.model import AgentState, Chunk, Memory, Message, Relationship, Session, Tag, User
from everhold.model.base import Row
from everhold.testing.fake_embedder import FakeEmbedder

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

KILLS: Final = 30
MODEL: Final = FakeEmbedder(dimensions=32)
SESSIONS, MESSAGES, MEMORIES = 8, 40, 600
FIRST_SECOND: Final = 1_709_280_000
_ENTITIES: Final[Sequence[type[Row]]] = (User, Session, Message, Memory, Tag, Relationship, Chunk, AgentState)
# Columns that differ between two writes of the same row: times of writing, and counts of writes.
_GENERATED: Final = frozenset(("updated_at", "version", "superseded_at", "known_to"))
_GENERATED_BY_ENTITY: Final[dict[type[Row], frozenset[str]]] = {
    Relationship: frozenset(("id", "created_at")),
    Tag: frozenset(("created_at",)),
    AgentState: frozenset(("created_at",)),
    User: frozenset(("created_at",)),
}


def make_inputs(folder: Path) -> None:
    """Write the two files that are imported."""
    folder.mkdir()
    with sqlite3.connect(folder / "session_memory.db") as connection:
        connection.execute("CREATE TABLE sessions (session_id, user_id, created_at, last_active, metadata)")
        connection.execute("CREATE TABLE interactions (id, session_id, timestamp, role, content, metadata)")
        for number in range(SESSIONS):
            values = (f"s{number}", f"user{number % 3}", FIRST_SECOND, FIRST_SECOND + MESSAGES, "{}")
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", values)
            for turn in range(MESSAGES):
                row = (number * MESSAGES + turn, f"s{number}", FIRST_SECOND + turn, "user", f"turn {turn} of {number}")
                connection.execute("INSERT INTO interactions VALUES (?, ?, ?, ?, ?, NULL)", row)
    connection.close()
    entries = [
        {"memory_id": f"m{number}", "user_id": f"user{number % 3}", "memory_type": "fact",
         "content": {"text": f"Parcel {number % 560} is in shed {number % 7}"}, "created_at": FIRST_SECOND + number}
        for number in range(MEMORIES)
    ]  # fmt: skip
    tables = {
        "user_profiles": [{"user_id": f"user{number}", "preferences": {"n": number}} for number in range(3)],
        "agent_states": [{"agent_id": f"agent{number}", "state_data": {"n": number}} for number in range(5)],
        "memory_entries": entries,
        "memory_tags": [{"memory_id": f"m{number}", "tag": f"t{number % 5}"} for number in range(MEMORIES)],
        "memory_relationships": [
            {"source_memory_id": f"m{number}", "target_memory_id": f"m{number + 3}"} for number in range(0, 60, 2)
        ],
    }
    (folder / "orchestrator.json").write_text(json.dumps(tables))


def open_store(storage: str) -> Everhold:
    return open_engine(build_settings(storage, sqlite={"synchronous": "NORMAL"}), MODEL, MODEL)


def import_all(engine: Everhold, storage: str) -> int:
    """Import both files, which are beside the store; return how many rows were added."""
    folder = Path(storage.removeprefix("sqlite:///")).parent / "input"
    return sum(engine.load(folder / name).added for name in ("session_memory.db", "orchestrator.json"))


def work(storage: str, is_open: "Event") -> None:
    """Import both files, in the process that is killed."""
    with open_store(storage) as engine:
        is_open.set()
        import_all(engine, storage)


def list_rows(engine: Everhold) -> dict[str, list[str]]:
    """Return every row that an import writes, by entity, without values that are generated at each write."""
    rows = {}
    for entity in _ENTITIES:
        excluded = _GENERATED | _GENERATED_BY_ENTITY.get(entity, frozenset())
        scanned = engine._parts.records.scan(entity, None, deleted=True)
        rows[entity.__name__] = sorted(repr(sorted(_describe(row, excluded).items())) for row in scanned)
    return rows


def _describe(row: Row, excluded: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in row.__dict__.items() if name not in excluded}


def run(kills: int, seed: int = 1) -> dict[str, Any]:
    """Kill `kills` imports, repeat each of them, and return the differences from an undisturbed import."""
    rng, differences = random.Random(seed), []
    interrupted = 0
    with make_template("sqlite") as template:
        make_inputs(Path(template.storage.removeprefix("sqlite:///")).parent / "input")
        open_store(template.storage).close()
        with open_store(template.copy(0)) as engine:
            started = time.perf_counter()
            total = import_all(engine, template.storage)
            seconds = time.perf_counter() - started
            expected = list_rows(engine)
        for number in range(1, kills + 1):
            storage = template.copy(number)
            kill_worker(work, storage, rng.uniform(0, 1.1 * seconds))
            with open_store(storage) as engine:
                added = import_all(engine, storage)
                interrupted += 0 < added < total
                rows = list_rows(engine)
            differences += [f"kill {number}: {name}" for name in expected if rows[name] != expected[name]]
    return {"kills": kills, "interrupted_midway": interrupted, "rows": total, "different": differences}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    outcome, report = run(options.kills, options.seed), Report("import_crash")
    for name in ("kills", "interrupted_midway", "rows"):
        report.add(name, outcome[name])
    report.add("different", len(outcome["different"]), "==", 0)
    report.add("wrong", outcome["different"][:10])
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
