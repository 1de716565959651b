"""Read rows from the DynamoDB table: by key, by guard, through an index, or by reading a whole partition."""

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

# Up to this many values of a list are queried one by one. For more, one query reads the range that contains them all.
_MAX_SEPARATE_QUERIES = 40

# A sort key after every number: `encode_value` writes a number as "=" and 20 digits.
_AFTER_NUMBERS = "=" + "9" * 20


class _Stages:
    """Looks up whether a commit that takes several transactions has succeeded.

    Most reads meet no staged item, so the head is read only when there is one.
    """

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._stage: Stage | None = None

    def read_outcome(self, name: str) -> StageOutcome | None:
        """Return the outcome of a commit; None if its items have been settled in the meantime."""
        if self._stage is None or self._stage.name != name:
            self._stage = read_head(self._dynamo).stage
        return self._stage.outcome if self._stage is not None and self._stage.name == name else None


class RowReader:
    """Reads rows from the table. The result may include rows that do not meet the conditions: the caller checks them.

    A row whose blob is missing or damaged raises an error. With `report_unreadable`, it is passed to that function
    and left out.
    """

    def __init__(self, dynamo: Dynamo, blobs: Blobs, report_unreadable: Callable[[str], None] | None = None) -> None:
        self._dynamo = dynamo
        self._blobs = blobs
        self._report_unreadable = report_unreadable

    # from items to rows

    def _read_row(self, layout: Layout, item: Item, stages: _Stages) -> Row | None:
        visible_item = self._resolve_stage(item, stages)
        if visible_item is None:
            return None
        blob = get_blob(visible_item)
        if blob is None:
            return layout.decode(visible_item)
        try:
            content = self._blobs.get(*blob)
        except NotFound:  # a commit may have replaced the row and deleted its blob
            current_item = self._dynamo.get(get_item_key(item))
            if current_item == item:
                raise
            return None if current_item is None else self._read_row(layout, current_item, stages)
        # The first line of a blob is the name of the commit that wrote it.
        return layout.decode({**visible_item, "row": {"S": content.decode().partition("\n")[2]}})

    def _resolve_stage(self, item: Item, stages: _Stages) -> Item | None:
        """Return the version of an item that readers may see; None if they may not see any version."""
        while "stage" in item:
            outcome = stages.read_outcome(item["stage"]["S"])
            if outcome is not None:
                return choose_version(item, is_committed=outcome == "done")
            # All items of the commit have been settled since this item was read, so read the item again.
            current_item = self._dynamo.get(get_item_key(item))
            if current_item is None:
                return None
            item = current_item
        return item

    def _read_rows(self, layout: Layout, items: Iterable[Item]) -> Iterator[Row]:
        stages = _Stages(self._dynamo)
        for item in items:
            try:
                row = self._read_row(layout, item, stages)
            except (NotFound, StoreDamaged) as error:
                if self._report_unreadable is None:
                    raise
                self._report_unreadable(f"{layout.table.name} {get_item_key(item).s}: {error}")
                continue
            if row is not None:
                yield row

    def get(self, layout: Layout, item_keys: Sequence[ItemKey]) -> Iterator[Row]:
        return self._read_rows(layout, self._dynamo.get_many(item_keys))

    def find_rows_by_columns(self, table: Table, columns: Sequence[str], keys: Sequence[Key]) -> Iterable[Row]:
        """Return the rows whose values of these columns are among `keys`, and possibly other rows.

        If a unique rule has exactly these columns, the rows are found by the guards of the rule. Then the result lacks
        the rows to which the rule does not apply. That is enough, because the caller only checks whether the rule is
        violated, and such a row cannot violate it.
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
        """Return the keys of the rows to which these guards refer with their attributes `of` and `at`."""
        stages = _Stages(self._dynamo)
        visible_items = (self._resolve_stage(item, stages) for item in self._dynamo.get_many(guards))
        return [ItemKey(item["of"]["S"], item["at"]["S"]) for item in visible_items if item is not None]

    def _find_by_values(self, table: Table, queries: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
        """Yield the rows that have the values of one of the queries, and possibly other rows.

        The queries become one IN condition per column, which also admits the values of different queries in one row.
        """
        by_organization: dict[str | None, list[Mapping[str, Any]]] = {}
        for values in queries:
            by_organization.setdefault(values.get(TENANT), []).append(values)
        for organization_id, group in by_organization.items():
            names = [name for name in group[0] if name != TENANT]
            where = [Where(name, Op.IN, list(dict.fromkeys(values[name] for values in group))) for name in names]
            yield from self.find(table, organization_id, where)

    # by conditions

    def find(
        self, table: Table, organization_id: str | None, where: Sequence[Condition], *, indexed: bool = True
    ) -> Iterator[Row]:
        """Yield every row that meets the conditions, and possibly other rows.

        Pass `indexed=False` while the indexes may lag behind a commit: the whole partition is then read.
        """
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
        return self._dynamo.query(layout.make_partition({}))

    def _read_organization(
        self, layout: Layout, organization_id: str, where: Sequence[Condition], indexed: bool
    ) -> Iterable[Item]:
        partition = layout.make_partition({TENANT: organization_id})
        values = _collect_values(where)
        first_column = layout.sort_key_columns[0]
        if first_column in values:
            return self._read_by_key(layout, partition, values[first_column])
        lookup = self._choose_lookup(layout, values) if indexed else None
        return self._dynamo.query(partition) if lookup is None else self._query_prefixes(partition, *lookup)

    def _choose_lookup(self, layout: Layout, known_values: Mapping[str, Sequence[Any]]) -> tuple[str, list[str]] | None:
        """Return the name of an index whose first column has few known values, and a key prefix for each value."""
        for index, columns in layout.lookups.items():
            values = known_values.get(columns[0])
            # An index has no entry for a row without a value in the first column, so None cannot be looked up in it.
            if values is not None and len(values) <= _MAX_SEPARATE_QUERIES and None not in values:
                return index, [f"{encode_value(value)}#" for value in values]
        return None

    def _read_by_key(self, layout: Layout, partition: str, values: Sequence[Any]) -> Iterable[Item]:
        texts = sorted({encode_value(value) for value in values if value is not None})
        if len(layout.sort_key_columns) == 1:
            return self._dynamo.get_many([ItemKey(partition, text) for text in texts])
        if len(texts) <= _MAX_SEPARATE_QUERIES:
            return self._query_prefixes(partition, None, [f"{text}#" for text in texts])
        # In a sort key, "#" follows the first value. As "$" is the character after "#", all keys that begin with a text
        # come before the text with "$". The text that sorts last may not have the last key: "a!" comes after "a", but
        # the key "a!#" comes before the key "a#". So the end is the maximum of the texts with "$".
        end = max(f"{text}$" for text in texts)
        return self._dynamo.query(partition, between=(texts[0], end))

    def _query_prefixes(self, partition: str, index: str | None, prefixes: Iterable[str]) -> Iterator[Item]:
        for prefix in dict.fromkeys(prefixes):
            yield from self._dynamo.query(partition, index=index, prefix=prefix)

    def _read_numbered(self, layout: Layout, organization_id: str | None, where: Sequence[Condition]) -> Iterator[Item]:
        """Yield items of a table with generated numbers, from the partition of the lowest possible number on."""
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
        after = max(after, 0)  # no number is negative, and a negative one has no partition
        last = read_head(self._dynamo).generated.get(table.name, 0)
        first_partition = layout.make_partition({table.generated: after})
        is_reached = False
        for partition in list_partitions(table, last):
            is_reached = is_reached or partition == first_partition
            if not is_reached:
                continue
            if lookup is not None:
                yield from self._query_prefixes(partition, *lookup)
                continue
            if partition == first_partition and after > 0:
                yield from self._dynamo.query(partition, between=(encode_key([after]), _AFTER_NUMBERS))
            elif organization_id is not None:
                yield from self._query_prefixes(partition, INDEXES[0], [f"{encode_value(organization_id)}#"])
            else:
                yield from self._dynamo.query(partition)


def _collect_values(where: Sequence[Condition]) -> dict[str, Sequence[Any]]:
    """Return, for each field that a condition compares with = or IN, the values that it may have."""
    values: dict[str, Sequence[Any]] = {}
    for condition in where:
        if not isinstance(condition, Where):
            continue
        if condition.op is Op.EQ and condition.value is not None:
            values[condition.field] = [condition.value]
        elif condition.op is Op.IN and condition.field not in values:
            values[condition.field] = list(condition.value)
    return values
