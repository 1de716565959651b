"""Read the labels of a Chroma index from `index_metadata.pickle` without unpickling it.

The file contains a dictionary, or in older versions an object with the same fields. Only instructions that make
dictionaries, texts and whole numbers are executed. A class is never looked up and nothing is ever called: a marker is
used in place of a class. A file with any other instruction is unreadable.
"""

import pickletools
from collections.abc import Mapping
from typing import Any

_LABELS = "id_to_label"
_VALUES = frozenset(
    ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BININT", "BININT1", "BININT2", "LONG1", "NEWTRUE", "NEWFALSE")
)
_IGNORED = frozenset(("PROTO", "FRAME"))
_MARK, _CLASS = object(), object()


def read_labels(data: bytes) -> Mapping[str, int]:
    """Return the label of each document in the index. Raise ValueError if the file is not what Chroma writes."""
    machine = _DictionaryMachine()
    try:
        for opcode, argument, _ in pickletools.genops(data):
            machine.follow(opcode.name, argument)
        labels = machine.stack.pop()[_LABELS]
        if all(isinstance(name, str) and isinstance(label, int) for name, label in labels.items()):
            return dict(labels)
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it does not hold labels: {error!r:.80}") from None
    raise ValueError("its labels are not numbers")


class _DictionaryMachine:
    """The stack and the memo that the instructions of a pickle use."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def follow(self, name: str, argument: Any) -> None:
        """Follow one instruction."""
        stack = self.stack
        if name in _VALUES:
            stack.append(argument)
        elif name in ("NONE", "MARK", "EMPTY_DICT", "EMPTY_TUPLE"):
            stack.append({"NONE": None, "MARK": _MARK, "EMPTY_DICT": {}, "EMPTY_TUPLE": ()}[name])
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._memo[len(self._memo) if argument is None else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            self._fill([key, value])
        elif name == "SETITEMS":
            self._fill(self._pop_to_mark())
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
