"""Read jarvis_memory_store.json, which has a list of memories for each user."""

from collections.abc import Iterator

from everhold.importers.source import ImportInput, ImportSource, Sample, SourceItem
from everhold.importers.sources.contextual import read_user_lists


def detect(sample: Sample) -> float:
    outline = sample.outline
    if not isinstance(outline, dict) or not outline or not all(isinstance(items, list) for items in outline.values()):
        return 0.0
    rows = [item for items in outline.values() for item in items[:3]]
    return 0.9 if rows and isinstance(rows[0], dict) and {"timestamp", "memory"} <= rows[0].keys() else 0.0


def read(opened: ImportInput) -> Iterator[SourceItem]:
    yield from read_user_lists(opened, "memories", "memory", "observation", tag="jarvis")


SOURCE = ImportSource("jarvis", "jarvis_memory_store.json", detect, read)
