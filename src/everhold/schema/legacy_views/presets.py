"""The presets of legacy views, by name and by alias."""

from collections.abc import Mapping
from difflib import get_close_matches

from everhold.errors import InvalidInput
from everhold.schema.legacy_views.agent_lifecycle import AGENT_LIFECYCLE
from everhold.schema.legacy_views.agentic_memory import AGENTIC_MEMORY
from everhold.schema.legacy_views.agentmem import AGENTMEM
from everhold.schema.legacy_views.declarations import ViewPreset
from everhold.schema.legacy_views.julep import JULEP
from everhold.schema.legacy_views.memory_orchestrator import MEMORY_ORCHESTRATOR

PRESETS: Mapping[str, ViewPreset] = {
    preset.name: preset for preset in (AGENTIC_MEMORY, AGENT_LIFECYCLE, MEMORY_ORCHESTRATOR, AGENTMEM, JULEP)
}
_ALIASES = {preset.alias: preset for preset in PRESETS.values()}


def find_preset(name: str) -> ViewPreset:
    """Return the preset with this name or alias, in any case. Raise InvalidInput if there is none."""
    folded_name = name.lower().replace("-", "_")
    preset = PRESETS.get(folded_name) or _ALIASES.get(folded_name)
    if preset is None:
        similar_names = get_close_matches(folded_name, PRESETS, n=1)
        all_names = ", ".join(f"{other.name} ({other.alias})" for other in PRESETS.values())
        remedy = f"did you mean {similar_names[0]!r}?" if similar_names else f"use one of {all_names}"
        raise InvalidInput(f"no preset {name!r} of views", value=name, remedy=remedy)
    return preset
