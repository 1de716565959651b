"""Rows as items of one DynamoDB table.

    p  the partition: an organization's rows of a table, a range of a table with generated numbers, or a whole table
    s  the rest of the row's key
    row, and one attribute per column of bytes: the values. If they are too large: `blob` and `organization`, the key of
       the blob that has them
    by1 … by5  the values of some of the catalog's lookups, followed by `s`. These are keys of local secondary indexes;
       other indexes cannot be read consistently

A guard enforces a unique rule: an item whose key consists of the rule and the values. Its attributes `of` and `at` are
the key, `p` and `s`, of the row that has them.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from everhold import clock
from everhold.model.base import Row
from everhold.schema.catalog import ENTITIES, TABLES
from everhold.schema.codec import decode_json
from everhold.schema.rules import is_rule_active
from everhold.schema.table import TENANT, Kind, Table, Unique

# An item in boto3's low-level form: `{"p": {"S": …}}`.
Item = dict[str, Any]

INDEXES = ("by1", "by2", "by3", "by4", "by5")
# How many rows of a table with generated numbers share a partition. A partition is limited to 10 GB.
ROWS_PER_PARTITION = 100_000

# The maximum number of bytes of a sort key; DynamoDB allows 1,024.
_MAX_KEY_BYTES = 1000

# The maximum number of bytes of one value in a key. Of a longer value, only the first bytes are kept, followed by a
# digest, so that equal values stay equal.
_MAX_VALUE_BYTES, _KEPT_BYTES = 150, 60

# The lookups that get an index, for tables with more than five: those that every write or recall needs.
_INDEXED_LOOKUPS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "memories": (("user_id", "created_at"), ("session_id",), ("attribute", "user_id"), ("agent_id",), ("deletion_id",)),
}


class ItemKey(NamedTuple):
    """The key of an item."""

    p: str
    s: str

    @property
    def key(self) -> Item:
        return {"p": {"S": self.p}, "s": {"S": self.s}}


def encode_value(value: Any) -> str:
    """Return a key's value as text without separators; numbers and times keep their order."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        value = clock.micros(value)
    if isinstance(value, int):
        return f"={value + 2**63:020d}"
    text = f"={value}".replace("%", "%25").replace("#", "%23")
    content = text.encode()
    if len(content) <= _MAX_VALUE_BYTES:
        return text
    prefix = content[:_KEPT_BYTES].decode("utf-8", "ignore")
    return f"{prefix}%:{hashlib.sha256(content).hexdigest()}"  # no value has "%:": its "%" is written "%25"


def encode_key(values: Sequence[Any]) -> str:
    return "#".join(encode_value(value) for value in values)


def get_item_key(item: Mapping[str, Any]) -> ItemKey:
    return ItemKey(item["p"]["S"], item["s"]["S"])


class Layout:
    """The layout of a table's rows as items."""

    def __init__(self, table: Table) -> None:
        self.table = table
        # Rows without references may outlive their organization, so scanning each organization would miss them.
        self.has_tenant_partitions = TENANT in table.key and bool(table.references)
        self.sort_key_columns = table.key[1:] if self.has_tenant_partitions else table.key
        lookups = _INDEXED_LOOKUPS.get(table.name) or tuple(lookup.columns for lookup in table.lookups)
        tenant_lookup = ((TENANT,),) if table.generated else ()
        self.lookups = dict(zip(INDEXES, (*tenant_lookup, *lookups), strict=False))
        self.bytes_columns = [c.name for c in table.columns if c.kind in (Kind.BYTES, Kind.VECTOR)]
        self.times = [c.name for c in table.columns if c.kind is Kind.TIME]
        self.rules_by_columns = _find_guarded_columns(table)

    def make_partition(self, values: Mapping[str, Any]) -> str:
        if self.has_tenant_partitions:
            return f"{encode_value(values[TENANT])}#{self.table.name}"
        if self.table.generated:
            return f"*{self.table.name}#{values[self.table.generated] // ROWS_PER_PARTITION}"
        return f"*{self.table.name}"

    def make_key(self, key: Sequence[Any]) -> ItemKey:
        values = dict(zip(self.table.key, key, strict=True))
        return ItemKey(self.make_partition(values), encode_key([values[name] for name in self.sort_key_columns]))

    def make_guards(self, row: Row) -> list[ItemKey]:
        """Return the keys of the guards that a row needs."""
        return [
            self.make_guard(unique, row.__dict__)
            for unique in self.table.uniques
            if is_rule_active(self.table, unique, row)
        ]

    def make_guard(self, unique: Unique, values: Mapping[str, Any]) -> ItemKey:
        """Return the key of the guard of a unique rule for these values."""
        tenant = encode_value(values[TENANT]) if TENANT in self.table.by_name else "*"
        return ItemKey(
            f"!{tenant}#{self.table.name}", encode_key([unique.name, *[values[name] for name in unique.columns]])
        )

    # values

    def encode(self, row: Row) -> Item:
        """Return the values of a row as attributes."""
        values = dict(row.__dict__)
        item: Item = {}
        for name in self.bytes_columns:
            content = values.pop(name)
            if content is not None:
                item[f"b_{name}"] = {"B": bytes(content)}
        for name in self.times:
            if values[name] is not None:
                values[name] = clock.micros(values[name])
        item["row"] = {"S": json.dumps(values, ensure_ascii=False, separators=(",", ":"))}
        return item

    def make_index_keys(self, row: Row, item_key: ItemKey) -> Item:
        """Return the attributes of the indexes. An index leaves out rows whose first column is None."""
        values = row.__dict__
        return {
            index: {"S": _cut(f"{encode_key([values[name] for name in columns])}#{item_key.s}")}
            for index, columns in self.lookups.items()
            if values[columns[0]] is not None
        }

    def decode(self, item: Mapping[str, Any]) -> Row:
        """Return the row of the attributes that `encode` made. Columns that were added later get their default."""
        values: dict[str, Any] = decode_json(item["row"]["S"])
        if len(values) + len(self.bytes_columns) < len(self.table.columns):
            fields = ENTITIES[self.table.name].model_fields.items()
            values |= {
                name: field.get_default(call_default_factory=True)
                for name, field in fields
                if name not in values and name not in self.bytes_columns
            }
        for name in self.times:
            if values[name] is not None:
                values[name] = clock.from_micros(values[name])
        for name in self.bytes_columns:
            content = item.get(f"b_{name}")
            values[name] = None if content is None else bytes(content["B"])
        return ENTITIES[self.table.name].build_complete(values)


def _cut(text: str) -> str:
    return text.encode()[:_MAX_KEY_BYTES].decode("utf-8", "ignore")


def _find_guarded_columns(table: Table) -> dict[frozenset[str], Unique]:
    """Return the unique rules by the columns whose rows their guards can find.

    Columns of references are left out: guards exist only for rows that the rule applies to, so they do not find all
    rows that refer to another one.
    """
    names = set(table.by_name)
    reference_columns = [
        {TENANT, *reference.columns, *(reference.kind or ())[:1]} & names for reference in table.references
    ]
    rules = {frozenset({TENANT, *rule.columns} & names): rule for rule in table.uniques}
    return {columns: rule for columns, rule in rules.items() if columns not in reference_columns}


LAYOUTS: Mapping[str, Layout] = {name: Layout(table) for name, table in TABLES.items()}


def measure(item: Mapping[str, Any]) -> int:
    """Return the bytes that DynamoDB counts for an item, or a few more."""
    return sum(len(name.encode()) + 3 + _measure_value(value) for name, value in item.items())


def _measure_value(value: Mapping[str, Any]) -> int:
    (kind, content), *_ = value.items()
    match kind:
        case "S":
            return len(content.encode("utf-8"))
        case "B":
            return len(content)
        case "L":
            return 3 + sum(1 + _measure_value(member) for member in content)
        case "M":
            return 3 + measure(content)
        case _:
            return 21


def list_partitions(table: Table, last: int) -> Iterator[str]:
    """Yield the partitions of a table with generated numbers, up to a number."""
    for partition_number in range(last // ROWS_PER_PARTITION + 1):
        yield f"*{table.name}#{partition_number}"
