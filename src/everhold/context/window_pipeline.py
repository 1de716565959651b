"""Build the window of a conversation.

    system text → pinned memories and core memory → last turns → summary of older messages → recalled memories → prompt

The parts that change least come first, and those that depend on the question come last, so that a prompt cache can
reuse most of the prompt.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from everhold.context import fence
from everhold.context.calls import arrange_turns
from everhold.context.cutting import CHARACTERS_PER_TOKEN
from everhold.context.parts import TURN_TOKENS, PromptTurn, TextPart
from everhold.context.pipeline import assemble
from everhold.context.providers import ContextSource, make_earlier_section, make_recalled_section
from everhold.context.reading import read_turn
from everhold.context.recent import ReadOlder, RecentTurns, read_recent, select_recent
from everhold.context.section import BLOCKS, PINNED, SUMMARY, Context, Counter, Provider, Section
from everhold.context.window import STRATEGIES, Window
from everhold.errors import InvalidInput
from everhold.model import Memory, Message, Session

# The shares of the sections of the background.
_BACKGROUND_SHARES = {PINNED: 0.2, BLOCKS: 0.3, SUMMARY: 0.5}
# For the messages with the background and with what is recalled, and for the beginning of the conversation.
_FRAME_TOKENS = 4 * TURN_TOKENS
_HEADING_TOKENS = 12
# The maximum number of first messages that may belong to the system text. Later system messages are ordinary turns.
_MAX_LEADING = 4
_MAX_QUESTION_LENGTH = 2_000
_EMPTY_CONTEXT = Context("", 0)


@dataclass(frozen=True)
class WindowRequest:
    """The arguments of the caller. If there is no question, the last message of a user is the question."""

    question: str | None
    budget: int
    strategy: str
    system: str | None


@dataclass(frozen=True)
class WindowSource:
    """The conversation, and the functions that read the contents of its window.

    `message_count` is roughly the number of messages, including deleted ones, or 0 if it is unknown. `read_first`
    returns the first messages, `summarise_before` a summary of the messages before a message within a number of tokens,
    `core_providers` make the sections of pinned memories and core memory, and `recall` returns what is found for a
    question.
    """

    context: ContextSource
    session: Session
    message_count: int
    read_older: ReadOlder
    read_first: Callable[[int], Sequence[Message]]
    summarise_before: Callable[[Message, int], str]
    core_providers: Sequence[Provider]
    recall: Callable[[str], Iterable[Memory | Message]]


def build_window(source: WindowSource, request: WindowRequest, count_tokens: Counter) -> Window:
    """Return the window of a conversation in at most `budget` tokens."""
    counter = partial(_count_bounded, count_tokens, request.budget)
    leading = _find_leading(source)
    system = _join_system(request.system, leading)
    system_tokens = counter(system) + TURN_TOKENS if system else 0
    room = _require_room(request.budget, system_tokens)
    background, recent = _choose_turns(source, request.strategy, room, {message.id for message in leading}, counter)
    recall_room = room - background.tokens - recent.tokens
    recalled = _EMPTY_CONTEXT
    if request.strategy == "adaptive":
        recalled = _recall_missing(source, request.question, recent, background, recall_room, counter)
    context_tokens = [context.tokens + TURN_TOKENS for context in (background, recalled) if context.text]
    return Window(
        request.strategy,
        request.budget,
        system_tokens + recent.tokens + sum(context_tokens),
        system,
        background,
        recent.messages,
        recalled,
        recent.messages[0].id if recent.messages and recent.has_older else None,
        recent.shortened_ids,
        recent.tokens,
        tuple(_order_prompt(system, background, recent.turns, recalled)),
    )


def _count_bounded(count_tokens: Counter, budget: int, text: str) -> int:
    """Return the tokens of a text, or `budget + 1` if it is so long that tokenizing it would be slow and of no use."""
    return budget + 1 if len(text) > budget * CHARACTERS_PER_TOKEN else count_tokens(text)


def _find_leading(source: WindowSource) -> list[Message]:
    """Return the system messages at the beginning of the conversation, which are in the system text of every window."""
    leading: list[Message] = []
    for message in source.read_first(_MAX_LEADING):
        if read_turn(message).role != "system":
            break
        leading.append(message)
    return leading


def _join_system(system: str | None, leading: Sequence[Message]) -> str:
    texts = [part.text for message in leading for part in read_turn(message).parts if isinstance(part, TextPart)]
    return "\n\n".join([*([system] if system and system.strip() else []), *texts])


def _require_room(budget: int, system_tokens: int) -> int:
    """Return the number of tokens that the system text leaves; raise InvalidInput if it leaves none."""
    room = budget - system_tokens - _FRAME_TOKENS
    if system_tokens and room <= 0:
        raise InvalidInput(
            f"the system text needs {system_tokens:,} of {budget:,} tokens",
            value=budget,
            remedy=f"pass a budget of more than {system_tokens + _FRAME_TOKENS:,} tokens, or a shorter text",
        )
    return max(0, room)


def _choose_turns(
    source: WindowSource, strategy: str, room: int, leading_ids: set[str], counter: Counter
) -> tuple[Context, RecentTurns]:
    """Return the background and the last turns. A conversation that fits is returned whole and without a summary."""
    shares = STRATEGIES[strategy]
    background_room = int(shares.background * room)
    core_sections = [provider() for provider in source.core_providers] if strategy == "adaptive" else []
    background = _assemble_background(core_sections, background_room, counter)
    whole_room = room - background.tokens
    # The room for turns does not depend on the length of the background, so that the first turn stays the same.
    turns_room = int(shares.turns * room)
    read_message = partial(read_turn, is_group=source.session.user_id is None)
    limit = turns_room if _is_sure_to_overflow(source, whole_room) else whole_room
    recent = _leave_out(read_recent(source.read_older, read_message, limit, counter), leading_ids)
    if not recent.has_older and recent.tokens <= whole_room:
        return background, recent
    recent = select_recent(recent, turns_room, counter)
    if not background_room or not recent.messages:
        return background, recent
    summary_room = background_room - max(
        fence.count_fence_tokens(counter), min(background.tokens, background_room // 2)
    )
    earlier_summary = (
        source.summarise_before(recent.messages[0], summary_room - _HEADING_TOKENS)
        if summary_room > _HEADING_TOKENS
        else ""
    )
    earlier_section = make_earlier_section(source.context, source.session, earlier_summary)
    return _assemble_background([*core_sections, earlier_section], background_room, counter), recent


def _is_sure_to_overflow(source: WindowSource, room: int) -> bool:
    """Return whether a conversation does not fit as a whole, even if half of its messages have been deleted."""
    return source.message_count * (TURN_TOKENS + 1) > 2 * room


def _assemble_background(sections: Iterable[Section], room: int, counter: Counter) -> Context:
    filled_sections = [section for section in sections if section.items]
    total_share = sum(_BACKGROUND_SHARES[section.name] for section in filled_sections)
    sections_with_shares = [
        replace(section, share=_BACKGROUND_SHARES[section.name] / total_share) for section in filled_sections
    ]
    return assemble([partial(lambda section: section, section) for section in sections_with_shares], room, counter)


def _leave_out(recent: RecentTurns, message_ids: set[str]) -> RecentTurns:
    """Return the turns without the leading system messages, which are in the system text."""
    if not message_ids:
        return recent
    indexes = [index for index, message in enumerate(recent.messages) if message.id not in message_ids]
    return replace(
        recent,
        messages=tuple(recent.messages[index] for index in indexes),
        turns=tuple(recent.turns[index] for index in indexes),
        costs=tuple(recent.costs[index] for index in indexes),
    )


def _recall_missing(
    source: WindowSource, question: str | None, recent: RecentTurns, background: Context, room: int, counter: Counter
) -> Context:
    """Return what is recalled for the question and is not yet in the window."""
    query = question or _find_question(recent)
    if not query.strip():
        return _EMPTY_CONTEXT
    shown_ids = {message.id for message in recent.messages} | {memory.id for memory in background.memories}

    def is_missing(record: Memory | Message) -> bool:
        sources = record.message_ids if isinstance(record, Memory) else ()
        return record.id not in shown_ids and not (sources and shown_ids.issuperset(sources))

    section = make_recalled_section(source.context, lambda: filter(is_missing, source.recall(query)))
    return assemble([lambda: section], room, counter)


def _find_question(recent: RecentTurns) -> str:
    """Return the text of the last turn of a user, or "" if there is none."""
    for turn in reversed(recent.turns):
        if turn.role == "user":
            text = " ".join(part.text for part in turn.parts if isinstance(part, TextPart))
            return text[:_MAX_QUESTION_LENGTH]
    return ""


def _order_prompt(system: str, background: Context, turns: Sequence[PromptTurn], recalled: Context) -> list[PromptTurn]:
    """Return the turns of the prompt. Recalled memories come before a last turn of a user, or else at the end."""
    arranged = arrange_turns(turns)
    if recalled.text:
        index = len(arranged) - (1 if arranged and arranged[-1].role == "user" else 0)
        arranged.insert(index, PromptTurn("user", (TextPart(recalled.text),), is_recalled=True))
    beginning: list[PromptTurn] = []
    if system:
        beginning.append(PromptTurn("system", (TextPart(system),)))
    if background.text:
        beginning.append(PromptTurn("user", (TextPart(background.text),)))
    return [*beginning, *arranged]
