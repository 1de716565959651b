"""The English words for times and their meanings."""

from datetime import date, timedelta
from functools import lru_cache


def split_words(text: str) -> frozenset[str]:
    """Return the words of a text that is split at spaces."""
    return frozenset(text.split())


MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ),
        1,
    )
    for name in names.split()
}
# Months whose name is neither a verb nor a first name, so that the name alone means the month.
SURE_MONTHS = split_words("january february july september october november december")

# Months whose names in lower case are also other words.
VERB_MONTHS = frozenset(("may", "march", "mar"))

WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday mon",
            "tuesday tues tue",
            "wednesday wed",
            "thursday thurs thur thu",
            "friday fri",
            "saturday sat",
            "sunday sun",
        )
    )
    for name in names.split()
}

# The month in which each season begins in the northern hemisphere.
SEASONS = {"spring": 3, "summer": 6, "fall": 9, "autumn": 9, "winter": 12}

# The first and last hour of each part of a day, from midnight. A night ends on the next day.
DAYPARTS = {"morning": (5, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}

_COUNTING = "one two three four five six seven eight nine ten eleven twelve"
NUMBERS = {"a": 1, "an": 1} | {word: number for number, word in enumerate(_COUNTING.split(), 1)}

# The lowest and the highest number that a vague quantity can mean.
VAGUE = {"couple": (1, 3), "few": (2, 6), "several": (3, 9)}

UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
UNIT_HOURS = {"minute": 1 / 60, "hour": 1.0}

# A number of four digits before one of these words is an amount and not a year.
COUNTED = split_words(
    """
    steps pounds dollars euros bucks baht miles meters metres km kilometers kilometres calories people points
    words units kg grams feet times items pages users files lines minutes hours seconds requests percent copies
    """
)

# The name of a holiday before one of these words means a thing and not a day: "Christmas tree".
DECORATION = split_words(
    """
    tree trees card cards present presents gift gifts song songs carol carols movie movies cookie cookies music
    lights decorations list sweater stocking spirit costume costumes candy turkey
    """
)


def find_thanksgiving(year: int) -> date:
    """Return the fourth Thursday of November."""
    first = date(year, 11, 1)
    return first + timedelta(days=(3 - first.weekday()) % 7 + 21)


# The month and day of each holiday. The day is 0 if it depends on the year.
HOLIDAYS = {
    "christmas eve": (12, 24),
    "christmas": (12, 25),
    "xmas": (12, 25),
    "new year's eve": (12, 31),
    "new year's": (1, 1),
    "halloween": (10, 31),
    "valentine's": (2, 14),
    "thanksgiving": (11, 0),
}


_TRIGGERS = frozenset(
    [
        *MONTHS, *WEEKDAYS, *SEASONS, *DAYPARTS, *UNIT_DAYS, *UNIT_HOURS, *(f"{unit}s" for unit in UNIT_DAYS),
        *(f"{unit}s" for unit in UNIT_HOURS), "weekend", "ago", "today", "yesterday", "tomorrow", "tonight",
        "christmas", "xmas", "year's", "halloween", "valentine's", "thanksgiving",
    ]
)  # fmt: skip
_TYPOGRAPHIC_TRIGGERS = frozenset(("year’s", "valentine’s"))
_BEFORE_TRIGGER = ("", "(", '"', "'", "“", "mid-", "early-", "late-")
_AFTER_TRIGGER = (",", ".", "?", "!", ";", ":", ")", "),", ").", '"', "'", "”", "'s", "’s", "...", "…", "?!", "!!")


_MAX_TRIGGER_LENGTH = sum(max(map(len, parts)) for parts in (_BEFORE_TRIGGER, _TRIGGERS, _AFTER_TRIGGER))


def is_trigger(word: str) -> bool:
    """Return whether a word in lower case, with the punctuation around it, may be part of a time expression.

    Every time expression without a digit has at least one such word, if the text is split at spaces.
    """
    return len(word) <= _MAX_TRIGGER_LENGTH and _is_short_trigger(word)


# Answers are cached, because the set of all forms takes too long to build for a short process. Words of any length
# would fill the memory.
@lru_cache(maxsize=16_384)
def _is_short_trigger(word: str) -> bool:
    if word in _TYPOGRAPHIC_TRIGGERS:
        return True
    rests = [word[len(prefix) :] for prefix in _BEFORE_TRIGGER if word.startswith(prefix)]
    return any(
        rest in _TRIGGERS
        or (
            rest.endswith(_AFTER_TRIGGER)
            and any(rest.removesuffix(suffix) in _TRIGGERS for suffix in _AFTER_TRIGGER if rest.endswith(suffix))
        )
        for rest in rests
    )


# The words with which a time expression can begin, unless it begins with a digit.
OPENERS = split_words(
    """
    the that back in on since before after until till by during from between over around of throughout as
    within early mid late start beginning middle end last this next previous past couple today yesterday
    tomorrow tonight new xmas christmas valentine thanksgiving halloween week weekend day month year
    """
).union(MONTHS, WEEKDAYS, SEASONS, DAYPARTS, NUMBERS, VAGUE)
