"""Spark's own programs, started as a user starts them, for the tests of the shell, of the thrift server and of dbt."""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sparkcep.spark.java import find_java_tool

needs_javac = pytest.mark.skipif(find_java_tool("javac") is None, reason="no Java compiler here")

SPARKCEP = [sys.executable, "-m", "sparkcep"]
SMALL = [
    "--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2",
    "--conf", "spark.sql.session.timeZone=UTC", "--driver-memory", "1g",
]  # fmt: skip
# every start of Java says what Spark's scripts turned on
_NOISE = re.compile(r"WARNING: Using incubator modules|Picked up |Using Spark's default log4j|Setting default log level|To adjust")


def environment(**more: str) -> dict[str, str]:
    """This process's variables without those by which a test run chooses Pythons and Sparks; how Java compiles stays."""
    java = "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"
    kept = {k: v for k, v in os.environ.items() if k in java or not k.startswith(("PYSPARK_", "SPARK_", "PYTHONPATH"))}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", **more}


def connected(client: str, arguments: list[str], folder: Path, report: Path, seconds: float = 400) -> Any:
    """What a program, a client of Spark Connect with a server of its own, reports as JSON."""
    path = os.pathsep.join(p for p in sys.path if p)
    variables = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    variables.pop("SPARK_REMOTE", None)
    log = folder / "client.log"
    with log.open("wb") as sink:  # no pipe: the server's JVM would hold it open
        subprocess.run([sys.executable, "-c", client, *arguments], cwd=folder, env=variables, stdout=sink, stderr=sink, timeout=seconds, check=False)
    assert report.exists(), log.read_text()[-4000:]
    return json.loads(report.read_text())


def helpers(of: int) -> list[int]:
    """The rewriter processes that the JVM ``of`` started; ``-ww``: whole command lines, however narrow $COLUMNS is."""
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    found = (line.split(None, 2) for line in listed.splitlines() if "sparkcep.spark.session.rewrite_service" in line)
    return [int(pid) for pid, parent, _ in found if int(parent) == of]


def wait_until_gone(pid: int, seconds: float = 20) -> bool:
    """Whether the process ``pid`` ends in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
        if not state or (state.startswith("Z") and "l" not in state):  # l: another of its threads still holds the pipes open
            return True
        time.sleep(0.1)
    return False


def as_hive_writes(expected: str) -> str:
    """The text of an ``.expected`` file, in which lists stand as Python writes them, as Spark's shell has it."""
    lines = (line.split("\t") for line in expected.splitlines())
    return "".join("\t".join(_cell(c) for c in line) + "\n" for line in lines)


def _cell(text: str) -> str:
    if text in ("True", "False"):
        return text.lower()
    return json.dumps(ast.literal_eval(text), separators=(",", ":")) if text.startswith("[") else text


class Shell:
    """An interactive spark-sql, fed and read through pipes."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*SPARKCEP, "spark-sql", *SMALL, "--hiveconf", "spark.sql.cli.print.header=true", *arguments],
            cwd=folder, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.asked = 0
        self.watch = threading.Timer(600, self.process.kill)  # a shell that hangs ends the tests with an error
        self.watch.start()

    def run(self, statement: str) -> str:
        """What the shell writes for ``statement``: rows with their header, or an error."""
        self.asked += 1
        end = f"the end of {self.asked}"
        self.process.stdin.write(f"{statement.rstrip().rstrip(';')}\n;\nSELECT '{end}' AS e;\n".encode())
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            line = line.decode().rstrip("\n")
            if line == end:
                # the header of the marker's own row goes with it
                return "".join(f"{x}\n" for x in lines[:-1])
            # the shell repeats what it reads, behind its prompts, long lines with a \\r at each 80th character
            if not re.match(r"spark-sql \(|Time taken: |\s*> ", line) and not _NOISE.match(line) and " WARN " not in line:
                lines.append(line)
        raise EOFError("the shell ended: " + "\n".join(lines[-30:]))

    @property
    def helper(self) -> int:
        (pid,) = helpers(self.process.pid)
        return pid

    def kill(self) -> None:
        self.watch.cancel()
        self.process.kill()
        self.process.wait(30)
        self.process.stdin.close()
        self.process.stdout.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ThriftServer:
    """``sparkcep thriftserver`` on a free port of this machine."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.log = folder / "server.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*SPARKCEP, "thriftserver", *SMALL, "--hiveconf", f"hive.server2.thrift.port={self.port}"],
                cwd=folder,
                env=environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        # as long as all tests between its first user and its last may take
        self.watch = threading.Timer(1800, self.process.kill)
        self.watch.start()
        until = time.monotonic() + 180
        while not self.accepts("127.0.0.1"):
            if self.process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"the server did not start:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.2)

    def accepts(self, host: str) -> bool:
        try:
            socket.create_connection((host, self.port), timeout=2).close()
        except OSError:
            return False
        return True

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def session(self):
        """A cursor of a new session."""
        from pyhive import hive

        return hive.connect("127.0.0.1", self.port).cursor()

    def stop(self) -> None:
        self.watch.cancel()
        self.process.terminate()
        self.process.wait(60)
