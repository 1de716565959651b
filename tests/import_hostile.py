"""Fifty hostile files, and a program that imports all of them.

    python -m tests.import_hostile FOLDER

For each file, the program prints the outcome, whether the store is unchanged, and the peak of its memory so far, above
that of an idle engine.
"""

import json
import os
import resource
import sqlite3
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from everhold import Everhold
from everhold.errors import EverholdError
from everhold.model import AccessLog, LogHead, Outbox
from everhold.testing.fake_embedder import FakeEmbedder
from tests import import_samples as samples
from tests.engines import CALM, copy_empty_file, read_all_rows

# Writes a file into a folder and returns its path.
Make = Callable[[Path], Path]
TIME = 1709316060.5
LONG_BYTES = 200_000_000


def make_file(name: str, content: bytes | str) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        return path

    return make


def make_json(name: str, value: Any) -> Make:
    return make_file(name, json.dumps(value))


def make_cut(make_whole: Make, share: float = 0.5) -> Make:
    def make(folder: Path) -> Path:
        path = make_whole(folder)
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])
        return path

    return make


def make_encoded(make: Make, encoding: str) -> Make:
    def make_reencoded(folder: Path) -> Path:
        path = make(folder)
        path.write_bytes(path.read_text("utf-8").replace("e", "é").encode(encoding))
        return path

    return make_reencoded


def make_long(name: str, begin: bytes, repeated: bytes, end: bytes = b"") -> Make:
    def make(folder: Path) -> Path:
        with (folder / name).open("wb") as file:
            file.write(begin)
            block = repeated * (1_000_000 // len(repeated))
            for _ in range(LONG_BYTES // len(block)):
                file.write(block)
            file.write(end)
        return folder / name

    return make


def make_sparse(folder: Path) -> Path:
    """Write a file with a gigabyte in one line."""
    with (folder / "sparse.json").open("wb") as file:
        file.write(b'{"alice": [{"timestamp": 1, "memory": "')
        file.truncate(1 << 30)
    return folder / "sparse.json"


def make_damaged_database(make: Make) -> Make:
    def make_damaged(folder: Path) -> Path:
        path = make(folder)
        content = bytearray(path.read_bytes())
        content[4096:] = b"\xff" * (len(content) - 4096)
        path.write_bytes(bytes(content))
        return path

    return make_damaged


def make_session_rows(*rows: tuple[Any, ...], name: str = "bad.db") -> Make:
    interactions = [(number, *row) for number, row in enumerate(rows, 1)]
    return lambda folder: samples.make_database(folder / name, samples.SESSION_TABLES, {"interactions": interactions})


def make_views(folder: Path) -> Path:
    """Write a database with endless views that have the names of the expected tables."""
    path = folder / "views.db"
    with sqlite3.connect(path) as connection:
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"
        connection.execute(f"CREATE VIEW sessions AS {endless} x AS session_id FROM n")
        columns = "x AS id, x AS session_id, 'user' AS role, 'x' AS content"
        connection.execute(f"CREATE VIEW interactions AS {endless} {columns} FROM n")
    connection.close()
    return path


def make_zip(members: dict[str, bytes], name: str = "export.zip") -> Make:
    def make(folder: Path) -> Path:
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members.items():
                archive.writestr(member, content)
        return folder / name

    return make


def make_zip_bomb(folder: Path) -> Path:
    path = folder / "bomb.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("conversations.json", "w", force_zip64=True) as member,
    ):
        for _ in range(LONG_BYTES // 1_000_000):
            member.write(b" " * 1_000_000)
    return path


def make_links(folder: Path) -> Path:
    """Write a Slack export whose only day is a link to a file outside; its folder also has a link to itself."""
    root = folder / "slack"
    (root / "garden").mkdir(parents=True)
    (folder / "secret.json").write_text('[{"type": "message", "text": "secret", "ts": "1709316060.1"}]')
    (root / "users.json").write_text("[]")
    (root / "garden" / "2024-03-01.json").symlink_to(folder / "secret.json")
    (root / "loop").symlink_to(root)
    return root


def make_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.json")
    return folder / "pipe.json"


def make_chat(**fields: Any) -> Any:
    message = {"id": "n1", "author": {"role": "user"}, "create_time": TIME, "content": {"parts": ["hello"]}}
    node = {"id": "n1", "parent": None, "children": [], "message": {**message, **fields}}
    return [{"conversation_id": "", "current_node": "n1", "mapping": {"n1": node}}]


def make_jarvis(memory: Any, at: Any = TIME, user: str = "eve") -> Any:
    return {user: [{"timestamp": at, "memory": memory}]}


_PICKLE = b"\x80\x04cos\nsystem\n(S'touch /tmp/everhold-was-here'\ntR."
_DEEP = "[" * 100_000
_CYCLE = {
    "a": {"id": "a", "parent": "b", "children": ["b"], "message": None},
    "b": {"id": "b", "parent": "a", "children": ["a"], "message": None},
}

HOSTILE: dict[str, Make] = {
    **{f"truncated {make.__name__}": make_cut(make) for make in (
        samples.contextual, samples.contextual_users, samples.user_profile, samples.jarvis, samples.error_patterns,
        samples.digital_twins, samples.unified_memories, samples.openai_messages, samples.chatgpt, samples.mem0_export,
        samples.letta, samples.claude,
    )},
    "truncated session database": make_cut(samples.session_memory, 0.3),
    "truncated history database": make_cut(samples.mem0_history, 0.6),
    "damaged episodic database": make_damaged_database(samples.episodic),
    "damaged orchestrator database": make_damaged_database(samples.orchestrator),
    "jarvis in latin-1": make_encoded(samples.jarvis, "latin-1"),
    "chatgpt in latin-1": make_encoded(samples.chatgpt, "latin-1"),
    "contextual in utf-16": make_encoded(samples.contextual, "utf-16"),
    "csv in latin-1": make_encoded(samples.csv_messages, "latin-1"),
    "a gigabyte in one line": make_sparse,
    "one long text": make_long("long.json", b'{"eve": [{"timestamp": 1, "memory": "', b"a", b'"}]}'),
    "one long line": make_long("long.jsonl", b'{"role": "user", "content": "', b"a", b'"}\n'),
    "one long cell": make_long("long.csv", b'role,content\nuser,"', b"a"),
    "one long list": make_long("list.json", b'{"eve": [{"timestamp": 1, "memory": [', b"[],", b"[]]}]}"),
    "one long whatsapp line": make_long("chat.txt", b"31/12/2023, 21:15 - Kim: ", b"a"),
    "deep json": make_file("deep.json", '{"eve": [{"timestamp": 1, "memory": ' + _DEEP),
    "deep lines": make_file("deep.jsonl", '{"type": "entity", "name": ' + _DEEP + "\n"),
    "deep metadata": make_json("d.json", make_jarvis(json.loads("[" * 200 + "]" * 200))),
    "a cycle of messages": make_json("conversations.json", [{"id": "", "current_node": "a", "mapping": _CYCLE}]),
    "a message without end": make_json("conversations.json", make_chat(create_time=float("inf"))),
    "a message whose time is not a time": make_json("conversations.json", make_chat(create_time={"at": 1})),
    "a message of the future": make_json("jarvis.json", make_jarvis("x", 4_000_000_000)),
    "a memory at nan": make_file("nan.json", '{"eve": [{"timestamp": NaN, "memory": "x"}]}'),
    "a huge number": make_file("huge.json", '{"eve": [{"timestamp": 1, "memory": {"n": 1' + "0" * 5000 + "}}]}"),
    "a nul character": make_json("nul.json", make_jarvis("a\x00b")),
    "a lone surrogate": make_file("surrogate.json", '{"eve": [{"timestamp": 1, "memory": "\\ud800"}]}'),
    "nothing said": make_json("empty.json", make_jarvis("   ")),
    "an empty object": make_file("jarvis_memory_store.json", "{}"),
    "rows that are not objects": make_json("rows.json", {"eve": [{"timestamp": 1, "memory": ""}, 1, None, [], "x"]}),
    "a session without an id": make_json("conversations.json", [{"mapping": {}, "current_node": None}]),
    "bytes instead of text": make_session_rows(("s", "2024-03-01T08:00:00", "user", b"\xff\xfe", None)),
    "messages without a session": make_session_rows((None, "2024-03-01T08:00:00", "user", "x", None)),
    "a wrong time in a database": make_session_rows(("s", "yesterday", "user", "x", None)),
    "a role that is too long": make_session_rows(("s", "2024-03-01T08:00:00", "r" * 300, "x", None)),
    "views instead of tables": make_views,
    "a pickle": make_file("index.pickle", _PICKLE),
    "a pickle in a text column": make_session_rows(("s", "now", "user", _PICKLE, None), name="pickle.db"),
    "a zip bomb": make_zip_bomb,
    "a zip that leaves its folder": make_zip({"../../conversations.json": b'[{"mapping": 1}]'}),
    "a zip that is cut off": make_cut(samples.slack_zip),
    "links instead of files": make_links,
    "a pipe": make_pipe,
    "an unclosed quotation mark": make_file("open.csv", 'role,content\nuser,"never closed\nand more,\n'),
    "a row with too many cells": make_file("cells.csv", "role,content\nuser,a,b,c\n"),
}  # fmt: skip


def try_import(engine: Everhold, path: Path) -> str:
    """Import a file. Return why the file or all its rows were refused, or how many rows were imported."""
    try:
        loaded = engine.load(path)
    except EverholdError as error:
        return f"{type(error).__name__}: {error}"
    if loaded.added == 0 and loaded.quarantined:
        return f"quarantined: {loaded.faults[0].reason}"
    return "left out" if loaded.added == 0 and loaded.left_out else f"imported {loaded.added}"


def main(folder: Path) -> None:
    """Import every hostile file into one store, and print the outcomes."""
    engine = Everhold.open(copy_empty_file(folder / "memories.db"), embedder=FakeEmbedder(), **CALM)
    engine.scope(user="alice").remember("Alice has a cat")
    before = read_all_rows(engine, without=(AccessLog, LogHead, Outbox))
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = {}
    for number, (name, make) in enumerate(HOSTILE.items()):
        file_folder = folder / str(number)
        file_folder.mkdir()
        path = make(file_folder)
        reason = try_import(engine, path)
        is_unchanged = read_all_rows(engine, without=(AccessLog, LogHead, Outbox)) == before
        peak_megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle) // 1024
        outcomes[name] = {"reason": reason, "is_unchanged": is_unchanged, "megabytes": peak_megabytes}
        if path.is_file():
            path.unlink()
    engine.close()
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
