"""Right rows, or a clear error, where executors are lost, disks are full and settings are unusual; and sizes that were seen to
hold.

Each application is a process of its own, because what is tried is fixed when Spark starts. Its rows are compared with what plain
Python finds.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import sparkcep  # noqa: E402
from sparkcep.spark.session.jar import find_spark_home  # noqa: E402
from tests.spark.programs import needs_javac, wait_until_gone  # noqa: E402

pytestmark = pytest.mark.slow

ROOT = Path(sparkcep.__file__).resolve().parents[1]
# what each application begins with: a session, a table, and rising runs of it by SQL and by plain Python
PRELUDE = '''
import json, os, signal, subprocess, sys, threading, time
from pyspark.sql import SparkSession
import sparkcep

def value(i):
    return i * 37 % 101 % 11

def start(master="local[2]", **settings):
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "4").config("spark.log.level", "ERROR")
    for key, text in settings.items():
        builder = builder.config(key.replace("__", "."), text)
    spark = sparkcep.enable(builder.getOrCreate(), warm=False)
    spark.sql("CREATE TEMP VIEW t AS SELECT id, id * 37 % 101 % 11 AS v FROM range(3000)")
    return spark

def clause(keys, rows="", more=""):
    return (f"SELECT * FROM (SELECT id % {keys} AS k, id, v {more} FROM t) MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES "
            f"MATCH_NUMBER() AS m, FIRST(id) AS f, count(*) AS n {rows} PATTERN (A B*) DEFINE B AS v > PREV(v) AND v >= A.v)")

def runs(keys, all_rows=False, count=3000):
    out = []
    for k in range(keys):
        number, first, length, before = 0, None, 0, None
        for i in range(k, count, keys):
            if before is not None and value(i) > before:
                length += 1
            else:
                if first is not None and not all_rows:
                    out.append((k, number, first, length))
                number, first, length = number + 1, i, 1
            before = value(i)
            if all_rows:
                out.append((k, i, number, first, length))
        if first is not None and not all_rows:
            out.append((k, number, first, length))
    return sorted(out)

def found(spark, keys, all_rows=False):
    query = clause(keys, "ALL ROWS PER MATCH" if all_rows else "")
    return sorted(tuple(r) for r in spark.sql(f"SELECT {'k, id, m, f, n' if all_rows else '*'} FROM ({query})").collect())

def executors(spark):
    mine = spark.sparkContext.applicationId
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "CoarseGrainedExecutorBackend" in line and f"--app-id {mine}" in line]

def right(spark, keys=7):
    return all(found(spark, keys, all_rows) == runs(keys, all_rows) for all_rows in (False, True))
'''


def application(folder: Path, program: str, **variables: str) -> subprocess.Popen:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "NUMBA"))}
    script = folder / f"application{len(list(folder.glob('application*.py')))}.py"
    script.write_text(PRELUDE + program)
    return subprocess.Popen(
        [sys.executable, str(script)],
        cwd=folder,
        env={**kept, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def said(process: subprocess.Popen, seconds: float = 900) -> tuple[dict, str]:
    """What an application printed last, as JSON, and its log."""
    try:
        out, log = process.communicate(timeout=seconds)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, log[-5000:]
    return json.loads(out.splitlines()[-1]), log


def remove_logs(application: str) -> None:
    """Removes the folder where the executors of a local cluster ran."""
    logs = Path(find_spark_home(), "work")
    shutil.rmtree(logs / application, ignore_errors=True)
    if logs.is_dir() and not list(logs.iterdir()):
        logs.rmdir()


def test_workers_that_are_not_used_again_and_batches_of_any_size(tmp_path):
    program = '''
spark = start(spark__python__worker__reuse="false")
out = {}
for size in ("10000", "0", "1", "7"):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", size)
    for direct in ("true", "false"):
        spark.conf.set("sparkcep.mapInArrow", direct)
        out[f"{size} {direct}"] = right(spark)
spark.stop()
print(json.dumps(out))
'''
    out, _ = said(application(tmp_path, program))
    assert len(out) == 8 and all(out.values()), out


def test_many_threads_with_statements_and_settings_of_their_own(tmp_path):
    program = '''
spark = start()
right(spark)
expected = {(k, a): runs(k, a) for k in range(2, 10) for a in (False, True)}
failures, done, over = [], [], threading.Event()

def switch():
    n = 0
    while not over.is_set():
        n += 1
        spark.conf.set("sparkcep.mapInArrow", "true" if n % 2 else "false")
        spark.conf.set("sparkcep.prefilter", ("true", "false", "always")[n % 3])
        time.sleep(0.05)

def ask(number):
    keys, all_rows = 2 + number % 8, number >= 8
    for _ in range(3):
        try:
            same = found(spark, keys, all_rows) == expected[keys, all_rows]
            done.append(same)
            if not same:
                failures.append(f"{keys} {all_rows}: other rows")
        except Exception as error:
            failures.append(f"{keys} {all_rows}: {type(error).__name__}: {str(error)[:600]}")

switching = threading.Thread(target=switch)
threads = [threading.Thread(target=ask, args=(n,)) for n in range(16)]
for t in (switching, *threads):
    t.start()
for t in threads:
    t.join()
over.set()
switching.join()
spark.stop()
print(json.dumps({"failures": failures, "done": len(done)}))
'''
    out, _ = said(application(tmp_path, program))
    assert out == {"failures": [], "done": 48}, "\n".join(out["failures"])


def test_a_lost_executor_and_speculation(tmp_path):
    program = '''
spark = start("local-cluster[2,1,1024]", spark__speculation="true", spark__speculation__interval="50ms", spark__speculation__quantile="0.1",
              spark__speculation__multiplier="1.01", spark__speculation__minTaskRuntime="1ms", spark__executor__memory="600m", spark__task__maxFailures="8")
out = {"before": right(spark)}
# executors do not have the extension's classes, which the totals of a budget go through on the driver
letters = "SELECT * FROM (SELECT id % 6 AS p, id AS t FROM range(600)) MATCH_RECOGNIZE (PARTITION BY p ORDER BY t PATTERN (A B) WINDOW 40 APPROX 1 BUDGET 1 CHECKS DEFINE A AS true)"
checked = spark.sql(letters)
out["matches"] = len(checked.collect())
out["totals"] = [[one.checks, one.rows, one.matches] for one in sparkcep.budget_totals(checked)]
mine = spark.sparkContext.applicationId

out["executors"] = len(executors(spark))
rows = []
asking = threading.Thread(target=lambda: rows.append([right(spark, k) for k in (3, 5, 8)]))
asking.start()
time.sleep(1.0)
lost = executors(spark)[0]
os.kill(lost, signal.SIGKILL)
asking.join()
out["while"] = rows
out["after"] = right(spark, 9)
out["gone"] = lost not in executors(spark)
spark.stop()
out["application"] = mine
print(json.dumps(out))
'''
    out, _ = said(application(tmp_path, program))
    remove_logs(out.pop("application"))
    assert out.pop("totals") == [[600, 600, out["matches"]]] and out.pop("matches") > 500
    assert out == {"before": True, "executors": 2, "while": [[True, True, True]], "after": True, "gone": True}


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_lost_executor_above_an_aggregate(tmp_path, adaptive):
    """An executor is killed with its blocks and with rows of an aggregate. They come in another order to a task that runs again."""
    program = '''
spark = start("local-cluster[2,1,1024]", spark__executor__memory="600m", spark__task__maxFailures="8", spark__sql__shuffle__partitions="8",
              spark__sql__adaptive__enabled="ADAPTIVE", spark__sql__adaptive__coalescePartitions__enabled="false")
def slow(k):
    time.sleep(0.3)
    with open(called, "a") as file:
        file.write(".")
    return k

called = os.path.abspath("called")
spark.udf.register("slow", slow, "bigint")
spark.sql("CREATE TEMP VIEW g AS SELECT id % 40 AS k, id % 4001 AS t, sum(id) AS v FROM range(0, 400000, 1, 6) GROUP BY id % 40, id % 4001")
each = "SELECT k, sum(n) AS n, sum(f) AS f, count(*) AS m FROM g MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES count(*) AS n, FIRST(t) AS f PATTERN (A B*) DEFINE B AS v > PREV(v)) GROUP BY k"
mine = spark.sparkContext.applicationId
before = sorted(map(tuple, spark.sql(each).collect()))

found = []
def ask():
    try:
        found.append(sorted(map(tuple, spark.sql(f"SELECT slow(k), n, f, m FROM ({each})").collect())) == before)
    except Exception as error:
        found.append(str(error))

asking = threading.Thread(target=ask)
asking.start()
while asking.is_alive() and not (os.path.exists(called) and os.path.getsize(called) > 12):
    time.sleep(0.1)
killed = executors(spark)[0]
os.kill(killed, signal.SIGKILL)
asking.join()
gone = killed not in executors(spark)
spark.stop()
print(json.dumps({"before": len(before), "found": found, "gone": gone, "application": mine}))
'''
    out, _ = said(application(tmp_path, program.replace("ADAPTIVE", adaptive)))
    remove_logs(out.pop("application"))
    assert out == {"before": 40, "found": [True], "gone": True}


def test_two_applications_without_kernels_and_without_a_home_that_can_be_written(tmp_path):
    (tmp_path / "home").write_text("no folder")  # so nobody can make one in it, not even root
    (tmp_path / "temporary").mkdir()
    variables = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary"), "SPARKCEP_CACHE_DIR": "", "XDG_CACHE_HOME": ""}
    program = '''
import logging
logging.basicConfig(level=logging.INFO)
logging.getLogger("py4j").setLevel(logging.CRITICAL)
spark = start()
out = {"right": right(spark)}
spark.stop()
print(json.dumps(out))
'''
    both = [application(tmp_path, program, **variables) for _ in range(2)]
    for process in both:
        out, log = said(process)
        assert out == {"right": True} and "compiled code cannot be cached in" in log
    (kept,) = (tmp_path / "temporary").glob(f"sparkcep-{os.geteuid()}")
    assert len(list(kept.glob("*.jar"))) == 1 and list(kept.rglob("*.nbc")) and not list(kept.rglob("*.tmp.*"))


def test_a_full_disk(tmp_path):
    (tmp_path / "limited.py").write_text(
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "from sparkcep.spark import daemon\n"
        "daemon.main()\n"
    )
    program = '''
spark = start(spark__python__daemon__module="limited")
out = {"right": right(spark)}
spark.stop()
print(json.dumps(out))
'''
    (tmp_path / "kept").mkdir()
    out, log = said(application(tmp_path, program, SPARKCEP_CACHE_DIR=str(tmp_path / "kept")))
    assert out == {"right": True} and "compiled kernels cannot be cached in" in log
    assert not [path for path in (tmp_path / "kept").rglob("*") if ".tmp." in path.name]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupted_command(tmp_path):
    query = """SELECT count(*) FROM (SELECT id % 7 AS k, id FROM range(200000000)) MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY id MEASURES count(*) AS n PATTERN (A B* C) DEFINE B AS id > A.id)"""
    command = subprocess.Popen(
        [sys.executable, "-m", "sparkcep", "run", "-e", query], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    started = []
    while not started and command.poll() is None:
        time.sleep(0.2)
        listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
        started = [int(line.split()[0]) for line in listed.splitlines() if int(line.split()[1]) == command.pid and "java" in line]
    time.sleep(40)  # the statement runs
    os.killpg(command.pid, signal.SIGINT)
    out, log = command.communicate(timeout=60)
    assert command.returncode == -signal.SIGINT and out == ""
    assert log.rstrip().endswith("interrupted") and log.count("interrupted") == 1 and "Traceback" not in log
    assert all(wait_until_gone(pid) for pid in started)


class TestSizes:
    """What was seen to hold."""

    @pytest.mark.parametrize(
        ("clause", "expected"),
        [
            ("MEASURES count(*) AS n PATTERN (A B+) DEFINE B AS v > PREV(v)", None),
            ("MEASURES sum(v) AS n ALL ROWS PER MATCH PATTERN (A B*) DEFINE B AS v > PREV(v)", 5_000_000),
            ("MEASURES LAST(id) AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) WINDOW 3 DEFINE A AS v = 1, B AS v = 38", None),
        ],
    )
    def test_five_million_rows_under_one_key(self, spark, clause, expected):
        source = "(SELECT id, id * 37 % 101 AS v FROM range(5000000))"
        found = spark.sql(f"SELECT count(*) FROM {source} MATCH_RECOGNIZE (ORDER BY id {clause})").first()[0]
        if expected is None:
            step = "lead(v) OVER (ORDER BY id)" if "SELECTION" in clause else "lag(v) OVER (ORDER BY id)"
            test = "v = 1 AND next = 38" if "SELECTION" in clause else "v > next AND (before IS NULL OR before >= next)"
            before = "lag(v, 2) OVER (ORDER BY id)"
            expected = spark.sql(f"SELECT count(*) FROM (SELECT v, {step} AS next, {before} AS before FROM {source}) WHERE {test}").first()[0]
        assert found == expected > 0

    def test_a_thousand_columns(self, spark):
        columns = ", ".join(f"id + {i} AS c{i}" for i in range(1000))
        query = f"SELECT * FROM (SELECT id, {columns} FROM range(20)) MATCH_RECOGNIZE (ORDER BY id MEASURES count(*) AS n ALL ROWS PER MATCH PATTERN (A+))"
        rows = spark.sql(query).collect()
        assert len(rows) == 20 and all(row["c999"] == row["id"] + 999 and row["n"] == row["id"] + 1 for row in rows)

    def test_strings_of_a_megabyte(self, spark):
        query = """SELECT length(a), length(b), a = b FROM (SELECT id, repeat(CAST(id AS STRING), 1000000) AS s FROM range(10)) MATCH_RECOGNIZE (
          ORDER BY id MEASURES FIRST(s) AS a, LAST(s) AS b PATTERN (A B) DEFINE B AS s > PREV(s))"""
        assert [tuple(row) for row in spark.sql(query).collect()] == [(1_000_000, 1_000_000, False)] * 5

    @needs_javac
    def test_ten_clients_of_the_thrift_server(self, thrift_server):
        pytest.importorskip("pyhive")
        server = thrift_server()

        def ask(number: int) -> list[int]:
            cursor = server.session()
            counts = []
            for last in range(number, number + 5):
                cursor.execute(f"SELECT n FROM range({last + 2}) MATCH_RECOGNIZE (ORDER BY id MEASURES count(*) AS n PATTERN (A B*) DEFINE B AS id <= {last})")
                counts += sorted(row[0] for row in cursor.fetchall())
            return counts

        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(ask, range(10)))
        assert answers == [[n for last in range(number, number + 5) for n in (1, last + 1)] for number in range(10)]
