"""Derive a tool from a typed Python function: its name, its description, its schema and its source."""

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaError, to_jsonable_python
from typing_extensions import TypedDict

from everhold.errors import InvalidInput, format_value
from everhold.tools.docstrings import read_docstring
from everhold.tools.schemas import NAMED_SCHEMAS, list_subschemas

# The longest source that is stored.
MAX_SOURCE_LENGTH = 200_000


def read_function(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the fields of a tool from a function: name, description, json_schema, source_type, source_code.

    The schema is made from the annotations, which may be any that pydantic understands, the defaults, and the
    descriptions of parameters in the docstring. Raise InvalidInput for a parameter without an annotation, or with a
    type that JSON cannot express.
    """
    is_function = inspect.isroutine(function) and isinstance(getattr(function, "__name__", None), str)
    if not is_function:
        raise InvalidInput(f"{format_value(function)} is not a function", remedy="pass a function or a method")
    doc = read_docstring(inspect.getdoc(function))
    return {
        "name": function.__name__,
        "description": doc.description,
        "json_schema": _make_schema(function, doc.parameters),
        "source_type": "python",
        "source_code": _read_source(function),
    }


def _read_source(function: Callable[..., Any]) -> str | None:
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):  # the function was typed in a console, or is written in C
        return None
    return source if len(source) <= MAX_SOURCE_LENGTH else None


def _make_schema(function: Callable[..., Any], descriptions: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON schema of a function's arguments, made from its annotations and defaults."""
    parameters = list(_list_parameters(function))
    annotations = {parameter.name: _read_annotation(parameter) for parameter in parameters}
    schemas, definitions = _derive_schemas(function.__name__, annotations)
    properties: dict[str, Any] = {}
    additional_properties: Any = False
    for parameter in parameters:
        schema = schemas[parameter.name]
        if parameter.kind is parameter.VAR_KEYWORD:
            additional_properties = schema or True
            continue
        description = _find_description(parameter.annotation) or descriptions.get(parameter.name)
        properties[parameter.name] = {
            **schema,
            **({"description": description} if description and "description" not in schema else {}),
            **_read_default(parameter),
        }
    named_parameters = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    required = [parameter.name for parameter in named_parameters if parameter.default is parameter.empty]
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": additional_properties,
        **({"$defs": definitions} if definitions else {}),
    }


def _list_parameters(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Yield the parameters with resolved annotations; raise InvalidInput if one cannot be passed by name."""
    name = function.__name__
    try:
        signature = inspect.signature(function)
        hints = get_type_hints(function, include_extras=True)
    except (ValueError, TypeError, NameError, AttributeError, SyntaxError) as error:
        raise InvalidInput(
            f"the annotations of {name} cannot be read: {error}", remedy="import the types that they name"
        ) from None
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise InvalidInput(
                f"{name} takes {parameter.name} by position only", remedy="let it be passed by name, as models do"
            )
        if parameter.name not in hints:
            raise InvalidInput(
                f"parameter {parameter.name} of {name} has no annotation", remedy="add one, such as `: str`"
            )
        yield parameter.replace(annotation=hints[parameter.name])


def _read_annotation(parameter: inspect.Parameter) -> Any:
    """Return the annotation of a parameter. With a default of None, the parameter may also be None."""
    annotation = _adapt(parameter.annotation)
    if parameter.default is None and annotation is not Any and NoneType not in get_args(annotation):
        return annotation | None
    return annotation


def _adapt(annotation: Any) -> Any:
    """Return an annotation whose TypedDicts are replaced by ones that pydantic accepts on Python 3.11 too."""
    arguments, origin = get_args(annotation), get_origin(annotation)
    if is_typeddict(annotation):
        hints = get_type_hints(annotation, include_extras=True)
        fields: dict[str, Any] = {
            name: _adapt(hint) if name in annotation.__required_keys__ else NotRequired[_adapt(hint)]
            for name, hint in hints.items()
        }
        return TypedDict(annotation.__name__, fields)  # type: ignore[operator]
    if not arguments or origin is Literal:
        return annotation
    if origin is Annotated:
        return Annotated[(_adapt(arguments[0]), *arguments[1:])]
    if origin in (Union, UnionType):
        return reduce(or_, map(_adapt, arguments))
    return annotation if origin is None or origin is Callable else origin[tuple(map(_adapt, arguments))]


class _SchemaMaker(GenerateJsonSchema):
    """Generates schemas without titles, because titles made from names only cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _derive_schemas(name: str, annotations: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of each annotation by name, and the definitions that they share."""
    if not annotations:
        return {}, {}
    try:
        adapters = [(key, "validation", TypeAdapter(annotation)) for key, annotation in annotations.items()]
        generated_schemas, shared_definitions = TypeAdapter.json_schemas(adapters, schema_generator=_SchemaMaker)  # type: ignore[arg-type]
    except (PydanticUserError, SchemaError, TypeError, NameError) as error:
        fact = str(error).partition("\n")[0]
        raise InvalidInput(
            f"the parameters of {name} cannot be written as a JSON schema: {fact}",
            remedy="annotate them with text, numbers, lists, dictionaries, dataclasses, TypedDicts or models",
        ) from None
    schemas = {str(key): _tidy(schema) for (key, _), schema in generated_schemas.items()}
    return schemas, {key: _tidy(schema) for key, schema in shared_definitions.get("$defs", {}).items()}


def _tidy(schema: Any) -> Any:
    """Return a schema without the titles of classes and without `discriminator`, which is not JSON Schema."""
    if not isinstance(schema, dict):
        return schema
    tidy_schema = {key: value for key, value in schema.items() if key not in ("title", "discriminator")}
    for keyword in {pointer.split("/", 2)[1] for pointer, _ in list_subschemas(tidy_schema)}:
        match tidy_schema[keyword]:
            case list() as subschemas:
                tidy_schema[keyword] = [_tidy(subschema) for subschema in subschemas]
            case dict() as named_schemas if keyword in NAMED_SCHEMAS:
                tidy_schema[keyword] = {name: _tidy(subschema) for name, subschema in named_schemas.items()}
            case subschema:
                tidy_schema[keyword] = _tidy(subschema)
    return tidy_schema


def _find_description(annotation: Any) -> str | None:
    """Return the text in `Annotated[str, "The city."]`."""
    if get_origin(annotation) is not Annotated:
        return None
    return next((mark for mark in get_args(annotation)[1:] if isinstance(mark, str)), None)


def _read_default(parameter: inspect.Parameter) -> dict[str, Any]:
    if parameter.default is parameter.empty:
        return {}
    try:
        return {"default": to_jsonable_python(parameter.default)}
    except (PydanticSerializationError, ValueError):  # a marker object as default, which only the function understands
        return {}
