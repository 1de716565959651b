"""Read YAML from files that may be hostile.

Aliases are refused, because a few lines of them can stand for billions of values or for a value inside itself. Keys
that are given twice are refused, because the reader would silently keep one of them.
"""

from typing import Any

import yaml

MAX_DEPTH = 32  # the composer recurses, so deep nesting would exhaust the stack
MAX_SCALAR_LENGTH = 10_000


class BoundedLoader:
    """A mixin that makes a loader refuse aliases, deep nesting and long values. Put it before the loader's class."""

    _depth = 0

    def compose_node(self: Any, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _make_error(event, f"the alias *{event.anchor:.40} is not allowed; write the value out")
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > MAX_SCALAR_LENGTH:
            raise _make_error(event, f"a value has {len(event.value):,} characters; use at most {MAX_SCALAR_LENGTH:,}")
        if self._depth >= MAX_DEPTH:
            raise _make_error(event, f"values are nested deeper than {MAX_DEPTH} levels; flatten them")
        self._depth += 1
        try:
            return yaml.composer.Composer.compose_node(self, parent, index)
        finally:
            self._depth -= 1


class _Loader(BoundedLoader, yaml.SafeLoader):
    """The safe loader with limits, and with an error for a key that is given twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value[:40]!r} is given twice; keep one", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _make_error(event: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.composer.ComposerError(None, None, problem, event.start_mark)


def load_yaml(text: str) -> Any:
    """Return the value of a YAML text; raise ValueError if it is malformed or exceeds a limit.

    The error names the line and quotes nothing, because settings may hold secrets.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"{error.problem} in line {line}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(str(error).partition("\n")[0]) from None
