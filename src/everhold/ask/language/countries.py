"""Other names of countries: adjectives such as "French", and synonyms such as "USA"."""

from collections.abc import Mapping

_ADJECTIVES = """american=united states|usa argentinian=argentina australian=australia austrian=austria belgian=belgium
brazilian=brazil british=united kingdom|uk|great britain|england canadian=canada chinese=china cuban=cuba
czech=czech republic danish=denmark dutch=netherlands egyptian=egypt english=england|united kingdom finnish=finland
french=france german=germany greek=greece hungarian=hungary icelandic=iceland indian=india irish=ireland israeli=israel
italian=italy japanese=japan korean=south korea|korea mexican=mexico norwegian=norway polish=poland portuguese=portugal
russian=russia|russian federation scottish=scotland spanish=spain swedish=sweden swiss=switzerland thai=thailand
turkish=turkey ukrainian=ukraine vietnamese=vietnam welsh=wales"""
_SYNONYMS = (
    ("usa", "us", "united states", "united states of america", "america", "u s", "u s a"),
    ("uk", "united kingdom", "great britain", "britain"),
    ("netherlands", "holland"), ("russia", "russian federation"), ("south korea", "korea"),
    ("uae", "united arab emirates"), ("czechia", "czech republic"),
)  # fmt: skip


def _build_names() -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    # The name of a country may have several words: the words up to the next "=" belong to the last adjective.
    adjective = ""
    country_words: dict[str, list[str]] = {}
    for word in _ADJECTIVES.split():
        if "=" in word:
            adjective = word.partition("=")[0]
        country_words.setdefault(adjective, []).append(word.rpartition("=")[2])
    for adjective, words in country_words.items():
        names[adjective] = tuple(" ".join(words).split("|"))
    for group in _SYNONYMS:
        for name in group:
            names[name] = tuple(other for other in group if other != name)
    return names


# Maps a name or an adjective in lower case to other names of the same country.
COUNTRY_NAMES: Mapping[str, tuple[str, ...]] = _build_names()
