"""Compiles the JVM extension against the installed Spark, once per user, Spark version and source.

``enable`` and the command ``sparkcep jar`` use it. The package ships Java source only: one jar could not fit every Spark, and the
compiler needs about a second.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from sparkcep import storage
from sparkcep.errors import ToolError
from sparkcep.spark.java import find_java_tool
from sparkcep.spark.versions import wrong

log = logging.getLogger("sparkcep")

EXTENSION_CLASS = "org.sparkcep.SparkcepExtensions"
_RELEASE = "17"  # the release that Spark 4 itself targets


class JvmBuildError(ToolError, RuntimeError):
    """The JVM extension could not be compiled. The message says why."""


class NoCompilerError(JvmBuildError):
    """Java is installed without a compiler."""

    code = 3


def extension_jar(*, java_home: str | None = None, spark_home: str | None = None) -> Path:
    """Returns the jar that contains :data:`EXTENSION_CLASS`. Compiles it if it is not cached.

    It also suits a JVM that has not started yet: set ``spark.jars`` to this path and ``spark.sql.extensions`` to EXTENSION_CLASS.
    """
    jars = _spark_jars(spark_home)
    sources = _sources(jars)
    name = _jar_name(sources, jars)
    places = storage.places(storage.cache_root())
    shipped = Path(__file__).parents[2] / "shipped"  # a platform's wheel contains a jar for each Spark that it was built with
    built = next((place / name for place in (shipped, *places) if _is_whole(place / name)), None)
    if built is None:
        built = places[-1] / name
        _compile(sources, jars, built, java_home)
    return built


def _is_whole(jar: Path) -> bool:
    """Whether a jar exists and is safe to load: it is not damaged, and only the user or root can have written it."""
    if not storage.trusted(jar):
        return False
    try:
        with zipfile.ZipFile(jar) as archive:
            return bool(archive.namelist()) and archive.testzip() is None
    except Exception as error:  # zipfile raises a dozen exception types for damaged archives
        log.info("%s is damaged (%s) and is compiled again", jar, error)
        return False


# Folders that are compiled separately. ``_EXCHANGE`` and ``_OPERATOR`` have a subclass of Spark's exchange and the stream operator,
# with stubs, which are signatures of the Spark classes that they extend. ``_VERSIONS``: classes that differ between Spark versions,
# and the calls that each must have; compiled against Spark.
_EXCHANGE, _OPERATOR, _VERSIONS = ("exchange/shuffle", "stubs/exchange"), ("stream/exec", "stubs/stream"), ("versions",)
_OWN = Path("org", "sparkcep")  # of a folder of classes, without those of stubs


def _sources(jars: Path) -> dict[str, str]:
    """Returns the names and texts of the Java files for a Spark. The files in folders have the folder in their name."""
    root = resources.files("sparkcep.spark.jvm")
    (folder,) = _VERSIONS
    versions = [f.name for f in (root / folder).iterdir() if f.is_dir()]
    found = dict(_files(root, "", {f"{folder}/{version}/" for version in versions}))
    for version in _until(versions, jars):  # a class of an earlier version applies until a later version replaces it
        found.update(_files(root / folder / version, f"{folder}/", set()))
    return {name: found[name].read_text(encoding="utf-8") for name in sorted(found)}


def _files(folder: Traversable, head: str, without: set[str]) -> Iterator[tuple[str, Traversable]]:
    """Yields the Java files below a folder, by ``head`` and their path, without those in the folders ``without``."""
    for f in folder.iterdir():
        if f.name.endswith(".java"):
            yield head + f.name, f
        elif f.is_dir() and (inside := f"{head}{f.name}/") not in without:
            yield from _files(f, inside, without)


def _part(name: str) -> tuple[str, ...]:
    """Returns the separately compiled folders to which a file belongs; () for all other files."""
    folder = name.rpartition("/")[0]
    return next((part for part in (_EXCHANGE, _OPERATOR, _VERSIONS) if folder in part), ())


def _until(versions: list[str], jars: Path) -> list[str]:
    """Returns the versions up to the installed Spark's, in order."""
    (jar,) = jars.glob("spark-catalyst_*.jar")  # spark-catalyst_2.13-4.3.0.jar; platforms append more after the number
    return [version for version in sorted(versions, key=_numbers) if _numbers(version) <= _numbers(jar.name.split("-")[2])]


def _numbers(version: str) -> list[int]:
    """Returns major and minor version."""
    return [int(part) for part in version.split(".")[:2]]


def find_spark_home() -> str:
    """Returns the Spark home that pyspark starts: $SPARK_HOME, or the one inside the package."""
    from pyspark.find_spark_home import _find_spark_home

    return _find_spark_home()


def _spark_jars(spark_home: str | None) -> Path:
    jars = Path(spark_home or find_spark_home()) / "jars"
    if not any(jars.glob("spark-catalyst_*.jar")):
        raise JvmBuildError(f"no Spark jars to compile against in {jars}")
    for jar in jars.glob("spark-catalyst_*.jar"):
        if problem := wrong(jar.stem.split("-")[2]):
            raise JvmBuildError(f"{problem}; {jar.parent} is of that version")
    return jars


def _jar_name(sources: dict[str, str], jars: Path) -> str:
    versions = sorted(p.name for p in jars.glob("spark-*.jar"))
    made_from = "\n".join([*sources, *sources.values(), _RELEASE, *versions])
    return f"sparkcep-parser-{hashlib.sha256(made_from.encode()).hexdigest()[:20]}.jar"


def _compile(sources: dict[str, str], jars: Path, jar: Path, java_home: str | None) -> None:
    javac = find_java_tool("javac", java_home)
    if javac is None:
        advice = "The JVM extension must be compiled once: install a JDK 17 or newer instead of the JRE"
        raise NoCompilerError(f"the Java compiler (javac) is missing, only a Java runtime was found. {advice}")
    try:
        with tempfile.TemporaryDirectory(dir=jar.parent) as work:
            classes, exchange, streams = Path(work, "classes"), Path(work, "exchange classes"), Path(work, "stream classes")
            (exchange / _OWN).mkdir(parents=True)
            for name, text in sources.items():
                Path(work, name).parent.mkdir(parents=True, exist_ok=True)
                Path(work, name).write_text(text, encoding="utf-8")

            def compiled(part: tuple[str, ...], to: Path, *more: Path) -> str:
                """Compiles the files of a part (:func:`_part`). Returns the compiler's output if it failed, else ""."""
                files = [str(Path(work, name)) for name in sources if _part(name) == part]
                if not files:
                    return ""
                command = [
                    str(javac), "--release", _RELEASE, "-encoding", "UTF-8", "-proc:none", "-nowarn",
                    "-cp", os.pathsep.join([*map(str, more), str(jars / "*")]), "-d", str(to), *files,
                ]  # fmt: skip
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                return f"{done.stdout}{done.stderr}" if done.returncode else ""

            if failed := compiled(_EXCHANGE, exchange):
                raise JvmBuildError(f"{javac} failed:\n{failed}")
            shutil.copytree(exchange / _OWN, classes / _OWN)
            if failed := compiled((), classes, classes):
                raise JvmBuildError(f"{javac} failed:\n{failed}")
            # The signatures of Spark's own stream classes are known for some versions only. If compiling against them fails, all
            # stream classes are left out together.
            if failed := compiled(_VERSIONS, streams, classes) or compiled(_OPERATOR, streams, streams, classes):
                log.info("sparkcep does not support the streams of this Spark version: %s", failed)
            else:
                shutil.copytree(streams / _OWN, classes / _OWN, dirs_exist_ok=True)
            content = io.BytesIO()
            with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n\n")
                for path in sorted(classes.rglob("*.class")):
                    archive.write(path, path.relative_to(classes).as_posix())
            storage.write(jar, content.getvalue())  # another process may be writing the same jar
    except OSError as error:
        raise JvmBuildError(f"cannot compile into {jar.parent}: {error}; set SPARKCEP_CACHE_DIR to a writable folder") from error
