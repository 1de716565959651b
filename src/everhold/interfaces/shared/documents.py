"""Values as JSON documents. Times are in UTC; fields that a repr hides are left out."""

import dataclasses
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import singledispatch
from pathlib import Path
from typing import Any

from everhold import Hit, MessageHit
from everhold.model import Memory
from everhold.model.base import Row


def encode_json(value: Any, *, ascii_only: bool = False) -> str:
    return json.dumps(value, default=document, ensure_ascii=ascii_only, indent=None if isinstance(value, Line) else 2)


class Line(dict[str, Any]):
    """A document that is printed on one line, as a JSON Lines file needs."""


@singledispatch
def document(value: Any) -> Any:
    """Convert a value that JSON does not have, such as a time, to a value that JSON has."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


@document.register
def _(row: Row) -> dict[str, Any]:
    hidden_fields = {name for name, info in type(row).model_fields.items() if not info.repr}
    return row.model_dump(mode="json", exclude=hidden_fields)


@document.register
def _(memory: Memory) -> dict[str, Any]:
    leading_fields = {"id": memory.id, "text": memory.text, "kind": memory.kind, "priority": memory.priority}
    return {**leading_fields, **memory.model_dump(mode="json")}


@document.register
def _(hit: Hit) -> dict[str, Any]:
    return {"score": hit.score, "kind": hit.kind, hit.kind: hit.record, "tags": hit.tags, "why": hit.why}


@document.register
def _(hit: MessageHit) -> dict[str, Any]:
    return {"score": hit.score, "message": hit.message, "before": hit.before, "after": hit.after, "why": hit.why}


@document.register
def _(path: Path) -> str:
    return str(path)


@document.register
def _(moment: datetime) -> str:
    return moment.isoformat()


@document.register
def _(content: bytes) -> str:
    return b64encode(content).decode()


@document.register
def _(values: Mapping) -> dict[str, Any]:  # type: ignore[type-arg]  # dispatch takes the bare class
    return dict(values)


def add_tags(memories: Iterable[Memory], tags: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return memories as documents with their tags."""
    return [{**document(memory), "tags": list(tags.get(memory.id, ()))} for memory in memories]
