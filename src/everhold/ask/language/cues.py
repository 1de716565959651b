"""Cues: phrases such as "how many" or "more than" that say what a question asks about the things it names.

A cue has a one-letter code. The patterns of the grammar are written in these codes and in those of mentions, which are
T (table), C (column), V (value), N (number) and P (period), see `linking/mention.py`. An unexplained word is an x.

    #  how many            a  average, total       m  minimum, maximum     d  different
    e  each, per           b  by                   o  sorted by            <  ascending, descending
    s  most, oldest        >  more than            }  or more              c  more (… than)   k  than
    w  between             n  not, without         &  and                  |  or              B  both
    l  contains            r  who, whose, with     f  of                   i  in, from, to    =  is
    h  have, do            t  top, first           $  share, running total L  show, list      *  all details
    g  monthly, by year    K  compare, versus      A  before, since        y  years old       S  most common
    F  highest first       D  distribution of      M  month, year          ~  ignored
    ,  comma, bracket      .  end of a sentence
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from everhold.ask.frame import Function, WindowKind
from everhold.ask.language.lexicon import ADJECTIVES, COMPARATIVES, SUPERLATIVES


@dataclass(frozen=True)
class Cue:
    """The meaning of a phrase: its code, and a value such as an operator or a direction."""

    code: str
    value: Any = None
    adjective: str = ""
    grain: str = ""


_PHRASES: dict[str, Cue] = {}


def _add(code: str, phrases: str, value: Any = None, adjective: str = "", grain: str = "") -> None:
    for phrase in phrases.split("|"):
        _PHRASES[phrase.strip()] = Cue(code, value, adjective, grain)


_add("#", "how many|number of|the number of|total number of|count of|count the number of|count|amount of times|"
          "how many times|the number|number of times|total count of|numbers of|how often")  # fmt: skip
_add("a", "average|mean|avg|on average|averaged", Function.AVERAGE)
_add("a", "how much|total|sum|sum of|overall|combined|total of|in total|altogether", Function.SUM)
_add("m", "minimum|min|minimal", Function.MINIMUM)
_add("m", "maximum|max|maximal", Function.MAXIMUM)
_add("d", "different|distinct|unique|distinctive|distinctly|without repetition|without duplicates|various")
_add("e", "each|every|per|for each|for every|respective|each of|for each of|individual")
_add("b", "by|grouped by|group by|broken down by|according to")
_add("o", "sorted by|ordered by|order by|sort by|in order of|in the order of|ranked by|rank by|arranged by|sorted in|"
          "ordered in|sort|sorted|order|ordered|listed in|sorted according to|order them by|order results by|"
          "arrange|rank|"
          "sort them by|order the results by|sort the results by|sort the list by|sorted from|in order|"
          "order of")  # fmt: skip
_add("<", "ascending|ascending order|in ascending order|in ascending order of|ascending order of|alphabetical order|"
          "alphabetically|in alphabetical order|in alphabetical order of|alphabetic order|in lexicographical order|"
          "lexicographical order|increasing order|in increasing order|in increasing order of|from low to high|"
          "from lowest to highest|from the lowest to the highest|from small to large|from smallest to largest|"
          "from young to old|from youngest to oldest|from the youngest to the oldest|from short to long|"
          "in lexical order|"
          "from earliest to latest|from the earliest to the latest|lexicographically|"
          "from least to most|in lexicographic order|by alphabetical order|increasing|"
          "from cheap to expensive", False)  # fmt: skip
_add("<", "descending|descending order|in descending order|in descending order of|descending order of|"
          "reverse alphabetical order|in reverse alphabetical order|reverse lexicographical order|decreasing order|"
          "in reverse lexicographical order|in decreasing order|in decreasing order of|from high to low|"
          "from highest to lowest|from the highest to the lowest|from large to small|from largest to smallest|"
          "from old to young|from oldest to youngest|from the oldest to the youngest|from long to short|"
          "from most to least|reversed lexicographical order|in reversed lexicographical order|decreasing",
          True)  # fmt: skip
_add("<", "from latest to earliest|from newest to oldest|most recent first|newest first|latest first|"
          "from the latest to the earliest|from most recent to least recent", True, "recent")  # fmt: skip
_add("<", "oldest first|earliest first|from oldest to newest", False, "recent")
_add("s", "most|highest|largest|greatest|biggest|best|most times|most often|longest|maximum amount of", True)
_add("s", "least|fewest|lowest|smallest|worst|least often|minimum amount of", False)
_add("S", "most common|most popular|most frequent|most frequently|most commonly|most frequently used|"
          "most commonly used|most widely used|most prominent|most predominantly|most predominant|most used",
     True)  # fmt: skip
_add("S", "least common|least popular|least frequent|rarest|least commonly|least frequently", False)
for _word in (
    "expensive",
    "costly",
    "populous",
    "populated",
    "profitable",
    "recent",
    "powerful",
    "spacious",
    "recently",
):
    _base = "recent" if _word == "recently" else _word
    _, _means_more = ADJECTIVES[_base]
    _add("s", f"most {_word}", _means_more, _base)
    _add("s", f"least {_word}", not _means_more, _base)
    _add(">", f"more {_word} than", ">" if _means_more else "<", _base)
_add("s", "highest paid|best paid|highest-paid|best-paid", True, "paid")
_add("s", "lowest paid|worst paid|lowest-paid|least paid", False, "paid")
_add("s", "best selling|best-selling|bestselling|top selling|top-selling|most sold", True, "selling")
_add("s", "worst selling|worst-selling|least sold", False, "selling")
for _word, _base in SUPERLATIVES.items():
    # "Largest" compares the column after it. Only without a column does it imply one, such as the size.
    _add("s", _word, ADJECTIVES[_base][1], _base)
for _word, _base in COMPARATIVES.items():
    _operator = ">" if ADJECTIVES[_base][1] else "<"
    _add(">", f"{_word} than", _operator, _base)
    _add(">", f"not {_word} than|no {_word} than", "<=" if _operator == ">" else ">=", _base)
    _add("c", _word, _operator, _base)
    _add("}", f"or {_word}", _operator + "=", _base)
_add(">", "more than|greater than|above|over|exceeding|exceeds|exceed|in excess of|beyond|better than|bigger than|"
          "strictly more than|greater number than", ">")  # fmt: skip
_add(">", "less than|fewer than|below|under|beneath|strictly less than", "<")
_add(">", "at least|no less than|not less than|no fewer than|minimum of|a minimum of|greater than or equal to|"
          "more than or equal to|not below|not under", ">=")  # fmt: skip
_add(">", "at most|no more than|not more than|up to|not exceeding|maximum of|a maximum of|less than or equal to|"
          "not over|not above|fewer than or equal to|not greater than", "<=")  # fmt: skip
_add(">", "exactly|equal to|equals|precisely", "=")
_add(">", "not equal to|different from", "!=")
_add("A", "after|later than|post", ">")
_add("A", "since|starting from|from the start of|as of", ">=")
_add("A", "before|prior to|earlier than|until", "<")
_add(
    "}",
    "or more|or above|or higher|or over|or greater|and above|and over|or better|or after|or later|and after|"
    "and later|onwards|or newer",
    ">=",
)
_add(
    "}",
    "or less|or fewer|or below|or lower|or under|and below|and under|or before|or earlier|and before|and earlier",
    "<=",
)
_add("c", "more|greater|bigger", ">")
_add("c", "less|fewer", "<")
_add("k", "than")
_add("w", "between|ranging from|in the range of|in the range from")
_add("n", "not|no|never|without|don't|doesn't|didn't|isn't|aren't|wasn't|weren't|haven't|hasn't|hadn't|cannot|can't|"
          "except|excluding|other than|but not|neither|nor|lack|lacking|nobody|none|do not|does not|did not|"
          "is not|are not|was not|were not|has not|have not|had not|not in|not have|won't|excludes")  # fmt: skip
_add("&", "and|as well as|along with|together with|plus|and also|in addition to|and the corresponding|but also|but")
_add("|", "or|either|or else")
_add("B", "both")
_add("l", "contain|contains|containing|contain the word|contains the word|contain the substring|include|includes|"
          "containing the word|including|with the substring|contains the substring|contain substring|has the substring|"
          "contains the letter|contain the letter|containing the letter|has the word|with the word|have the substring|"
          "includes the word|including the word|including substring|that has the word", "contains")  # fmt: skip
_add("l", "starts with|start with|starting with|begins with|begin with|beginning with|with the prefix|has prefix|"
          "with prefix|starting with the letter|starts with the letter|start with the letter|prefixed by",
          "starts")  # fmt: skip
_add("l", "ends with|end with|ending with|ending in|with the suffix|has suffix|end in|ends in", "ends")
_add("r", "who|whose|that|which|with|where|having|for which|in which|whom|by whom|of whom|whether|when|"
          "such that|with a|with an|on which|at which|to which|from which")  # fmt: skip
_add("f", "of|s|of all|of the|for all|among")
_add("i", "in|from|at|on|to|for|during|within|into|about|through|of year|in the year|in year|in the year of|via|inside")
_add("=", "is|are|was|were|be|been|being|am")
_add("h", "have|has|had|do|does|did|can|could|will|would|may|has been|have been|had been")
_add("t", "top|first", True)
_add("t", "last|bottom", False)
_add("$", "share of|percentage of|percent of|proportion of|share|fraction of|percentage|what percent of|% of",
     WindowKind.SHARE)  # fmt: skip
_add("$", "cumulative|running total of|running total|running sum of|cumulative total of", WindowKind.RUNNING)
_add("$", "change in|change of|growth of|growth in|period over period|growth|change|changed|changes|difference|"
          "grow|grew|grown|increase|decrease", WindowKind.CHANGE)  # fmt: skip
for _unit in ("day", "week", "month", "quarter", "year"):
    for _before in (f"the previous {_unit}", f"the {_unit} before", f"previous {_unit}", f"the prior {_unit}"):
        for _start in ("compared to", "compared with", "vs", "versus", "relative to", "against", "over"):
            _add("$", f"{_start} {_before}", WindowKind.CHANGE, grain=_unit)
        for _start in ("change from", "difference to", "difference from", "change to", "change over", "change against"):
            _add("$", f"{_start} {_before}", WindowKind.CHANGE, grain=_unit)
    _add("$", f"{_unit} over {_unit}|from {_unit} to {_unit}|{_unit} on {_unit}", WindowKind.CHANGE, grain=_unit)
_add("K", "compare|comparing|comparison of|versus|vs")
_add("L", "show|list|give|give me|find|return|tell|tell me|display|show me|report|state|please show|retrieve|get|"
          "find out|output|provide|select|compute|calculate|what is|what are|what|which|"
          "what was|what were|determine|print|identify")  # fmt: skip
_add("*", "all information|all the information|all details|all the details|all info|everything|full information|"
          "all available information|complete information|all the info|all fields|all columns|all data|all the data|"
          "information|details")  # fmt: skip
_add("~", "amount of|at once|at time|in other words|that is to say|for yes|stands for")
_add("y", "years old|year old|years of age")
_add("~", "in percent|as a percentage|in %")
_add("F", "highest first|largest first|biggest first|most first|most expensive first|greatest first|longest first|"
          "best first|high to low|"
          "largest to smallest|highest to lowest|descending by value|in descending order of value", True)  # fmt: skip
_add("F", "lowest first|smallest first|fewest first|least first|shortest first|worst first|cheapest first|low to high",
     False)  # fmt: skip
_add("D", "distribution of|the distribution of|spread of|distribution|histogram of")
for _unit in ("day", "week", "month", "quarter", "year"):
    _add("M", f"{_unit}|{_unit}s", _unit)
_add("g", "yearly|annually|by year|per year|each year|annual", "year")
_add("g", "quarterly|by quarter|per quarter|each quarter|for each quarter", "quarter")
_add("g", "monthly|by month|per month|each month|for each month", "month")
_add("g", "weekly|by week|per week|each week|for each week", "week")
_add("g", "daily|by day|per day|each day|for each day|by date", "day")

_ARTICLES = frozenset({"the", "a", "an"})


def _drop_articles(phrase: str) -> tuple[str, ...]:
    words = phrase.split()
    return tuple(word for word in words if word not in _ARTICLES or word == phrase)


PHRASES: Mapping[tuple[str, ...], Cue] = {_drop_articles(phrase): cue for phrase, cue in _PHRASES.items()}
LONGEST_PHRASE = max(map(len, PHRASES))

# Words that the grammar ignores.
_FILLER_WORDS = """
the a an all there their its his her any some these those this it they them we us our you your i me my please also only
just as so then if how when while ones one's belonging belong corresponding currently overall ever following given named
exists exist available various considered possible whole entire registered recorded listed associated related regarding
including together values value results result many much s kinds well yet still already time times moment say
shown used using use according person persons called titled row rows entry entries
"""
FILLERS = frozenset(_FILLER_WORDS.split())


def match_cue(words: Sequence[str]) -> tuple[Cue, int] | None:
    """Return the longest cue at the beginning of the words, and its length in words. Articles inside it are ignored."""
    if not words or words[0] in _ARTICLES:
        return None
    best: tuple[Cue, int] | None = None
    phrase: tuple[str, ...] = ()
    for number, word in enumerate(words):
        if word in _ARTICLES:
            continue
        phrase = (*phrase, word)
        if len(phrase) > LONGEST_PHRASE:
            break
        if cue := PHRASES.get(phrase):
            best = cue, number + 1
    return best
