"""Find the files with conversations in an export: the input itself, or members of its folder or zip archive."""

from collections.abc import Iterator
from typing import Any

from everhold.importers.files import ForeignFiles
from everhold.importers.samples import is_conversations_file
from everhold.importers.source import Sample


def list_conversation_files(files: ForeignFiles) -> list[str]:
    """Return the members with conversations; "" for the input itself."""
    return [member for member in files.members if is_conversations_file(member)] if files.members else [""]


def iterate_conversations(files: ForeignFiles) -> Iterator[tuple[str, Any]]:
    """Yield each conversation of an export with its position, for messages."""
    for member in list_conversation_files(files):
        with files.open_json(member) as stream:
            if stream.peek() == "{":  # a single conversation
                yield member or files.path.name, stream.read_value()
            else:
                for index in stream.iterate_items():
                    yield f"{member or files.path.name}[{index}]", stream.read_value()
            stream.require_end()


def find_export_files(sample: Sample) -> list[str]:
    """Return the files of an export that are read."""
    return [member for member in sample.members if is_conversations_file(member)]


def find_first_conversation(sample: Sample) -> dict[str, Any] | None:
    """Return the first conversation of an export, as far as the sample contains it."""
    outline = sample.outline
    first_conversation = outline[0] if isinstance(outline, list) and outline else outline
    return first_conversation if isinstance(first_conversation, dict) else None
