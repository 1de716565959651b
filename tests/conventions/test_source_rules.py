"""The package follows the house rules, and each rule fails on bad code."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pytest

from tests.conventions import rules
from tests.conventions.source_tree import Module, assert_none, load_package_modules

# All tests run in one process, because they share the parsed modules, which take seconds to parse.
pytestmark = pytest.mark.xdist_group("source tree")


@dataclass(frozen=True)
class Rule:
    text: str
    find: Callable[[Iterable[Module]], Iterator[str]]
    bad: tuple[str, ...]  # modules that break the rule
    good: tuple[str, ...] = ()  # modules that do not break it
    name: str = "recall/pipeline.py"

    def find_offenders(self, source: str) -> list[str]:
        return list(self.find([Module(self.name, source)]))


LONG_BODY = "def f():\n" + "    x = 1\n" * 40
LONG_DOCSTRING = "def f():\n    '''a\n" + "    b\n" * 60 + "    '''\n    return 1\n"

RULES = [
    Rule("a file has at most 400 lines", rules.find_long_files, ("\n" * 401,), ("\n" * 400,)),
    Rule("a function has at most 40 lines", rules.find_long_functions, (LONG_BODY,), (LONG_DOCSTRING,)),
    Rule("a module says what it is", rules.find_modules_without_docstring, ("x = 1",), ("'''What.'''",)),
    Rule(
        "only settings.py reads the environment",
        rules.find_environment_outside_settings,
        ("import os\nos.environ['A']", "import os\nos.getenv('A')", "from os import environ"),
        ("import os\nos.fsync(1)",),
    ),
    Rule(
        "only clock.py reads the time and makes ids",
        rules.find_clocks_outside_clock,
        (
            "import datetime\ndatetime.datetime.now()",
            "from datetime import datetime\nf = datetime.utcnow",
            "import time\ntime.time()",
            "from time import time",
            "import uuid",
            "from uuid import uuid4",
        ),
        ("import time\ntime.monotonic()\ntime.perf_counter()", "from everhold import clock\nclock.now()"),
    ),
    Rule(
        "`except Exception` is only at the edge of a process (interfaces/) and at the top of threads (background.py)",
        rules.find_broad_excepts,
        (
            "try:\n    f()\nexcept Exception:\n    pass",
            "try:\n    f()\nexcept:\n    pass",
            "try:\n    f()\nexcept (KeyError, BaseException) as e:\n    raise ValueError from e",
        ),
        (
            "try:\n    f()\nexcept KeyError:\n    pass",
            "try:\n    f()\nexcept BaseException:\n    undo()\n    raise",
        ),
    ),
    Rule(
        "every background thread is a BackgroundThread, which survives any error",
        rules.find_plain_threads,
        ("import threading\nthreading.Thread(target=f)", "from threading import Thread\nThread(target=f).start()"),
        ("from everhold.background import BackgroundThread\nBackgroundThread('name', f, stop)",),
    ),
    Rule(
        "every event is a GuardedEvent, which an interrupt cannot leave locked",
        rules.find_plain_events,
        ("import threading\nstop = threading.Event()", "from threading import Event\nstop = Event()"),
        ("from everhold.interrupts import GuardedEvent\nstop = GuardedEvent()",),
    ),
    Rule(
        "a difference between stores is a part, a trait or data: no NotImplementedError, no hasattr",
        rules.find_unfinished_or_guessed,
        ("raise NotImplementedError", "raise NotImplementedError('x')", "hasattr(a, 'b')"),
    ),
    Rule(
        "names are whole words of the glossary: no Manager, Helper, Util, Impl, _v2, new_",
        rules.find_vague_names,
        (
            "class SessionManager: ...",
            "class HTTPHelper: ...",
            "def search_v2(): ...",
            "new_row = 1",
            "def f(utils): ...",
            "class StoreImpl: ...",
            "self.memory_manager = 1",
        ),
        (
            "class Implementation: ...",
            "renewed = 1",
            "def __new__(): ...",
            "from contextlib import contextmanager",
            "uuid7 = 1",
        ),
    ),
    Rule(
        "every error of errors.py is raised somewhere",
        rules.find_errors_never_raised,
        ("class Base(Exception): ...\nclass Lonely(Base): ...",),
        (
            "class Base(Exception): ...\nclass Used(Base): ...\nraise Used('x')",
            "class Used(Exception): ...\nCODES = {5: Used}",
        ),
        name="errors.py",
    ),
    Rule(
        "an error states a remedy, in its own field",
        rules.find_errors_without_remedy,
        (
            "raise InvalidInput('a is 1; pass 2')",
            "raise errors.NotFound(f'no {a}', remedy='')",
            "def f():\n    return StoreError('it failed', value=1)",
        ),
        (
            "raise InvalidInput('a is 1', remedy='pass 2')",
            "raise InvalidInput.from_sentence('a is 1; pass 2')",
            "raise StoreBusy('others write')",
            "raise kind(fact, remedy=remedy)",
        ),
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.find.__name__)
def test_the_package_follows_the_rule(rule: Rule) -> None:
    assert_none(rule.find(load_package_modules()), rule.text)


@pytest.mark.parametrize(
    ("rule", "source"),
    [pytest.param(rule, source, id=rule.find.__name__) for rule in RULES for source in rule.bad],
)
def test_a_rule_finds_bad_code(rule: Rule, source: str) -> None:
    assert rule.find_offenders(source)


@pytest.mark.parametrize(
    ("rule", "source"),
    [pytest.param(rule, source, id=rule.find.__name__) for rule in RULES for source in rule.good],
)
def test_a_rule_accepts_good_code(rule: Rule, source: str) -> None:
    assert rule.find_offenders(source) == []


def test_a_vague_file_name_is_found() -> None:
    assert list(rules.find_vague_names([Module("common/utils.py", "")])) == ["common/utils.py: utils"]
