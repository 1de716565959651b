"""Where large contents lie: by the SHA-256 of what they are, each organization's apart."""

from collections.abc import Iterator
from typing import Protocol


class Blobs(Protocol):
    """Contents that never change. Keeping one again is keeping it once."""

    def put(self, organization_id: str, content: bytes) -> str:
        """Keeps a content, durably, and returns its address."""
        ...

    def get(self, organization_id: str, address: str) -> bytes:
        """The content at an address, after checking that it is what was kept. NotFound, or StoreDamaged."""
        ...

    def delete(self, organization_id: str, address: str) -> None:
        """Removes a content; one that is gone is passed over."""
        ...

    def addresses(self, organization_id: str) -> Iterator[str]:
        """All that the organization keeps, in no particular order."""
        ...
