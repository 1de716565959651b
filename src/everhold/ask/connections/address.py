"""Parse the URL of a database. No error quotes the URL, because it may contain a secret."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from everhold.errors import InvalidInput, Remedy, Verb
from everhold.ports.databases import DatabaseAddress

# Maps the scheme of a database on a server to its driver and its SQL dialect.
_SERVER_SCHEMES: Final[Mapping[str, tuple[str, str]]] = {
    "postgresql": ("postgres", "postgres"),
    "postgres": ("postgres", "postgres"),
    "mysql": ("mysql", "mysql"),
    "mariadb": ("mysql", "mysql"),
}
_FILE_SCHEMES: Final = frozenset({"sqlite", "duckdb"})
# The parameters that a URL may have, with patterns of their values. Other parameters of libpq read files, or name
# another server than the one that was checked.
_PARAMETERS: Final[Mapping[str, Mapping[str, str]]] = {
    "postgres": {
        "host": r"/.*",
        "sslmode": r"disable|allow|prefer|require|verify-ca|verify-full",
        "sslrootcert": r".*",
    },
    "mysql": {"unix_socket": r"/.*", "ssl": r"require|verify"},
}
# The SQL dialects whose names in SQLAlchemy are different.
_DIALECTS: Final[Mapping[str, str]] = {
    "postgresql": "postgres", "mariadb": "mysql", "mssql": "tsql", "awsathena": "athena", "teradatasql": "teradata",
}  # fmt: skip
_ADBC: Final = "adbc+"
_SCHEME: Final = re.compile(r"([a-z][a-z0-9_]*(?:\+[a-z][a-z0-9_]*)?)://", re.IGNORECASE)
_SECRET_PARAMETER: Final = re.compile(r"pass|pwd|secret|token|key|credential|auth", re.IGNORECASE)
_EXAMPLE: Final = "write postgresql://user@host/database, mysql://user@host/database, sqlite:///file or duckdb:///file"


def parse_address(url: str, drivers: Collection[str] = ()) -> DatabaseAddress:
    """Return the parts of a URL. `drivers` are the drivers of SQLAlchemy and ADBC that are allowed too.

    Raise InvalidInput if the URL is malformed, or names another kind of database.
    """
    match = _SCHEME.match(url)
    if match is None:
        remedy = Remedy(f"{_EXAMPLE}; files such as CSV are added with {{}}", Verb("upload"))
        raise InvalidInput("the address of the database is not a URL", remedy=remedy)
    scheme = match[1].lower()
    if scheme in drivers or scheme.partition("+")[0] in drivers:
        is_adbc = scheme.startswith(_ADBC)
        return _parse_for_adbc(url, scheme) if is_adbc else _parse_for_driver(url, scheme, "sqlalchemy", scheme)
    if scheme in _FILE_SCHEMES:
        return _parse_file(url, scheme)
    if scheme not in _SERVER_SCHEMES:
        raise InvalidInput(
            f"no connection to {scheme!r} databases",
            value=scheme,
            remedy=f"{_EXAMPLE}; the setting connections.drivers allows drivers of SQLAlchemy and ADBC",
        )
    return _parse_server(url, scheme)


def has_secret(address: DatabaseAddress) -> bool:
    """Return whether a URL has a password, or a parameter whose name looks like that of a secret."""
    return bool(address.password) or any(_SECRET_PARAMETER.search(name) for name in address.parameters)


def _parse_file(url: str, scheme: str) -> DatabaseAddress:
    """Return the address of a file. A relative path follows three slashes, an absolute path four."""
    path, _, parameters = url.partition("://")[2].partition("?")
    path = unquote(path)
    if parameters or not path.startswith("/") or len(path) < 2 or "\x00" in path:
        raise InvalidInput(
            f"the URL of a {scheme} file is {scheme}:/// and a path, without parameters",
            remedy=f"write {scheme}:///folder/file, or {scheme}:////folder/file for an absolute path",
        )
    return DatabaseAddress(scheme, scheme, url, url, database=path[1:])


def _parse_server(url: str, scheme: str) -> DatabaseAddress:
    """Return the address of a database on a server from its URL. Raise InvalidInput if a part is missing or not
    allowed.
    """
    driver, dialect = _SERVER_SCHEMES[scheme]
    try:
        parts = urlsplit(url)
        port, host = parts.port, unquote(parts.hostname or "")
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise InvalidInput("the URL of the database is malformed", remedy=_EXAMPLE) from None
    _check_parameters(driver, parameters)
    database = unquote(parts.path.removeprefix("/"))
    host = parameters.pop("host", host)
    if (not host and "unix_socket" not in parameters) or "," in host or not database or parts.fragment:
        raise InvalidInput(
            "the URL must name one host and a database",
            remedy=f"write {scheme}://user@host/database; % encodes characters such as / and @ in a password",
        )
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not user:
        raise InvalidInput("the URL names no user", remedy=f"write {scheme}://user@host/database")
    host_and_port = f"{host}:{port}" if port else host
    shown = f"{scheme}://{quote(user)}@{host_and_port if not host_and_port.startswith('/') else ''}/{quote(database)}"
    return DatabaseAddress(driver, dialect, url, shown, host, port, user, password, database, parameters)


def _check_parameters(driver: str, parameters: Mapping[str, str]) -> None:
    for name, value in parameters.items():
        pattern = _PARAMETERS[driver].get(name)
        if pattern is None or not re.fullmatch(pattern, value):
            # The value is not quoted: it may be a secret.
            allowed = ", ".join(sorted(_PARAMETERS[driver]))
            raise InvalidInput(
                f"the parameter {name[:40]!r} of the URL, or its value, is not allowed",
                value=name,
                remedy=f"{allowed} may be set",
            )


def _parse_for_adbc(url: str, scheme: str) -> DatabaseAddress:
    """Return the address of adbc+NAME://…. URLs for SQLite and PostgreSQL are parsed as if they had no "adbc+"."""
    name = scheme.removeprefix(_ADBC)
    plain_url = f"{name}{url[len(scheme) :]}"
    if name == "sqlite":
        address = _parse_file(plain_url, name)
    elif name == "postgresql":
        address = _parse_server(plain_url, name)
    else:
        return _parse_for_driver(url, scheme, "adbc", name)
    return replace(address, driver="adbc", url=url, shown=f"{_ADBC}{address.shown}")


def _parse_for_driver(url: str, scheme: str, driver: str, database_scheme: str) -> DatabaseAddress:
    """Return the address for a driver of SQLAlchemy or ADBC. `database_scheme` names the database and its driver."""
    try:
        parts = urlsplit(url)
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        host, password = parts.hostname or "", unquote(parts.password or "")
    except ValueError:
        raise InvalidInput("the URL of the database is malformed", remedy="check it") from None
    name = database_scheme.partition("+")[0]
    shown = f"{scheme}://{f'{parts.username}@' if parts.username else ''}{host}{parts.path}"
    return DatabaseAddress(
        driver, _DIALECTS.get(name, name), url, shown, host, parts.port, parts.username or "", password,
        parts.path.removeprefix("/"), parameters,
    )  # fmt: skip
