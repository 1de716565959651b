"""Compare words of a question with the names of tables and columns."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest

from everhold.ask.language.lexicon import SYNONYMS
from everhold.ask.language.stems import stem
from everhold.ask.language.tokens import split_words
from everhold.ask.schema import AskColumn, AskSchema, AskTable, ColumnKind
from everhold.ports.synonyms import SynonymSource

# Words of a column's name that a question may leave out. By themselves they do not identify a column.
_GENERIC = frozenset(map(stem, ("name", "id", "code", "number", "type", "date", "address", "amount", "description",
                                "value", "text", "status", "time", "total", "level", "title", "full")))  # fmt: skip
_ID, _NAME, _PERSON = stem("id"), stem("name"), stem("person")

# The factors for words that are not in a name themselves, if the name has a synonym, a longer or shorter form, or a
# word with the same root.
_SYNONYM, _PREFIX, _ROOT = 0.85, 0.7, 0.7
_MIN_PREFIX_LETTERS = 4
_MIN_ROOT_LETTERS, _MAX_ENDING_LETTERS = 5, 3
# The factor for words that only a source of synonyms knows, and the minimum similarity.
_SOURCED, _MIN_SIMILARITY = 0.8, 0.3

# Scores of names.
_MIN_SCORE = 0.4
_NEARLY_WHOLE = 0.95
_DISPLAY = 0.85  # "the name of the continent" for the display column of a table without a column for names
_ONLY_COLUMN = 0.5  # a part of a name that no other column has
_ROLE = 0.85  # the name of a key that refers to the table
_PEOPLE = 0.8  # "people" for the rows with a first and a last name
_GENERIC_PART = 0.6  # "amount" for "total amount"
_TABLE_AND_PART = 0.9  # "invoice amount" for the total amount in the table of invoices


@dataclass(frozen=True)
class NameMatch:
    """A table or column that words of a question may name. The score is 1 for the whole name."""

    table: str
    column: AskColumn | None
    score: float
    why: str


class NameIndex:
    """An index of the words in all names of a schema."""

    def __init__(self, schema: AskSchema, synonyms: Sequence[SynonymSource] = ()) -> None:
        self._schema, self._synonyms = schema, synonyms
        self._columns: dict[str, list[AskColumn]] = defaultdict(list)
        self._tables: dict[str, list[AskTable]] = defaultdict(list)
        for table in schema.tables:
            for word in table.words:
                self._tables[word].append(table)
            for column in table.columns:
                for word in dict.fromkeys((*column.words, *table.words)):
                    self._columns[word].append(column)
        self._labels = _list_labels(schema)
        self._roles = _list_roles(schema)
        labels = {word for words in self._labels for word in words}
        self._vocabulary = frozenset((*self._columns, *self._tables, *labels))
        self._sorted = sorted(self._vocabulary)  # so that equally good words always come in the same order
        self._expand = lru_cache(maxsize=4_096)(self._find_expansions)

    def _find_expansions(self, word: str, written: str) -> tuple[tuple[str, float], ...]:
        """Return the words in names that a stem may mean, each with a factor for its likelihood.

        `written` is the word before stemming, which is looked up in the sources of synonyms; if empty, they are not
        used.
        """
        meanings: dict[str, float] = {}
        if word in self._vocabulary:
            meanings[word] = 1.0
        for synonym in sorted(SYNONYMS.get(word, ())):
            if synonym in self._vocabulary:
                meanings.setdefault(synonym, _SYNONYM)
        if len(word) >= _MIN_PREFIX_LETTERS:
            for other in self._sorted:
                shorter, longer = sorted((word, other), key=len)
                if (
                    len(shorter) >= _MIN_PREFIX_LETTERS
                    and longer.startswith(shorter)
                    and len(longer) - len(shorter) <= 4
                ):
                    meanings.setdefault(other, _PREFIX)
        if not meanings and len(word) >= _MIN_ROOT_LETTERS:
            for other in self._tables:
                if _share_root(word, other):
                    meanings.setdefault(other, _ROOT)
        return tuple(meanings.items()) or tuple(self._find_synonyms(written).items())

    def _find_synonyms(self, written: str) -> dict[str, float]:
        """Return the words in names that sources of synonyms return for a word, each with a factor."""
        meanings: dict[str, float] = {}
        for source in self._synonyms if written else ():
            for other, similarity in source.find_similar(written):
                word = stem(other)
                if word in self._vocabulary and similarity >= _MIN_SIMILARITY:
                    meanings.setdefault(word, _SOURCED * min(1.0, 0.5 + similarity))
        return meanings

    def has_word(self, word: str) -> bool:
        """Return whether a word is in the name of a table or a column."""
        return word in self._vocabulary

    def _expand_all(self, stems: Sequence[str], written: Sequence[str]) -> list[tuple[tuple[str, float], ...]]:
        return [self._expand(word, text) for word, text in zip_longest(stems, written, fillvalue="")]

    def match_columns(self, stems: Sequence[str], written: Sequence[str] = ()) -> list[NameMatch]:
        """Return the columns that words may name, best first. `written` are the words before stemming."""
        meanings = self._expand_all(stems, written)
        if not all(meanings):
            return []
        candidates = {column.ref: column for word, _ in meanings[-1] for column in self._columns.get(word, ())}
        for words in meanings[:-1]:
            refs = {column.ref for word, _ in words for column in self._columns.get(word, ())}
            candidates = {ref: column for ref, column in candidates.items() if ref in refs}
        matches = []
        for column in candidates.values():
            table = self._schema.table(column.table)
            score, why = _score_column(meanings, column, table)
            if 0 < score < _MIN_SCORE and len(candidates) == 1:
                score = _ONLY_COLUMN  # no other column has these words
            if score >= _MIN_SCORE:
                matches.append(NameMatch(column.table, column, score, why))
        matches.extend(NameMatch(column.table, column, 1.0, "name") for column in self._labels.get(tuple(stems), ()))
        matches.extend(self._match_displays(stems))
        # Among equal scores, tables with shorter names come first, because callers use only the first matches.
        return sorted(matches, key=lambda match: (-match.score, len(self._schema.table(match.table).words)))

    def _match_displays(self, stems: Sequence[str]) -> Iterator[NameMatch]:
        """Yield the display columns of tables without a column for names, for "the name of the continent"."""
        if stems[-1] != _NAME and stems[0] != _NAME:
            return
        others = set(stems) - {_NAME}
        for table in self._schema.tables:
            if (not others or others in (set(table.words), set(table.core))) and not _has_name(table):
                display = self._schema.column(table.display_ref)
                yield NameMatch(table.name, display, _DISPLAY if others else _DISPLAY - 0.1, "name of the row")

    def match_initials(self, stems: Sequence[str]) -> list[NameMatch]:
        """Return the columns whose name consists of the first letters of the words: "miles per gallon" is mpg."""
        initials = "".join(word[0] for word in stems)
        columns = self._columns.get(initials, ()) if len(initials) > 2 else ()
        return [NameMatch(c.table, c, _NEARLY_WHOLE, "name") for c in columns if c.words == (initials,)]

    def match_tables(self, stems: Sequence[str], written: Sequence[str] = ()) -> list[NameMatch]:
        """Return the tables that words may name, best first. `written` are the words before stemming."""
        meanings = self._expand_all(stems, written)
        if not all(meanings) and list(stems) != [_PERSON]:
            return []
        matches: list[NameMatch] = []
        for table in {table.name: table for word, _ in meanings[-1] for table in self._tables.get(word, ())}.values():
            chosen, factor = _choose_meanings(meanings, table.words)
            score = factor * _score_table(chosen, table) if chosen else 0.0
            if score >= _MIN_SCORE:
                matches.append(NameMatch(table.name, None, score, _explain(factor, score)))
        best = max((match.score for match in matches), default=0.0)
        roles = self._roles.get(frozenset(stems), ()) if best < _NEARLY_WHOLE else ()
        matches.extend(NameMatch(name, None, _ROLE, "role") for name in roles)
        if not matches and list(stems) == [_PERSON]:
            people = [table for table in self._schema.tables if table.second_display]
            matches.extend(NameMatch(table.name, None, _PEOPLE, "synonym") for table in people)
        if best >= _NEARLY_WHOLE:
            # "Concert" names the table of concerts, not the table of singers in concerts.
            matches = [
                match if match.score >= _NEARLY_WHOLE else replace(match, score=0.5 * match.score) for match in matches
            ]
        return sorted(matches, key=lambda match: -match.score)


def _share_root(first: str, second: str) -> bool:
    """Return whether two stems differ only at their ends, such as "prescrib" and "prescript"."""
    pairs = enumerate(zip(first, second, strict=False))
    shared = next((index for index, (letter, other) in pairs if letter != other), len(first))
    return shared >= _MIN_ROOT_LETTERS and max(len(first), len(second)) - shared <= _MAX_ENDING_LETTERS


def _list_labels(schema: AskSchema) -> dict[tuple[str, ...], list[AskColumn]]:
    """Return the columns by the stems of their labels, which users gave them."""
    labels: dict[tuple[str, ...], list[AskColumn]] = defaultdict(list)
    for column in schema.columns():
        if column.label:
            labels[tuple(stem(word) for word in split_words(column.label))].append(column)
    return labels


def _list_roles(schema: AskSchema) -> dict[frozenset[str], list[str]]:
    """Return tables by the words in the names of keys that refer to them: a "student_id" refers to a student."""
    roles: dict[frozenset[str], list[str]] = defaultdict(list)
    for key in schema.foreign_keys:
        words = frozenset(schema.column(key.ref).words) - _GENERIC
        if words and key.to_table not in roles[words]:
            roles[words].append(key.to_table)
    return roles


def _has_name(table: AskTable) -> bool:
    """Return whether a table has a column named "name", or its own name and "name", as in "customer name"."""
    return any(set(column.core) == {_NAME} or set(column.words) == {_NAME} for column in table.columns)


def _choose_meanings(
    meanings: Iterable[Sequence[tuple[str, float]]], allowed: Sequence[str]
) -> tuple[frozenset[str], float]:
    """Return one word in `allowed` for each word of a span, and the mean of their factors.

    Return an empty set if a word of the span has none.
    """
    chosen: set[str] = set()
    factors: list[float] = []
    for words in meanings:
        # "Cell phone" names the cell number: the second word repeats the first.
        fitting = [(word, 0.95 * factor if word in chosen else factor) for word, factor in words if word in allowed]
        if not fitting:
            return frozenset(), 0.0
        word, factor = max(fitting, key=lambda pair: (pair[0] not in chosen, pair[1]))
        if word in chosen and factor > _SYNONYM:
            return frozenset(), 0.0  # the same word twice
        chosen.add(word)
        factors.append(factor)
    return frozenset(chosen), sum(factors) / len(factors)


def _score_column(
    meanings: Sequence[Sequence[tuple[str, float]]], column: AskColumn, table: AskTable
) -> tuple[float, str]:
    """Return how well words match the name of a column, from 0 to 1, and the reason.

    `meanings` are the possible stems of each word, with their weights.
    """
    chosen, factor = _choose_meanings(meanings, tuple(dict.fromkeys((*column.words, *table.words))))
    core, words = set(column.core), set(column.words)
    if not chosen or not chosen & words:
        return 0.0, ""
    if chosen == words or (core <= chosen and chosen - words):
        # "Refund amount" belongs to the table of refunds rather than to a table with more words in its name.
        unmatched = chosen - words
        score = 1.0 if not unmatched or set(table.core) <= chosen else _NEARLY_WHOLE
    elif chosen == core:
        score = 0.97
    elif _is_measure_of(column, table, chosen):
        score = _TABLE_AND_PART
    else:
        score = _score_part(chosen, core or words)
    return factor * score, _explain(factor, score)


def _is_measure_of(column: AskColumn, table: AskTable, chosen: frozenset[str]) -> bool:
    """Return whether a span names a table and a measure of it, except for generic words of the measure."""
    is_named = set(table.core) < chosen and bool(set(column.core) & chosen)
    return is_named and column.kind is ColumnKind.MEASURE and set(column.words) - chosen <= _GENERIC


def _score_part(chosen: frozenset[str], core: set[str]) -> float:
    """Return the score of a span that has only a part of a column's name. Missing generic words cost little."""
    shared = chosen & core
    specific = shared - _GENERIC
    missing = core - chosen
    if not specific:
        if shared and missing <= _GENERIC - {_ID}:
            return _GENERIC_PART
        return 0.45 * len(shared) / len(core) if shared else 0.0
    if missing <= _GENERIC:
        # "Stadium" does not ask for the id of a stadium; it names the table.
        return 0.85 if _ID not in missing else 0.45
    return 0.45 + 0.35 * len(specific) / len(core)


def _score_table(chosen: frozenset[str], table: AskTable) -> float:
    core = set(table.core)
    if chosen == set(table.words):
        return 1.0
    if chosen == core:
        return 0.97
    if table.core[-1] in chosen:
        return 0.75
    return 0.5


def _explain(factor: float, score: float) -> str:
    if factor > 0.97:
        return "name" if score >= _NEARLY_WHOLE else "part of the name"
    return "synonym" if factor >= _SYNONYM * 0.95 else "similar word"
