"""Archives from untrusted sources: a refused archive changes nothing inside or outside the workspace."""

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, WorkspaceFolder
from everhold.errors import Conflict, InvalidInput
from tests.engines import CALM, KeptRecords, Store
from tests.unit.hostile_paths import list_hostile_paths

LIMITS = {"max_bytes": 2_000_000, "max_file_bytes": 1_000_000, "max_files": 50}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everhold]:
    store = Store("in_memory", "memory://", KeptRecords())
    folder = tmp_path_factory.mktemp("workspaces")
    yield store.open(**CALM, workspaces={"folder": folder / "files", **LIMITS}, blobs=str(folder / "blobs"))
    store.close()


@pytest.fixture
def workspace(engine: Everhold, monkeypatch: pytest.MonkeyPatch) -> WorkspaceFolder:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    workspace = engine.scope().workspace("inbox")
    if not workspace.files():
        workspace.write("kept.txt", "kept")
    return workspace


def make_tar(*members: tuple[Any, bytes], tar_format: int = tarfile.GNU_FORMAT) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tar_format) as archive:
        for member, content in members:
            entry = tarfile.TarInfo(member) if isinstance(member, str) else member
            entry.size = len(content) if entry.isreg() else entry.size
            archive.addfile(entry, io.BytesIO(content))
    return output.getvalue()


def make_entry(name: str, kind: bytes, link: str = "", **fields: Any) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    for field, value in fields.items():
        setattr(entry, field, value)
    return entry


def make_pax(attributes: dict[str, str]) -> bytes:
    """Return a tar file with one entry that has these attributes."""
    return make_tar((make_entry("a", tarfile.REGTYPE, pax_headers=attributes), b"x"), tar_format=tarfile.PAX_FORMAT)


def make_zip(*members: tuple[Any, bytes], compress: int = zipfile.ZIP_DEFLATED) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", compress) as archive:
        for member, content in members:
            archive.writestr(member, content)
    return output.getvalue()


def make_zip_entry(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode << 16
    return entry


def make_gnu_long_name(size: int) -> bytes:
    """Return a tar file whose header announces a name of so many bytes."""
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, size
    return entry.tobuf(tarfile.GNU_FORMAT) + b"a" * min(size, 5_000_000) + b"\x00" * 1024


def make_overlapping_zip() -> bytes:
    """Return a zip file in which many entries share one content."""
    packed = zlib.compress(b"\x00" * 900_000, 9)[2:-4]
    crc = zlib.crc32(b"\x00" * 900_000)
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 0, crc, len(packed), 900_000, 1, 0) + b"a" + packed
    central = b"".join(
        struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 3, 20, 0, 0, 8, 0, 0, crc, len(packed), 900_000, 1, *[0] * 6)
        + bytes([97 + number])
        for number in range(20)
    )  # fmt: skip
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 20, 20, len(central), len(local), 0)
    return local + central + end


def make_lying_zip() -> bytes:
    """Return a zip file whose entry unpacks to more than its header says."""
    archive = make_zip(("a.txt", b"\x00" * 900_000))
    return archive.replace(struct.pack("<L", 900_000), struct.pack("<L", 10))


def patch_zip_name(name: bytes) -> bytes:
    """Return a zip file with a name that the library would not write."""
    return make_zip(("A" * len(name), b"x")).replace(b"A" * len(name), name)


def make_sparse_tar() -> bytes:
    entry = make_entry("sparse", tarfile.GNUTYPE_SPARSE, size=0)
    return entry.tobuf(tarfile.GNU_FORMAT) + b"\x00" * 1024


SPECIAL_ARCHIVES: dict[str, Callable[[], bytes]] = {
    "symlink": lambda: make_tar((make_entry("a", tarfile.SYMTYPE, "/etc/passwd"), b"")),
    "symlink, then a file through it": lambda: make_tar(
        (make_entry("d", tarfile.SYMTYPE, "/tmp"), b""), ("d/x", b"escaped")
    ),
    "relative symlink": lambda: make_tar((make_entry("a", tarfile.SYMTYPE, "kept.txt"), b"")),
    "hard link outside": lambda: make_tar((make_entry("a", tarfile.LNKTYPE, "/etc/passwd"), b"")),
    "hard link inside": lambda: make_tar(("b", b"x"), (make_entry("a", tarfile.LNKTYPE, "b"), b"")),
    "pipe": lambda: make_tar((make_entry("a", tarfile.FIFOTYPE), b"")),
    "character device": lambda: make_tar((make_entry("a", tarfile.CHRTYPE, devmajor=1, devminor=3), b"")),
    "block device": lambda: make_tar((make_entry("a", tarfile.BLKTYPE, devmajor=8), b"")),
    "unknown type": lambda: make_tar((make_entry("a", b"Z"), b"")),
    "sparse": make_sparse_tar,
    "the same name twice": lambda: make_tar(("a", b"1"), ("a", b"2")),
    "two names but for case": lambda: make_tar(("Readme", b"1"), ("README", b"2")),
    "two names but for composition": lambda: make_tar(
        ("\u00e9", b"1"), ("e\u0301", b"2"), tar_format=tarfile.PAX_FORMAT
    ),
    "two folders but for case": lambda: make_tar(("Lib/a", b"1"), ("lib/b", b"2")),
    "a file and a folder": lambda: make_tar(("a", b"1"), ("a/b", b"2")),
    "a folder and a file": lambda: make_tar(("a/b", b"2"), ("a", b"1")),
    "too many files": lambda: make_tar(*((f"f{number}", b"") for number in range(51))),
    "too large a file": lambda: make_tar(("a", b"\x00" * 1_000_001)),
    "too many bytes": lambda: make_tar(*((f"f{number}", bytes(900_000)) for number in range(3))),
    "gzip bomb": lambda: gzip.compress(bytes(50_000_000)),
    "gzip bomb with a header": lambda: gzip.compress(make_tar(("a", bytes(20_000_000)))),
    "gzip in gzip": lambda: gzip.compress(gzip.compress(make_tar(("a", b"x")))),
    "huge GNU name": lambda: make_gnu_long_name(2_000_000),
    "GNU name larger than the file": lambda: make_gnu_long_name(2**33),
    "long GNU name": lambda: make_tar(("d/" * 60 + "x", b"")),
    "long pax name": lambda: make_tar(("a" * 300, b""), tar_format=tarfile.PAX_FORMAT),
    "pax name that escapes": lambda: make_pax({"path": "../../x"}),
    "pax size that lies": lambda: make_pax({"size": "99999999999"}),
    "pax sparse": lambda: make_pax({"GNU.sparse.map": "0,1", "GNU.sparse.size": "999999999"}),
    "cut off": lambda: make_tar(("a", b"x" * 5000))[:2000],
    "negative size": lambda: make_tar(("a", b"x")).replace(b"00000000001\x00", b"-0000000001\x00", 1),
    "bad checksum": lambda: b"x" + make_tar(("a", b"x"))[1:],
    "empty": lambda: b"",
    "no archive": lambda: os.urandom(3000),
    "zip symlink": lambda: make_zip((make_zip_entry("a", stat.S_IFLNK | 0o777), b"/etc/passwd")),
    "zip pipe": lambda: make_zip((make_zip_entry("a", stat.S_IFIFO | 0o600), b"")),
    "zip device": lambda: make_zip((make_zip_entry("a", stat.S_IFCHR | 0o600), b"")),
    "zip folder without a slash": lambda: make_zip((make_zip_entry("a", stat.S_IFDIR | 0o700), b"x")),
    "zip with the same name twice": lambda: make_zip(("a", b"1"), (zipfile.ZipInfo("a"), b"2")),
    "zip with two names but for case": lambda: make_zip(("a", b"1"), ("A", b"2")),
    "zip bomb": lambda: make_zip(*((f"f{number}", bytes(999_999)) for number in range(10))),
    "zip bomb of one file": lambda: make_zip(("a", bytes(5_000_000))),
    "zip with shared contents": make_overlapping_zip,
    "zip with a size that lies": make_lying_zip,
    "zip with a NUL in a name": lambda: patch_zip_name(b"a.txt\x00.png"),
    "zip with an absolute name": lambda: patch_zip_name(b"/etc/cron.d/x"),
    "zip with a drive": lambda: patch_zip_name(b"C:\\windows\\x"),
    "zip with backslashes": lambda: patch_zip_name(b"..\\..\\x"),
    "zip that is encrypted": lambda: make_zip(("a", b"x")).replace(b"\x14\x00\x00\x00", b"\x14\x00\x01\x00"),
    "zip with a bad checksum": lambda: make_zip(("a", b"hello"), compress=0).replace(b"hello", b"jello"),
    "zip with an unknown method": lambda: make_zip(("a", b"x")).replace(b"\x08\x00", b"\x63\x00"),
    "zip that is cut off": lambda: make_zip(("a", b"x" * 5000))[:-30],
}


def assert_refused(workspace: WorkspaceFolder, archive: Path, errors: Any = InvalidInput) -> None:
    """Assert that an archive is refused, and that no file in the workspace or outside it has changed."""
    outer_folder = workspace.folder.parents[3]  # holds the workspaces of all organizations, and the blobs
    before = list_tree(outer_folder)
    with pytest.raises(errors):
        workspace.extract(archive)
    assert list_tree(outer_folder) == before
    assert [file.path for file in workspace.files()] == ["kept.txt"]
    assert workspace.verify().is_intact


def list_tree(folder: Path) -> list[tuple[str, bool, int]]:
    paths = [path for path in sorted(folder.rglob("*")) if path.name not in ("index", "lock")]
    return [(str(path), path.is_symlink(), path.lstat().st_size) for path in paths if not path.is_dir()]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", SPECIAL_ARCHIVES)
def test_special_archives_are_refused(workspace: WorkspaceFolder, tmp_path: Path, name: str) -> None:
    archive = tmp_path / "in"
    archive.write_bytes(SPECIAL_ARCHIVES[name]())
    assert_refused(workspace, archive)


def test_archives_with_hostile_names_are_refused(workspace: WorkspaceFolder, tmp_path: Path) -> None:
    for number, path in enumerate(list_hostile_paths()):
        archive = tmp_path / "in"
        # A tar header cannot hold these paths, or names "a" for them.
        if path in ("", ".", "./a", "/", "a/") or "\x00" in path:
            continue
        name = path.encode("utf-8", "surrogateescape" if "\udc80" <= path[-1] <= "\udcff" else "surrogatepass")
        entry = tarfile.TarInfo("x")
        if len(name) <= 100:
            block = bytearray(entry.tobuf(tarfile.USTAR_FORMAT))
            block[0:100] = name.ljust(100, b"\x00")
            # The checksum of a header counts its own eight bytes as spaces, which sum to 256.
            block[148:156] = b"%06o\x00 " % (256 + sum(block[:148]) + sum(block[156:512]))
            archive.write_bytes(bytes(block) + bytes(1024))
        else:
            entry.name = path
            archive.write_bytes(entry.tobuf(tarfile.GNU_FORMAT, errors="surrogatepass") + bytes(1024))
        with pytest.raises((InvalidInput, Conflict)):
            workspace.extract(archive)
        # Every third path is also tried in a zip file, unless it cannot be encoded.
        if number % 3 == 0 and not any("\ud800" <= char <= "\udfff" for char in path):
            output = io.BytesIO()
            with zipfile.ZipFile(output, "w") as zipped:
                zipped.writestr(zipfile.ZipInfo(path), b"x")
            archive.write_bytes(output.getvalue())
            if not path.endswith("/"):
                with pytest.raises((InvalidInput, Conflict)):
                    workspace.extract(archive)
    assert [file.path for file in workspace.files()] == ["kept.txt"]
    assert [path.name for path in workspace.folder.rglob("*")] == ["kept.txt"]


def test_archives_that_are_not_regular_files_are_refused(workspace: WorkspaceFolder, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none", Path("/dev/zero")):
        assert_refused(workspace, path)


def test_names_that_clash_with_existing_files_are_refused(workspace: WorkspaceFolder, tmp_path: Path) -> None:
    for members in ((("KEPT.txt", b"x"),), (("kept.txt/a", b"x"),)):
        (tmp_path / "in").write_bytes(make_tar(*members))
        assert_refused(workspace, tmp_path / "in", (InvalidInput, Conflict))


@pytest.mark.parametrize("compression", ["", "gz", "bz2", "xz", "zip"])
def test_ordinary_archives_are_extracted(
    engine: Everhold, workspace: WorkspaceFolder, tmp_path: Path, compression: str
) -> None:
    members = (("docs/a.md", b"hello"), ("b" * 120 + ".txt", b"x" * 9000), ("é/日本.txt", b""))
    archive = tmp_path / "in"
    if compression == "zip":
        archive.write_bytes(make_zip(("docs/", b""), *members))
    else:
        with tarfile.open(archive, f"w:{compression}") as target:  # type: ignore[call-overload]
            target.addfile(make_entry("./docs", tarfile.DIRTYPE))
            for name, content in members:
                entry = tarfile.TarInfo(f"./{name}")
                entry.size = len(content)
                target.addfile(entry, io.BytesIO(content))
    extracted = engine.scope().workspace(f"ordinary-{compression or 'tar'}")
    assert extracted.extract(archive) == sorted(name for name, _ in members)
    assert {name: extracted.read(name) for name, _ in members} == dict(members)
