"""Read a verb's signature once, check every call of it, and log the calls that fail."""

import functools
import inspect
import operator
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from pathlib import Path, PurePath
from types import FunctionType, NoneType, UnionType
from typing import IO, Annotated, Any, TypeVar, Union, Unpack, cast, get_args, get_origin, get_type_hints

from everhold.arguments import checks
from everhold.arguments.checks import SEQUENCE_LENGTH, Check, Checked
from everhold.errors import EverholdError, InvalidInput, UnknownField
from everhold.model.access import LoggedOperation
from everhold.model.validation import suggest_argument
from everhold.values import Value, value_class

_OPERATION = "logged_operation"
_MEMORY_ID_PARAMETERS = ("memory_id", "source_id")

_CHECKS: Mapping[Any, Check] = {
    Any: checks.check_nested,
    str: checks.check_line,
    int: checks.check_integer,
    float: checks.check_number,
    bool: checks.check_flag,
    datetime: checks.check_time,
    Path: checks.check_path,
    Mapping: checks.check_mapping,
    Iterable: checks.check_items,
    Callable: checks.check_callable,
    IO: checks.check_stream,
}
# The values that an alternative of a union is meant for.
_TYPES: Mapping[Any, type | tuple[type, ...]] = {
    str: str, int: int, float: (int, float), bool: bool, datetime: datetime, Path: PurePath, Mapping: Mapping,
    Sequence: (Sequence, Set),
}  # fmt: skip


_WORDS = {str: "text", int: "a whole number", Path: "a path", Mapping: "a dictionary", Sequence: "a list"}


def make_check(annotation: Any) -> Check:
    """Return the check of an annotation; raise TypeError for one that has none, so that no argument goes unchecked."""
    origin = get_origin(annotation)
    if origin is Annotated:
        base, *extras = get_args(annotation)
        return next((mark.check for mark in extras if isinstance(mark, Checked)), None) or make_check(base)
    if origin in (Union, UnionType):
        return _make_union_check(get_args(annotation))
    if origin is Sequence:
        item_annotation = get_args(annotation)[0]
        return checks.check_list if item_annotation is Any else checks.make_sequence_check(make_check(item_annotation))
    check = _CHECKS.get(annotation if origin is None else origin)
    if check is not None:
        return check
    if getattr(annotation, "_is_protocol", False):
        return checks.make_protocol_check(annotation)
    if isinstance(annotation, type):
        return checks.make_instance_check(annotation)
    raise TypeError(f"no check for the annotation {annotation!r}; add one to everhold.arguments")


def _make_union_check(alternatives: Sequence[Any]) -> Check:
    present = [annotation for annotation in alternatives if annotation is not NoneType]
    is_optional = len(present) < len(alternatives)
    typed_checks = [(_find_types(annotation), make_check(annotation)) for annotation in present]
    fallback = typed_checks[-1][1] if len(typed_checks) == 1 else _make_mismatch_check(present)

    def check(value: Any, name: str) -> Any:
        if value is None and is_optional:
            return None
        for types, check_alternative in typed_checks:
            if types is not None and isinstance(value, types):
                return check_alternative(value, name)
        return fallback(value, name)

    return check


def _find_types(annotation: Any) -> type | tuple[type, ...] | None:
    """Return the classes of values that an annotation is meant for; None if its check must decide."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _find_types(get_args(annotation)[0])
    types = _TYPES.get(annotation if origin is None else origin)
    if types is not None:
        return types
    is_protocol = getattr(annotation, "_is_protocol", False)
    return annotation if isinstance(annotation, type) and not is_protocol else None


def _make_mismatch_check(alternatives: Sequence[Any]) -> Check:
    """Make the check for a value of no alternative's type; the first alternative without a type, if any, decides."""
    open_ended = [annotation for annotation in alternatives if _find_types(annotation) is None]
    if open_ended:
        return make_check(open_ended[0])
    expected = " or ".join(_WORDS.get(get_origin(kind) or kind) or f"a {kind.__name__}" for kind in alternatives)

    def check(value: Any, name: str) -> Any:
        raise checks.make_refusal(name, value, expected)

    return check


@value_class
class _Signature(Value):
    """The checks of a verb's arguments, by position and by name."""

    positional: tuple[tuple[str, Check], ...]
    surplus: tuple[str, Check] | None
    """The name and the check of `*args`."""
    named: Mapping[str, Check]
    others: Check | None
    """The check of `**keywords`, unless they are the fields of a TypedDict."""
    has_fields: bool
    """Whether a TypedDict lists further arguments, so that Python itself accepts any name."""
    shown: inspect.Signature
    """The signature as `help` and notebooks show it: types without checks."""


def _read_signature(verb: Callable[..., Any], *, bound: bool) -> _Signature:
    """Return the checks of a verb's arguments, by position and by name."""
    signature = inspect.signature(verb)
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    positional: list[tuple[str, Check]] = []
    named: dict[str, Check] = {}
    surplus, others, has_fields = None, None, False
    for parameter in parameters:
        hint = parameter.annotation
        if parameter.kind is parameter.VAR_KEYWORD and get_origin(hint) is Unpack:
            named |= _make_field_checks(get_args(hint)[0])
            has_fields = True
            continue
        check = make_check(hint)
        if parameter.kind is parameter.VAR_KEYWORD:
            others = check
        elif parameter.kind is parameter.VAR_POSITIONAL:
            surplus = (parameter.name, check)
        else:
            positional += [(parameter.name, check)] if parameter.kind is not parameter.KEYWORD_ONLY else []
            named |= {parameter.name: check} if parameter.kind is not parameter.POSITIONAL_ONLY else {}
    return _Signature(tuple(positional), surplus, named, others, has_fields, _strip_signature(signature))


@functools.cache  # several verbs take the same fields
def _make_field_checks(fields: Any) -> Mapping[str, Check]:
    """Return the check of each field of a TypedDict."""
    return {name: make_check(field) for name, field in get_type_hints(fields, include_extras=True).items()}


def _strip_signature(signature: inspect.Signature) -> inspect.Signature:
    parameters = []
    for parameter in signature.parameters.values():
        annotation = _strip_checks(parameter.annotation)
        is_plain = annotation is parameter.annotation  # most are, and making another parameter is slow
        parameters.append(parameter if is_plain else parameter.replace(annotation=annotation))
    return signature.replace(parameters=parameters)


def _strip_checks(annotation: Any) -> Any:
    """Return an annotation without its checks."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return arguments[0]
    if origin in (Union, UnionType):
        return functools.reduce(operator.or_, map(_strip_checks, arguments))
    if origin is Sequence:
        return origin[_strip_checks(arguments[0])]
    return annotation


def _check_positional(signature: _Signature, values: tuple[Any, ...]) -> list[Any]:
    checked = [check(value, name) for (name, check), value in zip(signature.positional, values, strict=False)]
    unchecked = values[len(checked) :]
    if signature.surplus is None:
        return [*checked, *unchecked]  # if these are too many, Python raises TypeError
    name, check = signature.surplus
    if len(unchecked) > SEQUENCE_LENGTH:
        raise InvalidInput(
            f"{name} has {len(unchecked):,} items",
            value=len(unchecked),
            remedy=f"pass at most {SEQUENCE_LENGTH:,} at once",
        )
    return [*checked, *(check(value, name) for value in unchecked)]


C = TypeVar("C", bound=type)
V = TypeVar("V", bound=Callable[..., Any])


def log_as(operation: LoggedOperation) -> Callable[[V], V]:
    """Make a decorator that names the operation under which the access log records failed calls of a verb.

    The verb's class logs them with its method `_log_failure`, and slow calls with `_log_slow_call`.
    """

    def mark(verb: V) -> V:
        verb.__dict__[_OPERATION] = operation
        return verb

    return mark


def check_verbs(kind: C) -> C:
    """Check the arguments of every public method that the class itself defines."""
    for name, member in list(vars(kind).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, FunctionType):
            setattr(kind, name, _add_checks(member))
        elif isinstance(member, classmethod):
            setattr(kind, name, classmethod(_add_checks(member.__func__)))
        elif isinstance(member, staticmethod) and isinstance(member.__func__, FunctionType):
            setattr(kind, name, staticmethod(_add_checks(member.__func__, bound=False)))
    return kind


def check_verb(verb: V) -> V:
    """Check the arguments of a single method."""
    return cast(V, _add_checks(verb))


def _add_checks(verb: Callable[..., Any], *, bound: bool = True) -> Callable[..., Any]:
    """Return a verb that checks its arguments and logs its failures and slow calls.

    With `bound`, the first argument is the object of the method and is not checked.
    """
    signature = _read_signature(verb, bound=bound)
    named, others = signature.named, signature.others
    operation = verb.__dict__.get(_OPERATION)
    self_count = 1 if bound else 0
    first_name, check_first = signature.positional[0] if signature.positional else ("", None)

    @functools.wraps(verb)
    def call(*args: Any, **keywords: Any) -> Any:
        started = time.perf_counter()
        try:
            count = len(args) - self_count
            if count == 1 and bound and check_first is not None:  # the fast path, taken by most calls
                args = (args[0], check_first(args[1], first_name))
            elif count > 0:
                args = (*args[:self_count], *_check_positional(signature, args[self_count:]))
            if keywords:
                for name, value in keywords.items():
                    check = named.get(name, others)
                    if check is not None:
                        keywords[name] = check(value, name)
                    elif named:  # otherwise Python raises TypeError
                        raise _make_argument_error(verb.__name__, name, signature)
            return verb(*args, **keywords)
        except EverholdError as error:
            if operation is not None:
                args[0]._log_failure(operation, _find_memory_id(signature, args, keywords), error)
            raise
        finally:
            if operation is not None and time.perf_counter() - started >= args[0]._slow_call_seconds:
                args[0]._log_slow_call(verb.__name__, time.perf_counter() - started)

    call.__dict__["__signature__"] = signature.shown
    return call


def _make_argument_error(verb: str, name: str, signature: _Signature) -> Exception:
    """Return the error for an argument that a verb does not take: TypeError if Python itself would refuse it."""
    remedy = suggest_argument(name, signature.named)
    if signature.has_fields:
        return UnknownField(f"{verb} takes no argument {name!r}", value=name, remedy=remedy)
    return TypeError(f"{verb}() takes no argument {name!r}; {remedy}")


def _find_memory_id(signature: _Signature, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    """Return the id of the memory or the source that a call is about, if the verb's first parameter is such an id."""
    name = signature.positional[0][0] if signature.positional else ""
    if name not in _MEMORY_ID_PARAMETERS:
        return None
    return args[1] if len(args) > 1 else keywords.get(name)
