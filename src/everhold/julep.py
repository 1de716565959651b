"""An agent with Julep's flow: it stores a message, recalls, answers through a model of yours, and stores the answer.

    manager = MemoryManager("agent_config.yaml")
    agent = create_agent("agent_config.yaml", manager, model=ask_model)
    reply = await agent.process("What do I like?", {"session_id": "s1", "user_id": "alice"})

Classes and functions have the same names as in Julep's programs. No service of Julep is called.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack, cast

from everhold import settings
from everhold.arguments.checks import check_callable, check_mapping, make_refusal
from everhold.async_engine import AsyncEverhold
from everhold.context.window import Window
from everhold.engine import Everhold
from everhold.environment import merge_settings
from everhold.errors import InvalidInput, InvalidSettings, StoreUnavailable, format_value
from everhold.model import Message
from everhold.model.validation import suggest_name
from everhold.ports.embedder import Embedder
from everhold.settings_fields import SettingsFields
from everhold.views.messages import MessageInput
from everhold.views.view import AsyncView

Model = Callable[[list[dict[str, Any]]], str | Awaitable[str]]
Config = str | Path | Mapping[str, Any]

_MESSAGE_FIELDS = ("content", "text", "role", "id", "name", "metadata", "session_id", "user_id")
# The fields of the section `agent` of a configuration.
_AGENT_FIELDS = ("name", "about", "instructions", "model")
_NOTE = "no model was given, so nothing was answered; `window.as_openai()` is the prompt for yours"


def read_config(config: Config) -> dict[str, Any]:
    """Return an agent's configuration as a mapping: from a file of YAML, from its text, or from a mapping.

    A text with a line break is YAML; any other text is the path of a file. Raise InvalidSettings if it is not valid.
    """
    from everhold.yaml_files import load_yaml  # slow to import

    if isinstance(config, Mapping):
        return dict(check_mapping(config, "config"))
    if not isinstance(config, str | Path):
        raise make_refusal("config", config, "a path, YAML, or a dictionary")
    if isinstance(config, Path) or "\n" not in config:
        return settings.read_yaml_file(Path(config))
    if len(config) > settings.MAX_FILE_BYTES:
        raise InvalidSettings(f"the configuration has {len(config):,} characters", remedy="name a settings file")
    try:
        values = load_yaml(config)
    except ValueError as error:
        raise InvalidSettings(f"the configuration is not YAML: {error}", remedy="correct it") from None
    if not isinstance(values, dict):
        raise InvalidSettings(f"the configuration holds a {type(values).__name__}", remedy="write `memory:` lines")
    return values


class MemoryManager:
    """Holds the engine that an agent's configuration describes, with Julep's layout of files, keys and collections.

    The engine is opened when it is first used. Agents with one manager share it; close it when they are done.
    """

    def __init__(self, config: Config, *, embedder: Embedder | None = None, **fields: Unpack[SettingsFields]) -> None:
        """`fields` are settings that replace those of the configuration."""
        self._settings = make_settings(read_config(config), fields)
        self._embedder = embedder
        self._engine: AsyncEverhold | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    async def open(self) -> AsyncEverhold:
        """Return the engine; the first call opens it, in a thread."""
        engine = self._engine
        return engine if engine is not None else await asyncio.to_thread(self._open)

    def _open(self) -> AsyncEverhold:
        with self._lock:
            if self._is_closed:
                raise StoreUnavailable("this memory manager has been closed", remedy="create another one")
            if self._engine is None:
                other_settings = {name: value for name, value in self._settings.items() if name != "storage"}
                # As a target, so that no everhold.yaml of the current folder is mixed in.
                engine = Everhold.open(self._settings["storage"], embedder=self._embedder, **other_settings)
                self._engine = AsyncEverhold(engine)
            return self._engine

    async def close(self) -> None:
        """Close the engine, if it is open."""
        with self._lock:
            engine, self._engine, self._is_closed = self._engine, None, True
        if engine is not None:
            await engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def make_settings(config: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an agent's configuration. Missing parts come from the environment of this process."""
    memory = {"memory": config.get("memory") or {}, "redis_config": config.get("redis_config")}
    converted = settings.convert_agent_config(memory)
    defaults = {
        "layout": "julep",
        "storage": settings.JULEP_LAYOUT["storage"],
        "vectors": "auto",
        "sessions": "auto",
        "chroma": dict(settings.JULEP_LAYOUT["chroma"]),
    }
    return merge_settings(merge_settings(defaults, converted), fields)


@dataclass(frozen=True)
class AgentReply:
    """The reply of an agent, and the prompt for it.

    `window` is the prompt with what was recalled. Without a model, `text` and `answer` are None, and `note` says so.
    """

    text: str | None
    window: Window
    message: Message
    answer: Message | None = None
    note: str | None = None

    def __str__(self) -> str:
        return self.text if self.text is not None else f"({self.note})"


class JulepAgent:
    """An agent that remembers the messages that it gets. It is made by `create_agent`."""

    def __init__(self, name: str, instructions: str | None, manager: MemoryManager, model: Model | None) -> None:
        self.name = name
        self.instructions = instructions
        self._manager = manager
        self._model = model

    async def process(
        self,
        message: str | Mapping[str, Any],
        context: str | Sequence[str] | Mapping[str, Any] | None = None,
        *,
        budget: int = 4000,
    ) -> AgentReply:
        """Store a message and the facts that it states, recall what belongs to it, answer it, and store the answer.

        A message is a text, or a dictionary with `content` and optionally `id`, `role`, `name`, `metadata`,
        `session_id` and `user_id`. A second message with the same `id` adds nothing. A context that is a dictionary may
        have `session_id`, `user_id` and `current_topic`; its other values are stored as the context of the session. A
        context of texts is put into the prompt. The prompt has at most `budget` tokens. If the model fails, its error
        is raised, and the message stays stored.
        """
        fields = _read_message(message)
        values, texts = _read_context(context)
        view = await self._find_view({**values, **fields})
        added = await view.add([_pick_message_fields(fields)])
        await _update_session(view, values)
        system = "\n\n".join(text for text in (self.instructions, *texts) if text) or None
        window = await view.window(fields["content"] or None, budget=budget, system=system)
        if self._model is None:
            return AgentReply(None, window, added.messages[0], note=_NOTE)
        text = await _ask(self._model, window.as_openai())
        answer = await view.say(text, role="assistant")
        return AgentReply(text, window, added.messages[0], answer)

    async def _find_view(self, names: Mapping[str, Any]) -> AsyncView:
        engine = await self._manager.open()
        return engine.scope(user=names.get("user_id"), agent=self.name, session=names.get("session_id", "default"))


def create_agent(config: Config, memory_manager: MemoryManager, model: Model | None = None) -> JulepAgent:
    """Return an agent with this configuration, whose memory is the manager's.

    `config` is an `agent_config.yaml`: a path, its text, or a mapping. Its section `agent` may have a `name` and
    `instructions`, with which every prompt begins. `model` takes messages as OpenAI's chat completions do and returns
    the answer as text; it may be asynchronous. Keys and addresses of services, such as `julep_api_key` and
    `openai_api_base`, are not used here: they are for your model.
    """
    if not isinstance(memory_manager, MemoryManager):
        raise make_refusal("memory_manager", memory_manager, "a MemoryManager")
    if model is not None:
        check_callable(model, "model")
    values = read_config(config)
    agent = values.get("agent") or {}
    if not isinstance(agent, Mapping):
        raise InvalidSettings(f"agent is {format_value(agent)}", remedy="write `name: value` lines below it")
    unknown = [name for name in agent if name not in _AGENT_FIELDS]
    if unknown:
        raise InvalidSettings(
            f"agent has no setting {unknown[0]!r}", remedy=suggest_name(str(unknown[0]), _AGENT_FIELDS)
        )
    instructions = agent.get("instructions") or agent.get("about")
    if isinstance(instructions, list):
        instructions = "\n".join(map(str, instructions))
    name = str(agent.get("name") or "julep")
    return JulepAgent(name, None if instructions is None else str(instructions), memory_manager, model)


def _read_message(message: Any) -> dict[str, Any]:
    """Return the fields of a message that is a text, or fields by name."""
    if isinstance(message, str):
        return {"content": message}
    if not isinstance(message, Mapping):
        raise make_refusal("message", message, "text, or a dictionary with `content`")
    for name in message:
        if name not in _MESSAGE_FIELDS:
            raise InvalidInput(
                f"a message has no field {format_value(name)}",
                value=name,
                remedy=suggest_name(str(name), _MESSAGE_FIELDS),
            )
    text = message.get("content", message.get("text"))
    if not isinstance(text, str):
        raise make_refusal("content", text, "the text of the message")
    return {**message, "content": text}


def _pick_message_fields(fields: Mapping[str, Any]) -> MessageInput:
    other_fields = {name: fields[name] for name in ("id", "name", "metadata") if fields.get(name) is not None}
    return cast(MessageInput, {"text": fields["content"], "role": fields.get("role") or "user", **other_fields})


def _read_context(context: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the values of a context by name, and the texts that it adds to the prompt."""
    if context is None:
        return {}, []
    if isinstance(context, Mapping):
        return dict(check_mapping(context, "context")), []
    texts = [context] if isinstance(context, str) else context
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise make_refusal("context", context, "a dictionary, a text or a list of texts")
    return {}, list(texts)


async def _update_session(view: AsyncView, values: Mapping[str, Any]) -> None:
    """Store the topic and the context of a session, if the caller passed them."""
    topic = values.get("current_topic", values.get("topic"))
    reserved_names = ("session_id", "user_id", "current_topic", "topic")
    other_values = {name: value for name, value in values.items() if name not in reserved_names}
    if topic is not None:
        await view.update_session(topic=topic)
    if other_values:
        await view.update_session(context=other_values)


async def _ask(model: Model, messages: list[dict[str, Any]]) -> str:
    """Return the model's answer. A plain function runs in a thread, so that the event loop does not wait for it."""
    answer = await asyncio.to_thread(model, messages)
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, str):
        raise InvalidInput(
            f"the model returned {format_value(answer)}", value=answer, remedy="return the answer as text"
        )
    return answer
