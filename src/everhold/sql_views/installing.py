"""Install the views of a preset, list and remove them, and renew those that an older version of Everhold created."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from everhold.errors import AlreadyExists, Argument, InvalidInput, NotFound, Remedy, Verb
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.ports.sql_views import DatabaseView, SqlViews, ViewDefinition
from everhold.schema.catalog import TABLES
from everhold.schema.legacy_views.compiler import ViewCompiler
from everhold.schema.legacy_views.declarations import ViewPreset
from everhold.schema.legacy_views.presets import PRESETS, find_preset
from everhold.sql_views.notes import ViewNote, decode_note, encode_note, make_fingerprint

# 40 characters and a view's name fit in PostgreSQL's 63.
_NAME = re.compile(r"(?!pg_|sqlite_)[A-Za-z_][A-Za-z0-9_]{0,39}", re.IGNORECASE)


@dataclass(frozen=True)
class ViewOptions:
    """The options with which the views of a preset are installed.

    `schema` is None on a database without schemas. If there is also no `prefix`, a view with the name of a table of
    Everhold gets the preset's name as a prefix. With `organization`, the views show only its rows.
    """

    schema: str | None
    prefix: str | None
    organization: str | None


@dataclass(frozen=True)
class PresetViews:
    """The views of one preset in a store.

    `views` maps the tables of the legacy system to the views that replace them; it is empty if they are not installed.
    Views are "outdated" if another version of Everhold created them or some of them are missing.
    """

    preset: str
    alias: str
    summary: str
    state: Literal["installed", "outdated", "not installed"]
    schema: str | None = None
    organization: str | None = None
    views: Mapping[str, str] = field(default_factory=dict)


def install_views(
    views: SqlViews, preset_name: str, *, organization: str | None, schema: str | None, prefix: str | None
) -> PresetViews:
    """Create the views of a preset, replacing those that are installed with other options or outdated."""
    preset = find_preset(preset_name)
    options = _choose_options(views, preset, organization, schema, prefix)
    definitions = _define_views(views, preset, options)
    existing_views = _group_by_preset(views.list_views()).get(preset.name, [])
    if not _are_equal(existing_views, definitions):
        _require_free_names(views, existing_views, definitions)
        views.replace_views(existing_views, definitions)
    return _describe(preset, definitions, options, "installed")


def remove_views(views: SqlViews, preset_name: str) -> PresetViews:
    """Drop the views of a preset. Raise NotFound if they are not installed."""
    preset = find_preset(preset_name)
    existing_views = _group_by_preset(views.list_views()).get(preset.name, [])
    if not existing_views:
        remedy = Remedy("{} lists the installed ones", Verb("list_views"))
        raise NotFound(f"the views of preset {preset.name!r} are not installed", value=preset.name, remedy=remedy)
    views.replace_views(existing_views, ())
    return _describe(preset, (), None, "not installed")


def list_presets(views: SqlViews) -> list[PresetViews]:
    """Return every preset with the state, schema and names of its views."""
    groups = _group_by_preset(views.list_views())
    return [_describe_installed(views, preset, groups.get(preset.name, [])) for preset in PRESETS.values()]


def write_script(views: SqlViews, preset_name: str, *, organization: str | None) -> str:
    """Return the SQL that a program runs after connecting, to find the views of a preset under their original names.

    Without an organization, the script fits the installed views or, if there are none, the default options.
    """
    preset = find_preset(preset_name)
    existing_views = _group_by_preset(views.list_views()).get(preset.name, [])
    if existing_views and organization is None:
        options = _read_options(views, existing_views)
    else:
        options = _choose_options(views, preset, organization, None, None)
    return views.write_script(_define_views(views, preset, options))


def find_outdated(views: SqlViews) -> list[PresetViews]:
    """Return the presets whose installed views are outdated."""
    # Most stores have no views, and for those the presets are not compiled.
    return [preset for preset in list_presets(views) if preset.state == "outdated"] if views.list_views() else []


def renew_views(views: SqlViews, preset_name: str) -> None:
    """Create the installed views of a preset again with the same options."""
    preset = PRESETS[preset_name]
    existing_views = _group_by_preset(views.list_views())[preset.name]
    definitions = _define_views(views, preset, _read_options(views, existing_views))
    _require_free_names(views, existing_views, definitions)
    views.replace_views(existing_views, definitions)


# options


def _choose_options(
    views: SqlViews, preset: ViewPreset, organization: str | None, schema: str | None, prefix: str | None
) -> ViewOptions:
    """Return the schema, the prefix and the organization of views, with their defaults."""
    for name, value in (("schema", schema), ("prefix", prefix)):
        if value is not None and not _NAME.fullmatch(value):
            raise InvalidInput(
                f"{name} is {value!r}",
                value=value,
                remedy="use up to 40 letters, digits and underscores, not beginning with a digit, pg_ or sqlite_",
            )
    if schema is not None and not views.has_schemas:
        remedy = Remedy("pass {} instead", Argument("prefix"))
        raise InvalidInput("this store's database has no schemas", value=schema, remedy=remedy)
    if organization is None and not preset.has_organizations and not views.separates_organizations:
        organization = DEFAULT_ORGANIZATION  # the legacy system has one tenant, and must not show others
    return ViewOptions((schema or preset.name) if views.has_schemas else None, prefix, organization)


def _read_options(views: SqlViews, existing_views: Sequence[DatabaseView]) -> ViewOptions:
    """Return the options that views were installed with."""
    note = decode_note(existing_views[0])
    assert note is not None, "views are grouped by what their notes say"
    return ViewOptions(existing_views[0].schema if views.has_schemas else None, note.prefix, note.organization)


# definitions


def _define_views(views: SqlViews, preset: ViewPreset, options: ViewOptions) -> list[ViewDefinition]:
    table_schema = views.read_table_schema()
    compiler = ViewCompiler(preset, views.dialect, table_schema, options.organization)
    selects = {view.name: compiler.compile_select(view) for view in preset.views}
    fingerprint = make_fingerprint(list(selects.values()))
    return [
        ViewDefinition(
            options.schema or table_schema,
            _name_view(preset, name, options),
            name,
            select,
            encode_note(ViewNote(preset.name, name, options.organization, options.prefix, fingerprint)),
        )
        for name, select in selects.items()
    ]


def _name_view(preset: ViewPreset, name: str, options: ViewOptions) -> str:
    if options.prefix is not None:
        return f"{options.prefix}{name}"
    is_taken = options.schema is None and name.lower() in TABLES
    return f"{preset.name}_{name}" if is_taken else name


def _group_by_preset(existing_views: Sequence[DatabaseView]) -> dict[str, list[DatabaseView]]:
    groups: dict[str, list[DatabaseView]] = {}
    for view in existing_views:
        note = decode_note(view)
        if note is not None:
            groups.setdefault(note.preset, []).append(view)
    return groups


def _are_equal(existing_views: Sequence[DatabaseView], definitions: Sequence[ViewDefinition]) -> bool:
    defined = {(view.schema, view.name, view.note) for view in definitions}
    return {tuple(view) for view in existing_views} == defined


def _require_free_names(
    views: SqlViews, existing_views: Sequence[DatabaseView], definitions: Sequence[ViewDefinition]
) -> None:
    """Raise AlreadyExists if a view would have the name of a table or view that this preset did not create."""
    schema = definitions[0].schema
    own_names = {view.name.lower() for view in existing_views if view.schema == schema}
    taken_names = {name.lower() for name in views.list_names(schema)} - own_names
    for view in definitions:
        if view.name.lower() in taken_names:
            remedy = Remedy("pass {} or {}", Argument("prefix"), Argument("schema"))
            raise AlreadyExists(
                f"the database has a table, a view or an index {view.name!r} in schema {schema!r}",
                value=view.name,
                remedy=remedy if views.has_schemas else Remedy("pass {}", Argument("prefix")),
            )


# descriptions


def _describe_installed(views: SqlViews, preset: ViewPreset, existing_views: Sequence[DatabaseView]) -> PresetViews:
    if not existing_views:
        return _describe(preset, (), None, "not installed")
    options = _read_options(views, existing_views)
    definitions = _define_views(views, preset, options)
    state: Literal["installed", "outdated"] = "installed" if _are_equal(existing_views, definitions) else "outdated"
    return _describe(preset, definitions, options, state)


def _describe(
    preset: ViewPreset,
    definitions: Sequence[ViewDefinition],
    options: ViewOptions | None,
    state: Literal["installed", "outdated", "not installed"],
) -> PresetViews:
    names_by_original = {view.original_name: view.name for view in definitions}
    schema, organization = (options.schema, options.organization) if options else (None, None)
    return PresetViews(preset.name, preset.alias, preset.summary, state, schema, organization, names_by_original)
