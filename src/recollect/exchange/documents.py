"""Bringing in files that are not bundles: text as many memories, and lists of memories."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.errors import InvalidInput
from recollect.ports.tokenizer import Tokenizer
from recollect.text.chunking import chunk

TEXT = (".txt", ".md", ".markdown", ".rst")
LISTS = (".jsonl", ".ndjson", ".json")
_PASSAGE_TOKENS = 200


def passages(path: Path, tokenizer: Tokenizer) -> Iterator[dict[str, Any]]:
    """A text file as memories of a few sentences each, that say where they stood."""
    text = path.read_text("utf-8", errors="replace").replace("\x00", "")
    for span in chunk(text, tokenizer, limit=_PASSAGE_TOKENS, overlap=0):
        passage = text[span.start : span.end].strip()
        if passage:
            provenance = {"file": path.name, "span": [span.start, span.end]}
            yield {"text": passage, "kind": "resource", "provenance": provenance}


def listed(path: Path) -> Iterator[dict[str, Any] | str]:
    """The memories of a JSON array, or of JSON lines: sentences, or fields by name."""
    text = path.read_text("utf-8")
    try:
        items = (
            json.loads(text)
            if path.suffix == ".json"
            else [json.loads(line) for line in text.splitlines() if line.strip()]
        )
    except ValueError as error:
        raise InvalidInput(f"{path} is not JSON: {error}") from None
    for item in items if isinstance(items, list) else [items]:
        if not isinstance(item, dict | str):
            raise InvalidInput(f"{path} holds {item!r:.60}; write sentences, or objects with a text")
        yield item
