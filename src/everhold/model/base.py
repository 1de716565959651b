"""The base classes of all rows and entities."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from pydantic.fields import FieldInfo

from everhold.interrupts import uninterrupted
from everhold.model.fields import Flag, Id, Integer, JsonObject, Time

_REPR_LENGTH = 60
# The fields that say in words what a row is. A repr shows the first one that has a text.
_TITLES = ("name", "title", "label", "table_name", "path", "task", "question", "summary", "text", "kind")
_UNSHOWN_ORGANIZATION = "default"
# The fields of an owner that a repr shows.
_OWNERS = ("user_id", "project_id", "agent_id", "session_id")


def cut_text(text: str) -> str:
    """Return the beginning of a text, short enough for a repr."""
    return text if len(text) <= _REPR_LENGTH else f"{text[: _REPR_LENGTH - 1]}…"


class RowRule(NamedTuple):
    """A rule over several fields of a row.

    `check` takes the values of these fields by name and raises PydanticCustomError if they do not fit together. Every
    store applies it to each row that is added and to each change of one of the fields.
    """

    fields: tuple[str, ...]
    check: Callable[[Mapping[str, Any]], None]


class DeferredModel(BaseModel):
    """A model whose validator is built when it is first used: a process that uses few of them starts faster."""

    model_config = ConfigDict(defer_build=True)

    @classmethod
    def model_rebuild(cls, *, _parent_namespace_depth: int = 2, **options: Any) -> bool | None:
        """Build the validator. Pydantic calls this when a value is first checked."""
        with uninterrupted:  # pydantic-core raises its SchemaError instead of KeyboardInterrupt
            return super().model_rebuild(_parent_namespace_depth=_parent_namespace_depth + 1, **options)


class Row(DeferredModel):
    """A frozen value that is stored as a row of a table. Each subclass has its own table."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")
    rules: ClassVar[tuple[RowRule, ...]] = ()

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        for rule in self.rules:
            rule.check(self.__dict__)
        return self

    @classmethod
    def build_unchecked(cls, values: dict[str, Any]) -> Self:
        """Build a row without validation; fields that `values` leaves out get their defaults.

        Pass only values that were validated before or that this program made.
        """
        return cls.build_complete({**_collect_defaults(cls), **values})

    @classmethod
    def build_complete(cls, values: dict[str, Any]) -> Self:
        """Build a row without validation; `values` must hold every field."""
        row = object.__new__(cls)
        _set_fields(row, values)
        _set_fields_set(row, _list_fields(cls))
        _set_extra(row, None)
        _set_private(row, None)
        return row


# A frozen model refuses `setattr`. Setting the slots is ten times as fast as `model_construct`, which matters because
# every hit and every scanned row is built this way.
_set_fields, _set_fields_set, _set_extra, _set_private = (
    vars(BaseModel)[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


def make_field_adapter(info: FieldInfo) -> TypeAdapter[Any]:
    """Return the validator of one field's values."""
    annotation: Any = Annotated[info.annotation, info]
    with uninterrupted:  # as in `model_rebuild`
        return TypeAdapter(annotation)


@cache
def _list_fields(row: type[BaseModel]) -> set[str]:
    return set(row.model_fields)


@cache
def _collect_defaults(row: type[BaseModel]) -> dict[str, Any]:
    """Return the immutable defaults of a row's fields.

    Callers of `build_unchecked` must pass lists and dictionaries.
    """
    fields = row.model_fields.items()
    return {name: info.default for name, info in fields if not info.is_required() and info.default_factory is None}


class Tracked(Row):
    """A row that stores who created it and when, whether it is deleted, and its version."""

    created_at: Time
    updated_at: Time
    created_by_id: Id | None = None
    last_updated_by_id: Id | None = None
    is_deleted: Flag = False
    deleted_at: Time | None = None
    deletion_id: Id | None = None
    version: Integer = 1
    metadata: JsonObject = Field(default_factory=dict)

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        """Return what a repr shows: the title, the owners and the id, because all fields would fill a screen."""
        values = self.__dict__
        titles = [value for name in _TITLES if isinstance(value := values.get(name), str)]
        title: list[tuple[str | None, Any]] = [(None, cut_text(titles[0]))] if titles else []
        organization = values.get("organization_id", _UNSHOWN_ORGANIZATION)
        owners = [] if organization == _UNSHOWN_ORGANIZATION else [("organization", organization)]
        owners += [(name.removesuffix("_id"), values[name]) for name in _OWNERS if values.get(name) is not None]
        return [*title, *owners, *([("id", values["id"])] if "id" in values else [])]


class Owned(Tracked):
    """A tracked row of one organization."""

    organization_id: Id

    def evolve(self, **changes: object) -> Self:
        """Return a copy with these values changed, validated like a new row."""
        return type(self).model_validate({**self.__dict__, **changes})


class Entity(Owned):
    """An owned row with an id, unique in its organization."""

    id: Id
