"""Read jarvis_memory_store.json, which has a list of memories for each user."""

from collections.abc import Iterator

from everhold.importers.source import ImportInput, ImportSource, Sample, SourceItem
from everhold.importers.sources.contextual import detect_user_lists, read_user_lists


def detect(sample: Sample) -> float:
    return detect_user_lists(sample, "memory", "jarvis_memory")


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    yield from read_user_lists(import_input, "memories", "memory", "observation", tag="jarvis")


SOURCE = ImportSource("jarvis", "jarvis_memory_store.json", detect, read)
