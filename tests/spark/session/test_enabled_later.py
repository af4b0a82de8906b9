"""DataFrames, RDDs and UDFs made before ``enable`` run as before, also if ``python3`` of the PATH does not have sparkcep."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparkcep.spark.session.warm_up import DAEMON_MODULE
from tests.selection import slow
from tests.spark.programs import environment

pytestmark = pytest.mark.process

PROGRAM = """
import json, sys
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf, udf
import sparkcep
from sparkcep.spark.session import warm_up as warming

how, report = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1").getOrCreate()
spark.sparkContext.setLogLevel("OFF")

def made():
    frame = spark.createDataFrame([("a", 1), ("a", 2), ("b", 0)], "k string, v int")
    plus = udf(lambda v: v + 1, "int")
    doubled = pandas_udf(lambda v: v * 2, "long")
    rdd = spark.sparkContext.parallelize([1, 2, 3], 1).map(lambda x: x * x)
    return frame, plus, doubled, rdd

def run(frame, plus, doubled, rdd):
    return {
        "filtered": sorted(map(list, frame.filter("v > 0").collect())),
        "udf": sorted(r[0] for r in frame.select(plus("v")).collect()),
        "pandas": sorted(r[0] for r in frame.select(doubled("v")).collect()),
        "rdd": rdd.collect(),
        "from an rdd": sorted(map(list, rdd.map(lambda x: (x, str(x))).toDF(["i", "s"]).collect())),
    }

CLAUSE = "PARTITION BY k ORDER BY v MEASURES LAST(v) AS x PATTERN (A+)"
def clauses(frame, plus, *rest):
    frame.createOrReplaceTempView("t")
    matched = spark.sql(f"SELECT * FROM t MATCH_RECOGNIZE ({CLAUSE})")
    return {
        "clause": sorted(map(list, matched.collect())),
        "udf above": sorted(r[0] for r in matched.select(plus("x")).collect()),
        "udf below": sorted(map(list, sparkcep.match_recognize(frame.withColumn("v", plus("v")), clause=CLAUSE).collect())),
    }

old, lazily = made(), made()
found = {"before": run(*old)}
if how == "a frame first":
    found["frame"] = sorted(map(list, sparkcep.match_recognize(old[0], clause=CLAUSE).collect()))
    found["after a frame"] = run(*old)
sparkcep.enable(spark)
warming.wait(spark)
found |= {"old": run(*old), "not run before": run(*lazily), "new": run(*made()), "clauses": clauses(*old), "again": clauses(*made())}
daemon = spark.sparkContext._jsc.sc().conf().get(warming.DAEMON_KEY, "")
python = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).first()
with open(report, "w") as out:
    json.dump({"found": found, "daemon": daemon, "python": python}, out)
spark.stop()
"""


@pytest.fixture(scope="module")
def other_python(tmp_path_factory) -> Path:
    """The folder of a ``python3`` that has all packages of this one but sparkcep."""
    import pandas

    home = tmp_path_factory.mktemp("other") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    for package in Path(pandas.__file__).parents[1].iterdir():
        if "sparkcep" not in package.name and package.suffix != ".pth":
            (packages / package.name).symlink_to(package)
    done = subprocess.run([home / "bin" / "python3", "-c", "import pyarrow, pandas, pyspark; import sparkcep"], cwd=home, env=environment(), capture_output=True, text=True, check=False)
    assert "No module named 'sparkcep'" in done.stderr
    return home / "bin"


def report(folder: Path, how: str, **variables: str) -> dict:
    """What PROGRAM found, run by this Python's path."""
    path = folder / "report.json"
    done = subprocess.run([sys.executable, "-c", PROGRAM, how, path], cwd=folder, env=environment(**variables), capture_output=True, text=True, timeout=400, check=False)
    assert path.exists(), (done.stdout + done.stderr)[-4000:]
    return json.loads(path.read_text())


def check(told: dict) -> None:
    found = told["found"]
    expected = {"filtered": [["a", 1], ["a", 2]], "udf": [1, 2, 3], "pandas": [0, 2, 4], "rdd": [1, 4, 9], "from an rdd": [[1, "1"], [4, "4"], [9, "9"]]}
    for moment in found.keys() - {"frame", "clauses", "again"}:
        assert found[moment] == expected, moment
    matches = {"clause": [["a", 2], ["b", 0]], "udf above": [1, 3], "udf below": [["a", 3], ["b", 1]]}
    assert found["clauses"] == found["again"] == matches
    assert found.get("frame", matches["clause"]) == matches["clause"]


@pytest.mark.parametrize("how", [slow("a frame first"), slow("enable")])
def test_the_other_python_lacks_sparkcep(tmp_path, other_python, how):
    told = report(tmp_path, how, PATH=f"{other_python}{os.pathsep}{os.environ['PATH']}")
    check(told)
    assert told["daemon"] == "" and told["python"] == sys.executable


def test_the_path_has_this_python(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "bin" / "python3").chmod(0o755)
    told = report(tmp_path, "enable", PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    check(told)
    assert told["daemon"] == DAEMON_MODULE and told["python"] == sys.executable


@pytest.mark.slow  # the session of all tests has a chosen Python
def test_a_chosen_python(tmp_path, other_python):
    told = report(tmp_path, "enable", PATH=f"{other_python}{os.pathsep}{os.environ['PATH']}", PYSPARK_PYTHON=sys.executable)
    check(told)
    assert told["daemon"] == DAEMON_MODULE
