"""The process's edge: every error becomes one line and an exit code.

0  done        1  it could not be done        2  what was typed must change        130  interrupted
"""

import json
import sys
import traceback
from collections.abc import Sequence

import typer

from everhold.interfaces.cli.commands import make_root
from everhold.interfaces.cli.failures import INTERRUPTED, describe, find_exit_code
from everhold.interfaces.shared.failures import Failure


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    options = argv[: argv.index("--")] if "--" in argv else argv
    try:
        exit_value = make_root()(argv or ["--help"], prog_name="everhold", standalone_mode=False)
    except typer.TyperException as error:
        from everhold.interfaces.cli.misuse import describe_misuse  # only a mistake needs it

        failure, code = describe_misuse(error, options), error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        failure, code = describe(error), find_exit_code(error)
        if not failure.expected and "--debug" in options:
            traceback.print_exc()
    else:
        return exit_value if isinstance(exit_value, int) else 0
    _print_failure(failure, as_json="--json" in options)
    return code


def _print_failure(failure: Failure, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(failure.document), file=sys.stderr)
    else:
        hint = "" if failure.expected else "; --debug shows where"
        print(f"everhold: {failure.message}{hint}", file=sys.stderr)
