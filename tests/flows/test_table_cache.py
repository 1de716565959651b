"""The cache of tables for questions is used while nothing changes, read again after changes, and separate per scope."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from everhold import Everhold, NotFound, StatementRefused, View
from everhold.ask.sources import content
from everhold.ask.sources.cache import WeightedCache
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import Store

COUNT_QUESTION = "how many orders are there?"


@pytest.fixture
def engine(store: Store, tmp_path: Path) -> Everhold:
    return store.open(blobs=str(tmp_path / "blobs"))


@pytest.fixture
def shop(engine: Everhold, tmp_path: Path) -> View:
    return upload(engine.scope(project="shop"), tmp_path, "status\npaid\nopen\n")


def upload(view: View, folder: Path, text: str, name: str = "orders.csv") -> View:
    (folder / name).write_text(text)
    view.upload(str(folder / name))
    return view


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets an entry whenever values of tables are read."""
    read_values, calls = content.read_table_values, []

    def count(deps: object, tables: list[object]) -> object:
        calls.append(len(tables))
        return read_values(deps, tables)  # type: ignore[arg-type]

    monkeypatch.setattr(content, "read_table_values", count)
    return calls


def test_tables_are_read_once(shop: View, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_reads(monkeypatch)
    assert [shop.ask(COUNT_QUESTION).table.rows for _ in range(3)] == [((2,),)] * 3
    assert calls == [1]


def test_a_change_is_seen_by_the_next_question(shop: View, tmp_path: Path) -> None:
    assert shop.ask(COUNT_QUESTION).table.rows == ((2,),)
    upload(shop, tmp_path, "status\npaid\nopen\nlate\n")
    assert shop.ask(COUNT_QUESTION).table.rows == ((3,),)
    assert shop.ask("how many orders are late?").table.rows == ((1,),)
    upload(shop, tmp_path, "name\nZoe\nAbe\n", "customers.csv")
    assert shop.ask("how many customers are there?").table.rows == ((2,),)
    shop.delete_source("orders.csv")
    with pytest.raises(StatementRefused):
        shop.sql("SELECT * FROM orders")
    shop.restore_source("orders.csv")
    assert shop.sql("SELECT count(*) FROM orders").rows == ((3,),)


def test_a_new_description_is_seen(shop: View) -> None:
    assert shop.find_tables("orders")[0].table.description != "What was bought"
    shop.update_description("orders", "What was bought")
    assert shop.find_tables("orders")[0].table.description == "What was bought"
    shop.update_description("orders", "Whether it was paid", field="status")
    [hit] = shop.find_tables("anything", field="status")
    assert hit.fields[0].description == "Whether it was paid"


def test_scopes_do_not_share_entries(engine: Everhold, shop: View, tmp_path: Path) -> None:
    acme_shop = upload(engine.scope(organization="acme", project="shop"), tmp_path, "status\nold\n")
    ana = upload(engine.scope(user="ana"), tmp_path, "status\na1\nb2\nc3\nd4\n")
    for _ in range(2):
        assert [view.ask(COUNT_QUESTION).table.rows for view in (shop, acme_shop, ana)] == [((2,),), ((1,),), ((4,),)]
    with pytest.raises(NotFound):
        engine.scope(organization="empty", project="shop").ask(COUNT_QUESTION)


def test_another_engine_on_the_store_is_noticed(tmp_path: Path) -> None:
    options = {"embedder": FakeEmbedder(), "blobs": str(tmp_path / "blobs")}
    with Everhold.open(tmp_path / "a.db", **options) as first, Everhold.open(tmp_path / "a.db", **options) as second:  # type: ignore[arg-type]
        shop = upload(first.scope(project="shop"), tmp_path, "status\npaid\n")
        assert shop.ask(COUNT_QUESTION).table.rows == ((1,),)
        upload(second.scope(project="shop"), tmp_path, "status\npaid\nopen\n")
        assert shop.ask(COUNT_QUESTION).table.rows == ((2,),)


def test_threads_share_the_cache(engine: Everhold, shop: View, tmp_path: Path) -> None:
    other_shop = upload(engine.scope(project="other"), tmp_path, "status\na1\nb2\nc3\n")
    views = [shop, other_shop] * 6
    with ThreadPoolExecutor(6) as pool:
        rows = list(pool.map(lambda view: view.ask(COUNT_QUESTION).table.rows, views))
    assert rows == [((2,),), ((3,),)] * 6


def test_the_cache_is_bounded() -> None:
    cache: WeightedCache[str, int] = WeightedCache(10)
    for number, name in enumerate("abc"):
        cache.put(name, number, 4)
    assert [cache.get(name) for name in "abc"] == [None, 1, 2]
    cache.put("b", 5, 4)
    cache.put("heavy", 9, 11)
    assert [cache.get(name) for name in ("b", "c", "heavy")] == [5, 2, None]
