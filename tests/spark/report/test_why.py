"""sparkcep.why in a session: the worked examples to the letter, what is refused, and values of many types."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException  # noqa: E402

import sparkcep  # noqa: E402
from sparkcep.cli import cli  # noqa: E402
from sparkcep.errors import ClauseError  # noqa: E402
from sparkcep.spark.errors.exceptions import ClauseParseException  # noqa: E402
from sparkcep.spark.session.session import sql_in  # noqa: E402
from sparkcep.spark.why import ask, counters  # noqa: E402
from sparkcep.tracing.search.trace import Trace  # noqa: E402
from tests.selection import first, one_in, slow  # noqa: E402
from tests.support.pages import check  # noqa: E402
from tests.support.why_examples import EXAMPLES  # noqa: E402
from tests.support.why_selection_examples import SELECTIONS  # noqa: E402
from tests.support.why_unfinished_examples import UNFINISHED  # noqa: E402

V_TABLE = """(VALUES ('A', 1, 10), ('A', 2, 9), ('A', 3, 8), ('A', 4, 11), ('B', 1, 5), ('B', 2, 6), ('B', 3, 5), (NULL, 1, 7)) AS ticks(symbol, day, price)"""
V = f"""SELECT * FROM {V_TABLE} MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day MEASURES LAST(day) AS last
  PATTERN (STRT DOWN{{2,}} UP) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
)"""


@pytest.mark.parametrize("example", one_in(4, EXAMPLES, wider=2), ids=lambda example: example.name)
def test_examples_as_statements(spark, example):
    why = sparkcep.why(spark, f"SELECT * FROM {example.table} MATCH_RECOGNIZE ({example.measured})", at=example.at, **example.arguments)
    assert str(why) == example.text
    assert why.verified


@pytest.mark.parametrize("example", first(SELECTIONS[::4], 2), ids=lambda example: example.name)
def test_examples_of_event_selections(spark, example):
    why = sparkcep.why(spark, f"SELECT * FROM {example.table} MATCH_RECOGNIZE ({example.measured})", at=example.at, **example.arguments)
    assert str(why) == example.text
    assert why.verified


@pytest.mark.parametrize("example", first(UNFINISHED[1::2], 1), ids=lambda example: example.name)
def test_examples_of_unfinished_matches(spark, example):
    why = sparkcep.why(spark, f"SELECT * FROM {example.table} MATCH_RECOGNIZE ({example.measured})", at=example.at, **example.arguments)
    assert str(why) == example.text
    assert why.verified


@pytest.mark.further
def test_the_clock_of_unfinished_matches_is_that_of_the_whole_input(spark):
    """Of a view, a DataFrame and a part of a long partition; one row of partition 2 makes that of partition 1 time out."""
    clause = "PARTITION BY k ORDER BY t MEASURES MATCH_STATUS() AS s ONE ROW PER MATCH SHOW TIMEOUT MATCHES AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) WINDOW 5 DEFINE A AS e = 'a', B AS e = 'b'"
    rows = ", ".join([*(f"(1, {t}, 'a')" for t in range(20)), "(2, 30, 'a')"])
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW clocked AS SELECT * FROM VALUES {rows} AS v(k, t, e)")
    try:
        timed_out, still_open = "SHOW TIMEOUT MATCHES returns this run: TIMED OUT at t 24, expected B.", "SHOW TIMEOUT MATCHES does not return this run: OPEN, expected B."
        statement = f"WITH some AS (SELECT * FROM clocked {{}}) SELECT * FROM some MATCH_RECOGNIZE ({clause})"
        assert timed_out in str(sparkcep.why(spark, statement.format(""), at="k = 1 AND t = 19"))
        assert still_open in str(sparkcep.why(spark, statement.format("WHERE k = 1"), at="t = 19"))
        assert still_open in str(sparkcep.why(spark.table("clocked"), clause=clause, at="t = 30"))
        assert timed_out in str(sparkcep.why(spark, statement.format(""), at="k = 1 AND t = 19", rows=8))
        whole = sparkcep.why(spark, statement.format(""), partitions=1)
        at = whole.lines.index("SHOW TIMEOUT MATCHES returns 0 matches and 1 unfinished match, over all rows:")
        assert whole.lines[at + 1 : at + 3] == ("  last row  TIMED OUT", "  A                 1")
    finally:
        spark.catalog.dropTempView("clocked")


@pytest.mark.parametrize("example", first(EXAMPLES[::3], 2), ids=lambda example: example.name)
def test_examples_over_data_frames(spark, example):
    frame = spark.sql(f"SELECT * FROM {example.table}")
    assert str(sparkcep.why(frame, clause=example.clause, at=example.at, **example.arguments)) == example.text


def test_keys_are_in_the_first_line(spark):
    assert str(sparkcep.why(spark, V, at="symbol = 'A' AND day = 2")).split("\n")[0] == "Row 2 (day 2) of symbol = 'A' is in match 1 as DOWN."
    assert str(sparkcep.why(spark, V, at="symbol = 'A'", match=1)).split("\n")[0] == "Row 1 (day 1) of symbol = 'A' is in match 1."
    why = sparkcep.why(spark, V, at="symbol IS NULL")
    assert why.verdict == "Row 1 (day 1) of symbol = NULL is in no match."
    assert why.hints == ("Hint: symbol is NULL here. All rows with a NULL key are one partition.",)


def test_further_columns(spark):
    """``show`` lists the rows of the answer with columns that the clause does not name."""
    why = sparkcep.why(spark, V, at="symbol = 'B' AND day = 2", show=["price * 10", "symbol"])
    assert str(why).split("\n")[-4:] == ["Rows:", "  row  day  price * 10  symbol", "    2    2          60     'B'", "    3    3          50     'B'"]
    assert why.shown == (("2", "2", "60", "'B'"), ("3", "3", "50", "'B'"))
    shown = sparkcep.why(spark, V, at="symbol = 'A'", match=1, show="price", redact="values").shown
    assert [row[0] for row in shown] == ["1", "2", "3", "4"] and all(re.fullmatch("v[0-9]+", text) for row in shown for text in row[1:])
    with pytest.raises(ClauseError, match=r"or show=\['prise'\] is not a list of expressions over the clause's input: .*`prise`"):
        sparkcep.why(spark, V, at="symbol = 'A' AND day = 1", show="prise")


def test_rows_beyond_three_have_their_first_line(spark):
    lines = str(sparkcep.why(spark, V, at="symbol = 'A'")).split("\n")
    assert [line for line in lines if line.startswith("Row")] == [f"Row {n} (day {n}) of symbol = 'A' is in match 1 as {v}." for n, v in enumerate(("STRT", "DOWN", "DOWN", "UP"), 1)]
    assert lines[-1] == "Row 4 (day 4) of symbol = 'A' is in match 1 as UP."


def test_no_row(spark):
    why = sparkcep.why(spark, V, at="day = 99")
    assert str(why).split("\n")[0] == "No row of the clause's input fulfils day = 99."
    assert str(why).split("\n")[1].startswith("Look at the input with: SELECT * FROM (VALUES ")
    assert [reason.reason for reason in why.reasons] == ["NO_SUCH_ROW"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"at": "day = 1"}, "at selects rows of 3 partitions: "),
        ({"match": 1}, "The input has 3 partitions: "),
        ({"at": "symbol = 'A'", "rows": 3}, "The partition has 4 rows, and rows is 3. Write rows=4, or ask about a smaller partition"),
        ({"at": "symbol = 'A'", "match": 4}, "match=4: the partition has 1 match. Write match=1"),
        ({"at": "symbol = 'A' AND day = 1", "expect": "DOWM"}, "expect='DOWM' is not a variable of PATTERN; did you mean DOWN?"),
        ({"at": "rand() < 0.5"}, "at='rand() < 0.5' has rand(), so it differs each time. Write conditions over the columns"),
        ({"at": "`rand`(5) < 0.5"}, "at='`rand`(5) < 0.5' has rand(), so it differs each time"),
        ({"at": "day ="}, "at='day =' is not one SQL condition"),
        ({"expect": "UP", "match": 1}, "expect needs a row"),
        ({"show": "price"}, "show needs rows. Write at="),
        ({"at": "day = 1 AND symbol = 'A'", "show": ["price +"]}, "show='price +' is not one SQL expression"),
        ({"at": "day = 1", "redact": "value"}, 'redact must be "values" or "all", not \'value\'. Did you mean values?'),
        ({"at": "day = 1", "which": "w"}, 'The statement has 1 clause: 1 (line 1). Write which="1"'),
    ],
)
def test_wrong_questions(spark, arguments, message):
    with pytest.raises(ClauseError) as caught:
        sparkcep.why(spark, V, **arguments)
    assert caught.value.error_class == "SPARKCEP.WHY"
    assert caught.value.message.startswith(message), caught.value.message


def test_a_column_with_the_name_of_a_random_function(spark):
    table = "(SELECT id AS uuid, id % 2 AS random FROM range(4))"
    why = sparkcep.why(spark, f"SELECT * FROM {table} MATCH_RECOGNIZE (ORDER BY uuid MEASURES 1 AS one PATTERN (A B) DEFINE B AS random = 1)", at="uuid = 1", show="random")
    assert why.verdict == "Row 2 (uuid 1) is in match 1 as B."


def test_the_message_about_partitions_has_a_condition_to_add(spark):
    with pytest.raises(ClauseError) as caught:
        sparkcep.why(spark, V, at="symbol IS NOT NULL AND day < 4")
    assert caught.value.message == "at selects rows of 2 partitions: symbol = 'A' (3), 'B' (3). Add AND symbol = 'A'"
    with pytest.raises(ClauseError) as caught:
        sparkcep.why(spark, V, at="symbol IS NOT NULL AND day < 4", redact="all")
    assert caught.value.message == "at selects rows of 2 partitions. Add a condition on symbol"


def test_one_of_several_clauses(spark):
    two = f"SELECT * FROM {V_TABLE} MATCH_RECOGNIZE (ORDER BY day, symbol MEASURES 1 AS x PATTERN (A)) v,\n{V_TABLE} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day MEASURES 1 AS y PATTERN (B C)) w"
    with pytest.raises(ClauseError) as caught:
        sparkcep.why(spark, two, at="day = 1")
    assert caught.value.message == 'The statement has 2 clauses: v (line 1), w (line 2). Write which="v"'
    assert str(sparkcep.why(spark, two, at="symbol = 'B' AND day = 3", which="w")).startswith("Row 3 (day 3) of symbol = 'B' is in no match.")
    assert str(sparkcep.why(spark, two, at="symbol = 'B' AND day = 2", which=2)).startswith("Row 2 (day 2) of symbol = 'B' is in match 1 as C.")


@pytest.mark.further
def test_input_of_any_kind(spark):
    """The clause's input may be a CTE, a subquery, a view or a join."""
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW why_ticks AS SELECT * FROM {V_TABLE}")
    clause = "MATCH_RECOGNIZE (PARTITION BY t.symbol ORDER BY t.day MEASURES 1 AS x PATTERN (A B) DEFINE B AS t.price > 10)"
    answers = {
        str(sparkcep.why(spark, text.format(clause), at="symbol = 'A' AND day = 3"))
        for text in (
            f"WITH t AS (SELECT * FROM {V_TABLE}) SELECT * FROM t {{}}",
            f"SELECT * FROM (SELECT * FROM {V_TABLE}) AS t {{}}",
            "SELECT * FROM why_ticks AS t {}",
            "WITH u AS (SELECT * FROM why_ticks), r AS (SELECT * FROM u AS t {}) SELECT * FROM r",
        )
    }
    assert len(answers) == 1 and answers.pop().startswith("Row 3 (day 3) of symbol = 'A' is in match 1 as A.")


def test_parameters(spark):
    text = f"SELECT * FROM {V_TABLE} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day MEASURES 1 AS x PATTERN (A) DEFINE A AS price > :low)"
    shown = sparkcep.why(spark, text, at="symbol = 'B' AND day = 1", args={"low": 100}).next
    assert [(one.comparison, one.left, one.right, one.result) for one in shown] == [("price > :low", "5", "100", False)]
    shown = sparkcep.why(spark, text.replace(":low", "?"), at="symbol = 'B' AND day = 1", args=[100]).next
    assert [(one.left, one.right, one.result) for one in shown] == [("5", "100", False)]


TYPES = [
    ("TIMESTAMP'2026-01-02 03:04:05'", "ts > TIMESTAMP'2027-01-01 00:00:00'", "2026-01-02 03:04:05"),
    ("DATE'2026-01-02'", "ts > DATE'2027-01-01'", "2026-01-02"),
    ("1.50BD", "ts > 2", "1.50"),
    ("CAST('NaN' AS DOUBLE)", "ts < 2", "nan"),
    ("1.25D", "ts > 2", "1.25"),
    ("'it''s'", "ts = 'x'", "'it''s'"),
    ("ARRAY(1, NULL)", "ts = ARRAY(3)", "[1, NULL]"),
    ("X'0AFF'", "ts = X'00'", "X'0AFF'"),
    ("true", "ts = false", "true"),
    ("INTERVAL '2' DAY", "ts > INTERVAL '3' DAY", "2 days, 0:00:00"),
    ("12345678901234567890123456789.5BD", "ts < 2", "12345678901234567890123456789.5"),
]


LONG = "SELECT id AS t, timestamp_seconds(id) AS ts, date_from_unix_date(CAST(id AS INT)) AS day, CASE WHEN id % 5 = 3 THEN 'a' ELSE 'b' END AS e, id % 2 AS k FROM range(4000)"


@pytest.mark.parametrize(
    "order, window, at, first, last",
    first([
        slow(pytest.param("t DESC", "20", "t = 1003", 1488, 1510)), pytest.param("ts", "INTERVAL '20' SECOND", "t = 1003", 491, 513), pytest.param("t", "9 ROWS", "t = 1003", 492, 512),
        pytest.param("t", "20", "t = 13", 1, 18), pytest.param("t", "20", "t = 1003", 491, 513), pytest.param("day", "INTERVAL '20' DAY", "t = 1003", 491, 513),
    ], 0, wider=4),
)
def test_a_part_of_a_long_partition(spark, order, window, at, first, last):
    """Of a long partition, the rows within one WINDOW are traced. The answer is that of the whole partition."""
    text = (
        f"SELECT * FROM ({LONG}) MATCH_RECOGNIZE (PARTITION BY k ORDER BY {order} MEASURES 1 AS m AFTER MATCH SKIP TO NEXT ROW WINDOW {window} "
        "PATTERN (A B{2} C) DEFINE A AS e = 'a' AND PREV(e, 2) = 'b', B AS e = 'b' AND LAST(A.e) = 'a', C AS e = 'c' OR NEXT(t) < 0)"
    )
    whole, part = sparkcep.why(spark, text, at=at), sparkcep.why(spark, text, at=at, rows=100)
    assert part.verified and part.rows == whole.rows and part.next == whole.next and part.reasons == whole.reasons
    assert str(part).split("\n") == [
        *str(whole).split("\n"),
        f"Hint: the partition has 2,000 rows. Only rows {first}-{last} were traced, those within one WINDOW, and matches are numbered among them.",
    ]
    with pytest.raises(ClauseError, match="The partition has 2,000 rows, and rows is 100. Write rows=2000"):
        sparkcep.why(spark, text, at=at.replace("t", "k = 1 AND t", 1), rows=100, match=1)
    with pytest.raises(ClauseError, match="The partition has 2,000 rows, and rows is 100. Write rows=2000"):
        sparkcep.why(spark, text.replace("SKIP TO NEXT ROW", "SKIP PAST LAST ROW"), at=at, rows=100)
    with pytest.raises(ClauseError, match=r"The partition has 2,000 rows, .*, and rows is 10. Write rows=2000"):
        sparkcep.why(spark, text, at=at, rows=10)


@pytest.mark.further
def test_windows_have_the_keys_of_the_clause(spark, monkeypatch):
    """If the clause has PARTITION BY, no statement of a question has a window without it. Spark warns of each such window."""
    run: list[str] = []

    def recorded(session, statement, *args, **held):
        run.append(statement)
        return sql_in(session, statement, *args, **held)

    many = V.replace(V_TABLE, f"(SELECT * FROM {V_TABLE} WHERE price > 5)").replace("UP AS", "UP AS price > 100 AND")
    part = f"SELECT * FROM ({LONG}) MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES 1 AS m AFTER MATCH SKIP TO NEXT ROW WINDOW 20 PATTERN (A B C) DEFINE A AS e = 'a')"
    best = f"SELECT * FROM {V_TABLE} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day MEASURES MATCH_SCORE() AS score PATTERN (A B) PREF MAX (round(stddev_pop(price), 2)) TOP 1)"
    asked = [
        (V, {"at": "symbol = 'A' AND day = 2"}), (V, {"at": "symbol = 'A'", "match": 1}), (V, {}), (many, {}), (many, {"at": "day = 1 AND symbol = 'B'"}),
        (part, {"at": "t = 1003", "rows": 100}), (best, {"at": "symbol = 'A' AND day = 2"}),
    ]  # fmt: skip
    monkeypatch.setattr(ask, "sql_in", recorded)
    answers = [sparkcep.why(spark, text, **arguments) for text, arguments in asked]
    assert all(why.verified for why in answers) and [reason.reason for reason in answers[4].reasons] == ["FILTERED"]
    assert sum(" OVER (PARTITION BY" in statement for statement in run) >= len(asked) - 1
    with pytest.raises(ClauseError, match=r"at selects rows of 4 partitions: .*, \.\.\.\. Add AND"):
        sparkcep.why(spark, V.replace("(NULL, 1, 7)", "(NULL, 1, 7), ('C', 1, 7)"), at="day = 1")
    assert not [statement for statement in run if re.search(r"OVER *\((?! *PARTITION BY)", statement)]


@pytest.mark.parametrize("by_match", [False, True], ids=["by Spark", "by the machine"])
def test_values_of_many_types(spark, by_match):
    """A side is shown alike, whether Spark or the engine's machine computes it."""
    columns = ", ".join(f"{value} AS c{i}" for i, (value, _, _) in enumerate(TYPES))
    names = [f"FIRST(A.c{i})" if by_match else f"c{i}" for i in range(len(TYPES))]
    conditions = " AND ".join(condition.replace("ts", name) for name, (_, condition, _) in zip(names, TYPES, strict=True))
    pattern = "A+ B" if by_match else "A B"
    text = f"SELECT * FROM (SELECT explode(sequence(1, 2)) AS id, {columns}) MATCH_RECOGNIZE (ORDER BY id MEASURES 1 AS x PATTERN ({pattern}) DEFINE A AS id = 1, B AS {conditions})"
    why = sparkcep.why(spark, text, at="id = 1")
    shown = [one for one in why.next if one.variable == "B"]
    assert [one.left for one in shown] == [value for _, _, value in TYPES]
    assert all(one.result is False for one in shown)


FAILS = "not computed: DIVIDE_BY_ZERO"


@pytest.mark.parametrize("condition", first(["LAST(A.d) <> 0 AND 10 / LAST(A.d) > 3", "d <> 0 AND 10 / d > 3"], 0, wider=2))
def test_a_side_that_fails_is_not_computed(spark, condition):
    """Under ANSI a guarded side fails for some row. It is shown without a value, and the others with theirs."""
    text = f"SELECT * FROM VALUES (1, 0), (2, 5) AS t(id, d) MATCH_RECOGNIZE (ORDER BY id MEASURES 1 AS x PATTERN (A) DEFINE A AS {condition})"
    why = sparkcep.why(spark, text, at="id = 2")
    assert {(one.left, one.result) for one in why.next} == {("5", True), ("2", False)}
    why = sparkcep.why(spark, text, at="id = 1")
    assert why.verified and [reason.reason for reason in why.reasons] == ["CONDITION_FALSE"]
    assert {(one.left, one.result, one.cause) for one in why.next} == {("0", False, ""), (FAILS, None, FAILS)}
    assert [line.split("  ")[-1] for line in str(why).split("\n") if line.strip().startswith(("A  10 /", "10 /"))] == [FAILS]
    assert sparkcep.why(spark, text).verified


def test_a_name_that_the_input_lacks(spark):
    """In ``at`` it is an error about ``at``, in the statement that of the statement. Neither shows a query of ours."""
    with pytest.raises(ClauseParseException, match=r"at='dai = 1' is not a condition over the clause's input: .*`dai`") as caught:
        sparkcep.why(spark, V, at="dai = 1")
    assert caught.value.error_class == "SPARKCEP.WHY" and "__" not in str(caught.value)
    wrong = V.replace("price < PREV(price)", "prise < PREV(price)")
    assert wrong != V
    with pytest.raises(AnalysisException) as own:
        spark.sql(wrong).collect()
    with pytest.raises(AnalysisException) as asked:
        sparkcep.why(spark, wrong, at="symbol = 'B' AND day = 1")
    assert str(asked.value) == str(own.value) and "prise" in str(own.value)


def test_redaction(spark):
    spark.conf.set("spark.sparkcep.why.redact", "values")
    try:
        why = sparkcep.why(spark, V, at="symbol = 'B' AND day = 1")
        assert str(why).split("\n")[0] == "Row 1 (day v1) of symbol = k1 is in no match."
        assert "'B'" not in why.to_json().replace("symbol = 'B' AND day = 1", "")
        assert "left" in sparkcep.why(spark, V, at="symbol = 'B' AND day = 1", redact="all").to_pandas().columns
    finally:
        spark.conf.unset("spark.sparkcep.why.redact")


def test_json(spark):
    found = json.loads(sparkcep.why(spark, V, at="symbol = 'B' AND day = 1").to_json())
    assert found["schema"] == 1 and found["question"]["at"] == "symbol = 'B' AND day = 1"
    assert {one["comparison"] for one in found["next"]} == {"price < PREV(price)"}


@pytest.fixture
def command(spark, monkeypatch, tmp_path):
    """Runs ``sparkcep why`` in the session of the tests. Returns the exit code."""
    monkeypatch.setattr(cli, "_with_spark", lambda options, work: work(spark))
    (tmp_path / "ticks.csv").write_text("symbol,day,price\n" + "".join(f"A,{day},{price}\n" for day, price in enumerate((10, 9, 8, 8), 1)))
    (tmp_path / "query.sql").write_text(V.replace(V_TABLE, "ticks"))
    return lambda *words: cli.main(["why", str(tmp_path / "query.sql"), "--table", f"ticks={tmp_path / 'ticks.csv'}", *words])


@pytest.mark.further
def test_command(command, capsys, tmp_path):
    assert command("--at", "day = 3") == 0
    assert capsys.readouterr().out.startswith("Row 3 (day 3) of symbol = 'A' is in no match.\n")
    assert command("--at", "day = 3", "--format", "csv", "--redact", "values") == 0
    assert capsys.readouterr().out.startswith("partition,row,start_row,role,variable,comparison,left,right,result,cause,alone\nsymbol = k1,")
    assert command("--at", "day = 3", "--format", "json", "--output", str(tmp_path / "why.json")) == 0
    assert json.loads((tmp_path / "why.json").read_text())["rows"] == [3]
    assert command("--at", "day = 3", "--format", "html", "--output", str(tmp_path / "why.html")) == 0
    assert check((tmp_path / "why.html").read_text()).count("svg") == 1
    capsys.readouterr()
    assert command("--match", "2") == 2
    assert "[SPARKCEP.WHY] match=2: the partition has 0 matches" in capsys.readouterr().err


@pytest.mark.further
def test_command_of_a_trace_that_differs(command, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(Trace, "truth", lambda self, comparison, row, run: True)
    assert command("--at", "day = 3") == 3
    assert capsys.readouterr().out.startswith("The trace differs from the engine. This is a bug of sparkcep.\n")
    assert command("--at", "day = 3", "--output", str(tmp_path / "why.txt")) == 3
    found = capsys.readouterr()
    assert f"written to {tmp_path / 'why.txt'}.report.json" in found.out and "names instead of the values" in found.err
    report = json.loads((tmp_path / "why.txt.report.json").read_text())
    assert report["matches"]["engine"] == [] and len(report["rows"]) == 4 and report["plan"]["variables"] == ["STRT", "DOWN", "UP"]


def test_a_sample_of_partitions(spark):
    """The counts are over all rows, the traces over the sample."""
    lines = str(sparkcep.why(spark, V, partitions=1)).split("\n")
    assert lines[0] in [f"{what} in {n} rows of 1 partition. Sample: 1 of 3 partitions." for what, n in (("1 match", 4), ("No match", 3), ("No match", 1))]
    assert lines[1:5] == [
        "Conditions, over all rows:",
        "                             true  false  NULL",
        "  DOWN  price < PREV(price)     3      2     3",
        "  UP    price > PREV(price)     2      3     3",
    ]
    whole = sparkcep.why(spark, V)
    assert str(whole).startswith("1 match in 8 rows of 3 partitions.\n")
    assert whole.hints == ("Hint: 1 row with a NULL key in PARTITION BY; such rows are one partition.",)


@pytest.mark.further
def test_a_sample_of_a_long_partition(spark, monkeypatch):
    """NEXT reads a row that is not fetched: the trace and the engine agree about the last row of the sample."""
    text = "SELECT * FROM (SELECT id AS t FROM range(9)) MATCH_RECOGNIZE (ORDER BY t MEASURES 1 AS one PATTERN (A) DEFINE A AS NEXT(t) > t)"
    for rows, found in ((3, "3 matches in 3 rows"), (8, "8 matches in 8 rows"), (9, "8 matches in 9 rows")):
        assert str(sparkcep.why(spark, text, rows=rows)).startswith(f"{found} of 1 partition."), rows
    monkeypatch.setattr(counters, "MOST_SAMPLED", 3)
    assert str(sparkcep.why(spark, text.replace("A AS", "A AS t < 2 AND"))).split("\n")[0] == "2 matches in 3 rows of 1 partition. Sample: 1 of 1 partitions."
    assert "They ended because the sample ended (3)." in str(sparkcep.why(spark, text.replace("(A)", "(A{3} B)")))


CAST_TABLE = "VALUES (1, '9', TIMESTAMP'2026-01-01 10:00:00', 1.5D), (2, '10', TIMESTAMP'2026-01-02 10:00:00', 2.5D) AS t(id, code, ts, x)"


@pytest.mark.parametrize(
    "condition, hints",
    one_in(5, [
        pytest.param("code > 5", ['Hint: in "code > 5" Spark casts code from STRING to BIGINT; it is true in 2 of 2 rows.']),
        pytest.param("A.code > 5 AND count(A.*) > 0", ['Hint: in "A.code > 5" Spark casts A.code from STRING to BIGINT; it is true in 2 of 2 rows.']),
        pytest.param("CAST(code AS INT) > 5", []),
        pytest.param("id > 1.5 AND x > id", []),
        pytest.param("count(A.*) > 5", []),
        pytest.param("ts > '2026-01-02'", ["Hint: in \"ts > '2026-01-02'\" Spark reads the text '2026-01-02' in the time zone of the session, {zone}; it is true in 1 of 2 rows."]),
        pytest.param("ts > '2026-01-02 00:00:00Z'", []),
        pytest.param("ts >= DATE'2026-01-02'", ["Hint: in \"ts >= DATE'2026-01-02'\" Spark reads DATE'2026-01-02' as midnight in the time zone of the session, {zone}; it is true in 1 of 2 rows."]),
    ]),
)
def test_casts_of_sides(spark, condition, hints):
    """Hints about casts come from Spark's analysed plan; a cast that the user wrote is not one, nor are numbers of two sizes."""
    text = f"SELECT * FROM {CAST_TABLE} MATCH_RECOGNIZE (ORDER BY id MEASURES 1 AS m PATTERN (A{{9}}) DEFINE A AS {condition})"
    found = [hint for hint in sparkcep.why(spark, text).hints if "Spark" in hint]
    assert found == [hint.format(zone=spark.conf.get("spark.sql.session.timeZone")) for hint in hints]


def test_an_empty_input(spark):
    text = "SELECT * FROM (SELECT 1 AS id WHERE false) MATCH_RECOGNIZE (ORDER BY id MEASURES 1 AS x PATTERN (A))"
    assert str(sparkcep.why(spark, text)) == "The clause's input is empty."
    assert str(sparkcep.why(spark, text, match=1)) == "The clause's input is empty."


E15 = """No row of the clause's input fulfils day = 4. One row of ticks does; WHERE of the subquery (line 1) leaves it out:
  volume > 1000  900 > 1000  false"""


def test_rows_that_a_where_leaves_out(spark):
    """E15 to the letter, and through CTEs; a join stops the question."""
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW ticks AS SELECT * FROM VALUES (1, 5, 2000), (4, 6, 900) AS t(day, price, volume)")
    clause = "MATCH_RECOGNIZE (ORDER BY day MEASURES 1 AS x PATTERN (A B) DEFINE B AS price > A.price)"
    why = sparkcep.why(spark, f"SELECT * FROM (SELECT * FROM ticks WHERE volume > 1000) {clause}", at="day = 4")
    assert str(why) == E15 and [reason.reason for reason in why.reasons] == ["FILTERED"]
    two = f"WITH a AS (SELECT * FROM ticks WHERE price > 0 AND NOT (day = 4 OR volume IS NULL)),\nb AS (SELECT * FROM a) SELECT * FROM b {clause}"
    assert str(sparkcep.why(spark, two, at="day = 4")).split("\n")[0].endswith("One row of ticks does; WHERE of a (line 1) leaves it out:")
    joined = f"SELECT * FROM (SELECT t.* FROM ticks t JOIN ticks u ON t.day = u.day WHERE t.volume > 1000) {clause}"
    assert str(sparkcep.why(spark, joined, at="day = 4")).split("\n")[1].startswith("Look at the input with: SELECT * FROM (SELECT t.* FROM ticks t JOIN")
    with_names = "WITH v AS (SELECT * FROM ticks WHERE price > 0) SELECT * FROM v JOIN (SELECT 1 AS day) USING (day)"  # the join leaves the row out
    assert str(sparkcep.why(spark, f"{with_names} {clause}", at="day = 4")).split("\n")[1] == f"Look at the input with: {with_names}"
    assert str(sparkcep.why(spark, f"SELECT * FROM (SELECT * FROM ticks WHERE volume > 1000) AS t {clause}", at="day = 4")) == E15


@pytest.mark.further
def test_blanks_in_names_and_strings(spark):
    """They are part of them, also in the queries that find values and rows."""
    table = "VALUES (1, 'a  b', 10), (2, 'a b', 5) AS t(day, status, `total  price`)"
    clause = "MATCH_RECOGNIZE (ORDER BY day MEASURES 1 AS one PATTERN (A) DEFINE A AS {})"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW blanks AS SELECT * FROM {table}")
    why = sparkcep.why(spark, f"SELECT * FROM blanks {clause.format('`total  price` > 10')}", at="day = 1")
    assert why.verdict == "Row 1 (day 1) is in no match." and [name for name, _ in why.timelines[0].values] == ["day", "`total  price`"]
    condition = "status = -- with two blanks\n'a  b'"
    why = sparkcep.why(spark, f"SELECT * FROM (SELECT * FROM blanks WHERE day > 2 OR status = 'a b') {clause.format(condition)}")
    hint = "Hint: no row of the clause's input fulfils status = 'a  b'. One row of blanks does; WHERE of the subquery (line 1) leaves it out."
    assert hint in why.hints
    look = str(sparkcep.why(spark, f"SELECT * FROM (SELECT * FROM blanks -- all\n WHERE status = 'a  b' LIMIT 1) {clause.format('true')}", at="day = 9")).split("\n")[1]
    assert look == "Look at the input with: SELECT * FROM (SELECT * FROM blanks WHERE status = 'a  b' LIMIT 1)"


@pytest.mark.further
def test_partitions_of_a_lateral_view(spark):
    """No join may follow a LATERAL VIEW. A key has the name of a function, which a subquery would read instead."""
    table = "(SELECT * FROM VALUES (1, array(1, 2, 3)), (2, array(5, 4)) AS t(user, a)) LATERAL VIEW explode(a) v AS x"
    text = f"SELECT * FROM {table} MATCH_RECOGNIZE (PARTITION BY user ORDER BY x MEASURES 1 AS one PATTERN (A B C) DEFINE B AS x > A.x)"
    assert str(sparkcep.why(spark, text, at="x = 4")).startswith("Row 1 (x 4) of user = 2 is in no match.\nNo match starts here. The run that got farthest took rows 1-2: A B.")
    assert str(sparkcep.why(spark, text)).startswith("1 match in 5 rows of 2 partitions.")


@pytest.mark.further
def test_a_where_that_guards_a_comparison(spark):
    """Under ANSI a cast fails for a row that WHERE leaves out. The answer shows the part of WHERE before the cast."""
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW raw AS SELECT * FROM VALUES (1, 'num', '10'), (2, 'num', '20'), (4, 'text', 'abc') AS t(id, kind, txt)")
    clause = "MATCH_RECOGNIZE (ORDER BY id MEASURES 1 AS one PATTERN (A) DEFINE A AS CAST(txt AS INT) > 100)"
    why = sparkcep.why(spark, f"SELECT * FROM (SELECT * FROM raw WHERE kind = 'num') {clause}")
    assert str(why).startswith("No match in 2 rows of 1 partition.") and not [hint for hint in why.hints if "fulfils" in hint]
    text = f"SELECT * FROM (SELECT * FROM raw WHERE kind = 'num' AND CAST(txt AS INT) > 0) {clause}"
    assert str(sparkcep.why(spark, text, at="id = 4")).split("\n") == [
        "No row of the clause's input fulfils id = 4. One row of raw does; WHERE of the subquery (line 1) leaves it out:",
        "  kind = 'num'  'text' = 'num'  false",
    ]
    assert str(sparkcep.why(spark, text, at="CAST(txt AS INT) = 4")).split("\n")[1].startswith("Look at the input with: SELECT * FROM (SELECT * FROM raw WHERE")


def test_rows_that_a_where_of_a_view_leaves_out(spark):
    """The question goes down through views, renamed columns included. The view's own WHERE is named."""
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW ticks AS SELECT * FROM VALUES (1, 5, 2000), (4, 6, 900) AS t(day, price, volume)")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW large AS SELECT day + 1 AS d, price FROM ticks WHERE volume > 1000 AND price > 0")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW larger AS SELECT * FROM large WHERE price < 100")
    text = "WITH ticks AS (SELECT 1 AS x), r AS (SELECT d AS t, price FROM larger) SELECT * FROM r MATCH_RECOGNIZE (ORDER BY t MEASURES 1 AS x PATTERN (A B) DEFINE B AS price > A.price)"
    why = sparkcep.why(spark, text, at="r.t = 5 OR t = 6")
    assert str(why).split("\n") == [
        "No row of the clause's input fulfils r.t = 5 OR t = 6. One row of ticks does; WHERE of large (a view) leaves it out:",
        "  volume > 1000  900 > 1000  false",
    ]
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW summed AS SELECT day, sum(price) AS price FROM ticks WHERE volume > 1000 GROUP BY day")
    why = sparkcep.why(spark, "SELECT * FROM summed MATCH_RECOGNIZE (ORDER BY day MEASURES 1 AS x PATTERN (A))", at="day = 4")
    assert str(why).split("\n")[1] == "Look at the input with: SELECT * FROM summed"
    spark.sql(f"SELECT * FROM {V_TABLE}").createOrReplaceTempView("of_a_frame")
    why = sparkcep.why(spark, "SELECT * FROM of_a_frame MATCH_RECOGNIZE (ORDER BY day MEASURES 1 AS x PATTERN (A))", at="day = 40")
    assert [reason.reason for reason in why.reasons] == ["NO_SUCH_ROW"]


def test_stored_views(spark):
    """A statement over a view is a question about the view's clause, which is printed from its plan."""
    spark.sql("DROP VIEW IF EXISTS dips")
    spark.sql("DROP VIEW IF EXISTS stored_ticks")
    spark.sql("CREATE VIEW stored_ticks AS SELECT * FROM VALUES (1, 10, 2000), (2, 9, 1500), (3, 8, NULL), (4, 11, 1200) AS t(day, price, volume)")
    clause = "ORDER BY day MEASURES FIRST(day) AS first PATTERN (STRT DOWN{2,} UP) DEFINE DOWN AS price < PREV(price) AND volume > 1000, UP AS price > LAST(DOWN.price)"
    spark.sql(f"CREATE VIEW dips AS WITH some AS (SELECT * FROM stored_ticks WHERE price < 12) SELECT * FROM some MATCH_RECOGNIZE ({clause})")
    try:
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW of_dips AS SELECT first FROM dips WHERE first > 0")
        for text in ("SELECT * FROM dips", "SELECT d.first FROM dips AS d WHERE first > 5", "SELECT count(*) FROM of_dips"):
            why = sparkcep.why(spark, text, at="day = 1")
            assert why.verified and str(why).split("\n")[1:] == [
                "No match starts here. The run that got farthest took rows 1-2: STRT DOWN.",
                "  It ended at row 3 (day 3). The pattern lets come next:",
                "    DOWN  volume > 1000        NULL > 1000  NULL: volume is NULL in row 3",
                "          price < PREV(price)  8 < 9        true",
                '  If "volume > 1000" were true at row 3, rows 1-4 would match: STRT DOWN DOWN UP.',
            ]
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW others AS SELECT * FROM stored_ticks MATCH_RECOGNIZE ({clause})")
        with pytest.raises(Exception, match=r'SPARKCEP.WHY.*The statement has 2 views with clauses: dips, others. Write which="dips"'):
            sparkcep.why(spark, "SELECT * FROM dips JOIN others USING (first)", at="day = 1")
        assert sparkcep.why(spark, "SELECT * FROM dips JOIN others USING (first)", at="day = 1", which="others").verified
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW stored_ticks AS SELECT 1 AS day, 2 AS price, 3 AS volume")
        with pytest.raises(Exception, match="SPARKCEP.WHY.*The view dips reads a table stored_ticks, which a temporary view of this session hides"):
            sparkcep.why(spark, "SELECT * FROM dips", at="day = 1")
    finally:
        for view in ("stored_ticks", "others", "of_dips"):
            spark.catalog.dropTempView(view)
        spark.sql("DROP VIEW dips")
        spark.sql("DROP VIEW stored_ticks")


def test_data_frames_with_other_keys(spark):
    """Keys may be arguments. A clause may lack MEASURES, also with ORDER BY ... DESC."""
    frame = spark.sql(f"SELECT * FROM {V_TABLE}")
    pattern = "PATTERN (A B) DEFINE B AS price > 10"
    texts = {
        str(sparkcep.why(frame, clause=f"ORDER BY day DESC NULLS LAST {pattern}", at="symbol IS NULL")).split("\n")[0],
        str(sparkcep.why(frame, clause=pattern, order_by="day DESC NULLS LAST", at="symbol IS NULL")).split("\n")[0],
    }
    assert len(texts) == 1 and "(day 1) is in" in texts.pop()
    assert str(sparkcep.why(frame, clause=pattern, partition_by="symbol", order_by="day", at="symbol IS NULL")).startswith("Row 1 (day 1) of symbol = NULL is in no match.")
    with pytest.raises(TypeError, match="or a DataFrame and clause="):
        sparkcep.why(spark, V, clause=pattern)


@pytest.fixture
def session_zone(spark):
    """Sets the session's time zone for a test."""
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", before)


def test_times_have_the_clock_of_the_session(spark, session_zone):
    session_zone("America/New_York")
    answer = sparkcep.why(spark, """
        SELECT * FROM VALUES (TIMESTAMP'2026-11-01 00:30:00', 1), (TIMESTAMP'2026-11-01 01:30:00', 2) AS t(day, v)
        MATCH_RECOGNIZE (ORDER BY day MEASURES LAST(v) AS v PATTERN (A B) DEFINE B AS day > TIMESTAMP'2026-11-01 02:00:00')""", at="v = 1")
    assert answer.verdict == "Row 1 (day 2026-11-01 00:30:00) is in no match." and "2026-11-01 01:30:00 > " in str(answer)


@pytest.mark.further
def test_keys_and_windows_have_the_clock_of_the_session(spark, session_zone):
    session_zone("Asia/Tokyo")
    table = "VALUES (TIMESTAMP'2026-01-02 07:00:00', 1), (TIMESTAMP'2026-01-02 08:30:00', 2) AS t(ts, v)"
    clause = "MATCH_RECOGNIZE (PARTITION BY date_trunc('{}', ts) ORDER BY v MEASURES 1 AS one PATTERN (A B C))"
    why = sparkcep.why(spark, f"SELECT * FROM {table} {clause.format('DAY')}", at="v = 1")
    assert why.verdict == "Row 1 (v 1) of date_trunc('DAY', ts) = 2026-01-02 00:00:00 is in no match."
    hour = "date_trunc('HOUR', ts) = TIMESTAMP'2026-01-02 07:00:00'"
    with pytest.raises(ClauseParseException, match=re.escape(f"Add AND {hour}")):
        sparkcep.why(spark, f"SELECT * FROM {table} {clause.format('HOUR')}", at="v > 0")
    assert sparkcep.why(spark, f"SELECT * FROM {table} {clause.format('HOUR')}", at=f"v > 0 AND {hour}").verified
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW clocks AS SELECT * FROM {table}")
    lines = str(sparkcep.why(spark, f"SELECT * FROM (SELECT * FROM clocks WHERE ts > TIMESTAMP'2026-01-02 08:00:00') {clause.format('DAY')}", at="v = 1")).split("\n")
    assert lines[1] == "  ts > TIMESTAMP'2026-01-02 08:00:00'  2026-01-02 07:00:00 > TIMESTAMP'2026-01-02 08:00:00'  false"
    ranked = """ORDER BY ts MEASURES WINDOW_START() AS since EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B)
        WINDOW INTERVAL '2' HOUR SLIDE INTERVAL '2' HOUR PREF MAX (B.v) TOP 1"""
    text = f"SELECT * FROM {table} MATCH_RECOGNIZE ({ranked})".replace("07:00:00", "08:00:00")
    (since,) = spark.sql(f"SELECT string(since) FROM ({text})").collect()[0]
    assert sparkcep.why(spark, text, at="v = 1").verdict == f"Row 1 (ts 2026-01-02 08:00:00) is in match 1 of the window from {since} as A."
