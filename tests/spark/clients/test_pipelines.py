"""The declarative pipeline of ``sql_examples/pipelines``, run by Spark's own program: once, and again over what came since."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql.connect", reason="Spark Connect's packages are not here")
pytest.importorskip("yaml")

from sparkcep.cli import launch  # noqa: E402
from sparkcep.errors import ToolError  # noqa: E402
from tests.spark.programs import SPARKCEP, environment, needs_javac  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
PROJECT = ROOT / "sql_examples" / "pipelines"


@pytest.fixture
def project(tmp_path):
    folder = Path(shutil.copytree(PROJECT, tmp_path / "project"))
    spec = folder / "spark-pipeline.yml"
    text = spec.read_text(encoding="utf-8")
    assert "file:///tmp/sparkcep-pipelines" in text
    spec.write_text(text.replace("file:///tmp/sparkcep-pipelines", (tmp_path / "storage").as_uri()), encoding="utf-8")
    return folder


def run(folder: Path) -> None:
    command = [*SPARKCEP, "spark-pipelines", "run", "--conf", "spark.sql.catalogImplementation=hive", "--conf", "spark.sql.session.timeZone=UTC"]
    done = subprocess.run(command, cwd=folder, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True, timeout=500)
    assert done.returncode == 0 and "Run is COMPLETED" in done.stdout + done.stderr, (done.stdout + done.stderr)[-5000:]


def told(spark, folder: Path, table: str) -> list[str]:
    frame = spark.read.parquet(str(folder / "spark-warehouse" / table))
    times = {"since": "date_format(since, 'mm:ss') AS since"}
    return sorted(" ".join(map(str, row)) for row in frame.selectExpr(*(times.get(name, name) for name in frame.columns)).collect())


@needs_javac
@pytest.mark.slow
@pytest.mark.process
def test_a_pipeline_goes_on(spark, project):
    run(project)
    assert told(spark, project, "falls") == ["A 00:00 3 8"]
    assert told(spark, project, "alerts") == ["jump B 00:02", "silence A 01:30", "silence B 00:30"]
    (project / "data" / "2.json").write_text(
        '{"symbol": "A", "ts": "2026-01-01T09:04:10Z", "price": 9}\n{"symbol": "A", "ts": "2026-01-01T09:04:20Z", "price": 7}\n'
        '{"symbol": "C", "ts": "2026-01-01T09:09:00Z", "price": 9}\n', encoding="utf-8")
    run(project)
    assert told(spark, project, "falls") == ["A 00:00 3 8", "A 04:00 3 7"]
    assert told(spark, project, "alerts") == ["jump B 00:02", "silence A 01:30", "silence A 04:20", "silence B 00:30"]


def test_what_is_missing_is_named(monkeypatch):
    """Without Connect's packages Spark's program ends in a traceback."""
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None if name == "grpc" else object())
    with pytest.raises(ToolError, match=r"not there \(grpc\).*sparkcep\[pipelines\]"):
        launch.pipelines(["run"])


def test_the_command_has_the_settings(monkeypatch):
    monkeypatch.setattr(launch, "settings", lambda: {"spark.driver.extraClassPath": "/x.jar", "spark.sql.extensions": "E", "spark.sparkcep.python": "p", launch.BATCH_BYTES: "1"})
    command, variables = launch.pipelines(["run", "--spec", "a.yml"])
    assert Path(command[0]).name == "spark-pipelines" and command[1:] == ["run", "--spec", "a.yml"]
    assert {"spark.driver.extraClassPath=/x.jar", "spark.sql.extensions=E"} <= set(variables["PYSPARK_SUBMIT_ARGS"].split()) and "PYSPARK_PYTHON" in variables
