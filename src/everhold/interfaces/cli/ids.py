"""Find the memory that a user names by its id, the beginning of its id, its key, or its number in the last table."""

from typing import Annotated

import typer

from everhold.errors import InvalidInput
from everhold.interfaces.cli.call import Call
from everhold.interfaces.cli.numbers import read_number
from everhold.text.lazy_pattern import lazy_pattern

_HELP = "A memory's id or its first characters, or your own key for it."
MemoryName = Annotated[str, typer.Argument(metavar="ID", help=_HELP)]
OptionalMemoryName = Annotated[str | None, typer.Argument(metavar="ID", help=_HELP)]
MIN_PREFIX_LENGTH = 4
_GENERATED_ID = lazy_pattern(r"mem_[0-9a-z]{26}")
_AFTER_EVERY_CHARACTER = "\U0010ffff"
_MAX_CANDIDATES = 5


def resolve_id(call: Call, name: str) -> str:
    """Return the id of the memory that `name` means, or `name` itself if it is a complete id, a key, or unknown.

    InvalidInput lists the candidates if several ids begin with `name`.
    """
    number = read_number(name)
    shown_ids = call.shown_ids or ()
    if number is not None and 1 <= number <= len(shown_ids):
        return shown_ids[number - 1]
    if len(name) < MIN_PREFIX_LENGTH or _GENERATED_ID.fullmatch(name):
        return name
    prefix_range = {"id": {">=": name, "<": name + _AFTER_EVERY_CHARACTER}}
    page = call.view.list(where=prefix_range, limit=_MAX_CANDIDATES + 1)
    ids = [memory.id for memory in page.memories]
    if not ids or call.view.count(where={"or": [{"id": name}, {"key": name}]}):
        return name
    if len(ids) == 1:
        return ids[0]
    ellipsis = ", …" if len(ids) > _MAX_CANDIDATES else ""
    raise InvalidInput(
        f"several ids begin with {name!r}: {', '.join(ids[:_MAX_CANDIDATES])}{ellipsis}",
        value=name,
        remedy="type more characters of the one you mean",
    )
