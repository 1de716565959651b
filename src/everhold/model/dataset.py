"""Uploaded data files, connected databases, and the queries on them that were learned or run."""

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
    """One version of an uploaded data file. `path` is the path or address that it was uploaded from."""

    project_id: Id
    name: Name
    path: Text
    media_type: Name | None = None
    size: Count
    sha256: Sha256
    status: Label = "uploaded"
    row_count: Count | None = None


class Connection(Entity):
    """A connection to a database of the user. `dsn` is its address with the credentials."""

    project_id: Id
    name: Name
    kind: Label
    dsn: bytes = Field(repr=False)
    options: JsonObject = Field(default_factory=dict)


class TableMetadata(Entity):
    """One table of a source or a connection.

    Each of `foreign_keys` names a column, the table and the column that it refers to, and a confidence.
    """

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
    """One column of a table. `semantic_type` says what its values are, for example an email address."""

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

    A pattern with a `user_id` is used for that user only. `masked_question` has slots in place of values. `fingerprint`
    is a digest of the tables that the query uses, so that a change of the schema is noticed. `origin` says where the
    query comes from: the user confirmed, corrected or chose it. `wins` and `losses` count the verdicts on its answers.
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
    """The meaning of a phrase, or the way to join two tables, learned from confirmed answers.

    The phrase of an alias means a table, a column or a value. The phrase of a metric means a computation or a
    condition. The phrase of a join consists of the two columns. The other fields are those of `QueryPattern`.
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
    """One question about data: the query that was run for it, the outcome, and the verdict on the answer."""

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
