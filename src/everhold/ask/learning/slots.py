"""Find the slots of a question: values, numbers and periods that may differ in a similar question."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import islice, product

from everhold.ask.frame import Literal
from everhold.ask.language.periods import TimeInterval
from everhold.ask.language.tokens import Token, fold_text, split_words
from everhold.ask.linking.mention import NUMBER, PERIOD, VALUE, Mention
from everhold.ask.reading import QuestionReader
from everhold.ask.schema import ColumnRef

_YEARS = range(1800, 2200)
_MIN_SCORE = 0.5  # the minimum score of a mention of a value
_MAX_MASKS = 6  # the maximum number of ways to mask a question whose values are in several domains
_NUMBER_LABEL, _PERIOD_LABEL, _TEXT_LABEL = "number", "period", "text"


class SlotForm(StrEnum):
    """The form in which a statement writes the value of a slot."""

    VALUE = "value"
    LOWER = "lower"
    UPPER = "upper"
    NUMBER = "number"
    START = "start"
    END = "end"
    LAST = "last day"
    YEAR = "year"


@dataclass(frozen=True)
class QuestionSlot:
    """Words of a question that name a value, a number or a period.

    `stored` maps each column that has the value to the value as it is stored there. `labels` are the domains that the
    value may belong to.
    """

    start: int
    end: int
    text: str
    labels: tuple[str, ...]
    stored: Mapping[ColumnRef, str] = field(default_factory=dict, hash=False)
    number: int | float | None = None
    period: TimeInterval | None = None

    def write(self, form: SlotForm, column: ColumnRef | None = None) -> Literal | None:
        """Return the literal for the slot in a form; None if the slot has none, or if the column does not have the
        value."""
        if form in (SlotForm.VALUE, SlotForm.LOWER, SlotForm.UPPER):
            text = self._find_stored(column)
            if text is None or form is SlotForm.VALUE:
                return text
            return text.lower() if form is SlotForm.LOWER else text.upper()
        if form is SlotForm.NUMBER:
            return self.number
        interval = self._find_interval()
        if interval is None:
            return None
        return _write_date(interval, form)

    def _find_stored(self, column: ColumnRef | None) -> str | None:
        if column is not None and column in self.stored:
            return self.stored[column]
        if column is not None or self.number is not None or self.period is not None:
            return None
        return next(iter(self.stored.values()), self.text)

    def _find_interval(self) -> TimeInterval | None:
        if self.period is not None:
            return self.period
        if not isinstance(self.number, int) or self.number not in _YEARS:
            return None
        return TimeInterval(date(self.number, 1, 1), date(self.number + 1, 1, 1))


def _write_date(interval: TimeInterval, form: SlotForm) -> Literal | None:
    if form is SlotForm.START:
        return interval.start.isoformat()
    if form is SlotForm.END:
        return interval.end.isoformat()
    if form is SlotForm.LAST:
        return (interval.end - timedelta(days=1)).isoformat()
    is_year = interval == TimeInterval(date(interval.start.year, 1, 1), date(interval.start.year + 1, 1, 1))
    return str(interval.start.year) if is_year else None


@dataclass(frozen=True)
class MaskedQuestion:
    """A question in which each slot is replaced by a label. `labels` has a label for each of `slots`."""

    text: str
    slots: tuple[QuestionSlot, ...]
    labels: tuple[str, ...]

    @property
    def signature(self) -> tuple[str, ...]:
        """The sorted labels. Similar questions have the same signature."""
        return tuple(sorted(self.labels))

    @cached_property
    def words(self) -> str:
        """The folded question with its values. Two questions with the same words are the same question."""
        slots = iter(self.slots)
        return fold_text(" ".join(next(slots).text if word.startswith("<") else word for word in self.text.split()))


def mask_question(tokens: Sequence[Token], slots: Sequence[QuestionSlot], labels: Sequence[str]) -> MaskedQuestion:
    """Return a question with labels in the places of its slots."""
    slots_by_start = {slot.start: (slot, label) for slot, label in zip(slots, labels, strict=True)}
    words, position = [], 0
    while position < len(tokens):
        if position in slots_by_start:
            slot, label = slots_by_start[position]
            words.append(f"<{label}>")
            position = slot.end
            continue
        if tokens[position].kind != "mark":
            words.append(tokens[position].lower)
        position += 1
    return MaskedQuestion(" ".join(words), tuple(slots), tuple(labels))


def list_masks(tokens: Sequence[Token], slots: Sequence[QuestionSlot]) -> Iterator[MaskedQuestion]:
    """Yield ways to mask a question. A value of several domains, such as "Washington", has several labels."""
    for labels in islice(product(*(slot.labels for slot in slots)), _MAX_MASKS):
        yield mask_question(tokens, slots, labels)


def find_slots(reader: QuestionReader, tokens: Sequence[Token], today: date) -> tuple[QuestionSlot, ...]:
    """Return the slots of a question, in their order. If spans overlap, the longest is used."""
    ranks = {VALUE: 0, PERIOD: 1, NUMBER: 2}  # of two spans with the same length, the lower rank is used
    mentions = [
        mention
        for mention in reader.find_mentions(tokens, today)
        if mention.kind in ranks and (mention.kind != VALUE or mention.score >= _MIN_SCORE)
    ]
    mentions.sort(key=lambda mention: (mention.start - mention.end, ranks[mention.kind], mention.start))
    taken: set[int] = set()
    slots = []
    for mention in mentions:
        span = range(mention.start, mention.end)
        if taken.isdisjoint(span):
            taken.update(span)
            slots.append(_make_slot(reader, tokens, mention))
    return tuple(sorted(slots, key=lambda slot: slot.start))


def _make_slot(reader: QuestionReader, tokens: Sequence[Token], mention: Mention) -> QuestionSlot:
    text = " ".join(token.text for token in tokens[mention.start : mention.end])
    if mention.kind == NUMBER:
        number = mention.value if isinstance(mention.value, int | float) else None
        return QuestionSlot(mention.start, mention.end, text, (_NUMBER_LABEL,), number=number)
    if mention.kind == PERIOD:
        return QuestionSlot(mention.start, mention.end, text, (_PERIOD_LABEL,), period=mention.period)
    stored: dict[ColumnRef, str] = {}
    for match in reader.values.find_exact(split_words(text)):
        stored.setdefault(match.value.ref, str(match.value.raw))
    if not stored and mention.column is not None:
        stored[mention.column] = str(mention.value)
    labels = tuple(dict.fromkeys(reader.domains.find(ref) for ref in stored)) or (_TEXT_LABEL,)
    return QuestionSlot(mention.start, mention.end, text, labels, stored)
