"""Apply the changes of a plan in one transaction, or in several that become visible together.

A commit that is too large for one transaction is staged (`staging.py`). The transaction that writes its outcome to the
head is the one that commits it. Then its items are settled; until that is done, the head names the commit and no other
commit can start. If the process dies, other processes settle its items after its lease has expired.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from everhold.adapters.dynamodb.client import ITEM_BYTES, MAX_TRANSACTION_ITEMS, Dynamo, Overtaken, split_batches
from everhold.adapters.dynamodb.head import STAGES, Head, Stage, make_head_update, make_stage_check, read_head
from everhold.adapters.dynamodb.items import LAYOUTS, Item, ItemKey, Layout, get_item_key, measure
from everhold.adapters.dynamodb.staging import (
    ITEMS_BYTES,
    TOMBSTONES,
    BlobKey,
    ItemChange,
    ItemChanges,
    get_blob,
    list_discarded_blobs,
    make_blob_tombstone,
    put_or_delete,
    read_manifest,
    settle_item,
    stage_in_batches,
)
from everhold.clock import make_id
from everhold.errors import BatchTooLarge, EverholdError, StoreError
from everhold.model.base import Row
from everhold.ports.blobs import Blobs
from everhold.schema.planning import RowChange
from everhold.schema.table import TENANT

# A larger row is stored as a blob. A third of an item, because a staged item contains two rows.
_MAX_ROW_BYTES = ITEM_BYTES // 3


class Writer:
    """Writes the changes of commits."""

    def __init__(self, dynamo: Dynamo, blobs: Blobs) -> None:
        self._dynamo = dynamo
        self._lease_seconds = dynamo.options.lease_seconds
        self._blobs = blobs

    def write(self, seen: Head, changes: Sequence[RowChange], generated: Mapping[str, int]) -> Head:
        """Commit the changes and return the new head. Raise Overtaken if the head has changed since it was `seen`.

        If `seen` was reserved (see `reserve`), this is the commit that it was reserved for.
        """
        name = make_id("commit") if seen.stage is None else seen.stage.name
        item_changes = self._build_item_changes(name, changes)
        old_blobs = [blob for change in item_changes.values() if (blob := get_blob(change.before))]
        actions = [put_or_delete(item_key, change.after) for item_key, change in item_changes.items()]
        actions += [{"Put": {"Item": make_blob_tombstone(blob)}} for blob in old_blobs]
        try:
            if len(actions) < MAX_TRANSACTION_ITEMS and _measure_changes(item_changes) < ITEMS_BYTES:
                head = seen.make_next(name, generated)
                self._transact([make_head_update(seen, head), *actions], name)
                self._sweep(old_blobs)
            else:
                head = self._write_staged(name, seen, item_changes, generated)
        except Overtaken:
            self._delete_blobs([blob for change in item_changes.values() if (blob := get_blob(change.after))])
            raise
        return head

    def reserve(self, seen: Head) -> Head:
        """Reserve the head for one commit and return it. Other commits wait until this one is committed or settled."""
        return self._replace_head(seen, seen.make_staging(make_id("commit"), self._lease_seconds))

    # contents of items

    def _build_item_changes(self, name: str, changes: Sequence[RowChange]) -> ItemChanges:
        """Return the items of the rows and of their guards (see `items.py`), before and after the commit `name`."""
        items_before: dict[ItemKey, Item] = {}
        items_after: dict[ItemKey, Item] = {}
        for change in changes:
            layout = LAYOUTS[change.table.name]
            item_key = layout.make_key(change.key)
            guard = {"of": {"S": item_key.p}, "at": {"S": item_key.s}}
            if change.before is not None:
                items_before[item_key] = self._read_before(layout, change.before, item_key)
                items_before.update(dict.fromkeys(layout.make_guards(change.before), guard))
            if change.after is not None:
                items_after[item_key] = self._build_after(layout, change.after, item_key, name)
                items_after.update(dict.fromkeys(layout.make_guards(change.after), guard))
        return {
            item_key: ItemChange(items_before.get(item_key), items_after.get(item_key))
            for item_key in {**items_before, **items_after}
        }

    def _read_before(self, layout: Layout, row: Row, item_key: ItemKey) -> Item:
        body = layout.encode(row)
        if measure(body) <= _MAX_ROW_BYTES:
            return {**layout.make_index_keys(row, item_key), **body}
        stored = self._dynamo.get(item_key)
        if stored is None:
            raise Overtaken
        return {name: value for name, value in stored.items() if name not in ("p", "s")}

    def _build_after(self, layout: Layout, row: Row, item_key: ItemKey, name: str) -> Item:
        index_keys, body = layout.make_index_keys(row, item_key), layout.encode(row)
        if measure(body) <= _MAX_ROW_BYTES:
            return {**index_keys, **body}
        binary_columns = {column: value for column, value in body.items() if column != "row"}
        if measure(binary_columns) > _MAX_ROW_BYTES:
            raise BatchTooLarge(
                f"a row has {measure(binary_columns)} bytes of binary content; an item holds at most {_MAX_ROW_BYTES}",
                remedy="store less binary content in one row",
            )
        organization = str(row.__dict__.get(TENANT, "*"))
        # The commit's name makes the content unique, so that deleting one commit's blob never deletes another's.
        address = self._blobs.put(organization, f"{name}\n{body['row']['S']}".encode())
        return {**index_keys, **binary_columns, "blob": {"S": address}, "organization": {"S": organization}}

    # one transaction

    def _transact(self, actions: Sequence[Mapping[str, Any]], name: str) -> None:
        """Run the transaction that makes a commit visible."""
        try:
            self._dynamo.transact(actions, name)
        except (StoreError, Overtaken):
            if name not in read_head(self._dynamo).commit_names:  # the answer may have been lost after the commit
                raise

    def _replace_head(self, seen: Head, head: Head) -> Head:
        """Replace the head `seen` by `head` and return `head`. Raise Overtaken if it has changed since it was read."""
        try:
            self._dynamo.transact([make_head_update(seen, head)], make_id("move"))
        except (StoreError, Overtaken):
            if read_head(self._dynamo) != head:
                raise
        return head

    # several transactions

    def _write_staged(self, name: str, seen: Head, changes: ItemChanges, generated: Mapping[str, int]) -> Head:
        """Write a commit that takes several transactions, and return the new head."""
        staged_head = seen
        if seen.stage is None:
            staged_head = self._replace_head(seen, seen.make_staging(name, self._lease_seconds))
        try:
            for actions in stage_in_batches(name, changes):
                self._dynamo.transact([make_stage_check(_require_stage(staged_head)), *actions], make_id("part"))
                staged_head = self._extend_lease(staged_head)
            committed_head = staged_head.make_next(name, generated).make_staging(name, self._lease_seconds, "done")
            self._transact([make_head_update(staged_head, committed_head)], name)
        except (EverholdError, Overtaken):
            with suppress(StoreError, Overtaken):
                self.settle(staged_head)
            raise
        with suppress(StoreError, Overtaken):  # it is committed; the next writer settles the rest
            return self.settle(committed_head)
        return committed_head

    def _extend_lease(self, staged_head: Head) -> Head:
        """Extend the lease if half of it has passed."""
        stage = _require_stage(staged_head)
        if stage.seconds_left > self._lease_seconds / 2:
            return staged_head
        return self._replace_head(staged_head, staged_head.make_staging(stage.name, self._lease_seconds))

    def settle(self, head: Head) -> Head:
        """Settle all items of the commit that the head names, and undo it unless it is committed.

        Several processes may do this at the same time.
        """
        stage = _require_stage(head)
        if stage.outcome == "open":
            head = self._replace_head(head, head.make_staging(stage.name, self._lease_seconds, "undone"))
        for manifest in list(self._dynamo.query(STAGES, prefix=f"{stage.name}#")):
            self._settle_part(_require_stage(head), manifest)
        return self._replace_head(head, head._replace(stage=None))

    def _settle_part(self, stage: Stage, manifest: Item) -> None:
        item_keys = read_manifest(manifest)
        while items := [item for item in self._dynamo.get_many(item_keys) if item.get("stage") == {"S": stage.name}]:
            discarded_blobs = list_discarded_blobs(items, stage)
            self._dynamo.write([make_blob_tombstone(blob) for blob in discarded_blobs], ())
            with suppress(Overtaken):  # another process settles it too; the next round sees what is left
                for batch in split_batches(
                    ((item, measure(item)) for item in items), MAX_TRANSACTION_ITEMS, ITEMS_BYTES
                ):
                    self._dynamo.transact([settle_item(item, stage) for item in batch], make_id("part"))
            self._sweep(discarded_blobs)
        self._dynamo.write((), [get_item_key(manifest)])

    # blobs

    def sweep(self) -> None:
        """Delete the blobs that have tombstones, because no row refers to them."""
        self._sweep([BlobKey(item["organization"]["S"], item["blob"]["S"]) for item in self._dynamo.query(TOMBSTONES)])

    def _sweep(self, blobs: Sequence[BlobKey]) -> None:
        """Delete blobs, then their tombstones."""
        if self._delete_blobs(blobs):
            with suppress(StoreError):
                self._dynamo.write((), [get_item_key(make_blob_tombstone(blob)) for blob in blobs])

    def _delete_blobs(self, blobs: Sequence[BlobKey]) -> bool:
        """Delete blobs and return whether all are deleted. If not, maintenance tries again."""
        try:
            for blob in blobs:
                self._blobs.delete(*blob)
        except (StoreError, OSError):
            return False
        return bool(blobs)


def _require_stage(head: Head) -> Stage:
    assert head.stage is not None
    return head.stage


def _measure_changes(changes: ItemChanges) -> int:
    return sum(change.size for change in changes.values())
