"""The error of the child process. It is sent to the parent as text."""


class Refusal(Exception):
    """Raised if a file is not read: `fact` says why, and `remedy` what the user can do."""

    def __init__(self, fact: str, remedy: str) -> None:
        super().__init__(f"{fact}; {remedy}")
        self.fact = fact
        self.remedy = remedy
