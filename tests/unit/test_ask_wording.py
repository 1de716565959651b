"""Frames in plain words: measures, groups, conditions, periods, orders, set operations and the names of columns."""

from dataclasses import replace
from datetime import date

import pytest

from everhold.ask.frame import (
    AnyPredicate,
    Expression,
    Function,
    Membership,
    Ordering,
    Predicate,
    QueryFrame,
    SetOperation,
    WindowKind,
)
from everhold.ask.schema import AskColumn, AskSchema, AskTable, ColumnKind, ColumnRef, ForeignKey
from everhold.ask.wording.frames import describe_frame, name_columns, name_rows
from everhold.ask.wording.names import make_plural, make_singular, split_words
from everhold.ask.wording.periods import describe_period

NUMERIC = (ColumnKind.MEASURE, ColumnKind.ID, ColumnKind.YEAR)


def make_table(name: str, key: str, display: str, /, **kinds: ColumnKind) -> AskTable:
    columns = tuple(
        AskColumn(
            name,
            column,
            kind,
            (),
            (),
            is_numeric=kind in NUMERIC,
            true_value=1 if kind is ColumnKind.FLAG else None,
            unit={"price": "EUR", "weight_kg": "kg"}.get(column, ""),
            label={"amt": "revenue"}.get(column, ""),
        )
        for column, kind in kinds.items()
    )
    return AskTable(name, (), (), columns, key, display)


ID, TEXT, CATEGORY = ColumnKind.ID, ColumnKind.TEXT, ColumnKind.CATEGORY
SCHEMA = AskSchema(
    (
        make_table("customers", "customer_id", "name", customer_id=ID, name=TEXT, country=CATEGORY, segment=CATEGORY),
        make_table(
            "orders", "order_id", "order_id", order_id=ID, customer_id=ID, placed_at=ColumnKind.DATE,
            status=CATEGORY, amt=ColumnKind.MEASURE,
        ),
        make_table(
            "products", "product_id", "title", product_id=ID, title=TEXT, price=ColumnKind.MEASURE,
            weight_kg=ColumnKind.MEASURE, is_sold_out=ColumnKind.FLAG, release_year=ColumnKind.YEAR, country=CATEGORY,
        ),
        make_table(
            "visits", "visit_id", "visit_id", visit_id=ID, customer_id=ID, first_day=ColumnKind.DATE,
            last_day=ColumnKind.DATE,
        ),
    ),
    (ForeignKey("orders", "customer_id", "customers", "customer_id"),),
)  # fmt: skip


def make_column(table: str, name: str) -> Expression:
    return Expression(ColumnRef(table, name))


def aggregate(function: Function, table: str, name: str) -> Expression:
    return Expression(ColumnRef(table, name), function)


COUNTRY, PLACED, STATUS = (
    make_column("customers", "country"),
    make_column("orders", "placed_at"),
    make_column("orders", "status"),
)
NAME, TITLE, PRICE = (
    make_column("customers", "name"),
    make_column("products", "title"),
    make_column("products", "price"),
)
YEAR, SEGMENT = make_column("products", "release_year"), make_column("customers", "segment")
ORDERS = Expression(function=Function.COUNT, of_table="orders")
REVENUE = aggregate(Function.SUM, "orders", "amt")
MONTH = replace(PLACED, grain="month")
ORDER_COUNT = QueryFrame("orders", (ORDERS,))
NAMES = QueryFrame("customers", (NAME,))
TITLES = QueryFrame("products", (TITLE,))


def in_period(start: str, end: str) -> Predicate:
    return Predicate(PLACED, "between", (start, end), half_open=True)


def where(frame: QueryFrame, *conditions: Predicate | AnyPredicate | Membership) -> QueryFrame:
    return replace(frame, where=conditions)


AVERAGE_PRICE = QueryFrame("products", (aggregate(Function.AVERAGE, "products", "price"),))
TOP_PRICE = QueryFrame("products", (aggregate(Function.MAXIMUM, "products", "price"),))
PER_COUNTRY = QueryFrame("orders", (COUNTRY, ORDERS), group=(COUNTRY,))
PER_MONTH = QueryFrame("orders", (MONTH, REVENUE), group=(MONTH,))
FRAMES: dict[str, QueryFrame] = {
    "the number of orders": ORDER_COUNT,
    "the number of orders per country, placed in 2025, most first, top 5": replace(
        PER_COUNTRY, where=(in_period("2025-01-01", "2026-01-01"),), order=(Ordering(ORDERS, True),), limit=5
    ),
    "the total revenue per month": PER_MONTH,
    "the share of the total revenue per country": replace(
        PER_COUNTRY, select=(COUNTRY, replace(REVENUE, window=WindowKind.SHARE))
    ),
    "the running total of revenue per month": replace(
        PER_MONTH, select=(MONTH, replace(REVENUE, window=WindowKind.RUNNING))
    ),
    "the change in the total revenue from month to month": replace(
        PER_MONTH, select=(MONTH, replace(REVENUE, window=WindowKind.CHANGE))
    ),
    "the share of orders with status paid": QueryFrame(
        "orders", (replace(ORDERS, condition=Predicate(STATUS, "=", ("paid",))),)
    ),
    "the average number of orders per customer": QueryFrame(
        "orders", (replace(ORDERS, per=ColumnRef("orders", "customer_id")),)
    ),
    "the number of different countries": QueryFrame(
        "customers", (replace(aggregate(Function.COUNT, "customers", "country"), distinct=True),)
    ),
    "the lowest price and average price of products": QueryFrame(
        "products", (aggregate(Function.MINIMUM, "products", "price"), aggregate(Function.AVERAGE, "products", "price"))
    ),
    "the latest placed date of orders": QueryFrame("orders", (aggregate(Function.MAXIMUM, "orders", "placed_at"),)),
    "the number of orders placed in March 2025": where(ORDER_COUNT, in_period("2025-03-01", "2025-04-01")),
    "the number of orders placed from 1 March to 15 March 2025": where(
        ORDER_COUNT, in_period("2025-03-01", "2025-03-16")
    ),
    "the number of orders placed on 5 March 2025": where(ORDER_COUNT, in_period("2025-03-05", "2025-03-06")),
    "the number of orders placed before 2024": where(ORDER_COUNT, Predicate(PLACED, "<", ("2024-01-01",))),
    "the number of orders placed since 2 May 2024": where(ORDER_COUNT, Predicate(PLACED, ">=", ("2024-05-02",))),
    "the number of orders placed in 2025 with status paid": where(
        ORDER_COUNT, Predicate(STATUS, "=", ("paid",)), in_period("2025-01-01", "2026-01-01")
    ),
    "the number of orders with status other than paid": where(
        ORDER_COUNT, Predicate(STATUS, "=", ("paid",), negated=True)
    ),
    "the number of orders with status paid or open": where(
        ORDER_COUNT, AnyPredicate((Predicate(STATUS, "=", ("paid",)), Predicate(STATUS, "=", ("open",))))
    ),
    "the number of orders in Spain": where(ORDER_COUNT, Predicate(COUNTRY, "=", ("Spain",))),
    "the number of orders where the customer is Ann Lee": where(ORDER_COUNT, Predicate(NAME, "=", ("Ann Lee",))),
    "the number of visits with last day in 2025": QueryFrame(
        "visits", (Expression(function=Function.COUNT, of_table="visits"),),
        where=(Predicate(make_column("visits", "last_day"), "between", ("2025-01-01", "2026-01-01"), half_open=True),),
    ),
    "the names of customers in France": where(NAMES, Predicate(COUNTRY, "=", ("France",))),
    "the names of customers not in France": where(NAMES, Predicate(COUNTRY, "!=", ("France",))),
    "the names of customers without orders": where(
        NAMES,
        Membership(
            ColumnRef("customers", "customer_id"),
            QueryFrame("orders", (make_column("orders", "customer_id"),)),
            negated=True,
        ),
    ),
    "the names of customers with orders placed in 2024": where(
        NAMES, Membership(ColumnRef("customers", "customer_id"),
                          QueryFrame("orders", (make_column("orders", "customer_id"),),
                                     where=(in_period("2024-01-01", "2025-01-01"),)))
    ),
    "the customers with at least 2 orders": replace(
        NAMES, group=(make_column("customers", "customer_id"),), having=(Predicate(ORDERS, ">=", (2,)),)
    ),
    "the customers with more than 1 order": replace(
        NAMES, group=(make_column("customers", "customer_id"),), having=(Predicate(ORDERS, ">", (1,)),)
    ),
    "the customers with total revenue over 35": replace(
        NAMES, group=(make_column("customers", "customer_id"),), having=(Predicate(REVENUE, ">", (35,)),)
    ),
    "the different countries of customers": QueryFrame("customers", (COUNTRY,), distinct=True),
    "all columns of the products": QueryFrame("products"),
    "the titles of products with price over 20 EUR": where(TITLES, Predicate(PRICE, ">", (20,))),
    "the titles of products with price at most 20,000 EUR": where(
        TITLES, Predicate(PRICE, ">", (20_000,), negated=True)
    ),
    "the titles of products with price from 5 EUR to 10 EUR": where(TITLES, Predicate(PRICE, "between", (5, 10))),
    "the titles of products with weight under 3 kg": where(
        TITLES, Predicate(make_column("products", "weight_kg"), "<", (3,))
    ),
    "the titles of products with price over the average price of products": where(
        TITLES, Predicate(PRICE, ">", frame=AVERAGE_PRICE)
    ),
    "the titles of products with the highest price of products": where(TITLES, Predicate(PRICE, "=", frame=TOP_PRICE)),
    "the titles of products with title starting with 'R'": where(TITLES, Predicate(TITLE, "like", ("R%",))),
    "the titles of products with title containing 'ov'": where(TITLES, Predicate(TITLE, "like", ("%ov%",))),
    "the titles of products not with title ending with 'a'": where(
        TITLES, Predicate(TITLE, "like", ("%a",), negated=True)
    ),
    "the titles of products without a price": where(TITLES, Predicate(PRICE, "is null")),
    "the titles of products with a price": where(TITLES, Predicate(PRICE, "is null", negated=True)),
    "the titles of products that are not sold out": where(
        TITLES, Predicate(make_column("products", "is_sold_out"), "=", (1,), negated=True)
    ),
    "the titles of products from 2010 to 2015": where(TITLES, Predicate(YEAR, "between", (2010, 2015))),
    "the titles of products since 2015": where(TITLES, Predicate(YEAR, ">=", (2015,))),
    "the title of the product with the highest price": replace(TITLES, order=(Ordering(PRICE, True),), limit=1),
    "the titles of the 3 products with the lowest price": replace(TITLES, order=(Ordering(PRICE),), limit=3),
    "the country with the most orders": QueryFrame(
        "orders", (COUNTRY,), group=(COUNTRY,), order=(Ordering(ORDERS, True),), limit=1
    ),
    "the title of the product with the latest release year": replace(TITLES, order=(Ordering(YEAR, True),), limit=1),
    "the titles of products, sorted by price, highest first": replace(TITLES, order=(Ordering(PRICE, True),)),
    "the titles of products, sorted by title": replace(TITLES, order=(Ordering(TITLE),)),
    "the titles of products, latest release year first": replace(TITLES, order=(Ordering(YEAR, True),)),
    "the names of customers in France, but not with segment school": replace(
        where(NAMES, Predicate(COUNTRY, "=", ("France",))),
        combined=(SetOperation.EXCEPT, where(NAMES, Predicate(SEGMENT, "=", ("school",)))),
    ),
    "the countries of customers with segment school, and also with segment business": replace(
        where(QueryFrame("customers", (COUNTRY,)), Predicate(SEGMENT, "=", ("school",))),
        combined=(
            SetOperation.INTERSECT,
            where(QueryFrame("customers", (COUNTRY,)), Predicate(SEGMENT, "=", ("business",))),
        ),
    ),
    "the names of customers, or the titles of products": replace(NAMES, combined=(SetOperation.UNION, TITLES)),
}  # fmt: skip


@pytest.mark.parametrize("words", FRAMES)
def test_a_frame_is_a_phrase(words: str) -> None:
    assert describe_frame(SCHEMA, FRAMES[words]) == words


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (date(2025, 1, 1), date(2026, 1, 1), "in 2025"),
        (date(2024, 1, 1), date(2026, 1, 1), "from 2024 to 2025"),
        (date(2025, 10, 1), date(2026, 1, 1), "in the fourth quarter of 2025"),
        (date(2025, 2, 1), date(2025, 5, 1), "from February to April 2025"),
        (date(2024, 11, 1), date(2025, 2, 1), "from November 2024 to January 2025"),
        (date(2025, 3, 1), date(2025, 4, 1), "in March 2025"),
        (date(2025, 3, 31), date(2025, 4, 1), "on 31 March 2025"),
        (date(2024, 12, 30), date(2025, 1, 6), "from 30 December 2024 to 5 January 2025"),
    ],
)
def test_periods_are_written_as_periods(start: date, end: date, words: str) -> None:
    assert describe_period(start, end) == words


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("order line", "order lines"),
        ("country", "countries"),
        ("day", "days"),
        ("box", "boxes"),
        ("address", "addresses"),
        ("status", "statuses"),
        ("person", "people"),
        ("aircraft", "aircraft"),
    ],
)
def test_nouns_have_a_plural(singular: str, plural: str) -> None:
    assert (make_plural(singular), make_singular(plural)) == (plural, singular)
    assert (make_plural(plural), make_singular(singular)) == (plural, singular)


def test_names_are_split_into_words() -> None:
    assert split_words("unitPrice_EUR") == ["unit", "price", "EUR"]
    assert split_words("num_in_stock") == ["number", "in", "stock"]
    assert split_words("Größe") == ["größe"]


def test_columns_and_rows_of_a_result_have_names() -> None:
    assert name_columns(SCHEMA, PER_COUNTRY) == ["country", "number of orders"]
    assert name_columns(SCHEMA, PER_MONTH) == ["month", "total revenue"]
    assert (name_rows(SCHEMA, NAMES), name_rows(SCHEMA, PER_MONTH)) == ("customers", "rows")
