"""A platform's wheel, built as docs/troubleshooting.md says and installed beside a Java runtime alone, in an empty home: nothing is
compiled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from sparkcep.spark.java import find_java_tool

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
COMMANDS = re.search(r"\*\*A wheel that brings both\.\*\*[^\n]*\n\n((?:    [^\n]*\n)+)", PAGE)[1]
# what a program of Spark's needs of a runtime, without a compiler
MODULES = "java.se,jdk.unsupported,jdk.crypto.ec,jdk.management,jdk.zipfs,jdk.security.auth,jdk.security.jgss,jdk.charsets,jdk.localedata,jdk.incubator.vector,jdk.net"
STATEMENTS = """
SELECT n FROM VALUES (1, 3), (2, 2), (3, 4) AS t(ts, v) MATCH_RECOGNIZE (ORDER BY ts MEASURES count(*) AS n PATTERN (A B+) DEFINE B AS v > PREV(v) OR v < A.v);
SELECT * FROM VALUES (1, 3), (2, 2), (3, 4) AS t(ts, v) MATCH_RECOGNIZE (ORDER BY ts MEASURES MATCH_ERRORS() AS e PATTERN (A B C) WINDOW 5 APPROX 1 DEFINE A AS v > 2, B AS v < 3, C AS v > 5)
"""


def run(command: list[str], folder: Path, **environment: str) -> str:
    """What a command writes; fails where the command does."""
    done = subprocess.run(command, cwd=folder, env=environment or None, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def python_of(folder: Path, *needed: str) -> str:
    """A new environment's Python, with what is needed there."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    # a checkout on PYTHONPATH would count as installed
    run([python, "-m", "pip", "install", "-q", *needed], folder, **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"})
    return python


@pytest.mark.skipif(find_java_tool("jlink") is None, reason="no jlink here, which makes a runtime without a compiler")
def test_a_wheel_needs_no_compiler(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".git", "build", "*.egg-info", "shipped", "__pycache__"))
    tools = tmp_path / "tools"
    (tools / "bin").mkdir(parents=True)
    (tools / "bin" / "sparkcep").write_text(f'#!/bin/sh\nexec {sys.executable} -m sparkcep "$@"\n', encoding="utf-8")
    (tools / "bin" / "sparkcep").chmod(0o755)
    builder = python_of(tmp_path / "builder", "build")
    path = f"{tools / 'bin'}:{Path(builder).parent}:{os.environ['PATH']}"
    run(["bash", "-euc", COMMANDS], source, **{**os.environ, "PATH": path, "PYTHONPATH": str(source)})
    (wheel,) = (source / "dist").glob("*.whl")

    runtime, home = tmp_path / "jre", tmp_path / "home"
    home.mkdir()
    run([str(find_java_tool("jlink")), "--add-modules", MODULES, "--output", str(runtime)], tmp_path)
    assert not (runtime / "bin" / "javac").exists()
    python = python_of(tmp_path / "fresh", f"{wheel}[spark]")
    alone = {"HOME": str(home), "JAVA_HOME": str(runtime), "PATH": f"{runtime / 'bin'}:/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1", "SPARKCEP_INTERPRET": "false"}
    shown = run([python, "-m", "sparkcep", "run", "-e", STATEMENTS], home, **alone)
    assert "|3  |" in shown and "|1  |" in shown and "javac" not in shown and "compil" not in shown.lower(), shown
    examined = run([python, "-m", "sparkcep", "doctor"], home, **alone)
    assert re.search(r"^ok    kernels +compiled$", examined, re.M) and "FIX " not in examined, examined
    shell = run([python, "-m", "sparkcep", "spark-sql", "-S", "-e", STATEMENTS.split(";")[0]], home, **alone)
    assert "3" in shell.splitlines(), shell
    kept = [path for path in home.rglob("*") if path.suffix in (".nbc", ".jar", ".nbi")]
    assert kept == [], "something was compiled"
