"""English words for tables and columns: synonyms, and adjectives that imply a column."""

from collections.abc import Mapping

from everhold.ask.language.stems import stem

_SYNONYM_GROUPS = (
    "shop store outlet", "country nation", "job position occupation profession role", "salary pay wage earnings income",
    "price cost charge fee amount", "film movie", "car vehicle automobile auto", "student pupil", "teacher instructor",
    "professor lecturer instructor", "employee staff worker personnel headcount", "exit quit resign leaver",
    "customer client buyer shopper account",
    "phone telephone mobile cell", "birthday birthdate", "kind type category class sort", "author writer",
    "song track", "gender sex", "id identifier identification", "zip postcode zipcode postal",
    "name title",
    "begin start opening", "end finish closing", "maker manufacturer", "company firm enterprise business",
    "street road", "city town", "pet animal", "doctor physician", "purchase order buy bought",
    "airplane plane aircraft",
    "location place venue", "grade level", "ship vessel boat", "killed death dead casualty fatality",
    "description detail",
    "content text", "rating score star", "singer artist musician", "band group", "university college school",
    "department division", "contest competition tournament event", "match game", "player athlete", "team club",
    "language tongue", "area surface size", "lifespan life", "nationality citizenship", "owner holder", "boss manager",
    "apartment flat", "building property house", "spent expense spending expenditure",
    "revenue turnover",
    "sale sold", "quantity amount", "attendance audience", "capacity seat", "height tall", "weight weigh heavy",
    "length long duration", "year yearly annual", "month monthly", "origin source departure depart leave",
    "destination arrival arrive landing land", "train railway", "movie cinema", "museum gallery", "visitor guest",
    "voter vote", "document file doc paper", "template format", "nickname alias", "wine vintage",
)  # fmt: skip


def _group_synonyms() -> dict[str, frozenset[str]]:
    groups: dict[str, set[str]] = {}
    for line in _SYNONYM_GROUPS:
        stems = {stem(word) for word in line.split()}
        for word in stems:
            groups.setdefault(word, set()).update(stems)
    return {word: frozenset(others - {word}) for word, others in groups.items()}


# Maps a stem to the stems of its synonyms.
SYNONYMS: Mapping[str, frozenset[str]] = _group_synonyms()

# Map an adjective to words in the names of columns that it may refer to, the likeliest first. With an adjective of
# _MORE, more means a higher value; with one of _LESS, a lower value. "Old" means a high age but an early year.
_MORE: Mapping[str, tuple[str, ...]] = {
    "tall": ("height",), "heavy": ("weight",), "long": ("length", "duration", "time", "distance"),
    "expensive": ("price", "cost", "amount", "fee", "rate"), "costly": ("price", "cost", "amount", "fee"),
    "populous": ("population",), "populated": ("population",), "rich": ("wealth", "income", "salary", "money", "gdp"),
    "wealthy": ("wealth", "income", "money"), "fast": ("speed",), "profitable": ("profit",), "warm": ("temperature",),
    "hot": ("temperature",), "recent": ("date", "year", "time"), "new": ("date", "year", "time"),
    "late": ("date", "year", "time"), "last": ("date", "year", "time"), "strong": ("strength", "power"),
    "powerful": ("horsepower", "power"), "deep": ("depth",), "loud": ("volume",), "wide": ("width",),
    "paid": ("salary", "wage", "pay", "income", "compensation"),
    "old": ("age",), "high": ("height", "elevation", "altitude"), "spacious": ("area", "size", "capacity"),
    "big": ("size", "area", "population", "capacity"), "large": ("size", "area", "population", "capacity"),
}  # fmt: skip
_LESS: Mapping[str, tuple[str, ...]] = {
    "short": ("height", "length", "duration", "time"), "light": ("weight",), "young": ("age",),
    "cheap": ("price", "cost", "amount", "fee", "rate"), "inexpensive": ("price", "cost", "fee"),
    "poor": ("wealth", "income", "gdp"), "slow": ("speed",), "cold": ("temperature",),
    "early": ("date", "year", "time"), "first": ("date", "year", "time"), "small": ("size", "area", "population"),
    "low": ("height", "elevation", "altitude"),
}  # fmt: skip
# Used if there is no column for the adjective above: the oldest has the earliest birth or date.
FALLBACKS: Mapping[str, tuple[tuple[str, ...], bool]] = {
    "old": (("birth", "birthday", "date", "year"), False),
    "young": (("birth", "birthday", "date", "year"), True),
}


def _make_superlative(adjective: str) -> str:
    if adjective.endswith("e"):
        return adjective + "st"
    if adjective.endswith("y"):
        return adjective[:-1] + "iest"
    return adjective + ("gest" if adjective == "big" else "test" if adjective == "hot" else "est")


def _make_comparative(adjective: str) -> str:
    return _make_superlative(adjective)[:-2] + "r"


ADJECTIVES: Mapping[str, tuple[tuple[str, ...], bool]] = {
    **{word: (columns, True) for word, columns in _MORE.items()},
    **{word: (columns, False) for word, columns in _LESS.items()},
}
SUPERLATIVES: Mapping[str, str] = {_make_superlative(word): word for word in ADJECTIVES} | {
    "latest": "late",
    "last": "last",
}
COMPARATIVES: Mapping[str, str] = {_make_comparative(word): word for word in ADJECTIVES}

# Adjectives that say how much there is of any measure.
SIZES = frozenset({"long", "short", "high", "low", "big", "large", "small"})

# Words for money that came in or went out, by the tables whose amounts they may mean, the likeliest table first.
_SALES = "sale invoice order line purchase transaction payment booking rental"
_PAYMENTS = "payment invoice purchase transaction order sale booking rental"
_COSTS = "expense cost bill purchase payment"
_MONEY_NOUNS = {
    _SALES: "revenue sales sale turnover income earnings takings",
    "": "money",
    _PAYMENTS: "spend spent pay paid pays paying collect collected",
    _COSTS: "expenses spending expenditure costs",
}
MONEY_TABLES: Mapping[str, tuple[str, ...]] = {
    stem(noun): tuple(map(stem, tables.split())) for tables, nouns in _MONEY_NOUNS.items() for noun in nouns.split()
}
# Those of these words that are verbs. They limit an amount, but are not shown by themselves.
MONEY_VERBS = frozenset(map(stem, _MONEY_NOUNS[_PAYMENTS].split()))
# "Best selling" refers to a quantity in a table of sales.
SELLING = "selling"
SALES = frozenset(map(stem, _SALES.split()))
QUANTITIES = frozenset(map(stem, ("quantity", "units", "sold")))
