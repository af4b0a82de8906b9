"""sparkcep.why over Spark Connect, and in a classic session without the JVM extension: the worked examples to the letter.

One process cannot hold a classic and a remote session, so each kind of session runs in a process of its own, and the tests judge
its report.
"""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc")

from tests.selection import slow  # noqa: E402
from tests.spark.programs import connected  # noqa: E402
from tests.support.why_examples import EXAMPLES  # noqa: E402

pytestmark = pytest.mark.process

CLIENT = """
import json, sys

from pyspark.sql import SparkSession
import sparkcep
from sparkcep.errors import ClauseError
from tests.support.why_examples import EXAMPLES

kind, REPORT = sys.argv[1:]
builder = SparkSession.builder
builder = builder.remote("local[2]") if kind == "connect" else builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
report = {"module": type(spark).__module__, "statements": {}, "frames": {}, "json": {}, "data": {}}
if kind == "connect":
    sparkcep.enable(spark)
else:
    report["extension"] = "sparkcep" in spark._jsparkSession.sessionState().sqlParser().getClass().getName()
for number, example in enumerate(EXAMPLES):
    why = sparkcep.why(spark, f"SELECT * FROM {example.table} MATCH_RECOGNIZE ({example.measured})", at=example.at, **example.arguments)
    report["statements"][example.name] = str(why)
    report["data"][example.name] = why.to_pandas().astype(str).values.tolist()
    report["json"][example.name] = json.loads(why.to_json())["lines"]
    frame = spark.sql(f"SELECT * FROM {example.table}")
    if number % 4 == 0:
        report["frames"][example.name] = str(sparkcep.why(frame, clause=example.clause, at=example.at, **example.arguments))

table = "VALUES (1, '9', TIMESTAMP'2026-01-01 10:00:00'), (2, '10', TIMESTAMP'2026-01-02 10:00:00') AS t(id, code, ts)"
clause = "MATCH_RECOGNIZE (ORDER BY id MEASURES 1 AS m PATTERN (A{9}) DEFINE A AS code > :low AND ts > '2026-01-02')"
report["hints"] = [hint for hint in sparkcep.why(spark, f"SELECT * FROM {table} {clause}", args={"low": 5}).hints if "Spark" in hint]
spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW codes AS SELECT * FROM (SELECT * FROM {table}) WHERE id < 2")
text = "SELECT * FROM codes MATCH_RECOGNIZE (ORDER BY id MEASURES 1 AS m PATTERN (A))"
report["filtered"] = str(sparkcep.why(spark, text, at="id = 2"))
try:
    sparkcep.why(spark, text, at="no_such = 2")
except ClauseError as error:
    report["name"] = [error.error_class, error.message]
try:
    sparkcep.why(spark, text, at="id = 1", rows=0)
except ClauseError as error:
    report["rows"] = [error.error_class, error.message]
divided = "VALUES (1, 0), (2, 5) AS t(id, d) MATCH_RECOGNIZE (ORDER BY id MEASURES 1 AS x PATTERN (A) DEFINE A AS d <> 0 AND 10 / d > 3)"
report["failing"] = [[one.left, one.cause] for one in sparkcep.why(spark, f"SELECT * FROM {divided}", at="id = 1").next]
with open(REPORT, "w") as out:
    json.dump(report, out)
spark.stop()
"""


@pytest.fixture(scope="module", params=[slow("connect"), slow("classic")])
def report(request, tmp_path_factory):
    home = tmp_path_factory.mktemp(request.param)
    return {"kind": request.param} | connected(CLIENT, [request.param, str(home / "report.json")], home, home / "report.json")


def test_the_session(report):
    assert report["module"].startswith("pyspark.sql.connect." if report["kind"] == "connect" else "pyspark.sql.session")
    assert not report.get("extension")


def test_examples(report):
    """As statements, over DataFrames, and in both forms of data."""
    texts = {example.name: example.text for example in EXAMPLES}
    assert report["statements"] == texts and report["frames"] == {example.name: example.text for example in EXAMPLES[::4]}
    assert {name: "\n".join(lines) for name, lines in report["json"].items()} == texts
    assert report["data"]["E1"] == [
        ["", "3", "1", "next", "DOWN", "price < PREV(price)", "8", "9", "True", "", "False"],
        ["", "3", "1", "next", "DOWN", "volume > 1000", "NULL", "1000", "None", "volume is NULL in row 3", "True"],
    ]
    assert json.dumps(report["data"]).count('"next"') > 8


def test_hints_of_the_analysed_plan(report):
    casts, zone = report["hints"]
    assert casts == 'Hint: in "code > :low" Spark casts code from STRING to BIGINT; it is true in 2 of 2 rows.'
    assert zone.startswith("Hint: in \"ts > '2026-01-02'\" Spark reads the text '2026-01-02' in the time zone of the session, ")


def test_a_view_that_leaves_the_row_out(report):
    """A classic session knows the text of a temporary view. Over Connect the answer has the query to look with."""
    first, second = report["filtered"].split("\n")
    assert first.startswith("No row of the clause's input fulfils id = 2.")
    assert second == ("Look at the input with: SELECT * FROM codes" if report["kind"] == "connect" else "  id < 2  2 < 2  false")


def test_errors(report):
    assert report["name"][0] == report["rows"][0] == "SPARKCEP.WHY"
    assert report["name"][1].startswith("at='no_such = 2' is not a condition over the clause's input: ")
    assert report["rows"][1] == "The partition has 1 rows, and rows is 0. Write rows=1, or ask about a smaller partition"


def test_a_side_that_fails(report):
    failed = "not computed: DIVIDE_BY_ZERO"
    assert sorted(report["failing"]) == [["0", ""], [failed, failed]]
