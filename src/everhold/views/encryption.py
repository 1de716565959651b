"""The engine's verbs on keys. They import the modules that they need, because most processes use no keys."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import everhold
from everhold import clock
from everhold.arguments.checks import PathText
from everhold.arguments.verbs import check_verbs
from everhold.errors import Argument, InvalidInput, MasterKeyMissing, MissingExtra, Remedy
from everhold.model import Organization, Scope
from everhold.model.access import AccessEvent
from everhold.progress import ReportProgress, StepCounter, ignore_progress

if TYPE_CHECKING:
    from everhold.encryption.deps import Encryption
    from everhold.encryption.rewriting import RewritingDeps
    from everhold.parts import Parts


@check_verbs
class EncryptionVerbs:
    """Show and rotate the keys of a store."""

    _parts: "Parts"

    def keys(self) -> "everhold.KeyReport":
        """Return a report on which fields are encrypted with which keys. Keys are shown by their fingerprints only."""
        from everhold.encryption.status import describe_keys

        return describe_keys(self._parts.encryption)

    @staticmethod
    def create_master_key(path: PathText | Path) -> str:
        """Write a new master key to a file that only its owner can read, and return its fingerprint.

        Raise FileError if the file exists, because a lost master key would make data unreadable. Keep a copy of the
        file in another place.
        """
        try:
            from everhold.adapters.encryption import MasterKey, make_secret, write_master_key
        except ImportError as error:
            raise MissingExtra(
                f"cryptography is not installed ({error.name})", remedy="pip install 'everhold[encryption]'"
            ) from error
        secret = make_secret()
        write_master_key(Path(path), secret)
        return MasterKey(secret).fingerprint

    def rotate_keys(self, *, master_only: bool = False, progress: ReportProgress | None = None) -> "everhold.Rotated":
        """Wrap every data key with the current master key, create new data keys, and encrypt every row again.

        With `master_only`, data keys are only wrapped again, which takes little time. To change the master key, first
        set `encryption.master_key` to the new key and `encryption.former_keys` to the old key. An interrupted rotation
        continues when it is called again. All data can be read and written during a rotation. `progress` is called
        with the steps "wrapping", "creating" and "encrypting". Raise MasterKeyMissing if the engine has no master key.
        """
        from everhold.encryption.rotation import Rotated, finish_rotation, replace_keys, wrap_keys

        encryption, report = require_encryption(self._parts), progress or ignore_progress
        keys = encryption.rotating_keys
        wrapped = wrap_keys(encryption.stored, keys, StepCounter(report, "wrapping").add)
        if master_only:
            return Rotated(wrapped, 0, 0, 0, keys.master_fingerprint)
        replaced = replace_keys(encryption, keys, StepCounter(report, "creating").add)
        counter = StepCounter(report, "encrypting")
        unreadable = finish_rotation(make_rewriting_deps(self._parts, encryption, counter.add))
        clean_files(self._parts)
        self._note_rotation(replaced)
        return Rotated(wrapped, replaced, counter.done, unreadable, keys.master_fingerprint)

    def _note_rotation(self, replaced: int) -> None:
        """Add a line about a rotation of keys to the log of every organization."""
        for (organization,) in self._parts.records.columns(Organization, None, ("id",)):
            event = AccessEvent(Scope(organization=organization), "update", clock.now(), {"replaced keys": replaced})
            self._parts.access.add(event)


def require_decrypt(parts: "Parts", decrypt: bool) -> None:
    """Raise InvalidInput for an export of a store with encrypted fields, unless the caller asked to decrypt them."""
    if parts.encryption is not None and not decrypt:
        raise InvalidInput(
            "this store encrypts fields, and an export holds them in plain text",
            remedy=Remedy("pass {} and keep the file safe, or make a backup", Argument("decrypt", True)),
        )


def require_encryption(parts: "Parts") -> "Encryption":
    """Return the engine's encryption; raise MasterKeyMissing if it has no master key."""
    if parts.encryption is None or parts.encryption.is_missing:
        raise MasterKeyMissing(
            "the settings name no master key",
            remedy="set encryption.master_key; `everhold keys create` makes one",
        )
    return parts.encryption


def make_rewriting_deps(parts: "Parts", encryption: "Encryption", count: Callable[[int], None]) -> "RewritingDeps":
    """Return the parts that the rewriting of rows uses. `count` is called with the number of rewritten rows."""
    from everhold.encryption.rewriting import RewritingDeps
    from everhold.remember.chunks import make_chunks_or_words

    return RewritingDeps(encryption, lambda row: make_chunks_or_words([row], parts.write_deps.chunking)[0], count)


def clean_files(parts: "Parts") -> bool:
    """Remove the remains of purged and plain values from files now; return whether none are left."""
    from everhold.ports.erasure import maintain_files

    parts.clear_images()
    parts.write_deps.drop_cached_texts()
    return maintain_files(parts.records, parts.recall_deps.candidates.drop_files)
