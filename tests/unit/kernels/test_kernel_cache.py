"""Compiled kernels: equal sources compile once, whatever folder they lie in and however many processes need them."""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sparkcep
from sparkcep import precompile, storage
from sparkcep.clause.parser import parse_clause
from sparkcep.cli import cli
from sparkcep.compiler.searches import SEARCHES
from sparkcep.compiler.strategy import strategy_of
from sparkcep.engine.factory import match_table
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.jit import cache, eviction, fallback, locks
from sparkcep.plan.build import make_plan

PACKAGE = Path(sparkcep.__file__).parent
# `doubled` is called by the kernel `gap`, and FACTOR is a constant of another module
CALLED = "from sparkcep.kernels.jit.cache import kernel\n\n\n@kernel\ndef doubled(x):\n    return 2 * x\n"
KERNELS = """from sparkcep.kernels.jit.cache import kernel
from sparkcep.kernels.jit.called import doubled
from sparkcep.kernels.jit.constants import FACTOR


@kernel
def gap(x):
    return FACTOR * doubled(x)
"""
PROGRAM = """from sparkcep.kernels.jit.kernels_here import gap
print(gap({x}), sum(gap.stats.cache_misses.values()))"""


def package(folder: Path, called: str = CALLED, factor: int = 3) -> Path:
    """A sparkcep in ``folder`` that holds nothing but the cache and two kernels."""
    jit = folder / "sparkcep" / "kernels" / "jit"
    jit.mkdir(parents=True)
    for name in ("storage.py", "processes.py", "background.py", "garbage_collection.py", *(f"kernels/jit/{n}.py" for n in ("cache", "linking", "eviction", "numba_pipeline", "locks", "fallback", "fallback_arithmetic", "background", "linked_once", "numba_internals", "signatures", "digest"))):
        shutil.copy(PACKAGE / name, folder / "sparkcep" / name)
    for path, text in {"../../__init__": "", "../__init__": "", "__init__": "", "called": called, "kernels_here": KERNELS, "constants": f"FACTOR = {factor}\n"}.items():
        (jit / f"{path}.py").write_text(text)
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


@pytest.mark.further
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


APART = CALLED.replace("import kernel", "import separate").replace("@kernel", '@separate("int64(int64)")')
ABOVE = APART + """

@separate("int64(int64)")
def quadrupled(x):
    return 2 * doubled(x)
"""


@pytest.mark.further
def test_a_kernel_that_others_call_where_it_is(tmp_path):
    """Its machine code is a file of its own, which is loaded, or compiled again, before what calls it."""
    kept = tmp_path / "kept"
    together = [start(package(tmp_path / f"p{i}", APART), kept) for i in range(2)]
    assert sorted(values for values, _ in map(answer, together)) == [[42, 0], [42, 1]]
    (apart,) = kept.rglob("*-shared*")
    assert answer(start(package(tmp_path / "later", APART), kept)) == ([42, 0], 0)
    for damage in (lambda: apart.unlink(), lambda: apart.write_bytes(apart.read_bytes()[:-100])):
        damage()
        assert answer(start(tmp_path / "later", kept)) == ([42, 0], 1)  # the entry is loaded, and what it calls compiled
        assert answer(start(tmp_path / "later", kept)) == ([42, 0], 0)
    assert answer(start(package(tmp_path / "other", APART.replace("2 * x", "4 * x")), kept)) == ([84, 1], 1)
    _, errors = start(tmp_path / "later", kept, "7.5").communicate(timeout=120)
    assert "doubled takes (int64), and not (float64)" in errors
    wrong = start(package(tmp_path / "wrong", APART.replace("int64(int64)", "float64(int64)")), kept).communicate(timeout=120)
    assert "doubled returns int64, and not float64" in wrong[1]


@pytest.mark.further
def test_kernels_that_stand_apart_above_one_another(tmp_path):
    """What was read from a file has all loaded that is below it."""
    kept = tmp_path / "kept"
    folder = package(tmp_path / "one", ABOVE)
    entry = folder / "sparkcep" / "kernels" / "jit" / "kernels_here.py"
    entry.write_text(KERNELS.replace("doubled", "quadrupled"))
    for misses in (1, 0):
        assert answer(start(folder, kept)) == ([84, misses], misses)
    entry.write_text(KERNELS.replace("doubled", "quadrupled").replace("return", "return 1 +"))  # over a kernel that stands apart from disk
    for misses in (1, 0):
        assert answer(start(folder, kept)) == ([85, misses], misses)


@pytest.mark.further
def test_who_waits_for_an_entry_compiles_what_stands_apart(tmp_path):
    kept = tmp_path / "kept"
    folder = package(tmp_path / "one", APART)
    answer(start(folder, kept))
    (entry,) = kept.rglob("*gap*.nbc")
    (apart,) = kept.rglob("*-shared*")
    entry.unlink()
    apart.unlink()
    ours = locks.Locks()
    assert ours.free(entry)
    waiting = start(folder, kept)
    end = time.monotonic() + 60
    while not apart.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert apart.exists() and not entry.exists() and waiting.poll() is None
    ours.give(entry)
    assert answer(waiting) == ([42, 1], 1)


BETWEEN = APART + """

from sparkcep.kernels.jit.cache import kernel


@kernel
def middle(x):
    return doubled(x) + 1
"""
TWO = """from sparkcep.kernels.jit.cache import kernel
from sparkcep.kernels.jit.called import middle


@kernel
def gap(x):
    return middle(x)


@kernel
def other(x):
    return 10 * middle(x)
"""


@pytest.mark.further
def test_what_kernels_call_is_loaded_below_kernels_that_were_kept(tmp_path):
    """An entry over an inner kernel from disk says, too, what is loaded before it."""
    folder, kept = package(tmp_path / "one", BETWEEN), tmp_path / "kept"
    (folder / "sparkcep" / "kernels" / "jit" / "kernels_here.py").write_text(TWO)
    for name, value in (("gap", 15), ("other", 150)):
        for misses in (1, 0):
            program = f"from sparkcep.kernels.jit.kernels_here import {name}\nprint({name}(7), sum({name}.stats.cache_misses.values()))\nraise SystemExit\n"
            assert answer(start(folder, kept, before=program)) == ([value, misses], misses)


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


@pytest.mark.further
@pytest.mark.skipif(locks.fcntl is None, reason="no such limits and locks on Windows")
def test_a_kernel_that_cannot_be_saved_runs_all_the_same(tmp_path):
    kept = tmp_path / "kept"
    waits = PROGRAM.format(x=7) + "\nimport sys, time; sys.stdout.flush(); time.sleep(60)"
    full = start(package(tmp_path / "one"), kept, before=f"{FULL_DISK}{waits}\n", PYTHONDONTWRITEBYTECODE="1")  # which the disk has no room for, too
    assert full.stdout.readline().split() == ["42", "1"]
    assert answer(start(tmp_path / "one", kept)) == ([42, 1], 1)  # which does not wait for the other, though that lives
    full.terminate()
    _, errors = full.communicate(timeout=30)
    assert errors.count("cannot be cached") == 1 and "File too large" in errors
    assert [path for path in kept.rglob("*") if ".tmp." in path.name] == []


@pytest.mark.further
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
        assert out.startswith("42 ") and "is not used for compiled code" in errors and not ran.exists()
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


@pytest.mark.further
def test_every_engine_is_compiled_ahead(capsys):
    assert cli.main(["compile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("s  ", 1)[1] for line in lines[:-1]] == list(precompile.CLAUSES)
    assert {strategy_of(make_plan(parse_clause(text))).search for text in precompile.CLAUSES.values()} == set(SEARCHES)


def test_kernels_that_nobody_uses_are_removed(tmp_path):
    old = time.time() - (eviction.KEPT_DAYS + 1) * 86_400
    names = ("kernels-0123456789abcdef", "windows-0123456789abcdef", "marked-0123456789abcdef", "somebody's own", "fresh-0123456789abcdef")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.nbc").write_text("")
        if not name.startswith("fresh"):
            os.utime(tmp_path / name, (old, old))
    eviction.mark(tmp_path / "marked-0123456789abcdef")
    eviction.mark(tmp_path / "absent")
    assert sorted(path.name for path in eviction.remove(tmp_path)) == sorted(names[:2])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[2:])


@pytest.mark.further
def test_loaded_kernels_are_marked(tmp_path):
    kept = tmp_path / "kept"
    answer(start(package(tmp_path / "one"), kept))
    (folder,) = kept.rglob("kernels_here-*")
    os.utime(folder, (1.0, 1.0))
    assert answer(start(tmp_path / "one", kept)) == ([42, 0], 0)
    assert folder.stat().st_mtime > 1e9


# -- kernels that are not compiled yet --------------------------------------------------------------------------


@pytest.mark.further
def test_small_inputs_are_interpreted_while_kernels_are_compiled(tmp_path):
    kept = tmp_path / "kept"
    asks = start(package(tmp_path / "one"), kept, SPARKCEP_INTERPRET="true")
    assert answer(asks) == ([42, 0], 0)
    end = time.monotonic() + 60
    while list(kept.rglob("*.request")) and time.monotonic() < end:
        time.sleep(0.1)
    assert len(kernel_files(kept)) == 2  # gap and doubled, which go on to be compiled when who asked has ended
    assert answer(start(tmp_path / "one", kept, SPARKCEP_INTERPRET="true")) == ([42, 0], 0)


@pytest.mark.further
def test_who_asks_compiles_what_the_background_could_not(tmp_path):
    kept, folder = tmp_path / "kept", package(tmp_path / "one")
    (folder / "sparkcep" / "background.py").write_text("import pathlib, sys\nfor path in pathlib.Path(sys.argv[1]).iterdir():\n    path.unlink()\n")
    twice = f"{PROGRAM.format(x=7)}\nimport time\ntime.sleep(1)\n"
    assert answer(start(folder, kept, before=twice, SPARKCEP_INTERPRET="true")) == ([42, 0, 42, 1], 1)


@pytest.mark.further
def test_a_package_may_bring_kernels_for_any_processor(tmp_path):
    generic = start(package(tmp_path / "one"), tmp_path / "built", NUMBA_CPU_NAME="generic")
    assert answer(generic) == ([42, 1], 1)
    shutil.copytree(tmp_path / "built" / "kernels", tmp_path / "one" / "sparkcep" / "shipped" / "kernels")
    assert answer(start(tmp_path / "one", tmp_path / "kept")) == ([42, 0], 0)
    assert kernel_files(tmp_path / "kept") == []


def test_what_takes_too_long_is_given_up_and_undone():
    values = np.arange(10_000)
    with pytest.raises(fallback.TooLongError):
        fallback.call(squares, values, seconds=0)
    assert values.tolist() == list(range(10_000))
    assert fallback.call(squares, values[:3]) == 3 and values[:4].tolist() == [0, 1, 4, 3]


@cache.kernel
def squares(values):
    for i in range(values.shape[0]):
        values[i] *= values[i]
    return values.shape[0]


@pytest.mark.process
def test_interpreted_kernels_give_what_compiled_ones_give(tmp_path):
    program = "import pickle, sys\nfrom tests.unit.kernels import test_kernel_cache as t\nsys.stdout.buffer.write(pickle.dumps(list(t.answers())))"
    environment = os.environ | {"SPARKCEP_INTERPRET": "always", "SPARKCEP_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True, timeout=300)
    assert kernel_files(tmp_path) == []
    for (name, here), (_, there) in zip(answers(), pickle.loads(done.stdout), strict=True):
        assert here == there, name


def answers():
    """(name, rows or error) for each clause that is compiled ahead, over rows with the greatest and least values, NaN and NULL."""
    for name, text in precompile.CLAUSES.items():
        plan = make_plan(parse_clause(text))
        for usual in precompile.tables(plan):
            for table in (usual, extreme(usual)):
                try:
                    yield name, repr(match_table(plan, table).to_pylist())
                except MatchRuntimeError as error:
                    yield name, str(error)


def extreme(table: pa.Table) -> pa.Table:
    """The same rows in the same order, with values at the ends of their types in every other column but those of keys and order."""
    ends = {pa.int32(): [2**31 - 1, -(2**31), 0, None], pa.float64(): [math.inf, -math.inf, math.nan, -0.0, 1.7e308, None]}
    for i, field in enumerate(table.schema):
        if field.type in ends and not field.name.startswith("__o"):
            values = ends[field.type]
            table = table.set_column(i, field, pa.array([values[row * 5 % len(values)] for row in range(table.num_rows)], field.type))
    return table


def test_order_columns_of_all_whole_types_need_the_same_kernels(monkeypatch):
    """A kernel is compiled for whether an array can be written. What comes from a BIGINT or TIMESTAMP column cannot."""
    import pyarrow as pa
    from numba import typeof

    from sparkcep.engine.core import windows
    from sparkcep.plan.options import MICROS, NUMBER, ROWS
    from sparkcep.plan.records import Window

    asked, positions, offsets = set(), np.arange(4), np.array([0, 4])
    monkeypatch.setattr(windows.searching, "whole_windows", lambda values, *rest: asked.add(typeof(values)))
    numbers = [(NUMBER, pa.array([1, 2, 2, 3], t)) for t in (pa.int8(), pa.int32(), pa.int64())]
    times = [(MICROS, pa.array([1, 2, 2, 3], pa.int32()).cast(pa.date32())), (MICROS, pa.array([1, 2, 2, 3], pa.int64()).cast(pa.timestamp("us")))]
    with_null = [(NUMBER, pa.array([1, 2, None, 3], t)) for t in (pa.int32(), pa.int64())]
    for kind, column in [*numbers, *times, *with_null, (ROWS, None)]:
        window = Window(kind, "2", "" if column is None else "c", 0, 0, "")
        for descending in (False, True):
            asked.add(typeof(windows.measured(window, column, positions, descending).when))
        asked.add(typeof(windows.window_measure(window, column, positions)[0]))
        windows.window_ends(kind, "2", column, offsets)
    assert len(asked) == 1
