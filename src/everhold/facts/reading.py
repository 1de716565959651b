"""Read the statements that a text makes."""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import NamedTuple

from everhold.facts.clauses import USER, split_into_clauses
from everhold.facts.events import find_events, find_losses, find_plans
from everhold.facts.patterns import match_rules
from everhold.facts.relations import find_pets, find_relations
from everhold.facts.statement import Claim, Clause, Statement, make_statement
from everhold.facts.words import ADVERBS, IRREGULAR_PAST, LIFE_EVENTS
from everhold.text.date_words import split_words
from everhold.text.dates import TimeSpan
from everhold.text.lazy_pattern import lazy_pattern

_LEMMAS = {
    form: lemma
    for lemma, forms in {
        "live": "live lives living reside resides",
        "work": "work works working",
        "like": "like likes love loves enjoy enjoys adore adores enjoying",
        "dislike": "dislike dislikes hate hates despise despises detest detests",
        "prefer": "prefer prefers",
        "speak": "speak speaks",
        "study": "study studies studying",
        "drive": "drive drives",
        "eat": "eat eats",
        "own": "own owns",
        "have": "have has",
        "report": "report reports reporting",
        "be": "am is are",
        "call": "call calls",
        "grow": "grew",
        "turn": "turned",
        "name": "name",
        "nickname": "nickname",
        "birthday": "birthday",
        "email": "email e-mail",
        "phone": "phone",
        "address": "address",
        "hometown": "hometown",
        "job": "job profession occupation",
        "car": "car",
        "favourite": "favourite favorite",
    }.items()
    for form in forms.split()
}
# Verbs whose perfect form ("has lived") states something that is still true, with their lemmas.
_LASTING_PERFECTS = {
    "lived": "live",
    "worked": "work",
    "studied": "study",
    "loved": "like",
    "liked": "like",
    "owned": "own",
}
# Verbs whose past form states where a person once lived or worked: the lemma, the attribute and the predicate.
_PAST_STAYS = {"lived": ("live", "lived_in", "lived in"), "worked": ("work", "worked_at", "worked at")}
_NEGATORS = frozenset(("don't", "doesn't", "not", "never", "isn't", "aren't"))
# The nouns after "my" that are keys of `RULES`.
_OWN_NOUNS = frozenset(("name", "nickname", "birthday", "email", "phone", "address", "hometown", "job", "car"))
# "is now" after such a noun: "my phone number is now 555 0199".
_IS_NOW = re.compile(r"^((?:\w+ )?is )(?:now|currently) ")
_WORD = re.compile(r"\s*([A-Za-z-]+(?:'[a-z]+)?)")
# Where somebody stays only for a time is not where they live: "I'm living in Paris for three weeks".
_TEMPORARY = lazy_pattern(
    r"\bfor (?:the (?:time being|moment|weekend|week|month|summer|winter|spring|autumn|holidays?|season|term)"
    r"|(?:just |only )?(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|\d+|some|several|a few|a couple of)"
    r" (?:\w+ )?(?:days?|nights?|weeks?|weekends?|fortnights?|months?|terms?|semesters?|summer|winter)|now\b(?=$|,))"
    r"|\b(?:temporarily|meanwhile|in the meantime|until|till)\b|\bthis (?:week|weekend|month|summer|winter)\b",
    re.IGNORECASE,
)
_PERFECT_TENSE = lazy_pattern(r"(?:have|has)\b")
_NO_LONGER = re.compile(r",? any ?(?:more|longer)$")
# A text that has none of these words when it is split at spaces matches no rule.
_KEYWORDS = split_words(
    """
    i i'm i’m i've i’ve i'll i’ll my we we're we’re our user calls name: birthday: email: phone: job: car: was
    allergic married based fluent originally born doesn't doesn’t lived worked
    we've we’ve died died. died! passed broke broken relocated emigrated resettled sold switched
    """
).union(_LEMMAS, IRREGULAR_PAST, LIFE_EVENTS)
# A text that has none of these words states no lasting fact.
_LASTING_KEYWORDS = (_KEYWORDS - {*IRREGULAR_PAST, *LIFE_EVENTS, "was"}) | split_words(
    """
    moved joined left quit married divorced engaged adopted got broke split retired started became born relocated
    emigrated resettled sold switched died passed died. died! away.
    """
)

# Verb forms that follow "I" and "we" and never a name.
_FIRST_PERSON_VERBS = split_words(
    "report live work like love enjoy adore dislike hate despise detest prefer speak study drive eat own have am"
)


class _Verb(NamedTuple):
    """The main verb of a predicate."""

    lemma: str
    """A key of `RULES`, or "" if there is no rule for the verb."""
    complement: str
    """The words after the verb, or the whole predicate without a lemma."""
    negated: bool = False
    ended: bool = False


def read_statements(
    text: str,
    *,
    speaker: str | None,
    now: datetime,
    zone: tzinfo,
    lasting: bool = False,
    own_names: Collection[str] = (),
) -> list[Statement]:
    """Return the statements that a text clearly makes about its speaker and other people, in order.

    Questions, possibilities and quotations are skipped. With `lasting`, a text that can only state single events is
    skipped too, which is faster. `own_names` are the folded names of the user to whom the text belongs: the subject of
    a statement about a person with one of these names is "user".
    """
    # Most texts are skipped here, before a pattern is compiled or searched.
    if (
        (_LASTING_KEYWORDS if lasting else _KEYWORDS).isdisjoint(text.lower().split())
        and "favo" not in text
        and "Favo" not in text
    ):
        return []
    statements: list[Statement] = []
    for clause in split_into_clauses(text, speaker, now, zone):
        statements += [make_statement(claim, clause) for claim in _find_claims(clause)]
    return [_name_user(statement, own_names) for statement in statements] if own_names else statements


def _name_user(statement: Statement, own_names: Collection[str]) -> Statement:
    """Return a statement with the subject "user" if its subject has one of these names."""
    owner, mark, relation = statement.subject.partition("'s ")
    return replace(statement, subject=f"{USER.key}{mark}{relation}") if owner in own_names else statement


def _find_claims(clause: Clause) -> Iterator[Claim]:
    verb = _parse_verb(clause.predicate, is_speaker=clause.person == clause.speaker)
    complement = _remove_last_time(verb.complement, clause.times)
    since = next((time.start for time in clause.times if time.matched.lower().startswith("since")), None)
    relations = list(find_relations(verb.lemma, complement, clause))
    claims = [
        *relations,
        # "My sister is called Ann" names one of perhaps several sisters, not the name of the only one.
        *(
            claim
            for claim in match_rules(verb.lemma, complement, verb.complement)
            if not (relations and claim.attribute == "name")
        ),
        *find_pets(clause.predicate),
    ]
    if _TEMPORARY.search(clause.predicate) and not _PERFECT_TENSE.match(clause.predicate):
        claims = [claim for claim in claims if claim.attribute != "lives_in"]
    for claim in claims:
        yield claim._replace(negated=verb.negated, ended=verb.ended, valid_from=since)
    if claims or verb.negated or verb.ended:
        return
    losses = list(find_losses(clause))
    yield from losses
    if former_stays := list(_find_former_stay(complement, clause)):
        yield from former_stays
        return
    yield from find_plans(clause)
    if not losses:
        yield from find_events(clause)


def _find_former_stay(complement: str, clause: Clause) -> Iterator[Claim]:
    """Yield where a person once lived or worked, which is no longer true."""
    word, _, after = complement.partition(" ")
    if word not in _PAST_STAYS:
        return
    lemma, attribute, phrase = _PAST_STAYS[word]
    when = next(iter(clause.times), None)
    for claim in match_rules(lemma, after, after):
        if claim.attribute in ("lives_in", "works_at"):
            yield Claim(attribute, claim.value, f"{phrase} {claim.value}", "episodic", occurred=when)


def _parse_verb(predicate: str, *, is_speaker: bool) -> _Verb:
    """Return the main verb, and whether it is negated ("don't live") or ended ("no longer live").

    `is_speaker` is true if the subject is "I" or "we".
    """
    ended = bool(_NO_LONGER.search(predicate))
    remaining = _NO_LONGER.sub("", predicate)
    if remaining.startswith("no longer "):
        remaining, ended = remaining.removeprefix("no longer "), True
    if remaining.startswith("used to "):
        remaining, ended = remaining.removeprefix("used to "), True
    negated = False
    while match := _WORD.match(remaining):
        word, after = match[1].lower(), remaining[match.end() :].strip()
        if word in _NEGATORS:
            negated = True
        elif word in ("do", "does") and after.startswith("not "):
            negated, after = True, after[4:]
        elif word in _FIRST_PERSON_VERBS and not (is_speaker or negated or ended):
            # In "Sounds like fun", "Sounds" is not a person.
            return _Verb("", remaining)
        elif word not in ADVERBS:
            return _parse_known_verb(word, after, remaining, negated and not ended, ended)
        remaining = after
    return _Verb("", remaining)


def _parse_known_verb(word: str, after: str, predicate: str, negated: bool, ended: bool) -> _Verb:
    if word in ("can", "can't"):
        return _parse_ability(word, after, predicate)
    if word == "was" and after.startswith("born "):
        return _Verb("be", after)
    if word.endswith("'s"):
        word, after = word[:-2], f"is {after}"
    lemma = _LEMMAS.get(word, "")
    if lemma in _OWN_NOUNS:
        after = _IS_NOW.sub(r"\1", after)
    if lemma == "be":
        return _parse_being(after, predicate, negated, ended)
    if lemma == "have":
        return _parse_having(after, predicate, negated, ended)
    return _Verb(lemma, after if lemma else predicate, negated, ended)


def _parse_ability(word: str, after: str, predicate: str) -> _Verb:
    verb, _, remainder = after.partition(" ")
    lemma, negated = {
        ("can", "speak"): ("speak", False),
        ("can't", "speak"): ("speak", True),
        ("can't", "stand"): ("dislike", False),
        ("can't", "eat"): ("eat", True),
    }.get((word, verb), ("", False))
    return _Verb(lemma, remainder if lemma else predicate, negated)


def _parse_being(after: str, predicate: str, negated: bool, ended: bool) -> _Verb:
    first, _, remainder = after.partition(" ")
    while first in ADVERBS or first in ("not", "no"):
        if first == "no" and not remainder.startswith("longer "):
            return _Verb("", predicate)
        ended = ended or first == "no"
        negated = negated or first == "not"
        after = remainder.removeprefix("longer ") if first == "no" else remainder
        first, _, remainder = after.partition(" ")
    negated = negated and not ended
    if first in ("going", "planning", "about", "scheduled", "gonna"):
        return _Verb("", predicate, negated, ended)
    if first in ("working", "living", "studying", "reporting"):
        return _Verb(_LEMMAS[first], remainder, negated, ended)
    return _Verb("be", after, negated, ended)


def _parse_having(after: str, predicate: str, negated: bool, ended: bool) -> _Verb:
    first, _, remainder = after.partition(" ")
    while first in ADVERBS:
        first, _, remainder = remainder.partition(" ")
    if first == "been" and not remainder.startswith(("to ", "in ")):
        return _parse_being(remainder, predicate, negated, ended)
    if first in _LASTING_PERFECTS:
        return _Verb(_LASTING_PERFECTS[first], remainder.removeprefix("always "), negated, ended)
    return _Verb("have", after.removeprefix("got "), negated, ended)


def _remove_last_time(complement: str, times: tuple[TimeSpan, ...]) -> str:
    for time in reversed(times):
        complement = complement.removesuffix(time.matched).rstrip(" ,")
    return complement
