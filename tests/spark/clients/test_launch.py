"""How arguments and settings of spark-sql, of the thrift server and of dbt are put together; no Java is started."""

from __future__ import annotations

import shlex
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from sparkcep.cli import launch  # noqa: E402
from sparkcep.cli.cli import main  # noqa: E402
from sparkcep.spark.session import jar  # noqa: E402

OURS = {
    "spark.driver.extraClassPath": "/c/ours.jar",
    "spark.sql.extensions": "org.sparkcep.X",
    "spark.sparkcep.python": "/bin/py",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
}


@pytest.fixture(autouse=True)
def configuration(monkeypatch, tmp_path):
    """An empty folder of Spark's configuration, and settings that need no compiler."""
    for name in ("SPARK_LOCAL_IP", "HIVE_SERVER2_THRIFT_BIND_HOST", "MASTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(launch, "settings", lambda: OURS)
    return tmp_path


def confs(command: list[str]) -> dict[str, str]:
    """What spark-submit makes of a command: the last --conf of a key wins."""
    pairs = [command[i + 1].partition("=") for i, a in enumerate(command[:-1]) if a in ("--conf", "-c")]
    pairs += [a.partition("=")[2].partition("=") for a in command if a.startswith("--conf=")]
    return {key: value for key, _, value in pairs}


def test_settings_and_arguments():
    command, _ = launch.shell(["-e", "SELECT 1", "--conf", "a.b=c=d"])
    assert Path(command[0]).name == "spark-sql" and Path(command[0]).is_file()
    assert command[-4:] == ["-e", "SELECT 1", "--conf", "a.b=c=d"]
    assert confs(command) == {**OURS, "a.b": "c=d"}


@pytest.mark.parametrize(
    ("arguments", "key", "value"),
    [
        (["--conf", "spark.sql.extensions=io.delta.D"], "spark.sql.extensions", "io.delta.D,org.sparkcep.X"),
        (["-c", "spark.sql.extensions=io.delta.D"], "spark.sql.extensions", "io.delta.D,org.sparkcep.X"),
        (["--conf=spark.sql.extensions=io.delta.D"], "spark.sql.extensions", "io.delta.D,org.sparkcep.X"),
        (["--conf", "spark.sql.extensions=org.sparkcep.X"], "spark.sql.extensions", "org.sparkcep.X"),
        (["--conf", "spark.driver.extraClassPath=/a.jar:/b.jar"], "spark.driver.extraClassPath", "/a.jar:/b.jar:/c/ours.jar"),
        (["--conf", "spark.sparkcep.python=/other"], "spark.sparkcep.python", "/other"),
    ],
)
def test_what_the_user_gives_is_kept(arguments, key, value):
    assert confs(launch.shell(arguments)[0]) == {**OURS, key: value}


@pytest.mark.parametrize("arguments", [["--driver-class-path", "/a.jar"], ["--driver-class-path=/a.jar"]])
def test_class_path_option(arguments):
    command, _ = launch.shell(arguments)
    assert command[-1].endswith("/a.jar:/c/ours.jar")
    assert "spark.driver.extraClassPath" not in confs(command)


@pytest.mark.parametrize("named", [True, False])
def test_defaults_file(configuration, named):
    file = configuration / ("mine.conf" if named else "spark-defaults.conf")
    file.write_text(
        "# comment\nspark.sql.extensions   io.delta.D\nspark.driver.extraClassPath=/a.jar\nspark.sparkcep.python: /other\n"
    )
    found = confs(launch.shell(["--properties-file", str(file)] if named else [])[0])
    assert found == {
        "spark.sql.extensions": "io.delta.D,org.sparkcep.X",
        "spark.driver.extraClassPath": "/a.jar:/c/ours.jar",
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    }


def test_both_properties_files(configuration):
    (configuration / "spark-defaults.conf").write_text("spark.sql.extensions a.A\nspark.driver.extraClassPath /a.jar\n")
    (configuration / "mine.conf").write_text("spark.sql.extensions b.B\n")
    named = ["--properties-file", str(configuration / "mine.conf")]
    assert confs(launch.shell(named)[0])["spark.driver.extraClassPath"] == "/c/ours.jar"
    found = confs(launch.shell([*named, "--load-spark-defaults"])[0])
    assert (found["spark.sql.extensions"], found["spark.driver.extraClassPath"]) == ("b.B,org.sparkcep.X", "/a.jar:/c/ours.jar")


def test_thrift_server_listens_on_loopback(configuration):
    host = "hive.server2.thrift.bind.host"
    command, environment = launch.thrift_server(["--hiveconf", "hive.server2.authentication=LDAP"])
    assert command[1:3] == ["--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"]
    assert command[-4:] == ["--hiveconf", "hive.server2.authentication=LDAP", "--hiveconf", f"{host}=127.0.0.1"]
    assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert confs(command) == OURS
    chosen, _ = launch.thrift_server(["--hiveconf", f"{host}=0.0.0.0"])
    assert [a for a in chosen if host in a] == [f"{host}=0.0.0.0"]
    (configuration / "hive-site.xml").write_text(f"<property><name>{host}</name><value>10.0.0.1</value></property>")
    assert not [a for a in launch.thrift_server([])[0] if host in a]


@pytest.mark.parametrize(
    ("hive_site", "defaults", "arguments"),
    [
        ("<configuration><!-- {host} is left at its default --></configuration>", "", []),
        ("<configuration><property><name>{host}</name><value> </value></property></configuration>", "", []),
        ("<configuration><property><name>other.{host}</name><value>0.0.0.0</value></property></configuration>", "", []),
        ("{host} 0.0.0.0, no XML", "", []),
        ("", "spark.{host}", []),
        ("", "# spark.{host} 0.0.0.0", []),
        ("", "", ["--hiveconf", "{host}="]),
        ("", "", ["--name", "about {host}"]),
    ],
)
def test_a_mention_of_the_host_does_not_open_the_server(configuration, hive_site, defaults, arguments):
    host = "hive.server2.thrift.bind.host"
    (configuration / "hive-site.xml").write_text(hive_site.format(host=host))
    (configuration / "spark-defaults.conf").write_text(defaults.format(host=host))
    command, _ = launch.thrift_server([a.format(host=host) for a in arguments])
    assert command[-2:] == ["--hiveconf", f"{host}=127.0.0.1"]


@pytest.mark.parametrize("where", ["hive-site.xml", "spark-defaults.conf", "arguments"])
def test_a_host_with_a_value_is_left_alone(configuration, where):
    host = "hive.server2.thrift.bind.host"
    texts = {
        "hive-site.xml": f"<configuration>\n<property>\n<name>{host}</name>\n<value>0.0.0.0</value></property></configuration>",
        "spark-defaults.conf": f"spark.hadoop.{host} 0.0.0.0",
    }
    if where in texts:
        (configuration / where).write_text(texts[where])
    command, _ = launch.thrift_server([] if where in texts else ["--conf", f"spark.hadoop.{host}=0.0.0.0"])
    assert f"{host}=127.0.0.1" not in command


@pytest.mark.parametrize("arguments", [["--master", "yarn"], ["--master=spark://x:7077"], ["--conf", "spark.master=yarn"]])
def test_the_web_page_of_a_cluster_is_left_alone(arguments):
    assert "SPARK_LOCAL_IP" not in launch.thrift_server(arguments)[1]


def test_commands_take_everything_behind_their_name(monkeypatch):
    became = []
    monkeypatch.setattr("os.execve", lambda *call: became.append(call))
    main(["spark-sql", "-h", "--conf", "a=b", "-e", "SELECT 1"])
    program, command, _ = became[0]
    assert program == command[0] and command[-5:] == ["-h", "--conf", "a=b", "-e", "SELECT 1"]
    main(["thriftserver", "--hiveconf", "hive.server2.thrift.port=10001"])
    assert "hive.server2.thrift.port=10001" in became[1][1] and became[1][2]["SPARK_LOCAL_IP"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("given", "kept"),
    [(None, ["pyspark-shell"]), ("--master 'local[4]' pyspark-shell", ["--master", "local[4]", "pyspark-shell"])],
)
def test_dbt_opens_sessions_with_the_settings(monkeypatch, given, kept):
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    if given:
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", given)
    became = []
    monkeypatch.setattr("os.execve", lambda *call: became.append(call))
    main(["dbt", "build", "--select", "a", "-h"])
    ((program, command, environment),) = became
    assert program == sys.executable and command[-4:] == ["build", "--select", "a", "-h"]
    submitted = shlex.split(environment["PYSPARK_SUBMIT_ARGS"])
    assert confs(submitted) == OURS and submitted[-len(kept) :] == kept


def test_dbt_adds_to_other_extensions(monkeypatch):
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.sql.extensions=io.delta.D pyspark-shell")
    _, environment = launch.dbt([])
    assert confs(shlex.split(environment["PYSPARK_SUBMIT_ARGS"])) == {**OURS, "spark.sql.extensions": "io.delta.D,org.sparkcep.X"}


def test_without_dbt(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "dbt", None)
    assert main(["dbt", "build"]) == 2
    assert "pip install 'sparkcep[dbt]'" in capsys.readouterr().err


def test_jar_prints_what_the_defaults_file_needs(monkeypatch, capsys, configuration):
    assert main(["jar"]) == 0
    (configuration / "spark-defaults.conf").write_text(capsys.readouterr().out)
    assert launch._defaults([]) == OURS
    assert main(["jar", "--path"]) == 0
    assert capsys.readouterr().out == "/c/ours.jar\n"


class TestWithoutAJdk:
    @pytest.fixture(autouse=True)
    def real_settings(self, monkeypatch, tmp_path):
        monkeypatch.undo()
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("SPARKCEP_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setenv("PATH", str(tmp_path))

    @pytest.mark.parametrize("command", ["spark-sql", "thriftserver", "jar"])
    def test_no_java(self, command, capsys):
        assert main([command]) == 3
        assert "Java 17" in capsys.readouterr().err

    @pytest.mark.parametrize("command", ["spark-sql", "thriftserver", "jar"])
    def test_only_a_runtime(self, command, capsys, tmp_path):
        (tmp_path / "java").write_text("#!/bin/sh\n")
        (tmp_path / "java").chmod(0o755)
        assert main([command]) == 3
        said = capsys.readouterr().err
        assert "the Java compiler (javac) is missing, only a Java runtime" in said and "JDK 17" in said

    def test_a_jar_that_was_built_needs_no_compiler(self, monkeypatch, capsys, tmp_path):
        (tmp_path / "java").write_text("#!/bin/sh\n")
        (tmp_path / "java").chmod(0o755)
        jars = jar._spark_jars(None)
        name = jar._jar_name(jar._sources(jars), jars)
        (tmp_path / "cache").mkdir()
        with zipfile.ZipFile(tmp_path / "cache" / name, "w") as archive:
            archive.writestr("some.class", "")
        assert main(["jar"]) == 0
        assert name in capsys.readouterr().out
