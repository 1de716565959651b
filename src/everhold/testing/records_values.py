"""The contract of a store of record: what is put comes back exactly."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from everhold.model import (
    Agent,
    AgentState,
    Blob,
    Block,
    Cycle,
    FieldMetadata,
    Memory,
    Message,
    Organization,
    ProjectionState,
    Session,
    Snapshot,
)
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.catalog import ENTITIES, TABLES, get_key
from everhold.schema.operations import Op, Patch, Put, Where
from everhold.testing.records_rows import (
    BYTES,
    NOON,
    OBJECTS,
    TIMES,
    VECTOR,
    find_ancestors,
    is_same_row,
    make_family,
    make_full_row,
    make_row,
)

VARIANTS = 6
MEGABYTE = 1024 * 1024


def read_stored(records: Records, row: Row) -> Row:
    """Return the stored row with the key of this one, deleted or not."""
    table, entity = TABLE_BY_ENTITY[type(row)], type(row)
    where = [Where(name, Op.EQ, row.__dict__[name]) for name in table.key if name != table.generated]
    rows = records.scan(entity, None, where, deleted=True)
    assert rows, f"{table.name} {get_key(row)} is not stored"
    return rows[-1]


# Tables that a running engine writes to. A store records the versions of its schema itself.
WRITTEN_TABLES = [name for name in TABLES if name != "schema_versions"]
TABLE_BY_ENTITY = {entity: TABLES[name] for name, entity in ENTITIES.items()}


class ValuesContract:
    """Values of every kind, in every field of every entity, survive."""

    @pytest.mark.parametrize("name", WRITTEN_TABLES)
    def test_every_field_of_every_entity_round_trips(self, records: Records, name: str) -> None:
        table, entity = TABLES[name], ENTITIES[name]
        rows: list[Row] = []
        parents: list[Row] = []
        for variant in range(VARIANTS):
            relatives = make_family(f"org-{variant}", variant=variant)
            rows.append(relatives.get(name) or make_full_row(entity, "org", f"{variant}", variant))
            parents += find_ancestors(table, rows[-1], relatives)
        records.commit([Put(parent) for parent in parents])
        for row in rows:
            records.commit([Put(row)])
            stored = read_stored(records, row)
            assert is_same_row(stored, row), f"put {row!r}\ngot {stored!r}"

    @pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.soft])
    def test_the_marks_of_deletion_round_trip(self, records: Records, name: str) -> None:
        rows = make_family("org")
        deletion_fields = {"is_deleted": True, "deleted_at": TIMES[1], "deletion_id": "del-ก", "version": 2**63 - 1}
        row = rows[name].model_copy(update=deletion_fields)
        records.commit([Put(parent) for parent in [*find_ancestors(TABLES[name], row, rows), row]])
        assert is_same_row(read_stored(records, row), row)

    @pytest.mark.parametrize("name", WRITTEN_TABLES)
    def test_absent_values_stay_absent(self, records: Records, name: str) -> None:
        rows = make_family("org")
        table, entity = TABLES[name], ENTITIES[name]
        row = rows.get(name) or make_full_row(entity, "org", "one")
        absent_values = {c.name: None for c in table.columns if c.nullable and c.name not in table.key}
        row = row.model_copy(update=absent_values)
        records.commit([Put(parent) for parent in [*find_ancestors(table, row, rows), row]])
        assert is_same_row(read_stored(records, row), row)

    def test_reserved_words_are_safe_as_names_of_fields(self, records: Records) -> None:
        organization, block = make_row(Organization, "org", "org"), make_row(Block, "org", "b", limit=77, value="v")
        message = make_row(Message, "org", "m", references=[{"to": "x"}])
        records.commit([Put(organization), Put(block), Put(message)])
        records.commit([Patch(Block, ("org", "b"), {"limit": 78}), Patch(Message, ("org", "m"), {"references": [1]})])
        assert [row.limit for row in records.scan(Block, "org", [Where("limit", Op.GT, 77)], order="limit")] == [78]
        assert list(records.columns(Message, "org", ["references"])) == [([1],)]

    def test_an_empty_text_is_not_an_absent_one(self, records: Records) -> None:
        records.commit([Put(make_row(Organization, "org", "org", name=""))])
        empty = make_row(Session, "org", "empty", title="", summary="", topic="")
        records.commit([Put(empty), Put(make_row(Session, "org", "absent"))])
        assert read_stored(records, empty) == empty
        assert [row.id for row in records.scan(Session, "org", [Where("title", Op.EQ, "")])] == ["empty"]
        assert [row.id for row in records.scan(Session, "org", [Where("title", Op.EQ, None)])] == ["absent"]

    @pytest.mark.parametrize("value", OBJECTS, ids=range(len(OBJECTS)))
    def test_json_objects_keep_every_key_and_type(self, records: Records, value: dict[str, Any]) -> None:
        row = make_row(Snapshot, "org", "s", workspace_id="w", manifest=value, metadata={"nested": [value]})
        self._put_snapshot_with_parents(records, row)
        assert is_same_row(read_stored(records, row), row)

    @pytest.mark.parametrize(
        "value",
        [None, True, False, 0, -1, 2**53 + 1, 1.0, 0.1, 1e22, "", "ก", [], {}, [[]], [None], {"a": {}}],
        ids=repr,
    )
    def test_json_of_any_shape_keeps_its_type(self, records: Records, value: Any) -> None:
        row = make_row(AgentState, "org", "s", agent_id="a", state=value)
        records.commit([Put(make_row(Organization, "org", "org")), Put(make_row(Agent, "org", "a")), Put(row)])
        assert is_same_row(read_stored(records, row), row)
        records.commit([Patch(AgentState, ("org", "s"), {"state": value})])
        assert is_same_row(read_stored(records, row), row.model_copy(update={"version": 2}))

    def test_json_null_equals_an_absent_value(self, records: Records) -> None:
        rows = make_family("org")
        row = rows["field_metadata"].model_copy(update={"minimum": None})
        records.commit([Put(parent) for parent in [*find_ancestors(TABLES["field_metadata"], row, rows), row]])
        assert records.count(FieldMetadata, "org", [Where("minimum", Op.EQ, None)]) == 1

    @pytest.mark.parametrize("value", BYTES[:4], ids=len)
    def test_bytes_of_every_value_round_trip(self, records: Records, value: bytes) -> None:
        rows = make_family("org")
        row = rows["connections"].model_copy(update={"dsn": value})
        records.commit([Put(parent) for parent in [*find_ancestors(TABLES["connections"], row, rows), row]])
        assert read_stored(records, row).__dict__["dsn"] == value

    def test_vectors_keep_every_bit(self, records: Records) -> None:
        rows = make_family("org")
        row = rows["chunks"]
        records.commit([Put(parent) for parent in [*find_ancestors(TABLES["chunks"], row, rows), row]])
        assert bytes(read_stored(records, row).__dict__["vector"]) == VECTOR

    def test_times_of_any_zone_are_the_same_moment_in_utc(self, records: Records) -> None:
        bangkok = datetime(2026, 7, 1, 19, 30, tzinfo=timezone(timedelta(hours=7)))
        records.commit(
            [Put(make_row(Organization, "org", "org")), Put(make_row(Memory, "org", "m", expires_at=bangkok))]
        )
        moment = read_stored(records, make_row(Memory, "org", "m")).__dict__["expires_at"]
        assert moment == bangkok
        assert moment.utcoffset() == timedelta(0)

    @pytest.mark.parametrize("moment", TIMES, ids=lambda moment: moment.isoformat())
    def test_times_keep_their_microseconds(self, records: Records, moment: datetime) -> None:
        row = make_row(Organization, "org", "org", created_at=moment, updated_at=moment)
        records.commit([Put(row)])
        assert read_stored(records, row) == row
        assert records.count(Organization, "org", [Where("created_at", Op.EQ, moment)]) == 1

    def test_a_text_of_a_million_characters_round_trips(self, records: Records) -> None:
        text = ("ความจำ memory 🧠 " * (MEGABYTE // 16))[:MEGABYTE]
        row = make_row(Memory, "org", "m", text=text, content={"text": text})
        records.commit([Put(make_row(Organization, "org", "org")), Put(row)])
        assert read_stored(records, row) == row

    def test_ids_of_the_maximum_length_are_stored(self, records: Records) -> None:
        longest = "ก" * 255
        rows = [make_row(Organization, longest, longest), make_row(Agent, longest, longest)]
        records.commit([Put(row) for row in rows])
        assert records.get(Agent, longest, [longest]) == {longest: rows[1]}

    def test_changing_a_callers_value_does_not_change_the_store(self, records: Records) -> None:
        metadata: dict[str, Any] = {"list": [1]}
        organization = make_row(Organization, "org", "org", metadata=metadata)
        records.commit([Put(organization)])
        metadata["list"].append(2)
        organization.metadata["more"] = True
        stored = records.get(Organization, "org", ["org"])["org"]
        assert stored.metadata == {"list": [1]}
        stored.metadata["list"].append(3)
        assert records.get(Organization, "org", ["org"])["org"].metadata == {"list": [1]}

    def test_blobs_and_projections_with_any_name_round_trip(self, records: Records) -> None:
        max_integer = 2**63 - 1
        projection = ProjectionState(
            projection="scope image ก/🧠",
            generation=max_integer,
            status="retired",
            applied_sequence=max_integer,
            caught_up_at=NOON,
        )
        blob = make_full_row(Blob, "org", "b", size=2**63 - 1)
        records.commit([Put(projection), Put(make_row(Organization, "org", "org")), Put(blob)])
        assert records.scan(ProjectionState, None) == [projection]
        assert records.scan(Blob, "org") == [blob]

    def test_a_row_may_refer_to_itself(self, records: Records) -> None:
        rows = make_family("org")
        cycle = rows["cycles"].model_copy(update={"parent_id": rows["cycles"].__dict__["id"]})
        records.commit(
            [
                Put(parent)
                for parent in [*find_ancestors(TABLES["cycles"], cycle, rows), cycle]
                if parent is not rows["cycles"]
            ]
        )
        assert records.scan(Cycle, "org") == [cycle]

    def _put_snapshot_with_parents(self, records: Records, snapshot: Row) -> None:
        rows = make_family("org", "w")
        workspace = rows["workspaces"]
        parents = [*find_ancestors(TABLES["workspaces"], workspace, rows), workspace]
        records.commit([Put(parent) for parent in [*parents, snapshot]])
