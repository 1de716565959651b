"""Find the concepts of a masked question, which are its cues and words without slots.

Two questions with different concepts rarely ask for the same.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from everhold.ask.frame import Function
from everhold.ask.language.cues import FILLERS, Cue, match_cue
from everhold.ask.language.lexicon import SIZES
from everhold.ask.language.stems import stem

Concepts = tuple[str, ...]
"""The cues and the stems of the words of a masked question, in their order."""

# Codes of cues that do not affect the statement: show, of, in, is, have, who, and.
_NEUTRAL = frozenset("Lfi=hr&y~")
_MAX_CUE_WORDS = 10
# Factors for the chance that two questions mean the same, for each concept that only one of them has: a cue such as
# "lowest", a word of a name in the schema, or another word. `everhold eval learning` measures their effect.
_CUE, _NAME, _WORD = 0.5, 0.5, 0.8
_OTHER_ORDER = 0.7  # the same concepts in another order: "the area of the state with the lowest density"
_CUE_PREFIX = "cue "


def find_concepts(masked: str, is_name: Callable[[str], bool]) -> Concepts:
    """Return the concepts of a masked question, without slots, articles and fillers.

    `is_name` says whether a stem is a word of a name in the schema. Such a word is not read as a cue: "state" may be a
    table.
    """
    words = masked.split()
    concepts: list[str] = []
    position = 0
    while position < len(words):
        matched = match_cue(words[position : position + _MAX_CUE_WORDS])
        if matched is not None and not (matched[1] == 1 and is_name(stem(words[position]))):
            concepts.extend(_name_cue(matched[0]))
            position += matched[1]
            continue
        word = words[position]
        if not word.startswith("<") and word not in FILLERS and word not in ("the", "a", "an"):
            concepts.append(stem(word))
        position += 1
    return tuple(concepts)


def _name_cue(cue: Cue) -> Iterator[str]:
    """Yield the concepts of a cue. "Maximum", "highest" and "largest" are the same concept."""
    if cue.code in "sm":
        yield f"{_CUE_PREFIX}most {cue.value in (True, Function.MAXIMUM)}"
    elif cue.code not in _NEUTRAL:
        yield f"{_CUE_PREFIX}{cue.code} {cue.value}"
    if cue.adjective and cue.adjective not in SIZES:
        yield stem(cue.adjective)


def list_words(concepts: Concepts) -> set[str]:
    """Return the concepts that are words, not cues."""
    return {concept for concept in concepts if not concept.startswith(_CUE_PREFIX)}


def compare_concepts(first: Concepts, second: Concepts, is_name: Callable[[str], bool]) -> float:
    """Return how similar the concepts of two questions are, as a factor from 0 to 1; 1 if they are equal."""
    if first == second:
        return 1.0
    left, right = Counter(first), Counter(second)
    factor = _OTHER_ORDER if left == right else 1.0
    for concept, count in ((left - right) + (right - left)).items():
        if concept.startswith(_CUE_PREFIX):
            factor *= _CUE**count
        else:
            factor *= (_NAME if is_name(concept) else _WORD) ** count
    return factor
