"""Choose the fields that are encrypted.

With a master key, some fields are always encrypted: directives, outputs, connection strings, memories of kind vault,
and the history of memories. Settings may name further fields. If the content of a field is copied to other fields,
these are encrypted too.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from everhold.errors import InvalidSettings
from everhold.model.base import Row
from everhold.model.memory import VAULT
from everhold.model.validation import suggest_name
from everhold.schema.catalog import ENTITIES, TABLES, get_table
from everhold.schema.table import Column, Kind, Table

ALWAYS = (
    "agents.system", "action_results.output", "executions.output", "connections.dsn",
    "revisions.value", "changes.before", "changes.after", "outbox.digest", "session_archives.content",
)  # fmt: skip
# The fields that are encrypted only in memories of kind vault, unless settings name them.
VAULT_FIELDS = ("memories.text", "memories.content")
# Fields that are derived from other fields and would reveal their content.
_COPIES: Mapping[str, tuple[str, ...]] = {
    "memories.text": ("memories.content", "memories.provenance"),
    "messages.text": (
        "messages.content", "messages.tool_calls", "messages.tool_returns", "session_archives.content",
        "episodes.summary", "episodes.quotes", "episodes.topics", "episodes.key_facts", "sessions.summary",
        "sessions.topic", "sessions.context",
        "memories.text", "memories.content", "memories.provenance",
    ),
}  # fmt: skip
_COPIES_OF_CONTENT = {"messages.content": _COPIES["messages.text"] + ("messages.text",)}
# The columns whose content is searched, by table.
SEARCHED_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "memories": ("text",),
    "messages": ("text",),
    "episodes": ("summary",),
    "blocks": ("value",),
    "table_metadata": ("description",),
    "field_metadata": ("description",),
    "query_patterns": ("question",),
}
_ENCRYPTABLE_KINDS = (Kind.TEXT, Kind.JSON, Kind.BYTES)
_REFUSED_TABLES = ("data_keys", "user_erasures", "chunks", "memory_access_logs", "secrets")
# Columns that the engine compares or counts with inside the store.
_REFUSED_COLUMNS = ("metadata", "aliases")


@dataclass(frozen=True)
class EncryptedFields:
    """The columns of each table that are encrypted when written, and those that may be encrypted when read."""

    written: Mapping[str, frozenset[str]]
    read: Mapping[str, frozenset[str]]

    def list_written(self, table: str, values: Mapping[str, Any]) -> Collection[str]:
        """Return the columns of a row to encrypt. For a memory, `values` must have its kind."""
        if table == "memories" and values["kind"] == VAULT:
            return self._written_in_vault
        return self.written.get(table, frozenset())

    @cached_property
    def _written_in_vault(self) -> frozenset[str]:
        vault = {name.partition(".")[2] for name in VAULT_FIELDS}
        return self.written.get("memories", frozenset()) | vault

    def hides_text(self, row: Row) -> bool:
        """Return whether the text of a row that search would index is encrypted."""
        table = get_table(type(row)).name
        return not set(SEARCHED_COLUMNS.get(table, ())).isdisjoint(self.list_written(table, row.__dict__))

    @property
    def names(self) -> list[str]:
        """The fields that are encrypted in every row, as `table.column`."""
        return sorted(f"{table}.{column}" for table, columns in self.written.items() for column in columns)


def choose_fields(named_fields: Iterable[str], recorded: Iterable[str] = ()) -> EncryptedFields:
    """Return the encrypted fields, given the fields that settings name.

    `recorded` are the fields that may still be encrypted in the store because of earlier settings.
    """
    chosen_fields = set(ALWAYS)
    for name in named_fields:
        check_field(name)
        chosen_fields |= {name, *_COPIES.get(name, ()), *_COPIES_OF_CONTENT.get(name, ())}
    known_fields = [name for name in recorded if _find_column(name) is not None]
    return EncryptedFields(
        _group_by_table(chosen_fields), _group_by_table({*chosen_fields, *VAULT_FIELDS, *known_fields})
    )


def check_field(name: str) -> None:
    """Raise InvalidSettings if a field cannot be encrypted."""
    field_column = _find_column(name)
    if field_column is None:
        table, _, column = name.partition(".")
        known_names = [*TABLES] if table not in TABLES else [f"{table}.{other}" for other in TABLES[table].names]
        raise InvalidSettings(
            f"encryption.fields names {name!r}, and there is no such field",
            value=name,
            remedy=suggest_name(name if column else f"{name}.…", known_names),
        )
    reason = _find_reason_against(*field_column)
    if reason:
        raise InvalidSettings(
            f"encryption.fields names {name!r}, which cannot be encrypted: {reason}",
            value=name,
            remedy="leave it out; docs/encryption.md lists the fields that can be encrypted",
        )


def list_encryptable_fields() -> list[str]:
    """Return every field that settings may name."""
    return [
        f"{table.name}.{column.name}"
        for table in TABLES.values()
        for column in table.columns
        if not _find_reason_against(table, column)
    ]


def _find_reason_against(table: Table, column: Column) -> str:
    if table.name in _REFUSED_TABLES or table.tenant is None or (table.internal and table.name != "session_archives"):
        return "its table belongs to the engine"
    if column.kind not in _ENCRYPTABLE_KINDS or column.width is not None or column.one_of:
        return "only text of any length, JSON and bytes can be"
    if column.name in _REFUSED_COLUMNS:
        return "it is searched"
    if any(column.name in rule.fields for rule in ENTITIES[table.name].rules):
        return "a rule of its table compares it"
    used_columns = {*table.key, *(name for lookup in table.lookups for name in lookup.columns)}
    used_columns |= {
        name for rule in table.uniques for name in (*rule.columns, rule.when, rule.unless) if name is not None
    }
    used_columns |= {name for reference in table.references for name in reference.columns}
    return "rows are found by it" if column.name in used_columns else ""


def _find_column(name: str) -> tuple[Table, Column] | None:
    table, _, column = name.partition(".")
    if table not in ENTITIES or column not in TABLES[table].by_name:
        return None
    return TABLES[table], TABLES[table].by_name[column]


def _group_by_table(names: Iterable[str]) -> dict[str, frozenset[str]]:
    columns_by_table: dict[str, set[str]] = {}
    for name in names:
        table, _, column = name.partition(".")
        columns_by_table.setdefault(table, set()).add(column)
    return {table: frozenset(columns) for table, columns in columns_by_table.items()}
