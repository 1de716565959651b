"""A store that encrypts fields on their way in and decrypts them on their way out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeVar

from everhold.encryption.row_cipher import RowCipher, list_key_ids, list_place_columns
from everhold.errors import BrokenReference, InvalidInput
from everhold.model import Chunk, DataKey, Memory, Organization
from everhold.model.base import Row
from everhold.ports.erasure import note_purge
from everhold.ports.records import Records
from everhold.ports.store_snapshot import StoreSnapshot
from everhold.schema.catalog import get_key, get_table
from everhold.schema.conditions import evaluate, is_match, list_fields
from everhold.schema.operations import (
    AllOf,
    AnyOf,
    Condition,
    Delete,
    Ensure,
    Feed,
    Increment,
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
from everhold.schema.rules import check_row_rules, find_rules
from everhold.schema.table import Table

E = TypeVar("E", bound=Row)
_PAGE = 256  # rows per query if some conditions are evaluated after decrypting
_ATTEMPTS = 3


class EncryptingRecords:
    """Delegates to another store. What it is given and what it returns is plain; what it stores is encrypted."""

    def __init__(self, inner: Records, cipher: RowCipher) -> None:
        self.inner = inner
        self._cipher = cipher

    # writing

    def commit(self, operations: Sequence[Operation]) -> None:
        for attempt in range(_ATTEMPTS):
            last: list[Operation] = []
            encrypted = [inner for operation in operations for inner in self._encrypt(operation, last)]
            keys = self._list_user_keys(encrypted)
            try:
                # A key that is destroyed at the same moment must not encrypt anything: nobody could read it again.
                self.inner.commit([*(Require(DataKey, key) for key in keys), *encrypted, *last])
            except BrokenReference:
                if attempt == _ATTEMPTS - 1 or not self._has_lost_key(keys):
                    raise
            else:
                return

    def _has_lost_key(self, keys: Iterable[tuple[str, str]]) -> bool:
        lost = [key for key in keys if self._cipher.keys.has_vanished(key[0], [key[1]])]
        return bool(lost)

    def _list_user_keys(self, operations: Iterable[Operation]) -> list[tuple[str, str]]:
        """Return the users' keys by which a commit is encrypted, each with its organization."""
        if not self._cipher.keys.per_user:
            return []
        keys: set[tuple[str, str]] = set()
        for operation in operations:
            match operation:
                case Put(row) | Ensure(row) if self._cipher.is_concerned(type(row)):
                    columns = self._cipher.list_columns(type(row))
                    ids = list_key_ids(row.__dict__[name] for name in columns)
                    keys |= {(row.__dict__["organization_id"], key_id) for key_id in ids}
                case Patch(entity, key, changes) if self._cipher.is_concerned(entity):
                    keys |= {(key[0], key_id) for key_id in list_key_ids(changes.values())}
        return sorted(keys)

    def _encrypt(self, operation: Operation, last: list[Operation]) -> list[Operation]:
        """Return the operations for the store; `last` gets what must follow all others of the commit."""
        match operation:
            case Put(row) | Ensure(row) if self._cipher.is_concerned(type(row)):
                # The store cannot check what it cannot read.
                check_row_rules(get_table(type(row)), type(row).rules, row.__dict__)
                return [type(operation)(self._cipher.encrypt_row(row))]
            case Patch(entity, key, changes) if self._concerns(entity, changes):
                return [self._encrypt_patch(operation, last)]
            case Increment(entity, key, _, changes) if self._concerns(entity, changes):
                current = self._read_current(entity, key)
                encrypted = self._cipher.encrypt_values(get_table(entity), changes, {**current, **changes})
                return [replace(operation, changes={**changes, **encrypted})]
            case Delete(entity, key) if entity is Organization:
                key_ids = [row.id for row in self._cipher.keys.list_keys(key[0])]
                return [operation, *(Delete(DataKey, (key[0], key_id)) for key_id in key_ids)]
            case _:
                return [operation]

    def _concerns(self, entity: type[Row], changes: Mapping[str, Any]) -> bool:
        columns = self._cipher.list_columns(entity)
        if not columns:
            return False
        return not columns.isdisjoint(changes) or (entity is Memory and not {"hash", "kind"}.isdisjoint(changes))

    def _encrypt_patch(self, patch: Patch, last: list[Operation]) -> Patch:
        entity, changes = patch.entity, patch.changes
        table, current = get_table(entity), self._read_current(entity, patch.key)
        if not current:  # the store says that the row does not exist
            return patch
        after = {**current, **changes}
        check_row_rules(table, find_rules(entity, changes), after)
        changed = dict(changes)
        before_secret, secret = (set(self._cipher.fields.list_written(table.name, row)) for row in (current, after))
        if before_secret != secret:  # a memory became one of kind vault, or is none any more
            changed |= {name: after[name] for name in (*(before_secret ^ secret), "hash")}
            if secret - before_secret:
                last += self._drop_past_chunks(patch.key)
        return replace(patch, changes={**changed, **self._cipher.encrypt_values(table, changed, after)})

    def _read_current(self, entity: type[Row], key: tuple[Any, ...]) -> dict[str, Any]:
        """Return the plain values of a row; empty if it does not exist."""
        table = get_table(entity)
        where = [Where(name, Op.EQ, value) for name, value in zip(table.key, key, strict=True)]
        rows = self.scan(entity, key[0] if table.tenant == table.key[0] else None, where, limit=1, deleted=True)
        return dict(rows[0].__dict__) if rows else {}

    def _drop_past_chunks(self, key: tuple[Any, ...]) -> list[Operation]:
        """Return the operations that delete the chunks of a memory that was plain until now."""
        where = [Where("owner_id", Op.EQ, key[1]), Where("owner_kind", Op.EQ, "memory")]
        chunks = self.inner.scan(Chunk, key[0], where)
        return [*(Delete(Chunk, get_key(chunk)) for chunk in chunks), *note_purge()] if chunks else []

    # reading

    def get(self, entity: type[E], organization_id: str, ids: Sequence[str], *, deleted: bool = False) -> dict[str, E]:
        rows = self.inner.get(entity, organization_id, ids, deleted=deleted)
        if not self._cipher.is_concerned(entity):
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
        stored, plain = self._split(entity, organization_id, where)
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
            decrypted = map(self._cipher.decrypt_row, rows) if self._cipher.is_concerned(entity) else rows
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
        stored, plain = self._split(entity, organization_id, where)
        table, encrypted = get_table(entity), self._cipher.list_columns(entity)
        asked = tuple(dict.fromkeys([*names, *list_fields(plain)]))
        secret = [name for name in asked if name in encrypted]
        if not secret:
            hashes = self._list_hashes(entity, organization_id, names, where)
            rows = self.inner.columns(entity, organization_id, names, stored, deleted=deleted)
            return _replace_hashes(rows, list(names).index("hash"), hashes) if hashes else rows
        asked = tuple(dict.fromkeys([*asked, *list_place_columns(table)]))
        rows = self.inner.columns(entity, organization_id, asked, stored, deleted=deleted)
        return self._decrypt_columns(table, rows, asked, secret, names, plain)

    def _decrypt_columns(
        self,
        table: Table,
        rows: Iterable[tuple[Any, ...]],
        asked: Sequence[str],
        secret: Sequence[str],
        names: Sequence[str],
        plain: Sequence[Condition],
    ) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            values = dict(zip(asked, row, strict=True))
            values |= self._cipher.decrypt_values(table, secret, values)
            if all(evaluate(values, condition) for condition in plain):
                yield tuple([values[name] for name in names])

    def count(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Condition] = (), *, deleted: bool = False
    ) -> int:
        stored, plain = self._split(entity, organization_id, where)
        if plain:
            key = get_table(entity).key[-1]
            return sum(1 for _ in self.columns(entity, organization_id, [key], where, deleted=deleted))
        return self.inner.count(entity, organization_id, stored, deleted=deleted)

    # conditions

    def _split(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Condition]
    ) -> tuple[list[Condition], list[Condition]]:
        """Return the conditions that the store evaluates, and those on encrypted fields, which it cannot."""
        encrypted = self._cipher.list_columns(entity)
        if not encrypted:
            return list(where), []
        plain = [condition for condition in where if not encrypted.isdisjoint(list_fields((condition,)))]
        stored = [condition for condition in where if condition not in plain]
        if entity is Memory and organization_id is not None:
            stored = [self._widen(organization_id, condition) for condition in stored]
        return stored, plain

    def _widen(self, organization_id: str, condition: Condition) -> Condition:
        """Return a condition on a memory's hash that also matches the keyed hash of an encrypted memory."""
        match condition:
            case Where("hash", Op.EQ | Op.IN, value) if value is not None:
                hashes = list(value) if condition.op is Op.IN else [value]
                keyed = [self._cipher.hash_plain(organization_id, digest) for digest in hashes]
                return Where("hash", Op.IN, [*hashes, *keyed])
            case AllOf(conditions):
                return AllOf(tuple(self._widen(organization_id, part) for part in conditions))
            case AnyOf(conditions):
                return AnyOf(tuple(self._widen(organization_id, part) for part in conditions))
            case Not(part):
                return Not(self._widen(organization_id, part))
            case _:
                return condition

    def _list_hashes(
        self, entity: type[Row], organization_id: str | None, names: Sequence[str], where: Iterable[Condition]
    ) -> dict[bytes, bytes]:
        """Return the plain hash of each keyed hash that the conditions ask for, if hashes are to be returned."""
        if entity is not Memory or "hash" not in names or organization_id is None:
            return {}
        asked: list[bytes | None] = []
        for condition in where:
            if isinstance(condition, Where) and condition.field == "hash":
                asked += condition.value if condition.op is Op.IN else [condition.value]
        return {self._cipher.hash_plain(organization_id, digest): digest for digest in asked if digest is not None}

    # the rest

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
        """Return a snapshot of the rows as they are stored: a backup holds encrypted fields encrypted."""
        return self.inner.read_snapshot()

    def maintain(self, *, erased: bool = False) -> bool:
        return self.inner.maintain(erased=erased)

    def find_problems(self) -> list[str]:
        return self.inner.find_problems()

    def close(self) -> None:
        self.inner.close()


def _replace_hashes(
    rows: Iterable[tuple[Any, ...]], place: int, plain: Mapping[bytes, bytes]
) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        yield (*row[:place], plain.get(row[place], row[place]), *row[place + 1 :])
