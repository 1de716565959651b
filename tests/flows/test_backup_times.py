"""A restore as of a time between two backups returns rows as they were, except those counted as approximate."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from everhold import Everhold, clock
from everhold.errors import EverholdError
from everhold.model.base import Row
from everhold.schema.catalog import CATALOG, get_key
from everhold.testing.fake_embedder import FakeEmbedder
from tests.encrypted_engines import make_key
from tests.engines import CALM, Store, get_records

# A restore numbers the lines of the log again and continues its chain, so these columns differ.
_CHAINED = ("sequence", "sealed", "previous_hash", "hash")
# The change feed ends with the earlier backup, and the heads of the log follow the new chain.
_NOT_COMPARED = ("outbox", "log_heads")
# The tests that use these cases were also run with seeds 0 to 39 on SQLite and 0 to 11 on PostgreSQL.
CASES = pytest.mark.parametrize(("store", "seed"), [("sqlite", 0), ("sqlite", 1), ("postgres", 2)], indirect=["store"])

State = dict[str, dict[tuple[Any, ...], dict[str, Any]]]


def read_state(engine: Everhold) -> State:
    """Return all rows of a store that belong to an organization, by table and key."""
    engine.flush()
    state: State = {}
    for entity, table in CATALOG.items():
        if table.tenant is not None and table.name not in _NOT_COMPARED:
            state[table.name] = {_make_key(row): _read_values(row) for row in _scan(engine, entity)}
    return state


def _scan(engine: Everhold, entity: type[Row]) -> list[Row]:
    return get_records(engine).scan(entity, None, deleted=True)


def _make_key(row: Row) -> tuple[Any, ...]:
    return (row.__dict__["digest"],) if CATALOG[type(row)].name == "memory_access_logs" else get_key(row)


def _read_values(row: Row) -> dict[str, Any]:
    values = dict(row.__dict__)
    if CATALOG[type(row)].name == "memory_access_logs":
        values |= dict.fromkeys(_CHAINED)
    return values


class History:
    """Random calls of one engine."""

    def __init__(self, engine: Everhold, seed: int) -> None:
        self.rng, self.engine = random.Random(seed), engine
        self.view = engine.scope(user="alice")
        self.ids: list[str] = []
        self.last = ""
        self.count = 0

    def make_calls(self, number: int, *, is_journalled: bool = False) -> None:
        """Make random calls; with `is_journalled`, only calls whose changes are fully journalled."""
        calls: list[Callable[[], Any]] = [
            self.remember, self.remember, self.revise, self.revise, self.supersede, self.forget, self.relate, self.tag,
            self.say, self.say, self.undo_last,
        ]  # fmt: skip
        if not is_journalled:
            calls += [self.untag, self.undo, self.forget_for_good, self.repeat, self.recall]
        for _ in range(number):
            try:
                self.rng.choice(calls)()
            except EverholdError:
                continue  # the memory was forgotten, or there is nothing to undo

    def choose(self) -> str:
        return self.rng.choice(self.ids) if self.ids else self.remember()

    def remember(self) -> str:
        self.count += 1
        memory = self.view.remember(f"note {self.count} of {self.rng.random()}", tags=[f"tag{self.count % 3}"])
        self.ids.append(memory.id)
        return memory.id

    def revise(self) -> None:
        self.last = self.choose()
        self.view.revise(self.last, text=f"another {self.rng.random()}", importance=self.rng.random())

    def supersede(self) -> None:
        self.last = ""
        self.ids.append(self.view.supersede(self.choose(), text=f"a later {self.rng.random()}").id)

    def forget(self) -> None:
        self.last = self.choose()
        self.view.forget(self.last)

    def forget_for_good(self) -> None:
        if self.rng.random() < 0.3:
            self.view.forget(self.choose(), hard=True)

    def relate(self) -> None:
        self.view.relate(self.choose(), self.choose())

    def tag(self) -> None:
        self.view.tag(self.choose(), f"word{self.rng.randrange(4)}")

    def untag(self) -> None:
        self.view.untag(self.choose(), f"tag{self.rng.randrange(3)}")

    def say(self) -> None:
        session = f"talk{self.rng.randrange(2)}"
        self.engine.scope(user="alice", session=session).say(f"I say {self.rng.random()}", role="user")

    def undo(self) -> None:
        self.view.undo(self.choose())

    def undo_last(self) -> None:
        """Undo the last revision or deletion."""
        if self.last:
            self.view.undo(self.last)
        self.last = ""

    def repeat(self) -> None:
        self.view.remember(self.view.get(self.choose()).text, importance=self.rng.random())

    def recall(self) -> None:
        self.view.recall("note of another", k=3, minimum=0)


class Comparison(NamedTuple):
    """Numbers of rows of a table.

    `different` rows have other values, or are missing although a backup has them; `unexpected` rows should not be
    there; `lost` rows are missing and in no backup.
    """

    different: int
    unexpected: int
    lost: int


def compare(expected: State, restored: State, backups: tuple[State, State]) -> dict[str, Comparison]:
    """Return, by table, how a restored store differs from the state that was read at that moment."""
    differences = {}
    for name, rows in expected.items():
        missing = rows.keys() - restored[name].keys()
        lost = {key for key in missing if not any(key in backup[name] for backup in backups)}
        common = rows.keys() & restored[name].keys()
        different = sum(rows[key] != restored[name][key] for key in common) + len(missing - lost)
        differences[name] = Comparison(different, len(restored[name].keys() - rows.keys()), len(lost))
    return differences


def restore_between(
    store: Store, tmp_path: Path, seed: int, *, is_journalled: bool, **options: Any
) -> tuple[Counter[str], dict[str, Comparison]]:
    """Restore a random moment between two backups. Return the number of approximate rows and the differences."""
    engine, target = store.open(**options), tmp_path / "backups"
    history = History(engine, seed)
    history.make_calls(30, is_journalled=is_journalled)
    engine.flush()
    engine.backup(target)
    before = read_state(engine)
    history.make_calls(history.rng.randrange(40), is_journalled=is_journalled)
    expected, moment = read_state(engine), clock.now()
    history.make_calls(history.rng.randrange(40), is_journalled=is_journalled)
    engine.flush()
    engine.backup(target)
    after = read_state(engine)
    restored = Everhold.restore_backup(target, tmp_path / "then.db", as_of=moment, **options)
    assert restored.exact_rows
    with Everhold.open(tmp_path / "then.db", embedder=FakeEmbedder(), **CALM, **options) as restored_engine:
        differences = compare(expected, read_state(restored_engine), (before, after))
        assert restored_engine.verify_log().intact
        assert not restored_engine.doctor().problems
    return Counter(restored.approximate_rows), differences


@CASES
def test_only_rows_counted_as_approximate_may_differ(store: Store, seed: int, tmp_path: Path) -> None:
    approximate, differences = restore_between(store, tmp_path, seed, is_journalled=False)
    for name, difference in differences.items():
        assert difference.different + difference.unexpected <= approximate[name], name


@CASES
def test_fully_journalled_changes_are_restored_exactly_unless_lost(store: Store, seed: int, tmp_path: Path) -> None:
    approximate, differences = restore_between(store, tmp_path, seed, is_journalled=True)
    assert not approximate
    # Only tags and relationships that were added and removed between the backups may be lost.
    assert {name for name, difference in differences.items() if any(difference)} <= {
        "memory_tags",
        "memory_relationships",
    }
    assert all(difference.different == difference.unexpected == 0 for difference in differences.values())


@pytest.mark.parametrize("per_user", [False, True])
def test_encrypted_rows_come_back_exactly(per_user: bool, sqlite_store: Store, tmp_path: Path) -> None:
    fields = ["memories.text", "messages.text"]
    encryption = {"master_key": make_key(tmp_path), "per_user": per_user, "fields": fields}
    approximate, differences = restore_between(sqlite_store, tmp_path, 3, is_journalled=True, encryption=encryption)
    assert not approximate
    assert all(difference.different == difference.unexpected == 0 for difference in differences.values())
