"""Read Letta's agent file (.af) as the content of an agent.

There are two formats. The current one has separate lists of agents, blocks, tools and MCP servers, and an agent names
its blocks and tools by their ids in the file. The older one is a single agent with its blocks under `core_memory`.
Fields without a counterpart here are kept under `letta` in the metadata. Files, sources, groups, and values that may
be secrets are not imported, but reported as skipped.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from everhold.errors import Argument, InvalidInput, Remedy, format_value

_AGENT_FIELDS = ("agent_type", "name", "description", "system", "llm_config", "embedding_config", "tool_rules")
_BLOCK_FIELDS = ("label", "value", "limit", "description", "template_name")
_TOOL_FIELDS = ("name", "description", "source_type", "source_code", "tags")
_MESSAGE_FIELDS = (
    "role", "content", "model", "name", "tool_calls", "tool_call_id", "tool_returns", "otid", "sender_id", "group_id",
    "created_at",
)  # fmt: skip
# Fields of an agent that are read separately, have no meaning outside Letta's database, or may be secrets.
_IGNORED_FIELDS = (
    "id", "memory_blocks", "core_memory", "tools", "tool_ids", "source_ids", "folder_ids", "block_ids",
    "in_context_message_ids", "in_context_message_indices", "messages", "message_ids", "files_agents", "group_ids",
    "multi_agent_group", "metadata", "metadata_", "created_at", "updated_at", "mcp_servers", "identity_ids",
    "tool_exec_environment_variables", "secrets", "project_id",
)  # fmt: skip
_SECRET_FIELDS = ("tool_exec_environment_variables", "secrets")
_SKIPPED_LISTS = ("sources", "files", "groups")

Object = Mapping[str, Any]


class LettaAgent(NamedTuple):
    """The values of an agent's content, and descriptions of the skipped parts of the file."""

    content: dict[str, Any]
    skipped: tuple[str, ...]


def is_letta_file(document: Object) -> bool:
    """Return whether a document has one of the two formats of Letta's agent file."""
    return isinstance(document.get("agents"), list) or isinstance(document.get("core_memory"), list)


def read_letta_file(document: Object, agent_name: str | None) -> LettaAgent:
    """Return the content of one agent of the file; `agent_name` is its id or name in a file with several."""
    if "agents" not in document:
        blocks = _list_objects(document, "core_memory")
        return _read_agent(document, document, blocks, _list_objects(document, "tools"))
    agent = _choose_agent(_list_objects(document, "agents"), agent_name)
    blocks = [*_pick(document, "blocks", agent, "block_ids"), *_list_objects(agent, "memory_blocks")]
    return _read_agent(document, agent, blocks, _pick(document, "tools", agent, "tool_ids"))


def _choose_agent(agents: Sequence[Object], agent_name: str | None) -> Object:
    matches = [agent for agent in agents if agent_name is None or agent_name in (agent.get("id"), agent.get("name"))]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(format_value(agent.get("name")) for agent in agents[:5]) or "none"
    criterion = "" if agent_name is None else f" of the name {format_value(agent_name)}"
    raise InvalidInput(
        f"the file has {len(matches)} agents{criterion}; its agents: {names}",
        remedy=Remedy("name one of them with {}", Argument("source", "NAME")),
    )


def _read_agent(document: Object, agent: Object, blocks: Sequence[Object], tools: Sequence[Object]) -> LettaAgent:
    """Return an agent of a Letta document with its blocks, tools and messages, and a list of the skipped parts."""
    servers = _list_objects(document, "mcp_servers")
    extra_fields = {name: value for name, value in agent.items() if name not in (*_AGENT_FIELDS, *_IGNORED_FIELDS)}
    if document is agent:
        extra_fields = {name: value for name, value in extra_fields.items() if name not in _SKIPPED_LISTS}
    letta_fields = _drop_empty({**extra_fields, "mcp_servers": [_describe_server(server) for server in servers]})
    values = {**_drop_empty({name: agent.get(name) for name in _AGENT_FIELDS})}
    values["mcp_tools"] = [server.get("server_name") for server in servers]
    values["metadata"] = _join_metadata(agent, letta_fields)
    messages, empty_count = _read_messages(agent)
    skipped = [f"{len(items)} {name}" for name in _SKIPPED_LISTS if (items := _list_items(document, name))]
    skipped += [f"{name} (may hold secrets)" for name in _SECRET_FIELDS if agent.get(name)]
    skipped += [
        f"stdio_config of MCP server {server.get('server_name')}" for server in servers if server.get("stdio_config")
    ]
    skipped += [f"{empty_count} messages that say nothing"] if empty_count else []
    content = {
        "agent": values,
        "blocks": [_read_block(block) for block in blocks],
        "tools": [_read_tool(tool) for tool in tools],
        "messages": messages,
    }
    return LettaAgent(content, tuple(skipped))


def _read_block(block: Object) -> dict[str, Any]:
    ignored = (*_BLOCK_FIELDS, "id", "metadata", "metadata_", "created_at", "updated_at", "project_id")
    values = {name: block[name] for name in _BLOCK_FIELDS if block.get(name) is not None}
    return {**values, "metadata": _join_metadata(block, _drop_empty(block, ignored))}


def _read_tool(tool: Object) -> dict[str, Any]:
    ignored = (*_TOOL_FIELDS, "id", "json_schema", "metadata", "metadata_", "created_at", "updated_at", "project_id",
               "created_by_id", "last_updated_by_id", "organization_id")  # fmt: skip
    values = {name: tool[name] for name in _TOOL_FIELDS if tool.get(name) is not None}
    schema = tool.get("json_schema") or {}
    # Letta stores the whole declaration of a function; the schema of its arguments is one part of it.
    if isinstance(schema, dict) and isinstance(schema.get("parameters"), dict):
        schema = schema["parameters"]
    return {**values, "json_schema": schema, "metadata": _join_metadata(tool, _drop_empty(tool, ignored))}


def _read_messages(agent: Object) -> tuple[list[dict[str, Any]], int]:
    """Return the messages with content, and the number of messages without any."""
    in_context = {name for name in _list_items(agent, "in_context_message_ids") if isinstance(name, str)}
    indices = {index for index in _list_items(agent, "in_context_message_indices") if isinstance(index, int)}
    messages: list[dict[str, Any]] = []
    objects = _list_objects(agent, "messages")
    for index, message in enumerate(objects):
        values = {name: message[name] for name in _MESSAGE_FIELDS if message.get(name) is not None}
        if "created_at" in values:
            values["created_at"] = _read_time(values["created_at"])
        content = values.pop("content", None)
        if isinstance(content, str):
            values["text"] = content
        elif content:
            values["content"] = content
        if any(values.get(name) for name in ("text", "content", "tool_calls", "tool_returns")):
            values["in_context"] = message.get("id") in in_context or index in indices
            messages.append(values)
    return messages, len(objects) - len(messages)


def _read_time(value: Any) -> Any:
    """Return a time with its zone. Letta stores UTC, and its first files do not say so."""
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value  # `validate_content` refuses it
    return value if moment.tzinfo else moment.replace(tzinfo=UTC).isoformat()


def _describe_server(server: Object) -> dict[str, Any]:
    return {name: server[name] for name in ("server_name", "server_type", "server_url") if server.get(name) is not None}


def _join_metadata(source: Object, letta_fields: Mapping[str, Any]) -> Any:
    """Return the metadata of an object of the file, with `letta_fields` under the key `letta`."""
    metadata = source.get("metadata") or source.get("metadata_") or {}
    if not isinstance(metadata, dict):
        return metadata  # `validate_content` refuses it
    return {**metadata, "letta": letta_fields} if letta_fields else metadata


def _drop_empty(values: Object, ignored: Iterable[str] = ()) -> dict[str, Any]:
    """Return the values that are set: Letta writes null, false and empty values for unset fields."""
    return {name: value for name, value in values.items() if value and name not in ignored}


def _pick(document: Object, list_name: str, agent: Object, ids_field: str) -> list[Object]:
    """Return the objects of a list in the file whose ids an agent names, in the agent's order."""
    by_id = {str(item.get("id")): item for item in _list_objects(document, list_name)}
    picked_objects = []
    for name in _list_items(agent, ids_field):
        if not isinstance(name, str) or name not in by_id:
            raise InvalidInput(
                f"{ids_field} names {format_value(name)}, which is not among the {list_name} of the file",
                value=name,
                remedy="export the agent again",
            )
        picked_objects.append(by_id[name])
    return picked_objects


def _list_objects(values: Object, name: str) -> list[Object]:
    items = _list_items(values, name)
    for item in items:
        if not isinstance(item, dict):
            raise InvalidInput(f"{name} holds {format_value(item)}", value=item, remedy="it should hold objects")
    return items


def _list_items(values: Object, name: str) -> list[Any]:
    items = values.get(name)
    if isinstance(items, dict) or items is None:
        return [] if not items else [items]
    if not isinstance(items, list):
        raise InvalidInput(f"{name} is {format_value(items)}", value=items, remedy="it should be a list")
    return items
