"""Output files appear whole or not at all."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nnconv.errors import UsageError
from nnconv.formats.atomic import replacing


class StrayError(Exception):
    pass


@pytest.fixture
def pair(tmp_path):
    """Two targets that exist."""
    targets = (tmp_path / "data", tmp_path / "model")
    for target in targets:
        target.write_bytes(b"old " + target.name.encode())
    return targets


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def write_new(*targets, error=None):
    with replacing(*targets) as files:
        for file in files:
            file.write(b"new")
        if error is not None:
            raise error


OLD = {"data": b"old data", "model": b"old model"}


def test_files_take_their_places_together(tmp_path, pair):
    with replacing(*pair) as files:
        for file in files:
            file.write(b"new")
        assert {name: contents(tmp_path)[name] for name in OLD} == OLD
    assert contents(tmp_path) == {"data": b"new", "model": b"new"}


def test_new_files_appear(tmp_path):
    with replacing(tmp_path / "a", tmp_path / "b") as (first, second):
        first.write(b"1")
        second.write(b"2")
    assert contents(tmp_path) == {"a": b"1", "b": b"2"}


@pytest.mark.parametrize("error", [StrayError, KeyboardInterrupt, MemoryError])
def test_an_error_in_the_block_leaves_all_as_it_was(tmp_path, pair, error):
    with pytest.raises(error):
        write_new(*pair, error=error)
    assert contents(tmp_path) == OLD


def test_an_error_in_the_block_leaves_no_new_file(tmp_path):
    with pytest.raises(StrayError):
        write_new(tmp_path / "a", tmp_path / "b", error=StrayError)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("existing", [True, False])
def test_a_rename_that_fails_is_undone(monkeypatch, tmp_path, pair, existing):
    """The second rename to the target fails, after the first target was replaced already."""
    if not existing:
        pair[0].unlink()
    before = contents(tmp_path)
    rename = Path.replace

    def replace(self, target):
        if target == pair[1]:
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(UsageError, match=r"model can't be written: Permission denied"):
        write_new(*pair)
    assert contents(tmp_path) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX limits")
@pytest.mark.parametrize("size", [10_000, 10_000_000], ids=["at close", "at write"])
def test_a_full_disk_leaves_all_as_it_was(tmp_path, pair, size):
    """A limit on the size of files stands for the disk's end."""
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from nnconv.errors import UsageError\n"
        "from nnconv.formats.atomic import replacing\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "try:\n"
        "    with replacing(*map(Path, sys.argv[2:])) as files:\n"
        "        for start in range(0, int(sys.argv[1]), 1000):\n"
        "            files[0].write(bytes(1000))\n"
        "except UsageError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", script, str(size), *map(str, pair)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == f"{pair[1]} can't be written: File too large.\n"
    assert contents(tmp_path) == OLD


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX pipes")
def test_pipes_and_devices_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe can't be written: it is not a plain file"):
        write_new(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX access rights")
def test_read_only_files_are_not_replaced(monkeypatch, tmp_path, pair):
    # The superuser may write anything, so ask as if another did.
    monkeypatch.setattr(os, "access", lambda path, _mode: path != pair[1])
    with pytest.raises(UsageError, match="model can't be written: it is read-only"):
        write_new(*pair)
    assert contents(tmp_path) == OLD


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX access rights")
def test_access_rights_stay(pair):
    pair[1].chmod(0o640)
    with replacing(*pair):
        pass
    assert stat.S_IMODE(pair[1].stat().st_mode) == 0o640


def test_long_names_leave_room_for_the_temporary_one(tmp_path):
    target = tmp_path / ("n" * 250)
    with replacing(target) as (file,):
        file.write(b"new")
    assert target.read_bytes() == b"new"


def test_two_writers_in_one_folder_do_not_meet(tmp_path):
    with replacing(tmp_path / "a") as (outer,), replacing(tmp_path / "a") as (inner,):
        outer.write(b"outer")
        inner.write(b"inner")
    assert contents(tmp_path) == {"a": b"outer"}


@pytest.mark.parametrize("name", ["", "."])
def test_folders_are_named_as_such(monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="it is a folder"):
        write_new(Path(name))
    assert contents(tmp_path) == {}


def test_threads_write_into_one_folder(tmp_path):
    def write(number):
        for _ in range(200):
            write_new(tmp_path / f"own-{number}", tmp_path / "shared")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    names = {*(f"own-{number}" for number in range(8)), "shared"}
    assert contents(tmp_path) == dict.fromkeys(names, b"new")
