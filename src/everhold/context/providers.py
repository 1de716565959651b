"""Provide the sections of a context from the records of a scope and the hits of a recall."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import partial
from zoneinfo import ZoneInfo

from everhold.context.section import BLOCKS, PINNED, RECALLED, SHARES, SUMMARY, TITLES, TURNS, Item, Provider, Section
from everhold.errors import InvalidInput
from everhold.model import Memory, Message, Scope, Session, User
from everhold.model.fields import check_timezone
from everhold.ports.block_access import list_prompt_blocks
from everhold.ports.records import Records
from everhold.schema.codec import encode_json
from everhold.schema.conditions import make_scope_conditions
from everhold.schema.operations import Op, Where

# The maximum number of turns in the section of recent turns.
MAX_TURNS = 200
EARLIER_TITLE = "Earlier in this session"
_CONVERSATION = "conversation"


@dataclass(frozen=True)
class ContextSource:
    """The scope whose records are read, the current time, and the time zone in which dates are shown."""

    records: Records
    scope: Scope
    now: datetime
    zone: tzinfo


def make_providers(
    source: ContextSource,
    list_pinned: Callable[[], Iterable[Memory]],
    list_messages: Callable[[], Iterable[Message]],
    recall: Callable[[], Iterable[Memory]],
) -> tuple[Provider, ...]:
    """Return the providers in the order in which their sections are shown.

    `list_pinned` returns the pinned memories, `list_messages` the last messages, and `recall` the memories found for
    the question.
    """
    session = _read_session(source)
    return (
        *make_core_providers(source, list_pinned),
        partial(make_summary_section, source, session),
        partial(make_turns_section, source, session, list_messages),
        partial(make_recalled_section, source, recall),
    )


def make_core_providers(source: ContextSource, list_pinned: Callable[[], Iterable[Memory]]) -> tuple[Provider, ...]:
    """Return the providers of pinned memories and blocks, which are in every prompt."""
    return partial(make_pinned_section, source, list_pinned), partial(make_blocks_section, source)


def make_pinned_section(source: ContextSource, list_pinned: Callable[[], Iterable[Memory]]) -> Section:
    return _make_section(PINNED, [_make_item(memory, source.zone) for memory in list_pinned()])


def make_blocks_section(source: ContextSource) -> Section:
    """Return the section of core-memory blocks of the scope's agent and user, without blocks of other users."""
    blocks = list_prompt_blocks(source.records, source.scope)
    return _make_section(BLOCKS, [Item(block.value, provenance=block.label) for block in blocks])


def make_summary_section(source: ContextSource, session: Session | None) -> Section:
    """Return the section with the summary of the scope's session."""
    if session is None or not session.summary:
        return _make_section(SUMMARY, [])
    return _make_section(SUMMARY, [Item(session.summary, at=_localise(session.updated_at, source.zone))])


def make_earlier_section(source: ContextSource, session: Session, earlier_summary: str) -> Section:
    """Return the section with the session's summary and `earlier_summary`, which is about what precedes the turns."""
    items = make_summary_section(source, session).items
    section = _make_section(SUMMARY, [*items, Item(earlier_summary)])
    return replace(section, title=EARLIER_TITLE)


def _read_session(source: ContextSource) -> Session | None:
    """Return the scope's session, if the scope may use it."""
    scope = source.scope
    if scope.session is None:
        return None
    session = source.records.get(Session, scope.organization, [scope.session]).get(scope.session)
    return session if session is not None and session.is_open_to(scope) else None


def make_turns_section(
    source: ContextSource, session: Session | None, list_messages: Callable[[], Iterable[Message]]
) -> Section:
    """Return the section with the last turns of the scope's session: messages, and memories of kind conversation."""
    scope = source.scope
    if scope.session is None:
        return _make_section(TURNS, [])
    where = [
        *make_scope_conditions(scope.confine()),
        Where("kind", Op.EQ, _CONVERSATION),
        Where("superseded_by", Op.EQ, None),
    ]
    newest = source.records.scan(
        Memory, scope.organization, where, order="created_at", descending=True, limit=MAX_TURNS
    )
    dated_items = [
        (memory.created_at, _make_item(memory, source.zone)) for memory in newest if memory.is_current_at(source.now)
    ]
    if session is not None:
        dated_items += [
            (message.created_at, _make_turn(message, source.zone)) for message in list_messages() if message.text
        ]
    dated_items.sort(key=lambda turn: turn[0], reverse=True)
    items = [item for _, item in dated_items[:MAX_TURNS]]
    return Section(TURNS, TITLES[TURNS], SHARES[TURNS], items, oldest_first=True)


def _make_turn(message: Message, zone: tzinfo) -> Item:
    speaker = message.name or message.role
    return Item(message.text or "", at=_localise(message.created_at, zone), provenance=f"said by {speaker}")


def make_recalled_section(source: ContextSource, recall: Callable[[], Iterable[Memory | Message]]) -> Section:
    """Return the section of recalled memories and messages, best first."""
    return _make_section(RECALLED, [_make_recalled_item(record, source) for record in recall()])


def _make_recalled_item(record: Memory | Message, source: ContextSource) -> Item:
    """Return the item of a recalled memory, or of a recalled message with its position in its session and its time."""
    if isinstance(record, Memory):
        return _make_item(record, source.zone)
    turn = _make_turn(record, source.zone)
    session = "this session" if record.session_id == source.scope.session else f"session {record.session_id}"
    location = session if record.position is None else f"message {record.position} of {session}"
    return replace(turn, provenance=f"{location}, {turn.provenance}", has_time=True)


def choose_zone(records: Records, scope: Scope, timezone: str | None, default_timezone: str) -> ZoneInfo:
    """Return the time zone `timezone`; if it is None, the zone of the scope's user, or the default without a user."""
    if timezone is not None:
        try:
            return ZoneInfo(check_timezone(timezone))
        except ValueError as error:
            raise InvalidInput.from_sentence(f"timezone: {error}") from None
    user = records.get(User, scope.organization, [scope.user]).get(scope.user) if scope.user is not None else None
    return ZoneInfo(default_timezone if user is None else user.timezone)


def _make_section(name: str, items: Sequence[Item]) -> Section:
    return Section(name, TITLES[name], SHARES[name], items)


def _make_item(memory: Memory, zone: tzinfo) -> Item:
    text = memory.text if memory.text.strip() else encode_json(memory.content)
    at = _localise(memory.occurred_at or memory.created_at, zone)
    return Item(text, memory, at, _describe_origin(memory))


def _describe_origin(memory: Memory) -> str | None:
    """Return the speaker of a memory and the file or agent that it comes from, or None if none of them is known."""
    parts = [f"said by {memory.speaker}"] if memory.speaker else []
    file = memory.provenance.get("file")
    if isinstance(file, str) and file.strip():
        parts.append(f"from file {file}")
    if memory.source_agent:
        parts.append(f"from agent {memory.source_agent}")
    return ", ".join(parts) or None


def _localise(moment: datetime, zone: tzinfo) -> datetime:
    try:
        return moment.astimezone(zone)
    except OverflowError:  # on the first or the last day of the calendar
        return moment
