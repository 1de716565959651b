"""Blobs have the digest of their content as address, are verified when read, and belong to one organization."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from everhold.adapters.files import FileBlobs
from everhold.errors import (
    InvalidInput,
    InvalidSettings,
    MissingExtra,
    NotFound,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
)  # fmt: skip


@pytest.fixture(params=["folder", "memory"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> FileBlobs:
    return FileBlobs(str(tmp_path / "blobs") if request.param == "folder" else f"memory://{tmp_path.name}/blobs")


@pytest.mark.parametrize("content", [b"", b"\0", b"text", b"x" * 3_000_000])
def test_a_stored_blob_is_read_back(blobs: FileBlobs, content: bytes) -> None:
    address = blobs.put("acme", content)
    assert address == hashlib.sha256(content).hexdigest() == blobs.put("acme", content)
    assert blobs.get("acme", address) == content
    assert list(blobs.list_addresses("acme")) == [address]


def test_each_organization_has_blobs_of_its_own(blobs: FileBlobs) -> None:
    address = blobs.put("acme", b"secret")
    for other in ("acme2", "ac", "..", ".", "acme/..", "%61cme", "ACME", ""):
        with pytest.raises(NotFound):
            blobs.get(other, address)
        assert list(blobs.list_addresses(other)) == []


def test_a_deleted_blob_is_gone_and_may_be_stored_again(blobs: FileBlobs) -> None:
    address = blobs.put("acme", b"once")
    blobs.delete("acme", address)
    blobs.delete("acme", address)
    with pytest.raises(NotFound, match=address):
        blobs.get("acme", address)
    assert blobs.get("acme", blobs.put("acme", b"once")) == b"once"


@pytest.mark.parametrize("address", ["", "abc", "../../etc/passwd", "A" * 64, "0" * 63 + "/"])
def test_an_invalid_address_is_refused(blobs: FileBlobs, address: str) -> None:
    with pytest.raises(InvalidInput, match="not the address"):
        blobs.get("acme", address)


def test_a_damaged_blob_is_never_returned(tmp_path: Path) -> None:
    blobs = FileBlobs(str(tmp_path))
    address = blobs.put("acme", b"as it was")
    [path] = tmp_path.rglob(address)
    path.write_bytes(b"as it were")
    with pytest.raises(StoreDamaged, match="another SHA-256"):
        blobs.get("acme", address)


def test_only_the_owner_can_read_and_nothing_half_written_stays(tmp_path: Path) -> None:
    folder = tmp_path / "blobs"
    FileBlobs(str(folder)).put("acme", b"private")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 1
    assert {path.stat().st_mode & 0o077 for path in folder.rglob("*") if path.is_dir()} == {0}


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    blobs = FileBlobs(str(tmp_path / "file"))
    with pytest.raises(
        StoreUnavailable, match=r"7 bytes cannot be stored .*; check that the folder or address in `blobs`"
    ):
        blobs.put("acme", b"content")
    with pytest.raises(
        StoreUnavailable, match=r"cannot be read \(Not a directory\); check that the folder or address in `blobs`"
    ):
        blobs.get("acme", "0" * 64)
    with pytest.raises(StoreUnavailable, match="cannot be deleted"):
        blobs.delete("acme", "0" * 64)


@pytest.mark.parametrize(
    ("code", "error_type"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EACCES, StoreUnavailable),
        (errno.ENOENT, StoreUnavailable),
        (errno.EIO, StoreUnavailable),
    ],
)
def test_only_a_full_disk_is_reported_as_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, error_type: type[Exception]
) -> None:
    def refuse(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(error_type) as caught:
        FileBlobs(str(tmp_path)).put("acme", b"content")
    assert type(caught.value) is error_type
    assert os.strerror(code) in str(caught.value)


def test_every_folder_that_is_made_survives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, sync = set(), os.fsync

    def record_sync(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record_sync)
    address = FileBlobs(str(tmp_path / "deep" / "blobs")).put("acme", b"content")
    [path] = tmp_path.rglob(address)
    assert {folder for folder in path.parents if folder.is_relative_to(tmp_path)} <= synced


def test_the_error_about_a_missing_blob_mentions_other_machines(blobs: FileBlobs) -> None:
    with pytest.raises(NotFound, match=r"set `blobs` to an fsspec address that all machines share"):
        blobs.get("acme", "0" * 64)


def test_an_unknown_kind_of_address_is_refused_at_once() -> None:
    with pytest.raises(InvalidSettings, match="nowhere"):
        FileBlobs("nowhere://bucket")
    with pytest.raises(MissingExtra, match="s3"):
        FileBlobs("s3://bucket/blobs")
