"""Values as JSON holds them."""

import dataclasses
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from recollect.model import Memory
from recollect.model.base import Row


def document(value: Any) -> Any:
    """A value as JSON: rows and dataclasses as objects, times in UTC. What a repr hides is left out."""
    match value:
        case Memory():
            return {**_row(value), "priority": value.priority}
        case Row():
            return _row(value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: document(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case datetime():
            return value.isoformat()
        case bytes():
            return b64encode(value).decode()
        case Path():
            return str(value)
        case Mapping():
            return {str(key): document(item) for key, item in value.items()}
        case str():
            return str(value)
        case Sequence() | set() | frozenset():
            return [document(item) for item in value]
        case _:
            return value


def _row(row: Row) -> dict[str, Any]:
    hidden = {name for name, info in type(row).model_fields.items() if not info.repr}
    return row.model_dump(mode="json", exclude=hidden)
