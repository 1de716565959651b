"""Encrypt and decrypt the fields of rows."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from everhold.encryption.fields import EncryptedFields
from everhold.errors import EncryptionError
from everhold.model.base import Row
from everhold.model.encrypted_values import (
    HASH_MARK,
    has_mark,
    is_encrypted,
    is_encrypted_hash,
    mark_plain,
    pack_envelope,
    unmark_plain,
    unpack_envelope,
)
from everhold.model.episode import EPISODE
from everhold.ports.data_keys import DataEnvelope, DataKeys, make_context
from everhold.schema.catalog import get_table
from everhold.schema.codec import decode_json, encode_json
from everhold.schema.rules import check_changes
from everhold.schema.table import Kind, Table

E = TypeVar("E", bound=Row)

_TYPES: Mapping[Kind, type] = {Kind.TEXT: str, Kind.BYTES: bytes, Kind.JSON: dict}
# The columns that identify a line of the change feed. Its number is not known before it is stored.
_FEED_IDENTITY = ("entity", "entity_id", "idempotency_key")

_EMPTY_CONTENT: Mapping[Kind, bytes] = {Kind.TEXT: b"", Kind.JSON: b"{}", Kind.BYTES: b""}
_reads_unreadable: ContextVar[bool] = ContextVar("_reads_unreadable", default=False)


@contextmanager
def read_unreadable_as_empty() -> Iterator[None]:
    """Return a context in which fields that cannot be decrypted are read as empty, to erase users whose key is lost."""
    token = _reads_unreadable.set(True)
    try:
        yield
    finally:
        _reads_unreadable.reset(token)


class RowCipher:
    """Encrypts the fields of rows and decrypts them."""

    def __init__(self, keys: DataKeys, fields: EncryptedFields) -> None:
        self.keys = keys
        self.fields = fields

    def has_encrypted_fields(self, entity: type[Row]) -> bool:
        """Return whether rows of an entity may have encrypted fields."""
        return get_table(entity).name in self.fields.read

    def list_columns(self, entity: type[Row]) -> frozenset[str]:
        """Return the columns of an entity that may be encrypted."""
        return self.fields.read.get(get_table(entity).name, frozenset())

    def encrypt_row(self, row: E) -> E:
        """Return a row as it is stored."""
        table = get_table(type(row))
        if table.name not in self.fields.read:
            return row
        stored = self.encrypt_values(table, row.__dict__, row.__dict__)
        return type(row).build_complete({**row.__dict__, **stored}) if stored else row

    def encrypt_values(self, table: Table, values: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored form of those `values` that are encrypted or marked. `row` has the owners of the values."""
        secret = self.fields.list_written(table.name, row)
        # The store cannot check encrypted values, so they are checked here.
        check_changes(table, {name: values[name] for name in secret if values.get(name) is not None})
        stored: dict[str, Any] = {}
        for name in self.fields.read[table.name]:
            value = values.get(name)
            if value is None:
                continue
            if name in secret:
                stored[name] = self._encrypt(table, name, value, row)
            elif has_mark(value):
                stored[name] = mark_plain(value)
        if table.name == "memories" and "text" in secret and values.get("hash") is not None:
            stored["hash"] = self.encrypt_hash(row["organization_id"], values["hash"])
        if table.name == "episodes" and "summary" in secret and values.get("name") and row.get("level") == EPISODE:
            stored["name"] = None  # it consists of words of messages, and the column is too short for an envelope
        return stored

    def decrypt_row(self, row: E) -> E:
        """Return a stored row with all values decrypted."""
        table = get_table(type(row))
        values = row.__dict__
        content = self.decrypt_values(table, self.fields.read.get(table.name, ()), values)
        if table.name == "memories" and is_encrypted_hash(values["hash"]):
            content["hash"] = self.decrypt_hash(values["organization_id"], values["hash"])
        return type(row).build_complete({**values, **content}) if content else row

    def decrypt_values(self, table: Table, names: Iterable[str], stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the plain values of those columns that are encrypted or marked in the store."""
        content: dict[str, Any] = {}
        for name in names:
            value = stored[name]
            if value is None or not has_mark(value) or (table.by_name[name].kind is Kind.JSON and _is_json_text(value)):
                continue
            content[name] = self._decrypt(table, name, value, stored) if is_encrypted(value) else unmark_plain(value)
        return content

    def encrypt_hash(self, organization_id: str, digest: bytes) -> bytes:
        """Return the encrypted form of a memory's hash, which is stored with an encrypted text."""
        return HASH_MARK + self.keys.encrypt_digest(organization_id, digest)

    def decrypt_hash(self, organization_id: str, stored: bytes) -> bytes | None:
        """Return the plain hash of a memory. Equal texts have equal hashes."""
        if not is_encrypted_hash(stored):
            return stored
        try:
            return self.keys.decrypt_digest(organization_id, stored.removeprefix(HASH_MARK))
        except EncryptionError:
            if _reads_unreadable.get():
                return None
            raise

    def _encrypt(self, table: Table, name: str, value: Any, row: Mapping[str, Any]) -> Any:
        kind = table.by_name[name].kind
        envelope = self.keys.encrypt(
            row[table.tenant or ""], find_user(row), _encode(kind, value), _make_value_context(table, name, row)
        )
        return pack_envelope(envelope, like=list if isinstance(value, list) else _TYPES[kind])

    def _decrypt(self, table: Table, name: str, value: Any, row: Mapping[str, Any]) -> Any:
        try:
            content = self.keys.decrypt(
                row[table.tenant or ""], unpack_envelope(value), _make_value_context(table, name, row)
            )
        except EncryptionError as error:
            if _reads_unreadable.get():
                return _decode(table.by_name[name].kind, _EMPTY_CONTENT[table.by_name[name].kind])
            row_key = "/".join(str(row[part]) for part in table.key if part != table.tenant)
            raise type(error)(
                f"{table.name}.{name} of row {row_key!r} cannot be decrypted: {error.fact}", remedy=str(error.remedy)
            ) from None
        return _decode(table.by_name[name].kind, content)


def find_user(row: Mapping[str, Any]) -> str | None:
    """Return the user whose key encrypts a row; None if the organization's key does."""
    user_ids = row.get("user_ids")
    if user_ids is not None:  # an archive, perhaps of messages of several users
        return user_ids[0] if len(user_ids) == 1 else None
    return row.get("user_id") or None


def list_key_ids(values: Iterable[Any]) -> set[str]:
    """Return the ids of the data keys with which values are encrypted."""
    return {DataEnvelope.decode(unpack_envelope(value)).key_id for value in values if is_encrypted(value)}


def list_identity_columns(table: Table) -> tuple[str, ...]:
    """Return the columns that identify a row and its owners. They are needed to decrypt one of its values."""
    if table.name == "outbox":
        return ("organization_id", *_FEED_IDENTITY)
    return table.key if table.tenant in table.key else (str(table.tenant), *table.key)


def _make_value_context(table: Table, name: str, row: Mapping[str, Any]) -> bytes:
    """Return the bytes that bind an encrypted value to its row and column."""
    return make_context(table.name, name, *(str(row[part] or "") for part in list_identity_columns(table)))


def _is_json_text(value: Any) -> bool:
    """Return whether a JSON value is a text. Only objects and lists have a marked form."""
    return isinstance(value, str)


def _encode(kind: Kind, value: Any) -> bytes:
    if kind is Kind.BYTES:
        return bytes(value)
    return (value if kind is Kind.TEXT else encode_json(value)).encode()


def _decode(kind: Kind, content: bytes) -> Any:
    if kind is Kind.BYTES:
        return content
    text = content.decode()
    return text if kind is Kind.TEXT else decode_json(text)
