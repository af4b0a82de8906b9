"""Where what is compiled is kept: only where nobody else can have written it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sparkcep import storage, unpacked

pytestmark = pytest.mark.skipif(storage.pwd is None, reason="who may write is not looked at on Windows")


@pytest.fixture(autouse=True)
def own(monkeypatch, tmp_path_factory):
    """The temporary folder that takes another's place."""
    base = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(base))
    storage.places.cache_clear()
    yield base / f"sparkcep-{os.geteuid()}"
    storage.places.cache_clear()


def make_foreign(path: Path, monkeypatch) -> None:
    """Gives ``path`` to another user, or makes this process another user's."""
    if os.geteuid() == 0:
        os.chown(path, 65534, -1)
    else:
        uid = os.geteuid()
        monkeypatch.setattr(storage.os, "geteuid", lambda: uid + 1)


def test_a_folder_is_made_that_others_may_not_write(tmp_path):
    before = os.umask(0)
    try:
        assert storage.places(tmp_path / "a" / "b") == (tmp_path / "a" / "b",)
        storage.write(tmp_path / "a" / "b" / "f", b"x")
    finally:
        os.umask(before)
    assert [(tmp_path / "a" / name).stat().st_mode & 0o777 for name in (".", "b", "b/f")] == [0o755, 0o755, 0o644]
    assert storage.trusted(tmp_path / "a" / "b" / "f")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["f"]


@pytest.mark.parametrize("where", ["", "above"])
@pytest.mark.parametrize("mode", [0o777, 0o757, 0o775])
def test_a_folder_that_others_may_write_is_not_used(tmp_path, own, caplog, where, mode, monkeypatch):
    monkeypatch.setattr(storage, "_private", lambda gid: False)
    wanted = tmp_path / "above" / "kept"
    wanted.mkdir(parents=True)
    (tmp_path / where if where else wanted).chmod(mode)
    assert storage.places(wanted) == (own,) and own.stat().st_mode & 0o777 == 0o700
    assert f"{wanted} is not used" in caplog.text and f"mode {mode:o}" in caplog.text and str(own) in caplog.text


def test_a_folder_of_another_user_is_not_used(tmp_path, own, caplog, monkeypatch):
    wanted = tmp_path / "kept"
    wanted.mkdir()
    make_foreign(wanted, monkeypatch)
    assert wanted not in storage.places(wanted)
    assert "it belongs to user" in caplog.text


@pytest.mark.skipif(getattr(os, "geteuid", int)() != 0, reason="only root can give folders away")
def test_above_it_may_be_a_folder_of_who_owns_all(tmp_path, own, monkeypatch):
    wanted = tmp_path / "above" / "kept"
    wanted.mkdir(parents=True)
    os.chown(tmp_path / "above", 65534, -1)
    assert storage.places(wanted) == (own,)
    storage.places.cache_clear()
    monkeypatch.setattr(storage, "_owner_of_all", lambda: 65534)
    assert storage.places(wanted) == (wanted,)
    storage.places.cache_clear()
    os.chown(wanted, 65534, -1)
    assert storage.places(wanted) == (own,)


def test_a_group_of_the_user_alone_may_write(tmp_path, monkeypatch):
    wanted = tmp_path / "kept"
    wanted.mkdir()
    wanted.chmod(0o775)
    monkeypatch.setattr(storage, "_private", lambda gid: gid == wanted.stat().st_gid)
    assert storage.places(wanted) == (wanted,)


def test_a_folder_in_one_for_all_with_the_sticky_bit_is_used(tmp_path):
    above = tmp_path / "like tmp"
    above.mkdir()
    above.chmod(0o1777)
    assert storage.places(above / "kept") == (above / "kept",)
    above.chmod(0o1777)
    storage.places.cache_clear()
    assert storage.places(above) != (above,)  # but not the one for all itself


def test_a_link_is_followed_to_what_is_looked_at(tmp_path, own):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "kept").mkdir()
    for target in ("open", "kept"):
        (tmp_path / f"to {target}").symlink_to(tmp_path / target)
    assert storage.places(tmp_path / "to open") == (own,)
    assert storage.places(tmp_path / "to kept") == (tmp_path / "kept",)
    assert not storage.trusted(tmp_path / "to kept")  # a link inside a folder


def test_a_file_of_another_is_not_trusted(tmp_path, monkeypatch):
    file = tmp_path / "f"
    file.write_bytes(b"")
    assert storage.trusted(file) and not storage.trusted(tmp_path / "absent")
    file.chmod(0o666)
    assert not storage.trusted(file)
    file.chmod(0o644)
    make_foreign(file, monkeypatch)
    assert not storage.trusted(file)


def test_what_cannot_be_written_is_read(tmp_path, own, caplog, monkeypatch):
    monkeypatch.setattr(storage, "_unwritable", lambda folder: "Read-only file system")  # the mode is nothing to root
    with caplog.at_level(logging.INFO, logger="sparkcep"):
        assert storage.places(tmp_path) == (tmp_path, own)
        assert storage.places(tmp_path / "absent") == (own,)
    assert "Read-only file system" in caplog.text and "SPARKCEP_CACHE_DIR" in caplog.text


def test_a_foreign_temporary_folder_is_not_used(tmp_path, own, monkeypatch):
    monkeypatch.setenv("SPARKCEP_TEMPORARY_DIR", "")
    own.symlink_to(tmp_path)
    (path,) = storage.places(Path("/dev/null/nothing"))
    assert path not in (own, tmp_path) and path.parent == own.parent


def test_no_folder_at_all(caplog, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null")
    (path,) = storage.places(Path("/dev/null/nothing"))
    assert not storage.trusted(path / "f")
    with pytest.raises(OSError):
        storage.create(path)
    assert "each process compiles again" in caplog.text


def test_an_archive_without_a_place_for_its_files_says_what_to_set(tmp_path, monkeypatch):
    (tmp_path / "sparkcep.zip").write_bytes(b"PK")
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null")
    monkeypatch.setenv("SPARKCEP_CACHE_DIR", "/dev/null/nothing")
    with pytest.raises(ImportError, match=r"imported from the archive .*sparkcep.zip, but it cannot be unpacked without a cache folder. Set SPARKCEP_CACHE_DIR"):
        unpacked.folder(tmp_path / "sparkcep.zip" / "sparkcep")


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    storage.write(tmp_path / "f", b"before")

    def full(*_):
        raise OSError("no space")

    monkeypatch.setattr(storage.os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        storage.write(tmp_path / "f", b"after")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f", b"before")]


def test_no_home_directory(monkeypatch, own):
    for name in ("SPARKCEP_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(storage.pwd, "getpwuid", {}.__getitem__)  # a user that the system does not know
    with pytest.raises(RuntimeError):
        Path.home()
    assert storage.cache_root() is None and storage.places(None) == (own,)


def test_a_temporary_folder_of_its_own_is_handed_on_and_removed(tmp_path):
    """A process that cannot have the shared temporary folder has one of its own, gives it to those that it starts, and removes
    it."""
    (tmp_path / f"sparkcep-{os.geteuid()}").symlink_to(tmp_path)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SPARKCEP_")}
    variables |= {"TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(storage.__file__).resolve().parents[1])}
    one = "import subprocess, sys\nfrom pathlib import Path\nfrom sparkcep import storage\nprint(storage.places(Path('/dev/null/nothing'))[0], flush=True)\n"
    both = f"{one}subprocess.run([sys.executable, '-c', {one!r}], check=True)\n"
    done = subprocess.run([sys.executable, "-c", both], env=variables, capture_output=True, text=True, check=True)
    first, second = done.stdout.split()
    assert first == second and Path(first).parent == tmp_path and not Path(first).exists()
    assert done.stderr.count("is not used for compiled code: it is a link") == 1 and "SPARKCEP_CACHE_DIR" in done.stderr
