"""Compiles the parser extension against the Spark at hand, once per user, Spark version and source.

The package ships Java source only: one jar could not fit every Spark, and the compiler needs about a second.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from importlib import resources
from pathlib import Path

from sparkcep.spark.java import find_java_tool
from sparkcep.storage import cache_root

EXTENSION_CLASS = "org.sparkcep.SparkcepExtensions"
_RELEASE = "17"  # what Spark 4 itself is compiled for


class JvmBuildError(RuntimeError):
    """The parser extension could not be compiled; the message says why."""


class NoCompilerError(JvmBuildError):
    """There is Java, but no compiler with it."""


def extension_jar(*, java_home: str | None = None, spark_home: str | None = None) -> Path:
    """The jar with :data:`EXTENSION_CLASS`, compiled now if it is not in the cache yet.

    Also for a JVM that has yet to start: ``spark.jars`` = this path, ``spark.sql.extensions`` = EXTENSION_CLASS.
    """
    jars = _spark_jars(spark_home)
    sources = _sources()
    jar = _cache_dir() / f"sparkcep-parser-{_fingerprint(sources, jars)}.jar"
    if not jar.exists():
        _compile(sources, jars, jar, java_home)
    return jar


def _sources() -> dict[str, str]:
    """Name and text of the package's Java files."""
    files = (f for f in resources.files("sparkcep.spark.jvm").iterdir() if f.name.endswith(".java"))
    return {f.name: f.read_text(encoding="utf-8") for f in sorted(files, key=lambda f: f.name)}


def find_spark_home() -> str:
    """The Spark that pyspark starts: $SPARK_HOME, or the one inside the package."""
    from pyspark.find_spark_home import _find_spark_home

    return _find_spark_home()


def _spark_jars(spark_home: str | None) -> Path:
    jars = Path(spark_home or find_spark_home()) / "jars"
    if not any(jars.glob("spark-catalyst_*.jar")):
        raise JvmBuildError(f"no Spark jars to compile against in {jars}")
    return jars


def _fingerprint(sources: dict[str, str], jars: Path) -> str:
    versions = sorted(p.name for p in jars.glob("spark-*.jar"))
    return hashlib.sha256("\n".join([*sources, *sources.values(), _RELEASE, *versions]).encode()).hexdigest()[:20]


def _cache_dir() -> Path:
    base = cache_root()
    try:
        # for the user alone: what lies here is loaded into the driver
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise JvmBuildError(
            f"cannot write to the cache directory {base} ({error}); set SPARKCEP_CACHE_DIR to one that is writable"
        ) from error
    return base


def _compile(sources: dict[str, str], jars: Path, jar: Path, java_home: str | None) -> None:
    javac = find_java_tool("javac", java_home)
    if javac is None:
        raise NoCompilerError("there is no Java compiler (javac), only a Java runtime")
    try:
        with tempfile.TemporaryDirectory(dir=jar.parent) as work:
            classes = Path(work, "classes")
            files = [Path(work, name) for name in sources]
            for file in files:
                file.write_text(sources[file.name], encoding="utf-8")
            command = [
                str(javac), "--release", _RELEASE, "-encoding", "UTF-8", "-proc:none", "-nowarn",
                "-cp", str(jars / "*"), "-d", str(classes), *map(str, files),
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise JvmBuildError(f"{javac} failed:\n{done.stdout}{done.stderr}")
            built = Path(work, "parser.jar")
            with zipfile.ZipFile(built, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n\n")
                for path in sorted(classes.rglob("*.class")):
                    archive.write(path, path.relative_to(classes).as_posix())
            os.replace(built, jar)  # another process may be doing the same
    except OSError as error:
        raise JvmBuildError(f"cannot compile into {jar.parent}: {error}") from error
