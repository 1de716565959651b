"""Applies the changes of a plan in one transaction, or in several that become visible together.

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
    GONE,
    ITEMS_BYTES,
    BlobKey,
    Contents,
    Sides,
    find_unneeded_blobs,
    get_blob,
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

# Bytes of a row above which it is stored as a blob. A third of an item, because a staged item contains two rows.
_SPILL = ITEM_BYTES // 3


class Writer:
    """Writes the changes of commits."""

    def __init__(self, dynamo: Dynamo, blobs: Blobs) -> None:
        self._dynamo = dynamo
        self._lease_seconds = dynamo.options.lease_seconds
        self._blobs = blobs

    def write(self, seen: Head, changes: Sequence[RowChange], generated: Mapping[str, int]) -> Head:
        """Commit the changes and return the new head. Overtaken if the head is no longer `seen`.

        `seen` names no commit, or the one that it was reserved for (see `reserve`).
        """
        name = make_id("commit") if seen.stage is None else seen.stage.name
        contents = self._build_contents(name, changes)
        gone = [blob for sides in contents.values() if (blob := get_blob(sides.before))]
        actions = [put_or_delete(item_key, sides.after) for item_key, sides in contents.items()]
        actions += [{"Put": {"Item": make_blob_tombstone(blob)}} for blob in gone]
        try:
            if len(actions) < MAX_TRANSACTION_ITEMS and _measure_contents(contents) < ITEMS_BYTES:
                head = seen.make_next(name, generated)
                self._transact([make_head_update(seen, head), *actions], name)
                self._sweep(gone)
            else:
                head = self._write_staged(name, seen, contents, generated)
        except Overtaken:
            self._delete([blob for sides in contents.values() if (blob := get_blob(sides.after))])
            raise
        return head

    def reserve(self, seen: Head) -> Head:
        """Return the head after reserving it for one commit. Other commits wait until this one is made or settled."""
        return self._replace_head(seen, seen.make_staging(make_id("commit"), self._lease_seconds))

    # contents of items

    def _build_contents(self, name: str, changes: Sequence[RowChange]) -> Contents:
        """Return the items of the rows and of their guards, before and after the commit."""
        befores: dict[ItemKey, Item] = {}
        afters: dict[ItemKey, Item] = {}
        for change in changes:
            layout = LAYOUTS[change.table.name]
            item_key = layout.make_key(change.key)
            guard = {"of": {"S": item_key.p}, "at": {"S": item_key.s}}
            if change.before is not None:
                befores[item_key] = self._read_before(layout, change.before, item_key)
                befores.update(dict.fromkeys(layout.make_guards(change.before), guard))
            if change.after is not None:
                afters[item_key] = self._build_after(layout, change.after, item_key, name)
                afters.update(dict.fromkeys(layout.make_guards(change.after), guard))
        return {item_key: Sides(befores.get(item_key), afters.get(item_key)) for item_key in {**befores, **afters}}

    def _read_before(self, layout: Layout, row: Row, item_key: ItemKey) -> Item:
        body = layout.encode(row)
        if measure(body) <= _SPILL:
            return {**layout.make_index_keys(row, item_key), **body}
        stored = self._dynamo.get(item_key)
        if stored is None:
            raise Overtaken
        return {name: value for name, value in stored.items() if name not in ("p", "s")}

    def _build_after(self, layout: Layout, row: Row, item_key: ItemKey, name: str) -> Item:
        index_keys, body = layout.make_index_keys(row, item_key), layout.encode(row)
        if measure(body) <= _SPILL:
            return {**index_keys, **body}
        binary = {column: value for column, value in body.items() if column != "row"}
        if measure(binary) > _SPILL:
            raise BatchTooLarge(
                f"a row has {measure(binary)} bytes of binary content; an item holds at most {_SPILL}",
                remedy="store less binary content in one row",
            )
        whose = str(row.__dict__.get(TENANT, "*"))
        address = self._blobs.put(
            whose, f"{name}\n{body['row']['S']}".encode()
        )  # The commit's name makes the content unique, so that deleting one commit's blob never deletes another's.
        return {**index_keys, **binary, "blob": {"S": address}, "organization": {"S": whose}}

    # one transaction

    def _transact(self, actions: Sequence[Mapping[str, Any]], name: str) -> None:
        """Run the transaction that makes a commit visible."""
        try:
            self._dynamo.transact(actions, name)
        except (StoreError, Overtaken):
            if name not in read_head(self._dynamo).last:  # the answer may have been lost after the commit
                raise

    def _replace_head(self, seen: Head, head: Head) -> Head:
        """Replace the head that was seen and return the new one. Overtaken if it has changed."""
        try:
            self._dynamo.transact([make_head_update(seen, head)], make_id("move"))
        except (StoreError, Overtaken):
            if read_head(self._dynamo) != head:
                raise
        return head

    # several transactions

    def _write_staged(self, name: str, seen: Head, contents: Contents, generated: Mapping[str, int]) -> Head:
        staging = seen
        if seen.stage is None:
            staging = self._replace_head(seen, seen.make_staging(name, self._lease_seconds))
        try:
            for actions in stage_in_batches(name, contents):
                self._dynamo.transact([make_stage_check(_require_stage(staging)), *actions], make_id("part"))
                staging = self._extend_lease(staging)
            done = staging.make_next(name, generated).make_staging(name, self._lease_seconds, "done")
            self._transact([make_head_update(staging, done)], name)
        except (EverholdError, Overtaken):
            with suppress(StoreError, Overtaken):
                self.settle(staging)
            raise
        with suppress(StoreError, Overtaken):  # it is committed; the next writer settles the rest
            return self.settle(done)
        return done

    def _extend_lease(self, staging: Head) -> Head:
        """Extend the lease if half of it has passed."""
        stage = _require_stage(staging)
        if stage.left > self._lease_seconds / 2:
            return staging
        return self._replace_head(staging, staging.make_staging(stage.name, self._lease_seconds))

    def settle(self, head: Head) -> Head:
        """End the commit that the head names: undo it unless it is committed. Other processes may do the same."""
        stage = _require_stage(head)
        if stage.outcome == "open":
            head = self._replace_head(head, head.make_staging(stage.name, self._lease_seconds, "undone"))
        for manifest in list(self._dynamo.query(STAGES, prefix=f"{stage.name}#")):
            self._settle_part(_require_stage(head), manifest)
        return self._replace_head(head, head._replace(stage=None))

    def _settle_part(self, stage: Stage, manifest: Item) -> None:
        item_keys = read_manifest(manifest)
        while items := [item for item in self._dynamo.get_many(item_keys) if item.get("stage") == {"S": stage.name}]:
            gone = find_unneeded_blobs(items, stage)
            self._dynamo.write([make_blob_tombstone(blob) for blob in gone], ())
            with suppress(Overtaken):  # another process settles it too; the next round sees what is left
                for part in split_batches(
                    ((item, measure(item)) for item in items), MAX_TRANSACTION_ITEMS, ITEMS_BYTES
                ):
                    self._dynamo.transact([settle_item(item, stage) for item in part], make_id("part"))
            self._sweep(gone)
        self._dynamo.write((), [get_item_key(manifest)])

    # blobs

    def sweep(self) -> None:
        """Delete the blobs that no row refers to any more."""
        self._sweep([BlobKey(item["organization"]["S"], item["blob"]["S"]) for item in self._dynamo.query(GONE)])

    def _sweep(self, gone: Sequence[BlobKey]) -> None:
        if self._delete(gone):
            with suppress(StoreError):
                self._dynamo.write((), [get_item_key(make_blob_tombstone(blob)) for blob in gone])

    def _delete(self, blobs: Sequence[BlobKey]) -> bool:
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


def _measure_contents(contents: Contents) -> int:
    return sum(sides.size for sides in contents.values())
