"""The verbs on a scope's session, as a view offers them."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypedDict, Unpack

from everhold import clock
from everhold.arguments.checks import Body, Cursor, PageSize
from everhold.arguments.failures import FAILURES
from everhold.arguments.verbs import check_verbs
from everhold.errors import UnknownField
from everhold.model import Message, Scope, Session
from everhold.model.validation import nearest
from everhold.ports.session_cache import Working
from everhold.sessions.host import Host, require_session
from everhold.sessions.messages import Messages, messages, sessions
from everhold.sessions.pipeline import change, say
from everhold.sessions.working import own_history, working_of


class MessageFields(TypedDict, total=False):
    """The fields of a message that a caller may set in addition to text and role. None leaves the default."""

    content: Sequence[Any] | None
    conversation: str | None
    model: str | None
    name: str | None
    tool_calls: Sequence[Any] | None
    tool_call_id: str | None
    tool_returns: Sequence[Any] | None
    step_id: str | None
    otid: str | None
    group_id: str | None
    sender_id: str | None
    references: Sequence[Any] | None
    metadata: Mapping[str, Any] | None
    id: str | None


class SessionFields(TypedDict, total=False):
    """The fields of a session that a caller may change."""

    topic: Body | None
    context: Mapping[str, Any]
    summary: Body | None
    title: str | None
    session_type: str
    is_archived: bool
    metadata: Mapping[str, Any]


class Viewed(Protocol):
    """A view of one scope: whose data, what it is kept with, and how acts on it are noted."""

    scope: Scope

    @property
    def _host(self) -> Host: ...

    def _noting_failure(self, operation: str, subject: str | None = None) -> AbstractContextManager[None]: ...

    def _note(self, operation: str, request: dict[str, Any]) -> None: ...


@check_verbs(FAILURES)
class SessionVerbs:
    """What can be said and read in the session that a scope names."""

    def say(self: Viewed, /, text: Body = "", *, role: str = "user", **fields: Unpack[MessageFields]) -> Message:
        """Store a message as the next of the scope's session, durably, before returning.

        Fields: content, conversation, model, name, tool_calls, tool_call_id, tool_returns, step_id, otid, group_id,
        sender_id, references, metadata, id. A session begins with what is first said in it.
        """
        with self._noting_failure("create"):
            return say(self._host, self.scope, {"role": role, **({"text": text} if text else {}), **fields})

    def messages(
        self: Viewed, *, limit: PageSize = 50, cursor: Cursor | None = None, oldest_first: bool = False
    ) -> Messages:
        """Return the messages of the scope's session, newest first."""
        with self._noting_failure("read"):
            found = messages(self._host, self.scope, limit=limit, cursor=cursor, oldest_first=oldest_first)
        self._note("read", {"messages": len(found.messages)})
        return found

    def session(self: Viewed) -> Working:
        """The working memory of the scope's session: its topic, its context and the last messages in it."""
        with self._noting_failure("read"):
            working = own_history(self._host, self.scope, working_of(self._host, self.scope))
        self._note("read", {"messages": len(working.history)})
        return working

    def sessions(self: Viewed, *, limit: PageSize = 50) -> list[Session]:
        """Return the scope's sessions, most recently active first."""
        with self._noting_failure("read"):
            found = sessions(self._host, self.scope, limit=limit)
        self._note("read", {"sessions": len(found)})
        return found

    def update_session(self: Viewed, /, **fields: Unpack[SessionFields]) -> Session:
        """Change the fields of the scope's session, which begins with this call if it does not exist.

        Fields: topic, context, summary, title, session_type, is_archived, metadata. Each replaces what was there.
        """
        with self._noting_failure("update"):
            for name in fields:
                if name not in SessionFields.__annotations__:
                    raise UnknownField(
                        f"a session takes no field {name!r}{nearest(name, SessionFields.__annotations__)}"
                    )
            return change(self._host, self.scope, fields)

    def end_session(self: Viewed) -> Session:
        """End the scope's session: it can still be read, but takes no more messages."""
        with self._noting_failure("update"):
            session = require_session(self._host.records, self.scope)
            if session.ended_at is not None:
                return session
            return change(self._host, self.scope, {"ended_at": clock.now()})
