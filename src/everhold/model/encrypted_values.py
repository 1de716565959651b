"""Mark encrypted values in columns. An encrypted value is an envelope in text, JSON or bytes with a mark.

A plain value that begins like an encrypted value is stored with another mark, so that every value is read as it was
written.
"""

import base64
import binascii
from typing import Any

from everhold.errors import EnvelopeDamaged

ENCRYPTED, PLAIN = "everhold-encrypted", "everhold-plain"
_TEXT_MARK, _PLAIN_TEXT_MARK = f"{ENCRYPTED}:", f"{PLAIN}:"
_BYTES_MARK, _PLAIN_BYTES_MARK = f"\0{ENCRYPTED}\0".encode(), f"\0{PLAIN}\0".encode()

# The beginning of the encrypted hash of a memory. A plain hash has 16 bytes, an encrypted hash at least 36.
HASH_MARK, _ENCRYPTED_HASH_BYTES = b"\0eh1", 36


def is_encrypted(value: Any) -> bool:
    """Return whether a stored value is an envelope."""
    if isinstance(value, str):
        return value.startswith(_TEXT_MARK)
    if isinstance(value, bytes):
        return value.startswith(_BYTES_MARK)
    mark, content = _split(value)
    return mark == ENCRYPTED and isinstance(content, str)


def is_encrypted_hash(digest: bytes | None) -> bool:
    """Return whether the stored hash of a memory is encrypted."""
    return digest is not None and len(digest) >= _ENCRYPTED_HASH_BYTES and digest.startswith(HASH_MARK)


def has_mark(value: Any) -> bool:
    """Return whether a stored value is an envelope or a plain value with a mark."""
    if isinstance(value, str):
        return value.startswith((_TEXT_MARK, _PLAIN_TEXT_MARK))
    if isinstance(value, bytes):
        return value.startswith((_BYTES_MARK, _PLAIN_BYTES_MARK))
    return _split(value)[0] in (ENCRYPTED, PLAIN)


def _split(value: Any) -> tuple[Any, Any]:
    """Return the mark and the content of a JSON value; (None, None) if it has no mark.

    A marked object has the mark as its only key, and a marked list has the mark as its first of two items.
    """
    if isinstance(value, dict) and len(value) == 1:
        return next(iter(value.items()))
    return tuple(value) if isinstance(value, list) and len(value) == 2 else (None, None)


def pack_envelope(envelope: bytes, *, like: type) -> Any:
    """Return an envelope as a value for a column of a type: `str`, `bytes`, `list` or other JSON."""
    if like is bytes:
        return _BYTES_MARK + envelope
    text = base64.b64encode(envelope).decode("ascii")
    if like is str:
        return _TEXT_MARK + text
    return [ENCRYPTED, text] if like is list else {ENCRYPTED: text}


def unpack_envelope(value: Any) -> bytes:
    """Return the envelope in a value. Raise EnvelopeDamaged if it cannot be read."""
    if isinstance(value, bytes):
        return value.removeprefix(_BYTES_MARK)
    text = value.removeprefix(_TEXT_MARK) if isinstance(value, str) else _split(value)[1]
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise EnvelopeDamaged(
            "encrypted content is not base 64", remedy="restore the row from a backup, or delete it"
        ) from None


def mark_plain(value: Any) -> Any:
    """Return a plain value as it is stored: with a mark if it looks like a marked value."""
    if not has_mark(value):
        return value
    if isinstance(value, str):
        return _PLAIN_TEXT_MARK + value
    if isinstance(value, bytes):
        return _PLAIN_BYTES_MARK + value
    return [PLAIN, value] if isinstance(value, list) else {PLAIN: value}


def unmark_plain(value: Any) -> Any:
    """Return a stored plain value without its mark."""
    if isinstance(value, str):
        return value.removeprefix(_PLAIN_TEXT_MARK)
    if isinstance(value, bytes):
        return value.removeprefix(_PLAIN_BYTES_MARK)
    mark, content = _split(value)
    return content if mark == PLAIN else value
