"""What is measured: every store is asked the same, by turns, a few calls at a time, so that noise hits all alike."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.endpoint import Endpoint, VectorTable
from benchmarks.peers.protocol import Memory, Query
from benchmarks.peers.workers import OURS, Process
from everhold.evaluation.locomo import EvaluatedConversation

K = 10
TURN = 10
"""Calls of one store before the next has its turn."""

USERS, TAGS = 10, 10
KINDS = ("fact", "preference", "observation", "plan", "result")
SAME = 1e-6
"""What lies this near to the tenth nearest is as good as it: single precision says no more."""

Processes = Mapping[str, Process]
Found = list[list[str]]


@dataclass
class Timing:
    """What calls of one store took, in seconds, and the bare round trips to the endpoint at the same time."""

    calls: list[float] = field(default_factory=list)
    trips: list[float] = field(default_factory=list)
    requests: int = 0

    @property
    def trip_ms(self) -> float:
        return 1000 * median(self.trips)

    @property
    def overhead_ms(self) -> float:
        """A call's median without its requests for vectors."""
        return 1000 * median(self.calls) - self.requests / len(self.calls) * self.trip_ms


def in_turns(processes: Processes, parts: int) -> Iterable[tuple[int, Process]]:
    """Each part to each store, another store being the first each time."""
    names = list(processes)
    for part in range(parts):
        first = part % len(names)
        for name in names[first:] + names[:first]:
            yield part, processes[name]


def split(items: Sequence[Any], size: int = TURN) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def timed(
    processes: Processes,
    endpoint: Endpoint,
    items: Sequence[Memory] | Sequence[Query],
    ask: Callable[[Process, Sequence[Any]], dict[str, Any]],
) -> tuple[dict[str, Timing], dict[str, Found]]:
    """The calls of every store and what each found. The first turn warms up and is not counted."""
    timings = {name: Timing() for name in processes}
    found: dict[str, Found] = {name: [] for name in processes}
    turns = split(items)
    for number, process in in_turns(processes, len(turns)):
        before = endpoint.requests
        answer = ask(process, turns[number])
        requests = endpoint.requests - before
        trips = process.ask("trip", texts=[one.text for one in turns[number]])["seconds"]
        found[process.name] += answer.get("found", [])
        if number:
            timing = timings[process.name]
            timing.calls += answer["seconds"]
            timing.trips += trips
            timing.requests += requests
    return timings, found


def adds(processes: Processes, endpoint: Endpoint, memories: Sequence[Memory]) -> dict[str, Timing]:
    """One memory at a time, to whatever is in the stores."""
    return timed(processes, endpoint, memories, lambda process, turn: process.ask("add", memories=turn))[0]


def searches(
    processes: Processes, endpoint: Endpoint, queries: Sequence[Query]
) -> tuple[dict[str, Timing], dict[str, Found]]:
    return timed(processes, endpoint, queries, lambda process, turn: process.ask("search", queries=turn, k=K))


def load(processes: Processes, memories: Sequence[Memory]) -> None:
    """Empty stores, then the memories."""
    for process in processes.values():
        process.open()
        process.ask("load", memories=memories)


def marked(texts: Sequence[str]) -> list[Memory]:
    """Memories of ten users, a fifth of each of one kind, a tenth of one tag."""
    return [
        Memory(
            ref=str(place),
            text=text,
            user=f"user{place % USERS}",
            kind=KINDS[place // USERS % len(KINDS)],
            tag=f"tag{place // (USERS * len(KINDS)) % TAGS}",
        )
        for place, text in enumerate(texts)
    ]


def narrowed(questions: Sequence[str]) -> dict[str, list[Query]]:
    """Questions by meaning to one user's memories (a tenth of the store), to those of one kind (2 %), and to those of
    one tag (1 %)."""
    asked: dict[str, list[Query]] = {"user": [], "user_and_kind": [], "user_and_tag": []}
    for place, question in enumerate(questions):
        number = place // len(asked)
        everything = Query(question, f"user{number % USERS}", by_meaning=True)
        kind, tag = KINDS[number // USERS % len(KINDS)], f"tag{number // USERS % TAGS}"
        narrow = (everything, everything._replace(kind=kind), everything._replace(tag=tag))[place % len(asked)]
        list(asked.values())[place % len(asked)].append(narrow)
    return asked


class Truth:
    """The nearest memories under a filter, by comparing all."""

    def __init__(self, table: VectorTable, memories: Sequence[Memory]) -> None:
        self._table = table
        self._memories = memories
        self._vectors = _unit(table.matrix([one.text for one in memories]))

    def shares(self, queries: Sequence[Query], found: Found) -> list[float]:
        """For each question, the share of its ten nearest that was found; of as many as there are, if fewer."""
        asked = _unit(self._table.matrix([query.text for query in queries]))
        return [self._share(query, vector, refs) for query, vector, refs in zip(queries, asked, found, strict=True)]

    def _share(self, query: Query, vector: NDArray[np.float64], refs: Sequence[str]) -> float:
        places = [place for place, one in enumerate(self._memories) if _passes(one, query)]
        scores = self._vectors[places] @ vector
        wanted = min(K, len(places))
        least = np.sort(scores)[-wanted] - SAME
        nearest = {self._memories[place].ref for place, score in zip(places, scores, strict=True) if score >= least}
        return min(len(nearest & set(refs)), wanted) / wanted


def _passes(memory: Memory, query: Query) -> bool:
    return memory.user == query.user and query.kind in {None, memory.kind} and query.tag in {None, memory.tag}


def _unit(matrix: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = matrix.astype(np.float64)
    return np.asarray(wide / np.linalg.norm(wide, axis=1, keepdims=True), np.float64)


def conversations(processes: Processes, path: Path, told: Sequence[EvaluatedConversation]) -> dict[str, float]:
    """For each store, the mean share of a question's evidence that is among the ten turns it finds. Each turn is one
    memory of a user per conversation: `Speaker: text`."""
    memories = [
        Memory(turn.id, f"{turn.speaker}: {turn.text}", one.id, "conversation") for one in told for turn in one.turns
    ]
    asked = [(Query(question.text, one.id), question) for one in told for question in one.questions]
    asked = [(query, question) for query, question in asked if question.evidence]
    shares = {}
    for name, process in processes.items():
        process.open()
        if name == OURS:
            process.ask("ingest", path=str(path.resolve()))
        else:
            process.ask("load", memories=memories)
        found: Found = process.ask("search", queries=[query for query, _ in asked], k=K)["found"]
        among = [
            len(set(question.evidence) & set(refs)) / len(question.evidence)
            for (_, question), refs in zip(asked, found, strict=True)
        ]
        shares[name] = float(np.mean(among))
    return shares
