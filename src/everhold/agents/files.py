"""Write an agent to a file, and read one: a single JSON document.

`{"everhold_agent": 1, "agent": {…}, "blocks": […], "tools": […], "state": {…}, "messages": […], "memories": […]}`

The whole file is read and checked before anything is written to the store.
"""

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pydantic_core import PydanticCustomError

from everhold import clock
from everhold.agents.content import AgentContent, validate_content
from everhold.agents.letta import is_letta_file, read_letta_file
from everhold.errors import InvalidInput, format_value
from everhold.files import create_text
from everhold.model import Agent
from everhold.model.fields import JsonLimits, walk_json

VERSION = 1
MAX_FILE_BYTES = 64 * 1024 * 1024
_VERSION_KEY = "everhold_agent"
_LIMITS = JsonLimits(depth=80, values=5_000_000, characters=MAX_FILE_BYTES)


@dataclass(frozen=True)
class AgentFile:
    """The agent that was written to a file or read from one, and how many blocks, tools and other parts it has.

    `skipped` lists the parts of another system's file that could not be imported.
    """

    agent: Agent
    blocks: int = 0
    tools: int = 0
    messages: int = 0
    memories: int = 0
    has_state: bool = False
    skipped: tuple[str, ...] = ()


def summarise(agent: Agent, content: AgentContent, skipped: tuple[str, ...] = ()) -> AgentFile:
    """Return the agent with the counts of its parts."""
    return AgentFile(
        agent,
        len(content.blocks),
        len(content.tools),
        len(content.messages),
        len(content.memories),
        content.state is not None,
        skipped,
    )


def write_agent_file(target: str | Path | IO[str], content: AgentContent, *, overwrite: bool) -> None:
    """Write the content to a file that only its owner can read. The file appears only when it is complete."""
    document = {_VERSION_KEY: VERSION, "at": clock.now().isoformat(), **content.model_dump(mode="json")}
    with create_text(target, overwrite=overwrite) as out:
        out.write(json.dumps(document, ensure_ascii=False, indent=1))
        out.write("\n")


def read_agent_file(path: Path, source: str | None) -> tuple[AgentContent, tuple[str, ...]]:
    """Return the checked content of an agent file, Everhold's or Letta's, and the names of the skipped parts.

    `source` is the id or name of the agent to read from a Letta file with several agents.
    """
    document = _parse(_read_bytes(path), path.name)
    label = f"agent file {path.name!r}"
    if _VERSION_KEY in document:
        version = document[_VERSION_KEY]
        if version is True or version != VERSION:
            raise InvalidInput(
                f"{label} has version {format_value(version)}, and this program reads {VERSION}",
                value=version,
                remedy="upgrade Everhold",
            )
        values = {name: value for name, value in document.items() if name not in (_VERSION_KEY, "at")}
        return validate_content(values, label), ()
    if is_letta_file(document):
        content, skipped = read_letta_file(document, source)
        return validate_content(content, label), skipped
    raise InvalidInput(
        f"{path.name} is not an agent file", value=path.name, remedy="pass one that export_agent or Letta has written"
    )


def _read_bytes(path: Path) -> bytes:
    """Return the bytes of a file; raise InvalidInput if it is too large or not regular: a pipe might never end."""
    try:
        # Opening a pipe without a writer would wait for one.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            content = _read_at_most(descriptor, MAX_FILE_BYTES + 1) if is_file else b""
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read ({error.strerror})", value=str(path), remedy="check the path"
        ) from None
    if not is_file:
        raise InvalidInput(f"{path} is not a regular file", value=str(path), remedy="name a file")
    if len(content) > MAX_FILE_BYTES:
        raise InvalidInput(
            f"{path.name} has more than {MAX_FILE_BYTES:,} bytes",
            value=path.name,
            remedy="export the agent without its memories",
        )
    return content


def _read_at_most(descriptor: int, limit: int) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(limit)


def _parse(content: bytes, name: str) -> dict[str, Any]:
    try:
        document = json.loads(
            content.decode("utf-8"), object_pairs_hook=_refuse_repeated, parse_constant=_refuse_constant
        )
        walk_json(document, _refuse_leaf, _LIMITS)
    except PydanticCustomError as error:
        raise InvalidInput.from_sentence(f"{name}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is not JSON in UTF-8 ({_shorten(error)})", remedy="export it again") from None
    if not isinstance(document, dict):
        raise InvalidInput(f"{name} holds {format_value(document)}", remedy="an agent file is a JSON object")
    return document


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; raise ValueError for a repeated key, because programs differ in which value they read."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("an object has the same key twice")
    return values


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _refuse_leaf(item: Any) -> None:
    raise ValueError(f"{type(item).__name__} is not JSON")


def _shorten(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 100 else f"{text[:99]}…"
