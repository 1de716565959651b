"""Everything Everhold raises on purpose.

    EverholdError
    ├── InvalidInput          the caller must change what was passed
    │   ├── MalformedId
    │   ├── UnknownField
    │   └── EmptyQuery
    ├── NotFound              nothing of that name in this scope
    ├── SignInRefused         wrong address or password
    ├── Conflict              the caller must look again and decide
    │   ├── AlreadyExists
    │   ├── StaleVersion
    │   ├── BrokenReference
    │   └── IdempotencyMismatch
    ├── StoreError            the store could not do it; nothing was half-written
    │   ├── StoreBusy         retry
    │   ├── StoreUnavailable  retry
    │   ├── StoreFull
    │   ├── StoreReadOnly
    │   ├── StoreDamaged
    │   ├── BatchTooLarge
    │   └── SchemaTooNew
    ├── ModelError            the embedding model, or the language model
    │   ├── ModelNotFound
    │   ├── ModelDamaged
    │   └── ModelUnavailable   retry
    ├── FileError             a file could not be written; no part of it was left behind
    ├── InvalidSettings
    └── MissingExtra

A message states the fact, the value and the remedy. `retryable` says whether the same call may succeed later
without anybody changing anything.
"""

from typing import ClassVar


class EverholdError(Exception):
    """The root of the tree."""

    retryable: ClassVar[bool] = False


class InvalidInput(EverholdError, ValueError):
    """A value the engine refuses; nothing was written."""


class MalformedId(InvalidInput):
    """An id that no row can have."""


class UnknownField(InvalidInput):
    """A filter or an update names a field that does not exist."""


class EmptyQuery(InvalidInput):
    """A recall without a question."""


class NotFound(EverholdError, LookupError):
    """No live row of that name in this scope."""


class SignInRefused(EverholdError):
    """No such user, a wrong password, or a user who may not sign in; which of these is not told."""


class Conflict(EverholdError):
    """The write contradicts what is stored."""


class AlreadyExists(Conflict):
    """A key or a unique rule is taken. `table` and `rule` say which."""

    def __init__(self, message: str, *, table: str = "", rule: str = "") -> None:
        super().__init__(message)
        self.table = table
        self.rule = rule


class StaleVersion(Conflict):
    """The row has changed, or is gone, since it was read. `current_version` is its version now, if that is known."""

    def __init__(self, message: str, *, current_version: int | None = None) -> None:
        super().__init__(message)
        self.current_version = current_version


class BrokenReference(Conflict):
    """The row refers to one that does not exist."""


class IdempotencyMismatch(Conflict):
    """An idempotency key was used before for something else."""


class StoreError(EverholdError):
    """The store could not do it; nothing was half-written."""


class StoreBusy(StoreError):
    """Others held the store longer than the configured wait."""

    retryable = True


class StoreUnavailable(StoreError):
    """The store cannot be reached."""

    retryable = True


class StoreFull(StoreError):
    """No room left on the store's disk."""


class StoreReadOnly(StoreError):
    """The store was opened, or is kept, read-only."""


class StoreDamaged(StoreError):
    """What the store holds is not what was written."""


class BatchTooLarge(StoreError):
    """More operations than the store commits at once."""


class SchemaTooNew(StoreError):
    """The store was written by a later Everhold."""


class ModelError(EverholdError):
    """The embedding model."""


class ModelNotFound(ModelError):
    """No weights where they were looked for."""


class ModelDamaged(ModelError):
    """Weights that are not the published ones."""


class ModelUnavailable(ModelError):
    """The endpoint of a model does not answer."""

    retryable = True


class FileError(EverholdError, OSError):
    """A file could not be written; no part of it was left behind. `errno` is the system's code."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.errno = code


class InvalidSettings(EverholdError, ValueError):
    """A setting that is unknown or out of range."""


class MissingExtra(EverholdError, ImportError):
    """A driver that is not installed; the message names the extra."""
