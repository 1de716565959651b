"""Finds rows in the table: by key, by guard, by an index, or by reading a whole partition."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from everhold.adapters.dynamodb.client import Dynamo
from everhold.adapters.dynamodb.head import Stage, StageOutcome, read_head
from everhold.adapters.dynamodb.items import (
    INDEXES,
    LAYOUTS,
    Item,
    ItemKey,
    Layout,
    encode_key,
    encode_value,
    get_item_key,
    list_partitions,
)
from everhold.adapters.dynamodb.staging import choose_version, get_blob
from everhold.errors import NotFound, StoreDamaged
from everhold.model import Organization
from everhold.model.base import Row
from everhold.ports.blobs import Blobs
from everhold.schema.catalog import get_table
from everhold.schema.operations import Condition, Op, Where
from everhold.schema.rows import Key
from everhold.schema.table import TENANT, Table

# How many values of a list are queried one by one; for more, the range that contains them all is read.
_FEW = 40


class _Stages:
    """The outcomes of commits of several transactions. The head is read only when a staged item is found."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._stage: Stage | None = None

    def read_outcome(self, name: str) -> StageOutcome | None:
        """Return the outcome of a commit; None if its items have been settled in the meantime."""
        if self._stage is None or self._stage.name != name:
            self._stage = read_head(self._dynamo).stage
        return self._stage.outcome if self._stage is not None and self._stage.name == name else None


class Finder:
    """Finds rows. They may include rows that do not meet the conditions; the caller checks them.

    A row whose blob is missing or damaged raises an error, or is reported to `unreadable` if that is set.
    """

    def __init__(self, dynamo: Dynamo, blobs: Blobs, unreadable: Callable[[str], None] | None = None) -> None:
        self._dynamo = dynamo
        self._blobs = blobs
        self._unreadable = unreadable

    # items

    def _read_row(self, layout: Layout, item: Item, stages: _Stages) -> Row | None:
        visible = self._resolve(item, stages)
        blob = get_blob(visible)
        if visible is None or blob is None:
            return None if visible is None else layout.decode(visible)
        try:
            content = self._blobs.get(*blob)
        except NotFound:  # a commit may have replaced the row and deleted its blob
            changed = self._dynamo.get(get_item_key(item))
            if changed == item:
                raise
            return None if changed is None else self._read_row(layout, changed, stages)
        return layout.decode({**visible, "row": {"S": content.decode().partition("\n")[2]}})

    def _resolve(self, item: Item, stages: _Stages) -> Item | None:
        while "stage" in item:
            outcome = stages.read_outcome(item["stage"]["S"])
            if outcome is not None:
                return choose_version(item, is_committed=outcome == "done")
            settled = self._dynamo.get(get_item_key(item))
            if settled is None:
                return None
            item = settled
        return item

    def _read_rows(self, layout: Layout, items: Iterable[Item]) -> Iterator[Row]:
        stages = _Stages(self._dynamo)
        for item in items:
            try:
                row = self._read_row(layout, item, stages)
            except (NotFound, StoreDamaged) as error:
                if self._unreadable is None:
                    raise
                self._unreadable(f"{layout.table.name} {get_item_key(item).s}: {error}")
                continue
            if row is not None:
                yield row

    def get(self, layout: Layout, item_keys: Sequence[ItemKey]) -> Iterator[Row]:
        return self._read_rows(layout, self._dynamo.get_many(item_keys))

    def find_rows_in(self, table: Table, columns: Sequence[str], keys: Sequence[Key]) -> Iterable[Row]:
        """Return the rows whose values of these columns are among `keys`, and perhaps others.

        If the columns are exactly those of a unique rule, rows to which the rule does not apply may be missing: they
        cannot break it.
        """
        layout = LAYOUTS[table.name]
        queries = [dict(zip(columns, key, strict=True)) for key in keys]
        if set(table.key) <= set(columns):
            return self.get(layout, [layout.make_key([values[name] for name in table.key]) for values in queries])
        rule = layout.rules_by_columns.get(frozenset(columns))
        if rule is not None:
            return self.get(layout, self._read_guards([layout.make_guard(rule, values) for values in queries]))
        return self._find_by_values(table, queries)

    def _read_guards(self, guards: Sequence[ItemKey]) -> list[ItemKey]:
        """Return the keys of the rows that these guards name."""
        stages = _Stages(self._dynamo)
        visible = (self._resolve(item, stages) for item in self._dynamo.get_many(guards))
        return [ItemKey(item["of"]["S"], item["at"]["S"]) for item in visible if item is not None]

    def _find_by_values(self, table: Table, queries: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
        by_organization: dict[str | None, list[Mapping[str, Any]]] = {}
        for values in queries:
            by_organization.setdefault(values.get(TENANT), []).append(values)
        for organization_id, group in by_organization.items():
            names = [name for name in group[0] if name != TENANT]
            where = [Where(name, Op.IN, list(dict.fromkeys(values[name] for values in group))) for name in names]
            yield from self.find(table, organization_id, where)

    # conditions

    def find(
        self, table: Table, organization_id: str | None, where: Sequence[Condition], *, indexed: bool = True
    ) -> Iterator[Row]:
        """Yield every row that meets the conditions, and perhaps others. `indexed` says whether indexes may be used."""
        layout = LAYOUTS[table.name]
        return self._read_rows(layout, self._read_items(layout, organization_id, where, indexed))

    def _read_items(
        self, layout: Layout, organization_id: str | None, where: Sequence[Condition], indexed: bool
    ) -> Iterable[Item]:
        table = layout.table
        if layout.has_tenant_partitions:
            if organization_id is None:
                ids = (row.__dict__["id"] for row in self.find(get_table(Organization), None, ()))
                return (item for tenant in ids for item in self._read_items(layout, tenant, where, indexed))
            return self._read_organization(layout, organization_id, where, indexed)
        if table.generated:
            return self._read_numbered(layout, organization_id, where)
        return self._dynamo.query(layout.partition({}))

    def _read_organization(
        self, layout: Layout, organization_id: str, where: Sequence[Condition], indexed: bool
    ) -> Iterable[Item]:
        partition = layout.partition({TENANT: organization_id})
        values = _collect_values(where)
        first = layout.sort_key_columns[0]
        if first in values:
            return self._read_by_key(layout, partition, values[first])
        lookup = self._choose_lookup(layout, values) if indexed else None
        return self._dynamo.query(partition) if lookup is None else self._query_prefixes(partition, *lookup)

    def _choose_lookup(self, layout: Layout, known: Mapping[str, Sequence[Any]]) -> tuple[str, list[str]] | None:
        """Return an index on a column with few known values, and the prefixes of its entries for them."""
        for index, columns in layout.lookups.items():
            values = known.get(columns[0])
            if values is not None and len(values) <= _FEW and None not in values:
                return index, [f"{encode_value(value)}#" for value in values]
        return None

    def _read_by_key(self, layout: Layout, partition: str, values: Sequence[Any]) -> Iterable[Item]:
        texts = sorted({encode_value(value) for value in values if value is not None})
        if len(layout.sort_key_columns) == 1:
            return self._dynamo.get_many([ItemKey(partition, text) for text in texts])
        if len(texts) <= _FEW:
            return self._query_prefixes(partition, None, [f"{text}#" for text in texts])
        last = max(f"{text}$" for text in texts)  # "$" comes after "#", but some characters come before both
        return self._dynamo.query(partition, between=(texts[0], last))

    def _query_prefixes(self, partition: str, index: str | None, prefixes: Iterable[str]) -> Iterator[Item]:
        for prefix in dict.fromkeys(prefixes):
            yield from self._dynamo.query(partition, index=index, prefix=prefix)

    def _read_numbered(self, layout: Layout, organization_id: str | None, where: Sequence[Condition]) -> Iterator[Item]:
        table = layout.table
        assert table.generated is not None
        numbers = _collect_values(where).get(table.generated)
        if numbers is not None:
            keys = [layout.make_key((number,)) for number in numbers if isinstance(number, int)]
            yield from self._dynamo.get_many(keys)
            return
        lookup = self._choose_lookup(layout, _collect_values(where))
        bounds = [condition for condition in where if isinstance(condition, Where) and condition.op in (Op.GT, Op.GE)]
        after = max((bound.value for bound in bounds if bound.field == table.generated), default=0)
        after = max(after, 0)
        last = read_head(self._dynamo).generated.get(table.name, 0)
        begin = layout.partition({table.generated: after})
        has_begun = False
        for partition in list_partitions(table, last):
            has_begun = has_begun or partition == begin
            if not has_begun:
                continue
            if lookup is not None:
                yield from self._query_prefixes(partition, *lookup)
                continue
            if partition == begin and after > 0:
                yield from self._dynamo.query(partition, between=(encode_key([after]), "=" + "9" * 20))
            elif organization_id is not None:
                yield from self._query_prefixes(partition, INDEXES[0], [f"{encode_value(organization_id)}#"])
            else:
                yield from self._dynamo.query(partition)


def _collect_values(where: Sequence[Condition]) -> dict[str, Sequence[Any]]:
    """Return the possible values of each field that a condition compares with = or IN."""
    values: dict[str, Sequence[Any]] = {}
    for condition in where:
        if not isinstance(condition, Where):
            continue
        if condition.op is Op.EQ and condition.value is not None:
            values[condition.field] = [condition.value]
        elif condition.op is Op.IN and condition.field not in values:
            values[condition.field] = list(condition.value)
    return values
