"""Signed heads of the access log's chains, one small file per organization in a folder outside the store."""

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from everhold import clock
from everhold.errors import EverholdError, InvalidSettings, StoreDamaged, StoreUnavailable
from everhold.files import open_lock, write_private
from everhold.ports.keys import Key
from everhold.ports.log_heads import SignedHead

_MIN_KEY_BYTES = 16
_PURPOSE = "access log"


def read_key(file: Path | None, secret: str | None) -> Key | None:
    """Return the engine's key, from a file or from a setting; None if neither is set."""
    if file is not None and secret is not None:
        raise InvalidSettings("log.key_file and log.key are both set", remedy="leave one of them out")
    if file is not None:
        try:
            content = file.read_bytes().strip()
        except OSError as error:
            raise InvalidSettings(
                f"log.key_file {file} cannot be read ({error.strerror})", remedy="check the path"
            ) from None
    elif secret is not None:
        content = secret.encode().strip()
    else:
        return None
    if len(content) < _MIN_KEY_BYTES:
        raise InvalidSettings(
            f"the log's key has {len(content)} bytes",
            remedy=f"use at least {_MIN_KEY_BYTES}, for example from `openssl rand -hex 32`",
        )
    return Key(content)


class HeadFiles:
    """Signed heads in a folder."""

    def __init__(self, folder: Path, key: Key) -> None:
        self._folder = folder
        self.key = key.derive(_PURPOSE)

    @property
    def place(self) -> str:
        return str(self._folder)

    def read(self, organization: str) -> SignedHead | None:
        path = self._path(organization)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreUnavailable(
                f"{path} cannot be read ({error.strerror})", remedy="check its permissions"
            ) from error
        head = self._parse(content)
        if head is None or head.organization != organization:
            raise StoreDamaged(
                f"{path} does not hold a head signed with this key",
                remedy="set the key that signed it, or accept the log as it is with `everhold log --accept`",
            )
        return head

    def write(self, head: SignedHead, *, shorten: bool = False) -> None:
        path = self._path(head.organization)
        try:
            with self._lock():
                # Another process may have signed a longer chain since the caller looked.
                current = None if shorten else self.read(head.organization)
                if current is None or current.length < head.length:
                    write_private(path, self._format(head), overwrite=True)
        except OSError as error:
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
            raise StoreUnavailable(f"{path} cannot be written ({cause.strerror})", remedy="check log.heads") from error

    def list_organizations(self) -> list[str]:
        organizations = []
        for path in sorted(self._folder.glob("*.json")):
            with suppress(OSError):
                head = self._parse(path.read_bytes())
                if head is not None:
                    organizations.append(head.organization)
        return organizations

    def _path(self, organization: str) -> Path:
        # The name is a digest, because an id may have any character, and file systems differ in what they accept.
        return self._folder / f"{hashlib.sha256(organization.encode()).hexdigest()}.json"

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open_lock(self._folder / ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _format(self, head: SignedHead) -> bytes:
        values = {
            "organization": head.organization,
            "length": head.length,
            "hash": head.hash.hex(),
            "unsigned": head.unsigned,
            "signed_at": clock.micros(head.signed_at),
        }
        return json.dumps({**values, "signature": self._sign(values).hex()}, indent=1).encode() + b"\n"

    def _parse(self, content: bytes) -> SignedHead | None:
        """Return the head that a file holds, or None if it is not one that this key has signed."""
        try:
            values = json.loads(content)
            signature = bytes.fromhex(values.pop("signature"))
            if not self.key.has_signed(signature, _encode(values)):
                return None
            return SignedHead(
                values["organization"],
                values["length"],
                bytes.fromhex(values["hash"]),
                values["unsigned"],
                clock.from_micros(values["signed_at"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, EverholdError):
            return None

    def _sign(self, values: dict[str, Any]) -> bytes:
        return self.key.sign(_encode(values))


def _encode(values: dict[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()
