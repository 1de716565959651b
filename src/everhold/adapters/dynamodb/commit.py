"""Making a plan's changes: in one transaction, or in several that become visible together.

What does not fit one transaction is staged (`staging.py`). The commit happens by the transaction that says so in the
head. Then its items are settled; until that is done, the head goes on naming it and nobody else commits. If whoever
makes a commit dies, others settle its items when its lease has ended.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from everhold.adapters.dynamodb.client import ITEM_BYTES, MOST_TRANSACTED, Dynamo, Overtaken, fitting
from everhold.adapters.dynamodb.head import LEASE, STAGES, Head, Stage, read_head, replacing, still_staging
from everhold.adapters.dynamodb.items import LAYOUTS, Item, Layout, Place, place_of, size_of
from everhold.adapters.dynamodb.staging import (
    GONE,
    ROOM_LEFT,
    Blob,
    Contents,
    Sides,
    blob_of,
    farewell,
    places_in,
    put_or_delete,
    settled,
    stagings,
    unneeded,
)
from everhold.clock import make_id
from everhold.errors import BatchTooLarge, EverholdError, StoreError
from everhold.model.base import Row
from everhold.ports.blobs import Blobs
from everhold.schema.planning import RowChange
from everhold.schema.table import TENANT

_SPILL = ITEM_BYTES // 3
"""Bytes of a row above which it lies in a blob: a staged item holds two rows."""


class Writer:
    """Makes changes."""

    def __init__(self, dynamo: Dynamo, blobs: Blobs) -> None:
        self._dynamo = dynamo
        self._blobs = blobs

    def make(self, seen: Head, changes: Sequence[RowChange], generated: Mapping[str, int]) -> Head:
        """All of it, if the head is still as seen; else Overtaken. The head names no commit, or the one for which it
        was `reserved`. Returns the head after that."""
        name = make_id("commit") if seen.stage is None else seen.stage.name
        contents = self._contents(name, changes)
        gone = [blob for sides in contents.values() if (blob := blob_of(sides.before))]
        actions = [put_or_delete(place, sides.after) for place, sides in contents.items()]
        actions += [{"Put": {"Item": farewell(blob)}} for blob in gone]
        try:
            if len(actions) < MOST_TRANSACTED and _size(contents) < ROOM_LEFT:
                head = seen.after(name, generated)
                self._transact([replacing(seen, head), *actions], name)
                self._sweep(gone)
            else:
                head = self._make_in_parts(name, seen, contents, generated)
        except Overtaken:
            self._delete([blob for sides in contents.values() if (blob := blob_of(sides.after))])
            raise
        return head

    def reserved(self, seen: Head) -> Head:
        """The head for one commit alone: until that is made or settled, others wait."""
        return self._moved(seen, seen.staging(make_id("commit")))

    # what items hold

    def _contents(self, name: str, changes: Sequence[RowChange]) -> Contents:
        """The items of the rows and of their guards, as they are and as they will be."""
        befores: dict[Place, Item] = {}
        afters: dict[Place, Item] = {}
        for change in changes:
            layout = LAYOUTS[change.table.name]
            place = layout.place(change.key)
            guard = {"of": {"S": place.p}, "at": {"S": place.s}}
            if change.before is not None:
                befores[place] = self._present(layout, change.before, place)
                befores.update(dict.fromkeys(layout.guards(change.before), guard))
            if change.after is not None:
                afters[place] = self._coming(layout, change.after, place, name)
                afters.update(dict.fromkeys(layout.guards(change.after), guard))
        return {place: Sides(befores.get(place), afters.get(place)) for place in {**befores, **afters}}

    def _present(self, layout: Layout, row: Row, place: Place) -> Item:
        body = layout.body(row)
        if size_of(body) <= _SPILL:
            return {**layout.found_by(row, place), **body}
        held = self._dynamo.get(place)
        if held is None:
            raise Overtaken
        return {name: value for name, value in held.items() if name not in ("p", "s")}

    def _coming(self, layout: Layout, row: Row, place: Place, name: str) -> Item:
        found_by, body = layout.found_by(row, place), layout.body(row)
        if size_of(body) <= _SPILL:
            return {**found_by, **body}
        more = {column: value for column, value in body.items() if column != "row"}
        if size_of(more) > _SPILL:
            raise BatchTooLarge(
                f"a row holds {size_of(more)} bytes of binary content", remedy=f"at most {_SPILL} fit an item"
            )
        whose = str(row.__dict__.get(TENANT, "*"))
        address = self._blobs.put(whose, f"{name}\n{body['row']['S']}".encode())  # no other commit's blob is the same
        return {**found_by, **more, "blob": {"S": address}, "whose": {"S": whose}}

    # one transaction

    def _transact(self, actions: Sequence[Mapping[str, Any]], name: str) -> None:
        """The transaction by which a commit happens."""
        try:
            self._dynamo.transact(actions, name)
        except (StoreError, Overtaken):
            if name not in read_head(self._dynamo).last:  # an answer may be lost after the deed
                raise

    def _moved(self, seen: Head, head: Head) -> Head:
        """Puts the head in place of the one seen."""
        try:
            self._dynamo.transact([replacing(seen, head)], make_id("move"))
        except (StoreError, Overtaken):
            if read_head(self._dynamo) != head:
                raise
        return head

    # several

    def _make_in_parts(self, name: str, seen: Head, contents: Contents, generated: Mapping[str, int]) -> Head:
        staging = seen if seen.stage is not None else self._moved(seen, seen.staging(name))
        try:
            for actions in stagings(name, contents):
                self._dynamo.transact([still_staging(_stage(staging)), *actions], make_id("part"))
                staging = self._renewed(staging)
            done = staging.after(name, generated).staging(name, "done")
            self._transact([replacing(staging, done)], name)
        except (EverholdError, Overtaken):
            with suppress(StoreError, Overtaken):
                self.settle(staging)
            raise
        with suppress(StoreError, Overtaken):  # it has happened; who comes next settles what is left
            return self.settle(done)
        return done

    def _renewed(self, staging: Head) -> Head:
        """The lease again, in good time."""
        stage = _stage(staging)
        return staging if stage.left > LEASE / 2 else self._moved(staging, staging.staging(stage.name))

    def settle(self, head: Head) -> Head:
        """Ends the commit that the head names: if it has not happened, it never will. Others may do the same."""
        stage = _stage(head)
        if stage.outcome == "open":
            head = self._moved(head, head.staging(stage.name, "undone"))
        for manifest in list(self._dynamo.query(STAGES, prefix=f"{stage.name}#")):
            self._settle_part(_stage(head), manifest)
        return self._moved(head, head._replace(stage=None))

    def _settle_part(self, stage: Stage, manifest: Item) -> None:
        places = places_in(manifest)
        while items := [one for one in self._dynamo.get_many(places) if one.get("stage") == {"S": stage.name}]:
            gone = unneeded(items, stage)
            self._dynamo.write([farewell(blob) for blob in gone], ())
            with suppress(Overtaken):  # by another who settles it; what is left is seen in the next round
                for part in fitting(((item, size_of(item)) for item in items), MOST_TRANSACTED, ROOM_LEFT):
                    self._dynamo.transact([settled(item, stage) for item in part], make_id("part"))
            self._sweep(gone)
        self._dynamo.write((), [place_of(manifest)])

    # blobs

    def sweep(self) -> None:
        """Deletes the blobs that nobody needs any more."""
        self._sweep([Blob(item["whose"]["S"], item["blob"]["S"]) for item in self._dynamo.query(GONE)])

    def _sweep(self, gone: Sequence[Blob]) -> None:
        if self._delete(gone):
            with suppress(StoreError):
                self._dynamo.write((), [place_of(farewell(blob)) for blob in gone])

    def _delete(self, blobs: Sequence[Blob]) -> bool:
        """Whether they are gone; if not, maintenance tries again."""
        try:
            for blob in blobs:
                self._blobs.delete(*blob)
        except (StoreError, OSError):
            return False
        return bool(blobs)


def _stage(head: Head) -> Stage:
    assert head.stage is not None
    return head.stage


def _size(contents: Contents) -> int:
    return sum(sides.size for sides in contents.values())
