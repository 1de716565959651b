"""Make hostile calls in a separate process, each with a limit on time and memory."""

import asyncio
import inspect
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import yaml

from benchmarks.fuzz_commands import FuzzedCommand, find_commands, run_command
from benchmarks.fuzz_known import KnownValues
from benchmarks.fuzz_values import CallerError, choose_hostile
from everhold import AsyncEverhold, Everhold, Run, View, WorkspaceFolder, embedders, parts, settings
from everhold.adapters.minilm import install
from everhold.errors import EverholdError, NotFound, format_value
from everhold.settings_sections import DEFAULT_MODEL
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views.view import AsyncView

# The most processor seconds that one call may take.
SECONDS = 10
# The time to wait for an event of an iterator that follows the feed.
FOLLOW_SECONDS = 0.2
# The most bytes of memory that one call may take.
BYTES = 1_000_000_000
_ADDRESS_SPACE = 6_000_000_000
_RESEED = 250  # after this many calls, removed data is stored again
_EXCLUDED = ("close",)  # the other calls need an open engine
# Verbs that are slow, or that remove the data that later calls need.
_RARE = ("open", "move", "install_model", "delete_organization", "create_user", "sign_in", "set_password",
         "change_password", "doctor", "maintain")  # fmt: skip
_MEMORIES_PER_VIEW = 40


class Finding(NamedTuple):
    """A call with a forbidden result: its number in the run, its text, and the problem."""

    number: int
    call: str
    problem: str


class FuzzOutcome(NamedTuple):
    """The result of a run."""

    calls: int
    targets: int
    findings: list[Finding]
    returned: int = 0
    refused: int = 0
    slowest: float = 0.0
    slowest_call: str = ""


class Overrun(BaseException):
    """Raised if a call takes too long."""


class Target(NamedTuple):
    """A verb to call: the kind of object that has it, its name, and its parameters."""

    owner: str
    name: str
    signature: inspect.Signature
    hints: dict[str, Any]


OWNERS: dict[str, type] = {
    "engine": Everhold,
    "view": View,
    "run": Run,
    "async engine": AsyncEverhold,
    "async view": AsyncView,
    "workspace": WorkspaceFolder,
}
_SYNCHRONOUS = {"async engine": Everhold, "async view": View}


def find_verbs() -> list[Target]:
    """Return every public verb of every public class."""
    targets = []
    for owner, owner_class in OWNERS.items():
        for name in dir(owner_class):
            synchronous = getattr(_SYNCHRONOUS.get(owner, owner_class), name, None)
            if name.startswith("_") or name in _EXCLUDED or not inspect.isroutine(synchronous):
                continue
            verb = inspect.unwrap(vars(owner_class)[name].__func__) if name == "open" else inspect.unwrap(synchronous)
            signature = inspect.signature(verb)
            # `get_type_hints` would fail: the result of a verb may have a type that is imported only during the call.
            hints = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
            targets.append(Target(owner, name, signature, hints))
    return targets


class Fuzzer:
    """An engine with data in it, and the calls on it."""

    def __init__(self, folder: Path, values: dict[str, Any], seed: int) -> None:
        self.folder, self.values, self.seed = folder, values, seed
        self.engine = Everhold(parts.build(settings.load(**values)))
        self.asynchronous = AsyncEverhold(self.engine, workers=1)
        self.targets: Sequence[Target | FuzzedCommand] = [*find_verbs(), *find_commands()]
        self.views = [
            self.engine.scope(user="alice"),
            self.engine.scope(user="alice", session="s1"),
            self.engine.scope(agent="a1"),
            self.engine.scope(),
        ]
        self.known_values = self.fill()

    def fill(self) -> KnownValues:
        """Store data again that calls have removed, and return its ids and cursors."""
        for kind, name in (("organization", "default"), ("user", "alice"), ("session", "s1"), ("agent", "a1")):
            with suppress(EverholdError):
                self.engine.restore(kind, name)
        texts = ("I moved to Paris in May", "Alice likes tea", "My dog is called Rex", "Meeting on 3 March 2024")
        for view in self.views:
            with suppress(EverholdError):  # a call may have deleted the user, or ended the session
                missing = _MEMORIES_PER_VIEW - len(view.list(limit=_MEMORIES_PER_VIEW))
                view.remember_many(f"{texts[n % len(texts)]} {n} {time.time_ns()}" for n in range(max(0, missing)))
                self.views[1].say("Hello there")
                if not view.blocks():
                    view.create_block("human", "Alice likes tea\nShe lives in Paris")
                view.create_tool("search", replace=True)
        return KnownValues(self.views[-1])

    def choose(self, number: int) -> tuple[random.Random, Target | FuzzedCommand]:
        rng = random.Random(f"{self.seed}:{number}")
        target = rng.choice(self.targets)
        while rng.random() < _choose_skip_probability(target):
            target = rng.choice(self.targets)
        return rng, target

    def prepare(self, rng: random.Random, target: Target | FuzzedCommand) -> tuple[str, Callable[[], Any]]:
        """Return a call as text, and the call."""
        if isinstance(target, FuzzedCommand):
            words = target.choose_words(rng, self.known_values, "cli.yaml")
            return f"everhold {' '.join(map(format_value, words))}"[:600], partial(run_command, words, rng)
        positional, named = self._choose_arguments(rng, target)
        call = partial(self._call, rng, target, positional, named)
        outline = ", ".join(
            [*map(format_value, positional), *(f"{name}={format_value(value)}" for name, value in named.items())]
        )
        return f"{target.owner}.{target.name}({outline})"[:600], call

    def _choose_arguments(self, rng: random.Random, target: Target) -> tuple[list[Any], dict[str, Any]]:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in target.signature.parameters.values():
            name, kind = parameter.name, parameter.kind
            if name in ("self", "cls"):
                continue
            if kind is parameter.VAR_POSITIONAL:
                positional += [self._choose_value(rng, "tags") for _ in range(rng.randint(0, 3))]
            elif kind is parameter.VAR_KEYWORD:
                named |= self._choose_fields(rng, target.hints[name])
            elif kind is parameter.KEYWORD_ONLY:
                named |= {name: self._choose_value(rng, name)} if rng.random() < 0.3 else {}
            elif parameter.default is parameter.empty or (
                rng.random() < 0.5 and len(positional) == _find_position(target, name)
            ):
                positional.append(self._choose_value(rng, name))
        return positional, named

    def _choose_fields(self, rng: random.Random, annotation: Any) -> dict[str, Any]:
        field_names = list(get_type_hints(get_args(annotation)[0])) if get_origin(annotation) is not None else []
        names = [rng.choice(field_names) for _ in range(rng.randint(0, 3))] if field_names else []
        if rng.random() < 0.2:
            names.append(rng.choice(("metadata", "name", "storage", "sqlite", "no_such_field", "a\x00b")))
        return {name: self._choose_value(rng, name) for name in names}

    def _choose_value(self, rng: random.Random, name: str) -> Any:
        return self.known_values.choose_value(name, rng) if rng.random() < 0.6 else choose_hostile(rng)

    def _call(self, rng: random.Random, target: Target, positional: list[Any], named: dict[str, Any]) -> Any:
        view = rng.choice(self.views)
        if target.owner == "async engine":
            result = getattr(self.asynchronous, target.name)(*positional, **named)
            return asyncio.run(_await_result(result)) if inspect.isawaitable(result) else result
        if target.owner == "async view":
            return asyncio.run(
                _await_result(getattr(AsyncView(view, self.asynchronous._pool), target.name)(*positional, **named))
            )
        openers: dict[str, Callable[[], Any]] = {
            "engine": lambda: self.engine,
            "view": lambda: view,
            "run": lambda: _open_run(view),
            "workspace": lambda: view.workspace("w"),
        }
        result = getattr(openers[target.owner](), target.name)(*positional, **named)
        if target.name == "recall":
            return list(result)
        return _close_engine(result)


def _open_run(view: View) -> Run:
    """Return the run that is not finished, or a new one."""
    try:
        return view.resume()
    except NotFound:
        return view.run("Call verbs")


def _choose_skip_probability(target: Target | FuzzedCommand) -> float:
    """Return the probability that another target is called instead."""
    if isinstance(target, FuzzedCommand):
        return 0.7  # a command opens its own store, which takes longer than most verbs
    return 0.9 if target.name in _RARE else 0.0


def _find_position(target: Target, name: str) -> int:
    return [other for other in target.signature.parameters if other not in ("self", "cls")].index(name)


async def _await_result(result: Any) -> Any:
    if inspect.isasyncgen(result):
        with suppress(TimeoutError):  # events that are followed may never come
            return await asyncio.wait_for(anext(result, None), FOLLOW_SECONDS)
        return None
    value = await result
    return await value.close() if isinstance(value, AsyncEverhold) else value


def _close_engine(result: Any) -> Any:
    if isinstance(result, Everhold):
        result.close()
    return result


@contextmanager
def _limit_time() -> Iterator[None]:
    """Raise Overrun after SECONDS of processor time, which does not depend on how busy the machine is."""

    def raise_overrun(*_: object) -> None:
        raise Overrun

    signal.signal(signal.SIGPROF, raise_overrun)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _try_call(call: Callable[[], Any]) -> tuple[bool, str | None]:
    """Make a call. Return whether it returned a result, and its problem if it has one."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with _limit_time():
            call()
    except (EverholdError, CallerError):
        returned = False
    except Overrun:
        return False, f"more than {SECONDS} seconds of processor time"
    except MemoryError:
        return False, "MemoryError"
    except BaseException as error:  # noqa: BLE001 — any other exception is a finding
        return False, f"{type(error).__name__}: {error!s:.300} at {_describe_origin(error)}"
    else:
        returned = True
    growth = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return returned, f"{growth:,} bytes of memory" if growth > BYTES else None


def _describe_origin(error: BaseException) -> str:
    """Return the files and lines of the innermost frames, innermost first."""
    frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ else []
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-6:]]
    return " < ".join(reversed(places))


def _prepare_folder(folder: Path, values: dict[str, Any]) -> None:
    os.chdir(folder)
    command_settings = (
        {**values, "storage": "sqlite:///cli.db"} if values["storage"].startswith(("sqlite", "duckdb")) else values
    )
    Path("cli.yaml").write_text(yaml.safe_dump(command_settings), "utf-8")
    Path("settings.yaml").write_text("storage: memory://\n", "utf-8")
    Path("bomb.yaml").write_text("a: &a [x, x]\nb: &b [*a, *a]\nstorage: *b\n", "utf-8")
    Path("notes.txt").write_text("Some notes.\n" * 50, "utf-8")
    Path("list.json").write_text('["one", {"text": "two", "metadata": {"a": 1}}]', "utf-8")
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        os.environ[name] = str(folder)
    os.environ["COLUMNS"] = "100"
    model = FakeEmbedder(DEFAULT_MODEL)  # it has the default name, so that settings need not name a model
    patched_module: Any = embedders  # the real model and its download are not tested here
    patched_module.make_embedder = lambda _: embedders.EmbeddingParts(model, model)
    patched_module = install
    patched_module.install = lambda *_, **__: folder


def run_calls(pipe: Connection, folder: Path, values: dict[str, Any], calls: int, seed: int, only: int | None) -> None:
    """Make the calls and send their outcome. `journal.txt` always holds the call that is being made."""
    _prepare_folder(folder, values)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    fuzzer = Fuzzer(folder, {**values, "log": {"flush_seconds": 3600}, "sqlite": {"synchronous": "NORMAL"}}, seed)
    returned, findings, slowest = 0, [], (0.0, "")
    numbers = range(calls) if only is None else [only]
    parent = os.getppid()
    for number in numbers:
        if os.getppid() != parent:
            return  # the process that started this run has ended
        if number % _RESEED == 0:
            fuzzer.known_values = fuzzer.fill()
        rng, target = fuzzer.choose(number)
        text, call = fuzzer.prepare(rng, target)
        (folder / "journal.txt").write_text(f"{number}\n{text}", "utf-8", errors="backslashreplace")
        began = time.process_time()
        has_returned, problem = _try_call(call)
        slowest = max(slowest, (time.process_time() - began, text[:200]))
        returned += has_returned
        if problem is not None:
            findings.append(Finding(number, text, problem))
            print(json.dumps(findings[-1]._asdict()), file=sys.stderr, flush=True)
    count = len(numbers)
    pipe.send(FuzzOutcome(count, len(fuzzer.targets), findings, returned, count - returned - len(findings), *slowest))
    fuzzer.engine.close()
