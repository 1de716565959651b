"""Choose mentions that do not overlap, by a beam search for the assignments with the best scores.

The score of an assignment is the sum of score × words over its mentions, plus a bonus for phrases of the grammar, minus
a penalty for each unexplained word, minus the distances between its tables.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from everhold.ask.language.cues import FILLERS, Cue, match_cue
from everhold.ask.language.tokens import Token
from everhold.ask.linking.mention import COLUMN, TABLE, VALUE, Mention
from everhold.ask.schema import AskSchema

_BEAM_WIDTH = 40
_MAX_CUE_TOKENS = 10
_NEARBY = 3  # pieces; a mention further back is not near
_UNREACHABLE = 99  # the distance of tables that no keys connect
_OR = Cue("|")

# What the following add to the score of an assignment.
_UNKNOWN_WORD = -0.6
_PHRASE = 0.5  # for each word of a cue of at least two words
_HOP = -0.25  # for each key between a table and those before it
_UNCONNECTED = -2.0
_SAME_TABLE = 0.4  # "name of the singer", "the singer's name"
_LIST = 0.2  # columns of one table in a list
_LONG_SPAN = 0.05  # for each further word: one long name is likelier than two short ones
_OWN_COLUMN = 0.5  # "volvo model": a value and the name of its column
_REPEATED_COLUMN = -0.3
_REPEATED_TABLE = -0.5  # directly after each other


@dataclass(frozen=True)
class Piece:
    """A mention, a cue or an unexplained word, with its position in the question."""

    start: int
    end: int
    mention: Mention | None = None
    cue: Cue | None = None
    is_quoted: bool = False
    text: str = ""


@dataclass(frozen=True)
class Assignment:
    """A meaning for all words of a question. `pieces` are in their order, without fillers."""

    pieces: tuple[Piece, ...] = ()
    score: float = 0.0
    tables: frozenset[str] = frozenset()

    @property
    def mentions(self) -> list[Mention]:
        return [piece.mention for piece in self.pieces if piece.mention]


@dataclass(frozen=True)
class _BeamStep:
    """A possible continuation of an assignment. The new assignment is made only if the step is among the best."""

    assignment: Assignment
    score: float
    piece: Piece | None = None
    owner: str | None = None

    def make_assignment(self) -> Assignment:
        if self.piece is None:
            return self.assignment
        tables = self.assignment.tables
        if self.owner and self.owner not in tables:
            tables |= {self.owner}
        return Assignment((*self.assignment.pieces, self.piece), self.score, tables)


def assign_mentions(schema: AskSchema, tokens: Sequence[Token], mentions: Iterable[Mention]) -> list[Assignment]:
    """Return assignments of the mentions to a question, best first."""
    by_start: dict[int, list[tuple[Mention, Piece]]] = defaultdict(list)
    for mention in mentions:
        is_quoted = tokens[mention.start].kind == "quoted"
        piece = Piece(mention.start, mention.end, mention=mention, is_quoted=is_quoted)
        by_start[mention.start].append((mention, piece))
    beams: list[list[_BeamStep]] = [[] for _ in range(len(tokens) + 1)]
    beams[0] = [_BeamStep(Assignment(), 0.0)]
    for start in range(len(tokens)):
        words = _read_words(tokens, start)
        for assignment in _prune(beams[start]):
            neighbours = _find_neighbours(assignment)
            for mention, piece in by_start[start]:
                gain = mention.score * mention.weight + _LONG_SPAN * (mention.weight - 1)
                gain += _score_fit(schema, assignment, neighbours, mention)
                beams[mention.end].append(_BeamStep(assignment, assignment.score + gain, piece, mention.owner))
            beams[words.end].append(_add_words(assignment, words))
    return [_drop_modifiers(assignment) for assignment in _prune(beams[-1])]


def _drop_modifiers(assignment: Assignment) -> Assignment:
    """Return the assignment without tables that are directly before another table: "car models" are models."""
    pieces = [
        piece
        for piece, following in zip_longest(assignment.pieces, assignment.pieces[1:])
        if not (following and _is_table(piece) and _is_table(following) and piece.end == following.start)
    ]
    return replace(assignment, pieces=tuple(pieces))


def _is_table(piece: Piece) -> bool:
    return piece.mention is not None and piece.mention.kind == TABLE


def _prune(steps: list[_BeamStep]) -> list[Assignment]:
    return [step.make_assignment() for step in sorted(steps, key=lambda step: -step.score)[:_BEAM_WIDTH]]


@dataclass(frozen=True)
class _Words:
    """The reading of the words at a position if no mention begins there. Without a piece, they are fillers.

    `as_relative` is the piece to use if a question word such as "which" begins a relative clause here.
    """

    end: int
    piece: Piece | None = None
    gain: float = 0.0
    as_relative: Piece | None = None


def _read_words(tokens: Sequence[Token], start: int) -> _Words:
    """Read the cue, filler, punctuation mark or unexplained word at a position."""
    token = tokens[start]
    matched = (
        match_cue([word.lower for word in tokens[start : start + _MAX_CUE_TOKENS]]) if token.kind == "word" else None
    )
    if matched:
        cue, length = matched
        if cue.code == "}" and tokens[start + length : start + length + 1] and tokens[start + length].kind == "number":
            cue, length = _OR, 1  # "after 2013 or before 2008" has two comparisons
        end = start + length
        if cue.code == "~":
            return _Words(end)
        text = " ".join(word.lower for word in tokens[start:end])
        relative = None
        if cue.code == "L" and token.lower in ("which", "what"):
            relative = Piece(start, end, cue=Cue("r"), text=text)
        return _Words(end, Piece(start, end, cue=cue, text=text), _PHRASE * length if length > 1 else 0.0, relative)
    if token.kind == "mark":
        code = "," if token.text in ",:()" else "."
        return _Words(start + 1, Piece(start, start + 1, cue=Cue(code)))
    if token.lower in FILLERS or token.lower in ("the", "a", "an"):
        return _Words(start + 1)
    return _Words(start + 1, Piece(start, start + 1, text=token.lower), _UNKNOWN_WORD)


def _add_words(assignment: Assignment, words: _Words) -> _BeamStep:
    piece, gain = words.piece, words.gain
    if words.as_relative and not _begins_clause(assignment):
        piece = words.as_relative
    previous = assignment.pieces[-1].cue if assignment.pieces else None
    if previous and previous.code in "a#$" and piece and piece.cue and piece.cue.code == "o":
        gain = _UNKNOWN_WORD  # "average order by country" sorts nothing
    return _BeamStep(assignment, assignment.score + gain, piece)


def _begins_clause(assignment: Assignment) -> bool:
    """Return whether "which" would be a question word here. Elsewhere it begins a relative clause."""
    if not assignment.pieces:
        return True
    cue = assignment.pieces[-1].cue
    return cue is not None and cue.code in ".,&:"


@dataclass(frozen=True)
class _Neighbours:
    """The end of an assignment: its last piece if it is a mention, and the last mention among the last pieces."""

    before: Mention | None
    near: Mention | None
    codes_between: str
    """The codes of the cues after the last mention."""


def _find_neighbours(assignment: Assignment) -> _Neighbours:
    pieces = assignment.pieces
    near = next((piece.mention for piece in pieces[: -_NEARBY - 1 : -1] if piece.mention), None)
    codes = ""
    for piece in reversed(pieces):
        if piece.mention:
            break
        codes += piece.cue.code if piece.cue else "x"
    return _Neighbours(pieces[-1].mention if pieces else None, near, codes)


def _score_fit(schema: AskSchema, assignment: Assignment, neighbours: _Neighbours, mention: Mention) -> float:
    """Return a score for how well a mention fits the mentions before it."""
    owner = mention.owner
    if not owner:
        return 0.0
    gain = 0.0
    if assignment.tables and owner not in assignment.tables:
        distances = schema.measure_distances(owner)
        nearest = min([distances.get(table, _UNREACHABLE) for table in assignment.tables])
        gain += _UNCONNECTED if nearest == _UNREACHABLE else _HOP * nearest
    before, near, between = neighbours.before, neighbours.near, neighbours.codes_between
    if near:
        # Words directly side by side would be one span if they belonged together, so a cue is required in between.
        if mention.kind == TABLE and near.owner == mention.table and near.kind == COLUMN:
            gain += _SAME_TABLE * (len(between) > 0 and set(between) <= set("fied"))
        elif mention.kind == COLUMN and near.owner == owner and near.score > 0.1:
            gain += (_SAME_TABLE if near.kind == TABLE else _LIST) * bool(between)
        if mention.column and near.column == mention.column:
            gain += _OWN_COLUMN if VALUE in (mention.kind, near.kind) else _REPEATED_COLUMN
    if before and before.kind == mention.kind == TABLE and before.table == mention.table:
        gain += _REPEATED_TABLE
    return gain
