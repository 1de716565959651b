"""Are all texts of a user gone from all files after the user is erased?

    python -m benchmarks.erasure                                # 1,000 canaries on SQLite, DuckDB and PostgreSQL
    python -m benchmarks.erasure --canaries 60 --store sqlite

A user's memories, revisions, messages, facts, runs, files and archives contain random words, the canaries. After the
erasure, every file of the store, its log, its indexes, Chroma, Redis, the blobs and two backups is searched for them,
compressed content too. On PostgreSQL, VACUUM FULL and checkpoints run first, as an operator would run them. The
canaries of another user must still be found.
"""

import argparse
import logging
import os
import random
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psycopg
import zstandard

from benchmarks.engines import build_settings, open_engine
from benchmarks.report import Report
from everhold import Everhold
from everhold.testing.fake_embedder import FakeEmbedder
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

STORES: Final = ("sqlite", "duckdb", "postgres")
KINDS: Final = ("plain", "vault", "revised", "forgotten", "message", "archived", "run", "file", "block", "tagged")
_ZSTD_FRAME: Final = b"\x28\xb5\x2f\xfd"  # the bytes with which compressed rows in a backup begin
# Without these, the server keeps old segments of its log and fills them only slowly with new records.
_SHORT_LOG: Final = {"wal_recycle": "off", "min_wal_size": "32MB", "wal_keep_size": "0"}


@dataclass
class ErasureSetup:
    """One store: its settings, the folders that are searched, and its servers."""

    settings: dict[str, Any]
    folders: list[Path]
    backups: Path
    database: str | None = None
    cache: ValkeyServer | None = None
    log: Path | None = None


def make_canaries(count: int, seed: str) -> list[str]:
    """Return random words that occur nowhere else; they are the same in every run."""
    rng = random.Random(seed)
    return [f"canary{rng.getrandbits(80):020x}" for _ in range(count)]


def write_user(engine: Everhold, user: str, canaries: Sequence[str]) -> None:
    """Store every canary for the user, in each way in which a text can get into a store."""
    by_kind = {kind: canaries[index :: len(KINDS)] for index, kind in enumerate(KINDS)}
    scope = engine.scope(user=user)
    scope.remember_many([f"Note {word} about tea" for word in by_kind["plain"]])
    scope.remember_many([{"text": f"The PIN is {word}", "kind": "vault"} for word in by_kind["vault"]])
    scope.remember_many([{"text": f"Tagged {word}", "tags": [word], "aliases": [word]} for word in by_kind["tagged"]])
    for word in by_kind["revised"]:
        memory = scope.remember(f"I live in {word}")
        scope.revise(memory.id, text=f"I live near {word}")
    for word in by_kind["forgotten"]:
        scope.forget(scope.remember(f"Forget {word}").id)
    chat, old = engine.scope(user=user, session=f"{user}-chat"), engine.scope(user=user, session=f"{user}-old")
    for word in by_kind["message"]:
        chat.say(f"I work at {word}")
    chat.session()
    for word in by_kind["archived"]:
        old.say(f"Long ago {word}")
    old.archive_session()
    for word in by_kind["run"]:
        run = scope.run(f"Task {word}")
        run.propose("build", {"target": word})
        run.complete({"made": word})
    folder = scope.workspace(f"{user}-files")
    for number, word in enumerate(by_kind["file"]):
        folder.write(f"{number}.txt", f"File {word}".encode())
    folder.snapshot()
    for word in by_kind["block"]:
        engine.scope(user=user, agent="bot").create_block(f"b{word[-12:]}", f"Block {word}")


def search(setup: ErasureSetup, canaries: Sequence[str]) -> dict[str, int]:
    """Return how often canaries occur in each file, compressed files included."""
    words = [word.encode() for word in canaries]
    hits: dict[str, int] = {}
    files = [path for folder in setup.folders for path in folder.rglob("*") if path.is_file()]
    for path in files:
        try:
            content = path.read_bytes()
        except OSError:
            continue  # a server has removed the file meanwhile
        count = sum(content.count(word) for word in words) if b"canary" in content else 0
        count += _search_compressed(content, words)
        if count:
            hits[str(path)] = count
    return hits


def _search_compressed(content: bytes, words: Sequence[bytes]) -> int:
    return sum(plain.count(word) for plain in _decompress(content) for word in words)


def _decompress(content: bytes) -> Iterator[bytes]:
    """Yield the decompressed content of a compressed file, and of each compressed frame in a file of a backup."""
    with suppress(zlib.error):
        yield zlib.decompress(content)
    offset = content.find(_ZSTD_FRAME)
    while offset >= 0:
        with suppress(zstandard.ZstdError):  # these bytes can also be a part of something else
            yield zstandard.ZstdDecompressor().decompressobj().decompress(content[offset:])
        offset = content.find(_ZSTD_FRAME, offset + 1)


def settle(setup: ErasureSetup) -> None:
    """Do what an operator does after an erasure: rewrite PostgreSQL's files and its log, and save the cache."""
    if setup.database is not None:
        with psycopg.connect(setup.database, autocommit=True) as connection:
            connection.execute("VACUUM FULL")
            for _ in range(3):
                connection.execute("SELECT pg_switch_wal()")
                connection.execute("CHECKPOINT")
    if setup.cache is not None:
        setup.cache.save()


@contextmanager
def make_setup(store: str, encrypted: bool, with_chroma: bool) -> Iterator[ErasureSetup]:
    """Yield an empty store with its cache, its blobs and its log file."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(prefix="everhold-erasure-")))
        cache = stack.enter_context(ValkeyServer())
        folders, database = [home, cache.folder], None
        storage = f"{store}:///{home}/memory.{store}"
        if store == "postgres":
            server = stack.enter_context(PostgresServer(settings=_SHORT_LOG))
            storage = database = server.create_database()
            folders.append(server.folder)
        options: dict[str, Any] = {
            "storage": storage,
            "blobs": str(home / "blobs"),
            "sessions": cache.url,
            "workspaces": {"folder": str(home / "workspaces")},
            "data": str(home / "data"),
        }
        if with_chroma:
            options["vectors"] = f"chroma:///{home}/chroma"
        if encrypted:
            Everhold.create_master_key(home / "master.key")
            options["encryption"] = {"master_key": f"file:{home / 'master.key'}"}
        yield ErasureSetup(options, folders, home / "backups", database, cache, home / "everhold.log")


def run(store: str, canaries: int, *, encrypted: bool, with_chroma: bool) -> dict[str, int]:
    """Erase a user of one store and return the figures."""
    erased_words, remaining_words = make_canaries(canaries, "alice"), make_canaries(canaries // 5, "bob")
    with make_setup(store, encrypted, with_chroma) as setup, _write_log(setup.log):
        embedder = FakeEmbedder()
        values = dict(setup.settings)
        with open_engine(build_settings(values.pop("storage"), **values), embedder, embedder) as engine:
            write_user(engine, "alice", erased_words)
            write_user(engine, "bob", remaining_words)
            engine.backup(setup.backups)
            engine.maintain()
            engine.backup(setup.backups)  # stores only what changed
            engine.scope(user="alice").recall("tea")
            if with_chroma:
                engine._parts.recall_deps.candidates.rebuild()  # otherwise Chroma follows in the background
            hits_before = search(setup, erased_words)
            proof = engine.erase("alice")
            settle(setup)
            hits_while_open = search(setup, erased_words)
        hits_after_close = search(setup, erased_words)
        for path, count in {**hits_while_open, **hits_after_close}.items():
            print(f"{store}: {count} hits in {path}", file=sys.stderr)
        neighbour_hits = search(setup, remaining_words)
    return {
        "before": sum(hits_before.values()),
        "chroma": sum(count for path, count in hits_before.items() if "/chroma/" in path),
        "backups": sum(count for path, count in hits_before.items() if path.startswith(str(setup.backups))),
        "after": sum(hits_while_open.values()) + sum(hits_after_close.values()),
        "rows": sum(proof.rows.values()),
        "unproven": int(not proof.is_complete),
        "neighbour": sum(neighbour_hits.values()),
    }


@contextmanager
def _write_log(path: Path | None) -> Iterator[None]:
    """Write the whole log of the library to a file, which is searched too."""
    logger = logging.getLogger("everhold")
    handler = logging.FileHandler(path or os.devnull)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canaries", type=int, default=1000)
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--quick", action="store_true", help="60 canaries")
    options = parser.parse_args(arguments)
    canaries = 60 if options.quick else options.canaries
    report = Report("erasure")
    report.add("canaries", canaries)
    for store in options.store or STORES:
        for encrypted in (False, True):
            name = f"{store}_{'encrypted' if encrypted else 'plain'}"
            figures = run(store, canaries, encrypted=encrypted, with_chroma=True)
            report.add(f"{name}_hits_before", figures["before"], ">=", 1)
            report.add(f"{name}_chroma_hits_before", figures["chroma"], ">=", 1)
            if not encrypted:
                report.add(f"{name}_backup_hits_before", figures["backups"], ">=", 1)
            report.add(f"{name}_hits_after", figures["after"], "==", 0)
            report.add(f"{name}_unproven", figures["unproven"], "==", 0)
            report.add(f"{name}_neighbour_hits", figures["neighbour"], ">=", 1)
            report.add(f"{name}_rows", figures["rows"])
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
