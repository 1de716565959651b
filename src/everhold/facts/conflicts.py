"""Decide whether a statement replaces another, and whether two texts are near-duplicates.

If in doubt, texts count as different: keeping a duplicate only costs a row, but merging two different memories loses
one of them.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from everhold.text.date_words import is_trigger, split_words
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.terms import extract_terms, fold, normalise

if TYPE_CHECKING:
    from everhold.facts.statement import Statement

Relation = Literal["same", "replaces", "compatible"]

# Texts whose vectors have a lower cosine are not near-duplicates, unless they are equal after normalisation.
MIN_SIMILARITY = 0.92

_OPPOSITES = {("likes", "dislikes"), ("dislikes", "likes")}
_MEAT = frozenset(("meat", "red meat", "beef", "pork", "chicken"))
_MEATLESS_DIETS = frozenset(("vegan", "vegetarian", "pescatarian", "pescetarian"))
# Maps an older and a newer attribute to the values of the newer attribute that end the older statement.
_CANCELS = {
    ("diet", "eats"): _MEAT,
    ("married_to", "relationship_status"): frozenset(("single", "divorced", "widowed")),
    ("partner", "relationship_status"): frozenset(("single",)),
    ("works_at", "job"): frozenset(("retired", "unemployed")),
}

# Maps an attribute to the other attributes that a newer statement of it may end.
ENDED_BY: Mapping[str, frozenset[str]] = {
    newer: frozenset(old for old, new in (*_OPPOSITES, *_CANCELS) if new == newer)
    for _, newer in (*_OPPOSITES, *_CANCELS)
}

# The attributes of single events and past periods. No later statement ends these.
ONE_TIME = frozenset(("event", "plan", "lived_in", "worked_at"))

_FILLERS = split_words("a an the of my our their his her named called inc corp ltd llc gmbh company co really")
_WORDS = lazy_pattern(r"[^\W_]+")
_ORDINAL = lazy_pattern(r"(\d+)(?:st|nd|rd|th)$")


def compare_statements(old: "Statement", new: "Statement") -> Relation:
    """Return how a newer statement relates to an older one.

    "same": the newer one adds nothing. "replaces": the older one is no longer true. "compatible": both may be true.
    """
    if old.subject != new.subject or _are_namesakes(old, new):
        return "compatible"
    if old.attribute != new.attribute:
        return "replaces" if _is_cancelled(old, new) else "compatible"
    has_same_value = is_same_value(old.attribute, old.value, new.value) or _is_lost(old, new)
    if old.attribute in ONE_TIME:
        return "same" if has_same_value and old.negated == new.negated and _is_same_time(old, new) else "compatible"
    if has_same_value and old.negated == new.negated:
        return "same"
    # A negation ends only the statement with the negated value: after "I don't live in Oslo", "I live in Bergen" may
    # still be true. A statement about a single time does not end a statement that is true in general.
    # Of two statements that name a region as home, the newer one replaces the older one.
    adds = new.adds and not (old.adds and old.attribute == "lives_in")
    is_rival = new.exclusive and not (adds or old.negated or new.negated or new.occurred)
    ends_old = has_same_value or (is_rival and _is_dwelling(old) == _is_dwelling(new))
    return "replaces" if ends_old and not _is_earlier(new, old) else "compatible"


def _is_lost(old: "Statement", new: "Statement") -> bool:
    """Return whether the newer statement says that a named thing is gone, and the older one names it more fully."""
    if new.attribute not in ("owns_pet", "car") or not new.negated or not new.value[:1].isupper():
        return False
    return set(_extract_value_words(new.value)) <= set(_extract_value_words(old.value))


def _are_namesakes(old: "Statement", new: "Statement") -> bool:
    """Return whether statements with the same subject, such as "alice's sister", name different people."""
    names = _find_name(old), _find_name(new)
    return all(names) and names[0] != names[1]


def _find_name(statement: "Statement") -> str:
    """Return the folded first name after a relation, such as "tess" in "Alice's sister Tess lives in Rome.", or ""."""
    relation = statement.subject.partition("'s ")[2]
    name = re.match(rf".*?'s {re.escape(relation)} ([A-Z][\w-]+)", statement.text) if relation else None
    return fold(name[1]) if name else ""


def _is_dwelling(statement: "Statement") -> bool:
    """Return whether a home is named only by its kind: "a flat" does not contradict a city."""
    value = statement.value
    return statement.attribute == "lives_in" and value.islower() and value.startswith(("a ", "an "))


def _is_cancelled(old: "Statement", new: "Statement") -> bool:
    if old.negated or new.negated:
        return False
    if (old.attribute, new.attribute) in _OPPOSITES:
        return is_same_value(old.attribute, old.value, new.value)
    if old.attribute == "diet" and fold(old.value) not in _MEATLESS_DIETS:
        return False
    return fold(new.value) in _CANCELS.get((old.attribute, new.attribute), ())


def _is_earlier(new: "Statement", old: "Statement") -> bool:
    """Return whether a newer statement is about an earlier time than the older one."""
    return new.valid_from is not None and old.valid_from is not None and new.valid_from < old.valid_from


def _is_same_time(old: "Statement", new: "Statement") -> bool:
    if old.occurred is None or new.occurred is None:
        return old.occurred is None and new.occurred is None
    return old.occurred.start < new.occurred.end and new.occurred.start < old.occurred.end


def is_same_value(attribute: str, first: str, second: str) -> bool:
    """Return whether two values of an attribute mean the same."""
    first_words, second_words = _extract_value_words(first), _extract_value_words(second)
    if first_words == second_words:
        return True
    if attribute in ("phone", "email"):  # people write them with different spaces and punctuation
        return "".join(first_words) == "".join(second_words)
    if attribute == "birthday":  # "3 May" and "3 May 1990" are the same day
        return set(first_words) <= set(second_words) or set(second_words) <= set(first_words)
    shorter, longer = sorted((first_words, second_words), key=len)
    # "Anna" and "Anna Berg" are the same person, and "Philips Lighting" may be a more exact name for "Philips".
    if attribute in ("name", "works_at"):
        return bool(shorter) and longer[: len(shorter)] == shorter
    # "Bangkok, Thailand" is the same place as "Bangkok"; "Bangkok Bank" is not.
    return (
        _extract_value_words(first.partition(",")[0]) == second_words
        or _extract_value_words(second.partition(",")[0]) == first_words
    )


def _extract_value_words(value: str) -> list[str]:
    words = (word for word in _WORDS.findall(fold(value)) if word not in _FILLERS)
    return [term for word in words for term in extract_terms(_ORDINAL.sub(r"\1", word)) or [word]]


_IGNORED_TERMS = frozenset(
    extract_terms("really truly also always actually definitely totally absolutely quite please lot much")
)
_SYNONYMS = {
    extract_terms(word)[0]: extract_terms(synonym)[0]
    for word, synonym in (
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
# Words that change the meaning of a sentence. They are compared separately, because most are stop words, not terms.
_MEANING_CHANGERS = split_words(
    """
    before after more less most least up down off out over under above below without against until since only
    few both all any each some many every no not never cannot none nobody nothing nor hardly rarely was were
    had did will would could might may should must can used been longer anymore stopped quit if or because
    """
)

_SPOKEN_NUMBERS = split_words("one two three four five six seven eight nine ten eleven twelve half double twice once")
_NUMBER = lazy_pattern(r"[-+$€£฿]?\d[\d.,:/]*%?")
_NAMES = lazy_pattern(r"(?<=[^.!?\s] )[A-Z][\w-]*")
_SHORT_FORMS = (
    ("n't", " not"),
    ("cannot", "can not"),
    ("'m", " am"),
    ("'ve", " have"),
    ("'ll", " will"),
    ("'re", " are"),
)


def is_near_duplicate(first: str, second: str, similarity: float) -> bool:
    """Return whether two texts mean the same in nearly the same words; `similarity` is the cosine of their vectors.

    Their terms must be the same in the same order, except for terms of times. Numbers, names, persons, tenses and words
    such as "not" and "before" must agree.
    """
    if normalise(first) == normalise(second):  # they may differ in case, which can distinguish a name from a word
        return _find_names(first) == _find_names(second)
    if similarity < MIN_SIMILARITY or ("?" in first) != ("?" in second):
        return False
    first_plain, second_plain = _expand_short_forms(first), _expand_short_forms(second)
    return (
        _find_numbers(first_plain) == _find_numbers(second_plain)
        and _split_content(first_plain) == _split_content(second_plain)
        and _split_small_words(first_plain) == _split_small_words(second_plain)
        and _find_names(first) == _find_names(second)
    )


def _expand_short_forms(text: str) -> str:
    plain = text.replace("’", "'")
    for short_form, words in _SHORT_FORMS:
        plain = plain.replace(short_form, words)
    return plain


def _find_numbers(text: str) -> list[str]:
    return [number.rstrip(".,:/") for number in _NUMBER.findall(text)]


def _find_names(text: str) -> set[str]:
    """Return the capitalised words that do not begin a sentence."""
    return {name for name in _NAMES.findall(text) if name not in ("I", "Im")}


def _split_content(text: str) -> tuple[list[str], list[str]]:
    """Return the terms of a text in two lists: all terms but those of times, in order, and the terms of times, sorted.

    The terms of times are sorted because a time may be mentioned anywhere in a text.
    """
    ordered: list[str] = []
    times: list[str] = []
    for word in _WORDS.findall(fold(text)):
        for term in extract_terms(word):
            if term not in _IGNORED_TERMS:
                (times if is_trigger(word) else ordered).append(_SYNONYMS.get(term, term))
    return (ordered, sorted(times)) if ordered or times else ([normalise(text)], [])


def _split_small_words(text: str) -> tuple[list[str], set[str], list[str]]:
    """Return a text's meaning-changing words and numerals, its grammatical persons, and the stems of its past forms."""
    words = _WORDS.findall(fold(text))
    meaning_changers = sorted(word for word in words if word in _MEANING_CHANGERS or word in _SPOKEN_NUMBERS)
    persons = {_PERSONS[word] for word in words if word in _PERSONS}
    # Terms are stems, so "walk" and "walked" are the same term. The list of past forms distinguishes them.
    past_stems = [
        extract_terms(word)[0] for word in words if len(word) > 4 and word.endswith("ed") and extract_terms(word)
    ]
    return meaning_changers, persons, past_stems
