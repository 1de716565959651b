"""Rows as items of one DynamoDB table.

    p  the partition: an organization's rows of one catalog table, a stretch of a drawn table, or all rows of nobody's
    s  the rest of the row's key
    row, and one attribute per column of bytes: its values; or `blob` and `whose`, where they lie if they are too large
    by1 … by5  what some of the catalog's lookups find rows by, followed by `s`: local secondary indexes, which are read
       consistently, unlike global ones

A unique rule is kept by a guard: an item named after the rule and the values, which tells whose they are.
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

Item = dict[str, Any]
"""An item in boto3's low-level form: `{"p": {"S": …}}`."""

INDEXES = ("by1", "by2", "by3", "by4", "by5")
STRETCH = 100_000
"""How many rows of a drawn table share a partition, which may not grow beyond 10 GB."""

_LONGEST_KEY = 1000
"""Bytes of a sort key; DynamoDB allows 1,024."""

_LONGEST_PART, _KEPT_PART = 150, 60
"""Bytes of one value in a key. A longer one is cut and ends in a digest, so that equal ones are still equal."""

_CHOSEN: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "memories": (("user_id", "created_at"), ("session_id",), ("attribute", "user_id"), ("agent_id",), ("deletion_id",)),
}
"""Where there are more lookups than indexes, those that every write or recall needs."""


class Place(NamedTuple):
    """The key of an item."""

    p: str
    s: str

    @property
    def key(self) -> Item:
        return {"p": {"S": self.p}, "s": {"S": self.s}}


def encoded(value: Any) -> str:
    """A value of a key as text in which no separator occurs; numbers and times sort as they count."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        value = clock.micros(value)
    if isinstance(value, int):
        return f"={value + 2**63:020d}"
    text = f"={value}".replace("%", "%25").replace("#", "%23")
    content = text.encode()
    if len(content) <= _LONGEST_PART:
        return text
    kept = content[:_KEPT_PART].decode("utf-8", "ignore")
    return f"{kept}%:{hashlib.sha256(content).hexdigest()}"  # no value has "%:": its "%" is written "%25"


def joined(values: Sequence[Any]) -> str:
    return "#".join(encoded(value) for value in values)


def place_of(item: Mapping[str, Any]) -> Place:
    return Place(item["p"]["S"], item["s"]["S"])


class Layout:
    """Where the rows of one table lie."""

    def __init__(self, table: Table) -> None:
        self.table = table
        # Rows without references may outlive their organization, so scanning each organization would miss them.
        self.own = TENANT in table.key and bool(table.references)
        self.rest = table.key[1:] if self.own else table.key
        chosen = _CHOSEN.get(table.name) or tuple(lookup.columns for lookup in table.lookups)
        first = ((TENANT,),) if table.generated else ()
        self.lookups = dict(zip(INDEXES, (*first, *chosen), strict=False))
        self.bytes_columns = [c.name for c in table.columns if c.kind in (Kind.BYTES, Kind.VECTOR)]
        self.times = [c.name for c in table.columns if c.kind is Kind.TIME]
        self.guarding = _guarding(table)

    def partition(self, values: Mapping[str, Any]) -> str:
        if self.own:
            return f"{encoded(values[TENANT])}#{self.table.name}"
        if self.table.generated:
            return f"*{self.table.name}#{values[self.table.generated] // STRETCH}"
        return f"*{self.table.name}"

    def place(self, key: Sequence[Any]) -> Place:
        values = dict(zip(self.table.key, key, strict=True))
        return Place(self.partition(values), joined([values[name] for name in self.rest]))

    def guards(self, row: Row) -> list[Place]:
        """The guards that a row needs."""
        return [
            self.guard(unique, row.__dict__) for unique in self.table.uniques if is_rule_active(self.table, unique, row)
        ]

    def guard(self, unique: Unique, values: Mapping[str, Any]) -> Place:
        whose = encoded(values[TENANT]) if TENANT in self.table.by_name else "*"
        return Place(f"!{whose}#{self.table.name}", joined([unique.name, *[values[name] for name in unique.columns]]))

    # values

    def body(self, row: Row) -> Item:
        """The values of a row, as attributes."""
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

    def found_by(self, row: Row, place: Place) -> Item:
        """The attributes that the indexes find a row by. A row whose first column is absent is left out."""
        values = row.__dict__
        return {
            index: {"S": _cut(f"{joined([values[name] for name in columns])}#{place.s}")}
            for index, columns in self.lookups.items()
            if values[columns[0]] is not None
        }

    def row(self, item: Mapping[str, Any]) -> Row:
        """The row that the attributes of `body` hold. A column that is younger than the row has its default."""
        values: dict[str, Any] = decode_json(item["row"]["S"])
        if len(values) + len(self.bytes_columns) < len(self.table.columns):
            fields = ENTITIES[self.table.name].model_fields.items()
            young = {name: field.get_default(call_default_factory=True) for name, field in fields if name not in values}
            values |= {name: young[name] for name in young if name not in self.bytes_columns}
        for name in self.times:
            if values[name] is not None:
                values[name] = clock.from_micros(values[name])
        for name in self.bytes_columns:
            held = item.get(f"b_{name}")
            values[name] = None if held is None else bytes(held["B"])
        return ENTITIES[self.table.name].build_complete(values)


def _cut(text: str) -> str:
    return text.encode()[:_LONGEST_KEY].decode("utf-8", "ignore")


def _guarding(table: Table) -> dict[frozenset[str], Unique]:
    """The rule whose guards tell which rows hold values of some columns. They know only rows that the rule is about,
    so they do not tell who refers to a row."""
    own = set(table.by_name)
    referring = [{TENANT, *one.columns, *(one.kind or ())[:1]} & own for one in table.references]
    asked = {frozenset({TENANT, *rule.columns} & own): rule for rule in table.uniques}
    return {columns: rule for columns, rule in asked.items() if columns not in referring}


LAYOUTS: Mapping[str, Layout] = {name: Layout(table) for name, table in TABLES.items()}


def size_of(item: Mapping[str, Any]) -> int:
    """The bytes that DynamoDB counts for an item, or a little more."""
    return sum(len(name.encode()) + 3 + _value_size(value) for name, value in item.items())


def _value_size(value: Mapping[str, Any]) -> int:
    (kind, content), *_ = value.items()
    match kind:
        case "S":
            return len(content.encode("utf-8"))
        case "B":
            return len(content)
        case "L":
            return 3 + sum(1 + _value_size(one) for one in content)
        case "M":
            return 3 + size_of(content)
        case _:
            return 21


def stretches(table: Table, last: int) -> Iterator[str]:
    """The partitions of a drawn table up to a number."""
    for stretch in range(last // STRETCH + 1):
        yield f"*{table.name}#{stretch}"
