"""Ordinary values for the arguments of public verbs, including ids and cursors of the store."""

import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fuzz_values import NESTED, TEXTS, TIMES
from everhold import FunctionEmbedder, View
from everhold.settings_sections import DEFAULT_MODEL


class KnownValues:
    """Chooses ordinary arguments, with ids and cursors of the store, so that some calls succeed."""

    def __init__(self, view: View) -> None:
        self.memory_ids = [memory.id for memory in view.list(limit=40)] or ["none"]
        self.block_names = ["human", *(block.id for block in view.blocks(limit=5))]
        self.cursors = ["bm90aGluZw", "W10", "WzFlOTk5LCJ4Il0", "WzEsMl0", "W1tbW1tbW1tbW1tbW1tb", "ééé", "=" * 50]
        self.run_ids = [run.id for run in view.runs(limit=20)] or ["none"]
        cursor = view.list(limit=2).cursor
        self.cursors += [cursor] if cursor else []

    def choose_value(self, name: str, rng: random.Random) -> Any:
        """Return a usual value for the argument `name`, or any text if no usual value is known."""
        choices = _USUAL.get(name)
        if name == "name" and rng.random() < 0.5:
            choices = self.block_names
        elif name in ("memory_id", "source_id", "target_id", "id", "key"):
            choices = self.memory_ids
        elif name in ("run_id", "other_run"):
            choices = self.run_ids
        elif name == "memory_ids":
            return rng.sample(self.memory_ids, k=min(3, len(self.memory_ids)))
        elif name == "cursor":
            choices = self.cursors
        value = rng.choice(choices) if choices else rng.choice(TEXTS)
        takes_callable = name in ("progress", "reranker", "source")
        return value() if callable(value) and not takes_callable else value


class PlainReranker:
    """Gives every text the same score."""

    def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        return [0.5 for _ in texts]


class BrokenReranker:
    """Returns None instead of scores."""

    def rerank(self, question: str, texts: Sequence[str]) -> Any:
        return None


class BrokenEmbedding:
    """Returns the texts instead of vectors."""

    def __call__(self, texts: list[str]) -> Any:
        return texts


_DIMENSIONS = 384
_VECTOR = [1.0, 2.0, *[0.0] * (_DIMENSIONS - 2)]
VECTORS: Sequence[Any] = (
    _VECTOR, np.array(_VECTOR), {DEFAULT_MODEL: _VECTOR}, {}, {"nothing": _VECTOR}, {5: _VECTOR},
    {"x" * 10**5: _VECTOR},
    [0.0] * _DIMENSIONS, [float("nan")] * _DIMENSIONS, [float("inf")] * _DIMENSIONS, [1e308] * _DIMENSIONS,
    [5e-324] * _DIMENSIONS, ["1"] * _DIMENSIONS, [True] * _DIMENSIONS, [10**400] * _DIMENSIONS, [1.0] * 10**6,
    _VECTOR[:5], [_VECTOR], np.ones((2, 192)), np.array([None] * _DIMENSIONS), np.ones(_DIMENSIONS, complex),
    np.zeros(0), np.array(5.0),
)  # fmt: skip
_SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "default": 5}},
    "required": ["query"],
}


def _search(query: str, limit: int = 5) -> list[str]:
    """Search."""
    return [query] * limit


_USERS = ("alice", "bob", "carol", "nobody")
_USUAL: Mapping[str, Sequence[Any]] = {
    "organization": ("default", "other", "third"),
    "organization_id": ("other", "third", "fourth"),
    "user": _USERS,
    "user_id": _USERS,
    "project": ("p1", "p2"),
    "project_id": ("p1", "p2"),
    "agent": ("a1",),
    "clone_id": ("a2", "a3", "a1"),
    "status": ("active", "paused", "terminated", "running", "failed", "succeeded"),
    "blocks": ("copy", "share"),
    "keep": (0, 1, 50),
    "ttl": (timedelta(seconds=1), timedelta(days=1), timedelta.max, timedelta.min),
    "expected_version": (0, 1, 2),
    "value": (*NESTED[:6], "tea", "one\ntwo\nthree"),
    "changes": NESTED[:6],
    "tool": ("search", "nothing", "read", None),
    "json_schema": (_SCHEMA, {}, {"type": "object", "properties": {"a": {"pattern": "(a+)+$"}}}),
    "arguments": ({"query": "tea"}, '{"query": "tea", "limit": 3}', {"query": 5}, {"qeury": "x"}, "{", {}, *NESTED),
    "session": ("s1", "s2"),
    "session_id": ("s1", "s2"),
    "name": (*_USERS, "p1", "s1"),
    "memories": (lambda: ["one", {"kind": "plan", "text": "two"}], lambda: [5], lambda: [{"text": ""}], ()),
    "cycle_index": (0, 1, 2, 10**12),
    "results": (0, 5, 100),
    "duration": (0.5, -1.0, 3),
    "plan": (["a", {"b": 1}], ()),
    "artifacts": (["f1"], ()),
    "output": (*NESTED, "done", 5),
    "error": (None, "broken", {"code": 5}),
    "password": ("long enough", "x"),
    "email": ("a@x.org", "nobody@x.org"),
    "items": (
        lambda: ["one", {"text": "two"}],
        lambda: ("x" for _ in "ab"),
        *(partial(lambda vector: [{"text": "three", "vector": vector}], vector) for vector in VECTORS),
    ),
    "kind": ("fact", "user", "session", "organization", ["fact", "preference"], "conversation"),
    "tags": ("work", ["work", "home"], ("a",)),
    "where": NESTED,
    "include": ("user", ["project"], ()),
    "k": (1, 5, 1000),
    "limit": (1, 50, 10_000),
    "budget": (1, 200, 10_000_000),
    "label": ("human", "persona"),
    "template": ("kind",),
    "template_name": ("kind",),
    "old": ("tea", "one"),
    "new": ("coffee", ""),
    "first": (1, 2),
    "last": (0, 1, 2),
    "every": (True, False),
    "from_version": (1, 2),
    "to_version": (1, 2),
    "numbered": (True, False),
    "templates": (True, False),
    "is_template": (True, False),
    "depth": (1, 10),
    "hard": (True, False),
    "preview": (True, True, False),
    "oldest_first": (True, False),
    "minimum": (0, 0.5),
    "vector": VECTORS,
    "model": (DEFAULT_MODEL, "second", "nothing"),
    "embedder": (FunctionEmbedder(DEFAULT_MODEL, _DIMENSIONS), FunctionEmbedder("", -1)),
    "also": (lambda: [FunctionEmbedder("second", 8, BrokenEmbedding())], lambda: [None]),
    "recipe": ("hybrid", "words", "meaning"),
    "reranker": (PlainReranker(), BrokenReranker()),
    "progress": (lambda *_: None,),
    "timezone": ("UTC", "Asia/Bangkok"),
    "relationship_type": ("related_to", "supersedes"),
    "operation": ("create", "search"),
    "priority": (1, 10),
    "role": ("user", "assistant"),
    "after": TIMES[:6],
    "before": TIMES[:6],
    "as_of": TIMES[:6],
    "asked_at": TIMES[:6],
    "occurred_at": TIMES[:6],
    "valid_from": TIMES[:6],
    "valid_to": TIMES[:6],
    "expires_at": TIMES[:6],
    "overwrite": (True, False),
    "path": ("bundle.jsonl", "notes.txt", "list.json", "nothing.jsonl", "agent.json", Path("bundle.jsonl")),
    "under": ("notes", "a/b"),
    "into": ("in", "a/b"),
    "max_bytes": (10_000_000, 0),
    "target": ("memory://", "second.db", "settings.yaml", "bomb.yaml"),
    "source": ("second.db", "nothing.db", _search, {"name": "search_2", "input_schema": _SCHEMA}, {"name": "x y"}, len),
    "create": (True, False),
    "metadata": NESTED[:6],
    "content": NESTED[:6],
    "provenance": NESTED[:6],
    "context": NESTED[:6],
}
