"""Make copies of a store that was filled once, and kill processes that work on a copy."""

import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess
    from multiprocessing.synchronize import Event

OPEN_SECONDS: Final = 60.0


class Template(Protocol):
    """A store that is filled once and copied for each kill."""

    @property
    def storage(self) -> str:
        """The address of the store."""
        ...

    def copy(self, number: int) -> str:
        """Return the address of a new copy."""
        ...


@dataclass
class SqliteTemplate:
    folder: Path

    @property
    def storage(self) -> str:
        return f"sqlite:///{self.folder / 'template.db'}"

    def copy(self, number: int) -> str:
        (self.folder / f"{number - 1}.db").unlink(missing_ok=True)
        path = self.folder / f"{number}.db"
        shutil.copyfile(self.folder / "template.db", path)
        return f"sqlite:///{path}"


class PostgresTemplate:
    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.storage = server.create_database("template_store")

    def copy(self, number: int) -> str:
        self._server.drop_database(f"copy_{number - 1}")
        return self._server.create_database(f"copy_{number}", template="template_store")


@contextmanager
def make_template(store: str) -> Iterator[Template]:
    """Yield an empty template, on SQLite or on a new PostgreSQL server."""
    with ExitStack() as stack:
        if store == "sqlite":
            yield SqliteTemplate(Path(stack.enter_context(TemporaryDirectory(prefix="everhold-copies-"))))
        else:
            yield PostgresTemplate(stack.enter_context(PostgresServer()))


def kill_worker(work: "Callable[[str, Event], None]", storage: str, seconds: float) -> None:
    """Start a process that works on a store, and kill it the given seconds after it has opened the store."""
    process = _start_worker(work, storage)
    process.join(seconds)
    process.kill()
    process.join()


def time_worker(work: "Callable[[str, Event], None]", storage: str) -> float:
    """Let a process work on a store until it is done, and return the seconds since it has opened the store."""
    process = _start_worker(work, storage)
    started = perf_counter()
    process.join()
    return perf_counter() - started


def _start_worker(work: "Callable[[str, Event], None]", storage: str) -> "ForkServerProcess":
    """Start a process that works on a store, and return when it has opened the store."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    is_open = context.Event()
    process = context.Process(target=work, args=(storage, is_open))
    process.start()
    if not is_open.wait(OPEN_SECONDS):
        process.kill()
        raise TimeoutError(f"the worker did not open {storage} within {OPEN_SECONDS} seconds")
    return process
