"""CURVE keys: the key pair of the gateway, and the public keys of the clients that may connect."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zmq
import zmq.auth

from everhold.errors import InvalidSettings

SERVER_FILE = "server.key_secret"
CLIENTS = "clients"
# The address to which libzmq sends the question whether a client may connect: https://rfc.zeromq.org/spec/27
ZAP_ADDRESS = "inproc://zeromq.zap.01"
_DOMAIN = b"everhold"


@dataclass(frozen=True)
class CurveKeys:
    """The key pair of the gateway and the public keys of its clients."""

    public: bytes
    secret: bytes = field(repr=False)
    clients: frozenset[bytes]

    def protect(self, socket: "zmq.Socket[bytes]") -> None:
        """Let only clients with a known key connect to a socket, over an encrypted connection."""
        socket.curve_publickey, socket.curve_secretkey = self.public, self.secret
        socket.curve_server = True
        socket.zap_domain = _DOMAIN

    def authorize(self, frames: Sequence[bytes]) -> list[bytes]:
        """Return the answer to libzmq's question whether a client may connect."""
        version, request_id, _, _, _, mechanism, *credentials = frames
        is_known = mechanism == b"CURVE" and zmq.utils.z85.encode(credentials[0]) in self.clients
        status, reason = (b"200", b"OK") if is_known else (b"400", b"unknown client key")
        return [version, request_id, status, reason, b"", b""]


def load_keys(folder: Path) -> CurveKeys:
    """Return the keys in a folder: `server.key_secret`, and `clients/*.key` with the public keys of clients."""
    server = folder / SERVER_FILE
    if not server.is_file():
        raise InvalidSettings(
            f"no key of the gateway at {server}", value=str(server), remedy="docs/voice.md shows how to make one"
        )
    public, secret = _load_certificate(server)
    if secret is None:
        raise InvalidSettings(f"{server} holds no secret key", value=str(server), remedy="use the file *.key_secret")
    clients = frozenset(_load_certificate(path)[0] for path in sorted((folder / CLIENTS).glob("*.key")))
    if not clients:
        raise InvalidSettings(
            f"no client keys in {folder / CLIENTS}",
            value=str(folder / CLIENTS),
            remedy="put the file *.key of each client there",
        )
    return CurveKeys(public, secret, clients)


def _load_certificate(path: Path) -> tuple[bytes, bytes | None]:
    try:
        return zmq.auth.load_certificate(path)
    except (OSError, ValueError):
        raise InvalidSettings(f"{path} holds no CURVE key", value=str(path), remedy="make the key again") from None
