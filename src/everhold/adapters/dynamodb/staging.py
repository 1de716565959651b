"""Staged items: how a commit of several transactions becomes visible at once.

A staged item has the commit's name, its old content and its new content (`next`). A reader takes the new content if the
commit's outcome is "done", otherwise the old one. After the outcome is decided, every item is settled: it gets
the content that the outcome selects. A manifest, written together with the items, lists their keys.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from everhold.adapters.dynamodb.client import MAX_TRANSACTION_ITEMS, TRANSACTION_BYTES, split_batches
from everhold.adapters.dynamodb.head import STAGES, Stage
from everhold.adapters.dynamodb.items import Item, ItemKey, get_item_key, measure

# The bytes of a transaction that items may use. The rest is for the head and for what `measure` does not count.
ITEMS_BYTES = TRANSACTION_BYTES - 64 * 1024

# Actions of a transaction in addition to the staged items: the check of the head, and the manifest.
_OTHER_ACTIONS = 2

# The most bytes that one staged item adds to the manifest: twice the length of the longest key.
_MANIFEST_BYTES = 1024

Action = dict[str, Any]


class ItemChange(NamedTuple):
    """The content of an item, without its key, before and after a commit; None if the item does not exist."""

    before: Item | None
    after: Item | None

    @property
    def size(self) -> int:
        """The bytes that the item takes in a transaction, with some to spare for its key."""
        return max(measure(content) for content in self if content is not None) + 256


ItemChanges = Mapping[ItemKey, ItemChange]


def put_or_delete(item_key: ItemKey, content: Item | None) -> Action:
    return {"Put": {"Item": {**item_key.key, **content}}} if content is not None else {"Delete": {"Key": item_key.key}}


# staging


def _make_staged_item(item_key: ItemKey, change: ItemChange, name: str) -> Item:
    stage: Item = {"stage": {"S": name}}
    if change.before is None:
        return {**item_key.key, **(change.after or {}), **stage}
    next_content = {"NULL": True} if change.after is None else {"M": change.after}
    return {**item_key.key, **change.before, **stage, "next": next_content}


def stage_in_batches(name: str, changes: ItemChanges) -> Iterator[list[Action]]:
    """Yield the actions that stage the changes of a commit, as many at a time as fit one transaction."""
    items = [_make_staged_item(item_key, change, name) for item_key, change in changes.items()]
    sized = [(item, measure(item) + _MANIFEST_BYTES) for item in items]
    for index, batch in enumerate(split_batches(sized, MAX_TRANSACTION_ITEMS - _OTHER_ACTIONS, ITEMS_BYTES)):
        keys = [{"M": {"p": item["p"], "s": item["s"]}} for item in batch]
        manifest = {**ItemKey(STAGES, f"{name}#{index:06d}").key, "keys": {"L": keys}}
        yield [{"Put": {"Item": item}} for item in (manifest, *batch)]


def read_manifest(manifest: Item) -> list[ItemKey]:
    return [get_item_key(entry["M"]) for entry in manifest["keys"]["L"]]


# reading


def choose_version(item: Item, *, is_committed: bool) -> Item | None:
    """Return the content of a staged item that readers see; None if they see no item."""
    if "next" not in item:
        return _remove_stage(item) if is_committed else None
    if not is_committed:
        return _remove_stage(item)
    next_content = item["next"].get("M")
    return None if next_content is None else {"p": item["p"], "s": item["s"], **next_content}


def _remove_stage(item: Item) -> Item:
    return {name: value for name, value in item.items() if name not in ("stage", "next")}


# settling


def settle_item(item: Item, stage: Stage) -> Action:
    """Return the action that settles a staged item, on the condition that no other process has settled it."""
    content = choose_version(item, is_committed=stage.outcome == "done")
    action: Action = {"Delete": {"Key": get_item_key(item).key}} if content is None else {"Put": {"Item": content}}
    condition = {
        "ConditionExpression": "#stage = :name",
        "ExpressionAttributeNames": {"#stage": "stage"},
        "ExpressionAttributeValues": {":name": {"S": stage.name}},
    }
    return {kind: {**body, **condition} for kind, body in action.items()}


# blobs


class BlobKey(NamedTuple):
    """The key of a blob, which holds a row that is too large for an item."""

    organization: str
    address: str


# The partition with a tombstone for each blob that is to be deleted.
TOMBSTONES = "*gone"


def get_blob(item: Item | None) -> BlobKey | None:
    """Return the key of the blob that contains an item's row; None if the item itself contains the row."""
    return BlobKey(item["organization"]["S"], item["blob"]["S"]) if item is not None and "blob" in item else None


def list_discarded_blobs(items: Sequence[Item], stage: Stage) -> list[BlobKey]:
    """Return the blobs of the contents that are dropped when these staged items are settled."""
    blobs = (get_blob(choose_version(item, is_committed=stage.outcome != "done")) for item in items)
    return [blob for blob in blobs if blob is not None]


def make_blob_tombstone(blob: BlobKey) -> Item:
    """Return the tombstone of a blob. A blob belongs to one commit, so no later commit can need it again."""
    return {
        **ItemKey(TOMBSTONES, f"{blob.address}#{blob.organization}").key,
        "organization": {"S": blob.organization},
        "blob": {"S": blob.address},
    }
