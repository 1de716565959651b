"""The command group `ask`: a first word that is not a command begins a question."""

from typing import Any

from typer.core import TyperGroup

QUESTION = "question"
_HELP = ("-h", "--help")


class QuestionGroup(TyperGroup):
    """A group whose commands are named by the first word; any other first word begins a question."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the command before a question."""
        is_command = bool(args) and (args[0] in self.commands or args[0] in _HELP)
        return super().parse_args(ctx, args if is_command else [QUESTION, *args])
