"""All parts of an engine are closed, even if closing one of them fails."""

from collections.abc import Callable
from typing import Any

import pytest

from everhold.parts import Parts
from tests.engines import Store


@pytest.mark.parametrize("failing", ["access", "candidates", "cache"])
def test_every_part_is_closed_even_if_one_fails(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store("sqlite", "memory://")
    parts = store.open()._parts
    closed: list[str] = []
    for name, part in list_closed_parts(parts).items():

        def close_and_record(name: str = name, close_part: Callable[[], None] = part.close) -> None:
            close_part()
            closed.append(name)
            if name == failing:
                raise OSError(name)

        monkeypatch.setitem(part.__dict__, "close", close_and_record)
    with pytest.raises(OSError, match=failing):
        parts.close()
    assert closed == ["access", "candidates", "cache", "records"]


def list_closed_parts(parts: Parts) -> dict[str, Any]:
    return {
        "access": parts.access,
        "candidates": parts.recall_deps.candidates,
        "cache": parts.session_deps.cache,
        "records": parts.records,
    }
