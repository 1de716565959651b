"""Read the address of a store: the file or the table, and the parameters after its `?`.

The address of a PostgreSQL database is read by libpq instead.
"""

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from everhold.errors import InvalidSettings
from everhold.model.validation import suggest_name
from everhold.settings_sections import hide_password

_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")


class FileAddress(NamedTuple):
    """A file, and whether it is only to be read."""

    path: Path
    read_only: bool


class TableAddress(NamedTuple):
    """A table of DynamoDB: in a region of AWS, or on the server whose URL is `endpoint`."""

    region: str
    table: str
    endpoint: str | None


def read_scheme(storage: str) -> str:
    """Return the kind of store that an address names. An address without a scheme is the path of a SQLite file."""
    return storage.partition("://")[0].lower() if "://" in storage else "sqlite"


def read_file(storage: str) -> FileAddress:
    """Return the file that an address names, and whether it is only to be read."""
    path, mode = storage, None
    if "://" in storage:
        address = _split(storage)
        path = unquote(address.path).removeprefix("/")
        if address.netloc or not path:
            raise InvalidSettings(
                f"{storage} names no file",
                remedy=f"write {address.scheme}:///relative or {address.scheme}:////absolute",
            )
        mode = _read_parameters(address, "mode").get("mode")
    if mode not in (None, "ro"):
        raise InvalidSettings(
            f"mode={mode} is not a way to open {path}", remedy="write mode=ro to only read, or leave it out"
        )
    if "\0" in path:
        raise InvalidSettings(
            f"{path!r} has a zero byte, which no file's name may have", value=path, remedy="name another"
        )
    return FileAddress(Path(path), mode == "ro")


def read_table(storage: str, endpoint: str | None = None) -> TableAddress:
    """Return the region, the table and the endpoint of an address, which is `endpoint` if the address has none."""
    address = _split(storage)
    safe_storage, table = hide_password(storage), unquote(address.path).removeprefix("/")
    if not address.hostname:
        raise InvalidSettings(f"{safe_storage} names no region", remedy="write dynamodb://eu-west-1/memories")
    if not _TABLE.fullmatch(table):
        raise InvalidSettings(
            f"{safe_storage} names no table",
            remedy="write dynamodb://eu-west-1/memories, with a name of 3 to 255 letters, digits, _ . or -",
        )
    endpoint = _read_parameters(address, "endpoint").get("endpoint", endpoint)
    if endpoint is not None and not _is_http(endpoint):
        raise InvalidSettings(
            f"the endpoint {hide_password(endpoint)!r} is not an address", remedy="write it as http://localhost:8000"
        )
    return TableAddress(address.hostname, table, endpoint)


def refuse_parameters(address: str) -> None:
    """Raise InvalidSettings if an address that allows no parameters has one."""
    _read_parameters(_split(address))


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
    except ValueError:  # its message is not shown, because it may quote a password
        raise InvalidSettings(
            f"{hide_password(address)} is not an address", remedy="correct what is behind ://"
        ) from None
    if "#" in address:
        raise InvalidSettings(f"{hide_password(address)} has a #, which ends an address", remedy="write it as %23")
    return parts


def _read_parameters(address: SplitResult, *known_names: str) -> dict[str, str]:
    """Return the parameters after the `?`. An unknown or a repeated parameter raises InvalidSettings."""
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(address.query, keep_blank_values=True):
        if name not in known_names:
            remedy = suggest_name(name, known_names) if known_names else "leave it out"
            raise InvalidSettings(f"{address.scheme}:// takes no parameter {name!r}", value=name, remedy=remedy)
        if name in parameters:
            raise InvalidSettings(f"the parameter {name!r} is in the address twice", value=name, remedy="leave one out")
        parameters[name] = value
    return parameters


def _is_http(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a valid number
        return False
