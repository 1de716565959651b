"""A small shell: sentences are stored, questions are answered with reasons, and /commands do the rest."""

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from everhold.errors import Argument, InvalidInput, NotFound, Verb
from everhold.interfaces.cli import memory_lists, sample, show
from everhold.interfaces.cli.call import Call, CommandResult, ShellChange, ShellLine, command, shell_line
from everhold.interfaces.cli.commands import make_root
from everhold.interfaces.cli.failures import FAILED, describe, spell_for_terminal
from everhold.interfaces.cli.forgetting import render_undo
from everhold.interfaces.cli.ids import resolve_id
from everhold.interfaces.cli.inputs import read_standard_input
from everhold.interfaces.cli.memory_results import explain_no_hits, show_memories
from everhold.interfaces.cli.misuse import OTHER_COMMANDS, describe_misuse
from everhold.interfaces.cli.numbers import read_number
from everhold.interfaces.shared.questions import is_question
from everhold.model.validation import suggest_name

app = typer.Typer()

_HITS = 5
_MAX_LISTED = 20
_MAX_EARLIER_QUESTIONS = 5  # how many questions about data a follow-up can build on
# Commands that open a shell, or a different store than the shell's.
_NOT_IN_A_SHELL = ("shell", "move", "model")
# Commands whose changes `undo` takes back.
_UNDOABLE_COMMANDS = ("revise", "supersede", "forget", "merge")
_DATA_COMMANDS = ("ask", "sql", "tables", "describe", "sources")
_BARE_COMMANDS = {name: f"/{name}" for name in ("help", "quit", "exit", "undo", "list")}
_BARE_COMMANDS |= dict.fromkeys(("q", ":q", "bye", "goodbye"), "/quit")
# The first character after the Greek and Cyrillic alphabets. Other scripts may write sentences without spaces.
_FIRST_OF_OTHER_SCRIPTS = "\u0530"
TAKEN_AS_QUESTION = "read as a question, so nothing was stored; /remember TEXT stores it"


class Leave(Exception):
    """Raised to leave the shell."""


@command(app, "shell", creates_store=True)
def shell(
    call: Call,
    with_sample: Annotated[bool, typer.Option("--sample", help="Use a small sample conversation.")] = False,
) -> CommandResult:
    """Open a shell: type a sentence to store it, ?question to recall."""
    is_terminal = sys.stdin.isatty()
    if is_terminal and call.as_json:
        raise InvalidInput("shell --json answers lines from a pipe, and this is a terminal", remedy="leave --json out")
    if not with_sample:
        return _run_conversation(call, _HELP, is_terminal=is_terminal)
    with sample.open_sample(call) as sample_call:
        introduction = sample.introduce(sample_call, terminal=is_terminal)
        return _run_conversation(sample_call, introduction.output, is_terminal=True) if is_terminal else introduction


def _run_conversation(call: Call, introduction: RenderableType | None, *, is_terminal: bool) -> CommandResult:
    console = Console(highlight=False, quiet=call.as_json)
    call.shown_ids = []
    if is_terminal:
        call.view  # noqa: B018 — opens the store, so that the first answer is not the slow one
        console.print(introduction)
    answers = list(_answer_lines(call, _read_lines() if is_terminal else read_standard_input(), console))
    has_failed = not is_terminal and any("error" in line_answer for line_answer in answers)
    return CommandResult({"answers": answers}, None, FAILED if has_failed else 0)


def _answer_lines(call: Call, lines: Iterable[str], console: Console) -> Iterator[dict[str, Any]]:
    """Yield the answer to each line. An error is shown and does not end the shell."""
    for line in lines:
        try:
            outcome = answer(call, line)
        except Leave:
            return
        except KeyboardInterrupt:
            console.print(Text("interrupted", style="dim"))
        except Exception as error:
            failure = describe(error, _spell_for_shell)
            Console(stderr=True, quiet=call.as_json).print(Text(failure.message, style="red"), soft_wrap=True)
            yield {"line": line, **failure.document}
        else:
            console.print(outcome.output)
            yield {"line": line, "answer": outcome.document}


def _spell_for_shell(reference: Verb | Argument) -> str:
    """Return a verb as a command of the shell if there is one."""
    command = f"/{reference.name}"
    return command if isinstance(reference, Verb) and command in COMMANDS else spell_for_terminal(reference)


def _read_lines() -> Iterator[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.shortcuts import CompleteStyle

    words = WordCompleter(list(COMMANDS), sentence=True)
    session: PromptSession[str] = PromptSession(completer=words, complete_style=CompleteStyle.READLINE_LIKE)
    while True:
        try:
            line = session.prompt("› ").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if line:
            yield line


def answer(call: Call, line: str) -> CommandResult:
    """Run one line: a command, a question, or a sentence to remember."""
    name, _, argument = line.partition(" ")
    open_question, call.open_question = call.open_question, None
    choice = read_number(line)
    if open_question is not None and choice is not None:
        return _ask(call, open_question.question, choice)
    bare_command = _BARE_COMMANDS.get(line.lower().rstrip(".!()"))
    if bare_command is not None:
        return COMMANDS[bare_command].act(call, "")
    if line.startswith("/"):
        return COMMANDS[name].act(call, argument.strip()) if name in COMMANDS else _run_command(call, line[1:])
    if line.startswith("?"):
        return _recall(call, line[1:].strip())
    if is_question(line):
        return _recall(call, line, note=TAKEN_AS_QUESTION)
    if len(line.split()) == 1 and max(line) < _FIRST_OF_OTHER_SCRIPTS:
        remedy = f"?{line} recalls it, /remember {line} stores it, and /help shows the commands"
        raise InvalidInput(f"a single word is not stored: {line!r}", value=line, remedy=remedy)
    return _remember(call, line)


def _recall(call: Call, question: str, note: str = "") -> CommandResult:
    hits = call.view.recall(question, k=_HITS)
    numbered = call.number_rows(hit.id for hit in hits)
    empty = explain_no_hits(call, hits, memory_lists.NOTHING_RELEVANT)
    table = memory_lists.make_hit_list(hits, call.zone, call.scope, why=True, empty=empty, numbered=numbered)
    return CommandResult({"hits": hits.hits}, Group(table, Text(note, style="dim")) if note else table)


def _remember(call: Call, text: str) -> CommandResult:
    if not text:
        raise InvalidInput("/remember needs a text", remedy="write /remember TEXT")
    memory = call.view.remember(text)
    if memory.version == 1:  # otherwise it was stored before, and there is nothing to take back
        call.history.append(ShellChange(memory.id, is_new=True))
    return show_memories(call, [memory], "remembered")


def _ask_data(call: Call, question: str) -> CommandResult:
    """Answer a question about uploaded data. A line with options is a command of the command line."""
    if " --" in f" {question}":
        return _run_command(call, f"ask {question}")
    if not question:
        raise InvalidInput("/ask needs a question", remedy="write /ask QUESTION")
    return _ask(call, question.strip("\"'"))


def _ask(call: Call, question: str, choice: int | None = None) -> CommandResult:
    from everhold.interfaces.cli.asking import show_answer

    call.prepare_data()
    data_answer = call.view.ask(question, after=call.earlier_questions, choice=choice)
    if data_answer.choices:
        call.open_question = data_answer  # the next line may be the number of a choice
    elif data_answer.sql:
        call.earlier_questions = [*call.earlier_questions, data_answer.earlier][-_MAX_EARLIER_QUESTIONS:]
    return show_answer(data_answer)


def _list(call: Call, options: str) -> CommandResult:
    return _run_command(call, f"list {options or f'--limit {_MAX_LISTED}'}")


def _run_command(call: Call, line: str) -> CommandResult:
    """Run a command of the command line on the shell's store and scope: `block append human "Likes tea"`."""
    root = make_root()
    try:
        words = shlex.split(line)
    except ValueError:
        raise InvalidInput(
            "a quotation mark is not closed", value=line, remedy="close it, or escape it with \\"
        ) from None
    if not words or words[0] not in root.commands or words[0] in _NOT_IN_A_SHELL:
        names = [*COMMANDS, *(f"/{name}" for name in root.commands if name not in _NOT_IN_A_SHELL)]
        word = words[0] if words else ""
        other_command = f"/{OTHER_COMMANDS.get(word, word)}"
        remedy = f"did you mean {other_command!r}?" if other_command in names else suggest_name(f"/{word}", names)
        raise InvalidInput(f"no command /{word}", value=f"/{word}", remedy=remedy)
    if words[0] in _DATA_COMMANDS:
        call.prepare_data()
    running_line = ShellLine(call)
    token = shell_line.set(running_line)
    try:
        root(words, prog_name="/", standalone_mode=False)
    except typer.TyperException as error:
        failure = describe_misuse(error, words)
        raise InvalidInput(failure.fact, value=line, remedy=failure.remedy) from None
    finally:
        shell_line.reset(token)
    if words[0] in _UNDOABLE_COMMANDS and running_line.result is not None and "--preview" not in words:
        call.history.append(ShellChange(_find_changed_id(running_line.result.document), is_new=False))
    return running_line.result or CommandResult({}, None)  # --help has already printed its output


def _find_changed_id(document: Any) -> str | None:
    """Return the id of the first memory that a command lists as changed; `merge` lists none."""
    memories = document.get("memories") if isinstance(document, dict) else None
    return memories[0]["id"] if memories else None


def _forget(call: Call, names: str) -> CommandResult:
    """Forget the memory of a number, an id or a key. A line with options or several names is a command."""
    if not names:
        raise InvalidInput("/forget needs the number or the id of a memory", remedy="/list shows them")
    if len(names.split()) > 1:
        return _run_command(call, f"forget {names}")
    memory = call.view.forget(resolve_id(call, names))
    call.history.append(ShellChange(memory.id, is_new=False))
    return CommandResult({"memory": memory}, show.render_text(f"forgotten: {memory.text} (/undo restores it)"))


def _undo(call: Call, name: str) -> CommandResult:
    """Take back the last line that stored or changed something; if there is none, the last change in the store.

    With the number or the id of a memory, take back the last change to it.
    """
    memory_id = resolve_id(call, name) if name else None
    positions = [position for position, change in enumerate(call.history) if memory_id in (None, change.memory_id)]
    shell_change = call.history.pop(positions[-1]) if positions else ShellChange(memory_id, is_new=False)
    try:
        # If a new memory replaced another one, this makes the other one valid again.
        change = call.view.undo(shell_change.memory_id)
    except NotFound:
        if not shell_change.is_new or shell_change.memory_id is None:
            raise
        memory = call.view.forget(shell_change.memory_id)
        return CommandResult({"memory": memory}, show.render_text(f"taken back: {memory.text}"))
    return CommandResult({"change": change}, render_undo(change))


def _show_help(_: Call, __: str) -> CommandResult:
    return CommandResult({"commands": {name: action.help_text for name, action in COMMANDS.items()}}, _HELP)


def _quit(_: Call, __: str) -> CommandResult:
    raise Leave


@dataclass(frozen=True)
class Command:
    """A command of the shell: its function, help and argument."""

    act: Callable[[Call, str], CommandResult]
    help_text: str
    argument: str = ""


COMMANDS: Mapping[str, Command] = {
    "/remember": Command(_remember, "store a text, also one that reads like a question", argument=" TEXT"),
    "/ask": Command(_ask_data, "answer a question about uploaded data", argument=" QUESTION"),
    "/list": Command(_list, f"the newest {_MAX_LISTED} memories, with numbers that every command takes as an id"),
    "/forget": Command(_forget, "hide a memory: its number in the last table, or its id", argument=" NUMBER|ID"),
    "/undo": Command(_undo, "take back the last sentence or change (to a memory)", argument=" [ID]"),
    "/help": Command(_show_help, "this"),
    "/quit": Command(_quit, "leave (or Ctrl-D)"),
    "/exit": Command(_quit, "leave"),
}


def _make_help() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_row(Text("a sentence", style="bold"), "remember it")
    grid.add_row(Text("?question", style="bold"), "recall what answers it, and why")
    for name, action in COMMANDS.items():
        grid.add_row(Text(name + action.argument, style="bold"), action.help_text)
    grid.add_row(Text("/COMMAND …", style="bold"), "any command of `everhold`, such as /block list or /run show")
    return grid


_HELP = _make_help()
