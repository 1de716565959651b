"""A session cache in which encrypted fields stay encrypted."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from everhold.encryption.row_cipher import RowCipher
from everhold.errors import EncryptionError
from everhold.ports.session_cache import SessionCache, SessionKey, Step, Usage, WorkingMemory


class EncryptingSessionCache:
    """Delegates to another cache, which gets sessions and messages in their encrypted form."""

    def __init__(self, inner: SessionCache, cipher: RowCipher) -> None:
        self._inner = inner
        self._cipher = cipher

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def history(self) -> int:
        return self._inner.history

    def read(self, key: SessionKey) -> WorkingMemory | None:
        working = self._inner.read(key)
        if working is None:
            return None
        try:
            history = tuple(map(self._cipher.decrypt_row, working.history))
            return replace(working, session=self._cipher.decrypt_row(working.session), history=history)
        except EncryptionError:  # its key was destroyed or changed, so the entry is read from the records instead
            return None

    def write(self, key: SessionKey, working: WorkingMemory) -> None:
        history = tuple(map(self._cipher.encrypt_row, working.history))
        self._inner.write(key, replace(working, session=self._cipher.encrypt_row(working.session), history=history))

    def advance(self, key: SessionKey, step: Step) -> bool:
        message = None if step.message is None else self._cipher.encrypt_row(step.message)
        return self._inner.advance(key, replace(step, session=self._cipher.encrypt_row(step.session), message=message))

    def drop(self, keys: Sequence[SessionKey]) -> None:
        self._inner.drop(keys)

    def list_active(self, organization: str) -> set[str]:
        return self._inner.list_active(organization)

    def list_recent(self, organization: str, since: datetime) -> list[tuple[str, datetime]]:
        return self._inner.list_recent(organization, since)

    def clean(self, organization: str) -> int:
        return self._inner.clean(organization)

    def measure_usage(self) -> Usage | None:
        return self._inner.measure_usage()

    def find_problem(self) -> str | None:
        return self._inner.find_problem()

    def close(self) -> None:
        self._inner.close()
