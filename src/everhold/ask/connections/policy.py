"""Check which databases may be connected, and find the address of a stored connection."""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from everhold.ask.connections.address import has_secret, parse_address
from everhold.errors import Argument, DataUnavailable, InvalidInput, Remedy, Verb
from everhold.model import Connection
from everhold.ports.databases import ALL_PUBLIC, DatabaseAddress, DatabaseTables

_SETTINGS_PREFIX = "EVERHOLD_"


@dataclass(frozen=True)
class ConnectionPolicy:
    """The databases that the settings allow to connect.

    `folders` are the folders in which files may be connected; None allows all. `own_files` are files of the store,
    which may not be connected. `variables` are patterns of the names of environment variables that may have addresses.
    """

    read_variable: Callable[[str], str | None]
    hosts: tuple[str, ...] = (ALL_PUBLIC,)
    drivers: tuple[str, ...] = ()
    folders: tuple[Path, ...] | None = None
    own_files: tuple[Path, ...] = ()
    variables: tuple[str, ...] = ("*",)
    can_keep_secrets: bool = False

    def check_url(self, url: str) -> DatabaseAddress:
        """Return the address of a URL that a caller passed. Raise InvalidInput if it may not be stored or connected."""
        address = parse_address(url, self.drivers)
        if has_secret(address) and not self.can_keep_secrets:
            raise InvalidInput(
                "the URL holds a password, and without a master key no secret is stored",
                remedy=Remedy(
                    "set a master key, or put the URL into an environment variable and pass its name with {}",
                    Argument("url_env"),
                ),
            )
        self._check_file(address)
        return address

    def check_variable(self, name: str) -> DatabaseAddress:
        """Return the address in an environment variable. Raise InvalidInput if the variable may not be used for
        this."""
        if name.upper().startswith(_SETTINGS_PREFIX) or not any(
            fnmatchcase(name, allowed) for allowed in self.variables
        ):
            raise InvalidInput(
                f"the environment variable {name!r} may not hold the address of a connection",
                value=name,
                remedy="use one that the setting connections.variables allows, and that is not a setting of Everhold",
            )
        url = self.read_variable(name)
        if not url:
            raise DataUnavailable(
                f"the environment variable {name!r} is not set", value=name, remedy="set it to the URL of the database"
            )
        address = parse_address(url, self.drivers)
        self._check_file(address)
        return address

    def open(self, connection: Connection) -> DatabaseTables:
        """Return the address, the schema and the allowed hosts of a connection.

        Raise DataUnavailable if its address is unknown.
        """
        options = connection.options
        variable = options.get("url_env")
        if isinstance(variable, str):
            address = self.check_variable(variable)
        elif connection.dsn:
            address = parse_address(connection.dsn.decode(), self.drivers)
            self._check_file(address)
        else:
            raise DataUnavailable(
                f"the address of the connection {connection.name!r} is not stored here",
                value=connection.name,
                remedy=Remedy("exports leave secrets out; give it again with {}", Verb("connect")),
            )
        if address.dialect != options.get("dialect"):
            raise DataUnavailable(
                f"the connection {connection.name!r} now leads to a {address.driver} database",
                value=connection.name,
                remedy=Remedy("read its tables with {}", Verb("refresh_connection")),
            )
        return self.make_tables(address, options.get("schema"))

    def make_tables(self, address: DatabaseAddress, schema: str | None) -> DatabaseTables:
        return DatabaseTables(address, schema, self.hosts)

    def _check_file(self, address: DatabaseAddress) -> None:
        """Raise InvalidInput for files of the store itself, and for files outside the folders of the settings."""
        if not address.is_file:
            return
        path = Path(address.database).resolve()
        if path in {own_file.resolve() for own_file in self.own_files}:
            raise InvalidInput("the store itself cannot be connected", remedy="name another file")
        if self.folders is not None and not any(path.is_relative_to(folder.resolve()) for folder in self.folders):
            raise InvalidInput(
                "the file is in no folder that may be connected",
                value=str(path),
                remedy="add its folder to the setting connections.folders",
            )
