"""Read a master key from a file, an environment variable, a command or the operating system's keyring."""

import base64
import binascii
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from everhold.adapters.encryption.cipher import SECRET_BYTES
from everhold.errors import FileError, InvalidSettings, MasterKeyMissing
from everhold.files import write_private
from everhold.ports.keys import Key

# A key as text: 64 hexadecimal digits, or 32 bytes in base 64.
_HEX = re.compile(r"[0-9a-fA-F]{64}")
_COMMAND_SECONDS = 60
_MAX_FILE_BYTES = 4096
_FORMS = "file:PATH, env:NAME, command:COMMAND or keyring:SERVICE/NAME"
_EMPTY_SOURCES = {"file": "file", "env": "environment variable", "command": "command"}


class MasterKey(Key):
    """The key that wraps data keys."""


def read_master_key(source: str, read_variable: Callable[[str], str | None]) -> MasterKey:
    """Return the master key from its source, such as `file:/etc/everhold/master.key`.

    Raise MasterKeyMissing if the source cannot be read or holds no key, InvalidSettings if it has no known form.
    """
    form, _, location = source.partition(":")
    if form in _EMPTY_SOURCES and not location.strip():
        raise InvalidSettings(f"encryption.master_key names no {_EMPTY_SOURCES[form]}", remedy=f"write {_FORMS}")
    text: str | None
    match form:
        case "file":
            text = _read_file(Path(location).expanduser())
        case "env":
            text = read_variable(location)
        case "command":
            text = _run_command(location)
        case "keyring":
            text = _read_keyring(location)
        case _:
            raise InvalidSettings("encryption.master_key does not name a source", remedy=f"write {_FORMS}")
    if not text or not text.strip():
        raise MasterKeyMissing(
            f"{_describe(source)} gives no master key", remedy="put the key there; `everhold keys create` makes one"
        )
    return MasterKey(_decode(text.strip(), source))


def write_master_key(path: Path, secret: bytes) -> None:
    """Write a new master key to a file that only its owner can read. An existing file is never replaced."""
    if path.exists():
        raise FileError(
            f"{path} exists, and a master key is never replaced", value=str(path), remedy="name another file"
        )
    write_private(path, base64.b64encode(secret) + b"\n", overwrite=False)


def _describe(source: str) -> str:
    """Return a source without the arguments of a command, which may hold a secret."""
    form, _, location = source.partition(":")
    return f"the command {location.split()[0]!r}" if form == "command" and location.strip() else source


def _read_file(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise MasterKeyMissing(
            f"the master key file {path} cannot be read ({error.strerror})",
            remedy="check the path and its permissions",
        ) from None
    if mode & 0o077:
        raise MasterKeyMissing(
            f"the master key file {path} can be read by other users (mode {mode & 0o777:o})", remedy=f"chmod 600 {path}"
        )
    return content.decode("ascii", "replace")


def _run_command(command: str) -> str:
    """Return the output of a command that prints the master key."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise InvalidSettings("encryption.master_key names no command", remedy="write command:PROGRAM ARGUMENTS")
    try:
        # Without a shell: only the settings choose the program and its arguments.
        process = subprocess.run(words, capture_output=True, timeout=_COMMAND_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else f"no answer in {_COMMAND_SECONDS} seconds"
        raise MasterKeyMissing(
            f"the master key command {words[0]!r} failed ({reason})", remedy="run it in a terminal to see why"
        ) from None
    if process.returncode != 0:
        raise MasterKeyMissing(
            f"the master key command {words[0]!r} exited with {process.returncode}",
            remedy="run it in a terminal to see why",
        )
    return process.stdout.decode("ascii", "replace")


def _read_keyring(entry: str) -> str | None:
    import keyring  # slow to import
    from keyring.errors import KeyringError

    service, _, name = entry.partition("/")
    if not service or not name:
        raise InvalidSettings("encryption.master_key names no keyring entry", remedy="write keyring:SERVICE/NAME")
    try:
        return keyring.get_password(service, name)
    except KeyringError as error:
        raise MasterKeyMissing(
            f"the keyring cannot be read ({type(error).__name__})", remedy="unlock it, or use a file"
        ) from None


def _decode(text: str, source: str) -> bytes:
    try:
        secret = bytes.fromhex(text) if _HEX.fullmatch(text) else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise MasterKeyMissing(
            f"what {_describe(source)} gives is not a master key of {SECRET_BYTES} bytes",
            remedy="use 64 hexadecimal digits or base 64; `everhold keys create` makes one",
        )
    return secret
