"""Verify the model's large files once per process, in the background.

Reading 180 MB takes longer than a first recall may wait, so at the start a file is trusted if neither its size nor its
times have changed since it was verified. That misses disk errors and programs that write to the disk directly. So every
process that runs for longer than a moment reads each file once. It reads what was loaded: the file is opened before it
is loaded, and afterwards its path must still lead to the same unchanged file.
"""

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path

from everhold.adapters.minilm.weights import Fingerprint
from everhold.background import BackgroundThread
from everhold.errors import ModelDamaged
from everhold.interrupts import GuardedEvent
from everhold.values import Value, value_class

logger = logging.getLogger(__name__)

_BLOCK = 4_000_000
# The seconds before the first file is read. Until then, a first recall needs the processors and the memory.
_DELAY = 1.0
_LOWEST_PRIORITY = 19
# How many seconds a report waits for the result; enough for a slow disk.
_PATIENCE = 120.0

# Files that this process has verified, so that several open models read them once.
_verified: set[tuple[Fingerprint, str]] = set()


@value_class
class FileCheck(Value):
    """An open file, the sha256 that it must have, and the remedy if it has another.

    `on_damage` is called if the file is damaged.
    """

    file: Path
    stream: FileIO
    sha256: str
    remedy: str
    on_damage: Callable[[], None] = lambda: None


class ModelVerification:
    """Reads files in a thread of low priority and remembers the first that is damaged."""

    def __init__(self, checks: Sequence[FileCheck]) -> None:
        self._checks = checks
        self._damage: str | None = None
        self._done = GuardedEvent()
        self._is_awaited = GuardedEvent()
        self._thread = BackgroundThread("everhold-model-verification", self._run, self._done)
        self._thread.start()

    def require_intact(self) -> None:
        """Raise ModelDamaged if a file has been found damaged."""
        if self._damage is not None:
            raise ModelDamaged.from_sentence(self._damage)

    def wait(self) -> str | None:
        """Wait until every file has been read, and return the problems of the damaged ones."""
        self._is_awaited.set()
        if not self._done.wait(_PATIENCE):
            return f"the model's files could not be read within {_PATIENCE:g} seconds; check the disk"
        if self._thread.failure is not None:
            return f"the model's files could not be verified: {self._thread.failure!r}; open the engine again"
        return self._damage

    def _run(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
        self._is_awaited.wait(_DELAY)
        try:
            for check in self._checks:
                self._damage = _find_damage(check)
                if self._damage is not None:
                    logger.error("%s", self._damage)
                    with suppress(OSError):
                        check.on_damage()
                    return
        finally:
            self._done.set()


def _find_damage(check: FileCheck) -> str | None:
    try:
        with check.stream as stream:
            fingerprint = Fingerprint.from_file(stream.fileno())
            if (fingerprint, check.sha256) in _verified:
                return None
            digest, block = hashlib.sha256(), bytearray(_BLOCK)
            while size := stream.readinto(block):
                digest.update(memoryview(block)[:size])
    except OSError as error:
        return f"{check.file} cannot be verified ({error.strerror}); {check.remedy}"
    if digest.hexdigest() != check.sha256:
        return f"{check.file} has the sha256 {digest.hexdigest()} instead of {check.sha256}; {check.remedy}"
    _verified.add((fingerprint, check.sha256))
    return None
