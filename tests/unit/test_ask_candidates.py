"""Readings of several sources are ranked together."""

from dataclasses import replace

from everhold.ask.candidates import rank_together
from everhold.ask.connections.dialects import list_translations
from everhold.ask.outcome import is_rival
from everhold.ask.reading import QuestionReading, ReadingOrigin

FIRST = QuestionReading(None, "SELECT 1", "the first", 0.5, score=3.0)
SECOND = QuestionReading(None, "SELECT 2", "the second", 0.6, score=2.0)
PATTERN = QuestionReading(None, "SELECT 3", "learned", 0.7, origin=ReadingOrigin.PATTERN, pattern_id="qpt-1")


def test_a_proposal_is_placed_by_its_confidence() -> None:
    assert rank_together([FIRST, SECOND], [PATTERN]) == (PATTERN, FIRST, SECOND)
    unsure = replace(PATTERN, confidence=0.3)
    assert rank_together([FIRST, SECOND], [unsure]) == (FIRST, SECOND, unsure)


def test_readings_by_the_rules_keep_their_order() -> None:
    between = replace(PATTERN, confidence=0.55)
    assert rank_together([FIRST, SECOND], [between]) == (between, FIRST, SECOND)


def test_sources_with_the_same_sql_confirm_each_other() -> None:
    reading, other = rank_together([FIRST, SECOND], [replace(PATTERN, sql=SECOND.sql)])
    assert (reading.confidence, reading.pattern_id, reading.restatement) == (0.88, "qpt-1", SECOND.restatement)
    assert (reading.origin, other) == (ReadingOrigin.PATTERN, FIRST)
    assert not is_rival(reading, other)


def test_the_same_source_does_not_confirm_itself() -> None:
    assert rank_together([], [PATTERN, replace(PATTERN, confidence=0.4)]) == (PATTERN,)


def test_readings_of_different_sources_are_compared_by_confidence() -> None:
    assert is_rival(PATTERN, replace(FIRST, confidence=0.65))
    assert not is_rival(PATTERN, replace(FIRST, confidence=0.55))


def test_proposals_are_translated_to_the_dialect_of_the_tables() -> None:
    proposed = replace(PATTERN, sql='SELECT "name" FROM "orders"')
    assert [reading.sql for reading in list_translations(proposed, "mysql")] == [
        'SELECT "name" FROM "orders"',
        "SELECT `name` FROM `orders`",
    ]
    assert [reading.sql for reading in list_translations(proposed, "duckdb")] == [proposed.sql]
    assert len(list(list_translations(replace(PATTERN, sql="SELECT (("), "mysql"))) == 1
