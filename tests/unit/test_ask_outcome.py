"""Questions that are answered, clarified or refused; corrected spelling; and the comparison of two results."""

from pathlib import Path

import pytest

from everhold.adapters.sqlite_files.reader import read_tables
from everhold.ask.answer import make_answer, make_refusal
from everhold.ask.outcome import (
    AnswerChoice,
    AnswerStatus,
    NotUnderstood,
    OutcomeLimits,
    make_choices,
    write_clarification,
)
from everhold.ask.problems import find_problems
from everhold.ask.profile.build import build_schema
from everhold.ask.reading import QuestionReader
from everhold.ask.results import Rows, have_same_rows
from everhold.ask.spelling import SpellingIndex
from everhold.ask.values import ValueIndex
from everhold.ports.result_table import AnswerColumn, ResultTable
from everhold.ports.table_content import ColumnContent, TableContent
from tests.unit.ask_shop import TODAY, make_shop


class Shop:
    """The tables of the shop, and a reader of questions about them."""

    def __init__(self, path: Path) -> None:
        tables = read_tables(path)
        self.schema, self.values = build_schema(tables), ValueIndex(tables)
        self.reader = QuestionReader(self.schema, self.values)

    def find_problems(self, question: str) -> list[str]:
        readings = self.reader.read(question, TODAY)
        return [str(problem) for problem in find_problems(self.schema, self.values, question, readings)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(make_shop(tmp_path_factory.mktemp("shop") / "shop.sqlite"))


@pytest.mark.parametrize(
    "question",
    [
        "How many customers are there?",
        "Show the distribution of prices.",
        "What products have titles starting with 'Zz'?",
        "How many custmers are there?",
        "Which customers live in Berlin?",
    ],
)
def test_an_understood_question_has_no_problem(shop: Shop, question: str) -> None:
    assert shop.find_problems(question) == []


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        ("What is the churn of customers?", "'churn' is not a column, table or value here"),
        ("churn per month", "'churn' is not a column, table or value here"),
        ("Show the customers named 'Zorro'.", "'Zorro' is not a value"),
        ("xyzzy plugh", "'xyzzy' is not a column, table or value here"),
        ("?", "the question names no table, column or value; there is data about customers"),
        ("What is the kwantity?", "'kwantity' is not a column, table or value here; closest: order_items.quantity"),
    ],
)
def test_words_that_are_not_understood_are_named(shop: Shop, question: str, problem: str) -> None:
    assert problem in "; ".join(shop.find_problems(question))


def test_tables_without_a_key_between_them_are_named() -> None:
    columns = {"boats": "color", "planets": "moon"}
    tables = [
        TableContent(name, 2, (ColumnContent(column, "TEXT", ("a", "b"), 2, 0),)) for name, column in columns.items()
    ]
    schema, values = build_schema(tables), ValueIndex(tables)
    question = "How many boats are there for each moon?"
    problems = find_problems(schema, values, question, QuestionReader(schema, values).read(question, TODAY))
    assert "no key connects" in str(problems[0])


@pytest.mark.parametrize(
    ("margin", "confidence", "is_close"),
    [(0.01, 0.99, True), (0.1, 0.99, False), (0.1, 0.5, True), (0.6, 0.5, False)],
)
def test_readings_are_close_by_score_and_confidence(margin: float, confidence: float, is_close: bool) -> None:
    assert OutcomeLimits(0.02, 0.5, 0.6, 0.2).is_close(margin, confidence) is is_close


def test_choices_name_the_word_that_differs(shop: Shop) -> None:
    readings = shop.reader.read("Show the name of customers.", TODAY).readings[:1]
    assert make_choices(readings)[0].meanings == ()
    assert write_clarification(readings) == "Which of these do you mean?"
    assert str(AnswerChoice(2, "the total price", "SELECT 1", ("'price' = a.b",))) == "the total price ('price' = a.b)"


def test_an_answer_with_choices_is_marked() -> None:
    table = ResultTable((AnswerColumn("n"),), ((3,),))
    choices = [AnswerChoice(1, "the first", "SELECT 1"), AnswerChoice(2, "the second <b>", "SELECT 2")]
    answer = make_answer("q", table, "SELECT 1", "the first", choices=choices, clarification="Which?")
    assert answer.status is AnswerStatus.CLARIFY
    assert answer.sentence.startswith("Which? The likeliest answer: ")
    assert answer.full_text.endswith("1. the first\n2. the second <b>")
    assert "2. the second &lt;b&gt;" in answer._repr_html_()
    assert (answer.earlier.text, answer.earlier.sql) == ("q", "SELECT 1")


def test_a_refusal_has_no_rows_and_no_sql() -> None:
    unknown = "is not a column, table or value here"
    problems = [NotUnderstood("a", unknown), NotUnderstood("b", unknown), NotUnderstood("c", unknown, ("d",))]
    answer = make_refusal("q", problems)
    assert (answer.status, answer.table.rows, answer.specification) == (AnswerStatus.CANNOT, (), None)
    assert answer.sentence == (
        "I cannot answer this: 'a' and 'b' are not columns, tables or values here; "
        "'c' is not a column, table or value here; closest: d."
    )
    assert "<table" not in answer._repr_html_()
    assert answer.earlier.sql is None


@pytest.mark.parametrize(
    ("word", "correction"),
    [
        ("custmers", "customers"),
        ("ordres", "orders"),
        ("avrage", "average"),
        ("wich", "which"),
        ("numer", "number"),
        ("elephants", None),
        ("teh", None),
        ("42", None),
    ],
)
def test_words_are_corrected_if_one_letter_is_wrong(shop: Shop, word: str, correction: str | None) -> None:
    assert SpellingIndex(shop.schema).find_correction(word) == correction


def test_a_correction_is_an_assumption(shop: Shop) -> None:
    best = shop.reader.read("avrage age of custmers", TODAY).best
    assert best is not None
    assert best.restatement == "the average age of customers"
    assert best.assumptions[0] == "'avrage' is misspelled and means 'average'"


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], True),
        ([("a",), ("b",)], [(2, "b"), (1, "a")], True),
        ([("a",), ("a",)], [(2, "b"), (1, "a")], False),
        ([], [(1,)], False),
        ([], [], True),
    ],
)
def test_results_have_the_same_rows_if_one_shows_more_columns(first: Rows, second: Rows, same: bool) -> None:
    assert have_same_rows(first, second) is same
