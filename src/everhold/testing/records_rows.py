"""Rows for tests of stores: a row with every field filled, and a family: rows of all tables that refer to each other.

The values are edge cases: scripts and emoji, the largest and smallest numbers, the first and last moments. A `variant`
is a number that selects other edge cases for the same fields.
"""

import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin
from zlib import compress, crc32

from everhold.model.base import Row
from everhold.schema.catalog import ENTITIES, TABLES, get_table
from everhold.schema.table import TENANT, Column, Kind, Table

R = TypeVar("R", bound=Row)
NOON = datetime(2026, 2, 3, 12, 0, 0, 123456, tzinfo=UTC)

TEXTS = (
    "plain words",
    "กาแฟเย็น ไม่หวาน",
    "emoji 🧠👩‍👩‍👧‍👦 and e\u0301",
    'it\'s "quoted" \\ %s ? $1 {x} ; DROP TABLE--',
    "tab\tline\nreturn\r\u2028\ufeff\U0010ffff",
    " ",
)
INTEGERS = (2**63 - 1, 0, 1, 2**53 + 1, 2**31)
REALS = (1.7976931348623157e308, 5e-324, -0.1, 2.2250738585072014e-308, 0.0, -123456.789)
FRACTIONS = (0.0, 1.0, 1 / 3, 5e-324, 0.1 + 0.2)
TIMES = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2026, 7, 1, 12, 30, 15, 1, tzinfo=UTC),
)
# Half-precision numbers, as stores keep vectors.
VECTOR = struct.pack("<384e", *((number - 192) / 4096 for number in range(384)))
BYTES = (bytes(range(256)), b"\x00", bytes(32), b"\xff" * 32, b"")
LISTS: tuple[list[Any], ...] = ([], [1, "two", None, True, 2.5, [], {}], [[["nested"]]], ["ก", "🧠", ""])
OBJECTS: tuple[dict[str, Any], ...] = (
    {},
    {"กุญแจ 🔑": {"a.b": ["ค่า", {"deep": [None, True, False, 0, -1, 2**53 + 1, 0.1, "", "\u2028", "\\\"'"]}]}},
    {"": "empty key", " ": [], "null": None, "true": True, "one": 1, "one as real": 1.0, "small": 5e-324},
    {"order": {"b": 1, "a": 2}, "large": 1.5e300, "least": -1.7976931348623157e308, "integer": 2**63 - 1},
)
JSON_VALUES: tuple[Any, ...] = ("text", [1, {"a": None}], {"deep": {"er": []}}, 0, 1.5, False, "")
_CHOICES: Mapping[Kind, tuple[Any, ...]] = {
    Kind.INTEGER: INTEGERS,
    Kind.REAL: REALS,
    Kind.BOOLEAN: (True, False),
    Kind.TIME: TIMES,
    Kind.VECTOR: (VECTOR,),
}
_TIMEZONES = ("Asia/Bangkok", "UTC", "America/Argentina/Buenos_Aires")


def _sort_parents_first() -> list[Table]:
    """Return all tables, each after the tables that it refers to."""
    ordered: dict[str, Table] = {}
    while len(ordered) < len(TABLES):
        for table in TABLES.values():
            # A table may refer to itself.
            if {reference.target for reference in table.references} <= ordered.keys() | {table.name}:
                ordered.setdefault(table.name, table)
    return list(ordered.values())


PARENTS_FIRST = _sort_parents_first()


def make_full_row(entity: type[R], organization_id: str, name: str, variant: int = 0, /, **fields: Any) -> R:
    """Return a row with an edge case in every field that `fields` does not set.

    The row is not deleted, and refers to no other row unless `fields` says so. Rows with different names have different
    values in all unique columns.
    """
    table = get_table(entity)
    values: dict[str, Any] = {
        column.name: _make_value(entity, column, f"{table.name}-{name}", variant) for column in table.columns
    }
    values |= {column: None for reference in table.references for column in reference.columns if column != TENANT}
    # Numbers that must be unique are derived from the name; texts contain it already.
    values |= {
        column: crc32(name.encode())
        for unique in table.uniques
        for column in unique.columns
        if table.by_name[column].kind is Kind.INTEGER
    }
    values |= {"is_deleted": False, "deleted_at": None, "deletion_id": None, "version": 1} if table.soft else {}
    if table.tenant:
        values[table.tenant] = organization_id
    if "id" in values and table.tenant != "id":
        values["id"] = name
    values |= _make_consistent_values(table, variant)
    if table.name == "revisions" and fields.get("owner_kind") == "block":
        values["value"] = _BLOCK_VALUE
    if table.generated:
        del values[table.generated]
    return entity.model_validate({**values, **fields})


def make_row(entity: type[R], organization_id: str, name: str, /, **fields: Any) -> R:
    """Return a small row: the required fields, and `fields`."""
    full_row = make_full_row(entity, organization_id, name, **fields).__dict__
    required = {field for field, info in entity.model_fields.items() if info.is_required()}
    required_values = {field: full_row[field] for field in required}
    row_id = {"id": full_row["id"]} if "id" in full_row else {}
    times = {field: NOON for field in ("created_at", "updated_at", "last_active", "known_from") if field in required}
    return entity.model_validate({**required_values, **row_id, **times, **fields})


def make_family(organization_id: str, name: str = "one", variant: int = 0) -> dict[str, Row]:
    """Return a full row of every table that belongs to an organization, by table name. The rows refer to each other.

    Calls share the rows, because building them takes longer than most tests. The dictionary is a copy.
    """
    return dict(_make_shared_family(organization_id, name, variant))


@cache
def _make_shared_family(organization_id: str, name: str, variant: int) -> Mapping[str, Row]:
    rows: dict[str, Row] = {}
    for table in PARENTS_FIRST:
        # A line of the outbox refers to no row; tests of the change feed make their own.
        if table.tenant and table.name != "outbox":
            row_name = organization_id if table.name == "organizations" else name
            fields = make_references(table, rows)
            rows[table.name] = make_full_row(ENTITIES[table.name], organization_id, row_name, variant, **fields)
    return rows


def make_references(table: Table, rows: Mapping[str, Row]) -> dict[str, Any]:
    """Return the fields with which a row of this table refers to `rows`, a row for each table name.

    References to tables that `rows` lacks are left out.
    """
    fields: dict[str, Any] = {}
    for reference in table.references:
        target = rows.get(reference.target)
        if target is not None and reference.target != "organizations" and not fields.keys() & set(reference.columns):
            pairs = zip(reference.columns, reference.target_columns, strict=True)
            fields |= {column: target.__dict__[target_column] for column, target_column in pairs}
            fields |= dict([reference.kind]) if reference.kind else {}
    return fields


def is_same_row(left: Row, right: Row) -> bool:
    """Return whether two rows are equal in all fields but the generated number. 1, 1.0 and True are not equal."""
    generated = get_table(type(left)).generated
    left_values, right_values = dict(left.__dict__), dict(right.__dict__)
    if generated:
        del left_values[generated], right_values[generated]
    return type(left) is type(right) and _is_equal(left_values, right_values)


def _is_equal(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_is_equal, left, right))
    return type(left) is type(right) and bool(left == right)


def find_ancestors(table: Table, row: Row, rows: Mapping[str, Row]) -> list[Row]:
    """Return the rows among `rows` that must be stored before this row, parents first."""
    parents: dict[str, Row] = {}
    for target in _find_targets(table, row):
        if target in rows and target not in parents:
            parent = rows[target]
            for ancestor in find_ancestors(TABLES[target], parent, rows):
                parents.setdefault(get_table(type(ancestor)).name, ancestor)
            parents[target] = parent
    return list(parents.values())


def _find_targets(table: Table, row: Row) -> Iterator[str]:
    """Yield the tables with a row that this row refers to."""
    for reference in table.references:
        is_set = all(row.__dict__[column] is not None for column in reference.columns)
        if is_set and (reference.kind is None or row.__dict__[reference.kind[0]] == reference.kind[1]):
            yield reference.target


def _make_value(entity: type[Row], column: Column, name: str, variant: int) -> Any:
    # Columns whose names differ in length get different edge cases.
    index = variant + len(column.name)
    match column.kind:
        case Kind.TEXT:
            return _make_text(column, name, index)
        case Kind.BYTES:
            return sha256(name.encode()).digest() if column.name == "hash" else BYTES[index % len(BYTES)]
        case Kind.JSON:
            return _make_json(entity, column, index)
    choices = FRACTIONS if column.high == 1 else _CHOICES[column.kind]
    return choices[index % len(choices)]


def _make_text(column: Column, name: str, index: int) -> str:
    if column.one_of:
        return column.one_of[index % len(column.one_of)]
    if column.name == "timezone":
        return _TIMEZONES[index % len(_TIMEZONES)]
    if column.name == "email":
        return f"{name}@ตัวอย่าง.example"
    if column.name in ("sha256", "address"):
        return sha256(name.encode()).hexdigest()
    if column.name.endswith("_id") or column.name in {"id", "superseded_by", "whose"}:
        return f"{column.name}-ก🧠-{name}"[:255]
    text = f"{name} {TEXTS[index % len(TEXTS)]}"
    return text if column.width is None else text[: column.width]


def _make_json(entity: type[Row], column: Column, index: int) -> Any:
    annotation = entity.model_fields[column.name].annotation
    match get_origin(annotation), get_args(annotation):
        case (origin, _) if origin is dict:
            return OBJECTS[index % len(OBJECTS)]
        case (origin, (inner,)) if origin is list:
            return list(TEXTS) if inner is str else LISTS[index % len(LISTS)]
        case (origin, _) if origin is UnionType:  # a list or an object
            return (*LISTS, *OBJECTS)[index % (len(LISTS) + len(OBJECTS))]
    return JSON_VALUES[index % len(JSON_VALUES)]


def _make_consistent_values(table: Table, variant: int) -> dict[str, Any]:
    """Return the values of fields that the rules of their entity relate to each other or limit further."""
    values: dict[str, dict[str, Any]] = {
        "memories": {"valid_from": TIMES[0], "valid_to": TIMES[1]},
        "blocks": {"limit": 2000 + variant},
        "chunks": {"dimensions": 384, "span_start": variant, "span_end": 2**63 - 1},
        "revisions": {"value": {"text": TEXTS[variant % len(TEXTS)], "aliases": list(TEXTS), "content": OBJECTS[1]}},
        "session_archives": {"address": None, "content": compress(f'{{"archive": 1, "id": "{variant}"}}'.encode())},
        "organizations": {"name": f"organization {variant}"},
    }
    return values.get(table.name, {})


# The value of a revision of a block. Revisions of memories have other keys.
_BLOCK_VALUE = {"value": "v", "limit": 9, "description": None, "template_name": None, "metadata": {}}


def add_minutes_to_noon(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)
