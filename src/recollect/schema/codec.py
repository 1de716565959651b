"""From entities to rows of plain values and back, by tables of functions per store."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from recollect.model.base import Row
from recollect.schema.catalog import table_of
from recollect.schema.table import Kind

R = TypeVar("R", bound=Row)
Convert = Callable[[Any], Any]


def json_text(value: Any) -> str:
    """Compact JSON, any language's letters as they are."""
    return _encode(value) if value else ("{}" if isinstance(value, dict) else _encode(value))


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Codec(Generic[R]):
    """How one entity is written to and read from one store."""

    def __init__(self, entity: type[R], encoders: Mapping[Kind, Convert], decoders: Mapping[Kind, Convert]) -> None:
        self.entity = entity
        self.table = table_of(entity)
        self.encoders = {c.name: encoders[c.kind] for c in self.table.columns if c.kind in encoders}
        self.decoders = {c.name: decoders[c.kind] for c in self.table.columns if c.kind in decoders}
        self._columns = [(name, self.encoders.get(name)) for name in self.table.names if name != self.table.drawn]
        self._decode = [
            (at, name, self.decoders[name]) for at, name in enumerate(self.table.names) if name in self.decoders
        ]
        self._names = self.table.names

    @property
    def written(self) -> tuple[str, ...]:
        """The columns an insert names: all but the one the store draws."""
        return tuple(name for name, _ in self._columns)

    def encode(self, row: Row) -> list[Any]:
        values = row.__dict__
        return [
            values[name] if convert is None or values[name] is None else convert(values[name])
            for name, convert in self._columns
        ]

    def encode_value(self, column: str, value: Any) -> Any:
        convert = self.encoders.get(column)
        return value if convert is None or value is None else convert(value)

    def decode(self, values: Sequence[Any]) -> R:
        """A row as its entity. What the store holds was checked when it was written, so it is not checked again."""
        fields = dict(zip(self._names, values, strict=True))
        for _, name, convert in self._decode:
            value = fields[name]
            if value is not None:
                fields[name] = convert(value)
        return self.entity.trusted(fields)

    def decode_value(self, column: str, value: Any) -> Any:
        convert = self.decoders.get(column)
        return value if convert is None or value is None else convert(value)
