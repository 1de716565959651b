"""Measure whether an engine returns all expected memories and no others.

Everything goes through the public verbs, as a caller would use them: `remember` and `supersede` in the order of the
file, then `recall`, or `context` where a case has a budget.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from everhold import clock
from everhold.engine import Everhold
from everhold.evaluation.precision_format import Case, World, WorldMemory
from everhold.model import Memory
from everhold.views.view import View

_DIGITS = 4


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of one case. `faults` are problems other than wrong hits: an exceeded budget, a wrong pinned tier."""

    name: str
    category: str
    wants_nothing: bool
    precision: float
    recall: float
    missing: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not (self.missing or self.unwanted or self.faults)

    def as_json(self) -> dict[str, Any]:
        document = {"case": self.name, "missing": list(self.missing), "unwanted": list(self.unwanted)}
        return {**document, "faults": list(self.faults)} if self.faults else document


@dataclass(frozen=True)
class PrecisionReport:
    """The outcomes of a suite's cases: the cases that must pass, and the known gaps."""

    suite: str
    outcomes: tuple[CaseOutcome, ...]
    gaps: tuple[CaseOutcome, ...] = ()

    @property
    def passed(self) -> int:
        return sum(outcome.passed for outcome in self.outcomes)

    @property
    def precision(self) -> float:
        return _compute_mean(outcome.precision for outcome in self.outcomes)

    @property
    def recall(self) -> float:
        return _compute_mean(outcome.recall for outcome in self.outcomes)

    @property
    def nothing(self) -> tuple[CaseOutcome, ...]:
        """The cases of all categories for which nothing should be returned."""
        return tuple(outcome for outcome in self.outcomes if outcome.wants_nothing)

    @property
    def failed(self) -> tuple[CaseOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if not outcome.passed)

    def as_json(self) -> dict[str, Any]:
        """Return the document that `everhold eval precision --json` prints."""
        categories = sorted({outcome.category for outcome in self.outcomes})
        by_category = {name: [outcome for outcome in self.outcomes if outcome.category == name] for name in categories}
        return {
            "suite": self.suite,
            **_compute_figures(self.outcomes),
            "nothing": {"cases": len(self.nothing), "passed": sum(outcome.passed for outcome in self.nothing)},
            "by_category": {name: _compute_figures(outcomes) for name, outcomes in by_category.items()},
            "failed": [outcome.as_json() for outcome in self.failed],
            "gaps": {
                **_compute_figures(self.gaps),
                "closed": [outcome.name for outcome in self.gaps if outcome.passed],
            },
            "with_gaps": _compute_figures((*self.outcomes, *self.gaps)),
        }


class _CaseHits(NamedTuple):
    """The keys of the hits of a case, and other problems."""

    keys: tuple[str, ...]
    faults: tuple[str, ...] = ()


def evaluate(worlds: Sequence[World], open_engine: Callable[[], Everhold]) -> PrecisionReport:
    """Ask every case of every world. `open_engine` returns a new, empty engine for each world."""
    outcomes: list[CaseOutcome] = []
    gaps: list[CaseOutcome] = []
    for world in worlds:
        with open_engine() as engine:
            keys = _store_memories(engine, world)
            for case in world.cases:
                outcome = judge(world.label(case), case, *_ask(engine, case, world, keys))
                (outcomes if case.gap is None else gaps).append(outcome)
    suite = ", ".join(dict.fromkeys(world.suite for world in worlds))
    return PrecisionReport(suite, tuple(outcomes), tuple(gaps))


def judge(name: str, case: Case, keys: Sequence[str], faults: Sequence[str] = ()) -> CaseOutcome:
    """Return the outcome of a case whose hits have these keys."""
    allowed = {*case.must, *case.may}
    relevant = [key for key in keys if key in allowed]
    missing = tuple(key for key in case.must if key not in keys)
    return CaseOutcome(
        name,
        case.category,
        case.wants_nothing,
        # an empty answer is precise only if nothing was expected
        precision=len(relevant) / len(keys) if keys else float(not case.must),
        recall=1 - len(missing) / len(case.must) if case.must else 1.0,
        missing=missing,
        unwanted=tuple(key for key in keys if key not in allowed),
        faults=tuple(faults),
    )


# storing


def _store_memories(engine: Everhold, world: World) -> dict[str, str]:
    """Remember the world's memories, one by one in their order; return their keys by their ids."""
    present = clock.now()
    keys: dict[str, str] = {}
    for memory in world.memories:
        view, fields = engine.scope(**memory.scope), memory.make_fields(present, world.now)
        keys[_store(view, memory, fields).id] = memory.key
    return keys


def _store(view: View, memory: WorldMemory, fields: Mapping[str, Any]) -> Memory:
    if memory.supersedes is None:
        return view.remember(memory.text, **fields)
    return view.supersede(memory.supersedes, memory.text, **fields)


# asking


def _ask(engine: Everhold, case: Case, world: World, keys: Mapping[str, str]) -> _CaseHits:
    view = engine.scope(**case.scope)
    if case.budget is None:
        return _recall_case(view, case, world, keys)
    return _read_context(view, case, case.budget, world, keys)


def _recall_case(view: View, case: Case, world: World, keys: Mapping[str, str]) -> _CaseHits:
    narrowing = {"k": case.k, "kind": case.kind, "tags": list(case.tags) if case.tags else None}
    options: dict[str, Any] = {name: value for name, value in narrowing.items() if value is not None}
    hits = view.recall(case.ask, include=case.include, asked_at=world.now, **options)
    faults = [] if case.pinned is None else _compare_pinned(case.pinned, list_keys(hits.pinned, keys))
    return _CaseHits(list_keys([hit.memory for hit in hits], keys), tuple(faults))


def _compare_pinned(expected: Sequence[str], actual: Sequence[str]) -> list[str]:
    if set(expected) == set(actual):
        return []
    return [f"pinned are {sorted(actual)}, not {sorted(expected)}"]


def _read_context(view: View, case: Case, budget: int, world: World, keys: Mapping[str, str]) -> _CaseHits:
    """Return the memories in a context. Pinned ones belong in every context and are judged separately."""
    context = view.context(case.ask, budget=budget)
    context_text = " ".join(context.text.split())
    quoted = [memory.key for memory in world.memories if " ".join(memory.text.split()) in context_text]
    included = tuple(dict.fromkeys([*list_keys(context.memories, keys), *quoted]))
    pinned = case.pinned or ()
    unquoted = [key for key in (*case.must, *pinned) if key in included and key not in quoted]
    faults = [f"the context lists {key!r} without its text" for key in unquoted]
    faults += [f"pinned {key!r} is not in the context" for key in pinned if key not in included]
    # every tokenizer makes at least one token per word, so a reported count that is too low is also noticed
    tokens = max(context.tokens, len(context.text.split()))
    if tokens > budget:
        faults.append(f"the context has {tokens} tokens, over the budget of {budget}")
    judged = tuple(key for key in included if key not in pinned or key in case.must)
    return _CaseHits(judged, tuple(faults))


def list_keys(memories: Iterable[Memory], keys: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of memories, each once. `keys` maps ids to keys. A derived fact has the key of its memory."""
    return tuple(dict.fromkeys(_find_key(memory, keys) for memory in memories))


def _find_key(memory: Memory, keys: Mapping[str, str]) -> str:
    source = str(memory.provenance.get("memory", ""))
    return memory.key or keys.get(memory.id) or keys.get(source) or memory.id


# counting


def _compute_figures(outcomes: Sequence[CaseOutcome]) -> dict[str, Any]:
    return {
        "cases": len(outcomes),
        "passed": sum(outcome.passed for outcome in outcomes),
        "precision": round(_compute_mean(outcome.precision for outcome in outcomes), _DIGITS),
        "recall": round(_compute_mean(outcome.recall for outcome in outcomes), _DIGITS),
    }


def _compute_mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0
