"""Keys that encrypt content.

They are not in `housekeeping.py`, because every opening of a store looks for keys, and importing the other entities of
that module would take time.
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
    """The kind of values that the key encrypts: "content", or the "hash" of memories."""
    generation: Count = 1
    algorithm: Label = "AES-256-GCM"
    master_fingerprint: Word64
    """The fingerprint of the master key that wrapped this key."""
    wrapped_key: bytes = Field(repr=False)
