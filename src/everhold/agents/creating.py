"""Decide whether a repeated call to create an agent matches the existing agent."""

import json
from collections.abc import Mapping
from typing import Any

from everhold.errors import AlreadyExists, InvalidInput, Remedy, Verb
from everhold.model import Agent
from everhold.model.validation import validate_row
from everhold.ports.records import Records
from everhold.schema.catalog import get_table
from everhold.schema.codec import encode_json

# The fields that a clone and an agent file copy, and that a repeated call to create the agent must repeat.
IDENTITY_FIELDS = (
    "agent_type", "name", "description", "system", "topic", "llm_config", "embedding_config", "tool_rules", "mcp_tools",
    "config", "metadata",
)  # fmt: skip


def find_same_agent(records: Records, organization: str, agent_id: str, fields: Mapping[str, Any]) -> Agent:
    """Return the stored agent if it has exactly these fields; otherwise raise AlreadyExists."""
    stored = records.get(Agent, organization, [agent_id], deleted=True).get(agent_id)
    if stored is None or stored.is_deleted:
        raise make_taken_error(agent_id, is_deleted=stored is not None)
    values = {"name": agent_id, **fields, "id": agent_id, "organization_id": organization}
    requested = validate_row(Agent, {**values, "created_at": stored.created_at, "updated_at": stored.updated_at})
    if _read_identity(stored) != _read_identity(requested):
        raise make_taken_error(agent_id)
    return stored


def _read_identity(agent: Agent) -> Any:
    """Return an agent's identity fields, with lists in place of the tuples that a caller may pass."""
    return json.loads(encode_json({name: agent.__dict__[name] for name in (*IDENTITY_FIELDS, "message_ids")}))


def check_text_sizes(fields: Mapping[str, Any], text_bytes: int) -> None:
    """Raise InvalidInput if a text of an agent, a block or a tool exceeds the setting `text_bytes`."""
    for name in ("description", "system", "topic", "value", "source_code"):
        text = fields.get(name)
        if isinstance(text, str) and len(text.encode(errors="replace")) > text_bytes:
            raise InvalidInput(
                f"{name} has {len(text.encode(errors='replace')):,} bytes, over the limit of {text_bytes:,}",
                remedy="shorten it, or raise the setting text_bytes",
            )


def make_taken_error(agent_id: str, *, is_deleted: bool = False) -> AlreadyExists:
    """Return the error for an agent id that is taken; `is_deleted` says that a deleted agent has it."""
    fact = f"agent {agent_id!r} has been deleted" if is_deleted else f"agent {agent_id!r} exists, with other values"
    verb = Verb("restore_agent" if is_deleted else "update_agent")
    remedy = Remedy("call {}, or choose another id", verb)
    return AlreadyExists(fact, value=agent_id, remedy=remedy, table=get_table(Agent).name, rule="key")
