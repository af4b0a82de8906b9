"""Compiled kernels: equal sources compile once, whatever folder they lie in and however many processes need them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sparkcep
from sparkcep import cli, compiling
from sparkcep.engines import cache, unused
from sparkcep.engines.run import engine_for, prepare
from sparkcep.pattern.plan import make_plan
from sparkcep.sql.parser import parse_clause

PACKAGE = Path(sparkcep.__file__).parent
# `doubled` is called by the kernel `gap`, and FACTOR is a constant of another module
CALLED = "from sparkcep.engines.cache import kernel\n\n\n@kernel\ndef doubled(x):\n    return 2 * x\n"
KERNELS = """from sparkcep.engines.cache import kernel
from sparkcep.engines.called import doubled
from sparkcep.engines.constants import FACTOR


@kernel
def gap(x):
    return FACTOR * doubled(x)
"""
PROGRAM = """from sparkcep.engines.kernels_here import gap
print(gap({x}), sum(gap.stats.cache_misses.values()))"""


def package(folder: Path, called: str = CALLED, factor: int = 3) -> Path:
    """A sparkcep in ``folder`` that holds nothing but the cache and two kernels."""
    engines = folder / "sparkcep" / "engines"
    engines.mkdir(parents=True)
    for name in ("storage.py", "engines/cache.py", "engines/unused.py"):
        shutil.copy(PACKAGE / name, folder / "sparkcep" / name)
    for path, text in {"../__init__": "", "__init__": "", "called": called, "kernels_here": KERNELS, "constants": f"FACTOR = {factor}\n"}.items():
        (engines / f"{path}.py").write_text(text)
    return folder


def start(folder: Path, kept: Path, x: str = "7") -> subprocess.Popen:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(x=x)],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(folder), "SPARKCEP_CACHE_DIR": str(kept)},
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


def test_nothing_compiles_where_only_loading_is_allowed(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKCEP_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    cache.root.cache_clear()
    try:

        @cache.kernel
        def triple(x):
            return 3 * x

        with cache.loading_only(), pytest.raises(cache.NotCompiledError):
            triple(2)
        assert triple(2) == 6
    finally:
        cache.root.cache_clear()


def test_every_engine_is_compiled_ahead(capsys):
    assert cli.main(["compile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("s  ", 1)[1] for line in lines[:-1]] == list(compiling.CLAUSES)
    engines = set()
    for text in compiling.CLAUSES.values():
        plan = make_plan(parse_clause(text))
        engines.add(type(engine_for(prepare(plan, next(compiling._tables(plan)).schema))).__name__)
    assert engines >= {
        *("MatchEngine", "SelectionEngine", "MergedEngine", "ConjunctionEngine", "ProxyEngine", "ClassProxyEngine", "ApproximateEngine"),
        *("RankedEngine", "JoinedEngine", "ConjoinedEngine"),
    }


def test_kernels_that_nobody_uses_are_removed(tmp_path):
    old = time.time() - (unused.KEPT_DAYS + 1) * 86_400
    names = ("kernels-0123456789abcdef", "windows-0123456789abcdef", "marked-0123456789abcdef", "somebody's own", "fresh-0123456789abcdef")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.nbc").write_text("")
        if not name.startswith("fresh"):
            os.utime(tmp_path / name, (old, old))
    unused.mark(tmp_path / "marked-0123456789abcdef")
    unused.mark(tmp_path / "absent")
    assert sorted(path.name for path in unused.remove(tmp_path)) == sorted(names[:2])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[2:])


def test_loaded_kernels_are_marked(tmp_path):
    kept = tmp_path / "kept"
    answer(start(package(tmp_path / "one"), kept))
    (folder,) = kept.rglob("kernels_here-*")
    os.utime(folder, (1.0, 1.0))
    assert answer(start(tmp_path / "one", kept)) == ([42, 0], 0)
    assert folder.stat().st_mtime > 1e9
