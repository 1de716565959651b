"""Uploaded files, connected databases, and learned queries on them."""

from typing import Literal

from pydantic import Field

from everhold.model.base import Entity
from everhold.model.fields import (
    Count,
    Flag,
    Id,
    Json,
    JsonList,
    JsonObject,
    Label,
    Name,
    Number,
    Sha256,
    Share,
    Text,
    Texts,
    Time,
)


class Source(Entity):
    """An uploaded file."""

    project_id: Id
    name: Name
    path: Text
    media_type: Name | None = None
    size: Count
    sha256: Sha256
    status: Label = "uploaded"
    row_count: Count | None = None


class Connection(Entity):
    """The user's own database."""

    project_id: Id
    name: Name
    kind: Label
    dsn: bytes = Field(repr=False)
    options: JsonObject = Field(default_factory=dict)


class TableMetadata(Entity):
    """One table of a source or a connection."""

    project_id: Id | None = None
    source_id: Id | None = None
    connection_id: Id | None = None
    table_name: Name
    description: Text | None = None
    row_count: Count | None = None
    primary_key: Texts = Field(default_factory=list)
    foreign_keys: JsonList = Field(default_factory=list)
    fingerprint: Name | None = None


class FieldMetadata(Entity):
    """One column of a described table."""

    project_id: Id | None = None
    table_id: Id
    name: Name
    data_type: Name
    semantic_type: Name | None = None
    description: Text | None = None
    nullable: Flag = True
    distinct_count: Count | None = None
    null_share: Share | None = None
    minimum: Json = None
    maximum: Json = None
    sample_values: JsonList = Field(default_factory=list)


class QueryPattern(Entity):
    """A question and the query that answered it, learned from a confirmed answer.

    One that a user taught in a scope with a user is used for that user only.
    """

    project_id: Id | None = None
    user_id: Id | None = None
    question: Text
    masked_question: Text
    slots: JsonObject = Field(default_factory=dict)
    frame: JsonObject = Field(default_factory=dict)
    sql: Text
    dialect: Label
    fingerprint: Name
    origin: Literal["confirmed", "corrected", "chosen", "seed"]
    wins: Count = 0
    losses: Count = 0
    last_used: Time | None = None
    status: Label = "active"


class QueryLesson(Entity):
    """What a phrase means, or how tables are joined, learned from confirmed answers.

    An alias is a name for a table, a column or a value; a metric is a name for a computation or a condition; a join has
    the two columns as its phrase.
    """

    project_id: Id | None = None
    user_id: Id | None = None
    kind: Literal["alias", "metric", "join"]
    phrase: Text
    meaning: JsonObject = Field(default_factory=dict)
    fingerprint: Name
    origin: Literal["confirmed", "corrected", "chosen", "seed"]
    wins: Count = 0
    losses: Count = 0
    last_used: Time | None = None
    status: Label = "active"


class QueryRun(Entity):
    """One question that was run as a query, and its result."""

    project_id: Id | None = None
    session_id: Id | None = None
    question: Text
    sql: Text | None = None
    status: Label
    row_count: Count | None = None
    duration: Number | None = None
    confidence: Share | None = None
    alternatives: JsonList = Field(default_factory=list)
    chart: Json = None
    pattern_id: Id | None = None
    feedback: Label | None = None
