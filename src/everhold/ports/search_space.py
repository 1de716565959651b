"""The chunks that a search looks at: one definition for images and every index."""

from typing import NamedTuple

from everhold.model.memory import LONG_TERM
from everhold.model.searchable import SEARCHABLE, Searchable
from everhold.schema.operations import Op, Where


class SearchSpace(NamedTuple):
    """The chunks of some users' entities of one kind, in one namespace, by one embedding model.

    `users` are user ids, with "" for entities without a user; None is the whole organization. Only chunks of live
    entities belong to the space. A chunk is current until its entity is revised.
    """

    organization_id: str
    users: tuple[str, ...] | None
    model: str
    kind: str = "memory"
    namespace: str = LONG_TERM

    @property
    def owner(self) -> Searchable:
        """The search properties of entities of this kind."""
        return SEARCHABLE[self.kind]

    def chunks(self, *, closed: bool = False) -> list[Where]:
        """Return the conditions for the space's current chunks; with `closed`, also for chunks of earlier revisions."""
        conditions = [
            Where("owner_kind", Op.EQ, self.kind),
            Where("namespace", Op.EQ, self.namespace),
            Where("model", Op.EQ, self.model if self.owner.has_vectors else ""),
        ]
        if self.users is not None:
            conditions.append(Where("user_id", Op.IN, list(self.users)))
        if not closed:
            conditions.append(Where("known_to", Op.EQ, None))
        return conditions

    def owners(self) -> list[Where]:
        """Return the conditions for the entities whose chunks are in the space."""
        conditions = []
        if self.owner.has_column("namespace"):
            conditions.append(Where("namespace", Op.EQ, self.namespace))
        if self.users is None:
            return conditions
        if self.owner.has_column("user_id"):
            users = [user or None for user in self.users]
            # Equality serves an index better than IN with one value.
            of_users = Where("user_id", Op.EQ, users[0]) if len(users) == 1 else Where("user_id", Op.IN, users)
            return [of_users, *conditions]
        # Entities without a user column belong to no user, so a space of named users has none of them.
        return conditions if "" in self.users else [Where("id", Op.IN, [])]
