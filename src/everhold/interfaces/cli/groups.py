"""Groups of options that several commands take: the fields of a memory, and filters.

A search parses its options before the embedding model begins to load. So this module imports the entities, and what
reads them, only where an option needs them.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from everhold.interfaces.cli.call import Call

if TYPE_CHECKING:
    from everhold.interfaces.shared.times import Direction


def list_kinds() -> list[str]:
    from everhold.model.memory import KINDS

    return list(KINDS)


def list_reaches() -> list[str]:
    from everhold.model.memory import Reach

    return list(get_args(Reach))


def suggest_kinds(filters: Mapping[str, Any]) -> str:
    """Return a hint that names the usual kinds that other kinds in a filter resemble. Callers may use any kind."""
    kinds = list_kinds()
    unusual_kinds = [kind for kind in filters.get("kind", ()) if kind not in kinds]
    nearest = [close for kind in unusual_kinds for close in get_close_matches(kind, kinds, n=1, cutoff=0.7)]
    return f"; did you mean --kind {' --kind '.join(nearest)}?" if nearest else ""


FOREVER = "never"
ANY_KIND = "Only this kind. Repeat it for several kinds, of which a memory must have one."
ALL_TAGS = "Only with this tag. Repeat it for several tags, of which a memory must have all."
Included = Annotated[
    list[str] | None,
    typer.Option(
        metavar="REACH",
        help="Also memories that are shared with the user, agent, session, project or organization.",
        autocompletion=list_reaches,
    ),
]
Namespaces = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Only memories of this namespace. Repeat it for more.")
]


Kind = Annotated[str | None, typer.Option(metavar="KIND", help="The kind of memory: fact, preference, plan …",
                                          autocompletion=list_kinds)]  # fmt: skip
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag of the memory. Repeat it for more.")
]
Namespace = Annotated[
    str | None, typer.Option(metavar="NAME", help="Its namespace: short-term, long-term or your own.")
]
Key = Annotated[str | None, typer.Option(metavar="KEY", help="Your own name for the memory, unique in its scope.")]
Priority = Annotated[int | None, typer.Option(metavar="1–10", help="Its importance, from 1 (lowest) to 10 (highest).")]
Importance = Annotated[
    float | None, typer.Option(metavar="0–1", help="Its importance from 0 to 1, instead of --priority.")
]
Expires = Annotated[str | None, typer.Option(metavar="TIME", help="When the memory expires, such as 7d.")]
OccurredAt = Annotated[str | None, typer.Option(metavar="TIME", help="When the event happened.")]
Aliases = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Another name by which questions may call it. Repeat it for more."),
]
Pinned = Annotated[
    bool | None, typer.Option("--pinned/--not-pinned", help="Whether every context includes the memory.")
]
Confidence = Annotated[float | None, typer.Option(metavar="0–1", help="How certain the memory is.")]
ValidFrom = Annotated[str | None, typer.Option(metavar="TIME", help="When the memory begins to be true.")]
ValidTo = Annotated[str | None, typer.Option(metavar="TIME", help="When the memory stops being true.")]
Speaker = Annotated[str | None, typer.Option(metavar="WORD", help="Who said it.")]
SourceAgent = Annotated[str | None, typer.Option(metavar="WORD", help="The agent that supplied it.")]
Content = Annotated[str | None, typer.Option(metavar="JSON", help="Structured content: a JSON object.")]
Provenance = Annotated[str | None, typer.Option(metavar="JSON", help="Where it comes from: a JSON object.")]
Metadata = Annotated[str | None, typer.Option(metavar="JSON", help="Fields of your own: a JSON object.")]
Object = Annotated[str | None, typer.Option(metavar="JSON")]
Word = Annotated[str | None, typer.Option(metavar="WORD")]
OnlySession = Annotated[
    str | None,
    typer.Option(
        metavar="session",
        help="Search only the --session instead of all data of the --user.",
        autocompletion=lambda: ["session"],
    ),
]
Superseded = Annotated[bool, typer.Option("--include-superseded", help="Also search memories that were replaced.")]
ExpectedVersion = Annotated[int | None, typer.Option(metavar="N", help="Fail if the memory has another version.")]


def read_memory_fields(
    call: Call,
    kind: Kind = None,
    namespace: Namespace = None,
    key: Key = None,
    priority: Priority = None,
    importance: Importance = None,
    confidence: Confidence = None,
    expires: Expires = None,
    valid_from: ValidFrom = None,
    valid_to: ValidTo = None,
    at: OccurredAt = None,
    speaker: Speaker = None,
    source_agent: SourceAgent = None,
    alias: Aliases = None,
    pinned: Pinned = None,
    content: Content = None,
    provenance: Provenance = None,
    metadata: Metadata = None,
) -> dict[str, Any]:
    """Return the fields that were passed. The time `never` means None."""
    # For each field, its option, the text that was passed, and the direction of a plain duration such as 7d.
    moments: dict[str, tuple[str, str | None, Direction | None]] = {
        "valid_from": ("--valid-from", valid_from, None),
        "valid_to": ("--valid-to", valid_to, "ahead"),
        "occurred_at": ("--at", at, None),
    }
    object_options = {"content": content, "provenance": provenance, "metadata": metadata}
    plain_options = {"kind": kind, "namespace": namespace, "key": key, "priority": priority, "importance": importance,
              "confidence": confidence,
              "speaker": speaker, "source_agent": source_agent, "aliases": alias or None, "pinned": pinned}  # fmt: skip
    expiry = {} if expires is None else {"expires_at": None if expires == FOREVER else call.parse_expiry(expires)}
    return {
        **{name: value for name, value in plain_options.items() if value is not None},
        **expiry,
        **{name: None if text == FOREVER else call.parse_moment(option, text, durations)
           for name, (option, text, durations) in moments.items() if text is not None},
        **{name: _parse_object(text, name) for name, text in object_options.items() if text is not None},
    }  # fmt: skip


def _parse_object(text: str, name: str) -> dict[str, Any]:
    from everhold.interfaces.shared.inputs import parse_object

    return parse_object(text, f"--{name}")


def read_identity(
    call: Call,
    tag: Tags = None,
    own_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Your own id for the memory.")] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Your key for this write: a second call with this key adds nothing."),
    ] = None,
    created_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When the memory was first stored, for imports.")
    ] = None,
) -> dict[str, Any]:
    """Return the fields that only a new memory takes."""
    moment = call.parse_moment("--created-at", created_at)
    fields = {"tags": tag or None, "id": own_id, "idempotency_key": idempotency_key, "created_at": moment}
    return {name: value for name, value in fields.items() if value is not None}


def read_filters(
    call: Call,
    kind: Annotated[list[str] | None, typer.Option(metavar="KIND", help=ANY_KIND, autocompletion=list_kinds)] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help=ALL_TAGS)] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUE|JSON",
            help="A condition: metadata.city=Paris, with = != < <= > >= or ~ (contains); or JSON with and, or, not.",
        ),
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stored at this time or later, such as 'yesterday'.")
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="Stored before this time.")] = None,
    only: OnlySession = None,
) -> dict[str, Any]:
    """Return the filters that were passed, as the verbs take them."""
    filters = {
        "kind": kind or None,
        "tags": tag or None,
        "where": _parse_where(call, where) if where else None,
        "after": call.parse_moment("--after", after, "ago"),
        "before": call.parse_moment("--before", before, "ago"),
        "only": only,
    }
    return {name: value for name, value in filters.items() if value is not None}


def _parse_where(call: Call, where: Sequence[str]) -> dict[str, Any]:
    from everhold.interfaces.shared.inputs import parse_where

    return parse_where(where, call.zone, "--where")
