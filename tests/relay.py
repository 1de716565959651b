"""A relay in front of a real server, which adds TLS or replaces the name in the server's greeting."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# The driver caches what it reads only if the server's greeting names Redis, although Valkey reports changes too.
AS_REDIS = (b"$6\r\nvalkey\r\n", b"$5\r\nredis\r\n")

# Bytes of a request, and a function to call before data with these bytes is passed on.
Before = tuple[bytes, Callable[[], object]]


def _connect(target: int | Path) -> socket.socket:
    if isinstance(target, int):
        return socket.create_connection(("127.0.0.1", target))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(target))
    return connection


@contextmanager
def relay(
    target: int | Path,
    *,
    replacing: tuple[bytes, bytes] | None = None,
    before: Before | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[int]:
    """Yield the port of a relay to another port, or to the socket at a path.

    In answers, the first bytes of `replacing` are replaced by the second. `before` calls a function before requests
    with given bytes are passed on.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    opened: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                client_side, _ = listener.accept()
                server_side = _connect(target)
                if tls:
                    client_side = tls.wrap_socket(client_side, server_side=True)
            except OSError:
                if listener.fileno() < 0:
                    return
                continue
            opened.extend((client_side, server_side))
            for source, sink, change in ((client_side, server_side, None), (server_side, client_side, replacing)):
                arguments = (source, sink, change, before if source is client_side else None)
                threading.Thread(target=_copy, args=arguments, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        for connection in (listener, *opened):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


def _copy(
    source: socket.socket, target: socket.socket, change: tuple[bytes, bytes] | None, before: Before | None
) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            if before is not None:
                marker, call = before
                if marker in data:
                    call()
            target.sendall(data.replace(*change) if change else data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def make_certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Return a TLS context for a server on this machine, and the file with the certificate that clients must trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_path, key_path = folder / "certificate.pem", folder / "key.pem"
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_path, key_path)
    return context, certificate_path
