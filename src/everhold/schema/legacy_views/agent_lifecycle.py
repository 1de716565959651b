"""The entities of an agent's lifecycle as Prisma names their tables and columns.

The plan of the legacy system names the entities and few of their columns. The other columns have Everhold's names.
"""

from everhold.schema.legacy_views.declarations import RowNumber, ViewPreset, declare_view

_TIMES = {"createdAt": "created_at", "updatedAt": "updated_at"}

_AGENT = declare_view(
    "Agent",
    "agents",
    {
        "id": "id",
        "name": "name",
        "description": "description",
        "directives": "system",
        "config": "config",
        "status": "status",
        **_TIMES,
    },
)

_CYCLE = declare_view(
    "AgentCycle",
    "cycles",
    {
        "id": "id",
        "agentId": "agent_id",
        "executionId": "execution_id",
        "cycleIndex": "cycle_index",
        "status": "status",
        "snapshot": "snapshot",
        "parentId": "parent_id",
        **_TIMES,
    },
)

_PROPOSAL = declare_view(
    "ActionProposal",
    "action_proposals",
    {
        "id": "id",
        "cycleId": "cycle_id",
        "tool": "tool",
        "arguments": "arguments",
        "thoughts": "thoughts",
        "reasoning": "reasoning",
        "plan": "plan",
        "criticism": "criticism",
        "workspaceCues": "workspace_cues",
        "raw": "raw",
        **_TIMES,
    },
)

_RESULT = declare_view(
    "ActionResult",
    "action_results",
    {
        "id": "id",
        "cycleId": "cycle_id",
        "status": "status",
        "summary": "summary",
        "output": "output",
        "error": "error",
        "artifacts": "artifacts",
        "duration": "duration",
        **_TIMES,
    },
)

_RECORD = declare_view(
    "MemoryRecord",
    "memories",
    {
        "id": "id",
        "agentId": "agent_id",
        "cycleId": "cycle_id",
        "type": "kind",
        "content": "text",
        "payload": "content",
        "importance": "importance",
        "metadata": "metadata",
        **_TIMES,
    },
)

_INDEX = declare_view(
    "MemoryIndex",
    "chunks",
    {
        "id": RowNumber(),
        "memoryId": "owner_id",
        "namespace": "namespace",
        "embedding": "vector",
        "model": "model",
        "dimensions": "dimensions",
        "score": "score",
        "createdAt": "known_from",
    },
    where="t.owner_kind = 'memory' AND t.known_to IS NULL AND t.vector IS NOT NULL",
    owners={"owner_id": "memories"},
)

_WORKSPACE = declare_view(
    "Workspace", "workspaces", {"id": "id", "agentId": "agent_id", "name": "name", "root": "root", **_TIMES}
)

_FILE = declare_view(
    "WorkspaceFile",
    "workspace_files",
    {
        "id": "id",
        "workspaceId": "workspace_id",
        "cycleId": "cycle_id",
        "path": "path",
        "kind": "kind",
        "mediaType": "media_type",
        "size": "size",
        "sha256": "sha256",
        "metadata": "metadata",
        **_TIMES,
    },
)

AGENT_LIFECYCLE = ViewPreset(
    "agent_lifecycle",
    "s1",
    "The lifecycle and persistence of AutoGPT agents, with Prisma's names.",
    (_AGENT, _CYCLE, _PROPOSAL, _RESULT, _RECORD, _INDEX, _WORKSPACE, _FILE),
)
