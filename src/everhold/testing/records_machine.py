"""Random operations on a store of record and on the reference in memory, compared after every step.

    run_machine(lambda: MyRecords(fresh_folder()), operations=2000)

The universe is small on purpose, so that keys collide, references break, and deletions overlap.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypeVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from everhold.adapters.in_memory import InMemoryRecords
from everhold.errors import AlreadyExists, Conflict, EverholdError, InvalidInput
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.catalog import get_key, get_table
from everhold.schema.operations import Condition, Delete, Ensure, Hide, Increment, Operation, Page, Patch, Put, Require
from everhold.testing.records_following import read_feed
from everhold.testing.records_universe import (
    ENTITIES,
    FIELDS,
    ORGANIZATIONS,
    filters,
    make_first_rows,
    operations,
    orders,
)  # fmt: skip

T = TypeVar("T")
ComparableRow = dict[str, Any]

# How many operations a sequence of 50 steps performs on average.
_OPERATIONS_PER_EXAMPLE = 50
# The minimum and the maximum number of sequences in a round. Hypothesis begins each round with the simplest sequences,
# so a round needs more than a few. It keeps all sequences of a round in memory, so a long run has several rounds.
_MIN_EXAMPLES, _MAX_EXAMPLES = 5, 100


class RecordsMachine(RuleBasedStateMachine):
    """Runs the same operations on the store and on the reference, and compares their answers and contents."""

    make_records: ClassVar[Callable[[], Records]]
    permanent: ClassVar[Sequence[type[Row]]] = ()
    performed: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.store = type(self).make_records()
        self.reference: Records = InMemoryRecords()
        self.expected: dict[type[Row], list[ComparableRow]] = {}

    def teardown(self) -> None:
        """Compare all tables at the end. After a commit, only the tables that it changed or named are compared."""
        try:
            for entity in self.expected:
                assert read_contents(entity, self.store) == self.expected[entity], (
                    f"{entity.__name__} differs at the end"
                )
        finally:
            self.store.close()

    @initialize()
    def begin(self) -> None:
        for records in (self.store, self.reference):
            records.commit([Put(row) for row in make_first_rows()])
        self.expected = {entity: read_contents(entity, self.reference) for entity in ENTITIES}

    @rule(batch=st.lists(operations(), min_size=1, max_size=6))
    def commit(self, batch: list[Operation]) -> None:
        self._commit(batch)

    @rule(operation=operations())
    def commit_one(self, operation: Operation) -> None:
        self._commit([operation])

    def _commit(self, batch: Sequence[Operation]) -> None:
        type(self).performed += len(batch)
        if any(isinstance(operation, Delete) and operation.entity in self.permanent for operation in batch):
            self._refuse(batch)
            return
        result, expected_result = (attempt(records, batch) for records in (self.store, self.reference))
        assert result == expected_result, f"the store says {result}, the reference {expected_result}, after {batch}"
        named_entities = {_get_entity(operation) for operation in batch}
        for entity, before in list(self.expected.items()):
            self.expected[entity] = expected = read_contents(entity, self.reference)
            if entity in named_entities or expected != before:
                stored = read_contents(entity, self.store)
                assert stored == expected, f"the store holds {stored}, the reference {expected}, after {batch}"

    def _refuse(self, batch: Sequence[Operation]) -> None:
        """Check that the store refuses a batch that deletes a permanent row, and that nothing of it is stored."""
        try:
            self.store.commit([_resolve_rank(operation, self.store) for operation in batch])
        except EverholdError:
            for entity in filter(None, map(_get_entity, batch)):
                stored = read_contents(entity, self.store)
                assert stored == self.expected[entity], f"the store holds {stored} after it refused {batch}"
        else:
            raise AssertionError(f"the store deleted a permanent row in {batch}")

    @rule(
        data=st.data(),
        entity=st.sampled_from(ENTITIES),
        organization=st.sampled_from([*ORGANIZATIONS, None]),
        descending=st.booleans(),
        deleted=st.booleans(),
        limit=st.sampled_from([None, 0, 1, 2, 5]),
    )
    def read(
        self,
        data: st.DataObject,
        entity: type[Row],
        organization: str | None,
        descending: bool,
        deleted: bool,
        limit: int | None,
    ) -> None:
        type(self).performed += 1
        where = data.draw(filters(entity))
        order = data.draw(orders(entity))
        position = data.draw(st.none() | st.integers(0, 6))
        common: dict[str, Any] = {"order": order, "descending": descending, "deleted": deleted}

        def scan(records: Records) -> list[ComparableRow]:
            after = make_page(records.scan(entity, organization, **common), order, position)
            return make_comparable(records.scan(entity, organization, where, after=after, limit=limit, **common))

        self._compare(scan)
        for condition in where:
            self._compare(partial(count_rows, entity, condition))
        names = list(FIELDS[entity])
        self._compare(lambda records: sort_rows(records.columns(entity, organization, names, where, deleted=deleted)))

    @rule(
        entity=st.sampled_from([entity for entity in ENTITIES if "id" in entity.model_fields]),
        organization=st.sampled_from(ORGANIZATIONS),
        ids=st.lists(st.sampled_from([*ORGANIZATIONS, "a", "b", "ก", "nowhere"]), max_size=4),
        deleted=st.booleans(),
    )
    def get(self, entity: type[Row], organization: str, ids: list[str], deleted: bool) -> None:
        type(self).performed += 1
        self._compare(lambda records: records.get(entity, organization, ids, deleted=deleted))

    @rule(limit=st.integers(1, 5))
    def follow(self, limit: int) -> None:
        type(self).performed += 1
        self._compare(lambda records: make_comparable(read_feed(records, limit=limit)))

    def _compare(self, ask: Callable[[Records], T]) -> None:
        result, expected = ask(self.store), ask(self.reference)
        assert result == expected, f"the store says {result}, the reference {expected}"


def attempt(records: Records, batch: Sequence[Operation]) -> tuple[str, str]:
    """Commit, and return the error's name and its table if it has one."""
    try:
        records.commit([_resolve_rank(operation, records) for operation in batch])
    except AlreadyExists as error:
        return type(error).__name__, error.table
    except (Conflict, InvalidInput) as error:
        return type(error).__name__, ""
    return "done", ""


def _resolve_rank(operation: Operation, records: Records) -> Operation:
    """Replace a rank by the generated number of that row, because the numbers differ between stores."""
    match operation:
        case Patch(entity, (int() as rank,)) | Increment(entity, (int() as rank,)) | Delete(entity, (int() as rank,)):
            number_column = get_table(entity).generated
            numbers = [row.__dict__[number_column] for row in records.scan(entity, None)] if number_column else []
            return replace(operation, key=(numbers[rank] if rank < len(numbers) else -1,))
    return operation


def _get_entity(operation: Operation) -> type[Row] | None:
    match operation:
        case Put(row) | Ensure(row):
            return type(row)
        case Patch(entity) | Increment(entity) | Delete(entity) | Hide(entity) | Require(entity):
            return entity
    return None


def read_contents(entity: type[Row], records: Records) -> list[ComparableRow]:
    return make_comparable(records.scan(entity, None, deleted=True))


def count_rows(entity: type[Row], condition: Condition, records: Records) -> tuple[int, int]:
    live = records.count(entity, ORGANIZATIONS[0], [condition])
    return live, records.count(entity, None, [condition], deleted=True)


def make_page(rows: Sequence[Row], order: str | None, position: int | None) -> Page | None:
    if position is None or position >= len(rows):
        return None
    row = rows[position]
    return Page(row.__dict__[order] if order else None, get_key(row))


def make_comparable(rows: Sequence[Row]) -> list[ComparableRow]:
    """Return rows as dictionaries without the numbers that a store generates."""
    return [
        {name: value for name, value in row.__dict__.items() if name != get_table(type(row)).generated} for row in rows
    ]


def sort_rows(rows: Any) -> list[str]:
    """Return rows in a fixed order, so that they can be compared."""
    return sorted(map(repr, rows))


def run_machine(
    make_records: Callable[[], Records],
    *,
    operations: int = 2000,
    steps: int = 50,
    permanent: Sequence[type[Row]] = (),
    shrink: bool = False,
) -> int:
    """Run random sequences of at most `steps` steps until they have performed `operations`; return how many they did.

    `make_records` returns an open, empty store each time; the machine closes it. The store must refuse to delete rows
    of the `permanent` entities. To `shrink` a failure to its smallest form takes minutes.
    """

    class Machine(RecordsMachine):
        pass

    Machine.make_records = staticmethod(make_records)
    Machine.permanent = permanent
    for number in itertools.count():
        missing = operations - Machine.performed
        if missing <= 0:
            break
        examples = min(max(missing // _OPERATIONS_PER_EXAMPLE, _MIN_EXAMPLES), _MAX_EXAMPLES)
        run_state_machine_as_test(seed(number)(Machine), settings=_make_settings(examples, steps, shrink))
    return Machine.performed


def _make_settings(examples: int, steps: int, shrink: bool) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
