"""Files that only their owner can read or change, and that are never seen half-written."""

import os
import tempfile
from pathlib import Path


def private_folder(folder: Path) -> Path:
    """The folder, made if need be. An OSError if it is another user's: what is in it will be trusted."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write_atomically(file: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
