"""The contract of a store of record: rules over several fields hold for every kind of write."""

from typing import Any, NamedTuple

import pytest

from everhold.errors import InvalidInput, StaleVersion
from everhold.model import Block, Change, Chunk, Memory, Organization, Revision
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.catalog import ENTITIES, get_key, get_table
from everhold.schema.operations import Ensure, Increment, Operation, Patch, Put
from everhold.testing.records_rows import NOON, VECTOR, add_minutes_to_noon, is_same_row, make_row


class RuleCase(NamedTuple):
    """A row that keeps a rule, and changes each of which breaks it."""

    row: Row
    breaking_changes: tuple[dict[str, Any], ...]


_OWNER = make_row(Memory, "org", "owner", text="owner")
_CASES = (
    RuleCase(
        make_row(Block, "org", "b", label="human", value="v" * 100, limit=2000),
        ({"value": "v" * 3000}, {"limit": 99}),
    ),
    RuleCase(
        make_row(Memory, "org", "m", valid_from=NOON, valid_to=add_minutes_to_noon(1)),
        ({"valid_to": add_minutes_to_noon(-1)}, {"valid_from": add_minutes_to_noon(2)}),
    ),
    RuleCase(
        make_row(Chunk, "org", "c", owner_id="owner", owner_kind="memory", dimensions=384, vector=VECTOR, terms="t"),
        ({"dimensions": 383}, {"vector": VECTOR[2:]}),
    ),
    RuleCase(
        make_row(Revision, "org", "r", owner_kind="memory", owner_id="owner", value={"text": "t", "aliases": []}),
        ({"value": {"text": "t"}}, {"value": {"text": 1, "aliases": []}}),
    ),
    RuleCase(
        make_row(Change, "org", "ch", kind="forget", memory_ids=["owner"], before={"deletion_id": "d"}, after={}),
        ({"before": {}},),
    ),
)
CASES = {get_table(type(case.row)).name: case for case in _CASES}


def put_case(records: Records, case: RuleCase) -> tuple[Any, ...]:
    """Store the row of a case with what it refers to, and return its key."""
    records.commit([Put(make_row(Organization, "org", "org")), Put(_OWNER), Put(case.row)])
    return get_key(case.row)


def read_row(records: Records, row: Row) -> Row:
    key = get_key(row)
    [stored] = [other for other in records.scan(type(row), "org") if get_key(other) == key]
    return stored


class RowRulesContract:
    """No write leaves a row whose values do not fit together."""

    def test_every_rule_over_several_fields_has_a_case(self) -> None:
        assert {name for name, entity in ENTITIES.items() if entity.rules} == set(CASES)
        for case in CASES.values():
            changed = {name for change in case.breaking_changes for name in change}
            assert all(changed & set(rule.fields) for rule in type(case.row).rules)

    @pytest.mark.parametrize("name", CASES)
    def test_a_change_keeps_the_rules_over_several_fields(self, records: Records, name: str) -> None:
        case = CASES[name]
        entity, key = type(case.row), put_case(records, case)
        for changes in case.breaking_changes:
            writes: tuple[Operation, ...] = (Patch(entity, key, changes), Increment(entity, key, {}, changes))
            for write in writes:
                with pytest.raises(InvalidInput, match=name):
                    records.commit([Put(make_row(Memory, "org", "beside")), write])
        assert is_same_row(read_row(records, case.row), case.row)
        assert records.get(Memory, "org", ["beside"]) == {}

    @pytest.mark.parametrize("name", CASES)
    def test_a_new_row_keeps_the_rules_over_several_fields(self, records: Records, name: str) -> None:
        case = CASES[name]
        records.commit([Put(make_row(Organization, "org", "org")), Put(_OWNER)])
        for changes in case.breaking_changes:
            broken_row = case.row.model_copy(update=changes)
            for write in (Put(broken_row), Ensure(broken_row)):
                with pytest.raises(InvalidInput, match=name):
                    records.commit([write])
                with pytest.raises(StaleVersion):  # the first operation that fails is the error
                    records.commit([Patch(Memory, ("org", "gone"), {"text": "x"}), write])

    def test_the_fields_of_a_rule_may_change_together(self, records: Records) -> None:
        key = put_case(records, CASES["blocks"])
        records.commit([Patch(Block, key, {"value": "v" * 3000, "limit": 3000})])
        records.commit([Patch(Block, key, {"value": "v"}), Patch(Block, key, {"limit": 1})])
        with pytest.raises(InvalidInput, match="over its limit of 1;"):
            records.commit([Patch(Block, key, {"value": "vv"}), Patch(Block, key, {"limit": 2})])
        with pytest.raises(InvalidInput, match="over its limit of 0;"):
            records.commit([Increment(Block, key, {"limit": -1})])
        [block] = records.scan(Block, "org")
        assert (block.value, block.limit, block.version) == ("v", 1, 4)

    def test_a_stale_change_is_stale_even_if_it_breaks_a_rule(self, records: Records) -> None:
        key = put_case(records, CASES["blocks"])
        for operation in (Patch(Block, key, {"limit": 0}, version=9), Patch(Block, ("org", "gone"), {"limit": 0})):
            with pytest.raises(StaleVersion):
                records.commit([operation])
        records.commit([Increment(Block, ("org", "gone"), {}, {"limit": 0})])
