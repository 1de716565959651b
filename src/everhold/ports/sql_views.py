"""The interface through which SQL views are created in a store's own database."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from everhold.schema.legacy_views.compiler import ViewDialect

# The beginning of the note that marks a view as one that Everhold created.
NOTE_START = "everhold view "


class DatabaseView(NamedTuple):
    """A view that Everhold created, and the note that is stored with it."""

    schema: str
    name: str
    note: str


class ViewDefinition(NamedTuple):
    """A view to create: its place, its original name, its SELECT statement, and the note to store with it.

    `original_name` is the name of the table in the legacy system; `name` may have a prefix.
    """

    schema: str
    name: str
    original_name: str
    select: str
    note: str


class SqlViews(Protocol):
    """Creates, lists and drops views. Thread-safe."""

    @property
    def dialect(self) -> ViewDialect:
        """The SQL of the database for the columns of views."""

    @property
    def has_schemas(self) -> bool:
        """Whether views can be in separate schemas. If not, all views are in the schema of the tables."""

    @property
    def separates_organizations(self) -> bool:
        """Whether the database shows each transaction only the rows of the organization that it names."""

    @property
    def can_change(self) -> bool:
        """Whether this engine may create and drop views."""

    def read_table_schema(self) -> str:
        """Return the schema of the catalog's tables."""
        ...

    def list_views(self) -> list[DatabaseView]:
        """Return the views that Everhold created, in the order of their schemas and names."""
        ...

    def list_names(self, schema: str) -> set[str]:
        """Return the names of all tables and views in a schema; an empty set if the schema does not exist."""
        ...

    def replace_views(self, dropped: Sequence[DatabaseView], created: Sequence[ViewDefinition]) -> None:
        """Drop and create views, with the schemas that they need, in one transaction. Drop schemas that become empty.

        Raise StoreError if the database does not allow it; nothing is changed then.
        """
        ...

    def write_script(self, definitions: Sequence[ViewDefinition]) -> str:
        """Return the SQL that a program runs after connecting, to find the views under their original names."""
        ...
