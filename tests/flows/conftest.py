"""Fixtures of flows. `store`, of tests/conftest.py, is an empty store of each kind in turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everhold import Everhold, View
from tests.engines import Store, make_store


@pytest.fixture
def sqlite_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty SQLite store, for flows that do not depend on the kind of store."""
    store = make_store("sqlite", request, tmp_path)
    yield store
    store.close()


@pytest.fixture
def engine(store: Store) -> Everhold:
    """An engine on `store`."""
    return store.open()


@pytest.fixture
def alice(engine: Everhold) -> View:
    """The view of one user, on `engine`."""
    return engine.scope(user="alice")
