"""The exceptions that Everhold raises.

    EverholdError
    ├── InvalidInput          the caller must change what was passed
    │   ├── MalformedId
    │   ├── UnknownField
    │   ├── EmptyQuery
    │   ├── InvalidArguments  of a tool; `faults` lists each
    │   ├── StatementRefused
    │   ├── StoreMissing
    │   └── UnreadableFile
    ├── NotFound              nothing of that name in this scope
    ├── SignInRefused         wrong address or password
    ├── Conflict              the caller must look again and decide
    │   ├── AlreadyExists
    │   ├── StaleVersion
    │   ├── BrokenReference
    │   └── IdempotencyMismatch
    ├── StoreError            the store could not carry out the call; nothing was half-written
    │   ├── StoreBusy         retry
    │   ├── StoreUnavailable  retry
    │   ├── StoreFull
    │   ├── StoreReadOnly
    │   ├── StoreDamaged
    │   ├── BatchTooLarge
    │   └── SchemaTooNew
    ├── EncryptionError       encrypted content could not be read or written; nothing was changed
    │   ├── MasterKeyMissing
    │   ├── MasterKeyWrong
    │   ├── DataKeyMissing
    │   ├── DataKeyDestroyed
    │   └── EnvelopeDamaged
    ├── ModelError            the embedding model, or the language model
    │   ├── ModelNotFound
    │   ├── ModelDamaged
    │   └── ModelUnavailable   retry
    ├── QueryError            a query on uploaded or connected data
    │   ├── QueryFailed
    │   ├── QueryTimeout
    │   ├── QueryMemoryExceeded
    │   ├── ResultTooLarge
    │   └── DataUnavailable    retry
    ├── FileError             a file could not be written; no part of it was left behind
    ├── StepFailed            a step of a run failed when it was recorded
    ├── InvalidSettings
    └── MissingExtra

An error has three parts: `fact`, what is wrong; `value`, what was refused, if one value was; and `remedy`, what to do.
`str(error)` is "fact; remedy". `retryable` says whether the same call may succeed later without any change. A value is
shortened, and is never a secret, the text of a memory or a question.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from everhold import error_values

format_value = error_values.format_value


@dataclass(frozen=True)
class Verb:
    """A verb that a remedy names, such as `list()`."""

    name: str


@dataclass(frozen=True)
class Argument:
    """An argument that a remedy names; with a value, the argument set to that value."""

    name: str
    value: Any = None


def spell_for_library(reference: Verb | Argument) -> str:
    """Return a verb or an argument as Python code spells it."""
    if isinstance(reference, Verb):
        return f"{reference.name}()"
    return reference.name if reference.value is None else f"{reference.name}={format_value(reference.value)}"


class Remedy:
    """The action that the caller can take. Each `{}` of the text stands for a verb or an argument, which every
    interface spells in its own way: `Remedy("pass {}", Argument("overwrite", True))` is "pass overwrite=True" in the
    library and "pass --overwrite" on the command line."""

    def __init__(self, text: str, *references: Verb | Argument) -> None:
        self.text = text
        self.references = references

    def render(self, spell: Callable[[Verb | Argument], str]) -> str:
        """Return the remedy in the words of an interface."""
        return self.text.format(*map(spell, self.references)) if self.references else self.text

    def __str__(self) -> str:
        return self.render(spell_for_library)


class EverholdError(Exception):
    """The base class of all errors."""

    retryable: ClassVar[bool] = False
    default_remedy: ClassVar[str] = ""

    def __init__(self, fact: str, *, value: Any = None, remedy: str | Remedy = "") -> None:
        super().__init__(fact)
        self.fact = fact
        self.value = error_values.shorten_value(value)
        self.remedy = remedy if isinstance(remedy, Remedy) else Remedy(remedy or self.default_remedy)

    @classmethod
    def from_sentence(cls, sentence: str, value: Any = None) -> Self:
        """Return the error for a sentence "fact; remedy", as validators, reports and other processes pass it."""
        fact, _, remedy = sentence.rpartition("; ")
        return cls(fact or remedy, value=value, remedy=remedy if fact else "")

    def __str__(self) -> str:
        return self.render(spell_for_library)

    def render(self, spell: Callable[[Verb | Argument], str]) -> str:
        """Return the error as one sentence in the words of an interface."""
        remedy = self.remedy.render(spell)
        return f"{self.fact}; {remedy}" if remedy else self.fact


class InvalidInput(EverholdError, ValueError):
    """A value the engine refuses; nothing was written."""


class MalformedId(InvalidInput):
    """An id that no row can have."""


class UnknownField(InvalidInput):
    """A filter or an update names a field that does not exist."""


class EmptyQuery(InvalidInput):
    """A recall without a question."""


@dataclass(frozen=True)
class ArgumentFault:
    """A fault of one argument of a tool: the argument's path, such as `filters[0].price`, the fact, and the remedy."""

    path: str
    fact: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.fact}; {self.remedy}"


class InvalidArguments(InvalidInput):
    """Arguments that do not fit the schema of a tool. `faults` has every fault, in the order of the schema."""

    def __init__(self, fact: str, *, faults: tuple[ArgumentFault, ...], remedy: str | Remedy = "") -> None:
        super().__init__(fact, remedy=remedy)
        self.faults = faults


class StatementRefused(InvalidInput):
    """A statement that is not known to be harmless; it was not run."""


class StoreMissing(InvalidInput):
    """The store is a file that does not exist, and was not to be created."""


class UnreadableFile(InvalidInput):
    """A data file is damaged, contains no table, or takes too much memory or time to read. Nothing was stored."""


class NotFound(EverholdError, LookupError):
    """No live row of that name in this scope."""


class SignInRefused(EverholdError):
    """The user does not exist or may not sign in, or the password is wrong. The error does not reveal which is true."""

    default_remedy = "check both"


class Conflict(EverholdError):
    """The write contradicts what is stored."""


class AlreadyExists(Conflict):
    """A key or a unique rule is taken. `table` and `rule` say which."""

    default_remedy = "use another, or change the one that is there"

    def __init__(
        self, fact: str, *, value: Any = None, remedy: str | Remedy = "", table: str = "", rule: str = ""
    ) -> None:
        super().__init__(fact, value=value, remedy=remedy)
        self.table = table
        self.rule = rule


class StaleVersion(Conflict):
    """The row was changed or deleted after it was read. `current_version` is its present version, if known."""

    default_remedy = "read it again and retry"

    def __init__(
        self, fact: str, *, value: Any = None, remedy: str | Remedy = "", current_version: int | None = None
    ) -> None:
        super().__init__(fact, value=value, remedy=remedy)
        self.current_version = current_version


class BrokenReference(Conflict):
    """The row refers to a row that does not exist."""


class IdempotencyMismatch(Conflict):
    """An idempotency key was used before for something else."""


class StoreError(EverholdError):
    """The store could not carry out the call; nothing was half-written."""


class StoreBusy(StoreError):
    """Other processes or threads blocked the store longer than the configured waiting time."""

    retryable = True
    default_remedy = "try again"


class StoreUnavailable(StoreError):
    """The store cannot be reached."""

    retryable = True
    default_remedy = "check that it runs, then try again"


class StoreFull(StoreError):
    """No room left on the store's disk."""


class StoreReadOnly(StoreError):
    """The store was opened read-only, or its files can only be read."""


class StoreDamaged(StoreError):
    """The content of the store differs from the content that was written."""


class BatchTooLarge(StoreError):
    """The commit has more operations than the store can commit together."""


class SchemaTooNew(StoreError):
    """The store was written by a later Everhold."""


class EncryptionError(EverholdError):
    """Encrypted content could not be read or written. Nothing was changed or decrypted."""


class MasterKeyMissing(EncryptionError):
    """The master key cannot be read, or the settings name no key although the store contains encrypted content."""

    default_remedy = "set encryption.master_key to the store's master key"


class MasterKeyWrong(EncryptionError):
    """The store's data keys were wrapped by a different master key."""

    default_remedy = "set encryption.master_key to the key with that fingerprint; `everhold keys` lists fingerprints"


class DataKeyMissing(EncryptionError):
    """Content was encrypted with a data key that the store does not have."""

    default_remedy = "restore the table data_keys from a backup of this store"


class DataKeyDestroyed(EncryptionError):
    """Content was encrypted with a data key that was destroyed on purpose. It cannot be read any more."""

    default_remedy = "delete the row; its user was erased"


class EnvelopeDamaged(EncryptionError):
    """Encrypted content was changed, or copied from another row or column."""

    default_remedy = "restore the row from a backup, or delete it"


class ModelError(EverholdError):
    """An error of an embedding model or a language model."""


class ModelNotFound(ModelError):
    """The weights of the model are in none of the searched places."""


class ModelDamaged(ModelError):
    """The weights of the model are not the published ones."""


class ModelUnavailable(ModelError):
    """The endpoint of a model does not answer."""

    retryable = True


class QueryError(EverholdError):
    """An error of a query on uploaded or connected data."""


class QueryFailed(QueryError):
    """The engine of the data could not run the statement."""


class QueryTimeout(QueryError):
    """The query was ended at its limit of time."""

    default_remedy = "ask for less, or raise the limit"


class QueryMemoryExceeded(QueryError):
    """The query was ended at its limit of memory."""

    default_remedy = "ask for less, or raise the limit"


class ResultTooLarge(QueryError):
    """The result has more bytes than allowed."""

    default_remedy = "select fewer columns or rows, or raise the limit"


class DataUnavailable(QueryError):
    """The file or the database with the data cannot be read."""

    retryable = True
    default_remedy = "check that it is there, then try again"


class FileError(EverholdError, OSError):
    """A file could not be written; no part of it was left behind. `errno` is the system's code."""

    def __init__(self, fact: str, *, value: Any = None, remedy: str | Remedy = "", code: int | None = None) -> None:
        super().__init__(fact, value=value, remedy=remedy)
        self.errno = code


class StepFailed(EverholdError):
    """A step of a run failed with an error of the program's own when it was recorded."""


class InvalidSettings(EverholdError, ValueError):
    """A setting that is unknown or out of range."""


class MissingExtra(EverholdError, ImportError):
    """A driver that is not installed; the message names the extra."""
