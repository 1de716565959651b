"""Find the events and plans that a clause states."""

import re
from collections.abc import Iterator

from everhold.facts.patterns import PLACE, convert_to_third_person, trim_value
from everhold.facts.statement import Claim, Clause
from everhold.facts.words import IRREGULAR_PAST, LIFE_EVENTS, NOT_EVENTS
from everhold.text.dates import EARLIEST, TimeSpan
from everhold.text.lazy_pattern import lazy_pattern

# In characters. A longer predicate states more than one event or plan.
MAX_EVENT_LENGTH = 120

_PLAN = lazy_pattern(r"(?:(?:am|is|are) planning (?:to|on|for)|plans? (?:to|on)|intends? to) (?P<value>.+)$")
_DATED_PLAN = lazy_pattern(
    r"(?:(?:am|is|are) (?:going to|gonna|about to|scheduled to|due to)|will) (?!not\b|never\b)(?P<value>.+)$"
    r"|(?:am|is|are) (?P<doing>(?!going to\b|planning\b)\w+ing .+)$"
    r"|(?:have|has) (?P<having>an? (?:[\w']+ ){0,2}?(?:meeting|appointment|exam|interview|flight|test"
    r"|checkup|call|concert|party"
    r"|wedding|recital|race|deadline|surgery|trip|date)\b.*)$"
)
_TRIVIAL_PLAN = lazy_pattern(
    r"(?:be (?:fine|ok|okay|there|back|late|able|tired|busy)|do (?:it|that)|try|see|think|let|tell|say|ask"
    r"|need|feeling|thinking|trying|doing|hoping|looking|wondering)\b"
)
_THIS = lazy_pattern(r"\bthis(?= (?P<next>[a-z]))")
_PLEASANTRY = lazy_pattern(r"had (?:fun|an? (?:\w+ )?(?:time|day|night|blast|feeling)\b|no\b)")
# Words that refer to another sentence. A value with one of them cannot be understood alone.
_UNRESOLVED_WORD = lazy_pattern(r"\b(?:you|your|I|it|that|those|something|news|we|they|there|here)\b(?!\w)")
_FIRST_WORD = lazy_pattern(r"[a-z]+")
_ED_BUT_NOT_PAST = frozenset(("need", "feed", "speed", "seed", "proceed", "succeed", "exceed", "indeed", "red"))
_CAPITALIZED_NAME = r"[A-Z]\w+(?:,? [A-Z]\w+)*"
_MOVED_TO = lazy_pattern(
    rf"(?:moved|relocated|emigrated|resettled) (?:back |out |from {_CAPITALIZED_NAME} )?to {PLACE}"
)
_EMPLOYER = r"(?:the )?[A-Z][\w.'&-]*(?: [A-Z][\w.'&-]*)*"
# An employer without a name: "the bakery". Only read where one employer takes the place of another.
_KIND_OF_EMPLOYER = r"(?:the|an?|my|our) (?!house|flat|party|room|gym|table|car|queue|kids)[a-z-]+(?: [a-z-]+){0,2}?"
_STARTED_JOB = lazy_pattern(
    rf"(?:left|quit|resigned from) (?:{_EMPLOYER}|{_KIND_OF_EMPLOYER}) and (?:just |now |then )?(?:have )?"
    rf"(?:joined|(?:started|began|begun) (?:work |working )?(?:at|with|for))"
    r" (?P<kind>(?:the|an?) [a-z-]+(?: [a-z-]+)?)$|"
    rf"(?:(?:left|quit|resigned from) (?:{_EMPLOYER}|{_KIND_OF_EMPLOYER})"
    r" (?:and (?:just |now )?(?:joined|(?:started|began|begun)"
    r"(?: at| with| (?:work|working|a new job|my new job) (?:at|with|for)))|to join)|"
    r"started (?:working |work |a new job |a job |my new job |as [\w ]+? )(?:at|for)|joined|got (?:a|a"
    rf" new|the) job (?:at|with)|was hired (?:at|by)) (?P<value>{_EMPLOYER})"
)
_NEW_DOCTOR = lazy_pattern(
    r"(?:have |has )?(?:switched|changed|moved|gone|transferred) (?:over )?to (?:a (?:new )?(?:doctor|gp),? )?"
    r"(?P<value>(?:Dr\.?|Doctor) [A-Z][\w-]+)"
)
_LEFT_JOB = lazy_pattern(
    r"(?:quit|left|lost|resigned from|was fired from|was laid off from|got laid off from|got fired from"
    r"|stopped working (?:at|for))"
    rf" (?:(?:my|his|her|their|the) (?:old )?(?:job|position|role) (?:at|with) )?(?P<value>{_EMPLOYER})"
)
_RELATIONSHIP_STATUS = lazy_pattern(
    r"(?:just |finally |recently )?(?:got|was) (?P<value>married|engaged|divorced)\b(?: to (?P<name>[A-Z]\w+))?"
)
_GOT_PET = lazy_pattern(
    r"(?:adopted|got|bought) (?P<value>an? (?:[\w-]+ ){0,2}?(?:dog|puppy|cat|kitten|rabbit|hamster|parrot"
    r"|horse|turtle)\b(?:,? (?:named|called) [A-Z]\w+)?)"
)
_VISITED = lazy_pattern(r"(?:visited|(?:went|travell?ed|flew|drove) to|was in) (?:the )?[A-Z]")


def find_plans(clause: Clause) -> Iterator[Claim]:
    """Yield the plan that a clause states, if it has a date in the future or a verb such as "plan" or "intend"."""
    predicate = clause.predicate
    future_time = next((time for time in clause.times if time.end > clause.now), None)
    match = _PLAN.match(predicate)
    # Without a date, "I will help" and "I am reading" are not plans.
    if match is None and future_time is not None:
        match = _DATED_PLAN.match(predicate)
    if match is None:
        return
    phrase = next(group for group in match.groupdict().values() if group)
    value = trim_value(_remove_times(phrase, clause.times))
    is_destination = value[:1].isupper() or value.startswith(("a ", "an ", "the ", "my ", "our "))
    if is_destination and not match.groupdict().get("having"):
        value = f"go to {value}"
    if _TRIVIAL_PLAN.match(value) or _UNRESOLVED_WORD.search(value) or not 3 <= len(value) <= MAX_EVENT_LENGTH:
        return
    yield Claim(
        "plan", value, f"plans {_phrase_plan(match, convert_to_third_person(value))}", "plan", occurred=future_time
    )


def _phrase_plan(match: re.Match[str], value: str) -> str:
    groups = match.groupdict()
    if groups.get("having"):
        return value
    first, _, remainder = value.partition(" ")
    if groups.get("doing") or first.endswith("ing"):
        return f"on {first} {remainder}".rstrip()
    return f"to {value}"


def find_events(clause: Clause) -> Iterator[Claim]:
    """Yield the event that a clause states, and the facts that are true because of it."""
    predicate = clause.predicate
    for adverb in ("just ", "finally ", "recently ", "also ", "actually "):
        predicate = predicate.removeprefix(adverb)
    if match := re.match(
        r"(?:have|has) (?:just |finally |recently )?(?=moved|relocated|emigrated|resettled|joined|quit|left|adopted)",
        predicate,
    ):
        predicate = predicate[match.end() :]
    when = _find_past_time(clause)
    yield from _find_changes(predicate, when)
    verb = _FIRST_WORD.match(predicate)
    if verb is None or not (_is_past(verb[0]) or _VISITED.match(predicate)):
        return
    value = _THIS.sub(_choose_article, trim_value(_remove_times(predicate, clause.times)))
    # Without a date, only life events, changes of a relationship and visits are kept.
    is_clear_event = verb[0] in LIFE_EVENTS or _RELATIONSHIP_STATUS.match(predicate) or _VISITED.match(predicate)
    if _PLEASANTRY.match(value):
        return
    if (
        (when or is_clear_event)
        and not _UNRESOLVED_WORD.search(value)
        and " " in value
        and len(value) <= MAX_EVENT_LENGTH
    ):
        yield Claim("event", value, convert_to_third_person(value), "episodic", occurred=when)


def _choose_article(match: re.Match[str]) -> str:
    """Return the article that replaces "this": a reader does not know which concert "this concert" is."""
    return "an" if match["next"] in "aeiou" else "a"


def _find_past_time(clause: Clause) -> TimeSpan | None:
    return next((time for time in clause.times if time.start <= clause.now and time.start != EARLIEST), None)


def _is_past(verb: str) -> bool:
    return verb in IRREGULAR_PAST or (verb.endswith("ed") and verb not in NOT_EVENTS and verb not in _ED_BUT_NOT_PAST)


def _find_changes(predicate: str, when: TimeSpan | None) -> Iterator[Claim]:
    """Yield the facts that became true, or ended, with an event."""
    since = when.start if when else None
    if match := _MOVED_TO.match(predicate):
        yield Claim("lives_in", match["value"], f"lives in {match['value']}", exclusive=True, valid_from=since)
    if match := _STARTED_JOB.match(predicate):
        employer = match["value"] or match["kind"]
        yield Claim("works_at", employer, f"works at {employer}", exclusive=True, valid_from=since)
    elif match := _LEFT_JOB.match(predicate):
        # "left Paris" or "left Anna" does not mean a job.
        if predicate.startswith("left ") and not any(noun in predicate for noun in (" job ", " position ", " role ")):
            return
        employer = match["value"]
        yield Claim("works_at", employer, f"works at {employer}", exclusive=True, ended=True, valid_from=since)
    if match := _NEW_DOCTOR.match(predicate):
        doctor = match["value"]
        yield Claim("doctor", doctor, f"has a doctor called {doctor}", "entity", exclusive=True, valid_from=since)
    if match := _RELATIONSHIP_STATUS.match(predicate):
        status = match["value"]
        yield Claim("relationship_status", status, f"is {status}", exclusive=True, valid_from=since)
        if match["name"] and status == "married":
            yield Claim("married_to", match["name"], f"is married to {match['name']}", exclusive=True, valid_from=since)
        elif match["name"] and status == "engaged":
            yield Claim("partner", match["name"], f"is engaged to {match['name']}", exclusive=True, valid_from=since)
    if match := _GOT_PET.match(predicate):
        yield Claim("owns_pet", match["value"], f"has {match['value']}", valid_from=since)


_SOLD_CAR = lazy_pattern(
    r"(?:sold|scrapped|totall?ed|crashed|wrote off|traded in|got rid of|gave away) (?:the |my |our )(?:old )?"
    r"(?P<value>[A-Z][\w-]*(?: [A-Z0-9][\w-]*)*)"
)
_BROKE_UP = lazy_pattern(r"(?:broke|broken|split) up(?: with [A-Z]\w+)?$")
DIED = lazy_pattern(
    r"(?:has |sadly |just )*(?:died|passed away|passed on|was put (?:down|to sleep)|crossed the rainbow bridge)\b"
)
_PERFECT = lazy_pattern(r"(?:(?:have|has|just|finally|recently|sadly) )*")


def find_losses(clause: Clause) -> Iterator[Claim]:
    """Yield what is no longer true of the speaker: "sold the Fiesta", "we broke up", "Rex died".

    A loss ends an earlier statement only if both name the same thing: `compare_statements` compares the names.
    """
    predicate = _remove_times(_PERFECT.sub("", clause.predicate, count=1), clause.times)
    if clause.person != clause.speaker:
        if DIED.match(predicate) and "'s " not in clause.person.key:
            person = clause.speaker._replace(shown=clause.person.shown)
            yield Claim("owns_pet", person.shown, trim_value(predicate), "episodic", loses=True, person=person)
    elif match := _SOLD_CAR.match(predicate):
        yield Claim("car", match["value"], match[0], "episodic", loses=True)
    elif _BROKE_UP.match(trim_value(predicate)):
        yield Claim("relationship_status", "single", f"{trim_value(predicate)} and is single", exclusive=True)


def _remove_times(phrase: str, times: tuple[TimeSpan, ...]) -> str:
    for time in times:
        matched = time.matched.replace("’", "'")
        phrase = phrase.replace(f" {matched}", "", 1) if f" {matched}" in phrase else phrase.replace(matched, "", 1)
    return " ".join(phrase.split()).strip(" ,.")
