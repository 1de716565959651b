"""The contract of a store of record: commits, versions, and many writers at once."""

from itertools import pairwise
from typing import Any

import pytest

from everhold.errors import (
    AlreadyExists,
    BatchTooLarge,
    BrokenReference,
    InvalidInput,
    StaleVersion,
    StoreUnavailable,
)  # fmt: skip
from everhold.model import Agent, Block, BlockAgent, Lease, Memory, Organization, ProjectionState, Session, Tag
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure, Hide, Increment, Operation, Patch, Put, Require, Unhide
from everhold.testing.records_rows import NOON, add_minutes_to_noon, is_same_row, make_family, make_row

MEMORY = ("org", "m")


def put_memory(records: Records, **fields: Any) -> Memory:
    row = make_row(Memory, *MEMORY, **fields)
    records.commit([Put(make_row(Organization, "org", "org")), Put(row)])
    return row


def read_memory(records: Records) -> Memory:
    return records.get(Memory, "org", ["m"], deleted=True)["m"]


FAILURES: dict[str, tuple[Operation, type[Exception]]] = {
    "key": (Put(make_row(Memory, "org", "m")), AlreadyExists),
    "unique": (Put(make_row(Memory, "org", "x", hash=b"1" * 16)), AlreadyExists),
    "reference": (Put(make_row(Memory, "org", "x", user_id="nowhere")), BrokenReference),
    "unique before reference": (
        Put(make_row(Memory, "org", "x", hash=b"1" * 16, user_id="nowhere")),
        AlreadyExists,
    ),
    "required": (Require(Memory, ("org", "gone")), BrokenReference),
    "version": (Patch(Memory, MEMORY, {"text": "x"}, version=99), StaleVersion),
    "check": (Patch(Memory, MEMORY, {"importance": 2.0}), InvalidInput),
    "absent": (Patch(Memory, MEMORY, {"text": None}), InvalidInput),
    "gone": (Patch(Memory, ("org", "gone"), {"text": "x"}), StaleVersion),
    "wide": (Increment(Memory, ("org", "gone"), {}, {"kind": "k" * 51}), InvalidInput),
}


class WritingContract:
    """Atomic commits, and versions that lose no change."""

    def test_an_empty_commit_does_nothing(self, records: Records) -> None:
        records.commit([])
        assert records.count(Organization, None) == 0

    def test_a_required_row_must_be_live(self, records: Records) -> None:
        put_memory(records)
        records.commit([Require(Organization, ("org",)), Require(Memory, MEMORY), Put(make_row(Memory, "org", "n"))])
        assert records.count(Memory, "org") == 2
        records.commit([Hide(Memory, MEMORY, "del", NOON)])
        for name in ("m", "gone"):
            with pytest.raises(BrokenReference, match=f"memories '{name}' does not exist or has been deleted"):
                records.commit([Require(Memory, ("org", name)), Put(make_row(Memory, "org", "x"))])
        assert records.count(Memory, "org") == 1
        records.commit([Unhide("org", "del"), Require(Memory, MEMORY)])
        assert records.count(Memory, "org") == 2

    def test_a_commit_sees_its_own_earlier_operations(self, records: Records) -> None:
        records.commit(
            [
                Put(make_row(Organization, "org", "org")),
                Put(make_row(Memory, *MEMORY, text="first")),
                Patch(Memory, MEMORY, {"text": "second"}, version=1),
                Patch(Memory, MEMORY, {"text": "third"}, version=2),
                Increment(Memory, MEMORY, {"access_count": 2}),
                Ensure(make_row(Memory, *MEMORY, text="ignored")),
                Put(make_row(Tag, "org", "t", memory_id="m", tag="kept")),
            ]
        )
        memory = read_memory(records)
        assert (memory.text, memory.version, memory.access_count) == ("third", 3, 2)
        assert records.count(Tag, "org") == 1

    def test_a_row_may_be_put_deleted_and_put_again_in_one_commit(self, records: Records) -> None:
        put_memory(records, text="old")
        records.commit([Delete(Memory, MEMORY), Put(make_row(Memory, *MEMORY, text="fresh"))])
        assert read_memory(records).text == "fresh"
        records.commit([Put(make_row(Memory, "org", "x")), Delete(Memory, ("org", "x"))])
        assert records.get(Memory, "org", ["x"], deleted=True) == {}

    def test_a_parent_must_come_before_its_child(self, records: Records) -> None:
        with pytest.raises(BrokenReference):
            records.commit([Put(make_row(Memory, "org", "m")), Put(make_row(Organization, "org", "org"))])
        assert records.count(Memory, None, deleted=True) == 0

    @pytest.mark.parametrize("failure", FAILURES)
    def test_a_commit_whose_last_operation_fails_leaves_nothing(self, records: Records, failure: str) -> None:
        rows = make_family("org")
        before = put_memory(records, hash=b"1" * 16, text="before")
        rows = {name: row for name, row in rows.items() if name != "organizations"}
        operation, error = FAILURES[failure]
        operations: list[Operation] = [Put(row) for row in rows.values()]
        operations += [Patch(Memory, MEMORY, {"text": "after"}), Increment(Memory, MEMORY, {"access_count": 1})]
        operations += [Put(make_row(Tag, "org", "t", memory_id="m", tag="t")), Delete(Agent, ("org", "one"))]
        with pytest.raises(error):
            records.commit([*operations, operation])
        assert read_memory(records) == before
        for name, row in rows.items():
            expected = 1 if name == "memories" else 0
            assert records.count(type(row), "org", deleted=True) == expected, name

    def test_the_error_is_that_of_the_first_operation_that_fails(self, records: Records) -> None:
        put_memory(records, hash=b"1" * 16)
        failures = list(FAILURES.values())
        for (operation, error), (later_operation, _) in [*pairwise(failures), *pairwise(failures[::-1])]:
            with pytest.raises(error) as caught:
                records.commit([operation, later_operation])
            assert caught.type is error

    def test_a_failed_commit_undoes_its_deletions(self, records: Records) -> None:
        rows = make_family("org")
        records.commit([Put(row) for row in rows.values()])
        operations: list[Operation] = [Hide(Agent, ("org", "one"), "del", NOON), Unhide("org", "del")]
        operations += [Delete(Session, ("org", "one")), Delete(Organization, ("org",))]
        with pytest.raises(BrokenReference):
            records.commit([*operations, Put(make_row(Memory, "org", "orphan"))])
        for row in rows.values():
            (stored,) = records.scan(type(row), "org", deleted=True)
            assert is_same_row(stored, row)

    def test_the_store_works_after_a_failed_commit(self, records: Records) -> None:
        put_memory(records)
        for _ in range(3):
            with pytest.raises(AlreadyExists):
                records.commit([Put(make_row(Memory, "org", "m"))])
            records.commit([Patch(Memory, MEMORY, {"text": "on"})])
        assert read_memory(records).version == 4

    def test_the_error_about_an_existing_key_names_the_table(self, records: Records) -> None:
        put_memory(records)
        with pytest.raises(AlreadyExists) as caught:
            records.commit([Put(make_row(Memory, "org", "m", text="other"))])
        assert (caught.value.table, caught.value.rule) == ("memories", "key")
        assert not caught.value.retryable

    def test_the_key_of_a_deleted_row_stays_taken(self, records: Records) -> None:
        put_memory(records)
        records.commit([Hide(Memory, MEMORY, "del", NOON)])
        with pytest.raises(AlreadyExists):
            records.commit([Put(make_row(Memory, "org", "m"))])

    def test_ensure_adds_missing_rows_and_leaves_existing_ones_unchanged(self, records: Records) -> None:
        before = put_memory(records, text="before")
        records.commit(
            [Ensure(make_row(Memory, *MEMORY, text="other")), Ensure(make_row(Memory, "org", "x", text="added"))]
        )
        assert read_memory(records) == before
        assert records.get(Memory, "org", ["x"])["x"].text == "added"
        records.commit([Hide(Memory, MEMORY, "del", NOON), Ensure(make_row(Memory, *MEMORY, text="other"))])
        assert (read_memory(records).text, read_memory(records).is_deleted) == ("before", True)

    def test_ensure_of_an_existing_key_checks_no_other_rule(self, records: Records) -> None:
        rows = make_family("org")
        records.commit([Put(row) for row in rows.values()])
        chunk, state = rows["chunks"], rows["agent_states"]
        records.commit(
            [
                Ensure(chunk.model_copy(update={"terms": "other"})),
                Ensure(state.model_copy(update={"session_id": "nowhere", "agent_id": "nowhere"})),
                Ensure(rows["memories"].model_copy(update={"user_id": "nowhere"})),
                Ensure(rows["revisions"].model_copy(update={"owner_id": "nowhere"})),
            ]
        )
        assert is_same_row(records.scan(type(state), "org")[0], state)

    def test_ensure_keeps_the_other_rules(self, records: Records) -> None:
        put_memory(records, hash=b"1" * 16)
        with pytest.raises(AlreadyExists) as caught:
            records.commit([Ensure(make_row(Memory, "org", "x", hash=b"1" * 16))])
        assert caught.value.rule == "hash"
        with pytest.raises(BrokenReference):
            records.commit([Ensure(make_row(Memory, "org", "x", user_id="nowhere"))])

    def test_a_broken_unique_rule_is_reported_before_a_broken_reference(self, records: Records) -> None:
        rows = make_family("org")
        records.commit([Put(row) for row in rows.values()])
        for name, column in {
            "memories": "user_id",
            "agent_states": "session_id",
            "snapshots": "parent_id",
            "revisions": "owner_id",
        }.items():
            with pytest.raises(AlreadyExists):
                records.commit([Put(rows[name].model_copy(update={column: "nowhere"}))])

    def test_a_patch_sets_its_fields_and_counts_the_version(self, records: Records) -> None:
        before = put_memory(records, text="before", expires_at=NOON, metadata={"a": 1})
        changes = {
            "text": "after",
            "expires_at": None,
            "metadata": {"b": [2]},
            "pinned": True,
            "updated_at": add_minutes_to_noon(1),
        }
        records.commit([Patch(Memory, MEMORY, changes)])
        assert read_memory(records) == before.model_copy(update={**changes, "version": 2})

    def test_an_empty_patch_increases_the_version(self, records: Records) -> None:
        before = put_memory(records)
        records.commit([Patch(Memory, MEMORY, {})])
        assert read_memory(records) == before.model_copy(update={"version": 2})

    def test_a_patch_with_another_expected_version_is_refused(self, records: Records) -> None:
        put_memory(records)
        records.commit([Patch(Memory, MEMORY, {"text": "a"}, version=1)])
        for version in (1, 3, 0):
            with pytest.raises(StaleVersion):
                records.commit([Patch(Memory, MEMORY, {"text": "b"}, version=version)])
        records.commit([Patch(Memory, MEMORY, {"text": "c"}, version=2)])
        assert (read_memory(records).text, read_memory(records).version) == ("c", 3)

    def test_a_patch_of_a_missing_row_is_stale(self, records: Records) -> None:
        put_memory(records)
        records.commit([Delete(Memory, MEMORY)])
        for version in (None, 1):
            with pytest.raises(StaleVersion):
                records.commit([Patch(Memory, MEMORY, {"text": "b"}, version=version)])

    def test_a_deleted_row_can_be_patched(self, records: Records) -> None:
        put_memory(records)
        records.commit([Hide(Memory, MEMORY, "del", NOON), Patch(Memory, MEMORY, {"text": "b"}, version=2)])
        assert (read_memory(records).text, read_memory(records).is_deleted, read_memory(records).version) == (
            "b",
            True,
            3,
        )

    def test_a_patch_touches_one_row_only(self, records: Records) -> None:
        for organization in ("org", "other"):
            rows = [make_row(Memory, organization, name) for name in ("m", "n")]
            records.commit([Put(make_row(Organization, organization, organization)), *map(Put, rows)])
        records.commit([Patch(Memory, MEMORY, {"text": "b"}), Increment(Memory, MEMORY, {"access_count": 1})])
        changed = [row for row in records.scan(Memory, None) if row.version > 1 or row.access_count]
        assert [(row.organization_id, row.id) for row in changed] == [MEMORY]

    def test_a_row_with_a_key_of_several_columns_can_be_patched(self, records: Records) -> None:
        put_memory(records)
        records.commit([Put(make_row(Tag, "org", "t", memory_id="m", tag=tag)) for tag in ("a", "b")])
        records.commit([Patch(Tag, ("org", "m", "a"), {"metadata": {"x": 1}})])
        assert [(tag.tag, tag.metadata, tag.version) for tag in records.scan(Tag, "org")] == [
            ("a", {"x": 1}, 2),
            ("b", {}, 1),
        ]

    def test_a_row_without_a_version_can_be_patched(self, records: Records) -> None:
        state = ProjectionState(projection="vectors", generation=3, status="building")
        changes = {"status": "serving", "applied_sequence": 7, "caught_up_at": NOON}
        records.commit([Put(state)])
        records.commit([Patch(ProjectionState, ("vectors", 3), changes)])
        assert records.scan(ProjectionState, None) == [state.model_copy(update=changes)]

    def test_a_patch_checks_the_version_of_a_row_without_an_organization(self, records: Records) -> None:
        lease = Lease(name="work", holder="first", until=NOON)
        records.commit([Put(lease)])
        records.commit([Patch(Lease, ("work",), {"holder": "second"}, version=1)])
        with pytest.raises(StaleVersion):
            records.commit([Patch(Lease, ("work",), {"holder": "third"}, version=1)])
        assert records.scan(Lease, None) == [lease.model_copy(update={"holder": "second", "version": 2})]

    def test_a_patch_of_an_unknown_field_is_refused(self, records: Records) -> None:
        put_memory(records)
        for operation in (
            Patch(Memory, MEMORY, {"unheard_of": 1}),
            Increment(Memory, MEMORY, {"unheard_of": 1}),
            Increment(Memory, MEMORY, {}, {"unheard_of": 1}),
        ):
            with pytest.raises(InvalidInput, match="unheard_of"):
                records.commit([operation])

    def test_an_increment_adds_without_touching_the_version(self, records: Records) -> None:
        before = put_memory(records, access_count=5, score=0.5)
        records.commit([Increment(Memory, MEMORY, {"access_count": 3, "revision": 1}, {"last_accessed": NOON})])
        records.commit([Increment(Memory, MEMORY, {"access_count": -2, "score": 1})])
        expected = {"access_count": 6, "revision": 1, "last_accessed": NOON, "score": 1.5}
        assert read_memory(records) == before.model_copy(update=expected)

    def test_an_increment_of_an_absent_number_leaves_it_absent(self, records: Records) -> None:
        put_memory(records)
        records.commit([Increment(Memory, MEMORY, {"score": 1})])
        assert read_memory(records).score is None

    def test_invalid_values_are_refused_even_if_the_row_is_missing(self, records: Records) -> None:
        """Every attempt is refused, not only the first one."""
        put_memory(records)
        wide = {"kind": "k" * 51}
        for key in (MEMORY, ("org", "gone")):
            for operation in (Patch(Memory, key, wide), Increment(Memory, key, {}, wide)):
                for _ in range(7):
                    with pytest.raises(InvalidInput, match="kind"):
                        records.commit([Patch(Memory, MEMORY, {"text": "b"}), operation])
        assert read_memory(records).text != "b"

    def test_an_increment_of_a_missing_row_is_ignored(self, records: Records) -> None:
        put_memory(records)
        records.commit([Increment(Memory, ("org", "gone"), {"access_count": 1}), Patch(Memory, MEMORY, {"text": "b"})])
        assert read_memory(records).text == "b"

    def test_an_increment_keeps_the_bounds(self, records: Records) -> None:
        put_memory(records, access_count=1)
        with pytest.raises(InvalidInput):
            records.commit([Increment(Memory, MEMORY, {"access_count": -2})])
        assert read_memory(records).access_count == 1

    @pytest.mark.parametrize("changes", [{"revision": 2**63}, {"text": "\ud800"}], ids=["over 64 bits", "surrogate"])
    def test_values_that_no_store_holds_are_refused(self, records: Records, changes: dict[str, object]) -> None:
        before = put_memory(records)
        with pytest.raises(InvalidInput):
            records.commit([Patch(Memory, MEMORY, changes)])
        assert read_memory(records) == before

    def test_a_referenced_value_cannot_be_changed(self, records: Records) -> None:
        block = make_row(Block, "org", "b", label="human", value="v")
        rows: list[Row] = [make_row(Organization, "org", "org"), make_row(Agent, "org", "a"), block]
        rows.append(make_row(BlockAgent, "org", "l", block_id="b", block_label="human", agent_id="a"))
        records.commit([Put(row) for row in rows])
        with pytest.raises(BrokenReference):
            records.commit([Patch(Block, ("org", "b"), {"label": "persona"})])
        records.commit([Patch(Block, ("org", "b"), {"label": "human", "value": "w"})])
        records.commit(
            [Delete(BlockAgent, ("org", "b", "human", "a")), Patch(Block, ("org", "b"), {"label": "persona"})]
        )
        assert records.get(Block, "org", ["b"])["b"].label == "persona"

    def test_one_commit_writes_5000_rows(self, records: Records) -> None:
        rows = [make_row(Memory, "org", f"{index:05}", hash=index.to_bytes(16)) for index in range(5000)]
        records.commit([Put(make_row(Organization, "org", "org")), *map(Put, rows)])
        assert records.count(Memory, "org") == 5000
        with pytest.raises(AlreadyExists):
            records.commit([*(Delete(Memory, ("org", row.id)) for row in rows[:-1]), Put(rows[-1])])
        assert records.scan(Memory, "org", limit=2) == rows[:2]
        records.commit([Delete(Memory, ("org", row.id)) for row in rows])
        assert records.count(Memory, "org", deleted=True) == 0

    def test_a_commit_over_the_limit_is_refused_before_anything_is_written(self, records: Records) -> None:
        organization = Put(make_row(Organization, "org", "org"))
        with pytest.raises(BatchTooLarge, match=str(records.traits.commit_limit)):
            records.commit([organization] * (records.traits.commit_limit + 1))
        assert records.count(Organization, None, deleted=True) == 0

    def test_every_trait_of_the_store_has_a_valid_value(self, records: Records) -> None:
        traits = records.traits
        assert traits.name
        assert {traits.words, traits.vectors} <= {"native", "portable"}
        assert traits.commit_limit > 0

    def test_maintenance_changes_nothing_that_is_read(self, records: Records) -> None:
        rows = make_family("org")
        records.commit([Put(row) for row in rows.values()])
        records.commit([Delete(Session, ("org", "one"))])
        remaining = {name: records.scan(type(row), None, deleted=True) for name, row in rows.items()}
        records.maintain()
        records.maintain()
        assert {name: records.scan(type(row), None, deleted=True) for name, row in rows.items()} == remaining

    def test_a_sound_store_reports_no_problems(self, records: Records) -> None:
        records.commit([Put(row) for row in make_family("org").values()])
        records.commit([Hide(Agent, ("org", "one"), "del", NOON), Delete(Session, ("org", "one"))])
        assert records.find_problems() == []

    def test_the_error_of_a_closed_store_says_that_it_is_closed(self, records: Records) -> None:
        put_memory(records)
        records.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            records.commit([Patch(Memory, MEMORY, {"text": "x"})])
        with pytest.raises(StoreUnavailable, match="closed"):
            read_memory(records)
        records.close()
