"""The plain form of a row's values, the same for every store: texts, numbers and bytes only.

Times are microseconds since 1970, JSON is compact text, and booleans are 0 or 1. SQLite files and backups contain the
values in this form.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from everhold import clock
from everhold.model.base import Row
from everhold.schema.catalog import ByEntity, get_table
from everhold.schema.codec import Codec, Convert, decode_json, encode_json
from everhold.schema.table import Kind

ENCODERS: Mapping[Kind, Convert] = {Kind.TIME: clock.micros, Kind.JSON: encode_json, Kind.BOOLEAN: int}
DECODERS: Mapping[Kind, Convert] = {Kind.TIME: clock.from_micros, Kind.JSON: decode_json, Kind.BOOLEAN: bool}

PlainRow = Sequence[Any]

_decoding: ByEntity[Codec[Any]] = ByEntity(lambda entity: Codec(entity, ENCODERS, DECODERS))
# The same functions with the directions exchanged: `make_decoder` of this codec encodes a tuple of values.
_encoding: ByEntity[Codec[Any]] = ByEntity(lambda entity: Codec(entity, DECODERS, ENCODERS))


def make_plain_encoder(entity: type[Row]) -> Callable[..., PlainRow]:
    """Return a function from the values of an entity's columns, in their order, to their plain form."""
    return _encoding[entity].make_decoder(get_table(entity).names)


def make_plain_decoder(entity: type[Row], names: tuple[str, ...] | None = None) -> Callable[..., tuple[Any, ...]]:
    """Return a function from the plain values of columns to the values of an entity's fields.

    Without `names`, it takes all columns in their order.
    """
    return _decoding[entity].make_decoder(get_table(entity).names if names is None else names)
