"""How precisely an engine recalls: does what must come back come back, and nothing else?

Everything goes through the public verbs, as a caller would use them: `remember` and `supersede` in the order of the
file, then `recall`, or `context` where a case has a budget.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from everhold import clock
from everhold.engine import Everhold
from everhold.evaluation.precision_format import Case, Given, World
from everhold.model import Memory
from everhold.views.view import View

_DIGITS = 4


@dataclass(frozen=True)
class CaseOutcome:
    """How one case went. `faults` are problems other than wrong hits: a budget overrun, another pinned tier."""

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
        told = {"case": self.name, "missing": list(self.missing), "unwanted": list(self.unwanted)}
        return {**told, "faults": list(self.faults)} if self.faults else told


@dataclass(frozen=True)
class PrecisionReport:
    """How a suite went, case by case: those that must pass, and the known gaps."""

    suite: str
    outcomes: tuple[CaseOutcome, ...]
    gaps: tuple[CaseOutcome, ...] = ()

    @property
    def passed(self) -> int:
        return sum(one.passed for one in self.outcomes)

    @property
    def precision(self) -> float:
        return _mean(one.precision for one in self.outcomes)

    @property
    def recall(self) -> float:
        return _mean(one.recall for one in self.outcomes)

    @property
    def nothing(self) -> tuple[CaseOutcome, ...]:
        """The cases in which nothing should come back, whatever their category."""
        return tuple(one for one in self.outcomes if one.wants_nothing)

    @property
    def failed(self) -> tuple[CaseOutcome, ...]:
        return tuple(one for one in self.outcomes if not one.passed)

    def as_json(self) -> dict[str, Any]:
        """What `everhold eval precision --json` prints."""
        categories = sorted({one.category for one in self.outcomes})
        by_category = {name: [one for one in self.outcomes if one.category == name] for name in categories}
        return {
            "suite": self.suite,
            **_figures(self.outcomes),
            "nothing": {"cases": len(self.nothing), "passed": sum(one.passed for one in self.nothing)},
            "by_category": {name: _figures(outcomes) for name, outcomes in by_category.items()},
            "failed": [one.as_json() for one in self.failed],
            "gaps": {**_figures(self.gaps), "closed": [one.name for one in self.gaps if one.passed]},
            "with_gaps": _figures((*self.outcomes, *self.gaps)),
        }


class _Found(NamedTuple):
    """The hits of a case, by key, and other problems."""

    keys: tuple[str, ...]
    faults: tuple[str, ...] = ()


def evaluate(worlds: Sequence[World], open_engine: Callable[[], Everhold]) -> PrecisionReport:
    """Asks every case of every world. Each world has an engine of its own, which must be empty."""
    outcomes: list[CaseOutcome] = []
    gaps: list[CaseOutcome] = []
    for world in worlds:
        with open_engine() as engine:
            keys = _keep(engine, world)
            for case in world.cases:
                outcome = judge(world.label(case), case, *_ask(engine, case, world, keys))
                (outcomes if case.gap is None else gaps).append(outcome)
    suite = ", ".join(dict.fromkeys(world.suite for world in worlds))
    return PrecisionReport(suite, tuple(outcomes), tuple(gaps))


def judge(name: str, case: Case, found: Sequence[str], faults: Sequence[str] = ()) -> CaseOutcome:
    """How a case went in which these keys came back."""
    wanted = {*case.must, *case.may}
    relevant = [key for key in found if key in wanted]
    missing = tuple(key for key in case.must if key not in found)
    return CaseOutcome(
        name,
        case.category,
        case.wants_nothing,
        # an empty answer is precise only where it is the right one
        precision=len(relevant) / len(found) if found else float(not case.must),
        recall=1 - len(missing) / len(case.must) if case.must else 1.0,
        missing=missing,
        unwanted=tuple(key for key in found if key not in wanted),
        faults=tuple(faults),
    )


# keeping


def _keep(engine: Everhold, world: World) -> dict[str, str]:
    """Remembers the world's memories, one by one in their order; returns their keys by their ids."""
    present = clock.now()
    keys: dict[str, str] = {}
    for given in world.memories:
        view, fields = engine.scope(**given.scope), given.fields(present, world.now)
        keys[_store(view, given, fields).id] = given.key
    return keys


def _store(view: View, given: Given, fields: Mapping[str, Any]) -> Memory:
    if given.supersedes is None:
        return view.remember(given.text, **fields)
    return view.supersede(given.supersedes, given.text, **fields)


# asking


def _ask(engine: Everhold, case: Case, world: World, keys: Mapping[str, str]) -> _Found:
    view = engine.scope(**case.scope)
    if case.budget is None:
        return _recall_case(view, case, world, keys)
    return _read_context(view, case, case.budget, world, keys)


def _recall_case(view: View, case: Case, world: World, keys: Mapping[str, str]) -> _Found:
    narrowed = {"k": case.k, "kind": case.kind, "tags": list(case.tags) if case.tags else None}
    given: dict[str, Any] = {name: value for name, value in narrowed.items() if value is not None}
    hits = view.recall(case.ask, include=case.include, asked_at=world.now, **given)
    faults = [] if case.pinned is None else _compare_pinned(case.pinned, keys_of(hits.pinned, keys))
    return _Found(keys_of([hit.memory for hit in hits], keys), tuple(faults))


def _compare_pinned(wanted: Sequence[str], found: Sequence[str]) -> list[str]:
    if set(wanted) == set(found):
        return []
    return [f"pinned are {sorted(found)}, not {sorted(wanted)}"]


def _read_context(view: View, case: Case, budget: int, world: World, keys: Mapping[str, str]) -> _Found:
    """What a context tells. Pinned memories belong into every context: they are judged apart."""
    context = view.context(case.ask, budget=budget)
    said = " ".join(context.text.split())
    by_text = [one.key for one in world.memories if " ".join(one.text.split()) in said]
    found = tuple(dict.fromkeys([*keys_of(context.memories, keys), *by_text]))
    pinned = case.pinned or ()
    untold = [key for key in (*case.must, *pinned) if key in found and key not in by_text]
    faults = [f"the context lists {key!r} without its text" for key in untold]
    faults += [f"pinned {key!r} is not in the context" for key in pinned if key not in found]
    # no tokenizer makes fewer tokens than there are words, so that a wrong count is noticed too
    tokens = max(context.tokens, len(context.text.split()))
    if tokens > budget:
        faults.append(f"the context has {tokens} tokens, over the budget of {budget}")
    judged = tuple(key for key in found if key not in pinned or key in case.must)
    return _Found(judged, tuple(faults))


def keys_of(memories: Iterable[Memory], kept: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of memories, each once; `kept` has them by id. A fact derived from a memory counts as that memory."""
    return tuple(dict.fromkeys(_key_of(memory, kept) for memory in memories))


def _key_of(memory: Memory, kept: Mapping[str, str]) -> str:
    source = str(memory.provenance.get("memory", ""))
    return memory.key or kept.get(memory.id) or kept.get(source) or memory.id


# counting


def _figures(outcomes: Sequence[CaseOutcome]) -> dict[str, Any]:
    return {
        "cases": len(outcomes),
        "passed": sum(one.passed for one in outcomes),
        "precision": round(_mean(one.precision for one in outcomes), _DIGITS),
        "recall": round(_mean(one.recall for one in outcomes), _DIGITS),
    }


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
