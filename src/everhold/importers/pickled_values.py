"""Read a dictionary, or the fields of an object, from a pickle without unpickling it.

Only instructions that make dictionaries, lists, texts and numbers are executed. A class is never looked up and nothing
is ever called: a marker is used in place of a class. A pickle with any other instruction is unreadable.
"""

import pickletools
from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticCustomError

from everhold.model.fields import walk_json

_LABELS = "id_to_label"
_LITERALS = frozenset(
    ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "NEWTRUE",
     "NEWFALSE")
)  # fmt: skip
_CONTAINERS: Mapping[str, type] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_SET": list, "EMPTY_TUPLE": tuple}
_IGNORED = frozenset(("PROTO", "FRAME"))
_MARK, _CLASS = object(), object()


def read_labels(data: bytes) -> Mapping[str, int]:
    """Return the labels of the documents in `index_metadata.pickle` of a Chroma index.

    Raise ValueError if the file is not what Chroma writes.
    """
    try:
        labels = _read_value(data)[_LABELS]
        if all(isinstance(name, str) and isinstance(label, int) for name, label in labels.items()):
            return dict(labels)
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it does not hold labels: {error!r:.80}") from None
    raise ValueError("its labels are not numbers")


def read_model(data: bytes) -> Mapping[str, Any]:
    """Return the fields of the Pydantic model in a pickle.

    Raise ValueError if the pickle holds no model, or if a field is not JSON.
    """
    try:
        fields = _read_value(data)["__dict__"]
        walk_json(fields, _refuse_leaf)  # also refuses values that contain themselves
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it holds no model: {error!r:.80}") from None
    except PydanticCustomError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("it holds no model")
    return fields


def _refuse_leaf(value: Any) -> None:
    raise ValueError(f"it holds a {type(value).__name__}")


def _read_value(data: bytes) -> Any:
    machine = _ValueMachine()
    for opcode, argument, _ in pickletools.genops(data):
        machine.follow(opcode.name, argument)
    return machine.stack.pop()


class _ValueMachine:
    """The stack and the memo that the instructions of a pickle use."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def follow(self, name: str, argument: Any) -> None:
        """Follow one instruction."""
        stack = self.stack
        if name in _LITERALS:
            stack.append(argument)
        elif name in _CONTAINERS:
            stack.append(_CONTAINERS[name]())
        elif name in ("NONE", "MARK"):
            stack.append(None if name == "NONE" else _MARK)
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._memo[len(self._memo) if argument is None else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            self._fill([key, value])
        elif name == "SETITEMS":
            self._fill(self._pop_to_mark())
        elif name == "APPEND":
            value = stack.pop()
            stack[-1].append(value)
        elif name in ("APPENDS", "ADDITEMS"):
            items = self._pop_to_mark()
            stack[-1].extend(items)
        elif not self._follow_object(name) and name not in ("STOP", *_IGNORED):
            raise ValueError(f"it has the instruction {name}")

    def _follow_object(self, name: str) -> bool:
        """Follow an instruction that makes an object; return whether it is one."""
        stack = self.stack
        if name == "GLOBAL":
            stack.append(_CLASS)
        elif name in ("STACK_GLOBAL", "NEWOBJ"):
            stack[-2:] = [_CLASS]  # the name of a class, or a class with arguments
        elif name == "BUILD":
            fields = stack.pop()
            stack[-1] = fields  # an object is its fields
        else:
            return False
        return True

    def _fill(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise TypeError("items of something that is not a dictionary")
        target.update(zip(items[::2], items[1::2], strict=True))

    def _pop_to_mark(self) -> list[Any]:
        items = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]
