"""The protocols of the older services, by name."""

from everhold.interfaces.voice.protocols.base import VoiceProtocol
from everhold.interfaces.voice.protocols.contextual import CONTEXTUAL
from everhold.interfaces.voice.protocols.contextual_enhanced import CONTEXTUAL_ENHANCED
from everhold.interfaces.voice.protocols.contextual_mainpc import CONTEXTUAL_MAINPC
from everhold.interfaces.voice.protocols.jarvis import JARVIS
from everhold.interfaces.voice.protocols.orchestrator import ORCHESTRATOR
from everhold.interfaces.voice.protocols.session_memory import SESSION_MEMORY, SESSION_MEMORY_2
from everhold.interfaces.voice.protocols.unified import UNIFIED
from everhold.interfaces.voice.protocols.unified_archive import UNIFIED_1
from everhold.interfaces.voice.protocols.unified_commands import UNIFIED_4
from everhold.interfaces.voice.protocols.unified_stub import UNIFIED_3
from everhold.interfaces.voice.protocols.unified_twins import UNIFIED_2

PROTOCOLS: dict[str, VoiceProtocol] = {
    protocol.name: protocol
    for protocol in (
        SESSION_MEMORY,
        SESSION_MEMORY_2,
        CONTEXTUAL,
        CONTEXTUAL_MAINPC,
        CONTEXTUAL_ENHANCED,
        JARVIS,
        UNIFIED,
        UNIFIED_1,
        UNIFIED_2,
        UNIFIED_3,
        UNIFIED_4,
        ORCHESTRATOR,
    )
}
