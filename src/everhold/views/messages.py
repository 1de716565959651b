"""The verbs on the messages of a scope."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict, Unpack

from everhold.arguments.checks import (
    Body,
    Cursor,
    HitCount,
    Identifier,
    ListLength,
    MinimumScore,
    NeighbourCount,
    Only,
    PageSize,
    Question,
)
from everhold.arguments.verbs import check_verbs, log_as
from everhold.errors import InvalidInput, UnknownField, format_value
from everhold.model import Message
from everhold.model.validation import suggest_name
from everhold.recall.filters import FilterArguments, make_filter
from everhold.recall.message_hits import MessageHits, add_neighbours
from everhold.recall.pipeline import recall
from everhold.recall.recipe import Recipe, get_recipe
from everhold.recall.request import Request
from everhold.recall.text_reading import find_stating_sentences
from everhold.remember.forget import make_message_eraser
from everhold.remember.message_facts import remember_facts
from everhold.schema.operations import Op, Where
from everhold.sessions.archive import put_back_scope_session
from everhold.sessions.deletion import delete_message, restore_message
from everhold.sessions.messages import AddResult, Messages, list_messages
from everhold.sessions.neighbours import list_recent, read_around, read_neighbours
from everhold.sessions.pipeline import draft_message, say
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView

_MESSAGE_KINDS = ("message",)


class MessageFields(TypedDict, total=False):
    """The fields that a caller may pass in addition to the text and the role. None means the default."""

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


class MessageInput(MessageFields, total=False):
    """A message as `add` takes it: the arguments of `say` by name."""

    role: str
    text: str | None


MessageItem = str | MessageInput


@check_verbs
class MessageVerbs(ScopedView):
    """The verbs that store, list, search and delete messages."""

    @log_as("create")
    def say(self, /, text: Body = "", *, role: str = "user", **fields: Unpack[MessageFields]) -> Message:
        """Append a message to the scope's session and return it. It is stored durably before the call returns.

        The first message creates the session. Fields: content, conversation, model, name, tool_calls, tool_call_id,
        tool_returns, step_id, otid, group_id, sender_id, references, metadata, id, created_at.

        `content` is a text, a list of parts or an object in the form that model providers use; the words in it can be
        searched. Pass `created_at` to import earlier messages, oldest first.
        """
        return say(self._parts.session_deps, self.scope, {"role": role, **({"text": text} if text else {}), **fields})

    @log_as("create")
    def add(self, messages: Iterable[MessageItem], *, conversation: Identifier | None = None) -> AddResult:
        """Append messages to the scope's session, and store the facts that they state as memories.

        A message is a text, which gets the role "user", or a mapping of the arguments of `say`. Facts are derived only
        from messages with the role "user". They belong to the user, not to the session, and `memory.message_id` names
        their message. If one message is invalid, none is stored. Repeating a call whose messages have ids adds nothing.
        """
        session_deps, write_deps = self._parts.session_deps, self._parts.write_deps
        items = [read_message_fields(item, conversation) for item in messages]
        # Each message has a commit of its own, so all are checked before the first one is stored.
        for fields in items:
            draft_message(session_deps, self.scope, fields)
        stored_messages = [say(session_deps, self.scope, fields) for fields in items]
        return AddResult(
            tuple(stored_messages),
            tuple(remember_facts(write_deps, self.scope, stored_messages, find_stating_sentences)),
        )

    @log_as("delete")
    def delete_message(self, message_id: Identifier, *, hard: bool = False) -> Message:
        """Hide a message until `restore_message`. `hard` purges it and the memories derived only from this message."""
        write_deps = self._parts.write_deps
        message = delete_message(
            self._parts.session_deps, self.scope, message_id, make_message_eraser(write_deps), hard=hard
        )
        if hard:
            write_deps.drop_cached_texts()
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
        around: Identifier | None = None,
    ) -> Messages:
        """Return a page of the messages of the scope's session, or of one conversation in it, newest first.

        `cursor` is the `cursor` of another page, or the id of a message. The page then begins with the next older
        message, or with `oldest_first` with the next newer message. `around` is the id of the message to put in the
        middle of the page.
        """
        if around is None:
            page = list_messages(
                self._parts.session_deps,
                self.scope,
                conversation=conversation,
                limit=limit,
                cursor=cursor,
                oldest_first=oldest_first,
            )
        elif cursor is None:
            page = read_around(
                self._parts.session_deps,
                self.scope,
                around,
                limit=limit,
                oldest_first=oldest_first,
                conversation=conversation,
            )
        else:
            raise InvalidInput("around and cursor are both given", remedy="pass one of them")
        self._log_call("read", {"messages": len(page)})
        return page

    @log_as("search")
    def search_messages(
        self,
        query: Question,
        *,
        neighbours: NeighbourCount = 2,
        k: HitCount = 10,
        conversation: Identifier | None = None,
        minimum: MinimumScore | None = None,
        only: Only | None = None,
        cursor: Cursor | None = None,
        recipe: str | Recipe = "hybrid",
        asked_at: datetime | None = None,
        **filters: Unpack[FilterArguments],
    ) -> MessageHits:
        """Return the messages that answer a question, best first, each with its neighbours in its conversation.

        A view with a user searches all sessions of the user and prefers its own session. `only="session"` searches only
        that session, and `conversation` only one conversation. The other arguments are those of `recall`. Filters:
        where, after, before.
        """
        scope, message_filter = self._narrow(only), make_filter(**filters, among=_MESSAGE_KINDS)
        # Archived messages are in no index.
        put_back_scope_session(self._parts.session_deps, self.scope)
        if conversation is not None:
            in_conversation = Where("conversation_id", Op.EQ, conversation)
            message_filter = replace(message_filter, conditions=(*message_filter.conditions, in_conversation))
        request = Request(
            query,
            k,
            message_filter,
            minimum=minimum,
            cursor=cursor,
            recipe=get_recipe(recipe),
            asked_at=asked_at,
            among=_MESSAGE_KINDS,
        )
        hits = recall(self._parts.find_recall_deps(), scope, request)
        self._log_call("search", {"k": k, "hits": len(hits), "length": len(query)})
        return add_neighbours(hits, lambda message: read_neighbours(self._parts.records, scope, message, neighbours))

    @log_as("read")
    def recent_messages(self, agent: Identifier | None = None, n: ListLength = 10) -> list[Message]:
        """Return the last `n` messages of all sessions that the scope reads, newest first.

        `agent` limits them to the sessions of one agent. A view with a session and no user reads only that session.
        """
        messages = list_recent(self._parts.session_deps, self.scope, agent, n)
        self._log_call("read", {"messages": len(messages)})
        return messages


def read_message_fields(item: MessageItem, conversation: str | None) -> dict[str, Any]:
    """Return the fields of a message that was passed as a text or as a mapping. Raise UnknownField for other names."""
    if not isinstance(item, str | Mapping):
        raise InvalidInput(
            f"{format_value(item)} is not a message", value=item, remedy="pass a text, or fields by name"
        )
    values = {"text": item} if isinstance(item, str) else item
    fields: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    field_names = ("role", "text", *MessageFields.__annotations__)
    for name in fields:
        if name not in field_names:
            raise UnknownField(
                f"a message has no field {format_value(name)}", value=name, remedy=suggest_name(str(name), field_names)
            )
    if conversation is not None:
        fields.setdefault("conversation", conversation)
    return {"role": "user", **fields}


class AsyncMessageVerbs(AsyncFacade):
    """The verbs of `MessageVerbs`, awaited."""

    say = Awaited(MessageVerbs.say)
    add = Awaited(MessageVerbs.add)
    delete_message = Awaited(MessageVerbs.delete_message)
    restore_message = Awaited(MessageVerbs.restore_message)
    messages = Awaited(MessageVerbs.messages)
    search_messages = Awaited(MessageVerbs.search_messages)
    recent_messages = Awaited(MessageVerbs.recent_messages)
