"""What every entity has in common."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from pydantic.fields import FieldInfo

from everhold.interrupts import uninterrupted
from everhold.model.fields import Flag, Id, Integer, JsonObject, Time


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
    """A frozen value with one table of its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")
    rules: ClassVar[tuple[RowRule, ...]] = ()

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        for rule in self.rules:
            rule.check(self.__dict__)
        return self

    @classmethod
    def trusted(cls, values: dict[str, Any]) -> Self:
        """A row of values that have been checked before, or that this program made itself; the rest is default."""
        return cls.whole({**_defaults(cls), **values})

    @classmethod
    def whole(cls, values: dict[str, Any]) -> Self:
        """A row of exactly these checked values, every field among them."""
        made = cls.__new__(cls)
        _set_fields(made, values)
        _set_fields_set(made, _all_fields(cls))
        _set_extra(made, None)
        _set_private(made, None)
        return made


_set_fields, _set_fields_set, _set_extra, _set_private = (
    vars(BaseModel)[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)  # a frozen value refuses to be set in the usual way, and a row is made for every hit


def make_field_adapter(info: FieldInfo) -> TypeAdapter[Any]:
    """Return what checks the values of one field."""
    annotation: Any = Annotated[info.annotation, info]
    with uninterrupted:  # as in `model_rebuild`
        return TypeAdapter(annotation)


@cache
def _all_fields(row: type[BaseModel]) -> set[str]:
    return set(row.model_fields)


@cache
def _defaults(row: type[BaseModel]) -> dict[str, Any]:
    """What absent fields are. Mutable defaults are left out: whoever trusts values must give those."""
    fields = row.model_fields.items()
    return {name: info.default for name, info in fields if not info.is_required() and info.default_factory is None}


class Tracked(Row):
    """Who made it and when, whether it is deleted, and how often it has changed."""

    created_at: Time
    updated_at: Time
    created_by_id: Id | None = None
    last_updated_by_id: Id | None = None
    is_deleted: Flag = False
    deleted_at: Time | None = None
    deletion_id: Id | None = None
    version: Integer = 1
    metadata: JsonObject = Field(default_factory=dict)


class Owned(Tracked):
    """A tracked row of one organization."""

    organization_id: Id

    def evolve(self, **changes: object) -> Self:
        """The same entity with other values, checked like a new one."""
        return type(self).model_validate({**self.__dict__, **changes})


class Entity(Owned):
    """An owned row with an id, unique in its organization."""

    id: Id
