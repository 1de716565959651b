"""The tables and their entities. An entity is imported, and its table built, when it is first used."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from everhold import model
from everhold.model.base import Row
from everhold.schema.declarations import DECLARATIONS, OWNER_TABLES
from everhold.schema.table import Lookup, Table, derive_columns

__all__ = ["CATALOG", "ENTITIES", "OWNER_TABLES", "TABLES", "ByEntity", "get_key", "get_table"]

T = TypeVar("T")

_NAMES = {declaration.entity: name for name, declaration in DECLARATIONS.items()}


class _ByTableName(Mapping[str, T]):
    """A value for each table, in the catalog's order, made by a function when it is used."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make

    def __getitem__(self, name: str) -> T:
        return self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(DECLARATIONS)

    def __len__(self) -> int:
        return len(DECLARATIONS)


class _Catalog(Mapping[type[Row], Table]):
    """The table of each entity. Iterating over it imports every entity."""

    def __getitem__(self, entity: type[Row]) -> Table:
        return get_table(entity)

    def __iter__(self) -> Iterator[type[Row]]:
        return iter(ENTITIES.values())

    def __len__(self) -> int:
        return len(DECLARATIONS)


class ByEntity(dict[type[Row], T]):
    """A value for each entity, made by a function when it is first used."""

    def __init__(self, make: Callable[[type[Row]], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, entity: type[Row]) -> T:
        return self.setdefault(entity, self._make(entity))  # atomic: all threads get the same value


def _build_table(entity: type[Row]) -> Table:
    name = _NAMES[entity.__name__]
    if ENTITIES[name] is not entity:  # another class of the same name
        raise KeyError(entity)
    _, _, key, lookups, uniques, references, generated, internal = DECLARATIONS[name]
    columns = derive_columns(entity)
    if any(column.name == "deletion_id" for column in columns):
        lookups = (*lookups, Lookup(("deletion_id",)))
    return Table(name, columns, key, lookups, uniques, references, generated, internal)


def _get_entity(name: str) -> type[Row]:
    entity: type[Row] = getattr(model, DECLARATIONS[name].entity)
    return entity


_tables = ByEntity(_build_table)
# Tables by entity, entities by table name, and tables by table name.
CATALOG: Mapping[type[Row], Table] = _Catalog()
ENTITIES: Mapping[str, type[Row]] = _ByTableName(_get_entity)
TABLES: Mapping[str, Table] = _ByTableName(lambda name: _tables[_get_entity(name)])


def get_table(entity: type[Row]) -> Table:
    """Return the table of an entity."""
    return _tables[entity]


def get_key(row: Row) -> tuple[Any, ...]:
    """Return the values of a row's key columns."""
    return tuple(row.__dict__[name] for name in _tables[type(row)].key)
