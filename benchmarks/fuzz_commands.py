"""Call every command of the command line in this process, with hostile words."""

import io
import random
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from benchmarks.fuzz_known import KnownValues
from benchmarks.fuzz_values import NUMBERS, TEXTS
from everhold.interfaces.cli import main
from everhold.interfaces.cli.commands import LazyCommand, make_root

# The exit codes that interfaces/cli/edge.py documents.
EXIT_CODES = (0, 1, 2, 130)
_JSON = (
    '{"a": 1}',
    "[" * 20_000,
    '{"a": ' * 5_000,
    "{",
    '{"a": NaN}',
    '{"a": 1' + "0" * 5_000 + "}",
    '"\\ud800"',
    "{}",
)
_CONDITIONS = (
    "kind=fact",
    "importance>=0.5",
    "text~tea",
    "level=" + "9" * 5_000,
    "=",
    "metadata.a=" + "[" * 20_000,
    "created_at>x",
)
_TIMES = (
    "yesterday",
    "2024-05-01",
    "in 999999999 days",
    "99999999999 weeks ago",
    "0001-01-01",
    "9999-12-31T23:59:59",
    "12:99",
)
# Options with which a command runs until Ctrl-C.
_ENDLESS = ("follow",)
# A server runs until it is stopped.
_SERVERS = frozenset([("serve-voice",)])
_TYPED = ("", "y\n", "n\n", "recall tea\nlist\nquit\n", "\x00\n", "x" * 50_000, "remember hello\n'unclosed\n")


class CommandFailed(Exception):
    """Raised if a command did not end with a documented exit code and message."""


class FuzzedCommand(NamedTuple):
    """The words of a command, and its arguments and options."""

    words: tuple[str, ...]
    parameters: tuple[Any, ...]

    def choose_words(self, rng: random.Random, known_values: KnownValues, store: str) -> list[str]:
        """Return the command with arguments and options, some of them hostile."""
        words = list(self.words)
        values: list[str] = []
        for option in self.parameters:
            if option.param_type_name == "argument":
                count = rng.choice((1, 1, 1, 2)) if option.nargs == -1 else 1
                values += [_choose_word(rng, known_values, option) for _ in range(count)]
            elif "--store" in option.opts:
                words += (
                    ["--store", store] if rng.random() < 0.9 else [rng.choice(option.opts), rng.choice(TEXTS)[:200]]
                )
            elif option.name == "yes" or (option.name not in _ENDLESS and rng.random() < 0.25):
                words.append(rng.choice([*option.opts, *option.secondary_opts]))
                words += [] if option.is_flag else [_choose_word(rng, known_values, option)]
        return [*words, "--", *values] if rng.random() < 0.7 else [*words, *values]


def find_commands() -> list[FuzzedCommand]:
    """Return every command that ends by itself, those of all groups included."""
    commands: list[FuzzedCommand] = []
    pending: list[tuple[tuple[str, ...], Any]] = [((), make_root())]
    while pending:
        words, command = pending.pop()
        command = command.load() if isinstance(command, LazyCommand) else command
        subcommands = getattr(command, "commands", None)
        if subcommands is None and words not in _SERVERS:
            parameters = tuple(parameter for parameter in command.params if parameter.name != "help")
            commands.append(FuzzedCommand(words, parameters))
        elif subcommands is not None:
            pending += [((*words, name), subcommand) for name, subcommand in subcommands.items()]
    return commands


def _choose_word(rng: random.Random, known_values: KnownValues, parameter: Any) -> str:
    if rng.random() < 0.5:
        value = known_values.choose_value(parameter.name or "", rng)
        if isinstance(value, str | int | float):
            return str(value)
    numbers = [number for number in NUMBERS if _is_short(number)]
    pool = rng.choice((TEXTS, _JSON, _CONDITIONS, _TIMES, known_values.memory_ids, numbers))
    return str(rng.choice(pool))


def _is_short(number: Any) -> bool:
    return not isinstance(number, int) or number.bit_length() < 4_000


def run_command(words: list[str], rng: random.Random) -> int:
    """Run a command and return its exit code. Raise CommandFailed for another exit code or a traceback."""
    stdout, stderr = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    previous_stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(rng.choice(_TYPED).encode()), "utf-8")
    try:
        with redirect_stdout(stdout), redirect_stderr(stderr):
            code = main(words)
    finally:
        sys.stdin = previous_stdin
    messages = stderr.getvalue()
    if code not in EXIT_CODES or "Traceback" in messages or "unexpected " in messages:
        raise CommandFailed(f"exit code {code}: {messages[:150]} … {messages[-200:]}")
    return code
