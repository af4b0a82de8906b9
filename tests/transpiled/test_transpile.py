"""Statements of other engines give their rows when they are transpiled (``tests/transpiled``), and notes say what a reader should
know."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import sparkcep
from sparkcep.clause.tokenizer import dialect_of
from sparkcep.cli.cli import main
from sparkcep.dialect.engines import ENGINES
from sparkcep.errors import ClauseError
from tests.cases.sql_case_files import in_spark_alone, name_of, read_case_file
from tests.cases.test_sql_cases import Views, check_case, starts_no_job
from tests.selection import first, one_in
from tests.transpiled import meanings
from tests.transpiled.expressions import EXPRESSIONS, ROWS

FILES = [read_case_file(path) for path in sorted(Path(__file__).resolve().parent.glob("*.test"))]
CASES = [(file, case) for file in FILES for case in file.cases]
OF_ROWS = [pytest.param(file, case, id=f"{file.path.stem}/{case.name}") for file, case in CASES if not starts_no_job(case)]
ALONE = in_spark_alone()


@pytest.fixture(scope="module")
def views(spark):
    return Views(spark)


@pytest.mark.parametrize(
    ("file", "case"),
    [
        *one_in(48, [param for param in OF_ROWS if name_of(*param.values) in ALONE], wider=2),
        *one_in(48, [param for param in OF_ROWS if name_of(*param.values) not in ALONE], wider=12),  # tests/cases/test_in_process.py has all
    ],
)
def test_rows(spark, views, file, case):
    views.load(file)
    check_case(spark, replace(case, statements=[sparkcep.transpile(case.statements[-1], case.read).sql]))


@pytest.mark.parametrize(("file", "case"), OF_ROWS)
def test_notes(file, case):
    done = sparkcep.transpile(case.statements[-1], case.read)
    assert len(done.notes) == len(case.notes), done.notes
    for note, text in zip(done.notes, case.notes):
        assert text in str(note)


@pytest.mark.parametrize(("read", "number"), [(read, sum(1 for r, _, _ in EXPRESSIONS if r == read)) for read in dict.fromkeys(r for r, _, _ in EXPRESSIONS)])
def test_expressions_of_other_engines_have_their_values(spark, read, number):
    """Those of one engine as the columns of one query."""
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW t AS {ROWS}")
    given = [(text, value) for engine, text, value in EXPRESSIONS if engine == read]
    measures = ", ".join(f"{text} AS x{i}" for i, (text, _) in enumerate(given))
    done = sparkcep.transpile(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {measures} AFTER MATCH SKIP PAST LAST ROW PATTERN (A+) DEFINE A AS id > 0)", read)
    frame = spark.sql(done.sql)
    (row,) = frame.selectExpr(*[f"CAST({name} AS STRING) AS {name}" for name in frame.columns]).collect()
    assert {text: "NULL" if found is None else found for (text, _), found in zip(given, row)} == dict(given)
    assert len(row) == number


# those of window functions stand in no clause
WINDOWS = set("ROW_NUMBER RANK DENSE_RANK PERCENT_RANK CUME_DIST NTILE LAG LEAD FIRST_VALUE LAST_VALUE".split())


@pytest.mark.parametrize("read", first(sorted(ENGINES, reverse=True, key=lambda name: name == "oracle"), wider=len(ENGINES)))
def test_calls_have_the_values_of_their_engine(spark, read):
    """Those of one engine as the columns of one query."""
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW t AS {meanings.ROWS}")
    lines = [line for line in meanings.LINES if line.read == read and line.mark == "|"]
    measures = ", ".join(f"{line.expression} AS x{i}" for i, line in enumerate(lines))
    done = sparkcep.transpile(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {measures} AFTER MATCH SKIP PAST LAST ROW PATTERN (A+) DEFINE A AS id > 0)", read)
    assert done.notes == ()
    frame = spark.sql(done.sql)
    (row,) = frame.selectExpr(*[f"CAST({name} AS STRING) AS {name}" for name in frame.columns]).collect()
    found = {line.expression: _value("NULL" if value is None else value) for line, value in zip(lines, row)}
    assert found == {line.expression: _value("" if line.text == "''" else line.text) for line in lines}


def _value(text: str) -> float | str:
    """Numbers as numbers: an integer there may be a DOUBLE here."""
    try:
        return float(text)
    except ValueError:
        return text


@pytest.mark.parametrize("read", ENGINES)
def test_other_values_are_noted_and_none_refused(read):
    for line in meanings.LINES:
        if line.read == read and line.mark != "|":
            sql = f"SELECT {line.expression} AS z FROM t"
            if line.mark == "!":
                with pytest.raises(ClauseError) as raised:
                    sparkcep.transpile(sql, read)
                assert line.text in raised.value.message, line
            else:
                assert any(line.text in note.text for note in sparkcep.transpile(sql, read).notes), line


@pytest.mark.parametrize("read", ENGINES)
def test_each_call_of_an_engine_has_a_line(read):
    words = set(re.findall(r"\w+", " ".join(line.expression.upper() for line in meanings.LINES if line.read == read)))
    assert set(ENGINES[read].calls) - WINDOWS <= words


@pytest.mark.parametrize("read", ENGINES)
def test_a_call_without_a_line_is_noted_with_its_place(read):
    done = sparkcep.transpile("SELECT 1,\n  soundex(s) AS a, no_function(1) AS b FROM t", read)
    assert [str(note) for note in done.notes] == [
        f"line 2, column 3: SOUNDEX: its values in Spark were not compared with those of {ENGINES[read].name}",
        "line 2, column 20: NO_FUNCTION: sqlglot does not know a function of this name, so it stays unchanged",
    ]


# sqlglot reads these as operators and constructors, which mean the same, or the engine has no such call
NO_CALLS = set("ARRAY BITNOT BITOR BITXOR BIT_AND BIT_NOT BIT_OR BIT_XOR BOOLXOR CONVERT DATE_STR_TO_DATE EXISTS GROUP_CONCAT ILIKE J_S_O_N_CAST LIKE SCOPE_RESOLUTION TABLE XOR".split())
NO_CALLS |= set("ARGMAX ARGMIN ARG_MAX ARG_MIN SUBSTRING TO_GEOGRAPHY TO_GEOMETRY".split())


@pytest.mark.parametrize("start", first(range(20)))
@pytest.mark.parametrize("read", ENGINES)
def test_no_call_that_sqlglot_knows_is_silent_without_a_line(read, start):
    names = sorted(set(dialect_of(read).parser_class.FUNCTIONS) - set(ENGINES[read].calls) - NO_CALLS)[start::20]
    for name in names:
        for arguments in ("a", "a, b", "a, b, c"):
            try:
                done = sparkcep.transpile(f"SELECT {name}({arguments}) AS z FROM t", read)
            except ClauseError:  # sqlglot's parser takes no such arguments
                continue
            assert done.notes, (name, arguments, done.sql)
    assert len(names) > 20


def test_a_note_names_a_call_as_it_is_written():
    notes = sparkcep.transpile("SELECT max_by(a, b), listagg(s) FROM t", "spark", "snowflake").notes + sparkcep.transpile("SELECT MAX_BY(a, b) FROM t", "bigquery").notes
    assert [note.text.split(":")[0] for note in notes] == ["LISTAGG", "MAX_BY"]


@pytest.mark.parametrize(("read", "write", "notes"), [("spark", "trino", ["GREATEST"]), ("trino", "snowflake", ["GREATEST"]), ("spark", "databricks", []), ("trino", "trino", [])])
def test_calls_for_another_engine_are_silent_where_all_mean_the_same(read, write, notes):
    done = sparkcep.transpile("SELECT upper(s), greatest(a, b) FROM t", read, write)
    assert [note.text.split(":")[0] for note in done.notes] == notes


def test_classifier_gives_upper_case_in_another_engine():
    sql = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x MEASURES CLASSIFIER() AS c PATTERN (A b) DEFINE A AS TRUE)"
    assert [str(note) for note in sparkcep.transpile(sql, "spark", "trino").notes] == ["line 1, column 83: CLASSIFIER() gives B there"]
    assert sparkcep.transpile(sql.replace("CLASSIFIER()", "max(b.x)"), "spark", "trino").notes == ()
    assert "PATTERN (A B)" in sparkcep.transpile(sql, "snowflake", "databricks").sql


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{file.path.stem}/{case.name}") for file, case in CASES if starts_no_job(case)])
def test_errors(case):
    with pytest.raises(ClauseError) as raised:
        sparkcep.transpile(case.statements[-1], case.read)
    error = raised.value
    assert error.error_class == f"SPARKCEP.{case.error.error_class}" and case.error.text in error.message
    assert case.error.position is None or (error.line, error.column) == case.error.position, str(error)


def test_the_command_prints_statements_and_notes(capsys):
    sql = "SELECT 1; SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x MEASURES a.x / b.y AS q PATTERN (a b))"
    assert main(["transpile", "--read", "trino", "-e", sql]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("SELECT 1;\nSELECT * FROM t MATCH_RECOGNIZE (\n") and "ORDER BY x NULLS LAST\n" in out
    assert err.startswith("note: line 1, column 64: ")


def test_a_function_that_sqlglot_does_not_know_stays_and_is_told():
    done = sparkcep.transpile("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x MEASURES ORA_HASH(LAST(y)) AS h PATTERN (a))", "oracle")
    assert "ORA_HASH(LAST(y))" in done.sql and [str(note) for note in done.notes] == [
        "line 1, column 54: ORA_HASH: sqlglot does not know a function of this name, so it stays unchanged"
    ]


CLAUSE = """SELECT m.p FROM t MATCH_RECOGNIZE (
PARTITION BY k
ORDER BY ts{nulls}
MEASURES LAST(price, 1) AS p, count(`b c`.*) AS n
ONE ROW PER MATCH
AFTER MATCH SKIP PAST LAST ROW
PATTERN (A `b c`{{2,}})
DEFINE `b c` AS price < PREV(price)
) AS m"""


@pytest.mark.parametrize(
    ("write", "changes"),
    [
        ("spark", (("AS p,", "AS `p`,"), ("AS n", "AS `n`"))),
        ("databricks", (("count", "COUNT"),)),
        ("trino", (("count", "COUNT"), ("`", '"'), (" NULLS?", " NULLS FIRST"))),
        ("snowflake", (("count", "COUNT"), ("`", '"'), (" NULLS?", " NULLS FIRST"), ("PREV", "LAG"))),
    ],
)
def test_a_clause_in_the_sql_of_another_engine(write, changes):
    wanted = CLAUSE.format(nulls=" NULLS?")
    for before, after in (*changes, (" NULLS?", "")):
        wanted = wanted.replace(before, after)
    done = sparkcep.transpile(CLAUSE.format(nulls=""), "spark", write)
    assert done.sql == wanted and done.notes == ()
    if write != "spark":  # and back again
        assert sparkcep.transpile(done.sql, write).sql.replace("COUNT", "count") == sparkcep.transpile(CLAUSE.format(nulls=" NULLS FIRST" if "FIRST" in wanted else ""), "spark").sql


def test_a_clause_of_spark_stays_without_a_skip():
    sql = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.x AS x EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) PREF MAX (A.x) TOP 3)"
    assert "SKIP PAST" not in sparkcep.transpile(sql, "spark").sql


def test_flink_has_within():
    sql = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(B.price) AS p PATTERN (A B+) WINDOW INTERVAL '1' HOUR)"
    done = sparkcep.transpile(sql, "spark", "flink")
    assert "PATTERN (A B+) WITHIN INTERVAL '1' HOUR\nDEFINE A AS TRUE\n" in done.sql
    assert [note.text.split(";")[0] for note in done.notes] == ["WITHIN takes a match of exactly this length, and WINDOW does not"]


@pytest.mark.parametrize(
    ("spark", "flink", "notes"),
    [
        (r"regexp_extract(s, '(\\d)')", r"REGEXP_EXTRACT(s, '(\d)', 1)", []),
        ("'it''s'", "'it''s'", []),
        ("date_trunc('HOUR', ts)", "FLOOR(ts TO HOUR)", ["DATE_TRUNC: its values in flink were not compared"]),
        ("ts + INTERVAL 1 DAY", "ts + INTERVAL '1' DAY", []),
        ("timestampadd(HOUR, 1, ts)", "TIMESTAMPADD(HOUR, 1, ts)", []),
        ("datediff(a, b)", "TIMESTAMPDIFF(DAY, b, a)", ["DATEDIFF: its values in flink were not compared"]),
        ("length(date_format(ts, 'yyyy'))", "CHAR_LENGTH(DATE_FORMAT(ts, 'yyyy'))", ["DATE_FORMAT: its values in flink were not compared"]),
        ("s RLIKE 'x'", "REGEXP(s, 'x')", []),
        ("listagg(A.s)", "LISTAGG(A.s, '')", []),
        ("get_json_object(s, '$.a')", "JSON_VALUE(s, '$.a')", ["GET_JSON_OBJECT: its values in flink were not compared"]),
        ("timestamp_millis(x)", "TO_TIMESTAMP_LTZ(x, 3)", []),
        ("CAST(CAST(x AS STRING) AS BINARY)", "CAST(CAST(x AS STRING) AS BYTES)", ["CAST: its values in flink differ"]),
        ("struct(1, 2)", "ROW(1, 2)", []),
        ("a[0]", "a[0]", ["elements of an array are counted from 1 there"]),
        ("x / y", "x / y", ["/ of two integers cuts off there"]),
        ("soundex(s)", "SOUNDEX(s)", ["Flink does not have the function SOUNDEX", "SOUNDEX: its values in flink were not compared"]),
    ],
)
def test_functions_have_the_names_of_flink(spark, flink, notes):
    done = sparkcep.transpile(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {spark} AS p PATTERN (A) DEFINE A AS TRUE)", "spark", "flink")
    assert f"MEASURES {flink} AS p\n" in done.sql
    assert len(done.notes) == len(notes) and all(text in note.text for text, note in zip(notes, done.notes)), done.notes
    around = sparkcep.transpile(f"SELECT {spark.replace('A.s', 's')} AS p FROM t", "spark", "flink")
    assert around.sql == f"SELECT {flink.replace('A.s', 's')} AS p FROM t"


@pytest.mark.parametrize(("read", "write", "text", "there"), [
    ("spark", "trino", r"s LIKE 'A\_%' OR s NOT LIKE p OR s LIKE 'A%'", r"s LIKE 'A\_%' ESCAPE '\' OR s NOT LIKE p ESCAPE '\' OR s LIKE 'A%'"),
    ("spark", "trino", r"s LIKE 'A#_' ESCAPE '#'", r"s LIKE 'A#_' ESCAPE '#'"),
    ("spark", "snowflake", r"s ILIKE 'A\_%'", r"s ILIKE 'A\\_%' ESCAPE '\\'"),
    ("bigquery", "trino", r"s LIKE r'A\_%'", r"s LIKE 'A\_%' ESCAPE '\'"),
    ("trino", "snowflake", r"s LIKE 'A\_%'", r"s LIKE 'A\\_%'"),
    ("spark", "databricks", r"s LIKE 'A\_%'", r"s LIKE 'A\\_%'"),
])  # fmt: skip
def test_the_escape_character_of_like_is_written_for_another_engine(read, write, text, there):
    for statement in ("SELECT * FROM t WHERE {}", "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x MEASURES 1 AS n PATTERN (A) DEFINE A AS {})"):
        done = sparkcep.transpile(statement.format(text), read, write)
        assert statement.partition("{}")[0].split()[-1] + " " + there in done.sql and done.notes == ()


@pytest.mark.parametrize(("read", "write", "there"), [
    ("spark", "trino", "LISTAGG(s, '')"), ("spark", "snowflake", "LISTAGG(s, '')"), ("databricks", "spark", "LISTAGG(s, NULL)"), ("trino", "spark", "LISTAGG(s, '')"),
    ("oracle", "spark", "LISTAGG(s, NULL)"), ("duckdb", "spark", "LISTAGG(s, ',')"), ("bigquery", "spark", "LISTAGG(s, ',')"),
])  # fmt: skip
def test_texts_without_a_delimiter_are_joined_as_in_their_engine(read, write, there):
    name = "STRING_AGG" if read == "bigquery" else "LISTAGG"
    assert sparkcep.transpile(f"SELECT {name}(s) FROM t", read, write).sql == f"SELECT {there} FROM t"


@pytest.mark.parametrize(("read", "write", "text", "notes"), [
    ("spark", "trino", "CAST(a.price AS INT)", ["CAST: its values in trino differ from those here for some arguments"]),
    ("spark", "snowflake", "TRY_CAST(a.price AS INT)", ["TRY_CAST: its values in snowflake differ from those here for some arguments"]),
    ("spark", "trino", "EXTRACT(SECOND FROM ts)", ["EXTRACT: its values in trino differ from those here for some arguments"]),
    ("spark", "trino", "CAST('1' AS INT) + CAST(count(*) AS BIGINT) + EXTRACT(YEAR FROM ts)", []),
    ("trino", "snowflake", "CAST(a.price AS INTEGER)", []),
])  # fmt: skip
def test_casts_for_another_engine_are_noted_where_they_differ(read, write, text, notes):
    done = sparkcep.transpile(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x MEASURES {text} AS n PATTERN (a) DEFINE a AS TRUE)", read, write)
    assert [note.text for note in done.notes] == notes


@pytest.mark.parametrize(("write", "around", "measure", "there"), [
    ("trino", "*", "AS start, LAST(x) AS end", 'AS start, LAST(x) AS "end"'),
    ("trino", "m.end", "AS `start`, LAST(x) AS end", 'AS start, LAST(x) AS "end"'),
    ("trino", "*", "AS day", "AS day"),
    ("snowflake", "`gain`", "AS `gain`", 'AS "gain"'),
    ("snowflake", "gain, m.`gain`", "AS `gain`", "AS gain"),
    ("snowflake", "*", "AS `gain`, 1 AS `a b`", 'AS gain, 1 AS "a b"'),
])  # fmt: skip
def test_names_of_columns_in_another_engine(write, around, measure, there):
    sql = f"SELECT {around} FROM t MATCH_RECOGNIZE (ORDER BY x MEASURES FIRST(x) {measure} PATTERN (a) DEFINE a AS TRUE) AS m"
    assert f"MEASURES FIRST(x) {there}\n" in sparkcep.transpile(sql, "spark", write).sql


def test_between_two_engines_the_functions_of_flink_stay_and_are_told():
    done = sparkcep.transpile("SELECT SPLIT_INDEX(s, ',', 1) FROM t", "flink", "trino")
    assert done.sql == "SELECT SPLIT_INDEX(s, ',', 1) FROM t" and [note.text for note in done.notes] == ["SPLIT_INDEX: Flink's function stays unchanged"]


@pytest.mark.parametrize(
    ("clause", "write", "place", "said"),
    [
        ("PATTERN (A) APPROX 1", "trino", "APPROX 1", "trino cannot express APPROX"),
        ("PATTERN (A) WINDOW 3 ROWS", "flink", "WINDOW 3 ROWS", "flink cannot express this WINDOW"),
        ("PATTERN (A) WINDOW 3", "snowflake", "WINDOW 3", "snowflake cannot express this WINDOW"),
        ("PATTERN (A ~B C)", "trino", "~B", "trino cannot express not in a pattern"),
        ("PATTERN (A | C)", "flink", "A | C", "flink cannot express alternate in a pattern"),
        ("PATTERN ((A B)+)", "flink", "(A B)+", "flink cannot express a quantifier of a group"),
        ("PATTERN (A??)", "flink", "A??", "flink cannot express this reluctant quantifier"),
        ("PATTERN (A+?)", "databricks", "A+?", "databricks cannot express this reluctant quantifier"),
        ("PATTERN (A {- B -})", "databricks", "{- B -}", "databricks cannot express exclude in a pattern"),
        ("AFTER MATCH SKIP TO A PATTERN (A)", "databricks", "A PATTERN", "databricks cannot express SKIP TO a variable"),
        ("AFTER MATCH SKIP TO NEXT ROW PATTERN (A)", "databricks", "AFTER", "databricks cannot express SKIP TO NEXT ROW"),
        ("ALL ROWS PER MATCH OMIT EMPTY MATCHES PATTERN (A)", "databricks", "ALL ROWS", "databricks cannot express these ROWS PER MATCH"),
        ("PATTERN ((^ A) | (B $))", "databricks", "^ A", "databricks cannot express an anchor inside of a pattern"),
        ("PATTERN (A $ B)", "databricks", "$ B", "databricks cannot express an anchor inside of a pattern"),
        ("MEASURES 1 + median(A.x) AS m PATTERN (A)", "databricks", "1 + median", "an aggregate other than AVG, COUNT, MAX, MIN, SUM in MEASURES"),
        ("MEASURES count(DISTINCT A.x) AS n PATTERN (A)", "databricks", "count(", "databricks cannot express DISTINCT in an aggregate"),
        ("MEASURES every(A.x > 1) AS e PATTERN (A)", "databricks", "every(", "an aggregate other than AVG"),
        ("MEASURES try_sum(A.x) AS s PATTERN (A)", "databricks", "try_sum(", "an aggregate other than AVG"),
        ("PATTERN (A) DEFINE A AS x > (SELECT max(z) FROM u)", "databricks", "x > (SELECT", "databricks cannot express a subquery in MEASURES and DEFINE"),
        ("PATTERN (A) DEFINE A AS x > avg(A.x)", "databricks", "x > avg", "databricks cannot express an aggregate in DEFINE"),
        ("PATTERN (A) SUBSET U = (A)", "snowflake", "U = (A)", "snowflake cannot express SUBSET"),
        ("ALL ROWS PER MATCH PATTERN (A)", "flink", "ALL ROWS", "flink cannot express these ROWS PER MATCH"),
        ("PATTERN (A) DEFINE A AS NEXT(x) > 1", "flink", "NEXT(x) > 1", "flink does not support NEXT"),
        ("MEASURES MATCH_COUNT() AS n PATTERN (A)", "trino", "MATCH_COUNT", "trino does not support MATCH_COUNT"),
    ],
)
def test_what_another_engine_cannot_say(clause, write, place, said):
    sql = f"SELECT * FROM t MATCH_RECOGNIZE ({clause})"
    with pytest.raises(ClauseError) as raised:
        sparkcep.transpile(sql, "spark", write)
    assert said in raised.value.message and raised.value.column == sql.index(place) + 1


def test_databricks_has_no_window_functions_in_the_clause():
    sql = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x PATTERN (A) DEFINE A AS x > avg(x) OVER (PARTITION BY k))"
    with pytest.raises(ClauseError, match="databricks cannot express a window function in MEASURES and DEFINE"):
        sparkcep.transpile(sql, "snowflake", "databricks")


def test_databricks_has_anchors_at_the_ends_and_five_aggregates():
    measures = "count(A.*) AS n, sum(A.x) AS s, avg(A.x) AS a, min(A.x) AS l, max(A.x) AS h"
    done = sparkcep.transpile(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x MEASURES {measures} PATTERN (^ A+ $) DEFINE A AS LAST(x) > PREV(x))", "spark", "databricks")
    assert "PATTERN (^ A+ $)" in done.sql and done.notes == ()


@pytest.mark.parametrize(("read", "statement", "said"), [
    ("trino", "SELECT * FROM {} ORDER BY b FETCH FIRST 2 ROWS WITH TIES", "does not support WITH TIES"),
    ("oracle", "SELECT * FROM {} ORDER BY b FETCH FIRST 10 PERCENT ROWS ONLY", "does not support a percentage of the rows"),
    ("duckdb", "SELECT * FROM {} ORDER BY b LIMIT 10%", "does not support a percentage of the rows"),
    ("duckdb", "SELECT * FROM a ASOF JOIN {} USING (k, b)", "does not support ASOF JOIN"),
    ("duckdb", "SELECT * FROM a POSITIONAL JOIN {}", "does not support POSITIONAL JOIN"),
    ("duckdb", "SELECT * FROM a ASOF LEFT JOIN {} ON a.k = m.k AND a.t >= m.t", "does not support ASOF JOIN"),
])  # fmt: skip
def test_what_sqlglot_would_leave_out_is_an_error(read, statement, said):
    for table in ("t", "t MATCH_RECOGNIZE (PARTITION BY k ORDER BY x MEASURES LAST(x) AS b PATTERN (a) DEFINE a AS x > 0)"):
        with pytest.raises(ClauseError) as raised:
            sparkcep.transpile(f"SELECT 1 AS one;\n{statement.format(table)}", read)
        assert said in raised.value.message and raised.value.line == 2
    assert "LIMIT 2" in sparkcep.transpile("SELECT * FROM t ORDER BY b FETCH FIRST 2 ROWS ONLY", read).sql
    asof = "SELECT * FROM a ASOF JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k"
    assert sparkcep.transpile(asof, "snowflake").sql == asof  # Spark has it, too
    alias = "SELECT * FROM a ASOF JOIN b ON asof.x = b.x"
    assert sparkcep.transpile(alias, "trino").sql == alias


@pytest.mark.parametrize(("read", "write", "frame"), [
    ("spark", "snowflake", "ORDER BY t RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
    ("trino", "snowflake", "ORDER BY t RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
    ("snowflake", "spark", "ORDER BY t NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"),
    ("spark", "trino", "ORDER BY t NULLS FIRST"),
])  # fmt: skip
def test_the_frame_of_the_last_value_is_that_of_its_engine(read, write, frame):
    for call in ("LAST_VALUE(x)", "LAST_VALUE(x) IGNORE NULLS"):
        text = sparkcep.transpile(f"SELECT {call} OVER (PARTITION BY k ORDER BY t) FROM t", read, write).sql
        assert frame.removesuffix(" NULLS FIRST") + ")" in text.replace(" NULLS FIRST", ""), text
    assert sparkcep.transpile("SELECT LAST_VALUE(x) OVER (PARTITION BY k) FROM t", "spark", "snowflake").sql.endswith("OVER (PARTITION BY k) FROM t")


@pytest.mark.parametrize(("call", "window"), [
    ("LAST_VALUE(x) OVER w", "WINDOW w AS (PARTITION BY k ORDER BY t)"), ("LAST_VALUE(x) OVER (w ORDER BY t)", "WINDOW w AS (PARTITION BY k)"),
    ("FIRST_VALUE(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY t)", ""), ("FIRST_VALUE(x, true) OVER w", "WINDOW w AS (PARTITION BY k ORDER BY t)"),
])  # fmt: skip
def test_the_frame_of_a_named_window_and_of_values_without_nulls(call, window):
    frame = "OVER (PARTITION BY k ORDER BY t NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM t"
    assert sparkcep.transpile(f"SELECT {call} FROM t {window}", "spark", "snowflake").sql.endswith(frame)
    for other in ("FIRST_VALUE(x)", "LAG(x) IGNORE NULLS"):
        assert "RANGE" not in sparkcep.transpile(f"SELECT {other} OVER (ORDER BY t) FROM t", "spark", "snowflake").sql


def test_window_functions_outside_of_the_clause_keep_their_names():
    text = sparkcep.transpile("SELECT LAST_VALUE(x) OVER (ORDER BY t), LAG(x) OVER (ORDER BY t) FROM t", "snowflake", "flink").sql
    assert "LAST_VALUE(x) OVER" in text and "LAG(x) OVER" in text


@pytest.mark.parametrize(("read", "text", "there"), [
    ("snowflake", "CREATE TABLE t (a REAL, b NUMBER, c TIMESTAMP_NTZ(9), d FLOAT4)", "CREATE TABLE t (a DOUBLE, b DECIMAL(38, 0), c TIMESTAMP_NTZ, d DOUBLE)"),
    ("snowflake", "SELECT CAST(x AS ARRAY(REAL)) FROM t", "SELECT CAST(x AS ARRAY<DOUBLE>) FROM t"),
    ("trino", "SELECT CAST(x AS ROW(a TIMESTAMP(6), b DECIMAL)) FROM t", "SELECT CAST(x AS STRUCT<a: TIMESTAMP, b: DECIMAL(38, 0)>) FROM t"),
    ("duckdb", "CREATE TABLE t (a TIMESTAMP_S, b DECIMAL)", "CREATE TABLE t (a TIMESTAMP_NTZ, b DECIMAL(18, 3))"),
])  # fmt: skip
def test_types_outside_of_casts(read, text, there):
    done = sparkcep.transpile(text, read)
    assert done.sql == there and done.notes == ()


def test_types_with_other_values_are_noted():
    done = sparkcep.transpile("CREATE TABLE t (a FLOAT, b NUMBER, c TIMESTAMP(9))", "oracle")
    assert done.sql == "CREATE TABLE t (a DOUBLE, b DOUBLE, c TIMESTAMP)" and [note.text.split()[0] for note in done.notes] == ["FLOAT", "NUMBER"]


def test_an_engine_that_is_not_known(capsys):
    assert main(["transpile", "--read", "mysql", "-e", "SELECT 1"]) == 2
    assert "trino, snowflake, oracle, flink" in capsys.readouterr().err


# row of the table in docs/coming_from.md -> cases of tests/transpiled/questions.test that show it, for each engine that has it
SHOWN_BY = {
    "ALL ROWS, unmatched rows": ("all_its_rows", "rows_in_no_match"),
    "SKIP TO a variable": ("on_from_the_last_row",),
    "groups with quantifiers, alternation": ("groups_again", "one_or_the_other"),
    "reluctant quantifiers": ("as_few_rows_as_may_be",),
    "PERMUTE": ("in_any_order",),
    "`^` `$`": ("at_the_begin", "at_the_end"),
    "exclusion `{- -}`": ("rows_left_out",),
    "SUBSET": ("subsets",),
    "PREV, NEXT": ("a_fall_and_a_rise", "two_rises_from_each_row"),
}
# -> cases of the engines' own files
SHOWN_ELSEWHERE = {
    "rows per match, if nothing is said": {"oracle/defaults", "trino/last_with_an_offset"},
    "the search goes on, if nothing is said": {"oracle/defaults", "trino/count_without_arguments"},
    "a bound on time": {"flink/within_takes_its_own_length", "flink/within_less"},
}
# what no other engine has, or none leaves out
OURS = {"DEFINE may be left out", "any rows between, negation, APPROX, PREF, TOP"}


def test_each_row_of_the_table_of_engines_is_shown_by_statements():
    text = (Path(__file__).resolve().parents[2] / "docs" / "coming_from.md").read_text(encoding="utf-8")
    table = next(part for part in text.split("\n\n") if part.startswith("|"))
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    engines = [name.split()[0].lower() for name in head[2:]]
    there = {f"{file.path.stem}/{case.name}" for file, case in CASES}
    assert {row[0] for row in rows} == {*SHOWN_BY, *SHOWN_ELSEWHERE, *OURS}
    assert set().union(*SHOWN_ELSEWHERE.values()) <= there
    for name, _, *cells in rows:
        for engine, cell in zip(engines, cells):
            parts = [part.strip() for part in cell.split(",")] if name.startswith("ALL ROWS") else [cell] * 2
            for case, part in zip(SHOWN_BY.get(name, ()), parts if len(parts) > 1 else parts * 2):
                has = part.startswith(("yes", "as ", "anywhere", "at ", "not "))
                assert (f"questions/{case}_{engine}" in there) == has, (name, engine)
    assert len(CASES) >= 150


@pytest.mark.parametrize(
    ("read", "condition", "error_class", "fragment"),
    [
        ("snowflake", "price > avg(price) over (rows between unbounded preceding and unbounded following)", "WINDOW_FUNCTION", None),
        ("trino", "price > LAST(PREV(price) + PREV(price, 2))", None, None),
        ("flink", "MATCH_PROCTIME() > price", "TRANSPILE", "MATCH_PROCTIME"), ("oracle", "ROWNUM > price", "TRANSPILE", "ROWNUM"), ("oracle", "TRUNC(price) > 1", "TRANSPILE", None),
    ],
)  # fmt: skip
def test_what_the_clause_would_refuse_is_an_error_at_its_place(read, condition, error_class, fragment):
    sql = f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY d\nMEASURES count(*) AS n PATTERN (A)\nDEFINE A AS {condition})"
    with pytest.raises(ClauseError) as caught:
        sparkcep.transpile(sql, read)
    assert error_class is None or caught.value.error_class == f"SPARKCEP.{error_class}"
    assert caught.value.line in (1, 3) if fragment is None else (caught.value.line, caught.value.fragment) == (3, fragment), caught.value
    assert "current_timestamp()" in str(caught.value) or "PROCTIME" not in condition
