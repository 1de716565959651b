"""The command that serves older voice assistants over ZeroMQ."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from everhold.errors import MissingExtra
from everhold.interfaces.cli.call import Call, CommandResult, command, make_store_call
from everhold.interfaces.cli.interrupts import catch_stop_signals
from everhold.interfaces.shared.documents import Line, encode_json

app = typer.Typer()


@command(app, "serve-voice", make_store_call, creates_store=True)
def serve_voice(
    call: Call,
    bind: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS=PROTOCOL@ORG", help="What to answer where; docs/voice.md lists the protocols."),
    ] = None,
    publish: Annotated[
        str | None, typer.Option(metavar="ADDRESS@ORG", help="Where to publish an organization's events, or 'none'.")
    ] = None,
    curve_keys: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Encrypt connections, and accept clients with a key in DIR only.")
    ] = None,
) -> CommandResult:
    """Answer requests of older voice assistants over ZeroMQ, until Ctrl-C or SIGTERM."""
    try:
        from everhold.interfaces.voice.gateway import Gateway
        from everhold.interfaces.voice.serving import make_options
    except ModuleNotFoundError as error:
        if error.name != "zmq":
            raise
        raise MissingExtra("the voice gateway needs pyzmq", remedy="pip install 'everhold[voice]'") from error
    passed_options = {"bind": tuple(bind or ()) or None, "publish": publish, "curve_keys": curve_keys}
    changes = {name: value for name, value in passed_options.items() if value is not None}
    options = make_options(call.settings.voice.model_copy(update=changes))
    call.interface = "voice"
    with catch_stop_signals() as is_stopped:
        gateway = Gateway(call.engine, options)
        _print_addresses(gateway.addresses, as_json=call.as_json)
        gateway.run(is_stopped)
    return CommandResult(None, None)


def _print_addresses(addresses: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        line = encode_json(Line({"listening": addresses}))
    else:
        bindings = [f"{binding['protocol']}@{binding['organization']} on {binding['address']}" for binding in addresses]
        line = f"listening: {', '.join(bindings)}"
    print(line, flush=True)
