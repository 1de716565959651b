"""The house rules about source files. Each rule is a function that yields the places in modules that break it."""

import ast
import re
from collections.abc import Iterable, Iterator

from everhold import errors
from tests.conventions.source_tree import Function, Module, get_dotted_name

LONGEST_FILE = 400
LONGEST_FUNCTION = 40

ENVIRONMENT = re.compile(r"(^|\.)(environ|environb|getenv|putenv)$")
CLOCKS = re.compile(r"(^|\.)(datetime\.(now|utcnow|today)|date\.today|time\.(time|time_ns|localtime|gmtime))$")
CLOCK_NAMES = {"time": {"time", "time_ns", "localtime", "gmtime"}}
# Modules that must use the names of another program's interface.
FOREIGN_NAMES = ("julep.py",)
VAGUE_WORDS = {"manager", "managers", "helper", "helpers", "util", "utils", "impl"}
WORDS_OF_A_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
VERSIONED = re.compile(r"(_v|V)\d+$")

ERRORS_THAT_NEED_A_REMEDY = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.EverholdError) and not kind.default_remedy
}


def find_long_files(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        lines = len(module.text.splitlines())
        if lines > LONGEST_FILE:
            yield f"{module.name}: {lines} lines"


def find_long_functions(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        for function in module.list_functions():
            lines = count_lines_without_docstring(function)
            if lines > LONGEST_FUNCTION:
                yield f"{module.locate(function)} {function.name}: {lines} lines"


def count_lines_without_docstring(function: Function) -> int:
    first = function.body[0]
    docstring = 0
    if ast.get_docstring(function) is not None:
        docstring = (first.end_lineno or first.lineno) - first.lineno + 1
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


def find_modules_without_docstring(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        is_private = module.name.rpartition("/")[2].startswith("_") and not module.name.endswith("__init__.py")
        if not is_private and not ast.get_docstring(module.tree):
            yield module.name


def find_environment_outside_settings(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        if module.name != "settings.py":
            yield from _find_uses(module, ENVIRONMENT)
            yield from _find_imports(module, {"os": {"environ", "environb", "getenv", "putenv"}})


def find_clocks_outside_clock(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        if module.name != "clock.py":
            yield from _find_uses(module, CLOCKS)
            yield from _find_imports(module, CLOCK_NAMES | {"uuid": {"*"}})


def _find_uses(module: Module, pattern: re.Pattern[str]) -> Iterator[str]:
    for node in module.list_nodes():
        if isinstance(node, ast.Attribute) and pattern.search(get_dotted_name(node)):
            yield f"{module.locate(node)} {get_dotted_name(node)}"


def _find_imports(module: Module, banned: dict[str, set[str]]) -> Iterator[str]:
    """Yield imports of banned names, given by module; `*` bans the module itself."""
    for node in module.list_nodes():
        if isinstance(node, ast.Import):
            for alias in node.names:
                if "*" in banned.get(alias.name, ()):
                    yield f"{module.locate(node)} import {alias.name}"
        elif isinstance(node, ast.ImportFrom):
            names = banned.get(node.module or "", set())
            for alias in node.names:
                if alias.name in names or "*" in names:
                    yield f"{module.locate(node)} from {node.module} import {alias.name}"


# Modules that may catch every exception, at the top of background threads, and around the caller's embedder.
CATCHES_EVERYTHING = ("background.py", "adapters/caller_embedder.py")


def find_broad_excepts(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        if module.name.startswith("interfaces/") or module.name in CATCHES_EVERYTHING:
            continue
        for node in module.list_nodes():
            if isinstance(node, ast.ExceptHandler):
                caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
                broad = {"", "Exception", "BaseException"} & {get_dotted_name(kind) for kind in caught}
                if broad and not _is_cleanup(node):
                    yield f"{module.locate(node)} except {broad.pop()}".rstrip()


def _is_cleanup(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler only cleans up and raises the same error again."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def find_unfinished_or_guessed(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        for node in module.list_nodes():
            if isinstance(node, ast.Name) and node.id in {"NotImplementedError", "hasattr"}:
                yield f"{module.locate(node)} {node.id}"


def find_vague_names(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        if module.name in FOREIGN_NAMES:
            continue
        for part in module.name.removesuffix(".py").split("/"):
            if _is_vague(part):
                yield f"{module.name}: {part}"
        for node in module.list_nodes():
            name = _get_defined_name(node)
            if name and _is_vague(name):
                yield f"{module.locate(node)} {name}"


def _get_defined_name(node: ast.AST) -> str:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case _:
            return ""


def _is_vague(name: str) -> bool:
    words = {word.lower() for word in WORDS_OF_A_NAME.findall(name)}
    return bool(words & VAGUE_WORDS) or bool(VERSIONED.search(name)) or _is_new(name)


def _is_new(name: str) -> bool:
    return name.lstrip("_").startswith("new_") and name != "__new__"


def find_errors_never_raised(modules: Iterable[Module]) -> Iterator[str]:
    """Yield error classes that are never raised or created. A class with subclasses is a group and need not be."""
    modules = list(modules)
    defined = {
        node.name: {get_dotted_name(base) for base in node.bases}
        for module in modules
        if module.name == "errors.py"
        for node in module.list_nodes()
        if isinstance(node, ast.ClassDef)
    }
    groups = {base for bases in defined.values() for base in bases}
    constructed = {name for module in modules for name in _list_created_errors(module)}
    yield from sorted(defined.keys() - groups - constructed)


def _list_created_errors(module: Module) -> Iterator[str]:
    for node in module.list_nodes():
        match node:
            case ast.Raise(exc=raised) if raised is not None:
                yield get_dotted_name(raised).rpartition(".")[2]
            case ast.Call(func=called):
                yield get_dotted_name(called).rpartition(".")[2]
            case ast.Dict(values=values):  # a table that maps a driver's codes to our errors
                yield from (get_dotted_name(value).rpartition(".")[2] for value in values)
            case ast.Tuple(elts=values):  # a table may also map a code to an error and its message
                yield from (get_dotted_name(value).rpartition(".")[2] for value in values)


def find_errors_without_remedy(modules: Iterable[Module]) -> Iterator[str]:
    """Yield calls that create one of our errors without a remedy. `from_sentence` gets it from its sentence."""
    for module in modules:
        for node in module.list_nodes():
            if (
                isinstance(node, ast.Call)
                and get_dotted_name(node.func).rpartition(".")[2] in ERRORS_THAT_NEED_A_REMEDY
            ):
                remedies = [keyword.value for keyword in node.keywords if keyword.arg in ("remedy", None)]
                if not any(not isinstance(remedy, ast.Constant) or remedy.value for remedy in remedies):
                    yield f"{module.locate(node)} {get_dotted_name(node.func)}"


def find_plain_threads(modules: Iterable[Module]) -> Iterator[str]:
    """Yield plain threads, which end at the first error without logging it."""
    for module in modules:
        if module.name == "background.py" or module.name.startswith("testing/"):
            continue
        for node in module.list_nodes():
            if isinstance(node, ast.Call) and get_dotted_name(node.func) in {"threading.Thread", "Thread"}:
                yield f"{module.locate(node)} {get_dotted_name(node.func)}"


def find_plain_events(modules: Iterable[Module]) -> Iterator[str]:
    """Yield plain events, which an interrupt can leave locked."""
    for module in modules:
        if module.name == "interrupts.py" or module.name.startswith("testing/"):
            continue
        for node in module.list_nodes():
            if isinstance(node, ast.Call) and get_dotted_name(node.func) in {"threading.Event", "Event"}:
                yield f"{module.locate(node)} {get_dotted_name(node.func)}"
