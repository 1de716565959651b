"""Choose the parts that settings add or replace: encryption, signed heads, the session cache."""

import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from everhold.adapters.address import read_file, read_scheme
from everhold.errors import MissingExtra
from everhold.model import DataKey
from everhold.ports.records import Records
from everhold.ports.search_indexes import SearchIndexes
from everhold.settings import Settings, read_variable
from everhold.stores import describe_place

if TYPE_CHECKING:
    from everhold.encryption.deps import Encryption
    from everhold.ports.log_heads import SignedHeads
    from everhold.ports.session_cache import SessionCache


def make_encryption(settings: Settings, records: Records) -> "Encryption | None":
    """Return the encryption of a store; None if the settings name no master key and nothing is encrypted.

    If a store contains encrypted content and no master key is set, reading or changing this content raises an error.
    """
    encryption_settings = settings.encryption
    has_keys = bool(records.scan(DataKey, None, limit=1, deleted=True))
    if encryption_settings is None and not has_keys:
        return None
    # Few stores are encrypted, and these take a while to import.
    from everhold.encryption.deps import Encryption
    from everhold.encryption.fields import choose_fields, list_encryptable_fields
    from everhold.encryption.recorded import read_recorded, record_fields
    from everhold.encryption.row_cipher import RowCipher

    recorded_names = list(read_recorded(records))
    # A store that was moved here has keys, but no record of the fields that they encrypt.
    possible_names = list_encryptable_fields() if has_keys and not recorded_names else recorded_names
    if encryption_settings is None:
        from everhold.encryption.missing_key import MissingDataKeys

        fields = choose_fields((), possible_names)
        return Encryption(RowCipher(MissingDataKeys(records), fields), records, is_missing=True)
    try:
        from everhold.adapters.encryption import MasterKeys, StoredDataKeys, read_master_key
    except ImportError as error:
        raise MissingExtra(
            f"cryptography is not installed ({error.name})", remedy="pip install 'everhold[encryption]'"
        ) from error
    fields = choose_fields(encryption_settings.fields, possible_names)
    current, *former = (
        read_master_key(source, read_variable)
        for source in (encryption_settings.master_key, *encryption_settings.former_keys)
    )
    keys = StoredDataKeys(records, MasterKeys(current, tuple(former)), per_user=encryption_settings.per_user)
    encryption = Encryption(RowCipher(keys, fields), records)
    unrecorded_names = sorted({*encryption.recorded_fields, *possible_names} - set(recorded_names))
    if unrecorded_names:
        record_fields(records, unrecorded_names)
    return encryption


def encrypt_store(
    encryption: "Encryption | None", records: Records, candidates: SearchIndexes
) -> tuple[Records, SearchIndexes]:
    """Return a store, and the replica that recall reads, with encrypted fields decrypted."""
    if encryption is None:
        return records, candidates
    from everhold.encryption.records import EncryptingRecords

    if candidates.records is not None:
        candidates = replace(candidates, records=EncryptingRecords(candidates.records, encryption.cipher))
    return EncryptingRecords(records, encryption.cipher), candidates


def make_heads(settings: Settings) -> "SignedHeads | None":
    """Return the signed heads of the access log; None without a key."""
    if settings.log.key is None and settings.log.key_file is None:
        return None
    from everhold.adapters.head_files import HeadFiles, read_key

    secret = settings.log.key.get_secret_value() if settings.log.key is not None else None
    key = read_key(settings.log.key_file, secret)
    return None if key is None else HeadFiles(settings.log.heads or _choose_heads_folder(settings), key)


def _choose_heads_folder(settings: Settings) -> Path:
    """Return the default folder for this store's heads, one for each store address."""
    place = describe_place(settings)
    if read_scheme(settings.storage) in ("sqlite", "duckdb"):
        place = str(read_file(settings.storage).path.resolve())
    return settings.data / "log-heads" / hashlib.sha256(place.encode()).hexdigest()[:32]


def make_session_cache(settings: Settings, records: Records, encryption: "Encryption | None") -> "SessionCache":
    """Return the session cache. If messages or sessions are encrypted, the cache also encrypts them."""
    cache = _choose_session_cache(settings, records)
    if encryption is None or {"messages", "sessions"}.isdisjoint(encryption.fields.read):
        return cache
    from everhold.encryption.session_cache import EncryptingSessionCache

    return EncryptingSessionCache(cache, encryption.cipher)


def _choose_session_cache(settings: Settings, records: Records) -> "SessionCache":
    chosen = settings.redis
    if settings.sessions == "auto":
        from everhold.adapters.in_process import InProcessSessions

        return InProcessSessions(ttl_seconds=chosen.ttl_seconds, history=chosen.history)
    from everhold.adapters.redis import RedisOptions, RedisSessions  # needs an extra
    from everhold.sessions.secret import load_secret

    options = {**chosen.model_dump(), **({"prefix": ""} if settings.layout == "julep" else {})}
    return RedisSessions(RedisOptions(settings.sessions, **options), partial(load_secret, records))
