"""Why Chroma does not answer. None of these leaves this package: the records answer instead."""


class Unfit(Exception):
    """Chroma cannot answer now."""


class Behind(Unfit):
    """It is being opened, built or fed."""


class Unavailable(Unfit):
    """It cannot be reached; what it holds may be well."""


class BrokenOff(Unavailable):
    """A server was reached and ended its answer in the middle, as one does that crashes."""


class Restarted(Unfit):
    """It has closed its connections, so it may not be what it was; it must be proved before it is asked."""


class Damaged(Unfit):
    """It does not hold what was written to it."""
