"""What a commit of several transactions makes of items.

An item is written with the commit's name and, if it was there before, as it is and as it will be (`next`). A reader
takes it for what it will be once the commit has happened. Then, or if the commit never happens, every item is settled:
it becomes what it will be, or again what it was. A manifest, written together with items, tells which they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from everhold.adapters.dynamodb.client import MOST_TRANSACTED, TRANSACTION_BYTES, fitting
from everhold.adapters.dynamodb.head import STAGES, Stage
from everhold.adapters.dynamodb.items import Item, Place, place_of, size_of

ROOM_LEFT = TRANSACTION_BYTES - 64 * 1024
"""Bytes of a transaction for items; the others are for the head and for what is not counted."""

_BESIDE = 2
"""Actions of a transaction beside those that stage items: the check of the head, and the manifest."""

_MANIFEST_BYTES = 1024
"""What an item adds to the manifest at most: its key, twice as long as ours get."""

Action = dict[str, Any]


class Sides(NamedTuple):
    """What an item holds besides its key before a commit and after it; None where it is not there."""

    before: Item | None
    after: Item | None

    @property
    def size(self) -> int:
        return max(size_of(side) for side in self if side is not None) + 256


Contents = Mapping[Place, Sides]


def put_or_delete(place: Place, content: Item | None) -> Action:
    return {"Put": {"Item": {**place.key, **content}}} if content is not None else {"Delete": {"Key": place.key}}


# staging


def staged(place: Place, sides: Sides, name: str) -> Item:
    mark: Item = {"stage": {"S": name}}
    if sides.before is None:
        return {**place.key, **(sides.after or {}), **mark}
    following = {"NULL": True} if sides.after is None else {"M": sides.after}
    return {**place.key, **sides.before, **mark, "next": following}


def stagings(name: str, contents: Contents) -> Iterator[list[Action]]:
    """The actions that stage everything, as many to a transaction as fit beside the check of the head."""
    items = [staged(place, sides, name) for place, sides in contents.items()]
    sized = [(item, size_of(item) + _MANIFEST_BYTES) for item in items]
    for number, part in enumerate(fitting(sized, MOST_TRANSACTED - _BESIDE, ROOM_LEFT)):
        listed = [{"M": {"p": item["p"], "s": item["s"]}} for item in part]
        manifest = {**Place(STAGES, f"{name}#{number:06d}").key, "places": {"L": listed}}
        yield [{"Put": {"Item": item}} for item in (manifest, *part)]


def places_in(manifest: Item) -> list[Place]:
    return [place_of(one["M"]) for one in manifest["places"]["L"]]


# reading


def shown(item: Item, *, happened: bool) -> Item | None:
    """What a staged item is to a reader, if its commit has happened or has not."""
    if "next" not in item:
        return _plain(item) if happened else None
    if not happened:
        return _plain(item)
    following = item["next"].get("M")
    return None if following is None else {"p": item["p"], "s": item["s"], **following}


def _plain(item: Item) -> Item:
    return {name: value for name, value in item.items() if name not in ("stage", "next")}


# settling


def settled(item: Item, stage: Stage) -> Action:
    """Makes a staged item what it is from now on, unless somebody has done so already."""
    held = shown(item, happened=stage.outcome == "done")
    action: Action = {"Delete": {"Key": place_of(item).key}} if held is None else {"Put": {"Item": held}}
    condition = {
        "ConditionExpression": "#stage = :name",
        "ExpressionAttributeNames": {"#stage": "stage"},
        "ExpressionAttributeValues": {":name": {"S": stage.name}},
    }
    return {kind: {**what, **condition} for kind, what in action.items()}


# blobs


class Blob(NamedTuple):
    """Where a row lies that is too large for an item."""

    whose: str
    address: str


GONE = "*gone"
"""The partition that tells which blobs nobody needs any more, until they are deleted."""


def blob_of(item: Item | None) -> Blob | None:
    return Blob(item["whose"]["S"], item["blob"]["S"]) if item is not None and "blob" in item else None


def unneeded(items: Sequence[Item], stage: Stage) -> list[Blob]:
    """The blobs of what these staged items are not, now that the outcome is known."""
    found = (blob_of(shown(item, happened=stage.outcome != "done")) for item in items)
    return [blob for blob in found if blob is not None]


def farewell(blob: Blob) -> Item:
    """The item that tells that a blob can go. A blob belongs to one commit, so nobody comes to need it again."""
    return {**Place(GONE, f"{blob.address}#{blob.whose}").key, "whose": {"S": blob.whose}, "blob": {"S": blob.address}}
