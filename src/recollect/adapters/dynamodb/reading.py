"""Finding rows in the table: by key, by guard, by an index, or by reading a whole partition."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from recollect.adapters.dynamodb.client import Dynamo
from recollect.adapters.dynamodb.commit import shown
from recollect.adapters.dynamodb.head import STAGES, read_head
from recollect.adapters.dynamodb.items import INDEXES, LAYOUTS, Item, Layout, Place, encoded, joined, stretches
from recollect.model import Organization
from recollect.model.base import Row
from recollect.ports.blobs import Blobs
from recollect.schema.catalog import TABLES, table_of
from recollect.schema.conditions import same
from recollect.schema.operations import Delete, Ensure, Hide, Increment, Op, Operation, Patch, Put, Where
from recollect.schema.rules import key_of, target_values
from recollect.schema.table import TENANT, Table

_FEW = 40
"""How many values of a list are asked for one by one; for more, the stretch that holds them all is read."""


class Finder:
    """Rows of the table as they stand, whether or not the conditions that led to them hold."""

    def __init__(self, dynamo: Dynamo, blobs: Blobs) -> None:
        self._dynamo = dynamo
        self._blobs = blobs
        self._happened: set[str] = set()

    # items

    def row(self, layout: Layout, item: Item) -> Row | None:
        held = self._shown(item)
        if held is None:
            return None
        if "blob" in held:
            content = self._blobs.get(held["whose"]["S"], held["blob"]["S"])
            held = {**held, "row": {"S": content.decode()}}
        return layout.row(held)

    def _shown(self, item: Item) -> Item | None:
        if "stage" not in item:
            return item
        return shown(item, self._has_happened(item["stage"]["S"]))

    def _has_happened(self, name: str) -> bool:
        if name not in self._happened:
            if self._dynamo.get(Place(STAGES, f"{name}#done")) is None:
                return False
            self._happened.add(name)
        return True

    def get(self, layout: Layout, places: Sequence[Place]) -> Iterator[Row]:
        for item in self._dynamo.get_many(places):
            row = self.row(layout, item)
            if row is not None:
                yield row

    def guarded(self, place: Place) -> Place | None:
        """Whose a guard is."""
        item = self._dynamo.get(place)
        held = None if item is None else self._shown(item)
        return None if held is None else Place(held["of"]["S"], held["at"]["S"])

    # conditions

    def rows(self, table: Table, organization_id: str | None, where: Sequence[Where]) -> Iterator[Row]:
        """Every row that meets the conditions, and maybe others."""
        layout = LAYOUTS[table.name]
        for item in self._items(layout, organization_id, where):
            row = self.row(layout, item)
            if row is not None:
                yield row

    def _items(self, layout: Layout, organization_id: str | None, where: Sequence[Where]) -> Iterable[Item]:
        table = layout.table
        if layout.own:
            if organization_id is None:
                organizations = self.rows(table_of(Organization), None, ())
                return (item for one in organizations for item in self._items(layout, one.__dict__["id"], where))
            return self._of_organization(layout, organization_id, where)
        if table.drawn:
            return self._drawn(layout, organization_id, where)
        return self._dynamo.query(layout.partition({}))

    def _of_organization(self, layout: Layout, organization_id: str, where: Sequence[Where]) -> Iterable[Item]:
        partition = layout.partition({TENANT: organization_id})
        given = _given(where)
        first = layout.rest[0]
        if first in given:
            return self._by_key(layout, partition, given[first])
        for index, columns in layout.lookups.items():
            values = given.get(columns[0])
            if values is not None and len(values) <= _FEW and None not in values:
                return self._each(partition, index, [f"{encoded(value)}#" for value in values])
        return self._dynamo.query(partition)

    def _by_key(self, layout: Layout, partition: str, values: Sequence[Any]) -> Iterable[Item]:
        texts = sorted({encoded(value) for value in values if value is not None})
        if len(layout.rest) == 1:
            return self._dynamo.get_many([Place(partition, text) for text in texts])
        if len(texts) <= _FEW:
            return self._each(partition, None, [f"{text}#" for text in texts])
        return self._dynamo.query(partition, between=(texts[0], f"{texts[-1]}$"))  # "$" comes after "#"

    def _each(self, partition: str, index: str | None, prefixes: Iterable[str]) -> Iterator[Item]:
        for prefix in dict.fromkeys(prefixes):
            yield from self._dynamo.query(partition, index=index, prefix=prefix)

    def _drawn(self, layout: Layout, organization_id: str | None, where: Sequence[Where]) -> Iterator[Item]:
        table = layout.table
        assert table.drawn is not None
        numbers = _given(where).get(table.drawn)
        if numbers is not None:
            wanted = [number for number in numbers if isinstance(number, int)]
            yield from self._dynamo.get_many([layout.place((number,)) for number in wanted])
            return
        after = max((one.value for one in where if one.field == table.drawn and one.op in (Op.GT, Op.GE)), default=0)
        last = read_head(self._dynamo).drawn.get(table.name, 0)
        begin = layout.partition({table.drawn: after})
        begun = False
        for partition in stretches(table, last):
            begun = begun or partition == begin
            if not begun:
                continue
            if partition == begin and after > 0:
                yield from self._dynamo.query(partition, between=(joined([after]), "=" + "9" * 20))
            elif organization_id is not None:
                yield from self._each(partition, INDEXES[0], [f"{encoded(organization_id)}#"])
            else:
                yield from self._dynamo.query(partition)


def _given(where: Sequence[Where]) -> dict[str, Sequence[Any]]:
    """The values that a field must have one of, where conditions say so."""
    given: dict[str, Sequence[Any]] = {}
    for one in where:
        if one.op is Op.EQ and one.value is not None:
            given[one.field] = [one.value]
        elif one.op is Op.IN and one.field not in given:
            given[one.field] = list(one.value)
    return given


class Held:
    """What a commit is planned by: rows read once, most of them together beforehand."""

    def __init__(self, finder: Finder, operations: Sequence[Operation]) -> None:
        self._finder = finder
        self._rows: dict[Place, Row | None] = {}
        self._fetch(operations)

    def _fetch(self, operations: Sequence[Operation]) -> None:
        wanted: dict[str, set[Place]] = {}
        for table, place in _asked(operations):
            wanted.setdefault(table.name, set()).add(place)
        for name, places in wanted.items():
            layout = LAYOUTS[name]
            self._rows.update(dict.fromkeys(places))
            for row in self._finder.get(layout, list(places)):
                self._rows[layout.place(key_of(layout.table, row))] = row

    def having(self, table: Table, values: Mapping[str, Any]) -> list[Row]:
        layout = LAYOUTS[table.name]
        if all(name in values for name in table.key):
            row = self._row(layout, layout.place([values[name] for name in table.key]))
            return [row] if row is not None and _holds(row, values) else []
        for unique in table.uniques:
            if set(values) == {TENANT, *unique.columns} & set(table.by_name):
                return self._guarded(layout, layout.guard(unique, values))
        where = [Where(name, Op.EQ, value) for name, value in values.items() if name != TENANT]
        found = self._finder.rows(table, values.get(TENANT), where)
        return [row for row in found if _holds(row, values)]

    def _guarded(self, layout: Layout, guard: Place) -> list[Row]:
        place = self._finder.guarded(guard)
        row = None if place is None else self._row(layout, place)
        return [] if row is None else [row]

    def _row(self, layout: Layout, place: Place) -> Row | None:
        if place not in self._rows:
            self._rows[place] = next(iter(self._finder.get(layout, [place])), None)
        return self._rows[place]


def _holds(row: Row, values: Mapping[str, Any]) -> bool:
    return all(same(row.__dict__[name], value) for name, value in values.items())


def _asked(operations: Sequence[Operation]) -> Iterator[tuple[Table, Place]]:
    """The keys that a plan of these operations is sure to look at: the rows themselves and what they refer to."""
    for operation in operations:
        match operation:
            case Put(row) | Ensure(row):
                table = table_of(type(row))
                if not table.drawn:
                    yield table, LAYOUTS[table.name].place(key_of(table, row))
                yield from _targets(table, row)
            case Patch() | Increment() | Delete() | Hide():
                table = table_of(operation.entity)
                yield table, LAYOUTS[table.name].place(tuple(operation.key))
            case _:
                pass


def _targets(table: Table, row: Row) -> Iterator[tuple[Table, Place]]:
    for reference in table.references:
        values, target = target_values(reference, row), TABLES[reference.target]
        if values and all(name in values for name in target.key):
            yield target, LAYOUTS[target.name].place([values[name] for name in target.key])
