"""Read SessionMemoryAgent's SQLite database: sessions and their interactions."""

from collections.abc import Iterator

from everhold.importers.source import ImportInput, ImportSource, RowDraft, Sample, SourceItem, report_unread


def detect(sample: Sample) -> float:
    return float(sample.has_tables(sessions="session_id", interactions="id session_id role content")) * 0.95


def read(opened: ImportInput) -> Iterator[SourceItem]:
    with opened.files.open_database() as tables:
        for row in tables.read_rows("sessions", ("created_at",)):
            yield RowDraft(
                "session",
                "sessions",
                f"session {row['session_id']!r:.80}",
                {
                    "id": row["session_id"],
                    "user": row.get("user_id"),
                    "created_at": row.get("created_at"),
                    "updated_at": row.get("last_active"),
                    "metadata": row.get("metadata"),
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
                    "metadata": row.get("metadata"),
                },
            )
        yield from report_unread(tables, "sessions", "interactions")


SOURCE = ImportSource("session-memory", "SessionMemoryAgent's session_memory.db", detect, read)
