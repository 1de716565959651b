"""Ids of episodes. They are computed, so that two processes that build the same episode give it the same id."""

import hashlib

_DIGEST_BYTES = 16
_SEPARATOR = "\x1f"  # it occurs in no id


def make_episode_id(*parts: object) -> str:
    """Return the id of the episode that these values identify in its organization."""
    identity = _SEPARATOR.join("" if part is None else str(part) for part in parts)
    return f"epi_{hashlib.blake2b(identity.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"
