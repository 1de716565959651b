"""Regular expressions that are compiled when they are first used, so that modules with many of them load quickly."""

import re
from functools import cached_property
from typing import Any, cast


class _LazyPattern:
    """Stands in for a compiled pattern and has the same methods."""

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._source, self._flags)

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for a missing attribute. The method is stored, so that it is found directly next time.
        value = getattr(self._compiled, name)
        self.__dict__[name] = value
        return value


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when one of its methods is first used."""
    return cast("re.Pattern[str]", _LazyPattern(source, flags))
