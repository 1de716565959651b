"""The contract of a store of record: every constraint of the catalog, on every table."""

from collections.abc import Mapping
from typing import Any

import pytest

from everhold.errors import AlreadyExists, BrokenReference, InvalidInput
from everhold.model import Agent, Block, Chunk, Cycle, Execution, Memory, Message, Organization, Revision
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.catalog import ENTITIES, TABLES, get_key
from everhold.schema.operations import Delete, Hide, Op, Patch, Put, Unhide, Where
from everhold.schema.table import TENANT, Column, Kind, Reference, Table, Unique
from everhold.testing.records_rows import (
    NOON,
    find_ancestors,
    is_same_row,
    make_family,
    make_full_row,
    make_references,
    make_row,
)

# All unique rules except those for rows that lack a value, which have their own test.
UNIQUES = [(table, unique) for table in TABLES.values() for unique in table.uniques if not unique.unless]
UNIQUES_OF_HIDABLE_ROWS = [(table, unique) for table, unique in UNIQUES if table.soft and not unique.always]
UNIQUES_WITHOUT_ID = [(table, unique) for table, unique in UNIQUES if "id" not in unique.columns]
CONDITIONAL_UNIQUES = [
    (table, unique)
    for table, unique in UNIQUES
    if unique.when and unique.when not in {rule.unless for rule in table.uniques}
]
UNIQUES_WITH_NULLABLE_COLUMNS = [
    (table, unique)
    for table, unique in UNIQUES
    if any(table.by_name[name].nullable and name != unique.when for name in unique.columns)
]
REFERENCES = [(table, reference) for table in TABLES.values() for reference in table.references]
CHECKED_TABLES = [table for table in TABLES.values() if table.name not in {"schema_versions", "organizations"}]


def format_case_id(case: tuple[Table, Unique | Reference]) -> str:
    table, rule = case
    if isinstance(rule, Unique):
        return f"{table.name}.{rule.name}"
    return f"{table.name}.{rule.columns[-1]}.{rule.target}"


def put_and_make_rows(records: Records, table: Table, organization_id: str = "org") -> tuple[Row, Row]:
    """Store a row and the parents of two rows; return both rows, which share no unique value."""
    entity = ENTITIES[table.name]
    two_rows: list[Row] = []
    parents: list[Row] = []
    for name in ("one", "two"):
        rows = make_family(organization_id, name)
        two_rows.append(rows.get(table.name) or make_full_row(entity, organization_id, name))
        parents += (
            parent for parent in find_ancestors(table, two_rows[-1], rows) if not isinstance(parent, Organization)
        )
        if name == "one" and table.tenant and table.references:
            parents.insert(0, rows["organizations"])
    records.commit([Put(row) for row in [*parents, two_rows[0]]])
    return two_rows[0], two_rows[1]


def share_values(
    unique: Unique, first: Row, second: Row, changes: Mapping[str, Any] | None = None, *, except_column: str = ""
) -> Row:
    """Return the second row with the first row's values of a unique rule, except in the column `except_column`."""
    shared = {name: first.__dict__[name] for name in unique.columns if name != except_column}
    return second.model_copy(update={**shared, **(changes or {})})


def make_third_row(table: Table, unique: Unique, second: Row) -> Row:
    """Return a third row to which only this unique rule applies."""
    cleared = {rule.when: None for rule in table.uniques if rule is not unique and rule.when}
    return second.model_copy(update={**cleared, **({"id": "three"} if "id" in second.__dict__ else {})})


class IntegrityContract:
    """Keys, unique rules, references and checks."""

    @pytest.mark.parametrize(("table", "unique"), UNIQUES, ids=map(format_case_id, UNIQUES))
    def test_a_unique_value_is_taken_once(self, records: Records, table: Table, unique: Unique) -> None:
        first, second = put_and_make_rows(records, table)
        with pytest.raises(AlreadyExists) as caught:
            records.commit([Put(share_values(unique, first, second))])
        assert caught.value.table == table.name
        assert caught.value.rule in {unique.name, "key" if "id" in unique.columns else unique.name}
        records.commit([Put(second)])
        if "id" not in unique.columns:
            key = get_key(second) if not table.generated else get_key(records.scan(type(second), "org")[-1])
            with pytest.raises(AlreadyExists):
                records.commit([Patch(type(second), key, {name: first.__dict__[name] for name in unique.columns})])

    @pytest.mark.parametrize(("table", "unique"), UNIQUES_WITHOUT_ID, ids=map(format_case_id, UNIQUES_WITHOUT_ID))
    def test_rows_that_differ_in_one_column_break_no_unique_rule(
        self, records: Records, table: Table, unique: Unique
    ) -> None:
        first, second = put_and_make_rows(records, table)
        for name in unique.columns:
            row = share_values(unique, first, second, except_column=name)
            if table.by_name[name].kind is Kind.INTEGER:
                row = row.model_copy(update={name: first.__dict__[name] ^ 1})
            if name != "owner_kind":
                records.commit([Put(row)])
                if table.name != "memory_access_logs":  # a store may refuse to delete lines of the log
                    records.commit([Delete(type(row), read_key(records, table, row))])

    @pytest.mark.parametrize(("table", "unique"), CONDITIONAL_UNIQUES, ids=map(format_case_id, CONDITIONAL_UNIQUES))
    def test_a_unique_rule_ignores_rows_without_its_value(self, records: Records, table: Table, unique: Unique) -> None:
        first, second = put_and_make_rows(records, table)
        assert unique.when
        cleared = {unique.when: None}
        records.commit(
            [Put(share_values(unique, first, row, cleared)) for row in (second, make_third_row(table, unique, second))]
        )
        assert records.count(type(first), "org") == 3

    @pytest.mark.parametrize(
        ("table", "unique"), UNIQUES_WITH_NULLABLE_COLUMNS, ids=map(format_case_id, UNIQUES_WITH_NULLABLE_COLUMNS)
    )
    def test_absent_values_count_as_equal(self, records: Records, table: Table, unique: Unique) -> None:
        first, second = put_and_make_rows(records, table)
        nullable_columns = [name for name in unique.columns if table.by_name[name].nullable and name != unique.when]
        for names in ([nullable_columns[0]], nullable_columns):
            absent_values: dict[str, Any] = dict.fromkeys(names)
            records.commit([Put(share_values(unique, first, second, absent_values))])
            with pytest.raises(AlreadyExists) as caught:
                records.commit([Put(share_values(unique, first, make_third_row(table, unique, second), absent_values))])
            assert caught.value.rule == unique.name
            records.commit([Delete(type(second), get_key(second))])

    def test_cycles_are_numbered_by_agent_or_else_by_execution(self, records: Records) -> None:
        records.commit(
            [
                Put(make_row(Organization, "org", "org")),
                *(Put(make_row(Agent, "org", agent)) for agent in ("a", "b")),
                *(Put(make_row(Execution, "org", execution)) for execution in ("e", "f")),
            ]
        )

        def put_cycle(name: str, agent: str | None, execution: str, number: int = 0) -> Put:
            return Put(make_row(Cycle, "org", name, agent_id=agent, execution_id=execution, cycle_index=number))

        records.commit(
            [put_cycle("1", "a", "e"), put_cycle("2", "b", "e"), put_cycle("3", None, "e"), put_cycle("4", None, "f")]
        )
        for duplicate, rule in (
            (put_cycle("5", "a", "f"), "agent_cycle"),
            (put_cycle("5", None, "e"), "execution_cycle"),
        ):
            with pytest.raises(AlreadyExists) as caught:
                records.commit([duplicate])
            assert (caught.value.table, caught.value.rule) == ("cycles", rule)
        records.commit([put_cycle("5", None, "e", 1)])
        with pytest.raises(AlreadyExists):
            records.commit([Patch(Cycle, ("org", "5"), {"cycle_index": 0})])
        with pytest.raises(AlreadyExists):
            records.commit([Patch(Cycle, ("org", "1"), {"agent_id": None})])
        records.commit([Patch(Cycle, ("org", "5"), {"agent_id": "a"})])

    @pytest.mark.parametrize(
        ("table", "unique"), UNIQUES_OF_HIDABLE_ROWS, ids=map(format_case_id, UNIQUES_OF_HIDABLE_ROWS)
    )
    def test_a_deleted_row_frees_its_unique_values(self, records: Records, table: Table, unique: Unique) -> None:
        first, second = put_and_make_rows(records, table)
        entity = type(first)
        records.commit([Hide(entity, get_key(first), "del", NOON)])
        records.commit([Put(share_values(unique, first, second))])
        with pytest.raises(AlreadyExists) as caught:
            records.commit([Unhide("org", "del")])
        assert (caught.value.table, caught.value.rule) == (table.name, unique.name)
        records.commit([Hide(entity, get_key(second), "del-2", NOON), Unhide("org", "del")])
        assert records.count(entity, "org") == 1

    @pytest.mark.parametrize(("table", "unique"), UNIQUES, ids=map(format_case_id, UNIQUES))
    def test_another_organization_may_have_the_same_unique_value(
        self, records: Records, table: Table, unique: Unique
    ) -> None:
        first, _ = put_and_make_rows(records, table)
        other, _ = put_and_make_rows(records, table, "other")
        shared = {name: first.__dict__[name] for name in unique.columns}
        assert shared == {name: other.__dict__[name] for name in unique.columns}
        assert records.count(type(first), "org") == records.count(type(first), "other") == 1

    # references

    @pytest.mark.parametrize(("table", "reference"), REFERENCES, ids=map(format_case_id, REFERENCES))
    def test_the_target_of_a_reference_must_exist(self, records: Records, table: Table, reference: Reference) -> None:
        row, parents = make_referring_row(table, reference)
        other_row, other_parents = make_referring_row(table, reference, organization_id="other", name="two")
        records.commit([Put(parent) for parent in parents])
        records.commit([Put(parent) for parent in other_parents])
        wrong_references = [{reference.columns[-1]: "nowhere"}]
        if reference.target != "organizations":
            wrong_references.append({name: other_row.__dict__[name] for name in reference.columns})
        for changes in wrong_references:
            with pytest.raises(BrokenReference):
                records.commit([Put(row.model_copy(update=changes))])
        records.commit([Put(row)])
        if not set(reference.columns) & set(table.key):
            for changes in wrong_references:
                with pytest.raises(BrokenReference):
                    records.commit([Patch(type(row), read_key(records, table, row), changes)])

    @pytest.mark.parametrize(("table", "reference"), REFERENCES, ids=map(format_case_id, REFERENCES))
    def test_purging_a_target_deletes_or_detaches_the_rows_that_refer_to_it(
        self, records: Records, table: Table, reference: Reference
    ) -> None:
        row, parents = make_referring_row(table, reference)
        other, other_parents = make_referring_row(table, reference, organization_id="other")
        records.commit([Put(parent) for parent in [*parents, row, *other_parents, other]])
        target = TABLES[reference.target]
        target_row = next(parent for parent in parents if type(parent) is ENTITIES[target.name])
        row_key = read_key(records, table, row)
        records.commit([Delete(type(target_row), get_key(target_row))])
        stored = [other for other in records.scan(type(row), "org", deleted=True) if get_key(other) == row_key]
        if reference.on_delete == "cascade":
            assert stored == []
        else:
            cleared = row.model_copy(update=dict.fromkeys(reference.columns))
            assert len(stored) == 1
            assert is_same_row(stored[0], cleared)
        assert any(is_same_row(candidate, other) for candidate in records.scan(type(row), "other"))

    def test_the_kind_decides_which_table_a_reference_targets(self, records: Records) -> None:
        rows: list[Row] = [
            make_row(Organization, "org", "org"),
            make_row(Memory, "org", "same"),
            make_row(Message, "org", "same"),
        ]
        chunk = {"span_start": 0, "span_end": 1, "terms": "t", "owner_id": "same"}
        rows += [make_row(Chunk, "org", "c", owner_kind=kind, **chunk) for kind in ("memory", "message")]
        records.commit([Put(row) for row in rows])
        with pytest.raises(BrokenReference):
            records.commit([Put(make_row(Chunk, "org", "c", owner_kind="block", **chunk))])
        records.commit([Delete(Message, ("org", "same"))])
        assert [row.owner_kind for row in records.scan(Chunk, "org")] == ["memory"]

    def test_a_changed_kind_needs_a_target_of_that_kind(self, records: Records) -> None:
        value = {"revision": 1, "value": {"text": "", "aliases": []}, "known_from": NOON, "known_to": NOON}
        revision = make_row(Revision, "org", "r", owner_kind="memory", owner_id="m", **value)
        records.commit([Put(make_row(Organization, "org", "org")), Put(make_row(Memory, "org", "m")), Put(revision)])
        block = {"value": "v", "limit": 9, "description": None, "template_name": None, "metadata": {}}
        changes = {"owner_kind": "block", "value": block}
        with pytest.raises(BrokenReference):
            records.commit([Patch(Revision, ("org", "r"), changes)])
        records.commit([Put(make_row(Block, "org", "m", label="l", value="v"))])
        records.commit([Patch(Revision, ("org", "r"), changes), Delete(Memory, ("org", "m"))])
        assert records.count(Revision, "org") == 1

    def test_a_deleted_row_may_still_be_referred_to(self, records: Records) -> None:
        rows = [make_row(Organization, "org", "org"), make_row(Memory, "org", "m")]
        records.commit([*map(Put, rows), Hide(Memory, ("org", "m"), "del", NOON)])
        chunk = make_row(Chunk, "org", "c", owner_id="m", owner_kind="memory", span_start=0, span_end=1, terms="t")
        records.commit([Put(chunk)])
        assert records.count(Chunk, "org") == 1

    # checks

    @pytest.mark.parametrize("table", CHECKED_TABLES, ids=lambda table: table.name)
    def test_values_out_of_bounds_are_refused(self, records: Records, table: Table) -> None:
        row, _ = put_and_make_rows(records, table)
        key = read_key(records, table, row)
        for column in table.columns:
            if column.name in table.key or column.name in {"version", table.generated}:
                continue
            for value in _make_invalid_values(column):
                with pytest.raises(InvalidInput):
                    records.commit([Patch(type(row), key, {column.name: value})])
        where = [Where(name, Op.EQ, value) for name, value in zip(table.key, key, strict=True)]
        (stored,) = records.scan(type(row), None, where)
        assert is_same_row(stored, row)


def _make_invalid_values(column: Column) -> list[Any]:
    values: list[Any] = [] if column.nullable else [None]
    if column.low is not None:
        values.append(column.low - 1)
    if column.high is not None:
        values.append(column.high + 0.001)
    if column.one_of:
        values.append("unheard_of"[: column.width])
    if column.kind is Kind.TEXT and column.width is not None:
        values.append("ก" * (column.width + 1))
    return values


def make_referring_row(
    table: Table, reference: Reference, organization_id: str = "org", name: str = "one"
) -> tuple[Row, list[Row]]:
    """Return a row that uses this reference and only required others, and the rows it refers to, parents first."""
    rows = make_family(organization_id, name)
    references = {
        column: value
        for column, value in make_references(table, rows).items()
        if not table.by_name[column].nullable or column in reference.columns
    }
    target = rows[reference.target].__dict__
    if reference.target != "organizations":
        pairs = zip(reference.columns, reference.target_columns, strict=True)
        references |= {column: target[target_column] for column, target_column in pairs}
    references |= dict([reference.kind]) if reference.kind else {}
    row = make_full_row(ENTITIES[table.name], organization_id, f"only-{name}", 1, **references)
    parents = find_ancestors(table, row, rows)
    organization = rows["organizations"]
    return row, [organization, *(parent for parent in parents if parent is not organization)]


def read_key(records: Records, table: Table, row: Row) -> tuple[Any, ...]:
    """Return the key of a stored row, with its generated number."""
    if not table.generated:
        return get_key(row)
    return get_key(records.scan(type(row), row.__dict__[TENANT], deleted=True)[-1])
