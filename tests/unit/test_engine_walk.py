"""The random walk gives the engines that it compares the same times, however long a call takes."""

import time

import pytest

from everhold import Everhold, View
from everhold.testing.engine_walk import walk
from everhold.testing.fake_embedder import FakeEmbedder


def test_both_engines_write_the_same_times(monkeypatch: pytest.MonkeyPatch) -> None:
    remember = View.remember

    def remember_slowly(*arguments: object, **options: object) -> object:
        time.sleep(0.01)
        return remember(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(View, "remember", remember_slowly)
    engines = [Everhold.open("memory://", embedder=FakeEmbedder()) for _ in range(2)]
    walk(engines[:1], engines[1], "acme", steps=60)
    times = [
        {
            memory.id: (memory.created_at, memory.updated_at)
            for memory in engine.scope(organization="acme").list(limit=100)
        }
        for engine in engines
    ]
    assert times[0]
    assert times[0] == times[1]
    for engine in engines:
        engine.close()
