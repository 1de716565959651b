"""The replay gate: what is learned must gain a confirmed question and break none."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from everhold.ask.learning.teaching import LearnedStatus
from everhold.ask.lessons import Lessons, TaughtJoin
from everhold.ask.schema import ColumnRef
from tests.unit.ask_shop import TODAY, make_shop
from tests.unit.taught_shop import TaughtShop

IN_FRANCE = "SELECT count(*) FROM customers WHERE country = 'France'"


@pytest.fixture
def shop(tmp_path: Path) -> TaughtShop:
    return TaughtShop(make_shop(tmp_path / "shop.sqlite"))


def test_a_pattern_that_gains_its_question_is_active(shop: TaughtShop) -> None:
    teaching = shop.teach("how many folks are in France", IN_FRANCE)
    assert [item.status for item in teaching.patterns] == [LearnedStatus.ACTIVE]
    assert teaching.patterns[0].report is not None
    assert teaching.patterns[0].report.gained == ("how many folks are in France",)
    assert shop.ask("how many folks are in Japan") == [(1,)]


def test_the_same_pattern_wins_instead_of_being_learned_twice(shop: TaughtShop) -> None:
    shop.teach("how many folks are in France", IN_FRANCE)
    teaching = shop.teach("how many folks are in Japan", IN_FRANCE.replace("France", "Japan"))
    assert [(item.pattern.id, item.pattern.wins) for item in teaching.patterns] == [("qpt-1", 2)]
    assert len(shop.memory.patterns.patterns) == 1


def test_a_pattern_that_would_break_a_confirmed_question_is_held_back(shop: TaughtShop) -> None:
    for _ in range(2):
        shop.teach("how many folks are in France", IN_FRANCE)
    teaching = shop.teach("how many folks are in Japan", "SELECT max(age) FROM customers WHERE country = 'Japan'")
    [added] = teaching.patterns
    assert (added.status, added.pattern.is_active) == (LearnedStatus.HELD_BACK, False)
    assert shop.ask("how many folks are in Japan") == [(45,)], (
        "the pattern's own question was not answered as it was taught"
    )
    assert shop.ask("how many folks are in Germany") == [(2,)]
    assert shop.ask("how many folks are in France") == [(2,)]


def test_one_correction_repairs_a_wrong_confirmation(shop: TaughtShop) -> None:
    shop.teach("how many folks are in France", "SELECT max(age) FROM customers WHERE country = 'France'")
    assert shop.ask("how many folks are in France") == [(34,)]
    teaching = shop.teach("how many folks are in France", IN_FRANCE)
    assert [item.status for item in teaching.patterns] == [LearnedStatus.RETIRED, LearnedStatus.ACTIVE]
    assert shop.ask("how many folks are in France") == [(2,)]
    assert shop.ask("how many folks are in Germany") == [(2,)]


def test_a_correction_holds_for_a_value_that_two_patterns_take_differently(tmp_path: Path) -> None:
    """Each correction has the shape of an existing pattern that gives a wrong answer for the correction's question."""
    path = make_shop(tmp_path / "shop.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE customers SET city = 'Japan' WHERE country = 'France'")
    shop = TaughtShop(path)
    shop.teach("how many folks live in Berlin", "SELECT count(*) FROM customers WHERE city = 'Berlin'")
    shop.teach("how many folks live in France", IN_FRANCE)
    question = "how many folks live in Japan"
    for column in ("city", "country", "city", "country"):
        right_sql = f"SELECT count(*) FROM customers WHERE {column} = 'Japan'"
        shop.teach(question, right_sql)
        assert shop.ask(question) == shop.gate.run(right_sql)


def test_a_held_back_pattern_is_used_when_the_question_it_would_break_is_retired(shop: TaughtShop) -> None:
    wrong_sql = "SELECT max(age) FROM customers WHERE country = 'France'"
    shop.teach("how many folks are in France", wrong_sql)
    pattern = shop.teach("how many folks are in Japan", IN_FRANCE.replace("France", "Japan")).patterns[-1]
    assert pattern.status is LearnedStatus.HELD_BACK
    shop.teach("how many folks are in France", IN_FRANCE)
    assert shop.ask("how many folks are in Japan") == [(1,)]


def test_a_phrase_becomes_a_metric(shop: TaughtShop) -> None:
    teaching = shop.teach("how many bulky orders are there", "SELECT count(*) FROM orders WHERE amount > 50")
    assert [type(item.lesson).__name__ for item in teaching.lessons] == ["TaughtCondition"]
    assert shop.ask("average amount of bulky orders") == [((72.5 + 240.0 + 55.0) / 3,)]


def test_a_phrase_becomes_an_alias(shop: TaughtShop) -> None:
    teaching = shop.teach("total moolah of orders", "SELECT sum(amount) FROM orders")
    assert [(item.lesson.phrase, item.lesson.column) for item in teaching.lessons] == [("moolah", "amount")]  # type: ignore[union-attr]
    assert shop.ask("highest moolah of orders with status paid") == [(240.0,)]


def test_an_alias_that_would_break_a_confirmed_question_is_not_learned(shop: TaughtShop) -> None:
    shop.teach("total moolah of orders", "SELECT sum(amount) FROM orders")
    teaching = shop.teach("total moolah of products", "SELECT sum(price) FROM products")
    assert all(not item.report.broken for item in teaching.lessons)
    assert shop.ask("total moolah of orders") == [(425.0,)]


def test_a_join_that_no_key_declares_is_learned(shop: TaughtShop) -> None:
    sql = (
        "SELECT products.title FROM products JOIN order_items ON products.product_id = order_items.product_id "
        "WHERE order_items.quantity = 2"
    )
    before = shop.memory.lessons
    shop.teach("titles of products with quantity 2", sql)
    assert shop.ask("titles of products with quantity 2") == [("Atlas",), ("Spade",)]
    assert len(shop.memory.lessons.joins) >= len(before.joins)


def test_a_statement_that_never_ran_gains_nothing(shop: TaughtShop) -> None:
    teaching = shop.teach("how many folks are in France", "SELECT nothing FROM customers WHERE country = 'France'")
    assert shop.gate.run("SELECT nothing FROM customers") is None
    assert teaching.lessons == ()


def test_lessons_about_other_tables_are_ignored(shop: TaughtShop) -> None:
    shop.teach("total moolah of orders", "SELECT sum(amount) FROM orders")
    [name] = shop.memory.lessons.names
    lessons_about_missing_tables = Lessons(
        (replace(name, table="gone"),), (), (TaughtJoin("", ColumnRef("gone", "a"), ColumnRef("b", "c")),)
    )
    reader = shop.context.reader.teach(lessons_about_missing_tables)
    assert reader.read("total moolah of orders", TODAY) == shop.context.reader.read("total moolah of orders", TODAY)
