"""A Connect server whose Python lacks sparkcep: the client sends the archive of ``sparkcep pack`` after ``enable``."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc")

from sparkcep.cli import pack  # noqa: E402

pytestmark = pytest.mark.process

CLIENT = """
import json, sys
checkout, archive, out = sys.argv[1:]
sys.path.insert(0, checkout)
from pyspark.sql import SparkSession
import sparkcep
builder = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
spark = sparkcep.enable(builder.getOrCreate())
QUERY = "SELECT * FROM VALUES (1, 5), (2, 3), (3, 4) AS t(i, v) MATCH_RECOGNIZE (ORDER BY i MEASURES LAST(B.i) AS b PATTERN (A B) DEFINE B AS v > PREV(v))"
def asked(statement=QUERY):
    try:
        return [list(row) for row in spark.sql(statement).collect()]
    except Exception as error:
        return str(error)
report = [asked()]
script = f"BEGIN INSERT INTO kept VALUES (1); {QUERY}; END"
spark.sql("CREATE TABLE kept (n INT) USING parquet")
spark.addArtifacts(archive, pyfile=True)
report += [asked(script), spark.table("kept").count(), asked(script), spark.table("kept").count(), asked()]
with open(out, "w") as file:
    json.dump(report, file)
spark.stop()
"""


def test_artifacts_that_are_added_after_enable(tmp_path):
    libraries = {str(Path(importlib.import_module(module).__file__).parents[1]) for module in ("numba", "pyspark", "pyarrow", "sqlglot")}
    if any(Path(path, "sparkcep").exists() for path in libraries):
        pytest.skip("sparkcep is installed beside its libraries, so each Python that has these has it, too")
    python = tmp_path / "python3"
    plain = Path(sys.executable).resolve()  # without this environment, and so without an installation of sparkcep
    python.write_text(f'#!/bin/sh\nexport PYTHONPATH="$PYTHONPATH:{":".join(sorted(libraries))}"\nexec {plain} "$@"\n')
    python.chmod(0o755)
    archive, out, log = tmp_path / "sparkcep.zip", tmp_path / "report.json", tmp_path / "client.log"
    pack.pack(archive)
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_REMOTE")}
    environment = {**kept, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1", "SPARKCEP_CACHE_DIR": str(tmp_path / "cache")}
    with log.open("wb") as sink:  # no pipe: the server's JVM would hold it open
        subprocess.run([sys.executable, "-c", CLIENT, str(Path(__file__).parents[3]), str(archive), str(out)], cwd=tmp_path, env=environment, stdout=sink, stderr=sink, timeout=400, check=False)
    assert out.exists(), log.read_text()[-4000:]
    before, scripted, once, after, twice, again = json.loads(out.read_text())
    assert before.startswith("[SPARKCEP.NOT_INSTALLED] the Python of Spark's workers does not have sparkcep") and "spark.addArtifacts" in before
    assert scripted.startswith("[SPARKCEP.NOT_INSTALLED]") and (once, twice) == (1, 2)  # a script does not run again by itself
    assert after == again == [[3]]
