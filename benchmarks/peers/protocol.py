"""The commands and answers of a worker, one line of JSON each, and the loop that serves them.

Each store, including ours, runs in a separate process, so that it shares no interpreter with another store or with the
endpoint. This module imports only the standard library, because it runs in the peers' environment too. Only the calls
of a store are timed.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Protocol

DIMENSIONS = 384
MODEL = "all-MiniLM-L6-v2"


class Memory(NamedTuple):
    """A text of one user. `ref` is the benchmark's own id."""

    ref: str
    text: str
    user: str
    kind: str = "fact"
    tag: str = "plain"


class Query(NamedTuple):
    """A question about one user's memories. With `by_meaning`, only vectors count."""

    text: str
    user: str
    kind: str | None = None
    tag: str | None = None
    by_meaning: bool = False


class Store(Protocol):
    """A store as the benchmark uses it."""

    def add(self, memory: Memory) -> None:
        """Add one memory with the store's call for a single memory."""

    def load(self, memories: Sequence[Memory]) -> None:
        """Add many memories as fast as the store can; not timed."""

    def search(self, query: Query, k: int) -> Any:
        """Return the answer of the store, in the store's form."""

    def list_refs(self, answer: Any) -> list[str]:
        """Return the refs of an answer, best first."""

    def embed(self, text: str) -> object:
        """Embed one text with the client that the store uses."""

    def close(self) -> None:
        """Close the store's files."""


# Opens a store in a folder, with the endpoint's address.
Opener = Callable[[Path, str], Store]


class Worker:
    """Runs commands on one store at a time."""

    def __init__(self, opener: Opener, packages: Sequence[str]) -> None:
        self._opener = opener
        self._packages = packages
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        assert self._store is not None, "send the command open first"
        return self._store

    def answer(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        match command:
            case "open":
                self.close()
                folder = Path(arguments["folder"])
                folder.mkdir(parents=True)
                self._store = self._opener(folder, arguments["url"])
                return {}
            case "load":
                self.store.load([Memory(*fields) for fields in arguments["memories"]])
                return {}
            case "add":
                return {"seconds": [_time_call(self.store.add, Memory(*fields))[0] for fields in arguments["memories"]]}
            case "trip":
                return {"seconds": [_time_call(self.store.embed, text)[0] for text in arguments["texts"]]}
            case "search":
                return self._search([Query(*fields) for fields in arguments["queries"]], arguments["k"])
            case "installed":
                versions = {name: metadata.version(name) for name in self._packages}
                return {"versions": versions, "bytes": measure_installed_bytes(self._packages)}
        raise ValueError(f"unknown command {command!r}")

    def _search(self, queries: Sequence[Query], k: int) -> dict[str, Any]:
        timed_answers = [_time_call(self.store.search, query, k) for query in queries]
        return {
            "seconds": [seconds for seconds, _ in timed_answers],
            "found": [self.store.list_refs(answer) for _, answer in timed_answers],
        }

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def _time_call(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    started = perf_counter()
    answer = call(*arguments)
    return perf_counter() - started, answer


def serve(worker: Worker) -> None:
    """Answer commands until standard input ends. Output that a library prints is sent to standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(worker.answer(command.pop("do"), command)), file=answers, flush=True)
    worker.close()


def measure_installed_bytes(packages: Sequence[str]) -> int:
    """Return the installed size of the packages and of everything they require."""
    pending, sizes = list(packages), dict[str, int]()
    while pending:
        name = re.sub(r"[-_.]+", "-", pending.pop()).lower()
        if name in sizes:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # required only on another system or by another Python
        paths = [Path(str(file.locate())) for file in distribution.files or ()]
        sizes[name] = sum(path.stat().st_size for path in paths if path.is_file())
        required = [line for line in distribution.requires or () if "extra ==" not in line]
        pending += [match[0] for line in required if (match := re.match(r"[\w.-]+", line))]
    return sum(sizes.values())
