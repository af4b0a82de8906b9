"""A cluster whose executors run as a user of their own, with an empty home, and a Python that lacks sparkcep."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from sparkcep.cli import pack  # noqa: E402
from tests.spark.exec.cluster import User, run, settings_of, standalone  # noqa: E402
from tests.spark.exec.test_cluster import FOUND, LOST, MISMATCH, of_another_version  # noqa: E402

pytestmark = pytest.mark.slow
DAEMON = {"spark.python.daemon.module": "sparkcep.spark.daemon"}


@pytest.fixture(scope="module")
def folder():
    """A folder that others may read; pytest keeps its own from them."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture(scope="module")
def user(folder):
    return User.made(folder)


@pytest.fixture(scope="module")
def archive(folder):
    pack.pack(folder / "sparkcep.zip")
    return folder / "sparkcep.zip"


@pytest.fixture(scope="module")
def cluster(folder, user):
    with standalone(folder, workers=1, user=user) as url:
        yield url


@pytest.fixture(scope="module")
def settings(archive, user, folder):
    return {**settings_of(archive), "spark.executorEnv.SPARKCEP_CACHE_DIR": str(user.own(folder / "kernels")), "spark.cores.max": "1", "spark.executor.memory": "640m"}


def answers(*arguments, **more) -> list[str]:
    said = run(*arguments, **more)
    print(said)
    return FOUND.findall(said)


RIGHT = """
spark = start()
rows(spark, 20, 100)
def who(batches):
    import getpass, os, pyarrow
    list(batches)
    yield pyarrow.RecordBatch.from_pydict({"who": [f"{os.getuid()} {len(os.listdir(os.environ['HOME']))} {sorted(os.listdir(os.environ['SPARKCEP_CACHE_DIR']))}"]})
print("answer", json.dumps(answer(spark)), flush=True)
print("answer", spark.range(1, numPartitions=1).mapInArrow(who, "who string").first()[0], flush=True)
spark.stop()
here = start("local[1]", spark__cores__max="1")
rows(here, 20, 100)
print("answer", json.dumps(answer(here)), flush=True)
"""


CASES = {"PYSPARK_PYTHON": (True, {}), "python3 of the PATH": (False, DAEMON | {"spark.executor.pyspark.memory": "1g"}), "memory": (True, {"spark.executor.pyspark.memory": "1g"})}


@pytest.mark.parametrize("case", CASES)
def test_a_user_of_its_own_with_an_empty_home(cluster, settings, user, case):
    given, more = CASES[case]
    there, who, here = answers(RIGHT, cluster, {**settings, **more}, python=str(user.python) if given else None)
    assert there == here and json.loads(there)[0] > 100
    assert who.split()[0] != "0" and who.split()[1] == "0"  # not root, and nothing came into its home


LACKING = """
from sparkcep.spark.errors.exceptions import shown
spark = start(spark__task__maxFailures="1")
rows(spark, 2, 30)
try:
    print("answer", answer(spark))
except Exception as error:
    text = f"SELECT * FROM t {CLAUSE}"
    print("answer", " ".join(str(error).split()).partition("JVM stacktrace")[0][-3000:])
    print("answer", " ".join(shown(error, text).split()))
"""


@pytest.mark.parametrize("daemon", [{}, DAEMON], ids=["", "daemon"])
def test_executors_without_the_package(cluster, settings, user, daemon):
    bare = {key: value for key, value in settings.items() if key not in ("spark.archives", "spark.executorEnv.PYTHONPATH")} | daemon
    raw, said = answers(LACKING, cluster, bare, python=str(user.python))
    assert said.startswith("[SPARKCEP.NOT_INSTALLED] the Python of Spark's workers does not have sparkcep. Install sparkcep there") and "`sparkcep pack`" in said
    assert daemon or "[SPARKCEP.NOT_INSTALLED]" in raw
    if daemon:
        command = [sys.executable, "-m", "sparkcep", "doctor", "--master", cluster, *(part for key, value in bare.items() for part in ("--conf", f"{key}={value}"))]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "PYSPARK_PYTHON": str(user.python), "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert re.search(r"^FIX   executors +no Python worker starts\n +the Python of Spark's workers does not have sparkcep", done.stdout, re.M), done.stdout + done.stderr[-3000:]


def test_another_version(cluster, settings, archive, folder, user):
    (said,) = answers(MISMATCH, cluster, {**settings, **pack.settings(of_another_version(archive, folder / "other.zip"))}, python=str(user.python))
    assert "given to sparkcep 9.9.9 (format 99)" in said, said


def test_a_lost_executor(cluster, settings, user):
    before, during, after = answers(LOST, cluster, {**settings, "spark.cores.max": "2"}, python=str(user.python))
    assert (during, after) == (before, f"{before} False")


BOUNDS = """
spark = start()
rows(spark, 2, 30)
try:
    spark.sql('''SELECT count(*) FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES A.t AS a PATTERN (A B C) WINDOW 9 ROWS
      EVENT SELECTION SKIP TILL ANY MATCH DEFINE B AS v > A.v, C AS v > B.v)''').collect()
except Exception as error:
    print("answer", " ".join(str(error).split()).partition("JVM stacktrace")[0])
try:
    spark.conf.set("sparkcep.maxSteps", "1000")
    answer(spark)
except Exception as error:
    print("answer", " ".join(str(error).split())[:300])
"""


def test_limits_of_the_application(cluster, settings, user):
    held, refused = answers(BOUNDS, cluster, {**settings, "spark.sparkcep.maxSteps": "1", "spark.task.maxFailures": "1"}, python=str(user.python))
    assert "EFFORT_LIMIT" in held, held
    assert "[SPARKCEP.SETTING] sparkcep.maxSteps is 1000, and the application allows at most 1" in refused


STREAM = """
import os, shutil
os.umask(0)  # the state is written by the executors' user
place = settings.pop("place")
spark = start(**{"spark__hadoop__fs__permissions__umask-mode": "000"}, spark__cores__max="1", spark__sql__shuffle__partitions="1", spark__sql__streaming__stateStore__providerClass="org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
os.makedirs(f"{place}/in", exist_ok=True)
def put(name, lines):
    with open(f"{place}/{name}", "w") as file:
        file.write("".join(json.dumps({"t": f"2024-01-01 00:00:{t:02}", "v": v}) + "\\n" for t, v in lines))
    os.replace(f"{place}/{name}", f"{place}/in/{name}.json")
def go():
    spark.readStream.schema("t timestamp, v long").json(f"{place}/in").withWatermark("t", "0 seconds").createOrReplaceTempView("s")
    frame = spark.sql("SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.v AS a, LAST(B.v) AS b PATTERN (A B B) DEFINE B AS v > PREV(v))")
    query = frame.writeStream.format("json").option("path", f"{place}/out").option("checkpointLocation", f"{place}/checkpoint").outputMode("append").trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception as error:
        raise SystemExit(str(error)[:1500])
put("a", [(1, 5), (2, 1), (3, 2)])
go()
put("b", [(4, 3), (5, 9), (9, 1), (20, 1)])
go()
print("answer", [tuple(row) for row in spark.read.json(f"{place}/out").collect()])
"""


def test_a_stream_with_a_restart(cluster, settings, user, folder):
    place = user.own(folder / "stream")
    place.chmod(0o777)
    (said,) = answers(STREAM, cluster, {**settings, "place": str(place)}, python=str(user.python))
    assert said == "[(1, 3)]"
