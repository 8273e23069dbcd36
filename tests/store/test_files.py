"""`store/files.py`: whole files or none, and errors a user can act on."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from relaytrain.core.errors import NoSpace, UsageError
from relaytrain.store.files import FileOps, make_dir, remove, remove_dir, using, write_atomic


def test_bytes_and_text_arrive_whole(tmp_path):
    write_atomic(tmp_path / "a.json", "größer\n")
    assert (tmp_path / "a.json").read_bytes() == "größer\n".encode()
    write_atomic(str(tmp_path / "a.json"), memoryview(b"12345")[1:3])
    assert (tmp_path / "a.json").read_bytes() == b"23"
    write_atomic(tmp_path / "a.json", b"")
    assert os.listdir(tmp_path) == ["a.json"]


def test_modes(tmp_path):
    old = os.umask(0o022)
    try:
        make_dir(tmp_path / "x" / "y", private=True)
        write_atomic(tmp_path / "x" / "y" / "private", b"", private=True)
        write_atomic(tmp_path / "public", b"")
    finally:
        os.umask(old)

    def mode(name):
        return stat.S_IMODE((tmp_path / name).stat().st_mode)

    assert (mode("x"), mode("x/y"), mode("x/y/private"), mode("public")) == (0o700, 0o700, 0o600, 0o644)


def test_short_writes_are_finished(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
    write_atomic(tmp_path / "a", bytes(range(100)))
    assert (tmp_path / "a").read_bytes() == bytes(range(100))


@pytest.mark.parametrize("step", ["create", "write", "sync", "rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO, errno.EFBIG])
def test_a_refused_write_leaves_the_old_file_and_no_temp(tmp_path, step, code):
    class Full(FileOps):
        pass

    def fail(*_):
        raise OSError(code, os.strerror(code))

    setattr(Full, step, fail)
    (tmp_path / "a").write_bytes(b"old")
    with using(Full()), pytest.raises(NoSpace, match=r"cannot write .*a: .*free some space") as caught:
        write_atomic(tmp_path / "a", b"new")
    assert caught.value.exit_status == 10
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_an_interrupt_leaves_no_temp(tmp_path):
    class Interrupted(FileOps):
        def sync(self, fd):
            raise KeyboardInterrupt

    with using(Interrupted()), pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "a", b"new")
    assert os.listdir(tmp_path) == []


def test_wrong_places_are_usage_errors(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="No such file"):
        write_atomic(tmp_path / "nowhere" / "a", b"")
    with pytest.raises(UsageError, match="cannot write"):
        write_atomic(tmp_path / "file" / "a", b"")
    with pytest.raises(UsageError, match=r"a file of that name exists|Not a directory"):
        make_dir(tmp_path / "file")
    with pytest.raises(UsageError, match="cannot make folder"):
        make_dir(tmp_path / "file" / "folder")
    with pytest.raises(UsageError, match="cannot remove"):
        remove(tmp_path)


def test_remove_says_whether_there_was_one(tmp_path):
    write_atomic(tmp_path / "a", b"")
    assert remove(tmp_path / "a") is True
    assert remove(tmp_path / "a") is False
    make_dir(tmp_path / "b" / "c")
    remove_dir(tmp_path / "b")  # not empty: left alone
    assert (tmp_path / "b" / "c").is_dir()
    remove_dir(tmp_path / "b" / "c")
    remove_dir(tmp_path / "b")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_synced_is_accepted_only_for_that_reason(tmp_path, monkeypatch):
    def refuse(code):
        def fsync(fd):
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                raise OSError(code, os.strerror(code))

        return fsync

    monkeypatch.setattr(os, "fsync", refuse(errno.EINVAL))
    write_atomic(tmp_path / "a", b"1")
    monkeypatch.setattr(os, "fsync", refuse(errno.EIO))
    with pytest.raises(NoSpace):
        write_atomic(tmp_path / "a", b"2")
