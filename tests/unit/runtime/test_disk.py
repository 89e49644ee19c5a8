"""Files of this machine, and the two errors they know."""

import os
import subprocess
import sys

import pytest

from magnetar.base.errors import Conflict, Misuse, NotFound, StorageFailed, StorageFull
from magnetar.runtime.disk import IOV_MAX, RealFiles


@pytest.fixture
def files():
    return RealFiles()


def test_more_buffers_than_one_call_takes_are_all_written(tmp_path, files):
    file = files.open(str(tmp_path / "f"), create=True)
    buffers = [bytes([i % 251]) * 3 for i in range(2 * IOV_MAX + 7)]
    assert file.pwritev(buffers, 5) == 3 * len(buffers)
    assert file.pread(10**6, 5) == b"".join(buffers)
    assert file.pread(10, 0)[:5] == bytes(5)
    file.close()


def test_short_write_is_continued_until_system_refuses_rest(tmp_path):
    code = (
        "import resource, signal, sys; from magnetar.runtime.disk import RealFiles\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))\n"
        f"RealFiles().open({str(tmp_path / 'f')!r}, create=True).pwritev([b'hello', b' ', b'world'], 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "StorageFailed: cannot write" in ended.stderr
    assert (tmp_path / "f").read_bytes() == b"hello wo"


def test_pread_stops_at_end(tmp_path, files):
    file = files.open(str(tmp_path / "f"), create=True)
    file.pwritev([b"abc"], 0)
    assert (file.pread(10, 1), file.pread(10, 3), file.size()) == (b"bc", b"", 3)
    file.close()


def test_allocate_extends_with_zeros_and_keeps_what_is_there(tmp_path, files):
    file = files.open(str(tmp_path / "f"), create=True)
    file.pwritev([b"x"], 0)
    file.allocate(3 * 1024 * 1024 + 1)
    assert file.size() == 3 * 1024 * 1024 + 1
    assert file.pread(2, 0) == b"x\0"
    assert os.stat(tmp_path / "f").st_blocks * 512 >= file.size()
    file.allocate(10)
    assert file.size() == 3 * 1024 * 1024 + 1
    file.truncate(4)
    assert file.size() == 4
    file.datasync()
    file.close()


def test_names_come_and_go(tmp_path, files):
    directory = str(tmp_path / "a" / "b")
    assert files.list(directory) == []
    files.mkdir(directory)
    files.mkdir(directory)
    files.open(directory + "/2", create=True).close()
    files.open(directory + "/1", create=True).close()
    files.rename(directory + "/2", directory + "/3")
    files.sync_dir(directory)
    assert files.list(directory) == ["1", "3"]
    files.remove(directory + "/1")
    assert not files.exists(directory + "/1")
    assert files.exists(directory + "/3")
    assert files.free(directory) > 0


def test_what_is_missing_is_not_found(tmp_path, files):
    for call in (
        lambda: files.open(str(tmp_path / "no")),
        lambda: files.remove(str(tmp_path / "no")),
        lambda: files.rename(str(tmp_path / "no"), str(tmp_path / "other")),
    ):
        with pytest.raises(NotFound):
            call()


def test_full_disk_and_broken_one_are_different_errors(tmp_path, files):
    full = files.open("/dev/full")
    with pytest.raises(StorageFull, match="free space"):
        full.pwritev([b"x"], 0)
    with pytest.raises(StorageFailed, match="check the disk"):
        full.datasync()
    full.close()
    file = files.open(str(tmp_path / "f"), create=True)
    file.close()
    for call in (lambda: file.pwritev([b"x"], 0), lambda: file.pread(1, 0), file.size):
        with pytest.raises(StorageFailed):
            call()
    (tmp_path / "plain").write_bytes(b"")
    with pytest.raises(StorageFailed):
        files.mkdir(str(tmp_path / "plain" / "sub"))


def test_second_process_is_told_who_holds_lock(tmp_path, files):
    path = str(tmp_path / "lock")
    code = (
        "import sys; from magnetar.runtime.disk import RealFiles\n"
        f"lock = RealFiles().lock({path!r}, 'another node')\n"
        "sys.stdout.write('held\\n'); sys.stdout.flush(); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(Conflict, match=rf"another node \(process {other.pid} on .+ since 20..-..-..T"):
            files.lock(path, "me")
        other.stdin.close()
        other.wait()
    lock = files.lock(path, "me")
    with pytest.raises(Conflict, match="me"):
        files.lock(path, "me again")
    lock.release()
    lock.release()
    files.lock(path, "me again").release()


def test_links_are_not_followed(tmp_path, files):
    """D21: `lock` was truncated wherever it pointed."""
    other = tmp_path / "precious"
    other.write_text("of somebody")
    (tmp_path / "lock").symlink_to(other)
    for opening in (lambda path: files.lock(path, "me"), files.open, lambda path: files.open(path, create=True)):
        with pytest.raises(Misuse, match="is a symbolic link, which the broker does not follow"):
            opening(str(tmp_path / "lock"))
    assert other.read_text() == "of somebody"


def test_files_are_closed_to_others_those_from_before_too(tmp_path, files):
    """D21"""
    before = os.umask(0)
    try:
        files.open(str(tmp_path / "new"), create=True).close()
        files.lock(str(tmp_path / "lock"), "me").release()
        (tmp_path / "old").touch(0o666)
        (tmp_path / "tight").touch(0o600)
    finally:
        os.umask(before)
    for name in ("old", "tight"):
        files.open(str(tmp_path / name)).close()
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"new": 0o640, "lock": 0o640, "old": 0o640, "tight": 0o600}


def test_folder_that_everybody_may_write_to_is_refused(tmp_path, files):
    """D21"""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(Misuse, match="every user may write to"):
        files.mkdir(str(tmp_path / "open"))
    (tmp_path / "open").chmod(0o755)
    files.mkdir(str(tmp_path / "open"))
