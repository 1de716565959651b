"""Write names of tables and columns as words of a sentence."""

import re
from collections.abc import Iterable, Sequence

from everhold.ask.profile.semantics import find_unit
from everhold.ask.schema import AskColumn, AskSchema, AskTable, ColumnKind, ColumnRef

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
# Words at the end of a name that only say how the values are stored.
_STORAGE_WORDS = frozenset({"yn", "flag"})
_ABBREVIATIONS = {"num": "number", "qty": "quantity", "amt": "amount", "avg": "average", "pct": "percent"}
_MOMENT_WORDS = ("on", "at")
_UNCOUNTED = frozenset(
    {"by", "data", "information", "staff", "sales", "series", "news", "people", "aircraft", "equipment"}
)
_IRREGULAR = {"person": "people", "child": "children", "man": "men", "woman": "women"}
_SINGULARS = {plural: singular for singular, plural in _IRREGULAR.items()}


def split_words(name: str) -> list[str]:
    """Return the words of a name in lower case, except initials: "placed_at" becomes "placed", "at"."""
    words = [word if word.isupper() and len(word) > 1 else word.lower() for word in _PARTS.findall(name)]
    spelled = [_ABBREVIATIONS.get(word, word) for word in words if word not in _STORAGE_WORDS]
    return spelled or [name]


def make_plural(noun: str) -> str:
    """Return the plural of a noun, or the noun itself if it looks like one."""
    start, _, last = noun.rpartition(" ")
    return f"{start} {_add_ending(last)}".strip()


def _add_ending(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word in _UNCOUNTED or word in _SINGULARS or (word.endswith("s") and not word.endswith(("ss", "us", "is"))):
        return word
    if re.search(r"[^aeiou]y$", word):
        return f"{word[:-1]}ies"
    if word.endswith(("ss", "us", "x", "z", "ch", "sh")):
        return f"{word}es"
    return f"{word}s"


def make_singular(noun: str) -> str:
    """Return the singular of a noun, or the noun itself if it looks like one."""
    start, _, last = noun.rpartition(" ")
    return f"{start} {_drop_ending(last)}".strip()


def _drop_ending(word: str) -> str:
    if word in _SINGULARS:
        return _SINGULARS[word]
    if word in _UNCOUNTED or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "uses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    return word[:-1]


def join_words(texts: Sequence[str], link: str = "and") -> str:
    """Return texts as a list in a sentence: "a, b and c"."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {link} {texts[-1]}"


class FrameNames:
    """Names the tables and columns of one frame. The table of a column is named only if the column is ambiguous.

    `subject` is the table that the phrase is about, and `tables` are all tables of the frame.
    """

    def __init__(self, schema: AskSchema, subject: str, tables: Iterable[str]) -> None:
        self.schema = schema
        self.subject = subject
        self._tables = [schema.table(name) for name in dict.fromkeys(tables)]

    def name_rows(self, table: str, *, is_plural: bool = True) -> str:
        """Return the noun for the rows of a table: "order lines" for order_lines."""
        noun = " ".join(split_words(table))
        return make_plural(noun) if is_plural else make_singular(noun)

    def name_column(self, ref: ColumnRef) -> str:
        """Return the noun for a column, with its table if another table of the frame has a column of the same name."""
        label = self.name_alone(ref)
        owner = self.name_rows(ref.table, is_plural=False)
        is_shared = any(
            table.name != ref.table and any(self.name_alone(column.ref) == label for column in table.columns)
            for table in self._tables
        )
        return f"{owner} {label}" if is_shared and ref.table != self.subject and owner not in label else label

    def name_alone(self, ref: ColumnRef) -> str:
        """Return the noun for a column: its label, or its name without the words of its table."""
        column = self.schema.column(ref)
        if column.label:
            return column.label
        words = split_words(ref.column)
        prefix = self.name_rows(ref.table, is_plural=False).split()
        is_foreign_id = words[len(prefix) :] == ["id"] and ref.table != self.subject
        if words[: len(prefix)] == prefix and len(words) > len(prefix) and not is_foreign_id:
            words = words[len(prefix) :]
        # The unit is written after numbers instead: "distance over 1500 km".
        if column.unit and len(words) > 1 and find_unit(ref.column, words) == column.unit:
            words = words[:-1]
        if column.is_time and len(words) > 1 and words[-1] in _MOMENT_WORDS:
            words = [*words[:-1], "date"]
        if column.kind is ColumnKind.FLAG and len(words) > 1 and words[0] == "is":
            words = words[1:]
        return " ".join(words)

    def name_group(self, ref: ColumnRef) -> str:
        """Return the noun for a group: "store" for the key or the name of stores, otherwise the noun for the column."""
        key = self.schema.foreign_key(ref)
        if self.names_row(ref) and ref.table != self.subject:
            return self.name_rows(ref.table, is_plural=False)
        if key is not None and key.to_ref == self.schema.table(key.to_table).key_ref:
            return self._name_reference(ref, key.to_table)
        return self.name_column(ref)

    def _name_reference(self, ref: ColumnRef, table: str) -> str:
        """Return the noun for a column that refers to a table: its own name, such as "origin", or that of the table."""
        words = [word for word in split_words(ref.column) if word not in ("id", "code", "key")]
        noun = self.name_rows(table, is_plural=False)
        return noun if not words or words == noun.split() else " ".join(words)

    def names_row(self, ref: ColumnRef) -> bool:
        """Return whether a column shows or identifies the rows of its table."""
        table = self.schema.table(ref.table)
        return ref == table.key_ref or ref in table.shown_refs

    def has_one_time(self, ref: ColumnRef) -> bool:
        """Return whether a column is the only column with times in the frame's tables."""
        times = [column.ref for table in self._tables for column in _list_times(table)]
        return times == [ref]

    def find_verb(self, ref: ColumnRef) -> str:
        """Return the verb of a column such as "placed_at": "placed". Empty if it has none."""
        words = split_words(ref.column)
        return " ".join(words[:-1]) if len(words) > 1 and words[-1] in _MOMENT_WORDS else ""


def _list_times(table: AskTable) -> list[AskColumn]:
    return [column for column in table.columns if column.is_time]
