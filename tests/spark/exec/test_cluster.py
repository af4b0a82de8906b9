"""On a cluster: executors in processes of their own, which have the package from the archive of ``sparkcep pack``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from sparkcep.cli import pack  # noqa: E402
from sparkcep.kernels.jit import cache  # noqa: E402
from sparkcep.kernels.match import backtrack  # noqa: E402
from tests.spark.exec.cluster import run, settings_of, standalone  # noqa: E402

slow = pytest.mark.slow
FOUND = re.compile(r"^answer (.+)$", re.M)


def test_the_archive_has_the_package_and_its_kernels(tmp_path, monkeypatch):
    digest = cache.digest(backtrack.__name__)
    for name in (f"backtrack-{digest}", "backtrack-0123456789abcdef", f"nothing-{digest}"):
        (tmp_path / "cache" / name).mkdir(parents=True)
        (tmp_path / "cache" / name / "one.nbc").write_bytes(b"kernel")
    monkeypatch.setattr(cache, "places", lambda: (tmp_path / "cache",))
    files, kernels = pack.pack(tmp_path / "one.zip")
    pack.pack(tmp_path / "two.zip")
    names = zipfile.ZipFile(tmp_path / "one.zip").namelist()
    assert {"sparkcep/__init__.py", "sparkcep/kernels/match/backtrack.py", "sparkcep/spark/jvm/functions/Call.java", f"sparkcep/shipped/kernels/backtrack-{digest}/one.nbc"} <= set(names)
    assert not any("__pycache__" in name or "0123456789abcdef" in name or "nothing" in name for name in names)
    assert (len(names), kernels) == (files + kernels, 1) and (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


@pytest.mark.further
def test_a_package_in_an_archive_is_unpacked_once(tmp_path, monkeypatch):
    """As Spark Connect's artifacts have it: modules must be files, since kernels are known by their texts."""
    monkeypatch.setattr(cache, "places", lambda: ())
    pack.pack(tmp_path / "sparkcep.zip")
    code = "import sparkcep.kernels.match.backtrack, sparkcep.kernels.jit.cache as c; print(c.__file__); print(len(c.digest('sparkcep.kernels.match.backtrack')))"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "sparkcep.zip"), "SPARKCEP_CACHE_DIR": str(tmp_path / "cache")}
    said = [subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
    assert said[0] == said[1] and said[0][0].startswith(str(tmp_path / "cache" / "packed-")) and said[0][1] == "16"
    assert len(list((tmp_path / "cache").glob("packed-*"))) == 1


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("pack") / "sparkcep.zip"
    pack.pack(path)
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone(tmp_path_factory.mktemp("cluster")) as url:
        yield url


SAME = """
for number, place in ((0, "local[1]"), (1, master), (2, master), (3, master), (4, master)):
    spark = start(place, **{"spark__cores__max": str(max(1, number)), "spark__scheduler__minRegisteredResourcesRatio": "1.0"})
    rows(spark, 40, 300)
    print("answer", number, json.dumps(answer(spark)), flush=True)
    spark.stop()
"""


@slow
def test_one_to_four_executors_give_the_same(cluster, archive):
    found = [text.split(" ", 1) for text in FOUND.findall(run(SAME, cluster, settings_of(archive)))]
    assert [number for number, _ in found] == ["0", "1", "2", "3", "4"]
    assert len({text for _, text in found}) == 1 and json.loads(found[0][1])[0] > 1000


LOST = """
import os, signal, subprocess
spark = start(spark__cores__max="2", spark__scheduler__minRegisteredResourcesRatio="1.0")
rows(spark, 40, 300)
print("answer", json.dumps(answer(spark)), flush=True)
app = spark.sparkContext.applicationId
def executors():
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout.splitlines()
    return [int(line.split()[0]) for line in listed if app in line and "CoarseGrainedExecutorBackend" in line]
def later(batches):
    import time
    for batch in batches:
        time.sleep(1.0)
        yield batch
killed = []
def lose():
    time.sleep(4)
    killed.append(min(executors()))
    os.kill(killed[0], signal.SIGKILL)
spark.table("t").repartition(16, "k").mapInArrow(later, "k long, t long, v long").createOrReplaceTempView("t")
thread = threading.Thread(target=lose)
thread.start()
print("answer", json.dumps(answer(spark)), flush=True)
thread.join()
print("answer", json.dumps(answer(spark)), killed[0] in executors(), flush=True)
spark.stop()
"""


@slow
def test_a_lost_executor_changes_nothing(cluster, archive):
    """It is killed while rows are on their way, with what it kept of the exchange."""
    before, during, after = FOUND.findall(run(LOST, cluster, settings_of(archive)))
    assert (during, after) == (before, f"{before} False") and json.loads(before)[0] > 1000


MISMATCH = """
spark = start(spark__cores__max="1")
rows(spark, 4, 30)
try:
    answer(spark)
except Exception as error:
    print("answer", " ".join(str(error).split()))
"""


def of_another_version(archive: Path, other: Path) -> Path:
    """Writes the archive of another version of sparkcep to ``other``."""
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "sparkcep/version.py":
                data = re.sub(rb'__version__ = "[^"]+"', b'__version__ = "9.9.9"', data)
            elif name == "sparkcep/plan/json.py":
                data = re.sub(rb"^FORMAT = \d+", b"FORMAT = 99", data, flags=re.M)
            new.writestr(name, data)
    return other


@slow
def test_another_version_on_executors_is_an_error_that_names_both(cluster, archive, tmp_path):
    (said,) = FOUND.findall(run(MISMATCH, cluster, settings_of(of_another_version(archive, tmp_path / "sparkcep.zip"))))
    assert "made by sparkcep 0.1.0 (format" in said and "given to sparkcep 9.9.9 (format 99)" in said, said


@slow
def test_the_doctor_looks_at_executors(cluster, archive):
    command = [sys.executable, "-m", "sparkcep", "doctor", "--master", cluster]
    conf = [part for key, value in {**settings_of(archive), "spark.cores.max": "2"}.items() for part in ("--conf", f"{key}={value}")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([*command, *conf], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(rf"^ok    executor \d+ +.*/{pack.FOLDER}/sparkcep$", done.stdout, re.M)) == 2, done.stdout
    assert re.search(r"^ok    a statement +runs$", done.stdout, re.M)
