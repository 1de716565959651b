"""What memories state: one thing each, or, in messages, several, each of which is kept as a memory of its own."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from everhold import clock
from everhold.facts import Statement, read_statements
from everhold.facts.conflicts import ONE_TIME
from everhold.model import Memory
from everhold.model.memory import REPEATABLE_KINDS
from everhold.model.validation import validate_row
from everhold.remember.draft import Draft, compute_content_hash
from everhold.text.dates import EARLIEST

CONFIDENCE = 0.8
"""How sure a fact is that was read from a message."""

LONGEST_STATEMENT = 400
"""Characters. A longer memory says more than one thing."""

LONGEST_MESSAGE = 20_000
"""Characters. What is longer is a document, and reading it would hold up the write."""

_WORDS_AROUND = 4
_NAME_LENGTH = 255
_INHERITED = ("organization_id", "project_id", "user_id", "agent_id", "source_agent", "trust", "namespace")


@dataclass(frozen=True)
class ReadingOptions:
    """How texts are read: whether a newer statement replaces an older one, whether facts are taken from messages,
    and in which zone times are told."""

    resolve: bool = True
    extract: bool = True
    zone: tzinfo = UTC


def read_drafts(drafts: Iterable[Draft], reading: ReadingOptions) -> list[Draft]:
    """Each draft with what it states; after a message, the facts that it tells."""
    found: list[Draft] = []
    for one in drafts:
        if one.memory.kind in REPEATABLE_KINDS:
            found += [one, *(draft_facts(one.memory, reading.zone) if reading.extract else ())]
        else:
            statement = find_statement(one.memory, reading.zone)
            if statement is not None:
                one.memory.__dict__["attribute"] = format_attribute(statement)  # nobody else has the draft yet
            found.append(one._replace(statement=statement))
    return found


def find_event_time(memory: Memory) -> datetime:
    return memory.occurred_at or memory.created_at


def format_attribute(statement: Statement) -> str:
    return f"{statement.subject}/{statement.attribute}"


def find_attribute(memory: Memory, zone: tzinfo) -> str | None:
    statement = find_statement(memory, zone)
    return None if statement is None else format_attribute(statement)


def find_statement(memory: Memory, zone: tzinfo) -> Statement | None:
    """The one thing that a memory states, if that is about all it says.

    A memory that says more must not go when one thing that it says is replaced.
    """
    if memory.kind in REPEATABLE_KINDS or len(memory.text) > LONGEST_STATEMENT:
        return None
    found = read_statements(memory.text, speaker=memory.speaker, now=find_event_time(memory), zone=zone, lasting=True)
    lasting = [one for one in found if one.attribute not in ONE_TIME] or found
    if len(lasting) != 1 or len(format_attribute(lasting[0])) > _NAME_LENGTH:
        return None
    start, end = lasting[0].span
    around = f"{memory.text[:start]} {memory.text[end:]}".split()
    return lasting[0] if len(around) <= _WORDS_AROUND else None


def draft_facts(message: Memory, zone: tzinfo) -> list[Draft]:
    """What a message tells, as memories of whoever the message is of, beyond its session."""
    if len(message.text) > LONGEST_MESSAGE:
        return []
    found = read_statements(message.text, speaker=message.speaker, now=find_event_time(message), zone=zone)
    told = {(one.kind, one.text): one for one in reversed(found) if len(format_attribute(one)) <= _NAME_LENGTH}
    return [
        Draft(_make_fact(message, one), (), None, statement=one, source_id=message.id)
        for one in reversed(told.values())
    ]


def _make_fact(message: Memory, statement: Statement) -> Memory:
    happened = statement.occurred.start if statement.occurred else None
    fact = validate_row(
        Memory,
        {
            **{name: message.__dict__[name] for name in _INHERITED},
            **_find_owner(message),
            "id": clock.make_id("mem"),
            "created_at": message.created_at,
            "updated_at": message.updated_at,
            "created_by_id": message.created_by_id,
            "kind": statement.kind,
            "text": statement.text,
            "content": _make_content(statement),
            "attribute": format_attribute(statement),
            "confidence": CONFIDENCE,
            "occurred_at": happened if happened and happened > EARLIEST else message.occurred_at,
            "valid_from": statement.valid_from,
            "provenance": {"memory": message.id, "span": list(statement.span)},
        },
    )
    fact.__dict__["hash"] = compute_content_hash(fact)  # the value is this function's own until it returns
    return fact


def _find_owner(message: Memory) -> dict[str, Any]:
    """Facts outlive the session that they are told in, unless nothing else says whose they are."""
    if message.user_id is None and message.agent_id is None:
        return {"session_id": message.session_id, "reach": message.reach}
    if message.reach != "session":
        return {"reach": message.reach}
    return {"reach": "agent" if message.agent_id else "user"}


def _make_content(statement: Statement) -> dict[str, Any]:
    """A statement's parts: its sentence alone does not always give them back."""
    names = ("text", "subject", "attribute", "value", "exclusive", "negated")
    return {name: getattr(statement, name) for name in names}


def is_extracted(memory: Memory) -> bool:
    """Whether a memory was read from a message, and its content holds what it states."""
    return "span" in memory.provenance and all(
        isinstance(memory.content.get(name), str) for name in ("text", "subject", "attribute", "value")
    )


def load_statement(memory: Memory, zone: tzinfo) -> Statement | None:
    """What a kept memory states: as its own parts say, or as its text does."""
    parts = memory.content
    if not is_extracted(memory) or parts["text"] != memory.text:
        return find_statement(memory, zone)
    return Statement(
        subject=parts["subject"],
        attribute=parts["attribute"],
        value=parts["value"],
        text=memory.text,
        kind="fact",
        exclusive=parts.get("exclusive") is True,
        negated=parts.get("negated") is True,
        occurred=None,
        valid_from=memory.valid_from,
        span=(0, len(memory.text)),
    )
