"""Encryption with AES-256-GCM, and where master keys are read from."""

from everhold.adapters.encryption.cipher import Cipher, make_secret
from everhold.adapters.encryption.master_keys import MasterKey, read_master_key, write_master_key
from everhold.adapters.encryption.stored_keys import MasterKeys, StoredDataKeys

__all__ = [
    "Cipher",
    "MasterKey",
    "MasterKeys",
    "StoredDataKeys",
    "make_secret",
    "read_master_key",
    "write_master_key",
]
