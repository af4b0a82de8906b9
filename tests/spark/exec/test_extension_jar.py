"""Executors get the jar of the JVM extension: in each session, and from folders whose names have characters of URLs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import sparkcep  # noqa: E402
from sparkcep.cli import launch, pack  # noqa: E402
from sparkcep.spark.session.jar import extension_jar, find_spark_home  # noqa: E402
from tests.spark.exec.cluster import settings_of, standalone  # noqa: E402
from tests.spark.programs import SPARKCEP, environment, free_port, needs_javac  # noqa: E402

pytestmark = needs_javac

STATEMENT = "SELECT * FROM (SELECT id % 3 AS k, id FROM range(30)) MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES count(*) AS n PATTERN (A+))"
FOUND = [(0, 10), (1, 10), (2, 10)]
ODD = "a b%20c#1[2],{3}^+"


@pytest.mark.further
def test_each_session_has_the_jar_among_its_own(spark):
    """Tasks of a session load no jars of other sessions."""
    if not hasattr(spark, "_jvm"):
        pytest.skip("a classic session is needed")
    for session in (spark.newSession(), spark.newSession()):
        session.conf.set("sparkcep.exchange", "columns")
        session.conf.set("spark.sql.artifact.isolation.enabled", "true")  # as without Hive, and over Connect
        assert sorted(tuple(row) for row in session.sql(STATEMENT).collect()) == FOUND
        jars = spark.sparkContext._jsc.sc().addedJars().get(session._jsparkSession.sessionUUID())
        assert jars.isDefined() and f"/jars/{extension_jar().name} ->" in jars.get().toString()


def test_spark_reads_the_path_of_a_packed_archive(spark, tmp_path):
    if not hasattr(spark, "_jvm"):
        pytest.skip("a classic session is needed")
    for archive in (tmp_path / f"{ODD}.zip", Path(f"{ODD}.zip")):
        read = spark._jvm.org.apache.spark.util.Utils.resolveURI(pack.settings(archive)["spark.archives"])
        assert (read.getPath(), read.getFragment()) == (str(archive.absolute()), pack.FOLDER)
    assert pack.settings(Path("/a/sparkcep-0.1.0.zip"))["spark.archives"] == f"/a/sparkcep-0.1.0.zip#{pack.FOLDER}"


@pytest.mark.process
def test_folders_with_characters_of_urls(tmp_path):
    """The package and its cache are in such a folder."""
    odd = tmp_path / ODD
    shutil.copytree(Path(sparkcep.__file__).parent, odd / "sparkcep", ignore=shutil.ignore_patterns("__pycache__"))
    (odd / "cache").mkdir()
    shutil.copy(extension_jar(), odd / "cache")
    variables = environment(PYTHONPATH=str(odd), SPARKCEP_CACHE_DIR=str(odd / "cache"), SPARKCEP_INTERPRET="always")
    done = subprocess.run([*SPARKCEP, "run", "--format", "csv", "-e", STATEMENT], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
    assert (done.returncode, sorted(done.stdout.split()), done.stderr) == (0, ["0,10", "1,10", "2,10", "k,n"], "")
    assert [path.name for path in (odd / "cache").glob("*.jar")] == [extension_jar().name]  # nothing was compiled


DELETED = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
import sparkcep
jar, statement = sys.argv[1:]
# The jar goes after it was loaded.
spark = sparkcep.enable(SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF").getOrCreate(), warm=False)
Path(jar).unlink()
try:
    spark.sql(statement).collect()
except Exception as error:
    print(str(error).partition("\\n\\tat ")[0])
"""


@pytest.mark.process
def test_a_jar_that_was_deleted(tmp_path):
    (tmp_path / "cache").mkdir()
    jar = shutil.copy(extension_jar(), tmp_path / "cache")
    variables = environment(PYTHONPATH=str(Path(sparkcep.__file__).parents[1]), SPARKCEP_CACHE_DIR=str(tmp_path / "cache"), SPARKCEP_INTERPRET="always")
    done = subprocess.run([sys.executable, "-c", DELETED, str(jar), STATEMENT], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
    assert f"the jar of the JVM extension was deleted, so Spark cannot send it to executors: {jar}. Restart the application" in done.stdout, done.stdout + done.stderr[-3000:]


CLIENT = """
import json, sys
from pyspark.sql import SparkSession
import sparkcep
server, statement, other = sys.argv[1:]
# Opens a session. Prints the rows of a statement.
def session(*jars):
    spark = sparkcep.enable(SparkSession.builder.remote(server).create())
    for jar in jars:
        spark.addArtifacts(jar)
    try:
        found = sorted(tuple(row) for row in spark.sql(statement).collect())
    except Exception as error:
        found = str(error)[:2000]
    print(json.dumps(found), flush=True)
    return spark
first = session()
session(other)  # beside the first, and with a jar of its own
first.stop()
session()
"""


@pytest.mark.slow
def test_sessions_of_a_connect_server_on_a_cluster(tmp_path):
    """One after the other, and one with a jar of its own."""
    pytest.importorskip("grpc")
    archive, other = tmp_path / "sparkcep.zip", tmp_path / "other.jar"
    pack.pack(archive)
    with zipfile.ZipFile(other, "w") as jar:
        jar.writestr("nothing.txt", "")
    port = free_port()
    with standalone(tmp_path, workers=1, cores=1) as master:
        settings = {
            **settings_of(archive), **launch.settings(), "spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2",
        }  # fmt: skip
        confs = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        command = [str(Path(find_spark_home(), "bin", "spark-submit")), "--master", master, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *confs]
        variables = environment(PYTHONPATH=str(Path(sparkcep.__file__).parents[1]), PYSPARK_PYTHON=sys.executable)
        log = tmp_path / "server.log"
        with log.open("w") as sink:
            server = subprocess.Popen([*command, "spark-internal"], cwd=tmp_path, env=variables, stdout=sink, stderr=sink)
        try:
            until = time.monotonic() + 120
            while "Spark Connect server started" not in log.read_text():
                assert server.poll() is None and time.monotonic() < until, log.read_text()[-3000:]
                time.sleep(0.2)
            arguments = [f"sc://127.0.0.1:{port}", STATEMENT, str(other)]
            done = subprocess.run([sys.executable, "-c", CLIENT, *arguments], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=400)
        finally:
            server.terminate()
            server.wait(60)
    assert [json.loads(line) for line in done.stdout.splitlines()] == 3 * [[list(row) for row in FOUND]], done.stderr[-4000:]
