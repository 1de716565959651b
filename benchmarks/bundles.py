"""Tamper with bundles: read the rows, change them, and write them with the correct checksum."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# The lines of a bundle between its header and its end, each `{"table": …, "row": …}`.
Rows = list[dict[str, Any]]


def read_rows(path: Path) -> Rows:
    lines = path.read_text("utf-8").rstrip("\n").split("\n")
    return [json.loads(line) for line in lines[1:-1]]


def write_lines(path: Path, lines: Iterable[str], organization: str) -> Path:
    """Write a bundle with these lines, and a last line with their correct number and checksum."""
    body = [f"{line}\n" for line in lines]
    header = json.dumps({"everhold": 2, "organization": organization, "at": "2026-01-01T00:00:00+00:00"})
    digest = hashlib.sha256("".join(body).encode("utf-8", "surrogateescape")).hexdigest()
    end = json.dumps({"end": {"rows": len(body), "sha256": digest}})
    path.write_text("".join([f"{header}\n", *body, f"{end}\n"]), "utf-8", errors="surrogateescape")
    return path


def write_rows(path: Path, rows: Rows, organization: str) -> Path:
    return write_lines(path, [json.dumps(row, ensure_ascii=False) for row in rows], organization)


def tamper(source: Path, target: Path, organization: str, change: Callable[[Rows], Rows]) -> Path:
    """Read the rows of `source`, pass them to `change`, and write the returned rows to `target`."""
    return write_rows(target, change(read_rows(source)), organization)


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
