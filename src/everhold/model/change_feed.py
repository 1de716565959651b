"""The change feed: a line for every change of a record."""

from typing import Literal

from everhold.model.base import Row
from everhold.model.fields import Id, Integer, Label, Name, Text

FeedOperation = Literal["put", "delete", "restore", "reindex"]


class Outbox(Row):
    """One line of the change feed, which every projection follows. The store assigns `sequence`.

    The columns of the scope are copied from the changed record, so that a scope which may read the record can also read
    its lines after the record was purged. `user_id` is empty if the record has no user. An idempotency key is unique
    per user. A line that deletes or restores a container, such as a session, stands for the rows that belong to it too.
    "reindex" means that only the search entries of a record changed.
    """

    sequence: Integer = 0
    organization_id: Id
    user_id: Text = ""
    project_id: Id | None = None
    agent_id: Id | None = None
    session_id: Id | None = None
    namespace: Label | None = None
    entity: Label
    entity_id: Id
    operation: FeedOperation
    generation: Integer = 0
    idempotency_key: Name | None = None
    digest: bytes | None = None


class OutboxMark(Row):
    """The last line of the outbox on a day, written as `2026-11-16`. Trimming needs it: lines have no time."""

    day: Label
    last_sequence: Integer
