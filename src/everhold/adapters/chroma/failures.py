"""The reasons why Chroma cannot answer. This package catches these errors, and the store answers instead."""


class CannotAnswer(Exception):
    """Chroma cannot answer now."""


class NotReady(CannotAnswer):
    """A collection is being opened or built, or has not applied the change feed."""


class Unavailable(CannotAnswer):
    """Chroma cannot be reached. Its content may be intact."""


class ConnectionBroken(Unavailable):
    """A server ended the connection before its answer was complete, as in a crash."""


class ServerRestarted(CannotAnswer):
    """The server has closed its connections, so its content may have changed and must be verified before use."""


class Damaged(CannotAnswer):
    """Chroma does not have what was written to it."""
