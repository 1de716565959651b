"""Converts entities to rows of plain values and back, with tables of functions per store."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from types import CodeType
from typing import Any, Generic, TypeVar, cast

from everhold.errors import StoreDamaged
from everhold.model.base import Row
from everhold.schema.catalog import get_table
from everhold.schema.table import Kind

R = TypeVar("R", bound=Row)
Convert = Callable[[Any], Any]


def encode_json(value: Any) -> str:
    """Return compact JSON; letters of any language are not escaped."""
    # Most values are empty, and a comparison is much cheaper than the encoder.
    return "{}" if value == {} else "[]" if value == [] else _encode(value)


def decode_json(text: str) -> Any:
    """Return the value of stored JSON. Raise StoreDamaged if it is malformed, because the engine never writes such
    JSON."""
    if text == "{}":
        return {}
    if text == "[]":
        return []
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoreDamaged(
            f"the store holds JSON that cannot be read ({error})", remedy="restore it from a backup"
        ) from None


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Codec(Generic[R]):
    """Encodes and decodes the rows of one entity for one store."""

    def __init__(self, entity: type[R], encoders: Mapping[Kind, Convert], decoders: Mapping[Kind, Convert]) -> None:
        self.entity = entity
        self.table = get_table(entity)
        self.encoders = {c.name: encoders[c.kind] for c in self.table.columns if c.kind in encoders}
        self.decoders = {c.name: decoders[c.kind] for c in self.table.columns if c.kind in decoders}
        self.written_columns = tuple(name for name in self.table.names if name != self.table.generated)
        self._decoders_of_names: dict[tuple[str, ...], Callable[..., tuple[Any, ...]]] = {}

    # Built on first use: most processes use few of the tables, and building all functions delays opening a store.

    @cached_property
    def _encode_row(self) -> Callable[[dict[str, Any]], list[Any]]:
        return _make_row_encoder(self.written_columns, self.encoders)

    @cached_property
    def _decode_row(self) -> Callable[..., dict[str, Any]]:
        return _make_row_decoder(self.table.names, self.decoders)

    def encode(self, row: Row) -> list[Any]:
        """Return the values of `written_columns`: all columns except the one that the store generates."""
        return self._encode_row(row.__dict__)

    def encode_value(self, column: str, value: Any) -> Any:
        convert = self.encoders.get(column)
        return value if convert is None or value is None else convert(value)

    def decode(self, values: Sequence[Any]) -> R:
        """Return a row as its entity, without validation: the values were validated when they were written."""
        return self.entity.build_complete(self._decode_row(*values))

    def make_decoder(self, names: tuple[str, ...]) -> Callable[..., tuple[Any, ...]]:
        """Return a function that decodes the stored values of these columns."""
        decode = self._decoders_of_names.get(names)
        if decode is None:
            decode = self._decoders_of_names[names] = _make_tuple_decoder(names, self.decoders)
        return decode


# Every row that is written or read passes one of these functions. Generated code with one expression per column is
# several times faster than a loop over the columns. The names come from the catalog, never from a caller.


def _make_row_encoder(names: Sequence[str], encoders: Mapping[str, Convert]) -> Callable[[dict[str, Any]], list[Any]]:
    """Return a function from the fields of a row to its stored values."""
    namespace: dict[str, Any] = {f"encode_{name}": encode for name, encode in encoders.items()}
    expressions = {name: f"None if (it := row[{name!r}]) is None else encode_{name}(it)" for name in encoders}
    values = ", ".join(expressions.get(name, f"row[{name!r}]") for name in names)
    exec(_compile(f"def values(row): return [{values}]"), namespace)
    return cast("Callable[[dict[str, Any]], list[Any]]", namespace["values"])


def _make_row_decoder(names: Sequence[str], decoders: Mapping[str, Convert]) -> Callable[..., dict[str, Any]]:
    """Return a function from the stored values to the fields of a row."""
    fields = ", ".join(f"{name!r}: {value}" for name, value in _write_expressions(names, decoders).items())
    return cast("Callable[..., dict[str, Any]]", _make_function(names, f"{{{fields}}}", decoders))


def _make_tuple_decoder(names: Sequence[str], decoders: Mapping[str, Convert]) -> Callable[..., tuple[Any, ...]]:
    """Return a function from stored values to a tuple of the decoded ones."""
    values = "".join(f"{value}, " for value in _write_expressions(names, decoders).values())
    return cast("Callable[..., tuple[Any, ...]]", _make_function(names, f"({values})", decoders))


def _write_expressions(names: Sequence[str], decoders: Mapping[str, Convert]) -> dict[str, str]:
    """Return the Python expression that decodes each column."""
    return {name: _write_expression(name, decoders[name]) if name in decoders else name for name in names}


def _write_expression(name: str, decode: Convert) -> str:
    expression = f"None if {name} is None else decode_{name}({name})"
    if decode is not decode_json:
        return expression
    # Most JSON is empty, and comparing it here saves a call.
    return f"{{}} if {name} == '{{}}' else [] if {name} == '[]' else {expression}"


def _make_function(names: Sequence[str], value: str, decoders: Mapping[str, Convert]) -> Any:
    """Return a function with these parameters that returns the expression `value`."""
    namespace: dict[str, Any] = {f"decode_{name}": decode for name, decode in decoders.items()}
    exec(_compile(f"def function({', '.join(names)}): return {value}"), namespace)
    return namespace["function"]


@cache
def _compile(source: str) -> CodeType:
    """Return the compiled definition; all stores of one kind in a process share it."""
    return compile(source, "<codec>", "exec")
