"""Describe arguments that Typer refuses in one sentence: the fault, the value, and what to type instead.

Typer's errors carry only a message, so its parts are read back from the text. A message of another form is passed on.
"""

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher, get_close_matches

import typer

from everhold.errors import format_value
from everhold.interfaces.shared.failures import Failure
from everhold.interfaces.shared.questions import is_question

_QUOTES = "put a text of several words in quotes"
_ASK = "`everhold recall QUESTION` asks and `everhold remember TEXT` stores"
# A name less similar than this to what was typed is no help: "search" is not a slip for "user".
_MIN_SIMILARITY = 0.7
# Words that other tools use for a command, by the command.
_OTHER_WORDS = {
    "remember": ("store", "save", "insert", "write", "note"), "recall": ("search", "find", "query", "retrieve"),
    "forget": ("delete", "remove", "rm", "del"), "get": ("show", "cat", "view", "read"), "list": ("ls", "all"),
    "revise": ("edit", "update", "change"), "doctor": ("status", "info", "stats", "check"),
    "shell": ("chat", "repl", "start"), "--help": ("help", "commands"), "import": ("load",), "export": ("dump",),
}  # fmt: skip
OTHER_COMMANDS = {word: name for name, words in _OTHER_WORDS.items() for word in words}
# Options that each command has, and that `everhold` itself has not.
_COMMAND_OPTIONS = (
    "--store",
    "--org",
    "--project",
    "--user",
    "--agent",
    "--session",
    "--timezone",
    "--json",
    "--debug",
)
# Options of `everhold` itself, which come before the command.
_GLOBAL_OPTIONS = ("-v", "-vv", "--verbose")
# Options that other tools or our Python arguments have, and ours that do the same.
_EXPIRES = ("--expires",)
_OTHER_OPTIONS = {
    "--ttl": _EXPIRES, "--ttl-seconds": _EXPIRES, "--expires-in": _EXPIRES, "--expires-at": _EXPIRES,
    "--k": ("-k",), "--top-k": ("-k", "--limit"), "--limit": ("-k",), "-n": ("-k", "--limit"), "-k": ("--limit",),
}  # fmt: skip
_TYPES = {"Input should be a valid integer": "a whole number", "Input should be a valid number": "a number"}

# A fact and a remedy. An empty remedy is replaced by a reference to the help of the command.
Explanation = tuple[str, str]


def describe_misuse(error: typer.TyperException, arguments: Sequence[str]) -> Failure:
    """Return the message of the command line about arguments that a command does not take."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    see_help = f"see `{context.command_path if context else 'everhold'} --help`"
    for pattern, explain in _EXPLANATIONS.items():
        if match := pattern.match(message):
            fact, remedy = explain(match, arguments, _list_options(context))
            # A suggestion is a question and needs no more; anything else may need the help.
            advice = remedy if remedy.endswith("?") else "; ".join(filter(None, (remedy, see_help)))
            return Failure(fact, type(error).__name__, remedy=advice)
    fact = message[:1].lower() + message[1:].rstrip(".")
    return Failure(fact, type(error).__name__, remedy=see_help)


def _list_options(context: typer.Context | None) -> list[str]:
    """Return the options of the command in whose arguments the fault is."""
    return [name for parameter in context.command.params for name in parameter.opts] if context else []


def _explain_command(match: re.Match[str], arguments: Sequence[str], _: Sequence[str]) -> Explanation:
    name, suggestion = match["name"], match["suggestion"]
    is_at_start = bool(arguments) and repr(arguments[0]) == name
    if is_at_start and not is_question(" ".join(arguments)):
        suggestion = _suggest_command(arguments[0], (suggestion or "").strip("'"))
    elif is_at_start:
        suggestion = None
    if suggestion:
        return f"no command {name}", f"did you mean {suggestion}?"
    return f"no command {name}", _ASK if is_at_start else ""


def _suggest_command(typed: str, similar: str) -> str | None:
    """Return the command, in quotes, that someone means by a word; None if no command is similar enough."""
    command = OTHER_COMMANDS.get(typed.lower())
    if command is None and similar:
        is_similar = SequenceMatcher(None, typed.lower(), similar).ratio() >= _MIN_SIMILARITY
        command = similar if is_similar or similar.startswith(typed.lower()) else None
    return None if command is None else repr(command)


def _explain_option(match: re.Match[str], arguments: Sequence[str], options: Sequence[str]) -> Explanation:
    name, similar_options = match["name"], (match["known"] or "").split(", ")
    if name in _GLOBAL_OPTIONS:
        return f"no option {name} after the command", f"write it before the command: `everhold {name} COMMAND …`"
    replacement = next((option for option in _OTHER_OPTIONS.get(name, ()) if option in options), None)
    if replacement is not None:
        return f"no option {name}", f"did you mean {replacement}?"
    if "--expires" in _OTHER_OPTIONS.get(name, ()):
        return f"no option {name}", "what this command stores does not expire, so leave it out"
    preceding = arguments[: arguments.index(name)] if name in arguments else arguments
    if name in _COMMAND_OPTIONS and all(argument.startswith("-") for argument in preceding):
        return f"no option {name} before the command", f"write it after the command: `everhold COMMAND … {name} …`"
    nearest = get_close_matches(name, similar_options, n=1)
    return f"no option {name}", f"did you mean {nearest[0]}?" if nearest else ""


def _explain_extra(match: re.Match[str], _: Sequence[str], __: Sequence[str]) -> Explanation:
    return f"too many arguments: {format_value(match['extra'])}", _QUOTES


def _explain_value(match: re.Match[str], arguments: Sequence[str], _: Sequence[str]) -> Explanation:
    option, reason = match["option"], match["reason"].rstrip(".").removeprefix("Value error, ")
    expected = next((name for start, name in _TYPES.items() if reason.startswith(start)), None)
    value = _find_value(option, arguments)
    if expected is None or value is None:
        return f"{option}: {reason}", ""
    return f"{option} {format_value(value)} is not {expected}", ""


def _find_value(option: str, arguments: Sequence[str]) -> str | None:
    """Return the value that the user typed for an option: in `--limit 3`, `--limit=3` or `-k3`, this is 3."""
    for argument, next_argument in zip(arguments, [*arguments[1:], ""], strict=True):
        if argument == option:
            return next_argument
        if argument.startswith(option):
            return argument.removeprefix(option).removeprefix("=")
    return None


_EXPLANATIONS: dict[re.Pattern[str], Callable[[re.Match[str], Sequence[str], Sequence[str]], Explanation]] = {
    re.compile(r"No such command (?P<name>.+?)\.(?: Did you mean (?P<suggestion>'[^']*').*)?$", re.DOTALL): (
        _explain_command
    ),
    re.compile(r"No such option: (?P<name>\S+)(?: \(Possible options: (?P<known>.*)\))?"): _explain_option,
    re.compile(r"Got unexpected extra argument\(?s?\)? \((?P<extra>.*)\)", re.DOTALL): _explain_extra,
    re.compile(r"Invalid value for '?(?P<option>[^':]+)'?: (?P<reason>.*)", re.DOTALL): _explain_value,
}
