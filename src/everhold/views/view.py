"""`View`, which has all verbs on a scope, and `AsyncView`, whose verbs are awaited."""

from typing import TYPE_CHECKING

from everhold.views.agent_files import AgentFileVerbs, AsyncAgentFileVerbs
from everhold.views.agents import AgentVerbs, AsyncAgentVerbs
from everhold.views.blocks import AsyncBlockVerbs, BlockVerbs
from everhold.views.conflicts import AsyncConflictVerbs, ConflictVerbs
from everhold.views.connections import AsyncConnectionVerbs, ConnectionVerbs
from everhold.views.data import AsyncDataVerbs
from everhold.views.episodes import AsyncEpisodeVerbs, EpisodeVerbs
from everhold.views.events import AsyncEventVerbs, EventVerbs
from everhold.views.hints import ViewHints
from everhold.views.learning import AsyncLearningVerbs, LearningVerbs
from everhold.views.memories import AsyncMemoryVerbs, MemoryVerbs
from everhold.views.messages import AsyncMessageVerbs, MessageVerbs
from everhold.views.recall import AsyncRecallVerbs, RecallVerbs
from everhold.views.runs import AsyncRunVerbs, RunVerbs
from everhold.views.sessions import AsyncSessionVerbs, SessionVerbs
from everhold.views.states import AsyncStateVerbs, StateVerbs
from everhold.views.tools import AsyncToolVerbs, ToolVerbs
from everhold.views.windows import AsyncWindowVerbs, WindowVerbs
from everhold.views.workspaces import AsyncWorkspaceVerbs, WorkspaceVerbs

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class View(
    MemoryVerbs,
    ConflictVerbs,
    RecallVerbs,
    MessageVerbs,
    SessionVerbs,
    WindowVerbs,
    EpisodeVerbs,
    EventVerbs,
    AgentVerbs,
    AgentFileVerbs,
    StateVerbs,
    BlockVerbs,
    ToolVerbs,
    RunVerbs,
    WorkspaceVerbs,
    ConnectionVerbs,
    LearningVerbs,
    ViewHints,
):
    """All verbs on the data of one scope. Data is read and written only through views."""


class AsyncView(
    AsyncMemoryVerbs,
    AsyncConflictVerbs,
    AsyncRecallVerbs,
    AsyncMessageVerbs,
    AsyncSessionVerbs,
    AsyncWindowVerbs,
    AsyncEpisodeVerbs,
    AsyncEventVerbs,
    AsyncAgentVerbs,
    AsyncAgentFileVerbs,
    AsyncStateVerbs,
    AsyncBlockVerbs,
    AsyncToolVerbs,
    AsyncRunVerbs,
    AsyncWorkspaceVerbs,
    AsyncDataVerbs,
    AsyncConnectionVerbs,
    AsyncLearningVerbs,
    ViewHints,
):
    """A view whose verbs are awaited: `await view.recall("…")`."""

    def __init__(self, view: View, pool: "ThreadPoolExecutor") -> None:
        super().__init__(view, pool)
        self.scope = view.scope

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.scope.dimensions})"
