"""Split the names of tables and columns into words."""

import re
from collections.abc import Collection

from everhold.ask.language.stems import stem

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_FOREIGN_PARTS = re.compile(r"[^\W\d_]+|\d+")  # of names with other letters than those from A to Z
# Words that only connect other words in a name, or do not describe the values.
_LINKING_WORDS = frozenset({"of", "the", "a", "an", "in", "for", "to", "and", "or", "is", "yn"})
# Abbreviations that are usual in the names of columns.
_ABBREVIATIONS = {
    "num": "number", "no": "number", "nbr": "number", "nr": "number", "qty": "quantity", "amt": "amount",
    "desc": "description", "descr": "description", "addr": "address", "dept": "department", "dep": "department",
    "fname": "first name", "lname": "last name", "mname": "middle name", "avg": "average", "min": "minimum",
    "max": "maximum", "dob": "birth date", "tel": "phone", "yr": "year", "src": "source", "dest": "destination",
    "dst": "destination", "pct": "percent", "perc": "percent", "pop": "population", "lang": "language",
    "abbr": "abbreviation", "abbrev": "abbreviation", "org": "organization", "mgr": "manager", "emp": "employee",
    "cust": "customer", "prod": "product", "cat": "category", "temp": "temperature", "dist": "distance",
    "lat": "latitude", "long": "longitude", "lng": "longitude", "lon": "longitude", "mpg": "mpg", "hp": "horsepower",
    "ht": "height", "wt": "weight", "sal": "salary", "bal": "balance", "acct": "account", "acc": "account",
    "ref": "reference", "loc": "location", "req": "requirement", "info": "information", "img": "image",
    "pic": "picture", "msg": "message", "cnt": "count", "ttl": "total", "tot": "total", "uid": "id", "pk": "id",
}  # fmt: skip
# Endings at which a name in one word, such as "cityname", is split.
_ENDINGS = ("name", "number", "date", "time", "code", "type", "id", "no", "year", "count")
_MIN_ABBREVIATION_LETTERS = 3


def split_name(name: str, table_words: Collection[str] = ()) -> tuple[str, ...]:
    """Return the words of a name, in lower case and with abbreviations expanded.

    A part that is the beginning of a word in `table_words` becomes that word: "stu" becomes "student".
    """
    words: list[str] = []
    for part in (_PARTS if name.isascii() else _FOREIGN_PARTS).findall(name):
        for piece in _split_ending(part.lower(), table_words):
            words.extend(_expand(piece, table_words).split())
    meaningful = [word for word in words if word not in _LINKING_WORDS]
    return tuple(meaningful or words or [name.lower()])


def stem_name(name: str, table_words: Collection[str] = ()) -> tuple[str, ...]:
    """Return the stems of the words of a name, each once."""
    return tuple(dict.fromkeys(stem(word) for word in split_name(name, table_words)))


def _split_ending(part: str, table_words: Collection[str]) -> tuple[str, ...]:
    for ending in _ENDINGS:
        start = part.removesuffix(ending)
        if start != part and start and _expand(start, table_words) in {*table_words, *_ABBREVIATIONS.values()}:
            return start, ending
    return (part,)


def _expand(part: str, table_words: Collection[str]) -> str:
    if part in table_words:
        return part
    if len(part) >= _MIN_ABBREVIATION_LETTERS:
        longer = sorted(word for word in table_words if word.startswith(part))
        # "cont" is a continent; "name" must not become "names".
        if longer and part not in _ENDINGS and stem(longer[0]) != stem(part):
            return longer[0]
    return _ABBREVIATIONS.get(part, part)
