"""``spark.executor.pyspark.memory``: our daemon maps less than a worker may, or gives way, and too little is an error of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from sparkcep.errors import ClauseError  # noqa: E402
from sparkcep.spark.exec import worker_memory  # noqa: E402
from tests.selection import further  # noqa: E402

linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="mapped memory is read from /proc")
DAEMON = """
import sys
import pyspark.daemon
from sparkcep.spark import daemon
pyspark.daemon.manager = lambda: print("mapped", daemon._mapped())
daemon._give_way = lambda reason: (print("gives way:", reason), sys.exit(0))
daemon.main()
"""


@linux
@pytest.mark.parametrize(("limit", "said"), [further(pytest.param("1024", "mapped")), further(pytest.param("300", "gives way: spark.executor.pyspark.memory gives each of them 300 MB; set "))])
def test_the_daemon_maps_less_than_its_workers_may(limit, said):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYSPARK_EXECUTOR_MEMORY_MB": limit}
    done = subprocess.run([sys.executable, "-c", DAEMON], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(said), done.stdout + done.stderr
    assert not said.startswith("mapped") or 100 < int(done.stdout.split()[1]) < worker_memory.LEAST


@pytest.mark.parametrize(("limit", "cores", "advice"), [(512, 1, "=768m or more"), (700, 4, "=3072m or more, 768 MB for each of the 4 cores of an executor")])
def test_too_little_is_an_error_that_names_the_setting_and_the_least_value(limit, cores, advice):
    with pytest.raises(ClauseError, match=rf"spark.executor.pyspark.memory{advice}") as caught:
        worker_memory.check(limit, cores)
    assert caught.value.error_class == "SPARKCEP.SETTING"
    worker_memory.check(0, cores)
    worker_memory.check(worker_memory.LEAST, cores)


@linux
def test_a_worker_checks_its_own_limit():
    program = "import resource\nfrom sparkcep.spark.exec import worker_memory\nresource.setrlimit(resource.RLIMIT_AS, (500 << 20, 500 << 20))\nworker_memory.check_own()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "[SPARKCEP.SETTING] spark.executor.pyspark.memory leaves 500 MB" in done.stderr
