"""What a worker is asked and answers, one line of JSON each, and the loop that does it.

Every store is worked by a process of its own, ours too, so that none shares an interpreter with another or with the
endpoint. Nothing but the standard library is imported here: it runs in the peers' environment as well as in ours. The
clock is read around the store's own call and nothing else.
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
    """A text of one user. `ref` is what the benchmark calls it."""

    ref: str
    text: str
    user: str
    kind: str = "fact"
    tag: str = "plain"


class Query(NamedTuple):
    """A question to one user's memories. `by_meaning` asks for the nearest vectors and nothing else."""

    text: str
    user: str
    kind: str | None = None
    tag: str | None = None
    by_meaning: bool = False


class Store(Protocol):
    """A store as the benchmark works it."""

    def add(self, memory: Memory) -> None:
        """One memory, as the store's own way of adding one does it."""

    def load(self, memories: Sequence[Memory]) -> None:
        """Many, as fast as the store can; not timed."""

    def search(self, query: Query, k: int) -> Any:
        """The store's own answer."""

    def refs(self, answer: Any) -> list[str]:
        """What was found, best first."""

    def embed(self, text: str) -> object:
        """One text through the client that the store embeds with."""

    def close(self) -> None:
        """Lets go of its files."""


Opener = Callable[[Path, str], Store]
"""A folder of its own, and the endpoint's address."""


class Worker:
    """One store at a time, and the commands on it."""

    def __init__(self, opener: Opener, packages: Sequence[str]) -> None:
        self._opener = opener
        self._packages = packages
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        assert self._store is not None, "a worker is told to open a store first"
        return self._store

    def answer(self, do: str, given: Mapping[str, Any]) -> dict[str, Any]:
        match do:
            case "open":
                self.close()
                folder = Path(given["folder"])
                folder.mkdir(parents=True)
                self._store = self._opener(folder, given["url"])
                return {}
            case "load":
                self.store.load([Memory(*one) for one in given["memories"]])
                return {}
            case "add":
                return {"seconds": [_timed(self.store.add, Memory(*one))[0] for one in given["memories"]]}
            case "trip":
                return {"seconds": [_timed(self.store.embed, text)[0] for text in given["texts"]]}
            case "search":
                return self._searched([Query(*one) for one in given["queries"]], given["k"])
            case "installed":
                versions = {name: metadata.version(name) for name in self._packages}
                return {"versions": versions, "bytes": installed_bytes(self._packages)}
        raise ValueError(f"a worker does not know {do!r}")

    def _searched(self, queries: Sequence[Query], k: int) -> dict[str, Any]:
        timed = [_timed(self.store.search, query, k) for query in queries]
        return {"seconds": [seconds for seconds, _ in timed], "found": [self.store.refs(found) for _, found in timed]}

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def _timed(call: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    begun = perf_counter()
    answer = call(*given)
    return perf_counter() - begun, answer


def serve(worker: Worker) -> None:
    """Answers until there are no more commands. What a library prints goes to standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(worker.answer(command.pop("do"), command)), file=answers, flush=True)
    worker.close()


def installed_bytes(packages: Sequence[str]) -> int:
    """The size of the packages and of all that they need, as installed."""
    waiting, sizes = list(packages), dict[str, int]()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in sizes:
            continue
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # needed elsewhere: on another system or by another Python
        places = [Path(str(one.locate())) for one in found.files or ()]
        sizes[name] = sum(place.stat().st_size for place in places if place.is_file())
        wanted = [one for one in found.requires or () if "extra ==" not in one]
        waiting += [match[0] for one in wanted if (match := re.match(r"[\w.-]+", one))]
    return sum(sizes.values())
