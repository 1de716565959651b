"""The verbs on the session that a scope names."""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from everhold.arguments.checks import Body, Identifier, ListLength
from everhold.arguments.verbs import check_verbs, log_as
from everhold.model import Conversation, Session
from everhold.ports.session_cache import WorkingMemory
from everhold.sessions.conversations import list_conversations, update_conversation
from everhold.sessions.deps import require_session
from everhold.sessions.lifecycle import (
    archive_session,
    end_session,
    open_session,
    reopen_session,
    require_deleted_session,
    require_own_session,
)
from everhold.sessions.messages import list_sessions
from everhold.sessions.pipeline import change_session
from everhold.sessions.working import read_working_memory, select_own_history
from everhold.tenancy.deletion import Deleted
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView
from everhold.views.deletion import count_rows, delete_rows, restore_rows


class SessionFields(TypedDict, total=False):
    """The fields of a session that a caller may change."""

    topic: Body | None
    context: Mapping[str, Any]
    summary: Body | None
    title: str | None
    session_type: str
    metadata: Mapping[str, Any]


class ConversationFields(TypedDict, total=False):
    """The fields of a conversation that a caller may change."""

    name: str | None
    metadata: Mapping[str, Any]


@check_verbs
class SessionVerbs(ScopedView):
    """The verbs on the session that the scope names, its working memory and its conversations."""

    @log_as("read")
    def session(self) -> WorkingMemory:
        """Return the working memory of the scope's session: its topic, its context and the last messages in it."""
        session_deps = self._parts.session_deps
        working_memory = select_own_history(session_deps, self.scope, read_working_memory(session_deps, self.scope))
        self._log_call("read", {"messages": len(working_memory.history)})
        return working_memory

    @log_as("read")
    def sessions(self, *, limit: ListLength = 50) -> list[Session]:
        """Return the scope's sessions, most recently active first."""
        rows = list_sessions(self._parts.session_deps, self.scope, limit=limit)
        self._log_call("read", {"sessions": len(rows)})
        return rows

    @log_as("read")
    def conversations(self, *, limit: ListLength = 50) -> list[Conversation]:
        """Return the conversations of the scope's session, most recently started first."""
        rows = list_conversations(self._parts.session_deps, self.scope, limit=limit)
        self._log_call("read", {"conversations": len(rows)})
        return rows

    @log_as("update")
    def update_conversation(self, /, conversation: Identifier, **fields: Unpack[ConversationFields]) -> Conversation:
        """Change the name or the metadata of a conversation in the scope's session."""
        return update_conversation(self._parts.session_deps, self.scope, conversation, fields)

    @log_as("update")
    def update_session(self, /, **fields: Unpack[SessionFields]) -> Session:
        """Change fields of the scope's session. The session is created if it does not exist.

        Fields: topic, context, summary, title, session_type, metadata. Each replaces the old value.
        """
        return change_session(self._parts.session_deps, self.scope, fields)

    @log_as("create")
    def open_session(self, /, **fields: Unpack[SessionFields]) -> Session:
        """Begin the scope's session, or return it if it exists, and set the given fields.

        The fields are those of `update_session`. If the scope names no user, it is a group session, in which every user
        may take part. Raise Conflict if the session has ended.
        """
        return open_session(self._parts.session_deps, self.scope, fields)

    @log_as("update")
    def end_session(self, *, summary: Body | None = None) -> Session:
        """End the scope's session and store its summary, if one is passed. An ended session takes no more messages.

        The episodes of the session are brought up to date.
        """
        from everhold.episodes.updating import update_session

        session = end_session(self._parts.session_deps, self.scope, summary)
        for _ in update_session(self._parts.episode_deps, session):
            pass
        return session

    @log_as("update")
    def reopen_session(self) -> Session:
        """Reopen the scope's session, so that it takes messages again, even if it is archived."""
        return reopen_session(self._parts.session_deps, self.scope)

    @log_as("update")
    def archive_session(self) -> Session:
        """End the scope's session and mark it for cold storage, to which maintenance moves its messages."""
        return archive_session(self._parts.session_deps, self.scope)

    @log_as("delete")
    def delete_session(self, *, hard: bool = False, preview: bool = False) -> Deleted:
        """Hide the scope's session with its messages and memories until `restore_session`.

        With `hard` it is purged; with `preview` its rows are only counted. Raise Conflict if the scope names a user, a
        project or an agent and the session has none, because others may take part in it.
        """
        session = require_own_session(self._parts.records, self.scope, deleted=hard)
        organization = session.organization_id
        rows = count_rows(self._parts, "session", organization, session.id, hard=hard)
        if preview:
            self._log_call("read", {"preview": sum(rows.values())})
            return Deleted(rows, preview=True)
        line = self._make_line("delete", {"hard": hard})
        delete_rows(self._parts, "session", organization, session.id, hard=hard, line=line)
        return Deleted(rows)

    @log_as("update")
    def restore_session(self) -> Session:
        """Restore the scope's session and all rows that its deletion hid."""
        records = self._parts.records
        session = require_deleted_session(records, self.scope)
        line = self._make_line("update", {"restored": True})
        restore_rows(self._parts, "session", session.organization_id, session.id, line)
        return require_session(records, self.scope)


class AsyncSessionVerbs(AsyncFacade):
    """The verbs of `SessionVerbs`, awaited."""

    session = Awaited(SessionVerbs.session)
    sessions = Awaited(SessionVerbs.sessions)
    conversations = Awaited(SessionVerbs.conversations)
    update_conversation = Awaited(SessionVerbs.update_conversation)
    update_session = Awaited(SessionVerbs.update_session)
    open_session = Awaited(SessionVerbs.open_session)
    end_session = Awaited(SessionVerbs.end_session)
    reopen_session = Awaited(SessionVerbs.reopen_session)
    archive_session = Awaited(SessionVerbs.archive_session)
    delete_session = Awaited(SessionVerbs.delete_session)
    restore_session = Awaited(SessionVerbs.restore_session)
