"""A wrapper of a store that signs each line of the access log, so that a line added without the key is noticed."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeVar

from everhold.model import AccessLog, LogHead
from everhold.model.base import Row
from everhold.ports.keys import Key
from everhold.ports.log_heads import encode_purge
from everhold.ports.records import Records
from everhold.ports.store_snapshot import StoreSnapshot
from everhold.schema.operations import Condition, Feed, Operation, Page, Patch, Put, SettledLines, Traits

E = TypeVar("E", bound=Row)

_NONCE_BYTES = 8


def sign_digest(key: Key, digest: bytes) -> bytes:
    """Return a signature with a random nonce. Equal lines get different signatures, so a copied line is detected."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + key.sign(nonce, digest)


def is_signed(key: Key, line: AccessLog) -> bool:
    """Return whether this key signed the line's digest."""
    signature = line.signature or b""
    return key.has_signed(signature[_NONCE_BYTES:], signature[:_NONCE_BYTES], line.digest)


class SigningRecords:
    """Passes calls on to another store. In each commit it signs log lines, and the notes of purged log lines."""

    def __init__(self, inner: Records, key: Key) -> None:
        self._inner = inner
        self._key = key

    def commit(self, operations: Sequence[Operation]) -> None:
        self._inner.commit([self._sign(operation) for operation in operations])

    def _sign(self, operation: Operation) -> Operation:
        match operation:
            case Put(AccessLog() as line):
                signature = sign_digest(self._key, line.digest)
                return Put(AccessLog.build_unchecked({**line.__dict__, "signature": signature}))
            case Patch(entity, key, changes) if entity is LogHead and "purged" in changes:
                now = changes["updated_at"]
                fields = {name: changes[name] for name in ("purged", "purged_hash")}
                purged = LogHead(organization_id=key[0], id=key[1], created_at=now, updated_at=now, **fields)
                signature = self._key.sign(*encode_purge(purged))
                return replace(operation, changes={**changes, "purge_signature": signature})
            case _:
                return operation

    @property
    def traits(self) -> Traits:
        return self._inner.traits

    def get(self, entity: type[E], organization_id: str, ids: Sequence[str], *, deleted: bool = False) -> dict[str, E]:
        return self._inner.get(entity, organization_id, ids, deleted=deleted)

    def scan(
        self,
        entity: type[E],
        organization_id: str | None,
        where: Sequence[Condition] = (),
        *,
        order: str | None = None,
        descending: bool = False,
        after: Page | None = None,
        limit: int | None = None,
        deleted: bool = False,
    ) -> list[E]:
        return self._inner.scan(
            entity,
            organization_id,
            where,
            order=order,
            descending=descending,
            after=after,
            limit=limit,
            deleted=deleted,
        )

    def columns(
        self,
        entity: type[Row],
        organization_id: str | None,
        names: Sequence[str],
        where: Sequence[Condition] = (),
        *,
        deleted: bool = False,
    ) -> Iterator[tuple[Any, ...]]:
        return self._inner.columns(entity, organization_id, names, where, deleted=deleted)

    def count(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Condition] = (), *, deleted: bool = False
    ) -> int:
        return self._inner.count(entity, organization_id, where, deleted=deleted)

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        return self._inner.feed(after, limit=limit)

    def head(self) -> int:
        return self._inner.head()

    def read_settled(self, after: int, *, limit: int = 1000) -> SettledLines:
        return self._inner.read_settled(after, limit=limit)

    def read_snapshot(self) -> AbstractContextManager[StoreSnapshot]:
        return self._inner.read_snapshot()

    def maintain(self, *, erased: bool = False) -> bool:
        return self._inner.maintain(erased=erased)

    def find_problems(self) -> list[str]:
        return self._inner.find_problems()

    def close(self) -> None:
        self._inner.close()
