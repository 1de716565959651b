"""Files are written atomically and privately, never through a link; every failure is a FileError or InvalidInput."""

import errno
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from everhold.errors import FileError, InvalidInput
from everhold.files import create_text, open_lock, write_private

LEFTOVER = ".everhold-0123456789abcdef.part"


def write_text(path: Path, text: str = "ours", *, overwrite: bool = False) -> None:
    with create_text(path, overwrite=overwrite) as out:
        out.write(text)


def write_bytes(path: Path, text: str = "ours", *, overwrite: bool = False) -> None:
    write_private(path, text.encode(), overwrite=overwrite)


@pytest.fixture(params=[write_text, write_bytes])
def write(request: pytest.FixtureRequest) -> Callable[..., None]:
    write_function: Callable[..., None] = request.param
    return write_function


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def fail_while_writing(path: Path, raised: BaseException) -> None:
    with create_text(path, overwrite=False) as out:
        out.write("x" * 100_000)
        raise raised


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class TestPlantedFiles:
    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
    def test_only_the_owner_can_read_a_file(self, write: Callable[..., None], folder: Path, umask: int) -> None:
        before = os.umask(umask)
        try:
            write(folder / "a")
        finally:
            os.umask(before)
        assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o600
        (folder / "a").chmod(0o666)
        write(folder / "a", overwrite=True)
        assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o600

    def test_a_predictable_temporary_name_is_not_used(self, write: Callable[..., None], folder: Path) -> None:
        victim = folder.parent / "victim"
        victim.write_text("precious")
        (folder / ".a.part").symlink_to(victim)
        write(folder / "a")
        assert victim.read_text() == "precious"
        assert (folder / "a").read_text() == "ours"

    @pytest.mark.parametrize("leads_somewhere", [True, False])
    def test_a_link_is_refused_or_replaced_and_never_followed(
        self, write: Callable[..., None], folder: Path, leads_somewhere: bool
    ) -> None:
        victim = folder.parent / "victim"
        if leads_somewhere:
            victim.write_text("precious")
        (folder / "a").symlink_to(victim)
        with pytest.raises(InvalidInput, match="a exists already"):
            write(folder / "a")
        write(folder / "a", overwrite=True)
        assert not (folder / "a").is_symlink()
        assert (folder / "a").read_text() == "ours"
        assert victim.exists() == leads_somewhere
        assert not leads_somewhere or victim.read_text() == "precious"

    def test_a_link_to_a_pipe_is_not_written_through(self, folder: Path) -> None:
        os.mkfifo(folder / "pipe")
        (folder / "a").symlink_to(folder / "pipe")
        with pytest.raises(InvalidInput, match="exists already"):
            write_text(folder / "a")

    def test_a_pipe_of_another_user_is_refused(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        os.mkfifo(folder / "pipe")
        if os.geteuid() == 0:
            os.chown(folder / "pipe", 12345, 12345)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
        reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        with pytest.raises(InvalidInput, match="of another user"):
            write_text(folder / "pipe")
        assert os.read(reader, 100) == b""
        os.close(reader)

    def test_a_lock_is_not_opened_through_a_link(self, folder: Path) -> None:
        (folder / "lock").symlink_to(folder / "victim")
        with pytest.raises(FileError):
            open_lock(folder / "lock")
        assert not (folder / "victim").exists()


class TestSeveralWriters:
    @pytest.mark.parametrize("can_link", [True, False])
    def test_one_of_several_writers_wins(
        self, write: Callable[..., None], folder: Path, can_link: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not can_link:
            monkeypatch.setattr(os, "link", _cannot_link)
        barrier = threading.Barrier(8)
        won: list[str] = []
        refused: list[str] = []

        def attempt(text: str) -> None:
            barrier.wait()
            try:
                write(folder / "a", text)
                won.append(text)
            except InvalidInput as error:
                refused.append(str(error))

        for _ in range(20):
            threads = [threading.Thread(target=attempt, args=[str(number) * 50_000]) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [text[0] for text in won] == [(folder / "a").read_text()[0]]
            assert (folder / "a").read_text() == won.pop()
            assert len(refused) == 7
            assert all("exists already" in message for message in refused)
            refused.clear()
            assert list_names(folder) == ["a"]
            (folder / "a").unlink()

    def test_files_of_a_killed_writer_are_removed_and_files_being_written_stay(self, folder: Path) -> None:
        (folder / LEFTOVER).write_text("half")
        os.utime(folder / LEFTOVER, (0, 0))
        with create_text(folder / "slow", overwrite=False) as out:
            [current] = list_names(folder)
            os.utime(folder / current, (0, 0))
            write_text(folder / "quick")
            out.write("ours")
        assert list_names(folder) == ["quick", "slow"]
        assert (folder / "slow").read_text() == "ours"


def _cannot_link(*_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


class TestFailures:
    @pytest.fixture
    def small_folder(self, folder: Path) -> Iterator[Path]:
        """A folder that has room for 64 KB: a tiny disk where one can be mounted, else a limit on every file."""
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False
        )
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        if mounted.returncode:
            resource.setrlimit(resource.RLIMIT_FSIZE, (64_000, limits[1]))
        yield folder
        if mounted.returncode:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        else:
            subprocess.run(["umount", folder], check=True)

    @pytest.mark.parametrize("size", [70_000, 1_000_000])
    def test_a_full_disk_is_reported(self, write: Callable[..., None], small_folder: Path, size: int) -> None:
        write(small_folder / "there", "precious")
        for name, overwrite in (("there", True), ("absent", False)):
            with pytest.raises(FileError, match=rf"{name} cannot be written \(.*\); .* name another folder") as caught:
                write(small_folder / name, "x" * size, overwrite=overwrite)
            assert caught.value.errno in (errno.ENOSPC, errno.EFBIG)
            assert not caught.value.retryable
        assert list_names(small_folder) == ["there"]
        assert (small_folder / "there").read_text() == "precious"

    def test_a_file_over_the_size_limit_is_reported(self, write: Callable[..., None], folder: Path) -> None:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64_000, limits[1]))
        try:
            with pytest.raises(FileError, match="File too large"):
                write(folder / "a", "x" * 100_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert list_names(folder) == []

    @pytest.mark.parametrize("call", ["fsync", "fchmod", "link", "open"])
    @pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EROFS, errno.EACCES])
    def test_any_error_of_the_system_becomes_a_file_error(
        self, write: Callable[..., None], folder: Path, call: str, code: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as context:
            context.setattr(os, call, refuse)
            with pytest.raises(FileError, match=os.strerror(code)) as caught:
                write(folder / "a")
        assert caught.value.errno == code
        assert list_names(folder) == []

    def test_invalid_file_names_are_reported(self, write: Callable[..., None], folder: Path) -> None:
        with pytest.raises(FileError, match=r"File name too long.*choose a shorter name"):
            write(folder / ("a" * 300))
        (folder / "loop").symlink_to(folder / "loop")
        with pytest.raises(FileError, match="loop of links"):
            write(folder / "loop" / "a")
        with pytest.raises(InvalidInput, match="there is no folder"):
            write(folder / "nowhere" / "a")
        with pytest.raises(InvalidInput, match="is a folder; name a file"):
            write(folder, overwrite=True)

    def test_a_stream_that_cannot_be_written_is_a_file_error(self) -> None:
        with pytest.raises(FileError, match="/dev/full cannot be written"):
            write_text(Path("/dev/full"), "x" * 100_000)
        full = Path("/dev/full").open("w", encoding="utf-8", buffering=1)  # noqa: SIM115 — closing it fails, too
        with pytest.raises(FileError, match="/dev/full cannot be written"), create_text(full, overwrite=False) as out:
            out.write("x\n")
        with pytest.raises(OSError, match="No space"):
            full.close()

    def test_an_error_of_the_block_passes_and_leaves_nothing(self, folder: Path) -> None:
        for raised in (KeyboardInterrupt(), OSError("raised by the block")):
            with pytest.raises(type(raised)) as caught:
                fail_while_writing(folder / "a", raised)
            assert caught.value is raised
            assert list_names(folder) == []

    def test_no_descriptor_stays_open(self, write: Callable[..., None], folder: Path) -> None:
        before = len(list(Path("/proc/self/fd").iterdir()))
        write(folder / "a")
        for path in (folder / "a", folder / "nowhere" / "a", folder / ("a" * 300)):
            with pytest.raises((InvalidInput, FileError)):
                write(path)
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_standard_output_may_be_named_by_its_file() -> None:
    program = (
        "from pathlib import Path\nfrom everhold.files import create_text\n"
        "with create_text(Path('/dev/stdout'), overwrite=False) as out: out.write('ours')"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert result.stdout == b"ours"
