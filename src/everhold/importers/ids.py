"""Ids of other systems: kept as they are where our rules allow it, and encoded otherwise."""

import hashlib
from typing import Any
from urllib.parse import quote, unquote

from everhold.model.fields import ID_LENGTH, is_id

# An id that begins like this was encoded. One that is valid and begins like this is encoded, too, so that decoding
# is never ambiguous.
_ENCODED = "encoded:"
_HASHED = "hashed:"
_DIGEST_BYTES = 16


def encode_id(value: Any) -> str | None:
    """Return the id that a row gets for an id of another system; None for a value that is no id.

    `decode_id` reverses it. Only an id that is too long even when encoded is replaced by a hash; the record keeps the
    original in its metadata.
    """
    if value is None or isinstance(value, bool | float | list | dict | bytes):
        return None
    text = str(value)
    if not text:
        return None
    if is_id(text) and not text.startswith((_ENCODED, _HASHED)):
        return text
    encoded = _ENCODED + quote(text, safe=" !#$&'()*+,/:;=?@[]", errors="surrogatepass")
    if encoded.endswith(" "):
        encoded = encoded[:-1] + "%20"
    return encoded if is_id(encoded) and len(encoded) <= ID_LENGTH else _HASHED + hash_texts(text)


def decode_id(name: str) -> str:
    """Return the id that another system had for a row; a hashed id stays as it is."""
    return unquote(name[len(_ENCODED) :], errors="surrogatepass") if name.startswith(_ENCODED) else name


def hash_texts(*parts: str | None) -> str:
    """Return a hash of texts, the same on every machine."""
    joined = "\x1f".join("\x1e" if part is None else part for part in parts)
    return hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
