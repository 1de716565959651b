"""Comparing two results, the difficulty of a query, and the figures of an evaluation."""

import pytest

from everhold.ask.confidence import Features
from everhold.ask.results import Rows, are_equal
from everhold.evaluation.sql import SqlOutcome, SqlQuestion, find_coverage, summarise, trace_curve
from everhold.evaluation.sql_fitting import fit_weights, leave_databases_out
from everhold.evaluation.sql_levels import find_level, is_single_table, is_sorted


@pytest.mark.parametrize(
    ("expected", "actual", "is_ordered", "equal"),
    [
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], False, True),
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], True, False),
        ([(1, "a"), (2, "b")], [("a", 1), ("b", 2)], True, True),
        ([(1, 2), (2, 1)], [(1, 1), (2, 2)], False, False),
        ([(1,), (1,)], [(1,), (2,)], False, False),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)], False, False),
        ([(1,)], [(1.0000000001,)], False, True),
        ([(1,)], [("1",)], False, False),
        ([(None,)], [("None",)], False, False),
        ([(1,)], [(1, 1)], False, False),
        ([], [], True, True),
        ([], [(1,)], False, False),
    ],
)
def test_results_are_compared_as_bags_unless_they_are_ordered(
    expected: Rows, actual: Rows, is_ordered: bool, equal: bool
) -> None:
    assert are_equal(expected, actual, is_ordered) is equal


@pytest.mark.parametrize(
    ("sql", "level", "is_single"),
    [
        ("SELECT count(*) FROM a", "easy", True),
        ("SELECT x FROM a WHERE y = 1", "easy", True),
        ("SELECT x FROM a WHERE y = 1 ORDER BY x", "medium", True),
        ("SELECT a.x FROM a JOIN b ON a.i = b.i GROUP BY a.x ORDER BY count(*)", "hard", False),
        ("SELECT x FROM a WHERE y > (SELECT avg(y) FROM a)", "medium", False),
        ("SELECT x FROM a EXCEPT SELECT a.x FROM a JOIN b ON a.i = b.i WHERE b.y = 1 AND b.z = 2", "extra", False),
    ],
)
def test_queries_have_levels_of_difficulty(sql: str, level: str, is_single: bool) -> None:
    assert (find_level(sql), is_single_table(sql)) == (level, is_single)


def test_only_the_order_of_the_outer_query_matters() -> None:
    assert is_sorted("SELECT x FROM a ORDER BY x")
    assert not is_sorted("SELECT x FROM a WHERE y = (SELECT y FROM a ORDER BY y LIMIT 1)")


def make_outcome(confidence: float, right: bool, database: str = "a", clean: float = 0.0) -> SqlOutcome:
    features = Features(*[0.0] * len(Features._fields))._replace(clean=clean)
    return SqlOutcome(SqlQuestion(database, "q", "SELECT 1 FROM t"), "SELECT 1", confidence, features, right, right)


def test_coverage_is_the_largest_share_with_the_required_precision() -> None:
    outcomes = [make_outcome(0.9, True), make_outcome(0.8, True), make_outcome(0.7, False), make_outcome(0.6, True)]
    curve = trace_curve(outcomes)
    assert [point["precision"] for point in curve] == [1.0, 1.0, 0.6667, 0.75]
    assert find_coverage(curve, 0.9) == 0.5
    assert summarise(outcomes)["test_suite"] == 0.75


def test_outcomes_of_equal_confidence_are_one_point_of_the_curve() -> None:
    outcomes = [make_outcome(0.9, True), make_outcome(0.9, False)]
    assert [point["coverage"] for point in trace_curve(outcomes)] == [1.0]
    assert find_coverage(trace_curve(outcomes), 0.9) == 0.0


def test_a_feature_of_right_answers_gets_a_high_weight() -> None:
    outcomes = [make_outcome(0.5, bool(number % 2), f"db{number % 3}", float(number % 2)) for number in range(60)]
    assert fit_weights(outcomes)["clean"] > 1
    cross_validated = leave_databases_out(outcomes)
    right = [outcome.confidence for outcome in cross_validated if outcome.test_suite]
    wrong = [outcome.confidence for outcome in cross_validated if not outcome.test_suite]
    assert min(right) > max(wrong)
