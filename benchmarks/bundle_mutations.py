"""Functions that tamper with a bundle. Each takes the rows and a random generator, and returns the rows to write."""

import json
import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.bundles import Rows, encode_base64
from everhold.schema.catalog import ENTITIES, TABLES
from everhold.schema.table import TENANT
from everhold.testing.records_rows import make_full_row

TIME = "2026-01-01T00:00:00+00:00"
# Stands for JSON that is nested too deeply to be built as a value; `encode_rows` replaces it.
DEEP = "@deep JSON@"

_ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 5, 2**63, 10**30, 1e308, "", "x", "x" * 300, "a/b", "a b", "\x00", "\ud800", "NaN", [], [1], {},
    {"a": 1}, [[]], "0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59.999999+00:00", "2026-01-01",
    encode_base64(b"abc"),
)  # fmt: skip
_VECTORS = (
    encode_base64(b"abc"), encode_base64(b"ab"), encode_base64(bytes(768)),
    encode_base64(struct.pack("<e", float("inf")) * 384), encode_base64(struct.pack("<e", float("nan")) * 384),
    encode_base64(b"ab" * 384), None, "not base64", "",
)  # fmt: skip


@dataclass(frozen=True)
class Surroundings:
    """Names in the store that an attacker may know: organizations, users, memory ids and deletion ids."""

    organizations: tuple[str, ...]
    users: tuple[str, ...]
    ids: tuple[str, ...]
    deletions: tuple[str, ...]


Mutation = Callable[[Rows, random.Random, Surroundings], Rows]


def _choose_row(rows: Rows, rng: random.Random, *tables: str) -> dict[str, Any]:
    candidates = [row["row"] for row in rows if not tables or row["table"] in tables]
    return rng.choice(candidates) if candidates else {}


def add_internal_row(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    """Add a row of an internal table: a job, a line of the feed, a counter or a schema version."""
    organization, ids = rng.choice(surroundings.organizations), rng.sample(surroundings.ids, 2)
    scope = {"organization": organization}
    job = {
        "id": rng.choice(["access-log", "job-1"]), "organization_id": "source", "created_at": TIME,
        "updated_at": TIME, "kind": rng.choice(["forget", "seal"]), "status": rng.choice(["running", "done"]),
        "parameters": rng.choice([{"hard": True, "scope": scope}, {}]), "state": rng.choice([{"ids": ids}, {}]),
        "progress": rng.choice([0, 3]),
    }  # fmt: skip
    line = {
        "organization_id": "source", "user_id": rng.choice(surroundings.users), "entity_id": ids[0],
        "entity": rng.choice(["memories", "users"]), "operation": rng.choice(["put", "delete"]),
    }  # fmt: skip
    counter = {"name": "access log sealed through", "value": 10**9}
    version = {"version": 99, "name": "later", "applied_at": TIME}
    internal = {"jobs": job, "outbox": line, "counters": counter, "schema_versions": version}
    table = rng.choice(list(internal))
    rows.insert(rng.randrange(len(rows) + 1), {"table": table, "row": internal[table]})
    return rows


def add_complete_row(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    """Add a row of any table with every field filled, under an id that may exist in the store."""
    table = rng.choice(list(ENTITIES))
    name = rng.choice([*surroundings.ids, *surroundings.users, "extra"])
    references = TABLES[table].references
    columns = {column for reference in references for column in reference.columns if column != TENANT}
    values = {column: rng.choice([*surroundings.ids, *surroundings.users]) for column in columns}
    row = make_full_row(ENTITIES[table], "source", name, rng.randrange(6), **values).model_dump(mode="json")
    position = next((number for number, other in enumerate(rows) if other["table"] == table), len(rows))
    rows.insert(position, {"table": table, "row": row})
    return rows


def name_foreign_organization(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    row = _choose_row(rows, rng)
    row["organization_id" if "organization_id" in row else "id"] = rng.choice(surroundings.organizations)
    return rows


def name_foreign_user(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    candidates = [row["row"] for row in rows if "user_id" in row["row"]] or [{}]
    rng.choice(candidates)["user_id"] = rng.choice([*surroundings.users, None])
    return rows


def name_image_of_another_user(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    _choose_row(rows, rng, "chunks")["user_id"] = rng.choice([*surroundings.users, ""])
    return rows


def swap_ids(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    """Swap the ids, or the owners, of two rows of a table."""
    first, second = _choose_row(rows, rng, "memories"), _choose_row(rows, rng, "memories")
    if rng.random() < 0.5:
        first, second = _choose_row(rows, rng, "chunks"), _choose_row(rows, rng, "chunks")
    name = "id" if "id" in first else "owner_id"
    if not first or not second:
        return rows
    first[name], second[name] = second[name], first[name]
    return rows


def rename_memory(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    """Give a memory, with all rows that belong to it, an id that a memory in the store may have."""
    old_id = str(_choose_row(rows, rng, "memories").get("id"))
    renamed: Rows = json.loads(json.dumps(rows).replace(json.dumps(old_id), json.dumps(rng.choice(surroundings.ids))))
    return renamed


def refer_elsewhere(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    """Let a column that refers to another row refer to a row in the store, or to none."""
    columns = ("owner_id", "memory_id", "source_memory_id", "target_memory_id", "session_id", "superseded_by")
    candidates = [(row["row"], name) for row in rows for name in columns if name in row["row"]]
    row, name = rng.choice(candidates or [({}, "")])
    row[name] = rng.choice([*surroundings.ids, "nowhere"])
    return rows


def change_journal(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    change = _choose_row(rows, rng, "changes")
    if rng.random() < 0.5:
        change["memory_ids"] = rng.sample([*surroundings.ids, "nowhere"], 2)
    else:
        deletion = {"deletion_id": rng.choice([*surroundings.deletions, 5])}
        change["before"] = rng.choice([{}, {"revision": 77}, {"revision": "one"}, deletion, {"x": {}}])
    change["user_id"] = rng.choice([*surroundings.users, None, change.get("user_id")])
    return rows


def change_revision(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    value = {"text": "planted", "aliases": []}
    odd_value: dict[str, Any] = rng.choice(
        [{}, {"user_id": "bob"}, {"organization_id": surroundings.organizations[0]}, {"text": 5}]
    )
    _choose_row(rows, rng, "revisions")["value"] = {**value, **odd_value} if rng.random() < 0.5 else odd_value
    return rows


def change_deletion(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    row = _choose_row(rows, rng, "memories", "users", "sessions", "memory_tags")
    row |= {"is_deleted": rng.random() < 0.5, "deletion_id": rng.choice(surroundings.deletions)}
    return rows


def change_field(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    """Put something odd, or the value of another row, into any field of any row."""
    row = _choose_row(rows, rng)
    name = rng.choice(list(row) or ["id"])
    others = [other["row"][name] for other in rows if name in other["row"]] or [None]
    row[name] = rng.choice(_ODD_VALUES) if rng.random() < 0.6 else rng.choice(others)
    return rows


def change_vector(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    row = _choose_row(rows, rng, "chunks")
    row["vector"] = rng.choice(_VECTORS)
    if rng.random() < 0.5:
        row["dimensions"] = rng.choice([0, 1, 2, 383, 10**6, 2**62])
    if rng.random() < 0.3:
        row |= {"span_start": rng.choice([0, 10**9]), "span_end": rng.choice([0, 1, 10**9])}
    return rows


def nest_deeply(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    row = _choose_row(rows, rng, "memories", "users", "messages", "changes", "revisions")
    object_columns = [name for name, value in row.items() if isinstance(value, dict)]
    row[rng.choice(object_columns or ["metadata"])] = DEEP
    return rows


def drop_rows(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    share = rng.choice([0.02, 0.1, 0.5])
    return [row for row in rows if rng.random() > share]


def drop_table(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    table = rng.choice(sorted({row["table"] for row in rows}))
    return [row for row in rows if row["table"] != table]


def repeat_row(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    index = rng.randrange(len(rows))
    copy = {"table": rows[index]["table"], "row": dict(rows[index]["row"])}
    if "text" in copy["row"]:
        copy["row"]["text"] = "said otherwise"
    rows.insert(index + 1 if rng.random() < 0.5 else rng.randrange(len(rows)), copy)
    return rows


def reorder(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    rng.shuffle(rows)
    return rows


def leave_alone(rows: Rows, rng: random.Random, surroundings: Surroundings) -> Rows:
    return rows


MUTATIONS: Mapping[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        add_internal_row, add_complete_row, name_foreign_organization, name_foreign_user, name_image_of_another_user,
        swap_ids, rename_memory, refer_elsewhere, change_journal, change_revision, change_deletion, change_field,
        change_vector, nest_deeply, drop_rows, drop_table, repeat_row, reorder, leave_alone,
    )
}  # fmt: skip


def encode_rows(rows: Rows, rng: random.Random) -> list[str]:
    """Return the rows as lines of JSON, with nested objects of a random depth in place of the mark."""
    depth = rng.choice([101, 900, 5_000, 50_000])
    nested = '{"a":' * depth + "1" + "}" * depth
    return [json.dumps(row).replace(f'"{DEEP}"', nested) for row in rows]
