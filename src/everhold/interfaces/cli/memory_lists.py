"""Lists of memories and hits for a screen of 80 columns or more, and explanations of scores.

Stored texts are never interpreted as markup, and their control characters are made visible.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from everhold import Hit, Memory
from everhold.interfaces.cli.text_lists import ListEntry, Paragraph, StyledText, TextList, make_note
from everhold.interfaces.shared.times import format_local
from everhold.model.base import Entity
from everhold.model.memory import DEFAULT_PRIORITY
from everhold.recall.hit import Why
from everhold.recall.recipe import GROUPS

_REPLACEMENTS = {code: 0xFFFD for code in [*range(0x20), *range(0x7F, 0xA0)] if chr(code) not in "\n\t"}
_MAX_TEXT_LENGTH = 400
_INDENT = 2
_BAR = "▇"
_BAR_LENGTH = 10
_MAX_CONTRIBUTIONS = 3
# Contributions to a score that no retriever makes.
_NO_RETRIEVERS = ("lead", "turn")
_GROUP_ORDER = (*dict.fromkeys(GROUPS.values()), "replaced", "related", *_NO_RETRIEVERS)
NOTHING_FOUND = "nothing found"
NOTHING_RELEVANT = "nothing relevant enough"


def clean_text(text: object, max_length: int | None = None) -> str:
    """Return stored text that is safe to print, shortened to `max_length` characters."""
    full_text = str(text).translate(_REPLACEMENTS).expandtabs()
    if max_length is not None and len(full_text) > max_length:
        full_text = full_text[: max_length - 1].rstrip() + "…"
    return full_text


_DIMENSIONS = {"user": "user_id", "project": "project_id", "agent": "agent_id"}


def name_owners(records: Iterable[Entity], scope: Mapping[str, Any]) -> dict[str, str]:
    """Map the id of each record to the names of its owners, without those that the scope already determines.

    The user is always named, a project or an agent only if the records differ in it.
    """
    rows = list(records)
    named_columns = {
        name: column
        for name, column in _DIMENSIONS.items()
        if scope.get(name) is None and (name == "user" or len({row.__dict__.get(column) for row in rows}) > 1)
    }
    return {row.id: " · ".join(_name_owner(row, named_columns)) for row in rows}


def _name_owner(record: Entity, named_columns: Mapping[str, str]) -> list[str]:
    values = {name: record.__dict__.get(column) for name, column in named_columns.items()}
    return [f"{name} {value}" for name, value in values.items() if value]


def render_memory(memory: Memory, zone: ZoneInfo, tags: Sequence[str] = ()) -> TextList:
    """Return an entry of a list: the text of a memory, and below it the details."""
    return TextList([ListEntry(_describe_memory(memory, zone, tags, ""))])


def _describe_memory(memory: Memory, zone: ZoneInfo, tags: Sequence[str], owner: str) -> tuple[Paragraph, ...]:
    """Return the text of a memory, its id, kind and time and, on a further line, the fields without default values."""
    first_line = [memory.id, memory.kind, format_local(memory.occurred_at or memory.created_at, zone)]
    second_line = [owner] if owner else []
    second_line += [memory.speaker] if memory.speaker else []
    if memory.version > 1:
        second_line.append(f"version {memory.version}")
    if memory.priority != DEFAULT_PRIORITY:
        second_line.append(f"priority {memory.priority}")
    if memory.expires_at:
        second_line.append(f"expires {format_local(memory.expires_at, zone)}")
    if memory.superseded_by:
        second_line.append(f"superseded by {memory.superseded_by}")
    second_line += [f"#{tag}" for tag in tags]
    details = "\n".join(" · ".join(line) for line in (first_line, second_line) if line)
    return _make_paragraphs(memory.text or memory.content, details)


def _make_paragraphs(text: object, details: str) -> tuple[Paragraph, ...]:
    full_text, dimmed = clean_text(text, _MAX_TEXT_LENGTH), clean_text(details)
    return Paragraph((StyledText(full_text),)), Paragraph((StyledText(dimmed, "dim"),), _INDENT)


def make_memory_list(
    memories: Iterable[Memory],
    zone: ZoneInfo,
    tags: Mapping[str, Sequence[str]],
    scope: Mapping[str, Any],
    *,
    empty: str = "no memories",
    numbered: bool = False,
) -> TextList:
    """Return a list of memories, or the note `empty` if there is no memory."""
    rows = list(memories)
    if not rows:
        return make_note(empty)
    owners = name_owners(rows, scope)
    return _make_list(
        [(_describe_memory(memory, zone, tags.get(memory.id, ()), owners[memory.id]), ()) for memory in rows], numbered
    )


def _make_list(rows: Sequence[tuple[tuple[Paragraph, ...], tuple[str, ...]]], numbered: bool) -> TextList:
    """Return the paragraphs and labels of each row; if `numbered`, the first label is a number."""
    return TextList(
        [
            ListEntry(paragraphs, (str(number), *labels) if numbered else labels)
            for number, (paragraphs, labels) in enumerate(rows, 1)
        ]
    )


def sum_by_group(why: Why) -> dict[str, float]:
    """Return the contributions to a score by group of retrievers, in a fixed order."""
    sums: dict[str, float] = {}
    for retriever, value in why.by_retriever.items():
        group = GROUPS.get(retriever, retriever)
        sums[group] = sums.get(group, 0.0) + value
    return {name: sums[name] for name in sort_groups(sums)}


def sort_groups(names: Iterable[str]) -> list[str]:
    """Return each name once: groups in their fixed order, then other names in alphabetical order."""
    positions = {name: position for position, name in enumerate(_GROUP_ORDER)}
    return sorted(set(names), key=lambda name: (positions.get(name, len(positions)), name))


def _describe_why(hit: Hit) -> tuple[StyledText, ...]:
    """Return the largest contributions, each with a bar for its share, and the words in common."""
    groups = {name: value for name, value in sum_by_group(hit.why).items() if name not in _NO_RETRIEVERS}
    total = sum(abs(value) for value in groups.values()) or 1.0
    line: list[StyledText] = []
    for name, value in sorted(groups.items(), key=lambda item: -abs(item[1]))[:_MAX_CONTRIBUTIONS]:
        bar = _BAR * round(_BAR_LENGTH * abs(value) / total)
        line += [StyledText(" · ", "dim")] if line else []
        line += [StyledText(f"{name} ", "dim"), StyledText(f"{bar} " if bar else "", "green" if value > 0 else "red")]
        line.append(StyledText(f"{value:+.2f}"))
    if hit.why.matched:
        line += [StyledText(" · ", "dim")] if line else []
        line.append(StyledText(f"shares {join_common_words(hit.why, hit.text)}", "dim"))
    return tuple(line)


def join_common_words(why: Why, text: str) -> str:
    """Return the words in common with the question, as the text writes them."""
    return ", ".join(dict.fromkeys(_find_word(term, text) for term in why.matched))


def _find_word(term: str, text: str) -> str:
    """Return the word of the text whose stem is the matched term."""
    stem = term[: max(3, len(term) - 1)]  # a stem may end differently from its word, as "happi" from "happy"
    return next((word for word in re.findall(r"\w+", text.lower()) if word.startswith(stem)), term)


def make_hit_list(
    hits: Iterable[Hit],
    zone: ZoneInfo,
    scope: Mapping[str, Any],
    *,
    why: bool = False,
    empty: str = NOTHING_FOUND,
    numbered: bool = False,
) -> TextList:
    """Return hits, best first: the score, the memory with its owner, and with `why` the reason that it is a hit."""
    hit_list = list(hits)
    if not hit_list:
        return make_note(empty)
    owners = name_owners((hit.record for hit in hit_list), scope)
    rows = []
    for hit in hit_list:
        reasons = (Paragraph(_describe_why(hit), _INDENT),) if why else ()
        rows.append(((*_describe_hit(hit, zone, owners[hit.id]), *reasons), (f"{hit.score:.2f}",)))
    return _make_list(rows, numbered)


def _describe_hit(hit: Hit, zone: ZoneInfo, owner: str) -> tuple[Paragraph, ...]:
    if hit.kind == "memory":
        return _describe_memory(hit.memory, zone, hit.tags, owner)
    parts = [hit.id, hit.kind, format_local(hit.record.created_at, zone)]
    parts += [owner] if owner else []
    if hit.kind == "message":
        parts += [part for part in (hit.message.session_id, hit.message.name or hit.message.role) if part]
    return _make_paragraphs(hit.text, " · ".join(parts))


def make_answer_list(hits: Iterable[Hit]) -> TextList:
    """Return hits in short: the speaker, the text and why it is a hit."""
    rows = [
        (
            (
                Paragraph((StyledText(clean_text(f"{hit.memory.speaker}: {hit.memory.text}")),)),
                Paragraph(_describe_why(hit)),
            ),
            (f"{hit.score:.2f}",),
        )
        for hit in hits
    ]
    return _make_list(rows, numbered=False) if rows else make_note(NOTHING_RELEVANT)


def describe_origin(memory: Memory, zone: ZoneInfo) -> str:
    """Return the source, the speaker and the time of a memory."""
    provenance = memory.provenance
    source = provenance.get("memory") or provenance.get("file") or provenance.get("url")
    parts = [f"from {source}"] if source else []
    merged = provenance.get("merged")
    if isinstance(merged, list) and merged:
        parts.append(f"merged with {len(merged)} more")
    if memory.speaker:
        parts.append(memory.speaker)
    return " · ".join([*parts, format_local(memory.occurred_at or memory.created_at, zone)])
