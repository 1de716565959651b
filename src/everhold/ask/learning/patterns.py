"""Learned query patterns: a confirmed question with slots, and the template of its statement."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

from everhold.ask.language.tokens import fold_text, tokenize
from everhold.ask.learning.concepts import Concepts, find_concepts, list_words
from everhold.ask.learning.slots import MaskedQuestion, QuestionSlot, find_slots, list_masks, mask_question
from everhold.ask.learning.templates import SqlTemplate, make_template
from everhold.ask.reading import QuestionReader


@dataclass(frozen=True)
class QuestionContext:
    """The reader of a scope's tables, and the day that periods are counted from. Both are needed to mask a question."""

    reader: QuestionReader
    today: date

    def find_slots(self, question: str) -> tuple[QuestionSlot, ...]:
        return find_slots(self.reader, tokenize(question), self.today)

    def find_concepts(self, masked: MaskedQuestion) -> Concepts:
        return find_concepts(masked.text, self.reader.is_name)

    def mask(self, question: str) -> list[MaskedQuestion]:
        """Return all ways to mask a question."""
        return list(list_masks(tokenize(question), self.find_slots(question)))


@dataclass(frozen=True)
class LearnedPattern:
    """A confirmed question and the template of its statement. `wins` and `losses` count verdicts on its answers.

    A pattern that is not active is proposed only for exactly its own question. A pattern that is not current, because
    its tables have changed, is not proposed at all. With `is_of_project`, it was learned for the whole project while
    the scope has a user: verdicts of the user do not change it.
    """

    id: str
    question: str
    masked: MaskedQuestion
    concepts: Concepts
    template: SqlTemplate
    wins: int = 1
    losses: int = 0
    is_active: bool = True
    is_current: bool = True
    is_of_project: bool = False

    @property
    def trust(self) -> float:
        """The mean of a Beta distribution that begins with one win: how often the pattern was right."""
        return (self.wins + 1) / (self.wins + self.losses + 1)

    @cached_property
    def used_slots(self) -> frozenset[int]:
        """The slots of the question that fill a literal of the statement."""
        return frozenset(use.slot for use in self.template.uses)

    def fill(self, masked: MaskedQuestion, concepts: Concepts) -> str | None:
        """Return the statement for another question, None if the pattern does not apply to it.

        The slots must be of the same kinds, and every value must be stored in its column. A slot that the statement
        does not use must have the same value as in the pattern's question, because it would be ignored. If the
        statement has constants, the question must have all words of the pattern's question, because they may mean the
        constants.
        """
        if self.template.constants and not list_words(self.concepts) <= list_words(concepts):
            return None
        slots = self._align(masked)
        return None if slots is None else self.template.fill(slots)

    def relabel(self, masked: MaskedQuestion) -> MaskedQuestion | None:
        """Return a question with the labels of the pattern's question; None if it is a different question.

        If values belong to several domains, only some of the possible masks are tried, and the pattern's may not be
        among them.
        """
        if masked.words != self.masked.words or len(masked.slots) != len(self.masked.slots):
            return None
        return replace(masked, text=self.masked.text, labels=self.masked.labels)

    def restate(self, masked: MaskedQuestion) -> str:
        """Return the pattern's question with the values of another question."""
        slots = iter(self._align(masked) or masked.slots)
        words = (next(slots).text if word.startswith("<") else word for word in self.masked.text.split())
        return " ".join(words)

    def _align(self, masked: MaskedQuestion) -> list[QuestionSlot] | None:
        """Return the slots of a question in the order of the pattern's slots; None if they do not correspond.

        Slots correspond by their kind, and within one kind by their position.
        """
        if masked.signature != self.masked.signature:
            return None
        slots_by_label: dict[str, list[QuestionSlot]] = defaultdict(list)
        for slot, label in zip(masked.slots, masked.labels, strict=True):
            slots_by_label[label].append(slot)
        aligned = []
        for number, (own_slot, label) in enumerate(zip(self.masked.slots, self.masked.labels, strict=True)):
            slot = slots_by_label[label].pop(0)
            if number not in self.used_slots and fold_text(slot.text) != fold_text(own_slot.text):
                return None
            aligned.append(slot)
        return aligned


def make_pattern(
    context: QuestionContext, pattern_id: str, question: str, sql: str, dialect: str, wins: int = 1, losses: int = 0,
    *, is_active: bool = True,
) -> LearnedPattern:  # fmt: skip
    """Return the pattern of a question and its statement, which must have passed the guard."""
    slots = context.find_slots(question)
    template = make_template(sql, dialect, context.reader.schema, slots)
    labels = [_choose_label(context, template, number, slot) for number, slot in enumerate(slots)]
    masked = mask_question(tokenize(question), slots, labels)
    concepts = context.find_concepts(masked)
    return LearnedPattern(pattern_id, question, masked, concepts, template, wins, losses, is_active)


def _choose_label(context: QuestionContext, template: SqlTemplate, number: int, slot: QuestionSlot) -> str:
    """Return the domain of a slot: if possible, the domain of the column that the statement compares it with."""
    columns = [use.column for use in template.uses if use.slot == number and use.column is not None]
    labels = [label for column in columns if (label := context.reader.domains.find(column)) in slot.labels]
    return (labels or slot.labels)[0]


def has_same_shape(first: LearnedPattern, second: LearnedPattern) -> bool:
    """Return whether two patterns differ only in the values of their slots."""
    return first.masked.text == second.masked.text and first.template.key == second.template.key


def list_overridden(patterns: Sequence[LearnedPattern]) -> list[LearnedPattern]:
    """Return the patterns of the project that the scope's user does not use, because the user taught another
    statement for the same masked question."""
    of_user = [pattern for pattern in patterns if not pattern.is_of_project and pattern.is_active]
    conflicting = {other.id for pattern in of_user for other in list_conflicting(pattern, patterns)}
    return [pattern for pattern in patterns if pattern.is_of_project and pattern.id in conflicting]


def list_conflicting(pattern: LearnedPattern, others: Sequence[LearnedPattern]) -> list[LearnedPattern]:
    """Return the patterns that answer the same masked question with another statement."""
    return [
        other
        for other in others
        if other.masked.text == pattern.masked.text and other.template.key != pattern.template.key
    ]
