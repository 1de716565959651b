"""Read SessionMemoryAgent's SQLite database: sessions and their interactions."""

from collections.abc import Iterator

from everhold.importers.source import ImportInput, ImportSource, RowDraft, Sample, SourceItem, report_unread
from everhold.importers.values import add_other_fields

_SESSION_COLUMNS = ("session_id", "user_id", "created_at", "last_active", "metadata")
_INTERACTION_COLUMNS = ("id", "session_id", "timestamp", "role", "content", "metadata")


def detect(sample: Sample) -> float:
    return float(sample.has_tables(interactions="id session_id role content")) * 0.95


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    with import_input.files.open_database() as tables:
        # The agent deletes sessions that are idle, so their table may be empty, or missing in a copy.
        for row in tables.read_rows("sessions", ("created_at",)) if "sessions" in tables.columns else ():
            yield RowDraft(
                "session",
                "sessions",
                f"session {row['session_id']!r:.80}",
                {
                    "id": row["session_id"],
                    "user": row.get("user_id"),
                    "created_at": row.get("created_at"),
                    "updated_at": row.get("last_active"),
                    "metadata": add_other_fields(row.get("metadata"), row, _SESSION_COLUMNS),
                },
            )
        for row in tables.read_rows("interactions", ("session_id", "timestamp", "id")):
            yield RowDraft(
                "message",
                "interactions",
                f"interactions row {row['id']}",
                {
                    # The number is unique only inside one database.
                    "id": f"{row['session_id']}/{row['id']}",
                    "session": row["session_id"],
                    "role": row["role"],
                    "text": row["content"],
                    "created_at": row.get("timestamp"),
                    "metadata": add_other_fields(row.get("metadata"), row, _INTERACTION_COLUMNS),
                },
            )
        yield from report_unread(tables, "sessions", "interactions")


SOURCE = ImportSource("session-memory", "SessionMemoryAgent's session_memory.db", detect, read)
