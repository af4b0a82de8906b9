"""A cluster of Spark's own kind on this machine, of processes of its own: a master and workers. And programs that run there.

The executors take sparkcep from the archive of ``sparkcep pack``.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkcep.cli import pack
from sparkcep.spark.session.jar import find_spark_home

try:
    import pwd
except ImportError:  # Windows
    pwd = None

_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
HEAD = """
import json, sys, threading, time
from pyspark.sql import SparkSession
import sparkcep
master, settings = sys.argv[1], json.loads(sys.argv[2])
def start(master=master, **more):
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "8")
    for key, value in {**settings, **{k.replace("__", "."): v for k, v in more.items()}}.items():
        builder = builder.config(key, value)
    spark = sparkcep.enable(builder.getOrCreate(), warm=False)
    spark.sparkContext.setLogLevel("OFF")
    return spark
CLAUSE = '''MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES FIRST(t) AS a, LAST(t) AS b, sum(UP.v) AS s
  AFTER MATCH SKIP TO LAST UP PATTERN (STRT DOWN+ UP+) DEFINE DOWN AS v < PREV(v), UP AS v > PREV(v))'''
def rows(spark, partitions, each):
    spark.range(partitions * each).selectExpr(f"id div {each} AS k", f"id % {each} AS t", "pmod(xxhash64(id), 100) AS v").createOrReplaceTempView("t")
def answer(spark):
    return list(spark.sql(f"SELECT count(*), sum(xxhash64(k, a, b, s) div 1000) FROM t {CLAUSE}").first())
"""


@contextmanager
def standalone(folder: Path, workers: int = 2, cores: int = 2, pinned: bool = False, user: User | None = None, hosts: bool = False):
    """The address of the master of a cluster, while it runs. Its files go to ``folder``. ``pinned``: each worker, with all that it
    starts, has one of the machine's processors for itself (Linux). ``user``: who runs the workers, and so their executors.
    ``hosts``: each worker has an address of its own (127.0.0.2 and so on, Linux), so Spark takes them for two hosts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    commands = [[_MASTER, "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    commands += [[_WORKER, url, "--host", f"127.0.0.{2 + i if hosts else 1}", "--cores", str(cores), "--memory", "3g", "--webui-port", "0", "--work-dir", str((user.own(folder / f"work{i}") if user else folder / f"work{i}"))] for i in range(workers)]
    home = find_spark_home()
    environment = {**{k: v for k, v in os.environ.items() if k != "PYTHONPATH"}, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable}
    started = []
    try:
        for i, command in enumerate(commands):
            log = (folder / f"daemon{i}.log").open("w")
            own = user if user is not None and i > 0 else None
            command = [*(own.command() if own else []), str(Path(home, "bin", "spark-class")), *command]
            started.append(subprocess.Popen(command, cwd=folder, env=environment | (own.environment() if own else {}), stdout=log, stderr=log))
            if pinned and i > 0:  # the first is the master
                os.sched_setaffinity(started[-1].pid, {sorted(os.sched_getaffinity(0))[i - 1]})
            _await(port)
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


@dataclass(frozen=True)
class User:
    """A user of the system without rights, with an empty ``home``, and with a ``python`` that has what sparkcep needs and lacks
    sparkcep."""

    name: str
    home: Path
    python: Path

    @classmethod
    def made(cls, folder: Path, name: str = "nobody") -> User:
        """Copies this interpreter to ``folder``, since that of root may lie where nobody else can read. Skips the test where it
        cannot."""
        if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("setpriv") is None:
            pytest.skip("only root can run executors as another user, by setpriv")
        libraries = {Path(importlib.import_module(module).__file__).parents[1] for module in ("numba", "pyspark", "pyarrow", "sqlglot")}
        if any((path / "sparkcep").exists() for path in libraries):
            pytest.skip("sparkcep is installed beside its libraries, so each Python that has these has it, too")
        ours, copy = Path(sysconfig.get_path("stdlib")), folder / "python"
        shutil.copytree(ours, copy / "lib" / ours.name, ignore=shutil.ignore_patterns("site-packages", "test", "__pycache__"))
        for library in Path(sysconfig.get_config_var("LIBDIR")).glob("libpython3*.so*"):
            shutil.copy2(library, copy / "lib")
        (copy / "bin").mkdir()
        shutil.copy2(Path(sys.executable).resolve(), copy / "bin" / "python")
        folder.chmod(0o755)
        python = folder / "bin" / "python3"
        python.parent.mkdir()
        lines = [f"export PYTHONHOME={copy} LD_LIBRARY_PATH={copy}/lib", f'export PYTHONPATH="$PYTHONPATH:{":".join(map(str, libraries))}"', f'exec {copy}/bin/python "$@"']
        python.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
        python.chmod(0o755)
        user = cls(name, folder / "home", python)
        user.own(user.home)
        if subprocess.run([*user.command(), str(python), "-c", "import numba, pyspark"], cwd=folder, env=os.environ | user.environment(), capture_output=True).returncode:
            pytest.skip(f"{name} cannot read the libraries of this Python")
        return user

    def command(self) -> list[str]:
        """The head of a command that this user runs."""
        found = pwd.getpwnam(self.name)
        return ["setpriv", f"--reuid={found.pw_uid}", f"--regid={found.pw_gid}", "--clear-groups"]

    def environment(self) -> dict[str, str]:
        """The variables that are this user's own; ``python3`` of the PATH is this user's Python."""
        return {"HOME": str(self.home), "PATH": f"{self.python.parent}:{os.environ['PATH']}", "PYSPARK_PYTHON": str(self.python)}

    def own(self, folder: Path) -> Path:
        """Makes a folder of this user's."""
        folder.mkdir()
        shutil.chown(folder, self.name)
        return folder


def _await(port: int, seconds: float = 90) -> None:
    """Waits until somebody listens."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(f"nobody listens at {port}")


def settings_of(archive: Path) -> dict[str, str]:
    """Settings of sessions on such a cluster: small executors of one core each."""
    small = {"spark.executor.cores": "1", "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {**pack.settings(archive), **small, "spark.executorEnv.SPARKCEP_CACHE_DIR": str(archive.parent / "cache")}


def run(program: str, master: str, settings: dict[str, str], seconds: float = 1500, python: str | None = sys.executable) -> str:
    """Returns the output of a program, and fails if the program does. It runs with this checkout's package. ``python``:
    PYSPARK_PYTHON; None if it is not set."""
    kept = {k: v for k, v in os.environ.items() if k != "PYSPARK_PYTHON"} | ({} if python is None else {"PYSPARK_PYTHON": python})
    environment = {**kept, "PYTHONPATH": str(Path(__file__).parents[3]), "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", HEAD + program, master, json.dumps(settings)], env=environment, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout
