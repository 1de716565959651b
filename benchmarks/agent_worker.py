"""The worker process of `benchmarks.agent_crash`, which is killed.

It runs the agent of examples/autonomous_agent.py with an embedder that is quick to load.
"""

import importlib.util
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from benchmarks.engines import build_settings, open_engine
from everhold import Everhold
from everhold.testing.fake_embedder import FakeEmbedder

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

EXAMPLE: Final = Path(__file__).resolve().parents[1] / "examples" / "autonomous_agent.py"
AGENT: Final = "reporter"
MODEL: Final = FakeEmbedder(dimensions=32)


def load_example() -> ModuleType:
    """Return the example as a module."""
    name = "autonomous_agent"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLE)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


load_example()


def open_store(storage: str) -> Everhold:
    settings = build_settings(storage, sqlite={"synchronous": "NORMAL"}, postgres={"pool_size": 2, "retries": 1})
    return open_engine(settings, MODEL, MODEL)


def work(storage: str, folder: Path, is_open: "Event | None" = None, *, ignores_keys: bool = False) -> None:
    """Let the agent work through its task. `ignores_keys` plants a bug and kills the process after the first mail."""
    example = load_example()
    with open_store(storage) as engine:
        if is_open is not None:
            is_open.set()
        make_tools = make_forgetful_tools if ignores_keys else example.Tools
        example.work(engine.scope(agent=AGENT), folder, make_tools)


def make_forgetful_tools(folder: Path) -> Any:
    """Return tools that ignore the idempotency key of a mail, and that kill the process after the first mail."""
    tools = load_example().Tools(folder)
    send_mail = tools.send_mail

    def send_and_crash(key: str, **arguments: Any) -> str:
        is_first = not any(tools.mailbox.glob("*.json"))
        answer: str = send_mail(uuid4().hex, **arguments)
        if is_first:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    tools.send_mail = send_and_crash
    return tools
