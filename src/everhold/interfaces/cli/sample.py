"""A small conversation and a table to try the shell on, with a few questions already answered."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Group, RenderableType
from rich.text import Text

from everhold import MemoryInput, View
from everhold.interfaces.cli import memory_lists
from everhold.interfaces.cli.call import Call, CommandResult
from everhold.interfaces.shared.documents import document

USER = "mia"
QUESTIONS = (
    "Where is she moving to?",
    "What food should she avoid?",
    "Where does Pixel hide?",
    "Which documents expire soon?",
    "What could be a good birthday present for Lena?",
)
DATA_QUESTION = "What is the total cost of each category?"
_DATA_FILE = "expenses.csv"
_HITS = 2


@contextmanager
def open_sample(call: Call) -> Iterator[Call]:
    """Yield a call on a store with the sample: the store of the call, or one for samples."""
    scope = {**call.scope, "user": call.scope["user"] or USER}
    with _choose_store(call) as store:
        sample_call = Call(store, as_json=call.as_json, timezone=call.zone.key, scope=scope)
        sample_call.creates_store = True
        sample_call.prepare_data = partial(_upload_expenses, sample_call)
        try:
            fill(sample_call.view)
            yield sample_call
        finally:
            sample_call.close()


@contextmanager
def _choose_store(call: Call) -> Iterator[str]:
    if call.store is not None:
        yield call.store
        return
    folder = call.settings.data
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(folder, os.W_OK)
    except OSError:
        is_writable = False
    if is_writable:
        yield str(folder / "sample.db")
        return
    with TemporaryDirectory(prefix="everhold-") as temporary:
        yield str(Path(temporary) / "sample.db")


def fill(view: View) -> None:
    """Store the conversation in one commit, unless the view has memories."""
    if not view.list(limit=1):
        view.remember_many(read_conversation())


def _upload_expenses(call: Call) -> None:
    """Upload the table, unless there is one. It takes a while, so a shell does it at the first question about data."""
    if not call.view.tables(limit=1):
        with as_file(files(__package__).joinpath(_DATA_FILE)) as path:
            call.view.upload(str(path), name=_DATA_FILE)


def read_conversation() -> list[MemoryInput]:
    text = files(__package__).joinpath("sample.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def introduce(call: Call, *, terminal: bool) -> CommandResult:
    """Return the questions with the hits of each."""
    hits_by_question = {question: call.view.recall(question, k=_HITS) for question in QUESTIONS}
    heading = f"Everhold remembers {len(read_conversation())} lines between Mia and her assistant."
    parts: list[RenderableType] = [Text(heading, style="bold"), Text("Asked, found, and why:", style="dim"), Text()]
    for question, hits in hits_by_question.items():
        parts += [Text(f"?{question}", style="bold magenta"), memory_lists.make_answer_list(hits), Text()]
    parts.append(_render_next_step(terminal=terminal))
    answers = [
        {"question": question, "hits": [document(hit) for hit in hits]} for question, hits in hits_by_question.items()
    ]
    return CommandResult({"answers": answers}, Group(*parts))


def _render_next_step(*, terminal: bool) -> Text:
    invitation = "Your turn: type " if terminal else "To continue, run this in a terminal: type "
    return Text.assemble(
        ("What the move cost: ", "dim"), (f"/ask {DATA_QUESTION}", "bold magenta"), "\n", invitation,
        ("a sentence", "bold"), ", ", ("?question", "bold"), " or ", ("/help", "bold"), ".",
    )  # fmt: skip
