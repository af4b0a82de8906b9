"""``enable(spark)`` on a classic session: every road by which a statement reaches Spark."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
import zipfile
from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark")

from py4j.java_gateway import CallbackServerParameters, JavaObject  # noqa: E402
from py4j.protocol import Py4JError  # noqa: E402
from pyspark.errors import AnalysisException, ParseException  # noqa: E402

from sparkcep import storage  # noqa: E402
from sparkcep.errors import ClauseError  # noqa: E402
from sparkcep.spark.exec.table_function import GRAPH_FUNCTIONS  # noqa: E402
from sparkcep.spark.java import JavaNotFoundError, find_java_tool, require_java  # noqa: E402
from sparkcep.spark.session import jar as jvm_build  # noqa: E402
from sparkcep.spark.session import session
from sparkcep.sql.rewrite.rewrite import name_markers  # noqa: E402
from tests.spark.configured import configured  # noqa: E402
from tests.support.views import temporary_views  # noqa: E402

MATCH = "MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES A.price AS p PATTERN (A) DEFINE A AS price > 10)"
BAD = MATCH.replace("DEFINE A", "DEFINE X")
ROWS = "VALUES ('a', 1, 5), ('a', 2, 15), ('b', 1, 25) AS t(sym, ts, price)"
EXPECTED = [("a", 15), ("b", 25)]

needs_javac = pytest.mark.skipif(find_java_tool("javac") is None, reason="the Java compiler (javac) is missing here")


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


@pytest.fixture(scope="module")
def enabled(spark):
    session.enable(spark)
    spark.sql(f"SELECT * FROM {ROWS}").createOrReplaceTempView("ticks")
    spark.sql("DROP TABLE IF EXISTS ticks_table")
    spark.sql(f"CREATE TABLE ticks_table USING parquet AS SELECT * FROM {ROWS}")
    yield spark
    spark.sql("DROP TABLE IF EXISTS ticks_table")
    spark.catalog.dropTempView("ticks")


def test_plain_statement(enabled):
    assert rows(enabled.sql(f"SELECT * FROM ticks {MATCH}")) == EXPECTED
    assert rows(enabled.sql(f"select m.p + 1 AS q from ticks {MATCH.lower()} AS m")) == [(16,), (26,)]


def test_new_sessions(enabled):
    assert rows(enabled.newSession().sql(f"SELECT * FROM ticks_table {MATCH}")) == EXPECTED
    grandchild = enabled.newSession().newSession()
    assert rows(grandchild.sql(f"SELECT * FROM (SELECT * FROM {ROWS}) {MATCH}")) == EXPECTED
    # the function is there before any statement with the clause
    text = "'PARTITION BY sym ORDER BY ts MEASURES A.price AS p PATTERN (A) DEFINE A AS price > 10'"
    found = enabled._jsparkSession.newSession().sql(f"SELECT * FROM match_recognize(TABLE(ticks_table), {text})")
    assert found.count() == len(EXPECTED)


@pytest.mark.further
def test_a_char_column_is_one_above_the_clause(enabled, tmp_path):
    """Spark pads what CHAR(n) is compared with: also a key, a value of a match and a column of all its rows."""
    enabled.sql(f"CREATE TABLE padded (ts INT, code CHAR(4), name VARCHAR(9)) USING parquet LOCATION '{tmp_path}/padded'")
    try:
        enabled.sql(f"CREATE TABLE cut (c3 CHAR(3)) USING parquet LOCATION '{tmp_path}/cut'")
        enabled.sql("INSERT INTO padded VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'a', 'y')")
        one = "SELECT {} FROM padded MATCH_RECOGNIZE (PARTITION BY code ORDER BY ts MEASURES FIRST(name) AS n, FIRST(code) AS c, code = 'b' AS is_b PATTERN (A+) DEFINE A AS code <> 'c')"
        every = "SELECT {} FROM padded MATCH_RECOGNIZE (ORDER BY ts MEASURES A.code AS own ALL ROWS PER MATCH PATTERN (A B*) DEFINE B AS code = A.code OR ts = 2)"
        asked = {
            "code = 'a'": (one, 1), "c = 'a' AND n = 'x'": (one, 1), "is_b AND c = 'b   '": (one, 1), "code IN ('a', 'b')": (one, 2), "c = 'c'": (one, 0),
            "code = 'b'": (every, 1), "own = 'a'": (every, 3), "own = 'b'": (every, 0),
        }  # fmt: skip
        union = " UNION ALL ".join(f"{text.format('count(*) AS found')} WHERE {where}" for where, (text, _) in asked.items())
        assert [row.found for row in enabled.sql(union).collect()] == [count for _, count in asked.values()]
        for condition, place in {"c3 = A.code": "c3 = A.code", "PREV(code) <=> 'a'": "PREV(code) <=> 'a'", "A.code IN (code, 'a')": "A.code IN (code, 'a')"}.items():
            with pytest.raises(ClauseError, match=r"DATATYPE_MISMATCH.*is of type char\(.*cannot be compared across rows with .*\. Compare rtrim\(") as raised:
                enabled.sql(f"SELECT * FROM (SELECT * FROM padded JOIN cut ON code = c3) MATCH_RECOGNIZE (ORDER BY ts MEASURES count(*) AS n PATTERN (A B) DEFINE B AS {condition})")
            assert raised.value.fragment == place
        trimmed = "SELECT * FROM padded MATCH_RECOGNIZE (ORDER BY ts MEASURES count(*) AS n PATTERN (A B C) DEFINE B AS A.code = 'a', C AS A.code IN ('a', 'b') AND A.code = code)"
        assert rows(enabled.sql(trimmed)) == [(3,)]
        for name, query in (("padded_told", every.format("own, name")), ("padded_plain", "SELECT code AS own, name FROM padded")):
            enabled.sql(f"CREATE TABLE {name} USING parquet LOCATION '{tmp_path}/{name}' AS {query}")
        assert enabled.table("padded_told").dtypes == enabled.table("padded_plain").dtypes
    finally:
        for name in ("padded", "cut", "padded_told", "padded_plain"):
            enabled.sql(f"DROP TABLE IF EXISTS {name}")


def test_named_markers(enabled):
    text = f"SELECT * FROM ticks {MATCH.replace('10', ':low')} WHERE p < :high"
    assert rows(enabled.sql(text, {"low": 10, "high": 20})) == [("a", 15)]


def test_positional_markers(enabled):
    text = f"SELECT ? AS k, m.* FROM ticks {MATCH.replace('10', '?')} AS m WHERE p < ?"
    assert rows(enabled.sql(text, ["x", 10, 20])) == [("x", "a", 15)]
    # without a clause nothing is renamed
    assert rows(enabled.sql("SELECT ? AS match_recognize, ?", [1, 2])) == [(1, 2)]


HISTORY = (
    "SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES A.price * {k} AS p, LAST(B.price) + {k} AS q "
    "PATTERN (A B?) DEFINE A AS price > {low}, B AS B.price > {f} * A.price AND B.ts > FIRST(A.ts) + {z})"
)


def test_markers_in_conditions_over_the_match(enabled):
    expected = [("a", 10, 17), ("b", 50, None)]
    named = HISTORY.format(k=":k", low=":low", f=":f", z=":z")
    assert rows(enabled.sql(named, {"k": 2, "low": 4, "f": 1.5, "z": 0})) == expected
    positional = HISTORY.format(k="?", low="?", f="?", z="?")
    assert rows(enabled.sql(positional, [2, 2, 4, 1.5, 0])) == expected


def test_marker_names_leave_quantifiers_alone():
    text = "SELECT ? FROM t MATCH_RECOGNIZE (MEASURES ? AS c PATTERN ((A? B??)+ C{1,2}?) DEFINE A AS x > ?) WHERE '?' = ?"
    assert name_markers(text) == (
        "SELECT :sparkcep_marker_1 FROM t MATCH_RECOGNIZE (MEASURES :sparkcep_marker_2 AS c "
        "PATTERN ((A? B??)+ C{1,2}?) DEFINE A AS x > :sparkcep_marker_3) WHERE '?' = :sparkcep_marker_4"
    )
    assert name_markers("SELECT pattern(?) FROM t") == "SELECT pattern(:sparkcep_marker_1) FROM t"


def test_format_fields(enabled):
    frame = enabled.table("ticks")
    clause = MATCH.replace("PATTERN (A)", "PATTERN (A{{1,1}})")
    assert rows(enabled.sql(f"SELECT * FROM {{data}} {clause}", data=frame)) == EXPECTED
    assert rows(enabled.sql(f"SELECT p, '{{{{}}}}' AS b FROM ticks {clause.replace('10', '{low}')}", low=20)) == [(25, "{}")]  # without a DataFrame
    low = clause.replace("10", "?")
    text = f"SELECT m.*, {{word}} AS w, '{{{{}}}}' AS b FROM {{data}} {low} AS m"
    assert rows(enabled.sql(text, [20], data=frame, word="it's")) == [("b", 25, "it's", "{}")]
    assert not [name for name in temporary_views(enabled) if name.startswith("_pyspark_")]


def test_variables(enabled):
    low = "SELECT * FROM ticks " + MATCH.replace("10", "${low}")
    with pytest.raises(ParseException, match="the clause ends"):
        enabled.sql(low)  # Spark reads "" for a variable without a value
    enabled.conf.set("low", "${least}")
    enabled.sql("SET least=20")
    try:
        other = enabled.newSession()
        other.sql("SET low=3000")
        assert rows(enabled.sql(low)) == [("b", 25)]
        with pytest.raises(ParseException, match="line 1, column 114: 'X'") as raised:
            enabled.sql(f"SELECT '${{low}}', * FROM ticks {BAD}")
        assert "SELECT '20', * FROM" in str(raised.value)
        assert rows(enabled.sql("SELECT '${low}' AS `match_recognize`")) == [("20",)]
    finally:
        enabled.sql("RESET low")
        enabled.sql("RESET least")


def test_script(enabled):
    script = f"""BEGIN
      DECLARE low INT DEFAULT 0;
      SET low = 20;
      SELECT * FROM ticks {MATCH.replace("10", "low")};
    END"""
    assert rows(enabled.sql(script)) == [("b", 25)]


@pytest.mark.further
def test_a_script_runs_once(enabled):
    """Another statement that meets a year-month interval, or a column like current_date, is rewritten and run again."""
    table = "(SELECT sym, ts, make_ym_interval(ts, 0) AS months, ts AS current_date FROM ticks)"
    enabled.sql("DECLARE OR REPLACE VARIABLE runs INT DEFAULT 0")
    script = f"BEGIN SET runs = runs + 1; SELECT * FROM {table} MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES LAST({{}}) AS l PATTERN (A+)); END"
    assert str(enabled.sql(script.format("months")).schema["l"].dataType) == "YearMonthIntervalType(0, 1)"
    assert enabled.sql("SELECT runs").first() == (1,)
    with pytest.raises(ClauseError, match="COLUMN_OR_WORD") as caught:
        enabled.sql(script.format("current_date"))
    assert caught.value.fragment == "current_date" and enabled.sql("SELECT runs").first() == (2,)
    assert rows(enabled.sql(script.format("`current_date`"))) == [("a", 2), ("b", 1)]


def test_a_permanent_view_may_read_graphs_in_every_session(enabled):
    counted = "count_matches(array(named_struct('position', 0L, 'variable', 'A', 'before_from', NULL, 'before_until', NULL, 'complete', true)))"
    enabled.sql(f"CREATE OR REPLACE VIEW graphs_view AS SELECT {counted} AS n FROM ticks_table LIMIT 1")
    try:
        assert rows(enabled.newSession().table("graphs_view")) == [(1,)]
        assert rows(enabled.newSession().sql(f"SELECT {counted}")) == [(1,)]
    finally:
        enabled.sql("DROP VIEW graphs_view")


def test_permanent_view_is_readable_without_the_rewriter(enabled):
    enabled.sql(f"CREATE OR REPLACE VIEW matches_view AS SELECT * FROM ticks_table {MATCH}")
    try:
        stored = enabled.sql("SHOW CREATE TABLE matches_view").first()[0]
        assert "MATCH_RECOGNIZE (PARTITION" not in stored
        assert "match_recognize(" in stored
        assert rows(enabled.table("matches_view")) == EXPECTED
        session.disable(enabled)
        assert rows(enabled.newSession().table("matches_view")) == EXPECTED
    finally:
        session.enable(enabled)
        enabled.sql("DROP VIEW matches_view")


def test_temp_view_ctas_insert(enabled):
    enabled.sql(f"CREATE OR REPLACE TEMP VIEW matches_temp AS SELECT * FROM ticks {MATCH}")
    assert rows(enabled.table("matches_temp")) == EXPECTED
    enabled.sql("DROP TABLE IF EXISTS matches_table")
    try:
        enabled.sql(f"CREATE TABLE matches_table USING parquet AS SELECT * FROM ticks {MATCH}")
        enabled.sql(f"INSERT INTO matches_table SELECT * FROM ticks {MATCH} WHERE p > 20")
        assert rows(enabled.table("matches_table")) == [*EXPECTED, ("b", 25)]
    finally:
        enabled.sql("DROP TABLE IF EXISTS matches_table")


def test_explain(enabled):
    plan = enabled.sql(f"EXPLAIN SELECT * FROM ticks {MATCH}").first()[0]
    assert "match_recognize(" in plan


def test_clause_error_is_a_spark_parse_exception(enabled):
    text = f"SELECT *\nFROM ticks {BAD}"
    with pytest.raises(ClauseError) as caught:
        enabled.sql(text)
    error = caught.value
    assert isinstance(error, ParseException) and isinstance(error, AnalysisException)
    line = text.split("\n")[1]
    assert (error.line, error.column, error.fragment) == (2, line.index("DEFINE X") + 8, "X")
    assert error.getCondition() == error.error_class and error.error_class.startswith("SPARKCEP.")
    assert error.getSqlState() == error.sqlstate and len(error.sqlstate) == 5
    assert error.getMessageParameters()["fragment"] == "X"
    shown = str(error).split("\n")
    assert shown[0].startswith(f"[{error.error_class}] ") and shown[0].endswith(f"SQLSTATE: {error.sqlstate}")
    assert shown[-3] == f"== SQL (line 2, position {error.column}) =="
    assert shown[-2] == line and shown[-1] == " " * (error.column - 1) + "^"
    assert error.getMessage() == str(error)


def test_clause_error_position_is_the_users_with_markers(enabled):
    text = f"SELECT ? AS k FROM ticks {BAD}"
    with pytest.raises(ClauseError) as caught:
        enabled.sql(text, [1])
    assert caught.value.column == text.index("DEFINE X") + 8


def test_spark_errors_keep_their_class(enabled):
    with pytest.raises(AnalysisException) as caught:
        enabled.sql(f"SELECT * FROM ticks {MATCH.replace('price > 10', 'no_such_column > 10')}")
    assert not isinstance(caught.value, ClauseError)
    assert caught.value.getCondition().startswith("UNRESOLVED_COLUMN")
    with pytest.raises(ParseException) as caught:
        enabled.sql(f"SELECT * FROM ticks {MATCH} WHERE p >")
    assert caught.value.getCondition() == "PARSE_SYNTAX_ERROR"


def test_statements_without_the_clause_are_not_touched(enabled, monkeypatch):
    monkeypatch.setattr(session, "translated", None)  # would fail if it were called
    assert rows(enabled.sql("SELECT 'match' || '_' || 'recognize'")) == [("match_recognize",)]
    with pytest.raises(AnalysisException):
        enabled.sql("SELECT * FROM no_such_table")


def test_settings_reach_the_rewriter(enabled, monkeypatch):
    seen = []

    def spy(sql, settings, **_):
        seen.append((settings.case_sensitive, settings.ansi, settings.max_state_bytes))

    monkeypatch.setattr(session, "translated", spy)
    other = enabled.newSession()
    other.conf.set("spark.sql.caseSensitive", "true")
    other.conf.set("spark.sql.ansi.enabled", "false")
    other.conf.set("sparkcep.maxStateBytes", "512m")
    for one in (enabled, other):
        one.sql("SELECT 1 AS match_recognize")
    assert seen == [(False, True, 1 << 30), (True, False, 1 << 29)]


def test_enable_is_idempotent_and_disable_undoes_it(enabled):
    wrapped = type(enabled).sql
    assert session.enable(enabled) is enabled
    assert type(enabled).sql is wrapped
    text = f"SELECT * FROM ticks {MATCH}"
    session.disable(enabled)
    try:
        assert type(enabled).sql is not wrapped
        session.disable(enabled)
        for run in (enabled.sql, enabled.newSession().sql, enabled._jsparkSession.sql):
            with pytest.raises(ParseException) as caught:
                run(text)
            assert not isinstance(caught.value, ClauseError)
    finally:
        session.enable(enabled)
    assert rows(enabled.sql(text)) == EXPECTED


@needs_javac
class TestTheJvmParser:
    """Statements that reach the JVM without passing through ``SparkSession.sql``."""

    def test_jvm_callers(self, enabled):
        for jsession in (enabled._jsparkSession, enabled._jsparkSession.newSession()):
            found = jsession.sql(f"SELECT * FROM ticks_table {MATCH}").collectAsList()
            assert sorted((r.getString(0), r.getInt(1)) for r in found) == EXPECTED

    def test_execute_immediate(self, enabled):
        assert rows(enabled.sql(f"EXECUTE IMMEDIATE 'SELECT * FROM ticks {MATCH}'")) == EXPECTED
        low = MATCH.replace("10", "?")
        found = enabled.sql(f"EXECUTE IMMEDIATE 'SELECT ? AS k, m.* FROM ticks {low} AS m' USING 1, 20")
        assert rows(found) == [(1, "b", 25)]
        # The rewriter writes the condition before the table.
        source = f"(SELECT * FROM ticks WHERE ts >= ?) {low}"
        assert rows(enabled.sql(f"EXECUTE IMMEDIATE 'SELECT * FROM {source}' USING 2, 10")) == [("a", 15)]
        fresh = enabled.newSession()
        assert rows(fresh.sql(f"EXECUTE IMMEDIATE 'SELECT * FROM ticks_table {MATCH}'")) == EXPECTED

    def test_texts_of_expressions(self, enabled):
        frame = enabled.table("ticks")
        assert rows(frame.where(f"price IN (SELECT p FROM ticks {MATCH})").select("sym", "price")) == EXPECTED
        with pytest.raises(ParseException, match="SPARKCEP.UNKNOWN_VARIABLE"):
            frame.selectExpr(f"(SELECT max(p) FROM ticks {BAD}) AS p")

    @pytest.mark.further
    def test_values_with_names(self, enabled):
        measures = "LAST(A.price * {x}) AS p, A.price + {y} AS q"
        text = f"EXECUTE IMMEDIATE 'SELECT * FROM ticks {MATCH}' USING ".replace("A.price AS p", measures)
        assert rows(enabled.sql(text.format(x="?", y="?") + "2 AS y, 100 AS x")) == [("a", 30, 115), ("b", 50, 125)]
        assert rows(enabled.sql(text.format(x=":x", y=":y") + "100 AS y, 2 AS x")) == [("a", 30, 115), ("b", 50, 125)]

    @pytest.mark.further
    def test_the_text_of_a_clause_as_a_parameter(self, enabled):
        """Only Spark reads it, under the session's settings: a day of 23 hours in Berlin, and NULL for a division by 0."""
        table = "(SELECT * FROM VALUES (1, TIMESTAMP '2024-03-30 12:00:00', 0), (2, TIMESTAMP '2024-03-31 12:00:00', 5) AS v(i, x, n))"
        text = "ORDER BY i MEASURES B.i AS b PATTERN (A+ B) DEFINE B AS x - A.x >= INTERVAL '1' DAY AND (n / A.n) IS NULL"
        call = f"SELECT * FROM match_recognize(TABLE{table}, :text)"
        with configured(enabled, {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.ansi.enabled": "false"}):
            assert rows(enabled.sql(call, {"text": text})) == [(2,)]
            with configured(enabled, {"sparkcep.maxSteps": "0"}), pytest.raises(ClauseError, match="maxSteps must be a number"):
                enabled.sql(call, {"text": text})

    def test_clause_errors(self, enabled):
        with pytest.raises(ClauseError) as caught:
            enabled.sql(f"EXECUTE IMMEDIATE 'SELECT * FROM ticks {BAD}'")
        assert isinstance(caught.value, ParseException)
        assert caught.value.column == f"SELECT * FROM ticks {BAD}".index("DEFINE X") + 8
        with pytest.raises(ParseException) as caught:
            enabled._jsparkSession.sql(f"SELECT * FROM ticks {BAD}")
        assert caught.value.getCondition().startswith("SPARKCEP.")
        assert len(caught.value.getSqlState()) == 5
        assert "== SQL (line 1, position " in str(caught.value)

    def test_errors_of_scripts(self, enabled):
        """Spark's parser raises them as another checked exception than the one it declares."""
        with pytest.raises(ParseException, match=r"(?s)ONLY_AT_BEGINNING.*\(line 1, pos 16\)"):
            enabled.sql("BEGIN SELECT 1; DECLARE x INT; END")
        with pytest.raises(ParseException, match=r"(?s)ONLY_AT_BEGINNING.*line 2, column 10"):
            enabled.sql(f"BEGIN SELECT * FROM ticks {MATCH};\n DECLARE x INT; END")

    def test_a_failing_rewriter_is_not_hidden(self, enabled, monkeypatch):
        from sparkcep.spark.session import rewrite_service

        def broken(request):
            raise ValueError("the rewriter broke")

        monkeypatch.setattr(rewrite_service, "answer", broken)
        with pytest.raises(Exception, match="the rewriter broke"):
            enabled._jsparkSession.sql(f"SELECT * FROM ticks {MATCH}")

    def test_helper_process_in_place_of_the_callback(self, enabled, monkeypatch):
        extension = session._load_extension(enabled)
        extension.setRewriter(None)
        try:
            found = enabled._jsparkSession.sql(f"SELECT * FROM ticks {MATCH}").collectAsList()
            assert len(found) == len(EXPECTED)
            with pytest.raises(ParseException) as caught:
                enabled._jsparkSession.sql(f"SELECT * FROM ticks {BAD}")
            assert caught.value.getCondition().startswith("SPARKCEP.")
        finally:
            extension.setRewriter(session._Rewriter())


@pytest.mark.parametrize("size", ["0", "1", "7"])
@pytest.mark.parametrize("direct", ["true", "false"])
def test_batches_of_any_size(enabled, size, direct):
    wanted = {"spark.sql.execution.arrow.maxRecordsPerBatch": size, "sparkcep.mapInArrow": direct}
    for key, value in wanted.items():
        enabled.conf.set(key, value)
    try:
        query = "SELECT l, n FROM range(60) MATCH_RECOGNIZE (ORDER BY id MEASURES LAST(id) AS l, count(*) AS n PATTERN (A{3}))"
        assert rows(enabled.sql(query)) == [(last, 3) for last in range(2, 60, 3)]
    finally:
        for key in wanted:
            enabled.conf.unset(key)


@needs_javac
def test_the_port_for_callbacks_asks_for_a_token(enabled, caplog):
    gateway = enabled.sparkContext._gateway
    port = gateway._callback_server.get_listening_port()
    call = b'c\np0\napply\ns{"sql": "SELECT 1", "settings": {}, "named_markers": false}\ne\n'
    for before in (b"", b"A\nswrong\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(before + call)
            said = bytearray()
            with contextlib.suppress(ConnectionResetError):
                while part := connection.recv(4096):
                    said += part
        assert b"SELECT" not in said
    # the JVM shows it, from a thread that Python has not called before, and when somebody moves its client to another port
    jvm_rows = []
    query = f"SELECT * FROM ticks {MATCH}"
    thread = threading.Thread(target=lambda: jvm_rows.extend(enabled._jsparkSession.sql(query).collectAsList()))
    thread.start()
    thread.join()
    assert len(jvm_rows) == len(EXPECTED)
    server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    server.resetCallbackClient(server.getCallbackClient().getAddress(), port)
    assert len(enabled._jsparkSession.sql(query).collectAsList()) == len(EXPECTED)


def test_callbacks_that_somebody_opened_stay_as_they_are(monkeypatch, caplog):
    import pyspark.java_gateway

    class Gateway:
        def __init__(self, token=None):
            self._gateway_client = MagicMock()
            self.callback_server_parameters = CallbackServerParameters(auth_token=token)

    class Extension:
        def setToken(self, server, token):
            raise Py4JError("no such client")

    started = []
    monkeypatch.setattr(pyspark.java_gateway, "ensure_callback_server_started", started.append)
    running = Gateway()
    running._callback_server = object()
    session._open_callbacks(running, Extension())
    assert started == [] and running.callback_server_parameters.auth_token is None
    unpinned = Gateway("its own")
    session._open_callbacks(unpinned, Extension())
    assert started == [unpinned] and unpinned.callback_server_parameters.auth_token == "its own"
    other = Gateway()
    session._open_callbacks(other, Extension())  # a Py4J that is made otherwise
    assert started == [unpinned, other] and other.callback_server_parameters.auth_token is None
    assert "does not require a token" in caplog.text


@pytest.mark.further
def test_without_a_compiler_the_wrapper_is_enough(enabled, monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(session, "_parser", None)
    monkeypatch.setattr(jvm_build, "find_java_tool", lambda *_: None)
    monkeypatch.setenv("SPARKCEP_CACHE_DIR", str(tmp_path))
    fresh = enabled.newSession()
    with caplog.at_level(logging.INFO, logger="sparkcep"):
        session.enable(fresh)
    assert "the Java compiler (javac) is missing" in caplog.text and "JDK" in caplog.text
    assert rows(fresh.sql(f"SELECT * FROM ticks_table {MATCH}")) == EXPECTED


@pytest.mark.parametrize(
    ("spark", "until"), [("4.0.1", 0), ("4.1.4", 1), ("4.2.0", 2), ("4.2.1-amzn-0", 2), ("4.3.0", 3), ("4.4.0-SNAPSHOT", 3), ("4.10.0", 3), ("5.0.0", 3)]
)
def test_which_versions_of_spark_the_operator_is_compiled_for(tmp_path, spark, until):
    (tmp_path / f"spark-catalyst_2.13-{spark}.jar").touch()
    assert jvm_build._until(["4.3", "4.1", "4.2"], tmp_path) == ["4.1", "4.2", "4.3"][:until]


@pytest.mark.further
@needs_javac
@pytest.mark.parametrize(("call", "there"), [pytest.param("exec.right()", True, marks=pytest.mark.slow), ("exec.lost()", False)])
def test_a_spark_without_a_method_has_no_operator(monkeypatch, tmp_path, call, there):
    monkeypatch.setenv("SPARKCEP_CACHE_DIR", str(tmp_path))
    calls, found = "versions/Inherited.java", jvm_build._sources(jvm_build._spark_jars(None))
    monkeypatch.setattr(jvm_build, "_sources", lambda jars: found | {calls: found[calls].replace("exec.left()", call)})
    assert ("org/sparkcep/stream/exec/MatchStateExec.class" in zipfile.ZipFile(jvm_build.extension_jar()).namelist()) == there


@pytest.mark.slow
@needs_javac
def test_jar_is_built_once_and_for_this_source(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARKCEP_CACHE_DIR", str(tmp_path / "deep" / "cache"))
    jar = jvm_build.extension_jar()
    stamp = jar.stat().st_mtime_ns
    assert jvm_build.extension_jar() == jar and jar.stat().st_mtime_ns == stamp
    assert [p.name for p in jar.parent.iterdir()] == [jar.name]
    assert jar.parent.stat().st_mode & 0o022 == 0
    whole = jar.read_bytes()
    for damaged in (b"", b"not a jar", whole[:-100], whole[:1000] + bytes(100) + whole[1100:]):
        jar.write_bytes(damaged)
        assert jvm_build.extension_jar() == jar and zipfile.ZipFile(jar).testzip() is None
    jar.chmod(0o666)  # somebody else may have written it
    assert jvm_build.extension_jar() == jar and jar.stat().st_mode & 0o022 == 0
    jar.parent.chmod(0o777)
    storage.places.cache_clear()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert jvm_build.extension_jar() == tmp_path / f"sparkcep-{os.geteuid()}" / jar.name
    jar.parent.chmod(0o755)
    monkeypatch.setattr(jvm_build, "_RELEASE", "21")
    jars = jvm_build._spark_jars(None)
    assert jvm_build._jar_name(jvm_build._sources(jars), jars) != jar.name


@needs_javac
@pytest.mark.further
def test_compile_errors_are_told(monkeypatch, tmp_path):
    jars = jvm_build._spark_jars(None)
    with pytest.raises(jvm_build.JvmBuildError, match="cannot find symbol"):
        jvm_build._compile({"Broken.java": "class Broken { NoSuchType x; }"}, jars, tmp_path / "out.jar", None)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(jvm_build.JvmBuildError, match="no Spark jars"):
        jvm_build.extension_jar(spark_home=str(tmp_path))


def test_require_java(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaNotFoundError, match="Java 17.*JAVA_HOME"):
        require_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(JavaNotFoundError, match="nowhere"):
        require_java()
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert require_java() == java


def test_rewrite_server_protocol():
    def framed(text: bytes) -> bytes:
        return struct.pack(">i", len(text)) + text

    def ask(**request):
        return framed(json.dumps({"settings": {}, "application": {}, "named_markers": False, **request}).encode())

    asked = [
        ask(sql="SELECT 'ü'"),
        ask(sql=f"SELECT * FROM ticks {BAD}"),
        framed(b"{ no JSON"),
        framed(b"\xff\xfe"),
        ask(kind="unheard of"),
        ask(kind="clause_error", text="Error: [SPARKCEP.X] a message (line 2, column 3: 'f') SQLSTATE: 42K0E\n at ..."),
        ask(kind="clause_error", text="Error: division by zero"),
        ask(kind="functions"),
        ask(sql=f"SELECT * FROM ticks {MATCH}"),
    ]
    command = [sys.executable, "-m", "sparkcep.spark.session.rewrite_service", "60000", str(1 << 30)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as helper:
        helper.stdin.write(b"".join(asked) + asked[0][:-1])  # a request that is cut off at the end is left
        helper.stdin.flush()

        def answer() -> dict:
            (size,) = struct.unpack(">i", helper.stdout.read(4))
            return json.loads(helper.stdout.read(size))

        assert answer() == {}  # it is there
        answers = [answer() for _ in asked]
        helper.stdin.close()
        assert helper.stdout.read() == b"" and helper.wait(60) == 0
    assert answers[0]["sql"] == "SELECT 'ü'"
    assert answers[1]["error"]["fragment"] == "X" and answers[1]["error"]["line"] == 1
    assert "JSONDecodeError" in answers[2]["failure"] and "UnicodeDecodeError" in answers[3]["failure"]
    assert "'unheard of'" in answers[4]["failure"]
    assert (answers[5]["error"]["error_class"], answers[5]["error"]["column"]) == ("SPARKCEP.X", 3)
    assert answers[6] == {}
    assert {f["name"] for f in answers[7]["functions"]} == {"match_recognize", *GRAPH_FUNCTIONS}
    assert "match_recognize(TABLE(" in answers[8]["sql"]
    assert len(answers) == len(asked)


def test_java_and_python_name_the_same_functions():
    source = jvm_build._sources(jvm_build._spark_jars(None))["functions/PythonFunctions.java"]
    named = re.findall(r'"(\w+)"', re.search(r"SCALARS = \{(.*?)\}", source)[1])
    assert named == list(GRAPH_FUNCTIONS)


def test_worker_python_is_only_chosen_where_unset(enabled, monkeypatch):
    context = enabled.sparkContext
    monkeypatch.setattr(context, "pythonExec", "chosen-by-the-user")
    monkeypatch.setattr(session, "_pythons", {})
    monkeypatch.setenv("PYSPARK_PYTHON", "chosen-by-the-user")
    session._choose_worker_python(enabled)
    assert context.pythonExec == "chosen-by-the-user"
    monkeypatch.delenv("PYSPARK_PYTHON")
    session._choose_worker_python(enabled)
    assert context.pythonExec == sys.executable
    assert session.worker_pythons(enabled) == ["chosen-by-the-user", sys.executable]


def test_a_bound_ends_a_search(enabled):
    # CLASSIFIER of a neighbour of a variable's row: failures cannot be remembered, so the search is exponential
    text = """SELECT * FROM range(60) MATCH_RECOGNIZE (ORDER BY id MEASURES COUNT(*) AS n
        PATTERN ((A | B)* C) DEFINE B AS PREV(CLASSIFIER(A), 1) IS NULL OR id >= 0, C AS id < 0)"""
    other = enabled.newSession()
    other.conf.set("sparkcep.maxSteps", "1000")
    with pytest.raises(Exception, match="sparkcep.maxSteps = 1000"):
        other.sql(text).collect()
    other.conf.set("sparkcep.maxSteps", "many")
    with pytest.raises(AnalysisException, match="sparkcep.maxSteps must be a number"):
        other.sql(text)


def test_a_setting_that_nobody_reads_is_told(spark):
    with pytest.warns(UserWarning, match="did you mean sparkcep.maxMatchesPerPartition"):
        spark.sql("SET sparkcep.maxMatchPerPartition = 1000")
    spark.conf.unset("sparkcep.maxMatchPerPartition")
    with warnings.catch_warnings(action="error"):
        spark.sql("SET sparkcep.maxMatchesPerPartition = 1000")
    spark.conf.unset("sparkcep.maxMatchesPerPartition")


def test_a_word_that_is_nearly_the_clauses(spark):
    for text in ("SELECT * FROM t MATCH_RECOGNISE (PATTERN (A))", "SELECT * FROM t MATCH RECOGNIZE (PATTERN (A))"):
        with pytest.raises(ClauseError, match="did you mean MATCH_RECOGNIZE") as caught:
            spark.sql(text)
        assert (caught.value.line, caught.value.column) == (1, 17)
    with pytest.raises(ParseException) as caught:  # nothing of a clause
        spark.sql("SELECT * FROM t MATCHES (PATTERN (A) 'recognize'")
    assert not isinstance(caught.value, ClauseError)


@pytest.mark.parametrize(("name", "first"), [("match_recognize", "FROM t MATCH_RECOGNIZE ("), ("expand_matches", "Lists the matches"), ("count_matches", "Counts"), ("sample_matches", "Draws")])
def test_functions_tell_their_usage(spark, name, first):
    lines = [row[0] for row in spark.sql(f"DESCRIBE FUNCTION EXTENDED {name}").collect()]
    assert lines[0] == f"Function: {name}" and any(line.startswith("Usage:") and first in line for line in lines)
    assert "Examples:" in lines[-1] and f"{name}(" in lines[-1]
