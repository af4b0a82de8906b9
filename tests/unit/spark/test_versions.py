"""Another version of Spark is reported in one line, with what to install, and nothing is compiled against it."""

from __future__ import annotations

from importlib import metadata

import pytest

pyspark = pytest.importorskip("pyspark")

from sparkcep.cli import doctor, launch  # noqa: E402
from sparkcep.cli.cli import main  # noqa: E402
from sparkcep.spark.java import find_java_tool  # noqa: E402
from sparkcep.spark.session import jar, local  # noqa: E402
from sparkcep.spark.versions import SparkVersionError, filters_in_windows, wrong  # noqa: E402

needs_java = pytest.mark.skipif(find_java_tool("java") is None, reason="no Java here")


@pytest.mark.parametrize(("version", "fits"), [("4.1.0", True), ("4.3.0.dev1", True), ("4.10.2", True), ("4.0.1", False), ("3.5", False), ("5.0.0", False)])
def test_versions(version, fits):
    assert (wrong(version) == "") == fits
    assert fits or (f"found {version}" in wrong(version) and "pip install 'pyspark>=4.1,<5'" in wrong(version))


@pytest.mark.parametrize(("version", "has"), [("4.1.4", False), ("4.2.0", True), ("4.3.0-SNAPSHOT", True)])
def test_window_functions_have_no_filter_before_spark_4_2(version, has):
    class Session:
        pass

    session = Session()
    session.version = version
    assert filters_in_windows(session) == has
    session.version = "another"  # it is asked for once
    assert filters_in_windows(session) == has


@needs_java
def test_commands_say_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")
    for begin in (lambda: local.start_spark("without a session"), launch.settings, lambda: list(doctor.of_executors("local[1]", {}))):
        with pytest.raises(SparkVersionError, match="needs Spark 4.1 or later 4.x, found 4.0.1"):
            begin()
    assert main(["run", "-e", "SELECT 1"]) == 3
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "found 4.0.1" in said.err


def test_jars_of_another_spark_are_not_compiled_against(tmp_path):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-catalyst_2.13-4.0.1.jar").touch()
    with pytest.raises(jar.JvmBuildError, match=f"found 4.0.1; .*{tmp_path.name}"):
        jar.extension_jar(spark_home=str(tmp_path))


def test_the_doctor_runs_no_statement_before_pyspark_is_mended(monkeypatch):
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "4.0.1" if name == "pyspark" else real(name))
    monkeypatch.setattr(doctor, "_statement", None)
    found = {finding.what: finding for finding in doctor.examined()}
    assert not found["pyspark"].good and "pip install" in found["pyspark"].advice
    assert not found["a statement"].good and "not run until" in found["a statement"].found and "pyspark" in found["a statement"].found


def test_what_is_asked_of_an_executor_needs_no_library():
    names = {name for name in doctor._look.__code__.co_names}
    assert not names & {"pandas", "pd", "pyarrow"} and isinstance(next(doctor._look(())), tuple)
