"""SQL views with the names of other memory systems: what was written through the verbs is read by their old SQL."""

from collections.abc import Iterator

import pytest

from tests.engines import make_store
from tests.flows.legacy_data import EXPECTED, write_everything
from tests.flows.legacy_database import SQL_STORES, Report

# In one test process, because all share stores that take a second to fill.
pytestmark = pytest.mark.xdist_group("sql views")

VIEWS = [(preset, view) for preset, views in EXPECTED.items() for view in views]


@pytest.fixture(scope="module", params=SQL_STORES)
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Report]]:
    """A store with a row of everything and all views, and for each preset the connection of a report."""
    folder = tmp_path_factory.mktemp("views")
    store = make_store(request.param, request, folder)
    engine = store.open(data=folder / "data")
    write_everything(engine, folder)
    for preset in EXPECTED:
        engine.install_views(preset)
    scripts = {preset: engine.write_view_script(preset) for preset in EXPECTED}
    engine.close()
    yield {preset: Report(store, script) for preset, script in scripts.items()}
    with_engine = store.open(data=folder / "data")
    for preset in EXPECTED:
        with_engine.remove_views(preset)
    store.close()


@pytest.mark.parametrize(("preset", "view"), VIEWS, ids=[f"{preset}-{view}" for preset, view in VIEWS])
def test_every_column_of_every_view_has_its_value(reports: dict[str, Report], preset: str, view: str) -> None:
    rows = reports[preset].read(preset, view)
    expected = EXPECTED[preset][view]
    assert all(list(row) == list(expected) for row in rows)
    differences = [{name: row[name] for name in expected if expected[name] != row[name]} for row in rows]
    assert {} in differences, min(differences, key=len, default="no rows")
