"""Streams on a cluster of two hosts where tasks run twice: Spark speculates on tasks whose Python workers are halted."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.spark.exec.cluster import standalone  # noqa: E402
from tests.spark.stream.test_streams import SCHEMA, behind, put  # noqa: E402
from tests.spark.stream.test_streams import STATEMENTS as BASIC  # noqa: E402
from tests.spark.stream.test_streams_faults import PROGRAM, Run  # noqa: E402
from tests.spark.stream.test_streams_wide import STATEMENTS as WIDE  # noqa: E402

KEYS, ROWS, FILES = 200, 3_000, 3
STATEMENTS = {name: statement for name, statement in WIDE.items() if name != "arcs"} | {"v": BASIC["v"]}
# Spark runs a second attempt of a task on another host only. The threshold is for stages of so few tasks that none ends first.
SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.task.duration.threshold": "5s",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}
BESIDE, PARTITIONS = '.config("spark.ui.enabled", "false")', '"spark.sql.shuffle.partitions", "2"'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone(tmp_path_factory.mktemp("cluster"), hosts=True) as url:
        yield url


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory) -> Path:
    folder, rng = tmp_path_factory.mktemp("speculation"), random.Random(6)
    (folder / "in").mkdir()
    for number in range(FILES):
        rows = range(number * ROWS, (number + 1) * ROWS)
        put(folder / "in", number, [{"symbol": f"k{rng.randrange(KEYS)}", "at": 100 + n * 100 // ROWS + rng.randint(0, 8), "n": n, "price": rng.randint(0, 9), "f": None} for n in rows])
    put(folder / "in", FILES, [{"symbol": "last", "at": 200_000, "n": FILES * ROWS, "price": 0, "f": None}])
    spark.read.schema(SCHEMA).json(str(folder / "in")).createOrReplaceTempView("speculated")
    return folder


class Halted:
    """Halts the Python workers of one host, that of the first worker which is seen, until they are released."""

    def __init__(self) -> None:
        self.host, self.pids = "", set()

    def workers(self) -> dict[int, str]:
        """The process numbers of Python workers, and the address of the executor above each."""
        commands, parents = {}, {}
        for line in subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout.splitlines():
            pid, parent, command = line.split(None, 2)
            commands[int(pid)], parents[int(pid)] = command, int(parent)

        def address(pid: int) -> str:
            while pid in parents:
                if found := re.search(r"--hostname (127\.0\.0\.[23]) ", commands[pid]):
                    return found[1]
                pid = parents[pid]
            return ""

        return {pid: host for pid, command in commands.items() if "daemon" in command and "python" in command and (host := address(pid))}

    def halt(self) -> None:
        for pid, host in self.workers().items():
            self.host = self.host or host
            if host == self.host and pid not in self.pids:
                os.kill(pid, signal.SIGSTOP)
                self.pids.add(pid)

    def release(self) -> None:
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue  # Spark has killed the worker of the attempt that lost


def attempts(events: Path) -> Counter[str]:
    """How many tasks ended, by their end reason in Spark's event logs. Second attempts are counted apart."""
    found: Counter[str] = Counter()
    for path in events.rglob("*"):
        for line in path.read_text(errors="replace").splitlines() if path.is_file() else ():
            if '"SparkListenerTaskEnd"' in line:
                event = json.loads(line)
                found[("second attempt: " if event["Task Info"]["Speculative"] else "") + event["Task End Reason"]["Reason"]] += 1
    return found


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="each worker has a loopback address of its own")
@pytest.mark.parametrize("route", ["operator", "frames"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_tasks_that_run_twice(spark, cluster, folder, tmp_path, monkeypatch, capsys, route, name):
    (tmp_path / "in").symlink_to(folder / "in")
    (tmp_path / "events").mkdir()
    settings = SETTINGS | {"spark.eventLog.dir": (tmp_path / "events").as_uri()}
    program = PROGRAM.replace(BESIDE, BESIDE + "".join(f'.config("{key}", "{value}")' for key, value in settings.items()))
    assert BESIDE in PROGRAM and PARTITIONS in PROGRAM
    program = program.replace(PARTITIONS, PARTITIONS.replace("2", "8"))
    monkeypatch.setattr("tests.spark.stream.test_streams_faults.PROGRAM", program)
    with Run(tmp_path, cluster, route, STATEMENTS[name]) as run:
        run.wait(lambda: run.under_way(1))
        halted, until = Halted(), time.monotonic() + 300
        try:
            while not (run.logs / "commits" / "1").exists():
                assert run.process.poll() is None and time.monotonic() < until, (tmp_path / "log").read_text()[-3000:]
                halted.halt()
                time.sleep(0.05)
        finally:
            halted.release()
        assert run.process.wait(600) == 0, (tmp_path / "log").read_text()[-3000:]
    expected = Counter(str(row) for row in spark.sql(STATEMENTS[name].format(t="speculated")).collect() if not behind(row))
    got = Counter(str(row) for row in spark.read.parquet(str(tmp_path / "out")).collect() if not behind(row))
    ended = attempts(tmp_path / "events")
    with capsys.disabled():
        print(f"{route}, {name}: {expected.total()} matches, {dict(ended)}")
    assert got == expected and expected
    assert ended["second attempt: Success"], ended
