"""Keys that encrypt content.

They have a module of their own because opening a store looks for them, and most processes use no other entity of
`housekeeping.py`.
"""

from pydantic import Field

from everhold.model.base import Entity
from everhold.model.fields import Count, Label, Name, Word64


class DataKey(Entity):
    """A key that encrypts content of one organization or one user, wrapped by the master key.

    `subject` is the user, or empty for the organization's own key. Each subject has one key per generation and purpose;
    the newest generation encrypts, and older ones still decrypt. Destroying a key deletes its row; the erasure list
    keeps its id.
    """

    subject: Name = ""
    purpose: Label = "content"
    """What it encrypts: "content", or the "hash" of memories."""
    generation: Count = 1
    algorithm: Label = "AES-256-GCM"
    master_fingerprint: Word64
    """Which master key wrapped it."""
    wrapped_key: bytes = Field(repr=False)
