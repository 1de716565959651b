"""The window of a conversation: the prompt for its next turn, within a budget of tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from everhold.context.anthropic_messages import render_anthropic
from everhold.context.openai_messages import render_openai
from everhold.context.parts import PromptTurn
from everhold.context.section import TITLES, TURNS, Context, SectionUse
from everhold.model import Memory, Message


class WindowShares(NamedTuple):
    """The shares of the budget after the system text, for a conversation that does not fit as a whole.

    `turns` is for the last turns. `background` is for pinned memories, core memory and the summary of older messages.
    The remainder is for recalled memories.
    """

    turns: float
    background: float


STRATEGIES: Mapping[str, WindowShares] = {
    "truncate": WindowShares(turns=1.0, background=0.0),
    "summarise": WindowShares(turns=0.8, background=0.2),
    "adaptive": WindowShares(turns=0.55, background=0.2),
}


@dataclass(frozen=True)
class Window:
    """The part of a conversation that goes into the next prompt.

    `messages` are the last messages, oldest first. `system` is the system text, `background` has pinned memories, core
    memory and the summary of older messages, and `recalled` has what was found for the question. `cursor` is None if
    the window has all messages; otherwise `messages(cursor=…)` lists the others, newest first. `shortened_ids` are the
    ids of messages that were cut because they are too long for the budget.
    """

    strategy: str
    budget: int
    tokens: int
    system: str
    background: Context
    messages: tuple[Message, ...]
    recalled: Context
    cursor: str | None = None
    shortened_ids: tuple[str, ...] = ()
    turns_tokens: int = 0
    _prompt: tuple[PromptTurn, ...] = field(default=(), repr=False)

    @property
    def memories(self) -> tuple[Memory, ...]:
        """The memories in the window."""
        return (*self.background.memories, *self.recalled.memories)

    @property
    def sections(self) -> tuple[SectionUse, ...]:
        """The use of the budget by each part except the system text, in the order of the prompt."""
        turns = SectionUse(TURNS, TITLES[TURNS], self.turns_tokens, len(self.messages), 0, bool(self.shortened_ids))
        return (*self.background.sections, turns, *self.recalled.sections)

    def as_openai(self) -> list[dict[str, Any]]:
        """Return the window as the `messages` of OpenAI's chat completions, and of servers compatible with them."""
        return render_openai(self._prompt)

    def as_anthropic(self, *, cache: bool = False) -> dict[str, Any]:
        """Return the window as the arguments `system` and `messages` of Anthropic's Messages API.

        With `cache`, the end of the system text and of the part that the next window repeats are marked with
        `cache_control`.
        """
        return render_anthropic(self._prompt, cache=cache)
