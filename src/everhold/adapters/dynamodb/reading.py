"""Finding rows in the table: by key, by guard, by an index, or by reading a whole partition."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from everhold.adapters.dynamodb.client import Dynamo
from everhold.adapters.dynamodb.head import Outcome, Stage, read_head
from everhold.adapters.dynamodb.items import (
    INDEXES,
    LAYOUTS,
    Item,
    Layout,
    Place,
    encoded,
    joined,
    place_of,
    stretches,
)
from everhold.adapters.dynamodb.staging import blob_of, shown
from everhold.errors import NotFound, StoreDamaged
from everhold.model import Organization
from everhold.model.base import Row
from everhold.ports.blobs import Blobs
from everhold.schema.catalog import get_table
from everhold.schema.operations import Condition, Op, Where
from everhold.schema.rows import Key
from everhold.schema.table import TENANT, Table

_FEW = 40
"""How many values of a list are asked for one by one; for more, the stretch that holds them all is read."""


class _Stages:
    """What became of commits of several transactions, as the head tells it; asked for when a staged item is met."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._stage: Stage | None = None

    def outcome(self, name: str) -> Outcome | None:
        """None if the commit's items have been settled since."""
        if self._stage is None or self._stage.name != name:
            self._stage = read_head(self._dynamo).stage
        return self._stage.outcome if self._stage is not None and self._stage.name == name else None


class Finder:
    """Rows of the table as they stand, whether or not the conditions that led to them hold.

    A row whose blob is gone or damaged raises, unless there is an `unreadable` to be told of it.
    """

    def __init__(self, dynamo: Dynamo, blobs: Blobs, unreadable: Callable[[str], None] | None = None) -> None:
        self._dynamo = dynamo
        self._blobs = blobs
        self._unreadable = unreadable

    # items

    def _row(self, layout: Layout, item: Item, stages: _Stages) -> Row | None:
        held = self._shown(item, stages)
        blob = blob_of(held)
        if held is None or blob is None:
            return None if held is None else layout.row(held)
        try:
            content = self._blobs.get(*blob)
        except NotFound:
            changed = self._dynamo.get(place_of(item))
            if changed == item:
                raise
            return None if changed is None else self._row(layout, changed, stages)
        return layout.row({**held, "row": {"S": content.decode().partition("\n")[2]}})

    def _shown(self, item: Item, stages: _Stages) -> Item | None:
        while "stage" in item:
            outcome = stages.outcome(item["stage"]["S"])
            if outcome is not None:
                return shown(item, happened=outcome == "done")
            settled = self._dynamo.get(place_of(item))
            if settled is None:
                return None
            item = settled
        return item

    def _rows(self, layout: Layout, items: Iterable[Item]) -> Iterator[Row]:
        stages = _Stages(self._dynamo)
        for item in items:
            try:
                row = self._row(layout, item, stages)
            except (NotFound, StoreDamaged) as error:
                if self._unreadable is None:
                    raise
                self._unreadable(f"{layout.table.name} {place_of(item).s}: {error}")
                continue
            if row is not None:
                yield row

    def get(self, layout: Layout, places: Sequence[Place]) -> Iterator[Row]:
        return self._rows(layout, self._dynamo.get_many(places))

    def find_rows_in(self, table: Table, columns: Sequence[str], wanted: Sequence[Key]) -> Iterable[Row]:
        """The rows whose values of these columns are among those wanted, and maybe others. If the columns are those of
        a unique rule and of nothing else, rows that the rule is not about may be missing: they break no rule."""
        layout = LAYOUTS[table.name]
        asked = [dict(zip(columns, one, strict=True)) for one in wanted]
        if set(table.key) <= set(columns):
            return self.get(layout, [layout.place([values[name] for name in table.key]) for values in asked])
        rule = layout.guarding.get(frozenset(columns))
        if rule is not None:
            return self.get(layout, self._guarded([layout.guard(rule, values) for values in asked]))
        return self._among(table, asked)

    def _guarded(self, guards: Sequence[Place]) -> list[Place]:
        """Whose these guards are."""
        stages = _Stages(self._dynamo)
        held = (self._shown(item, stages) for item in self._dynamo.get_many(guards))
        return [Place(item["of"]["S"], item["at"]["S"]) for item in held if item is not None]

    def _among(self, table: Table, asked: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
        whose: dict[str | None, list[Mapping[str, Any]]] = {}
        for values in asked:
            whose.setdefault(values.get(TENANT), []).append(values)
        for organization_id, some in whose.items():
            names = [name for name in some[0] if name != TENANT]
            where = [Where(name, Op.IN, list(dict.fromkeys(values[name] for values in some))) for name in names]
            yield from self.rows(table, organization_id, where)

    # conditions

    def rows(
        self, table: Table, organization_id: str | None, where: Sequence[Condition], *, indexed: bool = True
    ) -> Iterator[Row]:
        """Every row that meets the conditions, and maybe others."""
        layout = LAYOUTS[table.name]
        return self._rows(layout, self._items(layout, organization_id, where, indexed))

    def _items(
        self, layout: Layout, organization_id: str | None, where: Sequence[Condition], indexed: bool
    ) -> Iterable[Item]:
        table = layout.table
        if layout.own:
            if organization_id is None:
                found = self.rows(get_table(Organization), None, ())
                return (item for one in found for item in self._items(layout, one.__dict__["id"], where, indexed))
            return self._of_organization(layout, organization_id, where, indexed)
        if table.generated:
            return self._drawn(layout, organization_id, where)
        return self._dynamo.query(layout.partition({}))

    def _of_organization(
        self, layout: Layout, organization_id: str, where: Sequence[Condition], indexed: bool
    ) -> Iterable[Item]:
        partition = layout.partition({TENANT: organization_id})
        given = _given(where)
        first = layout.rest[0]
        if first in given:
            return self._by_key(layout, partition, given[first])
        found = self._by_lookup(layout, given) if indexed else None
        return self._dynamo.query(partition) if found is None else self._each(partition, *found)

    def _by_lookup(self, layout: Layout, given: Mapping[str, Sequence[Any]]) -> tuple[str, list[str]] | None:
        """The index that knows a column of which few values are wanted, and how its entries for them begin."""
        for index, columns in layout.lookups.items():
            values = given.get(columns[0])
            if values is not None and len(values) <= _FEW and None not in values:
                return index, [f"{encoded(value)}#" for value in values]
        return None

    def _by_key(self, layout: Layout, partition: str, values: Sequence[Any]) -> Iterable[Item]:
        texts = sorted({encoded(value) for value in values if value is not None})
        if len(layout.rest) == 1:
            return self._dynamo.get_many([Place(partition, text) for text in texts])
        if len(texts) <= _FEW:
            return self._each(partition, None, [f"{text}#" for text in texts])
        last = max(f"{text}$" for text in texts)  # "$" comes after "#", but some characters come before both
        return self._dynamo.query(partition, between=(texts[0], last))

    def _each(self, partition: str, index: str | None, prefixes: Iterable[str]) -> Iterator[Item]:
        for prefix in dict.fromkeys(prefixes):
            yield from self._dynamo.query(partition, index=index, prefix=prefix)

    def _drawn(self, layout: Layout, organization_id: str | None, where: Sequence[Condition]) -> Iterator[Item]:
        table = layout.table
        assert table.generated is not None
        numbers = _given(where).get(table.generated)
        if numbers is not None:
            wanted = [number for number in numbers if isinstance(number, int)]
            yield from self._dynamo.get_many([layout.place((number,)) for number in wanted])
            return
        found = self._by_lookup(layout, _given(where))
        bounds = [one for one in where if isinstance(one, Where) and one.op in (Op.GT, Op.GE)]
        after = max((one.value for one in bounds if one.field == table.generated), default=0)
        after = max(after, 0)
        last = read_head(self._dynamo).generated.get(table.name, 0)
        begin = layout.partition({table.generated: after})
        begun = False
        for partition in stretches(table, last):
            begun = begun or partition == begin
            if not begun:
                continue
            if found is not None:
                yield from self._each(partition, *found)
                continue
            if partition == begin and after > 0:
                yield from self._dynamo.query(partition, between=(joined([after]), "=" + "9" * 20))
            elif organization_id is not None:
                yield from self._each(partition, INDEXES[0], [f"{encoded(organization_id)}#"])
            else:
                yield from self._dynamo.query(partition)


def _given(where: Sequence[Condition]) -> dict[str, Sequence[Any]]:
    """The values that a field must have one of, where conditions say so."""
    given: dict[str, Sequence[Any]] = {}
    for one in where:
        if not isinstance(one, Where):
            continue
        if one.op is Op.EQ and one.value is not None:
            given[one.field] = [one.value]
        elif one.op is Op.IN and one.field not in given:
            given[one.field] = list(one.value)
    return given
