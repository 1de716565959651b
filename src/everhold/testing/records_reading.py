"""The contract of a store of record: how rows are found, ordered and paged."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from everhold.errors import InvalidInput
from everhold.model import Chunk, Memory, Message, Organization, ProjectionState, Tag
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.conditions import is_match
from everhold.schema.operations import AllOf, AnyOf, Condition, Hide, Not, Op, Page, Put, Where
from everhold.testing.records_rows import NOON, add_minutes_to_noon, make_row

TEXTS = ["", "A", "a", "aB", "b", "é", "z", "ก", "\uff5e", "😀", None]
JSON_MEMBERS = ["linux", "Linux", "ลินุกซ์", 1, 1.5, True, None, [], ["linux", 2], {"a": 1}]
FIELDS: dict[str, tuple[type[Row], str, list[Any]]] = {
    "text": (Memory, "speaker", TEXTS),
    "integer": (Message, "position", [0, 1, 2, 2**53 + 1, 2**63 - 1, None]),
    "real": (Memory, "score", [-1e300, -0.5, 0.0, 0.1, 0.1 + 0.2, 1e300, None]),
    "boolean": (Memory, "pinned", [True, False]),
    "time": (
        Memory,
        "expires_at",
        [NOON, NOON + timedelta(microseconds=1), add_minutes_to_noon(1), add_minutes_to_noon(10**8), None],
    ),
    "bytes": (Memory, "hash", [bytes(16), bytes(17), b"\x00" * 15 + b"\x01", b"\xff" * 16, b"\x7f" * 32, None]),
    "object": (Memory, "metadata", [{}, {"a": 1}, {"a": [1]}, {"b": None}]),
    "list": (Memory, "aliases", [[], ["a"], ["a", "B"], ["ก"]]),
    "inside json": (Memory, "metadata.device.os", JSON_MEMBERS),
}
CONTAINED_VALUES = ["", "a", "B", "É", "ก", "ลินุก", 1, 2, True, None, "linux", "LINUX"]
COMPARISONS = [Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE]
ORDERS: dict[str, list[Any]] = {
    "text": ["Z", "a", "B", "é", "z", "ก", "\uff5e", "😀", "", "a b", "a!"],
    "revision": [0, 10, 9, 2**63 - 1, 2**53, 2**53 + 1, 1],
    "importance": [0.0, 1.0, 0.1, 0.1 + 0.2, 0.3, 5e-324],
    "pinned": [True, False, True],
    "created_at": [NOON, NOON - timedelta(microseconds=1), add_minutes_to_noon(-(10**8)), add_minutes_to_noon(5)],
    "kind": ["observation", "fact", "plan", "Fact"],
}


def put_values(records: Records, entity: type[Row], field: str, values: Sequence[Any]) -> list[Row]:
    """Put rows `0`, `1`, … that have these values in a field, or inside its JSON."""
    rows: list[Row] = []
    for number, value in enumerate(values):
        name, _, path = field.partition(".")
        for member in reversed(path.split(".")) if path else ():
            value = {member: value}  # noqa: PLW2901 — wrapped from the inside out
        rows.append(make_row(entity, "org", str(number), **{name: value}))
    records.commit([Put(make_row(Organization, "org", "org")), *map(Put, rows)])
    return rows


def get_ids(rows: Sequence[Any]) -> list[str]:
    return [row.id for row in rows]


def make_memories(number: int) -> list[Memory]:
    """Return memories with many equal values in every field that can order them."""
    return [
        make_row(
            Memory,
            "org",
            f"{(index * 7) % number:03}",
            created_at=add_minutes_to_noon(index // 4),
            importance=index % 3 / 2,
            revision=index % 5,
            kind="fact" if index % 2 else "plan",
            pinned=index % 3 == 0,
            metadata={"third": index % 3 == 0},
        )
        for index in range(number)
    ]


class ReadingContract:
    """Conditions, orders, cursors, and hidden rows."""

    @pytest.mark.parametrize("kind", FIELDS)
    @pytest.mark.parametrize("op", COMPARISONS)
    def test_every_comparison_works_on_every_kind_of_field(self, records: Records, kind: str, op: Op) -> None:
        entity, field, values = FIELDS[kind]
        rows = put_values(records, entity, field, values)
        for value in values:
            self._assert_same_rows(records, rows, [Where(field, op, value)])

    @pytest.mark.parametrize("kind", FIELDS)
    def test_an_in_condition_works_on_every_kind_of_field(self, records: Records, kind: str) -> None:
        entity, field, values = FIELDS[kind]
        rows = put_values(records, entity, field, values)
        for value in ([], values[:1], values[1:3], values[-1:], [None], values, [*values[:2], None]):
            self._assert_same_rows(records, rows, [Where(field, Op.IN, value)])

    @pytest.mark.parametrize("kind", ["text", "list", "inside json"])
    def test_contains_finds_parts_of_texts_and_items_of_lists(self, records: Records, kind: str) -> None:
        entity, field, values = FIELDS[kind]
        rows = put_values(records, entity, field, values)
        for value in CONTAINED_VALUES:
            self._assert_same_rows(records, rows, [Where(field, Op.CONTAINS, value)])

    def test_a_comparison_with_an_absent_value_is_false_and_its_negation_true(self, records: Records) -> None:
        rows = put_values(records, Memory, "expires_at", [None, add_minutes_to_noon(1), add_minutes_to_noon(3)])
        soon = Where("expires_at", Op.LT, add_minutes_to_noon(2))
        absent, near, far = ([row] for row in rows)
        for where, expected in (
            (soon, near),
            (Not(soon), absent + far),
            (Not(Not(soon)), near),
            (AnyOf((soon, Where("expires_at", Op.EQ, None))), absent + near),
            (Not(AllOf((soon, Where("text", Op.EQ, "")))), rows),
            (AnyOf(()), []),
            (AllOf(()), rows),
        ):
            assert get_ids(records.scan(Memory, "org", [where])) == sorted(row.__dict__["id"] for row in expected), (
                where
            )
            self._assert_same_rows(records, rows, [where])

    def test_conditions_on_json_paths_can_be_combined(self, records: Records) -> None:
        rows = put_values(records, Memory, "metadata", [{}, {"x": 1}, {"x": 2, "y": None}])
        is_large = Where("metadata.x", Op.GE, 2)
        for where in (Not(is_large), AnyOf((is_large, Where("metadata", Op.EQ, {}))), AllOf((Not(is_large),))):
            self._assert_same_rows(records, rows, [where, Where("pinned", Op.EQ, False)])

    def _assert_same_rows(self, records: Records, rows: list[Row], where: Sequence[Condition]) -> None:
        """Assert that the store finds the same rows as the conditions evaluated in Python."""
        entity = type(rows[0])
        expected = sorted(row.__dict__["id"] for row in rows if is_match(row, where))
        assert get_ids(records.scan(entity, "org", where)) == expected, where
        assert records.count(entity, "org", where) == len(expected), where
        assert sorted(records.columns(entity, "org", ["id"], where)) == [(row_id,) for row_id in expected], where

    def test_an_absent_value_equals_only_an_absent_value(self, records: Records) -> None:
        put_values(records, Memory, "speaker", ["a", None])
        rows_found = {
            (op, value): get_ids(records.scan(Memory, "org", [Where("speaker", op, value)]))
            for op in COMPARISONS
            for value in ("a", None)
        }
        assert rows_found == {
            (Op.EQ, "a"): ["0"], (Op.EQ, None): ["1"],
            (Op.NE, "a"): ["1"], (Op.NE, None): ["0"],
            (Op.LT, "a"): [], (Op.LT, None): [],
            (Op.LE, "a"): ["0"], (Op.LE, None): [],
            (Op.GT, "a"): [], (Op.GT, None): [],
            (Op.GE, "a"): ["0"], (Op.GE, None): [],
        }  # fmt: skip

    def test_an_in_condition_finds_absent_values_only_if_it_lists_none(self, records: Records) -> None:
        put_values(records, Memory, "speaker", ["a", "b", None])
        assert get_ids(records.scan(Memory, "org", [Where("speaker", Op.IN, ["a", "c"])])) == ["0"]
        assert get_ids(records.scan(Memory, "org", [Where("speaker", Op.IN, ["a", None])])) == ["0", "2"]
        assert records.scan(Memory, "org", [Where("speaker", Op.IN, [])]) == []

    def test_an_in_condition_takes_70000_values(self, records: Records) -> None:
        put_values(records, Memory, "speaker", ["7", "69999", "x"])
        values = [str(number) for number in range(70_000)]
        assert get_ids(records.scan(Memory, "org", [Where("speaker", Op.IN, values)])) == ["0", "1"]

    def test_text_is_contained_in_any_case(self, records: Records) -> None:
        put_values(records, Memory, "text", ["Straße", "STRASSE 5", "100% _sure_", "กาแฟเย็น"])
        for part, expected in {
            "strasse": ["0", "1"],
            "0%": ["2"],
            "_": ["2"],
            "%": ["2"],
            "แฟ": ["3"],
            "": list("0123"),
        }.items():
            assert get_ids(records.scan(Memory, "org", [Where("text", Op.CONTAINS, part)])) == expected, part

    def test_true_and_1_differ_inside_json(self, records: Records) -> None:
        put_values(records, Memory, "metadata.x", [1, True, 1.0, "1"])
        assert get_ids(records.scan(Memory, "org", [Where("metadata.x", Op.EQ, 1)])) == ["0", "2"]
        assert get_ids(records.scan(Memory, "org", [Where("metadata.x", Op.EQ, True)])) == ["1"]

    def test_a_missing_json_path_counts_as_an_absent_value(self, records: Records) -> None:
        put_values(records, Memory, "metadata", [{}, {"a": 1}, {"a": {"b": 2}}])
        assert get_ids(records.scan(Memory, "org", [Where("metadata.a.b", Op.EQ, None)])) == ["0", "1"]

    def test_all_conditions_must_hold(self, records: Records) -> None:
        records.commit([Put(make_row(Organization, "org", "org")), *map(Put, make_memories(30))])
        where = [Where("kind", Op.EQ, "fact"), Where("metadata.third", Op.EQ, True), Where("revision", Op.LT, 3)]
        self._assert_same_rows(records, list(records.scan(Memory, "org")), where)
        self._assert_same_rows(records, list(records.scan(Memory, "org")), [*where, Where("revision", Op.GT, 3)])

    def test_columns_are_returned_in_the_order_of_the_request(self, records: Records) -> None:
        row = make_row(Memory, "org", "m", metadata={"a": [1]}, pinned=True, expires_at=NOON, hash=b"0" * 16, score=0.5)
        records.commit([Put(make_row(Organization, "org", "org")), Put(row)])
        names = ["pinned", "metadata", "id", "expires_at", "hash", "score", "speaker"]
        expected = (True, {"a": [1]}, "m", NOON, b"0" * 16, 0.5, None)
        assert list(records.columns(Memory, "org", names)) == [expected]
        assert list(records.columns(Memory, "org", names, [Where("metadata.a", Op.CONTAINS, 1)])) == [expected]
        assert list(records.columns(Memory, "org", ["id"], [Where("text", Op.CONTAINS, "zzz")])) == []

    def test_later_writes_are_seen_while_a_result_is_half_read(self, records: Records) -> None:
        records.commit([Put(make_row(Organization, "org", "org")), *map(Put, make_memories(30))])
        answer = records.columns(Memory, "org", ["id"])
        next(answer)
        records.commit([Put(make_row(Memory, "org", "late"))])
        assert list(records.get(Memory, "org", ["late"])) == ["late"]
        assert records.count(Memory, "org") == 31

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
    def test_rows_are_ordered_by_value_and_then_by_key(self, records: Records, order: str, descending: bool) -> None:
        rows = put_values(records, Memory, order, ORDERS[order])
        rows_found = records.scan(Memory, "org", order=order, descending=descending)
        expected = sorted(rows, key=lambda row: (row.__dict__[order], row.__dict__["id"]), reverse=descending)
        assert rows_found == expected

    def test_without_an_order_rows_come_by_key_and_code_point(self, records: Records) -> None:
        names = ["b", "a", "B", "é", "ก", "\uff5e", "😀", "_", "-", "10", "9", "a-", "a.", "aa"]
        records.commit(
            [Put(make_row(Organization, "org", "org")), *(Put(make_row(Memory, "org", name)) for name in names)]
        )
        assert get_ids(records.scan(Memory, "org")) == sorted(names)
        assert get_ids(records.scan(Memory, "org", descending=True)) == sorted(names, reverse=True)

    @pytest.mark.parametrize("order", [None, "created_at", "importance", "revision", "kind", "pinned", "id"])
    @pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
    def test_pages_lose_and_repeat_nothing(self, records: Records, order: str | None, descending: bool) -> None:
        records.commit([Put(make_row(Organization, "org", "org")), *map(Put, make_memories(23))])
        for where in ([], [Where("metadata.third", Op.EQ, True)], [Where("revision", Op.NE, 2)]):
            all_rows = records.scan(Memory, "org", where, order=order, descending=descending)
            assert len(all_rows) == records.count(Memory, "org", where)
            for size in (1, 4, 23, 50):
                assert self._read_pages(records, where, order, descending, size) == all_rows

    def _read_pages(
        self, records: Records, where: list[Where], order: str | None, descending: bool, size: int
    ) -> list[Memory]:
        rows_found: list[Memory] = []
        after = None
        while batch := records.scan(Memory, "org", where, order=order, descending=descending, after=after, limit=size):
            assert len(batch) <= size
            rows_found += batch
            assert len(rows_found) <= 23, "a page repeats what an earlier one gave"
            last = batch[-1]
            after = Page(last.__dict__[order] if order else None, (last.organization_id, last.id))
        return rows_found

    def test_a_cursor_works_after_its_row_is_deleted(self, records: Records) -> None:
        records.commit([Put(make_row(Organization, "org", "org")), *map(Put, make_memories(10))])
        rows_found = records.scan(Memory, "org", after=Page(None, ("org", "0045")))
        assert get_ids(rows_found) == ["005", "006", "007", "008", "009"]

    def test_a_limit_counts_only_rows_that_meet_every_condition(self, records: Records) -> None:
        rows = [make_row(Memory, "org", f"{index:04}", metadata={"rare": index % 100 == 99}) for index in range(1000)]
        records.commit([Put(make_row(Organization, "org", "org")), *map(Put, rows)])
        rows_found = records.scan(Memory, "org", [Where("metadata.rare", Op.EQ, True)], limit=4)
        assert get_ids(rows_found) == ["0099", "0199", "0299", "0399"]

    def test_a_limit_of_0_returns_no_rows(self, records: Records) -> None:
        records.commit([Put(make_row(Organization, "org", "org"))])
        assert records.scan(Organization, "org", limit=0) == []

    @pytest.mark.parametrize("order", ["expires_at", "speaker", "unheard_of", "metadata"])
    def test_an_order_by_an_optional_or_unknown_field_is_refused(self, records: Records, order: str) -> None:
        with pytest.raises(InvalidInput, match=order):
            records.scan(Memory, "org", order=order)

    def test_an_unknown_field_is_refused(self, records: Records) -> None:
        with pytest.raises(InvalidInput, match="unheard_of"):
            records.scan(Memory, "org", [Where("unheard_of", Op.EQ, 1)])
        with pytest.raises(InvalidInput, match="unheard_of"):
            records.count(Memory, "org", [Where("unheard_of.inside", Op.EQ, 1)])
        with pytest.raises(InvalidInput, match="unheard_of"):
            list(records.columns(Memory, "org", ["unheard_of"]))

    def test_get_returns_the_existing_rows_and_no_others(self, records: Records) -> None:
        rows = make_memories(5)
        records.commit([Put(make_row(Organization, "org", "org")), *map(Put, rows)])
        assert records.get(Memory, "org", []) == {}
        assert records.get(Memory, "org", ["nowhere", "", "' OR 1=1 --"]) == {}
        by_id = {row.id: row for row in rows}
        assert records.get(Memory, "org", ["001", "003", "001", "no"]) == {
            memory_id: by_id[memory_id] for memory_id in ("001", "003")
        }

    def test_get_takes_more_ids_than_a_statement_may(self, records: Records) -> None:
        rows = [make_row(Memory, "org", f"{index:05}") for index in range(1200)]
        records.commit([Put(make_row(Organization, "org", "org")), *map(Put, rows)])
        memory_ids = [f"{index:05}" for index in range(40_000)]
        assert records.get(Memory, "org", memory_ids) == {row.id: row for row in rows}

    def test_deleted_rows_are_hidden_from_every_read_unless_asked_for(self, records: Records) -> None:
        records.commit([Put(make_row(Organization, "org", "org")), *map(Put, make_memories(4))])
        records.commit([Hide(Memory, ("org", "002"), "del", NOON)])
        live_ids = ["000", "001", "003"]
        all_ids = ["000", "001", "002", "003"]
        for deleted, expected in ((False, live_ids), (True, all_ids)):
            assert sorted(records.get(Memory, "org", all_ids, deleted=deleted)) == expected
            assert get_ids(records.scan(Memory, "org", deleted=deleted)) == expected
            assert sorted(records.columns(Memory, "org", ["id"], deleted=deleted)) == [
                (memory_id,) for memory_id in expected
            ]
            assert records.count(Memory, "org", deleted=deleted) == len(expected)
        assert get_ids(records.scan(Memory, "org", [Where("is_deleted", Op.EQ, True)], deleted=True)) == ["002"]

    def test_rows_that_are_never_hidden_are_always_read(self, records: Records) -> None:
        chunk = make_row(Chunk, "org", "c", owner_id="m", owner_kind="memory", span_start=0, span_end=1, terms="t")
        records.commit([Put(make_row(Organization, "org", "org")), Put(make_row(Memory, "org", "m")), Put(chunk)])
        assert records.scan(Chunk, "org") == [chunk]
        assert records.count(Chunk, "org", deleted=True) == 1

    def test_rows_with_keys_of_several_columns_are_ordered_by_the_whole_key(self, records: Records) -> None:
        tags = [make_row(Tag, "org", "t", memory_id=memory, tag=tag) for memory in "ba" for tag in ("z", "a", "ก")]
        memories = [make_row(Memory, "org", name) for name in "ab"]
        records.commit([Put(make_row(Organization, "org", "org")), *map(Put, [*memories, *tags])])
        rows_found = records.scan(Tag, "org")
        assert [(tag.memory_id, tag.tag) for tag in rows_found] == sorted((tag.memory_id, tag.tag) for tag in tags)
        for before, after in pairwise(rows_found):
            page = Page(None, ("org", before.memory_id, before.tag))
            assert records.scan(Tag, "org", after=page, limit=1) == [after]

    def test_tables_without_a_tenant_are_read_without_an_organization(self, records: Records) -> None:
        states = [ProjectionState(projection=name, generation=1, status="serving") for name in ("b", "a")]
        records.commit([Put(state) for state in states])
        assert records.scan(ProjectionState, None) == states[::-1]
        assert records.count(ProjectionState, None, [Where("projection", Op.GT, "a")]) == 1
