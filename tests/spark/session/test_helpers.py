"""Helper processes that rewrite for a JVM: slow ones, killed ones, several at a time; and the settings of the application that
bound them and its sessions. One application for all, whose Python driver steps aside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import sparkcep  # noqa: E402
from sparkcep.redaction import REDACTED  # noqa: E402
from tests.spark.programs import needs_javac  # noqa: E402

# The program takes a minute, since it waits for a request that never ends. In the wider run, test_shell.py kills a helper.
pytestmark = [needs_javac, pytest.mark.process, pytest.mark.slow]

PROGRAM = r'''
import json, os, signal, subprocess, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
from sparkcep.spark.session import session as ours

spark = SparkSession.builder.getOrCreate()
extension = ours._load_extension(spark)
ours.enable(spark, warm=False)
extension.setRewriter(None)
jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
CLAUSE = "MATCH_RECOGNIZE (ORDER BY id MEASURES A.id AS a PATTERN (A B) DEFINE A AS id = 1, B AS id > PREV(id))"
said = {}

def ask(session, clause=CLAUSE):
    """The rows of a statement that reaches the JVM's parser alone, or the class of its error."""
    try:
        return [row.get(0) for row in session._jsparkSession.sql(f"SELECT * FROM range(5) {clause}").collectAsList()]
    except Exception as error:
        text = str(error)
        return text[text.index("[SPARKCEP.") :].partition("\n")[0] if "[SPARKCEP." in text else text

def helpers():
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    found = (line.split(None, 2) for line in listed.splitlines() if "sparkcep.spark.session.rewrite_service" in line)
    return [int(pid) for pid, parent, _ in found if int(parent) == jvm]

def member(name, of):
    field = extension.getClass().getClassLoader().loadClass("org.sparkcep.rewriter.Helpers").getDeclaredField(name)
    field.setAccessible(True)
    return field.get(of)

def in_background(session):
    """Asks, and returns once a helper has the request."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(ask(session)))
    thread.start()
    while not member("busy", member("instance", None)).size():
        time.sleep(0.05)
    return thread, answers

other = spark.newSession()
said["first"] = ask(spark)
(first,) = helpers()
os.kill(first, signal.SIGSTOP)  # a request that never ends
thread, answers = in_background(spark)
said["other"] = ask(other)
said["held up"] = bool(answers)
thread.join()
said["late"] = answers[0]
(second,) = helpers()
said["another"] = second != first
os.kill(second, signal.SIGSTOP)
thread, answers = in_background(spark)
os.kill(second, signal.SIGKILL)
thread.join()
said["killed"] = answers[0]
said["after"] = ask(spark)
(third,) = helpers()
os.kill(third, signal.SIGKILL)
while subprocess.run(["ps", "-o", "stat=", "-p", str(third)], capture_output=True, text=True).stdout:  # until the JVM knows
    time.sleep(0.05)
said["killed before"] = ask(spark)
said["count"] = len(helpers())

# settings of the application: of this session, by the JVM and by Python
many = "MATCH_RECOGNIZE (ORDER BY id MEASURES A.id AS a EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) DEFINE A AS id >= 0, B AS id > A.id)"
said["application"] = ask(spark, many)
spark.conf.set("sparkcep.maxMatchesPerPartition", "2")
said["less"] = ask(spark, many)
spark.conf.set("sparkcep.maxMatchesPerPartition", "4")
said["more"] = ask(spark, many)
spark.conf.unset("sparkcep.maxMatchesPerPartition")
spark.conf.set("spark.sparkcep.maxMatchesPerPartition", "4")
said["more by the long name"] = ask(spark, many)
extension.setRewriter(ours._Rewriter())
try:
    spark.sql(f"SELECT * FROM range(5) {many}")
except Exception as error:
    said["more by Python"] = str(error)
other.conf.set("spark.sparkcep.maxMatchesPerPartition", "3")
other.conf.set("spark.sparkcep.maxStep", "3")
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        other.sql(f"SELECT * FROM range(5) {many}").collect()
    except Exception as error:
        said["application by Python"] = str(error)
said["warned"] = [str(w.message) for w in caught]
# what the session redacts
extension.setRewriter(None)
other.conf.set("spark.sql.redaction.string.regex", r"secret-\d")
said["redacted"] = {}
for name, condition in json.loads(sys.argv[2]).items():
    clause = f"MATCH_RECOGNIZE (ORDER BY id MEASURES A.id AS a PATTERN (A B) DEFINE B AS {condition})"
    try:
        other._jsparkSession.sql(f"SELECT 'secret-0' AS s, id FROM range(5) {clause}").collectAsList()
    except Exception as error:
        said["redacted"][name] = str(error).partition("\n\nJVM stacktrace")[0]
extension.setRewriter(ours._Rewriter())
# a plan by hand, with the default limits

from sparkcep.sql.rewrite.rewrite import rewrite
extension.setActive(False)
by_hand = rewrite(f"SELECT * FROM range(5) {many}")
extension.setActive(True)
try:
    ours._session_class(spark).sql._sparkcep_original(other, by_hand).collect()
except Exception as error:
    said["by hand"] = str(error)
Path(sys.argv[1]).write_text(json.dumps(said))
'''


WRONG = {
    "clause": "id > 'secret-1' AND CLASSIFIER(X) = 'A'",
    "parser": "id = 1) AS m WHERE s = 'secret-4' GROUP (1",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tmp_path_factory.mktemp("helpers")
    settings = {
        "spark.master": "local[1]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.sparkcep.rewriter.timeout": "40s", "spark.sparkcep.rewriter.processes": "2", "spark.sparkcep.maxMatchesPerPartition": "3",
        "spark.sparkcep.python": sys.executable,
    }  # fmt: skip
    arguments = " ".join(f"--conf {key}={value}" for key, value in settings.items())
    root = str(Path(sparkcep.__file__).resolve().parents[1])
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell", "PYTHONPATH": root, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    report, log = folder / "said.json", folder / "log"
    with log.open("wb") as sink:
        subprocess.run([sys.executable, "-c", PROGRAM, str(report), json.dumps(WRONG)], cwd=folder, env=environment, stdout=sink, stderr=sink, timeout=500, check=False)
    assert report.exists(), log.read_text()[-4000:]
    return {**json.loads(report.read_text()), "log": log.read_text()}


def test_a_slow_session_does_not_hold_up_another(said):
    assert said["first"] == said["other"] == [1] and not said["held up"]


def test_a_request_that_never_ends_is_an_error_of_its_statement(said):
    assert said["late"].startswith("[SPARKCEP.REWRITER_TIMEOUT]") and "takes more than 40s" in said["late"] and "spark.sparkcep.rewriter.timeout" in said["late"]
    assert said["another"]


def test_a_request_whose_helper_is_killed_is_not_repeated(said):
    assert said["killed"].startswith("[SPARKCEP.REWRITER_ENDED]") and "spark.sparkcep.rewriter.memory" in said["killed"]
    assert said["after"] == said["killed before"] == [1] and said["count"] == 1


def test_limits_of_the_application_bound_its_sessions(said):
    assert "SPARKCEP.MATCH_LIMIT" in said["application"] and "SPARKCEP.MATCH_LIMIT" in said["less"] and "SPARKCEP.MATCH_LIMIT" in said["application by Python"]
    for key in ("more", "more by the long name", "more by Python"):
        assert "[SPARKCEP.SETTING] " in said[key] and "is 4, and the application allows at most 3 (spark.sparkcep.maxMatchesPerPartition)" in said[key]
    assert "the application allows at most 3" in said["by hand"]


def test_misspelled_settings_are_told(said):
    assert said["warned"] == ["spark.sparkcep.maxStep is not a setting of sparkcep and is ignored; did you mean spark.sparkcep.maxSteps?"]


def test_errors_are_redacted(said):
    assert said["redacted"].keys() == WRONG.keys()
    for text in said["redacted"].values():
        assert "secret-" not in text and REDACTED in text
    *_, line, mark = said["redacted"]["clause"].rstrip().split("\n")
    assert [c for c, m in zip(line, mark) if m == "^"] == ["X"]
