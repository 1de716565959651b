"""Frames of a request as ZeroMQ delivers them, and the reply in the same framing.

A DEALER client sends `[body]` or `["", body]`, a REQ client always `["", body]`. The socket puts the identity of the
client before them.
"""

from collections.abc import Sequence
from typing import NamedTuple

# The frames are identity, delimiter and body. A message is refused as soon as a fourth frame is read.
MAX_FRAMES = 3


class Envelope(NamedTuple):
    """The identity of the client that sent a request, and whether an empty frame preceded the body."""

    identity: bytes
    has_delimiter: bool

    def wrap(self, body: bytes) -> list[bytes]:
        """Return the frames of a reply."""
        return [self.identity, b"", body] if self.has_delimiter else [self.identity, body]


class Incoming(NamedTuple):
    """A request that is not decoded yet. `body` is None if the message does not have the frames of a request."""

    envelope: Envelope
    body: bytes | None
    peer: str | None


def read_frames(frames: Sequence[bytes], peer: str | None) -> Incoming:
    """Return the request in these frames.

    The reply to a malformed message has a delimiter if the message began with one.
    """
    identity, *payload = frames
    has_delimiter = len(payload) > 1 and payload[0] == b""
    envelope = Envelope(identity, has_delimiter)
    match payload:
        case [body] | [b"", body]:
            return Incoming(envelope, body, peer)
    return Incoming(envelope, None, peer)
