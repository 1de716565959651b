"""Split a question that asks several things into clauses that can be asked alone.

"Where do I live and what car do I drive?" has the clauses "Where do I live" and "what car do I drive". A clause that
refers to an earlier one gets the words that it needs: in "Who is Ana's doctor, and where does she live?", "she" becomes
"Ana". If that is not possible, the question is not split.
"""

import re
from collections.abc import Sequence
from functools import partial

from everhold.recall.text_reading import RELATIVES
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.terms import extract_terms, stem

_MAX_CLAUSES = 5
_WH = r"(?:what|who|whom|whose|when|where|which|why|how)(?:['’](?:s|re|ve|d|ll))?\b"
_AUXILIARY = r"(?:did|does|do|is|are|was|were|has|have|had|can|will)"
_SUBJECT = r"(?:i|you|we|he|she|it|they|my|our|his|her|their|the|(?-i:[A-Z])[\w'’-]*)\b"
_ASKS = rf"(?:{_WH}|{_AUXILIARY} (?={_SUBJECT}))"
_PREPOSITION = r"(?:(?:at|in|on|for|from|to|with|by|of) )?"
# Most questions do not have these.
_MAY_BREAK = lazy_pattern(r"\b(?:and|also|plus|then)\b|[,;?!] ", re.IGNORECASE)
# Where a clause begins: after the end of a question, or after "and" or a comma if a word that asks follows. The last
# alternative is a clause without such a word: "What is my size, also my weight".
_BREAK = lazy_pattern(
    r"\s*[?;!]+\s+(?:(?:and|also|plus),? )?(?:also )?(?=\w)"
    rf"|\s*,?\s+(?:and|also|plus|then)(?: also| then)?,? (?={_PREPOSITION}{_ASKS})"
    rf"|\s*,\s+(?={_PREPOSITION}{_WH})"
    r"|\s*,?\s+(?:and|also|plus)(?: also)? "
    r"(?=(?:my|our|his|her|their|\w+['’]s) \w+(?:['’]s)?(?: \w+){0,2}\s*(?:$|[?,;]))",
    re.IGNORECASE,
)
_BEGINS_QUESTION = lazy_pattern(
    rf"(?:(?:so|ok|hey|and|also|please|now|btw|hi)[,]? )*{_PREPOSITION}(?:{_WH}|{_AUXILIARY}\b|(?:can you |could you )?"
    r"(?:tell|remind|give|show) me\b|do you (?:know|remember)\b)",
    re.IGNORECASE,
)
# What a clause without a word that asks takes over from the clause before it.
_OPENING = lazy_pattern(
    r"(?:please )?(?:what(?:['’]s| is| are| was)|when(?:['’]s| is)|where(?:['’]s| is)|who(?:['’]s| is)"
    r"|how (?:old|tall|big) is"
    r"|(?:can you |could you )?(?:tell|remind|give|show) me(?: of| about)?(?: what| who| when| where)?)(?= )",
    re.IGNORECASE,
)
# A clause that has no verb of its own: "and how strong", "and at which clinic".
_ELLIPTIC = lazy_pattern(
    rf"{_PREPOSITION}(?:(?:what|which|whose|how)\b(?!['’])(?!.*\b(?:{_AUXILIARY}|am|must|should|could|would|might)\b)"
    r"|(?:who|when|where|why)$)",
    re.IGNORECASE,
)
# The answer to such a question is a person, to whom "he" or "she" in the next clause refers.
_ASKS_FOR_ACTOR = lazy_pattern(
    r"who(?!['’]s\b| (?:is|are|was|were) )|whose\b|whom\b|(?:to|from|with|by) whom\b", re.IGNORECASE
)
_NAMES_OWNER = lazy_pattern(r"(?:my|our|his|her|their|\w+['’]s) \w", re.IGNORECASE)
_PERSON = lazy_pattern(r"\b(?:he|she|him|her|his|they|them|their)\b", re.IGNORECASE)
_THING = lazy_pattern(r"\b(?:it|its)\b(?! (?:cost|take)\b)", re.IGNORECASE)
_UNCLEAR = lazy_pattern(r"\b(?:there|one|ones|that|this|those|these|each|both|same|else)\b", re.IGNORECASE)
_POSSESSIVES = frozenset(("his", "its", "their"))
_PHRASE = lazy_pattern(
    r"(?P<before>\b(?:in|at|to|from|near) )?\b"
    r"(?P<phrase>(?:my|our|his|her|their|the) (?P<noun>\w+)(?P<owns>['’]s\b(?: \w+)?)?"
    r"|(?<=[ ])(?!(?:I|I['’]m)\b)(?P<name>[A-Z][\w-]+)(?:['’]s\b)?|\b(?P<owner>\w+)['’]s(?= \w))",
)
_NOT_OWNERS = frozenset(
    ["what", "who", "where", "when", "how", "that", "it", "there", "here", "he", "she", "let", "why", "which"]
)
# Words that do not say what a clause is about.
_EMPTY_TERMS = frozenset(
    extract_terms("pay cost costs start begin go get call called name day time year much many old long kind sort do")
)


def split_clauses(query: str) -> tuple[str, ...]:
    """Return the clauses of a question, each as a question of its own; empty if it does not ask several things."""
    if not _MAY_BREAK.search(query):
        return ()
    parts = [part for part in _BREAK.split(query.strip().rstrip("?!. ")) if part.strip(" ,")]
    if not 1 < len(parts) <= _MAX_CLAUSES or not _BEGINS_QUESTION.match(parts[0]) or _ELLIPTIC.match(parts[0]):
        return ()
    clauses: list[str] = []
    for part in parts:
        clause = _complete(part.strip(" ,"), clauses)
        if clause is None:
            clauses[-1] += f" and {part}"
        else:
            clauses.append(clause)
    return tuple(clauses) if len(clauses) > 1 else ()


def _complete(part: str, before: Sequence[str]) -> str | None:
    """Return a clause that can be asked alone; None if it refers to something that the earlier clauses do not name."""
    if not before:
        return part
    opening = None if _BEGINS_QUESTION.match(part) else _OPENING.match(before[-1])
    if opening is not None and _NAMES_OWNER.match(part):
        part = f"{opening[0]} {part}"
    elif _ELLIPTIC.match(part) or not _BEGINS_QUESTION.match(part):
        return None
    for pattern, is_person in ((_PERSON, True), (_THING, False)):
        if pattern.search(part):
            antecedent = _find_antecedent(before, is_person=is_person)
            refer = partial(_refer, antecedent=antecedent or "")
            return pattern.sub(refer, part, count=1) if antecedent else None
    return None if _UNCLEAR.search(part) or _EMPTY_TERMS.issuperset(extract_terms(part)) else part


def _refer(match: "re.Match[str]", antecedent: str) -> str:
    """Return the words that stand for a pronoun."""
    pronoun = match[0].lower()
    rest = match.string[match.end() :]
    is_possessive = pronoun in _POSSESSIVES or (pronoun == "her" and re.match(r" \w", rest) is not None)
    return f"{antecedent}'s" if is_possessive else antecedent


def _find_antecedent(clauses: Sequence[str], *, is_person: bool) -> str | None:
    """Return the first phrase of the latest clause that names a person or a thing, as asked for."""
    for clause in reversed(clauses):
        if is_person and _ASKS_FOR_ACTOR.match(clause):
            return None
        for match in _PHRASE.finditer(clause):
            words = _name_person(match) if is_person else _name_thing(match)
            if words:
                return words
    return None


def _name_person(match: "re.Match[str]") -> str | None:
    if match["noun"]:
        owner = match["phrase"].partition("'")[0].partition("’")[0]
        return owner if stem(match["noun"].lower()) in RELATIVES else None
    if match["owner"]:
        return None if match["owner"].lower() in _NOT_OWNERS else match["owner"]
    return None if match["before"] else match["name"]


def _name_thing(match: "re.Match[str]") -> str | None:
    noun = match["noun"]
    if not noun:
        return None
    return match["phrase"] if match["owns"] or stem(noun.lower()) not in RELATIVES else None
