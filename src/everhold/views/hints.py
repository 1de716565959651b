"""Say what to call instead if a caller uses a name that the engine or a view does not have."""

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NoReturn, Self

import everhold
from everhold.errors import InvalidInput

# Names that other libraries use, and the verb of a view that does the same.
_OTHER_NAMES = {
    "search": "recall", "query": "recall", "find": "recall", "retrieve": "recall",
    "store": "remember", "save": "remember", "insert": "remember", "put": "remember",
    "delete": "forget", "remove": "forget", "delete_all": "forget_where",
    "update": "revise", "edit": "revise", "get_all": "list", "chat": "say",
}  # fmt: skip


class EngineHints:
    """The hints of an engine: its constructor takes no path, and its data is reached through views."""

    def __new__(cls, *parts: object, **_: object) -> Self:
        if not parts or isinstance(parts[0], str | PurePath):
            target = repr(str(parts[0])) if parts else ""
            raise InvalidInput(f"{cls.__name__}({target}) opens no store", remedy=f"use {cls.__name__}.open({target})")
        return super().__new__(cls)

    if not TYPE_CHECKING:  # a declared __getattr__ would hide misspelt names from type checkers

        def __getattr__(self, name: str) -> NoReturn:
            verb = _OTHER_NAMES.get(name, name)
            hint = f"; call it on a view: engine.scope(user=…).{verb}(…)" if verb in dir(everhold.View) else ""
            raise AttributeError(f"{type(self).__name__!r} has no {name!r}{hint}", name=name, obj=self)


class ViewHints:
    """The hints of a view: the names of its verbs."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            hint = f"; use {_OTHER_NAMES[name]}" if name in _OTHER_NAMES else ""
            raise AttributeError(f"{type(self).__name__!r} has no {name!r}{hint}", name=name, obj=self)


class OpeningHints:
    """The hint of an engine that is not open yet."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"the engine is not open, so it has no {name!r}; write `async with AsyncEverhold.open(…) as engine:` or"
                " `engine = await AsyncEverhold.open(…)`",
                name=name,
            )
