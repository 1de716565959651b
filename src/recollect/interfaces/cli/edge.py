"""The process's edge: every error becomes one line and an exit code.

    0  done        1  it could not be done        2  what was typed must change        130  interrupted
"""

import json
import sys
import traceback
from collections.abc import Sequence

import typer

from recollect.errors import InvalidInput, InvalidSettings, RecollectError
from recollect.interfaces.cli.commands import app

FAILED, MISUSED, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and says how it went."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        done = typer.main.get_command(app)(given or ["--help"], prog_name="recollect", standalone_mode=False)
    except RecollectError as error:
        code = MISUSED if isinstance(error, InvalidInput | InvalidSettings) else FAILED
        return _failed(given, error, str(error), code, retryable=error.retryable)
    except typer.TyperException as error:
        return _failed(given, error, _usage(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        print(file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if "--debug" in _options(given):
            traceback.print_exc()
        said = f"unexpected {type(error).__name__}: {error}"
        hint = "" if "--debug" in _options(given) else "; add --debug to see where"
        return _failed(given, error, said + hint, FAILED)
    return done if isinstance(done, int) else 0


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "recollect"
    return f"{error.format_message().rstrip('.')}; see `{command} --help`"


def _failed(given: Sequence[str], error: Exception, message: str, code: int, *, retryable: bool = False) -> int:
    line = " ".join(message.split())
    if "--json" in _options(given):
        report = {"error": line, "kind": type(error).__name__, "retryable": retryable}
        print(json.dumps(report), file=sys.stderr)
    else:
        print(f"recollect: {line}".encode(errors="replace").decode(), file=sys.stderr)
    return code


def _options(given: Sequence[str]) -> Sequence[str]:
    """What was typed before `--`, after which everything is text."""
    return given[: given.index("--")] if "--" in given else given
