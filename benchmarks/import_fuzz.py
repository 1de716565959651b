"""Can a bundle that was tampered with reach another organization or another user?

    python -m benchmarks.import_fuzz --bundles 2000 --store sqlite

A store holds several organizations. Real bundles are changed at random (`bundle_mutations.py`), get the right checksum,
and are imported into an organization that has memories with the same ids. After each import, maintenance runs and every
user recalls. Then all of this must be true:

- no value of another organization has changed
- no existing memory of the importing organization has changed, or is recalled by another user
- no exception but EverholdError was raised
- `doctor` finds no problem
"""

import argparse
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.api_fuzz import make_settings
from benchmarks.bundle_mutations import MUTATIONS, Surroundings, encode_rows
from benchmarks.bundles import Rows, read_rows, write_lines
from benchmarks.engines import build_settings, open_engine
from benchmarks.report import Report
from everhold import Everhold
from everhold.errors import EverholdError
from everhold.exchange.moving import hash_row
from everhold.model import Memory, Scope
from everhold.recall.pipeline import recall
from everhold.recall.request import Request
from everhold.schema.catalog import CATALOG
from everhold.schema.table import TENANT
from everhold.testing.fake_embedder import FakeEmbedder

STORES = ("sqlite", "postgres", "duckdb", "dynamodb", "memory")
OTHERS = ("bolt", "core")
USERS = ("alice", "bob")
SOURCE, TARGET = "source", "target"
# Ids of bob's memories in every organization.
SHARED_IDS = ("note-1", "note-2", "note-3")
# Ids of memories that only the importing organization has.
TARGET_IDS = ("held-1", "held-2", "held-3")
_MAX_PRINTED = 5
_BUNDLES_PER_STORE = 200
# `doctor` reports this problem for a memory whose chunk is missing in the bundle. That is harmless.
_INCOMPLETE = "have a text and no chunk"


@dataclass
class Findings:
    """The findings, and how often each outcome occurred."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, finding: str) -> None:
        self.wrong.append(finding)
        if len(self.wrong) <= _MAX_PRINTED:
            print(f"import_fuzz: {finding}", file=sys.stderr)


def fill_target(engine: Everhold, ids: tuple[str, ...]) -> None:
    """Store memories of bob under ids that a bundle may use for other memories."""
    bob = engine.scope(organization=TARGET, user="bob")
    bob.remember_many({"text": f"Secret {name} that bob keeps in {TARGET}", "id": name} for name in ids)


def fill(engine: Everhold, organization: str) -> None:
    """Store memories of two users, and everything else that verbs write."""
    for user in USERS:
        view = engine.scope(organization=organization, user=user)
        for number, name in enumerate(SHARED_IDS if user == "bob" else (f"{user}-1", f"{user}-2")):
            view.remember(f"Secret {number} that {user} keeps in {organization}", id=name, tags=["secret"])
    alice = engine.scope(organization=organization, user="alice")
    alice.revise("alice-1", text=f"Another secret that alice keeps in {organization}")
    alice.supersede("alice-2", f"Yet another secret that alice keeps in {organization}")
    alice.forget(alice.remember("A secret to be forgotten").id)
    alice.relate("alice-1", "alice-2")
    engine.scope(organization=organization, user="alice", session="s").say(f"Hello from {organization}")
    engine.scope(organization=organization, project="p", agent="bot").remember("Shared by the project")


class Fuzz:
    """A store with several organizations, and bundles that are imported into it."""

    def __init__(self, engine: Everhold, folder: Path, seed: int) -> None:
        self.engine, self.folder = engine, folder
        self.rng = random.Random(seed)
        self.findings = Findings()
        for organization in (*OTHERS, SOURCE):
            fill(engine, organization)
        engine.export(folder / "source.jsonl", organization=SOURCE)
        self.rows = read_rows(folder / "source.jsonl")
        self.maintain()
        self.others = self.hash_others()
        self.surroundings = self.make_surroundings()

    @property
    def records(self) -> Any:
        return self.engine._parts.records

    def make_surroundings(self) -> Surroundings:
        columns = self.records.columns(Memory, OTHERS[0], ("deletion_id",), deleted=True)
        deletions = tuple(deletion_id for (deletion_id,) in columns if deletion_id) or ("del-none",)
        return Surroundings(
            (*OTHERS, TARGET), (*USERS, "carol"), (*SHARED_IDS, *TARGET_IDS, "alice-1", "alice-2"), deletions
        )

    def hash_others(self) -> dict[tuple[str, str], int]:
        """Return a hash of every table of the organizations into which nothing is imported."""
        hashes: dict[tuple[str, str], int] = {}
        for entity, table in CATALOG.items():
            if table.tenant == TENANT:
                for organization in OTHERS:
                    rows = self.records.scan(entity, organization, deleted=True)
                    hashes[organization, table.name] = sum(hash_row(row, table) for row in rows)
        return hashes

    def maintain(self) -> None:
        self.engine.maintain()

    def run(self, bundles: int) -> Findings:
        for number in range(bundles):
            names = self.rng.sample(list(MUTATIONS), self.rng.choice([1, 1, 2, 3]))
            path = self.make_bundle(names)
            self.import_bundle(path, f"bundle {number} ({', '.join(names)})")
        return self.findings

    def make_bundle(self, names: list[str]) -> Path:
        rows: Rows = [{"table": row["table"], "row": dict(row["row"])} for row in self.rows]
        for name in names:
            rows = MUTATIONS[name](rows, self.rng, self.surroundings) if rows else rows
        return write_lines(self.folder / "mutated.jsonl", encode_rows(rows, self.rng), SOURCE)

    def import_bundle(self, path: Path, name: str) -> None:
        self.engine.create_organization(TARGET)
        if self.rng.random() < 0.6:
            fill_target(self.engine, self.rng.choice([TARGET_IDS, TARGET_IDS, SHARED_IDS]))
        before_import = self.read_target()
        result = self.attempt(name, lambda: self.engine.load(path, organization=TARGET))
        self.findings.counts["taken" if result else "refused"] += 1
        self.check_unchanged(name, before_import)
        self.attempt(f"{name}, maintenance", self.maintain)
        self.attempt(f"{name}, verify_log", lambda: self.engine.verify_log(TARGET))
        self.check_recalls(name, before_import)
        self.attempt(f"{name}, undo", lambda: self.engine.scope(organization=TARGET, user="alice").undo())
        self.check_doctor(name, refused=result is None)
        self.attempt(f"{name}, delete", lambda: self.engine.delete_organization(TARGET, hard=True))
        if self.hash_others() != self.others:
            self.findings.add(f"{name}: another organization changed")
            self.others = self.hash_others()

    def attempt(self, name: str, call: Callable[[], Any]) -> Any:
        """Make a call and return its result, or None if it raises. Any error but an EverholdError is a finding."""
        try:
            return call()
        except EverholdError as error:
            self.findings.counts[type(error).__name__] += 1
        except Exception as error:  # noqa: BLE001 — any other error is a finding
            frame = traceback.extract_tb(error.__traceback__)[-1]
            self.findings.add(f"{name}: {error!r:.200} at {frame.filename}:{frame.lineno}")
        return None

    def read_target(self) -> dict[str, Memory]:
        return {memory.id: memory for memory in self.records.scan(Memory, TARGET, deleted=True)}

    def check_unchanged(self, name: str, before_import: dict[str, Memory]) -> None:
        """Check that an import has not changed an existing memory."""
        after_import = self.read_target()
        if any(after_import.get(memory_id) != memory for memory_id, memory in before_import.items()):
            self.findings.add(f"{name}: an existing memory changed")

    def check_recalls(self, name: str, before_import: dict[str, Memory]) -> None:
        for organization in (TARGET, *OTHERS):
            for user in (*USERS, "carol"):
                scope = Scope(organization=organization, user=user)
                request = Request("secret that is kept", k=100, minimum=0, include=("organization", "project"))
                hits = self.attempt(f"{name}, recall", partial(recall, self.engine._parts.recall_deps, scope, request))
                for hit in hits or ():
                    self.findings.counts["hits"] += 1
                    self.check_hit(name, scope, hit.memory, before_import)

    def check_hit(self, name: str, scope: Scope, memory: Memory, before_import: dict[str, Memory]) -> None:
        before = before_import.get(memory.id) if scope.organization == TARGET else memory
        is_foreign = memory.user_id not in (None, scope.user) or memory.organization_id != scope.organization
        is_planted = scope.organization != TARGET and not memory.text.endswith((scope.organization, "project"))
        if is_foreign or is_planted or (before is not None and before.user_id not in (None, scope.user)):
            self.findings.add(f"{name}: {scope} recalled memory {memory.id!r} of {memory.user_id!r}")

    def check_doctor(self, name: str, *, refused: bool) -> None:
        problems = self.attempt(f"{name}, doctor", lambda: self.engine.doctor().problems) or []
        wrong = [problem for problem in problems if refused or _INCOMPLETE not in problem]
        if wrong:
            self.findings.add(f"{name}: doctor says {wrong}")


def run(store: str, bundles: int, seed: int = 0) -> Findings:
    """Import tampered bundles into stores of this kind and return the findings.

    A new store is used after every 200 bundles, because the feed and the log grow with each bundle and slow the checks.
    """
    findings = Findings()
    for start in range(0, bundles, _BUNDLES_PER_STORE):
        part = _run_on_new_store(store, min(_BUNDLES_PER_STORE, bundles - start), seed + start)
        findings.wrong += part.wrong
        findings.counts += part.counts
        print(f"import_fuzz: {min(start + _BUNDLES_PER_STORE, bundles):,} of {bundles:,} bundles", file=sys.stderr)
    return findings


def _run_on_new_store(store: str, bundles: int, seed: int) -> Findings:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        values = {**make_settings(store, Path(folder), stack), "log": {"flush_seconds": 3600}}
        if store == "sqlite":
            values["sqlite"] = {"synchronous": "NORMAL"}
        model = FakeEmbedder()
        engine = stack.enter_context(open_engine(build_settings(**values), model, model))
        return Fuzz(engine, Path(folder), seed).run(bundles)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=int, default=2000)
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    report = Report("import_fuzz")
    findings = run(options.store, options.bundles, options.seed)
    report.add("store", options.store)
    report.add("bundles", findings.counts["taken"] + findings.counts["refused"], ">=", options.bundles)
    for name, count in sorted(findings.counts.items()):
        report.add(name, count)
    report.add("findings", len(findings.wrong), "==", 0)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
