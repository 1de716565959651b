"""Commands on SQL views with the table names of other memory systems."""

import sys
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from everhold import PresetViews
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command, make_store_call

app = typer.Typer(help="SQL views with the table names of other memory systems, for existing reports.")

Preset = Annotated[str, typer.Argument(metavar="PRESET", help="A name or an alias from `everhold views list`.")]
Organization = Annotated[
    str | None,
    typer.Option(
        "--org",
        metavar="ID",
        help="Show the rows of this organization. Default: `default`, or all if the tables have an organization.",
    ),
]


@command(app, "list", make_store_call)
def list_views(call: Call) -> CommandResult:
    """Show the presets, and which of them are installed."""
    presets = call.engine.list_views()
    table = show.make_table("preset", "alias", "state", "what it is, and where")
    for preset in presets:
        table.add_row(preset.preset, preset.alias, preset.state, _describe(preset))
    return CommandResult({"presets": presets}, table)


def _describe(preset: PresetViews) -> Text:
    if not preset.views:
        return show.render_text(preset.summary)
    return show.render_text(f"{_describe_place(preset)}: {', '.join(preset.views.values())}")


def _describe_place(preset: PresetViews) -> str:
    rows = "all organizations" if preset.organization is None else f"organization {preset.organization!r}"
    return rows if preset.schema is None else f"schema {preset.schema}, {rows}"


@command(app, "install", make_store_call)
def install_views(
    call: Call,
    preset: Preset,
    organization: Organization = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Create the views in this schema. Default: the preset's name; not on SQLite."
        ),
    ] = None,
    prefix: Annotated[str | None, typer.Option(metavar="TEXT", help="Begin the name of each view with TEXT.")] = None,
) -> CommandResult:
    """Create the views of a preset; repeating it changes nothing."""
    views = call.engine.install_views(preset, organization=organization, schema=schema, prefix=prefix)
    table = show.make_table("table", "view")
    for original_name, name in views.views.items():
        table.add_row(original_name, name if views.schema is None else f"{views.schema}.{name}")
    heading = show.render_text(f"{views.preset}: views on {_describe_place(views)}")
    hint = Text(f"`everhold views script {views.preset}` prints the SQL that a report runs first", style="dim")
    if views.organization is not None and not call.engine.has_organization(views.organization):
        print(
            f"everhold: no organization {views.organization!r} in this store, so the views are empty", file=sys.stderr
        )
    return CommandResult({"views": views}, Group(heading, table, hint))


@command(app, "remove", make_store_call)
def remove_views(call: Call, preset: Preset) -> CommandResult:
    """Drop the views of a preset."""
    views = call.engine.remove_views(preset)
    return CommandResult({"views": views}, show.render_text(f"{views.preset}: views removed"))


@command(app, "script", make_store_call)
def write_script(call: Call, preset: Preset, organization: Organization = None) -> CommandResult:
    """Print the SQL that a report runs first, to find the views under their original names."""
    script = call.engine.write_view_script(preset, organization=organization)
    if not call.as_json:
        print(script, end="")  # not with Rich, which would break long lines
        return CommandResult(None, None)
    return CommandResult({"script": script}, None)
