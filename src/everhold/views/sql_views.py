"""The engine's verbs on SQL views: tables of other memory systems, shown by the store's own database."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import everhold
from everhold.arguments.checks import Identifier
from everhold.arguments.verbs import check_verbs
from everhold.errors import InvalidInput

if TYPE_CHECKING:
    from everhold.parts import Parts
    from everhold.ports.sql_views import SqlViews


@check_verbs
class SqlViewVerbs:
    """Install, list and remove SQL views."""

    _parts: "Parts"

    def install_views(
        self,
        preset: str,
        *,
        organization: Identifier | None = None,
        schema: str | None = None,
        prefix: str | None = None,
    ) -> "everhold.PresetViews":
        """Create read-only SQL views with the table and column names of a legacy system, so that its reports run.

        `preset` is a name or an alias that `list_views` returns. The views show the rows of `organization`. By default
        that is the default organization, or all organizations if the legacy system or the database keeps them apart.
        `schema` is the schema in which the views are created, and `prefix` the beginning of each view's name.
        Installing a preset again with the same arguments changes nothing; with other arguments it replaces the views.
        Raise InvalidInput if the store cannot have views.
        """
        from everhold.sql_views.installing import install_views

        views = self._require_views()
        return install_views(views, preset, organization=organization, schema=schema, prefix=prefix)

    def remove_views(self, preset: str) -> "everhold.PresetViews":
        """Drop the SQL views of a preset. Raise NotFound if they are not installed."""
        from everhold.sql_views.installing import remove_views

        return remove_views(self._require_views(), preset)

    def list_views(self) -> "Sequence[everhold.PresetViews]":
        """Return the presets of SQL views, and for each whether and where its views are installed."""
        from everhold.sql_views.installing import list_presets

        return list_presets(self._require_views())

    def write_view_script(self, preset: str, *, organization: Identifier | None = None) -> str:
        """Return SQL that a report runs after connecting, so that it finds a preset's views under their original names.

        On SQLite the SQL creates temporary views, which need no installation and hide tables of the same name. On other
        databases it selects the schema of the installed views.
        """
        from everhold.sql_views.installing import write_script

        return write_script(self._require_views(), preset, organization=organization)

    def _require_views(self) -> "SqlViews":
        views = self._parts.find_sql_views()
        if views is None:
            name = self._parts.records.traits.name
            raise InvalidInput(
                f"a store of the kind {name!r} cannot have SQL views",
                value=name,
                remedy="use SQLite, DuckDB or PostgreSQL; `everhold move` copies a store into another",
            )
        return views
