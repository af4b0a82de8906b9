"""Compiled kernels: equal sources compile once, whatever folder they lie in and however many processes need them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sparkcep
from sparkcep import cli, precompile, storage
from sparkcep.automaton.strategy import SEARCHES, strategy_of
from sparkcep.clause.parser import parse_clause
from sparkcep.plan.build import make_plan
from sparkcep.search import compiled as cache
from sparkcep.search import old_kernels

PACKAGE = Path(sparkcep.__file__).parent
# `doubled` is called by the kernel `gap`, and FACTOR is a constant of another module
CALLED = "from sparkcep.search.compiled import kernel\n\n\n@kernel\ndef doubled(x):\n    return 2 * x\n"
KERNELS = """from sparkcep.search.compiled import kernel
from sparkcep.search.called import doubled
from sparkcep.search.constants import FACTOR


@kernel
def gap(x):
    return FACTOR * doubled(x)
"""
PROGRAM = """from sparkcep.search.kernels_here import gap
print(gap({x}), sum(gap.stats.cache_misses.values()))"""


def package(folder: Path, called: str = CALLED, factor: int = 3) -> Path:
    """A sparkcep in ``folder`` that holds nothing but the cache and two kernels."""
    search = folder / "sparkcep" / "search"
    search.mkdir(parents=True)
    for name in ("storage.py", "search/compiled.py", "search/old_kernels.py"):
        shutil.copy(PACKAGE / name, folder / "sparkcep" / name)
    for path, text in {"../__init__": "", "__init__": "", "called": called, "kernels_here": KERNELS, "constants": f"FACTOR = {factor}\n"}.items():
        (search / f"{path}.py").write_text(text)
    return folder


def start(folder: Path, kept: Path, x: str = "7", before: str = "", **variables: str) -> subprocess.Popen:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
    return subprocess.Popen(
        [sys.executable, "-c", before + PROGRAM.format(x=x)],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(folder), "SPARKCEP_CACHE_DIR": str(kept)} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen) -> tuple[list[float], int]:
    """What it printed, and how often it said that it compiles."""
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return [float(x) for x in out.split()], errors.count("sparkcep compiles the kernels")


def test_kernels_are_kept_by_content(tmp_path):
    kept = tmp_path / "kept"
    together = [start(package(tmp_path / f"p{i}"), kept) for i in range(2)]
    answers = [answer(process) for process in together]
    assert sorted(values for values, _ in answers) == [[42, 0], [42, 1]]
    assert sum(told for _, told in answers) == 1  # the other one waited
    assert answer(start(package(tmp_path / "later"), kept)) == ([42, 0], 0)
    assert answer(start(package(tmp_path / "other_types"), kept, "7.5")) == ([45, 1], 1)
    assert answer(start(package(tmp_path / "other_constant", factor=5), kept)) == ([70, 1], 1)
    assert answer(start(package(tmp_path / "other_callee", CALLED.replace("2 * x", "4 * x")), kept)) == ([84, 1], 1)


def kernel_files(kept: Path) -> list[Path]:
    return sorted(kept.rglob("*.nbc"))


@pytest.mark.further  # a process for each damage, twice
def test_a_damaged_kernel_is_compiled_again(tmp_path):
    kept = tmp_path / "kept"
    answer(start(package(tmp_path / "one"), kept))
    whole = {path: path.read_bytes() for path in kernel_files(kept)}
    damages = {
        "empty": lambda data: b"",
        "short": lambda data: data[:-100],
        "garbled": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
    }
    for damage in damages.values():
        for path, data in whole.items():
            path.write_bytes(damage(data))
        assert answer(start(tmp_path / "one", kept)) == ([42, 1], 1)
        assert answer(start(tmp_path / "one", kept)) == ([42, 0], 0)
    assert kernel_files(kept) == list(whole) and whole


FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"


@pytest.mark.skipif(cache.fcntl is None, reason="no such limits and locks on Windows")
def test_a_kernel_that_cannot_be_saved_runs_all_the_same(tmp_path):
    kept = tmp_path / "kept"
    waits = PROGRAM.format(x=7) + "\nimport sys, time; sys.stdout.flush(); time.sleep(60)"
    full = start(package(tmp_path / "one"), kept, before=f"{FULL_DISK}{waits}\n")
    assert full.stdout.readline().split() == ["42", "1"]
    assert answer(start(tmp_path / "one", kept)) == ([42, 1], 1)  # which does not wait for the other, though that lives
    full.terminate()
    _, errors = full.communicate(timeout=30)
    assert errors.count("cannot be kept") == 1 and "File too large" in errors
    assert [path for path in kept.rglob("*") if ".tmp." in path.name] == []


def test_kernels_that_others_could_have_written_are_not_read(tmp_path):
    kept, temporary = tmp_path / "kept", tmp_path / "temporary"
    temporary.mkdir()
    answer(start(package(tmp_path / "one"), kept))
    ran = tmp_path / "ran"
    evil = f"cposix\nsystem\n(S'touch {ran}'\ntR.".encode()
    for path in kernel_files(kept):
        path.write_bytes(evil + hashlib.sha256(evil).digest())
        path.chmod(0o666)
    assert answer(start(tmp_path / "one", kept))[0] == [42, 1]
    assert not ran.exists()
    for variable in ("SPARKCEP_CACHE_DIR", "NUMBA_CACHE_DIR"):
        (folder := tmp_path / variable / "sparkcep" / "kernels").mkdir(parents=True)
        shutil.copytree(kept / "kernels", folder if variable.startswith("S") else folder.parent, dirs_exist_ok=True)
        for path in kernel_files(folder.parent):
            path.write_bytes(evil + hashlib.sha256(evil).digest())
        folder.parent.chmod(0o777)
        chosen = str(folder.parent if variable.startswith("S") else folder.parents[1])
        said = start(tmp_path / "one", kept, TMPDIR=str(temporary), **{variable: chosen})
        out, errors = said.communicate(timeout=120)
        assert out.startswith("42 ") and "is not used for what is compiled" in errors and not ran.exists()
    assert kernel_files(temporary)


def test_a_prepared_folder_is_read_where_it_cannot_be_written(tmp_path, monkeypatch):
    prepared, own = tmp_path / "prepared", tmp_path / "own"

    @cache.kernel
    def quadruple(x):
        return 4 * x

    def again(*folders: Path):
        monkeypatch.setattr(cache, "places", lambda: folders)
        return cache.kernel(quadruple.py_func)

    prepared.mkdir()
    first = again(prepared)
    assert first(2) == 8 and len(kernel_files(prepared)) == 1
    second = again(prepared, own)
    assert second(2) == 8 and sum(second.stats.cache_hits.values()) == 1 and kernel_files(own) == []
    assert second(2.5) == 10 and len(kernel_files(own)) == 1 and len(kernel_files(prepared)) == 1
    third = again(prepared, own)
    assert (third(2), third(2.5)) == (8, 10) and sum(third.stats.cache_misses.values()) == 0


def test_nothing_compiles_where_only_loading_is_allowed(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKCEP_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    storage.places.cache_clear()
    try:

        @cache.kernel
        def triple(x):
            return 3 * x

        with cache.loading_only(), pytest.raises(cache.NotCompiledError):
            triple(2)
        assert triple(2) == 6
    finally:
        storage.places.cache_clear()


def test_every_engine_is_compiled_ahead(capsys):
    assert cli.main(["compile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("s  ", 1)[1] for line in lines[:-1]] == list(precompile.CLAUSES)
    assert {strategy_of(make_plan(parse_clause(text))).search for text in precompile.CLAUSES.values()} == set(SEARCHES)


def test_kernels_that_nobody_uses_are_removed(tmp_path):
    old = time.time() - (old_kernels.KEPT_DAYS + 1) * 86_400
    names = ("kernels-0123456789abcdef", "windows-0123456789abcdef", "marked-0123456789abcdef", "somebody's own", "fresh-0123456789abcdef")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.nbc").write_text("")
        if not name.startswith("fresh"):
            os.utime(tmp_path / name, (old, old))
    old_kernels.mark(tmp_path / "marked-0123456789abcdef")
    old_kernels.mark(tmp_path / "absent")
    assert sorted(path.name for path in old_kernels.remove(tmp_path)) == sorted(names[:2])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[2:])


def test_loaded_kernels_are_marked(tmp_path):
    kept = tmp_path / "kept"
    answer(start(package(tmp_path / "one"), kept))
    (folder,) = kept.rglob("kernels_here-*")
    os.utime(folder, (1.0, 1.0))
    assert answer(start(tmp_path / "one", kept)) == ([42, 0], 0)
    assert folder.stat().st_mtime > 1e9
