"""Make ids for imported rows. An id of another system is kept if it is valid here, and encoded otherwise.

The id of a memory begins with the memory's original time: `mem_01hqx5k2v8:mem-0a1b2c3d`. So it sorts by that time among
the engine's own ids, and a partitioned store finds its partition. The part after the colon is also the memory's key, by
which every verb finds it.
"""

import hashlib
import re
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

from everhold import clock
from everhold.model.fields import ID_LENGTH, is_id

# The prefix of encoded ids. A valid id that begins with it is encoded too, so that decoding is never ambiguous.
_ENCODED = "encoded:"
_HASHED = "hashed:"
_DIGEST_BYTES = 16
_ENGINE_ID = re.compile(r"mem_[0-7][0-9a-hjkmnp-tv-z]{25}")
_TIME_AND_COLON = re.compile(r"mem_[0-7][0-9a-hjkmnp-tv-z]{9}:")


def encode_id(value: Any) -> str | None:
    """Return the id of a row for its id in another system; None for a value that cannot be an id.

    `decode_id` reverses it. An id that would be too long when encoded is replaced by a hash; the record keeps the
    original id in its metadata.
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


def name_memory(key: str, moment: datetime) -> dict[str, str]:
    """Return the key and the id of an imported memory. The id is its time, a colon and the key.

    An id that the engine made is kept, and the key is None, because such an id already has a time.
    """
    if _ENGINE_ID.fullmatch(key):
        return {"id": key}
    # A colon sorts after the digit "0" and before the next millisecond, so the id is in the same partition as its time.
    prefix = f"{clock.make_id_prefix('mem', moment)}:"
    return {"id": prefix + (key if len(prefix) + len(key) <= ID_LENGTH else _HASHED + hash_texts(key)), "key": key}


def decode_id(name: str) -> str:
    """Return the id that a row had in another system; a hashed id is returned unchanged."""
    name = _TIME_AND_COLON.sub("", name, count=1) if _TIME_AND_COLON.match(name) else name
    return unquote(name[len(_ENCODED) :], errors="surrogatepass") if name.startswith(_ENCODED) else name


def hash_texts(*parts: str | None) -> str:
    """Return a hash of texts that is the same on every machine."""
    joined = "\x1f".join("\x1e" if part is None else part for part in parts)
    return hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
