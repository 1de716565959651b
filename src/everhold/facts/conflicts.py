"""Whether a statement replaces another, and whether two texts say the same.

Keeping two where one would do costs a line; merging two that differ loses a memory. So every doubt says "different".
"""

from collections.abc import Mapping
from typing import Literal

from everhold.facts.statement import Statement
from everhold.text.date_words import TRIGGERS, split_words
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.terms import extract_terms, fold, normalise

Relation = Literal["same", "replaces", "compatible"]

LEAST_LIKENESS = 0.92
"""The cosine below which two texts are never taken for the same."""

_OPPOSITES = {("likes", "dislikes"), ("dislikes", "likes")}
_CANCELS = {
    ("married_to", "relationship_status"): frozenset(("single", "divorced", "widowed")),
    ("partner", "relationship_status"): frozenset(("single",)),
    ("works_at", "job"): frozenset(("retired", "unemployed")),
}
"""An older attribute, a newer one, and the newer values under which the older no longer holds."""

ENDED_BY: Mapping[str, frozenset[str]] = {
    newer: frozenset(old for old, new in (*_OPPOSITES, *_CANCELS) if new == newer)
    for _, newer in (*_OPPOSITES, *_CANCELS)
}
"""Besides itself, the attributes that a newer statement of an attribute may end."""

ONE_TIME = frozenset(("event", "plan", "lived_in", "worked_at"))
"""Attributes that tell what is once and does not end by something else."""

_FILLERS = split_words("a an the of my our their his her named called inc corp ltd llc gmbh company co really")
_WORDS = lazy_pattern(r"[^\W_]+")
_ORDINAL = lazy_pattern(r"(\d+)(?:st|nd|rd|th)$")


def compare_statements(old: Statement, new: Statement) -> Relation:
    """What a newer statement is to an older one.

    "same": nothing new is said. "replaces": the older holds no more. "compatible": both may hold.
    """
    if old.subject != new.subject:
        return "compatible"
    if old.attribute != new.attribute:
        return "replaces" if _is_cancelled(old, new) else "compatible"
    alike = is_same_value(old.attribute, old.value, new.value)
    if old.attribute in ONE_TIME:
        return "same" if alike and old.negated == new.negated and _is_same_time(old, new) else "compatible"
    if alike and old.negated == new.negated:
        return "same"
    over = alike or (new.exclusive and not (old.negated or new.negated or new.occurred))
    return "replaces" if over and not _is_earlier(new, old) else "compatible"


def _is_cancelled(old: Statement, new: Statement) -> bool:
    if old.negated or new.negated:
        return False
    if (old.attribute, new.attribute) in _OPPOSITES:
        return is_same_value(old.attribute, old.value, new.value)
    return fold(new.value) in _CANCELS.get((old.attribute, new.attribute), ())


def _is_earlier(new: Statement, old: Statement) -> bool:
    """What was said later may be about what held before."""
    return new.valid_from is not None and old.valid_from is not None and new.valid_from < old.valid_from


def _is_same_time(old: Statement, new: Statement) -> bool:
    if old.occurred is None or new.occurred is None:
        return old.occurred is None and new.occurred is None
    return old.occurred.start < new.occurred.end and new.occurred.start < old.occurred.end


def is_same_value(attribute: str, first: str, second: str) -> bool:
    """Whether two values of an attribute mean the same."""
    one, other = _extract_value_words(first), _extract_value_words(second)
    if one == other:
        return True
    if attribute in ("phone", "email"):
        return "".join(one) == "".join(other)
    if attribute == "birthday":
        return set(one) <= set(other) or set(other) <= set(one)
    shorter, longer = sorted((one, other), key=len)
    if attribute == "name":
        return bool(shorter) and longer[: len(shorter)] == shorter
    # "Bangkok, Thailand" tells more of "Bangkok"; "Bangkok Bank" does not.
    return (
        _extract_value_words(first.partition(",")[0]) == other or _extract_value_words(second.partition(",")[0]) == one
    )


def _extract_value_words(value: str) -> list[str]:
    words = (word for word in _WORDS.findall(fold(value)) if word not in _FILLERS)
    return [term for word in words for term in extract_terms(_ORDINAL.sub(r"\1", word)) or [word]]


_SOFT = frozenset(
    extract_terms("really truly also always actually definitely totally absolutely quite please lot much")
)
_ALIKE = {
    extract_terms(one)[0]: extract_terms(other)[0]
    for one, other in (
        ("film", "movie"),
        ("favorite", "favourite"),
        ("color", "colour"),
        ("mum", "mom"),
        ("television", "tv"),
        ("bike", "bicycle"),
        ("kids", "children"),
        ("isn", "isnt"),
    )
}
_PERSONS = {
    word: person
    for person, words in {
        "speaker": "i me my mine myself im ive",
        "speakers": "we us our ours ourselves",
        "other": "you your yours yourself",
        "he": "he him his himself",
        "she": "she her hers herself",
        "they": "they them their theirs themselves",
    }.items()
    for word in words.split()
}
_TELLING = split_words(
    """
    before after more less most least up down off out over under above below without against until since only
    few both all any each some many every no not never cannot none nobody nothing nor hardly rarely was were
    had did will would could might may should must can used been longer anymore stopped quit if or because
    """
)
"""Small words that change what is said."""

_SPOKEN_NUMBERS = split_words("one two three four five six seven eight nine ten eleven twelve half double twice once")
_NUMBER = lazy_pattern(r"[-+$€£฿]?\d[\d.,:/]*%?")
_NAMES = lazy_pattern(r"(?<=[^.!?\s] )[A-Z][\w-]*")
_SHORT = (("n't", " not"), ("cannot", "can not"), ("'m", " am"), ("'ve", " have"), ("'ll", " will"), ("'re", " are"))


def is_near_duplicate(first: str, second: str, likeness: float) -> bool:
    """Whether two texts say the same in nearly the same words; `likeness` is the cosine of their vectors.

    The words that carry meaning must be the same, in the same order but for times; numbers, names, persons, tenses,
    and words such as "not" and "before" must agree.
    """
    if normalise(first) == normalise(second):
        return _find_names(first) == _find_names(second)
    if likeness < LEAST_LIKENESS or ("?" in first) != ("?" in second):
        return False
    one, other = _expand_short_forms(first), _expand_short_forms(second)
    return (
        _find_numbers(one) == _find_numbers(other)
        and _split_content(one) == _split_content(other)
        and _split_small_words(one) == _split_small_words(other)
        and _find_names(first) == _find_names(second)
    )


def _expand_short_forms(text: str) -> str:
    plain = text.replace("’", "'")
    for short, whole in _SHORT:
        plain = plain.replace(short, whole)
    return plain


def _find_numbers(text: str) -> list[str]:
    return [number.rstrip(".,:/") for number in _NUMBER.findall(text)]


def _find_names(text: str) -> set[str]:
    """Words with a capital where the sentence does not ask for one."""
    return {name for name in _NAMES.findall(text) if name not in ("I", "Im")}


def _split_content(text: str) -> tuple[list[str], list[str]]:
    """The terms in order, and apart from them those that tell times, which may stand anywhere."""
    ordered: list[str] = []
    times: list[str] = []
    for word in _WORDS.findall(fold(text)):
        for term in extract_terms(word):
            if term not in _SOFT:
                (times if word in TRIGGERS else ordered).append(_ALIKE.get(term, term))
    return (ordered, sorted(times)) if ordered or times else ([normalise(text)], [])


def _split_small_words(text: str) -> tuple[list[str], set[str], list[str]]:
    words = _WORDS.findall(fold(text))
    telling = sorted(word for word in words if word in _TELLING or word in _SPOKEN_NUMBERS)
    persons = {_PERSONS[word] for word in words if word in _PERSONS}
    past = [extract_terms(word)[0] for word in words if len(word) > 4 and word.endswith("ed") and extract_terms(word)]
    return telling, persons, past
