"""Chooses mentions that do not overlap: a beam search for those that score best and belong together.

The score of a choice is the sum over its mentions of score × words, plus a bonus for phrases of the grammar, minus a
penalty for each word that nothing explains, minus the distance between the tables involved.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from everhold.ask.language.cues import FILLERS, Cue, match_cue
from everhold.ask.language.tokens import Token
from everhold.ask.linking.mention import COLUMN, TABLE, VALUE, Mention
from everhold.ask.schema import AskSchema

_WIDTH = 40
_UNKNOWN_WORD = -0.6
_PHRASE = 0.5  # for each word of a cue of at least two words
_HOP = -0.25  # for each key between a table and those before it
_UNCONNECTED = -2.0
_SAME_TABLE = 0.4  # "name of the singer", "the singer's name"
_LIST = 0.2  # columns of one table in a list
_OR = Cue("|")
_LONG_SPAN = 0.05  # for each further word: one long name is likelier than two short ones
_OWN_COLUMN = 0.5  # "volvo model": a value and the name of its column


@dataclass(frozen=True)
class Piece:
    """A mention, a cue or a word that nothing explains, at its place in the question."""

    start: int
    end: int
    mention: Mention | None = None
    cue: Cue | None = None
    is_quoted: bool = False
    text: str = ""


@dataclass(frozen=True)
class Assignment:
    """What the words of a question mean. `pieces` are in their order, without fillers."""

    pieces: tuple[Piece, ...] = ()
    score: float = 0.0
    tables: frozenset[str] = frozenset()

    @property
    def mentions(self) -> list[Mention]:
        return [piece.mention for piece in self.pieces if piece.mention]


def assign_mentions(schema: AskSchema, tokens: Sequence[Token], mentions: Iterable[Mention]) -> list[Assignment]:
    """Return assignments, best first."""
    by_start: dict[int, list[Mention]] = defaultdict(list)
    for mention in mentions:
        by_start[mention.start].append(mention)
    beams: list[list[Assignment]] = [[] for _ in range(len(tokens) + 1)]
    beams[0] = [Assignment()]
    for start in range(len(tokens)):
        beam = _prune(beams[start])
        for assignment in beam:
            for mention in by_start[start]:
                quoted = tokens[start].kind == "quoted"
                beams[mention.end].append(_add_mention(schema, assignment, mention, quoted))
            plain = _add_words(assignment, tokens, start)
            beams[plain[1]].append(plain[0])
    return [_drop_modifiers(assignment) for assignment in _prune(beams[-1])]


def _drop_modifiers(assignment: Assignment) -> Assignment:
    """Leave out a table that stands directly before another: "car models" are models."""
    kept = [
        piece
        for piece, following in zip_longest(assignment.pieces, assignment.pieces[1:])
        if not (following and _is_table(piece) and _is_table(following) and piece.end == following.start)
    ]
    return replace(assignment, pieces=tuple(kept))


def _is_table(piece: Piece) -> bool:
    return piece.mention is not None and piece.mention.kind == TABLE


def _prune(assignments: list[Assignment]) -> list[Assignment]:
    return sorted(assignments, key=lambda assignment: -assignment.score)[:_WIDTH]


def _add_words(assignment: Assignment, tokens: Sequence[Token], start: int) -> tuple[Assignment, int]:
    """Read a cue, a filler, a mark or an unexplained word."""
    token = tokens[start]
    matched = match_cue([word.lower for word in tokens[start : start + 10]]) if token.kind == "word" else None
    if matched:
        cue, length = matched
        if cue.code == "}" and tokens[start + length : start + length + 1] and tokens[start + length].kind == "number":
            cue, length = _OR, 1  # "after 2013 or before 2008" has two comparisons
        if cue.code == "~":
            return assignment, start + length
        if cue.code == "L" and token.lower in ("which", "what") and not _begins_clause(assignment):
            cue = Cue("r")
        text = " ".join(word.lower for word in tokens[start : start + length])
        piece = Piece(start, start + length, cue=cue, text=text)
        bonus = _PHRASE * length if length > 1 else 0.0
        if cue.code == "o" and assignment.pieces and (before := assignment.pieces[-1].cue) and before.code in "a#$":
            bonus = _UNKNOWN_WORD  # "average order by country" sorts nothing
        return _extend(assignment, piece, bonus), start + length
    if token.kind == "mark":
        code = "," if token.text in ",:()" else "."
        return _extend(assignment, Piece(start, start + 1, cue=Cue(code)), 0.0), start + 1
    if token.lower in FILLERS or token.lower in ("the", "a", "an"):
        return assignment, start + 1
    return _extend(assignment, Piece(start, start + 1, text=token.lower), _UNKNOWN_WORD), start + 1


def _begins_clause(assignment: Assignment) -> bool:
    """Say whether a word stands where "which" asks; elsewhere it begins a relative clause."""
    if not assignment.pieces:
        return True
    cue = assignment.pieces[-1].cue
    return cue is not None and cue.code in ".,&:"


def _extend(assignment: Assignment, piece: Piece, gain: float) -> Assignment:
    return replace(assignment, pieces=(*assignment.pieces, piece), score=assignment.score + gain)


def _add_mention(schema: AskSchema, assignment: Assignment, mention: Mention, quoted: bool) -> Assignment:
    gain = mention.score * mention.weight + _LONG_SPAN * (mention.weight - 1) + _score_fit(schema, assignment, mention)
    extended = _extend(assignment, Piece(mention.start, mention.end, mention=mention, is_quoted=quoted), gain)
    if mention.owner:
        extended = replace(extended, tables=extended.tables | {mention.owner})
    return extended


def _read_codes_after_mention(assignment: Assignment) -> str:
    """Return the codes of the cues after the last mention."""
    codes = ""
    for piece in reversed(assignment.pieces):
        if piece.mention:
            break
        codes += piece.cue.code if piece.cue else "x"
    return codes


def _score_fit(schema: AskSchema, assignment: Assignment, mention: Mention) -> float:
    """Score how well a mention goes with those before it."""
    if not mention.owner:
        return 0.0
    gain = 0.0
    if assignment.tables and mention.owner not in assignment.tables:
        distances = schema.distances_from(mention.owner)
        nearest = min((distances.get(table, 99) for table in assignment.tables), default=0)
        gain += _UNCONNECTED if nearest == 99 else _HOP * nearest
    before = assignment.pieces[-1].mention if assignment.pieces else None
    nearby = [piece.mention for piece in assignment.pieces[-3:] if piece.mention]
    # What stands side by side would have been one span if it belonged together.
    between = _read_codes_after_mention(assignment)
    if mention.kind == TABLE and nearby and nearby[-1].owner == mention.table and nearby[-1].kind == COLUMN:
        gain += _SAME_TABLE * (len(between) > 0 and set(between) <= set("fied"))
    elif mention.kind == COLUMN and nearby and nearby[-1].owner == mention.owner and nearby[-1].score > 0.1:
        gain += (_SAME_TABLE if nearby[-1].kind == TABLE else _LIST) * bool(between)
    if mention.column and nearby and nearby[-1].column == mention.column:
        gain += _OWN_COLUMN if VALUE in (mention.kind, nearby[-1].kind) else -0.3
    if before and before.kind == mention.kind == TABLE and before.table == mention.table:
        gain -= 0.5
    return gain
