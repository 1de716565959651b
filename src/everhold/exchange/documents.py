"""Read files other than bundles: texts and lists of memories."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from everhold.errors import InvalidInput, format_value
from everhold.json_streams import JsonStream, parse_line, read_lines
from everhold.ports.tokenizer import Tokenizer
from everhold.text.chunking import split_into_chunks

TEXT_SUFFIXES = (".txt", ".md", ".markdown", ".rst")
LIST_SUFFIXES = (".jsonl", ".ndjson", ".json")
_PASSAGE_TOKENS = 200  # a few sentences, so that a search finds a passage and not a whole file


def read_passages(path: Path, tokenizer: Tokenizer) -> Iterator[dict[str, Any]]:
    """Yield the passages of a text file as memories of a few sentences, with their position in the file."""
    text = path.read_text("utf-8", errors="replace").replace("\x00", "")  # PostgreSQL cannot store NUL characters
    for span in split_into_chunks(text, tokenizer, limit=_PASSAGE_TOKENS, overlap=0):
        passage = text[span.start : span.end].strip()
        if passage:
            provenance = {"file": path.name, "span": [span.start, span.end]}
            yield {"text": passage, "kind": "resource", "provenance": provenance}


def read_list(path: Path) -> Iterator[dict[str, Any] | str]:
    """Yield the memories of a JSON array or of JSON lines. Each is a text or an object with fields."""
    for item in _read_array(path) if path.suffix == ".json" else _read_lines(path):
        if not isinstance(item, dict | str):
            raise InvalidInput(
                f"{path} holds {format_value(item)}", value=item, remedy="write sentences, or objects with a text"
            )
        yield item


def _read_array(path: Path) -> Iterator[Any]:
    with JsonStream(path) as stream:
        if stream.peek() == "[":
            for _ in stream.iterate_items():
                yield stream.read_value()
        else:
            yield stream.read_value()
        stream.require_end()


def _read_lines(path: Path) -> Iterator[Any]:
    for number, line in read_lines(path, str(path)):
        try:
            yield parse_line(line)
        except ValueError as error:
            raise InvalidInput(f"line {number} of {path} is not JSON in UTF-8: {error}", remedy="correct it") from None
