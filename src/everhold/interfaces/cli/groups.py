"""Groups of options that several commands take: the fields of a memory, and filters."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.interfaces.cli.call import Call
from everhold.interfaces.shared.inputs import parse_object, parse_where
from everhold.model.memory import KINDS, Reach

if TYPE_CHECKING:
    from everhold.interfaces.shared.times import Direction

FOREVER = "never"
Included = Annotated[
    list[str] | None,
    typer.Option(
        metavar="REACH",
        help="Also shared memories: user, agent, session, project or organization.",
        autocompletion=lambda: list(Reach.__args__),
    ),
]
Namespaces = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="A namespace of memories. May be repeated: any of them.")
]


def list_kinds() -> list[str]:
    return list(KINDS)


def suggest_kinds(filters: Mapping[str, Any]) -> str:
    """Return a hint for the kinds of a filter that resemble a usual kind; kinds of the caller's own are allowed."""
    own = [kind for kind in filters.get("kind", ()) if kind not in KINDS]
    nearest = [close for kind in own for close in get_close_matches(kind, KINDS, n=1, cutoff=0.7)]
    return f"; did you mean --kind {' --kind '.join(nearest)}?" if nearest else ""


Kind = Annotated[str | None, typer.Option(metavar="KIND", help="What sort of memory: fact, preference, plan …",
                                          autocompletion=list_kinds)]  # fmt: skip
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A word to find it by; may be repeated.")]
Share = Annotated[float | None, typer.Option(metavar="0–1")]
Moment = Annotated[str | None, typer.Option(metavar="TIME")]
Object = Annotated[str | None, typer.Option(metavar="JSON")]
Word = Annotated[str | None, typer.Option(metavar="WORD")]
OnlySession = Annotated[
    str | None,
    typer.Option(
        metavar="session",
        help="Only memories of the --session, not all of the --user.",
        autocompletion=lambda: ["session"],
    ),
]
ExpectedVersion = Annotated[int | None, typer.Option(metavar="N", help="Refuse if the memory is at another version.")]


def read_memory_fields(
    call: Call,
    kind: Kind = None,
    namespace: Annotated[str | None, typer.Option(metavar="NAME", help="short-term, long-term or your own.")] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="Your own name for it.")] = None,
    priority: Annotated[int | None, typer.Option(metavar="1–10", help="The higher, the more important.")] = None,
    importance: Annotated[
        float | None, typer.Option(metavar="0–1", help="The priority as a number from 0 to 1.")
    ] = None,
    confidence: Share = None,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="When it expires, such as 7d.")] = None,
    valid_from: Moment = None,
    valid_to: Moment = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="When it happened.")] = None,
    speaker: Word = None,
    source_agent: Word = None,
    alias: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Another name; may be repeated.")] = None,
    pinned: Annotated[bool | None, typer.Option("--pinned/--not-pinned", help="Always part of the context.")] = None,
    content: Object = None,
    provenance: Object = None,
    metadata: Object = None,
) -> dict[str, Any]:
    """Return the fields that were passed; a time of `never` is None."""
    moments: dict[str, tuple[str, str | None, Direction | None]] = {
        "expires_at": ("--expires", expires, "ahead"),
        "valid_from": ("--valid-from", valid_from, None),
        "valid_to": ("--valid-to", valid_to, "ahead"),
        "occurred_at": ("--at", at, None),
    }
    objects = {"content": content, "provenance": provenance, "metadata": metadata}
    others = {"kind": kind, "namespace": namespace, "key": key, "priority": priority, "importance": importance,
              "confidence": confidence,
              "speaker": speaker, "source_agent": source_agent, "aliases": alias or None, "pinned": pinned}  # fmt: skip
    return {
        **{name: value for name, value in others.items() if value is not None},
        **{name: None if moment[1] == FOREVER else call.parse_moment(*moment)
           for name, moment in moments.items() if moment[1] is not None},
        **{name: parse_object(written, f"--{name}") for name, written in objects.items() if written is not None},
    }  # fmt: skip


def read_identity(
    call: Call,
    tag: Tags = None,
    own_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Your own id for it.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Your key for this write: a second call with it adds nothing.")
    ] = None,
    created_at: Annotated[str | None, typer.Option(metavar="TIME", help="When it was made, for imports.")] = None,
) -> dict[str, Any]:
    """Return the fields that only a new memory takes."""
    made_at = call.parse_moment("--created-at", created_at)
    given = {"tags": tag or None, "id": own_id, "idempotency_key": idempotency_key, "created_at": made_at}
    return {name: value for name, value in given.items() if value is not None}


def read_filters(
    call: Call,
    kind: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="May be repeated: any of them.", autocompletion=list_kinds)
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="May be repeated: all of them.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUE|JSON",
            help="Also != < <= > >= and ~ (contains), such as metadata.city=Paris; or JSON with and, or, not.",
        ),
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="TIME", help="At that time or later, such as 'yesterday'.")
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="Before that time.")] = None,
    only: OnlySession = None,
) -> dict[str, Any]:
    """Return the filters that were passed, as the verbs take them."""
    given = {
        "kind": kind or None,
        "tags": tag or None,
        "where": parse_where(where, call.zone, "--where") if where else None,
        "after": call.parse_moment("--after", after, "ago"),
        "before": call.parse_moment("--before", before, "ago"),
        "only": only,
    }
    return {name: value for name, value in given.items() if value is not None}
