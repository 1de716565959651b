"""A store that encrypts fields when they are written and decrypts them when they are read."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from everhold.encryption.commits import CommitEncryption
from everhold.encryption.row_cipher import RowCipher, list_identity_columns, list_key_ids
from everhold.errors import BrokenReference, InvalidInput
from everhold.model import DataKey, Memory
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.ports.store_snapshot import StoreSnapshot
from everhold.schema.catalog import get_key, get_table
from everhold.schema.conditions import evaluate, is_match, list_fields
from everhold.schema.operations import (
    AllOf,
    AnyOf,
    Condition,
    Ensure,
    Feed,
    Not,
    Op,
    Operation,
    Page,
    Patch,
    Put,
    Require,
    SettledLines,
    Traits,
    Where,
)
from everhold.schema.table import Table

E = TypeVar("E", bound=Row)
_PAGE = 256  # rows per query if some conditions are evaluated after decrypting
_ATTEMPTS = 3


class EncryptingRecords:
    """Delegates to another store. Callers pass and get plain values; the other store gets encrypted values."""

    def __init__(self, inner: Records, cipher: RowCipher) -> None:
        self.inner = inner
        self._cipher = cipher

    # writing

    def commit(self, operations: Sequence[Operation]) -> None:
        for attempt in range(_ATTEMPTS):
            encrypted = CommitEncryption(self, self._cipher).encrypt(operations)
            keys = self._list_user_keys(encrypted)
            try:
                # A key that is being destroyed must not encrypt anything, because it could never be decrypted.
                self.inner.commit([*(Require(DataKey, key) for key in keys), *encrypted])
            except BrokenReference:
                if attempt == _ATTEMPTS - 1 or not self._has_lost_key(keys):
                    raise
            else:
                return

    def _has_lost_key(self, keys: Iterable[tuple[str, str]]) -> bool:
        # Every key is checked, because the check also removes a lost key from the cache.
        lost_keys = [key for key in keys if self._cipher.keys.has_vanished(key[0], [key[1]])]
        return bool(lost_keys)

    def _list_user_keys(self, operations: Iterable[Operation]) -> list[tuple[str, str]]:
        """Return the keys of users with which a commit is encrypted, each with its organization."""
        if not self._cipher.keys.per_user:
            return []
        keys: set[tuple[str, str]] = set()
        for operation in operations:
            match operation:
                case Put(row) | Ensure(row) if self._cipher.has_encrypted_fields(type(row)):
                    columns = self._cipher.list_columns(type(row))
                    ids = list_key_ids(row.__dict__[name] for name in columns)
                    keys |= {(row.__dict__["organization_id"], key_id) for key_id in ids}
                case Patch(entity, key, changes) if self._cipher.has_encrypted_fields(entity):
                    keys |= {(key[0], key_id) for key_id in list_key_ids(changes.values())}
        return sorted(keys)

    # reading

    def get(self, entity: type[E], organization_id: str, ids: Sequence[str], *, deleted: bool = False) -> dict[str, E]:
        rows = self.inner.get(entity, organization_id, ids, deleted=deleted)
        if not self._cipher.has_encrypted_fields(entity):
            return rows
        return {row_id: self._cipher.decrypt_row(row) for row_id, row in rows.items()}

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
        if order in self._cipher.list_columns(entity):
            raise InvalidInput(
                f"rows cannot be ordered by {order!r}, which is encrypted", value=order, remedy="order by 'created_at'"
            )
        stored, plain = self._split_conditions(entity, organization_id, where)
        page = limit if limit is None or not plain else max(limit, _PAGE)
        matches: list[E] = []
        while True:
            rows = self.inner.scan(
                entity,
                organization_id,
                stored,
                order=order,
                descending=descending,
                after=after,
                limit=page,
                deleted=deleted,
            )
            decrypted = map(self._cipher.decrypt_row, rows) if self._cipher.has_encrypted_fields(entity) else rows
            matches += [row for row in decrypted if is_match(row, plain)] if plain else list(decrypted)
            if page is None or not plain or len(rows) < page or (limit is not None and len(matches) >= limit):
                return matches if limit is None else matches[:limit]
            after = Page(rows[-1].__dict__[order] if order else None, get_key(rows[-1]))

    def columns(
        self,
        entity: type[Row],
        organization_id: str | None,
        names: Sequence[str],
        where: Sequence[Condition] = (),
        *,
        deleted: bool = False,
    ) -> Iterator[tuple[Any, ...]]:
        stored, plain = self._split_conditions(entity, organization_id, where)
        table, encrypted = get_table(entity), self._cipher.list_columns(entity)
        columns = tuple(dict.fromkeys([*names, *list_fields(plain)]))
        secret = [name for name in columns if name in encrypted]
        if not secret and not (entity is Memory and "hash" in columns):
            return self.inner.columns(entity, organization_id, names, stored, deleted=deleted)
        columns = tuple(dict.fromkeys([*columns, *list_identity_columns(table)]))
        rows = self.inner.columns(entity, organization_id, columns, stored, deleted=deleted)
        return self._decrypt_columns(table, rows, columns, secret, names, plain)

    def _decrypt_columns(
        self,
        table: Table,
        rows: Iterable[tuple[Any, ...]],
        columns: Sequence[str],
        secret: Sequence[str],
        names: Sequence[str],
        plain: Sequence[Condition],
    ) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            values = dict(zip(columns, row, strict=True))
            values |= self._cipher.decrypt_values(table, secret, values)
            if table.name == "memories" and "hash" in values:
                values["hash"] = self._cipher.decrypt_hash(values["organization_id"], values["hash"])
            if all(evaluate(values, condition) for condition in plain):
                yield tuple([values[name] for name in names])

    def count(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Condition] = (), *, deleted: bool = False
    ) -> int:
        stored, plain = self._split_conditions(entity, organization_id, where)
        if plain:
            key = get_table(entity).key[-1]
            return sum(1 for _ in self.columns(entity, organization_id, [key], where, deleted=deleted))
        return self.inner.count(entity, organization_id, stored, deleted=deleted)

    # conditions

    def _split_conditions(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Condition]
    ) -> tuple[list[Condition], list[Condition]]:
        """Split conditions into those that the store evaluates, and those on encrypted fields, which it cannot
        evaluate."""
        encrypted = self._cipher.list_columns(entity)
        if not encrypted:
            return list(where), []
        plain = [condition for condition in where if not encrypted.isdisjoint(list_fields((condition,)))]
        if entity is Memory:
            plain += [condition for condition in where if condition not in plain and not _is_searchable(condition)]
        stored = [condition for condition in where if condition not in plain]
        if entity is Memory and organization_id is not None:
            stored = [self._widen(organization_id, condition) for condition in stored]
        return stored, plain

    def _widen(self, organization_id: str, condition: Condition) -> Condition:
        """Return a condition on a memory's hash that also matches the keyed hash of an encrypted memory."""
        match condition:
            case Where("hash", Op.EQ | Op.IN, value) if value is not None:
                hashes = list(value) if condition.op is Op.IN else [value]
                encrypted = [self._cipher.encrypt_hash(organization_id, digest) for digest in hashes if digest]
                return Where("hash", Op.IN, [*hashes, *encrypted])
            case AllOf(conditions):
                return AllOf(tuple(self._widen(organization_id, part) for part in conditions))
            case AnyOf(conditions):
                return AnyOf(tuple(self._widen(organization_id, part) for part in conditions))
            case Not(part):
                return Not(self._widen(organization_id, part))
            case _:
                return condition

    # methods that only delegate

    @property
    def traits(self) -> Traits:
        return self.inner.traits

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        return self.inner.feed(after, limit=limit)

    def head(self) -> int:
        return self.inner.head()

    def read_settled(self, after: int, *, limit: int = 1000) -> SettledLines:
        return self.inner.read_settled(after, limit=limit)

    def read_snapshot(self) -> AbstractContextManager[StoreSnapshot]:
        """Return a snapshot of the stored rows without decrypting them, because backups keep fields encrypted."""
        return self.inner.read_snapshot()

    def maintain(self, *, erased: bool = False) -> bool:
        return self.inner.maintain(erased=erased)

    def find_problems(self) -> list[str]:
        return self.inner.find_problems()

    def close(self) -> None:
        self.inner.close()


def _is_searchable(condition: Condition) -> bool:
    """Return whether a condition compares the hash of a memory, if at all, in a way that `_widen` can translate."""
    match condition:
        case Where("hash"):
            return condition.op in (Op.EQ, Op.IN)
        case AllOf(conditions) | AnyOf(conditions):
            return all(map(_is_searchable, conditions))
        case Not(part):
            return _is_searchable(part)
        case _:
            return True
