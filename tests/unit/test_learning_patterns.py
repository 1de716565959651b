"""Query patterns: a slot takes only values of its type from the new question, and old values are never reused."""

from datetime import date

import pytest

from everhold.ask.learning.concepts import compare_concepts, find_concepts
from everhold.ask.learning.memory import PatternMemory
from everhold.ask.learning.patterns import LearnedPattern, QuestionContext, make_pattern
from everhold.errors import InvalidInput
from tests.unit.ask_shop import TODAY, make_shop, open_shop

COUNT_CUSTOMERS = "SELECT count(*) FROM customers WHERE country = 'France'"


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> QuestionContext:
    return QuestionContext(open_shop(make_shop(tmp_path_factory.mktemp("shop") / "shop.sqlite")), TODAY)


def learn(context: QuestionContext, question: str, sql: str) -> LearnedPattern:
    return make_pattern(context, f"qpt-{abs(hash(question))}", question, sql, "sqlite")


def propose(context: QuestionContext, pattern: LearnedPattern, question: str) -> str | None:
    matches = PatternMemory([pattern]).propose(context, question)
    return matches[0].sql if matches else None


def test_a_value_is_replaced_by_that_of_the_question(context: QuestionContext) -> None:
    pattern = learn(context, "how many customers live in France", COUNT_CUSTOMERS)
    assert pattern.masked.text == "how many customers live in <country>"
    proposal = propose(context, pattern, "how many customers live in Japan")
    assert proposal == "SELECT COUNT(*) FROM customers WHERE country = 'Japan'"


def test_a_value_of_another_kind_does_not_fit(context: QuestionContext) -> None:
    pattern = learn(context, "how many customers live in France", COUNT_CUSTOMERS)
    assert propose(context, pattern, "how many customers live in Paris") is None


@pytest.mark.parametrize("question", ["how many customers live", "how many customers live in France or Japan"])
def test_another_number_of_slots_does_not_fit(context: QuestionContext, question: str) -> None:
    assert propose(context, learn(context, "how many customers live in France", COUNT_CUSTOMERS), question) is None


def test_numbers_and_limits_are_slots(context: QuestionContext) -> None:
    sql = "SELECT title FROM products WHERE price > 20 ORDER BY price DESC LIMIT 3"
    pattern = learn(context, "the 3 dearest products above 20", sql)
    proposal = propose(context, pattern, "the 5 dearest products above 100")
    assert proposal == "SELECT title FROM products WHERE price > 100 ORDER BY price DESC LIMIT 5"


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("orders placed in February 2024", "2024-02-01", "2024-03-01"),
        ("orders placed last month", "2024-02-01", "2024-03-01"),
    ],
)
def test_a_period_is_replaced_by_that_of_the_question(
    context: QuestionContext, question: str, start: str, end: str
) -> None:
    sql = "SELECT order_id FROM orders WHERE order_date >= '2024-01-01' AND order_date < '2024-02-01'"
    pattern = learn(context, "orders placed in January 2024", sql)
    proposal = propose(context, pattern, question)
    assert proposal is not None
    assert (start in proposal, end in proposal, "2024-01-01" in proposal) == (True, True, False)


def test_a_relative_period_does_not_keep_the_days_on_which_it_was_learned(context: QuestionContext) -> None:
    sql = "SELECT order_id FROM orders WHERE order_date >= '2024-02-01' AND order_date < '2024-03-01'"
    pattern = learn(context, "orders placed last month", sql)
    later = QuestionContext(context.reader, date(2024, 6, 1))
    proposal = propose(later, pattern, "orders placed last month")
    assert proposal is not None
    assert "2024-05-01" in proposal
    assert "2024-02-01" not in proposal


def test_a_value_that_the_statement_ignores_must_be_the_same(context: QuestionContext) -> None:
    pattern = learn(context, "how many customers in France", "SELECT count(*) FROM customers")
    assert propose(context, pattern, "how many customers in Japan") is None
    assert propose(context, pattern, "how many customers in France") == "SELECT COUNT(*) FROM customers"


def test_a_constant_is_used_only_with_the_words_that_may_mean_it(context: QuestionContext) -> None:
    sql = "SELECT count(*) FROM orders WHERE amount > 50 AND status = 'paid'"
    pattern = learn(context, "how many big paid orders", sql)
    assert pattern.template.constants == ("50",)
    proposal = propose(context, pattern, "how many big cancelled orders")
    assert proposal == "SELECT COUNT(*) FROM orders WHERE amount > 50 AND status = 'cancelled'"
    assert propose(context, pattern, "how many cancelled orders") is None


def test_quotes_in_values_are_escaped(context: QuestionContext) -> None:
    pattern = learn(context, "customers called 'Ann'", "SELECT city FROM customers WHERE name LIKE '%Ann%'")
    proposal = propose(context, pattern, """customers called "O'Neil" """)
    assert proposal == "SELECT city FROM customers WHERE name LIKE '%O''Neil%'"


def test_a_reserved_character_is_refused(context: QuestionContext) -> None:
    with pytest.raises(InvalidInput, match="reserved"):
        learn(context, "customers", "SELECT '\ue0000\ue000' FROM customers")


def test_similar_questions_that_ask_for_something_else_count_less(context: QuestionContext) -> None:
    def compare(first: str, second: str) -> float:
        names = context.reader.is_name
        return compare_concepts(find_concepts(first, names), find_concepts(second, names), names)

    assert compare("the highest price", "the largest price") == 1.0
    assert compare("the highest price", "the lowest price") < 0.5
    assert compare("price of the customer with the lowest amount", "amount of the customer with the lowest price") < 1.0
    assert compare("show the products in stock", "list products in stock") == 1.0


def test_several_patterns_outweigh_one(context: QuestionContext) -> None:
    right_sql, wrong_sql = (
        "SELECT name FROM customers WHERE country = 'France'",
        "SELECT city FROM customers WHERE 1 = 1",
    )
    wrong_patterns = [learn(context, "customers living in France", wrong_sql + " AND country = 'France'")]
    right_patterns = [
        learn(context, f"customers living {word} in France", right_sql) for word in ("today", "now", "here", "there")
    ]
    [match] = PatternMemory(wrong_patterns).propose(context, "customers living in Germany")
    best = PatternMemory([*wrong_patterns, *right_patterns]).propose(context, "customers living in Germany")[0]
    assert (match.sql, match.similarity) == (wrong_sql + " AND country = 'Germany'", 1.0)
    assert best.similarity < match.similarity


def test_a_pattern_that_lost_counts_less(context: QuestionContext) -> None:
    pattern = learn(context, "how many customers live in France", COUNT_CUSTOMERS)
    losing_pattern = LearnedPattern(**{**vars(pattern), "losses": 2})
    assert losing_pattern.trust == 0.5
    [match], [weaker] = (
        PatternMemory([item]).propose(context, "how many customers live in Japan") for item in (pattern, losing_pattern)
    )
    assert weaker.confidence < match.confidence


def test_memory_is_searched_the_same_before_and_after_it_is_indexed(context: QuestionContext) -> None:
    names = ["customers", "products", "orders", "order_items"]
    questions = [f"rows of {name} number {count}" for name in names for count in range(10)]
    memory = PatternMemory(())
    for question in questions:
        memory = memory.put(learn(context, question, "SELECT 1 FROM customers"))
    assert len(memory.patterns) == len(questions)
    learned = learn(context, "how many customers live in France", COUNT_CUSTOMERS)
    matches = memory.put(learned).propose(context, "how many customers live in Japan")
    assert matches[0].pattern.id == learned.id
