"""Find relatives, friends and pets, and their names."""

from collections.abc import Iterator

from everhold.facts.clauses import NAME, RELATION
from everhold.facts.events import DIED
from everhold.facts.patterns import PET, is_name
from everhold.facts.statement import Claim, Clause, Person
from everhold.facts.words import RELATIONS
from everhold.text.lazy_pattern import lazy_pattern

_IS_MY = lazy_pattern(rf"my (?:\w+ )?(?P<relation>{RELATION})\b(?: (?:and|who|from|at)\b|$)")
_IS_NAMED = lazy_pattern(rf"(?:name is |called |named )?(?P<value>{NAME})$")
_HAS_NAMED = lazy_pattern(
    rf"an? (?:\w+ )?(?P<relation>{RELATION}),? (?:named|called|whose name is) (?P<value>{NAME})(?=$|,| "
    rf"(?:and|who|in)\b)"
)
# A person usually has only one of each of these at a time.
_EXCLUSIVE = frozenset(("married_to", "partner", "boss", "doctor", "dentist", "therapist"))


def find_relations(lemma: str, complement: str, clause: Clause) -> Iterator[Claim]:
    """Yield the relation in "Anna is my sister", "my sister is Anna" or "I have a sister named Anna"."""
    owner, _, relation = clause.person.key.rpartition("'s ")
    if lemma == "have" and (match := _HAS_NAMED.match(complement)):
        yield _make_relation(match["relation"], match["value"], clause.person)
    elif lemma == "be" and (match := _IS_MY.match(complement)) and clause.person != clause.speaker and not owner:
        yield _make_relation(match["relation"], clause.person.shown, clause.speaker)
    elif (
        lemma == "be"
        and owner
        and relation in RELATIONS
        and (match := _IS_NAMED.match(complement))
        and is_name(match["value"])
    ):
        owner_name = clause.person.shown.rpartition("'s ")[0]
        yield _make_relation(relation, match["value"], Person(owner, owner_name))


def _make_relation(relation: str, value: str, owner: Person) -> Claim:
    attribute = RELATIONS[relation.lower()]
    says = f"has a {relation.lower()} called {value}"
    return Claim(attribute, value, says, "entity", attribute in _EXCLUSIVE, person=owner)


_PET_NAMED = lazy_pattern(rf"(?P<animal>{PET})(?:'s name is| is called| is named|,?) (?P<value>{NAME})\b")


def find_pets(complement: str) -> Iterator[Claim]:
    """Yield the pet in "my dog Rex …" or "my dog is called Rex"."""
    if match := _PET_NAMED.match(complement):
        value = f"{match['animal']} {match['value']}"
        remainder = complement[match.end() :].strip()
        if DIED.match(remainder):
            yield Claim("owns_pet", value, f"lost their {value}", "episodic", loses=True)
            return
        yield Claim("owns_pet", value, f"has a {match['animal']} called {match['value']}")
