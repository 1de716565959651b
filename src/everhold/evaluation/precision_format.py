"""Read precision suites: worlds of memories, and cases with the memories that must and must not be returned.

A suite is a directory; each `*.yaml` in it is one world. docs/evaluation.md describes the format.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from everhold import clock
from everhold.errors import InvalidInput, format_value
from everhold.model.validation import explain_errors, suggest_name
from everhold.yaml_files import BoundedLoader

CATEGORIES = (
    "direct", "paraphrase", "scope", "alias", "supersession", "pinned", "budget", "cross-user", "drift", "time",
    "nothing",
)  # fmt: skip
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DISTANCE = re.compile(r"([+-])(\d{1,5})([mhdw])")
# The time at which questions are asked in a world without a time. It is fixed, so that results do not depend on the
# day.
ASKED = datetime(2026, 11, 15, 12, tzinfo=UTC)
_WORLD_FIELDS = ("now", "memories", "cases")
_TIME_FORMS = "write 2026-03-01, 2026-03-01T09:30+07:00, or a distance from the present such as -3d, +2h, -90m, +1w"
Keys = tuple[str, ...]


class WorldPart(BaseModel):
    """A memory or a case of a file, and the line at which it begins."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    line: int = Field(default=0, exclude=True)
    user: str | None = None
    project: str | None = None
    session: str | None = None
    agent: str | None = None

    @property
    def scope(self) -> dict[str, str]:
        """The dimensions of the scope that the file names."""
        named = {"user": self.user, "project": self.project, "session": self.session, "agent": self.agent}
        return {name: value for name, value in named.items() if value is not None}


class WorldMemory(WorldPart):
    """A memory to store. Times are as written: they are resolved when the memory is stored."""

    key: str
    text: str
    kind: str | None = None
    tags: Keys | None = None
    aliases: Keys | None = None
    pinned: bool | None = None
    priority: int | None = None
    speaker: str | None = None
    occurred: str | None = None
    expires: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    supersedes: str | None = None

    @field_validator("occurred", "expires", "valid_from", "valid_to")
    @classmethod
    def check_time(cls, written: str | None) -> str | None:
        if written is not None and not _is_time(written):
            raise PydanticCustomError("time", f"not a time; {_TIME_FORMS}")
        return written

    def make_fields(self, present: datetime, now: datetime) -> dict[str, Any]:
        """Return the arguments of `remember` other than the text.

        Times of events are relative to the time of the world's questions, so that "last week" means the same whenever
        the suite is run. Validity and expiry are relative to the real clock.
        """
        times = {
            "expires_at": self.expires,
            "valid_from": self.valid_from,
            "valid_to": self.valid_to,
        }
        fields = {
            "key": self.key,
            "kind": self.kind,
            "tags": list(self.tags) if self.tags else None,
            "aliases": list(self.aliases) if self.aliases else None,
            "pinned": self.pinned,
            "priority": self.priority,
            "speaker": self.speaker,
            "occurred_at": now if self.occurred is None else resolve_time(self.occurred, now, None),
            **{name: resolve_time(written, present, now) for name, written in times.items() if written is not None},
        }
        return {name: value for name, value in fields.items() if value is not None}


class Case(WorldPart):
    """A question, and the memories that must, may and must not be returned. Any other memory is unwanted.

    `gap` is the reason why a case is known to fail. Such a case is counted separately from those that must pass.
    """

    ask: str
    category: str
    must: Keys = ()
    may: Keys = ()
    must_not: Keys = ()
    pinned: Keys | None = None
    k: int | None = Field(default=None, ge=1)
    kind: str | None = None
    tags: Keys | None = None
    include: Keys = ()
    budget: int | None = Field(default=None, ge=1)
    note: str | None = None
    gap: str | None = None

    @field_validator("category")
    @classmethod
    def check_category(cls, name: str) -> str:
        if name not in CATEGORIES:
            raise PydanticCustomError("category", f"no category {name!r}; {suggest_name(name, CATEGORIES)}")
        return name

    @property
    def wants_nothing(self) -> bool:
        """Whether any returned memory is wrong."""
        return not self.must and not self.may

    @property
    def keys(self) -> Keys:
        """Every memory that the case names."""
        return (*self.must, *self.may, *self.must_not, *(self.pinned or ()))


class World(BaseModel):
    """The memories of some people, and questions about them. `now` is the time at which the questions are asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    suite: str
    name: str
    now: datetime = ASKED
    memories: tuple[WorldMemory, ...]
    cases: tuple[Case, ...]

    def label(self, case: Case) -> str:
        """Return a case's name for reports: its file and line, and its question."""
        return f"{self.name}.yaml:{case.line} {case.ask}"


P = TypeVar("P", bound=WorldPart)


def read(directory: Path) -> list[World]:
    """Return the worlds of a suite, sorted by name.

    Raise InvalidInput with the place of the fault if it is malformed.
    """
    files = sorted(directory.glob("*.yaml"))
    if not files:
        raise InvalidInput(
            f"no *.yaml in {str(directory)!r}",
            value=str(directory),
            remedy="name a directory with at least one world in it",
        )
    return [_read_world(file) for file in files]


def _read_world(file: Path) -> World:
    document = load_document(file)
    if not isinstance(document, _LinedMapping):
        raise InvalidInput(f"{file.name} is not a mapping", remedy=f"a world has {', '.join(_WORLD_FIELDS)}")
    for name, line in document.lines.items():
        if name not in _WORLD_FIELDS:
            raise InvalidInput(
                f"{file.name}, line {line}: a world has no {name!r}", value=name, remedy=_suggest(name, _WORLD_FIELDS)
            )
    world = World(
        suite=file.resolve().parent.name,
        name=file.stem,
        now=_read_now(document, file),
        memories=tuple(_parse_parts(document, "memories", WorldMemory, file)),
        cases=tuple(_parse_parts(document, "cases", Case, file)),
    )
    _check_memories(world.memories, file)
    for case in world.cases:
        _check_case(case, [memory.key for memory in world.memories], file)
    return world


def _parse_parts(document: "_LinedMapping", name: str, model: type[P], file: Path) -> Iterable[P]:
    entries = document.get(name)
    if not isinstance(entries, list) or not entries:
        raise InvalidInput(f"{file.name} has no {name}", remedy=f"list at least one under '{name}:'")
    for entry in entries:
        if not isinstance(entry, _LinedMapping):
            raise InvalidInput(
                f"{file.name}: {format_value(entry)} under {name!r} is not a mapping",
                value=entry,
                remedy="write its fields by name",
            )
        if "line" in entry:
            raise InvalidInput(f"{file.name}, line {entry.line}: {name} have no 'line'", remedy="leave it out")
        try:
            yield model.model_validate({**entry, "line": entry.line})
        except ValidationError as error:
            label = repr(entry.get("key") or entry.get("ask") or "")
            field_names = [field for field in model.model_fields if field != "line"]
            where = f"{file.name}, line {entry.line}, {'memory' if model is WorldMemory else 'case'} {label}"
            raise explain_errors(error, where, field_names) from None


def _check_memories(memories: Sequence[WorldMemory], file: Path) -> None:
    earlier: dict[str, WorldMemory] = {}
    for memory in memories:
        where = f"{file.name}, line {memory.line}, memory {memory.key!r}"
        if memory.key in earlier:
            raise InvalidInput(
                f"{where}: line {earlier[memory.key].line} has that key already", remedy="choose another"
            )
        if memory.supersedes is not None:
            old = earlier.get(memory.supersedes)
            if old is None:
                raise InvalidInput(
                    f"{where}: supersedes no earlier memory", remedy=_suggest(memory.supersedes, earlier)
                )
            if old.scope != memory.scope:
                raise InvalidInput(
                    f"{where}: supersedes {old.key!r} of another scope", remedy="give both the same scope"
                )
        earlier[memory.key] = memory


def _check_case(case: Case, memory_keys: Sequence[str], file: Path) -> None:
    where = f"{file.name}, line {case.line}, case {case.ask!r}"
    for key in case.keys:
        if key not in memory_keys:
            raise InvalidInput(f"{where}: no memory has the key {key!r}", remedy=_suggest(key, memory_keys))
    if overlap := set(case.must_not) & {*case.must, *case.may} or set(case.must) & set(case.may):
        raise InvalidInput(
            f"{where}: {min(overlap)!r} is listed twice with different meanings",
            value=min(overlap),
            remedy="keep one of them",
        )
    if case.category == "nothing" and not case.wants_nothing:
        raise InvalidInput(
            f"{where}: category 'nothing' with memories that may come back", remedy="leave out must and may"
        )
    if case.category == "budget" and case.budget is None:
        raise InvalidInput(
            f"{where}: category 'budget' without a budget", remedy="give one in tokens, such as budget: 60"
        )
    if case.budget is not None and (case.k or case.kind or case.tags or case.include):
        raise InvalidInput(
            f"{where}: k, kind, tags and include narrow a recall", remedy="leave them out or leave out the budget"
        )


def _suggest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    return suggest_name(name, names) if names else "there is none"


# times


def resolve_time(written: str, present: datetime, now: datetime | None) -> datetime:
    """Return the time that a text such as "-3d" or "2026-03-01" means.

    A distance is counted from `present`. A time is shifted by the distance of `present` from the world's `now`; without
    `now` it stays as it is.
    """
    if match := _DISTANCE.fullmatch(written):
        distance = timedelta(**{_UNITS[match[3]]: int(match[2])})
        return present + distance if match[1] == "+" else present - distance
    absolute = _parse_aware(written)
    return absolute if now is None else absolute + (present - now)


def _is_time(written: str) -> bool:
    # The present is chosen so that every distance of five digits, even in weeks, can be added to it or subtracted.
    try:
        resolve_time(written, clock.EPOCH + timedelta(days=200_000), None)
    except (ValueError, OverflowError):
        return False
    return True


def _parse_aware(written: str) -> datetime:
    """Return the time of an ISO text; one without a zone is in UTC."""
    parsed = datetime.fromisoformat(written)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _read_now(document: "_LinedMapping", file: Path) -> datetime:
    written = document.get("now")
    if written is None:
        return ASKED
    try:
        return _parse_aware(str(written))
    except ValueError:
        raise InvalidInput(
            f"{file.name}: now {written!r} is not a time", value=written, remedy="write 2026-03-01T09:30+07:00"
        ) from None


# YAML


class _LinedMapping(dict[Hashable, Any]):
    """A mapping that was read from a file, with the line where it begins and the line of each key."""

    line = 0
    lines: Mapping[str, int]


class _CaseLoader(BoundedLoader, yaml.BaseLoader):
    """Loads every scalar as the text that is written: `no` and `2026-03-01` are words."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> _LinedMapping:
        lines: dict[str, int] = {}
        for name, _ in node.value:
            line = name.start_mark.line + 1
            if not isinstance(name, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is a word", name.start_mark)
            if name.value in lines:
                raise yaml.constructor.ConstructorError(None, None, f"{name.value!r} is given twice", name.start_mark)
            lines[name.value] = line
        mapping = _LinedMapping(super().construct_mapping(node, deep))
        mapping.line, mapping.lines = node.start_mark.line + 1, lines
        return mapping


def load_document(file: Path) -> Any:
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=_CaseLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidInput(f"{file.name}, line {line}: {error.problem}", remedy="correct the YAML there") from None
    except (ValueError, yaml.YAMLError) as error:
        raise InvalidInput(f"{file.name} is not YAML in UTF-8 ({error})", remedy="save it as such") from None
