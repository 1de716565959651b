"""Pack rows into the content of an archive, compressed lines of JSON, and unpack them."""

import json
import zlib
from collections.abc import Sequence
from typing import Any

from everhold import clock
from everhold.errors import StoreDamaged
from everhold.model.base import Row
from everhold.schema.catalog import ENTITIES, get_table

_VERSION = 1


def pack_rows(rows: Sequence[Row]) -> bytes:
    """Return the compressed rows. Two calls never return the same content."""
    # The id makes the content unique: deleting one archive's file must never delete another's.
    lines: list[Any] = [{"archive": _VERSION, "id": clock.make_id("arc")}]
    lines += [{"table": get_table(type(row)).name, "row": row.model_dump(mode="json")} for row in rows]
    return zlib.compress("\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode())


def unpack_rows(content: bytes) -> list[Row]:
    """Return the rows that `pack_rows` packed; raise StoreDamaged if the content cannot be read."""
    try:
        header, *lines = zlib.decompress(content).decode().split("\n")
        version = json.loads(header)["archive"]
        if version != _VERSION:
            raise StoreDamaged(
                f"an archive has version {version}, and this program reads {_VERSION}", remedy="upgrade Everhold"
            )
        return [_read_row(json.loads(line)) for line in lines]
    except (zlib.error, ValueError, KeyError, TypeError) as error:
        raise StoreDamaged(
            f"the content of an archive cannot be read ({type(error).__name__})", remedy="restore it from a backup"
        ) from error


def _read_row(line: dict[str, Any]) -> Row:
    return ENTITIES[line["table"]].model_validate_json(json.dumps(line["row"]))
