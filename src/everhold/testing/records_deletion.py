"""The contract of a store of record: hiding, restoring and purging, and organizations that never meet."""

from collections.abc import Mapping
from typing import Any

import pytest

from everhold.errors import StaleVersion
from everhold.model import (
    AccessLog,
    ActionProposal,
    Agent,
    AgentState,
    Chunk,
    Cycle,
    Execution,
    Memory,
    Message,
    Organization,
    Outbox,
    Project,
    Relationship,
    Session,
    Tag,
    User,
)  # fmt: skip
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.catalog import ENTITIES, TABLES, get_key, get_table
from everhold.schema.operations import Delete, Hide, Increment, Op, Operation, Patch, Put, Unhide, Where
from everhold.testing.records_rows import NOON, family, later, plain, same_fields

SOFT = [table.name for table in TABLES.values() if table.soft]
Contents = dict[str, list[Row]]


def contents(records: Records, organization_id: str) -> Contents:
    """Everything an organization has, deleted or not."""
    return {
        name: records.scan(ENTITIES[name], organization_id, deleted=True)
        for name, table in TABLES.items()
        if table.tenant
    }


def belonging(rows: Mapping[str, Row], root: str) -> set[str]:
    """The tables whose row in a family belongs to the root's row, found by looking until nothing is added."""
    found = {root}
    while True:
        more = {
            name
            for name in rows
            for reference in TABLES[name].references
            if reference.on_delete == "cascade"
            and reference.target in found
            and all(rows[name].__dict__[column] is not None for column in reference.columns)
            and (reference.kind is None or rows[name].__dict__[reference.kind[0]] == reference.kind[1])
        }
        if more <= found:
            return found
        found |= more


class DeletionContract:
    """What a deletion takes with it, what it leaves, and how it is undone."""

    @pytest.mark.parametrize("root", SOFT)
    def test_hiding_takes_all_that_belongs_to_a_row(self, records: Records, root: str) -> None:
        rows = family("org")
        records.commit([Put(row) for row in rows.values()])
        records.commit([Hide(ENTITIES[root], get_key(rows[root]), "del", NOON)])
        gone = {name for name in belonging(rows, root) if TABLES[name].soft}
        marks: dict[str, Any] = {"is_deleted": True, "deleted_at": NOON, "deletion_id": "del", "version": 2}
        for name, row in rows.items():
            expected = row.model_copy(update=marks) if name in gone else row
            (found,) = records.scan(type(row), "org", deleted=True)
            assert same_fields(found, expected), name
            assert records.count(type(row), "org") == (name not in gone), name

    @pytest.mark.parametrize("root", SOFT)
    def test_restoring_reverses_exactly_one_deletion(self, records: Records, root: str) -> None:
        rows, before = family("org"), family("org", "before")
        del before["organizations"]
        records.commit([Put(row) for row in [*rows.values(), *before.values()]])
        hidden_before = [name for name in before if TABLES[name].soft]
        earlier = [Hide(ENTITIES[name], get_key(before[name]), "earlier", NOON) for name in hidden_before]
        records.commit(earlier[::-1])  # those that belong to others first, so that each is hidden by its own operation
        at_first = contents(records, "org")
        records.commit([Hide(ENTITIES[root], get_key(rows[root]), "del", later(1))])
        records.commit([Unhide("org", "nothing"), Unhide("org", "del")])
        gone = {name for name in belonging(rows, root) if TABLES[name].soft}
        for name, found in contents(records, "org").items():
            counted = [self._restored(row, twice=name in gone) for row in at_first[name]]
            assert found == counted, name

    def _restored(self, row: Row, *, twice: bool) -> Row:
        values = row.__dict__
        return row.model_copy(update={"version": 3}) if twice and not values["is_deleted"] else row

    def test_hiding_reaches_the_end_of_the_longest_way_down(self, records: Records) -> None:
        rows: list[Row] = [
            plain(Organization, "org", "org"),
            plain(User, "org", "u"),
            plain(Agent, "org", "a"),
            plain(Project, "org", "p", user_id="u"),
            plain(Session, "org", "s", project_id="p", user_id="u"),
            plain(Message, "org", "g", session_id="s", role="user"),
            plain(Execution, "org", "e", message_id="g", task="t", started_at=NOON),
            plain(Cycle, "org", "c", agent_id="a", execution_id="e", cycle_index=0),
            plain(ActionProposal, "org", "i", cycle_id="c"),
            plain(Memory, "org", "m", cycle_id="c"),
            plain(Tag, "org", "t", memory_id="m", tag="t"),
        ]
        records.commit([Put(row) for row in rows])
        records.commit([Hide(User, ("org", "u"), "del", NOON)])
        left = [type(row).__name__ for row in rows if records.count(type(row), "org")]
        assert left == ["Organization", "Agent", "Project", "Memory", "Tag"]
        records.commit([Unhide("org", "del")])
        assert all(records.count(type(row), "org") == 1 for row in rows)

    def test_hiding_passes_over_what_is_not_live(self, records: Records) -> None:
        self._two_memories(records)
        records.commit([Hide(Memory, ("org", "m"), "first", NOON)])
        records.commit([Hide(Memory, ("org", "m"), "second", later(1)), Hide(Memory, ("org", "gone"), "x", NOON)])
        found = records.get(Memory, "org", ["m"], deleted=True)["m"]
        assert (found.deletion_id, found.deleted_at, found.version) == ("first", NOON, 2)

    def test_two_deletions_are_restored_one_by_one(self, records: Records) -> None:
        self._two_memories(records)
        records.commit([Hide(Memory, ("org", "m"), "small", NOON), Hide(Organization, ("org",), "large", later(1))])
        records.commit([Unhide("org", "large")])
        assert [row.id for row in records.scan(Memory, "org")] == ["n"]
        assert records.scan(Tag, "org") == []
        records.commit([Unhide("org", "small")])
        assert [row.id for row in records.scan(Memory, "org")] == ["m", "n"]
        assert records.count(Tag, "org") == 1

    def test_several_hidden_under_one_id_return_together(self, records: Records) -> None:
        self._two_memories(records)
        records.commit([Hide(Memory, ("org", one), "del", NOON) for one in ("m", "n")])
        assert records.count(Memory, "org") == 0
        records.commit([Unhide("org", "del")])
        assert records.count(Memory, "org") == 2

    def test_a_row_may_be_hidden_and_restored_in_one_commit(self, records: Records) -> None:
        self._two_memories(records)
        records.commit([Hide(Memory, ("org", "m"), "del", NOON), Unhide("org", "del")])
        assert records.get(Memory, "org", ["m"])["m"].version == 3

    def test_hiding_a_relation_keeps_its_memories(self, records: Records) -> None:
        self._two_memories(records)
        records.commit([Hide(Relationship, ("org", "r"), "del", NOON)])
        assert records.count(Memory, "org") == 2
        records.commit([Hide(Memory, ("org", "n"), "del-2", NOON), Unhide("org", "del")])
        assert [row.id for row in records.scan(Relationship, "org")] == ["r"]

    def test_a_deletion_id_means_nothing_to_another_organization(self, records: Records) -> None:
        self._two_memories(records)
        self._two_memories(records, "other")
        records.commit([Hide(Memory, (one, "m"), "del", NOON) for one in ("org", "other")])
        records.commit([Unhide("other", "del")])
        assert (records.count(Memory, "org"), records.count(Memory, "other")) == (1, 2)

    def test_purging_passes_over_what_is_gone(self, records: Records) -> None:
        self._two_memories(records)
        records.commit([Delete(Memory, ("org", "gone")), Delete(Memory, ("org", "m")), Delete(Memory, ("org", "m"))])
        assert [row.id for row in records.scan(Memory, "org", deleted=True)] == ["n"]
        assert records.count(Tag, "org") == records.count(Relationship, "org") == 0

    def test_purging_takes_hidden_rows_too(self, records: Records) -> None:
        self._two_memories(records)
        records.commit([Hide(Memory, ("org", "m"), "del", NOON), Delete(Memory, ("org", "m"))])
        assert records.count(Tag, "org", deleted=True) == 0
        records.commit([Unhide("org", "del")])
        assert [row.id for row in records.scan(Memory, "org")] == ["n"]

    @pytest.mark.parametrize("name", ["action_proposals", "action_results"])
    def test_purging_takes_what_was_hidden_below_it_before(self, records: Records, name: str) -> None:
        rows = family("org", "one")
        cycle = rows["cycles"]
        records.commit([Put(row) for row in rows.values()])
        records.commit([Hide(ENTITIES[name], get_key(rows[name]), "del", NOON)])
        records.commit([Delete(Cycle, get_key(cycle))])
        assert records.scan(ENTITIES[name], "org", deleted=True) == []
        assert records.find_problems() == []

    def test_a_purged_organization_leaves_nothing_and_takes_nothing_else(self, records: Records) -> None:
        for organization in ("org", "other"):
            for name in ("one", "two"):
                rows = family(organization, name)
                if name == "two":
                    del rows["organizations"]
                records.commit([Put(row) for row in rows.values()])
        others = contents(records, "other")
        records.commit([Delete(Organization, ("org",))])
        outliving = {"log_heads"}  # a purged log must not look like one that never was
        assert {name for name, rows in contents(records, "org").items() if rows} == outliving
        assert contents(records, "other") == others

    def test_purging_ends_however_states_and_sessions_are_tied(self, records: Records) -> None:
        rows: list[Row] = [plain(Organization, "org", "org"), plain(Agent, "org", "a")]
        rows += [plain(Session, "org", one, agent_id="a") for one in ("s", "t", "u")]
        rows += [plain(AgentState, "org", one, agent_id="a", session_id=one, state={}) for one in ("s", "t")]
        rows += [plain(AgentState, "org", "general", agent_id="a", state={})]
        records.commit([Put(row) for row in rows])
        records.commit([Delete(Session, ("org", "s"))])
        records.commit([Delete(Session, ("org", "t"))])
        assert records.count(Session, "org") == 1
        records.commit([Delete(Organization, ("org",))])
        assert records.count(AgentState, None, deleted=True) == 0

    def test_what_merely_mentions_a_row_forgets_it(self, records: Records) -> None:
        rows = [plain(Organization, "org", "org"), plain(Agent, "org", "a"), plain(Session, "org", "s")]
        records.commit([Put(row) for row in rows])
        records.commit([Put(plain(AgentState, "org", "state", agent_id="a", session_id="s", state={"step": 1}))])
        records.commit([Delete(Session, ("org", "s"))])
        (found,) = records.scan(AgentState, "org")
        assert (found.session_id, found.state) == (None, {"step": 1})

    def test_a_line_of_the_log_keeps_the_ids_of_what_is_purged(self, records: Records) -> None:
        self._two_memories(records)
        line = AccessLog(
            organization_id="org", memory_id="m", session_id="s", operation="read", timestamp=NOON, digest=b"d"
        )
        records.commit([Put(line)])
        records.commit([Delete(Memory, ("org", "m"))])
        (found,) = records.scan(AccessLog, "org")
        assert (found.memory_id, found.session_id, found.operation) == ("m", "s", "read")
        records.commit([Delete(Organization, ("org",))])
        assert records.count(AccessLog, None) == 0

    def test_the_feed_outlives_the_organization(self, records: Records) -> None:
        self._two_memories(records)
        records.commit([Put(Outbox(organization_id="org", entity="memory", entity_id="m", operation="put"))])
        gone = Outbox(organization_id="org", entity="memory", entity_id="m", operation="delete")
        records.commit([Delete(Organization, ("org",)), Put(gone)])
        assert [line.operation for line in records.feed(0).lines] == ["put", "delete"]

    # organizations

    def test_equal_ids_of_two_organizations_never_meet(self, records: Records) -> None:
        for organization in ("org", "other"):
            records.commit([Put(row) for row in family(organization).values()])
        mine = contents(records, "org")
        others = contents(records, "other")
        for name, rows in mine.items():
            assert len(rows) == (name != "outbox"), name
            assert all(row.__dict__[str(TABLES[name].tenant)] == "org" for row in rows), name
        records.commit(self._everything_to(mine))
        assert contents(records, "other") == others
        records.commit([Delete(type(row), self._key(row)) for rows in mine.values() for row in rows])
        assert contents(records, "other") == others
        assert not any(contents(records, "org").values())

    def _everything_to(self, mine: Contents) -> list[Operation]:
        operations: list[Operation] = []
        for rows in mine.values():
            for row in rows:
                table = get_table(type(row))
                if table.soft:
                    operations.append(Patch(type(row), self._key(row), {"metadata": {"mine": True}}))
                    operations.append(Increment(type(row), self._key(row), {}, {"created_by_id": "me"}))
                    operations.append(Hide(type(row), self._key(row), f"del-{table.name}", NOON))
        operations += [Unhide("org", f"del-{name}") for name in SOFT[::2]]
        return operations

    def _key(self, row: Row) -> tuple[Any, ...]:
        return get_key(row)

    def test_a_row_of_another_organization_is_not_there(self, records: Records) -> None:
        self._two_memories(records)
        records.commit([Put(plain(Organization, "other", "other"))])
        assert records.get(Memory, "other", ["m", "n"], deleted=True) == {}
        assert records.get(Organization, "other", ["org", "other"]).keys() == {"other"}
        assert records.scan(Memory, "other", [Where("id", Op.EQ, "m")], deleted=True) == []
        assert records.scan(Organization, "other", deleted=True)[0].id == "other"
        assert records.count(Tag, "other", deleted=True) == 0
        assert list(records.columns(Chunk, "other", ["owner_id"])) == []
        with pytest.raises(StaleVersion):
            records.commit([Patch(Memory, ("other", "m"), {"text": "mine now"})])
        records.commit([Delete(Memory, ("other", "m")), Hide(Memory, ("other", "n"), "del", NOON)])
        assert records.count(Memory, "org") == 2

    def _two_memories(self, records: Records, organization_id: str = "org") -> None:
        """Memories m and n, a relation between them, a tag on m."""
        rows: list[Row] = [plain(Organization, organization_id, organization_id)]
        rows += [plain(Memory, organization_id, one) for one in ("m", "n")]
        tie = {"source_memory_id": "m", "target_memory_id": "n", "relationship_type": "reply_to"}
        rows.append(plain(Relationship, organization_id, "r", **tie))
        rows.append(plain(Tag, organization_id, "t", memory_id="m", tag="t"))
        records.commit([Put(row) for row in rows])
