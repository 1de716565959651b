"""Read what memories state: at most one statement of a memory, or the facts in a message, which become memories."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any

from everhold import clock
from everhold.facts.conflicts import ONE_TIME
from everhold.facts.reading import read_statements
from everhold.facts.statement import Statement
from everhold.model import Memory
from everhold.model.memory import REPEATABLE_KINDS, VAULT
from everhold.model.validation import validate_row
from everhold.remember.deps import ReadingOptions
from everhold.remember.draft import Draft, compute_content_hash
from everhold.text.dates import EARLIEST
from everhold.text.own_name import find_own_names, is_assistant
from everhold.text.terms import fold

# The confidence of a fact that was read from a message; a rule may have misread it.
CONFIDENCE = 0.8

# In characters. A longer memory makes more than one statement.
MAX_STATEMENT_LENGTH = 400

# In characters. A longer message is a document, and reading it would delay the write.
MAX_MESSAGE_LENGTH = 20_000

# The maximum number of words of a memory outside its statement. More words say something else, which would be lost if
# the memory were superseded.
_MAX_WORDS_AROUND = 4
# The share of a sentence that a statement of an event or a pet must repeat to say all of it.
_COVERED_SHARE = 0.6
# The maximum length of a value of the column `attribute`.
_NAME_LENGTH = 255
# The fields that a fact has from its message.
_INHERITED_FIELDS = ("organization_id", "project_id", "user_id", "agent_id", "source_agent", "trust", "namespace")


def read_drafts(drafts: Iterable[Draft], reading: ReadingOptions) -> list[Draft]:
    """Return each draft with its statement; each message is followed by the drafts of its facts."""
    completed_drafts: list[Draft] = []
    for draft in drafts:
        if draft.memory.kind in REPEATABLE_KINDS:
            completed_drafts += [draft, *(draft_facts(draft.memory, reading.zone) if reading.extract else ())]
        else:
            statement = find_statement(draft.memory, reading.zone)
            if statement is not None:
                draft.memory.__dict__["attribute"] = format_attribute(statement)  # only this write has the draft
            completed_drafts.append(draft._replace(statement=statement))
    return completed_drafts


def find_event_time(memory: Memory) -> datetime:
    """Return the time that "today" in a memory's text refers to."""
    return memory.occurred_at or memory.created_at


def format_attribute(statement: Statement) -> str:
    """Return the value of the `attribute` column, by which memories that a statement may replace are found."""
    return f"{statement.subject}/{statement.attribute}"


def find_attribute(memory: Memory, zone: tzinfo) -> str | None:
    """Return the value of the `attribute` column for a memory; None if it does not make exactly one statement."""
    statement = find_statement(memory, zone)
    return None if statement is None else format_attribute(statement)


def find_statement(memory: Memory, zone: tzinfo) -> Statement | None:
    """Return the statement of a memory that makes only one and says hardly anything else, or None.

    A memory that says more must not be superseded when one of its statements is replaced.
    """
    # A vault memory is not read: its `attribute` is not encrypted and would reveal the statement.
    is_unread = memory.kind in REPEATABLE_KINDS or memory.kind == VAULT or memory.pattern is not None
    if is_unread or len(memory.text) > MAX_STATEMENT_LENGTH:
        return None
    # What is remembered for a user is said by that user, whatever name the speaker has.
    speaker = memory.speaker if memory.user_id is None else None
    own_names = find_own_names(memory.user_id)
    statements = read_statements(
        memory.text, speaker=speaker, now=find_event_time(memory), zone=zone, lasting=True, own_names=own_names
    )
    lasting_statements = [statement for statement in statements if statement.attribute not in ONE_TIME] or statements
    if [statement.attribute for statement in lasting_statements] == ["works_at", "job"]:
        employer, job = lasting_statements
        if employer.span == job.span:
            # Another employer does not end "I work as a nurse at Acme": the job may be the same.
            lasting_statements = [job]
    if len(lasting_statements) != 1 or len(format_attribute(lasting_statements[0])) > _NAME_LENGTH:
        return None
    start, end = lasting_statements[0].span
    other_words = f"{memory.text[:start]} {memory.text[end:]}".split()
    return lasting_statements[0] if len(other_words) <= _MAX_WORDS_AROUND else None


def draft_facts(message: Memory, zone: tzinfo, *, is_by_user: bool = False) -> list[Draft]:
    """Return drafts of the facts in a message; they belong to the message's owner and outlive its session.

    `is_by_user` says that the user has written the message, whatever name its speaker has. What an assistant says about
    itself is no fact.
    """
    if len(message.text) > MAX_MESSAGE_LENGTH or (is_assistant(message.speaker) and not is_by_user):
        return []
    own_names = {*find_own_names(message.user_id), *(_list_names(message.speaker) if is_by_user else ())}
    statements = read_statements(
        message.text, speaker=message.speaker, now=find_event_time(message), zone=zone, own_names=own_names
    )
    # Reversed twice, so that the first of equal statements stays, in the order of the message.
    statements_by_text = {
        (statement.kind, statement.text): statement
        for statement in reversed(statements)
        if len(format_attribute(statement)) <= _NAME_LENGTH
    }
    return [
        Draft(_make_fact(message, statement), (), None, statement=statement, source_id=message.id)
        for statement in reversed(statements_by_text.values())
    ]


def _list_names(speaker: str | None) -> list[str]:
    """Return the folded name of a speaker and its first word."""
    return [fold(speaker), fold(speaker).split()[0]] if speaker and fold(speaker).strip() else []


def add_quotes(message: Memory, spans: Iterable[tuple[int, int]], facts: Sequence[Draft]) -> list[Draft]:
    """Return drafts of the facts in a message of the user, and of the sentences at these spans in the user's words.

    Sentences whose facts say all that matters are left out. A sentence that tells of a loss takes the place of the
    fact about the loss, because it may also tell of what came instead.
    """
    drafts = list(facts)
    for start, end in spans:
        facts_within = [fact for fact in drafts if fact.statement is not None and start <= fact.statement.span[0] < end]
        if any(_covers(fact.statement, message.text[start:end]) for fact in facts_within if fact.statement is not None):
            continue
        text = message.text[start:end]
        losses = [fact.statement for fact in facts_within if fact.statement is not None and fact.statement.negated]
        if len(losses) == 1:
            statement = replace(losses[0], text=text, span=(start, end))
            drafts = [draft for draft in drafts if draft.statement != losses[0]]
            drafts.append(Draft(_make_fact(message, statement), (), None, statement, message.id))
        else:
            drafts.append(Draft(_build_fact(message, (start, end), {"kind": "fact", "text": text}), (), None))
    return drafts


def _covers(statement: Statement, sentence: str) -> bool:
    """Return whether a statement says all that matters of its sentence.

    A statement of an event or a pet must repeat most of the sentence, or its end: "My dog Rex is black" says more than
    the name.
    """
    if statement.attribute in ONE_TIME or (statement.attribute == "owns_pet" and not statement.negated):
        ending = statement.value.rpartition(" ")[2]
        return len(statement.value) >= _COVERED_SHARE * len(sentence) or sentence.rstrip(" .!…").endswith(ending)
    return not statement.negated


def _make_fact(message: Memory, statement: Statement) -> Memory:
    occurred_at = statement.occurred.start if statement.occurred else None
    fields = {
        "kind": statement.kind,
        "text": statement.text,
        "content": _make_content(statement),
        "attribute": format_attribute(statement),
        "valid_from": statement.valid_from,
        **({"occurred_at": occurred_at} if occurred_at and occurred_at > EARLIEST else {}),
    }
    return _build_fact(message, statement.span, fields)


def _build_fact(message: Memory, span: tuple[int, int], fields: Mapping[str, Any]) -> Memory:
    fact = validate_row(
        Memory,
        {
            **{name: message.__dict__[name] for name in _INHERITED_FIELDS},
            **_find_owner(message),
            "id": clock.make_id("mem"),
            "created_at": message.created_at,
            "updated_at": message.updated_at,
            "created_by_id": message.created_by_id,
            "confidence": CONFIDENCE,
            "occurred_at": message.occurred_at,
            "provenance": {"memory": message.id, "span": list(span)},
            **fields,
        },
    )
    fact.__dict__["hash"] = compute_content_hash(fact)  # no caller has the row before this function returns it
    return fact


def _find_owner(message: Memory) -> dict[str, Any]:
    """Return the columns of a fact's owner. It is the session only if the message has neither a user nor an agent."""
    if message.user_id is None and message.agent_id is None:
        return {"session_id": message.session_id, "reach": message.reach}
    if message.reach != "session":
        return {"reach": message.reach}
    return {"reach": "agent" if message.agent_id else "user"}


def _make_content(statement: Statement) -> dict[str, Any]:
    """Return the parts of a statement to store, because they cannot always be read again from its sentence."""
    names = ("text", "subject", "attribute", "value", "exclusive", "negated")
    return {name: getattr(statement, name) for name in names} | ({"adds": True} if statement.adds else {})


def is_extracted(memory: Memory) -> bool:
    """Return whether a memory was extracted from a message and its content has the parts of its statement."""
    return "span" in memory.provenance and all(
        isinstance(memory.content.get(name), str) for name in ("text", "subject", "attribute", "value")
    )


def load_statement(memory: Memory, zone: tzinfo) -> Statement | None:
    """Return the statement of a stored memory, from the parts in its content if they match its text."""
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
        adds=parts.get("adds") is True,
    )
