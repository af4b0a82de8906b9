"""One Spark session for all tests of a process, since starting one costs seconds; and which tests a process is given together."""

from __future__ import annotations

import gc
import logging
import os
import re
import sys

import pytest
from xdist.scheduler import LoadScopeScheduling

# Tests are of compiled kernels, but those of the interpreted ones (test_kernel_cache).
os.environ.setdefault("SPARKCEP_INTERPRET", "false")

# A test's code runs a few times only, so the optimising compiler and a collector with threads cost more than they save. Code of
# many plans is more than the first compiler's room of 48 MB holds.
JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC"
# .ci/run makes an archive of the classes (tests/class_archive.py). Java does without it where its class path is another one.
if os.path.exists(os.environ.get("SPARKCEP_TESTS_CLASSES", "")):
    JAVA += f" -Xlog:disable -XX:SharedArchiveFile={os.environ['SPARKCEP_TESTS_CLASSES']}"
# Spark's programs that tests start read these, and need two thirds of the processor time by them.
os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", JAVA)


# Of the session of all tests. To unset one gives later tests Spark's own default: 200 partitions take minutes.
SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"}
# What Spark does so that long queries end sooner: it compiles their plan, and plans again after each stage. A query of a test takes
# half the time without. A test with the mark ``codegen`` has Spark's own defaults.
PLAIN = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.adaptive.enabled": "false"}

SESSION = pytest.StashKey()
DEFAULTS = pytest.StashKey[bool]()


def choose_plans(config) -> None:
    """Gives the session, once there is one, Spark's defaults or PLAIN, as the test that comes next asks for."""
    session = config.stash.get(SESSION, None)
    for key, value in PLAIN.items() if session else ():
        session.conf.unset(key) if config.stash[DEFAULTS] else session.conf.set(key, value)


@pytest.hookimpl(tryfirst=True)  # before its fixtures, those of its module too
def pytest_runtest_setup(item):
    defaults = item.get_closest_marker("codegen") is not None
    if item.config.stash.get(DEFAULTS, None) is not defaults:
        item.config.stash[DEFAULTS] = defaults
        choose_plans(item.config)


@pytest.fixture(scope="session")
def spark(request, tmp_path_factory):
    """A small local session whose ``sql`` understands MATCH_RECOGNIZE."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    sql = pytest.importorskip("pyspark.sql")
    import sparkcep

    settings = {
        **SETTINGS,
        **PLAIN,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.enabled": "false",
    }
    builder = sql.SparkSession.builder.master("local[2]").appName("sparkcep-tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    sparkcep.enable(session)
    request.config.stash[SESSION] = session
    choose_plans(request.config)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def level_of_the_log():
    """Commands that a test calls may silence the log; what runs next in this process reads it again."""
    log = logging.getLogger("sparkcep")
    before = log.level
    yield
    log.setLevel(before)


@pytest.fixture(autouse=True)
def settings_of_the_session(request):
    """A test leaves the session's settings as it found them."""
    spark = request.getfixturevalue("spark") if "spark" in request.fixturenames else None
    before = {key: spark.conf.get(key) for key in (*SETTINGS, *PLAIN)} if hasattr(spark, "conf") else {}  # "spark" may be a test's own parameter
    yield
    left = {key: spark.conf.get(key) for key in before}
    for key, value in before.items():
        spark.conf.set(key, value)
    assert left == before


# Python looks for garbage among all objects again and again, which took a seventh of the time: most objects, those of tests and of
# compilers, stay to the end. So it looks seldom, and never at what is there before the first test.
gc.set_threshold(20_000, 20, 50)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()


# All tests that were found, whichever of them run.
FOUND = pytest.StashKey[list[pytest.Item]]()


@pytest.hookimpl(tryfirst=True)  # before those are dropped that -m leaves out
def pytest_collection_modifyitems(config, items):
    """Files that need Spark or other programs come first, since they are long; what comes last is short, so all processes end
    together."""
    for item in items:
        if "spark" in item.fixturenames:
            item.add_marker("spark")
    long = {item.path for item in items if item.get_closest_marker("spark") or item.get_closest_marker("process")}
    items.sort(key=lambda item: item.path not in long)
    config.stash[FOUND] = list(items)


def together(nodeid: str) -> str:
    """The name of the tests that one process runs one after the other: a file, a folder of SQL cases, what reads the grammar (which
    takes seconds), or one test that starts nothing."""
    file, _, test = nodeid.partition("::")
    if file.startswith(("tests/property/", "tests/golden/", "tests/cases/test_in_process.py")):
        return nodeid
    if file.startswith("tests/grammar/"):
        return "tests/grammar"
    folder = re.match(r"test_case\[(\w+)/", test)
    return f"{file}::{folder[1]}" if folder else file


# Where tests ask for a session (test_selection.py holds this).
OF_SPARK = re.compile(r"tests/(spark/|questions/test_questions|transpiled/|docs/|cases/test_(sql_cases|case_settings)\.py|cli/test_demo\.py)")


class Together(LoadScopeScheduling):
    """The first process begins with files that need a session, and the others begin with the rest. A session costs as much
    processor time as twenty of its queries, so another process starts one only if nothing else is left."""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)

    def _assign_work_unit(self, node) -> None:
        with_session = node is next(iter(self.nodes))
        for scope in self.workqueue:
            if bool(OF_SPARK.match(scope)) is with_session:
                self.workqueue.move_to_end(scope, last=False)
                break
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config, log):
    return Together(config, log)
