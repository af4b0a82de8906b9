"""What the JVM is told when a request cannot be answered as it should be; no JVM is started."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.serializers import CPickleSerializer  # noqa: E402

from sparkcep.clause.parser import parse_clause  # noqa: E402
from sparkcep.plan.build import make_plan  # noqa: E402
from sparkcep.spark.session import pickled, rewrite_service  # noqa: E402
from sparkcep.sql.rewrite import rewrite  # noqa: E402

INTERVAL = "interval"
ARRAY = {"type": "array", "elementType": "interval", "containsNull": True}


def analysed(clause: str, sql: str = "", **types) -> dict:
    """The answer about a clause whose plan's columns have these types (Spark's JSON)."""
    plan = make_plan(parse_clause(clause)).without_sql().to_json()
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in {**types, plan: "void"}.items()]
    request = {"kind": "analyze", "schema": json.dumps({"type": "struct", "fields": fields}), "distinct": True, "streaming": False, "sql": sql, "application": {}}
    return json.loads(rewrite_service.answer(json.dumps(request)))


@pytest.mark.parametrize("kind", [INTERVAL, ARRAY])
@pytest.mark.parametrize(
    ("clause", "column", "name"),
    [
        ("ORDER BY t MEASURES FIRST(`a column`) AS n PATTERN (A)", "__c0", "`a column`"),
        ("ORDER BY t MEASURES FIRST(t) AS n ALL ROWS PER MATCH PATTERN (A)", "c", "c"),
    ],
)
def test_columns_that_cannot_be_sent_are_named(kind, clause, column, name):
    error = analysed(clause, **{"__o0": "long", column: kind})["error"]
    assert error["error_class"] == "SPARKCEP.COLUMN_TYPE" and error["sqlstate"] == "0A000"
    assert error["message"].startswith(f"{name} is of type ") and "interval" in error["message"]


def test_what_should_not_have_been_is_told_as_such(monkeypatch, caplog):
    def broken(*_, **__):
        raise KeyError("no such thing")

    monkeypatch.setattr(pickled, "analyze", broken)
    monkeypatch.setattr(rewrite_service, "translated", broken)
    statement = {"sql": "SELECT 1", "settings": {}, "application": {}, "named_markers": False}
    for request in ({"kind": "analyze", "schema": "", "distinct": True, "streaming": False, "sql": "", "application": {}}, statement):
        with caplog.at_level(logging.ERROR, logger="sparkcep"):
            error = json.loads(rewrite_service.answer(json.dumps(request)))["error"]
        assert error["error_class"] == "SPARKCEP.INTERNAL" and error["sqlstate"] == "XX000" and "\n" not in error["description"]
        assert "KeyError: 'no such thing'" in error["description"] and "an error in sparkcep" in error["description"]
        assert isinstance(caplog.records[0].exc_info[1], KeyError)
        caplog.clear()


def test_an_error_of_the_analysis_is_told_over_the_statement():
    """The request names the statement, which was rewritten before."""
    clause = "ORDER BY t MEASURES array_agg(make_interval(0, t)) AS n PATTERN (A)"
    statement = f"SELECT *\nFROM t MATCH_RECOGNIZE ({clause})"
    rewrite = {"sql": statement, "settings": {}, "application": {}, "named_markers": False}
    assert "sql" in json.loads(rewrite_service.answer(json.dumps(rewrite)))
    error = analysed(clause, statement, __o0="integer", __c0=INTERVAL)["error"]
    assert (error["line"], error["fragment"]) == (2, "array_agg(make_interval(0, t))") and error["message"].startswith("make_interval(0, t) is of type")
    assert error["description"].endswith(f"\n{' ' * statement.split(chr(10))[1].index('array_agg')}{'^' * len('array_agg(make_interval(0, t))')}")


def test_a_statement_without_a_clause_is_told_why():
    asked = {"kind": "unbegun", "sql": "SELECT * FROM t MATCH_RECOGNISE (ORDER BY t PATTERN (A))"}
    assert "did you mean MATCH_RECOGNIZE?" in json.loads(rewrite_service.answer(json.dumps(asked)))["error"]["message"]
    assert json.loads(rewrite_service.answer(json.dumps({**asked, "sql": "SELECT FROM t PATTERN (a)"}))) == {}


class Helper:
    """A helper process, as the JVM starts one."""

    def __init__(self, milliseconds: int = 600_000, size: int = 1 << 30) -> None:
        command = [sys.executable, "-P", "-m", "sparkcep.spark.session.rewrite_service", str(milliseconds), str(size)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert self.read() == {}

    def send(self, sql: str) -> None:
        data = json.dumps({"sql": sql, "settings": {}, "application": {}, "named_markers": False}).encode()
        self.process.stdin.write(struct.pack(">i", len(data)) + data)
        self.process.stdin.flush()

    def read(self) -> dict:
        (size,) = struct.unpack(">i", self.process.stdout.read(4))
        return json.loads(self.process.stdout.read(size))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


ROOT = Path(rewrite_service.__file__).resolve().parents[3]
CLAUSE = "MATCH_RECOGNIZE (ORDER BY i MEASURES A.i AS a PATTERN (A B) DEFINE B AS i > PREV(i))"
LONG = f"SELECT * FROM (VALUES {', '.join(f'({i})' for i in range(400_000))}) AS t(i) {CLAUSE}"  # of four million characters, which take seconds


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no alarm clock on this system")
def test_a_request_beyond_its_time_ends_the_helper():
    with Helper(milliseconds=200) as helper:
        helper.send(LONG)
        assert helper.process.wait(60) == -signal.SIGALRM


def test_a_helper_ends_when_its_input_does_while_it_works():
    with Helper() as helper:
        helper.send(LONG)
        helper.process.stdin.close()
        assert helper.process.wait(60) == 0 and helper.process.stdout.read() == b""


@pytest.mark.further
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the memory of a process is bounded on Linux alone")
def test_a_request_beyond_its_memory_is_an_error_of_its_statement():
    with Helper(size=200 << 20) as helper:
        helper.send(LONG)
        answer, ended = helper.process.stdout.read(), helper.process.wait(60)  # the next statement has another helper
        if ended == -signal.SIGABRT:  # Python has lost count of its calls and ends itself; the JVM then tells the same error
            assert answer == b""
            return
        error = json.loads(answer[4:])["ended"]
        assert ended == 0 and error["error_class"] == "SPARKCEP.REWRITER_ENDED" and "spark.sparkcep.rewriter.memory" in error["message"]


@pytest.mark.parametrize("restored", [False, True])
def test_another_helper_is_told_how_the_statement_was_rewritten(monkeypatch, restored):
    before = {"sql": f"SELECT * FROM t {CLAUSE}", "settings": {}, "application": {}, "named_markers": False}
    sql = json.loads(rewrite_service.answer(json.dumps(before)))["sql"]
    places = {"kind": "places", "sql": sql, "spans": [[sql.index("match_recognize"), len(sql)]]}
    expected = json.loads(rewrite_service.answer(json.dumps(places)))
    monkeypatch.setattr(rewrite, "_recent", {})
    assert json.loads(rewrite_service.answer(json.dumps({**places, "earlier": {**before, "restored": restored}}))) == expected
    monkeypatch.setattr(rewrite, "_recent", {})
    request = {"kind": "reword", "sql": before["sql"], "condition": "X", "message": "wrong", "parameters": {}, "spots": [], "earlier": {**before, "restored": restored}}
    assert "message" in json.loads(rewrite_service.answer(json.dumps(request))) and rewrite.known(before["sql"]).restored == restored


def test_a_worker_without_the_package_says_what_to_do():
    command = base64.b64decode(pickled.mapper("{}", [], [], {"limit": 0, "cores": 1}))
    program = (
        "import base64, pickle, sys\nsys.modules['sparkcep'] = None\n"
        f"try:\n    pickle.loads(base64.b64decode({base64.b64encode(command)!r}))\nexcept RuntimeError as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.startswith("[SPARKCEP.NOT_INSTALLED] the Python of Spark's workers does not have sparkcep. Install") and "`sparkcep pack`" in said
    function, _ = CPickleSerializer().loads(command)
    assert function.func is pickled.match_batches and len(command) < 2_500


@pytest.mark.parametrize("visits", [3, 0])
def test_a_table_that_is_not_a_history_is_an_error_before_a_micro_batch(visits):
    """The error has the clause's place, and comes before the table is written to a checkpoint."""
    import pyarrow as pa

    plan = make_plan(parse_clause("PARTITION BY k ORDER BY ts PATTERN (A B) WINDOW INTERVAL '9' SECONDS APPROX 1 BUDGET 1 CHECKS USING HISTORY h DEFINE A AS price > 4"))
    kinds = {"__p0": "string", "__o0": "timestamp", "__letters": "long"}
    row = {"pattern": None, "place": 1, "errors": 0.0, "remaining": 1, "idle": 0, "visits": visits, "points": 1, "bundles": [0]}
    table = pa.table({"history": [[row]]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    fields = [{"name": f"c{i}", "type": kind, "nullable": True, "metadata": {}} for i, kind in enumerate([*kinds.values(), "timestamp"])]
    request = {
        "kind": "history", "plan": plan.to_json(), "columns": [[name, name, ""] for name in kinds], "sent": list(kinds), "ordered": 1,
        "types": json.dumps({"type": "struct", "fields": fields}), "read": base64.b64encode(sink.getvalue()).decode(),
    }
    answer = json.loads(rewrite_service.answer(json.dumps(request)))
    if visits:
        assert answer == {}
    else:
        assert answer["error"]["error_class"] == "SPARKCEP.HISTORY" and "visits is 0, but must be at least 1" in answer["error"]["message"] and answer["error"]["line"] == 1
