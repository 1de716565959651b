"""A reading and its parts: the frame, words, doubts and alternatives; and follow-up questions."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everhold.adapters.sqlite_files.reader import run_query
from everhold.ask.confidence import WEIGHTS, Features, estimate_confidence
from everhold.ask.frame import Expression, Function, Ordering, Predicate, QueryFrame
from everhold.ask.guard import check_statement
from everhold.ask.reading import QuestionReader, QuestionReading
from everhold.ask.schema import ColumnRef
from tests.unit.ask_shop import TODAY, make_shop, open_shop

TABLES = ("customers", "product_categories", "products", "orders", "order_items")
AGE, NAME, COUNTRY = (ColumnRef("customers", name) for name in ("age", "name", "country"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shop(tmp_path_factory.mktemp("shop") / "shop.sqlite")


@pytest.fixture(scope="module")
def reader(shop: Path) -> QuestionReader:
    return open_shop(shop)


def read_best(reader: QuestionReader, question: str, previous: QueryFrame | None = None) -> QuestionReading:
    best = reader.read(question, TODAY, previous).best
    assert best is not None
    return best


def test_a_list_with_a_condition_is_a_frame(reader: QuestionReader) -> None:
    frame = read_best(reader, "Show the names of customers older than 40.").frame
    condition = Predicate(Expression(AGE), ">", (40,))
    assert frame == QueryFrame("customers", (Expression(NAME),), where=(condition,))


def test_a_superlative_is_an_order_and_a_limit(reader: QuestionReader) -> None:
    frame = read_best(reader, "Who is the youngest customer?").frame
    assert (frame.order, frame.limit) == ((Ordering(Expression(AGE)),), 1)


def test_a_count_for_each_country_is_a_group(reader: QuestionReader) -> None:
    frame = read_best(reader, "How many customers are there in each country?").frame
    assert frame.group == (Expression(COUNTRY),)
    assert frame.select[0].function is Function.COUNT


def test_a_reading_is_restated_in_words(reader: QuestionReader) -> None:
    restatement = read_best(reader, "What is the average age of customers from France?").restatement
    assert restatement == "the average age of customers in France"


def test_unexplained_words_are_named(reader: QuestionReader) -> None:
    understood = read_best(reader, "Give me the city of the customers.")
    puzzled = read_best(reader, "Give me the email of the customers.")
    assert puzzled.unexplained == ("email",)
    assert puzzled.confidence < understood.confidence


def test_synonyms_are_assumptions(reader: QuestionReader) -> None:
    assert read_best(reader, "How many clients are there?").assumptions == ("'clients' means customers",)


def test_alternatives_differ_from_the_best(reader: QuestionReader) -> None:
    readings = reader.read("Show the name of each product and its customers.", TODAY)
    statements = [reading.sql for reading in readings.readings]
    assert readings.alternatives
    assert len(set(statements)) == len(statements)


@pytest.mark.parametrize("question", ["", "?", "the of and", "xyzzy plugh", "(((", "'", "1 2 3"])
def test_a_question_about_nothing_has_no_reading(reader: QuestionReader, question: str) -> None:
    assert reader.read(question, TODAY).best is None


def test_confidence_grows_with_what_was_understood() -> None:
    doubtful = Features(*[0.0] * len(Features._fields))._replace(unread=1.0, unread_cues=1.0)
    sure = doubtful._replace(unread=0.0, unread_cues=0.0, margin=1.0, clean=1.0)
    assert 0 < estimate_confidence(doubtful) < estimate_confidence(sure) < 1
    assert set(WEIGHTS) == {"base", *Features._fields}


@pytest.mark.parametrize(
    ("first", "follow_up", "expected"),
    [
        ("How many orders are there?", "only paid", {(4,)}),
        ("How many orders are paid?", "and cancelled?", {(1,)}),
        ("How many orders are there?", "only in 2024", {(5,)}),
        ("How many customers are there in each country?", "only older than 40", {(1, "Germany"), (1, "Japan")}),
        ("How many customers are there?", "by country", {("France", 2), ("Germany", 2), ("Japan", 1)}),
        ("Show the names of customers from France.", "what about Japan?", {("Dan Ito",)}),
    ],
)  # fmt: skip
def test_a_follow_up_changes_the_previous_frame(
    shop: Path, reader: QuestionReader, first: str, follow_up: str, expected: set[tuple[object, ...]]
) -> None:
    frame = read_best(reader, first).frame
    rows = run_query(shop, read_best(reader, follow_up, frame).sql, seconds=60, max_rows=100)
    assert set(rows) == expected


def test_a_whole_question_is_not_a_follow_up(reader: QuestionReader) -> None:
    previous = read_best(reader, "How many orders are paid?").frame
    question = "How many customers are there?"
    assert read_best(reader, question, previous).frame == read_best(reader, question).frame


WORD_LIST = """
customers orders products category name title price amount age city country status order date France Paris
paid Novel how many number of average total minimum maximum different each per by sorted descending most least
oldest cheapest more than at least or more between not no without never and or both contains starting with who
whose that with of in from is are have top 3 2024 27 twice last month share running change 'x' , . ? all
information xyzzy only list show which
"""
WORDS = WORD_LIST.split()


@given(st.lists(st.sampled_from(WORDS), max_size=14), st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_words_become_sql_that_runs_or_nothing(
    shop: Path, reader: QuestionReader, words: list[str], is_follow_up: bool
) -> None:
    previous = read_best(reader, "How many orders are paid?").frame if is_follow_up else None
    for reading in reader.read(" ".join(words), TODAY, previous).readings:
        statement = check_statement(reading.sql, "sqlite", TABLES)
        run_query(shop, statement.sql, seconds=60, max_rows=10)
        assert reading.restatement
        assert 0 <= reading.confidence <= 1
