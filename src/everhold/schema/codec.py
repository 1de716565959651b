"""From entities to rows of plain values and back, by tables of functions per store."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from types import CodeType
from typing import Any, Generic, TypeVar, cast

from everhold.errors import StoreDamaged
from everhold.model.base import Row
from everhold.schema.catalog import table_of
from everhold.schema.table import Kind

R = TypeVar("R", bound=Row)
Convert = Callable[[Any], Any]


def json_text(value: Any) -> str:
    """Compact JSON, any language's letters as they are."""
    return "{}" if value == {} else "[]" if value == [] else _encode(value)


def json_value(text: str) -> Any:
    """Decode what `json_text` wrote. Most values are empty."""
    return {} if text == "{}" else [] if text == "[]" else decode_json(text)


def decode_json(text: str) -> Any:
    """Decode JSON that a store holds. StoreDamaged if it is malformed, which the engine never writes."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoreDamaged(
            f"the store holds JSON that cannot be read ({error})", remedy="restore it from a backup"
        ) from None


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Codec(Generic[R]):
    """How one entity is written to and read from one store."""

    def __init__(self, entity: type[R], encoders: Mapping[Kind, Convert], decoders: Mapping[Kind, Convert]) -> None:
        self.entity = entity
        self.table = table_of(entity)
        self.encoders = {c.name: encoders[c.kind] for c in self.table.columns if c.kind in encoders}
        self.decoders = {c.name: decoders[c.kind] for c in self.table.columns if c.kind in decoders}
        self.written = tuple(name for name in self.table.names if name != self.table.drawn)
        self._readers: dict[tuple[str, ...], Callable[..., tuple[Any, ...]]] = {}

    # Made when first used: most processes use few of the tables, and making all of them delays opening a store.

    @cached_property
    def _values(self) -> Callable[[dict[str, Any]], list[Any]]:
        return _values_of(self.written, self.encoders)

    @cached_property
    def _fields(self) -> Callable[..., dict[str, Any]]:
        return _fields_of(self.table.names, self.decoders)

    def encode(self, row: Row) -> list[Any]:
        """The values of `written`: all columns but the one the store draws."""
        return self._values(row.__dict__)

    def encode_value(self, column: str, value: Any) -> Any:
        convert = self.encoders.get(column)
        return value if convert is None or value is None else convert(value)

    def decode(self, values: Sequence[Any]) -> R:
        """A row as its entity. What the store holds was checked when it was written, so it is not checked again."""
        return self.entity.build_complete(self._fields(*values))

    def reader(self, names: tuple[str, ...]) -> Callable[..., tuple[Any, ...]]:
        """A function from what the store holds of these columns to their values."""
        made = self._readers.get(names)
        if made is None:
            made = self._readers[names] = _tuple_of(names, self.decoders)
        return made


# Every row written or read passes one of these, so they are written out column by column, from the catalog's names.


def _values_of(names: Sequence[str], encoders: Mapping[str, Convert]) -> Callable[[dict[str, Any]], list[Any]]:
    """A function from the fields of a row to the values that the store holds."""
    made: dict[str, Any] = {f"encode_{name}": encode for name, encode in encoders.items()}
    encoded = {name: f"None if (it := row[{name!r}]) is None else encode_{name}(it)" for name in encoders}
    values = ", ".join(encoded.get(name, f"row[{name!r}]") for name in names)
    exec(_compile(f"def values(row): return [{values}]"), made)
    return cast("Callable[[dict[str, Any]], list[Any]]", made["values"])


def _fields_of(names: Sequence[str], decoders: Mapping[str, Convert]) -> Callable[..., dict[str, Any]]:
    """A function from the values that the store holds to the fields of a row."""
    fields = ", ".join(f"{name!r}: {value}" for name, value in _decoded(names, decoders).items())
    return cast("Callable[..., dict[str, Any]]", _made(names, f"{{{fields}}}", decoders))


def _tuple_of(names: Sequence[str], decoders: Mapping[str, Convert]) -> Callable[..., tuple[Any, ...]]:
    """A function from the values that the store holds to a tuple of them."""
    values = "".join(f"{value}, " for value in _decoded(names, decoders).values())
    return cast("Callable[..., tuple[Any, ...]]", _made(names, f"({values})", decoders))


def _decoded(names: Sequence[str], decoders: Mapping[str, Convert]) -> dict[str, str]:
    return {name: f"None if {name} is None else decode_{name}({name})" if name in decoders else name for name in names}


def _made(names: Sequence[str], value: str, decoders: Mapping[str, Convert]) -> Any:
    made: dict[str, Any] = {f"decode_{name}": decode for name, decode in decoders.items()}
    exec(_compile(f"def function({', '.join(names)}): return {value}"), made)
    return made["function"]


@cache
def _compile(source: str) -> CodeType:
    """Return the code of a definition; every store of one kind that a process opens shares it."""
    return compile(source, "<codec>", "exec")
