"""Cursors: positions in an ordered result, as opaque text for the next call."""

import base64
import binascii
import json
import math
from typing import Any, NamedTuple

from everhold import clock
from everhold.errors import InvalidInput
from everhold.model.fields import is_id
from everhold.model.searchable import SEARCHABLE
from everhold.schema.operations import Page

# The negative score, the id and the kind of a hit: hits are in the order of their ranks.
Rank = tuple[float, str, str]

MAX_SEEN = 100


class HitPlace(NamedTuple):
    """The end of a page of hits: the rank of its last hit, and the ids of all judged memories on this or earlier pages.

    Judged scores depend on the other candidates, so they change when someone writes. By the rank alone, the next page
    could repeat a hit or leave one out.
    """

    rank: Rank
    seen: tuple[str, ...] = ()


def encode_hit_place(place: HitPlace) -> str:
    """Return the cursor for the page after this place."""
    return _encode([*place.rank, *place.seen[:MAX_SEEN]])


def decode_hit_place(cursor: str) -> HitPlace:
    """Return the place of a cursor. Raise InvalidInput if it is malformed."""
    match _decode(cursor):
        case [float() | int() as score, str() as owner_id, str() as kind, *seen] if (
            is_id(owner_id) and kind in SEARCHABLE and len(seen) <= MAX_SEEN and all(map(_is_text_id, seen))
        ):
            try:
                rank = float(score), owner_id, kind
            except OverflowError:
                raise _make_cursor_error(cursor) from None
            if math.isfinite(rank[0]):
                return HitPlace(rank, tuple(seen))
    raise _make_cursor_error(cursor)


def _is_text_id(value: object) -> bool:
    return isinstance(value, str) and is_id(value)


def encode_page(page: Page) -> str:
    """Return the cursor of a page that is ordered by time."""
    return _encode([clock.micros(page.value), page.key[-1]])


def decode_page(cursor: str, organization: str) -> Page:
    """Return the page position, always in the caller's own organization: a cursor is not trusted."""
    match _decode(cursor):
        case [int() as moment, str() as last] if is_id(last):
            try:
                return Page(clock.from_micros(moment), (organization, last))
            except OverflowError:
                raise _make_cursor_error(cursor) from None
    raise _make_cursor_error(cursor)


def _encode(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str) -> Any:
    try:
        return json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise _make_cursor_error(cursor) from None


def _make_cursor_error(cursor: str) -> InvalidInput:
    return InvalidInput(f"invalid cursor {cursor[:40]!r}", value=cursor, remedy="pass the value from the previous page")
