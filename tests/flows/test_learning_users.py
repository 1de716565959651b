"""What a user teaches is used for that user only, and changes nothing that others use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everhold import Everhold, View
from everhold.errors import InvalidInput, NotFound
from everhold.testing.fake_embedder import FakeEmbedder

ORDERS = """order_id,channel,country,amount
1,web,Spain,20
2,web,France,35
3,store,Spain,15
"""
QUESTION = "workload per country"
COUNT_SQL = "SELECT country, count(*) FROM orders GROUP BY country"
SUM_SQL = "SELECT country, sum(amount) FROM orders GROUP BY country"
COUNTS, SUMS = [("France", 1), ("Spain", 2)], [("France", 35), ("Spain", 35)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Everhold]:
    with Everhold.open("memory://", blobs=str(tmp_path / "blobs"), embedder=FakeEmbedder()) as engine:
        yield engine


@pytest.fixture
def shop(engine: Everhold, tmp_path: Path) -> View:
    (tmp_path / "orders.csv").write_text(ORDERS)
    shop = engine.scope(project="shop")
    shop.upload(str(tmp_path / "orders.csv"))
    return shop


@pytest.fixture
def bob(engine: Everhold, shop: View) -> View:
    """A user of a project that has learned what the workload is."""
    teach(shop, COUNT_SQL)
    return engine.scope(project="shop", user="bob")


def teach(view: View, sql: str) -> None:
    view.correct(view.ask(QUESTION).query, sql=sql)


def list_rows(view: View, question: str = QUESTION) -> list[tuple[object, ...]]:
    return sorted(view.ask(question).table.rows, key=str)


def list_learned(view: View) -> set[tuple[str, str, str, int, int]]:
    return {(item.kind, item.meaning, item.status, item.wins, item.losses) for item in view.learned()}


def test_a_user_who_means_something_else_changes_nothing_for_others(engine: Everhold, shop: View, bob: View) -> None:
    before = list_learned(shop)
    teach(bob, SUM_SQL)
    assert list_rows(bob) == SUMS
    assert list_rows(bob, "workload per channel") == [(15, "store"), (55, "web")]
    assert list_learned(shop) == before
    for view in (shop, engine.scope(project="shop", user="cleo")):
        assert list_rows(view) == COUNTS
        assert list_rows(view, "workload per channel") == [(1, "store"), (2, "web")]


def test_a_later_verdict_of_the_project_does_not_replace_that_of_a_user(shop: View, bob: View) -> None:
    teach(bob, SUM_SQL)
    shop.confirm(shop.ask(QUESTION).query)
    assert list_rows(bob) == SUMS
    assert list_rows(shop) == COUNTS


def test_a_user_gets_the_answer_of_the_project_again(bob: View) -> None:
    teach(bob, SUM_SQL)
    for item in bob.learned():
        if item.user == "bob":
            bob.forget_learned(item.id)
    assert list_rows(bob) == COUNTS


def test_verdicts_of_a_user_do_not_count_for_others(shop: View, bob: View) -> None:
    before = list_learned(shop)
    bob.confirm(bob.ask(QUESTION).query)
    bob.reject(bob.ask("workload per channel").query)
    assert list_learned(shop) == before
    assert bob.ask("workload per channel").confidence < shop.ask("workload per channel").confidence
    assert list_rows(bob) == COUNTS


def test_a_confirmation_stays_when_the_project_forgets(shop: View, bob: View) -> None:
    bob.confirm(bob.ask(QUESTION).query)
    for item in shop.learned():
        shop.forget_learned(item.id)
    assert list_rows(bob) == COUNTS


def test_a_user_does_not_revoke_what_the_project_learned(shop: View, bob: View) -> None:
    for item in shop.learned():
        with pytest.raises(InvalidInput, match="learned for all users of the project, not for user 'bob'"):
            bob.forget_learned(item.id)
    assert list_rows(shop) == COUNTS


def test_a_question_that_another_scope_asked_is_not_judged(shop: View, bob: View) -> None:
    query = shop.ask("how many orders are there?").query
    for judge in (bob.confirm, bob.reject):
        with pytest.raises(NotFound, match="no query"):
            judge(query)


def test_an_answer_names_the_question_that_it_follows(shop: View, bob: View) -> None:
    assert f"answered like {QUESTION!r}, which was confirmed" in shop.ask(QUESTION).assumptions
    assert "'workload' means count(*) of orders" in shop.ask("workload per channel").assumptions
    assert {item.meaning for item in shop.learned() if item.kind == "metric"} == {"count(*) of orders"}
