"""The verb that erases a user: rows, keys, derived data and backups, with a proof."""

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import everhold
from everhold import clock
from everhold.arguments.checks import Identifier
from everhold.arguments.verbs import check_verbs
from everhold.errors import EverholdError, NotFound
from everhold.model import Scope
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.progress import ReportProgress, StepCounter, ignore_progress
from everhold.retries import RetryPolicy, TryAgain, retry
from everhold.views.account_acts import AccountActs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from everhold.model import UserErasure
    from everhold.parts import Parts
    from everhold.tenancy.erasure import ErasedPlace, ErasureProof

# Other writers may add rows of the user while these are removed. After so many passes, the proof lists what remains.
_MAX_PASSES = 3
# How long to wait for readers that keep the files of the store open.
_READER_RETRIES = RetryPolicy(seconds=5, first_pause=0.05, longest_pause=1)


@check_verbs
class ErasureVerbs(AccountActs):
    """The verb that erases a user and returns a proof."""

    def erase(
        self,
        user: Identifier,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        preview: bool = False,
        progress: ReportProgress | None = None,
    ) -> "everhold.ErasureProof":
        """Erase a user everywhere, and return a proof of what was removed where.

        The user's rows are purged and the user's data keys destroyed. Indexes, caches, files and known backups are
        cleaned. It cannot be undone. Data that the user writes during the erasure is erased too. With `preview`, only
        count the rows. An erasure that was interrupted, or that did not reach everything, continues when it is called
        again. `progress` is called with the steps "rows", "keys", "files" and "backups". Raise NotFound if there is no
        such user.
        """
        scope = Scope(organization=organization, user=user)
        with self._log_failure(scope, "delete", "user"):
            rows = _count_rows(self._parts, organization, user)
            if preview:
                self._note_account(scope, "read", "user", {"preview": sum(rows.values())})
                return _make_preview(organization, user, rows)
            return self._erase(scope, user, rows, progress or ignore_progress)

    def _erase(self, scope: Scope, user: str, rows: dict[str, int], report: ReportProgress) -> "ErasureProof":
        """Erase a user from the store, its files and the backups, and return the proof."""
        from everhold.tenancy import erasure as erasures

        parts, organization, counter = self._parts, scope.organization, StepCounter(report, "rows")
        entry = erasures.begin_erasure(parts.records, organization, user, _list_keys(parts, organization, user))
        key_ids = self._remove_rows_and_keys(scope, user, entry)
        counter.add(sum(rows.values()))
        StepCounter(report, "keys").add(len(key_ids))
        places = _clean_places(parts)
        StepCounter(report, "files").add(len(places))
        backups = parts.backup_targets.erase_user(organization, user, key_ids)
        StepCounter(report, "backups").add(len(backups))
        now = clock.now()
        proof = erasures.ErasureProof(
            erasure_id=entry.id,
            organization=organization,
            user=user,
            began_at=entry.created_at.isoformat(),
            completed_at=now.isoformat(),
            rows=rows,
            keys=key_ids,
            places=places,
            backups=backups,
            remaining=_find_remaining(parts, organization, user),
        )
        proof = replace(proof, digest=proof.compute_digest())
        line = self._make_line(scope, "delete", "user", {"erased": entry.id, "digest": proof.digest})
        erasures.end_erasure(parts.records, entry, proof, line, now)
        return proof

    def _remove_rows_and_keys(self, scope: Scope, user: str, entry: "UserErasure") -> list[str]:
        """Purge the user's rows and destroy the user's keys. Repeat this while other writers add rows of the user.

        Return the ids of the destroyed keys.
        """
        from everhold.tenancy.erasure import add_key_ids
        from everhold.views.deletion import delete_rows

        parts, destroyed = self._parts, set(entry.key_ids)
        for _ in range(_MAX_PASSES):
            if _has_user(parts, scope.organization, user):
                line = self._make_line(scope, "delete", "user", {"hard": True, "erased": entry.id})
                with _tolerate_unreadable(parts):
                    delete_rows(parts, "user", scope.organization, user, hard=True, line=line)
            # The ids are stored before the keys are destroyed, so that a reader of an old envelope gets the reason.
            destroyed |= set(_list_keys(parts, scope.organization, user))
            add_key_ids(parts.records, entry, destroyed)
            if parts.encryption is not None:
                destroyed |= set(parts.encryption.keys.destroy(scope.organization, user))
            if not _has_user(parts, scope.organization, user):
                break
        add_key_ids(parts.records, entry, destroyed)
        return sorted(destroyed)


def _has_user(parts: "Parts", organization: str, user: str) -> bool:
    from everhold.model import User

    return bool(parts.records.get(User, organization, [user], deleted=True))


def _count_rows(parts: "Parts", organization: str, user: str) -> dict[str, int]:
    from everhold.tenancy.deletion import count_rows_under
    from everhold.tenancy.erasure import find_erasures

    try:
        return count_rows_under(parts.records, "user", organization, user, deleted=True)
    except NotFound:
        if any(entry.completed_at is None for entry in find_erasures(parts.records, organization, user)):
            return {}  # an erasure has removed the rows, and was interrupted or did not reach everything
        raise


def _make_preview(organization: str, user: str, rows: dict[str, int]) -> "ErasureProof":
    from everhold.tenancy.erasure import ErasureProof

    return ErasureProof("", organization, user, "", "", rows, preview=True)


def _list_keys(parts: "Parts", organization: str, user: str) -> list[str]:
    if parts.encryption is None:
        return []
    return [key.id for key in parts.encryption.keys.list_keys(organization, user)]


def _tolerate_unreadable(parts: "Parts") -> "AbstractContextManager[None]":
    """Return a context in which content that cannot be decrypted is read as empty, so that it can be erased too."""
    if parts.encryption is None:
        return nullcontext()
    from everhold.encryption.row_cipher import read_unreadable_as_empty

    return read_unreadable_as_empty()


def _clean_store_files(parts: "Parts") -> bool:
    """Remove what was purged from the store's files; return False if a reader keeps them open.

    A reader that ends soon, such as a background thread, is waited for.
    """
    from everhold.views.encryption import clean_files

    def clean(_: int) -> None:
        if not clean_files(parts):
            raise TryAgain("a reader has the files open")

    try:
        retry("clean the files of the store", clean, _READER_RETRIES)
    except TryAgain:
        return False
    return True


def _clean_places(parts: "Parts") -> "Sequence[ErasedPlace]":
    """Remove purged data from indexes, caches and files. Return each place and whether it could be cleaned."""
    from everhold.tenancy.erasure import ErasedPlace

    cache_problem = parts.session_deps.cache.find_problem()
    cache_name = parts.session_deps.cache.name
    places = [ErasedPlace("images", "erased", "dropped from memory; built again from the records")]
    is_clean = _clean_store_files(parts)
    traits = parts.records.traits
    detail = traits.erasure_note or "rewritten without purged rows"
    status = "erased" if not traits.erasure_note else "follow-up"
    if not is_clean:
        status, detail = "unreached", "a reader is still open; run `everhold maintain`"
    places.append(ErasedPlace(f"store files ({traits.name})", status, detail))
    places.append(ErasedPlace("word and vector indexes", "erased", "dropped or changed with the rows"))
    places.append(_rebuild_outside_index(parts))
    detail = cache_problem or "sessions of the user were dropped"
    places.append(ErasedPlace(f"session cache ({cache_name})", _name_status(cache_problem is None), detail))
    places.append(ErasedPlace("blobs, workspaces and archives", "erased", "files that no row names were deleted"))
    return places


def _rebuild_outside_index(parts: "Parts") -> "ErasedPlace":
    from everhold.tenancy.erasure import ErasedPlace

    if parts.settings.vectors == "auto":
        return ErasedPlace("Chroma", "none", "the store has its own index")
    try:
        parts.recall_deps.candidates.rebuild()
    except EverholdError as error:
        return ErasedPlace("Chroma", "unreached", str(error))
    return ErasedPlace("Chroma", "erased", "built again from the records")


def _name_status(is_erased: bool) -> str:
    return "erased" if is_erased else "unreached"


def _find_remaining(parts: "Parts", organization: str, user: str) -> dict[str, int]:
    """Count the rows of the user that were not removed, by table."""
    from everhold.tenancy.deletion import count_rows_under
    from everhold.tenancy.erasure import count_chunks

    try:
        rows = count_rows_under(parts.records, "user", organization, user, deleted=True)
    except NotFound:
        rows = {}
    return {**rows, **count_chunks(parts.records, organization, user)}
