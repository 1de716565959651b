"""The verbs on the session that a scope names."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

from everhold import clock
from everhold.arguments.checks import Body, Cursor, Identifier, PageSize
from everhold.arguments.verbs import check_verbs, log_as
from everhold.errors import InvalidInput, UnknownField, format_value
from everhold.model import Conversation, Message, Session
from everhold.model.access import LoggedOperation, make_access_line
from everhold.model.validation import suggest_name
from everhold.ports.session_cache import WorkingMemory
from everhold.remember.forget import make_message_eraser
from everhold.remember.message_facts import remember_facts
from everhold.schema.operations import Put
from everhold.sessions.conversations import list_conversations, update_conversation
from everhold.sessions.deletion import delete_message, restore_message
from everhold.sessions.deps import require_session
from everhold.sessions.lifecycle import (
    archive_session,
    end_session,
    open_session,
    reopen_session,
    require_deleted_session,
    require_own_session,
)
from everhold.sessions.messages import Added, Messages, list_messages, list_sessions
from everhold.sessions.pipeline import change_session, draft_message, say
from everhold.sessions.working import read_working_memory, select_own_history
from everhold.tenancy.deletion import Deleted, restore
from everhold.views.account_acts import count_rows, delete_rows
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView

MessageItem = str | Mapping[str, Any]


class MessageFields(TypedDict, total=False):
    """The fields of a message that a caller may set in addition to text and role. None leaves the default."""

    content: Body | Sequence[Any] | Mapping[str, Any] | None
    conversation: Identifier | None
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
    created_at: datetime | None


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
    """What is said and read in the session that the scope names."""

    @log_as("create")
    def say(self, /, text: Body = "", *, role: str = "user", **fields: Unpack[MessageFields]) -> Message:
        """Store a message as the next of the scope's session, durably, before returning.

        Fields: content, conversation, model, name, tool_calls, tool_call_id, tool_returns, step_id, otid, group_id,
        sender_id, references, metadata, id, created_at. A session begins with what is first said in it. `content` is a
        text, a list of parts or an object, as providers write it; its words are searched. `created_at` is for messages
        that were said before, which are imported oldest first.
        """
        return say(self._parts.session_deps, self.scope, {"role": role, **({"text": text} if text else {}), **fields})

    @log_as("create")
    def add(self, messages: Iterable[MessageItem], *, conversation: Identifier | None = None) -> Added:
        """Store the turns of a conversation in the scope's session, and the facts that they tell as memories.

        A message is a text, said by the user, or the fields of `say` by name. Facts
        are derived from messages with the role "user". They belong to the user, not to the session, and name their
        message (`memory.message_id`). If one message is invalid, none is stored. A call that is repeated with the
        messages' own ids adds nothing.
        """
        session_deps, write_deps = self._parts.session_deps, self._parts.write_deps
        items = [read_item(item, conversation) for item in messages]
        for fields in items:
            draft_message(session_deps, self.scope, fields)
        said = [say(session_deps, self.scope, fields) for fields in items]
        return Added(tuple(said), tuple(remember_facts(write_deps, self.scope, said)))

    @log_as("delete")
    def delete_message(self, message_id: Identifier, *, hard: bool = False) -> Message:
        """Hide a message until `restore_message`; with `hard`, purge it with the memories derived from it alone."""
        write_deps = self._parts.write_deps
        message = delete_message(
            self._parts.session_deps, self.scope, message_id, make_message_eraser(write_deps), hard=hard
        )
        if hard:
            write_deps.drop_cached_vectors()
        return message

    @log_as("update")
    def restore_message(self, message_id: Identifier) -> Message:
        """Restore a message that `delete_message` hid."""
        return restore_message(self._parts.session_deps, self.scope, message_id)

    @log_as("read")
    def messages(
        self,
        *,
        conversation: Identifier | None = None,
        limit: PageSize = 50,
        cursor: Cursor | None = None,
        oldest_first: bool = False,
    ) -> Messages:
        """Return the messages of the scope's session, or of one conversation in it, newest first."""
        page = list_messages(
            self._parts.session_deps,
            self.scope,
            conversation=conversation,
            limit=limit,
            cursor=cursor,
            oldest_first=oldest_first,
        )
        self._note("read", {"messages": len(page)})
        return page

    @log_as("read")
    def session(self) -> WorkingMemory:
        """Return the working memory of the scope's session: its topic, its context and the last messages in it."""
        session_deps = self._parts.session_deps
        working = select_own_history(session_deps, self.scope, read_working_memory(session_deps, self.scope))
        self._note("read", {"messages": len(working.history)})
        return working

    @log_as("read")
    def sessions(self, *, limit: PageSize = 50) -> list[Session]:
        """Return the scope's sessions, most recently active first."""
        rows = list_sessions(self._parts.session_deps, self.scope, limit=limit)
        self._note("read", {"sessions": len(rows)})
        return rows

    @log_as("read")
    def conversations(self, *, limit: PageSize = 50) -> list[Conversation]:
        """Return the conversations of the scope's session, most recently started first."""
        rows = list_conversations(self._parts.session_deps, self.scope, limit=limit)
        self._note("read", {"conversations": len(rows)})
        return rows

    @log_as("update")
    def update_conversation(self, /, conversation: Identifier, **fields: Unpack[ConversationFields]) -> Conversation:
        """Change the name or the metadata of a conversation in the scope's session."""
        return update_conversation(self._parts.session_deps, self.scope, conversation, fields)

    @log_as("update")
    def update_session(self, /, **fields: Unpack[SessionFields]) -> Session:
        """Change the fields of the scope's session, which begins with this call if it does not exist.

        Fields: topic, context, summary, title, session_type, metadata. Each replaces what was there.
        """
        return change_session(self._parts.session_deps, self.scope, fields)

    @log_as("create")
    def open_session(self, /, **fields: Unpack[SessionFields]) -> Session:
        """Begin the scope's session, or return it if it exists, and set these fields of it.

        Fields: those of `update_session`. Without a user in the scope it is a group session: every user may take part.
        Conflict if the session has ended.
        """
        return open_session(self._parts.session_deps, self.scope, fields)

    @log_as("update")
    def end_session(self, *, summary: Body | None = None) -> Session:
        """End the scope's session, with a summary if there is one: it can be read, but takes no more messages."""
        return end_session(self._parts.session_deps, self.scope, summary)

    @log_as("update")
    def reopen_session(self) -> Session:
        """Let the scope's session take messages again, also if it is archived."""
        return reopen_session(self._parts.session_deps, self.scope)

    @log_as("update")
    def archive_session(self) -> Session:
        """End the scope's session and mark it for cold storage, to which maintenance moves its messages."""
        return archive_session(self._parts.session_deps, self.scope)

    @log_as("delete")
    def delete_session(self, *, hard: bool = False, preview: bool = False) -> Deleted:
        """Hide the scope's session with its messages and memories until `restore_session`.

        With `hard` it is purged; with `preview` its rows are only counted. Conflict if the scope names a user, a
        project or an agent and the session belongs to none: others may take part in it.
        """
        session = require_own_session(self._parts.records, self.scope, deleted=hard)
        organization = session.organization_id
        rows = count_rows(self._parts, "session", organization, session.id, hard=hard)
        if preview:
            self._note("read", {"preview": sum(rows.values())})
            return Deleted(rows, preview=True)
        line = self._make_line("delete", {"hard": hard})
        delete_rows(self._parts, "session", organization, session.id, hard=hard, line=line)
        return Deleted(rows)

    @log_as("update")
    def restore_session(self) -> Session:
        """Restore the scope's session with exactly what its deletion hid."""
        records = self._parts.records
        session = require_deleted_session(records, self.scope)
        restore(records, "session", session.organization_id, session.id, self._make_line("update", {"restored": True}))
        self._parts.write_deps.scope_rows.invalidate()
        return require_session(records, self.scope)

    def _make_line(self, operation: LoggedOperation, request: dict[str, Any]) -> Put:
        interface = self._parts.settings.interface
        return Put(make_access_line(self.scope, operation, clock.now(), request, interface=interface))


def read_item(item: MessageItem, conversation: str | None) -> dict[str, Any]:
    """Return the fields of a message that is a text, or fields by name. UnknownField for one that no message has."""
    if not isinstance(item, str | Mapping):
        raise InvalidInput(
            f"{format_value(item)} is not a message", value=item, remedy="pass a text, or fields by name"
        )
    fields = {"text": item} if isinstance(item, str) else {name: item[name] for name in item if item[name] is not None}
    known = ("role", "text", *MessageFields.__annotations__)
    for name in fields:
        if name not in known:
            raise UnknownField(
                f"a message's {format_value(name)} cannot be given", value=name, remedy=suggest_name(str(name), known)
            )
    if conversation is not None:
        fields.setdefault("conversation", conversation)
    return {"role": "user", **fields}


class AsyncSessionVerbs(AsyncFacade):
    """The verbs of `SessionVerbs`, awaited."""

    say = Awaited(SessionVerbs.say)
    add = Awaited(SessionVerbs.add)
    delete_message = Awaited(SessionVerbs.delete_message)
    restore_message = Awaited(SessionVerbs.restore_message)
    messages = Awaited(SessionVerbs.messages)
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
