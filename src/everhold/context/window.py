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
    """The shares of the budget, without the system text, once a conversation no longer fits as a whole.

    `turns` is for the last turns, and `background` for pinned and core memories and the summary of what fell out. What
    remains is for what is recalled.
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
    """What of a conversation goes into the next prompt.

    `messages` are the last ones, oldest first. `system` is the system text; `background` tells pinned and core memories
    and the summary of what fell out, and `recalled` what was found for the question. `cursor` is None if no message
    fell out; otherwise `messages(cursor=…)` lists those that did, newest first. `shortened_ids` names messages that are
    too long for the budget and were cut.
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
        """The memories that the window tells."""
        return (*self.background.memories, *self.recalled.memories)

    @property
    def sections(self) -> tuple[SectionUse, ...]:
        """The use of the budget by each part but the system text, in the order of the prompt."""
        turns = SectionUse(TURNS, TITLES[TURNS], self.turns_tokens, len(self.messages), 0, bool(self.shortened_ids))
        return (*self.background.sections, turns, *self.recalled.sections)

    def as_openai(self) -> list[dict[str, Any]]:
        """Return the window as the `messages` of OpenAI's chat completions, and of servers compatible with them."""
        return render_openai(self._prompt)

    def as_anthropic(self, *, cache: bool = False) -> dict[str, Any]:
        """Return the window as the arguments `system` and `messages` of Anthropic's Messages API.

        With `cache`, the end of the system text and of what the next window repeats are marked with `cache_control`.
        """
        return render_anthropic(self._prompt, cache=cache)
