"""The format of a life: what a person told an assistant over time, and questions with known answers.

A life is one JSON file. docs/evaluation.md describes the fields.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from everhold.errors import InvalidInput, UnknownField, format_value
from everhold.model.fields import Flag, Id, Label, Name, Text, Time
from everhold.model.validation import explain_errors, suggest_name

NO_ANSWER = "no_answer"
_FIELDS = ("persona", "title", "memories", "questions")


def _refuse_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "the text is blank; write a sentence")
    return text


Sentence = Annotated[Text, AfterValidator(_refuse_blank)]
Ids = tuple[Id, ...]


class LifeMemory(BaseModel):
    """A message of the person.

    `updates` and `not_update` are for the evaluation and not passed to the engine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Id
    at: Time
    text: Sentence
    speaker: Name | None = None
    kind: Label | None = None
    updates: Ids = ()
    """Earlier memories that this one makes outdated."""
    not_update: Flag = False
    """Whether it looks like a change of an earlier memory, but is not a change."""

    @property
    def fields(self) -> dict[str, Any]:
        """The arguments of `remember` other than the text."""
        fields = {"occurred_at": self.at, "speaker": self.speaker, "kind": self.kind}
        return {name: value for name, value in fields.items() if value is not None}


class LifeQuestion(BaseModel):
    """A question and the ids of the memories that answer it; without `expect` it has no answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Id
    q: Sentence
    type: Label
    # The zone is kept as written: "yesterday" depends on it.
    asked_at: AwareDatetime
    expect: Ids
    also_ok: Ids = ()
    stale: Ids = ()
    answer: str = ""

    @property
    def right(self) -> frozenset[str]:
        """Every memory that is a right answer, needed or not."""
        return frozenset((*self.expect, *self.also_ok))


class Life(BaseModel):
    """One person's memories in time order, and questions about them."""

    model_config = ConfigDict(frozen=True)

    name: str
    """The name of the file, without its ending."""
    persona: Id
    title: str = ""
    memories: tuple[LifeMemory, ...]
    questions: tuple[LifeQuestion, ...]

    @property
    def lookalikes(self) -> frozenset[str]:
        """The memories that look like a change of an earlier memory, but are not a change."""
        return frozenset(memory.id for memory in self.memories if memory.not_update)


P = TypeVar("P", LifeMemory, LifeQuestion)


def read_lives(paths: Sequence[Path]) -> list[Life]:
    """Return the lives of several files; raise InvalidInput if a file is wrong or two have the same name."""
    lives = [read_life(path) for path in paths]
    names = [life.name for life in lives]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"two files are named {name!r}", value=name, remedy="name each file once, or rename one")
    return lives


def read_life(path: Path) -> Life:
    """Return the life in a file. Raise InvalidInput with the place of the fault if the file is malformed."""
    document = _load_object(path)
    memories = _parse_parts(path, document, "memories", LifeMemory)
    questions = _parse_parts(path, document, "questions", LifeQuestion)
    _check_unique_ids(path, "memory", memories)
    _check_unique_ids(path, "question", questions)
    known_ids = {memory.id for memory in memories}
    for memory in memories:
        _check_known_ids(f"{path}, memory {memory.id!r}", "updates", memory.updates, known_ids)
    for question in questions:
        _check_question(f"{path}, question {question.id!r}", question, known_ids)
    sorted_memories = tuple(sorted(memories, key=lambda memory: memory.at))
    header = {name: document[name] for name in ("persona", "title") if name in document}
    try:
        return Life(name=path.stem, **header, memories=sorted_memories, questions=tuple(questions))
    except ValidationError as error:
        raise explain_errors(error, str(path), _FIELDS) from None


def _load_object(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidInput(
            f"cannot read {path} ({error.strerror})", value=str(path), remedy="name a readable JSON file"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{path} is not JSON in UTF-8 ({error})", remedy="correct it there, or name another file"
        ) from None
    if not isinstance(document, dict):
        raise InvalidInput(
            f"{path} holds {format_value(document)}, not an object", remedy=f"write an object with {', '.join(_FIELDS)}"
        )
    for name in document:
        if name not in _FIELDS:
            raise UnknownField(f"{path}: a life has no field {name!r}", value=name, remedy=suggest_name(name, _FIELDS))
    return document


def _parse_parts(path: Path, document: dict[str, Any], name: str, model: type[P]) -> list[P]:
    entries = document.get(name)
    if not isinstance(entries, list) or not entries:
        raise InvalidInput(f"{path} has no {name}", value=entries, remedy=f"list at least one under {name!r}")
    parts = []
    for number, fields in enumerate(entries, 1):
        where = f"{path}, {name}[{number}]"
        if not isinstance(fields, dict):
            raise InvalidInput(f"{where} is {format_value(fields)}, not an object", remedy="write its fields by name")
        try:
            parts.append(model.model_validate(fields))
        except ValidationError as error:
            where = f"{where} ({fields['id']})" if isinstance(fields.get("id"), str) else where
            raise explain_errors(error, where, model.model_fields) from None
    return parts


def _check_unique_ids(path: Path, noun: str, parts: Sequence[LifeMemory] | Sequence[LifeQuestion]) -> None:
    seen: set[str] = set()
    for part in parts:
        if part.id in seen:
            raise InvalidInput(f"{path} has two {noun} ids {part.id!r}", value=part.id, remedy="rename one of them")
        seen.add(part.id)


def _check_known_ids(where: str, name: str, ids: Iterable[str], known_ids: set[str]) -> None:
    for memory_id in ids:
        if memory_id not in known_ids:
            suggestion = suggest_name(memory_id, known_ids)
            remedy = suggestion if suggestion.startswith("did you mean") else "use the id of a memory of this file"
            raise InvalidInput(
                f"{where}: no memory has the id {memory_id!r} of {name!r}", value=memory_id, remedy=remedy
            )


def _check_question(where: str, question: LifeQuestion, known_ids: set[str]) -> None:
    for name, ids in (("expect", question.expect), ("also_ok", question.also_ok), ("stale", question.stale)):
        _check_known_ids(where, name, ids, known_ids)
    for name, ids in (("also_ok", question.also_ok), ("stale", question.stale)):
        if overlap := set(question.expect) & set(ids):
            raise InvalidInput(
                f"{where}: {min(overlap)!r} is in 'expect' and in {name!r}",
                value=min(overlap),
                remedy="keep one of them",
            )
    if question.also_ok and not question.expect:
        raise InvalidInput(
            f"{where}: 'also_ok' lists memories and 'expect' none", remedy="move the memories that answer to 'expect'"
        )
    if question.type == NO_ANSWER and question.expect:
        raise InvalidInput(
            f"{where}: type {NO_ANSWER!r} with memories in 'expect'", remedy="change the type or empty 'expect'"
        )
