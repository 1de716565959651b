"""Split a text into clauses that may state something, and find the person that each clause is about."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

from everhold.facts.statement import Clause, Person
from everhold.facts.words import ANIMALS, NOT_NAMES, RELATIONS
from everhold.text.chunking import SENTENCE_END
from everhold.text.date_words import OPENERS, split_words
from everhold.text.dates import TimeSpan, find_time_spans
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.terms import fold

# The subject of a text that names no subject, or whose speaker is unknown.
USER = Person("user", "User")

# In characters. A longer sentence is code, a list or a quotation, from which no reliable statement can be read.
MAX_SENTENCE_LENGTH = 400

# Longest first, because a pattern takes the first alternative that matches.
RELATION = "|".join(sorted(RELATIONS, key=len, reverse=True))
NAME = r"[A-Z][\w-]+(?: [A-Z][\w-]+){0,2}"
_ADJECTIVE = r"(?:new |current |older |younger |elder |little |big |eldest |youngest |oldest |best |twin |good |late )?"

_ABBREVIATION = lazy_pattern(r"\b(?:mr|mrs|ms|dr|st|prof|jr|sr|vs|e\.g|i\.e|approx|inc|ltd)\.\s$", re.IGNORECASE)
_UNSURE_WORDS = split_words(
    """
    if unless wish wishes imagine suppose pretend maybe perhaps probably would wouldn't could couldn't might
    should supposedly apparently rumour rumor almost nearly said says say told claims claim claimed thinks
    think thought believes believe believed heard asked wonder wonders reckons guess assume dream dreamed
    joking kidding hypothetically whether i'd we'd seems seem feel feels
    """
)
# With punctuation, because a sentence is split at spaces only and its words keep the punctuation at their end.
_UNSURE = frozenset(word + mark for word in _UNSURE_WORDS for mark in ("", ",", ".", "!", ":", "..."))
_QUOTING = lazy_pattern(r"[\"“”«»`{}<>=|?]")
_ASKING = lazy_pattern(
    r"(?:what|when|where|who|whom|whose|why|how|which|do|does|did|can|could|would|will|should|are|am|is|was|were|have|has"
    r"|shall|let's|let|don't|isn't|aren't)\s",
    re.IGNORECASE,
)
_LEAD_IN = lazy_pattern(
    r"(?:[-*•]\s+)?(?:(?:well|actually|also|hi|hey|hello|yes|yeah|yep|oh|so|and|but|btw|by the way|fyi|anyway|honestly"
    r"|to be honest|just so you know|ok|okay|nope|sure|thanks|for the record|as you know|remember that"
    r"|note that|these days"
    r"|nowadays|right now|at the moment|currently|recently|in fact|plus|personally|since then|update|lately|wow|ha|haha"
    r"|guess what|good news|great news|finally|then|sadly|unfortunately)\b[,!:.…]*\s+|no[,!.]\s+"
    r"|(?:hi|hey|hello|thanks|yes|no),? [A-Z]\w+[,!.]\s+)*",
    re.IGNORECASE,
)
# A cheap test before `_BREAK`: a sentence that this pattern does not match has no break.
_MAY_BREAK = lazy_pattern(r"[;—–,]| -- | (?:and|but|so|because|although|though|while|whereas) ")
_BREAK = lazy_pattern(
    r"; *| [—–] | -- |,? (?:and|but|so|because|although|though|while|whereas) "
    r"(?=(?:I|I'm|I've|I'll|my|we|we're|he|she|he's|she's|they|it|it's|you|your|there|works?|lives?|loves|likes|hates"
    r"|am|is|has|have|speaks?|prefers?|enjoys?|studies|study|dislikes?|don't|doesn't|can't)\b)"
    r"|, (?:and )?(?=(?:works|lives|likes|loves|hates|speaks|prefers|enjoys|I|I'm|I've|I'll|my|we|but|which|who|where"
    r"|though|because)\b)"
)
_CONTRACTIONS = (
    ("'m", " am"),
    ("'s", " is"),
    ("'ve", " have"),
    ("'re", " are"),
    ("'ll", " will"),
)
_FIRST_PERSON = lazy_pattern(r"(?:I|i|We|we)(?=[' ])")
_MY_RELATIVE = lazy_pattern(rf"(?i:my|our) {_ADJECTIVE}(?P<relation>{RELATION})(?:,? (?P<name>{NAME}))?(?=[', ])")
_THEIR_RELATIVE = lazy_pattern(
    rf"(?P<owner>{NAME}|[Tt]he user|[Uu]ser)'s {_ADJECTIVE}(?P<relation>{RELATION})(?P<name> {NAME})?(?=[', ])"
)
_ATTRIBUTES = (
    "favou?rite|name|nickname|birthday|e-?mail|phone|address|hometown|job|profession|occupation|car|"
    + "|".join(ANIMALS)
)
_OWNED_ATTRIBUTE = lazy_pattern(
    rf"(?:(?:[Mm]y|[Oo]ur)|(?P<user>(?:[Tt]he )?[Uu]ser's)|(?P<owner>{NAME})'s) (?:new |current )?"
    rf"(?=(?i:{_ATTRIBUTES})\b)"
)
_LABEL = lazy_pattern(rf"(?i:{_ATTRIBUTES})\b(?= (?:[\w-]+ ){{0,3}}is\b|[\w -]*:)")
_CALL_ME = lazy_pattern(
    r"(?:(?:please|you can|everyone|everybody|people|(?:my )?(?:friends|family)) )?(?=calls? me [A-Z])", re.IGNORECASE
)
_THE_USER = lazy_pattern(r"(?:the )?user(?= )", re.IGNORECASE)
_NAMED = lazy_pattern(rf"(?P<name>{NAME})(?=[' ])")
_PRONOUN = lazy_pattern(r"(?:he|she)(?=[' ])", re.IGNORECASE)
_THIRD_PERSON_VERB = lazy_pattern(
    r"(?:lives|works|prefers|likes|loves|hates|enjoys|dislikes|speaks|studies|owns|has|drives|plays|eats"
    r"|is|was born|moved"
    r"|does not|doesn't|no longer|grew up)\b",
    re.IGNORECASE,
)
_FIRST_PERSON_VERB = lazy_pattern(r"(?:work|live|am|have|speak|prefer|enjoy|study|dislike|don't|can't)\b")
_WITHOUT_VERB = lazy_pattern(
    r"(?:allergic to|married to|born in|born on|based in|originally from|fluent in)\b", re.IGNORECASE
)
_WORD = lazy_pattern(r"\w+")


def split_into_clauses(text: str, speaker: str | None, now: datetime, zone: tzinfo) -> Iterator[Clause]:
    """Yield the clauses of a text that are about a person, in order.

    Sentences that are too long, quote something or ask are skipped.
    """
    narrator = Person(fold(speaker), speaker) if speaker else USER
    for start, end in _find_sentences(text):
        sentence = text[start:end].replace("’", "'")
        if end - start > MAX_SENTENCE_LENGTH or _QUOTING.search(sentence):
            continue
        words = sentence.lower().split()
        if not _UNSURE.isdisjoint(words):
            sentence = _take_certain_part(sentence, words)
        if sentence:
            yield from _split_sentence(start, sentence, narrator, speaker is None, now, zone)


def _take_certain_part(sentence: str, words: list[str]) -> str:
    """Return the part of a sentence before it turns uncertain ("I live in Oslo, but I might move"), or ""."""
    if "if" in words or "unless" in words:  # a condition may apply to the whole sentence
        return ""
    end = max(sentence.find(mark) for mark in (", but ", "; ", ", though "))
    certain_part = sentence[: max(end, 0)]
    return certain_part if _UNSURE.isdisjoint(certain_part.lower().split()) else ""


def _find_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each sentence. The period of an abbreviation does not end a sentence."""
    start = 0
    for match in SENTENCE_END.finditer(text):
        # Nine characters are enough for the longest abbreviation, its period, a space and the character before it.
        if _ABBREVIATION.search(text, max(start, match.end() - 9), match.end()):
            continue
        yield start, match.end()
        start = match.end()
    if start < len(text):
        yield start, len(text)


def _split_sentence(
    offset: int, sentence: str, narrator: Person, is_note: bool, now: datetime, zone: tzinfo
) -> Iterator[Clause]:
    """Yield the clauses of a sentence whose subject is a known person. A question has none.

    `offset` is the position of the sentence in the text.
    """
    lead = _LEAD_IN.match(sentence)
    begin = lead.end() if lead else 0
    if _ASKING.match(sentence, begin) and not _THIRD_PERSON_VERB.match(sentence, begin):
        return
    pieces = _find_pieces(sentence, begin)
    if not _has_person(sentence, pieces, narrator, is_note):
        return
    times = find_time_spans(sentence, now, zone)
    start_after_time, opening_times = _skip_opening_time(sentence, begin, times)
    if opening_times:
        pieces = _find_pieces(sentence, start_after_time)
    person: Person | None = None
    for number, (start, end) in enumerate(pieces):
        clause_times = tuple(time for time in times if start <= time.at < end)
        if number == 0:
            clause_times = clause_times or opening_times
        piece = sentence[start:end].rstrip(" .!,…\n")
        subject = _find_person(piece, narrator, person, is_note)
        if subject is None:
            person = None  # a pronoun after an unknown subject must not refer to the person before it
            continue
        person, subject_end = subject
        predicate = _expand_contractions(piece[subject_end:])
        yield Clause(
            person, narrator, predicate, clause_times, (offset + start, offset + start + len(piece)), now, zone
        )


def _has_person(sentence: str, pieces: Sequence[tuple[int, int]], narrator: Person, is_note: bool) -> bool:
    """Return whether a clause of a sentence may be about a person.

    A sentence that begins with a time may, because the person can follow the time. This test runs before the search for
    times, which takes longer.
    """
    start = pieces[0][0]
    opening = _WORD.match(sentence, start)
    if opening and (opening[0][0].isdigit() or opening[0].lower() in OPENERS):
        return True
    return any(_find_person(sentence[start:end], narrator, None, is_note) for start, end in pieces)


def _skip_opening_time(sentence: str, begin: int, times: list[TimeSpan]) -> tuple[int, tuple[TimeSpan, ...]]:
    """Return the position after a time that begins a sentence ("Last week I …"), and that time in a tuple.

    Without such a time, return `begin` and an empty tuple.
    """
    if times and times[0].at == begin:
        first = times[0]
        after_time = sentence[begin + len(first.matched) :].lstrip(", ")
        return len(sentence) - len(after_time), (first,)
    return begin, ()


def _find_pieces(sentence: str, begin: int) -> list[tuple[int, int]]:
    pieces: list[tuple[int, int]] = []
    if not _MAY_BREAK.search(sentence, begin):
        return [(begin, len(sentence))]
    for match in _BREAK.finditer(sentence, begin):
        pieces.append((begin, match.start()))
        begin = match.end()
    return [*pieces, (begin, len(sentence))]


def _find_person(piece: str, narrator: Person, previous: Person | None, is_note: bool) -> tuple[Person, int] | None:
    """Return the person that a clause is about and the position after it, or None.

    `narrator` is the speaker of the text, `previous` the person of the previous clause. `is_note` is true if the
    speaker of the text is unknown.
    """
    # A capitalised word is read as a name only if no other reading matches, so `_find_named_person` comes last.
    return (
        _find_speaker(piece, narrator, is_note)
        or _find_relative(piece, narrator)
        or _infer_person(piece, narrator, previous, is_note)
        or _find_named_person(piece)
    )


def _find_speaker(piece: str, narrator: Person, is_note: bool) -> tuple[Person, int] | None:
    """Return the person for "I …", "call me …" and "my name …", "the user's name …" or "Anna's name …"."""
    if match := _FIRST_PERSON.match(piece) or _CALL_ME.match(piece):
        return narrator, match.end()
    if match := _OWNED_ATTRIBUTE.match(piece):
        owner = match["owner"]
        return (_make_person(owner) if owner else USER if match["user"] else narrator), match.end()
    return (narrator, 0) if is_note and _LABEL.match(piece) else None


def _find_relative(piece: str, narrator: Person) -> tuple[Person, int] | None:
    """Return the relative for "my sister …" and "Alice's sister …"."""
    if match := _MY_RELATIVE.match(piece):
        return _make_relative(narrator, match["relation"], match["name"]), match.end()
    if match := _THEIR_RELATIVE.match(piece):
        owner = USER if fold(match["owner"]).endswith("user") else _make_person(match["owner"])
        return _make_relative(owner, match["relation"], (match["name"] or "").strip()), match.end()
    return None


def _infer_person(piece: str, narrator: Person, previous: Person | None, is_note: bool) -> tuple[Person, int] | None:
    """Return the person of a clause without a name: that of the previous clause or, in a note, the user."""
    if match := _PRONOUN.match(piece):
        # Speakers say "I" of themselves, so "he" or "she" is another person.
        return (previous, match.end()) if previous and previous != narrator else None
    if _WITHOUT_VERB.match(piece):
        # `_expand_contractions` adds the missing "is".
        return (narrator, 0) if is_note else None
    if _THIRD_PERSON_VERB.match(piece):
        return (previous, 0) if previous else (narrator, 0) if is_note else None
    return (previous, 0) if previous and _FIRST_PERSON_VERB.match(piece) else None


def _find_named_person(piece: str) -> tuple[Person, int] | None:
    if match := _THE_USER.match(piece):
        return USER, match.end()
    match = _NAMED.match(piece)
    if (
        match is None
        or _THIRD_PERSON_VERB.match(piece)
        or _WITHOUT_VERB.match(piece)
        or match["name"].split(" ")[0] in NOT_NAMES
    ):
        return None
    return _make_person(match["name"]), match.end()


def _make_person(name: str) -> Person:
    return Person(fold(name), name)


def _make_relative(owner: Person, relation: str, name: str | None) -> Person:
    relation = relation.lower()
    description = f"{owner.shown}'s {relation}"
    return Person(fold(description), f"{description} {name}" if name else description)


def _expand_contractions(predicate: str) -> str:
    """Return a predicate with a leading contraction written out.

    "n't" stays, because the parser of verbs reads it.
    """
    for contraction, words in _CONTRACTIONS:
        if predicate.startswith(contraction):
            predicate = words + predicate[len(contraction) :]
            break
    predicate = predicate.strip(" ,")
    return f"is {predicate[:1].lower()}{predicate[1:]}" if _WITHOUT_VERB.match(predicate) else predicate
