"""A cancelled query: its Python worker ends though a kernel is in a long loop, and the next query works. And workers come warm."""

from __future__ import annotations

import gc
import os
import threading
import time
from pathlib import Path

import pytest

from sparkcep.spark.session import warm_up

GROUP = "cancelled"
# 40 rows that all fulfil each condition: 2 ** 38 runs from the first row on, none of which completes, in one call of the kernel
LONG = """SELECT * FROM (SELECT id AS t, CAST(id AS DOUBLE) AS v FROM range(40)) MATCH_RECOGNIZE (
  ORDER BY t MEASURES count(*) AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B* C)
  DEFINE A AS v >= 0, B AS v >= A.v AND count(DISTINCT B.v) > 0, C AS count(DISTINCT B.v) < 0)"""
SHORT = """SELECT * FROM (SELECT id AS t FROM range(4)) MATCH_RECOGNIZE (ORDER BY t MEASURES count(*) AS n PATTERN (A+) DEFINE A AS t >= 0)"""

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are told apart by /proc")


def python_workers(jvm: int) -> dict[int, tuple[float, str]]:
    """Processor seconds and command line of each process that a daemon of Python workers forked."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            command = (path.parent / "cmdline").read_text().replace("\0", " ")
        except OSError:  # has ended meanwhile
            continue
        if fields[0] != "Z":
            found[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK"), command
    return {p: (used, command) for p, (parent, used, command) in found.items() if found.get(parent, (0,))[0] == jvm}


def eventually(condition, seconds: float = 60.0):
    """What ``condition`` gives once it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not so within {seconds} seconds")


@pytest.mark.further
def test_a_cancelled_query_ends_its_worker(spark):
    warm_up.wait(spark)
    spark.sql(LONG.replace("range(40)", "range(3)")).collect()  # kernels are compiled
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    before = python_workers(jvm)
    raised = []

    def query():
        spark.sparkContext.setJobGroup(GROUP, "a long query", interruptOnCancel=True)
        try:
            spark.sql(LONG).collect()
        except Exception as error:
            raised.append(error)

    def busy():
        return [p for p, (used, _) in python_workers(jvm).items() if used > before.get(p, (0.0,))[0] + 0.3]

    thread = threading.Thread(target=query)
    thread.start()
    (worker,) = eventually(busy)
    spark.sparkContext.cancelJobGroup(GROUP)
    thread.join(60)
    assert not thread.is_alive()
    assert "cancelled" in str(raised[0]).lower()
    eventually(lambda: worker not in python_workers(jvm))
    assert spark.sql(SHORT).collect()[0].n == 4


def test_workers_come_from_the_daemon_that_has_the_engine(spark):
    warm_up.wait(spark)
    assert spark.sparkContext._jsc.sc().conf().get(warm_up.DAEMON_KEY) == warm_up.DAEMON_MODULE
    spark.sql(SHORT).collect()
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    assert any(warm_up.DAEMON_MODULE in command for _, command in python_workers(jvm).values())


def test_workers_do_not_collect_what_the_daemon_loaded(spark):
    warm_up.wait(spark)
    frozen, tracked = spark.sparkContext.parallelize([0], 1).map(lambda _: (gc.get_freeze_count(), len(gc.get_objects()))).first()
    assert frozen > 50_000 > tracked  # a worker collects behind each task
