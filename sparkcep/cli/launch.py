"""Starts Spark's own programs (SQL shell, thrift server, pipelines) and dbt with the clause enabled.

``cli/cli`` replaces its process by these programs. Programs that start in another way get the clause by the same settings in
spark-defaults.conf.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from sparkcep.errors import ToolError
from sparkcep.spark.java import require_java
from sparkcep.spark.session.jar import EXTENSION_CLASS, extension_jar, find_spark_home
from sparkcep.spark.session.session import BATCH_BYTES, UNBOUNDED
from sparkcep.spark.versions import require_spark

_CLASS_PATH, _EXTENSIONS, _PYTHON = "spark.driver.extraClassPath", "spark.sql.extensions", "spark.sparkcep.python"
_BIND_HOST = "hive.server2.thrift.bind.host"
_THRIFT_SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
_LOOPBACK = "127.0.0.1"
_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"


def settings() -> dict[str, str]:
    """Returns the configuration that a Spark application needs.

    It sets the driver's class path, the extension, the Python of the rewriter, and no size limit in bytes for Python batches.
    Compiles the extension's jar if it is missing. Raises JavaNotFoundError, SparkVersionError, JvmBuildError.
    """
    require_java()
    require_spark()
    return {_CLASS_PATH: str(extension_jar()), _EXTENSIONS: EXTENSION_CLASS, _PYTHON: sys.executable, BATCH_BYTES: UNBOUNDED}


def shell(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Returns the command that starts spark-sql with the clause, and environment variables to add.

    ``arguments`` are those of spark-sql. Raises the errors of ``settings``.
    """
    return [str(_spark_home() / "bin" / "spark-sql"), *_with_settings(arguments, settings())], {}


def thrift_server(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Returns the command that starts the thrift server with the clause, and environment variables to add.

    The server listens on the loopback interface unless ``arguments`` or Spark's or Hive's configuration say otherwise. With a local
    master, so does its web page. Raises the errors of ``settings``.
    """
    given = _with_settings(arguments, settings())
    if not _chooses_host(arguments):
        given += ["--hiveconf", f"{_BIND_HOST}={_LOOPBACK}"]
    environment = {"SPARK_CONNECT_MODE": "0"}  # as in bin/spark-sql: a classic session
    if _is_local(arguments) and "SPARK_LOCAL_IP" not in os.environ:
        environment["SPARK_LOCAL_IP"] = _LOOPBACK
    return [str(_spark_home() / "bin" / "spark-submit"), "--class", _THRIFT_SERVER, *given], environment


def dbt(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Returns the command that starts dbt, and environment variables that enable the clause in the sessions dbt opens.

    ``arguments`` are those of dbt. The value of PYSPARK_SUBMIT_ARGS is kept. Raises ToolError without dbt, and the errors of
    ``settings``.
    """
    if importlib.util.find_spec("dbt") is None or importlib.util.find_spec("dbt.cli") is None:
        raise ToolError("dbt is not installed for this Python; install it with: pip install 'sparkcep[dbt]'")
    given = _with_settings(shlex.split(os.environ.get(_SUBMIT_ARGS, "pyspark-shell")), settings())
    # -P: nothing is imported from dbt's project folder
    return [sys.executable, "-P", "-c", "from dbt.cli.main import cli; cli(prog_name='dbt')", *arguments], {_SUBMIT_ARGS: shlex.join(given)}


def pipelines(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Returns the command that starts Spark's declarative pipelines with the clause, and environment variables to add.

    ``arguments`` are those of spark-pipelines. Raises ToolError if packages that it needs are missing, and the errors of
    ``settings``.
    """
    missing = [name for name in ("grpc", "google.rpc", "yaml") if not _is_there(name)]
    if missing:
        raise ToolError(f"spark-pipelines needs packages that are not there ({', '.join(missing)}); install them with: pip install 'sparkcep[pipelines]'")
    # Not as arguments: if there are more than a few settings, Spark passes only the last ones to the program's own server.
    given = _with_settings(shlex.split(os.environ.get(_SUBMIT_ARGS, "pyspark-shell")), settings())
    environment = {_SUBMIT_ARGS: shlex.join(given), "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    return [str(_spark_home() / "bin" / "spark-pipelines"), *arguments], environment


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the enclosing package is missing as well
        return False


# command -> the function that returns its program
PROGRAMS = {"spark-sql": shell, "spark-pipelines": pipelines, "thriftserver": thrift_server, "dbt": dbt}


def _spark_home() -> Path:
    return Path(find_spark_home())


def _with_settings(arguments: Sequence[str], ours: dict[str, str]) -> list[str]:
    """Returns ``arguments`` with our settings added to the class path and extensions that they, or the defaults file, set."""
    defaults = _defaults(arguments)
    out = list(arguments)
    added = []
    for key, separator in ((_CLASS_PATH, os.pathsep), (_EXTENSIONS, ",")):
        places = _places(out, key)
        for i, head, value in places:
            out[i] = head + _joined(value, ours[key], separator)
        if not places:
            added += ["--conf", f"{key}={_joined(defaults.get(key, ''), ours[key], separator)}"]
    for key in (_PYTHON, BATCH_BYTES):
        if key not in defaults:
            added += ["--conf", f"{key}={ours[key]}"]  # a setting among the arguments comes later, and wins
    return added + out


def _joined(theirs: str, ours: str, separator: str) -> str:
    parts = [p for p in theirs.split(separator) if p.strip()]
    return separator.join(parts if ours in parts else [*parts, ours])


def _places(arguments: Sequence[str], key: str) -> list[tuple[int, str, str]]:
    """Returns the places where arguments of spark-submit set ``key``, each as (index, text before the value, value)."""
    found = []
    before = ""
    for i, argument in enumerate(arguments):
        named = re.match(r"(?:--conf=|-c=)?" + re.escape(key) + r"\s*=", argument)
        if named and (before in ("--conf", "-c") or argument.startswith("-")):
            found.append((i, named[0], argument[named.end() :]))
        elif key == _CLASS_PATH and before == "--driver-class-path":
            found.append((i, "", argument))
        elif key == _CLASS_PATH and argument.startswith("--driver-class-path="):
            head, _, value = argument.partition("=")
            found.append((i, f"{head}=", value))
        before = argument
    return found


def _option(arguments: Sequence[str], name: str) -> str | None:
    """Returns the value of ``name VALUE`` or ``name=VALUE``, or None."""
    for i, argument in enumerate(arguments):
        if argument == name and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
    return None


def _defaults(arguments: Sequence[str]) -> dict[str, str]:
    """Returns the settings in the properties files that spark-submit would read."""
    named = _option(arguments, "--properties-file")
    files = [Path(named)] if named else []
    if not named or "--load-spark-defaults" in arguments:
        files.insert(0, _conf_dir() / "spark-defaults.conf")
    found: dict[str, str] = {}
    for line in (line for file in files if file.is_file() for line in file.read_text("utf-8").splitlines()):
        pair = re.fullmatch(r"([^#!\s=:][^\s=:]*)(?:\s*[=:]\s*|\s+)(.*)", line.strip())
        if pair:
            found[pair[1]] = pair[2].strip()
    return found


def _conf_dir() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or _spark_home() / "conf")


def _chooses_host(arguments: Sequence[str]) -> bool:
    """Whether the server's host has a value. A mention or an empty value does not count: Hive then listens on all interfaces."""
    if os.environ.get("HIVE_SERVER2_THRIFT_BIND_HOST"):
        return True
    given = [re.search(rf"(?:^|[=.]){re.escape(_BIND_HOST)}=\s*\S", argument) for argument in arguments]
    defaults = [value for key, value in _defaults(arguments).items() if f".{key}".endswith(f".{_BIND_HOST}")]
    return any(given) or any(defaults) or bool(_hive_property(_conf_dir() / "hive-site.xml", _BIND_HOST))


def _hive_property(file: Path, name: str) -> str:
    """Returns the value of ``name`` in one of Hive's configuration files.

    Returns "" without a value, or if the file cannot be read.
    """
    try:
        properties = list(ElementTree.parse(file).iter("property"))
    except (OSError, ElementTree.ParseError):
        return ""
    values = [p.findtext("value") or p.get("value", "") for p in properties if (p.findtext("name") or p.get("name", "")).strip() == name]
    return values[-1].strip() if values else ""


def _is_local(arguments: Sequence[str]) -> bool:
    masters = [value for _, _, value in _places(arguments, "spark.master")]
    master = _option(arguments, "--master") or (masters[-1] if masters else None) or os.environ.get("MASTER")
    return (master or _defaults(arguments).get("spark.master", "local[*]")).startswith("local")
