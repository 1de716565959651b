"""Statements, and the clauses and claims from which they are made."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Literal, NamedTuple

from everhold.facts.words import REGIONS
from everhold.text.dates import EARLIEST, LATEST, TimeSpan
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.terms import fold

Kind = Literal["fact", "preference", "plan", "episodic", "entity"]

_ADDITION = lazy_pattern(r"\b(?:also|as well|in addition|additionally|too$)\b", re.IGNORECASE)
_CHANGE = lazy_pattern(r"\b(?:now|nowadays|instead|since|these days|finally|currently)\b", re.IGNORECASE)
_STAYING = ("live", "living", "am ", "is ", "are ", "reside", "based", "have lived", "have been living")
_BASE_FORMS = {"studies": "study", "has": "have", "goes": "go", "does": "do"}


@dataclass(frozen=True, slots=True)
class Statement:
    """A subject, an attribute and a value that one sentence of a text states."""

    subject: str
    """The folded name: "alice", "alice's sister", or "user" if the speaker is unknown."""
    attribute: str
    value: str
    """In the words of the text, trimmed."""
    text: str
    """One sentence in the third person that can be understood on its own."""
    kind: Kind
    exclusive: bool
    """Whether only one value can be true at a time."""
    negated: bool
    """Whether the text says that this is not true, or no longer true."""
    occurred: TimeSpan | None
    """The time of the event or of the plan."""
    valid_from: datetime | None
    """The time since which it is true, if the text states it."""
    span: tuple[int, int]
    """The start and end of the clause in the text."""
    adds: bool = False
    """Whether the statement adds to earlier ones instead of replacing them, as in "I also work at Globex"."""


class Person(NamedTuple):
    """The person that a clause is about."""

    key: str
    """The folded name, by which persons are compared."""
    shown: str
    """The name as it is written in a sentence."""


class Clause(NamedTuple):
    """A part of a sentence that can state something by itself, with its person, speaker and times."""

    person: Person
    speaker: Person
    predicate: str
    """The clause from its verb on, with contractions written out."""
    times: tuple[TimeSpan, ...]
    span: tuple[int, int]
    now: datetime
    zone: tzinfo


class Claim(NamedTuple):
    """What a rule reads from a clause. `make_statement` adds the person and the position of the clause."""

    attribute: str
    value: str
    says: str
    """The predicate in the third person: "lives in Oslo"."""
    kind: Kind = "fact"
    exclusive: bool = False
    negated: bool = False
    ended: bool = False
    """Whether the claim was true and no longer is."""
    loses: bool = False
    """Whether the claim tells how something ended, as in "sold the Fiesta". Its predicate is not negated."""
    occurred: TimeSpan | None = None
    valid_from: datetime | None = None
    person: Person | None = None
    """The person that the claim is about, if not the person of the clause."""


def make_statement(claim: Claim, clause: Clause) -> Statement:
    """Return a statement with the values of a claim, and the person and the position of its clause."""
    person = claim.person or clause.person
    says = end_predicate(claim.says) if claim.ended else negate_predicate(claim.says) if claim.negated else claim.says
    when = f" {describe_time(claim.occurred, clause.zone)}" if claim.occurred else ""
    return Statement(
        person.key,
        claim.attribute,
        claim.value,
        f"{person.shown} {says}{when}.",
        claim.kind,
        claim.exclusive,
        claim.negated or claim.ended or claim.loses,
        claim.occurred,
        claim.valid_from,
        clause.span,
        _ADDITION.search(clause.predicate) is not None or _names_region_only(claim, clause),
    )


def _names_region_only(claim: Claim, clause: Clause) -> bool:
    """Return whether a claim names only the country or region where somebody lives, without a word such as "now".

    A city that was stated earlier may lie in that region.
    """
    return (
        claim.attribute == "lives_in"
        and is_region(claim.value)
        and clause.predicate.startswith(_STAYING)
        and _CHANGE.search(clause.predicate) is None
    )


def is_region(place: str) -> bool:
    """Return whether a place is a country or a larger region."""
    return fold(place).removeprefix("the ") in REGIONS


def end_predicate(says: str) -> str:
    """Return the predicate with "no longer": "lives in Oslo" becomes "no longer lives in Oslo"."""
    return f"is no longer {says[3:]}" if says.startswith("is ") else f"no longer {says}"


def negate_predicate(says: str) -> str:
    """Return the negation of a predicate in the third person."""
    verb, _, remainder = says.partition(" ")
    if verb in ("is", "was"):
        return f"{verb} not {remainder}"
    return f"does not {_BASE_FORMS.get(verb, verb.removesuffix('s'))} {remainder}"


def describe_time(span: TimeSpan, zone: tzinfo) -> str:
    """Return a time in words that do not depend on the current day, such as "on 3 May 2024"."""
    if span.end == LATEST:
        return f"after {_format_day(span.start.astimezone(zone) - timedelta(days=1))}"
    last = (span.end - timedelta(microseconds=1)).astimezone(zone)  # the end of a span is not part of it
    if span.start == EARLIEST:
        return f"before {_format_day(last + timedelta(days=1))}"
    first = span.start.astimezone(zone)
    if (last - first).days < 1:
        return f"on {_format_day(first)}"
    if first.day == 1 and (last + timedelta(days=1)).day == 1:
        if (first.year, first.month) == (last.year, last.month):
            return f"in {first:%B %Y}"
        if first.month == 1 and last.month == 12 and first.year == last.year:
            return f"in {first.year}"
    return f"between {_format_day(first)} and {_format_day(last)}"


def _format_day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"
