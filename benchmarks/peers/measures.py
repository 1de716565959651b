"""Measure stores with the same calls, a few at a time by turns, so that noise affects all stores equally."""

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
# The number of calls to one store before it is the turn of the next store.
TURN = 10

USERS, TAGS = 10, 10
KINDS = ("fact", "preference", "observation", "plan", "result")
# Scores that differ from the tenth best by at most this count as equal to it, because they have single precision.
SCORE_TOLERANCE = 1e-6

Processes = Mapping[str, Process]
# The refs that each search returned.
RefLists = list[list[str]]


@dataclass
class Timing:
    """The seconds of a store's calls, and of bare round trips of its client to the endpoint in the same turns."""

    calls: list[float] = field(default_factory=list)
    trips: list[float] = field(default_factory=list)
    requests: int = 0

    @property
    def trip_ms(self) -> float:
        return 1000 * median(self.trips)

    @property
    def overhead_ms(self) -> float:
        """The median time of a call without the time of its requests to the endpoint."""
        return 1000 * median(self.calls) - self.requests / len(self.calls) * self.trip_ms


def rotate_processes(processes: Processes, parts: int) -> Iterable[tuple[int, Process]]:
    """Yield every part's number with each store's process. The stores take turns at being the first in a part."""
    names = list(processes)
    for part in range(parts):
        first = part % len(names)
        for name in names[first:] + names[:first]:
            yield part, processes[name]


def split(items: Sequence[Any], size: int = TURN) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def time_calls(
    processes: Processes,
    endpoint: Endpoint,
    items: Sequence[Memory] | Sequence[Query],
    ask: Callable[[Process, Sequence[Any]], dict[str, Any]],
) -> tuple[dict[str, Timing], dict[str, RefLists]]:
    """Return the times of every store's calls, and the refs that it found. The first turn only warms up."""
    timings = {name: Timing() for name in processes}
    refs_found: dict[str, RefLists] = {name: [] for name in processes}
    turns = split(items)
    for number, process in rotate_processes(processes, len(turns)):
        before = endpoint.requests
        answer = ask(process, turns[number])
        requests = endpoint.requests - before
        trips = process.ask("trip", texts=[item.text for item in turns[number]])["seconds"]
        refs_found[process.name] += answer.get("found", [])
        if number:
            timing = timings[process.name]
            timing.calls += answer["seconds"]
            timing.trips += trips
            timing.requests += requests
    return timings, refs_found


def time_adds(processes: Processes, endpoint: Endpoint, memories: Sequence[Memory]) -> dict[str, Timing]:
    """Add one memory at a time."""
    return time_calls(processes, endpoint, memories, lambda process, turn: process.ask("add", memories=turn))[0]


def time_searches(
    processes: Processes, endpoint: Endpoint, queries: Sequence[Query]
) -> tuple[dict[str, Timing], dict[str, RefLists]]:
    return time_calls(processes, endpoint, queries, lambda process, turn: process.ask("search", queries=turn, k=K))


def load(processes: Processes, memories: Sequence[Memory]) -> None:
    """Open empty stores and load the memories."""
    for process in processes.values():
        process.open()
        process.ask("load", memories=memories)


def make_memories(texts: Sequence[str]) -> list[Memory]:
    """Return memories of ten users; a fifth of each user's have the same kind, a tenth the same tag."""
    return [
        Memory(
            ref=str(index),
            text=text,
            user=f"user{index % USERS}",
            kind=KINDS[index // USERS % len(KINDS)],
            tag=f"tag{index // (USERS * len(KINDS)) % TAGS}",
        )
        for index, text in enumerate(texts)
    ]


def make_filtered_queries(questions: Sequence[str]) -> dict[str, list[Query]]:
    """Return searches by meaning with three filters, a third of the questions for each.

    The filter by user matches 10 % of the store, the one by user and kind 2 %, and the one by user and tag 1 %.
    """
    queries_by_filter: dict[str, list[Query]] = {"user": [], "user_and_kind": [], "user_and_tag": []}
    for index, question in enumerate(questions):
        number, turn = divmod(index, len(queries_by_filter))
        by_user = Query(question, f"user{number % USERS}", by_meaning=True)
        kind, tag = KINDS[number // USERS % len(KINDS)], f"tag{number // USERS % TAGS}"
        match turn:
            case 0:
                queries_by_filter["user"].append(by_user)
            case 1:
                queries_by_filter["user_and_kind"].append(by_user._replace(kind=kind))
            case _:
                queries_by_filter["user_and_tag"].append(by_user._replace(tag=tag))
    return queries_by_filter


class Truth:
    """Finds the nearest memories under a filter by comparing all of them."""

    def __init__(self, table: VectorTable, memories: Sequence[Memory]) -> None:
        self._table = table
        self._memories = memories
        self._vectors = _normalise(table.make_matrix([memory.text for memory in memories]))

    def measure_shares(self, queries: Sequence[Query], refs_found: RefLists) -> list[float]:
        """Return for each question the share of its ten nearest memories that a store found."""
        vectors = _normalise(self._table.make_matrix([query.text for query in queries]))
        return [
            self._measure_share(query, vector, refs)
            for query, vector, refs in zip(queries, vectors, refs_found, strict=True)
        ]

    def _measure_share(self, query: Query, vector: NDArray[np.float64], refs: Sequence[str]) -> float:
        indexes = [index for index, memory in enumerate(self._memories) if _passes(memory, query)]
        scores = self._vectors[indexes] @ vector
        expected = min(K, len(indexes))
        threshold = np.sort(scores)[-expected] - SCORE_TOLERANCE
        nearest = {
            self._memories[index].ref for index, score in zip(indexes, scores, strict=True) if score >= threshold
        }
        return min(len(nearest & set(refs)), expected) / expected


def _passes(memory: Memory, query: Query) -> bool:
    return memory.user == query.user and query.kind in {None, memory.kind} and query.tag in {None, memory.tag}


def _normalise(matrix: NDArray[np.float32]) -> NDArray[np.float64]:
    doubles = matrix.astype(np.float64)
    return np.asarray(doubles / np.linalg.norm(doubles, axis=1, keepdims=True), np.float64)


def measure_evidence(
    processes: Processes, path: Path, conversations: Sequence[EvaluatedConversation]
) -> dict[str, float]:
    """Return for each store the mean share of a question's evidence that is among the ten turns that it finds.

    Each turn is one memory, `Speaker: text`; each conversation belongs to one user.
    """
    memories = [
        Memory(turn.id, f"{turn.speaker}: {turn.text}", conversation.id, "conversation")
        for conversation in conversations
        for turn in conversation.turns
    ]
    evaluated = [
        (Query(question.text, conversation.id), question)
        for conversation in conversations
        for question in conversation.questions
    ]
    evaluated = [(query, question) for query, question in evaluated if question.evidence]
    mean_shares = {}
    for name, process in processes.items():
        process.open()
        if name == OURS:
            process.ask("ingest", path=str(path.resolve()))
        else:
            process.ask("load", memories=memories)
        refs_found: RefLists = process.ask("search", queries=[query for query, _ in evaluated], k=K)["found"]
        shares = [
            len(set(question.evidence) & set(refs)) / len(question.evidence)
            for (_, question), refs in zip(evaluated, refs_found, strict=True)
        ]
        mean_shares[name] = float(np.mean(shares))
    return mean_shares
