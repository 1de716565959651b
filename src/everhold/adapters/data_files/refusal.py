"""The error of the child process. It is sent to the parent as text."""


class Refusal(Exception):
    """A file that is not read: what is wrong with it, and what to do."""

    def __init__(self, fact: str, remedy: str) -> None:
        super().__init__(f"{fact}; {remedy}")
        self.fact = fact
        self.remedy = remedy
