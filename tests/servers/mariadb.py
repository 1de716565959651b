"""A real MariaDB server for the tests of connections. It runs from unpacked Debian packages; nothing is installed.

`make connections` calls `python -m tests.servers.mariadb FOLDER`, which downloads and unpacks the packages. The server
has its own data folder, and listens on a socket in this folder and on a free port of the loopback address.
"""

import atexit
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import pymysql

from tests.servers.server import Server, find_free_port

PACKAGES: Final = (
    "mariadb-server-core", "mariadb-server", "mariadb-client-core", "mariadb-common", "liburing2", "libaio1",
    "libnuma1",
)  # fmt: skip
FOLDER: Final = Path(__file__).parents[2] / ".venv" / "mariadb"
START_SECONDS: Final = 300.0
LOG_TAIL_CHARACTERS: Final = 4000
ROOT_PASSWORD: Final = "root-of-the-test"


def unpack(folder: Path = FOLDER) -> None:
    """Download Debian's packages of MariaDB and unpack them into a folder, unless that was done before."""
    if (folder / "usr/sbin/mariadbd").exists():
        return
    with tempfile.TemporaryDirectory(prefix="everhold-mariadb-") as download_folder:
        subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=download_folder, check=True)
        folder.mkdir(parents=True, exist_ok=True)
        for package in sorted(Path(download_folder).glob("*.deb")):
            subprocess.run(["dpkg", "-x", package, folder], check=True)


class MariadbServer(Server):
    """One server with its own data folder; `close`, or leaving the `with` block, removes it.

    If root starts it, it runs as the user `nobody`.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._programs = folder
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._home = Path(tempfile.mkdtemp(prefix="everhold-mariadb-"))
        if self._account is not None:
            os.chown(self._home, self._account.pw_uid, self._account.pw_gid)
        self.port = find_free_port()
        atexit.register(self.close)

    @property
    def socket(self) -> Path:
        return self._home / "socket"

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def url(self, database: str = "", user: str = "root", password: str = ROOT_PASSWORD) -> str:
        """Return the address of a database."""
        return f"mysql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str | None = None) -> Any:
        """Return a connection of the administrator."""
        return pymysql.connect(
            unix_socket=str(self.socket), user="root", password=ROOT_PASSWORD, database=database, autocommit=True
        )

    def execute(self, *statements: str, database: str | None = None) -> None:
        """Run statements as the administrator."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def create_reader(self, name: str, database: str, password: str = "reader-of-the-test") -> str:
        """Create a user that may only read a database, and return the address with this user."""
        self.execute(
            f"CREATE OR REPLACE USER '{name}'@'%' IDENTIFIED BY '{password}'",
            f"GRANT SELECT ON `{database}`.* TO '{name}'@'%'",
        )
        return self.url(database, name, password)

    def start(self) -> None:
        if self.is_running:
            return
        share = self._programs / "usr/share/mysql"
        options = [
            "--no-defaults", f"--datadir={self._data}", f"--lc-messages-dir={share}",
            f"--plugin-dir={self._programs / 'usr/lib/mysql/plugin'}", f"--character-sets-dir={share / 'charsets'}",
            f"--tmpdir={self._home}",  # otherwise, servers that start together share temporary tables
        ]  # fmt: skip
        if not self._data.exists():
            self._initialise(options, share)
        settings = [
            f"--socket={self.socket}", f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve",
            f"--pid-file={self._home / 'pid'}", "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0",
            f"--secure-file-priv={self._home}", "--skip-log-bin",
        ]  # fmt: skip
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "usr/sbin/mariadbd", *options, *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **self._process_options(),
            )
        self._wait_until_ready()

    def _initialise(self, options: list[str], share: Path) -> None:
        """Create the system tables, as mariadb-install-db does, and the administrator's password."""
        (self._data / "mysql").mkdir(parents=True)
        for folder in (self._data, self._data / "mysql"):
            if self._account is not None:
                os.chown(folder, self._account.pw_uid, self._account.pw_gid)
        names = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
        parts = [
            "create database if not exists mysql;\nuse mysql;\nSET @auth_root_socket=NULL;\n",
            *((share / name).read_text() for name in names),
            f"\nFLUSH PRIVILEGES;\nALTER USER root@localhost IDENTIFIED BY '{ROOT_PASSWORD}';\n",
        ]
        result = subprocess.run(
            [self._programs / "usr/sbin/mariadbd", *options, "--bootstrap", "--silent-startup"],
            input="".join(parts),
            capture_output=True,
            text=True,
            check=False,
            **self._process_options(),
        )
        if result.returncode:
            raise RuntimeError(f"MariaDB was not initialised:\n{result.stderr[-LOG_TAIL_CHARACTERS:]}")

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                self.connect().close()
            except pymysql.err.MySQLError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError(f"MariaDB did not start:\n{(self._home / 'log').read_text()[-LOG_TAIL_CHARACTERS:]}")

    def _process_options(self) -> dict[str, Any]:
        libraries = self._programs / "usr/lib/x86_64-linux-gnu"
        folders = [libraries, *self._programs.glob("usr/lib/*-linux-gnu"), *self._programs.glob("lib/*-linux-gnu")]
        options: dict[str, Any] = {
            "cwd": self._home,
            "env": {"LC_ALL": "C", "TZ": "UTC", "LD_LIBRARY_PATH": ":".join(map(str, folders))},
        }
        if self._account is not None:
            options |= {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
        return options

    def close(self) -> None:
        """End the server and remove its data."""
        if self._process is not None and self.is_running:
            self._process.terminate()
            try:
                self._process.wait(150)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None
        shutil.rmtree(self._home, ignore_errors=True)
        atexit.unregister(self.close)


if __name__ == "__main__":
    unpack(*map(Path, sys.argv[1:]))
