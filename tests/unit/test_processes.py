"""No process that sparkcep starts imports a module from the current folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sparkcep
from sparkcep import processes
from sparkcep.kernels.common import hash_table  # noqa: F401 - its kernels are asked for
from sparkcep.kernels.jit import background, cache

PACKAGE = Path(sparkcep.__file__).resolve().parent
HOSTILE = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\nraise ImportError('not the json of Python')\n"


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """The current folder, with a module of the name of one of Python's."""
    for name in ("json", "logging", "numba"):
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(path for path in sys.path if path and Path(path) != tmp_path)])
    return tmp_path


def test_the_current_folder_is_no_place_for_modules(hostile):
    done = subprocess.run(processes.python("-c", "import json, logging, sys, sparkcep; print(json.dumps(sys.path))"), env=processes.environment(), capture_output=True, text=True, check=True)
    assert str(hostile) not in json.loads(done.stdout)


def test_a_package_in_the_current_folder_is_found(monkeypatch):
    monkeypatch.chdir(PACKAGE.parent)
    done = subprocess.run(processes.python("-c", "import sparkcep; print(sparkcep.__file__)"), env=processes.environment(), capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).parent == PACKAGE


def test_compiling_processes_import_nothing_from_there(hostile, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    asked = background.Requested(lambda: folder, folder / "none")
    assert asked.of(background.Request("sparkcep.kernels.common.hash_table", "none", "of other sources", []), lambda: False)
    ((_, process),) = asked._started
    process.wait(60)
    assert process.returncode == 0 and not list(hostile.glob("*.ran"))


@pytest.mark.skipif(os.name != "posix", reason="pipes that end with a process")
def test_on_an_executor_compiling_ends_with_who_asked(monkeypatch, tmp_path):
    """Somebody else compiles the kernel, for which the process would wait."""
    monkeypatch.setattr(background, "on_executor", lambda: True)
    asked = background.Requested(lambda: tmp_path, tmp_path / "none")
    own = background.Request("sparkcep.kernels.common.hash_table", "one", cache.digest("sparkcep.kernels.common.hash_table"), [])
    (tmp_path / "wanted").mkdir()
    name = f"one-{hashlib.sha256(json.dumps(own).encode()).hexdigest()[:16]}.request"
    assert background.locks.free(tmp_path / "wanted" / name)
    assert asked.of(own, lambda: False)
    ((_, process),) = asked._started
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.stdin.close()
    assert process.wait(60) == 0 and (tmp_path / "wanted" / name).exists()
    background.locks.give(tmp_path / "wanted" / name)


def test_where_kernels_came_with_the_package_none_is_compiled_on_an_executor(monkeypatch, tmp_path):
    monkeypatch.setattr(background, "on_executor", lambda: True)
    (tmp_path / "shipped").mkdir()
    asked = background.Requested(lambda: tmp_path, tmp_path / "shipped")
    assert not asked.of(background.Request("sparkcep.kernels.common.hash_table", "a", "b", []), lambda: False) and not asked._started


def test_every_python_is_started_with_a_safe_path():
    """PySpark's own daemon is the exception: functions of users may import from the current folder."""
    unsafe = []
    for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.java")]:
        unsafe += [(path.name, found) for found in re.findall(r'(?:sys\.executable|found|python), "-(?!P")\w+", "?[^,\]]*', path.read_text(encoding="utf-8"))]
    assert unsafe == [("daemon.py", 'sys.executable, "-m", "pyspark.daemon"')]
