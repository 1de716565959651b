"""Fixtures of flows: `store` is an empty store, `engine` is an engine on it, and `alice` is the view of one user."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everhold import Everhold, View
from tests.engines import Store, make_store


@pytest.fixture
def sqlite_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = make_store("sqlite", request, tmp_path)
    yield made
    made.close()


@pytest.fixture
def engine(store: Store) -> Everhold:
    return store.open()


@pytest.fixture
def alice(engine: Everhold) -> View:
    return engine.scope(user="alice")
