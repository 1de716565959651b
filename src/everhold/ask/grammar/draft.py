"""`FrameDraft`, which collects what the patterns read from the items of a question, until a frame is built from it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from everhold.ask.frame import Expression, Function, Literal, Ordering, Predicate
from everhold.ask.language.cues import Cue
from everhold.ask.linking.beam import Piece
from everhold.ask.linking.mention import COLUMN, TABLE, VALUE, Mention
from everhold.ask.schema import AskColumn, AskSchema, AskTable, ColumnKind, ColumnRef

TAKEN = "_"
_MIN_WHOLE_SCORE = 0.72  # the score of a name that is whole except for a generic word such as "code"


@dataclass(frozen=True)
class PlacedPredicate:
    """A condition, and the positions of the first and last item that it was read from."""

    start: int
    end: int
    predicate: Predicate
    negated: bool = False


@dataclass(frozen=True)
class GroupCondition:
    """A condition on an aggregate of related rows: on their number, as in "with at least 2 orders", or on a sum."""

    position: int
    table: str
    operator: str
    number: Literal
    figure: Expression | None = None


@dataclass(frozen=True)
class PlacedExpression:
    """An expression to show or to group by, and the position in the question where it is named."""

    position: int
    expression: Expression


@dataclass
class FrameDraft:
    """The items of a question, and what was read from them.

    `codes` has a letter for each item, or `_` if the item was used already. The letters are the codes of
    `language/cues.py` and the kinds of `linking/mention.py`; an unexplained word is an "x".
    """

    schema: AskSchema
    pieces: tuple[Piece, ...]
    codes: str = ""
    where: list[PlacedPredicate] = field(default_factory=list)
    having: list[GroupCondition] = field(default_factory=list)
    order: list[Ordering] = field(default_factory=list)
    most: tuple[str, bool] | None = None  # sort by the number of rows of this table; whether descending
    group: list[PlacedExpression] = field(default_factory=list)
    select: list[PlacedExpression] = field(default_factory=list)
    limit: int | None = None
    highest_first: bool | None = None  # sort by the shown aggregate; whether descending
    everything: bool = False
    distinct: bool = False
    assumptions: list[str] = field(default_factory=list)
    via: list[ColumnRef] = field(default_factory=list)
    is_fragment: bool = False  # whether the question changes the frame of the previous question

    def __post_init__(self) -> None:
        hints = [piece for piece in self.pieces if self._is_key_hint(piece)]
        self.via = [piece.mention.column for piece in hints if piece.mention and piece.mention.column]
        self.pieces = tuple(piece for piece in self.pieces if piece not in hints)
        self.codes = "".join(_encode(piece) for piece in self.pieces)

    def _is_key_hint(self, piece: Piece) -> bool:
        """Return whether a word only names a key, as "lost" names "lost_in_battle".

        Then it says which key to join by.
        """
        mention = piece.mention
        if mention is None or mention.kind != COLUMN or mention.column is None or mention.why in ("name", "role"):
            return False
        column = self.schema.column(mention.column)
        is_whole = mention.score >= _MIN_WHOLE_SCORE and column.kind is not ColumnKind.ID
        return self.schema.foreign_key(mention.column) is not None and not is_whole

    def find(self, pattern: str) -> Iterator[re.Match[str]]:
        """Yield the matches of a pattern in the codes from left to right.

        Items may be marked as used between matches.
        """
        position = 0
        compiled = re.compile(pattern)
        while match := compiled.search(self.codes, position):
            yield match
            position = match.start() + 1

    def take(self, *positions: int) -> None:
        """Mark items as used."""
        codes = list(self.codes)
        for position in positions:
            if position >= 0:
                codes[position] = TAKEN
        self.codes = "".join(codes)

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
        """Return the code of an item, even if it was used."""
        return _encode(self.pieces[position])

    @property
    def originals(self) -> str:
        """The codes of all items, as if none was used."""
        return "".join(map(_encode, self.pieces))

    def tables(self) -> list[tuple[int, AskTable]]:
        """Return the tables that the question names, with their positions."""
        mentions = ((number, piece.mention) for number, piece in enumerate(self.pieces))
        return [
            (number, self.schema.table(mention.table))
            for number, mention in mentions
            if mention and mention.kind == TABLE and mention.table
        ]

    def entity(self) -> AskTable | None:
        """Return the table that the question is about: the first one that it names, or names a column of."""
        mentions = [piece.mention for piece in self.pieces if piece.mention and piece.mention.owner]
        named = [mention for mention in mentions if mention.kind in (TABLE, COLUMN)] or mentions
        return self.schema.table(str(named[0].owner)) if named else None

    def mentioned_tables(self) -> list[str]:
        """Return the tables of all mentions.

        Tables that are named come before tables whose columns or values are named.
        """
        named = [table.name for _, table in self.tables()]
        owners = [p.mention.owner for p in self.pieces if p.mention and p.mention.kind in (COLUMN, VALUE)]
        return list(dict.fromkeys([*named, *(owner for owner in owners if owner)]))


def _encode(piece: Piece) -> str:
    if piece.mention:
        return piece.mention.kind
    return piece.cue.code if piece.cue else "x"


def make_count(table: str | None = None) -> Expression:
    """Return the expression for the number of rows of a table."""
    return Expression(function=Function.COUNT, of_table=table)
