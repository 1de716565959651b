"""Read files that are not bundles: texts, and lists of memories."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from everhold.errors import InvalidInput, format_value
from everhold.ports.tokenizer import Tokenizer
from everhold.text.chunking import split_into_chunks

TEXT = (".txt", ".md", ".markdown", ".rst")
LISTS = (".jsonl", ".ndjson", ".json")
_PASSAGE_TOKENS = 200  # a few sentences, so that a hit shows a passage and not a whole file


def read_passages(path: Path, tokenizer: Tokenizer) -> Iterator[dict[str, Any]]:
    """Yield the passages of a text file as memories of a few sentences, with their position in the file."""
    text = path.read_text("utf-8", errors="replace").replace("\x00", "")  # PostgreSQL stores no NUL characters
    for span in split_into_chunks(text, tokenizer, limit=_PASSAGE_TOKENS, overlap=0):
        passage = text[span.start : span.end].strip()
        if passage:
            provenance = {"file": path.name, "span": [span.start, span.end]}
            yield {"text": passage, "kind": "resource", "provenance": provenance}


def read_listed(path: Path) -> Iterator[dict[str, Any] | str]:
    """Yield the memories of a JSON array or of JSON lines: each a text, or an object of fields."""
    number = 0
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            items = json.loads(text)
        else:
            items = []
            for number, line in enumerate(text.split("\n"), 1):  # noqa: B007 — the error names the line
                items += [json.loads(line)] if line.strip() else []
    except (ValueError, RecursionError) as error:
        place = f"line {number} of {path}" if number else str(path)
        raise InvalidInput(f"{place} is not JSON in UTF-8: {error}", remedy="convert or correct it") from None
    for item in items if isinstance(items, list) else [items]:
        if not isinstance(item, dict | str):
            raise InvalidInput(
                f"{path} holds {format_value(item)}", value=item, remedy="write sentences, or objects with a text"
            )
        yield item
