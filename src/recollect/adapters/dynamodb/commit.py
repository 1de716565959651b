"""Making a plan's changes: in one transaction, or in several that become visible together.

What does not fit one transaction is staged: every item is written with the commit's name and, if it was there before,
as it is and as it will be. A reader takes a staged item for what it will be only if the name is among the commits that
happened. That name is written, together with the head, by the last transaction: this is the moment of the commit.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recollect.adapters.dynamodb.client import ITEM_BYTES, MOST_TRANSACTED, TRANSACTION_BYTES, Dynamo, Overtaken
from recollect.adapters.dynamodb.head import LEASE, STAGES, Head, Stage, read_head, replacing, still_staging
from recollect.adapters.dynamodb.items import LAYOUTS, Item, Layout, Place, size_of
from recollect.clock import make_id
from recollect.errors import BatchTooLarge, StoreUnavailable
from recollect.model.base import Row
from recollect.ports.blobs import Blobs
from recollect.schema.planning import Change
from recollect.schema.table import TENANT

_ROOM = 64 * 1024
"""Bytes of a transaction left for the head and for what is not counted."""

_SPILL = ITEM_BYTES // 3
"""Bytes of a row above which it lies in a blob: a staged item holds two rows."""

Contents = dict[Place, Item | None]
"""What items are to hold besides their key; None for those that are to go."""


class Writer:
    """Makes changes."""

    def __init__(self, dynamo: Dynamo, blobs: Blobs) -> None:
        self._dynamo = dynamo
        self._blobs = blobs

    def make(self, seen: Head, changes: Sequence[Change], drawn: Mapping[str, int]) -> None:
        """All of it, if the head is still as seen; else Overtaken."""
        if seen.stage is not None and seen.stage.left > 0:
            raise Overtaken
        name = make_id("commit")
        contents = self._contents(changes, after=True)
        head = seen.after(name, drawn)
        actions = [_action(place, content) for place, content in contents.items()]
        if len(actions) < MOST_TRANSACTED and _size(contents) < TRANSACTION_BYTES - _ROOM:
            self._transact([replacing(seen, head), *actions], name)
            if seen.stage is not None:
                self._clean(seen.stage)
        else:
            self._stage(name, seen, drawn, contents, self._contents(changes, after=False))

    # what items hold

    def _contents(self, changes: Sequence[Change], *, after: bool) -> Contents:
        """The items of the rows and of their guards, as they are or as they will be."""
        found: Contents = {}
        for change in changes:
            layout = LAYOUTS[change.table.name]
            place = layout.place(change.key)
            shown, other = (change.after, change.before) if after else (change.before, change.after)
            found[place] = None if shown is None else self._held(layout, shown, place)
            for guard in layout.guards(other) if other is not None else ():
                found.setdefault(guard, None)
        for change in changes:  # what one row gives up another may take
            shown = change.after if after else change.before
            layout = LAYOUTS[change.table.name]
            for guard in layout.guards(shown) if shown is not None else ():
                found[guard] = {"of": {"S": layout.place(change.key).p}, "at": {"S": layout.place(change.key).s}}
        return found

    def _held(self, layout: Layout, row: Row, place: Place) -> Item:
        found_by, body = layout.found_by(row, place), layout.body(row)
        if size_of(body) <= _SPILL:
            return {**found_by, **body}
        owner = str(row.__dict__.get(TENANT, "*"))
        more = {name: value for name, value in body.items() if name != "row"}
        if size_of(more) > _SPILL:
            raise BatchTooLarge(f"a row holds {size_of(more)} bytes of binary content; at most {_SPILL} fit an item")
        address = self._blobs.put(owner, body["row"]["S"].encode())
        return {**found_by, **more, "blob": {"S": address}, "whose": {"S": owner}}

    # one transaction

    def _transact(self, actions: Sequence[Mapping[str, Any]], name: str) -> None:
        try:
            self._dynamo.transact(actions, name)
        except (StoreUnavailable, Overtaken):
            if not self._has_happened(name):  # an answer may be lost after the deed
                raise

    def _has_happened(self, name: str) -> bool:
        try:
            return name in read_head(self._dynamo).last
        except StoreUnavailable:
            return False

    # several

    def _stage(self, name: str, seen: Head, drawn: Mapping[str, int], afters: Contents, befores: Contents) -> None:
        staging = seen.staging(name)
        self._transact([replacing(seen, staging)], make_id("commit"))
        if seen.stage is not None:
            self._clean(seen.stage)
        places = list(afters)
        for number, part in enumerate(_parts(places)):
            self._dynamo.write([_manifest(name, number, part)], ())
        for actions in _transactions(name, afters, befores):
            self._dynamo.transact([still_staging(name), *actions], make_id("commit"))
            staging = self._renewed(staging)
        marker = {"Put": {"Item": {**Place(STAGES, f"{name}#done").key}}}
        self._transact([replacing(staging, staging.after(name, drawn)), marker], name)
        self._tidy(name, afters, befores)

    def _renewed(self, staging: Head) -> Head:
        """The lease again, in good time."""
        stage = staging.stage
        assert stage is not None
        if stage.left > LEASE / 2:
            return staging
        renewed = staging.staging(stage.name)
        self._transact([replacing(staging, renewed)], make_id("commit"))
        return renewed

    def _tidy(self, name: str, afters: Contents, befores: Contents) -> None:
        """Lets what was there before and is found by other values now be found by them."""
        changed = [place for place in afters if befores.get(place) is not None]
        for start in range(0, len(changed), MOST_TRANSACTED):
            actions = [_unstaged(place, afters[place], name) for place in changed[start : start + MOST_TRANSACTED]]
            try:
                self._dynamo.transact(actions, make_id("commit"))
            except Overtaken:
                continue  # a later commit has written some of them, whole

    def clear(self, stage: Stage) -> None:
        """Ends a commit that shows no sign of life."""
        seen = read_head(self._dynamo)
        if seen.stage == stage:
            self._transact([replacing(seen, seen._replace(stage=None))], make_id("commit"))
            self._clean(stage)

    def _clean(self, stage: Stage) -> None:
        """Takes back what a commit left that never happened. Nobody can go on with it: its name is gone."""
        if self._dynamo.get(Place(STAGES, f"{stage.name}#done")) is not None:
            return
        for page in list(self._dynamo.query(STAGES, prefix=f"{stage.name}#part")):
            places = [Place(one["M"]["p"]["S"], one["M"]["s"]["S"]) for one in page["places"]["L"]]
            staged = [item for item in self._dynamo.get_many(places) if item.get("stage") == {"S": stage.name}]
            kept = [_as_before(item) for item in staged if "next" in item]
            gone = [Place(item["p"]["S"], item["s"]["S"]) for item in staged if "next" not in item]
            self._dynamo.write(kept, [*gone, Place(page["p"]["S"], page["s"]["S"])])


def _action(place: Place, content: Item | None) -> dict[str, Any]:
    return {"Put": {"Item": {**place.key, **content}}} if content is not None else {"Delete": {"Key": place.key}}


def _size(contents: Contents) -> int:
    return sum(size_of(content) + 64 for content in contents.values() if content is not None)


def _parts(places: Sequence[Place]) -> Iterator[Sequence[Place]]:
    for start in range(0, len(places), 100):
        yield places[start : start + 100]


def _manifest(name: str, number: int, places: Sequence[Place]) -> Item:
    listed = [{"M": {"p": {"S": place.p}, "s": {"S": place.s}}} for place in places]
    return {**Place(STAGES, f"{name}#part{number:06d}").key, "places": {"L": listed}}


def _transactions(name: str, afters: Contents, befores: Contents) -> Iterator[list[dict[str, Any]]]:
    """The staged items, as many to a transaction as fit beside the check of the head."""
    actions: list[dict[str, Any]] = []
    held = 0
    for place, after in afters.items():
        item = _staged(place, befores.get(place), after, name)
        size = size_of(item)
        if actions and (len(actions) == MOST_TRANSACTED - 1 or held + size > TRANSACTION_BYTES - _ROOM):
            yield actions
            actions, held = [], 0
        actions.append({"Put": {"Item": item}})
        held += size
    yield actions


def _staged(place: Place, before: Item | None, after: Item | None, name: str) -> Item:
    mark: Item = {"stage": {"S": name}}
    if before is None:
        return {**place.key, **(after or {}), **mark}
    return {**place.key, **before, **mark, "next": {"M": after} if after is not None else {"NULL": True}}


def _unstaged(place: Place, after: Item | None, name: str) -> dict[str, Any]:
    condition = {
        "ConditionExpression": "#stage = :name",
        "ExpressionAttributeNames": {"#stage": "stage"},
        "ExpressionAttributeValues": {":name": {"S": name}},
    }
    return {kind: {**what, **condition} for kind, what in _action(place, after).items()}


def _as_before(item: Item) -> Item:
    return {name: value for name, value in item.items() if name not in ("stage", "next")}


def shown(item: Item, happened: bool) -> Item | None:
    """What a staged item is to a reader, if its commit has happened or has not."""
    if "next" not in item:
        return _as_before(item) if happened else None
    if not happened:
        return _as_before(item)
    following = item["next"].get("M")
    return None if following is None else {"p": item["p"], "s": item["s"], **following}
