"""The settings as keyword arguments, for type checkers and editors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar

from everhold.arguments.checks import Checked, check_nested

T = TypeVar("T")
# A value that `Settings` validates, so that a wrong one raises the same InvalidSettings as in a file.
Setting = Annotated[T, Checked(check_nested)]
Section = Setting[Mapping[str, Any]]


class SettingsFields(TypedDict, total=False):
    """The fields of `Settings`. A section is a dictionary: `sqlite={"synchronous": "NORMAL"}`."""

    layout: Setting[str]
    storage: Setting[str]
    vectors: Setting[str]
    sessions: Setting[str]
    blobs: Setting[str]
    embedding: Section
    timezone: Setting[str]
    text_bytes: Setting[int]
    interface: Setting[str]
    strict_scopes: Setting[bool]
    index_messages: Setting[bool]
    grace_days: Setting[float]
    archive_days: Setting[float | None]
    slow_call_seconds: Setting[float]
    sqlite: Section
    postgres: Section
    duckdb: Section
    dynamodb: Section
    chroma: Section
    redis: Section
    images: Section
    remember: Section
    llm: Setting[Mapping[str, Any] | None]
    maintenance: Section
    workspaces: Section
    log: Section
    encryption: Setting[Mapping[str, Any] | None]
    uploads: Section
    connections: Section
    ask: Section
    voice: Section
    data: Setting[str | Path]
    cache: Setting[str | Path]
