"""Make the ids of episodes. They are computed, so that two processes make the same id for the same episode."""

import hashlib

_DIGEST_BYTES = 16
_SEPARATOR = "\x1f"  # no id contains it


def make_episode_id(*parts: object) -> str:
    """Return the id of the episode that these values identify in an organization."""
    identity = _SEPARATOR.join("" if part is None else str(part) for part in parts)
    return f"epi_{hashlib.blake2b(identity.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"
