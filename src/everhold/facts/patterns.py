"""Rules that read claims from the words after a verb. `RULES` lists them by the lemma of the verb."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from everhold.facts.clauses import NAME
from everhold.facts.statement import Claim, Kind
from everhold.facts.words import (
    ANIMALS,
    CONDITIONS,
    DIETS,
    FAITHS,
    JOBS,
    JUDGING,
    LANGUAGES,
    NATIONALITIES,
    STATUSES,
)
from everhold.text.date_words import split_words
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.terms import fold

_CAPITAL = r"[A-Z][\w.'&-]*"
PLACE = rf"(?P<value>(?:the )?{_CAPITAL}(?:(?:,? | of | de | la | del | upon ){_CAPITAL})*)"
# A company's name ends before one of these words, before a comma or at the end of the clause.
_COMPANY_END = r"(?= (?:as|in|since|for|near|with|on|from|and|but|where|who|which|that|by|now|here|until)\b|,|$)"
COMPANY = (
    rf"(?P<value>(?:the )?{_CAPITAL}(?:(?: | of | and | & ){_CAPITAL})*"
    r"|(?:an?|the) (?!moment|time|night|office|team|company|kids|rest|first|weekend|same|day|best|end|gym|house)"
    r"(?:[\w'-]+ ){0,3}?[\w'-]+)" + _COMPANY_END
)
_JOB_WORD = "|".join(sorted(JOBS, key=len, reverse=True))
JOB = (
    rf"(?:an? |the )?(?P<value>(?:[\w-]+ ){{0,3}}(?:{_JOB_WORD}))"
    r"(?=$|,| (?:at|in|for|with|and|by|on|from|near|who|here|now|too|these|specializing|specialising|since)\b)"
)
PET = rf"(?:{'|'.join(sorted(ANIMALS, key=len, reverse=True))})s?"
_COUNT = r"(?:an?|one|two|three|four|five|six|seven|\d+)"
_LANGUAGE = rf"(?P<value>(?:{'|'.join(sorted(LANGUAGES))})(?:(?:, and |, | and )(?:{'|'.join(sorted(LANGUAGES))}))*)"
_THING = r"(?P<value>.+)"


class Rule(NamedTuple):
    """A pattern for the words after a verb, and the claim that a clause makes if they match."""

    pattern: re.Pattern[str]
    attribute: str
    says: str
    """The predicate in the third person, with `{value}` for the value."""
    kind: Kind = "fact"
    exclusive: bool = False
    has_time: bool = False
    """Whether a time at the end belongs to the value, as in "born in 1990"."""
    may_be_list: bool = False
    """Whether the value may be a list. Each of its items becomes a claim."""
    accept: Callable[[str], bool] = bool
    """Returns whether a value is accepted; by default, every value that is not empty."""


def _make_rule(
    pattern: str,
    attribute: str,
    says: str,
    *,
    kind: Kind = "fact",
    exclusive: bool = False,
    has_time: bool = False,
    may_be_list: bool = False,
    accept: Callable[[str], bool] = bool,
) -> Rule:
    return Rule(lazy_pattern(pattern), attribute, says, kind, exclusive, has_time, may_be_list, accept)


def _is_job(value: str) -> bool:
    """Return whether a value names a job without judging the person."""
    return JUDGING.isdisjoint(fold(value).split())


# In characters. A longer value is a clause rather than the name of a thing.
_MAX_VALUE_LENGTH = 80
_MEANINGLESS_START = lazy_pattern(
    r"(?:it|that|this|these|those|them|you|your|yours|him|her|his|us|me|how|when|what|where|who|which|everything|anything"
    r"|nothing|one|the (?:way|idea|fact|sound|look|thought|part)|to (?:think|be honest|know|hear|see|say|admit|believe)"
    r"|to$|hearing|seeing you|being|so|not|going|all|both|myself|if|as|here|there|what's|its?|too|a lot|sure|or|and)\b",
    re.IGNORECASE,
)
_PRONOUN = lazy_pattern(r"\b(?:you|your|I|it|this|that|these|those|here|them|they|their|him|her|he|she|we)\b")


def _is_thing(value: str) -> bool:
    """Return whether a value names something that can be understood alone, not a pronoun, a question or a long
    clause."""
    return not _MEANINGLESS_START.match(value) and not _PRONOUN.search(value) and 1 < len(value) <= _MAX_VALUE_LENGTH


# The last word of a value with "the" that is clear without context.
_KNOWN_TO_ALL = split_words(
    "ocean sea beach mountains outdoors rain snow cold heat countryside city sun theatre theater forest"
)


def _is_likeable(value: str) -> bool:
    """Return whether a value is clear without context: "the ocean" is, "the colour" refers to an earlier sentence."""
    if not _is_thing(value):
        return False
    return not value.lower().startswith("the ") or not value.islower() or value.rpartition(" ")[2] in _KNOWN_TO_ALL


_NEVER_NAMES = NATIONALITIES | FAITHS


def is_name(value: str) -> bool:
    """Return whether a capitalised word can be a person's name and is not a nationality or faith."""
    return value not in _NEVER_NAMES


_LIVES = _make_rule(rf"(?:\w+ )?(?:in|near|outside) {PLACE}", "lives_in", "lives in {value}", exclusive=True)
_LIVES_IN_UNNAMED_PLACE = _make_rule(
    r"in (?P<value>the (?:countryside|suburbs|city center|city centre|mountains)|an? (?:small |tiny |big |quiet )?"
    r"(?:town|village|city|suburb|farm|houseboat|studio|flat|apartment|cabin|cottage)(?: (?:near|in"
    r"|outside|close to) [A-Z].*)?)$",
    "lives_in",
    "lives in {value}",
    exclusive=True,
)
_WORKS = (
    _make_rule(
        rf"(?:as an? (?:[\w-]+ ){{1,4}}?|\S+ )??(?:at|for) {COMPANY}", "works_at", "works at {value}", exclusive=True
    ),
    _make_rule(rf".*?\bas {JOB}", "job", "works as {value}", exclusive=True, accept=_is_job),
)
_LIKES = _make_rule(_THING, "likes", "likes {value}", kind="preference", accept=_is_likeable)
_DISLIKES = _make_rule(_THING, "dislikes", "dislikes {value}", kind="preference", accept=_is_likeable)
_STUDIES = _make_rule(
    r"(?:for (?:an? |my )?)?(?P<value>(?!for\b|in\b|hard\b|at\b|to\b|with\b|all\b|a lot\b|about\b|from\b"
    r"|abroad\b)[\w&' -]+?)"
    r"(?= (?:at|in|with|for|from|on|by|since)\b|,|$)",
    "studies",
    "studies {value}",
    accept=_is_thing,
)

RULES: dict[str, tuple[Rule, ...]] = {
    "live": (_LIVES, _LIVES_IN_UNNAMED_PLACE),
    "work": _WORKS,
    "like": (_LIKES,),
    "dislike": (_DISLIKES,),
    "prefer": (_make_rule(_THING, "prefers", "prefers {value}", kind="preference", accept=_is_thing),),
    "speak": (_make_rule(rf"(?:\w+ )?{_LANGUAGE}", "speaks", "speaks {value}", may_be_list=True),),
    "study": (_STUDIES,),
    "drive": (
        _make_rule(
            rf"(?:an? |my )(?P<value>(?:[\w-]+ ){{0,2}}?{_CAPITAL}(?: [A-Z0-9][\w-]*)*)",
            "car",
            "drives a {value}",
            exclusive=True,
        ),
    ),
    "eat": (
        _make_rule(
            r"(?P<value>(?:red )?(?:meat|fish|pork|beef|dairy|eggs|gluten|sugar|seafood|shellfish|nuts"
            r"|chicken|cheese|bread)\b(?:,? (?:or|and) \w+)?)(?: again| now)*$",
            "eats",
            "eats {value}",
        ),
    ),
    "report": (_make_rule(rf"to (?P<value>{NAME})$", "boss", "reports to {value}", exclusive=True, accept=is_name),),
    "own": (
        _make_rule(
            rf"(?P<value>{_COUNT} (?:[\w-]+ ){{0,2}}?{PET}\b(?:,? (?:named|called) {NAME}(?:,? and {NAME})?)?)",
            "owns_pet",
            "has {value}",
        ),
        _make_rule(rf"(?:an? |my )(?P<value>(?:[\w-]+ )?{_CAPITAL}(?: [A-Z0-9][\w-]*)*)$", "owns", "owns a {value}"),
    ),
    "have": (
        _make_rule(
            rf"(?P<value>{_COUNT} (?:[\w-]+ ){{0,2}}?{PET}\b(?:,? (?:named|called) {NAME}(?:,? and"
            rf" {NAME})?)?)(?=$|,| (?:and|at|who|that|in)\b)",
            "owns_pet",
            "has {value}",
        ),
        _make_rule(
            r"(?P<value>(?:one|two|three|four|five|six|seven|\d+) (?:kids|children|sons|daughters))\b",
            "children",
            "has {value}",
            exclusive=True,
        ),
        _make_rule(
            r"an? (?:severe |bad |mild )?allergy to (?P<value>[\w -]+)$", "allergic_to", "is allergic to {value}"
        ),
        _make_rule(r"an? (?:severe |bad |mild )?(?P<value>[\w-]+) allergy$", "allergic_to", "is allergic to {value}"),
        _make_rule(rf"(?P<value>(?:type \d )?(?:{'|'.join(CONDITIONS)}))\b", "condition", "has {value}"),
    ),
    "be": (
        _make_rule(rf"(?:\w+ )?from {PLACE}", "from_country", "is from {value}", exclusive=True),
        _make_rule(rf"(?:based|living) in {PLACE}", "lives_in", "lives in {value}", exclusive=True),
        _make_rule(r"(?:now )?(?P<value>\d{1,3})(?: years? old| yo|)$", "age", "is {value} years old", exclusive=True),
        _make_rule(
            r"(?:severely |very |highly |deathly )?allergic to (?P<value>[\w ,-]+)$",
            "allergic_to",
            "is allergic to {value}",
            may_be_list=True,
            accept=_is_thing,
        ),
        _make_rule(r"(?P<value>(?:lactose|gluten) intolerant)\b", "intolerance", "is {value}"),
        _make_rule(
            rf"(?:an? )?(?:strict )?(?P<value>{'|'.join(DIETS)})\b(?=$|,| (?:now|since|for|and|but)\b)",
            "diet",
            "is {value}",
            exclusive=True,
        ),
        _make_rule(
            rf"(?:happily |recently |newly )?(?P<value>{'|'.join(STATUSES)}|in a relationship)(?=$|,| "
            rf"(?:now|since|for|to(?! my| the)|with|and|but)\b)",
            "relationship_status",
            "is {value}",
            exclusive=True,
        ),
        _make_rule(
            rf"(?:happily )?married to (?P<value>{NAME})", "married_to", "is married to {value}", exclusive=True
        ),
        _make_rule(rf"engaged to (?P<value>{NAME})", "partner", "is engaged to {value}", exclusive=True),
        _make_rule(rf"(?:dating|seeing) (?P<value>{NAME})$", "partner", "is dating {value}", exclusive=True),
        _make_rule(rf"(?!my )(?=an? ){JOB}", "job", "works as {value}", exclusive=True, accept=_is_job),
        _make_rule(rf"an? [\w -]*? (?:at|for) {COMPANY}", "works_at", "works at {value}", exclusive=True),
        _make_rule(
            r"(?P<value>retired|unemployed|self-employed)(?=$|,| (?:now|since)\b)", "job", "is {value}", exclusive=True
        ),
        _make_rule(rf"fluent in {_LANGUAGE}", "speaks", "speaks {value}", may_be_list=True),
        _make_rule(
            r"(?:learning|studying) (?P<value>(?!to\b|how\b|for\b|hard\b|about\b|from\b|at\b|a lot\b|a ton\b|so\b)[\w&'"
            r" -]+?)(?= (?:at|in|with|for|from|on|by|since|now)\b|,|$)",
            "studies",
            "studies {value}",
            accept=_is_thing,
        ),
        _make_rule(
            r"(?:an? )?(?:big |huge |massive )?fan of (?P<value>.+)|fond of (?P<thing>.+)",
            "likes",
            "likes {value}",
            kind="preference",
            accept=_is_thing,
        ),
        _make_rule(
            r"(?:afraid|scared|terrified) of (?P<value>.+)", "afraid_of", "is afraid of {value}", accept=_is_thing
        ),
        _make_rule(rf"(?P<value>{'|'.join(sorted(NATIONALITIES))})$", "nationality", "is {value}"),
        _make_rule(
            rf"(?:called|named) (?P<value>{NAME})$", "name", "is called {value}", exclusive=True, accept=is_name
        ),
        _make_rule(r"(?P<value>\d[\w.'\" ]*?) tall$", "height", "is {value} tall", exclusive=True),
        _make_rule(
            r"born in (?P<value>(?:19|20)\d\d)$", "birth_year", "was born in {value}", exclusive=True, has_time=True
        ),
        _make_rule(
            r"born on (?P<value>(?:the )?[\w ,]+)$", "birthday", "was born on {value}", exclusive=True, has_time=True
        ),
        _make_rule(rf"born (?:and raised )?in {PLACE}", "born_in", "was born in {value}", exclusive=True),
    ),
    "call": (_make_rule(r"me (?P<value>[A-Z]\w+)$", "nickname", "is called {value}", exclusive=True),),
    "grow": (_make_rule(rf"up (?:in|near|outside) {PLACE}", "grew_up_in", "grew up in {value}"),),
    "turn": (_make_rule(r"(?P<value>\d{1,3})$", "age", "is {value} years old", exclusive=True),),
    "name": (_make_rule(rf"(?:is|:) (?P<value>{NAME})$", "name", "is called {value}", exclusive=True, accept=is_name),),
    "nickname": (_make_rule(r"(?:is|:) (?P<value>[A-Z]\w+)$", "nickname", "is nicknamed {value}", exclusive=True),),
    "birthday": (
        _make_rule(
            r"(?:is|:) (?:on )?(?P<value>(?:the )?(?=[\w ,]*\d)[\w ,/-]+)$",
            "birthday",
            "has a birthday on {value}",
            exclusive=True,
            has_time=True,
        ),
    ),
    "email": (
        _make_rule(
            r"(?:address )?(?:is|:) (?P<value>[\w.+-]+@[\w-]+\.[\w.-]*\w)$",
            "email",
            "has the email address {value}",
            exclusive=True,
        ),
    ),
    "phone": (
        _make_rule(
            r"(?:number )?(?:is|:) (?P<value>\+?\d[\d ()-]{4,})$",
            "phone",
            "has the phone number {value}",
            exclusive=True,
        ),
    ),
    "address": (_make_rule(r"(?:is|:) (?P<value>\d+ [A-Z].+)$", "address", "has the address {value}", exclusive=True),),
    "hometown": (_make_rule(rf"(?:is|:) {PLACE}$", "hometown", "has the home town {value}", exclusive=True),),
    "job": (_make_rule(rf"(?:is|:) {JOB}", "job", "works as {value}", exclusive=True),),
    "car": (
        _make_rule(
            rf"(?:is|:) (?:an? )?(?P<value>(?:[\w-]+ ){{0,2}}?{_CAPITAL}(?: [A-Z0-9][\w-]*)*)$",
            "car",
            "drives a {value}",
            exclusive=True,
        ),
    ),
}

_FAVOURITE = lazy_pattern(r"(?P<category>[a-z][a-z -]{1,30}?)(?: is|:| are) (?P<value>.+)$", re.IGNORECASE)
_LIST = lazy_pattern(
    r"(?:(?!\w+ing\b)[\w'-]+(?: (?!(?:is|are|was|were)\b)[\w'-]+){0,3}(?:, |,? and |$)){3,}$"
    r"|\w+ing\b[\w' -]*(?:, (?:and )?\w+ing\b[\w' -]*){2,}$"
)
_LIST_SEPARATOR = lazy_pattern(r",? and |, ")
_TAIL = lazy_pattern(
    r"(?:,? (?:now|too|as well|so much|very much|a lot|any ?more|these days|at the moment|right now|again"
    r"|though|lol|haha"
    r"|the most|more than anything|at all|lately|either|indeed|actually|honestly|currently|originally|already"
    r"|together|by the way"
    r"|myself|of course))+$"
    r"|(?: —| -) .*$|, (?:it|they|he|she|we|you|that|this|as|then|just|right|not|who|even|really|thanks)\b.*$"
    r"|,? (?:because|but|since|when|whenever|although|though|so|which|especially) .*$",
    re.IGNORECASE,
)
_FIRST_PERSON = split_words("my our myself me us")
_THIRD_PERSON_FORMS = (
    (lazy_pattern(r"\b[Mm]y\b|\b[Oo]ur\b"), "their"),
    (lazy_pattern(r"\bmyself\b"), "themselves"),
    (lazy_pattern(r"\bme\b|\bus\b"), "them"),
)


def trim_value(value: str) -> str:
    """Return a value without adverbs and subordinate clauses at its end."""
    value = value.strip(" .,;:!")
    # Removing one ending may uncover another: "painting lately, especially at night".
    while (shorter := _TAIL.sub("", value).strip(" .,;:!")) != value:
        value = shorter
    return value


def convert_to_third_person(value: str) -> str:
    """Return a value with the speaker's pronouns in the third person: "my dog" becomes "their dog"."""
    if _FIRST_PERSON.isdisjoint(value.lower().split()):
        return value
    for pattern, word in _THIRD_PERSON_FORMS:
        value = pattern.sub(word, value)
    return value


def match_rules(lemma: str, complement: str, full: str) -> Iterator[Claim]:
    """Yield the claims of a verb and the words after it. `complement` has no time at its end; `full` still has it."""
    if lemma == "favourite":
        yield from _find_favourite(full)
        return
    found_attributes: set[str] = set()
    for rule in RULES.get(lemma, ()):
        match = rule.pattern.match(full if rule.has_time else complement)
        if match is None or rule.attribute in found_attributes:
            continue
        matched = trim_value(next(group for group in match.groupdict().values() if group))
        for value in _split_values(rule, matched):
            if value and rule.accept(value):
                found_attributes.add(rule.attribute)
                yield Claim(rule.attribute, value, _phrase(rule, value), rule.kind, rule.exclusive)


def _split_values(rule: Rule, matched: str) -> list[str]:
    # Words with "and" alone may be one thing (salt and vinegar); with commas they are a list (tea, coffee and juice).
    if rule.may_be_list:
        return _LIST_SEPARATOR.split(matched)
    if rule.kind != "preference" or ", " not in matched:
        return [matched]
    values = _LIST_SEPARATOR.split(matched) if _LIST.match(matched) else matched.split(", ")[:1]
    return values if all(rule.accept(value) for value in values) else []


def _phrase(rule: Rule, value: str) -> str:
    """Return the predicate of a rule with a value and the article that fits it."""
    value = convert_to_third_person(value)
    article = "an" if value[0].lower() in "aeiou" else "a"
    if rule.says == "works as {value}":
        return f"works as {article} {value}"
    return rule.says.replace(" a {value}", f" {article} {{value}}").format(value=value)


def _find_favourite(text: str) -> Iterator[Claim]:
    match = _FAVOURITE.match(text)
    if match is None:
        return
    value = trim_value(match["value"])
    if _is_thing(value) and len(match["category"].split()) <= 4:
        category = match["category"].lower()
        says = f"has the favourite {category} {convert_to_third_person(value)}"
        yield Claim(
            f"favourite_{category.replace(' ', '_').replace('-', '_')}", value, says, "preference", exclusive=True
        )
