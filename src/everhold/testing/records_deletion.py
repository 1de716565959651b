"""The contract of a store of record: hiding, restoring and purging, and the separation of organizations."""

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
from everhold.testing.records_rows import NOON, add_minutes_to_noon, is_same_row, make_family, make_row

SOFT = [table.name for table in TABLES.values() if table.soft]
Contents = dict[str, list[Row]]


def read_contents(records: Records, organization_id: str) -> Contents:
    """Return every row of an organization by table, deleted or not."""
    return {
        name: records.scan(ENTITIES[name], organization_id, deleted=True)
        for name, table in TABLES.items()
        if table.tenant
    }


def find_owned_tables(rows: Mapping[str, Row], root: str) -> set[str]:
    """Return the tables whose row in a family belongs to the root's row, directly or through others."""
    tables = {root}
    while True:
        owned = {
            name
            for name in rows
            for reference in TABLES[name].references
            if reference.on_delete == "cascade"
            and reference.target in tables
            and all(rows[name].__dict__[column] is not None for column in reference.columns)
            and (reference.kind is None or rows[name].__dict__[reference.kind[0]] == reference.kind[1])
        }
        if owned <= tables:
            return tables
        tables |= owned


# The tables of an organization whose rows are not purged with it, so that a purged log differs from one that never
# existed, and an erased user stays erased.
_OUTLIVING_TABLES = {"log_heads", "data_keys", "user_erasures"}


class DeletionContract:
    """The rows that a deletion hides or purges, the rows that it leaves, and its undo."""

    @pytest.mark.parametrize("root", SOFT)
    def test_hiding_a_row_hides_the_rows_that_belong_to_it(self, records: Records, root: str) -> None:
        rows = make_family("org")
        records.commit([Put(row) for row in rows.values()])
        records.commit([Hide(ENTITIES[root], get_key(rows[root]), "del", NOON)])
        hidden_tables = {name for name in find_owned_tables(rows, root) if TABLES[name].soft}
        marks: dict[str, Any] = {"is_deleted": True, "deleted_at": NOON, "deletion_id": "del", "version": 2}
        for name, row in rows.items():
            expected = row.model_copy(update=marks) if name in hidden_tables else row
            (stored,) = records.scan(type(row), "org", deleted=True)
            assert is_same_row(stored, expected), name
            assert records.count(type(row), "org") == (name not in hidden_tables), name

    @pytest.mark.parametrize("root", SOFT)
    def test_restoring_reverses_exactly_one_deletion(self, records: Records, root: str) -> None:
        rows, earlier_rows = make_family("org"), make_family("org", "before")
        del earlier_rows["organizations"]
        records.commit([Put(row) for row in [*rows.values(), *earlier_rows.values()]])
        hidden_earlier = [name for name in earlier_rows if TABLES[name].soft]
        earlier_hides = [Hide(ENTITIES[name], get_key(earlier_rows[name]), "earlier", NOON) for name in hidden_earlier]
        # Children come before their owners, so that each row is hidden by its own operation.
        records.commit(earlier_hides[::-1])
        before_deletion = read_contents(records, "org")
        records.commit([Hide(ENTITIES[root], get_key(rows[root]), "del", add_minutes_to_noon(1))])
        records.commit([Unhide("org", "nothing"), Unhide("org", "del")])
        hidden_tables = {name for name in find_owned_tables(rows, root) if TABLES[name].soft}
        for name, stored_rows in read_contents(records, "org").items():
            expected = [self._expect_restored(row, was_hidden=name in hidden_tables) for row in before_deletion[name]]
            assert stored_rows == expected, name

    def _expect_restored(self, row: Row, *, was_hidden: bool) -> Row:
        # Hiding and restoring each increase the version. A row that was hidden earlier does not change.
        values = row.__dict__
        return row.model_copy(update={"version": 3}) if was_hidden and not values["is_deleted"] else row

    def test_hiding_reaches_the_end_of_the_longest_chain_of_references(self, records: Records) -> None:
        rows: list[Row] = [
            make_row(Organization, "org", "org"),
            make_row(User, "org", "u"),
            make_row(Agent, "org", "a"),
            make_row(Project, "org", "p", user_id="u"),
            make_row(Session, "org", "s", project_id="p", user_id="u"),
            make_row(Message, "org", "g", session_id="s", role="user"),
            make_row(Execution, "org", "e", message_id="g", task="t", started_at=NOON),
            make_row(Cycle, "org", "c", agent_id="a", execution_id="e", cycle_index=0),
            make_row(ActionProposal, "org", "i", cycle_id="c"),
            make_row(Memory, "org", "m", cycle_id="c"),
            make_row(Tag, "org", "t", memory_id="m", tag="t"),
        ]
        records.commit([Put(row) for row in rows])
        records.commit([Hide(User, ("org", "u"), "del", NOON)])
        live_names = [type(row).__name__ for row in rows if records.count(type(row), "org")]
        assert live_names == ["Organization", "Agent", "Project", "Memory", "Tag"]
        records.commit([Unhide("org", "del")])
        assert all(records.count(type(row), "org") == 1 for row in rows)

    def test_hiding_ignores_hidden_and_missing_rows(self, records: Records) -> None:
        self._put_two_memories(records)
        records.commit([Hide(Memory, ("org", "m"), "first", NOON)])
        records.commit(
            [Hide(Memory, ("org", "m"), "second", add_minutes_to_noon(1)), Hide(Memory, ("org", "gone"), "x", NOON)]
        )
        stored = records.get(Memory, "org", ["m"], deleted=True)["m"]
        assert (stored.deletion_id, stored.deleted_at, stored.version) == ("first", NOON, 2)

    def test_two_deletions_are_restored_one_by_one(self, records: Records) -> None:
        self._put_two_memories(records)
        records.commit(
            [Hide(Memory, ("org", "m"), "small", NOON), Hide(Organization, ("org",), "large", add_minutes_to_noon(1))]
        )
        records.commit([Unhide("org", "large")])
        assert [row.id for row in records.scan(Memory, "org")] == ["n"]
        assert records.scan(Tag, "org") == []
        records.commit([Unhide("org", "small")])
        assert [row.id for row in records.scan(Memory, "org")] == ["m", "n"]
        assert records.count(Tag, "org") == 1

    def test_rows_hidden_with_one_deletion_id_are_restored_together(self, records: Records) -> None:
        self._put_two_memories(records)
        records.commit([Hide(Memory, ("org", memory_id), "del", NOON) for memory_id in ("m", "n")])
        assert records.count(Memory, "org") == 0
        records.commit([Unhide("org", "del")])
        assert records.count(Memory, "org") == 2

    def test_a_row_may_be_hidden_and_restored_in_one_commit(self, records: Records) -> None:
        self._put_two_memories(records)
        records.commit([Hide(Memory, ("org", "m"), "del", NOON), Unhide("org", "del")])
        assert records.get(Memory, "org", ["m"])["m"].version == 3

    def test_hiding_a_relation_keeps_its_memories(self, records: Records) -> None:
        self._put_two_memories(records)
        records.commit([Hide(Relationship, ("org", "r"), "del", NOON)])
        assert records.count(Memory, "org") == 2
        records.commit([Hide(Memory, ("org", "n"), "del-2", NOON), Unhide("org", "del")])
        assert [row.id for row in records.scan(Relationship, "org")] == ["r"]

    def test_restoring_a_deletion_id_leaves_other_organizations_alone(self, records: Records) -> None:
        self._put_two_memories(records)
        self._put_two_memories(records, "other")
        records.commit([Hide(Memory, (organization, "m"), "del", NOON) for organization in ("org", "other")])
        records.commit([Unhide("other", "del")])
        assert (records.count(Memory, "org"), records.count(Memory, "other")) == (1, 2)

    def test_purging_a_missing_row_does_nothing(self, records: Records) -> None:
        self._put_two_memories(records)
        records.commit([Delete(Memory, ("org", "gone")), Delete(Memory, ("org", "m")), Delete(Memory, ("org", "m"))])
        assert [row.id for row in records.scan(Memory, "org", deleted=True)] == ["n"]
        assert records.count(Tag, "org") == records.count(Relationship, "org") == 0

    def test_a_hidden_row_can_be_purged(self, records: Records) -> None:
        self._put_two_memories(records)
        records.commit([Hide(Memory, ("org", "m"), "del", NOON), Delete(Memory, ("org", "m"))])
        assert records.count(Tag, "org", deleted=True) == 0
        records.commit([Unhide("org", "del")])
        assert [row.id for row in records.scan(Memory, "org")] == ["n"]

    @pytest.mark.parametrize("name", ["action_proposals", "action_results"])
    def test_purging_a_row_also_purges_rows_that_were_hidden_before(self, records: Records, name: str) -> None:
        rows = make_family("org", "one")
        cycle = rows["cycles"]
        records.commit([Put(row) for row in rows.values()])
        records.commit([Hide(ENTITIES[name], get_key(rows[name]), "del", NOON)])
        records.commit([Delete(Cycle, get_key(cycle))])
        assert records.scan(ENTITIES[name], "org", deleted=True) == []
        assert records.find_problems() == []

    def test_purging_an_organization_deletes_all_of_its_rows_and_no_others(self, records: Records) -> None:
        for organization in ("org", "other"):
            for name in ("one", "two"):
                rows = make_family(organization, name)
                if name == "two":
                    del rows["organizations"]
                records.commit([Put(row) for row in rows.values()])
        other_contents = read_contents(records, "other")
        records.commit([Delete(Organization, ("org",))])
        assert {name for name, rows in read_contents(records, "org").items() if rows} == _OUTLIVING_TABLES
        assert read_contents(records, "other") == other_contents

    def test_purging_sessions_and_agents_deletes_or_detaches_agent_states(self, records: Records) -> None:
        rows: list[Row] = [make_row(Organization, "org", "org"), make_row(Agent, "org", "a")]
        rows += [make_row(Session, "org", name, agent_id="a") for name in ("s", "t", "u")]
        rows += [make_row(AgentState, "org", name, agent_id="a", session_id=name, state={}) for name in ("s", "t")]
        rows += [make_row(AgentState, "org", "general", agent_id="a", state={})]
        records.commit([Put(row) for row in rows])
        records.commit([Delete(Session, ("org", "s"))])
        records.commit([Delete(Session, ("org", "t"))])
        assert records.count(Session, "org") == 1
        records.commit([Delete(Organization, ("org",))])
        assert records.count(AgentState, None, deleted=True) == 0

    def test_optional_references_to_a_deleted_row_become_null(self, records: Records) -> None:
        rows = [make_row(Organization, "org", "org"), make_row(Agent, "org", "a"), make_row(Session, "org", "s")]
        records.commit([Put(row) for row in rows])
        records.commit([Put(make_row(AgentState, "org", "state", agent_id="a", session_id="s", state={"step": 1}))])
        records.commit([Delete(Session, ("org", "s"))])
        (stored,) = records.scan(AgentState, "org")
        assert (stored.session_id, stored.state) == (None, {"step": 1})

    def test_a_log_line_keeps_the_ids_of_purged_rows(self, records: Records) -> None:
        self._put_two_memories(records)
        line = AccessLog(
            organization_id="org", memory_id="m", session_id="s", operation="read", timestamp=NOON, digest=b"d"
        )
        records.commit([Put(line)])
        records.commit([Delete(Memory, ("org", "m"))])
        (stored,) = records.scan(AccessLog, "org")
        assert (stored.memory_id, stored.session_id, stored.operation) == ("m", "s", "read")
        records.commit([Delete(Organization, ("org",))])
        assert records.count(AccessLog, None) == 0

    def test_the_feed_keeps_the_lines_of_a_purged_organization(self, records: Records) -> None:
        self._put_two_memories(records)
        records.commit([Put(Outbox(organization_id="org", entity="memory", entity_id="m", operation="put"))])
        purge_line = Outbox(organization_id="org", entity="memory", entity_id="m", operation="delete")
        records.commit([Delete(Organization, ("org",)), Put(purge_line)])
        assert [line.operation for line in records.feed(0).lines] == ["put", "delete"]

    # organizations

    def test_equal_ids_in_two_organizations_are_different_rows(self, records: Records) -> None:
        for organization in ("org", "other"):
            records.commit([Put(row) for row in make_family(organization).values()])
        own_rows = read_contents(records, "org")
        other_contents = read_contents(records, "other")
        for name, rows in own_rows.items():
            assert len(rows) == (name != "outbox"), name
            assert all(row.__dict__[str(TABLES[name].tenant)] == "org" for row in rows), name
        records.commit(self._make_changes(own_rows))
        assert read_contents(records, "other") == other_contents
        # A role with few rights may not delete these. The log goes with its organization, and its head stays.
        purged_rows = [
            row
            for name, rows in own_rows.items()
            if name not in {"memory_access_logs", *_OUTLIVING_TABLES}
            for row in rows
        ]
        records.commit([Delete(type(row), get_key(row)) for row in purged_rows])
        assert read_contents(records, "other") == other_contents
        assert {name for name, rows in read_contents(records, "org").items() if rows} == _OUTLIVING_TABLES

    def _make_changes(self, own_rows: Contents) -> list[Operation]:
        operations: list[Operation] = []
        for rows in own_rows.values():
            for row in rows:
                table = get_table(type(row))
                if table.soft:
                    operations.append(Patch(type(row), get_key(row), {"metadata": {"mine": True}}))
                    operations.append(Increment(type(row), get_key(row), {}, {"created_by_id": "me"}))
                    operations.append(Hide(type(row), get_key(row), f"del-{table.name}", NOON))
        operations += [Unhide("org", f"del-{name}") for name in SOFT[::2]]
        return operations

    def test_reads_find_no_row_of_another_organization(self, records: Records) -> None:
        self._put_two_memories(records)
        records.commit([Put(make_row(Organization, "other", "other"))])
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

    def _put_two_memories(self, records: Records, organization_id: str = "org") -> None:
        """Put memories m and n, a relation between them, and a tag on m."""
        rows: list[Row] = [make_row(Organization, organization_id, organization_id)]
        rows += [make_row(Memory, organization_id, name) for name in ("m", "n")]
        relation = {"source_memory_id": "m", "target_memory_id": "n", "relationship_type": "reply_to"}
        rows.append(make_row(Relationship, organization_id, "r", **relation))
        rows.append(make_row(Tag, organization_id, "t", memory_id="m", tag="t"))
        records.commit([Put(row) for row in rows])
