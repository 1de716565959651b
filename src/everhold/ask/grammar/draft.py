"""A frame in the making: the items of a question, and what the patterns have read from them so far."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from everhold.ask.frame import Expression, Function, Literal, Ordering, Predicate
from everhold.ask.language.cues import Cue
from everhold.ask.linking.beam import Piece
from everhold.ask.linking.mention import COLUMN, TABLE, VALUE, Mention
from everhold.ask.schema import AskColumn, AskSchema, AskTable, ColumnKind, ColumnRef

TAKEN = "_"
_WHOLE_NAME = 0.72  # a name of which only a generic word such as "code" is left out


@dataclass(frozen=True)
class PlacedPredicate:
    """A condition and the positions of the first and last item that say it."""

    start: int
    end: int
    predicate: Predicate
    negated: bool = False


@dataclass(frozen=True)
class GroupCondition:
    """A condition on a figure of related rows: on their number, "with at least 2 orders", or on a sum."""

    position: int
    table: str
    operator: str
    number: Literal
    figure: Expression | None = None


@dataclass(frozen=True)
class PlacedExpression:
    """Something to be shown, and where the question names it."""

    position: int
    expression: Expression


@dataclass
class FrameDraft:
    """The items of a question and what was read from them. `codes` has a letter for each item, `_` if it is used."""

    schema: AskSchema
    pieces: tuple[Piece, ...]
    codes: str = ""
    where: list[PlacedPredicate] = field(default_factory=list)
    having: list[GroupCondition] = field(default_factory=list)
    order: list[Ordering] = field(default_factory=list)
    most: tuple[str, bool] | None = None  # order by the number of related rows of a table; whether the most come first
    group: list[PlacedExpression] = field(default_factory=list)
    select: list[PlacedExpression] = field(default_factory=list)
    limit: int | None = None
    highest_first: bool | None = None  # sort by the figure that is shown
    everything: bool = False
    distinct: bool = False
    assumptions: list[str] = field(default_factory=list)
    via: list[ColumnRef] = field(default_factory=list)
    is_fragment: bool = False  # it changes the frame of the question before

    def __post_init__(self) -> None:
        hints = [piece for piece in self.pieces if self._is_key_hint(piece)]
        self.via = [piece.mention.column for piece in hints if piece.mention and piece.mention.column]
        self.pieces = tuple(piece for piece in self.pieces if piece not in hints)
        self.codes = "".join(_encode(piece) for piece in self.pieces)

    def _is_key_hint(self, piece: Piece) -> bool:
        """Say whether a word such as "lost" only names a key, here "lost_in_battle": it says which way to join."""
        mention = piece.mention
        if mention is None or mention.kind != COLUMN or mention.column is None or mention.why in ("name", "role"):
            return False
        column = self.schema.column(mention.column)
        is_whole = mention.score >= _WHOLE_NAME and column.kind is not ColumnKind.ID
        return self.schema.foreign_key(mention.column) is not None and not is_whole

    def find(self, pattern: str) -> Iterator[re.Match[str]]:
        """Yield matches of a pattern, from left to right, over what is not yet used when each is looked for."""
        position = 0
        compiled = re.compile(pattern)
        while match := compiled.search(self.codes, position):
            yield match
            position = match.start() + 1 if self.codes[match.start()] != TAKEN else max(match.start() + 1, position)

    def take(self, *positions: int) -> None:
        """Mark items as used."""
        letters = list(self.codes)
        for position in positions:
            if position >= 0:
                letters[position] = TAKEN
        self.codes = "".join(letters)

    def mention(self, position: int) -> Mention:
        mention = self.pieces[position].mention
        assert mention is not None
        return mention

    def cue(self, position: int) -> Cue:
        cue = self.pieces[position].cue
        assert cue is not None
        return cue

    def column(self, position: int) -> AskColumn:
        ref = self.mention(position).column
        assert ref is not None
        return self.schema.column(ref)

    def original(self, position: int) -> str:
        """Return the code of an item, whether or not it is used."""
        return _encode(self.pieces[position])

    @property
    def originals(self) -> str:
        return "".join(map(_encode, self.pieces))

    def tables(self) -> list[tuple[int, AskTable]]:
        """Return the tables that the question names, with their positions."""
        named = ((number, piece.mention) for number, piece in enumerate(self.pieces))
        return [(number, self.schema.table(m.table)) for number, m in named if m and m.kind == TABLE and m.table]

    def entity(self) -> AskTable | None:
        """Return what the question is about: the first table it names or of which it names a column."""
        mentions = [piece.mention for piece in self.pieces if piece.mention and piece.mention.owner]
        named = [mention for mention in mentions if mention.kind in (TABLE, COLUMN)] or mentions
        return self.schema.table(str(named[0].owner)) if named else None

    def mentioned_tables(self) -> list[str]:
        """Return the tables of all mentions, those that are named themselves first."""
        named = [table.name for _, table in self.tables()]
        owners = [p.mention.owner for p in self.pieces if p.mention and p.mention.kind in (COLUMN, VALUE)]
        return list(dict.fromkeys([*named, *(owner for owner in owners if owner)]))


def _encode(piece: Piece) -> str:
    if piece.mention:
        return piece.mention.kind
    return piece.cue.code if piece.cue else "x"


def make_count(table: str | None = None) -> Expression:
    """Return the number of rows of a table."""
    return Expression(function=Function.COUNT, of_table=table)
