"""Few looks at a store for the many small questions of a plan.

Most questions are known before they are asked: a row that is put asks for its key, its unique rules and what it refers
to; a row that is met may be asked for what refers to it. They are noted as foreseen, by their kind: a table and some
columns. When the first question of a kind is asked, the store is asked for all that are foreseen of that kind at once.
A question that nobody foresaw is asked alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from everhold.model.base import Row
from everhold.schema.catalog import TABLES, table_of
from everhold.schema.operations import Delete, Ensure, Hide, Increment, Operation, Patch, Put, Unhide
from everhold.schema.rows import Key
from everhold.schema.rules import REFERRERS, child_values, is_storable, key_of, problems, target_values
from everhold.schema.table import TENANT, Table

_Kind = tuple[str, tuple[str, ...]]
_CHECKED = 2048


class Source(Protocol):
    """A store that can answer many questions of one kind together."""

    def having_any(self, table: Table, columns: Sequence[str], wanted: Sequence[Key]) -> Iterable[Row]:
        """Every row, deleted or not, whose values of these columns are among those wanted; an absent value equals an
        absent one."""
        ...


class Prefetch:
    """A `Reader` of what is held while one commit is planned; nothing may change meanwhile."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._answers: dict[_Kind, dict[Key, list[Row]]] = {}
        self._foreseen: dict[_Kind, dict[Key, None]] = {}
        self._met: set[tuple[str, Key]] = set()

    def having(self, table: Table, values: Mapping[str, Any]) -> list[Row]:
        columns = tuple(sorted(values))
        wanted = tuple(values[name] for name in columns)
        answers = self._answers.setdefault((table.name, columns), {})
        if wanted not in answers:
            self._ask(table, columns, wanted, answers)
        return answers[wanted]

    def _ask(self, table: Table, columns: tuple[str, ...], wanted: Key, answers: dict[Key, list[Row]]) -> None:
        foreseen = self._foreseen.pop((table.name, columns), {})
        asked = [one for one in {wanted: None, **foreseen} if one not in answers]
        answers.update((one, []) for one in asked)
        storable = [one for one in asked if all(map(is_storable, one))]
        for row in self._source.having_any(table, columns, storable) if storable else ():
            held = row.__dict__
            found = answers.get(tuple(held[name] for name in columns))
            if found is not None:
                found.append(row)
                self._meet(table, row)

    # what will be asked

    def foresee(self, operations: Iterable[Operation]) -> None:
        """What a commit's operations will ask for."""
        for operation in operations:
            match operation:
                case Put(row) | Ensure(row):
                    table = table_of(type(row))
                    if not table.drawn:
                        self._expect(table, {name: row.__dict__[name] for name in table.key})
                    self.foresee_rules(table, row)
                case Patch() | Increment() | Hide() | Delete():
                    table = table_of(operation.entity)
                    self._expect(table, dict(zip(table.key, operation.key, strict=True)))
                case Unhide():
                    pass

    def foresee_rules(self, table: Table, row: Row) -> None:
        """What a row's unique rules and references will ask for."""
        held = row.__dict__
        for unique in table.uniques:
            if not unique.when or held[unique.when] is not None:
                names = (TENANT, *unique.columns) if TENANT in table.by_name else unique.columns
                self._expect(table, {name: held[name] for name in names})
        for reference in table.references:
            wanted = target_values(reference, row)
            if wanted:
                self._expect(TABLES[reference.target], wanted)

    def free(self, table: Table, number: int) -> None:
        """A number that was drawn just now is no row's key."""
        self._answers.setdefault((table.name, tuple(sorted(table.key))), {})[number,] = []

    def _expect(self, table: Table, values: Mapping[str, Any]) -> None:
        columns = tuple(sorted(values))
        self._foreseen.setdefault((table.name, columns), {})[tuple(values[name] for name in columns)] = None

    def _meet(self, table: Table, row: Row) -> None:
        """A row that was found answers for its key, and may be changed or purged next."""
        key = key_of(table, row)
        if (table.name, key) in self._met:
            return
        self._met.add((table.name, key))
        columns = tuple(sorted(table.key))
        held = row.__dict__
        self._answers.setdefault((table.name, columns), {}).setdefault(tuple(held[name] for name in columns), [row])
        self.foresee_rules(table, row)
        for child, reference in REFERRERS[table.name]:
            self._expect(child, child_values(reference, row))


def problems_of(source: Source, table: Table, rows: Iterable[Row]) -> Iterator[str]:
    """What is wrong with these rows of a table, each by its key; the store is asked for many rows together."""
    rest = iter(rows)
    while some := list(islice(rest, _CHECKED)):
        reader = Prefetch(source)
        for row in some:
            reader.foresee_rules(table, row)
        yield from problems(reader, table, some)
