"""Encrypt the operations of one commit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from everhold.encryption.row_cipher import RowCipher
from everhold.model import Chunk, DataKey, Memory, Organization
from everhold.model.base import Row
from everhold.ports.erasure import note_purge
from everhold.ports.records import Records
from everhold.schema.catalog import get_key, get_table
from everhold.schema.operations import Delete, Ensure, Increment, Op, Operation, Patch, Put, Where
from everhold.schema.rules import check_row_rules, find_rules


class CommitEncryption:
    """Encrypts the operations of a commit in their order. `plain` reads the store with its rows decrypted."""

    def __init__(self, plain: Records, cipher: RowCipher) -> None:
        self._plain = plain
        self._cipher = cipher
        # The plain rows that earlier operations of this commit add or change. They are not in the store yet.
        self._pending: dict[tuple[type[Row], tuple[Any, ...]], dict[str, Any]] = {}
        # Operations that follow all others of the commit.
        self._final: list[Operation] = []

    def encrypt(self, operations: Sequence[Operation]) -> list[Operation]:
        """Return the operations with encrypted values, for the store."""
        encrypted: list[Operation] = []
        for operation in operations:
            encrypted += self._encrypt(operation)
        return encrypted + self._final

    def _encrypt(self, operation: Operation) -> list[Operation]:
        """Return the operations that replace an operation, with its values encrypted."""
        match operation:
            case Put(row) | Ensure(row) if self._cipher.has_encrypted_fields(type(row)):
                self._check_rules(type(row), self._cipher.list_columns(type(row)), row.__dict__)
                self._pending[type(row), get_key(row)] = row.__dict__
                return [type(operation)(self._cipher.encrypt_row(row))]
            case Patch(entity, _, changes) if self._changes_encrypted_columns(entity, changes):
                return [self._encrypt_patch(operation)]
            case Increment(entity, key, _, changes) if self._changes_encrypted_columns(entity, changes):
                after = {**self._read_current(entity, key), **changes}
                encrypted = self._cipher.encrypt_values(get_table(entity), changes, after)
                return [replace(operation, changes={**changes, **encrypted})]
            case Delete(entity, key) if entity is Organization:
                key_ids = [row.id for row in self._cipher.keys.list_keys(key[0])]
                return [operation, *(Delete(DataKey, (key[0], key_id)) for key_id in key_ids)]
            case _:
                return [operation]

    def _changes_encrypted_columns(self, entity: type[Row], changes: Mapping[str, Any]) -> bool:
        columns = self._cipher.list_columns(entity)
        if not columns:
            return False
        return not columns.isdisjoint(changes) or (entity is Memory and not {"hash", "kind"}.isdisjoint(changes))

    def _encrypt_patch(self, patch: Patch) -> Patch:
        entity, changes = patch.entity, patch.changes
        table, current = get_table(entity), self._read_current(entity, patch.key)
        if not current:  # the store says that the row does not exist
            return patch
        after = {**current, **changes}
        self._check_rules(entity, changes, after)
        self._pending[entity, patch.key] = after
        plain_changes = dict(changes)
        secret_before, secret_after = (
            set(self._cipher.fields.list_written(table.name, row)) for row in (current, after)
        )
        if secret_before != secret_after:  # the kind of a memory changed to or from vault
            plain_changes |= {name: after[name] for name in (*(secret_before ^ secret_after), "hash")}
            if secret_after - secret_before:
                self._drop_past_chunks(patch.key)
        return replace(patch, changes={**plain_changes, **self._cipher.encrypt_values(table, plain_changes, after)})

    def _check_rules(self, entity: type[Row], names: Any, values: Mapping[str, Any]) -> None:
        """Check the rules over encrypted fields, which the store cannot check."""
        columns = self._cipher.list_columns(entity)
        rules = [rule for rule in find_rules(entity, names) if not columns.isdisjoint(rule.fields)]
        check_row_rules(get_table(entity), rules, values)

    def _read_current(self, entity: type[Row], key: tuple[Any, ...]) -> dict[str, Any]:
        """Return the plain values of a row; empty if it does not exist."""
        pending = self._pending.get((entity, key))
        if pending is not None:
            return pending
        table = get_table(entity)
        where = [Where(name, Op.EQ, value) for name, value in zip(table.key, key, strict=True)]
        rows = self._plain.scan(entity, key[0] if table.tenant == table.key[0] else None, where, limit=1, deleted=True)
        return dict(rows[0].__dict__) if rows else {}

    def _drop_past_chunks(self, key: tuple[Any, ...]) -> None:
        """Delete, at the end of the commit, the chunks of a memory that was plain until now."""
        where = [Where("owner_id", Op.EQ, key[1]), Where("owner_kind", Op.EQ, "memory")]
        chunks = self._plain.scan(Chunk, key[0], where)
        if chunks:
            self._final += [*(Delete(Chunk, get_key(chunk)) for chunk in chunks), *note_purge()]
